"""Shapes of SELECT that are written in another shape: sets of people, numbers of one person.

``SELECT unit … INTERSECT SELECT unit …`` is a test of where else a person has rows. A subquery
about the person of the row outside is a join with one row for each person.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from discreet import policy as pol
from discreet.errors import UnsupportedQueryError
from discreet.sql._people import is_aggregate, without_means
from discreet.sql._text import function_name, identifier, label, only, refuse, units_of
from discreet.sql._walk import (
    all_of,
    calling,
    clauses_of,
    count_rows,
    set_group,
    set_tests,
    tests_of,
    under,
)
from discreet.sql._wrap import resolved

_CLAUSES: Final = {"group": "GROUP BY", "order": "ORDER BY", "with_": "WITH"}
_EXAMPLE: Final = "SELECT COUNT(*) AS n FROM (SELECT * FROM people WHERE age >= 18) AS adults"


def one_select(node: exp.Expr) -> exp.Select:
    """Write a subquery of FROM as one SELECT: sets of people by tests, DISTINCT by GROUP BY."""
    node = node.unnest()
    if isinstance(node, exp.SetOperation):
        return _set(node)
    if not isinstance(node, exp.Select):
        raise refuse(label(node), _EXAMPLE)
    if node.args.get("distinct") and not node.args.get("group"):
        node = node.copy()
        keys = [e.unalias() for e in node.expressions]
        if node.args["distinct"].args.get("on") or any(isinstance(k, exp.Star) for k in keys):
            raise refuse("DISTINCT of whole rows or DISTINCT ON (DISTINCT of named columns works)")
        node.set("distinct", None)
        set_group(node, keys)
    return node


def _set(node: exp.SetOperation) -> exp.Select:
    """UNION, INTERSECT and EXCEPT of people."""
    only(node, "this", "expression", "distinct")
    if not node.args.get("distinct"):
        raise UnsupportedQueryError(
            f"{label(node)} ALL counts a person once for each row, and is not supported; "
            f"{label(node)} without ALL is another question, which counts each person once"
        )
    left, right = one_select(node.this), one_select(node.expression)
    items = [s.expressions[0].unalias() for s in (left, right) if len(s.expressions) == 1]
    if len(items) != 2 or not all(isinstance(i, exp.Column) for i in items):
        raise refuse(f"{label(node)} of anything but the unit column", _EXAMPLE)
    left = left.copy()
    group = left.args.get("group")
    if group and [resolved(left, k) for k in group.expressions] != items[:1]:
        raise refuse(f"{label(node)} of groups other than people", f"GROUP BY {items[0].sql()}")
    if isinstance(node, exp.Union):
        _either(left, right)
    else:
        test: exp.Expr = exp.In(this=items[0].copy(), query=exp.Subquery(this=right.copy()))
        test = exp.Not(this=test) if isinstance(node, exp.Except) else test
        set_tests(left, [*tests_of(left.args.get("where")), test])
    if not left.args.get("group"):
        set_group(left, items[:1])
    return left


def _either(left: exp.Select, right: exp.Select) -> None:
    """Rows of one table of which one condition or the other holds."""
    plain = {"expressions", "from_", "where", "group"}
    sides = (left, right)
    names = {s.expressions[0].unalias().name.casefold() for s in sides}
    same = left.args.get("from_") == right.args.get("from_") and len(names) == 1
    grouped = any(s.args.get("having") for s in sides)
    if not same or grouped or any(clauses_of(s) - plain for s in sides):
        raise UnsupportedQueryError(
            "UNION of people in different tables is not supported: count the people of one table, "
            "and those of the other who are NOT IN the first, and add the two"
        )
    tests = [s.args["where"].this.copy() for s in sides if s.args.get("where")]
    left.set("where", exp.Where(this=exp.or_(*tests)) if len(tests) == 2 else None)


def check_extras(node: exp.Expr) -> None:
    """Refuse what may stand after a table."""
    select = node.find_ancestor(exp.Select)
    if node.args.get("sample") and select is not None:
        raise refuse("TABLESAMPLE (all rows are counted, and cost no more)")
    if node.args.get("pivots"):
        raise refuse("PIVOT of a table (of a subquery that names its columns it is)")


def per_person(root: exp.Select, policy: pol.Policy) -> exp.Select:
    """Join what subqueries in outputs, conditions and LATERAL say of the row's own person."""
    units = units_of(policy)
    root = _present(_without_lateral(root, units), units)
    pairs = [
        (subquery, link)
        for subquery in all_of(root, exp.Subquery)
        if subquery.find_ancestor(exp.Select) is root
        and not isinstance(subquery.parent, exp.From | exp.Join | exp.In | exp.Exists)
        and (link := _link(subquery.this, root, units)) is not None
    ]
    for place, (subquery, link) in enumerate(pairs, 1):
        alias, select = f"person_{place}", subquery.this.copy()
        (value,) = _split(select, link, alias).values()
        root.append("joins", _joined(select, link, alias))
        subquery.replace(value)
    return root


