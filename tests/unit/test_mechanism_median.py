"""Smooth sensitivity of the median: the definition, its smoothness, and the exact rounding."""

from __future__ import annotations

import math
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import mechanisms as m
from discreet import noise
from discreet.errors import NotProvedError, ParameterError, PrivacyError
from discreet.mechanisms import _median, _refine

records = st.lists(st.integers(0, 20), min_size=1, max_size=9)
betas = st.sampled_from([0.05, 0.3, 1.0])


def by_definition(values, beta, low, high):
    """max_k e^{−kβ} max_t (x_{m+t} − x_{m+t−k−1}), straight from the paper."""
    x = sorted(min(max(v, low), high) for v in values)
    n, middle = len(x), (len(x) + 1) // 2

    def at(i):
        return low if i < 1 else high if i > n else x[i - 1]

    return max(
        math.exp(-beta * k) * (at(middle + t) - at(middle + t - k - 1))
        for k in range(n + 1)
        for t in range(k + 2)
    )


@given(records, betas)
def test_smooth_sensitivity_is_the_definition(values, beta):
    found = m.smooth_sensitivity_median(values, beta, 0, 20)
    assert found == pytest.approx(by_definition(values, beta, 0, 20), rel=1e-12, abs=1e-12)


@given(records, st.data(), betas)
def test_smooth_and_above_local_sensitivity(values, data, beta):
    i = data.draw(st.integers(0, len(values) - 1))
    other = values.copy()
    other[i] = data.draw(st.integers(0, 20))
    mine, theirs = (m.smooth_sensitivity_median(v, beta, 0, 20) for v in (values, other))
    assert mine <= math.exp(beta) * theirs * (1 + 1e-12)
    x, y = (sorted(v)[(len(v) + 1) // 2 - 1] for v in (values, other))
    assert abs(x - y) <= m.local_sensitivity_median(values, 0, 20)
    assert m.local_sensitivity_median(values, 0, 20) <= mine * (1 + 1e-12)


def test_large_data_agree_with_the_quadratic_formula():
    x = np.sort(np.random.default_rng(3).normal(50, 20, 2001).clip(0, 100))
    padded = np.r_[0, x, 100]
    middle = 1001
    i, j = np.arange(middle + 1)[:, None], np.arange(middle, 2003)[None, :]
    grid = (padded[j] - padded[i]) * np.exp(-0.01 * (j - i - 1))
    assert m.smooth_sensitivity_median(x, 0.01, 0, 100) == pytest.approx(grid.max(), rel=1e-12)


def test_constant_data_never_make_the_noise_vanish():
    # e^{−βn} underflows here; a scale of 0 would release the raw median
    x = _median._sorted_records([50] * 200_001, Fraction(0), Fraction(100))
    scale = _median._smooth_bound(x, 0.5, Fraction(0), Fraction(100))
    assert scale >= Fraction(100, 2**100)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 0.01])
def test_approximate_variant_keeps_delta_by_integration(epsilon, delta):
    # δ(ε) of two Laplace laws at the extreme shift and dilation, integrated numerically
    beta, alpha = _median.laplace_beta(epsilon, delta), epsilon / 2
    assert alpha + beta <= epsilon
    worst = 0.0
    for ratio in (math.exp(beta), math.exp(-beta)):
        b, b2 = 1.0, 1.0 / ratio
        for shift in np.linspace(0, alpha * min(b, b2), 5):
            y = np.concatenate([np.linspace(-80, 80, 400_001) * b])
            p = np.exp(-np.abs(y) / b) / (2 * b)
            q = np.exp(-np.abs(y - shift) / b2) / (2 * b2)
            gap = np.maximum(p - math.exp(epsilon) * q, 0)
            worst = max(worst, float(gap.sum() * (y[1] - y[0])))
    assert worst <= delta * (1 + 1e-3)


def test_calibration_beats_the_textbook():
    assert _median.laplace_beta(1, 1e-6) > 1 / (2 * math.log(2 / 1e-6))


@given(st.floats(-50, 50), st.floats(0.5, 2))
def test_pure_variant_keeps_epsilon_on_a_grid(y, ratio):
    # Cauchy at shift α·b and dilation e^{±β}, α = β = ½: the density ratio is at most e
    for b in (1.0, math.exp(0.5), math.exp(-0.5)):
        shift = 0.5 * min(1.0, b) * min(ratio, 1.0)
        here = 1 / (1 + y * y)
        there = 1 / b / (1 + ((y - shift) / b) ** 2)
        assert abs(math.log(here / there)) <= 1 + 1e-12


def test_release_does_not_show_its_scale():
    answer = m.smooth_median([1, 2, 3, 4, 90], 0, 100, 1)
    assert answer.law is None
    with pytest.raises(PrivacyError, match="scale depends on the data"):
        answer.interval(0.95)
    assert "±" not in repr(answer)


