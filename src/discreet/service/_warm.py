"""A first question that is about nobody.

The first run of a process does things that no later one does: the engine and the cipher that
noise comes from set themselves up, classes learn about each other. A worker does that before
it takes questions, on rows that are made here, so that no run is long for being the first.
"""

from __future__ import annotations

import importlib
from fractions import Fraction
from typing import Final

import duckdb

from discreet import engines, plan
from discreet import policy as pol
from discreet.curator import run_bill
from discreet.privacy import Neighbours

_TURNS: Final = 2
_ROWS: Final = """CREATE TABLE nobody AS
    SELECT i // 2 AS u, i % 10 AS x, ['a', 'b'][1 + i % 2] AS k FROM range(64) t(i)"""


def warm_up() -> None:
    """Run a small question about made-up rows."""
    importlib.import_module("numpy.ma")  # loaded where groups are many: a fifth of a second
    table = pol.Table(
        "nobody", [pol.Integer("x", 0, 9), pol.Category("k", ["a", "b"])],
        unit="u", max_rows_per_unit=1,
    )  # fmt: skip
    policy = pol.Policy([table], pol.Budget("1"), name="nobody")
    priced = plan.price(plan.lower(_question(table)), plan.Ask(epsilon=Fraction(1)))
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET threads = 1")
        connection.execute(_ROWS)
        engine = engines.connect(connection, policy)
        try:
            for _ in range(_TURNS):
                run_bill([priced], engine, policy)
        finally:
            engine.close()


def _question(table: pol.Table) -> plan.Query:
    """Count and add up, by a key, what a filter lets through."""
    x, k = (plan.expr.Column(name, plan.of_column(c)) for name, c in table.columns.items())
    three = plan.expr.Constant(3, plan.of_column(pol.Integer("x", 3, 3)))
    return plan.Query(
        plan.Filter(plan.Scan(table), plan.expr.Compare(">", x, three)),
        (plan.Key("k", k, (0, 1)),),
        (plan.Count(None), plan.CALLS["SUM"][0].of(plan.expr.Guard(x, 4, 9))),
        (plan.OutputColumn("n", plan.StatisticValue(0)),
         plan.OutputColumn("s", plan.StatisticValue(1))),
        plan.Limits(rows=1),
        Neighbours.ADD_REMOVE,
    )  # fmt: skip
