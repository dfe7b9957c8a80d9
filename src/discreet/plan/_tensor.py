"""Tensors: integers per cell that are never negative and add up to one total in each row.

Guarantee
---------
One unit moves all of them together by at most as much as the total times a count moves
(:mod:`._moments` has the proof), so they are measured by one draw, each with the noise of the
whole loss.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from discreet._dataclass import dataclass, replace
from discreet.plan._expr import Constant
from discreet.plan._parts import (
    Cells,
    Draw,
    Exact,
    Floats,
    Groups,
    Law,
    Part,
    Priced,
    Release,
    Rule,
    add,
    loss_of,
)
from discreet.plan._relation import Aggregate, Measure, MeasureKind
from discreet.plan._stability import Sensitivity, sensitivity
from discreet.plan._types import Type
from discreet.plan._valid import damaged, integers
from discreet.plan._vectors import read_law
from discreet.privacy import Neighbours


def joint_sensitivity(main: Aggregate, whole: int) -> Sensitivity:
    """How far one unit moves cells that are never negative and add up to `whole` in each row."""
    one = Constant(whole, Type.number(whole, whole, null=False))
    adding = replace(main, neighbours=Neighbours.ADD_REMOVE)
    moves = sensitivity(adding, Measure(MeasureKind.SUM, one))
    if main.neighbours is Neighbours.ADD_REMOVE:
        return moves
    return Sensitivity(2 * moves.l1, 2 * moves.l2_squared, moves.linf)


@dataclass(frozen=True)
class Tensor(Part):
    """Shares of one total, several per cell, that one unit moves together."""

    measures: tuple[int, ...]
    each: tuple[Sensitivity, ...]
    """How far one unit moves each share, as the statement bounds it."""

    kind: ClassVar[str] = "tensor"

    @property
    def reads(self) -> tuple[int, Sensitivity]:
        """The first of its measures."""
        return self.measures[0], self.each[0]

    @property
    def inputs(self) -> tuple[tuple[int, Sensitivity], ...]:
        """All measures."""
        return tuple(zip(self.measures, self.each, strict=True))

    @property
    def numbers(self) -> int:
        """So many for each cell."""
        return len(self.measures)

    def price(self, rule: Rule) -> Priced:
        """One draw for all."""
        law = rule.law(self.sensitivity)
        return Priced(self, law, (loss_of(law, self.sensitivity, self.coordinates),))

    def release(self, priced: Priced, groups: Groups, cells: Cells, draw: Draw) -> Tensors:
        """Add noise of one law to every number."""
        columns = [cells.totals(groups, m) for m in self.measures]
        noisy = [add(c, draw.sample(priced.law, c.size)) for c in columns]
        rows = zip(*(column.tolist() for column in noisy), strict=True)
        return Tensors(tuple(tuple(int(v) for v in row) for row in rows), priced.law)

    def measurements(self, groups: Groups) -> Iterator[tuple[str, Exact]]:
        """All numbers of every group, as one draw."""
        yield (
            "",
            {
                (*cell, j): values[m]
                for cell, values in groups.items()
                for j, m in enumerate(self.measures)
            },
        )


def tensor_of(
    main: Aggregate, cells: Sequence[Measure], whole: int, first: int, coordinates: int
) -> Tensor:
    """The part of cells that add up to `whole` in each row; they stand from `first` on."""
    return Tensor(
        0,
        joint_sensitivity(main, whole),
        len(cells) * coordinates,
        tuple(range(first, first + len(cells))),
        tuple(sensitivity(main, cell) for cell in cells),
    )


@dataclass(frozen=True)
class Tensors(Release):
    """Equally many noisy integers per cell, and their law."""

    values: tuple[tuple[int, ...], ...]
    law: Law

    kind: ClassVar[str] = "tensor"

    @property
    def width(self) -> int:
        """Integers of each cell."""
        return len(self.values[0]) if self.values else 0

    @property
    def size(self) -> int:
        """How many integers there are."""
        return self.width * len(self.values)

    @property
    def floats(self) -> Floats:
        """The integers, one row per cell."""
        return np.array(self.values, dtype=np.float64).reshape(-1, self.width or 1)

    def to_dict(self) -> dict[str, Any]:
        """Write values and law."""
        return {"law": self.law.to_dict(), "values": [list(map(int, row)) for row in self.values]}

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Self:
        """Invert :meth:`to_dict`."""
        return cls(tuple(integers(row) for row in data["values"]), read_law(data["law"]))

    def check(self, cells: int) -> None:
        """Refuse rows that do not fit the cells."""
        if len(self.values) != cells or any(len(row) != self.width for row in self.values):
            raise damaged("a tensor does not fit its cells")
