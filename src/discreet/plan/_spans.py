"""Codes of a column for which a condition can be true, and values that keys then have.

Guarantee
---------
On every row for which a condition is true the column's code lies in the :class:`Spans` that
:func:`solve` gives, or is NULL where it says so. Where it says `exact`, the condition is true for
each of these codes, and for some values of the other columns that it reads. Both follow from the
policy and the question, so they are public.

Proof sketch
------------
:func:`within` maps an interval of codes to an interval that holds the value of an expression for
each of them, by induction over the tree: an operator that rises has its values between those
at the ends; sums and products have them between those at the corners; a calendar part rises
inside the period that it counts; a branch counts unless its condition is false throughout. What
is not known is the operator's own public range. An interval on which a condition is true
throughout is taken, one on which it is nowhere true is dropped, any other is cut in two; a
single code is tried. Cuts are made at round codes (midnights, full hours, tens), where values
change, so that few are needed. Where :func:`cycle` proves that an expression repeats, one period is
looked at. After so many :data:`STEPS` the rest is kept undecided, and what would be more than
:data:`MOST` intervals is kept whole: more codes than are needed, never fewer. So time and memory
have a bound that no question moves, and results of late weigh no more than :data:`MOST_WEIGHT`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import islice, product
from math import gcd, lcm, prod
from typing import Final, NamedTuple

from discreet._dataclass import dataclass
from discreet._recent import Recent
from discreet.plan._calendar import days
from discreet.plan._codes import Spans
from discreet.plan._expr import (
    Abs,
    Arithmetic,
    AsNumber,
    Case,
    Coalesce,
    Column,
    Compare,
    Constant,
    DatePart,
    Divide,
    Expr,
    Guard,
    IsNull,
    Labelled,
    Logic,
    Moment,
    Not,
    OneOf,
    Rescale,
    Square,
)
from discreet.plan._rising import Curve
from discreet.plan._types import Code, Kind, Type

STEPS: Final = 8_000
"""Intervals that are looked at: a third of a second or so."""
_NODES: Final = 8
"""Nodes of a condition up to which one look at it is one step."""
MOST: Final = 50_000
"""Intervals that are told apart: six megabytes or so."""
MOST_WEIGHT: Final = 100_000
"""Intervals of all results of late together; each result counts :data:`_EACH` more."""
_EACH: Final = 400

Values = frozenset[tuple[Code, ...]]


class Box(NamedTuple):
    """Where a value lies: between two codes (none: `lo` above `hi`), or NULL if it may be."""

    lo: int
    hi: int
    null: bool = False

    @property
    def one(self) -> bool:
        """Whether it is a single code."""
        return self.lo == self.hi and not self.null


_NOTHING: Final = Box(1, 0, null=True)
Boxes = Mapping[str, Box]


def within(expr: Expr, boxes: Boxes) -> Box:
    """Interval of an expression's values where columns have theirs; others have their types'."""
    special = _NOT_STRICT.get(type(expr))
    if special is not None:
        return special(expr, boxes)
    inner = [within(c, boxes) for c in expr.children]
    null, one = False, True
    for lo, hi, may in inner:
        if lo > hi:
            return _NOTHING
        null, one = null or may, one and lo == hi
    if any(c.type.kind is Kind.TEXT for c in expr.children):
        return _of(expr.type)
    rule = _exact if one else _STRICT.get(type(expr), _corners if expr.rises else _any)
    box = rule(expr, inner)
    return box if box.null or not null else Box(box.lo, box.hi, null=True)


def _of(t: Type) -> Box:
    return Box(t.lo, t.hi, t.nullable)


def _any(expr: Expr, inner: Sequence[Box]) -> Box:  # noqa: ARG001 - a rule
    return _of(expr.type)


def _exact(expr: Expr, inner: Sequence[Box]) -> Box:
    value = expr._apply(*[b.lo for b in inner])  # noqa: SLF001 - of its own package
    return Box(value, value) if isinstance(value, int) else _NOTHING


def _corners(expr: Expr, inner: Sequence[Box]) -> Box:
    values = [
        expr._apply(*codes)  # noqa: SLF001 - of its own package
        for codes in product(*({b.lo, b.hi} for b in inner))
    ]
    return Box(min(values), max(values))  # type: ignore[type-var, arg-type] # codes, not texts


def _computed(expr: Arithmetic, inner: Sequence[Box]) -> Box:
    """A day less its number in the week, month or year is that unit's first day, and rises."""
    match expr:
        case Arithmetic("-", day, DatePart("weekday" | "day" | "doy", arg) as part) if day == days(
            arg
        ):
            first, last = (end - part.of_day(end) for end in inner[0][:2])
            return Box(first, last)
    return _corners(expr, inner)


