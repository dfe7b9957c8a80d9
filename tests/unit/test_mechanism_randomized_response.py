"""Randomized response: exact coins, several categories, unbiased estimates."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet import mechanisms as m
from discreet.errors import ParameterError
from discreet.mechanisms import _randomized_response

N = 200_000


def within(observed, expected, n=N):
    """Six and a half sigma: false alarm below 1e-10."""
    return abs(observed - expected) < 6.5 * math.sqrt(max(expected * (1 - expected), 1e-9) / n)


@pytest.mark.parametrize("k", [2, 3, 7])
@pytest.mark.parametrize("epsilon", ["0.5", "2"])
def test_coins_from_epsilon(k, epsilon):
    e = math.exp(float(epsilon))
    replies = m.randomized_response(np.full(N, 1), epsilon=epsilon, categories=k).value
    shares = np.bincount(replies, minlength=k) / N
    assert within(shares[1], e / (e + k - 1))
    assert all(within(share, 1 / (e + k - 1)) for i, share in enumerate(shares) if i != 1)


@pytest.mark.parametrize("k", [2, 4])
def test_coins_from_p(k):
    replies = m.randomized_response(np.zeros(N, dtype=int), p="0.3", categories=k).value
    shares = np.bincount(replies, minlength=k) / N
    assert within(shares[0], 0.3 + 0.7 / k)
    assert all(within(share, 0.7 / k) for share in shares[1:])


def test_epsilon_and_p_describe_the_same_design():
    for k in (2, 5):
        by_epsilon = m.RandomizedResponse(epsilon="1.5", categories=k)
        t = by_epsilon.truth
        assert math.log(1 + k * t / (1 - t)) == pytest.approx(1.5)
        assert by_epsilon.loss.epsilon() == 1.5


def test_estimates_are_unbiased():
    truth = np.r_[np.ones(60_000, dtype=int), np.zeros(140_000, dtype=int)]
    replies = m.randomized_response(truth, epsilon=1)
    found = replies.estimate()
    assert abs(found.value - 0.3) < 6.5 * found.standard_error
    low, high = replies.interval(0.99)
    assert low < found.value < high


def test_estimates_of_several_categories_add_up():
    truth = np.repeat([0, 1, 2], [100, 200, 700])
    replies = m.randomized_response(truth, epsilon=2, categories=3)
    assert sum(replies.estimate(c).value for c in range(3)) == pytest.approx(1)


def test_one_person_may_answer():
    reply = m.randomized_response(1, p="0.5")
    assert reply.value in (0, 1)
    assert reply.loss.neighbours == "change-one"
    assert m.randomized_response(True, epsilon=1).value in (0, 1)


def test_shapes_are_kept():
    assert m.randomized_response(np.zeros((3, 2), dtype=bool), p="0.5").value.shape == (3, 2)


@pytest.mark.parametrize(
    ("answers", "options"),
    [
        ([0, 1], {}),
        ([0, 1], {"p": "0.5", "epsilon": 1}),
        ([0, 1], {"p": 0}),
        ([0, 1], {"p": 1}),
        ([0, 1], {"p": "1.5"}),
        ([0, 1], {"p": "0.5", "categories": 1}),
    ],
)
def test_bad_designs_are_refused(answers, options):
    with pytest.raises(ParameterError):
        m.randomized_response(answers, **options)


def test_whatever_is_no_category_counts_as_the_first():
    # an exception would be an answer that nobody randomised
    odd = [2, -1, 0.5, None, "x", math.inf, math.nan, 10**400, 1.0, True, 1]
    read = _randomized_response._read_answers(odd, 2)
    assert read.flat.tolist() == [0] * 8 + [1, 1, 1]
    assert m.randomized_response(odd, p="0.5").value.shape == (11,)
    assert m.randomized_response([], p="0.5").value.shape == (0,)
