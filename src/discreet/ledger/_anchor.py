"""Anchors: where a ledger's last known line is remembered outside the ledger.

A *mark* says "this policy's ledger, which began with line G, had line n with
hash h". It is kept in two places: beside the ledger (``people.toml.ledger.anchor``)
and in the user's state directory (``$XDG_STATE_HOME/discreet``), by policy
identity. Whoever writes holds both from before the check until they are moved, after
the commit: a mark is never ahead of the ledger, only moves forward, and copies of
one ledger take turns at the mark that they share. The first to write goes on; the
others then miss a line, or have another one of the same number, and are refused.
At every use each mark must be met: the ledger has at least n lines,
it began with G, and its line n has hash h.

Detected, as long as one of the two marks survives unchanged:

* the ledger is gone, or empty, or another one took its place;
* it is older than it was: a restored backup, a truncated table, a copy made
  before later spending (the copy and the original cannot both go on);
* any line up to the mark, or any total, was edited, even with hashes recomputed;
* a second ledger for the same policy, elsewhere or in memory.

A PostgreSQL ledger has only the mark in the state directory of each host: a host
that sees it for the first time takes it as it is.

Not detected: whoever can rewrite the ledger *and* both marks, or who works as
another user on a copy of ledger and mark, has made a consistent earlier world.
There is no secret in it that the owner of the files does not hold as well. Lines
after the mark (at most those of a crash between commit and mark) are protected by
the chain alone. After a power cut the mark in the state directory may be older
than the one beside the ledger, which is synced.

A mark is written in place, into one of two slots in turn, each with a checksum:
an interrupted write spoils one slot and leaves the other.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, Protocol

from discreet._canonical import canonical, digest
from discreet._dataclass import dataclass
from discreet._log import state_directory
from discreet.errors import LedgerBusyError, LedgerError, LedgerIntegrityError

try:
    import fcntl
except ImportError:  # Windows has another module for it
    fcntl = None  # type: ignore[assignment]  # checked before use
try:
    import msvcrt as _windows
except ImportError:
    _windows = None  # type: ignore[assignment]  # checked before use

_SLOT: Final = 8192
_sync_data = getattr(os, "fdatasync", os.fsync)
_MODE: Final = 0o600
_OWN: Final = sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_BINARY"))
"""No link is followed: it could lead to a file of somebody else's choice."""
_MOST: Final = 1 << 20
_LAST: Final = 16
"""Forgotten ledgers that the first line of the next one names."""
_LOCKED: Final = 1 << 30
_SHORTEST: Final = 0.0005
_LONGEST: Final = 0.02


@dataclass(frozen=True, slots=True)
class Mark:
    """A line that a ledger is known to have."""

    policy: str
    first: str  # hash of the ledger's first line: names the ledger
    number: int
    hash: str
    where: str
    witness: str = ""  # address of the witness that watched, if there was one


@dataclass(frozen=True, slots=True)
class Anchor:
    """One file that holds a mark.

    Parameters
    ----------
    path
        The file.
    durable
        Whether a mark must survive a power cut.
    """

    path: str
    durable: bool

    afar = ""

    @property
    def name(self) -> str:
        """What people call it."""
        place = "beside the ledger" if self.durable else "in the user's state directory"
        return f"the anchor {place}"

    def read(self) -> Mark | None:
        """Give the mark; None if there is none that can be read."""
        try:
            with own_file(self.path) as file:
                return _latest(read_at(file, 2 * _SLOT, 0))[1]
        except FileNotFoundError:
            return None
        except OSError:
            raise _unusable(self.path) from None

    @contextlib.contextmanager
    def hold(self, wait: float) -> Iterator[Hold]:
        """Keep everybody else from moving the mark."""
        with locked(self.path, wait) as file:
            try:
                raw = read_at(file, 2 * _SLOT, 0)
            except OSError:
                raise _unusable(self.path) from None
            turn, mark = _latest(raw)
            yield Hold(self, file, mark, turn, raw)

    def remove(self) -> None:
        """Delete the file that holds the mark."""
        Path(self.path).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Hold:
    """An anchor that we hold, and the mark that it had."""

    anchor: Anchor
    file: int
    mark: Mark | None
    turn: int
    raw: bytes

    def move(self, mark: Mark, *, back: bool = False) -> None:
        """Move the mark forward, if the file still is what it was; an owner may move it back."""
        try:
            turn, former = self.turn, self.mark
            same = read_at(self.file, 2 * _SLOT, 0) == self.raw
            if not same or (not back and behind(mark, former)):
                raise elsewhere_used(mark)
            if former == mark:
                return
            if former is None:
                # both slots, so that the file has its full size from the start
                write_at(self.file, _slot(0, mark) + _slot(1, mark), 0)
            else:
                write_at(self.file, _slot(turn + 1, mark), (turn + 1) % 2 * _SLOT)
            if self.anchor.durable:
                # written in place: once the file exists, its data alone must be synced
                _sync_data(self.file) if former is not None else os.fsync(self.file)
        except OSError:
            raise _unusable(self.anchor.path) from None


