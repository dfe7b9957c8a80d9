"""Losses stated by parameters: profiles, conversions, labels, and their laws."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import mechanisms as m
from discreet import noise
from discreet import privacy as p
from discreet.errors import NotProvedError, ParameterError, RelationError
from discreet.privacy import _keys
from discreet.privacy._additive import _sum_profile
from discreet.privacy._convert import pure_to_renyi, pure_to_rho, zcdp_to_log_delta
from discreet.privacy._pair import Atoms

LOSSES = [
    p.Pure("0.3"),
    p.Approx("0.3", "1e-7"),
    p.Approx(0, "1e-7"),
    p.Zcdp("0.02"),
    p.Zcdp("0.02", "1e-7"),
    p.Renyi({2: "0.05", 8: "0.2", 32: "0.9"}),
    p.BoundedRange("0.5"),
    p.Probabilistic("0.3", "1e-7"),
    p.Laplace("0.4"),
    p.DiscreteLaplace(10, 3),
    p.DiscreteLaplace(10**7, 10**6),
    p.Gaussian("0.2"),
    p.Gaussian(3),
    p.DiscreteGaussian(5, 1),
    p.DiscreteGaussian(5, 1, dimension=4),
    p.DiscreteGaussian(10**5, 10**4),
    p.sample(p.Gaussian(1), "0.1"),
    p.sample(p.Pure(1), "0.1"),
    p.sample(p.Gaussian(1), "0.1", neighbours="change-one"),
    p.parallel([p.Pure("0.3"), p.Gaussian("0.1")], "add-remove"),
    p.group(p.sample(p.Gaussian("0.5"), "0.1"), 2),
    p.Concentrated("0.005", "0.2"),
]
ids = [type(loss).__name__ + str(i) for i, loss in enumerate(LOSSES)]


# -- every loss keeps the laws of a profile ---------------------------------------------


@pytest.mark.parametrize("loss", LOSSES, ids=ids)
def test_delta_falls_in_epsilon_and_epsilon_falls_in_delta(loss):
    deltas = [loss.delta(e) for e in np.linspace(0, 2, 41)]
    assert all(a >= b * (1 - 1e-9) for a, b in itertools.pairwise(deltas))
    epsilons = [loss.epsilon(d) for d in (1e-9, 1e-6, 1e-4, 1e-2, 0.1, 0.5)]
    assert all(a >= b for a, b in itertools.pairwise(epsilons))


@pytest.mark.parametrize("loss", LOSSES, ids=ids)
def test_epsilon_is_certified_by_delta_and_is_nearly_the_least(loss):
    for target in (1e-6, 1e-3, 0.01):
        eps = loss.epsilon(target)
        if math.isfinite(eps):
            assert loss.delta(eps) <= target * (1 + 1e-12)
            if eps > 1e-6:
                assert loss.delta(eps * (1 - 1e-6)) > target or eps == loss.top


@pytest.mark.parametrize("loss", LOSSES, ids=ids)
def test_tradeoff_is_convex_falling_and_below_the_diagonal(loss):
    fpr = np.linspace(0, 1, 21)
    fnr = np.array([loss.tradeoff(a) for a in fpr])
    assert np.all(fnr <= 1 - fpr + 1e-12)
    assert np.all(np.diff(fnr) <= 1e-9)
    assert np.all(np.diff(fnr, 2) >= -2e-4)


@pytest.mark.parametrize("loss", LOSSES, ids=ids)
def test_renyi_implies_no_better_delta_than_stated_exactly(loss):
    """ε(δ) from any Rényi order is an upper bound on the truth, so never far below ε(δ)."""
    for alpha in (1.5, 4, 32):
        r = loss.renyi(alpha)
        if not math.isfinite(r):
            continue
        implied = r + (math.log(1e6) - math.log(alpha)) / (alpha - 1) + math.log1p(-1 / alpha)
        assert loss.epsilon(1e-6) <= max(implied, 0) + 1e-6


@pytest.mark.parametrize("loss", LOSSES, ids=ids)
def test_losses_are_hashable_values_with_a_repr(loss):
    assert hash(loss) == hash(loss.replaced())
    assert loss == loss.replaced()
    assert repr(loss).startswith(type(loss).__name__ + "(")


# -- exact values -----------------------------------------------------------------------


def test_pure_loss_returns_its_own_epsilon_at_delta_zero():
    for text in ("0.1", "1e-9", "3", "1/3"):
        eps = p.Pure(text).epsilon()
        assert Fraction(repr(eps)) >= Fraction(text)
        assert eps == pytest.approx(float(Fraction(text)), rel=1e-15)
    assert p.Pure(0.1).epsilon() == 0.1
    assert p.Pure("0.3").epsilon() == 0.3  # the double 0.3 read as 3/10, not as its binary value
    assert p.Pure(0.1).delta(0.1) == 0.0


def test_pure_profile_is_randomized_response():
    e0, e = 0.7, 0.3
    expected = (math.exp(e0) - math.exp(e)) / (1 + math.exp(e0))
    assert p.Pure(e0).delta(e) == pytest.approx(expected, rel=1e-13)
    assert p.Pure(e0).delta(e) >= expected


def test_approx_profile_and_its_limits():
    loss = p.Approx(1, "1e-6")
    assert loss.epsilon("1e-6") == 1.0
    assert loss.epsilon("0.9e-6") == math.inf
    assert loss.epsilon() == math.inf
    assert loss.delta(1) == pytest.approx(1e-6)
    assert loss.rho == math.inf
    assert loss.zcdp().delta0 == Fraction(1, 10**6)


@pytest.mark.parametrize(
    ("rho", "tight", "old"), [("0.1", 2.141939, 2.450788), ("1", 7.7662, 8.4338)]
)
def test_zcdp_conversion_is_the_tight_one_not_the_textbook_one(rho, tight, old):
    eps = p.Zcdp(rho).epsilon(1e-6)
    assert eps == pytest.approx(tight, abs=5e-5)
    r = float(rho)
    assert r + 2 * math.sqrt(r * math.log(1e6)) == pytest.approx(old, abs=5e-5)
    assert eps < old - 0.2


def test_zcdp_conversion_is_the_infimum_over_orders():
    for rho in (1e-4, 0.01, 1.0, 30.0):
        for eps in (0.01, 0.5, 3.0, 50.0):
            alphas = 1 + np.geomspace(1e-4, 1e5, 200_001)
            logs = (alphas - 1) * (alphas * rho - eps)
            logs += alphas * np.log1p(-1 / alphas) - np.log(alphas - 1)
            best = min(float(np.exp(logs.min())), 1.0)
            assert p.Zcdp(rho).delta(eps) == pytest.approx(best, rel=1e-6)


def test_pure_to_zcdp_uses_the_hyperbolic_tangent_and_rounds_up():
    for eps in (1e-6, 0.01, 0.1, 1.0, 5.0):
        with mpmath.workdps(40):
            exact = mpmath.mpf(eps) * mpmath.tanh(mpmath.mpf(eps) / 2)
            assert pure_to_rho(eps) >= exact
            assert pure_to_rho(eps) == pytest.approx(float(exact), rel=1e-13)
        assert pure_to_rho(eps) < eps * eps / 2 * (1 + 1e-12)


def test_pure_to_renyi_is_that_of_randomized_response_rounded_up():
    for eps in (0.05, 1.0, 4.0):
        for alpha in (1.1, 2, 10, 300):
            with mpmath.workdps(60):
                e, a = mpmath.mpf(eps), mpmath.mpf(alpha)
                yes = mpmath.exp(e) / (1 + mpmath.exp(e))
                moment = yes * mpmath.exp((a - 1) * e) + (1 - yes) * mpmath.exp(-(a - 1) * e)
                exact = mpmath.log(moment) / (a - 1)
            got = pure_to_renyi(eps, Fraction(alpha))
            assert got >= exact
            assert got == pytest.approx(float(exact), rel=1e-9)


def test_bounded_range_profile_is_the_worst_two_point_law():
    eta, eps = 0.8, 0.3
    t = np.linspace(eps, eta, 200_001)
    q = (np.exp(-t) - math.exp(-eta)) / (1 - math.exp(-eta))
    best = float(np.max(q * (np.exp(t) - math.exp(eps))))
    assert p.BoundedRange(eta).delta(eps) == pytest.approx(best, rel=1e-8)
    assert p.BoundedRange(eta).delta(eps) < p.Pure(eta).delta(eps)


def test_bounded_range_rho_is_a_quarter_of_the_pure_one():
    assert p.BoundedRange("0.1").rho == Fraction(1, 800)
    assert float(p.BoundedRange(20).rho) < 20.001  # η²/8 = 50 would be worse than pure


def test_bounded_range_covers_the_exponential_mechanism():
    """Scores (24, 8, 28, 5) against neighbours that move each by at most 1."""
    rng = np.random.default_rng(5)
    eta = 1.0
    for _ in range(50):
        u = np.array([24.0, 8.0, 28.0, 5.0])
        v = u + rng.choice([-1, 0, 1], 4)
        a, b = (np.exp(eta * x / 2) for x in (u, v))
        a, b = a / a.sum(), b / b.sum()
        for eps in (0.0, 0.2, 0.6):
            worst = np.maximum(a - math.exp(eps) * b, 0).sum()
            assert worst <= p.BoundedRange(eta).delta(eps) + 1e-12


def test_renyi_interpolates_by_the_chord_of_the_cumulant():
    gauss = p.Gaussian("0.3")
    loss = p.Renyi({a: Fraction(gauss.renyi(a)) for a in (2, 4, 8, 16, 64)})
    for alpha in (1.5, 3, 5, 40):
        assert loss.renyi(alpha) >= gauss.renyi(alpha) * (1 - 1e-12)
    assert loss.renyi(65) == math.inf
    assert loss.epsilon(1e-6) == pytest.approx(p.Zcdp(gauss.rho).epsilon(1e-6), rel=0.03)


def test_gaussian_tradeoff_equals_the_dual_of_its_profile():
    loss = p.Gaussian("0.7")
    for fpr in (0.01, 0.05, 0.3, 0.7):
        assert p.PrivacyLoss.tradeoff(loss, fpr) == pytest.approx(loss.tradeoff(fpr), abs=1e-6)


# -- R4.5: probabilistic DP and its failure under post-processing -----------------------


def exceeds(P, Q, epsilon):
    """Probability under P that the loss exceeds ε: what probabilistic DP bounds."""
    return sum(x for x, y in zip(P, Q, strict=True) if x > epsilon * y)


@pytest.mark.parametrize("delta", [Fraction(1, 100), Fraction(1, 10), Fraction(1, 2)])
@pytest.mark.parametrize("factor", [Fraction(11, 10), Fraction(3), Fraction(20)])
def test_probabilistic_dp_fails_under_post_processing_but_implies_approximate_dp(factor, delta):
    """Lalanne's K on {0, 1, 2, 3} and map T, exactly, with e^ε = `factor`, in both directions."""
    high, low = (1 - delta) * factor / (1 + factor), (1 - delta) / (1 + factor)
    K = {0: [delta, high, low, Fraction(0)], 1: [Fraction(0), low, high, delta]}
    for D in (0, 1):
        # K is (ε, δ)-probabilistically DP: the bad output has probability δ, and no more
        assert exceeds(K[D], K[1 - D], factor) == delta
    # T sends 0 and 1 to one output 4, and leaves 2 and 3
    TK = {D: [P[0] + P[1], P[2], P[3]] for D, P in K.items()}
    assert TK[0][0] > factor * TK[1][0]
    assert exceeds(TK[0], TK[1], factor) == delta + high > delta  # so T∘K is not
    assert exceeds(TK[1], TK[0], factor) == delta  # in this direction nothing was merged
    # the approximate DP that K has survives
    epsilon = Fraction(math.log(factor)) * (1 + Fraction(1, 2**40))
    implied = p.Probabilistic(epsilon, delta).approx()
    for D in (0, 1):
        for laws in (K, TK):
            pairs = zip(laws[D], laws[1 - D], strict=True)
            hockey = sum(max(x - factor * y, 0) for x, y in pairs)
            assert hockey <= implied.delta(epsilon)


