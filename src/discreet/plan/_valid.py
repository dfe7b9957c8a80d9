"""Reading numbers of a record from anybody: bounded in length, or refused."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

from discreet import _exact
from discreet.errors import ParameterError

LONGEST: Final = 900
"""Most bits of an integer: what a double can still stand for."""


def damaged(what: str) -> ParameterError:
    """Refusal of a record."""
    return ParameterError(f"the record is damaged: {what}")


def integer(value: Any) -> int:
    """Read an integer of limited length; True and False are not integers."""
    if not isinstance(value, int) or isinstance(value, bool) or value.bit_length() > LONGEST:
        raise damaged("an integer is missing or too long")
    return value


def integers(values: Any) -> tuple[int, ...]:
    """Read a list of integers."""
    if not isinstance(values, list | tuple):
        raise damaged("a list is missing")
    return tuple(integer(v) for v in values)


def rational(value: Any) -> Fraction:
    """Read an exact number of limited size."""
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise damaged("a number is missing")
    number = _exact.decimal(value, "a number of the record")
    longest = max(number.numerator.bit_length(), number.denominator.bit_length())
    if longest > 2 * LONGEST or abs(number) >= 2**LONGEST:
        raise damaged("a number is too long")
    return number
