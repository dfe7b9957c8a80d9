"""Prices are promises: the accountant confirms what the planner claims."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import plan as pl
from discreet import policy as pol
from discreet import privacy as p
from discreet import sql
from discreet.errors import ParameterError

COLUMNS = [
    pol.Category("sex", values=["F", "M"], null="F"),
    pol.Integer("age", min=0, max=99, null=0),
    pol.Real("pay", min=-100, max=1000, step="0.5"),
    pol.Text("town"),
]
LIMITS = [{}, {"unit": "id", "max_rows_per_unit": 3},
          {"unit": "id", "max_groups_per_unit": 4, "max_rows_per_group": 2}]  # fmt: skip
TEXTS = [
    "SELECT COUNT(*) AS n FROM t WHERE age > 3",
    "SELECT sex, COUNT(*) AS n, AVG(pay) AS a FROM t GROUP BY sex",
    "SELECT sex, VAR(age) AS v, SUM(pay) AS s, COUNT(DISTINCT age) AS d FROM t GROUP BY sex",
    "SELECT MEDIAN(age) AS m, QUANTILE(pay, 0.9) AS q FROM t",
    "SELECT town, COUNT(*) AS n, SUM(age) AS s FROM t GROUP BY town",
]


def lowered(text, limits, relation):
    table = pol.Table("t", COLUMNS, neighbours=relation, **limits)
    policy = pol.Policy(tables=[table], budget=pol.Budget("1"))
    return pl.lower(sql.parse(text, policy).query)


def drawn(plan):
    """Law and part of every draw, both rounds of a selection of keys included."""
    for priced in plan.parts:
        law = getattr(priced.law, "law", priced.law)
        yield from [(law, priced.part)] * priced.part.draws
        if (before := getattr(priced.law, "before", None)) is not None:
            yield before.law, priced.part


def parts(plan):
    """(law, sensitivity) of everything that is measured."""
    return [(law, part.sensitivity) for law, part in drawn(plan)]


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("relation", ["add-remove", "change-one"])
@settings(max_examples=15)
@given(
    text=st.sampled_from(TEXTS),
    epsilon=st.sampled_from(["0.01", "0.5", "1", "7"]),
    delta=st.sampled_from(["1e-3", "1e-6", "1e-9"]),
)
def test_the_accountant_confirms_the_price(text, epsilon, delta, limits, relation):
    low = lowered(text, limits, relation)
    eps, dlt = Fraction(epsilon), Fraction(delta)
    laplace = pl.price(low, pl.Ask(eps, delta=dlt), noise="laplace")
    assert sum(loss.top for loss in laplace.losses if loss.top) == eps == laplace.cost.epsilon
    if "MEDIAN" not in text:
        assert sum(s.l1 / law.scale for law, s in parts(laplace)) == eps
    assert laplace.cost.delta == (dlt if low.selector is not None else 0)
    best = pl.price(low, pl.Ask(eps, delta=dlt))
    if best.noise == "gaussian":
        confirm_gaussian(best, eps, dlt, low)


def composed(plan, share=1):
    """Loss of the discrete laws drawn, of so much of their variance."""
    return p.compose(
        p.DiscreteGaussian.from_variance(
            law.sigma2 * share, x.sensitivity.l2_squared, x.coordinates
        )
        for law, x in drawn(plan)
    )


def confirm_gaussian(plan, eps, dlt, low):
    """The composed loss of the discrete laws drawn stays within (ε, δ)."""
    left = dlt / 2 if low.selector is not None else dlt
    assert composed(plan).delta(eps) <= left
    assert sum(Fraction(s.l2_squared) / (2 * law.sigma2) for law, s in parts(plan)) == plan.cost.rho


@pytest.mark.parametrize("limits", LIMITS)
def test_gaussian_prices_are_confirmed_wherever_they_win(limits):
    won, split = 0, 0
    for text in TEXTS:
        for eps in ("0.1", "0.5", "1", "4"):
            low = lowered(text, limits, "add-remove")
            plan = pl.price(low, pl.Ask(Fraction(eps), delta=Fraction(1, 1000)))
            if plan.noise == "gaussian":
                won += 1
                split += low.selector is not None
                confirm_gaussian(plan, Fraction(eps), Fraction(1, 1000), low)
                # and none is wider than it need be: a hundredth less would not do
                left = Fraction(1, 2000 if low.selector is not None else 1000)
                assert composed(plan, Fraction(99, 100)).delta(Fraction(eps)) > left
    assert won or limits == {}
    assert split or limits != LIMITS[2]  # also where a draw is split into rounds


@pytest.mark.parametrize("text", TEXTS)
def test_rho_is_exact(text):
    low = lowered(text, {}, "add-remove")
    plan = pl.price(low, pl.Ask(rho=Fraction(1, 7), delta=Fraction(1, 10**6)))
    assert plan.cost.rho == Fraction(1, 7)
    if "MEDIAN" not in text:
        assert plan.cost.rho == sum(
            Fraction(s.l2_squared) / (2 * law.sigma2) for law, s in parts(plan)
        )


def test_modes_are_paid_by_rows_not_by_groups():
    low = lowered(
        "SELECT sex, MODE(sex) AS m, COUNT(*) AS n FROM t GROUP BY sex", LIMITS[1], "add-remove"
    )
    plan = pl.price(low, pl.Ask(Fraction(1)))
    # a unit of three rows moves the scores of all groups by three together
    (law,) = (p.law for p in plan.parts if p.part.kind == "pick")
    assert (law.epsilon, law.sensitivity, law.monotone, law.flip) == (Fraction(1, 2), 3, True, True)
    assert plan.cost.epsilon == 1


@pytest.mark.parametrize("relation", ["add-remove", "change-one"])
def test_all_rows_of_a_unit_may_meet_in_one_node_of_a_tree(relation):
    """Limits are per group of the question; per leaf they would be exceeded by coarser levels."""
    limits = {"unit": "id", "max_groups_per_unit": 2, "max_rows_per_group": 2}
    low = lowered(
        "SELECT sex, MEDIAN(age) AS m, MODE(sex) AS o FROM t GROUP BY sex", limits, relation
    )
    twice = 2 if relation == "change-one" else 1
    for found in (part.sensitivity for part in low.parts):
        assert (found.l1, found.l2_squared, found.linf) == (4 * twice, 8 * twice, 2)


def test_many_sums_of_unlike_steps_are_priced_with_gaussian_noise():
    """No variance was certified for them, and Laplace noise was taken in its place."""
    pairs = itertools.product(("age", "pay"), range(8))
    sums = [f"SUM({x}) FILTER (WHERE age > {i}) AS {x}{i}" for x, i in pairs]
    low = lowered(f"SELECT {', '.join(sums)} FROM t", {}, "add-remove")
    assert pl.price(low, pl.Ask(Fraction(4), delta=Fraction(1, 10**6))).noise == "gaussian"


def test_mutant_half_noise_would_be_refused_by_the_accountant():
    text = "SELECT sex, COUNT(DISTINCT age) AS d, AVG(age) AS a, AVG(pay) AS b, SUM(age * 2) AS s"
    low = lowered(f"{text} FROM t GROUP BY sex", LIMITS[2], "add-remove")
    plan = pl.price(low, pl.Ask(Fraction(1), delta=Fraction(1, 10**3)))
    losses = [
        p.DiscreteGaussian.from_variance(law.sigma2 / 4, s.l2_squared, 20) for law, s in parts(plan)
    ]
    assert plan.noise == "gaussian"
    assert p.compose(losses).delta(1) > 1e-3


def test_asks_that_say_nothing_or_too_much():
    for bad in (
        {},
        {"epsilon": Fraction(1), "rho": Fraction(1)},
        {"epsilon": Fraction(1), "within": {}},
    ):
        with pytest.raises(ParameterError):
            pl.Ask(**bad)


@pytest.mark.parametrize("offer", [{"epsilon": Fraction(1)}, {"rho": Fraction(1, 1000)}])
def test_noise_that_is_too_wide_is_refused_with_a_hint_that_works(offer):
    """It used to say ``scale=1``, which no question takes."""
    table = pol.Table("t", [pol.Integer("x", 0, 2 * 10**9)])
    policy = pol.Policy([table], pol.Budget("1"))

    def priced(text):
        return pl.price(pl.lower(sql.parse(text, policy).query), pl.Ask(**offer))

    with pytest.raises(ParameterError, match="WHERE column BETWEEN low AND high"):
        priced("SELECT VAR_POP(x) AS v FROM t")
    assert priced("SELECT VAR_POP(x) AS v FROM t WHERE x BETWEEN 0 AND 1000").parts


def test_what_no_margin_names_costs_no_more_than_the_cheapest_that_one_does():
    """A count that no unit can move has no share, so it is not the cheapest either."""
    low = lowered("SELECT COUNT(*) AS n, SUM(pay) AS s, SUM(age) AS t FROM t", {}, "change-one")
    both = pl.price(low, pl.Ask(within={"n": Fraction(5), "s": Fraction(9000)}))
    alone = pl.price(low, pl.Ask(within={"s": Fraction(9000)}))
    assert [priced.law for priced in both.parts] == [priced.law for priced in alone.parts]
    assert [part.private for part in low.parts] == [False, True, True]
    spent = {loss.top for loss in both.losses}
    assert len(spent) == 1
    free = pl.price(low, pl.Ask(within={"n": Fraction(0)}))
    assert {loss.top for loss in free.losses} == {Fraction(1, 10**6)}


def test_of_two_margins_on_one_part_the_narrower_decides():
    low = lowered("SELECT COUNT(*) AS a, COUNT(*) AS b FROM t WHERE age > 3", {}, "add-remove")
    alone = pl.price(low, pl.Ask(within={"a": Fraction(5)}))
    for margins in ({"a": 5, "b": 50}, {"b": 50, "a": 5}, {"a": 50, "b": 5}, {"b": 5, "a": 50}):
        both = pl.price(low, pl.Ask(within={k: Fraction(v) for k, v in margins.items()}))
        assert [x.law for x in both.parts] == [x.law for x in alone.parts]


def test_a_rho_that_protects_nothing_is_refused():
    low = lowered("SELECT COUNT(*) AS n FROM t", {}, "add-remove")
    with pytest.raises(ParameterError, match="protects nothing"):
        pl.price(low, pl.Ask(rho=Fraction(10**16)))


def test_a_margin_may_rest_on_a_part_that_no_unit_moves():
    """The sum is that of the mean, and of a count that is public under change-one."""
    low = lowered("SELECT SUM(age) AS s, AVG(age) AS m FROM t", {}, "change-one")
    assert sorted(low.outlets[i].private for i in low.formulas[0].parts) == [False, True]
    plan = pl.price(low, pl.Ask(within={"s": Fraction(900)}))
    (loss,) = plan.losses
    assert 0 < loss.top < 1
    narrow = pl.price(low, pl.Ask(within={"s": Fraction(9)}))
    assert narrow.cost.epsilon > 50 * plan.cost.epsilon


def test_a_price_in_rho_is_reported_at_one_in_a_million_unless_a_delta_is_given():
    low = lowered("SELECT COUNT(*) AS n FROM t WHERE age > 3", {}, "add-remove")
    for delta, reported in ((None, "1e-6"), (Fraction(1, 10**9), "1e-9")):
        cost = pl.price(low, pl.Ask(rho=Fraction(1, 10), delta=delta)).cost
        assert (cost.rho, cost.delta, cost.rho_delta) == (Fraction(1, 10), Fraction(reported), 0)
        assert cost.epsilon == Fraction(p.Zcdp("0.1").epsilon(reported))
