"""Output expressions on noisy numbers, and on their boxes.

The same small language is evaluated twice: on estimates, and by interval
arithmetic on boxes that hold jointly with a stated probability. Comparisons and
logic have three values on boxes: surely, possibly, not at all. Windows look at several
rows of the answer (``_windows``, and ``_folds`` where noise decides which).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from discreet._dataclass import dataclass
from discreet.answer import _folds, _windows
from discreet.answer._folds import Truth
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
    divisor,
    linear,
    statistics_of,
)

if TYPE_CHECKING:
    from discreet.answer._levels import Rows

Column = NDArray[Any]
_NULL: Final = Box(np.full(1, np.nan), np.full(1, np.nan))


def evaluate(out: OutputExpr, source: Rows) -> Column:
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
            own = _windows.value(out, args, list(_frames(out, source)), source.cells)
            return _spread(own, out, source)
        case Apply("not", (Apply(op, args),)) if op in _OPPOSITES:
            return evaluate(_negated(op, args), source)
        case Apply(op, args):
            values = [evaluate(a, source) for a in args]
            if OPERATIONS[op].box is not None:
                values = [_numbers(v) for v in values]
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                return np.broadcast_to(OPERATIONS[op].value(*values), (source.cells,))
    raise AssertionError(out)


def _spread(values: Column, window: Window, source: Rows) -> Column:
    """Give rows that HAVING leaves out the aggregate over all others too: there may be no other."""
    if window.partition or not _folds.is_whole(window):
        return values
    none = 0.0 if window.op == "COUNT" else np.nan
    return np.full(source.cells, values[source.survivors[0]] if source.survivors.size else none)


def _frames(window: Window, source: Rows) -> Iterator[_windows.Frames]:
    partition = [evaluate(p, source) for p in window.partition]
    order = []
    for out, descending in window.order:
        values = sortable(evaluate(out, source))
        order.append(-values if descending else values)
    return _windows.frames(window, source.survivors, partition, order)


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


def bounds(out: OutputExpr, source: Rows, level: float) -> Box | None:
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
        case Apply("case", (test, yes, no)):
            then = _NULL if _is_null(yes) else _branch(yes, test, source, level)
            other = _NULL if _is_null(no) else bounds(no, source, level)
            if then is None or other is None:
                return None
            return truth(test, source, level).choose(then, other)
        case Apply(op, args) if (box := OPERATIONS[op].box) is not None:
            boxes = [bounds(a, source, level) for a in args]
            if None in boxes:
                return None
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                return box(*boxes)
    return None


def of_quotient(out: OutputExpr, source: Rows, level: float) -> Box | None:
    """Range of one sum over another, or of a function of it, by one statement; else None."""
    match out:
        case Apply("/", (above, below)) if statistics_of(above) and statistics_of(below):
            sides = linear(above), linear(divisor(below))
            if sides[0] is None or sides[1] is None or sides[0][1] or sides[1][1]:
                return None
            return source.quotient(sides[0][0], sides[1][0], level)
        case Apply(op, args) if (box := OPERATIONS[op].box) is not None:
            noisy = [a for a in args if statistics_of(a)]
            if len(noisy) != 1 or (ends := of_quotient(noisy[0], source, level)) is None:
                return None
            others = [ends if a is noisy[0] else bounds(a, source, level) for a in args]
            if any(b is None for b in others):
                return None
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                return box(*others)
    return None


def truth(out: OutputExpr | None, source: Rows, level: float) -> Truth:
    """Where a test surely and where it possibly holds, on the boxes of :func:`bounds`."""
    if out is None:
        return Truth.known(np.ones(source.cells))
    if not statistics_of(out):
        return Truth.known(evaluate(out, source))
    match out:
        case Apply("and", args):
            return reduce(operator.and_, (truth(a, source, level) for a in args))
        case Apply("or", args):
            return reduce(operator.or_, (truth(a, source, level) for a in args))
        case Apply("not", (arg,)):
            return ~truth(arg, source, level)
        case Apply(op, (left, right)) if op in _folds.COMPARISONS:
            a, b = bounds(left, source, level), bounds(right, source, level)
            if a is not None and b is not None:
                with np.errstate(invalid="ignore"):
                    return _folds.compared(op, a, b)
    return Truth.unknown(source.cells)


def _branch(out: OutputExpr, test: OutputExpr | None, source: Rows, level: float) -> Box | None:
    """Range of an output in rows that pass a test: bars that it sets for the output itself."""
    box = bounds(out, source, level)
    tests = test.args if isinstance(test, Apply) and test.op == "and" else (test,)
    for each in tests:
        match each:
            case Apply(op, (left, bar)) if box is not None and left == out:
                ends = bounds(bar, source, level) if op in ("<", "<=", ">", ">=") else None
                if ends is not None and op in (">", ">="):
                    box = Box(np.maximum(box.low, ends.low), np.maximum(box.high, ends.low))
                elif ends is not None:
                    box = Box(np.minimum(box.low, ends.high), np.minimum(box.high, ends.high))
    return box


def _present(out: OutputExpr, source: Rows, level: float) -> Truth:
    """Where an output is not NULL."""
    match out:
        case Apply("case", (test, yes, no)):
            choice = truth(test, source, level)
            there = [_present(arg, source, level) for arg in (yes, no)]
            return (choice & there[0]) | (~choice & there[1])
        case Apply("null"):
            return Truth.known(np.zeros(source.cells))
        case Apply("nullif" | "coalesce"):
            return Truth.unknown(source.cells)
        case Apply(_, args):
            return reduce(operator.and_, (_present(arg, source, level) for arg in args))
    return Truth.known(np.ones(source.cells))


def _is_null(out: OutputExpr) -> bool:
    return isinstance(out, Apply) and out.op == "null"


def _exact(values: Column) -> Box | None:
    """Public numbers as boxes of width zero."""
    if values.dtype == object:
        there = [v for v in values if v is not None]
        if not there or not all(isinstance(v, int | float) for v in there):
            return None
    values = _numbers(values)
    return Box(values, values)


def _numbers(values: Column) -> Column:
    """Keys as numbers: truth values are 0 and 1, NULL is NaN."""
    if values.dtype != object:
        return values
    return np.array([np.nan if v is None else float(v) for v in values])


def _missing(values: Column) -> Column:
    if values.dtype == object:
        return np.array([v is None for v in values.ravel()], dtype=bool).reshape(values.shape)
    return np.isnan(values) if values.dtype == np.float64 else np.zeros(values.shape, dtype=bool)


_OPPOSITES: Final = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "=": "<>", "<>": "=",
                     "and": "or", "or": "and", "not": ""}  # fmt: skip


def _negated(op: str, args: tuple[OutputExpr, ...]) -> OutputExpr:
    """What holds where a test is false; where NULL decides, neither holds."""
    if op == "not":
        return args[0]
    if op in ("and", "or"):
        args = tuple(Apply("not", (arg,)) for arg in args)
    return Apply(_OPPOSITES[op], args)


def _window(window: Window, source: Rows, level: float) -> Box | None:
    """Range of a window, as one statement about noise."""
    whole = _folds.is_whole(window)
    statistics = statistics_of(window)
    if whole and source.test is not None:
        statistics = statistics | statistics_of(source.test)
    if not statistics:
        return _exact(evaluate(window, source))
    parts = list(_frames(window, source))
    narrow = _added(window, source, parts, level)
    if narrow is not None:
        return narrow
    # boxes of all rows at once, unless one row is read whatever the noise
    rows = 1 if window.op in _windows.NEIGHBOURS and _public(window) else source.cells
    each = 1 - (1 - level) / max(source.statements(statistics) * rows, 1)
    if whole:
        return _fold(window, source, each)
    boxes = [bounds(a, source, each) for a in window.args]
    if any(b is None for b in boxes):
        return None
    by = None
    if window.order:
        out, descending = window.order[0]
        by = bounds(out, source, each)
        by = by if by is None or descending else _minus_box(by)
    return _windows.box(window, [b for b in boxes if b], by, parts, source.cells)


def _fold(window: Window, source: Rows, level: float) -> Box | None:
    """Range of an aggregate over all rows that truly pass HAVING."""
    there = truth(source.test, source, level)
    arg: Box | None = Box(np.zeros(source.cells), np.zeros(source.cells))
    for out in window.args:
        there &= _present(out, source, level)
        arg = _branch(out, source.test, source, level) if window.op != "COUNT" else arg
    if arg is None:
        return None
    partitions = [evaluate(p, source) for p in window.partition]
    return _folds.box(window, arg, there, partitions)


def _public(window: Window) -> bool:
    """Whether keys alone order the rows."""
    return not any(statistics_of(out) for out, _ in window.order)


def _added(window: Window, source: Rows, parts: list[_windows.Frames], level: float) -> Box | None:
    """Sum of one vector's cells in a public order, by the law of the sum of their noise."""
    arg = window.args[0] if window.op in ("SUM", "AVG") and _public(window) else None
    if not isinstance(arg, StatisticValue):
        return None
    pair = source.added(arg.index)
    if pair is None:
        return None
    law, step = pair
    half = np.full(source.cells, np.nan)
    for f in parts:
        terms = f.stop - f.start
        wide = np.zeros(f.size) if law is None else _windows.half_widths(law, level, terms)
        half[f.rows] = wide * step / (np.maximum(terms, 1) if window.op == "AVG" else 1)
    middle, half = evaluate(window, source), _spread(half, window, source)
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


