"""Opening ledgers: which one belongs to a policy, and where it must be."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from discreet._address import address, is_for_server
from discreet._log import check_log, note
from discreet.errors import Hint, LedgerError, LedgerIntegrityError, ParameterError
from discreet.ledger import _anchor
from discreet.ledger._anchor import AnyAnchor
from discreet.ledger._budget import least_cost
from discreet.ledger._chain import AbsentError, absent, foreign, gone
from discreet.ledger._decisions import owns
from discreet.ledger._ledger import ChainedLedger, Purpose
from discreet.ledger._memory import MemoryStore
from discreet.ledger._postgres import PostgresStore
from discreet.ledger._protocol import Ledger, Standing
from discreet.ledger._sqlite import SqliteStore
from discreet.ledger._turn import now
from discreet.ledger._watch import Service
from discreet.ledger._witness import Witness
from discreet.plan import Cost
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
            raise _not_here(policy.payer, MEMORY, mark.where)
        super().__init__(MemoryStore(policy.payer), policy.payer, policy)


class SqliteLedger(ChainedLedger):
    """A ledger in an SQLite file: the default; see :func:`open_ledger`."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        policy: Policy | None = None,
        *,
        wait: float = WAIT,
        witness: str | None = None,
        **purpose: Any,
    ) -> None:
        where = os.path.realpath(path)
        owner = SqliteStore(where, "", wait).owner() if _has_content(where) else None
        if policy is None and owner is None:
            raise absent(where) if _anchor.beside(where).read() is None else gone(where)
        identity = policy.payer if policy is not None else str(owner)
        if owner is not None and owner != identity:
            raise foreign(where, owner, identity)
        mark = _anchor.of_user(identity).read()
        if mark is not None and mark.where != where and not Path(where).exists():
            raise _not_here(identity, where, mark.where)
        if owner is None and policy is not None and identity != policy.identity:
            raise _no_host(where, identity)
        anchors = anchors_of(where, identity, witness_of(witness, policy, where, identity))
        store = SqliteStore(where, identity, wait)
        super().__init__(store, identity, policy, anchors, **purpose)


class PostgresLedger(ChainedLedger):
    """A ledger in PostgreSQL, for several hosts; see :func:`open_ledger`."""

    def __init__(
        self,
        url: str,
        policy: Policy | str,
        *,
        wait: float = WAIT,
        witness: str | None = None,
        **purpose: Any,
    ) -> None:
        identity = policy if isinstance(policy, str) else policy.payer
        own = None if isinstance(policy, str) else policy
        store = PostgresStore(url, identity, wait)
        mark = _anchor.of_user(identity).read()
        # one server has many names: there the chain decides whether it is the same ledger
        if mark is not None and "://" not in mark.where:
            raise _not_here(identity, store.where, mark.where)
        anchors = anchors_of(url, identity, witness_of(witness, own, url, identity))
        super().__init__(store, identity, own, anchors, **purpose)


def anchors_of(where: str, identity: str, witness: str | None = None) -> tuple[AnyAnchor, ...]:
    """Places of the marks: the user's, one beside a file, and a witness if there is one."""
    own = [_anchor.beside(where)] if "://" not in where else []
    afar: list[AnyAnchor] = []
    if witness:
        over_http = witness.startswith(("https://", "http://"))
        afar = [(Service if over_http else Witness)(witness, identity)]
    return (*own, _anchor.of_user(identity), *afar)


def witness_of(witness: str | None, policy: Policy | None, where: str, identity: str) -> str | None:
    """Witness that was given, or that the environment or the policy names.

    Who decides without a policy gets the one that the marks know of.
    """
    url = witness or os.environ.get("DISCREET_WITNESS")
    stated = None if policy is None else policy.witness
    if url and stated and address(url) != address(stated):
        raise LedgerError(
            f"the policy names the witness {address(stated)!r}, and DISCREET_WITNESS or the caller "
            "another one: a ledger has one",
            hint=f"export DISCREET_WITNESS={stated}, with a user if it needs one",
        )
    if url or policy is not None:
        return url or stated
    marks = (anchor.read() for anchor in anchors_of(where, identity))
    return next((mark.witness for mark in marks if mark is not None and mark.witness), None)


