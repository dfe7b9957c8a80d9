"""When a run failed is nobody's business: what a failure changes, it changes at public moments.

Real workers, stopped before they are asked and killed while they are asked.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import time

import pytest

from discreet.service import Home, _serve
from discreet.service._brake import Brake, Lapse
from discreet.service._run import Run
from discreet.service._serve import Options, opened

pytestmark = pytest.mark.races

POLICY = """
[policy]
name = "moments"
[budget]
epsilon = "100"
[service]
rows = 1000
[tables.people]
source = "people.csv"
[tables.people.columns]
age = { type = "integer", min = 0, max = 115 }
"""


UNHURRIED = 20.0
"""How slow the machine is taken to be by small questions: their ticks are seconds, so that a worker
which is kept waiting for a processor misses none."""


def _question(k):
    return {"sql": f"SELECT COUNT(*) AS n FROM people WHERE age > {k}", "epsilon": "0.1"}


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(_serve, "machine", lambda: (1.0, 1.0))
    (tmp_path / "people.csv").write_text("age\n" + "40\n" * 20)
    (tmp_path / "moments.toml").write_text(POLICY)
    options = Options(workers=2, ledger=str(tmp_path / "moments.ledger"))
    with opened([tmp_path / "moments.toml"], Home(tmp_path / "home"), options) as house:
        yield house.desks["moments"]


def _signal(place, number):
    os.kill(place._worker._process.pid, number)


async def _until(true):
    async with asyncio.timeout(120):
        while not true():  # noqa: ASYNC110 - nobody says when
            await asyncio.sleep(0.005)


async def _asked(desk, slowness, k):
    """Ask a question whose bound is so many times as long, of a worker that does nothing."""
    for place in desk.places:
        _signal(place, signal.SIGSTOP)
    desk._slowness = slowness
    order = await desk.ask("ana", None, _question(k))
    await _until(lambda: any(place._running is order.run for place in desk.places))
    return order, next(place for place in desk.places if place._running is order.run)


def test_a_failure_stops_nobody_else_before_its_bound_is_over(desk):
    """One more than the brake lets through fails at once; others' small questions go on leaving."""

    async def main():
        await desk.start()
        for _ in range(3):
            desk.brake.count(Lapse(0.0, 256.0))
            desk.brake.tell(256.0)
        large, place = await _asked(desk, 1000.0, 1)
        assert large.bound > 15
        _signal(place, signal.SIGKILL)
        for other in desk.places:
            if other is not place:
                _signal(other, signal.SIGCONT)
        await _until(lambda: large.run.lapses)
        desk._slowness = UNHURRIED
        small = await desk.ask("ben", None, _question(2))
        await asyncio.wait_for(small.ended.wait(), 60)
        assert small.state == "done"
        # and from then on it does
        assert not desk.brake.holds(small.tick, large.run.since - 0.01)
        assert desk.brake.holds(small.tick, large.run.since)
        assert large.run.since == large.run.marks[0]
        await desk.close()

    asyncio.run(main())


@pytest.mark.parametrize("part", [0.1, 0.7])
def test_a_run_whose_worker_died_starts_again_at_its_tick(desk, part):
    """And its worker is replaced when its bound is over, though its place was free before."""

    async def main():
        desk.turns.stretch = 0.5  # more workers than processors
        await desk.start()
        order, place = await _asked(desk, 40.0, 1)
        run, another, replaced = order.run, place._another, []

        def noted():
            replaced.append(time.monotonic())
            return another()

        place._another = noted
        release, start = run.release, run.release - run.tick
        await asyncio.sleep(start + part * run.bound - time.monotonic())
        _signal(place, signal.SIGKILL)
        for other in desk.places:
            if other is not place:
                _signal(other, signal.SIGCONT)
        await _until(lambda: replaced)
        desk._slowness = UNHURRIED
        await asyncio.wait_for(order.ended.wait(), 120)
        assert (order.state, run.lapses, run.secrets) == ("done", 1, 0)
        assert run.release - run.tick >= release
        assert replaced[0] >= start + run.bound
        assert desk.overruns == 1
        await desk.close()

    asyncio.run(main())


def test_a_failure_shows_at_one_of_three_moments():
    def shown(failed):
        seen = []
        run = Run("ana", b"", 1.0, 8.0, None, on_lapse=lambda: seen.append(run.since))
        now = time.monotonic()
        start = now - failed
        run.release, run.marks = start + 8.0, (start + 1.0, start + 2.0)
        run.overrun()
        run.overrun()
        if run.since == math.inf:  # known when it leaves
            run.leave()
            assert run.since <= time.monotonic()
        return [round(x - start, 6) for x in seen]

    assert [shown(x) for x in (0.0, 0.5, 0.99)] == [[1.0]] * 3
    assert [shown(x) for x in (1.1, 1.9)] == [[2.0]] * 2
    assert [shown(x) for x in (2.1, 7.0, 9.0)] == [[math.inf]] * 3


def test_what_an_owner_was_told_of_is_forgotten_and_nothing_else():
    brake = Brake([4.0, 4.0])
    for since in (50.0, 10.0):
        brake.count(Lapse(since, 1.0))
    brake.tell(1.0)
    assert (brake.on, brake.bars(1.0), brake.bars(0.5)) == (True, True, False)
    assert (brake.holds(1.0, 9.0), brake.holds(1.0, 10.0), brake.holds(0.5, 50.0)) == (0, 1, 1)
    brake.ease()
    assert (brake.notices, brake.ticks, brake.on) == ([], [1.0], False)
    assert [(late.since, late.tick) for late in brake._lapses] == [(50.0, 1.0)]


def test_two_workers_that_stand_still_are_one_slip_and_everybody_is_answered(desk):
    """Real ones: the second has as much room again, by its row and whole ticks."""

    async def main():
        await desk.start()
        large, _ = await _asked(desk, 80.0, 1)
        other = await desk.ask("ben", None, _question(2))
        await _until(lambda: all(place._running is not None for place in desk.places))
        desk._slowness = UNHURRIED
        small = [await desk.ask("ana", None, _question(k)) for k in range(3, 7)]
        await _until(lambda: desk.overruns)
        for place in desk.places:
            _signal(place, signal.SIGCONT)
        for order in (large, other, *small):
            await asyncio.wait_for(order.ended.wait(), 120)
            assert order.state == "done"
        assert (desk.overruns, desk.turns.stretch) == (1, 2)
        await desk.close()

    asyncio.run(main())
