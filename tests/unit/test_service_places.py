"""What places do follows the timetable: not memory, and not how far their workers have got.

Workers here do what a test lets them do, and when.
"""

from __future__ import annotations

import asyncio
import threading
from itertools import product
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
        await _until(lambda: turns._held == [after])
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
        await _until(lambda: len(turns._held) == len(held))
        assert turns._held == held
        starts = [x.release - x.tick for x in held]
        assert starts == sorted(starts)
        brake.clear()
        turns.ease()
        assert [x for own in turns._waiting.values() for x in own] == held

    _braked(work, 2)


def _slipped(many, begun, busy, held_up):
    """What a slip shows of another place that has so many runs, of which some were begun."""

    async def main():
        turns = Turns()
        slow, place = Place(Stuck(), SETUP, turns), Place(Stuck(), SETUP, turns)
        late, *runs = [Run("ana", b"%d" % i, 0.02, 60.0, None) for i in range(many + 1)]
        slow._start(late)
        for run in runs:
            place._start(run)
        for _ in range(begun):
            last = place._started.popleft()
            last.begun = last.release - last.tick * (0.3 if held_up else 0.7)
            place._running = last if busy else None
        ticks = [run.release for run in runs]
        turns.slip(late)
        again = {run.bill for own in turns._waiting.values() for run in own}
        for each in (slow, place):
            await each.close()
        moved = [run.release != tick for run, tick in zip(runs, ticks, strict=True)]
        return tuple(run.bill in again for run in runs), tuple(moved)

    return asyncio.run(main())


@pytest.mark.parametrize("many", [1, 4])
def test_a_slip_shows_no_more_of_another_place_than_is_counted(many):
    worlds = product(range(many + 1), (False, True), (False, True))
    seen = {_slipped(many, *world) for world in worlds}
    assert many + 1 < len(seen) <= 2 * (many + 1)


def test_the_bits_that_are_stated_are_those_of_the_formula():
    def bits(workers, underway):
        def kinds(k):
            return comb(3 * 1000 + k - 1, k) * 3**k

        def shown(k):
            return (2 * (underway + 1)) ** ((workers - 1) * min(k, 3 + workers))

        return ceil(log2(sum(kinds(k) * shown(k) for k in range(4 + 2 * workers))))

    stated = " ".join((Path(__file__).parents[2] / "SECURITY.md").read_text().split())
    assert f"{bits(1, 20)} for a thousand questions and one worker" in stated
    assert f"{bits(2, 20)} bits where *n* is 20 and {bits(2, 1000)} whatever it is" in stated
