r"""Intervals of rows that the noise chose: conditional and simultaneous together.

A row is shown because its noisy number Y reached a bar t: the one in HAVING, or the
first number that LIMIT left out (with ties as the answer breaks them). Given the noise of
all other rows t is fixed, so Y follows its law cut off below t, and

.. math:: P_\theta(Y\ge y\mid Y\ge t),\qquad P_\theta(Y\le y\mid Y\ge t)

increase and decrease in the exact integer θ. The θ at which both exceed a/2 cover with
probability 1 − a, given the choice. Alone they reach far down: Laplace noise has no
memory, so for θ < t the law of Y − t says nothing about θ. The *hybrid* [1]_ intersects
them, at a = α − β, with the interval at β that holds for all G rows at once, β = α/10.

What it covers
--------------
Where a fixed number of rows is shown (LIMIT): the expected share of rows that are missed
is at most α − β + β = α; with LIMIT 1 that is the coverage of the row. Where the number of
rows is itself up to the noise (HAVING), the expected share of missed rows among those
shown, zero where none is shown, is at most α: given the others, whether a row is missed
and how many are shown are independent. It is no statement about a bar so high that
hardly any answer shows a row.

Where the choice is not of this form (a column of several statistics, a bar in both
directions, keys selected from the data), or so few rows could be chosen that the hybrid
would be longer, the simultaneous interval stands alone.

References
----------
.. [1] I. Andrews, T. Kitagawa, A. McCloskey, "Inference on winners", Quarterly Journal
   of Economics 2024.
"""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import NDArray

from discreet import _exact
from discreet._dataclass import dataclass
from discreet.answer._outputs import OPERATIONS
from discreet.answer._record import Record
from discreet.plan import (
    Apply,
    Box,
    Law,
    Number,
    Numbers,
    OutputExpr,
    StatisticValue,
    Total,
    statistics_of,
)

SHARE = 0.1
"""Part of the error that the simultaneous interval of the hybrid gets."""

_MIRRORED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}

Ints = NDArray[Any]


@dataclass(frozen=True)
class Bar:
    """What a noisy integer had to reach, row by row, for its row to be shown.

    ``sign`` −1: it had to stay at or below; values and bars are then mirrored.
    """

    numbers: Numbers
    law: Law
    step: float
    sign: int
    rows: Ints
    bars: tuple[int, ...]
    """For each of the rows: least ``sign``·integer at which it is shown."""

    def shortens(self, level: float, cells: int) -> bool:
        """Whether the hybrid is the shorter: it is from about ten cells on."""
        reach = _all_at_once(self.law, 1 - SHARE * (1 - level), cells)
        most = reach + int(self.law.interval(level).high)
        return most <= 2 * _all_at_once(self.law, level, cells)

    def ends(self, level: float, cells: int) -> Box:
        """Ends for all cells at once; of the rows that were chosen, hybrid ends."""
        alpha = 1 - level
        values = self.numbers.floats
        wide = _all_at_once(self.law, level, cells)
        low, high = values - wide, values + wide
        if not self.shortens(level, cells):
            return Box(low * self.step, high * self.step)
        reach = _all_at_once(self.law, 1 - SHARE * alpha, cells)
        memo: dict[tuple[int, int], tuple[int, int]] = {}
        for row, bar in zip(self.rows, self.bars, strict=True):
            y = self.sign * int(self.numbers.values[row])
            if (pair := (y, bar)) not in memo:
                memo[pair] = _conditional(y, bar, self.law, (1 - SHARE) * alpha, reach)
            ends = sorted(self.sign * end for end in memo[pair])
            low[row], high[row] = ends
        return Box(low * self.step, high * self.step)


def _all_at_once(law: Law, level: float, cells: int) -> int:
    """Half-width that holds for independent noise of all cells."""
    each = 1 + math.expm1(math.log(level) / max(cells, 1))
    return int(law.interval(each).high)


