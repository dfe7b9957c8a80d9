"""The loop by which timetables are tested: its clock is moved by waiting, and by nothing else."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests import clockwork


def test_its_clock_moves_by_what_is_waited_for_and_by_nothing_else():
    async def main():
        loop = asyncio.get_running_loop()
        time.sleep(0.01)  # noqa: ASYNC251 - work, however long, takes no time here
        moments = [loop.time()]
        await asyncio.gather(asyncio.sleep(3600), asyncio.sleep(1800))
        moments.append(loop.time())
        assert await loop.run_in_executor(None, lambda: asyncio.sleep(60, "done")) == "done"
        moments.append(loop.time())
        loop.stand_still(5)
        return [*moments, loop.time()]

    begun = time.monotonic()
    assert clockwork.run(main()) == pytest.approx([0, 3600, 3660, 3665])
    assert time.monotonic() < begun + 60


def test_everybody_waiting_for_somebody_else_is_no_silence():
    with pytest.raises(RuntimeError, match="everybody waits for somebody else"):
        clockwork.run(asyncio.Event().wait())


def test_what_a_thread_would_raise_is_raised():
    async def main():
        await asyncio.get_running_loop().run_in_executor(None, lambda: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        clockwork.run(main())
