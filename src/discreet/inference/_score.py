"""The test behind population intervals: a sum that is linear in what was released."""

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
