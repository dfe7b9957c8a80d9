"""Joins of private tables: on the unit, each side limited before, and nothing else."""

from __future__ import annotations

import random
from fractions import Fraction

import pyarrow as pa
import pytest

from discreet import engines, sql
from discreet import plan as pl
from discreet import policy as pol
from discreet.audit import replay
from discreet.engines import Reference
from discreet.errors import DiscreetError, UnsupportedQueryError
from discreet.privacy import Neighbours

SALT = pl.Salt(b"joins")


def policy(relation="add-remove", **second):
    people = pol.Table(
        "people",
        [pol.Category("sex", values=["F", "M"]), pol.Integer("age", min=0, max=9)],
        unit="id",
        max_rows_per_unit=2,
        neighbours=relation,
    )
    visits = pol.Table(
        "visits",
        [pol.Integer("cost", min=0, max=50), pol.Integer("age", min=0, max=9)],
        **({"unit": "pid", "max_rows_per_unit": 3, "neighbours": relation} | second),
    )
    return pol.Policy(tables=[people, visits], budget=pol.Budget("1", delta="1e-6"))


JOINED = (
    "SELECT sex, COUNT(*) AS n, SUM(cost) AS s FROM people "
    "JOIN visits ON people.id = visits.pid GROUP BY sex"
)


def tables(rng, units):
    people = [
        {"id": u, "sex": rng.choice("FM?"), "age": rng.randrange(12)}
        for u in units
        for _ in range(rng.randrange(4))
    ]
    visits = [
        {"pid": u, "cost": rng.randrange(60), "age": rng.randrange(9)}
        for u in units
        for _ in range(rng.randrange(5))
    ]
    rng.shuffle(people)
    rng.shuffle(visits)
    return {"people": people, "visits": visits}


def plan_of(relation="add-remove"):
    query = sql.parse(JOINED, policy(relation)).query
    return pl.price(pl.lower(query), pl.Ask(Fraction(1)))


def test_limits_multiply():
    assert plan_of().lowered.query.limits.rows == 6
    assert plan_of().lowered.parts[0].sensitivity.l1 == 6 * 50


@pytest.mark.parametrize("relation", list(Neighbours))
def test_replay_over_neighbours_that_add_a_unit_to_both_tables(relation):
    plan = plan_of(relation)
    rng = random.Random(3)
    for _ in range(150):
        base = tables(rng, range(4))
        one = tables(rng, [99])
        two = tables(rng, [99])
        left = {t: base[t] + (one[t] if relation is Neighbours.CHANGE_ONE else []) for t in base}
        right = {t: base[t] + two[t] for t in base}
        found = replay(plan, Reference(left), Reference(right), SALT)
        assert found.ok, found.violations


def test_duckdb_equals_the_reference():
    own = policy()
    rng = random.Random(8)
    for _ in range(5):
        data = tables(rng, range(40))
        arrow = {
            "people": pa.Table.from_pylist(
                data["people"],
                schema=pa.schema([("id", pa.int64()), ("sex", pa.string()), ("age", pa.int64())]),
            ),
            "visits": pa.Table.from_pylist(
                data["visits"],
                schema=pa.schema([("pid", pa.int64()), ("cost", pa.int64()), ("age", pa.int64())]),
            ),
        }
        engine = engines.connect(arrow, own)
        for text in (
            JOINED,
            (
                "SELECT COUNT(*) AS n, SUM(visits.age + people.age) AS s FROM people "
                "JOIN visits ON visits.pid = people.id WHERE cost > 10"
            ),
        ):
            aggregate = pl.lower(sql.parse(text, own).query).aggregates[0]
            assert engine.execute(aggregate, SALT) == Reference(data).execute(aggregate, SALT)
        engine.close()


