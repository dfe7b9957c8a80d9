"""The verifier against random statements and their mutants, on DuckDB and PostgreSQL.

What it says is held against what engines do on tables of extremes: a statement that
it proves never fails there, and one unit moves the results by no more than it read
off the text. That holds for the statements of random questions, and for texts made
from them by taking out every condition, arm, wrapper and limit in turn.

Generators are seeded: a run always passes or always fails.
"""

from __future__ import annotations

import collections
import itertools
import math
import random
import re
from dataclasses import dataclass

import duckdb
import psycopg
import pytest

from discreet import engines as eng
from discreet import plan, sql, verify
from discreet import policy as pol
from discreet.curator._proof import check_statements
from discreet.errors import ParameterError, QueryError, UnprovenStatementError

# -- a library's loans, with every kind of number at the ends of its type ---------------------

BRANCHES = ["north", "south", "east", "west"]
TITLES = [f"t{i:02}" for i in range(60)]


def whole(bits, *inside):
    """Ends of a signed type, their neighbours, and some values within bounds."""
    top = 2 ** (bits - 1)
    return [-top, 1 - top, top - 1, -1, 0, 1, *inside, None]


TINY, WIDE = "4.9e-324", "1.7976931348623157e+308"
SPEC = [
    (pol.Category("branch", BRANCHES), "VARCHAR", [*BRANCHES, "", "nowhere", None]),
    (pol.Integer("copies", 1, 12), "SMALLINT", whole(16, 4, 12, 13)),
    (pol.Integer("pages", -5000, 5000, outside="null"), "INTEGER", whole(32, 5000, 5001, 320)),
    (pol.Integer("barcode", -(2**45), 2**45), "BIGINT", whole(64, 2**45, 2**45 + 1, 2**53 + 1)),
    (pol.Real("fine", -50, 750, "0.05"), "DOUBLE PRECISION",
     ["NaN", "Infinity", "-Infinity", "-0.0", TINY, f"-{TINY}", "0.025", "749.975", "1e18",
      "9.3e18", "-9.3e18", WIDE, f"-{WIDE}", None]),
    (pol.Real("weight", 0, 3, "1/7"), "REAL",
     ["NaN", "Infinity", "-Infinity", "1.4e-45", "3.4028235e+38", "0.5", "2.99", "-0.0", None]),
    (pol.Real("price", 0, 9999, "0.5", outside="null"), "NUMERIC(12, 3)",
     ["999999999.999", "-999999999.999", "0.001", "0.25", "12.75", "9999", None]),
    (pol.Boolean("overdue"), "BOOLEAN", [True, False, None]),
    (pol.Date("lent", "1990-03-01", "2030-10-31"), "DATE",
     ["infinity", "-infinity", "0001-01-01", "9999-12-31", "2008-02-29", "1990-03-01", None]),
    (pol.Timestamp("back", "2015-01-01", "2035-01-01", 60), "TIMESTAMP",
     ["infinity", "-infinity", "262143-12-31 23:59:59", "0001-01-01", "2019-07-08 09:10:11.121314",
      "1970-01-01", None]),
    (pol.Text("shelf"), "VARCHAR", ["A1", "", "ß'\"", "x" * 300, None]),
    (pol.Category("shade", [3, 14, -2], other=0), "INTEGER", whole(32, 3, 14, -2, 4)),
    (pol.Category("stars", [1, 2, 4]), "DOUBLE PRECISION",
     ["1", "2", "2.5", "4", "NaN", "-Infinity", "1e19", None]),
    (pol.Category("title", TITLES), "VARCHAR", ["t00", "t59", "t60", "T00", None]),
]  # fmt: skip
FLOORS = {"north": 2, "south": 0, "east": 7, "west": None}
RULES = {
    "rows": {"unit": "reader", "max_rows_per_unit": 4},
    "groups": {"unit": "reader", "max_groups_per_unit": 3, "max_rows_per_group": 2},
    "changed": {"unit": "reader", "max_rows_per_unit": 2, "max_rows_per_group": 1,
                "neighbours": "change-one"},
    "alone": {},
}  # fmt: skip
HEAVY = 7


