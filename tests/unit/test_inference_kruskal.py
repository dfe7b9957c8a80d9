"""Absolute ranks over a curator's table: how far one row moves them, what is paid and stored."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from discreet import audit
from discreet import inference as inf
from discreet import policy as pol
from discreet.engines import _render
from discreet.errors import BudgetExceededError, DiscreetError, UnprovenStatementError
from discreet.inference import _absolute_ranks as ranks
from discreet.inference._curated_kruskal import Design
from discreet.privacy import Neighbours

CHANGE = Neighbours.CHANGE_ONE
RELATIONS = list(Neighbours)


def excess(rows, groups, reach):
    """Rows are (value, group, random number), in any order."""
    values, places, words = (np.array([r[i] for r in rows], dtype=np.int64) for i in range(3))
    return ranks.excess(values, places, groups, reach, lambda _: words.astype(np.uint64))


def by_definition(rows, groups, reach):
    """The largest sum of any set of groups, of signs of pairs that are clipped row by row."""
    keys = [(value, word) for value, _, word in rows]
    signs = [sum((k > other) - (k < other) for other in keys) for k in keys]
    scores = [min(max(s, -reach), reach) for s in signs]
    sums = [sum(s for s, r in zip(scores, rows, strict=True) if r[1] == g) for g in range(groups)]
    return max(sum(s for i, s in enumerate(sums) if among >> i & 1) for among in range(2**groups))


# -- how far one row moves it ---------------------------------------------------------------


@pytest.mark.parametrize("groups", [2, 3])
def test_no_row_moves_absolute_ranks_further_than_proved(groups):
    """All tables of up to five rows in all orders of their ranks, all clips; bounds are attained.

    Whatever values, ties and random numbers are, rows have such an order.
    """
    for reach in range(1, 6):
        found = {
            places: excess([(i, g, i) for i, g in enumerate(places)], groups, reach)
            for n in range(6)
            for places in itertools.product(range(groups), repeat=n)
        }
        less, other = 0, 0
        for places, value in found.items():
            for i in range(len(places)):
                rest = places[:i] + places[i + 1 :]
                less = max(less, abs(value - found[rest]))
                # anywhere else in the order, in any group
                for j, g in itertools.product(range(len(places)), range(groups)):
                    other = max(other, abs(value - found[(*rest[:j], g, *rest[j:])]))
        assert less == min(reach, 4)
        assert other <= 2 * reach
        if reach <= 2:
            assert other == 2 * reach


def test_absolute_ranks_are_what_their_definition_says():
    """Ties in the order of random numbers, groups without anybody, tables without rows."""
    rng = np.random.default_rng(1)
    for _ in range(300):
        n, groups, reach = (int(rng.integers(*ends)) for ends in ((0, 9), (2, 5), (1, 12)))
        words = rng.permutation(50)[:n]
        rows = [(int(rng.integers(3)), int(rng.integers(groups)), int(w)) for w in words]
        assert excess(rows, groups, reach) == by_definition(rows, groups, reach)
    assert by_definition([(0, 0, 0), (1, 1, 0)], 3, 9) == 1


def test_random_numbers_that_meet_are_drawn_again():
    seen = iter([np.array([5, 5], np.uint64), np.array([7, 5], np.uint64)])
    values = np.array([1, 1])
    assert ranks.excess(values, np.array([0, 1]), 2, 9, lambda _: next(seen)) == 1
    assert next(seen, None) is None


def neighbours(relation, rng, n):
    """A table and one that differs in a row: values with ties, random numbers that stay."""
    rows = [(int(rng.integers(4)), int(rng.integers(3)), 10 * i) for i in range(n)]
    rest = list(rows)
    gone = rest.pop(int(rng.integers(n)))
    if relation is CHANGE:
        rest.append((int(rng.choice([0, 3])), int(rng.integers(3)), gone[2]))
    return rows, rest


def replayed(plan, rows, rest):
    def release(table):
        values, places, words = (np.array([r[i] for r in table]) for i in range(3))
        return plan.measure(values, places, lambda _: words.astype(np.uint64))

    return audit.replay(release, rows, rest)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("public", [True, False])
def test_replays_of_absolute_ranks_find_nothing(relation, public):
    if public and relation is not CHANGE:
        return  # a public number of rows is one that neighbours share
    rng = np.random.default_rng(2)
    for _ in range(40):
        report = replayed(
            Design.of(3, relation, Fraction(1), public=public), *neighbours(relation, rng, 8)
        )
        assert report.ok, report.violations
        assert len(report.steps) == (1 if public else 2)


def test_half_the_sensitivity_is_caught_by_a_replay():
    """One row goes from below all others to above them: f moves by twice its clip."""
    before = [(0, 0, 0), (9, 0, 1), *((5, 1, 10 + i) for i in range(8))]
    after = [(9, 0, 0), *before[1:]]
    priced = Design.of(3, CHANGE, Fraction(1), public=True)
    assert replayed(priced, before, after).ok
    report = replayed(replace(priced, times=1), before, after)
    assert any("geometric declares L1 1024" in v for v in report.violations)


# -- over a curator's table -----------------------------------------------------------------


def policy(relation=CHANGE, *, missing=False, budget="1000", unit=None):
    replaced = {} if missing else {"null": 0}
    columns = [
        pol.Integer("x", 0, 999, **replaced),
        pol.Category("g", ["a", "b", "c"], **({} if missing else {"null": "a"})),
        pol.Category("one", ["a"]),
        pol.Text("note"),
    ]
    limits = {} if unit is None else {"unit": unit, "max_rows_per_unit": 40}
    return pol.Policy([pol.Table("t", columns, neighbours=relation, **limits)], pol.Budget(budget))


def people(n=300, shift=150, copies=1):
    rng = np.random.default_rng(3)
    place = np.arange(n) % 3
    x = (300 + 100 * rng.normal(size=n) + shift * place).clip(0, 999).astype(int)
    columns = {"x": x, "g": np.array(list("abc"))[place], "who": np.arange(n),
               "one": ["a"] * n, "note": ["n"] * n}  # fmt: skip
    return pa.table({k: np.repeat(v, copies) for k, v in columns.items()})


def curator(table=None, **rules):
    return dc.open(people() if table is None else table, policy=policy(**rules), ledger=":memory:")


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("missing", [True, False])
def test_a_difference_is_found_and_paid_once(relation, missing):
    with curator(relation=relation, missing=missing) as c:
        found = inf.curated_kruskal(c, "x", by="g", epsilon=2)
        assert found.pvalue < 0.01
        assert found.loss.epsilon() == pytest.approx(2, rel=1e-12)
        assert found.loss.neighbours == relation.value
        assert c.budget.spent["epsilon"] == 2
        again = inf.curated_kruskal(c, "x", by="g", epsilon="2")
        assert (again.statistic, again.pvalue) == (found.statistic, found.pvalue)
        assert c.budget.spent["epsilon"] == 2
        inf.curated_kruskal(c, "x", by="g", epsilon=2, fresh=True)
        inf.curated_kruskal(c, "x", by="g", epsilon=2, where="x > 5")
        assert c.budget.spent["epsilon"] == 6
        exactly = found.parameters["rows"] == "300"
        assert exactly == (relation is CHANGE and not missing)


def test_the_ledger_enters_the_noise_before_any_row_is_read():
    for missing, laws in ((False, ["1024/2"]), (True, ["1024/1.8", "10/2"])):
        with curator(missing=missing) as c:
            inf.curated_kruskal(c, "x", by="g", epsilon=2)
            *_, line = [x for x in c.ledger.lines if x.kind == "debit"]
            entered = json.loads(line.entry(c.ledger.identity).noise)
        scales = [Fraction(a) / Fraction(b) for a, b in (law.split("/") for law in laws)]
        assert [Fraction(x["scale"]) for x in entered] == scales
        assert {x["law"] for x in entered} == {"discrete-laplace"}


def spy(monkeypatch):
    """See what is measured: how many rows count."""
    seen, original = [], Design.measure

    def measure(self, values, places, *words):
        seen.append((values.size, np.bincount(places, minlength=3).tolist()))
        return original(self, values, places, *words)

    monkeypatch.setattr(Design, "measure", measure)
    return seen


def test_rows_without_a_value_or_a_listed_group_do_not_count(monkeypatch):
    table = pa.table({"x": [1, None, 3, 4, 5], "g": ["a", "b", None, "z", "b"],
                      "one": ["a"] * 5, "note": ["n"] * 5})  # fmt: skip
    with curator(table, missing=True) as c:
        seen = spy(monkeypatch)
        found = inf.curated_kruskal(c, "x", by="g", epsilon=1)
        assert seen == [(2, [1, 1, 0])]
        assert "about" in found.parameters["rows"]
    with curator(table, missing=False) as c:
        # all are put in a group: their number is public, and exact
        assert inf.curated_kruskal(c, "x", by="g", epsilon=1).parameters["rows"] == "5"
        assert seen[1:] == [(5, [3, 2, 0])]
        # which rows WHERE picks is not
        found = inf.curated_kruskal(c, "x", by="g", epsilon=1, where="x > 3")
        assert seen[2:] == [(2, [1, 1, 0])]
        assert "about" in found.parameters["rows"]


@pytest.mark.parametrize("relation", RELATIONS)
def test_many_rows_of_one_unit_count_once(monkeypatch, relation):
    with curator(people(60, copies=40), relation=relation, unit="who") as c:
        seen = spy(monkeypatch)
        found = inf.curated_kruskal(c, "x", by="g", epsilon=1)
        assert seen == [(60, [20, 20, 20])]
        assert "about" in found.parameters["rows"]
        assert found.loss.unit == "who"


def test_few_or_no_rows_are_an_ordinary_outcome():
    """No evidence where noise hides how many rows there are; no error on any table."""
    for n in (0, 1, 2, 30):
        for missing in (True, False):
            with curator(people().slice(0, n), missing=missing) as c:
                found = inf.curated_kruskal(c, "x", by="g", epsilon="0.1")
                assert 0 < found.pvalue <= 1
                if missing:
                    # 30 rows beside noise of deviation 141; more than 423 below 1e-3 each
                    assert found.pvalue == 1
                    assert "no evidence" in found.summary()


def test_nothing_is_charged_for_ranks_that_cannot_be_asked():
    with curator() as c:
        good = {"by": "g", "epsilon": 1}
        for column, given in (
            ("note", good),
            ("g", good),
            ("nothing", good),
            ("x, x", good),
            ("x) AS c0, COUNT(*) AS n FROM t GROUP BY 1 --", good),
            ("x", {**good, "by": "x2"}),
            ("x", {**good, "by": "one"}),
            ("x", {**good, "by": "note"}),
            ("x", {**good, "epsilon": 0}),
            ("x", {**good, "draws": 3}),
            ("x", {**good, "where": "nonsense ="}),
            ("x", {**good, "table": "u"}),
        ):
            with pytest.raises(DiscreetError):
                inf.curated_kruskal(c, column, **given)
        assert c.budget.spent["epsilon"] == 0


def test_the_budget_holds_for_ranks():
    with curator(budget="1") as c:
        with pytest.raises(BudgetExceededError):
            inf.curated_kruskal(c, "x", by="g", epsilon=2)
        assert c.budget.spent["epsilon"] == 0


def test_a_limit_that_the_statement_forgets_is_found_before_the_debit(monkeypatch):
    monkeypatch.setattr(_render._Statement, "limit_rows", lambda _self, _node, below: below)
    with curator(people(60, copies=2), unit="who") as c:
        with pytest.raises(UnprovenStatementError, match="does not limit"):
            inf.curated_kruskal(c, "x", by="g", epsilon=1)
        assert c.budget.spent["epsilon"] == 0


# -- the p-value ----------------------------------------------------------------------------


def test_other_sizes_of_groups_do_not_reach_further():
    """Frequencies of 60 000 draws; what they may be off by is four of their deviations."""
    rng, draws = np.random.default_rng(4), 60_000
    for rows, groups, scale in ((24, 3, 0.0), (24, 3, 2.0), (30, 4, 1.0)):
        reach = rows // 2
        own = ranks.null_draws(rows, groups, reach, draws, rng)
        scores = np.clip(2 * np.arange(rows) - (rows - 1), -reach, reach)
        walk = np.cumsum(rng.permuted(np.tile(scores, (draws, 1)), axis=1), axis=1)
        walk = np.column_stack([np.zeros(draws), walk])
        noises = rng.laplace(0, scale * reach, draws) if scale else np.zeros(draws)
        tried = [rng.multinomial(rows, rng.dirichlet(np.ones(groups))) for _ in range(40)]
        for level in (0.05, 0.01, 0.001):
            cut = max(np.quantile(f + noises, 1 - level) for f in own)
            most = level + 4 * np.sqrt(2 * level / draws)
            for each in tried:
                sums = np.diff(walk[:, [0, *np.cumsum(each)]], axis=1)
                assert (np.maximum(sums, 0).sum(axis=1) + noises > cut).mean() <= most


def test_of_three_groups_unequal_sizes_reach_further_in_the_tail():
    """Where equal sizes have p = 0.0005 others have 0.00064: an equal split alone is no bound."""
    rng, draws = np.random.default_rng(7), 500_000
    equal, *others = ranks.null_draws(5000, 3, 5000, draws, rng)
    cut = np.quantile(equal, 1 - 0.0005)
    assert max((f > cut).mean() for f in others) > 1.15 * 0.0005


def test_more_rows_reach_further_in_law():
    rng = np.random.default_rng(5)
    few, more, many = (ranks.null_draws(n, 3, 45, 20_000, rng)[0] for n in (60, 90, 500))
    for level in (0.5, 0.9, 0.99):
        assert np.quantile(few, level) < np.quantile(more, level) < np.quantile(many, level)


def test_a_normal_law_stands_for_permutations(monkeypatch):
    """Quantiles of 20 000 draws on both sides, within three per cent."""
    rng = np.random.default_rng(6)
    normal = ranks.null_draws(401, 3, 200, 20_000, rng)
    monkeypatch.setattr(ranks, "_PERMUTED", 401)
    for drawn, law in zip(ranks.null_draws(401, 3, 200, 20_000, rng), normal, strict=True):
        for level in (0.5, 0.9, 0.99):
            assert np.quantile(drawn, level) == pytest.approx(np.quantile(law, level), rel=0.03)


def test_scores_go_further_where_there_is_less_noise():
    whole = [ranks.clip(90, 3, Fraction(e), 2) for e in (20, 2, 1, "1/10")]
    assert whole == [90, 67, 45, 45]
    assert ranks.clip(0, 2, Fraction(1), 1) == ranks.clip(-7, 2, Fraction(1), 1) == 1


def test_a_release_has_one_p_value_and_a_floor():
    plan = Design.of(3, CHANGE, Fraction(1), public=True)
    release = {"rows": 90, "excess": 90_000, "coin": "c"}
    first, again = (plan.read(release, 199, None) for _ in range(2))
    assert first.pvalue == again.pvalue == first.floor == 1 / 200
    assert first.at_floor
    assert "≤ 0.005" in first.summary()
    release["excess"] = 5000
    other = {plan.read({**release, "coin": c}, 199, None).pvalue for c in "abcdef"}
    assert len(other) > 1
