"""Workers, and the public timetable by which questions are handed to them.

A *place* is a worker with a timetable. It takes the next question, hands it to its worker, and
is taken for the question's bound, a number known before the run, whether the run is quicker
or not; the outcome leaves at the question's tick, which is not before that. So who waits how
long is a function of plans and of the moments of asking. Questions are taken analyst by
analyst in turn, each analyst's own in their order.

*Nobody is promised what is not there.* Where runs compute in their workers, a place begins a bound
only with one of as many *seats* as the machine has processors, which all policies of a service
share. A worker has one thread where there are more workers than processors, else no
more than its share of them; and it is ended by its own clock, which counts processor time, as
soon as a run has taken more than its bound :math:`b`. So:

1. As long as workers get the processors, no run is behind another: at most as many are underway as
   there are processors, each has one for itself and is done, or ended, :math:`b` seconds after it
   was started, when its seat goes to the next. By induction that holds for any row of questions,
   any number of workers and whatever the runs find. Such a row makes nobody late. (Where this
   process wakes up late for that moment, two milliseconds at most, and no more than a quarter of
   :math:`b`, are taken off the next one's: by so much a run may be behind the one before, and by no
   more after any row, because each begins at its own moment of the timetable or as soon as its
   worker is free.) An owner who asks for more workers than processors has the seats given on
   sooner, after half a bound at the least: that is what the model gives (:mod:`._ticks`), so the
   same holds for runs that keep to it.
2. What else the machine does lives on what runs leave of their bounds, a half and more of honest
   ones. Where that is not enough the timetable *slips*: at its tick a run has not been begun, or
   only in the second half of it. Then everything that is not begun is taken back, what was begun
   so late gets a new tick, and from then on, until an owner looks, places are taken for twice as
   long. The place that slipped starts nothing before the tick of what its worker is busy with:
   that moment is public, and by then the worker is done or gone, so nothing slips behind the same
   run again. A slip depends on the work of that run, so it is counted as late: once, and not
   for each that waits, because all that anybody sees of it is that moment. If the run then fails,
   that is seen too, and counted too: a run stands for two bits at the most.
3. A run that is ended at its tick was begun in the first half of it: it had four bounds or more.

*Who pays, and who fails.* A run that takes more than its bound, fails for memory or disk, or is
ended at its tick fails, is counted, and its worker is replaced, whatever state it is in. That
begins at a moment that was public when it started (:mod:`._brake`), and until then its place goes
on by the timetable, so whoever waits behind it is told that it failed, and not when. Those start
again, and pay nothing: what they had begun to compute nobody has seen, at most one run of a debit
has an outcome, and that is all there is to see but the moment, which is the counted bit. So does
a run whose worker dies by no hand of ours, at its tick, once; the second time it fails. Where so
much was late that nothing of a size begins any more, what waits is held, unrun, and starts when
an owner has looked.

An engine that computes in another process has no such clock, and no seats: there a place is
taken for the tick itself, so that nobody is ever behind anybody. Where this process itself wakes
up late for a tick, the outcome leaves as late again, done or not: a machine that stands still
for a moment gives its workers that moment back.
"""

from __future__ import annotations

import asyncio
import math
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from multiprocessing.connection import Connection
from typing import Any, Final

from discreet._dataclass import dataclass, field
from discreet._log import note
from discreet.errors import DiscreetError, EngineError
from discreet.service._seats import Seats
from discreet.service._worker import ALLOWANCE, DONE, FAILED, Ready, Setup

