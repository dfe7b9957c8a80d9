"""Cells of splines: shares of one total on every row, moved together by one unit."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from discreet import plan as pl
from discreet import policy as pol
from discreet import sql
from discreet.answer import Answer
from discreet.curator import fresh_salt
from discreet.engines import Reference
from discreet.errors import ParameterError
from discreet.plan._splines import Knots, cells_of_splines, spline_whole

COLUMNS = [
    pol.Integer("id", 0, 100),
    pol.Integer("x", -20, 100),
    pol.Real("y", 0, 50, step="0.5"),
    pol.Real("z", -1, 1, step="0.0001"),
    pol.Category("g", ["a", "b"]),
]


def splined(names, neighbours="add-remove", unit=None, **limits):
    own = pol.Table("t", COLUMNS, unit=unit, neighbours=neighbours, **limits)
    shown = ", ".join(f"AVG({n}) AS {n}" for n in names)
    policy = pol.Policy(tables=[own], budget=pol.Budget("1"))
    query = sql.parse(f"SELECT g, {shown} FROM t GROUP BY g", policy).query
    first, *rest = [s.expr for s in query.statistics]
    outputs = (query.outputs[0], pl.OutputColumn("n", pl.StatisticValue(0)))
    return replace(query, statistics=(pl.SplinesOf(first, tuple(rest)),), outputs=outputs)


@pytest.mark.parametrize("names", ["x", "z", "xy", "xyz"])
def test_cells_of_every_row_are_shares_of_one_total(names):
    """Whole numbers, never negative, in the bounds of their types; they add up exactly."""
    exprs = splined(names).statistics[0].exprs
    columns = [Knots.of(e, len(exprs)) for e in exprs]
    cells, whole = cells_of_splines(columns), spline_whole(columns)
    assert whole < 2**61
    rng = np.random.default_rng(0)
    ends = {e.columns[0].name: e.type for e in exprs}
    rows = [{n: int(rng.integers(t.lo, t.hi + 1)) for n, t in ends.items()} for _ in range(12)]
    rows += [{n: t.lo for n, t in ends.items()}, {n: t.hi for n, t in ends.items()}]
    for row in rows:
        values = [c.expr.evaluate(row) for c in cells]
        assert sum(values) == whole
        assert all(
            c.expr.type.lo == 0 <= v <= c.expr.type.hi for c, v in zip(cells, values, strict=True)
        )


@pytest.mark.parametrize("neighbours", ["add-remove", "change-one"])
@pytest.mark.parametrize("names", ["x", "xy"])
def test_no_neighbour_moves_the_cells_further_than_declared(neighbours, names):
    plan = pl.lower(splined(names, neighbours, unit="id", max_rows_per_unit=3))
    (part,) = plan.parts
    rng, pairs = np.random.default_rng(1), []

    def person(i, trial):
        for j in range(3):
            x, y = int(rng.integers(-20, 101)), float(rng.integers(0, 101)) / 2
            if trial % 2:
                x, y = [(-20, 0.0), (100, 50.0), (40, 25.0)][(i + trial) % 3]
            yield {"id": i, "x": x, "y": y, "z": 0.0, "g": "ab"[j % 2 if trial % 3 else 0]}

    for trial in range(12):
        base = [*person(1, trial), *person(2, trial)]
        other = [*base, *person(3, trial)]
        if neighbours == "change-one":
            other = [r for r in other if r["id"] != 2]
        pairs.append(
            [
                Reference({"t": rows}).execute(plan.aggregates[0], fresh_salt())
                for rows in (base, other)
            ]
        )
        assert part.moved(*pairs[-1]) == []
    short = replace(part, sensitivity=pl.Sensitivity(part.sensitivity.l1 // 4, 10**60, 1))
    assert any(short.moved(*pair) for pair in pairs)


POLICY = {
    "policy": {"name": "odds"},
    "budget": {"epsilon": "1e9", "accounting": "pure"},
    "tables": {
        "t": {
            "columns": {
                "x": {"type": "real", "min": 0, "max": 100, "step": "0.01"},
                "w": {"type": "integer", "min": 0, "max": 40},
                "a": {"type": "integer", "min": 0, "max": 90},
                "b": {"type": "integer", "min": 0, "max": 90},
                "sex": {"type": "category", "values": ["F", "M"]},
                "y": {"type": "boolean"},
            }
        }
    },
}


@pytest.fixture(scope="module")
def curator():
    rng = np.random.default_rng(0)
    n = 20_000
    x, w = np.clip(rng.normal(50, 15, n), 0, 100).round(2), rng.integers(0, 41, n)
    sex = rng.choice(["F", "M"], n)
    odds = -2.5 + 0.05 * x - 0.02 * w + 0.7 * (sex == "M")
    data = {
        "x": x,
        "w": w,
        "a": w,
        "b": w,
        "sex": sex,
        "y": rng.random(n) < 1 / (1 + np.exp(-odds)),
    }
    return dc.open(pa.table(data), policy=POLICY, ledger=":memory:")


TRUTH = {"Intercept": -2.5, "x": 0.05, "w": -0.02, "sex[M]": 0.7}


@pytest.mark.fresh(1e-9)
def test_log_odds_of_numbers_are_asked_and_paid_on_the_one_road(curator):
    """Intervals of 1 − 1e-12 and asymptotic; four coefficients."""
    found = curator.regression("y ~ x + w + sex", family="logistic", epsilon=20)
    for name, (low, high) in found.conf_int("1e-12").items():
        assert low < TRUTH[name] < high
        assert high - low < 30 * found.bse[name]
    assert len(found.answer.parts) == 1
    assert curator.budget.spent["epsilon"] >= 20
    again = curator.regression("y ~ x + w + sex", family="logistic", epsilon=20)
    assert again.answer.cached
    assert again.params == found.params
    back = Answer.from_record(found.answer.record())
    assert back.to_dicts() == found.answer.to_dicts()
    rows = found.predict({"x": [50.0, 60.0], "w": [20, 20], "sex": ["F", "M"]})
    assert 0 < rows[0] < rows[1] < 1
    assert np.asarray(found.params).shape == (4,)
    assert list(found.params.to_pandas().index) == list(TRUTH)
    assert list(found.conf_int().to_pandas().columns) == ["low", "high"]


def test_too_many_numbers_are_refused_for_free(curator):
    spent = curator.budget.spent["epsilon"]
    with pytest.raises(ParameterError, match="at most 3 numbers"):
        curator.regression("y ~ x + w + a + b", family="logistic", epsilon=1)
    assert curator.budget.spent["epsilon"] == spent


def test_two_engines_return_the_same_integers():
    query = splined("xy", unit="id", max_rows_per_unit=100)
    (aggregate,) = pl.lower(query).aggregates
    rng = np.random.default_rng(2)
    rows = [
        {"id": int(i), "x": int(x), "y": float(y) / 2, "z": 0.0, "g": "ab"[i % 2]}
        for i, x, y in zip(
            range(50), rng.integers(-30, 120, 50), rng.integers(-5, 110, 50), strict=True
        )
    ]
    exact = Reference({"t": rows}).execute(aggregate, fresh_salt())
    policy = pol.Policy(
        tables=[pol.Table("t", COLUMNS, unit="id", max_rows_per_unit=100)],
        budget=pol.Budget("1"),
        name="two",
    )
    with duckdb.connect() as connection:
        frame = pa.Table.from_pylist(rows)
        connection.register("frame", frame)
        connection.execute("CREATE TABLE t AS SELECT * FROM frame")
        engine = dc.open(connection, policy=policy, ledger=":memory:")
        assert dict(dc.curator.execute(engine, aggregate)) == dict(exact)
