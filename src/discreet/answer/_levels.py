"""The rows of an answer: its cells, or totals of them at several levels.

ROLLUP, CUBE and GROUPING SETS are measured once, at the finest level, and added up
after the noise. That is at least as exact, row by row on average, as measuring h levels
with a share of the price each: the rows of one level partition the K cells, so all rows
together hold h·K cells, and as the finest level alone has K rows the mean number of
cells per row, and with it the mean variance, is at most h times that of a cell. Split
prices give every row h times (Gaussian) or h² times (Laplace) that variance.

The noise of a total of k cells has the law of a sum of k independent noises. Cells of
different levels share noise, so nothing here calls them independent.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from discreet import noise
from discreet._dataclass import dataclass, replace
from discreet.answer import _outputs
from discreet.answer._record import Record
from discreet.plan import (
    ROUNDED,
    Box,
    Numbers,
    OutputExpr,
    Release,
    Total,
    damaged,
    moved,
    ratio_box,
    rational,
    statistics_of,
)

Column = NDArray[Any]
_SHARE: Final = 0.1
"""Part of the error allowed to a rounded sum that a bound of its number of rows gets."""


@dataclass(frozen=True)
class _Level:
    """Rows of one level: the keys it shows, and which cells each row adds up."""

    names: tuple[str, ...]
    first: NDArray[np.int64]  # for each row, a cell of it
    row: NDArray[np.int64]  # for each cell, its row
    parts: tuple[Release, ...]


class Rows:
    """What the outputs of a record are computed from: keys, statistics, and rows to look at."""

    def __init__(self, record: Record) -> None:
        self._record = record

    @cached_property
    def levels(self) -> tuple[_Level, ...]:
        """One for each set of keys; all cells where none are named."""
        record = self._record
        if not record.levels:
            places = np.arange(record.cells)
            return (_Level(tuple(record.keys), places, places, record.parts),)
        return tuple(_level(record, names) for names in record.levels)

    @cached_property
    def cells(self) -> int:
        """How many rows there are."""
        return sum(level.first.size for level in self.levels)

    @cached_property
    def keys(self) -> Mapping[str, Column]:
        """Values of the keys; NULL where a row adds up over them."""
        columns = {}
        for name, column in self._record.keys.items():
            values = [
                column[cell] if name in level.names else None
                for level in self.levels
                for cell in level.first
            ]
            columns[name] = np.array([*values, None], dtype=object)[:-1]
        return columns

    @property
    def test(self) -> OutputExpr | None:
        """HAVING: which rows windows look at."""
        return self._record.having

    @cached_property
    def survivors(self) -> NDArray[np.int64]:
        """Rows that HAVING keeps."""
        rows = np.arange(self.cells)
        test = self._record.having
        return rows if test is None else rows[_outputs.evaluate(test, self).astype(bool)]

    def grouping(self, name: str) -> Column:
        """1 in rows that add up over a key."""
        flags = [np.full(x.first.size, float(name not in x.names)) for x in self.levels]
        return np.concatenate(flags)

    def statistic(self, index: int) -> Column:
        """Estimates of one statistic."""
        formula = self._record.formulas[index]
        return np.concatenate([formula.estimate(level.parts) for level in self.levels])

    def box(self, index: int, level: float) -> Box:
        """Ends of one statistic, if every statement about noise holds with `level`."""
        stated = moved_by(self._record, index)
        if stated is None:
            return self._noise(index, level)
        kind, off, count = stated
        if kind != "sum":
            return moved(kind, self._noise(index, level), off)
        spare = _SHARE * (1 - level)
        rows = self._noise(count, 1 - spare).high
        return moved(kind, self._noise(index, level + spare), off, rows)

    def _noise(self, index: int, level: float) -> Box:
        """Ends of the noise alone."""
        formula = self._record.formulas[index]
        boxes = [formula.box(each.parts, level) for each in self.levels]
        low, high = (np.concatenate([getattr(b, e) for b in boxes]) for e in ("low", "high"))
        return Box(low, high)

    def _combined(self, terms: Mapping[int, Fraction]) -> dict[int, Fraction] | None:
        """A combination of counts and sums in what was released; None where it is none."""
        found: dict[int, Fraction] = {}
        for index, times in terms.items():
            own = self._record.formulas[index].combination
            if own is None or moved_by(self._record, index):
                return None
            for cell, weight in own.items():
                found[cell] = found.get(cell, Fraction(0)) + times * weight
        return found or None

    def quotient(
        self, above: Mapping[int, Fraction], below: Mapping[int, Fraction], level: float
    ) -> Box | None:
        """Ends of one sum over another, as one statement; None where they are not known so."""
        top, bottom = self._combined(above), self._combined(below)
        if top is None or bottom is None:
            return None
        boxes = [ratio_box(top, bottom, each.parts, level) for each in self.levels]
        if None in boxes:
            return None
        low, high = (np.concatenate([getattr(b, e) for b in boxes]) for e in ("low", "high"))
        return Box(low, high)

    def added(self, index: int) -> tuple[noise.Law | None, float] | None:
        """Law and step of a total whose cells, none of them chosen, have noise of their own."""
        record, formula = self._record, self._record.formulas[index]
        chosen = record.having is not None and bool(statistics_of(record.having))
        if not isinstance(formula, Total) or record.levels or chosen or moved_by(record, index):
            return None
        numbers = record.numbers(formula.vector)
        if numbers.threshold is not None or (numbers.law and not numbers.law.symmetric):
            return None
        return numbers.law, float(formula.step)

    def statements(self, statistics: set[int]) -> int:
        """Count the independent statements about noise behind some statistics."""
        formulas, parts = self._record.formulas, self._record.parts
        return len(set().union(*(formulas[i].statements(parts) for i in statistics)))


def moved_by(record: Record, index: int) -> tuple[str, float, int] | None:
    """How rounding moves a statistic: its kind, by how much, and which formula counts its rows."""
    stated = record.statement.get("rounded")
    entry = stated[index] if isinstance(stated, list) and index < len(stated) else None
    if entry is None:
        return None
    if not isinstance(entry, list) or len(entry) != 3 or entry[0] not in ROUNDED:
        raise damaged("it does not say how far values were rounded")
    kind, off, count = entry
    if kind == "sum" and not (type(count) is int and 0 <= count < len(record.formulas)):
        raise damaged("it does not say how many values were rounded")
    return kind, float(rational(off)), count if type(count) is int else -1


def _level(record: Record, names: tuple[str, ...]) -> _Level:
    places: dict[tuple[object, ...], int] = {}
    first, row = [], []
    for cell in range(record.cells):
        key = tuple(record.keys[name][cell] for name in names)
        if key not in places:
            places[key] = len(places)
            first.append(cell)
        row.append(places[key])
    rows = np.array(row, dtype=np.int64)
    parts = tuple(_added_up(part, rows, len(places)) for part in record.parts)
    return _Level(names, np.array(first, dtype=np.int64), rows, parts)


def _added_up(part: Release, row: NDArray[np.int64], rows: int) -> Release:
    """Totals of a release; others than plain numbers have none, and no formula reads them."""
    if not isinstance(part, Numbers) or part.threshold is not None:
        return part
    totals = [0] * rows
    for place, value in zip(row, part.values, strict=True):
        totals[place] += value
    law: Any = part.law
    terms = int(np.bincount(row, minlength=1).max())
    # records from elsewhere may have rows of unequal size: the largest holds for all
    if law is not None and terms > 1:
        law = noise.sum_of([law], [terms])
    return replace(part, values=tuple(totals), law=law)
