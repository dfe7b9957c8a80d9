"""Aggregates that one statement answers: many questions, one reading of the table.

Aggregates over an equal relation under equal limits are merged into one that has the
keys and the measures of all of them. What each of them asked for is added up from its
groups (:meth:`View.of`).

Guarantee
---------
Each aggregate gets the integers that it would get alone, or, where limits toss coins,
integers with the same chances.

Proof sketch
------------
*Equal keys.* The rows, the limits and the groups are the same; each measure is added up
beside the others. Limits number a unit's rows by all their columns, and rows that were
equal may differ in a measure of another question; they keep a set of numbers that depends
on the salt, the unit and how many rows it has, so all sets of rows are as likely as
before.

*Different keys.* Every row has one value of all keys together, if no key drops a row: a
key that may be NULL gets one code more, and codes that are not public are kept.
Its rows with one value of some of the keys are then the disjoint union of groups, and sums
over a disjoint union add up; the rows that an aggregate alone would have dropped are
left out when its groups are added up. Where a limit stands above the keys, which rows are
dropped decides about those that are kept, so there no key may drop any. Numbers of different
values or units do not add up and are not merged.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from operator import add
from typing import Final

from discreet._dataclass import dataclass, field, replace
from discreet.errors import ParameterError
from discreet.plan._logic import Coalesce
from discreet.plan._nodes import Constant
from discreet.plan._reference import Groups
from discreet.plan._relation import (
    Aggregate,
    Key,
    LimitGroups,
    LimitRows,
    Measure,
    MeasureKind,
    Project,
    Relation,
    combinations,
)
from discreet.plan._types import Code, Kind

MOST: Final = 2**12
"""Groups of a merged aggregate with different keys; each is added up for every question."""


@dataclass(frozen=True)
class View:
    """One of the aggregates that are merged: where its keys and measures stand."""

    own: Aggregate
    keys: tuple[int, ...]
    measures: tuple[int, ...]
    finer: bool
    """Whether the merged aggregate has more groups than its own."""

    @property
    def cells(self) -> int | None:
        """How many groups its own keys can make."""
        return combinations(self.own.keys)

    def of(self, groups: Groups) -> Groups:
        """Add up the groups of the merged aggregate to its own."""
        totals: dict[tuple[Code, ...], list[int]]
        totals = {} if self.own.keys else {(): [0] * len(self.measures)}
        for cell, sums in groups.items():
            key = tuple([cell[i] for i in self.keys])
            mine = [sums[i] for i in self.measures]
            before = totals.get(key)
            totals[key] = mine if before is None else list(map(add, before, mine))
        public = [None if k.codes is None else frozenset(k.codes) for k in self.own.keys]
        return {
            key: tuple(totals[key])
            for key in sorted(totals)
            if all(codes is None or code in codes for code, codes in zip(key, public, strict=True))
        }


@dataclass(frozen=True)
class Merged:
    """One aggregate that runs, and those that are read from it."""

    whole: Aggregate
    views: tuple[View, ...]


def merge(aggregates: Iterable[Aggregate]) -> list[Merged]:
    """Merge aggregates as far as that is exact; those that stay alone are left out."""
    sets: list[_Set] = []
    for own in dict.fromkeys(aggregates):
        limits, project = _limits(own.relation)
        shape = _Shape(project.below, tuple(limits), own.neighbours.value)
        fit = next((s for s in sets if s.shape == shape and s.takes(own)), None)
        if fit is None:
            fit = _Set(shape)
            sets.append(fit)
        fit.members.append(own)
    return [s.merged() for s in sets if len(s.members) > 1]


@dataclass(frozen=True)
class _Shape:
    """What merged aggregates have in common."""

    below: Relation
    limits: tuple[tuple[object, ...], ...]
    neighbours: str


@dataclass
class _Set:
    """Aggregates to be merged."""

    shape: _Shape
    members: list[Aggregate] = field(default_factory=list)

    def takes(self, more: Aggregate) -> bool:
        """Whether one more can be merged with those that are here."""
        if all(m.keys == more.keys for m in self.members):
            return True
        members = [*self.members, more]
        keys = [_keeper(k, limited=bool(self.shape.limits)) for k in _distinct(members)]
        return (
            all(_adds_up(m) for m in members)
            and all(by == () for _, by, *_ in self.shape.limits)
            and None not in keys
            and prod(len(k.codes or ()) for k in keys if k is not None) <= MOST
        )

    def merged(self) -> Merged:
        first, distinct = self.members[0], _distinct(self.members)
        finer = any(m.keys != first.keys for m in self.members)
        keys, measures = first.keys, _measures(self.members)
        if finer:
            keepers = [_keeper(k, limited=bool(self.shape.limits)) for k in distinct]
            keys = tuple([replace(k, name=f"k{i}") for i, k in enumerate(keepers) if k is not None])
        columns = tuple([(f"v{i}", m.expr) for i, m in enumerate(measures) if m.expr is not None])
        relation = _rebuilt(first.relation, Project(self.shape.below, columns, keys))
        whole = Aggregate(relation, keys, tuple(measures), first.neighbours)
        places = {k.expr: i for i, k in enumerate(distinct)}
        views = [
            View(
                m,
                tuple([places[k.expr] for k in m.keys] if finer else range(len(m.keys))),
                tuple([measures.index(x) for x in m.measures]),
                finer,
            )
            for m in self.members
        ]
        return Merged(whole, tuple(views))


def _limits(relation: Relation) -> tuple[list[tuple[object, ...]], Project]:
    """Limits of an aggregate from the last one on, without what they stand on."""
    limits: list[tuple[object, ...]] = []
    while isinstance(relation, LimitRows | LimitGroups):
        if isinstance(relation, LimitRows):
            limits.append(("rows", relation.by, relation.n, relation.coin))
        else:
            limits.append(("groups", relation.keys, relation.n, relation.coin, relation.upto))
        relation = relation.below
    assert isinstance(relation, Project)
    return limits, relation


def _rebuilt(relation: Relation, project: Project) -> Relation:
    """Put the limits of a relation over another projection."""
    if isinstance(relation, LimitRows | LimitGroups):
        return replace(relation, below=_rebuilt(relation.below, project))
    return project


def _distinct(members: Iterable[Aggregate]) -> list[Key]:
    """Keys of all of them, each expression once."""
    return list({k.expr: k for m in members for k in m.keys}.values())


def _measures(members: Iterable[Aggregate]) -> list[Measure]:
    return list(dict.fromkeys([x for m in members for x in m.measures]))


def _adds_up(own: Aggregate) -> bool:
    """Whether its numbers over disjoint sets of rows add up to those over all of them."""
    kinds = {m.kind for m in own.measures}
    return MeasureKind.DISTINCT not in kinds and (
        own.unit is None or MeasureKind.UNITS not in kinds
    )


def _keeper(key: Key, *, limited: bool) -> Key | None:
    """Key that drops no row, in place of one that may; None where there is none."""
    t = key.expr.type
    if key.codes is None or t.kind is Kind.TEXT or t.size >= MOST:
        return None
    codes = tuple(range(t.lo, t.hi + 1))
    if not t.nullable and (not limited or set(key.codes) >= set(codes)):
        return Key(key.name, key.expr, codes)
    if limited:
        return None
    try:
        absent = Constant.like(t.hi + 1, t)
    except ParameterError:  # no integer is left
        return None
    return Key(key.name, Coalesce((key.expr, absent)), (*codes, t.hi + 1))
