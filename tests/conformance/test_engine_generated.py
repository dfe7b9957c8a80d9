"""Generated expressions, tables and limits: DuckDB and PostgreSQL equal the reference."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import engines, plan
from discreet import policy as pol
from discreet.errors import ParameterError
from discreet.plan import Filter, Key, Kind, Measure, MeasureKind, Scan, aggregate, curves
from discreet.plan import expr as ex

COLUMNS = [
    pol.Category("c", ["a", "b"], other="z"),
    pol.Boolean("f"),
    pol.Integer("n", -4, 9),
    pol.Integer("m", 1, 3, null=2),
    pol.Real("x", -2, 3, "0.25", outside="null"),
    pol.Date("d", "1969-12-25", "1970-03-01"),
]
RAW = {
    "c": st.sampled_from([None, "a", "b", "q", "z"]),
    "f": st.sampled_from([None, True, False]),
    "n": st.one_of(st.none(), st.integers(-20, 20)),
    "m": st.one_of(st.none(), st.integers(0, 5)),
    "x": st.one_of(
        st.none(), st.floats(-4, 4), st.sampled_from([float("nan"), float("inf"), -0.0])
    ),
    "d": st.one_of(st.none(), st.dates()),
    "id": st.one_of(st.none(), st.integers(-3, 3)),
}
TYPES = "c VARCHAR, f BOOLEAN, n INTEGER, m INTEGER, x DOUBLE PRECISION, d DATE, id BIGINT"
TABLES = st.lists(st.fixed_dictionaries(RAW), max_size=25)
LIMITS = st.sampled_from(
    [
        {},
        {"unit": "id", "max_rows_per_unit": 2},
        {"unit": "id", "max_groups_per_unit": 1, "max_rows_per_group": 2},
        {"unit": "id", "max_rows_per_unit": 3, "max_groups_per_unit": 2, "max_rows_per_group": 2},
    ]
)
COLUMN = {c.name: ex.Column(c.name, plan.of_column(c)) for c in COLUMNS}
STEPS = st.sampled_from([Fraction(1), Fraction(1, 4), Fraction(3), Fraction(1, 10)])


def numbers():
    leaves = st.one_of(
        st.sampled_from([COLUMN["n"], COLUMN["m"], COLUMN["x"]]),
        st.fractions(-5, 5, max_denominator=4).map(ex.Constant.number),
        st.sampled_from(["year", "month", "weekday"]).map(lambda p: ex.DatePart(p, COLUMN["d"])),
    )
    return st.recursive(leaves, _larger, max_leaves=6)


def _larger(inner):
    return st.one_of(
        st.builds(ex.Arithmetic, st.sampled_from(["+", "-", "*"]), inner, inner),
        st.builds(ex.Divide, inner, inner, STEPS),
        st.builds(ex.Rescale, inner, STEPS, st.sampled_from(["round", "floor"])),
        st.builds(ex.Abs, inner),
        st.builds(ex.Square, inner),
        st.builds(ex.Clamp, inner, st.integers(-9, 0), st.integers(1, 9)),
        st.builds(ex.Bucket, inner, st.lists(st.integers(-9, 9), min_size=1, unique=True).map(
            lambda edges: tuple(sorted(edges)))),
        st.builds(lambda x, e: curves.Curve(x, tuple(sorted(e)), tuple(range(len(e) + 1)),
                                            Fraction(1, 2), "curve"),
                  inner, st.sets(st.integers(-9, 9), max_size=5)),
        st.builds(lambda c, a, b: ex.Case(((c, a),), b), _conditions(inner), inner, inner),
        st.builds(lambda a, b: ex.Coalesce((a, b)), inner, inner),
    ).filter(bool)  # fmt: skip


def _conditions(inner):
    simple = st.one_of(
        st.builds(ex.Compare, st.sampled_from(["<", "<=", "=", "<>", ">=", ">"]), inner, inner),
        st.just(COLUMN["f"]),
        st.builds(ex.IsNull, inner),
        st.builds(ex.OneOf, inner, st.lists(st.integers(-3, 3), max_size=3).map(tuple)),
    )
    both = st.lists(simple, max_size=3).map(tuple)
    return st.one_of(
        simple, st.builds(ex.Not, simple), st.builds(ex.Logic, st.sampled_from(["and", "or"]), both)
    )


@st.composite
def aggregates(draw):
    """An aggregate of generated parts; expressions whose bounds are refused are drawn again."""
    choices = draw(LIMITS)
    table = pol.Table("t", COLUMNS, **choices)
    relation = Scan(table)
    if draw(st.booleans()):
        relation = Filter(relation, draw(_typed(_conditions(numbers()))))
    exprs = draw(st.lists(_typed(st.one_of(numbers(), _conditions(numbers()))), max_size=3))
    measures = [
        Measure(draw(st.sampled_from([MeasureKind.SUM, MeasureKind.DISTINCT])), e) for e in exprs
    ]
    measures.append(Measure(MeasureKind.UNITS))
    keys = []
    if draw(st.booleans()):
        keys.append(Key("c", COLUMN["c"], draw(st.sampled_from([(0, 1, 2), (2, 0)]))))
    if draw(st.booleans()):
        e = draw(_typed(numbers()))
        start = draw(st.integers(e.type.lo, e.type.hi))
        keys.append(Key("e", e, tuple(range(start, min(start + 30, e.type.hi) + 1))))
    limits = plan.limits_of(relation, grouped=bool(keys))
    return choices, aggregate(relation, tuple(keys), tuple(measures), limits)


def _typed(strategy):
    """Draw until the bounds fit: a refusal by the type rules is not an engine's matter."""

    @st.composite
    def attempt(draw):
        for _ in range(5):
            try:
                return draw(strategy)
            except ParameterError:
                continue
        return ex.IsNull(COLUMN["n"])

    return attempt()


