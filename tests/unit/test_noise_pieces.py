"""Uniform, Bernoulli, permutation and softmax draws, and the exact comparisons below them.

Statistical checks here use binomial or χ² tests at 1e-12 each, about 100 of
them: a run fails by chance with probability below 1e-9.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from discreet.errors import ParameterError
from discreet.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    Geometric,
    _cells,
    _compare,
    _entropy,
    _uniform,
    bernoulli,
    bernoulli_exp,
    bernoulli_exp_many,
    categorical_exp,
    permutation,
    random_words,
    uniform_below,
)

LOOK = 1e-12


def binomial(count, n, p):
    low, high = stats.binom.cdf(count, n, p), stats.binom.sf(count - 1, n, p)
    return min(1.0, 2 * min(low, high))


def chi2(observed, p):
    observed, expected = np.asarray(observed), np.asarray(p) * np.sum(observed)
    return float(stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), expected.size - 1))


class Scripted:
    """A word source that replays what it is given, and fails when it runs out."""

    tainted = False

    def __init__(self, words):
        self.left = list(words)

    def words(self, n):
        taken, self.left = self.left[:n], self.left[n:]
        assert len(taken) == n, "more words were read than the script holds"
        return np.array(taken, dtype=np.uint64)

    def stream(self):
        return self

    def fill(self, out):
        out[:] = self.words(out.size)


@pytest.fixture
def script():
    tokens = []

    def use(words):
        source = Scripted(words)
        tokens.append(_entropy.OVERRIDE.set(source))
        return source

    yield use
    for token in reversed(tokens):
        _entropy.OVERRIDE.reset(token)


# --- exact comparison -----------------------------------------------------------


@given(
    st.fractions(min_value=0, max_value=2000, max_denominator=10**9),
    st.integers(min_value=10, max_value=80),
)
def test_exp_bounds_enclose(y, digits):
    low, high = _compare.exp_bounds(y, digits)
    with mpmath.workdps(1200):
        true = mpmath.exp(-mpmath.mpf(y.numerator) / y.denominator)
        assert mpmath.mpf(low.numerator) / low.denominator <= true
        assert true <= mpmath.mpf(high.numerator) / high.denominator
    assert high - low <= high * Fraction(1, 10 ** (digits - 2))


def _bits_of(y, factor, offset, words):
    """Return the first `words` 64-bit words of factor·exp(−y) − offset."""
    with mpmath.workprec(64 * words + 200):
        t = mpmath.mpf(factor.numerator) / factor.denominator
        t = t * mpmath.exp(-mpmath.mpf(y.numerator) / y.denominator) - offset
        assert 0 < t < 1
        digits = int(mpmath.floor(t * mpmath.mpf(2) ** (64 * words)))
    return [digits >> (64 * (words - 1 - i)) & (2**64 - 1) for i in range(words)]


@pytest.mark.parametrize("depth", [1, 2, 3, 6])
@pytest.mark.parametrize(
    ("y", "factor", "offset"),
    [
        (Fraction(1), Fraction(1), 0),
        (Fraction(1, 3), Fraction(7, 2), 2),
        (Fraction(355, 113), Fraction(10**6), 43213),
        (Fraction(30), Fraction(1), 0),
        (Fraction(60), Fraction(5), 0),
        (Fraction(1, 2**70), Fraction(1), 0),
    ],
)
def test_ties_are_read_on_until_they_break(script, y, factor, offset, depth):
    """U agrees with t for `depth` words; the word after decides, either way."""
    words = _bits_of(y, factor, offset, depth + 1)
    for change, answer in ((-1, True), (+1, False)):
        if not 0 <= words[depth] + change < 2**64:
            continue
        source = script([*words[1:depth], words[depth] + change])
        assert _compare.below_scaled_exp(words[0], y, factor, offset) is answer
        assert not source.left


def test_probabilities_too_small_to_write_down_are_not_zero(script):
    """exp(−10⁴) needs 14 427 zero bits; only then is its exponential worked out."""
    zeros = math.floor(10**4 / math.log(2)) // 64
    words = _bits_of(Fraction(10**4), Fraction(1), 0, zeros + 2)
    assert not any(words[:zeros])
    source = script([*words[1 : zeros + 1], words[zeros + 1] - 1])
    assert _compare.below_scaled_exp(words[0], Fraction(10**4), Fraction(1)) is True
    assert not source.left
    source = script([1])
    assert _compare.below_scaled_exp(0, Fraction(10**12), Fraction(1)) is False


# --- the table sampler, driven by hand ------------------------------------------


@pytest.mark.parametrize(
    "law",
    [DiscreteLaplace("7.3"), DiscreteGaussian(1000), Geometric(10**9), DiscreteLaplace(2**58)],
    ids=repr,
)
@pytest.mark.parametrize("above", [False, True])
def test_a_tie_at_an_edge_is_settled_by_the_next_word(script, law, above):
    heap = _cells.cells(law._kernel, bits=12, resolution=3)
    tried = 0
    for cell in range(len(heap.tails), heap.edges, 11):
        log, level = int(heap.edge_log[cell]), heap.edge_level[cell]
        if not np.isfinite(level):
            continue
        factor = Fraction(1 << log) / Fraction(heap.area)
        offset = (1 << log) // 2
        x = (int(heap.edge_low[cell]) << heap.unit) + offset
        with mpmath.workprec(400):
            y = law._kernel.exponent(x)
            t = mpmath.exp(-mpmath.mpf(y.numerator) / y.denominator)
            t = t * factor.numerator / factor.denominator - int(level)
            if not 0 < t < 1:
                continue
        first, second = _bits_of(y, factor, int(level), 2)
        if not 0 < second < 2**64 - 1:
            continue
        tried += 1
        place = offset << (64 - log) if log else 0
        source = script([place, first, second + (1 if above else -1)])
        trial = _cells._try(heap, np.array([cell]), source)
        assert not source.left
        assert bool(trial.kept[0]) is not above
        assert (int(trial.low[0]) << heap.unit) + int(trial.offset[0]) == x
    assert tried > 3


@pytest.mark.parametrize("law", [DiscreteLaplace(90), DiscreteGaussian("0.4")], ids=repr)
def test_a_few_draws_reach_every_sure_cell(script, law):
    heap = _cells.cells(law._kernel, bits=12, resolution=3)
    tries = 1 + 1 // 4 + 16
    for cell in (heap.edges, (heap.edges + 4095) // 2, 4095):
        word, places = cell << 52, [2**64 - 1] * tries
        source = script([word] * tries + places + [0] * (2 * tries))
        assert _cells._draw_small(heap, 1).tolist() == [heap.sure[cell] + (1 << heap.shift) - 1]
        assert not source.left


@pytest.mark.parametrize("cell", [0, 1])
@pytest.mark.parametrize("law", [DiscreteLaplace("1e-3"), DiscreteGaussian(5)], ids=repr)
def test_the_tail_is_reached_by_one_word_in_very_many_and_then_left_to_exact_arithmetic(
    script, law, cell, monkeypatch
):
    heap = _cells.cells(law._kernel)
    asked = []
    monkeypatch.setattr(_cells, "_tail", lambda *args: asked.append(args[1]) or 10**30)
    source = script([0, 2**40])
    trial = _cells._try(heap, np.array([cell]), source)
    assert not asked
    assert not trial.kept[0]
    source = script([0, 0])
    trial = _cells._try(heap, np.array([cell]), source)
    assert asked == [cell]
    assert trial.kept[0]
    assert trial.beyond == {0: 10**30}


@pytest.mark.parametrize("law", [DiscreteLaplace(40), DiscreteGaussian(5)], ids=repr)
@pytest.mark.parametrize("tail_bits", [3, 20, 48])
def test_the_tail_is_asked_for_by_every_word_below_its_share(script, law, tail_bits, monkeypatch):
    kernel = law._kernel
    heap = _cells.cells.__wrapped__(kernel, bits=10, resolution=3, tail_bits=tail_bits)
    asked = []
    monkeypatch.setattr(_cells, "_tail", lambda *args: asked.append(args[2]))
    for cell, tail in enumerate(heap.tails):
        with mpmath.workprec(200):
            rate, y = (mpmath.mpf(v.numerator) / v.denominator
                       for v in (kernel.rate(tail), kernel.exponent(tail)))  # fmt: skip
            share = mpmath.exp(-y) / (mpmath.mpf(heap.area) * (1 - mpmath.exp(-rate)))
            edge = int(mpmath.floor(share * 2**64))
        assert 0 <= edge < 2 ** (64 - tail_bits)
        for word in (0, edge // 2, edge):
            _cells._try(heap, np.array([cell]), script([0, word]))
            assert asked.pop() == word
        _cells._try(heap, np.array([cell]), script([0, edge + edge // 2**30 + 2]))
        assert not asked


def test_a_draw_beyond_63_bits_widens_the_array(monkeypatch):
    law = DiscreteLaplace(3)
    heap = _cells.cells(law._kernel)
    heap = replace(heap, edge_height=np.where(np.arange(heap.edges + 1) < 2, 0.0, np.inf))
    monkeypatch.setattr(_cells, "_tail", lambda *_: -(2**70))
    x = _cells._draw_bulk(heap, 200_000)
    assert x.dtype == object
    assert min(x) == -(2**70)
    assert (x == -(2**70)).mean() < 0.001


def test_tail_probability_is_exact(script):
    """The tail of Laplace(1/5) from t = 1: threshold e^{-5}/(c(1−e^{-5})), by hand."""
    law = DiscreteLaplace("0.2")
    heap = _cells.cells(law._kernel, bits=6, resolution=2, tail_bits=0)
    tail = heap.tails[0]
    with mpmath.workprec(300):
        t = mpmath.exp(-5 * tail) / (mpmath.mpf(heap.area) * (1 - mpmath.exp(-5)))
        word = int(mpmath.floor(t * 2**64))
        second = int(mpmath.floor((t * 2**64 - word) * 2**64))
    assert 0 < t < 1
    script([second + 1])
    assert _cells._tail(heap, 0, word) is None
    script([second - 1, *([2**63] * 50)])
    assert _cells._tail(heap, 0, word) >= tail


@pytest.mark.parametrize(
    "law",
    [DiscreteLaplace("0.2"), DiscreteLaplace(30), DiscreteGaussian(3), DiscreteGaussian(400)],
    ids=repr,
)
def test_bounds_on_a_tail_hold_it_between_them_at_any_number_of_digits(law, monkeypatch):
    """The threshold is e^{−f(t)}/c(1 − e^{−λ}), λ being the step of f at t, by hand."""
    heap, told = _cells.cells(law._kernel, bits=10, resolution=3), []
    monkeypatch.setattr(_cells, "less_than", lambda _word, bounds, _upper: told.append(bounds))
    assert _cells._tail(heap, 0, 0) is None
    t, kernel = heap.tails[0], law._kernel
    with mpmath.workdps(60):
        a, b = (mpmath.mpf(x.numerator) / x.denominator
                for x in map(Fraction, (kernel.linear, kernel.square)))  # fmt: skip
        step = a + 2 * b * t  # f at one more is larger by at least this
        exact = mpmath.exp(-t * (a + b * t)) / (mpmath.mpf(heap.area) * -mpmath.expm1(-step))
        for digits in (*range(1, 30, 3), 40):
            low, high = (mpmath.mpf(x.numerator) / x.denominator for x in told[0](digits))
            assert low <= exact <= high
        assert high - low < exact * mpmath.mpf(10) ** -15


@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(5, 2), Fraction(7, 5)])
def test_the_geometric_law_without_a_table(rate):
    x = np.array([_cells.geometric(rate) for _ in range(4000)])
    for k in range(3):
        p = -math.expm1(-(k + 1) * float(rate))
        assert binomial(int((x <= k).sum()), x.size, p) > LOOK


@given(
    st.fractions(min_value=Fraction(1, 10**4), max_value=10**15, max_denominator=10**6),
    st.sampled_from(["laplace", "gaussian", "geometric"]),
)
def test_heaps_are_well_formed(scale, kind):
    """Cells that are called sure lie under f, and those of a bucket cover it."""
    law = {"laplace": DiscreteLaplace, "gaussian": DiscreteGaussian, "geometric": Geometric}
    kernel = law[kind](scale)._kernel
    heap = _cells.cells.__wrapped__(kernel, bits=12, resolution=3)
    assert heap.sure.size == 1 << heap.bits
    lows, counts = np.unique(heap.sure[heap.edges :], return_counts=True)
    width = 1 << heap.shift
    area = Fraction(heap.area)
    for low, count in list(zip(lows.tolist(), counts.tolist(), strict=True))[
        :: max(1, lows.size // 5)
    ]:
        far = max(abs(low), abs(low + width - 1))
        lowest = _compare.exp_bounds(kernel.exponent(far), 30)[0]
        assert count * area / width <= lowest
    real = np.isfinite(heap.edge_level)
    for cell in np.flatnonzero(real)[len(heap.tails) :: max(1, int(real.sum()) // 7)].tolist():
        low, log = int(heap.edge_low[cell]), int(heap.edge_log[cell])
        near = 0 if low <= 0 <= low + (1 << log) - 1 else min(abs(low), abs(low + (1 << log) - 1))
        same = (heap.edge_low == low) & real
        same[: len(heap.tails)] = False
        top = int(heap.edge_level[same].max()) + 1
        assert top * area / (1 << log) >= _compare.exp_bounds(kernel.exponent(near), 30)[1]
    for tail in heap.tails:
        if kernel.exponent(tail) < 10**4:
            stays = _compare.exp_bounds(kernel.rate(tail), 30)[1]
            assert _compare.exp_bounds(kernel.exponent(tail), 30)[1] <= area * (1 - stays)


@pytest.mark.parametrize(("bits", "resolution"), [(8, 1), (10, 3), (12, 3)])
@pytest.mark.parametrize(
    "law",
    [DiscreteLaplace("0.2"), DiscreteLaplace("7.3"), DiscreteLaplace(90), DiscreteGaussian("0.4"),
     DiscreteGaussian(1000), Geometric("0.3"), Geometric(40)],
    ids=repr,
)  # fmt: skip
def test_the_cells_of_a_heap_add_up_to_the_law(law, bits, resolution):
    """Every integer's share of all cells, up to the tail: f(x)/area, no gap and no overlap."""
    heap = _cells.cells.__wrapped__(law._kernel, bits=bits, resolution=resolution)
    share = Counter()
    for low in heap.sure[heap.edges :].tolist():
        for x in range(low, low + (1 << heap.shift)):
            share[x] += 2.0**-heap.shift
    for cell in range(len(heap.tails), heap.edges):
        low, log, level = (a[cell].item() for a in (heap.edge_low, heap.edge_log, heap.edge_level))
        if level == math.inf:
            continue
        assert heap.edge_height[cell] == heap.area / 2**log
        for x in range(low, low + (1 << log)):
            point = math.exp(-law._kernel.exponent(x)) / heap.edge_height[cell] - level
            share[x] += min(max(point, 0.0), 1.0) / 2**log
    sides = [range(heap.tails[0]), range(-1, -max(heap.tails[1:], default=1), -1)]
    assert sorted(share) == sorted({*sides[0], *sides[1]})
    for x, found in share.items():
        true = math.exp(-law._kernel.exponent(x)) / heap.area
        assert found == pytest.approx(true, rel=1e-7), x


