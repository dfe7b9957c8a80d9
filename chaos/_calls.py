"""Kills and failures at every call that touches a file, and power cuts.

A small library stands before libc in a process of its own (``shim.c``). Each trial is a
fork of it that arms the library, opens the ledger, debits and settles, and says on a pipe
how far it has come. The parent judges what is left.
"""

from __future__ import annotations

import ctypes
import errno
import os
import random
import shutil
import struct
import subprocess
import sys
from ast import literal_eval
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chaos._common import (
    Row,
    entry,
    filled,
    forget_connections,
    fork,
    images,
    place,
    policy,
    put_back,
)
from discreet import errors, ledger

OFF, KILL_BEFORE, KILL_AFTER, FAIL, RECORD = range(5)
SECTOR = 512


def built(folder: Path) -> Path:
    """Compile the library."""
    library = folder / "shim.so"
    source = Path(__file__).with_name("shim.c")
    compiler = shutil.which("cc") or "gcc"
    subprocess.run([compiler, "-O1", "-fPIC", "-shared", "-o", library, source, "-ldl"], check=True)
    return library


def apart(function: str, *arguments: object, **named: object) -> list[Row]:
    """Run a function of this module in a process behind the library."""
    with place() as folder:
        library = built(folder)
        code = f"import chaos._calls as c; c.report(c.{function}(*{arguments!r}, **{named!r}))"
        paths = [str(Path(__file__).parent.parent), *sys.path]
        environment = os.environ | {
            "LD_PRELOAD": str(library),
            "CHAOS_SHIM": str(library),
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        }
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, check=True, stdout=subprocess.PIPE
        )
    return [Row(**row) for row in literal_eval(done.stdout.decode())]


def report(rows: list[Row]) -> None:
    print([vars(row) for row in rows])


def _arm(mode: int, nth: int = 0, error: int = 0, log: int = -1, folder: bytes = b"") -> None:
    shim = ctypes.CDLL(os.environ["CHAOS_SHIM"])
    shim.chaos_arm(mode, ctypes.c_long(nth), error, log, ctypes.c_char_p(folder))


def _seen() -> int:
    shim = ctypes.CDLL(os.environ["CHAOS_SHIM"])
    shim.chaos_seen.restype = ctypes.c_long
    return int(shim.chaos_seen())


def _question(path: Path, say: Callable[[bytes], Any]) -> None:
    """One question from beginning to end; says what has been promised."""
    book = ledger.open_ledger(path, policy())
    receipt = book.debit(entry("new", key="new"))
    say(b"d")
    if receipt.stored is None:
        book.settle(receipt, '["new"]')
    say(b"s")


def _trial(path: Path, mode: int, nth: int, error: int) -> bytes:
    """Ask in a child behind the library; give what it could say, and the number of calls."""
    read, write = os.pipe()
    child = fork()
    if child == 0:
        os.close(read)
        where = str(path.parent).encode()
        try:
            _arm(mode, nth, error, folder=where)
            _question(path, lambda said: os.write(write, said))
            os.write(write, b"#%d" % _seen())
        except errors.DiscreetError:
            os.write(write, b"!")
        finally:
            os._exit(0)
    os.close(write)
    said = b""
    while piece := os.read(read, 100):
        said += piece
    os.close(read)
    os.waitpid(child, 0)
    return said


def calls(stride: int) -> list[Row]:
    """Kill before and after every call; let every call fail with EIO and with ENOSPC."""
    rows = []
    with place() as folder:
        path = folder / "x.ledger"
        for fresh in (False, True):
            if fresh:
                put_back(folder, {})
            else:
                filled(path, 2)
            start = images(folder)
            count = int(_trial(path, RECORD_NOTHING, 0, 0).partition(b"#")[2])
            for name, mode, error in (
                ("SIGKILL before a call", KILL_BEFORE, 0),
                ("SIGKILL after a call", KILL_AFTER, 0),
                ("EIO from a call", FAIL, errno.EIO),
                ("ENOSPC from a call", FAIL, errno.ENOSPC),
            ):
                what = f"{name} ({'a new ledger' if fresh else 'a ledger in use'}, {count} calls)"
                rows.append(row := Row(what))
                for nth in range(1, count + 1, stride):
                    put_back(folder, start)
                    said = _trial(path, mode, nth, error)
                    _judge(row, path, said, f"call {nth}", 0 if fresh else 4)
    return rows


RECORD_NOTHING = KILL_BEFORE  # the 0th call never comes: calls are counted, nothing happens


def _judge(row: Row, path: Path, said: bytes, what: str, before: int) -> None:
    """What was promised is there once; asking again pays nothing and gives the first answer."""
    row.tried += 1
    forget_connections()
    try:
        book = ledger.open_ledger(path, policy())
        plans = [e.plan for e in book.entries]
        if b"d" in said and "new" not in plans:
            row.note("lost", f"{what}: debit")
        receipt = book.debit(entry("new", key="new"))
        if b"s" in said and receipt.stored != '["new"]':
            row.note("lost", f"{what}: answer")
        if receipt.charged and "new" in plans:
            row.note("doubled", f"{what}: debit")
        if receipt.stored is None and book.settle(receipt, '["late"]') != '["late"]':
            row.note("doubled", f"{what}: answer")
        if book.verify().debits != before + 1:
            row.note("doubled", f"{what}: debits")
    except errors.LedgerError as error:
        row.note("lost", f"{what}: {type(error).__name__} {str(error)[:120]}")


