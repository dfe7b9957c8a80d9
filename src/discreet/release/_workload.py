"""Workloads: the linear queries that a publication is to answer well.

A workload is never written out as a matrix where it has structure. Three forms exist:
weighted unions of Kronecker products (:class:`Products`), all marginals of given orders
(:class:`Marginals`, whose number of products may be huge), and lists of boxes
(:class:`Boxes`). Each gives answers, the diagonal of its Gram matrix, its sensitivity and
its energy on grids of blocks, all from structure.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import Hint, ParameterError
from discreet.privacy import Neighbours
from discreet.release import _factors
from discreet.release._counts import fitting, read_shape
from discreet.release._factors import Array, Axis
from discreet.release._queries import along


class Workload(ABC):
    """Linear queries over a public domain.

    Build one with :meth:`prefix`, :meth:`all_range`, :meth:`identity`, :meth:`total`,
    :meth:`marginals`, :meth:`kron`, :meth:`union`, :meth:`matrix` or :meth:`boxes`.

    Attributes
    ----------
    shape
        Sizes of the domain's axes.
    queries
        How many numbers are asked for.

    Examples
    --------
    >>> from discreet.release import Workload
    >>> Workload.kron(Workload.prefix(4), Workload.identity(3))
    Workload(prefix(4) ⊗ identity(3), 12 queries over 12 cells)
    >>> Workload.prefix(4).answers([1, 2, 3, 4]).tolist()
    [1, 3, 6, 10]
    """

    shape: tuple[int, ...]
    queries: int

    # -- how to make one ----------------------------------------------------------------

    @staticmethod
    def identity(n: int) -> Workload:
        """Return every cell of a domain of `n` cells."""
        return Products.of(_factors.Identity(*read_shape(n)))

    @staticmethod
    def total(n: int) -> Workload:
        """Return the number of records."""
        return Products.of(_factors.Total(*read_shape(n)))

    @staticmethod
    def prefix(n: int) -> Workload:
        """Return the sums of the first 1, 2, …, `n` cells: an empirical distribution function."""
        return Products.of(_factors.Prefix(*read_shape(n)))

    @staticmethod
    def all_range(n: int) -> Workload:
        """Return all sums of consecutive cells."""
        return Products.of(_factors.AllRange(*read_shape(n)))

    @staticmethod
    def matrix(
        rows: Any, labels: Sequence[str] | None = None, levels: Sequence[str] | None = None
    ) -> Workload:
        """Return any queries: rows of a dense or sparse matrix over a one-dimensional domain.

        They may have names, and belong to levels of a hierarchy, which charts keep apart.
        """
        return Products.of(_factors.Rows(rows, labels, levels))

    @staticmethod
    def kron(*workloads: Workload) -> Workload:
        """Return all products of queries, one from each workload, over the joint domain."""
        parts = [w.terms for w in workloads if isinstance(w, Products)]
        if not parts or len(parts) != len(workloads):
            raise ParameterError(
                "kron multiplies workloads made of one-dimensional ones",
                hint="Workload.kron(Workload.prefix(64), Workload.identity(3))",
            )
        terms = [
            (math.prod(w for w, _ in factors), tuple(a for _, axes in factors for a in axes))
            for factors in itertools.product(*parts)
        ]
        return Products(terms)

    @staticmethod
    def union(workloads: Iterable[Workload], weights: Sequence[float] | None = None) -> Workload:
        """Return all queries of several workloads; a weight says how much each matters.

        A query of weight w has its squared error counted w² times.
        """
        members = list(workloads)
        factors = [1.0] * len(members) if weights is None else [float(w) for w in weights]
        parts = [w.terms for w in members if isinstance(w, Products)]
        if not members or len(parts) != len(members):
            raise ParameterError(
                "union joins workloads made of Kronecker products",
                hint="Workload.union([Workload.prefix(64), Workload.identity(64)])",
            )
        if len({w.shape for w in members}) > 1:
            raise ParameterError("union needs workloads over one and the same domain")
        if len(factors) != len(members) or not all(0 < w < math.inf for w in factors):
            raise ParameterError("union needs one positive weight for each workload")
        return Products(
            [
                (factor * weight, axes)
                for factor, terms in zip(factors, parts, strict=True)
                for weight, axes in terms
            ]
        )

    @staticmethod
    def marginals(sizes: Sequence[int], ways: int | Iterable[int]) -> Workload:
        """Return all marginal tables of the given orders (0 is the total).

        Parameters
        ----------
        sizes
            Number of values of each attribute.
        ways
            Orders, for instance 2, or (1, 2, 3).
        """
        return Marginals(read_shape(sizes), ways)

    @staticmethod
    def boxes(shape: Sequence[int], low: Any, high: Any) -> Workload:
        """Return sums over boxes low ≤ cell < high, one row of `low` and `high` per box."""
        return Boxes(read_shape(shape), low, high)

    # -- what every workload knows ------------------------------------------------------

    @property
    def cells(self) -> int:
        """Number of cells of the domain."""
        return math.prod(self.shape)

    @property
    def mass(self) -> float:
        """Σ of squared weights: what the total squared error is divided by."""
        return float(self.queries)

    @abstractmethod
    def answers(self, x: Any) -> NDArray[Any]:
        """Return the queries' values on an array over the domain, in a flat array."""

    @abstractmethod
    def diagonal(self) -> Array:
        """Return squared column norms, in the domain's shape."""

    @abstractmethod
    def energy(self, side: int) -> float:
        """Return ‖W·P‖², P the average over cubes of `side` cells (padded with empty cells)."""

    @abstractmethod
    def describe(self) -> str:
        """Say what it asks, in a few words."""

    @abstractmethod
    def sensitivity(self, norm: int = 1, neighbours: Neighbours | str = "add-remove") -> float:
        """Return an upper bound on how far one record moves all answers."""

    @abstractmethod
    def key(self) -> tuple[Any, ...]:
        """What makes two workloads equal, the same in every process."""

    @property
    def counting(self) -> bool:
        """Whether every query counts the records in some cells (all weights 0 or 1)."""
        return True

    @abstractmethod
    def row(self, index: int) -> Array:
        """Return the weights of one query, in the domain's shape."""

    def gram(self) -> Array:
        """Return WᵀW written out (small domains)."""
        if self.cells > 8192:
            raise ParameterError(
                f"a Gram matrix over {self.cells} cells would be written out",
                hint=Hint("method", "hb"),
            )
        eye = np.eye(self.cells)
        W = np.array([self.answers(row.reshape(self.shape)) for row in eye]).T
        return np.asarray(W.T @ W)

    def read(self, x: Any) -> NDArray[Any]:
        """Check an array over the domain."""
        array = np.asarray(x)
        if array.shape != self.shape and array.size != self.cells:
            raise ParameterError(f"the domain has shape {self.shape}, not {array.shape}")
        return array.reshape(self.shape)

    def __repr__(self) -> str:
        size = f"{self.cells:,}" if self.cells < 10**9 else f"{float(self.cells):.3g}"
        return f"Workload({self.describe()}, {self.queries:,} queries over {size} cells)"


