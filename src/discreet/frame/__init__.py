"""The fluent way to ask: the same questions as SQL, built step by step.

Its statistics (``count``, ``mean``, ``median`` …) are made from the plan's one table
of statistics.
"""

from __future__ import annotations

from collections.abc import Callable

from discreet.frame._table import Asker, Table, parse, rows_of, to_sql
from discreet.frame._terms import Term, col, function
from discreet.plan import FLUENT

__all__ = ["Asker", "Table", "Term", "col", "function", "parse", "rows_of", "to_sql", *FLUENT]  # noqa: PLE0604 - names of the table


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Callable[..., Term]:
    if name in FLUENT:
        term = globals()[name] = function(name)
        return term
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
