"""DAWA with a proof: a partition into nearly uniform buckets, then the buckets' counts.

What is released first: one partition of 0 … n−1 into intervals whose lengths are powers of two,
the cheapest by a *noisy* cost, found by dynamic programming.

Guarantee (ε₁-DP for the partition)
-----------------------------------
Cost of a bucket b of L cells: dev(b) + 1/ε₂ + Z_b, dev(b) = Σ|x_i − mean|, **every** bucket
with its own noise and nothing clamped. One record changes dev(b) by at most Δ_L = 2(1 − 1/L),
in whichever direction, for every bucket that contains its cell; Δ = Δ_n is the largest.
Everything is multiplied by n: n·dev(b) = (n/L)·Σ|L·x_i − Σx| is an integer, and so are nΔ_L.
The noise is discrete Laplace of scale n(Δ_L + Δ)/ε₁.

Let B win on x and let b ∈ B hold the changed cell. On the neighbour x' move Z_b down by
n(Δ_L + Δ), an integer, and leave the other noise. Then B's cost has fallen by at least nΔ; a
rival without b has fallen by at most nΔ, in the one bucket of its own that holds the cell; a
rival with b has moved exactly as B has. So B still wins: ties are broken by a fixed
order of partitions (shortest last bucket first, recursively), and a tie on x' that B
could lose was a tie on x. The map Z ↦ Z' is one to one and changes the probability by at most
e^{ε₁}. Under change-one two cells move, in one bucket or in two: scales are doubled.

What the public code of DAWA does instead (no noise on single cells, half the scale, costs
clamped at 1/ε₂) voids each step of this argument; its partition alone loses
Σ_{b∋j} 2(1−1/L)/(2−1/L−1/n) times ε₁: 2.6 at n = 4, 4 090 at n = 4096. See the tests.

Then the buckets' counts are measured by a hierarchy with the rest of the price, spread
evenly inside each bucket, and made isotonic. Buckets longer than 64 start at multiples of an
eighth of their length: a public restriction. Reference: Li, Hay, Miklau, Wang 2014.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet import noise
from discreet._dataclass import dataclass
from discreet.errors import Hint, ParameterError
from discreet.privacy import Neighbours
from discreet.release import _tree
from discreet.release._counts import Counts, apart, fitting
from discreet.release._hierarchy import best_levels
from discreet.release._mechanism import Job, Mechanism, read_share
from discreet.release._queries import Grouped
from discreet.release._questions import Course, OwnProof, alike
from discreet.release._workload import Workload

_FREE = 64


@dataclass(frozen=True)
class Partition(OwnProof):
    """The cheapest partition into buckets, by noisy costs (proof above)."""

    cells: int
    epsilon: Fraction
    penalty: Fraction
    neighbours: Neighbours
    label: str = "partition"

    @property
    def width(self) -> int:
        """Cells, padded to a power of two with empty ones."""
        return int(1 << (self.cells - 1).bit_length())

    @property
    def lengths(self) -> list[int]:
        """Lengths of buckets."""
        return [1 << k for k in range(self.width.bit_length())]

    def starts(self, length: int) -> NDArray[np.int64]:
        """Where buckets of a length may start."""
        step = 1 if length <= _FREE else length // 8
        return np.arange(0, self.width - length + 1, step)

    def reach(self, length: int) -> int:
        """n·Δ_L: most that one record moves the integer cost of a bucket."""
        return 2 * (self.width - self.width // length)

    def law(self, length: int) -> noise.DiscreteLaplace:
        """Noise of a bucket's integer cost."""
        moved = self.reach(length) + self.reach(self.width)
        return noise.DiscreteLaplace(max(1, moved * apart(self.neighbours)) / self.epsilon)

    def costs(self, counts: Counts) -> dict[int, NDArray[Any]]:
        """Return n·dev of every bucket, exactly. PRIVATE."""
        x = np.pad(counts.array().ravel(), (0, self.width - self.cells))
        if self.width * max(counts.total, 1) >= 1 << 61:
            x = x.astype(object)
        sums = np.concatenate([x[:1] * 0, np.cumsum(x)])
        out = {}
        for length in self.lengths:
            at = self.starts(length)
            totals = sums[at + length] - sums[at]
            gaps = np.zeros_like(totals)
            for k in range(0, length, max(1, (1 << 22) // max(1, len(at)))):
                stop = min(length, k + max(1, (1 << 22) // max(1, len(at))))
                window = x[at[:, None] + np.arange(k, stop)]
                gaps = gaps + np.abs(length * window - totals[:, None]).sum(axis=1)
            out[length] = gaps * (self.width // length)
        return out

    def ask(self, counts: Counts) -> NDArray[Any]:
        """Return the starts of the winning partition's buckets."""
        penalty = round(self.width * self.penalty)
        noisy = {
            length: self.law(length).sample(len(cost)) + cost + penalty
            for length, cost in self.costs(counts).items()
        }
        return cheapest(noisy, {length: self.starts(length) for length in self.lengths}, self.width)

    def exact(self, counts: Counts) -> NDArray[Any]:
        """Return the costs of all buckets, length by length."""
        return np.concatenate(list(self.costs(counts).values()))

    def moves(self) -> tuple[int, int, int]:
        """Every cost may move as far as that of the longest bucket."""
        buckets = sum(len(self.starts(length)) for length in self.lengths)
        return alike(apart(self.neighbours) * self.reach(self.width), buckets)

    def distance(self, x: Counts, y: Counts) -> Fraction:
        """Return the largest move of a bucket's cost over what was declared."""
        mine, other = self.costs(x), self.costs(y)
        worst = Fraction(0)
        for length in self.lengths[1:]:
            gap = int(np.abs(mine[length] - other[length]).max())
            worst = max(worst, Fraction(gap, apart(self.neighbours) * self.reach(length)))
        return worst

    def record(self) -> dict[str, Any]:
        """Return the parameters."""
        return {
            "kind": "partition",
            "label": self.label,
            "epsilon": str(self.epsilon),
            "penalty": str(self.penalty),
        }


def cheapest(
    costs: dict[int, NDArray[Any]], starts: dict[int, NDArray[np.int64]], width: int
) -> NDArray[np.int64]:
    """Return the starts of the cheapest partition; ties go to the shortest last bucket."""
    ending: list[list[tuple[int, Any]]] = [[] for _ in range(width + 1)]
    for length in sorted(costs):
        values = costs[length].tolist()
        for start, value in zip(starts[length].tolist(), values, strict=True):
            ending[start + length].append((length, value))
    best: list[Any] = [0] * (width + 1)
    last = [0] * (width + 1)
    for end in range(1, width + 1):
        least: Any = None
        for length, value in ending[end]:
            total = best[end - length] + value
            if least is None or total < least:
                least, last[end] = total, length
        best[end] = least
    cuts, at = [], width
    while at:
        at -= last[at]
        cuts.append(at)
    return np.array(cuts[::-1], dtype=np.int64)


class Dawa(Mechanism):
    """A proved private partition, then a hierarchy over its buckets."""

    method: ClassVar[str] = "dawa"

    def __init__(self, job: Job, *, share: float = 0.25) -> None:
        super().__init__(job)
        if len(job.workload.shape) != 1:
            raise ParameterError(
                f"dawa publishes vectors; this domain has {len(job.workload.shape)} attributes",
                hint=Hint("method", "tree-adaptive"),
            )
        if not job.price.pure:
            raise ParameterError(
                "the partition of dawa is proved for pure ε only",
                hint=Hint("method", "tree-adaptive"),
            )
        fitting(job.workload.shape)
        self.share = read_share(share, 0.25)

    def course(self) -> Course:
        """Choose a partition, measure its buckets, spread."""
        price, cells = self.job.price, self.job.workload.cells
        rest = (1 - self.share) * price.total
        starts = yield Partition(cells, self.share * price.total, 1 / rest, self.job.neighbours)
        labels = np.searchsorted(starts, np.arange(cells), side="right") - 1
        count = int(labels.max()) + 1
        levels = best_levels(Workload.prefix(count), pure=True)
        query = Grouped((count,), levels, labels.astype(np.int64))
        y = yield self.job.measurement(query, 1 - self.share, f"{count} buckets")
        pools, precisions = _tree.pooled(
            query.split(y), [s for _, s in levels], [1 / w**2 for w, _ in levels]
        )
        sums = _tree.isotonic(_tree.descend(pools, precisions)[:count])
        return (sums / np.bincount(labels, minlength=count))[labels]
