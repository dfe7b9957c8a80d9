"""MIN and MAX: what their scores cost, how near they come, and what ± covers.

Laws of choices are computed exactly here, so errors and losses are compared without chance.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from discreet import audit, sql
from discreet import plan as pl
from discreet import policy as pol
from discreet.curator import _stored
from discreet.engines import Reference
from discreet.plan import _ends as en
from discreet.plan import _points, _quantiles

ALARM = 1e-11
SMALL = [np.array(x) for x in itertools.product(range(3), repeat=4)]
"""Every table of at most two rows on each of four values."""
ROWS = (Fraction(1, 1000), Fraction(1, 40), Fraction(1, 8), Fraction(1))
"""Rows worth a factor e: caps of one row, of some, beyond all."""
MAX = Fraction(1)


def lowered(text, high=1000, relation="add-remove", **limits):
    columns = [pol.Integer("x", 0, high), pol.Category("g", ["a", "b"])]
    policy = pol.Policy([pol.Table("t", columns, neighbours=relation, **limits)], pol.Budget("9"))
    return pl.lower(sql.parse(text, policy).query)


def priced(high=1000, what="MAX(x)", relation="add-remove", **offer):
    low = lowered(f"SELECT {what} AS m FROM t", high, relation)
    (found,) = pl.price(low, pl.Ask(**{k: Fraction(v) for k, v in offer.items()})).parts
    return found


def chances(scores, choice):
    """Exact law of the exponential mechanism; permute-and-flip's where few candidates count."""
    moves = float(choice.sensitivity / choice.epsilon) * (1 if choice.monotone else 2)
    gaps = (scores - scores.max()).astype(float) / moves
    values, where, sizes = np.unique(gaps, return_inverse=True, return_counts=True)
    p = np.exp(values)
    if not choice.flip:
        return (p / (p @ sizes))[where]
    kept = p > 1e-30
    # a candidate's place in the order is uniform: it wins if none before it is accepted
    none = np.log1p(-np.outer(PLACES, np.minimum(p[kept], 1 - 1e-16)))
    law = np.zeros(p.size)
    law[kept] = p[kept] * (SIZES @ np.exp((none @ sizes[kept])[:, None] - none))
    return (law / (law @ sizes))[where]


NODES, WEIGHTS = np.polynomial.legendre.leggauss(200)
PLACES = ((NODES + 1) / 2) ** 4
SIZES = WEIGHTS * 2 * ((NODES + 1) / 2) ** 3


def law_of(made, counts, at=MAX):
    choice = made.law.choice
    return chances(made.part.end(at, choice).scores(counts), made.part._outermost(choice))


# -- what a choice costs ------------------------------------------------------------------------


def span(end, left, right):
    return int(np.ptp(end.scores(left) - end.scores(right)))


def one(top, rows, leaves=4):
    return en.End(top, leaves, rows)


@pytest.mark.parametrize("top", [False, True])
def test_one_more_row_moves_scores_apart_by_the_whole_weight_and_no_more(top):
    """All tables of four values, and caps from one row to more than all; some pairs reach it."""
    whole = en.WHOLE * en.unit_of(4)
    for rows in ROWS:
        moved = [
            span(one(top, rows), left, left + new) for left in SMALL for new in np.eye(4, dtype=int)
        ]
        assert max(moved) == whole


@pytest.mark.parametrize("top", [False, True])
def test_changing_a_row_moves_scores_apart_by_the_blocks_once_more(top):
    most = []
    for rows, left in itertools.product(ROWS, SMALL):
        for i, j in itertools.permutations(range(4), 2):
            if left[i]:
                right = left.copy()
                right[i] -= 1
                right[j] += 1
                most.append(span(one(top, rows), left, right))
    bound = en.CHANGE * en.unit_of(4)
    assert en.WHOLE * en.unit_of(4) < max(most) <= bound
    # neither what one more row moves, nor what two would cost
    assert en.WHOLE < en.CHANGE < 2 * en.WHOLE


def test_units_of_several_rows_move_scores_by_as_many_times():
    """Random units of up to three rows on 37 values, which no power of two divides."""
    rng = np.random.default_rng(1)
    unit, worst = en.unit_of(37), Fraction(0)
    for _ in range(600):
        end = one(bool(rng.integers(2)), ROWS[rng.integers(4)], 37)
        left = np.bincount(rng.integers(0, 37, rng.integers(0, 60)), minlength=37)
        gone = np.minimum(left, np.bincount(rng.integers(0, 37, 3), minlength=37))
        come = np.bincount(rng.integers(0, 37, rng.integers(0, 4)), minlength=37)
        assert span(end, left, left - gone) <= gone.sum() * en.WHOLE * unit
        moved = span(end, left, left - gone + come)
        allowed = max(gone.sum(), come.sum()) * en.CHANGE * unit
        assert moved <= min(allowed, (gone.sum() + come.sum()) * en.WHOLE * unit)
        worst = max(worst, Fraction(moved, max(int(allowed), 1)))
    assert worst > Fraction(7, 10)