_START: Final = 60.0
"""Seconds that a worker may take to open its tables."""
_STANDSTILL: Final = 0.1
"""Seconds behind its clock from which this process takes the machine to have stood still."""
_CLOCK: Final = getattr(signal, "SIGPROF", 0)
_MOVING: Final = 600.0
"""Seconds for which a run tries places whose workers do not come to it."""
_MANY: Final = 1 << 16
"""Seats where processors do not limit how many runs are underway."""
_CAUGHT_UP: Final = 0.25
_MOMENT: Final = 0.002
"""What part of its time at a place a run makes up for, and seconds, where its seat came late."""
_WIDEST: Final = 8.0
"""How much longer than its bound a place is taken, at most: bounds fit under ticks so often."""


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
    """Asked when a worker is about to begin it: whether it waits until an owner has looked."""
    late: Callable[[], None] = lambda: None
    """Called as soon as it is known that something is late for which it stands."""
    barred: Callable[[], bool] = lambda: False
    """Asked by whoever looks: whether it is known to everybody that it is not to run."""
    told: Callable[[], None] = lambda: None
    """Called when everybody may know what is late: at its tick."""
    begin: Callable[[], None] = lambda: None
    """Called before a worker is given it; only then may it begin."""
    started: asyncio.Event = field(default_factory=asyncio.Event)
    waits: float = 0.0
    """Since when it waits for a place, on the loop's clock."""
    seated: float = math.inf
    """When it could have been started by the timetable; known once it has a seat."""
    free: float = 0.0
    """When its place is free again, on the loop's clock; known once it has started."""
    release: float = 0.0
    """When it leaves, by the same clock."""
    begun: float | None = None
    """When its worker began it; None: not since it was started."""
    marks: tuple[float, ...] = ()
    """Moments before its tick at which its failure may change something: see :mod:`._brake`."""
    since: float = 0.0
    """From when on what was late of it last counts; by the same clock."""
    outcome: asyncio.Future[bytes] | None = None
    leaving: asyncio.Task[None] | None = None
    moving: float = 0.0
    """Seconds that it has spent at places whose workers did not come to it."""
    overran: bool = False
    """Whether it was ended by its clock, or at its tick, or for memory."""
    deaths: int = 0
    """How often its worker has died by no hand of ours."""
    lost: bool = False
    """Whether its worker has, and it starts again at its tick."""
    counted: int = 0
    """How often it was counted as late: for itself, for a death, and for slips of the timetable."""
    untold: int = 0
    """Of how many of these nobody may know yet."""

    def overrun(self) -> None:
        """Count it as late, once, from a moment on that was public when it started."""
        if not self.overran:
            self.overran = True
            self.fail()

    def fail(self) -> None:
        """Count a failure of it, or of its worker; see :mod:`._brake` about from when on."""
        now = time.monotonic()
        self.count(min([self.release, *(mark for mark in self.marks if mark >= now)]))

    def count(self, since: float) -> None:
        """Count something late for which it stands."""
        self.since = since
        self.counted += 1
        self.untold += 1
        self.late()

    def tell(self) -> None:
        """Let everybody know what was late: each count once."""
        while self.untold:
            self.untold -= 1
            self.told()

    def wait(self) -> None:
        """Wait to be started, for the first time or again: nothing leaves."""
        if self.leaving is not None and self.leaving is not asyncio.current_task():
            self.leaving.cancel()
        self.started.clear()

    @property
    def placed(self) -> bool:
        """Whether it has its place in the timetable, for all that anybody may know before its tick.

        One that is stopped waits from the moment on at which the run before it ended.
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


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def machine() -> tuple[float, float]:
    """Measure the machine in a process of its own, so that this one never loads the engine."""
    code = "from discreet.service._machine import machine; print(*machine())"
    try:
        said = subprocess.run(  # noqa: S603 - our own interpreter and code
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=_START,
            env=_environment(),
        )
    except subprocess.SubprocessError:
        raise EngineError("the speed of this machine could not be measured") from None
    slowness, busy = map(float, said.stdout.split())
    return slowness, busy


class Worker:
    """A process that reads data, and the line to it."""

    def __init__(self, setup: Setup) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            code = f"from discreet.service._worker import main; main({theirs.fileno()})"
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and code
                [sys.executable, "-c", code],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=None if os.environ.get("DISCREET_TRACEBACK") == "1" else subprocess.DEVNULL,
                env=_environment(),
            )
        self._line = Connection(ours.detach())
        self._line.send_bytes(pickle.dumps(setup))

    def ready(self, patience: float = _START) -> Ready:
        """Wait until the tables are open."""
        if not self._line.poll(patience):
            self.kill()
            raise EngineError("a worker could not open the data in time")
        try:
            said = pickle.loads(self._line.recv_bytes())  # noqa: S301 - from our own process
        except (EOFError, OSError):
            self.kill()
            raise EngineError("a worker ended before it had opened the data") from None
        if isinstance(said, DiscreetError):
            self.kill()
            raise said
        assert isinstance(said, Ready)
        return said

    def ask(self, bill: bytes, allowance: float = 0.0) -> bytes:
        """Run a bill and wait for the outcome; beyond its allowance the worker ends."""
        self._line.send_bytes(ALLOWANCE.pack(allowance) + bill)
        return self._line.recv_bytes()

    @property
    def overran(self) -> bool:
        """Whether it has ended because a run took more than its allowance."""
        self.kill()
        return self._process.returncode == -_CLOCK

    def answer(self, bill: bytes, patience: float) -> bytes | None:
        """Run a bill and wait; None: nothing came in time, and the worker is gone."""
        try:
            self._line.send_bytes(ALLOWANCE.pack(0.0) + bill)
            if self._line.poll(patience):
                return self._line.recv_bytes()
        except (EOFError, OSError):
            pass
        self.kill()
        return None

    def kill(self) -> None:
        """End the process, whatever it does; the line ends with whoever reads it."""
        self._process.kill()
        self._process.wait()


class Turns:
    """What waits for a place: analysts take turns, each with their own questions in order.

    `seats` are processors, shared with other policies; `stretch` is how much longer than its bound
    a run has its place.
    """

    def __init__(self, stretch: float = 1.0) -> None:
        self._waiting: OrderedDict[str, deque[Run]] = OrderedDict()
        self._any = asyncio.Event()
        self.seats = Seats(_MANY)
        self._least = self.stretch = stretch
        self.places: list[Place] = []
        self._held: list[Run] = []

    def put(self, run: Run, *, first: bool = False) -> None:
        """Add a run at the end of its analyst's own; or before everybody's."""
        run.waits = time.monotonic()
        own = self._waiting.setdefault(run.analyst, deque())
        if first:
            own.appendleft(run)
            self._waiting.move_to_end(run.analyst, last=False)
        else:
            own.append(run)
        self._any.set()

    def count(self, analyst: str) -> int:
        """How many of somebody's wait."""
        return len(self._waiting.get(analyst, ()))

    def before(self, analyst: str) -> float:
        """Seconds for which places are taken by what comes before somebody's next question."""
        turn = self.count(analyst) + 1
        bounds = sum(run.bound for own in self._waiting.values() for run in islice(own, turn))
        return self.stretch * bounds

    async def get(self) -> Run:
        """Take the next one, and a seat, and send its analyst to the end of the line."""
        while True:
            while not self._waiting:
                self._any.clear()
                await self._any.wait()
            seated = await self.seats.acquire()
            if self._waiting:
                break
            self.seats.release(seated)  # somebody else was quicker
        analyst, own = self._waiting.popitem(last=False)
        run = own.popleft()
        run.seated = max(seated, run.waits)
        if own:
            self._waiting[analyst] = own
        return run

    def slip(self, run: Run) -> None:
        """Begin the timetable anew, with more room; see the module. It is counted, by a run."""
        run.count(time.monotonic())
        run.tell()  # it is a tick: everybody sees it
        self.stretch = min(2 * self.stretch, _WIDEST * self._least)
        again = [(place, other) for place in self.places for other in place.anew()]
        for place, other in sorted(again, key=lambda x: x[1].free, reverse=True):
            place.back(other)

    def hold(self, run: Run) -> None:
        """Keep a run that is not to begin until an owner has looked."""
        run.wait()
        self._held.append(run)

    def ease(self) -> None:
        """Let what was held start, and take places for bounds alone again: an owner has looked."""
        self.stretch = self._least
        while self._held:
            self.put(self._held.pop(), first=True)


