"""A policy's own questions, replayed on neighbours drawn from its domain: no data needed.

Every private table, every column, every statistic and row function that SQL has here, with and
without groups, and every join of two or three tables that the policy allows: each question is
planned, proved, and run on pairs of neighbouring tables that are made up from the declared
domains, extremes above all. Everything measured must move by no more than is declared, on either
side nothing may fail, noise calls, keys and order must be the same, and the debit must cover the
losses of what is drawn.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from fractions import Fraction
from itertools import product
from typing import Any

from discreet import policy as pol
from discreet import sql
from discreet._dataclass import dataclass
from discreet._print import plural
from discreet._text import quoted
from discreet.audit import _debit
from discreet.audit._fuzz import SALT, Connect, duckdb
from discreet.audit._oracle import Tables, World, condition, few, literal, world
from discreet.audit._replay import Once, replay
from discreet.audit._steps import columns
from discreet.curator import check_statements
from discreet.engines import Engine, Reference
from discreet.errors import DiscreetError, ParameterError
from discreet.plan import CALLS, FUNCTIONS, Ask, Plan, lower, price


@dataclass(frozen=True, slots=True)
class Audited:
    """What was tried on one column (or on a table as a whole).

    ``reached`` is the largest part of a declared sensitivity that a pair of neighbours moved.
    """

    table: str
    column: str
    kind: str
    questions: int
    refused: int
    reached: float


@dataclass(frozen=True, slots=True)
class Violation:
    """A question, and neighbouring tables on which it breaks its promise."""

    question: str
    words: tuple[str, ...]
    left: Tables
    right: Tables


@dataclass(frozen=True, slots=True, repr=False)
class Certificate:
    """What an audit of a policy found; made by :func:`certify`.

    Attributes
    ----------
    policy
        Name of the policy, or the beginning of its identity.
    rows
        What was tried on each column, table and join.
    violations
        The counterexamples.
    pairs
        Pairs of neighbouring tables on which each question ran.
    seconds
        How long it took, by the clock on the wall.
    """

    policy: str
    rows: tuple[Audited, ...]
    violations: tuple[Violation, ...]
    pairs: int
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether no counterexample was found."""
        return not self.violations

    @property
    def questions(self) -> int:
        """How many questions were run."""
        return sum(row.questions for row in self.rows)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Rows as plain data."""
        return [{name: getattr(row, name) for name in row.__slots__} for row in self.rows]

    def __repr__(self) -> str:
        header = ("table", "column", "type", "questions", "refused", "reached")
        body = [(r.table, r.column, r.kind, str(r.questions), str(r.refused), f"{r.reached:.0%}")
                for r in self.rows]  # fmt: skip
        return "\n".join([*columns([header, *body]), *self.verdict()])

    def verdict(self) -> Iterator[str]:
        """The last lines: a certificate, or the first counterexample."""
        if self.ok:
            yield (
                f"{self.questions} questions on {self.pairs} pairs of neighbouring tables: "
                "nothing moved further than declared, nothing failed"
            )
        for violation in self.violations[:1]:
            yield f"COUNTEREXAMPLE  {violation.question}"
            yield from (f"  {words}" for words in violation.words)
            for name, rows in violation.left.items():
                if rows != violation.right[name]:
                    yield f"  {name}: {rows}"
                    yield f"  {name}: {violation.right[name]}"


def certify(
    policy: pol.Policy | str,
    *,
    pairs: int = 8,
    seed: int = 0,
    connect: Connect = duckdb,
    tell: Callable[[str], None] | None = None,
) -> Certificate:
    """Replay every column and operator of a policy on neighbours drawn from its domain.

    Parameters
    ----------
    policy
        A policy, its file or text.
    pairs
        Pairs of neighbouring tables on which each question runs: the first in the engine, the
        others by the reference, whose integers every engine must equal.
    seed
        Which pairs.
    connect
        Opens the engine over rows by table; DuckDB if left out.
    tell
        Is told in words how far the audit is, at every table and pair.

    Examples
    --------
    >>> from discreet import audit, policy as pol
    >>> people = pol.Table("people", [pol.Integer("age", 0, 115), pol.Boolean("member")])
    >>> audit.certify(pol.Policy([people], pol.Budget("1")), pairs=1).ok
    True
    """
    loaded = policy if isinstance(policy, pol.Policy) else pol.load(policy)
    if all(t.public for t in loaded.tables.values()):
        raise ParameterError("the policy has no private table: there is nothing to protect")
    began, tally = time.monotonic(), _Tally()
    rng = random.Random(seed)  # noqa: S311 - the same audit twice is the same
    say = tell or _nobody
    for table in loaded.tables.values():
        if table.public:
            continue
        say(f"{table.name}: reading questions")
        worlds = [world(rng, loaded, table) for _ in range(max(pairs, 1))]
        plans = {
            text: plan
            for about, text in _questions(rng, worlds[0])
            for plan in tally.read((table.name, *about), text, loaded)
        }
        say(f"{table.name}: comparing prices of {plural(len(plans), 'question')}")
        tally.price(plans)
        for i, w in enumerate(worlds):
            say(f"{table.name}: {plural(len(plans), 'question')}, pair {i + 1} of {len(worlds)}")
            tally.replay(w, plans, connect if i == 0 else _reference)
    label = loaded.name or loaded.identity[:19]
    return Certificate(label, *tally.results(), max(pairs, 1), time.monotonic() - began)


def _nobody(_: str) -> None:
    """Tell nobody."""


def _reference(tables: Tables, _policy: pol.Policy) -> Reference:
    return Reference(tables)


_Question = tuple[tuple[str, str], str]
"""A column (or a join) and its type, and a question about it."""


class _Tally:
    """Counts and findings while an audit runs."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str, str], list[float]] = {}
        self._hashes: set[str] = set()
        self._of: dict[str, tuple[str, str, str]] = {}
        self._violations: list[Violation] = []

    def read(self, key: tuple[str, str, str], text: str, policy: pol.Policy) -> Iterator[Plan]:
        """Plan a question; one that is refused from public facts is only counted."""
        row = self._rows.setdefault(key, [0, 0, 0.0])
        try:
            # a public table drawn here repeats a key a few times at most
            query = sql.parse(text, policy, public_fanout=lambda *_: 9).query
            if query.hash in self._hashes:  # names that mean the same are asked once
                return
            plan = price(lower(query), Ask(Fraction(1), delta=_debit.DELTA), "laplace")
        except DiscreetError:
            row[1] += 1
            return
        self._hashes.add(query.hash)
        row[0] += 1
        self._of[text] = key
        yield plan

    def price(self, plans: dict[str, Plan]) -> None:
        """Compare the debit of every question with what is drawn; no table matters to it."""
        kinds = set[tuple[str, ...]]()
        for text, plan in plans.items():
            kind = tuple(sorted({part.kind for part in plan.lowered.parts}))
            # prices by ρ are slow to find: one for all questions that draw the same
            words = tuple(_debit.faults(plan.lowered, both=kind not in kinds))
            kinds.add(kind)
            if words:
                self._violations.append(Violation(text, words, {}, {}))

    def replay(self, w: World, plans: dict[str, Plan], connect: Connect) -> None:
        """Run every question on one pair of neighbours."""
        with (
            closing(connect(w.left, w.policy)) as left,
            closing(connect(w.right, w.policy)) as right,
        ):
            sides = Once(left), Once(right)  # many questions are answered from one statement
            for text, plan in plans.items():
                words, reached = _judge(plan, left, sides)
                row = self._rows[self._of[text]]
                row[2] = max(row[2], reached)
                if words:
                    self._violations.append(Violation(text, words, w.left, w.right))

    def results(self) -> tuple[tuple[Audited, ...], tuple[Violation, ...]]:
        """Rows of the certificate, and what breaks it."""
        rows = [Audited(*key, int(a), int(b), c) for key, (a, b, c) in self._rows.items()]
        return tuple(rows), tuple(self._violations)


