"""What places do follows the timetable: not memory, and not how far their workers have got.

Workers here do what a test lets them do, and when.
"""

from __future__ import annotations

import asyncio
import threading
from math import ceil, comb, log2
from pathlib import Path

import pytest
from tests import clockwork

from discreet.service._pool import Place, Run, Turns, Worker
from discreet.service._seats import Seats
from discreet.service._worker import DONE, Setup


class Named:
    identity = "fake"


SETUP = Setup(Named(), None, 0, "", 0, "")


async def _until(true):
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110 - what other tasks and threads do
            await asyncio.sleep(0.005)


class Process:
    """Is gone only when somebody has waited for it; notes who did."""

    returncode = -9

    def __init__(self):
        self.ended, self.waited = threading.Event(), []

    def kill(self):
        self.ended.set()

    def wait(self):
        self.waited.append(threading.current_thread())
        return self.returncode


class Stuck(Worker):
    """Does nothing until it is ended."""

    def __init__(self):
        self._process = Process()

    def ask(self, bill, allowance=0.0):
        assert self._process.ended.wait(60)
        raise EOFError


@pytest.mark.races
def test_the_loop_does_not_wait_for_a_worker_that_is_ended_at_a_tick():
    """It takes as long as its memory takes to be freed, 0.4 s for 400 MiB: a thread waits."""

    async def main():
        turns, settled, replaced = Turns(), [], threading.Event()
        worker = Stuck()

        async def settle(text):
            settled.append(text)

        def another():
            replaced.set()
            return Stuck()

        place = Place(worker, SETUP, turns)
        place._another = another
        turns.put(Run("ana", b"", 0.05, 0.3, settle))
        place.start()
        await _until(lambda: settled and replaced.is_set())
        waited = list(worker._process.waited)
        await place.close()
        return settled, waited

    settled, waited = asyncio.run(main())
    assert settled == [None]
    assert waited
    assert threading.main_thread() not in waited


class Gated(Worker):
    """Does one thing after the other, each when it is let."""

    overran = False

    def __init__(self, asked):
        self._asked, self.gate = asked, asyncio.Semaphore(0)

    async def ask(self, bill, allowance=0.0):
        self._asked.append(bill)
        await self.gate.acquire()
        return DONE + bill

    def end(self):
        pass

    kill = end


def _braked(work, workers):
    """Do something with places, what was asked of workers, and a brake."""

    async def main():
        turns, asked, brake, left = Turns(), [], threading.Event(), []
        turns.seats = Seats(workers)
        places = [Place(Gated(asked), SETUP, turns) for _ in range(workers)]

        def run(name):
            async def settle(text):
                left.append(text)

            made = Run("ana", name.encode(), 0.02, 60.0, settle, brake.is_set)
            turns.put(made)
            return made

        for place in places:
            place.start()
        try:
            await asyncio.wait_for(work(turns, places, run, asked, brake), 60)
        finally:
            for place in places:
                await place.close()

    clockwork.run(main())


def test_what_is_held_is_what_starts_after_the_brake_however_far_a_worker_has_got():
    """Whether it had begun the one before would tell how long that one before took."""

    async def work(turns, places, run, asked, brake):
        run("a")
        before = run("b")
        await before.started.wait()
        assert before.begun is None
        brake.set()
        after = run("c")
        await _until(lambda: turns._backlog == [after])
        assert after.placed  # for all that anybody sees before its tick
        assert asked == [b"a"]
        places[0]._worker.gate.release()
        places[0]._worker.gate.release()
        places[0]._worker.gate.release()
        await _until(before.outcome.done)
        await asyncio.sleep(0.1)
        assert asked == [b"a", b"b"]
        brake.clear()
        turns.ease()
        await _until(lambda: len(asked) == 3)
        assert asked[2] == b"c"

    _braked(work, 1)


@pytest.mark.parametrize("first", [0, 1])
def test_what_was_held_starts_in_the_order_of_the_timetable(first):
    """Whichever worker was done first with what it did when the brake came."""

    async def work(turns, places, run, asked, brake):
        run("a"), run("b")
        await _until(lambda: len(asked) == 2)
        brake.set()
        held = [run(name) for name in "cdefgh"]
        await asyncio.sleep(0.1)
        places[first]._worker.gate.release()
        await asyncio.sleep(0.1)
        places[1 - first]._worker.gate.release()
        await _until(lambda: len(turns._backlog) == len(held))
        assert turns._backlog == held
        starts = [x.release - x.tick for x in held]
        assert starts == sorted(starts)
        brake.clear()
        turns.ease()
        assert [x for own in turns._waiting.values() for x in own] == held

    _braked(work, 2)


def test_the_bits_that_are_stated_are_those_of_the_formula():
    def bits(workers):
        return ceil(log2(sum(comb(3 * 1000 + k - 1, k) * 3**k for k in range(4 + 2 * workers))))

    stated = " ".join((Path(__file__).parents[2] / "SECURITY.md").read_text().split())
    assert f"{bits(1)} for a thousand questions and one worker, {bits(2)} for two" in stated


def test_how_long_tables_take_to_open_shows_in_steps_alone():
    """One that is quick, one that is slow: what waits behind them leaves at the same moment."""

    def leaves(took):
        moments = []

        async def main():
            loop, turns = asyncio.get_running_loop(), Turns()
            turns.seats = Seats(1)

            async def settle(_):
                moments.append(loop.time())

            first = clockwork.FakeWorker(lambda _: -1.0)
            place = Place(first, SETUP, turns)
            place._opening = 1.0
            place._another = lambda: asyncio.sleep(took, clockwork.FakeWorker(lambda _: 0.01))
            for _ in range(2):
                turns.put(Run("ana", b"", 0.05, 0.3, settle))
            place.start()
            while len(moments) < 2:  # noqa: ASYNC110 - by the clock of the test
                await asyncio.sleep(0.001)
            await place.close()

        clockwork.run(main())
        return round(moments[1] - moments[0], 2)

    quick = leaves(0.3)
    assert quick > 2 * 1.0
    assert [leaves(took) for took in (0.31, 0.9, 1.9)] == [quick] * 3
    assert leaves(2.1) == leaves(2.3) > quick


def test_a_worker_has_time_by_what_the_first_one_took(monkeypatch):
    patience = []

    class Slow:
        def __init__(self, _):
            pass

        def ready(self, seconds=60.0):
            patience.append(seconds)

        def kill(self):
            pass

    monkeypatch.setattr("discreet.service._pool.Worker", Slow)

    async def main(opening):
        place = Place(Slow(None), SETUP, Turns())
        place._opening = opening
        place._another()
        await place.close()

    for opening in (0.5, 61.0):
        asyncio.run(main(opening))
    assert patience == [60.0, 244.0]
