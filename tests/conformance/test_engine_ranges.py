"""Constants of every width in every position, WHERE beside any key: no engine ever fails.

Questions are generated as SQL text over a table of extremes. What the plan accepts
must run on DuckDB and PostgreSQL and give the integers of the reference. The
generator is seeded, so these tests are certain: they either hold or they do not.
"""

from __future__ import annotations

import random
from fractions import Fraction

import duckdb
import psycopg
import pytest

from discreet import engines, plan, sql
from discreet import policy as pol
from discreet.errors import EngineError, ParameterError, QueryError, UnprovenStatementError
from discreet.plan import Key, Limits, Measure, MeasureKind, Scan, aggregate
from discreet.plan import expr as ex

HUGE = 2**62 - 1
INTEGERS = (None, 0, 1, -1, 7, 40, 115, 2**31 - 1, -(2**31), 2**53 + 1, HUGE, -HUGE, 2**63 - 1,
            -(2**63))  # fmt: skip
REALS = (None, float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 5e-324, 0.005, 1.0, 54999.99,
         200_000.0, -1.5, 1e300, 2.0**62)  # fmt: skip
SPEC = {
    "age": (pol.Integer("age", 0, 115), "BIGINT", INTEGERS),
    "debt": (pol.Integer("debt", -50, 20, outside="null"), "BIGINT", INTEGERS),
    "long": (pol.Integer("long", -(2**40), 2**40), "BIGINT", INTEGERS),
    "big": (pol.Integer("big", -HUGE, HUGE), "BIGINT", INTEGERS),
    "income": (pol.Real("income", 0, 200_000, "0.01"), "DOUBLE PRECISION", REALS),
    "share": (pol.Real("share", -1, 1, "1/3", null="1/3"), "DOUBLE PRECISION", REALS),
    "sex": (pol.Category("sex", ["F", "M", "X"]), "TEXT", (None, "F", "M", "X", "q")),
    "flag": (pol.Boolean("flag"), "BOOLEAN", (None, True, False)),
}
REGION = [{"code": "F", "weight": 1}, {"code": "M", "weight": 9}, {"code": "X", "weight": -3}]


def policy():
    region = pol.Table(
        "r", [pol.Category("code", ["F", "M", "X"]), pol.Integer("weight", -5, 5)], public=True
    )
    people = pol.Table("t", [column for column, _, _ in SPEC.values()])
    return pol.Policy([people, region], pol.Budget("1"), name="ranges")


class Extremes:
    """One table of extremes in both engines and in plain Python."""

    def __init__(self, rows, connections):
        self.policy = policy()
        self.tables = {"t": rows, "r": REGION}
        self.engines = [engines.connect(c, self.policy) for c in connections]
        self.refused = []

    def agree(self, aggregate):
        salt = plan.Salt(b"ranges")
        expected = plan.run(aggregate, self.tables, salt)
        for engine in self.engines:
            assert engine.execute(aggregate, salt) == expected, engine.sql(aggregate)

    def ask(self, text):
        """Run one question everywhere; return whether it was one."""
        try:
            query = sql.parse(text, self.policy, public_fanout={"r": 1}).query
            aggregates = [a for a in plan.lower(query).aggregates if a.measures]
        except (QueryError, ParameterError):
            return False
        for asked in aggregates:
            if not self.proved(asked):
                self.refused.append(text)
                return False
            try:
                self.agree(asked)
            except EngineError as error:
                pytest.fail(f"{text}\n{error}")
        return True

    def proved(self, asked):
        """Whether every engine's statement is proved; else it is refused before it is paid."""
        try:
            return [engine.sql(asked) for engine in self.engines] != []
        except UnprovenStatementError:
            return False


@pytest.fixture(scope="module")
def extremes(postgres_url, nasty):
    source = random.Random(5)
    rows = [{name: source.choice(pool) for name, (_, _, pool) in SPEC.items()} for _ in range(60)]
    types = {name: kind for name, (_, kind, _) in SPEC.items()}
    with duckdb.connect() as duck, psycopg.connect(postgres_url, autocommit=True) as postgres:
        postgres.execute("CREATE SCHEMA IF NOT EXISTS ranges")
        postgres.execute("SET search_path = ranges")
        for connection, mark in ((duck, "?"), (postgres.cursor(), "%s")):
            nasty.create(connection, "t", types, rows, mark)
            nasty.create(connection, "r", {"code": "TEXT", "weight": "INTEGER"}, REGION, mark)
        yield Extremes(rows, [duck, postgres])


# --- the generator -------------------------------------------------------------------------

