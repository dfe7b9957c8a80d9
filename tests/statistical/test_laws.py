"""The draws follow exactly the laws they name.

One harness looks at a sample in five ways: χ² over bins of about equal exact
probability, binomial tests of both far tails at six depths, the sign, the low
bits (for wide laws, uniform to far below what the sample can see) and the mean
and variance. Each look has a nominal false-alarm probability of 1e-13, and one
sample is looked at in at most 16 ways; χ² is asymptotic (expected counts are
above 500), and a factor of six is left for it: ALARM is 1e-11 per test.

The same harness must reject every mutant: without that it would prove nothing.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from discreet.noise import DiscreteGaussian, DiscreteLaplace, Geometric, _cells, sum_of

LOOK = 1e-13
ALARM = 1e-11
fresh = pytest.mark.fresh(ALARM)
SCALES = ["1e-3", ".3", "1", "10", "300", "1e4", "1e9", str(2**40), str(2**55 - 1), str(2**60)]
LAWS = [DiscreteLaplace, DiscreteGaussian, Geometric]


def _bins(law, n):
    """Upper ends of bins with expected counts above 500 wherever the law allows."""
    levels = np.arange(step := max(1 / 250, 500 / n), 1, step)
    reach = 45 * law.std + 50
    low, high = np.full(levels.size, -reach), np.full(levels.size, reach)
    for _ in range(120):
        middle = (low + high) / 2
        enough = law.cdf(middle) >= levels
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    ends = sorted({math.floor(h) for h in high})
    return np.array(ends, dtype=object if max(map(abs, ends)) >= 2**62 else np.int64)


def _chi2(law, x):
    ends = _bins(law, x.size)
    cdf = np.array([law.cdf(int(e)) for e in ends])
    expected = np.diff(np.concatenate([[0.0], cdf, [1.0]])) * x.size
    # the last integers of a narrow law share a bin if they are too rare
    observed = np.bincount(np.searchsorted(ends, x, side="left"), minlength=ends.size + 1)
    keep = expected >= 500
    rest = ~keep
    if expected[rest].sum() >= 500:
        expected = np.append(expected[keep], expected[rest].sum())
        observed = np.append(observed[keep], observed[rest].sum())
    else:
        expected, observed = expected[keep], observed[keep]
        if (rest.any() and observed.sum() != x.size) or expected.size < 2:
            missing = x.size - observed.sum()
            return binomial(missing, x.size, max(0.0, 1 - expected.sum() / x.size))
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return float(stats.chi2.sf(statistic, expected.size - 1))


def binomial(count, n, p):
    """Two-sided exact tail probability, doubled."""
    if p <= 0:
        return 1.0 if count == 0 else 0.0
    low, high = stats.binom.cdf(count, n, p), stats.binom.sf(count - 1, n, p)
    return min(1.0, 2 * min(low, high))


def looks(law, x):
    """Return {look: p-value} for a sample that should follow `law`."""
    n = x.size
    found = {"chi2": _chi2(law, x)}
    for depth in (1e-1, 1e-2, 1e-3, 1e-4):
        c = law.interval(1 - depth).high
        found[f"upper tail {depth}"] = binomial(int((x > c).sum()), n, law.sf(c))
        if law.symmetric:
            found[f"lower tail {depth}"] = binomial(int((x < -c).sum()), n, law.sf(c))
    found["zero"] = binomial(int((x == 0).sum()), n, law.pmf(0))
    if law.symmetric:
        found["sign"] = binomial(int((x > 0).sum()), n, law.sf(0))
    if law.std > 2000:
        low_bits = np.bincount((x & 15).astype(np.int64), minlength=16)
        found["low bits"] = float(stats.chi2.sf(((low_bits - n / 16) ** 2 / (n / 16)).sum(), 15))
    if law.variance * n > 1e4:
        z = (x.astype(float) - law.mean) / law.std
        # fourth moments: 3 for the Gaussian, at most 6 + 1/variance beyond it for the others
        kurtosis = float(np.mean(z**4))
        found["mean"] = 2 * stats.norm.sf(abs(z.mean()) * math.sqrt(n))
        spread = math.sqrt(max(kurtosis - 1, 0.1) / n)
        found["variance"] = 2 * stats.norm.sf(abs((z**2).mean() - 1) / spread)
    return found


def accept(law, x):
    bad = {name: p for name, p in looks(law, x).items() if p < LOOK}
    assert not bad, f"{law!r}: {bad}"


def rejected(law, x):
    return any(p < LOOK for p in looks(law, x).values())


@fresh
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kind", LAWS)
def test_bulk_draws_follow_the_law(kind, scale):
    law = kind(scale)
    n = 200_000 if law.std > 2**57 else 1_000_000
    accept(law, law.sample(n))


@fresh
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kind", LAWS)
def test_small_draws_follow_the_law(kind, scale):
    law = kind(scale)
    accept(law, np.concatenate([law.sample(_cells.SMALL) for _ in range(400)]))


@fresh
@pytest.mark.parametrize("kind", LAWS)
def test_single_draws_follow_the_law(kind):
    law = kind("7/3")
    accept(law, np.concatenate([law.sample(1) for _ in range(10_000)]))


@fresh
@pytest.mark.long
@pytest.mark.parametrize("scale", SCALES[:-1])
@pytest.mark.parametrize("kind", LAWS)
def test_ten_million_bulk_draws_follow_the_law(kind, scale):
    accept(kind(scale), kind(scale).sample(10_000_000))


@fresh
@pytest.mark.parametrize("scale", ["0.5", "3", "1000", "1e12"])
@pytest.mark.parametrize("kind", LAWS)
def test_tail_cells_follow_the_law(kind, scale):
    """A heap whose tail holds up to a 64th of the mass drives the tail's code all the time."""
    law = kind(scale)
    heap = _cells.cells(law._kernel, bits=6, resolution=2, tail_bits=0)
    tail = law.sf(max(heap.tails) - 1) * (2 if law.symmetric else 1)
    # about 100 draws from the tail: ten or fewer have probability below 1e-28
    rounds = max(8, math.ceil(100 / (4096 * tail)))
    x = np.concatenate([_cells._draw_small(heap, 4096) for _ in range(rounds)])
    assert int((np.abs(x) >= max(heap.tails)).sum()) > 10
    accept(law, x)


