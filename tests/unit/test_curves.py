"""Logarithms, roots and powers on a stated grid."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest

from discreet import plan, sql
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


def codes_of(column):
    t, step = TABLE.columns[column], STEP[column]
    low, high = int(t.min / step), int(t.max / step)
    near = {int(v / step) + d for v in (0, 1, 2, 4, 9, 49, 365, 1000) for d in (-1, 0, 1)}
    spread = {low + (high - low) * i // 29 for i in range(30)}
    return [c for c in sorted({low, high, *near, *spread}) if low <= c <= high]


def truth_of(text, x, y):
    """The sign of a curve less a number, to 50 digits; 10^-40 counts as nothing."""
    mpmath.mp.dps = 50
    v = mpmath.mpf(x.numerator) / x.denominator
    name, *by = text
    value = {
        "LN": mpmath.log,
        "EXP": mpmath.exp,
        "LOG": lambda v: mpmath.log(v) / mpmath.log(by[0] if by else 10),
        "POWER": lambda v: v ** mpmath.mpf(by[0] if by else 0.5),
    }[name](v)
    apart = value - mpmath.mpf(y.numerator) / y.denominator
    return 0 if abs(apart) < mpmath.mpf(10) ** -40 else int(mpmath.sign(apart))


EXACT = [
    ("LN(r)", ("LN",), ["5.9", "0", "-3", "40", "-1000000"]),
    ("LOG10(r)", ("LOG",), ["3", "-2", "2.5", "0", "4"]),
    ("LOG2(a)", ("LOG", 2), ["2", "0", "6", "-1", "1.5"]),
    ("LOG(4, r)", ("LOG", 4), ["0.5", "-0.5", "7"]),
    ("EXP(s)", ("EXP",), ["1", "10", "0", "-2", "1000000"]),
    ("SQRT(a)", ("POWER",), ["7", "0", "-1", "9.1", "100"]),
    ("SQRT(r)", ("POWER",), ["7", "0.1", "2.5"]),
    ("POWER(a, 1.5)", ("POWER", 1.5), ["8", "27", "28"]),
]
SIGNS = {
    "<": (-1,), "<=": (-1, 0), "=": (0,), "<>": (-1, 1), ">=": (0, 1), ">": (1,),
}  # fmt: skip


@pytest.mark.parametrize("op", SIGNS)
@pytest.mark.parametrize(("text", "curve", "numbers"), EXACT, ids=[e[0] for e in EXACT])
def test_a_comparison_with_a_constant_is_exact(op, text, curve, numbers):
    """Not on the grid: a curve in steps would be wrong next to the number."""
    for number in numbers:
        test = expr(
            f"CASE WHEN {text} {op} {number} THEN 1 WHEN NOT {text} {op} {number} THEN 0 END"
        )
        (column,) = (c.name for c in test.columns)
        for code in codes_of(column):
            x = code * Fraction(STEP[column])
            found = test.evaluate({column: code})
            if curve[0] != "EXP" and x < (curve[0] in ("LN", "LOG")) * Fraction(1, 100):
                assert found is None
            else:
                assert found == (truth_of(curve, x, Fraction(number)) in SIGNS[op]), (number, x)


ROUNDED = [
    ("FLOOR(LOG10(r))", ("LOG",), (0, 1), 1),
    ("CEIL(LOG10(r))", ("LOG",), (-1, 0), 1),
    ("ROUND(LN(r))", ("LN",), (-0.5, 0.5), 1),
    ("ROUND(LN(r), 1)", ("LN",), (-0.5, 0.5), Fraction(1, 10)),
    ("ROUND(LOG(4, r))", ("LOG", 4), (-0.5, 0.5), 1),
    ("FLOOR(SQRT(a))", ("POWER",), (0, 1), 1),
    ("CEIL(SQRT(a))", ("POWER",), (-1, 0), 1),
    ("ROUND(SQRT(r))", ("POWER",), (-0.5, 0.5), 1),
    ("FLOOR(EXP(s))", ("EXP",), (0, 1), 1),
    ("FLOOR(LOG2(a))", ("LOG", 2), (0, 1), 1),
]


@pytest.mark.parametrize(("text", "curve", "ends", "step"), ROUNDED, ids=[r[0] for r in ROUNDED])
def test_rounding_a_curve_rounds_once(text, curve, ends, step):
    """FLOOR(LOG10(999.9)) is 2; halves go away from zero; each level is taken by some code."""
    made = expr(text)
    (column,) = (c.name for c in made.columns)
    found = set()
    for code in codes_of(column):
        x = code * Fraction(STEP[column])
        level = made.evaluate({column: code})
        found.add(level)
        if level is None:
            continue
        low, high = (truth_of(curve, x, (level + Fraction(e)) * step) for e in ends)
        assert low >= 0 >= high, (x, level)
        if text.startswith("FLOOR"):
            assert high < 0
        elif text.startswith("CEIL"):
            assert low > 0
        else:
            assert low > 0 or level > 0
            assert high < 0 or level < 0
    assert {made.type.lo, made.type.hi} <= found
    assert made.type.step == step


def footer(text):
    query = sql.parse(text, POLICY).query
    return [line for line in plan.lower(query).target if "steps" in line]


def test_the_answer_states_the_step_of_a_curve_that_it_rounds():
    assert footer("SELECT COUNT(*) FROM t WHERE EXP(s) > 100") == []
    assert footer("SELECT FLOOR(SQRT(a)) AS b, COUNT(*) FROM t GROUP BY 1") == []
    found = footer("SELECT COUNT(*) FROM t WHERE EXP(s) * 2 > a")
    assert found == ["exp(s) in steps of 0.05"]


MANY = [
    # more levels than a curve is drawn with, so that only comparisons tell them apart
    ("FLOOR(EXP(a / 8))", lambda x: math.floor(math.exp(x / 8)), [2, 1.5, 7, 1096, -1]),
    ("CEIL(EXP(a / 8))", lambda x: math.ceil(math.exp(x / 8)), [1, 3, 8, 20.5]),
    ("ROUND(POWER(a, 1.75))", lambda x: math.floor(x**1.75 + 0.5), [1, 3, 100, 1.5]),
    ("TRUNC(POWER(a, 1.75))", lambda x: math.floor(x**1.75), [3, 6, 0]),
    ("CAST(ROUND(EXP(a / 8)) AS INTEGER)", lambda x: math.floor(math.exp(x / 8) + 0.5), [3, 20]),
    ("ROUND(FLOOR(EXP(a / 8)), -1)", lambda x: (math.floor(math.exp(x / 8)) + 5) // 10 * 10,
     [0, 10, 20, 15]),
]  # fmt: skip


@pytest.mark.parametrize("op", SIGNS)
@pytest.mark.parametrize(("text", "meant", "numbers"), MANY, ids=[m[0] for m in MANY])
def test_a_rounded_curve_of_many_levels_is_compared_as_it_is_rounded(op, text, meant, numbers):
    for number in numbers:
        test = expr(f"CASE WHEN {text} {op} {number} THEN 1 ELSE 0 END")
        for code in range(85):
            apart = meant(code) - number
            sign = (apart > 0) - (apart < 0)
            assert test.evaluate({"a": code}) == (sign in SIGNS[op]), (number, code)


def test_a_list_of_numbers_is_as_exact_as_one():
    one, few = (expr(f"CASE WHEN EXP(s) {t} THEN 1 ELSE 0 END") for t in ("= 1", "IN (1, 2.5)"))
    for code in range(-30, 31):
        assert one.evaluate({"s": code}) == few.evaluate({"s": code}) == (code == 0)


@pytest.mark.parametrize(
    "text", ["EXP(big)", "EXP(big / 100)", "FLOOR(EXP(big))", "EXP(-big * -5)"]
)
def test_powers_beyond_all_numbers_are_refused(text):
    with pytest.raises(DiscreetError, match="may be as large as"):
        expr(text)


def test_a_curve_is_no_whole_number_because_its_steps_are():
    with pytest.raises(DiscreetError, match="CAST of fractions to whole numbers"):
        expr("CAST(EXP(a / 8) AS INTEGER)")
