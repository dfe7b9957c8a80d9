"""Key selection: δ by enumeration, ≥ against >, order, intervals given release."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from discreet import mechanisms as m
from discreet import noise
from discreet import privacy as p
from discreet.errors import ParameterError


def exact_delta(design, groups, reach):
    """Probability that one of `groups` keys of the largest new count is released, by mpmath."""
    with mpmath.workdps(40):
        need = design.threshold - reach
        law = design.law
        if hasattr(law, "scale"):
            r = mpmath.exp(-1 / mpmath.mpf(law.scale.numerator) * law.scale.denominator)
            q = r**need / (1 + r)
        else:
            s2 = mpmath.mpf(law.sigma2.numerator) / law.sigma2.denominator
            weight = [mpmath.exp(-(mpmath.mpf(k) ** 2) / 2 / s2) for k in range(2000)]
            q = sum(weight[need:]) / (2 * sum(weight) - 1)
        return 1 - (1 - q) ** groups


@pytest.mark.parametrize("groups", [1, 3, 20])
@pytest.mark.parametrize("sensitivity", [1, 4])
@pytest.mark.parametrize("min_count", [1, 10])
@pytest.mark.parametrize("relation", ["add-remove", "change-one"])
def test_laplace_threshold_is_the_least_that_delta_allows(groups, sensitivity, min_count, relation):
    design = m.KeyThreshold.design(
        1,
        "1e-6",
        max_groups=groups,
        sensitivity=sensitivity,
        min_count=min_count,
        neighbours=relation,
    )
    reach = min_count - 1 + sensitivity
    touched = groups * (2 if relation == "change-one" else 1)
    assert design.law.scale == touched * sensitivity
    assert exact_delta(design, groups, reach) <= 1e-6
    lower = m.KeyThreshold.design(
        1,
        threshold=design.threshold - 1,
        max_groups=groups,
        sensitivity=sensitivity,
        min_count=min_count,
        neighbours=relation,
    )
    assert exact_delta(lower, groups, reach) > 1e-6
    # the δ computed for a given threshold is the enumerated one, rounded up
    assert float(exact_delta(lower, groups, reach)) <= lower.delta
    assert float(lower.delta) == pytest.approx(float(exact_delta(lower, groups, reach)), rel=1e-8)


@pytest.mark.parametrize("groups", [1, 8])
def test_gaussian_threshold_uses_half_of_delta(groups):
    design = m.KeyThreshold.design(1, "1e-6", max_groups=groups, noise="gaussian")
    assert exact_delta(design, groups, 1) <= 0.5e-6
    noise_alone = p.DiscreteGaussian.from_variance(design.law.sigma2, groups, groups)
    assert noise_alone.delta(1) <= 0.5e-6


def test_gaussian_is_better_for_many_groups():
    laplace = m.KeyThreshold.design(1, "1e-6", max_groups=50)
    gaussian = m.KeyThreshold.design(1, "1e-6", max_groups=50, noise="gaussian")
    assert gaussian.threshold < laplace.threshold


def test_at_least_and_more_than_are_told_apart_exactly():
    reached = m.KeyThreshold.design(1, threshold=10)
    exceeded = m.KeyThreshold.design(1, threshold=10, strict=True)
    assert exceeded.threshold == 11
    # the mutant that confuses them is wrong by a factor e^ε in δ
    assert reached.delta / exceeded.delta == pytest.approx(math.e, rel=1e-6)
    assert "> 10" in repr(exceeded.select({}))
    assert "≥ 10" in repr(reached.select({}))


def test_every_released_count_reaches_the_threshold():
    answer = m.threshold_keys(dict.fromkeys(range(3000), 12), 1, "1e-4")
    assert answer.value
    assert len(answer.value) < 3000
    assert min(answer.value.values()) == answer.threshold
    assert answer.step == 1 == math.gcd(*answer.value.values())


def test_order_of_insertion_is_not_visible():
    forward = {f"k{i:03}": 1000 for i in range(50)}
    backward = dict(reversed(forward.items()))
    assert list(m.threshold_keys(forward, 1, "1e-6").value) == sorted(forward)
    assert list(m.threshold_keys(backward, 1, "1e-6").value) == sorted(forward)


def test_keys_without_an_order_come_at_random():
    counts = {("a" if i % 2 else 0, i): 1000 for i in range(40)} | {None: 1000, 3: 1000, "x": 1000}
    orders = {tuple(map(repr, m.threshold_keys(counts, 1, "1e-6").value)) for _ in range(5)}
    assert len(orders) == 5


def test_keys_below_the_public_minimum_never_appear():
    counts = {"below": 49, "above": 400}
    for _ in range(50):
        assert "below" not in m.threshold_keys(counts, 1, "0.5", min_count=50).value


def test_intervals_are_valid_given_release():
    # a key of count 14 released by luck: the naive interval y ± 3 misses far too often
    n, true = 60_000, 14
    answer = m.threshold_keys(dict.fromkeys(range(n), true), 1, "1e-6")
    intervals = answer.interval(0.9)
    held = [i.low <= true <= i.high for i in intervals.values()]
    size = len(held)
    assert size > 5000
    assert np.mean(held) > 0.9 - 6 * math.sqrt(0.09 / size)


def test_interval_of_large_counts_is_the_usual_one():
    answer = m.threshold_keys({"a": 10_000}, 1, "1e-6")
    low, high = answer.interval(0.95)["a"]
    assert high - low <= 8
    assert low <= answer.value["a"] <= high


def test_nothing_to_release():
    assert m.threshold_keys({}, 1, "1e-6").value == {}
    assert m.threshold_keys({"a": 0, "b": -3}, 1, "0.4").value == {}


def test_loss_is_labelled():
    loss = m.threshold_keys({"a": 5}, "0.5", "1e-6").loss
    assert (loss.eps0, loss.delta0) == (Fraction(1, 2), Fraction(1, 10**6))
    assert loss.neighbours == "add-remove"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"delta": "1e-6", "threshold": 10},
        {"threshold": 10, "noise": "gaussian"},
        {"delta": "1e-6", "noise": "uniform"},
        {"delta": "1e-6", "max_groups": 0},
        {"delta": "1e-6", "sensitivity": 1.5},
        {"delta": "1e-6", "neighbours": None},
    ],
)
def test_bad_designs_are_refused(options):
    with pytest.raises(ParameterError):
        m.threshold_keys({"a": 1}, 1, **options)


@pytest.mark.parametrize("neighbours", ["add-remove", "change-one"])
@pytest.mark.parametrize(("groups", "each"), [(1, 1), (1, 4), (3, 1), (2, 5)])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_noise_of_selected_keys_covers_every_count_that_a_unit_moves(
    noise, groups, each, neighbours
):
    made = m.KeyThreshold.design(
        "0.5", "1e-6", max_groups=groups, sensitivity=each, noise=noise, neighbours=neighbours
    )
    touched = groups * (2 if neighbours == "change-one" else 1)
    if noise == "laplace":
        assert made.law.scale == 2 * touched * each
    else:
        loss = p.DiscreteGaussian.from_variance(
            made.law.sigma2, touched * each**2, dimension=touched
        )
        assert 0.45 < loss.epsilon("5e-7") <= 0.5
    # one row below the threshold's reach, the noise of every new key stays below it
    fail = made.law.sf(made.threshold - 1 - each)
    assert groups * fail <= (1e-6 if noise == "laplace" else 5e-7)


@pytest.mark.parametrize(
    ("y", "threshold", "least"), [(9, 9, 1), (9, 9, 40), (3, 2, 2000), (60, 9, 40)]
)
def test_ends_given_release_are_those_of_the_truncated_law(y, threshold, least):
    """By definition, one count after the other: ends of those that the tails do not rule out."""
    law, level = noise.DiscreteLaplace(3), 0.9
    found = m.interval_given_release(y, threshold, law, level, least)

    def ratio(part, whole):
        return part / whole if whole > 0 else 0.0

    counts = range(least, least + 200)
    above = [ratio(law.sf(y - 1 - c), law.sf(threshold - 1 - c)) > 0.05 for c in counts]
    below = [1 - ratio(law.sf(y - c), law.sf(threshold - 1 - c)) > 0.05 for c in counts]
    assert found.low == next(c for c, yes in zip(counts, above, strict=True) if yes)
    assert found.high == max([c for c, yes in zip(counts, below, strict=True) if yes] or [least])
