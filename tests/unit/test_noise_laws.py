"""Probabilities, variances, intervals and records of the noise laws."""

from __future__ import annotations

import json
import math
import pickle
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import ParameterError
from discreet.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    Geometric,
    Interval,
    Sum,
    law_from_dict,
    sum_of,
)
from discreet.noise._laws import ACCURACY, _euler_maclaurin

LAWS = [DiscreteLaplace, DiscreteGaussian, Geometric]
SCALES = ["1e-3", ".3", "1", "10", "255", "257", "1500", "1e9", str(2**40), str(2**60)]


def oracle(law, k):
    """Return (pmf(k), P(X > k)) for k ≥ 0 with 40 digits."""
    with mpmath.workdps(60):
        if isinstance(law, DiscreteGaussian):
            return _gaussian_oracle(mpmath.mpf(law.sigma2.numerator) / law.sigma2.denominator, k)
        s = mpmath.mpf(law.scale.numerator) / law.scale.denominator
        r = mpmath.exp(-1 / s)
        sf = mpmath.exp(-(k + 1) / s)
        if isinstance(law, Geometric):
            return (1 - r) * mpmath.exp(-k / s), sf
        return (1 - r) / (1 + r) * mpmath.exp(-k / s), sf / (1 + r)


def _gaussian_oracle(s2, k):
    theta = mpmath.jtheta(3, 0, mpmath.exp(-1 / (2 * s2))) if s2 < 1 else None
    if theta is None:
        theta = mpmath.sqrt(2 * mpmath.pi * s2) * mpmath.jtheta(
            3, 0, mpmath.exp(-2 * mpmath.pi**2 * s2)
        )
    pmf = mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * s2)) / theta
    if s2 > 10**9:
        # at this width the sum is its midpoint integral to 1e-11 even at 36σ
        sf = mpmath.erfc((k + mpmath.mpf("0.5")) / mpmath.sqrt(2 * s2)) / 2
        return pmf, sf
    total, x = mpmath.mpf(0), mpmath.mpf(k + 1)
    term = mpmath.exp(-(x**2) / (2 * s2))
    ratio, step = mpmath.exp(-(2 * x + 1) / (2 * s2)), mpmath.exp(-1 / s2)
    while term > total * mpmath.mpf(10) ** -25 and term > mpmath.mpf(10) ** -330:
        total += term
        term, ratio = term * ratio, ratio * step
    return pmf, total / theta


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kind", LAWS)
def test_pmf_and_tails_agree_with_many_digits(kind, scale):
    law = kind(scale)
    spread = math.sqrt(float(law.sigma2)) if kind is DiscreteGaussian else float(law.scale)
    reach = 36 if kind is DiscreteGaussian else 650
    for fraction in (0, 0.003, 0.03, 0.1, 0.3, 0.6, 1):
        k = int(fraction * reach * spread)
        pmf, sf = oracle(law, k)
        checks = [(law.pmf(k), pmf), (law.sf(k), sf), (law.cdf(k), 1 - sf)]
        if law.symmetric:
            checks += [(law.pmf(-k), pmf), (law.cdf(-k - 1), sf), (law.sf(-k - 1), 1 - sf)]
        for ours, theirs in checks:
            if theirs > 1e-290:
                assert abs(ours / theirs - 1) < ACCURACY, (k, ours, theirs)
            else:
                assert 0 <= ours < 1e-289


@pytest.mark.parametrize("kind", LAWS)
def test_arrays_and_scalars_agree(kind):
    law = kind("2.5")
    k = np.arange(-60, 61)
    for function in (law.pmf, law.cdf, law.sf):
        values = function(k)
        assert values.shape == k.shape
        assert [function(int(x)) for x in k] == pytest.approx(values.tolist(), rel=1e-15)
        assert isinstance(function(3), float)
    assert law.pmf(k).sum() == pytest.approx(1, abs=1e-9)
    assert np.cumsum(law.pmf(k)) == pytest.approx(law.cdf(k), abs=1e-9)
    assert law.cdf(k) + law.sf(k) == pytest.approx(1, abs=1e-15)


