"""The latest results of some work: what is equal is worked out once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Results of late, by what they follow from; threads may share it.

    Parameters
    ----------
    most
        How many are kept.

    Examples
    --------
    >>> squares = Recent[int, int](2)
    >>> squares(3, lambda: 9), squares(3, lambda: 0)
    (9, 9)
    """

    __slots__ = ("_kept", "_most")

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[K, V] = {}

    def __call__(self, key: K, make: Callable[[], V]) -> V:
        """Give what is known about `key`, or work it out."""
        kept = self._kept
        if key not in kept:
            # a new mapping, so that threads never see one that changes
            self._kept = dict([*list(kept.items())[1 - self._most :], (key, made := make())])
            return made
        return kept[key]

    def get(self, key: K) -> V | None:
        """Give what is known about `key`, if anything is."""
        return self._kept.get(key)
