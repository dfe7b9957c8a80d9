"""Questions in shapes that people bring along from other databases, and what they mean.

Rows in a first place, people who have no row elsewhere, tests inside COUNT(DISTINCT …), PIVOT,
DISTINCT beside windows, TOP, OFFSET and QUALIFY, LATERAL, shares of people. Planners rewrite such
questions, and a rewrite can change a number in silence; so each is drawn with its meaning in plain
Python over raw rows, which knows nothing of the rewrite.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from discreet import policy as pol
from discreet._dataclass import dataclass
from discreet._text import quoted
from discreet.audit._oracle import (
    Question,
    Tables,
    World,
    condition,
    exceeded,
    few,
    joined,
    literal,
)

Cleaned = Mapping[tuple[str, str], Any]
Test = tuple[tuple[str, str], str, Any]
Answer = Counter[tuple[Any, ...]]
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda a, b: a < b, ">": lambda a, b: a > b, "=": lambda a, b: a == b,
}  # fmt: skip


@dataclass(frozen=True)
class Habit(Question):
    """A question in somebody else's words; `truth` gives one mapping for each statistic, or None.

    `alike` says whether every answer is one number for each person, so that no limit of rows
    binds; otherwise limits are those of the plain question that a habit is based on.
    """

    statement: str = ""
    truth: Callable[[Tables], list[Answer] | None] = lambda _: None
    alike: bool = True

    @property
    def text(self) -> str:
        """The question in SQL."""
        return self.statement

    def amiss(
        self, tables: Tables, answers: Sequence[Mapping[tuple[Any, ...], int]]
    ) -> Iterator[str]:
        """Compare measured integers with what is meant."""
        truths = None if not self.alike and exceeded(self, tables) else self.truth(tables)
        if truths is not None and len(answers) != len(truths):
            yield f"{len(answers)} numbers are measured, {len(truths)} are meant"
        for i, (exact, truth) in enumerate(zip(answers, truths or (), strict=False)):
            got, true = ({k: v for k, v in m.items() if v} for m in (exact, truth))
            if got != true:
                yield f"column {i} is {got}, the oracle says {true}"


def habit(rng: random.Random, w: World) -> Habit | None:
    """Draw a question in one of the shapes that this world has room for."""
    shapes = [_pivot, _windows, _spelled, _picked, *([_tests] if w.unit else [])]
    shapes += [_first_rows] if w.unit else []
    shapes += [_absent, _sets, _of_one, _share] if w.unit and w.other is not None else []
    return rng.choice(shapes)(rng, w)


def _base(w: World, keys: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
    return {"world": w, "join": False, "public": None, "where": None, "keys": tuple(keys),
            "statistics": (("count", None),), "rows": None, "groups": None}  # fmt: skip


def _spelling(w: World, test: Test, alias: str) -> str:
    """Write a test; an even day is compared as the midnight that it is."""
    (_, name), op, code = test
    column = w.column(test[0])
    value = literal(column, code)
    if isinstance(column, pol.Date) and code % 2 == 0:
        value = f"TIMESTAMP '{value[6:-1]} 00:00:00'"
    return f"{alias}{quoted(name)} {op} {value}"


def _holds(test: Test | None, row: Cleaned) -> bool:
    if test is None:
        return True
    name, op, code = test
    return row[name] is not None and _OPERATORS[op](row[name], code)


def _draw_test(rng: random.Random, w: World, table: pol.Table) -> Test | None:
    names = [(table.name, n) for n, c in table.columns.items() if not isinstance(c, pol.Timestamp)]
    return condition(rng, w, rng.choice(names)) if names else None


def _of_rows(statement: str, base: dict[str, Any], tests: Sequence[Test | None] = (None,)) -> Habit:
    """Count rows by key, once for each test, under the limits of the plain question."""
    plain = Question(**base)

    def truth(tables: Tables) -> list[Answer]:
        rows = [(tuple(r[k] for k in plain.keys), r) for _, r in joined(plain, tables)]
        return [Counter(key for key, r in rows if _holds(test, r)) for test in tests]

    return Habit(**base, statement=statement, truth=truth, alike=False)


def _of_people(statement: str, w: World, *sets: Callable[[Tables], set[Any]]) -> Habit:
    """Count the people of each set: one row for each, whatever limits there are."""

    def truth(tables: Tables) -> list[Answer]:
        return [Counter({(): len(people(tables))}) for people in sets]

    return Habit(**_base(w), statement=statement, truth=truth)


def _people(w: World, table: pol.Table, test: Test | None, tables: Tables) -> set[Any]:
    """People with a row that passes; rows of nobody are left out."""
    of = w if table is w.main else World(w.policy, table, None, None, "", 0, w.left, w.right)
    rows = joined(Question(**(_base(w) | {"world": of})), tables)
    return {unit for unit, row in rows if _holds(test, row)}


def _beside(w: World, test: Test | None, none: bool, tables: Tables) -> set[Any]:
    """People who have a row of the other table that passes, or who have none."""
    assert w.other is not None
    mine, there = _people(w, w.main, None, tables), _people(w, w.other, test, tables)
    return mine - there if none else mine & there


def _keys(rng: random.Random, w: World, most: int) -> list[tuple[str, str]]:
    names = [(w.main.name, n) for n, c in w.main.columns.items() if few(c)]
    return rng.sample(names, rng.randint(0, min(most, len(names))))


# -- rows: limits are those of the plain question -----------------------------------------------


def _pivot(rng: random.Random, w: World) -> Habit | None:
    """PIVOT of a subquery: a count for each value that is named, by all other columns."""
    listed = [(w.main.name, n) for n, c in w.main.columns.items()
              if isinstance(c, pol.Category) and isinstance(c.values[0], str)]  # fmt: skip
    if not listed:
        return None
    by = rng.choice(listed)
    keys = [k for k in _keys(rng, w, 1) if k != by]
    column = w.column(by)
    assert isinstance(column, pol.Category)
    codes = rng.sample(range(len(column.values)), min(2, len(column.values)))
    inner = ", ".join(quoted(n) for _, n in (*keys, by))
    values = ", ".join(f"{literal(column, c)} AS v{i}" for i, c in enumerate(codes))
    statement = (
        f"SELECT * FROM (SELECT {inner} FROM {quoted(w.main.name)}) AS t "  # noqa: S608 - ours
        f"PIVOT (COUNT(*) FOR {quoted(by[1])} IN ({values})) AS p"
    )
    return _of_rows(statement, _base(w, keys), [(by, "=", c) for c in codes])


def _windows(rng: random.Random, w: World) -> Habit | None:
    """DISTINCT beside windows over rows: one row for each key."""
    keys = _keys(rng, w, 2) or _keys(rng, w, 1)
    if not keys:
        return None
    names = ", ".join(quoted(n) for _, n in keys)
    test = _draw_test(rng, w, w.main)
    assert test is not None
    statement = (
        f"SELECT DISTINCT {names}, COUNT(*) OVER (PARTITION BY {names}) AS n "  # noqa: S608 - ours
        f"FROM {quoted(w.main.name)} WHERE {_spelling(w, test, '')}"
    )
    return _of_rows(statement, _base(w, keys) | {"where": test})


_SPELLINGS = (
    "COUNTIF({})", "COUNT_IF({})", "SUM(IFF({}, 1, 0))", "SUM(IF({}, 1, 0))",
    "SUM(CASE WHEN {} THEN 1 ELSE 0 END)", "COUNT(CASE WHEN {} THEN 1 END)", "SUMIF(1, {})",
    "COUNT(*) FILTER (WHERE {})", "SUM(ZEROIFNULL(CASE WHEN {} THEN 1 END))",
)  # fmt: skip


def _spelled(rng: random.Random, w: World) -> Habit | None:
    """Rows that pass a test, counted in the words of one database or another."""
    keys, test, how = _keys(rng, w, 1), _draw_test(rng, w, w.main), rng.choice(_SPELLINGS)
    if test is None:
        return None
    names = "".join(f"{quoted(n)}, " for _, n in keys)
    item = how.format(_spelling(w, test, ""))
    grouped = f" GROUP BY {names[:-2]}" if keys else ""
    statement = f"SELECT {names}{item} AS n FROM [dbo].{quoted(w.main.name)}{grouped}"  # noqa: S608 - ours
    return _of_rows(statement, _base(w, keys), [test])


_PICKS = (
    ("TOP 2 ", " ORDER BY 1 DESC"), ("TOP (1) ", " ORDER BY n"), ("TOP 50 PERCENT ", " ORDER BY n"),
    ("", " ORDER BY n LIMIT 2 OFFSET 1"),
    ("", " ORDER BY n OFFSET 1 ROWS FETCH NEXT 2 ROWS ONLY"),
    ("", " QUALIFY ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC) <= 2"),
    ("", " QUALIFY COUNT(*) >= AVG(COUNT(*)) OVER ()"),
)  # fmt: skip


def _picked(rng: random.Random, w: World) -> Habit | None:
    """Rows of an answer, picked after the noise: whichever they are, all groups are measured.

    The largest few may be chosen before, so none of these asks for them.
    """
    keys, (head, tail) = _keys(rng, w, 2), rng.choice(_PICKS)
    if not keys:
        return None
    names = ", ".join(quoted(n) for _, n in keys)
    statement = (
        f"SELECT {head}{names}, COUNT(*) AS n FROM {quoted(w.main.name)} "  # noqa: S608 - ours
        f"GROUP BY {names}{tail}"
    )
    return _of_rows(statement, _base(w, keys))


# -- people: each is one row, whatever limits there are ------------------------------------------


def _tests(rng: random.Random, w: World) -> Habit | None:
    """COUNT(DISTINCT CASE WHEN test THEN unit END), with one test or with two."""
    draws = [t for _ in range(rng.choice([1, 2])) if (t := _draw_test(rng, w, w.main)) is not None]
    tests = [*dict.fromkeys(draws)]
    unit = quoted(str(w.main.unit))
    if not tests:
        return None
    items = ", ".join(
        f"COUNT(DISTINCT CASE WHEN {_spelling(w, t, '')} THEN {unit} END) AS a{i}"
        for i, t in enumerate(tests)
    )
    statement = f"SELECT {items} FROM {quoted(w.main.name)}"  # noqa: S608 - ours
    return _of_people(statement, w, *(partial(_people, w, w.main, test) for test in tests))


def _first_rows(rng: random.Random, w: World) -> Habit | None:
    """The first row of a person, written in one of four ways, where no other row has its place.

    Databases differ in where NULL stands: rows without a place are left out.
    """
    categories = [n for n, c in w.main.columns.items() if isinstance(c, pol.Category) and few(c)]
    ranked = [n for n, c in w.main.columns.items() if isinstance(c, pol.Integer | pol.Date)]
    if not categories or not ranked:
        return None
    what, by, down = rng.choice(categories), rng.choice(ranked), rng.random() < 0.5
    unit, order = quoted(str(w.main.unit)), f"{quoted(by)}{' DESC' * down}"
    place = f"ROW_NUMBER() OVER (PARTITION BY {unit} ORDER BY {order})"
    rows = f"FROM {quoted(w.main.name)} WHERE {quoted(by)} IS NOT NULL"
    first = f"FIRST({quoted(what)} ORDER BY {order})"
    inner, test = rng.choice([
        (f"SELECT {unit}, {quoted(what)}, {place} AS place {rows}", " WHERE place = 1"),
        (f"SELECT {unit}, {quoted(what)} {rows} QUALIFY {place} = 1", ""),
        (f"SELECT DISTINCT ON ({unit}) {unit}, {quoted(what)} {rows} ORDER BY {unit}, {order}", ""),
        (f"SELECT {unit}, {first} AS {quoted(what)} {rows} GROUP BY {unit}", ""),
    ])  # fmt: skip
    statement = (
        f"SELECT {quoted(what)}, COUNT(*) AS n FROM ({inner}) AS t{test} "  # noqa: S608 - ours
        f"GROUP BY {quoted(what)}"
    )

    def truth(tables: Tables) -> list[Answer] | None:
        rows, counts = defaultdict(list), Counter[tuple[Any, ...]]()
        for u, r in joined(Question(**_base(w)), tables):
            rows[u].append((r[w.main.name, by], r[w.main.name, what]))
        for listed in rows.values():
            places = [place for place, _ in listed if place is not None]
            best = (max if down else min)(places, default=None)
            labels = {label for place, label in listed if place == best and places}
            if len(labels) > 1:
                return None  # whichever of them comes first
            counts.update((label,) for label in labels if label is not None)
        return [counts]

    return Habit(**_base(w), statement=statement, truth=truth)


def _absent(rng: random.Random, w: World) -> Habit | None:
    """LEFT JOIN … WHERE the other side's unit IS NULL: people without such a row."""
    assert w.other is not None
    test = _draw_test(rng, w, w.other) if rng.random() < 0.5 else None
    mine, theirs = quoted(str(w.main.unit)), quoted(str(w.other.unit))
    more = "" if test is None else f" AND {_spelling(w, test, 'o.')}"
    statement = (
        f"SELECT COUNT(DISTINCT m.{mine}) AS n FROM {quoted(w.main.name)} AS m "  # noqa: S608 - ours
        f"LEFT JOIN {quoted(w.other.name)} AS o ON m.{mine} = o.{theirs}{more} "
        f"WHERE o.{theirs} IS NULL"
    )
    return _of_people(statement, w, partial(_beside, w, test, True))


