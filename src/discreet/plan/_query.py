"""A question as its author meant it: front ends build it, the planner prices it.

SQL text and the fluent API both become one :class:`Query`. It names statistics
(:class:`Statistic`), not sums; what is measured with noise and what is computed
afterwards from noisy integers is decided by the planner. Everything under
``outputs``, ``having``, ``order`` and ``limit`` happens after the noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import prod
from typing import Literal as Choice

from discreet.errors import ParameterError
from discreet.plan._expr import Expr
from discreet.plan._relation import (
    Key,
    Limits,
    Relation,
    base,
    digest,
    private_tables,
    rows_of_unit,
)
from discreet.plan._types import Kind
from discreet.privacy import Neighbours


class Stat(StrEnum):
    """The statistics that can be asked for."""

    COUNT = "count"  # rows; with an expression, rows where it is not NULL
    COUNT_DISTINCT = "count distinct"
    COUNT_UNITS = "count units"
    SUM = "sum"
    AVG = "avg"
    VAR = "var"
    STDDEV = "stddev"
    QUANTILE = "quantile"
    MODE = "mode"


_NUMERIC = {Stat.SUM, Stat.AVG, Stat.VAR, Stat.STDDEV}


@dataclass(frozen=True)
class Statistic:
    """One statistic of a row expression.

    ``at`` is the probability of a quantile, ``top`` how many values a MODE
    lists, ``sample`` whether a variance divides by n−1 (as SQL's VAR does).
    """

    kind: Stat
    expr: Expr | None = None
    at: Fraction | None = None
    top: int = 1
    sample: bool = True

    def __post_init__(self) -> None:
        name = self.kind.upper()
        if self.expr is None and self.kind not in (Stat.COUNT, Stat.COUNT_UNITS):
            raise ParameterError(f"{name} needs an expression")
        if self.expr is not None:
            kind = self.expr.type.kind
            if self.kind in _NUMERIC and kind not in (Kind.NUMBER, Kind.BOOLEAN):
                raise ParameterError(f"{name} needs a number, got {self.expr.type}")
            if self.kind is Stat.QUANTILE and kind in (Kind.TEXT, Kind.CATEGORY, Kind.BOOLEAN):
                raise ParameterError(f"{name} needs an ordered value, got {self.expr.type}")
            if self.kind is Stat.MODE and kind not in (Kind.CATEGORY, Kind.BOOLEAN):
                raise ParameterError(f"{name} needs a category, got {self.expr.type}")
        if self.kind is Stat.QUANTILE and (self.at is None or not 0 <= self.at <= 1):
            raise ParameterError("a quantile lies between 0 and 1", hint="QUANTILE(x, 0.5)")


@dataclass(frozen=True)
class Of:
    """The answer to ``statistics[index]`` inside an output expression."""

    index: int


@dataclass(frozen=True)
class KeyOf:
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

    op: Choice[
        "+", "-", "*", "/", "<", "<=", "=", "<>", ">=", ">", "and", "or", "not", "round", "abs"
    ]
    args: tuple[Out, ...]


Out = Of | KeyOf | Number | Text | Apply


@dataclass(frozen=True)
class Output:
    """A named column of the answer."""

    name: str
    expr: Out


@dataclass(frozen=True)
class Linear:
    """Linear queries Bx over the data vector x, the counts of all cells in key order.

    ``rows`` holds ``denominator``·B as integers, one tuple per query.
    """

    rows: tuple[tuple[int, ...], ...]
    denominator: int
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Query:
    """The whole question."""

    relation: Relation
    keys: tuple[Key, ...]
    statistics: tuple[Statistic, ...]
    outputs: tuple[Output, ...]
    limits: Limits
    neighbours: Neighbours
    having: Out | None = None
    order: tuple[tuple[Out, bool], ...] = ()  # (expression, descending)
    limit: int | None = None
    other: str | None = None  # label of a bucket for unselected open keys
    linear: Linear | None = None  # report combinations of the cells instead of the cells

    def __post_init__(self) -> None:
        names = [o.name for o in self.outputs]
        twice = {n for n in names if names.count(n) > 1}
        if twice:
            raise ParameterError(
                f"two output columns are called {min(twice)!r}", hint="give one an alias: AS n2"
            )
        if not self.statistics:
            raise ParameterError(
                "the query asks for no statistic", hint="SELECT COUNT(*) AS n FROM …"
            )

    @property
    def hash(self) -> str:
        """Stable identity: equal questions have equal hashes, in every process."""
        return digest(self)

    def __str__(self) -> str:
        from discreet.plan._describe import describe  # noqa: PLC0415 - it imports this module

        return describe(self)


def limits_of(relation: Relation, *, grouped: bool) -> Limits:
    """Contribution limits that the policy sets for a relation."""
    table = base(relation).table
    if table.unit is None:
        # a row is a unit, and what a join makes of it is all that it contributes
        return Limits(rows=max(relation.m or 1, 1))
    joined = private_tables(relation)
    if len(joined) > 1:
        return Limits(rows=prod(rows_of_unit(t) for t in joined))
    if grouped:
        return Limits(table.max_rows_per_unit, table.max_groups_per_unit, table.max_rows_per_group)
    rows = [n for n in (table.max_rows_per_unit, table.max_rows_per_group) if n is not None]
    if table.max_rows_per_unit is None and table.max_groups_per_unit and table.max_rows_per_group:
        rows = [table.max_groups_per_unit * table.max_rows_per_group]
    return Limits(rows=min(rows))
