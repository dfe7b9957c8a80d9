"""Sensitivities against the worst units of small worlds, all of them tried.

A unit has rows in a few groups, at most so many in one and in all; every row adds a number
between two ends. All units, and under change-one all pairs of them, are tried.
"""

from __future__ import annotations

import itertools
from functools import cache
from types import SimpleNamespace

import pytest

from discreet.plan import _stability as st
from discreet.plan._stability import (
    Sensitivity,
    _Counts,
    _counts,
    _of_rows,
    partition_sensitivity,
    powers_sensitivity,
)  # fmt: skip
from discreet.privacy import Neighbours

ADD, CHANGE = Neighbours.ADD_REMOVE, Neighbours.CHANGE_ONE


@cache
def spreads(rows: int, share: int, reach: int, cells: int) -> tuple[tuple[int, ...], ...]:
    """Rows of one unit in each cell, every way there is."""
    return tuple(c for c in itertools.product(range(share + 1), repeat=cells)
                 if sum(c) <= rows and sum(map(bool, c)) <= reach)  # fmt: skip


def worst(moves):
    """Largest L1, square of L2 and L∞ over all moves, each by itself."""
    norms = [(sum(map(abs, m)), sum(x * x for x in m), max(map(abs, m))) for m in moves]
    return tuple(map(max, *norms, (0, 0, 0)))


def sums(counts, ends):
    """Corners of what rows add to cells: a convex norm is largest at one of them."""
    lo, hi = ends
    corners = [sorted({c * min(lo, 0), c * max(hi, 0)}) for c in counts]
    return itertools.product(*corners)


def truth(neighbours, shape, ends):
    units = {s for counts in spreads(*shape) for s in sums(counts, ends)}
    if neighbours is ADD:
        return worst(units)
    return worst(tuple(map(int.__sub__, u, v)) for u, v in itertools.product(units, repeat=2))


def world(neighbours, shape, monkeypatch):
    """What the rule reads of an aggregate: its relation, its limits and its cells."""
    rows, share, reach, cells = shape
    monkeypatch.setattr(st, "combinations", lambda keys: keys[0])
    return SimpleNamespace(relation=SimpleNamespace(m=rows), share=share, reach=reach,
                           neighbours=neighbours, keys=(cells,))  # fmt: skip


SHAPES = [(1, 1, 1, 1), (3, 3, 1, 1), (1, 1, 1, 3), (2, 1, 2, 3), (2, 2, 1, 3), (4, 2, 2, 3),
          (3, 2, 2, 2), (3, 2, 3, 3), (2, 1, 2, 4), (4, 2, 2, 4), (2, 2, 1, 2), (3, 1, 2, 3),
          (5, 2, 2, 3), (3, 2, 2, 3)]  # fmt: skip
ENDS = [(0, 1), (0, 3), (-3, 0), (-1, 1), (-2, 1), (-1, 3), (1, 2)]


@pytest.mark.parametrize("neighbours", [ADD, CHANGE])
@pytest.mark.parametrize("shape", SHAPES)
def test_no_unit_moves_a_sum_by_more_and_the_worst_one_does(neighbours, shape, monkeypatch):
    aggregate = world(neighbours, shape, monkeypatch)
    counts = _counts(aggregate, aggregate.share)
    tight = 0
    for ends in ENDS:
        said = _of_rows(aggregate, ends, counts, certain=False)
        l1, l2_squared, linf = truth(neighbours, shape, ends)
        assert (said.l1 >= l1, said.l2_squared >= l2_squared, said.linf) == (True, True, linf)
        tight += (said.l1, said.l2_squared) == (l1, l2_squared)
        if neighbours is CHANGE and shape[3] > 1:
            # cells that both must share, or a rest beside a full group: a bound, by the note
            a, w = max(map(abs, ends)), max(ends[1], 0) - min(ends[0], 0)
            assert said.l1 == min(2 * a * counts.total, shape[3] * w * counts.largest)
            if not counts.rest:
                squares = max(2 * a * a, w * w) * counts.squares
                assert said.l2_squared == min(squares, shape[3] * linf**2)
    roomy = neighbours is ADD or shape[3] == 1 or (shape[3] >= 2 * shape[2] and not counts.rest)
    assert tight == len(ENDS) or not roomy
    assert tight >= 1


@pytest.mark.parametrize(("neighbours", "expected"), [(ADD, (3, 9, 3)), (CHANGE, (4, 16, 4))])
def test_a_unit_that_certainly_has_one_row_moves_by_the_range(neighbours, expected, monkeypatch):
    aggregate = world(neighbours, (1, 1, 1, 1), monkeypatch)
    counts = _counts(aggregate, 1)
    found = _of_rows(aggregate, (-1, 3), counts, certain=True)
    assert (found.l1, found.l2_squared, found.linf) == expected
    shifted = _of_rows(aggregate, (5, 7), counts, certain=True)
    assert shifted.l1 == (7 if neighbours is ADD else 2)
    assert _of_rows(aggregate, (5, 7), counts, certain=False).l1 == 7


