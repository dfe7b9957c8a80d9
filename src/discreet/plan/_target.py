"""What the numbers of an answer are about: facts that its record states.

An interval covers the query's value on the rows that limits left over and the
values that clamping made, so the record says which limits and clamps were in force. A
population is sampled by units: the record says how many rows of one unit may
stand behind a number. And where noisy numbers chose the rows that are shown, the
record's own formulas say which.

All of this follows from the question and the policy; nothing from data.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Collection, Iterator, Sequence

from discreet import policy as pol
from discreet._print import number
from discreet.plan._expr import Expr, columns_of
from discreet.plan._formula import Formula
from discreet.plan._lower import Lowered
from discreet.plan._parts import Part
from discreet.plan._query import Apply, Of, Out, Query
from discreet.plan._relation import (
    Aggregate,
    Filter,
    JoinUnit,
    LimitGroups,
    LimitRows,
    MeasureKind,
    nodes,
    private_tables,
)
from discreet.plan._types import of_column
from discreet.plan._vectors import Keys, Vector


def statistics_of(out: Out) -> set[int]:
    """Indices of the statistics an output reads."""
    match out:
        case Of(index):
            return {index}
        case Apply(_, args):
            return set().union(*(statistics_of(a) for a in args))
    return set()


def choosing(
    having: Out | None,
    order: Sequence[tuple[Out, bool]],
    limit: int | None,
    cells: int | None,
) -> set[int]:
    """Statistics whose noise decides which of the cells are shown (None: cells are not known)."""
    found = set() if having is None else statistics_of(having)
    if limit is not None and (cells is None or limit < cells or having is not None):
        found = found.union(*(statistics_of(out) for out, _ in order))
    return found


def shares_noise(
    formulas: Sequence[Formula], some: Collection[int], others: Collection[int]
) -> bool:
    """Whether two sets of statistics read a common part; parts have independent noise."""
    parts = [{p for i in each for p in formulas[i].parts} for each in (some, others)]
    return not parts[0].isdisjoint(parts[1])


def level_of_each(lowered: Lowered, out: Out, level: float) -> float:
    """Level at which a margin of one output must hold in each cell of a question.

    That of the question, unless noisy numbers choose the rows: then all cells that could
    be chosen must hold at once, and the noise of cells is independent.
    """
    query = lowered.query
    if any(key.codes is None for key in query.keys):
        return level  # how many cells there will be is not public
    cells = max(math.prod(len(key.codes or ()) for key in query.keys), 1)
    chosen = choosing(query.having, query.order, query.limit, cells)
    if shares_noise(lowered.formulas, statistics_of(out), chosen):
        return 1 + math.expm1(math.log(level) / cells)
    return level


def target(lowered: Lowered) -> list[str]:
    """Say which limits and clamps stand between the table and the numbers."""
    limits: dict[str, None] = {}
    for each in lowered.aggregates:
        if each.measures and each.unit is not None:
            limits |= dict.fromkeys(_limits(each))
    return [*limits, *_clamps(lowered.query)]


def _limits(each: Aggregate) -> Iterator[str]:
    only_units = all(m.kind is MeasureKind.UNITS for m in each.measures)
    for node in nodes(each.relation):
        match node:
            case LimitRows(_, 1, by) if only_units and set(by) == each.group:
                continue  # a unit is counted once, whichever of its rows is kept
            case LimitRows(_, n, by):
                where = " and group" if by else ""
                yield f"at most {n} row{'s' * (n > 1)} per {each.unit}{where} kept"
            case LimitGroups(_, n):
                yield f"at most {n} group{'s' * (n > 1)} per {each.unit} kept"


def _clamps(query: Query) -> Iterator[str]:
    exprs: list[Expr] = [k.expr for k in query.keys]
    exprs += [s.expr for s in query.statistics if s.expr is not None]
    exprs += [n.condition for n in nodes(query.relation) if isinstance(n, Filter)]
    used = frozenset[str]().union(*(columns_of(e) for e in exprs))
    # a join renames the columns of its other side
    prefixes = {"", *(n.prefix for n in nodes(query.relation) if isinstance(n, JoinUnit))}
    for table in private_tables(query.relation):
        for name, column in table.columns.items():
            named = any(prefix + name in used for prefix in prefixes)
            if named and getattr(column, "outside", None) == "clamp":
                yield f"{name} clamped to {_range(column)}"


def _range(column: pol.Column) -> str:
    t = of_column(column)
    return "…".join(_shown(t.value(code)) for code in (t.lo, t.hi))


def _shown(value: object) -> str:
    if isinstance(value, dt.date | dt.datetime):
        return value.isoformat()
    # a record holds printable text, and a thin space is not
    return number(float(str(value))).replace("\u2009", " ")


def rows_of_one_unit(lowered: Lowered) -> list[list[int | None]]:
    """Most rows of one unit behind one number, and behind all numbers, of every part."""
    return [_rows(part, lowered.aggregates[part.aggregate]) for part in lowered.parts]


def _rows(part: Part, each: Aggregate) -> list[int | None]:
    below = each.relation
    counts_units = (
        isinstance(part, Vector | Keys) and each.measures[part.measure].kind is MeasureKind.UNITS
    )
    if counts_units:
        return [1, below.spread(each.group)]
    return [below.most(each.group), below.m]
