"""The time limit of a question, watched by one thread for all of them.

It sleeps until the earliest time is over, and no shorter because a question has ended: the next
one is over later, so that nobody wakes it. Whatever has run out of time gets a thread of its own
that cancels it, which may itself take long.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from typing import Final

TIME_LIMIT: Final = "discreet: time limit"
"""Name of threads that wait for the end of a question, or cancel it."""
_AGAIN: Final = 0.05


class _Limit:
    """One question's time: when it is over, and who cancels then."""

    __slots__ = ("ended", "interrupt", "thread", "when")

    def __init__(self, interrupt: Callable[[], object], when: float) -> None:
        self.interrupt, self.when = interrupt, when
        self.ended = threading.Event()
        self.thread: threading.Thread | None = None

    def run_out(self) -> None:
        """Cancel the question, again and again until it ends."""
        thread = threading.Thread(target=self._cancel, name=TIME_LIMIT, daemon=True)
        thread.start()
        self.thread = thread

    def _cancel(self) -> None:
        while not self.ended.is_set():
            with suppress(Exception):  # a server that is not reached now may be the next time
                self.interrupt()
            self.ended.wait(_AGAIN)


class _Watch:
    """Those who have a limit, and the thread that sleeps until one is over."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._running: set[_Limit] = set()
        self._wakes = inf
        self._thread: threading.Thread | None = None

    def add(self, limit: _Limit) -> None:
        with self._change:
            self._running.add(limit)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._watch, name=TIME_LIMIT, daemon=True)
                self._thread.start()
            if limit.when < self._wakes:
                self._change.notify()

    def remove(self, limit: _Limit) -> None:
        """Let a question be over; nothing cancels what comes after it."""
        limit.ended.set()
        with self._change:
            self._running.discard(limit)
        if limit.thread is not None:
            limit.thread.join()

    def _watch(self) -> None:
        with self._change:
            while True:
                now = time.monotonic()
                self._run_out(now)
                self._wakes = min((one.when for one in self._running), default=inf)
                self._change.wait(None if self._wakes == inf else self._wakes - now)

    def _run_out(self, now: float) -> None:
        # apart: the thread that sleeps must not keep a question's connection alive
        for limit in [one for one in self._running if one.when <= now]:
            try:
                limit.run_out()
                self._running.discard(limit)
            except RuntimeError:  # there are no more threads to be had
                limit.when = now + _AGAIN


_watch = _Watch()


def _anew() -> None:
    global _watch  # noqa: PLW0603 - its thread does not follow a fork
    _watch = _Watch()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_anew)


@contextmanager
def time_limit(interrupt: Callable[[], object], seconds: float) -> Iterator[None]:
    """Cancel whatever runs once the time is over, again and again until the end."""
    watch, limit = _watch, _Limit(interrupt, time.monotonic() + seconds)
    try:
        watch.add(limit)
        yield
    finally:
        watch.remove(limit)
