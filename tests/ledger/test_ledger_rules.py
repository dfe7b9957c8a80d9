"""What every ledger does, wherever it is kept."""

from __future__ import annotations

import copy
import datetime as dt
import pickle
from fractions import Fraction

import pytest

from discreet import errors, ledger
from discreet import policy as pol
from discreet.ledger import ChainedLedger, _turn
from discreet.plan import Cost


def test_a_refusal_records_nothing(opened):
    book = opened.open()
    before = book.verify()
    with pytest.raises(errors.BudgetExceededError):
        book.debit(opened.entry("1.1"))
    with pytest.raises(errors.TaintedNoiseError):
        book.debit(opened.entry("0.1", tainted=True))
    with pytest.raises(errors.ParameterError):
        book.debit(opened.entry("-0.1"))
    with pytest.raises(errors.LedgerIntegrityError):
        book.debit(opened.entry("0.1").__class__(**{**_fields(opened.entry("0.1")), "policy": "z"}))
    assert book.verify() == before


def _fields(entry):
    return {name: getattr(entry, name) for name in entry.__slots__}


def test_reopened_copied_and_pickled_handles_share_one_budget(opened):
    first = opened.open()
    handles = [first, opened.open(), copy.copy(first), copy.deepcopy(first),
               pickle.loads(pickle.dumps(first))]  # fmt: skip
    for i, book in enumerate(handles):
        book.debit(opened.entry("0.2", plan=f"q{i}"))
    for book in handles:
        with pytest.raises(errors.BudgetExceededError):
            book.debit(opened.entry("0.01"))


def test_history_tells_who_when_what_and_at_which_price(opened):
    book = opened.open()
    book.debit(opened.entry("0.1", analyst="ann", key="k1", source="s"))
    line = book.lines[-1]
    assert dt.datetime.fromisoformat(line.when).utcoffset() == dt.timedelta()
    body = line.content
    assert body["cost"] == {"epsilon": "1/10", "delta": "0/1", "rho": "1/200", "rho_delta": "0/1"}
    assert body["charge"] == {"epsilon": "1/10"}
    assert (body["analyst"], body["plan"], body["key"]) == ("ann", "count", "k1")
    assert (body["fingerprint"], body["neighbours"], body["unit"]) == ("f", "add-remove", None)
    assert book.entries == (opened.entry("0.1", analyst="ann", key="k1", source="s"),)


def test_totals_stay_short_and_are_never_too_low(given):
    book = ledger.open_ledger(":memory:", given.policy("1000"))
    exact = Fraction(0)
    for k in range(60):
        odd = Fraction(1, (1 << 200) + 2 * k + 1)
        price = Fraction(1, 10) + odd
        cost = Cost(price, Fraction(0), price, Fraction(0))
        e = given.entry(fresh=True)
        book.debit(ledger.Entry(**{**_fields(e), "cost": cost}))
        exact += price
    spent = book.balance().amounts["epsilon"][0]
    assert spent.denominator.bit_length() <= 513
    assert exact <= spent <= exact + 60 * Fraction(1, 2**256)


# -- idempotency and stored answers ---------------------------------------------------


def test_answers_are_not_carried_between_shares_or_periods(opened):
    book = opened.open("1", shares={"ann": "0.25", "bob": "0.25"})
    book.settle(book.debit(opened.entry("0.1", analyst="ann")), "[]")
    assert book.debit(opened.entry("0.1", analyst="bob")).charged
    assert not book.debit(opened.entry("0.1", analyst="ann")).charged
    book.new_period()
    assert book.debit(opened.entry("0.1", analyst="ann")).charged


def test_only_a_debit_can_be_settled(opened):
    book = opened.open()
    receipt = book.debit(opened.entry("0.1"))
    for forged in (
        ledger.Receipt(1, book.lines[0].hash, ""),
        ledger.Receipt(receipt.number, "0" * 64, ""),
        ledger.Receipt(99, receipt.hash, ""),
    ):
        with pytest.raises(errors.LedgerIntegrityError):
            book.settle(forged, "[]")


# -- owners ---------------------------------------------------------------------------