@pytest.mark.parametrize("delta", [None, "1e-6"])
def test_noise_has_the_scale_of_the_proof(delta):
    values, name = [1, 2, 3, 4, 90], "rounded_cauchy" if delta is None else "rounded_laplace"
    with mock.patch.object(_refine, name, return_value=_refine.Draw(5, tainted=False)) as draw:
        m.smooth_median(values, 0, 100, 2, delta, step=1)
    centre, scale, grid = draw.call_args.args
    beta = 1.0 if delta is None else _median.laplace_beta(2, 1e-6)
    smooth = m.smooth_sensitivity_median(values, beta, 0, 100)
    assert (centre, grid) == (3, 1)
    assert smooth <= scale <= smooth * (1 + 1e-8)  # α = ε/2 = 1


def test_relation_and_loss():
    pure = m.smooth_median([1, 2, 3], 0, 10, "0.5")
    assert pure.loss.epsilon() == 0.5
    approximate = m.smooth_median([1, 2, 3], 0, 10, "0.5", "1e-6")
    assert approximate.loss.epsilon("1e-6") == 0.5
    assert {pure.loss.neighbours, approximate.loss.neighbours} == {"change-one"}
    with pytest.raises(NotProvedError, match="change-one"):
        m.smooth_median([1, 2, 3], 0, 10, 1, neighbours="add-remove")


def test_answers_stay_within_the_bounds_and_on_the_grid():
    for _ in range(200):
        value = m.smooth_median([0, 0, 10, 10], 0, 10, "0.1", step="0.25").value
        assert 0 <= value <= 10
        assert (value / 0.25).is_integer()


@pytest.mark.parametrize(
    ("lower", "upper"), [(1, 1), (2, 1), ("nan", 1), (0, float("inf")), (0, "1e400")]
)
def test_bad_bounds(lower, upper):
    with pytest.raises(ParameterError):
        m.smooth_median([1, 2], lower, upper, 1)


# -- exact rounding ------------------------------------------------------------


def scripted(*blocks):
    """Replace the entropy by given words, to drive the rare branches."""
    words = iter([np.array(block, dtype=np.uint64) for block in blocks])
    return mock.patch.object(noise, "random_words", side_effect=words)


FULL = 2**64 - 1


def test_laplace_refines_until_the_bits_decide():
    # first block: sign +, all other bits 0, so U may be 0 and −ln U anything
    with scripted([0, 0, 0, 0], [0, 0, 0, 1]):
        draw = _refine.rounded_laplace(Fraction(0), Fraction(1), Fraction(1))
    assert draw.value == round(511 * math.log(2))


def test_cauchy_outside_the_disc_is_drawn_again():
    corner = [2**63 - 1, FULL, FULL, FULL]  # sign +, u just below 1
    inside = [2**62, 0, 0, 0], [2**62, 0, 0, 0]  # u = 1/2 after the sign, v = 1/4
    with scripted(corner, [FULL] * 4, *inside):
        draw = _refine.rounded_cauchy(Fraction(0), Fraction(1), Fraction(1, 1000))
    assert draw.value == 500


def test_cauchy_on_a_rounding_boundary_refines():
    # v/u = 1/2 exactly so far: ⌊x + ½⌋ needs more bits to know on which side it lies
    start = [2**62, 0, 0, 0], [2**62, 0, 0, 0]
    with scripted(*start, [FULL] * 4, [0] * 4):
        assert _refine.rounded_cauchy(Fraction(0), Fraction(1), Fraction(1)).value == 0
    with scripted(*start, [0] * 4, [FULL] * 4):
        assert _refine.rounded_cauchy(Fraction(0), Fraction(1), Fraction(1)).value == 1


def test_cauchy_of_an_angle_that_may_be_right_refines():
    # u may be 0 after 255 bits, so v/u anything; the next one makes it 2^-256, and v is 1/4
    with scripted([0] * 4, [2**62, 0, 0, 0], [2**63, 0, 0, 0], [0] * 4):
        draw = _refine.rounded_cauchy(Fraction(0), Fraction(1), Fraction(2**250))
    assert draw.value == 16


