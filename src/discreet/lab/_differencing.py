"""Differencing and averaging: the two simplest attacks there are.

Whoever knows all records but one subtracts them from a published total and holds the
last one (Zhu et al. 2.1). Where noise hides the difference, the same question asked
often enough averages it away: k repeats of Laplace noise of scale 1/ε have a mean of
standard deviation √(2/k)/ε.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from discreet.errors import Hint, ParameterError


def difference(published: float, known: Sequence[float] | Any) -> float:
    """Return what is left for the last record when the known ones are subtracted.

    Examples
    --------
    >>> from discreet import lab
    >>> lab.difference(published=212_000, known=[48_000, 61_000, 55_000])
    48000.0
    """
    return float(published - np.sum(known))


def average(answers: Sequence[float] | Any) -> tuple[float, float]:
    """Return the mean of repeated answers and its standard error.

    Examples
    --------
    >>> from discreet import lab
    >>> lab.average([9, 11, 10, 12, 8])
    (10.0, 0.7071067811865476)
    """
    values = np.asarray(answers, dtype=np.float64)
    if values.ndim != 1 or len(values) < 2:
        raise ParameterError("give at least two answers to one question", hint="[9, 11]")
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values)))


def repeats_needed(epsilon: float, margin: float = 0.5, z: float = 1.959964) -> int:
    """Return how often a count with Laplace noise must be asked to be known to ± `margin`.

    Without a budget that is a matter of patience:

    >>> from discreet import lab
    >>> lab.repeats_needed(epsilon=1), lab.repeats_needed(epsilon=0.1)
    (31, 3074)
    """
    if not (epsilon > 0 and margin > 0):
        raise ParameterError("epsilon and margin must be positive", hint=Hint("epsilon", 0.1))
    return math.ceil(2 * (z / (epsilon * margin)) ** 2)
