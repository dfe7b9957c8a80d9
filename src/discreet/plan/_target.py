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
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from discreet._exact import show
from discreet._print import number
from discreet.plan._expr import Capped, Case, DatePart, Divide, Expr, OneOf, columns_of
from discreet.plan._facts import no_values
from discreet.plan._formula import Formula
from discreet.plan._joins import JoinPublic, JoinUnit
from discreet.plan._parts import Part
from discreet.plan._per_unit import PerUnit
from discreet.plan._query import OutputExpr, Query, StatisticValue, Window, parts_of, windows_of
from discreet.plan._relation import (
    Aggregate,
    Filter,
    LimitGroups,
    LimitRows,
    MeasureKind,
    Project,
    Scan,
    base,
    combinations,
)
from discreet.plan._rising import Curve, Shape
from discreet.plan._types import Kind

if TYPE_CHECKING:
    from discreet.plan._lowered import Lowered
    from discreet.plan._types import Type
    from discreet.policy import Column


NO_ROWS: Final = "no row can meet the condition: it excludes every value that the policy allows"
"""What an answer says of rows that cannot exist."""


def statistics_of(out: OutputExpr) -> set[int]:
    """Indices of the statistics an output reads."""
    own = {out.index} if isinstance(out, StatisticValue) else set()
    return own.union(*(statistics_of(part) for part in parts_of(out)))


def outside_windows(out: OutputExpr) -> set[int]:
    """Statistics that an output reads in its own row."""
    if isinstance(out, Window):
        return set()
    own = {out.index} if isinstance(out, StatisticValue) else set()
    return own.union(*(outside_windows(part) for part in parts_of(out)))


def choosing(
    having: OutputExpr | None,
    order: Sequence[tuple[OutputExpr, bool]],
    limit: int | None,
    cells: int | None,
    qualify: OutputExpr | None = None,
) -> set[int]:
    """Statistics whose noise decides which of the cells are shown (None: cells are not known)."""
    tests = [test for test in (having, qualify) if test is not None]
    statistics = set().union(*(statistics_of(test) for test in tests))
    if limit is not None and (cells is None or limit < cells or tests):
        statistics = statistics.union(*(statistics_of(out) for out, _ in order))
    return statistics


def shares_noise(
    formulas: Sequence[Formula], some: Collection[int], others: Collection[int]
) -> bool:
    """Whether two sets of statistics read a common part; parts have independent noise."""
    parts = [{p for i in each for p in formulas[i].parts} for each in (some, others)]
    return not parts[0].isdisjoint(parts[1])


def level_of_each(lowered: Lowered, out: OutputExpr, level: float) -> float:
    """Level at which a margin of one output must hold in each cell of a question.

    That of the question, unless noisy numbers choose the rows: then all cells that could
    be chosen must hold at once, and the noise of cells is independent.
    """
    query = lowered.query
    by_level = rows_by_level(query)
    if by_level is None or lowered.selector is not None:
        return level  # how many cells there will be is not public, or they are chosen before
    rows = max(sum(n for _, n in by_level), 1)
    choosers = choosing(query.having, query.order, query.limit, rows, query.qualify)
    if not shares_noise(lowered.formulas, statistics_of(out), choosers):
        return level
    if query.levels or windows_of(out):
        return 1 - (1 - level) / rows  # rows that add up the same cells share noise
    return 1 + math.expm1(math.log(level) / rows)


def rows_by_level(query: Query) -> list[tuple[tuple[str, ...], int]] | None:
    """Keys and number of rows of every level of totals; None where keys are selected."""
    sizes = {key.name: key.codes for key in query.keys}
    if any(codes is None for codes in sizes.values()):
        return None
    levels = query.levels or (tuple(sizes),)
    return [(names, math.prod(len(sizes[n] or ()) for n in names)) for names in levels]


def target(query: Query, aggregates: Sequence[Aggregate]) -> list[str]:
    """Say which limits and clamps stand between the table and the numbers."""
    limits: dict[str, None] = {}
    for each in aggregates:
        if each.measures and each.unit is not None:
            limits |= dict.fromkeys(_limits(each))
    nodes = [n for each in aggregates if each.measures for n in each.relation.nodes]
    if any(isinstance(n, LimitRows) and not n.by for n in nodes) and _chooses(query):
        limits["rows kept are chosen after WHERE and before FILTER or CASE"] = None
    rows = [*_differs(query), *_left_out(query), *_empty(query)]
    return list(dict.fromkeys([*possible(query), *limits, *_clamps(query), *rows]))


def _limits(each: Aggregate) -> Iterator[str]:
    only_units = all(m.kind is MeasureKind.UNITS for m in each.measures)
    scans = [n.table for n in each.relation.nodes if isinstance(n, Scan) and not n.table.public]
    for node in each.relation.nodes:
        several = len({t.name for t in scans}) > 1
        of = f" of {base(node).table.name}" if several else ""
        match node:
            case LimitRows(_, 1, by) if only_units and set(by) == each.group:
                continue  # a unit is counted once, whichever of its rows is kept
            case LimitRows(_, n, by):
                own = [name for name in by if name not in each.group]
                where = f" and {', '.join(own)}" if own else " and group" if by else ""
                yield f"at most {n} row{'s' * (n > 1)}{of} per {each.unit}{where} kept"
            case LimitGroups(_, n, keys) if not set(keys) <= each.group:
                yield f"at most {n} {', '.join(keys)} per {each.unit} kept"
            case LimitGroups(_, n):
                yield f"at most {n} group{'s' * (n > 1)} per {each.unit} kept"


