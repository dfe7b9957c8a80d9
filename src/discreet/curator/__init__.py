"""The road itself: from a question to an answer, paid first."""

from __future__ import annotations

from discreet.curator._curator import Budget, Curator, Price, open_curator
from discreet.curator._quote import Quote
from discreet.curator._release import Noise, fresh_salt, measure

__all__ = [
    "Budget",
    "Curator",
    "Noise",
    "Price",
    "Quote",
    "fresh_salt",
    "measure",
    "open_curator",
]