def _conditional(y: int, bar: int, law: Law, error: float, reach: int) -> tuple[int, int]:
    """Exact integers within reach of y that y does not contradict, given y ≥ bar."""
    bottom, top = y - reach, y + reach

    def above(theta: int) -> float:
        return float(law.sf(y - 1 - theta)) / max(float(law.sf(bar - 1 - theta)), 1e-300)

    def below(theta: int) -> float:
        return 1 - float(law.sf(y - theta)) / max(float(law.sf(bar - 1 - theta)), 1e-300)

    # where the cut law keeps nothing within reach, the end that is nearer to what it keeps
    if above(top) <= error / 2:
        return top, top
    if below(bottom) <= error / 2:
        return bottom, bottom
    low, high = bottom, top
    if above(bottom) <= error / 2:
        low = _exact.turning(lambda c: above(c) > error / 2, bottom, top)[1]
    if below(top) <= error / 2:
        high = _exact.turning(lambda c: below(c) <= error / 2, bottom, top)[0]
    return low, max(low, high)


def bar_of(record: Record, out: OutputExpr, passing: Ints, ranks: Ints) -> Bar | None:
    """Find the bar behind the rows of a column; None where the choice has another form.

    `passing` lists the cells that HAVING lets through in the order of the answer, and
    `ranks` gives every cell's place by all but the first key of ORDER BY.
    """
    total = _total(record, out)
    numbers = None if total is None else record.numbers(total.vector)
    if total is None or numbers is None or numbers.law is None or numbers.threshold is not None:
        return None
    # tests of keys, or of noise that is independent of this part's, set no bar
    tests = [t for t in _conjuncts(record.having) if _reads(record, t, total.vector)]
    bars = [_bar(record, test) for test in tests]
    limit = record.limit if record.limit is not None and record.limit < passing.size else None
    rows, rival = passing[: record.limit], None
    if limit is not None and record.order:
        first, *later = [(o, down, _reads(record, o, total.vector)) for o, down in record.order]
        if any(reads for _, _, reads in later):
            return None
        if first[2]:
            same = _total(record, first[0])
            if same is None:
                return None
            rival = int(passing[limit])
            bars.append((1 if first[1] else -1, None))
    if None in bars or len({b[0] for b in bars if b is not None}) != 1:
        return None
    sign = next(b[0] for b in bars if b is not None)
    having = [b[1] for b in bars if b is not None and b[1] is not None]
    least = [having] * rows.size
    if rival is not None:
        value = sign * int(numbers.values[rival])
        # who comes first in a tie is shown; who comes later must be ahead
        least = [[*having, value + int(ranks[row] > ranks[rival])] for row in rows]
    ends = tuple(max(each) for each in least)
    return Bar(numbers, numbers.law, float(total.step), sign, rows, ends)


def _total(record: Record, out: OutputExpr) -> Total | None:
    """The formula of an output that shows noisy integers of one part, up to a positive step."""
    formula = record.formulas[out.index] if isinstance(out, StatisticValue) else None
    combination = None if formula is None else formula.combination
    if combination is None or len(combination) != 1:
        return None
    ((vector, step),) = combination.items()
    return Total(vector, step) if step > 0 else None


def _reads(record: Record, out: OutputExpr, vector: int) -> bool:
    return any(vector in record.formulas[i].parts for i in statistics_of(out))


def _conjuncts(test: OutputExpr | None) -> list[OutputExpr]:
    if isinstance(test, Apply) and test.op == "and":
        return [each for arg in test.args for each in _conjuncts(arg)]
    return [] if test is None else [test]


def _bar(record: Record, test: OutputExpr) -> tuple[int, int | None] | None:
    """Bar that a test sets for a part: direction and integer; None: of another form."""
    match test:
        case Apply(op, (left, Number(bound))) if op in _MIRRORED:
            pass
        case Apply(op, (Number(bound), left)) if op in _MIRRORED:
            op = _MIRRORED[op]
        case _:
            return None
    total = _total(record, left)
    if total is None:
        return None
    step, at = float(total.step), float(bound)
    sign = 1 if op in (">", ">=") else -1
    near = sign * round(bound / total.step)
    passed = OPERATIONS[op].value
    # the answer compares floats, so the bar is where their comparison turns
    turns = [b for b in range(near - 2, near + 3) if passed(sign * b * step, at)]
    return (sign, turns[0]) if turns else None
