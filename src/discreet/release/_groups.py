"""Count-of-counts: how many groups have 0, 1, 2, … members, by region.

Input x[r, j]: the number of groups (households, firms) of size j in region r, or a vector for
one region. **The unit is a member**, not a group: neighbours differ by one member of one group, so
that one group of size j becomes one of size j ± 1; regions and numbers of groups are
public. The caller must say so (``groups="public"``).

Guarantee
---------
One member moves one group from size j to j+1, so of C_j = #(groups of size ≤ j) exactly one entry
changes, by 1: L1 sensitivity 1 in each region and in every sum of regions (a member who
changes group: 2 entries by 1 each). The sizes in sorted order change in one place by 1 as well;
the plain histogram in two. Each level of the hierarchy (all regions; each region) is
measured with its share of the price, and a member is in one region.

How (Kuo, Cho, Yue, Kifer, Machanavajjhala 2018)
------------------------------------------------
C is measured with discrete noise, made non-decreasing by isotonic regression, clipped to
[0, groups] and rounded; C at the largest size is the number of groups. With regions,
the groups of the whole are matched in order of size to those of all regions, and each matched
pair is merged with weights by their variances: a run of m equal sizes is known m times as
well. The result has whole, non-negative counts that add up.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet._dataclass import dataclass
from discreet._lazy import optimize
from discreet.errors import Hint, ParameterError
from discreet.release._counts import Counts, fitting
from discreet.release._mechanism import Job, Mechanism
from discreet.release._queries import Query, marginal
from discreet.release._questions import Course, Unprotected

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Sizes(Query):
    """One view of group sizes: "cumulative", "sizes" or "cells", of regions or of their sum.

    Columns here are *members*: sensitivities are those of one member, as derived above.
    """

    shape: tuple[int, ...]
    view: str
    summed: bool
    groups: int = 0

    @property
    def rows(self) -> int:  # type: ignore[override]  # a property for an attribute
        """Numbers measured."""
        if self.view == "sizes":
            return self.groups
        regions = 1 if self.summed or len(self.shape) == 1 else self.shape[0]
        return regions * (self.shape[-1] - (self.view == "cumulative"))

    @property
    def l1(self) -> int:
        """One entry by 1; two in the plain histogram."""
        return 2 if self.view == "cells" else 1

    @property
    def l2(self) -> int:
        """As above, squared."""
        return self.l1

    def _l2_changed(self) -> int:
        # a leaving and an arriving member; in the histogram both may lower or raise one entry
        return 6 if self.view == "cells" else 2

    def apply(self, counts: Counts) -> NDArray[Any]:
        """Return the view."""
        x = counts.array()
        x = x.reshape(-1, x.shape[-1])
        if self.summed:
            x = x.sum(axis=0, keepdims=True)
        if self.view == "cumulative":
            return np.asarray(np.cumsum(x, axis=1)[:, :-1].ravel())
        if self.view == "sizes":
            return np.concatenate([np.repeat(np.arange(x.shape[1]), row) for row in x])
        return np.asarray(x.ravel())


class CountOfCounts(Mechanism):
    """Group sizes by region, consistent and whole."""

    method: ClassVar[str] = "count-of-counts"

    def __init__(self, job: Job, *, groups: str | None = None, view: str = "cumulative") -> None:
        super().__init__(job)
        self.shape = job.workload.shape
        if len(self.shape) > 2:
            raise ParameterError(
                "count-of-counts takes sizes, or regions × sizes",
                hint="Workload.kron(Workload.identity(regions), Workload.prefix(sizes))",
            )
        if groups != "public":
            raise ParameterError(
                "count-of-counts protects members of groups and treats the number of groups of "
                "each region as public; say that you agree",
                hint=Hint("groups", "public"),
            )
        if view not in ("cumulative", "sizes", "cells"):
            raise ParameterError(
                'view must be "cumulative", "sizes" or "cells"', hint=Hint("view", "cumulative")
            )
        fitting(self.shape)
        self.view = view

    def course(self) -> Course:
        """Take the numbers of groups, measure each level, merge."""
        job = self.job
        numbers = yield Unprotected(
            marginal(self.shape, range(len(self.shape) - 1)),
            "the number of groups of each region", job.neighbours, "numbers of groups",
        )  # fmt: skip
        regions = len(self.shape) == 2
        share = Fraction(1, 2 if regions else 1)
        parts = []
        for summed in (True, False) if regions else (False,):
            query = Sizes(self.shape, self.view, summed, int(numbers.sum()))
            label = "all regions" if summed else "regions"
            y = yield job.measurement(query, share, label)
            groups = np.array([numbers.sum()]) if summed else np.asarray(numbers)
            parts.append([self._sorted(part, int(g)) for part, g in
                          zip(self._split(y, groups), groups, strict=True)])  # fmt: skip
        if not regions:
            return np.bincount(parts[0][0], minlength=self.shape[-1]).astype(np.float64)
        return self._merged(parts[0][0], parts[1])

    def _split(self, y: NDArray[Any], groups: NDArray[np.int64]) -> list[Array]:
        z = np.asarray(y, dtype=np.float64)
        if self.view == "sizes":
            return np.split(z, np.cumsum(groups)[:-1])
        return list(z.reshape(len(groups), -1))

    def _sorted(self, y: Array, groups: int) -> NDArray[np.int64]:
        """Return the groups' sizes in order, from a noisy view."""
        top = self.shape[-1] - 1
        if groups == 0 or top == 0:
            return np.zeros(groups, dtype=np.int64)
        if self.view == "sizes":
            sizes = np.rint(np.clip(optimize.isotonic_regression(y).x, 0, top))
            return np.asarray(sizes, dtype=np.int64)
        if self.view == "cells":
            y = np.cumsum(np.rint(np.maximum(y, 0.0)))[:-1]
        sums = np.rint(np.clip(optimize.isotonic_regression(y).x, 0, groups)).astype(np.int64)
        cells = np.diff(np.concatenate([[0], sums, [groups]]))
        return np.repeat(np.arange(top + 1), cells)

    def _merged(self, whole: NDArray[np.int64], parts: list[NDArray[np.int64]]) -> Array:
        """Match groups in order of size and merge by variance."""
        sizes = np.concatenate(parts)
        region = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        order = np.argsort(sizes, kind="stable")
        # a run of m equal sizes has variance ∝ 1/m
        weight = np.concatenate([np.bincount(part, minlength=1)[part] for part in parts])
        above = np.bincount(whole, minlength=1)[whole].astype(np.float64)
        own = weight[order].astype(np.float64)
        best = (own * sizes[order] + above * whole) / (own + above)
        merged = np.zeros(len(sizes), dtype=np.int64)
        merged[order] = np.rint(best).astype(np.int64)
        out = np.zeros(self.shape)
        np.add.at(out, (region, merged), 1.0)
        return out

    def describe(self) -> str:
        """Name the unit."""
        return "count-of-counts: members are protected, numbers of groups are public"
