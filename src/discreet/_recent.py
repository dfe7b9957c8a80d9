"""The latest results of some work: what is equal is worked out once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


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
        self._known: dict[K, V] = {}
        self._lock = threading.Lock()

    def __call__(self, key: K, make: Callable[[], V]) -> V:
        """Give what is known about `key`, or work it out."""
        known = self._known
        if key in known:
            return known[key]
        made = make()
        with self._lock:
            more = self._known.copy()  # hashes nothing again
            if (before := more.pop(key, None)) is not None:
                self._load -= self._weigh(key, before)
            more[key] = made
            self._load += self._weigh(key, made)
            while self._load > self._most:
                oldest = next(iter(more))
                self._load -= self._weigh(oldest, more.pop(oldest))
            self._known = more
        return made

    @property
    def load(self) -> int:
        """How much all that is kept weighs."""
        return self._load

    def get(self, key: K) -> V | None:
        """Give what is known about `key`, if anything is."""
        return self._known.get(key)
