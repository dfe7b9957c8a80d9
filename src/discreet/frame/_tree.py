"""Terms and their clauses as the same syntax tree that SQL text becomes."""

from __future__ import annotations

import datetime as dt
import numbers
from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from discreet._exact import decimal
from discreet._text import plain_str
from discreet.errors import QueryError
from discreet.frame._terms import Term
from discreet.plan import build
from discreet.sql import INFIX, check_depth, fragment, too_deep

if TYPE_CHECKING:
    from discreet.frame._table import Table

_BINARY: Final = {op: kind for kind, op in INFIX.items()}


def node(operand: object, clause: str) -> exp.Expr:
    """Turn a term, or SQL text, into a tree."""
    if isinstance(operand, str):
        return fragment(operand, clause)
    if not isinstance(operand, Term):
        raise QueryError(f"{clause} takes text or a term, got {type(operand).__name__}")
    args = operand.args
    if operand.op in _BINARY:
        left, right = (node(a, clause) for a in args)
        return _BINARY[operand.op](this=left, expression=right)
    handler = _TERMS.get(operand.op)
    if handler is None:
        raise QueryError(f"{clause}: unknown term {build.quote(operand.op)}")
    return handler(args, clause)


def _name(name: object) -> exp.Identifier:
    """Refer to something by its exact name, never as text to be read."""
    return exp.Identifier(this=plain_str(name, "a name", QueryError), quoted=True)


def column(name: object, table: object = None) -> exp.Column:
    """Refer to a column."""
    return exp.Column(this=_name(name), table=None if table is None else _name(table))


def _constant(args: Sequence[Any], clause: str) -> exp.Expr:
    value = args[0]
    if value is None:
        return exp.Null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, str):
        return exp.Literal.string(plain_str(value))
    if isinstance(value, dt.datetime):
        return exp.cast(exp.Literal.string(plain_str(value.isoformat())), "TIMESTAMP")
    if isinstance(value, dt.date):
        return exp.cast(exp.Literal.string(plain_str(value.isoformat())), "DATE")
    if isinstance(value, numbers.Number):
        exact = decimal(value, clause)  # type: ignore[arg-type]  # refuses what it cannot read
        whole = exp.Literal.number(abs(exact.numerator))
        literal: exp.Expr = whole
        if exact.denominator != 1:
            literal = exp.Div(this=whole, expression=exp.Literal.number(exact.denominator))
        return exp.Neg(this=literal) if exact < 0 else literal
    raise QueryError(f"{clause}: {type(value).__name__} is not a constant")


def _call(args: Sequence[Any], clause: str) -> exp.Expr:
    name, *rest = args
    called = plain_str(name, "a function", QueryError)
    return exp.Anonymous(this=called, expressions=[node(a, clause) for a in rest])


def _filter(args: Sequence[Any], clause: str) -> exp.Expr:
    call, test = (node(a, clause) for a in args)
    return exp.Filter(this=call, expression=exp.Where(this=test))


def _in(args: Sequence[Any], clause: str) -> exp.Expr:
    x, *values = (node(a, clause) for a in args)
    return exp.In(this=x, expressions=values)


def _total(args: Sequence[Any], clause: str) -> exp.Expr:
    x, *keys = (node(a, clause) for a in args)
    return exp.Window(this=exp.Anonymous(this="SUM", expressions=[x]), partition_by=keys)


_TERMS: Final[dict[str, Callable[[Sequence[Any], str], exp.Expr]]] = {
    "sql": lambda args, clause: node(args[0], clause),
    "column": lambda args, _: column(args[0]),
    "value": _constant,
    "star": lambda *_: exp.Star(),
    "call": _call,
    "filter": _filter,
    "named": lambda args, clause: exp.Kwarg(
        this=exp.Var(this=str(args[0])), expression=node(args[1], clause)
    ),
    "in": _in,
    "total": _total,
    "distinct": lambda args, clause: exp.Distinct(expressions=[node(args[0], clause)]),
    "neg": lambda args, clause: exp.Neg(this=node(args[0], clause)),
    "not": lambda args, clause: exp.Not(this=node(args[0], clause)),
    "is null": lambda args, clause: exp.Is(this=node(args[0], clause), expression=exp.Null()),
}


