r"""Relations and aggregates: what an engine is asked to compute.

Every relation here is *unit-wise*: its rows that belong to a unit u are a
function of u's own rows in the private tables (as multisets), of public tables
and of the salt, and of nothing else. A row whose unit is NULL does not exist.
So adding or removing u adds or removes exactly u's rows of the relation.

Guarantee
---------
Each node says what is certain about the rows of one unit: their columns and
types (:attr:`~Relation.schema`), the most rows that agree on given columns
(:meth:`~Relation.most`; with no columns, all rows: :attr:`~Relation.m`) and the
most different values they take there (:meth:`~Relation.spread`). Columns S
*identify* a row within a unit when ``most(S) == 1``. None means unbounded. A
limit is a node like any other and is rendered like any other: no sensitivity,
which is read off these facts, can use a limit that no statement enforces, and
an :class:`Aggregate` over an unbounded relation cannot be made.

Proof sketch
------------
*Unit-wise*, by induction over the nodes. A scan hands each unit its own rows,
or, where a row is a unit, one row; rows that belong to units through another table are
handed to those that own them there (``policy/_owner.py``). Filters and projections look at
one row. Joins: see ``_joins``. A limit sorts u's rows by their codes, numbers them (rows
with equal codes are interchangeable, so the numbered list is a function of the
multiset), ranks them by a hash of salt, unit and number, ties by number, and
keeps the first ones. Groups are ranked by a hash of salt, unit and key, ties by
key. Nothing of another unit is looked at, whatever the salt; the hash decides
how fair the choice is and never how private. It reads a unit modulo
2^31 − 1 (text by its digest): units that are equal there share their coins, so a limit
keeps or drops their rows together. Each is treated fairly, but not independently.

*Facts.* Rows that agree on S agree on every subset. A filter only takes rows
away. Of rows that
agree on S, a limit of n rows by B keeps at most n for each of at most
``spread(B − S)`` values; a limit of n groups by K leaves at most n values of K,
each with at most ``most(S ∪ K)`` rows. Projected columns that are plain columns
carry their facts over; others are left out of S, which can only count more.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from enum import StrEnum
from functools import cached_property
from math import prod
from types import MappingProxyType
from typing import Any, ClassVar

from discreet import _canonical
from discreet import policy as pol
from discreet._dataclass import dataclass, fields, replace
from discreet.errors import ParameterError
from discreet.plan._expr import Column, Expr, check_columns, columns_of
from discreet.plan._types import Kind, Type, of_column
from discreet.plan._weight import together
from discreet.privacy import Neighbours

LONGEST_NAME = 4096
"""Bytes of a text that names a unit, at most; a longer one names nobody, as NULL does.