# --- uniform, Bernoulli, permutation --------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 7, 64, 100])
def test_uniform_integers_are_uniform(n):
    x = uniform_below(n, 100_000)
    assert x.dtype == np.int64
    counts = np.bincount(x, minlength=n)
    assert counts.size == n
    assert n == 1 or chi2(counts, np.full(n, 1 / n)) > LOOK
    single = np.bincount([uniform_below(n) for _ in range(3000)], minlength=n)
    assert n == 1 or chi2(single, np.full(n, 1 / n)) > LOOK


def test_uniform_integers_of_any_size():
    n = 3 * 2**100
    x = [uniform_below(n) for _ in range(3000)]
    assert all(0 <= v < n for v in x)
    assert binomial(sum(v < 2**100 for v in x), 3000, 1 / 3) > LOOK
    assert uniform_below(n, 5).dtype == object
    for bad in (0, -3):
        with pytest.raises(ParameterError):
            uniform_below(bad)


def test_uniform_array_redraws_what_is_out_of_range(script):
    script([7 << 61, 3 << 61, 6 << 61, 2 << 61])
    assert uniform_below(5, 2).tolist() == [2, 3]


@pytest.mark.parametrize("p", ["0.5", "1/3", "0.9", 0.25])
def test_bernoulli(p):
    hits = sum(bernoulli(p) for _ in range(5000))
    assert binomial(hits, 5000, float(Fraction(p))) > LOOK
    for bad in (-0.1, "1.1", float("nan")):
        with pytest.raises(ParameterError):
            bernoulli(bad)


