"""Facts, ranges and bit fields of the verifier against sets of points, written out.

A fact or a range is compared with the set of points for which it holds, on a grid that is finer
than its ends: too wide a range refuses honest questions, too narrow a one is a hole.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest

from discreet.verify._domain import (
    INF,
    LARGEST,
    ROWS,
    VOID,
    Fact,
    Facts,
    Field,
    Value,
    column,
    join,
    meet,
    narrowed,
    packed,
    side_by_side,
    word,
)
from discreet.verify._operators import _product
from discreet.verify._read import Node
from discreet.verify._rules import Scope

GRID = [Fraction(k, 4) for k in range(-24, 25)]
ENDS = [(-3, 2), (-1, 2), (2, 2), (-INF, 0), (1, INF), (2, 4)]
NODE = Node("column", (None, "x"))


def holds(fact, x):
    """Whether a number is allowed, by the words that explain the fields."""
    low = x > fact.lo if fact.above else x >= fact.lo
    high = x < fact.hi if fact.below else x <= fact.hi
    return low and high and abs(x) >= fact.far


def every_fact():
    for lo, hi in ENDS:
        for above, below in itertools.product((False, True), repeat=2):
            yield Fact(lo, hi, below, above)


def one(fact):
    return Facts({NODE: fact})


def test_where_both_hold_is_the_common_part_and_where_one_does_is_the_hull():
    some = 0
    for a, b in itertools.product(every_fact(), repeat=2):
        both, either = meet(one(a), one(b))[NODE], join(one(a), one(b))[NODE]
        inside = [[x for x in GRID if holds(f, x)] for f in (a, b)]
        assert [x for x in GRID if holds(both, x)] == [x for x in inside[0] if x in inside[1]]
        if all(inside):
            least, most = min(map(min, inside)), max(map(max, inside))
            assert [x for x in GRID if holds(either, x)] == [x for x in GRID if least <= x <= most]
            some += 1
    assert some > 300


@pytest.mark.parametrize("name", ["known", "real", "compared", "finite"])
def test_what_is_known_beside_the_range(name):
    for x, y in itertools.product((False, True), repeat=2):
        a, b = (one(Fact(**{name: told})) for told in (x, y))
        others = {"known", "real", "compared", "finite"} - {name}
        for found, expected in ((meet(a, b)[NODE], x or y), (join(a, b)[NODE], x and y)):
            assert getattr(found, name) is expected
            assert not any(getattr(found, other) for other in others)


def test_distances_from_zero():
    cases = [(Fact(far=3), 3), (Fact(2, 9), 2), (Fact(-9, -4), 4), (Fact(-9, 4), 0),
             (Fact(2, 9, far=5), 5), (Fact(), 0),
             (Fact(Fraction(1, 2), 1), Fraction(1, 2))]  # fmt: skip
    for fact, away in cases:
        assert fact.away == away
    for (a, x), (b, y) in itertools.product(cases, repeat=2):
        assert meet(one(a), one(b))[NODE].far == max(x, y)
        assert join(one(a), one(b))[NODE].far == min(x, y)


def test_facts_about_other_things_stay_or_go():
    other = Node("column", (None, "y"))
    a, b = one(Fact(0, 1)), Facts({other: Fact(2, 3)})
    assert meet(a, b) == {NODE: Fact(0, 1), other: Fact(2, 3)}
    assert join(a, b) == {}
    assert (meet(a, Facts()), meet(Facts(), b)) == (a, b)
    assert a == {NODE: Fact(0, 1)}, "an argument has been changed"


@pytest.mark.parametrize(
    ("ends", "far", "gap", "expected"),
    [
        ((-5, 3), 0, 0, (5, 0, 0)),
        ((-3, 5), 0, 0, (5, 0, 0)),
        ((-5, 3), 1, 0, (5, 1, 1)),
        ((-5, 3), 0, 2, (5, 2, 0)),
        ((1, 5), 0, 0, (5, 1, 1)),
        ((-5, -1), 0, 0, (5, 1, 1)),
        ((2, 5), 0, 0, (5, 2, 2)),
        ((-5, -2), 0, 0, (5, 2, 2)),
        ((2, 5), 3, 0, (5, 3, 3)),
        ((2, 5), 1, 4, (5, 4, 2)),
        ((-2.5, 0.5), 0, 0, (2.5, 0, 0)),
        ((-0.5, 2.5), 0, 0, (2.5, 0, 0)),
        ((0.5, 2.5), 0, 0, (2.5, 0.5, 0.5)),
        ((-2.5, -0.5), 0, 0, (2.5, 0.5, 0.5)),
        ((0, 5), 0, 0, (5, 0, 0)),
        ((-5, 0), 0, 0, (5, 0, 0)),
        ((0, 0), 0, 0, (0, INF, 0)),
        ((1, 1), 0, 0, (1, 1, 1)),
        ((0, 1), 0, 0, (1, 0, 0)),
        ((-1, 0), 0, 0, (1, 0, 0)),
    ],
)
def test_sizes_of_a_range(ends, far, gap, expected):
    v = Value("f64", *ends, far=far, gap=gap)
    assert (v.size, v.clear, v.away) == expected


def test_a_value_that_is_always_null_has_no_range():
    v = Value("i64", 3, 9, far=3, gap=2, literal=True, fields=(Field(0, 3, 9, 1),), form=("x",))
    void = v.void()
    assert void == Value("i64", 0, 0, whole=True, form=VOID)
    assert Value("text", form=("x",)).void() == Value("text", 0, 0, form=VOID)
    for kind in ("dec", "enum", "bit"):
        assert Value(kind, 1, 2, form=("kept",)).void().form == ("kept",)


def test_what_is_constant_and_what_is_present():
    assert Value("i64").constant
    assert not Value("i64", dep=frozenset((1,))).constant
    cases = {(False, False): True, (False, True): False, (True, False): True, (True, True): True}
    for (sure, null), present in cases.items():
        assert Value("i64", null=null, sure=sure).present is present


def test_integers_are_narrowed_to_those_that_remain():
    points = range(-9, 10)
    ends = [-3, Fraction(-5, 2), Fraction(-1, 2), 0, Fraction(1, 3), 2, Fraction(7, 2)]
    for lo, hi in itertools.product([-INF, *ends], [*ends, INF]):
        for above, below in itertools.product((False, True), repeat=2):
            fact, v = Fact(lo, hi, below, above), Value("i64", -4, 5, whole=True)
            left = [x for x in points if -4 <= x <= 5 and holds(fact, x)]
            found = narrowed(v, fact, "duckdb")
            if not left:
                assert found is None
            else:
                assert found is not None
                assert (found.lo, found.hi) == (left[0], left[-1])
                assert type(found.lo) is type(found.hi) is int
            # an end of a double stays as it is: between it and the next there may be others
            real = narrowed(Value("f64", -4.0, 5.0), fact, "duckdb")
            least, most = max(-4, lo), min(5, hi)
            assert real is None if least > most else (real.lo, real.hi) == (least, most)


def test_numerics_that_are_whole_are_narrowed_like_integers():
    fact = Fact(Fraction(1, 2), Fraction(7, 2))
    found = narrowed(Value("num", -9, 9, whole=True), fact, "postgresql")
    assert (found.lo, found.hi) == (1, 3)
    found = narrowed(Value("num", -9, 9), fact, "postgresql")
    assert (found.lo, found.hi) == (Fraction(1, 2), Fraction(7, 2))


@pytest.mark.parametrize(
    ("kind", "dialect", "ends"),
    [
        ("f64", "duckdb", (-LARGEST, LARGEST)),
        ("date", "duckdb", (-2147483646, 2147483646)),
        ("date", "postgresql", (-2440588, 2145042905)),
        ("date", "spark", (-2147483648, 2147483647)),
        ("ts", "duckdb", (-(2**63), 2**63 - 2)),
        ("tz", "spark", (-(2**63), 2**63 - 2)),
        ("ts", "postgresql", (-211_813_488_000_000_000, 9_224_318_016_000_000_000)),
        ("tz", "postgresql", (-211_813_488_000_000_000, 9_224_318_016_000_000_000)),
    ],
)
def test_what_is_finite_ends_where_the_engine_says(kind, dialect, ends):
    found = narrowed(Value(kind), Fact(finite=True), dialect)
    assert (found.lo, found.hi) == ends
    assert narrowed(Value(kind), Fact(), dialect) == Value(kind)
    inner = narrowed(Value(kind, -7, 5), Fact(-4, 9, finite=True), dialect)
    assert (inner.lo, inner.hi) == (-4, 5)


def test_more_rows_than_any_source_has():
    assert ROWS == 1_152_921_504_606_846_976


def test_null_nan_and_distance_follow_the_fact():
    for nan, real, compared, statistics in itertools.product((False, True), repeat=4):
        v = Value("f64", -9.0, 9.0, nan=nan, statistics=statistics)
        found = narrowed(v, Fact(real=real, compared=compared), "duckdb")
        # where statistics may remove a comparison, it does not exclude NaN
        assert found.nan is (nan and not real and (statistics or not compared))
    for null, known in itertools.product((False, True), repeat=2):
        found = narrowed(Value("i64", 0, 9, null=null), Fact(known=known), "duckdb")
        assert found.null is (null and not known)
    for far, told in ((0, 2), (3, 2), (2, 0)):
        assert narrowed(Value("i64", -9, 9, far=far), Fact(far=told), "duckdb").far == max(
            far, told
        )


def test_a_word_keeps_its_fields_unless_its_only_one_is_narrowed():
    a, b = Field(0, 0, 3, 1), Field(2, 0, 3, 2)
    for fields in ((a,), (a, b)):
        v = Value("i64", 0, 15, whole=True, fields=fields)
        assert narrowed(v, Fact(0, 15), "duckdb").fields == fields
        narrow = narrowed(v, Fact(1, 15), "duckdb")
        assert narrow.fields == (() if len(fields) == 1 else fields)
        assert narrowed(v, Fact(0, 14), "duckdb").fields == narrow.fields


def test_words_of_fields_that_do_not_meet():
    for at, (low, high), (lo, hi) in itertools.product(
        range(4), [(0, 1), (0, 3), (1, 4)], [(0, 1), (2, 3)]
    ):
        a = Value("i64", low, high, null=False, whole=True, id=1)
        b = Value("i64", lo << at, hi << at, null=False, whole=True, fields=(Field(at, lo, hi, 2),))
        fields = side_by_side(a, b)
        apart = high < 1 << at
        assert fields == ((Field(0, low, high, 1), Field(at, lo, hi, 2)) if apart else ())
        assert side_by_side(b, a) == fields
        if apart:
            sums = {x + (y << at) for x in range(low, high + 1) for y in range(lo, hi + 1)}
            assert len(sums) == (high - low + 1) * (hi - lo + 1)
            assert word(fields) == (min(sums), max(sums))


def test_which_values_are_fields():
    whole = {"whole": True, "null": False, "id": 7}
    assert packed(Value("i64", 0, 5, **whole)) == (Field(0, 0, 5, 7),)
    assert packed(Value("i64", 1, 5, **whole)) == (Field(0, 1, 5, 7),)
    assert packed(Value("i64", -1, 5, **whole)) == ()
    assert packed(Value("f64", 0, 5, **whole)) == ()
    nullable = Value("i64", 0, 5, whole=True, id=7)
    assert packed(nullable) == (Field(0, 0, 5, None),)
    assert packed(nullable._replace(sure=True)) == (Field(0, 0, 5, 7),)
    assert side_by_side(Value("i64", -1, 5, **whole), Value("i64", 0, 5, **whole)) == ()


@pytest.mark.parametrize(
    ("native", "dialect", "expected"),
    [
        ("decimal(5,2)", "duckdb", Value("dec", Fraction(-99999, 100), Fraction(99999, 100),
                                         statistics=True, form=(5, 2))),
        ("decimal", "duckdb", Value("dec", Fraction(-(10**18 - 1), 1000),
                                    Fraction(10**18 - 1, 1000), statistics=True, form=(18, 3))),
        ("decimal(38,0)", "spark", Value("d38", 1 - 10**38, 10**38 - 1, whole=True)),
        ("decimal(38,1)", "spark", Value("dec", Fraction(1 - 10**38, 10), Fraction(10**38 - 1, 10),
                                         form=(38, 1))),
        ("decimal(37,0)", "spark", Value("dec", 1 - 10**37, 10**37 - 1, form=(37, 0))),
        ("decimal(38,0)", "duckdb", Value("dec", 1 - 10**38, 10**38 - 1, statistics=True,
                                          form=(38, 0))),
        ("int8", "postgresql", Value("i64", -(2**63), 2**63 - 1, whole=True)),
        ("int8(3)", "postgresql", Value("other")),
        ("varchar(3)", "postgresql", Value("text")),
        ("utinyint", "duckdb", Value("u8", 0, 255, whole=True, statistics=True)),
        ("hugeint", "duckdb", Value("i128", -(2**127), 2**127 - 1, whole=True, statistics=True)),
        ("numeric", "postgresql", Value("num", nan=True)),
        ("numeric(9,2)", "postgresql", Value("num", nan=True)),
        ("float4", "postgresql", Value("f32", nan=True)),
        ("double", "spark", Value("f64", nan=True)),
        ("timestamp(3) with time zone", "postgresql", Value("tz")),
        ("bit(3)", "postgresql", Value("bit", form=("3",))),
        ("geometry", "postgresql", Value("other")),
        ("int[]", "duckdb", Value("other")),
        ("decimal(x,2)", "duckdb", Value("other")),
        ("enum('a', 'b')", "duckdb", Value("enum", statistics=True)),
        ("string collate UTF8_LCASE", "spark", Value("collated")),
    ],
)  # fmt: skip
def test_columns_hold_what_their_types_can(native, dialect, expected):
    found = column(native, dialect, 9, unit=False)
    assert found == expected._replace(id=9, dep=frozenset((9,)))
    told = column(native, dialect, 9, unit=True)
    if expected.type == "collated":
        assert (told.unit, told.form) == (False, ("unit",))
    elif expected.type != "other":
        assert told == found._replace(unit=True)


def test_a_bare_name_that_two_tables_have_means_nothing():
    x, y = Value("i64", 0, 1), Value("i64", 2, 3)
    scope = Scope((("a", "n", x), ("b", "n", y), ("b", "m", y)))
    assert scope.columns == {("a", "n"): x, ("b", "n"): y, (None, "n"): None, ("b", "m"): y,
                             (None, "m"): y}  # fmt: skip


@pytest.mark.parametrize("swapped", [False, True])
def test_a_product_with_nought_is_nought_however_large_the_other_is(swapped):
    """The corners of two ranges, one of them without an end: 0 · ∞ is 0 there."""
    for lo, hi in ((0, 0), (0, 5), (-3, 0), (-3, 5)):
        for low, high in ((-INF, INF), (0, INF), (-INF, 0), (2, INF), (-INF, -2)):
            pair = Value("f64", lo, hi), Value("f64", low, high)
            a, b = reversed(pair) if swapped else pair
            found = _product(a, b, Value("f64"))
            ends = [0 if 0 in (x, y) else x * y for x in (lo, hi) for y in (low, high)]
            assert (found.lo, found.hi) == (min(ends), max(ends))
