"""Row expressions: a closed set of total functions over bounded codes.

Each node knows its :class:`Type` (bounds follow by interval arithmetic) and its
meaning (``evaluate``, the reference that every engine must equal bit for bit).
All are total: NULL in gives NULL out unless a node says otherwise, division by
zero gives NULL, nothing overflows, nothing raises. Truth is three-valued, as in
SQL.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import gcd
from typing import Literal as Choice

from discreet.errors import ParameterError
from discreet.plan._types import EPOCH, EPOCH_TIME, Code, Kind, Type

Row = Mapping[str, Code]


def _int(code: Code) -> int:
    assert isinstance(code, int)
    return code


@dataclass(frozen=True)
class Expr:
    """Base of all row expressions."""

    type: Type = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", self._infer())

    def _infer(self) -> Type:
        raise NotImplementedError

    def evaluate(self, row: Row) -> Code:
        """Value of the expression on one row of codes."""
        raise NotImplementedError

    @property
    def children(self) -> tuple[Expr, ...]:
        """Sub-expressions, in order."""
        return ()


@dataclass(frozen=True)
class Column(Expr):
    """A column of the relation below, by name."""

    name: str
    of: Type

    def _infer(self) -> Type:
        return self.of

    def evaluate(self, row: Row) -> Code:
        """Look the column up."""
        return row[self.name]


@dataclass(frozen=True)
class Constant(Expr):
    """A public constant: a code with its type, or NULL."""

    code: int | None
    of: Type

    def _infer(self) -> Type:
        return self.of

    @classmethod
    def number(cls, value: Fraction) -> Constant:
        """Return a numeric constant on the coarsest grid that holds it.

        >>> Constant.number(Fraction(5, 2)).code
        5
        """
        step = Fraction(1, value.denominator)
        code = value.numerator
        return cls(code, Type.number(code, code, step, null=False))

    @classmethod
    def null(cls, like: Type) -> Constant:
        """Return NULL of the kind of `like`."""
        return cls(None, Type(like.kind, like.lo, like.lo, like.step, like.labels))

    def evaluate(self, row: Row) -> Code:  # noqa: ARG002 - a constant ignores the row
        """Return the constant."""
        return self.code


def common_step(left: Type, right: Type) -> Fraction:
    """Coarsest grid that contains both grids."""
    a, b = left.step, right.step
    return Fraction(
        gcd(a.numerator * b.denominator, b.numerator * a.denominator), a.denominator * b.denominator
    )


def _ratio(step: Fraction, unit: Fraction) -> int:
    ratio = step / unit
    assert ratio.denominator == 1
    return ratio.numerator


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
        return _ratio(self.left.type.step, unit), _ratio(self.right.type.step, unit)

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
            return _int(a) * _int(b)
        f, g = self.factors
        return _int(a) * f + _int(b) * g if self.op == "+" else _int(a) * f - _int(b) * g


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
        return _round_div(_int(a) * f, _int(b) * g)


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
        return None if a is None else self._apply(_int(a))


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
        return None if a is None else abs(_int(a))


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
        return None if a is None else _int(a) ** 2


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
        return None if a is None else min(max(_int(a), self.lo), self.hi)


Comparison = Choice["<", "<=", "=", "<>", ">=", ">"]


@dataclass(frozen=True)
class Compare(Expr):
    """Comparison of two values of one kind (numbers on their common grid)."""

    op: Comparison
    left: Expr
    right: Expr

    @property
    def children(self) -> tuple[Expr, ...]:
        """Both sides."""
        return (self.left, self.right)

    @property
    def factors(self) -> tuple[int, int]:
        """Integers by which the codes are multiplied before comparing."""
        unit = common_step(self.left.type, self.right.type)
        return _ratio(self.left.type.step, unit), _ratio(self.right.type.step, unit)

    def _infer(self) -> Type:
        a, b = self.left.type, self.right.type
        if a.kind is not b.kind:
            raise ParameterError(f"cannot compare {a} with {b}")
        if a.kind in (Kind.CATEGORY, Kind.TEXT):
            raise ParameterError(f"cannot compare a {a.kind} here; use = or IN with constants")
        f, g = self.factors
        Type.number(min(a.lo * f, b.lo * g), max(a.hi * f, b.hi * g))
        return Type.boolean(null=a.nullable or b.nullable)

    def evaluate(self, row: Row) -> Code:
        """Compare; NULL if either side is."""
        a, b = self.left.evaluate(row), self.right.evaluate(row)
        if a is None or b is None:
            return None
        f, g = self.factors
        x, y = _int(a) * f, _int(b) * g
        results = {"<": x < y, "<=": x <= y, "=": x == y, "<>": x != y, ">=": x >= y, ">": x > y}
        return int(results[self.op])


@dataclass(frozen=True)
class OneOf(Expr):
    """Membership of a code, or an opaque text, in a public list."""

    arg: Expr
    codes: tuple[int | str, ...]

    @property
    def children(self) -> tuple[Expr, ...]:
        """The argument."""
        return (self.arg,)

    def _infer(self) -> Type:
        text = self.arg.type.kind is Kind.TEXT
        if any(isinstance(c, str) is not text for c in self.codes):
            raise ParameterError(f"IN list does not fit {self.arg.type}")
        return Type.boolean(null=self.arg.type.nullable)

    def evaluate(self, row: Row) -> Code:
        """Test membership; NULL for NULL."""
        a = self.arg.evaluate(row)
        return None if a is None else int(a in self.codes)


@dataclass(frozen=True)
class Logic(Expr):
    """Three-valued AND or OR of conditions."""

    op: Choice["and", "or"]
    args: tuple[Expr, ...]

    @property
    def children(self) -> tuple[Expr, ...]:
        """The conditions."""
        return self.args

    def _infer(self) -> Type:
        for a in self.args:
            if a.type.kind is not Kind.BOOLEAN:
                raise ParameterError(f"{self.op.upper()} needs conditions, got {a.type}")
        return Type.boolean(null=any(a.type.nullable for a in self.args))

    def evaluate(self, row: Row) -> Code:
        """Kleene logic: a deciding value wins over NULL."""
        values = [a.evaluate(row) for a in self.args]
        decisive = 0 if self.op == "and" else 1
        if decisive in values:
            return decisive
        return None if None in values else 1 - decisive


@dataclass(frozen=True)
class Not(Expr):
    """Three-valued negation."""

    arg: Expr

    @property
    def children(self) -> tuple[Expr, ...]:
        """The condition."""
        return (self.arg,)

    def _infer(self) -> Type:
        if self.arg.type.kind is not Kind.BOOLEAN:
            raise ParameterError(f"NOT needs a condition, got {self.arg.type}")
        return Type.boolean(null=self.arg.type.nullable)

    def evaluate(self, row: Row) -> Code:
        """Negate; NULL stays NULL."""
        a = self.arg.evaluate(row)
        return None if a is None else 1 - _int(a)


@dataclass(frozen=True)
class IsNull(Expr):
    """Whether a value is NULL; never NULL itself."""

    arg: Expr

    @property
    def children(self) -> tuple[Expr, ...]:
        """The argument."""
        return (self.arg,)

    def _infer(self) -> Type:
        return Type.boolean(null=False)

    def evaluate(self, row: Row) -> Code:
        """Test for NULL."""
        return int(self.arg.evaluate(row) is None)


def union(types: list[Type]) -> Type:
    """Smallest type of one kind and grid that contains all `types`."""
    first = types[0]
    for t in types[1:]:
        if t.kind is not first.kind or t.labels != first.labels or t.step != first.step:
            raise ParameterError(f"the branches differ in kind or grid: {first} and {t}")
    return Type(
        first.kind,
        min(t.lo for t in types),
        max(t.hi for t in types),
        first.step,
        first.labels,
        nullable=any(t.nullable for t in types),
    )


@dataclass(frozen=True)
class Case(Expr):
    """First branch whose condition is true, else the default."""

    branches: tuple[tuple[Expr, Expr], ...]
    default: Expr

    @property
    def children(self) -> tuple[Expr, ...]:
        """Conditions and results, then the default."""
        return (*(e for pair in self.branches for e in pair), self.default)

    def _infer(self) -> Type:
        for condition, _ in self.branches:
            if condition.type.kind is not Kind.BOOLEAN:
                raise ParameterError(f"CASE WHEN needs a condition, got {condition.type}")
        return union([*(value.type for _, value in self.branches), self.default.type])

    def evaluate(self, row: Row) -> Code:
        """Evaluate the first true branch."""
        for condition, value in self.branches:
            if condition.evaluate(row) == 1:
                return value.evaluate(row)
        return self.default.evaluate(row)


@dataclass(frozen=True)
class Coalesce(Expr):
    """First value that is not NULL."""

    args: tuple[Expr, ...]

    @property
    def children(self) -> tuple[Expr, ...]:
        """The alternatives."""
        return self.args

    def _infer(self) -> Type:
        t = union([a.type for a in self.args])
        return t if all(a.type.nullable for a in self.args) else t.not_null()

    def evaluate(self, row: Row) -> Code:
        """Take the first non-NULL value."""
        for a in self.args:
            if (value := a.evaluate(row)) is not None:
                return value
        return None


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
        return None if a is None else self._apply(_int(a))


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
        return None if a is None else self._apply(_int(a))


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
