# ruff: noqa: E501 - tables of hostile pieces are easier to read in long lines
"""Fuzzed questions, prices, records and policies through the curator's own doors.

Nothing but our own errors comes out, nothing takes longer than two seconds, and
the engine is handed nothing but aggregates of a plan that has been paid for. All
checks are exact; the generators are seeded by the test's own number, so a failure
can be repeated.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
import random
import re
import signal
import time
from decimal import Decimal
from fractions import Fraction

import pytest

import discreet as dc
from discreet import policy as pol
from discreet import sql
from discreet.curator import Curator
from discreet.engines import Reference
from discreet.errors import DiscreetError, QueryError
from discreet.ledger import MemoryLedger
from discreet.plan import Aggregate, Salt, Scan, lower
from discreet.plan._relation import private_tables

SECONDS = 2.0
_NAMES = itertools.count()
COLUMNS = [
    pol.Category("sex", values=["F", "M", "X"]),
    pol.Integer("age", min=0, max=99),
    pol.Real("pay", min=0, max=1000, step="0.5"),
    pol.Date("joined", "2000-01-01", "2024-12-31"),
    pol.Text("town"),
]
ROWS = [
    {"id": i // 2, "sex": "FMX"[i % 3], "age": i % 99, "pay": i / 2, "joined": None, "town": "Ulm"}
    for i in range(60)
]


class Spy(Reference):
    """Engine that checks what it is handed: aggregates of its own policy, paid for."""

    def __init__(self, tables):
        super().__init__(tables)
        self.curator = None
        self.executed = 0

    def execute(self, aggregate, salt):
        assert type(aggregate) is Aggregate
        assert type(salt) is Salt
        assert all(
            t == self.curator.policy.table(t.name) for t in private_tables(aggregate.relation)
        )
        assert self.curator.budget.spent["epsilon"] > 0
        self.executed += 1
        return super().execute(aggregate, salt)

    def fanout(self, public, columns):
        assert type(public) is Scan
        assert public.table.public
        return super().fanout(public, columns)


def curator(budget=None):
    tables = [
        pol.Table("people", COLUMNS, unit="id", max_rows_per_unit=3),
        pol.Table("regions", [COLUMNS[0], pol.Integer("code", 0, 9)], public=True),
    ]
    own = pol.Policy(
        tables,
        budget or pol.Budget("1000000", delta="0.9", accounting="approx"),
        name=f"fuzz {next(_NAMES)}",
    )
    spy = Spy({"people": ROWS, "regions": [{"sex": s, "code": 1} for s in "FMX"]})
    spy.curator = Curator(own, spy, MemoryLedger(own))
    return spy.curator


def _stop(*_):
    raise TimeoutError


def timed(call):
    """Run; return the result (None if refused) and the processor time it took."""
    start = time.process_time()
    said, result = "", None
    before = signal.signal(signal.SIGVTALRM, _stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, 5 * SECONDS)  # a hang is a failure, not a wait
    try:
        result = call()
    except DiscreetError as error:
        said = str(error)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    assert len(said) < 1000
    return result, time.process_time() - start


def survives(call):
    """Run; only our own errors, in time. Returns the result or None."""
    result, seconds = timed(call)
    if seconds >= SECONDS:
        # a pause of the test process itself does not come back; a slow call does
        seconds = timed(call)[1]
    assert seconds < SECONDS
    return result


# -- questions -----------------------------------------------------------------------

GOOD = [
    "SELECT COUNT(*) AS n FROM people",
    "SELECT sex, COUNT(*) AS n, AVG(pay) AS a FROM people WHERE age >= 18 GROUP BY sex",
    "SELECT town, COUNT(*) AS n FROM people GROUP BY town HAVING COUNT(*) > 3 ORDER BY n DESC LIMIT 5",
    "SELECT MEDIAN(age) AS m, MODE(sex) AS o FROM people WHERE town = 'Ulm' AND pay BETWEEN 1 AND 9",
    "SELECT code, SUM(pay) AS s FROM people JOIN regions USING (sex) GROUP BY code",
    "SELECT EXTRACT(YEAR FROM joined) AS y, COUNT(*) AS n FROM people GROUP BY y",
    'SELECT COUNT(*) AS "n" FROM "people" /* hello */ WHERE "age" < 50 -- bye',
    "WITH p AS (SELECT * FROM people WHERE age > 3) SELECT SUM(CASE WHEN sex = 'F' THEN pay END) FROM p",
]  # fmt: skip
HOSTILE = [
    "; DROP TABLE people", "; SELECT * FROM people", " UNION ALL SELECT town FROM people",
    "read_csv('/etc/passwd')", "read_text('/etc/passwd')", "glob('/*')", "'/etc/passwd'",
    "pg_read_file('/etc/passwd')", "pg_catalog.pg_class", "information_schema.tables",
    "duckdb_settings()", "sqlite_master", "(SELECT MAX(pay) FROM people)", "COPY people TO 'x'",
    "ATTACH 'x'", "PRAGMA database_list", "INSTALL httpfs", "SET enable_external_access=true",
    "EXPLAIN ANALYZE", "getenv('HOME')", "current_setting('x')", "error(town)", "1/0", "1/(age-3)",
    "SQRT(-1)", "LN(0)", "CAST(town AS INTEGER)", "town::int", "regexp_matches(town, '(a+)+$')",
    "random()", "now()", "rowid", "ctid", "_rowid_", "person_id", "id", "people.*", "p.id", "$1", "?",
    ":x", "@x", "{{x}}", "%s", "\\", "''", '""', "``", "[]", "{}", "(", ")", "((", "))", ",", ".", "..",
    "--", "/*", "*/", "/**/", "#", "\n", "\t", "\r", "\x00", "\x1b[2J", "\u202e", "\ufeff", "ﬀ", "İ", "ſelect",
    "ＳＥＬＥＣＴ", "\u00a0", "\u200b", "😀", "٣", "1e400", "1e-400", "0x1F", "1_000", "9" * 40, "NULL",
    "TRUE", "NaN", "'infinity'", "DISTINCT", "ALL", "OVER ()", "LATERAL", "UNNEST([1])", "TABLESAMPLE 1%",
    "FOR UPDATE", "PIVOT", "RECURSIVE", "VALUES (1)", "EXISTS (SELECT 1)", "NATURAL JOIN people p2",
    "CROSS JOIN people p2", "LEFT JOIN regions r ON TRUE", "QUALIFY 1", "WINDOW w AS ()", "INTERVAL '1' DAY",
]  # fmt: skip
WRAPS = [("(", ")"), ("NOT (", ")"), ("ABS(", ")"), ("COALESCE(", ", 1)"), ("/*", "*/"), ("'", "'"),
         ('"', '"'), ("CASE WHEN ", " THEN 1 END"), ("(SELECT ", ")"), ("- ", "")]  # fmt: skip
TOKEN = re.compile(r"\w+|\s+|[^\w\s]")


def mutated(rng):
    """One of the good questions with one to four things done to it."""
    tokens = TOKEN.findall(rng.choice(GOOD))
    for _ in range(rng.choice([1, 1, 2, 4])):
        at = rng.randrange(len(tokens))
        match rng.randrange(8):
            case 0:
                tokens.insert(at, f" {rng.choice(HOSTILE)} ")
            case 1:
                tokens[at] = rng.choice(HOSTILE)
            case 2:
                del tokens[at]
                tokens = tokens or ["SELECT"]
            case 3:
                tokens[at] = rng.choice(tokens)
            case 4:
                before, after = rng.choice(WRAPS)
                deep = rng.choice([1, 2, 30, 300])
                tokens[at] = before * deep + tokens[at] + after * deep
            case 5:
                end = min(at + rng.randrange(1, 9), len(tokens))
                tokens[at:end] = tokens[at:end] * rng.choice([2, 2, 40])
            case 6:
                other = TOKEN.findall(rng.choice(GOOD))
                tokens = tokens[:at] + other[rng.randrange(len(other)) :]
            case 7:
                tokens[at] = tokens[at].swapcase()
    return "".join(tokens)


def ask(asked, text):
    """Ask; if an answer comes, it is of a question that the parser knows."""
    before = asked._engine.executed
    answer = survives(lambda: asked.sql(text, epsilon="0.5", delta="1e-7"))
    if answer is None:
        assert asked._engine.executed == before, text
        return False
    known = sql.parse(text, asked.policy, public_fanout={"regions": 1}).query
    # a stored answer is found by what was measured, whatever is done with it afterwards
    asked_before = vars(asked).setdefault("asked_before", {})
    equal = asked_before.setdefault(lower(known).measured, set())
    equal.add(known.hash)
    assert answer.record()["statement"]["plan"] in equal
    return True


def fuzz_questions(count, seed):
    rng = random.Random(seed)
    asked = curator()
    answered = sum(ask(asked, mutated(rng)) for _ in range(count))
    assert answered > count / 50  # the fuzz reaches the engine, and not only refusals


def test_mutated_questions_reach_the_engine_as_plans_or_not_at_all():
    fuzz_questions(1500, "default")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(25))
def test_a_hundred_thousand_mutated_questions(seed):
    fuzz_questions(4000, seed)


@pytest.mark.parametrize(
    "form", ["COALESCE({}, 1)", "GREATEST({}, 1)", "NULLIF({}, 1)", "ROUND({}, 1)"]
)
def test_a_level_more_does_not_double_the_work(form):
    """Thirty levels, each read twice, would take hours."""
    nested = "age"
    for _ in range(30):
        nested = form.format(nested)
    ask(curator(), f"SELECT {nested}, COUNT(*) AS n FROM people GROUP BY age")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_pieces_in_every_place(text):
    asked = curator()
    for pattern in (
        "{}", "SELECT {} FROM people", "SELECT COUNT(*) AS n FROM {}", "SELECT COUNT({}) AS n FROM people",
        "SELECT COUNT(*) AS n FROM people WHERE {}", "SELECT COUNT(*) AS n FROM people WHERE age = {}",
        "SELECT sex, COUNT(*) AS n FROM people GROUP BY {}", "SELECT COUNT(*) AS n FROM people {}",
        "SELECT COUNT(*) AS n FROM people HAVING {}", "SELECT COUNT(*) AS n FROM people ORDER BY {}",
        'SELECT COUNT(*) AS "{}" FROM people', "SELECT COUNT(*) AS n FROM people LIMIT {}",
    ):  # fmt: skip
        ask(asked, pattern.replace("{}", text))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) AS n FROM people" + " JOIN regions" * 40,
        "SELECT COUNT(*) AS n FROM people" + " JOIN regions" * 300,
        "SELECT COUNT(*) AS n FROM people" + " LEFT JOIN regions r" * 40 + " USING (sex)" * 3,
        "SELECT COUNT(*) AS n FROM people" + " JOIN (regions" * 25 + ")" * 25,
        "SELECT COUNT(*) AS n FROM people" + ", LATERAL regions JOIN people" * 40,
        "SELECT " + "CASE WHEN NOT " * 40 + "1 FROM people",
        "SELECT COUNT(*) AS n FROM people WHERE " + "a.b.c(" * 50 + ")" * 50,
        "SELECT COUNT(*) AS n FROM people WHERE " + "x -> (" * 50 + "1" + ")" * 50,
        "SELECT " + "DATE " * 500 + "FROM people",
        "SELECT " + "INTERVAL " * 500 + "FROM people",
        "WITH " + ", ".join(f"t{i} AS (SELECT * FROM people" for i in range(50)),
    ],
)
def test_texts_that_can_be_read_in_many_ways_are_refused_soon(text):
    """A parser that turns back at every word takes two to the number of words."""
    assert survives(lambda: curator().sql(text, epsilon=1)) is None


def test_the_spy_is_awake():
    """A question built under a looser policy, handed to the engine directly, is noticed."""
    asked = curator()
    loose = pol.Policy([pol.Table("people", COLUMNS)], pol.Budget("1"))
    foreign = sql.parse(GOOD[0], loose).query
    with pytest.raises(QueryError, match="fluent API, not Query"):
        asked.ask(foreign, epsilon=1)
    with pytest.raises(QueryError, match="fluent API, not Query"), asked.batch(epsilon=1) as batch:
        batch.ask(foreign)
    from discreet.plan import lower

    with pytest.raises(AssertionError):
        asked._engine.execute(lower(foreign).aggregates[0], Salt(b"x"))


# -- prices and other parameters -------------------------------------------------------

ODD = [
    0, -1, 1, True, math.nan, math.inf, 1e-320, 1e308, 1e-300, "1", "1/3", "1e-18", "1e999999999", "nan",
    "", b"1", [1], None, Fraction(1, 3), Decimal("0.1"), Decimal("sNaN"), 10**400, "1_000", "०", "1e-400",
    {}, object(), "0." + "9" * 30, "1e-17", 1 - 1e-16, "x" * 10_000, {"n": 1}, {"n": "1e300"}, {3: 4},
]  # fmt: skip


@pytest.mark.parametrize("value", ODD, ids=lambda v: repr(v)[:20])
def test_odd_parameters_are_used_or_refused(value):
    asked = curator()
    for text in GOOD[:4]:
        for offer in (
            {"epsilon": value}, {"epsilon": 1, "delta": value}, {"rho": value, "delta": "1e-7"},
            {"within": value}, {"within": {"n": value}}, {"epsilon": 1, "delta": "1e-7", "key": value},
            {"within": {"n": 5}, "confidence": value}, {"epsilon": 1, "rho": value},
        ):  # fmt: skip
            survives(lambda t=text, o=offer: asked.sql(t, **o))
            if "key" not in offer:
                survives(lambda t=text, o=offer: repr(asked.preview(t, **o)))
    survives(lambda: asked.sql(value, epsilon=1))
    survives(lambda: asked.ask(value, epsilon=1))
    people = asked.table("people")
    survives(lambda: asked.table(value))
    survives(lambda: people.where(value).agg(n=dc.count()).answer(epsilon=1))
    survives(lambda: people.group_by(value).agg(n=dc.count()).answer(epsilon=1))
    survives(lambda: people.agg(n=value).answer(epsilon=1))
    survives(lambda: people.agg(n=dc.mean(value)).answer(epsilon=1))
    survives(lambda: people.agg(n=dc.quantile("age", value)).answer(epsilon=1))

    def batch(epsilon, weight):
        with asked.batch(epsilon=epsilon, delta="1e-7") as open_batch:
            open_batch.sql(GOOD[0], weight=weight)

    survives(lambda: batch(value, 1))
    survives(lambda: batch(1, value))
    answer = asked.sql(GOOD[0], epsilon=1)
    survives(lambda: answer.interval(value))
    survives(lambda: dc.Answer.from_record(value))
    spent = asked.budget.spent
    assert all(Fraction(0) <= s <= asked.budget.table.amounts[c][1] for c, s in spent.items())


# -- records ---------------------------------------------------------------------------

JUNK = [
    None, True, 0, -1, 1, 10**30, 10**400, 1.5, math.nan, math.inf, "", "x", "1/0", "1e999999999", "1/3",
    "-1", [], [1], ["x"], {}, [[[]]], 2**63, "9" * 5000, {"is": "Number", "value": "1"}, {"is": "Of", "index": 99},
    {"law": "discrete-laplace", "scale": "1e99999"}, {"law": "discrete-laplace", "scale": "0"},
    {"law": "sum", "terms": []}, {"is": "System"}, {"is": "Apply", "op": "round", "args": []},
    {"is": "Apply", "op": "/", "args": [{"is": "Of", "index": 0}, {"is": "Number", "value": "0"}]},
]  # fmt: skip


def places(data, before=()):
    if before:
        yield before
    if isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from places(value, (*before, key))


def damaged(record, rng):
    record = copy.deepcopy(record)
    for _ in range(rng.choice([1, 1, 2, 4])):
        everywhere = list(places(record))
        *way, last = rng.choice(everywhere)
        holder = record
        for key in way:
            holder = holder[key]
        what = rng.random()
        if what < 0.7:
            holder[last] = copy.deepcopy(rng.choice(JUNK))
        elif what < 0.85:
            del holder[last]
        else:
            moved = record
            for key in rng.choice(list(places(record))):
                moved = moved[key]
            holder[last] = copy.deepcopy(moved)
    return record


def records():
    asked = curator()
    yield asked.sql(
        "SELECT sex, COUNT(*) AS n, AVG(pay) AS a, STDDEV(age) AS d, MEDIAN(age) AS m, MODE(sex) AS o, "
        "SUM(pay) / COUNT(*) AS r FROM people GROUP BY sex HAVING COUNT(*) > -99 ORDER BY n LIMIT 2",
        epsilon=8,
    ).record()
    yield asked.sql(GOOD[2], epsilon=8, delta="1e-2").record()


def read(record):
    """Use every door of an answer."""
    answer = dc.Answer.from_record(record)
    answer.to_dicts(), answer.interval(0.9, simultaneous=True), repr(answer), answer._repr_html_()
    answer.chart(), len(answer), json.dumps(answer.record())
    return answer


def fuzz_records(count, seed):
    rng = random.Random(seed)
    originals = list(records())
    for original in originals:
        assert survives(lambda r=original: read(r)) is not None
    for _ in range(count):
        record = damaged(rng.choice(originals), rng)
        survives(lambda r=record: read(r))


def test_damaged_records_are_read_or_refused():
    fuzz_records(700, "default")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_many_more_damaged_records(seed):
    fuzz_records(5000, seed)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "1", '"x"', "[" * 100_000, '{"a":' * 9999, "NaN"]
)
def test_texts_that_are_no_record(text):
    with pytest.raises(DiscreetError):
        dc.Answer.from_record(text)


def test_nesting_is_bounded():
    (record, *_) = records()
    deep = {"is": "Of", "index": 0}
    for _ in range(500):
        deep = {"is": "Apply", "op": "abs", "args": [deep]}
    record["outputs"][1]["expr"] = deep
    with pytest.raises(DiscreetError, match="damaged"):
        dc.Answer.from_record(record)


# -- policies --------------------------------------------------------------------------

TOML = """
[policy]
name = "a"
[budget]
epsilon = "2"
delta = "1e-6"
accounting = "zcdp"
shares = { ann = "0.5" }
[tables.people]
source = "people.parquet"
unit = "person_id"
neighbours = "add-remove"
max_rows_per_unit = 3
[tables.people.columns]
sex    = { type = "category", values = ["F", "M", "X"], null = "X" }
age    = { type = "integer", min = 0, max = 115 }
income = { type = "real", min = 0, max = 200_000, step = "0.01" }
seen   = { type = "timestamp", min = 2020-01-01, max = 2025-01-01, step = 60 }
"""
PIECES = ["nan", "inf", "-1", "0", "1e999", '"1e999999999"', '"1/0"', "[]", "{}", "true", '""', "\x00", "[[", "]]",
          "=", "\n", '"', "'", "1979-05-27", "9" * 30, '"\\u0000"', "person_id", "tables", ".", "#", "-0.0"]  # fmt: skip


def fuzz_policies(count, seed):
    rng = random.Random(seed)
    usable = 0
    for _ in range(count):
        tokens = TOKEN.findall(TOML)
        for _ in range(rng.choice([1, 1, 2, 3])):
            at = rng.randrange(len(tokens))
            match rng.randrange(4):
                case 0:
                    tokens[at] = rng.choice(PIECES)
                case 1:
                    tokens.insert(at, rng.choice(PIECES))
                case 2:
                    del tokens[at]
                case 3:
                    tokens[at] = rng.choice(tokens)
        text = "".join(tokens)
        usable += survives(lambda t=text: pol.loads(t).fingerprint) is not None
    assert usable > count / 50


def test_mutated_policies_are_read_or_refused():
    fuzz_policies(1500, "default")


@pytest.mark.long
def test_many_more_mutated_policies():
    fuzz_policies(60_000, "long")
