"""Additive noise: exact lattice profiles, the vector lemmas, analytic calibration."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from discreet import privacy as p
from discreet._exact import ceil_float
from discreet.privacy import _additive

# -- Gaussian ---------------------------------------------------------------------------

SIGMA = {
    ("0.1", "1e-5"): 30.749566,
    ("0.1", "1e-6"): 36.304690,
    ("0.1", "1e-9"): 50.209818,
    ("1", "1e-5"): 3.730632,
    ("1", "1e-6"): 4.224679,
    ("1", "1e-9"): 5.495266,
    ("10", "1e-5"): 0.499889,
    ("10", "1e-6"): 0.541087,
    ("10", "1e-9"): 0.650247,
}


@pytest.mark.parametrize(("target", "sigma"), list(SIGMA.items()))
def test_analytic_calibration_table(target, sigma):
    eps, delta = target
    got = p.gaussian_sigma(1, eps, delta)
    assert got == pytest.approx(sigma, abs=1e-6)
    loss = p.Gaussian(1 / Fraction(got))
    assert loss.epsilon(delta) <= float(eps) * (1 + 1e-12)
    assert loss.epsilon(delta) == pytest.approx(float(eps), rel=1e-9)
    assert p.Gaussian(1 / Fraction(got * (1 - 1e-9))).epsilon(delta) > float(eps) * (1 - 1e-12)


def test_textbook_gaussian_calibrations_are_wrong_for_large_epsilon_and_loose_for_small():
    """Erratum: √(2 ln(1.25/δ))/ε and √(2 ln(2/δ))/ε are neither valid nor tight for all ε."""
    assert math.sqrt(2 * math.log(1.25e5)) == pytest.approx(4.844805, abs=1e-6)
    assert math.sqrt(2 * math.log(2e5)) == pytest.approx(4.940865, abs=1e-5)
    assert p.gaussian_sigma(1, 1, "1e-5") < 3.7307
    for c in (1.25, 2.0):
        sigma = math.sqrt(2 * math.log(c / 1e-6)) / 20
        assert p.Gaussian(Fraction(1 / sigma)).delta(20) > 50e-6
    assert round(p.gaussian_sigma(1, 20, "1e-6"), 4) == 0.3091


def test_sigma_scales_with_sensitivity():
    assert p.gaussian_sigma(7, 1, "1e-6") == pytest.approx(7 * p.gaussian_sigma(1, 1, "1e-6"))


@pytest.mark.parametrize("mu", [1e-6, 0.001, 0.05, 1.0, 7.0, 40.0])
@pytest.mark.parametrize("quantile", [0.0, 1.0, 5.0, 20.0, 60.0])
def test_gaussian_profile_is_an_upper_bound_and_accurate_in_the_far_tail(mu, quantile):
    eps = max(mu * mu / 2 + quantile * mu, 0.0) if quantile else 0.0
    got = p.Gaussian(Fraction(mu)).log_delta(np.array([eps]))[0]
    with mpmath.workdps(400):
        m, e = mpmath.mpf(mu), mpmath.mpf(float(eps))
        exact = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
        ratio = float(mpmath.exp(mpmath.mpf(float(got))) / exact)
    assert 1 <= ratio < 1 + 1e-8


# -- discrete Laplace -------------------------------------------------------------------


def _laplace_pmf(scale, reach):
    x = np.arange(-reach, reach + 1)
    return x, np.tanh(1 / (2 * scale)) * np.exp(-np.abs(x) / scale)


@pytest.mark.parametrize(("scale", "m"), [(2, 1), (2.5, 2), (3, 5), (0.3, 4), (10, 7)])
def test_discrete_laplace_profile_matches_summation(scale, m):
    x, pmf = _laplace_pmf(scale, 2000)
    loss = (np.abs(x - m) - np.abs(x)) / scale
    for eps in np.linspace(0, 1.1 * m / scale, 23):
        exact = np.sum(pmf * np.maximum(1 - np.exp(eps - loss), 0))
        got = p.DiscreteLaplace(scale, m).delta(float(eps))
        assert exact * (1 - 1e-12) <= got + 1e-18
        assert got == pytest.approx(exact, rel=1e-9, abs=1e-15)


def test_discrete_laplace_with_unit_sensitivity_is_randomized_response():
    for eps in (0.0, 0.03, 0.09):
        assert p.DiscreteLaplace(10, 1).delta(eps) == pytest.approx(
            p.Pure("0.1").delta(eps), rel=1e-12
        )


@pytest.mark.parametrize("scale", [0.7, 2.0, 6.0])
@pytest.mark.parametrize("split", [(1, 1), (2, 1), (1, 1, 1), (3, 2)])
def test_a_scalar_shift_dominates_every_split_of_it(scale, split):
    """The lemma behind using the scalar loss for vectors, checked by enumeration."""
    laws = []
    for m in split:
        x, pmf = _laplace_pmf(scale, int(40 * scale) + 5)
        values, inverse = np.unique(np.abs(x - m) - np.abs(x), return_inverse=True)
        laws.append((values, np.bincount(inverse, pmf)))
    whole = p.DiscreteLaplace(scale, sum(split))
    combos = list(itertools.product(*[range(len(v)) for v, _ in laws]))
    loss = np.array([sum(laws[i][0][j] for i, j in enumerate(c)) for c in combos]) / scale
    mass = np.array([math.prod(laws[i][1][j] for i, j in enumerate(c)) for c in combos])
    for eps in np.linspace(0, float(sum(split)) / scale, 29):
        vector = np.sum(mass * np.maximum(1 - np.exp(eps - loss), 0))
        assert vector <= whole.delta(float(eps)) + 1e-12


def test_larger_shifts_dominate_smaller_ones():
    for eps in (0.0, 0.1, 0.4):
        deltas = [p.DiscreteLaplace(5, m).delta(eps) for m in range(1, 8)]
        assert deltas == sorted(deltas)
        deltas = [p.DiscreteGaussian(5, m).delta(eps) for m in range(1, 8)]
        assert deltas == sorted(deltas)


# -- discrete Gaussian ------------------------------------------------------------------


def _gaussian_pmf(sigma2):
    reach = int(45 * math.sqrt(sigma2)) + 5
    x = np.arange(-reach, reach + 1)
    w = np.exp(-(x**2) / (2 * sigma2))
    return x, w / w.sum()


@pytest.mark.parametrize(("sigma", "m"), [(0.5, 1), (1.0, 2), (3.0, 1), (20.0, 3)])
def test_discrete_gaussian_scalar_profile_matches_summation(sigma, m):
    x, pmf = _gaussian_pmf(sigma**2)
    loss = m * (m - 2 * x) / (2 * sigma**2)
    for eps in (0.0, 0.1, 0.5, 2.0):
        exact = np.sum(pmf * np.maximum(1 - np.exp(eps - loss), 0))
        got = p.DiscreteGaussian(sigma, m).delta(eps)
        assert got >= exact * (1 - 1e-12)
        assert got == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("sigma2", [0.6, 1.0, 2.0, 6.0])
@pytest.mark.parametrize("shift", [(1, 1), (2, 0), (2, 1)])
def test_discrete_gaussian_vector_bound_holds_for_every_split(sigma2, shift):
    """Exact two-dimensional profiles against the smoothing lemma."""
    x, pmf = _gaussian_pmf(sigma2)
    norm2 = sum(s * s for s in shift)
    bound = p.DiscreteGaussian.from_variance(Fraction(sigma2), norm2, dimension=2)
    loss = sum(np.expand_dims(s * (s - 2 * x) / (2 * sigma2), 1 - i) for i, s in enumerate(shift))
    mass = pmf[:, None] * pmf[None, :]
    for eps in (0.0, 0.3, 1.0, 3.0):
        exact = float(np.sum(mass * np.maximum(1 - np.exp(eps - loss), 0)))
        assert bound.delta(eps) >= exact * (1 - 1e-12)
        if sigma2 >= 6:
            assert bound.delta(eps) <= p.Gaussian.from_square(
                Fraction(norm2) / (Fraction(sigma2) - 2)
            ).delta(eps) * (1 + 1e-9)


def test_the_smoothed_law_is_the_discrete_gaussian_up_to_the_stated_factor():
    """Integrate the two-step draw of the lemma numerically."""
    sigma2, s2 = 2.0, 0.5
    tau2 = sigma2 - s2
    eta = 2 * sum(math.exp(-2 * math.pi**2 * s2 * k * k) for k in range(1, 6))
    t = np.linspace(-15, 15, 60_001)
    weight = np.exp(-(t**2) / (2 * tau2)) / math.sqrt(2 * math.pi * tau2)
    x = np.arange(-40, 41)
    kernel = np.exp(-((x[:, None] - t[None, :]) ** 2) / (2 * s2))
    kernel /= kernel.sum(axis=0)
    law = np.trapezoid(kernel * weight, t, axis=1)
    exact = np.exp(-(x**2) / (2 * sigma2))
    exact /= exact.sum()
    keep = np.abs(x) <= 8
    ratio = law[keep] / exact[keep]
    assert ratio.max() / ratio.min() <= (1 + eta) / (1 - eta) * (1 + 1e-9)
    assert ratio.max() / ratio.min() > 1  # the factor is real: the lemma is not vacuous


def test_discrete_gaussian_rho_is_exact_and_vectors_pay_a_quarter_percent():
    assert p.DiscreteGaussian(20, 1).rho == Fraction(1, 800)
    assert p.DiscreteGaussian.from_variance(400, 3, dimension=3).rho == Fraction(3, 800)
    vector = p.DiscreteGaussian(20, 1, dimension=1000).epsilon(1e-6)
    assert vector == pytest.approx(p.Gaussian("0.05").epsilon(1e-6), rel=0.004)


def test_large_sigma_agrees_with_the_continuous_law():
    loss = p.DiscreteGaussian(10**6, 5 * 10**4)
    assert loss.epsilon(1e-6) == pytest.approx(0.189213, abs=1e-6)
    near = p.DiscreteGaussian(9_999, 500).epsilon(1e-6)  # summed
    far = p.DiscreteGaussian(10_001, 500).epsilon(1e-6)  # bounded
    assert near == pytest.approx(far, rel=1e-3)


def test_integer_answers_move_by_whole_steps():
    assert p.DiscreteLaplace(5, "2.9") == p.DiscreteLaplace(5, 2)
    assert p.DiscreteGaussian(5, "1.9") == p.DiscreteGaussian(5, 1)
    assert p.DiscreteGaussian.from_variance(25, "3.5", dimension=4).sensitivity2 == 3


@pytest.mark.parametrize("delta", ["1e-5", "1e-9", "1e-30", "1e-100"])
def test_gaussian_epsilon_for_tiny_delta(delta):
    eps = p.Gaussian(1).epsilon(delta)
    with mpmath.workdps(200):
        e = mpmath.mpf(eps)
        d = mpmath.ncdf(mpmath.mpf(1) / 2 - e) - mpmath.exp(e) * mpmath.ncdf(-0.5 - e)
        assert 1 - 1e-9 < float(d / mpmath.mpf(delta)) <= 1


# -- never below the truth --------------------------------------------------------------


def _big(x):
    return mpmath.mpf(Fraction(x).numerator) / Fraction(x).denominator


def _certified(got, exact, within):
    """A stated ln δ is at most a hair above the truth, and not below it by even one rounding."""
    stated = mpmath.exp(mpmath.mpf(float(got)))
    assert exact <= stated <= exact * (1 + mpmath.mpf(within)), (float(got), exact)


@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 3.0, 11.0, 12.5, 14.0, 25.0])
def test_gaussian_profiles_round_up_at_every_point(mu):
    loss, widths = p.Gaussian(Fraction(mu)), np.linspace(-mu / 2, 9, 22)
    eps = np.concatenate([widths * mu + mu * mu / 2, -mu * np.linspace(0.01, 2, 5)])
    got = loss.log_delta(eps)
    with mpmath.workdps(120):
        m = _big(mu)
        for e, value in zip(eps.tolist(), got.tolist(), strict=True):
            x = _big(e)
            exact = mpmath.ncdf(m / 2 - x / m) - mpmath.exp(x) * mpmath.ncdf(-m / 2 - x / m)
            _certified(value, exact, 1e-9)


@pytest.mark.parametrize("eps0", ["0.01", "0.7", "3", "20"])
def test_laplace_profiles_and_divergences_round_up(eps0):
    loss, e0 = p.Laplace(eps0), Fraction(eps0)
    eps = float(e0) * np.concatenate([np.linspace(-1, 0.999, 60), 1 - 2.0 ** -np.arange(12, 50)])
    answers = p.Pure(eps0).log_delta(eps).tolist()
    with mpmath.workdps(60):
        top = _big(ceil_float(e0))  # a wider gap than the true one
        stated = loss.log_delta(eps).tolist()
        for e, value, answer in zip(eps.tolist(), stated, answers, strict=True):
            _certified(value, 1 - mpmath.exp((_big(e) - top) / 2), 1e-12)
            _certified(answer, (1 - mpmath.exp(_big(e) - top)) / (1 + mpmath.exp(-top)), 1e-12)
        for a in (Fraction(n, 8) for n in (9, 10, 12, 16, 24, 40, 80, 160, 800)):
            b, x = _big(a), _big(e0)
            grow = b / (2 * b - 1) * mpmath.exp((b - 1) * x)
            fade = (b - 1) / (2 * b - 1) * mpmath.exp(-b * x)
            exact = mpmath.log(grow + fade) / (b - 1)
            assert exact <= loss.renyi(a) <= exact * (1 + mpmath.mpf(1e-8))


@pytest.mark.parametrize(("scale", "m"), [("2", 1), ("2.5", 2), ("3", 5), ("0.3", 4), ("10", 7)])
def test_discrete_laplace_profiles_round_up_on_both_roads(scale, m):
    """The closed form, and the atoms that compositions are made of."""
    loss, s = p.DiscreteLaplace(scale, m), Fraction(scale)
    eps = float(m / s) * np.linspace(0, 0.999, 70)
    (pair,) = loss.pairs()
    atoms = pair.atoms
    with mpmath.workdps(60):
        r = mpmath.exp(-1 / _big(s))
        law = [(1 - r) / (1 + r) * r**j for j in range(m)]
        # x ≤ 0 loses m/s, x ≥ m gains it, x = j between loses (m − 2j)/s
        masses = [1 / (1 + r), *law[1:], r**m / (1 + r)]
        for e, value in zip(eps.tolist(), loss.log_delta(eps).tolist(), strict=True):
            losses = [(m - 2 * j) / _big(s) for j in range(m + 1)]
            gains = [1 - mpmath.exp(_big(e) - x) for x in losses]
            exact = sum(q * g for q, g in zip(masses, gains, strict=True) if g > 0)
            _certified(value, exact, 1e-12)
        for q, stated in zip(reversed(masses), atoms.masses.tolist(), strict=True):
            assert q <= stated <= q * (1 + mpmath.mpf(1e-12))
    assert (atoms.offset, atoms.spacing) == (-m / s, 2 / s)


@pytest.mark.parametrize("s2", [Fraction(n, 16) for n in (4, 5, 8, 16, 32)])
@pytest.mark.parametrize("dimension", [1, 3, 1000])
def test_the_lemma_of_smoothing_states_no_less_than_it_costs(s2, dimension):
    factor, shift = _additive.smoothing_price(s2, dimension)
    with mpmath.workdps(60):
        first = mpmath.exp(-2 * mpmath.pi**2 * _big(s2))
        eta = 2 * first / (1 - first)
        up, down = dimension * mpmath.log1p(eta), -dimension * mpmath.log1p(-eta)
        assert up <= factor <= up * (1 + mpmath.mpf(1e-10))
        assert up + down <= shift <= (up + down) * (1 + mpmath.mpf(1e-10))


def test_the_lemma_is_paid_for_with_the_variance_it_takes():
    """ε and δ of several vectors at once, by the formula of the lemma, for every s² on offer."""
    terms = (
        (p.DiscreteGaussian.from_variance(3, 2, dimension=2), 2),
        (p.DiscreteGaussian.from_variance("7.5", 5, dimension=3), 1),
    )
    bound = _additive.Smoothed.build(terms=terms)
    rho = 2 * Fraction(2, 6) + Fraction(5, 15)
    for eps in (0.5, 2.0, 4.0, 7.0):
        best = p.Zcdp(rho).delta(eps)
        for s2 in (float(x) for x in _additive.SMOOTHING if x < 3):
            eta = 2 * sum(math.exp(-2 * math.pi**2 * s2 * k * k) for k in range(1, 9))
            mu = math.sqrt(2 * 2 / (3 - s2) + 5 / (7.5 - s2))
            if eta < 1:
                shift = 7 * (math.log1p(eta) - math.log1p(-eta))
                e = eps - shift
                tail = stats.norm.cdf(mu / 2 - e / mu) - math.exp(e) * stats.norm.cdf(
                    -mu / 2 - e / mu
                )
                best = min(best, (1 + eta) ** 7 * tail)
        assert bound.delta(eps) == pytest.approx(min(best, 1), rel=2e-3)


@pytest.mark.parametrize("scale", ["0.3", "1.7", "2.5", "3", "7", "10", "33.3"])
def test_beyond_its_largest_loss_a_discrete_laplace_hides_everything(scale):
    loss = p.DiscreteLaplace(scale, 3)
    top = ceil_float(loss.top)
    assert loss.log_delta(np.array([top, top + 0.5, 9e9])).tolist() == [-math.inf] * 3
