"""The statistics that can be asked for: one class each, one table for all front ends.

A statistic names what is asked. It says under which names SQL and Python know it,
which values it suits, what it measures (parts) and how the answer follows from them
(a formula). Adding a statistic is adding a class here.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Final, Self

from discreet._dataclass import dataclass
from discreet._exact import show
from discreet.errors import ParameterError
from discreet.plan._expr import Expr
from discreet.plan._families import Moment
from discreet.plan._formula import Formula, Mean, Mode, Quantile, Spread, Total
from discreet.plan._moments import Pairwise, Scaled, cells_of_pair
from discreet.plan._relation import Measure, MeasureKind
from discreet.plan._rounding import off_of
from discreet.plan._splines import Knots, Splines, cells_of_splines, spline_whole
from discreet.plan._statistic import Fluent, Name, Statistic
from discreet.plan._types import Kind, Type
from discreet.plan._variances import PublicVariance

if TYPE_CHECKING:
    from discreet.plan._lower import Lowering

_NUMBERS: Final = frozenset({Kind.NUMBER, Kind.BOOLEAN})
_ORDERED: Final = frozenset({Kind.NUMBER, Kind.DATE, Kind.TIMESTAMP})
_LISTED: Final = frozenset({Kind.CATEGORY, Kind.BOOLEAN})


@dataclass(frozen=True)
class Count(Statistic):
    """Rows; with an expression, rows where it is not NULL."""

    adds_up = True
    word = "count"
    moment = Moment.COUNT
    needs_expr = False
    names = (Name("COUNT"), Name("COUNTIF"), Name("COUNT_IF"))
    fluent = (
        Fluent("count", "COUNT", "Count rows; with an expression, those where it is not NULL."),
    )

    @classmethod
    def of(cls, expr: Expr | None, **parameters: object) -> Self:
        """A value that cannot be NULL is counted wherever there is a row."""
        return cls(expr if expr is not None and expr.type.nullable else None, **parameters)

    @property
    def row_values(self) -> tuple[Fraction, Fraction]:
        """One, or nothing where the value is NULL."""
        return Fraction(int(self.expr is None)), Fraction(1)

    def lower(self, low: Lowering) -> Formula:
        """A vector, or a combination of what a family measures."""
        return low.total(self.expr, Moment.COUNT)


@dataclass(frozen=True)
class CountDistinct(Statistic):
    """How many different values a column has."""

    word = "count distinct"
    bounded = False
    names = (Name("APPROX_COUNT_DISTINCT"),)
    fluent = (
        Fluent(
            "count_distinct",
            "COUNT DISTINCT",
            "Count different values; of the unit column, units.",
        ),
    )

    def lower(self, low: Lowering) -> Formula:
        """Measure one vector: the estimate is its total."""
        return Total(low.vector(Measure(MeasureKind.DISTINCT, self.expr)), Fraction(1))

    def __str__(self) -> str:
        return f"count(distinct {self._value.describe()})"


@dataclass(frozen=True)
class CountUnits(Statistic):
    """How many different units have rows."""

    word = "count units"
    needs_expr = False

    def lower(self, low: Lowering) -> Formula:
        """Measure one vector: the estimate is its total."""
        return Total(low.units(), Fraction(1))

    def __str__(self) -> str:
        return "count(units)"


@dataclass(frozen=True)
class Sum(Statistic):
    """The sum of a column, clamped to its bounds."""

    adds_up = True
    word = "sum"
    moment = Moment.SUM
    suits = _NUMBERS
    must = "a number"
    names = (Name("SUM"),)
    fluent = (Fluent("sum", "SUM", "Add values up."),)

    @property
    def row_values(self) -> tuple[Fraction, Fraction]:
        """The bounds of the values, and zero for NULL."""
        t = self._value.type
        least, most = t.lo * t.step, t.hi * t.step
        return (min(least, Fraction(0)), max(most, Fraction(0))) if t.nullable else (least, most)

    @property
    def rounded(self) -> str:
        """By as much as each value, so many times."""
        return "sum"

    def lower(self, low: Lowering) -> Formula:
        """A vector, or a combination of what a family measures."""
        return low.total(self.expr, Moment.SUM)


@dataclass(frozen=True)
class Average(Statistic):
    """Mean of the values that are not NULL."""

    adds_up = True
    word = "avg"
    moment = Moment.MEAN
    suits = _NUMBERS
    must = "a number"
    names = (Name("AVG"), Name("MEAN"))
    fluent = (
        Fluent("mean", "AVG", "Average values."),
        Fluent(
            "proportion",
            "AVG",
            "Share of rows for which a condition is true, among those where it is known.",
        ),
    )

    @property
    def rounded(self) -> str:
        """By as much as one value."""
        return "mean"

    def lower(self, low: Lowering) -> Formula:
        """A quotient of two combinations; a centred sum where the number of values is public."""
        if (family := low.joint(self._value)) is not None:
            return family.mean()
        expr = low.number(self._value)
        first, _, centre = low.powers(expr)
        t = expr.type
        return Mean(
            first.place,
            low.count(expr),
            centre * t.step,
            t.step / first.times,
            t.lo * t.step,
            t.hi * t.step,
        )


@dataclass(frozen=True)
class Variance(Statistic):
    """Variance, divided by n − 1 (``sample``) or by n."""

    adds_up = True
    sample: bool = True

    word = "var"
    moment = Moment.SPREAD
    suits = _NUMBERS
    must = "a number"
    root: ClassVar[bool] = False
    names: ClassVar[tuple[Name, ...]] = (
        Name("VAR"),
        Name("VARIANCE"),
        Name("VAR_SAMP"),
        Name("VAR_POP", {"sample": False}),
    )
    fluent: ClassVar[tuple[Fluent, ...]] = (
        Fluent(
            "var",
            "VAR_SAMP",
            "Variance; divided by n − 1, or by n without `sample`.",
            population="VAR_POP",
        ),
    )

    @property
    def rounded(self) -> str:
        """By as much as its root is moved."""
        word = "deviation" if self.root else "variance"
        return f"sample {word}" if self.sample else word

    def lower(self, low: Lowering) -> Formula:
        """Three shares of degree two; where the number of values is public, squares or moments."""
        if (family := low.joint(self._value)) is not None:
            return family.spread(sample=self.sample, root=self.root)
        expr = low.number(self._value)
        if (alone := low.variance(expr)) is not None:
            t = expr.type
            n, ends = low.count(expr), (t.lo * t.step, t.step, t.hi - t.lo)
            return PublicVariance(alone, n, *ends, sample=self.sample, root=self.root)
        first, second, centre = low.powers(expr)
        return Spread(
            first.place,
            second.place,
            low.count(expr),
            second.shift,
            centre * expr.type.step,
            expr.type.step,
            (expr.type.hi - expr.type.lo) * expr.type.step,
            sample=self.sample,
            root=self.root,
            times=(first.times, second.times),
        )

    def __str__(self) -> str:
        text = super().__str__()
        return text if self.sample else text.replace("(", "_pop(", 1)


@dataclass(frozen=True)
class Deviation(Variance):
    """The root of the variance, clipped at zero."""

    word = "stddev"
    root = True
    names = (
        Name("STD"),
        Name("STDDEV"),
        Name("STDDEV_SAMP"),
        Name("STDDEV_POP", {"sample": False}),
    )
    fluent = (
        Fluent(
            "std",
            "STDDEV_SAMP",
            "Standard deviation; see :func:`var`.",
            population="STDDEV_POP",
        ),
    )


_QUANTILES: Final = (
    "QUANTILE", "QUANTILE_CONT", "QUANTILE_DISC", "PERCENTILE_CONT", "PERCENTILE_DISC",
    "APPROX_QUANTILE", "APPROX_PERCENTILE")  # fmt: skip


@dataclass(frozen=True)
class QuantileOf(Statistic):
    """The value below which a share ``at`` of the values lies."""

    at: Fraction = Fraction(1, 2)
    interval_share: Fraction | None = None
    """Share of the price that goes to the interval; None: little, as the point matters most;
    0: no interval."""

    word = "quantile"
    ordered = True
    by_name = ("interval_share",)
    suits = _ORDERED
    must = "an ordered value"
    names = (
        *(Name(sql, takes=("at",)) for sql in _QUANTILES),
        Name("MEDIAN", {"at": Fraction(1, 2)}),
        Name("MIN", {"at": Fraction(0)}),
        Name("MAX", {"at": Fraction(1)}),
    )
    fluent = (
        Fluent(
            "quantile",
            "QUANTILE",
            "Quantile at a probability between 0 and 1.",
            takes=(("q", ...),),
            keywords=by_name,
        ),
        Fluent("median", "MEDIAN", "Median: the quantile at one half.", keywords=by_name),
        Fluent("min", "MIN", "Smallest value, as the quantile at 0.", keywords=by_name),
        Fluent("max", "MAX", "Largest value, as the quantile at 1.", keywords=by_name),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.at <= 1:
            guess = self.at / 100 if 1 < self.at <= 100 else Fraction(1, 2)  # per cent
            raise ParameterError(
                "a quantile lies between 0 and 1", hint=f"QUANTILE(x, {show(guess)})"
            )
        if self.interval_share is not None and not 0 <= self.interval_share < 1:
            raise ParameterError(
                "the share of the price for the interval is 0, or lies between 0 and 1",
                hint="QUANTILE(x, 0.5, interval_share => 0.7)",
            )

    @property
    def rounded(self) -> str:
        """By as much as one value."""
        return "mean"

    @property
    def result(self) -> Type | None:
        """A value of the column."""
        return self._value.type

    def lower(self, low: Lowering) -> Formula:
        """A point of a public lattice."""
        tree = low.quantile(self._value, self.at, self.interval_share)
        return Quantile(tree, self.at, self._value.type.moment)

    def _details(self) -> tuple[str, ...]:
        share = self.interval_share
        return (show(self.at), *(() if share is None else (f"interval_share => {show(share)}",)))


@dataclass(frozen=True)
class ModeOf(Statistic):
    """The most frequent values."""

    top: int = 1

    word = "mode"
    ordered = True
    bounded = False
    suits = _LISTED
    must = "a category"
    names = tuple(
        Name(sql, takes=("top",), optional=True)
        for sql in ("MODE", "APPROX_TOP_K", "APPROX_TOP_COUNT")
    )
    fluent = (
        Fluent(
            "mode",
            "MODE",
            "Most frequent category, or the `top` most frequent ones.",
            takes=(("top", 1),),
        ),
    )

    @property
    def result(self) -> Type | None:
        """A value of the column."""
        return self._value.type

    @property
    def listed(self) -> bool:
        """Several values at once."""
        return self.top > 1

    @classmethod
    def parameter(cls, value: Fraction) -> object:
        """How many values are listed."""
        if value.denominator != 1 or value < 1:
            raise ParameterError(
                "MODE takes a whole number of values, at least 1", hint="MODE(sex, 2)"
            )
        return int(value)

    def lower(self, low: Lowering) -> Formula:
        """Draw a label; nothing is counted in the open."""
        return Mode(low.pick(self._value, self.top))

    def _details(self) -> tuple[str, ...]:
        return (str(self.top),) if self.top > 1 else ()


@dataclass(frozen=True)
class LinearImage(Statistic):
    """Linear queries Bx over the data vector x, the counts of all cells in key order.

    ``rows`` holds ``denominator``·B as integers, one tuple per query. The answer has
    one row per query instead of one per cell.
    """

    rows: tuple[tuple[int, ...], ...] = ()
    denominator: int = 1
    labels: tuple[str, ...] = ()

    word = "linear"
    needs_expr = False

    def lower(self, low: Lowering) -> Formula:
        """One image of the counts."""
        return Total(low.image(self.rows, self.labels), Fraction(1, self.denominator))

    def __str__(self) -> str:
        return f"{len(self.rows)} linear queries"


_PAIRS: Final = {
    "COVAR_POP": "covar_pop",
    "COVAR_SAMP": "covar_samp",
    "CORR": "corr",
    "REGR_SLOPE": "slope",
    "REGR_INTERCEPT": "intercept",
    "REGR_R2": "r2",
    "REGR_COUNT": "count",
    "REGR_AVGX": "avgx",
    "REGR_AVGY": "avgy",
    "REGR_SXX": "sxx",
    "REGR_SXY": "sxy",
    "REGR_SYY": "syy",
}


@dataclass(frozen=True)
class PairOf(Statistic):
    """A statistic of two columns, over the rows in which neither is NULL.

    As in SQL the dependent column comes first: ``REGR_SLOPE(y, x)``.
    """

    other: Expr | None = None
    what: str = "corr"

    word = "regr"
    suits = _NUMBERS
    must = "a number"
    bounded = False
    pairs = True
    names = tuple(Name(sql, {"what": what}) for sql, what in _PAIRS.items())
    fluent = (
        Fluent(
            "corr",
            "CORR",
            "Correlation with another column.",
            takes=(("other", ...),),
            paired=True,
        ),
        Fluent(
            "cov",
            "COVAR_SAMP",
            "Covariance with another column; divided by n − 1, or by n without `sample`.",
            takes=(("other", ...),),
            population="COVAR_POP",
            paired=True,
        ),
        Fluent(
            "slope",
            "REGR_SLOPE",
            "Slope of the line through it over `on`.",
            takes=(("on", ...),),
            paired=True,
        ),
        Fluent(
            "intercept",
            "REGR_INTERCEPT",
            "Where the line through it over `on` begins.",
            takes=(("on", ...),),
            paired=True,
        ),
        Fluent(
            "r2",
            "REGR_R2",
            "Share of its variance that `on` explains.",
            takes=(("on", ...),),
            paired=True,
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.other is None or self.other.type.kind not in self.suits:
            raise ParameterError(
                f"{self.word.upper()} needs two numbers", hint="REGR_SLOPE(income, age)"
            )

    @property
    def exprs(self) -> tuple[Expr, ...]:
        """Both columns."""
        assert self.other is not None
        return self._value, self.other

    def lower(self, low: Lowering) -> Formula:
        """Nine cells, shared by all statistics of the pair."""
        y, x = Scaled.pair(*map(low.number, self.exprs))
        whole = (x.top * y.top) ** 2
        # the cells of (y, x) are those of (x, y), transposed: one draw answers both orders
        first, second = map(_place, self.exprs)
        turned = first < second
        tensor = low.tensor(cells_of_pair(y, x) if turned else cells_of_pair(x, y), whole)
        spans = x.lo, x.top * x.width, y.lo, y.top * y.width
        off_y, off_x = map(off_of, self.exprs)
        return Pairwise(tensor, self.what, whole, *spans, x.off + off_x, y.off + off_y, turned)

    def __str__(self) -> str:
        name = next(sql for sql, what in _PAIRS.items() if what == self.what).lower()
        return f"{name}({', '.join(e.describe() for e in self.exprs)})"


def _place(expr: Expr) -> tuple[str, str]:
    """Where a column stands in an order of its own, whichever order was asked for."""
    return expr.describe(), repr(expr)


@dataclass(frozen=True)
class SplinesOf(Statistic):
    """Cells of the cubic splines of some columns, over the rows in which none is NULL."""

    others: tuple[Expr, ...] = ()

    word = "splines"
    suits = _NUMBERS
    must = "a number"
    bounded = False

    @property
    def exprs(self) -> tuple[Expr, ...]:
        """All columns."""
        return self._value, *self.others

    def lower(self, low: Lowering) -> Formula:
        """One draw for the cells of all columns."""
        columns = [Knots.of(low.number(e), len(self.exprs)) for e in self.exprs]
        whole = spline_whole(columns)
        return Splines(
            low.tensor(cells_of_splines(columns), whole),
            whole,
            tuple(c.lo for c in columns),
            tuple(c.width * c.step for c in columns),
        )

    def __str__(self) -> str:
        return f"{self.word}({', '.join(e.describe() for e in self.exprs)})"


CALLS: Final[dict[str, tuple[type[Statistic], Name]]] = {
    name.sql: (statistic, name) for statistic in Statistic.kinds for name in statistic.names
}
"""Every SQL name of a statistic."""

FLUENT: Final[dict[str, Fluent]] = {f.name: f for s in Statistic.kinds for f in s.fluent}
"""Every function of the fluent API."""
