"""Random policies, tables and questions against an oracle that shares nothing with the plan.

The oracle below is plain Python over raw rows. It knows what a question means without
limits, and what limits a policy and a question set. For each random question:

- what engines measure on neighbouring tables differs by no more than is declared;
- where no limit binds, integers equal the oracle's; elsewhere no unit contributes more
  than the limits allow.

Generators are seeded, so every run draws the same cases: the false-alarm probability is 0.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from math import prod

import duckdb
import psycopg
import pytest

from discreet import engines, sql
from discreet import plan as pl
from discreet import policy as pol
from discreet.curator._proof import check_statements
from discreet.engines import Reference
from discreet.plan import _lower as lowering
from discreet.plan import _reference as reference
from discreet.plan import _relation as relation
from discreet.plan import _stability as stability
from discreet.privacy import Neighbours

SALT = pl.Salt(b"oracle")
SEX, CLASS = ["F", "M"], ["a", "b", "c"]
COLUMNS = {
    "people": {"id": "bigint", "sex": "text", "x": "bigint"},
    "visits": {"id": "bigint", "c": "text", "z": "bigint"},
    "shops": {"sex": "text", "w": "bigint"},
}
RANGE = {"x": (-2, 3), "z": (-4, 1), "w": (0, 2)}
VALUES = {"sex": SEX, "c": CLASS}


# -- the generator ---------------------------------------------------------------------


@dataclass(frozen=True)
class World:
    """A policy and two neighbouring sets of tables."""

    policy: pol.Policy
    unit: bool
    people: dict[str, int]
    visits: dict[str, int]
    fanout: int
    change: bool
    left: dict[str, list]
    right: dict[str, list]


def limits(rng):
    """Limits of a table: rows, or groups and rows per group, or everything."""
    rows, groups, each = rng.randint(1, 4), rng.randint(1, 3), rng.randint(1, 3)
    return rng.choice(
        [
            {"max_rows_per_unit": rows},
            {"max_groups_per_unit": groups, "max_rows_per_group": each},
            {"max_rows_per_unit": rows, "max_rows_per_group": each},
            {"max_rows_per_unit": rows, "max_groups_per_unit": groups, "max_rows_per_group": each},
        ]
    )


def person(rng, unit, *, single):
    """Rows of one unit, often at the extremes and often equal."""
    many = 1 if single else rng.choice([0, 1, 2, 3, 5, 8])
    flat = rng.random() < 0.3
    sex, x = rng.choice(["F", "M", "?", None]), rng.choice([-9, -2, 0, 3, 3, 9, None])
    people = [
        {
            "id": unit,
            "sex": sex if flat else rng.choice(["F", "F", "M", "M", "?", None]),
            "x": x if flat else rng.choice([-9, -2, -1, 0, 3, 3, 9, None]),
        }
        for _ in range(many)
    ]
    visits = [
        {"id": unit, "c": rng.choice([*CLASS, "?"]), "z": rng.choice([-9, -4, 0, 1, 1, None])}
        for _ in range(0 if single else rng.choice([0, 1, 2, 4, 7]))
    ]
    return {"people": people, "visits": visits}


def world(rng):
    """Draw a policy and neighbouring tables."""
    unit, change = rng.random() < 0.75, rng.random() < 0.5
    own, theirs = (limits(rng), limits(rng)) if unit else ({}, {})
    by = {"neighbours": "change-one" if change else "add-remove"}
    by |= {"unit": "id"} if unit else {}
    shops = [
        {"sex": s, "w": rng.choice([0, 1, 2, None])}
        for s in ("F", "M", "?", None)
        for _ in range(rng.choice([0, 1, 1, 2, 3]))
    ]
    columns = {
        name: [
            pol.Category(c, VALUES[c]) if c in VALUES else pol.Integer(c, *RANGE[c])
            for c in listed
            if c != "id"
        ]
        for name, listed in COLUMNS.items()
    }
    policy = pol.Policy(
        [
            pol.Table("people", columns["people"], **own, **by),
            pol.Table("visits", columns["visits"], **theirs, **by),
            pol.Table("shops", columns["shops"], public=True),
        ],
        pol.Budget("1", delta="1e-6"),
    )
    others = [person(rng, rng.choice([u, u, None]), single=not unit) for u in range(3)]
    before, after = person(rng, 99, single=not unit), person(rng, 99, single=not unit)
    sides = [[*others, before] if change else others, [*others, after]]
    tables = []
    for side in sides:
        data = {t: [row for p in side for row in p[t]] for t in ("people", "visits")}
        for rows in data.values():
            rng.shuffle(rows)
        tables.append(data | {"shops": shops})
    counts = Counter(s["sex"] for s in shops if s["sex"] in SEX)
    return World(policy, unit, own, theirs, max(counts.values(), default=0), change, *tables)


@dataclass(frozen=True)
class Question:
    """What is asked, in the oracle's own words."""

    join: bool
    public: str | None
    where: tuple[str, str, int] | None
    keys: tuple[str, ...]
    asked: tuple[tuple[str, str | None], ...]
    rows: int | None
    groups: int | None

    @property
    def text(self):
        columns = {
            "count": "COUNT(*)", "units": "COUNT(DISTINCT people.id)", "sum": "SUM({})",
            "distinct": "COUNT(DISTINCT {})", "median": "MEDIAN({})",
        }  # fmt: skip
        items = [f"{columns[k].format(c)} AS a{i}" for i, (k, c) in enumerate(self.asked)]
        options = {"max_rows_contributed": self.rows, "max_groups_contributed": self.groups}
        said = "".join(f", {k}={v}" for k, v in options.items() if v is not None)
        head = f"WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1{said}) " if said else ""
        text = f"SELECT {head}{', '.join([*self.keys, *items])} FROM people"
        text += " JOIN visits ON people.id = visits.id" if self.join else ""
        how = "LEFT " if self.public == "left" else ""
        text += f" {how}JOIN shops USING (sex)" if self.public else ""
        text += " WHERE {} {} {}".format(*self.where) if self.where else ""
        return text + (f" GROUP BY {', '.join(self.keys)}" if self.keys else "")


