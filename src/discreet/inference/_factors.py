"""Terms of formulas in the manner of patsy: functions, flags, categories and interactions.

A formula is Python with columns for names, as statsmodels reads it. Each factor becomes one
expression of SQL, so that its bounds and steps are those that the curator's own operators state,
and is computed again from columns for predictions. Whatever looks at the data to say what it
means (``center``, ``bs``) is refused.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from decimal import Decimal
from functools import reduce
from typing import Any, Final, TypeAlias

import numpy as np

from discreet._dataclass import dataclass, replace
from discreet._text import literal, quoted
from discreet.errors import ParameterError

_PLACE: Final = re.compile(r"_c(\d{1,6})_")
_MODULES: Final = ("np", "numpy", "math")
_CALLS: Final = {
    "log": ("LN", np.log),
    "log10": ("LOG10", np.log10),
    "sqrt": ("SQRT", np.sqrt),
    "exp": ("EXP", np.exp),
    "abs": ("ABS", np.abs),
}
"""Functions of numbers: in SQL, and in numpy."""
_SIGNS: Final[dict[type, tuple[str, Any]]] = {
    ast.Add: ("+", np.add),
    ast.Sub: ("-", np.subtract),
    ast.Mult: ("*", np.multiply),
    ast.Div: ("/", np.divide),
    ast.Gt: (">", np.greater),
    ast.GtE: (">=", np.greater_equal),
    ast.Lt: ("<", np.less),
    ast.LtE: ("<=", np.less_equal),
    ast.Eq: ("=", np.equal),
    ast.NotEq: ("<>", np.not_equal),
}
_KINDS: Final = {"boolean": "flag", "category": "category"}
_POWER: Final = 4
_LONGEST: Final = 2_000
"""Characters of what is raised to a power: powers are written as products, which are exact."""
_FEW: Final = 24
"""Values of an integer that C(…) lists."""


@dataclass(frozen=True)
class Factor:
    """One factor of a term: a number, a flag, or a listed category."""

    name: str
    """As it is printed."""
    kind: str
    """``number``, ``flag`` or ``category``."""
    sql: str
    node: ast.expr
    names: tuple[str, ...]
    """Columns in the order of their places in the formula."""
    listed: tuple[Any, ...] = ()
    plain: str | None = None
    """The column, where it stands alone."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that it reads."""
        return tuple(dict.fromkeys(_columns(self.node, self.names)))

    def of(self, data: Mapping[str, Any]) -> Any:
        """Its values, from those of columns."""
        return _value(self.node, self.names, data)


def factor(node: ast.expr, names: tuple[str, ...], table: Any, example: str | None) -> Factor:
    """Read one factor of a formula, already parsed; `names` are the columns it stands for."""
    text = text_of(node, names)
    if not _columns(node, names):
        raise ParameterError(f"{text}: no column stands in it", hint=example)
    column = _column(node, names)
    if column is not None:
        own = table.columns[column]
        kind = _KINDS.get(own.type, "number")
        if own.type not in ("integer", "real", "boolean", "category"):
            raise ParameterError(
                f"{column!r} is {own.type}; a regression takes numbers, truth values and listed "
                "categories"
            )
        return Factor(column, kind, quoted(column), node, names, _listed(own, asked=False), column)
    name = _called(node)
    if name == "C" and isinstance(node, ast.Call) and len(node.args) == 1:
        inner = _column(node.args[0], names)
        if inner is None or node.keywords:
            raise ParameterError(f"{text}: C(…) holds one column", hint=example)
        levels = _listed(table.columns[inner], asked=True)
        if not levels:
            raise ParameterError(
                f"{text}: a category has listed values, or is an integer of at most {_FEW}",
                hint=example,
            )
        return Factor(text, "category", quoted(inner), node.args[0], names, levels)
    if name == "I" and isinstance(node, ast.Call) and len(node.args) == 1:
        inside = factor(node.args[0], names, table, example)
        return replace(inside, name=text, plain=None)
    sql, kind = _sql(node, names, table, example)
    return Factor(text, kind, sql, node, names)


def _listed(column: Any, *, asked: bool) -> tuple[Any, ...]:
    if column.type == "category":
        return (*column.values, *([] if column.other is None else [column.other]))
    if not asked:
        return ()
    if column.type == "boolean":
        return (False, True)
    few = column.type == "integer" and column.max - column.min < _FEW
    return tuple(range(int(column.min), int(column.max) + 1)) if few else ()


def test(factor_: Factor, value: Any) -> str:
    """The condition that a factor has a value."""
    if isinstance(value, bool):
        return factor_.sql if value else f"NOT ({factor_.sql})"
    return f"{factor_.sql} = {literal(value)}"


# -- trees of Python ------------------------------------------------------------------------


def _column(node: ast.expr, names: tuple[str, ...]) -> str | None:
    place = _PLACE.fullmatch(node.id) if isinstance(node, ast.Name) else None
    return names[int(place[1])] if place else None


def _columns(node: ast.AST, names: tuple[str, ...]) -> list[str]:
    columns = [_column(n, names) for n in ast.walk(node) if isinstance(n, ast.Name)]
    return [c for c in columns if c is not None]


def text_of(node: ast.expr, names: tuple[str, ...]) -> str:
    """A factor as it is printed."""
    return ast.unparse(_ColumnNames(names).visit(deepcopy(node)))


