"""What cannot be asked is refused by name, with a line that would work."""

from __future__ import annotations

import pickle

import pytest

from discreet import sql
from discreet.errors import DiscreetError, QueryError, UnknownNameError, UnsupportedQueryError
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
        Integer("age", 0, 115),
        Real("income", 0, 200_000, step="0.01"),
        Boolean("married"),
        Date("joined", "2000-01-01", "2024-12-31"),
        Text("city"),
        Integer("household", 0, 10**6),
    ],
    unit="household",
    max_rows_per_unit=3,
)
PRIVATE = Table("visits", [Integer("age", 0, 115)], unit="person_id", max_rows_per_unit=3)
REGIONS = Table("regions", [Category("sex", ["F", "M", "X"]), Integer("n", 0, 9)], public=True)
OLD = "WITH old AS (SELECT * FROM people WHERE age > 60)"
OWN = "SELECT household, SUM(income) AS n FROM old GROUP BY household"
POLICY = Policy(tables=[PEOPLE, PRIVATE, REGIONS], budget=Budget("1"))


def refusal(text):
    with pytest.raises(QueryError) as refused:
        sql.parse(text, POLICY, public_fanout={"regions": 1})
    return refused.value


@pytest.mark.parametrize(
    ("text", "name", "hint"),
    [
        ("SELECT COUNT(*) FROM peple", "peple", "people"),
        ("SELECT AVG(incme) FROM people", "incme", "income"),
        ("SELECT AVG(p.incme) FROM people AS p", "incme", "income"),
        ("SELECT AVG(peple.income) FROM people", "peple", "people"),
        ("SELECT COUNT(*) FROM people WHERE sex = 'f'", "f", "sex = 'F'"),
        ("SELECT COUNT(*) FROM people WHERE sex IN ('F', 'W')", "W", None),
        ("SELECT COUNT(DISTINCT persn_id) FROM visits", "persn_id", "person_id"),
        ("SELECT AVG(person_id) FROM visits", "person_id", None),
        ("SELECT COUNT(*) FROM 'people.parquet'", "people.parquet", None),
    ],
)
def test_unknown_names_come_with_the_nearest_known(text, name, hint):
    error = refusal(text)
    assert isinstance(error, UnknownNameError)
    assert f'"{name}"' in error.message
    assert error.hint == hint


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("SELECT * FROM people", "SELECT *"),
        ("SELECT DISTINCT sex FROM people", "DISTINCT"),
        ("SELECT COUNT(*) FROM people UNION SELECT COUNT(*) FROM visits", "UNION"),
        ("INSERT INTO people VALUES (1)", "INSERT"),
        ("DROP TABLE people", "DROP"),
        ("ATTACH 'x.db'", "ATTACH"),
        ("COPY people TO 'x'", "COPY"),
        ("PRAGMA show_tables", "PRAGMA"),
        ("SET x = 1", "SET"),
        ("SELECT MEDIAN(COUNT(*)) OVER () FROM people", "OVER"),
        ("SELECT COUNT(*) FROM people LIMIT 3 OFFSET 2", "OFFSET"),
        ("SELECT COUNT(*) FROM people TABLESAMPLE (10)", "SAMPLE"),
        ("SELECT COUNT(*) FROM people FOR UPDATE", "LOCKS"),
        ("SELECT sex, MEDIAN(age) FROM people GROUP BY ROLLUP (sex)", "several groups"),
        ("SELECT COUNT(*) FROM read_csv('x.csv')", "READ_CSV"),
        ("SELECT COUNT(*) FROM people, visits", "private"),
        ("SELECT COUNT(*) FROM people CROSS JOIN regions", "CROSS JOIN"),
        ("SELECT COUNT(*) FROM people JOIN visits USING (age)", "private"),
        ("SELECT COUNT(*) FROM people a JOIN people b USING (age)", "private"),
        ("SELECT COUNT(*) FROM people FULL JOIN regions USING (sex)", "FULL JOIN"),
        ("SELECT COUNT(*) FROM people p JOIN regions r ON p.sex <> r.sex", "equal columns"),
        ("SELECT COUNT(*) FROM regions", "is public"),
        ("SELECT COUNT(*) FROM people WHERE age IN (SELECT age FROM visits)", "but the unit"),
        ("SELECT COUNT(*) FROM people WHERE EXISTS (SELECT 1 FROM visits)", "EXISTS"),
        ("SELECT COUNT(*) FROM people WHERE joined < CURRENT_DATE", "CURRENT"),
        ("SELECT COUNT(*) FROM people WHERE RANDOM() < 0.5", "RANDOM"),
        ("SELECT COUNT(*) FROM people WHERE getenv('HOME') = 'x'", "GETENV"),
        ("SELECT COUNT(*) FROM people WHERE SLEEP(5)", "SLEEP"),
        ("SELECT SUM(DISTINCT age) FROM people", "DISTINCT"),
        ("SELECT COUNT(DISTINCT city, sex) FROM people", "several columns"),
        ("SELECT STRING_AGG(city) FROM people", "STRING_AGG"),
        ("SELECT ANY_VALUE(age) FROM people", "ANY_VALUE"),
        ("SELECT SUM(AVG(age)) FROM people", "aggregate inside"),
        ("SELECT INITCAP(COUNT(*)) FROM people", "INITCAP"),
        ("SELECT SUM(CAST(income AS INT)) FROM people", "CAST"),
        ("SELECT income, COUNT(*) FROM people GROUP BY income", "20000001"),
        ("SELECT household, COUNT(*) FROM people GROUP BY household", "privacy unit"),
        ("WITH RECURSIVE a AS (SELECT 1) SELECT COUNT(*) FROM a", "RECURSIVE"),
        ("WITH a AS (SELECT AVG(age) FROM people) SELECT COUNT(*) FROM a", "rows of an answer"),
        ("WITH a AS (SELECT age FROM people LIMIT 3) SELECT COUNT(*) FROM a", "LIMIT"),
        ("SELECT /*+ fast */ COUNT(*) FROM people", "hint"),
        ("SELECT SUM(age, exactly => 3) FROM people", "exactly"),
    ],
)
def test_unsupported_constructs_are_named(text, name):
    error = refusal(text)
    assert isinstance(error, UnsupportedQueryError), error
    assert name.casefold() in error.message.casefold()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("SELECT COUNT(*) FROM people; SELECT COUNT(*) FROM people", "one SELECT"),
        ("SELECT COUNT(*)", "names no table"),
        ("SELECT sex FROM people GROUP BY sex", "no statistic"),
        ("SELECT age, COUNT(*) FROM people", "neither a key nor"),
        ("SELECT age + 1, COUNT(*) FROM people GROUP BY sex", "neither a key nor"),
        ("SELECT COUNT(*) FROM people WHERE COUNT(*) > 3", "row by row"),
        ("SELECT COUNT(*) AS n, AVG(age) AS n FROM people", "called 'n'"),
        ("SELECT sex, COUNT(*) FROM people GROUP BY 3", "position"),
        ("SELECT COUNT(*) FROM people ORDER BY 2", "position"),
        ("SELECT COUNT(*) FROM people LIMIT 0", "LIMIT"),
        ("SELECT COUNT(*) AS n FROM people HAVING n", "comparison"),
        ("SELECT COUNT(*) AS n FROM people HAVING n = 'a'", "does not suit"),
        ("SELECT joined, COUNT(*) FROM people GROUP BY joined HAVING joined > 3", "does not suit"),
        ("SELECT COUNT(*) FROM people WHERE age", "condition"),
        ("SELECT COUNT(*) FROM people WHERE age = NULL", "IS NULL"),
        ("SELECT COUNT(*) FROM people WHERE age = 'old'", "is text"),
        ("SELECT COUNT(*) FROM people WHERE joined > 'soon'", "not a date"),
        ("SELECT COUNT(*) FROM people WHERE sex < 'F'", "no order"),
        ("SELECT SUM(sex) FROM people", "number"),
        ("SELECT SUM(city) FROM people", "number"),
        ("SELECT MEDIAN(sex) FROM people", "ordered"),
        ("SELECT MODE(income) FROM people", "category"),
        ("SELECT QUANTILE(age, 2) FROM people", "between 0 and 1"),
        ("SELECT SUM(age / 0) FROM people", "zero"),
        ("SELECT SUM(POWER(income, 8)) FROM people", "62 bits"),
        ("SELECT SUM(age * 1e999) FROM people", "too long or too large"),
        ("SELECT WIDTH_BUCKET(age, 9, 0, 3), COUNT(*) FROM people GROUP BY 1", "below the upper"),
        ("SELECT COUNT(*) FROM people WHERE sex = 'F' AND sex = 'M' GROUP BY sex", "excludes"),
    ],
)
def test_mistakes_are_explained(text, says):
    assert says in refusal(text).message


