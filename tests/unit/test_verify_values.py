"""What the verifier says of a value, expression by expression: exact, and true of the engine.

``verify_values.txt`` holds one expression and what is known of it on a line. Each rule stands
there just inside and just outside of what it can prove; ``verify_pairs.txt`` says which types of
columns meet, and in which type. A range that is too narrow is a hole;
the engines, run on the ends of every type, must stay inside. One that is too wide refuses
honest questions; the text says where each end lies.
"""

from __future__ import annotations

import itertools
import math
import re
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import duckdb
import psycopg
import pytest

from discreet.verify._domain import INTEGERS, Value, column
from discreet.verify._functions import Functions
from discreet.verify._read import Unproven, read
from discreet.verify._rules import NOTHING, Scope
from discreet.verify._spark import Spark

DUCK = {
    "b": "BIGINT", "i": "INTEGER", "s": "SMALLINT", "t": "TINYINT", "h": "HUGEINT",
    "ub": "UBIGINT", "ui": "UINTEGER", "u8": "UTINYINT", "u16": "USMALLINT", "x": "DOUBLE",
    "f": "FLOAT", "d": "DECIMAL(5,4)", "wide": "DECIMAL(38,37)", "big": "DECIMAL(18,3)",
    "text": "VARCHAR", "e": "ENUM('a', 'b')", "uid": "UUID", "day": "DATE", "ts": "TIMESTAMP",
    "sec": "TIMESTAMP_S", "ms": "TIMESTAMP_MS", "ns": "TIMESTAMP_NS",
    "tz": "TIMESTAMP WITH TIME ZONE", "yes": "BOOLEAN", "l": "INTEGER[]",
}  # fmt: skip
POST = {
    "b": "int8", "i": "int4", "s": "int2", "x": "float8", "f": "float4", "n": "numeric",
    "text": "text", "day": "date", "ts": "timestamp", "tz": "timestamptz", "yes": "bool",
    "mood": "feeling",
}  # fmt: skip
SPARK = {
    "i": "int", "b": "bigint", "x": "double", "f": "float", "p": "decimal(18,3)", "s": "string",
    "q": "string collate UTF8_LCASE", "d": "date", "t": "timestamp", "n": "timestamp_ntz",
    "w": "decimal(38,0)",
}  # fmt: skip
COLUMNS = {"duckdb": DUCK, "postgresql": POST, "spark": SPARK}
FINITE = {"duckdb": "isfinite(x) AND ", "postgresql": "", "spark": ""}


def names(dialect):
    """Short names of parts that many expressions share."""
    double = {"duckdb": "DOUBLE", "postgresql": "float8", "spark": "DOUBLE"}[dialect]

    def real(lo, hi):
        ends = f"x >= CAST('{lo}' AS {double}) AND x <= CAST('{hi}' AS {double})"
        return f"CASE WHEN {FINITE[dialect]}{ends} THEN x END"

    known = {
        "F8": double, "V": "VARCHAR" if dialect == "duckdb" else "text",
        "A": "CASE WHEN b BETWEEN -3 AND 7 THEN b END",
        "B": "CAST(CASE WHEN i BETWEEN 2 AND 5 THEN i END AS BIGINT)",
        "N": "CAST(CASE WHEN i BETWEEN -5 AND -2 THEN i END AS BIGINT)",
        "Z": "CAST(CASE WHEN i BETWEEN -5 AND 4 THEN i END AS BIGINT)",
        "Y": "NULLIF(CAST(CASE WHEN i BETWEEN -5 AND 4 THEN i END AS BIGINT), 0)",
        "G": "CASE WHEN b BETWEEN 0 AND 12 THEN b END",
        "S": "CAST(CASE WHEN i BETWEEN 0 AND 3 THEN i END AS BIGINT)",
        "X": real("-2.5", "4.5"), "P": real("0.5", "4.5"),
        "T": real("1e-200", "4.5"), "H": real("1e-150", "1e160"),
        "K": real("1.0", "4.5"), "Q": real("1e-310", "4.5"),
        "R": "NULLIF(n, CAST('NaN' AS numeric))",
    }  # fmt: skip
    return known | {"W": f"({known['G']}) * 4 + ({known['S']})"}


