"""What the verifier believes about engines, measured on the engines installed.

Integer arithmetic is compared with a model on every pair of corners of every width.
Other functions are listed: what each gives for telling values, or that it RAISES.
A version that behaves otherwise fails here first. The verifier is held to both sides:
from the types alone it refuses whatever raises on some value, and proves what is
marked as `proved`.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import operator
from dataclasses import dataclass

import duckdb
import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet import verify
from discreet.errors import UnprovenStatementError

RAISES = "raises"
INF, NAN = math.inf, math.nan


@pytest.fixture(scope="module")
def duck():
    with duckdb.connect(config={"threads": 1}) as connection:
        yield connection.execute


@pytest.fixture(scope="module")
def post(postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        # A worker that takes tests from another may come here twice.
        connection.execute("DROP SCHEMA IF EXISTS measured CASCADE")
        connection.execute("CREATE SCHEMA measured")
        connection.execute("SET search_path = measured")
        yield connection.execute


def outcome(execute, text):
    """The one value of a statement, or that it raises."""
    try:
        ((found,),) = execute(text).fetchall()
    except (duckdb.Error, psycopg.Error):
        return RAISES
    return found


def hold(execute, **cells):
    """Store one row, so that nothing is folded away: name → (type, value)."""
    listed = ", ".join(f"{literal(v)}::{t} AS {name}" for name, (t, v) in cells.items())
    execute(f"DROP TABLE IF EXISTS one; CREATE TABLE one AS SELECT {listed}")


def literal(value):
    return "NULL" if value is None else "'" + str(value).replace("'", "''") + "'"


def proved(expression, types, dialect):
    text = f'SELECT count(*) FROM (SELECT {expression} AS y FROM "one") AS s'
    return stands(text, {'"one"': verify.Table(types)}, dialect)


def stands(text, tables, dialect, **more):
    try:
        verify.prove(text, dialect=dialect, tables=tables, **more)
    except UnprovenStatementError:
        return False
    return True


# -- integers: a model, on every pair of corners ------------------------------------------------

WIDTHS = {
    "duckdb": {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "HUGEINT": 128},
    "postgresql": {"smallint": 16, "integer": 32, "bigint": 64},
}
OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": None, "%": None}


def corners(bits):
    top = 2 ** (bits - 1)
    return [-top, 1 - top, -top // 2, -2, -1, 0, 1, 2, top // 2, top - 1]


def modelled(sign, a, b, bits, engine):
    """What an engine is believed to return: the exact result where it fits, cut off towards 0."""
    if sign in "+-*":
        exact = OPERATIONS[sign](a, b)
        if sign == "*" and exact == -(2**127) and 1 not in (a, b):
            return RAISES  # DuckDB multiplies signs and sizes; this size is none
    elif b == 0:
        return RAISES
    else:
        exact = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        if not fits(exact, bits) and (sign == "/" or engine == "duckdb"):
            return RAISES  # DuckDB divides to find a remainder, PostgreSQL knows it is 0
        exact = exact if sign == "/" else a - exact * b
    return exact if fits(exact, bits) else RAISES


def fits(n, bits):
    return -(2 ** (bits - 1)) <= n < 2 ** (bits - 1)


def spelled(sign, engine):
    return "//" if (sign, engine) == ("/", "duckdb") else sign


def check_integers(execute, engine, native, bits, model=modelled):
    pairs = list(enumerate(itertools.product(corners(bits), repeat=2)))
    rows = ", ".join(f"({i}, '{a}', '{b}')" for i, (a, b) in pairs)
    execute(f"DROP TABLE IF EXISTS pairs; CREATE TABLE pairs (i INTEGER, a {native}, b {native})")
    execute(f"INSERT INTO pairs VALUES {rows}")
    for sign in OPERATIONS:
        text, failed = f"a {spelled(sign, engine)} b", False
        for i, (a, b) in pairs:
            found = outcome(execute, f"SELECT {text} FROM pairs WHERE i = {i}")
            expected = model(sign, a, b, bits, engine)
            assert found == expected, f"{a} {sign} {b} as {native} is {found}, not {expected}"
            failed |= found == RAISES
        assert failed
        assert not proved(text, {"a": native, "b": native}, engine), (text, native)


def check_clamped(engine, native, bits):
    """Clamped to where the model never raises, every operation is proved."""
    edge = math.isqrt(2 ** (bits - 1) - 1)

    def clamped(name, low, high):
        low, high = (f"CAST({n} AS {native})" for n in (low, high))
        return (
            f"CASE WHEN {name} < {low} THEN {low} WHEN {name} > {high} THEN {high} ELSE {name} END"
        )

    for sign in OPERATIONS:
        low = 1 if sign in "/%" else -edge
        text = f"{clamped('a', -edge, edge)} {spelled(sign, engine)} {clamped('b', low, edge)}"
        known = proved(text, {"a": native, "b": native}, engine)
        # engines widen the smallest types when constants are folded: those are never proved
        assert known or bits < 32, text


@pytest.mark.parametrize("native", WIDTHS["duckdb"])
def test_integers_in_duckdb(duck, native):
    check_integers(duck, "duckdb", native, WIDTHS["duckdb"][native])
    check_clamped("duckdb", native, WIDTHS["duckdb"][native])


@pytest.mark.parametrize("native", WIDTHS["postgresql"])
def test_integers_in_postgresql(post, native):
    check_integers(post, "postgresql", native, WIDTHS["postgresql"][native])
    check_clamped("postgresql", native, WIDTHS["postgresql"][native])


def test_a_wrong_model_of_integers_is_noticed(duck):
    def wraps(sign, a, b, bits, engine):
        found = modelled(sign, a, b, bits, engine)
        return 0 if found == RAISES else found

    def floors(sign, a, b, bits, engine):
        found = modelled(sign, a, b, bits, engine)
        return a % b if sign == "%" and found != RAISES else found

    for model in (wraps, floors):
        with pytest.raises(AssertionError, match="as INTEGER is"):
            check_integers(duck, "duckdb", "INTEGER", 32, model)


# -- everything else: expressions over x, by its type --------------------------------------------


@dataclass(frozen=True)
class Rule:
    """What an expression gives, by the value of x; whether the verifier must prove it."""

    type: str
    expression: str
    gives: dict
    proved: bool = False


def residues(*texts):
    return {t: int(hashlib.md5(t.encode()).hexdigest()[:15], 16) for t in texts}


TOP, LOW, HUGE = 2**63 - 1, -(2**63), 2**127 - 1
PRIME = 2**31 - 1
ROUNDED = {NAN: RAISES, INF: RAISES, -INF: RAISES, 2.0**63: RAISES, 2.0**63 - 1024: 2**63 - 1024,
           -(2.0**63): LOW, 0.5: 0, 1.5: 2, 4.5: 4, -2.5: -2, -3.5: -4}  # fmt: skip
CLAMPED = "CASE WHEN x > 40 THEN 40 WHEN x < -40 THEN -40 ELSE x END"
BRANCHES = "CASE WHEN x > 40 THEN 0 WHEN x < -40 THEN 1 WHEN x * 5000 < 7 THEN 2 END"
BOTH = [
    Rule("BIGINT", "-x", {LOW: RAISES, TOP: -TOP}),
    Rule("BIGINT", "abs(x)", {LOW: RAISES, -8: 8}),
    Rule("INTEGER", "x + CAST(1 AS BIGINT)", {2**31 - 1: 2**31, -(2**31): 1 - 2**31}, proved=True),
    Rule("INTEGER", "x * CAST(-2 AS BIGINT)", {-(2**31): 2**32, None: None}, proved=True),
    Rule("BIGINT", "x >> 5", {-64: -2, -1: -1, TOP: TOP >> 5}, proved=True),
    Rule("BIGINT", "x & 15", {-1: 15, LOW: 0, 18: 2}, proved=True),
    Rule("BIGINT", "least(x, 11)", {None: 11, TOP: 11, LOW: LOW}, proved=True),
    Rule("BIGINT", f"{CLAMPED} * 5000", {TOP: 200_000, LOW: -200_000, 3: 15_000, None: None},
         proved=True),
    Rule("BIGINT", BRANCHES, {TOP: 0, LOW: 1, 0: 2, 9: None, None: None}, proved=True),
    Rule("INTEGER", f"COALESCE(x, CAST({TOP} AS BIGINT))", {None: TOP, 3: 3}, proved=True),
    Rule("BIGINT", "6 % NULLIF(x, 0)", {0: None, 4: 2, None: None}),
    Rule("INTEGER", "DATE '1970-01-01' + x", {2**31 - 1: RAISES}),
]  # fmt: skip
DUCKDB = [
    *BOTH,
    Rule("BIGINT", "x * 18446744073709551616", {TOP: TOP * 2**64, LOW: RAISES}),
    Rule("BIGINT", "x * 9223372036854775808", {TOP: TOP * 2**63, LOW: -(2**126)}, proved=True),
    Rule("UBIGINT", "x + CAST(-7 AS BIGINT)", {2**64 - 1: 2**64 - 8, 0: -7}, proved=True),
    Rule("UBIGINT", "x >= CAST(-7 AS BIGINT)", {2**64 - 1: True, 0: True}, proved=True),
    Rule("HUGEINT", "CAST(x AS BIGINT)", {TOP: TOP, TOP + 1: RAISES, LOW: LOW, LOW - 1: RAISES}),
    Rule("HUGEINT", f"x % {PRIME}", {HUGE: HUGE % PRIME, -HUGE: -(HUGE % PRIME)}, proved=True),
    Rule("HUGEINT", "CAST(CAST(x AS VARCHAR) AS DOUBLE)", {HUGE: float(HUGE), 2**53 + 1: 2.0**53},
         proved=True),
    Rule("INTEGER", f"CAST({TOP + 1} AS BIGINT) + x", {1: RAISES}),
    Rule("BIGINT", "x >> 64", {9: 0}),
    Rule("BIGINT", "x << 3", {1: 8, 2**60: RAISES, TOP: RAISES}),
    Rule("BIGINT", "xor(x & 15, 9)", {6: 15, 9: 0, -1: 6}, proved=True),
    Rule("DOUBLE", "CAST(x AS BIGINT)", ROUNDED),
    Rule("DOUBLE", "TRY_CAST(x AS BIGINT)",
         {NAN: None, INF: None, 1e19: None, 7.5: 8, 6.5: 6, None: None}, proved=True),
    Rule("DOUBLE", "TRY_CAST(x * CAST('1e308' AS DOUBLE) AS BIGINT)", {1e10: None, 0.0: 0},
         proved=True),
    Rule("DOUBLE", "x <= CAST('inf' AS DOUBLE)", {NAN: False, INF: True}, proved=True),
    Rule("DOUBLE", "x >= CAST('3.0' AS DOUBLE)", {NAN: True, -INF: False}, proved=True),
    Rule("DOUBLE", "isfinite(x)", {NAN: False, INF: False, -0.0: True}, proved=True),
    Rule("DOUBLE", "CAST(x AS FLOAT)", {1e39: RAISES, 1.5: 1.5}),
    Rule("DECIMAL(6,5)", "x BETWEEN 0 AND 9", {"0.5": True, "-0.1": False}, proved=True),
    Rule("DECIMAL(38,37)", "x BETWEEN 0 AND 12", {"0.5": RAISES}),
    Rule("DECIMAL(38,38)", "x = 2", {"0.5": RAISES}),
    Rule("DECIMAL(38,37)", "x >= CAST(2 AS BIGINT)", {"0.5": False, "2.5": True}, proved=True),
    Rule("DECIMAL(6,5)", "CAST(x AS BIGINT)", {"1.5": 2, "2.5": 3, "-2.5": -3}, proved=True),
    Rule("VARCHAR", "x = CAST(12 AS BIGINT)", {"0012": True, "twelve": RAISES}),
    Rule("DATE", "x - DATE '1970-01-01'",
         {"infinity": 2**31 - 1, "-infinity": 1 - 2**31, "1970-01-11": 10}, proved=True),
    Rule("DATE", "EXTRACT(year FROM x)", {"infinity": None, "2011-05-06": 2011}, proved=True),
    Rule("DATE", "EXTRACT(month FROM x)", {"-infinity": None, "2011-05-06": 5}, proved=True),
    Rule("TIMESTAMP", "epoch_us(x)", {"infinity": None, "1970-01-01 00:00:02": 2_000_000},
         proved=True),
    Rule("VARCHAR", "CAST('0x' || md5(x)[1:15] AS BIGINT)", residues("", "ä", "shelf 9"),
         proved=True),
    Rule("VARCHAR", "CAST('0x' || x AS BIGINT)", {"ff": 255, "ffffffffffffffff": RAISES}),
    Rule("VARCHAR", "enum_code(TRY_CAST(x AS ENUM('k', 'm')))", {"k": 0, "m": 1, "z": None},
         proved=True),
]  # fmt: skip
POSTGRESQL = [
    *BOTH,
    Rule("bigint", "CAST(x AS numeric) * 18446744073709551616", {TOP: TOP * 2**64}, proved=True),
    Rule("bigint", "CAST(x AS integer)", {2**31 - 1: 2**31 - 1, 2**31: RAISES}),
    Rule("bigint", "x >> 64", {9: 9}),
    Rule("bigint", "x << 62", {3: -(2**62)}),
    Rule("bigint", "(x & 15) # 9", {6: 15, 9: 0, -1: 6}, proved=True),
    Rule("float8", "CAST(x AS BIGINT)", ROUNDED),
    Rule("float8", "x * CAST('1e9' AS float8)", {1e300: RAISES, 2.0: 2e9}),
    Rule("float8", "x / CAST('1e9' AS float8)", {1e-320: RAISES, 2e9: 2.0}),
    Rule("float8", "x / CAST('0.0' AS float8)", {3.0: RAISES}),
    Rule("float8", "x <= CAST('inf' AS float8)", {NAN: False, INF: True}, proved=True),
    Rule("float8", "x >= CAST('3.0' AS float8)", {NAN: True, -INF: False}, proved=True),
    Rule("numeric", "CAST(x AS bigint)", {"NaN": RAISES, "1e30": RAISES, "1.5": 2, "2.5": 3}),
    Rule("numeric", "CAST(x AS float8)", {"1e400": RAISES, "1e-400": RAISES, "0.25": 0.25}),
    Rule("numeric", "NULLIF(x, CAST('NaN' AS numeric)) IS NULL", {"NaN": True, "3": False},
         proved=True),
    Rule("numeric", "x = 'NaN'", {"NaN": True, "Infinity": False}, proved=True),
    Rule("date", "x - DATE '1970-01-01'", {"infinity": RAISES, "1970-01-11": 10}),
    Rule("integer", "DATE '1970-01-01' + x", {-2_440_589: RAISES}),
    Rule("date", "CAST(EXTRACT(year FROM x) AS BIGINT)", {"infinity": RAISES, "2011-05-06": 2011}),
    Rule("timestamp", "CAST(EXTRACT(EPOCH FROM x) * 1000000 AS BIGINT)",
         {"294276-12-31 23:59:59": RAISES, "1970-01-01 00:00:02": 2_000_000}),
    Rule("text", "CAST(CAST('x0' || substr(md5(x), 1, 15) AS bit(64)) AS bigint)",
         residues("", "ä", "shelf 9"), proved=True),
    Rule("text", "CAST(CAST('{\"k\": 4}' AS jsonb) ->> CAST(x AS text) AS bigint)",
         {"k": 4, "z": None}, proved=True),
    Rule("text", "CAST(x AS bigint)", {"12": 12, "twelve": RAISES}),
]  # fmt: skip


def check_rule(execute, rule, engine):
    failed = False
    for value, expected in rule.gives.items():
        hold(execute, x=(rule.type, value))
        found = outcome(execute, f"SELECT {rule.expression} FROM one")
        assert found == expected, f"{rule.expression} is {found} for {value}, not {expected}"
        failed |= found == RAISES
    known = proved(rule.expression, {"x": rule.type}, engine)
    assert not (failed and known), f"proved, and yet it raises: {rule.expression}"
    assert known or not rule.proved, f"runs, and is not proved: {rule.expression}"


def test_functions_in_duckdb(duck):
    for rule in DUCKDB:
        check_rule(duck, rule, "duckdb")


def test_functions_in_postgresql(post):
    for rule in POSTGRESQL:
        check_rule(post, rule, "postgresql")


@pytest.mark.parametrize(
    "wrong",
    [
        Rule("BIGINT", "x + 1", {4: 6}),
        Rule("BIGINT", "x + 1", {4: RAISES}),
        Rule("BIGINT", "x + 1", {4: 5}, proved=True),
    ],
)
def test_a_wrong_rule_is_noticed(duck, wrong):
    with pytest.raises(AssertionError):
        check_rule(duck, wrong, "duckdb")


INSTANTS = {"s": "TIMESTAMP_S", "ms": "TIMESTAMP_MS", "us": "TIMESTAMP", "ns": "TIMESTAMP_NS"}


@pytest.mark.parametrize("unit", INSTANTS)
def test_instants_of_every_64_bits_in_duckdb(unit):
    """No guard of ours fails on one; what does fail is not proved."""
    native = INSTANTS[unit]
    bits = [b + d for b in (LOW, -(10**18), 0, 10**18, TOP) for d in (-1, 0, 1)]
    held = pa.array([b for b in bits if LOW <= b <= TOP], pa.int64()).cast(pa.timestamp(unit))
    micros = "epoch_ns(x) // 1000" if unit == "ns" else "epoch_us(x)"
    guard = f"x >= CAST('1800-05-05' AS {native}) AND x <= CAST('2150-05-05' AS {native})"
    guarded = f"CASE WHEN {guard} THEN {micros} END"
    failed = set()
    with duckdb.connect(config={"threads": 1}) as connection:
        for i in range(len(held)):
            connection.register("one", pa.table({"x": held[i : i + 1]}))
            for text in (guarded, micros, "isfinite(x)", f"x = CAST('infinity' AS {native})"):
                if outcome(connection.execute, f"SELECT {text} FROM one") == RAISES:
                    failed.add(text)
    assert not {text for text in failed if proved(text, {"x": native}, "duckdb")}
    assert guarded not in failed
    assert proved(guarded, {"x": native}, "duckdb")
    assert (micros in failed) == (unit in ("s", "ms"))


# -- guards: which conditions keep an engine from a row ------------------------------------------

RISKS = {
    "product": ("level < 5{:03}", "level * 4000000000000"),
    "quotient": ("gap * 1{:03} > 0", "60 / gap"),
    "number": ("label < 'm{:03}'", "CAST(label AS BIGINT)"),
}
"""Conditions that every sound row meets, and what fails on the one row that does not."""
METERS = """
    CREATE TABLE meters AS
    SELECT CAST(i AS BIGINT) AS id, CAST(i % 4 AS BIGINT) AS room, CAST(i % 7 AS BIGINT) AS day,
        CASE WHEN i = 6123 THEN 4611686018427387904 ELSE i % 4999 END AS level,
        CASE WHEN i = 6123 THEN CAST(0 AS BIGINT) ELSE CAST(1 + i % 9 AS BIGINT) END AS gap,
        CASE WHEN i = 6123 THEN 'much' ELSE CAST(i AS VARCHAR) END AS label
    FROM {series} AS s(i);
    CREATE TABLE rooms AS SELECT DISTINCT room, room + 1 AS floor FROM meters
