"""Windows (OVER) in SELECT and ORDER BY: functions of the answer's rows, after the noise."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from discreet.errors import QueryError, UnsupportedQueryError
from discreet.plan import (
    CALLS,
    KeyValue,
    Number,
    OutputExpr,
    Scope,
    Window,
    base,
    parts_of,
    windows_of,
)
from discreet.sql._text import function_name, is_unit, label, only, refuse
from discreet.sql._walk import clauses_of, count_rows, set_group, with_clauses

if TYPE_CHECKING:
    from discreet.sql._aggregates import Outputs

_RANKS: Final = {"ROW_NUMBER", "RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST"}
_VALUES: Final = {"SUM", "AVG", "MIN", "MAX", "FIRST_VALUE", "LAST_VALUE"}
FOLDED: Final = frozenset({"SUM", "AVG", "MIN", "MAX"})
"""Aggregates that OVER computes from numbers of the answer."""
WINDOWS: Final = frozenset({*_RANKS, *_VALUES, "NTILE", "LAG", "LEAD", "COUNT"})
"""Functions that OVER may follow."""
_MOST: Final = 1_000_000


def window(outputs: Outputs, node: exp.Window) -> OutputExpr:
    """Lower one call with OVER."""
    only(node, "this", "partition_by", "order", "spec", "over")
    name = function_name(node.this)
    if name not in WINDOWS or (name == "COUNT" and node.this.find(exp.Distinct)):
        raise _not_over(outputs, node)
    order = node.args.get("order")
    items = () if order is None else tuple(_ordered(outputs, o) for o in order.expressions)
    if not items and (name in _RANKS or name in ("NTILE", "LAG", "LEAD")):
        raise QueryError(f"{name} needs an order", hint=f"{name}(…) OVER (ORDER BY COUNT(*) DESC)")
    keys = tuple(outputs.lower(n) for n in node.args.get("partition_by") or ())
    if not all(isinstance(key, KeyValue) for key in keys):
        raise refuse("PARTITION BY anything but the keys of GROUP BY")
    rows = _frame(node.args.get("spec"))
    if name in ("MIN", "MAX") and rows is not None and rows[0] is not None:
        raise refuse(f"{name} over a frame that moves")
    result = Window(name, _args(outputs, name, node.this.expressions), keys, items, rows)
    if name == "COUNT" and result.args and (items or rows is not None):
        raise refuse("COUNT(x) OVER rows in an order")
    if any(windows_of(part) for part in parts_of(result)):
        raise refuse("a window inside a window")
    return result


def of_rows(node: exp.Window) -> bool:
    """Whether a window reads rows of people: no aggregate stands in what it reads."""
    call = node.this.this if isinstance(node.this, exp.WithinGroup) else node.this
    return not any(function_name(n) in CALLS for n in node.walk() if n is not call)


def _not_over(outputs: Outputs, node: exp.Window) -> UnsupportedQueryError:
    """Refuse what OVER does not compute: of rows it is a question about groups, as ever."""
    call = node.this
    statistic = function_name(call) in CALLS or isinstance(call, exp.WithinGroup)
    if statistic and of_rows(node):
        return over_rows(outputs.rows.scope, node)
    hint = None
    if statistic and len(call.expressions) == 1:  # of numbers of the answer
        mean = node.copy()
        mean.this.set("this", "AVG")
        hint = mean.sql()
    return UnsupportedQueryError(
        f"{label(call)} with OVER is not supported: of the answer's rows it gives sums, means, "
        "extremes, counts, ranks and neighbours",
        hint=hint,
    )


def over_rows(scope: Scope, node: exp.Window) -> UnsupportedQueryError:
    """Refuse a window over rows of people: what it would give is theirs, row by row."""
    select = node.find_ancestor(exp.Select)
    start = None if select is None else select.args.get("from_")
    columns = [k for k in node.args.get("partition_by") or () if isinstance(k, exp.Column)]
    keys = [k for k in columns if not is_unit(scope, k)]
    hint, name = None, function_name(node.this)
    whole = start is not None and (isinstance(start.this, exp.Table) or name == "NTILE")
    meant = name in {*CALLS, "NTILE"} or isinstance(node.this, exp.WithinGroup)
    if select is not None and whole and meant:
        query = exp.select(*(k.copy() for k in keys), *_instead(node))
        set_group(with_clauses(query, select, "from_", "joins", "where"), keys)
        hint = query.sql()
    if name in ("LAG", "LEAD") and select is not None and columns != keys:
        return _between(select, node, columns, base(scope.relation).table.max_rows_per_unit)
    group = None if select is None else select.args.get("group")
    why = "OVER is computed from the rows of the answer, which are keys and statistics; rows of "
    why += "the table do not leave"
    if hint is not None and not isinstance(node.parent, exp.Alias | exp.Select):
        why += "; what comes nearest is the number of the whole group"
    if name in _RANKS and select is not None and keys and not group:
        hint = _ranked_groups(select, node, keys)
        why += "; what comes nearest is the order of the groups, by their means" * bool(hint)
    people = [k for k in ([] if group is None else group.expressions) if is_unit(scope, k)]
    if name == "NTILE" and select is not None and people:
        hint = _quantiles_of_people(select, node)
    if name == "NTILE":
        why += ": ask first where the groups begin, then write these numbers in a CASE"
    return UnsupportedQueryError(why, hint=hint)


def _quantiles_of_people(select: exp.Select, node: exp.Window) -> str:
    """Where the groups of people begin, of a number that a subquery gives each."""
    inner, order = select.copy(), node.args["order"].expressions[0].this
    keys = [k.copy() for k in select.args["group"].expressions]
    inner.set("expressions", [*keys, exp.alias_(order.copy(), "x")])
    ends = node.copy()
    ends.args["order"].expressions[0].set("this", exp.column("x"))
    items = ", ".join(e.sql() for e in _instead(ends))
    return f"SELECT {items} FROM ({inner.sql()}) AS people_here"  # noqa: S608 - a hint


def _ranked_groups(select: exp.Select, node: exp.Window, keys: Sequence[exp.Expr]) -> str | None:
    """Groups in the order of their means, in place of rows in the order of their numbers."""
    order = node.args.get("order")
    items = [] if order is None else order.expressions
    start = select.args.get("from_")
    if len(items) != 1 or start is None or not isinstance(start.this, exp.Table):
        return None
    mean, rank = exp.Anonymous(this="AVG", expressions=[items[0].this.copy()]), node.copy()
    rank.set("partition_by", None)
    rank.args["order"].expressions[0].set("this", mean)
    query = exp.select(*(k.copy() for k in keys), exp.alias_(rank, "place"))
    set_group(with_clauses(query, select, "from_", "joins", "where"), keys)
    return query.sql()


_APART: Final = frozenset({"day", "month", "quarter", "year", "hour", "minute", "second"})
"""Units in which the gaps of a person add up to the time from the first row to the last."""


def _between(
    inner: exp.Select, node: exp.Window, units: list[exp.Column], most: int | None
) -> UnsupportedQueryError:
    """Refuse the row before, of a person's rows; the mean gap is the whole time by their number."""
    gap, order = node.parent, node.args.get("order")
    by = order.expressions if order is not None else []
    x = by[0].this if len(by) == 1 and not by[0].args.get("desc") else exp.null()
    apart = None
    if node.this.expressions != [x]:
        pass
    elif isinstance(gap, exp.Sub) and gap.this == x and gap.expression is node:
        apart = f"MAX({x.sql()}) - MIN({x.sql()})"
    elif gap is not None and function_name(gap) in ("DATEDIFF", "DATE_DIFF"):
        unit = str(gap.expressions[0].name).casefold()
        if gap.expressions[1:] == [node, x] and unit in _APART:
            apart = f"DATEDIFF('{unit}', MIN({x.sql()}), MAX({x.sql()}))"
    parent = gap.parent if gap is not None and function_name(node.this) == "LAG" else None
    hint, mean = None, isinstance(parent, exp.Alias) and _asks_mean(inner, parent.alias)
    if apart and mean and len(units) == 1:
        who = units[0].sql()
        items = f"{who}, {apart} AS apart, COUNT({x.sql()}) AS n"
        rows = with_clauses(exp.select("*"), inner, "from_", "where").sql().removeprefix("SELECT *")
        people = f"SELECT {items}{rows} GROUP BY {who} HAVING COUNT({x.sql()}) > 1"
        # a top of its own: the default of the policy would cut off gaps, and not the time apart
        gaps = f"SUM(LEAST(n, {10 * (most or 10)}) - 1)"
        hint = f"SELECT SUM(apart) / {gaps} AS mean_gap FROM ({people}) AS people_here"  # noqa: S608 - a hint
    return UnsupportedQueryError(
        "the row before (LAG) is one of the same person's, and rows do not leave: the gaps of a "
        "person add up to the time from the first row to the last, so the mean gap is the sum of "
        "these times by the sum of (rows less one, up to some number)",
        hint=hint,
    )


