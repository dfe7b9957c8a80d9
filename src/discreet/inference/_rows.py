"""Rows of a curator's table, one of each unit, for tests that read them themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from discreet import frame
from discreet import privacy as p
from discreet.errors import ParameterError
from discreet.inference._regression import table_of
from discreet.plan import Aggregate, Kind, Limits, Query, Sensitivity, aggregate, lower

if TYPE_CHECKING:
    from discreet.curator import Curator


def one_row_each(
    curator: Curator, columns: Sequence[str], by: str | None, table: str | None, where: str | None
) -> tuple[Aggregate, Query]:
    """Return the aggregate that counts equal rows: the table itself, one row per unit."""
    if not columns or (by is not None and len(columns) != 1):
        raise ParameterError("name the columns to test; with by= exactly one", hint='"income"')
    names = [*columns, *([] if by is None else [by])]
    rows = curator.table(table_of(curator, table).name)
    if where is not None:
        rows = rows.where(where)
    keys = {f"c{i}": column for i, column in enumerate(names)}
    query = rows.group_by(**keys).agg(n=frame.count()).query
    base = lower(query).aggregates[0]
    one = aggregate(query.relation, base.keys, base.measures, Limits(rows=1), query.neighbours)
    if len(one.measures) != 1 or len(one.keys) != len(names) or one.relation.m != 1:
        raise ParameterError("columns are row expressions of one table", hint='"income"')
    for key, name in zip(one.keys, columns, strict=False):
        if key.expr.type.kind not in (Kind.NUMBER, Kind.BOOLEAN):
            raise ParameterError(f"{name!r} is not a number", hint="a numeric column")
    if one.keys[-1].codes is None:
        raise ParameterError(f"the values of {by!r} are private", hint="a column of public values")
    return one, query


def moves_of(query: Query) -> Sensitivity:
    """How far one unit moves these counts: its row comes or goes, or is another one."""
    times = 2 if query.neighbours is p.Neighbours.CHANGE_ONE else 1
    return Sensitivity(times, times, 1)
