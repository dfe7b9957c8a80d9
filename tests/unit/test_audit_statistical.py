"""The auditor itself: bounds by enumeration, false alarms, and power."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet import audit, noise
from discreet.errors import ParameterError


@pytest.mark.parametrize(("hits", "draws"), [(0, 10), (3, 10), (10, 10), (57, 1000)])
def test_clopper_pearson_inverts_the_binomial(hits, draws):
    low, high = audit.clopper_pearson(hits, draws, 0.01)

    def tail(p, ks):
        return sum(math.comb(draws, k) * p**k * (1 - p) ** (draws - k) for k in ks)

    if hits:
        assert tail(low, range(hits, draws + 1)) == pytest.approx(0.01, rel=1e-8)
    else:
        assert low == 0
    if hits < draws:
        assert tail(high, range(hits + 1)) == pytest.approx(0.01, rel=1e-8)
    else:
        assert high == 1


def test_false_alarms_are_as_rare_as_promised():
    # an exactly ε-DP mechanism at confidence 90 %, 300 audits: at most 10 % + six sigma
    law = noise.DiscreteLaplace(1)
    alarms = [
        audit.epsilon_lower_bound(
            law.sample, lambda n: 1 + law.sample(n), draws=1000, confidence="0.9"
        ).refutes(1)
        for _ in range(300)
    ]
    assert np.mean(alarms) < 0.1 + 6 * math.sqrt(0.09 / 300)


def test_power_at_ten_percent_excess():
    law = noise.DiscreteLaplace("0.9")
    verdict = audit.epsilon_lower_bound(
        law.sample, lambda n: 1 + law.sample(n), draws=400_000, confidence="0.9999999999"
    )
    assert verdict.refutes(1)
    assert verdict.epsilon < 1 / 0.9


def test_both_directions_are_searched():
    # only y can output 2: the leak is visible from y against x alone
    verdict = audit.epsilon_lower_bound(
        lambda n: np.arange(n) % 2, lambda n: np.arange(n) % 3, draws=10_000
    )
    assert verdict.refutes(3)


def test_vector_outputs():
    law = noise.DiscreteLaplace(1)

    def draw(shift):
        return lambda n: np.column_stack([law.sample(n) * 0, (law.sample(n) + shift).clip(-3, 3)])

    verdict = audit.epsilon_lower_bound(draw(0), draw(2), draws=40_000, confidence="0.9999999999")
    assert verdict.refutes(1)
    assert not verdict.refutes(2)


def test_delta_is_allowed_for():
    # reveals everything once in twenty times
    def leak(value):
        return lambda n: np.where(noise.uniform_below(20, n) == 0, value, 0)

    verdict = audit.epsilon_lower_bound(leak(1), leak(2), draws=40_000, delta="0.06")
    assert verdict.epsilon == 0
    assert audit.epsilon_lower_bound(leak(1), leak(2), draws=40_000).refutes(3)


@pytest.mark.parametrize(
    "options", [{"draws": 10}, {"delta": 1}, {"delta": -0.1}, {"confidence": 1}]
)
def test_bad_audits_are_refused(options):
    with pytest.raises(ParameterError):
        audit.epsilon_lower_bound(np.zeros, np.zeros, **options)


def test_a_sampler_must_return_what_was_asked():
    with pytest.raises(ParameterError, match="n outputs"):
        audit.epsilon_lower_bound(lambda n: np.zeros(n // 2), np.zeros)
