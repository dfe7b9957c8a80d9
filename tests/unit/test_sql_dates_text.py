"""Dates and text in questions: what the functions mean, against Python's own calendar."""

from __future__ import annotations

import datetime as dt
import json
from fractions import Fraction

import duckdb
import pyarrow as pa
import pytest

import discreet as dc
from discreet import plan, sql
from discreet.errors import ParameterError, QueryError, UnsupportedQueryError
from discreet.plan import Word, calendar, expr, words
from discreet.policy import Budget, Category, Date, Integer, Policy, Table, Text, Timestamp

DAY = expr.Column("day", plan.of_column(Date("day", "1580-01-01", "2420-12-31")))
SEEN = expr.Column("seen", plan.of_column(Timestamp("seen", "1960-01-01", "2040-01-01")))
CITY = expr.Column("city", plan.of_column(Category("city", ["Bern", "Basel", "St. Gallen"])))
NOTE = expr.Column("note", plan.of_column(Text("note")))
EPOCH = dt.date(1970, 1, 1)
DAYS = [*range(DAY.type.lo, DAY.type.hi + 1, 101), DAY.type.lo, DAY.type.hi]
POLICY = Policy(
    tables=[
        Table(
            "people",
            [
                Integer("age", -5, 115),
                Date("day", "2023-01-01", "2024-12-31"),
                Category("city", ["Bern", "Basel", "St. Gallen"]),
                Text("note"),
            ],
        )
    ],
    budget=Budget("1"),
)


