"""Survey weights: intervals of weighted counts, totals and means hold, naive ones do not.

Samples of unequal chances are drawn from a fixed population, cells are computed exactly and noised
by Laplace's law. Misses must not pass what a binomial of R trials and 6.5 % (the intervals are
asymptotic) passes with probability 1e-9; the default run is the same every time.
"""

from __future__ import annotations

import os
from dataclasses import replace
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import discreet as dc
from discreet.errors import ParameterError, PolicyError
from discreet.inference._survey import Group
from discreet.noise import DiscreteLaplace

SIZE = 200_000
STEPS = 1000
"""Steps of the noise per row, as the lattice of the cells has them."""


def population():
    rng = np.random.default_rng(3)
    x = rng.gamma(2.0, 10.0, SIZE).clip(0, 100)
    chance = np.clip(1 / (2 + 0.1 * x), 1 / 40, 1)  # the larger, the rarer in the sample
    return x, chance


def basis(u):
    return np.stack([(1 - u) ** 2, 2 * u * (1 - u), u * u], axis=1)


def drawn(rng, n, scale):
    """A sample of n people, as nine noisy cells."""
    x, chance = population_of()
    kept = np.searchsorted(CUMULATED, rng.random(n)).clip(max=SIZE - 1)
    weight = np.clip(chance.sum() / (n * chance[kept]), 0, HEAVIEST[n])
    cells = np.einsum("ri,rj->ij", basis(weight / HEAVIEST[n]), basis(x[kept] / 100)).ravel()
    noise = np.round(rng.laplace(0, scale * STEPS, 9)) / STEPS
    law = DiscreteLaplace(scale * STEPS)
    ends = (0.0, HEAVIEST[n]), (0.0, 100.0)
    return Group(cells + noise, law, 1 / STEPS, *ends, 1, fixed=True)


_KEPT: list[tuple[np.ndarray, np.ndarray]] = []


def population_of():
    if not _KEPT:
        _KEPT.append(population())
    return _KEPT[0]


_CHANCE = population_of()[1]
CUMULATED = np.cumsum(_CHANCE) / _CHANCE.sum()
HEAVIEST = {n: float(np.ceil(_CHANCE.sum() / (n * _CHANCE.min()))) for n in (4000, 40_000)}


def missed(n, scale, replicates, mutant=lambda group: group):
    x, _ = population_of()
    truth = {"count": SIZE, "total": x.sum(), "mean": x.mean()}
    fresh = os.environ.get("DISCREET_FRESH")
    rng = np.random.default_rng(None if fresh else crc32(f"survey{n}{scale}".encode()))
    found = dict.fromkeys(truth, 0)
    for _ in range(replicates):
        group = mutant(drawn(rng, n, scale))
        for what, value in truth.items():
            kept, low, high = group.test(what, 0.05)
            inside = kept is None or kept(np.array([float(value)]))[0]
            found[what] += not (low <= value <= high and inside)
    return found


def most(replicates):
    return stats.binom.isf(1e-9, replicates, 0.065)


@pytest.mark.parametrize(("n", "scale"), [(4000, 1), (40_000, 10)])
@pytest.mark.parametrize("replicates", [1000, pytest.param(10_000, marks=pytest.mark.long)])
def test_weighted_statistics_are_covered(n, scale, replicates):
    group = drawn(np.random.default_rng(0), n, scale)
    assert all(group.test(what, 0.05)[0] is not None for what in ("count", "total", "mean"))
    found = missed(n, scale, replicates)
    assert max(found.values()) <= most(replicates), found


def in_a_group(rng, fixed):
    """Of 2 000 people drawn about three in ten are in the group; one of them stands for w."""
    kept = rng.binomial(2000, 0.3)
    weight = np.full(kept, 10.0)
    x = rng.integers(0, 101, kept)
    cells = np.einsum("ri,rj->ij", basis(weight / 10), basis(x / 100)).ravel()
    noise = np.round(rng.laplace(0, STEPS, 9)) / STEPS
    ends = (0.0, 10.0), (0.0, 100.0)
    return Group(cells + noise, DiscreteLaplace(STEPS), 1 / STEPS, *ends, 1, fixed=fixed)


