r"""Intervals for shares, from counts of randomised reports.

A report *supports* item v with probability p if v is the sender's value and with
probability q otherwise; C of n reports support v. Two questions, two answers:

``of="population"`` — the n people were drawn independently from a population with
share f. Then C ~ Binomial(n, λ), λ = q + (p−q)f, exactly; Clopper–Pearson bounds for
λ are mapped through the line f = (λ−q)/(p−q). Coverage is at least nominal for
every n, f and ε.

``of="respondents"`` — the n people are who they are and K of them hold v. Then
C ~ Binomial(K, p) + Binomial(n−K, q), whose tails are monotone in K (raising K by one
replaces a Bernoulli(q) by a Bernoulli(p)); inverting the two one-sided tests at
α/2 gives bounds for K with coverage at least nominal. It is shorter, much so at large ε.

Other estimates are means of bounded numbers that reports are worth. Their laws given
a value are known, so the moment generating function is, too, up to the unknown
population; its largest value bounds the tails (Chernoff), for every n:

* :func:`mean_bounds`: a worth that is convex in the value is largest when everybody stands at
  an end of the range, so the bound is a chord;
* :func:`bits_reach`: sums of independent bits, of which each value marks at most h: the
  unmarked bits exactly, the marked ones by their worst choice, and the draw of
  the value by Hoeffding's lemma, ln E e^X ≤ E X + range²/8;
* :func:`channel_reach`: any worth of one symbol, in the same way.

Several shares at once: each interval at level 1 − α/k (Bonferroni).
Ends are not clipped to where the truth must lie; :attr:`Interval.clipped` does that.

References
----------
Clopper, Pearson, "The use of confidence or fiducial limits", Biometrika 1934. Hoeffding,
"Probability inequalities for sums of bounded random variables", JASA 1963.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet._dataclass import dataclass, replace
from discreet._exact import turning
from discreet._lazy import special
from discreet.errors import Hint, ParameterError

Floats = NDArray[np.float64]

POPULATION = "the population that the respondents were drawn from"
RESPONDENTS = "the people who answered"

EXACT = "exact (Clopper–Pearson)"
INVERTED = "exact (both one-sided tests inverted)"
TWICE = "valid for every n (two Clopper–Pearson bounds)"
CHERNOFF = "valid for every n (Chernoff)"
NORMAL = "normal approximation"

_FACTORS = (1 / 16, 1 / 4, 1 / 2, 3 / 4, 9 / 10, 1, 9 / 8)
"""Trial points of a Chernoff bound, as multiples of the best one for a normal law."""

_CELLS = 1 << 21

_SLACK = 1e-6
"""Relative error allowed to a tail probability computed in doubles."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Two ends (numbers or arrays), their confidence, what they are about, and its range."""

    low: Any
    high: Any
    confidence: float
    covers: str = POPULATION
    method: str = EXACT
    limits: tuple[float, float] = (0.0, 1.0)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.low, self.high))

    def __contains__(self, value: Any) -> bool:
        return bool(np.all((self.low <= value) & (value <= self.high)))

    @property
    def half_width(self) -> Any:
        """Half the distance between the ends."""
        return (self.high - self.low) / 2

    @property
    def clipped(self) -> Interval:
        """The same, cut to the range of what it is about ([0, 1] for shares): no coverage lost."""
        low, high = (np.clip(end, *self.limits) for end in self)
        return replace(self, low=low, high=high)

    def __getitem__(self, item: int) -> tuple[float, float]:
        return float(self.low[item]), float(self.high[item])


def clopper_pearson(counts: Any, n: Any, error: float) -> tuple[Floats, Floats]:
    """Return bounds for a binomial probability, each end wrong with probability ≤ error/2.

    >>> low, high = clopper_pearson(np.array([0, 5]), 10, 0.05)
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([0.0, 0.1871], [0.3085, 0.8129])
    """
    c = np.asarray(counts, dtype=np.float64)
    total = np.asarray(n, dtype=np.float64)
    low = special.betaincinv(np.maximum(c, 1), total - c + 1, error / 2)
    high = special.betainccinv(c + 1, np.maximum(total - c, 1), error / 2)
    return np.where(c <= 0, 0.0, low), np.where(c >= total, 1.0, high)


def normal_quantile(error: float) -> float:
    """Return z with two-sided tail probability `error`."""
    return float(-special.ndtri(error / 2))


def read_of(of: str) -> str:
    """Check which question an interval answers."""
    if of not in ("population", "respondents"):
        raise ParameterError(
            f"of must be 'population' or 'respondents', got {str(of)[:40]!r}",
            hint=Hint("of", "population"),
        )
    return POPULATION if of == "population" else RESPONDENTS


# -- Chernoff ---------------------------------------------------------------------------