def test_bernoulli_real_ties_go_on_with_fresh_bits():
    third = [lambda t: 2**t // 3] * 2
    cut = 2**64 // 3
    for word, expected in ((cut - 1, True), (cut + 1, False)):
        with scripted([cut], [word]):
            assert bool(_refine.bernoulli_real(third[0], 1)[0]) is expected
    with scripted([cut], [cut], [0]):
        assert bool(_refine.bernoulli_real(third[1], 1)[0])


@settings(max_examples=50)
@given(st.integers(1, 300))
def test_leading_bits_of_an_irrational_probability(t):
    import mpmath

    from discreet.mechanisms._randomized_response import _lie_bounds

    with mpmath.workdps(150):
        expected = int(mpmath.floor(2 / (mpmath.e + 2) * mpmath.mpf(2) ** t))
    found = _refine.floor_scaled(lambda digits: _lie_bounds(Fraction(1), 3, digits), t)
    assert found == expected


@pytest.mark.parametrize("words", [
    [1, 2, 3, 4], [2**63 + 5, 7, 2**60, 9], [2**62, 0, 0, 1], [FULL, FULL, FULL, FULL - 9],
    [2**63 + 2**62, 1, 1, 1],
])  # fmt: skip
def test_a_laplace_draw_is_the_logarithm_of_its_bits(words):
    """The first bit is the sign, the other 255 a uniform number: −ln of it, to 190 bits."""
    import mpmath

    number = sum(word << 64 * (3 - i) for i, word in enumerate(words))
    sign, step = (-1 if number >> 255 else 1), Fraction(1, 2**190)
    with scripted(words):
        draw = _refine.rounded_laplace(Fraction(3), Fraction(5, 7), step)
    with mpmath.workprec(600):
        z = -sign * mpmath.log(mpmath.mpf(number & (2**255 - 1)) / 2**255)
        exact = (3 + z * 5 / 7) * 2**190
        assert abs(draw.value - exact) < 2


def test_bits_are_read_one_word_at_a_time_when_a_coin_is_tied():
    read = []
    with mock.patch.object(
        noise, "random_words", side_effect=lambda n: read.append(n) or np.array([0])
    ):
        assert _refine._compare(lambda t: 2**t // 3)
    assert read == [1]


def test_a_floor_is_believed_only_when_both_ends_agree():
    bounds = {25: (Fraction(1, 4), Fraction(3, 4)), 50: (Fraction(2, 3), Fraction(3, 4))}
    assert _refine.floor_scaled(bounds.__getitem__, 1) == 1


@pytest.mark.parametrize(("drawn", "value"), [(-(10**9), -9.5), (10**9, 10.0), (3, 1.5)])
@pytest.mark.parametrize("delta", [None, "1e-6"])
def test_what_lies_beyond_the_bounds_is_the_last_point_of_the_grid_within(drawn, value, delta):
    name = "rounded_cauchy" if delta is None else "rounded_laplace"
    with mock.patch.object(_refine, name, return_value=_refine.Draw(drawn, False)):
        answer = m.smooth_median([1, 2, 3], "-9.7", "10.4", 1, delta, step="0.5")
    assert answer.value == value


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.2, 1e-9), (3.0, 1e-3)])
def test_beta_is_the_largest_that_keeps_delta(epsilon, delta):
    """(1 − e^{−β})·exp(−(ε/2 + β)/(e^β − 1)) = δ, as the proof has it."""
    beta = _median.laplace_beta(epsilon, delta)
    kept = -math.expm1(-beta) * math.exp(-(epsilon / 2 + beta) / math.expm1(beta))
    assert delta * (1 - 1e-9) < kept <= delta * (1 + 1e-12)
    assert _median.laplace_beta(1.0, 0.5) == 0.5


@pytest.mark.parametrize("prefix", [1, 2, 3, 2**200 + 1, 2**254, 2**255 - 1])
def test_both_ends_of_an_exponential_draw_enclose_what_its_bits_leave_open(prefix):
    """U lies between prefix and prefix + 1, in units of 2^-255; −ln of both, and a hair."""
    import mpmath

    bits = mock.Mock(prefix=prefix, count=256)
    low, high = _refine._exponential(bits)
    with mpmath.workprec(800):
        ends = [-mpmath.log(mpmath.mpf(n) / 2**255) for n in (prefix + 1, prefix)]
        slack = mpmath.mpf(2) ** -300
        assert 0 <= ends[0] - mpmath.mpf(low.numerator) / low.denominator <= slack
        assert 0 <= mpmath.mpf(high.numerator) / high.denominator - ends[1] <= slack
    assert _refine._exponential(mock.Mock(prefix=2**255, count=256)) is None


def test_cauchy_at_the_rim_of_the_disc_refines():
    """The nearer corner of the cell lies within the disc and the farther one does not."""
    a, b = 2**255 - 2, 2**128
    u = [a >> 64 * i & FULL for i in (3, 2, 1, 0)]
    v = [(b << 1) >> 64 * i & FULL for i in (3, 2, 1, 0)]
    inside = [2**62, 0, 0, 0], [2**62, 0, 0, 0]
    with scripted(u, v, [FULL] * 4, [FULL] * 4, *inside):
        draw = _refine.rounded_cauchy(Fraction(0), Fraction(1), Fraction(1, 1000))
    assert draw.value == 500


def test_the_default_grid_is_the_width_of_the_bounds_over_2_to_the_40():
    for low, high, width in ((-10, 30, 32), (-8, 8, 16), (100, 104, 4)):
        assert m.smooth_median([1, 2], low, high, 1).step == Fraction(width, 2**40)
