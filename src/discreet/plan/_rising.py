"""Curves that rise: their exact values, and the steps that a plan computes them in.

A curve's value on a row is rounded to a public grid. What is asked of it *about* a constant needs
no grid: ``LN(x) > 5`` is a comparison of x with the first code at which the logarithm exceeds 5,
and ``FLOOR(LOG10(x))`` changes where it passes a whole number. These codes are found here.

Proof sketch: a shape rises strictly, so it passes a number y at one place, which is its inverse at
y to 60 digits. Where that is not within 10^-40 of a code, the code above it is the first. Where it
is, rational arithmetic decides whether the shape is y there (only at 0 and 1 for LN and EXP, of
which no other rational number has a rational value).
"""

from __future__ import annotations

import bisect
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor
from typing import Any, Final, Literal

from discreet._dataclass import dataclass, field, replace
from discreet._exact import show
from discreet.errors import ParameterError
from discreet.plan._logic import Case, Comparison
from discreet.plan._nodes import Constant, Expr, Unary, Writer, need
from discreet.plan._types import Code, Type

LEVELS: Final = 500
"""Most steps of the grid that a curve is rounded to."""
PRECISE: Final = Context(prec=60, Emax=10**6, Emin=-(10**6))
_NEAR: Final = Fraction(1, 10**40)
_ROOTS: Final = 1_000
"""Powers up to which rational numbers are compared; roots beyond are no rational numbers."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A function that rises: LN, EXP, LOG to the base `by`, or a power (SQRT: one half)."""

    name: str
    by: Fraction = Fraction(1, 2)

    def at(self, v: Decimal) -> Decimal:
        """Value, to 60 digits."""
        match self.name:
            case "LN":
                return v.ln()
            case "EXP":
                return v.exp()
            case "LOG":
                return v.ln() / decimal(self.by).ln()
        return v ** decimal(self.by) if v > 0 else Decimal(0)

    def back(self, y: Decimal) -> Decimal:
        """Where the value is y."""
        match self.name:
            case "LN":
                return y.exp()
            case "EXP":
                return y.ln()
            case "LOG":
                return (y * decimal(self.by).ln()).exp()
        return y ** decimal(1 / self.by) if y > 0 else Decimal(0)

    def first(self, t: Type) -> int:
        """First code of a type at which there is a value."""
        return t.lo if self.name == "EXP" else max(t.lo, int(self.name in ("LN", "LOG")))

    def least(self, y: Fraction) -> bool:
        """Whether the value is above y everywhere."""
        return y <= 0 if self.name == "EXP" else y < 0 and self.name in ("SQRT", "POWER")

    def meets(self, v: Fraction, y: Fraction) -> bool:
        """Whether the value at v is y exactly."""
        if self.name in ("LN", "EXP"):
            one, zero = (v, y) if self.name == "LN" else (y, v)
            return one == 1 and zero == 0
        base, power, value = (self.by, y, v) if self.name == "LOG" else (v, self.by, y)
        top, root = power.as_integer_ratio()
        return max(abs(top), root) <= _ROOTS and base**top == value**root


def decimal(value: Fraction) -> Decimal:
    """A rational number to the digits of the context."""
    return Decimal(value.numerator) / Decimal(value.denominator)


Mode = Literal["round", "floor", "ceiling"]
_BELOW: Final[dict[Mode, Fraction]] = {
    "round": Fraction(1, 2),
    "floor": Fraction(0),
    "ceiling": Fraction(1),
}
"""How far below a level the values begin that are rounded to it."""


