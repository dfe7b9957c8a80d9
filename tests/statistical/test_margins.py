"""Fitted margins cover what is counted, also where limits keep some rows of a person.

What limits keep is the salt's matter, so the salt is fixed and the truth is read off at an ε
that leaves no noise. Each of three counts has as many intervals at 90 % as there are runs, 25 to
60 ms each; more misses than ``most`` have probability below 1e-9 for each of them, where noise is
drawn afresh. That fits of many noises cover is in the calibration of ``inf.combine`` too.
"""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from scipy import stats

import discreet as dc
from discreet.plan import Salt

RUNS = 40


def most(runs):
    return int(stats.binom.isf(1e-9, runs, 0.1))


ASKED = (
    "SELECT COUNT(*) AS n FROM t",
    "SELECT a, COUNT(*) AS n FROM t GROUP BY a",
    "SELECT a, b, COUNT(*) AS n FROM t GROUP BY a, b",
)
UNITS = {
    "row": {},
    "rows of a person": {"unit": "who", "max_rows_per_unit": 3},
    "groups of a person": {"unit": "who", "max_groups_per_unit": 2, "max_rows_per_group": 2},
}


def _curator(neighbours, unit):
    toss = random.Random("table of margins")
    rows = pa.table(
        {
            "who": [toss.randrange(100) for _ in range(900)],
            "a": [toss.choice("xyz") for _ in range(900)],
            "b": [toss.choice("uvw") for _ in range(900)],
        }
    )
    columns = {
        "a": {"type": "category", "values": [*"xyz"], "null": "x"},
        "b": {"type": "category", "values": [*"uvw"], "null": "u"},
    }
    table = {"columns": columns, "neighbours": neighbours, **UNITS[unit]}
    policy = {"policy": {"name": "margins"}, "budget": {"epsilon": "1e6"}, "tables": {"t": table}}
    return dc.open(rows, policy=policy, ledger=":memory:")


def _batch(curator, epsilon, *, consistent=True):
    with curator.batch(epsilon=epsilon, consistent=consistent) as batch:
        for text in ASKED:
            batch.sql(text)
    return batch


def _truth(batch):
    return [q.pending.answer.to_dicts()[0]["n"] for q in batch._questions]


def _missed(neighbours, unit, monkeypatch, *, runs=RUNS, consistent=True):
    """Misses of the total, of a margin and of a cell; and how wide their intervals are."""
    monkeypatch.setattr("discreet.curator._release.fresh_salt", lambda: Salt(b"one"))
    curator = _curator(neighbours, unit)
    truth = _truth(_batch(curator, 3000, consistent=consistent))
    missed, wide = [0, 0, 0], [0.0, 0.0, 0.0]
    for run in range(runs):
        # another price is another question, whose noise is drawn afresh
        fitted = _batch(curator, f"4.{run:04}", consistent=consistent).consistent()
        for which in range(3):
            low, high = fitted.interval(which, 0.9)[0]["n"]
            missed[which] += not low <= truth[which] <= high
            wide[which] += (high - low) / runs
    return missed, wide


@pytest.mark.parametrize(
    ("unit", "neighbours"),
    [
        ("row", "add-remove"),
        ("row", "change-one"),
        ("rows of a person", "add-remove"),
        ("groups of a person", "change-one"),
    ],
)
@pytest.mark.parametrize("runs", [RUNS, pytest.param(2000, marks=pytest.mark.long)])
def test_fitted_margins_cover_the_rows_that_limits_keep(unit, neighbours, runs, monkeypatch):
    missed, wide = _missed(neighbours, unit, monkeypatch, runs=runs)
    assert max(missed) <= most(runs)
    assert wide[0] < 15


def test_margins_of_other_rows_would_be_found(monkeypatch):
    """The mutant: limits that keep other rows in each question, fitted all the same."""
    monkeypatch.setattr("discreet.inference._consistent.keeps_same_rows", lambda _: True)
    missed, _ = _missed("add-remove", "groups of a person", monkeypatch, consistent=False)
    assert max(missed) > most(RUNS)
