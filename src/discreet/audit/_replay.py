"""Replay: everything around the noise, on two neighbouring tables.

What differential privacy needs of everything *around* the noise can be checked
without statistics: on neighbouring tables the same laws are drawn the same
number of times, the answer has the same shape and keys in the same order, and
the exact integers that the noise is added to differ by no more than the
declared sensitivity. One pair of tables that violates any of these is a bug;
no false alarm is possible. (The idea is Re:cord-play's, Haeusler et al. 2026.)

Every part answers for itself, so a new kind of part is replayed like the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet import engines, sql
from discreet import policy as pol
from discreet.curator import fresh_salt, measure
from discreet.engines import Engine
from discreet.plan import Code, Draw, Plan, Query, Question, Salt, Scan, Sensitivity, lower


@dataclass
class _Frozen(Draw):
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

    def answer(self, question: Question, counts: Any) -> NDArray[Any]:
        """Write the public part of the question down; answer without looking."""
        del counts
        self.calls.append(("question", repr(question.record())))
        return question.blank()


@dataclass(frozen=True)
class Replay:
    """What a replay found; ``violations`` is empty when all is well."""

    violations: tuple[str, ...]

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
    lowered = plan.lowered
    found: list[str] = []
    sides = [
        [engine.execute(a, salt) if a.measures else {} for a in lowered.aggregates]
        for engine in (left, right)
    ]
    for i, part in enumerate(lowered.parts):
        moved = part.moved(*(side[part.aggregate] for side in sides))
        found += [f"part {i}: {what}" for what in moved]
    if lowered.selector is None:
        draws = _Frozen(), _Frozen()
        a, b = (measure(plan, e, salt, d) for e, d in zip((left, right), draws, strict=True))
        if draws[0].calls != draws[1].calls:
            found.append("different noise calls")
        if a.keys != b.keys:
            found.append("different keys or order")
    return Replay(tuple(found))


@dataclass(frozen=True)
class Measurement:
    """Integers to which one draw of noise is added, before the noise.

    Attributes
    ----------
    name
        Which part of the question, and which of its draws.
    declared
        How far one unit moves them at most: ``l1``, ``l2_squared``, ``linf``.
    exact
        The integers as the engine returned them, by key (and leaf, label or query).
    """

    name: str
    declared: Sensitivity
    exact: Mapping[tuple[Code, ...], int]


def measurements(
    policy: pol.Policy | str,
    question: str | Query,
    tables: Any,
    *,
    salt: Salt | bytes | str | int | None = None,
) -> list[Measurement]:
    """Return everything that a question measures, before any noise.

    With two neighbouring tables and one `salt`, anybody can replay a question without
    discreet's help: each ``exact`` must move by at most ``declared``.

    Parameters
    ----------
    policy
        A policy, or its file or text.
    question
        One SELECT, or a question as the plan sees it (a publication, for instance).
    tables
        Test data, as :func:`discreet.open` takes them. What comes back is *not*
        private: never call this on people's data.
    salt
        Key of the contribution limits, the same for both neighbours; left out, a fresh one.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from discreet.policy import Budget, Integer, Policy, Table
    >>> policy = Policy([Table("people", [Integer("age", 0, 115)])], Budget("1"))
    >>> people = pa.table({"age": [31, 47]})
    >>> found = measurements(policy, "SELECT SUM(age) AS s FROM people", people)
    >>> [(m.declared.l1, dict(m.exact)) for m in found]
    [(115, {(): 78})]
    """
    loaded = policy if isinstance(policy, pol.Policy) else pol.load(policy)
    engine = engines.connect(tables, loaded)
    try:

        def fanout(table: str, columns: tuple[str, ...]) -> int:
            return engine.fanout(Scan(loaded.table(table)), columns)

        if isinstance(question, str):
            question = sql.parse(question, loaded, public_fanout=fanout).query
        lowered = lower(question)
        key = _salt(salt)
        groups = [engine.execute(a, key) if a.measures else {} for a in lowered.aggregates]
    finally:
        engine.close()
    return [
        Measurement(f"{part.kind} {i}{suffix}", part.sensitivity, exact)
        for i, part in enumerate(lowered.parts)
        for suffix, exact in part.measurements(groups[part.aggregate])
    ]


def _salt(given: Salt | bytes | str | int | None) -> Salt:
    if isinstance(given, Salt):
        return given
    if given is None:
        return fresh_salt()
    return Salt(given if isinstance(given, bytes) else str(given).encode())
