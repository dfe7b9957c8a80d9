"""Private rows in memory and on disk: no core dumps, and no spill that outlives its engine.

While an engine is open, a crash must not write the process's memory to a file or hand
it to a crash reporter. The soft limit for core dumps is set to one byte: too small for
any file, and to Linux the sign not to start a reporter either (a limit of zero does not stop
one). It is given back when the last engine closes.

An engine spills into a folder of its own, in which it holds a lock. A process that is
killed leaves its folder; the next one that opens an engine finds the lock free and
removes it. The lock works across containers that share a folder for temporary files,
where process numbers do not.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

try:
    import fcntl
    import resource
except ImportError:  # pragma: no cover - not on this system: there are no core dumps there
    fcntl = resource = None  # type: ignore[assignment]  # checked before use

_PREFIX: Final = "discreet-spill-"
_GUARD: Final = threading.Lock()
_OPEN: Final[list[tuple[int, int]]] = []
"""The limits before, once for each engine that is open."""


@contextmanager
def no_core_dumps() -> Iterator[None]:
    """Keep the process's memory out of core dumps, and of crash reporters on Linux."""
    if resource is None:
        yield
        return
    with _GUARD:
        soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
        _OPEN.append(_OPEN[0] if _OPEN else (soft, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (1 if hard else 0, hard))
    try:
        yield
    finally:
        with _GUARD:
            before = _OPEN.pop()
            if not _OPEN:
                resource.setrlimit(resource.RLIMIT_CORE, before)


@contextmanager
def spill_folder() -> Iterator[Path]:
    """Give a folder that only this user can read, removed at the end, or by whoever comes next."""
    sweep()
    folder, lock = _locked_folder()
    try:
        yield folder / "rows"
    finally:
        os.close(lock)
        shutil.rmtree(folder, ignore_errors=True)


def _locked_folder() -> tuple[Path, int]:
    """Make a folder, and lock it; once more if somebody has swept it before it was locked."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        if fcntl is None:
            return folder, lock
        fcntl.flock(lock, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), (folder / "lock").stat()):
                return folder, lock
        os.close(lock)


def sweep() -> None:
    """Remove what killed processes of this user have spilt."""
    if fcntl is None:
        return
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            lock = os.open(folder / "lock", os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # else somebody works there
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
