"""A SELECT around an answer: ``SELECT … FROM (SELECT sex, COUNT(*) AS n … GROUP BY sex)``.

A subquery that aggregates without grouping by the unit is an answer: what the SELECT
around it does happens after the noise. Both are made one SELECT: names of the inner outputs
stand for what they are, WHERE becomes HAVING (or QUALIFY, where it tests a window), and
aggregates over the answer's rows become windows over all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from discreet import policy as pol
from discreet.errors import QueryError
from discreet.plan import CALLS, build
from discreet.sql._text import default_name, function_name, only, refuse, units_of
from discreet.sql._walk import calling, clauses_of

_FOLDS: Final = frozenset({"SUM", "AVG", "MIN", "MAX", "COUNT"})
_OUTER: Final = ("expressions", "from_", "where", "group", "having", "order", "limit", "with_",
                 "qualify", "hint")  # fmt: skip
_INNER: Final = ("expressions", "from_", "joins", "where", "group", "having", "order", "limit",
                 "qualify", "hint", "with_")  # fmt: skip


def unwrapped(root: exp.Select, policy: pol.Policy) -> exp.Select:
    """Make one SELECT of a SELECT around an answer; give others back as they are."""
    units = units_of(policy)
    while True:
        inner = _answer(root, units)
        if inner is None:
            return root
        root = _merged(root, inner)


def _answer(root: exp.Select, units: set[str]) -> exp.Select | None:
    start = root.args.get("from_")
    if start is None or root.args.get("joins"):
        return None
    node, name = start.this, start.this.name.casefold()
    inner = node.this if isinstance(node, exp.Subquery) else None
    clause = root.args.get("with_")
    if isinstance(node, exp.Table) and clause is not None:
        ctes = {c.alias.casefold(): c.this for c in clause.expressions}
        inner = ctes.get(name)
    if not isinstance(inner, exp.Select) or not _aggregates(inner):
        return None
    group = inner.args.get("group")
    keys = [] if group is None else [resolved(inner, n) for n in group.expressions]
    people = any(isinstance(k, exp.Column) and k.name.casefold() in units for k in keys)
    return None if people else inner


def _aggregates(select: exp.Select) -> bool:
    return any(function_name(n) in CALLS for e in select.expressions for n in e.walk())


def _items(select: exp.Select) -> dict[str, exp.Expr]:
    """Outputs by their names."""
    items = {}
    for place, item in enumerate(select.expressions, 1):
        value = item.this if isinstance(item, exp.Alias) else item
        name = item.alias if isinstance(item, exp.Alias) else default_name(value.unnest(), place)
        items[name.casefold()] = exp.alias_(value.copy(), name, quoted=True)
    return items


def resolved(select: exp.Select, node: exp.Expr) -> exp.Expr:
    """What a key of GROUP BY means: a position, an alias, or itself."""
    node = node.unnest()
    items = list(select.expressions)
    if isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdigit():
        place = int(str(node.this)[:6])
        if 1 <= place <= len(items):
            node = items[place - 1]
    elif isinstance(node, exp.Column) and not node.args.get("table"):
        by_alias = {i.alias.casefold(): i for i in items if isinstance(i, exp.Alias)}
        node = by_alias.get(node.name.casefold(), node)
    return (node.this if isinstance(node, exp.Alias) else node).copy()


def _merged(root: exp.Select, inner: exp.Select) -> exp.Select:
    only(root, *_OUTER, hint="ORDER BY 1")
    only(inner, *_INNER)
    items = _items(inner)
    if root.args.get("group"):
        root = _regrouped(root, inner, items)
    merged = inner.copy()
    if group := merged.args.get("group"):
        group.set("expressions", [resolved(inner, n) for n in group.expressions])
    outputs = [value for item in root.expressions for value in _outputs(item, items)]
    folded = any(
        isinstance(n, exp.Window) and n.meta.get("fold") for e in outputs for n in e.walk()
    )
    merged.set("expressions", outputs)
    if having := merged.args.get("having"):
        having.set("this", _substitute(having.this, items))
    for clause in ("where", "qualify"):
        if test := root.args.get(clause):
            _add_test(merged, _with(test.this, items))
    if folded and merged.args.get("qualify"):
        # windows are computed before QUALIFY, and so would the aggregate be
        raise refuse("an aggregate over rows that a window (OVER) picks", "WHERE n > 100")
    _set_order(root, merged, items, folded=folded)
    for clause in ("with_", "hint"):
        if root.args.get(clause) and not merged.args.get(clause):
            merged.set(clause, root.args[clause].copy())
    after = (merged.args.get(c) for c in ("having", "qualify", "order"))
    clauses = [*outputs, *(c for c in after if c)]
    measured = [n for e in clauses for n in e.walk() if function_name(n) in CALLS]
    if all(isinstance(n.parent, exp.Window) for n in measured):
        raise refuse("a question about the rows of an answer, and not about its numbers", "AVG(n)")
    return merged


def _regrouped(root: exp.Select, inner: exp.Select, items: dict[str, exp.Expr]) -> exp.Select:
    """Write GROUP BY of an answer's rows as windows, of which one row of each group stays.

    Keys of the outer SELECT are keys of the inner one, so the groups are partitions of rows.
    """
    only(root.args["group"], "expressions")
    if inner.args.get("limit") or root.args.get("qualify") or root.find(exp.Window):
        raise refuse("GROUP BY of the rows of an answer beside LIMIT inside it, or a window")
    group = inner.args.get("group")
    if group is None or clauses_of(group) != {"expressions"}:
        raise refuse("GROUP BY of the rows of an answer that has totals, or no keys")
    inner_keys = [resolved(inner, n) for n in group.expressions]
    names = [n for n, item in items.items() if item.this in inner_keys]
    keys = [resolved(root, n) for n in root.args["group"].expressions]
    if not all(isinstance(k, exp.Column) and k.name.casefold() in names for k in keys):
        raise refuse("GROUP BY of the rows of an answer, by anything but its keys,")
    if len({str(items[n].this) for n in names}) < len(inner_keys):
        raise refuse("GROUP BY of the rows of an answer that does not show all its keys")
    outer, own = root.copy(), {k.name.casefold() for k in keys}
    rest = [exp.Ordered(this=exp.column(n, quoted=True)) for n in names if n not in own]

    def fold(node: exp.Expr) -> exp.Expr:
        folded = _fold(node)
        if folded is not node:
            folded.set("partition_by", [k.copy() for k in keys])
        return folded

    aliases = {e.alias.casefold() for e in outer.expressions if e.alias}
    outer.set("expressions", [e.transform(fold) for e in outer.expressions])
    _check_folded(outer.expressions, own)
    having, order = outer.args.get("having"), outer.args.get("order")
    if having is not None:
        having.set("this", having.this.transform(fold))
        _check_folded([having.this], own)
    for item in () if order is None else order.expressions:
        if not (isinstance(item.this, exp.Column) and item.this.name.casefold() in aliases):
            item.set("this", item.this.transform(fold))
            _check_folded([item.this], own)
    tests = [] if having is None else [having.this]
    if rest:
        first = exp.Anonymous(this="ROW_NUMBER", expressions=[])
        over = exp.Window(this=first, partition_by=keys, order=exp.Order(expressions=rest))
        tests.append(exp.EQ(this=over, expression=exp.Literal.number(1)))
    outer.set("qualify", exp.Qualify(this=exp.and_(*tests)) if tests else None)
    outer.set("group", None)
    outer.set("having", None)
    return outer


def _check_folded(nodes: Sequence[exp.Expr], keys: set[str]) -> None:
    """Refuse a column that neither is a key nor stands in an aggregate."""
    for column in (c for n in nodes for c in n.find_all(exp.Column)):
        if column.name.casefold() not in keys and column.find_ancestor(exp.Window) is None:
            name = column.name
            raise QueryError(
                f"{build.quote(name)} is neither in GROUP BY nor in an aggregate",
                hint=f"SUM({name})",
            )


def _outputs(item: exp.Expr, items: dict[str, exp.Expr]) -> list[exp.Expr]:
    if isinstance(item, exp.Star):
        return [i.copy() for i in items.values()]
    changed = _with(item.unalias(), items)
    named = isinstance(item, exp.Alias | exp.Column)
    return [exp.alias_(changed, item.alias_or_name, quoted=True) if named else changed]


def _with(node: exp.Expr, items: dict[str, exp.Expr]) -> exp.Expr:
    """Put what inner names stand for in their places; fold rows of the answer by windows."""
    return _substitute(node.copy().transform(_fold, mark=True), items, inside=True)


def _substitute(node: exp.Expr, items: dict[str, exp.Expr], *, inside: bool = False) -> exp.Expr:
    """Put what names of outputs stand for in their places; in aggregates, only if `inside`."""

    def change(n: exp.Expr) -> exp.Expr:
        if isinstance(n, exp.Column) and (inside or not _in_call(n)):
            value = items.get(n.name.casefold())
            return n if value is None else exp.paren(value.this.copy(), copy=False)
        return n

    return node.transform(change)


def _in_call(node: exp.Expr) -> bool:
    """Whether a node is part of what an aggregate reads."""
    above = node.parent
    while above is not None and function_name(above) not in CALLS:
        above = above.parent
    return above is not None


def _fold(n: exp.Expr, *, mark: bool = False) -> exp.Expr:
    """Write an aggregate over rows of the answer as a window; marked, it leaves one row of all."""
    if function_name(n) not in CALLS or isinstance(n.parent, exp.Window):
        return n
    if function_name(n) not in _FOLDS or isinstance(n.parent, exp.Filter):
        raise refuse(f"{function_name(n)} of the rows of an answer")
    args = n.expressions
    if any(isinstance(a, exp.Distinct) for a in args):
        raise refuse("DISTINCT over the rows of an answer")
    if function_name(n) == "COUNT" and not isinstance(args[0].unnest(), exp.Case):
        args = [exp.Star()]
    window = exp.Window(this=calling(n.this, *args))
    window.meta["fold"] = mark
    return window


def _add_test(merged: exp.Select, test: exp.Expr) -> None:
    clause, kind = ("qualify", exp.Qualify) if test.find(exp.Window) else ("having", exp.Having)
    node = merged.args.get(clause)
    merged.set(clause, kind(this=test if node is None else exp.and_(node.this, test)))


def _set_order(
    root: exp.Select, merged: exp.Select, items: dict[str, exp.Expr], *, folded: bool
) -> None:
    outer = {c: root.args.get(c) for c in ("order", "limit")}
    if merged.args.get("limit") and (folded or any(outer.values()) or root.args.get("where")):
        raise QueryError("LIMIT belongs in the outer SELECT", hint="ORDER BY 2 DESC LIMIT 10")
    if folded:
        # one row for all rows of the answer
        merged.set("order", None)
        merged.set("limit", exp.Limit(expression=exp.Literal.number(1)))
        return
    if (order := outer["order"]) is not None:
        order = order.copy()
        aliases = [e.alias.casefold() for e in root.expressions]
        for item in order.expressions:
            name = item.this.name.casefold() if isinstance(item.this, exp.Column) else ""
            if name and name in aliases and not root.is_star:  # an output comes before a column
                item.set("this", exp.Literal.number(aliases.index(name) + 1))
            elif not isinstance(item.this, exp.Literal):
                item.set("this", _with(item.this, items))
        merged.set("order", order)
    if outer["limit"] is not None:
        merged.set("limit", outer["limit"].copy())
