"""A lowered question: what is measured, and how its answer follows."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Final

from discreet._dataclass import dataclass
from discreet.errors import ParameterError
from discreet.plan._cut import cut
from discreet.plan._formula import Formula
from discreet.plan._normal import identity
from discreet.plan._parts import Part
from discreet.plan._query import OutputColumn, Query
from discreet.plan._relation import Aggregate, combinations, digest
from discreet.plan._rounding import allowance, off_of
from discreet.plan._shared import shared_rows
from discreet.plan._target import rows_of_one_unit, target

MAX_NUMBERS: Final = 10_000_000
"""Most noisy numbers of one question."""


@dataclass(frozen=True)
class Lowered:
    """A query as parts to measure and formulas to compute."""

    query: Query
    aggregates: tuple[Aggregate, ...]
    parts: tuple[Part, ...]
    formulas: tuple[Formula, ...]  # one per statistic, then those of whole outputs
    outputs: tuple[OutputColumn, ...]  # as the query has them, over these formulas
    selector: int | None  # part that selects open keys
    labels: tuple[str, ...] | None  # names of the rows, where they are not the cells
    alone: frozenset[int] = frozenset()  # statistics whose formula is that of an output
    counts: tuple[tuple[int, int], ...] = ()  # rounded sums, and formulas of their numbers of rows

    @property
    def draws(self) -> int:
        """How many equal shares of a price its parts take."""
        return sum(part.draws for part in self.parts)

    @cached_property
    def measured(self) -> str:
        """Identity of what is measured: neither names of outputs nor what follows the noise."""
        alike = tuple(map(identity, self.aggregates))
        return digest((alike, self.parts, self.selector, self.labels))

    @cached_property
    def target(self) -> tuple[str, ...]:
        """Limits and clamps that stand between the table and the numbers."""
        return tuple(target(self.query, self.aggregates))

    @cached_property
    def cut(self) -> tuple[str, ...]:
        """What limits cut off numbers per person."""
        return tuple(cut(self.query, self.aggregates))

    @cached_property
    def rows_of_one_unit(self) -> tuple[tuple[int | None, ...], ...]:
        """Most rows of one unit behind one number, and behind all numbers, of every release."""
        pairs = [(part, self.aggregates[part.aggregate]) for part in self.outlets]
        return tuple([tuple(rows_of_one_unit(*pair)) for pair in pairs])

    @cached_property
    def outlets(self) -> tuple[Part, ...]:
        """The part behind every release; formulas name releases."""
        return tuple([part for part in self.parts for _ in range(part.outlets)])

    @cached_property
    def rounded(self) -> tuple[tuple[str, str, int | None] | None, ...]:
        """How far curves' grids move every statistic: its kind, by how much, what counts rows."""
        counts = dict(self.counts)
        moves: list[tuple[str, str, int | None] | None] = []
        for i, s in enumerate(self.query.statistics):
            off = Fraction(0) if s.expr is None or s.rounded is None else off_of(s.expr)
            moves.append((s.rounded, str(off), counts.get(i)) if s.rounded and off else None)
        return tuple(moves)

    def allowance(self, index: int) -> str:
        """What curves' grids add to the margin of a statistic, in words."""
        kind, off, _ = (index < len(self.rounded) and self.rounded[index]) or ("", "0", None)
        return allowance(kind, Fraction(off)) if kind else ""

    @cached_property
    def values_of_one_row(self) -> tuple[tuple[str, ...] | None, ...]:
        """Least and greatest number that one row adds to every statistic that adds rows up."""
        pairs = enumerate(self.query.statistics)
        ends = [None if i in self.alone else s.row_values for i, s in pairs]
        return tuple([None if e is None else tuple(map(str, e)) for e in ends])

    @cached_property
    def shared_rows(self) -> dict[str, list[list[int]] | list[int | None]]:
        """Which rows the statistics of one output share."""
        return shared_rows(self.query.statistics, self.query.outputs)


def check_size(query: Query, parts: Sequence[Part]) -> None:
    """Refuse more noisy numbers than fit one answer."""
    cells = combinations([k for k in query.keys if k.codes is not None]) or 0
    total = cells * sum([part.numbers for part in parts])
    if total > MAX_NUMBERS:
        raise ParameterError(
            f"the question needs {total} noisy numbers; at most {MAX_NUMBERS} fit one answer",
            hint="group by fewer columns, or narrow them with WHERE … IN (…)",
        )
