"""Random policies, tables and questions against an oracle that shares nothing with the plan.

The oracle (``discreet.audit._oracle``) is plain Python over raw rows. It knows what a question
means without limits, and what limits a policy and a question set. For each random question:

- what engines measure on neighbouring tables differs by no more than is declared;
- where no limit binds, integers equal the oracle's; elsewhere no unit contributes more
  than the limits allow.

Generators are seeded, so every run draws the same cases: the false-alarm probability is 0.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, replace

import duckdb
import psycopg
import pytest

from discreet import engines
from discreet.audit._fuzz import SALT, differences, lowered
from discreet.audit._oracle import question, world
from discreet.curator import check_statements
from discreet.engines import Reference
from discreet.plan import _joins as joins
from discreet.plan import _lower as lowering
from discreet.plan import _reference as reference
from discreet.plan import _relation as relation
from discreet.plan import _stability as stability
from discreet.privacy import Neighbours

COLUMNS = {
    "people": {"id": "bigint", "sex": "text", "x": "bigint"},
    "visits": {"id": "bigint", "c": "text", "z": "bigint"},
    "shops": {"sex": "text", "w": "bigint"},
}
"""Tables of the random policies, as databases hold them."""


def executed(low, engine):
    """Groups and integers of every statement of a plan."""
    return [engine.execute(a, SALT) if a.measures else {} for a in low.aggregates]


def faults(q, low, left, right):
    """What is wrong with the results of one question, or nothing."""
    return next(differences(q, low, left, right), None)


class Stores:
    """The tables of a world, in one DuckDB and one PostgreSQL database."""

    def __init__(self, url):
        self.duck = duckdb.connect(config={"threads": 1})
        self.postgres = psycopg.connect(url, autocommit=True)
        self.postgres.execute("CREATE SCHEMA IF NOT EXISTS oracle; SET search_path = oracle")
        for store in (self.duck, self.postgres):
            for table, columns in COLUMNS.items():
                listed = ", ".join(f"{c} {t}" for c, t in columns.items())
                unlogged = "UNLOGGED " if store is self.postgres else ""
                store.execute(f"CREATE {unlogged}TABLE {table} ({listed})")

    def load(self, tables):
        for table, rows in tables.items():
            listed = ", ".join(
                "(" + ", ".join(_literal(row.get(c)) for c in COLUMNS[table]) + ")" for row in rows
            )
            text = f"DELETE FROM {table};" + (f"INSERT INTO {table} VALUES {listed}" * bool(rows))
            for store in (self.duck, self.postgres):
                store.execute(text)

    def close(self):
        self.postgres.execute("DROP SCHEMA oracle CASCADE")
        self.postgres.close()
        self.duck.close()


def _literal(value):
    return "NULL" if value is None else repr(value)


def replayed(stores, seeds, questions=4):
    """Run random questions on both engines and their neighbours; yield what is wrong.

    Engines are opened once for a world: its neighbours are loaded below them, and
    every statement is written and proved for both. What engines return is compared
    with the reference, so integers that both agree on meet the oracle once.
    """
    for seed in seeds:
        rng = random.Random(seed)
        w = world(rng)
        asked = [question(rng, w) for _ in range(questions)]
        plans = [lowered(q) for q in asked]
        sides = (w.left, w.right)
        truths = [[executed(low, Reference(tables)) for tables in sides] for low in plans]
        stores.load(w.left)
        opened = [engines.connect(c, w.policy) for c in (stores.duck, stores.postgres)]
        for engine, low in itertools.product(opened, plans):
            check_statements(engine, low)  # raises if the text limits less than is declared
        for side, tables in enumerate(sides):
            if side:
                stores.load(tables)
            for q, low, truth in zip(asked, plans, truths, strict=True):
                for engine in opened:
                    if executed(low, engine) != truth[side]:
                        yield seed, q.text, f"{engine.name} and the reference differ"
        for engine in opened:
            engine.close()
        for q, low, truth in zip(asked, plans, truths, strict=True):
            if fault := faults(q, low, *truth):
                yield seed, q.text, fault


@pytest.fixture
def stores(postgres_url):
    opened = Stores(postgres_url)
    yield opened
    opened.close()


def test_random_questions_on_duckdb_and_postgresql(stores):
    assert list(replayed(stores, range(15))) == []


def test_a_key_that_where_leaves_one_value_ranks_groups_alike(stores):
    """Found at length: the reference hashed a constant key that statements leave out."""
    assert list(replayed(stores, [12335], questions=8)) == []


@pytest.mark.long
@pytest.mark.parametrize("first", range(10_000, 12_500, 100))
def test_twenty_thousand_random_questions_on_duckdb_and_postgresql(stores, first):
    assert list(replayed(stores, range(first, first + 100), questions=8)) == []


def searched(seeds, questions=4):
    """Find what is wrong by the reference alone: fast, for mutants."""
    for seed in seeds:
        rng = random.Random(seed)
        w = world(rng)
        left, right = Reference(w.left), Reference(w.right)
        for _ in range(questions):
            q = question(rng, w)
            low = lowered(q)
            if fault := faults(q, low, executed(low, left), executed(low, right)):
                yield seed, q.text, fault


def test_random_questions_on_the_reference():
    assert list(searched(range(1000, 1150))) == []


# -- mutants: wrong static rules, planted one by one -----------------------------------------


def _returns(number):
    return lambda *_: number


def _added(self, columns):
    theirs = self.other.most({n for n in self.other.schema if self.prefix + n in columns})
    ours = _unrepeated(self, columns)
    return None if ours is None or theirs is None else ours + theirs


def _scaled(norm, numerator, denominator):
    def make(original):
        def mutant(aggregate, measure):
            found = original(aggregate, measure)
            changed = aggregate.neighbours is Neighbours.CHANGE_ONE and aggregate.keys
            value = getattr(found, norm) * numerator // denominator if changed else None
            parts = {n: getattr(found, n) for n in ("l1", "l2_squared", "linf")}
            return _Loose(**(parts | ({norm: value} if changed else {})))

        return mutant

    return make


@dataclass
class _Loose:
    """A sensitivity that is not checked for being one."""

    l1: int
    l2_squared: int
    linf: int


def _unrepeated(self, columns):
    return self.below.most(columns & self.below.schema.keys())


def _unmatched(self, columns):
    return (_unrepeated(self, columns) or 0) * self.fanout


def _flat(self, _columns):
    return self.n


def _one_more(original):
    return lambda limit, *rest: original(replace(limit, n=limit.n + 1), *rest)


MUTANTS = {
    "a unit join counts one side": (joins.JoinUnit, "most", lambda _: _unrepeated),
    "a unit join adds": (joins.JoinUnit, "most", lambda _: _added),
    "a public join repeats nothing": (joins.JoinPublic, "most", lambda _: _unrepeated),
    "a left join loses unmatched rows": (joins.JoinPublic, "most", lambda _: _unmatched),
    "a limit by columns is a limit": (relation.LimitRows, "most", lambda _: _flat),
    "a limit of groups is one of rows": (relation.LimitGroups, "most", lambda _: _flat),
    "one row more is kept": (reference, "_limit_rows", _one_more),
    "one group more is kept": (reference, "_limit_groups", _one_more),
    "one cell is a group": (relation.Aggregate, "reach", lambda _: property(_returns(1))),
    "rows of a unit never meet": (
        stability, "_counts", lambda original: lambda aggregate, _: original(aggregate, 1),
    ),
    "changing one moves as adding one": (lowering, "sensitivity", _scaled("l1", 1, 2)),
    "squares do not double": (lowering, "sensitivity", _scaled("l2_squared", 1, 2)),
    "a group moves by the larger bound": (lowering, "sensitivity", _scaled("linf", 3, 5)),
    "the range is the width": (stability, "always_one_row", lambda _: lambda *_: True),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_of_static_rules_are_caught(name, monkeypatch):
    owner, attribute, make = MUTANTS[name]
    monkeypatch.setattr(owner, attribute, make(getattr(owner, attribute)))
    assert next(searched(range(2000)), None) is not None
