"""LN, LOG, EXP, SQRT and powers: curves on a public grid.

A curve rises with its argument. Its value is rounded to a grid of at most
:data:`~discreet.plan._rising.LEVELS` steps over the public range of the argument; which codes
give which value is computed here, exactly or to 60 digits, once. An engine only compares
integers, so all engines and the reference agree on every row. The type of the result states the
step, and so does an answer, whose intervals allow for it (``_rounding``). Comparisons with
constants, ROUND, FLOOR and CEIL need no grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import localcontext
from fractions import Fraction
from math import ceil
from typing import Final

from discreet._exact import show
from discreet._text import written
from discreet.errors import UnsupportedQueryError
from discreet.plan import _build as build
from discreet.plan._build import Null, Operand
from discreet.plan._expr import Expr, plain_column
from discreet.plan._rising import LEVELS, PRECISE, Curve, Shape, decimal

_WIDEST: Final = Fraction(10**12)
_LARGEST: Final = 1_000_000
"""Powers of e beyond which a decimal number has no place for the exponent."""


def table(x: Expr, values: Sequence[int], name: str) -> Expr:
    """A value for each code of a whole number, in order from its lowest."""
    places = [i for i in range(1, len(values)) if values[i] != values[i - 1]]
    edges = tuple(x.type.lo + i for i in places)
    return Curve(x, edges, (values[0], *(values[i] for i in places)), Fraction(1), name)


def _at_most_ten(x: str, *, null: bool) -> str:
    bounded = f"LEAST({x}, 10)"
    return f"CASE WHEN {x} IS NOT NULL THEN {bounded} END" if null else bounded


def _too_large(x: Expr, name: str, size: str) -> UnsupportedQueryError:
    column = plain_column(x)
    bounded = None if column is None else _at_most_ten(written(column.name), null=x.type.nullable)
    return UnsupportedQueryError(
        f"{name}({build.name_of(x)}) may be as large as {size}",
        hint=bounded and f"{name}({bounded})",
    )


def _curve(x: Expr, shape: Shape) -> Expr:
    """Round a rising curve over the range of `x` in which it has values."""
    t, name = x.type, shape.name
    first = shape.first(t)
    if first > t.hi:
        raise UnsupportedQueryError(
            f"{name} has no value anywhere in the range of {build.name_of(x)}, "
            f"{show(t.lo * t.step)} to {show(t.hi * t.step)}"
        )
    with localcontext(PRECISE):
        if name == "EXP" and t.hi * t.step > _LARGEST:
            raise _too_large(x, name, f"e^{show(t.hi * t.step)}")
        low, high = (shape.at(decimal(code * t.step)) for code in (first, t.hi))
        if max(abs(low), abs(high)) > decimal(_WIDEST):
            raise _too_large(x, name, f"{high:.1E}")
        step = _grid(Fraction(high) - Fraction(low))
        least, most = (round(Fraction(end) / step) for end in (low, high))
        edges: dict[int, int] = {}
        for level in range(least + 1, most + 1):
            # the value is `level` from where the curve passes the middle below it
            end = shape.back(decimal((level - Fraction(1, 2)) * step))
            edge = ceil(Fraction(end) / t.step)
            if edge <= t.hi:
                edges[max(edge, first)] = level
    start = edges.pop(first, least)
    return Curve(x, tuple(edges), (start, *edges.values()), step, name.lower(), shape)


def _grid(width: Fraction) -> Fraction:
    """Smallest of 1, 2, 5 times a power of ten that cuts a width into few enough steps."""
    step = Fraction(1, 10**9)
    factors = (2, Fraction(5, 2), 2)
    place = 0
    while width / step > LEVELS:
        step *= factors[place % 3]
        place += 1
    return step


def _positive(x: Expr, curve: Expr) -> Expr:
    """NULL where the argument is not positive."""
    if x.type.lo > 0:
        return curve
    return build.case([(build.compare(">", x, build.number(Fraction(0))), curve)], Null())


def ln(operand: Operand) -> Expr:
    """Natural logarithm; NULL at and below zero."""
    x = build.as_number(operand, "LN")
    return _positive(x, _curve(x, Shape("LN")))


def log(first: Operand, second: Operand | None = None) -> Expr:
    """LOG(x) to base 10, LOG(base, x) to another one."""
    base = Fraction(10) if second is None else build.constant_value(first)
    if base is None or base <= 1:
        raise UnsupportedQueryError("LOG takes a constant base above 1", hint="LOG(2, income)")
    x = build.as_number(first if second is None else second, "LOG")
    return _positive(x, _curve(x, Shape("LOG", base)))


def exp(operand: Operand) -> Expr:
    """Exponential function."""
    x = build.as_number(operand, "EXP")
    return _curve(x, Shape("EXP"))


def sqrt(operand: Operand) -> Expr:
    """Square root; NULL below zero."""
    return _root(build.as_number(operand, "SQRT"), Shape("SQRT"))


def power(operand: Operand, exponent: Fraction) -> Expr:
    """A positive power that is no whole number; NULL below zero."""
    if not Fraction(1, 8) <= exponent <= 8:
        raise UnsupportedQueryError(
            "POWER takes exponents from 0.125 to 8", hint="POWER(income, 0.5)"
        )
    return _root(build.as_number(operand, "POWER"), Shape("POWER", exponent))


def _root(x: Expr, shape: Shape) -> Expr:
    curve = _curve(x, shape)
    if x.type.lo >= 0:
        return curve
    return build.case([(build.compare(">=", x, build.number(Fraction(0))), curve)], Null())
