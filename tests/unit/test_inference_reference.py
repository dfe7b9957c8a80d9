"""Reference numbers: textbook examples, published tables, closed forms."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse, stats

from discreet import inference as inf
from discreet import mechanisms as m
from discreet.errors import NotProvedError, ParameterError
from discreet.noise import DiscreteGaussian, DiscreteLaplace

MARRIED = [1, 0, 0, 1, 0, 0]
A10 = np.vstack([np.eye(6), MARRIED, [0, 0, 0, 1, 1, 1]])
Y10 = [3, 0, -1, 4, 2, 4, 2, 7]


# -- noise only ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "low", "high"), [(1, 1.697415, 6.302585), (10, 3.769741, 4.230259)]
)
def test_laplace_interval_of_one_count(epsilon, low, high):
    found = inf.interval(4, 0.9, noise="laplace", epsilon=epsilon)
    assert found.low == pytest.approx(low, abs=1e-6)
    assert found.high == pytest.approx(high, abs=1e-6)


def test_simultaneous_laplace_intervals():
    z, noise = [5, -3, 1], {"noise": "laplace", "epsilon": 1, "sensitivity": 3}
    union = inf.interval(z, simultaneous="bonferroni", **noise)
    assert union.half_width == pytest.approx([12.2830] * 3, abs=1e-4)
    exact = inf.interval(z, simultaneous=True, **noise)
    assert exact.half_width == pytest.approx([-3 * math.log(1 - 0.95 ** (1 / 3))] * 3)


def test_simultaneous_margins_of_ten_cells():
    cells = np.zeros(10)
    laplace = inf.interval(cells, law=inf.Laplace(1), simultaneous=True).half_width[0]
    assert laplace == pytest.approx(5.2753, abs=1e-4)
    union = inf.interval(cells, law=inf.Laplace(1), simultaneous="bonferroni").half_width[0]
    assert union == pytest.approx(5.2983, abs=1e-4)
    gaussian = inf.interval(cells, law=inf.Gaussian(1), simultaneous=True).half_width[0]
    assert gaussian == pytest.approx(2.7996, abs=1e-4)


@pytest.mark.parametrize(
    ("epsilon", "ends"),
    [("1", (2, 3, 4)), (".1", (23, 30, 46)), (".5", (5, 6, 9)), ("2", (1, 1, 2))],
)
def test_geometric_intervals_have_integer_ends(epsilon, ends):
    for level, end in zip((0.9, 0.95, 0.99), ends, strict=True):
        found = inf.interval(0, level, noise="geometric", epsilon=epsilon)
        assert (found.low, found.high) == (-end, end)
        assert found.confidence >= level


def test_one_sided_intervals():
    lower = inf.interval(10, 0.95, law=inf.Laplace(1), side="lower")
    assert lower.low == pytest.approx(10 - math.log(10))
    assert lower.high == math.inf
    upper = inf.interval(10, 0.95, law=DiscreteLaplace(1), side="upper")
    law = DiscreteLaplace(1)
    c = 10 - upper.high
    assert 1 - law.cdf(c - 1) >= 0.95 > 1 - law.cdf(c)


@pytest.mark.parametrize(("copies", "margin"), [(2, 4.1130), (5, 6.3327), (10, 8.8612)])
def test_sums_of_laplace_noise(copies, margin):
    total = inf.noisy(np.zeros(copies), law=inf.Laplace(1)).sum()
    assert inf.interval(total).high == pytest.approx(margin, abs=1e-4)


def test_sums_of_releases_keep_exact_laws():
    a, b = inf.noisy(3, law=DiscreteLaplace(2)), inf.noisy(4, law=DiscreteGaussian(3))
    assert (a + b).noise.law == DiscreteLaplace(2) + DiscreteGaussian(3)
    assert (a + b).value == 7


@pytest.mark.parametrize(("count", "bias"), [(0, 0.42546), (2, 0.05758)])
def test_bias_of_clipping_geometric_counts(count, bias):
    assert inf.nonnegative_bias(DiscreteLaplace(1), count) == pytest.approx(bias, abs=1e-5)


def test_bias_of_clipping_continuous_counts():
    assert inf.nonnegative_bias(inf.Laplace(2), 3) == pytest.approx(math.exp(-1.5))
    z = 3 / 2
    expected = 2 * stats.norm.pdf(z) - 3 * stats.norm.cdf(-z)
    assert inf.nonnegative_bias(inf.Gaussian(2), 3) == pytest.approx(expected)


def test_a_release_and_its_interval_agree():
    release = m.geometric(1000, sensitivity=1, epsilon="0.1")
    assert tuple(inf.interval(release)) == tuple(release.interval())


def test_ratio_is_the_whole_range_when_the_denominator_may_be_zero():
    top, bottom = inf.noisy(50, law=inf.Laplace(1)), inf.noisy(1, law=inf.Laplace(10))
    assert tuple(inf.ratio_interval(top, bottom, low=0, high=9)) == (0, 9)
    assert math.isfinite(inf.ratio_interval(top, bottom, least=1).high)


# -- combining ------------------------------------------------------------------------------


def test_two_estimates_of_the_married():
    law = DiscreteLaplace(3)
    found = inf.inverse_variance([(2, law), (3 + 4, law + law)])
    assert found.value == pytest.approx(3.66667, abs=1e-5)
    assert found.variance == pytest.approx(11.8895, abs=1e-4)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_all_eight_answers_about_the_married(form):
    found = inf.combine(Y10, form(A10), DiscreteLaplace(3)).estimate(MARRIED)
    assert found.value == pytest.approx(3.54545, abs=1e-5)
    assert found.variance == pytest.approx(11.3491, abs=1e-4)


def test_combination_is_generalised_least_squares():
    rng = np.random.default_rng(3)
    A, y = rng.normal(size=(30, 8)), rng.normal(size=30)
    laws = [inf.Laplace(s) for s in rng.uniform(1, 5, 30)]
    combined = inf.combine(y, A, laws)
    W = np.diag([1 / law.variance for law in laws])
    cov = np.linalg.inv(A.T @ W @ A)
    w = rng.normal(size=8)
    found = combined.estimate(w)
    assert found.value == pytest.approx(w @ cov @ A.T @ W @ y)
    assert found.variance == pytest.approx(w @ cov @ w)
    assert combined.x @ w == pytest.approx(found.value)
    assert combined.covariance == pytest.approx(cov)


def test_sparse_and_dense_roads_agree(monkeypatch):
    dense = inf.combine(Y10, A10, DiscreteLaplace(3))
    monkeypatch.setattr("discreet.inference._combine.DENSE", 1)
    thin = inf.combine(Y10, A10, DiscreteLaplace(3))
    assert sparse.issparse(thin.A)
    assert thin.x == pytest.approx(dense.x, abs=1e-6)
    assert thin.estimate(MARRIED).variance == pytest.approx(dense.estimate(MARRIED).variance)
    assert thin.estimable(np.ones(6))


def test_splitting_laplace_wastes_and_splitting_gaussian_does_not():
    split = inf.inverse_variance([(0, inf.Laplace(1 / 0.3)), (0, inf.Laplace(1 / 0.7))])
    assert split.variance == pytest.approx(3.4483, abs=1e-4)
    sigma = {rho: math.sqrt(1 / (2 * rho)) for rho in (0.3, 0.7, 1)}
    gaussian = inf.inverse_variance([(0, inf.Gaussian(sigma[0.3])), (0, inf.Gaussian(sigma[0.7]))])
    assert gaussian.variance == pytest.approx(sigma[1] ** 2)


def test_queries_that_nobody_answered_are_refused():
    combined = inf.combine([5.0, 2.0], [[1, 1, 0], [0, 0, 1]], DiscreteLaplace(1))
    assert combined.inestimable() == [0, 1]
    assert combined.estimable([2, 2, 1])
    assert not combined.estimable([1, 0, 0])
    with pytest.raises(NotProvedError, match="do not determine"):
        combined.estimate([1, 0, 0])


def test_single_answer_interval_is_the_law_itself():
    found = inf.combine([7], [[1]], DiscreteLaplace(1)).estimate([1]).interval(0.95)
    assert tuple(found) == (4, 10)


def test_nonnegative_reconstruction_is_optimal_and_says_its_bias():
    found = inf.combine(Y10, A10, DiscreteLaplace(3)).nonnegative()
    from scipy.optimize import nnls

    assert found.x == pytest.approx(nnls(A10, np.array(Y10, dtype=float))[0], abs=1e-6)
    assert "biased" in found.bias
    assert found.shift > 0
    fixed = inf.combine(Y10, A10, DiscreteLaplace(3)).nonnegative(total=12)
    assert fixed.x.sum() == pytest.approx(12)
    assert (fixed.x >= 0).all()


@pytest.mark.parametrize("seed", range(5))
def test_nonnegative_reconstruction_matches_an_oracle(seed):
    from scipy.optimize import nnls

    rng = np.random.default_rng(seed)
    A = np.vstack([np.eye(40), rng.integers(0, 2, (25, 40))]).astype(float)
    y = A @ rng.poisson(0.5, 40) + rng.laplace(0, 3, 65)
    found = inf.combine(y, A, inf.Laplace(3)).nonnegative()
    best = np.linalg.norm(A @ nnls(A, y)[0] - y)
    assert np.linalg.norm(A @ found.x - y) == pytest.approx(best, rel=1e-6)


def test_a_million_cells():
    n = 1_000_000
    levels = [
        sparse.eye_array(n, format="csr"),
        sparse.kron(sparse.eye_array(1000), np.ones((1, 1000)), format="csr"),
    ]
    A = sparse.vstack(levels, format="csr")
    combined = inf.combine(np.zeros(A.shape[0]), A, DiscreteLaplace(1))
    found = combined.estimate(np.r_[np.ones(1000), np.zeros(n - 1000)])
    # the block's total and the sum of its thousand cells, weighted by precision
    expected = DiscreteLaplace(1).variance / (1 + 1 / 1000)
    assert found.variance == pytest.approx(expected, rel=1e-6)
    assert found.interval().half_width > 0


# -- proportions ----------------------------------------------------------------------------


def test_textbook_proportion_test():
    found = inf.proportion_test(value=34.21, n=100, p0=0.255, epsilon=0.5, noise="laplace")
    assert found.statistic == pytest.approx(1.99834, abs=1e-5)
    assert found.pvalue == pytest.approx(0.09224, abs=1e-5)
    naive = 2 * stats.norm.sf(found.statistic)
    assert naive == pytest.approx(0.04568, abs=1e-5)
    simulated = inf.proportion_test(
        value=34.21, n=100, p0=0.255, epsilon=0.5, method="montecarlo", draws=200_000, rng=5
    )
    assert simulated.pvalue == pytest.approx(0.09224, abs=0.004)
    assert "two-sided" in found.summary()
    assert 0.255 in found.confidence_interval(0.95)


@pytest.mark.parametrize(
    ("z", "epsilon", "low", "high"),
    [
        (30, ".5", 0.19721, 0.41566),
        (0, ".5", 0.0, 0.08040),
        (-3, ".5", 0.0, 0.04321),
        (30, "1", 0.20872, 0.40374),
    ],
)
def test_table_of_exact_proportion_intervals(z, epsilon, low, high):
    found = inf.proportion_interval(value=z, n=100, epsilon=epsilon, noise="geometric")
    assert found.low == pytest.approx(low, abs=1e-5)
    assert found.high == pytest.approx(high, abs=1e-5)
    assert "population" in found.covers


def test_interval_and_one_sided_tests_agree():
    law = DiscreteLaplace(2)
    found = inf.proportion_interval(value=30, n=100, law=law)
    low = inf.proportion_test(value=30, n=100, p0=found.low, law=law, alternative="greater")
    high = inf.proportion_test(value=30, n=100, p0=found.high, law=law, alternative="less")
    assert low.pvalue == pytest.approx(0.025, abs=1e-9)
    assert high.pvalue == pytest.approx(0.025, abs=1e-9)


def test_without_noise_it_is_clopper_pearson():
    found = inf.proportion_interval(value=30, n=100, epsilon=200, noise="geometric")
    oracle = stats.binomtest(30, 100).proportion_ci(0.95, "exact")
    assert tuple(found) == pytest.approx(tuple(oracle), abs=1e-9)


def test_proportion_tests_by_brute_force():
    rng = np.random.default_rng(11)
    for law in (inf.Gaussian(3), DiscreteGaussian(3), DiscreteLaplace(2)):
        noise = inf.noisy(0, law=law).noise.simulate(rng, 400_000)
        draws = rng.binomial(50, 0.3, 400_000) + noise
        exact = inf.proportion_test(value=21, n=50, p0=0.3, law=law, alternative="greater").pvalue
        assert exact == pytest.approx((draws >= 21).mean(), abs=0.005)


# -- UMP --------------------------------------------------------------------------------------


def test_tulap_and_intervals_of_awan_and_slavkovic():
    noise = inf.Tulap(math.exp(-1), 0.05)
    assert inf.ump_interval(7, 10, tulap=noise, alternative="greater").low == pytest.approx(
        0.384482, abs=1e-6
    )
    assert inf.ump_interval(2, 10, tulap=noise, alternative="less").high == pytest.approx(
        0.517379, abs=1e-6
    )
    both = inf.ump_interval(18, 30, tulap=noise)
    assert tuple(both) == pytest.approx((0.410721, 0.766710), abs=1e-6)
    assert inf.Tulap(0.3, 0.05).cdf(0.5) == pytest.approx(0.783401, abs=1e-6)
    assert inf.Tulap(math.exp(-1)).cdf(0.3) == pytest.approx(0.638635, abs=1e-6)


def test_upper_bound_without_truncation():
    found = inf.ump_interval(2, 10, epsilon=1, alternative="less").high
    assert found == pytest.approx(0.5463, abs=1e-4)


@pytest.mark.parametrize(
    ("epsilon", "power"),
    [(".0625", 0.0601), (".25", 0.0993), (".5", 0.1753), ("1", 0.304), ("2", 0.4017)],
)
def test_power_table_of_the_ump_test(epsilon, power):
    found = inf.ump_power(30, "0.8", "0.9", epsilon=epsilon)
    assert found == pytest.approx(power, abs=1e-4)
    assert inf.ump_power(30, "0.2", "0.1", epsilon=epsilon) == pytest.approx(found)


def test_truncation_follows_delta():
    noise = inf.Tulap.of(1, "0.01")
    b = math.exp(-1)
    assert noise.q == pytest.approx(0.02 * b / (1 - b + 0.02 * b))


# -- sampling and noise ------------------------------------------------------------------------


def test_normal_laplace_distribution():
    law = inf.NormalPlus(1, inf.Noise(inf.Laplace(1)))
    assert law.cdf(1) == pytest.approx(0.7406916, abs=1e-7)


@pytest.mark.parametrize(("s", "b", "q"), [(1, 1, 3.49513), (1, 0.2, 2.03779), (0.2, 1, 3.01573)])
def test_normal_laplace_quantiles(s, b, q):
    assert inf.NormalPlus(s, inf.Noise(inf.Laplace(b))).margin(0.95) == pytest.approx(q, abs=1e-5)
    found = inf.mean_interval(0, n=100, sd=10 * s, law=inf.Laplace(b))
    assert found.high == pytest.approx(q, abs=1e-5)


def test_fine_lattices_use_the_continuous_law_and_a_step():
    fine = inf.Noise(DiscreteLaplace(10_000), Fraction(1, 10_000))
    continuous = inf.NormalPlus(1, inf.Noise(inf.Laplace(1))).margin(0.95)
    assert 0 <= inf.NormalPlus(1, fine).margin(0.95) - continuous <= 2e-4
    coarse = inf.Noise(DiscreteLaplace(200), Fraction(1, 200))
    assert inf.NormalPlus(1, coarse).margin(0.95) == pytest.approx(continuous, abs=1e-3)


# -- χ², means, Karwa–Vadhan ---------------------------------------------------------------------


def test_critical_value_of_the_noisy_chisquare():
    """The 95 % point of the null, drawn anew with numpy alone: 12.1; Pearson's is 45.3.

    Off the constants the covariance of equal cells is n/4 + σ² = 250 + 800 (Laplace, scale 20).
    Draws are seeded: nothing here fails by chance.
    """
    rng = np.random.default_rng(7)
    null = rng.multinomial(1000, [0.25] * 4, 100_000) + rng.laplace(0, 20, (100_000, 4))
    forms = ((null - null.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) / 1050
    critical = float(np.quantile(forms, 0.95))
    z = 250 + np.array([1, -1, 1, -1]) * math.sqrt(critical * 1050 / 4)
    found = inf.chisquare_gof(z, n=1000, law=inf.Laplace(20), draws=40_000, rng=3)
    assert found.statistic == pytest.approx(critical)
    assert found.pvalue == pytest.approx(0.05, abs=0.01)


def test_quadratic_form_without_noise_is_pearson():
    z = np.array([300.0, 430, 270])
    found = inf.chisquare_gof(z, [0.3, 0.4, 0.3], n=1000, noise="gaussian", sigma=1e-4)
    oracle = stats.chisquare(z, [300, 400, 300])
    assert found.statistic == pytest.approx(oracle.statistic, rel=1e-4)
    assert found.pvalue == pytest.approx(oracle.pvalue, rel=1e-3)
    simulated = inf.chisquare_gof(z, [0.3, 0.4, 0.3], n=1000, law=inf.Laplace(1e-4), rng=1)
    assert simulated.statistic == pytest.approx(oracle.statistic, rel=1e-4)


@pytest.mark.parametrize("n", [500, None])
def test_the_form_is_that_of_the_inverse_of_the_covariance(n):
    """Beside numpy's pseudo-inverse, for a fit and, to first order, for independence."""
    p, z = np.array([0.6, 0.3, 0.07, 0.03]), np.array([290.0, 160, 41, 9])
    law = inf.Laplace(6)
    project = np.eye(4) - (0.25 if n else np.outer(p, np.ones(4)))
    covariance = 500 * (np.diag(p) - np.outer(p, p)) + 72 * np.eye(4)
    u = project @ z if n is None else project @ (z - 500 * p)
    oracle = u @ np.linalg.pinv(project @ covariance @ project.T) @ u
    found = inf.chisquare_gof(z, p, n=n, law=law, rng=1)
    assert found.statistic == pytest.approx(oracle, rel=1e-9)
    rows, columns = np.array([0.7, 0.3]), np.array([0.5, 0.4, 0.1])
    q = np.outer(rows, columns).ravel()
    u = np.array([1.0, -1, 0, -1, 1, 0])  # margins as under the null
    table = (500 * q + 9 * u).reshape(2, 3)
    down, across = np.kron(np.eye(2), columns[:, None]), np.kron(rows[:, None], np.eye(3))
    first, second = (np.eye(d) - (1 / d if n else 0) for d in (2, 3))
    sums = np.kron(np.eye(2), np.ones(3)), np.kron(np.ones(2), np.eye(3))
    project = np.eye(6) - down @ first @ sums[0] - across @ second @ sums[1]
    project += 0 if n else np.outer(q, np.ones(6))
    project = project if n is None else project @ (np.eye(6) - 1 / 6)
    covariance = project @ (500 * (np.diag(q) - np.outer(q, q)) + 72 * np.eye(6)) @ project.T
    oracle = 81 * u @ np.linalg.pinv(covariance, rcond=1e-9) @ u
    found = inf.chisquare_independence(table, n=n, law=law, rng=1)
    assert found.statistic == pytest.approx(oracle, rel=1e-6)


