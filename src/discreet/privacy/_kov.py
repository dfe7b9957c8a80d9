"""Optimal composition of (ε, δ) promises, in closed form and by enumeration.

Every (ε, δ)-DP mechanism is a post-processing of randomised response that fails
with probability δ, so composing promises is composing randomised responses:

* k equal ones (Kairouz, Oh & Viswanath 2015):
  1 − (1−δ)^k(1−δ̃), δ̃(ε_g) = Σ_{l: (k−2l)ε>ε_g} C(k,l)(e^{(k−l)ε} − e^{ε_g+lε})/(1+e^ε)^k;
* different ones (Murtagh & Vadhan 2016): the same with a sum over all subsets,
  #P-hard in general; here by enumeration, for a few. :func:`~discreet.privacy.compose`
  gives the same numbers by convolution and for any length.
* closed form (of the same authors), for reading and for comparison.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from discreet import _exact
from discreet._exact import Number, ceil_float, decimal
from discreet.errors import ParameterError
from discreet.privacy._loss import read_delta

_ENUMERABLE = 1 << 20


def kov_delta(epsilon: Number, k: int, total: Number, delta: Number = 0) -> float:
    """Return the optimal δ at ε = `total` of `k` mechanisms that are (ε, δ)-DP.

    >>> kov_delta("0.1", 1000, "28.4475") < 1.001e-14
    True
    """
    step, goal = _exact.epsilon(epsilon), decimal(total, "total")
    each = read_delta(delta)
    e = float(step)
    log_all = k * (e + math.log1p(math.exp(-e)))
    # in units of the common denominator the gap (k−2l)ε − ε_g is an exact integer
    unit = math.lcm(step.denominator, goal.denominator)
    a, b = int(step * unit), int(goal * unit)
    terms = []
    for lower in range(k + 1):
        gap = (k - 2 * lower) * a - b
        if gap <= 0:
            break
        log_choose = math.lgamma(k + 1) - math.lgamma(lower + 1) - math.lgamma(k - lower + 1)
        head = log_choose + (k - lower) * e - log_all
        terms.append(math.exp(head) * -math.expm1(-gap / unit))
    # lgamma and the exponent err by a few ulp of their size
    failing = min(1.0, math.fsum(terms) * (1 + 2.0**-48 * (k * (1 + e) + k * math.log(k + 1))))
    return _with_failures(failing, (1 - each) ** k)


def kov_epsilon(epsilon: Number, k: int, delta: Number, target: Number) -> float:
    """Return the least ε at which `k` mechanisms that are (ε, δ)-DP have δ ≤ `target`.

    >>> round(kov_epsilon("0.1", 100, 0, "1e-6"), 6)
    4.774568
    """
    goal = read_delta(target)
    top = ceil_float(k * _exact.epsilon(epsilon))
    if goal < 1 - (1 - read_delta(delta)) ** k:
        return math.inf

    def fits(e: float) -> bool:
        return kov_delta(epsilon, k, e, delta) <= goal

    return 0.0 if fits(0.0) else _exact.turning(fits, 0.0, top, 1e-12)[1]


def kov_closed_form(epsilon: Number, k: int, slack: Number) -> float:
    """Return the simple bound min of basic and two square-root forms, for pure ε.

    >>> round(kov_closed_form("0.1", 100, "1e-6"), 4)
    5.7561
    """
    e, d = ceil_float(_exact.epsilon(epsilon)), float(_exact.delta(slack))
    drift = k * e * math.tanh(0.5 * e)
    first = drift + e * math.sqrt(2 * k * math.log(math.e + math.sqrt(k * e * e) / d))
    second = drift + e * math.sqrt(2 * k * math.log(1 / d))
    return min(k * e, first, second) * (1 + 2.0**-48)


def murtagh_vadhan_delta(
    epsilons: Sequence[Number], total: Number, deltas: Sequence[Number] | None = None
) -> float:
    """Return the optimal δ at ε = `total` of a few different (ε, δ)-DP mechanisms.

    >>> round(murtagh_vadhan_delta(["0.1", "0.2"], "0.25"), 6)
    0.014078
    """
    steps = [_exact.epsilon(e) for e in epsilons]
    goal, whole = decimal(total, "total"), sum(steps, Fraction(0))
    success = math.prod((1 - read_delta(d) for d in deltas or ()), start=Fraction(1))
    log_all = math.fsum(float(e) + math.log1p(math.exp(-float(e))) for e in steps)
    terms = []
    for plus, ways in _subset_sums(steps).items():
        gap = 2 * plus - whole - goal
        if gap > 0:
            terms.append(ways * math.exp(float(plus) - log_all) * -math.expm1(-float(gap)))
    failing = min(1.0, math.fsum(terms) * (1 + 2.0**-49 * (8 + log_all)))
    return _with_failures(failing, success)


def _subset_sums(steps: Sequence[Fraction]) -> Counter[Fraction]:
    """Count the subsets by their sum; equal sums meet, which keeps lattices small."""
    counts = Counter({Fraction(0): 1})
    for step in steps:
        moved = Counter({total + step: ways for total, ways in counts.items()})
        counts = counts + moved
        if len(counts) > _ENUMERABLE:
            raise ParameterError(
                f"enumeration is for at most {_ENUMERABLE} different sums",
                hint="p.compose(losses)",
            )
    return counts


def _with_failures(failing: float, success: Fraction) -> float:
    return ceil_float(1 - success * (1 - Fraction(failing)))
