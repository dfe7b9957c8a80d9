"""Three publications in the manner of the US Census Bureau, on made-up people.

python examples/publications.py
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import discreet as dc
from discreet import policy as pol
from discreet import release

W = release.Workload
PERCENTILES = (25, 50, 75)


def earnings() -> dict[str, list[float]]:
    """Post-secondary outcomes: percentiles of earnings by field of study.

    As Foote, Machanavajjhala & McKinney (2019): public bins, a noisy histogram, its
    cumulative sums, interpolation; cells of fewer than 30 graduates are not shown. The ε of
    the product is not published; here it is 1.5.
    """
    rng = np.random.default_rng(1)
    fields = ["nursing", "history", "physics"]
    of = rng.choice(fields, 6000, p=[0.6, 0.396, 0.004])
    middle = {"nursing": 52_000, "history": 38_000, "physics": 61_000}
    pay = np.array([middle[f] for f in of]) * np.exp(rng.normal(0, 0.4, 6000))
    table = pa.table({"field": of, "pay": np.minimum(pay, 149_999).round()})
    policy = pol.Policy(
        [pol.Table("graduates", [pol.Category("field", fields, null="physics"),
                                 pol.Integer("pay", 0, 149_999, null=0)])],
        pol.Budget("2"),
        name="graduates",
    )  # fmt: skip
    curator = dc.open(table, policy=policy, ledger=":memory:")
    bins = 60
    made = curator.publish(
        "graduates", W.kron(W.identity(3), W.prefix(bins)), columns=["field", "pay"],
        bins={"pay": 2500}, epsilon="1.5", method="hb", nonnegative=True,
    )  # fmt: skip
    shown = {}
    print(f"Earnings by field of study, {made.plan.price}")
    for i, field in enumerate(fields):
        sums = np.cumsum(made.estimate[i])
        if sums[-1] < 30:
            print(f"  {field}: fewer than 30, not shown")
            continue
        ends = 2500 * np.arange(bins + 1)
        found = [float(np.interp(q / 100 * sums[-1], [0, *sums], ends)) for q in PERCENTILES]
        truth = np.percentile(pay[of == field], PERCENTILES)
        each = zip(PERCENTILES, found, truth, strict=True)
        print(f"  {field}: " + ", ".join(f"P{q} {f:,.0f} (truth {t:,.0f})" for q, f, t in each))
        shown[field] = found
    return shown


def commuting() -> float:
    """OnTheMap: made-up origins of the workers of each place, at the published ε = 8.6."""
    rng = np.random.default_rng(2)
    places = [f"place {i}" for i in range(12)]
    home = rng.integers(0, 12, 9000)
    work = (home + rng.geometric(0.5, 9000) - 1) % 12
    table = pa.table({"work": [places[i] for i in work], "home": [places[i] for i in home]})
    policy = pol.Policy(
        [pol.Table("jobs", [pol.Category("work", places, null=places[0]),
                            pol.Category("home", places, null=places[0])])],
        pol.Budget("10"),
        name="jobs",
    )  # fmt: skip
    curator = dc.open(table, policy=policy, ledger=":memory:")
    made = curator.publish(
        "jobs", W.kron(W.identity(12), W.identity(12)), columns=["work", "home"],
        epsilon="8.6", method="urn", draws=750,
    )  # fmt: skip
    truth = np.zeros((12, 12))
    np.add.at(truth, (work, home), 1)
    shares = truth / truth.sum(axis=1, keepdims=True)
    gap = float(np.abs(made.estimate / 750 - shares).sum(axis=1).mean() / 2)
    print(f"Commuting, {made.plan.price}: total variation {gap:.3f} per place of work")
    print(f"  made-up jobs: {made.synthesize(3).tolist()}")
    return gap


def households() -> float:
    """The 2020 census from the top down: areas' totals exact and declared, the rest noisy."""
    rng = np.random.default_rng(3)
    areas, sizes = ["north", "south", "west"], [str(i) for i in range(1, 8)]
    area, size = rng.choice(areas, 20_000), rng.choice(sizes, 20_000, p=_SIZES)
    table = pa.table({"area": area, "size": size})
    policy = pol.Policy(
        [pol.Table("homes", [pol.Category("area", areas, null="west"),
                             pol.Category("size", sizes, null="1")], neighbours="change-one",
                   unprotected=["total by area"])],
        pol.Budget("10", delta="1e-6", accounting="approx"),
        name="homes",
    )  # fmt: skip
    curator = dc.open(table, policy=policy, ledger=":memory:")
    made = curator.publish(
        "homes", W.kron(W.identity(3), W.identity(7)), columns=["area", "size"], rho="0.1",
        method="topdown", unprotected=["area-totals"], owner="census bureau",
    )  # fmt: skip
    truth = np.array([[np.sum((area == a) & (size == s)) for s in sizes] for a in areas])
    assert (made.estimate.sum(axis=1) == truth.sum(axis=1)).all()
    wrong = float(np.abs(made.estimate - truth).sum() / 2)
    print(f"Households, {made.plan.price}: {wrong:.0f} of {len(table)} in a wrong cell")
    return wrong


_SIZES = (0.28, 0.34, 0.15, 0.13, 0.06, 0.03, 0.01)

if __name__ == "__main__":
    earnings()
    commuting()
    households()
