"""Exact numbers in, exact numbers kept: the one place that parses parameters.

Two readings of a Python float exist and both are needed:

* :func:`exact` takes a float as the binary number it *is* (0.1 is
  3602879701896397/2**55). Data values and noise-law parameters use it: the law
  drawn is then exactly the law named.
* :func:`decimal` takes a float as its shortest decimal (0.1 is 1/10). Budgets,
  ε, δ and ρ use it: that is what the person who typed 0.1 meant, and ten of
  them make exactly 1.

Strings, ints, Fractions and Decimals are taken as written by both.
"""

from __future__ import annotations

import math
import numbers
import re
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias, TypeVar

from discreet.errors import Hint, ParameterError

Number: TypeAlias = int | float | str | Fraction | Decimal
"""What callers may write wherever a number is expected (NumPy scalars too)."""

_LONGEST = 1_000
_LARGEST_EXPONENT = 5_000

_SMALLEST = Fraction(sys.float_info.min)
"""Smallest normal double: below it 1/x overflows somewhere, so it is refused."""

_LARGEST = Fraction(10) ** 300
"""Beyond it sums and squares leave the range of doubles."""


def exact(x: Number, name: str) -> Fraction:
    """Read `x` as an exact rational; a float is its exact binary value.

    >>> exact(0.5, "step"), exact("0.1", "scale")
    (Fraction(1, 2), Fraction(1, 10))
    """
    return _parse(x, name, shortest=False)


def decimal(x: Number, name: str) -> Fraction:
    """Read `x` as an exact rational; a float is its shortest decimal.

    >>> decimal(0.1, "epsilon")
    Fraction(1, 10)
    """
    return _parse(x, name, shortest=True)


def _parse(x: Number, name: str, *, shortest: bool) -> Fraction:
    if type(x) is Fraction:  # what was parsed comes by again and again
        return x
    if isinstance(x, bool) or not isinstance(x, numbers.Number | str):
        raise ParameterError(f"{name} must be a number, got {type(x).__name__}")
    if isinstance(x, str):
        return _parse_text(x, name, shortest=shortest)
    if isinstance(x, numbers.Rational):
        return Fraction(int(x.numerator), int(x.denominator))
    if isinstance(x, Decimal):
        if not x.is_finite():
            raise ParameterError(f"{name} must be finite, got {x}")
        return _parse_text(str(x), name, shortest=shortest)
    if not isinstance(x, numbers.Real):
        raise ParameterError(f"{name} must be a real number, got {type(x).__name__}")
    value = float(x)
    if not math.isfinite(value):
        raise ParameterError(f"{name} must be finite, got {value}")
    # repr of the caller's own type, so that np.float32(0.1) also means 1/10
    return Fraction(str(x)) if shortest else Fraction(value)


def _parse_text(x: str, name: str, *, shortest: bool) -> Fraction:
    """Read a decimal or ratio; refuse texts whose exact value would fill the memory."""
    text = x.strip().replace("_", "")
    exponent = re.search(r"[eE]([+-]?\d+)$", text)
    if len(text) > _LONGEST or (exponent and abs(int(exponent[1])) > _LARGEST_EXPONENT):
        raise ParameterError(f"{name} has too many digits")
    try:
        return _parameter(text) if shortest else Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise ParameterError(f"{name} is not a number: {x[:40]!r}") from None


@lru_cache(maxsize=256)
def _parameter(text: str) -> Fraction:
    """Read a price or a level, which come by many times; no data are read here."""
    return Fraction(text)


def positive(value: Fraction, name: str, *, example: object = None) -> Fraction:
    """Refuse zero, negative and absurdly small `value`, with an example; return it otherwise."""
    if _SMALLEST <= value <= _LARGEST:
        return value
    what = f"must be positive, got {show(value)}"
    if value > _LARGEST:
        what = f"is too large to mean anything (above {float(_LARGEST):.3g})"
    elif value > 0:
        what = f"is too small to mean anything (below {sys.float_info.min:.3g})"
    raise ParameterError(f"{name} {what}", hint=None if example is None else Hint(name, example))


def epsilon(x: Number, name: str = "epsilon") -> Fraction:
    """Parse a privacy parameter ε: exact, positive, finite, not subnormal."""
    try:
        value = decimal(x, name)
    except ParameterError as error:
        raise error.with_hint(Hint(name, "0.5")) from None
    return positive(value, name, example="0.1")


def delta(x: Number, name: str = "delta") -> Fraction:
    """Parse a failure probability δ: exact, strictly between 0 and 1."""
    value = decimal(x, name)
    if not 0 < value < 1:
        raise ParameterError(
            f"{name} must lie strictly between 0 and 1, got {show(value)}", hint=Hint(name, "1e-6")
        )
    return positive(value, name, example="1e-6")


def confidence(x: Number, name: str = "confidence") -> float:
    """Parse a confidence level: strictly between 0 and 1."""
    value = decimal(x, name)
    if not 0 < value < 1:
        raise ParameterError(
            f"{name} must lie strictly between 0 and 1, got {show(value)}", hint=Hint(name, 0.95)
        )
    level = float(value)
    if not 0 < level < 1:
        raise ParameterError(f"{name} is too close to 0 or 1", hint=Hint(name, 0.95))
    return level


N = TypeVar("N", int, float, Fraction)


def turning(holds: Callable[[N], bool], low: N, high: N, relative: float = 2.0**-50) -> tuple[N, N]:
    """Bisect: `holds` is taken to be false at `low` and true at `high`; return the last such two.

    Whole numbers end as neighbours, others within `relative` of the upper end.

    >>> turning(lambda x: x * x >= 50, 0, 100)
    (7, 8)
    """
    while high - low > relative * abs(high):
        middle = (low + high) // 2 if isinstance(low, int) else (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high


def show(value: Fraction) -> str:
    """Print a rational the way a person would write it.

    >>> show(Fraction(1, 10)), show(Fraction(1, 3)), show(Fraction(1, 10**9))
    ('0.1', '1/3', '1e-09')
    """
    if value.denominator == 1 and value.numerator.bit_length() < 4_000:
        return str(value.numerator)
    if max(value.numerator.bit_length(), value.denominator.bit_length()) >= 4_000:
        # too long to write out: the order of magnitude says enough
        exponent = value.numerator.bit_length() - value.denominator.bit_length()
        return f"about 2^{exponent}"
    # a float that parses back to the same rational is the shortest honest form
    text = repr(float(value)) if abs(value) < sys.float_info.max else str(value)
    if Fraction(text) == value:
        return text
    short = str(value)
    return short if len(short) <= 16 else f"{float(value):.6g}"


def floor_decimal(value: Fraction, digits: int = 4) -> str:
    """Print at most `digits` significant digits, never above `value`; empty for nothing.

    >>> floor_decimal(Fraction(2, 3)), floor_decimal(Fraction(1, 4))
    ('0.6666', '0.25')
    """
    if value <= 0:
        return ""
    exponent = math.floor(math.log10(float(value))) - digits + 1
    unit = Fraction(10) ** exponent
    return show(value // unit * unit)


def ceil_float(value: Fraction) -> float:
    """Round a rational to the nearest double not below it (for upper bounds), inf included."""
    try:
        f = float(value)
    except OverflowError:
        return math.inf if value > 0 else -sys.float_info.max
    return f if Fraction(f) >= value else math.nextafter(f, math.inf)


def floor_float(value: Fraction) -> float:
    """Round a rational to the nearest double not above it (for lower bounds)."""
    return -ceil_float(-value)
