"""Every expression node, joins and limits: identical integers from every engine."""

from __future__ import annotations

from fractions import Fraction

import pytest

from discreet import plan
from discreet.errors import SchemaError
from discreet.plan import (
    Filter,
    JoinPublic,
    Key,
    Limits,
    Measure,
    MeasureKind,
    Scan,
    aggregate,
)
from discreet.plan import expr as ex

ROWS = Limits(rows=1)
NAMES = ("sex", "level", "flag", "age", "age null", "age filled", "big", "income", "income null",
         "third", "coarse", "day", "moment", "hour", "zoned", "word", "flag filled")  # fmt: skip
ONE = Measure(MeasureKind.SUM, ex.Constant.number(Fraction(1)))


def number(value):
    return ex.Constant.number(Fraction(value))


def expressions(c):
    """One or more of every node, over the columns `c`."""
    age, null, filled = c["age"], c["age null"], c["age filled"]
    income, third, coarse, big = c["income"], c["third"], c["coarse"], c["big"]
    half = Fraction(1, 2)
    yes = ex.Compare(">", age, number(2))
    maybe = ex.Compare("<=", null, number("-1/2"))
    yield from (age, number("-7/3"), ex.Constant(None, age.type), big, c["flag"])
    for op in ("+", "-", "*"):
        yield ex.Arithmetic(op, income, third)
        yield ex.Arithmetic(op, ex.Arithmetic(op, null, filled), number("3/2"))
    for step in (Fraction(1), Fraction(1, 100), Fraction(7)):
        yield ex.Divide(income, filled, step)
        yield ex.Divide(filled, third, step)
        yield ex.Divide(number(-5), ex.Arithmetic("-", age, number(2)), step)
        yield ex.Divide(null, number("-3/7"), step)
    yield ex.Divide(income, ex.Divide(filled, ex.Divide(third, null, half), half), half)
    for mode in ("round", "floor"):
        for step in (Fraction(1), Fraction(5), half, Fraction(1, 1000)):
            yield ex.Rescale(third, step, mode)
            yield ex.Rescale(coarse, step, mode)
    yield from (ex.Square(coarse), ex.Square(ex.Arithmetic("-", filled, third)))
    yield from (ex.AsNumber(c[name]) for name in ("flag", "day", "sex", "income"))
    yield from (ex.Abs(coarse), ex.Abs(big), ex.Abs(ex.Arithmetic("-", filled, number(1))))
    for low, high in (
        (-1, 1),
        (0, 10**6),
        (-(10**6), 0),
        (5, 5),
        (-(10**6), 10**6),
        (10**5, 10**5),
    ):
        yield ex.Clamp(coarse, low, high)
        yield ex.Clamp(ex.Arithmetic("*", coarse, filled), low, high)
    yield from (ex.Guard(c[name], 1, 2) for name in ("age", "level", "day", "flag", "moment"))
    for op in ("<", "<=", "=", "<>", ">=", ">"):
        yield ex.Compare(op, income, third)
        yield ex.Compare(op, null, number("1/2"))
    yield ex.Compare("<", c["day"], ex.Constant(0, c["day"].type))
    yield ex.Compare(">=", c["moment"], ex.Constant(-1, c["moment"].type))
    yield ex.Compare("=", c["flag"], c["flag filled"])
    yield from (ex.OneOf(age, (1, 2, 3)), ex.OneOf(null, (-100, 2)), ex.OneOf(c["sex"], ()))
    yield from (ex.OneOf(c["word"], ("a", "o'clock", "100%")), ex.OneOf(c["sex"], (2, 0)))
    for op in ("and", "or"):
        yield from (
            ex.Logic(op, (yes, maybe)),
            ex.Logic(op, (c["flag"], maybe, yes)),
            ex.Logic(op, ()),
        )
    yield from (ex.Not(maybe), ex.Not(c["flag"]), ex.IsNull(null), ex.IsNull(maybe))
    yield from (ex.IsNull(c["word"]), ex.IsNull(filled))
    yield ex.Case(((maybe, age), (yes, filled)), null)
    yield ex.Case((), age)
    yield ex.Case(((ex.IsNull(c["sex"]), ex.Constant(None, age.type)),), age)
    yield ex.Coalesce((null, ex.Constant(None, age.type), filled))
    yield ex.Coalesce((null,))
    for part in ("year", "quarter", "month", "week", "day", "weekday", "doy"):
        yield from (ex.DatePart(part, c[name]) for name in ("day", "moment", "hour", "zoned"))
    for part in ("hour", "minute", "second"):
        yield from (ex.DatePart(part, c[name]) for name in ("moment", "hour", "zoned"))
    yield from moments(c)
    yield from texts(c["word"])
    for edges in ((0,), (0, 10, 20, 30), (-50, 3, 4, 9000), tuple(k * k for k in range(40))):
        yield from (ex.Bucket(coarse, edges), ex.Bucket(null, edges), ex.Bucket(c["day"], edges))
    yield ex.Bucket(ex.Arithmetic("*", coarse, filled), (-10, 0, 10))


