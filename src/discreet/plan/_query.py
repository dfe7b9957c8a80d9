"""A question as its author meant it: front ends build it, the planner prices it.

SQL text and the fluent API both become one :class:`Query`. It names statistics
(``_statistics``), not sums; what is measured with noise and what is computed
afterwards from noisy integers is decided by the planner. Everything under
``outputs``, ``having``, ``order`` and ``limit`` happens after the noise.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any, Final

from discreet import policy as pol
from discreet._dataclass import dataclass, field, replace
from discreet.errors import ParameterError
from discreet.plan._facts import no_rows
from discreet.plan._joins import JoinUnit
from discreet.plan._logic import Case, IsNull, OneOf
from discreet.plan._nodes import Constant, Expr
from discreet.plan._relation import (
    Key,
    Limits,
    Relation,
    Scan,
    base,
    digest,
    least,
    rows_of_unit,
)
from discreet.plan._statistic import Statistic
from discreet.plan._types import Kind, Type
from discreet.plan._weight import together
from discreet.privacy import Neighbours


@dataclass(frozen=True)
class StatisticValue:
    """The answer to ``statistics[index]`` inside an output expression."""

    index: int


@dataclass(frozen=True)
class KeyValue:
    """The group's value of a key, by name."""

    name: str


@dataclass(frozen=True)
class Number:
    """A public number (or a truth value as 0/1) in an output expression."""

    value: Fraction


@dataclass(frozen=True)
class Text:
    """A public string, to compare keys with in HAVING."""

    value: str


@dataclass(frozen=True)
class Apply:
    """Arithmetic, comparison or logic between outputs, after the noise."""

    op: str
    args: tuple[OutputExpr, ...]

    def __post_init__(self) -> None:
        _ = self.weight

    @cached_property
    def weight(self) -> int:
        """Operators and operands of it, each as often as it would be written."""
        return together(map(weight_of, self.args))


@dataclass(frozen=True)
class Grouping:
    """1 in the rows of a coarser level that add up over a key, 0 where it has a value."""

    name: str


@dataclass(frozen=True)
class Window:
    """A function of outputs over several rows of the answer, after the noise.

    ``partition`` holds keys. ``rows`` is the frame: how many rows before and after
    (None: all); without it the frame is the whole partition, or, where rows have an order,
    all rows up to this one and those that tie with it.
    """

    op: str
    args: tuple[OutputExpr, ...]
    partition: tuple[OutputExpr, ...] = ()
    order: tuple[tuple[OutputExpr, bool], ...] = ()
    rows: tuple[int | None, int | None] | None = None

    def __post_init__(self) -> None:
        _ = self.weight

    @cached_property
    def weight(self) -> int:
        """Operators and operands of it, each as often as it would be written."""
        return together(map(weight_of, parts_of(self)))


OutputExpr = StatisticValue | KeyValue | Number | Text | Apply | Grouping | Window


def weight_of(out: OutputExpr) -> int:
    """How much an output is, as a tree."""
    return out.weight if isinstance(out, Apply | Window) else 1


def parts_of(out: OutputExpr) -> tuple[OutputExpr, ...]:
    """What an output is computed from, one step down."""
    match out:
        case Apply(_, args):
            return args
        case Window(_, args, partition, order):
            return (*args, *partition, *(by for by, _ in order))
    return ()


def windows_of(out: OutputExpr) -> set[Window]:
    """Windows that stand anywhere in an output."""
    own = {out} if isinstance(out, Window) else set()
    return own.union(*(windows_of(part) for part in parts_of(out)))


@dataclass(frozen=True)
class OutputColumn:
    """A named column of the answer."""

    name: str
    expr: OutputExpr


