"""The one road: debit, run, settle. Whatever is released has travelled it.

Order of events: the job's statements are proved, the debit is durable, the job runs,
its outcome is stored, and only what is stored is returned. See
:mod:`discreet.ledger` for why that makes retries safe.

Nothing is free: a job costs at least the policy's least price, and so does every
further run of a job whose outcome was never stored. A channel that remains (time, a
failure for want of memory) is thereby metered.

An interrupt from the keyboard is no outcome: when it comes is decided outside, as for
a kill, and the same question is taken up again under its debit. Whoever interrupts is told
whether the question is paid for, or that it may be.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from types import FrameType
from typing import Final

from discreet import noise
from discreet._dataclass import dataclass, replace
from discreet._exact import show
from discreet._log import note
from discreet.engines import conceal_errors
from discreet.errors import DiscreetError, EngineError, LedgerError
from discreet.ledger import Entry, Ledger, Receipt
from discreet.plan import Cost
from discreet.privacy import Zcdp


@dataclass(frozen=True)
class Job:
    """Something to be paid for: what the ledger enters, and what then runs.

    ``run`` returns the outcome as it is stored. ``once`` says that the plan names something that
    is released once in a period, at whatever price, and ``paid_by`` names the one that has paid for
    it. ``external`` says what other software
    has released; then nothing runs. ``text`` says in words what is asked. ``failed`` is stored
    where the run fails, for those who must know what a failure has cost; it is public, and no other
    run's.
    """

    plan: str
    cost: Cost
    noise: str
    neighbours: str
    unit: str | None
    tables: tuple[str, ...]
    run: Callable[[], str]
    once: bool = False
    paid_by: str | None = None
    external: str | None = None
    text: str | None = None
    failed: str | None = None


@dataclass(frozen=True)
class Outcome:
    """What was stored, whether it had been before, and the price of taking up its run."""

    text: str
    cached: bool
    again: Cost | None = None


class _Watch:
    """A handler of interrupts that notes when the one before it has raised.

    Left in place by accident it does what that one does. While it is taken away it only
    keeps the interrupt, so that this is done whole.
    """

    def __init__(self, before: Callable[..., object]) -> None:
        self.before = before
        self.raised = self.leaving = self.late = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.leaving:
            self.late = True
            return
        try:
            self.before(number, frame)
        except BaseException:
            self.raised = True
            raise


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Tell whether an interrupt has raised, also where an engine hides it in its own error."""
    before = signal.getsignal(signal.SIGINT)
    while isinstance(before, _Watch):
        before = before.before
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    watch = _Watch(before)
    signal.signal(signal.SIGINT, watch)
    try:
        yield lambda: watch.raised
    finally:
        watch.leaving = True  # no call: nothing can come between
        if signal.getsignal(signal.SIGINT) is watch:  # else the caller has set another one
            signal.signal(signal.SIGINT, before)
        watch.leaving = False
        if watch.late:
            before(signal.SIGINT, None)


@dataclass(frozen=True)
class Paid:
    """A job whose debit is durable: what was entered, the receipt, and what is stored already."""

    entry: Entry
    receipt: Receipt
    outcome: Outcome | None


_LIVE: Final[set[str]] = set()
"""Debits whose runs go on in this process, by the hashes of their lines."""


class _Asking(set[str]):
    """Debits whose runs go on, for one who asks; its own is entered while it waits for it."""

    gone = False

    def __contains__(self, debit: object) -> bool:
        return debit in _LIVE

    def add(self, debit: str) -> None:
        """Enter the debit that was made or taken up, unless nobody waits for it any more."""
        super().add(debit)
        _LIVE.add(debit)
        if self.gone:
            _LIVE.discard(debit)

    def leave(self) -> None:
        """Wait no longer: whatever was or will be entered has no run."""
        self.gone = True
        _LIVE.difference_update(self)


