"""Uniform and adaptive grids over a map.

Guarantee
---------
Measurements only. The number of records that sets the grid is bought (``total="private"``, a
share of the price) or stated to be public by the caller; the first grid is a function of it, the
second of the first's released counts. A record lies in one cell of each grid.

How (Qardaji, Yang, Li 2013)
----------------------------
* ``uniform-grid``: m × m cells, m = √(Nε/10). * ``adaptive-grid``: m₁ = max(10, ¼√(Nε/10)),
half of the rest for it; a cell with noisy count n gets   m₂ × m₂ cells, m₂ = ⌈√(n(1−α)ε/5)⌉;
both levels are combined with weights by their variances.   Counts inside a cell are spread
evenly.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.errors import Hint, ParameterError
from discreet.release._counts import fitting
from discreet.release._mechanism import Job, Sized
from discreet.release._price import variance
from discreet.release._queries import groups
from discreet.release._questions import Course, Measurement

Array = NDArray[np.float64]
_ALPHA = Fraction(1, 2)


class _Grid(Sized):
    """What both grids share."""

    def __init__(
        self, job: Job, *, total: int | str = "private", total_share: float = 0.05
    ) -> None:
        super().__init__(job)
        if len(job.workload.shape) != 2:
            raise ParameterError(
                f"{self.method} publishes maps: domains of two attributes",
                hint=Hint("method", "tree-adaptive"),
            )
        fitting(job.workload.shape)
        self._read_total(total, total_share, 0.05)

    def _measured(self, labels: NDArray[np.int64], share: Fraction, label: str) -> Measurement:
        return self.job.measurement(groups(labels.ravel()), share, label)

    def describe(self) -> str:
        """Say how the number of records is known."""
        return f"{self.method}: the number of records {self._source}"


class UniformGrid(_Grid):
    """One grid, as fine as the data allow."""

    method: ClassVar[str] = "uniform-grid"

    def course(self) -> Course:
        """Measure one grid and spread."""
        size, rest = yield from self._size()
        m = max(1, round(math.sqrt(size * self.job.strength(rest) / 10)))
        shape = self.job.workload.shape
        if 2 * m > max(shape):
            # parts of one or two cells would be uneven: measure the cells themselves
            m = max(shape)
        labels = _grid(shape, m)
        y = yield self._measured(labels, rest, f"{m} × {m} grid")
        return _spread(np.asarray(y, dtype=np.float64), labels)


class AdaptiveGrid(_Grid):
    """A coarse grid, and a finer one inside each of its cells."""

    method: ClassVar[str] = "adaptive-grid"

    def course(self) -> Course:
        """Measure the coarse grid, choose the fine ones, combine."""
        size, rest = yield from self._size()
        shape = self.job.workload.shape
        m = max(10, math.ceil(math.sqrt(size * self.job.strength(rest) / 10) / 4))
        coarse = _grid(shape, m)
        first = self._measured(coarse, rest * _ALPHA, f"{m} × {m} grid")
        v = np.asarray((yield first), dtype=np.float64)
        finer = np.maximum(v, 0.0) * self.job.strength(rest * (1 - _ALPHA)) / 5
        splits = np.maximum(1, np.ceil(np.sqrt(finer))).astype(np.int64)
        labels = _nested(shape, m, coarse, splits)
        second = self._measured(labels, rest * (1 - _ALPHA), "cells of the cells")
        u = np.asarray((yield second), dtype=np.float64)
        parent = np.zeros(len(u), dtype=np.int64)
        parent[labels.ravel()] = coarse.ravel()
        children = np.bincount(parent, minlength=len(v)).astype(np.float64)
        sums = np.bincount(parent, weights=u, minlength=len(v))
        # precision of the own count against that of the sum of the children
        own, below = 1 / variance(first.law), 1 / (children * variance(second.law))
        best = (own * v + below * sums) / (own + below)
        return _spread(u + ((best - sums) / children)[parent], labels)


def _cuts(n: int, m: int) -> NDArray[np.int64]:
    """Return the grid line each of n cells belongs to, m parts or as many as there are cells."""
    return np.asarray(np.arange(n) * min(m, n) // n, dtype=np.int64)


def _grid(shape: tuple[int, ...], m: int) -> NDArray[np.int64]:
    rows, columns = _cuts(shape[0], m), _cuts(shape[1], m)
    return np.asarray(rows[:, None] * (int(columns.max()) + 1) + columns[None, :])


def _nested(
    shape: tuple[int, ...], m: int, coarse: NDArray[np.int64], splits: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Label the cells of each coarse cell's own grid."""
    inside = []
    for n in shape:
        line = _cuts(n, m)
        first = np.searchsorted(line, np.arange(int(line.max()) + 1))
        length = np.diff(np.append(first, n))
        inside.append((np.arange(n) - first[line], length[line]))
    k = splits[coarse]
    (i, height), (j, width) = inside
    k_rows = np.minimum(k, height[:, None])
    k_columns = np.minimum(k, width[None, :])
    a = i[:, None] * k_rows // height[:, None]
    b = j[None, :] * k_columns // width[None, :]
    key = (coarse * (int(k.max()) + 1) + a) * (int(k.max()) + 1) + b
    return np.asarray(np.unique(key, return_inverse=True)[1].reshape(shape), dtype=np.int64)


def _spread(values: Array, labels: NDArray[np.int64]) -> Array:
    sizes = np.bincount(labels.ravel(), minlength=len(values))
    return np.asarray((values / sizes)[labels])
