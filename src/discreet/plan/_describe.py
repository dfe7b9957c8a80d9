"""A question printed for people: an indented tree, what happens last on top."""

from __future__ import annotations

from typing import Final

from discreet._exact import show
from discreet._print import plural
from discreet.plan._expr import Coalesce, plain_column
from discreet.plan._joins import JoinPublic, JoinUnit
from discreet.plan._nodes import quoted
from discreet.plan._per_unit import PerUnit
from discreet.plan._query import (
    Apply,
    Grouping,
    KeyValue,
    Number,
    OutputExpr,
    Query,
    StatisticValue,
    Text,
    Window,
)
from discreet.plan._relation import (
    Filter,
    Key,
    LimitGroups,
    LimitRows,
    Limits,
    Project,
    Relation,
    SameRows,
    Scan,
    base,
)

_MOST_VALUES: Final = 6


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
    lines.append("select " + ", ".join(_column(query, o.name, o.expr) for o in query.outputs))
    lines += (
        ["group by " + "; ".join(_key(k, query.other) for k in query.keys)] if query.keys else []
    )
    if query.levels:
        names = ", ".join(f"({', '.join(level)})" for level in query.levels)
        lines.insert(-1, f"totals of {names}")
    lines.append(_limits(query.limits, base(query.relation).table.unit))
    lines += _relation(query.relation)
    return "\n".join("  " * depth + line for depth, line in enumerate(lines))


def _over(query: Query, window: Window) -> str:
    """What a window looks at."""
    words = [f"partition by {', '.join(_out(query, p) for p in window.partition)}"]
    words = words if window.partition else []
    if window.order:
        words.append("order by " + ", ".join(_ordered(query, *item) for item in window.order))
    if window.rows is not None:
        ends = ("all" if n is None else str(n) for n in window.rows)
        words.append("rows from {} before to {} after".format(*ends))
    return f"over ({' '.join(words)})"


def _ordered(query: Query, out: OutputExpr, down: bool) -> str:
    return _out(query, out) + (" descending" if down else "")


def _after(query: Query) -> list[str]:
    lines = [] if query.limit is None else [f"first {query.limit} rows"]
    if query.order:
        lines.append("order by " + ", ".join(_ordered(query, *item) for item in query.order))
    if query.qualify is not None:
        lines.append("qualify " + _out(query, query.qualify))
    if query.having is not None:
        lines.append("having " + _out(query, query.having))
    return lines


def _column(query: Query, name: str, out: OutputExpr) -> str:
    text = _out(query, out)
    return name if text == name else f"{text} as {name}"


def _key(key: Key, other: str | None) -> str:
    if key.codes is None:
        return f"{key.name}: selected from the data" + (
            "" if other is None else f", rest as {other}"
        )
    values = [str(key.expr.type.value(c)) for c in key.codes[:_MOST_VALUES]]
    more = f", … ({len(key.codes)})" if len(key.codes) > _MOST_VALUES else ""
    what = f" = {key.expr.describe()}" if plain_column(key.expr) is None else ""
    return f"{key.name}{what}: {', '.join(values)}{more}"


def _limits(limits: Limits, unit: str | None) -> str:
    parts = [] if limits.rows is None else [plural(limits.rows, "row")]
    parts += [] if limits.groups is None else [plural(limits.groups, "group")]
    if limits.rows_per_group is not None:
        parts.append(f"{plural(limits.rows_per_group, 'row')} per group")
    return f"limit each {unit or 'row'} to {', '.join(parts)}"


def _relation(relation: Relation) -> list[str]:
    match relation:
        case Scan(table):
            return [f"scan {table.name}"]
        case Filter(below, condition):
            return [f"where {condition.describe()}", *_relation(below)]
        case JoinPublic(below, public, on, how, fanout, _):
            pairs = " and ".join(f"{left} = {public.table.name}.{right}" for left, right in on)
            times = plural(fanout, "match") if fanout == 1 else f"{fanout} matches"
            return [f"{how} join {public.table.name} on {pairs} ({times} at most)",
                    *_relation(below)]  # fmt: skip
        case JoinUnit(below, other, _, how):
            side = " ".join(reversed(_relation(other))).removeprefix("scan ")
            return [f"{'left ' * (how == 'left')}join {side} on the unit", *_relation(below)]
        case PerUnit(below, keys, folds):
            names = [base(below).table.unit or "row", *(n for n, _ in keys)]
            values = ", ".join(f"{n} = {f.kind}({f.expr.describe()})" for n, f in folds)
            each = f"group by {', '.join(names)}" + (f": {values}" if values else "")
            return [each, *_relation(below)]
        case SameRows(below):
            return _relation(below)  # it is the question's own limit
        case LimitRows(below, n, by):
            each = ", ".join([str(base(below).table.unit), *by])
            return [f"limit each {each} to {plural(n, 'row')}", *_relation(below)]
        case LimitGroups(below, n, keys):
            values = f"{plural(n, 'value')} of {', '.join(keys)}"
            return [f"limit each {base(below).table.unit} to {values}", *_relation(below)]
        case Project(below, columns):
            # a code in the place of NULL is nobody's value
            exprs = [(n, e.args[0] if isinstance(e, Coalesce) else e) for n, e in columns]
            assignments = [f"{n} = {e.describe()}" for n, e in exprs if plain_column(e) is None]
            return [*([f"with {', '.join(assignments)}"] if assignments else []), *_relation(below)]
    raise AssertionError(relation)


def _out(query: Query, out: OutputExpr) -> str:
    match out:
        case StatisticValue(index):
            return str(query.statistics[index])
        case KeyValue(name):
            return name
        case Number(value):
            return show(value)
        case Text(value):
            return quoted(value)
        case Grouping(name):
            return f"grouping({name})"
        case Window(op, args):
            return f"{op.lower()}({', '.join(_out(query, a) for a in args)}) {_over(query, out)}"
        case Apply(str(op), args) if op.isalpha() and op not in ("and", "or", "not"):
            return f"{op}({', '.join(_out(query, a) for a in args)})"
        case Apply("null"):
            return "NULL"
        case Apply(op, (only,)):
            return f"{op} {_out(query, only)}"
        case Apply(op, args):
            return "(" + f" {op} ".join(_out(query, a) for a in args) + ")"
    raise AssertionError(out)
