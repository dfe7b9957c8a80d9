"""Budgets belong to data: which budgets a source is charged to.

Each private source (the real path and the inode of every file that it matches, a
PostgreSQL server's own identity, however it was addressed) has a small file in the
user's state directory that lists whose budget it was opened under with a lasting ledger.
An inode counts only where a file has several names. A policy of another name over the
same source would be a fresh budget for the same people. It is refused, unless it spends
from the one that is there: ``[policy] beside = "census"``, with the consent of that one's
owner in its ledger (``discreet ledger consent``). Both then share one cap.

What is written is the hash of the source's label and the names of policies: nothing of
the data. Not seen: a copy of the data elsewhere, another user's state directory, and
tables that only live in memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from discreet._canonical import digest
from discreet.errors import LedgerError, LedgerIntegrityError
from discreet.ledger._anchor import locked, own_file, read_at, state_file, write_at
from discreet.policy import Policy

_LONGEST = 1 << 20


def claim(sources: Iterable[str], policy: Policy, *, enter: bool = True) -> None:
    """Enter whose budget sources are charged to, or refuse a second one.

    Without `enter` nothing is written: what will be refused is refused before a ledger is made.

    Raises
    ------
    LedgerIntegrityError
        When one of the sources is charged to another budget.
    """
    payer = policy.payer
    for source in sorted(set(sources)):
        path = state_file("data", f"{digest(source)[:32]}.policies")
        try:
            names = _listed(path) or (_entered(path, payer) if enter else [payer])
        except OSError:
            raise LedgerError(
                "the list of budgets over this source cannot be used; nothing was released",
                hint="make its folder readable and writable for this user: "
                f"{os.path.dirname(path)}",  # noqa: PTH120 - the path is text everywhere here
            ) from None
        if payer not in names:
            raise LedgerIntegrityError(
                f"this source has a budget already, under policy {names[0]!r}: a policy of "
                "another name over the same data would be a fresh one",
                hint=f'beside = "{names[0]}" under [policy]',
            )


def _listed(path: str) -> list[str]:
    """Policies on a list; only looking needs no write access."""
    try:
        with own_file(path) as file:
            return _names(file)
    except FileNotFoundError:
        return []


def _entered(path: str, payer: str) -> list[str]:
    """Enter a budget, unless there is one already; give the list."""
    with locked(path) as file:
        names = _names(file)
        if not names:
            write_at(file, f"{payer}\n".encode(), 0)
            os.fsync(file)
    return names or [payer]


def _names(file: int) -> list[str]:
    text = read_at(file, _LONGEST, 0).decode("utf-8", "replace")
    return [name for name in text.split("\n") if name]
