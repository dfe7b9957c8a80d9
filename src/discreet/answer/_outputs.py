"""Output expressions on noisy numbers, and on their boxes.

The same small language is evaluated twice: on estimates, and by interval
arithmetic on boxes that hold jointly with a stated probability. Comparisons and
logic (HAVING) are only evaluated on estimates. Windows look at several rows of the
answer (``_windows``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.answer import _windows
from discreet.noise import Law
from discreet.plan import (
    Apply,
    Box,
    Grouping,
    KeyValue,
    Number,
    OutputExpr,
    StatisticValue,
    Text,
    Window,
    corners,
    statistics_of,
)

Column = NDArray[Any]


class Source(Protocol):
    """What outputs are computed from: keys, statistics and the rows that HAVING keeps."""

    @property
    def cells(self) -> int:
        """How many rows there are."""

    @property
    def keys(self) -> Mapping[str, Column]:
        """Values of the keys, row by row."""

    @property
    def kept(self) -> NDArray[np.int64]:
        """Rows that windows look at."""

    def grouping(self, name: str) -> Column:
        """1 in rows that add up over a key."""

    def statistic(self, index: int) -> Column:
        """Estimates of one statistic."""

    def box(self, index: int, level: float) -> Box:
        """Ends of one statistic, if every statement about noise holds with `level`."""

    def added(self, index: int) -> tuple[Law | None, float] | None:
        """Law and step of a statistic whose rows have independent noise and may be added up."""

    def statements(self, statistics: set[int]) -> int:
        """Independent statements about noise behind some statistics."""


def evaluate(out: OutputExpr, source: Source) -> Column:
    """Value of an output in every row."""
    match out:
        case StatisticValue(index):
            return source.statistic(index)
        case KeyValue(name):
            return source.keys[name]
        case Grouping(name):
            return source.grouping(name)
        case Number(value):
            return np.full(source.cells, float(value))
        case Text(value):
            return np.full(source.cells, value, dtype=object)
        case Window():
            args = [evaluate(a, source) for a in out.args]
            return _windows.value(out, args, list(_frames(out, source)), source.cells)
        case Apply(op, args):
            values = [evaluate(a, source) for a in args]
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                return np.broadcast_to(OPERATIONS[op].value(*values), (source.cells,))
    raise AssertionError(out)


def _frames(window: Window, source: Source) -> Iterator[_windows.Frames]:
    partition = [evaluate(p, source) for p in window.partition]
    order = []
    for out, descending in window.order:
        values = sortable(evaluate(out, source))
        order.append(-values if descending else values)
    return _windows.frames(window, source.kept, partition, order)


def sortable(values: Column) -> Column:
    """Numbers that sort like some values: numbers and dates by value, then texts; NULL last."""
    if values.dtype != object:
        return np.asarray(values, dtype=np.float64)
    places = [(2, "") if v is None else (int(isinstance(v, str)), v) for v in values]
    try:
        order = {place: i for i, place in enumerate(sorted(set(places)))}
    except TypeError:  # a record from elsewhere may mix what has no common order
        places = [(1, str(v)) for v in values]
        order = {place: i for i, place in enumerate(sorted(set(places)))}
    return np.array([order[place] for place in places], dtype=np.float64)


def bounds(out: OutputExpr, source: Source, level: float) -> Box | None:
    """Range of an output; None if it is not a number.

    It holds in every row if each statement about noise behind it holds with `level`; a
    window is one statement.
    """
    match out:
        case StatisticValue(index):
            return source.box(index, level)
        case Window():
            return _window(out, source, level)
        case Number() | Grouping() | KeyValue():
            return _exact(evaluate(out, source))
        case Apply("case", (_, yes, no)):
            ends = [bounds(a, source, level) for a in (yes, no)]
            both = [b for b in ends if b is not None]
            if len(both) < len(ends) and not _is_null(no):
                return None
            # which branch is taken may rest on noise: both are possible
            low, high = (np.array([getattr(b, e) for b in both]) for e in ("low", "high"))
            return Box(low.min(axis=0), high.max(axis=0))
        case Apply(op, args) if (box := OPERATIONS[op].box) is not None:
            boxes = [bounds(a, source, level) for a in args]
            if None in boxes:
                return None
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                return box(*boxes)
    return None


def _is_null(out: OutputExpr) -> bool:
    return isinstance(out, Apply) and out.op == "null"


def _exact(values: Column) -> Box | None:
    """Public numbers as boxes of width zero."""
    if values.dtype == object:
        if not all(isinstance(v, int | float) for v in values):
            return None
        values = values.astype(np.float64)
    return Box(values, values)


def _window(window: Window, source: Source, level: float) -> Box | None:
    """Range of a window, as one statement about noise."""
    parts = list(_frames(window, source))
    used = statistics_of(window)
    if not used:
        return _exact(evaluate(window, source))
    narrow = _added(window, source, parts, level)
    if narrow is not None:
        return narrow
    # boxes of all rows at once, unless one row is read whatever the noise
    rows = 1 if window.op in _windows.NEIGHBOURS and _public(window) else source.cells
    each = (1 - level) / max(source.statements(used) * rows, 1)
    boxes = [bounds(a, source, 1 - each) for a in window.args]
    if any(b is None for b in boxes):
        return None
    by = None
    if window.order:
        out, descending = window.order[0]
        by = bounds(out, source, 1 - each)
        by = by if by is None or descending else _minus_box(by)
    return _windows.box(window, [b for b in boxes if b], by, parts, source.cells)


def _public(window: Window) -> bool:
    """Whether keys alone order the rows."""
    return not any(statistics_of(out) for out, _ in window.order)


def _added(
    window: Window, source: Source, parts: list[_windows.Frames], level: float
) -> Box | None:
    """Sum of one vector's cells in a public order, by the law of the sum of their noise."""
    arg = window.args[0] if window.op in ("SUM", "AVG") and _public(window) else None
    if not isinstance(arg, StatisticValue):
        return None
    found = source.added(arg.index)
    if found is None:
        return None
    law, step = found
    half = np.full(source.cells, np.nan)
    for f in parts:
        terms = f.stop - f.start
        wide = np.zeros(f.size) if law is None else _windows.Sums(law, level).half(terms)
        half[f.rows] = wide * step / (np.maximum(terms, 1) if window.op == "AVG" else 1)
    middle = evaluate(window, source)
    return Box(middle - half, middle + half)


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


