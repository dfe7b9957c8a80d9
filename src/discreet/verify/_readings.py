r"""How far one unit moves a column of a result, from what the text bounds.

A sum over groups then moves, when a unit comes or goes, by at most
:math:`a\,c_g` in group g, where :math:`a` bounds one row's addend and the counts
obey all bounds. :math:`\sum c_g` and :math:`\sum c_g^2` are largest for the most
unequal counts that the bounds allow: groups filled to the share one after another,
the rest r in one more. When a unit is replaced, two such vectors are subtracted, and
L1 at most doubles. Let addends lie in :math:`[-b, a]`, :math:`b \le a` (or the mirror
image). Where one unit has c rows and the other d, the move is at most
:math:`\max(c,d)\,a + \min(c,d)\,b`. Its square is convex in c and d, so full groups
meet full ones or none: :math:`\max(2a^2, (a+b)^2)\sum c^2`; if r meets a full group
and b > 0, :math:`2(a^2+b^2)\sum c^2` by Cauchy, or the first bound with r filled up.
With K cells in all, each moving by at most :math:`w = c_1(a+b)`, L1 is at most Kw and
L2² at most :math:`Kw^2`.
"""

from __future__ import annotations

from discreet._dataclass import dataclass, replace
from discreet.verify._domain import INF, Number


@dataclass(frozen=True, slots=True)
class Reach:
    """How far one unit can move a column of integers, by norm; infinite if nothing bounds it."""

    l1: Number
    l2_squared: Number
    linf: Number


@dataclass(frozen=True, slots=True)
class Reading:
    """One column of a statement's result, as the text alone shows it.

    Attributes
    ----------
    key
        Whether it names the group; a key has no sensitivity.
    lo, hi
        Least and greatest addend of one row.
    rows, groups, rows_per_group
        Most rows of a unit, groups it reaches, and rows in one group.
    cells
        Most groups there can be.
    upto
        Which key (by its place among the results) bounds the groups of a unit by its value;
        that is the same in all rows of the unit.
    once
        Whether a unit counts once per group, however many rows it has there.
    certain
        Whether each unit adds exactly one value: rows are units, none is dropped.
    """

    key: bool
    lo: Number = 0
    hi: Number = 0
    rows: Number = INF
    groups: Number = INF
    rows_per_group: Number = INF
    cells: Number = INF
    once: bool = False
    certain: bool = False
    upto: int | None = None

    @property
    def magnitude(self) -> Number:
        """Largest absolute addend of one row."""
        return max(abs(self.lo), abs(self.hi))

    def coarser(self, cells: Number) -> Reading:
        """Read the column after its groups were added up to at most `cells` of them.

        A unit's rows stay as many, all of them perhaps in one group, where each counts; some
        may have been left out.
        """
        few = min(self.groups, cells)
        return replace(
            self, rows_per_group=self.rows, groups=few, cells=cells, once=False, certain=False,
            upto=None,
        )  # fmt: skip

    def _filling(self) -> tuple[Number, Number, Number]:
        """The most unequal rows per group: size of a full group, how many, and the rest."""
        most = min(self.groups, self.cells)
        share = 1 if self.once else min(self.rows_per_group, self.rows)
        if share == INF or min(self.rows, most) == INF:
            return share, INF, 0
        if self.rows == INF:
            return share, most, 0
        full = min(self.rows // share if share else 0, most)
        rest = min(self.rows - full * share, share) if full < most else 0
        return share, full, rest

    def sensitivity(self, neighbours: str) -> Reach:
        """Bound of the move, under ``"add-remove"`` or ``"change-one"``.

        >>> Reading(key=False, lo=0, hi=5, rows=3).sensitivity("add-remove")
        Reach(l1=15, l2_squared=225, linf=15)
        """
        share, full, rest = self._filling()
        up, down = max(self.hi, 0), max(-self.lo, 0)
        a, b = max(up, down), min(up, down)
        if a == 0:
            return Reach(0, 0, 0)
        if INF in (a, share, full):
            return Reach(INF, INF, INF)
        total, squares = full * share + rest, full * share**2 + rest**2
        largest = share if full else rest
        if neighbours == "add-remove":
            return Reach(a * total, a * a * squares, a * largest)
        if neighbours != "change-one":
            raise ValueError(neighbours)
        move = largest * (a + b)
        if self.cells == 1:
            move = self.hi - self.lo if self.certain else move
            return Reach(move, move * move, move)
        second = max(2 * a * a, (a + b) ** 2)
        if rest and b:
            # a full group of one unit meets the rest of the other: by Cauchy, or filled up
            second = min(second * (full + 1) * share**2, 2 * (a * a + b * b) * squares)
        else:
            second *= squares
        return Reach(min(2 * a * total, self.cells * move), min(second, self.cells * move**2), move)

    def within(self, l1: Number, l2_squared: Number, linf: Number, neighbours: str) -> bool:
        """Whether declared bounds are at least what the text shows."""
        reach = self.sensitivity(neighbours)
        return bool(l1 >= reach.l1 and l2_squared >= reach.l2_squared and linf >= reach.linf)


def times(x: Number, y: Number) -> Number:
    """Product where none of something is none, also of what nothing bounds."""
    return 0 if 0 in (x, y) else x * y
