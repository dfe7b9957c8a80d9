"""The attacks, each with the figures that it must reproduce.

Made-up data come from fixed seeds, so these results are certain; tests that draw real noise
say how often they fail by chance.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet import lab, meaning, noise
from discreet import mechanisms as m
from discreet import privacy as p
from discreet.audit import clopper_pearson
from discreet.errors import ParameterError

# -- differencing and averaging ------------------------------------------------------


def test_all_but_one_known_gives_the_last_record():
    incomes = np.array([48_000, 61_000, 55_000, 48_500])
    for last in range(4):
        others = np.delete(incomes, last)
        assert lab.difference(incomes.sum(), others) == incomes[last]


def test_differencing_a_private_total_stays_below_the_bound():
    # 4000 targets with a fair coin each; false alarm below 1e-9 by Clopper–Pearson
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2, 4000)
    bound = meaning.attacker(p.Pure(1)).accuracy()
    for epsilon, caught in ((1, False), (4, True)):
        totals = [m.geometric(120 + int(b), 1, epsilon).value for b in bits]
        guesses = np.array([lab.difference(t, [120]) >= 0.5 for t in totals])
        hits = int((guesses == bits).sum())
        # the mutant has noise for ε = 4 and claims ε = 1
        assert (clopper_pearson(hits, 4000, 1e-9)[0] > bound) is caught
    assert hits / 4000 > 0.9


def test_averaging_beats_noise_that_nobody_pays_for():
    # mean of k answers has standard deviation √(2/k)/ε; 8 sigma, false alarm below 1e-15
    answers = 1000 + noise.DiscreteLaplace(10).sample(40_000)
    mean, error = lab.average(answers)
    assert abs(mean - 1000) < 8 * math.sqrt(2 / 40_000) * 10
    assert error == pytest.approx(math.sqrt(2 / 40_000) * 10, rel=0.1)
    assert lab.repeats_needed(0.1) == math.ceil(2 * (1.959964 / 0.05) ** 2)


# -- reconstruction ------------------------------------------------------------------


def reconstructed(n, queries, sigma, attack, runs=6):
    shares = []
    for k in range(runs):
        rng = np.random.default_rng(k)
        bits = rng.integers(0, 2, n)
        q = lab.subset_queries(n, queries, seed=k)
        shares.append(lab.recovered(bits, attack(q, q @ bits + rng.normal(0, sigma, queries))))
    return np.mean(shares)


@pytest.mark.parametrize(("n", "queries"), [(64, 256), (128, 512)])
def test_dinur_nissim_by_linear_programming(n, queries):
    root = math.sqrt(n)
    assert reconstructed(n, queries, 0, lab.reconstruct_lp) == 1
    assert reconstructed(n, queries, root / 6, lab.reconstruct_lp) > 0.97
    assert 0.85 < reconstructed(n, queries, root / 3, lab.reconstruct_lp) < 0.95
    assert reconstructed(n, queries, root, lab.reconstruct_lp) < 0.75


def test_dinur_nissim_by_least_squares():
    assert reconstructed(64, 256, 0, lab.reconstruct_least_squares) == 1
    assert reconstructed(64, 256, 8 / 6, lab.reconstruct_least_squares) > 0.97
    assert reconstructed(64, 256, 8, lab.reconstruct_least_squares) < 0.85


@pytest.mark.parametrize("attack", [lab.reconstruct_lp, lab.reconstruct_least_squares])
def test_reconstruction_from_private_answers_stays_below_the_bound(attack):
    # 64 answers for ε = 1 in all: each bit is guessed right with probability ≤ e/(1+e) whatever
    # the attack. One bit per run, since bits of a run share their noise; 1e-9 by Clopper–Pearson.
    # The mutant claims ε = 1 and has noise for ε = 400
    rng = np.random.default_rng(7)
    bound = meaning.attacker(1).accuracy()
    for epsilon, caught in ((1, False), (400, True)):
        hits = 0
        for k in range(300):
            bits = rng.integers(0, 2, 16)
            q = lab.subset_queries(16, 64, seed=k)
            answers = m.geometric(q @ bits, 64, epsilon, neighbours="change-one").value
            hits += int(attack(q, answers)[k % 16] == bits[k % 16])
        assert (clopper_pearson(hits, 300, 1e-9)[0] > bound) is caught


# -- blocks --------------------------------------------------------------------------


def test_a_small_block_is_reconstructed_whole_and_certain():
    town = lab.town()
    block = 11
    tables = lab.block_tables(lab.as_it_is(town).counts, town, block)
    names = ("age", "sex", "group", "ill")
    here = town.codes[:, 0] == block
    truth = np.zeros([town.size(name) for name in names])
    for row, bit in zip(town.codes[here], town.secrets[here], strict=True):
        truth[(*row[1:], bit)] += 1
    found = lab.reconstruct_block(tables, {name: town.size(name) for name in names}, certainty=True)
    assert found.misfit == 0
    assert found.agreement(truth) > 0.4
    # what is certain is true: that is what makes it a disclosure
    assert (found.people[found.certain] == truth[found.certain]).all()
    assert found.certain.mean() > 0.5


def test_richer_tables_give_everybody_away():
    town = lab.town()
    rich = lab.table(
        {
            "block": town.codes[:, 0], "age": town.codes[:, 1], "sex": town.codes[:, 2],
            "ill": town.secrets, "income": town.numbers,
        },
        quasi=["block", "age", "sex"], secret="ill", number="income",
        tables=[("block", "age", "sex"), ("block", "age", "ill"), ("block", "sex", "ill")],
    )  # fmt: skip
    shares = []
    for block in range(12):
        tables = lab.block_tables(rich.published(), rich, block)
        names = ("age", "sex", "ill")
        found = lab.reconstruct_block(tables, {name: rich.size(name) for name in names})
        truth = rich.counts(("block", *names))[block]
        shares.append(found.agreement(truth))
    assert np.mean(shares) > 0.8
    sizes = {name: rich.size(name) for name in names}
    last = lab.reconstruct_block(tables, sizes, certainty=True)
    people = truth[last.certain].sum()
    assert people > truth.sum() / 4  # named beyond doubt, by tables alone
    assert (last.people[last.certain] == truth[last.certain]).all()


def test_a_kind_that_nothing_published_counts_is_not_certain():
    found = lab.reconstruct_block({("a",): np.array([np.nan, 1.0])}, {"a": 2}, certainty=True)
    assert found.certain.tolist() == [False, True]


def test_noisy_tables_are_fitted_and_nothing_is_certain():
    town = lab.town()
    noisy = lab.block_tables(lab.private(town, 1).counts, town, 0)
    sizes = {name: town.size(name) for name in ("age", "sex", "group", "ill")}
    found = lab.reconstruct_block(noisy, sizes, whole=False, certainty=True)
    assert found.misfit > 0
    assert not found.certain.any()


def test_reconstruction_refuses_what_it_cannot_use():
    with pytest.raises(ParameterError, match="no tables"):
        lab.reconstruct_block({}, {"a": 2})
    with pytest.raises(ParameterError, match="no size"):
        lab.reconstruct_block({("b",): np.ones(2)}, {"a": 2})
    with pytest.raises(ParameterError, match="one answer"):
        lab.reconstruct_lp(np.ones((3, 2)), [1, 2])


# -- linkage -------------------------------------------------------------------------


def test_birthday_sex_and_post_code_single_people_out():
    # 1000 people, 20 000 birthdays, 2 sexes, 5 post codes: almost everybody is unique
    rng = np.random.default_rng(2)
    people = [
        {"name": i, "born": int(b), "sex": int(s), "post": int(c)}
        for i, (b, s, c) in enumerate(
            zip(rng.integers(0, 20_000, 1000), rng.integers(0, 2, 1000), rng.integers(0, 5, 1000),
                strict=True)
        )
    ]  # fmt: skip
    records = [{k: v for k, v in person.items() if k != "name"} | {"ill": i % 7 == 0}
               for i, person in enumerate(people)]  # fmt: skip
    found = lab.link(records, people, on=["born", "sex", "post"], secret="ill")
    assert len(found) > 980
    assert all(link.secret == (link.name % 7 == 0) for link in found)
    # birth year instead of birthday: hardly anybody
    for rows in (people, records):
        for row in rows:
            row["born"] //= 366
    assert len(lab.link(records, people, on=["born", "sex", "post"], secret="ill")) < 250


def ratings(rng, people=500, items=400):
    popularity = 1 / (1 + np.arange(items))
    return [
        {int(i): (float(rng.integers(1, 6)), float(rng.integers(0, 2000)))
         for i in rng.choice(items, 20, replace=False, p=popularity / popularity.sum())}
        for _ in range(people)
    ]  # fmt: skip


def test_a_few_ratings_with_errors_find_the_record():
    rng = np.random.default_rng(3)
    records = ratings(rng)
    right = wrong = 0
    for target in range(60):
        mine = dict(list(records[target].items())[:6])
        notes = {
            i: (stars + rng.integers(-1, 2), day + 14 * rng.random())
            for i, (stars, day) in mine.items()
        }
        notes[next(iter(mine))] = (9.0, 9999.0)  # one of them is plainly wrong
        found = lab.link_ratings(records, notes)
        right += found == target
        wrong += found not in (None, target)
    assert right >= 57
    assert wrong == 0
    # of somebody who is not in the data, nobody is named
    strangers = ratings(rng, 60)
    named = [lab.link_ratings(records, dict(list(s.items())[:6])) for s in strangers]
    assert sum(found is not None for found in named) <= 6


def test_a_pseudonym_ties_searches_together_and_fresh_ones_do_not():
    logs = [(1, "plumber oakville"), (1, "j. marsh genealogy"), (1, "numb fingers"),
            (2, "plumber oakville"), (2, "football")]  # fmt: skip
    people = {"J. Marsh": ["oakville", "marsh"], "A. Hill": ["oakville", "hill"]}
    assert lab.link_logs(logs, people) == {1: "J. Marsh"}
    fresh = [(i, text) for i, (_, text) in enumerate(logs)]
    assert lab.link_logs(fresh, people) == {}


# -- tracing -------------------------------------------------------------------------


def traced(d, runs=10):
    found = []
    for k in range(runs):
        rng = np.random.default_rng(k)
        share = rng.uniform(0.05, 0.95, d)
        members, others = (rng.random((n, d)) < share for n in (100, 1000))
        reference = (rng.random((100, d)) < share).mean(axis=0)
        mean = members.mean(axis=0)
        scores = [lab.trace(mean, reference, who) for who in (members, others)]
        found.append(lab.tracing(*scores, fpr=0.05).tpr)
    return np.mean(found)


def test_tracing_reproduces_its_figures():
    assert traced(100) == pytest.approx(0.20, abs=0.05)
    assert traced(1000) == pytest.approx(0.70, abs=0.05)


def test_tracing_private_averages_stays_below_the_bound():
    # one member per run, since members of a run share its noise: 150 runs, 1e-9 by
    # Clopper–Pearson; the mutant claims ε = 1 and has no noise at all
    bound = meaning.attacker(1).tpr(0.05)
    assert bound == pytest.approx(0.136, abs=0.001)
    for epsilon, caught in ((1, False), (None, True)):
        hits = 0
        for k in range(150):
            rng = np.random.default_rng(k)
            share = rng.uniform(0.05, 0.95, 1000)
            members, others = (rng.random((n, 1000)) < share for n in (100, 200))
            sums = members.sum(axis=0)
            if epsilon is not None:
                sums = m.geometric(sums, 1000, epsilon, neighbours="change-one").value
            scores = [lab.trace(sums / 100, share, who) for who in (members[:1], others)]
            hits += int(lab.tracing(*scores, fpr=0.05).tpr)
        assert (clopper_pearson(hits, 150, 1e-9)[0] > bound) is caught


# -- models --------------------------------------------------------------------------


def test_a_dose_gives_the_gene_away():
    rng = np.random.default_rng(4)
    prior = {0: 0.6, 1: 0.3, 2: 0.1}
    genes = rng.choice(3, 400, p=list(prior.values()))
    ages = rng.integers(20, 80, 400)
    doses = 40 - 0.2 * ages - 6 * genes + rng.normal(0, 2, 400)

    def attack(doses, error):
        found = [
            lab.infer_attribute(
                lambda person: 40 - 0.2 * person["age"] - 6 * person["gene"],
                {"age": int(age)}, "gene", prior, dose, error=error,
            )
            for age, dose in zip(ages, doses, strict=True)
        ]  # fmt: skip
        return np.mean([max(f, key=f.get) == g for f, g in zip(found, genes, strict=True)])

    assert attack(doses, 2) > 0.85
    assert attack(doses + rng.laplace(0, 30, 400), 42) < 0.65  # the commonest gene: 60 %


def test_a_face_comes_back_from_confidences_alone():
    rng = np.random.default_rng(5)
    faces = (rng.random((4, 64)) < 0.4).astype(float)
    photos = np.repeat(faces, 10, axis=0) + rng.normal(0, 0.15, (40, 64))
    model = lab.train(photos, np.repeat(np.arange(4), 10))
    recovered = [lab.invert_model(model.confidence, k, 64) for k in range(4)]
    likeness = np.array([[np.corrcoef(a, b)[0, 1] for b in faces] for a in recovered])
    assert (likeness.argmax(axis=1) == np.arange(4)).all()
    assert likeness.diagonal().min() > 0.6
    # a model that says the class and no confidence has no slope to climb
    blind = lab.invert_model(lambda x: np.round(model.confidence(x)), 0, 64)
    assert abs(np.corrcoef(blind + 1e-9 * np.arange(64), faces[0])[0, 1]) < 0.4


# -- graphs --------------------------------------------------------------------------


def test_a_few_colluders_find_their_targets_in_a_large_graph():
    found = 0
    for seed in range(5):
        base = lab.random_graph(2000, seed=seed)
        targets = list(range(0, 100, 10))
        graph, plan = lab.plant(base, targets, seed=seed)
        assert len(graph) - 2000 == math.ceil(2 * math.log2(2000)) == 22
        hidden, where = lab.anonymise(graph, seed=seed)
        places = lab.find_planted(hidden, plan)
        assert places is not None
        known = [
            (place, where[t]) for place, t in zip(places, targets, strict=True) if place is not None
        ]
        assert all(a == b for a, b in known)
        found += len(known)
    assert found >= 45  # of 50; the rest had a chance friend among the colluders


def test_randomised_friendships_hide_the_pattern():
    # each edge is kept or replaced at random: the pattern is gone, nobody is named
    graph, plan = lab.plant(lab.random_graph(1000), [1, 2, 3])
    rng = np.random.default_rng(6)
    changed = [set() for _ in graph]
    for a, friends in enumerate(graph):
        for b in friends:
            if a < b:
                other = b if rng.random() < 0.8 else int(rng.integers(len(graph)))
                changed[a].add(other)
                changed[other].add(a)
    assert lab.find_planted(changed, plan) is None


def test_too_few_colluders_are_refused():
    with pytest.raises(ParameterError, match="colluders"):
        lab.plant(lab.random_graph(50), range(40), colluders=4)