def _judge(plan: Plan, left: Engine, sides: tuple[Once, Once]) -> tuple[tuple[str, ...], float]:
    try:
        check_statements(left, plan.lowered)  # both sides have one schema, so one text
        outcome = replay(plan, *sides, SALT)
    except DiscreetError as error:
        return (f"{type(error).__name__}: {error}",), 0.0
    shares = [
        float(step.measured[name] / most)
        for step in outcome.steps
        for name, most in step.declared.items()
        if most
    ]
    return outcome.violations, max(shares, default=0.0)


# -- questions ----------------------------------------------------------------------------


def _questions(rng: random.Random, w: World) -> Iterator[_Question]:
    """Every question about one private table."""
    table, name = w.main, quoted(w.main.name)
    key = next((quoted(n) for n, c in table.columns.items() if few(c)), None)
    rows = f"COUNT(*) AS n FROM {name}"

    def grouped(about: tuple[str, str], item: str) -> Iterator[_Question]:
        yield about, f"SELECT {item} AS n FROM {name}"  # noqa: S608 - ours
        if key is not None:
            yield about, f"SELECT {key} AS k, {item} AS n FROM {name} GROUP BY 1"  # noqa: S608 - ours

    yield from grouped(("*", "table"), "COUNT(*)")
    if table.unit:
        yield from grouped(("*", "table"), f"COUNT(DISTINCT {quoted(table.unit)})")
    for column_name, column in table.columns.items():
        c, about = quoted(column_name), (column_name, column.type)
        for item in dict.fromkeys([*_statistics(c), *_functions(c, column)]):
            yield from grouped(about, item)
        for by in (c, f"EXTRACT(YEAR FROM {c})", f"WIDTH_BUCKET({c}, 0, 10, 5)"):
            yield about, f"SELECT {by} AS k, {rows} GROUP BY 1"
        for _ in range(2):
            yield about, f"SELECT {rows} WHERE {_where(rng, w, column_name)}"
    yield from _joins(w)


