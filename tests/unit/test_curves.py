"""Logarithms, roots and powers on a stated grid."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from discreet import sql
from discreet.errors import DiscreetError
from discreet.policy import Budget, Integer, Policy, Real, Table

TABLE = Table(
    "t",
    [
        Integer("a", 0, 84),
        Real("r", 0, 20_000, step="0.01"),
        Real("s", -3, 3, step="0.1"),
        Integer("big", 1, 10**12),
        Integer("less", -9, -1),
    ],
)
POLICY = Policy([TABLE], Budget("1"))
STEP = {"a": 1, "r": Fraction(1, 100), "s": Fraction(1, 10), "big": 1, "less": 1}


def expr(text):
    return sql.parse(f"SELECT AVG({text}) FROM t", POLICY).query.statistics[0].expr


CASES = {
    "LN(a)": math.log,
    "LN(r)": math.log,
    "LN(big)": math.log,
    "LOG(r)": math.log10,
    "LOG10(big)": math.log10,
    "LOG2(a)": math.log2,
    "LOG(3, r)": lambda x: math.log(x) / math.log(3),
    "SQRT(a)": math.sqrt,
    "SQRT(r)": math.sqrt,
    "EXP(s)": math.exp,
    "POWER(r, 0.25)": lambda x: x**0.25,
    "POWER(a, 1.5)": lambda x: x**1.5,
}


@pytest.mark.parametrize("text", CASES)
def test_values_lie_within_half_a_step_of_the_curve(text):
    made = expr(text)
    column = next(iter(made.columns)).name
    t = TABLE.columns[column]
    step = STEP[column]
    low, high = int(t.min / step), int(t.max / step)
    codes = sorted({low, high, *(low + (high - low) * i // 997 for i in range(998))})
    least = made.type.step
    assert made.type.size <= 502
    for code in codes:
        x = float(code * step)
        value = made.evaluate({column: code})
        if x <= 0 and text.startswith("L"):
            assert value is None
            continue
        assert abs(float(value * least) - CASES[text](x)) <= float(least) / 2 * (1 + 1e-9)
    assert made.evaluate({column: None}) is None


def test_the_step_is_stated():
    assert "in steps of 0.01" in expr("LN(a)").describe()


UNUSABLE = ["LN(less)", "SQRT(less)", "EXP(r)", "LOG(a, r)", "POWER(r, 0.01)"]


@pytest.mark.parametrize("text", UNUSABLE)
def test_what_has_no_usable_range_is_refused(text):
    with pytest.raises(DiscreetError):
        expr(text)


def test_a_refused_range_comes_with_a_bound_that_works():
    with pytest.raises(DiscreetError) as refused:
        expr("EXP(r)")
    assert expr(refused.value.hint).type.hi > 0
