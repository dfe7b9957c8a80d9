"""Parts of a plan against plain definitions: rules and their losses, trees of counts."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import optimize

from discreet import noise, sql
from discreet import plan as pl
from discreet import policy as pol
from discreet import privacy as p
from discreet.errors import NotProvedError, ParameterError
from discreet.plan._parts import (
    LARGEST_SCALE,
    Cells,
    Cost,
    GaussianRule,
    Hidden,
    LaplaceRule,
    Priced,
    add,
    charge,
    distance,
    fits,
    loss_of,
)
from discreet.plan._picks import Labels, Pick, squares_moved
from discreet.plan._stability import Sensitivity
from discreet.plan._tails import tail_margin
from discreet.plan._trees import Levels, Tree, _squares, rank_error, typical
from discreet.plan._vectors import Keys, Numbers, Threshold, Vector

MOVES = Sensitivity(l1=6, l2_squared=14, linf=3)


# -- rules ---------------------------------------------------------------------------


def test_laplace_noise_is_the_first_norm_over_epsilon():
    rule = LaplaceRule(Fraction(1, 4), Fraction(1, 10**6), flip=False)
    assert rule.law(MOVES) == noise.DiscreteLaplace(24)
    assert rule.times(3) == LaplaceRule(Fraction(3, 4), Fraction(1, 10**6), flip=False)
    assert rule.rho is None
    assert loss_of(rule.law(MOVES), MOVES, 2).top == Fraction(1, 4)


def test_gaussian_noise_is_the_second_norm_over_rho():
    rule = GaussianRule(Fraction(8), delta=Fraction(1, 10**6))
    assert rule.law(MOVES) == noise.DiscreteGaussian.from_variance(112)
    assert rule.rho == Fraction(1, 16)
    loss = loss_of(rule.law(MOVES), MOVES, 2)
    assert (loss.rho, loss.dimension) == (Fraction(1, 16), 2)
    assert rule.times(4) == GaussianRule(Fraction(2), delta=Fraction(1, 10**6))
    both = GaussianRule(Fraction(2), Fraction(5))
    assert both.law(MOVES) == noise.DiscreteGaussian.from_variance(33)
    assert both.times(2) == GaussianRule(Fraction(1), Fraction(5, 2))
    assert both.rho is None
    assert GaussianRule(constant=Fraction(5)).rho is None


def test_noise_is_refused_only_beyond_what_is_drawn():
    one = Sensitivity(1, 1, 1)
    widest = Fraction(LARGEST_SCALE)
    assert LaplaceRule(1 / widest).law(one).scale == widest
    assert GaussianRule(widest**2).law(one).sigma2 == widest**2
    for rule in (LaplaceRule(1 / (widest + 1)), GaussianRule(widest**2 + 1)):
        with pytest.raises(ParameterError, match="60 bits"):
            rule.law(one)


def test_a_bucket_gathers_what_is_not_shown():
    groups = {("a",): (1, 10), ("b",): (2, 20), ("c",): (4, 40)}
    assert Cells([("b",), ("z",)]).totals(groups, 0).tolist() == [2, 0]
    assert Cells([("b",), ("z",)], "others").totals(groups, 1).tolist() == [20, 0, 50]
    assert [len(Cells([("b",)])), len(Cells([("b",)], "others"))] == [1, 2]


def test_labels_of_a_cell_are_shown_together():
    assert Labels((("a",), ("b", "c"), ("d", "e", "f"))).texts.tolist() == ["a", "b, c", "d, e, f"]


# -- trees ---------------------------------------------------------------------------


def tree(levels, branching, law=None, **shape):
    shape = {
        "lo": Fraction(0),
        "width": Fraction(2),
        "hi": Fraction(100),
        "step": Fraction(1),
    } | shape
    return Levels(levels, law or noise.DiscreteLaplace(3), branching, **shape)


def random_tree(depth, branching, cells=2, seed=5, spread=9, *, law=None):
    rng = np.random.default_rng(seed)
    levels = [rng.integers(-2, spread, (cells, branching**d)) for d in range(1, depth + 1)]
    return tree(tuple(tuple(map(tuple, level.tolist())) for level in levels), branching, law)


SHAPES = [(1, 4), (2, 2), (2, 3), (3, 2), (2, 4)]


def left_of(levels, cell, boundary):
    """Noisy count left of a boundary: whole nodes first, then parts of the node that is cut."""
    depth, b = len(levels.levels), levels.branching
    total, begin = 0, 0
    for d, level in enumerate(levels.levels, start=1):
        cut = boundary // b ** (depth - d)  # the node of this level in which the boundary lies
        total += sum(level[cell][i] for i in range(begin, cut))
        begin = cut * b
    return total


@pytest.mark.parametrize(("depth", "branching"), SHAPES)
def test_counts_left_of_a_boundary_are_sums_of_few_nodes(depth, branching):
    levels = random_tree(depth, branching)
    found = levels._cumulative()
    for cell in range(2):
        for j in range(branching**depth + 1):
            assert found[cell, j] == left_of(levels, cell, j)


@pytest.mark.parametrize(("depth", "branching"), SHAPES)
def test_the_fit_is_least_squares_then_isotonic(depth, branching):
    levels = random_tree(depth, branching, spread=30)
    leaves = branching**depth
    rows = [[float(i * branching**d // leaves == node) for i in range(leaves)]
            for d in range(1, depth + 1) for node in range(branching**d)]  # fmt: skip
    for cell in range(2):
        measured = [x for level in levels.levels for x in level[cell]]
        fit = np.linalg.lstsq(np.array(rows), np.array(measured, float), rcond=None)[0]
        rising = optimize.isotonic_regression(np.concatenate([[0], np.cumsum(fit)])).x
        assert levels._fitted[cell] == pytest.approx(rising, abs=1e-9)


@pytest.mark.parametrize("q", [0.5, 0.25, 0.9])
@pytest.mark.parametrize(("depth", "branching"), SHAPES)
def test_noise_of_a_rank_is_that_of_the_nodes_it_adds(depth, branching, q):
    """Coefficients of each node in D(j) = left(j) − q·all, one node after the other."""
    squares, largest = _squares(depth, branching, q)
    zero = [[0] * branching**d for d in range(1, depth + 1)]
    exact, most = np.zeros(branching**depth + 1), np.zeros(branching**depth + 1)
    for d in range(depth):
        for node in range(branching ** (d + 1)):
            zero[d][node] = 1
            one = tree(tuple((tuple(level),) for level in zero), branching)._cumulative()[0]
            move = np.abs(one - q * one[-1])
            exact, most = exact + move**2, np.maximum(most, move)
            zero[d][node] = 0
    assert squares == pytest.approx(exact, abs=1e-12)
    assert (largest >= most - 1e-12).all()
    assert largest.max() == pytest.approx(max(most.max(), 1.0 if depth > 1 else 0.0))


def test_sizes_are_the_first_level_and_its_noise():
    levels = random_tree(2, 3)
    box = levels.sizes(0.9)
    total = np.array([sum(row) for row in levels.levels[0]], float)
    off = tail_margin(levels.law, np.array([3.0]), np.array([1.0]), 0.05)[0]
    assert box.low == pytest.approx(total - off, rel=1e-12)
    assert box.high == pytest.approx(total + off, rel=1e-12)
    assert off > 0
    assert levels.whole.low.tolist() == [0, 0]
    assert levels.whole.high.tolist() == [100, 100]
    assert (levels.leaves, levels.size) == (9, 2 * (3 + 9))


def exact_tree(counts, branching, law=None, **shape):
    """A tree without noise over one cell."""
    leaves = np.array(counts)
    depth = round(math.log(len(counts), branching))
    levels = tuple(
        (tuple(leaves.reshape(branching**d, -1).sum(axis=1).tolist()),) for d in range(1, depth + 1)
    )
    return tree(levels, branching, law or noise.DiscreteLaplace("1e-3"), **shape)


@pytest.mark.parametrize(
    ("counts", "at", "value"),
    [
        # leaf 2 holds the middle of ten: 3 of its 6 lie below rank 5, its values are 4 and 5
        ([1, 1, 6, 2], "0.5", 4 + (3 / 6) * 1),
        ([1, 1, 6, 2], "0.1", 1.0),  # the last value of leaf 0
        ([1, 1, 6, 2], "0.95", 6 + 0.75),
        ([0, 0, 8, 0], "0.25", 4 + 0.25),
        ([0, 0, 0, 0], "0.5", 2.5),
        ([4, 0, 0, 4], "0.5", 2.5),
    ],
)
def test_a_quantile_lies_where_the_fit_crosses_its_rank(counts, at, value):
    levels = exact_tree(counts, 2)
    leaf, share = levels._crossing(float(Fraction(at)))
    found = levels.quantile(Fraction(at))[0]
    assert found == 2 * leaf[0] + share[0] * 1
    assert found == pytest.approx(value)


@pytest.mark.parametrize(
    ("counts", "at", "ends"),
    [([1, 1, 6, 2], "0.5", (4, 6)), ([1, 1, 6, 2], "0.05", (0, 2)), ([0, 0, 0, 9], "0.5", (6, 7)),
     ([1, 1, 6, 2], "0.2", (2, 6)), ([9, 0, 0, 0], "1", (0, 7))],
)  # fmt: skip
def test_an_interval_reaches_over_every_leaf_that_the_noise_allows(counts, at, ends):
    box = exact_tree(counts, 2, hi=Fraction(7)).interval(Fraction(at), 0.9)
    assert (box.low[0], box.high[0]) == ends
    assert exact_tree(counts, 2, hi=Fraction(7)).ranked(0, Fraction(0), Fraction(at), 0.9) == ends


def test_an_interval_uses_the_margin_of_each_boundary():
    """By definition: a leaf is possible unless noise rules out one of its ends."""
    q, beyond = 0.4, [0, 0, 0]
    squares, largest = _squares(2, 3, q)
    for seed in range(60):
        levels = random_tree(2, 3, 1, seed, law=noise.DiscreteLaplace("0.2"))
        margin = tail_margin(levels.law, squares, largest, 0.495)
        d = [left_of(levels, 0, j) - q * left_of(levels, 0, 9) for j in range(10)]
        possible = [i for i in range(9) if d[i] <= margin[i] and d[i + 1] >= -margin[i + 1]]
        leaf = levels._crossing(q)[0][0]
        box = levels.interval(Fraction(2, 5), 0.01)
        first, last = (possible[0], possible[-1]) if possible else (0, 8)
        assert (box.low[0], box.high[0]) == (2 * min(first, leaf), 2 * max(last, leaf) + 2)
        beyond = [
            n + yes
            for n, yes in zip(beyond, (leaf < first, leaf > last, not possible), strict=True)
        ]
    assert min(beyond[:2]) > 0, beyond


# -- distances and costs -------------------------------------------------------------


@pytest.mark.parametrize(
    ("moves", "within"),
    [([3, 2, 1], True), ([3, 2, 1, 1], False), ([3, 2, -1], True), ([4], False), ([2, 2, 2], True),
     ([3, 3], False), ([-3, -2, -1], True), ([], True)],
)  # fmt: skip
def test_a_move_is_seen_in_whichever_norm_it_exceeds(moves, within):
    """Declared: L1 6, L2² 14, L∞ 3; the groups stand in either table, or in both."""
    part = Vector(0, MOVES, 4, 0)
    left = {(i,): (10, 99) for i in range(5)}
    right = left | {(i,): (10 + by, 0) for i, by in enumerate(moves)}
    assert bool(part.moved(left, right)) is not within
    alone = {(i,): (abs(by), 0) for i, by in enumerate(moves)}
    for sides in ((alone, {}), ({}, alone)):
        assert bool(part.moved(*sides)) is not within
    assert distance({0: 5, 1: -2}, {1: 1, 2: 4}) == Sensitivity(12, 50, 5)
    assert distance({}, {}) == Sensitivity(0, 0, 0)


def test_bounded_losses_cost_their_sum_unless_less_is_claimed_and_proved():
    losses = [p.Pure("0.3"), p.Pure("0.2"), p.Approx(0, "1e-6")]
    rho = sum(Fraction(loss.zcdp().rho0) for loss in losses)
    half, small = Fraction(1, 2), Fraction(1, 10**6)
    plain = Cost(half, small, rho, small)
    for claim in (None, (half, small), (half + small, 2 * small)):
        assert charge(losses, claim) == plain
    many = [p.Pure("0.1")] * 60
    claim = (Fraction(5), small)
    composed = charge(many, claim)
    assert (composed.epsilon, composed.delta) == claim
    for wrong in ((half - small, small), (half, small / 2)):
        with pytest.raises(NotProvedError):
            charge(losses, wrong)
    with pytest.raises(NotProvedError):
        charge([p.Gaussian(1)])
    assert charge([]) == Cost(*[Fraction(0)] * 4)


def test_a_cost_says_whether_sums_of_epsilon_cover_it():
    """A δ of selections is in both ways to pay; one of Gaussian noise or composition is not."""
    small = Fraction(1, 10**6)
    selection, gauss = p.Approx(0, small), p.DiscreteGaussian(20, 1)
    exact = Fraction(gauss.epsilon("1e-6"))
    assert not charge([p.Pure(1), selection]).by_rho
    assert charge([p.Pure("0.1")] * 60, (Fraction(5), small)).by_rho
    assert charge([gauss], (exact, small)).by_rho
    assert charge([gauss, selection], (exact, 2 * small)).by_rho
    # with no δ beside that of selections no Gaussian is covered, at whatever ε
    with pytest.raises(NotProvedError):
        charge([gauss, selection], (Fraction(10**6), small))


def test_failures_are_set_aside_before_the_rest_is_composed():
    small = Fraction(1, 10**6)
    failing = p.Approx(0, small)
    assert fits([failing], Fraction(0), small)
    assert not fits([failing], Fraction(9), small * Fraction(999, 1000))
    assert fits([failing, failing], Fraction(0), 2 * small)
    assert fits([p.Pure(1), failing], Fraction(1), small)
    assert not fits([p.Pure(1), failing], Fraction(1), small / 2)
    assert not fits([p.Pure(1), failing], Fraction(99, 100), small)
    gauss = p.DiscreteGaussian(20, 1)
    exact = Fraction(gauss.epsilon("1e-6"))
    assert fits([gauss], exact, small)
    assert fits([gauss, failing], exact, 2 * small)
    assert not fits([gauss], exact * Fraction(99, 100), small)
    # the sum of ρ proves it alone, where the price was stated in ρ
    assert fits([gauss], Fraction(p.Zcdp(gauss.rho).epsilon("1e-6")), small)


def test_the_least_price_is_the_larger_of_each_currency():
    one, two = Cost(*map(Fraction, (1, 2, 3, 4))), Cost(*map(Fraction, (4, 1, 5, 2)))
    assert one.at_least(two) == two.at_least(one) == Cost(*map(Fraction, (4, 2, 5, 4)))


def test_a_part_is_never_priced_without_the_loss_of_each_draw():
    law = noise.DiscreteLaplace(3)
    with pytest.raises(NotProvedError, match="without the loss of each draw"):
        Priced(Vector(0, MOVES, 4, 0), law, ())
    still = Vector(0, Sensitivity(0, 0, 0), 1, 0)
    assert Priced(still, None, ()).noise is None
    assert (still.private, still.draws) == (False, 0)
    assert list(still.drawn(None)) == []
    drawn = list(Vector(0, MOVES, 4, 0).drawn(law))
    assert [(d.law, d.moves) for d in drawn] == [(law, MOVES)]


@pytest.mark.parametrize(
    ("mine", "theirs", "said"),
    [({"a": 1}, {}, []), ({"a": 1, "b": 1}, {}, []), ({"a": 1, "b": 1, "c": 1}, {}, ["3 keys"]),
     ({"a": 2}, {}, ["several units"]), ({"a": 1, "b": 5}, {"b": 5}, [])],
)  # fmt: skip
def test_keys_of_one_table_only_are_few_and_of_one_unit(mine, theirs, said):
    part = Keys(0, Sensitivity(9, 99, 9), 2, 0, "town", touched=2)
    sides = [{(key,): (n,) for key, n in groups.items()} for groups in (mine, theirs)]
    for left, right in (sides, sides[::-1]):
        found = part.moved(left, right)
        assert len(found) == len(said)
        assert all(word in what for word, what in zip(said, found, strict=True))


def test_keys_are_priced_by_their_draws_and_by_delta():
    rule, moves = LaplaceRule(Fraction(1, 2), Fraction(1, 10**6)), Sensitivity(2, 2, 1)
    law = noise.DiscreteLaplace(4)
    at = p.key_threshold(law, Fraction(1, 10**6), 2)
    for rest, draws in ((None, 1), ("others", 2)):
        part = Keys(0, moves, 2, 0, "town", touched=2, rest=rest)
        priced = part.price(rule)
        assert priced.law == Threshold(law, at)
        assert [loss.top for loss in priced.losses] == [Fraction(1, 2)] * draws + [0]
        assert priced.losses[-1].mass_at_infinity == Fraction(1, 10**6)
        drawn = list(part.drawn(priced.law))
        assert len(drawn) == draws + 1
        assert drawn[-1] == Hidden(law, at, 2, 1)
        assert (part.gaussian, part.draws, part.groups) == (rest is None, draws, 2)


def test_a_tree_releases_every_node_of_every_level():
    shape = {"lo": Fraction(0), "width": Fraction(1), "hi": Fraction(256), "step": Fraction(1)}
    part = Tree(0, MOVES, 2, levels=2, leaves=256, **shape)
    assert (part.numbers, part.draws) == (16 + 256, 2)
    priced = part.price(LaplaceRule(Fraction(1, 4)))
    assert [loss.top for loss in priced.losses] == [Fraction(1, 4)] * 2
    groups = {(17,): (5,), (18,): (2,), (255,): (1,)}
    exact = dict(part.measurements(groups))
    assert exact == {" level 1": {(1,): 7, (15,): 1}, " level 2": {(17,): 5, (18,): 2, (255,): 1}}


def test_errors_of_ranks_are_those_of_an_average_boundary():
    shape = {"lo": Fraction(0), "width": Fraction(1), "hi": Fraction(256), "step": Fraction(1)}
    part, law = Tree(0, MOVES, 2, levels=2, leaves=256, **shape), noise.DiscreteLaplace(3)
    squares, largest = _squares(2, 16, 0.25)
    normal, reach = rank_error(part, law, 0.25, 0.9)
    assert normal == pytest.approx(1.6448536269514722 * math.sqrt(squares.mean() * law.variance))
    wide = tail_margin(law, np.array([squares.mean()]), largest[:1], 0.05)[0]
    assert reach == pytest.approx(wide)
    median = _squares(2, 16, 0.5)[0].mean()
    assert typical(part, law) == pytest.approx(0.6 * math.sqrt(median * law.variance))


@pytest.mark.parametrize(
    ("moves", "apart", "squares"),
    [
        ({("a", 1): 2, ("a", 2): -3}, False, 25),  # all rows of a cell
        ({("a", 1): 2, ("a", 2): -3}, True, 25),  # the farthest rise and fall
        ({("a", 1): 2, ("a", 2): 3}, False, 25),
        ({("a", 1): 2, ("a", 2): 3}, True, 9),
        ({("a", 1): -2, ("a", 2): -3}, True, 9),
        ({("a", 1): 2, ("b", 1): -3}, True, 13),  # cell by cell
        ({}, True, 0),
    ],
)
def test_moves_of_scores_are_squared_cell_by_cell(moves, apart, squares):
    left = dict.fromkeys((("a", 1), ("a", 2), ("b", 1), ("b", 2)), (10,))
    right = left | {key: (10 - by,) for key, by in moves.items()}
    assert squares_moved("pick", left, right, squares, apart=apart) == []
    assert len(squares_moved("pick", left, right, squares - 1, apart=apart)) == 1


def test_every_label_that_is_listed_is_a_choice_that_is_paid():
    part = Pick(
        0, Sensitivity(3, 9, 3), 3, top=2, codes=(7, 8, 9), labels=("x", "y", "z"), squares=9
    )
    priced = part.price(LaplaceRule(Fraction(1, 4)))
    assert [loss.top for loss in priced.losses] == [Fraction(1, 4)] * 2
    chosen = list(part.drawn(priced.law))
    assert [(c.span, c.squares, c.rows) for c in chosen] == [(3, 9, 3)] * 2
    assert (part.draws, part.gaussian) == (2, False)

    class Best:
        def choose(self, scores, choice):
            assert choice is priced.law
            return int(np.argmax(scores))

    groups = {("a", 7): (1,), ("a", 8): (5,), ("a", 9): (3,), ("b", 9): (2,)}
    found = part.release(priced, groups, Cells([("a",), ("b",)]), Best())
    assert found.labels == (("y", "z"), ("z", "x"))


def test_keys_are_shown_from_the_threshold_on_and_in_order():
    class Still:
        def sample(self, law, n):
            return np.zeros(n, dtype=np.int64)

    part = Keys(0, Sensitivity(2, 2, 1), 2, 0, "town", touched=2, rest="others")
    priced = part.price(LaplaceRule(Fraction(1, 2), Fraction(1, 10**6)))
    at = priced.law.at
    groups = {("c",): (at + 1,), ("a",): (at,), ("b",): (at - 1,), ("d",): (3,)}
    cells = part.select(priced, groups, Still())
    assert (cells.keys, cells.counts, cells.rest) == ([("a",), ("c",)], (at, at + 1), "others")
    found = part.release(priced, groups, cells, Still())
    assert found == Numbers((at, at + 1, at + 2), priced.law.law, at, rest=True)


def test_what_is_chosen_by_is_what_an_audit_measures():
    """Scores of every label, of those without rows too, are the declared measurements."""
    table = pol.Table("t", [pol.Category("g", ["a", "b"]), pol.Category("c", ["x", "y", "z"])])
    policy = pol.Policy([table], pol.Budget("1"))
    query = sql.parse("SELECT g, MODE(c) AS m FROM t GROUP BY g", policy).query
    (part,) = (x for x in pl.lower(query).parts if x.kind == "pick")
    groups = {(0, 1): (4,), (0, 2): (1,), (1, 0): (2,)}
    seen = []

    class Draw:
        def choose(self, scores, choice):
            seen.append(list(scores))
            return int(np.argmax(scores))

    cells = SimpleNamespace(keys=[(0,), (1,)])
    found = part.release(SimpleNamespace(law=None), groups, cells, Draw())
    assert seen == [[0, 4, 1], [2, 0, 0]]
    assert found.labels == (("y",), ("x",))
    ((_, measured),) = part.measurements(groups)
    for cell, scores in zip(cells.keys, seen, strict=True):
        assert [measured.get((*cell, c), 0) for c in part.codes] == scores


def test_noise_is_added_beyond_every_word():
    exact = np.array([2**70, -5, 2**63 - 1], dtype=object)
    assert add(exact, np.array([3, -7, 1])).tolist() == [2**70 + 3, -12, 2**63]
    assert add(np.array([2**63 - 1]), np.array([2**63 - 1])).tolist() == [2**64 - 2]