def test_between_integers_the_pmf_is_zero_and_the_cdf_flat():
    law = DiscreteLaplace(3)
    assert law.pmf(0.5) == 0
    assert law.cdf(1.7) == law.cdf(1)
    assert law.sf(-0.5) == law.sf(-1)


@pytest.mark.parametrize("scale", ["0.2", "0.39", "0.4", "1", "7", "40"])
@pytest.mark.parametrize("kind", LAWS)
def test_moments_are_those_of_the_pmf(kind, scale):
    law = kind(scale)
    k = np.arange(-4000, 4001)
    p = law.pmf(k)
    mean = float((k * p).sum())
    assert law.mean == pytest.approx(mean, abs=1e-12, rel=1e-12)
    assert law.variance == pytest.approx(float(((k - mean) ** 2 * p).sum()), rel=1e-10)
    assert law.std == math.sqrt(law.variance)


def test_the_geometric_mechanism_of_the_tutorial():
    """Pr[k] = p/(2−p)·(1−p)^|k| with p = 1−e^{−ε/Δ}; variance 2(1−p)/p²."""
    law, p = DiscreteLaplace("10/3"), -math.expm1(-0.3)
    for k in range(-5, 6):
        assert law.pmf(k) == pytest.approx(p / (2 - p) * (1 - p) ** abs(k), rel=1e-13)
    assert law.variance == pytest.approx(2 * (1 - p) / p**2, rel=1e-13)


@pytest.mark.parametrize("confidence", ["0.01", "0.5", "0.9", "0.95", "0.999999", "0.999999999"])
@pytest.mark.parametrize("scale", ["1e-3", ".3", "1", "10", "300", "1e9", str(2**60)])
@pytest.mark.parametrize("kind", LAWS)
def test_intervals_are_certified_and_the_smallest(kind, scale, confidence):
    law = kind(scale)
    low, high, achieved = law.interval(confidence)
    sides = 2 if law.symmetric else 1
    assert low == (-high if law.symmetric else 0)
    assert achieved >= float(confidence)
    assert 1 - sides * law.sf(high) >= achieved
    if high:
        smaller = 1 - sides * law.sf(high - 1)
        # a tie within the error of the tail may be resolved outward
        assert smaller < float(confidence) + 1e-11


def test_an_interval_whose_confidence_ties_is_still_certified():
    law = Geometric("1.5")
    for k in range(20):
        asked = law.cdf(k)
        found = law.interval(asked)
        assert found.confidence >= asked
        assert found.high in (k, k + 1)


@pytest.mark.parametrize("bad", [0, 1, -1, 2, "nan", float("nan"), "0.9999999999999999999", None])
def test_bad_confidence_is_refused(bad):
    for law in (DiscreteLaplace(1), DiscreteLaplace(1) + Geometric(2)):
        with pytest.raises(ParameterError):
            law.interval(bad)


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize(
    "bad", [0, -1, float("nan"), float("inf"), 1e-10, 2**61, "x", None, True, 1j, "1/0", [1]]
)
def test_bad_scales_are_refused(kind, bad):
    with pytest.raises(ParameterError):
        kind(bad)


def test_parameters_are_exact():
    assert DiscreteLaplace("0.1").scale == Fraction(1, 10)
    assert DiscreteLaplace(0.1).scale == Fraction(0.1) != Fraction(1, 10)
    assert DiscreteLaplace(Decimal("2.5")).scale == Fraction(5, 2)
    assert DiscreteLaplace(np.float64(0.5)).scale == Fraction(1, 2)
    assert DiscreteGaussian("0.1").sigma2 == Fraction(1, 100)
    assert DiscreteGaussian.from_variance("0.1").sigma2 == Fraction(1, 10)
    assert Geometric(np.int64(7)).scale == 7