WIDTHS = [0, 1, 2, 3, 10, 99, 10**17, 4 * 10**18, 10**19, 10**22]
WIDTHS += [2**k + d for k in (7, 8, 15, 16, 31, 32, 53, 61, 62, 63, 64) for d in (-1, 0, 1)]
FRACTIONS = ["0.5", "0.005", "0.015", "1e-9", "33.333", "92233720368547758.07", "1e-30", "7.25e9"]
NUMBERS = ("age", "debt", "long", "big", "income", "share")
COMPARE = ("<", "<=", "=", "<>", ">=", ">")


class Generator:
    """Random questions whose constants have every width."""

    def __init__(self, seed):
        self.pick = random.Random(seed)

    def constant(self):
        if self.pick.random() < 0.4:
            text = str(self.pick.choice((0, 1, 2, 7, 18, 40, 100)))
        elif self.pick.random() < 0.3:
            text = self.pick.choice(FRACTIONS)
        else:
            text = str(self.pick.choice(WIDTHS))
        return f"-{text}" if self.pick.random() < 0.35 else text

    def number(self, depth=2):
        if depth == 0 or self.pick.random() < 0.25:
            return self.pick.choice(NUMBERS)
        x, c, d = self.number(depth - 1), self.constant(), self.constant()
        y = self.pick.choice((c, c, self.number(depth - 1)))
        return self.pick.choice((
            f"({x} {self.pick.choice('+-*/')} {y})",
            f"({y} {self.pick.choice('+-*/')} {x})",
            f"LEAST({x}, {c})", f"GREATEST({x}, {c})", f"GREATEST(LEAST({x}, {c}), {d})",
            f"WIDTH_BUCKET({x}, {c}, {d}, {self.pick.choice((1, 2, 3, 7, 300))})",
            f"ROUND({x}, {self.pick.randint(-18, 18)})", f"FLOOR({x})", f"CEIL({x})",
            f"COALESCE({x}, {c})", f"NULLIF({x}, {c})", f"ABS({x})", f"POWER({x}, 2)", f"(-{x})",
            f"CASE WHEN {self.test(depth - 1)} THEN {x} ELSE {y} END",
            f"CASE WHEN {self.test(0)} THEN {c} END",
            f"CAST({self.test(0)} AS INTEGER)",
        ))  # fmt: skip

    def test(self, depth=1):
        x, c, d = self.number(depth and depth - 1), self.constant(), self.constant()
        simple = self.pick.choice((
            f"{x} {self.pick.choice(COMPARE)} {c}",
            f"{x} {self.pick.choice(COMPARE)} {self.pick.choice(NUMBERS)}",
            f"{x} BETWEEN {c} AND {d}", f"{x} IN ({c})", f"{x} IN ({c}, {d}, 1)",
            f"{x} NOT IN ({c}, 40)", f"{x} IS NULL", "flag", "sex = 'F'", "sex <> 'M'",
            f"{self.pick.choice(NUMBERS)} {self.pick.choice(COMPARE)} {c}",
        ))  # fmt: skip
        if depth == 0 or self.pick.random() < 0.5:
            return simple
        other = self.test(depth - 1)
        return self.pick.choice(
            (f"({simple} AND {other})", f"({simple} OR {other})", f"NOT ({simple})")
        )

    def where(self):
        """Conditions that narrow bounds, as often as not in several unlike branches."""
        column, c = self.pick.choice(NUMBERS), self.constant()
        return self.pick.choice((
            self.test(2), self.test(1),
            f"{column} BETWEEN 0 AND {c}", f"{column} IN (0, {c})",
            f"({column} IN (0) AND {self.test(0)}) OR ({column} BETWEEN 0 AND 0.001)",
        ))  # fmt: skip

    def question(self):
        join = " JOIN r ON t.sex = r.code" if self.pick.random() < 0.4 else ""
        where = f" WHERE {self.where()}" if self.pick.random() < 0.8 else ""
        if join and where:
            where += f" AND (weight {self.pick.choice(COMPARE)} age OR {self.test(0)})"
        measure = self.pick.choice((
            f"SUM({self.number()})", "COUNT(*)", f"AVG({self.test()})",
            f"COUNT(DISTINCT {self.number(1)})", f"MEDIAN({self.number(1)})",
            f"SUM({self.number(1)}) FILTER (WHERE {self.test()})", f"VAR({self.number(1)})",
        ))  # fmt: skip
        if self.pick.random() < 0.4:
            return f"SELECT {measure} AS x FROM t{join}{where}"
        key = self.pick.choice((
            f"CASE WHEN {self.test(2)} THEN 'a' ELSE 'b' END",
            f"WIDTH_BUCKET({self.number()}, {self.constant()}, {self.constant()}, 3)",
            f"LEAST(GREATEST({self.number()}, 0), 5)", "age", "debt", "sex",
            f"CASE WHEN {self.test(1)} THEN CASE WHEN {self.number()} > 1 THEN 'a' END END",
        ))  # fmt: skip
        return f"SELECT {key} AS k, {measure} AS x FROM t{join}{where} GROUP BY 1"


