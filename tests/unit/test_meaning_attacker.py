"""The attacker's view: closed forms, references, and brute force over small mechanisms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet import meaning, noise
from discreet import privacy as p
from discreet.errors import ParameterError


@pytest.mark.parametrize(
    ("epsilon", "pure", "laplace", "at_1", "at_5"),
    [
        ("0.1", 0.050, 0.049, 1.1, 5.5),
        ("0.5", 0.245, 0.221, 1.6, 8.2),
        (1, 0.462, 0.393, 2.7, 13.6),
        (2, 0.762, 0.632, 7.4, 36.9),
        (4, 0.964, 0.865, 54.6, 98.3),
    ],
)
def test_research_table(epsilon, pure, laplace, at_1, at_5):
    view = meaning.attacker(epsilon)
    assert view.advantage == pytest.approx(pure, abs=6e-4)
    assert meaning.attacker(p.Laplace(epsilon)).advantage == pytest.approx(laplace, abs=6e-4)
    assert 100 * view.tpr(0.01) == pytest.approx(at_1, abs=0.06)
    assert 100 * view.tpr(0.05) == pytest.approx(at_5, abs=0.06)


def test_gaussian_with_mu_one():
    view = meaning.attacker(p.Gaussian(1))
    assert view.advantage == pytest.approx(0.38292, abs=5e-6)
    assert view.tpr(0.01) == pytest.approx(0.09236, abs=5e-6)
    assert view.tpr(0.05) == pytest.approx(0.25951, abs=5e-6)


def test_laplace_curve():
    view = meaning.attacker(p.Laplace(1))
    misses = [1 - view.tpr(a) for a in (0.01, 0.1, 0.3)]
    assert misses == pytest.approx([0.972817, 0.728172, 0.306566], abs=1e-6)


def test_bayes_error_at_even_odds():
    """A published tool calls 0.30327 an accuracy; it is the share of wrong guesses."""
    assert 1 - meaning.attacker(p.Laplace(1)).accuracy() == pytest.approx(0.30327, abs=5e-6)


def test_geometric_count_attains_the_pure_bound():
    view = meaning.attacker(p.DiscreteLaplace(1, 1))
    assert view.advantage == pytest.approx(math.tanh(0.5), rel=1e-9)


# -- brute force --------------------------------------------------------------------------


def _laws(scale=2.0, reach=60):
    law = noise.DiscreteLaplace(scale)
    k = np.arange(-reach, reach + 1)
    return law.pmf(k), law.pmf(k - 1)


def _best_accuracy(with_, without, prior):
    return np.maximum(prior * with_, (1 - prior) * without).sum()


@pytest.mark.parametrize("prior", ["0.01", "0.3", "0.5", "0.9"])
def test_accuracy_is_that_of_the_best_guess(prior):
    with_, without = _laws()
    view = meaning.attacker(p.DiscreteLaplace(2, 1))
    best = _best_accuracy(with_, without, float(prior))
    assert best <= view.accuracy(prior) <= best + 1e-9


def test_no_attribute_attack_beats_the_curve():
    """A secret category moves a noisy count by its code; every decision rule is tried."""
    law, k = noise.DiscreteLaplace(1), np.arange(-60, 61)
    codes = np.array([-1, 0, 1])  # change from the world without the person: at most 1
    prior = np.array([0.4, 0.2, 0.4])
    joint = prior[:, None] * np.array([law.pmf(k - c) for c in codes])
    success = joint.max(axis=0).sum()
    view = meaning.attacker(p.DiscreteLaplace(1, 1))
    assert success <= view.success("0.4")
    assert success > 0.4 + 0.2  # the mutant bound "no better than the baseline" fails


def test_exceptional_outputs_are_as_rare_as_stated():
    with_, without = _laws()
    noisy = np.log(with_ / without)
    gauss = p.DiscreteGaussian(2, 1)
    law, k = noise.DiscreteGaussian(2), np.arange(-40, 41)
    loss = np.log(law.pmf(k) / law.pmf(k - 1))
    for eta in ("1e-2", "1e-4", "1e-6"):
        t = math.log(meaning.attacker(gauss).factor(eta))
        assert law.pmf(k)[loss > t].sum() <= float(eta)
        pure = math.log(meaning.attacker(p.DiscreteLaplace(2, 1)).factor(eta))
        assert noisy.max() <= pure + 1e-9
    assert meaning.attacker(p.Pure(1)).factor(0) == pytest.approx(math.e)
    assert meaning.attacker(p.Gaussian(1)).factor(0) == math.inf


def test_curve_is_monotone_and_never_below_chance():
    for loss in (p.Pure(1), p.Gaussian("0.5"), p.Approx(1, "0.01")):
        # two searches for the same supremum, each a bound
        fpr, tpr = meaning.attacker(loss).curve().T
        assert (np.diff(tpr) >= -1e-12).all()
        assert (tpr >= fpr - 1e-9).all()
        exact = [meaning.attacker(loss).tpr(a) for a in fpr[::50]]
        assert np.abs(tpr[::50] - exact).max() < 2e-3


# -- groups, batches, bad input ---------------------------------------------------------------


def test_groups_use_the_sharpest_form_of_the_loss():
    assert meaning.attacker(p.Gaussian("0.5"), group=2).advantage == pytest.approx(
        meaning.attacker(p.Gaussian(1)).advantage
    )
    assert meaning.attacker("0.25", group=4).advantage == pytest.approx(math.tanh(0.5))


def test_a_batch_is_composed_tightly():
    batch = meaning.attacker([p.Gaussian("0.6"), p.Gaussian("0.8")])
    assert batch.advantage == pytest.approx(0.38292, abs=5e-6)
    assert meaning.attacker([p.Pure("0.1")] * 5).advantage < math.tanh(0.25)


def test_reidentification_and_reconstruction_start_from_their_baselines():
    view = meaning.attacker(1)
    assert view.reidentification(100) == pytest.approx(view.success("0.01"))
    assert view.reconstruction(10) == pytest.approx(math.e / 1024, rel=1e-6)
    assert "100 candidates" in repr(view)


@pytest.mark.parametrize(
    "call",
    [
        lambda v: v.tpr(-0.1),
        lambda v: v.tpr(1.1),
        lambda v: v.success(0),
        lambda v: v.success(1),
        lambda v: v.reidentification(1),
        lambda v: v.reconstruction(0),
        lambda v: v.reconstruction(10**9),
        lambda v: v.accuracy(0),
        lambda v: v.factor(1),
    ],
)
def test_bad_questions_are_refused(call):
    with pytest.raises(ParameterError):
        call(meaning.attacker(1))


def test_bad_losses_are_refused():
    for bad in ([], -1, "x", None):
        with pytest.raises(ParameterError):
            meaning.attacker(bad)
