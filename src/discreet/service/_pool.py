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
   same holds for runs that keep to it. Where there are twice as many on a machine that is twice as
   fast as the model's, that is a quarter of a bound; bounds and ticks are as they were.
2. What else the machine does lives on what runs leave of their bounds, a half and more of honest
   ones. Where that is not enough the timetable *slips*: at its tick a run has not been begun, or
   only in the second half of it. Then what its place has not begun is taken back and starts again,
   what was begun so late gets a new tick, and from then on, until an owner looks, places are taken
   for twice as long. The place that slipped starts nothing before the tick of what its worker is
   busy with: that moment is public, and by then the worker is done or gone, so nothing slips behind
   the same run again. Every other place lays its *row* out anew: all that has started there and not
   left, one after the other from that moment on, by bounds and with whole ticks, whatever of it is
   begun or done. So nothing is seen of its worker, which has as much room again: a machine that
   stood still is one slip, and not one for each place. A slip depends on the work of one run, so it
   is counted as late: once, and not for each that waits, because all that anybody sees is that
   moment. If the run then fails, that is seen too, and counted too (:mod:`._brake`).
3. A run that is ended at its tick was begun in the first half of it: it had four bounds or more.

*How far ticks are put off.* By slips alone, each of them counted, so no more than :math:`3 + w`
times between two looks of an owner. What is in a row has started within its longest tick
:math:`L`, each when the one before had had three quarters of its time, so these times come to
:math:`L/3` more at most, and the last one's is :math:`L` at most. With :math:`s` times the room,
2, then 4 or 8, nothing leaves later after a slip than its tick and :math:`7sL/3` (and so many
times that as there are places for a seat), nor sooner than it would have. A lag that goes on puts
off nothing: what is not begun at its new tick is the next slip. (A timetable that was put off by
each standstill that was noticed, uncounted, ran away under a steady lag, and how long a run took
moved the ticks of others. Here only what is counted moves any.)

*Who pays, and who fails.* A run that takes more than its bound, fails for memory or disk, or is
ended at its tick fails, is counted, and its worker is replaced, whatever state it is in. That
begins at a moment that was public when it started (:mod:`._brake`), and until then its place goes
on by the timetable, so whoever waits behind it is told that it failed, and not when. Those start
again, and pay nothing: what they had begun to compute nobody has seen, at most one run of a debit
has an outcome, and that is all there is to see but the moment, which is the counted bit. So does
a run whose worker dies by no hand of ours, at its tick, once; the second time it fails. Where so
much was late that nothing of a size starts any more, what waits is held, unrun, and starts when
an owner has looked. What is held is decided when it would start by the timetable, and it starts
in that order then: neither tells how far a worker had got.

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

from discreet._log import note
from discreet.errors import DiscreetError, EngineError
from discreet.service import _ticks
from discreet.service._run import AFTER, Run
from discreet.service._seats import Seats
from discreet.service._worker import ALLOWANCE, DONE, FAILED, Ready, Setup

_START: Final = 60.0
"""Seconds that a worker may take to open its tables, at least."""
_PATIENT: Final = 4
"""Times as long as the first one of its place another one may take."""
_SPARE: Final = 2
"""Times as long it takes, for all to see, if it takes no longer."""
_STANDSTILL: Final = 0.1
"""Seconds behind its clock from which this process takes the machine to have stood still."""
_CLOCK: Final = getattr(signal, "SIGPROF", 0)
_MOVING: Final = 600.0
"""Seconds for which a run tries places whose workers cannot be had."""
_AGAIN: Final = 5.0
"""Seconds after which what the system did not give is asked for again."""
_MANY: Final = 1 << 16
"""Seats where processors do not limit how many runs are underway."""
_CAUGHT_UP: Final = 0.25
_MOMENT: Final = 0.002
"""What part of its time at a place a run makes up for, and seconds, where its seat came late."""
_WIDEST: Final = 8.0
"""How much longer than its bound a place is taken, at most: bounds fit under ticks so often."""


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def machine() -> tuple[float, float]:
    """Measure the machine in a process of its own, so that this one never loads the engine."""
    code = "from discreet.service._machine import machine; print(*machine())"
    try:
        output = subprocess.run(  # noqa: S603 - our own interpreter and code
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=_START,
            env=_environment(),
        )
    except subprocess.SubprocessError:
        raise EngineError("the speed of this machine could not be measured") from None
    slowness, busy = map(float, output.stdout.split())
    return slowness, busy


