"""What places do follows the timetable: not memory, and not how far their workers have got.

Workers here do what a test lets them do, and when.
"""

from __future__ import annotations

import asyncio
import threading

import pytest

from discreet.service._pool import Place, Run, Turns, Worker
from discreet.service._worker import Setup

pytestmark = pytest.mark.races


class Named:
    identity = "fake"


SETUP = Setup(Named(), None, 0, "", 0, "")


async def _until(true):
    async with asyncio.timeout(60):
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
