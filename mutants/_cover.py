"""Which tests run which functions: a plugin for pytest that writes a map.

Only calls are traced, not lines: the map says for every function of the critical modules
which tests enter it, and how long each test takes.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from types import FrameType

import pytest

_SEEN: dict[str, set[str]] = defaultdict(set)
_SECONDS: dict[str, float] = {}
_NAMES: dict[str, str | None] = {}
_NOW: list[set[str]] = [set()]


def _name(path: str) -> str | None:
    """Name of a critical module's file as the map spells it."""
    if path not in _NAMES:
        parts = path.rpartition("/src/discreet/")
        critical = set(os.environ["MUTANTS_FILES"].split(":"))
        _NAMES[path] = parts[2] if parts[1] and parts[2] in critical else None
    return _NAMES[path]


def _trace(frame: FrameType, _event: str, _argument: object) -> None:
    code = frame.f_code
    if (name := _name(code.co_filename)) is not None:
        _NOW[0].add(f"{name}|{code.co_qualname.replace('.<locals>', '')}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Trace one test, its set-up included."""
    _NOW[0] = set()
    began = time.perf_counter()
    threading.settrace(_trace)  # type: ignore[arg-type]
    sys.settrace(_trace)  # type: ignore[arg-type]
    try:
        return (yield)
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        _SECONDS.setdefault(item.nodeid, time.perf_counter() - began)
        for function in _NOW[0]:
            _SEEN[function].add(item.nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Leave tests out of the map that fail without any fault planted."""
    if report.failed:
        _SECONDS[report.nodeid] = -1.0


def pytest_sessionfinish() -> None:
    """Write the map, merged with what earlier sessions wrote."""
    path = Path(os.environ["MUTANTS_MAP"])
    known = json.loads(path.read_text()) if path.exists() else {"seconds": {}, "tests": {}}
    known["seconds"] |= _SECONDS
    for function, tests in _SEEN.items():
        known["tests"][function] = sorted({*known["tests"].get(function, ()), *tests})
    path.write_text(json.dumps(known))