# -- R4.5: concentrated DP ---------------------------------------------------------------


def test_concentrated_dp_of_a_gaussian_is_the_gaussian_s_own_renyi_curve():
    gauss = p.Gaussian("0.3")
    loss = p.Concentrated(gauss.mu2 / 2, "0.3")
    assert loss.rho == gauss.rho
    for alpha in (1.5, 2, 10, 100):
        assert loss.renyi(alpha) == pytest.approx(gauss.renyi(alpha), rel=1e-12)
    for delta in (1e-3, 1e-9):
        assert loss.epsilon(delta) == pytest.approx(p.Zcdp(gauss.rho).epsilon(delta), rel=1e-9)
        assert loss.epsilon(delta) >= gauss.epsilon(delta)


def test_concentrated_dp_with_a_small_mean_is_tighter_than_its_zcdp():
    loss = p.Concentrated("0.001", "0.3")
    assert loss.epsilon(1e-6) < p.Zcdp(loss.rho).epsilon(1e-6)
    # a mean above τ²/2 says nothing: E e^(−L) = 1
    assert p.Concentrated(5, "0.3") == p.Concentrated("0.045", "0.3")


@pytest.mark.parametrize("epsilon", ["0.1", "1", "3"])
def test_pure_dp_is_concentrated_and_never_below_its_own_profile(epsilon):
    pure = p.Pure(epsilon)
    loss = p.Concentrated.of(pure)
    # Dwork and Rothblum state mean ε(e^ε − 1)/2 and τ = ε
    assert float(loss.mean0) <= float(Fraction(epsilon)) * math.expm1(float(Fraction(epsilon))) / 2
    for share in (0, 0.3, 0.9):
        assert loss.delta(share * float(pure.top)) >= pure.delta(share * float(pure.top))
    for alpha in (1.01, 2, 50):
        assert loss.renyi(alpha) >= pure.renyi(alpha) * (1 - 1e-9)