def test_independence_without_noise_is_pearson():
    table = np.array([[120.0, 80, 60], [90, 110, 140]])
    oracle = stats.chi2_contingency(table, correction=False)
    exact = {"noise": "gaussian", "sigma": 1e-3, "n": 600}
    form = inf.chisquare_independence(table, **exact)
    assert form.pvalue == pytest.approx(oracle.pvalue, abs=1e-3)
    simulated = inf.chisquare_independence(table, method="montecarlo", rng=1, **exact)
    assert simulated.statistic == pytest.approx(oracle.statistic, rel=1e-3)


def test_small_expected_counts_claim_nothing():
    found = inf.chisquare_independence([[3.0, 2], [2, 3]], law=inf.Laplace(1), rng=1)
    assert found.pvalue == 1
    assert "at most 5" in found.summary()


@pytest.mark.parametrize("law", [DiscreteLaplace(1), inf.Gaussian(1.4)], ids=["Laplace", "Gauss"])
def test_small_expected_counts_are_no_end_of_the_test(law):
    """A strong association of 100 people; counts from 1 are expected, and a plain test finds it."""
    found = inf.chisquare_independence(
        [[40.0, 6, 4, 1], [8, 22, 2, 3], [2, 1, 11, 0]], law=law, rng=1
    )
    assert found.pvalue < 0.01
    assert "Monte Carlo" in found.method