def loans():
    """Rows of many readers, one of whom has far more than any limit lets through."""
    draw = random.Random("loans")
    readers = [HEAVY] * 60 + [-(2**63), 2**63 - 1, None] * 4 + [i // 2 for i in range(150)]
    return [[reader, *(draw.choice(pool) for *_, pool in SPEC)] for reader in readers]


def policy(name):
    people = pol.Table("loans", [column for column, *_ in SPEC], **RULES[name])
    floors = [pol.Category("branch", BRANCHES), pol.Integer("floors", 0, 9)]
    houses = pol.Table("houses", floors, public=True)
    return pol.Policy([people, houses], pol.Budget("1", "1e-6"), name=name)


def fill(execute):
    """Create the tables, and beside them the loans without a reader and without a row."""
    types = ["reader BIGINT", *(f"{column.name} {native}" for column, native, _ in SPEC)]
    rows = loans()
    less = {
        "loans": rows,
        "loans_rows": [r for r in rows if r[0] != HEAVY],
        "loans_alone": rows[1:],
    }
    for name, held in less.items():
        execute(f"CREATE TABLE {name} ({', '.join(types)})")
        execute(f"INSERT INTO {name} VALUES " + ", ".join(map(literals, held)))
    execute("CREATE TABLE houses (branch VARCHAR, floors SMALLINT)")
    execute("INSERT INTO houses VALUES " + ", ".join(map(literals, FLOORS.items())))


def literals(row):
    quoted = ("NULL" if v is None else "'" + str(v).replace("'", "''") + "'" for v in row)
    return f"({', '.join(quoted)})"


@dataclass(frozen=True)
class Store:
    """One engine under one set of rules: proves texts, and runs them."""

    rules: str
    engine: eng.Engine
    execute: object

    def proof(self, text):
        """The verifier's opinion of a text, or None."""
        tables = {
            name: verify.Table(dict(held.columns), held.unit, held.public)
            for name, held in self.engine.catalog.items()
        }
        fanouts = {(n, frozenset({"branch"})): 1 for n, t in tables.items() if t.public}
        try:
            return verify.prove(text, dialect=self.engine.name, tables=tables, fanouts=fanouts)
        except UnprovenStatementError:
            return None

    def run(self, text, keys):
        """Results by key, or None where the engine fails."""
        try:
            rows = self.execute(text).fetchall()
        except (duckdb.Error, psycopg.Error):
            return None
        return {row[:keys]: [int(v or 0) for v in row[keys:]] for row in rows}

    def fault(self, text, proof):
        """What an engine does that the proof of a text rules out, or nothing."""
        keys = sum(c.key for c in proof.columns)
        less = "alone" if self.rules == "alone" else "rows"
        one = self.run(text, keys)
        two = self.run(text.replace('"loans"', f'"loans_{less}"'), keys)
        if one is None or two is None:
            return "it fails"
        for i, reading in enumerate(proof.measures):
            zero = [0] * len(proof.measures)
            moves = [abs(one.get(k, zero)[i] - two.get(k, zero)[i]) for k in one.keys() | two]
            norms = (sum(moves), sum(m * m for m in moves), max(moves, default=0))
            reach = reading.sensitivity("add-remove")
            if norms[0] > reach.l1 or norms[1] > reach.l2_squared or norms[2] > reach.linf:
                return f"column {i} moves by {norms}, {reading} is read"
        return None


@pytest.fixture(scope="module")
def stores(postgres_url):
    """Each set of rules on both engines."""
    with (
        duckdb.connect(config={"threads": 1}) as duck,
        psycopg.connect(postgres_url, autocommit=True) as post,
    ):
        post.execute("DROP SCHEMA IF EXISTS library CASCADE")
        post.execute("CREATE SCHEMA library")
        post.execute("SET search_path = library")
        for connection in (duck, post):
            fill(connection.execute)
        yield {
            rules: [Store(rules, eng.connect(c, policy(rules)), c.execute) for c in (duck, post)]
            for rules in RULES
        }


# -- questions, from a grammar ----------------------------------------------------------------

SPREAD = [0, 1, 2, 5, 31, 0.05, 0.3, 1e-6, 12345.678, 10**16, 10**20, 10**30]
SPREAD += [2**k + d for k in (7, 15, 16, 31, 32, 45, 53, 61, 62, 63, 64) for d in (-1, 0, 1)]
GRAMMAR = {
    "question": {
        "SELECT {measure} AS m FROM {source}": 2,
        "SELECT {measure} AS m FROM {source} WHERE {test}": 4,
        "SELECT {key} AS k, {measure} AS m FROM {source} GROUP BY 1": 2,
        "SELECT {key} AS k, {measure} AS m FROM {source} WHERE {test} GROUP BY 1": 4,
    },
    "measure": {
        "COUNT(*)": 2, "SUM({number})": 4, "AVG({number})": 2, "VAR({field})": 1, "{units}": 1,
        "COUNT({number})": 1, "COUNT(DISTINCT {field})": 1, "MEDIAN({field})": 1,
        "SUM({number}) FILTER (WHERE {test})": 1,
    },
    "key": {
        "loans.branch": 2, "overdue": 1, "shade": 1, "stars": 1, "title": 1, "copies": 1,
        "EXTRACT({part} FROM {moment})": 1, "WIDTH_BUCKET({number}, {edge}, {edge}, 4)": 2,
        "CASE WHEN {test} THEN 'p' WHEN {test} THEN 'q' END": 2,
        "LEAST(GREATEST({number}, 2), 9)": 1,
    },
    "number": {
        "{field}": 6, "{constant}": 2, "({number} {sign} {number})": 6, "ABS({number})": 1,
        "COALESCE({number}, {constant})": 1, "NULLIF({number}, {constant})": 1,
        "CASE WHEN {test} THEN {number} ELSE {number} END": 2, "ROUND({number}, {digits})": 1,
        "WIDTH_BUCKET({number}, {edge}, {edge}, 6)": 1, "GREATEST({number}, {constant})": 1,
        "EXTRACT({part} FROM {moment})": 1, "POWER({field}, 2)": 1,
        "CASE WHEN copies > 20 THEN {number} END": 1,  # NULL on every row
    },
    "test": {
        "{number} {compare} {constant}": 6, "{number} {compare} {field}": 2,
        "{number} BETWEEN {constant} AND {constant}": 2, "{number} IN ({constant}, {constant})": 2,
        "({test} AND {test})": 2, "({test} OR {test})": 2, "NOT ({test})": 1,
        "{field} IS NOT NULL": 1, "overdue": 1, "loans.branch IN ('east', 'west')": 1,
        "shelf = 'A1'": 1, "title <> 't07'": 1, "lent < DATE '2001-09-09'": 1, "stars = 4": 1,
        "back >= TIMESTAMP '2020-02-02 02:02:02'": 1, "shade IN (14, 0)": 1,
    },
}  # fmt: skip
LEAVES = {"number": "{field}", "test": "overdue"}
WORDS = {
    "sign": ["+", "-", "*", "/"],
    "compare": ["<", "<=", "=", ">=", ">", "<>"],
    "part": ["YEAR", "MONTH", "DAY"],
    "moment": ["lent", "back"],
    "digits": ["-2", "0", "1", "9"],
    "edge": ["0", "-1.5", str(-(2**40)), "33", "1e5", "-92233720368547758.07", "9e16"],
    "constant": [f"{mark}{n}" for n in SPREAD for mark in ("", "", "-")],
}
NUMBERS = ["copies", "pages", "barcode", "fine", "weight", "price"]


class Questions:
    """Random sentences of the grammar."""

    def __init__(self, seed):
        self.draw = random.Random(f"questions {seed}")

    def sentence(self):
        joined = self.draw.random() < 0.3
        own = {
            "source": ["loans JOIN houses ON loans.branch = houses.branch" if joined else "loans"],
            "field": [*NUMBERS, *(["floors"] if joined else [])],
            "units": ["COUNT(DISTINCT reader)"],
        }
        return self.expand("{question}", WORDS | own, 14)

    def expand(self, text, words, fuel):
        """Fill every hole; when the fuel is spent, with the shortest there is."""

        def fill(hole):
            name = hole[1]
            if name in words:
                return self.draw.choice(words[name])
            rest[0] -= 1
            if rest[0] < 0 and name in LEAVES:
                return self.expand(LEAVES[name], words, 0)
            forms = GRAMMAR[name]
            (form,) = self.draw.choices(list(forms), list(forms.values()))
            return self.expand(form, words, rest[0] // 2 if name in LEAVES else rest[0])

        rest = [fuel]
        return re.sub(r"\{(\w+)\}", fill, text)


def lowered(store, question):
    """Plan of a question, or None where it is refused."""
    try:
        parsed = sql.parse(question, store.engine._policy, public_fanout={"houses": 1})
        return plan.lower(parsed.query)
    except (QueryError, ParameterError):
        return None


def written(store, aggregate):
    """Statement of an aggregate; None where it is refused before anything is paid."""
    try:
        return store.engine.sql(aggregate)
    except UnprovenStatementError:
        return None


def statements(stores, seed, count, first=(), refused=None):
    """Statements of questions that are asked: store, plan, aggregate, text; each text once."""
    refused = [] if refused is None else refused
    source, seen, asked = Questions(seed), set(), 0
    questions = itertools.chain(first, iter(source.sentence, None))
    while asked < count:
        question, found = next(questions), {}
        for store in itertools.chain(*stores.values()):
            low = found.setdefault(store.rules, lowered(store, question))
            for aggregate in low.aggregates if low else ():
                text = written(store, aggregate) if aggregate.measures else ""
                if text is None:
                    refused.append(question)
                if text and (store.rules, text) not in seen:
                    seen.add((store.rules, text))
                    yield store, low, aggregate, text
        asked += any(found.values())


def largest(text):
    """A statement with the largest coefficients there are."""
    return verify.fill(text, collections.defaultdict(lambda: 2**31 - 2))


def check(stores, seed, count):
    """What is proved limits as is declared, and does on extremes what is read.

    The verifier may refuse what it cannot prove, before anything is paid: at most one
    statement in twenty (in most blocks none; aggregates of what is always NULL).
    """
    checked, refused = 0, []
    for store, low, aggregate, text in statements(stores, seed, count, refused=refused):
        try:
            check_statements(store.engine, low)
        except UnprovenStatementError:
            refused.append(text)
            continue
        proof = store.proof(text)
        for measure, reading in zip(aggregate.measures, proof.measures, strict=True):
            d = plan.sensitivity(aggregate, measure)
            norms = (d.l1, d.l2_squared, d.linf)
            assert reading.within(*norms, aggregate.neighbours.value), (d, reading, text)
        assert store.fault(largest(text), proof) is None, text
        checked += 1
    assert len(refused) <= checked // 20, refused
    return checked


def test_statements_do_what_their_proofs_say(stores):
    assert check(stores, 0, 25) > 150


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 61))
def test_twenty_thousand_statements_do_what_their_proofs_say(stores, seed):
    assert check(stores, seed, 60) > 350