No database has an index over longer keys. Names are grouped, sorted and sent about, so whoever had
one of hundreds of megabytes could end the session of an engine, and be known to be there by that.
"""
_NODE = 40
"""What a node weighs beside its expressions: each is a SELECT of its own in the statement."""
PRIME = 2**31 - 1
"""Modulus of the ranking hash: products of two residues fit 62 bits."""

UNIT = "\x00unit"
"""Reserved name of the unit column inside a relation (no user column can clash)."""

Names = AbstractSet[str]
NONE: Names = frozenset()


def least(*bounds: int | None) -> int | None:
    """Smallest of several bounds, where None means unbounded."""
    return min([b for b in bounds if b is not None], default=None)


def times(*bounds: int | None) -> int | None:
    """Product of bounds; none of a factor is none of the product."""
    factors = [b for b in bounds if b is not None]
    return prod(factors) if len(factors) == len(bounds) else None


class Relation:
    """A unit-wise relation: what is certain about the rows of one unit."""

    parts: ClassVar[tuple[str, ...]] = ("below",)
    """Fields that hold the private relations a node is made of."""

    def __getstate__(self) -> dict[str, Any]:
        """Copies hold the fields; what follows from them is worked out again."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]  # every node is a dataclass

    @property
    def schema(self) -> Mapping[str, Type]:
        """Columns and their types; read-only, as all that previews show of what will run."""
        raise NotImplementedError

    @cached_property
    def inputs(self) -> tuple[Relation, ...]:
        """Private relations that the node is made of."""
        return tuple([getattr(self, name) for name in self.parts])

    @cached_property
    def nodes(self) -> tuple[Relation, ...]:
        """All nodes over private tables, the inputs of each before it: first a scan."""
        return (*[node for i in self.inputs for node in i.nodes], self)

    @cached_property
    def m(self) -> int | None:
        """Most rows of one unit."""
        return self.most(NONE)

    def most(self, columns: Names) -> int | None:
        """Most rows of one unit that agree on `columns`."""
        raise NotImplementedError

    def spread(self, columns: Names) -> int | None:
        """Most different values that `columns` take in the rows of one unit."""
        types = [self.schema[c] for c in columns]
        sizes = [None if t.kind is Kind.TEXT else t.size + t.nullable for t in types]
        return least(times(*sizes), self.m)

    @property
    def own(self) -> Iterable[Expr]:
        """Row expressions of this node alone."""
        return ()

    @cached_property
    def weight(self) -> int:
        """Operators of all its expressions and nodes, each as often as it would be written."""
        inner = [i.weight for i in self.inputs]
        return together([_NODE, *inner, *(e.weight for e in self.own)])

    def needs(self, names: Names) -> tuple[Names, ...]:
        """Columns that each input must have so that this node has these."""
        return tuple(names & i.schema.keys() for i in self.inputs)

    def only(self, names: Names) -> Relation:  # noqa: ARG002 - most nodes compute nothing
        """Leave out what is computed for other columns than these."""
        return self


@dataclass(frozen=True)
class Scan(Relation):
    """All rows of one table, every column turned into codes as its policy says."""

    table: pol.Table
    parts = ()

    def __post_init__(self) -> None:
        if self.table.owner is not None and self.table.owner.above is None:
            raise ParameterError(f"the owner of table {self.table.name!r} is known to no policy")

    @property
    def owner(self) -> Scan | None:
        """Table through whose rows these belong to units; None where they name them."""
        owner = self.table.owner
        return None if owner is None or owner.above is None else Scan(owner.above)

    @cached_property
    def schema(self) -> Mapping[str, Type]:
        """Columns of the table."""
        types = {name: of_column(c) for name, c in self.table.columns.items()}
        return MappingProxyType(types)

    def most(self, columns: Names) -> int | None:  # noqa: ARG002 - known of all rows only
        """One, where a row is a unit; a limit in the policy is not a fact until it is enforced."""
        return 1 if self.table.unit is None else None


class Selection(Relation):
    """Some of the rows below, for which all that is certain below is certain."""

    below: Relation

    @property
    def schema(self) -> Mapping[str, Type]:
        """Columns of the relation below."""
        return self.below.schema

    def most(self, columns: Names) -> int | None:
        """Not more than below."""
        return self.below.most(columns)

    def spread(self, columns: Names) -> int | None:
        """Not more than below, nor than there are rows."""
        return least(self.below.spread(columns), self.m)


@dataclass(frozen=True)
class Filter(Selection):
    """Rows for which a condition is true (neither false nor NULL)."""

    below: Relation
    condition: Expr

    def __post_init__(self) -> None:
        if self.condition.type.kind is not Kind.BOOLEAN:
            raise ParameterError(f"WHERE needs a condition, got {self.condition.type}")
        check_columns([self.condition], self.below.schema)

    @property
    def own(self) -> Iterable[Expr]:
        """The condition."""
        return (self.condition,)

    def needs(self, names: Names) -> tuple[Names, ...]:
        """The columns of the condition as well."""
        return (names | columns_of(self.condition),)


