"""Tests that are collected once and run in a fork for every fault.

Collecting costs a hundred times more than the few tests that see a fault, so it is done once, by
a plugin that takes the place of pytest's own loop. A fault inside a function is planted by
giving the function another code object, in the fork alone; one that runs when its module is
imported needs a program of its own.
"""

from __future__ import annotations

import gc
import importlib
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import _lru_cache_wrapper
from pathlib import Path
from types import CodeType, FrameType, FunctionType

import pytest

from mutants._change import Mutant

OPTIONS = ("-q", "-s", "--tb=line", "-p", "no:cacheprovider", "-m", "not long")
_PATIENCE = 20.0
"""Seconds after which a test is too slow to be run for every fault."""
_ROOM = 12 << 30
"""Bytes of addresses that a fork may use: some faults ask for all the memory there is."""
UNCLEAR = 78
"""Exit code of a run that used little processor time and did not end."""


class TooSlow(BaseException):
    """A test has used up its time (no ``Exception``: tests catch those)."""


class Suite:
    """All tests of a tree, and the functions that are loaded."""

    def __init__(self, tree: Path, log: Path, work: Callable[[Suite], None]) -> None:
        self._tree, self._log, self._work = tree, log, work
        self._session: pytest.Session
        self.items: dict[str, pytest.Item] = {}
        self._functions: dict[str, list[FunctionType]] = {}
        self._caches: list[_lru_cache_wrapper[object]] = []
        self._lines = _Lines()
        self._shared: dict[int, dict[str, int]] = {}
        self._failed = False

    # -- hooks of pytest ---------------------------------------------------------------

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out what a program of its own answers: a fault in a fork does not reach it."""
        servers = {"service", "start_service", "browser", "page"}
        items[:] = [i for i in items if not servers & set(getattr(i, "fixturenames", ()))]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Do the work instead of running every test."""
        if session.testsfailed:
            raise session.Interrupted("some tests cannot be collected")
        self._session = session
        self.items = {item.nodeid: item for item in session.items}
        for path in sorted((self._tree / "src/discreet").rglob("_*.py")):
            if path.name not in ("__init__.py", "__main__.py"):  # what comes later has no fault
                parts = path.relative_to(self._tree / "src").with_suffix("").parts
                importlib.import_module(".".join(parts))
        for thing in gc.get_objects():
            if isinstance(thing, FunctionType) and "/discreet/" in thing.__code__.co_filename:
                self._functions.setdefault(thing.__code__.co_filename, []).append(thing)
            elif isinstance(thing, _lru_cache_wrapper):
                self._caches.append(thing)
        gc.freeze()
        self._work(self)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Name what failed, for the log and for the map."""
        if report.failed:
            self._failed = True
            print(f"\nFAILED {report.nodeid}\n{report.longreprtext[-500:]}", flush=True)

    # -- forks -------------------------------------------------------------------------

    def forked(self, job: Callable[[], int], seconds: float) -> tuple[int | None, str]:
        """Do a job in a fork; its exit code (None if time ran out) and the test that failed."""
        child = os.fork()
        if child == 0:
            self._child(job, seconds)
        ends = time.monotonic() + 20 * seconds
        while time.monotonic() < ends:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                with suppress(ProcessLookupError):  # a server that a test has left behind
                    os.killpg(child, signal.SIGKILL)
                code = os.waitstatus_to_exitcode(status)
                return (None if code == -signal.SIGXCPU else code), _first_failure(self._log)
            time.sleep(0.02)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return UNCLEAR, ""  # asleep, or a busy machine: no verdict

    def _child(self, job: Callable[[], int], seconds: float) -> None:
        os.setsid()
        with self._log.open("wb") as out:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 10))
        resource.setrlimit(resource.RLIMIT_AS, (_ROOM, _ROOM))
        code = 70
        try:
            code = job()
        except BaseException as error:  # noqa: BLE001 - a child must not go on as its parent
            print(f"ERROR {type(error).__name__}: {error}")
        finally:
            sys.stdout.flush()
            os._exit(code)

    def run(self, timed: list[tuple[str, float]]) -> int:
        """Run tests until one fails or takes ten times as long as usual: 1 then, otherwise 0."""
        session = self._session
        session.config.option.maxfail = 1
        signal.signal(signal.SIGPROF, _stop)
        items = [self.items[name] for name, _ in timed]
        try:
            for i, (item, (_, usual)) in enumerate(zip(items, timed, strict=True)):
                signal.setitimer(signal.ITIMER_PROF, 5 + 10 * usual)
                following = items[i + 1] if i + 1 < len(items) else None
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.testsfailed:
                    break
        except (session.Failed, session.Interrupted, TooSlow):
            return 1
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            session._setupstate.teardown_exact(None)  # noqa: SLF001 - as pytest's own end does
        return int(bool(session.testsfailed))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Iterator[None]:
        """Lines of a fixture that tests share belong to each of them, not only to the first."""
        if fixturedef.scope == "function" or not self._lines.on:
            yield
            return
        outer, _ = self._lines.take(), self._lines.begin()
        yield
        self._shared[id(fixturedef)] = inner = self._lines.take()
        self._lines.begin(_union((outer, inner)))

    def traced(self, names: list[str], critical: frozenset[str], keep: Callable[..., None]) -> int:
        """Run tests once and say which lines of the critical files each reaches."""
        root = str(self._tree / "src/discreet") + "/"
        self._lines.start({root + file: file for file in critical})
        signal.signal(signal.SIGPROF, _stop)  # time of the processor: others use it too
        items = [self.items[name] for name in names]
        for item, following in zip(items, [*items[1:], None], strict=True):
            for cache in self._caches:  # what an earlier test has computed is this one's, too
                if (getattr(cache, "__module__", "") or "").startswith("discreet"):
                    cache.cache_clear()
            self._failed, began = False, time.process_time()
            self._lines.begin()
            signal.setitimer(signal.ITIMER_PROF, _PATIENCE)
            try:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            except TooSlow:
                self._failed = True
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            took = time.process_time() - began
            used = getattr(item, "_fixtureinfo", None)
            fixtures = used.name2fixturedefs.values() if used else ()
            shared = [self._shared[id(f)] for fs in fixtures for f in fs if id(f) in self._shared]
            keep(item.nodeid, _union((self._lines.take(), *shared)), -1.0 if self._failed else took)
        return 0

    # -- faults ------------------------------------------------------------------------

    def plant(self, mutant: Mutant, path: Path) -> bool:
        """Give the functions of a module the code that it has with the fault in it.

        False if it changes no function: then it is in a class or a module, or in what a living
        closure binds.
        """
        text = path.read_text("utf-8")
        old, new = (dict(functions(compile(t, str(path), "exec")))
                    for t in (text, mutant.apply(text)))  # fmt: skip
        planted = False
        place = {(name, code.co_firstlineno): (name, n) for (name, n), code in old.items()}
        for function in self._functions.get(str(path), ()):
            code = function.__code__
            key = place.get((code.co_qualname, code.co_firstlineno))
            if key in new and new[key] != code:
                try:
                    function.__code__ = new[key]
                except ValueError:
                    return False
                planted = True
        for cache in self._caches:  # what was computed while tests were collected
            cache.cache_clear()
        return planted

    def alone(self, mutant: Mutant, names: list[str], seconds: float) -> tuple[int | None, str]:
        """Run tests in a program of its own, with the fault in the file."""
        path = self._tree / "src/discreet" / mutant.file
        original, when = path.read_text("utf-8"), path.stat()
        path.write_text(mutant.apply(original), "utf-8")
        command = [sys.executable, "-B", "-m", "pytest", "-x", *OPTIONS, *names]
        try:
            with self._log.open("wb") as out:
                code = subprocess.run(
                    command, cwd=self._tree, stdout=out, stderr=out, timeout=60 + 20 * seconds,
                    check=False,
                ).returncode  # fmt: skip
            return code, _first_failure(self._log)
        except subprocess.TimeoutExpired:
            return UNCLEAR, ""
        finally:
            path.write_text(original, "utf-8")
            os.utime(path, ns=(when.st_atime_ns, when.st_mtime_ns))


class _Lines:
    """Lines that have been reached, as one bit each by file."""

    def __init__(self) -> None:
        self.on = False
        self._names: dict[str, str] = {}
        self._left: dict[int, set[int]] = {}
        self._codes: dict[int, CodeType] = {}  # kept, so that no two have one address
        self._seen: dict[str, int] = {}

    def start(self, names: dict[str, str]) -> None:
        """Watch some files, in all threads."""
        self.on, self._names = True, names
        threading.settrace(self._call)
        sys.settrace(self._call)

    def begin(self, seen: dict[str, int] | None = None) -> None:
        """Forget what was reached so far."""
        self._seen = {} if seen is None else seen
        self._left.clear()
        sys.settrace(self._call)  # a test may have taken it away

    def take(self) -> dict[str, int]:
        """Lines reached since the beginning."""
        return self._seen

    def _call(self, frame: FrameType, _event: str, _argument: object) -> object:
        code = frame.f_code
        if code.co_filename not in self._names:
            return None
        left = self._left.get(id(code))
        if left is None:
            self._codes[id(code)] = code
            left = self._left[id(code)] = {line for _, _, line in code.co_lines() if line}
            if len(left) > 1:
                left.discard(code.co_firstlineno)  # no event comes from `def`
        return self._line if left else None

    def _line(self, frame: FrameType, event: str, _argument: object) -> object:
        if event == "line":
            code, line = frame.f_code, frame.f_lineno
            file = self._names[code.co_filename]
            self._seen[file] = self._seen.get(file, 0) | 1 << line
            left = self._left.setdefault(id(code), set())
            left.discard(line)
            if not left:
                frame.f_trace_lines = False
        return self._line


def _union(many: Iterable[dict[str, int]]) -> dict[str, int]:
    both: dict[str, int] = {}
    for one in many:
        for file, lines in one.items():
            both[file] = both.get(file, 0) | lines
    return both


def _stop(*_: object) -> None:
    raise TooSlow


def functions(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    """Code of every function, by qualified name and number among those of that name."""
    count = Counter[str]()

    def walk(parent: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
        for inner in parent.co_consts:
            if isinstance(inner, CodeType):
                if inner.co_flags & 0x02:  # fast locals: a function, no class body
                    yield (inner.co_qualname, count[inner.co_qualname]), inner
                    count[inner.co_qualname] += 1
                yield from walk(inner)

    return walk(code)


def _first_failure(log: Path) -> str:
    lines = log.read_text("utf-8", errors="replace").splitlines()
    found = [x for x in lines if x.startswith(("FAILED", "ERROR"))]
    return found[0].split(" - ")[0] if found else (lines[-1] if lines else "died")