def spelled(expression, dialect):
    return re.sub(r"\{(\w+)\}", lambda found: names(dialect)[found[1]], expression)


def value(expression, dialect):
    """Value of an expression over a table with a column of each type."""
    table = '"z"' if dialect != "spark" else "`z`"
    node, _ = read(f"SELECT {spelled(expression, dialect)} AS y FROM {table}", dialect).items[0]
    columns = COLUMNS[dialect].items()
    made = [("z", name, column(native, dialect, k, unit=name == "b"))
            for k, (name, native) in enumerate(columns, 1)]  # fmt: skip
    rules = Spark(dialect) if dialect == "spark" else Functions(dialect)
    return rules.value(node, Scope(tuple(made)), NOTHING)


def shown(expression, dialect):
    """All that is known of a value in one line; why it is refused, if it is."""
    try:
        v = value(expression, dialect)
    except Unproven as why:
        return "refused, " + str(why).partition(":")[0]
    image = list(COLUMNS[dialect])[v.id - 1] if v.id else ""
    ends = v.type if (v.lo, v.hi) == (-math.inf, math.inf) else f"{v.type} {v.lo}..{v.hi}"
    words = [ends, *(w for w in ("null", "nan", "infinite", "whole", "literal", "unit", "sure")
                     if getattr(v, w)), f"= {image}" if image else ""]  # fmt: skip
    rest = {"far": v.far, "gap": v.gap, "form": v.form, "statistics": v.statistics,
            "fields": tuple(tuple(f) for f in v.fields), "per": v.per}  # fmt: skip
    words += [f"{name}={what}" for name, what in rest.items() if what]
    return " ".join(filter(None, words)).replace("\n", " ")


