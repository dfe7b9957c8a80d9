"""The pulse of a machine: how long it stood still, so that what is underway is given that back.

A process that sleeps for a moment and wakes up much later was not run meanwhile, and nor were its
workers, if the whole machine paused. That is seen at whatever moment of a tick it happens, not only
where it falls on the tick itself, and it moves the ticks of all that is underway alike: by
what the machine did, never by what a run found.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

_BEAT: Final = 0.02
"""Seconds between two looks at the clock."""
STANDSTILL: Final = 0.05
"""Seconds behind its clock from which this process takes the machine to have stood still.

Less than that takes no more than two fifths of the shortest tick.
"""
_BACK: Final = 2.0
"""How often that is given back: whatever kept this process may keep a worker a little longer."""


class Leaving(Protocol):
    """Something that leaves at a moment of the loop's clock."""

    release: float


class Pulse:
    """Watches the clock while something is underway; whatever stood still leaves later."""

    def __init__(self) -> None:
        self._underway: set[Leaving] = set()
        self._due = 0.0
        self._beating: asyncio.Task[None] | None = None

    def add(self, run: Leaving) -> None:
        """Give back to a run what the machine takes from it, from now on."""
        self.look()
        if not self._underway:  # what was before concerns nobody
            self._due = asyncio.get_running_loop().time() + _BEAT
        self._underway.add(run)
        if self._beating is None or self._beating.done():
            self._beating = asyncio.create_task(self._beat())

    def discard(self, run: Leaving) -> None:
        """It leaves, or starts again."""
        self._underway.discard(run)

    def look(self) -> None:
        """Move what is underway by what was lost since the last look, if that is much."""
        now = asyncio.get_running_loop().time()
        lost = now - self._due
        if self._underway and lost > STANDSTILL:
            for run in self._underway:
                run.release += _BACK * lost
            self._due = now + _BEAT  # it is given back once

    async def _beat(self) -> None:
        while self._underway:
            self._due = asyncio.get_running_loop().time() + _BEAT
            await asyncio.sleep(_BEAT)
            self.look()

    def close(self) -> None:
        """Watch no longer."""
        if self._beating is not None:
            self._beating.cancel()
