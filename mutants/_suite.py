"""Tests that are collected once and run in a fork for every fault.

Collecting costs a hundred times more than the few tests that see a fault, so it is done once, by
a plugin that takes the place of pytest's own loop. A fault inside a function is planted by
giving the function another code object, in the fork alone; one that runs when its module is
imported needs a program of its own.
"""

from __future__ import annotations

import ast
import builtins
import gc
import importlib
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import _lru_cache_wrapper
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from mutants._change import Mutant

OPTIONS = ("-q", "-s", "--tb=line", "-p", "no:cacheprovider", "-m", "not long")
_PATIENCE = 60.0
"""Seconds after which a test is too slow to be run for every fault."""
_ROOM = 12 << 30
"""Bytes of addresses that a fork may use: some faults ask for all the memory there is."""
UNCLEAR = 78
"""Exit code of a run that used little processor time and did not end."""
STALLED = 79
"""Exit code of a run in which a test, or all of them together, used up their processor time."""


class TooSlow(BaseException):
    """A test has used up its time (no ``Exception``: tests catch those)."""


class Suite:
    """All tests of a tree, and the functions that are loaded."""

    def __init__(self, tree: Path, log: Path, work: Callable[[Suite], None]) -> None:
        self._tree, self._log, self._work = tree, log, work
        self._session: pytest.Session
        self.items: dict[str, pytest.Item] = {}
        self.served: list[str] = []
        """Tests that ask a service in a process of its own."""
        self._functions: dict[str, list[FunctionType]] = {}
        self._caches: list[_lru_cache_wrapper[object]] = []
        self._lines = _Lines()
        self._shared: dict[int, dict[str, int]] = {}
        self._failed = self._slow = False

    # -- hooks of pytest ---------------------------------------------------------------

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Set aside what a program of its own answers: a fault in a fork does not reach it."""
        servers = {"service", "start_service", "browser", "page"}
        asked = [i for i in items if servers & set(getattr(i, "fixturenames", ()))]
        self.served = [i.nodeid for i in asked if "browser" not in i.fixturenames]
        items[:] = [i for i in items if i not in set(asked)]

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

    def forked(self, job: Callable[[], int], seconds: float) -> tuple[int, str]:
        """Do a job in a fork; its exit code and the test that failed."""
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
                return (STALLED if code == -signal.SIGXCPU else code), _first_failure(self._log)
            time.sleep(0.02)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return UNCLEAR, ""  # asleep, or a busy machine: no verdict

    def _child(self, job: Callable[[], int], seconds: float) -> None:
        os.setsid()
        self._log.write_bytes(b"")
        with self._log.open("ab") as out:  # what tests start writes there too: nothing is lost
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
        """Run tests until one fails (1) or takes ten times as long as usual; 0 if none does."""
        session = self._session
        session.config.option.maxfail = 1
        signal.signal(signal.SIGPROF, self._stop)
        items = [self.items[name] for name, _ in timed]
        try:
            for i, (item, (_, usual)) in enumerate(zip(items, timed, strict=True)):
                signal.setitimer(signal.ITIMER_PROF, 5 + 10 * usual)
                following = items[i + 1] if i + 1 < len(items) else None
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if self._slow or session.testsfailed:
                    break
        except (session.Failed, session.Interrupted, TooSlow):
            return STALLED if self._slow else 1
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            session._setupstate.teardown_exact(None)  # noqa: SLF001 - as pytest's own end does
        return STALLED if self._slow else int(bool(session.testsfailed))

    def _stop(self, *_: object) -> None:
        self._slow = True  # pytest takes what is raised in a test for a failure of that test
        raise TooSlow

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

    @contextmanager
    def tracing(self, critical: frozenset[str]) -> Iterator[None]:
        """Watch the critical files in every fork that is made meanwhile."""
        sources = {file: self._tree / "src/discreet" / file for file in sorted(critical)}
        self._lines.start(sources, self._functions)
        try:
            yield
        finally:
            self._lines.stop(sources, self._functions)

    def traced(self, names: list[str], keep: Callable[..., None]) -> int:
        """Run tests once and say which lines of the watched files each reaches."""
        signal.signal(signal.SIGPROF, self._stop)  # time of the processor: others use it too
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
        try:
            planted = _replant(self._functions.get(str(path), ()), text, mutant.apply(text))
        except ValueError:
            return False
        for cache in self._caches:  # what was computed while tests were collected
            cache.cache_clear()
        return planted

    def alone(self, mutant: Mutant, names: list[str], seconds: float) -> tuple[int, str]:
        """Run tests in a program of its own, with the fault in the file.

        Unless all pass they are run again without it, and if that fails too, there is no verdict.
        """
        code, words = self._program(mutant.file, mutant.apply, names, seconds)
        if code in (0, UNCLEAR):
            return code, words
        seen = culprit(words)
        same = [seen] if seen in names else names
        again, _ = self._program(mutant.file, str, same, seconds)
        return (code if again == 0 else UNCLEAR), words

    def _program(
        self, file: str, change: Callable[[str], str], names: list[str], seconds: float
    ) -> tuple[int, str]:
        path = self._tree / "src/discreet" / file
        original, when = path.read_text("utf-8"), path.stat()
        path.write_text(change(original), "utf-8")
        command = [sys.executable, "-B", "-m", "pytest", "-x", *OPTIONS, *names]
        try:
            self._log.write_bytes(b"")
            with self._log.open("ab") as out:
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
    """Statements that have been reached, by the line where each begins, as one bit each by file.

    Every statement of a function notes itself before it is run, by code that takes the place of
    the function's own: that costs little, and no thread escapes it.
    """

    def __init__(self) -> None:
        self.on = False
        self._files: dict[str, tuple[int, int]] = {}
        self._reached = bytearray()
        self._before: dict[str, int] = {}

    def start(self, sources: dict[str, Path], loaded: dict[str, list[FunctionType]]) -> None:
        """Watch some files."""
        size = 0
        for file, path in sources.items():
            text = path.read_text("utf-8")
            self._files[file] = size, size + text.count("\n") + 2
            noting = _Noting(size).visit(ast.parse(text))
            size = self._files[file][1]
            _replant(loaded.get(str(path), ()), text, ast.fix_missing_locations(noting))
        self._reached = bytearray(size)
        builtins.__reached__ = self._reached  # type: ignore[attr-defined]
        self.on = True

    def stop(self, sources: dict[str, Path], loaded: dict[str, list[FunctionType]]) -> None:
        """Give back the code that was there before."""
        for path in sources.values():
            text = path.read_text("utf-8")
            _replant(loaded.get(str(path), ()), text, text)
        self.on = False

    def begin(self, seen: dict[str, int] | None = None) -> None:
        """Forget what was reached so far."""
        self._before = {} if seen is None else seen
        self._reached[:] = bytes(len(self._reached))

    def take(self) -> dict[str, int]:
        """Lines reached since the beginning."""
        found = {}
        for file, (start, end) in self._files.items():
            part = self._reached[start:end]
            if any(part):
                found[file] = sum(1 << line for line, hit in enumerate(part) if hit)
        return _union((self._before, found))


class _Noting(ast.NodeTransformer):
    """Puts before each statement of a function one that notes its line."""

    def __init__(self, start: int) -> None:
        self._start, self._depth = start, 0

    def generic_visit(self, node: ast.AST) -> ast.AST:
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        self._depth += inside
        super().generic_visit(node)
        if self._depth:
            for name in ("body", "orelse", "finalbody"):
                body = getattr(node, name, None)
                if isinstance(body, list):
                    setattr(node, name, self._noted(body, told=inside))
        self._depth -= inside
        return node

    def _noted(self, body: list[ast.stmt], *, told: bool) -> list[ast.stmt]:
        text = told and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
        noted = body[:1] if text else []
        for statement in body[len(noted) :]:
            note = ast.parse(f"__reached__[{self._start + statement.lineno}] = 1").body[0]
            for part in ast.walk(note):
                ast.copy_location(part, statement)
            noted += [note, statement]
        return noted


def _replant(loaded: Iterable[FunctionType], old: str, new: str | ast.Module) -> bool:
    """Give functions that are loaded from one text the code of another; whether it changes any.

    ``ValueError`` if a living closure binds other names there.
    """
    loaded, planted = list(loaded), False
    if not loaded:
        return False
    path = loaded[0].__code__.co_filename
    before, after = (dict(functions(compile(t, path, "exec"))) for t in (old, new))
    place = {(name, code.co_firstlineno): (name, n) for (name, n), code in before.items()}
    for function in loaded:
        code = function.__code__
        key = place.get((code.co_qualname, code.co_firstlineno))
        if key in after and after[key] != code:
            function.__code__ = after[key]
            planted = True
    return planted


def _union(many: Iterable[dict[str, int]]) -> dict[str, int]:
    both: dict[str, int] = {}
    for one in many:
        for file, lines in one.items():
            both[file] = both.get(file, 0) | lines
    return both


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


def culprit(words: str) -> str:
    """Name of the test that a line of a log speaks of."""
    return re.sub("^(FAILED|ERROR) ", "", words)


def _first_failure(log: Path) -> str:
    lines = log.read_text("utf-8", errors="replace").splitlines()
    found = [x for x in lines if x.startswith(("FAILED", "ERROR"))]
    return found[0].split(" - ")[0] if found else (lines[-1] if lines else "died")
