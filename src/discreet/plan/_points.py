r"""Points of quantiles and what is counted around them: the interval that covers.

The ladder
----------
Counts of cells with edges at distances 1, 2, 4, … from the released points (functions of these
alone), each with independent noise. Cells are disjoint, so one row moves one count. Noisy D̂ at an
edge is D (:class:`Rank`) plus a known combination of noise, whose quantiles are computed exactly
(:mod:`discreet.plan._tails`). A cell is ruled out if D̂ at its left edge exceeds its margin, or at
its right edge falls short of minus its margin. The cell that holds the exact quantile is ruled out
by two one-sided events of probability β/2 each, whatever the data; the interval is the hull of what
is left (and of the point).

Where nothing was counted (``interval_share => 0``) no value is ruled out: the interval is the
public range, which holds the quantile for certain.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from math import inf
from typing import Any, ClassVar, Final, Self

import numpy as np

from discreet._dataclass import dataclass
from discreet.plan._parts import Floats, Ints, Law, Release
from discreet.plan._tails import edge_margin, tail_margin
from discreet.plan._valid import damaged, integer, integers, rational
from discreet.plan._vectors import Box, read_law

_DENOMINATOR: Final = 2**20
"""Levels between the quantiles asked for are rounded to this."""


@dataclass(frozen=True)
class Rank:
    """D(v) = ``below``·#{x < v} − ``above``·#{x ≥ v} − ``offset``, in integers."""

    below: int
    above: int
    offset: int = 0

    @classmethod
    def quantile(cls, q: Fraction) -> Rank:
        """The q-quantile; a level of more digits than any table has rows is rounded."""
        if q.denominator > _DENOMINATOR:
            q = Fraction(min(max(round(q * _DENOMINATOR), 1), _DENOMINATOR - 1), _DENOMINATOR)
        return cls(q.denominator - q.numerator, q.numerator)

    @classmethod
    def of(cls, at: Fraction, j: int) -> Rank:
        """A quantile, or the j-th value from an end."""
        if at == 0:
            return cls(1, 0, j)
        return cls(0, 1, -j) if at == 1 else cls.quantile(at)

    @property
    def largest(self) -> int:
        """How far one more row moves D, or a score, at most."""
        return max(self.below, self.above)

    @property
    def factors(self) -> tuple[int, int]:
        """Weights of what lies below and above, without sign."""
        return self.below, self.above

    def scores(self, mass: Ints, unit: int = 1) -> Ints:
        """Scores of all values, from the mass at each; `unit` is the mass of one row."""
        total = int(mass.sum())
        if self.largest * (total + unit * (abs(self.offset) + 1)) >= 2**61:
            mass = mass.astype(object)
        upto = np.cumsum(mass)
        left = self.at_edges(upto - mass, total, unit)
        right = self.at_edges(upto, total, unit)
        scores: Ints = -np.maximum(left, -right)
        return scores

    def at_edges(self, below: Ints, total: int, unit: int = 1) -> Ints:
        """D at edges with so much mass below."""
        d: Ints = below * (self.below + self.above) - (self.above * total + self.offset * unit)
        return d


def edges_around(points: tuple[int, ...], leaves: int, ratio: int) -> tuple[int, ...]:
    """Edges of the cells that are counted around released points."""
    edges = {0, leaves}
    stops = sorted({-1, *points, leaves})
    for before, point, after in zip(stops, stops[1:], stops[2:], strict=False):
        step = 1
        while step < max(point - before, after - point):
            # beyond the neighbouring points their own edges serve
            edges |= {e for e in (point + 1 - step, point + step) if before < e <= after}
            step *= ratio
    return tuple(sorted(e for e in edges if 0 <= e <= leaves))


