"""Which physical columns a declared one can be read from, at the limits."""

from __future__ import annotations

import pytest

from discreet import policy as pol
from discreet.engines._physical import Found, Physical, check
from discreet.errors import SchemaError

EVERY = tuple(Physical)
NUMBERS = {Physical.INTEGER, Physical.FLOAT, Physical.DECIMAL}
READ = {
    pol.Integer("c", 0, 9): NUMBERS,
    pol.Real("c", 0, 9, "0.5"): NUMBERS,
    pol.Boolean("c"): NUMBERS | {Physical.BOOLEAN},
    pol.Date("c", "2000-01-01", "2001-01-01"): {Physical.DATE, Physical.TIMESTAMP},
    pol.Timestamp("c", "2000-01-01", "2001-01-01", 60): {Physical.DATE, Physical.TIMESTAMP},
    pol.Text("c"): {Physical.INTEGER, Physical.TEXT},
    pol.Category("c", ["a", "b"]): {Physical.TEXT},
    pol.Category("c", [1, 2]): NUMBERS,
    pol.Category("c", [2**53, -(2**53)]): NUMBERS,
    pol.Category("c", [2**53 + 1]): NUMBERS - {Physical.FLOAT},
    pol.Category("c", [-(2**53) - 1]): NUMBERS - {Physical.FLOAT},
}


def found(name, kind, native="native"):
    return {name: Found(name, kind, native)}


def of(*tables):
    return pol.Policy(tables, pol.Budget("1"))


@pytest.mark.parametrize("column", READ, ids=str)
def test_a_column_is_read_from_types_that_hold_it_exactly(column):
    policy = of(pol.Table("t", [column]))
    for kind in EVERY:
        if kind in READ[column]:
            assert check(policy, {"t": found("c", kind)})["t"]["c"].kind is kind
        else:
            with pytest.raises(SchemaError, match="column 'c' of table 't'"):
                check(policy, {"t": found("c", kind)})
    with pytest.raises(SchemaError, match="no column 'c'"):
        check(policy, {"t": found("d", Physical.INTEGER)})


@pytest.mark.parametrize("kind", EVERY)
def test_units_are_integers_or_texts(kind):
    table = pol.Table("t", [pol.Integer("c", 0, 9)], unit="u", max_rows_per_unit=1)
    held = {"t": found("c", Physical.INTEGER) | found("u", kind)}
    if kind in (Physical.INTEGER, Physical.TEXT):
        assert check(of(table), held)["t"]["u"].kind is kind
    else:
        with pytest.raises(SchemaError, match="the unit column 'u'"):
            check(of(table), held)


def test_units_of_two_tables_are_compared_as_they_are_or_widened():
    tables = [pol.Table(name, [pol.Integer(c, 0, 9)], unit="u", max_rows_per_unit=1)
              for name, c in (("s", "c"), ("t", "d"))]  # fmt: skip

    def held(one, two):
        (a, m), (b, n) = one, two
        return {"s": found("c", Physical.INTEGER) | found("u", a, m),
                "t": found("d", Physical.INTEGER) | found("u", b, n)}  # fmt: skip

    whole, text = Physical.INTEGER, Physical.TEXT
    same = check(of(*tables), held((whole, "BIGINT"), (whole, "BIGINT")))
    assert not any(same[t]["u"].widened for t in ("s", "t"))
    wide = check(of(*tables), held((whole, "BIGINT"), (whole, "INTEGER")))
    assert wide["s"]["u"].widened
    assert wide["t"]["u"].widened
    for pair in (((whole, "BIGINT"), (text, "VARCHAR")), ((text, "VARCHAR"), (whole, "BIGINT"))):
        with pytest.raises(SchemaError, match="would be one person"):
            check(of(*tables), held(*pair))
