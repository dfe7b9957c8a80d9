"""Uniform random orders of candidates, for many independent runs at once.

Sorting independent uniform words orders them uniformly given that they are
distinct; a row with equal words is drawn again as a whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet import noise


def random_orders(runs: int, size: int) -> NDArray[np.int64]:
    """Draw `runs` independent uniform permutations of 0, …, size − 1, one per row.

    >>> sorted(random_orders(1, 3)[0].tolist())
    [0, 1, 2]
    """
    orders = np.empty((runs, size), dtype=np.int64)
    pending = np.arange(runs)
    while pending.size:
        words = np.asarray(noise.random_words(pending.size * size)).reshape(-1, size)
        orders[pending] = np.argsort(words, axis=1)
        ranked = np.sort(words, axis=1)
        pending = pending[(ranked[:, 1:] == ranked[:, :-1]).any(axis=1)]
    return orders


def first_largest(table: NDArray[Any], orders: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return per row the index of the largest cell, ties going to the earliest in its order."""
    ranked = np.take_along_axis(table, orders, axis=1)
    places = ranked.argmax(axis=1)
    return np.asarray(np.take_along_axis(orders, places[:, None], axis=1)[:, 0])
