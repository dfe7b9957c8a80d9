"""One row for each unit: what people did, counted or summed up before anything is released.

Guarantee
---------
:class:`PerUnit` is unit-wise (see ``_relation``): the row (or, with keys, the rows) of a
unit are a function of that unit's own rows. A unit has at most one row for each value of
the keys, however many rows it has below, so no limit of rows is needed.

Proof sketch
------------
Grouping by the unit puts rows of different units in different groups. COUNT, SUM, MIN,
MAX and COUNT(DISTINCT) are functions of the multiset of a group's rows. Sums are taken
in integers that cannot overflow and moved into public bounds before they are codes.
NULL is a value of a key: it makes a group of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType

from discreet._dataclass import dataclass, replace
from discreet.errors import ParameterError
from discreet.plan._expr import Expr, check_columns, columns_of
from discreet.plan._relation import Names, Relation, base
from discreet.plan._types import LIMIT, Code, Kind, Type

MANY = 2**40
"""Counts and sums beyond this many rows of one unit are moved to it."""


class FoldKind(StrEnum):
    """What is made of one unit's values."""

    COUNT = "count"  # of values that are not NULL
    DISTINCT = "count distinct"
    SUM = "sum"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True)
class Fold:
    """One value of a unit, made of its rows; counts and sums within public bounds."""

    kind: FoldKind
    expr: Expr

    def __post_init__(self) -> None:
        t = self.expr.type
        if self.kind is FoldKind.SUM and not t.is_numeric:
            raise ParameterError(f"SUM needs a number, got {t}")
        if self.kind in (FoldKind.MIN, FoldKind.MAX) and t.kind in (Kind.TEXT, Kind.CATEGORY):
            raise ParameterError(f"{self.kind.upper()} needs ordered values, got {t}")

    @cached_property
    def type(self) -> Type:
        """Type of the value."""
        t = self.expr.type
        match self.kind:
            case FoldKind.COUNT:
                return Type.number(int(not t.nullable), MANY, null=False)
            case FoldKind.DISTINCT:
                size = MANY if t.kind is Kind.TEXT else min(t.size, MANY)
                return Type.number(int(not t.nullable), size, null=False)
            case FoldKind.SUM:
                return _summed(t, min(MANY, (LIMIT - 1) // max(1, abs(t.lo), abs(t.hi))))
        return t

    def within(self, rows: int) -> tuple[int, int] | None:
        """Bounds of a count or sum of at most so many rows; None where it has its own."""
        match self.kind:
            case FoldKind.COUNT:
                return self.type.lo, rows
            case FoldKind.SUM:
                t = _summed(self.expr.type, rows)
                return t.lo, t.hi
            case FoldKind.DISTINCT if self.type.hi > rows:
                return self.type.lo, rows
        return None

    @property
    def clamped(self) -> bool:
        """Whether the engine's number is moved into the type's bounds."""
        return self.kind not in (FoldKind.MIN, FoldKind.MAX)

    def of(self, codes: list[Code]) -> Code:
        """Value of the codes of one group."""
        values = [c for c in codes if c is not None]
        match self.kind:
            case FoldKind.COUNT:
                number = len(values)
            case FoldKind.DISTINCT:
                number = len(set(values))
            case _ if not values:
                return None
            case FoldKind.SUM:
                number = sum(v for v in values if isinstance(v, int))
            case FoldKind.MIN:
                return min(values)
            case FoldKind.MAX:
                return max(values)
        return min(max(number, self.type.lo), self.type.hi)


def _summed(t: Type, rows: int) -> Type:
    """Type of the sum of one to `rows` values."""
    lo, hi = min(t.lo, t.lo * rows), max(t.hi, t.hi * rows)
    return Type.number(lo, hi, t.step, null=t.nullable)


@dataclass(frozen=True)
class PerUnit(Relation):
    """A row for each unit that has any, or for each unit and value of the keys."""

    below: Relation
    keys: tuple[tuple[str, Expr], ...]
    folds: tuple[tuple[str, Fold], ...]

    def __post_init__(self) -> None:
        if base(self.below).table.unit is None:
            raise ParameterError("rows are the units here: there is nothing to group by the unit")
        check_columns([e for _, e in self.keys], self.below.schema)
        check_columns([f.expr for _, f in self.folds], self.below.schema)

    @cached_property
    def schema(self) -> Mapping[str, Type]:
        """Keys and folds."""
        folds = {n: f.type for n, f in self.folds}
        return MappingProxyType({n: e.type for n, e in self.keys} | folds)

    @property
    def own(self) -> Iterable[Expr]:
        """Keys and what is folded."""
        return (*(e for _, e in self.keys), *(f.expr for _, f in self.folds))

    def most(self, columns: Names) -> int | None:
        """One row for each value of the keys that are not among the columns."""
        rest = {n for n, _ in self.keys} - columns
        if not rest:
            return 1
        types = [self.schema[n] for n in rest]
        if any(t.kind is Kind.TEXT for t in types):
            return self.below.m
        values = 1
        for t in types:
            values *= t.size + t.nullable
        return values if self.below.m is None else min(values, self.below.m)

    def needs(self, names: Names) -> tuple[Names, ...]:
        """What the keys and these folds read."""
        exprs = [e for _, e in self.keys] + [f.expr for n, f in self.folds if n in names]
        return ({name for e in exprs for name in columns_of(e)},)

    def only(self, names: Names) -> PerUnit:
        """Only the folds with these names."""
        return replace(self, folds=tuple((n, f) for n, f in self.folds if n in names))
