"""The clients draw from the laws they state, leak no more than they claim, and err as they say.

False alarms
------------
χ² tests of samplers against exact laws and of simulated states: p-value 1e-12 each,
about 80. Audits: 1e-10 each, about 20. Variances: 7 standard deviations, below 1e-10
each, about 30. z-scores: 7 standard deviations over at most 300 numbers, below 1e-9 each,
about 12. Together below 2e-8. Each kind of test refuses a planted mutant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from discreet import audit, local, noise
from discreet.local import _bits, _categorical, _hashing, _intervals

DRAWS = 300_000
CONFIDENCE = "0.9999999999"
ALARM = 1e-12


# -- samplers against exact laws -----------------------------------------------------------


def goodness(counts, chances):
    """p-value of counts against exact probabilities; cells that expect fewer than 10 are pooled."""
    counts = np.asarray(counts, dtype=float)
    expected = np.array([float(c) for c in chances]) * counts.sum()
    small = expected < 10
    if small.any():
        counts = np.append(counts[~small], counts[small].sum())
        expected = np.append(expected[~small], expected[small].sum())
    if expected[-1] == 0:
        if counts[-1]:
            return 0.0  # impossible outcomes happened
        counts, expected = counts[:-1], expected[:-1]
    return stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue


def coded(rows, base=2):
    """Rows of digits as numbers."""
    rows = np.asarray(rows, dtype=np.int64)
    return rows @ base ** np.arange(rows.shape[1])


def law_of_rows(law, base=2, shift=0):
    size = base ** len(next(iter(law)))
    out = [Fraction(0)] * size
    for row, chance in law.items():
        out[sum((v + shift) * base**i for i, v in enumerate(row))] = chance
    return out


@pytest.mark.parametrize("domain", [2, 3, 8, 300])
@pytest.mark.parametrize("epsilon", ["0.5", "2"])
def test_kary_sampler(domain, epsilon):
    protocol = local.KaryResponse(domain, epsilon)
    value = domain - 1
    drawn = np.asarray(protocol.randomize(np.full(DRAWS, value)))
    assert goodness(np.bincount(drawn, minlength=domain), protocol.law(value)) > ALARM


@pytest.mark.parametrize("p", ["0.5", "0.75", "1/3"])
def test_randomized_response_sampler(p):
    protocol = local.RandomizedResponse(p=p)
    for value in (0, 1):
        drawn = np.asarray(protocol.randomize(np.full(DRAWS, value)))
        assert goodness(np.bincount(drawn, minlength=2), protocol.law(value)) > ALARM


@pytest.mark.parametrize("kind", [local.SymmetricUnary, local.OptimizedUnary])
@pytest.mark.parametrize("epsilon", ["0.5", "2"])
def test_unary_sampler(kind, epsilon):
    protocol = kind(5, epsilon)
    rows = np.asarray(protocol.randomize(np.full(DRAWS, 3)))
    counts = np.bincount(coded(rows), minlength=32)
    assert goodness(counts, law_of_rows(protocol.law(3))) > ALARM


def set_law(protocol, value):
    rows = {}
    for members, chance in protocol.law(value).items():
        rows[tuple(int(i in members) for i in range(protocol.domain))] = chance
    return law_of_rows(rows)


@pytest.mark.parametrize(("domain", "size"), [(6, None), (6, 3), (7, 6), (5, 1)])
@pytest.mark.parametrize("value", [0, 2, 4])
def test_subset_sampler_by_floyd(domain, size, value):
    protocol = local.SubsetSelection(domain, 1, size)
    rows = np.asarray(protocol.randomize(np.full(DRAWS, value)))
    counts = np.bincount(coded(rows), minlength=2**domain)
    assert goodness(counts, set_law(protocol, value)) > ALARM


@pytest.mark.parametrize("value", [0, 3])
def test_subset_sampler_by_ranks(value):
    """The sampler of large domains, on a domain small enough to see every set."""
    protocol = local.SubsetSelection(6, 1)
    holds = np.asarray(noise.bernoulli_many(protocol.inside, DRAWS))
    rows = protocol._ranked(np.full(DRAWS, value), holds)
    counts = np.bincount(coded(rows), minlength=64)
    assert goodness(counts, set_law(protocol, value)) > ALARM


@pytest.mark.parametrize(
    ("domain", "value", "blocks"), [(13, 7, 1), (13, 12, 2), (13, 0, 4), (40, 39, 8), (2, 1, 1)]
)
def test_hadamard_sampler(domain, value, blocks):
    protocol = local.HadamardResponse(domain, 2, blocks)
    drawn = np.asarray(protocol.randomize(np.full(DRAWS, value)))
    counts = np.bincount(drawn, minlength=protocol.symbols)
    assert goodness(counts, protocol.law(value)) > ALARM


@pytest.mark.parametrize("domain", [4, 16])
def test_square_wave_sampler(domain):
    protocol = local.SquareWave(domain, 1)
    drawn = np.asarray(protocol.randomize(np.full(DRAWS, 1)))
    assert goodness(np.bincount(drawn, minlength=protocol.outputs), protocol.law(1)) > ALARM


def test_piecewise_sampler_on_a_grid_point():
    protocol = local.LocalMean(1, method="piecewise")
    _, outputs = protocol.randomize(np.full(DRAWS, 0.25)).columns
    law = protocol.law.law(8)  # 0.25 · 32
    assert goodness(np.bincount(outputs, minlength=len(law)), law) > ALARM


def test_duchi_sampler_between_the_ends():
    protocol = local.LocalMean(1, low=0, high=1, method="duchi")
    _, outputs = protocol.randomize(np.full(DRAWS, 0.3)).columns
    plus = Fraction(1, 2) + Fraction(3, 10) * protocol.duchi - protocol.duchi / 2
    assert goodness(np.bincount(outputs, minlength=2), [1 - plus, plus]) > ALARM


def test_key_value_sampler():
    protocol = local.KeyValue(3, 1)
    present, sign = (
        _bits.unpack(c, 3).astype(int) for c in protocol.randomize([{1: 1.0}] * 60_000).columns
    )
    rows = present * (2 * sign - 1) + 1
    law = law_of_rows(protocol.law(1, 1), base=3, shift=1)
    assert goodness(np.bincount(coded(rows, 3), minlength=27), law) > ALARM


def rappor_bits(protocol, device, cohort):
    word = _bits.read_words(device, protocol.campaign)[0]
    places = protocol.positions(word, np.array([cohort]))[0]
    return [int(i in places) for i in range(protocol.bits)]


def test_rappor_sampler_draws_both_layers_at_once():
    protocol = local.Rappor(bits=5, hashes=2, cohorts=1)
    reports = protocol.randomize(["x"] * DRAWS)
    rows = _bits.unpack(reports.columns[1], 5)
    law = law_of_rows(protocol.law(rappor_bits(protocol, "x", 0)))
    assert goodness(np.bincount(coded(rows), minlength=32), law) > ALARM


def test_rappor_devices_follow_the_same_law():
    protocol = local.Rappor(bits=4, hashes=1, cohorts=1)
    sent = [protocol.client().randomize("x") for _ in range(6000)]
    rows = _bits.unpack(np.concatenate([r.columns[1] for r in sent]), 4)
    law = law_of_rows(protocol.law(rappor_bits(protocol, "x", 0)))
    assert goodness(np.bincount(coded(rows), minlength=16), law) > ALARM


def test_mutant_samplers_are_refused():
    protocol = local.SubsetSelection(6, 1)
    # ω−1 others drawn with replacement: some sets come out too small, others too rare
    rows = np.zeros((DRAWS, 6), dtype=int)
    holds = np.asarray(noise.bernoulli_many(protocol.inside, DRAWS))
    for _ in range(protocol.size):
        rows[np.arange(DRAWS), np.asarray(noise.uniform_many(6, DRAWS))] = 1
    rows[:, 0] = holds
    assert goodness(np.bincount(coded(rows), minlength=64), set_law(protocol, 0)) < ALARM
    kary = local.KaryResponse(8, 1)
    drawn = np.asarray(kary.randomize(np.full(DRAWS, 3)))
    other = local.KaryResponse(8, "1.05").law(3)
    assert goodness(np.bincount(drawn, minlength=8), other) < ALARM


# -- audits: a million draws and Clopper–Pearson ---------------------------------------------


def audited(x, y, draws=1_000_000):
    # a claim far above the truth is never violated early, so that all draws count
    found = audit.estimate(
        lambda sampler, n: sampler(n), x, y, 30, draws=draws, confidence=CONFIDENCE
    )
    return Verdict(found.epsilon_lower_bound)


@dataclass(frozen=True)
class Verdict:
    epsilon: float

    def refutes(self, claim):
        return self.epsilon > float(claim)


def hashed_view(protocol, value, others):
    """What a report says about some items: which of them it supports, as one number."""

    def view(n):
        seeds, buckets = protocol.randomize(np.full(n, value)).columns
        items = _bits.item_words(np.array(others))
        told = _bits.hash_words(items[None, :], seeds[:, None], protocol.buckets)
        return coded(told == buckets[:, None])

    return view


@pytest.mark.parametrize("buckets", [2, None])
def test_local_hashing_leaks_what_it_claims(buckets):
    protocol = local.LocalHashing(100, 1, buckets=buckets)
    verdict = audited(hashed_view(protocol, 3, (3, 7)), hashed_view(protocol, 7, (3, 7)))
    assert not verdict.refutes(1)
    assert verdict.epsilon > 0.9


def sketch_view(protocol, value, others):
    words = protocol.parse(others)[0]

    def view(n):
        columns = protocol.randomize(np.full(n, value)).columns
        places = [protocol.buckets_of(np.full(n, w), columns[0]) for w in words]
        if isinstance(protocol, local.CountMeanSketch):
            bits = _bits.unpack(columns[1], protocol.width)
            told = [bits[np.arange(n), p] for p in places]
        else:
            told = [_bits.parity(p & columns[1]) ^ columns[2] for p in places]
        return coded(np.array(told).T)

    return view


@pytest.mark.parametrize(
    "protocol",
    [local.CountMeanSketch(1, width=16, hashes=8), local.HadamardSketch(1, width=16, hashes=8)],
    ids=["cms", "hcms"],
)
def test_sketches_leak_what_they_claim(protocol):
    verdict = audited(
        sketch_view(protocol, 3, [3, 7]), sketch_view(protocol, 7, [3, 7]), draws=400_000
    )
    assert not verdict.refutes(1)
    assert verdict.epsilon > 0.85


def rappor_view(protocol, value):
    def view(n):
        return coded(_bits.unpack(protocol.randomize([value] * n).columns[1], protocol.bits))

    return view


def disjoint_values(protocol):
    """Two values whose Bloom bits in cohort 0 do not meet: the worst pair."""
    first = rappor_bits(protocol, "v0", 0)
    for i in range(1, 1000):
        second = rappor_bits(protocol, f"v{i}", 0)
        if sum(second) == sum(first) == protocol.hashes and not np.dot(first, second):
            return "v0", f"v{i}"
    raise AssertionError


def test_rappor_leaks_its_instantaneous_epsilon_and_not_half_of_it():
    """A claim that forgets h (0.5371 instead of 1.07429) is refuted by the same audit."""
    protocol = local.Rappor(bits=8, hashes=2, cohorts=1)
    x, y = disjoint_values(protocol)
    verdict = audited(rappor_view(protocol, x), rappor_view(protocol, y))
    assert not verdict.refutes(protocol.epsilon_instant)
    assert verdict.refutes("0.5371")
    assert verdict.epsilon > 0.9


@pytest.mark.parametrize("method", ["duchi", "piecewise", "hybrid"])
def test_means_leak_what_they_claim(method):
    protocol = local.LocalMean(1, method=method)

    def at(value):
        def view(n):
            form, output = protocol.randomize(np.full(n, value)).columns
            return form.astype(np.int64) * 1000 + output

        return view

    verdict = audited(at(-1.0), at(1.0))
    assert not verdict.refutes(1)
    assert verdict.epsilon > 0.85


def test_hierarchy_leaks_what_it_claims():
    protocol = local.Hierarchy(4, 1, fanout=2)

    def at(value):
        def view(n):
            level, bits = protocol.randomize(np.full(n, value)).columns
            return level.astype(np.int64) * 256 + bits[:, 0]

        return view

    verdict = audited(at(0), at(3))
    assert not verdict.refutes(1)
    assert verdict.epsilon > 0.85


def test_heavy_hitters_leak_what_they_claim():
    protocol = local.HeavyHitters(8, 1, start=4, step=4, seeds=4)

    def at(value):
        def view(n):
            level, seed, bucket = (
                c.astype(np.int64) for c in protocol.randomize(np.full(n, value)).columns
            )
            return (level * 4 + seed) * 8 + bucket

        return view

    verdict = audited(at(3), at(200))
    assert not verdict.refutes(1)


def unary_view(protocol, value):
    def view(n):
        return coded(np.asarray(protocol.randomize(np.full(n, value))))

    return view


def plant_own_bit(monkeypatch, drawn):
    """Give the senders' own bits another law than the protocol's."""

    def draw(self, flat):
        rows = _bits.coin_rows(self.q, len(flat), self.domain)
        _bits.put_bits(rows, flat, drawn(len(flat)))
        return (rows,)

    monkeypatch.setattr(_categorical._Unary, "draw", draw)


def test_mutant_a_bit_is_never_cleared(monkeypatch):
    """The bug of one package: P(1|1) = 1."""
    protocol = local.SymmetricUnary(4, 1)
    honest = audited(unary_view(protocol, 0), unary_view(protocol, 1), 200_000)
    assert not honest.refutes(1)
    plant_own_bit(monkeypatch, lambda n: np.ones(n, dtype=bool))
    verdict = audited(unary_view(protocol, 0), unary_view(protocol, 1), 200_000)
    assert verdict.refutes(4)


def test_mutant_the_own_bit_of_optimised_unary_is_kept_too_often(monkeypatch):
    plant_own_bit(monkeypatch, lambda n: np.asarray(noise.bernoulli_many("3/5", n)))
    protocol = local.OptimizedUnary(4, 1)
    assert audited(unary_view(protocol, 0), unary_view(protocol, 1), 400_000).refutes(1)


def test_mutant_a_seed_that_depends_on_the_value(monkeypatch):
    """A seed is part of the report: drawn from the value, it gives the value away."""
    protocol = local.LocalHashing(100, 1, buckets=2)

    def draw(_self, flat):
        seeds = flat.astype(np.uint64) * np.uint64(977)
        return seeds, np.asarray(noise.uniform_many(2, len(flat)))

    monkeypatch.setattr(_hashing.LocalHashing, "draw", draw)

    def at(value):
        return lambda n: protocol.randomize(np.full(n, value)).columns[0].astype(np.int64)

    assert audited(at(3), at(7), 20_000).refutes(1)


# -- variances -----------------------------------------------------------------------------

PEOPLE, RUNS, ITEMS = 400, 2000, 10
VALUES = np.concatenate([np.zeros(100, int), 1 + np.arange(300) % 9])
TRUTH = np.bincount(VALUES, minlength=ITEMS) / PEOPLE


def replicates(protocol):
    """Estimates of RUNS collections from the same people, through client and server."""
    reports = protocol.randomize(np.tile(VALUES, RUNS))
    rows = []
    for i in range(RUNS):
        part = reports[i * PEOPLE : (i + 1) * PEOPLE]
        rows.append(protocol.aggregator().update(part).estimate().frequencies)
    return np.array(rows)


def agrees(found, variances):
    """Mean within 7 standard errors, variances within 7 of theirs (relative √(2/RUNS) each)."""
    bias = np.abs(found.mean(axis=0) - TRUTH) / np.sqrt(np.array(variances) / RUNS)
    ratio = found.var(axis=0, ddof=1) / variances
    room = 7 * math.sqrt(2 / RUNS)
    return bias.max() < 7 and abs(ratio[0] - 1) < room and abs(ratio[1:].mean() - 1) < room


def stated(protocol, **options):
    return [protocol.variance(Fraction(int(f * PEOPLE), PEOPLE), PEOPLE, **options) for f in TRUTH]


FREQUENCY = [
    local.KaryResponse(ITEMS, 1),
    local.SymmetricUnary(ITEMS, 1),
    local.OptimizedUnary(ITEMS, 1),
    local.LocalHashing(ITEMS, 1),
    local.LocalHashing(ITEMS, 1, buckets=2),
    local.SubsetSelection(ITEMS, 1),
    local.HadamardResponse(ITEMS, 1, blocks=1),
]


@pytest.mark.parametrize("protocol", FREQUENCY, ids=lambda p: f"{p.name}{p.q}"[:22])
def test_variance_is_the_one_stated(protocol):
    found = replicates(protocol)
    assert agrees(found, stated(protocol))
    # the same harness refuses a protocol that states 25 % more ε
    other = type(protocol)(domain=ITEMS, epsilon="1.25")
    assert not agrees(found, stated(other))


def test_variance_of_hadamard_response_depends_on_the_block():
    protocol = local.HadamardResponse(ITEMS, 3, blocks=4)
    found = replicates(protocol)
    block = np.arange(ITEMS) // (protocol.block - 1)
    share = np.bincount(block, weights=TRUTH)[block]
    variances = [
        protocol.variance(
            Fraction(int(f * PEOPLE), PEOPLE),
            PEOPLE,
            block_share=Fraction(round(s * PEOPLE), PEOPLE),
        )
        for f, s in zip(TRUTH, share, strict=True)
    ]
    assert agrees(found, variances)
    assert not agrees(found, np.array(variances) * 1.5)


@pytest.mark.parametrize("kind", [local.CountMeanSketch, local.HadamardSketch])
def test_variance_of_sketches_over_fresh_hash_functions(kind):
    """Each collection has hash functions of its own: the stated variance averages over them."""
    rows, squares = [], float(np.sum(TRUTH**2))
    for i in range(RUNS):
        protocol = kind(4, domain=ITEMS, width=16, hashes=4, campaign=str(i))
        aggregator = protocol.aggregator().update(protocol.randomize(VALUES))
        rows.append(aggregator.estimate().frequencies)
    found = np.array(rows)
    variances = [
        protocol.variance(Fraction(int(f * PEOPLE), PEOPLE), PEOPLE, squares=squares - f * f)
        for f in TRUTH
    ]
    assert agrees(found, variances)
    # without the factor m/(m−1) the estimates are biased: the mutant must be refused
    m = protocol.width
    assert not agrees((found * (m - 1) / m), variances)
    # without the collision term the variance is understated
    assert not agrees(found, stated(protocol))


@pytest.mark.parametrize("method", ["duchi", "piecewise", "hybrid"])
@pytest.mark.parametrize("value", [0.0, 0.75])
def test_variance_of_means(method, value):
    protocol = local.LocalMean(2, method=method)
    reports = protocol.randomize(np.full(PEOPLE * RUNS, value))
    found = np.array(
        [
            protocol.aggregator().update(reports[i * PEOPLE : (i + 1) * PEOPLE]).estimate().value
            for i in range(RUNS)
        ]
    )
    variance = protocol.variance(value, PEOPLE)
    assert abs(found.mean() - value) < 7 * math.sqrt(variance / RUNS)
    assert abs(found.var(ddof=1) / variance - 1) < 7 * math.sqrt(2 / RUNS)
    assert abs(found.var(ddof=1) / (2 * variance) - 1) > 7 * math.sqrt(2 / RUNS)


def test_variance_of_key_shares():
    protocol = local.KeyValue(3, 2, pairs=2)
    people = [{0: 1.0, 1: -1.0}] * 30 + [{0: 0.5}] * 30 + [{}] * 40
    reports = protocol.randomize(people * RUNS)
    rows = [
        protocol.aggregator().update(reports[i * 100 : (i + 1) * 100]).estimate().frequencies
        for i in range(RUNS)
    ]
    found, truth = np.array(rows), np.array([0.6, 0.3, 0.0])
    exact = np.array([protocol.variance(f, 100) for f in ("0.6", "0.3", "0")])
    assert (np.abs(found.mean(axis=0) - truth) < 7 * np.sqrt(exact / RUNS)).all()
    ratio = found.var(axis=0, ddof=1) / exact
    assert (np.abs(ratio - 1) < 7 * math.sqrt(2 / RUNS)).all()
    assert not (np.abs(ratio / 1.6 - 1) < 7 * math.sqrt(2 / RUNS)).any()


@pytest.mark.parametrize("cumulative", [False, True])
def test_variance_of_hierarchies(cumulative):
    """People drawn afresh for each collection, as the stated variance has it."""
    protocol = local.Hierarchy(8, 2, fanout=2)
    share = np.array([0.4, 0.2, 0.1, 0.1, 0.1, 0.05, 0.05, 0.0])
    n, rng = 1500, np.random.default_rng(8)
    reports = protocol.randomize(rng.choice(8, n * RUNS, p=share))
    rows = []
    for i in range(RUNS):
        estimate = protocol.aggregator().update(reports[i * n : (i + 1) * n]).estimate()
        rows.append(estimate.cumulative()[:-1] if cumulative else estimate.frequencies)
    found = np.array(rows)
    truth = np.cumsum(share)[:-1] if cumulative else share
    variances = protocol.variance(share, n, cumulative=cumulative)[: found.shape[1]]
    assert (np.abs(found.mean(axis=0) - truth) < 7 * np.sqrt(variances / RUNS)).all()
    # levels are drawn, not even: the variance grows by under 1 %
    ratio = found.var(axis=0, ddof=1) / variances
    assert (np.abs(ratio - 1) < 7 * math.sqrt(2 / RUNS) + 0.01).all()
    assert not (np.abs(ratio / 1.6 - 1) < 7 * math.sqrt(2 / RUNS)).any()


def test_means_between_grid_points_are_unbiased():
    protocol = local.LocalMean(4, low=0, high=1)
    values = np.full(400_000, 0.3331)
    estimate = protocol.aggregator().update(protocol.randomize(values)).estimate()
    assert abs(estimate.value - 0.3331) < 7 * estimate.standard_error
    # a client that rounds to the nearest grid point is off by 0.0019
    grid = round(0.3331 * 64) / 64
    assert abs(estimate.value - grid) > 7 * estimate.standard_error


# -- the simulated law is the clients' law ------------------------------------------------------


def states(draw, runs=8000):
    return [tuple(draw()) for _ in range(runs)]


def same_law(a, b):
    """p-value that two samples of integer vectors have one law; rare vectors are pooled."""
    seen: dict[tuple[int, ...], list[int]] = {}
    for which, sample in enumerate((a, b)):
        for vector in sample:
            seen.setdefault(vector, [0, 0])[which] += 1
    table = np.array(list(seen.values()))
    common = table.sum(axis=1) >= 40
    table = np.vstack([table[common], table[~common].sum(axis=0)])
    return stats.chi2_contingency(table[table.sum(axis=1) > 0]).pvalue


ITEM = list(range(3))
TEXT = ["a", "b", "c"]
ROWS = [(-1.0, 0.5), (0.0, 0.0), (1.0, 0.25)]
PAIRS = [{0: 0.5, 1: -1.0}, {1: 0.0}, {}]


@pytest.mark.parametrize(
    ("make", "values"),
    [
        (lambda e: local.KaryResponse(3, e), ITEM),
        (lambda e: local.OptimizedUnary(3, e), ITEM),
        (lambda e: local.SymmetricUnary(3, e), ITEM),
        (lambda e: local.SubsetSelection(3, e, 2), ITEM),
        (lambda e: local.HadamardResponse(3, e, blocks=1), ITEM),
        (lambda e: local.HadamardResponse(3, e, blocks=2), ITEM),
        (lambda e: local.LocalHashing(3, e, buckets=2, seeds=2), ITEM),
        (lambda e: local.CountMeanSketch(e, 3, width=2, hashes=2), ITEM),
        (lambda e: local.CountMeanSketch(e, width=2, hashes=1), TEXT),
        (lambda e: local.HadamardSketch(e, 3, width=2, hashes=2), ITEM),
        (lambda e: local.HadamardSketch(e, width=4, hashes=1), TEXT),
        (lambda e: local.Rappor(2, 2, 1, f=str(3 / (5 + e)), p="0.25", q="0.75"), TEXT),
        (lambda e: local.SquareWave(3, e), ITEM),
        (lambda e: local.Hierarchy(3, e, fanout=2), ITEM),
        (lambda e: local.LocalMean(e, method="duchi"), [-1.0, 0.3, 1.0]),
        (lambda e: local.LocalVector(2, "0.5" if e == 2 else 8, reported=1), ROWS),
        (lambda e: local.LocalVector(2, "0.5" if e == 2 else 8, reported=2), ROWS),
        (lambda e: local.KeyValue(2, e, pairs=2), PAIRS),
        (lambda e: local.HeavyHitters(2, e, start=1, step=1, seeds=2), ITEM),
    ],
)
def test_simulated_states_follow_the_clients(make, values):
    """The joint law of the state: 5 people, 3000 collections, and a mutant of another ε."""
    protocol = make(2)
    who, runs = [0, 0, 0, 1, 2], 3000
    people = [values[i] for i in who]
    reports = protocol.randomize(people * runs)
    encoded = []
    for i in range(runs):
        state = np.zeros(protocol.state_shape, dtype=np.int64)
        protocol.tally(state, reports[5 * i : 5 * i + 5].columns)
        encoded.append(tuple(state.reshape(-1).tolist()))
    rng, counts = np.random.default_rng(5), np.bincount(who, minlength=3)
    given = None if values is ITEM and protocol.name != "heavy-hitters" else values

    def sample(drawn):
        return states(lambda: drawn.simulate_state(counts, rng, given).reshape(-1).tolist(), runs)

    assert same_law(encoded, sample(protocol)) > ALARM
    other = make(8)
    if other.state_shape == protocol.state_shape:
        assert same_law(encoded, sample(other)) < ALARM


def test_simulated_sets_are_drawn_jointly():
    """Supports of n sets of ω items sum to ω·n; independent marginals, the mutant, do not."""
    protocol = local.SubsetSelection(8, 1)
    rng = np.random.default_rng(0)
    counts = rng.multinomial(5000, np.full(8, 1 / 8))
    for _ in range(20):
        assert protocol.simulate_state(counts, rng).sum() == protocol.size * 5000
    p, q = float(protocol.p), float(protocol.q)
    marginals = rng.binomial(counts, p) + rng.binomial(5000 - counts, q)
    assert marginals.sum() != protocol.size * 5000


def test_simulated_piecewise_sums_have_the_stated_moments():
    """Seven standard deviations of mean and variance over 2000 collections."""
    protocol, rng = local.LocalMean(2, method="piecewise"), np.random.default_rng(1)
    runs, n = 2000, 50
    found = np.array([
        protocol.estimate(local.Tally(n, protocol.simulate_state(np.array([n]), rng, [0.25]), {},
                                      protocol.loss)).value
        for _ in range(runs)
    ])  # fmt: skip
    variance = protocol.variance(0.25, n)
    assert abs(found.mean() - 0.25) < 7 * math.sqrt(variance / runs)
    assert abs(found.var(ddof=1) / variance - 1) < 7 * math.sqrt(2 / runs)


# -- variances of the rest, through simulated states (whose law is the clients', above) -----------


def moments(protocol, share, n, runs, *, values=None, read=lambda e: e.centre, **options):
    """Mean and variance of estimates of people drawn afresh from a population."""
    rng, rows = np.random.default_rng(2), []
    for _ in range(runs):
        counts = rng.multinomial(n, share)
        state = protocol.simulate_state(counts, rng, values)
        tally = local.Tally(n, state, {}, protocol.loss)
        rows.append(read(protocol.estimate(tally, **options)))
    return np.mean(rows, axis=0), np.var(rows, axis=0, ddof=1)


def confirms(found, truth, variance, runs, extra=0.0):
    mean, spread = found
    unbiased = (np.abs(mean - truth) < 7 * np.sqrt(variance / runs)).all()
    # the fourth moment of sums of bounded numbers is that of a normal law, nearly
    return unbiased and (np.abs(spread / variance - 1) < 8 * math.sqrt(2 / runs) + extra).all()


def test_variance_of_the_square_waves_raw_reading():
    protocol, share = local.SquareWave(6, 2), np.array([0.5, 0.2, 0.1, 0.1, 0.1, 0])
    for cumulative in (False, True):
        read = (lambda e: np.cumsum(e.raw)[:-1]) if cumulative else (lambda e: e.raw)
        found = moments(protocol, share, 2000, 1500, read=read)
        truth = np.cumsum(share)[:-1] if cumulative else share
        exact = protocol.variance(share, 2000, cumulative=cumulative)[: len(truth)]
        assert confirms(found, truth, exact, 1500)
        assert not confirms(found, truth, 1.6 * exact, 1500)


def test_variance_of_decoded_rappor():
    """Cohort sizes are drawn, not even: under 1 % more."""
    protocol, names = local.Rappor(bits=16, hashes=2, cohorts=4), ["a", "b", "c"]
    share = np.array([0.6, 0.3, 0.1])
    found = moments(protocol, share, 20_000, 500, values=names, candidates=names)
    exact = protocol.variance(share, 20_000, candidates=names)
    assert confirms(found, share, exact, 500, 0.01)
    assert not confirms(found, share, 3 * exact, 500, 0.01)


def test_variance_of_vectors():
    protocol = local.LocalVector(4, 3)
    found = moments(protocol, [1.0], 500, 1500, values=[(0.5, -1.0, 0.0, 0.25)])
    truth = np.array([0.5, -1.0, 0.0, 0.25])
    exact = np.array([protocol.variance(t, 500) for t in truth.tolist()])
    assert confirms(found, truth, exact, 1500)
    assert not confirms(found, truth, 1.6 * exact, 1500)


def test_variance_of_heavy_hitters():
    """Everybody holds one value, so that no collision of the public seeds blurs it."""
    protocol = local.HeavyHitters(8, 2, start=4, step=4, seeds=64)
    n = 4000
    found = moments(
        protocol, [1.0], n, 1000, values=[77], keep=1,
        read=lambda e: e.frequencies[e.values == 77][0],
    )  # fmt: skip
    exact = protocol.variance(1, n)
    assert confirms(found, 1.0, exact, 1000, 0.01)
    assert not confirms(found, 1.0, 2 * exact, 1000, 0.01)


def test_intervals_allow_for_the_collisions_of_shared_hashes():
    """Each run has hash functions of its own; 300 runs at 90 %.

    More than 30 + 7·√27 = 66 misses happen with probability below 1e-9. Clopper–Pearson
    alone, the mutant, misses nearly always: collisions outweigh the noise of 10⁸ people.
    """
    share, runs = np.array([0.5, 0.3, 0.1, 0.05, 0.05]), 300
    for kind in (local.CountMeanSketch, local.HadamardSketch):
        missed, bare = 0, 0
        for i in range(runs):
            sketch = kind(4, domain=5, width=8, hashes=8, campaign=str(i))
            estimate = local.simulate(sketch, share, n=10**8, seed=i)
            low, high = estimate.interval(0.9)
            missed += not low[3] <= share[3] <= high[3]
            p, q = float(sketch.p), float(sketch.q)
            ends = _intervals.clopper_pearson(estimate.supports[3], 10**8, 0.1)
            bare += not ends[0] <= q + (p - q) * share[3] <= ends[1]
        assert missed <= 66
        assert bare > 66


def test_simulated_sketches_and_means_agree_with_their_errors():
    """Seven standard errors over 200 shares and one mean."""
    share = 1 / np.arange(1, 51)
    share /= share.sum()
    for kind in (local.CountMeanSketch, local.HadamardSketch):
        sketch = kind(4, domain=50, width=64, hashes=16)
        estimate = local.simulate(sketch, share, n=200_000, seed=1)
        assert (np.abs(estimate.frequencies - share) < 7 * estimate.standard_errors).all()
    mean = local.simulate(local.LocalMean(1), [0.25, 0.75], values=[0.1, 0.5], n=10**6, seed=2)
    assert abs(mean.value - 0.4) < 7 * mean.standard_error


# -- decoding ------------------------------------------------------------------------------


def rappor_people(n, rng):
    share = np.exp(-np.arange(20) / 5)
    return rng.choice(20, n, p=share / share.sum()), share / share.sum()


def test_rappor_finds_frequent_strings_and_no_others():
    """Family confidence 1 − 1e-10 per decoding: false discoveries below 1e-9 in all."""
    rappor = local.Rappor(bits=32, hashes=2, cohorts=16)
    rng = np.random.default_rng(1)
    for candidates in (100, 400):
        values, share = rappor_people(400_000, rng)
        aggregator = rappor.aggregator().update(rappor.randomize(values))
        decoded = aggregator.estimate(candidates=range(candidates), confidence=CONFIDENCE)
        assert set(decoded.found) <= set(range(20))
        # z near 20 and 15 with 400 candidates, the bound is 7.2
        assert {0, 1} <= set(decoded.found)
        error = np.abs(decoded.frequencies[:20] - share) / decoded.standard_errors[:20]
        assert error.max() < 7.5  # 7 for the noise; the people drawn add a little
        assert (decoded.nonnegative >= 0).all()


def test_rappor_preselects_among_thousands():
    rappor = local.Rappor(bits=32, hashes=2, cohorts=16)
    values, _ = rappor_people(600_000, np.random.default_rng(2))
    aggregator = rappor.aggregator().update(rappor.randomize(values))
    decoded = aggregator.estimate(candidates=range(2000), confidence=CONFIDENCE)
    assert set(decoded.found) <= set(range(20))
    assert 0 in decoded.found


def test_unknown_strings_show_as_unexplained():
    """Half of the people hold a value that is not among the candidates."""
    rappor = local.Rappor(bits=32, hashes=2, cohorts=16)
    values = ["known"] * 200_000 + ["unknown"] * 200_000
    aggregator = rappor.aggregator().update(rappor.randomize(values))
    decoded = aggregator.estimate(candidates=["known", "other"], confidence=CONFIDENCE)
    assert set(decoded.found) == {"known"}
    assert decoded.chi_square > 2 * decoded.degrees
    assert decoded.unexplained > 0.2


def test_heavy_hitters_by_prefix_extension():
    rng = np.random.default_rng(3)
    ids = rng.choice(2**32, 5000, replace=False).astype(np.int64)
    share = 1 / np.arange(1, 5001) ** 1.2
    values = ids[rng.choice(5000, 300_000, p=share / share.sum())]
    protocol = local.HeavyHitters(32, 4)
    aggregator = protocol.aggregator().update(protocol.randomize(values))
    estimate = aggregator.estimate(keep=32, confidence=CONFIDENCE)
    assert set(estimate.found) <= set(ids.tolist())
    assert set(ids[:4].tolist()) <= set(estimate.found)
    low, high = estimate.interval(CONFIDENCE)
    truth = {
        int(v): c / len(values) for v, c in zip(*np.unique(values, return_counts=True), strict=True)
    }
    for i in range(4):
        assert low[i] < truth[int(estimate.values[i])] < high[i]


def test_texts_as_heavy_hitters():
    protocol = local.HeavyHitters(40, 4, start=10, step=10, seeds=4096)
    values = ["pizza"] * 60_000 + ["soup"] * 40_000
    aggregator = protocol.aggregator().update(protocol.randomize(values))
    estimate = aggregator.estimate(keep=8, confidence=CONFIDENCE)
    assert set(estimate.texts) == {"pizza", "soup"}
    with pytest.raises(ValueError, match="bytes"):
        protocol.randomize("too long")


@pytest.mark.parametrize("fanout", [2, 4])
def test_hierarchies_err_as_they_say(fanout):
    rng = np.random.default_rng(4)
    x = np.arange(64)
    share = np.exp(-0.5 * ((x - 20) / 5) ** 2) + 2.0 * (x == 40)
    values = rng.choice(64, 100_000, p=share / share.sum())
    truth = np.bincount(values, minlength=64) / len(values)
    protocol = local.Hierarchy(64, 1, fanout=fanout)
    estimate = protocol.aggregator().update(protocol.randomize(values)).estimate()
    assert (np.abs(estimate.frequencies - truth) < 7 * estimate.standard_errors).all()
    inside = estimate.cumulative_errors()[:-1] * 7
    assert (np.abs(estimate.cumulative() - np.cumsum(truth))[:-1] < inside).all()
    median = int(np.searchsorted(np.cumsum(truth), 0.5))
    assert median in estimate.quantile_interval(0.5, CONFIDENCE)


def test_square_wave_is_close_for_smooth_data():
    """KS .015 at ε = 1, n = 10⁵ in the literature's setting; 0.06 is far beyond chance."""
    rng = np.random.default_rng(6)
    values = np.minimum((rng.beta(5, 2, 100_000) * 256).astype(int), 255)
    truth = np.cumsum(np.bincount(values, minlength=256) / len(values))
    protocol = local.SquareWave(256, 1)
    estimate = protocol.aggregator().update(protocol.randomize(values)).estimate()
    assert np.abs(estimate.cumulative() - truth).max() < 0.06
    assert abs(estimate.quantile(0.5) - np.searchsorted(truth, 0.5)) < 12