def check(extremes, seed, count):
    generator = Generator(seed)
    accepted = sum(extremes.ask(generator.question()) for _ in range(count))
    assert accepted > count / 4, "the generator no longer makes questions"
    # the verifier may be too careful, of values that are always NULL for one
    assert len(extremes.refused) <= count / 50, extremes.refused
    extremes.refused.clear()


@pytest.mark.parametrize("seed", range(4))
def test_generated_questions_never_fail_and_agree(extremes, seed):
    check(extremes, seed, 50)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 140))
def test_generated_questions_at_length(extremes, seed):
    check(extremes, seed, 1_000)


# --- nodes built by hand -------------------------------------------------------------------


def test_operators_agree_on_the_ends_of_their_ranges(extremes):
    """Where a node's own constructor lets it pass, both engines compute it."""
    relation = Scan(extremes.policy.tables["t"])
    c = {name: ex.Column(name, t) for name, t in relation.schema.items()}
    big, long, age = c["big"], c["long"], c["age"]
    number = ex.Constant.number
    far = number(Fraction(HUGE // 2))
    exprs = [
        ex.Abs(big), ex.AsNumber(big), ex.Clamp(big, -HUGE, HUGE), ex.Clamp(big, HUGE, HUGE),
        ex.Clamp(age, -(2**70), 2**70), ex.Clamp(age, -(2**70), 3), ex.Guard(big, 1, 2),
        ex.Bucket(big, (-(2**70), -HUGE, 0, HUGE, 2**63, 2**70)), ex.Bucket(age, (2**70,)),
        ex.Bucket(big, (-(2**61), 0, 2**61)), ex.Bucket(age, (-(2**80), -(2**70))),
        ex.OneOf(big, (2**63, -(2**63), HUGE, 0)), ex.OneOf(age, (2**64,)),
        ex.Compare("<", big, far), ex.Divide(long, age, Fraction(1, 2**12)),
        ex.Divide(long, long, Fraction(1)), ex.Divide(number(Fraction(-1)), c["debt"], Fraction(1)),
        ex.Divide(age, long, Fraction(1, 2**50)), ex.Divide(ex.Clamp(big, -HUGE // 4, HUGE // 4),
                                                           c["debt"], Fraction(1)),
        ex.Rescale(long, Fraction(1, 2**19)), ex.Rescale(long, Fraction(3), "floor"),
        ex.Square(ex.Clamp(big, -(2**31) + 1, 2**31 - 1)),
    ]  # fmt: skip
    for e in exprs:
        sums = (Measure(MeasureKind.SUM, e), Measure(MeasureKind.SUM, ex.IsNull(e)))
        extremes.agree(aggregate(relation, (), sums, Limits(rows=1)))
        codes = tuple(range(e.type.lo, min(e.type.hi, e.type.lo + 5) + 1))
        extremes.agree(aggregate(relation, (Key("k", e, codes),), sums, Limits(rows=1)))


@pytest.mark.parametrize("operator", ex.operators(), ids=lambda c: c.__name__)
def test_every_operator_is_whole(operator):
    """An operator says bounds, meaning, SQL and words, and is built by the generator's kit."""
    for part in ("_infer", "_apply", "sql", "describe", "evaluate"):
        assert callable(getattr(operator, part))
    assert operator.__doc__


def test_a_missing_part_is_noticed():
    """The planted mutant: an operator without SQL can neither be listed nor built."""

    class Half(ex.Abs.__mro__[1]):
        def _infer(self):
            return self.arg.type

        def _apply(self, *codes):
            return codes[0]

    assert Half not in ex.operators()
    with pytest.raises(TypeError, match="sql"):
        Half(ex.Constant.number(Fraction(1)))


def test_without_guards_the_generator_finds_a_failure(extremes, monkeypatch):
    """The planted mutant: bounds that WHERE proves, merely believed.

    The relation refuses them. Were that check gone as well, the verifier would.
    """
    from discreet.plan import _relation, _scope

    def believed(column, known):
        return ex.Column(column.name, known.narrow(column.type))

    monkeypatch.setattr(_scope, "_guarded", believed)
    text = (
        "SELECT CASE WHEN (big + 1) * (2 + big) > 5 THEN 'a' END AS k, COUNT(*) AS n FROM t "
        "JOIN r ON t.sex = r.code WHERE (big IN (0) AND weight = 1) OR "
        "(big IN (1) AND weight = 5 AND age <> weight) OR (big BETWEEN 0 AND 2 AND weight < 0) "
        "GROUP BY 1"
    )
    assert not extremes.ask(text)
    monkeypatch.setattr(_relation, "check_columns", lambda *_: None)
    assert not extremes.refused
    assert not extremes.ask(text)
    assert extremes.refused.pop() == text
