r"""Conditions that the public types prove disjoint.

Guarantee
---------
If :func:`disjoint` says so, no row of codes makes both alternatives true: of two statistics
whose values are NULL elsewhere, or of two questions with such WHEREs, one row reaches at
most one. A row that is replaced by another leaves at most one and enters at most one: what that
costs is stated where it is priced (``_families``, ``_stability``).

Proof sketch
------------
A condition is written as alternatives, each a conjunction of *facts*: "this expression has a
code in that set". Three-valued logic is kept: AND is true where all its arguments are, false
where one is false; a comparison is true or false only where no side is NULL. Every step replaces
a condition by facts that are *necessary* for it; what is not understood asks for nothing. Two
conjunctions cannot hold at once if they confine one expression to sets that do not meet, as
an expression has one code in one row. Codes are integers with public bounds (or opaque
texts), so whether sets meet is arithmetic. A guard changes no code where WHERE holds, and
rows elsewhere are not counted; a number made of a code is that code.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import combinations, product

from discreet._dataclass import dataclass
from discreet.plan._expr import (
    AsNumber,
    Case,
    Coalesce,
    Compare,
    Constant,
    Expr,
    Guard,
    IsNull,
    Logic,
    Not,
    OneOf,
)
from discreet.plan._logic import MIRROR, OPPOSITE
from discreet.plan._query import Query
from discreet.plan._relation import Filter, Relation, Scan
from discreet.plan._types import Kind
from discreet.privacy import Neighbours

_MOST = 64
"""Alternatives that are followed; more of them prove nothing."""


@dataclass(frozen=True)
class Values:
    """Codes that an expression may have: an interval, a list, both less some; perhaps NULL."""

    null: bool = False
    low: float = -math.inf
    high: float = math.inf
    only: frozenset[int | str] | None = None
    but: frozenset[int | str] = frozenset()

    def __and__(self, other: Values) -> Values:
        lists = [v.only for v in (self, other) if v.only is not None]
        return Values(
            self.null and other.null,
            max(self.low, other.low),
            min(self.high, other.high),
            None if not lists else reduce(frozenset.intersection, lists),
            self.but | other.but,
        )

    @property
    def empty(self) -> bool:
        """Whether certainly no code is left."""
        if self.null:
            return False
        if self.only is not None:
            codes = [c for c in self.only - self.but if isinstance(c, str) or self._holds(c)]
            return not codes
        if math.isinf(self.low) or math.isinf(self.high):
            return False
        out = sum(1 for c in self.but if isinstance(c, int) and self._holds(c))
        return self.high - self.low + 1 <= out

    def _holds(self, code: int) -> bool:
        return self.low <= code <= self.high


Facts = dict[Expr, Values]
_ANY: tuple[Facts, ...] = ({},)


def disjoint(left: Sequence[Facts], right: Sequence[Facts]) -> bool:
    """Whether no row meets an alternative of either side."""
    return all(
        any((a[e] & b[e]).empty for e in a.keys() & b.keys()) for a, b in product(left, right)
    )


def where(condition: Expr, *, true: bool = True) -> Sequence[Facts]:
    """What must hold where a condition is true (or false); one alternative at least."""
    match condition:
        case Not(arg):
            return where(arg, true=not true)
        case Logic(op, args) if (op == "and") is true:
            return _all(where(a, true=true) for a in args)
        case Logic(_, args):
            return _some(where(a, true=true) for a in args)
        case IsNull(arg):
            return _fact(arg, Values(null=True, only=frozenset()) if true else Values())
        case OneOf(arg, codes):
            listed = frozenset(codes)
            return _fact(arg, Values(only=listed) if true else Values(but=listed))
        case Compare(op, left, Constant() as right) if right.code is not None:
            return _compared(op if true else OPPOSITE[op], left, right, condition.factors)
        case Compare(op, Constant() as left, right) if left.code is not None:
            f, g = condition.factors
            return _compared(MIRROR[op] if true else OPPOSITE[MIRROR[op]], right, left, (g, f))
    return _fact(condition, Values(only=frozenset({int(true)})))


def support(expr: Expr, *, zero: bool = False) -> Sequence[Facts]:
    """What must hold where an expression has a value; with `zero`, one other than 0."""
    if isinstance(expr, Constant) and expr.code is None:
        return ()
    if zero and expr.type.kind is Kind.NUMBER and expr.type.lo == expr.type.hi == 0:
        return ()
    if isinstance(expr, Case):
        return _some(
            [
                *(_all([where(c), support(v, zero=zero)]) for c, v in expr.branches),
                support(expr.default, zero=zero),
            ]
        )
    if isinstance(expr, Coalesce):
        return _some(support(a, zero=zero) for a in expr.args)
    if isinstance(expr, AsNumber) and zero and expr.arg.type.kind is Kind.BOOLEAN:
        return where(expr.arg)
    if expr.strict and expr.children:
        return _all(support(child) for child in expr.children)
    return _ANY


def exclusive(exprs: Iterable[Expr]) -> bool | None:
    """Whether a row adds to the sum of one expression at most; None: so of some of them only."""
    supports = [support(e, zero=True) for e in exprs]
    proved = {disjoint(a, b) for a, b in combinations(supports, 2)}
    return None if len(proved) == 2 else True in proved


def apart(queries: Sequence[Query]) -> list[list[int]]:
    """Group questions, by place, so that one unit reaches at most one of each group."""
    groups: list[list[int]] = []
    facts = [rows_of(q.relation) for q in queries]
    for i, query in enumerate(queries):
        for group in groups:
            if all(_same_rows(query, queries[j]) and disjoint(facts[i], facts[j]) for j in group):
                group.append(i)
                break
        else:
            groups.append([i])
    return groups


def _same_rows(a: Query, b: Query) -> bool:
    """Whether a unit is a row of one table for both, and comes or goes as a whole."""
    tables = [[n.table for n in q.relation.nodes if isinstance(n, Scan)] for q in (a, b)]
    plain = all(len(scans) == 1 and scans[0].unit is None for scans in tables)
    removed = {a.neighbours, b.neighbours} == {Neighbours.ADD_REMOVE}
    return plain and removed and tables[0] == tables[1]


def rows_of(relation: Relation) -> Sequence[Facts]:
    """What must hold for a row of the table to reach a relation, by the conditions next to it."""
    conditions: list[Sequence[Facts]] = []
    for node in relation.nodes[1:]:
        if not isinstance(node, Filter):
            break  # a join makes rows of its own
        conditions.append(where(node.condition))
    return _all(conditions)


def _plain(expr: Expr) -> Expr:
    """Look behind what changes no code of a row that counts."""
    while isinstance(expr, Guard | AsNumber):
        expr = expr.arg
    return expr


def _fact(expr: Expr, values: Values) -> Sequence[Facts]:
    t = expr.type
    if t.kind is not Kind.TEXT and not values.null:
        values = values & Values(low=t.lo, high=t.hi)
    return ({_plain(expr): values},)


def _compared(op: str, left: Expr, right: Constant, factors: tuple[int, int]) -> Sequence[Facts]:
    """Codes of the left side that compare so with a constant."""
    f, g = factors
    assert right.code is not None
    edge = right.code * g
    below, at = -(-edge // f) - 1, edge // f  # the last code below, the last not above
    exact = at * f == edge
    match op:
        case "<":
            return _fact(left, Values(high=below))
        case "<=":
            return _fact(left, Values(high=at))
        case ">":
            return _fact(left, Values(low=at + 1))
        case ">=":
            return _fact(left, Values(low=below + 1))
        case "=":
            return _fact(left, Values(only=frozenset({at} if exact else ())))
    return _fact(left, Values(but=frozenset({at} if exact else ())))


def _some(alternatives: Iterable[Sequence[Facts]]) -> Sequence[Facts]:
    union = [facts for each in alternatives for facts in each]
    return union if len(union) <= _MOST else _ANY


def _all(conditions: Iterable[Sequence[Facts]]) -> Sequence[Facts]:
    alternatives: Sequence[Facts] = _ANY
    for each in conditions:
        if len(alternatives) * len(each) > _MOST:
            continue  # fewer facts are still necessary ones
        alternatives = [_both(a, b) for a, b in product(alternatives, each)]
    return alternatives


def _both(a: Facts, b: Facts) -> Facts:
    return {e: a[e] & b[e] if e in a and e in b else a.get(e, b.get(e, Values())) for e in a | b}