def test_cells_of_noise_alone_weigh_little():
    """Five sixths of the cells are empty: their noise had hidden the rest."""
    rng = np.random.default_rng(5)
    table = np.zeros((4, 6))
    table[:2, :2] = [[160, 80], [80, 160]]
    noise = inf.noisy(0, law=inf.Laplace(4)).noise.simulate(rng, (20, 4, 6))
    found = [
        inf.chisquare_independence(table + e, law=inf.Laplace(4), draws=99, rng=1) for e in noise
    ]
    assert sum(f.pvalue <= 0.05 for f in found) >= 15


def test_karwa_vadhan_half_width():
    x = np.random.default_rng(1).normal(70, 5, 500)
    found = inf.normal_mean_interval(x, epsilon=1, sigma=5, bound=1000)
    assert found.half_width == pytest.approx(2.63866, abs=1e-5)
    assert found.range[1] - found.range[0] == pytest.approx(128.430, abs=1e-3)
    assert found.loss.epsilon() == 1


def test_karwa_vadhan_unknown_variance_width():
    rng = np.random.default_rng(1)
    found = [
        inf.normal_mean_interval(
            rng.normal(70, 5, 10_000), epsilon=1, sigma_bounds=(0.1, 100), bound=1000
        )
        for _ in range(20)
    ]
    # one run deviates by .1; now and then noise swamps the variance and σ_max takes its place
    assert 2 * np.median([f.half_width for f in found]) == pytest.approx(2.2, abs=0.2)
    assert found[0].loss.epsilon() <= 1 + 1e-12


