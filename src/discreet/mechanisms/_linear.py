"""Sensitivity of linear queries f(x) = Bx over the data vector x.

Adding or removing a record of type i moves the answer by the column Be_i;
changing a record from type i to type j moves it by B(e_i − e_j). So the
sensitivity is the largest column norm under add-remove and the largest distance
between two columns under change-one. Columns are the record types: B has one
row per question and one column per element of the universe.

Integer matrices are treated in exact integer arithmetic. For other matrices
each sum of k doubles is raised by its rounding bound, so the result is never
below the truth.

The search for the farthest pair deduplicates columns, orders them by norm and
stops once what the norms allow cannot beat the best pair found; what remains is done in
vectorised blocks on the rows where the pivot column is not zero.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet._exact import ceil_float
from discreet.errors import Hint, ParameterError
from discreet.mechanisms._parameters import sqrt_up
from discreet.privacy import Neighbours, read_neighbours

_BLOCK = 2**22  # cells of one dense block
_EXACT = 2**52  # integer sums below this are exact in float64, and far from wrapping in int64


def sensitivity(B: Any, neighbours: Neighbours | str, norm: int = 1) -> int | float:
    """Return the L1 or L2 sensitivity of the linear query with matrix `B`.

    Parameters
    ----------
    B
        Matrix (dense, nested lists or scipy.sparse): rows are questions,
        columns are record types.
    neighbours
        "add-remove" or "change-one".
    norm
        1 or 2.

    Returns
    -------
    int or float
        An int when the matrix is integer and the norm is whole, otherwise a
        float that is never below the exact value.

    Examples
    --------
    >>> from discreet import mechanisms as m
    >>> m.sensitivity([[1, 0], [0, 1]], "add-remove"), m.sensitivity([[1, 0], [0, 1]], "change-one")
    (1, 2)
    >>> round(m.sensitivity([[1, 0], [0, 1]], "change-one", norm=2), 6)
    1.414214
    """
    relation = read_neighbours(neighbours)
    if relation is None:
        raise ParameterError("state the relation", hint=Hint("neighbours", "change-one"))
    if norm not in (1, 2):
        raise ParameterError("norm must be 1 or 2", hint=Hint("norm", 1))
    columns = _Columns(_read_matrix(B), norm)
    power = columns.largest() if relation is Neighbours.ADD_REMOVE else columns.farthest()
    return _root(power, columns, norm)


def _root(power: float, columns: _Columns, norm: int) -> int | float:
    if columns.integer:
        if norm == 1:
            return int(power)
        whole = math.isqrt(int(power))
        return whole if whole * whole == power else ceil_float(sqrt_up(Fraction(int(power))))
    if power == 0 and len(columns.powers) == 1:
        return 0.0
    # 1e-300 pays for squares that underflowed after scaling
    raised = power * (1 + (columns.rows + 4) * 2.0**-51) + 1e-300
    root = raised if norm == 1 else math.sqrt(raised)
    with np.errstate(over="ignore", under="ignore"):
        scaled = float(np.ldexp(math.nextafter(root, math.inf), columns.exponent))
    if scaled == math.inf:
        raise ParameterError("the sensitivity of B is beyond the range of doubles")
    # a subnormal result may have been rounded down
    return scaled if scaled >= sys.float_info.min else math.nextafter(scaled, math.inf)


def _read_matrix(B: Any) -> Any:
    sparse = hasattr(B, "tocsc")
    matrix: Any = B.tocsc() if sparse else np.asarray(B)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ParameterError("B must be a matrix with at least one row and one column")
    kind = matrix.dtype.kind
    if kind == "b":
        matrix = matrix.astype(np.int64)
    elif kind == "O":
        matrix = _from_objects(matrix)
    elif kind not in "iuf":
        raise ParameterError("B must hold real numbers")
    entries = matrix.data if sparse else matrix
    if not np.isfinite(entries).all():
        raise ParameterError("B must hold finite numbers")
    if sparse:
        matrix.sum_duplicates()
    return matrix


def _from_objects(matrix: NDArray[Any]) -> NDArray[Any]:
    try:
        if all(float(x).is_integer() and abs(x) < _EXACT for x in matrix.ravel().tolist()):
            return matrix.astype(np.int64)
        return matrix.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError("B must hold real numbers") from None


class _Columns:
    """The distinct columns of a matrix, ordered by decreasing norm."""

    def __init__(self, matrix: Any, norm: int) -> None:
        self.norm = norm
        self.rows = int(matrix.shape[0])
        self.sparse = hasattr(matrix, "tocsc")
        entries = matrix.data if self.sparse else matrix
        largest = float(np.abs(entries.astype(np.float64)).max()) if entries.size else 0.0
        self.non_negative = bool((entries >= 0).all())
        whole = bool((entries == np.floor(entries)).all()) if entries.size else True
        # (2·largest)^norm·rows bounds every sum and product formed below
        small = largest < _EXACT  # larger ones would overflow when squared
        self.integer = whole and small and (2 * largest) ** norm * self.rows < _EXACT
        # doubles are scaled by a power of two, so that squares neither overflow nor vanish
        self.exponent = 0 if self.integer else math.frexp(largest)[1]
        matrix = matrix.astype(np.int64 if self.integer else np.float64)
        if self.exponent and self.sparse:
            matrix.data = np.ldexp(matrix.data, -self.exponent)
        elif self.exponent:
            matrix = np.ldexp(matrix, -self.exponent)
        self.matrix: Any = _distinct_sparse(matrix) if self.sparse else np.unique(matrix, axis=1)
        powers = self._powers(self.matrix)
        order = np.argsort(-powers, kind="stable")
        self.powers = powers[order]
        self.matrix = self.matrix[:, order]
        self.by_row = self.matrix.tocsr() if self.sparse else self.matrix

    def _powers(self, matrix: Any) -> NDArray[Any]:
        powered = abs(matrix) if self.norm == 1 else _square(matrix, sparse=self.sparse)
        return np.asarray(powered.sum(axis=0)).ravel()

    def largest(self) -> Any:
        """Largest ‖column‖^norm."""
        return self.powers[0].item()

    def farthest(self) -> Any:
        """Largest ‖a − b‖^norm over pairs of columns."""
        best: Any = 0
        for i in range(len(self.powers) - 1):
            stop = i + 1 + int(np.searchsorted(-self._reach(i), -best))
            if stop == i + 1:
                break
            best = max(best, self._farthest_from(i, stop))
        return best

    def _reach(self, i: int) -> NDArray[Any]:
        """Bound the distance from column i to each later column by their norms."""
        if self.norm == 1 or self.non_negative:
            # ‖a−b‖² = ‖a‖² + ‖b‖² − 2a·b, and a·b ≥ 0 without signs
            reach = self.powers[i] + self.powers[i + 1 :]
            return np.asarray(reach if self.integer else reach * (1 + 1e-9))
        roots = np.sqrt(self.powers[i:].astype(np.float64))
        return np.asarray((roots[0] + roots[1:]) ** 2 * (1 + 1e-9))

    def _farthest_from(self, i: int, stop: int) -> Any:
        """Largest distance from column i to the columns i+1 … stop−1."""
        column = self.matrix[:, [i]]
        dense = np.asarray(column.todense() if self.sparse else column).ravel()
        # sums of integers are exact, so only the pivot's own rows need looking at; with
        # doubles the shortcut would cancel, so the whole columns are subtracted
        support = np.flatnonzero(dense) if self.integer else np.arange(self.rows)
        pivot = dense[support][:, None]
        rows = self.by_row[support]
        width = max(1, _BLOCK // max(1, support.size))
        best: Any = 0
        for start in range(i + 1, stop, width):
            end = min(start + width, stop)
            block: Any = rows[:, start:end]
            block = np.asarray(block.todense()) if self.sparse else block
            distances = _power(block - pivot, self.norm).sum(axis=0)
            if self.integer:
                # outside the support of i the difference is the other column itself
                distances += self.powers[start:end] - _power(block, self.norm).sum(axis=0)
            best = max(best, distances.max().item())
        return best


def _square(matrix: Any, *, sparse: bool) -> Any:
    return matrix.multiply(matrix) if sparse else matrix * matrix


def _power(x: NDArray[Any], norm: int) -> NDArray[Any]:
    return np.asarray(np.abs(x) if norm == 1 else x * x)


def _distinct_sparse(matrix: Any) -> Any:
    matrix.sort_indices()
    firsts: dict[tuple[bytes, bytes], int] = {}
    for j in range(matrix.shape[1]):
        cells = slice(matrix.indptr[j], matrix.indptr[j + 1])
        key = (matrix.indices[cells].tobytes(), matrix.data[cells].tobytes())
        firsts.setdefault(key, j)
    return matrix[:, sorted(firsts.values())]
