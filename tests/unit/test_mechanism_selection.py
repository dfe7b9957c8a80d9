"""Choosing mechanisms: exactness at extremes, pay for values, nothing private kept."""

from __future__ import annotations

import copy
import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

from discreet import mechanisms as m
from discreet import noise
from discreet import privacy as p
from discreet.errors import BudgetExceededError, PrivacyError
from discreet.mechanisms import _exponential, _orders
from discreet.mechanisms import _sparse_vector as svt


def test_scores_far_apart_and_many_candidates():
    scores = np.r_[0, np.full(99_999, -(10**6))]
    assert m.exponential(scores, 1, 1).value == 0
    assert m.permute_and_flip(scores, 1, 1).value == 0
    assert m.noisy_max(scores, 1, 1).value == 0


def test_no_candidate_has_probability_zero():
    # at ε = 1e-4 a gap of 10⁶ is e^-50: tiny, and far above what a float softmax would lose
    logs = np.log(m.Exponential(1, "1e-4").probabilities([0, -(10**6)]))
    assert logs[1] == pytest.approx(-50)


def test_exponential_frequencies_match_the_table():
    # χ² with 3 degrees of freedom on 10⁵ draws; P(χ² > 60) < 1e-12
    design = m.Exponential(1, "0.1")
    expected = design.probabilities([24, 8, 28, 5]) * 100_000
    drawn = noise.categorical_exp([24, 8, 28, 5], design.temperature, size=100_000)
    observed = np.bincount(np.asarray(drawn), minlength=4)
    assert ((observed - expected) ** 2 / expected).sum() < 60


def test_permute_and_flip_frequencies_match_enumeration():
    # two candidates at gap g: the worse wins only if it comes first and is accepted
    g = np.exp(-0.5 * 3)
    drawn = _exponential.flip(np.array([0, 3]), Fraction(2), 100_000)
    assert np.mean(drawn == 1) == pytest.approx(g / 2, abs=6.5 * np.sqrt(g / 2 / 100_000))


def test_losses():
    assert m.exponential([1, 2], 1, "0.5").loss == p.BoundedRange("0.5")
    assert m.exponential([1, 2], 1, "0.5").loss.rho == Fraction(1, 32)
    assert m.permute_and_flip([1, 2], 1, "0.5").loss == p.Pure("0.5")
    labelled = m.noisy_max([1, 2], 1, "0.5", neighbours="change-one").loss
    assert labelled == p.Pure("0.5").under("change-one")


def test_monotone_scores_need_half_the_noise():
    assert m.Exponential(1, 1, monotone=True).temperature == 1
    assert m.Exponential(1, 1).temperature == 2


@pytest.mark.parametrize("low", [-(2**63), -(2**62), -(2**61), -(2**61) + 1, -1, 0, 2**61])
@pytest.mark.parametrize("high", [-(2**61), 0, 2**61 - 1, 2**61, 2**62, 2**63 - 1])
def test_gaps_of_integers_are_exact_however_far_apart(low, high):
    scores = [low, high, low, max(low, high) - 1]
    gaps = _exponential._gaps(np.array(scores, dtype=np.int64)).tolist()
    assert gaps == [max(scores) - x for x in scores]


def test_float_gaps_are_exact():
    scores = np.array([0.1, 1e17, -0.3, 1e-300])
    top = Fraction(1e17)
    gaps = [Fraction(g) for g in _exponential._gaps(scores).tolist()]
    assert gaps == [top - Fraction(s) for s in scores.tolist()]
    easy = np.array([0.5, 2.0, 1.25])
    assert _exponential._gaps(easy).tolist() == [1.5, 0.0, 0.75]


def test_orders_are_uniform():
    # 6 permutations of 3, χ² with 5 degrees of freedom; P(χ² > 65) < 1e-12
    orders = _orders.random_orders(60_000, 3) @ [9, 3, 1]
    _, counts = np.unique(orders, return_counts=True)
    assert len(counts) == 6
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 65


def test_noisy_max_releases_no_value_unless_paid():
    assert m.noisy_max([1, 900], 1, 1).measured == ()
    paid = m.noisy_max([1, 900], 1, 1, with_value=True)
    assert paid.loss.epsilon() == pytest.approx(2)
    assert abs(paid.measured[0].value - 900) < 100
    assert m.noisy_max([1, 900], 1, 1, with_value="0.25").loss.epsilon() == pytest.approx(1.25)


@pytest.mark.parametrize("mechanism", [m.exponential, m.permute_and_flip, m.noisy_max])
def test_candidates_are_named(mechanism):
    assert mechanism([0, 10**4], 1, 1, candidates=["tea", "coffee"]).value == "coffee"


@pytest.mark.parametrize(
    "select",
    [
        lambda: m.exponential([11, 12], 1, 1),
        lambda: m.permute_and_flip([11, 12], 1, 1),
        lambda: m.noisy_max([11, 12], 1, 1),
        lambda: m.sparse_vector([11, 12], 100, 1, 1),
    ],
)
def test_nothing_private_is_kept(select):
    choice = select()
    parts = [getattr(choice, name) for name in choice.__slots__ if name != "value"]
    assert not any(isinstance(part, np.ndarray | list) for part in parts)
    bound = choice._accuracy
    assert all(not isinstance(arg, np.ndarray | list) for arg in bound.args)


