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
sum of its inputs. Let :math:`w` be the values that are added up, over the rows of the last
node, :math:`g` the groups (:math:`r` for each key without a list) and :math:`n` the work of a
group's release, in noisy numbers. A text has as many letters as its column declares at most
(``longest``: what is longer is cut as it is read), and each operator on texts takes :math:`f`
for each letter of each row: a constant that was measured, times the comparisons of a pattern
that is tried at each place (``LIKE``), or the states of one whose automaton is too large to be
kept (regular expressions). Work is bounded by :math:`a + b\sum_v s(v) + c\,w + d\,g(1+n)`, the
letters' share, and :math:`e` for each letter of the statements, in seconds of processor time of
a machine whose speed is measured on numbers, not on data. Declared rows are rounded up to a
power of four.

*Assumption.* The bound, twice what the coefficients say, holds the real work, and a worker gets
its processor within the slack. Of 45 kinds of questions on tables of 10³ to 10⁶ rows no run took
more than 1.1 times the model (``benchmarks/bench_ticks.py``, on a machine that others kept busy). A
run that is not done at its tick is killed, stays paid, and is counted where everybody can see it.

*What a short tick costs.* Steps of the grid tell nothing: a tick follows from the plan. But a
short one has less room for what is no work: a pause of a quarter of a second, which a tick of a
second hides, makes a question late whose tick is a quarter of a second. Such a pause strikes
whatever runs: of two neighbours whose works differ by :math:`t`, it makes one late and not the
other only if it begins or ends in a window of length :math:`t`, which is at most an eighth of
the tick and for small questions some milliseconds. What a machine does so often that it is seen at
the start enters the tick (:data:`_PAUSE`); a standstill of the whole is given back (:mod:`._pool`).

Reference: Ratliff and Vadhan, arXiv 2409.05623, for why a bound and not a random delay.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from discreet import policy as pol
from discreet.plan import (
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

GRID: Final = tuple(0.25 * 2.0**i for i in range(11))
"""Seconds after which answers leave."""
FIRST: Final = GRID[0]
_START: Final = 0.005
_ROW: Final = 2e-7
_VALUE: Final = 1e-7
_CELL: Final = 5e-6
_TEXT: Final = 8e-6
_READ: Final = 1e-9
"""For each letter that may stand in a text column: it is read, and cut."""
_LETTER: Final = 2.2e-9
"""For each letter of a text that an operator takes, compares, hashes or gives on."""
_TRIM: Final = 7.5e-9
_FOLD: Final = 10.5e-9
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
_SAFETY: Final = 2.0
_SLACK: Final = 8.0
"""Bounds that fit under a tick, so that a busy machine is no reason to miss it."""
_PAUSE: Final = 0.25
"""Seconds for which a machine that is not busy keeps a run waiting, at most."""


_SHORT: Final = 64
"""Letters that an operator's work on a row of no letters at all is worth."""


def bound(plans: tuple[Plan, ...], rows: int | None, slowness: float, text: int) -> float:
    """Seconds that a run takes at most; infinity, where no size is declared.

    `text` is the length of the statements: an engine reads and plans them anew each time.
    """
    if rows is None:
        return math.inf
    declared = 4.0 ** math.ceil(math.log(max(rows, 1), 4))
    return _SAFETY * slowness * (_TEXT * text + sum(_seconds(plan, declared) for plan in plans))


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
    read = values = letters = 0.0
    for aggregate in lowered.aggregates:
        if aggregate.measures:
            wanted = set(aggregate.relation.schema)
            out, done = _work(aggregate.relation, rows)
            read, values = read + done, values + out * len(aggregate.measures)
            longest = _longest(aggregate.relation, wanted)
            letters += _letters(aggregate.relation, rows, wanted, longest)
    cells = 1.0
    for key in lowered.query.keys:
        cells *= rows if key.codes is None else len(key.codes)
    numbers = 1 + sum(priced.part.work for priced in plan.parts)
    fixed = _START * (1 + len(lowered.aggregates))
    return fixed + _ROW * read + _VALUE * values + _CELL * cells * numbers + letters


def _work(node: Relation, rows: float) -> tuple[float, float]:
    """Rows that come out of a node, and rows handled by it and all below."""
    below = [_work(child, rows) for child in node.inputs]
    out = rows if isinstance(node, Scan) else max((size for size, _ in below), default=rows)
    if isinstance(node, JoinUnit):
        out *= max(1, node.other.m or 1)
    if isinstance(node, JoinPublic):
        out *= node.fanout
    return out, out + sum(done for _, done in below)


def _inputs(node: Relation, wanted: AbstractSet[str]) -> list[tuple[Relation, AbstractSet[str]]]:
    """Relations that a node reads, public ones too, with the columns that are wanted of each."""
    found: list[tuple[Relation, AbstractSet[str]]] = list(
        zip(node.inputs, node.needs(wanted), strict=True)
    )
    if isinstance(node, JoinPublic):
        theirs = {n for n in node.public.schema if node.prefix + n in wanted}
        found.append((node.public, theirs | {right for _, right in node.on}))
    return found


def _longest(node: Relation, wanted: AbstractSet[str]) -> int:
    """Letters of the longest text that is read."""
    if isinstance(node, Scan):
        columns = [c for name, c in node.table.columns.items() if name in wanted]
        return max((c.longest for c in columns if isinstance(c, pol.Text)), default=0)
    return max((_longest(child, own) for child, own in _inputs(node, wanted)), default=0)


def _letters(node: Relation, rows: float, wanted: AbstractSet[str], longest: int) -> float:
    """Seconds for texts in a node and all below; each may be as long as the longest."""
    if not longest:
        return 0.0
    below = sum(_letters(child, rows, own, longest) for child, own in _inputs(node, wanted))
    size, _ = _work(node, rows)
    texts = sum(t.kind is Kind.TEXT for name, t in node.schema.items() if name in wanted)
    each, once = _READ * texts if isinstance(node, Scan) else 0.0, 0.0
    match node:
        case LimitRows() | LimitGroups():
            each += (_HASH + _SORT * math.log2(2 * max(size, 1.0))) * texts
        case JoinUnit() | JoinPublic():
            each += _LETTER * (texts + len(node.on))
    for written in _expressions(node, wanted):
        for part in _parts(written):
            own, fixed = _operator(part)
            each, once = each + own, once + fixed
    return below + once + size * max(longest, _SHORT) * each


def _expressions(node: Relation, wanted: AbstractSet[str]) -> list[Expr]:
    match node:
        case Filter():
            return [node.condition]
        case Project():
            return [k.expr for k in node.keys] + [e for n, e in node.columns if n in wanted]
        case PerUnit():
            return [e for _, e in node.keys] + [f.expr for _, f in node.folds]
    return []


def _parts(written: Expr) -> Iterator[Expr]:
    yield written
    for child in written.children:
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
