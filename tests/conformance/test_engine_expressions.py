"""Every expression node, joins and limits: identical integers from every engine."""

from __future__ import annotations

from fractions import Fraction

from discreet.audit._engine_kit import NAMES, ONE, ROWS, columns_of, expressions, number
from discreet.plan import Key, Limits, Measure, MeasureKind, Scan, aggregate
from discreet.plan import expr as ex


def test_every_node_is_in_the_list(nasty):
    rest, nodes = list(expressions(columns_of(Scan(nasty.table(*NAMES))))), set()
    while rest:
        e = rest.pop()
        nodes.add(type(e))
        rest += e.children
    assert nodes == set(ex.operators())


def test_a_key_with_one_code_does_not_change_the_choice_of_groups(world, nasty):
    """Found by the random questions: such a key was hashed by the reference alone."""
    choices = {"unit": "id", "max_groups_per_unit": 1, "max_rows_per_group": 2}
    relation = Scan(nasty.table("sex", "level", **choices))
    c = columns_of(relation)
    one = Key(
        "one", ex.Clamp(ex.Coalesce((c["level"], ex.Constant.like(1, c["level"].type))), 1, 1), (1,)
    )
    asked = aggregate(relation, (one, Key("sex", c["sex"], (0, 1, 2))), (ONE,),
                      Limits(groups=1, rows_per_group=2))  # fmt: skip
    assert world.agree(asked, **choices)


def test_limits_bind_in_these_tables(world, nasty):
    """Without limits the sums would differ, so the limit tests can fail."""
    choices = {"unit": "id", "max_rows_per_unit": 1}
    relation = Scan(nasty.table("sex", **choices))
    limited = world.agree(aggregate(relation, (), (ONE,), Limits(rows=1)), **choices)
    free = world.agree(aggregate(relation, (), (ONE,), Limits(rows=10**6)), **choices)
    assert limited[()][0] < free[()][0] < len(world.rows)


def test_nesting_grows_the_text_linearly(world, nasty):
    relation = Scan(nasty.table("age filled"))
    e = columns_of(relation)["age filled"]
    lengths = []
    for _ in range(24):
        e = ex.Clamp(ex.Divide(number(3), e, Fraction(1)), -5, 5)
        asked = aggregate(relation, (), (Measure(MeasureKind.SUM, e),), ROWS)
        lengths.append([len(engine.sql(asked)) for engine in world.engines()])
    assert all(last < 3 * middle for middle, last in zip(lengths[11], lengths[23], strict=True))
    world.agree(asked)


def test_a_unit_with_many_rows(world_of, nasty):
    rows = [{**row, "id": 5} for row in nasty.draw_rows(100, seed=8)]
    choices = {"unit": "id", "max_rows_per_unit": 7}
    relation = Scan(nasty.table("sex", "income", **choices))
    c = columns_of(relation)
    key = Key("sex", c["sex"], (0, 1, 2))
    asked = aggregate(
        relation, (key,), (ONE, Measure(MeasureKind.SUM, c["income"])), Limits(rows=7)
    )
    groups = world_of(rows, copies=100).agree(asked, **choices)
    assert sum(count for count, _ in groups.values()) == 7
