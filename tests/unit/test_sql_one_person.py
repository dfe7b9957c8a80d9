"""Sets of people and numbers of one person: answered as DuckDB does, or refused by name."""

from __future__ import annotations

import datetime as dt

import duckdb
import pyarrow as pa
import pytest

from discreet import audit, sql
from discreet import policy as pol
from discreet.errors import QueryError, UnknownNameError, UnsupportedQueryError

POLICY = pol.loads(
    """
[budget]
epsilon = "1"
[tables.pat]
unit = "pid"
max_rows_per_unit = 50
[tables.pat.columns]
age = { type = "integer", min = 0, max = 9 }
[tables.vis]
unit = "pid"
max_rows_per_unit = 50
[tables.vis.columns]
cost = { type = "integer", min = 0, max = 20, nullable = true }
"""
)
TABLES = {
    "pat": pa.table({"pid": [*"111223"], "age": [1, 5, 9, 2, 4, 0]}),
    "vis": pa.table({"pid": [*"1122"], "cost": [3, 7, None, 2]}),
}


@pytest.fixture(scope="module")
def oracle():
    with duckdb.connect() as connection:
        for name, table in TABLES.items():
            connection.register(name, table)
        yield connection


def exact(question):
    (found,) = audit.measurements(POLICY, question, TABLES, salt=1)
    return dict(found.exact).get((), 0)


VISITS = "FROM vis AS z WHERE z.pid = p.pid"
ITEMS = [  # numbers of one person, of a person without rows as well
    "COUNT(*)",
    "COUNT(z.cost)",
    "COUNT(DISTINCT z.cost)",
    "COUNT(*) + 1",
    "(COUNT(*) + 1) * 2",
    "-COUNT(*)",
    "COUNT(*) FILTER (WHERE z.cost > 5)",
    "CASE WHEN COUNT(*) = 0 THEN 3 ELSE 1 END",
    "SUM(z.cost)",
    "COALESCE(SUM(z.cost), 0)",
    "COALESCE(SUM(z.cost), COUNT(*) + 2)",
    "SUM(z.cost) + COUNT(*)",
    "MAX(z.cost) - MIN(z.cost)",
    "COALESCE(MAX(z.cost), 4) + p.age",
]
FORMS = [
    "SELECT COUNT(*) AS n FROM pat AS p WHERE (SELECT {item} {rows}) = {k}",
    "SELECT COUNT(*) AS n FROM pat AS p WHERE (SELECT {item} {rows}) IS NULL",
    "SELECT COUNT(*) AS n FROM pat AS p, LATERAL (SELECT {item} AS v {rows}) AS s WHERE v = {k}",
    (
        "SELECT COUNT(*) AS n FROM pat AS p, LATERAL (SELECT {item} AS v {rows}) AS s "
        "WHERE s.v = p.age"
    ),
    "SELECT COUNT(*) AS n FROM pat AS p JOIN LATERAL (SELECT {item} AS v {rows}) AS s ON s.v > {k}",
    (
        "SELECT COUNT(*) AS n FROM pat AS p LEFT JOIN LATERAL (SELECT {item} AS v {rows}) AS s "
        "ON TRUE WHERE v IS NULL OR v <= {k}"
    ),
    (
        "SELECT COUNT(s.v) AS n FROM pat AS p CROSS JOIN LATERAL (SELECT 7 * SUM(z.cost) AS w, "
        "{item} AS v {rows}) AS s WHERE p.age > {k}"
    ),
]


@pytest.mark.parametrize("item", ITEMS)
def test_a_number_of_one_person_is_that_of_the_oracle(oracle, item):
    for form in FORMS:
        for k in (0, 3):
            question = form.format(item=item, rows=VISITS, k=k)
            truth = oracle.execute(question).fetchone()[0]
            assert exact(question) == truth, question


@pytest.mark.parametrize(
    ("question", "named"),
    [
        (f"SELECT COUNT(*) {VISITS} GROUP BY z.cost", "GROUP BY"),
        (f"SELECT COUNT(*) {VISITS} HAVING COUNT(*) > 1", "HAVING"),
        (f"SELECT COUNT(*) {VISITS} ORDER BY 1", "ORDER BY"),
        (f"SELECT COUNT(*) {VISITS} LIMIT 1", "LIMIT"),
        (f"SELECT DISTINCT COUNT(*) {VISITS}", "DISTINCT"),
        (f"SELECT COUNT(*) OVER () {VISITS}", "gives one number"),
        (f"SELECT z.cost {VISITS}", "gives one number"),
        (f"SELECT COUNT(*) + cost {VISITS}", "gives one number"),
        (f"SELECT 1 {VISITS}", "gives one number"),
    ],
)
def test_what_a_subquery_about_one_person_may_not_say_is_named(question, named):
    for form in (
        "SELECT COUNT(*) AS n FROM pat AS p WHERE ({}) > 0",
        "SELECT COUNT(*) AS n FROM pat AS p, LATERAL ({}) AS s",
    ):
        with pytest.raises(UnsupportedQueryError, match=named):
            sql.parse(form.format(question), POLICY)