def elsewhere_used(mark: Mark) -> LedgerIntegrityError:
    """Refusal of a mark that somebody else has moved."""
    return LedgerIntegrityError(
        f"another copy of the ledger {mark.where!r} was used at the same time: only one of them "
        "can go on; nothing was released"
    )


def behind(mark: Mark, other: Mark | None) -> bool:
    """Whether a mark is not ahead of a known one of the same ledger, nor the same."""
    if other is None or other.first != mark.first:
        return False
    return other.number > mark.number or (other.number == mark.number and other.hash != mark.hash)


def read_at(file: int, length: int, place: int) -> bytes:
    """Read from a file of our own, on every system."""
    os.lseek(file, place, os.SEEK_SET)
    return os.read(file, length)


def write_at(file: int, data: bytes, place: int) -> None:
    """Write into a file of our own, on every system."""
    os.lseek(file, place, os.SEEK_SET)
    while data:
        data = data[os.write(file, data) :]


@contextlib.contextmanager
def own_file(path: str) -> Iterator[int]:
    """Open a file of our own to read it."""
    file = os.open(path, os.O_RDONLY | _OWN)
    try:
        yield file
    finally:
        os.close(file)


@contextlib.contextmanager
def locked(path: str, wait: float = 30.0) -> Iterator[int]:
    """Open a file of our own, made if need be, and keep others out of it."""
    try:
        file = _own(path, time.monotonic() + wait)
    except OSError:
        raise _unusable(path) from None
    if file is None:
        raise LedgerBusyError(f"{path!r} was in use for {wait:g} s; nothing was charged")
    try:
        yield file
    finally:
        # by word, not by closing alone: a process forked meanwhile has it open too
        _lock(file, free=True)
        os.close(file)


