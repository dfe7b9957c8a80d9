"""Generated plans, and plans on neighbouring tables: Spark equals the reference, every time.

The generators are those of the other engines' tests. Many plans share one statement: starting
one takes Spark a hundred times longer than computing it.
"""

from __future__ import annotations

import random
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from discreet import engines, plan
from discreet import policy as pol
from discreet.audit import replay
from discreet.engines import Reference
from discreet.privacy import Neighbours

pytestmark = pytest.mark.races  # a session is a process, and talks through sockets


TESTS = Path(__file__).parents[1]
generated = SimpleNamespace(**run_path(str(TESTS / "conformance" / "test_engine_generated.py")))
chains = SimpleNamespace(**run_path(str(TESTS / "unit" / "test_chains.py")))
replays = SimpleNamespace(**run_path(str(TESTS / "adversarial" / "test_replay.py")))

SCHEMA = pa.schema({"c": pa.string(), "f": pa.bool_(), "n": pa.int32(), "m": pa.int32(),
                    "x": pa.float64(), "d": pa.date32(), "id": pa.int64()})  # fmt: skip
BATCH = 24
CASES = st.tuples(generated.aggregates(), generated.TABLES, st.binary(min_size=1))
BUDGET = pol.Budget("1")
SALT = plan.Salt(b"neighbours")


def drawn(count, strategy):
    """Draw so many cases; none is made smaller, which would run Spark a thousand times."""
    found = []

    @settings(max_examples=count, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(strategy)
    def keep(case):
        found.append(case)

    keep()
    return found


def generated_plans_agree(spark, kit, count):
    """Draw plans and tables; each plan runs on a table, and on it without one unit's rows."""
    cases = drawn(count, CASES)
    for start in range(0, count, BATCH):
        batch = cases[start : start + BATCH]
        # most drawn tables are empty, where all plans agree
        held = [held for _, held, _ in batch]
        rows = max(held, key=len) if start // BATCH % 2 else [row for h in held for row in h]
        fewer = [row for row in rows if row["id"] != rows[0]["id"]]
        chosen = [case[0] for case in batch]
        with kit.interpreted(spark, only=start // BATCH % 4 > 0):
            _agree(spark, kit, chosen, (rows, fewer), plan.Salt(batch[0][2]))
    return len(cases)


def _agree(spark, kit, chosen, tables, salt):
    held = {str(i): pa.Table.from_pylist(data, SCHEMA) for i, data in enumerate(tables)}
    with kit.stored(spark, held) as sources:
        asked, opened = [], {}
        for i, source in enumerate(sources.values()):
            for choices, aggregate in chosen:
                key = i, *choices.items()
                if key not in opened:
                    own = pol.Policy([pol.Table("t", generated.COLUMNS, **choices)], BUDGET)
                    opened[key] = engines.connect({"t": source}, own)
                asked.append((opened[key], aggregate))
        found = kit.together(asked, salt)
    for i, (engine, aggregate) in enumerate(asked):
        expected = plan.run(aggregate, {"t": tables[i // len(chosen)]}, salt)
        assert found[i] == expected, engine.sql(aggregate)
    for engine in opened.values():
        engine.close()


def test_generated_plans_agree(spark, kit):
    assert generated_plans_agree(spark, kit, BATCH) == BATCH


@pytest.mark.long
def test_two_thousand_generated_plans_agree(spark, kit):
    assert generated_plans_agree(spark, kit, 2000) >= 2000


def test_a_wrong_integer_is_noticed(spark, kit, monkeypatch):
    """The comparison can fail: the reference is given one row more."""
    table = pol.Table("t", generated.COLUMNS)
    units = plan.Measure(plan.MeasureKind.UNITS)
    asked = plan.aggregate(plan.Scan(table), (), (units,), plan.Limits(rows=1))
    rows, whole = [dict.fromkeys(SCHEMA.names) | {"id": 1}], plan.run
    _agree(spark, kit, [({}, asked)], (rows,), SALT)
    monkeypatch.setattr(plan, "run", lambda a, t, s: whole(a, {"t": [*t["t"], *rows]}, s))
    with pytest.raises(AssertionError):
        _agree(spark, kit, [({}, asked)], (rows,), SALT)


# -- neighbours ---------------------------------------------------------------------------

WIDE = pa.decimal128(38, 0)
PEOPLE = pa.schema({"id": pa.int64(), "sex": pa.string(), "region": pa.int64(), "age": WIDE,
                    "level": WIDE, "pay": pa.float64(), "rate": pa.float64(),
                    "member": pa.bool_(), "joined": pa.date32(), "town": pa.string()})  # fmt: skip


def violations(spark, kit, plans, tables, *, own, arrow):
    """What a replay of plans on two neighbouring tables in Spark finds."""
    found = []
    asked = [a for p in plans for a in p.lowered.aggregates if a.measures]
    with kit.stored(spark, arrow(tables[0])) as one, kit.stored(spark, arrow(tables[1])) as two:
        opened = [engines.connect(source, own) for source in (one, two)]
        both = kit.sides(opened, asked, SALT)
        for p in plans:
            found += replay(p, *both, SALT).violations
        for side, data in zip(both, tables, strict=True):
            for a in asked:
                assert side.execute(a, SALT) == Reference(data).execute(a, SALT)
        for engine in opened:
            engine.close()
    return found


def people(spark, kit, limits, relation, count, *, tables=None):
    """Replay generated questions about people on one pair of tables."""
    texts = drawn(count, replays.questions())
    plans = [replays.plan_of(text, limits, relation) for text in texts]
    rng = random.Random(f"{limits}{relation}")
    one, two = tables or replays.neighbours_of(rng, limits, relation)
    own = replays.policy(limits, relation)
    data = {"t": one}, {"t": two}
    return violations(spark, kit, plans, data, own=own,
                      arrow=lambda d: {"t": pa.Table.from_pylist(d["t"], PEOPLE)})  # fmt: skip


def test_a_person_moves_no_answer_of_spark_by_more_than_declared(spark, kit):
    assert people(spark, kit, replays.LIMITS[4], Neighbours.ADD_REMOVE, 5) == []


@pytest.mark.long
@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("limits", replays.LIMITS)
def test_no_person_moves_any_answer_of_spark(spark, kit, limits, relation):
    assert people(spark, kit, limits, relation, 40) == []


def test_two_people_are_noticed(spark, kit):
    """The replay can fail: tables that differ in more than one person."""
    limits, relation = {"max_rows_per_unit": 1}, Neighbours.ADD_REMOVE
    row = {c: values[0] for c, values in replays.NASTY.items()}
    many = [{"id": unit} | row for unit in range(9)]
    assert people(spark, kit, limits, relation, 5, tables=([], many)) != []


def chained(spark, kit, relation, text, questions):
    own = chains.policy(relation, text)
    plans = [chains.priced(q, relation, text) for q in questions]
    pair = chains.neighbours(random.Random(3), relation)
    return violations(spark, kit, plans, pair, own=own, arrow=chains.arrow)


def test_chains_agree_and_move_by_no_more_than_declared(spark, kit):
    assert (
        chained(spark, kit, Neighbours.ADD_REMOVE, chains.BY_PARENT, chains.QUESTIONS[3:9:2]) == []
    )


@pytest.mark.long
@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("text", [chains.TEXT, chains.BY_PARENT], ids=["per unit", "per parent"])
def test_all_chains_agree_and_move_by_no_more_than_declared(spark, kit, relation, text):
    assert chained(spark, kit, relation, text, chains.QUESTIONS) == []
