r"""When an answer leaves: decided from the plan and declared sizes, before anything runs.

*Guarantee.* The time between the start of a run and the release of its outcome is a function
of the plan and of the policy, never of the rows, as long as the run ends before its tick. A
place is taken for the *bound*, and the outcome leaves at a *tick* that is eight bounds away
or more: a machine that is busy with other things makes no run late unless it slows it sixteenfold.

*Model.* A statement reads each table once, sorts it for each limit, and multiplies rows by a
join with no more than a unit's limit, which is enforced below the join. With :math:`r` rows
declared, node :math:`v` therefore handles at most :math:`s(v)` rows: :math:`r` at a scan,
:math:`s \cdot m` at a join with at most :math:`m` rows of a unit on its other side, else the
sum of its inputs. Work is bounded by :math:`a + b\sum_v s(v) + c \cdot \text{cells}`, and
:math:`d` for each letter of the statements, in seconds of processor time of a machine whose
speed is measured on numbers, not on data. Declared rows are rounded up to a power of four.

*Assumption.* The bound, twice what the coefficients say, holds the real work, and a worker gets
its processor within the slack. A run that is not done at its tick is killed, stays paid, and is
counted where everybody can see it.

Reference: Ratliff and Vadhan, arXiv 2409.05623, for why a bound and not a random delay.
"""

from __future__ import annotations

import math
from typing import Final

from discreet.plan import JoinPublic, JoinUnit, Plan, Relation, Scan

GRID: Final = tuple(0.25 * 2.0**i for i in range(11))
"""Seconds after which answers leave."""
FIRST: Final = GRID[0]
_START: Final = 0.005
_ROW: Final = 2e-7
_VALUE: Final = 1e-7
_CELL: Final = 5e-6
_TEXT: Final = 8e-6
_SAFETY: Final = 2.0
_SLACK: Final = 8.0
"""Bounds that fit under a tick, so that a busy machine is no reason to miss it."""
_PAUSE: Final = 0.25
"""Seconds for which a machine that is not busy keeps a run waiting, at most."""


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
    read = values = 0.0
    for aggregate in lowered.aggregates:
        if aggregate.measures:
            out, done = _work(aggregate.relation, rows)
            read, values = read + done, values + out * len(aggregate.measures)
    cells = 1.0
    for key in lowered.query.keys:
        cells *= rows if key.codes is None else len(key.codes)
    numbers = 1 + sum(priced.part.work for priced in plan.parts)
    fixed = _START * (1 + len(lowered.aggregates))
    return fixed + _ROW * read + _VALUE * values + _CELL * cells * numbers


def _work(node: Relation, rows: float) -> tuple[float, float]:
    """Rows that come out of a node, and rows handled by it and all below."""
    below = [_work(child, rows) for child in node.inputs]
    out = rows if isinstance(node, Scan) else max((size for size, _ in below), default=rows)
    if isinstance(node, JoinUnit):
        out *= max(1, node.other.m or 1)
    if isinstance(node, JoinPublic):
        out *= node.fanout
    return out, out + sum(done for _, done in below)
