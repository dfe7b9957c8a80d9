"""How many open keys are found at the same (ε, δ): plain threshold, weights, two rounds.

20 000 units hold keys of a Zipf law (exponent 1.1, as of words or towns): on average six each,
half of them two at most. A question by such a key counts rows; half of its price selects the keys.
``plain`` counts the units of each key and allows for as many keys as a unit may have, which is the
usual threshold; ``weights`` lets a unit weigh one in all; ``ours`` forgets what a first round
found. Means of a few runs, through the whole curator.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import discreet as dc
from discreet import policy as pol

UNITS = 20_000
TEXT = "SELECT town, COUNT(*) AS n FROM t GROUP BY town"
OFFERS = [{"epsilon": e} for e in ("0.6", "2", "6")] + [{"rho": r} for r in ("0.01", "0.1")]


def table() -> pa.Table:
    """A fixed table."""
    rng = np.random.default_rng(3)
    degree = np.clip(np.ceil(rng.pareto(1.3, UNITS) * 10 / 3.5).astype(int), 1, 200)
    cumulative = np.cumsum(1 / np.arange(1, 200_001) ** 1.1)
    keys = np.searchsorted(cumulative / cumulative[-1], rng.random(degree.sum()))
    return pa.table({"id": np.repeat(np.arange(UNITS), degree), "town": [f"t{k}" for k in keys]})


def found(rows: pa.Table, most: int, offer: dict[str, str], runs: int) -> float:
    """Mean number of keys."""
    limits = {"unit": "id", "max_groups_per_unit": most, "max_rows_per_group": 1}
    kind = "zcdp" if "rho" in offer else "approx"
    budget = pol.Budget("100000", "0.1", accounting=kind)
    policy = pol.Policy([pol.Table("t", [pol.Text("town")], **limits)], budget, name=kind)
    curator = dc.open(rows, policy=policy, ledger=":memory:")
    return float(
        np.mean([len(curator.sql(TEXT, **offer, delta="1e-6", fresh=True)) for _ in range(runs)])
    )


def rows(runs: int) -> Iterator[tuple[str, int, float, float, float]]:
    """Price, limit, and keys found by each method."""
    people = table()
    for offer in OFFERS:
        for most in (5, 20, 100):
            ours = found(people, most, offer, runs)
            with patch("discreet.plan._keys._FIRST", Fraction(1, 10**9)):
                weights = found(people, most, offer, runs)
            with patch("discreet.plan._lower.Lowering._weighted", lambda *_: None):
                plain = found(people, most, offer, runs)
            yield " ".join(f"{k}={v}" for k, v in offer.items()), most, plain, weights, ours


def main(runs: int = 3) -> None:
    """Print the table."""
    heads = ("price", "keys a unit", "plain", "weights", "ours", "ours/plain")
    print("{:12} {:>11} {:>8} {:>8} {:>8} {:>10}".format(*heads))
    for price, most, plain, weights, ours in rows(runs):
        ratio = ours / max(plain, 1)
        print(
            f"{price:12} {most:>11} {plain:8.1f} {weights:8.1f} {ours:8.1f} {ratio:10.1f}",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    main(parser.parse_args().runs)
