r"""Cells of cubic splines: any smooth function of a few columns, at the price of a count.

Guarantee
---------
With s ∈ 0…Kw the code of a column and K intervals of w codes, the K + 3 uniform cubic
B-splines :math:`N_i(s)`, times 6w³, are whole numbers, never negative, and add up to 6w³.
So do the products of several columns' splines, to D, the product of their totals: the cells of
a row are shares of one total, and one unit moves all of them *together* by at most as much as D
times a count moves (:mod:`._moments` has the proof). Every cell gets the noise of the whole loss.

Proof sketch
------------
Uniform B-splines add up to one (de Boor). With :math:`d=|s-c_i|` the distance from the
spline's centre and :math:`m=\max(2w-d,0)`,

.. math:: 6w^3N_i(s)=m^3-4\max(m-w,0)^3 ,

which is m³ ≥ 0 for m ≤ w, and for m = w + t ≤ 2w it is w³ + 3w²t + 3wt² − 3t³ ≥ 0. Outside
its four intervals m is zero. The clamp to 0…4w³ in the expression changes nothing on any
row; it gives the engine's statement its bounds.

What follows
------------
:math:`\sum_\text{rows}f(x)` is, for a spline f with coefficients a, the combination
:math:`\sum_ia_i\sum_\text{rows}N_i(x)` of the cells; for another f the error is at most
n·max|f − s| (:class:`Splines` says both).

References
----------
C. de Boor, *A practical guide to splines*, 2001, chapter 9; P. Eilers, B. Marx, "Flexible
smoothing with B-splines and penalties", Statistical Science 1996.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any, Final

import numpy as np

from discreet._dataclass import dataclass
from discreet.plan._expr import Abs, Arithmetic, AsNumber, Clamp, Constant, Expr, Rescale, Square
from discreet.plan._formula import Formula, Releases, read
from discreet.plan._parts import Floats
from discreet.plan._relation import Measure, MeasureKind
from discreet.plan._tails import half_width
from discreet.plan._tensor import Tensors
from discreet.plan._types import Type
from discreet.plan._valid import damaged
from discreet.plan._vectors import Box

INTERVALS: Final = (8, 5, 4)
"""Intervals of each column, where there are one, two or three."""

_WIDEST: Final = (1024, 256, 40)
"""Codes of an interval, at most: products of 6w³ must fit 62 bits with room for limits."""


def _whole(value: int) -> Constant:
    return Constant(value, Type.number(value, value, null=False))


@dataclass(frozen=True)
class Knots:
    """A column as codes from 0 on, ``width`` of them in each of some intervals."""

    code: Expr
    intervals: int
    width: int
    lo: Fraction
    step: Fraction

    @classmethod
    def of(cls, expr: Expr, columns: int) -> Knots:
        """Shift a column to zero; round it where it is too fine for so many columns."""
        t, intervals = expr.type, INTERVALS[columns - 1]
        first = Constant(t.lo, Type.number(t.lo, t.lo, t.step, null=False))
        code: Expr = Arithmetic("-", expr, first)
        coarse = max(-(-(t.hi - t.lo) // (intervals * _WIDEST[columns - 1])), 1)
        if coarse > 1:
            code = Rescale(code, coarse * t.step)
        width = max(-(-code.type.hi // intervals), 1)
        return cls(AsNumber(code), intervals, width, t.lo * t.step, coarse * t.step)

    @property
    def total(self) -> int:
        """What the splines of a row add up to: 6w³."""
        return 6 * self.width**3

    @property
    def basis(self) -> list[Expr]:
        """The splines times 6w³, first to last."""
        w = self.width
        splines: list[Expr] = []
        for i in range(self.intervals + 3):
            far = Abs(Arithmetic("-", self.code, _whole((i - 1) * w)))
            near = Clamp(Arithmetic("-", _whole(2 * w), far), 0, 2 * w)
            inner = Clamp(Arithmetic("-", near, _whole(w)), 0, w)
            four = Arithmetic("*", _whole(4), _cube(inner))
            splines.append(Clamp(Arithmetic("-", _cube(near), four), 0, 4 * w**3))
        return splines


def _cube(x: Expr) -> Expr:
    return Arithmetic("*", x, Square(x))


def cells_of_splines(columns: Sequence[Knots]) -> list[Measure]:
    """One measure for every combination of the columns' splines."""
    measures = []
    for first, *others in product(*(c.basis for c in columns)):
        cell = first
        for other in others:
            cell = Arithmetic("*", cell, other)
        measures.append(Measure(MeasureKind.SUM, cell))
    return measures


@dataclass(frozen=True, slots=True)
class Splines(Formula):
    """How many rows there are, and cells of which smooth functions can be read.

    Axis by axis: where the first code stands, and how wide an interval is, in units.
    """

    tensor: int
    whole: int
    lows: tuple[Fraction, ...]
    widths: tuple[Fraction, ...]

    @property
    def parts(self) -> tuple[int, ...]:
        """The one part that holds the cells."""
        return (self.tensor,)

    @property
    def _each(self) -> int:
        return INTERVALS[len(self.lows) - 1] + 3

    def cells(self, releases: Releases) -> Floats:
        """Noisy cells in rows, one line per group."""
        return read(releases, self.tensor, Tensors).floats / float(self.whole)

    def axes(self, points: int = 8) -> tuple[list[Floats], list[Floats]]:
        """Places on each axis, `points` to an interval, and the splines' values there."""
        n = INTERVALS[len(self.lows) - 1]
        u = np.linspace(0.0, n, n * points + 1)
        near = np.maximum(2 - np.abs(u[:, None] - np.arange(-1, n + 2)), 0.0)
        values = (near**3 - 4 * np.maximum(near - 1, 0.0) ** 3) / 6
        spans = zip(self.lows, self.widths, strict=True)
        return [float(lo) + u * float(w) for lo, w in spans], [values] * len(self.lows)

    def estimate(self, releases: Releases) -> Floats:
        """Noisy number of rows."""
        return np.asarray(self.cells(releases).sum(axis=1))

    def box(self, releases: Releases, level: float) -> Box:
        """Ends of the number of rows."""
        law = read(releases, self.tensor, Tensors).law
        n, off = self.estimate(releases), self._half(law, 1 - level)
        return Box(np.maximum(n - off, 0.0), np.maximum(n + off, 0.0))

    def _half(self, law: Any, error: float) -> float:
        ones = np.ones((1, self._each ** len(self.lows))) / self.whole
        return float(half_width(ones, law, error)[0])

    def statements(self, releases: Releases) -> set[object]:  # noqa: ARG002 - always one
        """One draw."""
        return {("splines", self.tensor)}

    def margin(self, priced: Any, confidence: float) -> str:
        """Half the width of the number of rows."""
        return f"± {self._half(priced[self.tensor].law, 1 - confidence):.3g}"

    def check(self, releases: Releases) -> None:
        """Refuse cells of another number."""
        fits = 0 < len(self.lows) == len(self.widths) <= len(INTERVALS)
        if not fits or self.whole < 1 or min(self.widths) <= 0:
            raise damaged("splines have no range")
        if read(releases, self.tensor, Tensors).width != self._each ** len(self.lows):
            raise damaged("splines do not fit their cells")


def spline_whole(columns: Sequence[Knots]) -> int:
    """What the cells of one row add up to."""
    return prod(c.total for c in columns)