@pytest.mark.parametrize("relation", ["add-remove", "change-one"])
@pytest.mark.parametrize("offer", [{"epsilon": "1"}, {"rho": "1/8"}])
@pytest.mark.parametrize("what", ["MAX(x)", "MIN(x)"])
def test_no_neighbours_lose_more_than_is_charged(relation, offer, what):
    """Exact laws of both sides, by the mechanism and at the price that a question gets.

    The worst pair comes near to what is declared, so a smaller range fails.
    """
    made = priced(3, what, relation, **offer)
    at, worst = made.part.targets[0], 0.0
    for left in SMALL:
        p = law_of(made, left, at)
        for i, j in itertools.product(range(4), repeat=2):
            right = left.copy()
            right[j] += 1
            if relation == "change-one":
                right[i] -= 1
            if right.min() >= 0:
                worst = max(worst, np.abs(np.log(p / law_of(made, right, at))).max())
    declared = float(made.law.choice.epsilon)
    assert 0.5 * declared < worst <= declared * (1 + 1e-6)


def test_a_planted_range_is_caught_by_replay_and_by_the_audit_of_debits(monkeypatch):
    rows = [{"id": 1, "x": 9, "g": "a"}] + [{"id": i, "x": i % 9, "g": "a"} for i in range(2, 9)]
    sides = [Reference({"t": side}) for side in (rows, rows[1:])]
    low = lowered("SELECT g, MAX(x) AS a, MIN(x) AS b FROM t GROUP BY g", 9, unit="id",
                  max_rows_per_unit=1)  # fmt: skip
    plan, salt = pl.price(low, pl.Ask(Fraction(1))), pl.Salt(b"x")
    assert audit.replay(plan, *sides, salt).ok
    monkeypatch.setattr(_quantiles, "WHOLE", en.WHOLE - 1)
    found = audit.replay(pl.price(low, pl.Ask(Fraction(1))), *sides, salt).violations
    assert any("moved apart by" in what for what in found)
    # a unit that changes its row, where the bound for that is too small
    low = lowered("SELECT MAX(x) AS a FROM t", 9, "change-one")
    sides = [Reference({"t": [{"x": x, "g": "a"}] * 3 + rest}) for x, rest in
             ((2, [{"x": 9, "g": "a"}]), (2, [{"x": 0, "g": "a"}]))]  # fmt: skip
    monkeypatch.undo()
    assert audit.replay(pl.price(low, pl.Ask(Fraction(1))), *sides, salt).ok
    monkeypatch.setattr(_quantiles, "CHANGE", en.LATTICE)
    found = audit.replay(pl.price(low, pl.Ask(Fraction(1))), *sides, salt).violations
    assert any("moved apart by" in what for what in found)


# -- how near it comes --------------------------------------------------------------------------

TIGHT = {
    "uniform, 50": (1001, 50, lambda r, n: r.integers(0, 1001, n)),
    "uniform, 1000": (1001, 1000, lambda r, n: r.integers(0, 1001, n)),
    "normal, 1000": (1001, 1000, lambda r, n: r.normal(500, 100, n)),
    "few large ones, 1000": (1001, 1000, lambda r, n: r.lognormal(4, 1, n)),
    "few small ones, 1000": (1001, 1000, lambda r, n: 1000 - r.lognormal(4, 1, n)),
    "top-coded, 50": (1001, 50, lambda r, n: r.uniform(0, 1050, n)),
    "ages, 1000": (116, 1000, lambda r, n: r.gamma(4, 10, n)),
    "two values, 50": (2, 50, lambda r, n: r.integers(0, 2, n)),
    "outliers, 1000": (1001, 1000, lambda r, n: np.append(r.integers(0, 500, n - 3), [1000] * 3)),
}
FAR = {
    "twice, uniform": (1001, 1000, lambda r, n: r.integers(0, 490 + r.integers(50), n)),
    "100 times, uniform": (65536, 1000, lambda r, n: r.integers(0, 600 + r.integers(99), n)),
    "100 times, few rows": (65536, 50, lambda r, n: r.integers(0, 600 + r.integers(99), n)),
    "salaries to ten millions": (65536, 1000, lambda r, n: r.lognormal(10.5, 0.6, n) / 153),
    "one value": (65536, 1000, lambda r, n: np.full(n, r.integers(300, 700))),
}


