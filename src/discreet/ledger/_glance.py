"""Several readings of one moment: what a ledger knows of its head while nobody has written."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from discreet.ledger._anchor import AnyAnchor
from discreet.ledger._chain import Head
from discreet.ledger._state import State
from discreet.ledger._store import Transaction

_SEEN = threading.local()
"""The state that a thread has read, and of which ledger."""


class Glances(ABC):
    """The state of a ledger, read once for whoever asks several times."""

    _anchors: tuple[AnyAnchor, ...]
    _latest: Head | None = None

    @abstractmethod
    def reading(self) -> AbstractContextManager[tuple[Transaction, Head]]:
        """Read one committed state."""

    @property
    def state(self) -> State:
        """Budget in force, closed tables, period, spending by analyst."""
        whose, seen = getattr(_SEEN, "state", (None, None))
        if whose is self and seen is not None:
            found: State = seen
            return found
        with self.reading() as (_, head):
            return head.content

    @contextmanager
    def glance(self) -> Iterator[Head]:
        """Let all balances that this thread reads until the end be those of one moment.

        Nothing is held meanwhile: others write, and a debit sees what they wrote. While the mark
        beside a file is where it was, which every writer moves, the file is not read again.
        """
        beside = next((anchor for anchor in self._anchors if anchor.durable), None)
        mark, head = None if beside is None else beside.read(), self._latest
        if head is None or mark is None or mark.hash != head.hash:
            with self.reading() as (_, head):
                self._latest = head
        _SEEN.state = (self, head.content)
        try:
            yield head
        finally:
            _SEEN.state = (None, None)
