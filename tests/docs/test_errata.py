"""Errata of the source documents that no other test file shows: what is printed is wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet import lab, noise
from discreet import mechanisms as m
from discreet import privacy as p


def test_erratum_single_cell_variance_lacks_the_factor_two():
    """Ashmead, Leclerc & Sexton, exercise 10: printed (1−p)/p², half of what it is."""
    q = 1 - math.exp(-1 / 3)
    printed, right = (1 - q) / q**2, noise.DiscreteLaplace(3).variance
    assert right == pytest.approx(17.8343, abs=5e-5)
    assert right == pytest.approx(2 * printed)
    # the combined estimate: one direct answer (2) and the sum of two cells (3 + 4)
    weights = np.array([1 / right, 1 / (2 * right)])
    value = (weights @ [2, 7]) / weights.sum()
    assert value == pytest.approx(3.66667, abs=5e-6)
    assert 1 / weights.sum() == pytest.approx(11.8895, abs=5e-4)


def test_erratum_private_t_statistic_has_no_such_sensitivity():
    """Tiwari: sensitivity 2/(n₁+n₂). One changed score moves the statistic far more."""

    def t(a, b):
        return (a.mean() - b.mean()) / math.sqrt(a.var() / a.size + b.var() / b.size)

    n = 1000
    a, b = np.full(n, 7.0), np.full(n, 5.0)
    a[0], b[0] = 7.1, 5.1  # nearly constant groups: the denominator is tiny
    changed = a.copy()
    changed[0] = 7.0
    moved, claimed = abs(t(changed, b) - t(a, b)), 2 / (2 * n)
    assert moved > 1e5 * claimed
    # on scores like the article's, one score clipped to [0, 12] also moves it many times more
    scores = np.random.default_rng(0)
    a, b = (np.clip(scores.normal(c, 1, n), 0, 12) for c in (7, 5))
    changed = a.copy()
    changed[np.argmin(a)] = 12
    assert abs(t(changed, b) - t(a, b)) > 50 * claimed
    # a constant group makes the statistic infinite: no finite sensitivity exists at all
    with np.errstate(divide="ignore"):
        assert np.float64(2.0) / np.sqrt(np.full(n, 7.0).var()) == math.inf


def test_erratum_laplace_noise_on_a_total_is_the_central_model():
    """Tiwari presents noise on the total as local privacy; noise per device is √n times larger."""
    n = 10_000
    central = math.sqrt(m.geometric(7000, 1, "0.1").law.variance)
    local = m.RandomizedResponse(epsilon="0.1").estimate(
        np.r_[np.ones(7000, int), np.zeros(3000, int)]
    )
    low, high = local.interval(0.95)
    sd_of_total = n * (high - low) / (2 * 1.96)
    assert sd_of_total > 50 * central


def test_erratum_gaussian_variance_is_sigma_squared_and_the_rule_fails():
    """Zhu et al. write variance σ where σ² is meant; both textbook rules break for large ε."""
    for constant in (1.25, 2):
        epsilon, delta = 20, 1e-6
        sigma = math.sqrt(2 * math.log(constant / delta)) / epsilon
        assert p.Gaussian(1 / sigma).delta(epsilon) > 50 * delta
    law = noise.DiscreteGaussian(5)
    assert law.variance == pytest.approx(25, rel=1e-9)


def test_erratum_sign_in_the_proof_for_laplace_noise():
    """Cummings eq. (11): at s = 0, f(x) = 0, f(y) = 1 the printed exponent has the wrong sign."""
    law = noise.DiscreteLaplace(1)
    ratio = law.pmf(0) / law.pmf(-1)
    x, y, s = 0, 1, 0
    assert ratio == pytest.approx(math.exp(abs(s - y) - abs(s - x)))
    assert ratio != pytest.approx(math.exp(-(abs(s - y) - abs(s - x))))  # as printed
    # and "=" for "≤": between the two means the exponent is less than |f(y) − f(x)|
    wide = noise.DiscreteLaplace(2)
    assert wide.pmf(1) / wide.pmf(1 - 2) < math.exp(2 / 2)


def test_erratum_smooth_bounds_are_about_neighbours():
    """Zhu eq. (2.5): a bound that is smooth along neighbours need not be so for all pairs."""
    beta, sizes = 0.1, range(50)
    bound = [math.exp(beta * n) for n in sizes]
    assert all(bound[n + 1] <= math.exp(beta) * bound[n] * (1 + 1e-12) for n in sizes[:-1])
    assert bound[-1] > math.exp(beta) * bound[0]


def test_erratum_an_average_of_clipped_values_has_a_small_sensitivity():
    """Tiwari: sensitivity 1; with public n it is (U − L)/n."""
    low, high, n = 0, 100, 1000
    values = np.full(n, low)
    changed = values.copy()
    changed[0] = high
    assert abs(changed.mean() - values.mean()) == pytest.approx((high - low) / n)
    # and 1 is too little for ten people
    assert abs(np.r_[high, np.zeros(9)].mean() - 0) > 1


def test_erratum_a_table_entry_was_cut_not_rounded():
    """Zhu Table 2.3."""
    entry = float(m.Exponential(1, "0.1").probabilities([24, 8, 28, 5])[0])
    assert entry == pytest.approx(0.32707, abs=5e-6)
    assert round(entry, 2) != 0.32


def test_erratum_group_scaling_lost_a_delta():
    """Lalanne: δ + e^ε + … instead of δ(1 + e^ε + …)."""
    epsilon, delta, k = 0.1, 1e-6, 5
    printed = delta + sum(math.exp(i * epsilon) for i in range(1, k))
    right = delta * sum(math.exp(i * epsilon) for i in range(k))
    assert printed == pytest.approx(5.168, abs=5e-4)
    assert right == pytest.approx(6.168e-6, abs=5e-10)
    assert p.group(p.Approx("0.1", "1e-6"), k).delta(k * epsilon) == pytest.approx(right, rel=1e-5)


def test_erratum_composition_needs_the_positive_part():
    """Lalanne: the difference of measures is negative on the whole range."""
    delta, factor = 0.1, math.e
    high, low = (1 - delta) * factor / (1 + factor), (1 - delta) / (1 + factor)
    one, other = np.array([delta, high, low, 0]), np.array([0, low, high, delta])
    signed = one - factor * other
    assert signed.sum() == pytest.approx(1 - factor)
    assert signed[signed > 0].sum() == pytest.approx(delta)


def test_erratum_adaptivity_does_not_save_budget():
    """Zhu 2.2.1: composition saves against the sum; an adaptive filter never saves more."""
    fixed = p.compose([p.Pure("0.1")] * 100).epsilon("1e-6")
    assert fixed < 10  # the saving is there without any adaptive choice
    room = p.ZcdpFilter.for_target(epsilon=fixed, delta="1e-6")
    admitted = 0
    while admitted < 101 and room.admits(p.Pure("0.1")):
        room.spend(p.Pure("0.1"))
        admitted += 1
    assert admitted <= 100


def test_erratum_delta_is_an_area_not_the_probability_of_a_large_loss():
    """Tiwari: for Gaussian noise both exist, and they differ."""
    sigma, epsilon = 1.0, 1.0
    # the loss at x is (2x − 1)/2σ², so it exceeds ε where x > ε σ² + 1/2
    exceeds = 0.5 * math.erfc((epsilon * sigma**2 + 0.5 - 1) / (sigma * math.sqrt(2)))
    delta = p.Gaussian(1 / sigma).delta(epsilon)
    assert exceeds == pytest.approx(0.3085, abs=5e-5)
    assert delta == pytest.approx(0.1269, abs=5e-5)
    assert p.Probabilistic(1, "0.3086").approx().delta(epsilon) >= delta


def test_erratum_k_anonymity_means_k_records():
    """Ashmead et al. 1.5: at least k, not k − 1, records share what others know."""
    release = lab.k_anonymity(lab.town(), k=5)
    sizes = {len(release.records.matching(person)) for person in lab.town().codes[:200]}
    assert min(sizes) >= 5
