"""How fast the black-box auditor is: draws per second, search and test included.

The goal is a million draws per second of a vectorised mechanism on each run; both
inputs count.
"""

from __future__ import annotations

import time

import numpy as np

from discreet import audit, noise

GOAL = 1_000_000
DRAWS = 1_000_000
ROUNDS = 3


def rate(mechanism, claim, draws=DRAWS, **options):
    """Return the best draws per second of an audit that is not cut short."""
    best = 0.0
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        verdict = audit.estimate(mechanism, 0, 1, claim, draws=draws, **options)
        assert verdict.draws == draws, "the claim fell; the audit was cut short"
        best = max(best, 2 * draws / (time.perf_counter() - begun))
    return best


def main() -> None:
    whole, fine = noise.DiscreteLaplace(1), noise.DiscreteLaplace(2**20)
    cases = {
        "integers, ε = 1": (lambda x, n: x + whole.sample(n), 1),
        "fine lattice, ε = 1": (lambda x, n: x * 2**20 + fine.sample(n), 1),
        "reals on a lattice, ε = 1": (lambda x, n: x + fine.sample(n) / 2**20, 1),
        "pairs, ε = 2": (
            lambda x, n: np.column_stack([x + whole.sample(n), x + whole.sample(n)]),
            2,
        ),
    }
    print("\naudit.estimate: draws per second, both inputs, search and test included")
    for name, (mechanism, claim) in cases.items():
        found = rate(mechanism, claim)
        print(f"  {name:<28}{found:>12,.0f}  {'goal met' if found >= GOAL else 'below goal'}")


if __name__ == "__main__":
    main()
