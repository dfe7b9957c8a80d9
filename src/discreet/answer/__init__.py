"""Answers: tables with honest error bars, and the records behind them."""

from __future__ import annotations

from discreet._vega import FORMS, Chart, check_renderer
from discreet.answer._answer import Answer
from discreet.answer._levels import Rows, moved_by
from discreet.answer._outputs import bounds, evaluate
from discreet.answer._record import CURRENCIES, Record, read
from discreet.answer._rehearse import rehearse
from discreet.answer._show import as_data, cell, cells, footer, marks, price, scalar, unused
from discreet.answer._union import Union

__all__ = [
    "CURRENCIES",
    "FORMS",
    "Answer",
    "Chart",
    "Record",
    "Rows",
    "Union",
    "as_data",
    "bounds",
    "cell",
    "cells",
    "check_renderer",
    "evaluate",
    "footer",
    "marks",
    "moved_by",
    "price",
    "read",
    "rehearse",
    "scalar",
    "unused",
]