def test_syntax_errors_point_at_the_place():
    error = refusal("SELECT COUNT(*)\nFROM people WHERE (age >")
    assert error.line == 2
    assert "line 2" in error.message
    assert "\n" not in error.message


def test_a_join_without_known_fanout_is_refused():
    with pytest.raises(UnsupportedQueryError, match="share a key"):
        sql.parse("SELECT COUNT(*) FROM people JOIN regions USING (sex)", POLICY)


def test_errors_survive_pickling():
    error = refusal("SELECT COUNT(*) FROM people WHERE (age >")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.line) == (type(error), str(error), error.line)
    assert isinstance(again, DiscreetError)


def test_the_hint_for_a_star_can_be_pasted():
    named = Table("my people", [Integer("age", 0, 115)], unit="id", max_rows_per_unit=1)
    own = Policy(tables=[REGIONS, named], budget=Budget("1"))
    for question in ('SELECT * FROM "my people"', 'SELECT * FROM "my people" AS p'):
        with pytest.raises(UnsupportedQueryError) as refused:
            sql.parse(question, own)
        assert [o.name for o in sql.parse(refused.value.hint, own).query.outputs] == ["n"]
    assert refusal("SELECT * FROM visits").hint == "SELECT COUNT(*) AS n FROM visits"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT DISTINCT sex FROM people",
        "SELECT AVG(age) AS a FROM people WHERE age > (SELECT AVG(age) FROM people)",
    ],
)
def test_a_question_about_rows_is_answered_with_one_that_works(text):
    sql.parse(refusal(text).hint, POLICY)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("SELECT AVG(CAST(income AS INTEGER)) AS p FROM people", "CAST(income AS INTEGER)"),
        ("SELECT ANY_VALUE(sex) AS s FROM people", "ANY_VALUE(sex)"),
    ],
)
def test_a_hint_pasted_in_its_place_works(text, part):
    sql.parse(text.replace(part, refusal(text).hint), POLICY)