class Products(Workload):
    """A weighted union of Kronecker products of one-dimensional workloads."""

    def __init__(self, terms: Sequence[tuple[float, tuple[Axis, ...]]]) -> None:
        self.terms = tuple(terms)
        self.shape = tuple(axis.n for axis in self.terms[0][1])
        self.queries = sum(math.prod(axis.m for axis in axes) for _, axes in self.terms)

    @classmethod
    def of(cls, axis: Axis) -> Products:
        """Return a workload of one axis."""
        return cls([(1.0, (axis,))])

    @property
    def mass(self) -> float:
        """Σ of squared weights of all queries."""
        return float(sum(w**2 * math.prod(axis.m for axis in axes) for w, axes in self.terms))

    def answers(self, x: Any) -> NDArray[Any]:
        """Return the answers of each product in turn; weights do not scale them."""
        array = self.read(x)
        parts = []
        for _, axes in self.terms:
            y = array
            for i, axis in enumerate(axes):
                y = along(y, i, axis.answers)
            parts.append(np.asarray(y).ravel())
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def key(self) -> tuple[Any, ...]:
        """Weights and axes."""
        return tuple((weight, *(axis.key() for axis in axes)) for weight, axes in self.terms)

    @property
    def counting(self) -> bool:
        """Whether every axis counts."""
        return all(axis.counting for _, axes in self.terms for axis in axes)

    def row(self, index: int) -> Array:
        """Return the outer product of the axes' rows."""
        for _, axes in self.terms:
            sizes = [axis.m for axis in axes]
            if index < math.prod(sizes):
                at = np.unravel_index(index, sizes)
                rows = [axis.row(int(i)) for axis, i in zip(axes, at, strict=True)]
                return np.asarray(reduce(np.multiply.outer, rows))
            index -= math.prod(sizes)
        raise ParameterError(f"queries are counted from 0 to {self.queries - 1}")

    def diagonal(self) -> Array:
        """Return Σ weight² ⊗ diagonals."""
        fitting(self.shape)
        out = np.zeros(self.shape)
        for weight, axes in self.terms:
            out += weight**2 * reduce(np.multiply.outer, [axis.diagonal() for axis in axes])
        return out

    def gram(self) -> Array:
        """Return Σ weight² ⊗ Gram matrices."""
        if self.cells > 8192:
            return super().gram()
        out = np.zeros((self.cells, self.cells))
        for weight, axes in self.terms:
            grams: list[Any] = [axis.gram() for axis in axes]
            out += weight**2 * reduce(np.kron, grams)
        return out

    def energy(self, side: int) -> float:
        """Energies multiply over axes."""
        return sum(w**2 * math.prod(axis.energy(side) for axis in axes) for w, axes in self.terms)

    def sensitivity(self, norm: int = 1, neighbours: Neighbours | str = "add-remove") -> float:
        """Largest column norm, twice that for a change (without the weights of a union)."""
        if norm not in (1, 2):
            raise ParameterError("norm must be 1 or 2", hint=Hint("norm", 1))
        columns = [
            [axis.column_sums() if norm == 1 else axis.diagonal() for axis in axes]
            for _, axes in self.terms
        ]
        if len(columns) == 1:  # norms multiply: the product is not written out
            power = math.prod(float(c.max()) for c in columns[0])
        else:
            products = [reduce(np.multiply.outer, parts) for parts in columns]
            power = float(np.sum(products, axis=0).max())
        change = Neighbours(neighbours) is Neighbours.CHANGE_ONE
        return (2 if change else 1) * (power if norm == 1 else math.sqrt(power))

    def describe(self) -> str:
        """Name the products."""
        products = []
        for weight, axes in self.terms[:4]:
            product = " ⊗ ".join(f"{axis.name}({axis.n})" for axis in axes)
            products.append(product if weight == 1 else f"{weight:g}·{product}")
        if len(self.terms) > 4:
            products.append(f"… {len(self.terms) - 4} more")
        return " + ".join(products)


