"""Questions about people: one row for each unit, checked against plain Python.

Each question comes with a few lines of Python that say what it means. On random
tables the engine's integers must equal theirs, and when one person comes, goes or
is exchanged no part may move by more than it declares. The programs share nothing
with ``plan``. Wrong rules, planted one at a time, are found.
"""

from __future__ import annotations

import random
from collections import defaultdict

import pyarrow as pa
import pytest

from discreet import audit, plan, sql
from discreet.errors import QueryError, UnsupportedQueryError
from discreet.plan import FoldKind
from discreet.policy import Budget, Category, Integer, Policy, Table
from discreet.privacy import Neighbours

WARDS = ["ER", "ICU", "Ward"]
PER = "SELECT person, COUNT(*) AS n FROM visits GROUP BY person"


def policy(neighbours):
    visits = Table(
        "visits",
        [Category("ward", WARDS), Integer("cost", -3, 5)],
        unit="person",
        max_rows_per_unit=3,
        neighbours=neighbours,
    )
    people = Table(
        "people",
        [Integer("age", 0, 9)],
        unit="person",
        max_rows_per_unit=1,
        neighbours=neighbours,
    )
    return Policy(tables=[visits, people], budget=Budget("1"))


def draw(rng):
    """Rows of both tables by person; wards and costs may be NULL."""

    def rows():
        return [
            (rng.choice([*WARDS, None]), rng.choice([None, -3, 0, 1, 5]))
            for _ in range(rng.randrange(7))
        ]

    return {p: (rows(), [rng.randrange(10)] * rng.randrange(2)) for p in range(rng.randrange(1, 7))}


def tables(world):
    visits = [(p, *row) for p, (rows, _) in world.items() for row in rows]
    people = [(p, age) for p, (_, ages) in world.items() for age in ages]
    return {
        "visits": pa.table(
            {
                "person": pa.array([v[0] for v in visits], pa.int64()),
                "ward": pa.array([v[1] for v in visits], pa.string()),
                "cost": pa.array([v[2] for v in visits], pa.int64()),
            }
        ),
        "people": pa.table(
            {
                "person": pa.array([p[0] for p in people], pa.int64()),
                "age": pa.array([p[1] for p in people], pa.int64()),
            }
        ),
    }


def counted(world, key, where=bool):
    found = defaultdict(int)
    for rows, _ in world.values():
        if rows and where(rows):
            found[key(rows)] += 1
    return dict(found)


def total(world, value, where=bool):
    return {(): sum(value(rows) for rows, _ in world.values() if rows and where(rows))}


def nobody(_):
    """One group for all."""
    return ()


def costs(rows):
    return [c for _, c in rows if c is not None]


def wards(rows, name):
    return sum(w == name for w, _ in rows)


QUESTIONS = {
    f"SELECT COUNT(*) FROM ({PER}) t": lambda w: counted(w, nobody),
    f"SELECT SUM(n) FROM ({PER}) t": lambda w: total(w, lambda r: min(len(r), 3)),
    f"SELECT SUM(LEAST(n, 5)) FROM ({PER}) t": lambda w: total(w, lambda r: min(len(r), 5)),
    f"SELECT SUM(n) FROM ({PER}) t WHERE n <= 4": lambda w: total(w, len, lambda r: len(r) <= 4),
    f"SELECT n, COUNT(*) FROM ({PER}) t GROUP BY n": lambda w: counted(
        w, lambda r: (min(len(r), 3),)
    ),
    f"SELECT COUNT(*) FROM ({PER} HAVING COUNT(*) >= 4) t": lambda w: counted(
        w, nobody, lambda r: len(r) >= 4
    ),
    "SELECT SUM(s) FROM (SELECT person, SUM(cost) AS s FROM visits GROUP BY person) t": (
        lambda w: total(w, lambda r: min(max(sum(costs(r)), -9), 15))
    ),
    "SELECT SUM(m) FROM (SELECT person, MAX(cost) AS m FROM visits GROUP BY person) t": (
        lambda w: total(w, lambda r: max(costs(r), default=0))
    ),
    "SELECT SUM(d) FROM (SELECT person, COUNT(DISTINCT ward) AS d FROM visits GROUP BY person) t": (
        lambda w: total(w, lambda r: len({x for x, _ in r if x is not None}))
    ),
    "SELECT COUNT(*) FROM (SELECT person, COUNT(*) FILTER (WHERE ward = 'ER') AS a, "
    "COUNT_IF(ward = 'ICU') AS b FROM visits GROUP BY person) t WHERE a > b": lambda w: counted(
        w, nobody, lambda r: wards(r, "ER") > wards(r, "ICU")
    ),
    "SELECT COUNT(DISTINCT person) FROM visits WHERE person IN "
    "(SELECT person FROM visits WHERE ward = 'ICU')": lambda w: counted(
        w, nobody, lambda r: wards(r, "ICU") > 0
    ),
    "SELECT COUNT(DISTINCT person) FROM visits WHERE person NOT IN "
    "(SELECT person FROM visits WHERE ward = 'ICU')": lambda w: counted(
        w, nobody, lambda r: wards(r, "ICU") == 0
    ),
    f"SELECT SUM(COALESCE(t.n, 0)) FROM people p LEFT JOIN ({PER}) t USING (person)": lambda w: {
        (): sum(min(len(rows), 3) for rows, ages in w.values() for _ in ages)
    },
    f"SELECT SUM(p.age) FROM people p JOIN ({PER}) t ON p.person = t.person WHERE t.n >= 2": (
        lambda w: {(): sum(a for rows, ages in w.values() for a in ages if len(rows) >= 2)}
    ),
}