def _whole_quotient_box(a: Box, b: Box) -> Box:
    quotient = _divide(a, b)
    return Box(np.trunc(quotient.low), np.trunc(quotient.high))


def _remainder(a: Column, b: Column) -> Column:
    """What is left of `a`, with its sign, as SQL has it."""
    return np.where(b == 0, np.nan, np.fmod(a, np.where(b == 0, 1, b)))


def _remainder_box(a: Box, b: Box) -> Box:
    """All that a remainder may be, or its two ends where both come from one multiple."""
    times = _whole_quotient_box(a, b)
    most = np.maximum(np.abs(b.low), np.abs(b.high))
    wide = Box(np.where(a.low < 0, -most, 0.0), np.where(a.high > 0, most, 0.0))
    one = (times.low == times.high) & (b.low == b.high) & (b.low != 0)
    multiple = np.where(one, times.low, 0.0) * b.low
    never = b.low * b.high <= 0  # it may be NULL
    low = np.where(one, a.low - multiple, np.where(never, -np.inf, wide.low))
    return Box(low, np.where(one, a.high - multiple, np.where(never, np.inf, wide.high)))


def _absolute_box(a: Box) -> Box:
    low, high = np.abs(a.low), np.abs(a.high)
    return Box(np.where(a.low * a.high <= 0, 0.0, np.minimum(low, high)), np.maximum(low, high))


