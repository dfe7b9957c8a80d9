"""How fast noise is drawn, as ratios to NumPy's floats and OpenDP's integers.

NumPy's generators are what an insecure program would use: floating-point noise
from a statistical generator. OpenDP's are exact integers from the system's
generator, as ours are. Each figure is the best of several runs of each side,
taken in turns, so that a busy machine slows both.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from discreet.noise import DiscreteGaussian, DiscreteLaplace, Geometric

BULK = 1_000_000
PEER = 20_000
SCALES = (1, 10, 1000, 10**6, 2**40)


class Figure(NamedTuple):
    """`ours` and `peer` in nanoseconds per draw; `ratio` > 1 means we are faster."""

    name: str
    peer_name: str
    ours: float
    peer: float
    goal: float | None

    @property
    def ratio(self) -> float:
        return self.peer / self.ours


def best(ours, peer, rounds=7):
    """Return the best seconds of `ours` and of `peer`, run in turns."""
    times = []
    for _ in range(rounds + 1):
        marks = [time.perf_counter()]
        for run in (ours, peer):
            run()
            marks.append(time.perf_counter())
        times.append(np.diff(marks))
    # the first round builds tables and warms caches on both sides
    return np.min(times[1:], axis=0)


def against_numpy():
    rng = np.random.default_rng()
    pairs = [
        (DiscreteLaplace, "numpy laplace", lambda s: rng.laplace(scale=s, size=BULK), 0.8),
        (DiscreteGaussian, "numpy normal", lambda s: rng.normal(scale=s, size=BULK), None),
        (Geometric, "numpy exponential", lambda s: rng.exponential(scale=s, size=BULK), None),
    ]
    for kind, peer_name, peer, goal in pairs:
        for scale in SCALES:
            law = kind(scale)
            ours, theirs = best(
                lambda law=law: law.sample(BULK), lambda peer=peer, scale=scale: peer(scale)
            )
            yield Figure(repr(law), peer_name, ours / BULK * 1e9, theirs / BULK * 1e9, goal)


def against_opendp():
    try:
        import opendp.prelude as dp
    except ImportError:
        print("opendp is not installed here: its rows are left out")
        return
    dp.enable_features("contrib")
    space = (dp.vector_domain(dp.atom_domain(T=dp.i64), size=PEER), dp.l1_distance(T=dp.i64))
    space2 = (dp.vector_domain(dp.atom_domain(T=dp.i64), size=PEER), dp.l2_distance(T=dp.f64))
    zeros = [0] * PEER
    pairs = [
        (DiscreteLaplace, "OpenDP laplace, vector of i64", dp.m.make_laplace, space, 300),
        (DiscreteGaussian, "OpenDP gaussian, vector of i64", dp.m.make_gaussian, space2, 100),
    ]
    for kind, peer_name, make, (domain, metric), goal in pairs:
        for scale in (1, 10, 1000):
            law, measurement = kind(scale), make(domain, metric, scale=float(scale))
            ours, theirs = best(
                lambda law=law: law.sample(BULK),
                lambda measurement=measurement: measurement(zeros),
                rounds=4,
            )
            yield Figure(repr(law), peer_name, ours / BULK * 1e9, theirs / PEER * 1e9, goal)


def run() -> list[Figure]:
    """Measure everything; see :class:`Figure`."""
    return [*against_numpy(), *against_opendp()]


def main() -> None:
    """Print one line for each figure."""
    print("noise: times faster than the peer (goal)")
    for figure in run():
        goal = f"  (goal {figure.goal:g})" if figure.goal else ""
        print(f"  {figure.name:38} {figure.ratio:8.1f} × {figure.peer_name}{goal}", flush=True)


if __name__ == "__main__":
    main()
