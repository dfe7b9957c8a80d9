"""Open keys are selected by weights of degrees: what they move, what they show, who limits them."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import psycopg
import pyarrow as pa
import pytest

import discreet as dc
from discreet import audit, engines, noise, sql, verify
from discreet import plan as pl
from discreet import policy as pol
from discreet import privacy as p
from discreet._print import number
from discreet.answer import Answer
from discreet.curator import fresh_salt
from discreet.engines import Reference
from discreet.engines._duckdb import DuckDBEngine
from discreet.errors import ParameterError, UnprovenStatementError
from discreet.plan._keys import SCALE, WeightedKeys
from discreet.plan._parts import Cells, GaussianRule, Hidden, LaplaceRule, loss_of
from discreet.plan._stability import Sensitivity
from discreet.plan._vectors import Threshold

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
    plan = pl.price(lowered(relation=relation), ASK)
    rng = random.Random(7)
    reached = [0, 0]
    for _ in range(40):
        rows = people(rng, 6)
        mine = [r for r in rows if r["id"]]
        other = mine + [r | {"id": 0} for r in people(rng, 1)] if relation == "change-one" else mine
        salt = fresh_salt()
        sides = Reference({"t": rows}), Reference({"t": other})
        found = audit.replay(plan, *sides, salt)
        assert found.ok, found
        steps = [s for s in found.steps if s.name == "keys"]
        assert [s.where[6:] for s in steps] == ["", ", second round"]
        for i, step in enumerate(steps):
            reached[i] = max(reached[i], step.measured["L1"] / step.declared["L1"])
    assert min(reached) > 0.7


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
    again = Answer.from_record(answer.record())
    assert again.to_dicts() == answer.to_dicts()
    at = next(p.threshold for p in again.parts if p.kind == "weights") / SCALE
    assert f"noisy weighted number of ids reached {number(at)}" in " ".join(again.target)
    assert "noisy weighted number of units reaches" in repr(
        asked.preview(TEXT, epsilon=3, delta="1e-5")
    )


# -- two rounds -----------------------------------------------------------------------------------


@pytest.mark.parametrize("offer", [{"epsilon": 2}, {"rho": "0.05"}])
def test_two_rounds_find_more_keys_than_one(offer, monkeypatch):
    """At the same price; the noise is a function of the test's name."""

    def found():
        asked = dc.open(zipf(), policy=policy(groups=20), ledger=":memory:")
        return len(asked.sql(TEXT, **offer, delta="1e-6"))

    two = found()
    monkeypatch.setattr("discreet.plan._keys._FIRST", Fraction(1, 10**6))
    assert two > 1.08 * found()


@pytest.mark.parametrize("offer", [{"epsilon": "2"}, {"rho": "0.05"}, {"epsilon": "0.3"}])
def test_both_rounds_are_paid(offer):
    """What the laws on record lose is in the price; a small ε under Laplace noise has one round."""
    ask = pl.Ask(**{k: Fraction(v) for k, v in offer.items()}, delta=Fraction(1, 10**6))
    plan = pl.price(lowered(), ask, noise="laplace")
    priced = plan.parts[plan.lowered.selector]
    rounds = [t for t in (priced.law.before, priced.law) if t is not None]
    assert len(rounds) == (1 if offer == {"epsilon": "0.3"} else 2)
    s = priced.part.sensitivity
    each = [loss_of(t.law, s, priced.part.coordinates) for t in rounds]
    assert list(priced.losses[:-1]) == each
    counts = next(x for x in plan.parts if x is not priced)
    if "rho" in offer:
        assert sum(x.zcdp().rho0 for x in each) == pytest.approx(
            float(counts.losses[0].zcdp().rho0)
        )
    else:
        assert sum(x.top for x in each) == counts.losses[0].top
    # a threshold of each round, for its own share of δ
    shares = (Fraction(1, 10), Fraction(9, 10)) if len(rounds) > 1 else (Fraction(1),)
    for t, share in zip(rounds, shares, strict=True):
        assert t.at == priced.part.threshold(t.law, share * Fraction(1, 10**6))


def test_a_first_round_that_is_not_paid_is_caught(monkeypatch):
    """Mutant: the loss of the first round is left out; the comparison above sees it."""
    whole = WeightedKeys.price

    def cheap(part, rule):
        priced = whole(part, rule)
        return replace(priced, losses=priced.losses[1:])

    monkeypatch.setattr(WeightedKeys, "price", cheap)
    with pytest.raises(AssertionError):
        test_both_rounds_are_paid({"epsilon": "2"})


ODD = ("it's", 'two "words"', "back\\slash", "line\nbreak", "", " ", "ü🙂", "%_", "--", "NULL")


