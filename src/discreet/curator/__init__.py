"""The road itself: from a question to an answer, paid first."""

from __future__ import annotations

from discreet.curator._batch import Batch, Pending
from discreet.curator._budget import Budget
from discreet.curator._curator import Curator
from discreet.curator._open import open_curator
from discreet.curator._quote import Quote
from discreet.curator._release import Noise, fresh_salt, measure

__all__ = [
    "Batch",
    "Budget",
    "Curator",
    "Noise",
    "Pending",
    "Quote",
    "fresh_salt",
    "measure",
    "open_curator",
]
