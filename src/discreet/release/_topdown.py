"""Top-down: a national table, then its areas, whole and non-negative and adding up.

Input: an array whose first axis is the area and whose other axes are attributes.

Guarantee
---------
Measurements only (discrete Gaussian for ρ or (ε, δ), discrete Laplace for a pure ε): of the
national table and of the areas' tables, each with its share of ρ, and of the totals. A record
lies in one cell of each (squared L2 sensitivity 1; 2 for a change). Everything after is
post-processing.

**Invariants.** ``unprotected=("total",)`` or ``("area-totals",)`` releases these totals
exactly. They have no protection at all, and what is promised for the rest holds between
neighbours that agree on them: under add-remove no two neighbours do, so the relation must be
change-one, and with area totals a change stays within its area. The publication's record says
so.

How (Abowd et al. 2022, without the solver)
-------------------------------------------
1. Nation: nearest non-negative table with the given total (projection on a simplex), rounded by
   largest remainders.
2. Areas: nearest non-negative tables with Σ areas = nation in every cell and the given area
   totals: Dykstra's alternating projections between the two families of simplices.
3. Rounding: floor + b with b ∈ {0, 1} on fractional cells, column and row sums exact, as
   near as possible. Two laminar families of constraints make a network matrix, so that a vertex
   of the linear programme is whole (HiGHS through scipy); sums are checked afterwards.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from fractions import Fraction
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from discreet._lazy import optimize, sparse
from discreet.errors import Hint, ParameterError
from discreet.privacy import Neighbours
from discreet.release._counts import fitting
from discreet.release._mechanism import Job, Mechanism, read_share
from discreet.release._queries import marginal
from discreet.release._questions import Course, Measurement, Unprotected
from discreet.release._tree import onto_simplex

Array = NDArray[np.float64]

_SWEEPS = 1000
_TOTALS = Fraction(1, 20)

EXACT: Final = {"total": "the total", "area-totals": "the total of each area"}
"""What can be released exactly, and how it is called."""


class TopDown(Mechanism):
    """National and areal tables from the top down."""

    method: ClassVar[str] = "topdown"

    def __init__(
        self, job: Job, *, unprotected: Sequence[str] = (), nation_share: float = 0.5
    ) -> None:
        super().__init__(job)
        self.shape = job.workload.shape
        if len(self.shape) < 2:
            raise ParameterError(
                "topdown needs areas on the first axis and attributes on the others",
                hint="Workload.kron(Workload.identity(areas), Workload.identity(cells))",
            )
        fitting(self.shape)
        wrong = [name for name in unprotected if name not in EXACT]
        if wrong or isinstance(unprotected, str):
            raise ParameterError(
                "unprotected lists what is released exactly: total, area-totals",
                hint=Hint("unprotected", ["area-totals"]),
            )
        self.unprotected = tuple(EXACT[name] for name in unprotected)
        if self.unprotected and job.neighbours is Neighbours.ADD_REMOVE:
            raise ParameterError(
                "an exact total tells two tables apart that differ by one record more or less; "
                "with unprotected totals only records of equal totals are neighbours",
                hint=Hint("neighbours", "change-one"),
            )
        self.nation_share = read_share(nation_share, 0.5, "nation_share")

    @property
    def note(self) -> str:  # type: ignore[override]  # a property for an attribute
        """Say what is unprotected."""
        if not self.unprotected:
            return Mechanism.note
        names = " and ".join(self.unprotected)
        return f"{names} released exactly, without any protection"

    def _measurement(self, axes: Container[int], share: Fraction, label: str) -> Measurement:
        return self.job.measurement(marginal(self.shape, axes), share, label)

    def _totals(self) -> Course:
        """Return area totals (whole, adding up) and what is left of the price."""
        relation = self.job.neighbours
        if (meaning := EXACT["area-totals"]) in self.unprotected:
            exact = yield Unprotected(marginal(self.shape, (0,)), meaning, relation, "area totals")
            return np.asarray(exact, dtype=np.int64), Fraction(1)
        noisy = yield self._measurement((0,), _TOTALS, "area totals")
        values = np.asarray(noisy, dtype=np.float64)
        if (meaning := EXACT["total"]) in self.unprotected:
            exact = yield Unprotected(marginal(self.shape, ()), meaning, relation, "total")
            total = int(exact[0])
        else:
            total = max(0, round(float(values.sum())))
        near = onto_simplex(values[None, :], np.array([float(total)]))[0]
        return largest_remainders(near, total), 1 - _TOTALS

    def course(self) -> Course:
        """Measure totals, nation and areas; project and round from the top down."""
        totals, rest = yield from self._totals()
        share = rest * self.nation_share
        axes = range(len(self.shape))
        nation_y = yield self._measurement(axes[1:], share, "nation")
        areas_y = yield self._measurement(axes, rest - share, "areas")
        total = int(totals.sum())
        nation = onto_simplex(
            np.asarray(nation_y, dtype=np.float64)[None, :], np.array([float(total)])
        )[0]
        columns = largest_remainders(nation, total)
        start = np.asarray(areas_y, dtype=np.float64).reshape(self.shape[0], -1)
        near = dykstra(start, columns.astype(np.float64), totals.astype(np.float64))
        whole = rounded(near, columns, totals)
        return whole.reshape(self.shape).astype(np.float64)

    def describe(self) -> str:
        """Name what is exact."""
        exact = ", ".join(self.unprotected) or "nothing"
        return f"topdown: nation and {self.shape[0]} areas, unprotected: {exact}"


def largest_remainders(values: Array, total: int) -> NDArray[np.int64]:
    """Round to whole numbers that add up to `total`."""
    floors = np.floor(values + 1e-9).astype(np.int64)
    rest = total - int(floors.sum())
    order = np.argsort(-(values - floors), kind="stable")
    if rest >= 0:
        floors[order[:rest]] += 1
        return floors
    positive = order[::-1][floors[order[::-1]] > 0]
    floors[positive[:-rest]] -= 1
    return floors


def dykstra(start: Array, columns: Array, rows: Array, tolerance: float = 1e-6) -> Array:
    """Return the nearest non-negative table with these column and row sums."""
    x = start.copy()
    p, q = np.zeros_like(x), np.zeros_like(x)
    for _ in range(_SWEEPS):
        y = onto_simplex((x + p).T, columns).T
        p = x + p - y
        x = onto_simplex(y + q, rows)
        q = y + q - x
        if float(np.abs(x.sum(axis=0) - columns).max()) < tolerance:
            break
    return x


def rounded(x: Array, columns: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Round a table to whole numbers with exact column and row sums, as near as possible."""
    slack = 1e-5
    for _ in range(6):
        floors = np.maximum(np.floor(x + slack), 0).astype(np.int64)
        part = x - floors
        # where the projection stopped short of its sums, neighbours of whole numbers may move
        free = np.flatnonzero((part > slack).ravel())
        if not len(free):
            free = np.arange(x.size)
        i, j = np.divmod(free, x.shape[1])
        one = np.ones(len(free))
        place = np.arange(len(free))
        system = sparse.vstack(
            [
                sparse.csr_array((one, (j, place)), shape=(x.shape[1], len(free))),
                sparse.csr_array((one, (i, place)), shape=(x.shape[0], len(free))),
            ]
        )
        gaps = np.concatenate([columns - floors.sum(axis=0), rows - floors.sum(axis=1)])
        optimum = optimize.milp(
            1 - 2 * part.ravel()[free],
            constraints=optimize.LinearConstraint(system, gaps, gaps),
            bounds=optimize.Bounds(0, 1),
        )
        if optimum.x is not None:
            out = floors.ravel().copy()
            out[free] += np.rint(optimum.x).astype(np.int64)
            table = out.reshape(x.shape)
            if (table.sum(axis=0) == columns).all() and (table.sum(axis=1) == rows).all():
                return table
        slack = -0.25 if slack > 0 else slack - 0.25
    return _northwest(x, columns, rows)


def _northwest(x: Array, columns: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Fill a table with the given sums greedily, largest wishes first: always possible."""
    out = np.minimum(np.floor(np.maximum(x, 0.0)).astype(np.int64), columns[None, :])
    out = np.minimum(out, rows[:, None])
    for lines, wishes, sums in ((out.T, x.T, columns), (out, x, rows)):
        for line, wish, most in zip(lines, wishes, sums.tolist(), strict=True):
            over = max(0, int(line.sum()) - most)
            for i in np.argsort(wish - line):
                cut = min(over, int(line[i]))
                line[i] -= cut
                over -= cut
    left, right = columns - out.sum(axis=0), rows - out.sum(axis=1)
    i = j = 0
    while i < len(right) and j < len(left):
        amount = min(int(right[i]), int(left[j]))
        out[i, j] += amount
        right[i] -= amount
        left[j] -= amount
        i, j = (i + 1, j) if right[i] == 0 else (i, j + 1)
    return out