@pytest.mark.parametrize(
    "joined",
    [
        "LEFT JOIN LATERAL (SELECT COUNT(*) AS v {}) AS s ON s.v > 1",
        "LEFT JOIN LATERAL (SELECT COUNT(*) AS v {}) AS s ON FALSE",
        "RIGHT JOIN LATERAL (SELECT COUNT(*) AS v {}) AS s ON TRUE",
        ", LATERAL (SELECT COUNT(*) AS v, SUM(z.cost) AS w {}) AS s(w, v)",
        "NATURAL JOIN LATERAL (SELECT COUNT(*) AS age {}) AS s",
    ],
)
def test_a_lateral_join_that_is_none_of_one_row_each_is_refused(joined):
    with pytest.raises(UnsupportedQueryError, match=r"LATERAL|METHOD"):
        sql.parse(f"SELECT SUM(s.v) AS n FROM pat AS p {joined.format(VISITS)}", POLICY)


SETS = [
    "SELECT pid FROM pat {} SELECT pid FROM vis",
    "SELECT pid FROM pat {} SELECT pid FROM pat WHERE age > 3",
    "SELECT pid FROM pat WHERE age > 1 {} SELECT pid FROM pat WHERE age < 5",
    "SELECT pid FROM pat GROUP BY pid {} SELECT pid FROM pat WHERE age < 5",
    "SELECT DISTINCT pid FROM pat WHERE age < 4 OR age > 8 {} SELECT pid FROM pat GROUP BY pid",
    (
        "SELECT pid FROM pat WHERE age < 4 OR age > 8 {0} SELECT pid FROM pat WHERE age = 0 {0} "
        "SELECT pid FROM pat WHERE age = 2"
    ),
]


@pytest.mark.parametrize("inner", SETS)
@pytest.mark.parametrize("word", ["UNION", "INTERSECT", "EXCEPT"])
def test_sets_of_people_are_those_of_the_oracle(oracle, inner, word):
    question = f"SELECT COUNT(*) AS n FROM ({inner.format(word)}) AS p"
    if word == "UNION" and "vis" in inner:
        with pytest.raises(UnsupportedQueryError, match="different tables"):
            sql.parse(question, POLICY)
        return
    assert exact(question) == oracle.execute(question).fetchone()[0]


@pytest.mark.parametrize("inner", SETS)
@pytest.mark.parametrize("word", ["UNION", "INTERSECT", "EXCEPT"])
def test_sets_that_keep_equal_rows_are_refused(inner, word):
    for form in (
        "SELECT COUNT(*) AS n FROM ({}) AS p",
        "WITH p AS ({}) SELECT COUNT(*) AS n FROM p",
        "SELECT COUNT(*) AS n FROM ({} LIMIT 2) AS p",
    ):
        with pytest.raises(QueryError, match=f"{word} ALL counts a person|LIMIT") as refused:
            sql.parse(form.format(inner.format(f"{word} ALL")), POLICY)
        assert refused.value.hint is None or "LIMIT" in form  # nothing else has the same meaning


@pytest.mark.parametrize(
    "inner",
    [
        "SELECT pid FROM pat GROUP BY pid, age EXCEPT SELECT pid FROM vis WHERE cost > 5",
        "SELECT pid FROM pat GROUP BY pid, age UNION SELECT pid FROM pat",
        "SELECT pid FROM pat UNION SELECT age FROM pat",
    ],
)
def test_sets_of_anything_but_people_are_refused(inner):
    with pytest.raises(UnsupportedQueryError):
        sql.parse(f"SELECT COUNT(*) AS n FROM ({inner}) AS p", POLICY)


PRESENT = "FROM pat AS p LEFT JOIN (SELECT DISTINCT pid FROM vis) AS s ON s.pid = p.pid"


@pytest.mark.parametrize("test", ["s.pid IS NULL", "s.pid IS NOT NULL", "NOT (s.pid) IS NULL"])
def test_the_unit_of_a_left_join_says_who_has_rows(oracle, test):
    for question in (
        f"SELECT COUNT(*) AS n {PRESENT} WHERE {test}",
        f"SELECT COUNT(s.pid) AS n {PRESENT} WHERE {test}",
    ):
        assert exact(question) == oracle.execute(question).fetchone()[0]


