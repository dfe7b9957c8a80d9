"""The daybook of one process: which runs have begun and which are late, before anybody can tell.

A debit pays for one run, and a least price for each further one. A stop of the service leaves
questions that are paid and have no outcome. One that no worker has been given has shown nobody
anything, so it is taken up for nothing; of one that may have begun, nobody knows what was seen,
so its next run costs the least price. Which it was must be known and not guessed, whenever
the process is killed:

1. A debit is durable, then its order is kept with the name of this book, then the debit's hash is
   written here, then a worker is given its bill. A kill before the third step leaves a book
   without the hash, and no run; one after it leaves the hash, whether or not a worker got so far.
2. A line is written by one call to the system, so it outlives this process, but perhaps not the
   machine. Therefore a book counts only on the machine's run that it was begun in, or if its
   last line, which is synced, says that it was closed. A copy does not count: it may be older than
   what it speaks of. Nor does a book that a living process has, one with half a line, or one that
   is gone. What does not count says that everything has begun.
   What a closed book says may be void a moment after the next start, so that start writes into
   it that it was taken over, synced, before a worker is given anything.
3. When an order is taken up, it is kept under the new book before its run can begin, and after
   the least price is paid if there is one. Killed between, it is judged by the old book again.

A run that is late is written here at once and in the folder's table at its tick, when everybody is
told; what a kill leaves between the two is entered at the next start.
"""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from discreet._canonical import digest
from discreet._dataclass import dataclass

try:
    import fcntl
except ImportError:  # no locks here: no book counts
    fcntl = None  # type: ignore[assignment]  # checked before use

_FOLDER: Final = "daybooks"
_LAPSE: Final = "late "
_NOTICE: Final = "told "
_CLOSED: Final = "closed"
_TAKEOVER: Final = "taken"
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class _Legacy:
    """What a process that is gone has left; its lock is ours."""

    path: Path
    file: int
    debits: frozenset[str] | None
    """Debits whose runs have begun; None: it does not count."""
    ticks: tuple[float, ...]
    """Ticks of late runs of which nobody was told."""


class Daybook:
    """A book of this process for one policy, and those that others have left."""

    def __init__(self, folder: Path, policy: str) -> None:
        shelf = folder / _FOLDER
        shelf.mkdir(mode=0o700, exist_ok=True)
        prefix = digest(policy)[:16]
        legacies = [_legacy(path) for path in sorted(shelf.glob(f"{prefix}-*"))]
        self._legacies = {legacy.path.name: legacy for legacy in legacies if legacy is not None}
        self._taken = not self._legacies
        self.name = f"{prefix}-{secrets.token_hex(8)}"
        self._path = shelf / self.name
        self._file = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600)
        if fcntl is not None:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._write(f"{_boot()} {os.fstat(self._file).st_ino}")

    def begin(self, debit: str) -> None:
        """Write down that a run begins, by the hash of its debit; then it may."""
        self._take_over()
        self._write(debit)

    def enter_lapse(self, tick: float) -> None:
        """Write down that a run is known to be late."""
        self._write(f"{_LAPSE}{tick!r}")

    def enter_notice(self, tick: float) -> None:
        """Write down that everybody may know of a late run."""
        self._write(f"{_NOTICE}{tick!r}")

    def _write(self, line: str) -> None:
        raw = line.encode() + b"\n"
        try:
            if os.write(self._file, raw) == len(raw):
                return
        except OSError:
            pass
        with suppress(OSError):  # of a disk that takes nothing any more
            self._path.unlink(missing_ok=True)  # no book is better than one that lacks something

    def unbegun(self, book: str | None, debit: str | None) -> bool:
        """Whether it is known that an order kept under a book has never been given to a worker."""
        legacy = self._legacies.get(book or "")
        return (
            legacy is not None and legacy.debits is not None and debit not in {None, *legacy.debits}
        )

    def recall(self, enter: Callable[[float], None]) -> None:
        """Enter late runs that were forgotten because of a kill."""
        for legacy in self._legacies.values():
            for tick in legacy.ticks:
                enter(tick)
                os.write(legacy.file, f"{_NOTICE}{tick!r}\n".encode())

    def _take_over(self) -> None:
        """See to it that what others have left counts on this run of the machine alone."""
        if self._taken:
            return
        for legacy in self._legacies.values():
            os.write(legacy.file, f"{_TAKEOVER}\n".encode())
            os.fsync(legacy.file)
        self._taken = True

    def forget(self) -> None:
        """Throw away what others have left: all their orders are kept under this one."""
        self._take_over()
        for legacy in self._legacies.values():
            legacy.path.unlink(missing_ok=True)
            os.close(legacy.file)
        self._legacies.clear()

    def close(self) -> None:
        """Say that no more runs begin: that holds for another run of the machine, too."""
        file, self._file = self._file, -1  # whatever is written from now on voids the book
        if file < 0:
            return
        with suppress(OSError):
            os.write(file, _CLOSED.encode() + b"\n")
            os.fsync(file)
        os.close(file)
        for legacy in self._legacies.values():  # it was never started
            os.close(legacy.file)
        self._legacies.clear()


def _legacy(path: Path) -> _Legacy | None:
    """Read a book that somebody has left; None: its process lives, or it cannot be read."""
    if fcntl is None:
        return None
    try:
        file = os.open(path, os.O_RDWR | os.O_APPEND)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        text = path.read_bytes().decode("ascii")
        inode = os.fstat(file).st_ino
    except (OSError, UnicodeDecodeError):
        os.close(file)
        return None
    head, *lines = text.split("\n")
    last = lines.pop() if lines else "half a line"
    notices = Counter(x for x in lines if x.startswith(_NOTICE))
    lapses = Counter(_NOTICE + x.removeprefix(_LAPSE) for x in lines if x.startswith(_LAPSE))
    ticks = tuple(float(x.removeprefix(_NOTICE)) for x in (lapses - notices).elements())
    boot, _, number = head.rpartition(" ")
    same = bool(boot) and boot == _boot()
    counts = number == str(inode) and not last and (same or lines[-1:] == [_CLOSED])
    return _Legacy(path, file, frozenset(lines) if counts else None, ticks)


def _boot() -> str:
    """Name the machine's run, from one start to the next; nothing where it has no name."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""
