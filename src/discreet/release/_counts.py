"""The private input: how many records fall into each cell of a public domain.

Two forms, one face. :class:`Counts` asks nothing but marginals of it, so a table of
records over a domain of 10¹⁷ cells serves as well as an array of counts, provided nobody
asks for the array. Nothing of it is ever printed: its repr shows the public shape only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import Hint, ParameterError
from discreet.privacy import Neighbours

LARGEST = 1 << 28
"""Most cells that are ever held as an array (2 GB of int64)."""

_SAFE = 1 << 62


class Counts:
    """Private counts over a public domain, as an array or as coded records."""

    __slots__ = ("_array", "_records", "shape", "total")

    def __init__(
        self, array: NDArray[np.int64] | None, records: Any, shape: tuple[int, ...]
    ) -> None:
        self._array = array
        self._records = records
        self.shape = shape
        # PRIVATE: used only to decide whether 64 bits hold a sum
        self.total = _total(array) if array is not None else len(records)

    def array(self) -> NDArray[np.int64]:
        """Return the counts as an array of the domain's shape."""
        if self._array is None:
            fitting(self.shape)
            self._array = self.marginal(tuple(range(len(self.shape))))
        return self._array

    @property
    def small(self) -> bool:
        """Whether an array of the counts fits into memory."""
        return math.prod(self.shape) <= LARGEST

    def marginal(self, axes: Sequence[int]) -> NDArray[np.int64]:
        """Return the counts summed over all axes but these (in increasing order)."""
        if self._array is not None:
            rest = tuple(i for i in range(len(self.shape)) if i not in set(axes))
            return np.asarray(self._array.sum(axis=rest))
        shape = tuple(self.shape[i] for i in axes)
        if not axes:
            return np.asarray(len(self._records))
        index = np.ravel_multi_index([self._records[:, i] for i in axes], shape)
        return np.bincount(index, minlength=math.prod(shape)).astype(np.int64).reshape(shape)

    def moved(self, *changes: tuple[tuple[int, ...], int]) -> Counts:
        """Return a neighbour: each change adds ±1 to one cell (for audits)."""
        array = self.array().copy()
        for cell, by in changes:
            array[cell] += by
        return Counts(array, None, self.shape)

    def __repr__(self) -> str:
        return f"Counts(shape={self.shape})"


class Records:
    """A table of coded records: row i, column a holds the code of attribute a in record i.

    Parameters
    ----------
    table
        Integers, one row per record; attribute a has codes 0 … sizes[a] − 1.
    sizes
        Public number of codes of each attribute.

    Examples
    --------
    >>> from discreet import release
    >>> release.Records([[0, 2], [1, 0]], sizes=(2, 3))
    Records(sizes=(2, 3))
    """

    __slots__ = ("sizes", "table")

    def __init__(self, table: Any, sizes: Sequence[int]) -> None:
        self.sizes = read_shape(sizes)
        codes = np.asarray(table)
        if codes.size == 0:
            codes = np.zeros((0, len(self.sizes)), dtype=np.int64)
        if codes.ndim != 2 or codes.shape[1] != len(self.sizes):
            raise ParameterError(
                f"records need one column for each of the {len(self.sizes)} attributes",
                hint="release.Records(table, sizes)",
            )
        if codes.dtype.kind not in "iu":
            raise ParameterError("records must hold integer codes", hint="table.astype(int)")
        codes = codes.astype(np.int64)
        if (codes < 0).any() or (codes >= np.array(self.sizes)).any():
            raise ParameterError(
                "a code lies outside the public domain: code a column's values 0 … size − 1",
                hint="release.Records(table, sizes)",
            )
        self.table: NDArray[np.int64] = codes

    @classmethod
    def of_points(
        cls, points: Any, low: Sequence[float], high: Sequence[float], cells: Sequence[int]
    ) -> Records:
        """Put points on a public grid.

        Parameters
        ----------
        points
            One row of coordinates for each record.
        low, high
            Public ends of each axis; points outside are moved to the nearest cell.
        cells
            Public number of cells of each axis.

        Examples
        --------
        >>> from discreet import release
        >>> release.Records.of_points([[0.2, 9.0]], (0, 0), (1, 10), cells=(4, 4)).table
        array([[0, 3]])
        """
        sizes = read_shape(cells)
        a, b = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
        x = np.asarray(points, dtype=np.float64).reshape(-1, len(sizes))
        if a.shape != (len(sizes),) or a.shape != b.shape or not (a < b).all():
            raise ParameterError(
                "each axis needs public ends, low < high", hint=Hint("low", (0, 0))
            )
        # a coordinate that is no number goes to the first cell: never an error, never a hint
        x = np.nan_to_num((x - a) / (b - a), nan=0.0, posinf=1.0, neginf=0.0)
        codes = np.floor(np.clip(x, 0.0, 1.0) * sizes).astype(np.int64)
        return cls(np.minimum(codes, np.array(sizes) - 1), sizes)

    def __repr__(self) -> str:
        return f"Records(sizes={self.sizes})"