def test_the_second_round_forgets_keys_whatever_they_are():
    rng = random.Random(5)
    rows = [
        {"id": u, "town": t, "x": 1}
        for u in range(60)
        for t in rng.sample([*ODD, *"abcdefgh"], rng.randint(1, 9))
    ]
    low = lowered(groups=20)
    part = selection(low)
    aggregate = part.without([*ODD, "a"])
    engine = engines.connect(pa.Table.from_pylist(rows), policy(groups=20))
    salt = pl.Salt(b"s")
    found = engine.execute(aggregate, salt)
    assert found == Reference({"t": rows}).execute(aggregate, salt)
    assert {key for key, _ in found} == set("bcdefgh")
    # degrees count what is left: a unit still weighs one in all
    units = {r["id"] for r in rows if r["town"] in set("bcdefgh")}
    assert sum(n[0] * Fraction(1, d) for (_, d), n in found.items()) == len(units)


HARD = (
    "tab\tand\x01\x1b",
    "nul\x00l",
    "\x7f\u2028\ufeff",
    "long " * 1000,
    "'" * 201,
    "\ufdd0\U0010ffff",
)
PLAIN = [key for key in ODD if key.isprintable()]
PLAIN += ["\\\\'", "'; DROP TABLE t", "${x}", "'" * 200]


def hard(units=600):
    """Rows in which each of many odd keys is frequent, and a few plain ones."""
    keys = [*ODD, *HARD, *PLAIN, *"abcd"]
    return [
        {"id": u, "town": keys[(u + step) % len(keys)], "x": 1}
        for u in range(units)
        for step in range(3)
    ]


def forgotten(monkeypatch):
    """Keys that the second rounds from now on forget."""
    found = []
    honest = WeightedKeys.without
    monkeypatch.setattr(
        WeightedKeys, "without", lambda part, keys: found.extend(keys) or honest(part, keys)
    )
    return found


def test_a_paid_question_does_not_fail_for_keys_that_are_hard_to_write(monkeypatch):
    found = forgotten(monkeypatch)
    asked = dc.open(pa.Table.from_pylist(hard()), policy=policy(), ledger=":memory:")
    answer = asked.sql(TEXT, epsilon=50, delta="1e-5")
    # texts are cut to the 1 000 characters that a column has unless it says otherwise
    whole = {*ODD, *HARD, *PLAIN, *"abcd"}
    assert {r["town"] for r in answer.to_dicts()} == {key[:1000] for key in whole}
    # what can be written is forgotten, the rest is read again
    assert set(found) == {*PLAIN, *"abcd"}


def test_a_paid_question_does_not_fail_for_such_keys_on_postgresql(monkeypatch, postgres_url):
    found = forgotten(monkeypatch)
    rows = [r for r in hard() if "\x00" not in r["town"]]  # which that database cannot hold
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS hard_keys CASCADE; CREATE SCHEMA hard_keys")
        connection.execute("SET search_path = hard_keys")
        connection.execute(
            "CREATE TABLE t (id bigint NOT NULL, town text NOT NULL, x bigint NOT NULL)"
        )
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO t VALUES (%(id)s, %(town)s, %(x)s)", rows)
        asked = dc.open(connection, policy=policy(), ledger=":memory:")
        answer = asked.sql(TEXT, epsilon=50, delta="1e-5")
        connection.execute("DROP SCHEMA hard_keys CASCADE")
    assert {r["town"] for r in answer.to_dicts()} == {r["town"][:1000] for r in rows}
    assert set(found) == {*PLAIN, *"abcd"}


def test_a_second_statement_without_limits_does_not_run(monkeypatch):
    """It is proved like the first; what the first has read is looked at again instead."""
    asked = dc.open(zipf(1000), policy=policy(), ledger=":memory:")
    honest, execute = WeightedKeys.without, DuckDBEngine.execute
    ran, refused = [], []

    def wide(part, keys):
        refused.append(honest(replace(part, most=9), keys))
        return refused[-1]

    monkeypatch.setattr(WeightedKeys, "without", wide)
    monkeypatch.setattr(DuckDBEngine, "execute", lambda e, a, s: ran.append(a) or execute(e, a, s))
    answer = asked.sql(TEXT, epsilon=3, delta="1e-5")
    assert refused
    assert ran
    assert not set(refused) & set(ran)
    part = next(p for p in answer.parts if p.kind == "weights")
    assert len(part.first) < part.size  # the second round took place
    part.check(part.size)


