"""Writers of one process who wait for the same ledger share one transaction and one sync.

Whoever comes first leads: it takes everybody who waits into its transaction, one after
another, each seeing what those before it wrote. Nobody is told anything before the
commit is durable and the marks are moved. A refusal concerns its own writer alone,
because it comes before that writer has written; whatever else goes wrong undoes the
transaction for all of them.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

from discreet.errors import DiscreetError, LedgerBusyError, LedgerError
from discreet.ledger._store import RolledBackError
from discreet.ledger._turn import Turn

T = TypeVar("T")
MOST: Final = 256
"""Writers in one transaction."""
_TRIES: Final = 5


@dataclass(slots=True, eq=False)
class Request:
    """One writer's work, and what has become of it."""

    work: Callable[[Turn], Any]
    awake: threading.Event = field(default_factory=threading.Event)
    leads: bool = False
    result: Any = None
    error: Exception | None = None


@dataclass(slots=True, eq=False)
class Group:
    """Those who wait for one ledger in this process, and whether one of them writes."""

    guard: threading.Lock = field(default_factory=threading.Lock)
    queue: deque[Request] = field(default_factory=deque)
    busy: bool = False

    def write(
        self,
        work: Callable[[Turn], T],
        writing: Callable[[], AbstractContextManager[Turn]],
        wait: float,
    ) -> T:
        """Do some work in a turn that others may share; give its result once it is durable."""
        request = Request(work)
        with self.guard:
            self.queue.append(request)
            request.leads, self.busy = not self.busy, True
        try:
            if not request.leads and not request.awake.wait(wait):
                self._leave(request, wait)
            if request.leads:
                self._lead(writing, request)
        except BaseException:
            with self.guard:
                if request in self.queue:  # an interrupt: nobody may wait for us
                    self._next(request)
            raise
        if request.error is not None:
            raise request.error
        return cast("T", request.result)

    def _leave(self, request: Request, wait: float) -> None:
        """Give up waiting, unless somebody has us in a transaction, which will end."""
        with self.guard:
            if request in self.queue and not request.leads:
                self.queue.remove(request)
                raise LedgerBusyError(f"the ledger was in use for {wait:g} s; nothing was charged")
        request.awake.wait()

    def _lead(self, writing: Callable[[], AbstractContextManager[Turn]], own: Request) -> None:
        """Write for everybody who waits, ourselves included, and hand over to the next."""
        others: list[Request] = []
        try:
            with self.guard:
                self.queue.remove(own)
                others += [self.queue.popleft() for _ in range(min(MOST - 1, len(self.queue)))]
            _together(writing, [own, *others])
        except BaseException:
            for other in others:
                if other.error is None:
                    other.error = LedgerError(
                        "the writer who wrote for us was interrupted: whether this was recorded is "
                        "not known, and nothing was released",
                        hint="ask the same question again: it takes up a debit that is there",
                    )
            raise
        finally:
            with self.guard:
                self._next(own)
            for other in others:
                other.awake.set()

    def _next(self, own: Request) -> None:
        """Leave the queue; if we were to lead, the next one does."""
        if own in self.queue:
            self.queue.remove(own)
        if own.leads:
            self.busy = bool(self.queue)
            if self.queue:
                self.queue[0].leads = True
                self.queue[0].awake.set()
            own.leads = False


def _together(writing: Callable[[], AbstractContextManager[Turn]], together: list[Request]) -> None:
    for tries_left in reversed(range(_TRIES)):
        try:
            with writing() as turn:
                for request in together:
                    _one(turn, request)
        except RolledBackError as error:
            if tries_left:
                continue
            _failed(together, error)
        except Exception as error:  # noqa: BLE001 - handed to each of them
            _failed(together, error)
        return


def _one(turn: Turn, request: Request) -> None:
    before, request.error = turn.head, None
    try:
        request.result = request.work(turn)
    except DiscreetError as error:
        if turn.head is not before:
            raise
        request.error = error


def _failed(together: list[Request], error: Exception) -> None:
    for request in together:
        if request.error is None:
            # each thread raises its own: a traceback belongs to one of them
            again = isinstance(error, DiscreetError) and len(together) > 1
            request.error = cast("DiscreetError", error).with_hint(error.hint) if again else error  # type: ignore[attr-defined]  # checked


_GROUPS: dict[Hashable, Group] = {}


def group_of(where: str, policy: str, anchors: Hashable) -> Group:
    """Give the group of a ledger in this process.

    Whoever leads moves the marks for all of them, so they all have the same anchors: a
    handle without a witness must not write for one with it.
    """
    return _GROUPS.setdefault((where, policy, anchors), Group())


if hasattr(os, "register_at_fork"):
    # a lock that another thread holds would never be released in the child
    os.register_at_fork(after_in_child=_GROUPS.clear)
