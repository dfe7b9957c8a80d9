"""Plain questions that the verifier has to prove under every limit of a unit."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

import discreet as dc
from discreet.errors import UnprovenStatementError
from discreet.plan._rising import Curve

POLICY = """
[policy]
name = "proved limits"
[budget]
epsilon = "10"
[tables.t]
unit = "id"
max_groups_per_unit = 2
max_rows_per_group = 2
[tables.t.columns]
a = {type = "integer", min = -9, max = 9}
b = {type = "integer", min = 0, max = 20}
r = {type = "real", min = -2, max = 3, step = "0.25"}
d = {type = "date", min = 2023-11-15, max = 2024-03-10}
c = {type = "category", values = ["x", "y", "z"]}
"""
DATA = pa.table({"id": [1], "a": [1], "b": [1], "r": [1.0], "d": [dt.date(2024, 1, 1)], "c": ["x"]})
CURVE = "SELECT c, SUM(FLOOR(SQRT(b))) AS o FROM t WHERE b > 3 GROUP BY c"
ASKED = [
    CURVE,
    "SELECT c, SUM(SQRT(b)) AS o FROM t WHERE b > 3 GROUP BY c",
    "SELECT c, AVG(ABS(r)) AS o FROM t WHERE r < 2 GROUP BY c",
    "SELECT c, AVG(a % 3) AS o, VAR_SAMP(a % 3) AS v FROM t WHERE r <> a GROUP BY c",
    "SELECT c, VAR_SAMP(MONTH(d)) AS o FROM t WHERE d <= DATE '2023-12-17' GROUP BY c",
    "SELECT SUM(b) FILTER (WHERE b > 100) AS o FROM t",
    "SELECT c, SUM(r) FILTER (WHERE d < DATE '2023-11-14') AS o FROM t GROUP BY c",
    "SELECT SUM(a) FILTER (WHERE d < DATE '2024-01-01') AS o FROM t WHERE d >= DATE '2024-01-01'",
]


def curator():
    return dc.open({"t": DATA}, policy=POLICY, ledger=":memory:")


@pytest.mark.parametrize("text", ASKED)
def test_plain_questions_are_proved_under_both_limits(text):
    assert curator().preview(text, epsilon=1)


def test_a_value_that_may_be_null_is_still_not_proved(monkeypatch):
    """What a NULL would do to a packed row is the verifier's own finding, not the plan's."""
    own = Curve.sql

    def sql(self, w):
        return f"CASE WHEN {w.bind(self.arg)} > 7 THEN {own(self, w)} END"

    monkeypatch.setattr(Curve, "sql", sql)
    with pytest.raises(UnprovenStatementError):
        curator().preview(CURVE, epsilon=1)