# -- power cuts ------------------------------------------------------------------------


def cuts(count: int, seed: int = 1, *, blind: bool = False) -> list[Row]:
    """Cut the power after every operation: what was not synced is missing, torn or there.

    `blind` forgets every sync: then promises are lost, or this would see nothing.
    """
    rows = []
    chance = random.Random(seed)
    for fresh in (False, True):
        row = Row(f"power cut ({'a new ledger' if fresh else 'a ledger in use'})")
        rows.append(row)
        with place() as folder, place() as other:
            os.environ["XDG_STATE_HOME"] = str(folder / "state")
            path = folder / "x.ledger"
            (folder / "state" / "discreet").mkdir(parents=True)
            if not fresh:
                filled(path, 2)
                forget_connections()
            start = images(folder)
            operations = _recorded(path, other / "log")
            if blind:
                operations = [o for o in operations if o[0] != "s"]
            for trial in range(count // 2):
                at = trial % (len(operations) + 1)
                disk, said = _cut(start, operations[:at], chance, folder)
                put_back(folder, disk)
                _judge(row, path, said, f"after operation {at}", 0 if fresh else 4)
                if not row.clean and len(row.said) >= 5:
                    break
            os.environ["XDG_STATE_HOME"] = str(other / "state")
    return rows


def _recorded(path: Path, log: Path) -> list[tuple[str, str, int, bytes]]:
    """Every write, sync, truncation, creation and unlinking of one question, in order."""
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    child = fork()
    if child == 0:
        _arm(RECORD, log=out, folder=str(path.parent).encode())
        _question(path, lambda said: _mark(out, said))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    os.close(out)
    raw, operations, at = log.read_bytes(), [], 0
    while at < len(raw):
        kind = chr(raw[at])
        long, place_, size = struct.unpack_from("<qqq", raw, at + 1)
        name = raw[at + 25 : at + 25 + long].decode()
        data = raw[at + 25 + long : at + 25 + long + size]
        operations.append((kind, name, place_, data))
        at += 25 + long + size
    return operations


def _mark(out: int, said: bytes) -> None:
    """Write a promise into the log, between operations."""
    os.write(out, b"p" + struct.pack("<qqq", 0, 0, len(said)) + said)


def _cut(
    start: dict[str, bytes],
    operations: list[tuple[str, str, int, bytes]],
    chance: random.Random,
    folder: Path,
) -> tuple[dict[str, bytes], bytes]:
    """What a disk may hold after a power cut, and what had been promised."""
    safe = {name: bytearray(data) for name, data in start.items()}
    names = set(safe)  # names that are certain to last
    waiting: dict[str, list[tuple[str, int, bytes]]] = {}
    entries: list[tuple[str, str]] = []  # names made or removed, not synced yet
    said = b""
    for kind, absolute, at, data in operations:
        name = os.path.relpath(absolute, folder) if absolute else ""
        if kind == "p":
            said += data
        elif kind in "wt":
            waiting.setdefault(name, []).append((kind, at, data))
        elif kind in "nu":
            entries.append((kind, name))
            if kind == "n":
                safe.setdefault(name, bytearray())
        elif kind == "s" and (folder / name).is_dir():
            for made, entry_name in entries:
                (names.add if made == "n" else names.discard)(entry_name)
                if made == "u":
                    safe.pop(entry_name, None)
                    waiting.pop(entry_name, None)
            entries = []
        elif kind == "s":
            # a synced file keeps its own name, as on the usual journalling file systems
            names.add(name)
            for part in waiting.pop(name, []):
                _apply(safe.setdefault(name, bytearray()), *part)
    for kind, name in entries:
        happened = chance.random() < 0.5
        if kind == "n" and happened:
            names.add(name)
        if kind == "u" and happened:
            names.discard(name)
    how = chance.choice(("none", "all", "some", "torn"))
    for name, parts in waiting.items():
        for part in parts:
            if how == "all" or (how in ("some", "torn") and chance.random() < 0.5):
                torn = how == "torn" and part[0] == "w"
                _apply(safe.setdefault(name, bytearray()), *(_torn(part, chance) if torn else part))
    return {name: bytes(safe[name]) for name in names if name in safe}, said


def _torn(part: tuple[str, int, bytes], chance: random.Random) -> tuple[str, int, bytes]:
    """Some whole sectors of a write, from its beginning or from its end."""
    kind, at, data = part
    sectors = max(1, len(data) // SECTOR)
    cut = chance.randrange(sectors) * SECTOR
    return (kind, at, data[:cut]) if chance.random() < 0.5 else (kind, at + cut, data[cut:])


def _apply(file: bytearray, kind: str, at: int, data: bytes) -> None:
    if kind == "t":
        del file[at:]
        return
    if len(file) < at:
        file.extend(bytes(at - len(file)))
    file[at : at + len(data)] = data
