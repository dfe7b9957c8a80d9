"""PostgreSQL: one ledger for several hosts.

A writer locks the policy's head row (``SELECT … FOR UPDATE``) before it reads
anything, and moves the head by a conditional update, so two hosts are as
exclusive as two threads. The level of isolation is ours, not the server's default:
under a stricter one a writer that has waited would be refused.
``synchronous_commit`` is on for every transaction, and all settings that change the
meaning of a statement are ours (:mod:`discreet._session`). A handle holds no connection; the
process lends it one for each transaction (:mod:`discreet.ledger._lent`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from discreet._address import address
from discreet._dataclass import dataclass
from discreet.errors import LedgerBusyError, LedgerError
from discreet.ledger._chain import KINDS, Head, Line, gone
from discreet.ledger._lent import drop, loan
from discreet.ledger._state import FORMAT, newer
from discreet.ledger._store import (
    INSERT,
    MOVE,
    RolledBackError,
    SqlTransaction,
    Transaction,
    cells_of,
)

if TYPE_CHECKING:
    import psycopg

_SCHEMA: Final = (
    f"""CREATE TABLE discreet_lines (
        policy text NOT NULL,
        number bigint NOT NULL CHECK (number > 0),
        at text NOT NULL,
        kind text NOT NULL CHECK (kind IN {KINDS}),
        body text NOT NULL,
        state text NOT NULL CHECK (length(state) = 64),
        previous text NOT NULL CHECK (length(previous) = 64),
        hash text NOT NULL CHECK (length(hash) = 64),
        jump text CHECK (length(jump) = 64),
        slot text CHECK (slot IS NULL OR kind IN ('debit', 'key')),
        question text CHECK ((question IS NOT NULL) = (kind IN ('debit', 'key'))),
        settles bigint CHECK ((settles IS NOT NULL) = (kind = 'settle')),
        PRIMARY KEY (policy, number),
        UNIQUE (policy, slot),
        UNIQUE (policy, settles)
    )""",
    "CREATE INDEX discreet_questions ON discreet_lines (policy, question)",
    """CREATE TABLE discreet_heads (
        policy text NOT NULL PRIMARY KEY,
        number bigint NOT NULL,
        hash text NOT NULL CHECK (length(hash) = 64),
        state text NOT NULL,
        FOREIGN KEY (policy, number) REFERENCES discreet_lines (policy, number)
    )""",
    """CREATE TABLE discreet_answers (
        policy text NOT NULL,
        number bigint NOT NULL,
        record text,
        PRIMARY KEY (policy, number),
        FOREIGN KEY (policy, number) REFERENCES discreet_lines (policy, number)
    )""",
    "CREATE TABLE discreet_format (version integer NOT NULL)",
    f"INSERT INTO discreet_format VALUES ({FORMAT})",  # noqa: S608 - a number of ours
)
_ALLOWED: Final = {
    "kind_check": f"kind IN {KINDS}",
    "check": "slot IS NULL OR kind IN ('debit', 'key')",
    "check1": "(question IS NOT NULL) = (kind IN ('debit', 'key'))",
}
"""What lines may hold, by the ends of the names that PostgreSQL gave the first ones."""
_RULES: Final = tuple(
    f"ALTER TABLE discreet_lines DROP CONSTRAINT discreet_lines_{name}, "
    f"ADD CONSTRAINT discreet_lines_{name} CHECK ({rule})"
    for name, rule in _ALLOWED.items()
)
_FROM_1: Final = (
    *_RULES,
    "ALTER TABLE discreet_lines ADD COLUMN jump text CHECK (length(jump) = 64)",
    """ALTER TABLE discreet_lines ADD COLUMN settles bigint
        CHECK ((settles IS NOT NULL) = (kind = 'settle'))""",
    "ALTER TABLE discreet_lines ADD UNIQUE (policy, settles)",
    "CREATE TABLE discreet_format (version integer NOT NULL)",
    f"INSERT INTO discreet_format VALUES ({FORMAT})",  # noqa: S608 - a number of ours
)
_FROM_2: Final = (*_RULES, f"UPDATE discreet_format SET version = {FORMAT}")  # noqa: S608 - as above
_TABLES: Final = "discreet_lines, discreet_heads, discreet_answers, discreet_format"
_DENIED: Final = ("42501", "3F000")
"""States of a server that lacks a right or the schema."""
_AWAY: Final = ("08", "28", "57P", "3D")
"""Classes of states of a server that does not answer, or not to this user."""
_LOCK: Final = 0x646973637265
"""Advisory lock under which tables and first lines are made."""


class _Locking(SqlTransaction):
    """A writer's transaction: while it holds the head, nothing that it has read can change.

    Each message to the server waits for its turn there, so there are few of them.
    """

    _head_sql = f"{SqlTransaction._head_sql} FOR UPDATE"  # noqa: SLF001 - its own base

    def __init__(self, connection: Any, policy: str) -> None:
        super().__init__(connection, policy, "%s")
        self._end = super().head()
        ends = () if self._end is None else (1, self._end.number)
        self._cache = {line.number: line for line in self.some(ends)}

    def head(self) -> Head | None:
        """End of the chain, locked until the transaction ends."""
        return self._end

    def line(self, number: int) -> Line | None:
        """The line of this number, or None."""
        line = self._cache.get(number) or super().line(number)
        if line is not None:
            self._cache[number] = line
        return line

    def append(
        self,
        line: Line,
        head: Head,
        slot: str | None = None,
        question: str | None = None,
        settles: int | None = None,
    ) -> None:
        """Add a line, with what it is found by: slot, question, or the debit it settles."""
        if line.number == 1:
            super().append(line, head, slot, question, settles)
        else:
            added = (self._policy, *cells_of(line), slot, question, settles)
            self._move(f"WITH added AS ({INSERT}) {MOVE}", line, head, *added)
        self._end = head


@dataclass(frozen=True, slots=True)
class PostgresStore:
    """Lines in a PostgreSQL database.

    Parameters
    ----------
    url
        Connection URL; never shown, because it may hold a password.
    policy
        Identity of the policy.
    wait
        Seconds to wait for other writers and for the server.
    """

    url: str
    policy: str
    wait: float = 30.0

    @property
    def where(self) -> str:
        """Host, port and database."""
        return address(self.url)

    def version(self) -> int | None:
        """Format of what is there; None when nothing is."""
        with self._connection() as connection:
            return self._format(connection)

    def prepare(self) -> None:
        """Bring tables of an earlier format to the present one; refuse those of a newer one."""
        with self._connection() as connection:
            if self._format(connection) in (FORMAT, None):
                return
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            steps = {1: _FROM_1, 2: _FROM_2, 3: _FROM_2, 4: _FROM_2[-1:]}.get(
                self._format(connection) or 0, ()
            )
            for statement in steps:  # none if somebody was faster
                connection.execute(statement.encode())

    def _format(self, connection: psycopg.Connection[Any]) -> int | None:
        """Version of the tables; None when there are none."""
        sql = "SELECT to_regclass('discreet_answers'), to_regclass('discreet_format')"
        tables, version_table = connection.execute(sql).fetchone() or (None, None)
        if version_table is None:
            return None if tables is None else 1
        row = connection.execute("SELECT version FROM discreet_format").fetchone()
        version = 0 if row is None else int(row[0])
        if version > FORMAT:
            raise newer(f"the ledger {self.where!r}", version)
        return version

    @contextmanager
    def writing(self, *, create: bool = False) -> Iterator[Transaction]:
        """Begin a transaction that excludes all other writers; commit at the end, durably."""
        with self._connection() as connection:
            if create:
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                # even IF NOT EXISTS locks a table that is there and in use
                table = connection.execute("SELECT to_regclass('discreet_answers')").fetchone()
                for statement in _SCHEMA if table is None or table[0] is None else ():
                    connection.execute(statement.encode())
            yield _Locking(connection, self.policy)

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Begin a transaction that sees one committed state."""
        with self._connection(snapshot=True) as connection:
            yield SqlTransaction(connection, self.policy, "%s")

    def drop(self) -> None:
        """Let go of the connections that nobody uses."""
        drop(self.url)

    @contextmanager
    def _connection(self, *, snapshot: bool = False) -> Iterator[psycopg.Connection[Any]]:
        import psycopg  # noqa: PLC0415 - an optional store

        try:
            with loan(self.url, self.wait, snapshot=snapshot) as connection:
                yield connection
        except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure):
            raise RolledBackError("the ledger is in use; nothing was charged") from None
        except psycopg.errors.UndefinedTable:
            raise gone(self.where) from None
        except psycopg.errors.LockNotAvailable:
            raise LedgerBusyError(
                f"the ledger is in use (we wait for {self.wait:g} s at most); nothing was charged"
            ) from None
        except psycopg.errors.DuplicateTable:
            raise LedgerError(
                f"some tables of a ledger are left at {self.where!r}, without the others",
                hint=f"DROP TABLE IF EXISTS {_TABLES}, if no policy has its ledger there",
            ) from None
        except psycopg.Error as error:
            # the message may repeat host, user or password
            raise refused("the PostgreSQL ledger", error.sqlstate, _TABLES) from None


def refused(what: str, state: str | None, tables: str) -> LedgerError:
    """Say whether a server cannot be reached or has denied something, by its SQLSTATE alone."""
    if state in _DENIED:
        return LedgerError(
            f"{what} is there, but this role may not read, write or create its tables; nothing "
            "was released",
            hint=f"GRANT SELECT, INSERT, UPDATE ON {tables} TO ROLE; before they are made: "
            "GRANT USAGE, CREATE ON SCHEMA public TO ROLE",
        )
    if state is None or state.startswith(_AWAY):
        return LedgerError(
            f"{what} cannot be reached, or does not let this user in; nothing was released",
            hint="start the server; or export PGUSER=ROLE and PGPASSFILE=FILE",
        )
    return LedgerError(f"{what} cannot be written; nothing was released")