@pytest.mark.parametrize(
    ("text", "name", "hint"),
    [
        ("SELECT nothing FROM people", "nothing", None),
        ("SELECT DISTINCT agee FROM people", "agee", "age"),
        ("SELECT sex, p.incme FROM people AS p", "incme", "income"),
        ("SELECT AVG(inc) FROM people", "inc", "income"),
    ],
)
def test_a_column_that_is_not_there_is_named_before_rows_are_refused(text, name, hint):
    error = refusal(text)
    assert f'there is no column "{name}"' in error.message
    assert error.hint == hint


def test_a_name_that_is_no_plain_word_is_hinted_in_quotes():
    columns = [Integer("hours-per-week", 0, 99), Integer("age", 0, 115)]
    own = Policy(tables=[Table("adults", columns)], budget=Budget("1"))
    with pytest.raises(UnsupportedQueryError) as rows:
        sql.parse('SELECT "hours-per-week" FROM adults', own)
    assert rows.value.hint == "SELECT COUNT(*) AS n FROM adults"
    with pytest.raises(UnknownNameError) as refused:
        sql.parse("SELECT AVG(hours) FROM adults", own)
    assert refused.value.hint == '"hours-per-week"'
    sql.parse(f"SELECT AVG({refused.value.hint}) FROM adults", own)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (
            "SELECT FIRST_VALUE(age) OVER (PARTITION BY person_id ORDER BY age) FROM visits",
            None,  # a count would be about something else
        ),
        (
            "SELECT AVG(f) FROM (SELECT LAG(age) OVER (ORDER BY age) AS f FROM visits)",
            None,
        ),
        (
            "SELECT AVG(age) OVER (PARTITION BY sex) FROM people WHERE age > 18",
            "SELECT sex, AVG(age) AS n FROM people WHERE age > 18 GROUP BY sex",
        ),
        (
            f"{OLD} SELECT household, SUM(income) FROM old GROUP BY household",
            f"{OLD} SELECT AVG(n) AS per_person FROM ({OWN})",
        ),
    ],
)
def test_windows_over_rows_and_rows_of_persons_get_a_question_that_works(text, hint):
    assert refusal(text).hint == hint
    if hint is not None:
        sql.parse(hint, POLICY)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("SELECT AVG(DISTINCT age) FROM people", "AVG(age)"),
        ("SELECT COUNT(DISTINCT sex, city) FROM people", None),
        ("SELECT ARRAY_AGG(age) FROM people", "SELECT age, COUNT(*) AS n FROM people GROUP BY age"),
        ("SELECT COUNT(*) FROM people WHERE age > 'forty'", None),
        ("SELECT COUNT(*) FROM people WHERE age > '40'", "40"),
        ("SELECT COUNT(*) FROM people WHERE sex = 'woman'", None),
    ],
)
def test_hints_are_made_of_the_question_or_left_out(text, hint):
    assert refusal(text).hint == hint


