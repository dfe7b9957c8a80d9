"""The time of a draw says nothing about its value (Jin et al., 2022).

For each law and scale, 10⁴ single draws are timed and |Spearman(|x|, time)| must
stay below 0.05. Under independence it exceeds that with probability 6e-7 at
each of 8 tries. The clock counts the time that this thread computes: what a busy machine
does in between is no part of it and would only hide a leak. Two repetitions are allowed, so a
test fails by chance with probability below 1e-17; the clock is not ours, so 1e-11 is stated.
"""

from __future__ import annotations

import gc
import time

import numpy as np
import pytest
from scipy import stats

from discreet.noise import DiscreteGaussian, DiscreteLaplace, bernoulli_exp

DRAWS = 10_000


def correlation(draw, draws=DRAWS):
    """Return Spearman's correlation of |x| and the time to draw x."""
    values, times = np.empty(draws), np.empty(draws)
    for _ in range(200):
        draw()
    gc.collect()
    gc.disable()
    try:
        for i in range(draws):
            start = time.thread_time_ns()
            x = draw()
            times[i] = time.thread_time_ns() - start
            values[i] = abs(x)
    finally:
        gc.enable()
    # slow drifts of a shared machine are common to neighbours in time
    trend = np.convolve(times, np.ones(101) / 101, mode="same")
    return float(stats.spearmanr(values, times - trend).statistic)


@pytest.mark.races
@pytest.mark.fresh(1e-11)
@pytest.mark.parametrize("scale", ["1", "10", "1e3", "1e6"])
@pytest.mark.parametrize("kind", [DiscreteLaplace, DiscreteGaussian])
def test_time_does_not_tell_the_value(kind, scale):
    law = kind(scale)
    assert any(abs(correlation(lambda: law.sample(1)[0])) < 0.05 for _ in range(3))


@pytest.mark.races
def test_the_test_sees_a_leaking_sampler():
    """A textbook sampler that counts trials until failure is caught at once."""

    def leaking():
        x = 0
        while bernoulli_exp("0.3"):
            x += 1
        return x

    # 0.82 at the least in measurements at a load of seven busy processes per core
    assert correlation(leaking, draws=1000) > 0.5
