"""A worker: the one process of a service that reads data.

A run that takes more processor time than it was given ends the process, by the system's own
clock, which no engine and no lock can hold up: whoever waits behind it is not kept by it.
It opens the tables of one policy, describes them (names and types), and then runs what it is
sent: bills that were paid, by the statements that were proved before the debit, if what they were
proved by is what it found itself. What goes back is the record, noise included, or one byte that
says "failed"; exact integers never leave it. It ends with the process that started it.
"""

from __future__ import annotations

import gc
import io
import os
import pickle
import queue
import signal
import struct
import sys
import threading
from multiprocessing.connection import Connection
from typing import Any, Final

from discreet import engines
from discreet._dataclass import dataclass
from discreet._log import note
from discreet.curator import Bill, Proved, run_bill
from discreet.errors import DiscreetError
from discreet.policy import Policy

try:
    import resource
except ImportError:  # not on this system: the engine's own limit holds alone
    resource = None  # type: ignore[assignment]  # checked before use

DONE: Final = b"\x01"
FAILED: Final = b"\x00"
ALLOWANCE: Final = struct.Struct("d")
"""Before each bill: seconds of processor time that it may take; 0: no limit of its own."""
_INSIDE: Final = frozenset({"duckdb", "reference"})
"""Engines that compute in the worker's own process."""
_WALL: Final = 1536 << 20
"""Bytes above the engine's own limit at which the operating system says no."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What a worker is started with."""

    policy: Policy
    sources: dict[str, str] | str | None
    memory: int
    spill: str
    timeout: float
    folder: str
    threads: int = 1
    """Of the engine."""
    dummy: bool = False
    """Whether it makes up its tables from the policy, and opens no source."""
    first: bool = False
    """Whether it is the one that sees to it, at a start, that no text is too long for bounds."""


@dataclass(frozen=True, slots=True)
class Ready:
    """What a worker says when its tables are open."""

    description: engines.Description
    clocked: bool = False
    """Whether runs are ended by a clock of their own: their engine computes in this process."""


def main(descriptor: int) -> None:
    """Serve the process at the other end of a socket until it is gone."""
    line = Connection(descriptor)
    setup: Setup = pickle.loads(line.recv_bytes())  # noqa: S301 - from the process that started us
    os.chdir(setup.folder)
    if setup.dummy:
        os.nice(10)  # what is free does not keep those waiting who pay
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (setup.memory + _WALL, resource.RLIM_INFINITY))
    from discreet.service._warm import warm_up  # noqa: PLC0415 - it loads the engine

    try:
        if not setup.dummy:  # nobody waits for a tick there
            warm_up()
        engine = engines.connect(
            _tables(setup), setup.policy, memory_limit=f"{setup.memory >> 20}MiB",
            temp_limit=setup.spill, timeout=setup.timeout, threads=setup.threads,
        )  # fmt: skip
        if setup.first:
            engines.check_lengths(engine, setup.policy)
        clocked = engine.name in _INSIDE and hasattr(signal, "setitimer")
        found = engines.describe(engine, setup.policy)
        line.send_bytes(pickle.dumps(Ready(found, clocked)))
    except DiscreetError as refusal:
        line.send_bytes(pickle.dumps(refusal))
        return
    _serve(line, engine, setup.policy, found.mark)


def _tables(setup: Setup) -> Any:
    if not setup.dummy:
        return setup.sources
    from discreet import release  # noqa: PLC0415 - only for rehearsals

    return release.made_up(setup.policy)


def _serve(line: Connection, engine: engines.Engine, policy: Policy, mark: str) -> None:
    gc.collect()
    gc.freeze()  # what is loaded by now stays: looking at it again would make some run long
    orders: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(line, orders), daemon=True).start()
    while True:
        order = orders.get()
        (allowance,) = ALLOWANCE.unpack_from(order)
        bill, statements = _read(order, mark)
        _allow(allowance)
        outcome = _outcome(bill, engine, policy, statements)
        _allow(0.0)
        line.send_bytes(outcome)


def _read(order: bytes, mark: str) -> tuple[Bill, tuple[str, ...] | None]:
    """Read a bill, and the statements behind it that were proved by what is known here.

    A worker that was started later may have found other tables: it proves what it runs itself.
    """
    stream = io.BytesIO(order)
    stream.seek(ALLOWANCE.size)
    bill: Bill = pickle.load(stream)  # noqa: S301 - from the process that started us
    if stream.tell() == len(order):
        return bill, None
    proved: Proved = pickle.load(stream)  # noqa: S301 - as above
    return bill, proved.statements if proved.mark == mark else None


def _allow(seconds: float) -> None:
    """Have the system end this process after so much processor time, or never (0)."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _listen(line: Connection, orders: queue.SimpleQueue[bytes]) -> None:
    """Take orders while others run; end when nobody is there to get an outcome."""
    try:
        while True:
            orders.put(line.recv_bytes())
    except (EOFError, OSError):
        os._exit(0)


def _outcome(
    bill: Bill, engine: engines.Engine, policy: Policy, statements: tuple[str, ...] | None
) -> bytes:
    try:
        return DONE + run_bill(bill.plans, engine, policy, statements).encode()
    except Exception as error:  # noqa: BLE001 - why it failed is for the owner's log alone
        note("run failed", error, policy=policy.identity)
    return FAILED


if __name__ == "__main__":
    main(int(sys.argv[1]))
