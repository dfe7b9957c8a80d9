"""The ledger on systems that lack what Linux has: names are taken away, and it works.

Nothing here runs on Windows itself; what is tested is that no road needs these names.
"""

from __future__ import annotations

import os
import subprocess
import sys
import types

import pytest

from discreet import errors, ledger
from discreet.ledger import _anchor

MISSING = """
import os, subprocess, sys  # the standard library takes a msvcrt for Windows as a whole
for name in ("pread", "pwrite", "fork", "register_at_fork", "fdatasync", "getuid", "geteuid",
             "O_NOFOLLOW", "O_CLOEXEC", "O_DIRECTORY", "fchmod", "killpg", "setsid"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
HELD = {}
class Locks:
    LK_NBLCK, LK_UNLCK = 1, 2
    @staticmethod
    def locking(file, how, size):
        where = os.lseek(file, 0, os.SEEK_CUR)
        assert where >= 1 << 20 and size == 1, "a lock on content keeps others from reading it"
        key = os.fstat(file).st_ino
        if how == Locks.LK_UNLCK:
            assert HELD.pop(key) == file
        elif key in HELD:
            raise PermissionError(13, "Permission denied")
        else:
            HELD[key] = file
            LOCKED.append(key)
LOCKED = []
sys.modules["msvcrt"] = Locks
"""
ROAD = """
import discreet as dc, pyarrow as pa, pyarrow.parquet as pq
from discreet import ledger
import discreet.service, discreet.service._worker
pq.write_table(pa.table({"age": [31, 47]}), "people.parquet")
policy = dc.policy.loads('''
[policy]
name = "systems"
[budget]
epsilon = "2"
[tables.people]
source = "people.parquet"
[tables.people.columns]
age = { type = "integer", min = 0, max = 115 }
''')
with dc.open("people.parquet", policy, ledger="book") as curator:
    curator.sql("SELECT COUNT(*) AS n FROM people", epsilon=1)
    curator.ledger.close()
    assert curator.ledger.verify().debits == 1
ledger.backup(ledger.open_ledger("book"), "kept")
os.remove("book")
ledger.restore("kept", "book", policy=policy).reopen()
os.rename("book", "gone")
try:
    ledger.open_ledger("book", policy)
except dc.errors.LedgerIntegrityError:
    print(len(LOCKED), len(HELD))
"""


def test_a_ledger_without_names_of_linux(tmp_path):
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    done = subprocess.run(
        [sys.executable, "-c", MISSING + ROAD],
        cwd=tmp_path, env={**os.environ, **state}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    locked, held = map(int, done.stdout.split())
    assert locked > 10
    assert held == 0


def test_marks_are_locked_on_either_system(path, given, monkeypatch):
    """A second handle waits; where nothing can be locked, nothing is written."""
    book = ledger.open_ledger(path, given.policy())
    calls = []

    def locking(_file, how, _size):
        calls.append(how)
        if how == 1 and busy:
            raise PermissionError

    busy = False
    fake = types.SimpleNamespace(LK_NBLCK=1, LK_UNLCK=2, locking=locking)
    monkeypatch.setattr(_anchor, "fcntl", None)
    monkeypatch.setattr(_anchor, "_windows", fake)
    book.debit(given.entry("0.1"))
    assert calls == [1, 1, 2, 2]
    busy = True
    with pytest.raises(errors.LedgerBusyError), _anchor.locked(f"{path}.anchor", 0.01):
        pass
    monkeypatch.setattr(_anchor, "_windows", None)
    with pytest.raises(errors.LedgerError):
        book.debit(given.entry("0.1", plan="b"))
    monkeypatch.undo()
    assert book.verify().debits == 1


def test_a_folder_that_was_swept_before_it_was_locked_is_made_anew(monkeypatch, tmp_path):
    from discreet.engines import _privately

    monkeypatch.setattr(_privately.tempfile, "tempdir", str(tmp_path))
    swept = []
    lock = _privately.fcntl.flock

    def late(file, how):
        if not swept:
            (folder,) = tmp_path.glob("discreet-spill-*")
            swept.append(folder)
            (folder / "lock").unlink()
            folder.rmdir()
        lock(file, how)

    monkeypatch.setattr(_privately.fcntl, "flock", late)
    with _privately.spill_folder() as rows:
        assert rows.parent.is_dir()
        assert rows.parent != swept[0]
    assert not rows.parent.exists()
