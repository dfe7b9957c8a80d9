"""SQLite: the default store, one file per policy.

Durable before it answers: ``BEGIN IMMEDIATE`` takes the one write lock before
anything is read, the rollback journal with ``synchronous=EXTRA`` has reached the
disk (file and folder) when a commit returns, and a killed writer's half-written
transaction is rolled back by the next opener. The write-ahead log is not used:
versions of SQLite in wide use can corrupt it.

A handle holds no connection. A process lends each one to one thread at a time, and
drops it after any error, after a fork, and when the file under the name is no
longer the one that was opened: threads, forks, copies and pickles of a handle
share nothing but the file.
"""

from __future__ import annotations

import os
import sqlite3
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from discreet._dataclass import dataclass
from discreet.errors import LedgerBusyError, LedgerError, LedgerIntegrityError
from discreet.ledger._chain import KINDS, RESTORE, gone
from discreet.ledger._state import FORMAT, newer
from discreet.ledger._store import SqlTransaction, Transaction

PRAGMAS: Final = {
    "journal_mode": "DELETE",
    "synchronous": "EXTRA",
    "foreign_keys": "ON",
    "trusted_schema": "OFF",
}

_MODE: Final = 0o600
_SPARE: Final = 8
"""Connections to one file that are kept open while nobody uses them."""
_BACKUP: Final = 0x64636B70
_CHANGES: Final = ("UPDATE", "DELETE")
_SCHEMA: Final = (
    f"""CREATE TABLE IF NOT EXISTS discreet_lines (
        policy TEXT NOT NULL,
        number INTEGER NOT NULL PRIMARY KEY CHECK (number > 0),
        at TEXT NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN {KINDS}),
        body TEXT NOT NULL CHECK (body GLOB '{{*}}'),
        state TEXT NOT NULL CHECK (length(state) = 64),
        previous TEXT NOT NULL CHECK (length(previous) = 64),
        hash TEXT NOT NULL CHECK (length(hash) = 64),
        jump TEXT CHECK (jump IS NULL OR length(jump) = 64),
        slot TEXT CHECK (slot IS NULL OR kind IN ('debit', 'key')),
        question TEXT CHECK ((question IS NOT NULL) = (kind IN ('debit', 'key'))),
        settles INTEGER CHECK ((settles IS NOT NULL) = (kind = 'settle'))
    ) STRICT""",
    "CREATE INDEX IF NOT EXISTS discreet_questions ON discreet_lines (question)",
    """CREATE UNIQUE INDEX IF NOT EXISTS discreet_slots ON discreet_lines (slot)
        WHERE slot IS NOT NULL""",
    """CREATE UNIQUE INDEX IF NOT EXISTS discreet_settlements ON discreet_lines (settles)
        WHERE settles IS NOT NULL""",
    """CREATE TABLE IF NOT EXISTS discreet_heads (
        one INTEGER NOT NULL PRIMARY KEY DEFAULT 1 CHECK (one = 1),
        policy TEXT NOT NULL,
        number INTEGER NOT NULL REFERENCES discreet_lines (number),
        hash TEXT NOT NULL CHECK (length(hash) = 64),
        state TEXT NOT NULL CHECK (state GLOB '{*}')
    ) STRICT""",
    """CREATE TABLE IF NOT EXISTS discreet_answers (
        policy TEXT NOT NULL,
        number INTEGER NOT NULL PRIMARY KEY REFERENCES discreet_lines (number),
        record TEXT
    ) STRICT""",
    *(
        f"""CREATE TRIGGER IF NOT EXISTS {table}_{event} BEFORE {event} ON {table}
        BEGIN SELECT RAISE(ABORT, 'a ledger only grows'); END"""
        for table in ("discreet_lines", "discreet_answers")
        for event in _CHANGES
    ),
    f"PRAGMA user_version = {FORMAT}",
)

_COLUMNS: Final = {
    "discreet_lines": "policy, number, at, kind, body, state, previous, hash, slot, question",
    "discreet_heads": "one, policy, number, hash, state",
    "discreet_answers": "policy, number, record",
}
"""Columns of format 1, in an order that keeps references whole."""
_ADDED: Final = {1: "", **dict.fromkeys((2, 3, 4), ", jump, settles")}
"""Columns that the lines of each earlier format have besides."""


