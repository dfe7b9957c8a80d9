"""Limits of workers: they hold in the process that reads data."""

from __future__ import annotations

import asyncio
import pickle
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import discreet as dc
from discreet.curator import Counter
from discreet.service import _serve, _views
from discreet.service._home import Home
from discreet.service._pool import Worker
from discreet.service._serve import Options, opened
from discreet.service._worker import _WALL, DONE, FAILED, Setup

pytestmark = pytest.mark.races

ROWS = 200_000
SUM = "SELECT SUM(age) AS s FROM people"
PAIRS = "SELECT COUNT(*) AS n FROM people a JOIN people b USING (person)"
SMALL = "SELECT COUNT(*) AS n FROM wards"
POLICY = f"""
[policy]
name = "heavy"
[budget]
epsilon = "1"
[service]
rows = {ROWS}
[tables.people]
source = "people.parquet"
unit = "person"
max_rows_per_unit = {ROWS}
[tables.people.columns]
age = {{ type = "integer", min = 0, max = 115 }}
[tables.wards]
source = "wards.parquet"
[tables.wards.columns]
beds = {{ type = "integer", min = 0, max = 99 }}
"""


@pytest.fixture(scope="module")
def heavy(tmp_path_factory):
    """All rows are one person's: they are sorted together, whatever they are divided into."""
    folder = tmp_path_factory.mktemp("heavy")
    rows = pa.table({"person": pa.array([7] * ROWS), "age": pa.array([40, 41] * (ROWS // 2))})
    pq.write_table(rows, folder / "people.parquet")
    pq.write_table(pa.table({"beds": [3, 4]}), folder / "wards.parquet")
    (folder / "heavy.toml").write_text(POLICY)
    return folder


def _setup(heavy, **limits):
    """A worker's limits: as they are stated, or wide ones."""
    policy = dc.policy.load(heavy / "heavy.toml")
    return replace(Setup(policy, None, 1 << 30, "1GB", 60.0, str(heavy)), **limits)


def _said(setup, sql):
    """What a worker says to a question under these limits, and whether it lives on."""
    with dc.open(policy=setup.policy, dummy=True) as curator:
        bills = [pickle.dumps(Counter(curator).bill(q, "ana", epsilon="0.1")) for q in (sql, SMALL)]
    worker = Worker(setup)
    try:
        worker.ready()
        return [worker.ask(bill)[:1] for bill in bills]
    finally:
        worker.kill()


@pytest.mark.parametrize(
    ("limits", "found"),
    [
        ({}, DONE),
        ({"memory": 16 << 20}, DONE),  # what does not fit is on disk
        ({"memory": 16 << 20, "spill": "1MB"}, FAILED),
        ({"memory": 8 << 20}, FAILED),
    ],
)
def test_a_run_beyond_its_memory_or_its_disk_fails_and_its_worker_lives_on(heavy, limits, found):
    assert _said(_setup(heavy, **limits), SUM) == [found, DONE]


def test_a_run_beyond_its_time_fails_and_its_worker_lives_on(heavy):
    """There are 40 000 000 000 pairs: no machine counts them before it is interrupted."""
    assert _said(_setup(heavy, timeout=1.0), PAIRS) == [FAILED, DONE]


@pytest.mark.parametrize("limits", [{"memory": 8}, {"memory": 16, "spill": "1MB"}])
def test_what_exceeds_its_limits_is_paid_fails_by_constant_text_and_harms_nobody(
    heavy, tmp_path, monkeypatch, limits
):
    """A service whose workers have too little memory, or too little disk, for one of its tables."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(_serve, "machine", lambda: (1.0, 8.0))
    options = Options(workers=1, ledger=str(tmp_path / "heavy.ledger"), **limits)

    async def said(desk, sql, who, key):
        order = await desk.ask(who, key, {"sql": sql, "epsilon": "0.1"})
        await order.ended.wait()
        return {k: v for k, v in _views.state_of(order).items() if k not in ("id", "links")}

    async def story(desk):
        await desk.start()
        asked = ((SUM, "ana", "a"), (SUM, "ana", "a"), (SMALL, "ben", "b"))
        (place,) = desk.places
        poor = place._worker
        found = [await said(desk, *question) for question in asked]
        assert place._worker is not poor  # whatever state it was in
        assert poor._process.poll() is not None
        await desk.close()
        return found

    with opened([heavy / "heavy.toml"], Home(tmp_path / "home"), options) as house:
        desk = house.desks["heavy"]
        large, again, small = asyncio.run(story(desk))
        kinds = [line.kind for line in desk.ledger.lines]
        left = desk.ledger.balance().remaining
    paid = {"paid": {"epsilon": Fraction(1, 10)}, "cached": False}
    ticks = [large["tick"], small.pop("tick")]
    assert large == again == {"state": "failed", **paid, "tick": ticks[0]}
    assert small == {"state": "done", **paid}
    assert ticks[0] >= ticks[1] >= 2.0  # by plans and declared sizes, on a machine as busy as this
    assert (kinds, left) == (["open", *["debit", "settle"] * 2], Fraction(8, 10))


def test_the_system_holds_a_worker_to_its_memory(heavy):
    """Above the engine's own limit: what it forgets to count is refused by the system."""
    setup = _setup(heavy)
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
