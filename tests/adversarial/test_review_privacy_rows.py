"""Attacks on row expressions that once worked, each as a test.

A constant beyond 64 bits, a bucket edge, or a bound that only WHERE proves made a
run fail depending on one person's data: a failing run costs next to nothing and
tells the truth. A text that is not quite a text wrote its own SQL. A name that a
subquery gives away meant something else. All are certain, none is statistical.
"""

from __future__ import annotations

from dataclasses import replace

import psycopg
import pyarrow as pa
import pytest

import discreet as dc
from discreet import frame as f
from discreet import policy as pol
from discreet import sql
from discreet._text import plain_str
from discreet.errors import EngineError, ParameterError, QueryError
from discreet.plan import (
    Filter,
    Limits,
    Measure,
    MeasureKind,
    Scan,
    aggregate,
    describe,
    lower,
    of_column,
)
from discreet.plan import expr as ex

PEOPLE = """
[policy]
name = "rows-review"
[budget]
epsilon = "100"
delta = "1e-6"
[tables.people]
unit = "person_id"
max_rows_per_unit = 2
[tables.people.columns]
sex    = { type = "category", values = ["F", "M", "X"] }
age    = { type = "integer", min = 0, max = 115 }
income = { type = "real", min = 0, max = 200_000, step = "0.01" }
"""
REGION = """
[tables.r]
public = true
[tables.r.columns]
sex = { type = "category", values = ["F", "M", "X"] }
w   = { type = "integer", min = 0, max = 5 }
"""
TRUTH = 23456.78
COUNT = 600


def walk(expr):
    """All nodes of an expression."""
    yield expr
    for child in expr.children:
        yield from walk(child)


def named(engine):
    return (PEOPLE + REGION).replace("rows-review", f"rows-{engine}")


def people():
    """Many modest incomes, and one man of 95 whose income is asked for."""
    return {
        "person_id": [*range(COUNT), 1002],
        "sex": ["F"] * COUNT + ["M"],
        "age": [i % 90 for i in range(COUNT)] + [95],
        "income": [(i * 7.0) % 9000 for i in range(COUNT)] + [TRUTH],
    }


@pytest.fixture(scope="module", autouse=True)
def state(tmp_path_factory):
    """Keep ledgers, and what remembers them, away from the home of whoever runs this."""
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="module")
def duck(state):
    tables = {"people": pa.table(people()), "r": pa.table({"sex": ["F", "M", "X"], "w": [1, 2, 3]})}
    with dc.open(tables, policy=named("duck"), ledger=state / "duck") as curator:
        yield curator


@pytest.fixture(scope="module")
def postgres(postgres_url, state):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS rows_review CASCADE")
        connection.execute("CREATE SCHEMA rows_review")
        connection.execute("SET search_path = rows_review")
        connection.execute(
            "CREATE TABLE people(person_id int8, sex text, age int, income float8);"
            "CREATE TABLE r(sex text, w int); INSERT INTO r VALUES ('F', 1), ('M', 2), ('X', 3)"
        )
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO people VALUES (%s, %s, %s, %s)",
                list(zip(*people().values(), strict=True)),
            )
        with dc.open(connection, policy=named("postgres"), ledger=state / "pg") as curator:
            yield curator


@pytest.fixture(params=["duck", pytest.param("postgres", marks=pytest.mark.races)])
def curator(request):
    return request.getfixturevalue(request.param)


def fails(curator, text):
    """Whether a run fails: the one bit that the attacks read."""
    try:
        curator.sql(text, epsilon="0.001", fresh=True)
    except EngineError:
        return True
    return False


# --- constants beyond 64 bits --------------------------------------------------------------


@pytest.mark.parametrize(
    "test",
    [
        "income IN (4000000000000000000)",
        "income IN (1, 4000000000000000000)",
        "income NOT IN (4000000000000000000)",
        "WIDTH_BUCKET(income, -92233720368547758.07, 92233720368000000, 2) = 1",
        "WIDTH_BUCKET(income, -92233720368540000, 92233720368000000, 2) = 1",
        "WIDTH_BUCKET(income + 0.08, -92233720368547757, 92233720368547757, 2) = 1",
        "income < 4000000000000000000",
        "income = 4000000000000000000",
        "income <> 4000000000000000000",
        "income BETWEEN -4000000000000000000 AND 4000000000000000000",
        "LEAST(COALESCE(income, 0), 4000000000000000000) > 1",
    ],
)
@pytest.mark.parametrize("who", ["age = 95", "age = 40", "age = 99", "TRUE"])
def test_constants_of_any_width_run_whoever_is_there(curator, test, who):
    assert not fails(curator, f"SELECT COUNT(*) AS n FROM people WHERE {who} AND {test}")


