"""Output expressions on noisy numbers, and on their boxes.

The same small language is evaluated twice: on estimates, and by interval
arithmetic on boxes that hold jointly with a stated probability. Comparisons and
logic (HAVING) are only evaluated on estimates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.plan import Apply, Box, KeyOf, Number, Of, Out, Text, corners

Column = NDArray[Any]
Estimates = Callable[[int], Column]
Boxes = Callable[[int], Box]

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": np.less,
    "<=": np.less_equal,
    "=": np.equal,
    "<>": np.not_equal,
    ">=": np.greater_equal,
    ">": np.greater,
}


def evaluate(out: Out, statistic: Estimates, keys: Mapping[str, Column], cells: int) -> Column:
    """Value of an output in every cell."""
    match out:
        case Of(index):
            return statistic(index)
        case KeyOf(name):
            return keys[name]
        case Number(value):
            return np.full(cells, float(value))
        case Text(value):
            return np.full(cells, value, dtype=object)
        case Apply(op, args):
            values = [evaluate(a, statistic, keys, cells) for a in args]
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                return _apply(op, values)
    raise AssertionError(out)


def _apply(op: str, values: list[Column]) -> Column:
    a = values[0]
    if op in _COMPARE:
        return np.asarray(_COMPARE[op](a, values[1]), dtype=bool)
    match op:
        case "+":
            return a + values[1]
        case "-":
            return a - values[1] if len(values) > 1 else -a
        case "*":
            return a * values[1]
        case "/":
            return np.where(values[1] == 0, np.nan, a / np.where(values[1] == 0, 1, values[1]))
        case "and":
            return np.asarray(np.logical_and.reduce(values))
        case "or":
            return np.asarray(np.logical_or.reduce(values))
        case "not":
            return np.logical_not(a)
        case "abs":
            return np.abs(a)
        case "round":
            return np.round(a, int(values[1][0]) if len(values) > 1 and values[1].size else 0)
    raise AssertionError(op)


def bounds(out: Out, statistic: Boxes, cells: int) -> Box | None:
    """Range of an output over the statistics' boxes; None if it is not a number."""
    match out:
        case Of(index):
            return statistic(index)
        case Number(value):
            constant = np.full(cells, float(value))
            return Box(constant, constant)
        case Apply(op, args):
            if op in _COMPARE or op in ("and", "or", "not"):
                return None
            boxes = [bounds(a, statistic, cells) for a in args]
            finite = [b for b in boxes if b is not None]
            if len(finite) < len(boxes):
                return None
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                return _apply_box(op, finite)
    return None


def _apply_box(op: str, boxes: list[Box]) -> Box:
    a = boxes[0]
    match op:
        case "+":
            return Box(a.low + boxes[1].low, a.high + boxes[1].high)
        case "-" if len(boxes) > 1:
            return Box(a.low - boxes[1].high, a.high - boxes[1].low)
        case "-":
            return Box(-a.high, -a.low)
        case "*":
            return corners(np.multiply, a, boxes[1])
        case "/":
            return _divide(a, boxes[1])
        case "abs":
            low = np.where(a.low * a.high <= 0, 0.0, np.minimum(np.abs(a.low), np.abs(a.high)))
            return Box(low, np.maximum(np.abs(a.low), np.abs(a.high)))
    digits = int(boxes[1].low[0]) if len(boxes) > 1 and boxes[1].low.size else 0
    return Box(np.round(a.low, digits), np.round(a.high, digits))


def _divide(a: Box, b: Box) -> Box:
    """Quotient of boxes; unbounded where the divisor may be zero."""
    crosses = (b.low <= 0) & (b.high >= 0)
    one = np.ones_like(b.low)
    safe = Box(np.where(crosses, one, b.low), np.where(crosses, one, b.high))
    quotient = corners(np.divide, a, safe)
    return Box(np.where(crosses, -np.inf, quotient.low), np.where(crosses, np.inf, quotient.high))
