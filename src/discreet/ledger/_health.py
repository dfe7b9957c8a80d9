"""Figures for monitoring: of the ledger and its places, never of the data."""

from __future__ import annotations

import datetime as dt
import os
import shutil
from fractions import Fraction
from typing import Any

from discreet.ledger import _budget
from discreet.ledger._ledger import ChainedLedger


def health(ledger: ChainedLedger) -> dict[str, Any]:
    """Give what an operator watches; reads the end of the chain alone.

    All of it follows from who asked what and when, which the ledger's lines say to
    everybody who may read them.

    ==================  ==================================================================
    lines, period       how long the chain is, and which period runs
    format              version of the format
    open                debits whose outcome is still to come
    oldest_open         seconds since the oldest of them: a run that hangs, or was killed
    last                seconds since the last line
    spent               part of each currency that is spent, from 0 to 1, rounded to a hundredth;
                        where ε or ρ may pay, of the way that has more room
    closed              closed tables, ``*`` for everything
    marks               lines that each anchor or witness is behind; null: there is none
    bytes, free         size of the file, and room on its disk (null for a server)
    ==================  ==================================================================
    """
    with ledger.reading() as (tx, head):
        state, last = head.content, tx.line(head.number)
        oldest = min(map(int, state.open), default=None)
        waiting = None if oldest is None else tx.line(oldest)
    balance = _budget.balance(state)
    ways = [{c: _part(*balance.amounts[c]) for c in route} for route in balance.routes]
    file = ledger.where if os.path.isfile(ledger.where) else None  # noqa: PTH113 - a text everywhere
    return {
        "lines": head.number,
        "period": state.period,
        "format": state.format,
        "open": len(state.open),
        "oldest_open": None if waiting is None else _age(waiting.when),
        "last": None if last is None else _age(last.when),
        "spent": min(ways, key=lambda way: max(way.values())),
        "closed": list(state.closed),
        "marks": [None if mark is None else head.number - mark.number for mark in ledger.marks()],
        "bytes": None if file is None else os.path.getsize(file),  # noqa: PTH202 - as above
        "free": None if file is None else shutil.disk_usage(os.path.dirname(file)).free,  # noqa: PTH120 - as above
    }


def _part(spent: Fraction, total: Fraction) -> float:
    """Part that is spent; of nothing, everything."""
    return round(float(min(spent / total, Fraction(1))), 2) if total else 1.0


def _age(when: str) -> int:
    return int((dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(when)).total_seconds())