@dataclass(frozen=True)
class Points(Release):
    """The points chosen in each cell, and noisy counts around them."""

    targets: tuple[Fraction, ...]
    ends: int
    """Intervals of MIN and MAX are of the so-manieth value from the end, and hold those beyond."""
    points: tuple[tuple[int, ...], ...]
    edges: tuple[tuple[int, ...], ...]
    counts: tuple[tuple[int, ...], ...]
    law: Law | None
    """Noise of the counts; None where nothing was counted, and there are no edges."""
    leaves: int
    lo: Fraction
    width: Fraction
    hi: Fraction
    step: Fraction

    kind: ClassVar[str] = "points"

    @property
    def size(self) -> int:
        """Points and counts of all cells."""
        return sum(map(len, self.points)) + sum(map(len, self.counts))

    def to_dict(self) -> dict[str, Any]:
        """Write points, ladders, law and range."""
        return {
            "targets": [str(q) for q in self.targets],
            "ends": self.ends,
            **{
                name: [[int(x) for x in row] for row in getattr(self, name)]
                for name in ("points", "edges", "counts")
            },
            "law": None if self.law is None else self.law.to_dict(),
            "leaves": self.leaves,
            **{name: str(getattr(self, name)) for name in ("lo", "width", "hi", "step")},
        }

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Self:
        """Invert :meth:`to_dict`."""
        points, edges, counts = (
            tuple(integers(row) for row in data[name]) for name in ("points", "edges", "counts")
        )
        return cls(
            tuple(rational(q) for q in data["targets"]),
            integer(data["ends"]),
            points,
            edges,
            counts,
            None if data["law"] is None else read_law(data["law"]),
            integer(data["leaves"]),
            *(rational(data[name]) for name in ("lo", "width", "hi", "step")),
        )

    def check(self, cells: int) -> None:
        """Refuse points and ladders that do not fit the cells or each other."""
        if {len(self.points), len(self.edges), len(self.counts)} != {cells}:
            raise damaged("its columns differ in length")
        if not 0 < self.step <= self.width or self.lo > self.hi or self.ends < 1:
            raise damaged("a quantile has no range")
        if any(not 0 <= q <= 1 for q in self.targets):
            raise damaged("a quantile lies outside 0 and 1")
        for points, edges, counts in zip(self.points, self.edges, self.counts, strict=True):
            inside = all(0 <= v < self.leaves for v in points)
            if not inside or len(points) != len(self.targets):
                raise damaged("a quantile's points do not fit it")
            self._check_ladder(edges, counts)

    def _check_ladder(self, edges: tuple[int, ...], counts: tuple[int, ...]) -> None:
        rising = all(a < b for a, b in pairwise(edges))
        whole = edges[:1] == (0,) and edges[-1:] == (self.leaves,) and rising
        if not whole if self.law is not None else edges:
            raise damaged("a quantile's points do not fit it")
        if len(counts) != max(len(edges) - 1, 0) or any(abs(x) >= 2**62 for x in counts):
            raise damaged("a quantile's counts do not fit it")

    def place(self, at: Fraction) -> int:
        """Which of the points answers a level."""
        if at not in self.targets:
            raise damaged("a quantile was not chosen")
        return self.targets.index(at)

    def quantile(self, at: Fraction) -> Floats:
        """The point of every cell; on a coarse lattice, the middle of its values."""
        i = self.place(at)
        middle = (self.width / self.step - 1) // 2 * self.step
        raw = [self.lo + row[i] * self.width + middle for row in self.points]
        return np.array([float(min(x, self.hi)) for x in raw], dtype=np.float64)

    def interval(self, at: Fraction, confidence: float) -> Box:
        """Ends per cell of an interval for the exact value on the clamped table.

        That of MIN reaches to the lower bound of the policy, that of MAX to the upper one: it
        holds the outermost value itself, of which nothing private says more.
        """
        i, rank = self.place(at), Rank.of(at, self.ends)
        # one end is certain there, so the other may fail with all of the probability
        miss = (1 - confidence) * (2 if at in {0, 1} else 1)
        ends = [self._hull(rank, cell, row[i], miss) for cell, row in enumerate(self.points)]
        low = [float(self.lo if at == 0 else self.lo + a * self.width) for a, _ in ends]
        top = [self.hi if at == 1 else self.lo + b * self.width - self.step for _, b in ends]
        high = [float(min(x, self.hi)) for x in top]
        return Box(np.array(low, dtype=np.float64), np.array(high, dtype=np.float64))

    def ranked(
        self, cell: int, near: Fraction, at: Fraction, confidence: float
    ) -> tuple[float, float]:
        """Ends in one cell for another level, from the counts around a point that was chosen."""
        point = self.points[cell][self.place(near)]
        a, b = self._hull(Rank.quantile(at), cell, point, 1 - confidence)
        top = min(self.lo + b * self.width - self.step, self.hi)
        return float(self.lo + a * self.width), float(top)

    def sizes(self, level: float) -> Box:
        """Bounds of the number of values in every cell."""
        if self.law is None:
            cells = np.full(len(self.points), inf)
            return Box(-cells, cells)
        totals = np.array([float(sum(row)) for row in self.counts])
        draws = np.array([float(len(row)) for row in self.counts])
        off = tail_margin(self.law, draws, np.ones_like(draws), (1 - level) / 2)
        return Box(totals - off, totals + off)

    @property
    def whole(self) -> Box:
        """The public range, cell by cell."""
        cells = np.ones(len(self.points))
        return Box(cells * float(self.lo), cells * float(self.hi))

    def _hull(self, rank: Rank, cell: int, point: int, miss: float) -> tuple[int, int]:
        """First and last edge of what is not ruled out; always around the point."""
        if self.law is None:
            return 0, self.leaves
        edges, counts = self.edges[cell], np.array(self.counts[cell], dtype=object)
        d = rank.at_edges(np.append(0, np.cumsum(counts)), int(counts.sum()))
        cells = len(counts)
        margins = [
            edge_margin(self.law, i, cells - i, rank.factors, miss) for i in range(cells + 1)
        ]
        margins[0] = margins[-1] = inf  # at the ends of the range D has its sign for certain
        places = [
            i for i in range(cells) if d[i] <= margins[i] and d[i + 1] >= -margins[i + 1]
        ] or list(range(cells))
        first, last = edges[min(places)], edges[max(places) + 1]
        return min(first, point), max(last, point + 1)
