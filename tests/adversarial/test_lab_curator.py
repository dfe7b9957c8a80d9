"""The laboratory's attackers against the whole road: policy, question, ledger, engine, noise.

Every share of right guesses is held against what `meaning` computes from the loss of the answers,
by Clopper–Pearson at 1e-9.
"""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from discreet import lab, meaning
from discreet import policy as pol
from discreet.audit import clopper_pearson
from discreet.errors import BudgetExceededError

_NAMES = itertools.count()
TOWN = lab.town(60, 3)
COUNT = "SELECT COUNT(*) AS n FROM people WHERE ill = 1"
TRIALS = 72


def opened(table, budget="1"):
    """A curator over the town; neighbours differ in one person's record."""
    people = pa.table({"block": table.codes[:, 0], "ill": table.secrets})
    own = pol.Policy(
        [
            pol.Table(
                "people",
                [pol.Integer("block", min=0, max=2), pol.Integer("ill", min=0, max=1)],
                neighbours="change-one",
            )
        ],
        pol.Budget(budget),
        name=f"laboratory {next(_NAMES)}",
    )
    return dc.open(people, policy=own, ledger=":memory:")


def right_guesses(attack, budget="1"):
    """Of all guesses about a fair coin, those that are right; both sides per person.

    All 72 right are caught: then the lower bound at 1e-9 is 0.74, above e/(1 + e) = 0.731.
    """
    rng = np.random.default_rng(1)
    hits = 0
    for trial in range(TRIALS):
        coin = trial % 2
        if coin == 0:
            person = int(rng.integers(len(TOWN)))
        world = opened(TOWN.with_secret(person, coin), budget)
        left = lab.difference(attack(world), TOWN.without(person).secrets)
        hits += int((left >= 0.5) == coin)
    return hits


def ask(curator, epsilon):
    return curator.sql(COUNT, epsilon=epsilon, fresh=True).to_dicts()[0]["n"]


def above_the_bound(hits):
    return clopper_pearson(hits, TRIALS, 1e-9)[0] > meaning.attacker(1).accuracy()


@pytest.mark.parametrize(("epsilon", "caught"), [("1", False), ("50", True)])
def test_differencing_stays_below_the_bound_of_one(epsilon, caught):
    # the mutant: a curator that spends ε = 50 and is held to ε = 1
    hits = right_guesses(lambda curator: ask(curator, epsilon), budget=epsilon)
    assert above_the_bound(hits) is caught


def test_averaging_what_a_budget_of_one_buys_is_no_better():
    hits = right_guesses(lambda curator: lab.average([ask(curator, "0.2") for _ in range(5)])[0])
    assert not above_the_bound(hits)


def test_asking_again_gives_the_same_answer_and_fresh_noise_is_paid_for():
    asked = opened(TOWN)
    first = asked.sql(COUNT, epsilon="0.25").to_dicts()
    assert all(asked.sql(COUNT, epsilon="0.25").to_dicts() == first for _ in range(30))
    for _ in range(3):
        ask(asked, "0.25")
    with pytest.raises(BudgetExceededError):
        ask(asked, "0.25")