class Place:
    """A worker with a timetable.

    Runs start by the timetable, whether or not the worker has done the one before. See the
    module about whose fault it is that one is late.
    """

    def __init__(self, worker: Worker, setup: Setup, turns: Turns) -> None:
        self._worker = worker
        self._setup = setup
        self._turns = turns
        turns.places.append(self)
        self._started: deque[Run] = deque()
        self._any = asyncio.Event()
        self._open = asyncio.Event()
        """Whether it takes questions: its worker is there, or cannot be had."""
        self._open.set()
        self._away = False
        """Whether its worker is being replaced, or will be as soon as that may be seen."""
        self._until = 0.0
        """When it starts something again, by the loop's clock: after a slip, see the module."""
        self._running: Run | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="worker")
        self._releases: set[asyncio.Task[None]] = set()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to take questions."""
        self._tasks = [asyncio.create_task(self._take()), asyncio.create_task(self._work())]

    async def _take(self) -> None:
        """Start one run after the other, by bounds alone."""
        loop = asyncio.get_running_loop()
        while True:
            await self._open.wait()
            await asyncio.sleep(self._until - loop.time())
            run = await self._turns.get()
            free = loop.time()
            try:
                if self._open.is_set() and self._until <= free:
                    self._start(run)
                    free = run.free  # of this start: there may be another one meanwhile
                    await asyncio.sleep(free - loop.time())
                else:
                    self._turns.put(run, first=True)
            finally:
                self._turns.seats.release(free)

    def _start(self, run: Run) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        run.outcome, run.begun, run.release = loop.create_future(), None, now + run.tick
        taken = min(run.bound * self._turns.stretch, run.tick)
        late = min(max(0.0, now - run.seated), _CAUGHT_UP * taken, _MOMENT)
        run.free = now + taken - (late if taken < run.tick else 0.0)
        over = max(taken, run.bound)  # when whoever keeps to the bound is done
        run.marks, run.lost = (now + over, now + 2 * over), False
        run.started.set()
        self._started.append(run)
        self._any.set()
        run.leaving = asyncio.create_task(self._leave(run))
        self._releases.add(run.leaving)
        run.leaving.add_done_callback(self._releases.discard)

    async def _work(self) -> None:
        """Hand what has started to the worker, as fast as it can."""
        while True:
            while not self._started:
                self._any.clear()
                await self._any.wait()
            run = self._started.popleft()
            outcome = run.outcome
            assert outcome is not None
            if run.stopped():
                self._turns.hold(run)
                continue
            self._running, run.begun = run, asyncio.get_running_loop().time()
            said = await self._said(run)
            self._running = None
            failed = said is None or said[:1] != DONE
            if outcome.done():  # it was ended, by its clock or at its tick
                failed = True
            elif said is None and not (run.overran or run.deaths):
                run.deaths, run.lost = 1, True  # by no hand of ours; it starts again at its tick
                run.fail()
            else:
                if failed:
                    run.overrun()  # of memory or disk: a bit about the data, as being late is
                outcome.set_result(said or FAILED)
            if failed:
                self._away = True
                await asyncio.sleep(run.since - asyncio.get_running_loop().time())
                await self._replace()

    async def _said(self, run: Run) -> bytes | None:
        """Give what the worker says; None: it has ended."""
        loop = asyncio.get_running_loop()
        ask = self._worker.ask
        try:
            run.begin()
            return await loop.run_in_executor(self._thread, ask, run.bill, run.allowance)
        except (EOFError, OSError):
            note("worker gone", policy=self._setup.policy.identity)
        if await loop.run_in_executor(self._thread, lambda: self._worker.overran):
            run.overrun()
            if run.outcome is not None and not run.outcome.done():
                run.outcome.set_result(FAILED)
        return None

    async def _replace(self) -> None:
        """Get another worker; those behind start again."""
        loop = asyncio.get_running_loop()
        self._open.clear()
        while True:
            try:
                self._worker = await loop.run_in_executor(self._thread, self._another)
            except DiscreetError as error:
                note("worker does not start", error, policy=self._setup.policy.identity)
                self._open.set()  # whoever waits too long for it fails in the end
                await asyncio.sleep(5)
            else:
                break
        self._away = False
        self._open.set()
        for run in reversed(self.anew()):
            self.back(run)

    def _another(self) -> Worker:
        self._worker.kill()
        worker = Worker(self._setup)
        worker.ready()
        return worker

    async def _leave(self, run: Run) -> None:
        """Wait for the tick, whatever happens, and let the outcome go."""
        outcome = run.outcome
        assert outcome is not None
        await _tick(run)
        while not (outcome.done() or run.lost) and run.held_up:
            self._slip(run)
            await _tick(run)
        if run.lost:
            run.tell()
            self.back(run)
            if not outcome.done():
                return  # it starts again
        if not outcome.done() and run.begun is None:
            if self._away or self._ending:
                self._started.remove(run)
                self.back(run)
            else:
                self._slip(run)
            if not outcome.done():
                return  # it starts again
        if not outcome.done():
            outcome.set_result(FAILED)
            self._worker.kill()
            run.overrun()
            note("run not done at its tick", policy=self._setup.policy.identity)
        said = outcome.result()
        await run.settle(said[1:].decode() if said[:1] == DONE else None)

    @property
    def _ending(self) -> bool:
        """Whether what its worker has is over, and the worker about to be replaced."""
        outcome = None if self._running is None else self._running.outcome
        return outcome is not None and outcome.done()

    def _slip(self, run: Run) -> None:
        """Let the timetable slip at a run's tick; whatever the worker is busy with stands for it.

        Nothing starts here before that has left.
        """
        ahead = self._running or run
        self._turns.slip(ahead)
        self._until = ahead.release

    def anew(self) -> list[Run]:
        """Give back what has not been begun; what began too late has a new tick, from now on."""
        if self._running is not None and self._running.held_up:
            self._running.release = asyncio.get_running_loop().time() + self._running.tick
        found = list(self._started)
        self._started.clear()
        return found

    def back(self, run: Run) -> None:
        """Let a run start again that did nothing to deserve to fail; unless it has too often."""
        assert run.outcome is not None
        run.moving += run.tick
        if run.moving >= _MOVING:
            run.outcome.set_result(FAILED)
            return
        run.wait()
        self._turns.put(run, first=True)

    async def close(self) -> None:
        """Stop; what is underway is taken up at the next start."""
        for task in (*self._tasks, *self._releases):
            task.cancel()
        self._worker.kill()
        self._thread.shutdown(wait=False, cancel_futures=True)


async def _tick(run: Run) -> None:
    """Wait until a run leaves; where this process stood still, as long again."""
    loop = asyncio.get_running_loop()
    while (left := run.release - loop.time()) > 0:  # noqa: ASYNC110 - it may be put off meanwhile
        await asyncio.sleep(left)
    if (late := loop.time() - run.release) > _STANDSTILL:
        await asyncio.sleep(late)  # whatever kept this process may have kept the worker, too