# -- mutants ------------------------------------------------------------------------------------

WORD = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\w+|\S")
WRAPPERS = {
    "divisor may be zero": (r"NULLIF\((\w+|CAST\(\w+ AS \w+\)), 0\)", r"\1"),
    "cast instead of trial": (r"\bTRY_CAST\(", "CAST("),
    "sixty-four bits for more": (r"\bAS (?:HUGEINT|numeric)\)", "AS BIGINT)"),
    "no remainder": (r" % 2147483647\b", ""),
    "huge coefficient": (r":salt\d+_\d+", r"(\g<0> * 1099511627776)"),
}
LIMITERS = {
    "one more": (r"(n\d+ BETWEEN 1 AND) (\d+)", lambda m: f"{m[1]} {int(m[2]) + 1}"),
    "any rank": (r" WHERE n\d+ BETWEEN 1 AND \d+", lambda _: ""),
    "ranks shifted": (r"(n\d+) (BETWEEN 1 AND \d+)", lambda m: f"{m[1]} - 3 {m[2]}"),
    "all in one partition": (r"PARTITION BY u\b", lambda _: "PARTITION BY CAST(0 AS BIGINT)"),
    "units merged": (r"PARTITION BY u\b", lambda _: "PARTITION BY u % 11"),
    "units split": (
        r"(PARTITION BY u) ORDER BY (h\d+)",
        lambda m: f"{m[1]}, {m[2]} ORDER BY {m[2]}",
    ),
}


