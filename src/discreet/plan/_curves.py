"""LN, LOG, EXP, SQRT and powers: curves on a public grid.

A curve rises with its argument. Its value is rounded to a grid of at most
:data:`LEVELS` steps over the public range of the argument; which codes give which value
is computed here, exactly or to 60 digits, once. An engine only compares integers, so all
engines and the reference agree on every row. The type of the result states the step.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import Any, Final

from discreet._dataclass import dataclass
from discreet._exact import show
from discreet.errors import ParameterError, UnsupportedQueryError
from discreet.plan import _build as build
from discreet.plan._build import Null, Operand
from discreet.plan._expr import Expr, Unary, Writer, need
from discreet.plan._types import Code, Type

LEVELS: Final = 500
"""Most steps of the grid that a curve is rounded to."""
_DIGITS: Final = 60
_WIDEST: Final = Fraction(10**12)


@dataclass(frozen=True)
class Curve(Unary):
    """A value for each range of codes: ``values[i]`` from the i-th edge on, up to the next."""

    edges: tuple[int, ...]
    values: tuple[int, ...]
    step: Fraction
    name: str
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
        return f"CASE WHEN {x} IS NOT NULL THEN {_search(w, x, self.edges, self.values)} END"

    def describe(self) -> str:
        return f"{self.name}({self.arg.describe()}, in steps of {show(self.step)})"


def _search(w: Writer, x: str, edges: tuple[int, ...], values: tuple[int, ...]) -> str:
    """Binary search as nested cases."""
    if not edges:
        return w.integer(values[0])
    middle = len(edges) // 2
    lower = _search(w, x, edges[:middle], values[: middle + 1])
    upper = _search(w, x, edges[middle + 1 :], values[middle + 1 :])
    return f"CASE WHEN {x} < {w.integer(edges[middle])} THEN {lower} ELSE {upper} END"


def table(x: Expr, values: Sequence[int], name: str) -> Expr:
    """A value for each code of a whole number, in order from its lowest."""
    places = [i for i in range(1, len(values)) if values[i] != values[i - 1]]
    edges = tuple(x.type.lo + i for i in places)
    return Curve(x, edges, (values[0], *(values[i] for i in places)), Fraction(1), name)


_Real = Callable[[Decimal], Decimal]


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _at_most_ten(x: str, *, null: bool) -> str:
    bounded = f"LEAST({x}, 10)"
    return f"CASE WHEN {x} IS NOT NULL THEN {bounded} END" if null else bounded


def _drawn(x: Expr, name: str, curve: _Real, inverse: _Real, lowest: Fraction) -> Expr:
    """Round a rising curve over the range of `x` from `lowest` on."""
    t = x.type
    first = max(t.lo, ceil(lowest / t.step))
    if first > t.hi:
        raise UnsupportedQueryError(
            f"{name} has no value anywhere in the range of {build.name_of(x)}, "
            f"{show(t.lo * t.step)} to {show(t.hi * t.step)}"
        )
    with localcontext(Context(prec=_DIGITS, Emax=10**6, Emin=-(10**6))):
        low, high = (curve(_decimal(code * t.step)) for code in (first, t.hi))
        if max(abs(low), abs(high)) > _decimal(_WIDEST):
            raise UnsupportedQueryError(
                f"{name}({build.name_of(x)}) may be as large as {high:.1E}",
                hint=f"{name}({_at_most_ten(build.name_of(x), null=t.nullable)})",
            )
        step = _grid(Fraction(high) - Fraction(low))
        least, most = (round(Fraction(end) / step) for end in (low, high))
        edges: dict[int, int] = {}
        for level in range(least + 1, most + 1):
            # the value is `level` from where the curve passes the middle below it
            end = inverse(_decimal((level - Fraction(1, 2)) * step))
            edge = ceil(Fraction(end) / t.step)
            if edge <= t.hi:
                edges[max(edge, first)] = level
    start = edges.pop(first, least)
    return Curve(x, tuple(edges), (start, *edges.values()), step, name.lower())


def _grid(width: Fraction) -> Fraction:
    """Smallest of 1, 2, 5 times a power of ten that cuts a width into few enough steps."""
    step = Fraction(1, 10**9)
    factors = (2, Fraction(5, 2), 2)
    place = 0
    while width / step > LEVELS:
        step *= factors[place % 3]
        place += 1
    return step


def _positive(x: Expr, drawn: Expr) -> Expr:
    """NULL where the argument is not positive."""
    if x.type.lo > 0:
        return drawn
    return build.case([(build.compare(">", x, build.number(Fraction(0))), drawn)], Null())


def ln(operand: Operand) -> Expr:
    """Natural logarithm; NULL at and below zero."""
    x = build.as_number(operand, "LN")
    return _positive(x, _drawn(x, "LN", Decimal.ln, Decimal.exp, x.type.step))


def log(first: Operand, second: Operand | None = None) -> Expr:
    """LOG(x) to base 10, LOG(base, x) to another one."""
    base = Fraction(10) if second is None else build.constant_value(first)
    if base is None or base <= 1:
        raise UnsupportedQueryError("LOG takes a constant base above 1", hint="LOG(2, income)")
    x = build.as_number(first if second is None else second, "LOG")
    with localcontext(Context(prec=_DIGITS)):
        unit = _decimal(base).ln()
    curve, inverse = (lambda v: v.ln() / unit), (lambda y: (y * unit).exp())
    return _positive(x, _drawn(x, "LOG", curve, inverse, x.type.step))


def exp(operand: Operand) -> Expr:
    """Exponential function."""
    x = build.as_number(operand, "EXP")
    return _drawn(x, "EXP", Decimal.exp, Decimal.ln, x.type.lo * x.type.step)


def sqrt(operand: Operand) -> Expr:
    """Square root; NULL below zero."""
    return _root(build.as_number(operand, "SQRT"), Fraction(1, 2), "SQRT")


def power(operand: Operand, exponent: Fraction) -> Expr:
    """A positive power that is no whole number; NULL below zero."""
    if not Fraction(1, 8) <= exponent <= 8:
        raise UnsupportedQueryError(
            "POWER takes exponents from 0.125 to 8", hint="POWER(income, 0.5)"
        )
    return _root(build.as_number(operand, "POWER"), exponent, "POWER")


def _root(x: Expr, exponent: Fraction, name: str) -> Expr:
    def curve(v: Decimal, p: Fraction = exponent) -> Decimal:
        return v ** _decimal(p) if v > 0 else Decimal(0)

    def inverse(y: Decimal) -> Decimal:
        return curve(y, 1 / exponent)

    drawn = _drawn(x, name, curve, inverse, Fraction(0))
    if x.type.lo >= 0:
        return drawn
    return build.case([(build.compare(">=", x, build.number(Fraction(0))), drawn)], Null())
