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
The relation below is unit-wise (see ``_relation``): adding or removing a unit
adds or removes that unit's rows and nothing else. Of these there are at most m,
at most p in one group, in at most G groups (public cells, or what the relation
says). A row adds between lo and hi, so a unit adds to group g a number between
:math:`-c_g B` and :math:`c_g A`, where :math:`A = \max(hi, 0)`,
:math:`B = \max(-lo, 0)` and :math:`\sum c_g \le m`, :math:`c_g \le p`. Write
:math:`a = \max(A, B)`, :math:`b = \min(A, B)`, :math:`w = A + B`. The L1 norm is at
most :math:`a\sum c_g`; the L2 norm is convex in c, so it peaks at a vertex:
groups filled to p one after another, and one with the rest r.

Changing one unit is removing one and adding one, with counts c and d. The L1
norm at most doubles. In a group the move is at most
:math:`\max(c,d)\,a + \min(c,d)\,b`, hence :math:`pw`; with K cells in all, L1 is at
most :math:`Kpw` and L2² at most :math:`K(pw)^2`. For the sum of squares, take
vertices again (the square of the move is convex in c and d).

- If r = 0, groups hold p or nothing: a group in which both have rows moves by
  pw, any other by pa, and each of two units has G groups, so
  :math:`\max(2a^2, w^2)\sum c^2` is the maximum.
- If b = 0, the square is at most :math:`a^2(c^2 + d^2)`: the same formula, w = a.
- Otherwise p meets r, and the formula fails: with p = 2, r = 1, a = 2, b = 1
  counts (2, 1) against (1, 2) move both groups by 5, while
  :math:`9 \cdot 5 < 50`. By Cauchy the square is at most
  :math:`(a^2+b^2)(c^2+d^2)`; or fill the rest up to p. The smaller of both bounds.

Without keys and if each unit certainly has exactly one row (row units, no
filter, no NULL), the move is within :math:`hi - lo`; so is that of a form whose ends hold for every
row, with and without a value.

*Several integers per group* (:func:`partition_sensitivity`). If a row adds
:math:`\varphi\ge0` to J integers of its group with :math:`\sum_j\varphi_j\le D`, a unit adds
z ≥ 0 with :math:`\|z_g\|_2\le\|z_g\|_1\le c_gD`: L1 is at most :math:`D\sum c_g`, L2²
at most :math:`D^2\sum c_g^2`, and no integer moves by more than :math:`D\max c_g`; all rows
in one of the J attain them. Changing a unit moves by z − z' with both ≥ 0, so L1 and L2²
at most double and L∞ stays. Of two cells U, V without keys (one group) the *turned* pair
(U − V, U + V) costs the same under change-one: a unit adds (s, n) with
:math:`|s|\le n\le kD`, and :math:`|s-s'|+|n-n'|` is convex, hence largest at
corners 0, (±kD, kD): 2kD. Its L2² is :math:`4k^2D^2`, its L∞ 2kD.

*Sums with sign among them.* If no row reaches two families, and some of them are one sum to which a
row adds between −B and A, with :math:`\max(A,B)\le D`, a unit adds at most :math:`D\sum c_g` in
L1 all the same, so changing one moves at most twice that: a row leaves one cell and enters another.
In a group the set of what c rows can add is c times the convex hull of 0 and what one row adds, so
the largest square is one of two corners: of different families, or of non-negative shares,
:math:`D^2(c^2+d^2)`; of one sum with sign, :math:`(ca+db)^2` with a, b as above. The argument
above holds with :math:`D^2` in place of :math:`a^2` where no sign is involved: L2² is at most
:math:`\max(2D^2,w^2)\sum c^2` if r = 0, otherwise the smaller of that with the rest filled up and
:math:`2\max(D^2,a^2+b^2)\sum c^2`. L∞ is at most :math:`p\max(D,w)`.

