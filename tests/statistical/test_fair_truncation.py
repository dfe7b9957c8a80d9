"""Rows and groups that a limit keeps: uniform per unit, independent across units.

All salts are fixed, so each run gives the same verdict: the false-alarm probability
is 0. An ideal hash would have failed each threshold with probability at most 1e-9.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import discreet as dc
from discreet import engines, plan
from discreet import policy as pol
from discreet.plan import expr as ex

PERSONS, VALUES = 200, 10
ONE = plan.Measure(plan.MeasureKind.SUM, ex.Constant.number(Fraction(1)))
PRIME = 2**31 - 1


def salt(i):
    return plan.Salt(b"fair" + i.to_bytes(4, "big"))


def chosen(limits, salts, ids):
    """Which of its values each person keeps, by DuckDB: (salt, person, value) → 0 or 1."""
    columns = [pol.Category("who", list(range(PERSONS))), pol.Category("x", list(range(VALUES)))]
    table = pol.Table("t", columns, unit="id", max_rows_per_unit=100)
    who, x = np.repeat(np.arange(PERSONS), VALUES), np.tile(np.arange(VALUES), PERSONS)
    data = pa.table({"id": np.asarray(ids)[who], "who": who, "x": x})
    scan = plan.Scan(table)
    keys = tuple(
        plan.Key(name, ex.Column(name, t), tuple(range(t.size))) for name, t in scan.schema.items()
    )
    asked = plan.aggregate(scan, keys, (ONE,), limits)
    kept = np.zeros((salts, PERSONS, VALUES), np.int64)
    engine = engines.connect(data, pol.Policy([table], pol.Budget("1")))
    for i in range(salts):
        for key, (n,) in engine.execute(asked, salt(i)).items():
            kept[(i, *key)] = n
    engine.close()
    return kept


def excess(observed, expected, df):
    """Standard deviations by which a sum of χ² statistics exceeds its mean."""
    return (((observed - expected) ** 2 / expected).sum() - df) / np.sqrt(2 * df)


def unfairness(kept, n):
    """Largest excess of all statistics: per salt, per person, per pair of persons, per set."""
    salts = len(kept)
    sets = list(itertools.combinations(range(VALUES), n))
    number = np.zeros(1 << VALUES, int)
    number[[sum(1 << v for v in s) for s in sets]] = np.arange(len(sets))
    choice = number[(kept << np.arange(VALUES)).sum(2)]
    k = len(sets)
    per_salt = np.array([np.bincount(row, minlength=k) for row in choice])
    per_person = np.array([np.bincount(row, minlength=k) for row in choice.T])
    found = [
        excess(per_salt, PERSONS / k, salts * (k - 1)),
        excess(per_person, salts / k, PERSONS * (k - 1)),
        excess(per_person.sum(0), salts * PERSONS / k, k - 1),
    ]
    if k <= VALUES:
        for other in (1, 16):
            joint = np.zeros((PERSONS, k, k))
            for person in range(PERSONS):
                pair = choice[:, person], choice[:, (person + other) % PERSONS]
                np.add.at(joint[person], pair, 1)
            found.append(excess(joint, salts / k**2, PERSONS * (k * k - 1)))
    return max(found)


# six to ten standard deviations of sums of χ² with at least 9 degrees of freedom: the exact
# tail of χ² with 9 degrees beyond 15 deviations is below 1e-9, larger ones have lighter tails
MOST = 15
assert stats.chi2.sf(9 + MOST * np.sqrt(18), 9) < 1e-9

IDS = {
    "numbers": range(PERSONS),
    "far numbers": [(i - 100) * 65_536_000 for i in range(PERSONS)],
    "texts": [f"person {i}" for i in range(PERSONS)],
}


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_one_row_of_ten(ids):
    kept = chosen(plan.Limits(rows=1), 60, ids)
    assert (kept.sum(2) == 1).all()
    assert unfairness(kept, 1) < MOST


def test_three_rows_of_ten():
    kept = chosen(plan.Limits(rows=3), 60, IDS["numbers"])
    assert (kept.sum(2) == 3).all()
    assert unfairness(kept, 3) < MOST


def test_two_groups_of_ten():
    kept = chosen(plan.Limits(groups=2, rows_per_group=1), 60, IDS["numbers"])
    assert (kept.sum(2) == 2).all()
    assert unfairness(kept, 2) < MOST


def test_hashes_without_exclusive_or_are_caught():
    """Mutants: a linear hash of unit and row, and products and sums alone."""
    person, value = np.arange(PERSONS)[:, None], np.arange(VALUES)[None, :]

    def linear(i):
        a, b, c = (salt(i).coefficient(9, j) for j in range(3))
        return (person * a % PRIME + value * b % PRIME + c) % PRIME

    def products(i):
        h = person * salt(i).coefficient(9, 0) % PRIME
        for j in range(1, 5):
            h = (h * salt(i).coefficient(9, j) + value) % PRIME
        return h

    for rank in (linear, products):
        ranks = np.array([rank(i) for i in range(60)])
        kept = (ranks == ranks.min(2, keepdims=True)).astype(np.int64)
        assert unfairness(kept, 1) > 2 * MOST


def shares(rank, n=60):
    """Share of one rare row among ten, nine of which are equal, kept one per person."""
    person = np.arange(2000)[:, None]
    found = []
    for i in range(n):
        ranks = rank(i, person, np.array([[1] + [0] * 9]), np.arange(10)[None, :])
        found.append((ranks.argmin(1) == 0).mean())
    return np.array(found)


def test_equal_rows_are_told_apart():
    """Truth 10 %. By DuckDB; then the mutant in which equal rows stand or fall together."""
    table = pol.Table("t", [pol.Category("x", [0, 1])], unit="id", max_rows_per_unit=1)
    data = pa.table({"id": np.repeat(np.arange(2000), 10), "x": np.tile([1] + [0] * 9, 2000)})
    engine = engines.connect(data, pol.Policy([table], pol.Budget("1")))
    scan = plan.Scan(table)
    key = plan.Key("x", ex.Column("x", scan.schema["x"]), (0, 1))
    asked = plan.aggregate(scan, (key,), (ONE,), plan.Limits(rows=1))
    found = np.array([engine.execute(asked, salt(i))[1,][0] / 2000 for i in range(60)])
    engine.close()
    # χ² with 60 degrees of freedom: beyond 15 deviations with probability below 1e-9
    deviation = (found - 0.1) / np.sqrt(0.1 * 0.9 / 2000)
    assert ((deviation**2).sum() - 60) / np.sqrt(120) < MOST

    def together(i, person, value, number):  # noqa: ARG001 - the ordinal is what is missing
        a, b = (salt(i).coefficient(9, j) for j in range(2))
        return (((person * a % PRIME) ^ b) * a + value * b) % PRIME

    deviation = (shares(together) - 0.1) / np.sqrt(0.1 * 0.9 / 2000)
    assert ((deviation**2).sum() - 60) / np.sqrt(120) > 10 * MOST


def test_a_ten_percent_share_is_reported_as_ten_percent():
    """Ten rows of a hundred count as errors, ten rows per person are kept: bias_rep.

    Ten answers were 14.7, 5.3, 22.7, 3.3, 2.6, 62.2, 80.9, 35.7, 53.1, 55.4. Uniform choice
    has a standard deviation of 0.2 % and the noise one of 0.01 %: 1.4 % are seven
    deviations, exceeded in ten answers with probability below 1e-10.
    """
    user = np.repeat(np.arange(2000), 100)
    status = np.tile(["error"] * 10 + ["ok"] * 90, 2000)
    hits = pol.Table(
        "hits", [pol.Category("status", ["ok", "error"])], unit="user", max_rows_per_unit=10
    )
    policy = pol.Policy([hits], pol.Budget("1000"), name="share")
    text = "SELECT AVG(CASE WHEN status = 'error' THEN 100.0 ELSE 0 END) AS e FROM hits"
    with dc.open(
        pa.table({"user": user, "status": status}), policy=policy, ledger=":memory:"
    ) as curator:
        answers = [
            float(curator.sql(text, epsilon=20, fresh=True).to_dicts()[0]["e"]) for _ in range(10)
        ]
    assert max(abs(a - 10) for a in answers) < 1.4


def test_limited_shares_cover_the_tables_own_value():
    """Persons with 1 to 8 rows, 4 kept (coverage_control): the choice adds little to the margin.

    Without noise. 60 fixed salts; the share among kept rows differs from the table's by
    chance of the choice alone, with a standard deviation near 0.0018, computed below.
    """
    rng = np.random.default_rng(4)
    sizes = rng.integers(1, 9, 1500)
    person = np.repeat(np.arange(1500), sizes)
    x = (rng.random(len(person)) < 0.1 + 0.2 * (person % 2)).astype(int)
    table = pol.Table("t", [pol.Integer("x", 0, 1)], unit="id", max_rows_per_unit=4)
    engine = engines.connect(pa.table({"id": person, "x": x}), pol.Policy([table], pol.Budget("1")))
    scan = plan.Scan(table)
    total = plan.Measure(plan.MeasureKind.SUM, ex.Column("x", scan.schema["x"]))
    asked = plan.aggregate(scan, (), (ONE, total), plan.Limits(rows=4))
    results = [engine.execute(asked, salt(i))[()] for i in range(60)]
    engine.close()
    kept = np.minimum(sizes, 4)
    assert {n for n, _ in results} == {kept.sum()}
    ones = np.bincount(person, weights=x)
    mean = (ones * kept / sizes).sum()
    share = ones / sizes
    variance = (kept * share * (1 - share) * (sizes - kept) / np.maximum(sizes - 1, 1)).sum()
    deviation = (np.array([s for _, s in results]) - mean) / np.sqrt(variance)
    # exact mean and variance of simple random choice: χ² with 60 degrees of freedom
    assert ((deviation**2).sum() - 60) / np.sqrt(120) < MOST
    assert abs(deviation.sum()) / np.sqrt(60) < 6.2
