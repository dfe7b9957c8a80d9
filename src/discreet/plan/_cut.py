"""What limits cut off numbers per person: said first, because it is easily overlooked.

How many rows people have on average, and whatever else is divided by people, is bounded by the
limit that the policy sets. The noise is small there, the margin narrow, and the number may still
be far below what the table would give. Which outputs these are follows from the question and the
policy; whether anybody has more is private, and can be bought.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from discreet._print import number
from discreet._text import quoted
from discreet.plan._expr import Capped, Clamp, Expr
from discreet.plan._per_unit import PerUnit
from discreet.plan._query import Apply, OutputExpr, Query, parts_of
from discreet.plan._relation import Aggregate, LimitRows, base
from discreet.plan._statistics import CountUnits
from discreet.plan._target import statistics_of


def cut(query: Query, aggregates: Sequence[Aggregate]) -> list[str]:
    """Say which outputs and keys leave out what one unit has beyond a limit."""
    table = base(query.relation).table
    if table.unit is None:
        return []
    facts = [*_keys(query), *_folded(query, table.unit), *_divided(query, aggregates, table.unit)]
    if facts and table.max_rows_per_unit is not None:
        plain = quoted(table.name) if not table.name.isidentifier() else table.name
        text = f"SELECT COUNT(*) AS n FROM {plain}"  # noqa: S608 - a line to paste, not to run
        facts.append(f"how many have more rows: curator.coverage({text!r}, epsilon='0.1')")
    return facts


def _limited(e: Expr) -> Iterator[Capped]:
    """Bounds of values per unit that nobody asked for, in an expression."""
    if isinstance(e, Capped):
        yield e
    elif not isinstance(e, Clamp):  # this one was asked for
        for child in e.children:
            yield from _limited(child)


def _words(cap: Capped) -> str:
    return number(float(Fraction(str(cap.type.value(cap.hi))))).replace("\u2009", " ")


def _keys(query: Query) -> Iterator[str]:
    """Keys whose last value stands for all beyond it."""
    if any(isinstance(node, PerUnit) for node in query.relation.nodes):
        for key in query.keys:
            if isinstance(key.expr, Capped):
                last = _words(key.expr)
                yield f"{key.name}: {last} stands for {last} and more"


def _folded(query: Query, unit: str) -> Iterator[str]:
    """Outputs of a number per unit that is bounded."""
    for out in query.outputs:
        exprs = [e for i in sorted(statistics_of(out.expr)) for e in query.statistics[i].exprs]
        for cap in dict.fromkeys(c for e in exprs for c in _limited(e)):
            most, what = _words(cap), cap.arg.describe()
            yield f"{out.name} takes no more than {most} as the {what} of one {unit}"


def _divided(query: Query, aggregates: Sequence[Aggregate], unit: str) -> Iterator[str]:
    """Outputs that divide what rows add up to by how many units there are."""
    nodes = [n for each in aggregates if each.unit is not None for n in each.relation.nodes]
    most = [n.n for n in nodes if isinstance(n, LimitRows) and not n.by]
    for out in query.outputs:
        if most and any(_per_unit(query, part) for part in _all(out.expr)):
            rows = f"{min(most)} row{'s' * (min(most) > 1)}"
            yield f"{out.name} takes no more than {rows} of one {unit}"


def _all(out: OutputExpr) -> Iterator[OutputExpr]:
    yield out
    for part in parts_of(out):
        yield from _all(part)


def _per_unit(query: Query, out: OutputExpr) -> bool:
    """Whether an output divides rows by units."""
    if not (isinstance(out, Apply) and out.op == "/"):
        return False
    top, bottom = ({type(query.statistics[i]) for i in statistics_of(x)} for x in out.args)
    return bottom == {CountUnits} and bool(top - {CountUnits})
