"""Releases: values on the lattice, honest intervals, what the repr says, what is not kept."""

from __future__ import annotations

import math
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import mechanisms as m
from discreet import noise
from discreet import privacy as p
from discreet.errors import PrivacyError
from discreet.mechanisms import _additive, _lattice
from discreet.noise._deterministic import deterministic


def test_integers_stay_integers():
    answer = m.laplace(1000, 1, "0.1", integer=True)
    assert type(answer.value) is int
    assert answer.step == 1
    assert answer.law == noise.DiscreteLaplace(10)
    assert answer.loss == p.DiscreteLaplace(10, 1)


def test_epsilon_is_exactly_the_one_asked():
    for epsilon in ("0.1", 0.1, Fraction(1, 3), 1, 7):
        for value in (5, 5.5, [1, 2], [0.5, 1.5]):
            assert Fraction(m.laplace(value, "0.3", epsilon).loss.top) == Fraction(str(epsilon))


def test_repr_says_value_error_mechanism_and_price():
    with deterministic(1):
        text = repr(m.laplace(1000, 1, "0.1", integer=True, neighbours="add-remove"))
    assert "± 30 (95 %)  laplace, ε=0.1, add-remove" in text
    assert "NOT PRIVATE" in text
    assert "± 30 each (95 %)" in repr(m.laplace([1, 2, 3], 1, "0.1", integer=True))


def test_vector_keeps_its_shape():
    answer = m.laplace(np.zeros((2, 3), dtype=int), 1, 1, integer=True)
    assert answer.value.shape == (2, 3)
    assert answer.value.dtype == np.int64


def test_interval_is_the_law_turned_round():
    answer = m.laplace(1000, 1, "0.1", integer=True)
    low, high = answer.interval(0.95)
    reach = answer.law.interval(0.95).high
    assert (low, high) == (answer.value - reach, answer.value + reach)
    assert answer.interval(0.95).confidence >= 0.95


def test_simultaneous_interval_is_exact_for_independent_cells():
    answer = m.laplace([1, 2, 3], 3, 1, integer=True)
    each, both = answer.interval(0.95), answer.interval(0.95, simultaneous=True)
    reach = int(both.high[0] - answer.value[0])
    assert (both.high - both.low > each.high - each.low).all()
    assert both.confidence >= 0.95
    one_less = 1 - 2 * answer.law.sf(reach - 1)
    assert one_less**3 < 0.95 <= (1 - 2 * answer.law.sf(reach)) ** 3


def test_interval_of_rounded_values_includes_half_a_step():
    answer = m.laplace(0.3, 1, 1, step=1)
    low, high = answer.interval(0.95)
    reach = answer.law.interval(0.95).high
    assert (low, high) == (answer.value - reach - 0.5, answer.value + reach + 0.5)


def test_interval_coverage():
    # 20 000 cells at 90 %; false alarm below 1e-9 (six sigma)
    answer = m.laplace(np.full(20_000, 7), 1, 1, integer=True)
    interval = answer.interval(0.9)
    covered = np.mean((interval.low <= 7) & (interval.high >= 7))
    assert covered > interval.confidence - 6.2 * np.sqrt(0.09 / 20_000)


def test_test_noise_is_marked():
    with deterministic(5):
        releases = [
            m.laplace(1, 1, 1),
            m.laplace(0.5, 1, 1),
            m.gaussian([1, 2], 1, rho=1),
            m.exponential([1, 2], 1, 1),
            m.permute_and_flip([1, 2], 1, 1),
            m.noisy_max([1, 2], 1, 1),
            m.sparse_vector([1, 2], 1, 1, 1),
            m.SparseVector(1, 1, 1),
            m.randomized_response([0, 1], epsilon=1),
            m.randomized_response([0, 1], p="0.5"),
            m.threshold_keys({"a": 5}, 1, "0.1"),
            m.smooth_median([1, 2, 3], 0, 10, 1),
            m.smooth_median([1, 2, 3], 0, 10, 1, "0.01"),
        ]
    assert all(release.tainted for release in releases)
    assert not m.laplace(1, 1, 1).tainted


def test_deterministic_noise_repeats():
    def draw():
        with deterministic(11):
            return m.laplace([10, 20, 30], 1, "0.01").value.tolist()

    assert draw() == draw()


