"""Tables of an answer as files: every column is there, under a name of its own."""

from __future__ import annotations

import csv
import io

import pyarrow as pa
import pytest

import discreet as dc
from discreet.policy import Budget, Integer, Policy, Table
from discreet.service import _forms

POLICY = Policy(tables=[Table("t", [Integer("a", 0, 9)])], budget=Budget("1000"), name="forms")
TEXT = (
    'SELECT COUNT(*) AS n, SUM(a) AS "n from", COUNT(*) AS "n to", SUM(a) AS "n from from" FROM t'
)


@pytest.fixture
def answer():
    curator = dc.open({"t": pa.table({"a": [7] * 100})}, policy=POLICY, ledger=":memory:")
    return curator.sql(TEXT, epsilon=400)


def test_ends_of_intervals_take_no_columns_name(answer):
    (row,) = answer.to_dicts()
    head, values = csv.reader(io.StringIO(_forms.to_csv(answer, "0.95").decode()))
    arrow = pa.ipc.open_stream(_forms.to_arrow(answer, "0.95")).read_all()
    assert len(set(head)) == len(head) == 12
    assert set(arrow.column_names) == set(head)
    assert head[4:6] == ["n from_", "n to_"]
    in_csv, (in_arrow,) = dict(zip(head, values, strict=True)), arrow.to_pylist()
    for name, value in row.items():
        assert (float(in_csv[name]), in_arrow[name]) == (value, value)
    for place, (name, ends) in enumerate(answer.interval("0.95")[0].items()):
        low, high = head[4 + 2 * place : 6 + 2 * place]
        assert low.startswith(f"{name} from")
        assert (float(in_csv[low]), float(in_csv[high])) == ends
        assert (in_arrow[low], in_arrow[high]) == ends
