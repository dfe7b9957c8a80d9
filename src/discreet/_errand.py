"""Work for another thread, which outlives it and waits for the next: no signal reaches it there.

Threads are started when none waits. They are daemons, since nobody knows which work is the
last; so that none is stopped in the middle of it, the interpreter waits at its exit until all
that was handed over is done. Later work is refused as if there were no more threads; one lock
makes sure that nothing is handed over to a thread that has been told to end.

A signal may end :meth:`Errand.start` anywhere. Work is either in a thread's hands then, or
was never begun and is not said to be alive.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, TypeAlias

NAME: Final = "discreet: errands"
"""Name of the threads."""
_Inbox: TypeAlias = "SimpleQueue[Errand | None]"
_IDLE: Final[deque[_Inbox]] = deque()
"""Where threads wait that have nothing to do."""
_ALL: Final[list[tuple[threading.Thread, _Inbox]]] = []
_exiting = threading.Event()
_door = threading.RLock()
"""Held while work is handed over, and while the end is said; a handler of signals may have some."""


class Errand:
    """Some work that another thread does; started like a thread, at a tenth of the cost.

    Examples
    --------
    >>> done = threading.Event()
    >>> Errand(done.set).start()
    >>> done.wait()
    True
    """

    __slots__ = ("_given", "_over", "_work")

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._given = self._over = False

    def start(self) -> None:
        """Hand the work over; RuntimeError: there are no more threads to be had."""
        with _door:
            if _exiting.is_set():
                raise RuntimeError("the interpreter ends: no new work")
            try:
                inbox = _IDLE.pop()
            except IndexError:
                inbox = SimpleQueue()
                thread = threading.Thread(target=_live, args=(inbox,), name=NAME, daemon=True)
                thread.start()
                _ALL.append((thread, inbox))
            inbox.put(self)
            self._given = True

    def is_alive(self) -> bool:
        """Whether a thread has the work and has not ended it."""
        return self._given and not self._over

    def run(self) -> None:
        """Do the work."""
        self._given = True
        try:
            self._work()
        finally:
            self._over = True


def _live(inbox: _Inbox) -> None:
    """Do one work after another, until the end is said."""
    while (errand := inbox.get()) is not None:
        errand.run()
        del errand  # while we wait, what it holds must not live on
        _IDLE.append(inbox)


def _end() -> None:
    """Take nothing on any more, and wait for what was taken on."""
    with _door:
        _exiting.set()
        for _, inbox in _ALL:
            inbox.put(None)  # behind what is there
    for thread, _ in _ALL:
        thread.join()


def _forget() -> None:
    """Begin anew: threads do not follow a fork, nor does whoever holds the lock."""
    global _door  # noqa: PLW0603 - the child's own
    _door = threading.RLock()
    _IDLE.clear()
    _ALL.clear()


# the hook of concurrent.futures: the only one that processes of multiprocessing run, too
getattr(threading, "_register_atexit", atexit.register)(_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
