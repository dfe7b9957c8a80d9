"""Writers of one process who wait for the same ledger share one transaction and one sync.

One thread writes for everybody who waits, one after another, each seeing what those before
it wrote: the one who came first does it for those who have come meanwhile, and has another
thread do it for whoever comes later. Nobody is told anything before the commit is durable and
the marks are moved. A refusal concerns its own writer alone, because it comes before that
writer has written; whatever else goes wrong undoes the transaction for all of them.

Python delivers signals to the main thread alone, which therefore never writes itself (unless
there are no more threads to be had). So an interrupt from the keyboard, or
whatever a handler of the caller's raises, never falls between a lock and its release, a
commit and its marks, or a debit and its seal: it ends the waiting, and the turn goes on
without the one who waited, or does not begin.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from itertools import count
from typing import Any, Final, TypeVar, cast

from discreet._dataclass import dataclass, field
from discreet._errand import Errand
from discreet.errors import DiscreetError, LedgerBusyError
from discreet.ledger._store import RolledBackError
from discreet.ledger._turn import Turn

T = TypeVar("T")
Writing = Callable[[], AbstractContextManager[Turn]]
MOST: Final = 256
"""Writers in one transaction."""
_TRIES: Final = 5


@dataclass(slots=True, eq=False)
class Request:
    """One writer's work, and what has become of it."""

    work: Callable[[Turn], Any]
    writing: Writing
    done: threading.Event = field(default_factory=threading.Event)
    wanted: bool = True
    begun: bool = False
    result: Any = None
    error: BaseException | None = None


@dataclass(slots=True, eq=False)
class Group:
    """Those who wait for one ledger in this process, and the thread that writes for them."""

    guard: threading.Lock = field(default_factory=threading.Lock)
    queue: deque[Request] = field(default_factory=deque)
    thread: Errand | threading.Thread | None = None

    def write(self, work: Callable[[Turn], T], writing: Writing, wait: float) -> T:
        """Do some work in a turn that others may share; give its result once it is durable."""
        request = Request(work, writing)
        try:
            self._put(request)
            while not request.done.wait(wait):
                self._give_up(request, wait)
        except BaseException:
            request.wanted = False
            raise
        if request.error is not None:
            raise request.error
        return cast("T", request.result)

    def _put(self, request: Request) -> None:
        """Wait with the others; if nobody writes for them, do it, out of every signal's reach."""
        own = threading.current_thread()
        try:
            with self.guard:
                self.queue.append(request)
                if self.thread is not None and self.thread.is_alive():
                    return
                if own is not threading.main_thread():
                    self.thread = own
                else:
                    self._hand_over()
                    return
        except RuntimeError:  # there are no more threads to be had
            self._serve()
        else:
            try:
                self._serve(once=True)
            except BaseException:
                self.thread = None  # others go on
                raise

    def _hand_over(self) -> None:
        """Have another thread write for those who wait; the guard is held.

        Before others look: two of them would wait for each other at the store.
        """
        self.thread = Errand(self._serve)
        self.thread.start()

    def _give_up(self, request: Request, wait: float) -> None:
        """Stop waiting, unless a transaction has us: it will end."""
        with self.guard:
            if not request.begun:
                request.wanted = False
                raise LedgerBusyError(f"the ledger was in use for {wait:g} s; nothing was charged")

    def _serve(self, *, once: bool = False) -> None:
        """Write for everybody who waits, until nobody does; or `once`, and others for the rest."""
        for turn in count():
            with self.guard:
                if once and turn and self.queue:
                    with suppress(RuntimeError):  # else it is up to us
                        self._hand_over()
                        return
                waiting = [self.queue.popleft() for _ in range(min(MOST, len(self.queue)))]
                together = [request for request in waiting if request.wanted]
                for request in together:
                    request.begun = True
                if not waiting:
                    self.thread = None
                    return
            try:
                _together(together)
            finally:
                for request in together:
                    request.done.set()


def _together(together: list[Request]) -> None:
    for tries_left in reversed(range(_TRIES if together else 0)):
        try:
            with together[0].writing() as turn:
                for request in together:
                    result, request.error = one(turn, request.work), None
                    if isinstance(result, DiscreetError):
                        request.error = result
                    else:
                        request.result = result
        except RolledBackError as error:
            if tries_left:
                continue
            _failed(together, error)
        except BaseException as error:  # noqa: BLE001 - handed to each of them
            _failed(together, error)
        return


def one(turn: Turn, work: Callable[[Turn], T]) -> T | DiscreetError:
    """Do one writer's work; give its refusal, if that comes before it has written."""
    before = turn.head
    try:
        return work(turn)
    except DiscreetError as error:
        if turn.head is not before:
            raise
        return error


def _failed(together: list[Request], error: BaseException) -> None:
    for request in together:
        if request.error is None:
            # each thread raises its own: a traceback belongs to one of them
            again = isinstance(error, DiscreetError) and len(together) > 1
            request.error = cast("DiscreetError", error).with_hint(error.hint) if again else error  # type: ignore[attr-defined]  # checked


def apart(work: Callable[[], T]) -> T:
    """Do some work in a thread of its own, which no interrupt reaches; wait for its end."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


_GROUPS: dict[Hashable, Group] = {}


def group_of(where: str, policy: str, anchors: Hashable) -> Group:
    """Give the group of a ledger in this process.

    Marks are moved for all of them at once, so they all have the same anchors: a handle
    without a witness must not write for one with it.
    """
    return _GROUPS.setdefault((where, policy, anchors), Group())


if hasattr(os, "register_at_fork"):
    # neither a lock that another thread holds nor the thread that writes is there in the child
    os.register_at_fork(after_in_child=_GROUPS.clear)
