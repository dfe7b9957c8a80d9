"""Linear queries over the data vector: the tutorial's examples through the curator (R1.1, R2)."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from discreet import mechanisms as m
from discreet import plan as pl
from discreet import policy as pol
from discreet.audit import replay
from discreet.curator import Curator
from discreet.curator._linear import linear_query
from discreet.engines import Reference
from discreet.errors import DiscreetError
from discreet.ledger import open_ledger
from discreet.privacy import Neighbours

_NAMES = itertools.count()

# J Example 2.1: SEX × MAR, data vector (1, 0, 2, 2, 3, 0)
CELLS = [(s, w) for s in ("Male", "Female") for w in ("Married", "Single", "Other")]
ROWS = [
    {"id": i, "sex": s, "mar": w}
    for i, (s, w) in enumerate(
        c for c, n in zip(CELLS, (1, 0, 2, 2, 3, 0), strict=True) for _ in range(n)
    )
]
B = [[1, 0, 0, 1, 0, 0], [0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 0, 0]]
A = [*np.eye(6, dtype=int).tolist(), B[0], B[1]]


def curator(rows=ROWS, **table):
    columns = [
        pol.Category("sex", values=["Male", "Female"]),
        pol.Category("mar", values=["Married", "Single", "Other"]),
    ]
    own = pol.Policy(
        tables=[pol.Table("people", columns, **table)],
        budget=pol.Budget("1000", delta="1e-5", accounting="approx"),
        name=f"linear {next(_NAMES)}",
    )
    return Curator(own, Reference({"people": rows}), open_ledger(":memory:", own))


def plan_of(asked, matrix):
    query = linear_query(asked, matrix, ["sex", "mar"], table=None, where=None, labels=None)
    return pl.price(pl.lower(query), pl.Ask(Fraction(1)))


def test_example_2_1_identity_query_is_the_data_vector():
    answer = curator().linear(np.eye(6), ["sex", "mar"], epsilon=400)
    assert [r["value"] for r in answer.to_dicts()] == [1, 0, 2, 2, 3, 0]


def test_example_2_5_three_questions():
    answer = curator().linear(B, ["sex", "mar"], labels=["married", "female", "both"], epsilon=400)
    assert answer.to_dicts() == [
        {"query": "married", "value": 3},
        {"query": "female", "value": 5},
        {"query": "both", "value": 2},
    ]


@pytest.mark.parametrize(
    ("matrix", "relation", "l1"),
    [
        (np.eye(6), "add-remove", 1),
        (np.eye(6), "change-one", 2),
        (B, "add-remove", 3),
        (B, "change-one", 3),
        (A, "add-remove", 3),
        (A, "change-one", 4),
    ],
)
def test_sensitivities_of_r2_2_price_the_noise(matrix, relation, l1):
    plan = plan_of(curator(neighbours=relation), matrix)
    assert plan.lowered.parts[0].sensitivity.l1 == l1 == m.sensitivity(matrix, relation)
    assert plan.parts[0].law.scale == l1


def test_example_2_6_a_proportion_with_public_n():
    asked = curator(neighbours="change-one")
    eighth = [[Fraction(1, 8) * x for x in B[0]]]
    answer = asked.linear(eighth, ["sex", "mar"], epsilon=400)
    assert answer.to_dicts()[0]["value"] == 0.375
    assert plan_of(asked, eighth).lowered.parts[0].sensitivity.l1 == 1  # in eighths


def test_sparse_matrices_and_conditions():
    answer = curator().linear(
        sparse.csr_array(np.ones((1, 3), dtype=int)), ["mar"], where="sex = 'Female'", epsilon=400
    )
    assert answer.to_dicts()[0]["value"] == 5


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("limits", [{}, {"unit": "id", "max_rows_per_unit": 2}])
def test_replay_of_linear_queries(relation, limits):
    rng = random.Random(4)
    asked = curator(neighbours=relation, **limits)
    for _ in range(60):
        matrix = [[rng.randint(-3, 3) for _ in range(6)] for _ in range(3)]
        matrix[0][0] = 1
        plan = plan_of(asked, matrix)

        def unit(number, most):
            return [
                {
                    "id": number,
                    "sex": rng.choice(["Male", "Female", "?"]),
                    "mar": rng.choice(["Married", "Single", "Other"]),
                }
                for _ in range(rng.randint(0, most))
            ]

        most = 4 if limits else 1
        old, new = unit(99, most), unit(99, most)
        if not limits:
            old, new = (old or [ROWS[0]]), (new or [ROWS[5]])
        left = ROWS + (old if relation is Neighbours.CHANGE_ONE else [])
        found = replay(
            plan, Reference({"people": left}), Reference({"people": ROWS + new}), pl.Salt(b"x")
        )
        assert found.ok, found.violations


@pytest.mark.parametrize(
    "matrix", [[[1, 2]], [1, 2, 3], [[0] * 6], [[float("nan")] + [0] * 5], [["x"] + [0] * 5], []]
)
def test_bad_matrices(matrix):
    with pytest.raises(DiscreetError):
        curator().linear(matrix, ["sex", "mar"], epsilon=1)