def _moves(version: int) -> tuple[str, ...]:
    """From an earlier format, in one transaction: a table cannot change what it allows."""
    columns = {**_COLUMNS, "discreet_lines": _COLUMNS["discreet_lines"] + _ADDED[version]}
    grown = [f"{t}_{e}" for t in ("discreet_lines", "discreet_answers") for e in _CHANGES]
    return (
        *(f"DROP TRIGGER IF EXISTS {trigger}" for trigger in grown),
        *(f"DROP INDEX IF EXISTS discreet_{i}" for i in ("questions", "slots", "settlements")),
        *(f"ALTER TABLE {table} RENAME TO {table}_old" for table in columns),
        *_SCHEMA,
        *(f"INSERT INTO {table} ({names}) SELECT {names} FROM {table}_old"  # noqa: S608 - names of ours
          for table, names in columns.items()),
        *(f"DROP TABLE {table}_old" for table in reversed(columns)),
    )  # fmt: skip


class _SqliteTransaction(SqlTransaction):
    def check(self) -> None:
        """Refuse a file whose pages or indices do not fit together."""
        row = self._connection.execute("PRAGMA integrity_check(1)").fetchone()
        if row is None or row[0] != "ok":
            raise LedgerIntegrityError(
                "the ledger's file is damaged: its pages or indices do not fit together",
                hint=RESTORE,
            )


class _Spare:
    """A connection, and the process and file it belongs to."""

    connection: sqlite3.Connection | None = None  # until an interrupt lets it be made

    def __init__(
        self, connection: sqlite3.Connection, file: tuple[int, int] | None, wait: float
    ) -> None:
        self.process = os.getpid()
        self.wait = wait
        self.file = file
        self.connection = connection

    def __del__(self) -> None:
        if self.connection is None:
            return
        if self.process == os.getpid():
            self.connection.close()
        else:
            # SQLite forbids even closing what was opened before a fork
            _INHERITED.append(self.connection)


_INHERITED: Final[list[sqlite3.Connection]] = []
_IDLE: Final[defaultdict[str, deque[_Spare]]] = defaultdict(lambda: deque(maxlen=_SPARE))
"""Connections that nobody uses now, by path."""