def tables(row):
    leaves, n, draw = row
    for seed in range(3):
        x = np.clip(draw(np.random.default_rng([seed, n]), n), 0, leaves - 1)
        yield np.bincount(x.astype(int), minlength=leaves)


def above(counts):
    return counts.sum() - np.cumsum(counts)


def errors(row, *laws):
    """Root mean square distances from the largest value, over three tables."""
    squares = np.zeros(len(laws))
    for counts in tables(row):
        off = np.arange(counts.size) - np.flatnonzero(counts)[-1]
        squares += [law(counts) @ off.astype(float) ** 2 / 3 for law in laws]
    return np.sqrt(squares)


def plain(epsilon):
    """The exponential mechanism that counts rows above, with all of ε."""

    def law(counts):
        p = np.exp(-epsilon * above(counts))
        return p / p.sum()

    return law


def so_manieth(counts, share=Fraction(9, 10)):
    """What MAX was: the j-th value from the end (ε = 1)."""
    j = math.ceil(2 / share * (math.log(counts.size) + 1))
    rank = _points.Rank.of(MAX, j)
    return chances(rank.scores(counts), _quantiles.Choice(share, rank.largest, flip=True))


@pytest.mark.parametrize("epsilon", ["1/10", "1"])
@pytest.mark.parametrize("row", TIGHT)
def test_where_bounds_are_tight_nobody_is_far_ahead(row, epsilon):
    """A tenth of our ε pays for the interval; the other mechanism has none."""
    made = priced(TIGHT[row][0] - 1, epsilon=epsilon)
    ours, theirs = errors(TIGHT[row], lambda c: law_of(made, c), plain(float(Fraction(epsilon))))
    # an error of a third of a value is none
    assert ours <= 1.75 * max(theirs, 0.3)


