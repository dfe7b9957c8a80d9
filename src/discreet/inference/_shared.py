r"""How large squares of sums over the same rows can be.

The score of a ratio or a difference adds up :math:`\psi=\sum_jf_jx_j` over rows, the x being
values of several statistics, zero where a statistic does not count the row. Its variance
needs :math:`\sum\psi^2=\sum_{ij}f_if_jS_{ij}`, :math:`S_{ij}=\sum x_ix_j`. What was released
and what the types prove of the rows (:mod:`discreet.plan`, "shared rows") bound every S:

- two statistics whose rows are apart have S = 0;
- of counts, S is the number of common rows: the smaller count where one is within the other;
- values are taken about their mean m̂, u = x − m̂, and are sums of squares of their own where
  VAR is asked, else at most n(hi − m̂)(m̂ − lo) (Bhatia–Davis). A value about its mean has no
  product with ones over its own rows;
- two values over the same rows have at most what their means allow, by Fréchet:
  of p and q, the means as parts of their ranges, :math:`\min(p,q)-pq` and
  :math:`\max(0,p+q-1)-pq` ranges' products a row; always √(S S) (Cauchy–Schwarz);
- a value over part of the rows of the same value is cut out of it: both become values that
  are apart. A share of a sum has a variance like that of a count, hiθ(1 − θ)Σx.

The noise of all numbers is bounded at once, number by number.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from discreet._dataclass import dataclass, replace
from discreet.inference._laws import Floats

Rows = tuple[int, frozenset[int]]
"""A set of rows by its number, less others within it."""


@dataclass(frozen=True)
class Relations:
    """What is known of sets of rows, by their numbers."""

    apart: frozenset[frozenset[int]]
    within: frozenset[tuple[int, int]]

    def divided(self, a: Rows, b: Rows) -> bool:
        """Whether certainly no row is in both."""
        return (
            frozenset((a[0], b[0])) in self.apart
            or any(self._part(a[0], cut) for cut in b[1])
            or any(self._part(b[0], cut) for cut in a[1])
        )

    def inside(self, a: Rows, b: Rows) -> bool:
        """Whether certainly every row of the first is in the second."""
        return self._part(a[0], b[0]) and all(
            cut in a[1] or frozenset((a[0], cut)) in self.apart for cut in b[1]
        )

    def _part(self, a: int, b: int) -> bool:
        return a == b or (a, b) in self.within


@dataclass(frozen=True, eq=False)
class Column:
    """A number of every row, or ones: how its sums follow from what was released."""

    total: Floats
    rows: Rows
    lo: float = 1.0
    hi: float = 1.0
    value: int | None = None
    """What it is a value of; None: ones."""
    count: Floats | None = None
    """Weights of the number of its rows, where that is released."""
    squares: Floats | None = None

    def less(self, others: Sequence[Column]) -> Column:
        """The same number on rows that none of the others has."""
        every = (self, *others)
        total = _less([c.total for c in every])
        assert total is not None
        return replace(
            self,
            total=total,
            rows=(self.rows[0], frozenset(c.rows[0] for c in others)),
            count=_less([c.count for c in every]),
            squares=_less([c.squares for c in every]),
        )


def _less(every: Sequence[Floats | None]) -> Floats | None:
    """The first less the others, if all are known."""
    terms = [x for x in every if x is not None]
    return terms[0] - np.sum(terms[1:], axis=0) if len(terms) == len(every) else None


def divided(columns: Sequence[Column], relations: Relations) -> tuple[list[Column], Floats]:
    """Columns that overlap as little as possible, and coefficients of these from those."""
    pieces, change = list(columns), np.eye(len(columns))
    for j in sorted(range(len(columns)), key=lambda j: -_depth(columns, j, relations)):
        inner = [i for i in range(len(columns)) if _cut(columns, i, j, relations)]
        near = [i for i in inner if not any(_cut(columns, i, k, relations) for k in inner)]
        pairs = [(a, b) for a in near for b in near if a < b]
        if all(relations.divided(columns[a].rows, columns[b].rows) for a, b in pairs) and near:
            pieces[j] = columns[j].less([columns[i] for i in near])
            for i in near:
                change[:, i] += change[:, j]
    return pieces, change


def _depth(columns: Sequence[Column], j: int, relations: Relations) -> int:
    """How many columns are cut out of one: what holds others comes first."""
    return sum(_cut(columns, i, j, relations) for i in range(len(columns)))


def _cut(columns: Sequence[Column], i: int, j: int, relations: Relations) -> bool:
    """Whether one column is another on part of its rows."""
    a, b = columns[i], columns[j]
    return a.value == b.value and a.rows != b.rows and relations.inside(a.rows, b.rows)


@dataclass(frozen=True, eq=False)
class Squares:
    """Bounds in one cell. `reach` is how far the noise of each part is out at most."""

    whole: tuple[Column, ...]
    relations: Relations
    values: Floats
    reach: Floats

    @cached_property
    def _columns(self) -> tuple[list[Column], Floats]:
        return divided(self.whole, self.relations)

    def near(self, weights: Floats) -> tuple[float, float]:
        """A combination of what was released, and how far its noise is out at most."""
        return float(weights @ self.values), float(np.abs(weights) @ self.reach)

    def at_most(self, f: Floats) -> Floats:
        """Σψ² at most, for lines of coefficients of the columns; infinite where nothing is known.

        What is not known is infinite, and counts wherever its coefficients are not zero.
        """
        _, change = self._columns
        turn, high, low = self._table
        g = f @ change @ turn
        products = g[:, :, None] * g[:, None, :]
        with np.errstate(invalid="ignore"):
            each = np.where(products > 0, products * high, products * low)
        each = np.where(products == 0, 0.0, each)
        return np.asarray(np.maximum(each.sum(axis=(1, 2)), 0.0))

    def widest(self, f: Floats) -> Floats:
        """|ψ| of one row at most: rows of two sets that may meet have both."""
        columns, change = self._columns
        g = f @ change
        sets = list(dict.fromkeys(c.rows for c in columns))
        reach = []
        for rows in sets:
            own = [(g[:, i], c) for i, c in enumerate(columns) if c.rows == rows]
            ends = [np.stack([x * c.lo, x * c.hi]) for x, c in own]
            low, high = (sum(pick(e, axis=0) for e in ends) for pick in (np.min, np.max))
            reach.append(np.maximum(np.abs(low), np.abs(high)))
        meet = [[not self.relations.divided(a, b) for b in sets] for a in sets]
        both = [sum(r for r, m in zip(reach, row, strict=True) if m) for row in meet]
        return np.asarray(np.max(both, axis=0), dtype=np.float64)

    # -- the table of sums of products ---------------------------------------------------------

    @cached_property
    def _table(self) -> tuple[Floats, Floats, Floats]:
        """Coefficients of values about their means and of ones; upper and lower bounds."""
        columns, _ = self._columns
        parts = [self._part(c) for c in columns]
        turn = np.eye(len(parts))
        for i, part in enumerate(list(parts)):
            if part.mean:
                count = columns[i].count
                assert count is not None
                at = next((k for k, p in enumerate(parts) if p.ones and p.rows == part.rows), None)
                if at is None:
                    at = len(parts)
                    parts.append(self._part(Column(count, part.rows)))
                    turn = np.pad(turn, ((0, 0), (0, 1)))
                turn[i, at] += part.mean
        size = len(parts)
        high, low = np.zeros((size, size)), np.zeros((size, size))
        for i, a in enumerate(parts):
            high[i, i] = low[i, i] = a.squares
            for j in range(i):
                low[i, j], high[i, j] = low[j, i], high[j, i] = self._product(a, parts[j])
        return turn, high, low

    def _part(self, c: Column) -> _Part:
        total, off = self.near(c.total)
        if c.value is None:
            return _Part(c.rows, max(total + off, 0.0), (max(total - off, 0.0), total + off))
        if c.count is not None:
            n, away = self.near(c.count)
            if n - away > 0:
                return self._about(c, (n, away))
        top = max(total + off, 0.0)
        squares = c.hi * top if c.lo >= 0 else np.inf
        return _Part(c.rows, squares, (max(total - off, 0.0), top), lo=c.lo, hi=c.hi, ones=False)

    def _about(self, c: Column, rows: tuple[float, float]) -> _Part:
        """Values about their mean."""
        assert c.count is not None
        n, away = rows
        mean = float(np.clip(c.total @ self.values / n, c.lo, c.hi))
        _, off = self.near(c.total - mean * c.count)
        near = off / (n - away)
        middle = float(np.clip((c.lo + c.hi) / 2, mean - near, mean + near))
        most = (n + away) * (c.hi - middle) * (middle - c.lo)
        if c.squares is not None:
            spread, extra = self.near(c.squares - 2 * mean * c.total + mean**2 * c.count)
            most = min(most, max(spread, 0.0) + extra)
        span = (mean, near, n + away)
        most = max(most, 0.0) + off * near
        return _Part(c.rows, most, (-off, off), mean, span, lo=c.lo, hi=c.hi, ones=False)

    def _product(self, a: _Part, b: _Part) -> tuple[float, float]:
        """Σ of the products of two parts at least and at most."""
        if self.relations.divided(a.rows, b.rows):
            return 0.0, 0.0
        most = float(np.sqrt(a.squares) * np.sqrt(b.squares)) if a.squares * b.squares else 0.0
        if a.ones or b.ones:
            one, other = (a, b) if a.ones else (b, a)
            if self.relations.inside(other.rows, one.rows):
                return other.total
            if other.ones and self.relations.inside(one.rows, other.rows):
                return one.total
            positive = other.ones or (other.span is None and other.lo >= 0)
            return (0.0 if positive else -most), min(most, other.total[1]) if positive else most
        if a.span and b.span and a.rows == b.rows:
            low, high = _frechet(a, b)
            return max(-most, low), min(most, high)
        positive = not a.span and not b.span and min(a.lo, b.lo) >= 0
        return (0.0 if positive else -most), most


@dataclass(frozen=True, eq=False)
class _Part:
    """A column about its mean, or as it is: Σx² at most, and Σx at least and at most."""

    rows: Rows
    squares: float
    total: tuple[float, float]
    mean: float = 0.0
    span: tuple[float, float, float] | None = None
    """The mean, how far off it may be, and the number of rows at most; None: as it is."""
    lo: float = 1.0
    hi: float = 1.0
    ones: bool = True


def _frechet(a: _Part, b: _Part) -> tuple[float, float]:
    """Covariance of two bounded values with these means, times the number of rows."""
    assert a.span
    assert b.span
    ranges = a.hi - a.lo, b.hi - b.lo
    if min(ranges) <= 0:
        return 0.0, 0.0
    p, q = (a.span[0] - a.lo) / ranges[0], (b.span[0] - b.lo) / ranges[1]
    near = a.span[1] / ranges[0] + b.span[1] / ranges[1]
    size = min(a.span[2], b.span[2]) * ranges[0] * ranges[1]
    return (max(0.0, p + q - 1) - p * q - near) * size, (min(p, q) - p * q + near) * size