def moments(c):
    """What the calendar's functions build, over dates and over times."""
    for name in ("day", "moment", "hour", "zoned"):
        for unit in ("day", "week", "month", "quarter", "year"):
            yield plan.calendar.truncated(unit, c[name])
            yield plan.calendar.index(unit, c[name])
        yield plan.calendar.part("dow", c[name])
        yield plan.calendar.part("isoyear", c[name])
        yield plan.calendar.named(c[name], "%b")
        yield plan.calendar.shifted(c[name], plan.calendar.span("-3 days", None))
    for name in ("moment", "hour", "zoned"):
        yield from (plan.calendar.truncated(unit, c[name]) for unit in ("hour", "minute"))
        yield plan.calendar.elapsed(c[name], c["day"])
    yield ex.Labelled(c["age"], tuple(map(str, range(c["age"].type.size))))


def texts(word):
    """Every operator on open text, and what counts or tests its value."""
    values = [word, ex.Slice(word, 1, 1), ex.Slice(word, 2, 3), ex.Slice(word, 3, 0)]
    values += [ex.Suffix(word, 0), ex.Suffix(word, 2), ex.Trim(word), ex.Trim(ex.Suffix(word, 3))]
    values += [ex.Fold(word, upper=True), ex.Fold(word, upper=False)]
    values += [ex.Piece(word, "o", 1), ex.Piece(word, "'c", 2), ex.Piece(word, "a", 9)]
    for value in values:
        yield ex.Length(value)
        yield from (ex.Like(value, form) for form in ("%", "_", "%a%", "o'%k", "100!%", "", "!!_"))
        yield ex.OneOf(value, ("a", "A", "o'clock", "ock", "100", "", "k"))


def used(e):
    """Names of the columns that an expression reads."""
    own = {e.name} if isinstance(e, ex.Column) else set()
    return own.union(*(used(child) for child in e.children))


def columns_of(relation):
    return {name: ex.Column(name, kind) for name, kind in relation.schema.items()}


def test_every_node_is_in_the_list(nasty):
    rest, nodes = list(expressions(columns_of(Scan(nasty.table(*NAMES))))), set()
    while rest:
        e = rest.pop()
        nodes.add(type(e))
        rest += e.children
    assert nodes == set(ex.operators())


def test_expressions_agree_as_measures(world, nasty):
    relation = Scan(nasty.table(*NAMES))
    exprs = list(expressions(columns_of(relation)))
    for start in range(0, len(exprs), 12):
        part = exprs[start : start + 12]
        sums = [Measure(MeasureKind.SUM, e) for e in part]
        nulls = [Measure(MeasureKind.SUM, ex.IsNull(e)) for e in part]
        distinct = [Measure(MeasureKind.DISTINCT, e) for e in part]
        world.agree(aggregate(relation, (), (*sums, *nulls, *distinct), ROWS))


