"""Attacks that once worked, as the statements they made: each is refused, or its limit is seen.

The texts are cut down to what mattered. Where an engine can be shown to fail on
one table and not on its neighbour, it is shown: the attack is real.
"""

from __future__ import annotations

import math
from decimal import Decimal

import duckdb
import psycopg
import pyarrow as pa
import pytest

from discreet import verify
from discreet.errors import UnprovenStatementError


def refused(sql, tables, dialect="duckdb", **more):
    try:
        verify.prove(sql, dialect=dialect, tables=tables, **more)
    except UnprovenStatementError:
        return True
    return False


def outcome(execute, sql):
    try:
        return execute(sql).fetchall()
    except (duckdb.Error, psycopg.Error):
        return "failed"


PEOPLE = {"person_id": "BIGINT", "sex": "VARCHAR", "age": "INTEGER", "income": "BIGINT"}
CLEAN = (
    "SELECT CASE WHEN income >= CAST(0 AS BIGINT) AND income <= CAST(20000000 AS BIGINT) "
    "THEN income WHEN income < CAST(0 AS BIGINT) THEN CAST(0 AS BIGINT) "
    "ELSE CAST(20000000 AS BIGINT) END AS c, CAST(age AS BIGINT) AS a, sex FROM {people}"
)


@pytest.mark.parametrize("dialect", ["duckdb", "postgresql"])
@pytest.mark.parametrize(
    "condition",
    [
        "a = 40 AND c IN (CAST(400000000000000000000 AS BIGINT))",
        "a = 40 AND CASE WHEN c < CAST(-9223372036854775900 AS BIGINT) THEN 0 ELSE 1 END = 1",
        "a = 40 AND c * CAST(1099511627776 AS BIGINT) > CAST(5 AS BIGINT)",
        "a = 40 AND c - CAST(-9223372036854775807 AS BIGINT) > 5",
        "a = 40 AND c // CAST(0 AS BIGINT) = 1",
    ],
)
def test_constants_that_fail_only_on_rows_that_get_there(dialect, condition):
    body = CLEAN.format(people='"people"')
    condition = condition.replace("//", "/") if dialect == "postgresql" else condition
    sql = f"SELECT count(*) FROM (SELECT * FROM ({body}) AS s WHERE {condition}) AS s"
    names = PEOPLE if dialect == "duckdb" else {**PEOPLE, "sex": "text"}
    assert refused(sql, {'"people"': verify.Table(names, "person_id")}, dialect)


def test_a_literal_of_twenty_digits_leaks_one_bit_in_duckdb():
    wide = "CAST(income * 9223372036854775807 AS BIGINT)"
    sql = f"SELECT count(*) FROM people WHERE age = 40 AND CASE WHEN age = 40 THEN {wide} END = 1"
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE people (age INTEGER, income BIGINT)")
        connection.execute("INSERT INTO people VALUES (30, 5)")
        assert outcome(connection.execute, sql) == [(0,)]
        connection.execute("INSERT INTO people VALUES (40, 5)")
        assert outcome(connection.execute, sql) == "failed"
    assert refused(sql, {"people": verify.Table({"age": "INTEGER", "income": "BIGINT"})})


MORE = "CAST(1097151 AS BIGINT)"
KEY = f"CASE WHEN a = 95 THEN (c + {MORE}) * ({MORE} + c) * (c + {MORE}) END"


@pytest.mark.parametrize("dialect", ["duckdb", "postgresql"])
def test_bounds_narrowed_by_where_guard_no_key(dialect):
    """Keys are evaluated on rows that WHERE excludes: both engines push them below it.

    That they do is shown in the conformance tests of the engines' rules.
    """
    ors = " OR ".join(f"(c <= 0 AND a = {i})" for i in range(40))
    body = CLEAN.format(people='"people"')
    narrowed = f"SELECT * FROM ({body}) AS s WHERE {ors}"
    clamp = "CASE WHEN c > CAST(9 AS BIGINT) THEN CAST(9 AS BIGINT) ELSE c END"
    clamped = f"SELECT {clamp} AS c, a FROM ({narrowed}) AS s"
    names = PEOPLE if dialect == "duckdb" else {**PEOPLE, "sex": "text"}
    tables = {'"people"': verify.Table(names, "person_id")}
    for rows, bad in ((narrowed, True), (clamped, False)):
        keyed = f"SELECT {KEY} AS k FROM ({rows}) AS s"
        sql = f"SELECT k, count(*) FROM ({keyed}) AS s WHERE k BETWEEN 0 AND 9 GROUP BY k"
        assert refused(sql, tables, dialect) == bad


@pytest.mark.parametrize(
    ("native", "values", "bad"),
    [
        ("DECIMAL(38,37)", "1, 100", True),
        ("DECIMAL(38,38)", "0, 1", True),
        ("DECIMAL(5,4)", "1, 100", False),
        ("DECIMAL(18,18)", "1, 1000000000000", False),
    ],
)
def test_categories_over_decimals(native, values, bad):
    first, last = values.split(", ")
    whole = f"CASE WHEN x BETWEEN {first} AND {last} AND x = floor(x) THEN CAST(x AS BIGINT) END"
    code = f"CASE ({whole}) WHEN {first} THEN CAST(0 AS BIGINT) END"
    sql = f'SELECT count(c) FROM (SELECT {code} AS c FROM "t") AS s'
    assert refused(sql, {'"t"': verify.Table({"x": native})}) == bad
    width, scale = (int(n) for n in native[8:-1].split(","))
    numbers = [Decimal(0), Decimal("0.1"), *([Decimal(1)] if width > scale else [])]
    table = pa.table({"x": pa.array(numbers, pa.decimal128(width, scale))})
    with duckdb.connect() as connection:
        connection.register("t", table)
        assert (outcome(connection.execute, sql) == "failed") == bad


