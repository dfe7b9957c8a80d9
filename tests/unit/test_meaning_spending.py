"""What a ledger's spending has meant, for one person and for a family."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from discreet import meaning
from discreet import policy as pol
from discreet import privacy as p
from discreet.curator import Curator
from discreet.engines import Reference
from discreet.errors import NotProvedError, ParameterError, RelationError, TaintedNoiseError
from discreet.ledger import Balance, Entry, MemoryLedger
from discreet.plan import Cost


def entry(
    epsilon="0.1",
    delta=0,
    *,
    neighbours="add-remove",
    unit="person",
    tainted=False,
    table="people",
):
    e, d = Fraction(epsilon), Fraction(delta)
    rho = Fraction(p.Pure(e).rho) if not d else Fraction("0.001")
    cost = Cost(epsilon=e, delta=d, rho=rho, rho_delta=d)
    return Entry(
        policy="people",
        fingerprint="f",
        analyst=None,
        plan="q",
        cost=cost,
        noise="laplace",
        neighbours=neighbours,
        unit=unit,
        tainted=tainted,
        tables=() if table is None else (table,),
    )


class Book:
    """A ledger as the protocol describes it."""

    def __init__(self, entries, **totals):
        self.entries = entries
        self._amounts = {c: (Fraction(0), Fraction(t)) for c, t in totals.items()}

    def debit(self, entry):
        raise AssertionError("meaning never spends")

    def balance(self, analyst=None):
        return Balance("pure", self._amounts)


def test_pure_ledger_adds_up_exactly_for_one_person():
    told = meaning.of(Book([entry("0.1")] * 5, epsilon=1))
    assert told.epsilon == 0.5
    assert told.factor == pytest.approx(math.e)
    assert told.posterior("0.02").high == pytest.approx(0.0526, abs=5e-5)
    assert told.neighbours is p.Neighbours.ADD_REMOVE


def test_family_of_four():
    book = Book([entry("0.1")] * 5, epsilon=1)
    family = meaning.of(book, group=4)
    assert family.factor == pytest.approx(math.exp(4))
    assert family == meaning.of(book).for_group(4)
    assert "4 people together" in repr(family)
    assert "4 × 0.5" in repr(family)


def test_whole_budget_is_told_beside_what_was_spent():
    told = meaning.of(Book([entry("0.1")], epsilon=1))
    assert told.budget is not None
    assert told.budget.factor == pytest.approx(math.exp(2))
    assert "If the whole budget is spent" in str(told)


def test_entries_alone_are_enough():
    told = meaning.of([entry("0.1"), entry("0.2")])
    assert told.epsilon == pytest.approx(0.3)
    assert told.budget is None
    assert "2 debits" in repr(told)


def test_nothing_released_means_nothing_learnt():
    for nothing in (Book([], epsilon=1), []):
        told = meaning.of(nothing)
        assert told.epsilon == 0.0
        assert told.factor == pytest.approx(1.0)
        assert told.attacker.accuracy() == pytest.approx(0.5)
        assert "othing" in repr(told)


def test_debits_with_delta_are_read_by_an_odometer_and_by_sums():
    entries = [entry("0.05", "1e-9")] * 400
    told = meaning.of(Book(entries, rho="0.5", delta="1e-6"))
    basic, read = told.losses
    assert basic.epsilon(Fraction("4e-7")) == pytest.approx(20)
    meter = p.Odometer("1e-6")
    for e in entries:
        meter.record(p.Zcdp(e.cost.rho, e.cost.rho_delta))
    assert read.epsilon(meter.delta) == pytest.approx(meter.epsilon)
    assert told.attacker.advantage <= read.delta(0)
    assert "no bound holds always" in repr(told)
    with pytest.raises(NotProvedError):
        told.posterior("0.02")


def test_adaptive_debits_are_not_priced_by_numerical_composition():
    """Path-wise tight composition would claim less than the sum; the mutant fails here."""
    entries = [entry("0.1")] * 50
    told = meaning.of(Book(entries, epsilon=10))
    tight = p.compose([p.Pure("0.1")] * 50)
    assert told.attacker.advantage > tight.delta(0) * 1.01
    assert told.attacker.advantage == pytest.approx(math.tanh(2.5))


def test_realised_sum_bounds_the_likelihood_of_adaptive_answers():
    """Randomised response whose next ε depends on the last answer: checked path by path."""
    first, cheap, dear = 0.5, 0.1, 1.0

    def keep(e):
        return math.exp(e) / (1 + math.exp(e))

    for a in (0, 1):
        second = dear if a else cheap
        for b in (0, 1):
            like = [
                (keep(first) if a == x else 1 - keep(first))
                * (keep(second) if b == x else 1 - keep(second))
                for x in (0, 1)
            ]
            spent = meaning.of([entry(str(first)), entry(str(second))])
            ratio = max(like) / min(like)
            assert ratio <= math.exp(spent.epsilon) * (1 + 1e-12)


def test_zcdp_budget_keeps_a_promise_for_groups_while_it_can():
    book = Book([entry("0.05", "1e-9")], rho="0.01", delta="1e-9")
    one, two = meaning.of(book).budget, meaning.of(book, group=2).budget
    assert one.attacker.advantage < two.attacker.advantage < 1
    crowd = meaning.of(book, group=1000).budget
    assert crowd.attacker.advantage == 1.0
    assert "No promise" in repr(crowd)


def test_fixed_batches_are_composed():
    told = meaning.of([p.Pure("0.1"), p.Pure("0.2")])
    assert told.epsilon == pytest.approx(0.3)
    assert "fixed in advance" in repr(told)


def test_mixed_relations_and_units_are_refused():
    with pytest.raises(RelationError):
        meaning.of([entry(), entry(neighbours="change-one")])
    with pytest.raises(RelationError):
        meaning.of([entry(), entry(unit="household")])


def test_one_table_of_several_can_be_asked_about():
    entries = [entry("0.1"), entry("0.2", table="shops", unit="shop"), entry("0.4", table=None)]
    assert meaning.of(entries, table="people").epsilon == pytest.approx(0.5)
    with pytest.raises(RelationError):
        meaning.of(entries)


def test_a_real_curator_s_ledger():
    own = pol.Policy(
        tables=[pol.Table("people", [pol.Category("sex", values=["F", "M"], null="F")])],
        budget=pol.Budget("2", accounting="pure"),
        name="meaning of a real ledger",
    )
    rows = [{"sex": "FM"[i % 2]} for i in range(100)]
    curator = Curator(own, Reference({"people": rows}), MemoryLedger(own))
    assert "Nothing was released" in str(meaning.of(curator.ledger))
    curator.sql("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex", epsilon="0.25")
    curator.sql("SELECT COUNT(*) AS n FROM people WHERE sex = 'F'", epsilon="0.25")
    told = meaning.of(curator.ledger, table="people")
    assert told.epsilon == 0.5
    assert told.budget.epsilon == 2.0
    assert told.neighbours is p.Neighbours.ADD_REMOVE
    assert "2 debits" in str(told)


def test_test_noise_is_refused():
    with pytest.raises(TaintedNoiseError):
        meaning.of([entry(), entry(tainted=True)])


def test_unknown_currency_is_refused():
    with pytest.raises(ParameterError):
        meaning.of(Book([], points=1))


def test_random_ledgers_never_promise_more_than_their_sum():
    rng = np.random.default_rng(3)
    for _ in range(20):
        parts = rng.integers(1, 100, rng.integers(1, 30))
        told = meaning.of([entry(Fraction(int(x), 1000)) for x in parts])
        assert told.epsilon >= parts.sum() / 1000 * (1 - 1e-15)
