"""What happens at a bound itself, which is one step away from what a fault would make of it."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from discreet import mechanisms as m
from discreet import privacy as p
from discreet.errors import ParameterError
from discreet.ledger._state import coarse, rational
from discreet.mechanisms._lattice import power_of_two_below
from discreet.mechanisms._median import _read_bounds
from discreet.noise import DiscreteLaplace
from discreet.plan import _trees
from discreet.plan import _variances as va
from discreet.plan._parts import charge, fits
from discreet.plan._picks import squares_moved
from discreet.plan._stability import Sensitivity
from discreet.plan._trees import Levels
from discreet.plan._vectors import Keys, Numbers
from discreet.privacy._filters import show_down
from discreet.privacy._loss import ULP
from discreet.privacy._pld import Window
from discreet.verify._domain import LARGEST, Value
from discreet.verify._functions import Functions
from discreet.verify._read import Unproven, read

LAW = DiscreteLaplace(2)
NODE = read('SELECT b AS y FROM "z"', "postgresql").items[0][0]
TREE = Levels((((3, 4),),), LAW, 2, Fraction(0), Fraction(2), Fraction(4), Fraction(1))


@pytest.mark.parametrize(
    ("change", "holds"),
    [
        ({}, True),
        ({"branching": 1, "levels": (((3,),),)}, False),
        ({"levels": ()}, False),
        ({"lo": Fraction(4)}, True),
        ({"lo": Fraction(5)}, False),
        ({"step": Fraction(2)}, True),
        ({"step": Fraction(0)}, True),
        ({"step": Fraction(-1)}, False),
        ({"step": Fraction(9, 4)}, False),
        ({"step": Fraction(0), "width": Fraction(0)}, False),
        ({"levels": (((2**62 - 1, 1 - 2**62),),)}, True),
        ({"levels": (((0, 2**62),),)}, False),
        ({"levels": (((-(2**62), 0),),)}, False),
        ({"levels": (((3, 4, 5),),)}, False),
        ({"levels": (((3, 4),), ((1, 2, 3, 4),))}, True),
        ({"levels": (((3, 4),), ((1, 2, 3),))}, False),
        ({"levels": (((3, 4), (3, 4)),)}, False),
    ],
)
def test_trees_that_fit_and_those_that_just_do_not(change, holds):
    changed = replace(TREE, **change)
    if holds:
        changed.check(1)
    else:
        with pytest.raises(ParameterError, match="damaged"):
            changed.check(1)


@pytest.mark.parametrize("side", [-1, 1])
def test_a_leaf_at_the_edge_of_the_noise_is_possible(monkeypatch, side):
    """Counts 1, 5, 1, 1 and their middle: D is −4, −3, 2, 3, 4 at the five boundaries."""
    tree = Levels((((1, 5, 1, 1),),), LAW, 4, Fraction(0), Fraction(1), Fraction(4), Fraction(1))

    def interval(margin):
        monkeypatch.setattr(_trees, "tail_margin", lambda _law, squares, *_: squares * 0 + margin)
        box = tree.interval(Fraction(1, 2), 0.9)
        return float(box.low[0]), float(box.high[0])

    assert interval(0) == (1, 2)
    edge, wider = {-1: (3, (0, 4)), 1: (2, (1, 3))}[side]
    assert interval(edge) == wider
    assert interval(np.nextafter(edge, 0)) != wider


ONE = va.Squares(5, Fraction(7), LAW, Fraction(0), (Fraction(1), Fraction(1)), (1, 2), LAW)
FORMULA = va.PublicVariance(0, 1, Fraction(0), Fraction(1), 1, sample=False, root=False)


@pytest.mark.parametrize(
    ("release", "formula", "holds"),
    [
        ({}, {}, True),
        ({"centre": Fraction(1)}, {}, True),
        ({"centre": Fraction(5, 4)}, {}, False),
        ({"centre": Fraction(-1, 4)}, {}, False),
        ({"times": Fraction(0)}, {}, False),
        ({"factors": (Fraction(1), Fraction(0))}, {}, False),
        ({"factors": (Fraction(1),), "values": (1,)}, {}, True),
        ({"factors": (Fraction(1),)}, {}, False),
        ({"factors": (Fraction(1),) * 3, "values": (1, 2, 3)}, {}, False),
        ({}, {"top": 0}, False),
        ({}, {"step": Fraction(0)}, False),
    ],
)
def test_variances_on_record_that_fit_and_those_that_just_do_not(release, formula, holds):
    squares = replace(ONE, **release)

    def check():
        squares.check(1)
        replace(FORMULA, **formula).check([squares, Numbers((3,), None)])

    if holds:
        check()
        with pytest.raises(ParameterError, match="damaged"):
            squares.check(2)
    else:
        with pytest.raises(ParameterError, match="damaged"):
            check()


def test_losses_that_fit_a_claim_exactly():
    assert fits([p.Pure(1)], Fraction(1), Fraction(0))
    assert not fits([p.Pure(2)], Fraction(1), Fraction(0))
    small = Fraction(1, 10**6)
    assert fits([p.Approx(0, small)], Fraction(1), small)
    assert not fits([p.Approx(0, small)], Fraction(1), small / 2)
    cost = charge([p.Pure(1), p.Approx(0, small)], (Fraction(1), small))
    assert (cost.epsilon, cost.delta) == (1, small)


def test_the_lemma_is_not_asked_for_all_of_the_variance():
    """At σ² = 2, which is one of those it is tried with, there is nothing left to divide by."""
    loss = p.DiscreteGaussian.from_variance(2, 20, 5)
    assert not loss.summed
    assert 0 < loss.delta(30) < 1


def test_an_order_that_a_group_just_leaves():
    assert p.group(p.Renyi({4: "0.5"}), 2).orders == ((2, Fraction(3, 2)),)


@pytest.mark.parametrize("text", ["0.5", "0.123456", "25"])
def test_a_number_that_is_short_is_printed_as_it_is(text):
    assert Fraction(show_down(Fraction(text))) == Fraction(text)


def test_a_power_of_two_is_its_own_floor():
    for k in (-9, 0, 9):
        assert power_of_two_below(Fraction(2) ** k) == Fraction(2) ** k


def test_amounts_are_rounded_and_refused_beyond_their_longest():
    exact = Fraction(1, 2**512)
    assert coarse(exact) == exact
    assert coarse(Fraction(1, 2**512 + 1)) == Fraction(1, 2**256)
    assert coarse(3 + Fraction(1, 2**600)) == 3 + Fraction(1, 2**256)
    assert rational(Fraction(1, 2**11_999)).endswith(str(2**11_999))
    for long in (Fraction(1, 2**12_000), Fraction(2**12_000)):
        with pytest.raises(ParameterError, match="too many digits"):
            rational(long)


def test_what_is_set_aside_is_less_than_the_whole():
    with pytest.raises(ParameterError, match="must be smaller than delta"):
        p.Accounting.ZCDP.cap("1", "1e-6", aside="1e-6")
    assert p.Accounting.ZCDP.cap("1", "1e-6", aside="9e-7").delta == Fraction(9, 10**7)


def test_the_highest_confidence_that_doubles_certify():
    assert LAW.interval(1 - 2.0**-50).confidence >= 1 - 2.0**-50
    with pytest.raises(ParameterError, match="at most"):
        LAW.interval(1 - 2.0**-51)


def test_bounds_of_a_median():
    assert _read_bounds("-1e300", "1e300") == (Fraction(-1e300), Fraction(1e300))
    for low, high in (("3", "3"), ("0", "1.0000001e300"), ("-1.0000001e300", "0")):
        with pytest.raises(ParameterError, match="lower"):
            _read_bounds(low, high)


@pytest.mark.parametrize("eta", ["1", "8", "9", "40"])
def test_a_bounded_range_costs_the_smaller_of_two_bounds(eta):
    rho = p.BoundedRange(eta).rho
    assert rho == min(Fraction(eta) ** 2 / 8, p.Pure(eta).rho)


@pytest.mark.parametrize(("left", "right"), [({}, {("a", 1): (3,)}), ({("a", 1): (3,)}, {})])
def test_a_score_that_one_table_alone_has_moves_from_nothing(left, right):
    assert squares_moved("pick", left, right, 9) == []
    assert len(squares_moved("pick", left, right, 8)) == 1


def test_a_numeric_up_to_the_largest_double_has_a_double():
    rules = Functions("postgresql")
    found = rules.converted(Value("num", 1, LARGEST, dep=frozenset({1})), "f64", (), NODE)
    assert (found.lo, found.hi) == (1.0, float(LARGEST))
    with pytest.raises(Unproven, match="no double is near"):
        rules.converted(Value("num", 1, LARGEST + 1, dep=frozenset({1})), "f64", (), NODE)


def test_a_window_keeps_its_room_where_it_begins_below_zero():
    """All of the mass lies at ε itself, so that what δ is above zero is the room."""
    masses = np.array([0.0] * 8 + [1.0])
    for tilt in (0.0, 0.25):
        window = Window(-8.0, 1.0, tilt, masses, 0.0, tilt * 8.0, -math.inf, 0.0)
        assert window.delta(0.0) == pytest.approx(4 * ULP * (0 + 8 + 9), rel=0.2, abs=0)


def test_counts_of_known_keys_move_no_farther_than_declared():
    part = Keys(0, Sensitivity(9, 99, 9), 2, 0, "town", touched=2)
    left, right = {("a",): (5,), ("b",): (1,)}, {("a",): (14,), ("b",): (1,)}
    assert part.moved(left, right) == part.moved(right, left) == []
    further = right | {("a",): (15,)}
    assert len(part.moved(left, further)) == len(part.moved(further, left)) == 1


def test_no_noise_is_wide_enough_for_nothing():
    with pytest.raises(ParameterError, match="no discrete Gaussian is certified"):
        p.discrete_gaussian_variances([1], "1e-300", "1e-300", coordinates=[1])


def test_a_value_at_the_threshold_is_above():
    """At this price noise is never there."""
    watch = m.SparseVector(10, 1, 10**6, cutoff=3, step=1)
    assert [watch.ask(value) for value in (9, 10, 11)] == [False, True, True]
