"""One spelling of data, and its hash: what is equal has the same text in every process."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from fractions import Fraction
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from operator import attrgetter, itemgetter
from typing import Any, Final, TypeAlias

_Memo: TypeAlias = dict[int, str]
"""Nodes that are written already, by their places in memory: trees repeat most of them."""
_Write: TypeAlias = Callable[[Any, _Memo], str]


def _float(value: float, _: _Memo) -> str:
    if not math.isfinite(value):
        raise ValueError("a number that is not finite has no canonical form")
    return float.__repr__(value)


def _list(values: Iterable[object], memo: _Memo) -> str:
    return f"[{','.join([_WRITERS[type(v)](v, memo) for v in values])}]"


@lru_cache(8)  # lattices of quantiles are long, and the same in most questions
def _range(values: range) -> str:
    return f"[{','.join(map(str, values))}]"


def _mapping(value: Mapping[Any, object], memo: _Memo) -> str:
    if (text := getattr(value, "spelled", None)) is not None:  # it cannot change
        return str(text)
    pairs = sorted(value.items(), key=itemgetter(0))
    return f"{{{','.join([f'{_key(k)}:{_WRITERS[type(v)](v, memo)}' for k, v in pairs])}}}"


def _key(key: object) -> str:
    if isinstance(key, str):
        return encode_basestring_ascii(key)
    if key is None or isinstance(key, int | float):
        return f'"{canonical(key)}"'
    raise TypeError(f"{type(key).__name__} is no key of a canonical form")


def _node(kind: type) -> _Write:
    """Writer of a frozen node: its fields, and the name of its class."""
    names = sorted([f.name for f in fields(kind) if f.compare])
    place = bisect_left(names, "node")
    tag = f'"node":"{kind.__name__}"'
    # what stands before each value, and after the last one
    before = [f',"{n}":' for n in names]
    end = f",{tag}}}" if place == len(names) else "}"
    if place < len(names):
        before[place] = f",{tag}{before[place]}"
    if not names:
        return lambda *_: f"{{{tag}}}"
    before[0] = f"{{{before[0][1:]}"
    get = attrgetter(*names) if len(names) > 1 else _alone(names[0])

    def write(value: object, memo: _Memo) -> str:
        text = memo.get(id(value))
        if text is None:
            parts = [k + _WRITERS[type(v)](v, memo) for k, v in zip(before, get(value))]  # noqa: B905 - alike
            text = memo[id(value)] = "".join(parts) + end
        return text

    return write


def _alone(name: str) -> Callable[[Any], tuple[Any, ...]]:
    get = attrgetter(name)
    return lambda value: (get(value),)


_PLAIN: Final[tuple[tuple[type, _Write], ...]] = (
    (str, lambda value, _: encode_basestring_ascii(value)),
    (bool, lambda value, _: "true" if value else "false"),
    (int, lambda value, _: int.__repr__(value)),
    (float, _float),
    (list, _list),
    (tuple, _list),
    (range, lambda value, _: _range(value)),
    (type(None), lambda *_: "null"),
    # rationals as p/q and dates in ISO form: one spelling each
    (Fraction, lambda value, _: f'"{value}"'),
    (dt.date, lambda value, _: f'"{value.isoformat()}"'),
    (dt.time, lambda value, _: f'"{value.isoformat()}"'),
    (Mapping, _mapping),
)


class _Writers(dict[type, _Write]):
    """The writer of each class, found once."""

    def __missing__(self, kind: type) -> _Write:
        for base, write in _PLAIN:
            if issubclass(kind, base):
                return self.setdefault(kind, write)
        if is_dataclass(kind):
            return self.setdefault(kind, _node(kind))
        if issubclass(kind, Sequence):
            return self.setdefault(kind, _list)
        raise TypeError(f"{kind.__name__} has no canonical form")


_WRITERS: Final = _Writers()


def _atom(value: object) -> str:
    """Write for the standard library's writer what it does not know; no nodes: it has no memo."""
    if isinstance(value, Fraction):
        return str(value)
    raise TypeError


_STANDARD: Final = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), allow_nan=False, check_circular=False, default=_atom
).encode
"""Spells plain data as :data:`_WRITERS` do, and several times as fast."""


def canonical(value: object) -> str:
    """Write data as JSON in its one spelling: sorted keys, no blanks, ASCII.

    A frozen node is written as its fields.

    >>> canonical({"b": Fraction(1, 3), "a": [1, None]})
    '{"a":[1,null],"b":"1/3"}'
    """
    kind = type(value)
    if kind is dict or kind is tuple or kind is list:
        try:
            return _STANDARD(value)
        except (TypeError, ValueError):  # it holds something else, or has no canonical form
            pass
    return _WRITERS[kind](value, {})


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
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if kind is dict:
        return {k if type(k) is str else str(k): plain(v) for k, v in value.items()}
    if kind is list or kind is tuple:
        return [plain(v) for v in value]
    if isinstance(value, bool | str | int):
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
