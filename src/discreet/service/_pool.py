"""Workers, and the public timetable by which questions are handed to them.

A *place* is a worker with a timetable. It takes the next question, hands it to its worker, and
is taken for the question's bound, a number known before the run, whether the run is quicker
or not; the outcome leaves at the question's tick, which is not before that. So who waits how
long is a function of plans and of the moments of asking. Questions are taken analyst by
analyst in turn, each analyst's own in their order.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
import subprocess
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Final

from discreet._log import note
from discreet.errors import DiscreetError, EngineError
from discreet.plan import Plan
from discreet.service._worker import DONE, Ready, Setup

_START: Final = 60.0
"""Seconds that a worker may take to open its tables."""


@dataclass(slots=True, eq=False)
class Run:
    """One run of plans that are paid for."""

    analyst: str
    plans: tuple[Plan, ...]
    bound: float
    tick: float
    settle: Callable[[str | None], Coroutine[Any, Any, None]]
    """Called at the tick with the outcome; None: it failed, or was not done in time."""
    again: Callable[[], Coroutine[Any, Any, None]]
    """Called before the run begins a second time; raises if that cannot be paid for."""
    started: asyncio.Event = field(default_factory=asyncio.Event)
    release: float = 0.0
    """When it leaves, on the loop's clock; known once it has started."""
    outcome: asyncio.Future[bytes] | None = None
    overran: bool = False
    """Whether it was killed at its tick."""


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def slowness() -> float:
    """Measure the machine in a process of its own, so that this one never loads the engine."""
    code = "from discreet.service._ticks import slowness; print(slowness())"
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
    return float(said.stdout)


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

    def send(self, plans: tuple[Plan, ...]) -> None:
        """Hand over plans to run after those that were sent before."""
        self._line.send_bytes(pickle.dumps(plans))

    def receive(self) -> bytes:
        """Wait for the next outcome."""
        return self._line.recv_bytes()

    def answer(self, plans: tuple[Plan, ...], patience: float) -> bytes | None:
        """Run plans and wait; None: nothing came in time, and the worker is gone."""
        try:
            self.send(plans)
            if self._line.poll(patience):
                return self.receive()
        except (EOFError, OSError):
            pass
        self.kill()
        return None

    def kill(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.wait()
        self._line.close()


class Turns:
    """What waits for a place: analysts take turns, each with their own questions in order."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[Run]] = OrderedDict()
        self._any = asyncio.Event()

    def put(self, run: Run, *, first: bool = False) -> None:
        """Add a run at the end, or at the beginning, of its analyst's own."""
        own = self._waiting.setdefault(run.analyst, deque())
        own.appendleft(run) if first else own.append(run)
        self._any.set()

    def count(self, analyst: str) -> int:
        """How many of somebody's wait."""
        return len(self._waiting.get(analyst, ()))

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
    """A worker with a timetable."""

    def __init__(self, worker: Worker, setup: Setup, turns: Turns) -> None:
        self._worker = worker
        self._setup = setup
        self._turns = turns
        self._underway: deque[Run] = deque()
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="worker")
        self._releases: set[asyncio.Task[None]] = set()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to take questions."""
        self._tasks = [asyncio.create_task(self._take()), asyncio.create_task(self._listen())]

    async def _take(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            run = await self._turns.get()
            run.outcome, run.release = loop.create_future(), loop.time() + run.tick
            run.started.set()
            self._underway.append(run)
            task = asyncio.create_task(self._leave(run))
            self._releases.add(task)
            task.add_done_callback(self._releases.discard)
            free = loop.time() + min(run.bound, run.tick)
            try:
                await loop.run_in_executor(self._threads, self._worker.send, run.plans)
            except (OSError, ValueError):
                note("worker gone", policy=self._setup.policy.identity)
            await asyncio.sleep(free - loop.time())

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                said = await loop.run_in_executor(self._threads, self._worker.receive)
            except (EOFError, OSError):
                await self._replace()
                continue
            if self._underway:
                run = self._underway.popleft()
                if run.outcome is not None and not run.outcome.done():
                    run.outcome.set_result(said)

    async def _replace(self) -> None:
        """Start another worker; what the old one took along and can still be done starts anew."""
        lost, self._underway = self._underway, deque()
        loop = asyncio.get_running_loop()

        def start() -> Worker:
            worker = Worker(self._setup)
            worker.ready()
            return worker

        while True:
            try:
                self._worker = await loop.run_in_executor(self._threads, start)
                break
            except DiscreetError as error:
                note("worker does not start", error, policy=self._setup.policy.identity)
                await asyncio.sleep(5)
        for run in lost:
            if run.outcome is None or run.outcome.done():
                continue
            try:
                await run.again()
            except DiscreetError:
                continue  # it fails at its tick
            self._underway.append(run)
            self._worker.send(run.plans)

    async def _leave(self, run: Run) -> None:
        """Wait for the tick, whatever happens, and let the outcome go."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(run.release - loop.time())
        assert run.outcome is not None
        text = None
        if run.outcome.done():
            said = run.outcome.result()
            text = said[1:].decode() if said[:1] == DONE else None
        else:
            run.outcome.cancel()
            run.overran = True
            note("run not done at its tick", policy=self._setup.policy.identity)
            self._worker.kill()  # whoever listens to it starts another
        await run.settle(text)

    async def close(self) -> None:
        """Stop; what is underway is taken up at the next start."""
        for task in (*self._tasks, *self._releases):
            task.cancel()
        self._worker.kill()
        self._threads.shutdown(wait=False, cancel_futures=True)
