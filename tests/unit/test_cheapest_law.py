"""Where a budget pays in ε or in ρ, margins are met by the law that leaves more of it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa

import discreet as dc
from discreet import policy as pol
from discreet.curator import _room
from discreet.noise import DiscreteGaussian, DiscreteLaplace
from discreet.plan import Ask, lower, price
from discreet.sql import parse

KEYS = tuple(f"g{i}" for i in range(100))
GROUPS = "SELECT g, COUNT(*) AS n FROM t GROUP BY g"
COUNT = "SELECT COUNT(*) AS n FROM t WHERE x > {}"


def curator(epsilon="4", delta="1e-5", **more):
    table = pol.Table(
        "t",
        [pol.Integer("id", 0, 999), pol.Category("g", KEYS), pol.Integer("x", 0, 9)],
        unit="id",
        max_groups_per_unit=100,
        max_rows_per_group=1,
    )
    rows = {"id": np.arange(400) % 100, "g": np.resize(KEYS, 400), "x": np.arange(400) % 10}
    budget = pol.Budget(epsilon, delta, accounting="zcdp", **more)
    policy = pol.Policy([table], budget, name="laws")
    return dc.open(pa.table(rows), policy, ledger=":memory:")


def both(asked, text, margin):
    """The two laws that meet a margin, each priced by itself."""
    low = lower(parse(text, asked.policy).query)
    ask = Ask(within={"n": Fraction(margin)}, stated=Fraction(1, 10**6))
    return [price(low, ask, noise=law) for law in ("laplace", "gaussian")]


def left_of(asked, plan):
    """Part of the budget after a debit: of each way that has room, the better one."""
    balance = asked.ledger.balance()
    least = asked._standing.least
    cost = plan.cost.at_least(least)
    spent = {c: s for c, (s, _) in balance.amounts.items()}
    total = {c: t for c, (_, t) in balance.amounts.items()}
    parts = [Fraction(-1)]
    by_rho = 1 - (spent["rho"] + cost.rho) / total["rho"]
    parts += [by_rho] if by_rho >= 0 else []
    by_epsilon = 1 - (spent["epsilon"] + cost.epsilon) / total["epsilon"]
    if plan.noise == "laplace" and len(balance.routes) == 2 and by_epsilon >= 0:
        parts.append(by_epsilon)
    return max(parts)


def test_many_groups_take_the_law_that_leaves_more():
    """Laplace noise for ± 100 in 100 groups would take ε 2.98 of 4; Gaussian a twentieth of ρ."""
    asked = curator()
    quote = asked.preview(GROUPS, within={"n": 100})
    assert quote.plan.noise == "gaussian"
    assert quote.plan.why == (
        "Gaussian noise: least ρ that meets the margins at 95%; "
        "Laplace noise would leave less of the budget"
    )
    assert "≈ 18 more like this" in repr(quote)
    assert "paid in ρ, as all that follows: one question without δ may then cost ε" in repr(quote)
    asked.sql(GROUPS, within={"n": 100})
    assert asked.ledger.balance().routes == (("rho", "delta"),)


def test_no_other_law_leaves_more():
    """For margins of all sizes and budgets used so far; least ε and least ρ are not the rule."""
    mutants = {"least epsilon": 0, "least rho": 0}
    for spent in ((), ("0.4",), ("0.8",), ("1.5",)):
        asked = curator()
        for i, epsilon in enumerate(spent):
            asked.sql(COUNT.format(i), epsilon=epsilon)
        for text in (GROUPS, COUNT.format(3)):
            for margin in (60, 100, 200, 1000, 3000, 10**6):
                plans = both(asked, text, margin)
                rooms = [left_of(asked, plan) for plan in plans]
                best = rooms[1] > rooms[0]
                chosen = asked.preview(text, within={"n": margin}).plan
                assert chosen.noise == ("laplace", "gaussian")[best]
                assert chosen.parts == plans[best].parts
                costs = [plan.cost for plan in plans]
                mutants["least epsilon"] += (costs[1].epsilon < costs[0].epsilon) != best
                mutants["least rho"] += (costs[1].rho < costs[0].rho) != best
    assert all(mutants.values())


def test_the_least_price_closes_no_way():
    """Where both laws cost the least price, the ways to pay stay open."""
    asked = curator()
    quote = asked.preview(GROUPS, within={"n": 10**6})
    assert quote.plan.noise == "laplace"
    assert quote.later is None
    assert "Gaussian noise would leave no more of the budget" in quote.plan.why


def test_what_was_answered_is_found_by_whichever_law_answered_it():
    """A way that closes in between changes the law of new questions, and of no answer."""
    asked = curator()
    text = COUNT.format(1)
    asked.sql(COUNT.format(5), epsilon="0.8")
    first = asked.sql(text, within={"n": 2000})
    assert isinstance(first.parts[0].noise, DiscreteLaplace)
    asked.sql(GROUPS, rho="0.001")
    spent = asked.budget.spent
    assert asked.preview(text, within={"n": 2000}).stored
    again = asked.sql(text, within={"n": 2000})
    assert again.cached
    assert again.to_dicts() == first.to_dicts()
    assert asked.budget.spent == spent
    low = lower(parse(text, asked.policy).query)
    new = _room.in_currency(asked._balances, low, Ask(within={"n": Fraction(2000)}))
    assert new.noise == "gaussian"  # what is not stored is paid by ρ


def test_a_batch_of_margins_follows_the_same_rule():
    texts = [GROUPS, "SELECT COUNT(*) AS n FROM t"]
    asked = curator()
    with asked.batch() as batch:
        answers = [batch.sql(text, within={"n": 100 if "g" in text else 900}) for text in texts]
    laws = [part.noise for a in answers for part in a.answer.parts]
    assert all(isinstance(law, DiscreteGaussian) for law in laws)
    spent = asked.budget.spent
    with asked.batch() as batch:
        again = [batch.sql(text, within={"n": 100 if "g" in text else 900}) for text in texts]
    assert asked.budget.spent == spent
    assert [a.answer.to_dicts() for a in again] == [a.answer.to_dicts() for a in answers]


def test_a_price_in_epsilon_keeps_both_ways_where_gaussian_noise_would_leave_less():
    """At (ε, δ) the smaller noise is Gaussian here; it is taken while ρ is not short."""
    asked = curator()
    offer = {"epsilon": "0.5", "delta": "1e-6"}
    assert asked.preview(GROUPS, **offer).plan.noise == "gaussian"
    asked.sql(COUNT.format(5), epsilon="0.8")
    quote = asked.preview(GROUPS, **offer)
    assert quote.plan.noise == "laplace"
    assert quote.plan.why.endswith("Gaussian noise would leave no more of the budget")
