"""Integer linear maps of the counts, and exactly how far one record moves them.

A :class:`Query` is an integer matrix A that is rarely written out. One record of type j
moves Ax by the column a_j, a record changed from i to j by a_j − a_i. Everything a
publication measures is such a map, so its sensitivity is never a matter of opinion:

* add-remove: max ‖a_j‖₁ and max ‖a_j‖²;
* change-one: ‖a_j − a_i‖₁ ≤ 2 max ‖a‖₁, and ‖a_j − a_i‖² = ‖a_i‖² + ‖a_j‖² − 2a_i·a_j ≤
  2 max ‖a‖² − 2 min a_i·a_j. Queries that know better say so.

For a Kronecker product columns are products of columns: norms multiply, and the inner
product of two columns is the product of inner products, one per factor, each anywhere in
its own range; the extremes of such a product are products of extremes.

Weights are integers on a public grid. They are rounded *before* the sensitivity is
taken, so the rounding is part of it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Container, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet._dataclass import dataclass
from discreet.errors import Hint, ParameterError
from discreet.mechanisms import sensitivity
from discreet.privacy import Neighbours
from discreet.release._counts import Counts, exact_product, widened


class Query(ABC):
    """An integer linear map of the counts."""

    rows: int

    @abstractmethod
    def apply(self, counts: Counts) -> NDArray[Any]:
        """Return Ax, flat, in exact integers. PRIVATE."""

    @property
    @abstractmethod
    def l1(self) -> int:
        """Largest column sum Σ|a|."""

    @property
    @abstractmethod
    def l2(self) -> int:
        """Largest squared column norm Σa²."""

    @property
    def lowest_inner(self) -> int:
        """A lower bound on the inner product of any two columns."""
        return -self.l2

    def scales(self) -> list[list[list[int]]]:
        """Return the largest weight of each row: runs [weight, rows], factor by factor.

        Empty where all weights are 1. What is measured is so many times a number of records.
        """
        return []

    def l1_sensitivity(self, neighbours: Neighbours) -> int:
        """Most that one record moves Ax in L1; 1 where it is not moved at all."""
        return max(1, self.l1 if neighbours is Neighbours.ADD_REMOVE else self._l1_changed())

    def l2_sensitivity(self, neighbours: Neighbours) -> int:
        """Most that one record moves Ax in squared L2; 1 where it is not moved at all."""
        return max(1, self.l2 if neighbours is Neighbours.ADD_REMOVE else self._l2_changed())

    def norms(self, neighbours: Neighbours) -> tuple[int, int, int]:
        """Most that one record moves Ax: L1, squared L2, L∞."""
        squares = self.l2_sensitivity(neighbours)
        return self.l1_sensitivity(neighbours), squares, math.isqrt(squares)

    def _l1_changed(self) -> int:
        return 2 * self.l1

    def _l2_changed(self) -> int:
        return 2 * self.l2 - 2 * self.lowest_inner


@dataclass(frozen=True, eq=False)
class Levels(Query):
    """Block sums of several nested grids: level (w, s) is w times the sums of cubes of side s.

    The domain is padded with empty cells to a multiple of the largest side; blocks of
    padding are measured too, which costs nothing and keeps every level a full array.
    """

    shape: tuple[int, ...]
    levels: tuple[tuple[int, int], ...]

    @cached_property
    def grids(self) -> tuple[tuple[int, ...], ...]:
        """Shape of each level's array of blocks."""
        top = max(side for _, side in self.levels)
        padded = [-(-n // top) * top for n in self.shape]
        return tuple(tuple(n // side for n in padded) for _, side in self.levels)

    @cached_property
    def rows(self) -> int:  # type: ignore[override]  # a property for an attribute
        """Number of blocks in all levels."""
        return sum(math.prod(grid) for grid in self.grids)

    @property
    def l1(self) -> int:
        """Sum of the weights: a record lies in one block of each level."""
        return sum(weight for weight, _ in self.levels)

    @property
    def l2(self) -> int:
        """Sum of the squared weights."""
        return sum(weight**2 for weight, _ in self.levels)

    @cached_property
    def _fixed(self) -> list[int]:
        """Weights of levels with a single block holding data: a change never moves them."""
        return [weight for weight, side in self.levels if all(n <= side for n in self.shape)]

    @property
    def lowest_inner(self) -> int:
        """Two records share at least the levels that are one block."""
        return sum(weight**2 for weight in self._fixed)

    def _l1_changed(self) -> int:
        return 2 * (self.l1 - sum(self._fixed))

    def apply(self, counts: Counts) -> NDArray[Any]:
        """Return all block sums, coarse to fine as listed."""
        x = counts.array()
        parts = []
        for (weight, side), grid in zip(self.levels, self.grids, strict=True):
            sums = block_sums(x, side, grid)
            parts.append((widened(sums, weight, counts.total) * weight).ravel())
        return np.concatenate(parts)

    def scales(self) -> list[list[list[int]]]:
        """Weights of the levels."""
        pairs = zip(self.levels, self.grids, strict=True)
        return [[[weight, math.prod(grid)] for (weight, _), grid in pairs]]

    def split(self, y: NDArray[Any]) -> list[NDArray[np.float64]]:
        """Cut released integers into levels, in units of records."""
        out, start = [], 0
        for (weight, _), grid in zip(self.levels, self.grids, strict=True):
            stop = start + math.prod(grid)
            out.append(np.asarray(y[start:stop], dtype=np.float64).reshape(grid) / weight)
            start = stop
        return out


def block_sums(x: NDArray[Any], side: int, grid: tuple[int, ...]) -> NDArray[Any]:
    """Sum cubes of a side; the array is padded with zeros to grid × side."""
    if side > 1:
        for axis, n in enumerate(x.shape):
            x = np.add.reduceat(x, np.arange(0, n, side), axis=axis)
    pad = [(0, g - n) for g, n in zip(grid, x.shape, strict=True)]
    return np.pad(x, pad) if any(extra for _, extra in pad) else x


@dataclass(frozen=True)
class Haar(Query):
    """Integer Haar contrasts of a vector of 2^k cells, each level with its integer weight.

    Row blocks: the total (weight first), then for block sizes n, n/2, …, 2 the differences
    left half − right half. A record lies in one row of each level, with sign.
    """

    cells: int
    weights: tuple[int, ...]

    @cached_property
    def rows(self) -> int:  # type: ignore[override]  # a property for an attribute
        """One row for each cell, padded to a power of two."""
        return int(1 << (self.cells - 1).bit_length())

    @property
    def l1(self) -> int:
        """Sum of the weights."""
        return sum(self.weights)

    @property
    def l2(self) -> int:
        """Sum of the squared weights."""
        return sum(weight**2 for weight in self.weights)

    @property
    def lowest_inner(self) -> int:
        """Two cells share rows from the top, equal in sign until they part."""
        run, lowest = self.weights[0] ** 2, self.l2
        for weight in self.weights[1:]:
            lowest = min(lowest, run - weight**2)
            run += weight**2
        return lowest

    def _l1_changed(self) -> int:
        # two cells part at some level (2w there), below it each has rows of its own (w + w)
        return 2 * sum(self.weights[1:])

    def scales(self) -> list[list[list[int]]]:
        """Weights of the levels: 1, 1, 2, 4, … rows."""
        return [[[w, 1 << max(k - 1, 0)] for k, w in enumerate(self.weights)]]

    def apply(self, counts: Counts) -> NDArray[Any]:
        """Return the weighted contrasts, coarse to fine."""
        x = np.pad(counts.array().ravel(), (0, self.rows - self.cells))
        x = widened(x, max(self.weights), counts.total)
        rows = []
        for weight in reversed(self.weights[1:]):
            pairs = x.reshape(-1, 2)
            rows.append(weight * (pairs[:, 0] - pairs[:, 1]))
            x = pairs.sum(axis=1)
        rows.append(self.weights[0] * x)
        return np.concatenate(rows[::-1])


@dataclass(frozen=True, eq=False)
class Matrix(Query):
    """An explicit integer matrix, dense or sparse; columns are cells in row-major order."""

    matrix: Any

    @property
    def rows(self) -> int:  # type: ignore[override]  # a property for an attribute
        """Number of rows."""
        return int(self.matrix.shape[0])

    @cached_property
    def _largest(self) -> int:
        return int(abs(self.matrix).max())

    @cached_property
    def l1(self) -> int:
        """Largest column sum."""
        return int(np.asarray(abs(self.matrix).sum(axis=0)).max())

    @cached_property
    def l2(self) -> int:
        """Largest squared column norm."""
        if self._largest >= 1 << 24:
            raise ParameterError(
                "entries of a strategy must stay below 2^24 on its integer grid",
                hint=Hint("scale", 16_384),
            )
        m = self.matrix
        squares = m.multiply(m) if hasattr(m, "multiply") else m * m
        return int(np.asarray(squares.sum(axis=0)).max())

    @cached_property
    def _changed(self) -> tuple[int, int]:
        l1 = int(sensitivity(self.matrix, Neighbours.CHANGE_ONE, 1))
        root = sensitivity(self.matrix, Neighbours.CHANGE_ONE, 2)
        # the float is a root of an integer, rounded up
        return l1, math.ceil(root * root * (1 - 2.0**-48))

    def _l1_changed(self) -> int:
        return self._changed[0]

    def _l2_changed(self) -> int:
        return self._changed[1]

    def scales(self) -> list[list[list[int]]]:
        """Largest weight of each row."""
        most = abs(self.matrix).max(axis=1)
        dense = most.toarray() if hasattr(most, "toarray") else most
        return [[[int(w) or self._largest, 1] for w in np.ravel(dense).tolist()]]

    def apply(self, counts: Counts) -> NDArray[Any]:
        """Return Ax."""
        x = counts.array().ravel()
        if hasattr(self.matrix, "tocsr"):
            if self._largest * max(counts.total, 1) >= 1 << 62:
                return exact_product(self.matrix.toarray(), x, self._largest, counts.total)
            return np.asarray(self.matrix @ x)
        return exact_product(self.matrix, x, self._largest, counts.total)


class Factor(ABC):
    """One axis of a Kronecker query: an integer matrix applied along that axis."""

    size: int
    rows: int
    l1: int
    l2: int
    inner: tuple[int, int]
    largest: int

    def scales(self) -> list[list[int]]:
        """Return the largest weight of each row, as runs."""
        return [[self.largest, self.rows]]

    @abstractmethod
    def along(self, x: NDArray[Any], total: int) -> NDArray[Any]:
        """Apply the matrix to the first axis of `x` (two-dimensional), exactly."""


class Sum(Factor):
    """The row of ones: the axis is summed out."""

    def __init__(self, size: int) -> None:
        self.size, self.rows, self.l1, self.l2, self.inner, self.largest = size, 1, 1, 1, (1, 1), 1

    def along(self, x: NDArray[Any], total: int) -> NDArray[Any]:
        """Sum the axis."""
        del total
        return np.asarray(x.sum(axis=0, keepdims=True))


class Cells(Factor):
    """All cells of an axis."""

    def __init__(self, n: int) -> None:
        self.size = self.rows = n
        self.l1 = self.l2 = self.largest = 1
        self.inner = (0, 1)

    def along(self, x: NDArray[Any], total: int) -> NDArray[Any]:
        """Return the axis as it is."""
        del total
        return x


@dataclass(frozen=True, eq=False)
class Kron(Query):
    """A Kronecker product of factors, one for each axis of the domain."""

    factors: Sequence[Factor]

    @property
    def rows(self) -> int:  # type: ignore[override]  # a property for an attribute
        """Product of the factors' rows."""
        return math.prod(f.rows for f in self.factors)

    @property
    def l1(self) -> int:
        """Product of the factors' norms."""
        return math.prod(f.l1 for f in self.factors)

    @property
    def l2(self) -> int:
        """Product of the factors' squared norms."""
        return math.prod(f.l2 for f in self.factors)

    @property
    def lowest_inner(self) -> int:
        """Least product of inner products, one from each factor's range."""
        low = high = 1
        for f in self.factors:
            ends = [a * b for a in (low, high) for b in f.inner]
            low, high = min(ends), max(ends)
        return low

    def scales(self) -> list[list[list[int]]]:
        """Those of the factors."""
        weighted = any(f.largest > 1 for f in self.factors)
        return [f.scales() for f in self.factors] if weighted else []

    def apply(self, counts: Counts) -> NDArray[Any]:
        """Sum out what is summed out, then apply each factor along its axis."""
        axes = [i for i, f in enumerate(self.factors) if not isinstance(f, Sum)]
        x: NDArray[Any] = counts.marginal(axes)
        bound = math.prod(f.largest for f in self.factors)
        x = widened(x, bound, counts.total)
        total = counts.total
        for position, axis in enumerate(axes):
            factor = self.factors[axis]
            x = along(x, position, lambda table, f=factor, t=total: f.along(table, t))
            total *= factor.largest
        return np.asarray(x).ravel()


def marginal(shape: Sequence[int], axes: Container[int]) -> Kron:
    """Return the table of some axes, the others summed out."""
    return Kron([Cells(n) if i in axes else Sum(n) for i, n in enumerate(shape)])


def along(x: NDArray[Any], axis: int, f: Any) -> NDArray[Any]:
    """Apply `f`, which maps tables of shape (n, k) to (m, k), along one axis of an array.

    Large arrays are done in slices of the first other axis, so that temporaries stay small.
    """
    moved = np.moveaxis(x, axis, 0)
    if x.size <= _CHUNK or x.ndim == 1:
        table = f(moved.reshape(moved.shape[0], -1))
        return np.moveaxis(table.reshape(-1, *moved.shape[1:]), 0, axis)
    out: NDArray[Any] | None = None
    for k in range(moved.shape[1]):
        part = f(np.ascontiguousarray(moved[:, k]).reshape(moved.shape[0], -1))
        if out is None:
            shape = list(x.shape)
            shape[axis] = part.shape[0]
            out = np.empty(shape, dtype=part.dtype)
        # written through a view, in the array's own order
        np.moveaxis(out, axis, 0)[:, k] = part.reshape(-1, *moved.shape[2:])
    assert out is not None
    return out


_CHUNK = 1 << 22


@dataclass(frozen=True, eq=False)
class Grouped(Levels):
    """Block sums of the sums of groups of cells instead of the cells.

    `labels` gives the group of each cell (row-major) and must be public: a constant, or
    computed from released numbers. A record is in one group, so norms are those of the levels.
    """

    labels: NDArray[np.int64]

    def apply(self, counts: Counts) -> NDArray[Any]:
        """Sum groups in exact integers, then blocks of them."""
        x, size = counts.array().ravel(), self.shape[0]
        if counts.total < 1 << 52:
            # doubles hold these sums exactly
            sums = np.bincount(self.labels, weights=x, minlength=size).astype(np.int64)
        else:
            sums = np.zeros(size, dtype=np.int64)
            np.add.at(sums, self.labels, x)
        return super().apply(Counts(sums, None, self.shape))

    def _l1_changed(self) -> int:
        return 2 * self.l1


def groups(labels: NDArray[np.int64]) -> Grouped:
    """Return the plain sums of groups, which are numbered from 0."""
    return Grouped((int(labels.max()) + 1,), ((1, 1),), labels)


@dataclass(frozen=True, eq=False)
class Answers(Query):
    """The answers of a workload of whole numbers, or some rows of it."""

    workload: Any
    only: int | None = None

    @property
    def rows(self) -> int:  # type: ignore[override]  # a property for an attribute
        """All queries, or one."""
        return int(self.workload.queries) if self.only is None else 1

    @property
    def l1(self) -> int:
        """Largest column sum; of one 0/1 query, 1."""
        return round(self.workload.sensitivity(1)) if self.only is None else 1

    @property
    def l2(self) -> int:
        """Largest squared column norm; of one 0/1 query, 1."""
        return round(self.workload.sensitivity(2) ** 2) if self.only is None else 1

    def _l1_changed(self) -> int:
        return 1 if self.only is not None else 2 * self.l1

    def _l2_changed(self) -> int:
        # 0/1 columns have no negative inner products
        return 1 if self.only is not None else 2 * self.l2

    def apply(self, counts: Counts) -> NDArray[Any]:
        """Return the answers."""
        answers = np.asarray(self.workload.answers(counts.array()))
        return answers if self.only is None else answers[self.only : self.only + 1]