def mean_bounds(
    mean: float, n: int, lifts: Callable[[Floats, int], Floats], spread: float, error: float
) -> tuple[float, float]:
    """Return bounds for μ = E t ∈ [−1, 1] from the mean of `n` worths.

    Parameters
    ----------
    mean, n
        Mean of the worths; E[worth | t] = t.
    lifts
        E[e^{s·worth} − 1 | t] at arrays of s, for t = −1 or 1; convex in t between.
    spread
        Variance of a worth, roughly: where the search starts.
    error
        Each end is wrong with probability ≤ error/2.
    """
    depth = math.log(2 / error) / n
    best = math.sqrt(2 * depth / spread)
    s = best * np.concatenate([np.geomspace(1 / 64, 1 / 2, 12), np.linspace(0.55, 1.5, 39)])
    ends = []
    for sign in (1, -1):
        # P(mean ≥ w) ≤ (E e^{s·worth})ⁿ e^{−nsw}, and E e^{s·worth} ≤ the chord at μ: linear in μ
        with np.errstate(over="ignore", invalid="ignore"):
            left, right = lifts(sign * s, -1), lifts(sign * s, 1)
            bound = (2 * np.expm1(sign * s * mean - depth) - left - right) / (right - left)
        ends.append(bound[np.isfinite(bound)])
    return float(ends[0].max(initial=-1e300)), float(ends[1].min(initial=1e300))


def _chernoff(psi: Callable[[Floats], Floats], spread: Floats, error: float) -> Floats:
    """Return t with P(estimate − truth > t) ≤ error/2, ln E e^{s(estimate − truth)} ≤ psi(s)."""
    depth = math.log(2 / error)
    best = np.sqrt(2 * depth / np.maximum(spread, 1e-300))
    reach = np.full(len(spread), np.inf)
    for factor in _FACTORS:  # every s is valid, the least bound the best
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            bound = (psi(factor * best) + depth) / (factor * best)
        reach = np.fmin(reach, np.where(np.isfinite(bound), bound, np.inf))
    return np.where(spread > 0, reach, 0.0)