def first_day(day, unit):
    match unit:
        case "week":
            return day - dt.timedelta(days=day.weekday())
        case "month":
            return day.replace(day=1)
        case "quarter":
            return day.replace(day=1, month=(day.month - 1) // 3 * 3 + 1)
    return day.replace(day=1, month=1)


@pytest.mark.parametrize("unit", ["week", "month", "quarter", "year"])
def test_truncation_gives_the_first_day(unit):
    """Every 101st day of 840 years, and each result is one of the listed keys."""
    cut = calendar.truncated(unit, DAY)
    listed = set(cut.possible)
    for code in DAYS:
        day = EPOCH + dt.timedelta(days=code)
        found = cut.evaluate({"day": code})
        assert EPOCH + dt.timedelta(days=found) == first_day(day, unit)
        assert found in listed
    assert cut.evaluate({"day": None}) is None
    assert len(listed) < len(range(DAY.type.lo, DAY.type.hi)) / 6


@pytest.mark.parametrize(
    ("part", "meaning"),
    [
        ("dow", lambda d: d.isoweekday() % 7),
        ("isodow", lambda d: d.isoweekday()),
        ("week", lambda d: d.isocalendar().week),
        ("isoyear", lambda d: d.isocalendar().year),
        ("doy", lambda d: d.timetuple().tm_yday),
    ],
)
def test_parts_are_those_of_the_calendar(part, meaning):
    read = calendar.part(part, DAY)
    for code in DAYS:
        assert read.evaluate({"day": code}) == meaning(EPOCH + dt.timedelta(days=code))


def test_parts_of_the_clock():
    """Instants before 1970 count forwards too."""
    for second in (-1, 0, 59, 60, 86_399, -86_401, 10**8 + 7):
        code = int(second / SEEN.type.step)
        when = SEEN.type.value(code)
        for part in ("hour", "minute", "second"):
            assert calendar.part(part, SEEN).evaluate({"seen": code}) == getattr(when, part)
        hour = calendar.truncated("hour", SEEN)
        assert hour.type.value(hour.evaluate({"seen": code})) == when.replace(minute=0, second=0)
        day = calendar.as_date(SEEN)
        assert day.type.value(day.evaluate({"seen": code})) == when.date()


@pytest.mark.parametrize(
    "pattern", ["%Y", "%Y-%m", "%Y-%m-%d", "%G-W%V", "%b", "%A", "%d", "%Y %B", "%Y-%j"]
)
def test_names_are_what_python_writes(pattern):
    column = expr.Column("day", plan.of_column(Date("day", "1895-01-01", "2105-12-31")))
    named = calendar.strftime(column, pattern)
    for code in range(column.type.lo, column.type.hi + 1, 131):
        day = EPOCH + dt.timedelta(days=code)
        assert named.type.labels[named.evaluate({"day": code})] == day.strftime(pattern)


def test_patterns_of_to_char():
    assert calendar.from_to_char("YYYY-MM-DD") == "%Y-%m-%d"
    assert calendar.from_to_char("IYYY-IW") == "%G-%V"
    assert calendar.from_to_char("Mon YYYY") == "%b %Y"
    assert calendar.from_to_char('YYYY-"Q"Q') == "%Y-Q%q"
    assert calendar.from_to_char('"100% MM "YYYY%') == "100%% MM %Y%%"
    assert calendar.from_to_char("FMMonth YYYY") == "%B %Y"
    assert set(calendar.strftime(DAY, calendar.from_to_char('"Q"Q')).type.labels) == {
        "Q1", "Q2", "Q3", "Q4"
    }  # fmt: skip


@pytest.mark.parametrize(
    "pattern",
    ["YYYY-WW", "MONTH YYYY", 'YYYY-"Q', "FMMM", "DDth", "HH24:MI", 'YYYY"\\""', "Mon FMDD"],
)
def test_letters_of_to_char_that_are_no_field_of_ours_are_refused(pattern):
    with pytest.raises(UnsupportedQueryError, match="double quotes"):
        calendar.from_to_char(pattern)


@pytest.mark.parametrize("pattern", ["%Y-%V", "%m-%d", "%H", "%s", "plain", "%a %b"])
def test_formats_that_name_no_single_period_are_refused(pattern):
    with pytest.raises(UnsupportedQueryError):
        calendar.strftime(DAY, pattern)


@pytest.mark.parametrize(
    ("unit", "start", "end", "count"),
    [
        ("day", "2024-02-28", "2024-03-01", 2),
        ("isoweek", "2024-03-03", "2024-03-04", 1),  # Sunday to Monday
        ("month", "2024-01-31", "2024-02-01", 1),
        ("quarter", "2023-12-31", "2024-04-01", 2),
        ("year", "2023-12-31", "2024-01-01", 1),
        ("hour", "2024-01-01 00:59:59", "2024-01-01 01:00:00", 1),
    ],
)
def test_differences_count_boundaries(unit, start, end, count):
    value = calendar.difference(unit, Word(start), Word(end))
    assert value.evaluate({}) * value.type.step == count
    back = calendar.difference(unit, Word(end), Word(start))
    assert back.evaluate({}) * back.type.step == -count


@pytest.mark.parametrize("hours", [(0, 0), (12, 6), (6, 12)])
def test_differences_in_weeks_are_those_of_duckdb(hours):
    with duckdb.connect() as db:
        for apart in range(-16, 17):
            for first in range(7):
                ends = [
                    dt.datetime.combine(EPOCH, dt.time(h)) + dt.timedelta(days=first + d)
                    for d, h in zip((0, apart), hours, strict=True)
                ]
                value = calendar.difference("week", *(Word(str(e)) for e in ends))
                (truth,) = db.execute("SELECT DATEDIFF('week', $1, $2)", ends).fetchone()
                assert value.evaluate({}) * value.type.step == truth, ends


@pytest.mark.parametrize(
    ("text", "unit", "start", "end"),
    [
        ("30", "DAY", "2024-01-31", "2024-03-01"),
        ("1 month", None, "2024-01-31", "2024-02-29"),
        ("-1", "MONTH", "2023-03-31", "2023-02-28"),
        ("2 weeks", None, "2024-12-25", "2025-01-08"),
        ("1", "YEAR", "2024-02-29", "2025-02-28"),
    ],
)
def test_constants_move_by_spans(text, unit, start, end):
    moved = calendar.shifted(plan.build.date(start), calendar.span(text, unit))
    assert str(moved.type.value(moved.code)) == end


def test_columns_move_by_days_only():
    moved = calendar.shifted(DAY, calendar.span("10 days", None))
    assert moved.evaluate({"day": 5}) == 15
    with pytest.raises(UnsupportedQueryError, match="a few centuries"):
        calendar.shifted(DAY, calendar.span("1 month", None))
    with pytest.raises(QueryError, match="leaves the calendar"):
        calendar.shifted(plan.build.date("9999-12-31"), calendar.span("1 day", None))


@pytest.mark.parametrize(
    ("operand", "labels"),
    [
        (words.lower(CITY), ["bern", "basel", "st. gallen"]),
        (words.upper(CITY), ["BERN", "BASEL", "ST. GALLEN"]),
        (words.left(CITY, 1), ["B", "B", "S"]),
        (words.right(CITY, 2), ["rn", "el", "en"]),
        (words.substr(CITY, 2, 2), ["er", "as", "t."]),
        (words.split_part(CITY, " ", 2), ["", "", "Gallen"]),
        (words.replace(CITY, "e", "3"), ["B3rn", "Bas3l", "St. Gall3n"]),
        (words.concat([CITY, Word("!")], skip=False), ["Bern!", "Basel!", "St. Gallen!"]),
    ],
)
def test_functions_of_labels_have_public_labels(operand, labels):
    found = [operand.type.labels[operand.evaluate({"city": c})] for c in range(3)]
    assert found == labels
    assert operand.type.size == len(set(labels))


def test_null_in_text_functions():
    assert words.lower(CITY).evaluate({"city": None}) is None
    joined = words.concat([CITY, Word("!")], skip=True)
    assert joined.type.labels[joined.evaluate({"city": None})] == "!"  # CONCAT leaves NULL out
    assert words.concat([CITY, Word("!")], skip=False).evaluate({"city": None}) is None


@pytest.mark.parametrize(
    ("pattern", "texts", "matches"),
    [
        ("B%", ["Bern", "bern", "", "AB"], [1, 0, 0, 0]),
        ("%e_n", ["Bern", "en", "exn"], [1, 0, 1]),
        ("%", ["", "anything\nat all"], [1, 1]),
        ("a%b%c", ["abc", "aXbXbXc", "acb"], [1, 1, 0]),
        ("50!%", ["50!%", "50!", "50"], [1, 1, 0]),
    ],
)
def test_like(pattern, texts, matches):
    test = words.matches(NOTE, pattern)
    assert [test.evaluate({"note": t}) for t in texts] == matches


def test_like_of_labels_needs_no_engine():
    assert words.matches(CITY, "B%") == expr.OneOf(CITY, (0, 1))
    assert words.matches(CITY, "b%", fold=True) == expr.OneOf(CITY, (0, 1))
    assert words.matches(NOTE, "50#%", escape="#") == expr.Like(NOTE, "50!%")


def test_a_pattern_of_many_stars_ends_soon():
    assert not expr.like("%a" * 200 + "%b", "a" * 2_000)


@pytest.mark.parametrize("by", ["7", "2.5", "1"])
def test_remainders_have_the_sign_of_the_dividend(by):
    age = expr.Column("age", plan.Type.number(-30, 30, Fraction(1, 2)))
    rest = plan.functions.infix("%", age, plan.build.number(Fraction(by)))
    for code in range(-30, 31):
        value = Fraction(code, 2)
        truth = abs(value) % Fraction(by) * (1 if value >= 0 else -1)
        assert rest.evaluate({"age": code}) * rest.type.step == truth


@pytest.mark.parametrize(
    "text",
    [
        "SELECT DATE_TRUNC('month', day) AS m, COUNT(*) FROM people GROUP BY m",
        "SELECT strftime('%Y-%m', day), COUNT(*) FROM people GROUP BY 1",
        "SELECT COUNT(*) FROM people WHERE day < DATE '2024-01-01' + INTERVAL '30' DAY",
        "SELECT COUNT(*) FROM people WHERE day - INTERVAL 1 WEEK > '2023-05-01'",
        "SELECT AVG(day - DATE '2023-01-01') FROM people",
        "SELECT CAST(day AS DATE), COUNT(*) FROM people GROUP BY 1",
        "SELECT COUNT(*) FROM people WHERE note NOT LIKE 'a!_%' ESCAPE '!'",
        "SELECT COUNT(*) FROM people WHERE city ILIKE 'b%' OR LOWER(city) = 'bern'",
        "SELECT city || '?' AS c, SUM(age % 10), SUM(age DIV 10) FROM people GROUP BY c",
        "SELECT COUNT(*) FROM people WHERE LENGTH(TRIM(note)) > 3",
    ],
)
def test_people_write_it_like_this(text):
    assert sql.parse(text, POLICY).query.statistics


@pytest.mark.parametrize("span", ["+ INTERVAL 1 MONTH", "- INTERVAL 1 MONTH", "+ INTERVAL 11 MONTH",
                                  "- INTERVAL 25 MONTH", "+ INTERVAL 2 YEAR"])  # fmt: skip
def test_columns_move_by_months_as_duckdb_moves_them(span):
    from discreet import policy as pol

    epoch, first = dt.date(1970, 1, 1), dt.date(2019, 1, 1)
    table = pol.Table("t", [pol.Date("d", "2019-01-01", "2025-12-31")])
    policy = pol.Policy([table], pol.Budget("1"))
    made = sql.parse(f"SELECT MIN(d {span}) FROM t", policy).query.statistics[0].expr
    ask = f"SELECT CAST(DATE '2019-01-01' + i {span} AS DATE) FROM range(2557) t(i)"
    theirs = duckdb.sql(ask.replace("+ i", "+ CAST(i AS INTEGER)")).fetchall()
    for i, (wanted,) in enumerate(theirs):
        code = made.evaluate({"d": (first - epoch).days + i})
        assert epoch + dt.timedelta(days=int(code)) == wanted


MOMENTS = Policy(
    tables=[
        Table(
            "visits",
            [
                Date("day", "2023-01-01", "2024-12-31"),
                Timestamp("at", "2024-03-01T00:00:00", "2024-03-01T12:00:00", step=1),
                Category("city", ["Bern", "Basel"]),
            ],
        )
    ],
    budget=Budget("10000"),
    name="moments",
)
THE_DAY, THE_TIME = dt.date(2024, 2, 29), dt.datetime(2024, 3, 1, 7, 30, 5)  # noqa: DTZ001 - naive UTC, as answers are


@pytest.fixture(scope="module")
def visits():
    rows = 4000
    data = {"day": [THE_DAY] * rows, "at": [THE_TIME] * rows, "city": ["Bern", "Basel"] * 2000}
    with dc.open({"visits": pa.table(data)}, MOMENTS, ledger=":memory:") as curator:
        yield curator


@pytest.mark.parametrize("function", ["MIN({})", "MAX({})", "MEDIAN({})", "QUANTILE({}, 0.25)"])
@pytest.mark.parametrize(("column", "value"), [("day", THE_DAY), ("at", THE_TIME)])
def test_order_statistics_of_moments_are_moments_everywhere(visits, function, column, value):
    """All rows are equal: at ε = 50 another value has a probability below e^-10000."""
    answer = visits.sql(f"SELECT {function.format(column)} AS x FROM visits", epsilon="50")
    for each in (answer, dc.Answer.from_record(json.dumps(answer.record()))):
        assert each.to_dicts() == [{"x": value}]
        low, high = each.interval()[0]["x"]
        assert type(low) is type(high) is type(value)
        assert low <= value <= high
        assert f"{value} [{low}, {high}]" in repr(each)
        kind = pa.date32() if column == "day" else pa.timestamp("us")
        assert set(each.to_arrow().schema.types) == {kind}
        assert each.to_pandas()["x"][0] == value
    assert '"temporal"' in json.dumps(answer.chart())


def test_moments_stand_beside_numbers_and_null(visits):
    """The counts are off by half with a probability below e^-1000."""
    answer = visits.sql(
        "SELECT city, MAX(day) AS last, COUNT(*) AS n, CASE WHEN COUNT(*) > 3000 THEN MAX(day) END "
        "AS x FROM visits GROUP BY city ORDER BY last",
        epsilon="50",
    )
    assert [(r["last"], r["x"]) for r in answer.to_dicts()] == [(THE_DAY, None)] * 2
    assert answer.to_arrow(None).schema.field("n").type == pa.int64()
    assert "last, x not drawn beside numbers" in json.dumps(answer.chart())


def test_a_record_without_kinds_of_moments_is_read_as_numbers(visits):
    record = visits.sql("SELECT MAX(day) AS x FROM visits", epsilon="50").record()
    del record["formulas"][0]["moment"]
    assert dc.Answer.from_record(record).to_dicts() == [{"x": (THE_DAY - EPOCH).days}]
    record["formulas"][0]["moment"] = "epoch"
    with pytest.raises(ParameterError, match="unknown kind"):
        dc.Answer.from_record(record)


@pytest.mark.parametrize(("column", "first"), [("day", "2023-01-01"), ("at", "2024-03-01")])
def test_the_mean_of_moments_is_hinted_at_in_days(column, first):
    with pytest.raises(QueryError, match="needs a number") as refused:
        sql.parse(f"SELECT AVG({column}) FROM visits", MOMENTS)
    assert refused.value.hint == f"AVG(DATEDIFF('day', DATE '{first}', {column}))"
    sql.parse(f"SELECT {refused.value.hint} AS days FROM visits", MOMENTS)


@pytest.mark.parametrize(
    ("time", "instead"),
    [
        ("< TIMESTAMP '2024-02-29 00:00:00'", "< DATE '2024-02-29'"),
        ("< TIMESTAMP '2024-02-29 10:00:00'", "< DATE '2024-03-01'"),
        ("<= TIMESTAMP '2024-02-29 10:00:00'", "<= DATE '2024-02-29'"),
        ("> TIMESTAMP '2024-02-29 10:00:00'", "> DATE '2024-02-29'"),
        (">= TIMESTAMP '2024-02-29 10:00:00'", ">= DATE '2024-03-01'"),
        (">= TIMESTAMP '2024-02-29 00:00:00'", ">= DATE '2024-02-29'"),
        ("= TIMESTAMP '2024-02-29 00:00:00'", "= DATE '2024-02-29'"),
        ("<> TIMESTAMP '2024-02-29 00:00:00'", "<> DATE '2024-02-29'"),
        ("= TIMESTAMP '2024-02-29 10:00:00'", "IN (DATE '1900-01-01')"),
    ],
)
def test_a_date_beside_a_constant_time_is_its_midnight(time, instead):
    asked = [f"SELECT COUNT(*) AS n FROM people WHERE day {t}" for t in (time, instead)]
    one, two = (sql.parse(text, POLICY).query for text in asked)
    assert one == two


SPANS = """
[policy]
name = "spans"
[budget]
epsilon = "1e20"
[tables.t.columns]
day = {type = "date", min = 2023-03-15, max = 2024-12-31}
eve = {type = "date", min = 2022-11-15, max = 2025-06-30}
seen = {type = "timestamp", min = 2023-03-15T00:00:00, max = 2024-12-01T00:00:00, step = "1"}
"""
GAPS = [
    ("day", "DATE '2025-01-10'"),
    ("DATE '2023-10-10'", "day"),
    ("day", "eve"),
    ("seen", "DATE '2025-02-10'"),
    ("TIMESTAMP '2024-02-10 12:00:00'", "seen"),
    ("day", "seen"),
    ("DATE_TRUNC('quarter', DATE '2024-08-20')", "day"),
    ("LAST_DAY(DATE '2022-02-20')", "eve"),
]


@pytest.fixture(scope="module")
def spans():
    """Dates and times of 700 rows, each on a day that every month has, curated and bare."""
    monday, times = dt.date(2023, 3, 15), dt.datetime(2023, 3, 15, 3)  # noqa: DTZ001 - UTC
    rows = pa.table(
        {
            "day": [(monday + dt.timedelta(i * 7 % 500)).replace(day=15) for i in range(700)],
            "eve": [dt.date(2022, 11, 20) + dt.timedelta(i * 11 % 900) for i in range(700)],
            "seen": [(times + dt.timedelta(hours=i * 7 % 9_000)).replace(day=15 + i % 10)
                     for i in range(700)],
        }
    )  # fmt: skip
    db = duckdb.connect()
    db.register("t", rows)
    return dc.open(rows, policy=SPANS, ledger=":memory:"), db


@pytest.mark.parametrize("gap", GAPS, ids=" to ".join)
@pytest.mark.parametrize(
    ("units", "epsilon"),
    [(["second", "minute", "hour"], "1e12"), (["day", "week", "month", "quarter", "year"], "1e9")],
    ids=["clock", "calendar"],
)
def test_sums_of_spans_are_proved_and_those_of_duckdb(spans, units, epsilon, gap):
    """The text limits what one row adds as far as it is priced, whichever side is constant.

    The scale of the noise is below 0.001 units: it moves a sum with a probability below exp(-1000).
    """
    curator, db = spans
    ends = ", ".join(f"CAST({end} AS TIMESTAMP)" for end in gap)
    for name, other in (("DATEDIFF", "DATEDIFF"), ("TIMESTAMPDIFF", "DATE_SUB")):
        asked = [f"{name}('{unit}', {gap[0]}, {gap[1]})" for unit in units]
        truth = [f"{other}('{u}', {ends})" for u in units]
        lists = [
            ", ".join(f"SUM({x}) AS s{i}, AVG({x}) AS a{i}" for i, x in enumerate(each))
            for each in (asked, truth)
        ]
        (row,) = curator.sql(f"SELECT {lists[0]} FROM t", epsilon=epsilon).to_dicts()
        exact = db.sql(f"SELECT {lists[1]} FROM t").fetchall()[0]
        assert list(row.values()) == pytest.approx(list(map(float, exact)), rel=1e-9, abs=1e-4)
