"""The last few results of work that need not be done twice."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Results by what they were worked out from; the oldest make room.

    Threads never see a mapping that changes. What is kept is not hashed again.

    >>> squares = Recent[int, int](2)
    >>> for n in (1, 2, 3):
    ...     squares.put(n, n * n)
    >>> squares.get(1), squares.get(3)
    (None, 9)
    """

    def __init__(self, most: int = 256) -> None:
        self._most = most
        self._known: dict[K, V] = {}
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """Give a result that is kept."""
        return self._known.get(key)

    def put(self, key: K, value: V) -> None:
        """Keep a result."""
        with self._lock:
            known = self._known.copy()
            if len(known) >= self._most:
                del known[next(iter(known))]
            known[key] = value
            self._known = known