def test_concentrated_losses_add_up():
    joint = p.compose([p.Concentrated("0.001", "0.1")] * 9)
    assert joint == p.Concentrated("0.009", "0.3")
    assert p.group(p.Concentrated("0.005", "0.1"), 3).rho == Fraction(9, 200)
    with pytest.raises(NotProvedError):
        p.Concentrated.of(p.Gaussian(1))
    for loss in (
        p.Approx("0.5", "0.01"),
        p.sample(p.Approx("0.5", "0.01"), "0.3"),
        p.group(p.Approx("0.5", "1e-6"), 2),
        p.compose([p.Pure(1), p.Approx("0.5", "1e-6")]),
    ):  # bounded but for what may fail altogether
        assert loss.mass_at_infinity
        with pytest.raises(NotProvedError, match="is not bounded"):
            p.Concentrated.of(loss)
    with pytest.raises(ParameterError):
        p.Concentrated(-1, 1)


# -- ε = 0: perfect privacy --------------------------------------------------------------


def test_perfect_privacy_costs_nothing_and_adds_nothing():
    none = p.Pure(0)
    assert (none.epsilon(), none.delta(0), none.rho) == (0.0, 0.0, 0.0)
    assert none.tradeoff(0.05) == pytest.approx(0.95)
    assert p.compose([none] * 5) == none
    assert p.compose([none, p.Pure(1)]) == p.Pure(1)
    assert p.group(none, 9).epsilon() == 0
    assert p.sample(none, "0.1").epsilon() == 0
    assert p.compose([p.Approx(0, "0.1"), p.Pure("0.5")]).delta("0.5") == pytest.approx(0.1)
    budget = p.BasicFilter(1)
    budget.spend(none)
    assert budget.remaining.size == 1
    assert m.Exponential(1, 0).loss == none


