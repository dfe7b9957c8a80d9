"""What is stated of the rows that statistics share holds of every possible row."""

from __future__ import annotations

from itertools import combinations, product

import pyarrow as pa
import pytest

import discreet as dc
from discreet import plan as pl
from discreet import policy as pol
from discreet import sql

TABLE = pol.Table(
    "t",
    [
        pol.Integer("a", 0, 2),
        pol.Integer("b", 0, 2, null=0),
        pol.Category("g", ["x", "y", "z"]),
        pol.Boolean("f"),
    ],
)
POLICY = pol.Policy(tables=[TABLE], budget=pol.Budget("1"))
TESTS = [
    "f", "NOT f", "g = 'x'", "g IN ('x', 'y')", "g <> 'x'", "f AND g = 'x'", "g = 'x' AND f",
    "a < 1", "a >= 1", "a IS NULL", "f OR g = 'x'", "f AND a < 1 AND g = 'x'", "a + b > 1",
]  # fmt: skip
ROWS = list(product((None, 0, 1, 2), (0, 1, 2), (None, 0, 1, 2), (None, 0, 1)))


def stated(*statistics):
    text = " + ".join(statistics)
    lowered = pl.lower(sql.parse(f"SELECT {text} AS v FROM t", POLICY).query)
    return lowered.query.statistics, lowered.shared_rows


def counted(statistic):
    """Rows in which a statistic has a value, and the values."""
    rows = {}
    for i, codes in enumerate(ROWS):
        row = dict(zip("abgf", codes, strict=True))
        value = 1 if statistic.expr is None else statistic.expr.evaluate(row)
        if value is not None:
            rows[i] = value
    return rows


def test_apart_and_within_hold_of_every_row():
    """All pairs of filtered counts and sums; what is proved is what holds, and not nothing."""
    calls = [f"{call} FILTER (WHERE {test})" for test in TESTS for call in ("COUNT(*)", "SUM(a)")]
    found = {"apart": 0, "within": 0, "same": 0}
    for one, other in combinations([*calls, "COUNT(*)", "SUM(b)", "SUM(a)"], 2):
        statistics, shared = stated(one, other)
        if len(statistics) < 2:
            continue
        (p, q), (first, second) = shared["of"], map(counted, statistics)
        if sorted((p, q)) in shared["apart"]:
            found["apart"] += 1
            assert not first.keys() & second.keys(), (one, other)
        if p == q or [p, q] in shared["within"]:
            found["within"] += p != q
            assert first.keys() <= second.keys(), (one, other)
        if p == q or [q, p] in shared["within"]:
            found["same"] += p == q
            assert second.keys() <= first.keys(), (one, other)
        u, v = shared["values"]
        if u is not None and u == v:
            assert all(first[i] == second[i] for i in first.keys() & second.keys()), (one, other)
    assert found["apart"] > 50
    assert found["within"] > 50
    assert found["same"] > 1


@pytest.mark.parametrize("text", ["COUNT(*) AS n, SUM(a) AS s", "AVG(a) AS m", "MEDIAN(a) AS q"])
def test_nothing_is_stated_where_no_output_has_several(text):
    assert pl.lower(sql.parse(f"SELECT {text} FROM t", POLICY).query).shared_rows == {}


@pytest.mark.parametrize(
    ("paid", "free"),
    [
        ("COUNT(*) AS c, SUM(a) AS s, SUM(a) / COUNT(*) AS d", "SUM(a) AS s, COUNT(*) AS c"),
        ("AVG(b) AS m, COUNT(*) AS c, AVG(b) - COUNT(*) AS d", "COUNT(*) AS c, AVG(b) AS m"),
        ("ROUND(COUNT(*), -1) AS c, SUM(a) AS s", "SUM(a) AS s, COUNT(*) AS c"),
    ],
)
def test_a_stored_answer_says_nothing_of_the_question_that_paid_for_it(paid, free):
    """It said which rows the other's statistics share, by numbers: a sum was taken for a count."""
    many = 120
    values = [0, 1, 2] * (many // 3)
    rows = pa.table({"a": values, "b": values, "g": ["x"] * many, "f": [True] * many})
    curator = dc.open({"t": rows}, policy=POLICY, ledger=":memory:")
    curator.sql(f"SELECT {paid} FROM t", epsilon="0.5")
    again = curator.sql(f"SELECT {free} FROM t", epsilon="0.5")
    assert again.cached
    fresh = dc.open({"t": rows}, policy=POLICY, ledger=":memory:")
    asked = fresh.sql(f"SELECT {free} FROM t", epsilon="0.5")
    said = [{**x.full_record.statement, "coin": None} for x in (again, asked)]
    assert said[0] == said[1]
