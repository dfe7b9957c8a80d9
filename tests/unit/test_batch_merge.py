"""Questions of a batch that share one reading of the table."""

from __future__ import annotations

import random
from dataclasses import replace

import duckdb
import pyarrow as pa
import pytest

import discreet as dc
from discreet import engines, plan
from discreet import policy as pol
from discreet.curator import _proof, _release
from discreet.engines import Reference
from discreet.plan import Salt, lower, merge
from discreet.plan._merge import _keeper
from discreet.sql import parse
from discreet.verify import Reading

SALT = Salt(b"merge")
COLUMNS = [
    pol.Category("sex", ["F", "M", "X"]),
    pol.Category("region", ["n", "e", "s", "w"], other="else"),
    pol.Boolean("works"),
    pol.Integer("age", 0, 9),
    pol.Real("pay", -10, 100, "0.5"),
]
WHOLE = [
    pol.Category("sex", ["F", "M", "X"], null="X"),
    pol.Integer("age", 0, 9, null=0),
    COLUMNS[4],
]
QUESTIONS = (
    "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex",
    "SELECT region, AVG(pay) AS m FROM people GROUP BY region",
    "SELECT works, SUM(pay) AS s, COUNT(*) AS n FROM people GROUP BY works",
    "SELECT age, COUNT(*) AS n FROM people WHERE age IN (2, 3) GROUP BY age",
    "SELECT sex, region, SUM(age) AS a FROM people GROUP BY sex, region",
    "SELECT COUNT(*) AS n, SUM(pay) AS s FROM people",
    "SELECT sex, COUNT(DISTINCT age) AS d FROM people GROUP BY sex",
    "SELECT sex, VARIANCE(pay) AS v FROM people GROUP BY sex",
)


def rows(seed: int, n: int = 60) -> list[dict[str, object]]:
    """Rows with every kind of dirt that a key can have."""
    toss = random.Random(seed)
    return [
        {
            "id": toss.choice([*range(12), None]),
            "sex": toss.choice(["F", "M", "X", "?", None]),
            "region": toss.choice(["n", "e", "s", "w", "?", None]),
            "works": toss.choice([True, False, None]),
            "age": toss.choice([0, 2, 3, 9, 77, None]),
            "pay": toss.choice([-99.0, 0.25, 3.5, 1e9, float("nan"), None]),
        }
        for _ in range(n)
    ]


def policy(columns=COLUMNS, **table) -> pol.Policy:
    own = pol.Table("people", columns, **table)
    return pol.Policy([own], pol.Budget("1000"), name="merge")


def aggregates(own: pol.Policy, questions=QUESTIONS) -> list[plan.Aggregate]:
    return [a for q in questions for a in lower(parse(q, own).query).aggregates]


def held(own: pol.Policy, data: list[dict[str, object]]):
    """The same rows in the reference and in DuckDB."""
    names = list(data[0]) if data else ["id", "sex", "region", "works", "age", "pay"]
    kinds = {"id": pa.int64(), "works": pa.bool_(), "age": pa.int64(), "pay": pa.float64()}
    arrays = {n: pa.array([r[n] for r in data], kinds.get(n, pa.string())) for n in names}
    connection = duckdb.connect()
    connection.register("arrived", pa.table(arrays))
    connection.execute("CREATE TABLE people AS FROM arrived")
    return Reference({"people": data}), engines.connect(connection, own)


@pytest.mark.parametrize("seed", range(4))
def test_each_question_gets_the_integers_that_it_gets_alone(seed):
    """No coins are tossed where a row is a unit, so equality is exact."""
    own = policy()
    wanted, data = aggregates(own), rows(seed, 0 if seed == 3 else 60)
    merged = merge(wanted)
    assert sum(len(m.views) for m in merged) >= 6
    for engine in held(own, data):
        for m in merged:
            groups = engine.execute(m.whole, SALT)
            for view in m.views:
                assert view.of(groups) == engine.execute(view.own, SALT)


def test_the_comparison_would_find_a_key_that_drops_rows_of_others(monkeypatch):
    """The mutant: keys are merged as they are, so rows without one of them are gone for all."""
    monkeypatch.setattr(plan._merge, "_keeper", lambda key, *, limited: key)  # noqa: ARG005 - mutant
    own = policy()
    reference, _ = held(own, rows(0))
    merged = merge(aggregates(own))
    wrong = [
        view
        for m in merged
        for view in m.views
        if view.of(reference.execute(m.whole, SALT)) != reference.execute(view.own, SALT)
    ]
    assert wrong


def counted(asked: dc.Curator, monkeypatch) -> list[plan.Aggregate]:
    """Aggregates that a curator's engine executes from now on."""
    ran: list[plan.Aggregate] = []
    execute = asked._engine.execute

    def spy(aggregate, salt):
        ran.append(aggregate)
        return execute(aggregate, salt)

    monkeypatch.setattr(asked._engine, "execute", spy)
    return ran


