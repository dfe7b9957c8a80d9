"""Replay: run one plan on two neighbouring tables with the noise frozen.

What differential privacy needs of everything *around* the noise can be checked
without statistics: on neighbouring tables the same laws are drawn the same
number of times, the answer has the same shape and keys in the same order, and
the exact integers that the noise is added to differ by no more than the
declared sensitivity. One pair of tables that violates any of these is a bug;
no false alarm is possible. (The idea is Re:cord-play's, Haeusler et al. 2026.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.answer import Record
from discreet.curator import Noise, measure
from discreet.engines import Engine
from discreet.plan import Plan, Salt, Sensitivity


@dataclass
class _Frozen(Noise):
    """Noise replaced by zeros, every call written down."""

    calls: list[tuple[object, ...]] = field(default_factory=list)

    def sample(self, law: Any, n: int) -> NDArray[Any]:
        """Write the call down; add nothing."""
        self.calls.append((repr(law), n))
        return np.zeros(n, dtype=np.int64)

    def choose(self, scores: list[int], sensitivity: int, epsilon: Fraction) -> int:
        """Write the public part of the call down; pick the first."""
        self.calls.append(("choose", len(scores), sensitivity, epsilon))
        return 0


@dataclass(frozen=True)
class Replay:
    """What a replay found; ``violations`` is empty when all is well."""

    violations: tuple[str, ...]
    distances: tuple[tuple[int, int], ...]  # (L1, L2²) per vector, measured

    @property
    def ok(self) -> bool:
        """Whether nothing was violated."""
        return not self.violations


def replay(plan: Plan, left: Engine, right: Engine, salt: Salt) -> Replay:
    """Run `plan` on two engines that hold neighbouring tables; compare.

    Parameters
    ----------
    plan
        A priced plan.
    left, right
        Engines over neighbouring tables.
    salt
        Key of the contribution limits; the same on both sides.
    """
    sources = _Frozen(), _Frozen()
    a, b = (measure(plan, e, salt, s) for e, s in zip((left, right), sources, strict=True))
    found: list[str] = []
    if plan.threshold is None and sources[0].calls != sources[1].calls:
        found.append("different noise calls")
    if a.keys != b.keys:
        found.append("different keys or order")
    if [len(v.values) for v in a.vectors] != [len(v.values) for v in b.vectors]:
        found.append("different shape")
    if plan.threshold is None:
        # with the noise frozen at zero, a record holds the exact integers
        distances = [
            _distance(x.values, y.values) for x, y in zip(a.vectors, b.vectors, strict=True)
        ]
    else:
        distances = _distances(plan, left, right, salt)
    lowered = plan.lowered
    for i, (v, (l1, l2)) in enumerate(zip(lowered.vectors, distances, strict=True)):
        found += _judge(f"vector {i}", v.sensitivity, l1, l2, public=v.public)
    for i, t in enumerate(lowered.trees):
        l1, l2 = _level_distance(a, b, i)
        found += _judge(f"tree {i}", t.sensitivity, l1, l2, public=False)
    return Replay(tuple(found), tuple(distances))


def _judge(name: str, declared: Sensitivity, l1: int, l2: int, *, public: bool) -> list[str]:
    if public and l1:
        return [f"{name} is called public but moved by {l1}"]
    if l1 > declared.l1 or l2 > declared.l2_squared:
        bound = f"({declared.l1}, {declared.l2_squared})"
        return [f"{name} moved by (L1, L2²) = ({l1}, {l2}), declared {bound}"]
    return []


def _distances(plan: Plan, left: Engine, right: Engine, salt: Salt) -> list[tuple[int, int]]:
    """Distance of the exact integers, over every group either table has."""
    aggregate = plan.lowered.aggregates[0]
    a, b = left.execute(aggregate, salt), right.execute(aggregate, salt)
    zeros = (0,) * len(aggregate.measures)
    either = list(a.keys() | b.keys())
    return [
        _distance([a.get(k, zeros)[i] for k in either], [b.get(k, zeros)[i] for k in either])
        for i in range(len(aggregate.measures))
    ]


def _distance(left: Sequence[int], right: Sequence[int]) -> tuple[int, int]:
    """(L1, L2²) distance of two integer vectors."""
    moves = [abs(x - y) for x, y in zip(left, right, strict=True)]
    return sum(moves), sum(d * d for d in moves)


def _level_distance(a: Record, b: Record, index: int) -> tuple[int, int]:
    pairs = zip(a.trees[index].levels, b.trees[index].levels, strict=True)
    return max((_distance([*chain(*x)], [*chain(*y)]) for x, y in pairs), default=(0, 0))
