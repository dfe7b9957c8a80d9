"""Population intervals of means, by the exact law of two-valued columns.

Among columns of one range and one spread those with two values are the hardest: a sample that
holds too few of the rare ones has too small a sum of squares as well. Without noise an interval
follows from the number of rare rows alone, so that its coverage is a sum over a binomial law.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import discreet as dc
from discreet.inference._population import Moments, Sample

HIGH = 1000
SAMPLE = Sample(None)


def known(count, *sums):
    """Number, sum and (three of them) sum of squares of one sample, without noise."""
    values = np.array(sums[:count], dtype=float)
    return Moments(values, [None] * count, [*np.eye(count)], 0.0, float(HIGH), 1)


@cache
def ends(n, most, count, error):
    each = [known(count, n, x * HIGH, x * HIGH**2) for x in range(most + 1)]
    return np.array([SAMPLE._mean(moments, error)[0] for moments in each])


def worst(n, most, count, error=0.05):
    """Least coverage over shares p, of n rows of which at most `most` are rare."""
    low, high = ends(n, most, count, error).T
    rare = np.arange(most + 1)
    found = []
    for expected in np.arange(0.5, most / 2 + 0.01, 0.05):
        law = stats.binom.pmf(rare, n, expected / n)
        inside = (low <= HIGH * expected / n) & (HIGH * expected / n <= high)
        found.append(law[inside].sum() + 1 - law.sum())
    return min(found)


@pytest.mark.parametrize("count", [2, 3], ids=["alone", "beside its variance"])
@pytest.mark.parametrize(("n", "most"), [(50, 50), (100, 60), (200, 60), (2000, 60), (10**5, 60)])
def test_means_of_rare_values_are_covered(n, most, count):
    assert worst(n, most, count) >= 0.948


@pytest.mark.parametrize(("error", "least"), [(0.01, 0.98), (0.2, 0.8)])
def test_squares_cost_no_coverage_at_other_levels(error, least):
    assert worst(200, 60, 3, error) >= max(worst(200, 60, 2, error) - 1e-3, least)


@pytest.mark.parametrize("n", [50, 200, 2000, 10**5])
def test_knowing_the_squares_never_widens_a_mean(n):
    alone, beside = (np.diff(ends(n, min(n, 60), count, 0.05))[:, 0] for count in (2, 3))
    assert (beside <= alone * (1 + 1e-6)).all()


def test_squares_narrow_the_mean_of_what_is_not_rare():
    """A deviation of an eighth of the range: limits are those of the normal law, and a margin."""
    for n, more in ((400, 1.35), (2000, 1.12), (50_000, 1.03)):
        middle, deviation = HIGH / 2, HIGH / 8
        one = n, n * middle, n * (middle**2 + deviation**2)
        (low, high), _ = SAMPLE._mean(known(3, *one), 0.05)
        assert high - low <= more * 2 * 2.0047 * deviation / n**0.5


def test_a_variance_asked_too_leaves_the_mean_its_bound():
    """Few rows of a small deviation: the sum of squares says too little to be relied on."""
    rng = np.random.default_rng(3)
    x = np.clip(np.round(rng.lognormal(4, 0.8, 500)), 0, HIGH).astype(int)
    policy = {
        "policy": {"name": "x"},
        "budget": {"epsilon": "1e6", "accounting": "pure"},
        "tables": {"t": {"columns": {"x": {"type": "integer", "min": 0, "max": HIGH}}}},
    }
    asked = dc.open(pa.table({"x": x}), policy=policy, ledger=":memory:")
    widths = []
    for text in ("AVG(x) AS m", "AVG(x) AS m, STDDEV(x) AS s"):
        (row,) = asked.sql(f"SELECT {text} FROM t", epsilon=1000).interval(target="population")
        widths.append(row["m"][1] - row["m"][0])
    assert widths[1] <= 1.02 * widths[0] < 60


@cache
def variances(n, public):
    """Ends of VAR for every number of rows that hold the upper of two values."""
    found = []
    for x in range(n // 2 + 1):
        squares = x * HIGH**2 * (1 - x / n) if public else x * HIGH**2
        one = known(3, n, x * HIGH, squares)
        if public:
            one = Moments(one.values, one.laws, one.sums[:2], 0.0, float(HIGH), 1, one.sums[2])
        found.append(SAMPLE._variance(one, 0.05, root=False))
    return np.array([found[min(x, n - x)] for x in range(n + 1)])


@pytest.mark.parametrize("public", [False, True], ids=["number private", "number public"])
def test_variances_of_two_values_are_covered_up_to_the_largest(public):
    """Up to the fair coin, whose variance is the largest possible and lies on no grid of means."""
    n = 60
    low, high = variances(n, public).T
    for p in (0.5, 0.499, 0.49, 0.45, 0.4, 0.3, 0.2, 0.1, 0.05):
        value = p * (1 - p) * HIGH**2
        inside = (low <= value * (1 + 1e-12)) & (value * (1 - 1e-12) <= high)
        assert stats.binom.pmf(np.arange(n + 1), n, p)[inside].sum() >= 0.97, p


def test_the_variance_of_a_fair_coin_is_known_well():
    """No row is far from the mean: that one could decide said nothing of small variances."""
    n, largest = 1000, HIGH**2 / 4
    low, high = SAMPLE._variance(known(3, n, 505 * HIGH, 505 * HIGH**2), 0.05, root=False)
    assert 0.97 * largest < low
    assert high == pytest.approx(largest)
