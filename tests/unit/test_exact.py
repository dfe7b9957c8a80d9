"""Parsing of numbers: what people mean, exactly, and nothing that hurts."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import _exact
from discreet.errors import ParameterError


def test_a_float_is_its_shortest_decimal_in_budgets_and_its_exact_value_in_laws():
    assert _exact.decimal(0.1, "epsilon") == Fraction(1, 10)
    assert _exact.exact(0.1, "scale") == Fraction(0.1) != Fraction(1, 10)
    assert sum([_exact.epsilon(0.1)] * 10) == 1


@pytest.mark.parametrize(
    "x", ["0.1", " 1/10 ", Decimal("0.1"), Fraction(1, 10), np.float32(0.1), 0.1]
)
def test_one_tenth_however_written(x):
    assert _exact.epsilon(x) == Fraction(1, 10)


@pytest.mark.parametrize(
    "bad",
    [math.nan, math.inf, -math.inf, -1, 0, "0", 5e-324, "1e-320", "abc", "", "1/0", None, True,
     [1], 1j, Decimal("NaN"), Decimal("Infinity"), "1e99999999", Decimal("1e999999"),
     "9" * 5000, "nan"],
)  # fmt: skip
def test_bad_epsilon_is_one_clear_error(bad):
    with pytest.raises(ParameterError):
        _exact.epsilon(bad)


@pytest.mark.parametrize("bad", [0, 1, -0.1, 1.5, math.nan, "x"])
def test_bad_delta(bad):
    with pytest.raises(ParameterError):
        _exact.delta(bad)


@given(st.fractions())
def test_show_of_short_rationals_parses_back_or_is_marked_approximate(x):
    text = _exact.show(x)
    assert text
    assert math.isclose(float(Fraction(text)), float(x), rel_tol=1e-5, abs_tol=1e-300)


def test_show_never_fails_on_monsters():
    assert _exact.show(Fraction(10**5000)) == "about 2^16609"
    assert _exact.show(Fraction(1, 10**5000)).startswith("about 2^-")


@given(st.fractions(min_value=Fraction(-(10**30)), max_value=10**30))
def test_outward_rounding(x):
    assert Fraction(_exact.floor_float(x)) <= x <= Fraction(_exact.ceil_float(x))
