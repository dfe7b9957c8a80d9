r"""How far the grid of curves may have moved what is asked, and intervals that allow for it.

LN, EXP, SQRT and powers are rounded to a grid (:mod:`discreet.plan._rising`), so what is measured
is a statistic of rounded values. If each is at most d away from the exact one, a mean and a
quantile are at most d away, a sum of n values at most nd; a standard deviation at most d, by the
triangle inequality, and :math:`d\sqrt{n/(n-1)}\le\sqrt2d` if it is divided by n − 1; a variance is
its square. Ends are moved by that much. A tenth of the error allowed to a sum pays for an upper
bound of n.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np

from discreet.plan._families import Moment
from discreet.plan._logic import Case
from discreet.plan._nodes import Expr
from discreet.plan._numbers import Abs, Arithmetic, AsNumber, Clamp
from discreet.plan._parts import Floats
from discreet.plan._rising import Curve
from discreet.plan._vectors import Box

if TYPE_CHECKING:
    from discreet.plan._formula import Formula
    from discreet.plan._statistic import Statistic

ROUNDED: Final = ("mean", "sum", "variance", "deviation", "sample variance", "sample deviation")
"""Kinds of statistics whose ends are moved."""


def off_of(expr: Expr) -> Fraction:
    """How far the grids of curves may have moved a value of an expression at most."""
    if not _has_curve(expr):
        return Fraction(0)
    match expr:
        case Curve(arg, step=step) if not _has_curve(arg):
            return step / 2
        case Arithmetic("*", left, right):
            (a, p), (b, q) = ((off_of(e), _largest(e)) for e in (left, right))
            return a * q + b * p + a * b
        case Arithmetic(_, left, right):
            return off_of(left) + off_of(right)
        case Abs(arg) | AsNumber(arg) | Clamp(arg):
            return off_of(arg)
        case Case(branches, default) if not any(_has_curve(test) for test, _ in branches):
            return max(off_of(e) for e in (default, *(value for _, value in branches)))
    # anywhere in its range
    return (expr.type.hi - expr.type.lo) * expr.type.step if expr.type.is_numeric else Fraction(0)


def rounded(statistics: Sequence[Statistic]) -> set[int]:
    """Which statistics are of values that a grid of curves may have moved."""
    return {
        i
        for i, s in enumerate(statistics)
        if s.rounded is not None and s.expr is not None and off_of(s.expr) > 0
    }


def behind_sums(
    statistics: Sequence[Statistic],
    moved: Iterable[int],
    formulas: list[Formula],
    total: Callable[[Expr | None, Moment], Formula],
) -> tuple[tuple[int, int], ...]:
    """Formulas of how many values are behind rounded sums, added behind all others."""
    counts = []
    for i in sorted(moved):
        if statistics[i].moment is Moment.SUM:
            counts.append((i, len(formulas)))
            formulas.append(total(statistics[i].expr, Moment.COUNT))
    return tuple(counts)


def _has_curve(expr: Expr) -> bool:
    own = isinstance(expr, Curve) and expr.shape is not None
    return own or any(map(_has_curve, expr.children))


def _largest(expr: Expr) -> Fraction:
    return max(abs(expr.type.lo), abs(expr.type.hi)) * expr.type.step


def allowance(kind: str, off: Fraction) -> str:
    """What is added to a margin for values moved by `off`, in words."""
    far = f"{float(off) * (2**0.5 if kind.startswith('sample') else 1.0):.4g}"
    what = {"sum": " for each value"}.get(kind, " to its root" if "variance" in kind else "")
    return f"; steps add up to {far}{what}"


def moved(kind: str, box: Box, off: float, rows: Floats | Sequence[float] = ()) -> Box:
    """Ends that allow for values moved by `off`; `rows` are as many as there are at most."""
    match kind:
        case "sum":
            far = off * np.maximum(np.asarray(rows), 0.0)
            return Box(box.low - far, box.high + far)
        case "mean":
            return Box(box.low - off, box.high + off)
    by = off * 2**0.5 if kind.startswith("sample") else off
    if kind.endswith("deviation"):
        return Box(np.maximum(box.low - by, 0.0), box.high + by)
    low, high = (np.sqrt(np.maximum(end, 0.0)) for end in (box.low, box.high))
    return Box(np.maximum(low - by, 0.0) ** 2, (high + by) ** 2)
