"""Bits, backups and copies."""

from __future__ import annotations

import gc
import multiprocessing
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

from chaos._common import (
    REFUSALS,
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

SETTLED = 2


def flips(stride: int) -> list[Row]:
    """Flip one bit in every `stride`-th byte of the ledger, and of each anchor."""
    rows = []
    with place() as folder:
        path = folder / "x.ledger"
        filled(path, SETTLED)
        whole = images(folder)
        held = _judged(path)
        for name in sorted(whole):
            what = "ledger" if name == "x.ledger" else "anchor"
            row = next((r for r in rows if what in r.fault), None)
            if row is None:
                rows.append(row := Row(f"bit flip in a byte of the {what}"))
            for at in range(0, len(whole[name]), stride):
                put_back(folder, whole | {name: _flipped(whole[name], at)})
                _judge(row, path, (held,), f"{name} at {at}")
    rows.append(_journal(stride))
    return rows


def _journal(stride: int) -> Row:
    """Flip bits of a hot journal: the ledger is as before its transaction, or refused."""
    row = Row("bit flip in a byte of a hot journal")
    with place() as folder:
        path = folder / "x.ledger"
        filled(path, SETTLED)
        held = _judged(path)
        forget_connections()
        child = fork()
        if child == 0:  # dies in the middle of a transaction that has reached the file
            connection = sqlite3.connect(path, isolation_level=None)
            connection.execute("PRAGMA cache_size = 1")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("DROP TRIGGER discreet_answers_UPDATE")
            connection.execute(
                "UPDATE discreet_answers SET record = '[\"forged\"]' || hex(zeroblob(30000))"
            )
            os._exit(0)
        os.waitpid(child, 0)
        whole = images(folder)
        assert "x.ledger-journal" in whole, "the journal is not hot"
        raw = whole["x.ledger-journal"]
        for at in range(0, len(raw), stride):
            put_back(folder, whole | {"x.ledger-journal": _flipped(raw, at)})
            _judge(row, path, (held,), f"journal at {at}")
    return row


def _flipped(raw: bytes, at: int) -> bytes:
    spoilt = bytearray(raw)
    spoilt[at] ^= 1 << at % 8
    return bytes(spoilt)


def _judged(path: Path) -> tuple[object, ...]:
    """Every row of a ledger that verifies, and what it says is spent."""
    book = ledger.open_ledger(path, policy())
    book.verify()
    spent = book.balance().amounts["epsilon"][0]
    connection = sqlite3.connect(path)
    tables = ("discreet_lines", "discreet_heads", "discreet_answers")
    rows = [connection.execute(f"SELECT * FROM {t} ORDER BY number").fetchall() for t in tables]
    connection.close()
    return (*rows, spent)


def _judge(row: Row, path: Path, sound: tuple[object, ...], what: str) -> None:
    """A ledger that verifies must hold what it held."""
    row.tried += 1
    try:
        now = _judged(path)
    except (*REFUSALS, sqlite3.Error):
        return
    if now not in sound:
        row.note("undetected", what)


def restores(moments: int) -> Row:
    """Put back a backup from every moment, with and without its anchor; the present alone may go on."""
    row = Row("restore from a moment between debits and settlements")
    with place() as folder:
        path, anchor = folder / "x.ledger", folder / "x.ledger.anchor"
        book = ledger.open_ledger(path, policy())
        kept: list[tuple[bytes, bytes]] = []
        released: dict[str, str] = {}
        for i in range(moments // 2 + 1):
            kept.append((path.read_bytes(), anchor.read_bytes()))
            receipt = book.debit(entry(f"q{i}", key=f"k{i}"))
            kept.append((path.read_bytes(), anchor.read_bytes()))
            released[f"k{i}"] = str(book.settle(receipt, f'["first {i}"]'))
        present = path.read_bytes()
        own = anchor.read_bytes()
        for at, (raw, mark) in enumerate(kept[:moments]):
            for with_mark in (False, True):
                forget_connections()
                path.write_bytes(raw)
                anchor.write_bytes(mark if with_mark else own)
                row.tried += 1
                _again(row, path, released, f"moment {at}")
        forget_connections()
        path.write_bytes(present)
        anchor.write_bytes(own)
        if ledger.open_ledger(path, policy()).verify().debits != len(released):
            row.note("lost", "the present")
    return row


def _again(row: Row, path: Path, released: dict[str, str], what: str) -> None:
    """Ask every question again: nothing but the first answer may come."""
    try:
        book = ledger.open_ledger(path, policy())
        for i in range(len(released)):
            receipt = book.debit(entry(f"q{i}", key=f"k{i}"))
            told = receipt.stored or book.settle(receipt, '["second"]')
            if told != released[f"k{i}"]:
                row.note("doubled", what)
                return
    except (*REFUSALS, errors.BudgetExceededError):
        return


def copies(count: int, trials: int, *, strangers: bool = False) -> Row:
    """Use copies of one ledger at the same moment: together they spend what was left.

    `strangers` have state directories of their own: then each spends it, or this would
    see nothing.
    """
    row = Row(f"{count} copies used at once")
    for trial in range(trials):
        with place() as folder:
            path = folder / "0.ledger"
            book = ledger.open_ledger(path, policy("12"))
            for i in range(2):
                book.debit(entry(f"before {i}"))
            forget_connections()
            for i in range(1, count):
                for ending in ("", ".anchor"):
                    shutil.copy(f"{path}{ending}", folder / f"{i}.ledger{ending}")
            forks = multiprocessing.get_context("fork")
            done, start = forks.Queue(), forks.Barrier(count)
            work = [
                forks.Process(
                    target=_spend, args=(folder / f"{i}.ledger", i, start, done, strangers)
                )
                for i in range(count)
            ]
            for process in work:
                process.start()
            paid = sum(done.get(timeout=120) for _ in work)
            for process in work:
                process.join()
            row.tried += 1
            if paid > 10:
                row.doubled += paid - 10
                row.note("undetected", f"trial {trial}: {paid} debits where 10 fit")
    return row


def _spend(path: Path, who: int, start: Any, done: Any, strangers: bool) -> None:
    gc.freeze()  # a fork must not close what its parent's garbage holds: DuckDB ends the process at that
    paid = 0
    if strangers:
        os.environ["XDG_STATE_HOME"] = f"{path}.state"
    start.wait(60)
    try:
        book = ledger.open_ledger(path, policy("12"))
        for i in range(12):
            paid += book.debit(entry(f"{who} {i}")).charged
    except errors.DiscreetError:
        pass
    done.put(paid)
