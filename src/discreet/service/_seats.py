"""Seats: as many runs are underway as there are processors, one after the other, by the timetable.

A seat is given on as of the moment at which it is free by the timetable, which is a little before
anybody wakes up for it. So a row of questions goes on as fast as its bounds say, and being woken
late for one of them does not add up.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque


class Seats:
    """So many seats, for whoever comes first."""

    def __init__(self, many: int) -> None:
        self.many = self._new = many
        self._free: list[float] = []
        """Moments at which those that nobody has were free."""
        self._waiting: deque[asyncio.Future[float]] = deque()

    async def acquire(self) -> float:
        """Take a seat; give the moment of the loop's clock from which on it was free."""
        if self._free:
            return self._free.pop()
        if self._new:
            self._new -= 1
            return -math.inf
        turn: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was given one in the same moment
                self.release(turn.result())
            raise

    def release(self, moment: float) -> None:
        """Give a seat on, as of a moment."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(moment)
                return
        self._free.append(moment)
