"""Fitted margins cover what is counted, also where limits keep some rows of a person.

What limits keep is the salt's matter, so the salt is fixed and the truth is read off at an ε
that leaves no noise. Runs draw the noise of a batch's counts again, from a fast generator. Each of
three counts has as many intervals at 90 % as there are runs; more misses than ``most`` have
probability below 1e-9 for each of them.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import discreet as dc
from discreet import inference as inf
from discreet.answer import Answer
from discreet.inference import _combine
from discreet.plan import Salt

RUNS = 1000


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


def _batch(curator, epsilon, *, consistent):
    """The questions of a batch, and their answers."""
    with curator.batch(epsilon=epsilon, consistent=consistent) as batch:
        for text in ASKED:
            batch.sql(text)
    return [(q.lowered.query, q.pending.answer) for q in batch._questions]


def _noised(answer, exact, rng):
    """The answer with noise of its own law around the values of another one."""
    record = answer.full_record
    parts = []
    for part, true in zip(record.parts, exact.full_record.parts, strict=True):
        # the number of all rows is public under change-one, and has no noise
        noise = inf.Noise(part.law).simulate(rng, len(true.values)) if part.law else [0]
        values = tuple(int(v + e) for v, e in zip(true.values, noise, strict=True))
        parts.append(replace(part, values=values))
    return Answer(replace(record, parts=tuple(parts)))


def _once(errors):
    """The simulated errors of a fit: of one seed, so the same in every run of one design."""
    seen = {}

    def found(terms, *how):
        if terms not in seen:
            seen[terms] = errors(terms, *how)
        return seen[terms]

    return found


def _missed(neighbours, unit, monkeypatch, *, runs=RUNS, consistent=True):
    """Misses of the total, of a margin and of a cell; and how wide their intervals are."""
    monkeypatch.setattr("discreet.curator._release.fresh_salt", lambda: Salt(b"one"))
    monkeypatch.setattr(_combine, "_errors", _once(_combine._errors))
    name = f"margins of {neighbours}, {unit}"
    rng = np.random.default_rng(None if os.environ.get("DISCREET_FRESH") else crc32(name.encode()))
    curator = _curator(neighbours, unit)
    exact = _batch(curator, 3000, consistent=consistent)
    told = _batch(curator, 4, consistent=consistent)
    truth = [answer.to_dicts()[0]["n"] for _, answer in exact]
    missed, wide = [0, 0, 0], [0.0, 0.0, 0.0]
    for _ in range(runs):
        pairs = [
            (query, _noised(answer, true, rng))
            for (query, answer), (_, true) in zip(told, exact, strict=True)
        ]
        fitted = inf.consistent(pairs)
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
@pytest.mark.parametrize("runs", [RUNS, pytest.param(10_000, marks=pytest.mark.long)])
def test_fitted_margins_cover_the_rows_that_limits_keep(unit, neighbours, runs, monkeypatch):
    missed, wide = _missed(neighbours, unit, monkeypatch, runs=runs)
    assert max(missed) <= most(runs)
    assert wide[0] < 15


def test_margins_of_other_rows_would_be_found(monkeypatch):
    """The mutant: limits that keep other rows in each question, fitted all the same."""
    monkeypatch.setattr("discreet.inference._consistent.keeps_same_rows", lambda _: True)
    missed, _ = _missed("add-remove", "groups of a person", monkeypatch, consistent=False)
    assert max(missed) > most(RUNS)
