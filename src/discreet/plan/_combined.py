r"""Sums and counts of one output, measured as one vector.

Guarantee
---------
What one row adds to :math:`\sum_e(a_e\mathrm{SUM}(e)+c_e\mathrm{COUNT}(e))+b\,\mathrm{COUNT}(*)`
lies between the two ends that a :class:`Combined` states, whatever the row holds. So
:func:`~discreet.plan._stability.form_sensitivity` prices it.

Proof sketch
------------
SUM and COUNT pass over NULL, each on its own: a row adds b, and :math:`a_ee+c_e` for every
expression that has a value in it, nothing for one that has none. Codes lie within the public range
of their type and :math:`a_ee+c_e` is monotone in the code, so each expression adds a number between
the least and the greatest of its corners (0 among them where it may be NULL), and all together add
no more than these added up. Where the public types prove that a row adds to one sum at most
(:func:`~discreet.plan._disjoint.exclusive`), it adds b, or b and what one of them adds.

Where it is smaller
-------------------
Apart, n sums that a row moves by up to :math:`m_e` get n shares: the standard deviation of their
combination is proportional to :math:`n\sqrt{\sum m_e^2}`, at least :math:`\sqrt n\sum m_e` by
Cauchy, and of Gaussian noise :math:`\sqrt n\sqrt{\sum m_e^2}\ge\sum m_e`. One vector has
:math:`\max\le\sum m_e`, so it is never wider, nor is anything beside it: there are fewer draws.
Of disjoint sums a cluster would have one draw too, for :math:`\max m_e` in each of them; the one
vector has that in all of them together. Where only some are disjoint either may be smaller: they
stay apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import lcm

from discreet._dataclass import dataclass
from discreet.plan._disjoint import exclusive
from discreet.plan._expr import Expr
from discreet.plan._families import Moment

Term = tuple[Expr | None, Moment, Fraction]
"""A sum or a count of an expression (None: of rows), and how many times it counts."""


@dataclass(frozen=True)
class Combined:
    """Whole coefficients of a combination, and the ends of what one row adds to it."""

    whole: int
    """What it is divided by afterwards."""
    rows: int
    each: tuple[tuple[Expr, int, int], ...]
    """Expressions, with the coefficients of their sums and of their counts."""
    ends: tuple[int, int]


def combined(terms: Iterable[Term]) -> Combined:
    """Bring a combination to integers, and bound what one row adds."""
    slopes: dict[Expr, Fraction] = {}
    counts: dict[Expr, Fraction] = {}
    rows = Fraction(0)
    for expr, moment, times in terms:
        if expr is None:
            rows += times
            continue
        summed = moment is Moment.SUM
        slopes[expr] = slopes.get(expr, Fraction(0)) + (times * expr.type.step if summed else 0)
        counts[expr] = counts.get(expr, Fraction(0)) + (0 if summed else times)
    whole = lcm(*(x.denominator for x in (rows, *slopes.values(), *counts.values())))
    each = tuple([(e, int(slopes[e] * whole), int(counts[e] * whole)) for e in slopes])
    b, corners = int(rows * whole), [_corners(*x) for x in each]
    if exclusive(slopes):
        added = [b, *(b + x for some in corners for x in some)]
    else:
        added = [b + sum(map(pick, corners)) for pick in (min, max)]
    return Combined(whole, b, each, (min(added), max(added)))


def _corners(expr: Expr, a: int, c: int) -> list[int]:
    """What a row adds at the ends of the range, and where there is no value."""
    values = [a * code + c for code in (expr.type.lo, expr.type.hi)]
    return [*values, 0] if expr.type.nullable else values
