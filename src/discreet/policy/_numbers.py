# ruff: noqa: A002 - min and max are the words of the policy file
"""Columns of numbers, and the public grid that turns reals into integers."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Final

from discreet._dataclass import dataclass
from discreet._exact import Number, show
from discreet.policy._check import number, plain, refusal, settle, whole
from discreet.policy._domain import Declaration, Outside, bounded, column_name

GRID_BITS: Final = 53
"""Grid integers stay below 2^53: a double holds each of them exactly."""

_DEFAULT_CELLS: Final = 2**20


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Integer(Declaration):
    """A whole number from `min` to `max`, both below 2^62 in size.

    Parameters
    ----------
    name
        Column name.
    min, max
        Public bounds, both included.
    outside
        ``"clamp"`` or ``"null"``: what a value beyond the bounds becomes.
    nullable, null
        See the module's table.

    Examples
    --------
    >>> Integer("age", 0, 115)
    Integer('age', min=0, max=115)
    """

    type: ClassVar[str] = "integer"
    name: str
    min: int
    max: int
    outside: Outside = "clamp"
    nullable: bool = True
    null: int | None = None

    def __init__(
        self,
        name: str,
        min: Number | None = None,
        max: Number | None = None,
        *,
        outside: Outside = "clamp",
        nullable: bool = True,
        null: Number | None = None,
    ) -> None:
        own, subject = column_name(name)
        settle(self, name=own, **bounded((min, max), (outside, nullable, null), subject, whole))

    @property
    def grid(self) -> tuple[int, int]:
        """Least and greatest grid integer: the bounds themselves."""
        return (self.min, self.max)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Real(Declaration):
    """A number from `min` to `max` on a public grid of width `step`.

    NaN is NULL; ±inf lie outside the bounds. Values are clamped (or dropped),
    then rounded to the nearest multiple of `step`, so that sums are integers.

    Parameters
    ----------
    name
        Column name.
    min, max
        Public bounds, both included, both multiples of `step`. Floats are read
        as their shortest decimal, as in the policy file.
    step
        Grid width: a whole number or one over a whole number. Left out, it is
        the largest power of two not above (max − min)/2^20 that divides both
        bounds; failing that, the largest such power of ten. The column shows it.
    outside
        ``"clamp"`` or ``"null"``: what a value beyond the bounds becomes.
    nullable, null
        See the module's table.

    Examples
    --------
    >>> Real("income", 0, 200_000, step="0.01").grid
    (0, 20000000)
    >>> Real("share", 0, 1)
    Real('share', min=0, max=1, step='9.5367431640625e-07')
    """

    type: ClassVar[str] = "real"
    nan: ClassVar[str] = "null"
    name: str
    min: Fraction
    max: Fraction
    step: Fraction
    outside: Outside = "clamp"
    nullable: bool = True
    null: Fraction | None = None

    def __init__(
        self,
        name: str,
        min: Number | None = None,
        max: Number | None = None,
        step: Number | None = None,
        *,
        outside: Outside = "clamp",
        nullable: bool = True,
        null: Number | None = None,
    ) -> None:
        own, subject = column_name(name)
        settle(self, name=own, **bounded((min, max), (outside, nullable, null), subject, number))
        settle(self, step=_step(step, self.min, self.max, subject))
        if self.null is not None:
            _on_grid(self.null, self.step, subject, "null")

    @property
    def grid(self) -> tuple[int, int]:
        """Least and greatest grid integer: the bounds in steps."""
        return (int(self.min / self.step), int(self.max / self.step))


def _step(step: Number | None, low: Fraction, high: Fraction, subject: str) -> Fraction:
    if step is None:
        return _default_step(low, high, subject)
    width = number(step, subject, "step")
    if width <= 0:
        raise refusal(f"{subject}: step must be positive", "step", fix={"step": 1})
    if 1 not in (width.numerator, width.denominator):
        near = Fraction(width.__floor__()) if width > 1 else 1 / Fraction((1 / width).__ceil__())
        raise refusal(
            f"{subject}: step must be a whole number or one over a whole number, got {show(width)}",
            "step",
            fix={"step": plain(near)},
        )
    _on_grid(low, width, subject, "min")
    _on_grid(high, width, subject, "max")
    if not _exact_in_double(low, high, width):
        raise refusal(
            f"{subject}: bounds divided by step must stay below 2^{GRID_BITS}, "
            "or a double could not hold every grid integer; take a coarser step",
            "step",
            fix={"step": None},
        )
    return width


def _default_step(low: Fraction, high: Fraction, subject: str) -> Fraction:
    """Find the coarsest power of 2, else of 10, that gives 2^20 cells and divides the bounds."""
    aim = (high - low) / _DEFAULT_CELLS or Fraction(1)
    for base in (2, 10):
        width = _power_at_most(base, aim)
        while not _exact_in_double(low, high, width):
            width *= base
        while not _divides(width, low, high) and _exact_in_double(low, high, width / base):
            width /= base
        if _divides(width, low, high):
            return width
    coarse = _power_at_most(10, aim)
    fix: dict[str, object] = {
        "min": plain(coarse * (low / coarse).__floor__()),
        "max": plain(coarse * (high / coarse).__ceil__()),
        "step": plain(coarse),
    }
    raise refusal(f"{subject}: no grid of powers of 2 or 10 holds both bounds", "min", fix=fix)


def _divides(width: Fraction, *values: Fraction) -> bool:
    return all((value / width).denominator == 1 for value in values)


def _exact_in_double(low: Fraction, high: Fraction, width: Fraction) -> bool:
    limit = width * Fraction(2**GRID_BITS)
    return abs(low) < limit and abs(high) < limit and high - low < limit


def _power_at_most(base: int, aim: Fraction) -> Fraction:
    power = Fraction(1)
    while power > aim:
        power /= base
    while power * base <= aim:
        power *= base
    return power


def _on_grid(value: Fraction, step: Fraction, subject: str, key: str) -> None:
    steps = value / step
    if steps.denominator != 1:
        # outwards, so that the bounds still hold whatever they held
        near = step * (steps.__ceil__() if key == "max" else steps.__floor__())
        raise refusal(
            f"{subject}: {key} {show(value)} is not a multiple of step {show(step)}",
            key,
            fix={key: plain(near)},
        )