class Marginals(Workload):
    """All marginal tables of given orders."""

    def __init__(self, sizes: tuple[int, ...], ways: int | Iterable[int]) -> None:
        orders = (ways,) if isinstance(ways, int) else tuple(sorted(set(ways)))
        if not orders or any(
            isinstance(k, bool) or not isinstance(k, int) or not 0 <= k <= len(sizes)
            for k in orders
        ):
            raise ParameterError(
                f"ways must be numbers of attributes, 0 to {len(sizes)}", hint=Hint("ways", 2)
            )
        self.shape, self.ways = sizes, orders
        self.queries = self._summed(sizes, [1] * len(sizes))

    def _summed(self, inside: Sequence[Any], outside: Sequence[Any]) -> Any:
        """Σ over tables of the product of a number for each axis, inside the table or outside."""
        e = [1] + [0] * max(self.ways)
        for a, b in zip(inside, outside, strict=True):
            for k in range(len(e) - 1, 0, -1):
                e[k] = b * e[k] + a * e[k - 1]
            e[0] *= b
        return sum(e[k] for k in self.ways)

    def key(self) -> tuple[Any, ...]:
        """Sizes and orders."""
        return ("marginals", self.shape, self.ways)

    @property
    def tables(self) -> Iterable[tuple[int, ...]]:
        """The attribute sets, in the order of the answers."""
        return (
            axes for k in self.ways for axes in itertools.combinations(range(len(self.shape)), k)
        )

    def answers(self, x: Any) -> NDArray[Any]:
        """Return the tables' cells one after the other."""
        array = self.read(x)
        axes = range(len(self.shape))
        return np.concatenate(
            [
                np.asarray(array.sum(axis=tuple(i for i in axes if i not in table))).ravel()
                for table in self.tables
            ]
        )

    def row(self, index: int) -> Array:
        """Return one cell of one table."""
        for table in self.tables:
            sizes = [self.shape[i] for i in table]
            if index < math.prod(sizes):
                at: list[Any] = [slice(None)] * len(self.shape)
                for axis, i in zip(table, np.unravel_index(index, sizes or [1]), strict=False):
                    at[axis] = int(i)
                out = np.zeros(self.shape)
                out[tuple(at)] = 1.0
                return out
            index -= math.prod(sizes)
        raise ParameterError(f"queries are counted from 0 to {self.queries - 1}")

    @property
    def _copies(self) -> int:
        return sum(math.comb(len(self.shape), k) for k in self.ways)

    def diagonal(self) -> Array:
        """A cell is in one cell of every table."""
        fitting(self.shape)
        return np.full(self.shape, float(self._copies))

    def energy(self, side: int) -> float:
        """Sum of the products' energies."""
        inside = [_factors.Identity(n).energy(side) for n in self.shape]
        outside = [_factors.Total(n).energy(side) for n in self.shape]
        return float(self._summed(inside, outside))

    def sensitivity(self, norm: int = 1, neighbours: Neighbours | str = "add-remove") -> float:
        """A record is in one cell of every table; a change moves two."""
        tables = self._copies - (0 in self.ways) * (Neighbours(neighbours) != "add-remove")
        moved = tables * (1 if Neighbours(neighbours) is Neighbours.ADD_REMOVE else 2)
        return float(moved) if norm == 1 else math.sqrt(moved)

    def describe(self) -> str:
        """Name orders and attributes."""
        orders = ", ".join(str(k) for k in self.ways)
        return f"{orders}-way marginals of {len(self.shape)} attributes"


