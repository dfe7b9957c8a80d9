"""Clopper–Pearson audits of every mechanism, and of mutants that must be caught.

Each audit of an honest mechanism accuses it falsely with probability at most 1e-10. Honest
mechanisms and mutants go through the same harness: 2·10⁵ draws per side, half to find an event.
The noise is the same in every run (see the conftest), fresh in the long runs: that an audit
reaches what it should, and that a mutant is caught, are matters of power and not of chance.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from discreet import audit, noise
from discreet import mechanisms as m
from discreet.mechanisms import _exponential, _lattice, _median, _noisy_max, _refine
from discreet.mechanisms import _sparse_vector as svt

DRAWS = 200_000
CONFIDENCE = "0.9999999999"


def audited(x, y, epsilon, *, delta=0, draws=DRAWS):
    return audit.estimate(
        lambda sampler, n: sampler(n), x, y, epsilon, delta, draws, confidence=CONFIDENCE
    )


def passes(x, y, epsilon, *, delta=0, draws=DRAWS, reaches=0.0):
    """Not refuted, and (so that the audit is known to look) not far below the claim."""
    verdict = audited(x, y, epsilon, delta=delta, draws=draws)
    assert not verdict.violated, verdict
    assert verdict.epsilon_lower_bound >= reaches, verdict


def caught(x, y, epsilon, *, delta=0, draws=DRAWS):
    verdict = audited(x, y, epsilon, delta=delta, draws=draws)
    assert verdict.violated, verdict


def shifted(law, by):
    return lambda n: law.sample(n) + by


# -- additive ------------------------------------------------------------------


def test_laplace_on_integers():
    # a vector of n equal cells is n independent draws at the per-cell sensitivity
    def on(value):
        return lambda n: m.laplace(np.full(n, value), 1, 1, integer=True).value

    passes(on(10), on(11), 1, reaches=0.5)


@pytest.mark.parametrize("sensitivity", [2, 5])
def test_laplace_with_larger_sensitivity(sensitivity):
    law = m.laplace(0, sensitivity, 1, integer=True).law
    passes(law.sample, shifted(law, sensitivity), 1, reaches=0.5)


def test_laplace_on_reals_rounding_included():
    release = m.laplace(0.3, "0.7", 1)
    at = [int(_lattice.quantise(_lattice.read_values(v), release.step)[0]) for v in (0.3, 1.0)]
    passes(shifted(release.law, at[0]), shifted(release.law, at[1]), 1, reaches=0.5)


def test_laplace_vector_moves_in_every_cell():
    law = m.laplace([0, 0, 0], 3, 1, integer=True).law

    def total_sign(by):
        return lambda n: (law.sample(3 * n).reshape(n, 3) + by).clip(-3, 4) @ [1, 10, 100]

    passes(total_sign(0), total_sign(1), 1, reaches=0.5)


def test_geometric():
    law = m.geometric(0, 1, 2).law
    passes(law.sample, shifted(law, 1), 2, reaches=1.4)


def test_gaussian_at_its_delta():
    release = m.gaussian(0, 1, 1, "0.01", integer=True)
    passes(release.law.sample, shifted(release.law, 1), 1, delta="0.01", reaches=0.3)


def test_gaussian_audit_sees_that_delta_is_needed():
    release = m.gaussian(0, 1, 1, "0.1", integer=True)
    caught(release.law.sample, shifted(release.law, 1), 1, delta=0)


@pytest.mark.parametrize("mutant", ["half scale", "wrong sensitivity"])
def test_additive_mutants_are_caught(mutant):
    scale = m.laplace(0, 1, 1, integer=True).law.scale
    law = noise.DiscreteLaplace(scale / 2 if mutant == "half scale" else scale)
    caught(law.sample, shifted(law, 1 if mutant == "half scale" else 2), 1)


def test_gaussian_half_scale_is_caught():
    law = noise.DiscreteGaussian(m.gaussian(0, 1, 1, "0.01", integer=True).law.sigma / 2)
    caught(law.sample, shifted(law, 1), 1, delta="0.01")


def test_ten_percent_too_little_noise_is_caught():
    law = noise.DiscreteLaplace(m.laplace(0, 1, 1, integer=True).law.scale * Fraction(9, 10))
    caught(law.sample, shifted(law, 1), 1)


# -- selection -----------------------------------------------------------------

X, Y = [3, 3, 3, 3], [4, 2, 2, 2]  # one score up, the rest down: the worst neighbour
UP = [4, 3, 3, 3]


def exponential(scores, epsilon, *, monotone=False):
    design = m.Exponential(1, epsilon, monotone=monotone)
    return lambda n: noise.categorical_exp(scores, design.temperature, size=n)


def flip(scores, epsilon, *, monotone=False):
    design = m.Exponential(1, epsilon, monotone=monotone)
    gaps = _exponential._gaps(np.array(scores))
    return lambda n: _exponential.flip(gaps, design.temperature, n)


def noisy_max(scores, epsilon, kind="geometric", *, monotone=False, factor=None):
    scale = Fraction(factor or (1 if monotone else 2)) / epsilon
    return lambda n: _noisy_max.winners(np.array(scores), _noisy_max._law(kind, scale), n)


@pytest.mark.parametrize("mechanism", [exponential, flip, noisy_max])
def test_selection(mechanism):
    passes(mechanism(X, 2), mechanism(Y, 2), 2, reaches=0.5)


@pytest.mark.parametrize("mechanism", [exponential, flip, noisy_max])
def test_selection_on_monotone_scores(mechanism):
    passes(mechanism(X, 2, monotone=True), mechanism(UP, 2, monotone=True), 2, reaches=0.5)


@pytest.mark.parametrize("mechanism", [exponential, flip, noisy_max])
def test_monotone_noise_on_other_scores_is_caught(mechanism):
    caught(mechanism(X, 2, monotone=True), mechanism(Y, 2, monotone=True), 2)


def test_noisy_max_with_laplace_noise_and_many_ties():
    passes(noisy_max([0, 0], 2, "laplace"), noisy_max([1, -1], 2, "laplace"), 2, reaches=0.5)


def test_public_calls_draw_from_the_audited_cores():
    # 2000 public calls against the cores' frequencies; false alarm below 1e-10 (six sigma)
    for call, core in (
        (lambda: m.exponential(UP, 1, 2).value, exponential(UP, 2)),
        (lambda: m.permute_and_flip(UP, 1, 2).value, flip(UP, 2)),
        (lambda: m.noisy_max(UP, 1, 2, integer=True).value, noisy_max(UP, 2)),
    ):
        expected = np.mean(core(DRAWS) == 0)
        observed = np.mean([call() == 0 for _ in range(2000)])
        assert abs(observed - expected) < 6.5 * np.sqrt(0.25 / 2000)


def test_tie_breaking_by_index_is_not_what_we_do():
    wins = np.bincount(noisy_max([5, 5, 5], 1)(DRAWS), minlength=3) / DRAWS
    assert np.abs(wins - 1 / 3).max() < 7 * np.sqrt(2 / 9 / DRAWS)


# -- sparse vector -------------------------------------------------------------


def stopped(above, cutoff):
    """Apply the cutoff: answers after the c-th positive do not exist (−1)."""
    before = np.cumsum(above, axis=1) - above
    return np.where(before < cutoff, above, -1).astype(np.int64)


def halves(answers):
    """Positives in each half of the stream, as one number."""
    half = answers.shape[1] // 2
    left, right = (answers[:, :half] == 1).sum(axis=1), (answers[:, half:] == 1).sum(axis=1)
    return 1000 * left + right


def ours(values, epsilon, cutoff, *, monotone=False):
    plan = svt._plan(
        0, 1, epsilon, cutoff, monotone=monotone, numeric=None, step=1, neighbours=None
    )
    return lambda n: halves(stopped(plan.above(np.array(values), n), cutoff))


def broken(values, threshold_scale, question_scale, cutoff=None):
    """A sparse vector with the noise of one of Lyu et al.'s variants; threshold 0."""
    q = np.array(values)

    def run(n):
        bars = noise.DiscreteLaplace(threshold_scale).sample(n)[:, None]
        z = noise.DiscreteLaplace(question_scale).sample(n * q.size) if question_scale else 0
        above = q + np.reshape(z, (n, -1) if question_scale else ()) >= bars
        return halves(stopped(above, cutoff or q.size))

    return run