def _lock(file: int, *, free: bool = False) -> None:
    """Lock a file of our own for this handle, or let it go; fails at once if others have it."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_UN if free else fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    if _windows is None:
        raise OSError("no way to lock a file on this system")
    # a byte behind all content: there a lock keeps others from reading, too
    os.lseek(file, _LOCKED, os.SEEK_SET)
    how = _windows.LK_UNLCK if free else _windows.LK_NBLCK
    _windows.locking(file, how, 1)


def _own(path: str, deadline: float) -> int | None:
    """Open and lock the file that now has this name; None if others keep it too long."""
    pause = _SHORTEST
    while True:
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | _OWN, _MODE)
        except FileNotFoundError:
            Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(path, os.O_RDWR | os.O_CREAT | _OWN, _MODE)
        try:
            _lock(file)
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(path, follow_symlinks=False)  # noqa: PTH116 - on every debit's way
                if os.path.samestat(os.fstat(file), status):
                    return file
        except (BlockingIOError, PermissionError):
            pass  # both systems' way to say that others have it
        except BaseException:
            os.close(file)
            raise
        os.close(file)
        if time.monotonic() > deadline:
            return None
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST)


def _slot(turn: int, mark: Mark) -> bytes:
    fields = {f: value for f in mark.__slots__ if (value := getattr(mark, f)) != ""}
    text = canonical({"turn": turn, **fields})
    line = f"{text}\n{digest(text)}\n".encode()
    if len(line) > _SLOT:
        raise LedgerError("the ledger's path and the policy's name are too long")
    return line.ljust(_SLOT)


def _latest(raw: bytes) -> tuple[int, Mark | None]:
    """The mark written last, and its turn."""
    slots = [_parsed(_lines(raw[i : i + _SLOT])) for i in (0, _SLOT)]
    return max([s for s in slots if s is not None], key=itemgetter(0), default=(0, None))


def _lines(slot: bytes) -> bytes:
    """The two lines of a slot, without the blanks that fill it up."""
    return slot[: slot.find(b"\n", slot.find(b"\n") + 1) + 1]


@lru_cache(maxsize=64)
def _parsed(lines: bytes) -> tuple[int, Mark] | None:
    try:
        text, check, _ = lines.decode().split("\n", 2)
        fields = json.loads(text) if digest(text) == check else {}
        return int(fields.pop("turn")), Mark(**fields)
    except (ValueError, TypeError, KeyError):
        return None


def _unusable(path: str) -> LedgerError:
    return LedgerError(
        f"the ledger's anchor {path!r} cannot be used; nothing was released",
        hint="make the file and its folder readable and writable for this user",
    )


class AnyHold(Protocol):
    """A place for a mark that we hold."""

    @property
    def mark(self) -> Mark | None:
        """The mark that it had."""
        ...

    def move(self, mark: Mark, *, back: bool = False) -> None:
        """Move the mark."""
        ...


class AnyAnchor(Protocol):
    """Where a mark is kept: a file, or a witness."""

    @property
    def durable(self) -> bool:
        """Whether it stands beside the ledger and survives a power cut."""
        ...

    @property
    def afar(self) -> str:
        """Address of a witness; empty for a file."""
        ...

    @property
    def name(self) -> str:
        """What people call it."""
        ...

    def read(self) -> Mark | None:
        """Give the mark; None if there is none."""
        ...

    def hold(self, wait: float) -> AbstractContextManager[AnyHold]:
        """Keep everybody else from moving the mark."""
        ...


def check_watch(where: str, anchors: Sequence[AnyAnchor], marks: Sequence[Mark | None]) -> None:
    """Refuse to go on without a witness that a ledger is known to have had.

    A witness that has never seen the ledger is none either, nor one that only watched before
    the latest. One server has many names: it is the same if its own mark has the name that is
    known here, or is not behind. The owner gives a witness up by adopting the ledger, on record.
    """
    pairs = [(a, mark) for a, mark in zip(anchors, marks, strict=True) if mark is not None]
    here = [mark for anchor, mark in pairs if mark.witness and not anchor.afar]
    latest = max(here, key=lambda mark: mark.number, default=None)
    if latest is None:
        return
    witness, afar = latest.witness, [mark for anchor, mark in pairs if anchor.afar]
    if not any(mark.witness == witness or mark.number >= latest.number for mark in afar):
        named = any(anchor.afar for anchor in anchors)
        why = "the one that is named now has not seen it as it is" if named else "none is named now"
        raise LedgerIntegrityError(
            f"the ledger {where!r} was watched by a witness at {witness!r}, and {why}: a copy on "
            "another host could be used as well",
            hint=f'witness = "{witness}" under [ledger]; if its owner gives it up: '
            "discreet ledger adopt",
        )


def beside(ledger: str) -> Anchor:
    """Anchor next to a ledger file."""
    return Anchor(f"{ledger}.anchor", durable=True)


def state_file(*parts: str) -> str:
    """Path of a file in the user's state directory."""
    try:
        return str(state_directory().joinpath(*parts))
    except RuntimeError:
        raise _unusable("in the state directory") from None


def forgotten_ledgers(policy: str) -> list[dict[str, Any]]:
    """Ledgers of a policy that its owner had this user forget: their ends, and who decided."""
    try:
        with own_file(_forgotten_file(policy)) as file:
            lines = read_at(file, _MOST, 0).decode("utf-8", "replace").splitlines()
            return [json.loads(line) for line in lines][-_LAST:]
    except FileNotFoundError:
        return []
    except (OSError, ValueError):
        raise _unusable(_forgotten_file(policy)) from None


def forget(policy: str, **facts: Any) -> None:
    """Enter for good that a ledger was forgotten, then remove its mark."""
    with locked(_forgotten_file(policy)) as file:
        write_at(file, f"{canonical(facts)}\n".encode(), os.lseek(file, 0, os.SEEK_END))
        os.fsync(file)
    of_user(policy).remove()


def _forgotten_file(policy: str) -> str:
    return state_file(f"{digest(policy)[:32]}.forgotten")


def of_user(policy: str) -> Anchor:
    """Anchor of a policy identity in the user's state directory."""
    return Anchor(state_file(f"{digest(policy)[:32]}.anchor"), durable=False)