class Boxes(Workload):
    """Sums over axis-parallel boxes of cells."""

    def __init__(self, shape: tuple[int, ...], low: Any, high: Any) -> None:
        fitting(shape)
        self.shape = shape
        a, b = (np.asarray(ends, dtype=np.int64).reshape(-1, len(shape)) for ends in (low, high))
        if a.shape != b.shape or not len(a) or (a < 0).any() or (b > shape).any() or (a >= b).any():
            raise ParameterError(
                f"each box needs 0 ≤ low < high ≤ {shape} on every axis",
                hint="Workload.boxes((128, 128), [[0, 0]], [[64, 128]])",
            )
        self.low, self.high = a, b
        self.queries = len(a)

    def key(self) -> tuple[Any, ...]:
        """The corners."""
        return ("boxes", self.shape, _factors.fingerprint(self.low, self.high))

    def answers(self, x: Any) -> NDArray[Any]:
        """Return box sums from cumulative sums, corner by corner."""
        sums = self.read(x)
        for axis in range(sums.ndim):
            sums = np.cumsum(sums, axis=axis)
        sums = np.pad(sums, [(1, 0)] * sums.ndim)
        total: Any = 0
        for corner in itertools.product((0, 1), repeat=sums.ndim):
            at = tuple((self.low, self.high)[c][:, i] for i, c in enumerate(corner))
            total = total + (-1) ** (sums.ndim - sum(corner)) * sums[at]
        return np.asarray(total)

    def row(self, index: int) -> Array:
        """Return one box."""
        out = np.zeros(self.shape)
        box = zip(self.low[index].tolist(), self.high[index].tolist(), strict=True)
        out[tuple(slice(a, b) for a, b in box)] = 1.0
        return out

    def diagonal(self) -> Array:
        """Number of boxes over each cell, by differences at the corners."""
        marks = np.zeros([n + 1 for n in self.shape])
        for corner in itertools.product((0, 1), repeat=marks.ndim):
            at = tuple((self.low, self.high)[c][:, i] for i, c in enumerate(corner))
            np.add.at(marks, at, (-1.0) ** sum(corner))
        for axis in range(marks.ndim):
            marks = np.cumsum(marks, axis=axis)
        return np.asarray(marks[tuple(slice(0, n) for n in self.shape)])

    def energy(self, side: int) -> float:
        """Σ over boxes of the product of Σ overlap²/side, axis by axis."""
        each = np.ones(self.queries)
        for i in range(len(self.shape)):
            a, b = self.low[:, i], self.high[:, i]
            first, last = a // side, (b - 1) // side
            head = np.minimum(b, (first + 1) * side) - a
            tail = b - np.maximum(a, last * side)
            middle = np.maximum(last - first - 1, 0) * float(side) ** 2
            each *= (head**2 + np.where(last > first, tail**2, 0) + middle) / side
        return float(each.sum())

    def sensitivity(self, norm: int = 1, neighbours: Neighbours | str = "add-remove") -> float:
        """Most boxes over one cell; for a change, over two cells."""
        most = float(self.diagonal().max())
        change = Neighbours(neighbours) is Neighbours.CHANGE_ONE
        moved = min(2 * most, float(self.queries)) if change else most
        return moved if norm == 1 else math.sqrt(moved)

    def describe(self) -> str:
        """Name the number of boxes."""
        return f"{self.queries} boxes"


def rebuilt(workload: object) -> Workload:
    """Return the same workload, made again from its numbers.

    A subclass, or an object whose methods were replaced, would state sensitivities of its own.
    """
    if type(workload) is Products:
        terms = [(float(w), tuple(map(_factors.rebuilt, axes))) for w, axes in workload.terms]
        read_shape([axis.n for _, axes in terms for axis in axes])
        if len({tuple([axis.n for axis in axes]) for _, axes in terms}) == 1:
            return Products(terms)
    if type(workload) is Marginals:
        return Marginals(read_shape(workload.shape), tuple(map(int, workload.ways)))
    if type(workload) is Boxes:
        return Boxes(read_shape(workload.shape), np.array(workload.low), np.array(workload.high))
    raise ParameterError("publish needs a workload", hint="release.Workload.identity(cells)")
