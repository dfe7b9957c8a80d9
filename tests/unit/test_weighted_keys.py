"""Open keys are selected by weights of degrees: what they move, what they show, who limits them."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from discreet import audit, engines, sql, verify
from discreet import plan as pl
from discreet import policy as pol
from discreet.curator import fresh_salt
from discreet.engines import Reference
from discreet.errors import UnprovenStatementError
from discreet.plan._keys import SCALE, WeightedKeys

TEXT = "SELECT town, COUNT(*) AS n FROM t GROUP BY town"
ASK = pl.Ask(Fraction(1), delta=Fraction(1, 10**4))


def policy(relation="add-remove", groups=4):
    columns = [pol.Text("town"), pol.Integer("x", 0, 9)]
    limits = {"unit": "id", "max_groups_per_unit": groups, "max_rows_per_group": 2}
    table = pol.Table("t", columns, neighbours=relation, **limits)
    return pol.Policy([table], pol.Budget("1000", "0.1", accounting="approx"))


def lowered(text=TEXT, **choices):
    return pl.lower(sql.parse(text, policy(**choices)).query)


def selection(low):
    return low.parts[low.selector]


def people(rng, units, towns=12, most=7):
    return [
        {"id": u, "town": f"t{t}", "x": 1}
        for u in range(units)
        for t in rng.choices(range(towns), k=rng.randint(1, most))
    ]


# -- what is measured -----------------------------------------------------------------------------


def test_a_unit_weighs_one_however_many_keys_it_has():
    low = lowered()
    part = selection(low)
    assert isinstance(part, WeightedKeys)
    for towns in (1, 3, 4, 9):
        rows = [{"id": 1, "town": f"t{i}", "x": 1} for i in range(towns)] * 2
        groups = Reference({"t": rows}).execute(low.aggregates[part.aggregate], fresh_salt())
        kept = min(towns, 4)
        assert list(part.weights(groups).values()) == [SCALE // kept] * kept


@pytest.mark.parametrize("relation", ["add-remove", "change-one"])
def test_neighbours_move_weights_as_declared(relation):
    """Random tables, one unit more (or another): the replay finds nothing."""
    low = lowered(relation=relation)
    rng = random.Random(7)
    reached = 0
    for _ in range(40):
        rows = people(rng, 6)
        mine = [r for r in rows if r["id"]]
        other = mine + [r | {"id": 0} for r in people(rng, 1)] if relation == "change-one" else mine
        salt = fresh_salt()
        sides = Reference({"t": rows}), Reference({"t": other})
        found = audit.replay(pl.price(low, ASK), *sides, salt)
        assert found.ok, found
        (step,) = (s for s in found.steps if s.name == "keys")
        reached = max(reached, step.measured["L1"] / step.declared["L1"])
    assert reached > 0.9


def test_a_wrong_weight_is_caught(monkeypatch):
    """Mutant: a unit of d keys gives each of them as if it had one less."""
    low = lowered()
    monkeypatch.setattr(WeightedKeys, "weight", lambda _, d: SCALE // max(d - 1, 1))
    rows = [{"id": 1, "town": f"t{i}", "x": 1} for i in range(3)]
    sides = Reference({"t": rows}), Reference({"t": []})
    found = audit.replay(pl.price(low, ASK, noise="laplace"), *sides, fresh_salt())
    assert any("moved by" in what for what in found.violations)


def test_measurements_show_the_weights():
    rows = pa.table({"id": [1, 1, 2], "town": ["a", "b", "a"], "x": [1, 1, 1]})
    found = audit.measurements(policy(), TEXT, rows, salt=b"x")
    (keys,) = (m for m in found if m.name.startswith("keys"))
    assert keys.exact == {("a",): SCALE // 2 + SCALE, ("b",): SCALE // 2}
    assert (keys.declared.l1, keys.declared.linf) == (SCALE, SCALE)


# -- what is shown --------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 3, 50, 300])
@pytest.mark.parametrize("offer", [{"epsilon": 1}, {"rho": "0.1"}])
def test_keys_of_one_unit_show_with_probability_delta_at_most(most, offer):
    """For every number of keys, by the law itself; a threshold half a unit lower fails."""
    delta = Fraction(1, 10**5)
    part = replace(selection(lowered()), most=most)
    rule = pl.price(lowered(), pl.Ask(**{k: Fraction(v) for k, v in offer.items()}, delta=delta))
    law = rule.parts[rule.lowered.selector].law.law
    for mine in (part, part._by_roots()):
        at = mine.threshold(law, delta)
        shown = [t * float(law.sf(at - 1 - mine.weight(t))) for t in range(1, most + 1)]
        assert max(shown) <= delta * (1 + Fraction(1, 10**4))
        lower = [
            t * float(law.sf(at - 1 - SCALE // 2 - mine.weight(t))) for t in range(1, most + 1)
        ]
        assert max(lower) > delta


def zipf(units=4000, seed=0):
    rng = np.random.default_rng(seed)
    degree = np.minimum(np.ceil(rng.pareto(1.3, units) * 2).astype(int), 60) + 1
    cumulative = np.cumsum(1 / np.arange(1, 5001) ** 1.1)
    keys = np.searchsorted(cumulative / cumulative[-1], rng.random(degree.sum()))
    towns = [f"t{k}" for k in keys]
    return pa.table({"id": np.repeat(np.arange(units), degree), "town": towns, "x": keys % 9})


@pytest.mark.parametrize("offer", [{"epsilon": 1}, {"rho": "0.02"}])
def test_more_keys_are_found_than_by_counts(offer, monkeypatch):
    """At the same price and at most 20 keys a unit, most of which have two or three."""

    def found():
        asked = dc.open(zipf(), policy=policy(groups=20), ledger=":memory:")
        return len(asked.sql(TEXT, **offer, delta="1e-6"))

    weighted = found()
    monkeypatch.setattr("discreet.plan._lower.Lowering._weighted", lambda *_: None)
    assert weighted > 1.3 * found()


def test_counts_that_are_asked_for_select_where_a_unit_has_few_keys():
    units = "SELECT town, COUNT(DISTINCT id) AS n FROM t GROUP BY town"
    assert not isinstance(selection(lowered(units, groups=2)), WeightedKeys)
    assert isinstance(selection(lowered(units, groups=3)), WeightedKeys)
    assert not isinstance(selection(lowered(groups=1)), WeightedKeys)


def test_records_and_previews_say_how_keys_were_selected():
    asked = dc.open(zipf(1000), policy=policy(), ledger=":memory:")
    answer = asked.sql(TEXT, epsilon=3, delta="1e-5")
    again = dc.Answer.from_record(answer.record()) if hasattr(dc, "Answer") else answer
    assert again.to_dicts() == answer.to_dicts()
    assert "noisy weight of units reaches" in repr(asked.preview(TEXT, epsilon=3, delta="1e-5"))


# -- who limits -----------------------------------------------------------------------------------


def statement():
    own = policy()
    engine = engines.connect(zipf(10), own)
    low = lowered()
    aggregate = low.aggregates[selection(low).aggregate]
    return engine, low, engine.proof(aggregate)


def test_the_verifier_reads_the_degree_back():
    _, low, proof = statement()
    reading = proof.columns[-1]
    assert (reading.upto, reading.groups, reading.rows_per_group) == (1, 4, 1)
    assert reading.within(*(4, 4, 1), "add-remove")
    assert selection(low).degree == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda text: (
            text[: text.index(" AND n", text.index("BETWEEN 1 AND 4"))]
            + text[text.index(") AS s", text.index("BETWEEN 1 AND 4")) :]
        ),  # no bound by the degree
        lambda text: text.replace("GROUP BY u OFFSET 0", "GROUP BY u, c4 OFFSET 0"),
    ],
)
def test_a_statement_that_does_not_keep_to_the_degree_is_not_read_as_one(change):
    engine, _, proof = statement()
    text = change(proof.sql)
    assert text != proof.sql
    tables = {'"t"': verify.Table({"id": "BIGINT", "town": "VARCHAR", "x": "BIGINT"}, unit="id")}
    for name in ('"t"', "t"):
        try:
            found = verify.prove(text, dialect="duckdb", tables={name: tables['"t"']})
        except UnprovenStatementError:
            continue
        assert found.columns[-1].upto is None
    del engine


def test_engines_and_reference_agree():
    rng = random.Random(3)
    rows = people(rng, 80)
    low = lowered()
    aggregate = low.aggregates[selection(low).aggregate]
    table = pa.Table.from_pylist(rows)
    engine = engines.connect(table, policy())
    for salt in (pl.Salt(b"a"), pl.Salt(b"b")):
        assert engine.execute(aggregate, salt) == Reference({"t": rows}).execute(aggregate, salt)


def test_a_degree_that_is_counted_wrongly_costs_keys_not_privacy():
    """The statement itself keeps a unit in no more groups than its row says."""
    low = lowered()
    part = selection(low)
    few = low.aggregates[part.aggregate].relation
    assert few.upto == "k1"
    rows = [{"k0": f"t{i}", "k1": 2, pl._reference.UNIT: 1} for i in range(9)]
    kept = pl._reference._limit_groups(few, 1, rows, pl.Salt(b"x"))
    assert len(kept) == 2
