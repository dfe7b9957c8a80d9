"""Output expressions on noisy numbers, and on their boxes.

The same small language is evaluated twice: on estimates, and by interval
arithmetic on boxes that hold jointly with a stated probability. Comparisons and
logic (HAVING) are only evaluated on estimates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from discreet.plan import Apply, Box, KeyValue, Number, OutputExpr, StatisticValue, Text, corners

Column = NDArray[Any]
Estimates = Callable[[int], Column]
Boxes = Callable[[int], Box]


def evaluate(
    out: OutputExpr, statistic: Estimates, keys: Mapping[str, Column], cells: int
) -> Column:
    """Value of an output in every cell."""
    match out:
        case StatisticValue(index):
            return statistic(index)
        case KeyValue(name):
            return keys[name]
        case Number(value):
            return np.full(cells, float(value))
        case Text(value):
            return np.full(cells, value, dtype=object)
        case Apply(op, args):
            values = [evaluate(a, statistic, keys, cells) for a in args]
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                return OPERATIONS[op].value(*values)
    raise AssertionError(out)


def bounds(out: OutputExpr, statistic: Boxes, cells: int) -> Box | None:
    """Range of an output over the statistics' boxes; None if it is not a number."""
    match out:
        case StatisticValue(index):
            return statistic(index)
        case Number(value):
            constant = np.full(cells, float(value))
            return Box(constant, constant)
        case Apply(op, args) if (box := OPERATIONS[op].box) is not None:
            boxes = [bounds(a, statistic, cells) for a in args]
            if None in boxes:
                return None
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                return box(*boxes)
    return None


def _divide(a: Box, b: Box) -> Box:
    """Quotient of boxes; unbounded where the divisor may be zero."""
    crosses = (b.low <= 0) & (b.high >= 0)
    one = np.ones_like(b.low)
    safe = Box(np.where(crosses, one, b.low), np.where(crosses, one, b.high))
    quotient = corners(np.divide, a, safe)
    return Box(np.where(crosses, -np.inf, quotient.low), np.where(crosses, np.inf, quotient.high))


def _minus(a: Column, b: Column | None = None) -> Column:
    return -a if b is None else a - b


def _minus_box(a: Box, b: Box | None = None) -> Box:
    return Box(-a.high, -a.low) if b is None else Box(a.low - b.high, a.high - b.low)


def _quotient(a: Column, b: Column) -> Column:
    return np.where(b == 0, np.nan, a / np.where(b == 0, 1, b))


def _absolute_box(a: Box) -> Box:
    low, high = np.abs(a.low), np.abs(a.high)
    return Box(np.where(a.low * a.high <= 0, 0.0, np.minimum(low, high)), np.maximum(low, high))


def _rounded(a: Column, digits: Column | None = None) -> Column:
    return np.round(a, 0 if digits is None or not digits.size else int(digits[0]))


def _rounded_box(a: Box, digits: Box | None = None) -> Box:
    places = None if digits is None else digits.low
    return Box(_rounded(a.low, places), _rounded(a.high, places))


def _test(compare: np.ufunc) -> Callable[..., Column]:
    return lambda a, b: np.asarray(compare(a, b), dtype=bool)


@dataclass(frozen=True, slots=True)
class Operation:
    """What is done with outputs: how many it takes, its value, its range over boxes.

    Without a range the result is not a number.
    """

    least: int
    most: int
    value: Callable[..., Column]
    box: Callable[..., Box] | None = None


OPERATIONS: Final = {
    "+": Operation(2, 2, np.add, lambda a, b: Box(a.low + b.low, a.high + b.high)),
    "-": Operation(1, 2, _minus, _minus_box),
    "*": Operation(2, 2, np.multiply, lambda a, b: corners(np.multiply, a, b)),
    "/": Operation(2, 2, _quotient, _divide),
    "abs": Operation(1, 1, np.abs, _absolute_box),
    "round": Operation(1, 2, _rounded, _rounded_box),
    "not": Operation(1, 1, np.logical_not),
    "and": Operation(1, 10_000, lambda *values: np.logical_and.reduce(values)),
    "or": Operation(1, 10_000, lambda *values: np.logical_or.reduce(values)),
    "<": Operation(2, 2, _test(np.less)),
    "<=": Operation(2, 2, _test(np.less_equal)),
    "=": Operation(2, 2, _test(np.equal)),
    "<>": Operation(2, 2, _test(np.not_equal)),
    ">=": Operation(2, 2, _test(np.greater_equal)),
    ">": Operation(2, 2, _test(np.greater)),
}
"""Everything that can be done with outputs, by its sign."""
