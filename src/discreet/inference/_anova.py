r"""Whether several groups have one mean, and whether two columns are related: from answers.

Analysis of variance
--------------------
With :math:`D_i(\mu)` the noisy sum of x − μ in group i and :math:`V_i(\mu)` its variance,
sampling and noise (:mod:`._pivot`), the statistic is
:math:`\min_\mu\sum_iD_i(\mu)^2/V_i(\mu)`. It does not pool variances, and nothing noisy is
divided by. Its null law is simulated: groups of one mean, each with its own variance, plus
noise of the laws that were released. For two groups it is
the square of :func:`two_sample_test`'s statistic.

Correlation
-----------
A slope of zero, by the score T = Σ(x − x̄)(y − ȳ) of :mod:`._regression`: no correlation and no
slope are one hypothesis. Columns without correlation need not be independent: where y spreads more
at extreme x, T varies more than the product of two variances says. The nine cells hold
:math:`R=\sum(x-\bar x)^2(y-\bar y)^2` as well, the variance of T whatever the spread (White). The
larger of the two is taken. R is noisy, with a known variance τ², so that of T is estimated by
V = noise + max(…), which errs: T/√V is compared with Student's t of ν = 2V²/τ² degrees
(Satterthwaite). Where V is small beside τ, ν is near zero and V says little; any larger V is a
bound as good, and the one of the least critical value :math:`t_\nu\sqrt V` is taken. It depends
on τ alone, so no level is lost by the choice: with T normal and the noise of R normal or Laplace,
the level at 5 %, .1 % and .001 % is at most 1.01 times what is stated, whatever R is.

H. White, "A heteroskedasticity-consistent covariance matrix estimator", Econometrica 1980;
F. Satterthwaite, "An approximate distribution of estimates of variance components", Biometrics
Bulletin 1946.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from scipy import special

from discreet import _exact
from discreet.answer import Answer
from discreet.errors import Hint, ParameterError
from discreet.inference._inputs import repeatable
from discreet.inference._laws import Floats, Rng
from discreet.inference._pivot import Group, common_mean
from discreet.inference._regression import of_pair, pair_of
from discreet.inference._results import TestResult, least_of, monte_carlo, read_draws
from discreet.inference._slope import quantile
from discreet.inference._twosample import (
    DRAWS,
    HIDDEN,
    Moments,
    check_comparable,
    group_of,
    is_hidden,
    moments_of,
)
from discreet.plan import MOMENTS

_VARIANCES: Final = np.geomspace(1, 50, 80)
"""Variances that are tried in place of one that the noise hides, in deviations of that noise."""
_LEAST: Final = math.log(1e-300)


def anova_test(
    groups: Any, column: str | None = None, *, draws: int = DRAWS, rng: Rng = None
) -> TestResult:
    """Test whether several groups have the same mean (of clamped values).

    Parameters
    ----------
    groups
        An answer grouped by something, with `column` its VARIANCE or STDDEV; or a list of
        released :class:`Moments`. Costs nothing.
    draws, rng
        Simulated null statistics; the same release has the same p-value.

    Examples
    --------
    >>> import numpy as np
    >>> from discreet import inference as inf
    >>> rng = np.random.default_rng(1)
    >>> groups = [inf.moments(rng.normal(m, 1, 800), 0, 10, epsilon=1) for m in (4, 5, 6)]
    >>> inf.anova_test(groups, rng=1).pvalue < 0.01
    True
    """
    sums = _groups(groups, column)
    if len(sums) < 2:
        raise ParameterError("an analysis of variance compares at least two groups")
    check_comparable(sums)
    parts = [part for g in sums for part in (g.count, g.first, g.second)]
    source, k = repeatable(rng, *parts), read_draws(draws)
    released = [group_of(g) for g in sums]
    statistic, mean = _statistic(released)
    null, _ = _statistic([g.simulated(float(mean[0]), k, source) for g in released])
    value = float(statistic[0])
    pvalue = monte_carlo(value, null)
    sizes = ", ".join(f"about {max(float(g.size[0]), 0):.0f}" for g in released)
    parameters = {"groups": len(sums), "sizes": sizes, "common mean": float(mean[0])}
    if is_hidden(released):
        pvalue, parameters["note"] = 1.0, HIDDEN
    name = "analysis of variance of noisy sums"
    return TestResult(value, pvalue, "greater", name, parameters, floor=least_of(k))


def _groups(groups: Any, column: str | None) -> list[Moments]:
    if isinstance(groups, Answer):
        if column is None:
            raise ParameterError("say which column holds the spread", hint=Hint("column", "sd"))
        keys = groups.full_record.keys
        rows = [dict(zip(keys, row, strict=True)) for row in zip(*keys.values(), strict=True)]
        return [moments_of(groups, column, row) for row in rows]
    if not isinstance(groups, Sequence) or not all(isinstance(g, Moments) for g in groups):
        raise ParameterError("give an answer with groups, or a list of released moments")
    return list(groups)


def _statistic(groups: Sequence[Group]) -> tuple[Floats, Floats]:
    """Least weighted distance of all groups from one mean, and that mean, draw by draw."""
    mean = common_mean(groups, [np.zeros(1)] * len(groups), steps=3)
    distances = ((g.total - mean * g.size) ** 2 / g.variance(mean) for g in groups)
    return np.asarray(sum(distances)), mean


def correlation_test(answer: Answer) -> TestResult:
    """Test whether two columns are uncorrelated, from an answer about the pair.

    It holds its level also where the spread of one column depends on the other.

    Parameters
    ----------
    answer
        An answer that shows ``CORR(y, x)`` or another statistic of two columns, without
        groups. Costs nothing; the same release has the same p-value.
    """
    fit = of_pair(answer, "y", "x")
    score, released = fit.score("x"), fit.released
    name, share = "test of no correlation (score)", "noise's share of the variance"
    if not score.determined:
        return TestResult(0.0, 1.0, "two-sided", name, {share: 1.0, "note": HIDDEN})
    t, noise, sampling = score.parts(0.0)
    squares, off = (released.rows * x for x in _products_squared(answer))
    total = noise + max(sampling, squares)
    # the larger share of the noise, whose tail is the heavier one
    most = noise / (noise + sampling)
    variances = np.maximum(total, off * _VARIANCES)
    degrees = 2 * (variances / max(off, 1e-9 * total)) ** 2

    def rejects(log_error: float) -> bool:
        error = math.exp(log_error)
        student = np.abs(special.stdtrit(degrees, error / 2))
        heavier = quantile(most, error, laplace=released.laplace) - quantile(
            most, error, laplace=False
        )
        return bool((abs(t) > (student + heavier) * np.sqrt(variances)).any())

    pvalue = 1.0
    if rejects(0.0):
        least = rejects(_LEAST)
        pvalue = math.exp(_LEAST if least else _exact.turning(rejects, _LEAST, 0.0)[1])
    parameters = {share: noise / total}
    value = t / math.sqrt(total)
    return TestResult(value, pvalue, "two-sided", name, parameters, floor=math.exp(_LEAST))


def _products_squared(answer: Answer) -> tuple[float, float]:
    """Σ(x − x̄)²(y − ȳ)² off the nine cells, at least zero, and the deviation of its noise."""
    formula, law = pair_of(answer)
    cells = formula.cells(answer.full_record.parts)[0]
    n, *sums = MOMENTS[:3] @ cells
    # (u − m)² in the shares (1 − u)², 2u(1 − u), u²
    means = (min(max(float(s) / max(float(n), 1.0), 0.0), 1.0) for s in sums)
    x, y = (np.array([m * m, m * m - m, (1 - m) ** 2]) for m in means)
    weights = np.kron(x, y) * float(formula.x_range * formula.y_range) ** 2
    off = float(np.linalg.norm(weights)) * math.sqrt(law.variance) / float(formula.whole)
    return max(float(weights @ cells), 0.0), off
