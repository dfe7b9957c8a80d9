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

A row counts as chosen by an answer that chooses, whether it is named before or after looking.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from discreet._dataclass import dataclass
from discreet._print import plural
from discreet.answer import Answer
from discreet.errors import ParameterError
from discreet.inference._results import QUERY
from discreet.sql import of_all_rows

_AGAIN = "ask without HAVING, QUALIFY, ORDER BY and LIMIT: free, as what was measured is stored"


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """A cell of an answer whose noise helped to choose the rows that are shown."""

    answer: Answer
    column: str
    cell: int
    rows: int
    """How many rows could have been shown."""
    measured: object
    """What tells one release from another."""

    def ends(self, value: Any, level: float) -> tuple[float, float] | None:
        """Ends of the exact number behind the column; None where `value` is another number."""
        if self.answer.full_record.levels or self.answer.rivals:
            return None
        box = self.answer.ends(self.column, level)
        own = float(self.answer.values_of(self.column)[self.cell])
        if box is None or float(value) != own:
            return None
        return float(box.low[self.cell]), float(box.high[self.cell])

    @property
    def covers(self) -> str:
        """What an interval covers."""
        return f"{QUERY}, allowing for rows chosen by noisy numbers: {self.answer.selection}"


def choice_of(
    answer: Answer, column: str, cell: int | None, measured: object
) -> tuple[Chosen, ...]:
    """Mark one cell if noise chose it; all cells together are chosen by nobody."""
    rows = answer.rivals or max(answer.cells, 1)
    if cell is None or rows == 1 or (answer.rivals is None and column not in answer.chosen):
        return ()
    return (Chosen(answer, column, cell, rows, measured),)


def asked_of_all(answer: Answer) -> str | None:
    """The answer's own question, of all rows; None where it is not known as a text."""
    return None if answer.question is None else of_all_rows(answer.question)


def left_over(marks: Iterable[Chosen]) -> tuple[Chosen, ...]:
    """Marks of answers that are not there with all their cells."""
    groups: dict[object, dict[int, Chosen]] = {}
    for mark in marks:
        groups.setdefault((mark.measured, mark.column), {})[mark.cell] = mark
    return tuple(
        mark
        for each in groups.values()
        for mark in each.values()
        if len(each) < mark.answer.full_record.cells or mark.answer.rivals
    )


def unchosen(marks: Iterable[Chosen], what: str = "a test") -> None:
    """Refuse `what` where noise chose some of its numbers, and not all are there."""
    for mark in left_over(marks):
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
    if len({(mark.measured, mark.cell) for mark in own}) > 1:
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
