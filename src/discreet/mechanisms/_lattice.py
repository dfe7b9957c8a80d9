"""Public lattices: how a private value becomes an integer without leaking bits.

Every additive mechanism works on integer multiples ``k·g`` of a public step
``g``. The step is a function of public parameters alone (sensitivity, ε, number
of cells, whether the *caller* calls the query integer), never of a value or of
the type it happens to have.

Every value has a reading
-------------------------
Private values come as they come, and no exception may depend on one: numbers
are taken exactly; what lies beyond ±2^1023 counts as that bound, infinities
included; what is no real number (NaN, None, text, anything else) counts as 0. The
bound moves no two values apart. Only the *shape* is the caller's to get right.

Rounding and its price
----------------------
A value v is rounded to ``k = ⌊v/g + ½⌋``. This rule commutes with integer
translations, so two values at distance t·g are rounded to integers at distance
at most ⌈t⌉. Hence for neighbours at distance Δ:

* one cell: at most ⌈Δ/g⌉;
* d cells, L1: Σ⌈tᵢ⌉ < Δ/g + d and integer, so at most ⌈Δ/g⌉ + d − 1;
* d cells, L2: ‖⌈t⌉‖ ≤ ‖t‖ + √d, so at most Δ/g + √d.

These are the sensitivities the noise is calibrated to. (Rounding halves to even
would not commute with translations: ½ ↦ 0 and 3/2 ↦ 2.) A query that the caller
calls integer, on a lattice that holds all integers, is not rounded and pays nothing.

Everything here is exact: floats are scaled by powers of two or read as
rationals, and integers leave int64 for Python ints before they could overflow.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet import _exact
from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet.errors import Hint, ParameterError

IntArray: TypeAlias = NDArray[Any]
"""An int64 array, or an object array of Python ints where 63 bits are too few."""

_SAFE = 2**62
_BOUND = 2**1023
"""Values beyond ± this count as this: no release leaves the range of doubles."""

_DIGITS = 400
"""Decimals below 10^-400 count as 0, which is what any lattice would round them to."""

FINENESS = 20
"""A default grid is at least this many bits finer than both Δ per cell and the noise."""


@dataclass(frozen=True, slots=True)
class Values:
    """Private numbers as read: a flat array (int64, float64, or exact objects) and its shape."""

    flat: NDArray[Any]
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of cells."""
        return int(self.flat.size)


def read_values(x: object, name: str = "value") -> Values:
    """Read private data, whatever it holds; only a ragged shape is refused.

    >>> read_values([1, None, 2.5]).flat.tolist(), read_values(2.5).shape
    ([1, 0, Fraction(5, 2)], ())
    """
    array = _as_array(x, name)
    kind, width = array.dtype.kind, array.dtype.itemsize
    if kind == "f" and width <= 8:
        floats = np.nan_to_num(array.astype(np.float64).ravel(), nan=0.0)
        return Values(np.clip(floats, -float(_BOUND), float(_BOUND)), array.shape)
    if kind in "ib" or (kind == "u" and width < 8):
        return Values(array.astype(np.int64).ravel(), array.shape)
    return Values(shrink(object_array([_number(c) for c in array.ravel().tolist()])), array.shape)


def _as_array(x: object, name: str) -> NDArray[Any]:
    """Lay out the cells; a list's own cells are never converted by guess."""
    if not isinstance(x, list | tuple):
        return _foreign_array(x, name)
    if x and all(isinstance(row, list | tuple | np.ndarray) for row in x):
        rows = [_as_array(row, name) for row in x]
        if len({row.shape for row in rows}) > 1:
            raise ParameterError(f"{name} must be a rectangular array of numbers")
        return np.stack([row.astype(object) for row in rows])
    kinds = set(map(type, x))
    if kinds == {float}:
        return np.array(x, dtype=np.float64)
    cells = object_array(x)
    return shrink(cells) if kinds == {int} else cells


def _foreign_array(x: object, name: str) -> NDArray[Any]:
    if isinstance(x, np.ndarray | np.generic) or hasattr(x, "__array__"):
        return np.asarray(x)  # also the columns of data frames
    if isinstance(x, str | bytes | bytearray) or not isinstance(x, Iterable):
        return object_array([x]).reshape(())
    if isinstance(x, Sequence):
        return _as_array(list(x), name)
    raise ParameterError(f"{name} must be a number or an array", hint=Hint(name, [0, 0, 0]))


def _number(cell: object) -> int | Fraction:
    """Read one cell, exactly where it is a real number within the bound."""
    value: int | Fraction = 0
    if isinstance(cell, numbers.Rational):  # also out of NumPy's types, whose arithmetic wraps
        value = int(cell) if isinstance(cell, numbers.Integral) else Fraction(cell)
    elif isinstance(cell, Decimal):
        value = _from_decimal(cell)
    elif isinstance(cell, float | np.floating) and not math.isnan(cell):
        finite = math.isfinite(cell)
        value = Fraction(*cell.as_integer_ratio()) if finite else _infinite(bool(cell > 0))
    return min(max(value, -_BOUND), _BOUND)


def _infinite(positive: bool) -> int:
    return _BOUND if positive else -_BOUND


def _from_decimal(cell: Decimal) -> int | Fraction:
    """Read a decimal; one of absurd size would fill the memory if it were written out."""
    if cell.is_nan() or not cell:  # a zero may be written with any exponent
        return 0
    if cell.is_infinite() or cell.adjusted() > _DIGITS:
        return _infinite(cell > 0)
    return 0 if cell.adjusted() < -_DIGITS else Fraction(cell)


