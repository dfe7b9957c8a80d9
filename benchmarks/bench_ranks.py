"""How often tests of ranks find a shift: ``curated_kruskal``, counts by bins, and a peer's.

Groups of normal values, each `shift` deviations above the one before, at a level of 5 %. *Couch*
is the test of Couch, Kazan, Shi, Bray and Groce (2019) where one row may change: the sum of the
groups' absolute ranks, without clipping, under a null law that knows the sizes of the groups. Bins
are as many as ``kruskal_test`` advises, over a range of 6.7 deviations about the middle.
"""

from __future__ import annotations

import argparse
import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet import inference as inf
from discreet import noise
from discreet.inference._curated_kruskal import Design
from discreet.inference._kruskal import bins
from discreet.privacy import Neighbours

CASES = [
    ((30, 30, 30), 0.8, "1"),
    ((100, 100, 100), 0.5, "0.3"),
    ((1000, 1000, 1000), 0.1, "1"),
    ((80, 80, 20), 0.7, "1"),
    ((76, 7, 7), 1.2, "1"),
]
"""Sizes of the groups, shift from one to the next, ε."""

ALPHA, DRAWS = 0.05, 999
HALF_RANGE = 3.35


def people(
    sizes: tuple[int, ...], shift: float, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Values and the places of their groups."""
    places = np.repeat(np.arange(len(sizes)), sizes)
    return rng.normal(size=places.size) + shift * places, places


def ours(
    sizes: tuple[int, ...],
    shift: float,
    design: Design,
    rng: np.random.Generator,
) -> bool:
    """Whether absolute ranks find it."""
    x, places = people(sizes, shift, rng)
    rows, value = design.measure(np.rint(1e6 * x).astype(np.int64), places)
    return bool(design.read({"rows": rows, "excess": value}, DRAWS, rng).pvalue <= ALPHA)


def binned(sizes: tuple[int, ...], shift: float, law: noise.Law, rng: np.random.Generator) -> bool:
    """Whether counts by bins find it."""
    x, places = people(sizes, shift, rng)
    count = bins(min(sizes), law.variance)
    middle = shift * (len(sizes) - 1) / 2
    place = np.floor(((x - middle) / HALF_RANGE + 1) * count / 2).clip(0, count - 1).astype(int)
    table = np.zeros((len(sizes), count))
    np.add.at(table, (places, place), 1)
    table += inf.Noise(law).simulate(rng, table.shape)
    return bool(inf.kruskal_test(table, law=law, draws=DRAWS, rng=rng).pvalue <= ALPHA)


def couch(
    sizes: tuple[int, ...], shift: float, epsilon: float, runs: int, rng: np.random.Generator
) -> float:
    """How often the unclipped statistic finds it, where one row may change."""
    places = np.repeat(np.arange(len(sizes)), sizes)
    n, found = places.size, []
    for moved in (0.0, shift):
        ordered = (rng.normal(size=(runs, n)) + moved * places).argsort(axis=1)
        centred = 2 * np.arange(n) - (n - 1)
        sums = [np.where(places[ordered] == i, centred, 0).sum(axis=1) for i in range(len(sizes))]
        excess = np.maximum(sums, 0).sum(axis=0)
        found.append(excess + rng.laplace(0, 2 * (n - 2) / epsilon, runs))
    null, other = found
    return float((other > np.quantile(null, 1 - ALPHA)).mean())


def main(runs: int) -> None:
    """Print the table."""
    rng = np.random.default_rng(1)
    heads = ("groups", "shift", "ε", "relation", "n", "curated", "binned", "Couch")
    print(("{:18} {:>5} {:>4} {:>11} {:>8}" + " {:>8}" * 3).format(*heads))
    worst = 0.5 / math.sqrt(runs)
    for sizes, shift, epsilon in CASES:
        for relation, public in (
            (Neighbours.CHANGE_ONE, True),
            (Neighbours.CHANGE_ONE, False),
            (Neighbours.ADD_REMOVE, False),
        ):
            design = Design.of(len(sizes), relation, Fraction(epsilon), public=public)
            law = noise.DiscreteLaplace(design.times / Fraction(epsilon))
            mine = np.mean([ours(sizes, shift, design, rng) for _ in range(runs)])
            by_bins = np.mean([binned(sizes, shift, law, rng) for _ in range(runs)])
            peer = f"{couch(sizes, shift, float(epsilon), 4 * runs, rng):8.2f}" if public else ""
            n = "public" if public else "private"
            name = " ".join(map(str, sizes))
            print(
                f"{name:18} {shift:5} {epsilon:>4} {relation.value:>11} {n:>8} {mine:8.2f} "
                f"{by_bins:8.2f} {peer}",
                flush=True,
            )
    print(f"of {runs} runs each: standard errors are at most {worst:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    main(parser.parse_args().runs)
