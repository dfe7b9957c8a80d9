"""Unlisted values of a private and of a public column are never taken for equal."""

from __future__ import annotations

import pyarrow as pa
import pytest

import discreet as dc
from discreet.errors import UnsupportedQueryError
from discreet.plan import _scope
from discreet.policy import Budget, Category, Policy, Table

VISITS = pa.table({"id": range(100), "ward": ["A", "B", "C", "D", "E"] * 20})
WARDS = pa.table({"ward": ["A", "B", "D"], "side": ["East", "West", "West"]})
JOIN = "SELECT w.side, COUNT(*) AS n FROM visits v JOIN wards w ON v.ward = w.ward GROUP BY w.side"
IN = "SELECT COUNT(*) AS n FROM visits WHERE ward IN (SELECT ward FROM wards WHERE side = 'West')"


def opened(values, other=None, name="lists"):
    private = Category("ward", ["A", "B"], other="elsewhere")
    public = [Category("ward", values, other=other), Category("side", ["East", "West"])]
    tables = [
        Table("visits", [private], unit="id", max_rows_per_unit=1),
        Table("wards", public, public=True),
    ]
    policy = Policy(tables=tables, budget=Budget("1e9"), name=name)
    return dc.open({"visits": VISITS, "wards": WARDS}, policy=policy, ledger=":memory:")


@pytest.mark.parametrize("text", [JOIN, IN, JOIN.replace("JOIN", "LEFT JOIN")])
def test_a_public_list_without_other_joins_what_both_list(text):
    answer = opened(["A", "B"]).sql(text, epsilon=10_000)
    assert [row["n"] for row in answer.to_dicts()][-1] == 20
    assert "unlisted ward counted as elsewhere" in answer.target


@pytest.mark.parametrize("text", [JOIN, IN])
def test_two_columns_with_other_are_refused(text):
    with pytest.raises(UnsupportedQueryError, match="would be taken for equal"):
        opened(["A", "B"], other="elsewhere", name="two others").preview(text, epsilon=1)


def test_a_public_value_may_be_what_the_others_are_called():
    answer = opened(["A", "B", "elsewhere"], name="said").sql(JOIN, epsilon=10_000)
    assert [row["n"] for row in answer.to_dicts()] == [20, 20]  # no public row says elsewhere


def test_lists_in_another_order_are_refused():
    with pytest.raises(UnsupportedQueryError, match="declared differently"):
        opened(["B", "A"], name="another order").preview(JOIN, epsilon=1)


def test_without_the_rule_unlisted_values_meet(monkeypatch):
    def joinable(left, right, public):
        return _scope._comparable(left, _scope.Column(right, public.schema[right]))

    monkeypatch.setattr(_scope, "_joinable", joinable)
    answer = opened(["A", "B"], other="elsewhere", name="planted").sql(JOIN, epsilon=10_000)
    assert [row["n"] for row in answer.to_dicts()] == [20, 80]