# -- R1.3 group privacy -----------------------------------------------------------------


def test_group_of_five_with_delta():
    loss = p.group(p.Approx("0.1", "1e-6"), 5)
    assert loss.epsilon(loss.delta0) == 0.5
    assert float(loss.delta0) == pytest.approx(6.1683e-6, rel=1e-5)


@pytest.mark.parametrize(
    ("loss", "grouped"),
    [
        (p.Pure("0.1"), p.Pure("0.3")),
        (p.Laplace("0.1"), p.Laplace("0.3")),
        (p.DiscreteLaplace(10, 2), p.DiscreteLaplace(10, 6)),
        (p.DiscreteGaussian(10, 2), p.DiscreteGaussian(10, 6)),
        # each of the three may move coordinates of its own
        (
            p.DiscreteGaussian.from_variance(100, 12, 4),
            p.DiscreteGaussian.from_variance(100, 108, 12),
        ),
        (p.Gaussian("0.1"), p.Gaussian("0.3")),
        (p.Zcdp("0.1"), p.Zcdp("0.9")),
        (p.BoundedRange("0.1"), p.BoundedRange("0.3")),
    ],
)
def test_group_of_three_in_each_family(loss, grouped):
    assert p.group(loss, 3).unlabelled() == grouped
    assert p.group(loss, 1) == loss


