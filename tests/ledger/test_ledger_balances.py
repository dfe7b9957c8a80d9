"""Balances are worked out once for equal states, and never given for another one."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest

from discreet.ledger import _budget
from discreet.ledger._state import State, after
from discreet.plan import Cost
from discreet.policy import Budget


def opened(budget):
    body = {"policy": "people", "format": 5, **_budget.decided(budget)}
    return after(None, "open", body)


def paid(state, who, *amounts):
    cost = Cost(*map(Fraction, amounts))
    return after(state, "debit", {"analyst": who, "plan": "", "cost": _budget.cost_body(cost)})


def worked_out(state, who):
    """The same without anything that is remembered."""
    alone = _budget._balance.__wrapped__
    return alone(state.budget, state.caps, state.spent, who, pure=state.pure)


BUDGETS = [
    Budget("1"),
    Budget("1", delta="1e-6"),
    Budget("1", delta="1e-6", accounting="zcdp"),
    Budget("1", delta="1e-6", shares={"ana": "0.5", "bob": "0.25"}),
]


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda b: f"{b.accounting} {len(b.shares)}")
def test_every_state_has_its_own_balance(budget):
    draw = random.Random(5)
    states = [opened(budget)]
    for _ in range(60):
        state = draw.choice(states)
        who = draw.choice(["ana", "bob", None, "eve"])
        delta = draw.choice(["0", "1/10000000"])
        states.append(paid(state, who, f"{draw.randint(1, 3)}/100", delta, "1/1000", delta))
    states += [replace(s, by_rho=True) for s in states[:9]]
    states += [replace(s, caps=dict.fromkeys(s.caps, "2/1")) for s in states[:9]]
    states += [replace(s, budget=_budget.budget_body(Budget("3"))) for s in states[:9]]
    states += [replace(s, open={"7": "0" * 64}) for s in states[:9]]
    draw.shuffle(states)
    for state in states * 2:
        for who in (None, "ana", "eve", ""):
            assert _budget.balance(state, who) == worked_out(state, who)
    assert len({repr(_budget.balance(s)) for s in states}) > 10


def test_that_test_notices_a_balance_without_its_spending(monkeypatch):
    whole, kept = _budget._balance.__wrapped__, {}

    def careless(limits, caps, costs, who, *, pure):
        key = (limits, caps, who, pure)
        if key not in kept:
            kept[key] = whole(limits, caps, costs, who, pure=pure)
        return kept[key]

    careless.__wrapped__ = whole
    monkeypatch.setattr(_budget, "_balance", careless)
    with pytest.raises(AssertionError):
        test_every_state_has_its_own_balance(BUDGETS[1])


def test_a_settlement_changes_no_balance_and_works_none_out():
    state = paid(opened(BUDGETS[1]), "ana", "1/10", "0", "1/200", "0")
    told = _budget.balance(state)
    before = _budget._balance.cache_info().misses
    settled = replace(state, open={})
    assert isinstance(settled, State)
    assert _budget.balance(settled) == told
    assert _budget._balance.cache_info().misses == before
