"""The owner's log: what went wrong and where, for whoever keeps the data.

One line of JSON for each event, in ``$XDG_STATE_HOME/discreet/log/discreet.jsonl``, readable
by its user alone, or where ``DISCREET_LOG`` says (``off``: nowhere). Past a mebibyte the file
is put aside, four old ones are kept.

A line holds the time in seconds, the process, the event, public facts (policy, number of
a debit) and, of an error, its classes and the places in the code. No message of an
engine, which may quote cells; no rows; no durations. It may depend on the data all the
same: which error it was is a bit that analysts must not see. So it goes to this file and
nowhere else, and nothing that an analyst gets tells whether or what was written.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Final

from discreet._text import json_safe

_LONGEST: Final = 1 << 20
_FILES: Final = 4
_FRAMES: Final = 12
_UNWRITABLE: Final[set[Path]] = set()
_FLAGS: Final = (
    os.O_WRONLY
    | os.O_APPEND
    | os.O_CREAT
    | sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NOFOLLOW"))
)


def state_directory() -> Path:
    """Where this user's programs keep what must outlive them.

    Raises
    ------
    RuntimeError
        There is no home directory.
    """
    folder = os.environ.get("XDG_STATE_HOME", "")
    home = Path(folder) if os.path.isabs(folder) else Path.home() / ".local" / "state"  # noqa: PTH117 - Path("") is "."
    return home / "discreet"


def log_file() -> Path | None:
    """Where the log is; None if there is none."""
    setting = os.environ.get("DISCREET_LOG", "")
    if setting:
        return None if setting == "off" else Path(setting)
    try:
        return state_directory() / "log" / "discreet.jsonl"
    except RuntimeError:
        return None


def check_log() -> None:
    """Say once on standard error that the log cannot be written.

    Decided from the path alone, before any data is read.
    """
    path = log_file()
    if path is None or path in _UNWRITABLE:
        return
    _UNWRITABLE.add(path)
    place = path
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    fits = place.is_file() if place == path else place.is_dir()
    if not fits or not os.access(place, os.W_OK):
        text = f"discreet: the owner's log {str(path)!r} cannot be written"
        sys.stderr.write(f"{json_safe(text)}\n")


def note(event: str, error: BaseException | None = None, **facts: str | int | None) -> None:
    """Write one event; a log that cannot be written stops nobody."""
    path = log_file()
    if path is None:
        return
    line: dict[str, object] = {
        "when": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "process": os.getpid(),
        "event": event,
        **{name: fact for name, fact in facts.items() if fact is not None},
    }
    if error is not None:
        frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
        line["error"] = [kind.__name__ for kind in type(error).__mro__[:-2]]
        line["at"] = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames]
    with contextlib.suppress(OSError):
        _append(path, json_safe(json.dumps(line)) + "\n")


def _append(path: Path, line: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(path, _FLAGS, 0o600)
    try:
        os.write(file, line.encode())  # one call: lines of several processes do not mix
        full = os.fstat(file).st_size > _LONGEST
    finally:
        os.close(file)
    if full:
        for age in range(_FILES - 1, -1, -1):
            old = path.with_name(f"{path.name}.{age}") if age else path
            with contextlib.suppress(FileNotFoundError):
                old.replace(path.with_name(f"{path.name}.{age + 1}"))
