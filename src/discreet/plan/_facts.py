"""What conditions prove of columns: bounds, lists of codes, that no row passes.

Guarantee
---------
On every row for which a condition is true, the code of a column lies in the range that
:func:`facts` and :func:`conclude` give, and it is not NULL unless the range says so. Ranges follow
from the policy and the question, so they are public.

Proof sketch
------------
:func:`facts` maps a condition and a truth value to ranges of columns, by
induction: a comparison with a constant that is true (false) bounds the code and
excludes NULL; AND true (OR false) makes all its parts true (false), so ranges
intersect; AND false (OR true) makes at least one part so, hence only the hull of
the parts' ranges is certain; NOT swaps truth. Rows pass a filter when the
condition is true, so there the codes lie in their ranges and clamping is the
identity. A guard inside a condition may be looked through for the same reason.

:func:`conclude` also drops the codes of a column for which a part of an AND cannot be true,
whatever its other columns are (see :mod:`discreet.plan._spans`): no row with such a code passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import ceil, floor
from typing import Final, TypeGuard

from discreet._dataclass import dataclass, replace
from discreet.plan._codes import Spans
from discreet.plan._expr import (
    Case,
    Column,
    Compare,
    Constant,
    Expr,
    IsNull,
    Logic,
    Not,
    OneOf,
    plain_column,
)
from discreet.plan._joins import JoinUnit
from discreet.plan._logic import MIRROR, OPPOSITE, never
from discreet.plan._relation import Filter, Relation, Selection
from discreet.plan._spans import STEPS, Box, solve
from discreet.plan._types import Kind, Type


@dataclass(frozen=True)
class Range:
    """What is certain about one column's codes: bounds, a list, mostly no NULL."""

    lo: int | None = None
    hi: int | None = None
    codes: tuple[int | str, ...] | Spans | None = None
    null: bool = False
    vague: bool = False
    """Whether a condition may exclude codes that are in it."""

    def both(self, other: Range) -> Range:
        """What is certain when both hold."""
        codes = self.codes if self.codes is not None else other.codes
        if self.codes is not None and other.codes is not None:
            codes = _common(self.codes, other.codes)
        lo, hi = _pick(max, self.lo, other.lo), _pick(min, self.hi, other.hi)
        return Range(lo, hi, codes, self.null and other.null, self.vague or other.vague)

    def either(self, other: Range) -> Range:
        """What is certain when at least one holds."""
        codes = None
        if self.codes is not None and other.codes is not None:
            codes = tuple(dict.fromkeys((*self.codes, *other.codes)))
        lo = None if self.lo is None or other.lo is None else min(self.lo, other.lo)
        hi = None if self.hi is None or other.hi is None else max(self.hi, other.hi)
        return Range(lo, hi, codes, self.null or other.null, self.vague or other.vague)

    def narrow(self, t: Type) -> Type:
        """Bound a type."""
        t = t if self.null else t.not_null()
        if t.kind is Kind.TEXT:
            return t
        lo = t.lo if self.lo is None else self.lo
        hi = t.hi if self.hi is None else self.hi
        if whole := _whole(self.codes):
            lo, hi = max(lo, whole[0]), min(hi, whole[-1])
        # an empty range means that no row passes: any bounds are true then
        return t.within(lo, hi)

    def listed(self, t: Type) -> Spans:
        """Codes of a type that are in it; all of its bounds if there are none, unless NULL is."""
        t = self.narrow(t)
        inside = Spans(((t.lo, t.hi),))
        if self.null and self.codes is not None and not self.codes:
            return Spans(())
        return inside.both(_whole(self.codes)) or inside

    @property
    def empty(self) -> bool:
        """Whether nothing is in it."""
        if self.null:
            return False
        if self.codes is not None and not self.codes:
            return True
        return self.lo is not None and self.hi is not None and self.lo > self.hi


def _pick(choose: Callable[[list[int]], int], a: int | None, b: int | None) -> int | None:
    ends = [x for x in (a, b) if x is not None]
    return choose(ends) if ends else None


def _whole(codes: Sequence[int | str] | None) -> Spans:
    """Whole numbers of a list."""
    return (
        codes
        if isinstance(codes, Spans)
        else Spans.of([c for c in codes or () if isinstance(c, int)])
    )


def _common(
    a: tuple[int | str, ...] | Spans, b: tuple[int | str, ...] | Spans
) -> tuple[int | str, ...] | Spans:
    if isinstance(a, Spans) or isinstance(b, Spans):
        return _whole(a).both(_whole(b))
    also = frozenset(b)
    return tuple(c for c in a if c in also)


Facts = Mapping[str, Range]


def facts(condition: Expr, *, truth: bool = True) -> dict[str, Range]:
    """Ranges of columns that are certain where `condition` is true (or false)."""
    match condition:
        case Not(arg):
            return facts(arg, truth=not truth)
        case Logic(op, args):
            parts = [facts(a, truth=truth) for a in args]
            if not parts:
                return {}
            return _all(parts) if (op == "and") is truth else _any(parts)
        case Compare():
            return _compared(condition, truth=truth)
        case IsNull(arg) | OneOf(arg) if (column := plain_column(arg)) is not None:
            if isinstance(condition, OneOf):
                return {column.name: _listed(column, condition.codes, truth=truth)}
            return {} if truth else {column.name: Range()}
    if (column := plain_column(condition)) is not None:
        return {column.name: Range(int(truth), int(truth))}
    return {}


_SEVERAL: Final = 2_000
"""Steps that are done for each column of conditions that read several."""