def test_karwa_vadhan_unbounded_mean_needs_delta_only():
    x = np.random.default_rng(1).normal(7e6, 5, 3000)
    found = inf.normal_mean_interval(x, epsilon=1, sigma=5, delta="1e-6")
    assert abs(found.mean - 7e6) < 5
    assert found.loss.delta(1) <= 1e-6 * (1 + 1e-9)
    with pytest.raises(ParameterError, match="too few"):
        inf.normal_mean_interval(x[:50], epsilon=1, sigma=5, delta="1e-6")


def test_two_sample_test_costs_what_it_says_and_reads_released_moments():
    # the noise is that of this test's name; fresh noise would miss -2 once in 1000 runs
    rng = np.random.default_rng(1)
    x, y = rng.normal(5, 1, 400), rng.normal(7, 1, 400)
    found = inf.two_sample_test(x, y, low=0, high=10, epsilon="0.8", rng=1)
    assert found.loss.epsilon() == 0.8
    assert found.loss.neighbours == "add-remove"
    assert found.statistic < 0
    assert -2 in found.confidence_interval(0.999)
    moments = [inf.moments(g, 0, 10, epsilon=1) for g in (x, y)]
    again = inf.two_sample_test(*moments, rng=1)
    assert again.loss is None
    assert again.pvalue < 0.05