def object_array(cells: Sequence[object]) -> NDArray[Any]:
    """Build a one-dimensional object array (NumPy would guess otherwise)."""
    return np.fromiter(cells, dtype=object, count=len(cells))


def power_of_two_below(x: Fraction) -> Fraction:
    """Return the largest 2^k ≤ x.

    >>> power_of_two_below(Fraction(5)), power_of_two_below(Fraction(1, 3))
    (Fraction(4, 1), Fraction(1, 4))
    """
    k = x.numerator.bit_length() - x.denominator.bit_length()
    power = Fraction(2) ** k
    return power if power <= x else power / 2


def read_step(step: Number) -> Fraction:
    """Parse a public lattice step."""
    return _exact.positive(_exact.decimal(step, "step"), "step", example="0.01")


def fine_step(per_cell: Fraction, noise: Fraction) -> Fraction:
    """Choose a power-of-two grid from the sensitivity per cell and the noise scale.

    Then rounding inflates the sensitivity by less than 2^-20 and the grid
    cannot be seen beside the noise.
    """
    return power_of_two_below(min(per_cell, noise) / 2**FINENESS)


def quantise(values: Values, step: Fraction) -> IntArray:
    """Round every value to ⌊v/step + ½⌋, exactly."""
    if values.flat.dtype == np.int64 and step.numerator == 1:
        return _scale_up(values.flat, step.denominator)
    if values.flat.dtype == np.float64 and _is_dyadic(step):
        return _quantise_floats(values.flat, step)
    half = Fraction(1, 2)
    cells = [math.floor(Fraction(cell) / step + half) for cell in values.flat.tolist()]
    return shrink(object_array(cells))


def _scale_up(flat: IntArray, factor: int) -> IntArray:
    if factor == 1 or not flat.size:
        return flat
    if factor < _SAFE and max(int(flat.max()), -int(flat.min())) < _SAFE // factor:
        return flat * factor
    return object_array([int(x) * factor for x in flat.tolist()])


def is_exact(step: Fraction, *, integer: bool) -> bool:
    """Tell whether every value of the query lies on the lattice, by what the caller states."""
    return integer and step.numerator == 1


def l1_on_lattice(size: int, sensitivity: Fraction, step: Fraction, *, integer: bool) -> int:
    """L1 sensitivity in steps, the rounding of this module's docstring included."""
    rounding = 0 if is_exact(step, integer=integer) else max(size - 1, 0)
    return math.ceil(sensitivity / step) + rounding


def _is_dyadic(step: Fraction) -> bool:
    return (step.numerator & (step.numerator - 1)) == 0 == (step.denominator & step.denominator - 1)


def _quantise_floats(flat: NDArray[np.float64], step: Fraction) -> IntArray:
    exponent = step.denominator.bit_length() - step.numerator.bit_length()
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.ldexp(flat, exponent)
    if not flat.size:
        return flat.astype(np.int64)
    if not np.isfinite(scaled).all():
        half = Fraction(1, 2)
        return object_array([math.floor(Fraction(x) / step + half) for x in flat.tolist()])
    floor = np.floor(scaled)
    # scaled - floor may round, but never across ½, so the comparison is exact
    up = scaled - floor >= 0.5
    if float(np.abs(floor).max()) < _SAFE:
        return floor.astype(np.int64) + up
    return object_array([int(f) + int(u) for f, u in zip(floor.tolist(), up.tolist(), strict=True)])


def shrink(cells: NDArray[Any]) -> IntArray:
    """Use int64 where every cell surely fits."""
    if all(type(cell) is int and -_SAFE < cell < _SAFE for cell in cells.tolist()):
        return cells.astype(np.int64)
    return cells


def add(k: IntArray, noise: IntArray) -> IntArray:
    """Add two integer arrays without ever wrapping around."""
    if object not in (k.dtype, noise.dtype) and _fits(k) and _fits(noise):
        return k + noise
    return object_array([int(a) + int(b) for a, b in zip(k.tolist(), noise.tolist(), strict=True)])


def _fits(k: IntArray) -> bool:
    return not k.size or bool(k.max() < _SAFE and k.min() > -_SAFE)


def to_units(k: IntArray, step: Fraction, shape: tuple[int, ...]) -> Any:
    """Scale lattice integers back to units; pure post-processing.

    Integer steps give ints. Other steps give the nearest double, which is k·step
    itself whenever the step is a power of two and |k| < 2^53.
    """
    if step.denominator == 1:
        scale = step.numerator
        cells = k if scale == 1 else object_array([int(x) * scale for x in k.tolist()])
        if shape == ():
            return int(cells[0])
        # int64 or objects: by what is released, not by the road it took here
        return (cells if cells.dtype != object and _fits(cells) else shrink(cells)).reshape(shape)
    if k.dtype != object and _is_dyadic(step):
        floats = np.ldexp(k.astype(np.float64), 1 - step.denominator.bit_length())
        return float(floats[0]) if shape == () else floats.reshape(shape)
    floats = np.array([_nearest(int(x), step) for x in k.tolist()], dtype=np.float64)
    return float(floats[0]) if shape == () else floats.reshape(shape)


def _nearest(k: int, step: Fraction) -> float:
    try:
        return k * step.numerator / step.denominator
    except OverflowError:
        return math.copysign(math.inf, k)
