"""Numbers as people say them: chances, odds and factors, rounded to the safe side.

A ceiling is printed rounded up and a floor rounded down, so that what is read
is never a stronger promise than what was proved.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from typing import Literal

Side = Literal["up", "down", "near"]
_ROUNDING = {"up": ROUND_CEILING, "down": ROUND_FLOOR, "near": ROUND_HALF_EVEN}


def percent(p: float, side: Side = "near") -> str:
    """Print a probability as a percentage with about three digits.

    >>> percent(0.02), percent(0.0525701, "up"), percent(0.99966465, "up")
    ('2 %', '5.26 %', '99.967 %')
    """
    if p <= 0:
        return "0 %"
    if p >= 1:
        return "100 %"
    hundred = 100 * p
    # near certainty the digits that matter are those of the distance to 100
    scale = hundred if p < 0.99 else 100 * (1 - p)
    places = (2 if p < 0.99 else 1) - math.floor(math.log10(scale))
    if places > 7 and p < 0.99:
        return f"{_rounded(hundred, places, side):.2e} %"
    return f"{plain(_rounded(hundred, places, side))} %"


def odds(x: float, side: Side = "near") -> str:
    """Print odds in favour as a bookmaker would.

    >>> odds(1 / 49), odds(1.0), odds(18.2, "up")
    ('1 to 49', 'even', '18.2 to 1')
    """
    if x == math.inf:
        return "without limit"
    if math.isclose(x, 1.0, rel_tol=1e-9):
        return "even"
    if x > 1:
        return f"{number(x, side)} to 1"
    flipped: Side = {"up": "down", "down": "up", "near": "near"}[side]  # type: ignore[assignment] # keys and values are the same three literals
    return f"1 to {number(1 / x, flipped)}" if x > 0 else "none"


def number(x: float, side: Side = "near", digits: int = 3) -> str:
    """Print a positive number with `digits` significant digits.

    >>> number(2.718281828, "up"), number(9774721.7), number(0.11157177, "down")
    ('2.72', '9.77e+6', '0.111')
    """
    if x == math.inf:
        return "∞"
    if x == 0:
        return "0"
    value = _rounded(x, digits - 1 - math.floor(math.log10(abs(x)) + 1e-12), side)
    return plain(value) if 1e-4 <= abs(value) < 1e6 else f"{value:.{digits - 1}e}"


def frequency(p: float, side: Side = "near") -> str:
    """Print a probability as so many people in a round number.

    >>> frequency(0.0525701, "up"), frequency(0.731, "up")
    ('53 in 1000', '74 in 100')
    """
    for total in (100, 1000, 10_000, 100_000, 1_000_000):
        if p * total >= 9.5 or (p == 0 and total == 100):
            return f"{int(_rounded(p * total, 0, side))} in {total}"
    return f"1 in {number(1 / p, 'down' if side == 'up' else 'up')}"


def plain(value: Decimal) -> str:
    """Print a decimal without exponent or trailing zeros."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def exactly(value: Fraction | float) -> str:
    """Print a parameter as short as it can be written.

    >>> exactly(Fraction(1, 2)), exactly(0.1)
    ('0.5', '0.1')
    """
    return f"{float(value):.6g}"


def _rounded(x: float, places: int, side: Side) -> Decimal:
    # twelve digits first: 0.02·100 must stay 2 and not become 2.01 by a last bit
    nearest = Decimal(f"{x:.12g}")
    return nearest.quantize(Decimal(1).scaleb(-places), rounding=_ROUNDING[side])
