r"""Rational probabilities that keep a promise made in e^ε.

A client flips coins of *rational* probability, so the largest likelihood ratio
of its report is a rational too, the protocol's ``odds``. The promise is
odds ≤ e^ε. One rule keeps it: **whatever raises the odds is rounded down.**
Rounding to nearest breaks the promise for about half of all ε.

All k-ary laws here are written as a mixture: with probability κ the report is
uniform on the h symbols that speak for the value, otherwise it is uniform on all
K symbols. Each speaking symbol then has probability κ/h + (1−κ)/K, each other
one (1−κ)/K, so

    odds = 1 + κK/(h(1−κ)),      κ = (ρ−1)h/((ρ−1)h + K)  gives odds = ρ,

which rises in κ. With ρ ≤ e^ε certified and κ rounded down to a multiple of 2⁻⁶⁴,
odds ≤ ρ ≤ e^ε exactly, and the gap is of the order of 2⁻⁶⁰.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from discreet import _exact
from discreet._exact import Number
from discreet.errors import Hint, ParameterError
from discreet.noise import exp_bounds

WORD = 1 << 64
"""Denominator of every rounded probability."""

LARGEST = Fraction(32)
"""Beyond it a report hides nothing, and 64 bits no longer resolve the lie."""

_BITS = 80


@lru_cache(maxsize=256)
def odds_below(epsilon: Fraction, root: int = 1) -> Fraction:
    """Return the largest multiple of 2⁻⁸⁰ that is at most e^(`epsilon`/`root`), certified.

    >>> rho = odds_below(Fraction(1))
    >>> float(rho), rho.denominator <= 2**80
    (2.718281828459045, True)
    """
    digits = 40
    while True:
        low, high = exp_bounds(epsilon / root, digits)
        below = math.floor((1 << _BITS) / high)
        if below == math.floor((1 << _BITS) / low):
            return Fraction(below, 1 << _BITS)
        digits *= 2


def round_down(p: Fraction) -> Fraction:
    """Round a probability down to a multiple of 2⁻⁶⁴."""
    return Fraction(math.floor(p * WORD), WORD)


def round_up(p: Fraction) -> Fraction:
    """Round a probability up to a multiple of 2⁻⁶⁴."""
    return Fraction(math.ceil(p * WORD), WORD)


def mixture(rho: Fraction, speaking: int, symbols: int) -> Fraction:
    """Return κ, rounded down: the chance to answer from the speaking symbols only."""
    lift = (rho - 1) * speaking
    return round_down(lift / (lift + symbols))


def mixture_odds(kappa: Fraction, speaking: int, symbols: int) -> Fraction:
    """Return the exact odds of the mixture."""
    return 1 + kappa * symbols / (speaking * (1 - kappa))


def checked_odds(odds: Fraction, rho: Fraction) -> Fraction:
    """Refuse parameters so extreme that 64-bit probabilities lose a visible part of ε."""
    if not 1 < odds <= rho or (odds - 1) * 1024 < (rho - 1) * 1023:
        raise ParameterError(
            "64-bit probabilities cannot express this epsilon for so large a domain",
            hint='local.LocalHashing(domain, "1")',
        )
    return odds


def read_epsilon(epsilon: Number) -> Fraction:
    """Parse ε for one report: exact, positive, at most 32."""
    value = _exact.epsilon(epsilon)
    if value > LARGEST:
        raise ParameterError(
            f"epsilon must be at most {LARGEST} for one report, got {_exact.show(value)}; "
            "beyond that a report hides nothing",
            hint=Hint("epsilon", "4"),
        )
    return value


def read_probability(x: Number, name: str) -> Fraction:
    """Parse a probability strictly between 0 and 1 as an exact decimal."""
    value = _exact.decimal(x, name)
    if not 0 < value < 1:
        raise ParameterError(
            f"{name} must lie strictly between 0 and 1, got {_exact.show(value)}",
            hint=Hint(name, "0.5"),
        )
    return value


def read_whole(x: object, name: str, *, least: int = 1, most: int = 1 << 31) -> int:
    """Parse a public whole number."""
    if isinstance(x, bool) or not hasattr(x, "__index__"):
        raise ParameterError(f"{name} must be a whole number, got {type(x).__name__}")
    value = int(x.__index__())
    if not least <= value <= most:
        raise ParameterError(
            f"{name} must lie between {least} and {most}, got {value}", hint=Hint(name, least)
        )
    return value


def read_mark(saved: Mapping[str, Any]) -> bool:
    """Return whether saved state is marked as test noise."""
    mark = saved.get("tainted", False)
    if not isinstance(mark, bool):
        raise ParameterError("the mark of test noise is true or false")
    return mark


def log_up(odds: Fraction) -> Fraction:
    """Return ln(`odds`) for odds > 1, rounded up to about 15 digits.

    >>> 0 < float(log_up(Fraction(3))) - 1.0986122886681098 < 1e-13
    True
    """
    # math.log of a big integer is good to an ulp or two; the slack is a hundred
    value = math.log(odds.numerator) - math.log(odds.denominator)
    size = math.log(odds.numerator) + math.log(odds.denominator)
    return Fraction(value) + Fraction(size + 1) / 2**46


def text(value: Fraction) -> str:
    """Write a rational exactly, as a decimal where that is short.

    >>> text(Fraction(1, 2)), text(Fraction(1, 3))
    ('0.5', '1/3')
    """
    short = _exact.show(value)
    return short if Fraction(short) == value else str(value)
