r"""Tails of linear combinations of noise: what intervals of counts, means and spreads rest on.

Guarantee
---------
:func:`tail` is at least :math:`P(|\sum_j c_j\eta_j| \ge s)` for independent noises
:math:`\eta_j` of the laws that parts draw from.

Proof sketch
------------
*Continuous Laplace*, scales :math:`a_j=|c_j|b_j` all different: the characteristic function
:math:`\prod(1+a_j^2\omega^2)^{-1}` has the partial fractions
:math:`\sum_j A_j(1+a_j^2\omega^2)^{-1}`, :math:`A_j=\prod_{i\ne j}a_j^2/(a_j^2-a_i^2)`,
so the tail is :math:`\sum_jA_je^{-s/a_j}`. Scales closer than a fixed ratio are enlarged
until they differ: the density is symmetric and unimodal, hence a larger scale has the larger
tail. Two scales that are nearly equal are replaced by two equal to the larger, whose tail is
:math:`(1+s/2a)e^{-s/a}`.

*Lattice noise.* Couple |η| with the continuous |L| of the same scale by quantiles. With
:math:`r=e^{-1/b}`, :math:`P(|\eta|\ge k)=2r^k/(1+r)`, and from :math:`2\sqrt r\le1+r` and
:math:`\sqrt r(1+r)\le2` follows :math:`-3/2\le|\eta|-|L|\le1/2`. Signs are independent of
sizes, so :math:`|\sum c_j\eta_j|\le|\sum c_jL_j|+\frac32\sum|c_j|`. For the discrete
Gaussian with σ ≥ 1, :math:`P(\eta\ge k)\le P(G\ge k-1)` [1]_, and Poisson summation gives
:math:`P(\eta\ge k)\ge(1-10^{-8})P(G\ge k)`, more than :math:`P(G\ge k+1)`: the same with 2
in place of 3/2. Where noise is so small that this correction would show, one or two
coefficients are summed exactly, over the lattice of the first.

References
----------
.. [1] C. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian for differential
   privacy", 2020, proposition 25.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from discreet._lazy import special
from discreet.noise import DiscreteGaussian, DiscreteLaplace, Sum
from discreet.plan._parts import Floats, Law

_COARSE = 50.0
"""Below this standard deviation the lattice is summed, not bounded."""
_MOST = 400_000
"""Most terms of one such sum."""
_APART = {3: 2e-3, 4: 1e-2}
"""How far scales must differ, by their number; more of them need more."""
_FAR = 0.05
_CERTAIN = 1 - 1e-9
"""Highest level at which a sum of laws is convolved."""
_CLOSE = 1e-9
"""How near, as a share, a margin comes to the least one."""
_TINY = 1e-300
_WIDE = 22.0
"""Standard deviations beyond which a law holds nothing that a double could see."""


def tail(laws: Sequence[Law | None], c: Floats, s: Floats) -> Floats:
    """Bound P(|Σ cⱼηⱼ| ≥ s) from above; `c` holds one coefficient per law in its last axis."""
    noisy = [j for j, law in enumerate(laws) if law is not None]
    kept = [law for law in laws if law is not None]
    size = np.abs(np.asarray(c, dtype=np.float64)[..., noisy])
    s = np.broadcast_to(np.asarray(s, dtype=np.float64), size.shape[:-1])
    if not noisy:
        return np.where(s > 0, 0.0, 1.0)
    if min(law.std for law in kept) < _COARSE and len(kept) <= 2:
        terms = size[..., 0].size * 2 * _WIDE * kept[0].std
        if terms <= _MOST:
            return _summed(kept, size, s)
    laplace = all(isinstance(law, DiscreteLaplace) for law in kept)
    if not laplace and not all(isinstance(law, DiscreteGaussian) for law in kept):
        return _union(kept, size, s)
    if not laplace and min(law.std for law in kept) < 1:
        return _union(kept, size, s)
    shift = 1.5 if laplace else 2.0
    rest = np.maximum(s - shift * size.sum(axis=-1), 0.0)
    if laplace:
        scales = np.array([float(law.scale) for law in kept if isinstance(law, DiscreteLaplace)])
        return laplace_tail(size * scales, rest)
    spread = np.sqrt((size * np.array([law.std for law in kept])) ** 2 @ np.ones(len(kept)))
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(spread > 0, rest / np.maximum(spread, 1e-300), np.inf)
    return np.where((spread == 0) & (s <= 0), 1.0, 2 * special.ndtr(-z))


def laplace_tail(a: Floats, s: Floats) -> Floats:
    """P(|Σ aⱼLⱼ| ≥ s) for independent standard Laplace L, from above."""
    k = a.shape[-1]
    if k == 1:
        return np.asarray(np.exp(-s / np.maximum(a[..., 0], 1e-300)))
    if k == 2:
        return _two(np.maximum(a[..., 0], a[..., 1]), np.minimum(a[..., 0], a[..., 1]), s)
    a = np.sort(np.asarray(a, dtype=np.float64), axis=-1)
    a = np.maximum(a, np.maximum(a[..., -1:], 1e-300) * 1e-6)
    apart = 1 + _APART.get(k, _FAR)
    parts = [a[..., 0]]
    for j in range(1, k):
        parts.append(np.maximum(a[..., j], parts[-1] * apart))
    total = np.zeros_like(parts[0])
    for j, own in enumerate(parts):
        others = [own**2 / (own**2 - x**2) for i, x in enumerate(parts) if i != j]
        total = total + math.prod(others) * np.exp(-s / own)
    return np.asarray(np.clip(total, 0.0, 1.0))


def _two(high: Floats, low: Floats, s: Floats) -> Floats:
    """The tail of two scales, the larger first."""
    high = np.maximum(high, 1e-300)
    ratio = low / high
    near = ratio >= 1 - 1e-4
    ratio = np.where(near, 0.5, np.maximum(ratio, 1e-6))
    far, share = s / high, ratio**2
    tail_of_one = np.exp(-far)
    split = (tail_of_one - share * np.exp(-far / ratio)) / (1 - share)
    return np.asarray(np.clip(np.where(near, (1 + far / 2) * tail_of_one, split), 0.0, 1.0))


def _summed(laws: Sequence[Law], c: Floats, s: Floats) -> Floats:
    """Exact tail of one or two noises on their lattices; rounding is allowed for."""
    # a hair below, so that a lattice point that rounding pushed over the edge still counts
    edge = np.maximum(s - 1e-9 * (s + c.sum(axis=-1)), 0.0)
    if len(laws) == 1:
        return _beyond(laws[0], c[..., 0], edge)
    reach = math.ceil(_WIDE * laws[0].std) + 1
    k = np.arange(-reach, reach + 1, dtype=np.float64)
    weight = laws[0].pmf(k)
    place = c[..., :1] * k
    left, right = edge[..., None] - place, edge[..., None] + place
    d = np.broadcast_to(c[..., 1:], place.shape)
    both = _at_least(laws[1], left, d) + _at_least(laws[1], right, d)
    both = np.where(edge[..., None] <= 0, 1.0, np.minimum(both, 1.0))
    return np.asarray(np.minimum(both @ weight + 1e-12, 1.0))


def _at_least(law: Law, x: Floats, d: Floats) -> Floats:
    """P(d·η ≥ x), d ≥ 0."""
    least = np.ceil(x / np.where(d > 0, d, 1.0) - 1e-9)
    if law.std < _COARSE:
        table = _upper(law)
        reach = table.size // 2
        chance = table[np.clip(least, -reach, reach).astype(np.int64) + reach]
    else:
        chance = law.sf(least - 1)
    return np.where(d > 0, chance, np.where(x <= 0, 1.0, 0.0))


@lru_cache(maxsize=64)
def _upper(law: Law) -> Floats:
    """P(η ≥ k) on the lattice, as far out as a double could see."""
    reach = math.ceil(_WIDE * law.std) + 2
    return np.asarray(law.sf(np.arange(-reach, reach + 1) - 1.0))


def _beyond(law: Law, c: Floats, s: Floats) -> Floats:
    return np.where(s <= 0, 1.0, np.minimum(2 * _at_least(law, s, c), 1.0))


def _union(laws: Sequence[Law], c: Floats, s: Floats) -> Floats:
    """Bound the tail of unlike laws: where the sum is large, some noise exceeds its part."""
    spread = c * np.array([law.std for law in laws])
    whole = np.maximum(spread.sum(axis=-1), 1e-300)
    parts = [
        _beyond(law, c[..., j], s * spread[..., j] / whole) * (spread[..., j] > 0)
        for j, law in enumerate(laws)
    ]
    return np.asarray(np.where(s <= 0, 1.0, np.minimum(np.sum(parts, axis=0), 1.0)))


def margin(laws: Sequence[Law | None], c: Sequence[float], level: float) -> float:
    """Return s such that |Σ cⱼηⱼ| ≤ s with probability at least `level`."""
    return _margin(tuple(laws), tuple(c), level)


@lru_cache(maxsize=1024)  # of usual prices and ranges there are few
def _margin(laws: tuple[Law | None, ...], c: tuple[float, ...], level: float) -> float:
    pairs = [(law, abs(x)) for law, x in zip(laws, c, strict=True) if law is not None and x]
    if not pairs:
        return 0.0
    law, x = pairs[0]
    if len(pairs) == 1:
        return x * float(law.interval(level).high)
    small = law.std < _COARSE or isinstance(law, Sum)
    if small and level < _CERTAIN and all(pair == (law, x) for pair in pairs):
        return x * float((law * len(pairs)).interval(level).high)
    kept, size = [law for law, _ in pairs], np.array([x for _, x in pairs])
    alpha = 1 - level
    high = float(size @ np.array([law.std for law in kept])) + float(size.sum())
    while tail(kept, size, np.array(high)) > alpha:
        high *= 2
    return _turning(lambda s: float(tail(kept, size, np.array(s))), alpha, high)


def _turning(chance: Callable[[float], float], alpha: float, high: float) -> float:
    """Narrow down where a tail that is at most `alpha` at `high` becomes so; it is at what we give.

    Logarithms of tails are nearly straight, so that a chord finds it in few steps; an end that
    stays twice counts for half, and every fourth step halves, for tails that have steps.
    """
    low, above, below = 0.0, -math.log(alpha), math.log(max(chance(high), _TINY) / alpha)
    last = 0
    for turn in range(1, 4 * 60):
        if high - low <= _CLOSE * high:
            break
        share = above / (above - below) if turn % 4 and above > below else 0.5
        middle = low + min(max(share, _CLOSE / 4), 1 - _CLOSE / 4) * (high - low)
        found = math.log(max(chance(middle), _TINY) / alpha)
        side = 1 if found <= 0 else -1
        if side > 0:
            high, below, above = middle, found, above / (1 + (last == side))
        else:
            low, above, below = middle, found, below / (1 + (last == side))
        last = side
    return high
