r"""The ledger: debits and owners' decisions as lines of one chain, in any store.

One debit, one release
----------------------
The order of events of a question is: *debit* (durable) → engine and noise → *settle*
(durable) → answer. A caller only ever receives what :meth:`ChainedLedger.settle`
or :meth:`ChainedLedger.debit` returns, and that is what is stored. Outcomes are
inserted only if the debit has none, inside a transaction that excludes other
writers, are never changed, and are sealed by a line of their own
(:mod:`discreet.ledger._outcomes`). Hence at most one outcome per debit is ever
released, however many runs were begun for it.

*Claim.* Running a question again under the debit of a run whose outcome was never
stored costs nothing. *Proof.* Let :math:`M(x, r_i)` be run i, with independent
fresh randomness :math:`r_i` (noise and salt). Runs that end before their outcome
is stored show nothing of :math:`M(x, r_i)` to anybody outside the process. If the
event that run i is the one stored does not depend on the :math:`r_j` (a kill, a
power cut or a race is decided by time, not by the noise drawn, whose drawing takes
time independent of its value), the stored outcome has the law of M(x), which was
paid for. ∎ A lease is not needed for this; two live runs with one key both
release whichever outcome was stored first.

An equal question whose run was cut short is therefore taken up again under the debit
that it has, with or without a key; the curator meters the further run.

A run that fails *and lives to say so* has released something: the failure. It is
stored as the outcome, and the same key gives the same failure for ever. If storing
fails, the caller gets a ledger error instead of the outcome, whatever it was. So
a key can neither pay twice nor be released twice.

Stored answers are post-processing of a paid release: giving them out again is
free. With shares they are given only to those who draw on the same share, so that
a share bounds what its analysts learn; without shares, to everybody.

What is written
---------------
Debits hold public facts: who, when, hashes, prices, noise parameters. Outcomes are
noisy records that were (or are about to be) released. Nothing else is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Final, Literal, TypeVar

from discreet._frozen import Frozen, freeze
from discreet._log import note
from discreet.errors import (
    BudgetExceededError,
    DiscreetError,
    Hint,
    IdempotencyError,
    LedgerError,
    LedgerIntegrityError,
    ParameterError,
    TaintedNoiseError,
)
from discreet.ledger import _budget
from discreet.ledger._anchor import AnyAnchor, AnyHold, Mark, check_watch, forgotten_ledgers
from discreet.ledger._chain import (
    RESTORE,
    Head,
    Line,
    absent,
    check_head,
    check_links,
    damaged,
    foreign,
    gone,
    next_line,
    reached,
)
from discreet.ledger._decisions import (
    Decisions,
    Unit,
    agree,
    check_units,
    consenting,
    owns,
    units_of,
)
from discreet.ledger._glance import Glances
from discreet.ledger._group import apart, group_of, one
from discreet.ledger._outcomes import (
    KEYS,
    binding,
    check_paid,
    check_store,
    debit_body,
    outcome_of,
    question_of,
    slot_of,
)
from discreet.ledger._protocol import Balance, Entry, Receipt, Verified
from discreet.ledger._state import FORMAT, State, cost_body
from discreet.ledger._store import Store, Transaction
from discreet.ledger._turn import Turn, now, payment_of, settle_in, unsettled
from discreet.policy import Policy

T = TypeVar("T")

Purpose = Literal["ask", "look", "try", "decide", "adopt"]
"""Why a ledger is opened; see :func:`discreet.ledger.open_ledger`."""

_LONGEST_KEY: Final = 200
_TRIES: Final = 3
"""How often an outcome is offered to a ledger that is busy or cannot be written."""


class ChainedLedger(Glances, Decisions):
    """One policy's ledger, wherever it is kept.

    Holds no connection and no money: every operation reads the store. Handles may
    be copied, pickled, forked and shared by threads.

    Parameters
    ----------
    store
        Where lines are kept.
    identity
        The policy's identity.
    policy
        The policy; its budget opens a new ledger, and must be the one on record
        in an old one. None: only look at, or decide about, an existing ledger.
    anchors
        Where the last known line is remembered.
    purpose
        Why it is opened, as in :func:`discreet.ledger.open_ledger`.
    by, note
        Who adopts it, and why.
    """

    def __init__(
        self,
        store: Store,
        identity: str,
        policy: Policy | None,
        anchors: Sequence[AnyAnchor] = (),
        *,
        purpose: Purpose = "ask",
        by: str = "owner",
        note: str = "",
    ) -> None:
        self._store = store
        self._anchors = tuple(anchors)
        self.identity = identity
        self._guest = None if policy is None or owns(policy, identity) else policy.identity
        self._policy, self._units = policy, None if policy is None else freeze(units_of(policy))
        # who decides may state another budget; whoever then spends through it may not
        self._deciding = policy if purpose in {"decide", "adopt"} else None
        if purpose in {"decide", "adopt"}:
            self._check_owner()
        self._spends = purpose not in {"look", "try"}
        self.claims = bool(self._anchors) and self._spends
        """Whether data that are opened with it are entered as charged to it."""
        self._first = self._open(policy, purpose, {"by": by, "note": note})

    @property
    def where(self) -> str:
        """Path, server or ``":memory:"``."""
        return self._store.where

    @property
    def units(self) -> Mapping[str, Unit] | None:
        """Neighbours and unit of each private table of the policy, where that is known."""
        return self._units

    def disconnect(self) -> None:
        """Let go of connections that are kept open for the next use; there may still be one."""
        self._store.drop()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.where!r}, policy {self.identity!r})"

    # -- opening ------------------------------------------------------------------

    def _open(self, policy: Policy | None, purpose: Purpose, signed: dict[str, str]) -> str:
        """Check the ledger as it is; write what is missing, unless we only look."""
        marks, version, first = self.marks(), self._store.version(), None
        looking, adopting = purpose in {"look", "try"}, purpose == "adopt"
        makes = policy is not None and self._guest is None and not looking and not adopting
        if version is None and not any(marks) and not makes:
            raise absent(self.where)
        if not adopting:
            check_watch(self.where, self._anchors, marks)
        if (version == FORMAT and any(marks)) or (looking and version in {FORMAT, None}):
            first, complete = self._look(policy, purpose)
            if looking or (complete and not adopting):
                return first
            if complete:
                raise LedgerError(f"the ledger {self.where!r} is in order: nothing to adopt")
        try:
            adoption = signed if adopting else None
            return apart(lambda: self._enter(policy, purpose, adoption, makes=makes))
        except LedgerError as error:
            # who may not write the marks may still look; every debit will be refused
            if first is None or type(error) is not LedgerError:
                raise
            return first

    def _enter(
        self, policy: Policy | None, purpose: Purpose, signed: dict[str, str] | None, *, makes: bool
    ) -> str:
        """Open, and write what is missing: the first line, a newer format, marks."""
        opening: dict[str, Any] = {"policy": self.identity, "format": FORMAT}
        if self._anchors and (past := forgotten_ledgers(self.identity)):
            opening["forgotten"] = past
        if policy is not None:  # before the locks: it may take a moment
            opening |= {"fingerprint": policy.fingerprint, **_budget.decided(policy.budget)}
        with self._hold(adopting=purpose == "adopt") as anchors:
            marks = [mark for anchor in anchors if (mark := anchor.mark) is not None]
            create = makes and not marks
            self._store.prepare()
            with self._store.writing(create=create) as tx:
                head = tx.head()
                if head is None:
                    if not create:
                        raise gone(self.where) if marks else absent(self.where)
                    line, head = next_line(None, now(), "open", opening)
                    tx.append(line, head)
                    self._first = line.hash
                else:
                    turn = Turn(tx, head)
                    self._first = self._reopen(turn, policy, purpose, marks, signed)
                    head = turn.head
            self._move(anchors, head)
        return self._first

    def _look(self, policy: Policy | None, purpose: Purpose) -> tuple[str, bool]:
        """Open without writing: hash of the first line, and whether every mark is up to date."""
        marks = self.marks()
        with self.reading() as (tx, head):
            first = self._fit(tx, head, policy, purpose)
            if not any(marks):
                self._check_known(head)
            here = (head.hash, self.where, self._witness)
            theirs = [mark and (mark.hash, mark.where, mark.witness) for mark in marks]
            # tables may be newer than the chain in them: another policy's, or one that was refused
            present = head.content.format == FORMAT
            return first, present and all(mark == here for mark in theirs)

    def _fit(self, tx: Transaction, head: Head, policy: Policy | None, purpose: Purpose) -> str:
        """Refuse a ledger of another policy or budget; name it by its first line."""
        state = head.content
        if state.policy != self.identity:
            raise foreign(self.where, state.policy, self.identity)
        if self._guest is not None and self._guest not in state.guests:
            raise LedgerIntegrityError(
                f"policy {self._guest!r} wants to spend from the budget of {self.identity!r}, "
                "whose owner has not consented",
                hint=consenting(self.where, self._guest),
            )
        if policy is not None and purpose in {"ask", "try"}:
            agree(self.where, state, policy)
            check_units(self.identity, self.where, state, policy)
        first = tx.line(1)
        if first is None:
            raise damaged(1)
        return first.hash

    def _reopen(
        self,
        turn: Turn,
        policy: Policy | None,
        purpose: Purpose,
        marks: Sequence[Mark],
        signed: dict[str, str] | None,
    ) -> str:
        self._check(marks, turn.tx, turn.head)
        first = self._fit(turn.tx, turn.head, policy, purpose)
        if turn.head.content.format < FORMAT:
            turn.upgrade()
        if signed is not None:
            lines = tuple(turn.tx.lines())
            check_links(lines, turn.head)
            check_store(turn.tx, lines, turn.head)
            turn.append("adopt", signed)
        elif not marks:
            self._check_known(turn.head)
        elif len(marks) < len(self._anchors):
            note("anchor missing", policy=self.identity, place=self.where)
        return first

    def _check_known(self, head: Head) -> None:
        """Refuse a file with lines that no anchor knows."""
        if head.number > 1 and any(anchor.durable for anchor in self._anchors):
            raise LedgerIntegrityError(
                f"the ledger {self.where!r} has {head.number} lines but no anchor: "
                "nobody here can tell whether it is the latest one",
                hint=Hint.call("discreet.ledger.adopt", "discreet ledger adopt", ledger=self.where),
            )

    def _check_owner(self) -> None:
        """Refuse a decision by a policy that only spends from this budget."""
        if self._guest is not None:
            raise LedgerError(
                f"policy {self._guest!r} spends from the budget of {self.identity!r}: decisions "
                "about it are made through that policy",
                hint=f"--policy FILE, the file of {self.identity}",
            )

    # -- anchors ------------------------------------------------------------------

    def marks(self) -> list[Mark | None]:
        """Last line that each anchor knows of; None where there is none."""
        return [anchor.read() for anchor in self._anchors]

    @property
    def unmarked(self) -> tuple[str, ...]:
        """Anchors and witnesses that are missing or unreadable; the next debit writes them."""
        pairs = zip(self._anchors, self.marks(), strict=True)
        return tuple(anchor.name for anchor, mark in pairs if mark is None)

    @property
    def _witness(self) -> str:
        return next((anchor.afar for anchor in self._anchors if anchor.afar), "")

    @contextmanager
    def _hold(self, *, adopting: bool = False) -> Iterator[list[AnyHold]]:
        """Hold all anchors, the one that copies of the ledger share before their own.

        A witness may have been named since this handle was opened: whoever does not ask it
        is refused here, before anything is written.
        """
        with ExitStack() as stack:
            order = sorted(self._anchors, key=lambda anchor: anchor.durable)
            locks = [stack.enter_context(anchor.hold(self._store.wait)) for anchor in order]
            if not adopting:
                check_watch(self.where, order, [anchor.mark for anchor in locks])
            yield locks

    def _move(self, anchors: Sequence[AnyHold], head: Head) -> None:
        mark = Mark(self.identity, self._first, head.number, head.hash, self.where, self._witness)
        for anchor in anchors:
            anchor.move(mark)

    def _check(self, marks: Sequence[Mark], tx: Transaction, head: Head) -> None:
        """Refuse a head that is damaged, or a ledger that misses a mark."""
        check_head(head, tx.line(head.number))
        for mark in marks:
            if mark.policy != self.identity:
                raise foreign(self.where, mark.policy, self.identity)
            if head.number < mark.number:
                raise LedgerIntegrityError(
                    f"the ledger {self.where!r} has {head.number} lines, but it had "
                    f"{mark.number}: it was truncated, copied or restored from an older backup",
                    hint=Hint("ledger", mark.where) if mark.where != self.where else None,
                )
            # the end itself was checked above
            there = head if mark.number == head.number else reached(tx.line, head, mark.number)
            if there.hash != mark.hash:
                raise LedgerIntegrityError(
                    f"line {mark.number} of the ledger {self.where!r} is not the one that was "
                    "written: the ledger was edited or copied, or another one took its place",
                    hint=RESTORE,
                )

    @contextmanager
    def reading(self) -> Iterator[tuple[Transaction, Head]]:
        """Read one committed state, after it was compared with the marks."""
        # before the snapshot, which is then never behind them
        marks = [mark for mark in self.marks() if mark is not None]
        with self._store.reading() as tx:
            head = self._head(tx, known=bool(marks))
            self._check(marks, tx, head)
            yield tx, head

    @contextmanager
    def _writing(self) -> Iterator[Turn]:
        """Take a turn: the anchors are held from before the check until they are moved.

        Whoever cannot move them is refused before anything is written.
        """
        with self._hold() as anchors:
            with self._store.writing() as tx:
                turn = Turn(tx, self._head(tx))
                marks = [mark for anchor in anchors if (mark := anchor.mark) is not None]
                self._check(marks, tx, turn.head)
                self._first = line.hash if (line := tx.line(1)) is not None else self._first
                yield turn
            # also before an answer is given out that nobody has seen yet
            self._move(anchors, turn.head)
            self._latest = turn.head

    def _write(self, work: Callable[[Turn], T]) -> T:
        """Do some work in a turn, together with whoever else waits for one."""
        if not self._spends:
            raise LedgerError(
                f"the ledger {self.where!r} was opened to look at it: nothing is written through "
                "this handle, and nothing charged",
                hint=Hint("purpose", "ask"),
            )
        group = group_of(self.where, self.identity, self._anchors)
        return group.write(work, self._writing, self._store.wait)

    def _mark(self, head: Head) -> None:
        """Move marks that a kill has left behind, before what they do not know is given out."""
        if any(mark is None or mark.number < head.number for mark in self.marks()):
            self._write(lambda _turn: None)

    def _head(self, tx: Transaction, *, known: bool = True) -> Head:
        head = tx.head()
        if head is None:
            raise gone(self.where) if known else absent(self.where)
        return head

    # -- spending -------------------------------------------------------------------

    def debit(self, entry: Entry) -> Receipt:
        """Record a debit durably, or find the answer it already paid for, or refuse.

        Raises
        ------
        BudgetExceededError, LedgerClosedError, TaintedNoiseError, IdempotencyError
            Nothing is recorded.
        LedgerError
            The ledger cannot be used; nothing may be released.
        """
        self._acceptable(entry)
        return self._write(lambda turn: self._debit(turn, entry))

    def knows(self, entry: Entry) -> bool:
        """Tell whether `entry` has been answered: it would be free."""
        if entry.fresh or not entry.runs:
            return False
        with self.reading() as (tx, head):
            question = question_of(head.content, entry, cost_body(entry.cost))
            return tx.answered(question) is not None

    def _debit(self, turn: Turn, entry: Entry) -> Receipt:
        slot, state = slot_of(entry.analyst, entry.key), turn.head.content
        if self._deciding is not None:
            agree(self.where, state, self._deciding)
        if self._policy is not None and state.guests:  # who may have agreed on others since
            check_units(self.identity, self.where, state, self._policy)
        body: Mapping[str, Any] = debit_body(state, entry)
        question = question_of(state, entry, body["cost"])
        body = Frozen({**body, "question": question})  # it is spelled once
        receipt = payment_of(turn.tx, turn.head, entry, slot, question)
        if receipt is None:
            check_paid(turn.tx, state, entry)
            then = self._admit(state, entry, body, turn.head.number + 1)
            line = turn.append("debit", body, then, slot=slot, question=question)
            receipt = Receipt(line.number, line.hash, line.when)
        elif slot is not None and turn.tx.in_slot(slot) is None:
            if turn.tx.bound(question, receipt.number) >= KEYS:
                raise IdempotencyError(
                    f"{KEYS} keys have taken up the answer that another one has paid for; nothing "
                    "was charged",
                    hint="ask without a key, or with one that was used for it",
                )
            turn.append("key", binding(entry, question, receipt.number, receipt.hash),
                        slot=slot, question=question)  # fmt: skip
        entry.live.add(receipt.hash)
        return receipt

    def found(self, entry: Entry) -> Receipt | None:
        """Give the stored answer that an equal question has, or its key; nothing is written.

        A key is not bound to what it finds here: a service keeps its own account of keys.
        """
        self._acceptable(entry)
        with self.reading() as (tx, head):
            question = question_of(head.content, entry, cost_body(entry.cost))
            receipt = payment_of(tx, head, entry, slot_of(entry.analyst, entry.key), question)
        if receipt is None or receipt.stored is None:
            return None
        self._mark(head)
        return receipt

    def bound(self, analyst: str | None, key: str) -> bool:
        """Tell whether a key has its debit: whatever is asked under it, none is added."""
        with self.reading() as (tx, _):
            return tx.in_slot(slot_of(analyst, key) or "") is not None

    def _admit(self, state: State, entry: Entry, body: Mapping[str, Any], number: int) -> State:
        try:
            return _budget.admit(state, entry, body, number)
        except BudgetExceededError as refusal:
            if entry.external is None:
                raise
            # a smaller price would be a false statement: the loss is what it is
            raise BudgetExceededError(
                refusal.message.replace("this query", "this loss"),
                hint="do not release it; or its owner raises the budget: discreet budget raise",
            ) from None

    def _acceptable(self, entry: Entry) -> None:
        if entry.tainted:
            raise TaintedNoiseError(
                "noise would come from the deterministic test source: nothing drawn from it "
                "is private"
            )
        if entry.policy != self.identity:
            raise foreign(self.where, self.identity, entry.policy)
        if entry.analyst is not None and len(entry.analyst) > _LONGEST_KEY:
            raise ParameterError(f"an analyst's name has at most {_LONGEST_KEY} characters")
        if entry.key is not None and not (
            isinstance(entry.key, str) and 0 < len(entry.key) <= _LONGEST_KEY
        ):
            raise ParameterError(f"a key is a text of 1 to {_LONGEST_KEY} characters")

    def settle(self, receipt: Receipt, record: str | None) -> str | None:
        """Store the outcome of a run (None: it failed), unless one is stored.

        Returns the outcome that is stored. Only that may be released. It is paid for,
        so we try more than once.
        """
        for tries_left in reversed(range(_TRIES)):
            try:
                return self._write(lambda turn: settle_in(turn, receipt, record))
            except LedgerIntegrityError:
                raise
            except LedgerError as error:
                if not tries_left:
                    raise unsettled(error) from None
        raise AssertionError("unreachable")

    def post(
        self, runs: Sequence[tuple[Receipt, str | None]], entries: Sequence[Entry]
    ) -> tuple[list[str | DiscreetError | None], list[Receipt | DiscreetError]]:
        """Settle runs, then debit entries, in one turn with one sync.

        Gives what :meth:`settle` and :meth:`debit` would, or what they would raise. A refusal is
        its own entry's; where the ledger cannot be used, only settling is tried more than once.
        """
        receipts: list[Receipt | DiscreetError] | None = None
        for tries_left in reversed(range(_TRIES)):
            debits = entries if receipts is None else ()
            try:
                results = self._write(partial(self._posted, runs, debits))
            except LedgerError as error:
                # each is raised elsewhere: a traceback belongs to one of them
                receipts = receipts or [error.with_hint(error.hint) for _ in entries]
                lasting = isinstance(error, LedgerIntegrityError)
                if not runs or lasting or not tries_left:
                    last = error if lasting else unsettled(error)
                    return [last.with_hint(last.hint) for _ in runs], receipts
            else:
                stored, new = results
                return stored, new if receipts is None else receipts
        raise AssertionError("unreachable")

    def _posted(
        self, runs: Sequence[tuple[Receipt, str | None]], entries: Sequence[Entry], turn: Turn
    ) -> tuple[list[str | DiscreetError | None], list[Receipt | DiscreetError]]:
        stored = [one(turn, partial(settle_in, receipt=r, record=text)) for r, text in runs]
        return stored, [one(turn, partial(self._accept, entry)) for entry in entries]

    def _accept(self, entry: Entry, turn: Turn) -> Receipt:
        self._acceptable(entry)
        return self._debit(turn, entry)

    # -- reading --------------------------------------------------------------------

    def balance(self, analyst: str | None = None) -> Balance:
        """Balance of the whole, or of one analyst's share, in this period."""
        return _budget.balance(self.state, analyst)

    @property
    def lines(self) -> Sequence[Line]:
        """The full history, oldest first, its chain checked."""
        with self.reading() as (tx, head):
            lines = tuple(tx.lines())
            check_links(lines, head)
            return lines

    def outcome(self, number: int, line: str) -> tuple[bool, str | None] | None:
        """Whether the run of a debit succeeded, and its record; None: it is open.

        The debit is named by its line's number and hash; its seal is checked.
        """
        with self.reading() as (tx, head):
            debit = tx.line(number)
            if debit is None or debit.kind != "debit" or debit.hash != line:
                raise damaged(number)
            outcome = outcome_of(tx, head, debit)
        if self._spends:
            self._mark(head)
        return outcome

    @property
    def entries(self) -> Sequence[Entry]:
        """All debits of all periods, oldest first."""
        return tuple(line.entry(self.identity) for line in self.lines if line.kind == "debit")

    def verify(self) -> Verified:
        """Recompute every hash, total and admission; compare answers, indices and anchors.

        Raises
        ------
        LedgerIntegrityError
            Names the first thing that is not as it was written.
        """
        with self.reading() as (tx, head):
            lines = tuple(tx.lines())
            check_links(lines, head)
            check_store(tx, lines, head)
            debits = sum(line.kind == "debit" for line in lines)
            return Verified(len(lines), debits, head.content.period, head.hash, self.unmarked)

    def _decide(
        self, kind: str, decide: Callable[[State], dict[str, Any]], by: str, note: str
    ) -> None:
        self._check_owner()
        self._write(
            lambda turn: turn.append(kind, {**decide(turn.head.content), "by": by, "note": note})
        )