def _rounded(a: Column, digits: Column | None = None) -> Column:
    """Round halves away from zero, as SQL does."""
    places = 0 if digits is None or not digits.size else int(digits[0])
    unit = 10.0 ** abs(places)
    with np.errstate(over="ignore"):
        scaled = a * unit if places >= 0 else a / unit
    whole = np.trunc(scaled)
    # what is infinite, or has no digits left to round, stays as it is
    with np.errstate(invalid="ignore"):
        whole = whole + np.where(np.abs(scaled - whole) >= 0.5, np.sign(scaled), 0.0)
    nearest = whole / unit if places >= 0 else whole * unit
    return np.where(np.abs(scaled) < 2.0**52, nearest, a)


def _rounded_box(a: Box, digits: Box | None = None) -> Box:
    places = None if digits is None else digits.low
    return Box(_rounded(a.low, places), _rounded(a.high, places))


def _rising(of: Callable[[Column], Column]) -> Operation:
    """An operation that rises with its argument."""
    return Operation(1, 1, of, lambda a: Box(of(a.low), of(a.high)))


def _logarithm(of: np.ufunc) -> Callable[[Column], Column]:
    return lambda a: np.where(a > 0, of(np.maximum(a, 1e-300)), -np.inf)


def _either(of: np.ufunc) -> Operation:
    """The least or the greatest of several; NULL is passed over."""

    def box(*boxes: Box) -> Box:
        return Box(of.reduce([b.low for b in boxes]), of.reduce([b.high for b in boxes]))

    return Operation(1, 100, lambda *values: of.reduce(values), box)


def _filled(a: Column, b: Column) -> Column:
    return np.where(np.isnan(a), b, a)


def _case(test: Column, yes: Column, no: Column) -> Column:
    if yes.dtype != no.dtype:  # NULL beside numbers
        yes, no = (np.full(1, np.nan) if v.dtype == object else v for v in (yes, no))
    return np.where(test.astype(bool), yes, no)


def _test(compare: np.ufunc) -> Callable[..., Column]:
    """A comparison, which does not hold where a side is NULL."""

    def test(a: Column, b: Column) -> Column:
        left, right = np.broadcast_arrays(a, b)
        there = ~(_missing(left) | _missing(right))
        truth = np.zeros(left.shape, dtype=bool)
        truth[there] = compare(left[there], right[there])
        return truth

    return test


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
    "//": Operation(2, 2, lambda a, b: np.trunc(_quotient(a, b)), _whole_quotient_box),
    "%": Operation(2, 2, _remainder, _remainder_box),
    "abs": Operation(1, 1, np.abs, _absolute_box),
    "round": Operation(1, 2, _rounded, _rounded_box),
    "sqrt": _rising(lambda a: np.sqrt(np.maximum(a, 0.0))),
    "ln": _rising(_logarithm(np.log)),
    "log": _rising(_logarithm(np.log10)),
    "exp": _rising(np.exp),
    "floor": _rising(np.floor),
    "ceil": _rising(np.ceil),
    "least": _either(np.fmin),
    "greatest": _either(np.fmax),
    "coalesce": Operation(
        2, 2, _filled, lambda a, b: Box(_filled(a.low, b.low), _filled(a.high, b.high))
    ),
    "nullif": Operation(2, 2, lambda a, b: np.where(a == b, np.nan, a), lambda a, _: a),
    "case": Operation(3, 3, _case),
    "not": Operation(1, 1, lambda a: ~(_missing(a) | a.astype(bool))),
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