def test_permutations_are_uniform():
    orders = list(itertools.permutations(range(4)))
    counts = dict.fromkeys(orders, 0)
    for _ in range(12_000):
        counts[tuple(permutation(4).tolist())] += 1
    assert chi2(list(counts.values()), np.full(24, 1 / 24)) > LOOK
    assert permutation(0).size == 0


def test_equal_keys_are_drawn_again(script):
    script([5, 5, 1, 9, 8, 3])
    assert permutation(3).tolist() == [2, 1, 0]


@pytest.mark.parametrize("x", ["0.001", "0.5", "1", "3", "7/2"])
def test_bernoulli_exp(x):
    p = math.exp(-float(Fraction(x)))
    assert binomial(sum(bernoulli_exp(x) for _ in range(4000)), 4000, p) > LOOK
    n = 200_000
    for hits in (
        bernoulli_exp_many(np.full(n, float(Fraction(x)))),
        bernoulli_exp_many(np.full(n, Fraction(x).numerator), Fraction(x).denominator),
    ):
        assert binomial(int(hits.sum()), n, p) > LOOK


def test_bernoulli_exp_is_exact_when_floats_cannot_decide(monkeypatch):
    monkeypatch.setattr(_uniform, "MARGIN", 0.3)
    hits = bernoulli_exp_many([Fraction(2, 3)] * 20_000)
    assert binomial(int(hits.sum()), 20_000, math.exp(-2 / 3)) > LOOK