def _divided(expr: Expr, inner: Sequence[Box]) -> Box:
    apart = inner[1].lo > 0 or inner[1].hi < 0
    return _corners(expr, inner) if apart else _of(expr.type)


def _size(expr: Expr, inner: Sequence[Box]) -> Box:
    """Of ABS and squares, which fall up to zero and rise then."""
    box = _corners(expr, inner)
    return Box(0, box.hi) if inner[0].lo < 0 < inner[0].hi else box


def _part(expr: DatePart, inner: Sequence[Box]) -> Box:
    same = expr.period(inner[0].lo) == expr.period(inner[0].hi)
    return _corners(expr, inner) if same else Box(expr.type.lo, expr.type.hi)


def _curve(expr: Curve, inner: Sequence[Box]) -> Box:
    first, last = (bisect_right(expr.edges, end) for end in inner[0][:2])
    some = expr.values[first : last + 1]
    return Box(min(some), max(some))


def _compared(expr: Compare, inner: Sequence[Box]) -> Box:
    (f, g), op, (left, right) = expr.factors, expr.op, inner
    a, b, c, d = left.lo * f, left.hi * f, right.lo * g, right.hi * g
    match op:
        case "<" | "<=":
            sure, never = (b < c, a >= d) if op == "<" else (b <= c, a > d)
        case ">" | ">=":
            sure, never = (a > d, b <= c) if op == ">" else (a >= d, b < c)
        case _:
            apart, same = b < c or d < a, a == b == c == d
            sure, never = (same, apart) if op == "=" else (apart, same)
    return Box(int(sure), int(not never))


def _listed(expr: OneOf, inner: Sequence[Box]) -> Box:
    lo, hi, _ = inner[0]
    inside = sum(lo <= c <= hi for c in {c for c in expr.codes if isinstance(c, int)})
    return Box(int(inside == hi - lo + 1), int(inside > 0))


def _not(expr: Expr, inner: Sequence[Box]) -> Box:  # noqa: ARG001 - a rule
    return Box(1 - inner[0].hi, 1 - inner[0].lo)


_STRICT: Final[dict[type[Expr], Callable[..., Box]]] = {
    Abs: _size,
    Arithmetic: _computed,
    Compare: _compared,
    Curve: _curve,
    DatePart: _part,
    Divide: _divided,
    Not: _not,
    OneOf: _listed,
    Square: _size,
}
"""Rules for arguments that are not NULL and not all single."""


def _column(expr: Column, boxes: Boxes) -> Box:
    return boxes.get(expr.name) or (
        Box(0, 0, null=True) if expr.of.kind is Kind.TEXT else _of(expr.of)
    )


def _constant(expr: Constant, boxes: Boxes) -> Box:  # noqa: ARG001 - a rule
    return _NOTHING if expr.code is None else Box(expr.code, expr.code)


def _missing(expr: IsNull, boxes: Boxes) -> Box:
    box = within(expr.arg, boxes)
    return Box(int(box.lo > box.hi), int(box.null))


def _logic(expr: Logic, boxes: Boxes) -> Box:
    """AND is the least of its parts, OR the greatest; NULL lies between false and true."""
    inner = [within(a, boxes) for a in expr.args]
    ends = [_three(b) for b in inner]
    choose, empty = (min, 2) if expr.op == "and" else (max, 0)
    lo = choose((e[0] for e in ends), default=empty)
    hi = choose((e[1] for e in ends), default=empty)
    if lo == hi == 1:
        return _NOTHING
    null = lo <= 1 <= hi and any(b.null for b in inner)
    return Box(int(lo >= 1), int(hi == 2), null=null)


def _three(box: Box) -> tuple[int, int]:
    """Least and greatest truth: 0 false, 1 NULL, 2 true."""
    if box.lo > box.hi:
        return 1, 1
    lo, hi = 2 * box.lo, 2 * box.hi
    return (min(lo, 1), max(hi, 1)) if box.null else (lo, hi)


