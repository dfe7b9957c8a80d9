"""One release has one p-value and one interval: nothing that reads it tosses anew."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from discreet import inference as inf
from discreet import mechanisms as m
from discreet.noise import DiscreteGaussian, DiscreteLaplace


@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
def test_a_release_of_a_mechanism_has_one_pvalue(alternative):
    release = m.geometric(150, sensitivity=1, epsilon="0.1")
    for each in (release, pickle.loads(pickle.dumps(release))):
        again = inf.ump_test(each, 300, "0.5", alternative=alternative)
        assert again.pvalue == inf.ump_test(release, 300, "0.5", alternative=alternative).pvalue
        first = inf.ump_interval(release, 300, alternative=alternative)
        assert first == inf.ump_interval(each, 300, alternative=alternative)


def test_every_release_tosses_for_itself():
    """Two equal values of two releases have independent uniforms: the test stays exact."""
    releases = [m.geometric(150, sensitivity=1, epsilon=1) for _ in range(50)]
    jitter = {inf.ump_test(r, 300, "0.5").statistic - float(r.value) for r in releases}
    assert len(jitter) == 50
    assert all(-0.5 < j < 0.5 for j in jitter)


@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
@pytest.mark.parametrize("value", [140, 150, 171])
def test_a_number_without_random_bits_has_the_largest_pvalue_of_any_toss(value, alternative):
    law = DiscreteLaplace(5)
    said = {"n": 300, "p0": "0.5", "alternative": alternative}
    count = inf.noisy(value, law=law)
    found = {inf.ump_test(count, **said).pvalue for _ in range(3)}
    tulap = inf.Tulap(math.exp(-1 / 5))
    tossed = [
        inf.ump_test(value + u, tulap=tulap, **said).pvalue for u in np.linspace(-0.5, 0.5, 101)
    ]
    assert len(found) == 1
    assert found.pop() == pytest.approx(max(tossed), abs=1e-12)
    level = {k: v for k, v in said.items() if k != "p0"}
    wide = inf.ump_interval(count, **level)
    for u in (-0.5, 0.0, 0.5):
        one = inf.ump_interval(value + u, tulap=tulap, **level)
        assert wide.low <= one.low + 1e-9
        assert one.high <= wide.high + 1e-9


def test_a_generator_of_ones_own_tosses_anew():
    release = m.geometric(150, sensitivity=1, epsilon=1)
    rng = np.random.default_rng(1)
    assert len({inf.ump_test(release, 300, "0.5", rng=rng).pvalue for _ in range(3)}) == 3


def test_simulated_intervals_of_combined_answers_stay():
    laws = [DiscreteLaplace(3), DiscreteLaplace(5), DiscreteGaussian(7)]
    fit = inf.combine([4, 9, 14], [[1, 0], [0, 1], [1, 1]], laws)
    assert (
        len({inf.combine([4, 9, 14], fit.A, laws).estimate([1, 1]).interval() for _ in "ab"}) == 1
    )
    ends = [fit.intervals(np.eye(2)) for _ in "ab"]
    assert (ends[0].low == ends[1].low).all()
    other = inf.combine([4, 9, 15], fit.A, laws).intervals(np.eye(2))
    assert (other.half_width != ends[0].half_width).any()


def test_bootstrap_intervals_of_one_estimate_stay():
    def model(mean, rng, draws):
        return rng.normal(mean, 2, (draws, 50))

    def mechanism(x, rng):
        return x.mean(axis=1) + rng.laplace(0, 0.1, len(x))

    assert len({inf.parametric_bootstrap(1.0, model, mechanism) for _ in "ab"}) == 1


@pytest.mark.parametrize("test", [inf.rank_test, inf.signed_rank_test])
def test_pvalues_of_ranks_follow_from_the_noisy_statistic(test, monkeypatch):
    """The same release, met twice, has the same p-value: its simulated null tables do not move."""
    x, y = np.arange(20.0), np.arange(20.0) + 3
    release = m.geometric(40, sensitivity=40, epsilon=1, neighbours="change-one")
    monkeypatch.setattr(m, "geometric", lambda *_, **__: release)
    assert len({test(x, y, epsilon=1, draws=199).pvalue for _ in range(3)}) == 1