def test_laws_are_values():
    assert DiscreteLaplace("0.5") == DiscreteLaplace(0.5)
    assert hash(DiscreteGaussian(2)) == hash(DiscreteGaussian.from_variance(4))
    assert DiscreteLaplace(1) != Geometric(1)
    with pytest.raises(AttributeError):
        DiscreteLaplace(1).scale = Fraction(2)
    assert repr(DiscreteGaussian.from_variance("0.1")) == "DiscreteGaussian.from_variance(0.1)"
    assert repr(DiscreteGaussian("0.5")) == "DiscreteGaussian(sigma=0.5)"
    assert repr(Geometric("1/3")) == "Geometric(scale=1/3)"


@pytest.mark.parametrize("n", [0, 1, 256, 257, 70_000])
@pytest.mark.parametrize("kind", LAWS)
def test_samples_have_the_size_asked_and_are_integers(kind, n):
    x = kind(1000).sample(n)
    assert x.shape == (n,)
    assert x.dtype == np.int64


@pytest.mark.parametrize("bad", [-1, 1.5, "3", None, True])
def test_bad_sample_sizes_are_refused(bad):
    with pytest.raises(ParameterError):
        DiscreteLaplace(1).sample(bad)


def test_wide_laws_give_python_integers_beyond_63_bits():
    x = DiscreteLaplace(2**60).sample(100_000)
    assert x.dtype == object
    assert all(type(v) is int for v in x[:100])
    assert max(abs(v) for v in x) > 2**63
    assert DiscreteLaplace(2**54).sample(10).dtype == np.int64


def test_wide_draws_have_no_lattice():
    """Every low bit is used: no draw is rounded to a coarser grid."""
    for law in (DiscreteLaplace(2**60), DiscreteGaussian(2**52), Geometric(2**40)):
        x = law.sample(1000)
        assert math.gcd(*(int(v) for v in x)) == 1


# --- sums -----------------------------------------------------------------------


def _brute(laws, reach=400):
    k = np.arange(-reach, reach + 1)
    pmf = np.array([1.0])
    for law in laws:
        pmf = np.convolve(pmf, law.pmf(k))
    half = reach * len(laws)
    return np.arange(-half, half + 1), pmf


@pytest.mark.parametrize(
    "laws",
    [
        [DiscreteLaplace(3), DiscreteLaplace(3)],
        [DiscreteLaplace("0.2"), DiscreteGaussian(4)],
        [Geometric(2), Geometric(2), Geometric(5)],
        [DiscreteLaplace(4), Geometric(3), DiscreteGaussian("0.7")],
    ],
    ids=repr,
)
def test_sums_agree_with_direct_convolution(laws):
    law = sum_of(laws)
    k, pmf = _brute(laws)
    assert law.pmf(k) == pytest.approx(pmf, abs=1e-14)
    assert law.cdf(k) == pytest.approx(np.cumsum(pmf), abs=1e-13)
    assert law.sf(k) == pytest.approx(1 - np.cumsum(pmf), abs=1e-13)
    assert law.mean == pytest.approx(float((k * pmf).sum()))
    assert law.variance == pytest.approx(float(((k - law.mean) ** 2 * pmf).sum()))
    assert law.error < 1e-11
    low, high, achieved = law.interval(0.9)
    inside = float(pmf[(k >= low) & (k <= high)].sum())
    assert inside >= achieved >= 0.9
    if law.symmetric:
        assert float(pmf[(k > low) & (k < high)].sum()) < 0.9


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999999])
def test_wide_sums_have_valid_and_nearly_tight_intervals(confidence):
    """A sum of Gaussians is within 1e-9 of a Gaussian at this width: compare with that."""
    law = DiscreteGaussian(3 * 10**9) + DiscreteGaussian(4 * 10**9)
    true = DiscreteGaussian(5 * 10**9)
    found, best = law.interval(confidence), true.interval(confidence)
    assert found.confidence >= confidence
    assert best.high <= found.high <= best.high + 0.001 * law.std
    x = np.linspace(-1.5e10, 1.5e10, 101).round()
    assert law.cdf(x) == pytest.approx(true.cdf(x), abs=1e-4)
    assert law.pmf(x) == pytest.approx(true.pmf(x), rel=1e-2)


