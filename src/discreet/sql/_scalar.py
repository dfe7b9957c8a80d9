"""Scalar subqueries in outputs: ``COUNT(*) * 100.0 / (SELECT COUNT(*) FROM people)``.

A subquery over the same tables is a number that the rows of the answer add up to, so it needs
no measurement of its own: in a grouped question its counts and sums become sums over all
groups, and its condition becomes a FILTER. Rows whose key is NULL are in no group, and so not
in such a total.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from discreet.errors import UnsupportedQueryError
from discreet.plan import CALLS
from discreet.sql._text import function_name, only, refuse
from discreet.sql._walk import all_of, calling

_CLAUSES: Final = ("expressions", "having", "order", "qualify")
_ADDED: Final = {"COUNT": "SUM", "SUM": "SUM", "MIN": "MIN", "MAX": "MAX", "COUNTIF": "SUM",
                 "COUNT_IF": "SUM"}  # fmt: skip


def without_scalars(root: exp.Select) -> exp.Select:
    """Write scalar subqueries over the question's own tables as outputs of the question."""
    if not any(_subqueries(root)):
        return root
    root = root.copy()
    inner = [s.this for s in _subqueries(root)]
    for select in inner:
        _check(root, select)
    outside = root.args.get("where")
    if any(s.args.get("where") != outside for s in inner) and outside is not None:
        # the rows of both are needed: the condition moves to the aggregates it is about
        for clause in _CLAUSES:
            _narrow(root, clause, outside.this)
        root.set("where", None)
    grouped = root.args.get("group") is not None
    having = root.args.get("having")
    if grouped and having and having.find(exp.Subquery) and not root.args.get("qualify"):
        # a total of all groups is a window, and windows are tested after HAVING
        root.set("qualify", exp.Qualify(this=having.this.copy()))
        root.set("having", None)
    for subquery in list(_subqueries(root)):
        subquery.replace(_output(subquery.this, outside, grouped=grouped))
    return root


def _subqueries(root: exp.Select) -> list[exp.Subquery]:
    trees: list[exp.Expr] = list(root.expressions)
    trees += [root.args[c] for c in _CLAUSES[1:] if root.args.get(c)]
    subqueries = [n for t in trees for n in all_of(t, exp.Subquery)]
    return [n for n in subqueries if n.find_ancestor(exp.Subquery) is None]


def _check(root: exp.Select, select: exp.Expr) -> None:
    if not isinstance(select, exp.Select) or len(select.expressions) != 1:
        raise refuse("a subquery of several columns here")
    only(select, "expressions", "from_", "joins", "where")
    same = all(select.args.get(c) == root.args.get(c) for c in ("from_", "joins"))
    if not same and (select.args.get("joins") or root.args.get("joins") or not _one(root, select)):
        raise UnsupportedQueryError(
            "a subquery in an output reads the same tables as the question",
            hint=select.sql(),
        )


def _one(root: exp.Select, select: exp.Select) -> bool:
    """Whether both read one table, under whatever alias."""
    tables = [s.args["from_"].this for s in (root, select) if s.args.get("from_")]
    plain = len(tables) == 2 and all(isinstance(t, exp.Table) for t in tables)
    qualified = any(c.args.get("table") for c in select.find_all(exp.Column))
    return plain and not qualified and tables[0].name.casefold() == tables[1].name.casefold()


def _is_aggregate(node: exp.Expr) -> bool:
    return function_name(node) in CALLS and not isinstance(
        node.parent, exp.Filter | exp.WithinGroup | exp.Window
    )


def _filtered(node: exp.Expr, test: exp.Expr) -> exp.Expr:
    return exp.Filter(this=node, expression=exp.Where(this=exp.paren(test.copy(), copy=False)))


def _narrow(root: exp.Select, clause: str, test: exp.Expr) -> None:
    """Put a condition into every aggregate of the question itself."""
    trees = root.expressions if clause == "expressions" else [root.args.get(clause)]
    for tree in filter(None, trees):
        for node in list(tree.find_all(exp.Anonymous, exp.Filter)):
            if node.find_ancestor(exp.Subquery) is not None:
                continue
            if isinstance(node, exp.Filter):
                node.expression.set("this", exp.and_(node.expression.this, test.copy()))
            elif _is_aggregate(node):
                node.replace(_filtered(node.copy(), test))


def _output(select: exp.Select, outside: exp.Expr | None, *, grouped: bool) -> exp.Expr:
    where = select.args.get("where")
    test = None if where is None or where == outside else where.this

    def change(node: exp.Expr) -> exp.Expr:
        whole = isinstance(node, exp.Filter) or _is_aggregate(node)
        if not whole or isinstance(node.parent, exp.Filter):
            return node
        call, tests = node, [] if test is None else [test]
        if isinstance(node, exp.Filter):
            call, tests = node.this, [*tests, node.expression.this]
        return _one_call(call, tests, grouped=grouped)

    value: exp.Expr = select.expressions[0]
    value = value.this if isinstance(value, exp.Alias) else value
    return exp.paren(value.copy().transform(change), copy=False)


def _one_call(call: exp.Expr, tests: list[exp.Expr], *, grouped: bool) -> exp.Expr:
    name = function_name(call)
    if not grouped:
        return _all(call.copy(), tests)
    if name in ("AVG", "MEAN"):
        total, count = (
            _over("SUM", _all(calling(n, *call.expressions), tests)) for n in ("SUM", "COUNT")
        )
        return exp.Div(this=total, expression=count)
    distinct = any(isinstance(a, exp.Distinct) for a in call.expressions)
    if name not in _ADDED or distinct:
        raise refuse(f"{name} of all groups in a subquery (ask it on its own)")
    return _over(_ADDED[name], _all(call.copy(), tests))


def _all(call: exp.Expr, tests: list[exp.Expr]) -> exp.Expr:
    return call if not tests else _filtered(call, exp.and_(*tests))


def _over(name: str, inner: exp.Expr) -> exp.Expr:
    return exp.Window(this=calling(name, inner))
