"""Shuffling and secret samples: exact values, soundness against brute force, composition."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from discreet import local
from discreet import privacy as p
from discreet.errors import NotProvedError, ParameterError, RelationError
from discreet.local import _amplification as amplification
from discreet.local import _intervals


@pytest.mark.parametrize(
    ("n", "eps0", "delta", "epsilon"),
    [
        (10**4, 1, "1e-6", 0.053005),
        (10**5, 1, "1e-6", 0.015282),
        (10**5, 4, "1e-6", 0.169770),
        (10**6, 2, "1e-8", 0.017559),
    ],
)
def test_four_reference_values_of_the_clones(n, eps0, delta, epsilon):
    assert local.shuffle(eps0, n).epsilon(delta) == pytest.approx(epsilon, abs=6e-7)


def closed_form(n, eps0, delta):
    e = math.exp(eps0)
    inner = 8 * math.sqrt(e * math.log(4 / delta) / n) + 8 * e / n
    return math.log1p((e - 1) / (e + 1) * inner)


@pytest.mark.parametrize(
    ("n", "eps0", "delta", "loose"),
    [(10**4, 1, 1e-6, 0.2140), (10**5, 1, 1e-6, 0.0726), (10**5, 4, 1e-6, 0.5346)],
)
def test_the_closed_form_is_three_to_five_times_looser(n, eps0, delta, loose):
    assert closed_form(n, eps0, delta) == pytest.approx(loose, abs=5e-5)
    assert 3 < loose / local.shuffle(eps0, n).epsilon(delta) < 5


def brute_force(n, eps0, eps):
    """δ from the full joint law of both entries."""
    w = math.exp(eps0) / (1 + math.exp(eps0))
    P, Q = defaultdict(float), defaultdict(float)
    for c in range(n):
        outer = stats.binom.pmf(c, n - 1, math.exp(-eps0))
        for a in range(c + 1):
            mass = outer * stats.binom.pmf(a, c, 0.5)
            P[a + 1, c - a] += mass * w
            P[a, c - a + 1] += mass * (1 - w)
            Q[a, c - a + 1] += mass * w
            Q[a + 1, c - a] += mass * (1 - w)
    return sum(max(0.0, P[k] - math.exp(eps) * Q[k]) for k in P)


@pytest.mark.parametrize(
    ("n", "eps0", "eps"), [(20, 1, 0.3), (50, 2, 0.5), (80, 0.5, 0.1), (80, 3, 1.0), (2, 1, 0.2)]
)
def test_delta_is_that_of_the_full_joint_law(n, eps0, eps):
    exact = brute_force(n, eps0, eps)
    ours = local.shuffle(eps0, n).delta(eps)
    assert exact <= ours <= exact * (1 + 1e-6) + 1e-12


def test_a_wrong_threshold_understates_and_the_maximum_repairs_it():
    n, eps0, eps = 50, 2.0, 0.5
    best = local.shuffle(eps0, n).delta(eps)
    w = 1 / (1 + math.exp(-eps0))
    C, mass = amplification._clones(n, eps0)
    lift = w - math.exp(eps) * (1 - w)
    x = (math.exp(eps) * w - (1 - w)) / lift
    for shift in (-3, 3):
        a = np.clip(np.ceil(x * (C + 1) / (1 + x)) + shift, 0, C + 1)
        gain = stats.binom.pmf(a - 1, C, 0.5) * lift
        cost = stats.binom.sf(a - 1, C, 0.5) * math.expm1(eps)
        assert mass @ np.maximum(gain - cost, 0) < 0.9 * best


def test_log_pmf_is_good_to_a_trillionth():
    import mpmath

    mpmath.mp.dps = 40
    for n, x, prob in (
        (10, 0, 0.3),
        (10, 10, 0.3),
        (100, 37, 0.5),
        (10**6, 367_900, math.exp(-1)),
        (10**8, 50_003_000, 0.5),
    ):
        exact = (
            mpmath.log(mpmath.binomial(n, x))
            + x * mpmath.log(prob)
            + (n - x) * mpmath.log1p(-mpmath.mpf(prob))
        )
        ours = float(_intervals.log_binomial(float(n), np.array([float(x)]), prob)[0])
        assert abs(ours - float(exact)) < 1e-11


def test_chords_lie_above_the_profile():
    loss = local.shuffle(1, 2000)
    eps = np.linspace(0, 1.1, 300)
    chords = loss.log_delta(eps)
    exact = np.array([loss.log_delta(np.array([e]))[0] for e in eps])
    # where δ is next to nothing both are bounds of their own: only the allowance differs
    seen = exact > math.log(1e-37)
    assert (chords[seen] >= exact[seen] - 1e-9).all()
    inside = (eps > 0.01) & (eps < 0.15)
    assert (chords[inside] - exact[inside]).max() < 0.1
    assert np.isneginf(chords[eps >= 1]).all()


def test_chords_are_dense_where_the_profile_lives():
    """With 10⁵ people all of it lies below ε = .1, far from ε₀ = 4."""
    loss = local.shuffle(2, 10**5)
    eps = np.linspace(0.005, 0.06, 100)
    chords = loss.log_delta(eps)
    exact = np.array([loss.log_delta(np.array([e]))[0] for e in eps[::10]])
    assert (chords[::10] >= exact - 1e-9).all()
    assert (chords[::10] - exact).max() < 0.01


def test_shuffled_losses_compose_with_everything_else():
    loss = local.shuffle(local.KaryResponse(16, 1), 10_000)
    assert str(loss.neighbours) == "change-one"
    assert loss.epsilon(0) == 1.0
    assert loss.delta(1) == 0
    assert loss.delta(0.0) < p.Pure(1).delta(0)
    single = loss.epsilon("1e-6")
    thrice = p.compose([loss] * 3).epsilon("1e-6")
    assert single < thrice < 3 * single
    with_noise = p.compose([loss, p.Pure("0.1").under("change-one")]).epsilon("1e-6")
    assert 0.1 < with_noise <= 0.1 + single + 1e-3
    assert "n=10000" in repr(loss)
    assert any("honest" in c for c in loss.conditions)
    with pytest.raises(RelationError):
        p.compose([loss, p.Pure(1).under("add-remove")])


def test_more_people_hide_better_and_one_report_never_costs_more():
    deltas = [local.shuffle(2, n).delta("0.3") for n in (2, 10, 100, 1000, 10_000)]
    assert deltas == sorted(deltas, reverse=True)
    assert deltas[0] <= p.Pure(2).delta("0.3") * (1 + 1e-9)


def test_shuffle_accepts_protocols_losses_and_numbers_and_refuses_the_rest():
    protocol = local.KaryResponse(4, "0.5")
    same = {local.shuffle(r, 1000).epsilon("1e-6") for r in (protocol, protocol.loss, "0.5", 0.5)}
    assert len(same) == 1
    with pytest.raises(NotProvedError):
        local.shuffle(p.Approx(1, "1e-6"), 1000)
    with pytest.raises(NotProvedError):
        local.shuffle(p.Zcdp("0.1"), 1000)
    with pytest.raises(ParameterError):
        local.shuffle(1, 1)


def test_shuffle_refuses_other_relations_and_keeps_the_unit():
    with pytest.raises(NotProvedError, match="change-one"):
        local.shuffle(p.Pure(1).under("add-remove"), 1000)
    device = local.Rappor().client()
    device.randomize("a")
    hidden = local.shuffle(device.loss, 1000)
    assert hidden.unit == device.loss.unit is not None
    with pytest.raises(RelationError):
        p.compose([hidden, p.Pure(1).under("change-one", "person")])


@pytest.mark.parametrize(("rate", "epsilon"), [("0.1", 2.90048), ("0.01", 5.15230)])
def test_secrecy_of_the_sample(rate, epsilon):
    assert local.sample_epsilon(1, rate, shuffled=True) == pytest.approx(epsilon, abs=5e-6)
    protocol = local.KaryResponse(4, repr(local.sample_epsilon(1, rate, shuffled=True)))
    loss = local.secret_sample(protocol, rate, shuffled=True)
    assert loss.epsilon() == pytest.approx(1, abs=1e-9)
    assert str(loss.neighbours) == "change-one"
    assert local.secret_sample(epsilon, rate, shuffled=True).epsilon() == pytest.approx(1, abs=1e-5)
    with pytest.raises(ParameterError):
        local.sample_epsilon(1, 0, shuffled=True)


def sampled_law(protocol, people, size):
    """Exact law of the reports of a uniform sample, listed in the population's order."""
    rows = [protocol.law(x) for x in people]
    samples = list(itertools.combinations(range(len(people)), size))
    return {
        y: sum(math.prod(rows[i][v] for i, v in zip(s, y, strict=True)) for s in samples)
        / len(samples)
        for y in itertools.product(range(protocol.domain), repeat=size)
    }


