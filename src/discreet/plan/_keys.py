r"""Selection of open keys by weights: a unit with few keys counts for more in each.

Guarantee
---------
A unit that has d keys adds w(d) to each of them. Weights are integers in units of 1/S (S is
:data:`SCALE`). Under Laplace noise :math:`w(d) = \lfloor S/d\rfloor`, so that a unit moves the
vector of weights by at most S in L1; under Gaussian noise
:math:`w(d) = \lfloor S/\sqrt d\rfloor`, so by at most S in L2. (With equal weights it would be
the number of keys that a unit *may* have, or its root: what most units never reach.) Two units
that replace each other have vectors without negative entries: L1 doubles, L2² doubles.

A key is shown when its noisy weight reaches a threshold. Let t keys stand in one of two
neighbouring tables only. They are one unit's, whose degree is at least t, so each has weight
w(t) at most; their noise is independent. The threshold is such that for no t one of them shows
with probability above δ. So the selection costs the loss of the noisy weights and that δ
(the argument of :mod:`discreet.privacy._keys`).

Degrees are counted by the engine over all keys of a unit, and the statement itself keeps no
more keys of a unit than its degree says; that is what the verifier reads back. A degree counted
wrongly would cost accuracy, never privacy.

References
----------
.. [1] S. Gopi, P. Gulhane, J. Kulkarni, J. H. Shen, M. Shokouhi, S. Yekhanin,
   "Differentially private set union", ICML 2020.
.. [2] M. Swanberg, D. Desfontaines, S. Haney, "DP-SIPS", 2023: weights by degree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isqrt
from typing import ClassVar, Final

import numpy as np

from discreet import privacy as p
from discreet._print import number
from discreet.errors import Hint, ParameterError
from discreet.plan._parts import (
    Cells,
    Draw,
    Drawn,
    Exact,
    Groups,
    Hidden,
    Law,
    Part,
    Priced,
    Rule,
    add,
    loss_of,
)
from discreet.plan._stability import Sensitivity
from discreet.plan._types import Code
from discreet.plan._vectors import Numbers, Threshold

SCALE: Final = 2**16
"""Weight of a unit that has one key."""

_EXACT: Final = 64
"""Degrees up to which the threshold is computed one by one; beyond, in blocks."""


def private_column(column: str) -> ParameterError:
    """Refusal to select keys without a δ."""
    return ParameterError(
        f"the values of {column!r} are themselves private: selecting them needs "
        "a delta, or a policy that lists the column's public values",
        hint=Hint("delta", "1e-6"),
    )


@dataclass(frozen=True)
class Weights(Numbers):
    """Noisy weights by which keys were selected."""

    kind: ClassVar[str] = "weights"
    selects: ClassVar[str] = "weight"

    @property
    def reached(self) -> str:
        """The threshold in units that have one key."""
        return number((self.threshold or 0) / SCALE)


@dataclass(frozen=True)
class WeightedKeys(Part):
    """Selection of one open key by weights of degrees."""

    column: str
    counts: Sensitivity
    """How far a unit moves the counts that the engine returns."""
    most: int
    """Most keys of one unit."""
    sides: int
    root: bool = False
    """Whether weights go down with the root of the degree."""

    kind: ClassVar[str] = "keys"

    @classmethod
    def moves(cls, sides: int) -> Sensitivity:
        """How far a unit moves weights that go down with the degree."""
        return Sensitivity(sides * SCALE, sides * SCALE**2, SCALE)

    @property
    def reads(self) -> tuple[int, Sensitivity]:
        """Units by key and degree."""
        return 0, self.counts

    @property
    def degree(self) -> int | None:
        """The second key."""
        return 1

    @property
    def groups(self) -> int | None:
        """The threshold allows for so many keys of one unit."""
        return self.most

    def weight(self, degree: int) -> int:
        """What a unit of some degree adds to each of its keys."""
        return isqrt(SCALE**2 // degree) if self.root else SCALE // degree

    def price(self, rule: Rule) -> Priced:
        """Noisy weights and the δ of selecting."""
        if rule.delta is None:
            raise private_column(self.column)
        part = self if rule.epsilon is not None else self._by_roots()
        law = rule.law(part.sensitivity)
        losses = (loss_of(law, part.sensitivity, part.coordinates), p.Approx(0, rule.delta))
        at = part.threshold(law, rule.delta)
        return Priced(part, Threshold(law, at, SCALE), losses)

    def _by_roots(self) -> WeightedKeys:
        # d equal weights: L1 grows with the root of d, L2 does not
        longest = self.sides * (isqrt(SCALE**2 * self.most) + 1)
        return replace(self, root=True, sensitivity=replace(self.moves(self.sides), l1=longest))

    def threshold(self, law: Law, delta: Fraction) -> int:
        """Least weight at which keys of one unit show with probability δ at most."""

        def needed(degree: int, keys: int) -> int:
            return p.key_threshold(law, delta, keys, sensitivity=max(self.weight(degree), 1))

        found = [needed(t, t) for t in range(1, min(self.most, _EXACT) + 1)]
        first = _EXACT + 1
        while first <= self.most:
            found.append(needed(first, min(2 * first, self.most)))
            first = 2 * first + 1
        return max(found)

    def drawn(self, law: Threshold) -> Iterator[Drawn | Hidden]:
        """Noisy weights, and the keys of one unit alone for every degree (or, beyond some, few)."""
        yield Drawn(law.law, self.sensitivity)
        blocks = (self.most >> k for k in range(self.most.bit_length()))
        for t in sorted({*range(1, min(self.most, _EXACT) + 1), *blocks}):
            yield Hidden(law.law, law.at, t, max(self.weight(t), 1))

    def weights(self, groups: Groups) -> dict[tuple[Code, ...], int]:
        """Weight of every key."""
        found: dict[tuple[Code, ...], int] = {}
        for (*cell, degree), values in groups.items():
            key = tuple(cell)
            found[key] = found.get(key, 0) + values[0] * self.weight(int(degree or 1))
        return found

    def select(self, priced: Priced, groups: Groups, draw: Draw) -> Cells:
        """Keys whose noisy weights reach the threshold; sorted, so that order says nothing."""
        weights = self.weights(groups)
        keys = sorted(weights, key=lambda c: tuple(map(str, c)))
        exact = np.array([*(weights[k] for k in keys), None], dtype=object)[:-1]
        noisy = add(exact, draw.sample(priced.law.law, exact.size))
        places = [i for i, n in enumerate(noisy) if n >= priced.law.at]
        return Cells([keys[i] for i in places], None, tuple(int(noisy[i]) for i in places))

    def release(self, priced: Priced, groups: Groups, cells: Cells, draw: Draw) -> Weights:
        """Noisy weights of the selected keys."""
        del groups, draw
        return Weights(cells.counts, priced.law.law, priced.law.at)

    def measurements(self, groups: Groups) -> Iterator[tuple[str, Exact]]:
        """Weights of every key that the table holds."""
        yield "", self.weights(groups)

    def moved(self, left: Groups, right: Groups) -> list[str]:
        """Besides distances: t keys of one table only are light enough for t."""
        distances = super().moved(left, right)
        sides = self.weights(left), self.weights(right)
        for mine, theirs in (sides, sides[::-1]):
            alone = [w for key, w in mine.items() if key not in theirs]
            if len(alone) > self.most:
                distances.append(f"{len(alone)} keys stand in one table only, declared {self.most}")
            elif alone and max(alone) > self.weight(len(alone)):
                distances.append("keys of one table only weigh more than one unit gives them")
        return distances
