"""A question printed for people: an indented tree, what happens last on top."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from discreet._exact import show
from discreet.plan import _expr as e
from discreet.plan._query import Apply, KeyOf, Number, Of, Out, Query, Stat, Statistic, Text
from discreet.plan._relation import (
    Filter,
    JoinPublic,
    JoinUnit,
    Key,
    LimitRows,
    Limits,
    Relation,
    Scan,
    base,
)
from discreet.plan._types import Kind, Type

_SHOWN: Final = 6


def describe(query: Query) -> str:
    """Print a question as an indented tree.

    >>> from discreet import sql
    >>> from discreet.policy import Budget, Category, Integer, Policy, Table
    >>> people = Table("people", [Category("sex", ["F", "M"]), Integer("age", 0, 115)])
    >>> policy = Policy(tables=[people], budget=Budget("1"))
    >>> text = "SELECT sex, AVG(age) AS a FROM people WHERE age >= 18 GROUP BY sex ORDER BY a"
    >>> print(describe(sql.parse(text, policy).query))
    order by avg(age)
      select sex, avg(age) as a
        group by sex: F, M
          limit each row to 1 row
            where age >= 18
              scan people
    """
    lines = _after(query)
    lines.append("select " + ", ".join(_named(query, o.name, o.expr) for o in query.outputs))
    lines += (
        ["group by " + "; ".join(_key(k, query.other) for k in query.keys)] if query.keys else []
    )
    lines.append(_limits(query.limits, base(query.relation).table.unit))
    lines += _relation(query.relation)
    return "\n".join("  " * depth + line for depth, line in enumerate(lines))


def _after(query: Query) -> list[str]:
    lines = [] if query.limit is None else [f"first {query.limit} rows"]
    if query.order:
        items = (_out(query, out) + (" descending" if down else "") for out, down in query.order)
        lines.append("order by " + ", ".join(items))
    if query.having is not None:
        lines.append("having " + _out(query, query.having))
    return lines


def _named(query: Query, name: str, out: Out) -> str:
    text = _out(query, out)
    return name if text == name else f"{text} as {name}"


def _key(key: Key, other: str | None) -> str:
    if key.codes is None:
        return f"{key.name}: selected from the data" + (
            "" if other is None else f", rest as {other}"
        )
    values = [str(key.expr.type.value(c)) for c in key.codes[:_SHOWN]]
    more = f", … ({len(key.codes)})" if len(key.codes) > _SHOWN else ""
    what = "" if isinstance(key.expr, e.Column) else f" = {expression(key.expr)}"
    return f"{key.name}{what}: {', '.join(values)}{more}"


def _limits(limits: Limits, unit: str | None) -> str:
    parts = [] if limits.rows is None else [_plural(limits.rows, "row")]
    parts += [] if limits.groups is None else [_plural(limits.groups, "group")]
    if limits.rows_per_group is not None:
        parts.append(f"{_plural(limits.rows_per_group, 'row')} per group")
    return f"limit each {unit or 'row'} to {', '.join(parts)}"


def _plural(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _relation(relation: Relation) -> list[str]:
    match relation:
        case Scan(table):
            return [f"scan {table.name}"]
        case Filter(below, condition):
            return [f"where {expression(condition)}", *_relation(below)]
        case JoinPublic(below, public, on, how, fanout, _):
            pairs = " and ".join(f"{left} = {public.table.name}.{right}" for left, right in on)
            times = _plural(fanout, "match") if fanout == 1 else f"{fanout} matches"
            return [f"{how} join {public.table.name} on {pairs} ({times} at most)",
                    *_relation(below)]  # fmt: skip
        case JoinUnit(below, other, _):
            side = " ".join(reversed(_relation(other))).removeprefix("scan ")
            return [f"join {side} on the unit", *_relation(below)]
        case LimitRows(below, n):
            limit = f"limit each {base(below).table.unit} to {_plural(n, 'row')}"
            return [limit, *_relation(below)]
    raise AssertionError(relation)


def _statistic(s: Statistic) -> str:
    arg = "*" if s.expr is None else expression(s.expr)
    match s.kind:
        case Stat.COUNT_UNITS:
            return "count(units)"
        case Stat.COUNT_DISTINCT:
            return f"count(distinct {arg})"
        case Stat.QUANTILE:
            return f"quantile({arg}, {show(s.at or Fraction(0))})"
        case Stat.MODE if s.top > 1:
            return f"mode({arg}, {s.top})"
        case Stat.VAR | Stat.STDDEV if not s.sample:
            return f"{s.kind}_pop({arg})"
    return f"{s.kind}({arg})"


def _out(query: Query, out: Out) -> str:
    match out:
        case Of(index):
            return _statistic(query.statistics[index])
        case KeyOf(name):
            return name
        case Number(value):
            return show(value)
        case Text(value):
            return _quoted(value)
        case Apply("round" | "abs" as op, args):
            return f"{op}({', '.join(_out(query, a) for a in args)})"
        case Apply(op, (only,)):
            return f"{op} {_out(query, only)}"
        case Apply(op, args):
            return "(" + f" {op} ".join(_out(query, a) for a in args) + ")"
    raise AssertionError(out)


def expression(expr: e.Expr) -> str:
    """Print a row expression close to the SQL it could have come from."""
    return _EXPRESSIONS[type(expr)](expr)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _value(t: Type, code: int | str | None) -> str:
    if code is None:
        return "NULL"
    if isinstance(code, str):
        return _quoted(code)
    if t.kind is Kind.NUMBER:
        return show(code * t.step)
    value = t.value(code)
    return str(value).upper() if isinstance(value, bool) else _quoted(str(value))


def _infix(op: str, *args: e.Expr) -> str:
    shown = (f"({expression(a)})" if isinstance(a, _LOOSE) else expression(a) for a in args)
    return f" {op} ".join(shown)


def _call(name: str, *args: object) -> str:
    shown = (expression(a) if isinstance(a, e.Expr) else str(a) for a in args)
    return f"{name}({', '.join(shown)})"


def _one_of(x: e.OneOf) -> str:
    values = [_value(x.arg.type, c) for c in x.codes]
    if len(values) == 1:
        return f"{expression(x.arg)} = {values[0]}"
    return f"{expression(x.arg)} in ({', '.join(values)})"


def _case(x: e.Case) -> str:
    branches = " ".join(f"when {expression(c)} then {expression(v)}" for c, v in x.branches)
    return f"case {branches} else {expression(x.default)} end"


def _bucket(x: e.Bucket) -> str:
    t = x.arg.type
    ends = f"{_value(t, x.edges[0])} to {_value(t, x.edges[-1])}"
    return _call("bucket", x.arg, f"{len(x.edges) - 1} from {ends}")


_LOOSE: Final = (e.Arithmetic, e.Divide, e.Logic, e.Compare)
_EXPRESSIONS: Final[dict[type, Callable[[Any], str]]] = {
    e.Column: lambda x: x.name,
    e.Constant: lambda x: _value(x.type, x.code),
    e.Arithmetic: lambda x: _infix(x.op, x.left, x.right),
    e.Divide: lambda x: _infix("/", x.left, x.right),
    e.Square: lambda x: _call("square", x.arg),
    e.AsNumber: lambda x: _call("number", x.arg),
    e.Rescale: lambda x: _call(x.mode, x.arg, show(x.step)),
    e.Abs: lambda x: _call("abs", x.arg),
    e.Clamp: lambda x: _call("clamp", x.arg, _value(x.type, x.lo), _value(x.type, x.hi)),
    e.Compare: lambda x: _infix(x.op, x.left, x.right),
    e.OneOf: _one_of,
    e.Logic: lambda x: f" {x.op} ".join(
        f"({expression(a)})" if isinstance(a, e.Logic) else expression(a) for a in x.args
    ),
    e.Not: lambda x: f"not ({expression(x.arg)})",
    e.IsNull: lambda x: f"{expression(x.arg)} is null",
    e.Case: _case,
    e.Coalesce: lambda x: _call("coalesce", *x.args),
    e.DatePart: lambda x: _call(x.part, x.arg),
    e.Bucket: _bucket,
}
