"""What the verifier believes about Spark, measured on the Spark that is installed.

Each rule says what an expression gives for telling values of x, or that it RAISES in ANSI
mode; a version that behaves otherwise fails here first. Values that raise nothing are asked
together; the others one by one.
"""

from __future__ import annotations

import hashlib
import math

import pytest

from discreet import verify
from discreet.errors import UnprovenStatementError

pytestmark = pytest.mark.races  # a session is a process, and talks through sockets
RAISES = "raises"
TOP, LOW = 2**63 - 1, -(2**63)
INF, NAN = math.inf, math.nan
RULES = [
    # type, expression, what it gives, whether it is proved
    ("bigint", "x + CAST(1 AS BIGINT)", {TOP: RAISES, 4: 5}, False),
    ("bigint", "x % 2147483647", {LOW: -2, TOP: 1, -7: -7}, True),
    ("bigint", "x div CAST(2 AS BIGINT)", {-7: -3, LOW: LOW // 2}, True),
    ("bigint", "shiftright(x, 5)", {-64: -2, -1: -1, TOP: TOP >> 5}, True),
    ("bigint", "x & 15", {-1: 15, LOW: 0, 18: 2}, True),
    ("bigint", "(x & 15) ^ 9", {6: 15, 9: 0, -1: 6}, True),
    ("bigint", "pmod(x, CAST(3 AS BIGINT))", {-7: 2, LOW: 1, 7: 1}, True),
    ("bigint", "CAST(x AS STRING)", {LOW: str(LOW), 7: "7"}, True),
    ("bigint", "CAST(x AS DECIMAL(38,0)) * 4611686018427387904", {TOP: TOP * 2**62}, True),
    ("bigint", "least(x, CAST(11 AS BIGINT))", {None: 11, TOP: 11, LOW: LOW}, True),
    ("int", "CAST(x AS BIGINT) * CAST(-2 AS BIGINT)", {-(2**31): 2**32, None: None}, True),
    ("double", "CAST(rint(x) AS BIGINT)", {0.5: 0, 1.5: 2, -2.5: -2, NAN: RAISES, 1e19: RAISES},
     False),
    ("double", "CAST(x AS BIGINT)", {2.75: 2, -2.75: -2}, False),
    ("double", "x <= CAST('inf' AS DOUBLE)", {NAN: False, INF: True}, True),
    ("double", "x >= CAST('3.0' AS DOUBLE)", {NAN: True, -INF: False}, True),
    ("double", "x = rint(x)", {NAN: True, INF: True, 0.5: False, -0.0: True}, True),
    ("double", "x * CAST('1e308' AS DOUBLE)", {1e10: INF, 0.5: 5e307}, True),
    ("decimal(38,3)", "CAST(x AS DOUBLE)", {"0.001": 0.001, "9007199254740993.000": 2.0**53},
     True),
    ("string", "CAST(conv(substr(md5(x), 1, 15), 16, 10) AS BIGINT)",
     {t: int(hashlib.md5(t.encode()).hexdigest()[:15], 16) for t in ("", "ä", "shelf 9")}, True),
    ("string", "try_element_at(map('k', CAST(4 AS BIGINT)), x)", {"k": 4, "z": None}, True),
    ("int", "try_element_at(array(7, -8), x)", {1: 7, 2: -8, 3: None, -1: -8, 0: RAISES}, False),
    ("int", "CASE WHEN x > 0 THEN try_element_at(array(7, -8), x) END", {2: -8, 3: None, 0: None},
     True),
    ("string", "trim(x)", {"  a ": "a", "\ta": "\ta"}, True),
    ("string", "x LIKE 'a\\\\!%_' ESCAPE '!'", {"a\\%b": True, "a%b": False}, True),
    ("string", "x LIKE '%a_%' ESCAPE '!'", {"\nba\n": True, "ba": False}, True),
    ("string", "x LIKE 'a%b%!%' ESCAPE '!'", {"ab%": True, "ab": False}, False),  # for long
    ("string", f"x LIKE '{'_' * 101}' ESCAPE '!'", {"a" * 101: True}, False),
    ("string", "split_part(x, '.', 2)", {"a.b": "b", "a": ""}, True),
    ("string", "right(x, 0)", {"abc": ""}, True),
    ("string", "length(substr(x, 1, 2))", {"😀é\u0301": 2}, True),
    ("date", "unix_date(x)", {"1970-01-11": 10, "0001-01-01": -719162}, True),
    ("date", "EXTRACT(dow_iso FROM x)", {"2024-01-07": 7, "2024-01-08": 1}, True),
    ("date", "EXTRACT(week FROM x)", {"2021-01-03": 53}, True),
    ("timestamp", "unix_micros(x)", {"1970-01-01 00:00:02+00": 2_000_000}, True),
]  # fmt: skip


def literal(value):
    return "NULL" if value is None else "'" + str(value).replace("\\", "\\\\") + "'"


def table(native, values):
    rows = ", ".join(f"({i}, CAST({literal(v)} AS {native}))" for i, v in enumerate(values))
    return f"(SELECT i, x FROM VALUES {rows} AS v(i, x)) AS one"


def rows(spark, text):
    return [tuple(row.values()) for row in spark.sql(text).toArrow().to_pylist()]


def proved(expression, native):
    text = f"SELECT count(*) FROM (SELECT {expression} AS y FROM `one`) AS s"
    try:
        verify.prove(text, dialect="spark", tables={"`one`": verify.Table({"x": native})})
    except UnprovenStatementError:
        return False
    return True


def check(spark, rules):
    sound = []
    for number, (native, expression, gives, known) in enumerate(rules):
        calm = {v: g for v, g in gives.items() if g is not RAISES}
        failed = len(calm) < len(gives)
        for value in (v for v, g in gives.items() if g is RAISES):
            with pytest.raises(Exception, match=r"."):
                rows(spark, f"SELECT {expression} FROM {table(native, [value])}")
        assert proved(expression, native) == known, expression
        assert not (known and failed)
        cells = f"SELECT {number} AS r, i, CAST({expression} AS STRING) AS y"
        sound.append((f"{cells} FROM {table(native, calm)}", list(calm.values())))
    found = rows(spark, " UNION ALL ".join(text for text, _ in sound))
    for rule, index, text in found:
        expected = sound[rule][1][index]
        same = text is None if expected is None else told(text, expected)
        assert same, (rules[rule], text, expected)
    assert len(found) == sum(len(values) for _, values in sound)


def told(text, expected):
    if isinstance(expected, bool):
        return text == str(expected).lower()
    if isinstance(expected, float):
        return float(text.replace("Infinity", "inf")) == expected
    return text == str(expected)


def test_functions_in_spark(spark):
    check(spark, RULES)


def test_a_wrong_rule_is_noticed(spark):
    for wrong in (
        ("bigint", "x % 3", {4: 2}, True),
        ("bigint", "x % 3", {4: 1}, False),
        ("bigint", "x % 3", {4: RAISES}, True),
    ):
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            check(spark, [wrong])


GUARDED = [
    "SELECT sum(CASE WHEN {safe} THEN {risk} END) FROM {meters}",
    "SELECT count(*) FROM {meters} WHERE CASE WHEN {safe} THEN {risk} > 3 END",
    "SELECT sum(CASE WHEN NOT ({safe}) THEN 0 WHEN {risk} > 3 THEN 1 ELSE 2 END) FROM {meters}",
    "SELECT sum(CASE WHEN {safe} THEN {risk} END), max(CASE WHEN {safe} THEN {risk} END) FROM {meters}",  # noqa: E501 - one statement
]
METERS = "(SELECT id, CASE WHEN id = 612 THEN 0 ELSE 1 + id % 9 END AS gap FROM range(1000)) AS m"


def test_a_when_keeps_its_branch_from_the_rows_it_excludes(spark):
    """The verifier rests on it; beside it, that what is guarded does raise by itself."""
    for shape in GUARDED:
        rows(spark, shape.format(safe="gap <> 0", risk="60 div gap", meters=METERS))
    with pytest.raises(Exception, match=r"."):
        rows(spark, f"SELECT sum(60 div gap) FROM {METERS}")


def test_nothing_is_moved_past_the_fence(spark):
    """The filter of a view stays below ours, even where ours stands on the other side of a join."""
    view = f"SELECT 60 div gap AS y, id FROM {METERS} WHERE gap <> 0"
    fenced = f"SELECT y, id FROM ({view}) AS v WHERE monotonically_increasing_id() >= 0"
    sql = f"SELECT count(*) FROM ({fenced}) AS s WHERE y > 3"
    plan = spark.sql(f"EXPLAIN EXTENDED {sql}").toArrow().to_pylist()[0]["plan"]
    optimized = plan.split("== Optimized Logical Plan ==")[1].split("== Physical")[0]
    above, fence, below = optimized.partition("monotonically_increasing_id")
    assert fence
    assert "> 3" in above
    assert "> 3" not in below
