"""Which integers answer counts, sums, means and variances of one question.

Statistics of one expression form a *family*: a count needs no powers of the value, a sum and
a mean the first, a variance the second. A family that must know how many values there are
is measured as one joint part (:mod:`discreet.plan._joint` proves its price); a sum or a
count asked alone stays a plain vector, which is cheaper. The number of all rows is read off one
family, the one that pays least for it, with NULL as one more integer; the number of rows that pass
a condition off a family of values under that condition (:meth:`.Wants.unite`).

Families whose values public types prove to be NULL in each other's rows
(:mod:`discreet.plan._disjoint`) form a *cluster*: one joint part, in which
every family is brought to one common total D by a whole factor. A row reaches one of them, so it
adds at most D in absolute value to all integers together, a unit of c rows in a group at most cD,
and the norms of the proof in ``_joint`` hold, signs included. Under change-one a row leaves one
family and enters another: twice as much in L1, √2 times in L2 where nothing has a sign
(:mod:`discreet.plan._stability`), however many families there are.

*Two shares.* Without groups a count alone moves by one when a row changes, not by two. So there a
cluster takes two shares of the price, as two counts would: beside o other draws its noise goes with
2(2 + o)/2, that of n ≥ 2 counts apart with n + o. Nothing that is asked becomes wider by it.
"""

from __future__ import annotations

from enum import IntEnum
from fractions import Fraction

from discreet._dataclass import dataclass
from discreet.plan._expr import Expr
from discreet.plan._joint import Form
from discreet.plan._means import Dispersion, Quotient, WeightedSum


class Moment(IntEnum):
    """What a statistic needs of an expression."""

    COUNT = 0
    SUM = 1
    MEAN = 2
    SPREAD = 3


@dataclass(frozen=True)
class Sums:
    """Places of the engine's sums for one family among the measures of a question."""

    rows: int
    passing: int
    count: int
    first: int = -1
    second: int = -1
    """Of squares about the middle of the range."""


@dataclass(frozen=True)
class Family:
    """Integers of one expression: how they follow from sums, and statistics from them."""

    expr: Expr
    degree: int
    inner: bool
    """Whether rows that pass the condition of its values, and have none, are counted as well."""
    null: bool
    """Whether all other rows without a value are."""
    turned: bool
    """Whether two integers are measured as their difference and sum."""
    start: int = 0
    """First of its releases."""
    times: int = 1
    """Factor that brings it to the total of its cluster."""
    plain: bool = False
    """Whether it is a sum alone, with sign, in a cluster."""

    @property
    def total(self) -> int:
        """What one row shares out."""
        return self.times * self.own

    @property
    def own(self) -> int:
        """The same before the factor."""
        if self.plain:
            return max(abs(self.expr.type.lo), abs(self.expr.type.hi), 1)
        return int(self._range**self.degree)

    @property
    def ends(self) -> tuple[int, int]:
        """What a row adds to a sum alone, at least and at most."""
        return self.times * self.expr.type.lo, self.times * self.expr.type.hi

    @property
    def _range(self) -> int:
        return self.expr.type.hi - self.expr.type.lo

    @property
    def size(self) -> int:
        """How many integers there are."""
        return 1 if self.plain else self._passing + self.null

    @property
    def _passing(self) -> int:
        return self.degree + 1 + self.inner

    def forms(self, at: Sums) -> tuple[Form, ...]:
        """The integers, as forms over the engine's sums."""
        forms = self._shares(at)
        if self.inner:
            forms.append({at.passing: self.own, at.count: -self.own})
        if self.null:
            forms.append({at.rows: self.own, at.passing: -self.own})
        if self.turned:
            u, v = forms
            forms = [_plus(u, v, -1), _plus(u, v, 1)]
        t = self.times
        return tuple(tuple((m, t * c) for m, c in form.items() if c) for form in forms)

    def _shares(self, at: Sums) -> list[dict[int, int]]:
        if self.plain:
            return [{at.first: 1}]
        lo, hi, r = self.expr.type.lo, self.expr.type.hi, self._range
        if self.degree == 0:
            return [{at.count: 1}]
        if self.degree == 1:
            return [{at.first: 1, at.count: -lo}, {at.count: hi, at.first: -1}]
        centre = (lo + hi) // 2
        k = centre - lo
        once = {at.first: 1, at.count: -lo}
        twice = {at.second: 1, at.first: 2 * k, at.count: k * k - 2 * k * centre}
        ends = _plus(_plus({at.count: r * r}, once, -2 * r), twice, 1)
        return [ends, _plus(_plus({}, once, 2 * r), twice, -2), twice]

    def shares(self) -> dict[int, dict[int, Fraction]]:
        """Every release in shares of rows, which are named by the releases too."""
        if self.plain:
            return {}
        d = Fraction(self.total)
        if self.turned:
            p, q = self.cells
            return {p: {p: d, q: -d}, q: {p: d, q: d}}
        return {cell: {cell: d} for cell in self.cells}

    # -- statistics -----------------------------------------------------------------------

    @property
    def cells(self) -> tuple[int, ...]:
        """Its releases."""
        return tuple(range(self.start, self.start + self.size))

    def _weights(self, *shares: Fraction) -> tuple[Fraction, ...]:
        """Weights of the releases for given weights of the shares."""
        weights = [x / self.total for x in shares]
        weights += [Fraction(0)] * (self.size - len(weights))
        if self.turned:
            u, v = weights
            weights = [(u - v) / 2, (u + v) / 2]
        return tuple(weights)

    def _values(self) -> list[Fraction]:
        """Value that each share stands for: the ends of the range, and the middle between."""
        t = self.expr.type
        if self.plain:
            return [self.own * t.step]
        if self.degree == 0:
            return [t.lo * t.step]
        low, high = t.lo * t.step, t.hi * t.step
        return [high, low] if self.degree == 1 else [low, (low + high) / 2, high]

    def count(self) -> WeightedSum:
        """Rows with a value."""
        return self._combined(*[Fraction(1)] * (self.degree + 1))

    def passing(self) -> WeightedSum:
        """Rows that pass the condition of its values."""
        return self._combined(*[Fraction(1)] * self._passing)

    def rows(self) -> WeightedSum:
        """All rows."""
        return self._combined(*[Fraction(1)] * self.size)

    def sum(self) -> WeightedSum:
        """Sum of the values."""
        return self._combined(*self._values())

    def _combined(self, *shares: Fraction) -> WeightedSum:
        pairs = zip(self.cells, self._weights(*shares), strict=True)
        cells, weights = zip(
            *[(c, w) for c, w in pairs if w] or [(self.start, Fraction(0))], strict=True
        )
        return WeightedSum(cells, weights)

    def mean(self) -> Quotient:
        """Sum over count."""
        t, ones = self.expr.type, [Fraction(1)] * (self.degree + 1)
        count = self.degree + 1
        return Quotient(
            self.cells[:count],
            self._weights(*self._values())[:count],
            self._weights(*ones)[:count],
            t.lo * t.step,
            t.hi * t.step,
        )

    def spread(self, *, sample: bool, root: bool) -> Dispersion:
        """Variance or its root."""
        t = self.expr.type
        low, width = t.lo * t.step, self._range * t.step
        return Dispersion(self.cells[:3], self.total, low, width, sample=sample, root=root)


def _plus(a: dict[int, int], b: dict[int, int], times: int) -> dict[int, int]:
    return {m: a.get(m, 0) + times * b.get(m, 0) for m in a | b}
