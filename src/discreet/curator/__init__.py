"""The road itself: from a question to an answer, paid first."""

from __future__ import annotations

from discreet.curator._curator import Budget, Curator, Price, open_curator
from discreet.curator._quote import Quote

__all__ = ["Budget", "Curator", "Price", "Quote", "open_curator"]
