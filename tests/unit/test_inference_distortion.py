"""What GREATEST, ROUND, LEAST and ABS do to a noisy count: bias, spread and interval."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from discreet import inference as inf
from discreet.errors import ParameterError

POLICY = {
    "policy": {"name": "altered"},
    "budget": {"epsilon": "1e6", "accounting": "pure"},
    "tables": {
        "t": {
            "columns": {
                "x": {"type": "integer", "min": 0, "max": 9},
                "y": {"type": "integer", "min": 0, "max": 9},
                "sex": {"type": "category", "values": ["F", "M", "X"]},
            }
        }
    },
}
SHAPES = {
    "GREATEST(COUNT(*), 0)": lambda v: np.maximum(v, 0),
    "LEAST(COUNT(*), 6)": lambda v: np.minimum(v, 6),
    "ABS(COUNT(*) - 4)": lambda v: np.abs(v - 4),
    "ROUND(COUNT(*) / 10.0)": lambda v: np.sign(v) * np.floor(np.abs(v) / 10 + 0.5),
    "COUNT(*) + 1": lambda v: v + 1,
}


@pytest.fixture(scope="module")
def curator():
    data = {"x": [1] * 8, "y": [2] * 8, "sex": ["F"] * 6 + ["M"] * 2}
    return dc.open(pa.table(data), policy=POLICY, ledger=":memory:")


@pytest.mark.parametrize("text", SHAPES)
def test_bias_and_spread_are_those_of_a_simulation(curator, text):
    """Least and greatest over values of the exact count, against 200 000 draws of the law."""
    answer = curator.sql(f"SELECT sex, {text} AS n, COUNT(*) AS c FROM t GROUP BY sex", epsilon=1)
    rng, rows = np.random.default_rng(0), answer.distortion("n")
    noise = inf.noisy(answer, "c").noise.simulate(rng, 200_000)
    assert [row["sex"] for row in rows] == ["F", "M", "X"]
    for row, ends in zip(rows, answer.interval(), strict=True):
        low, high = ends["c"]
        exact = np.unique(np.round(np.linspace(low, high, 129)))
        shown = SHAPES[text](exact[:, None] + noise)
        bias = shown.mean(axis=1) - SHAPES[text](exact)
        assert row["bias"] == pytest.approx((bias.min(), bias.max()), abs=0.03)
        assert row["sd"] == pytest.approx(shown.std(axis=1).max(), abs=0.03)


@pytest.mark.fresh(1e-9)
def test_counts_that_are_never_negative_are_biased_by_what_is_known(curator):
    """The interval at 1 − 1e-9 holds zero, where the bias is greatest."""
    answer = curator.sql(
        "SELECT sex, GREATEST(COUNT(*), 0) AS n FROM t GROUP BY sex", epsilon=1, fresh=True
    )
    empty = answer.distortion("n", "0.999999999")[2]
    assert empty["bias"][1] >= inf.nonnegative_bias(dc.noise.DiscreteLaplace(1), 0) - 1e-6
    low, high = answer.interval("0.999999999")[2]["n"]
    assert low == 0 <= high


def test_what_follows_from_several_numbers_is_refused(curator):
    answer = curator.sql(
        "SELECT SUM(x) / COUNT(*) AS r, COUNT(*) AS n, AVG(y) AS a FROM t", epsilon=1
    )
    for column in ("r", "a", "nothing"):
        with pytest.raises(ParameterError):
            answer.distortion(column)


def test_what_is_not_determined_says_why_and_keeps_its_interval():
    """Five people at ε = .01: correlations are anywhere, and the page says so."""
    data = {"x": [1, 5, 2, 8, 3], "y": [2, 2, 7, 1, 9], "sex": ["F"] * 5}
    curator = dc.open(pa.table(data), policy=POLICY, ledger=":memory:")
    text = "SELECT CORR(y, x) AS r, REGR_SLOPE(y, x) AS b, COVAR_SAMP(y, x) AS c FROM t"
    seen = set()
    for _ in range(12):
        answer = curator.sql(text, epsilon="0.01", fresh=True)
        shown = repr(answer)
        (row,), (ends,) = answer.to_dicts(), answer.interval()
        assert ends["r"] == (-1, 1)
        assert abs(row["c"]) <= 81 / 2
        if row["r"] is None:
            seen.add("r")
            assert "NULL [-1, 1]" in shown
        assert "More ε, or more rows, will tell" in shown
        assert "More ε, or more rows, will tell" in answer._repr_html_()
    assert seen
