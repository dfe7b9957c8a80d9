"""Where lines are kept: the role of a store, and what two SQL stores share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from discreet.errors import LedgerBusyError, LedgerIntegrityError
from discreet.ledger._chain import RESTORE, Head, Line


class RolledBackError(LedgerBusyError):
    """The database has undone a transaction for the sake of another: it may be tried again."""


class Transaction(Protocol):
    """Reads and writes that happen together or not at all."""

    def head(self) -> Head | None:
        """End of the chain; None when there is no line."""
        ...

    def line(self, number: int) -> Line | None:
        """The line of this number, or None."""
        ...

    def lines(self) -> Iterator[Line]:
        """All lines, oldest first."""
        ...

    def append(
        self,
        line: Line,
        head: Head,
        slot: str | None = None,
        question: str | None = None,
        settles: int | None = None,
    ) -> None:
        """Add a line, with what it is found by: slot, question, or the debit it settles."""
        ...

    def settled(self, number: int) -> int | None:
        """Line that settles a debit."""
        ...

    def index(self) -> Iterator[tuple[int, str | None, str | None, int | None]]:
        """Number, slot, question and settled debit of all lines, oldest first."""
        ...

    def answers(self) -> Iterator[tuple[int, str | None]]:
        """All outcomes, by the number of their debit."""
        ...

    def check(self) -> None:
        """Refuse a place whose own structure is damaged."""
        ...

    def in_slot(self, slot: str) -> int | None:
        """Line that used an idempotency slot."""
        ...

    def answered(self, question: str) -> int | None:
        """Latest line that answered a question."""
        ...

    def numbers_of(self, question: str) -> list[int]:
        """All lines that asked a question, latest first."""
        ...

    def bound(self, question: str, since: int) -> int:
        """How many keys are bound to debits for a question, after a line."""
        ...

    def outcome(self, number: int) -> tuple[bool, str | None] | None:
        """Whether the run of a line succeeded, and its record; None: not known."""
        ...

    def settle(self, number: int, record: str | None) -> None:
        """Store the outcome of a line; None: it failed."""
        ...


class Store(Protocol):
    """One policy's lines, shared by everybody who opens the same place."""

    @property
    def where(self) -> str:
        """Path, server or ``":memory:"``."""
        ...

    @property
    def wait(self) -> float:
        """Seconds to wait for others."""
        ...

    def version(self) -> int | None:
        """Format of what is there; None when nothing is."""
        ...

    def prepare(self) -> None:
        """Bring tables of an earlier format to the present one."""
        ...

    def writing(self, *, create: bool = False) -> AbstractContextManager[Transaction]:
        """Begin a transaction that excludes all other writers; commit at the end, durably."""
        ...

    def reading(self) -> AbstractContextManager[Transaction]:
        """Begin a transaction that sees one committed state."""
        ...

    def drop(self) -> None:
        """Let go of the connections that nobody uses."""
        ...