def test_records_say_in_which_round_a_key_was_found():
    asked = dc.open(zipf(2000), policy=policy(groups=20), ledger=":memory:")
    answer = asked.sql(TEXT, epsilon=9, delta="1e-5")
    part = next(p for p in answer.parts if p.kind == "weights")
    assert part.before is not None
    assert 0 < len(part.first) < part.size
    assert part.before.at > part.threshold
    assert Answer.from_record(answer.record()).to_dicts() == answer.to_dicts()
    part.check(part.size)
    low = replace(part, values=(part.threshold,) * part.size)
    for wrong in (low, replace(part, first=(*part.first, part.size)), replace(part, before=None)):
        with pytest.raises(ParameterError):
            wrong.check(part.size)


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


# -- by the numbers -------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "rounds"), [("1/2", 2), ("0.499", 1), ("3", 2)])
def test_a_tenth_of_the_price_is_for_the_first_round(epsilon, rounds):
    part, delta = selection(lowered()), Fraction(1, 10**5)
    priced = part.price(LaplaceRule(Fraction(epsilon), delta))
    *noisy, failing = priced.losses
    shares = [Fraction(1, 10), Fraction(9, 10)] if rounds == 2 else [1]
    assert [loss.top for loss in noisy] == [Fraction(epsilon) * share for share in shares]
    assert failing.mass_at_infinity == delta
    steps = [priced.law.before, priced.law] if rounds == 2 else [priced.law]
    for step, share in zip(steps, shares, strict=True):
        assert step.law.scale == SCALE / (Fraction(epsilon) * share)
        assert step.at == part.threshold(step.law, delta * share)
        hidden = [h for h in part.drawn(priced.law) if isinstance(h, Hidden) and h.at == step.at]
        assert [(h.keys, h.weight) for h in hidden] == [(t, SCALE // t) for t in (1, 2, 3, 4)]
    by_rho = part.price(GaussianRule(Fraction(5), delta=delta))
    assert [loss.rho for loss in by_rho.losses[:2]] == [Fraction(1, 100), Fraction(9, 100)]
    assert by_rho.part.sensitivity == Sensitivity(2 * SCALE + 1, SCALE**2, SCALE)


@pytest.mark.parametrize("most", [1, 63, 64, 65, 66, 129, 130, 131, 200])
@pytest.mark.parametrize("root", [False, True])
def test_the_threshold_holds_for_every_degree_and_hardly_more(most, root):
    part = replace(selection(lowered()), most=most, root=root)
    law, delta = noise.DiscreteLaplace(SCALE), Fraction(1, 10**5)
    at = part.threshold(law, delta)

    def shown(at):
        return max(
            p.key_threshold_delta(law, at, t, sensitivity=max(part.weight(t), 1))
            for t in range(1, most + 1)
        )

    assert shown(at) <= delta
    # beyond 64, degrees share a block: the weight of its first, as many keys as its last
    blocks = [(t, t) for t in range(1, min(most, 64) + 1)]
    blocks += [(a, min(b, most)) for a, b in ((65, 130), (131, 262)) if a <= most]
    assert at == max(
        p.key_threshold(law, delta, keys, sensitivity=part.weight(degree))
        for degree, keys in blocks
    )
    halves = {most >> k for k in range(most.bit_length())}
    degrees = [h.keys for h in part.drawn(Threshold(law, at, SCALE)) if isinstance(h, Hidden)]
    assert degrees == sorted({*range(1, min(most, 64) + 1), *halves})


def test_the_heaviest_keys_that_can_be_written_are_forgotten():
    part = selection(lowered())
    priced = part.price(LaplaceRule(Fraction(1), Fraction(1, 10**5)))
    keys = [(f"k{i:03}",) for i in range(300)]
    odd = [("x" * 200,), ("y" * 201,), ("line\nbreak",)]
    cells = Cells([*keys, *odd], None, (*range(1000, 1300), 9000, 9001, 9002))
    conditions = [node.condition for node in part.further(priced, cells).relation.nodes
                  if isinstance(node, pl.Filter)]  # fmt: skip
    assert conditions
    words = set(conditions[0].arg.codes)
    assert words == {"x" * 200, *(f"k{i:03}" for i in range(300 - 253, 300))}
    once = replace(priced, law=replace(priced.law, before=None))
    assert part.further(once, cells) is None


@pytest.mark.parametrize(
    ("mine", "violations"),
    [([(1, 1)], 0), ([(4, 4)], 0), ([(2, 1)], 1), ([(5, 4)], 1), ([(1, 4)], 0)],
)
def test_keys_of_one_table_only_weigh_no_more_than_one_unit_gives(mine, violations):
    """So many keys, each of the weight of such a degree."""
    part = selection(lowered())
    ((count, degree),) = mine
    groups = {(f"k{i}", degree): (1,) for i in range(count)}
    for sides in ((groups, {}), ({}, groups)):
        found = [what for what in part.moved(*sides) if "one table only" in what]
        assert len(found) == violations
