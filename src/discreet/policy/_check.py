"""The small checks every part of a policy is made of, and one way to refuse.

All of them raise :class:`~discreet.errors.PolicyError` with a `path` relative to
the object being built and a `fix`: the keys that would work. The loader turns
the first into a line of the file and the second into text to paste.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any, Final, TypeVar

from discreet._exact import Number, decimal, show
from discreet._frozen import Frozen
from discreet._text import nearest as _nearest
from discreet._text import plain_str, quote
from discreet.errors import PolicyError

T = TypeVar("T")

NAME_LENGTH: Final = 255
INTEGER_BITS: Final = 62
"""Integers stay below 2^62, so that a sum of two of them fits a signed 64-bit word."""

_EXAMPLES: Final[Mapping[str, object]] = {
    "epsilon": "1", "delta": "1e-6", "rho": "0.1", "shares": {"analyst": "0.5"},
    "min": 0, "max": 100, "step": "0.01", "null": None,
    "source": "people.parquet", "key": "visit_id", "column": "visit_id",
    "max_rows_per_unit": 1, "max_groups_per_unit": 1, "max_rows_per_group": 1,
    "max_rows_per_parent": 1,
}  # fmt: skip
"""What to paste where a value cannot be read at all (None: leave the key out)."""

_HUGE: Final = 2**1000
_DIGITS: Final = 400
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9_]+)")


class FloatText(str):
    """A float exactly as it stands in a policy file: a number, not text."""

    __slots__ = ()


def settle(target: object, **values: object) -> None:
    """Set the fields of a frozen dataclass while it is being built."""
    for name, value in values.items():
        object.__setattr__(target, name, value)


def plain(value: Fraction) -> int | str:
    """Write a rational so that reading it gives the same rational.

    >>> plain(Fraction(3)), plain(Fraction(1, 100)), plain(Fraction(1, 3))
    (3, '0.01', '1/3')
    """
    if value.denominator == 1:
        return value.numerator
    text = show(value)
    return text if Fraction(text) == value else str(value)


def refusal(
    message: str, *path: str, fix: Mapping[str, object] | None = None, hint: str | None = None
) -> PolicyError:
    """Make the error that points at `path` inside the object being built."""
    return PolicyError(message, path=path, fix=fix, hint=hint)


def _example(key: str) -> dict[str, object] | None:
    return {key: _EXAMPLES[key]} if key in _EXAMPLES else None


nearest = partial(_nearest, cutoff=0.55)


def text(value: object, subject: str, key: str, *, limit: int | None = None) -> str:
    """Accept any text that every engine can store: no NUL, no half characters."""
    if not isinstance(value, str) or isinstance(value, FloatText):
        raise refusal(f"{subject}: {key} must be text in quotes", key, fix=_example(key))
    value = plain_str(value)
    if "\0" in value or any("\ud800" <= c <= "\udfff" for c in value):
        raise refusal(f"{subject}: {key} holds a NUL or half of a surrogate pair", key)
    if limit is not None and len(value) > limit:
        raise refusal(f"{subject}: {key} is longer than {limit} characters", key)
    return value


def name(value: object, kind: str) -> str:
    """Accept a name: any text that is not empty, at most 255 characters, case kept."""
    checked = text(value, kind, "name", limit=NAME_LENGTH)
    if not checked:
        raise refusal(f"a {kind} needs a name", "name")
    return checked


def number(value: Number, subject: str, key: str, *inner: str) -> Fraction:
    """Read an exact number as a person wrote it (0.1 is 1/10), of sensible size."""
    if _too_long(value):
        raise refusal(f"{subject}: {key} has too many digits", key, *inner, fix=_example(key))
    try:
        exact = decimal(value, key)
    except (ValueError, ArithmeticError) as error:
        message = getattr(error, "message", f"{key} is not a number")
        raise refusal(f"{subject}: {message}", key, *inner, fix=_example(key)) from None
    if abs(exact) >= _HUGE or exact.denominator >= _HUGE:
        raise refusal(f"{subject}: {key} is too large or too fine", key, *inner, fix=_example(key))
    return exact


def _too_long(value: object) -> bool:
    # 10**(10**9) is one short string away, and it would be computed exactly
    if isinstance(value, str):
        exponents = (m[1].replace("_", "") for m in _EXPONENT.finditer(value[: _DIGITS + 1]))
        return len(value) > _DIGITS or any(
            len(e) > 5 or abs(int(e or 0)) > _DIGITS for e in exponents if e not in {"+", "-"}
        )
    if isinstance(value, Decimal) and value.is_finite():
        return abs(value.adjusted()) > _DIGITS or len(value.as_tuple().digits) > _DIGITS
    return False


def whole(value: Number, subject: str, key: str) -> int:
    """Read a whole number below 2^62 in size; booleans and fractions are refused."""
    exact = number(value, subject, key)
    if exact.denominator != 1:
        down = exact.numerator // exact.denominator
        raise refusal(
            f"{subject}: {key} must be a whole number, got {show(exact)}", key, fix={key: down}
        )
    if abs(exact) >= 2**INTEGER_BITS:
        edge = (2**INTEGER_BITS - 1) * (1 if exact > 0 else -1)
        raise refusal(f"{subject}: {key} must lie within ±2^{INTEGER_BITS}", key, fix={key: edge})
    return exact.numerator


def count(value: Number, subject: str, key: str, most: int) -> int:
    """Read a whole number from 1 to `most`."""
    n = whole(value, subject, key)
    if not 1 <= n <= most:
        near = min(max(n, 1), most)
        raise refusal(f"{subject}: {key} must be from 1 to {most}", key, fix={key: near})
    return n


def positive(value: Number, subject: str, key: str, example: str) -> Fraction:
    """Read an exact number above zero."""
    exact = number(value, subject, key)
    if exact <= 0:
        message = f"{subject}: {key} must be positive, got {show(exact)}"
        raise refusal(message, key, fix={key: example})
    return exact


def flag(value: object, subject: str, key: str) -> bool:
    """Accept true or false only."""
    if not isinstance(value, bool):
        raise refusal(f"{subject}: {key} must be true or false", key, fix={key: True})
    return value


def choice(value: object, allowed: Collection[str], subject: str, key: str) -> str:
    """Accept one of a few words; suggest the nearest."""
    if isinstance(value, str) and value in allowed:
        return str(value)
    words = ", ".join(allowed)
    near = nearest(value, allowed) or next(iter(allowed))
    raise refusal(
        f"{subject}: {key} must be one of {words}, got {quote(value)}", key, fix={key: near}
    )


def collect(items: object, kind: str, key: str, of: Any) -> Frozen[Any]:
    """Gather named things of one type, by a mapping or a list; names differ by more than case."""
    if not isinstance(items, Iterable) or isinstance(items, str | bytes):
        raise refusal(f"{key} must be a list or a mapping, got {type(items).__name__}", key)
    listed = items.values() if isinstance(items, Mapping) else items
    members: dict[str, Any] = {}
    folded: dict[str, str] = {}
    for item in listed:
        if not isinstance(item, of):
            raise refusal(f"{key} must hold {key}, got {type(item).__name__}", key)
        label = str(item.name)
        if (twin := folded.setdefault(label.casefold(), label)) != label or label in members:
            raise refusal(
                f"two {kind}s are called {quote(twin)} and {quote(label)}: "
                "names must differ by more than case, or SQL could not tell them apart",
                key,
                label,
            )
        members[label] = item
    if isinstance(items, Mapping) and list(items) != list(members):
        raise refusal(f"{key}: each {kind} must stand under its own name", key)
    return Frozen(members)
