"""A witness: the mark of a ledger, kept by a PostgreSQL server for several hosts.

Anchors in files belong to one host. Where copies of a ledger could be used on several,
each of them asks the same server before it writes: the row of the policy is locked from
before the check until the mark is moved, after the ledger's commit. So copies take
turns there as they do at the files of one host, and a witness that does not answer
means that nothing is released. What it stores is a policy's name, a line's number and
hash, and a place: nothing of the data.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from discreet._address import address
from discreet._canonical import canonical
from discreet._dataclass import asdict, dataclass
from discreet.errors import LedgerBusyError, LedgerError
from discreet.ledger._anchor import Mark, behind, elsewhere_used
from discreet.ledger._lent import loan
from discreet.ledger._postgres import refused

if TYPE_CHECKING:
    import psycopg

_TABLE = "CREATE TABLE IF NOT EXISTS discreet_marks (policy text PRIMARY KEY, mark text NOT NULL)"


@dataclass(frozen=True, slots=True)
class Afar:
    """The mark of one policy at another place.

    Parameters
    ----------
    url
        Where it is; never shown, because it may hold a password.
    policy
        Identity of the policy.
    wait
        Seconds to wait for the place and for others.
    """

    url: str
    policy: str
    wait: float = 30.0

    durable = False
    name = "the witness"

    @property
    def afar(self) -> str:
        """Address of the place."""
        return address(self.url)


@dataclass(frozen=True, slots=True)
class Witness(Afar):
    """The mark of one policy on a PostgreSQL server; ``url`` is its connection URL."""

    def read(self) -> Mark | None:
        """Give the mark; None if there is none."""
        with self._connection(self.wait) as connection:
            row = connection.execute("SELECT to_regclass('discreet_marks')").fetchone()
            if row is None or row[0] is None:
                return None
            return _mark(connection, self.policy)

    @contextmanager
    def hold(self, wait: float) -> Iterator[WitnessHold]:
        """Keep everybody else from moving the mark."""
        with self._connection(wait) as connection:
            connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (self.policy,))
            connection.execute(_TABLE)
            yield WitnessHold(connection, _mark(connection, self.policy))

    @contextmanager
    def _connection(self, wait: float) -> Iterator[psycopg.Connection[Any]]:
        import psycopg  # noqa: PLC0415 - an optional place

        try:
            with loan(self.url, wait) as connection:
                yield connection
        except psycopg.errors.LockNotAvailable:
            raise LedgerBusyError(
                f"the ledger's witness was in use for {wait:g} s; nothing was charged"
            ) from None
        except psycopg.Error as error:
            raise refused("the ledger's witness", error.sqlstate, "discreet_marks") from None


@dataclass(frozen=True, slots=True)
class WitnessHold:
    """A witness that we hold, and the mark that it had."""

    connection: psycopg.Connection[Any]
    mark: Mark | None

    def move(self, mark: Mark, *, back: bool = False) -> None:
        """Move the mark forward; an owner may move it back."""
        if not back and behind(mark, self.mark):
            raise elsewhere_used(mark)
        self.connection.execute(
            "INSERT INTO discreet_marks (policy, mark) VALUES (%s, %s)"
            " ON CONFLICT (policy) DO UPDATE SET mark = excluded.mark",
            (mark.policy, canonical(asdict(mark))),
        )


def _mark(connection: psycopg.Connection[Any], policy: str) -> Mark | None:
    sql = "SELECT mark FROM discreet_marks WHERE policy = %s"
    row = connection.execute(sql, (policy,)).fetchone()
    try:
        return None if row is None else Mark(**json.loads(row[0]))
    except (TypeError, ValueError):
        raise LedgerError("what the ledger's witness has stored cannot be read") from None
