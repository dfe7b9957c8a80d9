r"""Which rows the statistics of one output share, as the public types prove it.

The variance of a difference or a ratio depends on the rows that both sides count. What is
proved of them is stated in the record. The rows that a statistic counts (those with a value) have a
number, equal where the condition is; so has the value itself, but for counts. Of two such
sets of rows it is said whether they are *apart* (no row is in both) or one is *within*
the other. What is not proved is not stated, and whoever reads it has to allow for anything.

Proof sketch
------------
A statistic counts the rows in which all of its *tests* hold: those of its FILTER, and that its
value is not NULL. More tests keep fewer rows; equal tests keep the same ones. Disjointness is
that of :mod:`discreet.plan._disjoint`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from discreet.plan._disjoint import disjoint, support
from discreet.plan._expr import Case, Constant, Expr, IsNull, Logic, Not
from discreet.plan._families import Moment
from discreet.plan._query import OutputColumn
from discreet.plan._statistic import Statistic
from discreet.plan._target import statistics_of

_MOST = 40
"""Sets of rows of one question that are compared."""

Tests = frozenset[Expr]


def shared_rows(
    statistics: Sequence[Statistic], outputs: Iterable[OutputColumn]
) -> dict[str, list[list[int]] | list[int | None]]:
    """Numbers of the rows and values of each statistic, and how rows of one output are related.

    Empty where no output is computed from several statistics that add rows up.
    """
    adding = {i for i, s in enumerate(statistics) if s.adds_up}
    together = [sorted(adding & statistics_of(out.expr)) for out in outputs]
    if all(len(indices) < 2 for indices in together):
        return {}
    rows: dict[Tests, int] = {}
    values: dict[Expr | None, int] = {}
    of: list[int | None] = []
    value: list[int | None] = []
    facts = {}
    for i, s in enumerate(statistics):
        if i not in adding:
            of.append(None)
            value.append(None)
            continue
        tests, inner = tests_of(s.expr)
        of.append(rows.setdefault(tests, len(rows)))
        ones = s.moment is Moment.COUNT
        value.append(None if ones else values.setdefault(inner, len(values)))
        facts[rows[tests]] = ({},) if s.expr is None else support(s.expr)
    apart: set[tuple[int, int]] = set()
    within = {(p, q) for a, p in rows.items() for q, b in _others(rows, p) if b < a}
    for indices in together if len(rows) <= _MOST else ():
        near = sorted({p for i in indices if (p := of[i]) is not None})
        pairs = [(p, q) for k, p in enumerate(near) for q in near[k + 1 :]]
        apart |= {(p, q) for p, q in pairs if disjoint(facts[p], facts[q])}
    relations: dict[str, list[list[int]] | list[int | None]] = {"of": of, "values": value}
    relations["apart"] = [list(pair) for pair in sorted(apart)]
    relations["within"] = [list(pair) for pair in sorted(within)] if len(rows) <= _MOST else []
    return relations


def _others(rows: dict[Tests, int], but: int) -> list[tuple[int, Tests]]:
    return [(q, tests) for tests, q in rows.items() if q != but]


def tests_of(expr: Expr | None) -> tuple[Tests, Expr | None]:
    """What holds of a row if and only if it is counted, and the value that it counts with."""
    if expr is None:
        return frozenset(), None
    if isinstance(expr, Case) and len(expr.branches) == 1 and _null(expr.default):
        ((test, value),) = expr.branches
        tests, inner = tests_of(value)
        return tests | _conjuncts(test), inner
    return frozenset([Not(IsNull(expr))] if expr.type.nullable else []), expr


def _null(expr: Expr) -> bool:
    return isinstance(expr, Constant) and expr.code is None


def _conjuncts(test: Expr) -> Tests:
    if isinstance(test, Logic) and test.op == "and":
        return frozenset().union(*map(_conjuncts, test.args))
    return frozenset([test])
