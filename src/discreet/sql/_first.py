"""The first row of each person, however people write it, as MIN_BY or MAX_BY of the person's rows.

``ROW_NUMBER() OVER (PARTITION BY unit ORDER BY x)`` that is 1, in WHERE or in QUALIFY, of a
subquery or of a CTE, and ``DISTINCT ON (unit) … ORDER BY unit, x``.
"""

from __future__ import annotations

from sqlglot import exp

from discreet.sql._text import function_name


def first_rows(select: exp.Select, units: set[str], columns: set[str]) -> None:
    """Write a subquery of each person's first row by MIN_BY; `columns` are those of the policy."""
    _inline(select, units)
    start = select.args.get("from_")
    inner = start.this.this if start is not None and isinstance(start.this, exp.Subquery) else None
    if not isinstance(inner, exp.Select) or inner.args.get("group"):
        return
    chosen = _numbered(select, inner, units) or _distinct_on(inner, units)
    if chosen is None:
        return
    unit, by = chosen
    call = "MAX" if by.args.get("desc") else "MIN"
    items: list[exp.Expr] = [unit.copy()]
    for name, value in _shown(select, inner, columns):
        if isinstance(value, exp.Column) and value.name.casefold() == unit.name.casefold():
            continue
        made = exp.Anonymous(this=f"{call}_BY", expressions=[value.copy(), by.this.copy()])
        if value == by.this:
            made = exp.Anonymous(this=call, expressions=[value.copy()])
        items.append(exp.alias_(made, name, quoted=True))
    inner.set("expressions", items)
    inner.set("group", exp.Group(expressions=[unit.copy()]))


def _inline(select: exp.Select, units: set[str]) -> None:
    """Put a CTE of first rows in the one place where it is read."""
    clause = select.args.get("with_")
    for cte in list(clause.expressions) if clause is not None else ():
        ranks = [e for e in cte.this.expressions if _is_first(e.unalias(), units)]
        name = cte.alias.casefold()
        read = [t for t in select.find_all(exp.Table) if t.name.casefold() == name]
        start = select.args.get("from_")
        if not (ranks or cte.this.args.get("qualify")) or start is None or len(read) != 1:
            continue
        if start.this is read[0]:
            alias = exp.TableAlias(this=exp.to_identifier(read[0].alias_or_name))
            start.set("this", exp.Subquery(this=cte.this.copy(), alias=alias))
            cte.pop()
    if clause is not None and not clause.expressions:
        select.set("with_", None)


def _numbered(
    select: exp.Select, inner: exp.Select, units: set[str]
) -> tuple[exp.Column, exp.Ordered] | None:
    """The unit and the order of ROW_NUMBER() = 1, which is taken out."""
    own = inner.args.get("qualify")
    if own is not None and isinstance(own.this, exp.EQ) and own.this.expression.name == "1":
        window = own.this.this
        if _is_first(window, units):
            inner.set("qualify", None)
            return _parts(window)
    where = select.args.get("where")
    ranks = [e for e in inner.expressions if _is_first(e.unalias(), units)]
    name = ranks[0].alias.casefold() if len(ranks) == 1 else ""
    if where is None or not name:
        return None
    tests = list(where.this.flatten()) if isinstance(where.this, exp.And) else [where.this]
    chosen = [t for t in tests if _is_one(t.unnest(), name)]
    if len(chosen) != 1:
        return None
    rest = [t.copy() for t in tests if t is not chosen[0]]
    select.set("where", exp.Where(this=exp.and_(*rest)) if rest else None)
    inner.set("expressions", [e for e in inner.expressions if e is not ranks[0]])
    return _parts(ranks[0].unalias())


def _distinct_on(inner: exp.Select, units: set[str]) -> tuple[exp.Column, exp.Ordered] | None:
    """The unit and the order of DISTINCT ON (unit) … ORDER BY unit, x, which is taken out."""
    distinct, order = inner.args.get("distinct"), inner.args.get("order")
    on = None if distinct is None else distinct.args.get("on")
    keys = [] if on is None else on.expressions
    by = [] if order is None else order.expressions
    if len(keys) != 1 or len(by) != 2 or keys[0].name.casefold() not in units:
        return None
    if by[0].this != keys[0] or inner.args.get("limit"):
        return None
    inner.set("distinct", None)
    inner.set("order", None)
    return keys[0], by[1]


def _shown(select: exp.Select, inner: exp.Select, columns: set[str]) -> list[tuple[str, exp.Expr]]:
    """Columns of the subquery by name; of * those that the question uses."""
    found: dict[str, tuple[str, exp.Expr]] = {}
    for item in inner.expressions:
        if isinstance(item, exp.Star):
            used = [c for c in select.find_all(exp.Column) if c.parent_select is select]
            names = dict.fromkeys(c.name for c in used if c.name.casefold() in columns)
            found |= {n.casefold(): (n, exp.column(n)) for n in names if n.casefold() not in found}
        else:
            found[item.alias_or_name.casefold()] = (item.alias_or_name, item.unalias())
    return list(found.values())


def _parts(window: exp.Expr) -> tuple[exp.Column, exp.Ordered]:
    return window.args["partition_by"][0], window.args["order"].expressions[0]


def _is_first(value: exp.Expr, units: set[str]) -> bool:
    if not isinstance(value, exp.Window) or function_name(value.this) != "ROW_NUMBER":
        return False
    keys, order = value.args.get("partition_by") or [], value.args.get("order")
    alone = len(keys) == 1 and isinstance(keys[0], exp.Column) and keys[0].name.casefold() in units
    return alone and order is not None and len(order.expressions) == 1


def _is_one(test: exp.Expr, name: str) -> bool:
    column = test.this if isinstance(test, exp.EQ) else None
    named = isinstance(column, exp.Column) and column.name.casefold() == name
    return named and str(test.expression.name) == "1"