@pytest.mark.parametrize(
    "join",
    [
        "JOIN visits ON people.age = visits.age",
        "JOIN visits ON people.id = visits.age",
        "JOIN visits USING (age)",
        "JOIN visits ON people.id = visits.pid OR people.age = visits.age",
        "JOIN visits ON people.age = visits.age AND people.age = visits.cost",
        "JOIN visits ON people.id < visits.pid",
        "CROSS JOIN visits",
        "JOIN people AS p2 ON people.age = p2.age",
    ],
)
def test_every_other_private_join_is_refused(join):
    with pytest.raises(DiscreetError) as error:
        sql.parse(f"SELECT COUNT(*) AS n FROM people {join}", policy())
    assert error.value.hint is None  # a join on the unit is another question: the message names it
    assert "what works is ON people.id = " in error.value.message or "RIGHT" in join


def test_a_table_without_unit_cannot_join():
    own = policy(unit=None, max_rows_per_unit=None)
    with pytest.raises(UnsupportedQueryError, match="unit"):
        sql.parse(JOINED, own)


def test_tables_under_different_relations_have_no_common_statement():
    own = policy(neighbours="change-one")
    with pytest.raises(DiscreetError, match="change-one"):
        sql.parse(JOINED, own)


def test_a_limit_counts_only_rows_that_pass_the_condition_on_their_own_table():
    """Three visits are kept of each unit: among those that cost more than 40, if so asked."""
    own = policy()
    people = [{"id": 1, "sex": "F", "age": 3}]
    visits = [{"pid": 1, "cost": c, "age": 1} for c in range(1, 51)]
    data = {"people": people, "visits": visits}
    for condition, n in (("cost > 47", 3), ("cost > 48", 2), ("cost > 47 AND people.age > 2", 3),
                         ("cost > 47 AND people.age > 4", 0)):  # fmt: skip
        joined = "people JOIN visits ON people.id = visits.pid"
        text = f"SELECT COUNT(*) AS n FROM {joined} WHERE {condition}"
        asked = pl.lower(sql.parse(text, own).query).aggregates[0]
        assert Reference(data).execute(asked, SALT) == {(): (n,)}


FOLDED = (
    "SELECT AVG(n) AS n, SUM(s) AS s FROM "
    "(SELECT {unit}, COUNT(*) AS n, SUM(cost) AS s FROM {joined} GROUP BY {unit}) x"
)
ORDERS = {
    "people.id": "people JOIN visits ON people.id = visits.pid",
    "visits.pid": "visits JOIN people ON people.id = visits.pid",
}


def folded(unit, relation="add-remove"):
    text = FOLDED.format(unit=unit, joined=ORDERS[unit])
    query = sql.parse(text, policy(relation)).query
    return pl.price(pl.lower(query), pl.Ask(Fraction(1)))


def test_what_a_unit_is_counted_for_has_one_public_top_in_either_order_of_a_join():
    tops = [[s.exprs[0].type.hi for s in folded(u).lowered.query.statistics] for u in ORDERS]
    assert tops == [[2 * 3, 2 * 3 * 50]] * 2


def test_rows_of_a_public_table_raise_the_top_of_what_a_unit_is_counted_for():
    own = policy()
    tags = pol.Table("tags", [pol.Category("sex", values=["F", "M"])], public=True)
    own = pol.Policy(tables=[*own.tables.values(), tags], budget=own.budget)
    text = (
        "SELECT SUM(n) AS n FROM (SELECT id, COUNT(*) AS n FROM people "
        "JOIN tags ON people.sex = tags.sex GROUP BY id) x"
    )
    query = sql.parse(text, own, public_fanout=lambda *_: 4).query
    assert query.statistics[0].exprs[0].type.hi == 2 * 4


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("unit", ORDERS)
def test_replay_of_what_units_are_counted_for(unit, relation):
    plan = folded(unit, relation)
    rng = random.Random(5)
    for _ in range(60):
        base, one, two = tables(rng, range(4)), tables(rng, [99]), tables(rng, [99])
        left = {t: base[t] + (one[t] if relation is Neighbours.CHANGE_ONE else []) for t in base}
        right = {t: base[t] + two[t] for t in base}
        found = replay(plan, Reference(left), Reference(right), SALT)
        assert found.ok, found.violations