_Link = tuple[exp.Column, exp.Column, exp.Expr]


def _joined(select: exp.Select, link: _Link, alias: str) -> exp.Join:
    """LEFT JOIN of a SELECT about one person, grouped by the person."""
    mine, theirs, test = link
    inner = select.copy()
    set_tests(inner, [p for p in tests_of(inner.args.get("where")) if p != test])
    inner.set("expressions", [theirs.copy(), *inner.expressions])
    set_group(inner, [theirs])
    on = exp.EQ(this=mine.copy(), expression=exp.column(theirs.name, alias))
    return exp.Join(this=under(inner, alias), side="LEFT", on=on)


def _split(select: exp.Select, link: _Link, alias: str) -> dict[str, exp.Expr]:
    """Leave the aggregates of a SELECT about one person in it, and give its outputs back.

    One row is all that it gives, of a person without rows as well: so an expression of its
    aggregates is the expression outside, of what each of them says.
    """
    for clause, value in select.args.items():
        if value and clause not in ("expressions", "from_", "joins", "where"):
            word = _CLAUSES.get(clause, clause.strip("_").upper())
            raise refuse(f"{word} in a subquery about the person of the row outside")
    outer = identifier(link[0].args.get("table"))
    aggregates: dict[str, exp.Expr] = {}

    def change(node: exp.Expr) -> exp.Expr:
        if not is_aggregate(node):
            return node
        name = f"value_{len(aggregates) + 1}" if aggregates else "value"
        aggregates[name] = exp.alias_(node.copy(), name)
        column = exp.column(name, alias)
        call = node.this if isinstance(node, exp.Filter) else node
        # of a person without rows a count is zero, and all others are NULL
        counts = function_name(call) in ("COUNT", "COUNTIF", "COUNT_IF")
        return calling("COALESCE", column, exp.Literal.number(0)) if counts else column

    values: dict[str, exp.Expr] = {}
    for item in select.expressions:
        count = len(aggregates)
        value = without_means(item.unalias().copy()).transform(change)
        own = {c for c in value.find_all(exp.Column) if c.table not in (alias, outer)}
        if len(aggregates) == count or own or value.find(exp.Window, exp.Star, exp.Subquery):
            raise UnsupportedQueryError(
                "a subquery about the person of the row outside gives one number: aggregates of "
                "the person's rows, and arithmetic with these",
            )
        values[item.alias_or_name.casefold()] = exp.paren(value, copy=False)
    select.set("expressions", list(aggregates.values()))
    return values


def _without_lateral(root: exp.Select, units: set[str]) -> exp.Select:
    """Write LATERAL subqueries that aggregate the rows of one person as joins."""
    for join in list(root.args.get("joins") or ()):
        lateral = join.this
        select = lateral.this.unnest() if isinstance(lateral, exp.Lateral) else None
        link = None if select is None else _link(select, root, units, columns=None)
        if select is None or link is None:
            continue
        _check_lateral(root, join)
        alias, select = lateral.alias_or_name, select.copy()
        items = _split(select, link, alias)
        aliases = {e.alias.casefold() for e in root.expressions if isinstance(e, exp.Alias)}
        for column in list(root.find_all(exp.Column)):
            name, table = column.name.casefold(), identifier(column.args.get("table"))
            named = table is None and name in aliases and column.find_ancestor(*_AFTER)
            own = table is None or table.casefold() == alias.casefold()
            if own and name in items and not named and column.find_ancestor(exp.Select) is root:
                value = items[name].copy()
                shown = column.parent is root and column.arg_key == "expressions"
                column.replace(exp.alias_(value, column.name) if shown else value)
        join.replace(_joined(select, link, alias))
    return root


