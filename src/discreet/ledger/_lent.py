"""Connections to PostgreSQL that stay open between transactions.

A process keeps a few and lends each to one thread at a time. Nothing lasts in a session
beyond a transaction: its settings are set and read back anew in each, no statement is
prepared, every lock ends with it. So it does not matter which connection a transaction gets,
and a pooler between us and the server may hand out sessions as it likes.

*Claim.* No transaction runs twice, and none whose end is unknown is taken for one that did not
happen. *Proof.* A connection is kept only after its COMMIT was acknowledged. The server may end
it while nobody uses it (a restart, a timeout); that shows in the one message that begins the
next transaction, which writes nothing and commits nothing. Only an error there leads to
another connection, and once. An error anywhere later, in COMMIT above all, goes to the caller,
and the connection is closed. Whether such a COMMIT was carried out is for the ledger's lines to
say: an equal question reads them before it pays. ∎

A child of a fork has no part in its parent's sessions: what it inherits of them leads
nowhere, so that it can neither speak in them nor, by outliving its parent, keep them and their
locks. A connection is given up a minute after it was made: if the name of a server has come to
mean another one, the old one is not written to for longer.
"""

from __future__ import annotations

import atexit
import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from discreet._session import pinned
from discreet.errors import LedgerError

if TYPE_CHECKING:
    import psycopg

SCHEMA: Final = "public, pg_temp"
"""Where tables are found, whatever path a role has: one database, one ledger of a policy."""
_SETTINGS: Final = {"synchronous_commit": "on", "search_path": SCHEMA}
SPARE: Final = 4
"""Connections to one server that are kept open while nobody uses them."""
AGE: Final = 60.0
"""Seconds after which a connection is used no more."""
# ours, whatever the server's default is: a writer that has waited for the head must see it as it
# is then, a reader one state throughout
_WRITING: Final = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_READING: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

Key = tuple[str, float, tuple[tuple[str, str], ...]]
"""What a connection is made from: URL, patience, and variables that the URL leaves open."""


class _Session:
    """A connection of this process, and when it was made."""

    def __init__(self, url: str, wait: float) -> None:
        import psycopg  # noqa: PLC0415 - an optional store

        self.since = time.monotonic()
        self.connection: psycopg.Connection[Any] = psycopg.connect(
            url, autocommit=True, prepare_threshold=None, **limits(wait)
        )
        _OPEN.add(self)

    def begin(self, wait: float, *, snapshot: bool) -> None:
        begin = _READING if snapshot else _WRITING
        patience = {"lock_timeout": f"{int(wait * 1000)}ms"}
        if not pinned(self.connection, _SETTINGS, begin=begin, unread=patience):
            raise LedgerError("the ledger's connection does not let its settings be set")

    def commit(self) -> None:
        # a transaction that an error has spoilt ends without an error, but not in a commit
        if self.connection.execute("COMMIT").statusmessage != "COMMIT":
            raise LedgerError("the server has undone a transaction; nothing was released")

    def close(self) -> None:
        _OPEN.discard(self)
        self.connection.close()


_OPEN: Final[set[_Session]] = set()
"""All connections of this process, lent or not."""
_INHERITED: Final[list[_Session]] = []
"""Those of a parent, kept so that nothing is said to the server when they are forgotten."""
_IDLE: Final[dict[Key, deque[_Session]]] = {}
"""Those that nobody uses now."""


@contextmanager
def loan(url: str, wait: float, *, snapshot: bool = False) -> Iterator[psycopg.Connection[Any]]:
    """Lend a connection for one transaction: it is committed at the end, or undone by an error.

    Parameters
    ----------
    url
        Connection URL.
    wait
        Seconds to wait for the server and for locks.
    snapshot
        Read one committed state and write nothing.
    """
    key = _key(url, wait)
    session = _begin(key, snapshot=snapshot)
    try:
        yield session.connection
        session.commit()
    except BaseException:
        session.close()
        raise
    idle = _IDLE.setdefault(key, deque())
    idle.append(session)
    while len(idle) > SPARE:
        with suppress(IndexError):  # another thread was faster
            idle.popleft().close()


def _key(url: str, wait: float) -> Key:
    variables = sorted((name, value) for name, value in os.environ.items() if name.startswith("PG"))
    return url, wait, tuple(variables)


def _begin(key: Key, *, snapshot: bool) -> _Session:
    """Begin a transaction, on a connection that is kept or else on a new one."""
    import psycopg  # noqa: PLC0415 - an optional store

    url, wait, _ = key
    spare = _spare(key)
    if spare is not None:
        try:
            spare.begin(wait, snapshot=snapshot)
        except psycopg.Error:  # nothing was done in it; what ended it has ended the others
            spare.close()
            drop(url)
        except BaseException:
            spare.close()
            raise
        else:
            return spare
    session = _Session(url, wait)
    try:
        session.begin(wait, snapshot=snapshot)
    except BaseException:
        session.close()
        raise
    return session


def _spare(key: Key) -> _Session | None:
    """Take the connection that was used last; close those that are too old."""
    idle = _IDLE.get(key, deque())
    with suppress(IndexError):
        while True:
            session = idle.pop()
            if time.monotonic() - session.since < AGE:
                return session
            session.close()
    return None


def drop(url: str) -> None:
    """Close the connections to a server that nobody uses."""
    for key in [key for key in list(_IDLE) if key[0] == url]:
        idle = _IDLE.pop(key, deque())
        with suppress(IndexError):
            while True:
                idle.pop().close()


def limits(wait: float) -> dict[str, Any]:
    """How long a server may be silent, in connecting and in answering."""
    seconds = max(2, int(wait))
    return {
        "connect_timeout": seconds,
        "tcp_user_timeout": 1000 * seconds,
        "keepalives_idle": seconds,
        "keepalives_interval": max(1, seconds // 3),
        "keepalives_count": 3,
    }


def _drop_all() -> None:
    for url in {key[0] for key in list(_IDLE)}:
        drop(url)


def _after_fork() -> None:
    """Let what was inherited lead nowhere.

    None of it is closed: another thread of the parent may have been at work in it.
    """
    _IDLE.clear()
    if not _OPEN:
        return
    nowhere = os.open(os.devnull, os.O_RDWR)
    for session in _OPEN:
        with suppress(Exception):  # one that was being closed
            os.dup2(nowhere, session.connection.fileno(), inheritable=False)
    os.close(nowhere)
    _INHERITED.extend(_OPEN)
    _OPEN.clear()


atexit.register(_drop_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
