r"""Comparing means privately: two groups, pairs, one sample; and ranks.

Why not a noisy t-statistic
---------------------------
The t-statistic of two groups is a ratio; one record can move it by an amount that
depends on the data (let one group's variance go to zero), so no noise of scale
2/(n₁+n₂) makes it private. What *is* private is to release bounded sums, and to
let the test account for their noise.

Guarantee
---------
Values are clamped to the public range, mapped to u ∈ [−1, 1] and rounded to a grid, each
by itself. Each group releases its size, Σu and Σ(u² − ½) with discrete Laplace noise, at the shares
:data:`SHARES` of ε. Adding or removing one record changes the size by 1, Σu by at
most 1, Σ(u² − ½) by at most ½: the three compose to ε, the groups are disjoint, so
everything is ε-DP under add-remove.

Test
----
The pivot of :mod:`._pivot`: linear in the released numbers, sampling and noise variance
together, its null law simulated with the very laws that were released. What is tested
is the mean of *clamped* values; the test is asymptotically exact, and checked by simulation
for normal, uniform, two-point and skewed data, for groups of very unequal size too.

Ranks
-----
:func:`rank_test` uses :math:`\sum_{ij}\operatorname{sgn}(x_i-y_j)` (Mann–Whitney) and
:func:`signed_rank_test` :math:`\sum_{i\le j}\operatorname{sgn}(d_i+d_j)` (Wilcoxon). With
public group sizes (change-one), replacing one value changes at most
:math:`\max(n_1,n_2)` terms of the first and n of the second, each by at most 2:
these are their exact sensitivities, whatever the ties. Without ties their null
laws are free of the distribution, and are simulated with the noise added; ties only
shrink the statistic's spread, so the tests stay valid [1]_.

References
----------
.. [1] S. Couch, Z. Kazan, K. Shi, A. Bray, A. Groce, "Differentially private
   nonparametric hypothesis testing", CCS 2019.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np

from discreet import _exact
from discreet import mechanisms as m
from discreet import privacy as p
from discreet._dataclass import dataclass, replace
from discreet._exact import Number
from discreet.answer import Answer, Record
from discreet.errors import Hint, ParameterError
from discreet.inference._chosen import unchosen
from discreet.inference._inputs import (
    Noisy,
    answer_of,
    chosen_in,
    find_cell,
    noisy,
    output_formula,
    private,
    repeatable,
    rows_of,
    sampled,
    shared,
)
from discreet.inference._laws import Floats, Noise, Rng
from discreet.inference._pivot import Group, inverted, null_draws, statistic
from discreet.inference._results import (
    Interval,
    TestResult,
    least_of,
    monte_carlo,
    plain,
    read_alternative,
    read_draws,
)
from discreet.plan import Dispersion, PublicVariance, Spread

SHARES = (Fraction(1, 5), Fraction(1, 2), Fraction(3, 10))
"""Shares of ε for the size, the sum and the sum of squares of a group."""

_OF_SHARES = np.array([[1.0, 1.0, 1.0], [-1.0, 0.0, 1.0], [0.5, -1.5, 0.5]])

GRID = 2**16
"""Codes per half range: values are rounded to this grid, so that sums are exact integers."""

DRAWS = 1_999
HIDDEN: Final = "a group is small beside its noise: no evidence is claimed"
_COVERS = "the difference of population means of the clamped values"


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Noisy size, Σu and Σ(u² − ½) of values mapped to u ∈ [−1, 1]; see :func:`moments`."""

    count: Noisy
    first: Noisy
    second: Noisy
    low: float
    high: float
    loss: Any = None
    cells: Noise | None = None
    """Noise of each of three shares that the numbers combine; None: each has its own noise."""

    @property
    def half(self) -> float:
        """Half the clamping range: the length of u = 1 in units."""
        return (self.high - self.low) / 2

    @property
    def laws(self) -> tuple[Noise, Noise, Noise]:
        """Independent noises of the three numbers, or of the shares that they combine."""
        if self.cells is not None:
            return (self.cells,) * 3
        return self.count.noise, self.first.noise, self.second.noise

    @property
    def mix(self) -> Floats | None:
        """How the numbers combine the shares (1 − t)², 2t(1 − t), t² with u = 2t − 1."""
        return None if self.cells is None else _OF_SHARES

    @property
    def values(self) -> Floats:
        """The three noisy numbers."""
        return np.array([self.count.value, self.first.value, self.second.value])


