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

Several shares at once: each interval at level 1 − α/k (Bonferroni).
Ends are not clipped to [0, 1]; :meth:`Interval.clipped` does that.

References
----------
Clopper, Pearson, "The use of confidence or fiducial limits", Biometrika 1934.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet._lazy import special
from discreet.errors import ParameterError

Floats = NDArray[np.float64]

POPULATION = "the population that the respondents were drawn from"
RESPONDENTS = "the people who answered"

_SLACK = 1e-6
"""Relative error allowed to a tail probability computed in doubles."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Two ends (numbers or arrays), their confidence, and what they are about."""

    low: Any
    high: Any
    confidence: float
    covers: str = POPULATION

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
        """The same, cut to [0, 1]; shares inside lose no coverage."""
        return Interval(
            np.clip(self.low, 0, 1), np.clip(self.high, 0, 1), self.confidence, self.covers
        )

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
            hint='of="population"',
        )
    return POPULATION if of == "population" else RESPONDENTS


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
    low, high = -1, n
    if _tail(c, n, n, p, q) <= alpha:
        return n
    while high - low > 1:
        mid = (low + high) // 2
        low, high = (low, mid) if _tail(c, mid, n, p, q) > alpha else (mid, high)
    return high


def _most(c: int, n: int, p: float, q: float, alpha: float) -> int:
    """Return the largest K with P_K(C ≤ c) > α; by symmetry, people without the item."""
    return n - _least(n - c, n, 1 - q, 1 - p, alpha)


def _tail(c: int, k: int, n: int, p: float, q: float) -> float:
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
