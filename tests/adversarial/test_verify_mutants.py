"""The verifier against generated statements, their mutants and known attacks, on real engines.

Nothing here is left to chance: every generator has a fixed seed, so that a run
either always passes or always fails.
"""

from __future__ import annotations

import collections
import math
import random
import re

import duckdb
import psycopg
import pytest

import discreet as dc
from discreet import plan, verify
from discreet import policy as pol
from discreet.errors import DiscreetError, UnprovenStatementError

SALT = plan.Salt(b"verify" * 3)
COLUMNS = [
    pol.Category("sex", ["F", "M", "X"]),
    pol.Integer("age", 0, 115),
    pol.Real("income", 0, 200_000, step="0.01"),
    pol.Boolean("married"),
    pol.Date("joined", "2000-01-01", "2024-12-31"),
    pol.Timestamp("seen", "2020-01-01", "2025-01-01"),
    pol.Text("city"),
    pol.Integer("big", -(2**40), 2**40),
    pol.Real("pay", -1000, 1000, step="5", outside="null"),
    pol.Category("level", [1, 2, 5], other=9),
    pol.Category("code", [f"k{i}" for i in range(40)]),
]
TYPES = (
    "person_id BIGINT, sex VARCHAR, age INTEGER, income DOUBLE PRECISION, married BOOLEAN, "
    "joined DATE, seen TIMESTAMP, city VARCHAR, big BIGINT, pay DOUBLE PRECISION, "
    "level DOUBLE PRECISION, code VARCHAR"
)
EXTREMES = {
    "sex": ["'F'", "'M'", "NULL", "'zz'"],
    "age": ["2147483647", "-2147483648", "30", "NULL", "115", "0"],
    "income": ["'nan'", "'inf'", "'-inf'", "1.7976931348623157e308", "5e-324", "200000",
               "23456.78", "NULL", "-0.0", "9223372036854775808"],
    "married": ["true", "false", "NULL"],
    "joined": ["'infinity'", "'-infinity'", "'2001-02-03'", "NULL", "'0001-01-01'"],
    "seen": ["'infinity'", "'-infinity'", "'2022-02-02 03:04:05.678901'", "NULL", "'290000-01-01'"],
    "city": ["'Ulm'", "''", "NULL", "'😀'"],
    "big": ["9223372036854775807", "'-9223372036854775808'", "1099511627776", "0", "NULL"],
    "pay": ["'nan'", "999.99", "-1000", "5e-324", "NULL", "'inf'", "0"],
    "level": ["1", "2.5", "'nan'", "9e18", "NULL"],
    "code": ["'k0'", "'k39'", "'q'", "NULL"],
}  # fmt: skip
LIMITS = {
    "rows": {"unit": "person_id", "max_rows_per_unit": 3},
    "groups": {"unit": "person_id", "max_groups_per_unit": 2, "max_rows_per_group": 2},
    "none": {},
}
FANOUT = frozenset({"sex"})