def table():
    found, dialect = {}, ""
    for line in (Path(__file__).parent / "verify_values.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            dialect = line[1:-1]
        elif line:
            expression, known = line.split("  ->  ")
            found.setdefault(dialect, {})[expression] = known
    return found


TABLE = table()
PARTS = 12


def part(dialect, k):
    return dict(itertools.islice(TABLE[dialect].items(), k, None, PARTS))


@pytest.mark.parametrize("k", range(PARTS))
@pytest.mark.parametrize("dialect", COLUMNS, ids=["duck", "post", "spark"])
def test_what_is_known_of_a_value(dialect, k):
    known = part(dialect, k)
    assert {x: shown(x, dialect) for x in known} == known


@pytest.mark.parametrize("dialect", COLUMNS, ids=["duck", "post", "spark"])
def test_a_unit_stays_one_only_where_no_two_become_the_same(dialect):
    """Written or cut, two reals may be the same; whole numbers, texts and names never are."""
    text, integer, texts, integers = {
        "duckdb": ("VARCHAR", "BIGINT", "b i s t h ub ui u8 u16 text e uid", "b i s t ui u8 u16"),
        "postgresql": ("text", "int8", "b i s text", "b i s"),
        "spark": ("STRING", "BIGINT", "b i s w", "b i"),
    }[dialect]
    rules = Spark(dialect) if dialect == "spark" else Functions(dialect)
    kept = {text: set(), integer: set()}
    for kind, (name, native) in itertools.product(kept, COLUMNS[dialect].items()):
        table = '"z"' if dialect != "spark" else "`z`"
        node, _ = read(f"SELECT CAST({name} AS {kind}) AS y FROM {table}", dialect).items[0]
        scope = Scope((("z", name, column(native, dialect, 1, unit=True)),))
        with suppress(Unproven):
            if rules.value(node, scope, NOTHING).unit:
                kept[kind].add(name)
    assert kept == {text: set(texts.split()), integer: set(integers.split())}


# -- two columns of any types --------------------------------------------------------------------


def pairs(dialect):
    """Every two columns beside each other: as one value, and compared."""
    for a, b in itertools.product(COLUMNS[dialect], repeat=2):
        yield a, b, f"COALESCE({a}, {b})", f"CASE WHEN {a} < {b} THEN CAST(1 AS BIGINT) END"


def meeting(dialect):
    """Lines of ``verify_pairs.txt``: which columns meet one, in which type.

    Without a type they can only be compared (*), with ! they cannot.
    """
    found = {}
    for a, b, chosen, compared in pairs(dialect):
        kind, order = (shown(x, dialect).split()[0].rstrip(",") for x in (chosen, compared))
        if (kind, order) != ("refused", "refused"):
            word = kind if order != "refused" else f"{kind}!"
            found.setdefault(a, []).append(f"{b} {word.replace('refused', '*')}")
    return [f"{a}  ->  {', '.join(others)}" for a, others in found.items()]


@pytest.mark.parametrize("dialect", COLUMNS, ids=["duck", "post", "spark"])
def test_which_types_meet_and_in_which(dialect):
    text = (Path(__file__).parent / "verify_pairs.txt").read_text("utf-8")
    (known,) = (part.splitlines()[1:] for part in text.split("[") if part.startswith(dialect))
    assert meeting(dialect) == [line for line in known if line]


# -- the same expressions, run -----------------------------------------------------------------


def whole(kind):
    lo, hi = INTEGERS[kind]
    near = [lo, lo + 1, hi - 1, hi, 0, 1, 2, 3, 5, 7, 8, 9, 12, 100]
    return [*near, *((-1, -2, -3, -5) if lo else ()), None]


REALS = ["NaN", "Infinity", "-Infinity", "-0.0", "0.5", "1.5", "2.5", "-2.5", "3.5", "4.5", "-9.5",
         "4.9e-324", "1e30", "-1e30", "9223372036854774784", "9223372036854775808",
         "1.7976931348623157e+308", None]  # fmt: skip
TIMES = ["1970-01-01 00:00:01", "1970-01-01 00:00:05", "1969-12-31 23:59:59", "2262-01-01", None]
ENDS = {
    "b": whole("i64"), "i": whole("i32"), "s": whole("i16"), "t": whole("i8"), "h": whole("i128"),
    "ub": whole("u64"), "ui": whole("u32"), "u8": whole("u8"), "u16": whole("u16"), "x": REALS,
    "f": [*REALS[:11], "3.4028235e38", None], "d": ["9.9999", "-9.9999", "0", "1.5", None],
    "wide": ["9.9", "-9.9", "0", None], "big": ["999999999999999.999", "0.5", "-0.5", None],
    "text": ["", "a", "abc", "0", "5 ", "ß", "k", "x" * 300, None], "e": ["a", "b", None],
    "uid": ["00000000-0000-0000-0000-000000000000", None],
    "day": ["infinity", "-infinity", "0001-01-01", "9999-12-31", "1970-01-11", "2000-02-29",
            "5881580-07-10", "5877642-06-25 (BC)", None],
    "ts": ["infinity", "-infinity", "294247-01-10 04:00:54.775806", "1970-01-01 00:00:00.000001",
           *TIMES], "tz": ["infinity", "-infinity", *TIMES],
    "sec": ["290308-12-21 19:59:59", *TIMES], "ms": ["290308-12-21 19:59:59.999", *TIMES],
    "ns": ["2262-04-11 23:47:16.854775806", *TIMES], "yes": [True, False, None], "l": [None],
}  # fmt: skip
ELSEWHERE = ENDS | {
    "day": ["infinity", "-infinity", "0001-01-01", "9999-12-31", "1970-01-11", "2000-02-29",
            "5874897-12-31", "4714-11-24 BC", None],
    "ts": ["infinity", "-infinity", "294276-12-31 23:59:59.999999", "4714-11-24 00:00:00 BC",
           "1970-01-01 00:00:00.000001", *TIMES],
    "n": ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1e-400", "0", "1.5", "-9.5", "9.5",
          "1e300", "9223372036854775807", "9223372036854775807.4", "-9223372036854775808.4", None],
    "mood": ["glad", None],
}  # fmt: skip


def fill(execute, native, held):
    """Make a table for each column with the ends of its type."""
    for name in native:
        rows = ", ".join("(NULL)" if v is None else f"('{v}')" for v in held[name])
        execute(f'CREATE TABLE "{name}" ("{name}" {native[name]})')
        execute(f'INSERT INTO "{name}" VALUES {rows}')