def _statistics(c: str) -> Iterator[str]:
    """Every statistic that SQL has here; what does not suit a column is refused."""
    for name, (kind, call) in CALLS.items():
        more = c if kind.pairs else "0.9" if call.takes == ("at",) else "2"
        yield f"{name}({c}, {more})" if call.takes or kind.pairs else f"{name}({c})"
    yield f"COUNT(DISTINCT {c})"
    yield f"SUM({c}) FILTER (WHERE {c} IS NOT NULL)"


def _functions(c: str, column: pol.Column) -> Iterator[str]:
    """Every row function inside a statistic."""
    number = isinstance(column, pol.Integer | pol.Real)
    texts = dict.fromkeys(("value", "moment", "text"), c)
    texts |= {"number": "1", "whole": "2", "word": "'year'", "format": "'%Y'", "unit": "'day'"}
    texts |= {"values": f"{c}, 1"}
    for name, function in FUNCTIONS.items():
        arguments = ", ".join(texts[take] for take in function.takes).replace("1, 1,", "1, 10,")
        yield f"{'SUM' if number else 'COUNT'}({name}({arguments}))"
    if number:
        yield from (f"SUM({c} {op} {x})" for op, x in (("+", c), ("-", 3), ("*", c), ("/", 2)))
        yield f"SUM(CASE WHEN {c} > 1 THEN {c} ELSE 0 END)"
    yield f"COUNT(CASE WHEN {c} IS NULL THEN 1 END)"


def _where(rng: random.Random, w: World, name: str) -> str:
    column = w.main.columns[name]
    if isinstance(column, pol.Timestamp):
        return f"{quoted(name)} IS NOT NULL"
    _, op, code = condition(rng, w, (w.main.name, name))
    return f"{quoted(name)} {op} {literal(column, code)}"


def _joins(w: World) -> Iterator[_Question]:
    """Counts over every join that the policy allows, and over every two of them in a row."""
    tables = w.policy.tables.values()
    rows = f"SELECT COUNT(*) AS n FROM {quoted(w.main.name)}"  # noqa: S608 - ours
    for how, one in product(("JOIN", "LEFT JOIN"), tables):
        for first in _links((w.main,), one, how):
            yield (f"⋈ {one.name}", "join"), f"{rows} {first}"
            for two in (t for t in tables if one not in (t, w.main)):
                for second in _links((w.main, one), two, how):
                    yield (f"⋈ {one.name} ⋈ {two.name}", "join"), f"{rows} {first} {second}"


def _links(joined: Sequence[pol.Table], other: pol.Table, how: str) -> Iterator[str]:
    """Joins of one more table with any of those before: by units, rows, or public columns."""
    theirs, new = quoted(other.name), quoted(other.name)
    if other in joined:  # once more, under another name
        theirs, new = quoted("again"), f"{theirs} AS {quoted('again')}"
    for mine in joined:
        pairs: list[tuple[object, object]] = [(mine.unit, other.unit)]
        if other.public:
            pairs = [(n, n) for n, c in other.columns.items() if c == mine.columns.get(n)]
        elif mine.owner is not None and mine.owner.above is other:
            pairs.append((mine.owner.column, other.key))
        elif other.owner is not None and other.owner.above is mine:
            pairs.append((mine.key, other.owner.column))
        for a, b in ((str(a), str(b)) for a, b in pairs if a and b):
            yield f"{how} {new} ON {quoted(mine.name)}.{quoted(a)} = {theirs}.{quoted(b)}"
