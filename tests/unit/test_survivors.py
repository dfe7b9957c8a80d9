"""Faults that `make mutants` planted and no test saw, until these did."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from discreet import mechanisms as m
from discreet import policy as pol
from discreet import privacy as p
from discreet.errors import ParameterError, RelationError
from discreet.noise._compare import log2
from discreet.plan import JoinUnit, LimitRows, Scan
from discreet.plan._joins import bounded
from discreet.plan._vectors import Box
from discreet.privacy._filters import show_down

AGE = [pol.Integer("age", 0, 9)]
GROUPS = {"unit": "id", "max_groups_per_unit": 3, "max_rows_per_group": 4}


def test_a_unit_brings_as_many_rows_as_its_groups_hold_together():
    limited = bounded(Scan(pol.Table("t", AGE, **GROUPS)))
    assert isinstance(limited, LimitRows)
    assert limited.n == 12


def test_joined_tables_may_not_share_a_column():
    one, two = (LimitRows(Scan(pol.Table(n, AGE, **GROUPS)), 2) for n in ("a", "b"))
    with pytest.raises(ParameterError, match="both tables have a column 'age'"):
        _ = JoinUnit(one, two).schema
    other = LimitRows(Scan(pol.Table("b", [pol.Boolean("member")], **GROUPS)), 2)
    assert set(JoinUnit(one, other).schema) == {"age", "member"}
    assert set(JoinUnit(one, other, prefix="b.").schema) == {"age", "b.member"}


def test_a_box_keeps_both_ends_when_it_is_clipped():
    box = Box(np.array([-5.0]), np.array([3.0])).clipped(0, 10)
    assert (box.low.tolist(), box.high.tolist()) == ([0.0], [3.0])


@pytest.mark.parametrize("x", [Fraction(1, 3**2000), Fraction(3**2000), Fraction(7, 5)])
def test_logarithms_of_numbers_beyond_doubles(x):
    exact = math.log2(x.numerator) - math.log2(x.denominator)
    assert log2(x) == pytest.approx(exact, abs=1e-6)


def test_a_double_just_below_one_is_the_sensitivity_one():
    below = math.nextafter(1.0, 0.0)
    law = m.gaussian([3, 4], sensitivity=below, rho="0.5", integer=True).law
    assert law.sigma2 == 1


def test_a_filter_remembers_a_relation_that_came_without_a_unit():
    budget = p.BasicFilter(1)
    budget.spend(p.Pure("0.1").under("add-remove"))
    for asked in (budget.spend, budget.admits):
        with pytest.raises(RelationError):
            asked(p.Pure("0.1").under("change-one"))
    assert budget.spent.size == Fraction(1, 10)


@pytest.mark.parametrize("value", [Fraction(2, 3), Fraction(200, 3), Fraction(2, 3_000_000)])
def test_what_would_fit_is_printed_just_below(value):
    shown = Fraction(show_down(value))
    assert value * Fraction(99_999, 100_000) < shown <= value
