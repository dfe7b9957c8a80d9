"""UNION ALL of answers: their rows below each other, ordered and cut as one table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np

from discreet import _exact
from discreet._exact import Number
from discreet.answer import _outputs
from discreet.answer._answer import Answer
from discreet.answer._record import UNION, VERSION, read, read_union
from discreet.plan import Release

Row = dict[str, Any]


class Union(Answer):
    """Answers of one debit whose rows stand below each other.

    Attributes
    ----------
    branches
        The answers, each with a record of its own.
    """

    def __init__(
        self,
        branches: Sequence[Answer],
        order: Sequence[tuple[int, bool]] = (),
        limit: int | None = None,
        *,
        cost: Mapping[str, str],
    ) -> None:
        first = branches[0]
        record = first._record  # noqa: SLF001 - of its own class
        super().__init__(record, left=first.left, tainted=first.tainted, cached=first.cached)
        self.branches = tuple(branches)
        self._order, self._limit, self._cost = tuple(order), limit, cost
        if self._cut:
            for branch in self.branches:
                branch.rivals = sum(b.cells for b in self.branches)

    @classmethod
    def of_record(cls, data: Mapping[str, Any]) -> Union:
        """Rebuild a union from its record."""
        records, order, limit, cost = read_union(data)
        return cls([Answer(read(r)) for r in records], order, limit, cost=cost)

    def record(self) -> dict[str, Any]:
        """Return the JSON-able records of all branches."""
        return {
            "discreet": VERSION,
            UNION: [b.record() for b in self.branches],
            "order": [list(item) for item in self._order],
            "limit": self._limit,
            "cost": dict(self._cost),
        }

    @property
    def parts(self) -> tuple[Release, ...]:
        """What was released, branch by branch."""
        return tuple(part for b in self.branches for part in b.parts)

    @property
    def margins(self) -> str:
        """What ± allows for: steps, if a branch has any."""
        return max((b.margins for b in self.branches), key=len)

    @property
    def cost(self) -> Mapping[str, str]:
        """What all branches cost together."""
        return self._cost

    @property
    def covers(self) -> str:
        """What the intervals of each branch cover."""
        return "; ".join(dict.fromkeys(b.covers for b in self.branches))

    @property
    def target(self) -> tuple[str, ...]:
        """Limits and clamps of all branches."""
        return tuple(dict.fromkeys(fact for b in self.branches for fact in b.target))

    @property
    def cut(self) -> tuple[str, ...]:
        """What limits cut off numbers per person, in any branch."""
        return tuple(dict.fromkeys(fact for b in self.branches for fact in b.cut))

    @property
    def chosen(self) -> tuple[str, ...]:
        """Columns whose noise helped to choose the rows that are shown."""
        if self._cut:
            return tuple(self.columns)
        names = [self.columns[b.columns.index(n)] for b in self.branches for n in b.chosen]
        return tuple(dict.fromkeys(names))

    @property
    def selection(self) -> str | None:
        """How intervals allow for rows that noisy numbers chose; None where none did."""
        if self._cut:
            return "± holds for all rows of the union that could be shown at once"
        return "; ".join(dict.fromkeys(b.selection for b in self.branches if b.selection)) or None

    @property
    def exact(self) -> frozenset[str]:
        """Columns that hold public numbers in every branch."""
        places = [{i for i, n in enumerate(b.columns) if n in b.exact} for b in self.branches]
        return frozenset(self.columns[i] for i in set.intersection(*places))

    def __len__(self) -> int:
        return len(self._places)

    @property
    def rolled_up(self) -> list[frozenset[str]]:
        """Columns in which each row stands for all values of a key of its branch."""
        below = [[b.columns.index(n) for n in row] for b in self.branches for row in b.rolled_up]
        return [frozenset(self.columns[i] for i in below[place]) for place in self._places]

    @property
    def _cut(self) -> bool:
        """Whether an order that holds noise decides which rows are shown."""
        rows = sum(len(b) for b in self.branches)
        return self._limit is not None and bool(self._order) and self._limit < rows

    @cached_property
    def _below(self) -> list[list[Any]]:
        return [list(row.values()) for b in self.branches for row in b.to_dicts()]

    @cached_property
    def _places(self) -> list[int]:
        """Rows of the union, in order."""
        places = np.arange(len(self._below))
        for column, descending in reversed(self._order):
            values = np.array([*(row[column] for row in self._below), None], dtype=object)[:-1]
            ranks = _outputs.sortable(values)[places]
            places = places[np.argsort(-ranks if descending else ranks, kind="stable")]
        return [int(i) for i in places][: self._limit]

    def _rows_of(self, below: Sequence[Sequence[Any]]) -> Iterator[Row]:
        for place in self._places:
            yield dict(zip(self.columns, below[place], strict=True))

    def to_dicts(self) -> list[Row]:
        """Return the rows as dictionaries of Python values."""
        return list(self._rows_of(self._below))

    def interval(
        self,
        confidence: Number = 0.95,
        *,
        simultaneous: bool = False,
        target: Literal["query", "population"] = "query",
        size: int | None = None,
    ) -> list[Row]:
        """Return, row by row, ``(low, high)`` for every number and keys as they are."""
        level = _exact.confidence(confidence)
        if simultaneous or self._cut:
            # branches have noise of their own, but the rows of each may share it
            simultaneous, level = True, 1 - (1 - level) / len(self.branches)
        below = [
            list(row.values())
            for b in self.branches
            for row in b.interval(level, simultaneous=simultaneous, target=target, size=size)
        ]
        return list(self._rows_of(below))