def condition(rng, name):
    """Draw a condition that some value of a column meets."""
    low, high = RANGE[name]
    op, edge = rng.choice(["<", ">"]), rng.randint(low, high - 1)
    return name, op, edge + (op == "<")


def question(rng, w):
    """Draw a question that the policy allows."""
    join, public = w.unit and rng.random() < 0.4, rng.choice([None, None, "inner", "left"])
    numbers = ["x", *(["z"] if join else []), *(["w"] if public else [])]
    keys = ["sex", *(["c"] if join else []), *(["w"] if public else [])]
    asked = [("count", None), *((k, n) for k in ("sum", "distinct", "median") for n in numbers)]
    asked += [("units", None)] if w.unit else []
    return Question(
        join,
        public,
        rng.choice([None, condition(rng, rng.choice(numbers))]),
        tuple(rng.sample(keys, rng.randint(0, min(2, len(keys))))),
        tuple(rng.sample(asked, rng.randint(1, 3))),
        rng.choice([None, None, 1, 2, 5]),
        rng.choice([None, None, 1, 2]),
    )


# -- the oracle --------------------------------------------------------------------------


def clean(row):
    """Raw values as a policy reads them: unknown categories are NULL, numbers are clamped."""
    cleaned = {}
    for name, value in row.items():
        if name in VALUES:
            cleaned[name] = value if value in VALUES[name] else None
        elif name in RANGE and value is not None:
            cleaned[name] = min(max(value, RANGE[name][0]), RANGE[name][1])
        else:
            cleaned[name] = value
    return cleaned


def passes(q, row):
    """Whether a row meets the condition, if it has the column."""
    name, op, edge = q.where or (None, None, None)
    if name not in row:
        return True
    value = row[name]
    return value is not None and (value < edge if op == "<" else value > edge)


