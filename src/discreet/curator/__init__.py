"""The road itself: from a question to an answer, paid first."""

from __future__ import annotations

from discreet.curator._batch import Batch, Pending
from discreet.curator._budget import Budget
from discreet.curator._counter import Bill, Counter, Proved, read_outcome, run_bill
from discreet.curator._coverage import Coverage
from discreet.curator._curator import Curator
from discreet.curator._describe import HEADER, Description, rows_of, whom
from discreet.curator._external import record_external
from discreet.curator._guests import asker, execute, lowered, travel
from discreet.curator._open import open_curator
from discreet.curator._proof import check_statements
from discreet.curator._quote import Quote
from discreet.curator._release import fresh_salt, measure
from discreet.curator._road import Claim, Job, Outcome, Paid, Road

__all__ = [
    "HEADER",
    "Batch",
    "Bill",
    "Budget",
    "Claim",
    "Counter",
    "Coverage",
    "Curator",
    "Description",
    "Job",
    "Outcome",
    "Paid",
    "Pending",
    "Proved",
    "Quote",
    "Road",
    "asker",
    "check_statements",
    "execute",
    "fresh_salt",
    "lowered",
    "measure",
    "open_curator",
    "read_outcome",
    "record_external",
    "rows_of",
    "run_bill",
    "travel",
    "whom",
]
