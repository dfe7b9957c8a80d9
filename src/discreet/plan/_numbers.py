"""Operators that give numbers: arithmetic, rounding, calendar parts, buckets."""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from operator import add, mul, sub
from typing import Any, Final
from typing import Literal as Choice

from discreet._dataclass import dataclass, replace
from discreet.errors import ParameterError
from discreet.plan._nodes import (
    Binary,
    Expr,
    Unary,
    Writer,
    common_step,
    literal,
    need,
    scaled,
    times,
)
from discreet.plan._types import EPOCH_TIME, Code, Kind, Type

ARITHMETIC: Final[dict[str, Callable[[Any, Any], Any]]] = {"+": add, "-": sub, "*": mul}


@dataclass(frozen=True)
class Arithmetic(Binary):
    """Sum, difference or product of two numbers, exact on the finer grid."""

    op: Choice["+", "-", "*"]
    left: Expr
    right: Expr
    words = "{left} {op} {right}"

    @cached_property
    def factors(self) -> tuple[int, int]:
        """Factors to the common grid; a product has a grid of its own."""
        return (1, 1) if self.op == "*" else super().factors

    def _infer(self) -> Type:
        a, b = self.left.type, self.right.type
        need(a.is_numeric and b.is_numeric, f"{self.op} needs two numbers", a, b)
        p, q, r, s = self._ends()
        ends = [ARITHMETIC[self.op](x, y) for x in (p, q) for y in (r, s)]
        step = a.step * b.step if self.op == "*" else common_step(a, b)
        return Type.number(min(ends), max(ends), step, null=self.nullable)

    def _apply(self, *codes: Any) -> Code:
        (x, y), (f, g) = codes, self.factors
        return int(ARITHMETIC[self.op](x * f, y * g))

    def sql(self, w: Writer) -> str:
        x, y = self._sides(w)
        return f"({x} {self.op} {y})"


def _round_div(a: int, b: int) -> int:
    """Nearest integer to a/b, halves towards plus infinity."""
    a, b = (-a, -b) if b < 0 else (a, b)
    return (2 * a + b) // (2 * b)


@dataclass(frozen=True)
class Divide(Binary):
    """Quotient rounded (half up) to a public step; division by zero is NULL."""

    left: Expr
    right: Expr
    step: Fraction
    words = "{left} / {right}"

    @cached_property
    def factors(self) -> tuple[int, int]:
        """Integers ``(f, g)`` with quotient code = round(left·f / (right·g))."""
        scale = self.left.type.step / (self.right.type.step * self.step)
        return scale.numerator, scale.denominator

    def _infer(self) -> Type:
        a, b = self.left.type, self.right.type
        need(a.is_numeric and b.is_numeric, "/ needs two numbers", a, b)
        if b.lo == b.hi == 0:
            raise ParameterError("division by the constant zero")
        f, g = self.factors
        # divisors nearest to zero and farthest from it bound the quotient
        tops = (a.lo, a.hi) if a.lo > 0 or a.hi < 0 else (a.lo, a.hi, 0)
        divisors = [d for d in (b.lo, b.hi, 1, -1) if d and b.lo <= d <= b.hi]
        ends = [_round_div(x * f, d * g) for x in tops for d in divisors]
        p, q, r, s = self._ends()
        wide = 2 * max(-p, q) + max(-r, s)  # the rounded dividend must fit too
        Type.number(-wide, wide)
        null = self.nullable or b.lo <= 0 <= b.hi
        return Type.number(min(ends), max(ends), self.step, null=null)

    def _apply(self, *codes: Any) -> Code:
        (x, y), (f, g) = codes, self.factors
        return None if y == 0 else _round_div(x * f, y * g)

    def sql(self, w: Writer) -> str:
        """Write floor((2·|B|·A/B + |B|) / (2·|B|)), all of it below 2^63.

        Engines cut quotients off towards zero: one is taken off where the dividend
        is negative and leaves a remainder. The clamp never acts. It says to whoever
        reads the statement what the correlation of dividend and divisor implies.
        """
        (f, g), a, b = self.factors, self.left.type, self.right.type
        y = w.bind(self.right)
        if b.lo < 0 < b.hi:
            x = w.bind(self.left)
            top = f"CASE WHEN {y} < 0 THEN {_sum(w, x, -2 * f, y, -g)}"
            top += f" ELSE {_sum(w, x, 2 * f, y, g)} END"
            bottom = f"CASE WHEN {y} < 0 THEN {y} * {w.integer(-2 * g)}"
            bottom += f" WHEN {y} > 0 THEN {y} * {w.integer(2 * g)} END"
            least = -2 * f * max(-a.lo, a.hi)
        else:
            sign = 1 if b.hi > 0 else -1
            top = _sum(w, w.value(self.left), 2 * f * sign, y, g * sign)
            divisor = f"NULLIF({y}, 0)" if b.lo <= 0 <= b.hi else y
            bottom = f"({divisor} * {w.integer(2 * g * sign)})"
            least = 2 * f * min(a.lo * sign, a.hi * sign) + g * min(abs(b.lo), abs(b.hi))
        if least >= 0:
            quotient = w.quotient(top, bottom)
        else:
            n, d = w.hold(top), w.hold(bottom)
            less = f"CASE WHEN {n} % {d} < 0 THEN {w.integer(1)} ELSE {w.integer(0)} END"
            quotient = f"({w.quotient(n, d)} - {less})"
        return _clamped(w, w.hold(quotient), self.type.lo, self.type.hi)


