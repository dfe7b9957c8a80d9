"""Opening ledgers: which one belongs to a policy, and where it must be."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from discreet.errors import Hint, LedgerError, LedgerIntegrityError, ParameterError
from discreet.ledger import _anchor
from discreet.ledger._anchor import AnyAnchor
from discreet.ledger._ledger import ChainedLedger, foreign
from discreet.ledger._memory import MemoryStore
from discreet.ledger._postgres import PostgresStore
from discreet.ledger._sqlite import SqliteStore
from discreet.ledger._witness import Witness
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
        mark = _anchor.of_user(policy.payer).read()
        if mark is not None:
            raise _elsewhere(policy.payer, MEMORY, mark.where)
        super().__init__(MemoryStore(policy.payer), policy.payer, policy)


class SqliteLedger(ChainedLedger):
    """A ledger in an SQLite file: the default; see :func:`open_ledger`."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        policy: Policy | None = None,
        *,
        wait: float = WAIT,
        adopt: bool = False,
        witness: str | None = None,
    ) -> None:
        where = os.path.realpath(path)
        owner = SqliteStore(where, "", wait).owner() if _has_content(where) else None
        if policy is None and owner is None:
            raise LedgerError(f"there is no ledger at {where!r}")
        identity = policy.payer if policy is not None else str(owner)
        if owner is not None and owner != identity:
            raise foreign(where, owner, identity)
        if owner is None and policy is not None and identity != policy.identity:
            raise _no_host(where, identity)
        mark = _anchor.of_user(identity).read()
        if mark is not None and mark.where != where and not Path(where).exists():
            raise _elsewhere(identity, where, mark.where)
        anchors = anchors_of(where, identity, witness_of(witness, policy))
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
        witness: str | None = None,
    ) -> None:
        identity = policy if isinstance(policy, str) else policy.payer
        own = None if isinstance(policy, str) else policy
        store = PostgresStore(url, identity, wait)
        mark = _anchor.of_user(identity).read()
        # one server has many names: there the chain decides whether it is the same ledger
        if mark is not None and not mark.where.startswith("postgresql://"):
            raise _elsewhere(identity, store.where, mark.where)
        anchors = anchors_of(url, identity, witness_of(witness, own))
        super().__init__(store, identity, own, anchors, adopt=adopt)


def anchors_of(where: str, identity: str, witness: str | None) -> tuple[AnyAnchor, ...]:
    """Places of the marks: the user's, one beside a file, and a witness if there is one."""
    own = [_anchor.beside(where)] if "://" not in where else []
    afar = [Witness(witness, identity)] if witness else []
    return (*own, _anchor.of_user(identity), *afar)


def witness_of(given: str | None, policy: Policy | None) -> str | None:
    """Witness that was given, or that the environment or the policy names."""
    own = None if policy is None else policy.witness
    return given or os.environ.get("DISCREET_WITNESS") or own


def open_ledger(
    where: str | os.PathLike[str],
    policy: Policy | str | None = None,
    *,
    wait: float = WAIT,
    adopt: bool = False,
    witness: str | None = None,
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
    witness
        URL of a PostgreSQL server that keeps the mark for several hosts; left out:
        ``DISCREET_WITNESS``, or what the policy names.

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
        return PostgresLedger(where, policy, wait=wait, adopt=adopt, witness=witness)
    if isinstance(policy, str):
        raise ParameterError("a ledger file knows its policy; give a Policy or nothing")
    return SqliteLedger(where, policy, wait=wait, adopt=adopt, witness=witness)


def known_place(identity: str) -> str | None:
    """Where this user last saw the ledger file of a policy."""
    mark = _anchor.of_user(identity).read()
    return None if mark is None or "://" in mark.where else mark.where


def adopt(ledger: str | os.PathLike[str], policy: Policy | str | None = None) -> ChainedLedger:
    """Accept a ledger that has come to this machine without its anchor, on record.

    Only its owner can know that it is the latest one.
    """
    return open_ledger(ledger, policy, adopt=True)


def forget(
    policy: Policy | str,
    where: str | os.PathLike[str] | None = None,
    *,
    fresh_budget: bool = False,
) -> None:
    """Forget that a policy ever had a ledger: the next one begins with a fresh budget.

    For owners, when the data are gone too or the policy was only a trial.

    Parameters
    ----------
    policy
        The policy or its identity.
    where
        Path of the lost ledger, to remove the anchor beside it as well.
    fresh_budget
        The owner's word that a fresh budget is meant. What was spent before on data that
        are still there is counted no more.
    """
    identity = policy if isinstance(policy, str) else policy.identity
    if not fresh_budget:
        raise LedgerError(
            f"forgetting the ledger of {identity!r} would give whatever data is left a fresh "
            "budget: what was spent on it before would count no more",
            hint=Hint("fresh_budget", True),
        )
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


def _no_host(where: str, identity: str) -> LedgerIntegrityError:
    return LedgerIntegrityError(
        f"there is no ledger of policy {identity!r} at {where!r}, from whose budget this policy "
        "spends",
        hint=Hint("ledger", f"{identity}.toml.ledger"),
    )


def _elsewhere(identity: str, asked: str, known: str) -> LedgerIntegrityError:
    return LedgerIntegrityError(
        f"policy {identity!r} keeps its ledger at {known!r}; one at {asked!r} would be a second "
        "budget for the same data; other data need another [policy] name, and a policy whose "
        "ledger and data are gone is forgotten by `discreet ledger forget --fresh-budget`",
        hint=Hint("ledger", known),
    )