def missed_in_a_group(replicates, *, fixed):
    truth = {"count": 6000.0, "total": 300_000.0, "mean": 50.0}
    rng = np.random.default_rng(crc32(b"survey of a group"))
    found = dict.fromkeys(truth, 0)
    for _ in range(replicates):
        group = in_a_group(rng, fixed)
        for what, value in truth.items():
            kept, low, high = group.test(what, 0.05)
            assert kept is not None
            found[what] += not (low <= value <= high and kept(np.array([value]))[0])
    return found


def test_how_many_are_in_a_group_is_chance():
    """All weigh as much as a weight may: neither score nor range may take n as given.

    False alarms: 1e-9 for each of three, if a miss has a probability of 6.5 %.
    """
    found = missed_in_a_group(400, fixed=False)
    assert max(found.values()) <= most(400), found
    assert missed_in_a_group(100, fixed=True)["count"] > most(100)


def of_unequal_weights(rng, scale, heavy):
    """About 300 of 3 000 people drawn are in the group; those who weigh most are rich."""
    kept = rng.binomial(3000, 0.1)
    rich = rng.random(kept) < heavy
    return small_group(rng, np.where(rich, 10.0, 2.0), np.where(rich, 90, 20), scale)


def small_group(rng, weight, x, scale):
    cells = np.einsum("ri,rj->ij", basis(weight / 10), basis(x / 100)).ravel()
    noise = np.round(rng.laplace(0, scale * STEPS, 9)) / STEPS
    law = DiscreteLaplace(scale * STEPS)
    return Group(cells + noise, law, 1 / STEPS, (0.0, 10.0), (0.0, 100.0), 1, fixed=False)


def test_means_of_small_groups_are_told():
    """That one unit could decide was asked of the squares found, with the whole range for it."""
    rng = np.random.default_rng(2)
    weight, x = rng.uniform(1, 10, 200), rng.uniform(25, 75, 200)
    for scale, widest in ((0.01, 14), (0.5, 18)):
        low, high = small_group(rng, weight, x, scale).interval("mean", 0.05)
        assert high - low < widest


@pytest.mark.parametrize("heavy", [0.02, 0.05, 0.3])
def test_means_of_small_groups_are_covered(heavy):
    rng = np.random.default_rng(crc32(f"small groups{heavy}".encode()))
    mean = (900 * heavy + 40 * (1 - heavy)) / (10 * heavy + 2 * (1 - heavy))
    found = 0
    for _ in range(400):
        kept, _, _ = of_unequal_weights(rng, 0.01, heavy).test("mean", 0.05)
        found += kept is not None and not kept(np.array([mean]))[0]
    assert found <= most(400)


@pytest.mark.fresh(0)
def test_a_survey_knows_whether_its_number_of_rows_is_fixed():
    """Only a question that leaves out no row may take what the design fixes as known."""
    table = POLICY["tables"]["t"]
    ruled = {n: {**c, "null": 0} if n in ("w", "pay") else c for n, c in table["columns"].items()}
    widths = {}
    for nulls, columns in (("kept", ruled), ("left out", table["columns"])):
        policy = {**POLICY, "tables": {"t": {**table, "columns": columns}}}
        curator = dc.open(pa.table(rows()), policy=policy, ledger=":memory:")
        for name, asked in (("all", {}), ("by", {"by": "sex"}), ("where", {"where": "pay > 1"})):
            found = curator.survey("pay", **asked, epsilon=1000)
            widths[nulls, name] = (*(g.fixed for g in found.groups), found)
    assert [all(v[:-1]) for v in widths.values()] == [True, False, False, False, False, False]
    assert not any(any(v[:-1]) for k, v in widths.items() if k != ("kept", "all"))
    (all_rows,) = widths["kept", "all"][-1].rows()
    (some,) = widths["left out", "all"][-1].rows()
    assert some["total_high"] - some["total_low"] > all_rows["total_high"] - all_rows["total_low"]
    assert "fixed by the design" in repr(widths["kept", "all"][-1])
    assert "taken as chance" in repr(widths["kept", "by"][-1])


def _equal_chances(group):
    """Variance of the mean as if weights were numbers of people: Σw(x−θ)² for Σw²(x−θ)²."""

    class Naive(Group):
        def sums(self, a, b):
            return super().sums(1 if a == 2 else a, b)

    names = ("cells", "law", "unit", "weight", "value", "rows", "fixed")
    return Naive(*(getattr(group, f) for f in names))


