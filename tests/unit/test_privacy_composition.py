"""Composition against the reference tables and two independent accountants."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from discreet import privacy as p
from discreet.privacy import _compose
from discreet.privacy._pair import Pair

KS = (1, 10, 100, 1000, 10_000)


@pytest.fixture(autouse=True)
def _quiet_oracles():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def dp_accounting_pld():
    from dp_accounting.pld import privacy_loss_distribution

    return privacy_loss_distribution


# -- reference tables -------------------------------------------------------------------

LAPLACE = {1: 0.099998, 10: 0.998978, 100: 4.692667, 1000: 18.950288, 10_000: 94.235869}
LAPLACE_LOWER = {1: 0.099998, 10: 0.998978, 100: 4.692646, 1000: 18.950052, 10_000: 94.233492}
KOV = {1: 0.099998, 10: 0.999371, 100: 4.774568, 1000: 19.344671, 10_000: 96.571840}
GAUSS = {1: 0.189213, 10: 0.648105, 100: 2.254085, 1000: 8.306225, 10_000: 35.566344}


@pytest.mark.parametrize("k", KS)
def test_laplace_table(k):
    eps = p.compose([p.Laplace("0.1")] * k).epsilon(1e-6)
    assert LAPLACE_LOWER[k] - 1e-6 <= eps <= LAPLACE[k] + 1e-4


@pytest.mark.parametrize("k", KS)
def test_pure_losses_compose_optimally(k):
    eps = p.compose([p.Pure("0.1")] * k).epsilon(1e-6)
    assert eps == pytest.approx(KOV[k], abs=1e-6)
    if k <= 1000:
        assert eps == pytest.approx(p.kov_epsilon("0.1", k, 0, "1e-6"), abs=1e-7)
    assert eps >= p.kov_epsilon("0.1", k, 0, "1e-6") - 1e-9


@pytest.mark.parametrize("k", KS)
def test_gaussian_table(k):
    eps = p.compose([p.Gaussian("0.05")] * k).epsilon(1e-6)
    assert eps == pytest.approx(GAUSS[k], abs=1e-6)


@pytest.mark.parametrize(
    ("k", "closed"), list(zip(KS, (0.1, 1, 5.7561, 21.6184, 102.524), strict=True))
)
def test_closed_form_of_optimal_composition(k, closed):
    assert p.kov_closed_form("0.1", k, "1e-6") == pytest.approx(closed, rel=2e-5)


def test_discrete_laplace_tends_to_laplace_as_the_lattice_refines():
    expected = {1: 4.7746, 2: 4.7121, 10: 4.6936, 100: 4.6927, 10**6: 4.6927}
    for m, value in expected.items():
        eps = p.compose([p.DiscreteLaplace(10 * m, m)] * 100).epsilon(1e-6)
        assert eps == pytest.approx(value, abs=6e-5)


def test_mixtures():
    half = [p.Laplace("0.1")] * 50 + [p.Gaussian("0.05")] * 50
    assert p.compose(half).epsilon(1e-6) == pytest.approx(3.600203, abs=1e-4)
    many = [p.Laplace("0.1")] * 100 + [p.Gaussian("0.05")] * 100
    many += [p.Pure("0.05")] * 20 + [p.Approx("0.1", "1e-8")] * 10
    assert p.compose(many).epsilon(1e-6) == pytest.approx(5.795695, abs=1e-4)


def test_promises_with_a_delta():
    loss = p.compose([p.Approx("0.1", "1e-9")] * 100)
    assert loss.epsilon(1e-6) == pytest.approx(4.787724, abs=1e-6)
    assert loss.epsilon(1e-6) == pytest.approx(p.kov_epsilon("0.1", 100, "1e-9", "1e-6"), abs=1e-8)
    assert loss.epsilon(1e-9) == math.inf
    assert loss.delta(10) == pytest.approx(1e-7, rel=1e-6)


def test_discrete_gaussian_on_its_own_lattice():
    """A grid off the lattice adds half a cell per step: 8.356226."""
    eps = p.compose([p.DiscreteGaussian(20, 1)] * 1000).epsilon(1e-6)
    assert eps == pytest.approx(8.306226, abs=2e-6)


def test_different_pure_losses_compose_as_murtagh_and_vadhan_enumerate():
    epsilons = ["0.1", "0.2", "0.3", "0.4", "0.5"] * 3
    eps = p.compose([p.Pure(e) for e in epsilons]).epsilon(1e-3)
    assert eps == pytest.approx(3.766523, abs=1e-6)
    assert p.murtagh_vadhan_delta(epsilons, eps) <= 1e-3
    assert p.murtagh_vadhan_delta(epsilons, eps - 1e-6) > 1e-3


def test_murtagh_vadhan_with_deltas_agrees_with_the_convolution():
    epsilons, deltas = ["0.5", "0.3", "0.7"], ["1e-4", "1e-5", "1e-6"]
    loss = p.compose([p.Approx(e, d) for e, d in zip(epsilons, deltas, strict=True)])
    for eps in (0.2, 0.6, 1.1):
        exact = p.murtagh_vadhan_delta(epsilons, eps, deltas)
        assert loss.delta(eps) == pytest.approx(exact, rel=1e-9)


def test_a_thousand_different_laplace_losses():
    rng = np.random.default_rng(0)
    losses = [p.Laplace(float(e)) for e in rng.uniform(0.01, 0.1, 1000)]
    assert p.compose(losses).epsilon(1e-6) == pytest.approx(10.5414, abs=5e-4)


def test_composing_in_pieces_or_at_once_is_the_same():
    a, b = [p.Pure("0.1")] * 5, [p.Laplace("0.2")] * 3
    nested = p.compose([p.compose(a), p.compose(b), p.compose(a)])
    assert nested.epsilon(1e-6) == p.compose(a + b + a).epsilon(1e-6)
    assert p.compose([p.Pure(1)]) == p.Pure(1)


def test_exact_sums_at_delta_zero():
    assert p.compose([p.Pure(0.1)] * 10).epsilon() == 1.0
    assert p.compose([p.DiscreteLaplace(10, 1)] * 7 + [p.Pure("0.3")]).epsilon() == 1.0
    assert p.compose([p.Pure(1), p.Gaussian(1)]).epsilon() == math.inf
    assert p.compose([p.Zcdp("0.1"), p.Zcdp("0.2")]) == p.Zcdp("0.3")
    assert p.compose([p.Gaussian("0.3"), p.Gaussian("0.4")]) == p.Gaussian("0.5")


def test_renyi_losses_add_at_common_orders():
    total = p.compose([p.Renyi({2: "0.1", 8: "0.4"}), p.Renyi({4: "0.1"})])
    assert [a for a, _ in total.orders] == [2, 4]
    assert total.renyi(4) == pytest.approx(0.1 + (0.1 + (2.8 - 0.1) / 3) / 3)


def test_zcdp_mixes_with_other_losses_soundly():
    """A Gaussian stated only as zCDP must never compose better than the Gaussian."""
    exact = p.compose([p.Gaussian("0.3"), p.Laplace("0.2")]).epsilon(1e-6)
    loose = p.compose([p.Zcdp("0.045"), p.Laplace("0.2")]).epsilon(1e-6)
    assert exact <= loose <= exact * 1.15


def test_bounded_range_beats_pure_under_composition():
    ranged = p.compose([p.BoundedRange("0.1")] * 100).epsilon(1e-6)
    pure = p.compose([p.Pure("0.1")] * 100).epsilon(1e-6)
    assert ranged < 0.6 * pure
    assert ranged <= p.Zcdp("0.125").epsilon(1e-6)


# -- small δ: the tilt ------------------------------------------------------------------


def test_small_delta_is_right_where_plain_fft_is_unsound():
    eps = p.compose([p.Pure("0.1")] * 1000).epsilon(1e-14)
    assert 28.4475 <= eps <= 28.44755
    assert p.kov_delta("0.1", 1000, eps) <= 1e-14


@pytest.mark.parametrize(
    ("k", "exponent"), [(1000, 9), (1000, 14), (1000, 30), (1000, 74), (10_000, 13), (10_000, 74)]
)
def test_relative_accuracy_far_below_the_fft_floor(k, exponent):
    """True δ at the returned ε, by exact binomial sums in 60 digits, over the target."""
    target = 10.0**-exponent
    eps = p.compose([p.Pure("0.1")] * k).epsilon(target)
    with mpmath.workdps(60):
        e0, e = mpmath.mpf(1) / 10, mpmath.mpf(eps)
        q = 1 / (1 + mpmath.exp(-e0))
        total, lower = mpmath.mpf(0), 0
        while (k - 2 * lower) * e0 > e:
            weight = mpmath.binomial(k, lower) * q ** (k - lower) * (1 - q) ** lower
            total += weight * (1 - mpmath.exp(e - (k - 2 * lower) * e0))
            lower += 1
        ratio = float(total / mpmath.mpf(target))
    assert 1 - 2e-6 < ratio <= 1


def test_mutant_untilted_fft_is_refused_by_its_own_error_bound():
    terms = p.compose([p.Pure("0.1")] * 1000).terms
    composed = _compose._composed(terms, 0, _compose._step(terms, 0, 1e-14))
    plain = composed.window(0.0)
    assert plain.masses.sum() == pytest.approx(1, abs=1e-9)
    assert plain.delta(28.4475) > 1e-12  # the truth is 1e-14
    assert plain.solve(1e-14) is None
    tilted = composed.window(composed.tilt_for_delta(1e-14))
    assert tilted.solve(1e-14) == pytest.approx(28.44753, abs=1e-5)


def test_an_accountant_without_tilt_understates_small_delta():
    theirs = dp_accounting_pld().from_privacy_parameters(
        __import__("dp_accounting").pld.common.DifferentialPrivacyParameters(0.1, 0),
        value_discretization_interval=1e-4,
    )
    claimed = theirs.self_compose(1000).get_epsilon_for_delta(1e-14)
    assert p.kov_delta("0.1", 1000, claimed) > 1.3e-14
    assert p.compose([p.Pure("0.1")] * 1000).epsilon(1e-14) > claimed


def test_targets_below_the_numerical_floor_fall_back_or_refuse():
    assert p.compose([p.Pure("0.1")] * 3).epsilon("1e-200") == pytest.approx(0.3, rel=1e-15)
    both = p.compose([p.Pure(1), p.Gaussian(1)])
    assert p.Gaussian(1).epsilon("1e-200") < both.epsilon("1e-200") == both.zcdp().epsilon("1e-200")
    from discreet.errors import ParameterError

    with pytest.raises(ParameterError, match="numerical floor"):
        p.compose([p.Renyi({2: 1}), p.Gaussian(1)]).epsilon("1e-200")


# -- brute force ------------------------------------------------------------------------


def test_convolution_matches_brute_force_on_irregular_atoms():
    scales, shifts = [3, 5, 7], [2, 1, 3]
    losses = [p.DiscreteLaplace(s, m) for s, m in zip(scales, shifts, strict=True)]
    laws = []
    for s, m in zip(scales, shifts, strict=True):
        x = np.arange(-60 * s, 60 * s + 1)
        pmf = np.tanh(1 / (2 * s)) * np.exp(-np.abs(x) / s)
        laws.append(((np.abs(x - m) - np.abs(x)) / s, pmf))
    a, b, c = (values for values, _ in laws)
    sums = (a[:, None] + b[None, :]).ravel()
    mass = (laws[0][1][:, None] * laws[1][1][None, :]).ravel()
    sums, inverse = np.unique(np.round(sums, 12), return_inverse=True)
    mass = np.bincount(inverse, mass)
    last, inverse = np.unique(np.round(c, 12), return_inverse=True)
    final = np.bincount(inverse, laws[2][1])
    total = (sums[:, None] + last[None, :]).ravel()
    weight = (mass[:, None] * final[None, :]).ravel()
    for eps in (0.0, 0.1, 0.5, 1.0):
        exact = np.sum(weight * np.maximum(1 - np.exp(eps - total), 0))
        got = p.compose(losses).delta(eps)
        assert exact * (1 - 1e-9) <= got <= exact * (1 + 1e-4) + 1e-12


@pytest.mark.parametrize(
    "loss", [p.Laplace("0.5"), p.Gaussian("0.5"), p.BoundedRange("0.5"), p.Pure("0.5")]
)
@pytest.mark.parametrize("step", [Fraction(1, 100), Fraction(1, 777)])
def test_a_discretised_loss_dominates_the_loss_at_every_epsilon(loss, step):
    pair = loss.pairs()[0]
    grid = Pair(pair.forward, pair.backward, pair.top, pair.bottom).on_grid(step)
    values = float(grid.offset) + (grid.start + np.arange(len(grid.masses))) * float(step)
    for eps in np.linspace(0, 1.2, 61):
        got = np.sum(grid.masses * np.maximum(1 - np.exp(eps - values), 0)) + grid.infinite
        true = math.exp(loss.log_delta(np.array([eps]))[0])
        assert got >= true * (1 - 1e-12)
        assert got <= true + float(step)
        mirrored = np.sum(grid.masses * np.maximum(1 - np.exp(-eps - values), 0)) + grid.infinite
        assert mirrored >= (1 - math.exp(-eps) + math.exp(-eps) * true) * (1 - 1e-12)
    assert grid.masses.sum() + grid.infinite == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("loss", [p.DiscreteLaplace(7, 5), p.Pure("0.3"), p.DiscreteGaussian(3, 2)])
@pytest.mark.parametrize("step", [Fraction(1, 100), Fraction(1, 777)])
def test_atoms_off_the_grid_are_split_upward(loss, step):
    grid = loss.pairs()[0].on_grid(step)
    values = float(grid.offset) + (grid.start + np.arange(len(grid.masses))) * float(step)
    for eps in np.linspace(0, 1.2, 61):
        got = np.sum(grid.masses * np.maximum(1 - np.exp(eps - values), 0)) + grid.infinite
        true = loss.delta(float(eps))
        assert true * (1 - 1e-9) - 1e-15 <= got <= true + float(step)
    # P- and Q-probabilities are both preserved
    assert grid.masses.sum() == pytest.approx(1, abs=1e-9)
    assert np.sum(grid.masses * np.exp(-values)) == pytest.approx(1, abs=1e-9)


def test_many_irregular_atoms_agree_with_enumeration():
    losses = [p.Pure(Fraction(1, 10) + Fraction(i, 7919)) for i in range(12)]
    terms = tuple((loss, 1) for loss in losses)
    few = _compose._enumerated(terms, 0)
    composed = _compose._composed(terms, 0, Fraction(1, 3000))
    for eps in (0.1, 0.4, 0.9):
        window = composed.window(composed.tilt_for_loss(eps))
        assert few.delta(eps) * (1 - 1e-9) <= window.delta(eps) <= few.delta(eps) * 1.002


@pytest.mark.parametrize(
    ("e", "k", "slack", "least"),
    [("0.5", 1, "1e-6", 0), ("0.001", 100, "1e-6", 1), ("0.1", 100, "1e-6", 2),
     ("0.01", 10**4, "1e-3", 2)],
)  # fmt: skip
def test_each_closed_form_is_the_least_somewhere(e, k, slack, least):
    """Basic, and the two forms of Kairouz, Oh and Viswanath, written out once more."""
    x, d = float(e), float(slack)
    drift = k * x * math.expm1(x) / (math.exp(x) + 1)
    logs = (math.log(math.e + math.sqrt(k * x**2) / d), math.log(1 / d))
    forms = [k * x, *(drift + x * math.sqrt(2 * k * log) for log in logs)]
    assert forms.index(min(forms)) == least
    assert p.kov_closed_form(e, k, slack) == pytest.approx(min(forms), rel=1e-12)


@pytest.mark.parametrize(
    ("counts", "listed"),
    [([16], True), ([17], False), ([1] * 16, True), ([1] * 17, False), ([8, 8], True),
     ([8, 9], False), ([10**6], False), ([10**9, 1], False), ([1, 10**9], False)],
)  # fmt: skip
def test_sums_are_listed_exactly_while_they_are_few(counts, listed):
    """Of k losses with two atoms each there are 2^k sums, and 2^16 are few."""
    terms = tuple((p.Pure(Fraction(1, 10) + Fraction(i, 7919)), k) for i, k in enumerate(counts))
    found = _compose._enumerated(terms, 0)
    assert (found is not None) == listed
    if found is not None:
        assert len(found.masses) == 2 ** sum(counts)


# -- oracles ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "k", "delta"),
    [("laplace", 30, 1e-6), ("laplace", 300, 1e-4), ("gauss", 30, 1e-8), ("gauss", 100, 1e-3)],
)
def test_agrees_with_dp_accounting(name, k, delta):
    pld = dp_accounting_pld()
    if name == "laplace":
        theirs = pld.from_laplace_mechanism(5.0, value_discretization_interval=1e-4)
        ours = p.Laplace("0.2")
    else:
        theirs = pld.from_gaussian_mechanism(10.0, value_discretization_interval=1e-4)
        ours = p.Gaussian("0.1")
    oracle = theirs.self_compose(k).get_epsilon_for_delta(delta)
    eps = p.compose([ours] * k).epsilon(delta)
    assert oracle - 2e-3 <= eps <= oracle + 1e-4


def test_mixture_agrees_with_dp_accounting():
    pld = dp_accounting_pld()
    theirs = pld.from_laplace_mechanism(2.0, value_discretization_interval=1e-4)
    theirs = theirs.compose(pld.from_gaussian_mechanism(3.0, value_discretization_interval=1e-4))
    theirs = theirs.compose(
        pld.from_privacy_parameters(
            __import__("dp_accounting").pld.common.DifferentialPrivacyParameters(0.3, 1e-5),
            value_discretization_interval=1e-4,
        )
    )
    losses = [p.Laplace("0.5"), p.Gaussian(Fraction(1, 3)), p.Approx("0.3", "1e-5")]
    for delta in (1e-4, 1e-3, 1e-2):
        oracle = theirs.get_epsilon_for_delta(delta)
        assert p.compose(losses).epsilon(delta) == pytest.approx(oracle, abs=3e-4)


def test_agrees_with_prv_accountant_bounds():
    from prv_accountant import PRVAccountant
    from prv_accountant.privacy_random_variables import LaplaceMechanism, PureDPMechanism

    accountant = PRVAccountant(
        prvs=[LaplaceMechanism(mu=0.1), PureDPMechanism(0.05)],
        max_self_compositions=[50, 20],
        eps_error=0.01,
        delta_error=1e-10,
    )
    lower, _, upper = accountant.compute_epsilon(1e-6, [50, 20])
    eps = p.compose([p.Laplace("0.1")] * 50 + [p.Pure("0.05")] * 20).epsilon(1e-6)
    assert lower <= eps <= upper


def test_delta_and_epsilon_of_a_composition_agree():
    loss = p.compose([p.Laplace("0.1")] * 40 + [p.Gaussian("0.1")] * 3)
    for delta in (1e-9, 1e-6, 1e-2):
        assert loss.delta(loss.epsilon(delta)) == pytest.approx(delta, rel=1e-2)


def test_composition_renyi_and_rho_are_sums():
    loss = p.compose([p.Laplace("0.1")] * 3 + [p.Gaussian("0.2")])
    parts = 3 * p.Laplace("0.1").renyi(4) + p.Gaussian("0.2").renyi(4)
    assert loss.renyi(4) == pytest.approx(parts, rel=1e-14)
    rho = 3 * p.Laplace("0.1").rho + float(p.Gaussian("0.2").rho)
    assert float(loss.rho) == pytest.approx(rho, rel=1e-14)


@pytest.mark.parametrize("terms", [["0.5", "0.5"], ["0.25", "1"], ["1e-3"] * 3])
def test_nothing_is_lost_beyond_the_sum_of_the_largest_losses(terms):
    loss = p.compose([p.Pure(e) for e in terms])
    top = float(loss.top)
    assert loss.delta(top) == 0
    assert loss.delta(math.nextafter(top, 0)) >= 0
    assert loss.delta(0.999 * top) > 0
    failing = p.compose([*[p.Pure(e) for e in terms], p.Approx(0, "1e-6")])
    assert failing.delta(top) == 1e-6


def test_mechanisms_that_fail_more_often_than_allowed_have_no_epsilon():
    for k, each, target in ((10, "1e-6", "9e-6"), (10, "1e-6", "1e-6"), (2, "0.1", "0.18")):
        assert p.kov_epsilon("0.1", k, each, target) == math.inf
    assert p.kov_epsilon("0.1", 10, "1e-6", "1.1e-5") <= 1
    assert p.kov_epsilon("0.1", 2, "0.1", "0.19") == pytest.approx(0.2)


def test_no_delta_exceeds_one():
    assert p.kov_delta(5, 50, 0) == 1
    assert p.murtagh_vadhan_delta([30, 40], 0) == 1
    assert p.compose([p.Pure(40)] * 3).delta(0) <= 1
    assert p.compose([p.Gaussian(50)] * 3).delta(0) <= 1
