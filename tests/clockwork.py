"""An event loop whose clock stands still while anything is done, and jumps when all wait.

What a timetable says then holds to the microsecond on any machine, however busy, and hours of it
take a second. Work for a thread is done in the loop: what a fake does for a while is a coroutine
there, which sleeps by the same clock.
"""

from __future__ import annotations

import asyncio
import inspect
import selectors
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from discreet.service import _desk, _pool, _run
from discreet.service._worker import DONE, FAILED

_CLOCKED = (_desk, _pool, _run)
"""Modules that read the loop's clock by another name."""


class _Jumps(selectors.DefaultSelector):
    """Waits for nothing: where a loop would sleep, its clock is put forward."""

    def __init__(self):
        super().__init__()
        self.now = 0.0

    def select(self, timeout=None):
        found = super().select(0)
        if not found:
            if timeout is None:
                raise RuntimeError("everybody waits for somebody else")
            self.now += timeout
        return found


class Loop(asyncio.SelectorEventLoop):
    """Whoever is asked to compute in a thread computes at once; a coroutine takes its time."""

    def __init__(self):
        self._jumps = _Jumps()
        super().__init__(self._jumps)

    def time(self):
        return self._jumps.now

    def stand_still(self, seconds):
        """Let time pass in which nothing of this process runs."""
        self._jumps.now += seconds

    def run_in_executor(self, executor, func, *args):
        done = self.create_future()
        try:
            found = func(*args)
        except Exception as error:  # noqa: BLE001 - it is for whoever asked
            done.set_exception(error)
            return done
        if inspect.isawaitable(found):
            return asyncio.ensure_future(found, loop=self)
        done.set_result(found)
        return done


@contextmanager
def _clock(loop):
    """Whatever the places of a service read the time from."""
    with pytest.MonkeyPatch.context() as patch:
        for module in _CLOCKED:
            patch.setattr(module, "time", SimpleNamespace(monotonic=loop.time))
        yield


def run(coroutine):
    """Run a coroutine in a loop of its own, by a clock of its own."""
    with asyncio.Runner(loop_factory=Loop) as runner, _clock(runner.get_loop()):
        return runner.run(coroutine)


class FakeWorker:
    """Takes as long as it is told; its clock ends it, as the system's does.

    ``takes`` gives the seconds of a bill; negative: it runs out of memory at once. ``work`` is
    how they pass.
    """

    def __init__(self, takes, *, clocked=True, work=asyncio.sleep):
        self._takes, self._clocked, self._work = takes, clocked, work
        self.overran, self.gone = False, asyncio.Event()

    async def ask(self, bill, allowance=0.0):
        took = self._takes(bill)
        if took < 0:
            return FAILED
        self.overran = self._clocked and 0 < allowance < took
        tasks = [
            asyncio.ensure_future(self._work(allowance if self.overran else took)),
            asyncio.ensure_future(self.gone.wait()),
        ]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        if self.overran or self.gone.is_set():
            raise EOFError
        return DONE + b"outcome"

    def kill(self):
        self.gone.set()

    end = kill