def read_counts(x: Any, shape: tuple[int, ...]) -> Counts:
    """Check private input against the public shape."""
    if isinstance(x, Records):
        if x.sizes != shape:
            raise ParameterError(f"the workload is over {shape}, the records over {x.sizes}")
        return Counts(None, x.table, shape)
    if isinstance(x, Counts):
        return x
    array = np.asarray(x)
    if array.dtype.kind == "b":
        array = array.astype(np.int64)
    if array.dtype.kind not in "iuf":
        raise ParameterError("counts must be numbers, one for each cell of the domain")
    if array.shape != shape:
        if array.shape != (math.prod(shape),):
            raise ParameterError(
                f"the workload is over a domain of shape {shape}, the counts have shape "
                f"{array.shape}",
                hint=f"x.reshape({shape})",
            )
        array = array.reshape(shape)
    whole = array.dtype.kind in "iu" or bool((np.isfinite(array) & (array == np.rint(array))).all())
    if not whole or bool((array < 0).any()) or bool((array > 2**53).any()):
        raise ParameterError(
            "counts must be whole numbers, 0 or more, below 2^53: each cell says how many "
            "records it holds",
            hint="numpy.bincount(codes) counts the records of each cell",
        )
    return Counts(array.astype(np.int64), None, shape)


def read_shape(sizes: Any) -> tuple[int, ...]:
    """Read the public sizes of a domain."""
    shape = (sizes,) if hasattr(sizes, "__index__") else tuple(sizes)
    for size in shape:
        if isinstance(size, bool) or not hasattr(size, "__index__") or int(size) < 1:
            raise ParameterError(
                "the size of a domain must be a whole number, at least 1", hint=Hint("n", 256)
            )
    if not shape:
        raise ParameterError("a domain needs at least one attribute", hint=Hint("sizes", (2, 3)))
    return tuple(int(size) for size in shape)


def fitting(shape: tuple[int, ...], hint: str = 'method="marginals"') -> int:
    """Return the number of cells; refuse a domain that memory would not hold."""
    cells = math.prod(shape)
    if cells > LARGEST:
        raise ParameterError(
            f"the domain has about {cells:.3g} cells, more than {LARGEST:.3g}: no array of "
            "counts over it fits into memory",
            hint=hint,
        )
    return cells


def _total(array: NDArray[np.int64]) -> int:
    """Sum of the counts, in Python integers where 64 bits might not hold it."""
    if array.size * int(np.abs(array).max(initial=0)) < _SAFE:
        return int(array.sum())
    return int(array.astype(object).sum())


def apart(neighbours: Neighbours) -> int:
    """Return in how many cells neighbours differ: one, or two where a record is changed."""
    return 1 if neighbours is Neighbours.ADD_REMOVE else 2


def widened(x: NDArray[Any], factor: int, total: int) -> NDArray[Any]:
    """Return `x` in Python integers if sums of `total` records times `factor` pass 63 bits."""
    return x.astype(object) if factor * max(total, 1) >= _SAFE else x


def exact_product(
    matrix: NDArray[np.int64], x: NDArray[Any], factor: int, total: int
) -> NDArray[Any]:
    """Return matrix @ x exactly: in doubles while every sum stays below 2^52, else in integers."""
    if factor * max(total, 1) < 1 << 52:
        return np.rint(matrix.astype(np.float64) @ x.astype(np.float64)).astype(np.int64)
    if factor * max(total, 1) < _SAFE:
        return np.asarray(matrix @ x)
    return np.asarray(matrix.astype(object) @ x.astype(object))