*First and second powers where the number of rows is public* (:func:`powers_sensitivity`). A row is
replaced by a row, and adds (ay, by²) to two integers, y whole in u … v. The L1 norm of a difference
is the larger of the differences of ay + by² and of ay − by², so the larger of the ranges of these
two polynomials, which they reach at u, v or next to their vertices. Of two values at the
distance s the sum is at most :math:`t_s=\max(|2v-s|,|2u+s|)` in size, so L2² is the largest
:math:`s^2(a^2+b^2t_s^2)`: in :math:`t_s=w-s` that has one maximum inside, at
:math:`4s=3w-\sqrt{w^2-8a^2/b^2}`, and otherwise peaks at the greatest distance.

Counting distinct codes in a group moves by at most the number of the unit's
rows there and of the codes; counting units by at most one.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, isqrt

from discreet import mechanisms as m
from discreet._dataclass import dataclass
from discreet.plan._relation import Aggregate, Measure, MeasureKind, Project, Scan, combinations
from discreet.plan._types import Kind
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


@dataclass(frozen=True, slots=True)
class _Counts:
    """Rows of the worst unit: ``full`` groups with ``most`` each, one more with ``rest``."""

    most: int
    full: int
    rest: int

    @property
    def largest(self) -> int:
        return self.most if self.full else self.rest

    @property
    def total(self) -> int:
        return self.full * self.most + self.rest

    @property
    def squares(self) -> int:
        return self.full * self.most**2 + self.rest**2


def sensitivity(aggregate: Aggregate, measure: Measure) -> Sensitivity:
    """Exact sensitivity of one measure of an aggregate under its neighbour relation."""
    lo, hi, counts = _per_row(aggregate, measure)
    certain = not aggregate.keys and always_one_row(aggregate, measure)
    return _of_rows(aggregate, (lo, hi), counts, certain=certain)


def form_sensitivity(aggregate: Aggregate, lo: int, hi: int) -> Sensitivity:
    """Sensitivity of one integer per group to which a row adds between `lo` and `hi`."""
    counts = _counts(aggregate, aggregate.share)
    return _of_rows(aggregate, (lo, hi), counts, certain=_one_row(aggregate))


def _of_rows(
    aggregate: Aggregate, ends: tuple[int, int], counts: _Counts, *, certain: bool
) -> Sensitivity:
    """Sensitivity from the ends of what one row adds; `certain`: every unit has its one row."""
    lo, hi = ends
    a = max(abs(lo), abs(hi))
    if aggregate.neighbours is Neighbours.ADD_REMOVE:
        return Sensitivity(a * counts.total, a * a * counts.squares, a * counts.largest)
    w = max(hi, 0) + max(-lo, 0)
    move = w * counts.largest
    cells = combinations(aggregate.keys)
    if certain:
        move = hi - lo
    if cells == 1:
        return Sensitivity(move, move**2, move)
    l1, l2_squared = 2 * a * counts.total, max(2 * a * a, w * w) * counts.squares
    if counts.rest and w > a:
        filled = max(2 * a * a, w * w) * (counts.full + 1) * counts.most**2
        l2_squared = min(filled, 2 * (a * a + (w - a) ** 2) * counts.squares)
    if cells is not None:
        l1, l2_squared = min(l1, cells * move), min(l2_squared, cells * move**2)
    return Sensitivity(l1, l2_squared, move)


def partition_sensitivity(
    aggregate: Aggregate,
    total: int,
    *,
    turned: bool = False,
    signed: Sequence[tuple[int, int]] = (),
) -> Sensitivity:
    """Joint sensitivity of integers to which one row adds non-negative shares of `total`.

    `turned`: of the difference and the sum of two of them, in the one group there is. `signed`:
    ends of what a row adds to sums of either sign, which it reaches in place of the shares.
    """
    counts = _counts(aggregate, aggregate.share)
    l1, most = total * counts.total, total * counts.largest
    l2_squared = total**2 * counts.squares
    if aggregate.neighbours is Neighbours.ADD_REMOVE:
        assert not turned
        return Sensitivity(l1, l2_squared, most)
    if turned:
        assert not aggregate.keys
        return Sensitivity(2 * most, 4 * most**2, 2 * most)
    ends = [(max(hi, 0), max(-lo, 0)) for lo, hi in signed]
    assert all(max(pair) <= total for pair in ends)
    w = max((sum(pair) for pair in ends), default=total)
    if w <= total:
        return Sensitivity(2 * l1, 2 * l2_squared, most)
    worst = max(2 * total**2, w**2)
    l2_squared = worst * counts.squares
    if counts.rest:
        filled = worst * (counts.full + 1) * counts.most**2
        squares = max(a * a + b * b for a, b in ends)
        l2_squared = min(filled, 2 * max(total**2, squares) * counts.squares)
    return Sensitivity(2 * l1, l2_squared, w * counts.largest)