def test_bernoulli_exp_ties(script):
    first, second = _bits_of(Fraction(2, 3), Fraction(1), 0, 2)
    script([first, second - 1, first, second + 1])
    assert bernoulli_exp("2/3") is True
    assert bernoulli_exp("2/3") is False


@pytest.mark.parametrize("x", ["1/3", "2", "10", "20", "27.7", "30", "34.5", "40"])
def test_a_word_at_the_threshold_decides_nothing_by_itself(script, x):
    """The bits after it are unknown: they are drawn, and they decide."""
    first, second = _bits_of(Fraction(x), Fraction(1), 0, 2)
    for off, answer in ((-1, True), (1, False)):
        source = script([first, second + off])
        assert bernoulli_exp(x) is answer
        assert not source.left
        source = script([0, first, second + off])
        assert bool(_softmax(x)._propose(1)[1][0]) is answer
        assert not source.left


@pytest.mark.parametrize("gap", [1, 2, 6, 2**9, 2**17, 2**25, 2**40])
@pytest.mark.parametrize("x", ["1/3", "2", "10", "20", "27.7", "30", "34.5", "40"])
def test_words_beside_the_threshold_fall_on_their_own_side(script, x, gap):
    """However near a word is to e^{−x}, and on whichever road it is decided."""
    word = _bits_of(Fraction(x), Fraction(1), 0, 1)[0]
    for off, answer in ((-gap, True), (gap, False)):
        if 0 <= word + off < 2**64:
            script([word + off])
            assert bernoulli_exp(x) is answer
            script([0, word + off])  # a ticket for the first candidate, then its test
            assert bool(_softmax(x)._propose(1)[1][0]) is answer


