"""Rows of an answer are the keys that WHERE allows, whatever form its conditions have.

Every public value inside WHERE has rows, so DuckDB's groups are exactly those keys. At ε = 10 000
per question a count is off by one with probability below 2·e^(−10 000·½) < 1e-2000.
"""

from __future__ import annotations

import datetime as dt

import duckdb
import pyarrow as pa
import pytest

import discreet as dc
from discreet.plan import _assemble, _facts

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
        }
    },
}
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


def rows(shape, keys, where):
    """The same question of both: differences are wrong numbers of the curator."""
    names = ["k0", "k1"] if keys == "ward, sex" else ["k0"]
    parts = keys.split(", ") if len(names) > 1 else [keys]
    named = ", ".join(f"{k} AS {name}" for k, name in zip(parts, names, strict=True))
    groups = f"SELECT {named}, COUNT(*) AS n FROM visits WHERE {where} GROUP BY {keys}"
    text = SHAPES[shape].format(groups=groups, keys=keys, where=where)
    duck = duckdb.connect()
    duck.register("visits", DATA)
    told = dc.open(DATA, policy=POLICY, ledger=":memory:").sql(text, epsilon=10_000)
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


def test_keys_that_are_not_narrowed_are_caught(monkeypatch):
    monkeypatch.setattr(_facts, "met", lambda *_: None)
    monkeypatch.setattr(_assemble, "conditions", lambda relation: ([], relation))
    assert all(differs("mean", keys, where) for keys, where in CONDITIONS)


def test_a_condition_of_one_statistic_narrows_no_key():
    text = "SELECT age, COUNT(*) FILTER (WHERE age % 2 = 0) AS n FROM visits GROUP BY age"
    told = dc.open(DATA, policy=POLICY, ledger=":memory:").sql(text, epsilon=10_000)
    assert [row["age"] for row in told.to_dicts()] == list(range(20, 60))


def test_conditions_that_nothing_meets_are_said():
    text = "SELECT day, COUNT(*) AS n FROM visits WHERE YEAR(day) + 1 = 2023 GROUP BY day"
    told = dc.open(DATA, policy=POLICY, ledger=":memory:").sql(text, epsilon=10_000)
    assert len(told.to_dicts()) == 1
    assert "no row can meet the condition" in str(told)


def test_listed_keys_without_data_are_said_to_be_rows():
    groups = "(SELECT age, COUNT(*) AS n FROM visits WHERE age % 2 = 0 GROUP BY age)"
    curator = dc.open(DATA, policy=POLICY, ledger=":memory:")
    said = "all 20 listed values of age are rows, also those without data"
    assert said in str(curator.sql(f"SELECT AVG(n) FROM {groups}", epsilon=10_000))
    assert said not in str(curator.sql(f"SELECT SUM(n) FROM {groups}", epsilon=10_000))
