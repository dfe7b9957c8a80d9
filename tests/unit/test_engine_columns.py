"""Which physical columns a declared one can be read from, at the limits."""

from __future__ import annotations

import pyarrow as pa
import pytest

import discreet as dc
from discreet import policy as pol
from discreet.engines._physical import Field, Physical, check
from discreet.errors import SchemaError
from discreet.plan import Scan

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
    return {name: Field(name, kind, native)}


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


def test_rows_name_their_owners_by_what_can_be_compared():
    """With the key of the table that they name, and with no other."""
    tables = [
        pol.Table("visits", [], unit="u", key="k", max_rows_per_unit=1),
        pol.Table("labs", [], owner=pol.Owner("visits", "visit"), max_rows_per_unit=1),
        pol.Table("trips", [], unit="w", key="trip", max_rows_per_unit=1),
    ]
    whole, text = Physical.INTEGER, Physical.TEXT

    def held(key, named, other):
        return {"visits": found("u", whole) | found("k", *key), "labs": found("visit", *named),
                "trips": found("w", whole) | found("trip", *other)}  # fmt: skip

    long, short, words = (whole, "BIGINT"), (whole, "INTEGER"), (text, "VARCHAR")
    same = check(of(*tables), held(long, long, words))  # another table's key is its own matter
    assert not any(column.widened for table in same.values() for column in table.values())
    wide = check(of(*tables), held(long, short, long))
    assert (wide["visits"]["k"].widened, wide["labs"]["visit"].widened) == (True, True)
    assert not wide["trips"]["trip"].widened
    for pair in ((long, words), (words, long)):
        with pytest.raises(SchemaError, match="the key of table 'visits'"):
            check(of(*tables), held(*pair, pair[1]))


@pytest.fixture
def curator():
    table = pol.Table("t", [pol.Category("kind", ["A", "B"], other="else"),
                            pol.Integer("ward", 0, 9)])  # fmt: skip
    known = pol.Table("wards", [pol.Text("name")], public=True)
    policy = pol.Policy([table, known], pol.Budget("100000"), name="late")
    rows = pa.table({"kind": [*"AAxyzxB"], "ward": [1, 2, 3, 3, 3, 4, 5]})
    data = {"t": rows, "wards": pa.table({"name": ["north", "south"]})}
    with dc.open(data, policy=policy, ledger=":memory:") as opened:
        yield opened


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("COUNT(*)", {"A": 2, "B": 1, "else": 4}),
        ("SUM(ward)", {"A": 3, "B": 5, "else": 13}),
        # two spellings of what is not listed have a value in common
        ("COUNT(DISTINCT ward)", {"A": 2, "B": 1, "else": 2}),
    ],
)
def test_values_that_are_not_listed_are_one_group(curator, what, expected):
    """At an ε of 1000 the noise is 0, but for 1 in e^100."""
    answer = curator.sql(f"SELECT kind, {what} AS n FROM t GROUP BY kind", epsilon="1000")
    assert {row["kind"]: round(row["n"]) for row in answer} == expected


def test_a_record_says_what_is_protected(curator):
    """A row, where no column says whose rows they are."""
    statement = curator.sql("SELECT COUNT(*) AS n FROM t", epsilon="1").record()["statement"]
    assert (statement["unit"], statement["neighbours"]) == ("row", "add-remove")


def test_texts_are_listed_of_public_tables_of_the_policy_alone(curator):
    engine = curator._engine
    tables = curator.policy.tables
    assert engine.values(Scan(tables["wards"]), "name", 9) == ["north", "south"]
    stranger = pol.Table("secrets", [pol.Text("name")], public=True)
    called = pol.Table("t", [pol.Category("kind", ["A"])], public=True)
    for table in (tables["t"], stranger, called):
        with pytest.raises(SchemaError, match="is not public"):
            engine.values(Scan(table), next(iter(table.columns)), 9)
