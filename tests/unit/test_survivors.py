"""Faults that `make mutants` planted and no test saw, until these did."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from discreet import policy as pol
from discreet.errors import ParameterError
from discreet.noise._compare import log2
from discreet.plan import JoinUnit, LimitRows, Scan
from discreet.plan._joins import bounded
from discreet.plan._vectors import Box

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
