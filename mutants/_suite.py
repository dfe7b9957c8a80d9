"""Tests that are collected once and run in a fork for every fault.

Collecting costs a hundred times more than the few tests that see a fault, so it is done once, by
a plugin that takes the place of pytest's own loop. A fault inside a function is planted by
giving the function another code object, in the fork alone; one that runs when its module is
imported needs a program of its own.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import _lru_cache_wrapper
from pathlib import Path
from types import CodeType, FrameType, FunctionType

import pytest
from _pytest import main

from mutants._change import Mutant

OPTIONS = ("-q", "-s", "--tb=line", "-p", "no:cacheprovider", "-m", "not long")
_PATIENCE = 4.0
"""Seconds after which a test is too slow to be run for every fault."""
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
        self._failed = False

    # -- hooks of pytest ---------------------------------------------------------------

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out what needs a server: each fork would start its own."""
        servers = {"postgres_url", "service", "start_service", "browser", "page"}
        items[:] = [i for i in items if "postgres" not in i.nodeid
                    and not servers & set(getattr(i, "fixturenames", ()))]  # fmt: skip

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Do the work instead of running every test."""
        if session.testsfailed:
            raise session.Interrupted("some tests cannot be collected")
        self._session = session
        self.items = {item.nodeid: item for item in session.items}
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
            print(f"\nFAILED {report.nodeid}", flush=True)

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
        code = 70
        try:
            code = job()
        except BaseException as error:  # noqa: BLE001 - a child must not go on as its parent
            print(f"ERROR {type(error).__name__}: {error}")
        finally:
            sys.stdout.flush()
            os._exit(code)

    def run(self, names: list[str]) -> int:
        """Run some tests until one fails: 1 then, otherwise 0."""
        session = self._session
        session.items = [self.items[name] for name in names]
        session.config.option.maxfail = 1
        try:
            main.pytest_runtestloop(session)
        except (session.Failed, session.Interrupted):
            pass
        finally:
            session._setupstate.teardown_exact(None)  # noqa: SLF001 - as pytest's own end does
        return int(bool(session.testsfailed))

    def traced(self, names: list[str], critical: frozenset[str], keep: Callable[..., None]) -> int:
        """Run tests once and say which functions of the critical files each enters."""
        seen: set[str] = set()
        files: dict[str, str | None] = {}

        def trace(frame: FrameType, _event: str, _argument: object) -> None:
            code = frame.f_code
            if code.co_filename not in files:
                _, found, file = code.co_filename.rpartition("/src/discreet/")
                files[code.co_filename] = file if found and file in critical else None
            if (file := files[code.co_filename]) is not None:
                seen.add(f"{file}|{code.co_qualname.replace('.<locals>', '')}")

        def stop(*_: object) -> None:
            raise TooSlow

        signal.signal(signal.SIGPROF, stop)  # time of the processor: others use it too
        items = [self.items[name] for name in names]
        for item, following in zip(items, [*items[1:], None], strict=True):
            seen.clear()
            self._failed, began = False, time.process_time()
            signal.setitimer(signal.ITIMER_PROF, _PATIENCE)
            sys.settrace(trace)  # type: ignore[arg-type]
            try:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            except TooSlow:
                self._failed = True
            finally:
                sys.settrace(None)
                signal.setitimer(signal.ITIMER_PROF, 0)
            took = time.process_time() - began
            keep(item.nodeid, sorted(seen), -1.0 if self._failed else took)
        return 0

    # -- faults ------------------------------------------------------------------------

    def plant(self, mutant: Mutant, path: Path) -> bool:
        """Give the functions of a module the code that it has with the fault in it.

        False if the fault is in no function, or changes what a living closure binds.
        """
        text = path.read_text("utf-8")
        old, new = (dict(_functions(compile(t, str(path), "exec")))
                    for t in (text, mutant.apply(text)))  # fmt: skip
        inside = {name.replace(".<locals>", "") for name, _ in old}
        if mutant.function not in inside:
            return False
        place = {(name, code.co_firstlineno): (name, n) for (name, n), code in old.items()}
        for function in self._functions.get(str(path), ()):
            code = function.__code__
            key = place.get((code.co_qualname, code.co_firstlineno))
            if key in new and new[key] != code:
                try:
                    function.__code__ = new[key]
                except ValueError:
                    return False
        for cache in self._caches:  # what was computed while tests were collected
            cache.cache_clear()
        return True

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


def _functions(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
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
