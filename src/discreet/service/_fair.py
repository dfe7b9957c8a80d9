"""Turns: somebody's work one at a time, and little of it waiting, so that others come between."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from discreet.service._errors import BusyError


class Fair:
    """Lets each analyst do one thing at a time, with at most so many begun or waiting.

    Whoever shares a queue of threads by it comes after one thing of each other analyst.
    """

    def __init__(self, most: int, refusal: str) -> None:
        self._most, self._refusal = most, refusal
        self._counts: Counter[str] = Counter()
        self._turns: dict[str, asyncio.Lock] = {}

    @asynccontextmanager
    async def turn(self, who: str, *, begun: bool = False) -> AsyncIterator[None]:
        """Wait for one's turn, and hold it; too many are refused, but not what has `begun`."""
        if self._counts[who] >= self._most and not begun:
            raise BusyError(self._refusal)
        self._counts[who] += 1
        try:
            async with self._turns.setdefault(who, asyncio.Lock()):
                yield
        finally:
            self._counts[who] -= 1
            if not self._counts[who]:  # nobody holds the turn, or waits for it
                del self._counts[who], self._turns[who]
