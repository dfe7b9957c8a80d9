"""The engines' rules that the verifier rests on, probed on the engines installed.

Each probe computes an expression on stored rows (nothing is folded away) and
says what the engine does: a value, or RAISES. A version that behaves otherwise
fails here first. The verifier must refuse every expression that raises, on the
types alone; of those that run it must prove the ones marked so.
"""

from __future__ import annotations

import duckdb
import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet import verify
from discreet.errors import UnprovenStatementError

RAISES = "raises"
MOST, LEAST = 2**63 - 1, -(2**63)
HUGE = 2**127 - 1
NAN, INF = "'nan'", "'inf'"

# (expression, {column: (type, value)}, what happens, whether the verifier must prove it)
DUCKDB = [
    ("b + 1", {"b": ("BIGINT", MOST)}, RAISES),
    ("b - 1", {"b": ("BIGINT", f"'{LEAST}'")}, RAISES),
    ("b * 2", {"b": ("BIGINT", MOST)}, RAISES),
    ("-b", {"b": ("BIGINT", f"'{LEAST}'")}, RAISES),
    ("abs(b)", {"b": ("BIGINT", f"'{LEAST}'")}, RAISES),
    ("i + 1", {"i": ("INTEGER", 2**31 - 1)}, RAISES),
    ("i + CAST(1 AS BIGINT)", {"i": ("INTEGER", 2**31 - 1)}, 2**31, True),
    ("s * s", {"s": ("SMALLINT", 2**15 - 1)}, RAISES),
    ("b * 9223372036854775808", {"b": ("BIGINT", MOST)}, MOST * 2**63, True),
    ("u + b", {"u": ("UBIGINT", 2**64 - 1), "b": ("BIGINT", -1)}, 2**64 - 2, True),
    ("u >= b", {"u": ("UBIGINT", 2**64 - 1), "b": ("BIGINT", -1)}, True, True),
    ("h + 1", {"h": ("HUGEINT", f"'{HUGE}'")}, RAISES),
    ("h * 2", {"h": ("HUGEINT", f"'{HUGE}'")}, RAISES),
    ("CAST(h AS BIGINT)", {"h": ("HUGEINT", f"'{HUGE}'")}, RAISES),
    ("h % 2147483647", {"h": ("HUGEINT", f"'{HUGE}'")}, HUGE % (2**31 - 1), True),
    ("CAST(9223372036854775808 AS BIGINT) + i", {"i": ("INTEGER", 1)}, RAISES),
    ("b // 0", {"b": ("BIGINT", 1)}, RAISES),
    ("b % 0", {"b": ("BIGINT", 1)}, RAISES),
    ("b // CAST(-1 AS BIGINT)", {"b": ("BIGINT", f"'{LEAST}'")}, RAISES),
    ("b % CAST(-1 AS BIGINT)", {"b": ("BIGINT", f"'{LEAST}'")}, RAISES),
    ("i // CAST(2 AS BIGINT)", {"i": ("INTEGER", -3)}, -1, True),
    ("i % 2", {"i": ("INTEGER", -3)}, -1, True),
    ("b % NULLIF(i, 0)", {"b": ("BIGINT", 3), "i": ("INTEGER", 0)}, None),
    ("b >> 3", {"b": ("BIGINT", -8)}, -1, True),
    ("b >> 64", {"b": ("BIGINT", 5)}, 0),
    ("b << 1", {"b": ("BIGINT", MOST)}, RAISES),
    ("b & 7", {"b": ("BIGINT", -1)}, 7, True),
    ("xor(b & 7, 3)", {"b": ("BIGINT", 5)}, 6, True),
    ("least(b, 5)", {"b": ("BIGINT", "NULL")}, 5, True),
    ("CAST(x AS BIGINT)", {"x": ("DOUBLE", NAN)}, RAISES),
    ("CAST(x AS BIGINT)", {"x": ("DOUBLE", INF)}, RAISES),
    ("CAST(x AS BIGINT)", {"x": ("DOUBLE", "9223372036854775808")}, RAISES),
    ("CAST(x AS BIGINT)", {"x": ("DOUBLE", "9223372036854774784")}, 2**63 - 1024),
    ("CAST(x AS BIGINT)", {"x": ("DOUBLE", "2.5")}, 2),
    ("CAST(x AS BIGINT)", {"x": ("DOUBLE", "-1.5")}, -2),
    ("TRY_CAST(x AS BIGINT)", {"x": ("DOUBLE", NAN)}, None, True),
    ("TRY_CAST(x AS BIGINT)", {"x": ("DOUBLE", "1e300")}, None, True),
    ("TRY_CAST(x * CAST('1e300' AS DOUBLE) AS BIGINT)", {"x": ("DOUBLE", "1e300")}, None, True),
    ("x <= CAST('inf' AS DOUBLE)", {"x": ("DOUBLE", NAN)}, False, True),
    ("x > CAST('5.0' AS DOUBLE)", {"x": ("DOUBLE", NAN)}, True, True),
    ("isfinite(x)", {"x": ("DOUBLE", NAN)}, False, True),
    ("isfinite(x)", {"x": ("DOUBLE", INF)}, False, True),
    ("CAST(x AS FLOAT)", {"x": ("DOUBLE", "1e300")}, RAISES),
    ("CAST(CAST(h AS VARCHAR) AS DOUBLE)", {"h": ("HUGEINT", f"'{HUGE}'")}, float(HUGE), True),
    ("d BETWEEN 0 AND 1", {"d": ("DECIMAL(5,4)", "0.1")}, True, True),
    ("d BETWEEN 0 AND 100", {"d": ("DECIMAL(38,37)", "0.1")}, RAISES),
    ("d = 1", {"d": ("DECIMAL(38,38)", "0.1")}, RAISES),
    ("d >= CAST(1 AS BIGINT)", {"d": ("DECIMAL(38,37)", "0.1")}, False, True),
    ("CAST(d AS BIGINT)", {"d": ("DECIMAL(5,4)", "2.5")}, 3, True),
    ("t = b", {"t": ("VARCHAR", "'007'"), "b": ("BIGINT", 7)}, True),
    ("t = b", {"t": ("VARCHAR", "'abc'"), "b": ("BIGINT", 7)}, RAISES),
    ("day - DATE '1970-01-01'", {"day": ("DATE", "'infinity'")}, 2**31 - 1, True),
    ("day - DATE '1970-01-01'", {"day": ("DATE", "'-infinity'")}, 1 - 2**31, True),
    ("DATE '1970-01-01' + i", {"i": ("INTEGER", 2**31 - 1)}, RAISES),
    ("EXTRACT(year FROM day)", {"day": ("DATE", "'infinity'")}, None, True),
    ("EXTRACT(month FROM day)", {"day": ("DATE", "'-infinity'")}, None, True),
    ("epoch_us(ts)", {"ts": ("TIMESTAMP", "'infinity'")}, None, True),
    ("CAST('0x' || md5(t)[1:15] AS BIGINT)", {"t": ("VARCHAR", "'abc'")},
     int("900150983cd24fb0d6963f7d28e17f72"[:15], 16), True),
    ("CAST('0x' || t AS BIGINT)", {"t": ("VARCHAR", "'ffffffffffffffff'")}, RAISES),
    ("enum_code(TRY_CAST(t AS ENUM('a', 'b')))", {"t": ("VARCHAR", "'q'")}, None, True),
    ("enum_code(TRY_CAST(t AS ENUM('a', 'b')))", {"t": ("VARCHAR", "'b'")}, 1, True),
    ("CASE WHEN b < 0 THEN 0 WHEN b > 9 THEN 9 ELSE b END * 1000", {"b": ("BIGINT", MOST)}, 9000,
     True),
    ("CASE WHEN b > 9 THEN 0 WHEN b < 0 THEN 1 WHEN b * 1000 > 5 THEN 2 END",
     {"b": ("BIGINT", MOST)}, 0, True),
    ("COALESCE(i, b)", {"i": ("INTEGER", "NULL"), "b": ("BIGINT", MOST)}, MOST, True),
]  # fmt: skip
POSTGRESQL = [
    ("b + 1", {"b": ("bigint", MOST)}, RAISES),
    ("b * 2", {"b": ("bigint", MOST)}, RAISES),
    ("-b", {"b": ("bigint", f"'{LEAST}'")}, RAISES),
    ("abs(b)", {"b": ("bigint", f"'{LEAST}'")}, RAISES),
    ("i + 1", {"i": ("integer", 2**31 - 1)}, RAISES),
    ("i + CAST(1 AS BIGINT)", {"i": ("integer", 2**31 - 1)}, 2**31, True),
    ("CAST(b AS numeric) * 9223372036854775808", {"b": ("bigint", MOST)}, MOST * 2**63, True),
    ("CAST(b AS integer)", {"b": ("bigint", MOST)}, RAISES),
    ("b / 0", {"b": ("bigint", 1)}, RAISES),
    ("b % 0", {"b": ("bigint", 1)}, RAISES),
    ("b / CAST(-1 AS BIGINT)", {"b": ("bigint", f"'{LEAST}'")}, RAISES),
    ("b % CAST(-1 AS BIGINT)", {"b": ("bigint", f"'{LEAST}'")}, 0),
    ("i / CAST(2 AS BIGINT)", {"i": ("integer", -3)}, -1, True),
    ("i % 2", {"i": ("integer", -3)}, -1, True),
    ("b >> 3", {"b": ("bigint", -8)}, -1, True),
    ("b >> 64", {"b": ("bigint", 5)}, 5),
    ("b << 63", {"b": ("bigint", 3)}, LEAST),
    ("(b & 7) # 3", {"b": ("bigint", 5)}, 6, True),
    ("least(b, 5)", {"b": ("bigint", "NULL")}, 5, True),
    ("CAST(x AS BIGINT)", {"x": ("float8", NAN)}, RAISES),
    ("CAST(x AS BIGINT)", {"x": ("float8", "9223372036854775808")}, RAISES),
    ("CAST(x AS BIGINT)", {"x": ("float8", "2.5")}, 2),
    ("x * CAST('1e10' AS float8)", {"x": ("float8", "1e300")}, RAISES),
    ("x / CAST('1e10' AS float8)", {"x": ("float8", "1e-320")}, RAISES),
    ("x / CAST('0.0' AS float8)", {"x": ("float8", 1)}, RAISES),
    ("x <= CAST('inf' AS float8)", {"x": ("float8", NAN)}, False, True),
    ("x > CAST('5.0' AS float8)", {"x": ("float8", NAN)}, True, True),
    ("CAST(n AS bigint)", {"n": ("numeric", NAN)}, RAISES),
    ("CAST(n AS bigint)", {"n": ("numeric", "2.5")}, 3),
    ("CAST(n AS float8)", {"n": ("numeric", "1e400")}, RAISES),
    ("CAST(n AS float8)", {"n": ("numeric", "1e-400")}, RAISES),
    ("NULLIF(n, CAST('NaN' AS numeric)) IS NULL", {"n": ("numeric", NAN)}, True, True),
    ("n = 'NaN'", {"n": ("numeric", NAN)}, True, True),
    ("day - DATE '1970-01-01'", {"day": ("date", "'infinity'")}, RAISES),
    ("DATE '1970-01-01' + i", {"i": ("integer", 2**31 - 1)}, RAISES),
    ("DATE '1970-01-01' + i", {"i": ("integer", -2440589)}, RAISES),
    ("CAST(EXTRACT(year FROM day) AS BIGINT)", {"day": ("date", "'infinity'")}, RAISES),
    ("CAST(EXTRACT(EPOCH FROM ts) * 1000000 AS BIGINT)",
     {"ts": ("timestamp", "'294276-12-31 23:59:59'")}, RAISES),
    ("CAST(CAST('x0' || substr(md5(t), 1, 15) AS bit(64)) AS bigint)", {"t": ("text", "'abc'")},
     int("900150983cd24fb0d6963f7d28e17f72"[:15], 16), True),
    ("CAST(CAST('{\"a\": 1}' AS jsonb) ->> CAST(t AS text) AS bigint)", {"t": ("text", "'q'")},
     None, True),
    ("CAST(t AS bigint)", {"t": ("text", "'abc'")}, RAISES),
    ("CASE WHEN b < 0 THEN 0 WHEN b > 9 THEN 9 ELSE b END * 1000", {"b": ("bigint", MOST)}, 9000,
     True),
    ("CASE WHEN b > 9 THEN 0 WHEN b < 0 THEN 1 WHEN b * 1000 > 5 THEN 2 END",
     {"b": ("bigint", MOST)}, 0, True),
]  # fmt: skip


