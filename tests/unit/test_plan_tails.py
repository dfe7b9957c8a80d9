"""Margins of sums of unlike noises: as near to the least one as they say, never below it."""

from __future__ import annotations

import random
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

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
