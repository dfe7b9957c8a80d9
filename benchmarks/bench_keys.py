"""How many open keys are found at the same (ε, δ): plain threshold, weights, two rounds.

20 000 units hold keys of a Zipf law (exponent 1.1, as of words or towns): on average six each,
half of them two at most. A question by such a key counts rows; half of its price selects the keys.
``plain`` counts the units of each key and allows for as many keys as a unit may have, which is the
usual threshold; ``weights`` lets a unit weigh one in all; ``ours`` forgets what a first round
found. Means of a few runs, through the whole curator.

Then the k largest of 100 listed keys, of the same people with at most g keys each: noise on all
counts, of which the largest are shown, beside k keys that are chosen first and then counted
(which of the two the planner takes is marked). Laws of the priced plans, drawn 20 000 times.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import discreet as dc
from discreet import plan as pl
from discreet import policy as pol
from discreet import sql
from discreet.plan._top import largest_first

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


LISTED = [f"t{k}" for k in range(100)]
LARGEST = "SELECT town, COUNT(*) AS n FROM t GROUP BY town ORDER BY n DESC LIMIT {}"


@dataclass
class Largest:
    """The k largest keys: RMSE of the counts shown, and their share of the k largest counts."""

    groups: int
    k: int
    epsilon: str
    whole: tuple[float, float]
    first: tuple[float, float]
    taken: bool


def largest(draws: int = 20_000) -> Iterator[Largest]:
    """Both ways for several limits, at equal price."""
    rng, people = np.random.default_rng(0), table().to_pydict()
    keys = dict[int, set[str]]()
    for unit, town in zip(people["id"], people["town"], strict=True):
        keys.setdefault(unit, set()).add(town)
    for groups in (3, 10, 30):
        kept = [rng.permutation(sorted(own & set(LISTED)))[:groups] for own in keys.values()]
        names, found = np.unique(np.concatenate(kept), return_counts=True)
        exact = np.zeros(len(LISTED))
        exact[[LISTED.index(str(n)) for n in names]] = found
        for k, epsilon in ((1, "1"), (3, "1"), (10, "1"), (3, "0.1")):
            yield _largest(exact, groups, k, epsilon, draws)


def _largest(exact: np.ndarray, groups: int, k: int, epsilon: str, draws: int) -> Largest:
    rng = np.random.default_rng(1)
    limits = {"unit": "id", "max_groups_per_unit": groups, "max_rows_per_group": 1}
    own = pol.Table("t", [pol.Category("town", LISTED)], **limits)
    low = pl.lower(sql.parse(LARGEST.format(k), pol.Policy([own], pol.Budget("9"))).query)
    ask = pl.Ask(Fraction(epsilon))
    whole = pl.price(low, ask, "laplace").parts[0].law
    noisy = exact + rng.laplace(0, float(whole.scale), (draws, exact.size))
    shown = np.argsort(-noisy, axis=1)[:, :k]
    few = largest_first(low)
    # where a person has too few groups the planner does not even look: 2k/ε each way
    count, choice = (pl.price(few, ask).parts[i].law for i in (0, 1)) if few else (None, None)
    scale = 2 * k / float(epsilon) if count is None else float(count.scale)
    sharp = scale if choice is None else float(choice.sensitivity / choice.epsilon)
    left, picks = np.tile(exact, (draws, 1)), []
    for _ in range(k):
        picks.append((left + rng.exponential(sharp, left.shape)).argmax(axis=1))
        left[np.arange(draws), picks[-1]] = -np.inf
    best = np.sort(exact)[-k:].sum()
    ways = (
        (np.take_along_axis(noisy, shown, 1) - exact[shown], shown),
        (rng.laplace(0, scale, (draws, k)), np.stack(picks, axis=1)),
    )
    scores = [
        (math.sqrt(np.mean(off**2)), float(exact[at].sum(axis=1).mean() / best)) for off, at in ways
    ]
    taken = pl.price(low, ask).instead is not None
    return Largest(groups, k, epsilon, scores[0], scores[1], taken)


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
    print("\nlargest of 100 listed keys: RMSE of the counts shown, share of the largest counts")
    print(f"{'keys a unit':>11} {'k':>3} {'ε':>4} {'all, then largest':>20} {'chosen first':>20}")
    for row in largest():
        all_of, first = (
            f"{off:8.1f} {100 * share:8.1f} %" for off, share in (row.whole, row.first)
        )
        mark = "taken" if row.taken else ""
        print(f"{row.groups:>11} {row.k:>3} {row.epsilon:>4} {all_of:>20} {first:>20} {mark}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    main(parser.parse_args().runs)
