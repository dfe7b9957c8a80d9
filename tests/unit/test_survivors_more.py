"""More faults that `make mutants` planted and no test saw at first sight, until these did."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from discreet import mechanisms as m
from discreet import noise
from discreet import plan as pl
from discreet import policy as pol
from discreet import privacy as p
from discreet.errors import ParameterError
from discreet.ledger._budget import share_of
from discreet.ledger._state import State
from discreet.plan._relation import weight
from discreet.plan._tails import tail_margin
from discreet.plan._trees import Levels, _squares
from discreet.plan._vectors import Box, Numbers
from discreet.privacy._additive import _shape_atoms
from discreet.privacy._loss import ULP
from discreet.verify._domain import INF, Value
from discreet.verify._functions import Functions
from discreet.verify._read import Node, Unproven, read
from discreet.verify._walk import bare

LAW = noise.DiscreteLaplace(2)


@pytest.mark.parametrize(("shape", "sigma2"), [((1,), Fraction(3, 2)), ((1, 1), Fraction(2)),
                                               ((2, 1), Fraction(5, 3))])  # fmt: skip
def test_no_atom_of_a_shape_is_below_the_law(shape, sigma2):
    """Sums of products of digits; every atom is rounded up, and by no more than a hair."""
    atoms = _shape_atoms(sigma2, shape)
    with mpmath.workdps(40):
        s2 = mpmath.mpf(sigma2.numerator) / sigma2.denominator
        weight = {x: mpmath.exp(-(x * x) / (2 * s2)) for x in range(-90, 91)}
        total = mpmath.fsum(weight.values())
        exact = {0: mpmath.mpf(1)}
        for step in shape:
            more: dict[int, mpmath.mpf] = {}
            for at, p in exact.items():
                for x, w in weight.items():
                    more[at + step * x] = more.get(at + step * x, 0) + p * w / total
            exact = more
        middle = len(atoms.masses) // 2
        for at in range(-30, 31):
            ratio = mpmath.mpf(float(atoms.masses[middle + at])) / exact[at]
            assert 1 <= ratio < 1 + mpmath.mpf(10) ** -9


def test_every_key_but_the_bucket_must_reach_the_threshold():
    Numbers((5, 6, 1), LAW, 5, rest=True).check(3)
    for values in ((5, 4, 1), (4, 5, 1)):
        with pytest.raises(ParameterError, match="not selected"):
            Numbers(values, LAW, 5, rest=True).check(3)


def test_a_loss_of_one_direction_composes_with_one_of_two():
    """A sample has two pairs, a plain loss one, which serves both directions."""
    both = p.compose([p.sample(p.Gaussian(1), "0.1"), p.Gaussian("0.5")])
    alone = p.Gaussian("0.5").epsilon("1e-6")
    assert (
        alone < both.epsilon("1e-6") < p.compose([p.Gaussian(1), p.Gaussian("0.5")]).epsilon("1e-6")
    )


def test_the_middle_of_a_grid_has_room_for_the_sums_of_both_sides():
    """Of an addition the losses above are few and those below many: each may be rounded."""
    _, addition = p.sample(p.Gaussian(1), "0.001").pairs()
    grid = addition.on_grid(Fraction(1, 2000))
    below, above = -grid.start, len(grid.masses) - 1 + grid.start
    assert above * 100 < below
    others = math.fsum(grid.masses) - float(grid.masses[below])
    rest = 1 - others - grid.infinite
    assert rest > 0
    room = float(grid.masses[below]) - rest
    assert room > ULP * (above + below) / 2


def test_a_median_without_a_step_lies_on_a_fine_grid():
    ages = [20 + i % 60 for i in range(101)]
    for lower, upper, step in ((0, 120, Fraction(1, 2**34)), (-1, 1, Fraction(1, 2**39))):
        assert m.smooth_median(ages, lower, upper, epsilon=2, delta="1e-6").step == step


def test_a_threshold_below_what_one_unit_adds_protects_nobody():
    with pytest.raises(ParameterError, match="protects nobody"):
        m.KeyThreshold.design(100, threshold=1, sensitivity=1000)
    assert m.KeyThreshold.design(100, threshold=1001, sensitivity=1000).delta < 1


LATTICES = [(range(-5, 20), range(10)), (range(3, 20), range(3, 10)), (range(-5, 4), range(4)),
            (range(2, 4), range(2, 4))]  # fmt: skip


@pytest.mark.parametrize(("codes", "kept"), LATTICES)
def test_a_key_drops_places_of_a_lattice_that_no_row_can_have(codes, kept):
    age = pl.expr.Column("age", pl.Type.number(0, 9))
    assert pl.Key("age", age, codes).codes == kept


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
def test_an_interval_of_a_quantile_misses_as_often_as_it_says(confidence):
    """Half of what may go wrong on either side: the margins are those of the law's tails."""
    law = noise.DiscreteLaplace(2)
    nodes = tuple(20 + i for i in range(9))
    tops = tuple(sum(nodes[3 * i : 3 * i + 3]) for i in range(3))
    levels = Levels(((tops,), (nodes,)), law, 3, Fraction(0), Fraction(1), Fraction(9), Fraction(1))
    squares, largest = _squares(2, 3, 0.5)
    margin = tail_margin(law, squares, largest, (1 - confidence) / 2)
    left = [sum(nodes[:j]) - 0.5 * sum(nodes) for j in range(10)]
    possible = [i for i in range(9) if left[i] <= margin[i] and left[i + 1] >= -margin[i + 1]]
    box = levels.interval(Fraction(1, 2), confidence)
    assert (box.low[0], box.high[0]) == (possible[0], possible[-1] + 1)
    assert len(possible) > 1


