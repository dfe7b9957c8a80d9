"""Worked examples with published settings, and the urn behind one of them."""

from __future__ import annotations

import importlib.util
import itertools
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from discreet import release
from discreet.errors import ParameterError
from discreet.release._urn import polya, prior

W = release.Workload
FILE = Path(__file__).parents[2] / "examples" / "publications.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("publications", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_percentiles_of_earnings(example):
    """At ε = 1.5 a cumulative count is off by tens of 2 400: within two bins of 2 500.

    An error of 400 graduates in one prefix sum is more than 20 standard deviations: below 1e-9.
    """
    shown = example.earnings()
    for field, truth in (("nursing", (39_484, 51_585, 67_408)), ("history", (29_040, 38_184))):
        for found, wanted in zip(shown[field], truth, strict=False):
            assert abs(found - wanted) < 5000


def test_origins_of_workers(example):
    """750 draws of 12 origins: a mean distance of 0.2 is out of reach (below 1e-9, by McDiarmid).

    Each draw moves the mean over 12 places by at most 1/9000, its mean is below 0.07:
    exp(−2·0.13²·9000) < 1e-130 for independent draws, and copies change little.
    """
    assert example.commuting() < 0.2


def test_households_from_the_top(example):
    """21 cells with σ² = 10 and 40: 2 000 of 20 000 would be 60 standard deviations."""
    assert example.households() < 2000


def chances(held, alpha, draws):
    """Exact probabilities of all outcomes of an urn."""
    held = [Fraction(h) + alpha for h in held]
    total, found = sum(held), {}
    for y in itertools.product(range(draws + 1), repeat=len(held)):
        if sum(y) == draws:
            p = Fraction(math.factorial(draws), math.prod(map(math.factorial, y)))
            for h, k in zip(held, y, strict=True):
                p *= math.prod([h + i for i in range(k)])
            found[y] = p / math.prod([total + i for i in range(draws)])
    assert sum(found.values()) == 1
    return found


@pytest.mark.parametrize(("epsilon", "draws"), [("8.6", 3), ("1", 4), ("0.3", 2)])
def test_the_urn_keeps_its_promise_exactly(epsilon, draws):
    """All outcomes, all small tables, in exact arithmetic; half the prior is refuted."""
    alpha, bound = prior(draws, Fraction(epsilon)), math.exp(float(epsilon)) * (1 + 1e-12)

    def worst(alpha):
        found = 0.0
        for held in itertools.product(range(3), repeat=3):
            for o in range(3):
                more = list(held)
                more[o] += 1
                one, other = chances(held, alpha, draws), chances(more, alpha, draws)
                ratios = [float(other[y] / one[y]) for y in one]
                found = max(found, *ratios, *(1 / r for r in ratios))
        return found

    assert worst(alpha) <= bound
    assert worst(alpha / 4) > bound


def test_the_urn_draws_from_the_law_it_states():
    """20 000 urns, 10 outcomes; by Hoeffding each is off by 0.03 with probability below 2e-15."""
    held, alpha, runs = np.array([2, 0, 1]), Fraction(1, 2), 20_000
    expected = chances(held.tolist(), alpha, 3)
    seen = dict.fromkeys(expected, 0)
    for _ in range(runs):
        seen[tuple(polya(held, alpha, 3).tolist())] += 1
    for y, p in expected.items():
        assert abs(seen[y] / runs - float(p)) < 0.03
    # an urn without copies put back would be caught
    without = math.comb(3, 1) * 0.55**2 * 0.33
    gaps = [abs(without - float(expected[y])) for y in [(2, 0, 1)]]
    assert max(gaps) > 0.03


@pytest.mark.parametrize(
    ("price", "options", "words"),
    [
        ({"rho": 1}, {"draws": 5}, "pure"),
        ({"epsilon": 1}, {"draws": 0}, "public number"),
        ({"epsilon": 1}, {"draws": [1, 2]}, "public number"),
        ({"epsilon": 1}, {"draws": 10**9}, "at most"),
    ],
)
def test_urns_that_cannot_be_are_refused(price, options, words):
    with pytest.raises(ParameterError, match=words):
        release.plan(W.kron(W.identity(3), W.identity(4)), method="urn", **price, **options)