def test_moments_are_exact_up_to_their_noise():
    x = np.linspace(-20, 20, 1001)
    found = inf.moments(x, -10, 10, epsilon=1e9)
    u = np.clip(x, -10, 10) / 10
    assert found.values == pytest.approx([1001, u.sum(), (u**2 - 0.5).sum()], abs=1e-2)
    assert inf.moments([math.nan, math.inf], -10, 10, epsilon=1e9).values[1] == pytest.approx(1)


def test_rank_statistics_are_the_classical_ones():
    rng = np.random.default_rng(4)
    x, y = rng.normal(0, 1, 30), rng.normal(0.3, 1, 40)
    found = inf.rank_test(x, y, epsilon=1e8, rng=1)
    oracle = stats.mannwhitneyu(x, y)
    assert found.statistic == 2 * oracle.statistic - 30 * 40
    assert found.pvalue == pytest.approx(oracle.pvalue, abs=0.03)
    pairs = inf.signed_rank_test(x, y[:30], epsilon=1e8, rng=1)
    oracle = stats.wilcoxon(y[:30], x, alternative="greater")
    assert pairs.statistic == 2 * oracle.statistic - 30 * 31 / 2
    assert pairs.pvalue == pytest.approx(stats.wilcoxon(y[:30], x).pvalue, abs=0.03)


