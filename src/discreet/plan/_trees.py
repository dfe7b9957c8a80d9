r"""Quantiles from a noisy tree of counts, with an interval that covers.

A tree of branching b over L leaves is released level by level, every node with
independent noise. The number of values left of leaf boundary j is the sum of at
most :math:`(b-1)\log_b L` nodes, so with N̂ the sum of the top level

.. math:: \hat D(j) = \hat F(j) - q\hat N

is the true :math:`D(j) = F(j) - qN` plus a known linear combination of noise.
The leaf j that holds the true q-quantile satisfies :math:`D(j) \le 0 \le D(j+1)`.
The interval is the hull of all leaves for which neither inequality is refuted
at level β/2: the true leaf is refuted with probability at most β, whatever the
data. Tails of the noise are bounded by Chernoff's method from the exact moment
generating function, so the coverage holds without approximation.

The tree is measured level by level: each level is one draw, because a unit's rows may
meet in one node of any level, and moves it by the sensitivity of the leaves at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from discreet._dataclass import dataclass, field
from discreet._lazy import optimize, special
from discreet.plan._parts import (
    Cells,
    Draw,
    Exact,
    Floats,
    Groups,
    Ints,
    Law,
    Part,
    Priced,
    Release,
    Rule,
    add,
    loss_of,
)
from discreet.plan._tails import tail_margin
from discreet.plan._types import Code
from discreet.plan._valid import damaged, integer, integers, rational
from discreet.plan._vectors import Box, read_law

BRANCHING: Final = 16
"""Children of a tree node: four levels reach 65536 leaves (Qardaji et al. 2013)."""

_DEEPEST: Final = 64


def steps(name: str, width: Fraction) -> str:
    """Say how coarse quantiles are."""
    return f"quantiles of {name} in steps of {float(width):.6g}"


@dataclass(frozen=True)
class Tree(Part):
    """A histogram over equal leaves of a range, measured level by level."""

    levels: int
    leaves: int
    lo: Fraction  # value at the left edge of leaf 0
    width: Fraction  # value width of a leaf
    hi: Fraction
    step: Fraction  # distance of the values themselves
    name: str = field(default="", compare=False)

    kind: ClassVar[str] = "tree"

    def facts(self, law: Any) -> list[str]:
        """How coarse the leaves are."""
        del law
        coarse = self.name and self.width > self.step
        return [steps(self.name, self.width)] if coarse else []

    @property
    def draws(self) -> int:
        """One for each level."""
        return self.levels

    @property
    def numbers(self) -> int:
        """Noisy counts of all nodes, level by level."""
        return sum(BRANCHING**depth for depth in range(1, self.levels + 1))

    def price(self, rule: Rule) -> Priced:
        """The same law at every level."""
        law = rule.law(self.sensitivity)
        loss = loss_of(law, self.sensitivity, self.coordinates)
        return Priced(self, law, (loss,) * self.levels)

    def release(self, priced: Priced, groups: Groups, cells: Cells, draw: Draw) -> Levels:
        """Add noise to the counts of every node."""
        exact = np.zeros((len(cells), self.leaves), dtype=np.int64)
        place = {cell: i for i, cell in enumerate(cells.keys)}
        for key, values in groups.items():
            i = place.get(key[:-1])
            if i is not None:
                exact[i, _leaf(key)] = values[0]
        levels = []
        for depth in range(1, self.levels + 1):
            nodes = BRANCHING**depth
            # the last length is stated: without any cell it could not be inferred
            counts = exact.reshape(len(cells), nodes, self.leaves // nodes).sum(axis=2)
            noisy = add(counts, draw.sample(priced.law, counts.size).reshape(counts.shape))
            levels.append(tuple(tuple(int(x) for x in row) for row in noisy))
        shape = (BRANCHING, self.lo, self.width, self.hi, self.step)
        return Levels(tuple(levels), priced.law, *shape)

    def measurements(self, groups: Groups) -> Iterator[tuple[str, Exact]]:
        """Counts of the nodes, level by level."""
        for depth in range(1, self.levels + 1):
            counts: dict[tuple[Any, ...], int] = {}
            for key, values in groups.items():
                node = (*key[:-1], _leaf(key) * BRANCHING**depth // self.leaves)
                counts[node] = counts.get(node, 0) + values[0]
            yield f" level {depth}", counts


def _leaf(key: tuple[Code, ...]) -> int:
    leaf = key[-1]
    assert isinstance(leaf, int)
    return leaf


@dataclass(frozen=True)
class Levels(Release):
    """Noisy levels of one tree: ``levels[i][cell]`` has b**(i+1) nodes."""

    levels: tuple[tuple[tuple[int, ...], ...], ...]
    law: Law
    branching: int
    lo: Fraction
    width: Fraction
    hi: Fraction
    step: Fraction = Fraction(0)

    kind: ClassVar[str] = "tree"

    @property
    def size(self) -> int:
        """All nodes of all cells."""
        return sum(len(row) for level in self.levels for row in level)

    def to_dict(self) -> dict[str, Any]:
        """Write levels, law and range."""
        return {
            "law": self.law.to_dict(),
            "levels": [[[int(x) for x in row] for row in level] for level in self.levels],
            "branching": self.branching,
            **{name: str(getattr(self, name)) for name in ("lo", "width", "hi", "step")},
        }

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Self:
        """Invert :meth:`to_dict`."""
        levels = tuple(tuple(integers(row) for row in level) for level in data["levels"])
        law = read_law(data["law"])
        # earlier records do not say how far values lie apart
        fields = {"step": 0, **data}
        shape = (rational(fields[name]) for name in ("lo", "width", "hi", "step"))
        return cls(levels, law, integer(data["branching"]), *shape)

    def check(self, cells: int) -> None:
        """Refuse levels that do not fit the cells or each other."""
        if self.branching < 2 or not 1 <= len(self.levels) <= _DEEPEST:
            raise damaged("a tree has no levels")
        if not 0 <= self.step <= self.width or not self.width or self.lo > self.hi:
            raise damaged("a tree has no range")
        for depth, level in enumerate(self.levels, start=1):
            uneven = any(len(row) != self.branching**depth for row in level)
            if len(level) != cells or uneven or any(abs(x) >= 2**62 for row in level for x in row):
                raise damaged("a tree's levels do not fit it")

    @cached_property
    def _counts(self) -> tuple[Ints, ...]:
        return tuple(
            np.array(level, dtype=np.int64).reshape(len(level), self.branching**depth)
            for depth, level in enumerate(self.levels, start=1)
        )

    @property
    def leaves(self) -> int:
        """Number of leaves."""
        return int(self.branching ** len(self.levels))

    def _cumulative(self) -> Floats:
        """Noisy number of values left of every boundary, shape (cells, leaves + 1)."""
        j = np.arange(self.leaves + 1)
        total: Floats = np.zeros((self._counts[0].shape[0], self.leaves + 1))
        parent = np.zeros_like(j)
        for depth, counts in enumerate(self._counts, start=1):
            node = j // self.branching ** (len(self.levels) - depth)
            prefix = np.concatenate(
                [np.zeros((counts.shape[0], 1)), np.cumsum(counts.astype(np.float64), axis=1)],
                axis=1,
            )
            total += prefix[:, node] - prefix[:, np.minimum(parent * self.branching, node)]
            parent = node
        return total

    def _fit(self) -> Floats:
        """Number of values left of every boundary by least squares, never falling.

        Every node is measured once by itself and once as the sum of what is measured below it;
        weighting both by their variances, then sharing out what is left of each sum, is the least
        squares fit (Hay et al. 2010). What falls is pooled (isotonic regression).
        """
        b = self.branching
        levels = [counts.astype(np.float64) for counts in self._counts]
        fits, variance = [levels[-1]], 1.0
        for level in levels[-2::-1]:
            below = fits[0].reshape(len(level), -1, b).sum(axis=2)
            weight = b * variance / (1 + b * variance)
            fits.insert(0, weight * level + (1 - weight) * below)
            variance = weight
        fit = fits[0]
        for finer in fits[1:]:
            children = finer.reshape(len(fit), -1, b)
            rest = (fit - children.sum(axis=2)) / b
            fit = (children + rest[:, :, None]).reshape(len(fit), -1)
        total = np.concatenate([np.zeros((len(fit), 1)), np.cumsum(fit, axis=1)], axis=1)
        pooled = [optimize.isotonic_regression(row).x for row in total]
        return np.array(pooled, dtype=np.float64).reshape(total.shape)

    @cached_property
    def _fitted(self) -> Floats:
        return self._fit()

    def quantile(self, at: Fraction) -> Floats:
        """Estimate per cell: where the fit crosses the quantile's rank, interpolated.

        The values of a leaf reach from its left end to one step before its right end, so
        that is where the estimate lies: a leaf of one value gives that value.
        """
        leaf, share = self._crossing(float(at))
        return self._value(leaf + share * float(1 - self.step / self.width))

    def _crossing(self, q: float) -> tuple[Ints, Floats]:
        """Leaf of a quantile, and how far into it the quantile lies."""
        rising = self._fitted
        target = q * np.maximum(rising[:, -1:], 0)
        leaf = np.clip((rising <= target).sum(axis=1) - 1, 0, self.leaves - 1)
        # where the fit is level, the middle of what is as good
        first = np.clip((rising < target).sum(axis=1) - 1, 0, self.leaves - 1)
        leaf = (leaf + first) // 2
        rows = np.arange(leaf.size)
        left, right = rising[rows, leaf], rising[rows, leaf + 1]
        steep = right > left
        share = np.where(steep, (target[:, 0] - left) / np.where(steep, right - left, 1), 0.5)
        return leaf, np.clip(share, 0, 1)

    def interval(self, at: Fraction, confidence: float) -> Box:
        """Ends per cell of an interval for the true quantile of the clamped values."""
        q, cumulative = float(at), self._cumulative()
        difference = cumulative - q * cumulative[:, -1:]
        squares, largest = _squares(len(self.levels), self.branching, q)
        margin = tail_margin(self.law, squares, largest, (1 - confidence) / 2)
        possible = (difference[:, :-1] <= margin[:-1]) & (difference[:, 1:] >= -margin[1:])
        nothing = ~possible.any(axis=1)
        first = np.where(nothing, 0, possible.argmax(axis=1))
        last = np.where(
            nothing, self.leaves - 1, self.leaves - 1 - possible[:, ::-1].argmax(axis=1)
        )
        leaf, _ = self._crossing(q)
        return Box(self._value(np.minimum(first, leaf)), self._value(np.maximum(last, leaf) + 1))

    def place(self, at: Fraction) -> int:
        """Any level can be read off a tree."""
        return int(at)

    def ranked(
        self, cell: int, near: Fraction, at: Fraction, confidence: float
    ) -> tuple[float, float]:
        """Ends in one cell for any level."""
        del near  # a tree knows all levels alike
        box = self.interval(at, confidence)
        return float(box.low[cell]), float(box.high[cell])

    def sizes(self, level: float) -> Box:
        """Bounds of the number of values in every cell."""
        total = self._counts[0].sum(axis=1).astype(np.float64)
        one = np.array([1.0])
        off = tail_margin(self.law, self.branching * one, one, (1 - level) / 2)[0]
        return Box(total - off, total + off)

    @property
    def whole(self) -> Box:
        """The public range, cell by cell."""
        cells = np.ones(len(self.levels[0]))
        return Box(cells * float(self.lo), cells * float(self.hi))

    def _value(self, position: NDArray[Any]) -> Floats:
        raw = float(self.lo) + position * float(self.width)
        return np.clip(raw, float(self.lo), float(self.hi))


def _squares(levels: int, branching: int, q: float) -> tuple[Floats, Floats]:
    """Σ of squared and largest absolute noise coefficients of D̂(j), per boundary."""
    j = np.arange(branching**levels + 1)
    top = j // branching ** (levels - 1)
    squares = (1 - q) ** 2 * top + q**2 * (branching - top)
    node = top
    for depth in range(2, levels + 1):
        finer = j // branching ** (levels - depth)
        squares = squares + (finer - node * branching)
        node = finer
    largest = np.ones(j.size) if levels > 1 else np.full(j.size, max(q, 1 - q))
    return squares.astype(np.float64), largest


@lru_cache(64)
def _mean_squares(levels: int, q: float) -> float:
    """Σ of squared noise coefficients of D̂ at an average boundary."""
    return float(_squares(levels, BRANCHING, q)[0].mean())


def typical(tree: Tree, law: Law) -> float:
    """Mean error of ranks that a fit to the tree makes, about."""
    # averaging all levels leaves three quarters of the spread; the mean of |normal| is √(2/π)
    return float(0.6 * np.sqrt(_mean_squares(tree.levels, 0.5) * float(law.variance)))


def rank_error(tree: Tree, law: Law, q: float, confidence: float) -> tuple[float, float]:
    """Error of a quantile in ranks, and reach of its interval, at an average boundary.

    The first is the normal quantile of the noise of D̂ (a sum of a dozen draws or more), the
    second the margin by which the interval rules leaves out.
    """
    mean = np.array([_mean_squares(tree.levels, q)])
    largest = np.array([1.0 if tree.levels > 1 else max(q, 1 - q)])
    normal = special.ndtri((1 + confidence) / 2) * np.sqrt(mean[0] * float(law.variance))
    reach = tail_margin(law, mean, largest, (1 - confidence) / 2)
    return float(normal), float(reach[0])
