"""How many rows a fit takes before any coefficient can be told from noise.

The fit is made of what would be released of n rows that are spread evenly over the policy's
public values, without noise but with its law: the same reading of the same parts as after
paying. Nothing here looks at data. Rows that crowd together need more than this, rows at the
ends of their ranges somewhat fewer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from discreet import policy as pol
from discreet.answer import Answer
from discreet.curator import fresh_salt, measure
from discreet.engines import Reference, connect
from discreet.plan import Draw, Plan, Query

if TYPE_CHECKING:
    from discreet.inference._regression import Fitted
    from discreet.plan import Aggregate, Groups, Law, Salt

_ROWS: Final = 1500
"""Rows that are spread evenly."""

_MOST: Final = 10**12
_NEAR: Final = 1.02
"""How near, as a share, the number comes to the least one."""


class Silent(Draw):
    """Noise at its mean: what is measured here is nobody's."""

    def sample(self, law: Law, n: int) -> Any:
        """Draw nothing."""
        del law
        return np.zeros(n, dtype=np.int64)


class _Scaled(Reference):
    """An engine whose sums are those of many times its rows."""

    def __init__(self, table: Any) -> None:
        super().__init__({})
        self.times = 1.0
        self._table = table
        self._sums: dict[Aggregate, Groups] = {}

    def execute(self, aggregate: Aggregate, salt: Salt) -> Groups:
        """Sums are linear in the rows, of which no limit leaves any out."""
        if aggregate not in self._sums:
            self._sums[aggregate] = self._groups(aggregate, salt)
        sums = self._sums[aggregate]
        return {k: tuple(round(v * self.times) for v in row) for k, row in sums.items()}

    def _groups(self, aggregate: Aggregate, salt: Salt) -> Groups:
        name = self._table.name
        alone = pol.Policy([self._table], pol.Budget(1), name=name)
        with closing(connect({name: pa.table(_columns(self._table))}, alone)) as engine:
            return engine.execute(aggregate, salt)


_Plan: TypeAlias = Callable[[Sequence[str], Sequence[str], Callable[[Query], Query] | None], Plan]


class _Rehearsal:
    """Asks for what would be released of rows that are spread evenly.

    It stands for a curator at a price that is settled (``Ask``); `plan` prices a question.
    """

    def __init__(self, table: Any, plan: _Plan) -> None:
        self._plan = plan
        self._engine = _Scaled(table)
        self.plans: dict[tuple[str, ...], Plan] = {}
        """What was asked, with its price."""

    def __call__(
        self,
        *texts: str,
        keys: Sequence[str] = (),
        change: Callable[[Query], Query] | None = None,
    ) -> Answer:
        """Answer without noise, from as many times the even rows as is looked at."""
        if texts not in self.plans:
            self.plans[texts] = self._plan(texts, keys, change)
        return Answer(measure(self.plans[texts], self._engine, fresh_salt(), Silent()))

    def needed(self, fit: Callable[[_Rehearsal], Fitted]) -> int | None:
        """Least number of rows, roughly, that a fit determines; None: no number does."""

        def determined(n: float) -> bool:
            self._engine.times = n / _ROWS
            return fit(self).determined

        high = 10.0
        while not determined(high):
            high *= 4
            if high > _MOST:
                return None
        low = high / 4
        while high > _NEAR * low:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if determined(middle) else (middle, high)
        return math.ceil(high)


def rows_needed(table: Any, fit: Callable[[Any], Fitted], plan: _Plan) -> tuple[int | None, Plan]:
    """Give the number of rows from which on a fit is determined, and the plan that it asks.

    `fit` wants to know how questions are answered; `plan` prices one. None: no number of rows
    that are spread evenly suffices.
    """
    rehearsal = _Rehearsal(table, plan)
    rows = rehearsal.needed(fit)
    (planned,) = rehearsal.plans.values()
    return rows, planned


def _columns(table: Any) -> dict[str, list[Any]]:
    """Rows by column, each of a person of its own."""
    columns, size = table.columns, np.arange(_ROWS)
    places = [(0.5 + size * math.sqrt(p)) % 1 for p in _primes(len(columns))]
    each = {n: _even(columns[n], at) for n, at in zip(columns, places, strict=True)}
    return each if table.unit is None else each | {table.unit: size.tolist()}


def _even(column: Any, at: Any) -> list[Any]:
    """Values of a column at places from 0 to 1; one for all where a fit cannot use it."""
    if column.type == "boolean":
        return [bool(u < 0.5) for u in at]
    if column.type == "category":
        return [column.values[int(u * len(column.values))] for u in at]
    if column.type == "integer":
        size = column.max - column.min + 1
        return [int(column.min) + min(int(u * size), size - 1) for u in at]
    if column.type == "real":
        return [float(column.min) + u * float(column.max - column.min) for u in at.tolist()]
    one = column.min if column.type in ("date", "timestamp") else ""
    return [one] * len(at)


def _primes(n: int) -> list[int]:
    """The first n primes; their roots are independent over the rationals."""
    primes: list[int] = []
    at = 2
    while len(primes) < n:
        if all(at % p for p in primes):
            primes.append(at)
        at += 1
    return primes
