"""Windows (OVER) in SELECT and ORDER BY: functions of the answer's rows, after the noise."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from discreet.errors import QueryError, UnsupportedQueryError
from discreet.plan import CALLS, KeyValue, Number, OutputExpr, Scope, Window, parts_of, windows_of
from discreet.sql._text import function_name, identifier, label, only, refuse

if TYPE_CHECKING:
    from discreet.sql._aggregates import Outputs

_RANKS: Final = {"ROW_NUMBER", "RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST"}
_VALUES: Final = {"SUM", "AVG", "MIN", "MAX", "FIRST_VALUE", "LAST_VALUE"}
WINDOWS: Final = frozenset({*_RANKS, *_VALUES, "NTILE", "LAG", "LEAD", "COUNT"})
"""Functions that OVER may follow."""
_MOST: Final = 1_000_000
_COUNT: Final = exp.Anonymous(this="COUNT", expressions=[exp.Star()])


def window(outputs: Outputs, node: exp.Window) -> OutputExpr:
    """Lower one call with OVER."""
    only(node, "this", "partition_by", "order", "spec", "over")
    name = function_name(node.this) or ""
    if name not in WINDOWS:
        raise refuse(f"{label(node.this)} with OVER")
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
    made = Window(name, _args(outputs, name, node.this.expressions), keys, items, rows)
    if name == "COUNT" and made.args and (items or rows is not None):
        raise refuse("COUNT(x) OVER rows in an order")
    if any(windows_of(part) for part in parts_of(made)):
        raise refuse("a window inside a window")
    return made


def over_rows(scope: Scope, node: exp.Window) -> UnsupportedQueryError:
    """Refuse a window over rows of people: what it would give is theirs, row by row."""
    select = node.find_ancestor(exp.Select)
    start = None if select is None else select.args.get("from_")
    given = [k for k in node.args.get("partition_by") or () if isinstance(k, exp.Column)]
    keys = [k for k in given if not scope.is_unit(k.name, identifier(k.args.get("table")))]
    hint = None
    whole = start is not None and (
        isinstance(start.this, exp.Table) or function_name(node.this) == "NTILE"
    )
    meant = function_name(node.this) in {*CALLS, "NTILE"} or isinstance(node.this, exp.WithinGroup)
    if select is not None and whole and meant:
        asked = exp.select(*(k.copy() for k in keys), *_instead(node))
        for clause in ("from_", "joins", "where"):
            asked.set(clause, select.args.get(clause))
        if keys:
            asked.set("group", exp.Group(expressions=[k.copy() for k in keys]))
        hint = asked.sql()
    why = "OVER is computed from the rows of the answer, which are keys and statistics; rows of "
    why += "the table do not leave"
    if function_name(node.this) == "NTILE":
        why += ": ask first where the groups begin, then write these numbers in a CASE"
    return UnsupportedQueryError(why, hint=hint)


def _instead(node: exp.Window) -> list[exp.Expr]:
    """What a question about groups asks in place of a window over rows."""
    name, order = function_name(node.this), node.args.get("order")
    if name == "NTILE" and order is not None and str(node.this.expressions[0]) in ("4", "5", "10"):
        n, x = int(str(node.this.expressions[0])), order.expressions[0].this.sql()
        return [exp.Column(this=f"QUANTILE({x}, {i / n})") for i in range(1, n)]
    return [exp.alias_(_COUNT.copy() if name == "NTILE" else node.this.copy(), "n")]


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
        if nodes and isinstance(nodes[0], exp.Column) and name in ("SUM", "AVG", "MIN", "MAX"):
            hint = f"{name}({name}({nodes[0].sql()})) OVER ()"
            raise error.with_hint(hint) from None
        raise
    constants = args if name == "NTILE" else args[1:]
    for place, constant in enumerate(constants):
        _check_constant(name, constant, whole=place == 0)
    if any(outputs.kind(a) not in ("number", "flag") for a in args):
        raise QueryError(f"{name} with OVER takes numbers")
    return tuple(args)


def _check_constant(name: str, given: OutputExpr, *, whole: bool) -> None:
    least = 1 if name == "NTILE" else 0
    fits = isinstance(given, Number) and (
        not whole or (given.value.denominator == 1 and least <= given.value <= _MOST)
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


def _end(given: object, side: object, wanted: str, hint: str) -> int | None:
    if given == "CURRENT ROW":
        return 0
    if str(side or "").upper() != wanted:
        raise refuse("a frame that leaves the current row out", hint)
    if given == "UNBOUNDED":
        return None
    text = str(given.this) if isinstance(given, exp.Literal) else ""
    if not text.isdigit() or len(text) > 6:
        raise QueryError("a frame counts rows by whole numbers", hint=hint)
    return int(Fraction(text))