def test_a_thousand_copies():
    law = DiscreteLaplace(10) * 1000
    assert law.variance == pytest.approx(1000 * DiscreteLaplace(10).variance)
    assert law.interval(0.95).high == pytest.approx(1.96 * law.std, rel=0.01)
    wide = 1000 * DiscreteLaplace(10**9)
    assert wide.interval(0.95).high == pytest.approx(1.96 * wide.std, rel=0.05)
    assert wide.interval(0.95).high >= 1.9599 * wide.std


def test_sums_of_different_widths():
    law = DiscreteLaplace(2**60) + DiscreteLaplace("0.01")
    alone = DiscreteLaplace(2**60).interval(0.95)
    assert alone.high <= law.interval(0.95).high <= 1.001 * alone.high
    x = law.sample(300)
    assert x.dtype == object


def test_sums_widen_rather_than_wrap():
    law = 64 * DiscreteLaplace(2**54)
    assert max(abs(int(v)) for v in law.sample(300)) < 2**62
    assert (DiscreteLaplace(2**54) * 3).sample(5).dtype == np.int64


def test_sums_merge_equal_laws_and_flatten():
    a, b = DiscreteLaplace(1), Geometric(2)
    assert (a + b) + (a + a) == Sum(((a, 3), (b, 1)))
    assert 2 * (a + b) == sum_of([a, b], counts=[2, 2])
    with pytest.raises(TypeError):
        a + 1
    for bad in (0, -1, 1.5):
        with pytest.raises(ParameterError):
            a * bad
    with pytest.raises(ParameterError):
        sum_of([])
    with pytest.raises(ParameterError):
        sum_of([1])


def test_a_sum_of_one_sided_laws_has_a_one_sided_interval():
    found = (Geometric(3) + Geometric(4)).interval(0.9)
    assert found.low == 0
    mixed = (Geometric(30) + DiscreteLaplace(2)).interval(0.9)
    assert isinstance(mixed, Interval)
    assert mixed.low < 10 < mixed.high


# --- records --------------------------------------------------------------------

fractions = st.fractions(min_value=Fraction(1, 1000), max_value=10**6, max_denominator=10**6)
laws = st.one_of(
    fractions.map(DiscreteLaplace),
    fractions.map(Geometric),
    fractions.map(DiscreteGaussian.from_variance),
)


@given(st.lists(laws, min_size=1, max_size=4))
def test_records_are_exact_and_json(parts):
    law = sum_of(parts) if len(parts) > 1 else parts[0]
    record = json.loads(json.dumps(law.to_dict()))
    assert law_from_dict(record) == law
    assert pickle.loads(pickle.dumps(law)) == law


@pytest.mark.parametrize(
    "bad", [{}, {"law": "laplace"}, {"law": "geometric"}, {"law": "geometric", "scale": "-1"}, []]
)
def test_bad_records_are_refused(bad):
    with pytest.raises(ParameterError):
        law_from_dict(bad)


@pytest.mark.parametrize("sigma", [2.0, 3.0, 5.0])
@pytest.mark.parametrize("t", [0.0, 0.5, 1.5, 3.0])
def test_sums_of_a_wide_gaussian_take_all_corrections(sigma, t):
    """Far below the widths it is used for, where every term of the series can be seen."""
    x = round(t * sigma)
    exact = mpmath.nsum(lambda j: mpmath.exp(-((x + 0.5 + j) ** 2) / (2 * sigma**2)), [0, 200])
    found = float(_euler_maclaurin(np.array([float(x)]), sigma)[0])
    # the first term that is left out: 73 h9/(3503554560 σ^9), h9 up to some hundreds here
    assert abs(found - float(exact)) < 4e-5 * sigma**-9


def test_sums_of_a_wide_gaussian_end():
    law = DiscreteGaussian(300)
    assert law.sf(10**60) == 0
    assert law.cdf(10**60) == 1
    one_sided = Geometric(3)
    assert one_sided.cdf([-1, 0]).tolist() == pytest.approx([0, one_sided.pmf(0)])
    assert one_sided.sf([-1, 0]).tolist() == pytest.approx([1, 1 - one_sided.pmf(0)])
