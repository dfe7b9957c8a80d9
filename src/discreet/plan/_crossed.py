r"""Two sums of numbers that are never negative, read off shares of one product.

Guarantee
---------
With s ∈ 0…K and t ∈ 0…L the codes of two columns, NULL as 0, a row adds

.. math:: s(L-t),\quad (K-s)t,\quad st,\quad (K-s)(L-t)

to four integers. They are never negative and add up to D = KL, so that
:func:`~discreet.plan._stability.partition_sensitivity` applies: one row moves all of them together
by D, and each gets the noise of the whole loss. The last is left out where rows are not counted.

What it gains
-------------
Under add-remove Σs is the first and the third over L: variance 2·2/ε² in units of K, where a sum at
half of the price has 2·4/ε²; likewise Σt and, with all four, the number of rows. Their ratio ρ (in
units of the ranges) rests on s(1−t)·ρ, (1−s)t and st(1−ρ): at ρ = 1 half of the error of two sums.
Gaussian noise is as large as that of two sums, and smaller for the ratio. Two more columns are two
more such draws. Where rows are replaced a row leaves one share and enters another, while a sum
moves by no more than its range: nothing is gained there. (Columns that have negative values too are
measured best about zero, and beside a mean a sum needs the number of values: :mod:`._families`.)
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from discreet._dataclass import dataclass
from discreet.plan._expr import Arithmetic, Constant, Expr
from discreet.plan._joint import Form
from discreet.plan._means import WeightedSum
from discreet.plan._types import Type

WIDEST: Final = 2**52
"""Largest total D: noise must fit the integers of an engine at every price."""


@dataclass(frozen=True)
class Crossed:
    """Integers of two columns, and the sums that follow from them."""

    pair: tuple[Expr, Expr]
    rows: bool
    """Whether the number of rows is read off them too."""
    start: int = 0
    """First of its releases."""

    @property
    def ranges(self) -> tuple[int, int]:
        """K and L."""
        return self.pair[0].type.hi, self.pair[1].type.hi

    @property
    def total(self) -> int:
        """What one row shares out."""
        return self.ranges[0] * self.ranges[1]

    @property
    def summed(self) -> tuple[Expr, ...]:
        """What the engine adds up: both, their product (NULL where one of them is), and rows."""
        one = Constant(1, Type.number(1, 1, null=False))
        return (*self.pair, Arithmetic("*", *self.pair), *[one] * self.rows)

    @property
    def cells(self) -> tuple[int, ...]:
        """Its releases."""
        return tuple(range(self.start, self.start + 3 + self.rows))

    def forms(self, first: int, second: int, both: int, rows: int = -1) -> tuple[Form, ...]:
        """The integers, as forms over the engine's sums at these places."""
        (k, m), one = self.ranges, (both, 1)
        forms: list[Form] = [((first, m), (both, -1)), ((second, k), (both, -1)), (one,)]
        if self.rows:
            forms.append(((rows, self.total), (first, -m), (second, -k), one))
        return tuple(forms)

    def sum(self, expr: Expr) -> WeightedSum:
        """The sum of one of the two."""
        i = self.pair.index(expr)
        weight = expr.type.step / self.ranges[1 - i]
        return WeightedSum((self.cells[i], self.cells[2]), (weight, weight))

    def count(self) -> WeightedSum:
        """All rows."""
        return WeightedSum(self.cells, (Fraction(1, self.total),) * len(self.cells))

    def shares(self) -> dict[int, dict[int, Fraction]]:
        """Every release in shares of rows."""
        return {cell: {cell: Fraction(self.total)} for cell in self.cells}


def crosses(first: Expr, second: Expr) -> bool:
    """Whether two columns can be crossed: none is negative, and their product is not too wide."""
    a, b = first.type, second.type
    return min(a.lo, b.lo) >= 0 and 0 < a.hi * b.hi <= WIDEST
