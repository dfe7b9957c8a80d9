"""Many coins and dice: exact laws, ties included.

False alarms: each z-test allows 7 standard deviations (2.6e-12), each χ² test a p-value of
1e-12; about 20 tests, below 1e-10 together.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from discreet import noise
from discreet.errors import ParameterError
from discreet.noise import _flips
from discreet.noise._deterministic import deterministic


def z_score(hits, n, p):
    return (hits - n * p) / math.sqrt(n * p * (1 - p))


@pytest.mark.parametrize("p", ["1/2", "1/3", "1/256", "255/256", "100/256", "1/1000", "0.99999"])
def test_coins(p):
    n = 2_000_000
    hits = int(noise.bernoulli_many(p, n).sum())
    assert abs(z_score(hits, n, float(Fraction(p)))) < 7


TIE = Fraction((100 << 56) + (3 << 54), 1 << 64)
"""Leading byte 100, then three quarters: without the tie branch the mean is off by .75/256."""


def test_ties_are_decided_by_further_digits():
    n = 4_000_000
    assert abs(z_score(int(noise.bernoulli_many(TIE, n).sum()), n, float(TIE))) < 7


def test_mutant_without_the_tie_branch_is_caught(monkeypatch):
    monkeypatch.setattr(_flips, "_below_fraction", lambda rest, n: np.zeros(n, dtype=bool))  # noqa: ARG005
    n = 4_000_000
    assert abs(z_score(int(noise.bernoulli_many(TIE, n).sum()), n, float(TIE))) > 7


def test_second_ties_are_decided_exactly(monkeypatch):
    """Words forced to equal the second digit: what remains is the last fraction's coin."""
    rest = Fraction(1, 3)
    digit = int(rest * 2**64)

    class Stuck:
        tainted = False

        def words(self, n):
            return np.full(n, digit, dtype=np.uint64)

    monkeypatch.setattr(_flips._entropy, "current", Stuck)
    drawn = []
    monkeypatch.setattr(_flips, "uniform_below", lambda n: drawn.append(n) or 0)
    assert _flips._below_fraction(rest, 5).all()
    assert drawn == [3] * 5
    monkeypatch.setattr(_flips, "uniform_below", lambda _: 1)  # one third is 0 of 0, 1, 2
    assert not _flips._below_fraction(rest, 5).any()


def test_certain_coins_and_refusals():
    assert noise.bernoulli_many(1, 5).all()
    assert not noise.bernoulli_many(0, 5).any()
    assert noise.bernoulli_many("1/2", 0).shape == (0,)
    for bad in (-1, 2, "nan"):
        with pytest.raises(ParameterError):
            noise.bernoulli_many(bad, 3)


@pytest.mark.parametrize("n", [2, 3, 6, 64, 100, 256, 257, 1000])
def test_dice(n):
    size = 200_000
    drawn = noise.uniform_many(n, size)
    assert drawn.dtype == np.min_scalar_type(n - 1)
    counts = np.bincount(drawn, minlength=n)
    assert len(counts) == n
    assert stats.chisquare(counts).pvalue > 1e-12


def test_large_dice():
    for n in ((1 << 24) + 1, 1 << 40, (1 << 40) + 1, 1 << 63):
        drawn = noise.uniform_many(n, 10_000)
        assert int(drawn.max()) < n
        mean = float(drawn.astype(np.float64).mean()) / n
        assert abs(mean - 0.5) * math.sqrt(12 * 10_000) < 7
    assert noise.uniform_many(1, 4).tolist() == [0] * 4
    for bad in (0, -3, (1 << 63) + 1):
        with pytest.raises(ParameterError):
            noise.uniform_many(bad, 2)


def test_rejection_removes_the_bias_of_the_multiply(monkeypatch):
    """A 16-bit word times 200 favours some faces by one in 327; rejected words are drawn again."""
    words = np.arange(1 << 16, dtype=np.uint16)

    def every_word_once(n, kind):
        # rejected draws are replaced by the word 65535, which is never rejected
        return words.copy() if n == 1 << 16 else np.full(n, 65_535, dtype=kind)

    monkeypatch.setattr(_flips, "_small_words", every_word_once)
    counts = np.bincount(_flips._lemire(200, 1 << 16), minlength=200)
    rejected = (1 << 16) % 200
    counts[199] -= rejected
    assert (counts == (1 << 16) // 200).all()


def test_draws_of_the_test_source_are_marked():
    with deterministic(3):
        assert noise.is_tainted(noise.bernoulli_many("1/3", 4))
        assert noise.is_tainted(noise.uniform_many(6, 4))
        assert noise.is_tainted(noise.uniform_many(8, 4))
    assert not noise.is_tainted(noise.uniform_many(6, 4))


# -- packed bits ---------------------------------------------------------------------------


@pytest.mark.parametrize("p", ["1/2", "1/3", "1/256", "100/256", "1/1000", "0.99999", "1/7"])
def test_packed_coins(p):
    n = 40_000
    words = noise.bernoulli_bits(p, n)
    hits = int(np.bitwise_count(words).sum())
    assert abs(z_score(hits, 64 * n, float(Fraction(p)))) < 7


def test_packed_coins_are_independent_between_lanes_and_words():
    """Counts of all 16 patterns of four neighbouring lanes, and of lane 0 in word pairs."""
    p = Fraction(1, 3)
    words = noise.bernoulli_bits(p, 100_000)
    patterns = np.bincount((words >> np.uint64(17)).astype(np.int64) & 15, minlength=16)
    law = [float(p) ** i.bit_count() * float(1 - p) ** (4 - i.bit_count()) for i in range(16)]
    assert stats.chisquare(patterns, np.array(law) * patterns.sum()).pvalue > 1e-12
    lane = (words & np.uint64(1)).astype(np.int64)
    pairs = np.bincount(2 * lane[::2] + lane[1::2], minlength=4)
    law = [float(1 - p) ** 2, float(p * (1 - p)), float(p * (1 - p)), float(p) ** 2]
    assert stats.chisquare(pairs, np.array(law) * pairs.sum()).pvalue > 1e-12


def test_packed_coins_decide_the_digits_beyond_the_first_eight():
    """p = 1/512: decided by the ninth digit, in words that the first eight left open."""
    words = noise.bernoulli_bits("1/512", 100_000)
    hits = int(np.bitwise_count(words).sum())
    assert abs(z_score(hits, 6_400_000, 1 / 512)) < 7


def test_mutant_packed_coins_that_stop_after_eight_digits(monkeypatch):
    """1/512 has its only digit at place nine: stopping early never draws a 1."""
    plain = np.flatnonzero
    monkeypatch.setattr(_flips.np, "flatnonzero", lambda x: plain(x)[:0])
    words = noise.bernoulli_bits("1/512", 100_000)
    monkeypatch.undo()
    assert abs(z_score(int(np.bitwise_count(words).sum()), 6_400_000, 1 / 512)) > 7


def test_certain_packed_coins_and_refusals():
    assert (noise.bernoulli_bits(1, 3) == np.uint64(2**64 - 1)).all()
    assert not noise.bernoulli_bits(0, 3).any()
    assert noise.bernoulli_bits("1/3", 0).shape == (0,)
    with pytest.raises(ParameterError):
        noise.bernoulli_bits("3/2", 3)
    with deterministic(3):
        assert noise.is_tainted(noise.bernoulli_bits("1/3", 4))