@pytest.mark.parametrize("dimension", [0, -1, 1.5, 2.0, "2", None])
def test_as_many_coordinates_as_there_are(dimension):
    with pytest.raises(ParameterError, match="dimension must be a positive integer"):
        p.DiscreteGaussian.from_variance(100, 4, dimension)


def test_generic_group_bound_is_above_the_exact_one():
    generic = p.Group.build(base=p.Gaussian("0.1"), k=3)
    for eps in (0.0, 0.1, 0.5, 1.0):
        assert generic.delta(eps) >= p.Gaussian("0.3").delta(eps)
    assert generic.delta(0) == pytest.approx(3 * p.Gaussian("0.1").delta(0), rel=1e-9)


def test_group_of_a_composition_groups_its_parts():
    whole = p.compose([p.Pure("0.1"), p.Gaussian("0.1")])
    apart = p.compose([p.Pure("0.2"), p.Gaussian("0.2")])
    assert p.group(whole, 2).epsilon(1e-6) == apart.epsilon(1e-6)


def test_renyi_group_follows_mironov():
    loss = p.group(p.Renyi({8: "0.1"}), 2)
    assert loss.orders == ((Fraction(4), Fraction(3, 10)),)
    with pytest.raises(NotProvedError):
        p.group(p.Renyi({2: "0.1"}), 2)


def test_group_of_an_approximate_zcdp_is_refused():
    with pytest.raises(NotProvedError):
        p.group(p.Zcdp("0.1", "1e-6"), 2)


# -- R4.2 parallel composition ----------------------------------------------------------


def test_parallel_is_the_largest_under_add_remove_and_twice_it_under_change_one():
    """Erratum: the textbook states max without naming the relation."""
    parts = [p.Pure("0.3"), p.Pure(1), p.Pure("0.5")]
    assert p.parallel(parts, "add-remove") == p.Pure(1).under("add-remove")
    assert p.parallel(parts, "change-one") == p.Pure(2).under("change-one")
    assert p.parallel(parts, "change-one", covers_change=True).epsilon() == 1.5


def test_substitution_may_cost_two_parts():
    """Ten groups with ε = 1 each, bounded neighbours: charged 2."""
    assert p.parallel([p.Pure(1)] * 10, p.Neighbours.CHANGE_ONE).epsilon() == 2.0
    moved = p.parallel([p.Pure(1)] * 10, p.Neighbours.CHANGE_ONE, covers_change=True)
    assert moved.epsilon() == 2.0


def test_parallel_of_gaussians_moves_root_two_when_change_is_covered():
    parts = [p.Gaussian("0.3"), p.Gaussian("0.4")]
    loss = p.parallel(parts, "change-one", covers_change=True)
    assert loss.epsilon(1e-6) == p.Gaussian("0.5").epsilon(1e-6)


def test_parallel_profile_is_the_pointwise_largest():
    a, b = p.Pure("0.3"), p.Gaussian("0.2")
    loss = p.parallel([a, b], "add-remove")
    for eps in (0.0, 0.1, 0.25, 0.4):
        assert loss.delta(eps) == pytest.approx(max(a.delta(eps), b.delta(eps)), rel=1e-12)
    assert float(loss.rho) == max(float(a.rho), float(b.rho))


def test_parallel_refuses_losses_stated_under_change_one():
    with pytest.raises(NotProvedError):
        p.parallel([p.Pure(1).under("change-one")] * 2, "change-one")


# -- R1.2 labels ------------------------------------------------------------------------


def test_mixing_relations_or_units_is_refused():
    a = p.Pure(1).under("add-remove", unit="person")
    b = p.Pure(1).under("change-one", unit="person")
    c = p.Pure(1).under("add-remove", unit="household")
    for other in (b, c):
        with pytest.raises(RelationError):
            p.compose([a, other])
    both = p.compose([a, p.Pure(1)])
    assert (both.neighbours, both.unit) == (p.Neighbours.ADD_REMOVE, "person")


def test_a_stated_label_cannot_be_replaced():
    loss = p.Pure(1).under("add-remove")
    with pytest.raises(RelationError):
        loss.under("change-one")
    assert p.to_change_one(loss) == p.Pure(2).under("change-one")


def test_a_group_does_not_mix_with_single_units():
    with pytest.raises(RelationError):
        p.compose([p.group(p.Pure(1), 2), p.Pure(1).under(None, unit="person")])


