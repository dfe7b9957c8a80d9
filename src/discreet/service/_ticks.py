r"""When an answer leaves: decided from the plan and declared sizes, before anything runs.

*Guarantee.* The time between the start of a run and the release of its outcome is a function
of the plan and of the policy, never of the rows, as long as the run ends before its tick. A
place is taken for the *bound*, and the outcome leaves at a *tick* that is eight bounds away
or more, a quarter of a second at least: a machine that is busy with other things makes no run late
unless it slows it sixteenfold. Bounds from 32 s to 256 s have what is left below the last tick.

*Model.* A statement reads each table once, sorts it for each limit, and multiplies rows by a
join with no more than a unit's limit, which is enforced below the join. With :math:`r` rows
declared, node :math:`v` therefore handles at most :math:`s(v)` rows: :math:`r` at a scan,
:math:`s \cdot m` at a join with at most :math:`m` rows of a unit on its other side, else the
most of its inputs. What a row takes, :math:`b(v)`, is least where rows pass by one after the
other (filters and projections, and a little for each operator in them), and most where they are
ranked by their values; limits whose rows are all alike rank nothing. Let :math:`w` be the
values that are added up, over the rows of the last node, :math:`g` the groups (:math:`r` for each
key without a list) and :math:`n` the work of a group's release, in noisy numbers. A text has as
many letters as its column declares at most (``longest``: what is longer is cut as it is read),
and each operator on texts takes :math:`f` for each letter of each row: a constant that was
measured, times the comparisons of a pattern that is tried at each place (``LIKE``), or the states
of one whose automaton is too large to be kept (regular expressions). Work is bounded by
:math:`a + \sum_v b(v)s(v) + c\,w + d\,g(1+n)`, the letters' share, and :math:`e` for each letter
of the statements, where :math:`a` has a part for the question, for each statement and for each
join; in seconds of processor time of a machine whose speed is measured on numbers, not on data.
Declared rows are rounded up to a power of four.

*Assumption.* The bound, twice what the coefficients say, holds the real work, and a worker gets
its processor within the slack. Of 45 kinds of questions on tables of 10³ to 3·10⁵ rows no run
took more than 1.1 times the model (``benchmarks/bench_ticks.py``, on a busy machine; coefficients
were chosen by these kinds, so for others the factor of two has to do). A run that is
not done at its tick is killed, stays paid, and is counted where everybody can see it.

*What a short tick costs.* Steps of the grid tell nothing, however fine: a tick follows from the
plan. But a short one has less room for what is no work: a pause of a quarter of a second, which
a tick of a second hides, makes a question late whose tick is a quarter of a second. Such a pause
strikes whatever runs: of two neighbours whose works differ by :math:`t`, it makes one late and not
the other only if it begins or ends in a window of length :math:`t`, which is at most an eighth of
the tick and for small questions some milliseconds. What a machine does so often that it is seen at
the start enters the tick (:data:`_PAUSE`); a standstill of the whole is given back (:mod:`._pool`).

Reference: Ratliff and Vadhan, arXiv 2409.05623, for why a bound and not a random delay.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from discreet import policy as pol
from discreet.plan import (
    Curve,
    Expr,
    Filter,
    JoinPublic,
    JoinUnit,
    Kind,
    LimitGroups,
    LimitRows,
    PerUnit,
    Plan,
    Project,
    Relation,
    Scan,
    expr,
)
from discreet.service._machine import SAFETY

GRID: Final[tuple[float, ...]] = (
    *(round(0.25 * 2**i * step, 3) for i in range(10) for step in (1, 1.2, 1.4, 1.7)), 256.0,
)  # fmt: skip
"""Seconds after which answers leave: four steps for each doubling."""
FIRST: Final = GRID[0]
_QUESTION: Final = 0.003
"""For each question, in a worker that has run one before (:mod:`._warm`)."""
_STATEMENT: Final = 0.004
_JOIN: Final = 0.009
"""For each join, which an engine plans at length."""
_SCANNED: Final = 8e-8
_PASSED: Final = 3e-8
"""For each row that is filtered or projected, and each operator in that."""
_OPERATOR: Final = 3e-9
_CURVE: Final = 2e-7
"""For each row of a logarithm, a root or a power: it is looked up among hundreds of steps."""
_ALIKE: Final = 1e-7
"""For each row of a limit that has nothing to rank by."""
_RANKED: Final = 5.5e-7
_ROW: Final = 2e-7
"""For each row of anything else."""
_DIVISION: Final = 2e-8
"""For each row, and each sign of a division or remainder in the statements (``//`` has two)."""
_VALUE: Final = 3e-8
_CELL: Final = 5e-6
_TEXT: Final = 6.5e-6
_INPUT: Final = 1e-9
"""For each letter that may stand in a text column: it is read, and cut."""
_LETTER: Final = 2.2e-9
"""For each letter of a text that an operator takes, compares, hashes or gives on."""
_TRIM: Final = 7.5e-9
_FOLD: Final = 20e-9
_PIECE: Final = 16e-9
_LIKE: Final = 2.5e-9
"""For each letter and comparison."""
_MATCH: Final = 8e-9
_STATE: Final = 48e-9
"""For each letter and state, of a pattern whose automaton is not kept."""
_PATTERN: Final = 1e-4
"""For each regular expression, which is read anew."""
_HASH: Final = 7.5e-9
"""For each letter of a text by whose hash groups are ranked."""
_SORT: Final = 1.5e-9
"""For each letter and doubling of the rows."""
_SLACK: Final = 8.0
"""Bounds that fit under a tick, so that a busy machine is no reason to miss it."""
_PAUSE: Final = 0.25
"""Seconds for which a machine that is not busy keeps a run waiting, at most."""


_SHORT: Final = 64
"""Letters that an operator's work on a row of no letters at all is worth."""


def bound(
    plans: tuple[Plan, ...], rows: int | None, slowness: float, text: int, divisions: int = 0
) -> float:
    """Seconds that a run takes at most; infinity, where no size is declared.

    `text` is the length of the statements: an engine reads and plans them anew each time.
    `divisions` are signs in them: what one operator of a plan is written as, a part of a date for
    one, may be many operators of an engine, and these are the dear ones.
    """
    if rows is None:
        return math.inf
    declared = 4.0 ** math.ceil(math.log(max(rows, 1), 4))
    syntax = _TEXT * text
    if divisions:
        relations = [a.relation for plan in plans for a in plan.lowered.aggregates if a.measures]
        most = max((_work(r, declared, set(r.schema))[0] for r in relations), default=declared)
        syntax += _DIVISION * divisions * most
    return SAFETY * slowness * (syntax + sum(_seconds(plan, declared) for plan in plans))


def divisions_in(statements: Iterable[str]) -> int:
    """Count the signs of divisions and remainders, those in texts and patterns too."""
    return sum(text.count("/") + text.count("%") for text in statements)


def tick(seconds: float, undeclared: float, busy: float = 1.0) -> float:
    """Least tick that a bound and its slack fit under; without a bound, the policy's own.

    Where the machine was found to be busy, a run of no length at all waits for its processor.
    """
    if math.isinf(seconds):
        return undeclared
    least = max(_SLACK * seconds, _PAUSE * busy)
    return next((t for t in GRID if t >= least), GRID[-1])


def _seconds(plan: Plan, rows: float) -> float:
    lowered = plan.lowered
    scans = values = letters = 0.0
    for aggregate in lowered.aggregates:
        if aggregate.measures:
            names = set(aggregate.relation.schema)
            out, cost = _work(aggregate.relation, rows, names)
            scans, values = scans + cost, values + out * len(aggregate.measures)
            longest = _longest(aggregate.relation, names)
            letters += _letters(aggregate.relation, rows, names, longest)
    cells = 1.0
    for key in lowered.query.keys:
        cells *= rows if key.codes is None else len(key.codes)
    numbers = 1 + sum(priced.part.work for priced in plan.parts)
    joins = [node for a in lowered.aggregates for node in a.relation.nodes
             if isinstance(node, JoinUnit | JoinPublic)]  # fmt: skip
    fixed = _QUESTION + _STATEMENT * len(lowered.aggregates) + _JOIN * len(joins)
    return fixed + scans + _VALUE * values + _CELL * cells * numbers + letters


def _work(node: Relation, rows: float, names: AbstractSet[str]) -> tuple[float, float]:
    """Rows that come out of a node, and seconds for it and all below, letters apart."""
    parts = zip(node.inputs, node.needs(names), strict=True)
    below = [_work(child, rows, own) for child, own in parts]
    out = rows if isinstance(node, Scan) else max((size for size, _ in below), default=rows)
    if isinstance(node, JoinUnit):
        out *= max(1, node.other.m or 1)
    if isinstance(node, JoinPublic):
        out *= node.fanout
    return out, out * _row(node, names) + sum(cost for _, cost in below)


def _row(node: Relation, names: AbstractSet[str]) -> float:
    """Seconds for one row at a node."""
    match node:
        case Scan():
            each = _SCANNED
        case Filter() | Project():
            each = _PASSED
        case LimitRows() if all(t.is_constant for t in node.schema.values()):
            each = _ALIKE
        case LimitRows() | LimitGroups():
            each = _RANKED
        case _:
            each = _ROW
    parts = [part for expression in _expressions(node, names) for part in _parts(expression)]
    bent = sum(isinstance(part, Curve) for part in parts)
    return each + _OPERATOR * (len(parts) - bent) + _CURVE * bent


def _inputs(node: Relation, names: AbstractSet[str]) -> list[tuple[Relation, AbstractSet[str]]]:
    """Relations that a node reads, public ones too, with the columns that are wanted of each."""
    pairs: list[tuple[Relation, AbstractSet[str]]] = list(
        zip(node.inputs, node.needs(names), strict=True)
    )
    if isinstance(node, JoinPublic):
        theirs = {n for n in node.public.schema if node.prefix + n in names}
        pairs.append((node.public, theirs | {right for _, right in node.on}))
    return pairs


def _longest(node: Relation, names: AbstractSet[str]) -> int:
    """Letters of the longest text that is read."""
    if isinstance(node, Scan):
        columns = [c for name, c in node.table.columns.items() if name in names]
        return max((c.longest for c in columns if isinstance(c, pol.Text)), default=0)
    return max((_longest(child, own) for child, own in _inputs(node, names)), default=0)


def _letters(node: Relation, rows: float, names: AbstractSet[str], longest: int) -> float:
    """Seconds for texts in a node and all below; each may be as long as the longest."""
    if not longest:
        return 0.0
    below = sum(_letters(child, rows, own, longest) for child, own in _inputs(node, names))
    size, _ = _work(node, rows, names)
    texts = sum(t.kind is Kind.TEXT for name, t in node.schema.items() if name in names)
    each, once = _INPUT * texts if isinstance(node, Scan) else 0.0, 0.0
    match node:
        case LimitRows() | LimitGroups():
            each += (_HASH + _SORT * math.log2(2 * max(size, 1.0))) * texts
        case JoinUnit() | JoinPublic():
            each += _LETTER * (texts + len(node.on))
    for expression in _expressions(node, names):
        for part in _parts(expression):
            own, fixed = _operator(part)
            each, once = each + own, once + fixed
    return below + once + size * max(longest, _SHORT) * each


def _expressions(node: Relation, names: AbstractSet[str]) -> list[Expr]:
    match node:
        case Filter():
            return [node.condition]
        case Project():
            # an engine computes a key twice: first to leave out the rows that have none
            keys = [k.expr for k in node.keys] * 2
            return keys + [e for n, e in node.columns if n in names]
        case PerUnit():
            return [e for _, e in node.keys] + [f.expr for _, f in node.folds]
    return []


def _parts(expression: Expr) -> Iterator[Expr]:
    yield expression
    for child in expression.children:
        yield from _parts(child)


def _operator(node: Expr) -> tuple[float, float]:
    """Seconds for each letter of a row, and for all rows, of one operator."""
    match node:
        case expr.Like():
            return _LETTER + _LIKE * node.steps, 0.0
        case expr.Matches():
            states = node.states
            return (_MATCH if states == 1 else _STATE * states), _PATTERN
        case expr.Fold():
            return _FOLD, 0.0
        case expr.Trim():
            return _TRIM, 0.0
        case expr.Piece():
            return _PIECE, 0.0
    reads = node.type.kind is Kind.TEXT or any(c.type.kind is Kind.TEXT for c in node.children)
    return (_LETTER if reads else 0.0), 0.0


_VECTOR: Final = 2048
"""Rows that an engine has underway at a time, in each thread."""
_SIGN: Final = 4
"""Bytes of a letter, at most."""
_PIECES: Final = 24
"""Bytes for each letter of a text that is cut into pieces: each piece has a place of its own."""
_GROUP: Final = 160
"""Bytes of one number of a group, while a release is made."""


def memory(plans: tuple[Plan, ...], rows: int | None, threads: int = 1) -> float:
    """Bytes that texts and groups take at most while a question runs.

    Texts: each operator gives each row of a vector a text as long as a column declares. Groups: all
    are there at once. What is sorted, ranked or joined goes to disk where it does not fit.
    """
    return max(threads * _VECTOR * _texts(plan) + _groups(plan, rows or 0) for plan in plans)


def _texts(plan: Plan) -> float:
    most = 0.0
    for aggregate in plan.lowered.aggregates:
        names = set(aggregate.relation.schema)
        longest = max(_longest(aggregate.relation, names), _SHORT)
        most = max(most, longest * _bytes(aggregate.relation, names))
    return most


def _bytes(node: Relation, names: AbstractSet[str]) -> float:
    """Bytes for each letter of a row in a node and all below."""
    own = sum(t.kind is Kind.TEXT for name, t in node.schema.items() if name in names) * _SIGN
    for part in (p for expression in _expressions(node, names) for p in _parts(expression)):
        if isinstance(part, expr.Piece):
            own += _PIECES
        elif part.type.kind is Kind.TEXT:
            own += _SIGN
    return own + sum(_bytes(child, theirs) for child, theirs in _inputs(node, names))


def _groups(plan: Plan, rows: int) -> float:
    cells = float(_GROUP)
    for key in plan.lowered.query.keys:
        cells *= rows if key.codes is None else len(key.codes)
    return cells * (1 + sum(priced.part.work for priced in plan.parts))
