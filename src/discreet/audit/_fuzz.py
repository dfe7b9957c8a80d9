"""Fuzzing: random questions on neighbouring tables of a policy, judged by an oracle.

For each pair of tables and each question, the product must do what an oracle in plain
Python says (:mod:`._oracle`, which shares nothing with the planner):

- whatever is measured moves by no more than is declared;
- where no limit binds, integers are the oracle's; elsewhere no unit brings more than limits allow;
- an engine fails on no data, statements can be proved, and work is limited before joins;
- the debit covers the losses of the noise that is drawn.

Besides, hostile questions and sources (:mod:`._hostile`). Everything compared is exact, so a
finding is a fault. Nothing found is no proof.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from discreet import engines, sql
from discreet import policy as pol
from discreet._dataclass import dataclass
from discreet.audit import _debit, _hostile
from discreet.audit._habits import habit
from discreet.audit._oracle import (
    Question,
    Tables,
    World,
    choice,
    most,
    question,
    random_policy,
    renamed,
    world,
)
from discreet.curator import check_statements
from discreet.engines import Engine, Reference
from discreet.errors import DiscreetError, ParameterError, UnprovenStatementError
from discreet.plan import (
    Exact,
    Groups,
    Joint,
    JoinUnit,
    Limits,
    Lowered,
    Measure,
    MeasureKind,
    Salt,
    WeightedSum,
    aggregate,
    expr,
    lower,
)

SALT = Salt(b"fuzz")
_ONE = Measure(MeasureKind.SUM, expr.Constant.number(Fraction(1)))
_QUESTIONS = 4
Connect = Callable[[Tables, pol.Policy], Engine]
"""Opens an engine over rows by table."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A question and two neighbouring sets of tables on which something is wrong."""

    words: str
    question: str
    policy: pol.Policy | None
    left: Mapping[str, Any]
    right: Mapping[str, Any]
    seed: int


@dataclass(frozen=True, slots=True, repr=False)
class Fuzz:
    """What fuzzing found; made by :func:`fuzz`.

    Attributes
    ----------
    found
        The faults, each with its question, its neighbours and the seed that draws it again.
    questions, tables, refused
        How many questions ran, on how many pairs of tables, and how many were refused
        from public facts.
    seconds
        How long it took, by the clock on the wall.
    """

    found: tuple[Counterexample, ...]
    questions: int
    tables: int
    refused: int
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.found

    def __repr__(self) -> str:
        pairs = f"{self.questions} questions on {self.tables} pairs of neighbouring tables"
        lines = [f"{pairs} ({self.refused} refused from public facts), {self.seconds:.0f} s"]
        for case in self.found:
            lines += [f"FOUND  {case.words}", f"       {case.question}", f"       seed {case.seed}"]
            for name in case.left:
                if case.left[name] != case.right[name]:
                    lines += [
                        f"       {name}: {case.left[name]}",
                        f"       {name}: {case.right[name]}",
                    ]
        lines.append("nothing found; that is no proof" if self.ok else f"{len(self.found)} found")
        return "\n".join(lines)


def fuzz(
    policy: pol.Policy | str | None = None,
    *,
    seconds: float = 60,
    seeds: range | None = None,
    connect: Connect | None = None,
    stop: int = 1,
) -> Fuzz:
    """Ask random questions on random neighbouring tables, and judge what comes out.

    Parameters
    ----------
    policy
        A policy, its file or text; without it, random policies are drawn too.
    seconds
        How long to go on, at most.
    seeds
        Which cases to draw; the same seed is the same case. By default as many as time allows.
    connect
        ``connect(tables, policy)`` opens the engine under test over rows by table. By
        default the reference judges every case and DuckDB every fourth.
    stop
        After how many findings to stop.

    Examples
    --------
    >>> from discreet import audit
    >>> audit.fuzz(seeds=range(5)).ok
    True
    """
    loaded = policy if policy is None or isinstance(policy, pol.Policy) else pol.load(policy)
    if loaded is not None and all(t.public for t in loaded.tables.values()):
        raise ParameterError("the policy has no private table: there is nothing to protect")
    began, count = time.monotonic(), [0, 0, 0]
    cases: list[Counterexample] = []
    for seed in range(2**40) if seeds is None else seeds:
        if time.monotonic() - began > seconds or len(cases) >= stop:
            break
        rng = random.Random(seed)  # noqa: S311 - cases must repeat
        count[1] += 1
        for case in _cases(rng, loaded, connect, seed, count):
            cases.append(case)
            break
    return Fuzz(tuple(cases), count[0], count[1], count[2], time.monotonic() - began)


def _cases(
    rng: random.Random,
    policy: pol.Policy | None,
    connect: Connect | None,
    seed: int,
    count: list[int],
) -> Iterator[Counterexample]:
    w = world(rng, policy)
    questions = [question(rng, w) for _ in range(_QUESTIONS)]
    yield from _judged(w, questions, connect, seed, count)
    # a stream of their own: what was drawn for a seed before stays the same
    other = random.Random(~seed)  # noqa: S311 - cases must repeat
    second = world(other, policy or random_policy(other, pol.Text("town")))
    offers = choice(other, second), choice(other, second), renamed(other, second)
    picks = [q for q in offers if q is not None]
    yield from _judged(second, picks, connect, seed, count)
    foreign = random.Random(f"habits {seed}")  # noqa: S311 - cases must repeat
    day = pol.Date("day", "2024-02-27", "2024-03-02")
    elsewhere = world(foreign, policy or random_policy(foreign, day))
    habits = [q for _ in range(2) if (q := habit(foreign, elsewhere)) is not None]
    yield from _judged(elsewhere, habits, connect, seed, count)
    if connect is None:
        for probe in _hostile.probes(rng, policy, w):
            count[0] += 1
            for words in probe.faults():
                yield Counterexample(words, probe.question, w.policy, *probe.sides, seed)


