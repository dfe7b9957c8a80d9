r"""How far one unit can move an aggregate: exact L1 and L2 sensitivities.

Guarantee
---------
For every measure of an :class:`Aggregate` and every pair of neighbouring
tables, the vector of its integers over all groups moves by at most ``l1`` in
the L1 norm and by at most ``sqrt(l2_squared)`` in the L2 norm. Both numbers are
integers; no float carries a sensitivity. No single group moves by more than
``linf``.

Proof sketch
------------
Limits are applied to each unit on its own (see ``_relation``), so adding or
removing a unit adds or removes that unit's kept rows and nothing else. Let a
kept row add at most ``a`` in absolute value to a measure. A unit keeps ``c_g``
rows in group g with :math:`\sum_g c_g \le R`, :math:`c_g \le R_g`, at most G
groups. The L1 norm is at most :math:`a\sum c_g`; the L2 norm is largest when
the counts are as unequal as allowed (a convex function over a polytope peaks at
a vertex): groups filled to :math:`R_g` one after another.

Changing one unit is removing one and adding one. With groups both may land in
different cells, so L1 doubles; L2 squared doubles when all contributions have
one sign (same cell: the difference is at most the larger one). With both signs
and all rows of a unit possibly in one group, contributions are combinations of
:math:`n\,hi\,e_g` and :math:`n\,lo\,e_g`, and the convex distance peaks at a pair
of these: :math:`n^2\max(2a^2, (hi-lo)^2)`. Otherwise four times is safe. With a
single cell (no keys), the two contributions lie in one interval
:math:`[n\min(0,lo),\, n\max(0,hi)]` whose length bounds the move; if each unit
certainly keeps exactly one row (row units, no filter, no NULL), in :math:`[lo, hi]`.

Counting distinct codes or units in a group moves by at most the number of the
unit's rows there, and by at most one, respectively.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from discreet import mechanisms as m
from discreet.plan._relation import (
    Aggregate,
    Limits,
    Measure,
    MeasureKind,
    Scan,
)
from discreet.privacy import Neighbours


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Sensitivity of one measure, in grid integers."""

    l1: int
    l2_squared: int
    linf: int

    def __post_init__(self) -> None:
        assert 0 <= self.linf <= self.l1
        assert self.linf**2 <= self.l2_squared

    def within(self, declared: Sensitivity) -> bool:
        """Whether no norm exceeds the declared one."""
        return (
            self.l1 <= declared.l1
            and self.l2_squared <= declared.l2_squared
            and self.linf <= declared.linf
        )

    def __str__(self) -> str:
        return f"(L1, L2², L∞) = ({self.l1}, {self.l2_squared}, {self.linf})"


def sensitivity(aggregate: Aggregate, measure: Measure) -> Sensitivity:
    """Exact sensitivity of one measure of an aggregate under its neighbour relation."""
    lo, hi, limits = _per_row(aggregate, measure)
    largest = max(abs(lo), abs(hi))
    groups = _group_counts(limits, _cells(aggregate))
    l1 = largest * sum(groups)
    l2_squared = largest**2 * sum(c * c for c in groups)
    if aggregate.neighbours is Neighbours.ADD_REMOVE:
        return Sensitivity(l1, l2_squared, largest * groups[0])
    if not aggregate.keys:
        width = groups[0] * (max(hi, 0) - min(lo, 0))
        if measure.kind is MeasureKind.SUM and always_one_row(aggregate, measure):
            width = hi - lo
        return Sensitivity(width, width**2, width)
    width = max(hi, 0) - min(lo, 0)
    if len(groups) == 1:
        l2_squared = groups[0] ** 2 * max(2 * largest**2, width**2)
    else:
        l2_squared *= 2 if width == largest else 4
    return Sensitivity(2 * l1, l2_squared, width * groups[0])


def linear_sensitivity(aggregate: Aggregate, rows: tuple[tuple[int, ...], ...]) -> Sensitivity:
    """Exact sensitivity of linear queries over the cells of an aggregate of counts.

    A kept row adds one column of the matrix (or, with a key that is NULL or not
    public, nothing). Adding R of them moves the answers by at most R columns;
    changing the only row of a unit by the difference of two columns.
    """
    matrix = [list(row) for row in rows]
    most = sum(_group_counts(aggregate.limits, None))
    columns = list(zip(*matrix, strict=True))
    l1 = most * max(sum(map(abs, c)) for c in columns)
    l2_squared = most**2 * max(sum(x * x for x in c) for c in columns)
    linf = most * max(abs(x) for c in columns for x in c)
    if aggregate.neighbours is Neighbours.ADD_REMOVE:
        return Sensitivity(l1, l2_squared, linf)
    if most > 1:
        return Sensitivity(2 * l1, 4 * l2_squared, 2 * linf)
    # a row may also leave all cells: one more column of zeros
    wide = [[*row, 0] for row in matrix]
    first = m.sensitivity(wide, Neighbours.CHANGE_ONE)
    second = Fraction(m.sensitivity(wide, Neighbours.CHANGE_ONE, norm=2)) ** 2
    spread = max(max(row) - min(row) for row in wide)
    return Sensitivity(int(first), ceil(second), spread)


def _per_row(aggregate: Aggregate, measure: Measure) -> tuple[int, int, Limits]:
    """Bounds of what one kept row adds, and the limits that count such rows."""
    limits = aggregate.limits
    if measure.kind is MeasureKind.SUM:
        return measure.type.lo, measure.type.hi, limits
    if measure.kind is MeasureKind.UNITS:
        # a unit counts once per group, however many rows it has there
        return 0, 1, Limits(rows=limits.rows, groups=limits.groups, rows_per_group=1)
    return 0, 1, limits


def _cells(aggregate: Aggregate) -> int | None:
    """Number of groups there can be; None when keys come from the data."""
    cells = 1
    for key in aggregate.keys:
        if key.codes is None:
            return None
        cells *= len(key.codes)
    return cells


def _group_counts(limits: Limits, cells: int | None) -> list[int]:
    """Kept rows per group of the worst unit, most unequal first."""
    per_group = limits.rows_per_group
    rows = limits.rows
    if cells == 1:
        return [min(x for x in (per_group, rows) if x is not None)]
    if per_group is None:
        assert rows is not None
        return [rows]
    if rows is None:
        assert limits.groups is not None
        counts = [per_group] * limits.groups
    else:
        full, rest = divmod(rows, per_group)
        counts = [per_group] * full + ([rest] if rest else [])
    most = min(x for x in (limits.groups, cells, len(counts)) if x is not None)
    return counts[:most]


def always_one_row(aggregate: Aggregate, measure: Measure) -> bool:
    """Whether each unit certainly adds exactly one row and one non-NULL value."""
    relation = aggregate.relation
    plain = isinstance(relation, Scan)
    return plain and aggregate.unit is None and not measure.type.nullable
