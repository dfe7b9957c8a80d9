"""Exact laws of local reports: every likelihood ratio, as rationals, is what is claimed.

Nothing here is random. The harness that accepts the protocols also refuses mutants: a bit
that is never cleared, a set law without its (ω−1) term, Hadamard row x instead of
x+1, rounding to nearest or the wrong way, h left out of RAPPOR's ε.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest

from discreet import local, privacy
from discreet.errors import DiscreetError, ParameterError
from discreet.local import _hashing, _mean, _rationals

EPSILONS = ("0.1", "0.5", "1", "2", "3", "4")


def worst_ratio(laws):
    """Largest ratio over all outputs; infinite if an output is possible for some only."""
    rows = [law if isinstance(law, dict) else dict(enumerate(law)) for law in laws]
    outputs = set().union(*rows)
    worst = Fraction(1)
    for y in outputs:
        chances = [row.get(y, Fraction(0)) for row in rows]
        if min(chances) == 0:
            return math.inf
        worst = max(worst, max(chances) / min(chances))
    return worst


def sums_to_one(law):
    return sum(law.values() if isinstance(law, dict) else law) == 1


def below_exp(odds, epsilon):
    """odds ≤ e^ε < odds·(1 + 2⁻⁴⁰), certified by rational bounds on e^ε."""
    low, high = _rationals.exp_bounds(Fraction(epsilon), 60)
    return odds <= 1 / high and 1 / low < odds * (1 + Fraction(1, 2**40))


# -- ratios ----------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("domain", [2, 3, 5, 8])
@pytest.mark.parametrize(
    "kind",
    [
        local.KaryResponse,
        local.SymmetricUnary,
        local.OptimizedUnary,
        local.SubsetSelection,
        local.HadamardResponse,
        local.SquareWave,
    ],
)
def test_every_ratio_of_small_domains_is_the_stated_odds(kind, domain, epsilon):
    protocol = kind(domain=domain, epsilon=epsilon)
    laws = [protocol.law(v) for v in range(domain)]
    assert all(map(sums_to_one, laws))
    assert worst_ratio(laws) == protocol.odds
    assert below_exp(protocol.odds, epsilon)
    assert protocol.epsilon == float(epsilon)


@pytest.mark.parametrize("blocks", [1, 2, 4, 8])
@pytest.mark.parametrize("epsilon", ["0.5", "1", "2", "3"])
def test_hadamard_response_with_any_number_of_blocks(blocks, epsilon):
    protocol = local.HadamardResponse(domain=13, epsilon=epsilon, blocks=blocks)
    laws = [protocol.law(v) for v in range(13)]
    assert all(map(sums_to_one, laws))
    assert worst_ratio(laws) == protocol.odds
    assert below_exp(protocol.odds, epsilon)


@pytest.mark.parametrize("p", ["0.5", "0.75", "1/3"])
def test_coin_form_has_exactly_the_odds_of_its_coin(p):
    protocol = local.RandomizedResponse(p=p)
    coin = Fraction(p)
    assert protocol.odds == (1 + coin) / (1 - coin) == 1 + 2 * coin / (1 - coin)
    assert worst_ratio([protocol.law(0), protocol.law(1)]) == protocol.odds
    assert protocol.law(1) == [(1 - coin) / 2, (1 + coin) / 2]
    # the claimed ε is above the logarithm, and within 1e-12 of it
    assert 0 < protocol.epsilon - math.log(protocol.odds) < 1e-12


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_epsilon_form_of_randomized_response(epsilon):
    protocol = local.RandomizedResponse(epsilon=epsilon)
    assert worst_ratio([protocol.law(0), protocol.law(1)]) == protocol.odds
    assert below_exp(protocol.odds, epsilon)


@pytest.mark.parametrize("buckets", [None, 2, 7])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_local_hashing_is_bounded_for_every_seed_and_any_hash(epsilon, buckets):
    """The hash may be constant or the identity: privacy does not depend on it."""
    protocol = local.LocalHashing(domain=100, epsilon=epsilon, buckets=buckets)
    g = protocol.buckets
    assert worst_ratio([protocol.law(h) for h in range(g)]) == protocol.odds
    assert worst_ratio([protocol.law(0) for _ in range(5)]) == 1
    assert below_exp(protocol.odds, epsilon)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_integer_piecewise_law(epsilon):
    law = _mean.piecewise(Fraction(epsilon), 8)
    laws = [law.law(j) for j in range(-8, 9)]
    assert all(map(sums_to_one, laws))
    assert worst_ratio(laws) == law.odds
    assert below_exp(law.odds, epsilon)
    reach = law.steps + law.window
    for j, chances in zip(range(-8, 9), laws, strict=True):
        outputs = range(-reach, reach + 1)
        mean = sum(y * w for y, w in zip(outputs, chances, strict=True)) * law.scale
        second = sum(y * y * w for y, w in zip(outputs, chances, strict=True)) * law.scale**2
        t = Fraction(j, 8)
        assert mean == t
        assert second - mean**2 == law.variance(t)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_duchi_is_unbiased_with_the_stated_variance(epsilon):
    protocol = local.LocalMean(epsilon, method="duchi")
    worth = 1 / protocol.duchi
    for t in (Fraction(-1), Fraction(0), Fraction(1, 3), Fraction(1)):
        # stochastic rounding to an end, then binary randomized response
        plus = Fraction(1, 2) + t * protocol.duchi / 2
        assert worth * (2 * plus - 1) == t
        assert worth**2 - t**2 == protocol.variance_at(t)
    ends = [Fraction(1, 2) + s * protocol.duchi / 2 for s in (1, -1)]
    assert ends[0] / ends[1] == protocol.odds
    assert below_exp(protocol.odds, epsilon)


@pytest.mark.parametrize("epsilon", ["0.5", "1", "2", "4"])
def test_key_value_law_over_all_reports(epsilon):
    protocol = local.KeyValue(domain=3, epsilon=epsilon)
    laws = [protocol.law(k, s) for k in (0, 1, 2, None) for s in (1, -1)]
    assert all(map(sums_to_one, laws))
    assert worst_ratio(laws) == protocol.odds
    assert below_exp(protocol.odds, epsilon)


@pytest.mark.parametrize(
    ("b", "s"), [("1/4", "3/4"), ("1/10", "9/10"), ("1/5", "2/3"), ("2/5", "9/10")]
)
def test_key_value_formula_is_exact_for_other_parameters(b, s):
    protocol = local.KeyValue(domain=3, epsilon=1)
    object.__setattr__(protocol, "b", Fraction(b))
    object.__setattr__(protocol, "s", Fraction(s))
    laws = [protocol.law(k, sign) for k in range(3) for sign in (1, -1)]
    b, s = protocol.b, protocol.s
    assert worst_ratio(laws) == max(s / (1 - s), 2 * s * (1 - b) / b)


def test_sketch_rows_have_the_odds_of_their_coins():
    for epsilon in EPSILONS:
        sketch = local.CountMeanSketch(epsilon, width=4)
        bits = [
            {
                y: math.prod(
                    (sketch.own if i == v else sketch.chance)
                    if b
                    else 1 - (sketch.own if i == v else sketch.chance)
                    for i, b in enumerate(y)
                )
                for y in itertools.product((0, 1), repeat=4)
            }
            for v in range(4)
        ]
        assert worst_ratio(bits) == sketch.odds
        hadamard = local.HadamardSketch(epsilon, width=4)
        assert hadamard.own / (1 - hadamard.own) == hadamard.odds
        assert below_exp(sketch.odds, epsilon)
        assert below_exp(hadamard.odds, epsilon)


def test_vector_odds_are_the_power_of_one_coordinates():
    protocol = local.LocalVector(dimensions=10, epsilon=4)
    assert protocol.reported == 2
    assert protocol.odds == protocol.one.odds**2
    assert below_exp(protocol.odds, "4")


def test_hierarchy_and_heavy_hitters_report_with_their_whole_epsilon_once():
    assert local.Hierarchy(64, "1").odds == local.OptimizedUnary(2, "1").odds
    assert local.HeavyHitters(32, "1").odds == local.LocalHashing(2, "1").odds


# -- RAPPOR ----------------------------------------------------------------------------

A, B, OVERLAP = (1, 1, 0, 0, 0, 0), (0, 0, 1, 1, 0, 0), (1, 0, 1, 0, 0, 0)


def published():
    return local.Rappor(bits=6, hashes=2, cohorts=1, f="0.5", p="0.5", q="0.75")


def test_rappor_published_epsilons_as_exact_odds():
    rappor = published()
    assert rappor.rates == (Fraction(11, 16), Fraction(9, 16))
    assert rappor.odds == 81
    assert rappor.odds_instant == Fraction(5929, 2025)
    assert rappor.epsilon_permanent == pytest.approx(4.39445, abs=5e-6)
    assert rappor.epsilon_instant == pytest.approx(1.07429, abs=5e-6)
    assert rappor.epsilon_permanent >= math.log(81)
    assert rappor.epsilon_instant >= math.log(Fraction(5929, 2025))


def test_rappor_ratios_of_disjoint_filters_are_the_stated_odds():
    rappor = published()
    assert worst_ratio([rappor.law(A, instant=False), rappor.law(B, instant=False)]) == 81
    assert worst_ratio([rappor.law(A), rappor.law(B)]) == rappor.odds_instant
    overlap = worst_ratio([rappor.law(A), rappor.law(OVERLAP)])
    assert math.log(overlap) == pytest.approx(0.537, abs=5e-4)
    assert overlap < rappor.odds_instant


def test_rappor_one_flip_is_the_permanent_coin():
    """Keep with 1−f, else a fair coin, is the same as flipping with f/2."""
    f = Fraction(1, 2)
    keep_one = (1 - f) + f / 2
    law = published().law((1,), instant=False)
    assert law[(1,)] == keep_one == 1 - f / 2


def test_rappor_epsilon_after_many_reports():
    rappor = published()
    expected = {1: 1.0743, 2: 2.017, 5: 3.656, 10: 4.299, 30: 4.3944}
    for reports, value in expected.items():
        assert rappor.epsilon_after(reports) == pytest.approx(value, abs=6e-4)
    assert rappor.epsilon_after(1) == pytest.approx(rappor.epsilon_instant, rel=1e-12)
    assert rappor.epsilon_after(10**6) <= rappor.epsilon_permanent


def test_rappor_epsilon_of_two_reports_by_enumeration():
    """All 16 outcomes of two reports of two bits against the formula for h = 1."""
    rappor = local.Rappor(bits=2, hashes=1, cohorts=1)
    f, p, q = rappor.f, rappor.p, rappor.q

    def joint(bloom):
        out = {}
        for memo in itertools.product((0, 1), repeat=2):
            kept = math.prod(
                1 - f / 2 if m == b else f / 2 for m, b in zip(memo, bloom, strict=True)
            )
            for sent in itertools.product((0, 1), repeat=4):
                w = math.prod(
                    (q if memo[i % 2] else p) if y else 1 - (q if memo[i % 2] else p)
                    for i, y in enumerate(sent)
                )
                out[sent] = out.get(sent, 0) + kept * w
        return out

    ratio = worst_ratio([joint((1, 0)), joint((0, 1))])
    assert math.log(ratio) == pytest.approx(rappor.epsilon_after(2), rel=1e-12)


def two_reports(rappor, first, second, *, same, zeros):
    """Exact chance that two reports are all zero: of one memo, or of two."""
    f, p, q = rappor.f, rappor.p, rappor.q

    def one(bit, times):
        keep = (1 - f / 2) if bit else f / 2
        return keep * (1 - q) ** times + (1 - keep) * (1 - p) ** times

    assert zeros
    if same:
        return math.prod(one(a, 2) for a in first)
    return math.prod(one(a, 1) * one(b, 1) for a, b in zip(first, second, strict=True))


def test_a_change_of_value_shows_beyond_the_permanent_epsilon():
    """(a, a) against (a, b): two reports of 128 bits already pass e^{ε∞} = 81.

    So the loss of a device is stated for devices of one pattern of equal values, and its
    unit keeps it from being composed as if it were about more.
    """
    rappor = local.Rappor(bits=128, hashes=2, cohorts=1)
    a, b = ([int(i in places) for i in range(128)] for places in ((0, 1), (2, 3)))
    stays = two_reports(rappor, a, a, same=True, zeros=True)
    moves = two_reports(rappor, a, b, same=False, zeros=True)
    assert stays / moves > 81
    device = rappor.client()
    device.randomize("a"), device.randomize("a")
    assert device.loss.epsilon() == rappor.epsilon_permanent
    assert "pattern of equal values" in device.loss.unit
    with pytest.raises(DiscreetError):
        privacy.compose([device.loss, privacy.Pure(1).under("change-one", "person")])
    # the same pattern: two memos against two others, at most 81 each
    pairs = [
        {(*x, *y): v * w for x, v in law(s).items() for y, w in law(t).items()}
        for law in (lambda bloom: rappor.law(bloom, instant=False),)
        for s, t in (((1, 0), (0, 1)), ((0, 1), (1, 0)))
    ]
    assert worst_ratio(pairs) == 81  # h = 1 here: 9 for each memo


def silence(rappor, history, times):
    """Exact probability that all of `times` reports of each value in turn are zeros."""
    f, p, q = rappor.f, rappor.p, rappor.q
    out = Fraction(1)
    for value in set(history):
        m = times * history.count(value)
        for bit in range(rappor.bits):
            keep = (1 - f / 2) if bit in value else f / 2
            out *= keep * (1 - q) ** m + (1 - keep) * (1 - p) ** m
    return out


def test_a_return_to_an_old_value_shows_although_the_times_of_change_are_the_same():
    """(v, w, v) against (u, x, y), five reports each: beyond the 3·ε∞ of the second."""
    rappor = local.Rappor(bits=128, hashes=2, cohorts=1)
    u, v, w, x, y = (frozenset((2 * i, 2 * i + 1)) for i in range(5))
    returns, moves = silence(rappor, [v, w, v], 5), silence(rappor, [u, x, y], 5)
    assert returns / moves > rappor.odds**3
    # the same pattern of equal values: at most ε∞ for each of the two memos
    assert max(returns, same := silence(rappor, [u, x, u], 5)) <= rappor.odds**2 * min(
        returns, same
    )


@pytest.mark.parametrize("q", ["0.5000000001", "0.500000003", "0.75", "0.99"])
def test_epsilon_after_never_lies_below_the_exact_one(q):
    """Close rates cancel in floating point; the bound allows for it."""
    import mpmath

    rappor = local.Rappor(p="0.5", q=q)
    keep, lost = 1 - rappor.f / 2, rappor.f / 2

    def ratio(a, b, m):
        return (keep * a**m + lost * b**m) / (lost * a**m + keep * b**m)

    for m in (1, 2, 7, 30):
        up, down = ratio(rappor.q, rappor.p, m), ratio(1 - rappor.q, 1 - rappor.p, m)
        exact = (up / down) ** rappor.hashes
        with mpmath.workdps(60):
            least = mpmath.log(mpmath.mpf(exact.numerator) / exact.denominator)
            assert least <= rappor.epsilon_after(m) <= least + 1e-11


def test_the_cohort_says_nothing():
    """Whatever bits a cohort's hashes choose, the ratio stays at or below the stated odds."""
    rappor = published()
    filters = [bits for bits in itertools.product((0, 1), repeat=4) if 1 <= sum(bits) <= 2]
    laws = [rappor.law(bits) for bits in filters]
    assert worst_ratio(laws) == rappor.odds_instant
    permanent = [rappor.law(bits, instant=False) for bits in filters]
    assert worst_ratio(permanent) == rappor.odds