def test_income_is_not_read_through_an_overflow(duck):
    """The attack of 25 questions: x + 2^63 − 1 − cents overflows just above `cents`."""

    def over(cents):
        j = -(-(cents + 1) // 100)
        off, k = 8 + 100 * j - (cents + 1), 92233720368547758 - j
        return fails(
            duck,
            "SELECT COUNT(*) AS n FROM people WHERE sex = 'M' AND age = 95 AND "
            f"WIDTH_BUCKET(income + {off // 100}.{off % 100:02d}, -{k}, {k}, 2) = 1",
        )

    truth = round(TRUTH * 100)
    assert {over(c) for c in (0, 10**6, truth - 1, truth, truth + 1, 10**7)} == {False}


def test_constants_outside_the_range_leave_no_branch():
    age = ex.Column("age", of_column(pol.Integer("age", 0, 115)))
    assert ex.OneOf(age, (4, 2**64, -1)).codes == (4,)
    bucket = ex.Bucket(age, (-(2**70), 0, 10, 2**63))
    assert (bucket.edges, bucket.first, bucket.type.lo, bucket.type.hi) == ((10,), 2, 2, 3)
    assert ex.Clamp(age, -(2**70), 2**70).type == age.type
    assert (ex.Clamp(age, -(2**70), 2**70).lo, ex.Clamp(age, -(2**70), 7).hi) == (0, 7)
    with pytest.raises(ParameterError, match="62 bits"):
        ex.Clamp(age, 2**62, 2**62)
    with pytest.raises(ParameterError, match="lie in its type"):
        ex.Constant(2**64, age.type)


@pytest.mark.parametrize(
    ("test", "words"),
    [
        ("age < 17.5", "age < 18"),
        ("age <= 17.5", "age <= 17"),
        ("age > 17.5", "age > 17"),
        ("age >= 17.5", "age >= 18"),
        ("age >= 18", "age >= 18"),
        ("18 <= age", "age >= 18"),
        ("age = 17.5", "age in ()"),
        ("age <> 17.5", "not (age in ())"),
        ("age > 115", "age > 115"),
        ("age >= 0", "age >= 0"),
        ("age < 0", "age < 0"),
        ("age < 1e30", "age <= 115"),
        ("age > -5.5", "age >= 0"),
        ("age <= -1e30", "age < 0"),
        ("age >= 1000", "age > 115"),
        ("age IN (1, 17.5, 1e30)", "age = 1"),
    ],
)
def test_comparisons_with_constants_settle_on_the_grid(test, words):
    table = pol.Table("people", [pol.Integer("age", 0, 115)])
    policy = pol.Policy([table], pol.Budget("1"))
    query = sql.parse(f"SELECT COUNT(*) AS n FROM people WHERE {test}", policy).query
    assert f"where {words}" in describe(query)


# --- bounds that WHERE proves --------------------------------------------------------------


def cube(cents):
    """A product that overflows 63 bits where the income is above `cents`."""
    shift = 2**21 - 1 - cents
    d = f"{'-' if shift < 0 else ''}{abs(shift) // 100}.{abs(shift) % 100:02d}"
    return f"(income + {d})*({d} + income)*(income + {d} + 0)"


def pushed(cents, who):
    """A key that a join lets an engine compute before WHERE."""
    ors = (
        "(income IN (0) AND w=1) OR (income IN (0) AND w=2 AND age<>w) "
        "OR (income BETWEEN 0 AND 0.001 AND w>2)"
    )
    return (
        f"SELECT CASE WHEN {who} THEN {cube(cents)} END AS k, COUNT(*) AS n "
        f"FROM people p JOIN r ON p.sex = r.sex WHERE {ors} GROUP BY 1"
    )


def reordered(cents, who):
    """A key that is cheaper to test than a long WHERE."""
    forms = ["income = 0", "income <= 0", "income < 0.01", "income BETWEEN 0 AND 0",
             "income IN (0)"]  # fmt: skip
    ors = " OR ".join(f"({forms[a % 5]} AND age={a})" for a in range(40))
    return (
        f"SELECT CASE WHEN {who.replace('p.', '')} THEN CASE WHEN {cube(cents)} > 1 THEN 'a' "
        f"ELSE 'b' END ELSE 'b' END AS k, COUNT(*) AS n FROM people WHERE {ors} GROUP BY 1"
    )


@pytest.mark.parametrize("shape", [pushed, reordered])
@pytest.mark.parametrize("cents", [440_000, 1_000_000, 2_345_677, 2_345_678, 3_000_000, 3_700_000])
def test_keys_are_safe_on_rows_that_where_excludes(curator, shape, cents):
    assert not fails(curator, shape(cents, "p.sex='M' AND age=95"))
    assert not fails(curator, shape(cents, "p.sex='M' AND age=96"))


def test_no_relation_takes_bounds_on_trust():
    """A column narrower than its relation gives it cannot stand in a plan."""
    scan = Scan(pol.Table("people", [pol.Integer("age", 0, 115)]))
    believed = ex.Column("age", scan.schema["age"].within(3, 7))
    one = Measure(MeasureKind.SUM, believed)
    with pytest.raises(ParameterError, match="believed, not enforced"):
        Filter(scan, ex.OneOf(believed, (3,)))
    with pytest.raises(ParameterError, match="believed, not enforced"):
        aggregate(scan, (), (one,), Limits(rows=1))
    guarded = ex.Guard(ex.Column("age", scan.schema["age"]), 3, 7)
    assert aggregate(scan, (), (replace(one, expr=guarded),), Limits(rows=1))


def test_what_where_proves_stands_behind_guards(duck):
    texts = [
        "SELECT age, SUM(income) AS s FROM people WHERE age < 20 AND income > 5 GROUP BY age",
        "SELECT sex, MEDIAN(income) AS s FROM people WHERE sex <> 'X' AND age = 3 GROUP BY sex",
        "SELECT SUM(CASE WHEN income < 9 THEN income * income * income END) AS s FROM people",
    ]
    for text in texts:
        for asked in lower(sql.parse(text, duck.policy).query).aggregates:
            exprs = [k.expr for k in asked.keys] + [m.expr for m in asked.measures]
            found = [n for e in exprs if e is not None for n in walk(e)]
            assert any(isinstance(n, ex.Guard) for n in found) or not found


# --- meaning -------------------------------------------------------------------------------


def test_columns_of_a_subquery_are_not_renamed_in_silence(duck):
    for text in (
        "SELECT SUM(age) AS n FROM (SELECT age, income FROM people) AS s(income, age)",
        "WITH s(income, age) AS (SELECT age, income FROM people) SELECT SUM(age) AS n FROM s",
        "SELECT COUNT(*) AS n FROM people AS p(a, b)",
    ):
        with pytest.raises(QueryError, match="renaming the columns"):
            sql.parse(text, duck.policy)


def test_a_name_given_by_a_subquery_hides_the_unit(duck):
    def words(text):
        return describe(sql.parse(text, duck.policy).query)

    hidden = "SELECT COUNT(DISTINCT person_id) AS n FROM (SELECT age AS person_id FROM people) AS s"
    assert "count(distinct age)" in words(hidden)
    kept = "SELECT COUNT(DISTINCT person_id) AS n FROM (SELECT age, person_id FROM people) AS s"
    assert "count(units)" in words(kept)
    assert "count(units)" in words("SELECT COUNT(DISTINCT people.person_id) AS n FROM people")


@pytest.mark.parametrize("table", ["people@dblink", "people@link p", "people AS @x"])
def test_links_to_other_databases_are_refused(duck, table):
    with pytest.raises(QueryError):
        sql.parse(f"SELECT COUNT(*) AS n FROM {table}", duck.policy)


# --- texts that are not quite texts --------------------------------------------------------

WORDS = """
[policy]
name = "words-review"
[budget]
epsilon = "20"
delta = "1e-6"
[tables.people]
[tables.people.columns]
city = { type = "text" }
age  = { type = "integer", min = 0, max = 115 }
"""


class Twin(str):
    """Equal to nothing but itself."""

    __slots__ = ()

    def __str__(self):
        return self

    def __hash__(self):
        return str.__hash__(self)

    def __eq__(self, other):
        return str.__eq__(self, other) if type(other) is str else self is other

    def __ne__(self, other):
        return not self == other


class Injection(str):
    """Answers every question about itself with SQL."""

    __slots__ = ()
    TEXT = (
        "x')) UNION ALL SELECT 'a' FROM range(1000000) WHERE EXISTS (SELECT secret FROM people)--"
    )

    def __str__(self):
        return self

    def replace(self, *_):
        return self.TEXT

    def __format__(self, _):
        return self.TEXT

    def __iter__(self):
        return iter(self.TEXT)

    casefold = lower = upper = strip = __repr__ = lambda self: self.TEXT


@pytest.fixture
def cities():
    table = pa.table({"city": ["Bern", "Basel"], "age": [30, 40], "secret": ["s1", "s2"]})
    with dc.open(table, policy=WORDS, ledger=":memory:") as curator:
        yield curator


def test_a_text_is_itself_and_nothing_else(cities):
    table = cities.table("people")
    many = f.col("city").is_in(*[Twin("Basel") for _ in range(500)])
    query = table.where(many).group_by("city").agg(n=f.count()).query
    assert query.keys[0].codes == ("Basel",)
    assert type(query.keys[0].codes[0]) is str


def strings(node, seen=None):
    """Every string that a plan holds."""
    seen = set() if seen is None else seen
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict):
        for key, value in node.items():
            yield from strings(key, seen)
            yield from strings(value, seen)
    elif isinstance(node, tuple | list | set | frozenset):
        for item in node:
            yield from strings(item, seen)
    elif hasattr(node, "__dataclass_fields__") and not isinstance(node, type):
        for name in node.__dataclass_fields__:
            yield from strings(getattr(node, name), seen)