ZERO, SPREAD = [0] * 10, [1] * 5 + [-1] * 5
STEP = [0] * 10, [1] * 10


def test_sparse_vector():
    passes(ours([0, 1], 1, 1), ours([1, 0], 1, 1), 1, reaches=0.05)
    passes(ours(ZERO, 1, 5), ours(SPREAD, 1, 5), 1, reaches=0.02)


def test_sparse_vector_on_monotone_values():
    passes(ours(STEP[0], 1, 3, monotone=True), ours(STEP[1], 1, 3, monotone=True), 1, reaches=0.05)


def test_interactive_run_follows_the_audited_core():
    # 1500 interactive runs; false alarm below 1e-10
    core = np.mean(ours([0, 1], 1, 1)(DRAWS) == 1)

    def run():
        watch = m.SparseVector(0, 1, 1, step=1)
        return not watch.ask(0) and bool(watch.ask(1))

    assert abs(np.mean([run() for _ in range(1500)]) - core) < 6.5 * np.sqrt(0.25 / 1500)


def test_lyu_variant_3_reusing_the_comparison_noise_is_caught():
    # ε₁ = ε₂ = 1, c = 1; the value shown is the very q + ν that passed the threshold
    below = 6

    def run(values):
        q = np.array(values)

        def draw(n):
            bars = noise.DiscreteLaplace(1).sample(n)[:, None]
            noisy = q + noise.DiscreteLaplace(1).sample(n * q.size).reshape(n, -1)
            above = noisy >= bars
            last_only = ~above[:, :below].any(axis=1) & above[:, below]
            return np.where(last_only, noisy[:, below], -10_000)

        return draw

    caught(run([0] * (below + 1)), run([1] * (below + 1)), 2, draws=4 * DRAWS)