def test_vectors_and_key_values_err_as_they_say():
    rng = np.random.default_rng(7)
    x = rng.uniform(-0.2, 0.8, (50_000, 5))
    vector = local.LocalVector(5, 4)
    estimate = vector.aggregator().update(vector.randomize(x)).estimate()
    assert (np.abs(estimate.value - x.mean(axis=0)) < 7 * estimate.standard_errors).all()
    worst = math.sqrt(vector.variance(n=len(x)))
    assert (estimate.standard_errors < 1.05 * worst).all()
    pairs = local.KeyValue(6, 2, pairs=2)
    people = [{0: 0.4, 1: -0.5} if i % 2 else {0: 0.4} for i in range(60_000)]
    found = pairs.aggregator().update(pairs.randomize(people)).estimate()
    truth = np.array([1.0, 0.5, 0, 0, 0, 0])
    assert (np.abs(found.frequencies - truth) < 7 * found.standard_errors).all()
    low, high = found.mean_interval(CONFIDENCE)
    assert low[0] < 0.4 < high[0]
    assert low[1] < -0.5 < high[1]
    assert np.isnan(low[2:]).all()


# -- intervals -------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.5])
@pytest.mark.parametrize("epsilon", [1, 4])
def test_population_intervals_cover_exactly(share, epsilon):
    """Coverage summed over all outcomes, not sampled: at least 95 %, at most 97.5 %."""
    protocol = local.KaryResponse(16, epsilon)
    n = 1000
    p, q = float(protocol.p), float(protocol.q)
    c = np.arange(n + 1)
    low, high = protocol.share_interval(c, n, 0.05, "population")
    law = stats.binom.pmf(c, n, q + (p - q) * share)
    coverage = law[(low <= share) & (share <= high)].sum()
    assert 0.95 <= coverage < 0.975


@pytest.mark.parametrize("held", [0, 3, 20, 40])
@pytest.mark.parametrize("epsilon", [1, 4])
def test_respondent_intervals_cover_exactly(held, epsilon):
    protocol = local.RandomizedResponse(epsilon=epsilon)
    n = 40
    p, q = float(protocol.p), float(protocol.q)
    low, high = protocol.share_interval(np.arange(n + 1), n, 0.05, "respondents")
    law = np.convolve(
        stats.binom.pmf(np.arange(held + 1), held, p),
        stats.binom.pmf(np.arange(n - held + 1), n - held, q),
    )
    inside = (low <= held / n + 1e-12) & (held / n <= high + 1e-12)
    assert law[inside].sum() >= 0.95


def test_thirty_fresh_reports_give_a_person_away():
    """Majority of 30 fresh Warner reports at ε = .5 is right 91.2 % of the time; total ε = 15."""
    protocol = local.RandomizedResponse(epsilon="0.5")
    p = float(protocol.p)
    right = stats.binom.sf(15, 30, p) + stats.binom.pmf(15, 30, p) / 2
    assert right == pytest.approx(0.912, abs=5e-4)
    assert protocol.aggregator(unit="person", reports_per_unit=30).loss.epsilon() == 15
