"""Every worked example and erratum of the source documents that a mechanism must reproduce."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from discreet import mechanisms as m
from discreet import privacy as p

# J Example 2.1, types ordered male then female, married, single, other
TYPES = [(sex, mar) for sex in "MF" for mar in ("married", "single", "other")]
PEOPLE = "F married, M other, F single, F married, F single, F single, M other, M married"
# J Example 2.5: married people, females, married females
B = [[1, 0, 0, 1, 0, 0], [0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 0, 0]]
# J Example 4.1: the six cells, the married, the females
A = np.vstack([np.eye(6, dtype=int), B[:2]])


def data_vector():
    rows = [tuple(person.split()) for person in PEOPLE.split(", ")]
    return np.array([rows.count(t) for t in TYPES])


def test_r1_1_data_vector_and_its_queries():
    x = data_vector()
    assert x.tolist() == [1, 0, 2, 2, 3, 0]
    assert (np.array(B) @ x).tolist() == [3, 5, 2]


@pytest.mark.parametrize(
    ("matrix", "add_remove", "change_one"),
    [(np.eye(6), 1, 2), (B, 3, 3), (A, 3, 4)],
    ids=["identity", "J Ex 2.5", "J Ex 4.1"],
)
def test_r2_2_l1_sensitivities(matrix, add_remove, change_one):
    assert m.sensitivity(matrix, "add-remove") == add_remove
    assert m.sensitivity(matrix, "change-one") == change_one


def test_r2_2_l2_sensitivities():
    assert m.sensitivity(np.eye(6), "add-remove", norm=2) == 1
    assert m.sensitivity(np.eye(6), "change-one", norm=2) == pytest.approx(math.sqrt(2), rel=1e-15)
    assert m.sensitivity(B, "add-remove", norm=2) == pytest.approx(math.sqrt(3), rel=1e-15)
    assert m.sensitivity(B, "add-remove", norm=2) ** 2 >= 3


@pytest.mark.parametrize(("n", "se"), [(25, 0.113137), (100, 0.0282843)])
def test_r2_3_standard_error_of_a_proportion(n, se):
    answer = m.laplace(0.4, Fraction(1, n), "0.5", neighbours="change-one")
    assert math.sqrt(answer.law.variance) * float(answer.step) == pytest.approx(se, rel=1e-5)
    assert answer.loss.neighbours is p.Neighbours.CHANGE_ONE


@pytest.mark.parametrize(("epsilon", "variance"), [(1, 18), (10, 0.18)])
def test_r2_6_erratum_more_epsilon_means_less_variance(epsilon, variance):
    answer = m.laplace([3.0, 5.0, 2.0], 3, epsilon)
    assert answer.law.variance * float(answer.step) ** 2 == pytest.approx(variance, rel=1e-4)


def test_r3_1_laplace_variance_is_two_squared_scales():
    answer = m.laplace(1.5, 2, "0.25")
    assert answer.law.variance * float(answer.step) ** 2 == pytest.approx(2 * 8**2, rel=1e-5)


@pytest.mark.parametrize(("sensitivity", "epsilon"), [(1, 1), (3, "0.5"), (1, "0.1")])
def test_r3_2_geometric_law(sensitivity, epsilon):
    law = m.geometric(7, sensitivity, epsilon).law
    q = 1 - math.exp(-float(Fraction(epsilon)) / sensitivity)
    k = np.arange(-30, 31)
    np.testing.assert_allclose(law.pmf(k), q / (2 - q) * (1 - q) ** np.abs(k), rtol=1e-12)
    assert law.variance == pytest.approx(2 * (1 - q) / q**2, rel=1e-12)


def test_r3_2_thirds_are_quantised_before_the_noise():
    # refusing them would tell: statistics.mean returns an int for some data and not for others
    for third in (1 / 3, Fraction(1, 3), Fraction(2, 3)):
        answer = m.geometric(third, 1, 1)
        assert type(answer.value) is int
        assert answer.law == m.geometric(0, 1, 1).law


def test_r3_2_thirds_can_be_quantised_instead():
    answer = m.laplace(1 / 3, Fraction(1, 3), 1, step="0.125")
    assert (answer.value / 0.125).is_integer()
    assert answer.law.scale == 3  # ⌈(1/3)/(1/8)⌉ steps


def test_r3_3_erratum_analytic_sigma_not_the_textbook_ones():
    answer = m.gaussian(0.5, 1, 1, "1e-5")
    sigma = answer.law.sigma * float(answer.step)
    assert sigma == pytest.approx(3.730632, abs=2e-5)
    assert answer.loss.delta(1) <= 1e-5


def test_r3_3_large_epsilon_keeps_its_delta():
    answer = m.gaussian(0.5, 1, 20, "1e-6")
    assert answer.law.sigma * float(answer.step) >= 0.3090
    assert answer.loss.delta(20) <= 1e-6
    textbook = math.sqrt(2 * math.log(1.25e6)) / 20
    assert p.Gaussian(1 / textbook).delta(20) > 1e-4  # what the √(2 ln(1.25/δ)) rule gives


@pytest.mark.parametrize("epsilon", ["0.1", "1", "10"])
@pytest.mark.parametrize("delta", ["1e-5", "1e-9"])
@pytest.mark.parametrize("value", [3, 3.5, [1, 2, 3], [1.5, 2.5]])
def test_r3_3_the_discrete_law_drawn_is_certified(value, epsilon, delta):
    answer = m.gaussian(value, 1, epsilon, delta)
    assert answer.loss.delta(epsilon) <= float(delta)
    assert answer.loss.sigma2 == answer.law.sigma2


@pytest.mark.parametrize(
    ("epsilon", "expected"),
    [
        (0, [0.25, 0.25, 0.25, 0.25]),
        ("0.1", [0.32707, 0.14696, 0.39948, 0.12649]),
        (1, [0.119197, 3.99862e-5, 0.880754, 8.92212e-6]),
    ],
)
def test_r3_4_medical_table(epsilon, expected):
    probabilities = m.Exponential(1, epsilon).probabilities([24, 8, 28, 5])
    np.testing.assert_allclose(probabilities, expected, rtol=3e-5)


@pytest.mark.parametrize(("truth", "epsilon"), [("0.5", 1.098612), ("0.75", 1.945910)])
def test_r3_6_epsilon_of_randomized_response(truth, epsilon):
    loss = m.RandomizedResponse(p=truth).loss
    assert loss.epsilon() == pytest.approx(epsilon, abs=1e-6)
    exact = 1 + 2 * Fraction(truth) / (1 - Fraction(truth))
    assert math.exp(loss.epsilon()) >= float(exact)


@pytest.mark.parametrize("truth", ["0.5", "0.75"])
@pytest.mark.parametrize("ones", [10, 300, 700])
def test_r3_6_estimator_and_interval(truth, ones):
    n, t = 1000, float(Fraction(truth))
    outputs = np.r_[np.ones(ones, dtype=int), np.zeros(n - ones, dtype=int)]
    found = m.RandomizedResponse(p=truth).estimate(outputs)
    mu = (ones / n - (1 - t) / 2) / t
    v = mu / t - mu**2 + (1 - t) / (2 * t**2) - (1 - t) ** 2 / (4 * t**2) - mu * (1 - t) / t
    assert found.value == pytest.approx(mu, abs=1e-12)
    low, high = found.interval(0.95)
    # erratum: Φ⁻¹(0.975), not Φ
    assert high - low == pytest.approx(2 * 1.959963985 * math.sqrt(v / n), rel=1e-9)


def test_r3_7_food_poll_has_noise_of_scale_one_over_epsilon_and_hides_lone_votes():
    poll = {"pizza": 500, "sushi": 300, "couscous": 200, "only Ann eats this": 1}
    answer = m.threshold_keys(poll, epsilon="0.5", delta="1e-9")
    assert answer.law.scale == 2  # erratum: Lap(1/ε), not Lap(ε)
    assert list(answer.value) == ["couscous", "pizza", "sushi"]
    assert answer.loss.delta("0.5") == pytest.approx(1e-9)


def test_r4_4_vector_query_and_composition_cost_the_same():
    epsilon = Fraction(1, 4)
    one_by_one = [m.laplace(v, 1, epsilon, integer=True) for v in (3, 5)]
    together = m.laplace([3, 5], 2, 2 * epsilon, integer=True)
    assert {a.law for a in one_by_one} == {together.law}
    assert sum(a.loss.epsilon() for a in one_by_one) == together.loss.epsilon()


def test_r4_7_erratum_one_emoji_per_person_costs_epsilon_once():
    counts = [1200, 3400, 2200, 9000]
    once = m.laplace(counts, 1, "0.1", integer=True, neighbours="add-remove")
    assert once.loss.epsilon() == 0.1
    assert once.law.scale == 10
    # four emojis per person: contributions bounded at four, and paid for
    assert m.laplace(counts, 4, "0.1", integer=True).law.scale == 40


def test_r7_1_intervals_of_the_tutorial():
    for epsilon, expected in ((1, (1.697, 6.303)), (10, (3.770, 4.230))):
        answer = m.laplace(4.0, 1, epsilon)
        low, high = answer.interval(0.9)
        reach = float(high - low) / 2
        assert reach == pytest.approx((expected[1] - expected[0]) / 2, abs=6e-4)
