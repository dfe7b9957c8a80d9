"""Public parameters of mechanisms: one reading and one clear refusal for each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from discreet import _exact
from discreet._exact import Number
from discreet.errors import Hint, ParameterError
from discreet.mechanisms._lattice import Values, read_values


def read_sensitivity(sensitivity: Number) -> Fraction:
    """Parse a sensitivity: exact, positive, finite."""
    value = _exact.decimal(sensitivity, "sensitivity")
    return _exact.positive(value, "sensitivity", example=1)


def read_count(x: object, name: str, *, least: int = 1) -> int:
    """Parse a public whole number such as a cutoff."""
    if isinstance(x, bool) or not hasattr(x, "__index__"):
        raise ParameterError(f"{name} must be a whole number, got {type(x).__name__}")
    value = int(x.__index__())
    if value < least:
        raise ParameterError(
            f"{name} must be at least {least}, got {value}", hint=Hint(name, least)
        )
    return value


def read_scores(scores: object, name: str = "scores") -> Values:
    """Read private numbers, one per candidate; how many there are is public."""
    values = read_values(scores, name)
    if len(values.shape) != 1 or not values.size:
        raise ParameterError(f"{name} must be a list with one number per candidate")
    return values


def read_candidates(candidates: Sequence[object] | None, size: int) -> tuple[object, ...] | None:
    """Check that a list of candidates matches the scores."""
    if candidates is None:
        return None
    names = tuple(candidates)
    if len(names) != size:
        raise ParameterError(f"{len(names)} candidates were named for {size} scores")
    return names


def sqrt_up(x: Fraction, bits: int = 64) -> Fraction:
    """Return a rational just above √x, within 2^-bits relative or so.

    >>> sqrt_up(Fraction(9, 4))
    Fraction(3, 2)
    """
    shift = max(0, bits + x.denominator.bit_length() - x.numerator.bit_length())
    scaled = (x.numerator << 2 * shift) * x.denominator
    root = math.isqrt(scaled)
    if root * root < scaled:
        root += 1
    return Fraction(root, x.denominator << shift)
