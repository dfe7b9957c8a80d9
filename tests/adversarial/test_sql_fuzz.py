"""Whatever text comes in, a query or a refusal comes out, and soon."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import frame, plan, sql
from discreet.errors import DiscreetError
from discreet.policy import (
    Boolean,
    Budget,
    Category,
    Date,
    Integer,
    Policy,
    Real,
    Table,
    Text,
    Timestamp,
)

POLICY = Policy(
    tables=[
        Table(
            "people",
            [
                Category("sex", ["F", "M", "X"]),
                Integer("age", 0, 115),
                Real("income", 0, 200_000, step="0.01"),
                Boolean("married"),
                Date("joined", "2000-01-01", "2024-12-31"),
                Timestamp("seen", "2020-01-01", "2025-01-01"),
                Text("city"),
            ],
            unit="person_id",
            max_rows_per_unit=3,
        ),
        Table("regions", [Category("sex", ["F", "M", "X"]), Integer("n", 0, 9)], public=True),
    ],
    budget=Budget("1"),
)
SECONDS = 2.0


def parsed(text):
    """Return the query (None if refused) and the processor time it took."""
    start = time.process_time()
    try:
        query = sql.parse(text, POLICY, public_fanout={"regions": 2}).query
        assert len(query.hash) == 64
        assert plan.describe(query)
        said = ""
    except DiscreetError as error:
        query, said = None, str(error)
    assert len(said) < 600
    return query, time.process_time() - start


def survives(text):
    """Parse; anything but a query or one of our own errors is a failure, and so is a hang."""
    query, seconds = parsed(text)
    if seconds >= SECONDS:
        # a pause of the test process itself does not come back; a slow question does
        query, seconds = parsed(text)
    assert seconds < SECONDS
    return query


WORDS = """
SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT OFFSET AS AND OR NOT IN IS NULL TRUE FALSE BETWEEN
CASE WHEN THEN ELSE END JOIN LEFT INNER ON USING WITH DISTINCT UNION ALL FILTER WITHIN OVER LIKE
COUNT( SUM( AVG( MEDIAN( QUANTILE( MODE( ROUND( ABS( FLOOR( COALESCE( WIDTH_BUCKET( CAST( EXTRACT(
LEAST( POWER( NULLIF( IF( DATE TIMESTAMP INTERVAL YEAR DIFFERENTIAL_PRIVACY OPTIONS( epsilon
ROLLUP( CUBE( GROUPING( SETS QUALIFY PARTITION ROWS PRECEDING EXISTS RANK() LAG( NTILE( BIN( LN(
REGEXP_LIKE( SQRT( EXP( ~ ~* RLIKE
PIVOT( FOR INTERSECT EXCEPT LATERAL( TOP PERCENT FETCH FIRST ONLY ROW_NUMBER() MIN_BY( MAX_BY(
COUNTIF( IFF( DECODE( NVL( SAFE_DIVIDE( QUANTILE(age,[0.5]) APPROX_QUANTILES( value_counts( dbo.
WITH(NOLOCK) && r'x' [sex] .mean()
people regions sex age income married joined seen city person_id n t contribution_bounds_per_row
=> ( ) ( ) , , . * + - / % = <> < >= :: || ; ' " ` [ ] { } ? $1 @x
0 1 -1 0.5 1e9 1e999 'F' 'Q' '2020-01-01' 'x' -- /* */ é \x01
""".split()  # noqa: SIM905 - a list of a hundred quoted words is no easier to read
SOUP = st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join)

VALUES = st.recursive(
    st.sampled_from(
        [
            "age",
            "income",
            "sex",
            "married",
            "joined",
            "seen",
            "city",
            "person_id",
            "nope",
            "1",
            "0",
            "0.5",
            "-3",
            "'F'",
            "'2020-01-01'",
            "NULL",
            "TRUE",
            "DATE '2020-01-01'",
            "*",
        ]
    ),
    lambda inner: st.one_of(
        st.builds(
            "({} {} {})".format,
            inner,
            st.sampled_from(["+", "-", "*", "/", "=", "<", ">=", "<>", "AND", "OR", "%", "||"]),
            inner,
        ),
        st.builds(
            "{}({})".format,
            st.sampled_from(
                ["ABS", "FLOOR", "CEIL", "ROUND", "YEAR", "NOT ", "-", "SUM", "COUNT", "F"]
            ),
            inner,
        ),
        st.builds("CASE WHEN {} THEN {} ELSE {} END".format, inner, inner, inner),
        st.builds("COALESCE({}, {})".format, inner, inner),
        st.builds("{} IN ({}, {})".format, inner, inner, inner),
        st.builds("{} BETWEEN {} AND {}".format, inner, inner, inner),
        st.builds("{} IS NOT NULL".format, inner),
        st.builds("WIDTH_BUCKET({}, {}, {}, {})".format, inner, inner, inner, inner),
        st.builds("CAST({} AS {})".format, inner, st.sampled_from(["INT", "DOUBLE", "DATE", "X"])),
    ),
    max_leaves=6,
)
AGGREGATES = st.one_of(
    st.just("COUNT(*)"),
    st.builds(
        "{}({})".format,
        st.sampled_from(
            ["COUNT", "SUM", "AVG", "VAR", "STDDEV_POP", "MEDIAN", "MIN", "MODE", "COUNT_IF"]
        ),
        VALUES,
    ),
    st.builds("QUANTILE({}, {})".format, VALUES, VALUES),
    st.builds("COUNT(DISTINCT {})".format, VALUES),
    st.builds("SUM({}) FILTER (WHERE {})".format, VALUES, VALUES),
    st.builds("COUNT(DISTINCT CASE WHEN {} THEN person_id END)".format, VALUES),
    st.builds("COUNTIF({}) OVER (PARTITION BY {})".format, VALUES, VALUES),
    st.builds("SUM({}, contribution_bounds_per_row => ({}, {}))".format, VALUES, VALUES, VALUES),
)
SELECTS = st.builds(
    "SELECT {}{}, {} AS a, {} FROM {}{}{}{}{}{}".format,
    st.sampled_from(
        ["", "", "WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, max_groups_contributed=1) "]
    ),
    VALUES,
    AGGREGATES,
    st.builds("{} {} {}".format, AGGREGATES, st.sampled_from("+-*/<"), AGGREGATES),
    st.sampled_from(
        [
            "people",
            "people AS p",
            "people JOIN regions USING (sex)",
            "regions",
            "people LEFT JOIN regions r ON people.sex = r.sex",
            "(SELECT *, age AS x FROM people WHERE age > 3) AS people",
            "[dbo].[people] WITH (NOLOCK)",
            "(SELECT sex, age FROM people) AS t PIVOT (COUNT(*) FOR sex IN ('F', 'M')) AS people",
            "people LEFT JOIN people AS o ON people.person_id = o.person_id AND o.age > 3",
            "(SELECT person_id, MIN_BY(sex, joined) AS sex FROM people GROUP BY 1) AS people",
            "(SELECT person_id FROM people INTERSECT SELECT person_id FROM people) AS people",
        ]
    ),
    st.one_of(st.just(""), st.builds(" WHERE {}".format, VALUES)),
    st.one_of(st.just(""), st.just(" GROUP BY 1"), st.builds(" GROUP BY 1, {}".format, VALUES)),
    st.one_of(st.just(""), st.builds(" HAVING {} > {}".format, AGGREGATES, VALUES)),
    st.one_of(st.just(""), st.sampled_from([" ORDER BY a", " ORDER BY 2 DESC", " ORDER BY sex"])),
    st.sampled_from(["", " LIMIT 3", " LIMIT -1", " LIMIT 1, 2", " OFFSET 2", " QUALIFY a = 1"]),
)


@settings(max_examples=1500)
@given(SOUP)
def test_token_soup(text):
    survives(text)


@settings(max_examples=500)
@given(SELECTS)
def test_selects_that_look_right(text):
    survives(text)


@pytest.mark.long
@settings(max_examples=20_000)
@given(st.one_of(SOUP, SELECTS))
def test_much_more_of_both(text):
    survives(text)


@settings(max_examples=400)
@given(st.text(max_size=60))
def test_any_text_anywhere(text):
    survives(text)
    survives(f"SELECT COUNT(*) FROM people WHERE {text}")
    survives(f"SELECT COUNT(*) FROM people WHERE city = '{text}'")
    try:
        _ = (
            frame.Table("people", POLICY)
            .where(frame.col("city") == text)
            .agg(n=frame.count())
            .query
        )
        _ = frame.Table("people", POLICY).where(text).agg(n=frame.count()).query
    except DiscreetError:
        pass


def test_the_fuzz_reaches_queries_and_not_only_refusals():
    assert survives("SELECT sex, COUNT(*) AS a, AVG(age) * 2 FROM people GROUP BY 1 HAVING a > 3")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM people WHERE " + "(" * 60 + "age > 1" + ")" * 60,
        "SELECT COUNT(*) FROM people WHERE " + "(" * 5000 + "age > 1" + ")" * 5000,
        "SELECT SUM(" + "ABS(" * 58 + "age" + ")" * 58 + ") FROM people",
        "SELECT COUNT(*) FROM people WHERE " + "NOT " * 4000 + "married",
        "SELECT SUM(" + "- " * 5000 + "age) FROM people",
        "SELECT SUM(" + "+".join(["age"] * 4000) + ") FROM people",
        "SELECT SUM(" + "CASE WHEN married THEN " * 500 + "1" + " END" * 500 + ") FROM people",
        "SELECT COUNT(*) FROM " + "(SELECT * FROM " * 58 + "people" + ")" * 58,
        "SELECT " + ",".join(["COUNT(*)"] * 2000) + " FROM people",
        "SELECT COUNT(*) FROM people " + "JOIN regions USING (sex) " * 400,
        "SELECT 1" + " UNION SELECT 1" * 1300,
        "SELECT SUM(age" + "::int" * 3000 + ") FROM people",
        "SELECT SUM(a" + ".a" * 5000 + ") FROM people",
        "SELECT SUM(age" + "[1]" * 5000 + ") FROM people",
        "SELECT COUNT(*) FROM people " + "/*" * 5000,
        "SELECT COUNT(*) FROM people WHERE age > 1" + "0" * 10_000,
        "SELECT COUNT(*) FROM people WHERE age > 1e999999999",
        "SELECT SUM(age" + "/3" * 50 + "+income) FROM people",
        "SELECT 'F" * 3000,
        "x" * 10**6,
        "\ud800",
        "SELECT COUNT(*) FROM people WHERE city = '\x00'",
    ],
)
def test_hostile_sizes_are_refused_quickly(text):
    assert survives(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM people WHERE " + " AND ".join(["age > 1"] * 1500),
        "SELECT COUNT(*) FROM people WHERE " + " OR ".join(f"age = {i}" for i in range(1200)),
        "SELECT COUNT(*) FROM people WHERE age IN (" + ",".join(map(str, range(3500))) + ")",
        "SELECT " + ", ".join(f"SUM(age + {i}) AS s{i}" for i in range(150)) + " FROM people",
    ],
)
def test_long_but_flat_questions_are_answered_quickly(text):
    assert survives(text) is not None