def test_a_batch_of_twenty_grouped_questions_reads_the_table_once(monkeypatch):
    columns = {n: [r[n] for r in rows(1)] for n in ("sex", "region", "age", "pay")}
    table = pa.table(columns | {"works": pa.array([r["works"] for r in rows(1)], pa.bool_())})
    asked = dc.open(table, policy(), ledger=":memory:")
    ran = counted(asked, monkeypatch)
    keys = ("sex", "region", "works", "sex, region")
    sums = ("COUNT(*)", "SUM(pay)", "AVG(pay)", "SUM(age)", "VARIANCE(pay)")
    with asked.batch(epsilon=100) as batch:
        pending = [
            batch.sql(f"SELECT {k}, {s} AS x FROM people GROUP BY {k}") for k in keys for s in sums
        ]
    assert len(ran) == 1
    assert len({p.answer.record()["statement"]["plan"] for p in pending}) == 20


def test_texts_are_coded_after_they_are_added_up_beside_other_keys():
    policy = pol.Policy([pol.Table("people", COLUMNS)], pol.Budget("1"))
    engine = engines.connect(pa.Table.from_pylist(rows(1)), policy)

    def coded_first(keys: str) -> bool:
        text = f"SELECT {keys}, SUM(pay) AS s FROM people GROUP BY {keys}"
        (asked,) = lower(parse(text, policy).query).aggregates
        return engine.sql(asked).count(" GROUP BY ") == 1

    keys = ("sex", "sex, works", "age, sex", "works, age")
    assert [coded_first(k) for k in keys] == [False, False, False, True]


def test_parts_cost_and_move_as_much_as_alone(monkeypatch):
    """Records, but for noise and coins, are those of questions that run alone."""
    table = pa.table({"sex": ["F", None], "age": [2, 3], "pay": [1.0, 2.0]})
    own = policy([COLUMNS[0], COLUMNS[3], COLUMNS[4]])
    questions = [q for q in QUESTIONS if "region" not in q and "works" not in q]

    def records():
        asked = dc.open(table, own, ledger=":memory:")
        with asked.batch(epsilon=100) as batch:
            pending = [batch.sql(q) for q in questions]
        found = [p.answer.record() for p in pending]
        for record in found:
            del record["statement"]["coin"]
            for part in record["parts"]:
                del part["values"]
        return found

    together = records()
    monkeypatch.setattr(_release, "merge", lambda _: [])
    assert together == records()


def test_under_a_limit_keys_that_may_drop_rows_stay_apart():
    limited = {"unit": "id", "max_rows_per_unit": 2}
    apart = merge(aggregates(policy(**limited), QUESTIONS[:3]))
    assert not apart
    whole = policy(WHOLE, **limited)
    questions = (
        QUESTIONS[0],
        "SELECT age, SUM(pay) AS s FROM people GROUP BY age",
        "SELECT sex, SUM(pay) AS s FROM people GROUP BY sex",
    )
    (merged,) = merge(aggregates(whole, questions))
    assert merged.whole.relation.m == 2


@pytest.mark.parametrize("seed", range(3))
def test_neighbours_move_what_is_read_by_no_more_than_is_declared(seed):
    """Leak replay: one salt, one person more; each part moves within its sensitivity."""
    own = policy(WHOLE, unit="id", max_rows_per_unit=2)
    questions = (QUESTIONS[0], "SELECT age, SUM(pay) AS s FROM people GROUP BY age")
    low = [lower(parse(q, own).query) for q in questions]
    (merged,) = merge([a for each in low for a in each.aggregates])
    data = [r for r in rows(seed, 80) if r["id"] is not None]
    for gone in range(12):
        sides = [held(own, part)[0] for part in (data, [r for r in data if r["id"] != gone])]
        both = [engine.execute(merged.whole, SALT) for engine in sides]
        for view, each in zip(merged.views, low, strict=True):
            one, two = (view.of(groups) for groups in both)
            for part in each.parts:
                measure, moves = part.inputs[0]
                zero = (0,) * len(view.measures)
                steps = [
                    abs(one.get(k, zero)[measure] - two.get(k, zero)[measure])
                    for k in one.keys() | two.keys()
                ]
                assert sum(steps) <= moves.l1
                assert sum(s * s for s in steps) <= moves.l2_squared


def test_what_the_verifier_reads_of_fine_groups_does_not_pass_for_coarse_ones():
    fine = Reading(
        False, 0, 1, rows=2, groups=2, rows_per_group=1, cells=9, once=True, certain=True
    )
    assert fine.within(2, 2, 1, "add-remove")
    assert not fine.coarser(3).within(2, 2, 1, "add-remove")
    assert fine.coarser(3).within(2, 4, 2, "add-remove")
    assert not fine.coarser(1).certain


def test_a_merged_statement_that_limits_less_than_declared_does_not_run():
    own = policy(WHOLE, unit="id", max_rows_per_unit=2)
    low = [lower(parse(q, own).query) for q in (QUESTIONS[0], "SELECT COUNT(*) AS n FROM people")]
    (merged,) = merge([a for each in low for a in each.aggregates])
    _, engine = held(own, rows(0))
    assert _proof.answers(engine, merged, low)
    loose = replace(
        merged, whole=replace(merged.whole, relation=replace(merged.whole.relation, n=3))
    )
    assert not _proof.answers(engine, loose, low)


def test_a_key_whose_next_code_would_leave_the_integers_is_not_merged():
    last = plan.Type.number(2**62 - 3, 2**62 - 1)
    assert _keeper(plan.Key("k", plan.expr.Column("x", last), (2**62 - 1,)), limited=False) is None