def _plus(w: Writer, x: str, f: int, g: int) -> str:
    return f"({x} * {w.integer(f)} + {w.integer(g)})"


def _sum(w: Writer, x: str, f: int, y: str, g: int) -> str:
    return f"({x} * {w.integer(f)} + {y} * {w.integer(g)})"


@dataclass(frozen=True)
class Rescale(Unary):
    """A number rounded to another step (half away from zero, or down for ``floor``)."""

    step: Fraction
    mode: Choice["round", "floor"] = "round"
    words = "{mode}({arg}, {step})"
    rises = True

    @cached_property
    def ratio(self) -> tuple[int, int]:
        """Old step over new step."""
        return (self.arg.type.step / self.step).as_integer_ratio()

    def _infer(self) -> Type:
        t = self.arg.type
        need(t.is_numeric, "rounding needs a number", t)
        if self.step <= 0:
            raise ParameterError("a rounding step must be positive")
        f, g = self.ratio
        wide = max(2 * abs(end) for end in times(t, f)) + g
        Type.number(-wide, wide)
        return Type.number(self._round(t.lo), self._round(t.hi), self.step, null=t.nullable)

    def _round(self, code: int) -> int:
        f, g = self.ratio
        if self.mode == "floor":
            return code * f // g
        size = _round_div(abs(code) * f, g)
        return size if code >= 0 else -size

    def _apply(self, *codes: Any) -> Code:
        return self._round(codes[0])

    def sql(self, w: Writer) -> str:
        (f, g), t = self.ratio, self.arg.type
        if g == 1:
            return scaled(w, self.arg, f)
        if self.mode == "floor":
            return w.floor(scaled(w, self.arg, f), g, (t.lo * f, t.hi * f))
        x = w.bind(self.arg)
        up = w.quotient(_plus(w, x, 2 * f, g), w.integer(2 * g))
        down = w.quotient(_plus(w, x, 2 * f, -g), w.integer(2 * g))  # cut off towards zero
        if t.lo >= 0 or t.hi <= 0:
            return up if t.lo >= 0 else down
        return f"CASE WHEN {x} < {w.integer(0)} THEN {down} ELSE {up} END"


def _magnitudes(t: Type) -> tuple[int, int]:
    low, high = sorted((abs(t.lo), abs(t.hi)))
    return 0 if t.lo <= 0 <= t.hi else low, high


@dataclass(frozen=True)
class Abs(Unary):
    """Absolute value."""

    words = "abs({arg})"

    def _infer(self) -> Type:
        t = self.arg.type
        need(t.is_numeric, "ABS needs a number", t)
        low, high = _magnitudes(t)
        return Type.number(low, high, t.step, null=t.nullable)

    def _apply(self, *codes: Any) -> Code:
        return int(abs(codes[0]))

    def sql(self, w: Writer) -> str:
        return w.absolute(w.value(self.arg))