@dataclass(frozen=True)
class Key:
    """A grouping expression and its public codes, in output order.

    ``codes`` of None marks an open key: text whose values are themselves
    private and must pass key selection. A lattice is given as a range: it may be long.
    """

    name: str
    expr: Expr
    codes: tuple[int | str, ...] | range | None

    def __post_init__(self) -> None:
        t = self.expr.type
        if self.codes is None and t.kind is not Kind.TEXT:
            raise ParameterError("only text keys are selected from the data")
        # no row has a code outside the range, and none is to be written into a statement
        if isinstance(self.codes, range):
            first, end = max(self.codes.start, t.lo), min(self.codes.stop, t.hi + 1)
            object.__setattr__(self, "codes", range(first, end))
        elif self.codes is not None and t.kind is not Kind.TEXT:
            codes = [c for c in self.codes if isinstance(c, int) and t.lo <= c <= t.hi]
            object.__setattr__(self, "codes", tuple(codes))


@dataclass(frozen=True)
class Project(Relation):
    """Rows as keys ``k0, k1, …`` and named columns, and nothing else.

    A row whose key is NULL or not one of its public codes is dropped.
    """

    below: Relation
    columns: tuple[tuple[str, Expr], ...]
    keys: tuple[Key, ...] = ()

    def __post_init__(self) -> None:
        check_columns(self.exprs.values(), self.below.schema)

    @cached_property
    def exprs(self) -> Mapping[str, Expr]:
        """Expression of every column, keys first."""
        keys = {f"k{i}": k.expr for i, k in enumerate(self.keys)}
        return MappingProxyType(keys | dict(self.columns))

    @cached_property
    def schema(self) -> Mapping[str, Type]:
        """Types of the expressions; keys are never NULL."""
        keys = {f"k{i}" for i in range(len(self.keys))}
        types = {name: e.type for name, e in self.exprs.items()}
        columns = {name: t.not_null() if name in keys else t for name, t in types.items()}
        return MappingProxyType(columns)

    @property
    def own(self) -> Iterable[Expr]:
        """Keys and columns."""
        return self.exprs.values()

    def most(self, columns: Names) -> int | None:
        """As below, for the columns that are carried over as they are."""
        plain = {e.name for n, e in self.exprs.items() if n in columns and isinstance(e, Column)}
        return self.below.most(plain)

    def needs(self, names: Names) -> tuple[Names, ...]:
        """What the keys (which decide about rows) and these columns read."""
        exprs = [k.expr for k in self.keys] + [e for n, e in self.columns if n in names]
        return ({name for e in exprs for name in columns_of(e)},)


@dataclass(frozen=True)
class LimitRows(Selection):
    """At most `n` rows of each unit, or of each unit and value of the columns `by`.

    All sets of n rows are equally likely, independently of other units, as far
    as the ranking hash goes. ``coin`` numbers the limits of one aggregate, so
    that each tosses its own coins.
    """

    below: Relation
    n: int
    by: tuple[str, ...] = ()
    coin: int = 0

    def __post_init__(self) -> None:
        _check_limit(self.below, self.n)

    def most(self, columns: Names) -> int | None:
        """For each value of `by` among rows that agree on `columns`, n."""
        limited = times(self.n, self.below.spread(set(self.by) - columns))
        return least(self.below.most(columns), limited)

    def needs(self, names: Names) -> tuple[Names, ...]:
        """The columns by which it limits as well."""
        return (names | set(self.by),)


@dataclass(frozen=True)
class SameRows(LimitRows):
    """A limit that keeps the same rows whatever is read of them afterwards.

    Rows are numbered by their codes: by those of all columns, where others leave out what is
    not wanted. Questions over it agree, under one salt, on the rows that are kept.
    """

    def needs(self, names: Names) -> tuple[Names, ...]:  # noqa: ARG002 - that is the point
        """All columns."""
        return (self.below.schema.keys(),)


@dataclass(frozen=True)
class LimitGroups(Selection):
    """The rows of at most `n` values of the columns `keys`, for each unit.

    With `upto`, of no more than that column says in the row itself either.
    """

    below: Relation
    n: int
    keys: tuple[str, ...]
    coin: int = 0
    upto: str | None = None

    def __post_init__(self) -> None:
        _check_limit(self.below, self.n)

    def most(self, columns: Names) -> int | None:
        """In each of n groups as many as agree on the keys too."""
        limited = times(self.n, self.below.most(columns | set(self.keys)))
        return least(self.below.most(columns), limited)

    def spread(self, columns: Names) -> int | None:
        """Of the keys together at most n values."""
        keys = set(self.keys)
        limited = times(self.n if columns & keys else 1, self.below.spread(columns - keys))
        return least(super().spread(columns), limited)

    def needs(self, names: Names) -> tuple[Names, ...]:
        """The keys as well."""
        own = {*self.keys} if self.upto is None else {*self.keys, self.upto}
        return (names | own,)


