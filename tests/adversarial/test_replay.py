"""Replay on neighbouring tables: nothing around the noise may depend on one unit.

No false alarms are possible: every check is an exact comparison. Mutants of the
engine show that the checks bite.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import plan as pl
from discreet import policy as pol
from discreet import privacy, sql
from discreet.audit import replay
from discreet.engines import Reference
from discreet.noise import DiscreteGaussian, DiscreteLaplace
from discreet.privacy import Neighbours

SALT = pl.Salt(b"replay replay")

COLUMNS = [
    pol.Category("sex", values=["F", "M"]),
    pol.Category("region", values=[1, 2, 3], null=1),
    pol.Integer("age", min=0, max=9),
    pol.Integer("level", min=-3, max=5, null=0),
    pol.Real("pay", min=-2, max=6, step="0.5"),
    pol.Real("rate", min=0, max=1, step="0.25", outside="null"),
    pol.Boolean("member"),
    pol.Date("joined", min=dt.date(2020, 1, 1), max=dt.date(2022, 12, 31)),
    pol.Text("town"),
]

NASTY = {
    "sex": ["F", "M", "?", None],
    "region": [1, 2, 3, 9, None],
    "age": [0, 3, 9, -5, 10**30, None],
    "level": [-3, 0, 5, 2**63, None],
    "pay": [-2.0, 0.25, 6.0, math.inf, -math.inf, math.nan, -0.0, 5e-324, None],
    "rate": [0.0, 0.3, 1.0, 1.01, math.nan, None],
    "member": [True, False, None],
    "joined": [dt.date(2020, 1, 1), dt.date(2021, 6, 5), dt.date(1900, 1, 1), None],
    "town": ["Ulm", "Bonn", "ω'\"", "", None],
}

LIMITS = [
    None,
    {"max_rows_per_unit": 1},
    {"max_rows_per_unit": 3},
    {"max_groups_per_unit": 2, "max_rows_per_group": 2},
    {"max_rows_per_unit": 3, "max_groups_per_unit": 2, "max_rows_per_group": 2},
]

NUMBERS = ["age", "pay", "level", "rate", "age + pay", "pay * level", "ABS(level)", "pay / 2",
           "level / age", "ROUND(pay)", "COALESCE(age, 1)", "CASE WHEN member THEN pay ELSE 0 END",
           "EXTRACT(MONTH FROM joined)", "LEAST(age, 5)"]  # fmt: skip
CONDITIONS = ["age >= 3", "sex = 'F'", "member", "NOT member", "pay BETWEEN 0 AND 3",
              "sex IS NOT NULL AND level < 2", "region IN (1, 3) OR age > 5", "town = 'Ulm'",
              "joined >= DATE '2021-01-01'", "rate IS NULL", "pay + level > age"]  # fmt: skip
KEYS = ["sex", "region", "member", "EXTRACT(YEAR FROM joined)", "WIDTH_BUCKET(age, 0, 10, 5)",
        "CASE WHEN age < 5 THEN 'young' ELSE 'old' END", "town"]  # fmt: skip


@st.composite
def statistics(draw):
    x = draw(st.sampled_from(NUMBERS))
    return draw(
        st.sampled_from(
            ["COUNT(*)", f"COUNT({x})", f"SUM({x})", f"AVG({x})", f"VAR({x})", f"STDDEV({x})",
             f"MEDIAN({x})", f"QUANTILE({x}, 0.9)", f"MAX({x})", "MODE(sex)",
             f"COUNT(DISTINCT {x})", "AVG(member)", f"SUM({x}) FILTER (WHERE member)"]
        )
    )  # fmt: skip


@st.composite
def questions(draw):
    keys = draw(st.lists(st.sampled_from(KEYS), max_size=2, unique=True))
    items = [f"{k} AS k{i}" for i, k in enumerate(keys)]
    items += [
        f"{s} AS s{i}" for i, s in enumerate(draw(st.lists(statistics(), min_size=1, max_size=3)))
    ]
    text = f"SELECT {', '.join(items)} FROM t"
    if draw(st.booleans()):
        text += f" WHERE {draw(st.sampled_from(CONDITIONS))}"
    if keys:
        text += " GROUP BY " + ", ".join(str(i + 1) for i in range(len(keys)))
    return text


def rows(rng, unit, most):
    return [
        {"id": unit} | {c: rng.choice(values) for c, values in NASTY.items()}
        for _ in range(rng.randint(0, most))
    ]


def neighbours_of(rng, limits, relation):
    """Two tables that differ in one unit."""
    if limits is None:
        others = rows(rng, 0, 6)
        one = rows(rng, 0, 1) or [{"id": 0} | {c: v[0] for c, v in NASTY.items()}]
        left = others + (one if relation is Neighbours.CHANGE_ONE else [])
        new = rows(rng, 0, 1) or [{"id": 0} | {c: v[1] for c, v in NASTY.items()}]
        right = others + new
    else:
        others = [r for u in range(rng.randint(0, 3)) for r in rows(rng, u, 4)]
        left = others + (rows(rng, 99, 7) if relation is Neighbours.CHANGE_ONE else [])
        right = others + rows(rng, 99, 7)
    rng.shuffle(left)
    rng.shuffle(right)
    return left, right


def policy(limits, relation):
    unit = {} if limits is None else {"unit": "id", **limits}
    table = pol.Table("t", COLUMNS, neighbours=relation, **unit)
    return pol.Policy(tables=[table], budget=pol.Budget("1", delta="1e-6"))


def plan_of(text, limits, relation, epsilon="1", delta="1e-6"):
    query = sql.parse(text, policy(limits, relation)).query
    return pl.price(pl.lower(query), pl.Ask(Fraction(epsilon), delta=Fraction(delta)))


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("limits", LIMITS)
@settings(max_examples=60)
@given(text=questions(), seed=st.integers(0, 2**32))
def test_replay_of_generated_plans(text, limits, relation, seed):
    replayed(text, limits, relation, seed)


@pytest.mark.long
@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("limits", LIMITS)
@settings(max_examples=2000)
@given(text=questions(), seed=st.integers(0, 2**32))
def test_replay_of_generated_plans_at_length(text, limits, relation, seed):
    replayed(text, limits, relation, seed)


def replayed(text, limits, relation, seed):
    plan = plan_of(text, limits, relation)
    left, right = neighbours_of(random.Random(seed), limits, relation)
    found = replay(plan, Reference({"t": left}), Reference({"t": right}), SALT)
    assert found.ok, (text, found.violations)


# -- mutants --------------------------------------------------------------------


def caught(engine, text, limits, relation=Neighbours.ADD_REMOVE, tables=400):
    """Whether replay accuses an engine within a few hundred random neighbours."""
    plan = plan_of(text, limits, relation)
    rng = random.Random(1)
    for _ in range(tables):
        left, right = neighbours_of(rng, limits, relation)
        if not replay(plan, engine({"t": left}), engine({"t": right}), SALT).ok:
            return True
    return False


class Unlimited(Reference):
    """Mutant: contribution limits are declared but not enforced."""

    def execute(self, aggregate, salt):
        assert isinstance(aggregate.relation, pl.LimitRows)
        loose = replace(aggregate.relation, n=10**6)
        return super().execute(replace(aggregate, relation=loose), salt)


class Unclipped(Reference):
    """Mutant: values beyond the declared bounds are added up as they are."""

    def execute(self, aggregate, salt):
        groups = super().execute(aggregate, salt)
        return {k: tuple(1000 * v for v in vs) for k, vs in groups.items()}


class FloatSum(Reference):
    """Mutant: integers are added up in single precision."""

    def execute(self, aggregate, salt):
        import numpy as np

        groups = super().execute(aggregate, salt)
        total = np.float32(2.0**24)
        return {
            k: tuple(int(np.float32(total + np.float32(v))) for v in vs) for k, vs in groups.items()
        }


class DataDriven(Reference):
    """Mutant: rows are measured against the largest value in the data."""

    def __init__(self, tables):
        ages = [r["age"] for r in tables["t"] if isinstance(r["age"], int)]
        top = max(ages, default=0)
        super().__init__({"t": [r | {"age": top - (r["age"] or 0)} for r in tables["t"]]})


class FirstComeFirstServed(Reference):
    """Mutant: one unit's rows decide how many rows of others are kept."""

    def execute(self, aggregate, salt):
        kept = {t: rows_[: len(rows_) // 2] for t, rows_ in self._tables.items()}
        return Reference(kept).execute(aggregate, salt)


MUTANTS = [
    (Unlimited, "SELECT COUNT(*) AS n FROM t", {"max_rows_per_unit": 1}),
    (Unclipped, "SELECT SUM(age) AS s FROM t", None),
    (FloatSum, "SELECT COUNT(*) AS n, SUM(age) AS s FROM t", None),
    (DataDriven, "SELECT WIDTH_BUCKET(age, 0, 10, 5) AS b, COUNT(*) AS n FROM t GROUP BY 1", None),
    (FirstComeFirstServed, "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex", None),
]


@pytest.mark.parametrize(("engine", "text", "limits"), MUTANTS)
def test_mutant_engines_are_caught(engine, text, limits):
    assert caught(engine, text, limits)
    assert not caught(Reference, text, limits, tables=60)


# -- key selection ----------------------------------------------------------------

TOWNS = "SELECT town, COUNT(*) AS n FROM t GROUP BY town"


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("relation", list(Neighbours))
def test_a_lonely_key_appears_with_probability_at_most_delta(limits, relation):
    plan = plan_of(TOWNS, limits, relation, delta="1e-3")
    low = plan.lowered
    law = plan.parts[plan.lowered.selector].law.law
    # exact probability that count 1 plus noise reaches the threshold, over all keys a unit brings
    at = plan.parts[plan.lowered.selector].law.at
    alone = sum(float(law.pmf(k)) for k in range(at - 1, at + 20_000))
    groups = min(x for x in (low.query.limits.groups, low.query.limits.rows) if x is not None)
    spare = 1e-3 / 2 if plan.noise == "gaussian" else 1e-3
    assert groups * alone <= spare


def test_the_threshold_is_nearly_the_least_possible():
    """Mutant: counting ≥ T as > T would pass a threshold that is one or two lower."""
    for law in (DiscreteLaplace(1), DiscreteGaussian(3)):
        at = privacy.key_threshold(law, Fraction(1, 1000), 1)
        assert float(law.sf(at - 2)) <= 1e-3  # P(1 + X ≥ at)
        assert float(law.sf(at - 4)) > 1e-3


def test_unseen_and_lonely_keys_do_not_show_with_frozen_noise():
    plan = plan_of(TOWNS, None, Neighbours.ADD_REMOVE)
    rows_ = [{c: v[0] for c, v in NASTY.items()} for _ in range(100)]
    secret = rows_[0] | {"town": "secret hamlet"}
    found = replay(plan, Reference({"t": rows_}), Reference({"t": [*rows_, secret]}), SALT)
    assert found.ok
