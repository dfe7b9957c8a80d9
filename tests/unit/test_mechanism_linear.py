"""Sensitivity of linear queries against brute force, dense and sparse."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from discreet import mechanisms as m
from discreet.errors import ParameterError
from discreet.mechanisms import _additive, _lattice, _linear


def brute_force(matrix, relation, norm):
    columns = [[Fraction(x) for x in column] for column in np.asarray(matrix).T.tolist()]
    if relation == "add-remove":
        moves = columns
    else:
        pairs = itertools.product(columns, columns)
        moves = [[a - b for a, b in zip(u, v, strict=True)] for u, v in pairs]
    return max(sum(abs(x) ** norm for x in move) for move in moves)


integers = hnp.arrays(
    np.int64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=7), elements=st.integers(-3, 3)
)
reals = hnp.arrays(
    np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.floats(-1, 1)
)


@given(integers, st.sampled_from(["add-remove", "change-one"]))
def test_integer_matrices_are_exact(matrix, relation):
    for form in (matrix, sp.csr_array(matrix), sp.coo_matrix(matrix), matrix.tolist()):
        assert m.sensitivity(form, relation) == brute_force(matrix, relation, 1)
        squared = brute_force(matrix, relation, 2)
        found = m.sensitivity(form, relation, norm=2)
        assert Fraction(found) ** 2 >= squared
        assert found == pytest.approx(math.sqrt(squared), rel=1e-15)


@given(reals, st.sampled_from(["add-remove", "change-one"]), st.sampled_from([1, 2]))
def test_real_matrices_are_never_below_the_truth(matrix, relation, norm):
    exact = brute_force(matrix, relation, norm)
    for form in (matrix, sp.csc_matrix(matrix)):
        found = m.sensitivity(form, relation, norm=norm)
        assert Fraction(found) ** norm >= exact
        assert found == pytest.approx(float(exact) ** (1 / norm), rel=1e-9, abs=1e-140)


def test_prefix_sums_over_a_long_domain():
    prefix = np.tril(np.ones((300, 300), dtype=int))
    assert m.sensitivity(prefix, "add-remove") == 300
    assert m.sensitivity(prefix, "change-one") == 299


def test_large_sparse_identity_is_quick():
    eye = sp.identity(50_000, format="csr", dtype=np.int8)
    assert m.sensitivity(eye, "change-one") == 2
    assert m.sensitivity(eye, "change-one", norm=2) == pytest.approx(math.sqrt(2), rel=1e-15)


def test_one_column_cannot_change():
    assert m.sensitivity([[3], [4]], "change-one") == 0
    assert m.sensitivity([[3], [4]], "add-remove", norm=2) == 5


@pytest.mark.parametrize("values", [[-(2**61) - 1, 1], [2**61, -1], [3, -4]])
def test_integers_that_would_wrap_are_scaled_exactly(values):
    scaled = _lattice._scale_up(np.array(values), 4)
    assert [int(x) for x in scaled] == [4 * x for x in values]


def test_whole_sensitivities_stay_whole_as_long_as_sums_are_exact():
    for largest in (2**51 - 1, 2**50 + 1):
        found = m.sensitivity([[largest]], "add-remove")
        assert isinstance(found, int)
        assert found == largest


@pytest.mark.parametrize(
    ("moved", "square"),
    [(3, 9), (Fraction(5, 2), Fraction(25, 4)), (Fraction(math.sqrt(2)), 2), (12, 144)],
)
def test_the_gaussian_is_priced_by_the_square_of_what_integers_move(moved, square):
    query = _additive._Query.read([1, 2], Fraction(moved), Fraction(9), None, integer=True)
    assert query.l2_squared(Fraction(moved)) == square


def test_blocks_of_columns_are_all_looked_at(monkeypatch):
    monkeypatch.setattr(_linear, "_BLOCK", 4)
    first = [[9, 0, 1, 1, 2], [0, 9, 1, 2, 1]]  # the two farthest are not in the last block
    for form in (first, np.array(first) / 2, sp.csc_matrix(first)):
        scale = Fraction(1, 2) if isinstance(form, np.ndarray) else 1
        assert m.sensitivity(form, "change-one") == pytest.approx(18 * scale, rel=1e-12)


def test_objects_are_read_as_the_numbers_they_are():
    assert m.sensitivity(np.array([[Fraction(1, 2)]], dtype=object), "add-remove") >= 0.5
    exact = m.sensitivity(np.array([[2.0], [Fraction(3)]], dtype=object), "add-remove")
    assert (exact, type(exact)) == (5, int)
    large = m.sensitivity(np.array([[2**52]], dtype=object), "add-remove")
    assert isinstance(large, float)
    assert large >= 2**52
    assert m.sensitivity(np.array([[2**70]], dtype=object), "add-remove") >= 2**70


def test_squares_that_vanish_beside_others_are_paid_for():
    """The columns differ by 1e-200, whose square is no double."""
    assert 1e-200 <= m.sensitivity([[1.5, 1.5], [0, 1e-200]], "change-one", norm=2) < 1e-100
    assert m.sensitivity([[1.5, 1.5]], "change-one", norm=2) == 0


@pytest.mark.parametrize("rows", [1, 7, 50])
def test_sums_of_doubles_keep_the_room_that_their_rounding_may_need(rows):
    """Each of the roundings is at most 2^-53; four times as much is kept, and for four more."""
    found = Fraction(m.sensitivity([[0.5]] * rows, "add-remove")) / Fraction(rows, 2)
    assert 0.8 * (rows + 4) < (found - 1) * 2**51 < 1.2 * (rows + 4) + 1


CELLS = [
    [0, 1, -1, 2, 7, -7],
    [2**61, -(2**61), 2**62 - 1, 1 - 2**62, 2**62, -(2**62), 2**63, 2**70],
    [0.0, 0.5, -0.5, 1.25, -1.75, 1e300, -1e300, 5e-324],
    [float(2**61), float(2**62), -float(2**62), 0.75],
    np.array([0, 255], dtype=np.uint8),
    np.array([2**64 - 1, 5], dtype=np.uint64),
    np.array([2**32 - 1, 5], dtype=np.uint32),
    np.array([-128, 127], dtype=np.int8),
    np.array([True, False]),
    np.array([0.1, -2.5], dtype=np.float32),
    np.array([0.1, -2.5], dtype=np.float16),
    np.array([0.1, -2.5], dtype=np.longdouble),
    [Fraction(1, 3), 2, 0.25, Decimal("0.1")],
    [],
]


@pytest.mark.parametrize("cells", CELLS, ids=repr)
@pytest.mark.parametrize("step", ["1", "2", "3", "1/2", "1/3", "3/2", "2/3", "1/4", "1/8", "0.01",
                                  Fraction(1, 2**70), 2**70])  # fmt: skip
def test_every_cell_is_read_exactly_and_rounded_to_the_nearest_step(cells, step):
    listed = cells if isinstance(cells, list) else [x.item() for x in cells]
    exact = [Fraction(*x.as_integer_ratio()) for x in listed]
    values = _lattice.read_values(cells)
    assert [Fraction(x) for x in values.flat.tolist()] == exact
    k = _lattice.quantise(values, Fraction(step))
    rounded = [math.floor(x / Fraction(step) + Fraction(1, 2)) for x in exact]
    assert [int(x) for x in k.tolist()] == rounded
    total = _lattice.add(k, k)
    assert [int(x) for x in total.tolist()] == [2 * x for x in rounded]


def test_text_is_no_number_however_short():
    assert _lattice.read_values(np.array(["7", "x"])).flat.tolist() == [0, 0]


def test_only_multiples_of_the_step_are_rounded_for_nothing():
    """L1 in steps: ⌈Δ/step⌉, and one for each further cell that rounding may move."""
    for step, integer, steps in (
        (1, True, 5), (Fraction(1, 2), True, 10), (2, True, 3 + 3), (Fraction(3, 2), True, 4 + 3),
        (1, False, 5 + 3), (Fraction(1, 2), False, 10 + 3),
    ):  # fmt: skip
        found = _lattice.l1_on_lattice(4, Fraction(5), Fraction(step), integer=integer)
        assert found == steps
    assert _lattice.l1_on_lattice(0, Fraction(5), Fraction(2), integer=True) == 3
    for ragged in ([[1, 2], [3]], [[1], [[2]]], [[1, 2], [3, 4], [5]]):
        with pytest.raises(ParameterError, match="rectangular"):
            _lattice.read_values(ragged)


@pytest.mark.parametrize(
    ("per_cell", "noise"),
    [(1, 9), (9, 1), (Fraction(3, 7), Fraction(5, 7)), (2**30, 2**31), (Fraction(1, 2**9), 1)],
)
def test_a_default_grid_is_the_coarsest_that_cannot_be_seen(per_cell, noise):
    step = _lattice.fine_step(Fraction(per_cell), Fraction(noise))
    assert step <= min(Fraction(per_cell), Fraction(noise)) / 2**20 < 2 * step
    assert 1 in (step.numerator, step.denominator)
    assert _lattice._is_dyadic(step)


@pytest.mark.parametrize(
    ("text", "read"),
    [("1e400", Fraction(10**400)), ("9.9e400", Fraction(99 * 10**399)), ("1e401", _lattice._BOUND),
     ("-1e401", -_lattice._BOUND), ("1e-400", Fraction(1, 10**400)),
     ("-1e-400", Fraction(-1, 10**400)), ("9.9e-401", 0), ("0e999", 0), ("-inf", -_lattice._BOUND)],
)  # fmt: skip
def test_decimals_are_read_exactly_up_to_four_hundred_digits(text, read):
    assert _lattice._from_decimal(Decimal(text)) == read


def test_sums_at_the_edge_of_what_63_bits_hold_do_not_wrap():
    for a, b in ((2**62, 2**62), (-(2**62), -(2**62)), (2**63 - 1, 1), (-(2**63), -1), (2**62, -1)):
        total = _lattice.add(np.array([a, 0]), np.array([b, 0]))
        assert [int(x) for x in total] == [a + b, 0]
    far = 2**1023
    wild = [2**1100, -(2**1100), Fraction(2**1100, 3), Fraction(-(2**1100), 3), math.inf, -math.inf]
    assert _lattice.read_values([1, *wild]).flat.tolist() == [1, *[far, -far] * 3]
    assert _lattice.read_values(np.array(wild[4:])).flat.tolist() == [float(far), -float(far)]
    huge = [Decimal("1e401"), Decimal("-1e401"), Decimal("1e-402"), Decimal("nan"), Decimal("inf")]
    assert _lattice.read_values(huge).flat.tolist() == [far, -far, 0, 0, far]
    zeros = [Decimal("0e500"), Decimal("-0e500"), Decimal("0e-500"), Decimal(0)]
    assert _lattice.read_values(zeros).flat.tolist() == [0] * 4
