"""Backups: a copy that is checked whole, and what a restore may do with it.

A backup is a ledger file without an anchor: nobody takes it for the ledger. Put back in
the ledger's place it is compared with the marks. If it is what they say, nothing
was lost. If it is older, lines are missing, and nobody knows what they spent; it is
refused. When the ledger is lost for good, its owner may restore an older backup on
record: the chain goes on with a debit of *all that was left* then.

*Claim.* The whole that was in force still bounds everything released. *Proof.* Every line
that is missing was admitted by a ledger that had spent at least what the backup has, so
the missing debits together cost at most what was left in the backup under the same total;
that is what is debited. If the total was raised, or a period begun, on a missing line,
then under that decision, which the owner must put on record anew to spend again. Runs
that were open in the backup may have been answered on a missing line, so they have
failed. ∎
What the lost lines meant for a person is read off the same claim: the debit says which budget
covers it, and how many debits before it.

Where a budget (ε, δ) is paid by ε or by ρ, which route was taken is lost. All lines of the period
together, those that are lost included, are then entered as *one* release that is (ε, δ)-DP.
*Claim.* A larger budget (ε', δ') bounds it and all that follows. *Proof.* The filter that was in
force makes the lines, as one interaction that has ended, (ε, δ)-DP. Such an interaction is ε-DP
but for an event of probability δ, so in the proof of :mod:`discreet.ledger._budget` it is one more
answer of the first route with a selection's δ; but for the same event it is zCDP as every ε-DP
answer is, one more of the second. Earlier lines stay charged as well, which only charges more, and
covers what a total that was lowered since no longer does: beyond it no lost line was admitted. ∎
Both routes cap δ at δ'/2, so the owner must raise δ to more than twice what it was.

On a server several hosts spend, and each has only a mark of its own: that a backup agrees with this
host's says nothing about what others wrote. Only a witness that has the ledger's mark tells.
Without one, a backup that goes to a server, or was of a ledger on one, counts as older.

In a currency that the budget is not kept in, the missing lines have no such bound: there an
amount is entered that no later budget in that currency will hold.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from discreet._dataclass import replace
from discreet._print import plural
from discreet.errors import Hint, LedgerError, LedgerIntegrityError
from discreet.ledger import _budget
from discreet.ledger._anchor import AnyHold, Mark, check_watch, of_user
from discreet.ledger._chain import Head, Line, check_links, foreign, reached
from discreet.ledger._decisions import owns
from discreet.ledger._group import apart
from discreet.ledger._ledger import ChainedLedger
from discreet.ledger._open import anchors_of, holds, is_server, open_ledger, witness_of
from discreet.ledger._outcomes import check_store, debit_body, question_of
from discreet.ledger._postgres import PostgresStore
from discreet.ledger._protocol import Entry, Receipt
from discreet.ledger._sqlite import SqliteStore
from discreet.ledger._state import RESTORED, State, coarse
from discreet.ledger._store import Store, Transaction
from discreet.ledger._turn import Turn, settle_in
from discreet.plan import Cost
from discreet.policy import Policy
from discreet.privacy import Pure

UNKNOWN: Final = Fraction(10**9)
"""Entered in a currency where nothing bounds what was spent on lost lines."""


def backup(ledger: ChainedLedger, to: str | os.PathLike[str]) -> int:
    """Copy a ledger of any kind into a new file, checked whole; return its lines.

    Writers wait while it is read. The file has no anchor and cannot be mistaken for
    the ledger.
    """
    where = os.path.realpath(to)
    if Path(where).exists():
        raise _there(where)
    folder, name = os.path.split(where)
    # a new name, for its owner's eyes: what has a name that we could guess is not ours
    try:
        file, part = tempfile.mkstemp(".part", f"{name}.", folder)
    except OSError:
        raise LedgerError(f"the backup {where!r} cannot be written") from None
    os.close(file)
    try:
        target = SqliteStore(part, ledger.identity, backup=True)
        with ledger.reading() as (tx, head):
            lines = _checked(tx, head)
            with target.writing(create=True) as copy:
                _copy(tx, lines, head, copy)
        with target.reading() as copy:
            _checked(copy, head)
        target.drop()
        try:
            os.close(os.open(where, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            raise _there(where) from None
        Path(part).rename(where)  # in the place of the empty file that we made
    finally:
        Path(part).unlink(missing_ok=True)
    _sync_folder(where)
    return len(lines)


def _there(where: str) -> LedgerError:
    return LedgerError(f"{where!r} already exists: a backup is a new file")


def restore(
    source: str | os.PathLike[str],
    to: str | os.PathLike[str],
    *,
    older: bool = False,
    policy: Policy | None = None,
    witness: str | None = None,
    unwatched: bool = False,
    by: str = "owner",
) -> ChainedLedger:
    """Put a backup in the place of a ledger that is gone.

    Parameters
    ----------
    source
        The backup.
    to
        Path or ``postgresql://`` URL of the ledger.
    older
        Accept a backup that misses lines, or may miss lines of other hosts: all that was left
        in it counts as spent.
    policy
        The policy that it belongs to; names the witness.
    witness
        As in :func:`discreet.ledger.open_ledger`.
    unwatched
        Go on without a witness that the ledger is known to have had.
    by
        Who decides; goes on record.

    Raises
    ------
    LedgerIntegrityError
        The backup is damaged, or older than the marks say, or of another ledger; or other hosts
        may have spent since, and no witness tells.
    LedgerError
        There is a ledger in that place.
    """
    backup = SqliteStore(os.path.realpath(source), "", backup=True)
    identity = backup.owner()
    if identity is None:
        raise LedgerError(f"there is no ledger in {str(source)!r}")
    if policy is not None and not owns(policy, identity):
        raise foreign(backup.where, identity, policy.identity)
    backup = replace(backup, policy=identity)
    where = os.fspath(to)
    mark = of_user(identity).read()
    server = is_server(where)
    place: Store = PostgresStore(where, identity) if server else _file(where, identity)
    own = where if server else place.where
    if server:
        _check_empty(place)
    lost = mark is not None and mark.where != place.where and _lost(mark, older=older)
    anchors = anchors_of(own, identity, witness_of(witness, policy, own, identity))
    with backup.reading() as tx:
        head = tx.head()
        if head is None:
            raise LedgerError(f"there is no ledger in {str(source)!r}")
        lines = _checked(tx, head)
        facts: dict[str, Any] = {
            "older": older,
            "lost": lost,
            "by": by,
            "file": str(source),
            "unwatched": unwatched,
        }
        apart(lambda: _put(tx, lines, head, place, anchors, **facts))
    owner = policy or (identity if server else None)
    return open_ledger(where, owner, witness=witness, purpose="decide")


def _check_empty(place: Store) -> None:
    """Refuse a server that has the ledger, before anything is said about missing lines."""
    if place.version() is None:
        return
    with suppress(LedgerIntegrityError), place.reading() as tx:  # tables that are gone
        if tx.head() is not None:
            raise _still_there(place)


def _still_there(place: Store) -> LedgerError:
    return LedgerError(f"there is a ledger at {place.where!r} still: nothing to restore")


def _put(
    tx: Transaction,
    lines: Sequence[Line],
    head: Head,
    place: Store,
    anchors: Any,
    *,
    older: bool,
    lost: bool,
    by: str,
    file: str,
    unwatched: bool,
) -> None:
    with ExitStack() as stack:
        order = sorted(anchors, key=lambda anchor: anchor.durable)
        locks: list[AnyHold] = [stack.enter_context(a.hold(place.wait)) for a in order]
        if not unwatched:
            check_watch(place.where, order, [h.mark for h in locks])
        marks = [h.mark for h in locks if h.mark is not None]
        missing = max((_missing(tx, lines, head, mark) for mark in marks), default=0)
        watched = any(a.afar and h.mark is not None for a, h in zip(order, locks, strict=True))
        places = (place.where, *(mark.where for mark in marks))
        shared = not watched and any("://" in where for where in places)
        if (missing or shared) and not older:
            raise _older(missing, file)
        with place.writing(create=True) as copy:
            if copy.head() is not None:
                raise _still_there(place)
            _copy(tx, lines, head, copy)
            turn = Turn(copy, head)
            if missing or shared or lost:
                _all_spent(turn, missing, by, lines)
            elif not marks:
                turn.append("adopt", {"by": by, "note": "restored where no mark was"})
        watch = next((anchor.afar for anchor in anchors if anchor.afar), "")
        mark = Mark(turn.head.content.policy, lines[0].hash, turn.head.number, turn.head.hash,
                    place.where, watch)  # fmt: skip
        for own in locks:
            own.move(mark, back=True)


def _older(missing: int, file: str) -> LedgerIntegrityError:
    """Refusal of a backup that misses lines, or may miss those of other hosts."""
    return LedgerIntegrityError(
        f"this backup misses {plural(missing, 'line')} that the ledger had: what was spent on them "
        "is not known"
        if missing
        else "this backup has every line that this host knows of, but on a server other hosts may "
        "have spent since; a witness would tell",
        hint=Hint.call("restore", "discreet ledger restore", file, older=True),
    )


def _lost(mark: Mark, *, older: bool) -> bool:
    """Whether what a ledger has elsewhere is not known; refuse while it is there.

    A server that does not answer is taken for lost on the owner's word alone.
    """
    try:
        there = holds(mark.where, mark.where, mark.policy)
    except LedgerError:
        if not older:
            raise
        return True
    if there:
        raise LedgerError(
            f"policy {mark.policy!r} has its ledger at {mark.where!r}: nothing to restore"
        )
    return False


def _missing(tx: Transaction, lines: Sequence[Line], head: Head, mark: Mark) -> int:
    """How many lines that a mark knows of are missing; refuse another ledger."""
    if mark.first != lines[0].hash:
        raise _another(mark)
    if head.number < mark.number:
        return mark.number - head.number
    if reached(tx.line, head, mark.number).hash != mark.hash:
        raise _another(mark)
    return 0


def _another(mark: Mark) -> LedgerIntegrityError:
    return LedgerIntegrityError(
        f"this is not a backup of the ledger {mark.where!r} that policy {mark.policy!r} had"
    )


def _all_spent(turn: Turn, missing: int, by: str, lines: Sequence[Line]) -> None:
    """Debit all that is left, for lines that are lost, about what earlier debits were about.

    How many lines other hosts wrote is not known: then `missing` is 0.
    """
    state, last = turn.head.content, turn.head.number
    debit = next((line.content for line in reversed(lines) if line.kind == "debit"), {})
    which = f"lines {last + 1} to {last + missing} are" if missing else "later lines may be"
    text = f"{which} lost: what was left counts as spent"
    entry = Entry(
        policy=state.policy,
        fingerprint="",
        analyst=None,
        plan=RESTORED,
        cost=_remainder(state),
        noise="",
        neighbours=debit.get("neighbours", "add-remove"),
        unit=debit.get("unit"),
        runs=False,
        external=text,
    )
    for number in sorted(map(int, state.open)):
        # its answer may have been released on a line that is lost: there must be no other
        line = lines[number - 1]
        settle_in(turn, Receipt(number, line.hash, line.when), None)
    earlier = _debits(lines)
    body = debit_body(state, entry) | {"by": by}
    body["covers"] = {"budget": dict(state.budget), "debits": earlier}
    question = body["question"] = question_of(state, entry, body["cost"])
    turn.append("debit", body, question=question)


def _debits(lines: Sequence[Line]) -> int:
    """Debits of the last period that a backup knows."""
    start = max((n for n, line in enumerate(lines) if line.kind == "period"), default=0)
    return sum(line.kind == "debit" for line in lines[start:])


def _remainder(state: State) -> Cost:
    balance = _budget.balance(state)
    left = {c: _short(max(balance.left(c), Fraction(0))) for c in balance.amounts}
    delta = left.get("delta", Fraction(0))
    if "rho" in left and "epsilon" in left:
        # which route was taken is lost: all of it is one release under the whole budget
        whole = balance.delta
        return Cost(left["epsilon"], whole, Pure(balance.total).zcdp().rho0, whole)
    if "rho" in left:
        return Cost(UNKNOWN, Fraction(0), left["rho"], delta)
    return Cost(left["epsilon"], delta, UNKNOWN, Fraction(0))


def _short(left: Fraction) -> Fraction:
    """Round what would be rounded up later down: the total is never more than the whole."""
    return left if coarse(left) == left else Fraction(left * 2**256 // 1, 2**256)


def _checked(tx: Transaction, head: Head) -> Sequence[Line]:
    lines = tuple(tx.lines())
    check_links(lines, head)
    check_store(tx, lines, head)
    return lines


def _copy(tx: Transaction, lines: Sequence[Line], head: Head, to: Transaction) -> None:
    """Write every line with what it is found by, and every answer."""
    for line, (_, slot, question, settles) in zip(lines, tx.index(), strict=True):
        now = Head(line.number, line.hash, head.state)
        to.append(line, now, slot=slot, question=question, settles=settles)
    for number, record in tx.answers():
        to.settle(number, record)


def _file(where: str, identity: str) -> SqliteStore:
    place = os.path.realpath(where)
    if Path(place).exists() and Path(place).stat().st_size:
        raise LedgerError(
            f"there is a file at {place!r}: a restore does not replace it",
            hint=f"mv {place} {place}.damaged",
        )
    return SqliteStore(place, identity)


def _sync_folder(path: str) -> None:
    """Make a new name last, where folders can be synced."""
    try:
        folder = os.open(Path(path).parent, os.O_RDONLY)
    except OSError:  # not on this system
        return
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
