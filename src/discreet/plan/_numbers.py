"""Row expressions that give numbers: arithmetic, rounding, calendar parts, buckets."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal as Choice

from discreet.errors import ParameterError
from discreet.plan._nodes import Expr, Row, as_int, common_step, step_ratio
from discreet.plan._types import EPOCH, EPOCH_TIME, Code, Kind, Type


@dataclass(frozen=True)
class Arithmetic(Expr):
    """Sum, difference or product of two numbers, exact on the finer grid."""

    op: Choice["+", "-", "*"]
    left: Expr
    right: Expr

    @property
    def children(self) -> tuple[Expr, ...]:
        """Both operands."""
        return (self.left, self.right)

    @property
    def factors(self) -> tuple[int, int]:
        """Integers by which the codes are multiplied before adding."""
        unit = common_step(self.left.type, self.right.type)
        return step_ratio(self.left.type.step, unit), step_ratio(self.right.type.step, unit)

    def _infer(self) -> Type:
        a, b = self.left.type, self.right.type
        if not (a.is_numeric and b.is_numeric):
            raise ParameterError(f"{self.op} needs two numbers, got {a} and {b}")
        null = a.nullable or b.nullable
        if self.op == "*":
            ends = [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
            return Type.number(min(ends), max(ends), a.step * b.step, null=null)
        f, g = self.factors
        unit = common_step(a, b)
        for t, factor in ((a, f), (b, g)):  # both operands on the finer grid must fit too
            Type.number(t.lo * factor, t.hi * factor)
        if self.op == "+":
            return Type.number(a.lo * f + b.lo * g, a.hi * f + b.hi * g, unit, null=null)
        return Type.number(a.lo * f - b.hi * g, a.hi * f - b.lo * g, unit, null=null)

    def evaluate(self, row: Row) -> Code:
        """Combine the two values; NULL if either is."""
        a, b = self.left.evaluate(row), self.right.evaluate(row)
        if a is None or b is None:
            return None
        if self.op == "*":
            return as_int(a) * as_int(b)
        f, g = self.factors
        return as_int(a) * f + as_int(b) * g if self.op == "+" else as_int(a) * f - as_int(b) * g


@dataclass(frozen=True)
class Divide(Expr):
    """Quotient rounded (half up) to a public step; division by zero is NULL."""

    left: Expr
    right: Expr
    step: Fraction

    @property
    def children(self) -> tuple[Expr, ...]:
        """Dividend and divisor."""
        return (self.left, self.right)

    @property
    def factors(self) -> tuple[int, int]:
        """Integers ``(f, g)`` with quotient code = round(left·f / (right·g))."""
        scale = self.left.type.step / (self.right.type.step * self.step)
        return scale.numerator, scale.denominator

    def _infer(self) -> Type:
        a, b = self.left.type, self.right.type
        if not (a.is_numeric and b.is_numeric):
            raise ParameterError(f"/ needs two numbers, got {a} and {b}")
        if b.lo == b.hi == 0:
            raise ParameterError("division by the constant zero")
        f, g = self.factors
        # divisors nearest to zero and farthest from it bound the quotient
        near = [d for d in (1, -1) if b.lo <= d <= b.hi]
        ends = [
            _round_div(x * f, d * g) for x in (a.lo, a.hi, 0) for d in (b.lo, b.hi, *near) if d != 0
        ]
        if a.lo > 0 or a.hi < 0:
            ends = [
                _round_div(x * f, d * g) for x in (a.lo, a.hi) for d in (b.lo, b.hi, *near) if d
            ]
        null = a.nullable or b.nullable or b.lo <= 0 <= b.hi
        # intermediate 2·a·f + b·g must fit too
        wide = max(abs(a.lo), abs(a.hi)) * f * 2 + max(abs(b.lo), abs(b.hi)) * g
        Type.number(-wide, wide)
        return Type.number(min(ends), max(ends), self.step, null=null)

    def evaluate(self, row: Row) -> Code:
        """Divide and round; NULL for NULL or a zero divisor."""
        a, b = self.left.evaluate(row), self.right.evaluate(row)
        if a is None or b is None or b == 0:
            return None
        f, g = self.factors
        return _round_div(as_int(a) * f, as_int(b) * g)


def _round_div(a: int, b: int) -> int:
    """Nearest integer to a/b, halves towards plus infinity."""
    if b < 0:
        a, b = -a, -b
    return (2 * a + b) // (2 * b)


@dataclass(frozen=True)
class Rescale(Expr):
    """A number rounded to another step (half up, or down for ``floor``)."""

    arg: Expr
    step: Fraction
    mode: Choice["round", "floor"] = "round"

    @property
    def children(self) -> tuple[Expr, ...]:
        """The rounded number."""
        return (self.arg,)

    @property
    def ratio(self) -> Fraction:
        """Old step over new step."""
        return self.arg.type.step / self.step

    def _infer(self) -> Type:
        t = self.arg.type
        if not t.is_numeric:
            raise ParameterError(f"rounding needs a number, got {t}")
        if self.step <= 0:
            raise ParameterError("a rounding step must be positive")
        wide = max(abs(t.lo), abs(t.hi)) * self.ratio.numerator * 2 + self.ratio.denominator
        Type.number(-wide, wide)
        return Type.number(self._apply(t.lo), self._apply(t.hi), self.step, null=t.nullable)

    def _apply(self, code: int) -> int:
        f, g = self.ratio.numerator, self.ratio.denominator
        return code * f // g if self.mode == "floor" else _round_div(code * f, g)

    def evaluate(self, row: Row) -> Code:
        """Round the value."""
        a = self.arg.evaluate(row)
        return None if a is None else self._apply(as_int(a))


@dataclass(frozen=True)
class Abs(Expr):
    """Absolute value."""

    arg: Expr

    @property
    def children(self) -> tuple[Expr, ...]:
        """The argument."""
        return (self.arg,)

    def _infer(self) -> Type:
        t = self.arg.type
        if not t.is_numeric:
            raise ParameterError(f"ABS needs a number, got {t}")
        low = 0 if t.lo <= 0 <= t.hi else min(abs(t.lo), abs(t.hi))
        return Type.number(low, max(abs(t.lo), abs(t.hi)), t.step, null=t.nullable)

    def evaluate(self, row: Row) -> Code:
        """Drop the sign."""
        a = self.arg.evaluate(row)
        return None if a is None else abs(as_int(a))


@dataclass(frozen=True)
class Square(Expr):
    """A number times itself: never negative, unlike a product's bounds would say."""

    arg: Expr

    @property
    def children(self) -> tuple[Expr, ...]:
        """The argument."""
        return (self.arg,)

    def _infer(self) -> Type:
        t = self.arg.type
        if not t.is_numeric:
            raise ParameterError(f"squares need a number, got {t}")
        low = 0 if t.lo <= 0 <= t.hi else min(t.lo**2, t.hi**2)
        return Type.number(low, max(t.lo**2, t.hi**2), t.step**2, null=t.nullable)

    def evaluate(self, row: Row) -> Code:
        """Square the value."""
        a = self.arg.evaluate(row)
        return None if a is None else as_int(a) ** 2


