r"""Intervals about a population: sampling error, privacy noise and several rows per person.

What is sampled are units: people, drawn independently. For a parameter θ with
:math:`E\,\psi(x;\theta)=0` the sum :math:`T(\theta)=\sum_\text{rows}\psi` is linear in what was
released, so its noise is known exactly; its sampling variance is
:math:`\sum_u D_u^2` with :math:`D_u` a unit's own sum. A unit has at most k rows, so by
Cauchy–Schwarz

.. math:: \sum_u D_u^2 \le k\sum_\text{rows}\psi^2 :

the design effect is taken as k, the limit of rows per unit; with one row each it is exact.
θ is kept if :math:`|T(\theta)|` is within the 1 − α quantile of normal plus noise
(:mod:`discreet.plan._tails`). This is a score interval: nothing noisy is divided by.

===========  =======================  ==================================================
statistic    ψ                        Σψ² at most
===========  =======================  ==================================================
AVG, share   x − θ                    what Σ(x−θ)² was drawn from (below), where VAR or STDDEV
                                      of the column is asked too and :func:`Sample._enough`
                                      holds of it; always n(hi−θ)(θ−lo) (Bhatia–Davis)
A/B          a − θb                   what is known of rows that a and b share
                                      (:mod:`discreet.inference._contrasts`)
VAR, STD     (x−m)² − θ               nθ(R² − θ), R = max(hi−m, m−lo), for every m of an
                                      interval of the mean (Berger–Boos), in steps that each
                                      allow for all they stand for; squares about the
                                      sample's own mean are up to z²θ less (n public)
QUANTILE     [x < θ] − q              nq(1−q): the ranks are moved by the sampling error
===========  =======================  ==================================================

A tenth of the error allowed pays for upper bounds of n, Σψ² and m. Differences and ratios of
means and shares are one sum over rows too (:mod:`discreet.inference._contrasts`). Everything else
is interval arithmetic with the error shared.

A sample with too few of the rare values has too small a sum of squares as well. With
:math:`b=k\max(hi-\theta,\theta-lo)` the variance of :math:`Q=\sum_u D_u^2` is at most b² times
its mean V, so that at the quantile z of the test
:math:`V\le\bigl(\sqrt{Q+z^2b^2/4}+zb/2\bigr)^2`, which stands for V: on a two-valued column as
much as Bhatia–Davis where Q is z deviations too small. Sums of two values are steps, so that T may
miss by a quarter of what one unit can move (:data:`STEP`). By the binomial law, for two-valued
columns of n = 50 … 10⁵ rows at any share and without noise, 95 % intervals of AVG,
alone or beside VAR, cover
at least 94.9 % (99 %: 98.1 %, with two rare rows expected). With noise they cover more.

These rest on the central limit theorem over units. In a cell with fewer than
:data:`FEWEST` units (by a lower bound), or in which one unit could move T by more than
half its standard deviation, means, shares and ratios rest on the range of one unit alone
(:func:`bounded`: none of n people is a share of 4.5/n at most, and noise), and a variance gets the
whole public range, which always holds. For a variance this
is asked of every θ that is refused: one so near 0 or R² is refused only with all between it and
the estimate. Up to (hi−m)(m−lo) is possible about a mean. By the binomial law 95 % intervals of
VAR cover at least 98 % of two-valued columns. Counts and
sums need to know how large the population is. Rows that noise chose are covered all at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np
from scipy import special

from discreet import _exact
from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet.answer import Answer, Record, Rows, Union, bounds, moved_by
from discreet.errors import Hint, ParameterError
from discreet.inference._chosen import selects
from discreet.inference._contrasts import (
    Leaf,
    contrast,
    leaves_of,
    range_of,
    ratio,
    with_leaves,
)
from discreet.inference._inputs import check_untainted, rows_of
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
from discreet.plan import (
    Box,
    Pairwise,
    Powers,
    PublicVariance,
    Quantile,
    moved,
    statistics_of,
    tails,
    windows_of,
)
from discreet.sql import line_of

_RANKS: Final = 1000
"""Ranks of a quantile are moved outward to this grid, so that few margins are computed."""

_MEANS: Final = 15
"""Means at which a variance is tested."""


def population_interval(
    answer: Answer,
    confidence: Number = 0.95,
    *,
    size: int | None = None,
    simultaneous: bool = False,
) -> list[dict[str, Any]]:
    """Return, row by row, ``(low, high)`` for the population behind every number.

    A column that has no population value, or none that is known how to cover, holds None;
    where no column has one, the reason is raised.

    Parameters
    ----------
    answer
        What a curator answered.
    confidence
        Probability over people drawn and noise drawn, for each number, or `simultaneous`
        for all.
    size
        Number of rows of the population (of those that WHERE keeps), for counts and sums,
        which otherwise have no population value. A count of all rows must be among the
        statistics, and nothing is grouped: one size is not that of every group.

    Examples
    --------
    >>> import discreet as dc, numpy as np, pyarrow as pa
    >>> table = dc.policy.Table("people", [dc.policy.Integer("age", 0, 100)])
    >>> policy = dc.policy.Policy([table], dc.policy.Budget("2"), name="sampled")
    >>> data = pa.table({"age": 20 + np.arange(2000) % 40})
    >>> curator = dc.open(data, policy, ledger=":memory:")
    >>> answer = curator.sql("SELECT AVG(age) AS a, STDDEV(age) AS s FROM people", epsilon=2)
    >>> (row,) = answer.interval(target="population")
    >>> row["a"][0] < 39.5 < row["a"][1]
    True
    """
    check_untainted(answer)
    level = _exact.confidence(confidence)
    if isinstance(answer, Union):
        how: Any = {"size": size, "simultaneous": simultaneous}
        return answer.interval(confidence, target="population", **how)
    sample = Sample(answer.full_record, answer.question)
    if sample.record.levels:
        raise ParameterError(
            "totals of several levels have no population intervals yet", hint="GROUP BY sex"
        )
    cells = sample.record.cells
    numeric = [o for o in sample.record.outputs if statistics_of(o.expr) or windows_of(o.expr)]
    ends: dict[str, Box | None] = dict.fromkeys(answer.columns)
    refusals: list[ParameterError] = []
    for out in numeric:
        error = 1 - level
        if simultaneous:
            error /= max(cells, 1) * len(numeric)
        elif answer.rivals or answer.chooses:  # sampling moves all columns of a row
            error /= max(answer.rivals or cells, 1)
        try:
            ends[out.name] = sample.box(out.expr, error, size)
        except ParameterError as refusal:
            refusals.append(refusal)
    if numeric and len(refusals) == len(numeric):
        raise refusals[0]
    none = {out.name for out in numeric if ends[out.name] is None}
    return [
        {name: None if name in none else value for name, value in row.items()}
        for row in answer.rows_of(ends)
    ]


def _regression(question: str | None) -> Hint:
    """The regression that a question about a pair of columns is."""
    line = None if question is None else line_of(question)
    if line is None:
        return Hint.call("curator.regression", None, "pay ~ age", epsilon=1)
    where = {} if line.where is None else {"where": line.where}
    return Hint.call("curator.regression", None, line.formula, table=line.table, **where, epsilon=1)


@dataclass(frozen=True)
class Moments:
    """Sums of powers of one column in one cell, as combinations of what was released."""

    values: Floats
    laws: list[Any]
    sums: list[Floats]
    """Weights of the number of rows, of Σx and, where it was released, of Σx²."""
    lo: float
    hi: float
    rows: int
    """Most rows of one unit."""
    itself: Floats | None = None
    """Weights of squares about the sample's mean, where these were released."""

    @property
    def nuisances(self) -> int:
        """How many a variance has: the mean and, about the sample's own, how far that is off."""
        return 1 if self.itself is None else 2

    def reach(self, m: Floats) -> tuple[Floats, Floats]:
        """Least and most that the rows of one unit add to Σ(x − m)."""
        return self.rows * (self.lo - m), self.rows * (self.hi - m)

    def between(self, m: float, near: float, most: float) -> float:
        """How far squares about means that are this `near` may differ from those about m."""
        if self.itself is not None:
            return 0.0
        off = abs(float((self.sums[1] - m * self.sums[0]) @ self.values))
        return 2 * near * off + most * near**2

    def squares(self, m: float, error: float) -> list[tuple[Floats, Floats]]:
        """Squares about a mean of the population, and the number of rows to compare them with.

        About the sample's mean x̄ they are n(x̄ − m)² less: up to z²θ, as if z² rows were missing.
        """
        n = self.sums[0]
        if self.itself is not None:
            less = float(special.ndtri(1 - error / 2)) ** 2 / float(n @ self.values)
            return [(self.itself, n * times) for times in (1.0, max(1 - less, 0.0))]
        _, first, second = self.sums
        return [(second - 2 * m * first + m * m * n, n)]


