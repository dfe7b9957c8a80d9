"""Junction trees: distributions over many attributes, given by potentials on small tables.

Pure arithmetic on public numbers. A tree of bags covers every measured table; calibration is
one pass up and one pass down; records are drawn bag by bag with evenly spread uniforms, so that
counts differ from their expectations by less than one record for each value of a separator.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet import noise

Array = NDArray[np.float64]
Clique = tuple[int, ...]


def eliminate(sizes: Sequence[int], cliques: Sequence[Clique]) -> list[frozenset[int]]:
    """Return the bags of a min-fill elimination."""
    near: dict[int, set[int]] = {i: set() for i in range(len(sizes))}
    for clique in cliques:
        for a, b in itertools.combinations(clique, 2):
            near[a].add(b)
            near[b].add(a)
    bags: list[frozenset[int]] = []
    while near:
        best = min(near, key=lambda v: (_fill(near, v), _weight(sizes, near[v] | {v}), v))
        around = near.pop(best)
        bags.append(frozenset(around | {best}))
        for a, b in itertools.combinations(around, 2):
            near[a].add(b)
            near[b].add(a)
        for a in around:
            near[a].discard(best)
    return [bag for i, bag in enumerate(bags) if not any(bag < other for other in bags)
            and bag not in bags[:i]]  # fmt: skip


def _fill(near: dict[int, set[int]], v: int) -> int:
    around = near[v]
    return sum(len(around - near[a]) - 1 for a in around) // 2


def _weight(sizes: Sequence[int], bag: set[int] | frozenset[int]) -> int:
    return math.prod(sizes[i] for i in bag)


def cells_of(sizes: Sequence[int], cliques: Sequence[Clique]) -> int:
    """Return how many cells the bags have in all."""
    return sum(_weight(sizes, bag) for bag in eliminate(sizes, cliques))


class Junction:
    """A junction tree over attributes of given sizes that covers given cliques."""

    def __init__(self, sizes: Sequence[int], cliques: Sequence[Clique]) -> None:
        self.sizes = tuple(sizes)
        sets = eliminate(sizes, cliques)
        self.bags: list[Clique] = [tuple(sorted(bag)) for bag in sets]
        self.order, self.parent = [0], {0: -1}
        while len(self.order) < len(sets):
            i, j = max(
                ((i, j) for i in self.order for j in range(len(sets)) if j not in self.parent),
                key=lambda edge: len(sets[edge[0]] & sets[edge[1]]),
            )
            self.parent[j] = i
            self.order.append(j)
        self.separator: dict[int, Clique] = {
            j: tuple(sorted(sets[j] & sets[self.parent[j]])) for j in self.order[1:]
        }

    def home(self, clique: Clique) -> int:
        """Return the smallest bag that holds a clique."""
        holding = [i for i, bag in enumerate(self.bags) if set(clique) <= set(bag)]
        return min(holding, key=lambda i: _weight(self.sizes, frozenset(self.bags[i])))

    def widened(self, table: Array, clique: Clique, bag: Clique) -> Array:
        """Shape a clique's table so that it broadcasts over a bag."""
        return np.asarray(table).reshape([self.sizes[i] if i in clique else 1 for i in bag])

    def empty(self) -> list[Array]:
        """Return zero potentials."""
        return [np.zeros([self.sizes[i] for i in bag]) for bag in self.bags]

    def calibrate(self, potentials: Sequence[Array]) -> tuple[list[Array], float]:
        """Return the bags' distributions and ln of the partition function."""
        state = [p.copy() for p in potentials]
        upward: dict[int, tuple[Array, Array]] = {}
        for j in reversed(self.order[1:]):
            i, shared = self.parent[j], self.separator[j]
            peak = float(state[j].max())
            weights = np.exp(state[j] - peak)
            sums = np.asarray(weights.sum(axis=_others(self.bags[j], shared)))
            upward[j] = (weights, sums)
            message = np.log(np.maximum(sums, 1e-300)) + peak
            state[i] = state[i] + self.widened(message, shared, self.bags[i])
        root = self.order[0]
        peak = float(state[root].max())
        weights = np.exp(state[root] - peak)
        total = float(weights.sum())
        out: list[Array] = [np.zeros(0)] * len(self.bags)
        out[root] = weights / total
        for j in self.order[1:]:
            i, shared = self.parent[j], self.separator[j]
            above = np.asarray(out[i].sum(axis=_others(self.bags[i], shared)))
            weights, sums = upward[j]
            ratio = above / np.maximum(sums, 1e-300)
            out[j] = weights * self.widened(ratio, shared, self.bags[j])
        return out, peak + math.log(total)

    def marginal(self, bags: Sequence[Array], clique: Clique) -> Array:
        """Return a clique's distribution from its bag."""
        home = self.home(clique)
        return np.asarray(bags[home].sum(axis=_others(self.bags[home], clique)))

    def table(self, bags: Sequence[Array], clique: Clique) -> Array:
        """Return the distribution of any attributes: bags given separators, multiplied out."""
        terms: list[Any] = []
        for j in self.order:
            bag, shared = self.bags[j], self.separator.get(j, ())
            above = bags[j].sum(axis=_others(bag, shared))
            margin = self.widened(above, shared, bag)
            terms += [bags[j] / np.maximum(margin, 1e-300) if shared else bags[j], list(bag)]
        return np.asarray(np.einsum(*terms, list(clique), optimize="greedy"))

    def draw(self, bags: Sequence[Array], n: int) -> NDArray[np.int64]:
        """Draw n records."""
        out = np.zeros((n, len(self.sizes)), dtype=np.int64)
        for j in self.order:
            bag, shared = self.bags[j], self.separator.get(j, ())
            fresh = [i for i in bag if i not in shared]
            axes = [bag.index(i) for i in (*shared, *fresh)]
            keys = math.prod(self.sizes[i] for i in shared)
            table = np.transpose(bags[j], axes).reshape(keys, -1)
            key = np.zeros(n, dtype=np.int64)
            for i in shared:
                key = key * self.sizes[i] + out[:, i]
            codes = spread_draw(table, key)
            for i in reversed(fresh):
                codes, out[:, i] = np.divmod(codes, self.sizes[i])
        return out


def _others(bag: Clique, clique: Clique) -> tuple[int, ...]:
    return tuple(k for k, i in enumerate(bag) if i not in clique)


def uniforms(n: int) -> Array:
    """Return doubles in (0, 1) for drawing made-up records (post-processing)."""
    words = np.asarray(noise.random_words(n)) >> np.uint64(11)
    return np.asarray((words.astype(np.float64) + 0.5) * 2.0**-53)


def spread_draw(table: Array, key: NDArray[Any]) -> NDArray[np.int64]:
    """Draw one column for each row of `key` from the row of `table` that it names.

    Rows with the same key share stratified uniforms in random order.
    """
    n, width = len(key), table.shape[1]
    sums = np.cumsum(table, axis=1)
    flat = np.where(sums[:, -1:] > 0, sums / np.maximum(sums[:, -1:], 1e-300),
                    np.arange(1, width + 1) / width)  # fmt: skip
    ladder = (flat + np.arange(len(table))[:, None]).ravel()
    order = np.lexsort((uniforms(n), key))
    ranked = key[order]
    first = np.searchsorted(ranked, ranked, side="left")
    count = np.searchsorted(ranked, ranked, side="right") - first
    u = np.empty(n)
    u[order] = (np.arange(n) - first + uniforms(n)) / count
    columns = np.searchsorted(ladder, key + u, side="right") - key * width
    return np.asarray(np.clip(columns, 0, width - 1), dtype=np.int64)