@dataclass(frozen=True)
class Claim:
    """A debit that somebody asks for, by an entry of its own."""

    entry: Entry
    asking: _Asking

    def refused(self, refusal: BaseException) -> None:
        """Note that it was not debited."""
        self.asking.leave()  # there may be a debit, but no run
        if isinstance(refusal, LedgerError):
            # its words are about files and lines, never about data
            note("ledger refused", refusal, policy=self.entry.policy, said=refusal.message)

    def paid(self, receipt: Receipt) -> Paid:
        """Give what its debit has paid for; refuse a key whose question has failed."""
        if receipt.failed:
            self.asking.leave()
            raise EngineError(
                "the question that this key paid for failed; it cannot run under this key again",
                hint="use a new key",
            )
        outcome = None if receipt.stored is None else Outcome(receipt.stored, cached=True)
        return Paid(self.entry, receipt, outcome)


def leave(purchase: Paid) -> None:
    """Say that the run of a debit goes on no longer."""
    _LIVE.discard(purchase.receipt.hash)


def _with_key(entry: Entry) -> str:
    return "" if entry.key is None else f" with the key {entry.key!r}"


def settle(ledger: Ledger, receipt: Receipt, text: str | None) -> Outcome:
    """Store the outcome of a run (None: it failed); give what is stored."""
    return released(text, ledger.settle(receipt, text))


def released(text: str | None, outcome: str | None) -> Outcome:
    """Give what is stored for a run, which may be another one's than its own."""
    if text is None and outcome is None:
        raise EngineError("the question failed; why is not disclosed, and it stays paid")
    if outcome is None:
        raise EngineError("another run for the same key has failed", hint="use a new key")
    return Outcome(outcome, cached=outcome != text)


