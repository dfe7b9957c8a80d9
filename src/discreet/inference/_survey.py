r"""Survey weights: totals, means and counts of a population from a sample of unequal chances.

What is released
----------------
The nine cells of two columns (:mod:`discreet.plan`, "moments"), the column that is asked about
and the table's declared weight, group by group: all at the price of one count. They hold every
sum of :math:`w^ax^b` with a, b ≤ 2, so weighted sums *and* their design-based variances.

Inference
---------
A person with weight w stands for w people. *The design is taken as this*: units are drawn
independently, with unequal chances, a number N of times that was fixed before. With D a unit's own
sum, zero for one outside the group, the Horvitz–Thompson total Σwx has variance
:math:`\sum_uD_u^2-(\sum_uD_u)^2/N`. Where every unit drawn is one row of the sum, the number n of
rows is N, and this is :math:`\sum(wx-\overline{wx})^2`. How many of the units drawn fall into a
group (``by``), meet a condition (``where``) or have a column that may be NULL is chance, N is not
known there, and what is taken off is left out: the variance is at most :math:`\sum_uD_u^2`, which
also holds for Poisson sampling, and the mean number of rows is bounded from the number found
(Chernoff). The Hájek mean Σwx/Σw solves :math:`\sum w(x-\theta)=0`, whose variance is at most
:math:`\sum_uD_u(\theta)^2` in any case. A unit has at most k rows, so both are at most k times the
sums over rows of :math:`w^2x^2` and of :math:`w^2(x-\theta)^2`. θ is kept if the score, linear in
what was released, is within the quantile of normal plus noise (:mod:`._population` has the same
for equal chances). A tenth of the error allowed pays for bounds of the number of rows and of the
variance, which is a noisy sum itself.

A sample with too few of those that weigh much has too small a sum of squares as well. With b what
one unit can move the mean's score by, :math:`Q=\sum_uD_u^2` stands for a variance of at most
:math:`\bigl(\sqrt{Q+z^2b^2/4}+zb/2\bigr)^2` (:mod:`._population`). A mean's score can also
vary no more than :math:`kw_1\,\mathrm E\Bigl[\sum w\Bigr](hi-\theta)(\theta-lo)`, where
w₁ is the heaviest weight that the policy allows: w² is at most w₁w, and the
rest is Bhatia and Davis' inequality with weights. The less of the two is taken, and a mean has no
interval but its range where even the second leaves b more than half a standard deviation.
Simulated groups of 40 to 1 000 rows, some with a few of twenty times the weight of others, are
covered in 98 to 100 % of cases. Counts and totals have no such allowance: totals of rare or very
skewed values in groups of 40 to 1 000 rows, without noise, were covered in 92 to 95 % of cases.

Weights are taken as known before the sample was drawn, or as if: what calibration to known totals
gains is not counted, so intervals are at worst too wide. Cells with fewer than 30 units, or in
which one unit could decide, get the whole public range. Values and weights are clamped to their
public ranges, and rounded where these hold more than 8192 steps.

References
----------
D. Horvitz, D. Thompson, JASA 1952; J. Hájek, "Comment on a paper by D. Basu", 1971; C.-E.
Särndal, B. Swensson, J. Wretman, *Model assisted survey sampling*, 1992, sections 2.8 and 5.7.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from discreet import _exact
from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet._print import interval, number
from discreet._text import quoted
from discreet.answer import Answer
from discreet.errors import Hint, ParameterError
from discreet.inference._columns import where_known
from discreet.inference._formula import read_name
from discreet.inference._inputs import check_untainted, rows_of
from discreet.inference._laws import Floats
from discreet.inference._pivot import hull
from discreet.inference._regression import Ask, paid, table_of
from discreet.inference._results import preformatted
from discreet.inference._score import FEWEST, SHARE, STEP, expected_squares, score
from discreet.plan import Pairwise, tails

if TYPE_CHECKING:
    import pandas as pd

    from discreet.curator import Curator

WHAT: Final = ("count", "total", "mean")
_POWERS: Final = (np.array([1.0, 1, 1]), np.array([0.0, 0.5, 1]), np.array([0.0, 0, 1]))
_PLACES: Final = 150
_FIXED: Final = "how many rows were drawn is taken as fixed by the design"
_RANDOM: Final = "how many of the rows drawn are in each line is taken as chance"


@dataclass(frozen=True)
class Group:
    """Nine noisy cells of weight and value, and what is public about them."""

    cells: Floats
    law: Any
    unit: float
    """Rows that one step of the noise stands for."""
    weight: tuple[float, float]
    value: tuple[float, float]
    rows: int
    fixed: bool = False
    """Whether the design fixes the number of rows: one of each unit drawn, and none left out."""

    def sums(self, a: int, b: int) -> Floats:
        """Coefficients of Σ wᵃxᵇ on the cells."""
        return np.asarray(
            np.kron(_power(*self.weight, a), _power(*self.value, b)), dtype=np.float64
        )

    def estimate(self, what: str) -> float:
        """The weighted count, total or mean; inside what is possible."""
        count, total = (float(self.sums(1, b) @ self.cells) for b in (0, 1))
        if what != "mean":
            return count if what == "count" else total
        return float(np.clip(total / count, *self.value)) if count > 0 else math.nan

    @property
    def design_effect(self) -> float:
        """Kish's n·Σw²/(Σw)²: how many times larger unequal weights make a variance."""
        n, one, two = (float(self.sums(a, 0) @ self.cells) for a in range(3))
        return max(n * two / one**2, 1.0) if one > 0 else math.nan

    def interval(self, what: str, error: float) -> tuple[float, float]:
        """Ends for the population's value."""
        test, low, high = self.test(what, error)
        if test is None:
            return low, high
        middle = float(np.clip(self.estimate(what), low, high))
        return hull(test, middle, low, high, _PLACES)

    def test(
        self, what: str, error: float
    ) -> tuple[Callable[[Floats], Floats] | None, float, float]:
        """Which values the score does not contradict (None: any), and their public range."""
        spare, n = SHARE * error, self.sums(0, 0)
        each = spare / (2 if self.fixed else 3)
        off = float(self._margin(n, each / 2))
        least, most = float(n @ self.cells) - off, float(n @ self.cells) + off
        low, high = self._range(what, most if self.fixed else self._expected(most, each))
        if least / self.rows < FEWEST:
            return None, low, high
        laws, noisy = [self.law] * self.cells.size, self.cells / self.unit
        count, total = (self.sums(1, b) * self.unit for b in (0, 1))
        if what != "mean":
            # compared with θ itself
            own, spread = count if what == "count" else total, self._squares(what, each, most)
            sums = own, np.zeros_like(own)
            return score(sums, spread, noisy, laws, error - spare, shift=1.0), low, high
        bound, spread = self._spreads(each, error - spare)
        middle = np.array([self.estimate(what)])
        # not even if all varied as much as they can
        if not self._reach(middle)[0] ** 2 <= float(bound(middle)[0]) / 4:
            return None, low, high
        step = STEP * self.rows * self.weight[1] * (high - low)
        sums = total, count
        return score(sums, spread, noisy, laws, error - spare, step=step), low, high

    def _squares(self, what: str, error: float, most: float) -> Callable[[Floats], Floats]:
        """Variance of a count or total, at most: of sums over units, about 0 or their mean."""
        own = self.sums(2, 0 if what == "count" else 2)
        squares = max(float(own @ self.cells), 0.0) + float(self._margin(own, error))

        def spread(theta: Floats) -> Floats:
            less = theta**2 / max(most, 1.0) if self.fixed else 0.0 * theta
            return np.asarray(self.rows * np.maximum(squares - less, 0.0))

        return spread

    def _spreads(
        self, each: float, error: float
    ) -> tuple[Callable[[Floats], Floats], Callable[[Floats], Floats]]:
        """Variance of Σw(x − θ): what the ranges allow, and what was measured, if it is less."""
        low, high = self.value
        one, heaviest = self.sums(1, 0), self.rows * self.weight[1]
        most = float(one @ self.cells) + float(self._margin(one, each / 2))
        weight = self._expected(most, each / 2, heaviest)
        squares = [self.sums(2, b) for b in range(3)]

        def bound(theta: Floats) -> Floats:
            return np.asarray(heaviest * weight * np.maximum((high - theta) * (theta - low), 0.0))

        def spread(theta: Floats) -> Floats:
            t = theta[:, None]
            w = squares[2] - 2 * t * squares[1] + t**2 * squares[0]
            variance = self.rows * (np.maximum(w @ self.cells, 0) + self._margin(w, each))
            return np.minimum(bound(theta), expected_squares(variance, self._reach(theta), error))

        return bound, spread

    def _reach(self, theta: Floats) -> Floats:
        """How far one unit can move Σw(x − θ)."""
        far = np.maximum(self.value[1] - theta, theta - self.value[0])
        return np.asarray(self.rows * self.weight[1] * far)

    def _margin(self, weights: Floats, error: float) -> Floats:
        """What the noise of a sum exceeds on one side with at most this probability."""
        own = np.abs(weights) * self.unit
        sharp = tails.tail_margin(self.law, (own**2).sum(axis=-1), own.max(axis=-1), error)
        worst = tails.worst_margin([self.law] * self.cells.size, own, error)
        return np.minimum(sharp.reshape(worst.shape), worst)

    def _expected(self, most: float, error: float, one: float | None = None) -> float:
        """What units drawn add up to on average, at most, where they did to so much (Chernoff).

        One unit adds at most `one`, its rows unless said.
        """
        far = (self.rows if one is None else one) * -math.log(error)
        return max(most, 0.0) + far + math.sqrt(far * (far + 2 * max(most, 0.0)))

    def _range(self, what: str, most: float) -> tuple[float, float]:
        if what == "mean":
            return self.value
        ends = [w * v for w in self.weight for v in (self.value if what == "total" else (1.0,))]
        return min(*ends, 0.0) * max(most, 0.0), max(*ends, 0.0) * max(most, 0.0)


