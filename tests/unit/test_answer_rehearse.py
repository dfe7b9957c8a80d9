"""Whatever follows the noise works on every row, or is refused while it is free."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from discreet.answer import _outputs
from discreet.errors import UnsupportedQueryError
from discreet.plan import Box
from discreet.policy import Boolean, Budget, Category, Integer, Policy, Table

TABLE = Table(
    "t",
    [Integer("a", 0, 3), Boolean("f"), Category("c", ["x", "y"]), Category("q", [0, 1, 2])],
)
ROWS = pa.table(
    {"a": [0, 1, 2, 3] * 20, "f": [True, False] * 40, "c": ["x", "y"] * 40, "q": [0, 1] * 40}
)
EXPRESSIONS = [
    "{} + COUNT(*)", "{} * 2", "CASE WHEN {} > 0 THEN COUNT(*) ELSE 0 END", "ROUND({}, 1)",
    "EXP({})", "SQRT({})", "LN({})", "ABS({})", "LEAST({}, COUNT(*))", "GREATEST({}, 2)",
    "COALESCE({}, 9)", "NULLIF({}, 1)", "-{}", "COUNT(*) / {}", "COUNT(*) // 2", "COUNT(*) % 7",
    "COUNT(*) // {}", "{} % 2",
]  # fmt: skip
CONDITIONS = ["HAVING {} > 0", "HAVING NOT {} > 0", "ORDER BY -{}", "HAVING COUNT(*) // 2 > 3"]


@pytest.fixture(scope="module")
def curator():
    policy = Policy(tables=[TABLE], budget=Budget("1e9"), name="rehearsed")
    return dc.open({"t": ROWS}, policy=policy, ledger=":memory:")


def questions():
    for key, group in itertools.product("afq", ("{}", "ROLLUP ({})")):
        tail = f"FROM t GROUP BY {group.format(key)}"
        for e in EXPRESSIONS:
            yield f"SELECT {key}, {e.format(key)} AS o, COUNT(*) AS n {tail}"
        for c in CONDITIONS:
            yield f"SELECT {key}, COUNT(*) AS n {tail} {c.format(key)}"


@pytest.mark.parametrize("text", list(questions()))
def test_what_is_priced_is_answered(curator, text):
    try:
        curator.preview(text, epsilon=1000)
    except dc.errors.DiscreetError:
        return
    answer = curator.sql(text, epsilon=1000)
    assert str(answer)
    assert len(answer.interval()) == len(answer)


def test_most_of_them_are_answered(curator):
    refused = 0
    for text in questions():
        try:
            curator.preview(text, epsilon=1000)
        except dc.errors.DiscreetError:
            refused += 1
    assert refused < 30


def test_an_operation_that_nobody_can_do_is_free(monkeypatch):
    policy = Policy(tables=[TABLE], budget=Budget("10"), name="rehearsed once")
    curator = dc.open({"t": ROWS}, policy=policy, ledger=":memory:")
    missing = {k: v for k, v in _outputs.OPERATIONS.items() if k != "//"}
    monkeypatch.setattr(_outputs, "OPERATIONS", missing)
    for ask in (curator.preview, curator.sql):
        with pytest.raises(UnsupportedQueryError, match="does not suit"):
            ask("SELECT COUNT(*) // 3 AS o FROM t", epsilon=1)
    assert curator.budget.spent["epsilon"] == 0


def test_a_total_is_in_no_test_of_its_key(curator):
    """NULL is neither above zero nor not; SQL leaves such rows out both times."""
    for test, keys in (("a > 1", [2, 3]), ("NOT a > 1", [0, 1]), ("a <> 1", [0, 2, 3])):
        text = f"SELECT a, COUNT(*) AS n FROM t GROUP BY ROLLUP (a) HAVING {test}"
        assert sorted(row["a"] for row in curator.sql(text, epsilon=1000)) == keys


def test_whole_quotients_and_remainders_are_those_of_sql():
    a, b = np.array([-7.0, 7.0, -7.0, 7.0, 5.0]), np.array([2.0, -2.0, -2.0, 2.0, 0.0])
    whole, rest = (_outputs.OPERATIONS[op].value(a, b) for op in ("//", "%"))
    assert whole[:4].tolist() == [-3, -3, 3, 3]
    assert rest[:4].tolist() == [-1, 1, -1, 1]
    assert np.isnan([whole[4], rest[4]]).all()


@pytest.mark.parametrize("op", ["//", "%"])
def test_boxes_hold_every_value_inside(op):
    rng = np.random.default_rng(11)
    low, size = rng.integers(-20, 20, 500) / 2, rng.integers(0, 9, 500) / 2
    by, wide = rng.integers(-6, 7, 500).astype(float), rng.integers(0, 2, 500).astype(float)
    a, b = Box(low, low + size), Box(by, by + wide)
    box = _outputs.OPERATIONS[op].box(a, b)
    for x, y in itertools.product(np.linspace(0, 1, 9), np.linspace(0, 1, 5)):
        value = _outputs.OPERATIONS[op].value(a.low + x * size, b.low + y * wide)
        there = ~np.isnan(value)
        assert (box.low[there] <= value[there] + 1e-9).all()
        assert (value[there] <= box.high[there] + 1e-9).all()