def _asks_mean(inner: exp.Select, name: str) -> bool:
    """Whether the question around a subquery is AVG(name), and both have no other clauses."""
    outer = inner.find_ancestor(exp.Select)
    items = [] if outer is None else [e.unalias() for e in outer.expressions]
    if outer is None or len(items) != 1 or function_name(items[0]) not in ("AVG", "MEAN"):
        return False
    clauses = clauses_of(outer) | clauses_of(inner)
    plain = clauses <= {"expressions", "from_", "where"} and not outer.args.get("where")
    return plain and bool(items[0].expressions == [exp.column(name)])


def _instead(node: exp.Window) -> list[exp.Expr]:
    """What a question about groups asks in place of a window over rows."""
    name, order = function_name(node.this), node.args.get("order")
    if name == "NTILE" and order is not None and str(node.this.expressions[0]) in ("4", "5", "10"):
        n, x = int(str(node.this.expressions[0])), order.expressions[0].this.sql()
        return [exp.Column(this=f"QUANTILE({x}, {i / n})") for i in range(1, n)]
    above = node.parent
    alias = above.alias if isinstance(above, exp.Alias) else "n"
    return [exp.alias_(count_rows() if name == "NTILE" else node.this.copy(), alias)]


def _args(outputs: Outputs, name: str, nodes: list[exp.Expr]) -> tuple[OutputExpr, ...]:
    if name == "COUNT" and len(nodes) == 1 and isinstance(nodes[0], exp.Star):
        return ()
    most = 0 if name in _RANKS else 3 if name in ("LAG", "LEAD") else 1
    if not min(most, 1) <= len(nodes) <= most:
        raise QueryError(f"{name} with OVER takes {most or 'no'} argument{'s' * (most > 1)}")
    if name == "COUNT" and not isinstance(nodes[0].unnest(), exp.Case):
        raise refuse("COUNT(x) OVER")
    try:
        args = [outputs.lower(n) for n in nodes]
    except QueryError as error:
        # a column of rows: windows stand over rows of the answer
        if nodes and isinstance(nodes[0], exp.Column) and name in FOLDED:
            hint = f"{name}({name}({nodes[0].sql()})) OVER ()"
            raise error.with_hint(hint) from None
        raise
    constants = args if name == "NTILE" else args[1:]
    for place, constant in enumerate(constants):
        _check_constant(name, constant, whole=place == 0)
    if any(outputs.kind(a) not in ("number", "flag") for a in args):
        raise QueryError(f"{name} with OVER takes numbers")
    return tuple(args)


