"""The service's own folder: hashed keys, orders, sessions, and the key that signs answers.

None of it is money: what is spent stands in the ledgers. An order that is lost here is found
again through its idempotency key, so writes need not survive a power cut. Marks of other hosts'
ledgers must: a witness that went back would let an older copy of a ledger go on.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from discreet.errors import ParameterError

try:
    import fcntl
except ImportError:  # no locks here
    fcntl = None  # type: ignore[assignment]  # checked before use

_VERSION: Final = 1
_PATIENCE: Final = 3.0
"""Seconds in which a service that has been stopped is gone."""
_NORMAL: Final = "synchronous = NORMAL"
_SCHEMA: Final = (
    """CREATE TABLE IF NOT EXISTS keys (
        id TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, hash TEXT NOT NULL,
        policies TEXT NOT NULL, made TEXT NOT NULL, revoked TEXT) STRICT""",
    """CREATE TABLE IF NOT EXISTS orders (
        id TEXT NOT NULL PRIMARY KEY, policy TEXT NOT NULL, analyst TEXT NOT NULL,
        key TEXT NOT NULL, body TEXT NOT NULL, state TEXT NOT NULL, line INTEGER, hash TEXT,
        price TEXT NOT NULL, asked TEXT NOT NULL, decided TEXT, cached INTEGER NOT NULL DEFAULT 0,
        bill BLOB, UNIQUE (policy, analyst, key)) STRICT""",
    # each debit looks for what waits, and each page for somebody's latest
    "CREATE INDEX IF NOT EXISTS order_states ON orders (policy, state)",
    "CREATE INDEX IF NOT EXISTS order_analysts ON orders (policy, analyst)",
    """CREATE TABLE IF NOT EXISTS sessions (
        id TEXT NOT NULL PRIMARY KEY, key TEXT NOT NULL, token TEXT NOT NULL,
        made REAL NOT NULL, used REAL NOT NULL) STRICT""",
    """CREATE TABLE IF NOT EXISTS raises (
        id TEXT NOT NULL PRIMARY KEY, policy TEXT NOT NULL, totals TEXT NOT NULL,
        reason TEXT NOT NULL, by TEXT NOT NULL, asked TEXT NOT NULL, state TEXT NOT NULL) STRICT""",
    """CREATE TABLE IF NOT EXISTS signins (
        id TEXT NOT NULL PRIMARY KEY, state TEXT NOT NULL, nonce TEXT NOT NULL,
        verifier TEXT NOT NULL, made REAL NOT NULL) STRICT""",
    """CREATE TABLE IF NOT EXISTS marks (
        host TEXT NOT NULL, ledger TEXT NOT NULL, mark TEXT, hold TEXT, until REAL,
        PRIMARY KEY (host, ledger)) STRICT""",
    """CREATE TABLE IF NOT EXISTS late (
        policy TEXT NOT NULL, tick REAL NOT NULL, asked TEXT NOT NULL,
        seen INTEGER NOT NULL DEFAULT 0) STRICT""",
    f"PRAGMA user_version = {_VERSION}",
)


_COLUMNS: Final = (("keys", "only", "TEXT"), ("orders", "book", "TEXT"))
"""Columns that a folder of an older version lacks."""


class Home:
    """A folder that only its user can read."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._lock = threading.RLock()
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._umask():
                self._connection = sqlite3.connect(
                    self.folder / "service.sqlite", isolation_level=None, check_same_thread=False
                )
                self._prepare()
        except (OSError, sqlite3.Error):
            raise ParameterError(
                f"the service's folder {str(self.folder)!r} cannot be used"
            ) from None

    def _prepare(self) -> None:
        for pragma in ("journal_mode = WAL", _NORMAL, "busy_timeout = 10000"):
            self._connection.execute(f"PRAGMA {pragma}")
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version > _VERSION:
            raise ParameterError(
                f"the service's folder {str(self.folder)!r} was written by a newer discreet",
                hint='pip install --upgrade "discreet"',
            )
        for statement in _SCHEMA:
            self._connection.execute(statement)
        for column in _COLUMNS:
            self._complete(*column)

    def _complete(self, table: str, column: str, kind: str) -> None:
        """Add a column, unless it is there; another process may add it at the same time."""
        self._connection.execute("BEGIN IMMEDIATE")
        present = self._connection.execute(f"PRAGMA table_info({table})").fetchall()
        if column not in {name for _, name, *_ in present}:
            self._connection.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")
        self._connection.execute("COMMIT")

    @contextmanager
    def _umask(self) -> Iterator[None]:
        before = os.umask(0o077)
        try:
            yield
        finally:
            os.umask(before)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Have the folder for one service: what is decided here is in its memory, too.

        The lock ends with the process, however that ends.
        """
        if fcntl is None:
            yield
            return
        with self._umask():
            file = os.open(self.folder / "service.lock", os.O_CREAT | os.O_RDWR)
        try:
            self._take(file)
            yield
        finally:
            os.close(file)

    def _take(self, file: int) -> None:
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() > until:
                    raise ParameterError(
                        f"another service has the folder {str(self.folder)!r}: stop it, serve all "
                        "policies by one command, or give this one a folder and keys of its own",
                        hint="--home service2",
                    ) from None
                time.sleep(0.1)
            else:
                return

    def read(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a query."""
        with self._lock:
            return self._connection.execute(sql, values).fetchall()

    def write(self, sql: str, values: Sequence[Any] = (), *, durable: bool = False) -> int:
        """Run a statement that changes one table; give the number of rows that it changed.

        What is `durable` is on disk before this returns.
        """
        with self._lock:
            if not durable:
                return self._connection.execute(sql, values).rowcount
            self._connection.execute("PRAGMA synchronous = FULL")
            try:
                return self._connection.execute(sql, values).rowcount
            finally:
                self._connection.execute(f"PRAGMA {_NORMAL}")

    @contextmanager
    def together(self) -> Iterator[None]:
        """Let all that this thread writes until the end be one transaction, or nothing of it."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def signing_key(self) -> Ed25519PrivateKey:
        """Give the key that signs answers; made when it is first needed."""
        path = self.folder / "signing.key"
        try:
            return Ed25519PrivateKey.from_private_bytes(path.read_bytes())
        except FileNotFoundError:
            key = Ed25519PrivateKey.generate()
            raw = key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
            spare = path.with_suffix(".part")
            with self._umask():
                spare.write_bytes(raw)
            spare.replace(path)  # a kill leaves the whole key or none
            return key
        except (OSError, ValueError):
            raise ParameterError(f"the signing key {str(path)!r} cannot be used") from None

    def close(self) -> None:
        """Let go of the files."""
        with self._lock:
            self._connection.close()