@pytest.fixture(scope="module")
def servers(postgres_url):
    """Connections to both engines, with an empty table, and the sign of their parameters."""
    with psycopg.connect(postgres_url, autocommit=True) as postgres, duckdb.connect() as duck:
        postgres.execute("CREATE SCHEMA IF NOT EXISTS generated")
        postgres.execute("SET search_path = generated")
        for connection in (duck, postgres):
            connection.execute("DROP TABLE IF EXISTS t")
            connection.execute(f"CREATE TABLE t ({TYPES})")
        yield {"?": duck, "%s": postgres}


GENERATED = given(aggregates(), TABLES, st.binary(min_size=1, max_size=4))


@settings(max_examples=100)
@GENERATED
def test_generated_aggregates_agree(servers, chosen, rows, key):
    agree(servers, chosen, rows, key)


@pytest.mark.long
@settings(max_examples=2000)
@GENERATED
def test_generated_aggregates_agree_at_length(servers, chosen, rows, key):
    agree(servers, chosen, rows, key)


def agree(servers, chosen, rows, key):
    choices, asked = chosen
    policy = pol.Policy([pol.Table("t", COLUMNS, **choices)], pol.Budget("1"))
    salt = plan.Salt(key)
    expected = plan.run(asked, {"t": rows}, salt)
    for sign, connection in servers.items():
        connection.execute("DELETE FROM t")
        values = [[row[name] for name in RAW] for row in rows]
        writer = connection if sign == "?" else connection.cursor()
        if values:
            writer.executemany(f"INSERT INTO t VALUES ({', '.join([sign] * len(RAW))})", values)
        engine = engines.connect(connection, policy)
        assert engine.execute(asked, salt) == expected, engine.sql(asked)
        engine.close()


@settings(max_examples=300)
@given(st.one_of(_typed(numbers()), _typed(_conditions(numbers()))), TABLES)
def test_values_stay_within_their_public_bounds(e, rows):
    """Packing and sensitivities both rest on the inferred bounds."""
    assert e.type.kind in (Kind.NUMBER, Kind.BOOLEAN)
    for raw in rows:
        row = {c.name: plan.ingest(c, raw[c.name]) for c in COLUMNS}
        value = e.evaluate(row)
        assert e.type.nullable if value is None else e.type.lo <= value <= e.type.hi
