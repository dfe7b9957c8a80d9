"""Row expressions: a closed set of total functions over bounded codes.

Each node knows its :class:`Type` (bounds follow by interval arithmetic) and its
meaning (``evaluate``, the reference that every engine must equal bit for bit).
All are total: NULL in gives NULL out unless a node says otherwise, division by
zero gives NULL, nothing overflows, nothing raises. Truth is three-valued, as in
SQL.
"""

from __future__ import annotations

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
from discreet.plan._nodes import Column, Constant, Expr, Row, common_step
from discreet.plan._numbers import (
    Abs,
    Arithmetic,
    AsNumber,
    Bucket,
    Clamp,
    DatePart,
    Divide,
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
    "IsNull",
    "Logic",
    "Not",
    "OneOf",
    "Part",
    "Rescale",
    "Row",
    "Square",
    "align",
    "columns_of",
    "common_step",
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


def columns_of(expr: Expr) -> set[str]:
    """Names of the columns an expression reads."""
    if isinstance(expr, Column):
        return {expr.name}
    return {name for child in expr.children for name in columns_of(child)}
