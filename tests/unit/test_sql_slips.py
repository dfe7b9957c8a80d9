"""Slips of people who come from elsewhere: the line that is suggested asks what they meant."""

from __future__ import annotations

import pytest

from discreet import sql
from discreet.errors import QueryError
from discreet.policy import Boolean, Budget, Category, Date, Integer, Policy, Real, Table, Text

VISITS = Table(
    "visits",
    [
        Category("ward", ["ER", "ICU", "General"]),
        Category("sex", ["F", "M"]),
        Integer("age", 0, 120),
        Integer("length_of_stay", 0, 60),
        Real("cost", 0, 20_000, step="0.01"),
        Boolean("again"),
        Date("visit_date", "2023-01-01", "2024-12-31"),
        Text("diagnosis"),
    ],
    unit="patient_id",
    max_rows_per_unit=4,
)
POLICY = Policy([VISITS], Budget("1"), name="slips")
WHERE = "SELECT COUNT(*) AS n FROM visits WHERE"


def _hint(text):
    with pytest.raises(QueryError) as refused:
        sql.parse_any(text, POLICY)
    return refused.value.hint


@pytest.mark.parametrize(
    ("condition", "hint"),
    [
        ("age <> NULL", "age IS NOT NULL"),
        ("NULL = age", "age IS NULL"),
        ("age > NULL", None),
        ("sex <> 'f'", "sex <> 'F'"),
        ("ward != 'Generl'", "ward <> 'General'"),
        ("again <> 'yes'", "again <> TRUE"),
        ("ward IN ('ER', 'IUC')", "'ICU'"),
        ("ward NOT IN ('ER', 'IUC')", "'ICU'"),
        ("again IN ('yes', 'no')", None),
        ("ward IN 'ER'", "ward IN ('ER')"),
        ("ward IS 'ER'", "ward = 'ER'"),
        ("ward IS NOT 'ER'", "ward <> 'ER'"),
        ("(age > 20) & (sex = 'F')", "(age > 20) AND (sex = 'F')"),
        ("visit_date > 20230401", "visit_date > '2023-04-01'"),
        ("visit_date > '2023/4/1'", "'2023-04-01'"),
        ("cost > '1,000'", "1000"),
        ("v.age > 3", "age"),
        ("visit > '2023-04-01'", "visit_date"),
    ],
)
def test_a_condition_is_mended_and_not_turned_round(condition, hint):
    assert _hint(f"{WHERE} {condition}") == hint


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("SELECT AVG(age ^ 2) FROM visits", "POWER(age, 2)"),
        ("SELECT AVG(LOG1P(cost)) FROM visits", "LN(1 + cost)"),
        ("SELECT QUANTILE(cost, 95) FROM visits", "QUANTILE(cost, 0.95)"),
        ("SELECT QUANTILE(cost) FROM visits", "QUANTILE(cost, 0.5)"),
        ("SELECT COUNT() FROM visits", "COUNT(*)"),
        ("SELECT visit_date.year, COUNT(*) FROM visits GROUP BY 1", "YEAR(visit_date)"),
        ("SELECT x.ward, COUNT(*) FROM visits v GROUP BY x.ward", "ward"),
        ("SELECT age > 65, COUNT(*) FROM visits", "GROUP BY 1"),
        ("SELECT ward, age > 65, COUNT(*) FROM visits GROUP BY ward", "GROUP BY ward, 2"),
        ("SELECT visit_date, age, COUNT(*) FROM visits", "GROUP BY visit_date, age"),
        ("SELECT (age - AVG(age)) / STDDEV(age) FROM visits", None),
        ("SELECT ward, COUNT(*) FROM visits GROUP BY ward HAVING sex = 'F'", "GROUP BY ward, sex"),
        ("SELECT REGEXP_REPLACE(diagnosis, '[0-9]', ''), COUNT(*) FROM visits GROUP BY 1", None),
        ("SELECT AVG(cost) AS FROM visits", None),
        ("SELECT AVG(visit) FROM visits", None),  # a date
        ("SELECT SUM(diagnosed) FROM visits", None),  # a text
        ("SELECT AVG(length) FROM visits", "length_of_stay"),
        ("SELECT AVG(costs) FROM visits", "cost"),
    ],
)
def test_a_question_is_mended_or_left_alone(text, hint):
    assert _hint(text) == hint


def test_rows_outside_are_spoken_of_inside_alone():
    with pytest.raises(QueryError) as plain:
        sql.parse("SELECT COUNT(*) AS n FROM visits WHERE v.age > 3 AND w.age > 4", POLICY)
    assert "subquery" not in plain.value.message
    inner = "SELECT patient_id FROM visits z WHERE v.age > z.age"
    with pytest.raises(QueryError, match="known by its unit alone"):
        sql.parse(f"SELECT COUNT(*) AS n FROM visits v WHERE patient_id IN ({inner})", POLICY)
