r"""Population intervals of ratios, and of differences and ratios of means and shares.

A *leaf* is a mean r = A/B: an AVG, or a sum over a sum. Its error is
:math:`\hat r-r=T(r)/\hat B` exactly, :math:`T(r)=\hat A-r\hat B`, whose noise is known. An output
:math:`\theta=(c_0+\sum c_jr_j)/(d_0+\sum d_jr_j)` is tested by Fieller's way:

.. math:: L(\theta)=(c_0-\theta d_0)+\sum_j(c_j-\theta d_j)\hat r_j
          =\sum_j\frac{c_j-\theta d_j}{\hat B_j}T_j(r_j)

at the true θ: a sum over rows of one number ψ, and noise of known weights. Its sampling
variance is at most k Σψ², and what is known of that sum is in
:mod:`discreet.inference._shared`: nothing is added up that cannot come together, and groups
that share no row add their variances, not their margins. Like sums of squares elsewhere it is
enlarged by what a sample with too few rare values may lack
(:func:`~discreet.inference._score.expected_squares`).

A single ratio is tested by T itself. Its Σψ² is at most the least of the bound above, n times
−min ψ · max ψ (A + θ²B of two counts), and, for a share of a count or sum of values in
0 … h, hBθ(1 − θ).

Where a leaf has too few rows, or one unit could decide, nothing is said here, and arithmetic of
the leaves' own intervals remains.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from discreet._dataclass import dataclass, replace
from discreet.answer import moved_by
from discreet.errors import ParameterError
from discreet.inference._laws import Floats
from discreet.inference._pivot import hull
from discreet.inference._score import (
    FEWEST,
    PLACES,
    SHARE,
    STEP,
    bounded,
    expected_squares,
    score,
    weights,
)
from discreet.inference._shared import Column, Relations, Squares
from discreet.plan import (
    Apply,
    Box,
    Combination,
    Number,
    OutputExpr,
    StatisticValue,
    moved,
    tails,
)

if TYPE_CHECKING:
    from discreet.inference._population import Sample

Leaf = int | tuple[int, int]
"""An average, or a sum over a sum, by statistics."""
Terms = dict[Leaf | None, float]
"""Coefficients of leaves; None: the constant."""

_FAR: Final = 1e3
"""How far out a quotient without a public range is looked for, in its own size."""


# -- what an output is ----------------------------------------------------------------------


def leaves_of(sample: Sample, out: OutputExpr) -> list[Leaf]:
    """Averages and quotients of sums that an output is computed from, each once."""
    return list(dict.fromkeys(_leaves(sample, out, whole=not _chooses(out))))


def _leaves(sample: Sample, out: OutputExpr, *, whole: bool) -> Iterator[Leaf]:
    match out:
        case StatisticValue(index):
            yield index
        case Apply("/", (StatisticValue(a), StatisticValue(b))) if whole and sample.sums(a, b):
            yield a, b
        case Apply(_, args):
            for part in args:
                yield from _leaves(sample, part, whole=whole)


def _chooses(out: OutputExpr) -> bool:
    """Whether an output has a CASE: its test looks at single statistics."""
    return isinstance(out, Apply) and (out.op == "case" or any(map(_chooses, out.args)))


def with_leaves(out: OutputExpr, places: Mapping[Leaf, int]) -> OutputExpr:
    """The same output with its leaves as statistics at some places."""
    match out:
        case Apply("/", (StatisticValue(a), StatisticValue(b))) if (a, b) in places:
            return StatisticValue(places[a, b])
        case Apply(op, args):
            return Apply(op, tuple(with_leaves(a, places) for a in args))
    return out


def range_of(sample: Sample, leaf: Leaf) -> tuple[float, float]:
    """Values of a leaf that are possible."""
    if isinstance(leaf, tuple):
        return Ratio(Table(sample, (leaf,)), 1.0).range
    powers = sample.record.formulas[leaf].powers
    return (-math.inf, math.inf) if powers is None else (float(powers.lo), float(powers.hi))


def _fraction(sample: Sample, out: OutputExpr) -> tuple[Terms, Terms] | None:
    """A quotient of linear forms of leaves, where an output is one."""
    match out:
        case Number(value):
            return {None: float(value)}, {None: 1.0}
        case StatisticValue() | Apply("/", (StatisticValue(), StatisticValue())) if (
            len(leaves := leaves_of(sample, out)) == 1
        ):
            return {leaves[0]: 1.0}, {None: 1.0}
        case Apply("+" | "-" | "*" | "/" as op, args):
            both = [_fraction(sample, a) for a in args]
            fractions = [f for f in both if f is not None]
            return _arithmetic(op, fractions) if len(fractions) == len(both) else None
    return None


def _arithmetic(op: str, parts: list[tuple[Terms, Terms]]) -> tuple[Terms, Terms] | None:
    if len(parts) == 1:
        ((top, bottom),) = parts
        return {k: -v for k, v in top.items()}, bottom
    (a, b), (c, d) = parts
    if op == "*":
        return _both(_times(a, c), _times(b, d))
    if op == "/":
        return _both(_times(a, d), _times(b, c))
    sign = 1.0 if op == "+" else -1.0
    if b == d:
        return {k: a.get(k, 0.0) + sign * c.get(k, 0.0) for k in a | c}, b
    left, right = _times(a, d), _times(c, b)
    if left is None or right is None:
        return None
    top = {k: left.get(k, 0.0) + sign * right.get(k, 0.0) for k in left | right}
    return _both(top, _times(b, d))


def _both(top: Terms | None, bottom: Terms | None) -> tuple[Terms, Terms] | None:
    return None if top is None or bottom is None else (top, bottom)


def _times(a: Terms, b: Terms) -> Terms | None:
    """The product of two linear forms, if it is one."""
    for one, other in ((a, b), (b, a)):
        if set(one) <= {None}:
            return {k: v * one.get(None, 0.0) for k, v in other.items()}
    return None


# -- what is known of its rows --------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Table:
    """Columns behind some leaves, and how they follow from what was released."""

    sample: Sample
    leaves: tuple[Leaf, ...]
    counter: int | None = None
    """A statistic that counts all rows, read beside the others."""

    @cached_property
    def _stated(self) -> dict[str, Any]:
        facts = self.sample.record.statement.get("shared_rows")
        return facts if isinstance(facts, dict) else {}

    @cached_property
    def relations(self) -> Relations:
        """What the record states of the statistics' rows."""
        apart = frozenset(frozenset(pair) for pair in self._stated.get("apart", []))
        within = frozenset((a, b) for a, b in self._stated.get("within", []))
        return Relations(apart, within)

    def _number(self, what: str, index: int) -> int | None:
        """Number of a statistic's rows or value; one of its own where the record states none."""
        listed = self._stated.get("of", [])
        if index >= len(listed) or listed[index] is None:
            return -1 - index
        number: int | None = self._stated[what][index]
        return number

    def rows(self, index: int) -> tuple[int, frozenset[int]]:
        """The rows of a statistic."""
        number = self._number("of", index)
        assert number is not None
        return number, frozenset()

    @cached_property
    def _sums(self) -> list[tuple[str, int]]:
        """Every column once: values or ones of a statistic."""
        sums: list[tuple[str, int]] = []
        for leaf in self.leaves:
            if isinstance(leaf, tuple):
                sums += [self.kind(i) for i in leaf]
            else:
                sums += [("values", leaf), ("ones", leaf)]
        return list(dict.fromkeys(sums))

    def kind(self, index: int) -> tuple[str, int]:
        """Whether a sum counts rows or adds values up."""
        return ("ones" if self._number("values", index) is None else "values"), index

    @cached_property
    def parts(self) -> list[int]:
        """Releases that are read."""
        sums: set[int] = set()
        more = [] if self.counter is None else [self.counter]
        for index in {*more, *(i for _, i in self._sums)}:
            for combination in self._combinations(index):
                sums |= set(combination or {})
        return sorted(sums)

    def _combinations(self, index: int) -> list[Combination | None]:
        """Σx, and n and Σx² where they are released."""
        formula = self.sample.record.formulas[index]
        own = formula.combination
        if own is None:
            assert formula.powers is not None
            n, total, *squares = self.sample.squares(formula.powers).sums
            return [total, n, *squares]
        if self._number("values", index) is None:
            return [own, own]
        for other in self.sample.record.formulas:
            other_powers = other.powers
            if (
                other_powers is not None
                and len(other_powers.sums) > 2
                and _same(other_powers.sums[1], own)
            ):
                return [own, other_powers.sums[0], other_powers.sums[2]]
        return [own, self._row_count(index)]

    def _row_count(self, index: int) -> Combination | None:
        """The number of a sum's rows, where it was asked for."""
        mine = self.rows(index)
        for other, formula in enumerate(self.sample.record.formulas):
            same = other != index and self.rows(other) == mine
            if same and formula.combination is not None and self.kind(other)[0] == "ones":
                return formula.combination
            if same and formula.powers is not None and self._number("values", other) is not None:
                return formula.powers.sums[0]
        return None

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """All columns, as weights of the parts."""
        columns = []
        for kind, index in self._sums:
            total, n, *squares = [
                None if c is None else weights(c, self.parts) for c in self._combinations(index)
            ]
            assert total is not None
            if kind == "ones":
                count = total if n is None else n
                columns.append(Column(count, self.rows(index)))
                continue
            lo, hi = self._range(index)
            value = self._number("values", index)
            column = Column(total, self.rows(index), lo, hi, value, n, *squares)
            columns.append(column)
        return tuple(columns)

    def _range(self, index: int) -> tuple[float, float]:
        powers = self.sample.record.formulas[index].powers
        if powers is None:
            return self.sample.row(index)
        return float(powers.lo), float(powers.hi)

    def place(self, kind: str, index: int) -> int:
        """Where a column stands."""
        return self._sums.index((kind, index))

    def sides(self, leaf: Leaf) -> tuple[int, int]:
        """The columns that a leaf divides."""
        if isinstance(leaf, tuple):
            a, b = (self.place(*self.kind(i)) for i in leaf)
            return a, b
        return self.place("values", leaf), self.place("ones", leaf)

    def squares(self, cell: int, error: float, *, measured: bool) -> Squares:
        """Bounds in a cell; without the squares that were measured, by ranges alone."""
        values = np.array([float(self.sample.record.numbers(p).values[cell]) for p in self.parts])
        columns = self.columns
        if not measured:
            columns = tuple(replace(c, squares=None) for c in columns)
        return Squares(columns, self.relations, values, tails.farthest(self.laws, error))

    @cached_property
    def laws(self) -> list[Any]:
        """Laws of the parts' noise."""
        return [self.sample.record.numbers(p).law for p in self.parts]

    @cached_property
    def weights(self) -> Floats:
        """Every column's sum, as weights of the parts."""
        return np.array([c.total for c in self.columns])

    def rows_at_least(self, leaf: Leaf, squares: Squares) -> float:
        """Rows behind a leaf, by a lower bound."""
        bottom = self.columns[self.sides(leaf)[1]]
        if bottom.value is None or bottom.count is not None:
            n, off = squares.near(bottom.total if bottom.count is None else bottom.count)
            return n - off
        total, off = squares.near(bottom.total)
        return (total - off) / bottom.hi if bottom.lo >= 0 and bottom.hi > 0 else 0.0


