"""Writing answers out: long ones keep neither the loop nor other people's short ones waiting.

The shortest are written at once: that takes less than a millisecond, and a thread would need
the interpreter for as long.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from discreet.service._fair import Fair
from discreet.service._orders import LONG, Order

T = TypeVar("T")

_THREADS: Final = 2
SHORT: Final = 2 << 10
"""Letters of an outcome that is written at once, at most."""
_WAITING: Final = 8
"""Long answers that one analyst may have written out, or waiting for it, at the same time."""
_ROOM: Final = 32 << 20
_MOST: Final = 2000
"""Bytes of what was written, and answers, that are kept for those who ask again, at most."""


class Press:
    """Writes answers; of one analyst's long ones one at a time."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="press")
        self._fair = Fair(_WAITING, f"{_WAITING} long answers of yours are being written; "
                          "read them first")  # fmt: skip
        self._copies: OrderedDict[tuple[str, str, str], bytes] = OrderedDict()
        self._size = 0

    async def work(self, order: Order, work: Callable[[], T]) -> T:
        """Do what takes as long as an answer is."""
        if order.text is None:  # how long it is shows when it has been read
            async with self._fair.turn(order.analyst, begun=True):
                await asyncio.get_running_loop().run_in_executor(self._pool, order.outcome)
        if order.text is not None and max(order.size, len(order.text)) <= SHORT:
            return work()
        if order.size < LONG:
            return await asyncio.to_thread(work)
        async with self._fair.turn(order.analyst):
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def copy(self, order: Order, form: str, level: str, write: Callable[[], bytes]) -> bytes:
        """Give an answer in a form and at a confidence, as it was written if that is kept."""
        name = (order.id, form, level)
        copy = self._copies.get(name)
        if copy is not None:
            self._copies.move_to_end(name)
            return copy
        content = await self.work(order, write)
        if len(content) <= _ROOM // 4 and name not in self._copies:
            self._copies[name] = content
            self._size += len(content)
            while self._size > _ROOM or len(self._copies) > _MOST:
                self._size -= len(self._copies.popitem(last=False)[1])
        return content
