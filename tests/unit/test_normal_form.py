"""Conditions that mean the same are one measurement; no rewriting changes what a row means."""

from __future__ import annotations

import itertools
import random

import pytest

from discreet import plan as pl
from discreet import sql
from discreet.plan import _normal as normal
from discreet.plan import expr
from discreet.policy import Budget, Category, Integer, Policy, Table, Text

TABLE = Table(
    "t",
    [Integer("x", 0, 4), Integer("y", 1, 3), Category("c", ["a", "b", "z"]), Text("w")],
    unit="id",
    max_rows_per_unit=2,
)
POLICY = Policy([TABLE], Budget("1", delta="1e-6"))
SAME = [
    ["", "WHERE TRUE", "WHERE 1 = 1", "WHERE NOT FALSE"],
    ["WHERE x >= 2 AND y = 1", "WHERE y = 1 AND x >= 2", "WHERE NOT (x < 2 OR y <> 1)",
     "WHERE TRUE AND 1 = y AND NOT NOT x > 1", "WHERE y IN (1) AND 2 <= x"],
    ["WHERE x BETWEEN 1 AND 3", "WHERE x > 0 AND x < 4", "WHERE NOT (x < 1 OR x > 3)"],
    ["WHERE x IN (1, 3)", "WHERE x = 3 OR x = 1", "WHERE NOT (x <> 1 AND x <> 3)",
     "WHERE x IN (3) OR x IN (1, 3)"],
    ["WHERE c IN ('a', 'b')", "WHERE c = 'b' OR c = 'a'", "WHERE NOT (c <> 'a' AND c <> 'b')"],
    ["WHERE x NOT IN (1, 3)", "WHERE x <> 1 AND x <> 3", "WHERE NOT (x = 3 OR x = 1)"],
    ["WHERE x < y", "WHERE y > x", "WHERE NOT (x >= y)"],
    ["WHERE w = 'p' OR w = 'q'", "WHERE w IN ('q', 'p')"],
    ["WHERE x IS NULL OR y = 2", "WHERE NOT (x IS NOT NULL AND y <> 2)"],
]  # fmt: skip


def measured(where):
    return pl.lower(sql.parse(f"SELECT COUNT(*) AS n FROM t {where}", POLICY).query).measured


@pytest.mark.parametrize("texts", SAME, ids=lambda texts: texts[-1])
def test_what_means_the_same_is_measured_once(texts):
    assert len(set(map(measured, texts))) == 1


def test_what_means_something_else_is_measured_for_itself():
    assert len({measured(texts[0]) for texts in SAME}) == len(SAME)
    assert measured("WHERE NOT (x = 1 OR c = 'a')") != measured("WHERE x <> 1 OR c <> 'a'")


def drawn(rng, depth):
    """A condition, built without any rewriting."""
    x, y, c = (expr.Column(n, pl.of_column(TABLE.columns[n])) for n in "xyc")
    if depth and rng.random() < 0.7:
        args = tuple(drawn(rng, depth - 1) for _ in range(rng.choice([1, 2, 3])))
        if len(args) == 1:
            return expr.Not(args[0])
        return expr.Logic(rng.choice(["and", "or"]), args)
    op = rng.choice(["<", "<=", "=", "<>", ">=", ">"])
    match rng.randrange(5):
        case 0:
            return expr.Compare(op, x, expr.Constant.like(rng.randrange(5), x.type))
        case 1:
            return expr.Compare(op, *rng.sample([x, y], 2))
        case 2:
            return expr.OneOf(c, tuple(rng.sample(range(3), rng.randrange(3))))
        case 3:
            return expr.OneOf(x, tuple(rng.sample(range(5), rng.randrange(3))))
    return rng.choice([expr.IsNull(y), normal.truth(value=rng.random() < 0.5)])


ROWS = [dict(zip("xyc", codes, strict=True)) for codes in itertools.product(
    [None, *range(5)], [None, 1, 2, 3], [None, 0, 1, 2])]  # fmt: skip


def rebuilt(e):
    match e:
        case expr.Not(arg):
            return normal.negation(rebuilt(arg))
        case expr.Logic(op, args):
            return normal.junction(op, map(rebuilt, args))
    return e


def different():
    """Conditions whose value changes on some row when they are rewritten."""
    rng, found = random.Random(4), 0
    for _ in range(400):
        condition = drawn(rng, 3)
        new = rebuilt(condition)
        forms = [new, normal._ordered(new)]
        found += any(condition.evaluate(r) != f.evaluate(r) for r in ROWS for f in forms)
    return found


def test_no_value_changes_on_any_row():
    assert different() == 0


@pytest.mark.parametrize(
    ("name", "mutant"),
    [
        ("OPPOSITE", normal.OPPOSITE | {"<": ">"}),
        ("MIRROR", normal.MIRROR | {"<=": "<="}),
        ("_membership", lambda part, wanted: normal_membership(part, wanted=not wanted)),
    ],
)
def test_a_wrong_rule_is_found(monkeypatch, name, mutant):
    monkeypatch.setattr(normal, name, mutant)
    assert different()


normal_membership = normal._membership
