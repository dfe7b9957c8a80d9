"""Answers: tables with honest error bars, and the records behind them."""

from __future__ import annotations

from discreet.answer._answer import Answer
from discreet.answer._record import Record, ReleasedTree, ReleasedVector, read

__all__ = ["Answer", "Record", "ReleasedTree", "ReleasedVector", "read"]
