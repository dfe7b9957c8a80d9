"""Publications of a curator's tables: one road, paid once, replayable, free when repeated."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from discreet import audit, release
from discreet import meaning as meanings
from discreet import policy as pol
from discreet import privacy as p
from discreet.curator import Curator
from discreet.engines import Reference
from discreet.errors import (
    BudgetExceededError,
    IdempotencyError,
    ParameterError,
    PolicyError,
    PrivacyError,
    TaintedNoiseError,
)
from discreet.ledger import MemoryLedger
from discreet.noise._deterministic import deterministic
from discreet.plan import Salt, distance
from discreet.privacy import Neighbours

_NAMES = itertools.count()
W = release.Workload
COLUMNS = [
    pol.Category("area", values=["a", "b", "c"], null="c"),
    pol.Integer("age", min=0, max=15, null=0),
    pol.Category("sex", values=["F", "M"]),
    pol.Text("town"),
]
ROWS = [
    {"id": i // 2, "area": "abc"[i % 3], "age": i * 7 % 16, "sex": "FM"[i % 2], "town": "x"}
    for i in range(400)
]


def curator(rows=ROWS, *, budget="100", **table):
    own = pol.Policy(
        tables=[pol.Table("people", COLUMNS, **table)],
        budget=pol.Budget(budget, delta="1e-3", accounting="approx"),
        name=f"published {next(_NAMES)}",
    )
    return Curator(own, Reference({"people": rows}), MemoryLedger(own))


VECTOR = {"workload": W.prefix(16), "columns": ["age"]}
MAP = {"workload": W.kron(W.prefix(3), W.prefix(16)), "columns": ["area", "age"]}
TABLES = {"workload": W.marginals((3, 16, 2), (1, 2)), "columns": ["area", "age", "sex"]}
CASES = [
    (VECTOR, "identity", {"epsilon": 1}),
    (VECTOR, "hierarchical", {"epsilon": 1}),
    (VECTOR, "hb", {"rho": 1}),
    (VECTOR, "wavelet", {"epsilon": 1, "delta": "1e-6"}),
    (VECTOR, "hdmm", {"epsilon": 1}),
    (VECTOR, "matrix", {"rho": 1}),
    (MAP, "hb", {"epsilon": 1}),
    (TABLES, "marginals", {"rho": 1}),
    (TABLES, "marginals", {"epsilon": 1}),
    (VECTOR, "tree-adaptive", {"epsilon": 1}),
    (MAP, "tree-adaptive", {"rho": 1}),
    (VECTOR, "dawa", {"epsilon": 1}),
    (VECTOR, "mwem", {"epsilon": 1, "rounds": 2}),
    (VECTOR, "ahp", {"rho": 1}),
    (TABLES, "ireduct", {"epsilon": 1}),
    (MAP, "uniform-grid", {"epsilon": 1}),
    (MAP, "adaptive-grid", {"epsilon": 1}),
    (MAP, "privtree", {"epsilon": 1}),
    (MAP, "topdown", {"rho": 1}),
    (MAP, "urn", {"epsilon": 8, "draws": 20}),
    (TABLES, "synthetic", {"epsilon": 1, "delta": "1e-6"}),
]
IDS = [f"{method}-{'-'.join(price)}" for _, method, price in CASES]


def published(asked, what, method, price, **more):
    where = {key: value for key, value in what.items() if key != "workload"}
    return asked.publish("people", what["workload"], method=method, **where, **price, **more)


@pytest.mark.parametrize(("what", "method", "price"), CASES, ids=IDS)
def test_a_publication_is_paid_once_and_free_when_repeated(what, method, price):
    asked = curator(unit="id", max_rows_per_unit=2)
    first = published(asked, what, method, price)
    spent = asked.budget.spent
    again = published(asked, what, method, price)
    assert again.cached
    assert not first.cached
    assert asked.budget.spent == spent
    assert spent["epsilon"] > 0
    # the stored integers give the same answers, without the data
    assert np.allclose(again.answers, first.answers)
    assert json.loads(json.dumps(first.record())) == again.record()
    fresh = published(asked, what, method, price, fresh=True)
    assert asked.budget.spent["epsilon"] == 2 * spent["epsilon"]
    assert len(fresh.answers) == what["workload"].queries


@pytest.mark.parametrize(("what", "method", "price"), CASES, ids=IDS)
@pytest.mark.parametrize(
    "table",
    [
        {},
        {"unit": "id", "max_rows_per_unit": 2},
        {"neighbours": "change-one"},
        {"unit": "id", "max_rows_per_unit": 2, "neighbours": "change-one"},
    ],
    ids=["row", "id", "row-change", "id-change"],
)
def test_no_unit_moves_a_question_farther_than_declared(what, method, price, table):
    """Replay on neighbours: a unit taken out, or replaced by one with other rows."""
    asked = curator(**table)
    where = {key: value for key, value in what.items() if key != "workload"}
    bill = asked.publication("people", what["workload"], method=method, **where, **price).bill
    unit = table.get("unit")
    rest = [r for r in ROWS if r["id"] != 7] if unit else ROWS[1:]
    other = [{"id": 7, "area": "b", "age": 15, "sex": "M", "town": "x"}]
    right = rest if table.get("neighbours") is None else rest + other * (2 if unit else 1)
    engines = Reference({"people": ROWS}), Reference({"people": right})
    found = audit.replay(bill, *engines, Salt(b"one"))
    assert found.ok, found.violations


def test_a_part_that_forgets_the_rows_of_a_unit_is_caught():
    asked = curator(unit="id", max_rows_per_unit=2)
    bill = asked.publication("people", W.prefix(16), columns=["age"], epsilon=1).bill
    (priced,) = bill.parts
    forgetful = replace(bill, parts=(replace(priced, part=replace(priced.part, rows=1)),))
    right = [r for r in ROWS if r["id"] != 7]
    found = audit.replay(
        forgetful, Reference({"people": ROWS}), Reference({"people": right}), Salt(b"one")
    )
    assert any("of what is declared" in what for what in found.violations)


@pytest.mark.parametrize("other", [{"workload": W.identity(16)}, {"rounds": 2}])
def test_another_workload_or_option_is_another_publication(other):
    """A stored MWEM of prefixes was given out for one of cells: wrong numbers, for nothing."""
    asked = curator()
    how = {"columns": ["age"], "epsilon": "0.5", "method": "mwem"}
    first = {"workload": W.prefix(16), **how}
    asked.publish("people", key="one", **first)
    changed = {**first, **other}
    assert not asked.publish("people", **changed).cached
    with pytest.raises(IdempotencyError):
        asked.publish("people", key="one", **changed)
    assert asked.publish("people", **first).cached


def test_the_rows_of_a_unit_are_in_the_noise():
    one = curator().publication("people", W.identity(16), columns=["age"], epsilon=1)
    three = curator(unit="id", max_rows_per_unit=3)
    more = three.publication("people", W.identity(16), columns=["age"], epsilon=1)
    assert more.plan.rows == 3
    law = more.plan.mechanism.measurement.law
    assert law.scale == 3 * one.plan.mechanism.measurement.law.scale
    assert Fraction(more.cost["epsilon"]) == Fraction(one.cost["epsilon"]) == 1
    gauss = three.publication("people", W.identity(16), columns=["age"], rho=1)
    assert gauss.plan.mechanism.measurement.law.sigma2 == Fraction(9, 2)


def test_rows_that_can_leave_the_domain_are_not_merely_changed():
    kept = curator(neighbours="change-one")
    inside = kept.publication("people", W.identity(16), columns=["age"], rho=1).plan
    leaving = kept.publication("people", W.identity(2), columns=["sex"], rho=1).plan
    filtered = kept.publication(
        kept.table("people").where("sex = 'F'"), W.identity(16), columns=["age"], rho=1
    ).plan
    assert (inside.neighbours, inside.rows) == (Neighbours.CHANGE_ONE, 1)
    for plan in (leaving, filtered):
        assert (plan.neighbours, plan.rows) == (Neighbours.ADD_REMOVE, 2)


AREAS = {"workload": W.kron(W.identity(3), W.identity(16)), "columns": ["area", "age"],
         "rho": 1, "method": "topdown", "owner": "me"}  # fmt: skip
EXACT = {"neighbours": "change-one", "unprotected": ["total by area", "total"]}


@pytest.mark.parametrize("exact", ["area-totals", "total"])
def test_exact_totals_are_those_that_the_policy_names(exact):
    kept = curator(**EXACT)
    made = kept.publish("people", unprotected=[exact], **AREAS)
    totals = [sum(r["area"] == a for r in ROWS) for a in "abc"]
    if exact == "total":
        assert made.estimate.sum() == len(ROWS)
    else:
        assert made.estimate.sum(axis=1).tolist() == totals
    meaning = {"total": "the total", "area-totals": "the total of each area"}[exact]
    assert made.loss.unprotected == (meaning,)
    for said in (repr(made.loss), repr(made.plan), repr(made), str(meanings.of(made.loss))):
        assert meaning in said
        assert "unprotected" in said.lower() or "without any protection" in said
    part = made.record()["parts"][0]
    assert (part["terms"]["owner"], part["terms"]["unprotected"]) == ("me", [meaning])
    assert meaning in [q.get("meaning") for q in part["questions"]]
    # what is composed with it holds beside the same numbers
    assert p.compose([made.loss, p.Zcdp(1)]).unprotected == (meaning,)


def test_exact_totals_that_the_owner_does_not_name_are_refused():
    def refused(asked, match, table="people", **how):
        before = asked.budget.table
        with pytest.raises(PrivacyError, match=match):
            asked.publish(table, **{"unprotected": ["area-totals"], **AREAS, **how})
        assert asked.budget.table == before

    refused(curator(neighbours="change-one"), "total by area would be .* owner has to say so")
    kept = curator(**EXACT)
    refused(kept, "by name", owner=None)
    refused(kept, "whole table", kept.table("people").where("sex = 'F'"))
    refused(kept, "whole table", columns={"area": "area", "age": "age"})
    sexes = {"workload": W.kron(W.identity(2), W.identity(16)), "columns": ["sex", "age"]}
    refused(kept, "total by sex", **sexes)
    nullable = curator(neighbours="change-one", unprotected=["total by sex", "total"])
    refused(nullable, "values that are left out", **sexes)
    refused(nullable, "total by area")


def test_a_policy_names_exact_totals_of_its_columns_and_of_a_fitting_relation():
    for wrong, match in [
        ({"unprotected": ["total"]}, "neighbours keep them"),
        ({**EXACT, "unprotected": "total"}, "is a list"),
        ({**EXACT, "unprotected": ["total by town hall"]}, "must be one of total, total by area"),
        ({"public": True, "unprotected": ["total"]}, "neighbours"),
    ]:
        with pytest.raises(PolicyError, match=match):
            pol.Table("people", COLUMNS, **wrong)
    named = pol.Policy([pol.Table("people", COLUMNS, **EXACT)], pol.Budget("1"))
    assert pol.loads(named.to_toml()) == named
    plain = replace(named, tables=[pol.Table("people", COLUMNS, neighbours="change-one")])
    assert plain.fingerprint != named.fingerprint
    assert plain.identity == named.identity


PARTS = [
    (VECTOR, "hb", {}),
    (VECTOR, "hdmm", {}),
    (VECTOR, "dawa", {}),
    (VECTOR, "mwem", {"rounds": 2}),
    (VECTOR, "ahp", {}),
    (VECTOR, "tree-adaptive", {}),
    (MAP, "adaptive-grid", {}),
    (MAP, "privtree", {}),
    (MAP, "urn", {"draws": 20}),
    (TABLES, "ireduct", {}),
    (TABLES, "marginals", {}),
    (TABLES, "synthetic", {}),
]


@pytest.mark.parametrize(("asking", "method", "options"), PARTS, ids=str)
@pytest.mark.parametrize("relation", ["add-remove", "change-one"])
def test_all_parts_of_a_publication_can_be_replayed_by_anybody(asking, method, options, relation):
    asked = curator(unit="id", max_rows_per_unit=2, neighbours=relation)
    query = release.question(asked.table("people"), **asking, method=method, options=options)
    person = ROWS[0]["id"]
    other = [r for r in ROWS if r["id"] != person]
    sides = [audit.measurements(asked.policy, query, pa.Table.from_pylist(rows), salt=1)
             for rows in (ROWS, other)]  # fmt: skip
    assert [m.name for m in sides[0]] == [m.name for m in sides[1]]
    counts, *parts = (distance(a.exact, b.exact) for a, b in zip(*sides, strict=True))
    assert counts.l1 == sum(r["id"] == person for r in ROWS) > 0
    assert parts
    for moved, declared in zip(parts, sides[0][1:], strict=True):
        assert moved.within(declared.declared), declared.name
    assert max(moved.l1 for moved in parts) > 0


def test_a_part_that_moves_farther_than_it_says_is_seen_by_anybody(monkeypatch):
    asked = curator(unit="id", max_rows_per_unit=2)
    query = release.question(asked.table("people"), W.prefix(16), columns=["age"], method="hb")
    monkeypatch.setattr(release.Query, "norms", lambda *_: (0, 0, 0))
    other = [r for r in ROWS if r["id"] != ROWS[0]["id"]]
    left, right = (audit.measurements(asked.policy, query, pa.Table.from_pylist(rows), salt=1)
                   for rows in (ROWS, other))  # fmt: skip
    assert not distance(left[1].exact, right[1].exact).within(left[1].declared)


def test_the_budget_refuses_before_anything_is_read():
    class Blind(Reference):
        def execute(self, aggregate, salt):
            raise AssertionError("read before the debit")

    own = curator(budget="1").policy
    asked = Curator(own, Blind({"people": ROWS}), MemoryLedger(own))
    with pytest.raises(BudgetExceededError):
        asked.publish("people", W.prefix(16), columns=["age"], epsilon=2)
    assert asked.budget.spent["epsilon"] == 0
    # a proposal reads nothing either
    assert asked.publication("people", W.prefix(16), columns=["age"], epsilon=2).plan.rmse > 0


@pytest.mark.parametrize(
    ("how", "match"),
    [
        ({"columns": ["age"], "workload": W.prefix(15)}, "columns have age 16"),
        ({"columns": ["town"], "workload": W.prefix(15)}, "no public values"),
        ({"columns": [], "workload": W.prefix(15)}, "needs columns"),
        ({"columns": ["age"], "workload": "prefix"}, "needs a workload"),
        ({"columns": ["age"], "workload": W.prefix(16), "bins": {"sex": 2}}, "bins names"),
        ({"columns": ["age"], "workload": W.prefix(16), "method": "magic"}, "no method"),
    ],
)
def test_bad_publications_are_refused_for_free(how, match):
    asked = curator()
    with pytest.raises(ParameterError, match=match):
        asked.publish("people", epsilon=1, **how)
    assert asked.budget.spent["epsilon"] == 0


def test_a_domain_that_no_memory_holds_is_refused_with_its_size():
    columns = [pol.Integer(f"c{i}", 0, 99, null=0) for i in range(6)]
    own = pol.Policy([pol.Table("wide", columns)], pol.Budget("10"), name=f"w {next(_NAMES)}")
    asked = Curator(own, Reference({"wide": []}), MemoryLedger(own))
    names = list(own.tables["wide"].columns)
    with pytest.raises(ParameterError, match=r"1e\+12 cells"):
        asked.publish("wide", W.kron(*[W.identity(100)] * 6), columns=names, epsilon=1,
                      method="identity")  # fmt: skip
    # its marginals are published all the same, of no rows at all
    made = asked.publish("wide", W.marginals((100,) * 6, 1), columns=names, epsilon=1)
    assert made.answers.shape == (600,)


def test_bins_and_names_show_in_the_table():
    asked = curator()
    made = asked.publish(
        "people", W.kron(W.identity(3), W.prefix(4)), columns=["area", "age"],
        bins={"age": 4}, epsilon=1,
    )  # fmt: skip
    table = made.to_arrow()
    assert table.column_names == ["area", "age", "value", "low", "high"]
    assert table["area"].to_pylist()[:5] == ["a"] * 4 + ["b"]
    assert table["age"].to_pylist()[:4] == ["≤ 3", "≤ 7", "≤ 11", "≤ 15"]


def test_test_noise_is_not_published():
    asked = curator()
    with deterministic("published"), pytest.raises(TaintedNoiseError):
        asked.publish("people", W.prefix(16), columns=["age"], epsilon=1)


def test_synthetic_records_of_a_table():
    asked = curator()
    made = asked.publish(
        "people", W.marginals((3, 16, 2), 2), columns=["area", "age", "sex"],
        method="synthetic", rho=1,
    )  # fmt: skip
    assert made.synthesize(50).shape == (50, 3)
    assert [len(rows) for rows in made.sets(2, 40)] == [40, 40]
    hist = W.marginals((3, 16, 2), 2)
    assert len(made.answers) == hist.queries
    # tables of one model agree on their sums
    assert made.answers[:48].sum() == pytest.approx(made.answers[48:54].sum())


HOMES = [
    {"id": i, "area": "abc"[i % 3], "age": 0, "sex": "F", "town": f"{i % 3}h{i % 40}"}
    for i in range(300)
]


@pytest.mark.parametrize("relation", ["add-remove", "change-one"])
@pytest.mark.parametrize("regions", [True, False])
def test_sizes_of_groups_move_by_one_for_each_row(regions, relation):
    """One person comes, goes or moves, also the last of a group, and beyond the public number."""
    asked = curator(HOMES, neighbours=relation)
    for groups in (130, 20):  # 120 groups are there
        how = {
            "method": "count-of-counts",
            "group": "town",
            "groups": [groups // 3 + 1] * 3 if regions else groups,
            "columns": ["area"] if regions else [],
        }
        workload = W.kron(W.identity(3), W.prefix(9)) if regions else W.prefix(9)
        bill = asked.publication("people", workload, epsilon=1, **how).bill
        alone = {"id": 900, "area": "a", "age": 0, "sex": "F", "town": "new"}
        for other in ([*HOMES, alone], HOMES[1:], [*HOMES[1:], alone]):
            if (len(other) == len(HOMES)) != (relation == "change-one"):
                continue
            engines = Reference({"people": HOMES}), Reference({"people": other})
            found = audit.replay(bill, *engines, Salt(b"one"))
            assert found.ok, found.violations
    made = asked.publish("people", workload, epsilon=1, **how)
    assert made.estimate.sum() == sum(bill.lowered.parts[0].homes)


def test_the_number_of_groups_is_not_read_off_the_data():
    asked = curator(HOMES)
    with pytest.raises(ParameterError, match="public number of groups"):
        asked.publish("people", W.prefix(9), epsilon=1, method="count-of-counts", group="town")
    with pytest.raises(ParameterError, match="names a row's group"):
        asked.publish("people", W.prefix(16), columns=["age"], epsilon=1,
                      method="count-of-counts", groups="public")  # fmt: skip


def test_rows_that_a_join_may_drop_are_not_merely_changed():
    towns = pol.Table("towns", [pol.Integer("age", 0, 15), pol.Category("kind", ["old", "new"])],
                      public=True)  # fmt: skip
    own = pol.Policy(
        [pol.Table("people", COLUMNS, neighbours="change-one"), towns],
        pol.Budget("10", delta="1e-3", accounting="approx"),
        name=f"joined {next(_NAMES)}",
    )
    public = [{"age": i, "kind": "old"} for i in range(8)]
    asked = Curator(own, Reference({"people": ROWS, "towns": public}), MemoryLedger(own))
    table = asked.table("people").join("towns", on="age")
    plan = asked.publication(table, W.identity(3), columns=["area"], rho=1).plan
    assert (plan.neighbours, plan.rows) == (Neighbours.ADD_REMOVE, 2)


@pytest.mark.parametrize(("noise", "pure"), [("laplace", True), ("gaussian", False), (None, True)])
def test_noise_may_be_insisted_on_and_a_delta_is_no_loss(noise, pure):
    asked = curator()
    how = {} if noise is None else {"noise": noise}
    found = asked.publication("people", **VECTOR, epsilon=1, delta="1e-6", **how)
    assert found.plan.price.pure is pure
    assert Fraction(found.cost["epsilon"]) == 1
    assert Fraction(found.cost["delta"]) == (0 if pure else Fraction(1, 10**6))
    for taken in ({"rows": 2}, {"neighbours": "change-one"}):
        with pytest.raises(ParameterError, match="from the policy here"):
            asked.publication("people", **VECTOR, epsilon=1, **taken)