@dataclass(frozen=True, slots=True)
class SqliteStore:
    """Lines in an SQLite file.

    Parameters
    ----------
    where
        Path of the file.
    policy
        Identity of the policy it belongs to.
    wait
        Seconds to wait for other writers.
    backup
        Whether it is a backup, which says so in its header and cannot be used as a ledger.
    """

    where: str
    policy: str
    wait: float = 30.0
    backup: bool = False

    def connect(self, *, create: bool = False) -> sqlite3.Connection:
        """Open a connection with every setting that durability rests on."""
        if create:
            with suppress(FileExistsError):  # who asked what is for its owner's eyes
                os.close(os.open(self.where, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _MODE))
        mode = "rwc" if create else "rw"
        uri = f"file:{quote(self.where)}?mode={mode}"
        # threads use it one after another, never two at once
        connection = sqlite3.connect(
            uri, timeout=self.wait, isolation_level=None, uri=True, check_same_thread=False
        )
        for name, value in PRAGMAS.items():
            connection.execute(f"PRAGMA {name} = {value}")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > FORMAT:
            connection.close()
            raise newer(f"the ledger {self.where!r}", version)
        if not self.backup and connection.execute("PRAGMA application_id").fetchone()[0] == _BACKUP:
            connection.close()
            raise LedgerIntegrityError(
                f"{self.where!r} is a backup, not a ledger",
                hint=f"mv {self.where} {self.where}.kept; "
                f"discreet ledger restore {self.where}.kept",
            )
        return connection

    def version(self) -> int | None:
        """Format of what is there; None when nothing is."""
        if self._file() is None:
            return None
        with self._connection() as connection:
            return self._format(connection)

    def prepare(self) -> None:
        """Bring a file of an earlier format to the present one."""
        if self._file() is None:
            return
        with self._connection() as connection:
            if self._format(connection) == FORMAT:
                return
            connection.execute("BEGIN IMMEDIATE")
            try:
                version = self._format(connection)
                for statement in _moves(version) if version in _ADDED else ():
                    connection.execute(statement)  # none if somebody was faster
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def _format(self, connection: sqlite3.Connection) -> int | None:
        """Version of the file's tables; None when it has none."""
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        query = "SELECT 1 FROM sqlite_master WHERE name = 'discreet_heads'"
        return version or (1 if connection.execute(query).fetchone() is not None else None)

    @contextmanager
    def _connection(self, *, create: bool = False) -> Iterator[sqlite3.Connection]:
        """Lend a connection to the file that now has this name."""
        with self._explained():
            file, idle = self._file(), _IDLE[self.where]
            spare = None
            with suppress(IndexError):
                spare = idle.pop()
            usable = spare is not None and (spare.process, spare.file) == (os.getpid(), file)
            if spare is None or spare.connection is None or file is None or create or not usable:
                spare = _Spare(connection := self.connect(create=create), file, self.wait)
            else:
                connection = spare.connection
                if spare.wait != self.wait:
                    connection.execute(f"PRAGMA busy_timeout = {int(self.wait * 1000)}")
                    spare.wait = self.wait
            yield connection
            if file is not None:
                idle.append(spare)

    @contextmanager
    def writing(self, *, create: bool = False) -> Iterator[Transaction]:
        """Begin a transaction that excludes all other writers; commit at the end, durably."""
        file = self._file()
        with self._connection(create=create) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                if create:
                    for statement in _SCHEMA:
                        connection.execute(statement)
                if create and self.backup:
                    connection.execute(f"PRAGMA application_id = {_BACKUP}")
                yield _SqliteTransaction(connection, self.policy)
                connection.execute("COMMIT")
                if file is not None and self._file() != file:
                    # the debit went into a file that nobody will see again
                    raise LedgerIntegrityError(
                        f"the ledger {self.where!r} was replaced while in use; nothing was released"
                    )
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Begin a transaction that sees one committed state."""
        with self._connection() as connection:
            connection.execute("BEGIN")
            try:
                yield _SqliteTransaction(connection, self.policy)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def drop(self) -> None:
        """Let go of the connections that nobody uses."""
        _IDLE.pop(self.where, None)

    def owner(self) -> str | None:
        """Identity of the policy that the file belongs to; None for an empty file."""
        with self._explained(), closing(self.connect()) as connection:
            statement = "SELECT 1 FROM sqlite_master WHERE name = 'discreet_heads'"
            if connection.execute(statement).fetchone() is None:
                return None
            row = connection.execute("SELECT policy FROM discreet_heads").fetchone()
            return None if row is None else str(row[0])

    def _file(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self.where)  # noqa: PTH116 - on the way of every debit
        except OSError:
            return None
        return status.st_dev, status.st_ino

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn SQLite's and the system's errors into ours."""
        try:
            yield
        except sqlite3.OperationalError as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
                raise LedgerBusyError(
                    f"the ledger {self.where!r} was in use for {self.wait:g} s; nothing was charged"
                ) from None
            if not Path(self.where).exists():
                raise gone(self.where) from None
            if code == sqlite3.SQLITE_ERROR:
                # our statements are correct, so the tables are not ours
                raise _damaged(self.where) from None
            reasons = {
                sqlite3.SQLITE_FULL: "its disk is full",
                sqlite3.SQLITE_READONLY: "it is read-only",
                sqlite3.SQLITE_CANTOPEN: "it cannot be opened",
                sqlite3.SQLITE_PERM: "it may not be opened",
                sqlite3.SQLITE_IOERR: "its disk failed or is full",
            }.get(code, "it cannot be used")
            raise LedgerError(
                f"the ledger {self.where!r} cannot record: {reasons}; nothing was released"
            ) from None
        except (sqlite3.DatabaseError, UnicodeDecodeError):
            raise _damaged(self.where) from None
        except OSError:
            raise LedgerError(f"the ledger {self.where!r} cannot be reached") from None


def _damaged(where: str) -> LedgerIntegrityError:
    return LedgerIntegrityError(
        f"{where!r} is not a ledger, or was emptied, truncated or damaged",
        hint=RESTORE,
    )
