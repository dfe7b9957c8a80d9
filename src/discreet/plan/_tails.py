r"""Tails of linear combinations of noise: the one place that knows them.

Guarantee
---------
Every tail here is at least the probability it stands for, and every margin is exceeded with at
most the probability stated, for independent noises of the laws that parts draw from. Which to take:

- :func:`tail` and :func:`margin`: few numbers of any laws (counts, means, variances);
- :func:`wave_tail` and :func:`half_width`: many numbers of one law (moments of pairs, splines);
- :func:`mixed_tail`: noise beside a normal sampling error (population intervals), and
  :func:`worst_margin`, coarser and cheap, for what only bounds a nuisance;
- :func:`edge_margin`: sums of draws with two weights (quantiles);
- :func:`tail_margin`: any weights, known by Σc² and max|c| alone (trees);
- :func:`log_moment`: for Chernoff bounds of noise beside anything bounded (rare values).

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

*Sampling error*, a normal S beside the Laplace variables: the same partial fractions give
:math:`P(|S+\sum L_j|>x)=\sum_jA_jP(|S+L_j|>x)`, and each of these has a closed form. Gaussian
noise joins S. Very small scales are enlarged, where the closed form would lose its digits.

*Fourier series.* For :math:`X=S+\sum_jc_j\eta_j` the characteristic function φ is known, and

.. math:: P(|X|>x)=1-\frac2\pi\sum_{k\ge0}\frac{\sin(\omega_kx)}{k+\frac12}\,\varphi(\omega_k),
          \qquad \omega_k=(k+\tfrac12)h,

up to the probability of :math:`|X|>2\pi/h-x` (the midpoint rule aliases, it does not drift [2]_),
which h makes smaller than 1e-14, and up to what is cut off after :data:`_POINTS` terms: less than
2e-4 for one variable alone, and far less for several. That bound is added. Where
:math:`1/\varphi=\prod(1+a_j^2\omega^2)` has reached 1e4 after K = :data:`_FEW` terms, they are
enough: its logarithmic derivative is :math:`2\sum(1-e^{-L_j})\ge2(1-e^{-\sum L_j})` with
:math:`L_j=\ln(1+a_j^2\omega^2)`, so it grows like :math:`(k/K)^{1.999}` at least, and what is cut
off adds up to less than 4e-5.

*Chernoff.* For discrete Gaussian noise :math:`E e^{\theta X}\le e^{\theta^2\sigma^2/2}` [1]_. For
discrete Laplace noise with :math:`r=e^{-1/s}`, :math:`\ln E e^{\theta X}=-\ln(1-u(\theta))` with
:math:`u=4r\sinh^2(\theta/2)/(1-r)^2`; it is convex in θ² on |θ| < 1/s, so
:math:`\sum\ln E e^{\theta c_iX}\le(\sum c_i^2/c^2)\ln E e^{\theta cX}` with c = max|cᵢ|.

References
----------
.. [1] C. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian for differential
   privacy", 2020, proposition 25.
.. [2] J. Abate, W. Whitt, "The Fourier-series method for inverting transforms of
   probability distributions", Queueing Systems 1992.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

from discreet._lazy import fft, special
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
_POINTS: Final = 512
_FEW: Final = 96
_CUTOFF: Final = 2e-4
_THIN: Final = 1e-4
"""Scales below this part of a normal's deviation are enlarged to it."""
_CLEAR: Final = 1.02
"""How far scales must differ beside a normal."""
_BASE: Final = Fraction(64)


Chance = Callable[[Floats], Floats]
"""Probability, at most, that a sum of noises is so far out or farther."""


def tail(laws: Sequence[Law | None], c: Floats, s: Floats) -> Floats:
    """Bound P(|Σ cⱼηⱼ| ≥ s) from above; `c` holds one coefficient per law in its last axis."""
    c = np.asarray(c, dtype=np.float64)
    return _tail_of(laws, c)(np.broadcast_to(np.asarray(s, dtype=np.float64), c.shape[:-1]))


