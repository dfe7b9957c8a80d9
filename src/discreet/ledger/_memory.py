"""The ledger of one process: the same rules as on disk, forgotten at exit."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, cast

from discreet._dataclass import dataclass, field, replace
from discreet.errors import Hint, LedgerIntegrityError
from discreet.ledger._chain import Head, Line
from discreet.ledger._store import Transaction


@dataclass
class _Book:
    """Lines of one policy in this process; also its own transaction.

    What stands after the `committed` head belongs to a transaction that goes on, or that did
    not end: the next one drops it.
    """

    owner: int = field(default_factory=os.getpid)
    chain: list[Line] = field(default_factory=list)
    end: Head | None = None
    committed: Head | None = None
    slots: dict[str, int] = field(default_factory=dict)
    questions: dict[str, list[int]] = field(default_factory=dict)
    outcomes: dict[int, str | None] = field(default_factory=dict)
    settlements: dict[int, int] = field(default_factory=dict)

    def upto(self, end: Head | None) -> _Book:
        """Give a copy of what was committed then; it needs no lock, for that only grows."""
        last = 0 if end is None else end.number
        settled = {debit: n for debit, n in dict(self.settlements).items() if n <= last}
        return replace(
            self,
            chain=self.chain[:last],
            end=end,
            slots={slot: n for slot, n in dict(self.slots).items() if n <= last},
            questions={
                q: [n for n in past if n <= last] for q, past in dict(self.questions).items()
            },
            outcomes={n: outcome for n, outcome in dict(self.outcomes).items() if n in settled},
            settlements=settled,
        )

    def head(self) -> Head | None:
        return self.end

    def line(self, number: int) -> Line | None:
        return self.chain[number - 1] if 0 < number <= len(self.chain) else None

    def lines(self) -> Iterator[Line]:
        return iter(tuple(self.chain))

    def append(
        self,
        line: Line,
        head: Head,
        slot: str | None = None,
        question: str | None = None,
        settles: int | None = None,
    ) -> None:
        self.end = head  # first: it says that there may be something to drop
        self.chain.append(line)
        if slot is not None:
            self.slots[slot] = line.number
        if question is not None:
            self.questions.setdefault(question, []).append(line.number)
        if settles is not None:
            self.settlements[settles] = line.number

    def numbers_of(self, question: str) -> list[int]:
        return self.questions.get(question, [])[::-1]

    def bound(self, question: str, since: int) -> int:
        return sum(self.chain[n - 1].kind == "key" and n > since for n in self.numbers_of(question))

    def settled(self, number: int) -> int | None:
        return self.settlements.get(number)

    def index(self) -> Iterator[tuple[int, str | None, str | None, int | None]]:
        slots = {n: slot for slot, n in self.slots.items()}
        questions = {n: q for q, past in self.questions.items() for n in past}
        debits = {n: debit for debit, n in self.settlements.items()}
        for line in self.lines():
            n = line.number
            yield n, slots.get(n), questions.get(n), debits.get(n)

    def answers(self) -> Iterator[tuple[int, str | None]]:
        return iter(sorted(self.outcomes.items()))

    def check(self) -> None:
        pass

    def in_slot(self, slot: str) -> int | None:
        return self.slots.get(slot)

    def answered(self, question: str) -> int | None:
        past = self.questions.get(question, [])
        return next((n for n in reversed(past) if self.outcomes.get(n) is not None), None)

    def outcome(self, number: int) -> tuple[bool, str | None] | None:
        if number not in self.outcomes:
            return None
        record = self.outcomes[number]
        return record is not None, record

    def settle(self, number: int, record: str | None) -> None:
        self.outcomes[number] = record


class _Committed:
    """What is committed now; most readers want its end alone, so the rest is copied late."""

    def __init__(self, book: _Book) -> None:
        self._book, self._end = book, book.committed

    def head(self) -> Head | None:
        return self._end

    def line(self, number: int) -> Line | None:
        return None if self._end is None or number > self._end.number else self._book.line(number)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._copy, name)

    @cached_property
    def _copy(self) -> _Book:
        return self._book.upto(self._end)


_BOOKS: dict[str, _Book] = {}
_LOCK = threading.Lock()


def _after_fork() -> None:
    """Drop a lock that another thread may have held when this process was forked."""
    global _LOCK  # noqa: PLW0603 - a fork must not inherit it
    _LOCK = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@dataclass(frozen=True, slots=True)
class MemoryStore:
    """Lines of one policy in this process, shared by all its threads and handles.

    Used in another process (a fork, an unpickled copy) it refuses: there it would
    be a second budget.
    """

    policy: str
    owner: int = field(default_factory=os.getpid)

    where = ":memory:"

    wait = 30.0

    def version(self) -> int | None:
        """Whether there is nothing to prepare."""
        return True

    def prepare(self) -> None:
        """Nothing: no earlier format lives in this process."""

    def drop(self) -> None:
        """Nothing: there are no connections."""

    @contextmanager
    def writing(self, *, create: bool = False) -> Iterator[Transaction]:
        """Begin a transaction that excludes all other writers."""
        with _LOCK:
            book = self._book(_Book() if create else None)
            if book.end is not book.committed:
                book = book.upto(book.committed)
            yield book
            book.committed = book.end
            # only with its first line: an empty one would look like a ledger that was emptied
            _BOOKS[self.policy] = book

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Begin a transaction that sees one committed state."""
        yield cast("Transaction", _Committed(self._book(None)))

    def _book(self, new: _Book | None) -> _Book:
        book = _BOOKS.get(self.policy) or new
        if book is None or not self.owner == book.owner == os.getpid():
            raise LedgerIntegrityError(
                "a ledger in memory belongs to the process that opened it; elsewhere it "
                "would be a second budget",
                hint=Hint("ledger", "people.ledger"),
            )
        return book