def joined(w, q, tables):
    """Rows that the question sees before any limit: (unit, row)."""
    people = [(row["id"] if w.unit else i, clean(row)) for i, row in enumerate(tables["people"])]
    rows = [(u, row) for u, row in people if u is not None]
    if q.join:
        visits = [clean(v) for v in tables["visits"]]
        rows = [(u, row | v) for u, row in rows for v in visits if v["id"] == u]
    if q.public:
        shops, wide = [clean(s) for s in tables["shops"]], []
        for u, row in rows:
            found = [s["w"] for s in shops if row["sex"] is not None and s["sex"] == row["sex"]]
            found = [None] if not found and q.public == "left" else found
            wide += [(u, row | {"w": value}) for value in found]
        rows = wide
    rows = [(u, r) for u, r in rows if passes(q, r)]
    return [(u, r) for u, r in rows if all(r[k] is not None for k in q.keys)]


def meaning(w, q, tables):
    """Answers without limits: one mapping from key to integer for each statistic."""
    groups = defaultdict(list)
    for u, row in joined(w, q, tables):
        groups[tuple(row[k] for k in q.keys)].append((u, row))
    answers = []
    for kind, column in q.asked:
        found = Counter()
        for key, members in groups.items():
            values = [r[column] for _, r in members if column and r[column] is not None]
            found[key] = {
                "count": len(members), "units": len({u for u, _ in members}),
                "sum": sum(values), "distinct": len(set(values)), "median": None,
            }[kind]  # fmt: skip
        answers.append(found)
    return answers


def bounds(w, q):
    """Most rows, groups and rows per group of one unit, as policy and question say."""
    if not w.unit:
        fan = {None: 1, "inner": w.fanout, "left": max(w.fanout, 1)}[q.public]
        return fan, None, None
    own = w.people
    product = own.get("max_groups_per_unit", 0) * own.get("max_rows_per_group", 0)
    rows, each = own.get("max_rows_per_unit"), own.get("max_rows_per_group")
    if q.join:
        sizes = [
            t.get("max_rows_per_unit") or t["max_groups_per_unit"] * t["max_rows_per_group"]
            for t in (w.people, w.visits)
        ]
        rows, groups, each = prod(sizes), None, None
    elif q.keys:
        groups = own.get("max_groups_per_unit")
    else:
        rows = min(n for n in (rows or product, each if rows else None) if n)
        groups, each = None, None
    rows = min((n for n in (rows, q.rows) if n), default=None)
    groups = min((n for n in (groups, q.groups if q.keys else None) if n), default=None)
    return rows, groups, each


def exceeded(w, q, tables):
    """Whether some unit has more than a limit lets through."""
    rows, groups, each = bounds(w, q)
    of = defaultdict(list)
    for u, row in joined(w, q, tables):
        of[u].append(tuple(row[k] for k in q.keys))
    alone = {k for k, _ in q.asked} <= {"units"}
    for keys in of.values():
        counts = Counter(set(keys)) if alone else Counter(keys)
        if rows is not None and counts.total() > rows:
            return True
        if groups is not None and len(counts) > groups:
            return True
        if each is not None and max(counts.values()) > each:
            return True
    if not q.join:
        return False
    for name, own in (("people", w.people), ("visits", w.visits)):
        most = own.get("max_rows_per_unit") or prod(own.values())
        counted = [row for row in tables[name] if row["id"] is not None and passes(q, clean(row))]
        counts = Counter(row["id"] for row in counted)
        if max(counts.values(), default=0) > most:
            return True
    return False


# -- the product ---------------------------------------------------------------------------


def lowered(w, q):
    """Plan of a question."""
    return pl.lower(sql.parse(q.text, w.policy, public_fanout=lambda *_: w.fanout).query)


def executed(low, engine):
    """Groups and integers of every statement of a plan."""
    return [engine.execute(a, SALT) if a.measures else {} for a in low.aggregates]