@pytest.mark.parametrize(
    "question",
    [
        f"SELECT COUNT(*) AS n {PRESENT} WHERE s.pid > 1",
        f"SELECT s.pid AS k, COUNT(*) AS n {PRESENT} GROUP BY s.pid",
        f"SELECT SUM(s.pid) AS n {PRESENT}",
        f"SELECT MAX(s.pid) AS n {PRESENT}",
        (
            "SELECT COUNT(*) AS n FROM pat AS p WHERE "
            "(SELECT COUNT(*) FROM vis AS z, pat AS p WHERE z.pid = p.pid) > 3"
        ),
    ],
)
def test_the_unit_stands_for_nothing_else(question):
    with pytest.raises(QueryError):
        sql.parse(question, POLICY)


def test_a_number_of_ten_digits_is_no_number_of_nine():
    for call in ("DATEADD(day, 1000000000, d)", "ADD_MONTHS(d, 1000000000)"):
        with pytest.raises(QueryError):
            sql.parse(f"SELECT COUNT(*) AS n FROM t WHERE {call} > DATE '2020-01-01'", DATED)


DATED = pol.loads(
    """
[budget]
epsilon = "1"
[tables.t.columns]
d = { type = "date", min = 2020-01-01, max = 2021-12-31 }
m = { type = "timestamp", min = 2020-01-01T00:00:00, max = 2021-12-31T23:59:59 }
"""
)


def test_a_mean_of_means_is_divided_outside(oracle):
    theirs = "SELECT AVG(a) AS n FROM (SELECT pid, AVG(age) AS a FROM pat GROUP BY pid) AS s"
    with pytest.raises(UnsupportedQueryError, match="divided outside") as refused:
        sql.parse(theirs, POLICY)
    own = refused.value.hint
    assert "AVG((a_sum / a_count))" in own
    assert oracle.execute(own).fetchone() == oracle.execute(theirs).fetchone()
    sql.parse(own, POLICY)


def test_a_date_is_compared_with_a_moment_as_its_midnight():
    rows = [(d, t) for d in ("2020-02-01", "2020-02-02") for t in ("00:00:00", "13:30:00")]
    days = [dt.date.fromisoformat(d) for d, _ in rows] * 2
    moments = [dt.datetime.fromisoformat(f"2020-02-0{k} {t}") for k in (1, 2) for _, t in rows]
    moments_of = pa.table({"d": days, "m": pa.array(moments, pa.timestamp("s"))})
    tests = [f"{a} {op} {b}" for op in ("<", "<=", "=", "<>", ">=", ">") for a, b in ("dm", "md")]
    for test in [*tests, "NOT d > m"]:
        question = f"SELECT COUNT(*) AS n FROM t WHERE {test}"
        (found,) = audit.measurements(DATED, question, {"t": moments_of}, salt=1)
        truth = duckdb.execute(question.replace("FROM t", "FROM moments_of")).fetchall()
        assert dict(found.exact).get((), 0) == truth[0][0], test


@pytest.mark.parametrize(
    ("call", "why"), [("LAG(age)", "the row before"), ("ROW_NUMBER()", "OVER")]
)
def test_an_order_of_one_persons_rows_has_no_hint_about_something_else(call, why):
    over = f"{call} OVER (PARTITION BY pid ORDER BY age)"
    with pytest.raises(UnsupportedQueryError, match=why) as refused:
        sql.parse(f"SELECT COUNT(*) AS n FROM (SELECT {over} AS k FROM pat) AS s", POLICY)
    assert refused.value.hint is None


@pytest.mark.parametrize("test", ["p.age < z.age", "z.age > p.age"])
def test_another_alias_is_no_hint_for_the_row_outside(test):
    """Pasted, it was accepted and another question: no row is below itself."""
    inner = f"SELECT 1 FROM pat AS z WHERE z.pid = p.pid AND {test}"
    with pytest.raises(UnknownNameError, match="known by its unit alone") as refused:
        sql.parse(f"SELECT COUNT(*) AS n FROM pat AS p WHERE EXISTS ({inner})", POLICY)
    assert refused.value.hint is None


@pytest.mark.parametrize("unused", ["SUM(vis.cost) AS s", "MAX(vis.cost) AS s", "COUNT(*) AS s"])
def test_a_number_of_one_person_that_nobody_reads_is_no_obstacle(oracle, unused):
    """Limits above a join leave out columns that nobody reads, and what is computed of them."""
    inner = (
        f"SELECT pat.pid, COUNT(*) AS n, {unused} FROM pat JOIN vis ON pat.pid = vis.pid "
        "GROUP BY pat.pid"
    )
    question = f"SELECT COUNT(*) AS k FROM ({inner}) AS p WHERE n > 4"
    assert exact(question) == oracle.execute(question).fetchone()[0] == 1
