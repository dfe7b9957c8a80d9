"""Ledgers: debit before run, exact rationals, no refund.

A ledger belongs to a policy's identity. It is a chain of lines: debits, and the
owner's recorded decisions. Everybody who opens the same policy spends from the
same ledger, and a ledger that is not what it was is refused.
"""

from __future__ import annotations

from discreet.ledger._anchor import Mark, behind
from discreet.ledger._backup import UNKNOWN, backup, restore
from discreet.ledger._budget import caps, least_cost, refusal, refuses
from discreet.ledger._chain import Line
from discreet.ledger._data import claim
from discreet.ledger._health import health
from discreet.ledger._ledger import ChainedLedger, Purpose
from discreet.ledger._open import (
    MemoryLedger,
    PostgresLedger,
    SqliteLedger,
    adopt,
    floor,
    forget,
    known_place,
    open_ledger,
    standing,
)
from discreet.ledger._protocol import (
    Balance,
    Entry,
    Ledger,
    Receipt,
    Standing,
    Verified,
    charge,
    exact_in,
)
from discreet.ledger._state import RESTORED, State

__all__ = [
    "RESTORED",
    "UNKNOWN",
    "Balance",
    "ChainedLedger",
    "Entry",
    "Ledger",
    "Line",
    "Mark",
    "MemoryLedger",
    "PostgresLedger",
    "Purpose",
    "Receipt",
    "SqliteLedger",
    "Standing",
    "State",
    "Verified",
    "adopt",
    "backup",
    "behind",
    "caps",
    "charge",
    "claim",
    "exact_in",
    "floor",
    "forget",
    "health",
    "known_place",
    "least_cost",
    "open_ledger",
    "refusal",
    "refuses",
    "restore",
    "standing",
]
