"""One-dimensional workloads: what HDMM calls building blocks, never written out.

Each knows its answers, its Gram matrix V = WᵀW as an operator, V's diagonal, and its
*energy* tr(V·P_s), where P_s averages over blocks of s cells: the part of the workload
that a grid of blocks can express. Costs are O(n) where the structure allows.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet._lazy import sparse
from discreet.errors import Hint, ParameterError

Array = NDArray[np.float64]


def fingerprint(*arrays: NDArray[Any]) -> str:
    """Return a hash of arrays, the same in every process."""
    digest = hashlib.sha256()
    for array in arrays:
        # indices come in 32 or 64 bits, whichever scipy likes
        same = np.ascontiguousarray(array, "<i8" if array.dtype.kind in "iub" else "<f8")
        digest.update(f"{array.shape} {same.dtype.str} ".encode() + same.tobytes())
    return digest.hexdigest()


class Axis(ABC):
    """A workload over one axis of n cells with m queries."""

    name: str
    n: int
    m: int
    labels: Sequence[str] | None = None
    """Names of the queries, where they have any."""
    levels: Sequence[str] | None = None
    """Level of each query, where they are those of a hierarchy."""
    counting = True
    """Whether all weights are 0 or 1."""

    def __init__(self, n: int) -> None:
        self.n = self.m = n

    @abstractmethod
    def answers(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return Wx along the first axis of a table of shape (n, k)."""

    @abstractmethod
    def gram_rows(self, y: Array) -> Array:
        """Return y·V for a table of rows of shape (k, n)."""

    @abstractmethod
    def diagonal(self) -> Array:
        """Return the diagonal of V: squared column norms of W."""

    @abstractmethod
    def block_forms(self, side: int) -> Array:
        """Return 1ᵀV1 for each block of `side` cells."""

    @abstractmethod
    def row(self, index: int) -> Array:
        """Return the weights of one query."""

    def column_sums(self) -> Array:
        """Return Σ|w| of each column (the diagonal, for 0/1 queries)."""
        return self.diagonal()

    def energy(self, side: int) -> float:
        """Return tr(V·P_side)."""
        return float(self.block_forms(side).sum()) / side

    def gram(self) -> Array:
        """Return V written out."""
        if self.n > 8192:
            raise ParameterError(
                f"a Gram matrix of {self.n} × {self.n} would be written out",
                hint=Hint("method", "hb"),
            )
        return self.gram_rows(np.eye(self.n))

    def key(self) -> tuple[Any, ...]:
        """What makes two axes equal, for caches."""
        return (self.name, self.n)