@dataclass(frozen=True)
class Curve(Unary):
    """A value for each range of codes: ``values[i]`` from the i-th edge on, up to the next."""

    edges: tuple[int, ...]
    values: tuple[int, ...]
    step: Fraction
    name: str
    shape: Shape | None = None
    """What is rounded to the step; None where the values are exact."""
    rounded: tuple[tuple[Fraction, Mode], ...] = field(default=(), compare=False)
    """How the shape is rounded before it is compared; its values on the step stay what they are."""
    words = "{name}({arg})"

    def _infer(self) -> Type:
        t = self.arg.type
        need(t.is_numeric, "a curve needs a number", t)
        if any(a >= b for a, b in pairwise(self.edges)) or not self.values:
            raise ParameterError("the edges of a curve must increase")
        if len(self.values) != len(self.edges) + 1:
            raise ParameterError("a curve needs a value for each range")
        for edge in self.edges:
            Type.number(edge, edge)
        return Type.number(min(self.values), max(self.values), self.step, null=t.nullable)

    def _apply(self, *codes: Any) -> Code:
        return self.values[bisect.bisect_right(self.edges, codes[0])]

    def sql(self, w: Writer) -> str:
        x = w.bind(self.arg)
        value = w.steps(x, self.edges, self.values)
        return f"CASE WHEN {x} IS NOT NULL THEN {value} END" if self.type.nullable else value

    def describe(self) -> str:
        return f"{self.name}({self.arg.describe()}, in steps of {show(self.step)})"

    def crossing(self, y: Fraction, *, above: bool = False) -> int:
        """First code from which the shape is at least y, or `above` y."""
        t, shape = self.arg.type, self.shape
        assert shape is not None
        with localcontext(PRECISE):
            if shape.least(y):
                return t.lo
            if decimal(y) > shape.at(decimal(t.hi * t.step)) + 1:
                return t.hi + 1
            place = Fraction(shape.back(decimal(y))) / t.step
        near = round(place)
        if abs(place - near) > _NEAR * max(1, abs(near)) or not shape.meets(near * t.step, y):
            return ceil(place)
        return near + above

    def reaching(self, y: Fraction, *, above: bool = False) -> int:
        """First code from which the shape, rounded as asked, is at least y, or `above` y.

        ROUND, FLOOR and CEIL give multiples of a step, so such a value is at least y where it is
        at least the next multiple, and that is where what is rounded passes a place below it.
        """
        for step, mode in reversed(self.rounded):
            y = ((floor(y / step) + 1 if above else ceil(y / step)) - _BELOW[mode]) * step
            # halves are rounded away from zero
            above = mode == "ceiling" or (mode == "round" and y < 0)
        return self.crossing(y, above=above)

    def compared(self, op: Comparison, y: Fraction) -> list[tuple[Comparison, Fraction]]:
        """A comparison of the shape with y, as comparisons of the argument's code; <> as =."""
        first, beyond = (Fraction(self.reaching(y, above=above)) for above in (False, True))
        match op:
            case "<" | ">=":
                return [(op, first)]
            case "<=" | ">":
                return [("<" if op == "<=" else ">=", beyond)]
        if beyond - first <= 1:  # between two codes: nowhere
            return [("=", first + Fraction(first == beyond, 2))]
        return [(">=", first), ("<", beyond)]

    def onto(self, step: Fraction, mode: Mode) -> Curve:
        """Round the shape to a step: its values, or what it is compared as if these are many."""
        rounded = replace(self, rounded=(*self.rounded, (step, mode)))
        return self.levels(step, mode) or rounded

    def levels(self, step: Fraction, mode: Mode) -> Curve | None:
        """The shape rounded to a step once, not twice; None where these are too many steps."""
        t, shape = self.arg.type, self.shape
        if shape is None:
            return None
        first = shape.first(t)
        with localcontext(PRECISE):
            values = [Fraction(shape.at(decimal(code * t.step))) for code in (first, t.hi)]
        low, high = (floor(v / step) for v in values)
        if high - low > LEVELS:
            return None
        start, edges = low - 2, dict[int, int]()
        for level in range(low - 1, high + 3):
            y = (level - _BELOW[mode]) * step
            # halves are rounded away from zero
            edge = self.reaching(y, above=mode == "ceiling" or (mode == "round" and y < 0))
            if edge <= first:
                start = level
            elif edge <= t.hi:
                edges[edge] = level
        name = self.name if mode == "round" else f"{mode} of {self.name}"
        return Curve(self.arg, tuple(edges), (start, *edges.values()), step, name)


def curve_of(expr: Expr) -> Curve | None:
    """The curve that an expression is, also one that is NULL where the curve has no value."""
    match expr:
        case Case(((_, Curve() as curve),), Constant(None)) | (Curve() as curve):
            return None if curve.shape is None else curve
    return None
