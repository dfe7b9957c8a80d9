"""PrivTree: a tree that splits where the data are, with noise that does not grow with depth.

Guarantee
---------
:class:`Growth` releases which nodes of a 2^d-ary tree are split. Node v at depth k with count
c(v) is split when max(c(v) − kδ, θ − δ) + Z > θ, Z discrete Laplace of scale λ, δ an integer ≥
λ·ln β, β = 2^d, θ = 0. It is ε-DP under add-remove for λ = (2β−1)/((β−1)ε) (Zhang, Xiao, Xie
2016, Thm 3.1).

The proof on the integers. Let b be the clamped value with the record, b − 1 without it, and
g(b) = ln P(b+Z > θ)/P(b−1+Z > θ). With r = e^{−1/λ}: g ≤ 1/λ always; for b ≥ θ+1 and u =
r^{b−θ−1}, g = ln((1+r−ru)/(1+r−u)), which is convex in u, 0 at u = 0 and 1/λ at u = 1, hence g
≤ u/λ. Only nodes that hold the record differ, one for each depth, and while c(v) − kδ > θ−δ
that value falls by at least δ from depth to depth. So at most one of them has a value in θ−δ+1
… θ, costing 1/λ; those above have u ≤ 1, β⁻¹, β⁻², …, costing at most (1/λ)·β/(β−1) together;
those clamped cost nothing. The sum is (2β−1)/((β−1)λ) = ε. In the other direction only the leaf
counts, at most 1/λ. Under change-one λ is doubled. Cells are not split: a public limit.

Then the counts of the leaves, and of the nodes of the tree cut off at some depths, are measured
with shares of the rest of the price, combined by weighted least squares over all of them and
spread evenly. A record lies in one leaf and in one node of each cut.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet import noise
from discreet._dataclass import dataclass
from discreet.errors import Hint, ParameterError
from discreet.privacy import Neighbours
from discreet.release._counts import Counts, apart, fitting
from discreet.release._mechanism import Job, Mechanism, read_share
from discreet.release._price import variance
from discreet.release._queries import block_sums, groups
from discreet.release._questions import Course, OwnProof, alike

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Growth(OwnProof):
    """The split decisions of a tree over the domain, depth by depth (proof above)."""

    shape: tuple[int, ...]
    epsilon: Fraction
    neighbours: Neighbours
    label: str = "tree"

    @property
    def height(self) -> int:
        """Depth of single cells."""
        return max((n - 1).bit_length() for n in self.shape)

    @property
    def branching(self) -> int:
        """β: children of a node."""
        return int(1 << len(self.shape))

    @property
    def scale(self) -> Fraction:
        """λ."""
        beta = self.branching
        return apart(self.neighbours) * Fraction(2 * beta - 1, beta - 1) / self.epsilon

    @property
    def bias(self) -> int:
        """δ, rounded up to an integer."""
        return math.ceil(float(self.scale) * math.log(self.branching) * (1 + 1e-12))

    def ask(self, counts: Counts) -> NDArray[Any]:
        """Return one decision for each node that exists, in order of depth."""
        law = noise.DiscreteLaplace(self.scale)
        pyramid = self._sums(counts)
        nodes = np.zeros((1, len(self.shape)), dtype=np.int64)
        released = []
        for depth in range(self.height):
            side = 1 << (self.height - depth)
            sums = pyramid[depth][tuple(nodes.T)]
            biased = np.maximum(sums - depth * self.bias, -self.bias)
            split = np.asanyarray(law.sample(len(nodes)) + biased) > 0
            released.append(split)
            nodes = children(nodes[np.asarray(split)], self.shape, side // 2)
            if not len(nodes):
                break
        return np.concatenate([np.zeros(0, dtype=np.int64), *released]).astype(np.int64)

    def _sums(self, counts: Counts) -> list[NDArray[Any]]:
        """Return the counts of all nodes, depth by depth. PRIVATE."""
        levels = [counts.array()]
        for _ in range(self.height):
            grid = tuple(-(-n // 2) for n in levels[-1].shape)
            levels.append(block_sums(levels[-1], 2, grid))
        return levels[::-1]

    def exact(self, counts: Counts) -> NDArray[Any]:
        """Return the counts of all nodes, depth by depth."""
        return np.concatenate([level.ravel() for level in self._sums(counts)])

    def moves(self) -> tuple[int, int, int]:
        """One node of each depth, or two."""
        return alike(1, apart(self.neighbours) * (self.height + 1))

    def distance(self, x: Counts, y: Counts) -> Fraction:
        """Return the largest move of any node's count: 1 is what the proof assumes."""
        worst = 0
        for mine, other in zip(self._sums(x), self._sums(y), strict=True):
            gap = np.abs(mine - other)
            # one record added: one node moves; one changed: two nodes move, by 1 each
            worst = max(worst, int(gap.max()), -(-int(gap.sum()) // apart(self.neighbours)))
        return Fraction(worst)

    def blank(self) -> NDArray[Any]:
        """Split nothing."""
        return np.zeros(min(self.height, 1), dtype=np.int64)

    def record(self) -> dict[str, Any]:
        """Return the parameters."""
        return {
            "kind": "tree",
            "label": self.label,
            "epsilon": str(self.epsilon),
            "scale": str(self.scale),
            "bias": self.bias,
        }

    def leaves(self, decisions: NDArray[np.int64]) -> list[tuple[int, NDArray[np.int64]]]:
        """Rebuild the tree from released decisions: (side, positions) of leaves, by depth."""
        out = []
        nodes = np.zeros((1, len(self.shape)), dtype=np.int64)
        at = 0
        for depth in range(self.height):
            side = 1 << (self.height - depth)
            split = np.asarray(decisions[at : at + len(nodes)]) > 0
            at += len(nodes)
            out.append((side, nodes[~split]))
            nodes = children(nodes[split], self.shape, side // 2)
            if not len(nodes):
                return out
        out.append((1, nodes))
        return out


def children(nodes: NDArray[np.int64], shape: tuple[int, ...], side: int) -> NDArray[np.int64]:
    """Return the halves of nodes on every axis, those outside the domain left out."""
    d = len(shape)
    corners = np.stack(np.unravel_index(np.arange(1 << d), (2,) * d), axis=1)
    below = (2 * nodes[:, None, :] + corners[None, :, :]).reshape(-1, d)
    inside = (below * side < np.array(shape)).all(axis=1)
    return np.asarray(below[inside])


class PrivTree(Mechanism):
    """A private tree, then the counts of its leaves."""

    method: ClassVar[str] = "privtree"

    def __init__(
        self,
        job: Job,
        *,
        share: float = 0.5,
        cuts: Sequence[int] = (3,),
        shares: Sequence[float] = (0.4,),
    ) -> None:
        super().__init__(job)
        fitting(job.workload.shape)
        if len(job.workload.shape) > 6:
            raise ParameterError(
                f"privtree splits every axis at once: {len(job.workload.shape)} axes are too many",
                hint=Hint("method", "marginals"),
            )
        if not job.price.pure:
            raise ParameterError(
                "the tree of privtree is proved for pure ε only",
                hint=Hint("method", "tree-adaptive"),
            )
        self.share, parts = read_share(share, 0.5), [read_share(s, 0.4, "shares") for s in shares]
        if not sum(parts) < 1:
            raise ParameterError("shares must add up to less than 1", hint=Hint("shares", (0.4,)))
        if len(shares) != len(cuts) or sorted(set(cuts)) != list(cuts) or min(cuts, default=0) < 0:
            raise ParameterError(
                "cuts are depths from the top down, each with its share", hint=Hint("cuts", (3,))
            )
        self.cuts = list(zip(cuts, parts, strict=True))

    def course(self) -> Course:
        """Grow a tree, measure its leaves and its nodes at some depths, combine."""
        job, shape = self.job, self.job.workload.shape
        growth = Growth(shape, self.share * job.price.total, job.neighbours)
        decisions = yield growth
        labels, sides = _labels(growth.leaves(decisions), shape)
        tops = [(1 << max(0, growth.height - depth), s) for depth, s in self.cuts]
        tops = [(top, s) for top, s in tops if (sides < top).any()]
        rest, upper = 1 - self.share, sum((s for _, s in tops), Fraction(0))
        levels, y, noisy = [], [], []
        for top, part in [*tops, (1, 1 - upper)]:
            nodes = _above(labels, sides, top, shape)
            query = groups(nodes[labels.ravel()])
            label = f"{query.rows} leaves" if top == 1 else f"{query.rows} nodes of side {top}"
            measurement = job.measurement(query, rest * part, label)
            y.append(np.asarray((yield measurement), dtype=np.float64))
            levels.append(nodes)
            noisy.append(variance(measurement.law))
        leaves = _combined(levels, y, noisy)
        sizes = np.bincount(labels.ravel(), minlength=len(sides))
        return np.asarray((leaves / sizes)[labels])


def _labels(
    leaves: list[tuple[int, NDArray[np.int64]]], shape: tuple[int, ...]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the leaf of each cell and the side of each leaf."""
    # from coarse to fine, so that the whole costs little more than the finest level
    sides, start, before = [], 0, leaves[0][0]
    labels = np.zeros(tuple(-(-n // before) for n in shape), dtype=np.int64)
    for side, nodes in [*leaves, (1, np.zeros((0, len(shape)), dtype=np.int64))]:
        for axis, n in enumerate(shape if side < before else ()):
            labels = np.repeat(labels, before // side, axis=axis)
            labels = labels.take(np.arange(-(-n // side)), axis=axis)
        before = side
        labels[tuple(nodes.T)] = start + np.arange(len(nodes))
        start += len(nodes)
        sides.append(np.full(len(nodes), side))
    return labels, np.concatenate(sides)


def _above(
    labels: NDArray[np.int64], sides: NDArray[np.int64], top: int, shape: tuple[int, ...]
) -> NDArray[np.int64]:
    """Return for each leaf its node of the cut: its ancestor of side `top`, or itself."""
    grid = tuple(-(-n // top) for n in shape)
    blocks = np.ravel_multi_index(
        tuple(i // top for i in np.indices(shape, sparse=True)), grid, mode="raise"
    )
    owner = np.zeros(len(sides), dtype=np.int64)
    owner[labels.ravel()] = np.broadcast_to(blocks, shape).ravel()
    key = np.where(sides >= top, math.prod(grid) + np.arange(len(sides)), owner)
    return np.asarray(np.unique(key, return_inverse=True)[1], dtype=np.int64)


def _combined(
    levels: Sequence[NDArray[np.int64]], y: Sequence[Array], noisy: Sequence[float]
) -> Array:
    """Weighted least squares of all measured nodes, from the top level down to the leaves.

    `levels` gives the node of each leaf, each level finer than the one before; `noisy` the noise
    variance of a level's counts `y`. Going up, a node's own count and the sum of its children are
    averaged by precision; going down, what a parent differs from its children's sum is shared
    out by their variances. Gauss–Markov on a tree: linear time, least variance, and consistent.
    """
    best, doubt = [y[-1]], [np.full(len(y[-1]), noisy[-1])]
    parents: list[NDArray[np.int64]] = []
    for fine, coarse, own, v in zip(levels[:0:-1], levels[-2::-1], y[-2::-1], noisy[-2::-1],
                                    strict=True):  # fmt: skip
        parent = np.zeros(len(best[0]), dtype=np.int64)
        parent[fine] = coarse
        sums, w = (np.bincount(parent, weights=x, minlength=len(own)) for x in (best[0], doubt[0]))
        parents.insert(0, parent)
        best.insert(0, (own * w + sums * v) / (v + w))
        doubt.insert(0, v * w / (v + w))
    values = best[0]
    for parent, below, w in zip(parents, best[1:], doubt[1:], strict=True):
        gap = values - np.bincount(parent, weights=below)
        values = below + w * (gap / np.bincount(parent, weights=w))[parent]
    return values[levels[-1]]
