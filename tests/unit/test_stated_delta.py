"""Under zcdp ρ is debited and δ is not: no caller's δ makes the ε of a price small."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
import pytest

import discreet as dc
from discreet import policy as pol
from discreet import privacy as p
from discreet.errors import BudgetExceededError

COUNT = "SELECT COUNT(*) AS n FROM people"


def curator(**budget):
    table = pol.Table("people", [pol.Integer("age", 0, 115)])
    given = budget or {"epsilon": "4", "delta": "1e-5"}
    policy = pol.Policy([table], pol.Budget(**given), name="stated delta")
    return dc.open(pa.table({"age": list(range(100))}), policy=policy, ledger=":memory:")


def batch(asked, **offer):
    with asked.batch(**offer) as questions:
        questions.sql(COUNT)


@pytest.mark.parametrize(
    "ask",
    [
        lambda c: c.sql(COUNT, rho="0.35", delta="0.6"),
        lambda c: c.preview(COUNT, rho="0.35", delta="0.6"),
        lambda c: c.sql(COUNT, epsilon="0.01", delta="0.3"),
        lambda c: c.sql(COUNT, within={"n": 5}, delta="0.3"),
        lambda c: c.sql(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=0.01, delta=0.3) "
                        f"{COUNT.removeprefix('SELECT ')}"),
        lambda c: batch(c, epsilon="0.01", delta="0.3"),
        lambda c: c.sql(f"{COUNT} UNION ALL {COUNT} WHERE age > 3", epsilon="0.01", delta="0.3"),
    ],
)  # fmt: skip
def test_a_delta_above_the_budgets_is_refused(ask):
    asked = curator()
    with pytest.raises(BudgetExceededError, match="the budget states δ 1e-05") as refused:
        ask(asked)
    assert refused.value.hint == 'delta="1e-05"'
    assert not asked.ledger.entries


def test_a_delta_of_the_budgets_is_taken():
    asked = curator()
    asked.sql(COUNT, rho="0.01", delta="1e-5")
    assert asked.ledger.entries[0].cost.delta == Fraction(1, 10**5)


@pytest.mark.parametrize("budget", [{"epsilon": "4", "delta": "1e-9"}, {"rho": "1", "delta": "1e-9",
                                     "accounting": "zcdp"}])  # fmt: skip
@pytest.mark.parametrize("offer", [{"rho": "0.01"}, {"within": {"n": 30}}])
def test_a_price_in_rho_is_stated_at_no_larger_delta_than_the_budgets(budget, offer):
    """Where no δ is offered, a millionth is used, and less where the budget has less."""
    asked = curator(**budget)
    cost = asked.sql(COUNT, **offer).cost
    if cost["delta"] != "0":  # else Laplace noise was the cheaper
        assert Fraction(cost["delta"]) == Fraction(1, 10**9)
        assert float(Fraction(cost["epsilon"])) >= p.Zcdp(cost["rho"]).epsilon(1e-9) * (1 - 1e-9)


def test_what_other_roads_debit_is_stated_at_the_budgets_delta():
    """Publications and partitions choose a δ of their own: the ledger holds the budget's."""
    asked = curator(epsilon="4", delta="1e-9")
    asked.record_external(p.Zcdp("0.1"), what="a census", delta="0.5")
    (entry,) = asked.ledger.entries
    assert (entry.cost.rho, entry.cost.delta) == (Fraction(1, 10), Fraction(1, 10**9))
    assert entry.cost.epsilon == Fraction(p.Zcdp("0.1").epsilon(1e-9))
    asked.ledger.verify()
