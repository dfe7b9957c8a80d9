"""PostgreSQL: one ledger for several hosts.

A writer locks the policy's head row (``SELECT … FOR UPDATE``) before it reads
anything, and moves the head by a conditional update, so two hosts are as
exclusive as two threads. ``synchronous_commit`` is on for every transaction. One
connection per operation: nothing is shared across threads and forks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from discreet.errors import LedgerBusyError, LedgerError
from discreet.ledger._chain import KINDS, Head
from discreet.ledger._store import SqlTransaction, Transaction

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
        slot text CHECK (slot IS NULL OR kind = 'debit'),
        question text CHECK ((question IS NOT NULL) = (kind = 'debit')),
        PRIMARY KEY (policy, number),
        UNIQUE (policy, slot)
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
)
_LOCK: Final = 0x646973637265
"""Advisory lock under which tables and first lines are made."""


class _Locking(SqlTransaction):
    _head_sql = f"{SqlTransaction._head_sql} FOR UPDATE"  # noqa: SLF001 - its own base

    def head(self) -> Head | None:
        """End of the chain, locked until the transaction ends."""
        return super().head()


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
        """Server and database, without user and password."""
        parts = urlsplit(self.url)
        return f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}"

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
            transaction = _Locking(connection, self.policy, "%s")
            transaction.head()
            yield transaction

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Begin a transaction that sees one committed state."""
        with self._connection(snapshot=True) as connection:
            yield SqlTransaction(connection, self.policy, "%s")

    @contextmanager
    def _connection(self, *, snapshot: bool = False) -> Iterator[psycopg.Connection[Any]]:
        import psycopg  # noqa: PLC0415 - an optional store

        try:
            with psycopg.connect(self.url, connect_timeout=max(2, int(self.wait))) as connection:
                if snapshot:
                    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                    connection.read_only = True
                connection.execute("SET LOCAL synchronous_commit TO on")
                limit = f"{int(self.wait * 1000)}ms"
                connection.execute("SELECT set_config('lock_timeout', %s, true)", (limit,))
                yield connection
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            raise LedgerBusyError(
                f"the ledger is in use (we wait for {self.wait:g} s at most); nothing was charged"
            ) from None
        except psycopg.Error:
            # the message may repeat host, user or password
            raise LedgerError(
                "the PostgreSQL ledger cannot be reached or written; nothing was released"
            ) from None
