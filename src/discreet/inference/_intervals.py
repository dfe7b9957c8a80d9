r"""Intervals from the noise alone: exact, free, for every law.

Guarantee
---------
The noise law is public and independent of the data, so :math:`z - N` pivots:
:math:`P(z - c_2 \le f(D) \le z - c_1) = P(c_1 \le N \le c_2)` for every data set.

* *Simultaneous*: k cells with independent noise stay inside their intervals
  with probability :math:`\prod_i P_i`, so each gets the level
  :math:`(1-\alpha)^{1/k}` (Laplace: :math:`-b\ln(1-(1-\alpha)^{1/k})`). The union
  bound, :math:`b\ln(k/\alpha)` for Laplace, needs no independence.
* *Ratios* S/C of two releases (means with a private n): both boxes hold with
  probability at least :math:`1-\alpha` when each is taken at
  :math:`\sqrt{1-\alpha}` (independent noise), and the ratio over the box is an interval.

What such an interval covers is the query's value on the data it was computed
from, after all clamping and contribution limits. It does not know of sampling
error; :mod:`._sampling` and :mod:`._proportion` do.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, Literal, Unpack, get_args

import numpy as np

from discreet import _exact
from discreet._dataclass import replace
from discreet._exact import Number
from discreet.errors import Hint, ParameterError
from discreet.inference._chosen import among, by_noise, said
from discreet.inference._inputs import Description, Noisy, resolve, shared
from discreet.inference._laws import Noise
from discreet.inference._results import QUERY, Interval, one_of, plain

Side = Literal["two-sided", "lower", "upper"]


def interval(
    value: Any,
    confidence: Number = 0.95,
    *,
    side: Side = "two-sided",
    simultaneous: bool | Literal["bonferroni"] = False,
    **description: Unpack[Description],
) -> Interval:
    """Return where the exact value of a released query lies.

    Parameters
    ----------
    value
        A release, a column of an answer as ``(answer, "n", row)``, a
        :func:`noisy` number, or a plain number or array with its noise
        described by `law`, or by `noise` and its parameters.
    confidence
        Probability with which the interval holds; per cell, or for all cells.
    side
        "lower" bounds the value from below only, "upper" from above only.
    simultaneous
        Whether all cells are covered at once: exact for independent cells, or
        "bonferroni" for the union bound. For dependent cells see
        :meth:`Combined.intervals`.

    Notes
    -----
    A row that noisy numbers chose (HAVING, QUALIFY, ORDER BY with LIMIT) has the interval that
    its answer shows, which holds over the choice; one-sided, an end of it. ``covers`` says so.

    Examples
    --------
    >>> from discreet import inference as inf
    >>> inf.interval(4, 0.9, noise="laplace", epsilon=1)
    [1.69741, 6.30259] (90 %)
    >>> inf.interval([5, -3, 1], noise="laplace", epsilon=1, sensitivity=3,
    ...              simultaneous="bonferroni").half_width.round(3)
    array([12.283, 12.283, 12.283])
    >>> inf.interval(4, 0.9, noise="geometric", epsilon=1)
    [2, 6] (92.72 %)
    """
    item = resolve(value, of_chosen=True, **description)
    item = replace(item, chosen=by_noise(item.chosen))
    level = _exact.confidence(confidence)
    if item.chosen:
        one_of(side, get_args(Side), "side")
        each = _per_cell(level, item.size, bool(simultaneous) and "bonferroni")
        low, high, covers = range_of(item, each)
        low, high = (-math.inf if side == "upper" else low), (math.inf if side == "lower" else high)
        return Interval(low, high, level, covers)
    each = _per_cell(level, item.size, simultaneous)
    low, high, achieved = _noise_range(item.noise, each, side)
    if simultaneous == "bonferroni":
        achieved = 1 - item.size * (1 - achieved)
    elif simultaneous:
        achieved = math.exp(item.size * math.log(achieved))
    return Interval(item.value - high, item.value - low, max(achieved, level), QUERY)


def range_of(item: Noisy, level: float) -> tuple[Any, Any, str]:
    """Ends of one exact number, and what they cover; valid over a choice where noise made one."""
    if len(item.chosen) == 1 and (ends := item.chosen[0].ends(item.value, level)) is not None:
        return *ends, item.chosen[0].covers
    rows = among(item.chosen, "an interval")
    low, high, _ = item.noise.range(1 - (1 - level) / rows)
    value = np.asarray(item.value)
    return plain(value - high), plain(value - low), said(QUERY, rows)


def _per_cell(confidence: float, cells: int, simultaneous: bool | str) -> float:
    if simultaneous not in (True, False, "bonferroni"):
        raise ParameterError(
            f"simultaneous is True, False or 'bonferroni', got {simultaneous!r}",
            hint=Hint("simultaneous", True),
        )
    if not simultaneous or cells == 1:
        return confidence
    if simultaneous == "bonferroni":
        return 1 - (1 - confidence) / cells
    return -math.expm1(math.log(-math.expm1(math.log(confidence) / cells)))


def _noise_range(noise: Noise, confidence: float, side: str) -> tuple[float, float, float]:
    if one_of(side, get_args(Side), "side") == "two-sided":
        return noise.range(confidence)
    if side == "lower":
        top = noise.quantile_above(1 - confidence)
        return -math.inf, top, float(noise.at_most(top))
    bottom = noise.quantile_below(1 - confidence)
    return bottom, math.inf, float(noise.at_least(bottom))


def ratio_interval(
    numerator: Any,
    denominator: Any,
    confidence: Number = 0.95,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    least: float = 0.0,
) -> Interval:
    """Return where the ratio of two released queries lies (a mean with a private n).

    Parameters
    ----------
    numerator, denominator
        Releases with independent noise, of equal length.
    low, high
        Public range of the ratio, for instance the clamping bounds of a mean.
    least
        Public lower bound on the true denominator, for instance 1 where the
        group is known not to be empty.

    Notes
    -----
    Where the denominator may be zero at this confidence, the interval is the
    whole public range: that is what the data say.

    Examples
    --------
    >>> from discreet import inference as inf, noise
    >>> total = inf.noisy(5000, law=noise.DiscreteLaplace(100))
    >>> count = inf.noisy(100, law=noise.DiscreteLaplace(2))
    >>> inf.ratio_interval(total, count, low=0, high=200)
    [43.2897, 57.7204] (95 %)
    """
    top, bottom = (resolve(side, of_chosen=True) for side in (numerator, denominator))
    shared([top, bottom])
    if top.size not in (1, bottom.size) and bottom.size != 1:
        raise ParameterError(f"{top.size} numerators for {bottom.size} denominators")
    own = by_noise(top.chosen + bottom.chosen)
    level, rows = _exact.confidence(confidence), among(own, "a ratio")
    # the choice makes the two depend on each other
    each = math.sqrt(level) if rows == 1 else (1 + level) / 2
    a, b = (tuple(map(np.asarray, range_of(side, each)[:2])) for side in (top, bottom))
    b_low, b_high = np.maximum(b[0], least), np.maximum(b[1], least)
    unknown = (b_low <= 0) & (b_high >= 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        corners = [np.divide(x, y) for x in a for y in (b_low, b_high)]
    ends = (
        np.where(unknown, -np.inf, np.minimum.reduce(corners)),
        np.where(unknown, np.inf, np.maximum.reduce(corners)),
    )
    covers = QUERY if rows == 1 else f"{QUERY}, allowing for the choice of the row by noisy numbers"
    return Interval(plain(ends[0]), plain(ends[1]), level, covers).clipped(low, high)


def nonnegative_bias(law: Any, count: int = 0, *, step: Number = 1) -> float:
    r"""Return how much replacing negative answers by zero inflates a true count.

    :math:`E\max(c+N,0)-c = \sum_{j\ge1}P(N\le -c-j)` on a lattice and
    :math:`\int_c^\infty P(N\le -t)\,dt` otherwise; exact for every symmetric law.
    It is largest at c = 0, so k empty cells inflate a total by k times that.

    Examples
    --------
    >>> from discreet import inference as inf, noise
    >>> round(inf.nonnegative_bias(noise.DiscreteLaplace(1), 0), 5)
    0.42546
    """
    from scipy.integrate import quad  # noqa: PLC0415 - only the continuous laws need it

    from discreet.inference._inputs import read_law  # noqa: PLC0415 - cycle

    item = read_law(law, step)
    reach = item.quantile_above(1e-18) + abs(count) + 1
    if item.discrete:
        unit = float(item.step)
        j = np.arange(1, math.ceil((reach + abs(count)) / unit) + 2)
        return float(item.at_most(-count - j * unit).sum() * unit + 0.0)
    # below zero the integrand is near one; the kink at t = 0 gets its own piece
    pieces = sorted({float(count), max(float(count), 0.0), reach + abs(count)})
    return math.fsum(
        quad(lambda t: float(item.at_most(-t)), a, b, epsabs=1e-14)[0]
        for a, b in itertools.pairwise(pieces)
    )