def moments(values: Any, low: Number, high: Number, epsilon: Number) -> Moments:
    """Release what a mean test needs from one group of private values.

    Parameters
    ----------
    values
        Private values; everything is clamped, NaN counts as the middle of the range.
    low, high
        Public clamping bounds.
    epsilon
        Cost, under add-remove.

    Examples
    --------
    >>> import numpy as np
    >>> from discreet import inference as inf
    >>> released = inf.moments(np.arange(1000) % 100, 0, 100, epsilon=1)
    >>> abs(released.count.value - 1000) < 300
    True
    """
    a, b = float(_exact.exact(low, "low")), float(_exact.exact(high, "high"))
    if not a < b:
        raise ParameterError(
            f"low must be below high, got {a} and {b}", hint=Hint("low", 0).also("high", 100)
        )
    x = private(values)
    u = (np.clip(np.where(np.isnan(x), (a + b) / 2, x), a, b) - (a + b) / 2) / ((b - a) / 2)
    # integer codes record by record: sums are exact, so sensitivities are true
    code = np.rint(np.clip(u, -1, 1) * GRID).astype(np.int64)
    sums = (code.size, int(code.sum()), int((code**2 - GRID**2 // 2).sum()))
    eps = _exact.epsilon(epsilon)
    released = [
        m.geometric(value, sensitivity=reach, epsilon=eps * share, neighbours="add-remove")
        for value, reach, share in zip(sums, (1, GRID, GRID**2 // 2), SHARES, strict=True)
    ]
    count, first, second = (
        replace(
            item,
            value=float(item.value) / unit,
            noise=Noise(item.noise.law, item.noise.step / unit),
        )
        for item, unit in zip(map(noisy, released), (1, GRID, GRID**2), strict=True)
    )
    return Moments(count, first, second, a, b, p.compose([r.loss for r in released]))


def moments_of(answer: Any, column: str, row: Mapping[str, object] | None = None) -> Moments:
    """Read the moments behind a VARIANCE or STDDEV column of an answer; costs nothing."""
    answer = answer_of(answer)
    record = answer.full_record
    formula = output_formula(record, column)
    if isinstance(formula, PublicVariance):
        raise _public_size()
    if not isinstance(formula, Spread | Dispersion):
        raise ParameterError(
            f"column {column!r} shows no variance; a mean test needs count, sum and squares",
            hint="SELECT …, STDDEV(x) AS sd",
        )
    cell = find_cell(record, row)
    if cell is None:
        raise ParameterError("pick one group", hint=Hint("row", {"sex": "F"}))
    found = _of_record(record, formula, cell)
    return replace(found, count=replace(found.count, chosen=chosen_in(answer, column, cell)))


def _of_record(record: Record, formula: Spread | Dispersion, cell: int) -> Moments:
    """Read the three numbers of a variance, or make them of its three shares."""
    if isinstance(formula, Spread):
        parts: Sequence[int] = (formula.count, formula.first, formula.second)
    else:
        parts = formula.cells
    vectors = [record.numbers(part) for part in parts]
    law = vectors[0].law
    if law is None or any(v.law is None for v in vectors):
        raise _public_size()
    numbers = np.array([float(v.values[cell]) for v in vectors])
    shares: Noise | None = None
    if isinstance(formula, Dispersion):
        step, low = Fraction(1, formula.total), float(formula.low)
        high, shares = low + float(formula.width), Noise(law, step)
        numbers = _OF_SHARES @ numbers / formula.total
        # the law on record of the third only has its variance: eleven halves make ½, 3/2, ½
        laws = [Noise(law * 3, step), Noise(law * 2, step), Noise(law * 11, step / 2)]
    else:
        # the centre is a whole number of steps, so that one end may be half a step further
        half = max(math.ceil(formula.widest / formula.step / 2), 1)
        units = [1.0, 1 / half, 1 / half**2]
        laws = [Noise(v.law, Fraction(u)) for v, u in zip(vectors, units, strict=True) if v.law]
        numbers = numbers * units
        # the record centres squares at `half`, not at ½: shift by what n says
        numbers[2] += numbers[0] * (formula.half / half**2 - 0.5)
        low, high = (float(formula.centre + side * half * formula.step) for side in (-1, 1))
    whom = (str(record.statement.get("neighbours")), str(record.statement.get("unit")), None)
    count, first, second = (
        Noisy(float(v), noise, *whom, *rows_of(record, part, one=True))
        for v, noise, part in zip(numbers, laws, parts, strict=True)
    )
    return Moments(count, first, second, low, high, cells=shares)


def _public_size() -> ParameterError:
    return ParameterError("the group's size is public here; this test expects a noisy one")


def two_sample_test(
    x: Any,
    y: Any,
    *,
    low: Number | None = None,
    high: Number | None = None,
    epsilon: Number | None = None,
    alternative: str = "two-sided",
    draws: int = DRAWS,
    rng: Rng = None,
) -> TestResult:
    """Test whether two groups have the same mean.

    Parameters
    ----------
    x, y
        Private values of two disjoint groups, with `low`, `high` and `epsilon`; or
        two :class:`Moments` released before (then the test costs nothing).
    low, high
        Public range to which values are clamped.
    epsilon
        Cost of the whole test under add-remove; every number released is in it.
    alternative
        "greater": the mean of x is greater.

    Examples
    --------
    >>> import numpy as np
    >>> from discreet import inference as inf
    >>> rng = np.random.default_rng(1)
    >>> placebo, treated = rng.normal(5, 1, 1000), rng.normal(7, 1, 1000)
    >>> test = inf.two_sample_test(treated, placebo, low=0, high=12, epsilon=1, rng=1)
    >>> test.pvalue < 0.01, test.loss.epsilon()
    (True, 1.0)
    """
    if _released(x) != _released(y):
        raise ParameterError("give two private groups, or two released ones")
    groups = [_group(g, low, high, epsilon) for g in (x, y)]
    check_comparable(groups)
    # disjoint groups: one record is in one of them, and both paid the same
    loss = None if _released(x) else groups[0].loss
    result = _mean_test(groups, 0.0, alternative, draws=draws, rng=rng)
    return replace(result, method="two-sample test of means", loss=loss)


def check_comparable(groups: Sequence[Moments]) -> None:
    """Refuse groups that cannot have one mean, or that are no independent samples of people."""
    if max(g.low for g in groups) >= min(g.high for g in groups):
        raise ParameterError(
            "the groups are clamped to ranges that do not meet, so their means differ already",
            hint="groups of one column, or of columns whose ranges overlap",
        )
    shared([g.count for g in groups])
    unchosen([mark for g in groups for mark in g.count.chosen])
    sampled(*(g.count for g in groups), across=True)


def paired_test(
    before: Any,
    after: Any,
    *,
    bound: Number,
    epsilon: Number,
    alternative: str = "two-sided",
    draws: int = DRAWS,
    rng: Rng = None,
) -> TestResult:
    """Test whether the mean difference of pairs is zero.

    Differences after − before are clamped to ±`bound`.

    Examples
    --------
    >>> import numpy as np
    >>> from discreet import inference as inf
    >>> before = np.linspace(60, 90, 500)
    >>> inf.paired_test(before, before - 3, bound=10, epsilon=1, rng=1).pvalue < 0.01
    True
    """
    first, second = private(before), private(after)
    if first.size != second.size:
        raise ParameterError("pairs need as many values before as after")
    reach = _exact.positive(_exact.exact(bound, "bound"), "bound", example=10)
    group = moments(second - first, -reach, reach, epsilon)
    result = _mean_test([group], 0.0, alternative, draws=draws, rng=rng)
    return replace(result, method="paired test of means", loss=group.loss)


def mean_test(
    x: Any,
    mu0: Number,
    *,
    low: Number | None = None,
    high: Number | None = None,
    epsilon: Number | None = None,
    alternative: str = "two-sided",
    draws: int = DRAWS,
    rng: Rng = None,
) -> TestResult:
    """Test whether a mean equals `mu0` (one sample); arguments as :func:`two_sample_test`."""
    group = _group(x, low, high, epsilon)
    sampled(group.count)
    unchosen(group.count.chosen)
    null = float(_exact.exact(mu0, "mu0"))
    if not group.low < null < group.high:
        raise ParameterError("mu0 must lie inside the clamping range")
    result = _mean_test([group], null, alternative, draws=draws, rng=rng)
    return replace(result, loss=None if _released(x) else group.loss)


def _released(x: Any) -> bool:
    """Tell whether `x` is released already (else it is private values)."""
    return isinstance(x, Moments) or (
        isinstance(x, tuple) and bool(x) and isinstance(x[0], Answer | Record)
    )


def _group(x: Any, low: Number | None, high: Number | None, epsilon: Number | None) -> Moments:
    if isinstance(x, tuple) and _released(x):
        x = moments_of(*x)
    if isinstance(x, Moments):
        if epsilon is not None or low is not None or high is not None:
            raise ParameterError(
                "released moments bring their range and cost", hint=Hint("epsilon", None)
            )
        return x
    if low is None or high is None or epsilon is None:
        raise ParameterError(
            "private values need public bounds and a price",
            hint=Hint("low", 0).also("high", 100).also("epsilon", 1),
        )
    return moments(x, low, high, epsilon)


def group_of(g: Moments) -> Group:
    """Released moments as the pivot reads them."""
    return Group(g.values[:, None], g.laws, (g.low + g.high) / 2, (g.high - g.low) / 2, g.mix)


def _mean_test(
    groups: list[Moments], null: float, alternative: str, *, draws: int, rng: Rng
) -> TestResult:
    """Test that one mean is `null`, or that two means differ by it."""
    side = read_alternative(alternative)
    parts = [part for g in groups for part in (g.count, g.first, g.second)]
    source, draws = repeatable(rng, *parts), read_draws(draws)
    released = [group_of(g) for g in groups]
    t = float(statistic(released, np.array([null]))[0])
    ratios = null_draws(released, null, draws, source)
    means = [float(g.mean[0]) for g in released]
    estimate = means[0] - means[1] if len(groups) == 2 else means[0]
    # a table of the law at the estimate, drawn now: one result has one interval
    ends = null_draws(released, estimate, draws, source)

    def interval(level: float) -> Interval:
        low, high = np.quantile(ends, [(1 - level) / 2, (1 + level) / 2])
        bottom, top = inverted(released, estimate, float(low), float(high))
        covers = _COVERS if len(groups) == 2 else "the population mean of the clamped values"
        return Interval(plain(bottom), plain(top), level, covers)

    parameters = {
        "sizes": ", ".join(f"about {max(float(g.size[0]), 0):.0f}" for g in released),
        "estimate": estimate,
        "range": "; ".join(sorted({f"clamped to {g.low:g}…{g.high:g}" for g in groups})),
    }
    pvalue = monte_carlo(t, ratios, side)
    if len(groups) > 1 and is_hidden(released):
        pvalue, parameters["note"] = 1.0, HIDDEN
    floor = least_of(ratios.size)
    return TestResult(t, pvalue, side, "test of a mean", parameters, None, interval, floor)


def is_hidden(released: Sequence[Group]) -> bool:
    """Whether noise hides that a group has anybody: its null law cannot be drawn then.

    Without this a test at 5 % rejects 10 to 14 % of true hypotheses where groups of 25 to 100
    are asked about at ε = 0.1, and nearly all of that in releases with a size below zero.
    """
    return any(float(group.size[0]) <= 0 for group in released)


# -- ranks --------------------------------------------------------------------------


def rank_test(
    x: Any,
    y: Any,
    *,
    epsilon: Number,
    alternative: str = "two-sided",
    draws: int = 9_999,
    rng: Rng = None,
) -> TestResult:
    """Test whether two groups of public sizes come from one distribution (Mann–Whitney).

    No bounds are needed: ranks do not care how large an outlier is. ε-DP under
    change-one, the sizes of both groups being public.

    Examples
    --------
    >>> import numpy as np
    >>> from discreet import inference as inf
    >>> x = np.arange(200.0)
    >>> inf.rank_test(x, x + 60, epsilon=1, rng=1).pvalue < 0.01
    True
    """
    a, b = private(x), np.sort(private(y))
    if min(a.size, b.size) < 2:
        raise ParameterError("each group needs at least two values")
    below, above = np.searchsorted(b, a, "left"), b.size - np.searchsorted(b, a, "right")
    k, n, people = read_draws(draws), a.size, a.size + b.size
    variance = n * b.size * (people + 1) / 3

    def null(source: np.random.Generator) -> Floats:
        if n * b.size > 2500:
            return source.normal(0, math.sqrt(variance), k)
        ranks = source.permuted(np.tile(np.arange(people), (k, 1)), axis=1)
        return np.asarray(2.0 * ranks[:, :n].sum(axis=1) - n * (people - 1))

    value, reach = int(below.sum() - above.sum()), 2 * max(a.size, b.size)
    result = _rank_result(value, reach, epsilon, null, rng, alternative=alternative)
    return replace(result, method="Mann–Whitney test of noisy ranks")


def signed_rank_test(
    before: Any,
    after: Any,
    *,
    epsilon: Number,
    alternative: str = "two-sided",
    draws: int = 9_999,
    rng: Rng = None,
) -> TestResult:
    """Test whether differences of pairs are symmetric about zero (Wilcoxon).

    ε-DP under change-one, the number of pairs being public.
    """
    first, second = private(before), private(after)
    if first.size != second.size or first.size < 2:
        raise ParameterError("pairs need as many values before as after, and at least two")
    d = np.sort(np.nan_to_num(second - first))
    more = d.size - np.searchsorted(d, -d, "right")
    less = np.searchsorted(d, -d, "left")
    # ordered pairs count twice, the diagonal once
    statistic = (int(more.sum() - less.sum()) + int(np.sign(d).sum())) // 2
    k, n = read_draws(draws), d.size
    variance = n * (n + 1) * (2 * n + 1) / 6

    def null(source: np.random.Generator) -> Floats:
        if n > 100:
            return source.normal(0, math.sqrt(variance), k)
        return np.asarray((2.0 * source.integers(0, 2, (k, n)) - 1) @ np.arange(1, n + 1))

    result = _rank_result(statistic, 2 * n, epsilon, null, rng, alternative=alternative)
    return replace(result, method="signed-rank test of noisy ranks")


def _rank_result(
    value: int,
    reach: int,
    epsilon: Number,
    null: Callable[[np.random.Generator], Floats],
    rng: Rng,
    *,
    alternative: str,
) -> TestResult:
    released = m.geometric(value, sensitivity=reach, epsilon=epsilon, neighbours="change-one")
    side, item = read_alternative(alternative), noisy(released)
    source = repeatable(rng, item)
    draws = null(source)
    pvalue = monte_carlo(item.value, draws + item.noise.simulate(source, draws.size), side)
    parameters, floor = {"noise": item.noise.law}, least_of(draws.size)
    return TestResult(float(item.value), pvalue, side, "", parameters, released.loss, floor=floor)