def _fill(execute):
    source = random.Random(3)
    rows = []
    for i in range(400):
        unit = str(i // 4) if i % 9 else f"'{-(2**63) + 1}'"
        rows.append(f"({', '.join([unit, *(source.choice(pool) for pool in EXTREMES.values())])})")
    for name in ("people", "regions"):
        execute(f"DROP TABLE IF EXISTS {name}")
    execute(f"CREATE TABLE people ({TYPES})")
    execute("INSERT INTO people VALUES " + ", ".join(rows))
    execute("CREATE TABLE regions (sex VARCHAR, n INTEGER)")
    execute("INSERT INTO regions VALUES ('F', 1), ('M', 2), ('X', 3)")


def _catalog(engine, policy):
    tables = {}
    for name, source in engine._sources.items():
        table = policy.tables[name]
        columns = {found.name: found.native for found in source.columns.values()}
        tables[source.table] = verify.Table(columns, table.unit, table.public)
    return tables


class Engine:
    """One engine with the table of extremes, under one policy."""

    def __init__(self, dialect, curator, policy, execute):
        self.dialect, self.curator, self.execute = dialect, curator, execute
        self.tables = _catalog(curator._engine, policy)
        self.fanouts = {(t, FANOUT): 1 for t, table in self.tables.items() if table.public}

    def prove(self, sql):
        return verify.prove(sql, dialect=self.dialect, tables=self.tables, fanouts=self.fanouts)

    def proof(self, sql):
        try:
            return self.prove(sql)
        except UnprovenStatementError:
            return None

    def fails(self, sql):
        try:
            self.execute(sql).fetchall()
        except (duckdb.Error, psycopg.Error):
            return True
        return False


@pytest.fixture(scope="module")
def engines(postgres_url):
    """Both engines under each kind of limits."""
    duck = duckdb.connect()
    _fill(duck.execute)
    with psycopg.connect(postgres_url, autocommit=True) as post:
        post.execute("CREATE SCHEMA IF NOT EXISTS extremes")
        post.execute("SET search_path = extremes")
        _fill(post.execute)
        found = {}
        for name, limits in LIMITS.items():
            regions = pol.Table("regions", [COLUMNS[0], pol.Integer("n", 0, 9)], public=True)
            policy = pol.Policy([pol.Table("people", COLUMNS, **limits), regions],
                                pol.Budget("1000", "1e-3"), name=name)  # fmt: skip
            found[name] = [
                Engine(dialect, dc.open(c, policy=policy, ledger=":memory:"), policy, c.execute)
                for dialect, c in (("duckdb", duck), ("postgresql", post))
            ]
        yield found
    duck.close()


# Questions with constants of every width in every operator position.

NUMBERS = [0, 1, 2, -3, 0.5, 100, 2**15, 2**31 - 1, 2**31, 2**40, 2**53, 2**62, 2**63 - 1, 2**63,
           10**17, -(2**63), 10**25]  # fmt: skip
CONDITIONS = ["sex = 'F'", "sex IN ('F', 'M')", "married", "code IN ('k1', 'k7')", "city = 'Ulm'",
              "joined >= DATE '2010-01-01'", "level = 2", "sex IS NULL"]  # fmt: skip


class Questions:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.join = False

    def number(self, depth=0):
        r, roll = self.random, self.random.random()
        if depth > 2 or roll < 0.35:
            names = ["age", "income", "big", "pay", "EXTRACT(YEAR FROM joined)",
                     "EXTRACT(MONTH FROM seen)", *(["n"] if self.join else [])]  # fmt: skip
            return r.choice(names)
        if roll < 0.5:
            return str(r.choice(NUMBERS))
        x = self.number(depth + 1)
        if roll < 0.8:
            return f"({x} {r.choice('+-*/')} {self.number(depth + 1)})"
        if roll < 0.86:
            return f"ABS({x})"
        if roll < 0.9:
            return f"COALESCE({x}, {r.choice(NUMBERS)})"
        if roll < 0.95:
            return (
                f"CASE WHEN {self.condition(depth + 1)} THEN {x} ELSE {self.number(depth + 1)} END"
            )
        low = r.choice([0, -10, -(2**40), -92233720368540000])
        high = r.choice([50, 2**40, 92233720368000000])
        return f"WIDTH_BUCKET({x}, {low}, {high}, {r.choice([2, 5, 10])})"

    def condition(self, depth=0):
        r, roll = self.random, self.random.random()
        x = self.number(depth + 1)
        if roll < 0.3:
            return f"{x} {r.choice(['<', '<=', '=', '>', '>=', '<>'])} {r.choice(NUMBERS)}"
        if roll < 0.45:
            return f"{x} BETWEEN {r.choice([0, 10, -5])} AND {r.choice([20, 90, 2**35])}"
        if roll < 0.6:
            values = ", ".join(str(r.choice(NUMBERS)) for _ in range(r.randint(1, 3)))
            return f"{x} IN ({values})"
        if roll < 0.7 or depth > 2:
            found = r.choice(CONDITIONS)
            return found.replace("sex", "p.sex") if self.join else found
        return (
            f"({self.condition(depth + 1)} {r.choice(['AND', 'OR'])} {self.condition(depth + 1)})"
        )

    def question(self):
        r = self.random
        self.join = r.random() < 0.3
        source = "people p JOIN regions r ON p.sex = r.sex" if self.join else "people"
        keys = ["", "", "p.sex" if self.join else "sex", "EXTRACT(YEAR FROM seen)", "married",
                "level", "code", "WIDTH_BUCKET(age, 0, 100, 5)",
                f"CASE WHEN {self.condition(1)} THEN 1 ELSE 0 END",
                f"CASE WHEN {self.condition(2)} THEN {self.number(2)} END"]  # fmt: skip
        key = r.choice(keys)
        what = r.choice(["COUNT(*)", f"SUM({self.number()})", f"AVG({self.number()})",
                         "COUNT(DISTINCT person_id)", f"COUNT({self.number(1)})"])  # fmt: skip
        where = f" WHERE {self.condition()}" if r.random() < 0.7 else ""
        select = f"SELECT {key + ' AS k, ' if key else ''}{what} AS a FROM {source}{where}"
        return select + (" GROUP BY 1" if key else "")


def aggregates(curator, question):
    """Aggregates that a question is lowered to; none where it is refused."""
    for choice in ({"epsilon": 1}, {"epsilon": 1, "delta": "1e-7"}):
        try:
            lowered = curator.preview(question, **choice).plan.lowered
        except DiscreetError:
            continue
        return [a for a in lowered.aggregates if a.measures]
    return []


def statements(engines, questions):
    """Engine, aggregate, and statement with and without a salt, each text once."""
    seen = set()
    for question in questions:
        for both in engines.values():
            for aggregate in aggregates(both[0].curator, question):
                for engine in both:
                    sql = engine.curator._engine.sql(aggregate)
                    if (engine.dialect, sql) not in seen:
                        seen.add((engine.dialect, sql))
                        yield engine, aggregate, sql, engine.curator._engine.sql(aggregate, SALT)


def check_generated(engines, questions):
    """Every statement is proved, runs on the extremes, and limits as far as is declared."""
    count = 0
    for engine, aggregate, sql, salted in statements(engines, questions):
        proof = engine.prove(sql)
        assert not engine.fails(salted), (engine.dialect, salted)
        pairs = zip(aggregate.measures, proof.columns[len(aggregate.keys) :], strict=True)
        for measure, reading in pairs:
            declared = plan.sensitivity(aggregate, measure)
            bounds = (declared.l1, declared.l2_squared, declared.linf)
            assert reading.within(*bounds, str(aggregate.neighbours)), (declared, reading, sql)
        count += 1
    return count


def test_no_proved_statement_fails_on_extremes(engines):
    source = Questions(1)
    assert check_generated(engines, [source.question() for _ in range(40)]) > 150


@pytest.mark.long
def test_no_proved_statement_fails_on_extremes_long(engines):
    source, total = Questions(2), 0
    while total < 20_000:
        total += check_generated(engines, [source.question() for _ in range(200)])


# Mutants: a clamp, guard or limit taken out of a proved statement.

LITERAL = r"CAST\('?-?[\d.e+]+'? AS \w+\)"
GUARDS = {
    "range guard": (
        rf"CASE WHEN (\w+) >= {LITERAL} AND \1 <= {LITERAL} THEN",
        "CASE WHEN TRUE THEN",
    ),
    "upper guard": (rf" AND \w+ <= {LITERAL}(?= THEN)", ""),
    "lower clamp": (rf"WHEN (\w+) < {LITERAL} THEN {LITERAL}", "WHEN FALSE THEN CAST(0 AS BIGINT)"),
    "upper clamp": (rf"WHEN (\w+) > {LITERAL} THEN {LITERAL}", "WHEN FALSE THEN CAST(0 AS BIGINT)"),
    "zero divisor": (r"NULLIF\((CAST\(\w+ AS \w+\)|\w+), 0\)", r"\1"),
    "finite": (r"WHEN isfinite\(\"\w+\"\) THEN", "WHEN TRUE THEN"),
    "wide cast": (r"AS (?:HUGEINT|numeric)\)", "AS BIGINT)"),
    "coefficient": (r":salt\w+", "(:salt0 * 4294967296)"),
    "remainder": (r" % 2147483647", ""),
    "trying cast": (r"TRY_CAST\((?=[^()]* AS BIGINT)", "CAST("),
}
LIMITERS = {
    "limit raised": (
        r"WHERE (n\d+) BETWEEN 1 AND (\d+)",
        lambda m: f"WHERE {m[1]} BETWEEN 1 AND {int(m[2]) + 1}",
    ),
    "limit dropped": (r" WHERE (n\d+) BETWEEN 1 AND \d+", ""),
    "partition changed": (r"PARTITION BY u", "PARTITION BY CAST(1 AS BIGINT)"),
    "unit blurred": (r"PARTITION BY u\b", "PARTITION BY u % 7"),
    "rank moved": (r"WHERE (n\d+) BETWEEN 1 AND", r"WHERE \1 - 5 BETWEEN 1 AND"),
    "no unit kept": (r" WHERE \"person_id\" IS NOT NULL", ""),
}


def mutants(sql, rules):
    for name, (pattern, by) in rules.items():
        for match in re.finditer(pattern, sql):
            changed = match.expand(by) if isinstance(by, str) else by(match)
            if changed != match[0]:
                yield name, sql[: match.start()] + changed + sql[match.end() :]


def salted(sql):
    """Fill a statement with the largest coefficients there are."""
    return verify.fill(sql, collections.defaultdict(lambda: 2**31 - 2))


def corpus(engines, seed, count):
    source = Questions(seed)
    for engine, aggregate, sql, _ in statements(engines, [source.question() for _ in range(count)]):
        proof = engine.proof(sql)
        if proof is not None:
            yield engine, aggregate, sql, proof


def moved(proof, keys):
    return [c.sensitivity("add-remove") for c in proof.columns[keys:]]


def test_guards_taken_out_are_noticed_or_harmless(engines):
    """A mutant is refused, or its addends grow, or it runs on the extremes all the same."""
    tally = collections.Counter()
    for engine, _, sql, _ in corpus(engines, 7, 8):
        for name, mutant in mutants(sql, GUARDS):
            proof = engine.proof(mutant)
            if proof is None:
                tally[name, "refused"] += 1
                continue
            tally[name, "proved"] += 1
            assert not engine.fails(salted(mutant)), (name, mutant)
    for name in ("range guard", "coefficient", "remainder", "upper guard"):
        assert tally[name, "refused"] > 0, (name, tally)
    assert sum(n for (_, kind), n in tally.items() if kind == "refused") > 100, tally


def needed(proof, sql):
    """Whether every limit in the text is needed: without it nothing else bounds as much."""
    measures = proof.measures
    limiters = len(re.findall(LIMITERS["limit dropped"][0], sql))
    single = limiters == 1 and all(c.rows < math.inf for c in measures)
    pair = limiters == 2 and all(c.groups < c.cells for c in measures)
    plain = not any(c.once or c.magnitude in (0, math.inf) for c in measures)
    return plain and (single or pair)


def test_limits_taken_out_are_always_noticed(engines):
    """Raising, moving or dropping a limit never leaves the sensitivity as it was."""
    tally = collections.Counter()
    for engine, aggregate, sql, proof in corpus(engines, 8, 20):
        if not needed(proof, sql):
            continue
        before = moved(proof, len(aggregate.keys))
        for name, mutant in mutants(sql, LIMITERS):
            other = engine.proof(mutant)
            tally[name] += 1
            if other is not None:
                after = moved(other, len(aggregate.keys))
                pairs = zip(after, before, strict=True)
                assert all(a.l1 > b.l1 or a.linf > b.linf for a, b in pairs), (name, mutant)
    assert set(tally) == set(LIMITERS), tally
    assert min(tally.values()) > 10, tally
