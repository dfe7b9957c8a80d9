r"""Picks: the most frequent labels of each cell, chosen by the exponential mechanism.

Scores are counts, each moved by one unit by at most ``linf``. One choice at ε has a
log-likelihood ratio within an interval of length ε (bounded range; Durfee & Rogers
2019). A unit moves the scores of at most ``touched`` cells, and ``top`` labels are
chosen one after another without replacement: ``top``·``touched`` choices compose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from discreet import privacy as p
from discreet.errors import Hint, ParameterError
from discreet.plan._parts import Cells, Draw, Exact, Groups, Ints, Part, Priced, Release, Rule
from discreet.plan._valid import damaged, integer


@dataclass(frozen=True)
class Preference:
    """Labels are chosen with probability ∝ exp(ε·score/2Δ)."""

    epsilon: Fraction

    def to_dict(self) -> dict[str, str]:
        """The exact ε of one choice."""
        return {"epsilon": str(self.epsilon)}


@dataclass(frozen=True)
class Pick(Part):
    """The ``top`` most frequent codes of each cell."""

    top: int
    codes: tuple[int, ...]
    labels: tuple[object, ...]
    touched: int
    """Most cells in which one unit can influence the choice."""

    kind: ClassVar[str] = "pick"

    @property
    def gaussian(self) -> bool:
        """A choice is made by the exponential mechanism alone."""
        return False

    @property
    def draws(self) -> int:
        """One for each label listed; cells that a unit touches share it."""
        return self.top

    def price(self, rule: Rule) -> Priced:
        """Divide a draw's ε among the cells that one unit touches."""
        if rule.epsilon is None:
            raise ParameterError(
                "MODE is priced by epsilon=, not rho=", hint=Hint("epsilon", "0.5")
            )
        each = rule.epsilon / self.touched
        return Priced(self, Preference(each), (p.BoundedRange(each),) * (self.top * self.touched))

    def release(self, priced: Priced, groups: Groups, cells: Cells, draw: Draw) -> Labels:
        """Choose labels, cell by cell."""
        picks = [self._choose(priced.law.epsilon, groups, cell, draw) for cell in cells.shown]
        return Labels(tuple(picks))

    def _choose(
        self, epsilon: Fraction, groups: Groups, cell: tuple[Any, ...], draw: Draw
    ) -> tuple[object, ...]:
        left = list(range(len(self.codes)))
        scores = [groups.get((*cell, code), (0,))[0] for code in self.codes]
        picks: list[object] = []
        for _ in range(self.top):
            best = draw.choose([scores[i] for i in left], self.sensitivity.linf, epsilon)
            picks.append(self.labels[left.pop(best)])
        return tuple(picks)

    def measurements(self, groups: Groups) -> Iterator[tuple[str, Exact]]:
        """Scores of every label in every cell."""
        yield "", {key: values[0] for key, values in groups.items()}

    def moved(self, left: Groups, right: Groups) -> list[str]:
        """Besides distances: how many cells change their scores."""
        distances = super().moved(left, right)
        cells = {k[:-1] for k in left.keys() | right.keys() if left.get(k) != right.get(k)}
        if len(cells) > self.touched:
            distances.append(f"pick changed in {len(cells)} cells, declared {self.touched}")
        return distances


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
    def shown(self) -> Ints:
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