# -- properties -------------------------------------------------------------------------

small = st.fractions(min_value=Fraction(1, 1000), max_value=3, max_denominator=1000)


@settings(max_examples=40, deadline=None)
@given(eps=small, k=st.integers(2, 6), delta=st.sampled_from([1e-9, 1e-6, 1e-3, 0.1]))
def test_composition_lies_between_largest_and_sum(eps, k, delta):
    one = p.Pure(eps)
    many = p.compose([one] * k).epsilon(delta)
    assert one.epsilon(delta) * (1 - 1e-9) <= many <= k * float(eps) * (1 + 1e-12)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.sampled_from(LOSSES[:1] + LOSSES[8:12] + [p.BoundedRange("0.5")]), min_size=2, max_size=4
    ),
    st.sampled_from([1e-6, 1e-3]),
)
def test_mixed_composition_lies_between_largest_and_sum_of_rho(losses, delta):
    total = p.compose(losses)
    assert total.epsilon(delta) >= max(loss.epsilon(delta) for loss in losses) * (1 - 1e-6)
    exact = sum((Fraction(loss.rho) for loss in losses), Fraction(0))
    assert float(total.rho) == pytest.approx(float(exact), rel=1e-12)
    assert total.epsilon(delta) <= p.Zcdp(Fraction(total.rho)).epsilon(delta) * (1 + 1e-4) + 1e-4


@settings(max_examples=25, deadline=None)
@given(rho=small, d1=st.floats(1e-12, 0.4), d2=st.floats(1e-12, 0.4))
def test_zcdp_epsilon_is_monotone_in_delta(rho, d1, d2):
    low, high = sorted((d1, d2))
    assert p.Zcdp(rho).epsilon(low) >= p.Zcdp(rho).epsilon(high)


@settings(max_examples=60, deadline=None)
@given(eps=small, k=st.integers(2, 5))
def test_group_and_parallel_laws_for_pure_losses(eps, k):
    loss = p.Pure(eps)
    assert p.group(loss, k).unlabelled() == p.Pure(k * eps)
    assert p.parallel([loss] * k, "add-remove").unlabelled() == loss
    assert p.parallel([loss] * k, "change-one").unlabelled() == p.Pure(2 * eps)


@pytest.mark.parametrize(
    "build",
    [
        p.Pure,
        lambda x: p.Approx(1, x),
        p.Zcdp,
        p.Gaussian,
        p.Laplace,
        p.BoundedRange,
        lambda x: p.DiscreteLaplace(x, 1),
        lambda x: p.DiscreteLaplace(1, x),
        lambda x: p.DiscreteGaussian(x, 1),
        lambda x: p.DiscreteGaussian(1, x),
        p.BasicFilter,
        p.ZcdpFilter,
        p.GaussianFilter,
        lambda x: p.sample(p.Pure(1), x),
        lambda x: p.gaussian_sigma(1, x, "1e-6"),
        lambda x: p.gaussian_sigma(1, 1, x),
        lambda x: p.gaussian_sigma(x, 1, "1e-6"),
    ],
)
@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, 1e-320, "x", None, True, "1/0"])
def test_bad_parameters_get_one_clear_error(build, bad):
    if build is p.Pure and bad == 0:
        return  # perfect privacy
    if bad == 1e-320:
        try:
            build(bad)  # a tiny δ or rate is legal; everything else must refuse
        except ParameterError:
            return
        return
    with pytest.raises(ParameterError):
        build(bad)


def test_bad_questions_are_refused():
    loss = p.Pure(1)
    for bad in (-1, 1, 2, math.nan):
        with pytest.raises(ParameterError):
            loss.epsilon(bad)
    for call in (lambda: loss.delta(-1), lambda: loss.renyi(1), lambda: loss.tradeoff(2)):
        with pytest.raises(ParameterError):
            call()
    for call in (
        lambda: p.compose([]),
        lambda: p.parallel([], "add-remove"),
        lambda: p.group(loss, 0),
        lambda: p.Renyi({}),
        p.Renyi,
        lambda: loss.under("both"),
    ):
        with pytest.raises(ParameterError):
            call()


def test_no_divergence_at_all_is_no_loss_at_all():
    eps = np.array([-1.0, 0.0, 0.5, 1.0])
    assert zcdp_to_log_delta(Fraction(0), eps).tolist() == [0.0, -math.inf, -math.inf, -math.inf]