def test_conditions_agree_as_filters(world, nasty):
    c = columns_of(Scan(nasty.table(*NAMES)))
    conditions = [e for e in expressions(c) if e.type.kind is plan.Kind.BOOLEAN]
    for condition in conditions:
        relation = Scan(nasty.table(*({"age"} | used(condition))))
        below = Filter(Filter(relation, ex.Not(ex.IsNull(c["age"]))), condition)
        world.agree(aggregate(below, (), (ONE, Measure(MeasureKind.SUM, c["age"])), ROWS))


def test_expressions_agree_as_keys(world, nasty):
    for index, e in enumerate(expressions(columns_of(Scan(nasty.table(*NAMES))))):
        relation = Scan(nasty.table(*(used(e) or NAMES[:1])))
        codes = tuple(range(e.type.lo, min(e.type.hi, e.type.lo + 40) + 1))
        chosen = codes[::3] if index % 2 else codes
        world.agree(aggregate(relation, (Key("k", e, chosen),), (ONE,), ROWS))


@pytest.mark.parametrize("unit", ["id", "person"])
def test_every_limit_agrees(world, nasty, unit):
    for limits in nasty.LIMITS:
        choices = {"unit": unit, **limits}
        relation = Scan(nasty.table("sex", "level", "word", "income", "big", "coarse", **choices))
        c = columns_of(relation)
        sex = Key("sex", c["sex"], (0, 2))
        level = Key("level", c["level"], (2, 1, 0))
        word = Key("word", c["word"], None)
        listed = Key("word", c["word"], ("a", "ä", "o'clock"))
        measures = (
            ONE,
            Measure(MeasureKind.SUM, c["income"]),
            Measure(MeasureKind.UNITS),
            Measure(MeasureKind.DISTINCT, c["level"]),
        )
        wide = (Measure(MeasureKind.SUM, c["big"]), Measure(MeasureKind.SUM, c["coarse"]),
                Measure(MeasureKind.DISTINCT, c["word"]))  # fmt: skip
        for keys in ((), (sex,), (sex, level), (word,), (level, listed)):
            bound = plan.limits_of(relation, grouped=bool(keys))
            for chosen in (measures, (ONE,), wide):
                world.agree(aggregate(relation, keys, chosen, bound), **choices)


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


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("unit", [None, "id"])
def test_joins_with_public_tables_agree(world, nasty, how, unit):
    choices = {} if unit is None else {"unit": unit, "max_rows_per_unit": 2}
    region = nasty.policy().tables["region"]
    below = Scan(nasty.table("sex", "age", "income", **choices))
    join = JoinPublic(below, Scan(region), (("sex", "code"),), how, fanout=2, prefix="r.")
    c = columns_of(join)
    kept = Filter(join, ex.Not(ex.Compare("=", c["age"], number(7))))
    weight = Key("w", c["r.weight"], tuple(range(-5, 6)))
    measures = (ONE, Measure(MeasureKind.SUM, ex.Arithmetic("*", c["r.weight"], c["income"])),
                Measure(MeasureKind.DISTINCT, c["r.label"]))  # fmt: skip
    limits = plan.limits_of(kept, grouped=True)
    for keys in ((), (weight,)):
        world.agree(aggregate(kept, keys, measures, limits), **choices)


def test_fanout_is_measured_and_enforced(world, nasty):
    region = Scan(nasty.policy().tables["region"])
    join = JoinPublic(Scan(nasty.table("sex")), region, (("sex", "code"),))
    for engine in world.engines():
        assert engine.fanout(region, ("code",)) == 2
        assert engine.fanout(region, ("code", "weight")) == 1
        with pytest.raises(SchemaError, match="repeats a key 2 times"):
            engine.execute(aggregate(join, (), (ONE,), ROWS), plan.Salt(b"x"))


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