def _power(low: float, high: float, power: int) -> Floats:
    """Coefficients of (low + (high − low)u)ᵖ on 1, u, u² of the cells."""
    r = high - low
    terms = ([1.0], [low, r], [low * low, 2 * low * r, r * r])[power]
    return np.asarray(sum(c * _POWERS[i] for i, c in enumerate(terms)))


@dataclass(frozen=True)
class Survey:
    """Weighted count, total and mean of a population, group by group.

    Attributes
    ----------
    column, weight
        What is asked about, and the weight that the policy declares.
    answer
        What was released, with its cost and record.
    """

    column: str
    weight: str
    answer: Answer
    keys: tuple[dict[str, Any], ...]
    groups: tuple[Group, ...]

    def rows(self, confidence: Number = 0.95) -> list[dict[str, Any]]:
        """Estimates with both ends: ``mean``, ``mean_low``, ``mean_high`` and so on."""
        error = 1 - _exact.confidence(confidence)
        rows = []
        for keys, group in zip(self.keys, self.groups, strict=True):
            row = dict(keys)
            for what in WHAT:
                low, high = group.interval(what, error)
                row |= {what: group.estimate(what), f"{what}_low": low, f"{what}_high": high}
            rows.append({**row, "design_effect": group.design_effect})
        return rows

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        return self.rows()

    def to_pandas(self) -> pd.DataFrame:
        """Return estimates and ends as a DataFrame, the groups as its index."""
        import pandas as pd  # noqa: PLC0415 - only for those who ask

        frame = pd.DataFrame(self._rows)
        names = list(self.keys[0]) if self.keys else []
        return frame.set_index(names) if names else frame

    def _repr_html_(self) -> str:
        return preformatted(self)

    def __repr__(self) -> str:
        lines = [f"{self.column}, weighted by {self.weight}, noise and sampling accounted for"]
        for keys, row in zip(self.keys, self._rows, strict=True):
            name = ", ".join(str(v) for v in keys.values())
            for what in WHAT:
                low, high = row[f"{what}_low"], row[f"{what}_high"]
                half = (high - low) / 2
                text = f"{number(row[what], half):>12}  {interval(low, high, half)}"
                lines.append(f"{name:10} {what:6} {text}")
        lines.append(f"{paid(self.answer)}; intervals cover the population's values (95 %)")
        fixed = bool(self.groups) and self.groups[0].fixed
        lines.append(f"units taken as drawn independently; {_FIXED if fixed else _RANDOM}")
        return "\n".join(lines)


