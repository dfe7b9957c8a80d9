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
A slope of zero, by the score of :mod:`._regression`: no correlation and no slope are one
hypothesis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from discreet.answer import Answer
from discreet.errors import Hint, ParameterError
from discreet.inference._inputs import repeatable
from discreet.inference._laws import Floats, Rng
from discreet.inference._pivot import Group, common_mean
from discreet.inference._regression import of_pair
from discreet.inference._results import TestResult, monte_carlo, read_draws
from discreet.inference._twosample import (
    DRAWS,
    HIDDEN,
    Moments,
    check_comparable,
    group_of,
    is_hidden,
    moments_of,
)


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
    found = _groups(groups, column)
    if len(found) < 2:
        raise ParameterError("an analysis of variance compares at least two groups")
    check_comparable(found)
    parts = [part for g in found for part in (g.count, g.first, g.second)]
    source, k = repeatable(rng, *parts), read_draws(draws)
    released = [group_of(g) for g in found]
    statistic, mean = _statistic(released)
    null, _ = _statistic([g.simulated(float(mean[0]), k, source) for g in released])
    value = float(statistic[0])
    pvalue = monte_carlo(value, null)
    sizes = ", ".join(f"about {max(float(g.size[0]), 0):.0f}" for g in released)
    parameters = {"groups": len(found), "sizes": sizes, "common mean": float(mean[0])}
    if is_hidden(released):
        pvalue, parameters["note"] = 1.0, HIDDEN
    return TestResult(value, pvalue, "greater", "analysis of variance of noisy sums", parameters)


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

    Parameters
    ----------
    answer
        An answer that shows ``CORR(y, x)`` or another statistic of two columns, without
        groups. Costs nothing; the same release has the same p-value.
    """
    score = of_pair(answer, "y", "x").score("x")
    t, noise, sampling = score.parts(0.0)
    value = t / (noise + sampling) ** 0.5
    parameters = {"noise's share of the variance": noise / (noise + sampling)}
    return TestResult(
        value, score.pvalue(0.0), "two-sided", "test of no correlation (score)", parameters
    )
