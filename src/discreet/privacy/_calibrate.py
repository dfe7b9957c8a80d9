"""How much Gaussian noise a target (ε, δ) needs, continuous and on the integers.

*Continuous.* σ is the least with δ_{Gauss, μ=Δ/σ}(ε) ≤ δ (Balle & Wang 2018), for every
ε > 0. The textbook σ = Δ√(2 ln(1.25/δ))/ε is proved only for ε < 1, wastes noise there and
fails for large ε. The σ returned is one at which the bound was evaluated.

*On the integers.* Three proofs bound the discrete Gaussian (:mod:`discreet.privacy._additive`):
the smoothing lemma, whose best s² is searched; the conversion of ρ; and, for small σ, the
exact sum, which is looked into last. Whatever the search did, the variances returned are
ones at which the composition of the parts' own losses was evaluated and found within (ε, δ).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np

from discreet import _exact
from discreet._exact import Number, ceil_float, decimal, exact, floor_float, show, turning
from discreet.errors import Hint, ParameterError
from discreet.privacy._additive import (
    SMOOTHING,
    DiscreteGaussian,
    log_gaussian_delta,
    smoothing_price,
)
from discreet.privacy._compose import compose
from discreet.privacy._convert import largest_rho
from discreet.privacy._loss import PrivacyLoss

_BITS = 40
"""Variances are rounded up to this many significant bits."""

_CLOSE = Fraction(3, 1000)
"""Several parts this near to the continuous law are not searched further: it takes too long."""


def gaussian_sigma(sensitivity: Number, epsilon: Number, delta: Number) -> float:
    """Return the least σ (rounded up) whose Gaussian noise is (ε, δ)-DP.

    Parameters
    ----------
    sensitivity
        L2 sensitivity Δ₂ of the answer.
    epsilon, delta
        The target.

    Examples
    --------
    >>> round(gaussian_sigma(1, 1, "1e-5"), 6)
    3.730632
    """
    reach = ceil_float(_exact.positive(decimal(sensitivity, "sensitivity"), "sensitivity"))
    eps = np.array([floor_float(_exact.epsilon(epsilon))])
    log_target = math.log(floor_float(_exact.delta(delta))) * (1 + 2.0**-50)

    def fits(mu: float) -> bool:
        return bool(log_gaussian_delta(mu, eps)[0] <= log_target)

    low, high = 1.0, 1.0
    while not fits(low):
        low /= 2
    while fits(high):
        high *= 2
    mu, _ = turning(lambda m: not fits(m), low, high)
    return reach / mu * (1 + 2.0**-50)


def discrete_gaussian_variance(
    l2_squared: Number, epsilon: Number, delta: Number, *, coordinates: int = 1
) -> Fraction:
    """Return the least proven σ² whose discrete Gaussian noise is (ε, δ)-DP.

    Parameters
    ----------
    l2_squared
        Squared L2 sensitivity of a vector of integers.
    epsilon, delta
        The target.
    coordinates
        How many of the integers one unit can move, at most.

    Examples
    --------
    >>> from discreet import privacy as p
    >>> variance = p.discrete_gaussian_variance(1, 4, "1e-6")
    >>> p.DiscreteGaussian.from_variance(variance).delta(4) <= 1e-6
    True
    >>> round(float(variance), 3)
    1.369
    """
    return discrete_gaussian_variances([l2_squared], epsilon, delta, coordinates=[coordinates])[0]


def discrete_gaussian_variances(
    l2_squared: Sequence[Number],
    epsilon: Number,
    delta: Number,
    *,
    coordinates: Sequence[int],
) -> tuple[Fraction, ...]:
    """Return a σ² per part such that all parts together are (ε, δ)-DP, in equal shares.

    Parameters
    ----------
    l2_squared
        Squared L2 sensitivity of each part, a vector of integers.
    epsilon, delta
        The target for all parts together.
    coordinates
        How many integers of each part one unit can move, at most.

    Examples
    --------
    >>> from discreet import privacy as p
    >>> variances = p.discrete_gaussian_variances([1, 100], 1, "1e-6", coordinates=[1, 1])
    >>> [round(float(v), 1) for v in variances]
    [35.7, 3569.7]
    """
    reach = tuple(
        _exact.positive(exact(s, "l2_squared"), "l2_squared", example=1) for s in l2_squared
    )
    if not reach or len(reach) != len(coordinates):
        raise ParameterError(
            "every part needs a squared sensitivity and a number of coordinates",
            hint=Hint("l2_squared", [1]).also("coordinates", [1]),
        )
    parts = tuple(
        (loss.sensitivity2, loss.dimension)
        for s, d in zip(reach, coordinates, strict=True)
        for loss in [DiscreteGaussian.from_variance(1, s, d)]
    )
    return _variances(parts, _exact.epsilon(epsilon), _exact.delta(delta))


Parts = tuple[tuple[Fraction, int], ...]


@lru_cache(maxsize=256)
def _variances(parts: Parts, epsilon: Fraction, delta: Fraction) -> tuple[Fraction, ...]:
    tries = [*_smoothed_tries(parts, epsilon, delta), _concentrated_try(parts, epsilon, delta)]
    choice = min((t for t in tries if t is not None), key=lambda t: _worst(parts, t), default=None)
    if choice is None:
        raise ParameterError(
            f"no discrete Gaussian is certified at ε={show(epsilon)}, δ={show(delta)}",
            hint=Hint("delta", "1e-6"),
        )

    def fits(variances: Sequence[Fraction]) -> bool:
        return _joint(parts, variances).delta(epsilon) <= delta

    # rounding in the search may have gone the wrong way: the parts' own losses decide
    choice = tuple(_short(v) for v in choice)
    for _ in range(200):
        if fits(choice):
            ideal = len(parts) * Fraction(gaussian_sigma(1, epsilon, delta)) ** 2
            near = _worst(parts, choice) <= ideal * (1 + _CLOSE)
            return choice if near and len(parts) > 1 else _summed_try(parts, choice, fits)
        choice = tuple(_short(v * (1 + Fraction(1, 2**30))) for v in choice)
    raise ParameterError("delta is below what can be certified", hint=Hint("delta", "1e-6"))


def _joint(parts: Parts, variances: Sequence[Fraction]) -> PrivacyLoss:
    pairs = zip(variances, parts, strict=True)
    return compose([DiscreteGaussian.from_variance(v, s, d) for v, (s, d) in pairs])


def _worst(parts: Parts, variances: Sequence[Fraction]) -> Fraction:
    """Return the largest variance relative to its part's squared sensitivity."""
    return max(v / s for v, (s, _) in zip(variances, parts, strict=True))