def alias(tree: exp.Expr, name: str) -> exp.Expr:
    """Name an output."""
    return exp.Alias(this=tree, alias=_name(name))


def select(table: Table) -> exp.Select:
    """Assemble one SELECT from the parts of a fluent question."""
    try:
        root = _select(table)
    except RecursionError:
        raise too_deep() from None
    check_depth(root)
    return root


def to_text(table: Table) -> str:
    """Write a fluent question as the SQL text that means the same.

    Brackets stand wherever the tree has a shape that bare text might not have.
    """
    return _text(select(table))


def _text(root: exp.Expr) -> str:
    operators = (exp.Binary, exp.Unary, exp.In)
    for inner in list(root.find_all(*operators)):
        if isinstance(inner.parent, operators):
            bracket = exp.Paren()
            inner.replace(bracket)
            bracket.set("this", inner)
    return root.sql()


def rewritten(table: Table) -> dict[str, Any]:
    """Return the rows that a question is about as plain values, each of them read once."""

    def text(operand: object, clause: str) -> str:
        if issubclass(type(operand), str):
            return plain_str(operand)
        tree = node(operand, clause)
        check_depth(tree)
        return _text(tree)

    def name(text: object) -> str:
        return plain_str(text, "a name", QueryError)

    def items(pairs: Any, clause: str) -> tuple[tuple[str | None, str], ...]:
        return tuple([(None if n is None else name(n), text(g, clause)) for n, g in pairs])

    try:
        return {
            "name": name(table.name),
            "joins": tuple([
                (name(public), tuple([(name(a), name(b)) for a, b in on]), name(how))
                for public, on, how in table.joins
            ]),
            "conditions": tuple([text(g, "where") for g in table.conditions]),
            "keys": items(table.keys, "group_by"),
            "outputs": items(table.outputs, "agg"),
        }  # fmt: skip
    except RecursionError:
        raise too_deep() from None


def _select(table: Table) -> exp.Select:
    measured = [alias(node(g, "agg"), name) for name, g in table.outputs]
    keys = [(name, node(g, "group_by")) for name, g in table.keys]
    columns = [tree if name is None else alias(tree, name) for name, tree in keys]
    root = exp.Select(expressions=[*columns, *measured])
    source: exp.Expr = exp.Table(this=_name(table.name))
    if table.inner is not None:
        as_ = exp.TableAlias(this=_name(table.name))
        source = exp.Subquery(this=_select(table.inner), alias=as_)
    root.set("from_", exp.From(this=source))
    if table.joins:
        root.set("joins", [_join(table.name, *j) for j in table.joins])
    if table.conditions:
        root.set("where", exp.Where(this=_chain([node(c, "where") for c in table.conditions])))
    if table.keys:
        places = [exp.Literal.number(i) for i in range(1, len(table.keys) + 1)]
        root.set("group", exp.Group(expressions=places))
    if table.tests:
        root.set("having", exp.Having(this=_chain([node(c, "having") for c in table.tests])))
    if table.order:
        items = [exp.Ordered(this=node(g, "order_by"), desc=down) for g, down in table.order]
        root.set("order", exp.Order(expressions=items))
    if table.most is not None:
        root.set("limit", exp.Limit(expression=exp.Literal.number(table.most)))
    if table.skipped:
        root.set("offset", exp.Offset(expression=exp.Literal.number(table.skipped)))
    return root


def _chain(parts: Sequence[exp.Expr]) -> exp.Expr:
    return reduce(lambda left, right: exp.And(this=left, expression=right), parts)


def _join(table: str, public: str, on: tuple[tuple[str, str], ...], how: str) -> exp.Join:
    pairs = [exp.EQ(this=column(a, table), expression=column(b, public)) for a, b in on]
    target = exp.Table(this=_name(public))
    return exp.Join(this=target, on=_chain(pairs), side="LEFT" if how == "left" else None)