def measured(low, results):
    """Everything that is measured, part by part: declared, and exact integers by key."""
    return [
        (part.sensitivity, [exact for _, exact in part.measurements(results[part.aggregate])])
        for part in low.parts
    ]


def distances(a, b):
    """L1, squared L2 and L∞ distance of two mappings."""
    moves = [abs(a.get(k, 0) - b.get(k, 0)) for k in a.keys() | b.keys()]
    return sum(moves), sum(m * m for m in moves), max(moves, default=0)


def plain(q, found):
    """Measured integers by readable key, without zeros."""
    names = [VALUES.get(k) for k in q.keys]
    return {
        tuple(n[c] if n else c for n, c in zip(names, key, strict=True)): value
        for key, value in found.items()
        if value
    }


def faults(w, q, low, left, right):
    """What is wrong with the results of one question, or nothing."""
    a, b = measured(low, left), measured(low, right)
    for (declared, ones), (_, twos) in zip(a, b, strict=True):
        told = (declared.l1, declared.l2_squared, declared.linf)
        for one, two in zip(ones, twos, strict=True):
            seen = distances(one, two)
            if any(s > t for s, t in zip(seen, told, strict=True)):
                return f"moved by {seen}, declared {told}"
    for tables, found in ((w.left, a), (w.right, b)):
        if fault := _amiss(w, q, tables, found):
            return fault
    return None


def _amiss(w, q, tables, found):
    """Compare measured vectors with the oracle's answers (medians are measured in trees)."""
    free = not exceeded(w, q, tables)
    rows, groups, each = bounds(w, q)
    most = min(n for n in (rows, groups and each and groups * each) if n is not None)
    people = {u for u, _ in joined(w, q, tables)}
    for (kind, _), truth, (_, exact) in zip(q.asked, meaning(w, q, tables), found, strict=True):
        if kind == "median":
            continue
        got, true = plain(q, exact[0]), {k: v for k, v in truth.items() if v}
        if free and got != true:
            return f"{kind} is {got}, the oracle says {true}"
        if kind in ("count", "units"):
            if any(n > truth[k] for k, n in got.items()):
                return f"{kind} exceeds the truth"
            if sum(got.values()) > most * len(people):
                return f"{kind} of {sum(got.values())} exceeds the limits"
    return None


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
                "(" + ", ".join(_literal(row[c]) for c in COLUMNS[table]) + ")" for row in rows
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
        plans = [lowered(w, q) for q in asked]
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
            if fault := faults(w, q, low, *truth):
                yield seed, q.text, fault


@pytest.fixture
def stores(postgres_url):
    opened = Stores(postgres_url)
    yield opened
    opened.close()


def test_random_questions_on_duckdb_and_postgresql(stores):
    assert list(replayed(stores, range(15))) == []


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
            low = lowered(w, q)
            if fault := faults(w, q, low, executed(low, left), executed(low, right)):
                yield seed, q.text, fault


def test_random_questions_on_the_reference():
    assert list(searched(range(1000, 1150))) == []


# -- mutants: wrong static rules, planted one by one -----------------------------------------


def _returns(number):
    return lambda *_: number


def _added(self, columns):
    theirs = self.other.most({n for n in self.other.schema if self.prefix + n in columns})
    return _unrepeated(self, columns) + theirs


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
    "a unit join counts one side": (relation.JoinUnit, "most", lambda _: _unrepeated),
    "a unit join adds": (relation.JoinUnit, "most", lambda _: _added),
    "a public join repeats nothing": (relation.JoinPublic, "most", lambda _: _unrepeated),
    "a left join loses unmatched rows": (relation.JoinPublic, "most", lambda _: _unmatched),
    "a limit by columns is a limit": (relation.LimitRows, "most", lambda _: _flat),
    "a limit of groups is one of rows": (relation.LimitGroups, "most", lambda _: _flat),
    "one row more is kept": (reference, "_limit_rows", _one_more),
    "one group more is kept": (reference, "_limit_groups", _one_more),
    "one cell is a group": (stability, "reach", lambda _: _returns(1)),
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