def survey(
    curator: Curator,
    column: str,
    *,
    by: Sequence[str] = (),
    table: str | None = None,
    where: str | None = None,
    ask: Ask,
) -> Survey:
    """Ask for a weighted column and read it; see :meth:`Curator.survey`."""
    own = table_of(curator, table)
    if own.weight is None:
        raise ParameterError(
            f"table {own.name!r} declares no survey weight", hint=Hint("weight", "w")
        )
    column = read_name(column, own)
    names = [read_name(n, own) for n in ([by] if isinstance(by, str) else by)]
    keys = ", ".join(quoted(n) for n in names)
    tests = where_known([column, own.weight], where)
    statistic = f"REGR_COUNT({quoted(column)}, {quoted(own.weight)}) AS n"
    text = f"SELECT {keys}{', ' * bool(keys)}{statistic} FROM {quoted(own.name)} WHERE {tests}"  # noqa: S608 - read by the curator's own parser
    answer = ask(text + (f" GROUP BY {keys}" if keys else ""), keys=names)
    # a row without one of these is left out
    needed = [own.columns.get(c) for c in (column, own.weight, own.unit) if c is not None]
    known = all(c is not None and not c.nullable for c in needed)
    fixed = known and not names and where is None
    return read_survey(answer, column, own.weight, fixed=fixed)


def read_survey(answer: Answer, column: str, weight: str, *, fixed: bool = False) -> Survey:
    """Read groups off the nine cells of an answer.

    `fixed` says that the question leaves out no row of the table.
    """
    record = answer.full_record
    check_untainted(answer)
    (formula,) = record.formulas
    assert isinstance(formula, Pairwise)
    law = record.parts[formula.tensor].noise
    ends = [
        (float(lo), float(lo + span))
        for lo, span in ((formula.x, formula.x_range), (formula.y, formula.y_range))
    ]
    rows = rows_of(record, formula.tensor, one=True)[0] or 1
    unit = 1 / float(formula.whole)
    groups = tuple(
        Group(line, law, unit, ends[0], ends[1], rows, fixed and rows == 1)
        for line in formula.cells(record.parts)
    )
    names = list(record.keys)
    keys = tuple({n: record.keys[n][i] for n in names} for i in range(record.cells))
    return Survey(column, weight, answer, keys, groups)