@dataclass(frozen=True)
class Road:
    """The way from a job to its outcome, under one policy and one ledger."""

    ledger: Ledger
    policy: str
    fingerprint: str
    analyst: str | None
    source: str
    least: Cost

    def travel(self, job: Job, *, key: str | None = None, fresh: bool = False) -> Outcome:
        """Debit, run, settle; give what is stored."""
        asking = _Asking()
        try:
            purchase = self.pay(job, key=key, fresh=fresh, asking=asking)
            if purchase.outcome is not None:
                return purchase.outcome
            try:
                if not purchase.receipt.charged:
                    self.meter(purchase)
                outcome = self._finish(job, purchase.receipt)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(self._debit_words(purchase)) from None
            return outcome if purchase.receipt.charged else replace(outcome, again=self.least)
        finally:
            asking.leave()

    def pay(
        self,
        job: Job,
        *,
        key: str | None = None,
        fresh: bool = False,
        asking: _Asking | None = None,
    ) -> Paid:
        """Debit a job durably, or find what it has been paid for; nothing runs here.

        Whoever calls it runs the job unless there is an outcome, after :meth:`meter` if an
        earlier debit is taken up, then calls :func:`settle`, and :func:`leave` at the end.
        """
        claim = self.claim(job, key=key, fresh=fresh, asking=asking)
        try:
            receipt = self.ledger.debit(claim.entry)
        except BaseException as refusal:
            claim.refused(refusal)
            if isinstance(refusal, KeyboardInterrupt):
                raise KeyboardInterrupt(self._perhaps(claim.entry)) from None
            raise
        return claim.paid(receipt)

    def claim(
        self, job: Job, *, key: str | None, fresh: bool, asking: _Asking | None = None
    ) -> Claim:
        """Give what is to be debited for a job, and a place among what is underway."""
        asking = _Asking() if asking is None else asking  # an empty one is false
        return Claim(replace(self._entry(job, key=key, fresh=fresh), live=asking), asking)

    def find(self, job: Job, *, key: str | None = None) -> Paid | None:
        """Give the stored outcome that a job has paid for; nothing is written."""
        entry = self._entry(job, key=key, fresh=False)
        receipt = self.ledger.found(entry)
        if receipt is None or receipt.stored is None:
            return None
        return Paid(entry, receipt, Outcome(receipt.stored, cached=True))

    def meter(self, purchase: Paid) -> None:
        """Debit the least price for one more run under a debit whose outcome never came."""
        plan = f"again {purchase.receipt.hash}"
        again = replace(
            purchase.entry, plan=plan, cost=self.least, key=None, once=False, paid_by=None
        )
        self.ledger.debit(replace(again, fresh=True, runs=False, live=set()))

    def _perhaps(self, entry: Entry) -> str:
        """Say what an interrupt during the debit may have left: the writer goes on without us."""
        return (
            "interrupted while the debit was written: this question may have been paid. "
            f"Ask the same question again{_with_key(entry)}: if it was, it is finished under its "
            f"debit, for the least price, ε {show(self.least.epsilon)}"
        )

    def _debit_words(self, purchase: Paid) -> str:
        """Say what an interrupt after the debit has left."""
        return (
            f"interrupted after the debit: line {purchase.receipt.number} has paid for this "
            f"question. Ask the same question again{_with_key(purchase.entry)}: it is finished "
            f"under that line, for the least price, ε {show(self.least.epsilon)}"
        )

    def _finish(self, job: Job, receipt: Receipt) -> Outcome:
        """Run what is paid for, and settle."""
        failure: Exception | None = None
        with _interrupts() as interrupted:
            try:
                # our own errors are built from public facts alone; others may hold data
                text = conceal_errors(job.run, but=(DiscreetError,))
            except Exception as error:  # noqa: BLE001 - raised again below
                failure = error
        if failure is not None and interrupted():
            # an engine turned it into an error of its own; the run has no outcome
            raise KeyboardInterrupt from None
        if failure is not None:
            note("run failed", failure, policy=self.policy, line=receipt.number)
            # an outcome too: if it cannot be stored it is not told, not even as a context
            outcome = self.ledger.settle(receipt, job.failed)
            if outcome is not None and outcome != job.failed:
                return Outcome(outcome, cached=True)  # another run's: a debit has one outcome
            raise failure
        return settle(self.ledger, receipt, text)

    def knows(self, job: Job) -> bool:
        """Tell whether a job's outcome is stored: it would be free."""
        return self.ledger.knows(self._entry(job, key=None, fresh=False))

    def enter(self, job: Job, *, key: str | None = None) -> Receipt:
        """Debit a loss from elsewhere; nothing runs and nothing is stored."""
        return self.ledger.debit(replace(self._entry(job, key=key, fresh=True), runs=False))

    def _stated(self, cost: Cost) -> Cost:
        """State ε at no larger δ than the budget's, where ρ is debited and δ is not.

        Any ρ has an ε as small as one likes at some δ. What stands on record for somebody is
        the loss that the budget means.
        """
        if not cost.by_rho:
            return cost
        whole = self.ledger.balance()
        left = whole.delta - cost.rho_delta
        if whole.accounting != "zcdp" or cost.delta <= whole.delta or left <= 0:
            return cost
        return replace(cost, epsilon=Fraction(Zcdp(cost.rho).epsilon(left)), delta=whole.delta)

    def owed(self, cost: Cost) -> Cost:
        """What is debited for a cost: whoever counts, limits or shows a price counts this."""
        return self._stated(cost).at_least(self.least)

    def entry(self, job: Job) -> Entry:
        """Give what would be entered for a job that is asked for once more."""
        return self._entry(job, key=None, fresh=True)

    def _entry(self, job: Job, *, key: str | None, fresh: bool) -> Entry:
        return Entry(
            policy=self.policy,
            fingerprint=self.fingerprint,
            analyst=self.analyst,
            plan=job.plan,
            cost=self.owed(job.cost),
            noise=job.noise,
            neighbours=job.neighbours,
            unit=job.unit,
            tainted=noise.is_deterministic(),
            tables=job.tables,
            source=self.source,
            key=key,
            fresh=fresh,
            once=job.once,
            paid_by=job.paid_by,
            external=job.external,
            text=job.text,
        )
