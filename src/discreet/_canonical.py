"""One spelling of data, and its hash: what is equal has the same text in every process."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Final


def _spelling(value: object) -> object:
    # rationals as p/q and dates in ISO form: one spelling each; a frozen node as its fields
    if is_dataclass(value) and not isinstance(value, type):
        own = {f.name: getattr(value, f.name) for f in fields(value) if f.compare}
        return {"node": type(value).__name__, **own}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no canonical form")


_ENCODER: Final = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), allow_nan=False, default=_spelling
)


def canonical(value: object) -> str:
    """Write data as JSON in its one spelling: sorted keys, no blanks, ASCII.

    >>> canonical({"b": Fraction(1, 3), "a": [1, None]})
    '{"a":[1,null],"b":"1/3"}'
    """
    return _ENCODER.encode(value)


def digest(text: str) -> str:
    """Hash a text: SHA-256, in hexadecimal.

    >>> digest("")[:8]
    'e3b0c442'
    """
    return hashlib.sha256(text.encode()).hexdigest()
