"""The road, step by step, with a ledger that writes down who calls it: no step can be left out."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import pytest

from discreet import errors
from discreet.curator import _road
from discreet.curator._road import Job, Outcome, Road
from discreet.ledger import Receipt
from discreet.plan import Cost
from discreet.privacy import Zcdp

LEAST = Cost(Fraction(1, 100), Fraction(0), Fraction(1, 10**4), Fraction(0))
PRICE = Cost(Fraction(1), Fraction(0), Fraction(1, 2), Fraction(0))
FIRST = Receipt(7, "h7", "now")
SECRET = "42 is in the data"


class Book:
    """Says what it was told to say, and keeps what happened in order."""

    def __init__(self, receipt=FIRST, stored=None, refusal=None):
        self.receipt, self.refusal, self.steps, self.entries = receipt, refusal, [], []
        self.stored = stored or (lambda text: text)

    def debit(self, entry):
        self.entries.append(entry)
        self.steps.append("debit" if entry.runs else "meter")
        if self.refusal is not None:
            raise self.refusal
        if entry.runs:
            entry.live.add(self.receipt.hash)
        return self.receipt

    def settle(self, receipt, text):
        assert receipt == self.receipt
        self.steps.append(("settle", text))
        return self.stored(text)

    def found(self, entry):
        self.entries.append(entry)
        return self.receipt

    def knows(self, entry):
        self.entries.append(entry)
        return True


def road(book):
    return Road(book, "people", "f", "ann", "source", LEAST)


def job(book, run=lambda: "answer", **more):
    def noted():
        book.steps.append("run")
        book.live = set(_road._LIVE)
        return run()

    given = {"cost": PRICE, "once": True, "paid_by": "before", "text": "words"} | more
    return Job("plan", noise="[]", neighbours="add-remove", unit="id", tables=("t",), run=noted,
               **given)  # fmt: skip


@pytest.fixture(autouse=True)
def _nobody_is_left():
    assert not _road._LIVE
    yield
    assert not _road._LIVE


def test_debit_run_settle():
    book = Book()
    assert road(book).travel(job(book), key="k") == Outcome("answer", cached=False)
    assert book.steps == ["debit", "run", ("settle", "answer")]
    assert book.live == {"h7"}
    (entry,) = book.entries
    assert (entry.policy, entry.fingerprint, entry.analyst, entry.source) == (
        "people", "f", "ann", "source")  # fmt: skip
    assert (entry.plan, entry.cost, entry.noise, entry.neighbours, entry.unit, entry.tables) == (
        "plan", PRICE, "[]", "add-remove", "id", ("t",))  # fmt: skip
    assert (entry.key, entry.fresh, entry.once, entry.paid_by, entry.text) == (
        "k", False, True, "before", "words")  # fmt: skip


def test_only_what_is_stored_is_given():
    book = Book(stored=lambda _: "an earlier one")
    assert road(book).travel(job(book)) == Outcome("an earlier one", cached=True)
    book = Book(stored=lambda _: None)
    with pytest.raises(errors.EngineError, match="another run for the same key has failed"):
        road(book).travel(job(book))


def test_what_is_stored_already_does_not_run():
    book = Book(replace(FIRST, charged=False, stored="old"))
    assert road(book).travel(job(book)) == Outcome("old", cached=True)
    assert book.steps == ["debit"]


def test_a_failure_that_is_known_does_not_run_again():
    book = Book(replace(FIRST, charged=False, failed=True))
    with pytest.raises(errors.EngineError, match="cannot run under this key again"):
        road(book).travel(job(book))
    assert book.steps == ["debit"]
    with pytest.raises(errors.EngineError, match="cannot run under this key again"):
        road(book).pay(job(book))


def test_a_run_that_is_taken_up_pays_the_least_price_first():
    book = Book(replace(FIRST, charged=False))
    assert road(book).travel(job(book), key="k") == Outcome("answer", cached=False, again=LEAST)
    assert book.steps == ["debit", "meter", "run", ("settle", "answer")]
    again = book.entries[1]
    assert (again.plan, again.cost, again.key, again.fresh, again.runs, again.once) == (
        "again h7", LEAST, None, True, False, False)  # fmt: skip
    assert (again.paid_by, again.analyst, again.tables) == (None, "ann", ("t",))


@pytest.mark.parametrize(
    ("failure", "seen"),
    [
        (errors.ParameterError("public words"), errors.ParameterError),
        (ValueError(SECRET), errors.EngineError),
        (MemoryError(SECRET), errors.EngineError),
    ],
)
def test_a_failure_is_an_outcome_and_tells_nothing(failure, seen):
    def run():
        raise failure

    book = Book(stored=lambda _: None)
    with pytest.raises(seen) as told:
        road(book).travel(job(book, run))
    assert book.steps == ["debit", "run", ("settle", None)]
    assert SECRET not in repr(told.value) + str(told.value.__context__)


def test_a_failure_after_another_run_of_the_debit_gives_what_is_stored():
    """A debit has one outcome: the failure had been told beside the stored one."""

    def run():
        raise MemoryError(SECRET)

    for failed in (None, "failed"):
        book = Book(stored=lambda _: "an earlier one")
        outcome = road(book).travel(job(book, run, failed=failed))
        assert outcome == Outcome("an earlier one", cached=True)
    book = Book()
    with pytest.raises(errors.EngineError):
        road(book).travel(job(book, run, failed="failed"))
    assert book.steps == ["debit", "run", ("settle", "failed")]


def test_an_interrupt_is_no_outcome():
    def run():
        raise KeyboardInterrupt

    book = Book()
    with pytest.raises(KeyboardInterrupt, match=r"line 7 has paid.*key 'k'.*ε 0.01"):
        road(book).travel(job(book, run), key="k")
    assert book.steps == ["debit", "run"]


def test_an_interrupt_during_the_debit_says_that_it_may_be_paid():
    book = Book(refusal=KeyboardInterrupt())
    for steps in (road(book).travel, road(book).pay):
        with pytest.raises(KeyboardInterrupt, match=r"may have been paid.*key 'k'.*ε 0.01"):
            steps(job(book), key="k")
    assert book.steps == ["debit", "debit"]


def test_an_interrupt_before_a_further_run_says_what_has_paid():
    class Interrupted(Book):
        def debit(self, entry):
            if not entry.runs:
                raise KeyboardInterrupt
            return super().debit(entry)

    book = Interrupted(replace(FIRST, charged=False))
    with pytest.raises(KeyboardInterrupt, match="line 7 has paid"):
        road(book).travel(job(book))
    assert book.steps == ["debit"]


@pytest.mark.parametrize(
    "refusal", [errors.LedgerError("words"), ValueError(), KeyboardInterrupt()]
)
def test_what_the_ledger_refuses_does_not_run(refusal, monkeypatch):
    noted = []
    monkeypatch.setattr(_road, "note", lambda event, *_, **said: noted.append((event, said)))
    book = Book(refusal=refusal)
    with pytest.raises(type(refusal)):
        road(book).travel(job(book))
    assert book.steps == ["debit"]
    told = [("ledger refused", {"policy": "people", "said": "words"})]
    assert noted == (told if isinstance(refusal, errors.LedgerError) else [])
    with pytest.raises(type(refusal)):
        road(book).pay(job(book))


def test_nothing_costs_less_than_the_least_price():
    free = Cost(*[Fraction(0)] * 4)
    book = Book()
    road(book).travel(job(book, cost=free))
    assert road(book).knows(job(book, cost=free))
    assert road(book).find(job(book, cost=free)) is None
    road(book).enter(job(book, cost=free, external="elsewhere"), key="e")
    assert [entry.cost for entry in book.entries] == [LEAST] * 4
    entered = book.entries[-1]
    assert (entered.runs, entered.fresh, entered.key, entered.external) == (
        False, True, "e", "elsewhere")  # fmt: skip
    assert book.steps == ["debit", "run", ("settle", "answer"), "meter"]


def test_what_is_paid_and_stored_is_found_without_a_debit():
    book = Book(None)
    assert road(book).find(job(book)) is None
    book = Book(replace(FIRST, stored="old"))
    paid = road(book).find(job(book), key="k")
    assert (paid.outcome, paid.entry.key) == (Outcome("old", cached=True), "k")
    assert book.steps == []


def test_a_debit_is_live_until_its_run_is_over():
    book = Book()
    paid = road(book).pay(job(book))
    assert {"h7"} == _road._LIVE
    assert "h7" in paid.entry.live
    assert "h8" not in paid.entry.live
    _road.leave(paid)
    assert not _road._LIVE
    asking = _road._Asking()
    asking.add("h9")
    asking.leave()
    assert not _road._LIVE
    asking.add("h10")  # made after nobody waited for it any more
    assert not _road._LIVE


def test_settling_says_what_is_stored():
    book = Book(stored=lambda _: None)
    with pytest.raises(errors.EngineError, match="the question failed"):
        _road.settle(book, FIRST, None)
    book = Book(stored=lambda _: "kept")
    assert _road.settle(book, FIRST, None) == Outcome("kept", cached=True)
    assert _road.settle(book, FIRST, "kept") == Outcome("kept", cached=False)


DELTA, KEYS = Fraction(1, 10**5), Fraction(1, 10**6)
MEANT = Cost(Fraction(Zcdp("0.2").epsilon(DELTA - KEYS)), DELTA, Fraction(1, 5), KEYS)


@pytest.mark.parametrize(
    ("accounting", "delta", "asked", "changed"),
    [
        # what selects keys is part of the budget's δ; the rest is left for ρ
        ("zcdp", DELTA, Fraction(1, 10), True),
        ("zcdp", DELTA, DELTA + KEYS, True),
        ("zcdp", DELTA, DELTA, False),
        ("zcdp", DELTA, KEYS, False),
        ("zcdp", KEYS, Fraction(1, 10), False),  # nothing is left for ρ
        ("zcdp", KEYS / 2, Fraction(1, 10), False),
        ("basic", DELTA, Fraction(1, 10), False),
    ],
)
def test_what_is_on_record_is_stated_at_the_delta_that_the_budget_means(
    accounting, delta, asked, changed
):
    book = Book()
    book.balance = lambda: SimpleNamespace(accounting=accounting, delta=delta)
    cost = Cost(Fraction(1, 50), asked, Fraction(1, 5), KEYS)
    road(book).enter(job(book, cost=cost))
    (entry,) = book.entries
    assert entry.cost == (MEANT if changed else cost)
    assert entry.cost.epsilon == (MEANT.epsilon if changed else Fraction(1, 50))
