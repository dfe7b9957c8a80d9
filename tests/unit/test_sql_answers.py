"""SELECTs around answers, scalar subqueries, functions of outputs, categories of numbers."""

from __future__ import annotations

import pyarrow as pa
import pytest

import discreet as dc
from discreet.errors import DiscreetError

DATA = pa.table(
    {
        "person": [i % 40 for i in range(200)],
        "status": [(200, 301, 404, 500)[i % 4] for i in range(200)],
        "land": ["CH" if i % 3 else "DE" for i in range(200)],
        "size": [i % 100 for i in range(200)],
    }
)
POLICY = {
    "policy": {"name": "answers"},
    "budget": {"epsilon": "1e9", "accounting": "pure"},
    "tables": {
        "log": {
            "unit": "person",
            "max_rows_per_unit": 10,
            "columns": {
                "status": {"type": "category", "values": [200, 301, 404, 500]},
                "land": {"type": "category", "values": ["CH", "DE"]},
                "size": {"type": "integer", "min": 0, "max": 100},
            },
        }
    },
}


@pytest.fixture(scope="module")
def curator():
    with dc.open(DATA, policy=POLICY, ledger=":memory:") as opened:
        yield opened


SAME = {
    "SELECT * FROM (SELECT land, COUNT(*) AS n FROM log GROUP BY land) t ORDER BY n DESC LIMIT 1":
    "SELECT land, COUNT(*) AS n FROM log GROUP BY land ORDER BY n DESC LIMIT 1",
    "WITH c AS (SELECT land AS l, COUNT(*) AS n FROM log GROUP BY land) "
    "SELECT l, n / SUM(n) OVER () AS share FROM c WHERE n > 3":
    "SELECT land AS l, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM log GROUP BY land "
    "HAVING COUNT(*) > 3",
    "SELECT AVG(n) AS m, COUNT(*) AS k FROM (SELECT land, COUNT(*) n FROM log GROUP BY land)":
    "SELECT AVG(COUNT(*)) OVER () AS m, COUNT(*) OVER () AS k FROM log GROUP BY land LIMIT 1",
    "SELECT land FROM (SELECT land, RANK() OVER (ORDER BY COUNT(*)) r FROM log GROUP BY land) "
    "WHERE r = 1":
    "SELECT land FROM log GROUP BY land QUALIFY RANK() OVER (ORDER BY COUNT(*)) = 1",
    "SELECT land, COUNT(*) / (SELECT COUNT(*) FROM log) AS p FROM log GROUP BY land":
    "SELECT land, COUNT(*) / SUM(COUNT(*)) OVER () AS p FROM log GROUP BY land",
    "SELECT COUNT(*) - (SELECT COUNT(*) FROM log WHERE land = 'CH') AS d FROM log":
    "SELECT COUNT(*) - COUNT(*) FILTER (WHERE land = 'CH') AS d FROM log",
    "SELECT AVG(size) - (SELECT AVG(size) FROM log WHERE land = 'CH') AS d FROM log "
    "WHERE land = 'DE'":
    "SELECT AVG(size) FILTER (WHERE land = 'DE') - AVG(size) FILTER (WHERE land = 'CH') AS d "
    "FROM log",
    "SELECT COUNT(*) AS n FROM log WHERE status >= 400":
    "SELECT COUNT(*) AS n FROM log WHERE status IN (404, 500)",
    "SELECT COUNT(*) AS n FROM log WHERE 400 <= status":
    "SELECT COUNT(*) AS n FROM log WHERE status >= 400",
}  # fmt: skip


@pytest.mark.parametrize("text", SAME)
def test_two_ways_to_ask_are_one_question(curator, text):
    one, other = (curator._question(t).query for t in (text, SAME[text]))
    assert one.keys == other.keys
    assert one.statistics == other.statistics
    assert [o.expr for o in one.outputs] == [o.expr for o in other.outputs]
    assert (one.having, one.qualify, one.order, one.limit) == (
        other.having, other.qualify, other.order, other.limit,
    )  # fmt: skip
    assert one.relation == other.relation


VALUES = {
    "SQRT(COUNT(*))": 200**0.5,
    "LN(COUNT(*))": 5.298317,
    "LOG(COUNT(*))": 2.30103,
    "EXP(COUNT(*) / 100)": 7.389056,
    "GREATEST(0, COUNT(*))": 200,
    "LEAST(7, COUNT(*), 9)": 7,
    "FLOOR(COUNT(*) / 3)": 66,
    "CEIL(COUNT(*) / 3)": 67,
    "COALESCE(COUNT(*) / (COUNT(*) - COUNT(*)), -1)": -1,
    "COUNT(*) / NULLIF(COUNT(*), 0)": 1,
    "CASE WHEN COUNT(*) > 100 THEN 1 WHEN COUNT(*) > 50 THEN 2 ELSE 3 END": 1,
    "CASE WHEN COUNT(*) > 100 THEN 'many' ELSE 'few' END": "many",
    "CAST(COUNT(*) / 3 AS INT)": 67,
    "AVG(status)": 351.25,
    "SUM(FLOOR(status / 100))": 50 * (2 + 3 + 4 + 5),
    "COUNT(*) FILTER (WHERE status % 100 = 0)": 100,
}


