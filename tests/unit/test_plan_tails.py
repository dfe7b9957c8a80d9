"""Margins of sums of unlike noises: as near to the least one as they say, never below it."""

from __future__ import annotations

import random
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy import special

from discreet.noise import DiscreteGaussian, DiscreteLaplace
from discreet.plan import _tails


def _halved(laws, size, level):
    """The least margin by plain halving."""
    high, low = float(size.sum()), 0.0
    while _tails.tail(laws, size, np.array(high)) > 1 - level:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        fits = _tails.tail(laws, size, np.array(middle)) <= 1 - level
        low, high = (low, middle) if fits else (middle, high)
    return high


@pytest.mark.parametrize("seed", range(12))
def test_a_margin_holds_and_is_the_least_one(seed):
    chance = random.Random(seed)
    kinds = ((DiscreteLaplace,), (DiscreteGaussian,), (DiscreteLaplace, DiscreteGaussian))[seed % 3]
    for level in (0.5, 0.95, 1 - 1e-6):
        number = chance.choice((2, 3, 4))
        laws = [chance.choice(kinds)(1 + Fraction(int(10 ** chance.uniform(0, 5)), 7))
                for _ in range(number)]  # fmt: skip
        size = np.array([10 ** chance.uniform(-3, 3) for _ in laws])
        found, least = _tails.margin(laws, list(size), level), _halved(laws, size, level)
        assert _tails.tail(laws, size, np.array(found)) <= 1 - level
        assert least * (1 - 1e-12) <= found <= least * (1 + 2e-9)


@pytest.mark.parametrize("scale", [Fraction(1, 10_000), Fraction(1), Fraction(10**6)])
def test_the_tail_of_many_draws_needs_no_warning_at_any_price(scale):
    """4r·sinh²(x/2)/(1 − r)² overflowed in its parts at ε = 10 000."""
    law, one = DiscreteLaplace(scale), np.ones(1)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        found = _tails.tail_margin(law, 50 * one, one, 0.025)[0]
    x = np.linspace(1e-4, 0.999, 400) / float(scale)
    exact = []
    for at in x:
        r, t = mp.exp(-1 / mp.mpf(float(scale))), mp.mpf(at)
        u = 4 * r * (mp.sinh(t / 2) / (1 - r)) ** 2
        if u < 1:
            exact.append((mp.log(40) - 50 * mp.log1p(-u)) / t)
    assert found == pytest.approx(float(min(exact)), rel=1e-6)


def _exact(laws, c, sd, x):
    """P(|normal + Σ c·noise| > x) by sums over both lattices."""
    places, chance = np.zeros(1), np.ones(1)
    for law, weight in zip(laws, c, strict=True):
        k = np.arange(-60 * float(law.scale) - 5, 60 * float(law.scale) + 6).round()
        places = np.add.outer(places, weight * k).ravel()
        chance = np.multiply.outer(chance, law.pmf(k)).ravel()
    if sd == 0:
        return chance @ (np.abs(places)[:, None] > x)
    far = (x - places[:, None]) / sd, (x + places[:, None]) / sd
    return chance @ (special.ndtr(-far[0]) + special.ndtr(-far[1]))


@pytest.mark.parametrize("sd", [0.0, 0.3, 2.0, 30.0])
@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(6)])
def test_one_discrete_noise_beside_a_normal_is_half_a_step_farther_out_at_most(scale, sd):
    """By sums over the lattice; with one and a half steps margins at ε = 1 were 3 % too wide."""
    laws, c = [DiscreteLaplace(scale)], np.array([0.7])
    variance, scales, slack = _tails.split_noise(laws, c)
    assert 0 <= slack <= 0.35
    x = np.linspace(slack + 1e-6, 8 * (sd + float(scale)), 300)
    x = np.sort([*x, *(0.7 * np.arange(1, 30) - 1e-9)])
    stated = _tails.mixed_tail(x - slack, np.full(x.shape, sd), np.tile(scales, (x.size, 1)))
    exact = _exact(laws, c, sd, x)
    assert not variance
    assert (stated >= exact - 2e-6).all()
    if sd == 0:  # and at the lattice's own points it is no less
        at = 0.7 * np.arange(1, 8) - 1e-9
        found = _tails.mixed_tail(at - slack, np.zeros(7), np.tile(scales, (7, 1)))
        assert found == pytest.approx(_exact(laws, c, 0.0, at), rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("sd", [0.0, 0.4, 5.0])
def test_two_discrete_noises_beside_a_normal_hold(sd):
    laws, c = [DiscreteLaplace(Fraction(1)), DiscreteLaplace(Fraction(3, 2))], np.array([1.0, -0.6])
    _, scales, slack = _tails.split_noise(laws, c)
    assert 0.8 <= slack <= 1.6
    x = np.linspace(slack, 20 + 6 * sd, 200)
    stated = _tails.mixed_tail(x - slack, np.full(x.shape, sd), np.tile(scales, (x.size, 1)))
    assert (stated >= _exact(laws, c, sd, x) - 2e-6).all()