def _same(a: Combination, b: Combination) -> bool:
    """Whether two combinations are one: parts without weight do not count."""
    return {p: w for p, w in a.items() if w} == {p: w for p, w in b.items() if w}


# -- intervals ------------------------------------------------------------------------------


def contrast(
    sample: Sample, out: OutputExpr, error: float, public: Box
) -> Callable[[int], tuple[float, float] | None] | None:
    """Ends, cell by cell, of a quotient of linear forms of several leaves; None: of none.

    The `public` range, of one cell, is where they are looked for.
    """
    fraction = _fraction(sample, out)
    leaves = tuple(leaves_of(sample, out))
    averages = [i for i in leaves if isinstance(i, int)]
    formulas = sample.record.formulas
    if fraction is None or any(
        formulas[i].powers is None or hasattr(formulas[i], "root") for i in averages
    ):
        return None
    indices = {i for leaf in leaves for i in (leaf if isinstance(leaf, tuple) else (leaf,))}
    if any(moved_by(sample.record, i) is not None for i in indices):
        return None
    test = _Contrast(Table(sample, leaves), *fraction, error)
    low, high = float(public.low[0]), float(public.high[0])
    return lambda cell: test.ends(cell, low, high)


@dataclass(frozen=True, eq=False)
class _Contrast:
    table: Table
    top: Terms
    bottom: Terms
    error: float

    def ends(self, cell: int, low: float, high: float) -> tuple[float, float] | None:
        """Ends in one cell; None where the normal law cannot be relied on."""
        table, spare = self.table, SHARE * self.error
        k = table.sample.rows(table.parts)
        for measured in (True, False):
            squares = table.squares(cell, spare, measured=measured)
            reading = self._read(squares, k)
            if reading is None:
                return None
            theta, lines = reading
            f = lines(np.array([theta]))[0]
            sure = k * float(squares.at_most(f)[0])
            if math.isfinite(sure) and (k * float(squares.widest(f)[0])) ** 2 <= sure / 4:
                break
        else:
            return None
        theta = min(max(theta, low), high)
        test = self._test(squares, k, lines)
        far = _FAR * max(abs(theta), 1.0)
        near = max(low, theta - far), min(high, theta + far)
        first, last = hull(test, theta, *near, PLACES)
        return low if first == near[0] else first, high if last == near[1] else last

    def _read(self, squares: Squares, k: int) -> tuple[float, Any] | None:
        """The estimate, and for every θ coefficients of the columns with the constant."""
        table, size = self.table, len(self.table.columns)
        each, own = np.zeros((len(table.leaves), size)), np.zeros(len(table.leaves))
        for i, leaf in enumerate(table.leaves):
            a, b = table.sides(leaf)
            over, under = (float(table.weights[j] @ squares.values) for j in (a, b))
            _, off = squares.near(table.weights[b])
            if table.rows_at_least(leaf, squares) / k < FEWEST or under <= 2 * off:
                return None
            own[i] = over / under
            each[i, a] += 1 / under
            each[i, b] -= own[i] / under
        c, d = (np.array([t.get(leaf, 0.0) for leaf in table.leaves]) for t in self._forms)
        c0, d0 = (t.get(None, 0.0) for t in self._forms)
        below = d0 + float(d @ own)
        if below == 0:
            return None

        def lines(theta: Floats) -> tuple[Floats, Floats]:
            e = c - theta[:, None] * d
            return e @ each, c0 - theta * d0 + e @ own

        return (c0 + float(c @ own)) / below, lines

    @property
    def _forms(self) -> tuple[Terms, Terms]:
        return self.top, self.bottom

    def _test(self, squares: Squares, k: int, lines: Any) -> Callable[[Floats], Floats]:
        rest = (1 - SHARE) * self.error

        def test(theta: Floats) -> Floats:
            f, off = lines(theta)
            reach = k * squares.widest(f)
            spread = expected_squares(k * squares.at_most(f), reach, rest)
            variance, scales, slack = tails.split_noise(self.table.laws, f @ self.table.weights)
            sd = np.sqrt(spread + variance)
            far = np.abs(off) - slack - STEP * reach
            return np.asarray(tails.mixed_tail(far, sd, scales) >= rest)

        return test