@pytest.mark.parametrize(
    "ask",
    [
        lambda t, x: t.where(f.col("city") == x("Bern")).agg(n=f.count()),
        lambda t, x: t.where(f.col(x("city")) == "Bern").agg(n=f.count()),
        lambda t, x: t.where(x("city = 'Bern'")).agg(n=f.count()),
        lambda t, x: (
            t.where(f.col("city").is_in(x("Bern"), "a")).group_by(x("city")).agg(n=f.count())
        ),
        lambda t, x: t.agg(**{x("n"): f.count()}),
        lambda t, x: t.agg(n=f.Term("call", (x("SUM"), f.col("age")))),
        lambda t, x: t.group_by(**{x("k"): "age"}).agg(n=f.count()),
        lambda t, x: t.agg(n=f.count()).order_by(x("n")),
        lambda t, x: t.group_by("city").agg(n=f.count()).other(x("rest")),
    ],
)
def test_no_subclass_of_text_enters_the_plan(cities, ask):
    query = ask(cities.table("people"), Injection).query
    assert not [s for s in strings(query) if isinstance(s, Injection)]
    assert query.hash == ask(cities.table("people"), str).query.hash


def test_sql_text_of_a_subclass_is_read_as_written(cities):
    text = "SELECT COUNT(*) AS n FROM people WHERE city = 'Bern'"
    assert sql.parse(Injection(text), cities.policy).query == sql.parse(text, cities.policy).query


def test_names_in_a_policy_are_plain():
    table = pol.Table(
        Injection("people"),
        [pol.Text(Injection("city")), pol.Category(Injection("sex"), [Injection("F"), "M"])],
        unit=Injection("id"),
        max_rows_per_unit=1,
    )
    policy = pol.Policy([table], pol.Budget("1"), name=Injection("p"))
    found = [policy.name, *policy.tables, table.name, table.unit, *table.columns]
    found += [c.name for c in table.columns.values()] + list(table.columns["sex"].values)
    assert {type(s) for s in found} == {str}


@pytest.mark.parametrize("value", [b"x", 3, None, ["x"]])
def test_what_is_no_text_is_refused(value):
    with pytest.raises(ParameterError, match="must be text"):
        plain_str(value)
    with pytest.raises(QueryError):
        sql.parse(value, pol.Policy([pol.Table("t", [pol.Text("c")])], pol.Budget("1")))


def test_a_false_class_is_seen_through():
    class Pretender:
        __class__ = str

    assert isinstance(Pretender(), str)
    with pytest.raises(ParameterError, match="must be text"):
        plain_str(Pretender())