def exact(text, rules, world):
    return audit.measurements(rules, text, tables(world), salt=7)


def moved(before, after):
    """How far two measurements lie apart, in the three norms."""
    keys = before.keys() | after.keys()
    gaps = [abs(after.get(k, 0) - before.get(k, 0)) for k in keys]
    return sum(gaps), sum(g * g for g in gaps), max(gaps, default=0)


def excesses(text, meaning, rules, seeds):
    """What is wrong with a question, by worlds."""
    for seed in seeds:
        rng = random.Random(f"{text} {seed}")
        world = draw(rng)
        first = exact(text, rules, world)
        values = {k: v for k, v in first[0].exact.items() if v}
        if values != {k: v for k, v in meaning(world).items() if v}:
            yield f"meaning: {values} for {world}"
        gone = rng.choice(list(world))
        near = {p: rows for p, rows in world.items() if p != gone}
        if rules.table("visits").neighbours is Neighbours.CHANGE_ONE:
            near[gone] = next(iter(draw(rng).values()))
        for one, two in zip(first, exact(text, rules, near), strict=True):
            far = moved(one.exact, two.exact)
            if any(
                a > b
                for a, b in zip(
                    far, (one.declared.l1, one.declared.l2_squared, one.declared.linf), strict=True
                )
            ):
                yield f"moved {far}, declared {one.declared}"


@pytest.mark.parametrize("neighbours", [Neighbours.ADD_REMOVE, Neighbours.CHANGE_ONE])
@pytest.mark.parametrize("text", QUESTIONS)
def test_people_are_counted_and_protected(text, neighbours):
    assert list(excesses(text, QUESTIONS[text], policy(neighbours), range(3))) == []


@pytest.mark.parametrize("text", QUESTIONS)
def test_plans_about_people_can_be_read(text):
    """A preview describes its plan; a newcomer's first one failed."""
    words = plan.describe(sql.parse(text, policy(Neighbours.ADD_REMOVE)).query)
    assert "group by person" in words


@pytest.mark.long
@pytest.mark.parametrize("neighbours", [Neighbours.ADD_REMOVE, Neighbours.CHANGE_ONE])
@pytest.mark.parametrize("text", QUESTIONS)
def test_people_are_counted_and_protected_at_length(text, neighbours):
    assert list(excesses(text, QUESTIONS[text], policy(neighbours), range(1000, 1300))) == []


def test_wrong_rules_are_found(monkeypatch):
    """A key beside the unit makes several rows of one person."""
    inner = "SELECT person, ward, COUNT(*) AS n FROM visits GROUP BY person, ward"
    text = f"SELECT COUNT(*) FROM ({inner}) t"
    rules = policy(Neighbours.ADD_REMOVE)

    def meaning(world):
        kinds = [len({w for w, _ in rows}) for rows, _ in world.values()]
        return {(): sum(min(k, 3) for k in kinds)}

    assert list(excesses(text, meaning, rules, range(8))) == []
    monkeypatch.setattr(plan.PerUnit, "most", lambda *_: 1)
    assert list(excesses(text, meaning, rules, range(3))) != []


def test_a_cap_that_is_not_rendered_is_found(monkeypatch):
    text = f"SELECT SUM(n) FROM ({PER}) t"
    monkeypatch.setattr(plan.expr.Capped, "sql", lambda self, w: w.value(self.arg))
    assert list(excesses(text, QUESTIONS[text], policy(Neighbours.ADD_REMOVE), range(3))) != []


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM (SELECT ward, COUNT(*) FROM visits GROUP BY ward) t",
        "SELECT COUNT(*) FROM visits WHERE cost IN (SELECT cost FROM visits)",
        "SELECT COUNT(*) FROM visits WHERE person IN (SELECT cost FROM visits)",
        "SELECT SUM(cost) FROM (SELECT person, cost FROM visits GROUP BY person) t",
        "SELECT AVG(n) FROM (SELECT person, COUNT(*) AS n FROM visits GROUP BY person LIMIT 3) t",
        "SELECT COUNT(*) FROM (SELECT person, MEDIAN(cost) FROM visits GROUP BY person) t",
        "SELECT person, n FROM (SELECT person, COUNT(*) AS n FROM visits GROUP BY person) t",
    ],
)
def test_what_mixes_people_is_refused(text):
    with pytest.raises((QueryError, UnsupportedQueryError)):
        exact(text, policy(Neighbours.ADD_REMOVE), {1: ([("ER", 1)], [3])})


@pytest.mark.parametrize("kind", FoldKind)
def test_a_fold_stays_in_its_type(kind):
    cost = plan.expr.Column("cost", plan.Type.number(-3, 5))
    fold = plan.Fold(kind, cost)
    for codes in ([], [None], [5, 5, None], [-3] * 9, [0, 1, 1]):
        value = fold.of(codes)
        assert value is None or fold.type.lo <= value <= fold.type.hi or not codes
