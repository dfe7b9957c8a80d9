"""Relations and aggregates: what an engine is asked to compute.

A relation is a chain of *scan → (join) → filter → extend*; an
:class:`Aggregate` on top limits what each unit contributes, groups by keys and
adds integers up. Its result, one integer per key and measure, is all that ever
leaves an engine.

Contribution limits
-------------------
Rows of a unit are ranked by a keyed hash of the unit and of the codes the
aggregate uses, then by those codes; the first ``rows`` stay. Equal rows are
interchangeable, so the outcome is a function of the *multiset of that unit's
own rows* and of the salt: adding or removing another unit changes nothing for
this one. That is the whole proof obligation (Tumult, Google and OpenDP argue
the same way); the hash only makes the choice fair, so a linear hash modulo a
prime suffices. With ``groups``, (unit, group) pairs are ranked likewise.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum, StrEnum
from fractions import Fraction
from functools import cached_property

from discreet import policy as pol
from discreet.errors import ParameterError
from discreet.plan._expr import Column, Expr
from discreet.plan._types import Kind, Type, of_column
from discreet.privacy import Neighbours

PRIME = 2**31 - 1
"""Modulus of the ranking hash: products of two residues fit 62 bits."""

UNIT = "\x00unit"
"""Reserved name of the unit column inside a relation (no user column can clash)."""


@dataclass(frozen=True)
class Scan:
    """All rows of one table, every column turned into codes as its policy says."""

    table: pol.Table

    @cached_property
    def schema(self) -> dict[str, Type]:
        """Columns and their types."""
        return {name: of_column(c) for name, c in self.table.columns.items()}


@dataclass(frozen=True)
class Filter:
    """Rows for which a condition is true (neither false nor NULL)."""

    below: Relation
    condition: Expr

    def __post_init__(self) -> None:
        if self.condition.type.kind is not Kind.BOOLEAN:
            raise ParameterError(f"WHERE needs a condition, got {self.condition.type}")

    @property
    def schema(self) -> dict[str, Type]:
        """Columns of the relation below; see :func:`narrowed` for tighter bounds."""
        return self.below.schema


@dataclass(frozen=True)
class JoinPublic:
    """Each private row with the matching rows of a public table.

    ``fanout`` is the largest number of public rows that share a key: one
    private row becomes at most that many. It is a public fact, checked when
    the public table is loaded.
    """

    below: Relation
    public: Scan
    on: tuple[tuple[str, str], ...]
    how: str = "inner"
    fanout: int = 1
    prefix: str = ""

    def __post_init__(self) -> None:
        if not self.public.table.public:
            raise ParameterError(f"table {self.public.table.name!r} is not public")

    @cached_property
    def schema(self) -> dict[str, Type]:
        """Columns of both sides; public ones renamed with the prefix."""
        joined = {
            self.prefix + name: Type(t.kind, t.lo, t.hi, t.step, t.labels, nullable=True)
            for name, t in self.public.schema.items()
        }
        clash = joined.keys() & self.below.schema.keys()
        if clash:
            raise ParameterError(f"both tables have a column {min(clash)!r}; alias one of them")
        return self.below.schema | joined


@dataclass(frozen=True)
class JoinUnit:
    """Each private row with the rows of the *same unit* in another private table.

    Every joined row belongs to that one unit, so a unit still moves only its own
    rows, and the limits, applied after the join, bound how many: the product of
    what the policy allows in either table. A join on anything else would let
    one unit's rows multiply another's, and does not exist.
    """

    below: Relation
    other: Scan
    prefix: str = ""

    def __post_init__(self) -> None:
        mine, theirs = base(self.below).table, self.other.table
        if mine.unit is None or theirs.unit is None or theirs.public:
            raise ParameterError("private tables are joined on their unit columns; one has none")
        if mine.neighbours is not theirs.neighbours:
            raise ParameterError(
                f"{mine.name!r} is protected under {mine.neighbours} and {theirs.name!r} under "
                f"{theirs.neighbours}: together they have no common statement"
            )

    @cached_property
    def schema(self) -> dict[str, Type]:
        """Columns of both sides; the other table's renamed with the prefix."""
        joined = {self.prefix + name: t for name, t in self.other.schema.items()}
        clash = joined.keys() & self.below.schema.keys()
        if clash:
            raise ParameterError(f"both tables have a column {min(clash)!r}; alias one of them")
        return self.below.schema | joined


Relation = Scan | Filter | JoinPublic | JoinUnit


def base(relation: Relation) -> Scan:
    """Return the private scan at the bottom of a relation."""
    while not isinstance(relation, Scan):
        relation = relation.below
    return relation


