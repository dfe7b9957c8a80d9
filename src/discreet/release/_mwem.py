"""MWEM: a synthetic histogram, corrected where it is worst.

Guarantee
---------
The number of records is measured (``total="private"``, the default, with a share of the price)
or given by the caller as public; then T rounds of a :class:`Choice` of a badly answered query
and a :class:`Measurement` of it. Composition is basic, and the histogram is a function of
released numbers. Scores are |q(x) − q(x̂)| with the public q(x̂) rounded to integers; a 0/1
query moves by at most 1 for one record, added, removed or changed.

A caller who calls the number of records public says that it may be known exactly. Under
change-one it is public by definition.

How (Hardt, Ligett, McSherry 2012)
----------------------------------
x̂ starts uniform; after each round all measurements so far are replayed some times by
multiplicative weights x̂ ← x̂·exp(q·(y − q(x̂))/2N), normalised to N. A query is chosen at most
once.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.errors import Hint, ParameterError
from discreet.release._counts import fitting
from discreet.release._mechanism import Job, Sized
from discreet.release._queries import Answers
from discreet.release._questions import Choice, Course

Array = NDArray[np.float64]

NEVER = 1 << 50
"""Handicap of a query that was chosen before."""


class Mwem(Sized):
    """Multiplicative weights on badly answered queries."""

    method: ClassVar[str] = "mwem"

    def __init__(
        self,
        job: Job,
        *,
        rounds: int | None = None,
        total: int | str = "private",
        total_share: float = 0.1,
        passes: int = 50,
    ) -> None:
        super().__init__(job)
        fitting(job.workload.shape)
        if not job.workload.counting:
            raise ParameterError("mwem answers counting queries, whose weights are 0 or 1")
        if job.workload.queries > 1 << 22:
            raise ParameterError(
                f"mwem scores every one of the {job.workload.queries} queries in every round",
                hint=Hint("method", "tree-adaptive"),
            )
        rounds = min(10, job.workload.queries) if rounds is None else rounds
        if rounds < 1 or rounds > job.workload.queries or passes < 1:
            raise ParameterError(
                "rounds must be at least 1 and at most the number of queries",
                hint=Hint("rounds", 4),
            )
        self.rounds, self.passes = rounds, passes
        self._read_total(total, total_share, 0.1)

    def course(self) -> Course:
        """Measure the total, then choose, measure and correct."""
        job, workload = self.job, self.job.workload
        size, rest = yield from self._size()
        size, share = max(1.0, size), rest / (2 * self.rounds)
        x = np.full(workload.cells, size / workload.cells)
        handicap = np.zeros(workload.queries, dtype=np.int64)
        measurements: list[tuple[NDArray[np.bool_], float]] = []
        for i in range(self.rounds):
            target = np.rint(workload.answers(x.reshape(workload.shape))).astype(np.int64)
            choice = yield Choice.priced(
                Answers(workload), target, handicap.copy(), price=job.price, share=share,
                neighbours=job.neighbours, label=f"round {i}: worst query",
            )  # fmt: skip
            row = int(choice[0])
            handicap[row] = NEVER
            y = yield job.measurement(Answers(workload, row), share, f"round {i}: its answer")
            measurements.append((workload.row(row).ravel() > 0, float(y[0])))
            x = reweighted(x, measurements, size, self.passes)
        return x.reshape(workload.shape)

    def describe(self) -> str:
        """Name rounds and what is known."""
        return f"mwem: {self.rounds} rounds, the number of records {self._source}"


def reweighted(
    x: Array, measurements: list[tuple[NDArray[np.bool_], float]], size: float, passes: int
) -> Array:
    """Replay all measurements by multiplicative weights."""
    x = x.copy()
    for _ in range(passes):
        for mask, y in measurements:
            gap = y - float(x[mask].sum())
            x[mask] *= math.exp(min(max(gap / (2 * size), -5.0), 5.0))
            x *= size / x.sum()
    return x
