"""Public lattices: how a real value becomes an integer without leaking bits.

Every additive mechanism works on integer multiples ``k·g`` of a public step
``g``. The step is a function of public parameters alone (sensitivity, ε, number
of cells, the *type* the query returns), never of a value.

Rounding and its price
----------------------
A value v is rounded to ``k = ⌊v/g + ½⌋``. This rule commutes with integer
translations, so two values at distance t·g are rounded to integers at distance
at most ⌈t⌉. Hence for neighbours at distance Δ:

* one cell: at most ⌈Δ/g⌉;
* d cells, L1: Σ⌈tᵢ⌉ < Δ/g + d and integer, so at most ⌈Δ/g⌉ + d − 1;
* d cells, L2: ‖⌈t⌉‖ ≤ ‖t‖ + √d, so at most Δ/g + √d.

These are the sensitivities the noise is calibrated to. (Rounding halves to even
would not commute with translations: ½ ↦ 0 and 3/2 ↦ 2.) Values of integer type
on a lattice that holds all integers are not rounded and pay nothing.

Everything here is exact: floats are scaled by powers of two or read as
rationals, and integers leave int64 for Python ints before they could overflow.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet import _exact
from discreet._exact import Number
from discreet.errors import LatticeError, ParameterError

IntArray: TypeAlias = NDArray[Any]
"""An int64 array, or an object array of Python ints where 63 bits are too few."""

_SAFE = 2**62
FINENESS = 20
"""A default grid is at least this many bits finer than both Δ per cell and the noise."""


@dataclass(frozen=True, slots=True)
class Values:
    """Private numbers as parsed: a flat array, its shape, and whether the type is integer."""

    flat: NDArray[Any]
    shape: tuple[int, ...]
    integer: bool

    @property
    def size(self) -> int:
        """Number of cells."""
        return int(self.flat.size)


def read_values(x: object, name: str = "value") -> Values:
    """Parse private data; the messages say nothing about the data itself.

    >>> read_values([1, 2, 3]).integer, read_values(2.5).shape
    (True, ())
    """
    array = _as_array(x, name)
    if array.size == 0:
        raise ParameterError(f"{name} is empty", hint=f"{name}=[0, 0, 0]")
    if array.dtype.kind == "f" and array.dtype.itemsize <= 8:
        if not np.isfinite(array).all():
            raise ParameterError(f"{name} must be finite numbers")
        return Values(array.astype(np.float64).ravel(), array.shape, integer=False)
    if array.dtype.kind == "i" or (array.dtype.kind == "u" and array.dtype.itemsize < 8):
        return Values(array.astype(np.int64).ravel(), array.shape, integer=True)
    if array.dtype.kind in "uO":
        cells = [_cell(cell, name) for cell in array.ravel().tolist()]
        integer = all(isinstance(cell, int) for cell in cells)
        flat = object_array(cells)
        return Values(shrink(flat) if integer else flat, array.shape, integer=integer)
    raise ParameterError(f"{name} must be finite numbers, got {array.dtype.name}")


def _as_array(x: object, name: str) -> NDArray[Any]:
    if isinstance(x, bool | str | bytes):
        raise ParameterError(f"{name} must be finite numbers, got {type(x).__name__}")
    if isinstance(x, numbers.Number | Decimal):
        return np.asarray(x) if isinstance(x, np.generic | float) else object_array([x]).reshape(())
    if not isinstance(x, Sequence | np.ndarray) and not hasattr(x, "__array__"):
        raise ParameterError(f"{name} must be a number or an array, got {type(x).__name__}")
    try:
        array = np.asarray(x)
    except (ValueError, TypeError):
        raise ParameterError(f"{name} must be a rectangular array of numbers") from None
    if array.dtype.kind == "f" and not isinstance(x, np.ndarray):
        # a list such as [2**70, 0.5] would already have been rounded by NumPy
        array = np.asarray(x, dtype=object)
        if all(isinstance(cell, float) for cell in array.ravel().tolist()):
            return array.astype(np.float64)
    return array


def _cell(cell: object, name: str) -> int | Fraction:
    if isinstance(cell, numbers.Integral) and not isinstance(cell, bool):
        return int(cell)  # also out of NumPy's types, whose arithmetic wraps
    if isinstance(cell, Fraction):
        return cell
    if isinstance(cell, Decimal) and cell.is_finite():
        return Fraction(cell)
    if isinstance(cell, float | np.floating) and math.isfinite(cell):
        return Fraction(float(cell))
    raise ParameterError(f"{name} must be finite numbers")


def object_array(cells: Sequence[object]) -> NDArray[Any]:
    """Build a one-dimensional object array (NumPy would guess otherwise)."""
    array = np.empty(len(cells), dtype=object)
    array[:] = cells
    return array


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
    return _exact.positive(_exact.decimal(step, "step"), "step", hint='step="0.01"')


def fine_step(per_cell: Fraction, noise: Fraction) -> Fraction:
    """Choose a power-of-two grid from the sensitivity per cell and the noise scale.

    Then rounding inflates the sensitivity by less than 2^-20 and the grid
    cannot be seen beside the noise.
    """
    return power_of_two_below(min(per_cell, noise) / 2**FINENESS)


def quantise(values: Values, step: Fraction) -> IntArray:
    """Round every value to ⌊v/step + ½⌋, exactly."""
    if values.integer and step.numerator == 1:
        return _scale_up(values.flat, step.denominator)
    if values.flat.dtype == np.float64 and _is_dyadic(step):
        return _quantise_floats(values.flat, step)
    half = Fraction(1, 2)
    cells = [math.floor(Fraction(cell) / step + half) for cell in values.flat.tolist()]
    return shrink(object_array(cells))


def _scale_up(flat: IntArray, factor: int) -> IntArray:
    if factor == 1:
        return flat
    if flat.dtype != object and factor < _SAFE and int(np.abs(flat).max()) < _SAFE // factor:
        return flat * factor
    return object_array([int(x) * factor for x in flat.tolist()])


def is_exact(values: Values, step: Fraction) -> bool:
    """Tell from types alone whether every possible value lies on the lattice."""
    return values.integer and step.numerator == 1


def l1_on_lattice(values: Values, sensitivity: Fraction, step: Fraction) -> int:
    """L1 sensitivity in steps, the rounding of this module's docstring included."""
    rounding = 0 if is_exact(values, step) else values.size - 1
    return math.ceil(sensitivity / step) + rounding


