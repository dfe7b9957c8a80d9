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

Two rounds
----------
Frequent keys need little of what units give them. So a tenth of the price (and of δ) selects
first; a second statement forgets the keys found, and units give all their weight to their other
keys. For *any* list of forgotten keys, rows of a unit stay rows of that unit, so what is said
above holds of the second round with its own law, threshold and share of δ. That list is a function
of what the first round has released, and both laws are fixed beforehand: losses and δs compose.

Where nothing is found first, the tenth is lost; under Laplace noise and a small ε that is
likely, so there one round has it all. In simulations (20 000 units, Zipf 1.1) two rounds find
1.15 to 1.35 times as many keys as one; rerouting inside one statement, by weights that nobody
has released, finds 1.2 times as many under Laplace noise and no more under Gaussian noise.

References
----------
.. [1] S. Gopi, P. Gulhane, J. Kulkarni, J. H. Shen, M. Shokouhi, S. Yekhanin,
   "Differentially private set union", ICML 2020.
.. [2] M. Swanberg, D. Desfontaines, S. Haney, "DP-SIPS", 2023: weights by degree, in rounds.
.. [3] J. Y. Chen, V. Cohen-Addad, A. Epasto, M. Zadimoghaddam, "Scalable private partition
   selection via adaptive weighting", ICML 2025: rerouting.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import isqrt
from typing import Any, ClassVar, Final, Self

import numpy as np

from discreet import privacy as p
from discreet._dataclass import dataclass, field, replace
from discreet._print import number
from discreet.errors import Hint, ParameterError
from discreet.plan._expr import Clamp, Column, Not, OneOf
from discreet.plan._joins import JoinUnit
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
from discreet.plan._per_unit import Fold, FoldKind, PerUnit
from discreet.plan._relation import Aggregate, Filter, Key, Relation, with_degrees
from discreet.plan._stability import Sensitivity
from discreet.plan._types import Code
from discreet.plan._valid import damaged, integer, integers
from discreet.plan._vectors import Numbers, Threshold, read_law

SCALE: Final = 2**16
"""Weight of a unit that has one key."""

_EXACT: Final = 64
"""Degrees up to which the threshold is computed one by one; beyond, in blocks."""

_FIRST: Final = Fraction(1, 10)
"""Share of the first round."""

_ENOUGH: Final = Fraction(1, 2)
"""Least ε at which there is a first round under Laplace noise."""

_MOST_WITHOUT: Final = 256
"""Most keys that the second round forgets: those that weigh most."""

_LONGEST: Final = 200
"""Signs of the longest key that the second round forgets."""

_DEGREE: Final = "\x00degree"


def private_column(column: str) -> ParameterError:
    """Refusal to select keys without a δ."""
    return ParameterError(
        f"the values of {column!r} are themselves private: selecting them needs "
        "a delta, or a policy that lists the column's public values",
        hint=Hint("delta", "1e-6"),
    )


def by_degree(relation: Relation, key: Key, most: int, neighbours: p.Neighbours) -> Aggregate:
    """Units by key and degree, at most so many keys of each."""
    own = PerUnit(relation, (), ((_DEGREE, Fold(FoldKind.DISTINCT, key.expr)),))
    degree = Clamp(Column(_DEGREE, own.schema[_DEGREE]), 1, most)
    by = Key(_DEGREE, degree, tuple(range(1, most + 1)))
    return with_degrees(JoinUnit(relation, own), key, by, most, neighbours)


@dataclass(frozen=True)
class Weights(Numbers):
    """Noisy weights by which keys were selected."""

    first: tuple[int, ...] = ()
    """Places of the keys that the first round found."""
    before: Threshold | None = None
    """Noise and threshold of the first round, where there was one."""

    kind: ClassVar[str] = "weights"
    selects: ClassVar[str] = "weighted number"

    @property
    def reached(self) -> str:
        """The threshold in units that have one key."""
        last = number((self.threshold or 0) / SCALE)
        if self.before is None:
            return last
        return f"{last}, or {number(self.before.at / SCALE)} in a first round"

    def to_dict(self) -> dict[str, Any]:
        """Write what was found in the first round too."""
        if self.before is None:
            return super().to_dict()
        return super().to_dict() | {"first": list(self.first), "before": self.before.to_dict()}

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Self:
        """Invert :meth:`to_dict`."""
        last = super().read(data)
        if "before" not in data:
            return last
        law, at = data["before"]["law"], data["before"]["at"]
        before = Threshold(read_law(law), integer(at), SCALE)
        return replace(last, first=integers(data["first"]), before=before)

    def check(self, cells: int) -> None:
        """Refuse weights below the threshold of their round."""
        later = tuple(v for i, v in enumerate(self.values) if i not in set(self.first))
        Numbers(later, self.law, self.threshold).check(cells - len(self.first))
        places = range(min(cells, len(self.values)))
        if not set(self.first) <= set(places) or len(set(self.first)) < len(self.first):
            raise damaged("a group is shown that was not selected")
        if self.first and (
            self.before is None or any(self.values[i] < self.before.at for i in self.first)
        ):
            raise damaged("a group is shown that was not selected")


