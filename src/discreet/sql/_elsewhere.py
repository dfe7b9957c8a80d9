"""Conditions on what is elsewhere: IN and EXISTS of a subquery.

Of private tables they ask what a row's own unit has there, be it any row or the rows with the
same key. Of public tables they ask whether a value is listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from discreet import policy as pol
from discreet._dataclass import replace
from discreet.errors import UnsupportedQueryError
from discreet.plan import Scan, Scope, build, expr
from discreet.sql._joins import open_text, same_rows
from discreet.sql._rows import Rows
from discreet.sql._text import column_of, identifier, is_unit, only, refuse, table_of
from discreet.sql._walk import set_tests, tests_of

if TYPE_CHECKING:
    from discreet.sql._select import Select


def test_of(part: exp.Expr) -> tuple[bool, exp.In | exp.Exists | None]:
    """A test of what is elsewhere, and whether it is asserted."""
    inner = part.unnest()
    wanted = not isinstance(inner, exp.Not)
    inner = inner if wanted else inner.this.unnest()
    if isinstance(inner, exp.Exists):
        return wanted, inner
    if isinstance(inner, exp.In) and inner.args.get("query") is not None:
        return wanted, inner
    return True, None


def tested(select: Select, scope: Scope, node: exp.In | exp.Exists, *, wanted: bool) -> Scope:
    """Keep the rows for which the test holds (or does not)."""
    unit = scope.unit or "the unit"
    hint = f"{unit} IN (SELECT {unit} …)"
    if isinstance(node, exp.Exists):
        return _exists(select, scope, node, hint, wanted=wanted)
    column, query = node.this.unnest(), node.args["query"].unnest()
    if not isinstance(query, exp.Select) or len(query.expressions) != 1:
        raise refuse("IN of this subquery", hint)
    if (table := _public_table(query, select.policy)) is not None:
        return _listed(select, scope, node, table, wanted=wanted)
    if not isinstance(column, exp.Column):
        raise refuse("IN (SELECT …) on anything but the unit", hint)
    other = select.rows_of(query, "subquery")
    theirs = list(other.sources[0].columns.values())
    if is_unit(scope, column):
        if theirs:
            raise refuse("IN (SELECT …) that selects anything but the unit", hint)
        return scope.having(other, where=wanted)
    mine = column_of(scope, column)
    if not theirs or not same_rows(scope, mine, other, theirs[0]):
        raise refuse("IN (SELECT …) on anything but the unit", hint)
    assert isinstance(mine, expr.Column)
    assert isinstance(theirs[0], expr.Column)
    if not wanted:  # a row without a key is in no list, nor is it known not to be
        scope = scope.where(build.negate(build.is_null(mine)))
    return scope.having(other, where=wanted, on=(mine, theirs[0]))


def _listed(select: Select, scope: Scope, node: exp.In, table: pol.Table, *, wanted: bool) -> Scope:
    """Test whether a value stands in a column of a public table."""
    query = node.args["query"].unnest()
    only(query, "expressions", "from_", "where", hint="IN (SELECT …)")
    item, where = query.expressions[0].unalias(), query.args.get("where")
    column = Scope.of(table).column(item.name) if isinstance(item, exp.Column) else None
    if not isinstance(column, expr.Column):
        raise refuse("IN (SELECT …) of anything but a column of a public table")
    mine = Rows(scope).expr(node.this, "IN")
    # what the policy lists is what the column may hold, not what the table's rows say
    if wanted and select.fanout_of(table.name, (column.name,)) <= 1:
        pairs, alias = [(mine, column.name)], f"listed {len(scope.sources)}"
        joined = scope.join(open_text(Scan(table), pairs), pairs, fanout=1, alias=alias)
        if where is not None:
            own = replace(joined, sources=joined.sources[-1:])
            joined = joined.where(Rows(own).condition(where.this))
        return replace(joined, sources=scope.sources)
    raise UnsupportedQueryError(
        f"NOT IN of {build.quote(column.name)}, or values that occur in several rows of the "
        "public table: join the table instead",
        hint=f"JOIN {table.name} ON {build.name_of(mine)} = {table.name}.{column.name}",
    )


def _public_table(query: exp.Select, policy: pol.Policy) -> pol.Table | None:
    """The public table that a subquery reads, if it is one."""
    start = query.args.get("from_")
    table = table_of(policy, start and start.this)
    return table if table is not None and table.public else None


def _exists(select: Select, scope: Scope, node: exp.Exists, hint: str, *, wanted: bool) -> Scope:
    """Test an EXISTS, which names the unit or a key of the row outside, and nothing else of it."""
    query = node.this.unnest()
    unlinked = "EXISTS that does not compare the unit inside with the one outside"
    if not isinstance(query, exp.Select) or query.args.get("where") is None:
        raise refuse(unlinked, hint)
    query = query.copy()
    inner = replace(select, node=query).tables()
    parts = tests_of(query.args["where"])
    links = [(part, link) for part in parts if (link := _link(part.unnest(), scope, inner))]
    if len(links) != 1 or query.args.get("group") is not None or inner.unit is None:
        raise refuse(unlinked, hint)
    ((linked, (mine, theirs)),) = links
    set_tests(query, [part for part in parts if part is not linked])
    query.set("expressions", [theirs.copy()])
    other = select.rows_of(query, "subquery")
    columns = list(other.sources[0].columns.values())
    if not columns:
        return scope.having(other, where=wanted)
    own = column_of(scope, mine)
    assert isinstance(own, expr.Column)
    assert isinstance(columns[0], expr.Column)
    return scope.having(other, where=wanted, on=(own, columns[0]))


def _link(part: exp.Expr, outer: Scope, inner: Scope) -> tuple[exp.Column, exp.Column] | None:
    """Columns outside and inside, where a condition says that the units are the same."""
    sides = [part.this, part.expression] if isinstance(part, exp.EQ) else []
    if not sides or not all(isinstance(s, exp.Column) for s in sides):
        return None
    for mine, theirs in (sides, sides[::-1]):
        if _linked(mine, theirs, outer, inner):
            return mine, theirs
    return None


def _linked(mine: exp.Column, theirs: exp.Column, outer: Scope, inner: Scope) -> bool:
    # a name without a table is looked up inside first, as in SQL
    out = (mine.name, identifier(mine.args.get("table")))
    own = (theirs.name, identifier(theirs.args.get("table")))
    aliases = [{s.alias.casefold() for s in scope.sources} for scope in (outer, inner)]
    if out[1] is None or out[1].casefold() not in aliases[0] - aliases[1]:
        return False
    if own[1] is not None and own[1].casefold() not in aliases[1]:
        return False
    if inner.is_unit(*own) or outer.is_unit(*out):
        return inner.is_unit(*own) and outer.is_unit(*out)
    return same_rows(outer, outer.column(*out), inner, inner.column(*own))
