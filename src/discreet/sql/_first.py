"""The first row of each person, however people write it, as ARG_MIN_NULL of the person's rows.

``ROW_NUMBER() OVER (PARTITION BY unit ORDER BY x)`` that is 1, in WHERE or in QUALIFY, of a
subquery or of a CTE, ``DISTINCT ON (unit) … ORDER BY unit, x`` and ``FIRST(y ORDER BY x)``.
ARG_MIN_NULL knows no row whose x is NULL, and a person may have no other: where x may be NULL, and
what the row says matters, the question is refused.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from discreet import policy as pol
from discreet.errors import UnsupportedQueryError
from discreet.sql._text import function_name, table_of
from discreet.sql._walk import all_of, calling, set_group, set_tests, tests_of, under

_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between)
"""Tests that no NULL passes, nor their opposites."""


def first_rows(select: exp.Select, units: set[str], policy: pol.Policy) -> None:
    """Write a subquery of each person's first row by ARG_MIN_NULL."""
    _inline(select, units)
    start = select.args.get("from_")
    inner = start.this.this if start is not None and isinstance(start.this, exp.Subquery) else None
    if not isinstance(inner, exp.Select) or inner.args.get("group"):
        return
    first = _numbered(select, inner, units) or _distinct_on(inner, units)
    if first is None:
        return
    unit, by = first
    if _reads(select, unit):
        _check_place(inner, by.this, policy)
    columns = {c.casefold() for t in policy.tables.values() for c in t.columns}
    call = "MAX" if by.args.get("desc") else "MIN"
    items: list[exp.Expr] = [unit.copy()]
    for name, value in _outputs(select, inner, columns):
        if isinstance(value, exp.Column) and value.name.casefold() == unit.name.casefold():
            continue
        own = value == by.this
        pick = calling(call, value) if own else calling(f"ARG_{call}_NULL", value, by.this)
        items.append(exp.alias_(pick, name, quoted=True))
    inner.set("expressions", items)
    set_group(inner, [unit])


def first_values(select: exp.Select, policy: pol.Policy) -> None:
    """Write FIRST(x ORDER BY y), in a subquery, as the x of the first row; LAST likewise."""
    for call in [c for e in select.expressions for c in all_of(e, exp.Anonymous)]:
        name, operands = function_name(call), call.expressions[:1]
        if name not in ("FIRST", "LAST") or not operands or not isinstance(operands[0], exp.Order):
            continue
        by, value = operands[0].expressions, operands[0].this
        if select.parent is None or len(by) != 1 or len(call.expressions) != 1:
            continue
        _check_place(select, by[0].this, policy)
        least = (name == "FIRST") is not bool(by[0].args.get("desc"))
        call.set("this", "ARG_MIN_NULL" if least else "ARG_MAX_NULL")
        call.set("expressions", [value.copy(), by[0].this.copy()])


def _check_place(inner: exp.Select, place: exp.Expr, policy: pol.Policy) -> None:
    """Refuse first rows of an order in which some rows may have no place."""
    if _may_be_null(inner, place, policy):
        raise UnsupportedQueryError(
            f"a person's first row by {place.sql()} is not supported where {place.sql()} may "
            "be NULL: databases differ in where NULL stands, and of a person without any "
            "it could be any row; leave such rows out by WHERE of the same SELECT",
            hint=inner.where(place.is_(exp.null()).not_()).args["where"].sql(),
        )


def _reads(select: exp.Select, unit: exp.Column) -> bool:
    """Whether a question uses more of the first rows than whose they are."""
    own = [c for c in select.find_all(exp.Column) if c.parent_select is select]
    return select.is_star or any(c.name.casefold() != unit.name.casefold() for c in own)


def _may_be_null(inner: exp.Select, value: exp.Expr, policy: pol.Policy) -> bool:
    """Whether rows without a place in the order may be left after WHERE."""
    source = inner.args["from_"].this
    if any(_is_known(t.unnest(), value) for t in tests_of(inner.args.get("where"))):
        return False
    ctes = {c.alias.casefold() for c in inner.root().find_all(exp.CTE)}
    if not isinstance(source, exp.Table) or source.name.casefold() in ctes:
        return True
    table = table_of(policy, source)
    if table is None or inner.args.get("joins") or not isinstance(value, exp.Column):
        return True
    rules = {n.casefold(): c.nullable for n, c in table.columns.items()}
    return rules.get(value.name.casefold(), True)


def _is_known(test: exp.Expr, value: exp.Expr) -> bool:
    """Whether a test of WHERE holds only where a value is not NULL."""
    opposite = isinstance(test, exp.Not)
    test = test.this.unnest() if opposite else test
    if isinstance(test, exp.Is):
        return opposite and test.this == value and isinstance(test.expression, exp.Null)
    compared = isinstance(test, _COMPARISONS) and test.find(exp.Query) is None
    return compared and value in (test.this, test.args.get("expression"))


def _inline(select: exp.Select, units: set[str]) -> None:
    """Put a CTE of first rows in the one place where it is read."""
    clause = select.args.get("with_")
    for cte in list(clause.expressions) if clause is not None else ():
        ranks = [e for e in cte.this.expressions if _is_first(e.unalias(), units)]
        name = cte.alias.casefold()
        uses = [t for t in select.find_all(exp.Table) if t.name.casefold() == name]
        start = select.args.get("from_")
        if not (ranks or cte.this.args.get("qualify")) or start is None or len(uses) != 1:
            continue
        if start.this is uses[0]:
            start.set("this", under(cte.this.copy(), uses[0].alias_or_name))
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
    ranks = [e for e in inner.expressions if _is_first(e.unalias(), units)]
    name = ranks[0].alias.casefold() if len(ranks) == 1 else ""
    if not name:
        return None
    tests = tests_of(select.args.get("where"))
    firsts = [t for t in tests if _is_one(t.unnest(), name)]
    if len(firsts) != 1:
        return None
    set_tests(select, [t for t in tests if t is not firsts[0]])
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


def _outputs(
    select: exp.Select, inner: exp.Select, columns: set[str]
) -> list[tuple[str, exp.Expr]]:
    """Columns of the subquery by name; of * those that the question uses."""
    items: dict[str, tuple[str, exp.Expr]] = {}
    for item in inner.expressions:
        if isinstance(item, exp.Star):
            own = [c for c in select.find_all(exp.Column) if c.parent_select is select]
            names = dict.fromkeys(c.name for c in own if c.name.casefold() in columns)
            items |= {n.casefold(): (n, exp.column(n)) for n in names if n.casefold() not in items}
        else:
            items[item.alias_or_name.casefold()] = (item.alias_or_name, item.unalias())
    return list(items.values())


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
