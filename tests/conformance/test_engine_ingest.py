"""Every declared column over nasty raw values: codes are the same everywhere."""

from __future__ import annotations

import pytest

from discreet import plan
from discreet.audit._engine_kit import ROWS, measures_of
from discreet.plan import Key, Measure, MeasureKind, Scan, aggregate
from discreet.plan import expr as ex


def test_each_value_alone_agrees(world_of, nasty):
    """One row per table, so that no error hides in a sum."""
    relation = Scan(nasty.table())
    columns = [ex.Column(n, t) for n, t in relation.schema.items()]
    measures = tuple(m for c in columns for m in measures_of(c))
    longest = max(len(pool) for _, _, pool in nasty.SPEC.values())
    for i in range(longest):
        row = {name: pool[i % len(pool)] for name, (_, _, pool) in nasty.SPEC.items()}
        world_of([row | {"id": i, "person": f"p{i}"}]).agree(
            aggregate(relation, (), measures, ROWS)
        )


@pytest.mark.parametrize("rows", [0, 1])
def test_tiny_tables(world_of, nasty, rows):
    world = world_of(nasty.draw_rows(rows, seed=3))
    for choices in ({}, *({"unit": "id", **limits} for limits in nasty.LIMITS)):
        relation = Scan(nasty.table("sex", "income", **choices))
        income = ex.Column("income", relation.schema["income"])
        measures = (*measures_of(income), Measure(MeasureKind.UNITS))
        key = Key("sex", ex.Column("sex", relation.schema["sex"]), (0, 1, 2))
        for keys in ((), (key,)):
            limits = plan.limits_of(relation, grouped=bool(keys))
            world.agree(aggregate(relation, keys, measures, limits), **choices)


def test_the_comparison_can_fail(world, nasty):
    relation = Scan(nasty.table("income"))
    column = ex.Column("income", relation.schema["income"])
    asked = aggregate(relation, (), measures_of(column), ROWS)
    row = next(r for r in world.rows if r["income"] == 1234.565)
    altered = {**world.tables, nasty.TABLE: [row | {"income": 1234.555}, *world.rows]}
    salt = plan.Salt(b"conformance")
    assert plan.run(asked, altered, salt) != world.agree(asked)
