r"""Rows that the noise chose: what can be said of a number that is shown because it is large.

HAVING, QUALIFY, ORDER BY with LIMIT and WHERE around an answer show rows by their noisy numbers. A
number read off such a row is no longer the exact one plus noise of mean zero, and an interval
of the noise alone misses far more often than it says. So a number carries what chose it:

- *about the query*: the answer's own interval, valid over the choice
  (:mod:`discreet.answer._selected`);
- *about a population*, of G rows that could have been shown: an interval at
  :math:`1-\alpha/G`. All G hold at once with probability 1 − α, whichever is shown;
- a *test*, or a *combination* with other numbers, is refused: no method is known that keeps its
  level for one row of several and is worth anything. All rows together are nobody's choice.

Keys that were selected from the data by the very number that is read are chosen by it, too, and
nobody knows how many were not. The answer's own interval, given that the key is there, is all
there is.

A column whose own noise had no part in the choice is shown with the exact number plus noise of mean
zero: what is said about the query stands. About a population it does not: the sample that made one
column large moved the others too, so population intervals and tests see the choice in every column.

A row counts as chosen by an answer that chooses, whether it is named before or after looking.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from discreet._dataclass import dataclass
from discreet._print import plural
from discreet.answer import Answer, Record
from discreet.errors import ParameterError
from discreet.inference._results import QUERY, plain
from discreet.plan import Numbers
from discreet.sql import of_all_rows

_AGAIN = "ask without HAVING, QUALIFY, ORDER BY and LIMIT: free, as what was measured is stored"


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """A cell of an answer whose noise helped to choose the rows that are shown."""

    answer: Answer
    column: str
    cell: int | None
    """None: all cells, of keys that were selected by the number itself."""
    rows: int
    """How many rows could have been shown; zero: keys were selected, and nobody knows."""
    measured: object
    """What tells one release from another."""
    elsewhere: bool = False
    """Whether another column's noise chose the row: people's sampling moved both."""

    def ends(self, value: Any, level: float) -> tuple[Any, Any] | None:
        """Ends of the exact number behind the column; None where `value` is another number."""
        if self.answer.full_record.levels or self.answer.rivals:
            return None
        at = slice(None) if self.cell is None else self.cell
        box = self.answer.ends(self.column, level)
        if box is None or not np.array_equal(value, self.answer.values_of(self.column)[at]):
            return None
        return plain(box.low[at]), plain(box.high[at])

    @property
    def covers(self) -> str:
        """What an interval covers."""
        if not self.rows:
            return f"{QUERY}, given that this number selected its key"
        return f"{QUERY}, allowing for rows chosen by noisy numbers: {self.answer.selection}"


def selects(record: Record, index: int) -> bool:
    """Whether the number behind a statistic selected the keys from the data."""
    parts = (record.parts[part] for part in record.formulas[index].parts)
    return any(isinstance(p, Numbers) and p.threshold is not None for p in parts)


def choice_of(
    answer: Answer, column: str, cell: int | None, measured: object, *, selected: bool = False
) -> tuple[Chosen, ...]:
    """Mark one cell if noise chose it; all cells together are chosen by nobody.

    `selected` says that the number itself selected the keys.
    """
    if selected:
        return (Chosen(answer, column, cell, 0, measured),)
    rows = answer.rivals or max(answer.cells, 1)
    elsewhere = answer.rivals is None and column not in answer.chosen
    if cell is None or rows == 1 or (elsewhere and not answer.chooses):
        return ()
    return (Chosen(answer, column, cell, rows, measured, elsewhere),)


def by_noise(marks: Iterable[Chosen]) -> tuple[Chosen, ...]:
    """Leave what matters to a statement about the query: its own noise chose the row."""
    return tuple(mark for mark in marks if not mark.elsewhere)


def asked_of_all(answer: Answer) -> str | None:
    """The answer's own question, of all rows; None where it is not known as a text."""
    return None if answer.question is None else of_all_rows(answer.question)


def left_over(marks: Iterable[Chosen]) -> tuple[Chosen, ...]:
    """Marks of answers that are not there with all their cells."""
    groups: dict[object, dict[int | None, Chosen]] = {}
    for mark in marks:
        groups.setdefault((mark.measured, mark.column), {})[mark.cell] = mark
    return tuple(
        mark
        for each in groups.values()
        for mark in each.values()
        if len(each) < mark.answer.full_record.cells or mark.answer.rivals or not mark.rows
    )


def unchosen(marks: Iterable[Chosen], what: str = "a test") -> None:
    """Refuse `what` where noise chose some of its numbers, and not all are there."""
    for mark in left_over(marks):
        if not mark.rows:
            raise ParameterError(
                f"column {mark.column!r} is the noisy number by which its keys were selected from "
                f"the data, and {what} takes it for the exact number plus noise of mean zero; a "
                "count of rows has noise of its own",
                hint="COUNT(*) AS n",
            )
        raise ParameterError(
            f"column {mark.column!r} was read in a row that noisy numbers chose (HAVING, QUALIFY, "
            f"ORDER BY with LIMIT, or WHERE around an answer), and {what} takes it for the exact "
            "number plus noise of mean zero, which a chosen row's is not; "
            f"{_AGAIN}, and name rows before looking, or all of them",
            hint=asked_of_all(mark.answer) or "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex",
        )


def among(marks: Iterable[Chosen], what: str) -> int:
    """How many rows one could have been, of which these numbers are read; 1: nobody chose it."""
    own = left_over(marks)
    if len({(mark.measured, mark.cell) for mark in own}) > 1 or not all(m.rows for m in own):
        unchosen(own, what)
    return max((mark.rows for mark in own), default=1)


def said(covers: str, rows: int) -> str:
    """What an interval covers that holds for this many rows at once."""
    if rows == 1:
        return covers
    return (
        f"{covers}; noisy numbers chose the row: the interval holds for all "
        f"{plural(rows, 'row')} at once that could be shown"
    )
