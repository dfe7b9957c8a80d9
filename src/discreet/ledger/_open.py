"""Opening ledgers: which one belongs to a policy, and where it must be."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from discreet.errors import Hint, LedgerError, LedgerIntegrityError, ParameterError
from discreet.ledger import _anchor
from discreet.ledger._ledger import ChainedLedger, foreign
from discreet.ledger._memory import MemoryStore
from discreet.ledger._postgres import PostgresStore
from discreet.ledger._sqlite import SqliteStore
from discreet.policy import Policy

MEMORY: Final = ":memory:"
WAIT: Final = 30.0


class MemoryLedger(ChainedLedger):
    """The ledger of one process, for trying things out: it ends with the process.

    Every handle of the same policy identity in this process shares one budget.
    A policy that has a lasting ledger cannot be opened in memory as well.

    Examples
    --------
    >>> from discreet.policy import Budget, Integer, Policy, Table
    >>> policy = Policy([Table("people", [Integer("age", 0, 115)])], Budget("1"), name="trial")
    >>> MemoryLedger(policy).balance().left("epsilon")
    Fraction(1, 1)
    """

    def __init__(self, policy: Policy) -> None:
        mark = _anchor.of_user(policy.identity).read()
        if mark is not None:
            raise _elsewhere(policy.identity, MEMORY, mark.where)
        super().__init__(MemoryStore(policy.identity), policy.identity, policy)


class SqliteLedger(ChainedLedger):
    """A ledger in an SQLite file: the default; see :func:`open_ledger`."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        policy: Policy | None = None,
        *,
        wait: float = WAIT,
        adopt: bool = False,
    ) -> None:
        where = os.path.realpath(path)
        owner = SqliteStore(where, "", wait).owner() if _has_content(where) else None
        if policy is None and owner is None:
            raise LedgerError(f"there is no ledger at {where!r}")
        identity = policy.identity if policy is not None else str(owner)
        if owner is not None and owner != identity:
            raise foreign(where, owner, identity)
        user = _anchor.of_user(identity)
        mark = user.read()
        if mark is not None and mark.where != where and not Path(where).exists():
            raise _elsewhere(identity, where, mark.where)
        anchors = (_anchor.beside(where), user)
        super().__init__(SqliteStore(where, identity, wait), identity, policy, anchors, adopt=adopt)


class PostgresLedger(ChainedLedger):
    """A ledger in PostgreSQL, for several hosts; see :func:`open_ledger`."""

    def __init__(
        self,
        url: str,
        policy: Policy | str,
        *,
        wait: float = WAIT,
        adopt: bool = False,
    ) -> None:
        identity = policy if isinstance(policy, str) else policy.identity
        own = None if isinstance(policy, str) else policy
        store = PostgresStore(url, identity, wait)
        user = _anchor.of_user(identity)
        mark = user.read()
        # one server has many names: there the chain decides whether it is the same ledger
        if mark is not None and not mark.where.startswith("postgresql://"):
            raise _elsewhere(identity, store.where, mark.where)
        super().__init__(store, identity, own, (user,), adopt=adopt)


def open_ledger(
    where: str | os.PathLike[str],
    policy: Policy | str | None = None,
    *,
    wait: float = WAIT,
    adopt: bool = False,
) -> ChainedLedger:
    """Open the ledger at a place; make it if the policy has none yet.

    Parameters
    ----------
    where
        Path of a file, ``postgresql://`` URL, or ``":memory:"``.
    policy
        The policy. Owners may leave it out for a file, and give its identity for
        PostgreSQL, to look at a ledger or decide about it.
    wait
        Seconds to wait for others who use it.
    adopt
        Accept a ledger that has come here without its anchor; this is recorded.

    Raises
    ------
    LedgerIntegrityError
        The ledger is gone, older than it was, edited, truncated or another policy's.
    LedgerError
        It cannot be used, or the policy's budget is not the one on record.

    Examples
    --------
    >>> from discreet.policy import Budget, Integer, Policy, Table
    >>> policy = Policy([Table("people", [Integer("age", 0, 115)])], Budget("1"), name="demo")
    >>> open_ledger(":memory:", policy).verify().lines
    1
    """
    if isinstance(where, str) and where == MEMORY:
        if not isinstance(policy, Policy):
            raise ParameterError("a ledger in memory needs its policy")
        return MemoryLedger(policy)
    if isinstance(where, str) and where.startswith(("postgresql://", "postgres://")):
        if policy is None:
            raise ParameterError(
                "a PostgreSQL ledger may hold several policies: say which",
                hint='open_ledger(url, "people")',
            )
        return PostgresLedger(where, policy, wait=wait, adopt=adopt)
    if isinstance(policy, str):
        raise ParameterError("a ledger file knows its policy; give a Policy or nothing")
    return SqliteLedger(where, policy, wait=wait, adopt=adopt)


def adopt(where: str | os.PathLike[str], policy: Policy | str | None = None) -> ChainedLedger:
    """Accept a ledger that has come to this machine without its anchor, on record.

    Only its owner can know that it is the latest one.
    """
    return open_ledger(where, policy, adopt=True)


def forget(policy: Policy | str, where: str | os.PathLike[str] | None = None) -> None:
    """Forget that a policy ever had a ledger: the next one begins with a fresh budget.

    For owners, when the data are gone too or the policy was only a trial.

    Parameters
    ----------
    policy
        The policy or its identity.
    where
        Path of the lost ledger, to remove the anchor beside it as well.
    """
    identity = policy if isinstance(policy, str) else policy.identity
    anchor = _anchor.of_user(identity)
    mark = anchor.read()
    places = {os.path.realpath(where)} if where is not None else set()
    if mark is not None and mark.where != MEMORY and "://" not in mark.where:
        places.add(mark.where)
    for place in places:
        if _has_content(place):
            raise LedgerError(
                f"the ledger {place!r} is still there",
                hint=Hint.call(f'open_ledger("{place}").new_period', "discreet budget new-period"),
            )
        _anchor.beside(place).remove()
    anchor.remove()


def _has_content(path: str) -> bool:
    try:
        return os.stat(path).st_size > 0  # noqa: PTH116 - the path is text everywhere here
    except OSError:
        return False


def _elsewhere(identity: str, asked: str, known: str) -> LedgerIntegrityError:
    return LedgerIntegrityError(
        f"policy {identity!r} keeps its ledger at {known!r}; one at {asked!r} would be a second "
        "budget for the same data; other data need another [policy] name, and a policy whose "
        f"ledger and data are gone is forgotten by discreet.ledger.forget({identity!r})",
        hint=Hint("ledger", known),
    )