def cases(text):
    """Positions of the words of every CASE, its own only."""
    opened, closed = [], []
    for token in WORD.finditer(text):
        if token[0] == "CASE":
            opened.append([])
        if token[0] in ("CASE", "WHEN", "THEN", "ELSE", "END"):
            opened[-1].append((token[0], *token.span()))
        if token[0] == "END":
            closed.append(opened.pop())
    return closed


def unguarded(text):
    """Texts in which a WHEN holds always, never, or without a conjunct: name, place, new words."""
    for marks in cases(text):
        if text[marks[0][2] : marks[1][1]].strip():
            continue  # CASE x WHEN 1 …: a lookup, no guard
        for (word, _, start), (_, stop, _) in itertools.pairwise(marks):
            if word != "WHEN":
                continue
            yield "always", start, stop, " TRUE "
            yield "never", start, stop, " FALSE "
            parts = text[start:stop].split(" AND ")
            if len(parts) > 1 and all(p.count("(") == p.count(")") for p in parts):
                for i in range(len(parts)):
                    rest = " AND ".join(parts[:i] + parts[i + 1 :])
                    yield "one conjunct less", start, stop, f" {rest.strip()} "


def matched(text, rules):
    """Texts with one match of a rule replaced: name, place, new words."""
    for name, (pattern, new) in rules.items():
        for match in re.finditer(pattern, text):
            yield name, *match.span(), match.expand(new) if isinstance(new, str) else new(match)


