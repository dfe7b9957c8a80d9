r"""MIN and MAX: scores that aim at the outermost row, and what they cost.

Every value beyond the largest is as exact a maximum as the largest itself, so no private choice
that looks at ranks alone finds it where the bounds are far. What tells the largest from what lies
far beyond is that rows lie close below it.

The score
---------
Written for MAX; MIN reads the lattice from its other end. For a partition of the lattice into
blocks and a cap J let

.. math:: c(v) = \#\{\text{rows} \le v \text{ among the } J \text{ highest of the block of } v\}

and u(v) the sum of such c with positive integer weights, W in all. One partition is the whole
lattice without a cap: its c is the number of rows at or below v. It has seven tenths of the
weight, and alone would be the usual score (minus the rows above v). The others are blocks of 1, 2,
4, … values, counted from the upper bound, each in two places half a block apart (so that no place
in the range is an unlucky one), and weigh like the squares of 1, 2, 3, ….

*One more row* x in a block with S rows: where S < J, c grows by one at and above x and stays below
it; where S ≥ J it stays at and above x, and below it falls by one or stays at 0. Other blocks
stay. So any two values move apart by at most one in each partition, hence by at most W in u, for
all caps, whatever they are. The law of a choice depends on differences of scores alone, so this
range is what is paid for (:mod:`discreet.plan._choices`, ``monotone``), without a factor 2; and one
row at the top still sets the largest apart by all of W from what lies below it in the same blocks.
(Minus the rows above, plus a credit for rows close by, the most of min(rows within 2^i places,
cap), has the same range, but tells rows apart by the first part's weight alone where the credit is
at its cap.)

*Changing a row* from x to y moves two values apart by at most 1 in the whole lattice (the rows at
or below v change between x and y alone) and by 2 in each other partition: by 1.3·W. Units of up to
k rows, where all rows are one cell: pair the rows that go with those that come; what is left over
costs W each; together at most 1.3·k·W.

The caps
--------
A value far beyond the largest row, by 2^i places, shares with it the blocks that are larger than
2^i, and in smaller ones has nothing. Caps are such that the blocks of one size, where they are
full, are worth ln 8 in the exponent: a doubling of the distance, which doubles the number of such
values, makes each 8 times less likely, so that the mean square of distances stays bounded. They
are a function of the price and the lattice.

What was tried
--------------
By exact laws, a tenth of ε paying for the interval, RMSE over that of the exponential mechanism
that counts rows above with all of ε, where bounds are tight: 30 rows (uniform, normal, lognormal
to either side, top-coded, outliers, ages, two values; n 50 … 10 000, ε .1 and 1): at worst 1.75
(three outliers at the bound and nothing else in the upper half), then 1.67, on average 1.34. It
is more where the top is apart from the rest and ε resolves it by ranks alone, since full blocks far
below are credited as well: 2.7 where a tenth of 1 000 rows share the top value and all others one
far below (ε .1), 16 to 20 for three outliers at ε 3. The j-th value from the end, which was given
before, has 1.7 to 26. RMSE over that one's, where bounds
are 2 to 100 times too far, 24 rows: .01 to 2.1, above 1.4 in two; but more on three of constant or
tied values, where both are within a fortieth of the range. Other weights for the blocks (.25 … 1
of W), caps (ln 3 … ln 11), slopes of the weights, and blocks in one place lose on one side what
they gain on the other. A credit of .4 by the most of min(…) as above had 2.9 at worst where bounds
are tight, and up to 57 where they are far.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import ceil, log
from typing import Final

import numpy as np

from discreet._dataclass import dataclass
from discreet.plan._parts import Ints

LATTICE: Final = 14
BLOCKS: Final = 3
"""Weights of the whole lattice and of either place of the blocks, over the sum of squares."""

WHOLE: Final = LATTICE + 2 * BLOCKS
"""Range that one row moves a score, in the same unit; changing a row: so much and the blocks'."""

CHANGE: Final = WHOLE + 2 * BLOCKS

_FULL: Final = 3 * log(2)
"""What a full block is worth in the exponent, in both of its places together."""


@cache
def levels_of(leaves: int) -> tuple[int, ...]:
    """Weights of the blocks of 1, 2, 4, … values, until two of them hold all."""
    return tuple(i * i for i in range(1, max((leaves - 1).bit_length(), 1) + 1))


def unit_of(leaves: int) -> int:
    """Unit of the weights: one row moves scores apart by WHOLE of these."""
    return sum(levels_of(leaves))


@dataclass(frozen=True)
class End:
    """Scores of the outermost value at one end of a lattice."""

    top: bool
    leaves: int
    rows: Fraction
    """Rows beyond that make a value e times less likely, by all of the weight."""

    @classmethod
    def of(cls, at: Fraction, leaves: int, rows: Fraction) -> End:
        """MIN (0) or MAX (1)."""
        return cls(at == 1, leaves, rows)

    @property
    def caps(self) -> tuple[int, ...]:
        """Most rows of a block that count, by its size."""
        whole = WHOLE * unit_of(self.leaves) * float(self.rows)
        return tuple(ceil(_FULL * whole / (2 * BLOCKS * w)) for w in levels_of(self.leaves))

    def scores(self, counts: Ints) -> Ints:
        """Scores of all values, from the rows at each."""
        total, unit = int(counts.sum()), unit_of(self.leaves)
        if WHOLE * unit * (total + 1) >= 2**61:
            counts = counts.astype(object)
        upto = np.append(0, np.cumsum(counts if self.top else counts[::-1]))
        scores: Ints = upto[1:] * (LATTICE * unit)
        for i, (weight, cap) in enumerate(zip(levels_of(self.leaves), self.caps, strict=True)):
            # more than all rows are as good as all of them
            places = [_highest(upto, 2**i, shift, min(cap, total)) for shift in (0, 2**i // 2)]
            scores += sum(places) * (BLOCKS * weight)
        return scores if self.top else scores[::-1]

    def farthest(self, miss: float) -> float:
        """Rows beyond the point at most, whatever the data, but with this probability.

        At the outermost row no partition gives less than one row, elsewhere none gives more than
        its cap.
        """
        weights = levels_of(self.leaves)
        credit = sum(2 * BLOCKS * w * cap for w, cap in zip(weights, self.caps, strict=True))
        unlikely = WHOLE * float(self.rows) * log(self.leaves / miss)
        return (unlikely + credit / unit_of(self.leaves)) / LATTICE

    def usual(self, miss: float) -> float:
        """Rows beyond the point where values lie close, but with this probability.

        Blocks of most sizes are shared with the outermost row there; that none is, is allowed for.
        """
        return WHOLE * float(self.rows) * log(1 / miss) / LATTICE


def _highest(upto: Ints, size: int, shift: int, cap: int) -> Ints:
    """Rows at or below each value among the `cap` highest of its block, from running totals."""
    last = upto.size - 1
    edges = np.arange(last + shift, -size, -size)[::-1].clip(0, last)
    # as many rows as lie below those that count
    below = np.maximum(upto[edges[:-1]], upto[edges[1:]] - cap)
    rows: Ints = np.maximum(upto[1:] - np.repeat(below, np.diff(edges)), 0)
    return rows


def describe_end(at: Fraction) -> str:
    """MIN and MAX, as what they are and what ± covers."""
    name, bound = ("largest", "upper") if at == 1 else ("smallest", "lower")
    return f"aims at the {name} value, which ± covers up to the {bound} bound"