def _case(expr: Case, boxes: Boxes) -> Box:
    cases = []
    for test, value in expr.branches:
        sure = _true(within(test, boxes))
        if sure is not False:
            cases.append(within(value, boxes))
        if sure:
            return _hull(cases)
    return _hull([*cases, within(expr.default, boxes)])


def _coalesce(expr: Coalesce, boxes: Boxes) -> Box:
    cases = []
    for arg in expr.args:
        box = within(arg, boxes)
        cases.append(box)
        if not box.null:
            return _hull([b._replace(null=False) for b in cases])
    return _hull(cases)


def _hull(boxes: Sequence[Box]) -> Box:
    some = [b for b in boxes if b.lo <= b.hi]
    if not some:
        return _NOTHING
    null = any(b.null for b in boxes)
    return Box(min(b.lo for b in some), max(b.hi for b in some), null=null)


_NOT_STRICT: Final[dict[type[Expr], Callable[..., Box]]] = {
    Case: _case,
    Coalesce: _coalesce,
    Column: _column,
    Constant: _constant,
    IsNull: _missing,
    Logic: _logic,
}
"""Rules for operators that read columns, or give a value where an argument is NULL."""


def rising(expr: Expr) -> bool:
    """Whether an expression only rises with one column: its bounds are its values at the ends."""
    while expr.rises or (isinstance(expr, Arithmetic) and expr.op == "+"):
        parts = [c for c in expr.children if c.columns]
        if len(parts) != 1:
            return False
        expr = parts[0]
    return isinstance(expr, Column)


