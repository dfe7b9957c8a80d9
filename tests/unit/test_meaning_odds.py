"""Odds, tables and ε from a tolerance: the documents' figures, and the theorems by brute force."""

from __future__ import annotations

import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import meaning
from discreet import privacy as p
from discreet.errors import NotProvedError, ParameterError, RelationError

PRIORS = ["1e-9", "1.1", 2, 4, 8, 16]
EPSILONS = ["0.01", "0.1", 1, 2, 4, 8, 16]


def test_risk_table_of_the_tutorial():
    table = meaning.risk_table(PRIORS, EPSILONS)
    assert table.shape == (6, 7)
    expected = [1.1222, 1.3435, 8.128, 60.06, 3279, 9.775e6, 8.686e13]
    np.testing.assert_allclose(table[1], expected, rtol=2e-4)
    exact = np.outer([float(x) for x in PRIORS], np.exp(2 * np.array([float(e) for e in EPSILONS])))
    np.testing.assert_allclose(np.asarray(table), exact, rtol=1e-12)
    assert len(table) == len(list(table)) == 6
    assert "ε=0.01" in repr(table)


def test_erratum_last_columns_of_the_printed_risk_table_have_wrong_powers_of_ten():
    """Ashmead, Leclerc & Sexton, Figure 3.3.1: printed 10e7 … 10e16 for ε = 8 and 16."""
    printed = {
        8: [0.009, 10e7, 10e8, 10e8, 10e8, 10e9],
        16: [80000, 10e14, 10e15, 10e15, 10e15, 10e16],
    }
    table = np.asarray(meaning.risk_table(PRIORS, [8, 16])).T
    for (_, column), right in zip(printed.items(), table, strict=True):
        assert column[0] == pytest.approx(right[0], rel=0.02)  # this row is right
        ratio = np.array(column[1:]) / right[1:]
        assert (ratio > 5).all()  # ten times too large or more: not a matter of rounding


def test_erratum_alice_pays_61_dollars_not_60():
    odds = meaning.odds_bound(prior_odds="1.1", epsilon="0.01")
    assert odds == pytest.approx(1.1222, abs=5e-5)
    assert 500 * (odds - 1) == pytest.approx(61.11, abs=0.005)


def test_bob_accepts_half_log_of_1_25():
    assert meaning.epsilon_for(increase=1.25) == pytest.approx(0.111572, abs=5e-7)


def test_erratum_bob_theorem_applies_directly():
    """The tutorial inverts (1−q)/(1−q′) and concludes that Thm 3.1 does not help Bob.

    With the right fraction it gives q′/q ≤ e^{2ε}/(1 − q + q·e^{2ε}) ≤ e^{2ε} for every q.
    """
    epsilon = meaning.epsilon_for(increase=1.25)
    for q in ("0.0001", "0.02", "0.5", "0.9", "0.999"):
        after = meaning.posterior(q, epsilon).high
        assert after / float(q) <= 1.25
    # the inverted fraction would allow more than a certainty
    q, high = 0.9, meaning.posterior("0.9", epsilon).high
    assert q * 1.25 * (1 - q) / (1 - high) > high


def test_group_of_four_has_four_times_the_exponent():
    assert meaning.odds_bound(1, "0.1", group=4) == pytest.approx(math.exp(0.8))
    assert meaning.epsilon_for(increase=1.25, group=4) == pytest.approx(0.111572 / 4, abs=1e-6)


@pytest.mark.parametrize(
    ("prior", "epsilon", "high"), [("0.01", 1, 0.0695), ("0.5", "0.5", 0.731), ("0.1", 1, 0.451)]
)
def test_odds_form_is_tighter_than_the_usual_probability_form(prior, epsilon, high):
    found = meaning.posterior(prior, epsilon).high
    assert found == pytest.approx(high, abs=5e-4)
    factor, q = math.exp(2 * float(epsilon)), float(prior)
    assert found < min(factor * q, 1 - (1 - q) / factor)