# -- mutants ---------------------------------------------------------------------------


def test_mutant_a_set_bit_is_never_cleared():
    """What one package does: P(1|1) = 1, hence ε = ∞."""
    protocol = local.SymmetricUnary(domain=3, epsilon=1)
    object.__setattr__(protocol, "p", Fraction(1))
    assert worst_ratio([protocol.law(v) for v in range(3)]) == math.inf


def test_mutant_h_left_out_of_rappors_epsilon():
    rappor = published()
    without_h = local.Rappor(bits=6, hashes=1, cohorts=1).epsilon_instant
    assert without_h == pytest.approx(0.5371, abs=5e-5)
    assert math.log(worst_ratio([rappor.law(A), rappor.law(B)])) > without_h


@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1", "2", "4"])
@pytest.mark.parametrize("domain", [2, 3, 5, 8, 64])
def test_mutant_rounding_the_wrong_way(domain, epsilon):
    """κ rounded up exceeds e^ε for every domain and ε."""
    rho = _rationals.odds_below(Fraction(epsilon))
    kappa = _rationals.mixture(rho, 1, domain) + Fraction(1, 2**64)
    odds = _rationals.mixture_odds(kappa, 1, domain)
    low, _ = _rationals.exp_bounds(Fraction(epsilon), 60)
    assert odds > 1 / low


