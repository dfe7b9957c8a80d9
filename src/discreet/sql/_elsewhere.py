"""Conditions on what a row's unit has elsewhere: IN and EXISTS of a subquery."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from discreet.plan import Scope
from discreet.sql._text import identifier, refuse

if TYPE_CHECKING:
    from discreet.sql._select import Select


def test_of(part: exp.Expr) -> tuple[bool, exp.In | exp.Exists | None]:
    """A test of what is elsewhere, and whether it is asserted."""
    inner = part.this if isinstance(part, exp.Not) else part
    wanted = not isinstance(part, exp.Not)
    if isinstance(inner, exp.Exists):
        return wanted, inner
    if isinstance(inner, exp.In) and inner.args.get("query") is not None:
        return wanted, inner
    return True, None


def rows(select: Select, scope: Scope, node: exp.In | exp.Exists) -> Scope:
    """Rows elsewhere whose units count."""
    unit = scope.unit or "the unit"
    hint = f"{unit} IN (SELECT {unit} …)"
    if isinstance(node, exp.Exists):
        return _matches(select, scope, node, hint)
    column, query = node.this, node.args["query"].unnest()
    table = identifier(column.args.get("table"))
    if not (isinstance(column, exp.Column) and scope.is_unit(column.name, table)):
        raise refuse("IN of a subquery on other than the unit", hint)
    if not isinstance(query, exp.Select) or len(query.expressions) != 1:
        raise refuse("IN of this subquery", hint)
    other = select.rows_of(query, "subquery")
    if other.sources[0].columns:
        raise refuse("IN of a subquery that selects other than the unit", hint)
    return other


def _matches(select: Select, scope: Scope, node: exp.Exists, hint: str) -> Scope:
    """Rows of an EXISTS, which names the unit of the row outside and nothing else of it."""
    query = node.this.unnest()
    unlinked = "EXISTS that does not compare the unit inside with the one outside"
    if not isinstance(query, exp.Select) or query.args.get("where") is None:
        raise refuse(unlinked, hint)
    query = query.copy()
    inner = replace(select, node=query).tables()
    test = query.args["where"].this
    parts = list(test.flatten()) if isinstance(test, exp.And) else [test]
    rest = [part for part in parts if not _links(part.unnest(), scope, inner)]
    if len(rest) == len(parts) or query.args.get("group") is not None or inner.unit is None:
        raise refuse(unlinked, hint)
    query.set("where", exp.Where(this=exp.and_(*rest)) if rest else None)
    query.set("expressions", [exp.column(exp.to_identifier(inner.unit, quoted=True))])
    return select.rows_of(query, "subquery")


def _links(part: exp.Expr, outer: Scope, inner: Scope) -> bool:
    """Whether a condition says that the unit inside is the unit outside."""
    sides = [part.this, part.expression] if isinstance(part, exp.EQ) else []
    if not sides or not all(isinstance(s, exp.Column) for s in sides):
        return False
    # a name without a table is looked up inside first, as in SQL
    mine, theirs = ((s.name, identifier(s.args.get("table"))) for s in sides)
    return _inside_and_out(mine, theirs, outer, inner) or _inside_and_out(
        theirs, mine, outer, inner
    )


def _inside_and_out(
    mine: tuple[str, str | None], theirs: tuple[str, str | None], outer: Scope, inner: Scope
) -> bool:
    outside = theirs[1] is not None and outer.is_unit(*theirs) and not inner.is_unit(*theirs)
    return inner.is_unit(*mine) and outside
