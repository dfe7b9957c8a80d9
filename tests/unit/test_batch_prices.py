"""All questions of a batch are priced together: shares, laws, and what they cost one unit."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from discreet import policy as pol
from discreet import privacy as p
from discreet.curator import _batch

COUNT = "SELECT COUNT(*) AS n FROM people"


def curator(accounting="approx", **budget):
    columns = [pol.Integer("age", 0, 115), pol.Category("sex", ["F", "M"]), pol.Text("town")]
    table = pol.Table("people", columns)
    limits = budget or {"epsilon": "100", "delta": "1e-3"}
    policy = pol.Policy([table], pol.Budget(accounting=accounting, **limits), name=accounting)
    rows = {"age": np.arange(400) % 116, "sex": ["F", "M"] * 200, "town": ["a"] * 400}
    return dc.open(pa.table(rows), policy=policy, ledger=":memory:")


def laws(texts, asked=None, delta="1e-6", epsilon=1, **choices):
    asked = asked or curator(**choices)
    with asked.batch(epsilon=epsilon, delta=delta) as batch:
        pending = [batch.sql(text) for text in texts]
    return [[part.noise for part in q.answer.parts] for q in pending], batch.cost


def objective(shares, questions, groups, rho):
    """Sum of weighted variances of all draws; a question has its weight's part of a group."""
    total = 0.0
    for share, group in zip(shares, groups, strict=True):
        top = max(questions[i].weight for i in group)
        for q in (questions[i] for i in group):
            w, k, part = float(q.weight), q.lowered.draws, float(q.weight / top)
            total += w**4 * k**2 / (share * part**2) if rho else w**3 * k**3 / (share * part) ** 2
    return total


@pytest.mark.parametrize("rho", [False, True])
def test_no_other_shares_have_less_variance(rho, monkeypatch):
    """Random batches: moving a share from one group to another never helps; certain to hold."""
    rng = np.random.default_rng(5)
    groups = [[0, 1, 2], [3], [4, 5]]
    batches = [
        [
            SimpleNamespace(
                weight=Fraction(int(rng.integers(1, 9)), 4),
                lowered=SimpleNamespace(draws=int(rng.integers(1, 5))),
            )
            for _ in range(6)
        ]
        for _ in range(20)
    ]

    def helped():
        found = 0
        for questions in batches:
            each = _batch._shares(questions, groups, rho=rho)
            shares = np.array([float(max(each[i] for i in g)) for g in groups])
            assert sum(shares) == pytest.approx(1)
            here = objective(shares, questions, groups, rho)
            for step in np.array([[1, -1, 0], [-1, 0, 1], [0, 1, -1], [-1, 1, 0]]) * 0.001:
                there = objective(shares + step, questions, groups, rho)
                found += there < here * (1 - 1e-9)
        return found

    assert helped() == 0
    # mutant: every group gets the same
    monkeypatch.setattr(_batch, "_shares", lambda q, *_, **__: [Fraction(1, 3)] * len(q))
    assert helped() > 0


def test_many_questions_about_the_same_people_get_gaussian_noise():
    texts = [f"{COUNT} WHERE age >= {k}" for k in range(40)]
    found, cost = laws(texts)
    assert {type(law).__name__ for (law,) in found} == {"DiscreteGaussian"}
    (sigma2,) = {law.sigma2 for (law,) in found}
    # as exact as one vector of 40 counts asked at once, within a thousandth
    one = p.gaussian_sigma(40**0.5, 1, "1e-6")
    assert one <= float(sigma2) ** 0.5 <= 1.001 * one
    joint = p.compose([p.DiscreteGaussian.from_variance(sigma2, 1, 1)] * 40)
    assert joint.delta(cost.epsilon) <= cost.delta == Fraction(1, 10**6)


@pytest.mark.parametrize("count", [20, 60])
def test_gaussian_noise_of_a_batch_is_hardly_more_than_on_real_numbers(count):
    found, _ = laws([COUNT] * count)
    ideal = count * _batch.gaussian_sigma(1, Fraction(1), Fraction(1, 10**6)) ** 2
    for (law,) in found:
        assert ideal <= float(law.sigma2) <= ideal * (1 + 2**-9)


def test_selected_keys_leave_half_of_delta_to_gaussian_noise():
    keys = "SELECT town, COUNT(*) AS n FROM people GROUP BY town"
    found, cost = laws([keys, *[COUNT] * 60])
    assert cost.delta == Fraction(1, 10**6)
    assert cost.rho_delta == Fraction(1, 2 * 10**6)
    ideal = _batch.gaussian_sigma(1, Fraction(1), Fraction(1, 2 * 10**6)) ** 2
    for (law,) in found[1:]:
        assert 60 * ideal <= float(law.sigma2) <= 62 * ideal


