r"""Outcomes under seal: what a line says about the answer that it paid for.

A debit's body holds the hash of its question. Settling appends a line which holds
the debit's number and hash, the same question, and the hash of the stored record (null: the
run failed). The state, which every line seals, lists the debits that are still open.

*Claim.* Whoever knows the head :math:`(n, h_n)` can tell, for each debit, whether
it is settled and with which record, however the store was changed. *Proof.* The
head seals the state. A debit in its list is not settled, and the list holds the
hash of its body. A debit outside of it must be named by a settling line that links
lead to from the head (:func:`discreet.ledger._chain.reached`); each link is a
hash, and so are the debit and the record in that line. A change that passes is a SHA-256
collision. ∎ So an answer that was deleted, edited or moved to another question is
refused, and never made again for free. A backup from between debit and settling
has fewer lines than the anchors know.

A key whose question another debit has paid for is bound to that debit by a line of its own,
at most :data:`KEYS` of them for a debit: nothing is charged for it, and the chain must not
grow for nothing. Asked again, the key gives that debit's outcome.

What finds a line (slot, question, settled debit) is stored beside it. What is found
is compared with the sealed body; what is *not* found although it is there can only
cost a second price (the least one, for what another entry has paid for), and
:func:`check_store` sees it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import zip_longest
from typing import Any, Final

from discreet._canonical import canonical, digest
from discreet.errors import LedgerError, LedgerIntegrityError
from discreet.ledger import _budget
from discreet.ledger._chain import RESTORE, Head, Line, damaged, reached, replayed, seals
from discreet.ledger._protocol import Entry, charge
from discreet.ledger._state import State, coarse, cost_body, rational
from discreet.ledger._store import Transaction

KEYS: Final = 256
"""Keys that may be bound to one debit besides the one that paid."""


def slot_of(analyst: str | None, key: str | None) -> str | None:
    """Hash under which an idempotency key is found."""
    return None if key is None else digest(canonical([analyst or "", key]))


def release_terms(entry: Entry, cost: Mapping[str, str] | None = None) -> list[object]:
    """Question, price and noise: equal for equal releases."""
    price = cost_body(entry.cost) if cost is None else cost
    return [entry.fingerprint, entry.plan, entry.noise, entry.neighbours, entry.unit, price]


def question_of(state: State, entry: Entry, cost: Mapping[str, str]) -> str:
    """Hash under which a stored answer may be given out again."""
    if entry.once:
        return once(state, entry.plan)
    group = _budget.group_of(state.limits, entry.analyst)
    return digest(canonical([state.period, group, entry.source, *release_terms(entry, cost)]))


def once(state: State, plan: str) -> str:
    """Hash of something that is released once in a period, unless its line is lost."""
    return digest(canonical(["once", state.period, state.lost, plan]))


def check_paid(tx: Transaction, state: State, entry: Entry) -> None:
    """Refuse what another entry should have paid for in this period, if that one is not there."""
    if entry.paid_by is not None and tx.answered(once(state, entry.paid_by)) is None:
        raise LedgerError(
            "what has paid for this is not in this period of the ledger, or lines were lost since; "
            "nothing was charged",
            hint="follow the table again: the stream begins anew, with its price",
        )


def same_question(state: State, entry: Entry, question: str | None) -> bool:
    """Whether a question was asked in this period about the same data, in whatever share."""
    if entry.once:
        return question == once(state, entry.plan)
    rest = [entry.source, *release_terms(entry)]
    groups = _budget.groups_of(entry.analyst)
    return question in {digest(canonical([state.period, group, *rest])) for group in groups}


def binding(entry: Entry, question: str, number: int, line: str) -> dict[str, object]:
    """Body of the line that binds a key to a debit that it did not pay."""
    return {
        "debit": number,
        "line": line,
        "question": question,
        "analyst": entry.analyst,
        "key": entry.key,
    }


def settling(line: Line, question: str, record: str | None) -> dict[str, object]:
    """Body of the line that settles a debit."""
    return {
        "debit": line.number,
        "line": line.hash,
        "question": question,
        "record": None if record is None else digest(record),
    }


def outcome_of(
    tx: Transaction, head: Head, line: Line, question: str | None = None
) -> tuple[bool, str | None] | None:
    """Whether the run of a debit succeeded, and its record; None: it is open.

    With `question`, refuse a debit that was sealed for another one.
    """
    number, outcome = line.number, tx.outcome(line.number)
    body = head.content.open.get(str(number))
    if body is not None:
        if digest(line.body) != body or not seals(line):
            raise damaged(number)
        if outcome is not None:
            raise _spoilt(number, "was not settled, but has an answer")
        if question is not None and line.content.get("question") != question:
            raise _spoilt(number, "is found under another question")
        return None
    by = tx.settled(number)
    if by is None or not number < by <= head.number:
        raise _spoilt(number, "was settled, but the line that says so is not found")
    last = reached(tx.line, head, by)
    settlement, debit = last.content, (number, line.hash)
    if (
        last.kind != "settle"
        or (settlement["debit"], settlement["line"]) != debit
        or not seals(line)
    ):
        raise damaged(number)
    if question is not None and settlement["question"] != question:
        raise _spoilt(number, "is found under another question")
    if outcome is None:
        raise _spoilt(number, "was settled, but its stored answer is gone")
    if settlement["record"] != (None if outcome[1] is None else digest(outcome[1])):
        raise _spoilt(number, "was settled with another answer than the stored one")
    return outcome


def waiting_for(
    tx: Transaction, head: Head, question: str, live: AbstractSet[str] = frozenset()
) -> int | None:
    """Latest debit for a question whose outcome is still to come, none of the `live` ones.

    Its run was cut short, or is not done yet. A debit of format 1 does not seal its
    question and is found by its key alone.
    """
    open_debits = head.content.open
    for number in tx.numbers_of(question) if open_debits else ():
        line = tx.line(number) if str(number) in open_debits else None
        if line is not None and line.hash not in live and "question" in line.content:
            return number
    return None


def check_store(tx: Transaction, lines: Sequence[Line], head: Head) -> None:
    """Replay the lines, and compare with them all that the store holds besides."""
    tx.check()
    records: dict[int, str | None] = {}
    questions: dict[int, str] = {}
    pairs = zip_longest(replayed(lines, head), tx.index())
    for pair, row in pairs:
        if pair is None or row is None:
            raise damaged(head.number)
        before, line = pair
        if row != (line.number, *_columns(before, line, questions)):
            raise _spoilt(line.number, "is found under another key, question or debit")
        if line.kind in {"settle", "key"}:
            body = line.content
            debit = body["debit"]
            own = lines[debit - 1] if 0 < debit < line.number else None
            if own is None or (body["line"], body["question"]) != (own.hash, questions.get(debit)):
                raise damaged(line.number)
            if line.kind == "settle":
                if debit in records:
                    raise damaged(line.number)
                records[debit] = body["record"]
    if head.content.format > 1:
        _check_answers(tx, head, lines, records, questions)
    elif any(number not in questions for number, _ in tx.answers()):
        raise damaged(head.number)


def _columns(
    before: State | None, line: Line, questions: dict[int, str]
) -> tuple[str | None, str | None, int | None]:
    """Slot, question and settled debit that follow from a line."""
    body = line.content
    if line.kind == "settle":
        return None, None, body["debit"]
    if line.kind == "key":
        return slot_of(body["analyst"], body["key"]), body["question"], None
    if line.kind != "debit" or before is None:
        return None, None, None
    entry = line.entry(before.policy)
    question = question_of(before, entry, body["cost"])
    if body.get("question", question) != question:
        raise damaged(line.number)
    questions[line.number] = question
    return slot_of(entry.analyst, entry.key), question, None


def _check_answers(
    tx: Transaction,
    head: Head,
    lines: Sequence[Line],
    records: dict[int, str | None],
    questions: Mapping[int, str],
) -> None:
    """Every debit is open, or settled with exactly the stored answer."""
    state = head.content
    for number in questions:
        waits = str(number) in state.open
        runs = lines[number - 1].content.get("runs", True)
        if waits == (number in records) and (runs or waits):
            raise _spoilt(number, "is neither open nor settled, or both")
    for number, record in tx.answers():
        if number not in records:
            raise _spoilt(number, "has a stored answer that no line settles")
        if records.pop(number) != (None if record is None else digest(record)):
            raise _spoilt(number, "was settled with another answer than the stored one")
    if records:
        raise _spoilt(min(records), "was settled, but its stored answer is gone")


def _spoilt(number: int, what: str) -> LedgerIntegrityError:
    return LedgerIntegrityError(
        f"debit {number} of the ledger {what}: the ledger was edited or damaged",
        hint=RESTORE,
    )


def debit_body(state: State, entry: Entry) -> dict[str, Any]:
    """Body of the line that records a debit."""
    names = ("fingerprint", "analyst", "plan", "noise", "neighbours", "unit", "source",
             "key")  # fmt: skip
    charged = charge(state.caps, entry.cost)
    return {
        **{name: getattr(entry, name) for name in names},
        "tables": list(entry.tables),
        "cost": cost_body(entry.cost),
        "accounting": state.limits.accounting,
        "charge": {currency: rational(coarse(x)) for currency, x in charged.items()},
        # exactly: what is written of the amounts may be rounded
        **({"by_rho": True} if entry.cost.by_rho else {}),
        **({"once": True} if entry.once else {}),
        **({} if entry.paid_by is None else {"paid_by": entry.paid_by}),
        **({} if entry.runs else {"runs": False}),
        **({} if entry.external is None else {"external": entry.external}),
        **({} if entry.text is None else {"text": entry.text}),
    }
