r"""The ledger: debits and owners' decisions as lines of one chain, in any store.

One debit, one release
----------------------
The order of events of a question is: *debit* (durable) → engine and noise → *settle*
(durable) → answer. A caller only ever receives what :meth:`ChainedLedger.settle`
or :meth:`ChainedLedger.debit` returns, and that is what is stored. Outcomes are
inserted only if the debit has none, inside a transaction that excludes other
writers, and are never changed. Hence at most one outcome per debit is ever
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

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from discreet._canonical import canonical, digest
from discreet._exact import Number, decimal
from discreet.errors import (
    Hint,
    IdempotencyError,
    LedgerError,
    LedgerIntegrityError,
    ParameterError,
    TaintedNoiseError,
)
from discreet.ledger import _budget
from discreet.ledger._anchor import Anchor, Mark
from discreet.ledger._chain import (
    Head,
    Line,
    check_head,
    check_links,
    check_replay,
    next_line,
)
from discreet.ledger._protocol import Balance, Entry, Receipt
from discreet.ledger._state import (
    EVERYTHING,
    State,
    budget_body,
    coarse,
    cost_body,
    rational,
    read_budget,
)
from discreet.ledger._store import Store, Transaction
from discreet.policy import Budget, Policy

_LONGEST_KEY: Final = 200


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")


@dataclass(frozen=True, slots=True)
class Verified:
    """What :meth:`ChainedLedger.verify` found to be in order."""

    lines: int
    debits: int
    period: int
    head: str

    def __str__(self) -> str:
        return (
            f"{self.lines} lines, {self.debits} of them debits, period {self.period}: "
            f"chain, totals and anchors agree (head {self.head[:16]})"
        )


class ChainedLedger:
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
    adopt
        Accept a ledger without any anchor, and put that on record.
    """

    def __init__(
        self,
        store: Store,
        identity: str,
        policy: Policy | None,
        anchors: Sequence[Anchor] = (),
        *,
        adopt: bool = False,
    ) -> None:
        self._store = store
        self._anchors = tuple(anchors)
        self.identity = identity
        self._first = self._open(policy, adopt=adopt)

    @property
    def where(self) -> str:
        """Path, server or ``":memory:"``."""
        return self._store.where

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.where!r}, policy {self.identity!r})"

    # -- opening ------------------------------------------------------------------

    def _open(self, policy: Policy | None, *, adopt: bool) -> str:
        create = policy is not None and not self._marks()
        body: dict[str, Any] = {"policy": self.identity}
        if create and policy is not None:  # before the lock: it may take a moment
            body |= {"fingerprint": policy.fingerprint, **_budget.decided(policy.budget)}
        with self._store.writing(create=create) as tx:
            head = tx.head()
            if head is None:
                if not create or self._marks():
                    raise LedgerIntegrityError(
                        f"the ledger {self.where!r} holds no line of policy {self.identity!r}, "
                        "although it is known to have had some"
                    )
                line, head = next_line(None, _now(), "open", body)
                tx.append(line, head, None, None)
                first = line.hash
            else:
                first = self._reopen(tx, head, policy, adopt=adopt)
                head = tx.head()
                assert head is not None
        self._first = first
        self._mark(head)
        return first

    def _reopen(self, tx: Transaction, head: Head, policy: Policy | None, *, adopt: bool) -> str:
        marks = self._marks()
        self._check(marks, tx, head)
        check_links(tx.lines(), head)
        state = head.content
        if state.policy != self.identity:
            raise foreign(self.where, state.policy, self.identity)
        if policy is not None:
            _agree(self.where, state, policy.budget)
        beside = any(anchor.durable for anchor in self._anchors)
        if beside and not marks and head.number > 1:
            if not adopt:
                raise LedgerIntegrityError(
                    f"the ledger {self.where!r} has {head.number} lines but no anchor: nobody "
                    "here can tell whether it is the latest one",
                    hint=f'discreet.ledger.adopt("{self.where}")',
                )
            check_replay(tx.lines(), head)
            line, end = next_line(head, _now(), "adopt", {})
            tx.append(line, end, None, None)
        first = tx.line(1)
        assert first is not None
        return first.hash

    # -- anchors ------------------------------------------------------------------

    def _marks(self) -> list[Mark]:
        return [mark for anchor in self._anchors if (mark := anchor.read()) is not None]

    def _mark(self, head: Head) -> None:
        mark = Mark(self.identity, self._first, head.number, head.hash, self.where)
        for anchor in self._anchors:
            anchor.write(mark)

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
            line = tx.line(mark.number) if mark.number != head.number else None
            if (head.hash if line is None else line.hash) != mark.hash:
                raise LedgerIntegrityError(
                    f"line {mark.number} of the ledger {self.where!r} is not the one that was "
                    "written: the ledger was edited, or another one took its place"
                )

    @contextmanager
    def _reading(self) -> Iterator[tuple[Transaction, Head]]:
        marks = self._marks()  # before the snapshot, which is then never behind them
        with self._store.reading() as tx:
            head = self._head(tx)
            self._check(marks, tx, head)
            yield tx, head

    @contextmanager
    def _writing(self) -> Iterator[tuple[Transaction, Head]]:
        with self._store.writing() as tx:
            head = self._head(tx)
            self._check(self._marks(), tx, head)
            yield tx, head

    def _head(self, tx: Transaction) -> Head:
        head = tx.head()
        if head is None:
            raise LedgerIntegrityError(
                f"the ledger {self.where!r} was emptied: a new one would be a fresh budget"
            )
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
        slot = None if entry.key is None else digest(canonical([entry.analyst or "", entry.key]))
        with self._writing() as (tx, head):
            state = head.content
            body = _debit_body(state.limits, entry)
            question = _question(state, entry, body["cost"])
            receipt = self._found(tx, entry, slot, question)
            if receipt is not None:
                return receipt
            then = _budget.admit(state, entry, body)
            line, end = next_line(head, _now(), "debit", body, then)
            tx.append(line, end, slot, question)
        self._mark(end)
        return Receipt(line.number, line.hash, line.when)

    def _acceptable(self, entry: Entry) -> None:
        if entry.tainted:
            raise TaintedNoiseError(
                "noise would come from the deterministic test source: nothing drawn from it "
                "is private"
            )
        if entry.policy != self.identity:
            raise foreign(self.where, self.identity, entry.policy)
        if entry.key is not None and not (
            isinstance(entry.key, str) and 0 < len(entry.key) <= _LONGEST_KEY
        ):
            raise ParameterError(f"a key is a text of 1 to {_LONGEST_KEY} characters")

    def _found(
        self, tx: Transaction, entry: Entry, slot: str | None, question: str
    ) -> Receipt | None:
        """The line that has paid for this question already, if there is one."""
        number = None if slot is None else tx.in_slot(slot)
        keyed = number is not None
        if number is None and not entry.fresh:
            number = tx.answered(question)
        if number is None:
            return None
        line = tx.line(number)
        assert line is not None
        if keyed and _asked_by(line.entry(self.identity)) != _asked_by(entry):
            raise IdempotencyError(
                f"the key {entry.key!r} was used for another question or price",
                hint="use a new key for a new question",
            )
        outcome = tx.outcome(number)
        finished, record = (False, None) if outcome is None else outcome
        failed = outcome is not None and not finished
        return Receipt(number, line.hash, line.when, charged=False, stored=record, failed=failed)

    def settle(self, receipt: Receipt, record: str | None) -> str | None:
        """Store the outcome of a run (None: it failed), unless one is stored.

        Returns the outcome that is stored. Only that may be released.
        """
        with self._writing() as (tx, _):
            line = tx.line(receipt.number)
            if line is None or line.hash != receipt.hash or line.kind != "debit":
                raise LedgerIntegrityError("the debit of this run is no longer in the ledger")
            outcome = tx.outcome(receipt.number)
            if outcome is not None:
                return outcome[1]
            tx.settle(receipt.number, record)
        return record

    # -- reading --------------------------------------------------------------------

    def balance(self, analyst: str | None = None) -> Balance:
        """Balance of the whole, or of one analyst's share, in this period."""
        return _budget.balance(self.state, analyst)

    @property
    def state(self) -> State:
        """Budget in force, closed tables, period, spending by analyst."""
        with self._reading() as (_, head):
            return head.content

    @property
    def lines(self) -> Sequence[Line]:
        """The full history, oldest first, its chain checked."""
        with self._reading() as (tx, head):
            lines = tuple(tx.lines())
            check_links(lines, head)
            return lines

    @property
    def entries(self) -> Sequence[Entry]:
        """All debits of all periods, oldest first."""
        return tuple(line.entry(self.identity) for line in self.lines if line.kind == "debit")

    def verify(self) -> Verified:
        """Recompute every hash, every total and every admission; compare the anchors."""
        with self._reading() as (tx, head):
            lines = tuple(tx.lines())
            check_links(lines, head)
            check_replay(lines, head)
            debits = sum(line.kind == "debit" for line in lines)
            return Verified(len(lines), debits, head.content.period, head.hash)

    # -- the owner's decisions ----------------------------------------------------------

    def raise_budget(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
        accounting: str | None = None,
        by: str = "owner",
        note: str = "",
    ) -> None:
        """Put a new total on record (a lower one is possible too); spending stays spent.

        Parameters
        ----------
        epsilon, delta, rho, accounting
            New totals; what is left out stays as it is.
        by, note
            Who decided, and why.
        """
        totals = {"epsilon": epsilon, "delta": delta, "rho": rho}
        changes: dict[str, Any] = {
            k: rational(decimal(v, k)) for k, v in totals.items() if v is not None
        }
        if accounting is not None:
            changes["accounting"] = accounting
        if not changes:
            raise ParameterError(
                "raise_budget needs a new total",
                hint=Hint.call("raise_budget", "discreet budget raise", epsilon="3"),
            )

        def decide(state: State) -> dict[str, Any]:
            body = {**state.budget, **changes}
            if "rho" in changes and "epsilon" not in changes:
                body["epsilon"] = None
            if "epsilon" in changes and "rho" not in changes:
                body["rho"] = None
            return _budget.decided(read_budget(body))

        self._decide("budget", decide, by, note)

    def set_shares(
        self, shares: Mapping[str, Number], *, by: str = "owner", note: str = ""
    ) -> None:
        """Put new shares of the budget on record; an empty mapping abolishes them."""
        parts = {
            who: rational(decimal(part, f"the share of {who}")) for who, part in shares.items()
        }

        def decide(state: State) -> dict[str, Any]:
            return _budget.decided(read_budget({**state.budget, "shares": parts}))

        self._decide("budget", decide, by, note)

    def close(self, table: str | None = None, *, by: str = "owner", note: str = "") -> None:
        """Refuse all new questions about a table, or about everything."""
        body = {"table": EVERYTHING if table is None else table}
        self._decide("close", lambda _: body, by, note)

    def reopen(self, table: str | None = None, *, by: str = "owner", note: str = "") -> None:
        """Allow questions again about a table, or about everything."""
        body = {"table": EVERYTHING if table is None else table}
        self._decide("reopen", lambda _: body, by, note)

    def new_period(self, *, by: str = "owner", note: str = "") -> None:
        """Begin a new period with the whole budget.

        The guarantee then holds for each period by itself; for people whose data
        are in several periods, losses add up. Stored answers of earlier periods
        are not given out again.
        """
        self._decide("period", lambda _: {}, by, note)

    def _decide(
        self, kind: str, decide: Callable[[State], dict[str, Any]], by: str, note: str
    ) -> None:
        with self._writing() as (tx, head):
            body = {**decide(head.content), "by": by, "note": note}
            line, end = next_line(head, _now(), kind, body)
            tx.append(line, end, None, None)
        self._mark(end)