def _tail_of(laws: Sequence[Law | None], c: Floats) -> Chance:
    """Give the tail as a function of `s`: a search for `s` needs the rest of it once."""
    noisy = [j for j, law in enumerate(laws) if law is not None]
    noises = [law for law in laws if law is not None]
    size = np.abs(c[..., noisy])
    if not noisy:
        return lambda s: np.where(s > 0, 0.0, 1.0)
    if min(law.std for law in noises) < _COARSE and len(noises) <= 2:
        terms = size[..., 0].size * 2 * _WIDE * noises[0].std
        if terms <= _MOST:
            return lambda s: _summed(noises, size, s)
    laplace = all(isinstance(law, DiscreteLaplace) for law in noises)
    if not laplace and not all(isinstance(law, DiscreteGaussian) for law in noises):
        return lambda s: _union(noises, size, s)
    if not laplace and min(law.std for law in noises) < 1:
        return lambda s: _union(noises, size, s)
    shift = (1.5 if laplace else 2.0) * size.sum(axis=-1)
    if laplace:
        scales = np.array([float(law.scale) for law in noises if isinstance(law, DiscreteLaplace)])
        rest = _laplace_tail(size * scales)
        return lambda s: rest(np.maximum(s - shift, 0.0))
    spread = np.sqrt((size * np.array([law.std for law in noises])) ** 2 @ np.ones(len(noises)))
    return lambda s: _normal_tail(spread, s, np.maximum(s - shift, 0.0))


