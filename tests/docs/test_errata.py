"""Errata of the source documents that no other test file shows: what is printed is wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet import mechanisms as m
from discreet import noise
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
