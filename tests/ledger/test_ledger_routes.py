"""A budget of (ε, δ) is paid by ε or by ρ, with one cap on δ."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pyarrow as pa
import pytest

import discreet as dc
from discreet import policy as pol
from discreet import privacy as p
from discreet.errors import BudgetExceededError
from discreet.ledger import Balance, Entry, MemoryLedger, refusal
from discreet.ledger._protocol import routes
from discreet.plan import Cost, charge

TABLE = pol.Table("people", [pol.Integer("age", 0, 115), pol.Text("town")])
DATA = pa.table({"age": [31, 47], "town": ["Ulm", "Ulm"]})
COUNT = "SELECT COUNT(*) AS n FROM people WHERE age > {}"


def curator(epsilon="2", delta="1e-6", **more):
    budget = pol.Budget(epsilon, delta=delta, **more)
    return dc.open(DATA, pol.Policy([TABLE], budget, name="routes"), ledger=":memory:")


def asked(opened, epsilon, most=200):
    """How many counts fit."""
    for n in range(most):
        try:
            opened.sql(COUNT.format(n % 100), epsilon=epsilon, fresh=True)
        except BudgetExceededError:
            return n
    return most


@pytest.mark.parametrize("epsilon", ["0.5", "1", "2"])
def test_stating_a_delta_never_makes_a_budget_smaller(epsilon):
    pure = dc.open(DATA, pol.Policy([TABLE], pol.Budget("2"), name="pure"), ledger=":memory:")
    assert asked(curator(), epsilon) >= asked(pure, epsilon) == int(2 / float(epsilon))


def test_small_questions_are_paid_by_rho():
    """400 counts of 0.01 have Σε = 4 > 2 and Σρ = 0.02 < 0.083."""
    loss = p.Pure("0.01")
    budget, ledger = curator(), None
    ledger = budget.ledger
    for n in range(400):
        ledger.debit(entry(charge([loss]), f"{n}"))
    balance = ledger.balance()
    assert balance.left("epsilon") < 0 < balance.left("rho")
    assert balance.fits
    assert 0 < balance.remaining < balance.total


def entry(cost, plan):
    return Entry(
        policy="routes", fingerprint="", analyst=None, plan=plan, cost=cost, noise="[]",
        neighbours="add-remove", unit=None, tables=("people",), source="s", key=None, fresh=True,
        runs=False,
    )  # fmt: skip


def losses(opened):
    cap = opened.ledger.balance().amounts["delta"][1]
    return cap, charge([p.Approx("0.25", cap)]), charge([p.Pure("0.25")])


def test_one_cap_on_delta_serves_both_routes():
    opened = curator()
    cap, selection, pure = losses(opened)
    assert cap == Fraction(1, 2 * 10**6)
    opened.ledger.debit(entry(selection, "a"))
    opened.ledger.debit(entry(pure, "b"))
    with pytest.raises(BudgetExceededError, match="δ"):
        opened.ledger.debit(entry(charge([p.Approx("0.01", "1e-12")]), "c"))


def test_gaussian_noise_leaves_the_route_of_epsilon():
    opened = curator()
    noisy = charge([p.Gaussian(Fraction(1, 20))], (Fraction(1, 2), Fraction(1, 10**6)))
    assert noisy.delta != noisy.rho_delta
    opened.ledger.debit(entry(noisy, "g"))
    balance = opened.ledger.balance()
    assert balance.routes == (("rho", "delta"),)
    with pytest.raises(BudgetExceededError):
        opened.ledger.debit(entry(charge([p.Pure("0.5")]), "x"))
    assert refusal("the budget", balance, charge([p.Pure("0.5")])) is not None
    assert refusal("the budget", balance, charge([p.Pure("0.01")])) is None


def test_the_other_order_is_refused_as_well():
    opened = curator()
    for n in range(3):
        opened.ledger.debit(entry(charge([p.Pure("0.5")]), f"{n}"))
    noisy = charge([p.Gaussian(Fraction(1, 20))], (Fraction(3, 10), Fraction(1, 10**6)))
    with pytest.raises(BudgetExceededError):
        opened.ledger.debit(entry(noisy, "g"))


def test_counterexample_of_separate_caps_is_not_admitted():
    """Σε with its own Σδ, or Σρ with its own Σδ, would reach δ(1) = 1.145e-6 > 1e-6."""
    opened = curator("1", "1e-6")
    whole = charge([p.Approx("0.9", "1e-6")])
    with pytest.raises(BudgetExceededError):
        opened.ledger.debit(entry(whole, "a"))


def worst(room, steps):
    """Exact δ(ε_B) of the worst strategy of randomised responses inside both routes.

    ``V(s, L)`` is the largest sum of (P − e^ε_B·Q)⁺ over transcripts that begin with
    likelihood ratio e^L and spending s, by dynamic programming over a small menu.
    """
    import math

    menu = [(float(e), float(p.Pure(e).zcdp().rho0)) for e in ("0.25", "0.5", "1")]
    epsilon, rho = room

    def best(left, spent, mass, ratio):
        here = mass - math.exp(epsilon) * mass / ratio
        found = max(here, 0.0)
        if not left:
            return found
        for e, r in menu:
            then = (spent[0] + e, spent[1] + r)
            if then[0] <= epsilon + 1e-12 or then[1] <= rho + 1e-12:
                up = math.exp(e) / (1 + math.exp(e))
                found = max(
                    found,
                    best(left - 1, then, mass * up, ratio * math.exp(e))
                    + best(left - 1, then, mass * (1 - up), ratio * math.exp(-e)),
                )
        return found

    return best(steps, (0.0, 0.0), 1.0, 1.0)


def test_the_worst_adaptive_strategy_stays_within_delta():
    """Exact trees of depth 7 under (ε, δ) = (1, 0.05): both routes together stay within δ."""
    opened = curator("1", "0.05")
    amounts = opened.ledger.balance().amounts
    room = float(amounts["epsilon"][1]), float(amounts["rho"][1])
    assert worst(room, 7) <= 0.05
    # a mutant with twice the room in ρ is seen
    assert worst((room[0], 4 * room[1]), 7) > 0.05


def test_the_words_are_in_one_currency():
    opened = curator()
    answer = opened.sql(COUNT.format(1), epsilon="0.5")
    assert "cost ε 0.5 · 1.5 of 2 left (≈ 3 more like this)" in repr(answer)
    quote = opened.preview(COUNT.format(2), epsilon="1.7")
    assert "would be refused" in repr(quote)
    assert quote.refused is not None
    fits = quote.refused.rpartition("what fits: ε ")[2]
    opened.sql(COUNT.format(2), epsilon=fits)
    again = opened.preview(COUNT.format(1), epsilon="0.5")
    assert again.stored
    assert "free" in repr(again)


def test_old_caps_have_one_route():
    assert routes({"rho": 1, "delta": 1}) == (("rho", "delta"),)
    amounts = {"rho": (Fraction(0), Fraction(1)), "delta": (Fraction(0), Fraction(1))}
    assert Balance("zcdp", amounts, routes(amounts)).currency == "rho"
    assert MemoryLedger(pol.Policy([TABLE], pol.Budget(rho="1", delta="1e-6"))).balance().fits


def test_margins_are_met_by_noise_that_finds_room():
    """After a Laplace count that fills ρ, a margin is met by Laplace noise and paid by ε."""
    opened = curator()
    opened.sql(COUNT.format(1), epsilon="0.5")
    answer = opened.sql(COUNT.format(2), within={"n": 50})
    assert answer.record()["statement"]["noise"] == "laplace"
    opened.sql(COUNT.format(3), epsilon="0.5", delta="1e-7")
    opened.sql(COUNT.format(4), epsilon="0.5")


def tiny(own="routes", **more):
    """Spending whose δ of Gaussian noise disappears in what is written of it."""
    long = Fraction(1, 3**400)
    cost = Cost(Fraction(1, 100), long + Fraction(1, 2**900), Fraction(1, 10**5), long)
    return replace(entry(cost, "tiny"), policy=own, **more)


def test_a_route_that_was_closed_stays_closed():
    """Totals are rounded to multiples of 2^-256, and with them the δ that had closed it."""
    opened = curator()
    opened.ledger.debit(tiny())
    state = opened.ledger.state
    assert all(cost.delta == cost.rho_delta for cost in state.spent.values())
    assert state.by_rho
    assert opened.ledger.lines[-1].content["by_rho"] is True
    assert opened.ledger.balance().routes == (("rho", "delta"),)
    with pytest.raises(BudgetExceededError):
        opened.ledger.debit(entry(charge([p.Pure("1.5")]), "x"))
    assert opened.ledger.verify().debits == 1
    opened.ledger.new_period()
    opened.ledger.debit(entry(charge([p.Pure("1.5")]), "x"))
