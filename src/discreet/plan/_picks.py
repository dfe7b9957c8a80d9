r"""Picks: the most frequent labels of each cell, chosen by their counts.

Scores are counts: one more row raises one score of its cell by one and lowers none, so
they are monotone with Δ = 1, and the choices of all cells cost what
:mod:`discreet.plan._choices` proves. ``top`` labels are chosen one after another without
replacement: as many draws compose, each on the scores that the earlier choices left over.
Groups of a question are chosen so by :mod:`discreet.plan._top`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil, log
from typing import Any, ClassVar, Self

import numpy as np

from discreet._dataclass import dataclass, field, replace
from discreet._print import plural
from discreet.plan._choices import Choice, Moves
from discreet.plan._parts import (
    Cells,
    Chosen,
    Draw,
    Exact,
    Groups,
    Ints,
    Part,
    Priced,
    Release,
    Rule,
)
from discreet.plan._valid import damaged, integer


@dataclass(frozen=True)
class Pick(Part):
    """The ``top`` most frequent codes of each cell."""

    top: int
    codes: tuple[int, ...]
    labels: tuple[object, ...]
    squares: int
    """Bound on the sum over cells of the squared range in which one unit moves scores."""
    name: str = field(default="", compare=False)
    """What is chosen, in words."""

    kind: ClassVar[str] = "pick"

    @property
    def gaussian(self) -> bool:
        """A choice needs ε, or ρ."""
        return False

    @property
    def draws(self) -> int:
        """One for each label listed."""
        return self.top

    def facts(self, law: Choice) -> list[str]:
        """How far what was chosen may be from the most frequent.

        A code with t rows fewer than the best is chosen with probability e^(-εt/Δ) at most, by
        either mechanism; all other codes and all choices are added up.
        """
        others = self.top * (len(self.codes) - 1)
        if not others or not isinstance(law, Choice):
            return []  # what nobody knows is refused elsewhere
        short = ceil(log(20 * others) * float(law.sensitivity / law.epsilon) * (1 + 1e-9))
        which = "the one" if self.top == 1 else "those"
        sure = f"with 95 % no value has {plural(short, 'row')} more than {which} shown"
        return [f"MODE of {self.name} chosen privately ({sure})"]

    def price(self, rule: Rule) -> Priced:
        """One choice in all cells for each label."""
        rows = self.sensitivity.l1
        choice, loss = Choice.priced(rule, Moves(rows, self.squares))
        choice = replace(choice, sensitivity=rows, monotone=True)
        return Priced(self, choice, (loss,) * self.top)

    def release(self, priced: Priced, groups: Groups, cells: Cells, draw: Draw) -> Labels:
        """Choose labels, cell by cell."""
        return Labels(tuple(self._choose(priced.law, groups, cell, draw) for cell in cells.keys))

    def _choose(
        self, choice: Choice, groups: Groups, cell: tuple[Any, ...], draw: Draw
    ) -> tuple[object, ...]:
        rest = list(range(len(self.codes)))
        scores = [groups.get((*cell, code), (0,))[0] for code in self.codes]
        picks: list[object] = []
        for _ in range(self.top):
            best = draw.choose(np.array([scores[i] for i in rest], dtype=object), choice)
            picks.append(self.labels[rest.pop(best)])
        return tuple(picks)

    def drawn(self, law: Any) -> Iterator[Chosen]:
        """As many choices as labels; each row of a unit raises one score or lowers one."""
        for _ in range(self.top):
            yield Chosen(law, self.sensitivity.l1, self.squares, self.sensitivity.l1)

    def measurements(self, groups: Groups) -> Iterator[tuple[str, Exact]]:
        """Scores of every label in every cell."""
        yield "", {key: values[0] for key, values in groups.items()}

    def moved(self, left: Groups, right: Groups) -> list[str]:
        """Besides distances: rows that move, squared and added up by cell."""
        faults = squares_moved(self.kind, left, right, self.squares, apart=True)
        return super().moved(left, right) + faults


def squares_moved(
    kind: str, left: Groups, right: Groups, declared: int, *, apart: bool = False
) -> list[str]:
    """What two tables' histograms violate of a bound on squared moves by cell.

    A cell moves by all its rows or, where each row moves one score alone (`apart`), by the
    farthest rise and the farthest fall of a score.
    """
    moves: dict[tuple[Any, ...], list[int]] = {}
    for key in left.keys() | right.keys():
        by = left.get(key, (0,))[0] - right.get(key, (0,))[0]
        moves.setdefault(key[:-1], [0]).append(by)
    cells = ((max(d) - min(d)) if apart else sum(map(abs, d)) for d in moves.values())
    squares = sum(n * n for n in cells)
    return [] if squares <= declared else [f"{kind} moved by Σc² {squares}, declared {declared}"]


@dataclass(frozen=True)
class Labels(Release):
    """The labels chosen in each cell."""

    labels: tuple[tuple[object, ...], ...]

    kind: ClassVar[str] = "labels"

    @property
    def size(self) -> int:
        """All labels of all cells."""
        return sum(map(len, self.labels))

    @property
    def texts(self) -> Ints:
        """One text or value per cell."""
        texts = [", ".join(map(str, c)) if len(c) > 1 else c[0] for c in self.labels]
        return np.array([*texts, None], dtype=object)[:-1]

    def to_dict(self) -> dict[str, Any]:
        """Write the labels that were drawn, in order."""
        return {"labels": [[plain(v) for v in cell] for cell in self.labels]}

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Self:
        """Invert :meth:`to_dict`."""
        return cls(tuple(tuple(cell) for cell in data["labels"]))

    def check(self, cells: int) -> None:
        """Refuse empty choices and labels that are not single values."""
        if len(self.labels) != cells:
            raise damaged("its columns differ in length")
        if any(not cell for cell in self.labels):
            raise damaged("a selection is empty")
        for label in (v for cell in self.labels for v in cell):
            check_label(label)


def plain(value: object) -> object:
    """Turn a label into JSON-able data."""
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def check_label(label: object) -> None:
    """Refuse a label that is a collection or an endless number."""
    if isinstance(label, list | tuple | dict):
        raise damaged("a label is not a single value")
    if isinstance(label, int):
        integer(int(label))