@pytest.mark.parametrize("error", [-0.99, 0.99])
@pytest.mark.parametrize("gap", [1, 2**9, 2**17, 2**25])
@pytest.mark.parametrize("quotient", [(1, 3), (6, 3), ("21/2", 5), (20, 1), (25, 2)])
def test_doubles_as_wrong_as_they_may_be_decide_nothing(script, monkeypatch, quotient, gap, error):
    """The margins cover every error below MARGIN of a double exponential, on all roads."""
    x, denominator = quotient
    y = Fraction(x) / denominator
    word = _bits_of(y, Fraction(1), 0, 1)[0]
    wrong = 1 + error * _uniform.MARGIN
    softmax = _softmax(y)
    softmax = replace(softmax, relative=softmax.relative * wrong)
    given = _uniform._approximate
    monkeypatch.setattr(_uniform, "_approximate", lambda *a: given(*a) - math.log(wrong))
    for off, answer in ((-gap, True), (gap, False)):
        script([word + off])
        assert bool(_uniform.bernoulli_exp_many([x], denominator)[0]) is answer
        script([0, word + off])
        assert bool(softmax._propose(1)[1][0]) is answer


@pytest.mark.parametrize("error", [-0.99, 0.99])
@pytest.mark.parametrize("law", [DiscreteLaplace(90), DiscreteGaussian(1000)], ids=repr)
def test_kernels_as_wrong_as_they_may_be_decide_no_edge(script, monkeypatch, law, error):
    heap = _cells.cells(law._kernel, bits=12, resolution=3)
    given = _cells.Kernel.values
    wrong = 1 + error * _uniform.MARGIN
    monkeypatch.setattr(_cells.Kernel, "values", lambda self, x: given(self, x) * wrong)
    tried = 0
    for cell in range(len(heap.tails), heap.edges, 7):
        log, level = int(heap.edge_log[cell]), heap.edge_level[cell]
        y = law._kernel.exponent(int(heap.edge_low[cell]))
        factor = Fraction(1 << log) / Fraction(heap.area)
        if not np.isfinite(level) or not 0 < math.exp(-y) * float(factor) - level < 0.999:
            continue
        word = _bits_of(y, factor, int(level), 1)[0]
        for off, kept in ((-1, True), (1, False), (-(2**22), True), (2**22, False)):
            if 0 <= word + off < 2**64:
                tried += 1
                trial = _cells._try(heap, np.array([cell]), script([0, word + off]))
                assert bool(trial.kept[0]) is kept
    assert tried > 20