def open_ledger(
    where: str | os.PathLike[str],
    policy: Policy | str | None = None,
    *,
    wait: float = WAIT,
    witness: str | None = None,
    purpose: Purpose = "ask",
    **signed: str,
) -> ChainedLedger:
    """Open the ledger at a place: the one way to open any ledger.

    Parameters
    ----------
    where
        Path of a file, ``postgresql://`` URL, or ``":memory:"``.
    policy
        The policy. Owners may leave it out for a file, and give its identity for
        PostgreSQL, to look at a ledger or decide about it.
    wait
        Seconds to wait for others who use it.
    witness
        URL of a PostgreSQL server that keeps the mark for several hosts; left out:
        ``DISCREET_WITNESS``, or what the policy names.
    purpose
        ``"ask"`` to spend; the ledger is made if the policy has none. ``"look"`` writes
        nothing, and there must be one; ``"try"`` too, in memory if there is none.
        ``"decide"`` for owners, whatever budget the policy now states. ``"adopt"`` accepts,
        on record, a ledger that has come here without its anchor or its witness.
    signed
        ``by`` and ``note`` of an adoption.

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
    check_log()
    try:
        return _opened(where, policy, wait=wait, witness=witness, purpose=purpose, **signed)
    except AbsentError:
        if purpose == "try" and isinstance(policy, Policy):
            return MemoryLedger(policy)
        raise
    except LedgerError as refusal:
        # its words are about files and lines, never about data
        name = policy.identity if isinstance(policy, Policy) else policy
        note("ledger refused", refusal, policy=name, said=refusal.message)
        raise


def is_server(where: str) -> bool:
    """Whether a place is a PostgreSQL URL; refuse what is neither that nor a path, unprinted."""
    if where.startswith(("postgresql://", "postgres://")):
        return True
    if is_for_server(where):
        raise ParameterError(
            "a ledger is a file's path or a PostgreSQL URL; this is neither, and is not shown "
            "because it may hold a password",
            hint="postgresql://USER@HOST/DATABASE, with the password in PGPASSWORD",
        )
    return False


def _opened(
    where: str | os.PathLike[str], policy: Policy | str | None, **options: Any
) -> ChainedLedger:
    if isinstance(where, str) and where == MEMORY:
        if not isinstance(policy, Policy):
            raise ParameterError("a ledger in memory needs its policy")
        return MemoryLedger(policy)
    if is_server(os.fspath(where)):
        if policy is None:
            raise ParameterError(
                "a PostgreSQL ledger may hold several policies: say which",
                hint='open_ledger(url, "people")',
            )
        return PostgresLedger(str(where), policy, **options)
    if isinstance(policy, str):
        raise ParameterError("a ledger file knows its policy; give a Policy or nothing")
    return SqliteLedger(where, policy, **options)


def standing(
    ledger: Ledger, policy: Policy, analyst: str | None = None, *, checked: bool = False
) -> Standing:
    """Least price of a question and what is left, under the budget on record where there is one.

    `checked`: where nothing else reads the ledger, which may be gone or an older one by now.
    """
    if isinstance(ledger, ChainedLedger):
        return ledger.standing(policy, analyst, checked=checked)
    return Standing(least_cost(policy.budget), (ledger.balance(), ledger.balance(analyst or "")))


def floor(ledger: Ledger, policy: Policy) -> Cost:
    """What any question costs at least, under the budget on record where there is one."""
    return standing(ledger, policy).least


def known_place(identity: str) -> str | None:
    """Where this user last saw the ledger file of a policy."""
    mark = _anchor.of_user(identity).read()
    return None if mark is None or "://" in mark.where else mark.where


def adopt(
    ledger: str | os.PathLike[str],
    policy: Policy | str | None = None,
    *,
    by: str = "owner",
    note: str = "",
) -> ChainedLedger:
    """Accept a ledger that has come to this machine without its anchor, on record.

    Only its owner can know that it is the latest one. So is a witness given up.
    """
    return open_ledger(ledger, policy, purpose="adopt", by=by, note=note)


def forget(
    policy: Policy | str,
    where: str | os.PathLike[str] | None = None,
    *,
    fresh_budget: bool = False,
    by: str = "owner",
) -> None:
    """Forget that a policy ever had a ledger: the next one begins with a fresh budget.

    For owners, when the data are gone too or the policy was only a trial. The first line of
    the next ledger says that there was one before, how long it was, and who had it forgotten.

    Parameters
    ----------
    policy
        The policy or its identity.
    where
        Path or URL of the lost ledger, if it is not where it was last seen.
    fresh_budget
        The owner's word that a fresh budget is meant. What was spent before on data that
        are still there is counted no more.
    by
        Who decides; goes on record.

    Raises
    ------
    LedgerError
        The ledger is still there, or its server cannot be asked whether it is.
    """
    identity = policy if isinstance(policy, str) else policy.identity
    if isinstance(policy, Policy) and owns(policy, policy.payer):
        identity = policy.payer  # also where it got its name later
    if not fresh_budget:
        raise LedgerError(
            f"forgetting the ledger of {identity!r} would give whatever data is left a fresh "
            "budget: what was spent on it before would count no more",
            hint=Hint.call("discreet.ledger.forget", "discreet ledger forget", fresh_budget=True),
        )
    mark = _anchor.of_user(identity).read()
    urls = [] if where is None else [os.fspath(where)]
    places = {address(g) if is_server(g) else os.path.realpath(g): g for g in urls}
    if mark is not None and mark.where != MEMORY:
        places.setdefault(mark.where, mark.where)
    for place, url in places.items():
        if holds(place, url, identity):
            raise LedgerError(
                f"the ledger {place!r} is still there: only a ledger that is gone can be forgotten",
                hint="delete the ledger first, if its data are gone too",
            )
    for place in places:
        if "://" not in place:
            _anchor.beside(place).remove()
    end = {} if mark is None else {"lines": mark.number, "head": mark.hash}
    _anchor.forget(identity, at=now(), by=by, **end)
    note("ledger forgotten", policy=identity, place=", ".join(places), by=by)


def holds(place: str, url: str, identity: str) -> bool:
    """Whether a ledger is in a place; refuse where that cannot be told."""
    try:
        if "://" not in place:
            return os.stat(place).st_size > 0  # noqa: PTH116 - the path is text everywhere here
        store = PostgresStore(url, identity)
        if store.version() is None:
            return False
        with store.reading() as tx:
            return tx.head() is not None
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, LedgerError):
        raise LedgerError(
            f"the ledger {place!r} cannot be reached, so nobody can tell that it is gone; nothing "
            "was forgotten",
            hint=_SERVER if "://" in place else "make its folder readable for this user",
        ) from None


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


def _not_here(identity: str, other: str, home: str) -> LedgerIntegrityError:
    """Refusal of a second ledger: the first one is elsewhere, or was."""
    if "://" not in home and not Path(home).exists():
        return gone(home)
    return LedgerIntegrityError(
        f"policy {identity!r} keeps its ledger at {home!r}; one at {other!r} would be a second "
        "budget for the same data; other data need another [policy] name",
        hint=Hint("ledger", home) if "://" not in home else _SERVER,
    )


_SERVER: Final = "export DISCREET_LEDGER=postgresql://USER@HOST/DATABASE"
"""A hint that names a server: what is kept of its address has no user."""
