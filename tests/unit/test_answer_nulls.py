"""A value that is not there is None in every way out, never NaN."""

from __future__ import annotations

import csv
import datetime as dt
import io
import math

import pyarrow as pa
import pytest

import discreet as dc
from discreet.answer import _show
from discreet.policy import Budget, Category, Date, Policy, Table
from discreet.service import _forms

POLICY = Policy(
    tables=[Table("t", [Category("g", [0, 1, 2]), Date("d", "2020-01-01", "2020-12-31")])],
    budget=Budget("1000"),
    name="nulls",
)
TEXT = """SELECT g, LAG(COUNT(*)) OVER (ORDER BY g) AS before, MIN(d) AS first FROM t GROUP BY g"""


@pytest.fixture
def answer():
    rows = {"g": [0, 1, 2] * 100, "d": [dt.date(2020, 2, 1)] * 300}
    curator = dc.open({"t": pa.table(rows)}, policy=POLICY, ledger=":memory:")
    return curator.sql(TEXT, epsilon=100)


def absent(rows):
    """What stands in the first row, which has none before it."""
    return [rows[0][name] for name in rows[0] if name.startswith("before")]


def test_rows_columns_and_frames_have_none(answer):
    assert absent(answer.to_dicts()) == [None]
    columns = answer.to_columns()
    assert [columns[n][0] for n in ("before", "before_low", "before_high")] == [None] * 3
    assert absent(answer.to_arrow().to_pylist()) == [None] * 3
    assert absent(answer.to_polars().to_dicts()) == [None] * 3


def test_nan_that_stays_is_noticed(answer, monkeypatch):
    monkeypatch.setattr(_show, "scalar", lambda value: value)
    assert math.isnan(absent(answer.to_dicts())[0])


def test_forms_of_the_service_have_nothing_and_moments(answer):
    (first, *_) = csv.DictReader(io.StringIO(_forms.to_csv(answer, "0.95").decode()))
    assert [first[n] for n in ("before", "before from", "before to")] == ["", "", ""]
    table = pa.ipc.open_stream(_forms.to_arrow(answer, "0.95")).read_all()
    assert table.column("before from").to_pylist()[0] is None
    assert all(table.column("first from").to_pylist())  # moments, not numbers


def test_texts_say_null(answer):
    assert "NULL" in str(answer)
    assert "NULL" in answer._repr_html_()
    assert b"NULL" in _forms.to_html(answer, "0.95")


def test_a_chosen_number_is_printed_and_not_null():
    """A mode has no interval; numbers and flags were printed as NULL, and texts were not."""
    columns = {"k": {"type": "category", "values": [7, 8]}, "b": {"type": "boolean"}}
    policy = {"policy": {"name": "modes"}, "budget": {"epsilon": "100"},
              "tables": {"t": {"columns": columns}}}  # fmt: skip
    table = pa.table({"k": [7] * 400 + [8], "b": [True] * 400 + [False]})
    curator = dc.open(table, policy=policy, ledger=":memory:")
    answer = curator.sql("SELECT MODE(k) AS k, MODE(b) AS b FROM t", epsilon=50)
    assert answer.to_dicts() == [{"k": 7, "b": True}]
    assert str(answer).splitlines()[2].split() == ["7", "True"]
    assert "NULL" not in answer._repr_html_()