def test_owners_decisions_are_lines_of_the_chain(opened):
    book = opened.open()
    book.debit(opened.entry("0.9", analyst="ann"))
    book.raise_budget(epsilon="2", by="Ada", note="board decision 12")
    book.set_shares({"ann": "0.5"})
    assert book.balance().amounts == {"epsilon": (Fraction("0.9"), 2)}
    assert book.balance("ann").left("epsilon") == Fraction("0.1")
    book.close("people")
    with pytest.raises(errors.LedgerClosedError, match="'people'"):
        book.debit(opened.entry("0.01"))
    book.reopen("people")
    book.close()
    with pytest.raises(errors.LedgerClosedError, match="this policy"):
        book.debit(opened.entry("0.01"))
    book.reopen()
    book.new_period(note="2027")
    assert book.balance().left("epsilon") == 2
    kinds = [line.kind for line in book.lines]
    decided = ["budget", "budget", "close", "reopen", "close", "reopen", "period"]
    assert kinds == ["open", "debit", *decided]
    assert book.lines[2].content["by"] == "Ada"
    assert len(book.entries) == 1
    assert book.verify().period == 2


def test_a_lower_budget_stops_spending_and_refunds_nothing(opened):
    book = opened.open()
    book.debit(opened.entry("0.5"))
    book.raise_budget(epsilon="0.4", lower=True)
    with pytest.raises(errors.BudgetExceededError, match="ε 0 left"):
        book.debit(opened.entry("0.01", plan="other"))


def test_a_change_of_accounting_keeps_all_past_spending(opened):
    book = opened.open()
    book.debit(opened.entry("1"))
    book.raise_budget(epsilon="3", delta="1e-6", accounting="zcdp")
    assert book.balance().amounts["rho"][0] == Fraction(1, 2)
    book.raise_budget(rho="0.6", lower=True)
    with pytest.raises(errors.BudgetExceededError, match=r"ρ 0\.1 left"):
        book.debit(opened.entry("0.5", plan="other"))


def test_bad_decisions_are_refused_and_not_recorded(opened):
    book = opened.open()
    before = book.verify()
    for decision in (
        book.raise_budget,
        lambda: book.raise_budget(epsilon=-1),
        lambda: book.raise_budget(epsilon=float("nan")),
        lambda: book.raise_budget(accounting="rumour"),
        lambda: book.set_shares({"ann": 2}),
        lambda: book.set_shares({"ann": "0.6", "bob": "0.6"}),
    ):
        with pytest.raises(errors.DiscreetError):
            decision()
    assert book.verify() == before


def test_an_edited_budget_is_refused_until_it_is_recorded(opened):
    opened.open("1").debit(opened.entry("1"))
    with pytest.raises(errors.LedgerError, match="differs from the one on record") as refused:
        opened.open("5")
    assert 'raise_budget(epsilon="5")' in refused.value.hint
    opened.open("1").raise_budget(epsilon="5")
    assert opened.open("5").balance().left("epsilon") == 4
    assert opened.open("1").balance().left("epsilon") == 4  # an old file, the budget in force
    with pytest.raises(errors.LedgerError) as refused:
        opened.open("5", shares={"ann": "0.5"})
    assert "discreet budget shares ann=1/2" in refused.value.hint


def test_the_pasted_fix_works(path, given):
    ledger.open_ledger(path, given.policy("1"))
    with pytest.raises(errors.LedgerError) as refused:
        ledger.open_ledger(path, given.policy("5", delta="1e-6", accounting="zcdp"))
    import discreet

    eval(refused.value.hint, {"discreet": discreet})
    book = ledger.open_ledger(path, given.policy("5", delta="1e-6", accounting="zcdp"))
    assert "rho" in book.balance().amounts


# -- the world --------------------------------------------------------------------------


def test_a_clock_set_back_changes_nothing(opened, monkeypatch):
    book = opened.open()
    for year in (2030, 1970, 2001):
        monkeypatch.setattr(_turn, "now", lambda year=year: f"{year}-01-01T00:00:00+00:00")
        book.debit(opened.entry("0.3", plan=str(year)))
    with pytest.raises(errors.BudgetExceededError):
        book.debit(opened.entry("0.2", plan="more"))
    assert [line.when[:4] for line in book.lines[1:]] == ["2030", "1970", "2001"]
    assert book.verify().debits == 3


