"""ROUND takes halves away from zero, in rows and after the noise."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

import duckdb
import pyarrow as pa
import pytest

import discreet as dc
from discreet import plan, sql
from discreet.plan import _spans, expr
from discreet.policy import Budget, Policy, Real, Table

POLICY = Policy([Table("t", [Real("x", -10, 10, step="0.05")])], Budget("1e9"), name="halves")
VALUES = [Decimal(code) / 20 for code in range(-200, 201)]


def away(value, digits):
    return value.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP)


@pytest.mark.parametrize("digits", [1, 0, -1])
@pytest.mark.parametrize("ends", [(-200, 200), (-200, -1), (0, 200), (-30, 170)])
def test_rows_round_halves_away_from_zero(digits, ends):
    """Every code; the public range is that of the values."""
    column = expr.Column("x", plan.Type.number(*ends, Fraction(1, 20)))
    made = plan.FUNCTIONS["ROUND"]("ROUND", [column, plan.build.number(Fraction(digits))])
    found = []
    for code in range(ends[0], ends[1] + 1):
        found.append(made.evaluate({"x": code}))
        assert found[-1] * made.type.step == Fraction(away(VALUES[code + 200], digits))
    assert (min(found), max(found)) == (made.type.lo, made.type.hi)
    assert set(found) == set(range(made.type.lo, made.type.hi + 1))


@pytest.fixture(scope="module")
def curator():
    return dc.open(pa.table({"x": [float(v) for v in VALUES]}), policy=POLICY, ledger=":memory:")


@pytest.mark.parametrize("call", ["ROUND(x)", "ROUND(x, 1)", "ROUND(x, -1)", "ROUND(x * x)"])
@pytest.mark.parametrize("where", ["x < 0", "x > -1", "x <= 10"])
def test_sums_are_those_of_decimals_in_duckdb(curator, call, where):
    """Noise of scale 10^-5 moves a sum of tenths with a probability below exp(-1000)."""
    (row,) = curator.sql(f"SELECT SUM({call}) AS s FROM t WHERE {where}", epsilon="1e7").to_dicts()
    values = ", ".join(f"({v})" for v in VALUES)
    rows = f"(SELECT CAST(n AS DECIMAL(9, 4)) AS x FROM (VALUES {values}) AS v(n))"
    exact = duckdb.sql(f"SELECT SUM({call}) FROM {rows} WHERE {where}").fetchall()[0][0]
    assert row["s"] == pytest.approx(float(exact), abs=1e-6)


@pytest.mark.parametrize(
    ("shown", "value"),
    [
        ("ROUND(-2.5 + 0 * COUNT(*))", -3),
        ("ROUND(-1.5 + 0 * COUNT(*))", -2),
        ("ROUND(2.5 + 0 * COUNT(*))", 3),
        ("ROUND(0.5 + 0 * COUNT(*))", 1),
        ("ROUND(-0.4 + 0 * COUNT(*))", 0),
        ("ROUND(0.125 + 0 * COUNT(*), 2)", 0.13),
        ("ROUND(-25 + 0 * COUNT(*), -1)", -30),
        ("ROUND(4503599627370497 + 0 * COUNT(*), 2)", 4503599627370497),
    ],
)
def test_answers_round_halves_away_from_zero(curator, shown, value):
    (row,) = curator.sql(f"SELECT {shown} AS r FROM t", epsilon="1").to_dicts()
    assert row["r"] == value


def test_rounded_values_do_not_repeat_across_zero():
    """Halves go different ways there, so codes that meet a condition have no period."""
    question = "SELECT COUNT(*) FROM t WHERE MOD(ROUND(x) + 20, 2) = 1"
    nodes = sql.parse(question, POLICY).query.relation.nodes
    test = next(n.condition for n in nodes if isinstance(n, plan.Filter))
    found = _spans.solve(test, "x", _spans.Spans(((-200, 200),)))
    assert list(found.codes) == [c for c in range(-200, 201) if test.evaluate({"x": c})]
