r"""The largest groups: chosen first, then measured alone.

``ORDER BY COUNT(*) DESC LIMIT k`` can be answered by noise on the counts of all groups, of which
the k largest are shown. A unit that may have rows in g groups then moves g counts. Or k groups are
chosen by their exact counts, and these alone are measured; the planner takes what it predicts to
be more exact.

Guarantee
---------
*The choice* (:class:`Top`). Under add-remove one unit raises every score, a count of rows or units,
by something between 0 and p, the most that it has in one group (or lowers each so). So scores
are monotone with Δ = p, however many of them move, and one choice by permute-and-flip or the
exponential mechanism at ε/k is ε/k-DP (:mod:`discreet.plan._choices`; or ρ/k-zCDP by the
exponential mechanism, for its bounded range). Groups are chosen one after another without
replacement: k choices, each on scores that the earlier ones left over, compose to ε (or ρ).

*The numbers* (:class:`Few`). For *any* k cells, a unit adds to a cell a vector whose L1 norm, all
integers of the part together, is at most its L∞ sensitivity Λ under add-remove (``_stability``: a
unit with c rows in a group adds non-negative shares of cD, and Λ is D times the largest c). Over k
cells L1 is at most kΛ, L2² at most kΛ², and neither exceeds what holds over all cells. The
cells are a function of what was released before, and laws are fixed beforehand: losses compose.

The statement that runs is the same, with its limit of g groups a unit, and proved by its own
sensitivities (:attr:`Few.inputs`); the smaller ones are those of k of its numbers.

Error
-----
At half of the price each, counts get Laplace noise of scale 2kp/ε instead of gp/ε (Gaussian:
:math:`p\sqrt{k/\rho}` instead of :math:`p\sqrt{g/2\rho}`), and are chosen with noise of the size
2kp/ε. So it gains where g > 2k. Another statistic whose sensitivity few groups do not lower pays a
share for the choice: ⅓ of the price is left of ½, and its noise is 1.5 times as wide. Groups are
chosen first where the product of all widths falls. The noise of the numbers does not depend on the
choice: their intervals are the plain ones and hold given the choice, where the largest of many
noisy counts need wider ones (:mod:`discreet.answer`).

References
----------
.. [1] R. McKenna, D. Sheldon, "Permute-and-flip", NeurIPS 2020.
.. [2] D. Durfee, R. Rogers, "Practical differentially private top-k selection with pay-what-you-get
   composition", NeurIPS 2019: choices one after another, and what a bounded range saves.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, ClassVar, Final

import numpy as np

from discreet._dataclass import dataclass, replace
from discreet.plan._choices import Choice, Moves
from discreet.plan._formula import Total
from discreet.plan._joint import Joint
from discreet.plan._lower import ONE
from discreet.plan._lowered import Lowered
from discreet.plan._means import WeightedSum
from discreet.plan._parts import (
    Cells,
    Chosen,
    Draw,
    Exact,
    Groups,
    Part,
    Priced,
    Release,
    Rule,
)
from discreet.plan._query import Apply, KeyValue, Number, OutputExpr, StatisticValue
from discreet.plan._relation import Measure, MeasureKind, cells_of, combinations
from discreet.plan._stability import Sensitivity
from discreet.plan._statistics import Count, CountUnits
from discreet.plan._types import Code
from discreet.plan._vectors import Vector
from discreet.privacy import Neighbours

MOST: Final = 10_000
"""Groups among which one is chosen, at most."""


@dataclass(frozen=True)
class Top(Part):
    """The ``most`` largest cells by one measure."""

    measure: int
    counts: Sensitivity
    """How far a unit moves the measure, all cells together."""
    most: int
    domain: tuple[tuple[Code, ...], ...]

    kind: ClassVar[str] = "top"

    @property
    def reads(self) -> tuple[int, Sensitivity]:
        """The scores."""
        return self.measure, self.counts

    @property
    def gaussian(self) -> bool:
        """A choice needs ε, or ρ."""
        return False

    @property
    def outlets(self) -> int:
        """None: what it lets out are the cells of the answer."""
        return 0

    @property
    def work(self) -> int:
        """Each choice looks at all cells, three times as fast as numbers are released."""
        return 1 + self.most // 3

    def facts(self, law: Any) -> list[str]:
        """Which rows there are."""
        del law
        which = f"the {self.most} largest" if self.most > 1 else "the largest"
        return [f"{which} of {len(self.domain)} groups: chosen privately, then measured"]

    def price(self, rule: Rule) -> Priced:
        """As many choices as cells."""
        rows = self.counts.linf
        choice, loss = Choice.priced(rule.times(Fraction(1, self.most)), Moves(rows, rows**2))
        choice = replace(choice, sensitivity=rows, monotone=True)
        return Priced(self, choice, (loss,) * self.most)

    def select(self, priced: Priced, groups: Groups, draw: Draw) -> Cells:
        """Choose one after another; in the order of the keys, so that order says nothing."""
        scores = Cells(self.domain).totals(groups, self.measure)
        rest = np.arange(scores.size)
        for _ in range(self.most):
            rest = np.delete(rest, draw.choose(scores[rest], priced.law))
        places = np.setdiff1d(np.arange(scores.size), rest)
        return Cells([self.domain[i] for i in places])

    def releases(
        self, priced: Priced, groups: Groups, cells: Cells, draw: Draw
    ) -> tuple[Release, ...]:
        """Nothing but the cells."""
        del priced, groups, cells, draw
        return ()

    def drawn(self, law: Any) -> Iterator[Chosen]:
        """One choice for each cell; a unit moves all scores one way."""
        rows = self.counts.linf
        for _ in range(self.most):
            yield Chosen(law, rows, rows**2, rows)

    def measurements(self, groups: Groups) -> Iterator[tuple[str, Exact]]:
        """Scores of all cells that the table holds."""
        yield "", {cell: values[self.measure] for cell, values in groups.items()}

    def steps(self, groups: Groups) -> Iterator[tuple[str, Sensitivity, Exact]]:
        """Scores, and how far a unit moves them all."""
        for suffix, exact in self.measurements(groups):
            yield suffix, self.counts, exact

    def moved(self, left: Groups, right: Groups) -> list[str]:
        """Scores that move both ways, or one of them too far."""
        ((_, a),), ((_, b),) = self.measurements(left), self.measurements(right)
        moves = [a.get(k, 0) - b.get(k, 0) for k in a.keys() | b.keys()]
        span = max([0, *moves]) - min([0, *moves])
        declared = self.counts.linf
        return [] if span <= declared else [f"scores moved by {span}, declared {declared}"]


@dataclass(frozen=True)
class Few(Joint):
    """Integers of no more than ``most`` cells, whichever they are."""

    most: int
    whole: Sensitivity
    """How far a unit moves them in all cells together."""

    @classmethod
    def of(cls, part: Vector | Joint, most: int) -> Few:
        """The same integers, in few cells."""
        s = part.sensitivity
        few = Sensitivity(min(s.l1, most * s.linf), min(s.l2_squared, most * s.linf**2), s.linf)
        forms = (((part.measure, 1),),) if isinstance(part, Vector) else part.forms
        coordinates = min(part.coordinates, most * len(forms))
        return cls(part.aggregate, few, coordinates, forms, part.inputs, most, s)

    def steps(self, groups: Groups) -> Iterator[tuple[str, Sensitivity, Exact]]:
        """Integers of all cells, and how far a unit moves these."""
        for suffix, exact in self.measurements(groups):
            yield suffix, self.whole, exact

    def moved(self, left: Groups, right: Groups) -> list[str]:
        """What the cells that move most violate."""
        ((_, a),), ((_, b),) = self.measurements(left), self.measurements(right)
        moves: dict[tuple[Any, ...], list[int]] = {}
        for key in a.keys() | b.keys():
            moves.setdefault(key[:-1], []).append(abs(a.get(key, 0) - b.get(key, 0)))
        cells = moves.values()
        first = sorted(map(sum, cells))[-self.most :]
        second = sorted(sum(d * d for d in each) for each in cells)[-self.most :]
        worst = max((max(each) for each in cells), default=0)
        s = self.sensitivity
        if sum(first) <= s.l1 and sum(second) <= s.l2_squared and worst <= s.linf:
            return []
        norms = f"({sum(first)}, {sum(second)}, {worst})"
        return [f"{self.kind} moved by (L1, L2², L∞) = {norms} in {self.most} cells, declared {s}"]


def largest_first(lowered: Lowered) -> Lowered | None:
    """The question with its groups chosen first; None where it asks for something else."""
    query, main = lowered.query, lowered.aggregates[0]
    cells = combinations(query.keys)
    if query.limit is None or not 0 < query.limit < (cells or 0) <= MOST:
        return None
    if query.neighbours is not Neighbours.ADD_REMOVE or main.reach <= 2 * query.limit:
        return None
    measure = _score(lowered)
    parts = [p for p in lowered.parts if type(p) in {Vector, Joint} and p.private]
    if measure is None or len(parts) < len(lowered.parts) or len(lowered.aggregates) > 1:
        return None
    few = [Few.of(p, query.limit) for p in parts if isinstance(p, Vector | Joint)]
    counts = next((s for p in parts for m, s in p.inputs if m == measure), None)
    if counts is None:
        return None
    moves = Sensitivity(counts.linf, counts.linf**2, counts.linf)
    top = Top(0, moves, 1, measure, counts, query.limit, cells_of(query.keys))
    return replace(lowered, parts=(*few, top), selector=len(few))


def _score(lowered: Lowered) -> int | None:
    """Measure by whose size the rows are ordered; None: by something else, or not by size alone."""
    query, main = lowered.query, lowered.aggregates[0]
    later = query.having, query.qualify, query.other, lowered.labels, lowered.selector
    if any(x is not None for x in later) or query.levels or not query.order:
        return None
    outs = [o.expr for o in query.outputs] + [out for out, _ in query.order]
    by, descending = query.order[0]
    if not descending or not isinstance(by, StatisticValue) or not all(map(_of_one_row, outs)):
        return None
    if not isinstance(lowered.formulas[by.index], Total | WeightedSum):
        return None
    match query.statistics[by.index]:
        case Count(None):
            measure = Measure(MeasureKind.SUM, ONE)
        case CountUnits():
            units = Measure(MeasureKind.UNITS)
            measure = units if units in main.measures else Measure(MeasureKind.SUM, ONE)
        case _:
            return None
    return main.measures.index(measure) if measure in main.measures else None


def _of_one_row(out: OutputExpr) -> bool:
    """Whether an output reads its own row alone."""
    match out:
        case KeyValue() | StatisticValue() | Number():
            return True
        case Apply(_, args):
            return all(map(_of_one_row, args))
    return False
