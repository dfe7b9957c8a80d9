"""From policies to a running service."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import uvicorn

from discreet import engines
from discreet import policy as pol
from discreet._dataclass import dataclass, replace
from discreet._exact import decimal, show
from discreet.curator import Counter, open_curator
from discreet.errors import ParameterError
from discreet.service import _ticks
from discreet.service._api import House
from discreet.service._app import build
from discreet.service._connection import ALL, Connection
from discreet.service._desk import UNDECLARED, Desk
from discreet.service._home import Home
from discreet.service._http import App
from discreet.service._keys import Keys
from discreet.service._machine import Crowd, processors
from discreet.service._oidc import Provider, rules
from discreet.service._pool import Place, Turns, Worker, machine
from discreet.service._rehearsal import Rehearsal
from discreet.service._seats import Seats
from discreet.service._sessions import Sessions
from discreet.service._sign import Signer
from discreet.service._worker import Setup

_CONNECTIONS: Final = 512
_DESCRIPTORS: Final = 8 * ALL
_HEAPS: Final = -8
"""``M_ARENA_MAX`` of the GNU C library."""
_LOOK: Final = 600.0
"""Seconds that workers may take to open their tables at a start, and one to look through them."""
_YOUNG: Final = 10_000
"""Objects that come to be before somebody looks for what holds on to itself."""
_CROWD: Final = 4
"""Workers for each processor, at most: ticks have more slack than that."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a service runs.

    ``workers`` is the number of processes that read the data of each policy, ``memory`` their
    limit in MiB, ``spill`` what they may write to disk; ``undeclared`` the seconds after
    which answers leave where no size is declared. ``proxy`` names the address of a proxy
    whose word about addresses is believed. ``cap`` is the ε of one assistant's conversation,
    ``oidc`` a file with rules of sign-in.
    """

    host: str = "127.0.0.1"
    port: int = 8350
    workers: int = 2
    memory: int = 2048
    spill: str = "20GB"
    undeclared: float = UNDECLARED
    ledger: str | None = None
    source: str | None = None
    proxy: str | None = None
    cap: str = "0.2"
    oidc: Path | None = None


@contextmanager
def opened(policies: Sequence[Path], home: Home, options: Options) -> Iterator[House]:
    """Open policies, ledgers and workers; close them at the end."""
    if not policies:
        raise ParameterError("a service needs a policy", hint="discreet serve people.toml")
    most = _CROWD * max(1, int(processors()))
    if options.workers > most:
        raise ParameterError(
            f"{options.workers} workers on {most // _CROWD} processors would keep each other from "
            "being done in time",
            hint=f"--workers {most}",
        )
    if len(policies) > 1 and (options.ledger or options.source):
        raise ParameterError("with several policies, each states its own source and ledger")
    with ExitStack() as stack:
        stack.enter_context(home.alone())
        # measured before workers are there to be in each other's way
        crowd = Crowd(machine(), processors(), options.workers * len(policies), len(policies))
        seats = Seats(crowd.seats)
        desks: dict[str, Desk] = {}
        for path in policies:
            desk = _desk(path, home, options, crowd, stack)
            if desk.clocked:
                desk.turns.seats = seats
            if desk.name in desks:
                raise ParameterError(f"two policies are called {desk.name!r}")
            desks[desk.name] = desk
        keys = Keys(home)
        house = House(keys, desks, Signer(home.signing_key()), Sessions(home, keys))
        house.cap = show(decimal(options.cap, "cap"))
        if options.oidc is not None:
            house.oidc = Provider(rules(options.oidc), home, keys)
        yield house


def _desk(path: Path, home: Home, options: Options, crowd: Crowd, stack: ExitStack) -> Desk:
    policy = pol.load(path)
    setup = Setup(
        policy, options.source, options.memory << 20, options.spill, _ticks.GRID[-1],
        str(path.resolve().parent), crowd.threads,
    )  # fmt: skip
    # once for each start, by one of them: a refusal later would itself tell something
    workers = [Worker(replace(setup, first=i == 0)) for i in range(options.workers)]
    for worker in workers:
        stack.callback(worker.kill)
    reports = [worker.ready(_LOOK) for worker in workers]
    engine = engines.Described(reports[0].description, policy)
    curator = open_curator(options.source, path, ledger=options.ledger, engine=engine)
    _, busy = crowd.speed
    desk = Desk(Counter(curator), home, crowd.slowness, options.undeclared, busy=busy)
    desk.clocked = all(ready.clocked for ready in reports)
    if desk.clocked:
        desk.turns = Turns(stretch=crowd.stretch)
        desk.abreast = crowd.processors / crowd.policies
        desk.memory, desk.threads = setup.memory, setup.threads
    desk.rehearsal = Rehearsal(setup)
    desk.places = [Place(w, setup, desk.turns, opening=w.took) for w in workers]
    return desk


def serve(
    policies: Sequence[Path],
    home: Home,
    options: Options,
    started: Callable[[str], None],
    draft: Callable[[str, str], str] | None = None,
) -> None:
    """Serve until a signal comes; `started` is told the address, `draft` drafts policies."""
    keep_from_dumps()
    share_heap()
    have_descriptors()
    with opened(policies, home, options) as house, _bound(options) as listener:
        house.draft = draft
        host, port = listener.getsockname()[:2]
        address = f"[{host}]" if ":" in host else host
        gc.collect()
        gc.freeze()  # what is loaded by now stays: looking at it again and again takes a tenth
        gc.set_threshold(_YOUNG)  # what questions underway need is no garbage: it is not looked at
        started(f"http://{address}:{port}")
        run(build(house), listener, options)


@contextmanager
def _bound(options: Options) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    # named, or the loop does not know that it is TCP and lets each response wait for an
    # acknowledgement of its headers, which clients put off for 40 ms
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with contextlib.closing(listener):
        try:
            listener.bind((options.host, options.port))
        except OSError as error:
            raise ParameterError(
                f"cannot listen on {options.host} port {options.port}: {error.strerror}",
                hint="--port 0 takes a free one",
            ) from None
        listener.listen(_CONNECTIONS)
        yield listener


def run(app: App, listener: socket.socket, options: Options) -> None:
    """Run the server: no log of requests, no word of proxies that are not named."""
    config = uvicorn.Config(
        app, access_log=False, log_config=None, server_header=False, lifespan="on",
        proxy_headers=options.proxy is not None, forwarded_allow_ips=options.proxy or "",
        timeout_keep_alive=5, limit_concurrency=ALL, http=Connection,
        timeout_graceful_shutdown=5, ws="none", backlog=_CONNECTIONS,
        loop="asyncio",  # another one, if it is installed, has a clock of its own: ticks need one
    )  # fmt: skip
    server: Any = uvicorn.Server(config)
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[listener])
    if not server.started:
        raise ParameterError("the service could not start; the owner's log says more")


def share_heap() -> None:
    """Let all threads have one heap, where the system's library gives each its own.

    What one thread lets go, no other one would use: over ten thousand questions the heaps of
    forty threads grew by thirty mebibytes, while what was in use did not grow at all.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):  # other libraries have one
        ctypes.CDLL(None).mallopt(_HEAPS, 1)


def have_descriptors() -> None:
    """Let connections leave descriptors for workers, which are replaced when they have failed."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415 - not on every system

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
        if soft != resource.RLIM_INFINITY and soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def keep_from_dumps() -> None:
    """Keep secrets of this process, as its signing key, out of core dumps and others' files."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415 - not on every system

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o077)
