"""Workloads: structure and matrix say the same; bad input is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from discreet import release
from discreet.errors import ParameterError
from discreet.privacy import Neighbours
from discreet.release import _factors
from discreet.release._counts import read_counts
from discreet.release._marginals import Contrasts, Helmert
from discreet.release._pidentity import optimum
from discreet.release._queries import Cells, Haar, Kron, Levels, Matrix

W = release.Workload
EXAMPLES = [
    W.identity(7),
    W.total(5),
    W.prefix(9),
    W.all_range(6),
    W.matrix([[1, 0, 2], [0, -1, 1]]),
    W.kron(W.prefix(4), W.all_range(3)),
    W.union([W.kron(W.prefix(3), W.total(2)), W.kron(W.total(3), W.identity(2))], [2, 1]),
    W.marginals((2, 3, 2), (0, 2)),
    W.boxes((5, 4), [[0, 0], [1, 2], [3, 0]], [[5, 4], [4, 3], [4, 4]]),
]


def written_out(workload):
    """The matrix, from the answers to single cells; weights of unions included."""
    eye = np.eye(workload.cells)
    rows = np.array([workload.answers(e.reshape(workload.shape)) for e in eye]).T
    if hasattr(workload, "terms"):
        weights = np.concatenate(
            [np.full(np.prod([a.m for a in axes]), w) for w, axes in workload.terms]
        )
        rows = rows * weights[:, None]
    return rows


@pytest.mark.parametrize("workload", EXAMPLES, ids=lambda w: w.describe())
def test_structure_agrees_with_the_matrix(workload):
    A = written_out(workload)
    assert A.shape == (workload.queries, workload.cells)
    assert np.allclose(workload.diagonal().ravel(), (A**2).sum(axis=0))
    assert np.allclose(workload.gram(), A.T @ A)
    for side in (1, 2, 4):
        blocks = [np.arange(n) // side for n in workload.shape]
        mean = np.ones((1, 1))
        for label in blocks:
            same = (label[:, None] == label[None, :]) / side
            mean = np.kron(mean, same)
        # padded cells are empty: a short block still averages over `side`
        assert np.isclose(workload.energy(side), np.trace(A.T @ A @ mean))


@pytest.mark.parametrize("workload", EXAMPLES, ids=lambda w: w.describe())
def test_sensitivity_bounds_every_pair(workload):
    eye = np.eye(workload.cells)
    A = np.array([workload.answers(e.reshape(workload.shape)) for e in eye]).T
    for norm in (1, 2):
        columns = np.linalg.norm(A, ord=norm, axis=0)
        assert np.isclose(workload.sensitivity(norm), columns.max())
        farthest = max(
            np.linalg.norm(A[:, i] - A[:, j], ord=norm)
            for i, j in itertools.combinations(range(workload.cells), 2)
        )
        assert workload.sensitivity(norm, "change-one") >= farthest - 1e-9


def queries():
    dense = np.array([[3, 0, -1], [1, 1, 1], [0, 2, 0]])
    p_identity = optimum(_factors.Prefix(6), pure=True, p=2)
    return [
        (Levels((10,), ((3, 4), (1, 2), (5, 1))), (10,)),
        (Levels((5, 3), ((2, 8), (7, 2), (1, 1))), (5, 3)),
        (Haar(6, (2, 5, 1, 3)), (6,)),
        (Matrix(dense), (3,)),
        (Kron([p_identity, Cells(2)]), (6, 2)),
        (Kron([Helmert(4), Helmert(3)]), (4, 3)),
    ]


@pytest.mark.parametrize("case", queries(), ids=lambda c: type(c[0]).__name__)
def test_integer_queries_know_exactly_how_far_a_record_moves_them(case):
    query, shape = case
    cells = int(np.prod(shape))
    empty = np.zeros(cells, dtype=np.int64)
    columns = []
    for j in range(cells):
        e = empty.copy()
        e[j] = 1
        columns.append(query.apply(read_counts(e, shape)))
    A = np.array(columns).T
    assert A.dtype == np.int64
    assert A.shape == (query.rows, cells)
    assert query.l1 == np.abs(A).sum(axis=0).max()
    assert query.l2 == (A * A).sum(axis=0).max()
    gaps = [A[:, i] - A[:, j] for i, j in itertools.combinations(range(cells), 2)]
    l1, l2 = max(np.abs(g).sum() for g in gaps), max((g * g).sum() for g in gaps)
    change = Neighbours.CHANGE_ONE
    assert l1 <= query.l1_sensitivity(change) <= 2 * query.l1
    assert l2 <= query.l2_sensitivity(change) <= 4 * query.l2
    if not isinstance(query, Kron):
        assert (query.l1_sensitivity(change), query.l2_sensitivity(change)) == (l1, l2)


def test_helmert_products_move_by_the_stated_amount_for_every_record():
    sizes = (2, 3, 4)
    for relation in Neighbours:
        for axes in ((0,), (1, 2), (0, 1, 2)):
            question = Contrasts(axes, sizes, release.Price.read(rho=1).total, relation)
            x = read_counts(np.zeros(24, dtype=int), sizes)
            cells = list(itertools.product(*map(range, sizes)))
            moved = [x.moved((c, 1)) for c in cells]
            if relation is Neighbours.ADD_REMOVE:
                found = [float(question.distance(x, y)) for y in moved]
                # rounding down loses less than 2^-19; every record moves alike
                assert min(found) > 1 - 2.0**-18
            else:
                pairs = itertools.combinations(moved, 2)
                found = [float(question.distance(a, b)) for a, b in pairs]
            assert 1 - 2.0**-18 < max(found) <= 1


def test_large_counts_do_not_wrap():
    x = read_counts(np.full(4, 2**52), (4,))
    query = Levels((4,), ((4096, 4), (4096, 1)))
    assert query.apply(x)[0] == 4096 * 4 * 2**52
    wide = Matrix(np.full((1, 4), 2**20))
    assert wide.apply(x)[0] == 2**74
    contrasts = Kron([Helmert(4)])
    assert contrasts.apply(x).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ([1, -1, 0, 0], "whole numbers"),
        ([0.5, 0, 0, 0], "whole numbers"),
        ([np.nan, 0, 0, 0], "whole numbers"),
        ([1, 2, 3], "shape"),
        (["a"] * 4, "numbers"),
        (np.zeros((2, 3)), "shape"),
    ],
)
def test_bad_counts_are_refused(wrong, words):
    with pytest.raises(ParameterError, match=words):
        release.publish(wrong, W.prefix(4), epsilon=1)


def test_bad_records_are_refused():
    with pytest.raises(ParameterError, match="outside the public domain"):
        release.Records([[0, 3]], (2, 3))
    with pytest.raises(ParameterError, match="integer codes"):
        release.Records([[0.0, 1.0]], (2, 3))
    with pytest.raises(ParameterError, match="one column"):
        release.Records([[0, 1, 1]], (2, 3))


def test_points_go_to_their_cells_whatever_they_are():
    points = [[0.0, 0.0], [1.0, 10.0], [-5.0, 99.0], [np.nan, np.inf], [0.49, 5.0]]
    found = release.Records.of_points(points, (0, 0), (1, 10), cells=(2, 4))
    assert found.table.tolist() == [[0, 0], [1, 3], [0, 3], [0, 3], [0, 2]]
    with pytest.raises(ParameterError, match="low < high"):
        release.Records.of_points(points, (1, 0), (0, 1), cells=(2, 2))


@pytest.mark.parametrize(
    "make",
    [
        lambda: W.prefix(0),
        lambda: W.prefix(True),
        lambda: W.marginals((2, 2), 3),
        lambda: W.marginals((2, 2), ()),
        W.kron,
        lambda: W.kron(W.marginals((2, 2), 1), W.prefix(2)),
        lambda: W.union([W.prefix(3), W.prefix(4)]),
        lambda: W.union([W.prefix(3)], [0]),
        lambda: W.matrix([["a"]]),
        lambda: W.matrix([[np.inf]]),
        lambda: W.boxes((4, 4), [[0, 0]], [[0, 4]]),
    ],
)
def test_bad_workloads_are_refused(make):
    with pytest.raises(ParameterError):
        make()


def test_a_domain_too_large_is_refused_with_its_size_and_a_way_out():
    many = W.kron(*[W.identity(100)] * 6)
    with pytest.raises(ParameterError, match="1e\\+12 cells") as refusal:
        release.plan(many, epsilon=1, method="identity")
    assert 'method="marginals"' in str(refusal.value)
    # planned all the same, and marginals of it are published from records
    planned = release.plan(W.marginals((100,) * 6, 1), rho="0.5")
    table = planned.publish(release.Records(np.zeros((5, 6), dtype=int), (100,) * 6))
    assert table.answers.shape == (600,)


def test_empty_data_can_be_published():
    assert release.publish(np.zeros(8), W.prefix(8), epsilon=1).answers.shape == (8,)
    none = release.Records([], (2, 3))
    assert release.publish(none, W.marginals((2, 3), 2), rho=1).answers.shape == (6,)