def test_lyu_variant_4_noise_not_scaled_with_the_cutoff_is_caught():
    caught(broken(ZERO, 4, Fraction(4, 3), 5), broken(SPREAD, 4, Fraction(4, 3), 5), 1)


def test_lyu_variant_5_no_noise_on_the_values_is_caught():
    caught(broken([0, 1], 2, None), broken([1, 0], 2, None), 1)


def test_lyu_variant_6_no_cutoff_is_caught():
    caught(broken(ZERO, 2, 2), broken(SPREAD, 2, 2), 1)


# -- randomized response -------------------------------------------------------


@pytest.mark.parametrize("categories", [2, 5])
def test_randomized_response_from_epsilon(categories):
    def on(answer):
        return lambda n: (
            m.randomized_response(np.full(n, answer), epsilon=1, categories=categories).value
        )

    passes(on(0), on(1), 1, reaches=0.5)


def test_randomized_response_from_p():
    def on(answer):
        return lambda n: m.randomized_response(np.full(n, answer), p="0.5").value

    passes(on(0), on(1), "1.0986123", reaches=0.8)
    caught(on(0), on(1), 1)


# -- key selection -------------------------------------------------------------


def released(count, design, copies=1):
    """Whether a key of this count is released, in n independent copies."""

    def draw(n):
        keys = design.select(dict.fromkeys(range(n * copies), count)).value if count else {}
        shown = np.zeros(n * copies, dtype=bool)
        shown[list(keys)] = True
        return shown.reshape(n, copies).any(axis=1).astype(np.int64)

    return draw