class Identity(Axis):
    """Every cell."""

    name = "identity"

    def answers(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return the cells."""
        return x

    def gram_rows(self, y: Array) -> Array:
        """V is the identity."""
        return y

    def row(self, index: int) -> Array:
        """One cell."""
        return np.asarray(np.arange(self.n) == index, dtype=np.float64)

    def diagonal(self) -> Array:
        """Ones."""
        return np.ones(self.n)

    def block_forms(self, side: int) -> Array:
        """Number of cells of each block."""
        return _lengths(self.n, side)


class Total(Axis):
    """The sum of all cells."""

    name = "total"

    def __init__(self, n: int) -> None:
        self.n, self.m = n, 1

    def answers(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return the sum."""
        return np.asarray(x.sum(axis=0, keepdims=True))

    def gram_rows(self, y: Array) -> Array:
        """V is all ones."""
        return np.repeat(y.sum(axis=1, keepdims=True), self.n, axis=1)

    def row(self, index: int) -> Array:
        """All cells."""
        del index
        return np.ones(self.n)

    def diagonal(self) -> Array:
        """Ones."""
        return np.ones(self.n)

    def block_forms(self, side: int) -> Array:
        """Squared lengths."""
        return _lengths(self.n, side) ** 2


class Prefix(Axis):
    """Sums of the first 1, 2, …, n cells."""

    name = "prefix"

    def answers(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return cumulative sums."""
        return np.cumsum(x, axis=0)

    def gram_rows(self, y: Array) -> Array:
        """Cumulate forth and back."""
        sums = np.cumsum(y, axis=1)
        twice = np.cumsum(sums, axis=1)
        return np.asarray(twice[:, -1:] - twice + sums)

    def row(self, index: int) -> Array:
        """The first cells."""
        return np.asarray(np.arange(self.n) <= index, dtype=np.float64)

    def diagonal(self) -> Array:
        """Cell j is in n − j prefixes."""
        return np.arange(self.n, 0, -1, dtype=np.float64)

    def block_forms(self, side: int) -> Array:
        """Prefixes that end inside the block, then those that contain it."""
        k = _lengths(self.n, side)
        ends = np.cumsum(k)
        return np.asarray(k * (k + 1) * (2 * k + 1) / 6 + k**2 * (self.n - ends))


class AllRange(Axis):
    """All n(n+1)/2 ranges of consecutive cells."""

    name = "all-range"

    def __init__(self, n: int) -> None:
        self.n, self.m = n, n * (n + 1) // 2

    def answers(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return the sums, ordered by first cell, then by last."""
        if self.m * max(x.shape[1], 1) > 1 << 27:
            raise ParameterError(
                f"all {self.m} ranges of {self.n} cells would be written out",
                hint="answers of single ranges follow from Workload.prefix(n)",
            )
        sums = np.concatenate([np.zeros((1, x.shape[1]), x.dtype), np.cumsum(x, axis=0)])
        first, last = np.triu_indices(self.n)
        return np.asarray(sums[last + 1] - sums[first])

    def gram_rows(self, y: Array) -> Array:
        """V_ij = (min + 1)(n − max): two weighted cumulative sums."""
        i = np.arange(self.n)
        left = np.cumsum(y * (i + 1), axis=1) * (self.n - i)
        tail = y * (self.n - i)
        sums = np.cumsum(tail, axis=1)
        right = sums[:, -1:] - sums
        return np.asarray(left + right * (i + 1))

    def row(self, index: int) -> Array:
        """A range: ranges are ordered by first cell, then by last."""
        first = 0
        while index >= self.n - first:
            index -= self.n - first
            first += 1
        cells = np.arange(self.n)
        return np.asarray((cells >= first) & (cells <= first + index), dtype=np.float64)

    def diagonal(self) -> Array:
        """Cell j is in (j + 1)(n − j) ranges."""
        i = np.arange(self.n, dtype=np.float64)
        return np.asarray((i + 1) * (self.n - i))

    def block_forms(self, side: int) -> Array:
        """Σ over pairs in the block of (min + 1)(n − max)."""
        i = np.arange(self.n, dtype=np.float64)
        before = np.cumsum(i + 1) - (i + 1)
        starts = np.arange(0, self.n, side)
        inside = before - np.repeat(before[starts], _lengths(self.n, side).astype(int))
        each = (i + 1) * (self.n - i) + 2 * (self.n - i) * inside
        return np.asarray(np.add.reduceat(each, starts))


class Rows(Axis):
    """Any matrix, sparse or dense."""

    name = "matrix"

    def __init__(
        self,
        matrix: Any,
        labels: Sequence[str] | None = None,
        levels: Sequence[str] | None = None,
    ) -> None:
        self.matrix, self.labels, self.levels = _read(matrix), labels, levels
        self.m, self.n = (int(k) for k in self.matrix.shape)
        self.counting = bool(np.isin(self.matrix.data, (0.0, 1.0)).all())

    def answers(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return Wx."""
        return np.asarray(self.matrix @ x)

    def gram_rows(self, y: Array) -> Array:
        """Multiply by W, then by its transpose."""
        return np.asarray((self.matrix.T @ (self.matrix @ y.T)).T)

    def row(self, index: int) -> Array:
        """One row of the matrix."""
        return np.asarray(self.matrix[[index]].toarray(), dtype=np.float64).ravel()

    def diagonal(self) -> Array:
        """Squared column norms."""
        return np.asarray(self.matrix.multiply(self.matrix).sum(axis=0), dtype=np.float64).ravel()

    def column_sums(self) -> Array:
        """Σ|w| of each column."""
        return np.asarray(abs(self.matrix).sum(axis=0), dtype=np.float64).ravel()

    def block_forms(self, side: int) -> Array:
        """Squared norms of the summed columns of each block."""
        blocks = -(-self.n // side)
        ones = np.ones(self.n)
        at = (np.arange(self.n), np.arange(self.n) // side)
        summed = (self.matrix @ sparse.csr_array((ones, at), shape=(self.n, blocks))).tocsr()
        return np.asarray(summed.multiply(summed).sum(axis=0), dtype=np.float64).ravel()

    def key(self) -> tuple[Any, ...]:
        """Matrices are equal if their entries are."""
        m = self.matrix
        return (self.name, self.n, self.m, fingerprint(m.indptr, m.indices, m.data))


class GramOnly(Axis):
    """A Gram matrix alone: for optimisation, not for answers."""

    def answers(self, x: NDArray[Any]) -> NDArray[Any]:
        """There are no queries behind it."""
        raise NotImplementedError

    def row(self, index: int) -> Array:
        """There are no queries behind it."""
        raise NotImplementedError


class Gram(GramOnly):
    """A Gram matrix that is written out."""

    name = "gram"

    def __init__(self, V: Array) -> None:
        self.V, self.n, self.m = V, len(V), len(V)

    def gram_rows(self, y: Array) -> Array:
        """Multiply."""
        return np.asarray(y @ self.V)

    def diagonal(self) -> Array:
        """The diagonal."""
        return np.asarray(np.diag(self.V))

    def block_forms(self, side: int) -> Array:
        """1ᵀV1 of blocks."""
        starts = np.arange(0, self.n, side)
        folded = np.add.reduceat(np.add.reduceat(self.V, starts, axis=0), starts, axis=1)
        return np.asarray(np.diag(folded))

    def key(self) -> tuple[Any, ...]:
        """Matrices are equal only to themselves."""
        return (self.name, self.n, id(self))


def rebuilt(axis: object) -> Axis:
    """Return the same axis, made again from its numbers."""
    if type(axis) is Rows:
        words = [None if names is None else tuple(map(str, names)) for names in
                 (axis.labels, axis.levels)]  # fmt: skip
        return Rows(axis.matrix, *words)
    for kind in (Identity, Total, Prefix, AllRange):
        if type(axis) is kind:
            return kind(int(axis.n))
    raise ParameterError("a workload is made of the axes that Workload offers")


def _read(matrix: Any) -> Any:
    try:
        weights = sparse.csr_array(matrix)
        # arrays of our own, of numpy's own class
        parts = (
            np.array(weights.data, np.float64),
            np.array(weights.indices),
            np.array(weights.indptr),
        )
        copy = sparse.csr_array(parts, shape=weights.shape)
    except (TypeError, ValueError):
        raise ParameterError("a workload matrix must hold real numbers in rows") from None
    if copy.ndim != 2 or 0 in copy.shape or not np.isfinite(copy.data).all():
        raise ParameterError("a workload matrix needs rows, columns and finite numbers")
    copy.sum_duplicates()  # an entry stored twice is one weight: their sum
    return copy


def _lengths(n: int, side: int) -> Array:
    """Cells of each block: the last may be short."""
    k = np.full(-(-n // side), side, dtype=np.float64)
    k[-1] = n - side * (len(k) - 1)
    return k
