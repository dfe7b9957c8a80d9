"""Real-valued noise, rounded exactly: random bits are drawn until they decide.

The rounded output of an ideal real-valued mechanism is a function of that
mechanism's output, so it inherits its guarantee word for word, *provided the
rounding is that of the real number* and not of a floating-point stand-in. Here
a real draw is an interval that shrinks as random bits arrive; both ends are
rounded, and when they agree the answer is known. Otherwise more bits are drawn
(interval refining, Haney, Desfontaines, Hartman, Shrestha, Hay: "Precision-based
attacks and interval refining", 2022). With 256 bits at the start a second round
has probability far below 2^-100 for any sane grid, so the work does not depend
on the draw.

All arithmetic is on integers and rationals; logarithms come from `decimal`,
whose ``ln`` and ``exp`` are correctly rounded, and are widened by a stated bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet import noise
from discreet._dataclass import dataclass

_BLOCK = 4  # words, that is 256 bits, per refinement


@dataclass(frozen=True, slots=True)
class Draw:
    """An exactly rounded draw, and whether it came from the test source."""

    value: int
    tainted: bool


class _Bits:
    """A uniform number in [0, 1] of which the first `count` bits are known."""

    def __init__(self) -> None:
        self.prefix = 0
        self.count = 0
        self.tainted = False
        self.extend()

    def extend(self) -> None:
        words = noise.random_words(_BLOCK)
        self.tainted |= bool(noise.is_tainted(words))
        for word in words.tolist():
            self.prefix = self.prefix << 64 | int(word)
        self.count += 64 * _BLOCK


def rounded_laplace(centre: Fraction, scale: Fraction, step: Fraction) -> Draw:
    """Draw ⌊(centre + scale·Z)/step + ½⌋ with Z Laplace of density ½e^{-|z|}, exactly."""
    bits = _Bits()
    sign = _sign(bits)
    while True:
        ends = _exponential(bits)
        if ends is not None:
            ints = [_nearest((centre + sign * scale * end) / step) for end in ends]
            if ints[0] == ints[1]:
                return Draw(ints[0], bits.tainted)
        bits.extend()


def rounded_cauchy(centre: Fraction, scale: Fraction, step: Fraction) -> Draw:
    """Draw ⌊(centre + scale·Z)/step + ½⌋ with Z Cauchy of density 1/(π(1+z²)), exactly.

    Z = ±v/u for (u, v) uniform in the quarter disc u² + v² < 1: its angle is
    uniform, and the tangent of a uniform angle is Cauchy.
    """
    while True:
        u, v = _Bits(), _Bits()
        sign = _sign(u)
        while True:
            one = 1 << (u.count - 1)  # the sign has taken one bit of u; v drops one to match
            a, b = u.prefix & (one - 1), v.prefix >> 1
            if a * a + b * b >= one * one:
                break  # surely outside the disc (the corner nearest 0 is): draw a new point
            inside = (a + 1) ** 2 + (b + 1) ** 2 <= one * one
            if inside and a > 0:
                ends = (Fraction(b, a + 1), Fraction(b + 1, a))
                ints = [_nearest((centre + sign * scale * end) / step) for end in ends]
                if ints[0] == ints[1]:
                    return Draw(ints[0], u.tainted or v.tainted)
            u.extend()
            v.extend()


def _sign(bits: _Bits) -> int:
    return -1 if bits.prefix >> (bits.count - 1) else 1


def _exponential(bits: _Bits) -> tuple[Fraction, Fraction] | None:
    """Bounds on −ln U for the uniform U that the bits after the sign describe."""
    count = bits.count - 1
    prefix = bits.prefix & ((1 << count) - 1)
    if prefix == 0:
        return None
    digits = count // 3 + 20
    context = Context(prec=digits)
    # each ln is correctly rounded and below 10^4·count, so count·10^(8-digits) bounds all errors
    slack = Fraction(count, 10 ** (digits - 8))
    ln2 = Fraction(Decimal(2).ln(context))
    high = count * ln2 - Fraction(Decimal(prefix).ln(context)) + slack
    low = count * ln2 - Fraction(Decimal(prefix + 1).ln(context)) - slack
    return max(low, Fraction(0)), high


def _nearest(x: Fraction) -> int:
    return math.floor(x + Fraction(1, 2))


def bernoulli_real(leading_bits: Callable[[int], int], n: int) -> NDArray[Any]:
    """Flip n coins of a probability given by its binary expansion, exactly.

    Parameters
    ----------
    leading_bits
        ``leading_bits(t)`` is ⌊p·2^t⌋ for 0 < p < 1.
    n
        Number of coins.

    Notes
    -----
    A coin is heads when a uniform real is below p. One word decides, but for one
    case in 2^64, where the comparison goes on with fresh words.
    """
    words = noise.random_words(n)
    bar = np.uint64(leading_bits(64))
    heads = words < bar
    for i in np.flatnonzero(words == bar).tolist():
        heads[i] = _compare(leading_bits)
    return heads


def _compare(leading_bits: Callable[[int], int]) -> bool:
    count, bits = 64, 0
    while True:
        count += 64
        bits = bits << 64 | int(noise.random_words(1)[0])
        threshold = leading_bits(count) & ((1 << (count - 64)) - 1)
        if bits != threshold:
            return bits < threshold


def floor_scaled(enclose: Callable[[int], tuple[Fraction, Fraction]], t: int) -> int:
    """Return ⌊p·2^t⌋ for an irrational p, of which ``enclose(digits)`` gives bounds."""
    digits = t // 3 + 25
    while True:
        low, high = enclose(digits)
        floor = math.floor(low * (1 << t))
        if floor == math.floor(high * (1 << t)):
            return floor
        digits *= 2