def proved(expression, types, dialect):
    sql = f'SELECT count(*) FROM (SELECT {expression} AS y FROM "z") AS s'
    try:
        verify.prove(sql, dialect=dialect, tables={'"z"': verify.Table(types)})
    except UnprovenStatementError:
        return False
    return True


def probe(execute, case, dialect):
    expression, columns, expected, *must = case
    cells = ", ".join(f"CAST({v} AS {t}) AS {name}" for name, (t, v) in columns.items())
    execute("DROP TABLE IF EXISTS z")
    execute(f"CREATE TABLE z AS SELECT {cells}")
    try:
        ((found,),) = execute(f"SELECT {expression} FROM z").fetchall()
    except (duckdb.Error, psycopg.Error):
        found = RAISES
    assert found == expected, expression
    known = proved(expression, {name: t for name, (t, _) in columns.items()}, dialect)
    if expected == RAISES:
        assert not known, f"proved, and yet it raises: {expression}"
    if must:
        assert known, f"runs, and is not proved: {expression}"


def test_duckdb_computes_and_fails_as_the_rules_say():
    with duckdb.connect() as connection:
        for case in DUCKDB:
            probe(connection.execute, case, "duckdb")


def test_postgresql_computes_and_fails_as_the_rules_say(postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS rules")
        connection.execute("SET search_path = rules")
        for case in POSTGRESQL:
            probe(connection.execute, case, "postgresql")


def test_the_probe_can_fail():
    with duckdb.connect() as connection:
        for wrong in (
            ("b + 1", {"b": ("BIGINT", 1)}, 3),
            ("b + 1", {"b": ("BIGINT", 1)}, RAISES),
            ("b + 1", {"b": ("BIGINT", 1)}, 2, True),
        ):
            with pytest.raises(AssertionError):
                probe(connection.execute, wrong, "duckdb")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_duckdb_instants_at_the_ends_of_64_bits(unit):
    native = {"s": "TIMESTAMP_S", "ms": "TIMESTAMP_MS", "us": "TIMESTAMP", "ns": "TIMESTAMP_NS"}[
        unit
    ]
    far = [2**63 - 1, 2**63 - 2, -(2**63) + 1, -(2**63), 10**18, 0, -1]
    table = pa.table({"z": pa.array(far, pa.int64()).cast(pa.timestamp(unit))})
    guard = f"z >= CAST('1700-01-01' AS {native}) AND z <= CAST('2200-01-01' AS {native})"
    count = "epoch_ns(z) // 1000" if unit == "ns" else "epoch_us(z)"
    with duckdb.connect() as connection:
        connection.register("arrow", table)
        for expression in (f"CASE WHEN {guard} THEN {count} END",
                           f"z = CAST('infinity' AS {native})",
                           count, "isfinite(z)"):  # fmt: skip
            try:
                connection.execute(f"SELECT {expression} FROM arrow").fetchall()
                ran = True
            except duckdb.Error:
                ran = False
            assert ran or not proved(expression, {"z": native}, "duckdb"), expression
            assert ran or unit in ("s", "ms"), expression
        assert proved(f"CASE WHEN {guard} THEN {count} END", {"z": native}, "duckdb")


# Which guards hold: the row 7777 overflows b + 1.

SAFE = "b < 100000"
JOIN = ("SELECT t.*, r.w FROM t JOIN r ON t.g = r.g WHERE (b < 100000 AND w = 1) "
        "OR (b < 100000 AND w = 2 AND k <> w) OR (b < 100001 AND w > 2)")  # fmt: skip
DEAR = " OR ".join(f"(b < {100000 - i} AND k + g = {i})" for i in range(20))
LAZY = [
    f"SELECT sum(CASE WHEN {SAFE} THEN b + 1 END) FROM t",
    f"SELECT count(*) FROM t WHERE CASE WHEN {SAFE} THEN b + 1 > 5 END",
    "SELECT sum(CASE WHEN b >= 100000 THEN 0 ELSE b + 1 END) FROM t",
    "SELECT sum(CASE WHEN b >= 100000 THEN 0 WHEN b + 1 > 5 THEN 1 ELSE b + 2 END) FROM t",
    f"SELECT sum(CASE WHEN {SAFE} THEN b + 1 END), sum(CASE WHEN b < 50000 THEN b + 1 END) FROM t",
    f"SELECT sum(CASE WHEN {SAFE} THEN CASE WHEN b + 1 > 5 THEN b + 2 END END) FROM t",
    (
        f"SELECT count(*) FROM (SELECT CASE WHEN {SAFE} THEN b + 1 END AS y FROM ({JOIN}) s) q "
        "WHERE y BETWEEN 1 AND 20"
    ),
    (
        "SELECT count(*) FROM (SELECT CASE WHEN b > 100000 THEN 100000 ELSE b END + 1 AS y "
        f"FROM ({JOIN}) s) q WHERE y BETWEEN 1 AND 20"
    ),
    (
        f"SELECT count(*) FROM (SELECT CASE WHEN {SAFE} THEN b + 1 END AS y, g FROM t) q "
        "JOIN r ON q.y = r.w"
    ),
]
"""Guards that the verifier trusts."""
EAGER = {
    f"SELECT count(*) FROM (SELECT b + 1 AS y FROM ({JOIN}) s) q WHERE y BETWEEN 1 AND 20": (
        "duckdb",
        "postgresql",
    ),
    f"SELECT sum(b + 1) FILTER (WHERE {SAFE}) FROM t": ("duckdb",),
    f"SELECT count(*) FROM t WHERE ({DEAR}) AND b + 1 > 5": ("postgresql",),
    f"SELECT count(*) FROM (SELECT * FROM t WHERE {DEAR}) s WHERE b + 1 > 5": ("postgresql",),
    f"SELECT sum(CAST((b + 1 > 5 AND {SAFE}) AS INTEGER)) FROM t": ("postgresql",),
    "SELECT CASE WHEN count(*) < 0 THEN sum(b + 1) END FROM t": ("postgresql",),
    "SELECT sum(CASE WHEN x < 100000 THEN y ELSE x END) FROM "
    "(SELECT *, b AS x, b + 1 AS y FROM t) s": ("duckdb",),
    "SELECT count(CASE WHEN b < 0 THEN 1 % 0 END) FROM t": ("postgresql",),
}
"""Shapes that guard nothing, and the engines that are known to fail on them."""
T = ("SELECT CAST(i AS BIGINT) AS i, CASE WHEN i = 7777 THEN 9223372036854775807 ELSE i END AS b, "
     "CAST(i % 3 AS BIGINT) AS g, CAST(i % 5 AS BIGINT) AS k FROM {} AS series(i)")  # fmt: skip
R = "SELECT CAST(i AS BIGINT) AS g, CAST(i AS BIGINT) + 1 AS w FROM {} AS series(i)"


def fill(execute, numbers):
    for name, sql, most in (("t", T, 9999), ("r", R, 2)):
        execute(f"DROP TABLE IF EXISTS {name}")
        execute(f"CREATE TABLE {name} AS {sql.format(numbers.format(most))}")


def raises(execute, sql):
    try:
        execute(sql).fetchall()
    except (duckdb.Error, psycopg.Error):
        return True
    return False


def check_guards(execute, engine):
    for sql in LAZY:
        assert not raises(execute, sql), sql
    for sql, engines in EAGER.items():
        assert raises(execute, sql) == (engine in engines), sql


def test_only_a_when_guards_in_duckdb():
    with duckdb.connect() as connection:
        fill(connection.execute, "range({}+1)")
        check_guards(connection.execute, "duckdb")


def test_only_a_when_guards_in_postgresql(postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS rules")
        connection.execute("SET search_path = rules")
        fill(connection.execute, "generate_series(0, {})")
        connection.execute("ANALYZE t")
        connection.execute("ANALYZE r")
        check_guards(connection.execute, "postgresql")


def test_duckdb_statistics_leave_nan_out_unless_switched_off(tmp_path):
    x = np.arange(5000) % 10 * 1.0
    x[77] = np.nan
    file = tmp_path / "nan.parquet"
    pq.write_table(pa.table({"x": x}), file)
    bare = f"SELECT sum(CASE WHEN x >= 0 AND x <= 10 THEN CAST(x AS BIGINT) END) FROM '{file}'"
    tried = bare.replace("CAST", "TRY_CAST")
    finite = bare.replace("WHEN", "WHEN isfinite(x) AND")
    with duckdb.connect() as connection:
        assert raises(connection.execute, bare)
        assert not raises(connection.execute, tried)
        assert not raises(connection.execute, finite)
        connection.execute("SET disabled_optimizers = 'statistics_propagation'")
        assert not raises(connection.execute, bare)
    guarded = "CASE WHEN x >= CAST('0.0' AS DOUBLE) AND x <= CAST('10.0' AS DOUBLE) THEN {} END"
    assert not proved(guarded.format("CAST(x AS BIGINT)"), {"x": "DOUBLE"}, "duckdb")
    assert proved(guarded.format("TRY_CAST(x AS BIGINT)"), {"x": "DOUBLE"}, "duckdb")


@pytest.mark.parametrize(
    ("what", "duck", "post"),
    [
        ("sum(b)", "HUGEINT", "numeric"),
        ("sum(i)", "HUGEINT", "bigint"),
        ("count(*)", "BIGINT", "bigint"),
        ("count(*) * CAST(5 AS {wide})", "HUGEINT", "numeric"),
        ("least(count(*), 1)", "BIGINT", "bigint"),
        ("max(CASE WHEN b > 0 THEN 1 ELSE b END)", "BIGINT", "bigint"),
        ("max(COALESCE(i, b))", "BIGINT", "bigint"),
        ("max(NULLIF(i, b))", "INTEGER", "integer"),
        ("max(i + 1)", "INTEGER", "integer"),
        ("max(CASE WHEN b > 0 THEN 1 ELSE 200 END)", "INTEGER", "integer"),
        ("max(i * b)", "BIGINT", "bigint"),
    ],
)
def test_types_of_results(postgres_url, what, duck, post):
    rows = "(SELECT CAST(1 AS BIGINT) AS b, CAST(1 AS INTEGER) AS i) AS s"
    with duckdb.connect() as connection:
        x = what.format(wide="HUGEINT")
        assert connection.execute(f"SELECT typeof({x}) FROM {rows}").fetchall() == [(duck,)]
    with psycopg.connect(postgres_url) as connection:
        x = what.format(wide="numeric")
        found = connection.execute(f"SELECT pg_typeof({x})::text FROM {rows}").fetchall()
        assert found == [(post,)]