@fresh
@pytest.mark.parametrize("scale", ["2", "5000"])
@pytest.mark.parametrize("kind", LAWS)
def test_exact_refinement_follows_the_law(kind, scale, monkeypatch):
    """With an absurd error bound every edge is settled by exact arithmetic."""
    monkeypatch.setattr(_cells, "MARGIN", 0.2)
    law = kind(scale)
    heap = _cells.cells.__wrapped__(law._kernel, bits=8, resolution=2)
    settled = 0
    settle = _cells._settle

    def counting(*args):
        nonlocal settled
        settled += 1
        return settle(*args)

    monkeypatch.setattr(_cells, "_settle", counting)
    x = np.concatenate([_cells._draw_small(heap, 2000) for _ in range(6)])
    assert settled > 500
    accept(law, x)


def test_narrow_laws_are_almost_surely_zero():
    for kind in LAWS:
        assert not kind("1e-9").sample(100_000).any()


@fresh
def test_sums_follow_the_summed_law():
    law = sum_of([DiscreteLaplace(5), DiscreteGaussian(3), Geometric(2)], counts=[2, 1, 3])
    x = law.sample(500_000)
    for k in (-20, -10, -3, 0, 3, 10, 25):
        assert binomial(int((x <= k).sum()), x.size, law.cdf(k)) > LOOK
    wide = DiscreteLaplace(10**9) + DiscreteGaussian(10**8)
    x = wide.sample(500_000)
    for k in (-(10**9), 0, 10**9):
        assert binomial(int((x <= k).sum()), x.size, wide.cdf(k)) > LOOK


# --- mutants: the same harness must refuse each of them -------------------------


def _scaled(law, factor):
    if isinstance(law, DiscreteGaussian):
        return DiscreteGaussian.from_variance(law.sigma2 * Fraction(factor) ** 2)
    return type(law)(law.scale * Fraction(factor))


def _half_tail(law, x):
    c = law.interval(0.999).high
    keep = (np.abs(x) <= c) | (np.arange(x.size) % 2 == 0)
    return x[keep]


MUTANTS = {
    "scale +5 %": lambda law, n: _scaled(law, "1.05").sample(n),
    "scale -5 %": lambda law, n: _scaled(law, "0.95").sample(n),
    "scale +1 %": lambda law, n: _scaled(law, "1.01").sample(n),
    "one too high": lambda law, n: law.sample(n) + 1,
    "half the tail": lambda law, n: _half_tail(law, law.sample(n)),
    "no tail": lambda law, n: (x := law.sample(n))[np.abs(x) <= law.interval(0.9999).high],
    "biased bit": lambda law, n: np.where(
        np.arange(n) % 25 == 0, law.sample(n) & ~np.int64(1), law.sample(n)
    ),
    "cells shifted by one": lambda law, n: _mutated_heap(law, n, "sure", lambda a: a + 1),
    "levels off by one": lambda law, n: _mutated_heap(law, n, "edge_level", lambda a: a + 1),
}


def _mutated_heap(law, n, field, change):
    from dataclasses import replace

    heap = _cells.cells(law._kernel)
    return _cells._draw_bulk(replace(heap, **{field: change(getattr(heap, field))}), n)


@pytest.mark.parametrize("mutant", MUTANTS)
@pytest.mark.parametrize("kind", LAWS)
def test_mutants_are_rejected(kind, mutant):
    law = kind(10)
    assert rejected(law, MUTANTS[mutant](law, 1_000_000))


@pytest.mark.parametrize("mutant", ["scale +5 %", "scale -5 %", "half the tail", "biased bit"])
@pytest.mark.parametrize("kind", LAWS)
def test_mutants_of_wide_laws_are_rejected(kind, mutant):
    law = kind(10**9)
    assert rejected(law, MUTANTS[mutant](law, 1_000_000))


def test_zero_counted_twice_is_rejected():
    law = DiscreteLaplace(10)
    n = 1_000_000
    sign = np.where(np.arange(n) % 2 == 0, 1, -1)
    assert rejected(law, sign * Geometric(10).sample(n))


def test_rounded_continuous_noise_is_rejected():
    rng = np.random.default_rng(1)
    assert rejected(DiscreteLaplace(1), np.rint(rng.laplace(0, 1, 1_000_000)).astype(np.int64))