def test_only_what_was_asked_is_written(opened):
    book = opened.open()
    book.debit(opened.entry("0.1", key="k"))
    allowed = {"fingerprint", "analyst", "plan", "noise", "neighbours", "unit", "source", "key",
               "tables", "cost", "accounting", "charge", "question"}  # fmt: skip
    assert set(book.lines[-1].content) == allowed


def test_admission_in_the_sum_is_what_replay_finds(opened):
    book = opened.open("1", shares={"ann": "0.5"})
    for k in range(7):
        book.debit(opened.entry(Fraction(1, 7) / 2, analyst="ann", plan=str(k)))
    with pytest.raises(errors.BudgetExceededError):
        book.debit(opened.entry("1e-30", analyst="ann"))
    assert str(book.verify()).startswith("8 lines, 7 of them debits")


def test_amounts_too_long_to_write_are_refused(given):
    book = ledger.open_ledger(":memory:", given.policy())
    with pytest.raises(errors.DiscreetError):
        book.debit(given.entry(Fraction(10) ** 4999))
    assert isinstance(book.state.limits, pol.Budget)


@pytest.mark.parametrize("key", ["", "x" * 201, b"k", ["k"], ("a", "b")])
def test_a_key_is_a_text_of_some_length(opened, key):
    book = opened.open()
    with pytest.raises(errors.ParameterError, match="a key is a text"):
        book.debit(opened.entry(key=key))
    book.debit(opened.entry(key="x" * 200))
    assert len(book.entries) == 1


def test_a_name_has_as_many_letters_as_a_key(opened):
    book = opened.open()
    with pytest.raises(errors.ParameterError, match="name has at most 200 characters"):
        book.debit(opened.entry(analyst="x" * 201))
    assert not book.entries
    book.debit(opened.entry(analyst="x" * 200))
    assert len(book.entries) == 1


def test_a_reader_sees_one_state_while_others_try_to_write(path, given):
    book = ledger.open_ledger(path, given.policy())
    hasty = ledger.open_ledger(path, given.policy(), wait=0.05)
    hasty.debit(given.entry("0.1"))
    with book.reading() as (tx, head):
        with pytest.raises(errors.LedgerBusyError):
            hasty.debit(given.entry("0.1", plan="later"))
        assert tx.head() == head
    hasty.debit(given.entry("0.1", plan="later"))
    assert len(book.entries) == 2


def test_an_outcome_is_that_of_a_debit_and_of_no_other_line(opened):
    book = opened.open()
    receipt = book.debit(opened.entry())
    assert book.outcome(receipt.number, receipt.hash) is None
    book.settle(receipt, "[1]")
    assert book.outcome(receipt.number, receipt.hash) == (True, "[1]")
    first, _, settling = book.lines
    for number, line in ((first.number, first.hash), (settling.number, settling.hash),
                         (receipt.number, first.hash), (9, receipt.hash)):  # fmt: skip
        with pytest.raises(errors.LedgerIntegrityError):
            book.outcome(number, line)


@pytest.mark.parametrize(
    ("refusal", "opens"),
    [(errors.LedgerError, True), (errors.LedgerBusyError, False),
     (errors.LedgerIntegrityError, False)],
)  # fmt: skip
def test_who_may_not_write_marks_may_look_and_no_other_refusal_is_passed_over(
    path, given, monkeypatch, refusal, opens
):
    first = ledger.open_ledger(path, given.policy())._first

    def refused(*_arguments, **_more):
        raise refusal("no")

    monkeypatch.setattr(ChainedLedger, "_look", lambda *_: (first, False))  # marks are behind
    monkeypatch.setattr(ChainedLedger, "_enter", refused)
    if opens:
        assert ledger.open_ledger(path, given.policy())._first == first
    else:
        with pytest.raises(refusal):
            ledger.open_ledger(path, given.policy())