def unordered(law):
    out = defaultdict(Fraction)
    for y, mass in law.items():
        out[tuple(sorted(y))] += mass
    return out


def loss_between(a, b):
    return math.log(max(max(a[y] / b[y], b[y] / a[y]) for y in a))


def test_a_secret_sample_amplifies_shuffled_reports_only():
    """Of four people two report, the others hold 1, 1, 0: order undoes the theorem."""
    protocol = local.KaryResponse(2, "1.0986")
    first, second = (sampled_law(protocol, (v, 1, 1, 0), 2) for v in (0, 1))
    stated = local.secret_sample(protocol, "0.5", shuffled=True).epsilon()
    assert stated == pytest.approx(0.693, abs=1e-3)
    assert loss_between(first, second) == pytest.approx(0.773, abs=1e-3)
    assert loss_between(unordered(first), unordered(second)) <= stated
    for refused in (
        lambda: local.secret_sample(protocol, "0.5"),
        lambda: local.secret_sample(protocol.loss, "0.5", shuffled=False),
        lambda: local.sample_epsilon(1, "0.5"),
    ):
        with pytest.raises(NotProvedError, match="shuffled"):
            refused()


def test_a_shuffled_loss_may_be_sampled_as_it_is():
    hidden = local.shuffle(local.KaryResponse(4, 1), 1000)
    sampled = local.secret_sample(hidden, "0.1")
    assert sampled.delta("0.05") < hidden.delta("0.05")
