"""A writer's turn: lines are chained to the head, one after another, in one transaction."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any

from discreet._canonical import digest
from discreet._dataclass import dataclass
from discreet._log import note
from discreet.errors import (
    IdempotencyError,
    LedgerBusyError,
    LedgerError,
    LedgerIntegrityError,
)
from discreet.ledger._chain import (
    GENESIS,
    Head,
    Line,
    check_links,
    damaged,
    jump_of,
    next_line,
    reached,
    seals,
)
from discreet.ledger._outcomes import (
    check_store,
    outcome_of,
    same_question,
    settling,
    slot_of,
    waiting_for,
)
from discreet.ledger._protocol import Entry, Receipt
from discreet.ledger._state import FORMAT, State, by_rho
from discreet.ledger._store import Transaction


def now() -> str:
    """Give the time as lines state it."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")


@dataclass(slots=True)
class Turn:
    """The transaction of one writer, and the end of the chain as it grows."""

    tx: Transaction
    head: Head

    def append(
        self,
        kind: str,
        body: Mapping[str, Any],
        then: State | None = None,
        **found_by: Any,
    ) -> Line:
        """Chain one more line, and store it."""
        far = jump_of(self.head.number + 1)
        target = self.tx.line(far) if far else None
        if far and (target is None or not seals(target)):
            raise damaged(far)
        jump = GENESIS if target is None else target.hash
        line, self.head = next_line(self.head, now(), kind, body, then, jump=jump)
        self.tx.append(line, self.head, **found_by)
        return line

    def upgrade(self) -> None:
        """Bring a chain to the present format; one of format 1 is checked whole, then sealed."""
        if self.head.content.format > 1:
            self._sealed(dict(self.head.content.open), self.tx.lines())
            return
        lines = tuple(self.tx.lines())
        check_links(lines, self.head)
        check_store(self.tx, lines, self.head)
        records = dict(self.tx.answers())
        questions = {n: question for n, _, question, _ in self.tx.index() if question is not None}
        waiting = {str(n): digest(lines[n - 1].body) for n in questions if n not in records}
        self._sealed(waiting, lines)
        for number, record in records.items():
            body = settling(lines[number - 1], questions[number], record)
            self.append("settle", body, settles=number)

    def _sealed(self, waiting: dict[str, str], lines: Iterable[Line]) -> None:
        """Append the line from which on the present format holds."""
        body: dict[str, object] = {"format": FORMAT, "open": waiting}
        # earlier formats read it off totals, which may have been rounded since
        for line in lines:
            if line.kind == "period":
                body.pop("by_rho", None)
            elif line.kind == "debit" and by_rho(line.content):
                body["by_rho"] = True
        self.append("format", body)


def settle_in(turn: Turn, receipt: Receipt, record: str | None) -> str | None:
    """Seal and store an outcome, unless one is stored; give the one that is."""
    line = turn.tx.line(receipt.number)
    if line is None or line.hash != receipt.hash or line.kind != "debit":
        raise LedgerIntegrityError("the debit of this run is no longer in the ledger")
    outcome = outcome_of(turn.tx, turn.head, line)
    if outcome is None:
        # a debit of format 1 does not say its question
        question = line.content.get("question") or asked_in(turn.tx, line.number)
        turn.append("settle", settling(line, question, record), settles=line.number)
        turn.tx.settle(line.number, record)
    return record if outcome is None else outcome[1]


def asked_in(tx: Transaction, number: int) -> str:
    """Question that a debit of format 1 is found by."""
    return next(question for n, _, question, _ in tx.index() if n == number) or ""


def unsettled(error: LedgerError) -> LedgerError:
    """Say of an outcome that could not be stored what is true of it: it is paid for."""
    note("outcome not stored", error, said=error.message)
    kind = LedgerBusyError if isinstance(error, LedgerBusyError) else LedgerError
    why = "is in use" if kind is LedgerBusyError else "cannot be written"
    return kind(
        f"the ledger {why}, so the outcome of this run could not be stored and is not released; "
        "its debit stands, and the same question will be taken up under it",
        hint="ask the same question again",
    )


def payment_of(
    tx: Transaction, head: Head, entry: Entry, slot: str | None, question: str
) -> Receipt | None:
    """The line that has paid for this question already, if there is one."""
    number = None if slot is None else tx.in_slot(slot)
    keyed = number is not None
    if number is None and entry.runs:
        live = entry.live if entry.fresh else set()
        number = (not entry.fresh and tx.answered(question)) or waiting_for(
            tx, head, question, live
        )
    if number is None:
        return None
    line, by = tx.line(number), None
    if line is not None and line.kind == "key":
        by = reached(tx.line, head, number).content
        number, line = by["debit"], tx.line(by["debit"])
    if line is None or line.kind != "debit" or not seals(line):
        raise damaged(number)
    debit = line.entry(entry.policy)
    runs = line.content.get("runs", True)
    outcome = outcome_of(tx, head, line, None if keyed else question) if runs else None
    pair = (debit.analyst, debit.key) if by is None else (by["analyst"], by["key"])
    if keyed and (slot_of(*pair) != slot or (by and by["line"] != line.hash)):
        raise damaged(number)
    first = line.content.get("question") or asked_in(tx, number)
    same = same_question(head.content, entry, first) and debit.external == entry.external
    if keyed and not same:
        raise IdempotencyError(
            f"the key {entry.key!r} was used for another question, price or source, or in an "
            "earlier period",
            hint="use a new key for a new question",
        )
    done, record = (False, None) if outcome is None else outcome
    failed = outcome is not None and not done
    return Receipt(number, line.hash, line.when, charged=False, stored=record, failed=failed)