def _sets(rng: random.Random, w: World) -> Habit | None:
    """People of two sets, by INTERSECT, EXCEPT or UNION."""
    assert w.other is not None
    word = rng.choice(["INTERSECT", "EXCEPT", "UNION"])
    second = w.main if word == "UNION" else w.other  # people of two tables are not one set
    sides = [(t, _draw_test(rng, w, t)) for t in (w.main, second)]
    selects = [
        f"SELECT {quoted(str(t.unit))} FROM {quoted(t.name)}"  # noqa: S608 - ours
        + ("" if test is None else f" WHERE {_spelling(w, test, '')}")
        for t, test in sides
    ]
    statement = f"SELECT COUNT(*) AS n FROM ({selects[0]} {word} {selects[1]}) AS t"  # noqa: S608 - ours

    def people(tables: Tables) -> set[Any]:
        a, b = (_people(w, t, test, tables) for t, test in sides)
        return {"INTERSECT": a & b, "EXCEPT": a - b, "UNION": a | b}[word]

    return _of_people(statement, w, people)


def _of_one(rng: random.Random, w: World) -> Habit | None:
    """People who have any row that passes, by a subquery about the row's person, or LATERAL."""
    assert w.other is not None
    test, none = _draw_test(rng, w, w.other), rng.random() < 0.5
    mine, theirs = quoted(str(w.main.unit)), quoted(str(w.other.unit))
    more = "" if test is None else f" AND {_spelling(w, test, 'o.')}"
    inner = f"{quoted(w.other.name)} AS o WHERE o.{theirs} = m.{mine}{more}"
    statement = f"SELECT COUNT(DISTINCT m.{mine}) AS n FROM {quoted(w.main.name)} AS m"  # noqa: S608 - ours
    if rng.random() < 0.5:
        statement += f" WHERE (SELECT COUNT(*) FROM {inner}) {'=' if none else '>'} 0"  # noqa: S608 - ours
    else:
        statement += f" CROSS JOIN LATERAL (SELECT COUNT(*) AS found FROM {inner}) AS x"  # noqa: S608 - ours
        statement += f" WHERE x.found {'=' if none else '>'} 0"
    return _of_people(statement, w, partial(_beside, w, test, none))


def _share(rng: random.Random, w: World) -> Habit | None:
    """A share of people, with a subquery for all of them below the line."""
    test = _draw_test(rng, w, w.main)
    if test is None:
        return None
    unit, main = quoted(str(w.main.unit)), quoted(w.main.name)
    statement = (
        f"SELECT COUNT(DISTINCT {unit}) * 1.0 / (SELECT COUNT(DISTINCT {unit}) FROM {main}) AS s "  # noqa: S608 - ours
        f"FROM {main} WHERE {_spelling(w, test, '')}"
    )
    return _of_people(statement, w, *(partial(_people, w, w.main, t) for t in (test, None)))
