"""Workers, and the public timetable by which questions are handed to them.

A *place* is a worker with a timetable. It takes the next question, hands it to its worker, and
is taken for the question's bound, a number known before the run, whether the run is quicker
or not; the outcome leaves at the question's tick, which is not before that. So who waits how
long is a function of plans and of the moments of asking. Questions are taken analyst by
analyst in turn, each analyst's own in their order.

*Whose fault.* A worker takes its runs one after the other, and is ended by its own clock, which
counts processor time, as soon as a run has taken more than its bound. So that a run fails for
being late depends on its own work alone:

1. Runs :math:`j, …, k` that a place hands to its worker without a pause have been started by the
   timetable :math:`b_j, …, b_{k-1}` apart and take :math:`b_i` of processor time each, at most.
   When run :math:`k` starts, its worker is therefore behind by no more than the time
   for which the machine kept the processor from it, whatever the runs before it have found.
2. One that its worker has not begun at its tick, or has begun in the second half of it, did
   nothing to deserve to fail: it starts again at the next place, and what its worker was busy
   with is counted as late.
3. One that is ended at its tick had half of it, four bounds or more, and its worker to itself.

What a run that is ended leaves behind is the time in which its worker is replaced. Those behind
it start again after that: they tell what its own failure tells, and nothing else. An engine
that computes in another process has no such clock: there a place is taken for the tick itself,
so that nobody is ever behind anybody. Where this process itself wakes up late for
a tick, the outcome leaves as late again, done or not: a machine that stands still for a moment
gives its workers that moment back.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from multiprocessing.connection import Connection
from typing import Any, Final

from discreet._dataclass import dataclass, field
from discreet._log import note
from discreet.errors import DiscreetError, EngineError
from discreet.service._worker import ALLOWANCE, DONE, FAILED, Ready, Setup

_START: Final = 60.0
"""Seconds that a worker may take to open its tables."""
_STANDSTILL: Final = 0.1
"""Seconds behind its clock from which this process takes the machine to have stood still."""
_CLOCK: Final = getattr(signal, "SIGPROF", 0)
_MOVING: Final = 600.0
"""Seconds for which a run tries places whose workers do not come to it."""


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
    again: Callable[[], Coroutine[Any, Any, None]]
    """Called before the run begins a second time; raises if that cannot be paid for."""
    stopped: Callable[[], bool] = lambda: False
    """Asked when a worker is about to begin it: whether it is not to run any more."""
    late: Callable[[], None] = lambda: None
    """Called once, as soon as it is known that it is late."""
    started: asyncio.Event = field(default_factory=asyncio.Event)
    release: float = 0.0
    """When it leaves, on the loop's clock; known once it has started."""
    outcome: asyncio.Future[bytes] | None = None
    moving: float = 0.0
    """Seconds that it has spent at places whose workers did not come to it."""
    overran: bool = False
    """Whether it was ended by its clock, or at its tick, or for memory, or kept others."""
    begun: float = 0.0
    """When its worker began it, on the loop's clock."""

    def overrun(self) -> None:
        """Count it as late, once."""
        if not self.overran:
            self.overran = True
            self.late()

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

    def ready(self) -> Ready:
        """Wait until the tables are open."""
        if not self._line.poll(_START):
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
    """What waits for a place: analysts take turns, each with their own questions in order."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[Run]] = OrderedDict()
        self._any = asyncio.Event()

    def put(self, run: Run, *, first: bool = False) -> None:
        """Add a run at the end of its analyst's own; or before everybody's."""
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
        return sum(run.bound for own in self._waiting.values() for run in islice(own, turn))

    async def get(self) -> Run:
        """Take the next one, and send its analyst to the end of the line."""
        while not self._waiting:
            self._any.clear()
            await self._any.wait()
        analyst, own = self._waiting.popitem(last=False)
        run = own.popleft()
        if own:
            self._waiting[analyst] = own
        return run


class Place:
    """A worker with a timetable.

    Runs start by the timetable, whether or not the worker has done the one before. See the
    module about whose fault it is that one is late.
    """

    def __init__(self, worker: Worker, setup: Setup, turns: Turns) -> None:
        self._worker = worker
        self._setup = setup
        self._turns = turns
        self._started: deque[Run] = deque()
        self._any = asyncio.Event()
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
            run = await self._turns.get()
            now = loop.time()
            run.outcome, run.release = loop.create_future(), now + run.tick
            run.started.set()
            self._started.append(run)
            self._any.set()
            task = asyncio.create_task(self._leave(run))
            self._releases.add(task)
            task.add_done_callback(self._releases.discard)
            await asyncio.sleep(now + min(run.bound, run.tick) - loop.time())

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
                outcome.set_result(FAILED)
                continue
            self._running, run.begun = run, asyncio.get_running_loop().time()
            said = await self._said(run)
            if said is None and not outcome.done() and not run.overran:  # not by our hand
                try:
                    await run.again()
                    said = None if outcome.done() else await self._said(run)
                except DiscreetError:
                    pass  # it fails at its tick
            if self._running is run:
                self._running = None
            if not outcome.done():
                if said is None or said[:1] != DONE:
                    run.overrun()  # of memory or disk: a bit about the data, as being late is
                outcome.set_result(FAILED if said is None else said)

    async def _said(self, run: Run) -> bytes | None:
        """Give what the worker says; None: it has ended, and there is another one."""
        loop = asyncio.get_running_loop()
        ask = self._worker.ask
        try:
            return await loop.run_in_executor(self._thread, ask, run.bill, run.allowance)
        except (EOFError, OSError):
            note("worker gone", policy=self._setup.policy.identity)
        if await loop.run_in_executor(self._thread, lambda: self._worker.overran):
            run.overrun()
        while True:
            try:
                self._worker = await loop.run_in_executor(self._thread, self._another)
            except DiscreetError as error:
                note("worker does not start", error, policy=self._setup.policy.identity)
                await asyncio.sleep(5)
            else:
                return None

    def _another(self) -> Worker:
        worker = Worker(self._setup)
        worker.ready()
        return worker

    async def _leave(self, run: Run) -> None:
        """Wait for the tick, whatever happens, and let the outcome go."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(run.release - loop.time())
        late = loop.time() - run.release
        if late > _STANDSTILL:  # whatever kept this process waiting may have kept the worker, too
            await asyncio.sleep(late)
        assert run.outcome is not None
        text = None
        if run.outcome.done():
            said = run.outcome.result()
            text = said[1:].decode() if said[:1] == DONE else None
        elif run in self._started:
            self._started.remove(run)
            if self._running is not None and self._running is not run:
                self._running.overrun()
            if self._moved(run):
                return
        else:
            run.outcome.cancel()
            self._worker.kill()
            if self._running is run:
                self._running = None  # while there is no worker, nobody is kept by this run
            if run.begun > run.release - run.tick / 2:
                with suppress(DiscreetError):
                    await run.again()
                    if self._moved(run):
                        return
            run.overrun()
            note("run not done at its tick", policy=self._setup.policy.identity)
        await run.settle(text)

    def _moved(self, run: Run) -> bool:
        """Let a run that did nothing to deserve to fail start again, unless it has too often."""
        run.moving += run.tick
        if run.moving >= _MOVING:
            return False
        run.started.clear()
        self._turns.put(run, first=True)
        return True

    async def close(self) -> None:
        """Stop; what is underway is taken up at the next start."""
        for task in (*self._tasks, *self._releases):
            task.cancel()
        self._worker.kill()
        self._thread.shutdown(wait=False, cancel_futures=True)