def conclude(condition: Expr, premises: Facts) -> Facts:
    """Add what a true condition says of columns: no code is left that some part cannot meet."""
    ranges = _all([dict(premises), facts(condition)])
    parts = condition.args if is_and(condition) else (condition,)
    seen: set[tuple[Expr, str]] = set()
    for part in parts:
        alone = len({c.name for c in part.columns}) == 1
        test = part if alone else _linked(part, parts)
        steps = STEPS // len(parts) if alone else _SEVERAL
        columns = {c.name: c.of for c in test.columns if c.of.kind is not Kind.TEXT}
        for name, t in columns.items() if not _simple(part) else ():
            if (test, name) in seen:
                continue
            seen.add((test, name))
            r = ranges.get(name, Range(null=True))
            others = tuple((n, _box(ranges.get(n), of)) for n, of in columns.items() if n != name)
            solution = solve(test, name, r.listed(t), others, steps)
            own = (
                Range(codes=solution.codes)
                if solution.codes or solution.null
                else Range(t.hi + 1, t.hi)
            )
            sure = solution.exact or _reads_text(test)
            ranges[name] = r.both(replace(own, null=solution.null, vague=not sure))
    return ranges


def _linked(part: Expr, parts: Sequence[Expr]) -> Expr:
    """A part together with those that share columns with it: what they exclude together."""
    names = {c.name for c in part.columns}
    linked = [part]
    for _ in parts:
        linked = [p for p in parts if names & {c.name for c in p.columns} and not _reads_text(p)]
        names |= {c.name for p in linked for c in p.columns}
    if _reads_text(part) or len(linked) <= 1:
        return part
    return Logic("and", tuple(linked))


def _reads_text(condition: Expr) -> bool:
    """Whether it reads open text, of which nothing is listed anyway."""
    return any(c.of.kind is Kind.TEXT for c in condition.columns)


def _box(r: Range | None, t: Type) -> Box:
    t = t if r is None else r.narrow(t)
    return Box(t.lo, t.hi, t.nullable)


def _simple(condition: Expr) -> bool:
    """Whether the range of a condition is exactly what meets it."""
    ranges = facts(condition) if isinstance(condition, Compare | OneOf) else {}
    return bool(ranges) and Range() not in ranges.values()


def conditions(relation: Relation) -> tuple[list[Expr], Relation]:
    """Conditions that rows of a relation meet, above what they are made of."""
    tests: list[Expr] = []
    while isinstance(relation, Selection):
        if isinstance(relation, Filter):
            test = relation.condition
            tests += test.args if is_and(test) else (test,)
        relation = relation.below
    return tests, relation


def no_rows(relation: Relation) -> bool:
    """Whether the policy and the conditions alone prove that a relation has no rows.

    True only where it is certain: conditions above one another see the same columns, and a
    row must meet all of them. A left join has rows wherever its left side has.
    """
    tests, relation = conditions(relation)
    ranges: Facts = _all([facts(t) for t in tests])
    for test in tests:
        ranges = conclude(test, ranges)
    if any(map(never, tests)) or any(r.empty for r in ranges.values()):
        return True
    left = isinstance(relation, JoinUnit) and relation.how == "left"
    return any(map(no_rows, relation.inputs[:1] if left else relation.inputs))


def no_values(expr: Expr | None) -> bool:
    """Whether an expression is NULL in every row, as FILTER makes it: no branch can be taken."""
    match expr:
        case Case(branches, Constant(None)):
            return all(never(test) for test, _ in branches)
    return False


def _all(parts: list[dict[str, Range]]) -> dict[str, Range]:
    ranges: dict[str, Range] = {}
    for part in parts:
        for name, r in part.items():
            ranges[name] = ranges[name].both(r) if name in ranges else r
    return ranges


def _any(parts: list[dict[str, Range]]) -> dict[str, Range]:
    ranges = parts[0]
    for part in parts[1:]:
        ranges = {name: r.either(part[name]) for name, r in ranges.items() if name in part}
    return ranges


def _listed(column: Column, codes: tuple[int | str, ...], *, truth: bool) -> Range:
    t = column.type
    if truth:
        whole = [c for c in codes if isinstance(c, int)]
        return Range(min(whole, default=None), max(whole, default=None), codes)
    if t.kind is Kind.CATEGORY:
        rest = tuple(c for c in range(t.lo, t.hi + 1) if c not in codes)
        return Range(codes=rest) if rest else Range()
    return Range()


def _compared(c: Compare, *, truth: bool) -> dict[str, Range]:
    op: str = c.op if truth else OPPOSITE[c.op]
    ranges: dict[str, Range] = {}
    for side, other, sign in ((c.left, c.right, op), (c.right, c.left, MIRROR[op])):
        if (column := plain_column(side)) is None:
            continue
        ranges[column.name] = Range()
        if isinstance(other, Constant) and other.code is not None:
            ranges[column.name] = _bounded(sign, other.code * other.type.step / column.type.step)
    return ranges


def _bounded(op: str, place: Fraction) -> Range:
    """Codes x with ``x op place``, where place may lie between two codes."""
    match op:
        case "<":
            return Range(hi=ceil(place) - 1)
        case "<=":
            return Range(hi=floor(place))
        case ">":
            return Range(lo=floor(place) + 1)
        case ">=":
            return Range(lo=ceil(place))
        case "=":
            return Range(ceil(place), floor(place))
    return Range()


def is_and(condition: Expr) -> TypeGuard[Logic]:
    return isinstance(condition, Logic) and condition.op == "and"