def ratio(sample: Sample, top: int, bottom: int, error: float) -> Box:
    """A sum over a sum; above a number of rows, rounded values move it as they do a mean."""
    above, below = (moved_by(sample.record, i) for i in (top, bottom))
    if below is not None or (above is not None and sample.row(bottom) != (1.0, 1.0)):
        raise ParameterError(
            "no population interval is known for a ratio of sums of rounded values",
            hint="AVG(SQRT(x))",
        )
    test = Ratio(Table(sample, ((top, bottom),), sample.all_rows()), error)
    test.check()
    box = sample.by_cell(test.ends)
    return box if above is None else moved("mean", box, above[1])


@dataclass(frozen=True, eq=False)
class Ratio:
    """One sum over another: what one row adds to T is bounded, and so is its spread."""

    table: Table
    error: float

    @cached_property
    def _pair(self) -> tuple[int, int]:
        (leaf,) = self.table.leaves
        assert isinstance(leaf, tuple)
        return leaf

    @cached_property
    def _ends_of_row(self) -> tuple[float, float, float, float]:
        """Least and most that a row adds above and below; rows that add nothing are left out."""
        top, bottom = self._pair
        (ly, hy), (lx, hx) = (self.table.sample.row(i) for i in self._pair)
        alike = self.table.rows(top) == self.table.rows(bottom)
        if alike and self.table.kind(bottom)[0] == "ones":
            lx = 1.0
        return ly, hy, lx, hx

    @cached_property
    def _share(self) -> bool:
        """Whether it is a share: a part of what it divides by, which is never negative."""
        first, second = (self.table.columns[j] for j in self.table.sides(self._pair))
        inside = self.table.relations.inside(first.rows, second.rows)
        return (
            first.value == second.value and inside and self.table.sample.row(self._pair[1])[0] >= 0
        )

    @cached_property
    def _counter(self) -> int | None:
        """The statistic that counts the rows, where there is one."""
        _, _, lx, hx = self._ends_of_row
        own = self._counts or lx == hx == 1
        return self._pair[1] if own else self.table.counter

    @cached_property
    def _counts(self) -> bool:
        """Whether both are counts of some rows: their spread is bounded by themselves."""
        return self._ends_of_row == (0, 1, 0, 1)

    @cached_property
    def _count(self) -> Floats | None:
        """Its weights."""
        if self._counter is None:
            return None
        counter = self.table.sample.record.formulas[self._counter].combination
        return weights(counter or {}, self.table.parts)

    @cached_property
    def range(self) -> tuple[float, float]:
        """Quotients that are possible."""
        ly, hy, lx, hx = self._ends_of_row
        if self._share:
            return 0.0, 1.0
        quotients = [y / x if x > 0 else math.inf for y in (ly, hy) for x in (lx, hx)]
        return (min(quotients), max(quotients)) if lx > 0 else (0.0, math.inf)

    def check(self) -> None:
        """Refuse what has no population interval."""
        ly, _, lx, _ = self._ends_of_row
        if (self._counter is None and ly < 0) or lx < 0 or (lx == 0 > ly):
            raise ParameterError(
                "a ratio of sums has a population interval where what it divides by is never "
                "negative, the range of the quotient is known, and all rows are counted too if "
                "what is divided may be negative",
                hint="SELECT SUM(y) / SUM(x) AS r, COUNT(*) AS n …",
            )

    def ends(self, cell: int) -> tuple[float, float]:
        """Ends in one cell; all that is possible where the normal law cannot be relied on."""
        table, (lo, hi) = self.table, self.range
        k, rest = table.sample.rows(table.parts), (1 - SHARE) * self.error
        squares = table.squares(cell, SHARE * self.error, measured=True)
        above, below = (table.weights[j] for j in table.sides(self._pair))
        over, under = float(above @ squares.values), float(below @ squares.values)
        middle = max(over / under, lo) if under > 0 else lo
        limit = self._limit(squares, middle)
        at = np.array([min(middle, limit)])
        low, high = self._reach(at)
        widest = k * float((high - low)[0])
        plain = table.squares(cell, SHARE * self.error, measured=False)
        if self._rows(squares) / k < FEWEST or widest**2 > self._spread(plain, at, k, None)[0] / 4:
            return self._of_any_law(squares, k, (above, below), (lo, float(at[0]), limit, hi))
        f = np.stack([np.ones(1), -at], axis=1)
        if (k * squares.widest(f)[0]) ** 2 > self._spread(squares, at, k, None)[0] / 4:
            squares = plain

        def spread(theta: Floats) -> Floats:
            return self._spread(squares, theta, k, rest)

        test = score((above, below), spread, squares.values, table.laws, rest, step=STEP * widest)
        first, last = hull(test, float(at[0]), lo, limit, PLACES)
        return first, hi if last == limit else last

    def _of_any_law(
        self, squares: Squares, k: int, sums: tuple[Floats, Floats], ends: tuple[float, ...]
    ) -> tuple[float, float]:
        """Ends in a cell of few units, or of which one decides, by the range of a unit alone."""
        lo, middle, limit, hi = ends
        most = self._most_rows(squares)
        if most is None:
            return lo, hi

        def each(theta: Floats) -> tuple[Floats, Floats]:
            low, high = self._reach(theta)
            if self._share:  # what it adds above is part of what it adds below
                high = self._ends_of_row[3] * (1 - theta)
            return k * low, k * high

        rest = (1 - SHARE) * self.error
        test = bounded(sums, each, squares.values, self.table.laws, rest, most=most)
        first, last = hull(test, middle, lo, limit, PLACES)
        return first, hi if last == limit else last

    def _most_rows(self, squares: Squares) -> float | None:
        """Rows that add anything to T, by an upper bound; None: not known."""
        over, under = (self.table.weights[j] for j in self.table.sides(self._pair))
        if self._share and self._ends_of_row[2:] == (0, 1):
            return sum(squares.near(under))
        if self._counts:
            return sum(squares.near(over)) + sum(squares.near(under))
        return None if self._count is None else sum(squares.near(self._count))

    def _limit(self, squares: Squares, middle: float) -> float:
        """How far out a quotient is looked for."""
        _, hy, _, hx = self._ends_of_row
        if math.isfinite(self.range[1]):
            return self.range[1]
        if hy == hx == 1:
            sides = self.table.sides(self._pair)
            (over, more), (under, less) = (squares.near(self.table.weights[j]) for j in sides)
            return 10 * max(over + more, 1.0) / max(under - less, 1.0)
        return 100 * max(middle, hy / hx)

    def _reach(self, theta: Floats) -> tuple[Floats, Floats]:
        """Least and most that one row adds to T."""
        ly, hy, lx, hx = self._ends_of_row
        near, far = np.where(theta > 0, lx, hx), np.where(theta > 0, hx, lx)
        return np.asarray(ly - theta * far), np.asarray(hy - theta * near)

    def _rows(self, squares: Squares) -> float:
        """Rows behind it, by a lower bound."""
        if self._count is None:
            return self.table.rows_at_least(self._pair, squares)
        n, off = squares.near(self._count)
        return n - off

    def _spread(self, squares: Squares, theta: Floats, k: int, error: float | None) -> Floats:
        """Variance of T over units, at most: the least of what is known.

        An `error` allows for a sample that lacks rare values, where squares are the sample's.
        """
        f = np.stack([np.ones(theta.size), -theta], axis=1)
        variance = k * squares.at_most(f)
        if error is not None:
            variance = expected_squares(variance, k * squares.widest(f), error)
        low, high = self._reach(theta)
        if self._counts:
            sides = self.table.sides(self._pair)
            over, under = (sum(squares.near(self.table.weights[j])) for j in sides)
            variance = np.minimum(variance, k * np.maximum(over + theta**2 * under, 0.0))
        elif self._count is not None:
            n, off = squares.near(self._count)
            variance = np.minimum(variance, k * np.maximum((n + off) * -low * high, 0.0))
        if self._share:
            under, off = squares.near(self.table.weights[self.table.sides(self._pair)[1]])
            most = self._ends_of_row[3] * (under + off)
            variance = np.minimum(variance, k * most * theta * (1 - theta))
        return np.asarray(variance)
