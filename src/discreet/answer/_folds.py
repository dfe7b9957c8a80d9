"""Aggregates over rows of an answer of which the noise leaves open whether they belong.

``SELECT COUNT(*) FROM (SELECT g, COUNT(*) AS n … GROUP BY g) WHERE n > 200`` asks how many
groups *truly* have more than 200 rows. What is shown is computed from the noisy numbers,
and it differs from the exact value in two ways: the numbers are off, and so is the choice.

Guarantee
---------
Given boxes that hold for all cells at once, a row surely passes if its test is true on
its whole box, and possibly if it is true somewhere on it. The exact query aggregates all
rows of the first kind and some of those of the second, each with a value in its box.
The ranges below are the least and the greatest aggregate over all these choices, so they
hold whenever the boxes do, for every statistic at once.

* COUNT: between the number of rows that surely and that possibly pass.
* SUM: a row that may be absent adds nothing, or a number in its box.
* AVG: the greatest mean takes the sure rows at their upper ends and then doubtful ones,
  largest first, as long as they raise it; the least one is its mirror image.
* MAX: at most the greatest upper end of all; at least the greatest lower end of the
  sure rows, for they are there. MIN is its mirror image.

Where no row surely passes the exact value may be NULL; the range is then that of the
values it has otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from discreet._dataclass import dataclass
from discreet.plan import Box, Window

Column = NDArray[Any]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Truth:
    """Where a test surely holds and where it possibly does, row by row."""

    surely: Flags
    possibly: Flags

    def __and__(self, other: Truth) -> Truth:
        return Truth(self.surely & other.surely, self.possibly & other.possibly)

    def __or__(self, other: Truth) -> Truth:
        return Truth(self.surely | other.surely, self.possibly | other.possibly)

    def __invert__(self) -> Truth:
        return Truth(~self.possibly, ~self.surely)

    @classmethod
    def known(cls, flags: Column) -> Truth:
        """A test that rests on nothing noisy."""
        exact = np.asarray(flags, dtype=bool)
        return cls(exact, exact)

    @classmethod
    def unknown(cls, rows: int) -> Truth:
        """A test of which nothing is known."""
        return cls(np.zeros(rows, dtype=bool), np.ones(rows, dtype=bool))

    @property
    def open(self) -> bool:
        """Whether it is undecided in some row."""
        return bool((self.surely != self.possibly).any())

    def choose(self, yes: Box, no: Box) -> Box:
        """Range of what a test picks: both where it is undecided."""
        low = np.where(self.surely, yes.low, np.fmin(yes.low, no.low))
        high = np.where(self.surely, yes.high, np.fmax(yes.high, no.high))
        return Box(
            np.where(self.possibly, low, no.low),
            np.where(self.possibly, high, no.high),
        )


COMPARISONS: Final[dict[str, Callable[[Column, Column], tuple[Flags, Flags]]]] = {
    "<": lambda low, high: (high < 0, low < 0),
    "<=": lambda low, high: (high <= 0, low <= 0),
    ">": lambda low, high: (low > 0, high > 0),
    ">=": lambda low, high: (low >= 0, high >= 0),
    "=": lambda low, high: ((low == 0) & (high == 0), (low <= 0) & (high >= 0)),
    "<>": lambda low, high: ((low > 0) | (high < 0), (low != 0) | (high != 0)),
}
"""Whether a difference between two ends surely and possibly passes."""


def compared(op: str, a: Box, b: Box) -> Truth:
    """Truth of a comparison of two ranges; a missing end decides nothing."""
    low, high = a.low - b.high, a.high - b.low  # of the difference
    surely, possibly = COMPARISONS[op](low, high)
    missing = np.isnan(low) | np.isnan(high)
    return Truth(surely & ~missing, possibly | missing)


def is_whole(window: Window) -> bool:
    """Whether a window aggregates all rows of a partition, in whatever order."""
    return window.op in _ENDS and not window.order and window.rows is None


def box(window: Window, arg: Box, there: Truth, partitions: Sequence[Column]) -> Box:
    """Range of an aggregate over the rows that are possibly there.

    `arg` holds ends of what is aggregated, `partitions` what the rows are divided by.
    """
    there &= Truth.known(~(np.isnan(arg.low) | np.isnan(arg.high)))
    low, high = np.full(arg.low.size, np.nan), np.full(arg.low.size, np.nan)
    groups: dict[tuple[object, ...], list[int]] = {}
    for row in range(arg.low.size):
        groups.setdefault(tuple(column[row] for column in partitions), []).append(row)
    for members in groups.values():
        rows = np.array(members, dtype=np.int64)
        sure, maybe = there.surely[rows], there.possibly[rows] & ~there.surely[rows]
        ends = arg.low[rows], arg.high[rows]
        low[rows], high[rows] = _ENDS[window.op](*ends, sure, maybe)
    return Box(low, high)


_Ends = Callable[[Column, Column, Flags, Flags], tuple[float, float]]


def _count(low: Column, high: Column, sure: Flags, maybe: Flags) -> tuple[float, float]:  # noqa: ARG001 - values do not matter
    return float(sure.sum()), float(sure.sum() + maybe.sum())


def _sum(low: Column, high: Column, sure: Flags, maybe: Flags) -> tuple[float, float]:
    if not (sure | maybe).any():
        return np.nan, np.nan
    least = low[sure].sum() + np.minimum(low[maybe], 0).sum()
    most = high[sure].sum() + np.maximum(high[maybe], 0).sum()
    if not sure.any():
        # one of the doubtful rows is there, or the sum is NULL
        least = least if least < 0 else low[maybe].min()
        most = most if most > 0 else high[maybe].max()
    return float(least), float(most)


def _greatest_mean(high: Column, sure: Flags, maybe: Flags) -> float:
    if not (sure | maybe).any():
        return np.nan
    doubtful = np.sort(high[maybe])[::-1]
    total, count = float(high[sure].sum()), int(sure.sum())
    for value in doubtful:
        if count and value * count <= total:
            break
        total, count = total + float(value), count + 1
    return total / count


def _average(low: Column, high: Column, sure: Flags, maybe: Flags) -> tuple[float, float]:
    return -_greatest_mean(-low, sure, maybe), _greatest_mean(high, sure, maybe)


def _greatest(low: Column, high: Column, sure: Flags, maybe: Flags) -> tuple[float, float]:
    if not (sure | maybe).any():
        return np.nan, np.nan
    least = low[sure].max() if sure.any() else low[maybe].min()
    return float(least), float(high[sure | maybe].max())


def _least(low: Column, high: Column, sure: Flags, maybe: Flags) -> tuple[float, float]:
    least, most = _greatest(-high, -low, sure, maybe)
    return -most, -least


_ENDS: Final[dict[str, _Ends]] = {
    "COUNT": _count,
    "SUM": _sum,
    "AVG": _average,
    "MAX": _greatest,
    "MIN": _least,
}
"""Range of each aggregate over rows that are surely there and others that may be."""