@pytest.mark.parametrize(("eps", "alpha"), [("50", 1000), ("0.01", "1.000002"), ("3", "1.5")])
def test_a_divergence_is_never_stated_above_what_every_mechanism_keeps(eps, alpha):
    e, a = Fraction(eps), Fraction(alpha)
    stated = pure_to_renyi(e, a)
    assert 0 < stated <= min(float(e), float(a) * pure_to_rho(e))


@pytest.mark.parametrize(
    ("eps", "k"), [("0", 2), ("0", 10**6), ("1e-7", 3), ("1e-5", 10**6), ("0.01", 1000), ("2", 5)]
)
@pytest.mark.parametrize("delta", ["1e-12", "1e-90"])
def test_a_groups_delta_keeps_the_room_for_rounding_that_its_analysis_asks_for(eps, delta, k):
    """δ·(e^{kε} − 1)/(e^ε − 1), and at least 2^-48 for each unit of the exponents above it."""
    loss = p.group(p.Approx(eps, delta), k)
    with mpmath.workdps(60):
        e = mpmath.mpf(Fraction(eps).numerator) / Fraction(eps).denominator
        growth = mpmath.expm1(k * e) / mpmath.expm1(e) if e else mpmath.mpf(k)
        true = mpmath.mpf(delta) * growth
        stated = mpmath.mpf(loss.delta0.numerator) / loss.delta0.denominator
        above = float((stated / true - 1) * 2**48)
        room = float(1 + abs(mpmath.log(true)) + 2 * mpmath.log(growth))
    assert loss.eps0 == k * Fraction(eps)
    assert 0.8 * (room + 1) < above < 1.2 * (room + 1)


def test_failures_alone_compose_and_are_sampled_as_failures():
    """A (0, δ) loss is an atom at zero beside its mass at infinity."""
    failing = p.Approx(0, "1e-3")
    both = p.compose([failing, failing])
    assert both.delta(0) == pytest.approx(1 - 0.999**2, rel=1e-9)
    mixed = p.compose([failing, p.Gaussian(1)])
    assert mixed.delta(1) == pytest.approx(1e-3 + 0.999 * p.Gaussian(1).delta(1), rel=1e-4)
    sampled = p.sample(failing, "0.1")
    assert sampled.mass_at_infinity == Fraction(1, 10**4)
    assert sampled.delta(0) == pytest.approx(1e-4, rel=1e-9)


def test_what_a_sum_cuts_off_is_counted():
    atoms = Atoms(Fraction(-1), Fraction(1), np.array([0.2, 0.3, 0.4]), 0.1)
    found = np.exp(_sum_profile(atoms, np.array([0.0, 0.5, 2.0])))
    exact = [0.4 * (1 - math.exp(-1)) + 0.1, 0.4 * (1 - math.exp(-0.5)) + 0.1, 0.1]
    assert found == pytest.approx(exact, rel=1e-12)
    assert (found >= exact).all()


MIXED = [p.Pure("0.5"), p.Pure(2), p.Gaussian("0.7"), p.Gaussian("0.2"), p.Zcdp("0.4"),
         p.Zcdp("0.1"), p.DiscreteLaplace(10, 3), p.DiscreteLaplace(4, 3), p.Approx("0.1", "1e-3"),
         p.BoundedRange(1), p.BoundedRange("0.3"), p.Laplace("0.4"), p.Laplace("1.4")]  # fmt: skip


@pytest.mark.parametrize(
    "losses", [MIXED, MIXED[::-1], MIXED[:2], MIXED[6:8], MIXED[7:5:-1], MIXED[8:9]]
)
def test_disjoint_parts_lose_what_the_worst_of_them_loses_at_every_epsilon(losses):
    joint = p.parallel(losses, "add-remove")
    for epsilon in (0, 0.05, 0.3, 1, 1.9, 5):
        worst = max(loss.delta(epsilon) for loss in losses)
        assert worst <= joint.delta(epsilon) <= worst * (1 + 1e-12)
    assert joint.top == max(loss.top for loss in losses)
    assert joint.mass_at_infinity == max(loss.mass_at_infinity for loss in losses)
    assert joint.rho == max(loss.rho for loss in losses)
    zcdp = [loss.zcdp() for loss in losses]
    assert joint.zcdp().rho0 == max(z.rho0 for z in zcdp)
    assert joint.zcdp().delta0 == max(z.delta0 for z in zcdp)
    if all(loss.mass_at_infinity == 0 for loss in losses):
        assert joint.renyi(3) == max(loss.renyi(3) for loss in losses)