def _asked(entry: Entry, cost: Mapping[str, str]) -> list[object]:
    """Question, price and noise: equal for equal releases."""
    return [entry.fingerprint, entry.plan, entry.noise, entry.neighbours, entry.unit, cost]


def _asked_by(entry: Entry) -> list[object]:
    return _asked(entry, cost_body(entry.cost))


def _question(state: State, entry: Entry, cost: Mapping[str, str]) -> str:
    """Hash under which a stored answer may be given out again."""
    group = _budget.group_of(state.limits, entry.analyst)
    return digest(canonical([state.period, group, entry.source, *_asked(entry, cost)]))


def _debit_body(budget: Budget, entry: Entry) -> dict[str, Any]:
    names = ("fingerprint", "analyst", "plan", "noise", "neighbours", "unit", "source",
             "key")  # fmt: skip
    charged = _budget.charge(budget, entry.cost)
    return {
        **{name: getattr(entry, name) for name in names},
        "tables": list(entry.tables),
        "cost": cost_body(entry.cost),
        "accounting": budget.accounting,
        "charge": {currency: rational(coarse(x)) for currency, x in charged.items()},
    }


def foreign(where: str, owner: str, asked: str) -> LedgerIntegrityError:
    """Refusal of a ledger that belongs to another policy."""
    return LedgerIntegrityError(
        f"the ledger {where!r} belongs to policy {owner!r}, not to {asked!r}: renaming a policy "
        "does not make a fresh budget",
        hint=f'[policy] name = "{owner}"' if not owner.startswith("sha256:") else None,
    )


def _agree(where: str, state: State, budget: Budget) -> None:
    """Refuse a policy whose budget is neither the first one nor the one in force."""
    proposal = budget_body(budget)
    if proposal in (state.declared, state.budget):
        return
    here = f'discreet.ledger.open_ledger("{where}")'
    if where == ":memory:":
        here = "curator.ledger"
    elif "://" in where:
        here = f'discreet.ledger.open_ledger(url, "{state.policy}")'
    totals = {k: proposal[k] for k in ("epsilon", "delta", "rho", "accounting")}
    changed = [k for k, v in totals.items() if v is not None and v != state.budget[k]]
    if changed:
        new = {k: totals[k].removesuffix("/1") for k in changed}
        hint: str = Hint.call(f"{here}.raise_budget", "discreet budget raise", **new)
    else:
        shares = {who: part.removesuffix("/1") for who, part in proposal["shares"].items()}
        hint = f"{here}.set_shares({shares})"
    raise LedgerError(
        f"the policy's [budget] differs from the one on record in {where!r}: a change must be "
        "recorded by the owner",
        hint=hint,
    )
