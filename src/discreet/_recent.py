"""The latest results of some work: what is equal is worked out once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, TypeVar, cast
from weakref import WeakSet

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

    Threads may share it: they never see a mapping that changes. What is kept and its weight are
    replaced in one step, so an interrupt or a fork never falls between them.

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

    __slots__ = ("__weakref__", "_lock", "_memory", "_most", "_weigh")

    def __init__(self, most: int = 256, weigh: Callable[[K, V], int] = lambda _, __: 1) -> None:
        self._most, self._weigh = most, weigh
        self._memory: tuple[dict[_Hashed[K], V], int] = ({}, 0)
        self._lock = threading.Lock()
        _ALL.add(self)

    def __call__(self, key: K, make: Callable[[], V]) -> V:
        """Give what is known about `key`, or work it out."""
        own = _Hashed(key)
        value = self._memory[0].get(own, _UNKNOWN)
        if value is not _UNKNOWN:
            return cast("V", value)
        fresh = make()
        with self._lock:
            before, load = self._memory
            more = before.copy()  # hashes nothing again
            if own in more:
                load -= self._weigh(key, more.pop(own))
            more[own] = fresh
            load += self._weigh(key, fresh)
            while load > self._most:
                oldest = next(iter(more))
                load -= self._weigh(oldest.key, more.pop(oldest))
            self._memory = more, load
        return fresh

    @property
    def load(self) -> int:
        """How much all that is kept weighs."""
        return self._memory[1]

    def get(self, key: K) -> V | None:
        """Give what is known about `key`, if anything is."""
        return self._memory[0].get(_Hashed(key))

    def unlock(self) -> None:
        """Let go of a lock whose holder did not follow a fork."""
        self._lock = threading.Lock()


_ALL: Final[WeakSet[Recent[Any, Any]]] = WeakSet()


def _after_fork() -> None:
    for recent in _ALL:
        recent.unlock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