def test_releases_can_be_pickled():
    for release in (m.laplace(3, 1, 1), m.exponential([1, 2], 1, 1), m.noisy_max([1, 2], 1, 1)):
        assert pickle.loads(pickle.dumps(release)).value == release.value


def test_selection_has_accuracy_but_no_interval():
    choice = m.exponential([1, 2, 3], 1, 1)
    assert choice.accuracy(0.95) == pytest.approx(2 * np.log(3 / 0.05))
    with pytest.raises(PrivacyError, match="choice"):
        choice.interval(0.95)


@given(
    st.floats(-1e9, 1e9),
    st.floats(0, 1e3),
    st.integers(-20, 20),
)
def test_rounding_moves_neighbours_no_further_than_charged(x, shift, exponent):
    step = Fraction(2) ** exponent
    y = x + shift
    distance = Fraction(y) - Fraction(x)
    k = _lattice.quantise(_lattice.read_values(np.array([x, y])), step)
    assert abs(int(k[1]) - int(k[0])) <= -(-distance // step)
    assert abs(int(k[0]) * step - Fraction(x)) <= step / 2


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=5), st.integers(-40, 40))
def test_fast_and_exact_rounding_agree(values, exponent):
    step = Fraction(2) ** exponent
    fast = _lattice.quantise(_lattice.read_values(np.array(values)), step)
    slow = [int((Fraction(v) / step + Fraction(1, 2)) // 1) for v in values]
    assert [int(k) for k in fast] == slow


def test_rounding_to_even_would_not_do():
    # the mutant: np.rint sends ½ and 3/2, one step apart, to 0 and 2
    assert np.rint(1.5) - np.rint(0.5) == 2
    halves = np.array([-1.5, -0.5, 0.5, 1.5, 0.49999999999999994, -5e-324])
    k = _lattice.quantise(_lattice.read_values(halves), Fraction(1))
    assert k.tolist() == [-1, 0, 1, 2, 0, 0]


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(-2, 2)), min_size=2, max_size=6))
def test_rounding_vectors_moves_no_further_than_charged(cells):
    x, y = np.array([a for a, _ in cells]), np.array([a + t for a, t in cells])
    moves = [Fraction(b) - Fraction(a) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    step = Fraction(1, 2)
    k, k2 = (_lattice.quantise(_lattice.read_values(v), step) for v in (x, y))
    values = _lattice.read_values(x)
    moved = [abs(int(a) - int(b)) for a, b in zip(k, k2, strict=True)]
    if l1 := sum(abs(t) for t in moves):
        charged = _lattice.l1_on_lattice(values.size, l1, step, integer=False)
        assert sum(moved) <= charged
        query = _additive._Query(values, step, integer=False)
        assert sum(d * d for d in moved) <= query.l2_squared(l1)


def test_rounding_of_several_cells_is_charged_because_it_is_attained():
    # three cells just below a boundary move by 3·0.01 in truth and by 3 steps on the lattice
    x, y = np.full(3, 0.495), np.full(3, 0.505)
    k, k2 = (_lattice.quantise(_lattice.read_values(v), Fraction(1)) for v in (x, y))
    assert np.abs(k - k2).sum() == 3
    assert m.laplace(x, "0.03", 1, step=1).law.scale == 3
    assert (
        m.laplace([1, 2, 3], 3, 1, integer=True).law.scale == 3
    )  # integers are not rounded, and pay nothing
    assert m.gaussian(x, "0.03", rho="0.5", step=1).law.sigma2 >= 3


@pytest.mark.parametrize(
    "value",
    [2**80, -(2**80), [2**80, 1], Fraction(2**80, 3), Decimal("1e30"), np.uint64(2**64 - 1)],
)
def test_huge_values_never_wrap(value):
    answer = m.laplace(value, 1, 1)
    cells = value if isinstance(value, list) else [value]
    exact = [Fraction(int(v) if isinstance(v, np.integer) else v) for v in cells]
    noisy = [Fraction(v) for v in np.atleast_1d(np.asarray(answer.value, dtype=object)).tolist()]
    for a, b in zip(exact, noisy, strict=True):
        assert abs(a - b) < max(200, abs(a) / 2**50)


def test_sum_of_int64_extremes_does_not_overflow():
    answer = m.laplace(np.array([2**63 - 1, -(2**63)]), 1, "1e-3")
    assert abs(int(answer.value[0]) - (2**63 - 1)) < 10**5
    assert abs(int(answer.value[1]) + 2**63) < 10**5


def test_default_grid_depends_on_public_parameters_only():
    steps = {m.laplace(v, "0.7", 1).step for v in (0.0, 1e-300, 123.456, -1e250, 5e-324)}
    assert len(steps) == 1
    assert {m.gaussian(v, "0.7", 1, "1e-6").step for v in (0.0, 7.5, 1e200)} == {
        m.gaussian(1.0, "0.7", 1, "1e-6").step
    }


def test_rounding_costs_less_than_a_millionth():
    answer = m.laplace(0.5, "0.7", 1)
    assert 1 <= answer.law.scale * answer.step / Fraction(7, 10) < 1 + Fraction(1, 10**6)
    many = m.laplace(np.full(1000, 0.5), "0.7", 1)
    assert 1 <= many.law.scale * many.step / Fraction(7, 10) < 1 + Fraction(2, 10**6)


def test_integer_vectors_keep_step_one_under_root_sensitivities():
    for root in (2, 3, 5):
        answer = m.gaussian([1, 2, 3], root**0.5, rho="0.5", integer=True)
        assert answer.step == 1
        assert answer.law.sigma2 == root


def test_integer_type_with_fractional_sensitivity_uses_the_real_grid():
    # an average that happens to be whole must look like any other average
    assert m.laplace(0, "0.04", "0.5").step == m.laplace(0.0, "0.04", "0.5").step


def test_gaussian_rho_is_exact():
    assert m.gaussian(5, 2, rho="0.1").loss.rho == Fraction(1, 10)
    assert m.gaussian([1.5, 2.5], 2, rho="0.1").loss.rho <= Fraction(1, 10)


def test_releases_go_out_to_numpy_and_pandas():
    """Labels are stated, never taken over: those of private data are private."""
    one = m.geometric(5, sensitivity=1, epsilon=1)
    assert float(one) == one.value
    assert np.asarray(one).shape == ()
    series = pd.Series([1, 2, 3], index=["x", "y", "z"])
    many = m.geometric(series, sensitivity=1, epsilon=1)
    assert np.array_equal(np.asarray(many), many.value)
    assert np.asarray(many, dtype=np.float64).dtype == np.float64
    frame = many.to_pandas(index=["a", "b", "c"])
    assert list(frame.index) == ["a", "b", "c"]
    assert list(frame.columns) == ["value", "low", "high"]
    assert (frame["low"] <= frame["value"]).all()
    assert list(many.to_pandas().index) == [0, 1, 2]
    table = m.geometric([[1, 2], [3, 4]], sensitivity=1, epsilon=1)
    assert table.to_pandas(columns=["u", "v"]).shape == (2, 2)
    assert one._repr_html_().startswith("<p>")
    assert "±" in one._repr_html_()


@pytest.mark.parametrize(("value", "cells"), [(5, 1), ([5], 1), ([5, 6], 2), ([1, 2, 3, 4, 5], 4)])
def test_gaussian_losses_are_those_of_as_many_integers_as_can_move(value, cells):
    """A squared distance of 4 is spread over four integers at most."""
    by_rho = m.gaussian(value, 2, rho="1/2", integer=True)
    assert by_rho.law.sigma2 == 4
    assert by_rho.loss.unlabelled() == p.DiscreteGaussian.from_variance(4, 4, cells)
    both = m.gaussian(value, 2, 1, "1e-6", integer=True)
    exact = p.discrete_gaussian_variance(4, 1, "1e-6", coordinates=cells)
    assert both.law.sigma2 == exact
    assert both.loss.unlabelled() == p.DiscreteGaussian.from_variance(exact, 4, cells)
    assert m.gaussian([], 2, rho="1/2", integer=True).loss.dimension == 1


@pytest.mark.parametrize("rho", ["0.0001", "0.5", "50", "5000"])
def test_the_lattice_is_a_millionth_of_noise_and_sensitivity_whatever_the_price(rho):
    answer = m.gaussian(0.3, sensitivity=1, rho=rho)
    finest = min(math.sqrt(answer.law.sigma2) * answer.step, 1) / answer.step
    assert 2**20 <= finest < 2**22
