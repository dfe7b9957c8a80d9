"""Draws of aggregates for plans: laws of sums over many people, one draw each.

NumPy's generator throughout: nothing private goes in, and what comes out is marked.
"""

from __future__ import annotations

import numpy as np

from discreet.local._bits import Counts

Rng = np.random.Generator


def over_groups(count: int, groups: int, rng: Rng) -> Counts:
    """Spread people evenly at random over groups."""
    if count > groups:
        return np.asarray(rng.multinomial(count, np.full(groups, 1 / groups)))
    return np.bincount(rng.integers(groups, size=count), minlength=groups)


def fair(counts: Counts, rng: Rng) -> Counts:
    """Draw Bin(counts, ½); small ones by counting bits."""
    words = rng.integers(0, 1 << 64, counts.shape, dtype=np.uint64)
    mask = (np.uint64(1) << np.minimum(counts, 63).astype(np.uint64)) - np.uint64(1)
    out = np.bitwise_count(words & mask).astype(np.int64)
    large = counts > 63
    out[large] = rng.binomial(counts[large], 0.5)
    return out


def hyperplanes(table: Counts, rng: Rng) -> Counts:
    """Draw symbols y, uniform with parity(r & y) = t, for table[batch, r, t] people each.

    One bit of y at a time, from the top: as long as other bits of r remain, both values
    of the bit are equally likely; the last bit of r is forced. O(K log K) draws for K symbols.
    """
    batch, size, _ = table.shape
    state = table
    while state.shape[1] > 1:
        low, high = np.moveaxis(state.reshape(len(state), 2, -1, 2), 1, 0)
        low_one, high_one = fair(low, rng), fair(high, rng)
        high_one[:, 0] = high[:, 0] * np.array([0, 1])  # no other bit left: y's bit is t
        zero = low - low_one + high - high_one
        one = low_one + high_one[..., ::-1]
        state = np.stack([zero, one], axis=1).reshape(-1, zero.shape[1], 2)
    return state[:, 0, 0].reshape(batch, size)


def subsets(people: int, size: int, domain: int, rng: Rng) -> Counts:
    """Count how many of `people` uniform sets of `size` items hold each item, jointly.

    Items pass one by one; who lacks r items with m left to come takes the next one
    with chance r/m.
    """
    lacking, needs = np.zeros(size + 1, dtype=np.int64), np.arange(size + 1)
    lacking[size] = people
    out = np.zeros(domain, dtype=np.int64)
    for i in range(domain):
        hits = rng.binomial(lacking, np.minimum(needs / (domain - i), 1.0))
        out[i] = hits.sum()
        lacking = lacking - hits + np.append(hits[1:], 0)
    return out
