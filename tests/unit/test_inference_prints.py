"""What statistics print, draw and suggest, as somebody who is new to them reads it."""

import re

import pyarrow as pa
import pytest

import discreet as dc


@pytest.fixture(scope="module")
def curator():
    columns = {
        "w": {"type": "integer", "min": 0, "max": 500},
        "pay": {"type": "integer", "min": 0, "max": 1000},
        "sex": {"type": "category", "values": ["F", "M"]},
        "town": {"type": "category", "values": list("abcdef")},
    }
    policy = {
        "policy": {"name": "prints"},
        "budget": {"epsilon": "1e6"},
        "tables": {"people": {"weight": "w", "columns": columns}},
    }
    n = 3000
    rows = {
        "w": [100 + i % 300 for i in range(n)],
        "pay": [i * 7 % 1001 for i in range(n)],
        "sex": ["FM"[i % 2] for i in range(n)],
        "town": ["abcdef"[i // 2 % 6] for i in range(n)],
    }
    return dc.open(pa.table(rows), policy=policy, ledger=":memory:")


@pytest.mark.parametrize("by", [(), "sex"])
def test_ends_of_a_survey_are_told_apart(curator, by):
    """Spaces part thousands, so that a space between two ends says nothing."""
    lines = repr(curator.survey("pay", by=by, epsilon=5)).splitlines()
    shown = [line for line in lines if line.endswith("]")]
    assert len(shown) == 3 * (2 if by else 1)
    number = r"-?\d{1,3}(\u2009\d{3})*(\.\d+)?"
    assert all(re.search(rf"  \[{number}, {number}\]$", line) for line in shown), shown