@dataclass(frozen=True)
class WeightedKeys(Part):
    """Selection of one open key by weights of degrees."""

    column: str
    counts: Sensitivity
    """How far a unit moves the counts that the engine returns."""
    most: int
    """Most keys of one unit."""
    sides: int
    # what the first round's aggregate was made of, and is known by
    relation: Relation = field(compare=False)
    key: Key = field(compare=False)
    neighbours: p.Neighbours = field(compare=False)
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
        two = rule.epsilon is None or rule.epsilon >= _ENOUGH
        shares = (_FIRST, 1 - _FIRST) if two else (Fraction(1),)
        laws = [rule.times(share).law(part.sensitivity) for share in shares]
        steps = [
            Threshold(law, part.threshold(law, rule.delta * share), SCALE)
            for law, share in zip(laws, shares, strict=True)
        ]
        losses = [loss_of(law, part.sensitivity, part.coordinates) for law in laws]
        law = replace(steps[-1], before=steps[0] if two else None)
        return Priced(part, law, (*losses, p.Approx(0, rule.delta)))

    def _by_roots(self) -> WeightedKeys:
        # d equal weights: L1 grows with the root of d, L2 does not
        longest = self.sides * (isqrt(SCALE**2 * self.most) + 1)
        return replace(self, root=True, sensitivity=replace(self.moves(self.sides), l1=longest))

    def threshold(self, law: Law, delta: Fraction) -> int:
        """Least weight at which keys of one unit show with probability δ at most."""
        blocks = [(t, t) for t in range(1, min(self.most, _EXACT) + 1)]
        first = _EXACT + 1
        while first <= self.most:
            blocks.append((first, min(2 * first, self.most)))
            first = 2 * first + 1
        threshold = 1
        # the ends need most; to look whether that is enough is far cheaper than to search
        for degree, keys in [blocks[-1], *blocks]:
            moves = max(self.weight(degree), 1)
            if p.key_threshold_delta(law, threshold, keys, sensitivity=moves) > delta:
                threshold = p.key_threshold(law, delta, keys, sensitivity=moves)
        return threshold

    def drawn(self, law: Threshold) -> Iterator[Drawn | Hidden]:
        """Noisy weights, and the keys of one unit alone for every degree (or, beyond some, few)."""
        blocks = [self.most >> k for k in range(self.most.bit_length())]
        for step in filter(None, (law.before, law)):
            yield Drawn(step.law, self.sensitivity)
            for t in sorted({*range(1, min(self.most, _EXACT) + 1), *blocks}):
                yield Hidden(step.law, step.at, t, max(self.weight(t), 1))

    def weights(self, groups: Groups) -> dict[tuple[Code, ...], int]:
        """Weight of every key."""
        weights: dict[tuple[Code, ...], int] = {}
        for (*cell, degree), values in groups.items():
            key = tuple(cell)
            weights[key] = weights.get(key, 0) + values[0] * self.weight(int(degree or 1))
        return weights

    def select(self, priced: Priced, groups: Groups, draw: Draw) -> Cells:
        """Keys whose noisy weights reach the threshold of the first round."""
        return self._round(priced.law.before or priced.law, groups, draw)

    def _round(self, step: Threshold, groups: Groups, draw: Draw) -> Cells:
        """Keys whose noisy weights reach a threshold; sorted, so that order says nothing."""
        weights = self.weights(groups)
        keys = sorted(weights, key=_spelling)
        exact = np.array([*(weights[k] for k in keys), None], dtype=object)[:-1]
        noisy = add(exact, draw.sample(step.law, exact.size))
        places = [i for i, n in enumerate(noisy) if n >= step.at]
        return Cells([keys[i] for i in places], None, tuple(int(noisy[i]) for i in places))

    def further(self, priced: Priced, cells: Cells) -> Aggregate | None:
        """What the second round reads: rows without the keys that weigh most so far."""
        if priced.law.before is None:
            return None
        pairs = zip(cells.counts, cells.keys, strict=True)
        heavy = sorted(pairs, key=lambda pair: (-pair[0], _spelling(pair[1])))[:_MOST_WITHOUT]
        return self.without([key for _, (key,) in heavy if _writable(key)])

    def without(self, keys: Sequence[Code]) -> Aggregate:
        """Units by key and degree, as if some keys did not exist."""
        words = tuple(k for k in keys if isinstance(k, str))
        rest = Filter(self.relation, Not(OneOf(self.key.expr, words))) if words else self.relation
        return by_degree(rest, self.key, self.most, self.neighbours)

    def select_further(self, priced: Priced, cells: Cells, groups: Groups, draw: Draw) -> Cells:
        """Keys of both rounds."""
        old = set(cells.keys)
        second = self._round(priced.law, groups, draw)
        new = {key: n for key, n in zip(second.keys, second.counts, strict=True) if key not in old}
        every = dict(zip(cells.keys, cells.counts, strict=True)) | new
        keys = sorted(every, key=_spelling)
        first = tuple(i for i, key in enumerate(keys) if key in old)
        return Cells(keys, None, tuple(every[k] for k in keys), first)

    def release(self, priced: Priced, groups: Groups, cells: Cells, draw: Draw) -> Weights:
        """Noisy weights of the selected keys."""
        del groups, draw
        law = priced.law
        return Weights(cells.counts, law.law, law.at, first=cells.first, before=law.before)

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


def _writable(key: Code) -> bool:
    """Whether every engine takes a text as a literal; control signs and lone surrogates: no."""
    return isinstance(key, str) and len(key) <= _LONGEST and key.isprintable()


def _spelling(key: tuple[Code, ...]) -> tuple[str, ...]:
    return tuple(map(str, key))
