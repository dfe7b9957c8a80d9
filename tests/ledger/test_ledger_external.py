"""Losses from elsewhere: one ledger holds all that was released about these people."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
import pytest

import discreet as dc
from discreet import errors
from discreet import policy as pol
from discreet import privacy as p

DATA = pa.table({"age": [31, 47]})


def opened(path, neighbours="add-remove", name="people", **budget):
    table = pol.Table("people", [pol.Integer("age", 0, 115)], neighbours=neighbours)
    policy = pol.Policy([table], pol.Budget(**({"epsilon": "1"} | budget)), name=name)
    return dc.open(DATA, policy, ledger=path)


def test_a_loss_from_elsewhere_is_a_debit_of_the_same_budget(path):
    curator = opened(path)
    receipt = curator.record_external(p.Pure("0.75"), what="a model of 2026")
    line = curator.ledger.lines[-1]
    assert (line.number, line.kind) == (receipt.number, "debit")
    assert line.content["external"] == "a model of 2026"
    assert line.content["noise"] == '{"loss":"Pure(epsilon=0.75)"}'
    assert curator.budget.left["epsilon"] == Fraction(1, 4)
    with pytest.raises(errors.BudgetExceededError):
        curator.sql("SELECT COUNT(*) AS n FROM people", epsilon="0.5")
    with pytest.raises(errors.BudgetExceededError):
        curator.record_external(p.Pure("0.5"), what="another model")
    assert curator.ledger.verify().debits == 1
    assert opened(path).budget.left["epsilon"] == Fraction(1, 4)


def test_with_a_key_an_entry_is_made_once(path):
    curator = opened(path)
    first = curator.record_external(p.Pure("0.1"), what="a model", key="m1")
    again = curator.record_external(p.Pure("0.1"), what="a model", key="m1")
    assert (again.number, again.charged) == (first.number, False)
    with pytest.raises(errors.IdempotencyError):
        curator.record_external(p.Pure("0.1"), what="another model", key="m1")
    with pytest.raises(errors.IdempotencyError):
        curator.record_external(p.Pure("0.2"), what="a model", key="m1")
    curator.record_external(p.Pure("0.1"), what="a model")
    assert curator.ledger.verify().debits == 2


def test_gaussian_losses_are_charged_in_each_currency():
    noise = p.Gaussian("0.1")
    zcdp = opened(":memory:", name="z", delta="1e-6", accounting="zcdp")
    zcdp.record_external(noise, what="a table")
    assert zcdp.budget.spent["rho"] == Fraction(1, 200)
    approx = opened(":memory:", name="a", delta="1e-5", accounting="approx")
    with pytest.raises(errors.NotProvedError, match="at which δ"):
        approx.record_external(noise, what="a table")
    approx.record_external(noise, what="a table", delta="1e-6")
    assert approx.budget.spent == {
        "epsilon": Fraction(noise.epsilon(1e-6)), "delta": Fraction("1e-6")
    }  # fmt: skip


def test_a_loss_says_which_neighbours_it_is_about(path):
    bounded = opened(path, neighbours="change-one")
    bounded.record_external(p.Pure("0.1").under("add-remove"), what="a model")
    assert bounded.budget.spent["epsilon"] == Fraction(1, 5)
    bounded.record_external(p.Pure("0.1").under("change-one"), what="a model")
    assert bounded.budget.spent["epsilon"] == Fraction(3, 10)


def test_a_statement_that_says_nothing_here_is_refused(path):
    curator = opened(path)
    with pytest.raises(errors.RelationError):
        curator.record_external(p.Pure("0.1").under("change-one"), what="a model")
    for bad in ("", "x" * 501, "two\nlines", "\x1b[31m", "\u202eturned"):
        with pytest.raises(errors.ParameterError):
            curator.record_external(p.Pure("0.1"), what=bad)
    with pytest.raises(errors.ParameterError):
        curator.record_external("0.1", what="a model")
    with pytest.raises(errors.PolicyError):
        curator.record_external(p.Pure("0.1"), what="a model", table="persons")
    assert curator.ledger.verify().debits == 0
