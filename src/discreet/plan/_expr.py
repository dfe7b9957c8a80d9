"""Row expressions: a closed set of total functions over bounded codes.

Each operator is one class: bounds, meaning, SQL and words (see ``_nodes``). All
are total: NULL in gives NULL out unless a class says otherwise, division by zero
gives NULL, nothing overflows, nothing raises. Truth is three-valued, as in SQL.
"""

from __future__ import annotations

from inspect import isabstract

from discreet.plan._logic import (
    Case,
    Coalesce,
    Compare,
    Comparison,
    IsNull,
    Logic,
    Not,
    OneOf,
    union,
)
from discreet.plan._nodes import Column, Constant, Expr, Row, Writer, common_step
from discreet.plan._numbers import (
    Abs,
    Arithmetic,
    AsNumber,
    Bucket,
    Clamp,
    DatePart,
    Divide,
    Guard,
    Part,
    Rescale,
    Square,
)
from discreet.plan._types import Type

__all__ = [
    "Abs",
    "Arithmetic",
    "AsNumber",
    "Bucket",
    "Case",
    "Clamp",
    "Coalesce",
    "Column",
    "Compare",
    "Comparison",
    "Constant",
    "DatePart",
    "Divide",
    "Expr",
    "Guard",
    "IsNull",
    "Logic",
    "Not",
    "OneOf",
    "Part",
    "Rescale",
    "Row",
    "Square",
    "Writer",
    "align",
    "columns_of",
    "common_step",
    "operators",
    "plain_column",
    "union",
]


def align(exprs: list[Expr]) -> list[Expr]:
    """Bring numeric expressions to one common grid, so that branches can join."""
    numeric = [e for e in exprs if e.type.is_numeric]
    if len(numeric) != len(exprs) or not numeric:
        return exprs
    step = numeric[0].type.step
    for e in numeric[1:]:
        step = common_step(Type.number(0, 0, step), e.type)
    return [e if e.type.step == step else Rescale(e, step) for e in exprs]


def operators() -> list[type[Expr]]:
    """List every class of expression that can be built."""
    found: list[type[Expr]] = []
    rest = Expr.__subclasses__()
    while rest:
        found.append(rest.pop())
        rest += found[-1].__subclasses__()
    return sorted((c for c in found if not isabstract(c)), key=lambda c: c.__name__)


def plain_column(expr: Expr) -> Column | None:
    """Return the column that an expression is, behind the bounds that conditions prove."""
    while isinstance(expr, Guard):
        expr = expr.arg
    return expr if isinstance(expr, Column) else None


def columns_of(expr: Expr) -> set[str]:
    """Names of the columns an expression reads."""
    if isinstance(expr, Column):
        return {expr.name}
    return {name for child in expr.children for name in columns_of(child)}