def _short(value: Fraction) -> Fraction:
    """Round up to a rational that is short to write down."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length() - _BITS
    unit = Fraction(2) ** exponent
    return -(-value // unit) * unit


def _smoothed_tries(
    parts: Parts, epsilon: Fraction, delta: Fraction
) -> list[tuple[Fraction, ...] | None]:
    """Try the lemma: σ² = kΔ²/μ² + s², where μ is the calibration at what s² leaves of (ε, δ)."""
    dimension = sum(d for _, d in parts)
    sigma = gaussian_sigma(1, epsilon, delta)  # may be too large for a power, not for a product
    variance = len(parts) * float(min(s for s, _ in parts)) * sigma * sigma

    def cost(s2: Fraction) -> float:
        """Estimate the relative rise of the variance; only the order matters."""
        factor, shift = smoothing_price(s2, dimension)
        return float(s2) / variance + 2 * shift / floor_float(epsilon) + factor

    likely = sorted(SMOOTHING, key=cost)[:3]
    return [_smoothed_try(parts, epsilon, delta, s2, dimension) for s2 in likely]


def _smoothed_try(
    parts: Parts, epsilon: Fraction, delta: Fraction, s2: Fraction, dimension: int
) -> tuple[Fraction, ...] | None:
    factor, shift = smoothing_price(s2, dimension)
    if shift >= floor_float(epsilon) or factor > 1:
        return None
    room = epsilon - Fraction(shift)
    sigma = Fraction(gaussian_sigma(1, room, delta * Fraction(math.exp(-factor) * (1 - 2.0**-50))))
    return tuple(len(parts) * s * sigma**2 + s2 for s, _ in parts)


def _concentrated_try(
    parts: Parts, epsilon: Fraction, delta: Fraction
) -> tuple[Fraction, ...] | None:
    rho = largest_rho(floor_float(epsilon), floor_float(delta))
    return tuple(len(parts) * s / (2 * Fraction(rho)) for s, _ in parts) if rho > 0 else None


def _summed_try(
    parts: Parts, variances: tuple[Fraction, ...], fits: Callable[[Sequence[Fraction]], bool]
) -> tuple[Fraction, ...]:
    """Look for less where all parts can be summed exactly and the lemma's s² is not nothing."""
    floor = tuple(s * _worst(parts, variances) for s, _ in parts)
    losses = [
        DiscreteGaussian.from_variance(v, s, d) for v, (s, d) in zip(variances, parts, strict=True)
    ]
    if len(parts) > 4 or not all(loss.summed for loss in losses) or min(floor) > 2**12:
        return variances

    def scaled(factor: Fraction) -> tuple[Fraction, ...]:
        return tuple(_short(v * factor) for v in floor)

    best = scaled(turning(lambda x: fits(scaled(x)), Fraction(1, 4), Fraction(1), 2.0**-20)[1])
    return best if _worst(parts, best) < _worst(parts, variances) and fits(best) else variances
