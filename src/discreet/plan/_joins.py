r"""Joins: a row with its partners in a public table, or in the rows of the same unit.

Guarantee
---------
Both kinds are unit-wise (see ``_relation``): a unit's joined rows are a function of its
own rows and of public ones.

Proof sketch
------------
A join with a public table turns a row into its matches, at most `fanout` of them. A join of
private relations pairs u's rows with u's rows, whatever else it compares. Take pairs that
agree on columns S of the left and T of the right. Each comes from one of at most
``below.most(S)`` left rows, and its right rows agree on T and on the compared columns:
``other.most(T ∪ on)`` at most. A left row that finds no partner stands alone, once.

Where a policy limits the rows of each parent, a unit's rows are those of at most p parents, r
of each, and so p·r. Both limits are nodes that choose among the unit's own rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType

from discreet._dataclass import dataclass, replace
from discreet.errors import ParameterError
from discreet.plan._expr import Column
from discreet.plan._per_unit import PerUnit
from discreet.plan._relation import (
    NONE,
    LimitGroups,
    LimitRows,
    Names,
    Project,
    Relation,
    Scan,
    base,
    rows_of_unit,
    times,
)
from discreet.plan._types import Type


@dataclass(frozen=True)
class JoinPublic(Relation):
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
    def schema(self) -> Mapping[str, Type]:
        """Columns of both sides; public ones renamed with the prefix."""
        joined = {n: replace(t, nullable=True) for n, t in self.public.schema.items()}
        return _both(self.below.schema, joined, self.prefix)

    def most(self, columns: Names) -> int | None:
        """Each row below in as many copies as there are matches; unmatched rows in one.

        One at least also where nothing matches: a sensitivity of 0 prices no choice.
        """
        return times(self.below.most(columns & self.below.schema.keys()), max(self.fanout, 1))

    def needs(self, names: Names) -> tuple[Names, ...]:
        """The joined columns as well."""
        return ((names & self.below.schema.keys()) | {left for left, _ in self.on},)


@dataclass(frozen=True)
class JoinUnit(Relation):
    """Each private row with the rows of the *same unit* in another private relation.

    Every joined row belongs to that one unit, so a unit still moves only its own
    rows. Both sides are limited before, or a row has one partner at most, so
    that neither rows nor time grow with what one unit holds. In a left join a row
    without partners stands alone. A join that leaves the unit out would let one unit's
    rows multiply another's, and does not exist; `on` names columns that must be equal
    besides.
    """

    below: Relation
    other: Relation
    prefix: str = ""
    how: str = "inner"
    on: tuple[tuple[str, str], ...] = ()
    parts = ("below", "other")

    def __post_init__(self) -> None:
        mine, theirs = base(self.below).table, base(self.other).table
        if mine.unit is None or theirs.unit is None or theirs.public:
            raise ParameterError("private tables are joined on their unit columns; one has none")
        if mine.neighbours is not theirs.neighbours:
            raise ParameterError(
                f"{mine.name!r} is protected under {mine.neighbours} and {theirs.name!r} under "
                f"{theirs.neighbours}: no one guarantee covers both"
            )
        if not self.single and None in (self.below.m, self.other.m):
            raise ParameterError("both sides of a join of private tables are limited before it")

    @cached_property
    def schema(self) -> Mapping[str, Type]:
        """Columns of both sides; the other's renamed with the prefix."""
        left = self.how == "left"
        theirs = {n: replace(t, nullable=t.nullable or left) for n, t in self.other.schema.items()}
        return _both(self.below.schema, theirs, self.prefix)

    @property
    def single(self) -> bool:
        """Whether a row has one partner at most."""
        return self._partners(NONE) == 1

    def _theirs(self, columns: Names) -> Names:
        return {n for n in self.other.schema if self.prefix + n in columns}

    def _partners(self, columns: Names) -> int | None:
        """Most partners of a row that agree on columns of theirs."""
        return self.other.most(columns | {right for _, right in self.on})

    def most(self, columns: Names) -> int | None:
        """Pairs of rows that agree, each on its own columns."""
        left, right = columns & self.below.schema.keys(), self._partners(self._theirs(columns))
        alone = self.how == "left" and right is not None
        return times(self.below.most(left), max(right or 0, 1) if alone else right)

    def needs(self, names: Names) -> tuple[Names, ...]:
        """Of either side its own columns, and what is compared."""
        ours = (names & self.below.schema.keys()) | {left for left, _ in self.on}
        return ours, self._theirs(names) | {right for _, right in self.on}


def _both(left: Mapping[str, Type], right: Mapping[str, Type], prefix: str) -> Mapping[str, Type]:
    joined = {prefix + name: t for name, t in right.items()}
    clash = joined.keys() & left.keys()
    if clash:
        raise ParameterError(f"both tables have a column {min(clash)!r}; alias one of them")
    return MappingProxyType({**left, **joined})


def names_rows_of(relation: Relation, column: str) -> str | None:
    """Table whose rows a column names, its own or its owner's; None for other columns.

    What names the same row belongs to the same units, so an equation of such columns may stand
    for that of the units: the join compares the units too.
    """
    match relation:
        case Scan(table):
            if column == table.key:
                return table.name
            owner = table.owner
            return owner.name if owner is not None and column == owner.column else None
        case Project() | PerUnit():
            exprs = relation.exprs if isinstance(relation, Project) else dict(relation.keys)
            expr = exprs.get(column)
            return names_rows_of(relation.below, expr.name) if isinstance(expr, Column) else None
        case JoinUnit(below, other, prefix) if column not in below.schema:
            return names_rows_of(other, column.removeprefix(prefix))
        case Relation(inputs=(below, *_)) if column in below.schema:
            return names_rows_of(below, column)
    return None


def bounded(relation: Relation) -> Relation:
    """Limit the rows of each unit as the policy says, where nothing limits them yet."""
    if relation.m is not None:
        return relation
    few, most = limited_by_parent(relation), rows_of_unit(base(relation).table)
    return few if few.m is not None and few.m <= most else LimitRows(few, most)


def rows_let_in(relation: Relation) -> int:
    """Most rows of one unit by the policy, as wide as joins make them: of a fold, the public top.

    What joins multiply is multiplied, in either order; a limit that stands already may be lower.
    """
    match relation:
        case Scan(table):
            rows = rows_of_unit(table)
        case JoinPublic(below, fanout=fanout):
            rows = rows_let_in(below) * max(fanout, 1)
        case JoinUnit(below, other) if not relation.single:
            rows = rows_let_in(below) * rows_let_in(other)
        case _:
            rows = rows_let_in(relation.inputs[0])
    return rows if relation.m is None else min(rows, relation.m)


def limited_by_parent(relation: Relation) -> Relation:
    """Limit the rows of each parent, and the parents, where the policy limits rows in this way.

    The limits stand as high as a column still names the parents, above the conditions.
    """
    table = base(relation).table
    if table.max_rows_per_parent is None or table.owner is None or table.owner.above is None:
        return relation
    if relation.m is not None or isinstance(relation, PerUnit):
        return relation
    names = [c for c in relation.schema if names_rows_of(relation, c) == table.owner.name]
    if not names:
        return replace(relation, below=limited_by_parent(relation.inputs[0]))  # type: ignore[type-var]  # every node but a scan, which has the column, stands on one
    few = LimitRows(relation, table.max_rows_per_parent, (names[0],))
    return LimitGroups(few, rows_of_unit(table.owner.above), (names[0],))
