"""Sensitivity of linear queries against brute force, dense and sparse."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from discreet import mechanisms as m
from discreet.mechanisms import _additive, _lattice


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