def test_a_unit_that_moves_between_parts_pays_for_both():
    a, b, c = p.Pure("0.5"), p.Pure("0.3"), p.Pure("0.3")
    for losses, apart, covered in (
        ([a, b], 1, 0.8), ([b, c], 0.6, 0.6), ([a, a, b], 1, 1), ([a], 1, 0.5), ([b, a], 1, 0.8),
    ):  # fmt: skip
        assert p.parallel(losses, "change-one").epsilon() == apart
        assert p.parallel(losses, "change-one", covers_change=True).epsilon() == covered
    with_sampled = [p.sample(p.Gaussian(1), "0.1"), p.sample(p.Gaussian(2), "0.3")]
    joint = p.parallel(with_sampled, "add-remove")
    sides = joint.pairs()
    assert len(sides) == 2
    for side, pair in enumerate(sides):
        for e in (0.01, 0.2, 1.0):
            at = np.array([e])
            each = [loss.pairs()[side] for loss in with_sampled]
            assert pair.forward(at) == max(one.forward(at) for one in each)
            assert pair.backward(at) == max(one.backward(at) for one in each)
        assert pair.top == max(loss.pairs()[side].top for loss in with_sampled)
        assert pair.bottom == max(loss.pairs()[side].bottom for loss in with_sampled)
    mixed = p.parallel([p.Gaussian(1), with_sampled[0]], "add-remove")
    assert len(mixed.pairs()) == 2


@pytest.mark.parametrize("keys", [1, 3, 500])
@pytest.mark.parametrize("sensitivity", [1, 4])
@pytest.mark.parametrize("min_count", [1, 10])
def test_the_delta_of_a_threshold_is_that_of_the_law_and_a_hair_more(keys, sensitivity, min_count):
    law, target = noise.DiscreteLaplace(3), Fraction(1, 10**6)
    at = p.key_threshold(law, target, keys, sensitivity=sensitivity, min_count=min_count)
    more = {"sensitivity": sensitivity, "min_count": min_count}
    with mpmath.workdps(50):
        r = mpmath.exp(-mpmath.mpf(1) / 3)
        for threshold in (at - 1, at, at + 5):
            margin = threshold - (min_count - 1 + sensitivity)
            q = r**margin / (1 + r)
            exact = 1 - (1 - q) ** keys
            found = p.key_threshold_delta(law, threshold, keys, **more)
            above = float(mpmath.mpf(found.numerator) / found.denominator / exact - 1)
            assert 1.4 * _keys._OUTWARD < above < 2.6 * _keys._OUTWARD
    assert p.key_threshold_delta(law, at, keys, **more) <= target
    assert p.key_threshold_delta(law, at - 1, keys, **more) > target
    assert p.key_threshold_delta(law, -9, keys, **more) <= 1
    assert p.key_threshold_delta(law, 10**6, keys, **more) == Fraction(1e-300)


def test_groups_of_a_loss_known_by_its_profile():
    base = p.sample(p.Laplace("0.4"), "0.3")
    group = p.group(base, 3)
    assert group.top == 3 * base.top
    assert group.rho == 9 * base.rho
    assert group.delta(0.99 * float(group.top)) > 0


def test_a_sample_of_nearly_everything_is_not_all_of_it():
    nearly = p.sample(p.Pure(1), Fraction(2**60 - 1, 2**60))
    assert nearly.delta(Fraction(1, 2)) == pytest.approx(p.Pure(1).delta(Fraction(1, 2)), rel=1e-9)
    for part in ({"alpha": 2}, {"epsilon": 1}):
        with pytest.raises(ParameterError, match="both alpha and epsilon"):
            p.Renyi(**part)


def test_a_threshold_may_ask_for_no_noise_at_all():
    """P(noise ≥ 0) = 0.731 and P(noise ≥ −1) = 0.901 at scale 1."""
    law = noise.DiscreteLaplace(1)
    assert [p.key_threshold(law, delta, 1) for delta in ("0.8", "0.7", "0.2")] == [1, 2, 3]