def test_naive_floating_point_breaks_the_promise_about_half_of_the_time():
    broken = 0
    for i in range(1, 2001):
        p = Fraction(math.exp(i / 500) / (math.exp(i / 500) + 1))
        _, high = _rationals.exp_bounds(Fraction(i / 500), 50)
        broken += p / (1 - p) > 1 / high
    assert broken == 1006


def test_mutant_hadamard_row_zero_owns_the_whole_block():
    protocol = local.HadamardResponse(domain=7, epsilon=1, blocks=1)
    own = [y for y in range(protocol.block) if not (y & 0).bit_count() % 2]
    assert len(own) == protocol.block  # row 0: no symbol speaks against, so nothing is learnt
    for v in range(7):
        lifted = max(protocol.law(v))
        assert protocol.law(v).count(lifted) == protocol.block // 2


def test_mutant_set_law_without_its_second_term():
    protocol = local.SubsetSelection(domain=8, epsilon=1)
    assert protocol.size > 1
    without = (1 - protocol.inside) * protocol.size / 7
    other = sum(w for s, w in protocol.law(0).items() if 5 in s)
    assert other == protocol.q
    assert other != without


def test_mutant_own_bit_of_optimised_unary_is_not_fair():
    protocol = local.OptimizedUnary(domain=3, epsilon=1)
    object.__setattr__(protocol, "p", Fraction(3, 5))
    assert not below_exp(worst_ratio([protocol.law(v) for v in range(3)]), "1")