def powers_sensitivity(
    aggregate: Aggregate, ends: tuple[int, int], factors: tuple[int, int]
) -> Sensitivity:
    """Joint sensitivity of aΣy and bΣy² (a, b > 0), y in between, where rows replace rows."""
    assert aggregate.neighbours is Neighbours.CHANGE_ONE
    assert _one_row(aggregate)
    (u, v), (a, b) = ends, factors
    l1 = 0
    for sign in (1, -1):
        vertex = -sign * a // (2 * b)
        at = {min(max(y, u), v) for y in (u, v, vertex, vertex + 1)}
        values = [a * y + sign * b * y * y for y in at]
        l1 = max(l1, max(values) - min(values))
    squares = 0
    for wide in (2 * v, -2 * u):
        root = isqrt(max(wide * wide * b * b - 8 * a * a, 0))
        inside = (3 * wide * b - root) // (4 * b)
        for s in (inside - 1, inside, inside + 1, v - u):
            near = min(max(s, 0), v - u)
            squares = max(squares, near**2 * (a * a + b * b * (wide - near) ** 2))
    largest = max(abs(u), abs(v)) ** 2 - (0 if u <= 0 <= v else min(abs(u), abs(v)) ** 2)
    return Sensitivity(l1, squares, max(a * (v - u), b * largest))


def linear_sensitivity(aggregate: Aggregate, rows: tuple[tuple[int, ...], ...]) -> Sensitivity:
    """Exact sensitivity of linear queries over the cells of an aggregate of counts.

    A kept row adds one column of the matrix (or, with a key that is NULL or not
    public, nothing). Adding R of them moves the answers by at most R columns;
    changing the only row of a unit by the difference of two columns.
    """
    matrix = [list(row) for row in rows]
    most = aggregate.relation.m
    assert most is not None
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


def _per_row(aggregate: Aggregate, measure: Measure) -> tuple[int, int, _Counts]:
    """Bounds of what one row adds, and how many such rows a unit has."""
    most = aggregate.share
    if measure.kind is MeasureKind.SUM:
        return measure.type.lo, measure.type.hi, _counts(aggregate, most)
    if measure.kind is MeasureKind.UNITS and aggregate.unit is not None:
        # a unit counts once per group, however many rows it has there
        most = 1
    if measure.kind is MeasureKind.DISTINCT and measure.type.kind is not Kind.TEXT:
        most = min(most, measure.type.size)
    return 0, 1, _counts(aggregate, most)


def _counts(aggregate: Aggregate, most: int) -> _Counts:
    """Rows that count, per group of the worst unit, with at most `most` in one."""
    rows, groups = aggregate.relation.m, aggregate.reach
    assert rows is not None
    most = min(most, rows)
    full = min(rows // most, groups) if most else 0
    return _Counts(most, full, min(rows - full * most, most) if full < groups else 0)


def always_one_row(aggregate: Aggregate, measure: Measure) -> bool:
    """Whether each unit certainly adds exactly one row and one non-NULL value."""
    kept = measure.kind is MeasureKind.SUM and not measure.type.nullable
    return kept and _one_row(aggregate)


def _one_row(aggregate: Aggregate) -> bool:
    relation = aggregate.relation
    plain = isinstance(relation, Project) and isinstance(relation.below, Scan)
    return plain and aggregate.unit is None and not aggregate.keys