def possible(query: Query) -> Iterator[str]:
    """What the policy and the conditions alone say about the rows."""
    if query.is_empty:
        yield NO_ROWS
        return
    for s in query.statistics:
        if no_values(s.expr):
            yield f"{s}: {NO_ROWS}"
        elif s.expr is not None and s.word in ("avg", "quantile", "mode") and columns_of(s.expr):
            t = s.expr.type
            if t.kind is not Kind.TEXT and t.lo == t.hi:
                only = _words(t.value(t.lo))
                yield f"{s.expr.describe()} can only be {only} here, if there is any such row"


def _chooses(query: Query) -> bool:
    """Whether a statistic leaves out rows by a condition of its own, as FILTER does."""
    operands = [e for s in query.statistics for e in s.exprs]
    return any(isinstance(e, Case) and e.default.type.nullable for e in operands)


def _left_out(query: Query) -> Iterator[str]:
    """Keys without which a row is in no group, and those that list more than WHERE allows."""
    keys = [k.name for k in query.keys if k.expr.type.nullable]
    if keys and query.other is None:
        yield f"rows without {' or '.join(keys)} in no group"
    if query.vague:
        yield f"values of {', '.join(query.vague)} that WHERE excludes are rows, too"


def _empty(query: Query) -> Iterator[str]:
    """That listed groups without data are rows, where a statistic over rows depends on it."""
    ops = {w.op for out in query.outputs for w in windows_of(out.expr)}
    listed = combinations(query.keys) or 0
    if ops & {"AVG", "MIN", "COUNT"} and listed > 1 and query.having is None and not query.levels:
        names = ", ".join(k.name for k in query.keys)
        yield f"all {listed} listed values of {names} are rows, also those without data"


def _exprs(query: Query) -> list[Expr]:
    """All row expressions of a question."""
    exprs: list[Expr] = [k.expr for k in query.keys]
    exprs += [e for s in query.statistics for e in s.exprs]
    exprs += [n.condition for n in query.relation.nodes if isinstance(n, Filter)]
    for inner in (n for n in query.relation.nodes if isinstance(n, PerUnit)):
        exprs += [*(e for _, e in inner.keys), *(f.expr for _, f in inner.folds)]
    exprs += [e for n in query.relation.nodes if isinstance(n, Project) for e in n.exprs.values()]
    return exprs


def _differs(query: Query) -> Iterator[str]:
    """What databases differ in (days, weeks, / of whole numbers), and steps of curves."""
    stack = _exprs(query)
    while stack:
        match stack.pop():
            case Case(((OneOf(DatePart("weekday"), (7,)), _),)):
                yield "weekdays counted from 0 (Sunday) to 6 (Saturday)"
            case DatePart("week", arg):
                yield "weeks are ISO weeks, from Monday; week 1 has the year's first Thursday"
                stack.append(arg)
            case Divide(left, right) if left.type.step == right.type.step == 1:
                yield "/ of whole numbers keeps its fraction (// does not)"
                stack += [left, right]
            case Curve(arg, step=step, name=name, shape=Shape()):
                yield f"{name}({arg.describe()}) in steps of {show(step)}"
                stack.append(arg)
            case e:
                stack += e.children


def _clamps(query: Query) -> Iterator[str]:
    exprs = _exprs(query)
    unit = base(query.relation).table.unit
    for cap in dict.fromkeys(c for e in exprs for c in _capped(e)):
        yield f"{cap.arg.describe()} counted up to {_text(cap.type.value(cap.hi))} per {unit}"
    joins = [n for n in query.relation.nodes if isinstance(n, JoinPublic | JoinUnit)]
    keys = {name for n in joins for a, b in n.on for name in (a, n.prefix + b)}
    names = frozenset(keys).union(*(columns_of(e) for e in exprs))
    # a join renames the columns of its other side
    prefixes = {"", *(n.prefix for n in joins)}
    for scan in (n for n in query.relation.nodes if isinstance(n, Scan)):
        for name, t in scan.schema.items():
            if any(prefix + name in names for prefix in prefixes):
                yield from _cleaning(scan.table.columns[name], name, t)


def _cleaning(column: Column, name: str, t: Type) -> Iterator[str]:
    """What a column's values were moved to before anything was computed."""
    outside = getattr(column, "outside", None)
    if outside is not None:
        ends = f"{_text(t.value(t.lo))}…{_text(t.value(t.hi))}"
        yield f"{name} clamped to {ends}" if outside == "clamp" else f"{name} only in {ends}"
    if (other := getattr(column, "other", None)) is not None:
        yield f"unlisted {name} counted as {_words(other)}"
    if column.null is not None:
        yield f"missing {name} counted as {_words(column.null)}"


def _capped(e: Expr) -> Iterator[Capped]:
    """Default bounds of values per unit in an expression."""
    if isinstance(e, Capped):
        yield e
    for child in e.children:
        yield from _capped(child)


def _words(value: object) -> str:
    return str(value) if isinstance(value, str | bool) else _text(value)


def _text(value: object) -> str:
    if isinstance(value, dt.date | dt.datetime):
        return value.isoformat()
    # a record holds printable text, and a thin space is not
    return number(float(Fraction(str(value)))).replace("\u2009", " ")


def rows_of_one_unit(part: Part, each: Aggregate) -> list[int | None]:
    """Most rows of one unit behind one number of a part, and behind all its numbers."""
    below = each.relation
    if each.measures[part.reads[0]].kind is MeasureKind.UNITS:
        return [1, below.spread(each.group)]
    return [each.share, below.m]