class Worker:
    """A process that reads data, and the line to it."""

    took = 0.0
    """Seconds for which its tables were being opened."""

    def __init__(self, setup: Setup) -> None:
        self._made = time.monotonic()
        verbose = os.environ.get("DISCREET_TRACEBACK") == "1"
        try:
            ours, theirs = socket.socketpair()
            with ours, theirs:
                code = f"from discreet.service._worker import main; main({theirs.fileno()})"
                self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and code
                    [sys.executable, "-c", code],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=None if verbose else subprocess.DEVNULL,
                    env=_environment(),
                )
                self._line = Connection(ours.detach())
        except OSError as error:
            raise EngineError(f"a worker could not be started: {error.strerror}") from None
        try:
            self._line.send_bytes(pickle.dumps(setup))
        except OSError:
            self.kill()
            raise EngineError("a worker ended before it was told what to do") from None

    def ready(self, patience: float = _START) -> Ready:
        """Wait until the tables are open."""
        if not self._line.poll(patience):
            self.kill()
            raise EngineError("a worker could not open the data in time")
        try:
            reply = pickle.loads(self._line.recv_bytes())  # noqa: S301 - from our own process
        except (EOFError, OSError):
            self.kill()
            raise EngineError("a worker ended before it had opened the data") from None
        if isinstance(reply, DiscreetError):
            self.kill()
            raise reply
        assert isinstance(reply, Ready)
        self.took = time.monotonic() - self._made
        return reply

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

    def end(self) -> None:
        """End the process, whatever it does, and wait for nothing.

        How long that takes follows from the memory that it holds, so on the loop nobody waits
        for it: whoever reads the line does, in a thread, by `overran`.
        """
        self._process.kill()

    def kill(self) -> None:
        """End the process and wait until it is gone; the line ends with whoever reads it."""
        self.end()
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
        self._backlog: list[Run] = []

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
        return self.stretch * bounds + sum(place.rests for place in self.places)

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

    def slip(self, at: Place, run: Run) -> None:
        """Begin the timetable anew, with more room; see the module. It is counted, by a run."""
        run.count(time.monotonic())
        run.tell()  # it is a tick: everybody sees it
        self.stretch = min(2 * self.stretch, _WIDEST * self._least)
        for place in self.places:
            if place is not at:
                place.lay()
        at.again()

    @property
    def crowd(self) -> float:
        """How many places there are for each seat, one at least."""
        return max(1.0, len(self.places) / self.seats.many)

    def hold(self, run: Run) -> None:
        """Keep a run that does not start until an owner has looked: in the order of starts."""
        run.wait()
        self._backlog.append(run)

    def ease(self) -> None:
        """Let what was held start, and take places for bounds alone again: an owner has looked."""
        self.stretch = self._least
        while self._backlog:
            self.put(self._backlog.pop(), first=True)