def private_tables(relation: Relation) -> list[pol.Table]:
    """Private tables of a relation, the leftmost first."""
    if isinstance(relation, Scan):
        return [relation.table]
    more = [relation.other.table] if isinstance(relation, JoinUnit) else []
    return private_tables(relation.below) + more


def multiplicity(relation: Relation) -> int:
    """Largest number of rows that one row of the private table becomes."""
    if isinstance(relation, Scan):
        return 1
    below = multiplicity(relation.below)
    return below * relation.fanout if isinstance(relation, JoinPublic) else below


@dataclass(frozen=True)
class Limits:
    """How much of one unit's data may enter an aggregate.

    ``rows`` over all groups, ``groups`` in number, ``rows_per_group`` each;
    None means no such limit. A row-level unit has ``rows = multiplicity`` by
    construction and needs no truncation.
    """

    rows: int | None = None
    groups: int | None = None
    rows_per_group: int | None = None

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if value is not None and value < 1:
                raise ParameterError(f"{f.name} must be at least 1")
        if self.rows is None and (self.groups is None or self.rows_per_group is None):
            raise ParameterError("a unit's contribution is unbounded", hint="max_rows_per_unit = 1")


class MeasureKind(StrEnum):
    """What is added up."""

    SUM = "sum"  # Σ of an integer expression, NULL as 0
    DISTINCT = "distinct"  # number of different codes
    UNITS = "units"  # number of different units


@dataclass(frozen=True)
class Measure:
    """One integer per group."""

    kind: MeasureKind
    expr: Expr | None = None

    def __post_init__(self) -> None:
        if (self.expr is None) != (self.kind is MeasureKind.UNITS):
            raise ParameterError("a measure needs an expression, except a count of units")
        if self.kind is MeasureKind.SUM and self.expr is not None and self.type.kind is Kind.TEXT:
            raise ParameterError("text cannot be added up")

    @property
    def type(self) -> Type:
        """Type of the expression (a count's is the constant one)."""
        return self.expr.type if self.expr is not None else Type.number(1, 1, null=False)


@dataclass(frozen=True)
class Key:
    """A grouping expression and its public codes, in output order.

    ``codes`` of None marks an open key: text whose values are themselves
    private and must pass key selection.
    """

    name: str
    expr: Expr
    codes: tuple[int | str, ...] | None

    def __post_init__(self) -> None:
        if self.codes is None and self.expr.type.kind is not Kind.TEXT:
            raise ParameterError("only text keys are selected from the data")


@dataclass(frozen=True)
class Aggregate:
    """Limit, group, add up: the one thing engines execute."""

    relation: Relation
    keys: tuple[Key, ...]
    measures: tuple[Measure, ...]
    limits: Limits
    neighbours: Neighbours = Neighbours.ADD_REMOVE

    @property
    def unit(self) -> str | None:
        """Unit column of the private table; None when each row is a unit."""
        return base(self.relation).table.unit

    @property
    def hash(self) -> str:
        """Stable identity of the aggregate: equal plans have equal hashes."""
        return digest(self)


def canonical(node: object) -> object:
    """Turn a tree of frozen nodes into JSON-able data, the same in every process."""
    if is_dataclass(node) and not isinstance(node, type):
        body = {f.name: canonical(getattr(node, f.name)) for f in fields(node) if f.compare}
        return {"node": type(node).__name__, **body}
    if isinstance(node, Mapping):
        return {str(k): canonical(v) for k, v in node.items()}
    if isinstance(node, tuple | list):
        return [canonical(v) for v in node]
    if isinstance(node, Enum):
        return node.value
    if isinstance(node, Fraction):
        return str(node)
    if node is None or isinstance(node, bool | int | str):
        return node
    return str(node)


def digest(node: object) -> str:
    """Hash a tree of frozen nodes (sha256, hex)."""
    text = json.dumps(canonical(node), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def walk(expr: Expr) -> Iterator[Expr]:
    """All nodes of an expression, outermost first."""
    yield expr
    for child in expr.children:
        yield from walk(child)


def used_columns(aggregate: Aggregate) -> dict[str, Column]:
    """Columns an aggregate reads, by name, in first-use order."""
    exprs = [k.expr for k in aggregate.keys]
    exprs += [m.expr for m in aggregate.measures if m.expr is not None]
    relation = aggregate.relation
    while not isinstance(relation, Scan):
        if isinstance(relation, Filter):
            exprs.append(relation.condition)
        relation = relation.below
    return {n.name: n for e in exprs for n in walk(e) if isinstance(n, Column)}
