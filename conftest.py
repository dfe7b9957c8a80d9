"""Every test and doctest has a state directory, ledgers and a noise source of its own.

Chance
------
A test that fails now and then teaches people to look away. So noise in a test comes
from a stream that is a function of the test's name (of a shared fixture's, in that fixture):
the run is the same every time.
Tests that need fresh entropy say so, and how often they fail though all is well::

    @pytest.mark.fresh(1e-10)

These probabilities, added up over everything collected, must not pass 1e-6, or nothing
runs. ``DISCREET_FRESH=1`` gives every test fresh entropy (``make test-long`` does).

Races
-----
Whatever starts a process or several threads, sends a signal, opens a socket or talks to
PostgreSQL depends on more than its code. Such tests are marked ``races``, so that exactly
these can be run many times (``pytest -m "races and not long"``). Who forgets is told: an
audit hook watches every test. Those who wait or read a clock mark themselves.
"""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestItem

from discreet._errand import NAME, Errand
from discreet.engines import TIME_LIMIT
from discreet.noise import _deterministic, _entropy

FALSE_ALARMS = 1e-6
"""Most that the chances of a false alarm may add up to in one run."""

FRESH = bool(os.environ.get("DISCREET_FRESH"))


class _SameEachTime(_deterministic.DeterministicSource):
    """A repeatable source whose draws are not marked: code under test cannot tell."""

    __slots__ = ()
    tainted = False


RACING = frozenset({
    "os.exec", "os.fork", "os.forkpty", "os.kill", "os.killpg", "os.posix_spawn", "os.system",
    "pty.spawn", "signal.pthread_kill", "socket.bind", "socket.connect", "subprocess.Popen",
})  # fmt: skip
"""Audit events of tests that depend on more than their code."""

_raced: set[str] = set()


def _watch(event: str, _arguments: object) -> None:
    if event in RACING:
        _raced.add(event)


def _start(thread: threading.Thread) -> None:
    """Threads are not audited. One helper that is waited for is no race; two are."""
    # the first only waits for the end of a question, the second for what is counted below
    if thread.name not in (TIME_LIMIT, NAME):
        _help(thread)
    _begin(thread)


def _send(errand: Errand) -> None:
    """Count as a helper what a thread does that outlives it."""
    _help(errand)
    _hand_over(errand)


def _help(helper: threading.Thread | Errand) -> None:
    _helpers[:] = [h for h in _helpers if h.is_alive()]
    if _helpers:
        _raced.add("threading.Thread")
    _helpers.append(helper)


_helpers: list[threading.Thread | Errand] = []
_hand_over = Errand.start
Errand.start = _send  # type: ignore[method-assign]
_begin = threading.Thread.start
threading.Thread.start = _start  # type: ignore[method-assign]
sys.addaudithook(_watch)


@pytest.fixture(autouse=True)
def _races_are_marked(request: pytest.FixtureRequest) -> Iterator[None]:
    """Refuse a test that races and does not say so."""
    _raced.clear()
    _helpers.clear()
    yield
    if unmarked(request.node):
        pytest.fail(f"{', '.join(sorted(_raced))}: mark this test with pytest.mark.races")


def unmarked(item: pytest.Item) -> bool:
    """Return whether a test that has just run races, and does not say so.

    With fresh entropy everywhere nothing repeats itself, and audits draw in many threads.
    """
    if isinstance(item, DoctestItem):  # an example has no place for a mark
        return False
    return bool(_raced) and not FRESH and item.get_closest_marker("races") is None


@pytest.fixture(autouse=True)
def _noise_of_its_own(request: pytest.FixtureRequest) -> Iterator[None]:
    """Give a test the same noise in every run, unless it asks for fresh entropy."""
    if FRESH or request.node.get_closest_marker("fresh"):
        yield
        return
    token = _entropy.OVERRIDE.set(_SameEachTime(request.node.nodeid))
    yield
    _entropy.OVERRIDE.reset(token)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Give what several tests share noise of its own: it is made before any test's."""
    if FRESH or fixturedef.scope == "function":
        return (yield)
    name = f"{fixturedef.baseid}::{fixturedef.argname}[{request.param_index}]"
    token = _entropy.OVERRIDE.set(_SameEachTime(name))
    try:
        return (yield)
    finally:
        _entropy.OVERRIDE.reset(token)


def false_alarm(item: pytest.Item) -> float:
    """Return what a test states: the chance that it fails though all is well."""
    marker = item.get_closest_marker("fresh")
    return 0.0 if marker is None else float(marker.args[0])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a suite (without its long runs) whose false alarms add up to too much."""
    for item in items:
        if "postgres_url" in getattr(item, "fixturenames", ()) or "tests/ledger/" in item.nodeid:
            item.add_marker("races")
    total = math.fsum(false_alarm(i) for i in items if not i.get_closest_marker("long"))
    if total > FALSE_ALARMS:
        raise pytest.UsageError(f"false alarms add up to {total:.2g}, more than {FALSE_ALARMS}")


@pytest.fixture(autouse=True)
def _own_ledgers(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[None]:
    """Let no test see what another one, or the user, has spent."""
    # the folder is made by those who write into it
    state = Path(tmp_path_factory.getbasetemp()) / "state" / str(abs(hash(request.node.nodeid)))
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    before = set(_books())
    yield
    for policy in set(_books()) - before:
        del _books()[policy]


def _books() -> dict[str, object]:
    """Ledgers in memory, if that module is loaded."""
    memory = sys.modules.get("discreet.ledger._memory")
    return {} if memory is None else memory._BOOKS  # noqa: SLF001 - as if the process had ended