def mutants(text, edits):
    """Name of each edit, the words around it (names without their numbers), new text."""
    for name, start, stop, new in edits:
        place = re.sub(r"\b([a-z]+)[\d_]+\b", r"\1", text[max(start - 60, 0) : stop + 30])
        yield name, place, text[:start] + new + text[stop:]


QUOTIENTS = ("copies / weight", "pages / price", "fine / barcode", "barcode / weight")
DIVIDED = [f"SELECT SUM({quotient}) AS m FROM loans" for quotient in QUOTIENTS]


@pytest.mark.parametrize("count", [14, pytest.param(200, marks=pytest.mark.long)])
def test_whatever_is_taken_out_is_refused_or_does_no_harm(stores, count):
    """Each clamp, guard and wrapper in turn; the same words in the same place once."""
    tally, seen = collections.Counter(), set()
    for store, _, _, text in statements(stores, "guards", count, DIVIDED):
        edits = itertools.chain(unguarded(text), matched(text, WRAPPERS))
        for name, place, mutant in mutants(text, edits):
            if (store.engine.name, name, place) in seen:
                continue
            seen.add((store.engine.name, name, place))
            proof = store.proof(mutant)
            tally[name, "proved" if proof else "refused"] += 1
            if proof:
                fault = store.fault(largest(mutant), proof)
                assert fault is None, (name, place, fault, mutant)
    for name in ("always", "never", "one conjunct less", *WRAPPERS):
        assert tally[name, "refused"] > 2, (name, tally)
    assert sum(n for (_, fate), n in tally.items() if fate == "refused") > 150, tally


def test_a_guard_that_is_missed_does_harm(stores):
    """The harness can fail: believe that every text is proved as its original is."""
    harm = 0
    for store, _, _, text in statements(stores, "guards", 6):
        proof = store.proof(text)
        for _, _, mutant in mutants(text, unguarded(text)):
            if store.proof(mutant) is None:
                harm += store.fault(largest(mutant), proof) is not None
            if harm > 3:
                return
    pytest.fail(f"only {harm} mutants do harm")


def binding(proof, text):
    """Whether every limit in a text binds: without it nothing else says as much."""
    limits = len(re.findall(LIMITERS["any rank"][0], text))
    measures = proof.measures
    if any(m.once or m.magnitude in (0, math.inf) for m in measures):
        return False
    one = limits == 1 and all(m.rows < math.inf for m in measures)
    return one or (limits == 2 and all(m.groups < m.cells for m in measures))


def test_a_limit_taken_out_is_always_noticed(stores):
    """Refused, or every measure is read as moving more than before."""
    tally = collections.Counter()
    for store, _, _, text in statements(stores, "limits", 12):
        proof = store.proof(text)
        if not binding(proof, text):
            continue
        before = [m.sensitivity("add-remove") for m in proof.measures]
        for name, _, mutant in mutants(text, matched(text, LIMITERS)):
            other = store.proof(mutant)
            tally[name] += 1
            if other:
                after = [m.sensitivity("add-remove") for m in other.measures]
                pairs = zip(after, before, strict=True)
                assert all(a.l1 > b.l1 or a.linf > b.linf for a, b in pairs), (name, mutant)
    assert set(tally) == set(LIMITERS), tally
    assert min(tally.values()) > 10, tally


def test_rows_without_a_unit_are_dropped_by_the_text(stores):
    """NULL is one unit for the engine and nobody for the policy."""
    for store, _, _, text in statements(stores, "nobody", 4):
        kept = text.replace(' WHERE "reader" IS NOT NULL', "")
        assert (kept == text) == (store.rules == "alone")
        if kept != text:
            proof = store.proof(kept)
            reaches = [m.sensitivity("add-remove").l1 for m in proof.measures] if proof else []
            assert all(r in (0, math.inf) for r in reaches), kept