def bits_reach(
    weights: Sequence[Floats],
    people: Sequence[int],
    rates: tuple[float, float],
    marked: int,
    error: float,
) -> tuple[Floats, Floats]:
    """Return how far linear readings of bits may lie above and below the truth.

    Parameters
    ----------
    weights
        For each group of people: what a 1 adds to each reading, shape (readings, bits).
    people
        Sizes of the groups.
    rates
        Chance of a 1 for a marked bit, and for another one.
    marked
        Bits that a value marks at most.
    error
        Each end is wrong with probability ≤ error/2.
    """
    one, zero = rates
    reaches = []
    rows = max(1, _CELLS // max(1, sum(a.shape[1] for a in weights)))
    for start in range(0, len(weights[0]), rows):
        part = [a[start : start + rows] for a in weights]
        span = [_top(a, marked) + _top(-a, marked) for a in part]

        def psi(s: Floats, part: Any = part, span: Any = span) -> Floats:
            total = np.zeros(len(s))
            for a, wide, n in zip(part, span, people, strict=True):
                x = s[:, None] * a
                idle, own = np.log1p(zero * np.expm1(x)), np.log1p(one * np.expm1(x))
                most = _top(own - idle - (one - zero) * x, marked)
                sampling = ((one - zero) * s * wide) ** 2 / 8
                total += n * ((idle - zero * x).sum(axis=1) + most + sampling)
            return total

        spread = sum(
            n * (zero * (1 - zero) * (a * a).sum(axis=1) + wide**2 / 4)
            for a, wide, n in zip(part, span, people, strict=True)
        )
        reaches.append(_sides(psi, np.asarray(spread), error))
    above, below = zip(*reaches, strict=True)
    return np.concatenate(above), np.concatenate(below)


def channel_reach(
    weights: Floats, n: int, channel: Callable[[Floats], Floats], error: float
) -> tuple[Floats, Floats]:
    """Return how far means of worths may lie above and below their expectation.

    Parameters
    ----------
    weights
        Worth of each symbol, shape (readings, symbols).
    n
        Number of reports.
    channel
        Turns rows over symbols into rows of expectations given each value.
    error
        Each end is wrong with probability ≤ error/2.
    """
    weights = weights - weights.mean(axis=1, keepdims=True)  # a constant is no error
    means = channel(weights)
    wide = np.ptp(means, axis=1)

    def psi(s: Floats) -> Floats:
        x = s[:, None] / n
        most = (np.log1p(channel(np.expm1(x * weights))) - x * means).max(axis=1)
        return np.asarray(n * (most + (s / n * wide) ** 2 / 8))

    spread = (channel(weights**2) - means**2).max(axis=1) + wide**2 / 4
    return _sides(psi, spread / n, error)


def _sides(psi: Callable[[Floats], Floats], spread: Floats, error: float) -> tuple[Floats, Floats]:
    return _chernoff(psi, spread, error), _chernoff(lambda s: psi(-s), spread, error)


def _top(a: Floats, count: int) -> Floats:
    """Sum the `count` largest entries of each row, as far as they are positive."""
    few = min(count, a.shape[1])
    return np.asarray(np.maximum(np.partition(a, -few, axis=1)[:, -few:], 0.0).sum(axis=1))


def bits_variance(
    weights: Sequence[Floats],
    people: Sequence[float],
    designs: Sequence[Floats],
    shares: Floats,
    rates: tuple[float, float],
    *,
    joint: bool = False,
) -> Floats:
    """Return the exact variance of linear readings of bits, people drawn from a population.

    `designs` say, for each group, which bits (rows) each value (column) marks; `shares` are the
    values' shares. Bits are independent given the value. If `joint`, the covariance of all.
    """
    one, zero = rates
    total = np.zeros((len(weights[0]),) * (2 if joint else 1))
    for a, n, marks in zip(weights, people, designs, strict=True):
        rate = marks @ shares
        coins = rate * one * (1 - one) + (1 - rate) * zero * (1 - zero)
        mean = (one - zero) * (a @ marks)
        average = mean @ shares
        if joint:
            total += n * ((a * coins) @ a.T + (mean * shares) @ mean.T - np.outer(average, average))
        else:
            total += n * ((a * a) @ coins + mean**2 @ shares - average**2)
    return total


# -- the people who answered --------------------------------------------------------------


def respondents(
    counts: NDArray[Any], n: int, p: float, q: float, error: float
) -> tuple[Floats, Floats]:
    """Return bounds for K/n given C ~ Bin(K, p) + Bin(n−K, q)."""
    # each distinct count is worked out once
    distinct, where = np.unique(np.asarray(counts, dtype=np.int64), return_inverse=True)
    alpha = error / 2 * (1 - _SLACK)
    low = np.array([_least(int(c), n, p, q, alpha) for c in distinct]) / n
    high = np.array([_most(int(c), n, p, q, alpha) for c in distinct]) / n
    return low[where], high[where]


def _least(c: int, n: int, p: float, q: float, alpha: float) -> int:
    """Return the least K that the test against larger counts does not reject: P_K(C ≥ c) > α."""
    return turning(lambda k: tail(c, k, n, p, q) > alpha, -1, n)[1]


def _most(c: int, n: int, p: float, q: float, alpha: float) -> int:
    """Return the largest K with P_K(C ≤ c) > α; by symmetry, people without the item."""
    return n - _least(n - c, n, 1 - q, 1 - p, alpha)


def tail(c: int, k: int, n: int, p: float, q: float) -> float:
    """Return P(Bin(k, p) + Bin(n−k, q) ≥ c).

    The sum runs over the larger-variance window of the first term; what lies
    beyond 10 standard deviations and 60 has mass below 1e-20 (Bernstein).
    """
    reach = 10 * np.sqrt(k * p * (1 - p)) + 60
    x = np.arange(max(0, int(k * p - reach)), min(k, int(k * p + reach)) + 1)
    pmf = np.exp(log_binomial(float(k), x.astype(np.float64), p))
    rest = c - x
    sure, never = rest <= 0, rest > n - k
    inner = np.clip(rest, 1, max(n - k, 1))
    upper = special.betainc(inner, n - k - inner + 1, q) if n > k else np.zeros(len(x))
    upper = np.where(sure, 1.0, np.where(never, 0.0, upper))
    return float(min(1.0, pmf @ upper))


def log_binomial(n: Any, x: Floats, p: float) -> Floats:
    """Return ln of the binomial pmf by Loader's saddle-point form, good to about 1e-12.

    Differences of log-gamma functions would lose 9 digits at n = 10⁸.
    """
    n = np.asarray(n, dtype=np.float64)
    y = n - x
    with np.errstate(divide="ignore", invalid="ignore"):
        inner = (
            _stirling(n) - _stirling(x) - _stirling(y)
            - _deviance(x, n * p) - _deviance(y, n * (1 - p))
            + 0.5 * (np.log(n) - np.log(x) - np.log(y)) - 0.5 * math.log(2 * math.pi)
        )  # fmt: skip
    ends = np.where(x == 0, n * math.log1p(-p), n * math.log(p) if p else -np.inf)
    return np.where((x > 0) & (y > 0), inner, ends)


def _stirling(n: Any) -> Any:
    """Return ln n! − ln of Stirling's formula."""
    n = np.maximum(n, 1.0)
    series = 1 / (12 * n) - 1 / (360 * n**3) + 1 / (1260 * n**5) - 1 / (1680 * n**7)
    small = special.gammaln(n + 1) - (n + 0.5) * np.log(n) + n - 0.5 * math.log(2 * math.pi)
    return np.where(n < 16, small, series)


def _deviance(x: Any, mean: Any) -> Any:
    """Return x·ln(x/mean) + mean − x."""
    d = (x - mean) / mean
    return mean * ((1 + d) * np.log1p(d) - d)