def number(text):
    """Number that an engine prints, as exact as it is."""
    found = Decimal(text)
    return Fraction(found) if found.is_finite() else float(text)


def holds(v: Value, text):
    """Whether a result is one of those that a value stands for."""
    if text is None or not v.number:
        return v.null or text is not None
    found = float(text) if v.type in ("f32", "f64") else number(text)
    if found != found:  # noqa: PLR0124 - NaN, also where a Fraction is beyond doubles
        return v.nan
    inside = v.lo <= found <= v.hi and abs(found) >= v.far
    return inside or (v.infinite and abs(found) == math.inf)


def outside(execute, expression, dialect):
    """Results that are not what is known of a value; an error is one, if it hangs on rows."""
    v, sql = value(expression, dialect), spelled(expression, dialect)
    bare = re.sub(r"'[^']*'", "", sql)
    used = [c for c in COLUMNS[dialect] if re.search(rf"\b{c}\b", bare)]
    tables = ", ".join(f'"{c}"' for c in used) or "(SELECT 1) AS one"
    what = "CAST(y AS VARCHAR)" if v.number else "CASE WHEN y IS NULL THEN NULL ELSE 'x' END"
    for salt in (1, 2**31 - 2):
        filled = re.sub(r":(?:salt0|offset)\b", f"CAST({salt} AS BIGINT)", sql)
        statement = f"SELECT {what} FROM (SELECT {filled} AS y FROM {tables}) AS s"
        try:
            execute(f"EXPLAIN {statement}")
        except psycopg.Error:
            return []  # no statement on any table
        except duckdb.Error as why:
            return [str(why)]
        try:
            rows = execute(statement).fetchall()
        except (duckdb.Error, psycopg.Error) as why:
            return [str(why)]
        found = [text for (text,) in rows if not holds(v, text)]
        if found or filled == sql:
            return found
    return []


@pytest.fixture(scope="module")
def duck():
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        fill(connection.execute, DUCK, ENDS)
        yield connection.execute


def proved(dialect, k):
    """Expressions of a part of the table that are not refused here."""
    every = part("duckdb", k) | (part(dialect, k) if dialect != "duckdb" else {})
    for expression in every:
        try:
            value(expression, dialect)
        except (Unproven, KeyError):
            continue
        yield expression


@pytest.mark.parametrize("k", range(PARTS))
def test_duckdb_stays_inside_what_is_known(duck, k):
    found = {x: outside(duck, x, "duckdb") for x in proved("duckdb", k)}
    assert {x: bad for x, bad in found.items() if bad} == {}


def test_postgresql_stays_inside_what_is_known(postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA ends; SET search_path = ends")
        connection.execute("SET TimeZone = 'UTC'; CREATE TYPE feeling AS ENUM ('glad')")
        fill(connection.execute, POST, ELSEWHERE | {"tz": ELSEWHERE["ts"]})
        every = [x for k in range(PARTS) for x in proved("postgresql", k)]
        every += allowed("postgresql")
        found = {x: outside(connection.execute, x, "postgresql") for x in every}
    assert len(found) > 550
    assert {x: bad for x, bad in found.items() if bad} == {}


def allowed(dialect):
    """Expressions of two columns that are not refused."""
    every = (x for _, _, *both in pairs(dialect) for x in both)
    return [x for x in every if not shown(x, dialect).startswith("refused")]


def test_columns_that_meet_do_so_in_duckdb(duck):
    found = {x: outside(duck, x, "duckdb") for x in allowed("duckdb")}
    assert len(found) > 200
    assert {x: bad for x, bad in found.items() if bad} == {}


def test_a_range_that_is_too_narrow_is_seen(duck, monkeypatch):
    assert outside(duck, "({A}) * 2", "duckdb") == []
    monkeypatch.setattr(Functions, "_binary", lambda *_: Value("i64", -6, 13, whole=True))
    assert outside(duck, "({A}) * 2", "duckdb") == ["14"]
