"""Intervals of curves cover the exact curve, not only its values on the grid.

At ε = 1000 the noise is far below half a step, so an interval of noise alone misses. Intervals
are at 1 − 1e-9: with some forty of them false alarms have probability 4e-8, and noise is a
function of the test's name.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from discreet import plan, sql
from discreet.answer import Answer

N = 4000
X = np.full(N, 7)
Y = np.random.default_rng(3).lognormal(10.3, 0.6, N).round(2).clip(0, 200_000)
COLUMNS = {
    "x": {"type": "integer", "min": 0, "max": 1000},
    "y": {"type": "real", "min": 0, "max": 200_000, "step": "0.01"},
}
CURVES = {
    "SQRT({})": np.sqrt,
    "LN({} + 1)": np.log1p,
    "2 * SQRT({}) - 3": lambda v: 2 * np.sqrt(v) - 3,
}


def curator(**table):
    policy = {
        "policy": {"name": "curves"},
        "budget": {"epsilon": "1e6", "accounting": "pure"},
        "tables": {"t": {"columns": COLUMNS, **table}},
    }
    return dc.open(pa.table({"x": X, "y": Y}), policy=policy, ledger=":memory:")


def missed(answer, truth):
    (row,) = answer.interval("0.999999999")
    return [k for k, v in truth.items() if not row[k][0] <= v <= row[k][1]]


@pytest.mark.parametrize("neighbours", ["add-remove", "change-one"])
@pytest.mark.parametrize("curve", CURVES)
def test_the_exact_curve_is_covered(curve, neighbours):
    own = curator(neighbours=neighbours)
    for column, values in (("x", X), ("y", Y)):
        f, exact = curve.format(column), CURVES[curve](values)
        both = own.sql(f"SELECT AVG({f}) AS a, SUM({f}) AS s FROM t", epsilon=1000)
        assert not missed(both, {"a": exact.mean(), "s": exact.sum()})
        alone = own.sql(f"SELECT SUM({f}) AS s FROM t", epsilon=1000)
        assert not missed(alone, {"s": exact.sum()})
        share = own.sql(f"SELECT SUM({f}) / COUNT(*) AS a FROM t", epsilon=1000)
        assert not missed(share, {"a": exact.mean()})
        spread = own.sql(f"SELECT VAR({f}) AS v, STDDEV_POP({f}) AS d FROM t", epsilon=1000)
        assert not missed(spread, {"v": exact.var(ddof=1), "d": exact.std()})


def test_an_interval_of_noise_alone_misses():
    """The same answer without what it says of rounding, as it was."""
    answer = curator().sql("SELECT AVG(SQRT(x)) AS a, SUM(SQRT(x)) AS s FROM t", epsilon=1000)
    truth = {"a": math.sqrt(7), "s": N * math.sqrt(7)}
    assert not missed(answer, truth)
    told = "sqrt(x) in steps of 0.1; ± covers noise and steps only"
    assert all(told in text for text in (str(answer), answer._repr_html_()))
    assert "± covers noise and steps only" in answer.covers
    record = answer.full_record
    said = {k: v for k, v in record.statement.items() if k != "rounded"}
    assert missed(Answer(replace(record, statement=said)), truth) == ["a", "s"]


def test_previews_say_what_steps_add():
    text = "SELECT AVG(SQRT(x)) AS a, SUM(SQRT(x)) AS s, VAR(SQRT(x)) AS v, COUNT(*) AS n FROM t"
    told = curator().preview(text, epsilon=1).error()
    assert told["a"].endswith("; steps add up to 0.05")
    assert told["s"].endswith("; steps add up to 0.05 for each value")
    assert told["v"].endswith("; steps add up to 0.07071 to its root")
    assert "steps" not in told["n"]


def test_a_sum_is_as_exact_as_it_was():
    """A curve that starts at zero: the number of its values costs the sum nothing."""
    policy = dc.policy.load({"policy": {"name": "p"}, "budget": {"epsilon": "9"},
                             "tables": {"t": {"columns": COLUMNS}}})  # fmt: skip

    def half(text):
        lowered = plan.lower(sql.parse(f"SELECT {text} AS s FROM t", policy).query)
        priced = plan.price(lowered, plan.Ask(Fraction(1)))
        return lowered.formulas[0].half([p.noise for p in priced.outlets], 0.95)

    assert half("SUM(SQRT(x))") == pytest.approx(31.6 / 1000 * half("SUM(x)"), rel=0.01)


def test_populations_of_curves():
    own = curator()
    answer = own.sql("SELECT AVG(SQRT(y)) AS a, SUM(SQRT(y)) AS s, COUNT(*) AS n FROM t", epsilon=9)
    (row,) = answer.interval(target="population", size=10_000)
    (noise,) = answer.interval()
    assert row["a"][0] < noise["a"][0] < noise["a"][1] < row["a"][1]
    assert row["s"][0] < 10_000 * np.sqrt(Y).mean() < row["s"][1]