@dataclass(frozen=True)
class AsNumber(Expr):
    """The code itself as a plain number: truth as 0 and 1, a date as its day."""

    arg: Expr

    @property
    def children(self) -> tuple[Expr, ...]:
        """The argument."""
        return (self.arg,)

    def _infer(self) -> Type:
        t = self.arg.type
        if t.kind is Kind.TEXT:
            raise ParameterError("text has no number")
        return Type.number(t.lo, t.hi, null=t.nullable)

    def evaluate(self, row: Row) -> Code:
        """Keep the code."""
        return self.arg.evaluate(row)


@dataclass(frozen=True)
class Clamp(Expr):
    """A number moved into public bounds (codes on its own grid)."""

    arg: Expr
    lo: int
    hi: int

    @property
    def children(self) -> tuple[Expr, ...]:
        """The argument."""
        return (self.arg,)

    def _infer(self) -> Type:
        t = self.arg.type
        low, high = (min(max(e, self.lo), self.hi) for e in (t.lo, t.hi))
        return Type.number(low, high, t.step, null=t.nullable)

    def evaluate(self, row: Row) -> Code:
        """Clamp the value."""
        a = self.arg.evaluate(row)
        return None if a is None else min(max(as_int(a), self.lo), self.hi)


Part = Choice["year", "quarter", "month", "day", "weekday", "hour"]
_PART_RANGE = {"quarter": (1, 4), "month": (1, 12), "day": (1, 31), "weekday": (1, 7)}


@dataclass(frozen=True)
class DatePart(Expr):
    """A calendar part of a date or timestamp (weekday: Monday is 1)."""

    part: Part
    arg: Expr

    @property
    def children(self) -> tuple[Expr, ...]:
        """The date or timestamp."""
        return (self.arg,)

    def _infer(self) -> Type:
        t = self.arg.type
        if t.kind not in (Kind.DATE, Kind.TIMESTAMP):
            raise ParameterError(f"date parts need a date or timestamp, got {t}")
        if self.part == "hour":
            if t.kind is Kind.DATE:
                raise ParameterError("a date has no hour")
            return Type.number(0, 23, null=t.nullable)
        if self.part == "year":
            lo, hi = (self._apply(code) for code in (t.lo, t.hi))
            return Type.number(lo, hi, null=t.nullable)
        return Type.number(*_PART_RANGE[self.part], null=t.nullable)

    def _apply(self, code: int) -> int:
        if self.arg.type.kind is Kind.DATE:
            when = dt.datetime.combine(EPOCH + dt.timedelta(days=code), dt.time())
        else:
            micros = int(code * self.arg.type.step * 1_000_000 // 1)
            when = EPOCH_TIME + dt.timedelta(microseconds=micros)
        parts = {
            "year": when.year,
            "quarter": (when.month + 2) // 3,
            "month": when.month,
            "day": when.day,
            "weekday": when.isoweekday(),
            "hour": when.hour,
        }
        return parts[self.part]

    def evaluate(self, row: Row) -> Code:
        """Read the part off the calendar (proleptic Gregorian, UTC)."""
        a = self.arg.evaluate(row)
        return None if a is None else self._apply(as_int(a))


@dataclass(frozen=True)
class Bucket(Expr):
    """Index of the public half-open interval ``[edge_i, edge_{i+1})`` a code falls in.

    0 lies below the first edge and ``len(edges)`` at or above the last, as in
    SQL's WIDTH_BUCKET.
    """

    arg: Expr
    edges: tuple[int, ...]

    @property
    def children(self) -> tuple[Expr, ...]:
        """The argument."""
        return (self.arg,)

    def _infer(self) -> Type:
        t = self.arg.type
        if t.kind in (Kind.TEXT, Kind.CATEGORY, Kind.BOOLEAN):
            raise ParameterError(f"buckets need an ordered value, got {t}")
        if not self.edges or any(a >= b for a, b in zip(self.edges, self.edges[1:], strict=False)):
            raise ParameterError("bucket edges must increase")
        return Type.number(self._apply(t.lo), self._apply(t.hi), null=t.nullable)

    def _apply(self, code: int) -> int:
        return sum(code >= e for e in self.edges)

    def evaluate(self, row: Row) -> Code:
        """Find the bucket."""
        a = self.arg.evaluate(row)
        return None if a is None else self._apply(as_int(a))
