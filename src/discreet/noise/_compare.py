r"""Decide ``U < t`` exactly, for a uniform real U and a real t known by bounds.

A uniform real is an endless sequence of random bits; :math:`t` is a real number
that can be enclosed as tightly as one likes. Reading bits until the enclosure
of :math:`U` and that of :math:`t` no longer overlap decides :math:`U < t` with
the exact probability :math:`t`: they can overlap for ever only if
:math:`U = t`, an event of probability zero. Each extra word is needed with
probability about :math:`2^{-64}` per word already read, so the cost is that of
the first look.

Enclosures of :math:`e^{-y}` come from :mod:`decimal`, whose ``exp`` is
correctly rounded: with :math:`y` rounded down and up, the neighbours of the two
results enclose the true value.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from discreet.noise import _entropy

if TYPE_CHECKING:
    from collections.abc import Callable

    Bounds = Callable[[int], tuple[Fraction, Fraction]]

_FIRST_DIGITS = 30
_MORE_DIGITS = 25


def exp_bounds(y: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """Enclose exp(−`y`), y ≥ 0, between rationals that agree to about `digits` digits.

    >>> low, high = exp_bounds(Fraction(1), 20)
    >>> low < high, f"{float(low):.12f}"
    (True, '0.367879441171')
    """
    if y == 0:
        return Fraction(1), Fraction(1)
    # an error of one unit in the last digit of y is a relative error of the result
    precision = digits + len(str(int(y)))
    down = Context(prec=precision, rounding=ROUND_FLOOR, Emin=-(10**17), traps=[])
    up = Context(prec=precision, rounding=ROUND_CEILING, Emin=-(10**17), traps=[])
    numerator, denominator = Decimal(y.numerator), Decimal(y.denominator)
    # copy_negate, because unary minus would round to the caller's own decimal context
    low = down.exp(up.divide(numerator, denominator).copy_negate())
    high = up.exp(down.divide(numerator, denominator).copy_negate())
    return Fraction(down.next_minus(low)), min(Fraction(1), Fraction(up.next_plus(high)))


def less_than(word: int, bounds: Bounds, log2_upper: float) -> bool:
    """Decide U < t, where the first 64 bits of U are `word`.

    Parameters
    ----------
    word
        The leading 64 bits of U; further bits are drawn as needed.
    bounds
        ``bounds(digits)`` encloses t; more digits, tighter.
    log2_upper
        Any upper bound on log2(t). It spares the evaluation of numbers so
        small that they have millions of digits: while t < 2^−bits, one set bit
        in U settles the matter.
    """
    bits, digits = 64, _FIRST_DIGITS
    while True:
        if log2_upper < -bits:
            if word:
                return False
        else:
            low, high = bounds(digits)
            if Fraction(word + 1, 1 << bits) <= low:
                return True
            if Fraction(word, 1 << bits) >= high:
                return False
            digits += _MORE_DIGITS
        word = word << 64 | _entropy.word()
        bits += 64


def below_scaled_exp(word: int, y: Fraction, factor: Fraction, offset: int = 0) -> bool:
    """Decide U < `factor`·exp(−`y`) − `offset` exactly."""

    def bounds(digits: int) -> tuple[Fraction, Fraction]:
        low, high = exp_bounds(y, digits)
        return factor * low - offset, factor * high - offset

    return less_than(word, bounds, log2(factor) - 1.4426 * min(float_below(y), 1e300) + 1)


def log2(x: Fraction) -> float:
    """Return log2(`x`) to a few digits, without overflow."""
    shift = x.numerator.bit_length() - x.denominator.bit_length()
    return shift + math.log2(x / Fraction(2) ** shift)


def float_below(x: Fraction) -> float:
    """Return a double not above `x` ≥ 0 (the largest one when x overflows)."""
    try:
        return math.nextafter(float(x), 0.0)
    except OverflowError:
        return 1.7e308