def given(*pairs):
    """Questions by weight and number of draws."""
    return [SimpleNamespace(weight=Fraction(w), lowered=SimpleNamespace(draws=k)) for w, k in pairs]


@pytest.mark.parametrize(
    ("questions", "groups", "rho", "shares"),
    [
        ([(1, 1), (1, 1), (1, 1)], [[0], [1], [2]], False, ["1/3", "1/3", "1/3"]),
        ([(2, 1), (1, 3)], [[0], [1]], False, ["2/5", "3/5"]),
        ([(2, 1), (1, 3)], [[0], [1]], True, ["4/7", "3/7"]),
        ([(2, 1), (1, 1)], [[0, 1]], False, ["1", "1/2"]),
        ([(2, 1), (1, 1)], [[0, 1]], True, ["1", "1/4"]),
        ([(1, 0)], [[0]], False, ["1"]),
        ([(1, 0), (1, 1)], [[0], [1]], True, ["1", "1"]),
    ],
)
def test_shares_of_some_batches(questions, groups, rho, shares):
    found = _batch._shares(given(*questions), groups, rho=rho)
    assert found == [Fraction(x) for x in shares]


def test_few_questions_keep_laplace_noise_and_a_pure_price():
    found, cost = laws([f"{COUNT} WHERE age >= {k}" for k in range(3)])
    assert {law.scale for (law,) in found} == {3}
    assert (cost.epsilon, cost.delta) == (1, 0)


def test_a_partition_gets_more_than_a_question_that_stands_alone():
    """Eight disjoint counts and the total: shares 2 to 1, by the cube root of eight."""
    texts = [f"{COUNT} WHERE age = {k}" for k in range(8)] + [COUNT]
    found, cost = laws(texts, delta=None)
    assert [law.scale for (law,) in found] == [Fraction(3, 2)] * 8 + [3]
    assert cost.epsilon == 1


def test_every_draw_gets_the_same_share():
    """Four draws in all, three of them in one question."""
    three = "SELECT SUM(age) AS s, SUM(age * age) AS d, SUM(2 * age) AS t FROM people"
    found, _ = laws([COUNT, three], delta=None)
    scales = [law.scale for question in found for law in question]
    assert scales == [4, 4 * 115, 4 * 115**2, 4 * 115]  # in steps of two


def test_a_budget_in_rho_takes_the_law_that_costs_less_of_it():
    asked = curator("zcdp", rho="5", delta="1e-3")
    found, cost = laws([f"{COUNT} WHERE age >= {k}" for k in range(3)], asked)
    assert type(found[0][0]).__name__ == "DiscreteGaussian"
    assert cost.rho < sum(
        (Fraction(1, 3) ** 2 / 2 * Fraction(9, 10) for _ in range(3)), Fraction(0)
    )


def test_quantiles_and_counts_share_a_batch_by_rho():
    texts = [COUNT, "SELECT MEDIAN(age) AS m FROM people"] * 8
    found, cost = laws(texts)
    assert type(found[0][0]).__name__ == "DiscreteGaussian"
    assert p.Zcdp(cost.rho).delta(1) <= Fraction(1, 10**6)
    assert p.Zcdp(cost.rho * (1 + Fraction(1, 2**28))).delta(1) > Fraction(1, 10**6)
    assert (cost.epsilon, cost.delta) == (1, Fraction(1, 10**6))


# -- margins ---------------------------------------------------------------------------


MARGINS = [
    ("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex", {"n": 12}),
    ("SELECT COUNT(*) AS n, SUM(age) AS s FROM people WHERE age > 50", {"n": 30, "s": 2000}),
]


def met(answers, margins):
    """Whether every interval of every answer is as narrow as was asked."""
    return all(
        high - low <= 2 * most * (1 + 1e-9)
        for answer, (_, wanted) in zip(answers, margins, strict=True)
        for row in answer.interval()
        for name, most in wanted.items()
        for low, high in [row[name]]
    )


