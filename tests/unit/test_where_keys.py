"""Rows of an answer are the keys that WHERE allows, whatever form its conditions have.

Every public value inside WHERE has rows, so DuckDB's groups are exactly those keys. At ε = 10 000
per question a count is off by one with probability below 2·e^(−10 000·½) < 1e-2000.
"""

from __future__ import annotations

import datetime as dt
import tracemalloc
from types import SimpleNamespace

import duckdb
import pyarrow as pa
import pytest

import discreet as dc
from discreet import policy as pol
from discreet import sql
from discreet.errors import UnsupportedQueryError
from discreet.plan import _assemble, _facts, _spans
from discreet.plan._codes import Spans
from discreet.plan._spans import Solution, cycle, solve

DAYS = [dt.date(2023, 11, 1) + dt.timedelta(days=i) for i in range(121)]
ROWS = [
    (day, 20 + (7 * i + j) % 40, "ABC"[(i + j) % 3], "FM"[(i // 2 + j) % 2])
    for i, day in enumerate(DAYS)
    for j in range(2 + i % 5)
]
DATA = pa.table(dict(zip(("day", "age", "ward", "sex"), zip(*ROWS, strict=True), strict=True)))
POLICY = {
    "policy": {"name": "keys"},
    "budget": {"epsilon": "1e9", "accounting": "pure"},
    "tables": {
        "visits": {
            "columns": {
                "day": {"type": "date", "min": "2023-11-01", "max": "2024-02-29"},
                "age": {"type": "integer", "min": 20, "max": 59},
                "ward": {"type": "category", "values": ["A", "B", "C"]},
                "sex": {"type": "category", "values": ["F", "M"]},
            }
        },
        "log": {
            "columns": {
                "seen": {"type": "timestamp", "min": "2023-11-01", "max": "2024-02-29T23:59:59"},
                "code": {"type": "integer", "min": 0, "max": 49_999},
                "level": {"type": "integer", "min": 0, "max": 4},
            }
        },
    },
}
START = dt.datetime(2023, 11, 1, 0, 30)  # noqa: DTZ001 - moments are naive UTC
HOURS = [START + dt.timedelta(hours=i) for i in range(24 * 121)]
LOG = pa.table(
    {
        "seen": [hour for i, hour in enumerate(HOURS) for _ in range(1 + i % 3)],
        "code": [(171 * i + 7 * j) % 50_000 for i in range(len(HOURS)) for j in range(1 + i % 3)],
        "level": [(i + j) % 5 for i in range(len(HOURS)) for j in range(1 + i % 3)],
    }
)
WIDE = [
    ("DATE_TRUNC('day', seen)", "YEAR(seen) = 2024"),
    ("DATE_TRUNC('day', seen)", "CAST(seen AS DATE) - 1 >= DATE '2024-01-31'"),
    ("DATE_TRUNC('hour', seen)", "ISODOW(seen) > 5 AND MONTH(seen) = 12"),
    ("DATE_TRUNC('month', seen)", "QUARTER(seen) = 1 AND HOUR(seen) = 8"),
    ("HOUR(seen)", "HOUR(seen) BETWEEN 8 AND 17"),
    ("code % 14", "code % 7 = 3"),
    ("HOUR(seen)", "STRFTIME(seen, '%H') LIKE '0%' AND DAY(seen) <= 7"),
    ("BIN(code, 1000)", "code + 1 <= 20000"),
    ("BIN(code, 1000)", "ABS(code - 25000) < 5000"),
    ("BIN(code, 1000)", "NOT (code * 2 >= 30000 OR code - 5000 < 0)"),
    ("BIN(code, 1000)", "code / 1000 >= 40 AND level IS NOT NULL"),
    ("BIN(code, 1000)", "POWER(code, 2) < 100000000"),
    ("BIN(code, 1000)", "CASE WHEN code < 9000 THEN 'a' ELSE 'b' END = 'b'"),
    ("level", "level * 10000 + code > 70000"),
    ("CASE WHEN code < 9000 AND level < 2 THEN 'a' ELSE 'b' END", "code >= 9000"),
]
CONDITIONS = [
    ("day", "YEAR(day) = 2024"),
    ("day", "EXTRACT(month FROM day) <> 12"),
    ("day", "DATE_TRUNC('year', day) = DATE '2024-01-01'"),
    ("day", "STRFTIME(day, '%Y-%m') LIKE '2024%'"),
    ("day", "day < DATE '2023-11-05' OR day >= DATE '2024-02-01'"),
    ("day", "day - INTERVAL '1 day' >= DATE '2023-12-31'"),
    ("day", "day >= DATE '2024-01-01' AND MONTH(day) = 2"),
    ("day", "MONTH(day) = 1 OR day IS NULL"),
    ("DATE_TRUNC('month', day)", "YEAR(day) = 2024"),
    ("MONTH(day)", "QUARTER(day) = 1"),
    ("age", "age % 2 = 0"),
    ("age", "age + 1 <= 30"),
    ("age", "FLOOR(age / 10) = 2"),
    ("age", "ABS(age - 30) <= 5"),
    ("age", "CASE WHEN age < 30 THEN 'young' ELSE 'old' END = 'young'"),
    ("age", "age NOT IN (21, 22) AND age <> 40 AND ward <> 'C'"),
    ("ward", "LOWER(ward) <> 'c'"),
    ("ward, sex", "(ward = 'A' AND sex = 'F') OR (ward = 'B' AND sex = 'M')"),
]
SHAPES = {
    "mean": "SELECT AVG(n) FROM ({groups})",
    "least": "SELECT MIN(n) FROM ({groups})",
    "first": "SELECT n FROM ({groups}) ORDER BY n LIMIT 3",
    "change": "SELECT {keys}, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY {keys}) AS n FROM visits "
    "WHERE {where} GROUP BY {keys} ORDER BY {keys}",
}


def curator():
    return dc.open({"visits": DATA, "log": LOG}, policy=POLICY, ledger=":memory:")


def rows(shape, keys, where):
    """The same question of both: differences are wrong numbers of the curator."""
    names = ["k0", "k1"] if keys == "ward, sex" else ["k0"]
    parts = keys.split(", ") if len(names) > 1 else [keys]
    named = ", ".join(f"{k} AS {name}" for k, name in zip(parts, names, strict=True))
    table = "log" if (keys, where) in WIDE else "visits"
    groups = f"SELECT {named}, COUNT(*) AS n FROM {table} WHERE {where} GROUP BY {keys}"
    text = SHAPES[shape].format(groups=groups, keys=keys, where=where)
    duck = duckdb.connect()
    duck.register("visits", DATA)
    duck.register("log", LOG)
    duck.sql("CREATE MACRO BIN(x, w) AS FLOOR(x / w) * w")
    told = curator().sql(text, epsilon=10_000)
    ours = [list(row.values())[-1] for row in told.to_dicts()]
    return ours, [row[-1] for row in duck.sql(text).fetchall()]


def differs(shape, keys, where):
    ours, theirs = rows(shape, keys, where)
    return len(ours) != len(theirs) or any(
        abs(a - b) > 1e-3 for a, b in zip(ours, theirs, strict=True) if b is not None
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("keys", "where"), CONDITIONS)
def test_statistics_over_rows_leave_out_what_where_excludes(shape, keys, where):
    assert not differs(shape, keys, where)


@pytest.mark.parametrize("shape", ["mean", "first"])
@pytest.mark.parametrize(("keys", "where"), WIDE)
def test_keys_of_many_values_leave_out_what_where_excludes(shape, keys, where):
    assert not differs(shape, keys, where)


def test_keys_that_are_not_narrowed_are_caught(monkeypatch):
    monkeypatch.setattr(_facts, "solve", lambda *given: Solution(given[2], True, True))
    monkeypatch.setattr(_assemble, "conditions", lambda relation: ([], relation))
    two = WIDE[-1]  # whose condition is plain, and whose key reads two columns
    assert all(differs("mean", *case) for case in (*CONDITIONS, *WIDE) if case != two)
    monkeypatch.setattr("discreet.plan._scope.image", lambda *_: None)
    monkeypatch.setattr(_assemble, "_check_rows", lambda *_: None)
    assert differs("mean", *two)


def test_keys_that_cannot_be_told_apart_are_said_and_not_averaged(monkeypatch):
    monkeypatch.setattr(_facts, "STEPS", 9)
    groups = "SELECT age, COUNT(*) AS n FROM visits WHERE age * age % 7 = 2 GROUP BY age"
    listed = curator().sql(groups, epsilon=10_000)
    assert "values of age that WHERE excludes are rows, too" in str(listed)
    meant = {age for age in range(20, 60) if age * age % 7 == 2}
    assert {row["age"] for row in listed.to_dicts()} > meant
    with pytest.raises(UnsupportedQueryError, match="AVG over its rows would count them"):
        curator().sql(f"SELECT AVG(n) FROM ({groups})", epsilon=10_000)
    total = curator().sql(f"SELECT SUM(n) AS n FROM ({groups})", epsilon=10_000).to_dicts()
    assert abs(total[0]["n"] - sum(age in meant for _, age, _, _ in ROWS)) < 1e-3


REPEATED = [
    "seen", "code", "HOUR(seen)", "MINUTE(seen) + 3 * SECOND(seen)", "ISODOW(seen)", "code % 7",
    "code % 2.5", "(code + 3) % 10 - code % 4", "FLOOR(code / 30) % 2", "HOUR(seen) * 2 > 9",
    "CAST(seen AS DATE) - CAST(seen - INTERVAL '1 day' AS DATE)", "DOW(seen + INTERVAL '5 hours')",
    "CASE WHEN code % 3 = 0 THEN code % 5 ELSE 9 END", "code * 3 - FLOOR(code / 2)",
]  # fmt: skip


@pytest.mark.parametrize("text", REPEATED)
def test_periods_are_periods(text):
    asked = f"SELECT COUNT(*) FILTER (WHERE ({text}) IS NOT NULL) AS n FROM log"
    ((expr,), *_) = [s.exprs for s in sql.parse(asked, curator().policy).query.statistics]
    (expr,) = [e.arg for e in _nodes(expr) if type(e).__name__ == "IsNull"] or [expr]
    ((name, t),) = {c.name: c.of for c in expr.columns}.items()
    period, growth = cycle(expr, name, Spans.of(range(t.lo, t.hi + 1)))
    codes = range(t.lo, t.hi + 1 - period, 1 + t.size // 3_001)
    assert codes
    for code in codes:
        grown = expr.evaluate({name: code + period}) - expr.evaluate({name: code})
        assert grown == growth


def _nodes(expr):
    yield expr
    for child in expr.children:
        yield from _nodes(child)


@pytest.mark.parametrize("text", ["MONTH(seen)", "code * code", "ABS(code - 9)", "SQRT(code)"])
def test_what_does_not_repeat_has_no_period(text):
    asked = f"SELECT COUNT(*) AS n FROM log WHERE {text} = 4"
    (test,) = _facts.conditions(sql.parse(asked, curator().policy).query.relation)[0]
    ((name, t),) = {c.name: c.of for c in test.columns}.items()
    assert cycle(test, name, Spans.of(range(t.lo, t.hi + 1))) is None


@pytest.mark.parametrize("test", [where for _, where in (*CONDITIONS, *WIDE)])
def test_spans_are_what_meets_a_condition(test):
    """Against the meaning of the operators, code by code."""
    table = "log" if test in [w for _, w in WIDE] else "visits"
    text = f"SELECT COUNT(*) AS n FROM {table} WHERE {test}"
    for part in _facts.conditions(sql.parse(text, curator().policy).query.relation)[0]:
        names = {c.name: c.of for c in part.columns}
        if len(names) > 1:
            continue
        ((name, t),) = names.items()
        codes = range(t.lo, t.hi + 1, 1 + t.size // 5_000)
        found = solve(part, name, Spans.of(range(t.lo, t.hi + 1)))
        assert found.exact
        assert [c for c in codes if c in found.codes] == [
            c for c in codes if part.evaluate({name: c}) == 1
        ]
        assert found.null is (part.evaluate({name: None}) == 1)


def test_a_condition_of_one_statistic_narrows_no_key():
    text = "SELECT age, COUNT(*) FILTER (WHERE age % 2 = 0) AS n FROM visits GROUP BY age"
    told = curator().sql(text, epsilon=10_000)
    assert [row["age"] for row in told.to_dicts()] == list(range(20, 60))


def test_conditions_that_nothing_meets_are_said():
    text = "SELECT day, COUNT(*) AS n FROM visits WHERE YEAR(day) + 1 = 2023 GROUP BY day"
    told = curator().sql(text, epsilon=10_000)
    assert len(told.to_dicts()) == 1
    assert "no row can meet the condition" in str(told)


def test_listed_keys_without_data_are_said_to_be_rows():
    groups = "(SELECT age, COUNT(*) AS n FROM visits WHERE age % 2 = 0 GROUP BY age)"
    opened = curator()
    said = "all 20 listed values of age are rows, also those without data"
    assert said in str(opened.sql(f"SELECT AVG(n) FROM {groups}", epsilon=10_000))
    assert said not in str(opened.sql(f"SELECT SUM(n) FROM {groups}", epsilon=10_000))


TIMES = {
    "policy": {"name": "long times"},
    "budget": {"epsilon": "10"},
    "tables": {
        "log": {
            "columns": {
                "seen": {"type": "timestamp", "min": "2000-01-01", "max": "2030-01-01"},
                "day": {"type": "date", "min": "0001-01-01", "max": "9999-12-31"},
                "code": {"type": "integer", "min": 0, "max": 99_999},
            }
        }
    },
}
BUSY = "SECOND(seen) % {} = HOUR(seen) % 5"
"""Millions of intervals, if all were written out."""


def long_times():
    moments = pa.array([None], pa.timestamp("us"))
    log = pa.table({"seen": moments, "day": pa.array([None], pa.date32()), "code": [1]})
    return dc.open({"log": log}, policy=TIMES, ledger=":memory:")


def part_of(where, owner):
    """The condition, its column's name and all of its codes."""
    (found,) = parts_of(where, owner)
    return found


def parts_of(where, owner):
    query = sql.parse(f"SELECT COUNT(*) AS n FROM log WHERE {where}", owner.policy).query
    for test in _facts.conditions(query.relation)[0]:
        ((name, t),) = {c.name: c.of for c in test.columns}.items()
        yield test, name, Spans(((t.lo, t.hi),))


@pytest.mark.parametrize(
    "where", [BUSY.format(7), "SECOND(seen) % 2 = 0", "code * code % 13 = 5", "MINUTE(seen) = 0"]
)
def test_intervals_of_a_condition_are_bounded(where):
    found = solve(*part_of(where, long_times()))
    assert len(found.codes.ends) <= _spans.MOST
    assert not found.exact


def test_too_many_intervals_are_kept_whole_and_said():
    told = long_times().sql(
        "SELECT SECOND(seen) AS s, COUNT(*) AS n FROM log WHERE SECOND(seen) % 2 = 0 GROUP BY 1",
        epsilon=1,
    )
    assert "values of s that WHERE excludes are rows, too" in str(told)
    # what is the same in each of millions of periods needs no interval of its own
    everything = solve(*part_of("SECOND(seen) >= 0 AND TRUE", long_times()))
    assert everything.exact
    assert len(everything.codes.ends) == 1


def test_free_previews_keep_little_memory():
    """Of questions that had millions of intervals, and of long lists of keys."""
    owner = long_times()
    owner.preview("SELECT COUNT(*) AS n FROM log", epsilon=1)
    tracemalloc.start()
    try:
        for i in range(2):
            owner.preview(f"SELECT COUNT(*) AS n FROM log WHERE {BUSY.format(7 + i)}", epsilon=1)
            keys = f"WHERE code <> {i} AND code < 60000 GROUP BY code"
            owner.preview(f"SELECT code, COUNT(*) AS n FROM log {keys}", epsilon=1)
        kept, most = (n / 2**20 for n in tracemalloc.get_traced_memory())
    finally:
        tracemalloc.stop()
    assert _spans._SOLUTIONS.load <= _spans.MOST_WEIGHT
    assert owner._lowerings.load <= 128
    assert kept < 80
    assert most < 250


@pytest.mark.parametrize(
    "where",
    [
        "DATE_TRUNC('month', day) < DATE '2024-01-01'",
        "DATE_TRUNC('year', day) >= DATE '2024-01-01'",
        "DATE_TRUNC('week', day) BETWEEN DATE '2024-01-01' AND DATE '2024-03-01'",
        "DATE_TRUNC('month', seen) = DATE '2024-02-01'",
    ],
)
def test_firsts_of_units_rise_so_few_steps_decide(where):
    """Of ten thousand years, too."""
    for part in parts_of(where, long_times()):
        found = solve(*part, (), 200)
        assert found.exact
        assert len(found.codes.ends) == 1
        for code in {end + i for end in found.codes.ends[0] for i in (-1, 0, 1)}:
            if code in part[2]:
                assert (code in found.codes) is (part[0].evaluate({part[1]: code}) == 1)


PAIRS = {
    "policy": {"name": "pairs"},
    "budget": {"epsilon": "1e9", "accounting": "pure"},
    "tables": {
        "t": {
            "columns": {
                "a": {"type": "integer", "min": -3, "max": 3},
                "b": {"type": "integer", "min": 0, "max": 4},
                "c": {"type": "category", "values": ["x", "y"]},
            }
        }
    },
}
EVERY = [
    (a, b, c) for a in (None, *range(-3, 4)) for b in (None, *range(5)) for c in (None, "x", "y")
]


@pytest.mark.parametrize(
    ("key", "where"),
    [
        ("COALESCE(c, 'none')", "c IS NULL"),
        ("COALESCE(a, -9)", "NOT (a IS NOT NULL)"),
        ("LEAST(a, b)", "a IS NULL"),
        ("CASE WHEN a > 0 THEN 'p' ELSE 'n' END", "a IS NULL"),
        ("b", "LEAST(a, b) > 1"),
        ("a", "GREATEST(a, b) < 2"),
        ("a", "a = b"),
        ("b", "a + b > 3 AND b - a > 2"),
        ("b", "a * b = 3 OR (a IS NULL AND b = 4)"),
        ("a", "a % 2 = 0 AND b = a + 1"),
    ],
)
def test_keys_of_several_columns_and_of_null_are_those_that_rows_can_have(key, where):
    """Every row that the policy allows is there, so DuckDB's groups are all that can be."""
    data = pa.table(dict(zip("abc", zip(*EVERY, strict=True), strict=True)))
    text = f"SELECT {key} AS k, COUNT(*) AS n FROM t WHERE {where} GROUP BY 1"
    duck = duckdb.connect()
    duck.register("t", data)
    told = dc.open({"t": data}, policy=PAIRS, ledger=":memory:").sql(text, epsilon=10_000)
    expected = {r for r in duck.sql(text).fetchall() if r[0] is not None}
    assert {(r["k"], round(r["n"])) for r in told.to_dicts()} == expected
    assert "excludes" not in str(told)


def test_several_columns_that_cannot_be_told_apart_are_said_and_not_averaged(monkeypatch):
    monkeypatch.setattr(_facts, "_SEVERAL", 5)
    data = pa.table(dict(zip("abc", zip(*EVERY, strict=True), strict=True)))
    groups = "SELECT b AS k, COUNT(*) AS n FROM t WHERE a * b % 7 = 5 GROUP BY 1"
    owner = dc.open({"t": data}, policy=PAIRS, ledger=":memory:")
    assert "values of k that WHERE excludes are rows, too" in str(owner.sql(groups, epsilon=1))
    with pytest.raises(UnsupportedQueryError, match="AVG over its rows would count them"):
        owner.sql(f"SELECT AVG(n) AS m FROM ({groups}) AS i", epsilon=1)


def test_combinations_are_listed_where_some_but_not_all_are_possible():
    columns = [pol.Integer("age", 0, 99)]
    policy = pol.Policy([pol.Table("t", columns)], pol.Budget("1"))
    text = "SELECT age // 50 AS a, (age + 50) // 100 AS b, COUNT(*) AS n FROM t GROUP BY a, b"
    keys = list(sql.parse(text, policy).query.keys)

    def listed(values):
        made = SimpleNamespace(_of_one_column=lambda: [(keys, values)], _of_one_condition=list)
        return _assemble.Assembly._possible(made) is not None

    every = [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [listed(set(every[:n])) for n in range(5)] == [False, True, True, True, False]
    assert not listed(None)
    assert listed({(1, 1), (7, 7)})  # 7 is no code of either
    assert not listed({(7, 7)})
