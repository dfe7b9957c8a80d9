"""tree-adaptive: a noisy total tells how much data there is; the rest of the price follows.

Guarantee
---------
Measurements only: the total with a fixed share of the price, then the block sums of grids
whose sides and shares depend on the *released* total. One record lies in one
block of a level (L1 and squared L2 sensitivity 1; 2 for a change), the shares add up to at
most 1, and basic composition holds for questions chosen after earlier answers. There is no
selection that could leak and no number of records that would have to be known beforehand.

Why it works
------------
With little data a coarse grid, shrunk and projected, beats every unbiased strategy; with much
data the reverse. What matters is ε·(number of records), and its order of magnitude is cheap to
learn. Sides are fractions of the domain; they were found on the histograms of DPBench
(Hay et al. 2016) and are constants here. Shrinking (James–Stein), projection on simplices and
isotonic regression are post-processing (:mod:`._tree`).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet._dataclass import dataclass
from discreet.errors import Hint, ParameterError
from discreet.release import _tree
from discreet.release._counts import fitting
from discreet.release._mechanism import Job, Mechanism
from discreet.release._price import variance
from discreet.release._queries import Levels
from discreet.release._questions import Course, Measurement

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Shape:
    """What to measure after the first grid, up to some amount of data.

    Attributes
    ----------
    limit
        Used while ε·(released total) is below this.
    levels
        Pairs of (side as a power of two fraction of the axis: 2^-k, share of the price).
    shrink, simplex, isotonic
        Post-processing.
    """

    limit: float
    levels: tuple[tuple[int, float], ...]
    shrink: float
    simplex: bool
    isotonic: bool


FIRST = 0.015
"""Share of the price that buys the total."""

SHAPES_1D = (
    Shape(350, ((3, 0.659), (6, 0.325)), 1.0, simplex=False, isotonic=True),
    Shape(
        5e4,
        ((1, 0.268), (3, 0.206), (6, 0.245), (9, 0.167), (12, 0.098)),
        1.0,
        simplex=True,
        isotonic=False,
    ),
    Shape(
        math.inf,
        ((3, 0.364), (6, 0.226), (9, 0.197), (12, 0.197)),
        0.5,
        simplex=True,
        isotonic=False,
    ),
)
"""Vectors. Exponents refer to 4096 cells: side 2^-k of the axis, 12 is a cell."""

SHAPES_2D = (
    Shape(1e4, ((1, 0.177), (3, 0.295), (5, 0.295), (7, 0.216)), 0.0, simplex=True,
          isotonic=False),
    Shape(math.inf, ((1, 0.098), (3, 0.275), (5, 0.265), (7, 0.344)), 0.0, simplex=True,
          isotonic=False),
)  # fmt: skip
"""Maps. Exponents refer to 128 × 128 cells: side 2^-k of each axis, 7 is a cell."""


class TreeAdaptive(Mechanism):
    """Measure a coarse grid, then grids that suit the amount of data."""

    method: ClassVar[str] = "tree-adaptive"
    note = "its error depends on the data; on DPBench it is below that of every unbiased tree"

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.shape = job.workload.shape
        fitting(self.shape)
        if len(self.shape) > 2:
            raise ParameterError(
                f"tree-adaptive publishes vectors and maps, not {len(self.shape)} attributes",
                hint=Hint("method", "privtree"),
            )
        flat = len(self.shape) == 1
        self.shapes = SHAPES_1D if flat else SHAPES_2D
        self._height = max((n - 1).bit_length() for n in self.shape)
        self._finest = 12 if flat else 7

    def _side(self, exponent: int) -> int:
        """Return the side for 2^-exponent of the axis; the finest exponent is a cell."""
        return 1 if exponent >= self._finest else 1 << max(0, self._height - exponent)

    def _measurement(self, side: int, share: Fraction) -> Measurement:
        query = Levels(self.shape, ((1, side),))
        return self.job.measurement(query, share, f"blocks of side {side}")

    def _share(self, share: float) -> Fraction:
        """Put a share on a public grid, rounded down."""
        return Fraction(math.floor(share * 1000), 1000)

    def course(self) -> Course:
        """Measure the total, then what suits it, and estimate."""
        whole = self._side(0)
        question = self._measurement(whole, self._share(FIRST))
        y = yield question
        measured = {whole: self._level(question, y)}
        total = max(0.0, float(measured[whole][0].sum()))
        suited = next(s for s in self.shapes if self.job.strength() * total < s.limit)
        merged: dict[int, Fraction] = {}
        for exponent, part in suited.levels:
            side = self._side(exponent)
            merged[side] = merged.get(side, Fraction(0)) + self._share(part)
        for side, share in merged.items():
            question = self._measurement(side, share)
            y = yield question
            level = self._level(question, y)
            # a small domain may meet the same grid again: then both are averaged
            measured[side] = _average(measured[side], level) if side in measured else level
        return self._estimate(measured, suited)

    def _level(self, question: Measurement, y: NDArray[np.int64]) -> tuple[Array, float]:
        query = question.query
        assert isinstance(query, Levels)
        return query.split(y)[0], variance(question.law)

    def _estimate(self, measured: dict[int, tuple[Array, float]], suited: Shape) -> Array:
        sides = sorted(measured, reverse=True)
        d = len(self.shape)
        levels = _aligned([measured[side][0] for side in sides], sides)
        pools, precisions = _tree.pooled(
            levels, [side**d for side in sides], [measured[side][1] for side in sides]
        )
        finest = _tree.descend(pools, precisions, shrink=suited.shrink, simplex=suited.simplex)
        cells = _tree.spread(finest, self.shape, sides[-1])
        return _tree.isotonic(cells) if suited.isotonic else cells

    def describe(self) -> str:
        """Name the first question."""
        return f"tree-adaptive: {100 * FIRST:g} % of the price for the total, then block sums"


def _average(a: tuple[Array, float], b: tuple[Array, float]) -> tuple[Array, float]:
    weight = b[1] / (a[1] + b[1])
    return weight * a[0] + (1 - weight) * b[0], a[1] * b[1] / (a[1] + b[1])


def _aligned(levels: list[Array], sides: list[int]) -> list[Array]:
    """Pad finer levels with empty blocks, so that each is a multiple of the coarsest."""
    out = [levels[0]]
    for level, side in zip(levels[1:], sides[1:], strict=True):
        shape = [n * (sides[0] // side) for n in levels[0].shape]
        pad = [(0, w - n) for w, n in zip(shape, level.shape, strict=True)]
        out.append(np.pad(level, pad))
    return out
