"""The fluent way to ask: the same questions as SQL, built step by step."""

from __future__ import annotations

from discreet.frame._table import Asker, Table
from discreet.frame._terms import (
    Term,
    col,
    count,
    count_distinct,
    max,  # noqa: A004 - the statistic's own name
    mean,
    median,
    min,  # noqa: A004
    mode,
    proportion,
    quantile,
    std,
    sum,  # noqa: A004
    var,
)

__all__ = [
    "Asker",
    "Table",
    "Term",
    "col",
    "count",
    "count_distinct",
    "max",
    "mean",
    "median",
    "min",
    "mode",
    "proportion",
    "quantile",
    "std",
    "sum",
    "var",
]
