"""The same text asked of DuckDB: rows without a key, NULL in extremes and first rows, quotients.

At ε = 10 000 per question a count is off by one with probability below 2·e^(−10 000·½) < 1e-2000.
"""

from __future__ import annotations

import datetime as dt

import duckdb
import pyarrow as pa
import pytest

import discreet as dc
from discreet import sql
from discreet.errors import UnsupportedQueryError
from discreet.plan import _functions, _query

ROWS = [
    (
        i % 37,
        None if i % 5 == 4 else "ABC"[i % 3],
        None if i % 7 == 3 else "FM"[i % 2],
        None if i % 11 == 0 else i % 13 - 4,
        1 + i % 4,
        dt.date(2024, 1, 1) + dt.timedelta(days=31 * i % 300),
    )
    for i in range(400)
]
NAMES = ("id", "ward", "sex", "x", "y", "day")
DATA = pa.table(dict(zip(NAMES, zip(*ROWS, strict=True), strict=True)))
START = "2024-01-01"
POLICY = {
    "policy": {"name": "alike"},
    "budget": {"epsilon": "1e9", "accounting": "pure"},
    "tables": {
        "visits": {
            "unit": "id",
            "max_rows_per_unit": 12,
            "columns": {
                "ward": {"type": "category", "values": ["A", "B", "C"]},
                "sex": {"type": "category", "values": ["F", "M"]},
                "x": {"type": "integer", "min": -4, "max": 8},
                "y": {"type": "integer", "min": 1, "max": 4, "null": 1},
                "day": {"type": "date", "min": START, "max": "2024-12-31", "null": START},
            },
        }
    },
}  # fmt: skip
FIRST = "(SELECT id, {} AS w FROM visits GROUP BY id) AS t"
ALIKE = [
    "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ROLLUP (ward)",
    "SELECT ward, sex, COUNT(*) AS n FROM visits GROUP BY ROLLUP (ward, sex)",
    "SELECT ward, sex, SUM(x) AS n FROM visits GROUP BY CUBE (ward, sex)",
    "SELECT ward, COUNT(*) AS n FROM visits WHERE ward <> 'C' GROUP BY GROUPING SETS ((ward), ())",
    "SELECT x, GROUPING(x) AS total, COUNT(*) AS n FROM visits GROUP BY ROLLUP (x)",
    "SELECT SUM(LEAST(x, 3)) AS s, COUNT(GREATEST(x, 3)) AS n FROM visits",
    "SELECT GREATEST(x, 5) AS k, COUNT(*) AS n FROM visits GROUP BY k",
    "SELECT COUNT(*) AS n FROM visits WHERE LEAST(x, -2) = -2",
    "SELECT y, GREATEST(LAG(COUNT(*)) OVER (ORDER BY y), 3) AS n FROM visits GROUP BY y",
    "SELECT x // 3 AS k, COUNT(*) AS n FROM visits WHERE x IS NOT NULL GROUP BY k",
    "SELECT SUM(x // -2) AS s, SUM((x + 4) // y) AS q FROM visits",
    "SELECT SUM(x / y) AS s FROM visits WHERE y <> 3",
    f"SELECT w, COUNT(*) AS n FROM {FIRST.format('MIN_BY(ward, day)')} GROUP BY w",
    f"SELECT w, COUNT(*) AS n FROM {FIRST.format('ARG_MAX(ward, day)')} GROUP BY w",
    f"SELECT w, COUNT(*) AS n FROM {FIRST.format('ARG_MIN_NULL(ward, day)')} GROUP BY w",
    f"SELECT w, COUNT(*) AS n FROM {FIRST.format('FIRST(ward ORDER BY day)')} GROUP BY w",
    f"SELECT w, COUNT(*) AS n FROM {FIRST.format('FIRST(ward ORDER BY day DESC)')} GROUP BY w",
    f"SELECT w, COUNT(*) AS n FROM {FIRST.format('LAST(ward ORDER BY day)')} GROUP BY w",
    "FROM visits SELECT sex, count(*) AS n WHERE sex = 'F' GROUP BY sex",
    "SELECT ward, COUNT_IF(x > 2) AS n FROM visits WHERE ward IS NOT NULL GROUP BY ALL",
]  # fmt: skip


@pytest.fixture(scope="module")
def curator():
    return dc.open(DATA, policy=POLICY, ledger=":memory:")


@pytest.fixture(scope="module")
def oracle():
    connection = duckdb.connect()
    connection.register("visits", DATA)
    yield connection
    connection.close()


