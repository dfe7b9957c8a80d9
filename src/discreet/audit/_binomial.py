"""Exact binomial bounds, and a quick approximation to choose between events."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet._lazy import special
from discreet.errors import ParameterError


def clopper_pearson(hits: int, draws: int, error: float) -> tuple[float, float]:
    """Return one-sided lower and upper bounds, each wrong with probability ≤ `error`.

    >>> low, high = clopper_pearson(0, 100, 0.05)
    >>> low, round(high, 6)
    (0.0, 0.029513)
    """
    if not 0 <= hits <= draws or draws < 1 or not 0 < error < 1:
        raise ParameterError("give hits out of at least one draw and an error between 0 and 1")
    low = float(special.betaincinv(hits, draws - hits + 1, error)) if hits else 0.0
    # the complement keeps its digits when the error is tiny
    high = float(special.betainccinv(hits + 1, draws - hits, error)) if hits < draws else 1.0
    return low, high


def wilson(hits: Any, draws: int, z: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return approximate bounds at `z` standard errors, for many counts at once."""
    share = np.asarray(hits, dtype=np.float64) / draws
    shrink = 1 + z * z / draws
    centre = (share + z * z / (2 * draws)) / shrink
    reach = z / shrink * np.sqrt(share * (1 - share) / draws + z * z / (4 * draws * draws))
    return np.maximum(centre - reach, 0.0), np.minimum(centre + reach, 1.0)