@pytest.mark.parametrize("seed", range(20))
def test_rank_sensitivities_hold_on_random_neighbours(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 4, 6).astype(float), rng.integers(0, 4, 9).astype(float)

    def ranks(a, b):
        return inf.rank_test(a, b, epsilon=1e8, draws=19).statistic

    def signed(a, b):
        return inf.signed_rank_test(a, b, epsilon=1e8, draws=19).statistic

    x2, y2 = x.copy(), y.copy()
    x2[0], y2[0] = rng.choice([-100, 100]), rng.choice([-100, 100])
    assert abs(ranks(x, y) - ranks(x2, y)) <= 2 * 9
    assert abs(ranks(x, y) - ranks(x, y2)) <= 2 * 9
    assert abs(signed(x, y[:6]) - signed(x2, y[:6])) <= 2 * 6


def test_test_of_tests_hides_failures_of_the_public_test():
    def broken(part):
        raise RuntimeError(part)

    found = inf.test_of_tests(np.arange(100.0), broken, epsilon=1, parts=10, alpha0=0.1)
    assert found.loss.epsilon() == 1
    frame = {"a": np.arange(50), "b": np.arange(50)}
    seen = []
    inf.test_of_tests(frame, lambda t: seen.append(len(t["a"])) or 1.0, epsilon=1, parts=5)
    assert sum(seen) == 50


