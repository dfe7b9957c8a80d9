"""Tails of sums of noise: how far a combination of draws lies from zero, at most.

:func:`margin` is for few draws of two weights and exact; :func:`tail_margin` is for any weights and
never too small. Both read the law that was drawn from.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil, sqrt
from typing import Final

import numpy as np

from discreet._lazy import fft, special
from discreet.noise import DiscreteGaussian, DiscreteLaplace
from discreet.plan._parts import Floats, Law

_BASE: Final = Fraction(64)


@lru_cache(maxsize=4096)
def margin(law: Law, below: int, above: int, factors: tuple[int, int], beta: float) -> float:
    """Return t with P(|b·A + a·B| > t) ≤ beta, for sums A and B of so many draws.

    The laws of A and B are convolved exactly (up to 1e-12). A draw of wide Laplace noise is the
    difference of two exponential variables up to less than 1, and those scale; wide Gaussian
    noise is normal up to 1e-100.
    """
    b, a = (below and factors[0]), (above and factors[1])
    if not b and not a:
        return 0.0
    if beta < 1e-9:
        squares = np.array([float(below * b**2 + above * a**2)])
        return float(tail_margin(law, squares, np.array([float(max(a, b))]), beta / 2)[0])
    if isinstance(law, DiscreteGaussian) and law.sigma2 > _BASE**2:
        spread = sqrt(law.sigma2 * (below * b**2 + above * a**2))
        return float(-special.ndtri(beta / 2)) * spread
    if isinstance(law, DiscreteLaplace) and law.scale > _BASE:
        off = below * b + above * a
        base = margin(DiscreteLaplace(_BASE), below, above, factors, beta)
        return float(law.scale / _BASE * (Fraction(base) + off) + off)
    low, high = 0, b * _half(law, below) + a * _half(law, above)
    while low < high:
        t = (low + high) // 2
        low, high = (
            (low, t) if 2 * _tail(law, below, above, (b, a), t) <= beta - 1e-12 else (t + 1, high)
        )
    return float(low)


def _half(law: Law, n: int) -> int:
    """Reach of a sum of n draws: beyond it lies less than 1e-13."""
    if isinstance(law, DiscreteGaussian):
        return ceil(8 * sqrt(law.sigma2 * n)) + 4
    return ceil(float(law.scale) * (32 + 9 * sqrt(n))) + 4


@lru_cache(maxsize=512)
def _sum(law: Law, n: int) -> tuple[Floats, Floats]:
    """Probabilities of −r … r, and of more than each, for a sum of n draws."""
    r = _half(law, n)
    if n == 0:
        one = np.zeros(2 * r + 1)
        one[r] = 1
    else:
        size = fft.next_fast_len(2 * r + 1)
        k = np.arange(size)
        k = np.where(k > size // 2, k - size, k)
        power = fft.fft(np.asarray(law.pmf(k), dtype=np.float64)) ** n
        one = np.maximum(np.roll(fft.ifft(power).real, r)[: 2 * r + 1], 0)
    above = np.append(np.cumsum(one[::-1])[::-1], 0)[1:]
    return one, above


def _tail(law: Law, below: int, above: int, factors: tuple[int, int], t: int) -> float:
    """P(b·A + a·B > t)."""
    b, a = factors
    if not b:
        return _tail(law, above, 0, (a, 0), t)
    weights = _sum(law, above)[0] if a else np.ones(1)
    r = (weights.size - 1) // 2
    needed = (t - a * np.arange(-r, r + 1)) // b
    more = _sum(law, below)[1]
    half = (more.size - 1) // 2
    # below its reach a sum exceeds anything, beyond it nothing
    chance = np.where(needed < -half, 1.0, more[np.clip(needed + half, 0, more.size - 1)])
    return float((weights * chance).sum())


def tail_margin(law: Law, squares: Floats, largest: Floats, beta: float) -> Floats:
    """Return t with P(Σ cᵢXᵢ > t) ≤ beta, given Σcᵢ² and max|cᵢ| (elementwise).

    For discrete Gaussian noise E e^{θX} ≤ e^{θ²σ²/2} (Canonne et al. 2020). For
    discrete Laplace with r = e^{−1/s}, ln E e^{θX} = −ln(1 − u(θ)) with
    u = 4r sinh²(θ/2)/(1−r)²; it is convex in θ² on |θ| < 1/s, so
    Σ ln E e^{θcᵢX} ≤ (Σcᵢ²/c²)·ln E e^{θcX} with c = max|cᵢ|.
    """
    need = np.log(1 / beta)
    if isinstance(law, DiscreteGaussian):
        return np.asarray(np.sqrt(2 * squares * float(law.sigma2) * need), dtype=np.float64)
    scale = float(law.scale)
    theta = np.linspace(1e-4, 0.999, 400)[:, None] / (scale * largest)
    moved = theta * largest  # below 1/s, so that no power overflows: 4 sinh²(x/2) = eˣ(1 − e⁻ˣ)²
    u = np.exp(moved - 1 / scale) * (np.expm1(-moved) / np.expm1(-1 / scale)) ** 2
    usable = u < 1
    log_mgf = np.where(usable, -np.log1p(-np.where(usable, u, 0)), np.inf)
    bound = (need + squares / largest**2 * log_mgf) / theta
    return np.asarray(bound.min(axis=0), dtype=np.float64)