@pytest.mark.parametrize(
    ("epsilon", "one", "half", "half_twice"),
    [
        ("0.1", 1.10, 52.5, 55.0),
        ("0.5", 1.64, 62.2, 73.1),
        (1, 2.67, 73.1, 88.1),
        (2, 6.95, 88.1, 98.2),
        (4, 35.6, 98.2, 99.97),
    ],
)
def test_beliefs_of_the_research_table(epsilon, one, half, half_twice):
    binary = meaning.posterior("0.01", epsilon, against="binary").high
    assert 100 * binary == pytest.approx(one, rel=4e-3)
    assert 100 * meaning.posterior("0.5", epsilon, against="binary").high == pytest.approx(
        half, abs=0.06
    )
    assert 100 * meaning.posterior("0.5", epsilon).high == pytest.approx(half_twice, abs=0.06)


def test_binary_hypothesis_at_log_3():
    low, high = meaning.posterior("0.5", math.log(3), against="binary")
    assert (low, high) == (pytest.approx(0.25), pytest.approx(0.75))


def test_relation_decides_the_exponent_of_the_prior_baseline():
    def factor(relation, against):
        return meaning.odds_bound(1, 1, neighbours=relation, against=against)

    assert factor("add-remove", "prior") == pytest.approx(math.exp(2))
    assert factor("change-one", "prior") == pytest.approx(math.exp(1))
    assert factor("add-remove", "counterfactual") == pytest.approx(math.exp(2))
    assert factor("change-one", "counterfactual") == pytest.approx(math.exp(2))
    labelled = p.Pure(1).under("change-one")
    assert meaning.odds_bound(1, labelled, against="prior") == pytest.approx(math.e)


# -- the theorems, on a small universe ---------------------------------------------------

RECORDS = ("absent", "well", "ill")


def _response(keep: float) -> np.ndarray:
    """Local randomised response of two people with three records each: rows sum to 1."""
    one = np.full((3, 3), (1 - keep) / 3) + keep * np.eye(3)
    return np.einsum("ab,cd->acbd", one, one).reshape(9, 9)