class SqlTransaction:
    """A transaction on the two tables and the head, in SQL that both databases speak."""

    def __init__(self, connection: Any, policy: str, mark: str = "?") -> None:
        self._connection = connection
        self._policy = policy
        self._mark = mark
        self._lines: dict[int, Line] = {}

    def _run(self, sql: str, *values: object) -> Any:
        return self._connection.execute(sql.replace("?", self._mark), (self._policy, *values))

    def head(self) -> Head | None:
        """End of the chain; None when there is no line."""
        row = self._run(self._head_sql).fetchone()
        return None if row is None else Head(*_typed(row, int, str, str))

    _head_sql = "SELECT number, hash, state FROM discreet_heads WHERE policy = ?"

    def line(self, number: int) -> Line | None:
        """The line of this number, or None."""
        line = self._lines.get(number)  # read once: a transaction sees one state
        if line is None:
            row = self._run(f"{_LINES} AND number = ?", number).fetchone()
            if row is None:
                return None
            line = self._lines[number] = Line(*_typed(row, *_LINE))
        return line

    def some(self, numbers: Sequence[int]) -> list[Line]:
        """The lines of these numbers that are there."""
        if not numbers:
            return []
        rows = self._run(f"{_LINES} AND number IN ({', '.join('?' for _ in numbers)})", *numbers)
        return [Line(*_typed(row, *_LINE)) for row in rows]

    def lines(self) -> Iterator[Line]:
        """All lines, oldest first."""
        for row in self._run(f"{_LINES} ORDER BY number"):
            yield Line(*_typed(row, *_LINE))

    def append(
        self,
        line: Line,
        head: Head,
        slot: str | None = None,
        question: str | None = None,
        settles: int | None = None,
    ) -> None:
        """Add a line, with what it is found by: slot, question, or the debit it settles."""
        self._run(INSERT, *cells_of(line), slot, question, settles)
        if line.number == 1:
            self._run(
                "INSERT INTO discreet_heads (policy, number, hash, state) VALUES (?, ?, ?, ?)",
                head.number,
                head.hash,
                head.state,
            )
            return
        self._move(MOVE, line, head)

    def _move(self, sql: str, line: Line, head: Head, *before: object) -> None:
        """Let the chain end with a line; it must have ended with the one before."""
        ends = (head.number, head.hash, head.state, self._policy, line.number - 1, line.previous)
        cursor = self._connection.execute(sql.replace("?", self._mark), (*before, *ends))
        assert cursor.rowcount == 1, "the head moved although writers are excluded"

    def in_slot(self, slot: str) -> int | None:
        """Line that used an idempotency slot."""
        sql = "SELECT number FROM discreet_lines WHERE policy = ? AND slot = ?"
        row = self._run(sql, slot).fetchone()
        return None if row is None else int(row[0])

    def answered(self, question: str) -> int | None:
        """Latest line that answered a question."""
        row = self._run(
            "SELECT max(l.number) FROM discreet_lines l JOIN discreet_answers a"
            " ON a.policy = l.policy AND a.number = l.number"
            " WHERE l.policy = ? AND l.question = ? AND a.record IS NOT NULL",
            question,
        ).fetchone()
        return None if row[0] is None else int(row[0])

    def numbers_of(self, question: str) -> list[int]:
        """All lines that asked a question, latest first."""
        sql = (
            "SELECT number FROM discreet_lines WHERE policy = ? AND question = ?"
            " ORDER BY number DESC"
        )
        return [int(row[0]) for row in self._run(sql, question)]

    def bound(self, question: str, since: int) -> int:
        """How many keys are bound to debits for a question, after a line."""
        sql = (
            "SELECT count(*) FROM discreet_lines WHERE policy = ? AND question = ?"
            " AND kind = 'key' AND number > ?"
        )
        return int(self._run(sql, question, since).fetchone()[0])

    def settled(self, number: int) -> int | None:
        """Line that settles a debit."""
        sql = "SELECT number FROM discreet_lines WHERE policy = ? AND settles = ?"
        row = self._run(sql, number).fetchone()
        return None if row is None else int(row[0])

    def index(self) -> Iterator[tuple[int, str | None, str | None, int | None]]:
        """Number, slot, question and settled debit of all lines, oldest first."""
        sql = (
            "SELECT number, slot, question, settles FROM discreet_lines WHERE policy = ?"
            " ORDER BY number"
        )
        return iter(self._run(sql))

    def answers(self) -> Iterator[tuple[int, str | None]]:
        """All outcomes, by the number of their debit."""
        sql = "SELECT number, record FROM discreet_answers WHERE policy = ? ORDER BY number"
        return (_typed(row, int, str | None) for row in self._run(sql))

    def check(self) -> None:
        """Refuse a place whose own structure is damaged."""

    def outcome(self, number: int) -> tuple[bool, str | None] | None:
        """Whether the run of a line succeeded, and its record; None: not known."""
        sql = "SELECT record FROM discreet_answers WHERE policy = ? AND number = ?"
        row = self._run(sql, number).fetchone()
        return None if row is None else (row[0] is not None, *_typed(row, str | None))

    def settle(self, number: int, record: str | None) -> None:
        """Store the outcome of a line; None: it failed."""
        sql = "INSERT INTO discreet_answers (policy, number, record) VALUES (?, ?, ?)"
        self._run(sql, number, record)


INSERT = (
    "INSERT INTO discreet_lines (policy, number, at, kind, body, state, previous, hash,"
    " jump, slot, question, settles) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
MOVE = (
    "UPDATE discreet_heads SET number = ?, hash = ?, state = ?"
    " WHERE policy = ? AND number = ? AND hash = ?"
)
_LINE = (int, *[str] * 6, str | None)


def cells_of(line: Line) -> tuple[object, ...]:
    """A line as the table holds it, but for its policy."""
    return (line.number, line.when, line.kind, line.body, line.state, line.previous, line.hash,
            line.jump)  # fmt: skip


def _typed(row: Any, *kinds: Any) -> Any:
    """Refuse a row whose values are not what the tables allow: only damage makes them so."""
    if not all(map(isinstance, row, kinds)):
        raise LedgerIntegrityError(
            "a row of the ledger is damaged",
            hint=RESTORE,
        )
    return row


_LINES = (
    "SELECT number, at, kind, body, state, previous, hash, jump FROM discreet_lines"
    " WHERE policy = ?"
)