def rows(found):
    """Rows, rounded; groups without data, which only a public list makes, are left out."""
    plain = [tuple(round(v, 1) if isinstance(v, float) else v for v in row) for row in found]
    return sorted([row for row in plain if row[-1]], key=str)


def told(curator, text):
    answer = curator.sql(text, epsilon=10_000)
    return rows(tuple(map(_number, row.values())) for row in answer.to_dicts())


def _number(value):
    return float(value) if isinstance(value, int | float) else value


def truth(oracle, text, keyless=False):
    found = [tuple(map(_number, row)) for row in oracle.execute(text).fetchall()]
    return rows(row for row in found if keyless or len(row) == 1 or row[0] is not None)


@pytest.mark.parametrize("text", ALIKE)
def test_duckdb_answers_the_same(curator, oracle, text):
    keyless = any(word in text for word in ("ROLLUP", "CUBE", "SETS"))
    assert told(curator, text) == truth(oracle, text, keyless)


def test_totals_without_the_rows_that_have_no_key_are_caught(oracle, monkeypatch):
    monkeypatch.setattr(_query, "_with_null", lambda key: key)
    text = ALIKE[0]
    curator = dc.open(DATA, policy=POLICY, ledger=":memory:")
    assert told(curator, text) != truth(oracle, text, keyless=True)


def test_extremes_that_keep_null_are_caught(oracle, monkeypatch):
    monkeypatch.setattr(_functions.build, "coalesce", lambda operands: operands[0])
    curator = dc.open(DATA, policy=POLICY, ledger=":memory:")
    assert told(curator, ALIKE[5]) != truth(oracle, ALIKE[5])


GAPS = "SELECT AVG(gap) AS g FROM (SELECT {} AS gap FROM visits) AS t"
LAG = "LAG(day) OVER (PARTITION BY id ORDER BY day)"


@pytest.mark.parametrize("gap", [f"day - {LAG}", f"DATEDIFF('day', {LAG}, day)"])
def test_the_mean_gap_between_rows_of_a_person_has_a_hint(oracle, gap):
    table = POLICY["tables"]["visits"] | {"max_rows_per_unit": 3}  # of eleven that people have
    few = POLICY | {"tables": {"visits": table}}
    curator = dc.open(DATA, policy=few, ledger=":memory:")
    with pytest.raises(UnsupportedQueryError, match="the gaps of a person add up") as refused:
        sql.parse(GAPS.format(gap), curator.policy)
    ((wanted,),) = oracle.execute(GAPS.format(gap)).fetchall()
    ((found,),) = told(curator, refused.value.hint)
    assert abs(found - wanted) < 0.1


@pytest.mark.parametrize(
    "text",
    [
        GAPS.format(f"x - {LAG.replace('(day)', '(x)')}"),  # in the order of another column
        GAPS.format(f"day - {LAG.replace('(day)', '(x)')}"),
        GAPS.format(f"day - {LAG.replace('BY day', 'BY day DESC')}"),
        GAPS.format(f"DATEDIFF('week', {LAG}, day)"),  # weeks of seven days do not add up
        GAPS.format(f"day - {LAG}") + " WHERE gap > 3",
        GAPS.format(f"day - {LAG}").replace("AVG", "MEDIAN"),
    ],
)
def test_other_gaps_have_no_hint(curator, text):
    with pytest.raises(UnsupportedQueryError) as refused:
        sql.parse(text, curator.policy)
    assert refused.value.hint is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT WEEK(day) AS w, COUNT(*) AS n FROM visits GROUP BY w", "weeks are ISO weeks"),
        ("SELECT AVG(x / y) AS m FROM visits", "/ of whole numbers keeps its fraction"),
        ("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", "rows without ward in no group"),
    ],
)
def test_what_differs_between_databases_is_said(curator, text, said):
    assert said in str(curator.sql(text, epsilon=10_000))


def test_totals_do_not_say_that_rows_are_left_out(curator):
    assert "in no group" not in str(curator.sql(ALIKE[0], epsilon=10_000))


def test_lists_of_quantiles_are_columns(curator):
    for text in ("PERCENTILE_CONT(ARRAY[0.25, 0.5]) WITHIN GROUP (ORDER BY x)",
                 "PERCENTILE_CONT([0.25, 0.5]) WITHIN GROUP (ORDER BY x)",
                 "QUANTILE_DISC(x, [0.25, 0.5])"):  # fmt: skip
        outputs = sql.parse(f"SELECT {text} AS q FROM visits", curator.policy).query.outputs
        assert [o.name for o in outputs] == ["q_25", "q_50"]