@dataclass(frozen=True)
class Query:
    """The whole question: relation, keys, statistics, and what happens after the noise."""

    relation: Relation
    keys: tuple[Key, ...]
    statistics: tuple[Statistic, ...]
    outputs: tuple[OutputColumn, ...]
    limits: Limits
    neighbours: Neighbours
    having: OutputExpr | None = None
    order: tuple[tuple[OutputExpr, bool], ...] = ()  # (expression, descending)
    limit: int | None = None
    other: str | None = None  # label of a bucket for unselected open keys
    levels: tuple[tuple[str, ...], ...] = ()  # keys of each level of totals; (): all keys
    qualify: OutputExpr | None = None  # a test of windows, after HAVING
    # keys that may list values which WHERE excludes: what is said, not what is asked
    vague: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        names = [o.name for o in self.outputs]
        twice = {n for n in names if names.count(n) > 1}
        if twice:
            raise ParameterError(
                f"two output columns are called {min(twice)!r}", hint="give one an alias: AS n2"
            )
        if "" in names:
            raise ParameterError("an output column has an empty name", hint="give it one: AS n")
        if not self.statistics:
            raise ParameterError(
                "the query asks for no statistic", hint="SELECT COUNT(*) AS n FROM …"
            )

    @cached_property
    def hash(self) -> str:
        """Stable identity: equal questions have equal hashes, in every process."""
        return digest(self)

    @property
    def weight(self) -> int:
        """Operators of rows, keys, statistics and outputs, each as often as it would be written."""
        exprs = [*(k.expr for k in self.keys), *(e for s in self.statistics for e in s.exprs)]
        tests = [t for t in (self.having, self.qualify) if t is not None]
        after = [*(o.expr for o in self.outputs), *tests, *(out for out, _ in self.order)]
        return sum([self.relation.weight, *(e.weight for e in exprs), *map(weight_of, after)])

    @cached_property
    def is_empty(self) -> bool:
        """Whether the policy and the conditions alone prove that it is about no rows."""
        return no_rows(self.relation)

    @cached_property
    def _words(self) -> str:
        from discreet.plan._describe import describe  # noqa: PLC0415 - it imports this module

        return describe(self)

    def __str__(self) -> str:
        return self._words


_MOST_LABELS: Final = 256
"""Values of a key beside which NULL may be one more: each is a branch of CASE."""


def with_null_groups(query: Query) -> Query:
    """Make rows without a key a group of their own, whose key is NULL, as SQL does.

    A row is in exactly one cell with them as without, so the price is the same. Keys
    selected from the data, of dates and of many values stay as they are.
    """
    return replace(query, keys=tuple(map(_with_null, query.keys)))


def _with_null(key: Key) -> Key:
    t = key.expr.type
    listed = t.kind in (Kind.CATEGORY, Kind.BOOLEAN, Kind.NUMBER)
    if not t.nullable or not listed or key.codes is None or len(key.codes) > _MOST_LABELS:
        return key
    codes = [c for c in key.codes if isinstance(c, int)]
    labels: tuple[Any, ...] = (*map(t.value, codes), None)
    new = Type(Kind.CATEGORY, labels=labels)
    branches: list[tuple[Expr, Expr]] = [
        (OneOf(key.expr, (c,)), Constant.like(i, new)) for i, c in enumerate(codes)
    ]
    missing = Constant.like(len(codes), new)
    if len(codes) == t.size:
        category = Case(tuple(branches), missing)
    else:  # values that are not listed are in no group
        branches.append((IsNull(key.expr), missing))
        category = Case(tuple(branches), Constant.null(missing.type))
    return Key(key.name, category, tuple(range(len(labels))))


def multiplied_tables(relation: Relation) -> list[pol.Table]:
    """Private tables whose rows multiply each other; one row for each unit does not."""
    if isinstance(relation, Scan):
        return [relation.table]
    inputs = relation.inputs
    if isinstance(relation, JoinUnit) and relation.single:
        inputs = (relation.below,)
    return [table for i in inputs for table in multiplied_tables(i)]


def limits_of(relation: Relation, *, grouped: bool) -> Limits:
    """Contribution limits that the policy sets for a relation."""
    table = base(relation).table
    if table.unit is None:
        # a row is a unit, and what a join makes of it is all that it contributes
        return Limits(rows=max(relation.m or 1, 1))
    joined = multiplied_tables(relation)
    if len(joined) > 1:
        return Limits(rows=prod(rows_of_unit(t) for t in joined))
    stated = table.max_rows_per_unit if table.max_rows_per_parent is None else rows_of_unit(table)
    if grouped:
        return Limits(stated, table.max_groups_per_unit, table.max_rows_per_group)
    return Limits(rows=least(rows_of_unit(table), stated and table.max_rows_per_group))
