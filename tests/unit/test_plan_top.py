"""The largest groups: what is chosen and measured costs what is charged, and is the better way.

Tests of chance state how rarely they fail; the others compute laws exactly.
"""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import discreet as dc
from discreet import audit, sql
from discreet import plan as pl
from discreet import policy as pol
from discreet.answer import Answer
from discreet.audit._debit import undercharged
from discreet.curator import measure
from discreet.engines import Reference
from discreet.plan._top import Few, Top, largest_first
from discreet.service import _ticks as ticks

SALT = pl.Salt(b"0123456789abcdef")
KEYS = [f"k{i}" for i in range(12)]
TOP = "SELECT g, COUNT(*) AS n FROM t GROUP BY g ORDER BY n DESC LIMIT 2"
QUESTIONS = [
    TOP,
    "SELECT g, COUNT(DISTINCT id) AS n FROM t GROUP BY g ORDER BY n DESC LIMIT 2",
    "SELECT g, COUNT(*) AS n, AVG(x) AS a FROM t GROUP BY g ORDER BY n DESC, g LIMIT 2",
    "SELECT g, COUNT(*) AS n, VAR(x) AS v, SUM(y) AS s FROM t GROUP BY g ORDER BY n DESC LIMIT 2",
    "SELECT g, SUM(y) + COUNT(*) AS s FROM t GROUP BY g ORDER BY COUNT(*) DESC LIMIT 2",
]
ASKS = [pl.Ask(Fraction(1)), pl.Ask(rho=Fraction(1, 10)), pl.Ask(Fraction(1), Fraction(1, 10**6))]


def policy(groups=8, rows=2, relation="add-remove", budget="1000"):
    columns = [
        pol.Category("g", KEYS),
        pol.Integer("x", -3, 5),
        pol.Integer("y", 0, 4, null=0),
    ]
    limits = {"max_groups_per_unit": groups, "max_rows_per_group": rows}
    table = pol.Table("t", columns, unit="id", neighbours=relation, **limits)
    return pol.Policy([table], pol.Budget(budget, "0.1"))


def lowered(text, **how):
    return pl.lower(sql.parse(text, policy(**how)).query)


def person(rng, unit):
    return [
        {"id": unit, "g": g, "x": rng.choice([-3, 0, 5, None]), "y": rng.choice([0, 4])}
        for g in rng.sample(KEYS, rng.randrange(1, 12))
        for _ in range(rng.randrange(1, 4))
    ]


def first(low, ask=ASKS[0]):
    plan = pl.price(low, ask)
    assert isinstance(plan.parts[-1].part, Top)
    return plan


# -- what it costs -------------------------------------------------------------------------


@pytest.mark.parametrize("text", QUESTIONS)
@pytest.mark.parametrize("ask", ASKS, ids=["epsilon", "rho", "delta"])
def test_the_debit_is_what_the_draws_lose(text, ask):
    plan = first(lowered(text), ask)
    assert not list(undercharged(plan))
    if ask.rho is None:
        assert (plan.cost.epsilon, plan.cost.delta) == (1, 0)
    else:
        assert plan.cost.rho == Fraction(1, 10)
    # mutants: choices as if at half of their ε, numbers as if of one cell
    *few, top = plan.parts
    sharper = replace(top, law=replace(top.law, epsilon=2 * top.law.epsilon))
    assert list(undercharged(replace(plan, parts=(*few, sharper))))
    one = few[0].part.sensitivity
    wider = replace(
        few[0].part, sensitivity=pl.Sensitivity(2 * one.l1, 4 * one.l2_squared, one.linf)
    )
    cheaper = replace(plan, parts=(replace(few[0], part=wider), *few[1:], top))
    assert list(undercharged(cheaper))


