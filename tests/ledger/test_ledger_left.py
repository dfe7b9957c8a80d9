"""What is printed as left is what fits: budget, preview, refusal and hint say one number."""

from __future__ import annotations

import re
from fractions import Fraction

import pyarrow as pa
import pytest

import discreet as dc
from discreet import policy as pol
from discreet.errors import BudgetExceededError

TABLE = pol.Table("people", [pol.Integer("age", 0, 115), pol.Text("town")])
DATA = pa.table({"age": [31, 47], "town": ["Ulm", "Ulm"]})
COUNT = "SELECT COUNT(*) AS n FROM people WHERE age > {}"
ROUTES = {"epsilon": "3", "delta": "1e-6"}


def curator(analyst=None, **budget):
    policy = pol.Policy([TABLE], pol.Budget(**budget), name="left")
    return dc.open(DATA, policy, ledger=":memory:", analyst=analyst)


def printed(text):
    return re.search(r"(?:ρ )?([\d.e-]+) of [\d.e-]+ left", text)[1]


def spend(opened, prices, **more):
    for n, price in enumerate(prices):
        opened.sql(COUNT.format(n), epsilon=price, fresh=True, **more)


HISTORIES = {
    "nothing yet": [],
    "three at 0.1": ["0.1"] * 3,
    "odd digits": ["0.0856", "1/7", "0.3333333"],
    "many small: paid by rho": ["0.05"] * 70,
    "nearly all": ["2.95"],
}


@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
@pytest.mark.parametrize("budget", [ROUTES, {"epsilon": "3"}], ids=["zcdp", "pure"])
def test_what_is_printed_as_left_is_admitted_and_a_little_more_is_not(history, budget):
    opened = curator(**budget)
    spend(opened, history if "delta" in budget else history[:20])
    left = printed(repr(opened.budget))
    assert printed(opened.preview(COUNT.format(99), epsilon="0.01").left) == left
    more = f"{float(left) * 1.01:.6g}"
    quote = opened.preview(COUNT.format(99), epsilon=more)
    assert f"ε {left} left" in quote.refused
    assert quote.refused.endswith(f"what fits: ε {left}")
    with pytest.raises(BudgetExceededError, match=f"ε {left} left") as refused:
        opened.sql(COUNT.format(99), epsilon=more)
    assert refused.value.hint == f'epsilon="{left}"'
    opened.sql(COUNT.format(99), epsilon=left)


def test_the_sum_of_what_was_paid_is_what_is_missing_while_sums_are_the_better_way():
    opened = curator(**ROUTES)
    spend(opened, ["0.1"] * 3)
    assert repr(opened.budget).endswith("2.7 of 3 left")
    assert "cost ε 0.1 · 2.6 of 3 left (≈ 31 more like this)" in repr(
        opened.sql(COUNT.format(50), epsilon="0.1")
    )


def test_shares_have_a_left_of_their_own():
    opened = curator("ana", **ROUTES, shares={"ana": "0.5"})
    spend(opened, ["0.25"])
    left = printed(repr(opened.budget))
    assert left == "1.25"
    with pytest.raises(BudgetExceededError):
        opened.sql(COUNT.format(99), epsilon="1.26")
    opened.sql(COUNT.format(99), epsilon=left)


@pytest.mark.parametrize("offer", [{"within": {"n": "0.01"}}, {"rho": "5"}], ids=["within", "rho"])
def test_a_hint_is_of_the_kind_that_was_offered_and_works(offer):
    opened = curator(**ROUTES)
    with pytest.raises(BudgetExceededError) as refused:
        opened.sql(COUNT.format(1), **offer)
    hint = dict(refused.value.hint.parameters)
    assert list(hint) == list(offer)
    opened.sql(COUNT.format(1), **hint)


def test_gaussian_noise_leaves_what_its_way_of_paying_leaves():
    opened = curator(**ROUTES)
    opened.sql(COUNT.format(1), rho="0.01")
    left = printed(repr(opened.budget))
    assert Fraction(left) < 1
    with pytest.raises(BudgetExceededError, match=f"ε {left} left"):
        opened.sql(COUNT.format(2), epsilon="1")
    opened.sql(COUNT.format(2), epsilon=left)


def test_a_budget_in_rho_is_left_in_rho():
    opened = curator(rho="0.1", delta="1e-6")
    opened.sql(COUNT.format(1), rho="0.03")
    left = printed(repr(opened.budget))
    assert left == "0.07"
    opened.sql(COUNT.format(2), rho=left)


def test_what_is_below_the_least_price_has_no_hint():
    opened = curator(**ROUTES)
    spend(opened, ["2.9995"])
    with pytest.raises(BudgetExceededError) as refused:
        opened.sql(COUNT.format(99), epsilon="0.0005")
    assert refused.value.hint is None


def test_a_small_price_does_not_seem_to_take_ten_of_a_large_budget():
    opened = curator(epsilon="20000", accounting="pure")
    spend(opened, ["0.07"])
    assert repr(opened.budget).endswith("19999.93 of 20000 left")
    last = opened.sql(COUNT.format(99), epsilon="19999.93")
    assert "(no more like this)" in repr(last)
