"""Blowfish graphs and Pufferfish frameworks: implied sensitivities and what they promise."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import mechanisms as m
from discreet import noise
from discreet.errors import NotProvedError, ParameterError
from discreet.meaning import Blowfish, Pufferfish, SecretPair

# -- Blowfish --------------------------------------------------------------------------


def test_line_graph_gives_the_cumulative_histogram_sensitivity_one():
    ages = Blowfish.line(range(100))
    cumulative = np.tril(np.ones((100, 100), dtype=int))
    assert ages.sensitivity("cumulative") == 1
    assert ages.sensitivity(cumulative) == 1
    # under change-one the same query moves by 99
    assert m.sensitivity(cumulative, "change-one") == 99
    assert Blowfish.complete(range(100)).sensitivity("cumulative") == 99


def test_complete_graph_is_change_one():
    rng = np.random.default_rng(5)
    for _ in range(20):
        query = rng.integers(-3, 4, (4, 7))
        graph = Blowfish.complete(range(7))
        for norm in (1, 2):
            ours, theirs = graph.sensitivity(query, norm), m.sensitivity(query, "change-one", norm)
            assert ours == pytest.approx(theirs, rel=1e-12)
    assert graph.loss("0.1").epsilon() == pytest.approx(0.1)


@given(st.integers(2, 8), st.data())
def test_sensitivity_is_the_largest_move_along_an_edge(n, data):
    pairs = data.draw(
        st.lists(
            st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda t: t[0] != t[1]),
            min_size=1,
            max_size=10,
        )
    )
    query = np.array(data.draw(st.lists(st.lists(st.integers(-5, 5), min_size=n, max_size=n),
                                        min_size=1, max_size=4)))  # fmt: skip
    graph = Blowfish.of_pairs(range(n), pairs)
    assert graph.sensitivity(query) == max(
        np.abs(query[:, a] - query[:, b]).sum() for a, b in pairs
    )
    assert graph.sensitivity(query.astype(float)) >= graph.sensitivity(query)


def test_huge_integers_do_not_wrap():
    graph = Blowfish.line(range(2))
    assert graph.sensitivity(np.array([[2**62, -(2**62)]])) == 2**63
    assert graph.sensitivity(np.array([[-(2**63), 2**62]])) == 2**63 + 2**62


def test_partition_makes_block_totals_public_and_refuses_a_change_one_price():
    towns = Blowfish.partition([["a1", "a2"], ["b1", "b2", "b3"]])
    assert towns.sensitivity([[1, 1, 0, 0, 0], [0, 0, 1, 1, 1]]) == 0
    assert towns.sensitivity("histogram") == 2
    assert towns.distance("a1", "b1") == math.inf
    assert towns.odds_factor("a1", "b1", 1) == math.inf
    assert "Not protected" in towns.meaning(1)
    with pytest.raises(NotProvedError):
        towns.loss(1)


def test_attributes_are_protected_one_by_one():
    graph = Blowfish.attributes({"sex": ["F", "M"], "age": range(3), "ill": [False, True]})
    assert len(graph.values) == 12
    assert graph.distance(("F", 0, False), ("M", 2, True)) == 3
    assert graph.diameter == 3
    assert graph.odds_factor(("F", 0, False), ("F", 2, True), "0.5") == pytest.approx(math.e)
    # every marginal moves by at most 2 under one attribute's change; one of them at a time
    sex = [[int(v[0] == s) for v in graph.values] for s in "FM"]
    ill = [[int(v[2] is s) for v in graph.values] for s in (False, True)]
    assert graph.sensitivity(sex + ill) == 2
    assert m.sensitivity(sex + ill, "change-one") == 4


def test_distance_threshold():
    graph = Blowfish.within([0, 10, 20, 30], 10)
    assert graph.sensitivity("sum") == 10
    assert graph.distance(0, 30) == 3
    assert Blowfish.within(["0.5", "0.75", 1], "0.25").sensitivity("sum") == 0.25
    assert Blowfish.within([3, 1, 2], 1).distance(3, 1) == 2  # order does not matter


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_noise_for_the_policy_protects_along_the_graph(epsilon):
    """Exact laws: a cumulative histogram with noise for sensitivity 1, one record moved."""
    graph = Blowfish.line(range(4))
    scale = Fraction(graph.sensitivity("cumulative")) / Fraction(epsilon)
    law = noise.DiscreteLaplace(scale)
    k = np.arange(-40, 41)
    for x, y in itertools.combinations(range(4), 2):
        # log ratio of the whole vector is the sum over the counts that differ
        worst = sum(
            np.log(law.pmf(k) / law.pmf(k - 1)).max() for i in range(4) if (x <= i) != (y <= i)
        )
        promised = math.log(graph.odds_factor(x, y, epsilon))
        assert worst <= promised + 1e-9
        assert worst == pytest.approx(graph.distance(x, y) * epsilon, rel=1e-6)


def test_loss_for_a_ledger_walks_the_diameter():
    loss = Blowfish.line(range(11)).loss("0.1")
    assert loss.epsilon() == 1.0
    assert loss.neighbours == "change-one"


def test_large_domains_stay_cheap_and_sound():
    graph = Blowfish.line(range(20_000))
    assert graph.sensitivity("cumulative") == 1
    assert 19_999 <= graph.diameter <= 20_002


@pytest.mark.parametrize(
    "call",
    [
        lambda: Blowfish.line([]),
        lambda: Blowfish.line([1]),
        lambda: Blowfish.line([1, 1]),
        lambda: Blowfish.partition([[1], [2]]),
        lambda: Blowfish.within([1, 2], "0.5"),
        lambda: Blowfish.within(["a", "b"], 1),
        lambda: Blowfish.of_pairs([1, 2], [(1, 3)]),
        lambda: Blowfish.of_pairs([1, 2], [(1, 1)]),
        lambda: Blowfish.complete(range(10**4)),
        lambda: Blowfish.line(range(3)).sensitivity([[1, 2]]),
        lambda: Blowfish.line(range(3)).sensitivity([[1, 2, math.nan]]),
        lambda: Blowfish.line(range(3)).sensitivity([["a", "b", "c"]]),
        lambda: Blowfish.line("abc").sensitivity("sum"),
        lambda: Blowfish.line("abc").sensitivity("median"),
        lambda: Blowfish.line("abc").sensitivity("histogram", norm=3),
        lambda: Blowfish.line("abc").distance("a", "z"),
        lambda: Blowfish.line("abc").meaning(-1),
    ],
)
def test_bad_policies_are_refused(call):
    with pytest.raises(ParameterError):
        call()


# -- Pufferfish ------------------------------------------------------------------------

WELL = {0: "0.2", 1: "0.225", 2: "0.5", 3: "0.075"}
ILL = {1: "0.075", 2: "0.5", 3: "0.225", 4: "0.2"}


def test_flu_in_a_household_of_four():
    """Song, Wang & Chaudhuri 2017: distance 2, where group privacy would need 4."""
    assert Pufferfish([SecretPair("well", "ill", WELL, ILL)]).sensitivity == 2


def test_independent_records_give_back_the_usual_sensitivity():
    others = {k: Fraction(math.comb(5, k), 32) for k in range(6)}
    shifted = {k + 1: q for k, q in others.items()}
    assert Pufferfish([SecretPair("no", "yes", others, shifted)]).sensitivity == 1


def test_worst_belief_decides():
    mild = SecretPair("no", "yes", {0: 1}, {1: 1}, belief="independent")
    grim = SecretPair("no", "yes", {0: 1}, {5: 1}, belief="all five alike")
    framework = Pufferfish([mild, grim])
    assert framework.sensitivity == 5
    text = framework.meaning("0.5")
    assert "all five alike" in text
    assert "need not add up" in text


@pytest.mark.parametrize("epsilon", [0.2, 1.0])
def test_noise_for_the_distance_keeps_the_promise_exactly(epsilon):
    """Mixtures of exact laws; the mutant that uses sensitivity 1 breaks the promise."""
    k = np.arange(-150, 151)

    def ratio(sensitivity):
        law = noise.DiscreteLaplace(Fraction(sensitivity) / Fraction(epsilon))
        seen = [sum(float(Fraction(q)) * law.pmf(k - x) for x, q in d.items()) for d in (WELL, ILL)]
        return np.abs(np.log(seen[0] / seen[1])).max()

    framework = Pufferfish([SecretPair("well", "ill", WELL, ILL)])
    assert ratio(framework.sensitivity) <= epsilon + 1e-9
    assert ratio(1) > epsilon


@given(
    st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 6)), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 6)), min_size=1, max_size=5),
)
def test_distance_is_that_of_the_quantiles(a, b):
    def law(parts):
        merged: dict[int, int] = {}
        for x, w in parts:
            merged[x] = merged.get(x, 0) + w
        total = sum(merged.values())
        return {x: Fraction(w, total) for x, w in merged.items()}

    first, second = law(a), law(b)
    pair = SecretPair("s", "t", first, second)
    grid = 2 * math.lcm(*(q.denominator for q in [*first.values(), *second.values()]))

    def quantile(of, u):
        acc = Fraction(0)
        for x in sorted(of):
            acc += of[x]
            if acc >= u:
                return x
        raise AssertionError

    levels = [Fraction(2 * i + 1, 2 * grid) for i in range(grid)]
    assert pair.distance == max(abs(quantile(first, u) - quantile(second, u)) for u in levels)
    assert pair.distance == SecretPair("t", "s", second, first).distance


@pytest.mark.parametrize(
    "call",
    [
        lambda: Pufferfish([]),
        lambda: SecretPair("a", "b", {}, {0: 1}),
        lambda: SecretPair("a", "b", {0: "0.5"}, {0: 1}),
        lambda: SecretPair("a", "b", {0: "1.5", 1: "-0.5"}, {0: 1}),
        lambda: SecretPair("a", "b", [0, 1], {0: 1}),
        lambda: SecretPair("a", "b", {"x": 1}, {0: 1}),
    ],
)
def test_bad_frameworks_are_refused(call):
    with pytest.raises(ParameterError):
        call()