@pytest.mark.parametrize("text", QUESTIONS)
def test_random_units_move_scores_and_few_cells_as_declared(text):
    """Every replay of one person more holds; the bounds of one cell or half a score do not."""
    rng, plan = random.Random(text), first(lowered(text))
    *few, top = plan.parts
    narrow = [replace(x, part=_of_one_cell(x.part)) for x in few]
    half = replace(top.part.counts, linf=top.part.counts.linf - 1)
    caught = [0, 0]
    for _ in range(40):
        others = [row for u in range(3) for row in person(rng, u)]
        sides = [Reference({"t": others}), Reference({"t": [*others, *person(rng, 9)]})]
        assert audit.replay(plan, *sides, SALT).ok
        for i, parts in enumerate(
            ([*narrow, top], [*few, replace(top, part=replace(top.part, counts=half))])
        ):
            caught[i] += not audit.replay(replace(plan, parts=tuple(parts)), *sides, SALT).ok
    assert caught[0] > 5
    assert caught[1] > 5 or top.part.counts.linf == 1


def _of_one_cell(part):
    s = part.sensitivity
    return replace(part, sensitivity=pl.Sensitivity(s.linf, s.linf**2, s.linf))


def test_a_whole_choice_loses_what_it_declares():
    """Two of five groups, all laws by hand: neighbours are told apart by ε/2 at most."""
    counts = [[3, 3, 1, 0, 2], [2, 2, 0, 0, 1]]  # a person with rows in four groups
    low = lowered(TOP, rows=1)
    plan = first(low)
    top = plan.parts[-1]
    chance = [_pairs(np.array(c), top.law) for c in counts]
    loss = max(abs(math.log(chance[0][pair] / chance[1][pair])) for pair in chance[0])
    assert 0.1 < loss <= 0.5 + 1e-12
    sharper = replace(top.law, epsilon=4 * top.law.epsilon)
    chance = [_pairs(np.array(c), sharper) for c in counts]
    assert max(abs(math.log(chance[0][p] / chance[1][p])) for p in chance[0]) > 0.5


def _pairs(scores, choice):
    """Probability of every set of two, chosen one after the other."""
    found = {}
    for a, b in itertools.permutations(range(scores.size), 2):
        rest = np.delete(scores, a)
        chance = _chances(scores, choice)[a] * _chances(rest, choice)[b - (b > a)]
        found[frozenset((a, b))] = found.get(frozenset((a, b)), 0) + chance
    return found


def _chances(scores, choice):
    """Permute-and-flip, over all orders of the candidates."""
    p = np.exp(float(choice.epsilon / choice.sensitivity) * (scores - scores.max()))
    orders = [*itertools.permutations(range(p.size))]
    found = np.zeros(p.size)
    for order in orders:
        left = 1.0
        for i in order:
            found[i] += left * p[i] / len(orders)
            left *= 1 - p[i]
    return found


# -- when it is taken ------------------------------------------------------------------------


def test_it_is_taken_where_a_unit_may_have_more_than_twice_as_many_groups():
    """Counts: noise of 2kp/ε instead of gp/ε; the planner takes the smaller."""
    for groups, k in itertools.product((1, 3, 4, 5, 8, 12), (1, 2, 3)):
        text = TOP.replace("LIMIT 2", f"LIMIT {k}")
        plan = pl.price(lowered(text, groups=groups), ASKS[0])
        scale = plan.parts[0].law.scale
        assert scale == 2 * min(groups, 2 * k)
        assert (plan.lowered.selector is not None) == (groups > 2 * k) == (plan.instead is not None)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT g, COUNT(*) AS n FROM t GROUP BY g ORDER BY n LIMIT 2",
        "SELECT g, COUNT(*) AS n FROM t GROUP BY g ORDER BY g LIMIT 2",
        "SELECT g, COUNT(*) AS n FROM t GROUP BY g ORDER BY n DESC LIMIT 12",
        "SELECT g, COUNT(*) AS n FROM t GROUP BY g HAVING COUNT(*) > 3 ORDER BY n DESC LIMIT 2",
        "SELECT g, SUM(y) AS n FROM t GROUP BY g ORDER BY n DESC LIMIT 2",
        "SELECT g, COUNT(x) AS n FROM t GROUP BY g ORDER BY n DESC LIMIT 2",
        "SELECT g, COUNT(*) AS n, MEDIAN(y) AS m FROM t GROUP BY g ORDER BY n DESC LIMIT 2",
        "SELECT g, COUNT(*) / SUM(COUNT(*)) OVER () AS s FROM t GROUP BY g ORDER BY s DESC LIMIT 2",
    ],
)
def test_everything_else_is_measured_whole(text):
    low = lowered(text)
    assert largest_first(low) is None
    assert pl.price(low, ASKS[0]).instead is None


