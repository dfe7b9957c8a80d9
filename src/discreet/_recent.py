"""The latest results of some work: what is equal is worked out once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar, cast

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
_UNKNOWN: Final = object()


class _Hashed(Generic[K]):
    """A key that is hashed once: to hash a whole plan takes longer than to find it."""

    __slots__ = ("_hash", "key")

    def __init__(self, key: K) -> None:
        self.key, self._hash = key, hash(key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hashed) and self.key == other.key


class Recent(Generic[K, V]):
    """Results of late, by what they follow from; the oldest make room.

    Threads may share it: they never see a mapping that changes.

    Parameters
    ----------
    most
        How many are kept, or how much all of them weigh together.
    weigh
        Weight of one and what it follows from; each counts one unless told.

    Examples
    --------
    >>> squares = Recent[int, int](2)
    >>> squares(3, lambda: 9), squares(3, lambda: 0)
    (9, 9)
    """

    __slots__ = ("_known", "_load", "_lock", "_most", "_weigh")

    def __init__(self, most: int = 256, weigh: Callable[[K, V], int] = lambda _, __: 1) -> None:
        self._most, self._weigh, self._load = most, weigh, 0
        self._known: dict[_Hashed[K], V] = {}
        self._lock = threading.Lock()

    def __call__(self, key: K, make: Callable[[], V]) -> V:
        """Give what is known about `key`, or work it out."""
        own = _Hashed(key)
        known = self._known.get(own, _UNKNOWN)
        if known is not _UNKNOWN:
            return cast("V", known)
        made = make()
        with self._lock:
            more = self._known.copy()  # hashes nothing again
            if own in more:
                self._load -= self._weigh(key, more.pop(own))
            more[own] = made
            self._load += self._weigh(key, made)
            while self._load > self._most:
                oldest = next(iter(more))
                self._load -= self._weigh(oldest.key, more.pop(oldest))
            self._known = more
        return made

    @property
    def load(self) -> int:
        """How much all that is kept weighs."""
        return self._load

    def get(self, key: K) -> V | None:
        """Give what is known about `key`, if anything is."""
        return self._known.get(_Hashed(key))