# -- utility ---------------------------------------------------------------------------------


def test_noise_size():
    size = inf.noise_size(DiscreteLaplace(2))
    k = np.arange(1, 400)
    assert size.mean_absolute == pytest.approx(2 * (k * DiscreteLaplace(2).pmf(k)).sum())
    assert inf.noise_size(inf.Gaussian(2)).mean_absolute == pytest.approx(
        2 * math.sqrt(2 / math.pi)
    )
    wide = inf.noise_size(DiscreteLaplace(10**7))
    assert wide.mean_absolute == pytest.approx(1e7, rel=1e-6)


def test_usefulness_and_accuracy_are_inverse():
    noise = {"noise": "laplace", "epsilon": 1, "sensitivity": 3, "cells": 3}
    alpha = inf.accuracy(None, 0.05, **noise)
    assert inf.usefulness(None, alpha, **noise) == pytest.approx(0.05)
    law = DiscreteLaplace(3)
    whole = inf.accuracy(None, 0.05, cells=3, law=law)
    assert inf.usefulness(None, whole, cells=3, law=law) <= 0.05
    assert inf.usefulness(None, whole - 1, cells=3, law=law) > 0.05


def test_accuracy_curve_and_its_chart():
    curve = inf.accuracy_curve(["0.1", "0.5", 1], cells=4)
    assert curve.margin == tuple(sorted(curve.margin, reverse=True))
    chart = curve.chart()
    assert len(chart["data"]["values"]) == 3
    own = inf.accuracy_curve([1, 2], margin_of=lambda e: 10 / float(e))
    assert own.margin == (10, 5)


def test_errors_of_synthetic_data():
    queries = np.array([[1, 1, 0], [0, 1, 1]])
    truth, synthetic = np.array([10, 5, 5]), np.array([9, 7, 4])
    found = inf.errors(queries @ truth, queries @ synthetic)
    assert (found.largest, found.mean_absolute) == (1.0, 1.0)
    runs = inf.usefulness_of_runs([0.0] * 100, alpha=1)
    assert runs.beta == 0
    assert runs.beta_upper == pytest.approx(1 - 0.05 ** (1 / 100))


def test_ranks_in_many_bins_say_that_few_find_more():
    """Three groups of 30, a deviation apart: 5 bins find them far more often than 20."""
    rng, law = np.random.default_rng(1), DiscreteLaplace(1)
    noise = inf.noisy(0, law=law).noise
    power = {}
    for many in (5, 20):
        edges = np.linspace(0, 1, many + 1)[1:-1]
        found = []
        for _ in range(60):
            x = [np.searchsorted(edges, rng.normal(m, 0.15, 30)) for m in (0.38, 0.5, 0.62)]
            table = np.array([np.bincount(own, minlength=many) for own in x])
            noisy = table + noise.simulate(rng, table.shape)
            found.append(inf.kruskal_test(noisy, law=law, draws=99, rng=1))
        power[many] = np.mean([f.pvalue <= 0.05 for f in found])
        noted = ["would find more" in str(f.parameters.get("note")) for f in found]
        assert np.mean(noted) == pytest.approx(float(many == 20), abs=0.35)
    assert power[5] > power[20] + 0.2