@pytest.mark.parametrize(("groups", "chosen"), [(24, True), (19, False)])
def test_it_is_not_taken_where_what_is_shown_beside_loses_more(groups, chosen):
    """Counts of units get 3·9/2g of the noise, the sum of y 1.5 times as much; not so alone."""
    columns = [pol.Category("g", [f"k{i}" for i in range(40)]), pol.Integer("y", 0, 4, null=0)]
    # a unit may have all its rows in one group: a sum over nine groups moves as far as over all
    limits = {"max_groups_per_unit": groups, "max_rows_per_unit": groups}
    table = pol.Table("t", columns, unit="id", neighbours="add-remove", **limits)
    own = pol.Policy([table], pol.Budget("1000", "0.1"))
    text = "SELECT g, COUNT(DISTINCT id) AS n{} FROM t GROUP BY g ORDER BY n DESC LIMIT 9"
    first(pl.lower(sql.parse(text.format(""), own).query))
    plan = pl.price(pl.lower(sql.parse(text.format(", SUM(y) AS s"), own).query), ASKS[0])
    assert isinstance(plan.parts[-1].part, Top) == chosen
    if chosen:
        pairs = zip(plan.parts, plan.instead.parts, strict=False)
        ratios = [a.noise.std / b.noise.std for a, b in pairs]
        assert ratios == pytest.approx([27 / 48, 1.5], rel=0.01)


def test_changing_units_move_scores_both_ways_and_are_measured_whole():
    assert largest_first(lowered(TOP, relation="change-one")) is None


# -- the answer --------------------------------------------------------------------------------


def rows(people=300):
    """Everybody has eight groups; of these, the fewer have the later ones."""
    rng = random.Random(3)
    weight = [1 / (i + 1) for i in range(12)]
    found = []
    for unit in range(people):
        mine = list(dict.fromkeys(rng.choices(KEYS, weight, k=60)))[:8]
        found += [{"id": unit, "g": g, "x": 1, "y": 2} for g in mine]
    return found


def test_intervals_hold_given_the_choice():
    """2000 answers of two rows at 90 %; fails by chance with probability below 1e-11.

    The mutant takes the noise of one cell for that of two.
    """
    data = rows()
    exact = {k: sum(r["g"] == k for r in data) for k in KEYS}
    plan = first(lowered(TOP, rows=1), pl.Ask(Fraction(1, 5)))
    groups = Reference({"t": data}).execute(plan.lowered.aggregates[0], SALT)

    class Once:
        def execute(self, aggregate, salt):
            return groups

    held = narrow = 0
    for _ in range(1000):
        answer = Answer(measure(plan, Once(), SALT))
        assert answer.chosen == ()
        for row, ends in zip(answer.to_dicts(), answer.interval(0.9), strict=True):
            low, high = ends["n"]
            held += low <= exact[row["g"]] <= high
            narrow += abs(row["n"] - exact[row["g"]]) <= (high - low) / 4
    least = stats.binom.ppf(1e-11, 2000, 0.9)
    assert held >= least
    assert narrow < least