def _check_limit(below: Relation, n: int) -> None:
    if n < 1:
        raise ParameterError("a limit is at least 1")
    if base(below).table.unit is None:
        raise ParameterError("a limit needs a unit column; where a row is a unit, there is none")


def base(relation: Relation) -> Scan:
    """Return the leftmost private scan of a relation."""
    scan = relation.nodes[0]
    assert isinstance(scan, Scan)
    return scan


def private_tables(relation: Relation) -> list[pol.Table]:
    """Private tables of a relation, the leftmost first, each before its owners."""
    tables = []
    for node in relation.nodes:
        scan = node if isinstance(node, Scan) else None
        while scan is not None:
            tables.append(scan.table)
            scan = scan.owner
    return tables


def rows_of_unit(table: pol.Table) -> int:
    """Most rows of one unit that the policy lets into an aggregate."""
    rows = table.max_rows_per_unit
    if rows is None:
        rows = times(table.max_groups_per_unit, table.max_rows_per_group)
    if table.max_rows_per_parent is not None and table.owner and table.owner.above:
        rows = least(rows, rows_of_unit(table.owner.above) * table.max_rows_per_parent)
    assert rows is not None  # the policy says so
    return rows


@dataclass(frozen=True)
class Limits:
    """How much of one unit's data a question lets into its aggregates.

    ``rows`` over all groups, ``groups`` in number, ``rows_per_group`` each;
    None means no such limit. It is a wish: :func:`aggregate` turns it into
    nodes, and only nodes count.
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
class Aggregate:
    """Group and add up: the one thing engines execute.

    ``relation`` holds the keys as columns ``k0, k1, …`` and the expressions of
    the measures as ``v0, v1, …``; :func:`aggregate` builds it.
    """

    relation: Relation
    keys: tuple[Key, ...]
    measures: tuple[Measure, ...]
    neighbours: Neighbours = Neighbours.ADD_REMOVE

    def __post_init__(self) -> None:
        below = self.relation
        while isinstance(below, LimitRows | LimitGroups):
            below = below.below
        shape = isinstance(below, Project) and (below.keys, below.columns)
        if shape != (self.keys, _values(self.measures)):
            raise ParameterError("an aggregate stands on its own keys and measures, limited")
        if self.relation.m is None:
            raise ParameterError("a unit's contribution is unbounded", hint="max_rows_per_unit = 1")

    @cached_property
    def unit(self) -> str | None:
        """Unit column of the private table; None when each row is a unit."""
        return base(self.relation).table.unit

    @cached_property
    def group(self) -> Names:
        """Columns of the relation that hold the keys."""
        return frozenset(f"k{i}" for i in range(len(self.keys)))

    @cached_property
    def share(self) -> int:
        """Most rows of one unit in one group."""
        most = self.relation.most(self.group)
        assert most is not None
        return most

    @cached_property
    def reach(self) -> int:
        """Most groups in which one unit has rows."""
        few = least(self.relation.spread(self.group), combinations(self.keys))
        assert few is not None
        return few

    @property
    def hash(self) -> str:
        """Stable identity of the aggregate: equal plans have equal hashes."""
        return digest(self)


def cells_of(keys: Iterable[Key]) -> tuple[tuple[int | str, ...], ...]:
    """All combinations of public key codes, the last varying fastest."""
    return tuple(itertools.product(*(k.codes or () for k in keys)))


def combinations(keys: Iterable[Key]) -> int | None:
    """How many groups keys can make; None when some are selected from the data."""
    return times(*[None if key.codes is None else len(key.codes) for key in keys])


def weight(keys: Iterable[Key]) -> int:
    """What keys weigh in memory: one, and one more for each thousand codes written out."""
    return 1 + sum(len(k.codes) for k in keys if isinstance(k.codes, tuple)) // 1_000


def _values(measures: tuple[Measure, ...]) -> tuple[tuple[str, Expr], ...]:
    return tuple([(f"v{i}", m.expr) for i, m in enumerate(measures) if m.expr is not None])


def aggregate(
    relation: Relation,
    keys: tuple[Key, ...],
    measures: tuple[Measure, ...],
    limits: Limits,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    *,
    groups: int | None = None,
) -> Aggregate:
    """Limit what each unit contributes, then group and add up.

    Parameters
    ----------
    relation, keys, measures, neighbours
        What is asked.
    limits
        Turned into nodes where they bind. Where a row is a unit nothing could
        enforce them: its multiplicity is its limit.
    groups
        How many of the keys, from the first, make the groups of `limits`; by default all.
    """
    coins = itertools.count()
    keys = tuple([replace(k, name=f"k{i}") for i, k in enumerate(keys)])  # no alias is measured
    project = Project(relation, _values(measures), keys)
    below = _pruned(project, project.schema.keys(), coins)
    if base(relation).table.unit is not None:
        own = tuple(f"k{i}" for i in range(len(keys)))
        if all(m.kind is MeasureKind.UNITS for m in measures):
            # one row of a unit in a group says all: let the limits count such rows
            below = LimitRows(below, 1, own)
        below = limited(below, own[:groups], limits, coins)
    return Aggregate(below, keys, measures, neighbours)


def with_degrees(
    relation: Relation, key: Key, degree: Key, most: int, neighbours: Neighbours
) -> Aggregate:
    """Count units by a key and by their degree, the number of such keys that they have.

    `degree` reads a column of `relation` that is the same in all rows of a unit. Whatever it
    says, a unit of degree d is kept in d groups at most, and in no more than `most`.
    """
    coins, key, degree = itertools.count(), replace(key, name="k0"), replace(degree, name="k1")
    project = Project(relation, (), (key, degree))
    once = LimitRows(_pruned(project, project.schema.keys(), coins), 1, ("k0", "k1"))
    few = LimitGroups(once, most, ("k0",), next(coins), "k1")
    return Aggregate(few, (key, degree), (Measure(MeasureKind.UNITS),), neighbours)


def limited(below: Relation, by: tuple[str, ...], limits: Limits, coins: Iterator[int]) -> Relation:
    """Build limit nodes, those that bind, from the finest to the coarsest."""
    names = set(by)
    if limits.rows_per_group is not None and _exceeds(below.most(names), limits.rows_per_group):
        below = LimitRows(below, limits.rows_per_group, by, next(coins))
    if limits.groups is not None and _exceeds(below.spread(names), limits.groups):
        below = LimitGroups(below, limits.groups, by, next(coins))
    if limits.rows is not None and _exceeds(below.m, limits.rows):
        below = LimitRows(below, limits.rows, (), next(coins))
    return below


def _exceeds(bound: int | None, n: int) -> bool:
    return bound is None or bound > n


def _pruned(relation: Relation, names: Names, coins: Iterator[int]) -> Relation:
    """Leave only used columns below each limit, and give each limit its own coin.

    Rows that differ in unused columns alone are equal for all that follows.
    """
    relation = relation.only(names)
    needs = relation.needs(names)
    changes: dict[str, object] = {
        part: _pruned(i, w, coins)
        for part, i, w in zip(relation.parts, relation.inputs, needs, strict=True)
    }
    if isinstance(relation, LimitRows | LimitGroups):
        columns = [(n, Column(n, t)) for n, t in relation.schema.items() if n in needs[0]]
        changes = {"below": Project(changes["below"], tuple(columns)), "coin": next(coins)}  # type: ignore[arg-type]  # a relation, as built above
    changes = {name: new for name, new in changes.items() if getattr(relation, name) is not new}
    return replace(relation, **changes) if changes else relation  # type: ignore[type-var]  # every node is a dataclass


def digest(node: object) -> str:
    """Hash a tree of frozen nodes (sha256, hex)."""
    return _canonical.digest(_canonical.canonical(node))