def _normal_tail(spread: Floats, s: Floats, rest: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(spread > 0, rest / np.maximum(spread, 1e-300), np.inf)
    return np.where((spread == 0) & (s <= 0), 1.0, 2 * special.ndtr(-z))


def _laplace_tail(a: Floats) -> Chance:
    """P(|Σ aⱼLⱼ| ≥ s) for independent standard Laplace L, from above."""
    k = a.shape[-1]
    if k == 1:
        own = np.maximum(a[..., 0], 1e-300)
        return lambda s: np.asarray(np.exp(-s / own))
    if k == 2:
        return _two(np.maximum(a[..., 0], a[..., 1]), np.minimum(a[..., 0], a[..., 1]))
    a = np.maximum(a, np.maximum(a.max(axis=-1), 1e-300)[..., None] * 1e-6)
    parts = _fractions(a, 1 + _APART.get(k, _FAR))
    return lambda s: _mixed(lambda own: np.exp(-s / own), parts)


def _fractions(a: Floats, apart: float) -> list[tuple[Floats, Floats]]:
    """Partial fractions: a weight for each scale, and the scales, moved apart."""
    a = np.sort(np.asarray(a, dtype=np.float64), axis=-1)
    parts = [a[..., 0]]
    for j in range(1, a.shape[-1]):
        parts.append(np.maximum(a[..., j], parts[-1] * apart))
    weights = [
        math.prod(own**2 / (own**2 - x**2) for i, x in enumerate(parts) if i != j)
        for j, own in enumerate(parts)
    ]
    return [(np.asarray(weight), own) for weight, own in zip(weights, parts, strict=True)]


def _mixed(one: Callable[[Floats], Floats], parts: list[tuple[Floats, Floats]]) -> Floats:
    """Sum of the tails of one variable, each with its weight."""
    total = sum(weight * one(own) for weight, own in parts)
    return np.asarray(np.minimum(np.maximum(total, 0.0), 1.0))


def _two(high: Floats, low: Floats) -> Chance:
    """The tail of two scales, the larger first."""
    high = np.maximum(high, 1e-300)
    near = low / high >= 1 - 1e-4
    ratio = np.where(near, 0.5, np.maximum(low / high, 1e-6))
    share = ratio**2

    def chance(s: Floats) -> Floats:
        far = s / high
        tail_of_one = np.exp(-far)
        split = (tail_of_one - share * np.exp(-far / ratio)) / (1 - share)
        tail = np.where(near, (1 + far / 2) * tail_of_one, split)
        return np.asarray(np.minimum(np.maximum(tail, 0.0), 1.0))

    return chance


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
    noises, size = [law for law, _ in pairs], np.array([x for _, x in pairs])
    alpha = 1 - level
    high = float(size @ np.array([law.std for law in noises])) + float(size.sum())
    chance = _tail_of(noises, size)
    while chance(np.asarray(high)) > alpha:
        high *= 2
    return _turning(lambda s: float(chance(np.asarray(s))), alpha, high)


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
        excess = math.log(max(chance(middle), _TINY) / alpha)
        side = 1 if excess <= 0 else -1
        if side > 0:
            high, below, above = middle, excess, above / (1 + (last == side))
        else:
            low, above, below = middle, excess, below / (1 + (last == side))
        last = side
    return high


# -- with sampling error --------------------------------------------------------------------


def mixed_tail(x: Floats, sd: Floats, scales: Floats) -> Floats:
    """P(|normal + Laplaces| > x) elementwise; `scales` has one more axis, the variables.

    >>> import numpy as np
    >>> round(float(mixed_tail(np.array([4.113]), np.array([0.0]), np.array([[1.0, 1.0]]))[0]), 3)
    0.052
    """
    x, sd, scales = (np.asarray(v, dtype=np.float64) for v in (x, sd, scales))
    if not scales.shape[-1]:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(sd > 0, 2 * special.ndtr(-x / sd), np.where(x < 0, 1.0, 0.0))
    top = np.maximum(scales.max(axis=-1), 1e-300)
    # without any sampling error a trace of it changes nothing and keeps one formula
    s = np.maximum(sd, 1e-6 * top)
    a = np.maximum(scales, np.maximum(_THIN * s, 1e-6 * top)[..., None])
    chances = _mixed(lambda own: _one(np.maximum(x, 0.0), s, own), _fractions(a, _CLEAR))
    return np.where(x <= 0, 1.0, chances)


def _one(x: Floats, s: Floats, b: Floats) -> Floats:
    """P(|S + L| > x) for one Laplace variable, without overflow."""
    lift = s * s / (2 * b * b)
    up = np.exp(np.minimum(lift - x / b + special.log_ndtr(x / s - s / b), 0.0))
    down = np.exp(np.minimum(lift + x / b + special.log_ndtr(-x / s - s / b), 0.0))
    return np.asarray(2 * special.ndtr(-x / s) + up - down)


def split_noise(laws: Sequence[Law | None], weights: Floats) -> tuple[Floats, Floats, Floats]:
    """Noise of Σ weight·number: Gaussian variance, Laplace scales, what discreteness may add.

    `weights` has the parts on its last axis.
    """
    variance = np.zeros(weights.shape[:-1])
    least, most = np.zeros(weights.shape[:-1]), np.zeros(weights.shape[:-1])
    scales = []
    for j, law in enumerate(laws):
        size = np.abs(weights[..., j])
        if isinstance(law, DiscreteLaplace):
            scales.append(size * float(law.scale))
            out = _outward(law)
            least, most = least + out * size, most + (1 - out) * size
        elif law is not None:
            variance += size**2 * float(law.variance)
    stacked = np.stack(scales, axis=-1) if scales else np.zeros((*variance.shape, 0))
    alone = (stacked > 0).sum(axis=-1) <= 1
    return variance, stacked, np.where(alone, least, most)


def _outward(law: DiscreteLaplace) -> float:
    """How much farther out discrete noise is than continuous noise of the same rank, at most."""
    scale = float(law.scale)
    return -scale * math.log1p(math.expm1(-1 / scale) / 2)


def worst_margin(laws: Sequence[Law | None], weights: Floats, error: float) -> Floats:
    """Half-width of the noise of Σ weight·number, by the worst case of each part."""
    return np.asarray(np.abs(weights) @ farthest(laws, error))


def farthest(laws: Sequence[Law | None], error: float) -> Floats:
    """How far out each of the noises is, at most, if all are looked at together."""
    noisy = max(sum(law is not None for law in laws), 1)
    each = [0.0 if law is None else float(law.interval(1 - error / noisy).high) for law in laws]
    return np.array(each)


# -- many numbers of one law ----------------------------------------------------------------


def wave_tail(x: Floats, weights: Floats, law: Law, variance: Floats | float = 0.0) -> Floats:
    """P(|Σ weight·noise + normal| > x), elementwise; weights have one more axis.

    >>> import numpy as np
    >>> from discreet.noise import DiscreteLaplace
    >>> law = DiscreteLaplace(1000)
    >>> p = wave_tail(np.array([4113.0]), np.array([[1.0, 1.0]]), law)
    >>> bool(0.05 < p[0] < 0.051)
    True
    """
    size = np.abs(weights)
    extra = np.broadcast_to(np.asarray(variance, dtype=np.float64), x.shape)
    if isinstance(law, DiscreteLaplace):
        scales = size * float(law.scale)
        x = x - 1.5 * size.sum(axis=-1)
    else:
        scales = np.zeros((*x.shape, 1))
        extra = extra + float(law.variance) * (size**2).sum(axis=-1)
    reach = np.maximum(40 * scales.max(axis=-1) + 9 * np.sqrt(extra), 1e-300)
    at = np.minimum(np.maximum(x, 0.0), reach)
    step = (2 * np.pi / (2 * at + reach))[..., None]
    last = 1 + (scales * _FEW * step) ** 2
    k = np.arange(_FEW if bool((last.prod(axis=-1) >= 1e4).all()) else _POINTS) + 0.5
    omega = k * step
    squares, below = omega**2, np.ones_like(omega)
    for j in range(scales.shape[-1]):
        below *= 1 + scales[..., j, None] ** 2 * squares
    above = np.sin(omega * at[..., None]) / k
    if extra.any():
        above *= np.exp(-0.5 * extra[..., None] * squares)
    inside = (above / below).sum(axis=-1) * 2 / np.pi
    return np.where(x <= 0, 1.0, np.where(x >= reach, 0.0, np.clip(1 - inside + _CUTOFF, 0.0, 1.0)))


def half_width(weights: Floats, law: Law, error: float) -> Floats:
    """Least x, within a thousandth, at which the tail is `error`; elementwise."""
    sd = np.sqrt(float(law.variance) * (weights**2).sum(axis=-1))
    low, high = np.zeros_like(sd), sd + 1.5 * np.abs(weights).sum(axis=-1)
    while bool((wave_tail(high, weights, law) > error).any()):
        high = 2 * high
    for _ in range(16):
        middle = (low + high) / 2
        out = wave_tail(middle, weights, law) > error
        low, high = np.where(out, middle, low), np.where(out, high, middle)
    return np.asarray(high, dtype=np.float64)


# -- sums of draws ----------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def edge_margin(law: Law, below: int, above: int, factors: tuple[int, int], beta: float) -> float:
    """Return t with P(|b·A + a·B| > t) ≤ beta, for sums A and B of so many draws.

    The laws of A and B are convolved exactly (up to 1e-12). A draw of wide Laplace noise is the
    difference of two exponential variables up to less than 1, and those scale; wide Gaussian
    noise is normal up to 1e-100.
    """
    b, a = (below and factors[0]), (above and factors[1])
    if not b and not a:
        return 0.0
    if beta < 1e-9:
        squares = np.array([float(below * b**2 + above * a**2)])
        return float(tail_margin(law, squares, np.array([float(max(a, b))]), beta / 2)[0])
    if isinstance(law, DiscreteGaussian) and law.sigma2 > _BASE**2:
        spread = math.sqrt(law.sigma2 * (below * b**2 + above * a**2))
        return float(-special.ndtri(beta / 2)) * spread
    if isinstance(law, DiscreteLaplace) and law.scale > _BASE:
        off = below * b + above * a
        base = edge_margin(DiscreteLaplace(_BASE), below, above, factors, beta)
        return float(law.scale / _BASE * (Fraction(base) + off) + off)
    low, high = 0, b * _half(law, below) + a * _half(law, above)
    while low < high:
        t = (low + high) // 2
        low, high = (
            (low, t) if 2 * _tail(law, below, above, (b, a), t) <= beta - 1e-12 else (t + 1, high)
        )
    return float(low)


def _half(law: Law, n: int) -> int:
    """Reach of a sum of n draws: beyond it lies less than 1e-13."""
    if isinstance(law, DiscreteGaussian):
        return math.ceil(8 * math.sqrt(law.sigma2 * n)) + 4
    return math.ceil(float(law.scale) * (32 + 9 * math.sqrt(n))) + 4


@lru_cache(maxsize=512)
def _sum(law: Law, n: int) -> tuple[Floats, Floats]:
    """Probabilities of −r … r, and of more than each, for a sum of n draws."""
    r = _half(law, n)
    if n == 0:
        one = np.zeros(2 * r + 1)
        one[r] = 1
    else:
        size = fft.next_fast_len(2 * r + 1)
        k = np.arange(size)
        k = np.where(k > size // 2, k - size, k)
        power = fft.fft(np.asarray(law.pmf(k), dtype=np.float64)) ** n
        one = np.maximum(np.roll(fft.ifft(power).real, r)[: 2 * r + 1], 0)
    above = np.append(np.cumsum(one[::-1])[::-1], 0)[1:]
    return one, above


def _tail(law: Law, below: int, above: int, factors: tuple[int, int], t: int) -> float:
    """P(b·A + a·B > t)."""
    b, a = factors
    if not b:
        return _tail(law, above, 0, (a, 0), t)
    weights = _sum(law, above)[0] if a else np.ones(1)
    r = (weights.size - 1) // 2
    needed = (t - a * np.arange(-r, r + 1)) // b
    more = _sum(law, below)[1]
    half = (more.size - 1) // 2
    # below its reach a sum exceeds anything, beyond it nothing
    chance = np.where(needed < -half, 1.0, more[np.clip(needed + half, 0, more.size - 1)])
    return float((weights * chance).sum())


def steepest(law: Law | None) -> float:
    """Least x that :func:`log_moment` may be infinite at."""
    if isinstance(law, Sum):
        return min(steepest(term) for term, _ in law.terms)
    if isinstance(law, DiscreteLaplace):
        return float(1 / law.scale)
    return math.inf if law is None or isinstance(law, DiscreteGaussian) else 0.0


def log_moment(law: Law | None, x: Floats) -> Floats:
    """Logarithm of E exp(x·noise), at most; infinite where the law has none, or none is known."""
    if law is None:
        return np.zeros_like(x)
    if isinstance(law, Sum):
        return np.asarray(sum(n * log_moment(term, x) for term, n in law.terms))
    if isinstance(law, DiscreteGaussian):
        return np.asarray(x**2 * float(law.sigma2) / 2)
    if not isinstance(law, DiscreteLaplace):
        return np.where(x == 0, 0.0, math.inf)
    scale, size = float(law.scale), np.abs(x)
    inside = size * scale < 1
    size = np.where(inside, size, 0.0)  # below 1/s, so that no power overflows
    u = np.exp(size - 1 / scale) * (np.expm1(-size) / math.expm1(-1 / scale)) ** 2
    found = -np.log1p(-np.minimum(u, 1 - 1e-16))
    return np.where(inside, found, math.inf)


def tail_margin(law: Law, squares: Floats, largest: Floats, beta: float) -> Floats:
    """Return t with P(Σ cᵢXᵢ > t) ≤ beta, given Σcᵢ² and max|cᵢ| (elementwise)."""
    need = np.log(1 / beta)
    if isinstance(law, DiscreteGaussian):
        return np.asarray(np.sqrt(2 * squares * float(law.sigma2) * need), dtype=np.float64)
    scale = float(law.scale)
    theta = np.linspace(1e-4, 0.999, 400)[:, None] / (scale * largest)
    moved = theta * largest  # below 1/s, so that no power overflows: 4 sinh²(x/2) = eˣ(1 − e⁻ˣ)²
    u = np.exp(moved - 1 / scale) * (np.expm1(-moved) / np.expm1(-1 / scale)) ** 2
    usable = u < 1
    log_mgf = np.where(usable, -np.log1p(-np.where(usable, u, 0)), np.inf)
    bound = (need + squares / largest**2 * log_mgf) / theta
    return np.asarray(bound.min(axis=0), dtype=np.float64)