def test_threshold_keys_at_delta():
    design = m.KeyThreshold.design(1, "0.01")
    passes(released(1, design), released(0, design), 1, delta="0.01")


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_threshold_keys_with_several_groups(kind):
    design = m.KeyThreshold.design(1, "0.02", max_groups=3, noise=kind)
    passes(released(1, design, 3), released(0, design), 1, delta="0.02")


def test_threshold_one_too_low_is_caught():
    # the mutant compares with ≥ where the threshold was computed for >
    design = m.KeyThreshold.design(1, "0.01")
    mutant = m.KeyThreshold(
        design.law, design.threshold - 1, design.epsilon, design.delta, 1, False, design.neighbours
    )
    exact = float(m.KeyThreshold.design(1, threshold=design.threshold).delta)
    caught(released(1, mutant), released(0, mutant), 1, delta=str(exact * 1.05))


def test_delta_free_threshold_is_caught():
    design = m.KeyThreshold.design(1, threshold=2)
    caught(released(1, design), released(0, design), 1, delta="0.01")


def test_pre_threshold_keeps_delta():
    design = m.KeyThreshold.design(1, "0.01", min_count=5)
    passes(released(5, design), released(4, design), 1, delta="0.01")
    assert not released(4, design)(1000).any()


# -- smooth median -------------------------------------------------------------

DENSE = np.sort(np.r_[np.linspace(0.45, 0.55, 15), [0.0, 1.0] * 3])
MOVED = np.sort(np.r_[DENSE[:10], 1.0, DENSE[11:]])


def median_law(records, epsilon, delta):
    """Centre and noise scale of the mechanism, from its own parts."""
    low, high = Fraction(0), Fraction(1)
    x = _median._sorted_records(records, low, high)
    alpha = Fraction(epsilon) / 2
    beta = float(alpha) if delta is None else _median.laplace_beta(epsilon, delta)
    scale = _median._smooth_bound(x, _median._read_beta(beta), low, high) / alpha
    return Fraction(float(x[_median._middle(x)])), scale


@pytest.mark.parametrize("delta", [None, 0.01])
def test_smooth_median(delta):
    # the real law by NumPy: rounding it, as the mechanism does, is post-processing
    generator = np.random.default_rng(20260101)
    draw = generator.standard_cauchy if delta is None else generator.laplace

    def on(records):
        centre, scale = (float(v) for v in median_law(records, 2.0, delta))
        return lambda n: centre + scale * draw(size=n)

    passes(on(DENSE), on(MOVED), 2, delta=delta or 0, reaches=0.02)


def test_median_with_local_sensitivity_is_caught():
    # the classical mistake: noise scaled to the local sensitivity itself
    generator = np.random.default_rng(20260102)
    lone = [0.0] * 5 + [0.5] * 2 + [1.0] * 4  # all but constant here, and far from it next door

    def on(records):
        scale = m.local_sensitivity_median(records, 0, 1) + 1e-9
        return lambda n: 0.5 + scale * generator.standard_cauchy(size=n)

    caught(on([0.5] * 11), on([*lone[:5], 0.5, *lone[7:], 1.0]), 2)


@pytest.mark.parametrize("draw", [_refine.rounded_laplace, _refine.rounded_cauchy])
def test_rounded_draws_have_the_real_law(draw):
    # Kolmogorov distance of 4000 draws: P(D > t/√n) ≤ 2e^{−2t²}, 5e-11 at t = 3.5
    grid = Fraction(1, 2**30)
    x = np.sort([draw(Fraction(0), Fraction(1), grid).value / 2**30 for _ in range(4000)])
    if draw is _refine.rounded_laplace:
        cdf = np.where(x < 0, 0.5 * np.exp(-np.abs(x)), 1 - 0.5 * np.exp(-np.abs(x)))
    else:
        cdf = 0.5 + np.arctan(x) / np.pi
    steps = np.arange(1, 4001) / 4000
    assert max(np.abs(steps - cdf).max(), np.abs(steps - 1 / 4000 - cdf).max()) < 3.5 / 4000**0.5