def cycle(expr: Expr, name: str, codes: Spans) -> tuple[int, int] | None:
    """A period of an expression in codes of a column, and by how much its value grows in it.

    By induction: f(c + period) = f(c) + growth for all codes. None where none is known.
    """
    if isinstance(expr, Column | Constant):
        return 1, int(isinstance(expr, Column) and expr.name == name)
    inner = [cycle(child, name, codes) for child in expr.children]
    cycles = [c for c in inner if c is not None]
    if not cycles or len(cycles) < len(inner):
        return None
    period = lcm(*(p for p, _ in cycles))
    grown = [g * (period // p) for p, g in cycles]
    match expr:
        case Guard(_, lo, hi) if lo <= codes[0] and codes[-1] <= hi:
            return cycles[0]  # it changes nothing here
        case Moment() | AsNumber() | Labelled():
            return cycles[0]
        case Arithmetic("+" | "-" as op):
            f, g = expr.factors
            return period, grown[0] * f + (grown[1] * g if op == "+" else -grown[1] * g)
        case Arithmetic("*", left, Constant(int(times))) if left.columns:
            return period, grown[0] * times
        case Rescale() if expr.mode == "floor" or expr.arg.type.lo >= 0:
            f, g = expr.ratio
            times = g // gcd(grown[0] * f, g)
            return period * times, grown[0] * times * f // g
        case DatePart() if expr.turn is not None:
            return period * (grown[0] / expr.turn).denominator, 0
    return None if any(grown) else (period, 0)


def _cut(codes: Spans, period: int) -> Iterator[tuple[int, int]]:
    """Cut intervals where periods begin."""
    for lo, hi in codes.ends:
        for start in (lo, *range(lo - lo % period + period, hi + 1, period)):
            yield start, min(hi, start - start % period + period - 1)


class Solution(NamedTuple):
    """Codes that can meet a condition, whether NULL can, and whether each of the codes does.

    Where the condition reads other columns: whether each does for some of their values.
    """

    codes: Spans
    null: bool
    exact: bool


_Question = tuple[Expr, str, Spans, tuple[tuple[str, Box], ...], int]
_SOLUTIONS: Final = Recent[_Question, Solution](
    MOST_WEIGHT, lambda key, solution: _EACH + len(key[2].ends) + len(solution.codes.ends)
)


def solve(
    test: Expr, name: str, codes: Spans, others: tuple[tuple[str, Box], ...] = (), most: int = STEPS
) -> Solution:
    """Find the codes of one column for which a condition can be true.

    Other columns lie in the boxes given, or anywhere in their types. At most so many steps
    are done.
    """
    key = test, name, codes, others, most
    return _SOLUTIONS(key, lambda: _solve(*key))


def _solve(
    test: Expr, name: str, codes: Spans, others: tuple[tuple[str, Box], ...], most: int
) -> Solution:
    boxes = dict(others)
    null = _true(within(test, boxes | {name: _NOTHING})) is not False
    repeated = cycle(test, name, codes) if codes else None
    period = repeated[0] if repeated is not None and repeated[1] == 0 else None
    search = _Search(test, name, boxes, Cuts.of(test.columns, name), most, _steps([test]))
    if period is None or len(codes) < period:
        spans = _gathered(e for lo, hi in codes.ends for e in search.pieces(lo, hi))
    elif len(codes) // period <= MOST:
        spans = _gathered(_repeated(search, codes, period))
    else:  # too many periods to tell apart, unless all of one are alike
        once = _gathered(search.pieces(codes[0], codes[0] + period - 1))
        alike = search.exact and once is not None and len(once) in (0, period)
        spans = (codes if once else once) if alike else None
    if spans is None:
        return Solution(codes, null, exact=False)
    return Solution(spans, null, search.exact)


def _steps(exprs: Sequence[Expr]) -> int:
    """Steps that one look at expressions takes: long ones take longer."""
    stack, nodes = list(exprs), 0
    while stack:
        stack += stack.pop().children
        nodes += 1
    return -(-nodes // _NODES)


def _repeated(search: _Search, codes: Spans, period: int) -> Iterator[tuple[int, int]]:
    """Intervals of a condition that repeats: each pattern is looked at once."""
    patterns: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for lo, hi in _cut(codes, period):
        place = lo % period, hi - lo
        if place not in patterns:
            patterns[place] = [(a - lo, b - lo) for a, b in search.pieces(lo, hi)]
        yield from ((a + lo, b + lo) for a, b in patterns[place])


def _gathered(ends: Iterable[tuple[int, int]]) -> Spans | None:
    """Join intervals that touch, as they come; None where these are more than can be kept."""
    spans: list[tuple[int, int]] = []
    for lo, hi in ends:
        if spans and lo <= spans[-1][1] + 1:
            spans[-1] = spans[-1][0], hi
        elif len(spans) == MOST:
            return None
        else:
            spans.append((lo, hi))
    return Spans(tuple(spans))


@dataclass
class _Search:
    """Intervals of a column's codes on which a condition can be true."""

    test: Expr
    name: str
    boxes: Boxes
    cuts: Cuts
    steps: int
    """Steps that may still be taken."""
    each: int
    """Steps that one look takes."""
    exact: bool = True

    def pieces(self, lo: int, hi: int) -> Iterator[tuple[int, int]]:
        """Cut an interval until it is decided, or no steps are left."""
        stack = [(lo, hi)]
        while stack:
            lo, hi = stack.pop()
            sure = self._sure(Box(lo, hi))
            if sure is None and lo < hi and self.steps > 0:
                middle = self.cuts.between(lo, hi)
                stack += [(middle, hi), (lo, middle - 1)]
            elif sure is not False:
                yield lo, hi
                self.exact &= bool(sure)

    def _sure(self, own: Box) -> bool | None:
        """Whether each code can meet the condition (True), or none can (False)."""
        sure = self._at({**self.boxes, self.name: own})
        if sure is not None or not self.boxes:
            return sure
        # one choice of the other columns may do for all codes, and most often it is an end
        ends = [[(n, e) for e in _ends(box)] for n, box in self.boxes.items()]
        for some in islice(product(*ends), _CORNERS):
            if self._at({**dict(some), self.name: own}):
                return True
        return self._some(own) if own.one else None

    def _at(self, boxes: Boxes) -> bool | None:
        self.steps -= self.each
        return _true(within(self.test, boxes))

    def _some(self, own: Box) -> bool | None:
        """Whether the condition is true for one code and some values of the other columns."""
        kinds = [[b for b in (box._replace(null=False), _NOTHING) if b != _NOTHING or box.null]
                 for box in self.boxes.values()]  # fmt: skip
        stack = [dict(zip(self.boxes, some, strict=True)) for some in product(*kinds)][::-1]
        while stack and self.steps > 0:
            boxes = stack.pop()
            sure = self._at({**boxes, self.name: own})
            if sure:
                return True
            name, box = max(boxes.items(), key=lambda pair: pair[1].hi - pair[1].lo)
            if sure is None and box.lo < box.hi:
                middle = (box.lo + box.hi + 1) // 2
                halves = Box(middle, box.hi), Box(box.lo, middle - 1)
                stack += [boxes | {name: half} for half in halves]
            elif sure is None:
                return None
        return None if stack else False


_CORNERS: Final = 9
"""Choices of other columns that are tried for all codes of an interval."""


def _ends(box: Box) -> list[Box]:
    """The ends of a box, and NULL."""
    ends = dict.fromkeys([Box(box.hi, box.hi), Box(box.lo, box.lo)])
    return [*(ends if box.lo <= box.hi else ()), *([_NOTHING] if box.null else [])]


def _true(box: Box) -> bool | None:
    """Whether a condition is true (True), is not true (False), or may be either (None)."""
    if box.lo > box.hi or box.hi == 0:
        return False
    return True if box.lo == 1 and not box.null else None


_Rows = tuple[tuple[str, Spans, bool], ...]
_IMAGES: Final = Recent[tuple[tuple[Expr, ...], _Rows, int], Values | None](
    MOST_WEIGHT,
    lambda key, images: (
        _EACH + sum(len(codes.ends) for _, codes, _ in key[1]) + len(key[0]) * len(images or ())
    ),
)


def image(exprs: tuple[Expr, ...], rows: _Rows, steps: int = STEPS) -> Values | None:
    """Tuples of values without NULL that expressions have on given codes of their columns.

    `rows` names each column, its codes and whether it can be NULL, which counts as well. None
    where more steps would be needed.
    """
    return _IMAGES((exprs, rows, steps), lambda: _image(exprs, rows, steps))


def _image(exprs: tuple[Expr, ...], rows: _Rows, steps: int) -> Values | None:
    most = prod(len(e.possible) for e in exprs)
    cuts = {name: Cuts.of([c for e in exprs for c in e.columns], name) for name, _, _ in rows}
    if len(rows) == 1 and rows[0][1]:
        rows = ((rows[0][0], _once(exprs, *rows[0][:2]), rows[0][2]),)
    starts = [
        [*([_NOTHING] if null else []), *(Box(*e) for e in codes.ends)] for _, codes, null in rows
    ]
    if prod(map(len, starts)) > STEPS:
        return None
    names = list(cuts)
    stack = [dict(zip(names, boxes, strict=True)) for boxes in product(*starts)][::-1]
    images: set[tuple[Code, ...]] = set()
    for _ in range(steps // _steps(exprs)):
        if not stack or len(images) == most:
            return frozenset(images)
        boxes = stack.pop()
        values = [within(e, boxes) for e in exprs]
        if any(v.lo > v.hi for v in values):
            continue  # NULL in every row
        if all(v.one for v in values):
            images.add(tuple(v.lo for v in values))
            continue
        name, box = max(boxes.items(), key=lambda pair: pair[1].hi - pair[1].lo)
        if box.lo >= box.hi:
            return None
        middle = cuts[name].between(box.lo, box.hi)
        stack += [boxes | {name: Box(middle, box.hi)}, boxes | {name: Box(box.lo, middle - 1)}]
    return None


def _once(exprs: Sequence[Expr], name: str, codes: Spans) -> Spans:
    """Leave out intervals that only repeat what expressions are on others."""
    cycles = [cycle(e, name, codes) for e in exprs]
    periods = [c[0] for c in cycles if c is not None and c[1] == 0]
    if len(periods) < len(cycles):
        return codes
    period = lcm(*periods)
    firsts: dict[tuple[int, int], tuple[int, int]] = {}
    for lo, hi in codes.ends:
        firsts.setdefault((lo % period, min(hi - lo, period - 1)), (lo, min(hi, lo + period - 1)))
    return Spans(tuple(firsts.values()))


class Cuts(NamedTuple):
    """Lengths in codes at whose multiples values tend to change, the longest first."""

    lengths: tuple[int, ...]

    @classmethod
    def of(cls, columns: Iterable[Column], name: str) -> Cuts:
        """Days, hours and minutes of times; tens of numbers."""
        t = next(c.of for c in columns if c.name == name)
        whole: Iterable[Fraction] = (Fraction(10) ** k for k in range(15, -4, -1))
        if t.kind is Kind.TIMESTAMP:
            whole = map(Fraction, (86_400, 3_600, 60, 1))
        lengths = [int(w / t.step) for w in whole if (w / t.step).denominator == 1]
        return cls((*lengths, 1) if t.moment != "date" else (1,))

    def between(self, lo: int, hi: int) -> int:
        """Cut an interval: the code nearest to its middle that is as round as can be."""
        middle = (lo + hi + 1) // 2
        for length in self.lengths:
            for code in (middle // length * length, -(-middle // length) * length):
                if lo < code <= hi:
                    return code
        return middle
