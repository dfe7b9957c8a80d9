"""Budgets for adaptive use: exact sums, valid rules, and refusals that help."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
import threading
from fractions import Fraction

import numpy as np
import pytest

from discreet import privacy as p
from discreet.errors import (
    BudgetExceededError,
    NotProvedError,
    ParameterError,
    PrivacyError,
    RelationError,
)
from discreet.privacy._convert import pure_to_rho
from discreet.privacy._filters import _pure_within


def fill(budget, loss):
    n = 0
    while budget.admits(loss):
        budget.spend(loss)
        n += 1
    return n


def test_ten_tenths_fill_one_exactly_and_an_eleventh_crumb_is_refused():
    budget = p.BasicFilter(epsilon=1.0)
    assert fill(budget, p.Pure(0.1)) == 10
    assert budget.spent.size == 1
    assert budget.remaining.size == 0
    with pytest.raises(BudgetExceededError):
        budget.spend(p.Pure("1e-18"))
    assert sum([0.1] * 10) < 1  # a float ledger would let the crumb in


@pytest.mark.parametrize(
    ("loss", "count"),
    [
        (p.Pure("0.05"), 19),
        (p.Pure("0.01"), 487),
        (p.BoundedRange("0.01"), 1948),
        (p.Gaussian("0.01"), 487),
    ],
)
def test_queries_admitted_by_the_concentrated_filter(loss, count):
    assert fill(p.ZcdpFilter.for_target(1, "1e-6"), loss) == count


def test_queries_admitted_by_the_gaussian_filter():
    assert fill(p.GaussianFilter.for_target(1, "1e-6"), p.Gaussian("0.01")) == 560


def test_a_target_filter_keeps_its_target_and_wastes_nothing():
    for eps, delta in ((1, "1e-6"), ("0.1", "1e-9"), (8, "1e-5")):
        budget = p.ZcdpFilter.for_target(eps, delta)
        assert budget.guarantee.epsilon(delta) == pytest.approx(float(Fraction(eps)), rel=1e-9)
        assert budget.guarantee.delta(eps) <= float(Fraction(delta))
        gauss = p.GaussianFilter.for_target(eps, delta)
        assert gauss.guarantee.delta(eps) <= float(Fraction(delta)) * (1 + 1e-12)


def test_delta_set_aside_for_losses_that_carry_one():
    budget = p.ZcdpFilter.for_target(1, "1e-6", approximate="5e-7")
    budget.spend(p.Approx("0.05", "4e-7"))
    assert not budget.admits(p.Approx("0.05", "2e-7"))
    assert budget.admits(p.Approx("0.05", "1e-7"))
    assert budget.guarantee.epsilon("1e-6") <= 1 + 1e-9
    with pytest.raises(ParameterError):
        p.ZcdpFilter.for_target(1, "1e-6", approximate="1e-6")


def test_pure_losses_are_charged_the_tight_rho():
    budget = p.ZcdpFilter(1)
    cost = budget.spend(p.Pure(1))
    assert float(cost.size) == pytest.approx(math.tanh(0.5), rel=1e-12)


def test_refusals_say_what_is_left_and_what_would_fit():
    budget = p.BasicFilter("0.5", "1e-6")
    budget.spend(p.Approx("0.3", "1e-7"))
    with pytest.raises(BudgetExceededError) as caught:
        budget.spend(p.Pure("0.3"))
    assert "ε=0.3" in caught.value.message
    assert "ε=0.2" in caught.value.message
    budget.spend(eval(caught.value.hint))
    assert budget.remaining.size == 0


@pytest.mark.parametrize(
    ("budget", "loss"),
    [
        (p.ZcdpFilter("0.1"), p.Zcdp("0.0666")),
        (p.ZcdpFilter.for_target(1, "1e-6"), p.Pure("0.17")),
        (p.GaussianFilter(Fraction(2, 3)), p.Gaussian("0.6")),
    ],
)
def test_the_hint_really_fits(budget, loss):
    budget.spend(loss)
    with pytest.raises(BudgetExceededError) as caught:
        budget.spend(loss)
    for suggestion in caught.value.hint.split(" or "):
        assert budget.admits(eval(suggestion))


def test_a_refusal_charges_nothing():
    budget = p.BasicFilter(1)
    with pytest.raises(BudgetExceededError):
        budget.spend(p.Pure(2))
    assert budget.spent.size == 0


def test_filters_refuse_losses_they_cannot_price():
    with pytest.raises(ParameterError):
        p.BasicFilter(1).spend(p.Gaussian("0.1"))
    with pytest.raises(NotProvedError):
        p.GaussianFilter(1).spend(p.Pure("0.1"))
    with pytest.raises(NotProvedError):
        p.ZcdpFilter(1).spend(p.Renyi({2: "0.1"}))


def test_filters_refuse_another_relation_or_unit():
    budget = p.BasicFilter(1)
    budget.spend(p.Pure("0.1").under("add-remove", "person"))
    for other in (p.Pure("0.1").under("change-one"), p.Pure("0.1").under(None, "household")):
        with pytest.raises(RelationError):
            budget.spend(other)
    budget.spend(p.Pure("0.1"))
    assert budget.spent.size == Fraction(2, 10)


def test_a_batch_is_charged_as_one_loss():
    batch = p.compose([p.DiscreteLaplace(100, 1)] * 50)
    budget = p.ZcdpFilter.for_target(1, "1e-6")
    assert budget.spend(batch).size == Fraction(batch.rho)


def test_a_filter_cannot_be_copied_into_a_second_budget():
    budget = p.BasicFilter(1)
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(PrivacyError):
            duplicate(budget)


@pytest.mark.races
def test_threads_racing_for_the_last_tenth_share_it_once():
    budget = p.BasicFilter(1)
    budget.spend(p.Pure("0.9"))
    won = []

    def race():
        try:
            budget.spend(p.Pure("0.1"))
            won.append(1)
        except BudgetExceededError:
            pass

    threads = [threading.Thread(target=race) for _ in range(64)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(won) == 1


# -- F14: why path-wise admission is invalid --------------------------------------------


def natural_filter_adversary(second):
    """δ at ε = 1 of: RR(.5); on its likelier outcome RR(second), else a (0, 1e-6) leak."""

    def response(eps):
        yes = math.exp(eps) / (1 + math.exp(eps))
        return np.array([yes, 1 - yes]), np.array([1 - yes, yes])

    first_p, first_q = response(0.5)
    then_p, then_q = response(second)
    leak_p, leak_q = np.array([1e-6, 1 - 1e-6, 0]), np.array([0, 1 - 1e-6, 1e-6])
    joint_p = np.concatenate([first_p[0] * then_p, first_p[1] * leak_p])
    joint_q = np.concatenate([first_q[0] * then_q, first_q[1] * leak_q])
    return np.maximum(joint_p - math.e * joint_q, 0).sum()


def test_admission_by_optimal_composition_along_the_path_is_broken():
    second = "0.5000025809"
    # along each path alone, optimal composition says the budget (1, 1e-6) is kept …
    likely = p.compose([p.Pure("0.5"), p.Pure(second)])
    unlikely = p.compose([p.Pure("0.5"), p.Approx(0, "1e-6")])
    assert likely.delta(1) == pytest.approx(1e-6, rel=1e-4)
    assert unlikely.delta(1) == pytest.approx(1e-6, rel=1e-4)
    # … and the analyst who picks the path by the first answer breaks it
    assert natural_filter_adversary(float(second)) == pytest.approx(1.3775e-6, rel=1e-4)


def test_our_filters_do_not_admit_the_adversary():
    basic = p.BasicFilter(1, "1e-6")
    basic.spend(p.Pure("0.5"))
    assert not basic.admits(p.Pure("0.5000025809"))
    assert not p.ZcdpFilter.for_target(1, "1e-6").admits(p.Pure("0.5"))


@pytest.mark.parametrize("eps", [0.15, 0.3, 0.5])
def test_adaptive_adversary_stays_within_the_concentrated_filter(eps):
    """Exhaustive tree: the analyst doubles or stops depending on each answer."""
    target = Fraction(1, 100)
    budget_rho = float(p.ZcdpFilter.for_target("1.5", target).budget.size)

    def explore(prob_p, prob_q, rho, size):
        cost = p.Pure(Fraction(size).limit_denominator(10**6)).rho
        if rho + cost > budget_rho or size > 1.2:
            yield prob_p, prob_q
            return
        yes = 1 / (1 + math.exp(-size))
        yield from explore(prob_p * yes, prob_q * (1 - yes), rho + cost, size * 1.5)
        yield from explore(prob_p * (1 - yes), prob_q * yes, rho + cost, size)

    leaves = np.array(list(itertools.islice(explore(1.0, 1.0, 0.0, eps), 200_000)))
    assert leaves[:, 0].sum() == pytest.approx(1, abs=1e-9)
    assert np.maximum(leaves[:, 0] - math.exp(1.5) * leaves[:, 1], 0).sum() <= float(target)


# -- odometer ---------------------------------------------------------------------------


def test_odometer_reading_follows_the_mixture_bound_and_never_exceeds_the_sum():
    meter = p.Odometer("1e-6", around="0.02")
    assert meter.epsilon == 0.0
    meter.record(p.Pure("0.01"))
    assert meter.epsilon == 0.01
    for _ in range(999):
        meter.record(p.Pure("0.01"))
    r, g = float(meter.rho), 0.02
    expected = r + 2 * math.sqrt((r + g) * math.log(math.sqrt((r + g) / g) / 1e-6))
    assert meter.epsilon == pytest.approx(expected, rel=1e-9)
    fixed = p.compose([p.Pure("0.01")] * 1000).epsilon(1e-6)
    assert fixed < meter.epsilon < 2 * fixed


def test_odometer_adds_the_deltas_of_its_losses():
    meter = p.Odometer("1e-6")
    meter.record(p.Approx("0.1", "1e-7"))
    assert meter.delta == pytest.approx(1.1e-6)
    assert meter.epsilon == 0.1


def test_odometer_is_valid_at_a_stopping_time():
    """Stop as soon as the loss is near its reading; false alarm < 1e-9.

    2·10⁴ paths, each crosses with probability at most δ = 0.05, so more than
    0.05 + 6·√(0.05·0.95/2·10⁴) ≈ 0.0593 of them has probability below 1e-9.
    A reading that is not time-uniform (the fixed-n bound) is crossed more often.
    """
    rng = np.random.default_rng(11)
    eps, steps, paths, delta = 0.2, 2000, 20_000, 0.05
    yes = 1 / (1 + math.exp(-eps))
    loss = np.zeros(paths)
    alive = np.ones(paths, dtype=bool)
    fooled = np.ones(paths, dtype=bool)
    rho = p.Pure("0.2").rho
    for n in range(1, steps + 1):
        loss += np.where(rng.random(paths) < yes, eps, -eps)
        r = n * rho
        reading = r + 2 * math.sqrt((r + 0.5) * math.log(math.sqrt((r + 0.5) / 0.5) / delta))
        alive &= loss <= min(reading, n * eps)
        naive = r + 2 * math.sqrt(r * math.log(1 / delta)) * 0.67  # ≈ 95 % quantile at one n
        fooled &= loss <= min(naive, n * eps)
    assert 1 - alive.mean() <= 0.0593
    assert 1 - fooled.mean() > 0.12  # the mutant is caught
    meter = p.Odometer(delta, around="0.5")
    for _ in range(50):
        meter.record(p.Pure("0.2"))
    r = 50 * rho
    assert meter.epsilon == pytest.approx(
        r + 2 * math.sqrt((r + 0.5) * math.log(math.sqrt((r + 0.5) / 0.5) / delta)), rel=1e-9
    )


def test_a_refusal_says_what_is_left_of_both():
    spent, cap = p.Amount(Fraction(1), Fraction(1, 8)), p.Amount(Fraction(2), Fraction(1, 2))
    with pytest.raises(BudgetExceededError, match=r"costs ε=3, δ=0.0625; .* has ε=1, δ=0.375 left"):
        p.admit(spent, p.Amount(Fraction(3), Fraction(1, 16)), cap)


def test_a_pure_loss_that_fits_exactly_is_offered_as_it_is():
    rho = Fraction(pure_to_rho(Fraction("0.001")))
    assert _pure_within(rho) == "0.001"
    assert _pure_within(rho * (1 - Fraction(1, 10**9))) == "0.000999999"


@pytest.mark.parametrize(
    ("rule", "given", "size", "delta"),
    [
        ("pure", {"epsilon": "0.7"}, "0.7", 0),
        ("approx", {"epsilon": "0.7", "delta": "1e-6"}, "0.7", "1e-6"),
        ("zcdp", {"rho": "0.1", "delta": "1e-6"}, "0.1", "1e-6"),
        ("zcdp", {"rho": "0.1"}, "0.1", 0),
    ],
)
def test_a_budget_allows_what_it_says(rule, given, size, delta):
    cap = p.Accounting(rule).cap(**given)
    assert (cap.size, cap.delta) == (Fraction(size), Fraction(delta))


@pytest.mark.parametrize(
    ("rule", "more", "kept"),
    [("gaussian", {}, 0), ("zcdp", {}, "5e-7"), ("zcdp", {"aside": "1e-8"}, "1e-8"),
     ("zcdp", {"aside": 0}, 0)],
)  # fmt: skip
@pytest.mark.parametrize("epsilon", ["1e-4", "0.2", "3"])
def test_a_budget_is_the_largest_whose_losses_fit_the_target(rule, more, kept, epsilon):
    rule = p.Accounting(rule)
    cap = rule.cap(epsilon, "1e-6", **more)
    assert cap.delta == Fraction(kept)
    assert rule.guarantee(cap).delta(epsilon) <= 1e-6 * (1 + 1e-12)  # both are rounded up
    wider = p.Amount(cap.size * Fraction(100_001, 100_000), cap.delta)
    assert rule.guarantee(wider).delta(epsilon) > 1e-6
    for wrong in ({}, {"rho": 1, "epsilon": 1}):
        with pytest.raises(ParameterError, match="stated by epsilon, or under zcdp by rho"):
            rule.cap(**wrong)


def test_every_rule_charges_in_its_own_currency():
    loss = p.Gaussian("0.3")
    assert p.Accounting("gaussian").charge(loss) == p.Amount(Fraction(9, 100))
    assert p.Accounting("zcdp").charge(loss) == p.Amount(Fraction(9, 200))
    assert p.Accounting("approx").charge(p.Approx("0.1", "1e-9")) == p.Amount(
        Fraction(1, 10), Fraction(1, 10**9)
    )
    assert p.Accounting("pure").charge(p.Pure("0.1")) == p.Amount(Fraction(1, 10))
    assert p.Accounting("gaussian").guarantee(p.Amount(Fraction(9, 100))) == loss