def _check_constant(name: str, arg: OutputExpr, *, whole: bool) -> None:
    least = 1 if name == "NTILE" else 0
    fits = isinstance(arg, Number) and (
        not whole or (arg.value.denominator == 1 and least <= arg.value <= _MOST)
    )
    if not fits:
        raise QueryError(f"{name} takes a whole number", hint=f"{name}({'4' * (name == 'NTILE')}…)")


def _ordered(outputs: Outputs, item: exp.Expr) -> tuple[OutputExpr, bool]:
    only(item, "this", "desc", "nulls_first", hint="OVER (ORDER BY COUNT(*) DESC)")
    out = outputs.lower(item.this)
    if isinstance(out, Number):
        raise QueryError("OVER (ORDER BY …) takes a key or a number of the answer, no constant")
    return out, bool(item.args.get("desc"))


def _frame(spec: exp.Expr | None) -> tuple[int | None, int | None] | None:
    """Read ROWS BETWEEN n PRECEDING AND m FOLLOWING; the default frame is None."""
    if spec is None:
        return None
    args = spec.args
    hint = "ROWS BETWEEN 6 PRECEDING AND CURRENT ROW"
    before = _end(args.get("start"), args.get("start_side"), "PRECEDING", hint)
    after = _end(args.get("end") or "CURRENT ROW", args.get("end_side"), "FOLLOWING", hint)
    if str(args.get("kind") or "").upper() == "RANGE" and (before, after) == (None, 0):
        return None
    if str(args.get("kind") or "").upper() != "ROWS":
        raise refuse("a frame of RANGE or GROUPS", hint)
    return before, after


def _end(bound: object, side: object, word: str, hint: str) -> int | None:
    if bound == "CURRENT ROW":
        return 0
    if str(side or "").upper() != word:
        raise refuse("a frame that leaves the current row out", hint)
    if bound == "UNBOUNDED":
        return None
    text = str(bound.this) if isinstance(bound, exp.Literal) else ""
    if not text.isdigit() or len(text) > 6:
        raise QueryError("a frame counts rows by whole numbers", hint=hint)
    return int(Fraction(text))