def _rising(of: Callable[[Column], Column]) -> Operation:
    """An operation that rises with its argument."""
    return Operation(1, 1, of, lambda a: Box(of(a.low), of(a.high)))


def _root(a: Column) -> Column:
    return np.sqrt(np.maximum(a, 0.0))


def _logarithm(of: np.ufunc) -> Callable[[Column], Column]:
    return lambda a: np.where(a > 0, of(np.maximum(a, 1e-300)), -np.inf)


def _either(of: np.ufunc) -> Operation:
    """The least or the greatest of several."""

    def box(*boxes: Box) -> Box:
        return Box(of.reduce([b.low for b in boxes]), of.reduce([b.high for b in boxes]))

    return Operation(1, 100, lambda *values: of.reduce(values), box)


def _filled(a: Column, b: Column) -> Column:
    return np.where(np.isnan(a), b, a)


def _chosen(test: Column, yes: Column, no: Column) -> Column:
    if yes.dtype != no.dtype:  # NULL beside numbers
        yes, no = (np.full(1, np.nan) if v.dtype == object else v for v in (yes, no))
    return np.where(test.astype(bool), yes, no)


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
    "null": Operation(0, 0, lambda: np.full(1, None, dtype=object)),
    "+": Operation(2, 2, np.add, lambda a, b: Box(a.low + b.low, a.high + b.high)),
    "-": Operation(1, 2, _minus, _minus_box),
    "*": Operation(2, 2, np.multiply, lambda a, b: corners(np.multiply, a, b)),
    "/": Operation(2, 2, _quotient, _divide),
    "abs": Operation(1, 1, np.abs, _absolute_box),
    "round": Operation(1, 2, _rounded, _rounded_box),
    "sqrt": _rising(_root),
    "ln": _rising(_logarithm(np.log)),
    "log": _rising(_logarithm(np.log10)),
    "exp": _rising(np.exp),
    "floor": _rising(np.floor),
    "ceil": _rising(np.ceil),
    "least": _either(np.minimum),
    "greatest": _either(np.maximum),
    "coalesce": Operation(
        2, 2, _filled, lambda a, b: Box(_filled(a.low, b.low), _filled(a.high, b.high))
    ),
    "nullif": Operation(2, 2, lambda a, b: np.where(a == b, np.nan, a), lambda a, _: a),
    "case": Operation(3, 3, _chosen),
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