@pytest.mark.parametrize("text", VALUES)
def test_functions_of_outputs(curator, text):
    answer = curator.sql(f"SELECT {text} AS x FROM log", epsilon=100_000)
    (row,), (ends,) = answer.to_dicts(), answer.interval()
    wanted = VALUES[text]
    if isinstance(wanted, str):
        assert row["x"] == wanted
    else:
        assert row["x"] == pytest.approx(wanted, rel=1e-3)
        low, high = ends["x"]
        assert low - 1e-3 <= wanted <= high + 1e-3


REFUSED = [
    "SELECT MEDIAN(n) FROM (SELECT land, COUNT(*) n FROM log GROUP BY land)",
    "SELECT land FROM (SELECT land, COUNT(*) n FROM log GROUP BY land LIMIT 1) WHERE n > 3",
    "SELECT land, COUNT(*) / (SELECT MEDIAN(size) FROM log) FROM log GROUP BY land",
    "SELECT land, COUNT(*) / (SELECT COUNT(*), 1 FROM log) FROM log GROUP BY land",
    "SELECT land, (SELECT COUNT(*) FROM log GROUP BY land) FROM log GROUP BY land",
    "SELECT CASE WHEN COUNT(*) THEN 1 ELSE 'a' END FROM log",
    "SELECT CASE WHEN COUNT(*) > 1 THEN 1 ELSE 'a' END FROM log",
    "SELECT COUNT(*) FROM log WHERE land > 'A'",
    "SELECT COUNT(*) FROM log WHERE size = (SELECT MAX(size) FROM log)",
]


@pytest.mark.parametrize("text", REFUSED)
def test_refused_before_paying(curator, text):
    before = curator.budget.spent
    with pytest.raises(DiscreetError):
        curator.sql(text, epsilon=1)
    assert curator.budget.spent == before


def test_what_was_measured_is_charged_once(curator):
    first = curator.sql("SELECT land, COUNT(*) AS n FROM log GROUP BY land", epsilon=3)
    for text in (
        "SELECT land, COUNT(*) AS cases FROM log GROUP BY land ORDER BY cases DESC",
        "SELECT land, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM log GROUP BY land",
        "SELECT land, COUNT(*) AS n FROM log GROUP BY land HAVING COUNT(*) > 5",
    ):
        assert curator.preview(text, epsilon=3).stored
        again = curator.sql(text, epsilon=3)
        assert again.cached
        assert again.parts == first.parts
    for text, name in (
        ("SELECT land AS country, COUNT(*) AS n FROM log GROUP BY country", "country"),
        ("SELECT land AS country, COUNT(*) AS n FROM log GROUP BY 1", "country"),
        ("SELECT l.land AS l, COUNT(*) AS n FROM log l GROUP BY l.land", "l"),
        ("SELECT LAND, COUNT(*) AS n FROM log GROUP BY LAND", "LAND"),
    ):
        again = curator.sql(text, epsilon=3)
        assert again.cached, text
        assert [r[name] for r in again.to_dicts()] == [r["land"] for r in first.to_dicts()]
    other = curator.sql("SELECT land, SUM(size) AS n FROM log GROUP BY land", epsilon=3)
    assert not other.cached
    # rows without a key are in the totals, and were not measured
    total = curator.sql("SELECT land, COUNT(*) AS n FROM log GROUP BY ROLLUP (land)", epsilon=3)
    assert not total.cached
    assert not curator.sql("SELECT land, COUNT(*) AS n FROM log GROUP BY land", epsilon=2).cached


def test_texts_of_public_tables_are_public_keys():
    people = dc.policy.Table("people", [dc.policy.Text("town"), dc.policy.Integer("age", 0, 99)])
    towns = dc.policy.Table("towns", [dc.policy.Text("name"), dc.policy.Text("land")], public=True)
    policy = dc.policy.Policy([people, towns], dc.policy.Budget("1e6"), name="public texts")
    data = {
        "people": pa.table({"town": ["Ulm", "Bern", "Bern", None], "age": [1, 2, 3, 4]}),
        "towns": pa.table({"name": ["Ulm", "Bern", "Rom"], "land": ["DE", "CH", None]}),
    }
    join = "FROM people JOIN towns ON people.town = towns.name"
    with dc.open(data, policy, ledger=":memory:") as curator:
        answer = curator.sql(f"SELECT land, COUNT(*) AS n {join} GROUP BY land", epsilon=1000)
        assert answer.to_dicts() == [{"land": "CH", "n": 2}, {"land": "DE", "n": 1}]
        count = curator.sql(f"SELECT COUNT(*) AS n {join} WHERE land LIKE 'C%'", epsilon=1000)
        assert count.to_dicts() == [{"n": 2}]
        with pytest.raises(DiscreetError, match="delta"):
            curator.sql("SELECT town, COUNT(*) AS n FROM people GROUP BY town", epsilon=1)
    with pytest.raises(DiscreetError, match="not public"):
        engine = curator._engine
        engine.values(dc.plan.Scan(people), "town", 3)


def test_hints_name_what_the_policy_has(curator):
    for text, hint in (
        ("SHOW TABLES", "SELECT COUNT(*) AS n FROM log"),
        ("SELECT DISTINCT size FROM log", "SELECT size, COUNT(*) AS n FROM log GROUP BY size"),
        ("SELECT COUNT(*) FROM log WHERE land LIKE size", None),
    ):
        with pytest.raises(DiscreetError) as refused:
            curator.sql(text, epsilon=1)
        assert hint is None or refused.value.hint == hint
    with pytest.raises(DiscreetError) as refused:
        curator.sql("SELECT COUNT(*) FROM log CROSS JOIN log AS b", epsilon=1)
    assert "people" not in (refused.value.hint or "")