@dataclass(frozen=True)
class Square(Unary):
    """A number times itself: never negative, unlike a product's bounds would say."""

    words = "square({arg})"

    def _infer(self) -> Type:
        t = self.arg.type
        need(t.is_numeric, "squares need a number", t)
        low, high = _magnitudes(t)
        return Type.number(low**2, high**2, t.step**2, null=t.nullable)

    def _apply(self, *codes: Any) -> Code:
        return int(codes[0] ** 2)

    def sql(self, w: Writer) -> str:
        x = w.bind(self.arg)
        return f"({x} * {x})"


@dataclass(frozen=True)
class AsNumber(Unary):
    """The code itself as a plain number: truth as 0 and 1, a date as its day."""

    words = "number({arg})"
    rises = True

    def _infer(self) -> Type:
        t = self.arg.type
        need(t.kind is not Kind.TEXT, "a number is needed", t)
        return Type.number(t.lo, t.hi, null=t.nullable)

    def _apply(self, *codes: Any) -> Code:
        return int(codes[0])

    def sql(self, w: Writer) -> str:
        return w.value(self.arg)


def _clamped(w: Writer, x: str, lo: int | None, hi: int | None) -> str:
    ends = [(op, w.integer(end)) for op, end in (("<", lo), (">", hi)) if end is not None]
    cases = " ".join(f"WHEN {x} {op} {end} THEN {end}" for op, end in ends)
    return f"CASE {cases} ELSE {x} END"


@dataclass(frozen=True)
class Clamp(Unary):
    """A code moved into public bounds (codes on its own grid)."""

    lo: int
    hi: int
    words = "clamp({arg}, {lo}, {hi})"
    rises = True

    def _infer(self) -> Type:
        t = self.arg.type
        need(t.kind is not Kind.TEXT, "bounds need a value with a code", t)
        if self.lo > self.hi:
            raise ParameterError(f"empty range: {self.lo} to {self.hi}")
        # an end beyond the argument's own range never acts
        self._set(lo=max(self.lo, min(t.lo, self.hi)), hi=min(self.hi, max(t.hi, self.lo)))
        return replace(t, lo=self._move(t.lo), hi=self._move(t.hi))

    def _move(self, code: int) -> int:
        return min(max(code, self.lo), self.hi)

    def _apply(self, *codes: Any) -> Code:
        return self._move(codes[0])

    def sql(self, w: Writer) -> str:
        t = self.arg.type
        lo = self.lo if self.lo > t.lo else None
        hi = self.hi if self.hi < t.hi else None
        if lo is None and hi is None:
            return w.value(self.arg)
        return _clamped(w, w.bind(self.arg), lo, hi)


@dataclass(frozen=True)
class Guard(Clamp):
    """Bounds that a condition proves, kept on the rows that the condition excludes too.

    Where the condition is true the clamp changes nothing, so people see the
    argument alone. Elsewhere it keeps all arithmetic above it within 64 bits.
    """

    words = "{arg}"


@dataclass(frozen=True)
class Capped(Clamp):
    """A default bound of a count or sum per unit, which one in the question replaces."""

    words = "{arg} up to {hi}"


