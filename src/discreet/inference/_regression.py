r"""Least squares over a curator's table, with inference that accounts for the noise.

What is released
----------------
Noisy second moments of the columns, and nothing else: for one numeric predictor the nine
cells of :mod:`discreet.plan` (all at the price of one), otherwise the products of the
design's columns, each about the middle of its range, as sums. Both are ordinary questions
of the curator: proved, debited, measured and stored on its one road, free when repeated.

Inference
---------
For a coefficient :math:`\beta_j=b`, with the other columns taken out of :math:`x_j`
(weights a) and out of :math:`y-bx_j` (weights c), the score :math:`T(b)=a^\top Mc` is zero
in expectation at the true b. M is the noisy moment matrix, so T is linear in what was
released. Its variance is

.. math:: V(b)=g^\top Cg+k\,(a^\top Ma)(c^\top Mc)/N
          +2\operatorname{tr}(M_o^{-1}C_aM_o^{-1}C_c),

noise (C is known), sampling with homoskedastic errors (N is the rows less the other columns; k
rows of one unit at most, so the design effect is at most k), and what the errors of the other
coefficients do to second order. b is kept if :math:`T(b)^2\le z^2V(b)`, z between the normal
quantile and Laplace's by the noise's share of V. This is Fieller's and Rao's way: nothing noisy is
divided by, and where no b can be ruled out the interval is unbounded: *not determined at this ε*.
Ignoring the noise covers 3 to 55 % at ε = 0.1 instead of 95.

Where errors spread more at extreme values of a predictor, V is too small and intervals miss more
often than stated: 20 % of 95 % intervals for y = |x|·e, x and e normal. The variance that holds
in any case needs Σx⁴ and Σx³y, which are not released; bounds of them by the public range make
intervals several times as wide. The printout says that errors are taken as homoskedastic.
:func:`~discreet.inference.correlation_test`, of a slope of zero, does not need it.

What is estimated is the line through the *clamped* values. Intervals are asymptotic in the
number of units; checked by simulation from a thousand to a million.

References
----------
C. R. Rao, "Large sample tests of statistical hypotheses", 1948; E. Fieller, "Some problems in
interval estimation", JRSS B 1954. D. Alabi, S. Vadhan, "Hypothesis testing for differentially
private linear regression", NeurIPS 2022, for tests from the same released moments.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

import numpy as np

from discreet import _exact
from discreet._dataclass import dataclass, replace
from discreet._exact import Number
from discreet._print import interval, number
from discreet._text import quoted
from discreet.answer import Answer
from discreet.errors import Hint, ParameterError
from discreet.inference._columns import (
    Bounds,
    Term,
    check_listed,
    columns_of,
    design_column,
    design_of,
    narrowed,
    where_of,
)
from discreet.inference._factors import Factor
from discreet.inference._formula import example
from discreet.inference._hidden import Beside, beside
from discreet.inference._inputs import check_untainted, output_formula, rows_of
from discreet.inference._laws import Floats
from discreet.inference._predicted import LinePrediction, measured_from
from discreet.inference._results import Coefficients, Intervals, preformatted
from discreet.inference._slope import FLOOR, Released, Score
from discreet.noise import DiscreteGaussian
from discreet.plan import MOMENTS, Pairwise, Query

if TYPE_CHECKING:
    from discreet.curator import Curator

HIDDEN: Final = "not determined at this ε"
FEW: Final = "not determined: too few rows"

_FAR: Final = 1e6
"""A coefficient, in ranges of y per range of x, that is not told from infinity."""

_MOST: Final = 30
"""Columns of a design, the intercept included."""

_SUMS: Final = 150
_LETTERS: Final = 15_000
"""Sums, and letters of theirs, that one text of a question shows."""


class Ask(Protocol):
    """Asks a curator at a price that is settled; `change` alters the question that was read."""

    def __call__(
        self,
        *texts: str,
        keys: Sequence[str] = (),
        change: Callable[[Query], Query] | None = None,
    ) -> Answer:
        """Answer SQL that has these keys, and neither HAVING, ORDER BY, LIMIT nor totals.

        Several texts are one question, if they differ in nothing but what they show.
        """
        ...


def _pvalue(p: float) -> str:
    """Print a p-value; the smallest is only known to be no larger."""
    return f"≤ {p:.3g}" if p <= FLOOR else f"{p:.3g}"


@dataclass(frozen=True)
class Fitted(ABC):
    """Coefficients of a formula's columns, with their errors.

    Attributes
    ----------
    terms
        Columns of the design, the intercept first.
    response
        What is explained.
    answer
        What was released, with its cost and record.
    """

    terms: tuple[Term, ...]
    response: Term
    answer: Answer

    what: ClassVar[str]
    covers: ClassVar[str]
    assumes: ClassVar[str] = ""

    @property
    @abstractmethod
    def nobs(self) -> float:
        """Noisy number of rows."""

    @property
    @abstractmethod
    def _read(self) -> Sequence[tuple[float, float, float]]:
        """Estimate, standard error and p-value of each column."""

    @abstractmethod
    def _ends(self, error: float) -> Sequence[tuple[float, float]]:
        """Both ends for each column."""

    @property
    @abstractmethod
    def determined(self) -> bool:
        """Whether every coefficient has an interval (95 %) with two ends."""

    @property
    def _why(self) -> Sequence[str]:
        """What is said of each column where its interval is unbounded."""
        return [HIDDEN] * len(self.terms)

    @property
    def _notes(self) -> Sequence[str]:
        """What else is to be said below the table."""
        return ()

    def _named(self, values: Iterable[float]) -> Coefficients:
        return Coefficients(zip([t.name for t in self.terms], values, strict=True))

    @property
    def params(self) -> Coefficients:
        """Estimates by column; not a number where one is not determined at this price."""
        return self._named(estimate for estimate, _, _ in self._read)

    @property
    def bse(self) -> Coefficients:
        """Standard errors, sampling and noise together."""
        return self._named(error for _, error, _ in self._read)

    @property
    def pvalues(self) -> Coefficients:
        """Two-sided p-values of each coefficient being zero; the same for the same release."""
        return self._named(pvalue for _, _, pvalue in self._read)

    def conf_int(self, alpha: Number = 0.05) -> Intervals:
        """Intervals of the population's coefficients; unbounded where one is not determined."""
        ends = self._ends(_exact.confidence(alpha, "alpha"))
        return Intervals(zip([t.name for t in self.terms], ends, strict=True))

    def _design(self, data: Mapping[str, Any]) -> Floats:
        """Rows of the design that data become."""
        check_listed(self.terms, data)
        columns = [design_column(term, data) for term in self.terms]
        return np.stack(np.broadcast_arrays(*map(np.atleast_1d, columns)), axis=-1)

    def _line(self, data: Mapping[str, Any]) -> Any:
        """The linear combination of columns that the coefficients are."""
        check_listed(self.terms, data)
        params = self.params
        return sum(params[term.name] * design_column(term, data) for term in self.terms)

    def summary(self) -> str:
        """Return a table in plain text."""
        params, bse, pvalues, ends = self.params, self.bse, self.pvalues, self.conf_int()
        width = max([len(n) for n in params] + [9])
        lines = [
            f"{self.what} of {self.response.name}, noise accounted for",
            f"{'':{width}}  {'coef':>12}  {'std err':>10}  {'p':>9}  95 % interval",
        ]
        for (name, value), why in zip(params.items(), self._why, strict=True):
            low, high = ends[name]
            fine = bse[name] / 10  # a digit more than the error leaves meaningful
            shown = interval(low, high, fine)
            if low == -math.inf and high == math.inf:
                shown = why
            lines.append(
                f"{name:{width}}  {number(value, fine):>12}  {number(bse[name], fine):>10}  "
                f"{_pvalue(pvalues[name]):>9}  {shown}"
            )
        lines += self._notes
        lines.append(f"about {number(round(self.nobs))} rows; {paid(self.answer)}")
        lines.append(f"intervals cover the population's {self.covers} (95 %){self.assumes}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        return preformatted(self)


@dataclass(frozen=True, repr=False)
class Regression(Fitted):
    """Coefficients with errors, intervals and tests, in the manner of statsmodels.

    Errors of the response are taken as homoskedastic: equally spread whatever the predictors are.
    """

    released: Released
    within: tuple[float, float] = (-math.inf, math.inf)
    """Where the response lies, by the policy."""

    what: ClassVar[str] = "least squares"
    covers: ClassVar[str] = "line through the clamped values"
    assumes: ClassVar[str] = (
        "\nif errors are homoskedastic: equally spread whatever the predictors are"
    )

    @cached_property
    def _scale(self) -> Floats:
        """Columns in units, by scaled columns."""
        columns = [*self.terms, self.response]
        free = self.terms[0].name == "Intercept"
        # moments of the constant are released in any case: numbers are measured from a centre
        scale = np.diag([1.0, *(t.half for t in columns[free:])])
        scale[1:, 0] += [t.centre for t in columns[free:]]
        return np.asarray(scale[not free :])

    @cached_property
    def _beside(self) -> Beside | None:
        """Levels that the noise hides."""
        return beside(self.terms, self.response, self.released, self._scale)

    def _score(self, i: int) -> Score:
        if self._beside is not None:
            return self._beside.of_term(i)
        return Score(self.released, self._scale, i)

    @cached_property
    def _scores(self) -> dict[str, Score]:
        return {t.name: self._score(i) for i, t in enumerate(self.terms)}

    def score(self, name: str) -> Score:
        """The score of one coefficient."""
        return self._scores[name]

    @cached_property
    def _read(self) -> list[tuple[float, float, float]]:
        return [(s.estimate(), s.error(), s.pvalue(0.0)) for s in self._scores.values()]

    @property
    def _why(self) -> list[str]:
        own = set() if self._beside is None else self._beside.terms
        return [FEW if i in own else HIDDEN for i in range(len(self.terms))]

    @property
    def _notes(self) -> list[str]:
        return [] if self._beside is None else self._beside.notes()

    @property
    def nobs(self) -> float:
        """Noisy number of rows."""
        return float(self.released.values[0])

    @property
    def _far(self) -> list[float]:
        return [_FAR * self.response.half / max(t.half, 1e-300) for t in self.terms]

    @property
    def determined(self) -> bool:
        """Whether every coefficient has an interval (95 %) with two ends."""
        each = zip(self._scores.values(), self._far, strict=True)
        return all(score.bounded(0.05, reach) for score, reach in each)

    def _ends(self, error: float) -> list[tuple[float, float]]:
        each = zip(self._scores.values(), self._far, strict=True)
        return [score.interval(error, reach) for score, reach in each]

    def predict(self, data: Mapping[str, Any]) -> Floats:
        """Fitted values for a mapping (or frame) of columns.

        Not a number in rows of a level that the noise hides.
        """
        if self._beside is not None:
            return self._beside.heights(self._design(data))
        return np.asarray(self._line(data), dtype=np.float64)

    def get_prediction(self, data: Mapping[str, Any]) -> LinePrediction:
        """Fitted values with intervals: of the population's mean at each row, and of new rows."""
        scores = [self._height(row) for row in self._design(data)]
        return LinePrediction(scores, _FAR * self.response.half, *self.within)

    def _height(self, row: Floats) -> Score:
        """The score of the line's height at a row of the design."""
        if self._beside is not None:
            return self._beside.at_row(row)
        return Score(self.released, *measured_from(self._scale, row))


def paid(answer: Answer) -> str:
    """What an answer cost, in words."""
    cost = answer.cost
    delta = f", δ={cost['delta']}" if cost.get("delta", "0") != "0" else ""
    return f"cost ε={float(_exact.decimal(cost['epsilon'], 'ε')):.4g}{delta}"


# -- reading the question ---------------------------------------------------------------


def table_of(curator: Curator, name: str | None) -> Any:
    """The private table that is meant."""
    private = [t for t in curator.policy.tables.values() if not t.public]
    if name is None and len(private) == 1:
        return private[0]
    if name is None:
        names = [t.name for t in private]
        raise ParameterError(f"say which table: one of {names}", hint=Hint("table", names[0]))
    return curator.policy.table(name)


def least_squares(
    curator: Curator,
    formula: str,
    *,
    table: str | None = None,
    where: str | None = None,
    ask: Ask,
) -> Regression:
    """Ask for the moments that a formula needs, and read them; see :meth:`Curator.regression`."""
    own, read = narrowed(curator.policy, table_of(curator, table), formula, where)
    tests = where_of(read, where)
    bounds = Bounds(curator.policy, own.name, where_of(read, None)).check(read)
    left, source = read.left, quoted(own.name)
    if left.kind == "category" and (left.plain is None or len(left.listed) != 2):
        raise ParameterError(f"{left.name!r} is a category, not a number to explain",
                             hint=example(own))  # fmt: skip
    response = columns_of(own, left, bounds)[0]
    alone = read.factors[0] if len(read.terms) == len(read.factors) == 1 else None
    if alone is not None and alone.kind == left.kind == "number" and read.intercept:
        text = f"SELECT REGR_SLOPE({left.sql}, {alone.sql}) AS slope FROM {source} WHERE {tests}"  # noqa: S608 - read by the curator's own parser
        return _renamed(of_pair(ask(text), left.name, alone.name), left, alone)
    terms = [*([Term("Intercept", "1")] if read.intercept else []), *design_of(own, read, bounds)]
    if len(terms) > _MOST:
        raise ParameterError(
            f"the design has {len(terms)} columns, at most {_MOST} are possible",
            hint="merge the levels of a category, or leave a column out",
        )
    columns = [Term("Intercept", "1"), *terms[read.intercept :], response]
    place, sums = _products(columns)
    outputs = [f"{sql} AS m{i}" for i, sql in enumerate(sums)]
    shown = [", ".join(each) for each in _shared_out(outputs)]
    answer = ask(*(f"SELECT {each} FROM {source} WHERE {tests}" for each in shown))  # noqa: S608 - as above
    least = 0.0 if response.value is not None else response.centre - response.half
    within = least, response.centre + response.half
    return Regression(tuple(terms), response, answer, _of_sums(answer, columns, place), within)


def _renamed(fit: Regression, left: Factor, alone: Factor) -> Regression:
    """Let functions be computed for predictions; columns are read as they are."""
    if left.plain is not None and alone.plain is not None:
        return fit
    own = replace(fit.terms[1], parts=((alone, None),))
    return replace(fit, terms=(fit.terms[0], own), response=replace(fit.response, source=None))


def _shared_out(outputs: Iterable[str]) -> list[list[str]]:
    """Share outputs out among texts that are short enough to be read."""
    texts: list[list[str]] = [[]]
    letters = 0
    for each in outputs:
        if texts[-1] and (len(texts[-1]) == _SUMS or letters + len(each) > _LETTERS):
            texts.append([])
            letters = 0
        texts[-1].append(each)
        letters += len(each)
    return texts


def _products(columns: Sequence[Term]) -> tuple[tuple[tuple[int, ...], ...], list[str]]:
    """Sums that make up the moment matrix, and where each stands."""
    sums = ["COUNT(*)"]
    known: dict[tuple[int, int], int] = {(0, 0): 0}
    for i, a in enumerate(columns):
        for j, b in enumerate(columns[: i + 1]):
            if (j, i) in known:
                continue
            flags = a.value is not None and b.value is not None
            if flags and i != j and a.source == b.source:
                known[j, i] = -1  # nobody has two values of one category
            elif flags and i == j:
                known[j, i] = known[0, i]  # a flag is its own square
            else:
                factors = [t.sql for t in (a, b) if t.sql != "1"]
                known[j, i] = len(sums)
                sums.append(f"SUM({' * '.join(factors)})")
    size = range(len(columns))
    place = tuple(tuple(known[min(i, j), max(i, j)] for j in size) for i in size)
    return place, sums


def _of_sums(
    answer: Answer, columns: Sequence[Term], place: tuple[tuple[int, ...], ...]
) -> Released:
    """Read moments off an answer that shows each as a sum."""
    count = 1 + max(p for row in place for p in row)
    unit = np.ones(count)
    for i, row in enumerate(place):
        for j, p in enumerate(row):
            if p > 0 and not (i == j and columns[i].value is not None):
                unit[p] = columns[i].half * columns[j].half
    check_untainted(answer)
    record = answer.full_record
    formulas = [output_formula(record, f"m{i}") for i in range(count)]
    sums = [c for formula in formulas if (c := formula.combination) is not None]
    assert len(sums) == count  # each is a sum, or a count
    parts = sorted({p for each in sums for p in each})
    # sums of one column share draws with the number of rows, so their noise is correlated
    weights = np.array([[float(each.get(p, 0)) for p in parts] for each in sums]) / unit[:, None]
    laws = [record.numbers(p).law for p in parts]
    noise = np.diag([0.0 if law is None else law.variance for law in laws])
    values = np.array([formula.estimate(record.parts)[0] for formula in formulas]) / unit
    rows = max(rows_of(record, p, one=True)[0] or 1 for p in parts)
    laplace = not all(law is None or isinstance(law, DiscreteGaussian) for law in laws)
    return Released(values, weights @ noise @ weights.T, place, laplace, rows)


def pair_of(answer: Answer) -> tuple[Pairwise, Any]:
    """The nine cells of two columns, and the law of their noise."""
    record = answer.full_record
    formula = next((f for f in record.formulas if isinstance(f, Pairwise)), None)
    if formula is None or record.cells != 1:
        raise ParameterError(
            "this answer holds no statistic of one pair of columns", hint="SELECT CORR(y, x) AS r …"
        )
    check_untainted(answer)
    law = record.parts[formula.tensor].noise
    assert law is not None
    return formula, law


def of_pair(answer: Answer, left: str, right: str) -> Regression:
    """Read the six moments off the nine cells of two columns."""
    formula, law = pair_of(answer)
    record = answer.full_record
    values = formula.moments(record.parts)[0]
    covariance = MOMENTS @ MOMENTS.T * law.variance / float(formula.whole) ** 2
    rows = rows_of(record, formula.tensor, one=True)[0] or 1
    place = ((0, 1, 2), (1, 3, 4), (2, 4, 5))
    laplace = type(law).__name__ == "DiscreteLaplace"
    x = Term(right, right, float(formula.x), float(formula.x_range), right)
    y = Term(left, left, float(formula.y), float(formula.y_range), left)
    released = Released(values, covariance, place, laplace, rows)
    within = y.centre, y.centre + y.half
    return Regression((Term("Intercept", "1"), x), y, answer, released, within)
