"""Synthetic records: the model is right, choices are private, intervals cover."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from discreet import release
from discreet.errors import ParameterError
from discreet.noise._deterministic import deterministic
from discreet.privacy import Neighbours
from discreet.release import _synthetic
from discreet.release._counts import Counts, read_counts
from discreet.release._junction import Junction, spread_draw
from discreet.release._mechanism import Job

DATA = next(
    (p for up in Path(__file__).parents[3:] if (p := up / "shared" / "data").exists()), None
)
needs_data = pytest.mark.skipif(DATA is None, reason="needs the data folder ../shared/data")


def people(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, n)
    b = (a + (rng.random(n) < 0.2)) % 3
    c = (b + rng.integers(0, 2, n)) % 4
    return release.Records(np.stack([a, b, c], axis=1), (3, 3, 4))


def test_calibration_agrees_with_the_joint_table():
    sizes = (2, 3, 2, 2)
    tree = Junction(sizes, [(0, 1), (1, 2), (2, 3), (0, 3)])
    rng = np.random.default_rng(0)
    potentials = [rng.normal(size=p.shape) for p in tree.empty()]
    bags, log_z = tree.calibrate(potentials)
    joint = np.zeros(sizes)
    for bag, p in zip(tree.bags, potentials, strict=True):
        joint = joint + tree.widened(p, bag, (0, 1, 2, 3))
    joint = np.exp(joint)
    assert log_z == pytest.approx(math.log(joint.sum()))
    joint /= joint.sum()
    for bag, q in zip(tree.bags, bags, strict=True):
        assert np.allclose(q, joint.sum(axis=tuple(i for i in range(4) if i not in bag)))
    drawn = tree.draw(bags, 20_000)
    found = np.zeros(sizes)
    np.add.at(found, tuple(drawn.T), 1 / 20_000)
    # stratified draws: far closer than independent ones, whose error would be about 0.005
    assert np.abs(found.sum(axis=(2, 3)) - joint.sum(axis=(2, 3))).max() < 2e-3


def test_stratified_draws_keep_counts_within_one():
    table = np.array([[0.25, 0.5, 0.25], [1.0, 0.0, 0.0]])
    key = np.array([0] * 100 + [1] * 7)
    drawn = spread_draw(table, key)
    counts = np.bincount(drawn[:100], minlength=3)
    assert np.abs(counts - [25, 50, 25]).max() <= 1
    assert (drawn[100:] == 0).all()


def test_the_model_fits_what_it_is_given():
    data = people()
    with deterministic("fit"):
        made = release.synthetic(data, rho=10_000)
        drawn = made.records()
    for a, b in itertools.combinations(range(3), 2):
        shape = (data.sizes[a], data.sizes[b])
        tables = [np.zeros(shape), np.zeros(shape)]
        for t, rows in zip(tables, (data.table, drawn), strict=True):
            np.add.at(t, (rows[:, a], rows[:, b]), 1 / len(rows))
        assert 0.5 * np.abs(tables[0] - tables[1]).sum() < 0.01


@pytest.mark.parametrize("relation", list(Neighbours), ids=str)
def test_no_record_moves_a_question_farther_than_declared(relation):
    data = people(200)
    job = Job(release.Workload.marginals(data.sizes, 1), release.Price.read(rho="0.5"), relation)
    mechanism = _synthetic.SyntheticRecords(job)
    counts = read_counts(data, data.sizes)
    _, asked = release.conduct(mechanism.course(), job.price, lambda q: q.ask(counts))
    others = []
    for row in ([0, 0, 0], [2, 1, 3], [1, 2, 0]):
        if relation is Neighbours.ADD_REMOVE:
            table = np.vstack([data.table, row])
        else:
            table = data.table.copy()
            table[5] = row
        others.append(Counts(None, table, data.sizes))
    kinds = set()
    for question, _ in asked:
        kinds.add(type(question).__name__)
        assert all(question.distance(counts, other) <= 1 for other in others)
    assert kinds == {"Measurement", "Choice"}
    spent = sum(q.spends(job.price) for q, _ in asked)
    assert 0.99 * job.price.total < spent <= job.price.total


def test_a_choice_that_understates_its_sensitivity_is_caught():
    """The mutant scores tables twice but declares the move of one."""
    data = people(50)
    maps = [np.arange(n) for n in data.sizes]
    query = _synthetic.Tables(maps, data.sizes, [(0, 1), (0, 1)])
    rows = query.rows
    zeros = np.zeros(rows, dtype=np.int64)
    question = release.Choice.priced(
        query, zeros, np.zeros(1, dtype=np.int64), price=release.Price.read(rho=1),
        share=release.Price.read(rho=1).total, neighbours=Neighbours.ADD_REMOVE, groups=zeros,
    )  # fmt: skip
    counts = read_counts(data, data.sizes)
    more = Counts(None, np.vstack([data.table, [0, 0, 0]]), data.sizes)
    assert question.distance(counts, more) == 2


@pytest.mark.parametrize("combining", ["naive", "combined"])
def test_combined_intervals_cover_where_naive_ones_do_not(combining):
    """Share of (1, 1) among three binary attributes, 24 repetitions at 95 % (noise fixed).

    Privacy noise dominates: σ is about 80 on cells of some hundreds. Naive analysis of one
    set covers a little over half; the combining rule must reach 80 % here.
    """
    rng = np.random.default_rng(3)
    truth, n, hits = 0.35, 2000, 0
    with deterministic("coverage"):
        for _ in range(24):
            a = rng.random(n) < 0.5
            b = np.where(a, rng.random(n) < 2 * truth, rng.random(n) < 0.4)
            c = rng.random(n) < 0.5
            data = release.Records(np.stack([a, b, c], axis=1).astype(int), (2, 2, 2))
            made = release.synthetic(data, rho="0.0006", pairs=3)
            if combining == "naive":
                rows = made.records()
                share = float((rows[:, 0] & rows[:, 1]).mean())
                reach = 1.96 * math.sqrt(share * (1 - share) / len(rows))
                hits += abs(share - truth) <= reach
            else:
                sets = made.sets(6)
                found = release.combine([float((s[:, 0] & s[:, 1]).mean()) for s in sets])
                hits += found.low <= truth <= found.high
    if combining == "naive":
        assert hits <= 19
    else:
        assert hits >= 20


@needs_data
@pytest.mark.long
def test_adult():
    """ε = 1, δ = 1e-9: mean total variation of 2-way tables over 5 runs [MST .0523, AIM .0396]."""
    folder = DATA / "tabular"
    domain = json.loads((folder / "adult-domain.json").read_text())
    with (folder / "adult.csv").open() as file:
        names = file.readline().strip().split(",")
        table = np.loadtxt(file, delimiter=",", dtype=int)
    sizes = [domain[name] for name in names]
    pairs = [c for c in itertools.combinations(range(14), 2) if sizes[c[0]] * sizes[c[1]] <= 10**4]

    def two_way(rows, pair):
        a, b = pair
        index = rows[:, a] * sizes[b] + rows[:, b]
        return np.bincount(index, minlength=sizes[a] * sizes[b]) / len(rows)

    runs = []
    with deterministic("adult"):
        for _ in range(5):
            drawn = release.synthetic(
                release.Records(table, sizes), epsilon=1, delta="1e-9"
            ).records()
            gaps = [np.abs(two_way(table, c) - two_way(drawn, c)).sum() / 2 for c in pairs]
            runs.append(np.mean(gaps))
    assert np.mean(runs) <= 0.0396


def test_edge_cases():
    one = release.synthetic(release.Records([[0], [1]], (2,)), rho=1)
    assert one.records(5).shape == (5, 1)
    none = release.synthetic(release.Records([], (2, 3)), rho=1)
    assert none.records(3).shape == (3, 2)
    assert "2 attributes" in repr(none)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: release.synthetic(people(10), epsilon=1), "Gaussian"),
        (lambda: release.synthetic([[0, 1]], rho=1), "coded records"),
        (lambda: release.combine([1.0]), "two estimates"),
        (lambda: release.synthetic(people(10), rho=1).sets(1), "two sets"),
        (lambda: release.synthetic(people(10), rho=1).records(0), "number of records"),
    ],
)
def test_refusals(call, words):
    with pytest.raises(ParameterError, match=words):
        call()