def test_a_rest_of_rows_beside_a_full_group_is_bounded_in_two_ways(monkeypatch):
    """p = 2, r = 1 and rows of −1 to 2: the note's own example, and one where the other wins."""
    aggregate = world(CHANGE, (3, 2, 2, None), monkeypatch)
    counts = _counts(aggregate, 2)
    assert (counts.most, counts.full, counts.rest) == (2, 1, 1)
    found = _of_rows(aggregate, (-1, 2), counts, certain=False)
    assert (found.l1, found.l2_squared, found.linf) == (12, min(9 * 2 * 4, 2 * 5 * 5), 6)
    wide = world(CHANGE, (9, 5, 2, None), monkeypatch)
    counts = _counts(wide, 5)
    found = _of_rows(wide, (-4, 4), counts, certain=False)
    assert found.l2_squared == min(64 * 2 * 25, 2 * 32 * 41) == 2624
    found = _of_rows(wide, (-1, 4), counts, certain=False)
    assert found.l2_squared == min(32 * 2 * 25, 2 * 17 * 41) == 1394
    tall = _counts(world(CHANGE, (19, 10, 2, None), monkeypatch), 10)
    found = _of_rows(wide, (-4, 4), tall, certain=False)
    assert found.l2_squared == min(64 * 2 * 100, 2 * 32 * 181) == 11_584


@pytest.mark.parametrize(
    ("shape", "most", "expected"),
    [
        ((5, 2, 3, 3), 2, (2, 2, 1)),
        ((5, 2, 2, 3), 2, (2, 2, 0)),
        ((6, 2, 3, 3), 2, (2, 3, 0)),
        ((1, 4, 3, 3), 4, (1, 1, 0)),
        ((3, 4, 3, 3), 2, (2, 1, 1)),
        ((3, 4, 0, 3), 2, (2, 0, 0)),
        ((7, 3, 9, 9), 3, (3, 2, 1)),
        ((2, 3, 1, 9), 1, (1, 1, 0)),
    ],
)
def test_rows_of_the_worst_unit(shape, most, expected, monkeypatch):
    found = _counts(world(ADD, shape, monkeypatch), most)
    assert (found.most, found.full, found.rest) == expected
    assert found.total == expected[0] * expected[1] + expected[2]
    assert found.squares == expected[0] ** 2 * expected[1] + expected[2] ** 2
    assert found.largest == (expected[0] if expected[1] else expected[2])


def test_nothing_that_counts_moves_nothing(monkeypatch):
    counts = _counts(world(ADD, (3, 2, 2, 2), monkeypatch), 0)
    assert (counts.largest, counts.total, counts.squares) == (0, 0, 0)
    assert _Counts(4, 0, 3).largest == 3


@pytest.mark.parametrize("shape", SHAPES)
def test_shares_of_a_total_over_two_integers(shape, monkeypatch):
    """Every row adds (j, total − j), or less, to two integers of its group."""
    total = 2
    for neighbours in (ADD, CHANGE):
        aggregate = world(neighbours, shape, monkeypatch)
        said = partition_sensitivity(aggregate, total, turned=False)
        units = set()
        for counts in spreads(*shape):
            options = [sorted({(0, 0), (c * total, 0), (0, c * total)}) for c in counts]
            units |= {tuple(itertools.chain(*u)) for u in itertools.product(*options)}
        if neighbours is ADD:
            found = worst(units)
            assert (said.l1, said.l2_squared, said.linf) == found
        else:
            few = sorted(units)[:200]
            found = worst(tuple(map(int.__sub__, u, v)) for u, v in itertools.product(few, units))
            assert found[0] <= said.l1
            assert found[1] <= said.l2_squared
            assert found[2] == said.linf
            counts = _counts(aggregate, aggregate.share)
            assert (said.l1, said.l2_squared) == (
                2 * total * counts.total, 2 * total**2 * counts.squares)  # fmt: skip


def test_a_turned_pair_moves_as_far_as_its_corners(monkeypatch):
    aggregate = world(CHANGE, (2, 2, 1, 1), monkeypatch)
    aggregate.keys = ()
    said = partition_sensitivity(aggregate, 3, turned=True)
    corners = [(0, 0), (6, 6), (-6, 6)]
    pairs = itertools.product(corners, repeat=2)
    assert (said.l1, said.l2_squared, said.linf) == worst(
        tuple(map(int.__sub__, u, v)) for u, v in pairs
    )


@pytest.mark.parametrize("short", range(3))
def test_a_move_stays_within_only_if_every_norm_does(short):
    declared = Sensitivity(6, 14, 3)
    assert declared.within(declared)
    norms = [6, 14, 3]
    norms[short] -= 1
    assert not declared.within(Sensitivity(*norms))
    assert Sensitivity(*norms).within(declared)


@pytest.mark.parametrize("ends", [(0, 3), (-3, 0), (-2, 3), (1, 4), (-5, -2), (2, 2), (-1, 1)])
def test_both_powers_move_as_far_as_the_farthest_two_values(ends, monkeypatch):
    """All pairs of values, zero among them, at an end or outside; each norm is attained."""
    monkeypatch.setattr(st, "_one_row", lambda _: True)
    for a, b in itertools.product((1, 2, 3, 7), repeat=2):
        said = powers_sensitivity(SimpleNamespace(neighbours=CHANGE), ends, (a, b))
        points = [(a * y, b * y * y) for y in range(ends[0], ends[1] + 1)]
        pairs = itertools.product(points, repeat=2)
        assert (said.l1, said.l2_squared, said.linf) == worst(
            tuple(map(int.__sub__, u, v)) for u, v in pairs
        )