def _odds_ratios(law: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Posterior odds of 'person 1 is ill' against 'well', over those without person 1's data."""
    grid = law.reshape(3, 3, 9)
    prior = prior.reshape(3, 3)
    used = np.einsum("ab,abo->ao", prior, grid)
    unused = np.einsum("ab,bo->ao", prior, grid[0])
    return (used[2] / used[1]) / (unused[2] / unused[1])


def _within_three() -> tuple[np.ndarray, float]:
    """A law whose ratios are at most 3 between any two databases, and its ε."""
    ones = np.array([[0.2, 0.3, 0.1], [0.1, 0.1, 0.1], [0.3, 0.3, 0.3]]).ravel()
    law = np.zeros((9, 9))
    law[:, 0], law[:, 1:] = ones, (1 - ones[:, None]) / 8
    return law, math.log(3)


def test_counterfactual_bound_holds_for_dependent_priors_and_is_attained():
    """Every prior stays within e^{±2ε}, and a dependent one reaches it: 2 is not waste.

    Output 1 has probability 0.1 to 0.3 on every database, so ε = ln 3 under both relations.
    The mutant exponent ε fails this test.
    """
    law, epsilon = _within_three()
    bound = meaning.odds_bound(1, epsilon)
    rng = np.random.default_rng(7)
    worst = 1.0
    for _ in range(400):
        prior = rng.dirichlet(np.full(9, 0.05))
        prior = (prior + 1e-9) / (prior + 1e-9).sum()
        ratios = _odds_ratios(law, prior)
        assert (ratios <= bound * (1 + 1e-9)).all()
        assert (ratios >= (1 - 1e-9) / bound).all()
        worst = max(worst, ratios.max())
    assert worst > math.exp(epsilon) * 1.2
    twins = np.array([0, 0, 0, 0, 0.5, 0, 0, 0, 0.5])
    assert _odds_ratios(law, twins).max() == pytest.approx(bound)


def test_statistical_difference_of_posteriors_is_at_most_tanh_of_half_epsilon():
    """Beliefs with and without a person's data, over all databases: half the L1 distance.

    Every prior drawn must keep the bound, which is a theorem; twins attain it, so that a smaller
    one fails.
    """
    law, epsilon = _within_three()
    without = law.reshape(3, 3, 9)[[0, 0, 0]].reshape(9, 9)

    def difference(prior):
        used, unused = (prior[:, None] * x for x in (law, without))
        return np.abs(used / used.sum(axis=0) - unused / unused.sum(axis=0)).sum(axis=0).max() / 2

    rng = np.random.default_rng(8)
    priors = [*rng.dirichlet(np.full(9, 0.05), 400), np.array([0, 0, 0, 0, 0.5, 0, 0, 0, 0.5])]
    found = [difference(prior + 1e-12) for prior in priors]
    assert max(found) <= math.tanh(epsilon / 2) * (1 + 1e-9)
    assert found[-1] == pytest.approx(math.tanh(epsilon / 2))


def test_counterfactual_factor_two_is_attained_under_add_remove():
    """Two-sided geometric noise on a count: 'ill' adds one, the mechanism counts ill − well."""
    k = np.arange(-200, 201)
    epsilon = 0.7

    def law(count):
        return np.exp(-epsilon * np.abs(k - count))

    # one unit moves the answer by at most 1; 'ill' and 'well' are two steps apart
    ratio = (law(1) / law(-1)).max()
    assert ratio == pytest.approx(meaning.odds_bound(1, epsilon), rel=1e-9)


def test_prior_baseline_fails_for_dependent_records_and_holds_for_independent_ones():
    law = _response(0.4)
    epsilon = math.log(3)
    grid = law.reshape(3, 3, 9)

    def learnt(prior):
        prior = prior.reshape(3, 3)
        used = np.einsum("ab,abo->ao", prior, grid)
        before = prior.sum(axis=1)
        return ((used[2] / used[1]) / (before[2] / before[1])).max()

    factor = meaning.odds_bound(1, epsilon, neighbours="change-one", against="prior")
    independent = np.outer([0.2, 0.5, 0.3], [0.1, 0.8, 0.1]).ravel()
    assert learnt(independent) <= factor * (1 + 1e-9)
    twins = np.array([0.0, 0, 0, 0, 0.5, 0, 0, 0, 0.5]) + 1e-6
    assert learnt(twins / twins.sum()) > factor * 2


@given(
    st.fractions(Fraction(1, 1000), Fraction(999, 1000)),
    st.fractions(Fraction(1, 100), 5),
    st.integers(1, 5),
)
def test_posterior_contains_the_prior_and_widens(prior, epsilon, group):
    low, high = meaning.posterior(prior, epsilon, group)
    wider = meaning.posterior(prior, epsilon, group + 1)
    assert 0 <= wider.low <= low < prior < high <= wider.high <= 1


@given(st.fractions(Fraction(1, 1000), Fraction(499, 1000)), st.fractions(Fraction(1, 1000), 1))
def test_chosen_epsilon_keeps_its_promise(prior, share):
    ceiling = prior + share * (Fraction(499, 500) - prior)
    epsilon = meaning.epsilon_for(prior=prior, ceiling=ceiling)
    assert meaning.posterior(prior, epsilon).high <= float(ceiling) * (1 + 1e-12)
    more = Fraction(float(epsilon)) * Fraction(1001, 1000)
    assert meaning.posterior(prior, more).high > float(ceiling)


@pytest.mark.parametrize("advantage", ["0.01", "0.2", "0.9"])
def test_epsilon_for_an_advantage_inverts_the_attack(advantage):
    epsilon = meaning.epsilon_for(advantage=advantage)
    assert meaning.attacker(epsilon).advantage == pytest.approx(float(advantage))


@pytest.mark.parametrize(("tpr", "fpr"), [("0.1", "0.05"), ("0.9", "0.05"), ("0.99", "0.9")])
def test_epsilon_for_rates_inverts_the_attack(tpr, fpr):
    epsilon = meaning.epsilon_for(tpr=tpr, fpr=fpr)
    assert meaning.attacker(epsilon).tpr(float(fpr)) == pytest.approx(float(tpr), rel=1e-6)


def test_chosen_epsilon_is_a_number_that_states_its_assumption():
    epsilon = meaning.epsilon_for(prior="0.02", ceiling="0.05")
    assert isinstance(epsilon, float)
    assert "without one person's data" in repr(epsilon)
    assert float(str(epsilon)) == epsilon  # it can be used as epsilon= anywhere
    assert p.Pure(epsilon).epsilon() == pytest.approx(float(epsilon))
    twin = pickle.loads(pickle.dumps(epsilon))
    assert (twin, twin.assumption) == (epsilon, epsilon.assumption)


def test_lee_clifton_worlds_are_the_binary_form_from_one_in_m():
    for m, e in itertools.product((2, 10, 1000), (0.1, 1.0, 3.0)):
        found = meaning.posterior(Fraction(1, m), e, against="binary").high
        assert found == pytest.approx(1 / (1 + (m - 1) * math.exp(-e)))


# -- secrecy of the sample -----------------------------------------------------------------


def test_secret_sample_of_the_tutorial():
    sample = meaning.secret_sample(1, "0.05")
    assert sample.epsilon == pytest.approx(0.082422, abs=5e-7)
    assert sample.loss.neighbours is p.Neighbours.CHANGE_ONE
    assert "nobody learns who was sampled" in repr(sample)
    assert meaning.secret_sample(1, "0.05", design="poisson").epsilon == pytest.approx(
        sample.epsilon
    )


def test_secret_sample_keeps_a_share_of_delta():
    sample = meaning.secret_sample(1, "0.1", "1e-6")
    assert sample.delta == pytest.approx(1e-7)
    assert sample.epsilon == pytest.approx(math.log1p(0.1 * math.expm1(1)))


@pytest.mark.parametrize(("rate", "epsilon"), [("0.1", 2.90048), ("0.01", 5.15230)])
def test_epsilon_in_the_sample_for_one_in_the_population(rate, epsilon):
    found = meaning.epsilon_for(population=1, rate=rate)
    assert found == pytest.approx(epsilon, abs=5e-6)
    assert meaning.secret_sample(found, rate).epsilon <= 1


@pytest.mark.parametrize("design", ["cluster", "stratified", "", None])
def test_other_sampling_designs_are_refused(design):
    with pytest.raises(NotProvedError, match="no gain is proved"):
        meaning.secret_sample(1, "0.05", design=design)


# -- bad input -----------------------------------------------------------------------------


def test_losses_with_a_failure_probability_have_no_odds():
    for loss in (p.Approx(1, "1e-6"), p.Gaussian(1), p.Zcdp("0.1")):
        with pytest.raises(NotProvedError, match="no bound on odds holds for every output"):
            meaning.odds_bound(1, loss)


def test_contradictory_relation_is_refused():
    with pytest.raises(RelationError):
        meaning.odds_bound(1, p.Pure(1).under("change-one"), neighbours="add-remove")


@pytest.mark.parametrize(
    "call",
    [
        lambda: meaning.odds_bound(0, 1),
        lambda: meaning.odds_bound(-1, 1),
        lambda: meaning.odds_bound(1, -1),
        lambda: meaning.odds_bound(1, "nan"),
        lambda: meaning.odds_bound(1, math.inf),
        lambda: meaning.odds_bound(1, 1, group=0),
        lambda: meaning.odds_bound(1, 1, group=1.5),
        lambda: meaning.odds_bound(1, 1, group=True),
        lambda: meaning.odds_bound(1, 1, against="nothing"),
        lambda: meaning.odds_bound(1, 1, neighbours="friends"),
        lambda: meaning.posterior(0, 1),
        lambda: meaning.posterior(1, 1),
        lambda: meaning.risk_table([], [1]),
        lambda: meaning.risk_table([1], []),
        meaning.epsilon_for,
        lambda: meaning.epsilon_for(prior="0.1"),
        lambda: meaning.epsilon_for(increase=1),
        lambda: meaning.epsilon_for(increase="0.8"),
        lambda: meaning.epsilon_for(increase=2, advantage="0.1"),
        lambda: meaning.epsilon_for(prior="0.1", ceiling="0.1"),
        lambda: meaning.epsilon_for(tpr="0.01", fpr="0.05"),
        lambda: meaning.epsilon_for(advantage=1),
        lambda: meaning.epsilon_for(population=1, rate=0),
        lambda: meaning.secret_sample(1, 2),
    ],
)
def test_bad_input_is_refused(call):
    with pytest.raises(ParameterError):
        call()


def test_huge_epsilon_gives_no_bound_rather_than_an_overflow():
    assert meaning.odds_bound(1, 10**6) == math.inf
    assert meaning.posterior("0.5", 10**6).high == 1.0