@pytest.mark.parametrize(
    ("accounting", "budget", "delta"),
    [
        ("pure", {"epsilon": "100"}, None),
        ("approx", {"epsilon": "100", "delta": "1e-3"}, None),
        ("approx", {"epsilon": "100", "delta": "1e-3"}, "1e-6"),
        ("zcdp", {"rho": "100", "delta": "1e-3"}, None),
    ],
)
def test_margins_of_a_batch_are_met_at_no_more_than_one_by_one(accounting, budget, delta):
    asked = curator(accounting, **budget)
    with asked.batch(delta=delta) as batch:
        pending = [batch.sql(text, within=margins) for text, margins in MARGINS]
    assert met([x.answer for x in pending], MARGINS)
    alone = [asked.preview(text, within=margins).plan.cost for text, margins in MARGINS]
    currency = "rho" if accounting == "zcdp" else "epsilon"
    assert 0 < getattr(batch.cost, currency) <= sum(getattr(cost, currency) for cost in alone)


def test_margins_of_disjoint_questions_cost_the_dearest():
    texts = [f"SELECT COUNT(*) AS n FROM people WHERE sex = '{sex}'" for sex in "FM"]
    with curator("pure", epsilon="100").batch() as batch:
        batch.sql(texts[0], within={"n": 10})
        batch.sql(texts[1], within={"n": 20})
    dearest = curator("pure", epsilon="100").preview(texts[0], within={"n": 10}).plan.cost
    assert batch.cost.epsilon == dearest.epsilon


def test_margins_and_a_price_exclude_each_other():
    asked = curator()
    with pytest.raises(dc.errors.ParameterError, match="state epsilon= for the batch"):
        asked.batch(epsilon=1).sql(COUNT, within={"n": 10})
    with pytest.raises(dc.errors.ParameterError, match="state epsilon= for the batch"):
        asked.batch().sql(COUNT)
    with pytest.raises(dc.errors.ParameterError, match="maps output columns"):
        asked.batch().sql(COUNT, within=10)


def test_margins_with_open_keys_spend_delta_once():
    text = "SELECT town, COUNT(*) AS n FROM people GROUP BY town"
    with curator().batch(delta="1e-6") as batch:
        batch.sql(text, within={"n": 20})
        batch.sql(COUNT, within={"n": 5})
    assert batch.cost.delta <= Fraction("1e-6")


def test_units_meet_one_question_of_each_group():
    """What a unit loses is what its own questions lose, not the worst of each at every ε."""
    texts = [f"{COUNT} WHERE {test}" for test in ("sex = 'F'", "age < 5", "age >= 5")]
    with curator().batch(delta="1e-3") as batch:
        for text, margin in zip(texts, (5, 10, 7), strict=True):
            batch.sql(text, within={"n": margin})
    plans, groups = [*map(_plan_of, batch._questions)], [[0], [1, 2]]
    units = _batch.together(plans, groups)
    assert len(units) == 2
    for one in units:
        assert p.compose(one).delta(batch.cost.epsilon) <= batch.cost.delta
    worst = max(p.compose(one).epsilon("1e-3") for one in units)
    assert float(batch.cost.epsilon) == pytest.approx(worst, rel=2e-3)


def _plan_of(question):
    return _batch._meeting(question, "laplace", None)


def test_many_kinds_of_units_are_bounded_by_the_worst_of_each_group(monkeypatch):
    texts = [f"{COUNT} WHERE age = {k}" for k in range(4)]

    def cost():
        with curator("pure", epsilon="100").batch() as batch:
            for i, text in enumerate(texts):
                batch.sql(text, within={"n": 5 + i})
        return batch.cost

    exact = cost()
    monkeypatch.setattr(_batch, "_KINDS", 1)
    assert cost() == exact  # pure losses: the dearest, either way


OUT = ["1e200", "1e-110", "0", "-1", "1000000.000001", "0.000000999999"]


@pytest.mark.parametrize("weight", OUT)
def test_weights_out_of_reach_are_refused(weight):
    with pytest.raises(dc.errors.ParameterError):
        curator().batch(epsilon=1).sql(COUNT, weight=weight)


@pytest.mark.parametrize("weight", ["1e6", "1e-6"])
def test_weights_at_the_end_of_their_range_are_taken(weight):
    curator().batch(epsilon=1).sql(COUNT, weight=weight)


def test_the_unit_that_loses_most_decides_in_rho():
    plans = [SimpleNamespace(losses=[p.Zcdp(Fraction(k, 8))]) for k in (1, 3, 2)]
    plans.append(SimpleNamespace(losses=[]))
    assert _batch._rho(plans, [[0, 1], [2]]) == Fraction(5, 8)
    assert _batch._rho(plans, [[1, 0], [3]]) == Fraction(3, 8)
    assert _batch._rho(plans, [[3]]) == 0