def test_the_answer_says_what_was_done_and_is_stored():
    data = rows()
    table = pa.table({name: [r[name] for r in data] for name in ("id", "g", "x", "y")})
    curator = dc.open(table, policy=policy(), ledger=":memory:")
    quote = curator.preview(TOP, epsilon=1)
    assert "the 2 largest of 12 groups: chosen privately, then measured" in repr(quote)
    answer = curator.sql(TOP, epsilon=1)
    assert len(answer) == 2
    assert "the 2 largest of 12 groups" in answer.covers
    again = curator.sql(TOP, epsilon=1)
    assert again.cached
    assert again.to_dicts() == answer.to_dicts()
    assert curator.budget.spent["epsilon"] == 1
    # where all groups are known, their largest are free
    whole = TOP.replace(" LIMIT 2", "").replace("COUNT(*)", "COUNT(DISTINCT id)")
    every = curator.sql(whole, epsilon=1)
    two = curator.sql(f"{whole} LIMIT 2", epsilon=1)
    assert two.cached
    assert two.to_dicts() == every.to_dicts()[:2]
    assert curator.budget.spent["epsilon"] == 2
    # paid for anew, they are chosen first
    assert "the 2 largest of 12" in curator.sql(f"{whole} LIMIT 2", epsilon=1, fresh=True).covers


def test_an_answer_of_all_groups_does_not_displace_a_stored_one():
    data = rows()
    table = pa.table({name: [r[name] for r in data] for name in ("id", "g", "x", "y")})
    curator = dc.open(table, policy=policy(), ledger=":memory:")
    answer = curator.sql(TOP, epsilon=1)
    curator.sql(TOP.replace(" LIMIT 2", ""), epsilon=1)
    again = curator.sql(TOP, epsilon=1)
    assert again.cached
    assert again.to_dicts() == answer.to_dicts()
    assert "the 2 largest of 12 groups" in repr(curator.preview(TOP, epsilon=1))


def test_at_equal_price_the_chosen_groups_are_better_and_their_counts_far_more_exact():
    """Twelve groups, eight a person, ε = 1/2: rows in the two shown, and errors of their counts.

    Exponential and Laplace noise of a seeded generator stand for the exact draws.
    """
    data = rows()
    exact = np.array([sum(r["g"] == k for r in data) for k in KEYS], dtype=float)
    rng, eps, k, g, runs = np.random.default_rng(5), 0.5, 2, 8, 4000
    whole = exact + rng.laplace(0, g / eps, (runs, 12))
    shown = np.argsort(-whole, axis=1)[:, :k]
    left, mine = np.tile(exact, (runs, 1)), []
    for _ in range(k):
        noisy = left + rng.exponential(2 * k / eps, left.shape)
        mine.append(noisy.argmax(axis=1))
        left[np.arange(runs), mine[-1]] = -np.inf
    chosen = np.stack(mine, axis=1)
    kept = [exact[picks].sum(axis=1).mean() for picks in (shown, chosen)]
    assert kept[1] > kept[0] - 1
    off = np.abs(np.take_along_axis(whole, shown, 1) - exact[shown]).mean()
    assert np.abs(rng.laplace(0, 2 * k / eps, (runs, k))).mean() < 0.6 * off


def test_few_cells_never_count_for_more_than_all():
    low = lowered("SELECT g, COUNT(*) AS n FROM t GROUP BY g ORDER BY n DESC LIMIT 2", groups=8)
    (part,) = low.parts
    for k in (1, 2, 8, 11):
        few = Few.of(part, k).sensitivity
        assert few.l1 == 2 * min(k, 8)
        assert few.l2_squared == 4 * min(k, 8)
        assert few.linf == 2


def test_a_service_expects_the_time_of_every_choice():
    """Its ticks are fixed before a run: what they leave out would make runs late, and tell."""
    one, three = (first(lowered(TOP.replace("LIMIT 2", f"LIMIT {k}"))) for k in (1, 3))
    works = [ticks.bound((plan,), 1000, 1.0, 0) for plan in (one, three)]
    assert works[1] - works[0] == pytest.approx(ticks.SAFETY * ticks._CELL * 12)
