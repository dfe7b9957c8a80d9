"""From noisy integers to statistics, and from their boxes to intervals.

A formula says how a statistic follows from measured vectors. It is evaluated
twice: on the noisy values (the estimate) and, by interval arithmetic, on a box
``[low, high]`` per vector. If the box contains the true integers with
probability c, the resulting interval contains the true statistic with
probability at least c: that is the whole argument, for every formula, without
approximation. Public ranges may only shrink an interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Box:
    """Lower and upper ends, cell by cell."""

    low: Floats
    high: Floats

    def clipped(self, lo: float, hi: float) -> Box:
        """Intersect with a public range."""
        return Box(np.clip(self.low, lo, hi), np.clip(self.high, lo, hi))


def corners(op: np.ufunc, a: Box, b: Box) -> Box:
    """Range of a monotone-by-parts operation over two boxes."""
    ends = [op(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return Box(np.minimum.reduce(ends), np.maximum.reduce(ends))


@dataclass(frozen=True, slots=True)
class Total:
    """A count or sum: grid integers times the step."""

    vector: int
    step: Fraction

    @property
    def vectors(self) -> tuple[int, ...]:
        """Indices of the measured vectors it reads."""
        return (self.vector,)

    def estimate(self, values: Sequence[Floats]) -> Floats:
        """Scale to units."""
        return values[self.vector] * float(self.step)

    def bounds(self, boxes: Sequence[Box]) -> Box:
        """Scale the box."""
        box, step = boxes[self.vector], float(self.step)
        return Box(box.low * step, box.high * step)


@dataclass(frozen=True, slots=True)
class Mean:
    """Centre plus centred sum over count, inside the public range."""

    total: int
    count: int
    centre: Fraction
    step: Fraction
    lo: Fraction
    hi: Fraction

    @property
    def vectors(self) -> tuple[int, ...]:
        """Indices of the measured vectors it reads."""
        return (self.total, self.count)

    def estimate(self, values: Sequence[Floats]) -> Floats:
        """Divide the noisy sum by the noisy count (at least one)."""
        ratio = values[self.total] / np.maximum(values[self.count], 1)
        raw = float(self.centre) + ratio * float(self.step)
        return np.clip(raw, float(self.lo), float(self.hi))

    def bounds(self, boxes: Sequence[Box]) -> Box:
        """Range of the ratio over the box."""
        ratio = _per_row(boxes[self.total], boxes[self.count])
        centre, step = float(self.centre), float(self.step)
        raw = Box(centre + ratio.low * step, centre + ratio.high * step)
        return raw.clipped(float(self.lo), float(self.hi))


def _at_least_one(count: Box) -> Box:
    return Box(np.maximum(count.low, 1), np.maximum(count.high, 1))


def _per_row(total: Box, count: Box) -> Box:
    return corners(np.divide, total, _at_least_one(count))


@dataclass(frozen=True, slots=True)
class Spread:
    """Variance or standard deviation from centred first and second sums.

    With y = code − centre, the vectors hold Σy and Σ(y² − half); the variance is
    half + Σ(y² − half)/n − (Σy/n)², times n/(n−1) for a sample variance.
    """

    first: int
    second: int
    count: int
    half: int
    step: Fraction
    widest: Fraction
    sample: bool
    root: bool

    @property
    def vectors(self) -> tuple[int, ...]:
        """Indices of the measured vectors it reads."""
        return (self.first, self.second, self.count)

    def estimate(self, values: Sequence[Floats]) -> Floats:
        """Combine the noisy moments, inside the possible range."""
        n = np.maximum(values[self.count], 1)
        variance = self.half + values[self.second] / n - (values[self.first] / n) ** 2
        return self._finish(variance, n)

    def bounds(self, boxes: Sequence[Box]) -> Box:
        """Combine the moments' boxes."""
        n = _at_least_one(boxes[self.count])
        mean = _per_row(boxes[self.first], n)
        square = Box(
            np.where(mean.low * mean.high <= 0, 0.0, np.minimum(mean.low**2, mean.high**2)),
            np.maximum(mean.low**2, mean.high**2),
        )
        second = _per_row(boxes[self.second], n)
        low = self.half + second.low - square.high
        high = self.half + second.high - square.low
        return Box(self._finish(low, n.high), self._finish(high, n.low))

    def _finish(self, variance: Floats, n: Floats) -> Floats:
        if self.sample:
            variance = variance * n / np.maximum(n - 1, 1)
        ceiling = float(self.widest) ** 2 / 4 * (2 if self.sample else 1)
        variance = np.clip(variance * float(self.step) ** 2, 0, ceiling)
        return np.sqrt(variance) if self.root else variance


@dataclass(frozen=True, slots=True)
class Quantile:
    """A quantile read off a noisy tree of counts."""

    tree: int
    at: Fraction


@dataclass(frozen=True, slots=True)
class Mode:
    """The labels an exponential mechanism picked."""

    selection: int


Formula = Total | Mean | Spread | Quantile | Mode