def test_bits_are_the_leading_ones_of_as_few_words_as_hold_them(script):
    words = [0x0123456789ABCDEF, 0xFEDCBA9876543210, 0x0F1E2D3C4B5A6978]
    for n in (1, 4, 63, 64, 65, 100, 128, 129, 192):
        used = words[: -(-n // 64)]
        source = script(used)
        whole = sum(word << 64 * i for i, word in enumerate(used))
        assert _entropy.bits(n) == whole >> (64 * len(used) - n)
        assert not source.left


@pytest.mark.parametrize("shift", [0, 3, 50])
@pytest.mark.parametrize("n", [257, 300, 1000, 40_000])
def test_many_draws_take_every_cell_of_their_words(script, shift, n):
    """A heap of sure cells alone: each draw is its cell's least integer and its own last bits."""
    sure = np.arange(1 << 16, dtype=np.int64)[::-1] << 8
    none = np.zeros(1)
    heap = _cells.Cells(
        DiscreteLaplace(3)._kernel, 16, shift, 0, 1.0, (), 0, sure, none.astype(np.int64),
        none.astype(np.uint64), none + np.inf, none + 1,
    )  # fmt: skip
    words = [(0x9E3779B97F4A7C15 * i) & (2**64 - 1) for i in range(1, 2 * n + 8)]
    source = script(words)
    found = _cells._draw_bulk(heap, n)
    if shift == 0:  # four cells to a word
        cells = [word >> 16 * i & 0xFFFF for word in words for i in range(4)]
        wanted = [int(sure[cell]) for cell in cells]
    else:
        wanted = []
        for start in range(0, n, 1 << 15):
            size = min(n - start, 1 << 15)
            first, words = words[:size], words[size:]
            second = first
            if shift > 48:
                second, words = words[:size], words[size:]
            wanted += [int(sure[a >> 48]) + (b & (1 << shift) - 1)
                       for a, b in zip(first, second, strict=True)]  # fmt: skip
    assert found.tolist() == wanted[:n]
    assert len(source.left) == (2 * n + 7) - (-(-n // 4) if shift == 0 else n * (1 + (shift > 48)))


def _softmax(x):
    """A softmax with one candidate whose chance is e^{−x}."""
    y = _uniform._Exponents(
        np.array([float(Fraction(x))]), np.array([-Fraction(x)]), Fraction(1), Fraction(0)
    )
    weights = np.array([1 << 60])
    return _uniform._Softmax(y, np.exp(-y.approximate), weights, weights, 60)


def test_bernoulli_exp_input():
    assert bernoulli_exp_many([0, "0", 0.0, Fraction(0)]).all()
    assert not bernoulli_exp_many([10**400, 1e308, Fraction(10**30, 7)]).any()
    assert not bernoulli_exp_many(np.array([2**63], dtype=np.uint64)).any()
    assert bernoulli_exp_many([]).size == 0
    for bad in ([-1], [float("nan")], [float("inf")], ["x"], [None], np.ones((2, 2))):
        with pytest.raises(ParameterError):
            bernoulli_exp_many(bad)
    with pytest.raises(ParameterError):
        bernoulli_exp_many([1], 0)
    assert random_words(0).size == 0


# --- softmax --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exponents", "denominator"),
    [
        ([0, 0, 0], 1),
        ([24, 8, 28, 5], 20),  # the scores of the exponential mechanism's textbook example
        ([0.0, -0.5, 1.25], 1),
        (["0.1", "-1/3", "2"], 1),
        ([10**30, 10**30 - 1, 10**30 + 1], 1),
        ([1000, 999, 998, -(10**6)], 1),
    ],
)
def test_categorical_frequencies(exponents, denominator):
    exact = [Fraction(e) / denominator for e in exponents]
    p = np.exp([float(e - max(exact)) for e in exact])
    p /= p.sum()
    x = categorical_exp(exponents, denominator, size=200_000)
    counts = np.bincount(x, minlength=p.size)
    likely = p > 1e-4
    assert counts[~likely].sum() == 0
    assert chi2(counts[likely], p[likely] / p[likely].sum()) > LOOK


def test_categorical_over_many_candidates():
    """10⁵ candidates with scores over a range of 10⁶: frequencies by block of candidates."""
    k = 100_000
    exponents = -np.arange(k) * 10
    p = -np.expm1(-10 / 5000)
    x = categorical_exp(exponents, 5000, size=100_000)
    edges = np.searchsorted(1 - np.exp(-np.arange(k) * 10 / 5000), np.linspace(0.05, 0.95, 19))
    cumulative = 1 - np.exp(-edges * 10 / 5000)
    counts = np.bincount(np.searchsorted(edges, x, side="right"), minlength=20)
    assert chi2(counts, np.diff(np.concatenate([[0], cumulative, [1]]))) > LOOK
    assert 0 < p < 1
    assert isinstance(categorical_exp(exponents, 5000), int)


def test_no_candidate_has_probability_zero(script):
    """Scores 0 and −10⁴: the second is drawn when, and only when, the bits say so."""
    precision = 61 - (2).bit_length()
    weights = [2**precision + 2**precision // 2**38 + 1, 1]
    total = sum(weights)
    shift = 64 - (total - 1).bit_length()
    y, factor = Fraction(10**4), Fraction(2**precision)
    zeros = math.floor((10**4 / math.log(2)) - precision) // 64
    words = _bits_of(y, factor, 0, zeros + 2)
    # enough tickets to find the one that names the last candidate
    source = script([(total - 1) << shift, *words[: zeros + 1], words[zeros + 1] - 1])
    assert categorical_exp([0, -(10**4)]) == 1
    assert not source.left


def test_categorical_is_exact_when_floats_cannot_decide(monkeypatch):
    monkeypatch.setattr(_uniform, "MARGIN", 0.3)
    x = categorical_exp(["0", "-0.5", "-2"], size=20_000)
    p = np.exp([0, -0.5, -2])
    assert chi2(np.bincount(x, minlength=3), p / p.sum()) > LOOK


def test_categorical_input():
    assert categorical_exp([5]) == 0
    assert categorical_exp(np.array([-1e308, 1e308])) == 1
    for bad in ([], [float("nan")], np.array([np.inf, 0]), ["x"], np.ones((2, 2))):
        with pytest.raises(ParameterError):
            categorical_exp(bad)


@pytest.mark.parametrize("cell", [0, 1])
def test_the_tail_lies_on_its_own_side(script, cell, monkeypatch):
    """x = ±(t + G): the first cell is the tail above, the second the one below."""
    heap = _cells.cells(DiscreteGaussian(5)._kernel)
    monkeypatch.setattr(_cells, "geometric", lambda _: 7)
    monkeypatch.setattr(_cells, "bernoulli_exp", lambda _: True)
    script([0] * 9)
    assert _cells._tail(heap, cell, 0) == (heap.tails[cell] + 7) * (-1) ** cell
    monkeypatch.setattr(_cells, "bernoulli_exp", lambda x: x != Fraction(49, 50))
    assert _cells._tail(heap, cell, 0) is None


@pytest.mark.parametrize("law", [DiscreteLaplace("7.3"), DiscreteGaussian("2.5"), Geometric(4)])
def test_a_kernel_falls_beyond_any_point_as_its_rate_says(law):
    """f(t + g) = f(t)·e^{−λg}·e^{−bg²}, exactly; the width is where the exponent is 1."""
    kernel = law._kernel
    for t in (0, 1, 9, 10**6):
        for g in (0, 1, 5):
            risen = kernel.exponent(t + g) - kernel.exponent(t)
            assert risen == kernel.rate(t) * g + kernel.square * g * g
    assert kernel.exponent(3) == kernel.exponent(-3) == 3 * kernel.linear + 9 * kernel.square
    wide = Fraction(kernel.width)
    assert float(kernel.linear * wide + kernel.square * wide**2) == pytest.approx(1)
    exact = [math.exp(-kernel.exponent(x)) for x in range(4)]
    assert kernel.values(np.arange(4.0)) == pytest.approx(exact, rel=1e-14)


@pytest.mark.parametrize(("tight", "answer"), [((26, 27), False), ((60, 61), True)])
def test_bounds_decide_only_what_lies_outside_of_them(script, tight, answer):
    """U is about 0.3: between 0.25 and 0.75 nothing is known, so more digits are asked for."""
    asked = []

    def bounds(digits):
        asked.append(digits)
        low, high = (25, 75) if len(asked) == 1 else tight
        return Fraction(low, 100), Fraction(high, 100)

    source = script([7])
    assert _compare.less_than(int(0.3 * 2**64), bounds, 0.0) is answer
    assert not source.left
    assert len(asked) == 2
    assert asked[0] < asked[1]
    for word, known in ((2**62 - 1, True), (3 * 2**62, False)):  # up to an end, and from one on
        assert _compare.less_than(word, lambda _: (Fraction(1, 4), Fraction(3, 4)), 0.0) is known


@pytest.mark.parametrize("error", [-0.99, 0.99])
def test_cells_cover_and_lie_under_kernels_as_wrong_as_they_may_be(monkeypatch, error):
    """At 0 the kernel is 1: a hair more than 8 cells need a ninth, a hair less leave 7 sure."""
    kernel, given = DiscreteLaplace(90)._kernel, _cells.Kernel.values
    wrong = 1 + error * _uniform.MARGIN
    monkeypatch.setattr(_cells.Kernel, "values", lambda self, x: given(self, x) * wrong)
    above = _cells._outline(kernel, 1 / (8 * (1 + _uniform.MARGIN / 2)), 0, 0, 48)
    assert above.cover[0] == 9
    area = 1 / (8 * (1 - _uniform.MARGIN / 2))
    below = _cells._half(kernel, area, 0, 0, _cells._outline(kernel, area, 0, 0, 48))
    assert below.sure[0] == 7


def test_exponents_as_far_apart_as_64_bits_allow():
    for exponents in ([-(2**63) + 1, 2**60], [-(2**60), 2**63 - 1], [-(2**63), 2**63 - 1]):
        assert categorical_exp(np.array(exponents)) == 1
    assert not bernoulli_exp_many(np.array([2**63 - 1])).any()


def test_up_to_256_draws_the_work_does_not_depend_on_values(monkeypatch):
    taken = []
    monkeypatch.setattr(_cells, "_draw_small", lambda _, n: taken.append(("small", n)))
    monkeypatch.setattr(_cells, "_draw_bulk", lambda _, n: taken.append(("bulk", n)))
    kernel = _cells.Kernel(Fraction(1, 5), Fraction(0), two_sided=True)
    for n in (1, 255, 256, 257, 1000):
        _cells.draw(kernel, n)
    assert taken == [("small", 1), ("small", 255), ("small", 256), ("bulk", 257), ("bulk", 1000)]