@pytest.mark.parametrize(
    ("unit", "native", "count"),
    [
        ("s", "TIMESTAMP_S", "epoch_us(x)"),
        ("ms", "TIMESTAMP_MS", "epoch_us(x)"),
        ("ns", "TIMESTAMP_NS", "((epoch_ns(x) - (epoch_ns(x) % 1000 + 1000) % 1000) // 1000)"),
    ],
)
def test_instants_beyond_microseconds(unit, native, count):
    code = f"CASE WHEN isfinite(x) THEN {count} END"
    sql = f'SELECT count(y) FROM (SELECT {code} AS y FROM "t") AS s'
    assert refused(sql, {'"t"': verify.Table({"x": native})})
    far = {"s": 10**15, "ms": 2**63 - 2, "ns": -(2**63)}[unit]
    with duckdb.connect() as connection:
        for value, fate in ((0, "ran"), (far, "failed")):
            table = pa.table({"x": pa.array([value], pa.int64()).cast(pa.timestamp(unit))})
            connection.register("t", table)
            found = outcome(connection.execute, sql)
            assert (found == "failed") == (fate == "failed")


def test_units_of_two_families():
    rows = '(SELECT "id" AS u FROM "{}" WHERE "id" IS NOT NULL)'
    left, right = rows.format("people"), rows.format("visits")
    sql = f"SELECT count(*) FROM {left} AS l INNER JOIN {right} AS r ON l.u = r.u"
    text, number = verify.Table({"id": "VARCHAR"}, "id"), verify.Table({"id": "BIGINT"}, "id")
    assert refused(sql, {'"people"': text, '"visits"': number})
    assert not refused(sql, {'"people"': number, '"visits"': number})
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE visits AS SELECT CAST(7 AS BIGINT) AS id")
        connection.execute("CREATE TABLE people AS SELECT '007' AS id")
        assert outcome(connection.execute, sql) == [(1,)]
        connection.execute("INSERT INTO people VALUES ('abc')")
        assert outcome(connection.execute, sql) == "failed"


def test_a_join_that_multiplies_rows_beyond_the_declared_limit():
    """One row meets 500 shops; declared was one."""
    left, right = 'SELECT "region" AS c0 FROM "people"', 'SELECT "region" AS c1 FROM "shops"'
    body = f"SELECT l.*, r.c1 FROM ({left}) AS l INNER JOIN ({right}) AS r ON l.c0 = r.c1"
    sql = f"SELECT count(*) * CAST(1 AS HUGEINT) FROM ({body}) AS s"
    shops = verify.Table({"region": "VARCHAR", "shop": "INTEGER"}, public=True)
    tables = {'"people"': verify.Table({"region": "VARCHAR"}), '"shops"': shops}
    fanouts = {('"shops"', frozenset({"region"})): 500}
    (reading,) = verify.prove(sql, dialect="duckdb", tables=tables, fanouts=fanouts).columns
    assert reading.sensitivity("add-remove").l1 == 500
    assert not reading.within(1, 1, 1, "add-remove")
    (reading,) = verify.prove(sql, dialect="duckdb", tables=tables).columns
    assert reading.sensitivity("add-remove").l1 == math.inf


def test_time_of_self_joins_is_not_the_verifiers_but_their_rows_are():
    """Six joins of a unit's rows with themselves: each multiplies, and nothing here limits."""
    one = 'SELECT "id" AS u, CAST(1 AS BIGINT) AS {} FROM "people" WHERE "id" IS NOT NULL'
    body = one.format("a")
    for i in range(6):
        other = one.format(f"a{i}")
        body = f"SELECT l.*, r.a{i} FROM ({body}) AS l INNER JOIN ({other}) AS r ON l.u = r.u"
    sql, table = f"SELECT count(*) FROM ({body}) AS s", verify.Table({"id": "BIGINT"}, "id")
    (reading,) = verify.prove(sql, dialect="duckdb", tables={'"people"': table}).columns
    assert reading.rows == math.inf


@pytest.mark.parametrize(
    "guard",
    [
        "x >= CAST('0.0' AS DOUBLE) AND x <= CAST('10.0' AS DOUBLE)",
        "NOT isnan(x) AND x >= CAST('0.0' AS DOUBLE) AND x <= CAST('10.0' AS DOUBLE)",
        "x = x AND x <= CAST('10.0' AS DOUBLE) AND x >= CAST('0.0' AS DOUBLE)",
    ],
)
def test_nan_that_statistics_leave_out(guard):
    table = {'"t"': verify.Table({"x": "DOUBLE"})}
    sql = f'SELECT COALESCE(sum(CASE WHEN {guard} THEN CAST(x AS BIGINT) END), 0) FROM "t"'
    assert refused(sql, table)
    assert not refused(sql.replace("CASE WHEN", "CASE WHEN isfinite(x) AND"), table)
    assert not refused(sql.replace("CAST(x AS", "TRY_CAST(x AS"), table)