@pytest.mark.parametrize("mechanism", [m.exponential, m.permute_and_flip, m.noisy_max])
def test_accuracy_bound_holds(mechanism):
    # at 90 % over 300 runs; six sigma
    scores = [0, 1, 2, 3, 4, 5, 6, 30]
    short = [30 - scores[mechanism(scores, 1, 1).value] for _ in range(300)]
    bound = mechanism(scores, 1, 1).accuracy(0.9)
    assert np.mean(np.array(short) > bound) < 0.1 + 6 * np.sqrt(0.09 / 300)


# -- sparse vector -------------------------------------------------------------


def test_sparse_vector_finds_the_first_ones_and_stops():
    found = m.sparse_vector([0, 9000, 0, 9000, 9000], 4000, 1, 1, cutoff=2)
    assert found.value == (1, 3)
    assert found.asked == 4
    assert found.loss == p.Pure(1)
    assert m.sparse_vector([0, 0, 0], 9000, 1, 1).asked == 3


def test_sparse_vector_numeric_answers_use_their_share():
    found = m.sparse_vector([0, 9000], 4000, 1, 1, cutoff=2, numeric="0.5")
    (value,) = found.measured
    assert abs(value.value - 9000) < 300
    assert value.loss.epsilon() == 0.25  # half of ε for two answers
    assert found.loss.epsilon() == 1


@pytest.mark.parametrize("cutoff", [1, 3, 10])
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("numeric", [None, "0.3"])
def test_sparse_vector_shares_add_up_exactly(cutoff, monotone, numeric):
    plan = svt._plan(
        5, 2, "0.7", cutoff, monotone=monotone, numeric=numeric, step=1, neighbours=None
    )
    width = cutoff if monotone else 2 * cutoff
    shares = [2 / plan.threshold_law.scale, width * 2 / plan.question_law.scale]
    if plan.value_law is not None:
        shares.append(cutoff * 2 / plan.value_law.scale)
    assert sum(shares) == Fraction(7, 10)
    assert shares[1] / shares[0] == pytest.approx(width ** (2 / 3), rel=1e-4)


def test_interactive_sparse_vector_refuses_after_its_last_answer():
    watch = m.SparseVector(100, 1, 10, cutoff=2)
    assert not watch.ask(-9000)
    assert watch.ask(9000)
    assert watch.ask(9000)
    assert watch.exhausted
    with pytest.raises(BudgetExceededError, match="2 answers"):
        watch.ask(-9000)


@pytest.mark.races
def test_threads_cannot_share_the_last_answer():
    watch = m.SparseVector(0, 1, 10, cutoff=5)

    def ask(_):
        try:
            return bool(watch.ask(10**6))
        except BudgetExceededError:
            return False

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(ask, range(64))) == 5


def test_a_running_sparse_vector_cannot_be_copied():
    watch = m.SparseVector(100, 1, 10)
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(PrivacyError, match="cop"):
            attempt(watch)


def test_threshold_off_the_lattice_is_rounded_up():
    plan = svt._plan("2.5", 1, 1, 1, monotone=False, numeric=None, step=1, neighbours=None)
    assert plan.threshold == 3


@pytest.mark.parametrize(("kind", "size"), [("geometric", 5), ("laplace", 5), ("laplace", 1)])
def test_the_shortfall_is_what_all_noises_may_differ_by(kind, size):
    answer = m.noisy_max([0] * size, 3, "0.5", noise=kind, integer=True)
    law = noise.Geometric(12) if kind == "geometric" else noise.DiscreteLaplace(12)
    bounds = law.interval(0.9 ** (1 / size))
    assert answer.accuracy(0.9) == bounds.high - bounds.low + 1
    finer = m.noisy_max([0] * size, 3, "0.5", noise=kind, step="0.5")
    law = type(law)(24)
    bounds = law.interval(0.9 ** (1 / size))
    assert finer.accuracy(0.9) == (bounds.high - bounds.low + 1) / 2


@pytest.mark.parametrize(
    ("step", "steps"), [("1", 1), ("0.3", 4), ("2", 1), ("0.25", 4), ("0.4", 3)]
)
@pytest.mark.parametrize("monotone", [False, True])
def test_noise_covers_every_step_that_an_answer_may_move(step, steps, monotone):
    """A sensitivity of 1 is up to ⌈1/step⌉ steps of the lattice, wherever it begins."""
    plan = svt._plan(5, 1, 2, 3, monotone=monotone, numeric="0.25", step=step, neighbours=None)
    factor = 3 if monotone else 6
    first, second = steps / plan.threshold_law.scale, factor * steps / plan.question_law.scale
    assert first + second == Fraction(3, 2)
    assert plan.value_law.scale == steps / Fraction(1, 6)
    assert plan.threshold == -(-5 // Fraction(step))
    law = noise.Geometric((1 if monotone else 2) * Fraction(steps))
    bounds = law.interval(math.sqrt(0.5))
    found = m.noisy_max([1, 2], 1, 1, step=step, monotone=monotone)
    assert found.accuracy(0.5) == float((bounds.high - bounds.low + 1) * Fraction(step))


def test_answers_of_a_sparse_vector_are_right_up_to_the_noise_of_all_comparisons():
    plan = svt._plan(5, 1, 2, 3, monotone=True, numeric=None, step="0.5", neighbours=None)
    each = math.sqrt(0.9)
    first = plan.threshold_law.interval(each)
    rest = plan.question_law.interval(each ** (1 / 4))
    assert plan.accuracy(4, 0.9) == (first.high + rest.high + 1) / 2