@dataclass(frozen=True)
class Sample:
    """A record, read as numbers about a sample of units."""

    record: Record
    question: str | None = None
    """As it was typed, where it was."""

    def box(self, out: Any, error: float, size: int | None) -> Box:
        """Ends of an output in every cell."""
        if windows_of(out):
            raise ParameterError("this column holds no number, so no population value either")
        if any(selects(self.record, i) for i in statistics_of(out)):
            raise ParameterError(
                "the number by which keys were selected from the data has no population value",
                hint="COUNT(*) AS n",
            )
        leaves = leaves_of(self, out)
        own = self._arithmetic(out, {x: self._leaf(x, error / len(leaves), size) for x in leaves})
        if own is None:
            raise ParameterError("this column holds no number, so no population value either")
        if len(leaves) < 2:
            return own
        possible = {x: Box(*np.array([[x] for x in range_of(self, x)])) for x in leaves}
        public = self._arithmetic(out, possible)
        ends = None if public is None else contrast(self, out, error, public)
        if ends is None:
            return own
        each = [ends(i) or (own.low[i], own.high[i]) for i in range(self.record.cells)]
        low, high = np.array(each, dtype=np.float64).reshape(-1, 2).T
        return Box(low, high)

    def _leaf(self, leaf: Leaf, error: float, size: int | None) -> Box:
        """Ends of an average, or of a sum over a sum."""
        if isinstance(leaf, tuple):
            return ratio(self, *leaf, error)
        return self._statistic(leaf, error, size)

    def _arithmetic(self, out: Any, ends: Mapping[Leaf, Box]) -> Box | None:
        """Range of an output, if its leaves have these ends."""
        more = len(self.record.formulas)
        places = {x: x if isinstance(x, int) else more + i for i, x in enumerate(ends)}
        boxes = {places[x]: box for x, box in ends.items()}
        return bounds(with_leaves(out, places), _Boxes(self.record, boxes), 0.5)

    def sums(self, *indices: int) -> bool:
        """Whether all of some statistics are counts or sums."""
        return all(self.record.formulas[i].combination is not None for i in indices)

    def _statistic(self, index: int, error: float, size: int | None) -> Box:
        ends, stated = self._unrounded(index, error, size), moved_by(self.record, index)
        if stated is None:
            return ends
        kind, off, _ = stated
        return moved(kind, ends, off, [float(size or 0)] * self.record.cells)

    def _unrounded(self, index: int, error: float, size: int | None) -> Box:
        """Ends for values as they were measured."""
        formula = self.record.formulas[index]
        powers = formula.powers
        root = getattr(formula, "root", None)
        if isinstance(formula, PublicVariance):
            moments = self._public(formula)
            return self.by_cell(lambda _: self._variance(moments, error, root=formula.root))
        if root is not None and powers is not None:
            return self.by_cell(
                lambda i: self._variance(self._moments(powers, i), error, root=root)
            )
        if powers is not None:
            sums = self.squares(powers)
            return self.by_cell(lambda i: self._mean(self._moments(sums, i), error)[0])
        if isinstance(formula, Quantile):
            return self._quantile(formula, error)
        if formula.combination is not None:
            return self._scaled(index, error, size)
        if isinstance(formula, Pairwise):
            raise ParameterError(
                "the intervals of this column are about the table alone; those of a slope, an "
                "intercept and predictions about the population come with a regression "
                "(params, conf_int), and a test of no correlation is inf.correlation_test(answer)",
                hint=_regression(self.question),
            )
        raise ParameterError(
            f"no population interval is known for {type(formula).__name__.lower()}",
            hint="answer.interval()",
        )

    # -- what was released ----------------------------------------------------------------

    def rows(self, parts: Sequence[int]) -> int:
        """Most rows of one unit behind one cell of some parts."""
        most = [rows_of(self.record, p, one=True)[0] for p in parts]
        if any(m is None for m in most):
            raise ParameterError(
                "this record does not state how many rows of one unit stand behind a number"
            )
        return max([m for m in most if m is not None], default=1)

    def _laws(self, parts: Sequence[int]) -> list[Any]:
        return [self.record.numbers(p).law for p in parts]

    def _values(self, parts: Sequence[int], cell: int) -> Floats:
        return np.array([float(self.record.numbers(p).values[cell]) for p in parts])

    def squares(self, powers: Powers) -> Powers:
        """The same sums with the squares of another statistic of the column, if there are any."""
        if len(powers.sums) > 2:
            return powers
        for other in self.record.formulas:
            other_powers = other.powers
            if (
                other_powers is not None
                and len(other_powers.sums) > 2
                and other_powers.sums[:2] == powers.sums
            ):
                return other_powers
        return powers

    def _moments(self, powers: Powers, cell: int) -> Moments:
        parts = sorted({p for combination in powers.sums for p in combination})
        return Moments(
            self._values(parts, cell),
            self._laws(parts),
            [weights(c, parts) for c in powers.sums],
            float(powers.lo),
            float(powers.hi),
            self.rows(parts),
        )

    def _public(self, formula: PublicVariance) -> Moments:
        """Of squares whose number is public: about a centre, or about their mean."""
        release, count = formula.inputs(self.record.parts)
        n = max(count, 1)
        low, step = float(formula.low), float(formula.step)
        facts = low, low + step * formula.top, self.rows(formula.parts)
        size = np.array([1.0, 0.0, 0.0])
        # what was rounded down may have been up to one more
        if len(release.factors) == 1:
            values = np.array([n, release.rough + 0.5, release.values[0] + 0.5])
            total = np.array([low, step / float(release.times), 0.0])
            itself = np.array([0.0, 0.0, step**2 / float(release.factors[0])])
            laws = [None, release.first, release.law]
            return Moments(values, laws, [size, total], *facts, itself)
        a, b = map(float, release.factors)
        centre = low + step * float(release.centre)
        values = np.array([n, *(x + 0.5 for x in release.values)])
        total = np.array([centre, step / a, 0.0])
        squares = np.array([centre**2, 2 * centre * step / a, step**2 / b])
        return Moments(values, [None, release.law, release.law], [size, total, squares], *facts)

    def by_cell(self, ends: Callable[[int], tuple[float, float]]) -> Box:
        pairs = np.array([ends(i) for i in range(self.record.cells)]).reshape(-1, 2)
        return Box(pairs[:, 0], pairs[:, 1])

    # -- statistics -------------------------------------------------------------------------

    def _mean(
        self, moments: Moments, error: float
    ) -> tuple[tuple[float, float], tuple[float, float]]:
        """Ends for the mean, and bounds of the number of rows."""
        values, laws, rows = moments.values, moments.laws, moments.sums
        lo, hi, k = moments.lo, moments.hi, moments.rows
        spare = SHARE * error
        n, off = float(rows[0] @ values), float(tails.worst_margin(laws, rows[0], spare / 2))
        least, most = n - off, n + off

        def bound(theta: Floats) -> Floats:
            return k * np.maximum(most * (hi - theta) * (theta - lo), 0.0)

        def measured(theta: Floats) -> Floats:
            w = rows[2] - 2 * theta[:, None] * rows[1] + theta[:, None] ** 2 * rows[0]
            return k * (np.maximum(w @ values, 0) + tails.worst_margin(laws, w, spare / 2))

        def spread(theta: Floats) -> Floats:
            reach = k * np.maximum(hi - theta, theta - lo)
            return np.minimum(bound(theta), expected_squares(measured(theta), reach, error - spare))

        def enough(variance: Callable[[Floats], Floats]) -> bool:
            return self._enough(least, k, hi - lo, float(variance(np.array([middle]))[0]))

        middle = float(np.clip(rows[1] @ values / max(n, 1.0), lo, hi))
        if not enough(bound):
            sums = rows[1], rows[0]
            test = bounded(sums, moments.reach, values, laws, error - spare, most=most)
            return hull(test, middle, lo, hi, PLACES), (least, most)
        within = spread if len(rows) > 2 and enough(measured) else bound
        step = STEP * k * (hi - lo)
        test = score((rows[1], rows[0]), within, values, laws, error - spare, step=step)
        return hull(test, middle, lo, hi, PLACES), (least, most)

    def _enough(self, rows: float, k: int, widest: float, variance: float) -> bool:
        """Whether there are units enough, and none of them decides alone."""
        return rows / k >= FEWEST and (k * widest) ** 2 <= variance / 4

    def _variance(self, moments: Moments, error: float, *, root: bool) -> tuple[float, float]:
        (bottom, top), rows = self._mean(moments, SHARE * error / moments.nuisances)
        near = (top - bottom) / (_MEANS - 1) / 2
        ends = []
        for m in np.linspace(bottom, top, _MEANS).tolist():
            # one mean stands for those that are nearer to it than to the next
            apart = max(bottom, m - near), min(top, m + near)
            for about, size in moments.squares(m, SHARE * error / 2):
                step = moments.between(m, near, rows[1])
                sums = about, size
                ends.append(
                    self._about(moments, sums, means=apart, rows=rows, step=step, error=error)
                )
        low, high = min(a for a, _ in ends), max(b for _, b in ends)
        return (math.sqrt(low), math.sqrt(high)) if root else (low, high)

    def _about(
        self,
        moments: Moments,
        sums: tuple[Floats, Floats],
        *,
        means: tuple[float, float],
        rows: tuple[float, float],
        step: float,
        error: float,
    ) -> tuple[float, float]:
        """Ends for the variance, if the mean is one of these."""
        lo, hi, k, (least, most) = moments.lo, moments.hi, moments.rows, rows
        middle = min(max((lo + hi) / 2, means[0]), means[1])
        # Bhatia–Davis, at the mean that allows for most
        ceiling, widest = (hi - middle) * (middle - lo), max(hi - means[0], means[1] - lo) ** 2
        if least / k < FEWEST:
            return 0.0, ceiling

        def spread(theta: Floats) -> Floats:
            return k * most * np.maximum(theta * (widest - theta), 0.0)

        # between these no unit decides alone; what lies beyond follows from the nearest
        far = math.sqrt(max(1 - 16 * k / most, 0.0))
        first, last = widest * (1 - far) / 2, min(widest * (1 + far) / 2, ceiling)
        if first >= last:
            return 0.0, ceiling
        guess = float(np.clip(sums[0] @ moments.values / max(least, 1.0), first, last))
        step += STEP * k * widest
        test = score(sums, spread, moments.values, moments.laws, (1 - SHARE) * error, step=step)
        low, high = hull(test, guess, first, last, PLACES)
        return low if low > first else 0.0, high if high < last else ceiling

    def all_rows(self, but: int | None = None) -> int | None:
        """A statistic that counts all rows, where there is one."""
        for index, formula in enumerate(self.record.formulas):
            counts = formula.combination is not None and index != but
            if counts and self.row(index) == (1.0, 1.0):
                return index
        return None

    def row(self, index: int) -> tuple[float, float]:
        """Least and greatest number that one row adds to a statistic."""
        stated = self.record.statement.get("values_of_one_row")
        entry = stated[index] if isinstance(stated, list) and index < len(stated) else None
        if not isinstance(entry, list) or len(entry) != 2:
            raise ParameterError("this record does not state what one row adds to a number")
        low, high = (float(_exact.exact(v, "a row's value")) for v in entry)
        return low, high

    def _scaled(self, index: int, error: float, size: int | None) -> Box:
        """A count or sum of a population of so many rows."""
        if size is None:
            raise ParameterError(
                "how large a count or sum is in the population depends on how many rows that has",
                hint=Hint("size", 1_000_000),
            )
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ParameterError("size is a number of rows", hint=Hint("size", 1_000_000))
        if self.record.cells > 1:
            raise ParameterError(
                "one size says nothing of how many rows each group has in the population",
                hint="SELECT SUM(x) FILTER (WHERE g = 'a') AS s, COUNT(*) AS n …",
            )
        rows = self.all_rows(but=index)
        if rows is None:
            raise ParameterError(
                "a sum is projected by the number of rows it was added up over: ask for that too",
                hint="SELECT SUM(x) AS s, COUNT(*) AS n …",
            )
        share = ratio(self, index, rows, error)
        return Box(share.low * size, share.high * size)

    def _quantile(self, formula: Quantile, error: float) -> Box:
        """Ends of the sample's quantiles at ranks that the sampling error may reach."""
        q, parts = float(formula.at), list(formula.parts)
        k = self.rows(parts)
        least, whole = formula.sizes(self.record.parts, 1 - SHARE * error)
        off = float(special.ndtri(1 - (1 - SHARE) * error / 4)) * np.sqrt(
            k * q * (1 - q) / np.maximum(least.low, 1.0)
        )
        level = 1 - (1 - SHARE) * error / 2
        low, high = whole.low.copy(), whole.high.copy()
        for cell in range(self.record.cells):
            if least.low[cell] / k < FEWEST:
                continue
            below = Fraction(math.floor(_RANKS * (q - off[cell])), _RANKS)
            above = Fraction(math.ceil(_RANKS * (q + off[cell])), _RANKS)
            if below > 0:
                low[cell] = formula.ranked(self.record.parts, cell, below, level)[0]
            if above < 1:
                high[cell] = formula.ranked(self.record.parts, cell, above, level)[1]
        return Box(low, high)


class _Boxes(Rows):
    """Rows of a record whose statistics have ends already."""

    def __init__(self, record: Record, ends: Mapping[int, Box]) -> None:
        super().__init__(record)
        self._ends = ends

    def box(self, index: int, level: float) -> Box:  # noqa: ARG002 - found at theirs
        """The ends that were found."""
        return self._ends[index]
