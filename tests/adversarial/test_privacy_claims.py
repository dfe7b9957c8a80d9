"""Attempts to make the accountant say something false."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import privacy as p
from discreet.errors import DiscreetError

losses = st.one_of(
    st.fractions(Fraction(1, 50), 2, max_denominator=97).map(p.Pure),
    st.fractions(Fraction(1, 50), 2, max_denominator=97).map(p.Laplace),
    st.tuples(st.integers(1, 20), st.integers(1, 6)).map(lambda t: p.DiscreteLaplace(*t)),
    st.fractions(Fraction(1, 20), 1, max_denominator=97).map(p.Gaussian),
    st.fractions(Fraction(1, 50), 1, max_denominator=97).map(lambda e: p.Approx(e, "1e-7")),
    st.fractions(Fraction(1, 50), 1, max_denominator=97).map(p.BoundedRange),
)


def simulated_profile(parts, eps, draws=400_000):
    """Monte-Carlo δ(ε) of the true worst pairs, and its standard error."""
    rng = np.random.default_rng(3)
    total = np.zeros(draws)
    for loss in parts:
        u = rng.random(draws)
        match loss:
            case p.Pure():
                e = float(loss.eps0)
                total += np.where(u < 1 / (1 + math.exp(-e)), e, -e)
            case p.Laplace():
                e = float(loss.eps0)
                x = rng.laplace(0, 1 / e, draws)
                total += e * (np.abs(x - 1) - np.abs(x))
            case p.Gaussian():
                mu = loss.mu
                total += mu * (rng.standard_normal(draws) + mu / 2)
            case p.DiscreteLaplace():
                s, m = float(loss.scale), loss.sensitivity
                a, b = (rng.geometric(-math.expm1(-1 / s), draws) for _ in range(2))
                x = a - b
                total += (np.abs(x - m) - np.abs(x)) / s
            case _:
                return None
    terms = np.maximum(-np.expm1(eps - total), 0)
    return terms.mean(), terms.std() / math.sqrt(draws)


@settings(max_examples=12, deadline=None)
@given(
    parts=st.lists(losses, min_size=2, max_size=6),
    delta=st.sampled_from([0.3, 0.05, 0.01]),
)
def test_simulated_attacks_never_beat_the_composed_bound(parts, delta):
    """False alarm: a deviation of seven standard errors, below 1e-11 per example."""
    eps = p.compose(parts).epsilon(delta)
    if not math.isfinite(eps):
        return
    seen = simulated_profile(parts, eps)
    if seen is not None:
        assert seen[0] - 7 * seen[1] - 2e-5 <= delta


@settings(max_examples=25, deadline=None)
@given(
    parts=st.lists(losses, min_size=1, max_size=5),
    extra=losses,
    delta=st.sampled_from([1e-6, 1e-3]),
)
def test_one_more_loss_never_costs_less(parts, extra, delta):
    before = p.compose(parts).epsilon(delta)
    after = p.compose([*parts, extra]).epsilon(delta)
    assert after >= before * (1 - 1e-6) - 1e-9


@settings(max_examples=25, deadline=None)
@given(parts=st.lists(losses, min_size=2, max_size=5), seed=st.integers(0, 99))
def test_order_carries_nothing(parts, seed):
    shuffled = list(parts)
    np.random.default_rng(seed).shuffle(shuffled)
    a, b = p.compose(parts).epsilon(1e-5), p.compose(shuffled).epsilon(1e-5)
    assert a == pytest.approx(b, rel=1e-9)


def test_mutant_half_the_composition_is_caught():
    """The simulation above does reject a bound that forgets half of the losses."""
    parts = [p.Laplace("0.5")] * 6
    eps = p.compose(parts[:3]).epsilon(0.01)
    mean, error = simulated_profile(parts, eps)
    assert mean - 7 * error - 2e-5 > 0.01


def test_float_spellings_of_a_budget_are_what_was_typed():
    assert p.Pure(0.1) == p.Pure("0.1") == p.Pure(Fraction(1, 10))
    assert p.compose([p.Pure(0.1)] * 3).epsilon() == 0.3  # not 0.30000000000000004


@pytest.mark.parametrize("value", [math.nan, math.inf, -1, 0, 1e-320, "nan", "inf", b"1", [1]])
def test_absurd_epsilons_are_refused_everywhere(value):
    for call in (p.Pure, p.Laplace, p.BoundedRange, p.BasicFilter, lambda x: p.Approx(x, "1e-6")):
        if call.__name__ in ("<lambda>", "Pure") and value == 0:
            continue  # (0, δ) is total variation and ε = 0 perfect privacy: meaningful promises
        with pytest.raises(DiscreetError):
            call(value)


def test_extreme_but_legal_parameters_do_not_break_the_bounds():
    assert p.Pure(1000).delta(1) == 1.0
    assert p.Gaussian(1000).epsilon(1e-6) == pytest.approx(500_000 + 4.75 * 1000, rel=1e-3)
    assert p.Gaussian("1e-9").epsilon(1e-12) < 1e-7
    assert p.Zcdp(10**6).epsilon(1e-6) > 10**6
    both = p.compose([p.Pure(50), p.Gaussian(30)]).epsilon(1e-6)
    assert both <= (50 + p.Gaussian(30).epsilon(1e-6)) * (1 + 1e-6)
    assert p.compose([p.Pure("1e-6")] * 100).epsilon(1e-9) <= 1e-4
    assert p.compose([p.Gaussian("1e-4"), p.Laplace("1e-3")]).epsilon(1e-6) < 2e-3
    assert p.DiscreteLaplace("0.001", 1).delta(1) == 1.0


def test_tiny_and_huge_losses_share_a_grid_soundly():
    together = p.compose([p.Laplace(5), p.Laplace("0.001")]).epsilon(1e-3)
    assert p.Laplace(5).epsilon(1e-3) - 1e-9 <= together <= 5.001
