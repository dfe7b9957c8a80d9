"""Aggregates over rows of an answer of which noise leaves open whether they belong."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from discreet.answer._folds import COMPARISONS, Truth, box, compared
from discreet.errors import QueryError
from discreet.plan import Box, Window

OF = {
    "COUNT": len,
    "SUM": sum,
    "AVG": lambda x: sum(x) / len(x),
    "MIN": min,
    "MAX": max,
}


@pytest.mark.parametrize("op", OF)
@pytest.mark.parametrize("seed", range(20))
def test_ranges_are_the_least_and_the_greatest_over_all_choices(op, seed):
    rng = np.random.default_rng(seed)
    low = rng.integers(-4, 5, 5).astype(float)
    high = low + rng.integers(0, 4, 5)
    sure = rng.random(5) < (seed % 3) / 4
    maybe = ~sure & (rng.random(5) < 0.7)
    values = []
    open_to = [[1] if s else [0, 1] if m else [0] for s, m in zip(sure, maybe, strict=True)]
    for there in itertools.product(*open_to):
        rows = [(a, b) for a, b, t in zip(low, high, there, strict=True) if t]
        if rows or op == "COUNT":  # of no rows all others are NULL
            values += [OF[op](list(x)) for x in itertools.product(*rows)]
    found = box(Window(op, ()), Box(low, high), Truth(sure, sure | maybe), ())
    if not values:
        assert np.isnan(found.low).all()
        return
    assert np.allclose(found.low, min(values))
    assert np.allclose(found.high, max(values))


@pytest.mark.parametrize("op", COMPARISONS)
def test_a_comparison_is_sure_where_it_holds_on_the_whole_box(op):
    tests = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
             "=": np.equal, "<>": np.not_equal}  # fmt: skip
    for a, b, c, d in itertools.product(range(3), repeat=4):
        if a <= b and c <= d:
            ends = (np.array([float(x)]) for x in (a, b, c, d))
            left, right = Box(next(ends), next(ends)), Box(next(ends), next(ends))
            # halves too: between whole ends a box holds all reals
            xs, ys = np.arange(a, b + 0.1, 0.5), np.arange(c, d + 0.1, 0.5)
            all_of = [tests[op](x, y) for x in xs for y in ys]
            found = compared(op, left, right)
            assert (found.surely[0], found.possibly[0]) == (all(all_of), any(all_of)), (a, b, c, d)


def test_a_missing_end_decides_nothing():
    nothing = Box(np.array([np.nan]), np.array([np.nan]))
    found = compared("<", nothing, Box(np.zeros(1), np.zeros(1)))
    assert not found.surely[0]
    assert found.possibly[0]


@pytest.fixture(scope="module")
def curator():
    sizes = [180 + 2 * i for i in range(20)]
    data = pa.table(
        {"g": np.repeat(np.arange(20), sizes), "k": np.repeat([f"k{i}" for i in range(20)], sizes)}
    )
    columns = {"g": {"type": "category", "values": list(range(20))}, "k": {"type": "text"}}
    policy = {
        "policy": {"name": "folds"},
        "budget": {"epsilon": "1000", "delta": "0.01"},
        "tables": {"t": {"columns": columns}},
    }
    return dc.open(data, policy=policy, ledger=":memory:")


INNER = "(SELECT g, COUNT(*) AS n FROM t GROUP BY g) AS a"


def test_a_count_of_noisy_rows_is_not_exact_and_says_what_it_covers(curator):
    answer = curator.sql(f"SELECT COUNT(*) AS v FROM {INNER} WHERE n > 205", epsilon="0.1")
    (row,) = answer.interval()
    assert isinstance(row["v"], tuple)
    assert row["v"][0] <= 6 <= row["v"][1]  # noise of this test is a function of its name
    assert row["v"][0] < row["v"][1]
    assert answer.exact == frozenset()
    assert answer.chosen == ("v",)
    assert "truly pass" in str(answer)
    (once,) = answer.interval(simultaneous=True)
    assert once == row


def test_an_aggregate_over_no_rows_is_a_row(curator):
    text = f"SELECT COUNT(*) AS v, SUM(n) AS s FROM {INNER} WHERE n > 9999"
    answer = curator.sql(text, epsilon=1)
    (row,) = answer.to_dicts()
    assert row["v"] == 0
    assert row["s"] is None
    assert answer.interval()[0]["v"] == (0, 0)
    assert "NULL" in str(answer)


def test_public_choices_leave_the_law_of_the_sum(curator):
    """HAVING on keys chooses nothing by noise: the interval is that of two cells' noise."""
    text = f"SELECT SUM(n) AS v FROM {INNER} WHERE g IN (1, 2)"
    answer = curator.sql(text, epsilon=1)
    low, high = answer.interval()[0]["v"]
    assert answer.chosen == ()
    assert high - low <= 10  # Laplace of scale 1, twice: 95 % within 5
    assert low <= 182 + 184 <= high


def test_a_count_of_selected_keys_says_that_they_are_released_rows(curator):
    text = "SELECT COUNT(*) AS v, SUM(n) AS s FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS a"
    answer = curator.sql(text, epsilon=1, delta="1e-6")
    assert "v, s: of the rows released, not of all that truly pass" in answer.target
    assert "v, s: of the rows released" in str(answer)


def test_running_sums_over_chosen_rows_say_so(curator):
    text = "SELECT g, SUM(COUNT(*)) OVER (ORDER BY g) AS v FROM t GROUP BY g HAVING COUNT(*) > 200"
    answer = curator.sql(text, epsilon=1)
    assert "v: of the rows released, not of all that truly pass" in answer.target


def test_case_without_else_may_be_absent(curator):
    answer = curator.sql(f"SELECT SUM(CASE WHEN n > 205 THEN n END) AS v FROM {INNER}", epsilon=10)
    (value,), (row,) = answer.to_dicts(), answer.interval()
    assert row["v"][0] <= value["v"] <= row["v"][1]


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT COUNT(*) AS v FROM {INNER} WHERE RANK() OVER (ORDER BY n DESC) <= 3",
        f"SELECT COUNT(DISTINCT n) AS v, SUM(n) AS s FROM {INNER}",
        "SELECT COUNT(CASE WHEN COUNT(*) > 1 THEN 1 END) OVER (ORDER BY g) AS v FROM t GROUP BY g",
    ],
)
def test_what_would_be_another_number_is_refused(curator, text):
    with pytest.raises(QueryError):
        curator.sql(text, epsilon=1)
    assert curator.preview("SELECT COUNT(*) FROM t", epsilon=1) is not None


def test_population_values_of_folds_are_refused_with_a_reason(curator):
    answer = curator.sql(f"SELECT COUNT(*) AS v FROM {INNER} WHERE n > 200", epsilon=1)
    with pytest.raises(dc.errors.ParameterError, match="population"):
        answer.interval(target="population")
