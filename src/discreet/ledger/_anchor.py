"""Anchors: where a ledger's last known line is remembered outside the ledger.

A *mark* says "this policy's ledger, which began with line G, had line n with
hash h". It is kept in two places: beside the ledger (``people.toml.ledger.anchor``)
and in the user's state directory (``$XDG_STATE_HOME/discreet``), by policy
identity. Marks only move forward, after each commit, so a mark is never ahead of
the ledger. At every use each mark must be met: the ledger has at least n lines,
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
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from discreet._canonical import canonical, digest
from discreet.errors import LedgerError

try:
    import fcntl
except ImportError:  # pragma: no cover - not on this platform: marks may then lag by a line
    fcntl = None  # type: ignore[assignment]  # checked before use

_SLOT: Final = 8192
_sync_data = getattr(os, "fdatasync", os.fsync)
_MODE: Final = 0o600


@dataclass(frozen=True, slots=True)
class Mark:
    """A line that a ledger is known to have."""

    policy: str
    first: str  # hash of the ledger's first line: names the ledger
    number: int
    hash: str
    where: str


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

    def read(self) -> Mark | None:
        """Give the mark; None if there is none that can be read."""
        try:
            with open(self.path, "rb", buffering=0) as file:  # noqa: PTH123 - on every debit's way
                raw = file.read(2 * _SLOT)
        except FileNotFoundError:
            return None
        except OSError:
            raise _unusable(self.path) from None
        return _latest(raw)[1]

    def write(self, mark: Mark) -> None:
        """Move the mark forward; one that is further already stays."""
        try:
            with locked(self.path) as file:
                turn, known = _latest(os.pread(file, 2 * _SLOT, 0))
                if known is not None and known.first == mark.first and known.number > mark.number:
                    return
                if known == mark:
                    return
                if known is None:
                    # both slots, so that the file has its full size from the start
                    os.pwrite(file, _written(0, mark) + _written(1, mark), 0)
                else:
                    os.pwrite(file, _written(turn + 1, mark), (turn + 1) % 2 * _SLOT)
                if self.durable:
                    # written in place: once the file exists, its data alone must be synced
                    _sync_data(file) if known is not None else os.fsync(file)
        except OSError:
            raise _unusable(self.path) from None

    def remove(self) -> None:
        """Delete the file that holds the mark."""
        Path(self.path).unlink(missing_ok=True)


@contextlib.contextmanager
def locked(path: str) -> Iterator[int]:
    """Open a file of our own, made if need be, and keep others out of it."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
    try:
        file = os.open(path, flags, _MODE)
    except FileNotFoundError:
        Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(path, flags, _MODE)
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file
    finally:
        os.close(file)


def _written(turn: int, mark: Mark) -> bytes:
    fields = {f: getattr(mark, f) for f in mark.__slots__}
    text = canonical({"turn": turn, **fields})
    line = f"{text}\n{digest(text)}\n".encode()
    if len(line) > _SLOT:
        raise LedgerError("the ledger's path and the policy's name are too long")
    return line.ljust(_SLOT)


def _latest(raw: bytes) -> tuple[int, Mark | None]:
    """The mark written last, and its turn."""
    slots = (_parsed(raw[i : i + _SLOT]) for i in (0, _SLOT))
    return max((s for s in slots if s is not None), key=lambda s: s[0], default=(0, None))


@lru_cache(maxsize=64)
def _parsed(slot: bytes) -> tuple[int, Mark] | None:
    try:
        text, check, _ = slot.decode().split("\n", 2)
        fields = json.loads(text) if digest(text) == check else {}
        return int(fields.pop("turn")), Mark(**fields)
    except (ValueError, TypeError, KeyError):
        return None


def _unusable(path: str) -> LedgerError:
    return LedgerError(
        f"the ledger's anchor {path!r} cannot be used; nothing was released",
        hint="make it readable and writable, or export XDG_STATE_HOME=/a/writable/folder",
    )


def beside(ledger: str) -> Anchor:
    """Anchor next to a ledger file."""
    return Anchor(f"{ledger}.anchor", durable=True)


def state_directory() -> Path:
    """Where this user's programs keep what must outlive them."""
    try:
        folder = os.environ.get("XDG_STATE_HOME", "")
        home = Path(folder) if os.path.isabs(folder) else Path.home() / ".local" / "state"  # noqa: PTH117 - Path("") is "."
    except RuntimeError:
        raise _unusable("in the state directory") from None
    return home / "discreet"


def of_user(policy: str) -> Anchor:
    """Anchor of a policy identity in the user's state directory."""
    return Anchor(str(state_directory() / f"{digest(policy)[:32]}.anchor"), durable=False)
