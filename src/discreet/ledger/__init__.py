"""Ledgers: debit before run, exact rationals, no refund."""

from __future__ import annotations

from discreet.ledger._budget import caps, charge
from discreet.ledger._memory import MemoryLedger
from discreet.ledger._protocol import Balance, Entry, Ledger

__all__ = ["Balance", "Entry", "Ledger", "MemoryLedger", "caps", "charge"]
