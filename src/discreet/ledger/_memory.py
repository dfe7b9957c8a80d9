"""The in-process ledger: right semantics, but forgets at exit."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from discreet.ledger._budget import admit, balance
from discreet.ledger._protocol import Balance, Entry
from discreet.policy import Policy

_BOOKS: dict[str, list[Entry]] = {}
_LOCK = threading.Lock()


class MemoryLedger:
    """One book per policy identity, shared by every handle in this process.

    Opening the same policy twice, copying or pickling a handle, or editing the
    policy's bounds does not make a fresh budget: the book belongs to the
    identity, not to the object.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    @property
    def _book(self) -> list[Entry]:
        return _BOOKS.setdefault(self._policy.identity, [])

    def debit(self, entry: Entry) -> None:
        """Record a debit, or refuse (over budget, test noise) and record nothing."""
        with _LOCK:
            admit(self._policy.budget, self._book, entry)
            self._book.append(entry)

    def balance(self, analyst: str | None = None) -> Balance:
        """Balance of the table, or of one analyst's share."""
        with _LOCK:
            return balance(self._policy.budget, list(self._book), analyst)

    @property
    def entries(self) -> Sequence[Entry]:
        """All debits, oldest first."""
        with _LOCK:
            return tuple(self._book)