def test_who_has_no_row_is_asked_with_not_in():
    text = "SELECT COUNT(*) FROM visits p LEFT JOIN visits v USING (person_id) WHERE {}"
    test = "v.person_id IS NULL"
    own = "SELECT COUNT(*) FROM visits p WHERE p.person_id NOT IN (SELECT person_id FROM visits)"
    found, meant = (sql.parse(q, POLICY).query for q in (text.format(test), own))
    assert found.hash == meant.hash


def test_a_long_name_that_may_be_a_text_is_not_repeated():
    short, long = ("x" * n for n in (60, 61))
    assert refusal(f'SELECT COUNT(*) AS n FROM people WHERE age = "{short}"').hint == f"'{short}'"
    refused = refusal(f'SELECT COUNT(*) AS n FROM people WHERE age = "{long}"')
    assert refused.hint is None
    assert long not in str(refused)


@pytest.mark.parametrize("column", ["SUM.(income)", "people.(age)", "SUM.(age + 1)"])
def test_what_stands_after_a_point_is_a_name(column):
    assert isinstance(refusal(f"SELECT SUM({column}) AS s FROM people"), QueryError)
    assert isinstance(refusal(f"SELECT COUNT(*) AS n FROM people WHERE {column} > 3"), QueryError)


@pytest.mark.parametrize(
    ("text", "manner"),
    [
        ("=COUNTIF(A:A, 1)", "a formula of a spreadsheet"),
        ("people.groupby('sex').income.mean()", "a line of Python"),
        ("df['income'].mean()", "a line of Python"),
        ("df[df.age > 3].shape", "a line of Python"),
        ("n = 3", "a line of Python"),
    ],
)
def test_other_manners_are_told_from_sql(text, manner):
    refused = refusal(text)
    assert manner in str(refused)
    assert sql.parse(refused.hint, POLICY)


@pytest.mark.parametrize("text", ["select(count(*)) from people", "from people select count(*)"])
def test_sql_of_few_blanks_is_no_other_manner(text):
    assert sql.parse(text, POLICY)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex LIMIT 3 OFFSET 2",
         "ORDER BY 1 LIMIT 3 OFFSET 2"),
        ("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex OFFSET 2", "ORDER BY 1 OFFSET 2"),
    ],
)  # fmt: skip
def test_offset_without_an_order_asks_for_one(text, hint):
    """It had said that there is no OFFSET."""
    refused = refusal(text)
    assert "first rows of an order" in refused.message
    assert refused.hint == hint
    head, _, _ = text.partition(" LIMIT")
    sql.parse(f"{head.partition(' OFFSET')[0]} {hint}", POLICY)
