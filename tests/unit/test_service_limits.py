"""Limits of workers: they hold in the process that reads data."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import discreet as dc
from discreet.curator import Counter
from discreet.service._pool import Worker
from discreet.service._worker import _WALL, DONE, FAILED, Setup

pytestmark = pytest.mark.races

ROWS = 20_000


@pytest.fixture(scope="module")
def heavy(tmp_path_factory):
    """A table whose limits of units need a sort of all rows, and a question about it."""
    folder = tmp_path_factory.mktemp("heavy")
    table = dc.policy.Table(
        "people", [dc.policy.Integer("age", 0, 115)], source="people.parquet", unit="person",
        max_rows_per_unit=4,
    )  # fmt: skip
    policy = dc.policy.Policy([table], dc.policy.Budget("1"), name="heavy")
    person = [str(i * 7919 % ROWS).zfill(40) for i in range(ROWS)]
    rows = pa.table({"person": person, "age": pa.array([40] * ROWS, pa.int64())})
    pq.write_table(rows, folder / "people.parquet")
    with dc.open(policy=policy, dummy=True) as curator:
        bill = Counter(curator).bill("SELECT SUM(age) AS s FROM people", "ana", epsilon="0.1")
    return Setup(policy, None, 1 << 30, "1GB", 60.0, str(folder)), pickle.dumps(bill)


def _said(setup, bill):
    """What a worker says to a question under these limits, and whether it lives on."""
    worker = Worker(setup)
    try:
        worker.ready()
        return worker.ask(bill)[:1], worker.ask(bill)[:1]
    finally:
        worker.kill()


def test_a_run_within_its_limits_is_done(heavy):
    setup, bill = heavy
    assert _said(setup, bill) == (DONE, DONE)


@pytest.mark.long
def test_a_run_beyond_its_time_fails_and_its_worker_lives_on(heavy):
    """Now and then the question is done before the thread that interrupts it has begun."""
    setup, bill = heavy
    assert _said(replace(setup, timeout=1e-6), bill) == (FAILED, FAILED)


def test_the_system_holds_a_worker_to_its_memory(heavy):
    """Above the engine's own limit: what it forgets to count is refused by the system."""
    setup, _ = heavy
    worker = Worker(setup)
    try:
        worker.ready()
        limits = Path(f"/proc/{worker._process.pid}/limits")
        if not limits.exists():
            pytest.skip("no /proc on this system")
        lines = {x[:26].strip(): x[26:].split()[0] for x in limits.read_text().splitlines()}
        assert lines["Max address space"] == str(setup.memory + _WALL)
        assert lines["Max core file size"] == "0"
        assert Path(f"/proc/{worker._process.pid}/cwd").resolve() == Path(setup.folder).resolve()
    finally:
        worker.kill()
