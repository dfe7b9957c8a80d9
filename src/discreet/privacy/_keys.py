"""The least threshold at which keys of a single unit stay hidden, and its δ.

Setting. Keys with a true count below the public ``min_count`` are dropped; noise Z is added to
the count of every other key, and a key is shown when that reaches the threshold T. One unit
contributes to at most ℓ = ``keys`` keys and at most Δ = ``sensitivity`` to each. Then

    δ_T = 1 − (1 − q)^ℓ,   q = P(min_count − 1 + Δ + Z ≥ T),

is all that is added to the δ of the noisy counts themselves, **under add-remove and under
change-one alike**.

Proof. Let C be the data common to the neighbours D and D', so each has at most one unit more. A
key present (count ≥ min_count) in D but not in C has a count of at most min_count − 1 + Δ, and
there are at most ℓ of them; let A be the event that one is shown, a = P(A) ≤ δ_T, as noises
are independent. Let a' be the same for D'. Given that neither happens, both outputs are functions
of noisy counts over the keys of C, so for any set O, y = P(D ∈ O | not A) ≤ e^ε·x + δ_noise with
x = P(D' ∈ O | not A'). Hence P(D ∈ O) ≤ a + (1−a)y and P(D' ∈ O) ≥ (1−a')x, and

    P(D ∈ O) − e^ε·P(D' ∈ O) ≤ a + (1−a)y − (1−a')(y − δ_noise) ≤ max(a, a') + δ_noise. ∎

δ_T is attained (a neighbour without those keys cannot show them), so T is the least possible.
"""

from __future__ import annotations

import math
from fractions import Fraction

from discreet import _exact, noise
from discreet._exact import Number
from discreet.errors import Hint, ParameterError

_OUTWARD = 1e-9
"""Relative margin on tail probabilities, far above the error of the laws' ``sf``."""

_FARTHEST = 2**80


def key_threshold(
    law: noise.Law, delta: Number, keys: int, *, sensitivity: int = 1, min_count: int = 1
) -> int:
    """Return the least threshold whose δ is within `delta`.

    Parameters
    ----------
    law
        Noise on the count that selects, in whole units.
    delta
        Probability that a key of one unit alone may be shown.
    keys
        Most keys that one unit contributes to (not doubled under change-one).
    sensitivity
        Most that one unit adds to the count of one key.
    min_count
        Public minimum below which a key is never shown.

    Examples
    --------
    >>> from discreet import noise, privacy as p
    >>> p.key_threshold(noise.DiscreteLaplace(1), "1e-6", 1)
    15
    """
    target = _exact.delta(delta)
    reach = _reach(keys, sensitivity, min_count)
    high = 1
    while _delta(law, high, keys) > target:
        high *= 2
        if high > _FARTHEST:
            raise ParameterError(
                "delta is below what the noise law can certify", hint=Hint("delta", "1e-6")
            )
    fits = _exact.turning(lambda t: _delta(law, t, keys) <= target, high // 2 - 1, high)
    return reach + fits[1]


def key_threshold_delta(
    law: noise.Law, threshold: int, keys: int, *, sensitivity: int = 1, min_count: int = 1
) -> Fraction:
    """Return the δ of a given threshold, rounded up; the parameters of :func:`key_threshold`.

    >>> from discreet import noise, privacy as p
    >>> p.key_threshold_delta(noise.DiscreteLaplace(1), 15, 1) <= 1e-6
    True
    """
    return _delta(law, threshold - _reach(keys, sensitivity, min_count), keys)


def _reach(keys: int, sensitivity: int, min_count: int) -> int:
    for name, value in (("keys", keys), ("sensitivity", sensitivity), ("min_count", min_count)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ParameterError(f"{name} must be a positive whole number", hint=Hint(name, 1))
    return min_count - 1 + sensitivity


def _delta(law: noise.Law, margin: int, keys: int) -> Fraction:
    """δ_T for keys that need noise of at least `margin`, rounded up."""
    q = min(1.0, float(law.sf(margin - 1)) * (1 + _OUTWARD))
    joint = -math.expm1(keys * math.log1p(-q)) if q < 1 else 1.0
    # a tail that underflows is not zero
    return Fraction(max(min(1.0, joint * (1 + _OUTWARD)), 1e-300))
