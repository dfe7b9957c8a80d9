"""Every hint works when pasted, and means what the question meant.

The questions are those of all lists in the tests of SQL that are refused, and those below. A hint
is pasted and asked at ε = 10 000; what DuckDB answers to the question as it was written is the
truth. Noise of that price is far below the tolerance: a count has the scale k/ε ≤ 0.001 and is
compared within 0.5, which fails with probability below e^-500.
"""

from __future__ import annotations

import datetime as dt
import math

import duckdb
import pyarrow as pa
import pytest

import discreet as dc
from discreet import policy as pol
from discreet import sql
from discreet.errors import QueryError
from discreet.sql._paste import pasted

POLICY = pol.loads(
    """
[budget]
epsilon = "1e9"
delta = "0.5"
accounting = "approx"
[tables.visits]
unit = "patient_id"
max_rows_per_unit = 4
[tables.visits.columns]
visit_date = { type = "date", min = 2023-01-01, max = 2024-12-31, nullable = true }
seen = { type = "timestamp", min = 2022-01-01T00:00:00, max = 2027-12-31T23:59:59 }
sex = { type = "category", values = ["F", "M", "U"] }
age = { type = "integer", min = 0, max = 120, nullable = true }
diagnosis = { type = "text" }
ward = { type = "category", values = ["ER", "ICU", "General"] }
length_of_stay = { type = "integer", min = 0, max = 60 }
cost = { type = "real", min = 0, max = 20_000, step = "0.01" }
readmitted = { type = "boolean" }
[tables.patients]
unit = "patient_id"
max_rows_per_unit = 1
[tables.patients.columns]
insurance = { type = "category", values = ["public", "private", "none"] }
born = { type = "date", min = 1930-01-01, max = 2010-12-31 }
"""
)


def _made_up():
    """Rows of sixty people, with every value of every short list."""
    names = list(POLICY.table("visits").columns)
    rows = []
    for i in range(180):
        day = dt.date(2023, 1, 1) + dt.timedelta(days=(i * 37) % 730)
        rows.append(
            {
                "patient_id": i % 60 if i % 7 else (i * 11) % 60 + 100,
                "visit_date": None if i % 29 == 3 else day,
                "seen": dt.datetime.combine(day, dt.time(i % 24, 30)),
                "sex": "FMU"[i % 5 % 3],
                "age": None if i % 31 == 5 else (i * 13) % 99,
                "diagnosis": None if i % 23 == 4 else ("A10", "B20", "J45.1")[i * i % 3],
                "ward": ("ER", "ICU", "General")[(i // 3) % 3],
                "length_of_stay": i * 7 % 13,
                "cost": (i * 997 % 20_000) / 4,
                "readmitted": i % 4 == 1,
            }
        )
    people = sorted({r["patient_id"] for r in rows})
    visits = {n: [r[n] for r in rows] for n in ("patient_id", *names)}
    patients = {
        "patient_id": [p for p in people if p % 9],
        "insurance": [("public", "private", "none")[p % 3] for p in people if p % 9],
        "born": [dt.date(1930 + p % 80, 1 + p % 12, 1 + p % 28) for p in people if p % 9],
    }
    kinds = {"visit_date": pa.date32(), "seen": pa.timestamp("us"), "born": pa.date32()}
    return {
        name: pa.table({n: pa.array(v, kinds.get(n)) for n, v in columns.items()})
        for name, columns in (("visits", visits), ("patients", patients))
    }


DATA = _made_up()


@pytest.fixture(scope="module")
def curator():
    with dc.open(DATA, POLICY, ledger=":memory:") as opened:
        yield opened


@pytest.fixture(scope="module")
def oracle():
    with duckdb.connect() as connection:
        for name, table in DATA.items():
            connection.register(name, table)
        yield connection


def answered(curator, text):
    """Rows of an answer without those that the public lists alone have made."""
    answer = curator.sql(text, epsilon=10_000, delta="1e-3")
    return [tuple(row.values()) for row in answer.to_dicts()]


def truth(oracle, text):
    try:
        return oracle.execute(text).fetchall()
    except duckdb.Error:
        return None


def _plain(value):
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, dt.timedelta):
        return value / dt.timedelta(days=1)
    if isinstance(value, dt.datetime) and value.time() == dt.time():
        return str(value.date())
    number = isinstance(value, int | float) or hasattr(value, "as_tuple")
    return float(value) if number else None if value is None else str(value)


def _close(one, other):
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, abs_tol=0.5, rel_tol=0.01)
    return one == other


def same_answer(found, wanted):
    """Whether every row of the truth was found, and else nothing but zeros of listed groups."""
    rest = [tuple(map(_plain, row)) for row in found]
    for row in (tuple(map(_plain, row)) for row in wanted):
        if None in row:  # rows without a key are in no group
            continue
        match = next((f for f in rest if len(f) == len(row) and all(map(_close, f, row))), None)
        if match is None:
            return False
        rest.remove(match)
    return all(row[-1] is None or (isinstance(row[-1], float) and row[-1] < 0.5) for row in rest)


