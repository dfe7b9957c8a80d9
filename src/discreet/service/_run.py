"""A run of a bill that is paid: where it stands in the timetable, and what was late of it."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from discreet._dataclass import dataclass, field
from discreet.service._brake import Lapse

AFTER: Final = 0.002
"""Seconds after which something follows that must not come first by how a clock rounds: what a
failure changes after its place is free, and what starts behind a slip after a run has left."""


@dataclass(slots=True, eq=False)
class Run:
    """One run of a bill that is paid."""

    analyst: str
    bill: bytes
    """As it is kept and sent."""
    bound: float
    tick: float
    settle: Callable[[str | None], Coroutine[Any, Any, None]]
    """Called at the tick with the outcome; None: it failed, or was not done in time."""
    stopped: Callable[[], bool] = lambda: False
    """Asked when it starts by the timetable: whether it waits until an owner has looked."""
    on_lapse: Callable[[], None] = lambda: None
    """Called as soon as it is known that something is late for which it stands."""
    barred: Callable[[], bool] = lambda: False
    """Asked by whoever looks: whether it is known to everybody that it is not to run."""
    on_notice: Callable[[], None] = lambda: None
    """Called when everybody may know what is late: at its tick."""
    begin: Callable[[], None] = lambda: None
    """Called before a worker is given it; only then may it begin."""
    started: asyncio.Event = field(default_factory=asyncio.Event)
    waits: float = 0.0
    """Since when it waits for a place, on the loop's clock."""
    seated: float = math.inf
    """When it could have been started by the timetable; known once it has a seat."""
    release: float = 0.0
    """When it leaves, on the loop's clock; known once it has started."""
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Whether it has, since it was started."""
    begun: float | None = None
    """When its worker began it; None: not since it was started."""
    marks: tuple[float, ...] = ()
    """Moments before its tick at which its failure may change something: see :mod:`._brake`."""
    last: Lapse | None = None
    """What was late of it last."""
    outcome: asyncio.Future[bytes] | None = None
    leaving: asyncio.Task[None] | None = None
    moving: float = 0.0
    """Seconds that it has spent at places whose workers could not be had."""
    overran: bool = False
    """Whether it was ended by its clock, or at its tick, or for memory."""
    deaths: int = 0
    """How often its worker has died by no hand of ours."""
    lost: bool = False
    """Whether its worker has, and it starts again at its tick."""
    lapses: int = 0
    """How often it was counted as late: for itself, for a death, and for slips of the timetable."""
    secrets: int = 0
    """Of how many of these nobody may know yet."""

    def overrun(self) -> None:
        """Count it as late, once, from a moment on that was public when it started."""
        if not self.overran:
            self.overran = True
            self.fail()

    def fail(self) -> None:
        """Count a failure of it, or of its worker; see :mod:`._brake` about from when on."""
        now = time.monotonic()
        marks = [mark for mark in self.marks if now <= mark < self.release]
        self.count(now if self.left.is_set() else min(marks, default=math.inf))

    def count(self, since: float) -> None:
        """Count something late for which it stands; infinity: from when on it has left."""
        self.last = Lapse(since, self.tick)
        self.lapses += 1
        self.secrets += 1
        self.on_lapse()

    async def until_effect(self) -> None:
        """Wait until its failure may change something."""
        last, left, loop = self.last, self.left, asyncio.get_running_loop()
        assert last is not None
        while (wait := last.since - loop.time()) > 0:  # it may be put off meanwhile
            try:
                async with asyncio.timeout(None if math.isinf(wait) else wait):
                    await left.wait()
            except TimeoutError:
                continue

    def tell(self) -> None:
        """Let everybody know what was late: each count once."""
        while self.secrets:
            self.secrets -= 1
            self.on_notice()

    def start(self, now: float, span: float) -> None:
        """Give it its moments, where its place is taken for so long."""
        self.marks, self.release = self._marks(now, span), now + self.tick
        self.outcome, self.begun = asyncio.get_running_loop().create_future(), None
        self.left, self.lost = asyncio.Event(), False

    def lay(self, now: float, start: float, span: float) -> None:
        """Put its moments off that are not over, as if it started at another one.

        A failure that nobody may know of yet is put off with its own.
        """
        marks, self.release = self._marks(start, span), start + self.tick
        moved = {old: new for old, new in zip(self.marks, marks, strict=True) if old > now}
        self.marks = tuple(moved.get(mark, mark) for mark in self.marks)
        if self.last is not None:
            self.last.since = moved.get(self.last.since, self.last.since)

    def _marks(self, start: float, span: float) -> tuple[float, float]:
        over = max(span, self.bound)  # when whoever keeps to the bound is done
        return start + over + AFTER, start + 2 * over + AFTER

    def leave(self) -> None:
        """Note that it has left: what was late of it may be seen."""
        self.left.set()
        if self.last is not None:
            self.last.since = min(self.last.since, time.monotonic())

    def wait(self) -> None:
        """Wait to be started, for the first time or again: nothing leaves."""
        if self.leaving is not None and self.leaving is not asyncio.current_task():
            self.leaving.cancel()
        self.started.clear()

    @property
    def since(self) -> float:
        """From when on what was late of it last counts, on the loop's clock."""
        return 0.0 if self.last is None else self.last.since

    @property
    def placed(self) -> bool:
        """Whether it has its place in the timetable, for all that anybody may know before its tick.

        One that is stopped at its start shows that at its tick.
        """
        return self.started.is_set() or time.monotonic() < self.release

    @property
    def held(self) -> bool:
        """Whether it starts only when an owner has looked at what was late."""
        return not self.placed and self.barred()

    @property
    def held_up(self) -> bool:
        """Whether its worker has begun it, but only in the second half of its tick."""
        return self.begun is not None and self.begun > self.release - self.tick / 2

    @property
    def allowance(self) -> float:
        """Seconds of processor time that it may take; 0: until its tick, nobody is behind it."""
        return self.bound if self.bound < self.tick else 0.0
