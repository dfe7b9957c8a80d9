"""One spelling of data, and its hash: what is equal has the same text in every process."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any, Final


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


def plain(value: Any) -> Any:
    """Turn a value into strict JSON: rationals as text, what is not finite as null.

    >>> plain({"a": (Fraction(1, 3), float("inf"))})
    {'a': ['1/3', None]}
    """
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, Sequence | AbstractSet):
        return [plain(v) for v in value]
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return str(value)