_AFTER: Final = (exp.Group, exp.Having, exp.Order, exp.Qualify)
"""Clauses in which the name of an output stands for it."""


def _check_lateral(root: exp.Select, join: exp.Join) -> None:
    """Move the condition of an inner join to WHERE: the subquery gives each row one row."""
    alias, on, side = join.this.args.get("alias"), join.args.get("on"), join.args.get("side")
    only(join, "this", "on", "side", "kind")
    if alias is None or alias.args.get("columns"):
        raise refuse("LATERAL whose columns have names outside", "COUNT(*) AS n")
    always = on is None or (isinstance(on.unnest(), exp.Boolean) and on.unnest().this)
    if (side and side != "LEFT") or (side and not always):
        raise UnsupportedQueryError(
            f"{side} JOIN LATERAL is supported ON TRUE alone: a row that fails another condition "
            "would stay, without the number",
        )
    if on is not None and not always:
        root.where(on.copy(), copy=False)


def _present(root: exp.Select, units: set[str]) -> exp.Select:
    """After a LEFT JOIN with one row for each person, the unit there says who has one."""
    clause = root.args.get("with_")
    ctes = {} if clause is None else {c.alias.casefold(): c.this for c in clause.expressions}
    for join in root.args.get("joins") or ():
        source = join.this
        own = isinstance(source, exp.Subquery)
        inner = source.this if own else ctes.get(source.name.casefold())
        if join.args.get("side") != "LEFT" or not isinstance(inner, exp.Select):
            continue
        inner.replace(one_select(inner)) if inner.args.get("distinct") else None
        inner = source.this if own else ctes[source.name.casefold()]
        _mark(root, inner, source.alias_or_name.casefold(), units)
    return root


def _mark(root: exp.Select, inner: exp.Select, alias: str, units: set[str]) -> None:
    keys = [] if inner.args.get("group") is None else inner.args["group"].expressions
    if len(keys) != 1 or keys[0].name.casefold() not in units:
        return
    columns = [
        c for c in root.find_all(exp.Column)
        if c.name.casefold() in units and c.find_ancestor(exp.Join) is None
        and (identifier(c.args.get("table")) or "").casefold() == alias
        and c.find_ancestor(exp.Select) is root and _asks_presence(c)
    ]  # fmt: skip
    for column in columns:
        column.replace(exp.column("rows_here", column.args["table"].copy()))
    if columns:
        inner.append("expressions", exp.alias_(count_rows(), "rows_here"))


def _asks_presence(column: exp.Column) -> bool:
    """Whether a column is only tested for NULL, or counted."""
    parent = column.parent
    while isinstance(parent, exp.Paren):
        parent = parent.parent
    null = isinstance(parent, exp.Is) and isinstance(parent.expression, exp.Null)
    return null or (parent is not None and function_name(parent) == "COUNT")


def _link(
    select: exp.Expr, root: exp.Select, units: set[str], columns: int | None = 1
) -> _Link | None:
    """The unit outside, the unit inside, and the condition that equates them."""
    if not isinstance(select, exp.Select) or columns not in (None, len(select.expressions)):
        return None
    start = root.args.get("from_")
    outer = "" if start is None else str(start.this.alias_or_name).casefold()
    inside = [select.args.get("from_"), *(select.args.get("joins") or ())]
    if outer in {str(s.this.alias_or_name).casefold() for s in inside if s is not None}:
        return None  # the name is that of the table inside
    for test in tests_of(select.args.get("where")):
        part = test.unnest()
        sides = [part.this, part.expression] if isinstance(part, exp.EQ) else []
        if not all(isinstance(s, exp.Column) and s.name.casefold() in units for s in sides):
            continue
        for mine, theirs in (sides, sides[::-1]) if sides else ():
            alias = (identifier(mine.args.get("table")) or "").casefold()
            own = (identifier(theirs.args.get("table")) or "").casefold()
            if alias == outer and own != outer:
                return mine, theirs, test
    return None