class Place:
    """A worker with a timetable.

    Runs start by the timetable, whether or not the worker has done the one before. See the
    module about whose fault it is that one is late.
    """

    def __init__(self, worker: Worker, setup: Setup, turns: Turns, *, opening: float = 0.0) -> None:
        self._worker = worker
        self._setup = setup
        self._opening = opening
        """Seconds that the first worker took to open its tables: others have time by that."""
        self._turns = turns
        turns.places.append(self)
        self._started: deque[Run] = deque()
        """What has started and, in truth, not been begun."""
        self._row: dict[Run, None] = {}
        """What has started and not left, in this order: public, unlike what is in truth done."""
        self._any = asyncio.Event()
        self._open = asyncio.Event()
        """Whether it takes questions: its worker is there, or cannot be had."""
        self._open.set()
        self._away = False
        """Whether its worker is being replaced, or will be as soon as that may be seen."""
        self._missing = False
        """Whether another worker could not be had."""
        self._free = 0.0
        """When it is free by the timetable, on the loop's clock."""
        self._until = 0.0
        """When it starts something again: after a slip, see the module."""
        self._ahead: Run | None = None
        """Behind which nothing starts here before that has left: what a slip stands for."""
        self._running: Run | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="worker")
        self._releases: set[asyncio.Task[None]] = set()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to take questions."""
        self._tasks = [asyncio.create_task(self._on(x)) for x in (self._take, self._work)]

    async def _on(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Go on with something whatever happens in it: what a place owes is paid for."""
        while True:
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - whatever it is, nobody else would know
                note("place begins again", error, policy=self._setup.policy.identity)
                await asyncio.sleep(_AGAIN)

    @property
    def missing(self) -> bool:
        """Whether it has no worker, because another one could not be had."""
        return self._missing

    @property
    def rests(self) -> float:
        """Seconds for which it starts nothing, because something has slipped."""
        return max(0.0, self._until - time.monotonic())

    async def _take(self) -> None:
        """Start one run after the other, by bounds alone."""
        loop = asyncio.get_running_loop()
        while True:
            await self._open.wait()
            while (rest := self._until - loop.time()) > 0:  # noqa: ASYNC110 - it may be put off
                await asyncio.sleep(rest)
            run = await self._turns.get()
            free = loop.time()
            try:
                if self._open.is_set() and self._until <= free:
                    self._start(run)
                    while (rest := self._free - loop.time()) > 0:  # noqa: ASYNC110 - it may be put off
                        await asyncio.sleep(rest)
                    free = self._free
                else:
                    self._turns.put(run, first=True)
            finally:
                self._turns.seats.release(free)

    def _start(self, run: Run) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        span = min(run.bound * self._turns.stretch, run.tick)
        lag = min(max(0.0, now - run.seated), _CAUGHT_UP * span, _MOMENT)
        run.start(now, span)
        # behind a tick, so that clocks do not decide which comes first: its end, or the next start
        self._free = now + span + (-lag if span < run.tick else AFTER)
        if run.stopped():  # asked now, and not when a worker comes to it: that is nobody's business
            self._turns.hold(run)
            return
        run.started.set()
        self._started.append(run)
        self._row[run] = None
        self._any.set()
        run.leaving = asyncio.create_task(self._leave(run))
        self._releases.add(run.leaving)
        run.leaving.add_done_callback(self._releases.discard)

    async def _work(self) -> None:
        """Hand what has started to the worker, as fast as it can."""
        self._running = None
        if self._away:  # something unheard of has come between
            await self._replace()
        while True:
            while not self._started:
                self._any.clear()
                await self._any.wait()
            run = self._started.popleft()
            outcome = run.outcome
            assert outcome is not None
            self._running, run.begun = run, asyncio.get_running_loop().time()
            try:
                reply = await self._reply(run)
            except Exception as error:  # noqa: BLE001 - it fails as one without memory does
                note("run failed", error, policy=self._setup.policy.identity)
                reply = FAILED
            self._running = None
            failed = reply is None or reply[:1] != DONE
            if outcome.done():  # it was ended, by its clock or at its tick
                failed = True
            elif reply is None and not (run.overran or run.deaths):
                run.deaths, run.lost = 1, True  # by no hand of ours; it starts again at its tick
                run.fail()
            else:
                if failed:
                    run.overrun()  # of memory or disk: a bit about the data, as being late is
                outcome.set_result(reply or FAILED)
            if failed:
                self._away = True
                self._worker.end()  # its memory is freed by the time at which that may show
                await run.until_effect()
                await self._replace()

    async def _reply(self, run: Run) -> bytes | None:
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
        since = loop.time()
        self._open.clear()
        while True:
            try:
                self._worker = await loop.run_in_executor(self._thread, self._another)
            except Exception as error:  # noqa: BLE001 - no reason is one to stop trying
                note("worker does not start", error, policy=self._setup.policy.identity)
                self._missing = True
                self._open.set()  # whoever waits too long for it fails in the end
                await asyncio.sleep(_AGAIN)
            else:
                break
        # how long the tables took to open follows from their rows: it shows in steps alone
        shown = since + _step(max(_SPARE * self._opening, loop.time() - since))
        await asyncio.sleep(max(0.0, shown - loop.time()))
        self._away = self._missing = False
        self._open.set()
        self.again()

    def _another(self) -> Worker:
        self._worker.kill()
        worker = Worker(self._setup)
        worker.ready(max(_START, _PATIENT * self._opening))
        return worker

    async def _leave(self, run: Run) -> None:
        """Wait for the tick, whatever happens, and let the outcome go."""
        outcome = run.outcome
        assert outcome is not None
        await _tick(run)
        while not (outcome.done() or run.lost) and run.held_up:
            self._slip(run)
            await _tick(run)
        self._row.pop(run, None)
        run.leave()
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
            self._worker.end()
            run.overrun()
            note("run not done at its tick", policy=self._setup.policy.identity)
        reply = outcome.result()
        await run.settle(reply[1:].decode() if reply[:1] == DONE else None)

    @property
    def _ending(self) -> bool:
        """Whether what its worker has is over, and the worker about to be replaced."""
        outcome = None if self._running is None else self._running.outcome
        return outcome is not None and outcome.done()

    def _slip(self, run: Run) -> None:
        """Let the timetable slip at a run's tick; whatever the worker is busy with stands for it.

        Nothing starts here before that has left.
        """
        self._ahead = self._running or run
        self._turns.slip(self, self._ahead)
        self._until = self._ahead.release + AFTER

    def lay(self) -> None:
        """Lay out anew, from now on, all that has started here and not left.

        By bounds and ticks alone, done or not, begun or not: after a slip of another place.
        """
        now = start = asyncio.get_running_loop().time()
        for run in self._row:
            span = min(run.bound * self._turns.stretch * self._turns.crowd, run.tick)
            run.lay(now, start, span)
            start += span
        self._free = max(self._free, start)
        self._until = max(self._until, start)
        if self._ahead in self._row:
            self._until = max(self._until, self._ahead.release + AFTER)

    def again(self) -> None:
        """Let all start again that has not been begun; what began too late has a new tick."""
        if self._running is not None and self._running.held_up:
            self._running.release = asyncio.get_running_loop().time() + self._running.tick
        while self._started:
            run = self._started.pop()
            self._row.pop(run, None)
            self.back(run)

    def back(self, run: Run) -> None:
        """Let a run start again that did nothing to deserve to fail.

        Unless no worker could be had for it for too long: other people's failures are no reason.
        """
        assert run.outcome is not None
        if self._missing:
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


def _step(seconds: float) -> float:
    """Round seconds up to those after which something may be seen; none stay none."""
    last = _ticks.GRID[-1]
    steps = (0.0, *_ticks.GRID)
    return next((s for s in steps if s >= seconds), math.ceil(seconds / last) * last)


async def _tick(run: Run) -> None:
    """Wait until a run leaves; where this process stood still, as long again."""
    loop = asyncio.get_running_loop()
    while True:
        while (wait := run.release - loop.time()) > 0:  # noqa: ASYNC110 - it may be put off meanwhile
            await asyncio.sleep(wait)
        release = run.release
        if (lag := loop.time() - release) > _STANDSTILL:
            await asyncio.sleep(lag)  # whatever kept this process may have kept the worker, too
        if run.release == release:
            return
