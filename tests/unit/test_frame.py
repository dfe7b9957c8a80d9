"""The fluent API asks the same questions as SQL."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from functools import reduce

import pytest

from discreet import frame as f
from discreet import plan, sql
from discreet.errors import DiscreetError, QueryError, UnknownNameError
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
)

PEOPLE = Table(
    "people",
    [
        Category("sex", ["F", "M", "X"]),
        Category("region", ["N", "S"]),
        Integer("age", 0, 115),
        Real("income", 0, 200_000, step="0.01"),
        Boolean("married"),
        Date("joined", "2000-01-01", "2024-12-31"),
        Text("city"),
        Integer("odd name", 0, 3),
    ],
    unit="person_id",
    max_rows_per_unit=3,
)
REGIONS = Table("regions", [Category("region", ["N", "S"]), Integer("pop", 0, 50)], public=True)
POLICY = Policy(tables=[PEOPLE, REGIONS], budget=Budget("1"))
people = f.Table("people", POLICY, public_fanout={"regions": 1})

NORTH = people.where("region = 'N'")
SOUTH = "person_id {}IN (SELECT person_id FROM people WHERE region = 'S')"
SETS = """SELECT COUNT(*) AS n FROM (SELECT person_id FROM people WHERE region = 'N'
  {} SELECT person_id FROM people WHERE region = 'S') AS p"""
PIVOT = """SELECT * FROM (SELECT region, sex, income FROM people)
  PIVOT (AVG(income) FOR sex IN ('F', 'M'))"""
PAIRS = [
    (
        people.group_by("region").agg(
            F="AVG(income) FILTER (WHERE sex = 'F')", M="AVG(income) FILTER (WHERE sex = 'M')"
        ),
        PIVOT,
    ),
    (NORTH.where(SOUTH.format("")).per_unit().agg(n=f.count()), SETS.format("INTERSECT")),
    (NORTH.where(SOUTH.format("NOT ")).per_unit().agg(n=f.count()), SETS.format("EXCEPT")),
    (
        people.where("region = 'N' OR region = 'S'").per_unit().agg(n=f.count()),
        SETS.format("UNION"),
    ),
    (people.agg(n=f.count()), "SELECT COUNT(*) AS n FROM people"),
    (
        people.where("age >= 18").group_by("sex").agg(n=f.count(), pay=f.mean("income")),
        "SELECT sex, COUNT(*) AS n, AVG(income) AS pay FROM people WHERE age >= 18 GROUP BY sex",
    ),
    (
        people.where("age >= 18", f.col("sex") != "X")
        .where(f.col("income") > 0.5)
        .agg(n=f.count()),
        "SELECT COUNT(*) AS n FROM people WHERE age >= 18 AND sex <> 'X' AND income > 0.5",
    ),
    (
        people.where((f.col("age") < 18) | ~f.col("married")).agg(n=f.count("city")),
        "SELECT COUNT(city) AS n FROM people WHERE age < 18 OR NOT married",
    ),
    (
        people.where(f.col("age").between(18, 65), f.col("sex").is_in("F", "M")).agg(n=f.count()),
        "SELECT COUNT(*) AS n FROM people WHERE age BETWEEN 18 AND 65 AND sex IN ('F', 'M')",
    ),
    (
        people.where(f.col("joined") >= dt.date(2010, 1, 1)).agg(n=f.count()),
        "SELECT COUNT(*) AS n FROM people WHERE joined >= '2010-01-01'",
    ),
    (
        people.where(~f.col("city").is_null(), f.col("income") >= Decimal("0.1")).agg(n=f.count()),
        "SELECT COUNT(*) AS n FROM people WHERE city IS NOT NULL AND income >= 0.1",
    ),
    (
        people.group_by("sex", year="EXTRACT(YEAR FROM joined)").agg(m=f.median("age")),
        "SELECT sex, EXTRACT(YEAR FROM joined) AS year, MEDIAN(age) AS m FROM people GROUP BY 1, 2",
    ),
    (
        people.group_by("sex")
        .agg(n=f.count(), share=f.sum("income") / f.count() * 100)
        .having("n > 10")
        .order_by("n", descending=True)
        .limit(3),
        """SELECT sex, COUNT(*) AS n, SUM(income) / COUNT(*) * 100 AS share FROM people
        GROUP BY sex HAVING n > 10 ORDER BY n DESC LIMIT 3""",
    ),
    (
        people.agg(
            units=f.count_distinct("person_id"),
            cities=f.count_distinct("city"),
            v=f.var("age"),
            vp=f.var("age", sample=False),
            s=f.std("age"),
            q=f.quantile("age", 0.1),
            lo=f.min("age"),
            hi=f.max("age"),
            top=f.mode("sex", 2),
            share=f.proportion("age >= 65"),
            women=f.count(where="sex = 'F'"),
            pay=f.sum("income", where=f.col("income") < 1000),
        ),
        """SELECT COUNT(DISTINCT person_id) AS units, COUNT(DISTINCT city) AS cities, VAR(age) AS v,
        VAR_POP(age) AS vp, STDDEV(age) AS s, QUANTILE(age, 0.1) AS q, MIN(age) AS lo,
        MAX(age) AS hi, MODE(sex, 2) AS top, AVG(age >= 65) AS share,
        COUNT(*) FILTER (WHERE sex = 'F') AS women,
        SUM(income) FILTER (WHERE income < 1000) AS pay FROM people""",
    ),
    (
        people.agg(a=f.sum(f.col("income") / 12 - 1), b=(2 - f.count()).round(1), c=-f.sum("age")),
        "SELECT SUM(income / 12 - 1) AS a, ROUND(2 - COUNT(*), 1) AS b, -SUM(age) AS c FROM people",
    ),
    (
        people.join("regions", on="region", how="left").group_by("pop").agg(n=f.count()),
        "SELECT pop, COUNT(*) AS n FROM people LEFT JOIN regions USING (region) GROUP BY pop",
    ),
    (
        people.group_by(f.col("odd name")).agg(n=f.count()),
        'SELECT "odd name", COUNT(*) AS n FROM people GROUP BY 1',
    ),
    # what people did, before what is asked about them
    (
        people.where("age >= 18")
        .per_unit(n=f.count(), first=f.min("joined"), pay=f.sum("income"))
        .where("n >= 2")
        .group_by(month="DATE_TRUNC('month', first)")
        .agg(people=f.count(), pay=f.mean("pay")),
        """SELECT DATE_TRUNC('month', first) AS month, COUNT(*) AS people, AVG(pay) AS pay FROM (
        SELECT person_id, COUNT(*) AS n, MIN(joined) AS first, SUM(income) AS pay FROM people
        WHERE age >= 18 GROUP BY person_id) AS people WHERE n >= 2 GROUP BY 1""",
    ),
    (
        people.group_by("sex").per_unit(n=f.count()).group_by("sex").agg(m=f.mean("n")),
        """SELECT sex, AVG(n) AS m FROM (SELECT person_id, sex, COUNT(*) AS n FROM people
        GROUP BY person_id, sex) AS people GROUP BY sex""",
    ),
    (
        people.where("joined IS NOT NULL")
        .per_unit(first="ARG_MIN_NULL(sex, joined)")
        .group_by("first")
        .agg(n=f.count()),
        """SELECT first, COUNT(*) AS n FROM (SELECT person_id, sex AS first, ROW_NUMBER() OVER (
        PARTITION BY person_id ORDER BY joined) AS rn FROM people WHERE joined IS NOT NULL)
        AS people WHERE rn = 1 GROUP BY first""",
    ),
    # shapes of other databases
    (
        people.group_by("sex").agg(n=f.count()).order_by("n").limit(1, offset=1),
        "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex ORDER BY n LIMIT 1, 1",
    ),
    (
        people.where(f.col("age") > 3).agg(n=f.count_distinct("person_id")),
        "SELECT COUNT(DISTINCT CASE WHEN age > 3 THEN person_id END) AS n FROM people",
    ),
    (
        people.group_by("region").agg(F=f.count(where="sex = 'F'"), M=f.count(where="sex = 'M'")),
        """SELECT * FROM (SELECT region, sex FROM people) AS t
        PIVOT (COUNT(*) FOR sex IN ('F', 'M')) AS p""",
    ),
    (
        people.group_by("sex").agg(m=f.mean("age")),
        "SELECT DISTINCT sex, AVG(age) OVER (PARTITION BY sex) AS m FROM people",
    ),
    (
        people.group_by("sex").agg(count=f.count()),
        "SELECT value_counts(sex) FROM people",
    ),
    (
        people.agg(q_25=f.quantile("age", 0.25), q_75=f.quantile("age", 0.75)),
        "SELECT QUANTILE(age, [0.25, 0.75]) AS q FROM people",
    ),
    (
        people.where("joined LIKE '2024-03%'").agg(
            n="COUNTIF(age >= 65)", s="SUMIF(income, age > 9)"
        ),
        """SELECT COUNT(*) FILTER (WHERE age >= 65) AS n, SUM(income) FILTER (WHERE age > 9) AS s
        FROM people WHERE joined LIKE '2024-03%'""",
    ),
    (
        people.where("person_id NOT IN (SELECT person_id FROM people WHERE age > 60)").agg(
            n=f.count()
        ),
        """SELECT COUNT(*) AS n FROM people LEFT JOIN people AS o ON people.person_id = o.person_id
        AND o.age > 60 WHERE o.person_id IS NULL""",
    ),
]


@pytest.mark.parametrize(("table", "text"), PAIRS)
def test_both_ways_of_asking_are_the_same_question(table, text):
    asked = sql.parse(text, POLICY, public_fanout={"regions": 1}).query
    assert table.query == asked
    assert table.query.hash == asked.hash


def test_each_step_gives_a_new_table():
    adults = people.where("age >= 18")
    assert not people.conditions
    assert len(adults.where("sex = 'F'").conditions) == 2
    assert len(adults.conditions) == 1


class Recorder:
    def __init__(self):
        self.calls = []

    def ask(self, query, **options):
        self.calls.append(("ask", query, options))
        return "answer"

    def preview(self, query, **options):
        self.calls.append(("preview", query, options))
        return "price"


def test_a_curator_is_asked_with_the_query_and_the_options():
    asker = Recorder()
    table = f.Table("people", POLICY, asker).agg(n=f.count())
    assert table.preview(epsilon="0.5") == "price"
    assert table.answer(epsilon="0.5", delta=0) == "answer"
    assert asker.calls == [
        ("preview", table, {"epsilon": "0.5"}),
        ("ask", table, {"epsilon": "0.5", "delta": 0}),
    ]
    with pytest.raises(QueryError, match="no curator"):
        people.agg(n=f.count()).answer(epsilon=1)


def test_column_names_and_constants_are_never_read_as_sql():
    with pytest.raises(UnknownNameError):
        _ = people.where(f.col("age > 3 OR age") > 1).agg(n=f.count()).query
    with pytest.raises(UnknownNameError):
        _ = people.where(f.col("sex") == "F' OR '1' = '1").agg(n=f.count()).query
    with pytest.raises(UnknownNameError):
        _ = f.Table("people WHERE age > 3", POLICY).agg(n=f.count()).query


@pytest.mark.parametrize(
    "make",
    [
        lambda: people.query,
        lambda: people.agg(n="age").query,
        lambda: people.agg(n=3).query,
        lambda: people.where("age >= 18; DROP TABLE people").agg(n=f.count()).query,
        lambda: people.where("age >= 18 GROUP BY sex").agg(n=f.count()).query,
        lambda: people.where("age >= 18, sex = 'F'").agg(n=f.count()).query,
        lambda: people.where("").agg(n=f.count()).query,
        lambda: people.where(18).agg(n=f.count()).query,
        lambda: people.where(f.col("age") > object()).agg(n=f.count()).query,
        lambda: people.where(f.col("age") > math.inf).agg(n=f.count()).query,
        lambda: people.where(f.col(3) > 1).agg(n=f.count()).query,
        lambda: people.limit("3"),
        lambda: people.limit(0).agg(n=f.count()).query,
        lambda: people.agg(n=f.count()).order_by("nn").query,
        lambda: people.agg(n=f.mode("sex", 0)).query,
        lambda: people.join("regions", on=[]),
        lambda: people.join("regions", on="region", how="outer"),
        lambda: people.join("people", on="region").agg(n=f.count()).query,
        lambda: people.agg(n=reduce(lambda a, _: a + 1, range(5000), f.count())).query,
        lambda: people.agg(n=f.Term("eval", ("1",))).query,
    ],
)
def test_misuse_is_refused(make):
    with pytest.raises(DiscreetError):
        make()


def test_long_chains_of_conditions_are_fine():
    anyone = reduce(lambda a, b: a | b, [f.col("age") == i for i in range(300)])
    assert people.where(anyone).agg(n=f.count()).query.hash


def test_unselected_text_keys_may_be_gathered():
    asked = sql.parse("SELECT city, COUNT(*) AS n FROM people GROUP BY 1", POLICY, other="rest")
    assert people.group_by("city").other("rest").agg(n=f.count()).query == asked.query


def test_a_term_has_no_truth_value():
    with pytest.raises(TypeError, match="combine conditions"):
        bool(f.col("age") > 3)


def test_a_table_prints_its_question():
    table = people.agg(n=f.count())
    assert str(table) == plan.describe(table.query)
    assert str(people) == "table people"