def _judged(
    w: World, questions: Sequence[Question], connect: Connect | None, seed: int, count: list[int]
) -> Iterator[Counterexample]:
    """Run questions on one pair of neighbours, in every engine under test."""
    opened: list[Connect] = [connect] if connect else [lambda t, _: Reference(t)]
    if connect is None and seed % 4 == 0:
        opened.append(duckdb)
    for opener in opened:
        try:
            left, right = (opener(t, w.policy) for t in (w.left, w.right))
        except DiscreetError:
            count[2] += 1
            continue
        try:
            for q in questions:
                try:
                    low = lowered(q)
                except DiscreetError:
                    count[2] += 1
                    continue
                count[0] += 1
                for words in faults(q, left, right, low):
                    yield Counterexample(words, q.text, w.policy, w.left, w.right, seed)
        finally:
            left.close()
            right.close()


def lowered(q: Question) -> Lowered:
    """Plan of a question."""
    return lower(sql.parse(q.text, q.world.policy, public_fanout=lambda *_: q.world.fanout).query)


def measured(low: Lowered, engine: Engine) -> list[Groups]:
    """What an engine returns for each aggregate of a question."""
    return [engine.execute(a, SALT) if a.measures else {} for a in low.aggregates]


def faults(q: Question, left: Engine, right: Engine, plan: Lowered | None = None) -> Iterator[str]:
    """What is wrong with one question on two neighbouring sets of tables."""
    low = plan or lowered(q)
    try:
        for engine in (left, right):
            check_statements(engine, low)
        sides = [measured(low, engine) for engine in (left, right)]
    except UnprovenStatementError as error:
        yield f"a statement of the planner's cannot be proved: {error}"
        return
    except DiscreetError as error:
        yield f"a run fails on some data: {error}"
        return
    yield from differences(q, low, *sides)
    for part in low.parts:
        yield from part.moved(*(side[part.aggregate] for side in sides))
    yield from _work(q, low)
    # prices by ρ are slow to find, so for some questions only
    yield from _debit.faults(low, both=int(low.query.hash[:2], 16) % 8 == 0)


def differences(
    q: Question, low: Lowered, left: Sequence[Groups], right: Sequence[Groups]
) -> Iterator[str]:
    """Judge what was measured on both sides by the oracle's own arithmetic."""
    sides = left, right
    for part in low.parts:
        yield from _distances(part, *(side[part.aggregate] for side in sides))
    for tables, side in zip((q.world.left, q.world.right), sides, strict=True):
        yield from q.amiss(tables, [*_answers(low, side)])


def _answers(low: Lowered, side: Sequence[Groups]) -> Iterator[Exact]:
    """Exact integers of every statistic, whichever parts measure it."""
    integers: list[Exact] = []
    for part in low.parts:
        exact = next(iter(part.measurements(side[part.aggregate])))[1]
        if isinstance(part, Joint):
            several = range(part.outlets)
            integers += [{k[:-1]: v for k, v in exact.items() if k[-1] == j} for j in several]
        else:
            integers.append(exact)
    # formulas of whole outputs follow those of the statistics
    for formula, statistic in zip(low.formulas, low.query.statistics, strict=False):
        if isinstance(formula, WeightedSum):
            step = (
                statistic.expr.type.step
                if statistic.word == "sum" and statistic.expr
                else Fraction(1)
            )
            terms = [*zip(formula.cells, formula.weights, strict=True)]
            first = integers[formula.cells[0]]
            yield {k: int(sum(w * integers[i][k] for i, w in terms) / step) for k in first}
        else:
            yield integers[formula.parts[0]]


def _distances(part: Any, a: Groups, b: Groups) -> Iterator[str]:
    """Distances by our own arithmetic, whatever the part says of itself."""
    declared = (part.sensitivity.l1, part.sensitivity.l2_squared, part.sensitivity.linf)
    for (_, one), (_, two) in zip(part.measurements(a), part.measurements(b), strict=True):
        moves = [abs(one.get(k, 0) - two.get(k, 0)) for k in one.keys() | two.keys()]
        norms = (sum(moves), sum(m * m for m in moves), max(moves, default=0))
        if any(s > d for s, d in zip(norms, declared, strict=True)):
            yield f"moved by {norms}, declared {declared}"


def _work(q: Question, low: Lowered) -> Iterator[str]:
    """Rows that one unit sends through a join of private tables, before the last limit."""
    w = q.world
    if not q.join or w.other is None:
        return
    top = most(w.main) * most(w.other)
    for node in low.aggregates[0].relation.nodes:
        if isinstance(node, JoinUnit):
            count = aggregate(node, (), (_ONE,), Limits(rows=10**9))
            for tables in (w.left, w.right):
                units = {row[str(w.main.unit)] for row in tables[w.main.name]}
                (rows,) = next(iter(Reference(tables).execute(count, SALT).values()), (0,))
                if rows > top * len(units):
                    yield f"{rows} rows of {len(units)} units pass a join, limits allow {top} each"


def duckdb(tables: Tables, policy: pol.Policy) -> Engine:
    """Open rows in DuckDB."""
    return engines.connect(_hostile.arrow(tables, policy), policy)
