"""A mapping that cannot change: what is handed out is what decisions are made by."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final, Generic, NoReturn, TypeVar

from discreet._canonical import canonical

T = TypeVar("T")


class Frozen(Mapping[str, T], Generic[T]):
    """An ordered mapping that cannot change, hash and pickle included."""

    __slots__ = ("_hash", "_items", "_text")
    _items: Mapping[str, T]
    _hash: int
    _text: str

    def __init__(self, items: Mapping[str, T] | Iterable[tuple[str, T]] = ()) -> None:
        object.__setattr__(self, "_items", MappingProxyType(dict(items)))

    @property
    def spelled(self) -> str:
        """Its canonical text, written once."""
        if not hasattr(self, "_text"):
            object.__setattr__(self, "_text", canonical(dict(self._items)))
        return self._text

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("this mapping cannot be changed: make a new one")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("this mapping cannot be changed: make a new one")

    def __getitem__(self, key: str) -> T:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def items(self) -> ItemsView[str, T]:
        return self._items.items()

    def having(self, key: str, value: T) -> Frozen[T]:
        """Give the same with one more; what is frozen is not looked at again.

        >>> Frozen({"a": 1}).having("b", 2)
        {'a': 1, 'b': 2}
        """
        return Frozen({**self._items, key: value})

    def without(self, key: str) -> Frozen[T]:
        """Give the same without one that may be there.

        >>> Frozen({"a": 1, "b": 2}).without("a")
        {'b': 2}
        """
        items = dict(self._items)
        items.pop(key, None)
        return Frozen(items)

    def __hash__(self) -> int:
        if not hasattr(self, "_hash"):
            object.__setattr__(self, "_hash", hash(frozenset(self._items.items())))
        return self._hash

    def __repr__(self) -> str:
        return repr(dict(self._items))

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (dict(self._items),))


_UNCHANGING: Final = frozenset({Frozen, str, int, float, bool, type(None), Fraction})
"""Frozen ones were made here, or of values that cannot change."""


def freeze(value: Any) -> Any:
    """Give data that cannot change, however deep: lists become tuples.

    >>> freeze({"a": [1, {"b": 2}]})
    {'a': (1, {'b': 2})}
    """
    if type(value) in _UNCHANGING:
        return value
    if isinstance(value, Mapping):
        return Frozen({name: freeze(inner) for name, inner in value.items()})
    if isinstance(value, list | tuple):
        return tuple(map(freeze, value))
    return value