def refusal(text):
    with pytest.raises(QueryError) as refused:
        sql.parse_any(text, POLICY)
    return refused.value


def mended(text):
    """The question with its hint pasted."""
    return pasted(refusal(text).hint, text, lambda words: sql.parse_any(words, POLICY))


LEFT = "SELECT {} FROM visits v LEFT JOIN patients p ON v.patient_id = p.patient_id AND {}"
EXACT = [  # what was refused once, or given a hint that was another question
    LEFT.format("COUNT(*)", "p.insurance = 'public'"),
    LEFT.format("COUNT(p.insurance)", "p.insurance = 'public' AND p.born > '1950-01-01'"),
    LEFT.format("p.insurance, COUNT(*)", "insurance <> 'none'") + " GROUP BY 1",
    LEFT.format("COUNT(*)", "p.insurance = 'public'") + " WHERE p.insurance IS NULL",
]


@pytest.mark.parametrize("text", EXACT)
def test_the_answer_is_that_of_the_oracle(curator, oracle, text):
    assert same_answer(answered(curator, text), truth(oracle, text))


MONTHS = "WITH m AS (SELECT MONTH(visit_date) AS k, COUNT(*) AS n FROM visits GROUP BY 1)"
PLAIN = [  # refused, by what it is, and without a statement that would be another question
    (f"{MONTHS} SELECT a.k, a.n - b.n FROM m a JOIN m b ON a.k = b.k + 1", "is not joined"),
    (f"{MONTHS} SELECT a.k, b.n FROM m a JOIN m b ON a.k = b.k", "is not joined"),
    (
        (
            "WITH m AS (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) "
            "SELECT COUNT(*) FROM m a JOIN m b ON a.n = b.n"
        ),
        "what works is ON a.patient_id = b.patient_id",
    ),
    ("SELECT COUNT(*) FROM visits WHERE patient_id = 669", "about one person"),
    ("SELECT AVG(cost) FROM visits WHERE patient_id IN (1, 2)", "about one person"),
    ("SELECT COUNT(*) FROM visits WHERE patient_id < 100", "by what identifies them"),
    ("SELECT COUNTIF(patient_id = 669) FROM visits", "about one person"),
    ("SELECT AVG(patient_id) FROM visits", "COUNT(DISTINCT patient_id), and nothing else"),
    (LEFT.format("COUNT(*)", "v.cost > 100"), "private too"),
    (LEFT.format("COUNT(*)", "v.cost > 100 AND p.insurance = 'none'"), "private too"),
    ("SELECT MIN(diagnosis) FROM visits", "MIN needs an ordered value, got text"),
    ("SELECT MAX(ward) FROM visits", "MAX needs an ordered value, got category"),
    ("SELECT ward, sex FROM visits WHERE age > 50", "rows do not leave"),
]


@pytest.mark.parametrize(("text", "says"), PLAIN)
def test_a_plain_refusal_says_why(text, says):
    error = refusal(text)
    assert says in error.message
    assert error.hint is None


@pytest.mark.parametrize("column", ["visit_date", "seen", "born"])
def test_today_is_todays_date_and_the_policy_says_where_the_column_ends(curator, oracle, column):
    table = "patients" if column == "born" else "visits"
    text = f"SELECT COUNT(*) FROM {table} WHERE {column} < CURRENT_DATE - INTERVAL '50 years'"
    end = {"visit_date": "2024-12-31", "seen": "2027-12-31", "born": "2010-12-31"}[column]
    assert f'"{column}" ends on {end}' in refusal(text).message
    assert same_answer(answered(curator, mended(text)), truth(oracle, text))


def test_a_hint_that_drops_a_condition_or_a_table_is_none():
    def read(words):
        return sql.parse_any(words, POLICY)

    text = "SELECT KURTOSIS(cost) FROM visits WHERE age > 50"
    assert pasted("SELECT COUNT(*) FROM visits", text, read) is None
    assert pasted("SELECT COUNT(*) FROM visits WHERE age > 50", text, read)
    assert pasted("SELECT COUNT(*) FROM patients WHERE age > 50", text, read) is None
    assert pasted("STDDEV(cost)", text, read) == "SELECT STDDEV(cost) FROM visits WHERE age > 50"
    assert pasted("STDDEV(diagnosis)", text, read) is None
    assert pasted("GROUP BY sex", text, read) is None
    assert pasted("ask it on its own", text, read) == "ask it on its own"
    inner = "SELECT COUNT(*) FROM visits WHERE age > 50 AND cost > (SELECT AVG(cost) FROM visits)"
    assert pasted("SELECT AVG(cost) FROM visits", inner, read)