def _is_dyadic(step: Fraction) -> bool:
    return (step.numerator & (step.numerator - 1)) == 0 == (step.denominator & step.denominator - 1)


def _quantise_floats(flat: NDArray[np.float64], step: Fraction) -> IntArray:
    exponent = step.denominator.bit_length() - step.numerator.bit_length()
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.ldexp(flat, exponent)
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
    if all(-_SAFE < cell < _SAFE for cell in cells.tolist()):
        return cells.astype(np.int64)
    return cells


def add(k: IntArray, noise: IntArray) -> IntArray:
    """Add two integer arrays without ever wrapping around."""
    if object not in (k.dtype, noise.dtype) and _fits(k) and _fits(noise):
        return k + noise
    return object_array([int(a) + int(b) for a, b in zip(k.tolist(), noise.tolist(), strict=True)])


def _fits(k: IntArray) -> bool:
    return bool(k.max() < _SAFE and k.min() > -_SAFE)


def require_integers(values: Values) -> None:
    """Refuse anything but integer types: integer noise on x/3 hides nothing (R3.2)."""
    if not values.integer:
        raise LatticeError(
            "value must be an integer: adding integer noise to other numbers leaves neighbouring "
            "answers with disjoint supports, which reveals them exactly",
            hint='m.laplace(value, sensitivity=…, epsilon=…, step="0.01")',
        )


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
        return (cells if cells.dtype != object else shrink(cells)).reshape(shape)
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