class _ColumnNames(ast.NodeTransformer):
    """Puts columns back in their places; texts that look like a place are texts."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """One column."""
        column = _column(node, self.names)
        return node if column is None else ast.Name(column)


def _called(node: ast.expr) -> str | None:
    """Name of a called function, without the module."""
    if not isinstance(node, ast.Call):
        return None
    call = node.func
    if isinstance(call, ast.Attribute) and isinstance(call.value, ast.Name):
        return call.attr if call.value.id in _MODULES else ast.unparse(call)
    return call.id if isinstance(call, ast.Name) else ast.unparse(call)


_DATA: Final = {"center", "standardize", "scale", "bs", "cr", "cc", "te", "poly", "rank", "qcut"}


def _sql(
    node: ast.expr, names: tuple[str, ...], table: Any, example: str | None
) -> tuple[str, str]:
    """An expression in SQL, and whether it is a number or a flag."""
    column = _column(node, names)
    if column is not None:
        own = table.columns[column]
        if own.type not in ("integer", "real", "boolean", "category"):
            raise ParameterError(f"{column!r} is {own.type}, not a number", hint=example)
        return quoted(column), _KINDS.get(own.type, "number")
    constant = _constant(node)
    if constant is not None:
        return constant

    def inner(part: ast.expr) -> str:
        return _sql(part, names, table, example)[0]

    pair = _number(node, inner) or _flag(node, inner)
    if pair is not None:
        return pair
    text, name = text_of(node, names), _called(node)
    if name in _DATA:
        raise ParameterError(
            f"{text}: {name} depends on the data, which would be another question to pay for; "
            "write numbers instead, as in I(x - 40)",
            hint=example,
        )
    raise ParameterError(
        f"{text} is not supported in a formula: there are np.log, np.sqrt, np.exp, I(a ** 2), "
        "C(a), a > 30, a:b and a*b; odd names stand in double quotes",
        hint=example,
    )


def _constant(node: ast.expr) -> tuple[str, str] | None:
    match node:
        case ast.Constant(bool(v)):
            return str(v).upper(), "flag"
        case ast.Constant(str(v)):
            return literal(v), "category"
        case ast.Constant(int(v)):
            return str(v), "number"
        case ast.Constant(float(v)):
            return format(Decimal(repr(v)), "f"), "number"
    return None


_Inner: TypeAlias = Callable[[ast.expr], str]


def _number(node: ast.expr, inner: _Inner) -> tuple[str, str] | None:
    match node:
        case ast.UnaryOp(ast.USub(), arg):
            return f"-({inner(arg)})", "number"
        case ast.BinOp(base, ast.Pow(), ast.Constant(int(power))) if 1 <= power <= _POWER:
            own = inner(base)
            return (" * ".join([f"({own})"] * power), "number") if len(own) < _LONGEST else None
        case ast.BinOp(left, op, right) if type(op) in _SIGNS:
            return f"({inner(left)}) {_SIGNS[type(op)][0]} ({inner(right)})", "number"
        case ast.Call(args=[arg], keywords=[]) if (name := _called(node)) in _CALLS:
            return f"{_CALLS[name][0]}({inner(arg)})", "number"
    return None


def _flag(node: ast.expr, inner: _Inner) -> tuple[str, str] | None:
    match node:
        case ast.UnaryOp(ast.Not() | ast.Invert(), arg):
            return f"NOT ({inner(arg)})", "flag"
        case ast.BinOp(left, ast.BitAnd() | ast.BitOr() as sign, right):
            word = "AND" if isinstance(sign, ast.BitAnd) else "OR"
            return f"({inner(left)}) {word} ({inner(right)})", "flag"
        case ast.BoolOp(join, values):
            word = " AND " if isinstance(join, ast.And) else " OR "
            return word.join(f"({inner(v)})" for v in values), "flag"
        case ast.Compare(left, [test_], [right]) if type(test_) in _SIGNS:
            return f"({inner(left)}) {_SIGNS[type(test_)][0]} ({inner(right)})", "flag"
    return None


def _value(node: ast.expr, names: tuple[str, ...], data: Mapping[str, Any]) -> Any:
    """The same, with numpy."""
    column = _column(node, names)
    if column is not None:
        if column not in data:
            raise ParameterError(f"predictions need the column {column!r}")
        return np.asarray(data[column])
    match node:
        case ast.Constant(v):
            return v
        case ast.UnaryOp(ast.USub(), arg):
            return -_as_numbers(_value(arg, names, data))
        case ast.UnaryOp(_, arg):
            return np.logical_not(_value(arg, names, data))
        case ast.BinOp(base, ast.Pow(), ast.Constant(int(power))):
            return np.asarray(_value(base, names, data), dtype=np.float64) ** power
        case ast.BinOp(left, ast.BitAnd() | ast.BitOr() as op, right):
            join = np.logical_and if isinstance(op, ast.BitAnd) else np.logical_or
            return join(_value(left, names, data), _value(right, names, data))
        case ast.BinOp(left, op, right):
            sides = [_as_numbers(_value(side, names, data)) for side in (left, right)]
            return _SIGNS[type(op)][1](*sides)
        case ast.Compare(left, [op], [right]):
            return _SIGNS[type(op)][1](_value(left, names, data), _value(right, names, data))
        case ast.BoolOp(op, values):
            join = np.logical_and if isinstance(op, ast.And) else np.logical_or
            return reduce(join, [_value(v, names, data) for v in values])
        case ast.Call(args=[arg]):
            return _CALLS[str(_called(node))][1](_as_numbers(_value(arg, names, data)))
    raise AssertionError(node)


def _as_numbers(values: Any) -> Any:
    """Truth values as 0 and 1, as SQL adds them: to numpy, two of them make one."""
    array = np.asarray(values)
    return array.astype(np.int64) if array.dtype == np.bool_ else values