def test_an_interval_is_the_whole_range_where_no_leaf_is_possible():
    """Noise that contradicts itself far beyond its margins says nothing."""
    nodes = (2, 27, 160, 100, 20, 108, -236, -235, 24)
    tops = tuple(sum(nodes[3 * i : 3 * i + 3]) for i in range(3))
    law, shape = noise.DiscreteLaplace(2), (Fraction(0), Fraction(1), Fraction(9), Fraction(1))
    levels = Levels(((tops,), (nodes,)), law, 3, *shape)
    box = levels.interval(Fraction(1, 2), 0.95)
    assert (box.low.tolist(), box.high.tolist()) == ([0], [9])
    assert levels._crossing(0.5)[0] not in (0, 8)


def test_a_box_is_cut_at_both_ends_of_a_public_range():
    box = Box(np.array([-5.0, 4.0, 12.0]), np.array([-1.0, 30.0, 15.0])).clipped(0, 10)
    assert (box.low.tolist(), box.high.tolist()) == ([0, 4, 10], [0, 10, 10])


WRONG = [{"a": {"nan": True}}, {"b": {"nan": True}}, {"out": {"whole": False}}, {"a": {"hi": INF}},
         {"b": {"hi": INF}}]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_only_integers_have_an_integer_quotient(wrong):
    """Each of the refusals by itself: what is not whole would be cut off to a wrong range."""
    rules, node = Functions("postgresql"), Node("column", (None, "x"))
    whole = {"a": Value("num", 6, 9, whole=True), "b": Value("num", 2, 3, whole=True),
             "out": Value("num", whole=True)}  # fmt: skip
    found = rules.quotient(whole["a"], whole["b"], node, whole["out"])
    assert (found.lo, found.hi) == (2, 4)
    for name, change in wrong.items():
        whole[name] = whole[name]._replace(**change)
    with pytest.raises(Unproven, match="not an integer"):
        rules.quotient(whole["a"], whole["b"], node, whole["out"])


@pytest.mark.parametrize(
    ("statement", "plain"),
    [
        ('SELECT "x" AS y, 1 AS n FROM "t"', True),
        ('SELECT "x" + 1 AS y FROM "t"', False),
        ('SELECT a."x" AS y FROM "t" AS a INNER JOIN "u" AS b ON a."k" = b."k"', False),
        ('SELECT "x" AS y FROM "t" GROUP BY "x"', False),
    ],
)
def test_what_hands_on_columns_and_does_nothing_else(statement, plain):
    assert bare(read(statement, "duckdb")) is plain


def test_shares_of_a_budget_make_one_whole():
    """Without shares each analyst may spend all of it; with them the rest is for all others."""
    whole = pol.Budget("1")
    shared = pol.Budget("1", shares={"ana": "1/4", "ben": "1/2"})
    names = ("ana", "ben", "eve", None)
    assert [share_of(whole, n) for n in names] == [1, 1, 1, 1]
    assert [share_of(shared, n) for n in names] == [
        Fraction(1, 4), Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)]  # fmt: skip


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_a_delta_of_gaussian_noise_is_seen_in_ledgers_of_any_format(version):
    """Older ones do not say so themselves; what was spent does. Sums of ε would fall short."""
    chosen = pl.Cost(Fraction(1), Fraction(1, 10**6), Fraction(1, 2), Fraction(1, 10**6))
    noisy = pl.Cost(Fraction(1), Fraction(1, 10**5), Fraction(1, 20), Fraction(1, 10**6))

    def pure(**spent):
        return State("p", {}, {}, {}, spent=spent, format=version).pure

    assert pure()
    assert pure(ana=chosen, ben=chosen)
    assert not pure(ana=chosen, ben=noisy)
    assert not State("p", {}, {}, {}, spent={"ana": chosen}, format=version, by_rho=True).pure


def test_long_lists_of_keys_weigh_more_in_memory():
    def key(*codes):
        return pl.Key("k", pl.expr.Constant(0, pl.Type(pl.Kind.NUMBER, 0, 5000)), codes)

    assert [weight([key(*range(n))]) for n in (0, 1, 999, 1000, 1999, 2000)] == [1, 1, 1, 2, 2, 3]
    assert weight([]) == 1