"""
JOINED = (
    "SELECT meters.*, floor FROM meters JOIN rooms ON meters.room = rooms.room WHERE "
    "({safe} AND floor = 1) OR ({safes[1]} AND floor = 2 AND day <> floor) "
    "OR ({safes[2]} AND floor > 2)"
)
DEAR = " OR ".join(f"({{safes[{i}]}} AND day + room = {i})" for i in range(20))
GUARDED = [
    "SELECT sum(CASE WHEN {safe} THEN {risk} END) FROM meters",
    "SELECT count(*) FROM meters WHERE CASE WHEN {safe} THEN {risk} > 3 END",
    "SELECT sum(CASE WHEN NOT ({safe}) THEN 0 ELSE {risk} END) FROM meters",
    "SELECT sum(CASE WHEN NOT ({safe}) THEN 0 WHEN {risk} > 3 THEN 1 ELSE {risk} END) FROM meters",
    (
        "SELECT sum(CASE WHEN {safe} THEN {risk} END), max(CASE WHEN {safe} THEN {risk} + day END) "
        "FROM meters"
    ),
    "SELECT sum(CASE WHEN {safe} THEN CASE WHEN {risk} > 3 THEN {risk} + 1 END END) FROM meters",
    (
        "SELECT count(*) FROM (SELECT CASE WHEN {safe} THEN {risk} END AS y "
        f"FROM ({JOINED}) AS s) AS q WHERE y BETWEEN 1 AND 20"
    ),
    (
        "SELECT count(*) FROM (SELECT CASE WHEN {safe} THEN {risk} END AS y, day FROM meters) AS q "
        "JOIN rooms ON q.y = rooms.floor"
    ),
]
"""A WHEN keeps its branch from rows it excludes: the verifier rests on it."""
UNGUARDED = {
    f"SELECT count(*) FROM (SELECT {{risk}} AS y FROM ({JOINED}) AS s) AS q WHERE y < 20":
        {"duckdb", "postgresql"},
    "SELECT sum({risk}) FILTER (WHERE {safe}) FROM meters": {"duckdb"},
    f"SELECT count(*) FROM meters WHERE ({DEAR}) AND {{risk}} > 3": {"postgresql"},
    f"SELECT count(*) FROM (SELECT * FROM meters WHERE {DEAR}) AS s WHERE {{risk}} > 3":
        {"postgresql"},
    "SELECT sum(CAST(({risk} > 3 AND {safe}) AS INTEGER)) FROM meters": {"duckdb", "postgresql"},
    "SELECT CASE WHEN count(*) < 0 THEN sum({risk}) END FROM meters": {"duckdb", "postgresql"},
    "SELECT sum(CASE WHEN {safe} THEN y ELSE 0 END) FROM (SELECT *, {risk} AS y FROM meters) AS s":
        {"duckdb"},
}  # fmt: skip
"""Shapes that guard nothing, and the engines that are seen to fail on them."""


def written(shape, risk, engine):
    form, risky = RISKS[risk]
    safes = [form.format(i) for i in range(20)]
    risky = risky.replace("/", "//") if engine == "duckdb" else risky
    return shape.format(safe=safes[0], safes=safes, risk=risky)


def check_guards(execute, engine):
    execute("DROP TABLE IF EXISTS meters; DROP TABLE IF EXISTS rooms")
    series = "range(10000)" if engine == "duckdb" else "generate_series(0, 9999)"
    execute(METERS.format(series=series))
    if engine == "postgresql":
        execute("ANALYZE meters; ANALYZE rooms")
    for shape, risk in itertools.product(GUARDED, RISKS):
        assert not fails(execute, written(shape, risk, engine)), (shape, risk)
    seen = {
        shape for shape, risk in itertools.product(UNGUARDED, RISKS)
        if fails(execute, written(shape, risk, engine))
    }  # fmt: skip
    assert seen == {s for s, failing in UNGUARDED.items() if engine in failing}


def fails(execute, text):
    try:
        execute(text).fetchall()
    except (duckdb.Error, psycopg.Error):
        return True
    return False


def test_only_a_when_guards_in_duckdb(duck):
    check_guards(duck, "duckdb")


def test_only_a_when_guards_in_postgresql(post):
    check_guards(post, "postgresql")


def test_constants_are_computed_whatever_guards_them(post):
    hold(post, x=("bigint", 5))
    assert fails(post, "SELECT count(CASE WHEN x < 0 THEN 3 % 0 END) FROM one")
    assert not proved("CASE WHEN x < 0 THEN 3 % 0 END", {"x": "bigint"}, "postgresql")


@pytest.mark.parametrize("engine", WIDTHS)
def test_the_verifier_trusts_a_when_and_nothing_else(engine):
    word = "BIGINT" if engine == "duckdb" else "bigint"
    text = "VARCHAR" if engine == "duckdb" else "text"
    columns = dict.fromkeys(("id", "room", "day", "level", "gap"), word) | {"label": text}
    tables = {"meters": verify.Table(columns), "rooms": verify.Table({"room": word}, public=True)}
    safe = "level < CAST(5000 AS BIGINT) AND level > CAST(-5000 AS BIGINT)"
    risk = "level * CAST(4000 AS BIGINT)"
    known = [
        s for s in (*GUARDED, *UNGUARDED)
        if stands(s.format(safe=safe, safes=[safe] * 20, risk=risk), tables, engine)
    ]  # fmt: skip
    assert known == [GUARDED[0], GUARDED[1], GUARDED[5]]
    for shape, kind in itertools.product(UNGUARDED, RISKS):
        assert not stands(written(shape, kind, engine), tables, engine), shape


def test_statistics_of_files_leave_nan_out_unless_switched_off(tmp_path):
    levels = np.tile(np.linspace(0, 31, 32), 200)
    levels[4321] = np.nan
    file = tmp_path / "levels.parquet"
    pq.write_table(pa.table({"x": levels}), file)
    inside = "x >= CAST('0.0' AS DOUBLE) AND x <= CAST('31.0' AS DOUBLE)"
    texts = {
        "bare": f"CASE WHEN {inside} THEN CAST(x AS BIGINT) END",
        "trial": f"CASE WHEN {inside} THEN TRY_CAST(x AS BIGINT) END",
        "finite": f"CASE WHEN isfinite(x) AND {inside} THEN CAST(x AS BIGINT) END",
    }
    with duckdb.connect() as connection:
        for off in ("", "statistics_propagation"):
            connection.execute(f"SET disabled_optimizers = '{off}'")
            failed = {
                name for name, text in texts.items()
                if fails(connection.execute, f"SELECT sum({text}) FROM '{file}'")
            }  # fmt: skip
            assert failed == (set() if off else {"bare"})
    known = {name for name, text in texts.items() if proved(text, {"x": "DOUBLE"}, "duckdb")}
    assert known == {"trial", "finite"}


RESULTS = {
    "count(*)": ("BIGINT", "bigint"),
    "sum(n)": ("HUGEINT", "bigint"),
    "sum(w)": ("HUGEINT", "numeric"),
    "least(count(*), 3)": ("BIGINT", "bigint"),
    "max(n + 1)": ("INTEGER", "integer"),
    "max(n * w)": ("BIGINT", "bigint"),
    "max(COALESCE(n, w))": ("BIGINT", "bigint"),
    "max(NULLIF(n, w))": ("INTEGER", "integer"),
    "max(CASE WHEN w > 2 THEN 5 ELSE w END)": ("BIGINT", "bigint"),
    "max(CASE WHEN w > 2 THEN 5 ELSE 500 END)": ("INTEGER", "integer"),
}


def test_types_of_results(duck, post):
    for execute, kind, of in ((duck, 0, "typeof({})"), (post, 1, "pg_typeof({})::text")):
        hold(execute, n=("INTEGER", 1), w=("BIGINT", 1))
        for text, natives in RESULTS.items():
            assert outcome(execute, f"SELECT {of.format(text)} FROM one") == natives[kind], text
        wide = ("HUGEINT", "numeric")[kind]
        text = of.format(f"count(*) * CAST(3 AS {wide})")
        assert outcome(execute, f"SELECT {text} FROM one") == wide