# -- rationals -------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", ["1e-6", "0.001", "0.7", "1", "8", "31.9"])
@pytest.mark.parametrize("root", [1, 2])
def test_odds_below_is_the_largest_multiple_that_keeps_the_promise(epsilon, root):
    eps = Fraction(epsilon)
    rho = _rationals.odds_below(eps, root)
    low, high = _rationals.exp_bounds(eps / root, 80)
    assert rho <= 1 / high
    assert rho + Fraction(1, 2**80) > 1 / low


def test_parameters_beyond_64_bit_probabilities_are_refused():
    with pytest.raises(ParameterError, match="64-bit"):
        local.KaryResponse(domain=2**31, epsilon="1e-12")
    with pytest.raises(ParameterError, match="at most 32"):
        local.KaryResponse(domain=2, epsilon=33)
    with pytest.raises(ParameterError):
        local.KaryResponse(domain=1, epsilon=1)
    with pytest.raises(ParameterError):
        local.RandomizedResponse()
    with pytest.raises(ParameterError):
        local.RandomizedResponse(p="0.5", epsilon=1)
    with pytest.raises(ParameterError):
        local.RandomizedResponse(p=1)
    with pytest.raises(ParameterError):
        local.Rappor(p="0.75", q="0.5")


def test_hash_intervals_partition_the_top_halves():
    """The server's test "hash == bucket" by intervals is the hash itself."""
    import numpy as np

    from discreet.local import _bits

    for g in (2, 3, 4, 7, 65536):
        protocol = local.LocalHashing(domain=50, epsilon=1, buckets=g)
        reports = protocol.randomize(np.arange(50))
        seeds, buckets = reports.columns
        state = np.zeros(50, dtype=np.int64)
        protocol.tally(state, reports.columns)
        hashed = _bits.hash_words(_bits.item_words(np.arange(50))[None, :], seeds[:, None], g)
        assert (state == (hashed == buckets[:, None]).sum(axis=0)).all()
    assert _hashing.table_supports(
        np.ones((4, 2), dtype=np.int64), _bits.item_words(np.arange(3))
    ).tolist() == [4, 4, 4]
