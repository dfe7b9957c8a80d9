"""Turns: somebody's work one at a time, and little of it waiting, so that others come between."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from discreet.service._errors import BusyError

T = TypeVar("T")


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


class Window:
    """One thread, for which analysts wait: it takes one work of each in turn, and then the next.

    It goes from one to the next by itself. With a turn that the loop gives on, it would stand idle
    until the loop has come to that.
    """

    def __init__(self, name: str, most: int, refusal: str) -> None:
        self._most, self._refusal = most, refusal
        self._waiting: OrderedDict[str, deque[tuple[Callable[[], Any], asyncio.Future[Any]]]]
        self._waiting, self._latest, self._guard = OrderedDict(), "", threading.Lock()
        self._counts: Counter[str] = Counter()
        """How much of each analyst's is begun or waits."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def work(self, who: str, work: Callable[[], T], *, begun: bool = False) -> T:
        """Have something done; of whom too much waits is refused, but not what has `begun`."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        if self._counts[who] >= self._most and not begun:
            raise BusyError(self._refusal)
        self._counts[who] += 1
        try:
            with self._guard:
                self._waiting.setdefault(who, deque()).append((work, done))
            # whoever's it is: there are as many of these as there are works
            loop.run_in_executor(self._thread, self._next).add_done_callback(_tell)
            return await done
        finally:
            self._counts[who] -= 1
            if not self._counts[who]:
                del self._counts[who]

    def close(self) -> None:
        """Take nothing more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _next(self) -> tuple[asyncio.Future[Any], Any, BaseException | None]:
        """Do one work of whoever is next."""
        with self._guard:
            if next(iter(self._waiting)) == self._latest:  # others may have come meanwhile
                self._waiting.move_to_end(self._latest)
            self._latest, own = self._waiting.popitem(last=False)
            work, done = own.popleft()
            if own:
                self._waiting[self._latest] = own
        try:
            return done, work(), None
        except BaseException as error:  # noqa: BLE001 - handed to whoever asked
            return done, None, error


def _tell(turn: asyncio.Future[tuple[asyncio.Future[Any], Any, BaseException | None]]) -> None:
    """Tell whoever waits what has become of their work; on the loop."""
    if turn.cancelled():
        return
    done, result, error = turn.result()
    if done.done():  # nobody waits
        return
    if error is None:
        done.set_result(result)
    else:
        done.set_exception(error)