def _no_noise(group):
    return replace(group, law=DiscreteLaplace("1e-3"))


@pytest.mark.parametrize(("mutant", "scale"), [(_equal_chances, 1), (_no_noise, 20)])
def test_naive_variances_fail_the_same_harness(mutant, scale):
    assert missed(4000, scale, 100, mutant)["total"] > most(100)


POLICY = {
    "policy": {"name": "survey"},
    "budget": {"epsilon": "1e6", "accounting": "pure"},
    "tables": {
        "t": {
            "weight": "w",
            "columns": {
                "w": {"type": "real", "min": 0, "max": 50, "step": "0.01"},
                "pay": {"type": "integer", "min": 0, "max": 1000},
                "rich": {"type": "boolean"},
                "sex": {"type": "category", "values": ["F", "M"]},
            },
        }
    },
}


def rows():
    rng = np.random.default_rng(0)
    n = 4000
    pay, w = rng.integers(100, 900, n), rng.uniform(1, 40, n).round(2)
    sex = rng.choice(["F", "M"], n)
    return {"w": w, "pay": pay, "rich": pay > 600, "sex": sex}


@pytest.mark.fresh(1e-9)
def test_a_survey_is_asked_and_paid_on_the_one_road():
    """At ε = 1000 the noise is far below the tolerance; intervals hold the sample's own values."""
    data = rows()
    curator = dc.open(pa.table(data), policy=POLICY, ledger=":memory:")
    found = curator.survey("pay", by="sex", epsilon=1000)
    assert curator.budget.spent["epsilon"] == 1000
    assert len(found.answer.parts) == 1
    for row in found.rows():
        here = data["sex"] == row["sex"]
        w, x = data["w"][here], data["pay"][here]
        assert row["count"] == pytest.approx(w.sum(), rel=0.01)
        assert row["total"] == pytest.approx((w * x).sum(), rel=0.01)
        assert row["mean"] == pytest.approx(np.average(x, weights=w), rel=0.01)
        assert row["mean_low"] < row["mean"] < row["mean_high"]
        kish = here.sum() * (w**2).sum() / w.sum() ** 2
        assert row["design_effect"] == pytest.approx(kish, rel=0.02)
        # half-width of the textbook's linearised variance
        mean = np.average(x, weights=w)
        half = 1.96 * np.sqrt((w**2 * (x - mean) ** 2).sum()) / w.sum()
        assert half < (row["mean_high"] - row["mean_low"]) / 2 < 1.2 * half
    frame = found.to_pandas()
    assert list(frame.index) == ["F", "M"]
    assert "weighted by w" in repr(found)
    assert "weighted by w" in found._repr_html_()
    share = curator.survey("rich", epsilon=1000).rows()[0]
    assert share["mean_low"] < np.average(data["rich"], weights=data["w"]) < share["mean_high"]


def test_a_weight_is_declared_and_bounded():
    table = POLICY["tables"]["t"]
    bare = {**POLICY, "tables": {"t": {"columns": table["columns"]}}}
    curator = dc.open(pa.table(rows()), policy=bare, ledger=":memory:")
    with pytest.raises(ParameterError, match="no survey weight"):
        curator.survey("pay", epsilon=1)
    assert curator.budget.spent["epsilon"] == 0
    read = dc.policy.load(POLICY)
    assert read.table("t").weight == "w"
    assert dc.policy.load(read.to_mapping()) == read
    assert read.fingerprint != dc.policy.load(bare).fingerprint
    for wrong in ("sex", "nothing"):
        with pytest.raises(PolicyError):
            dc.policy.load({**POLICY, "tables": {"t": {**table, "weight": wrong}}})
    below = {**table["columns"], "w": {"type": "integer", "min": -1, "max": 5}}
    with pytest.raises(PolicyError, match="between zero"):
        dc.policy.load({**POLICY, "tables": {"t": {**table, "columns": below}}})


def test_few_people_get_the_whole_public_range():
    curator = dc.open(
        pa.table({k: v[:20] for k, v in rows().items()}), policy=POLICY, ledger=":memory:"
    )
    (row,) = curator.survey("pay", epsilon=1000).rows()
    assert (row["mean_low"], row["mean_high"]) == (0, 1000)
