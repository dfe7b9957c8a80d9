r"""The tests behind population intervals: a sum that is linear in what was released.

Where units are many and none of them decides, the sum is taken as normal beside its noise
(:func:`score`). Where that cannot be relied on, :func:`bounded` needs only that a unit's own sum D
is zero on average and lies in [−a, b]: exp is convex, so :math:`E e^{\lambda D}` is at most that
of the two-valued law on the ends (Hoeffding), :math:`\phi(\lambda)=(be^{-\lambda a}+ae^{\lambda
b})/(a+b)\ge1`, and with noise η of known law, for m units at most and every λ > 0,

.. math:: P\Bigl(\sum_uD_u+\sum_jw_j\eta_j\ge t\Bigr)\le e^{-\lambda t}\,\phi(\lambda)^m
          \prod_jE e^{\lambda w_j\eta_j}.

No unit need be like any other. Which test is taken is read off the same numbers, so this one
gets half of the error: a count of none of n people is a share of 4.5/n at most.

References
----------
W. Hoeffding, "Probability inequalities for sums of bounded random variables", JASA 1963.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from scipy import special

from discreet.inference._laws import Floats
from discreet.plan import Combination, tails

FEWEST: Final = 30
"""Units below which no normal approximation is used."""

SHARE: Final = 0.1
"""Part of the error allowed that bounds of nuisances get."""

STEP: Final = 0.25
"""Part of what one unit can move a sum by that a mean is allowed: sums of few values are steps."""

PLACES: Final = 150
"""Places at which a test is tried on either side of an estimate."""

_STEEPEST: Final = 60.0
"""Largest λ, by the range of one unit's sum: beyond it no chance is told from zero."""
_SLOPES: Final = np.geomspace(1e-5, 1.0, 64)
"""Parts of the largest λ that are tried."""


def weights(combination: Combination, parts: Sequence[int]) -> Floats:
    """A combination as weights of some parts."""
    return np.array([float(combination.get(p, 0)) for p in parts])


def expected_squares(squares: Floats, reach: Floats, error: float) -> Floats:
    """The variance V behind a sum of squares, at most: its own variance is at most reach²·V."""
    off = float(special.ndtri(1 - error / 2)) * reach / 2
    return np.asarray((np.sqrt(squares + off**2) + off) ** 2)


def score(
    sums: tuple[Floats, Floats],
    spread: Callable[[Floats], Floats],
    values: Floats,
    laws: Sequence[Any],
    error: float,
    *,
    shift: float = 0.0,
    step: float = 0.0,
) -> Callable[[Floats], Floats]:
    """Which θ a sum does not contradict by more than `step`.

    T(θ) is the first of the `sums` less θ times the second, less `shift` times θ.
    """

    def test(theta: Floats) -> Floats:
        w = sums[0] - theta[:, None] * sums[1]
        variance, scales, slack = tails.split_noise(laws, w)
        sd = np.sqrt(spread(theta) + variance)
        return np.asarray(
            tails.mixed_tail(np.abs(w @ values - shift * theta) - slack - step, sd, scales) >= error
        )

    return test


def bounded(
    sums: tuple[Floats, Floats],
    reach: Callable[[Floats], tuple[Floats, Floats]],
    values: Floats,
    laws: Sequence[Any],
    error: float,
    *,
    most: float,
) -> Callable[[Floats], Floats]:
    """Which θ a sum does not contradict, whatever the law of the units.

    T(θ) is the first of the `sums` less θ times the second; one unit adds what lies in its
    `reach`, and no more than `most` units add anything.
    """

    def test(theta: Floats) -> Floats:
        w = sums[0] - theta[:, None] * sums[1]
        low, high = (np.asarray(end, dtype=np.float64) for end in reach(theta))
        far = w @ values
        # what is too large moves towards the upper end, what is too small towards the lower one
        a, b = np.where(far > 0, -low, high), np.where(far > 0, high, -low)
        a, b = np.maximum(a, 0.0), np.maximum(b, 0.0)
        steepest = _STEEPEST / np.maximum(a + b, 1e-300)
        for j, law in enumerate(laws):
            limit = tails.steepest(law) / np.maximum(np.abs(w[:, j]), 1e-300)
            steepest = np.minimum(steepest, limit)
        slope = steepest[:, None] * _SLOPES
        a, b = a[:, None], b[:, None]
        whole = np.maximum(a + b, 1e-300)
        with np.errstate(divide="ignore"):
            own = np.logaddexp(np.log(b / whole) - slope * a, np.log(a / whole) + slope * b)
        chance = max(most, 0.0) * np.maximum(own, 0.0)
        chance -= slope * np.abs(far)[:, None]
        for j, law in enumerate(laws):
            chance += tails.log_moment(law, slope * w[:, j : j + 1])
        return np.asarray(chance.min(axis=1) >= np.log(error / 4))

    return test
