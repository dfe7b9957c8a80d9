r"""Proportions from a noisy count: exact tests and intervals for the population.

Model: X ~ Binomial(n, θ) people of a simple random sample of public size n have
the property, and z = X + N was released, N of a known law.

* *Test* of θ = p₀: the p-value is the exact convolution
  :math:`\sum_x \mathrm{Bin}(x;n,p_0)\,P(|x+N-np_0|\ge|z-np_0|)`; one-sided
  alternatives use the tail of x + N itself. It is exactly valid: under θ = p₀ it
  is the tail probability of its own statistic.
* *Interval*: x + N increases stochastically with θ, so inverting the two
  one-sided tests at α/2 is a Clopper–Pearson interval for noisy counts, with
  coverage at least 1 − α for every n, θ and law.
* *Private n*: the interval above is monotone in n; with n inside a noise
  interval at level 1 − α/5, the ends are taken at its ends and at 4α/5.

Sums run over the x within 10 standard deviations (plus 60) of nθ; what is left
out is below 10⁻²⁰ by Bernstein's inequality.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, Unpack

import numpy as np
from scipy import special

from discreet import _exact
from discreet._dataclass import replace
from discreet._exact import Number
from discreet.errors import ParameterError
from discreet.inference._chosen import among, said
from discreet.inference._inputs import (
    Description,
    Noisy,
    check_count,
    read_n,
    repeatable,
    resolve,
    sampled,
    shared,
)
from discreet.inference._laws import Floats, Noise, Rng
from discreet.inference._results import (
    POPULATION,
    Interval,
    TestResult,
    least_of,
    monte_carlo,
    one_of,
    plain,
    read_alternative,
    read_draws,
)

DRAWS = 9_999
"""Simulated nulls of the Monte Carlo methods by default."""


def proportion_test(
    value: Any,
    n: int,
    p0: Number,
    *,
    alternative: str = "two-sided",
    method: Literal["exact", "montecarlo"] = "exact",
    draws: int = DRAWS,
    rng: Rng = None,
    **description: Unpack[Description],
) -> TestResult:
    """Test whether a population proportion equals `p0`, from a noisy count.

    Parameters
    ----------
    value
        The released count (or an array of them), a release, or
        ``(answer, "n", row)``.
    n
        Public size of the sample.
    p0
        Proportion under the null hypothesis.
    epsilon, noise, delta, rho, sigma, law
        The noise of a plain `value`: "laplace" (default; continuous),
        "geometric" or "gaussian" with its parameters, or a law. A release
        brings its own.
    alternative
        "two-sided", "less" or "greater".
    method, draws, rng
        Exact convolution, or Monte Carlo with this many simulated nulls.

    Examples
    --------
    >>> from discreet import inference as inf
    >>> test = inf.proportion_test(value=34.21, n=100, p0=".255", epsilon=".5", noise="laplace")
    >>> round(test.statistic, 5), round(test.pvalue, 5)
    (1.99834, 0.09224)
    """
    item = resolve(value, **description)
    sampled(item)
    size, side = read_n(n, item), read_alternative(alternative)
    null = _exact.confidence(p0, "p0")
    check_count(item, size)
    z = np.asarray(item.value, dtype=np.float64)
    if one_of(method, ("exact", "montecarlo"), "method") == "exact":
        pvalue, floor = _exact_pvalue(z, size, null, item.noise, side), None
    else:
        source, k = repeatable(rng, Noisy(z, item.noise)), read_draws(draws)
        counts = source.binomial(size, null, k) + item.noise.simulate(source, k)
        pvalue, floor = monte_carlo(z - size * null, counts - size * null, side), least_of(k)
    statistic = (z / size - null) / math.sqrt(null * (1 - null) / size)
    return TestResult(
        plain(statistic),
        plain(pvalue),
        side,
        "test of a proportion from a noisy count",
        {"null value": null, "n": size, "noise": item.noise.law},
        None,
        (lambda level: _interval(item, size, level, side)) if z.ndim == 0 else None,
        floor,
    )


def binomial_window(n: int, p: float) -> tuple[Floats, Floats]:
    """Return the counts that matter for Binomial(n, p) and their probabilities."""
    reach = 10 * math.sqrt(n * p * (1 - p)) + 60
    x = np.arange(max(0, math.floor(n * p - reach)), min(n, math.ceil(n * p + reach)) + 1)
    log_choose = special.gammaln(n + 1) - special.gammaln(x + 1) - special.gammaln(n - x + 1)
    mass = np.exp(log_choose + special.xlogy(x, p) + special.xlog1py(n - x, -p))
    return x.astype(np.float64), mass / mass.sum()


def _blend(tail: Callable[[Floats], Any], z: Floats, x: Floats, mass: Floats) -> Any:
    """Return Σ_x mass(x)·tail(z − x), for every z, in pieces that fit in memory."""
    flat = np.atleast_1d(z).ravel()
    rows = max(1, 4_000_000 // x.size)
    parts = [tail(flat[i : i + rows, None] - x[None, :]) @ mass for i in range(0, flat.size, rows)]
    return np.concatenate(parts).reshape(np.shape(z))


def tail_above(z: Floats, n: int, p: float, noise: Noise) -> Any:
    """Return P(X + N ≥ z)."""
    return _blend(noise.at_least, z, *binomial_window(n, p))


def tail_below(z: Floats, n: int, p: float, noise: Noise) -> Any:
    """Return P(X + N ≤ z)."""
    return _blend(noise.at_most, z, *binomial_window(n, p))


def _exact_pvalue(z: Floats, n: int, p0: float, noise: Noise, side: str) -> Any:
    if side == "greater":
        return tail_above(z, n, p0, noise)
    if side == "less":
        return tail_below(z, n, p0, noise)
    distance = np.abs(z - n * p0)
    both = tail_above(n * p0 + distance, n, p0, noise) + tail_below(n * p0 - distance, n, p0, noise)
    return np.minimum(both, 1.0)


def proportion_interval(
    value: Any,
    n: Any,
    *,
    confidence: Number = 0.95,
    alternative: str = "two-sided",
    **description: Unpack[Description],
) -> Interval:
    """Return an interval for a population proportion, from a noisy count.

    Coverage is at least `confidence` for every n, θ and noise law, sampling
    error and noise together.

    Parameters
    ----------
    value, epsilon, noise, law, delta, rho, sigma
        As for :func:`proportion_test`.
    n
        Public size of the sample, or a noisy one (a release).
    alternative
        "greater" gives a lower bound only, "less" an upper bound only.

    Examples
    --------
    >>> from discreet import inference as inf
    >>> inf.proportion_interval(value=30, n=100, epsilon=".5", noise="geometric")
    [0.197207, 0.415664] (95 %)
    """
    item = resolve(value, of_chosen=True, **description)
    sampled(item)
    if item.size != 1:
        raise ParameterError("one proportion at a time: pick a row of the answer")
    level, side = _exact.confidence(confidence), read_alternative(alternative)
    public = hasattr(n, "__index__")
    others = [] if public else [resolve(n, of_chosen=True)]
    shared([item, *others])
    sampled(*others)
    rows = among([mark for i in (item, *others) for mark in i.chosen], "a proportion")
    each = 1 - (1 - level) / rows
    if public:
        size = read_n(n, item)
        check_count(item, size)
        found = _interval(item, size, each, side)
    else:
        found = _interval_private_n(item, others[0], each, side)
    return replace(found, confidence=level, covers=said(POPULATION, rows))


def _interval(item: Noisy, n: int, level: float, side: str) -> Interval:
    alpha = (1 - level) / (2 if side == "two-sided" else 1)
    z = np.asarray(item.value, dtype=np.float64)
    low, high = 0.0, 1.0
    # below the one a count of z or more would be too surprising, above the other one of z or less
    if side != "less":
        low = _root(lambda p: float(tail_above(z, n, p, item.noise)) - alpha)
    if side != "greater":
        high = _root(lambda p: alpha - float(tail_below(z, n, p, item.noise)))
    return Interval(low, high, level, POPULATION)


def _root(increasing: Callable[[float], float]) -> float:
    """Return where an increasing function of θ crosses zero inside [0, 1]."""
    from scipy.optimize import brentq  # noqa: PLC0415 - half of scipy; only roots need it

    if increasing(0.0) >= 0:
        return 0.0
    if increasing(1.0) <= 0:
        return 1.0
    return float(brentq(increasing, 0.0, 1.0, xtol=1e-13, rtol=1e-13))


def _interval_private_n(item: Noisy, size: Noisy, level: float, side: str) -> Interval:
    if size.size != 1:
        raise ParameterError("one sample size at a time")
    alpha = 1 - level
    bottom, top, _ = size.noise.range(1 - alpha / 5)
    most = max(1, math.floor(size.value - bottom))
    least = min(most, max(1, math.ceil(size.value - top)))
    low, high = (_interval(item, n, 1 - 0.8 * alpha, side) for n in (most, least))
    return Interval(low.low, high.high, level, POPULATION)