Part = Choice[
    "year", "quarter", "month", "week", "day", "weekday", "doy", "hour", "minute", "second"
]
_PARTS: Final[dict[str, tuple[tuple[int, int] | None, str, Callable[[dt.datetime], int]]]] = {
    "year": (None, "year", lambda when: when.year),
    "quarter": ((1, 4), "quarter", lambda when: (when.month + 2) // 3),
    "month": ((1, 12), "month", lambda when: when.month),
    "day": ((1, 31), "day", lambda when: when.day),
    "weekday": ((1, 7), "isodow", lambda when: when.isoweekday()),
    "week": ((1, 53), "week", lambda when: when.isocalendar().week),
    "doy": ((1, 366), "doy", lambda when: when.timetuple().tm_yday),
    "hour": ((0, 23), "", lambda when: when.hour),
    "minute": ((0, 59), "", lambda when: when.minute),
    "second": ((0, 59), "", lambda when: when.second),
}
"""Calendar parts: range (None: of the bounds), SQL's word, meaning (proleptic Gregorian, UTC)."""
_PERIODS: Final[dict[str, Callable[[dt.datetime], object]]] = {
    "year": lambda _: None,
    "day": lambda when: (when.year, when.month),
    "weekday": lambda when: when.isocalendar()[:2],
    "week": lambda when: when.isocalendar().year,
    "hour": lambda when: when.date(),
    "minute": lambda when: (when.date(), when.hour),
    "second": lambda when: (when.date(), when.hour, when.minute),
}
"""Inside what a part of the calendar only rises; not listed: a year."""
_CLOCK: Final = {"hour": (3_600, 24), "minute": (60, 60), "second": (1, 60)}
"""Seconds of a part of the clock, and how many of them make the next."""
_DAY: Final = Fraction(86_400)


@dataclass(frozen=True)
class DatePart(Expr):
    """A calendar part of a date or timestamp (weekday: Monday is 1)."""

    part: Part
    arg: Expr
    words = "{part}({arg})"

    def _infer(self) -> Type:
        t = self.arg.type
        need(t.kind in (Kind.DATE, Kind.TIMESTAMP), "date parts need a date or timestamp", t)
        if self.part in _CLOCK and t.kind is Kind.DATE:
            raise ParameterError(f"a date has no {self.part}")
        times(t, self._ticks[0])
        lo, hi = _PARTS[self.part][0] or (self._read(t.lo), self._read(t.hi))
        return Type.number(lo, hi, null=t.nullable)

    @property
    def _ticks(self) -> tuple[int, int]:
        """Whole days (or hours, …) in a code, as a ratio."""
        if self.arg.type.kind is Kind.DATE:
            return 1, 1
        length = _CLOCK[self.part][0] if self.part in _CLOCK else _DAY
        return (self.arg.type.step / length).as_integer_ratio()

    @cached_property
    def _micros(self) -> tuple[int, int]:
        """Microseconds of a code, as a ratio."""
        t = self.arg.type
        return ((_DAY if t.kind is Kind.DATE else t.step) * 1_000_000).as_integer_ratio()

    def _when(self, code: int) -> dt.datetime:
        n, d = self._micros
        return EPOCH_TIME + dt.timedelta(microseconds=code * n // d)

    def of_day(self, day: int) -> int:
        """Part of the calendar of a day since 1970."""
        return _PARTS[self.part][2](EPOCH_TIME + dt.timedelta(days=day))

    def _read(self, code: int) -> int:
        return _PARTS[self.part][2](self._when(code))

    @cached_property
    def turn(self) -> Fraction | None:
        """Codes after which the part repeats; None where years and months differ in length."""
        length = {"weekday": 7 * 86_400, "hour": 86_400, "minute": 3_600, "second": 60}
        n, d = self._micros
        turn = length.get(self.part)
        return None if turn is None else Fraction(turn * 1_000_000 * d, n)

    def period(self, code: int) -> object:
        """Name the time around a code in which the part only rises, as months do in a year."""
        when = self._when(code)
        return _PERIODS[self.part](when) if self.part in _PERIODS else when.year

    def _apply(self, *codes: Any) -> Code:
        return self._read(codes[0])

    def sql(self, w: Writer) -> str:
        (f, g), t = self._ticks, self.arg.type
        ticks = w.floor(scaled(w, self.arg, f), g, (t.lo * f, t.hi * f))
        if self.part in _CLOCK:
            turn = _CLOCK[self.part][1]
            return f"(({ticks} % {turn} + {turn}) % {turn})"
        return w.calendar(_PARTS[self.part][1], ticks)


@dataclass(frozen=True)
class Moment(Unary):
    """A number of days as a date, or of seconds as a time.

    ``listed`` names the only codes that it can take (none: all of its range), so
    that firsts of months are keys without the days between them. They increase.
    """

    kind: Kind
    listed: Sequence[int] = ()
    words = "{kind}({arg})"
    rises = True

    def _infer(self) -> Type:
        t = self.arg.type
        need(t.is_numeric, "a date is made of a number", t)
        date = self.kind is Kind.DATE
        need(not date or t.step == 1, "a date is made of whole days", t)
        length = 1 if date else 1 / _DAY
        if t.lo * t.step * length < _DAYS[0] or t.hi * t.step * length >= _DAYS[1] + 1:
            raise ParameterError("the dates leave the years 1 to 9999")
        ends = bisect_left(self.listed, t.lo), bisect_right(self.listed, t.hi)
        self._set(listed=self.listed[slice(*ends)])
        return Type(self.kind, t.lo, t.hi, t.step, nullable=t.nullable)

    @property
    def possible(self) -> Sequence[int]:
        """The listed codes, or all."""
        return self.listed or super().possible

    def _apply(self, *codes: Any) -> Code:
        return int(codes[0])

    def sql(self, w: Writer) -> str:
        return w.value(self.arg)


_DAYS: Final = (-719_162, 2_932_896)
"""Numbers of 0001-01-01 and 9999-12-31, which every engine knows."""


@dataclass(frozen=True)
class Labelled(Unary):
    """A whole number as the label in its place, counted from the lowest number."""

    labels: tuple[str, ...]
    rises = True

    def _infer(self) -> Type:
        t = self.arg.type
        need(t.is_numeric and t.size == len(self.labels), "each number needs one label", t)
        if len(set(self.labels)) < len(self.labels):
            raise ParameterError("two numbers have one label")
        Type.number(min(0, -t.lo), max(0, -t.lo))
        return Type(Kind.CATEGORY, 0, t.size - 1, labels=self.labels, nullable=t.nullable)

    def _apply(self, *codes: Any) -> Code:
        return int(codes[0] - self.arg.type.lo)

    def sql(self, w: Writer) -> str:
        return f"({w.value(self.arg)} - {w.integer(self.arg.type.lo)})"

    def describe(self) -> str:
        return f"label({self.arg.describe()}, {self.labels[0]} to {self.labels[-1]})"


@dataclass(frozen=True)
class Bucket(Unary):
    """Number of public edges that lie at or below a code, plus `first`.

    So 0 lies below the first edge and ``len(edges)`` at or above the last, as in
    SQL's WIDTH_BUCKET. Edges that no code can cross are dropped, those below all
    codes are counted in `first`.
    """

    edges: tuple[int, ...]
    first: int = 0
    rises = True

    def _infer(self) -> Type:
        t = self.arg.type
        ordered = t.kind not in (Kind.TEXT, Kind.CATEGORY, Kind.BOOLEAN)
        need(ordered, "buckets need an ordered value", t)
        if any(a >= b for a, b in pairwise(self.edges)):
            raise ParameterError("bucket edges must increase")
        first = self.first + sum(e <= t.lo for e in self.edges)
        self._set(edges=tuple(e for e in self.edges if t.lo < e <= t.hi), first=first)
        return Type.number(first, first + len(self.edges), null=t.nullable)

    def _apply(self, *codes: Any) -> Code:
        return self.first + sum(int(codes[0] >= e) for e in self.edges)

    def sql(self, w: Writer) -> str:
        x, edges, first = w.bind(self.arg), self.edges, self.first
        widths = {b - a for a, b in pairwise(edges)}
        if len(widths) != 1:
            place = w.steps(x, edges, range(first, first + len(edges) + 1))
            return f"CASE WHEN {x} IS NOT NULL THEN {place} END"
        start, end = w.integer(edges[0]), w.integer(edges[-1])
        inside = w.quotient(f"({x} - {start})", w.integer(widths.pop()))
        return (
            f"CASE WHEN {x} < {start} THEN {w.integer(first)} "
            f"WHEN {x} >= {end} THEN {w.integer(first + len(edges))} "
            f"ELSE {inside} + {w.integer(first + 1)} END"
        )

    def describe(self) -> str:
        t, edges = self.arg.type, self.edges
        ends = f" from {literal(t, edges[0])} to {literal(t, edges[-1])}" if edges else ""
        return f"bucket({self.arg.describe()}, {len(edges)} edges{ends})"