def test_where_rows_are_dense_the_preference_costs_next_to_nothing():
    """A row at the top counts in full within its blocks, for the tenth that the interval takes.

    The mutant counts the lowest rows of a block up to its cap, not the highest: as private, but
    at the top nothing is left of it.
    """
    made = priced(1000, epsilon="1")
    end, choice = made.part.end(MAX, made.law.choice), made.part._outermost(made.law.choice)

    def lowest(counts):
        scores = np.cumsum(counts) * (en.LATTICE * en.unit_of(1001))
        for i, (weight, cap) in enumerate(zip(en.levels_of(1001), end.caps, strict=True)):
            for shift in (0, 2**i // 2):
                block = (1000 + shift - np.arange(1001)) // 2**i
                upto = np.cumsum(counts)
                rows = [upto[b == block] - upto[b == block][0] for b in np.unique(block)[::-1]]
                scores += np.minimum(np.concatenate(rows), cap) * (en.BLOCKS * weight)
        return chances(scores, choice)

    row = TIGHT["uniform, 1000"]
    ours, mutant, theirs = errors(row, lambda c: law_of(made, c), lowest, plain(1))
    assert ours <= 1.1 * theirs
    assert mutant > 1.1 * theirs


@pytest.mark.parametrize("row", FAR)
def test_where_bounds_are_far_it_stays_near_the_rows(row):
    made = priced(FAR[row][0] - 1, epsilon="1")
    ours, before, theirs = errors(FAR[row], lambda c: law_of(made, c), so_manieth, plain(1))
    assert ours <= 1.35 * max(before, 1)
    assert ours < 0.5 * theirs


def test_the_value_that_was_given_before_is_far_behind_where_bounds_are_tight():
    """The mutant of the two tests above."""
    assert np.divide(*errors(TIGHT["uniform, 1000"], so_manieth, plain(1))) > 10


def test_bounds_a_hundred_times_too_far_give_a_value_near_the_rows():
    made = priced(65535, epsilon="1")
    for counts in tables(FAR["100 times, uniform"]):
        largest = int(np.flatnonzero(counts)[-1])
        p = law_of(made, counts)
        assert p[: largest // 2].sum() < 1e-6
        assert p[2 * largest :].sum() < 0.01
        blind = plain(1)(counts)
        assert blind[2 * largest :].sum() > 0.9


def test_the_smallest_is_the_mirror_image_of_the_largest():
    counts = next(tables(TIGHT["few large ones, 1000"]))
    made = priced(1000, "MIN(x)", epsilon="1")
    p, q = law_of(made, counts, Fraction(0)), law_of(made, counts[::-1], MAX)
    assert np.allclose(p, q[::-1], rtol=1e-12)


@pytest.mark.parametrize("what", ["MAX(x)", "MIN(x)"])
def test_an_empty_group_says_nothing(what):
    made = priced(9, what, epsilon="1")
    assert np.allclose(law_of(made, np.zeros(10, dtype=int), made.part.targets[0]), 0.1)


# -- what is said -------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", ["1/10", "1"])
def test_rows_that_the_preview_states_hold(epsilon):
    """Mostly, where values lie close; at most, on ties and on gaps: a third of it does not hold."""
    made = priced(1000, epsilon=epsilon)
    usual, _ = _quantiles.reach(made.part, made.law, MAX, 0.95)
    most = _quantiles.farthest(made.part, made.law, MAX, 0.95)
    close = np.ones(1001, dtype=int)
    within = law_of(made, close) @ (above(close) <= usual)
    assert within >= 0.95
    assert law_of(made, close) @ (above(close) <= usual / 3) < 0.95
    for places in ([1000], [500], [1, 1000], [400, 401]):
        for rows in (1, round(usual), round(most) + 1, 10**4):
            counts = np.zeros(1001, dtype=int)
            counts[0], counts[places] = 10**4, rows
            assert law_of(made, counts) @ (above(counts) <= most) >= 0.95
    text = pl.price(lowered("SELECT MAX(x) AS m FROM t"), pl.Ask(Fraction(epsilon)))
    said = text.lowered.formulas[0].margin(text.parts, 0.95)
    assert f"mostly {round(usual)} rows away" in said
    assert f"or beyond all rows ({round(most)} where values are tied" in said


def test_the_target_line_says_what_is_covered():
    plan = pl.price(lowered("SELECT MAX(x) AS h, MIN(x) AS l FROM t"), pl.Ask(Fraction(1)))
    for line in (
        "MAX of x: aims at the largest value, which ± covers up to the upper bound",
        "MIN of x: aims at the smallest value, which ± covers up to the lower bound",
    ):
        assert line in plan.target


def releases(made, counts, times):
    leaves = [(leaf, int(n)) for leaf, n in enumerate(counts.tolist()) if n]
    groups = {(i, leaf): (n,) for i in range(times) for leaf, n in leaves}
    return made.part.release(made, groups, pl.Cells([(i,) for i in range(times)]), pl.Draw())


@pytest.mark.parametrize("offer", [{"epsilon": "1"}, {"rho": "1/8"}])
@pytest.mark.parametrize("what", ["MAX(x)", "MIN(x)"])
def test_intervals_hold_the_outermost_value_itself(what, offer):
    """600 releases, few rows at the ends: fewer than the 1e-11 quantile allows is refused.

    The mutant takes counts for exact: beyond the rows it sees what is noise.
    """
    counts = np.zeros(4096, dtype=int)
    counts[2000:2040:2], counts[[2000, 2039]] = 30, 9
    made = priced(4095, what, **offer)
    at = made.part.targets[0]
    truth = 2039 if at == 1 else 2000
    found = releases(made, counts, 600)
    box, estimate = found.interval(at, 0.95), found.quantile(at)
    held = (box.low <= truth) & (truth <= box.high)
    assert held.sum() >= stats.binom.ppf(ALARM, 600, 0.95)
    assert np.all((box.low <= estimate) & (estimate <= box.high))
    # one end is the bound of the policy, the other rules values out
    open_end, near = (box.high, box.low) if at == 1 else (4095 - box.low, 4095 - box.high)
    assert np.all(open_end == 4095)
    assert np.median(near) > 1900
    fooled = replace(found, law=type(found.law)(Fraction(1, 10**6))).interval(at, 0.95)
    missed = np.sum((fooled.low <= truth) & (truth <= fooled.high))
    assert missed < stats.binom.ppf(ALARM, 600, 0.95)


def test_answers_stored_by_the_old_rule_are_not_given_again():
    """A stored answer is found by what the debit says of its noise: the old one named a rank."""
    plan = pl.price(lowered("SELECT MAX(x) AS m FROM t"), pl.Ask(Fraction(1)))
    assert '"ends"' not in _stored.describe_noise([plan])
    # records of it are read as they were
    made = priced(255, epsilon="1")
    found = releases(made, np.ones(256, dtype=int), 1)
    old = _points.Points.read(found.to_dict() | {"ends": 18})
    old.check(1)
    assert old.interval(MAX, 0.9).low[0] <= found.interval(MAX, 0.9).low[0]
    assert _points.Points.read(found.to_dict()) == found
