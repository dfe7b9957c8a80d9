"""Budgets belong to data: which policies have asked about a source.

Each private source (the real path of a file, or a database's address without user and
password) has a small file in the user's state directory that lists the identities of
the policies under which it was opened with a lasting ledger. A policy of another name
over the same source would be a fresh budget for the same people. It is refused, unless
its owner says in it that the other one is known: ``[policy] beside = ["census"]``. The
losses of both then add up, and both say so.

What is written is the hash of the source's label and the names of policies: nothing of
the data. Not seen: a copy of the data elsewhere, another user's state directory, and
tables that only live in memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from discreet._canonical import digest
from discreet.errors import LedgerError, LedgerIntegrityError
from discreet.ledger._anchor import locked, own_file, read_at, state_directory, write_at
from discreet.policy import Policy

_LONGEST = 1 << 20


def claim(sources: Iterable[str], policy: Policy) -> None:
    """Enter a policy for its sources, or refuse it beside one that it does not name.

    Raises
    ------
    LedgerIntegrityError
        When another policy has a budget over one of the sources.
    """
    known = {policy.identity, *policy.beside}
    for source in sorted(set(sources)):
        path = str(state_directory() / "data" / f"{digest(source)[:32]}.policies")
        try:
            names = _listed(path)
            if policy.identity not in names:
                names = _entered(path, policy, known)
        except OSError:
            raise LedgerError(
                "the list of policies over this source cannot be used; nothing was released",
                hint="export XDG_STATE_HOME=/a/writable/folder",
            ) from None
        others = [name for name in names if name not in known]
        if others:
            raise LedgerIntegrityError(
                f"this source has a budget already, under policy {others[0]!r}: a policy of "
                "another name over the same data would be a fresh one",
                hint=f'[policy] beside = ["{others[0]}"]'
                if not others[0].startswith("sha256:")
                else '[policy] name = "…" in both, then beside = ["…"]',
            )


def _listed(path: str) -> list[str]:
    """Policies on a list; only looking needs no write access."""
    try:
        with own_file(path) as file:
            return _names(file)
    except FileNotFoundError:
        return []


def _entered(path: str, policy: Policy, known: AbstractSet[str]) -> list[str]:
    """Enter a policy, unless one is there that it does not know; give the list."""
    with locked(path) as file:
        names = _names(file)
        if policy.identity not in names and known >= set(names):
            write_at(file, f"{policy.identity}\n".encode(), os.fstat(file).st_size)
            os.fsync(file)
    return names


def _names(file: int) -> list[str]:
    text = read_at(file, _LONGEST, 0).decode("utf-8", "replace")
    return [name for name in text.split("\n") if name]
