"""Row expressions: a closed set of total functions over bounded codes.

Each operator is one class: bounds, meaning, SQL and words (see ``_nodes``). All
are total: NULL in gives NULL out unless a class says otherwise, division by zero
gives NULL, nothing overflows, nothing raises. Truth is three-valued, as in SQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from inspect import isabstract

from discreet.errors import ParameterError
from discreet.plan._logic import *  # noqa: F403 - this module is the face of all operators
from discreet.plan._nodes import *  # noqa: F403 - likewise
from discreet.plan._nodes import Column, Constant, Expr, common_step
from discreet.plan._numbers import *  # noqa: F403 - likewise
from discreet.plan._numbers import Arithmetic, AsNumber, Guard, Moment, Rescale
from discreet.plan._texts import *  # noqa: F403 - likewise
from discreet.plan._types import Kind, Type


def align(exprs: list[Expr]) -> list[Expr]:
    """Bring numbers, or times, to one common grid, so that branches can join."""
    times = bool(exprs) and all(e.type.kind is Kind.TIMESTAMP for e in exprs)
    if not times and not (exprs and all(e.type.is_numeric for e in exprs)):
        return exprs
    step = exprs[0].type.step
    for e in exprs[1:]:
        step = common_step(Type.number(0, 0, step), Type.number(0, 0, e.type.step))
    return [
        e if e.type.step == step else _on_time(e, step) if times else Rescale(e, step)
        for e in exprs
    ]


def _on_time(expr: Expr, step: Fraction) -> Expr:
    """A time on a finer grid of seconds."""
    if isinstance(expr, Constant):
        t = Type(Kind.TIMESTAMP, step=step)
        if not isinstance(expr.code, int):
            return Constant.null(t)
        return Constant.like(int(expr.code * (expr.type.step / step)), t)
    second = Constant.like(1, Type.number(0, 0, expr.type.step))
    return Moment(Rescale(Arithmetic("*", AsNumber(expr), second), step), Kind.TIMESTAMP)


def operators() -> list[type[Expr]]:
    """List every class of expression that can be built."""
    classes: list[type[Expr]] = []
    rest = Expr.__subclasses__()
    while rest:
        classes.append(rest.pop())
        rest += classes[-1].__subclasses__()
    return sorted((c for c in classes if not isabstract(c)), key=lambda c: c.__name__)


def plain_column(expr: Expr) -> Column | None:
    """Return the column that an expression is, behind the bounds that conditions prove."""
    while isinstance(expr, Guard):
        expr = expr.arg
    return expr if isinstance(expr, Column) else None


def columns_of(expr: Expr) -> frozenset[str]:
    """Names of the columns an expression reads."""
    return frozenset([node.name for node in expr.columns])


def check_columns(exprs: Iterable[Expr], schema: Mapping[str, Type]) -> None:
    """Refuse a column with narrower bounds than its relation gives it.

    A condition may prove them for the rows that count. An engine computes on other
    rows too, so such bounds are enforced by a guard and never believed.
    """
    for node in [n for e in exprs for n in e.columns]:
        t = schema.get(node.name)
        if t is None or (t.kind, t.step, t.labels) != (node.of.kind, node.of.step, node.of.labels):
            raise ParameterError(f"the relation has no such column: {node.name!r}, {node.of}")
        if t.lo < node.of.lo or node.of.hi < t.hi:
            raise ParameterError(f"the bounds of {node.name!r} are believed, not enforced")
