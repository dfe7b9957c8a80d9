r"""Tails of linear combinations of noisy integers, by their characteristic function.

For :math:`X=S+\sum_jc_j\eta_j` with Laplace noise of scale b (or Gaussian noise, which joins the
normal S) the characteristic function φ is known, and

.. math:: P(|X|>x)=1-\frac2\pi\sum_{k\ge0}\frac{\sin(\omega_kx)}{k+\frac12}\,\varphi(\omega_k),
          \qquad \omega_k=(k+\tfrac12)h,

up to the probability of :math:`|X|>2\pi/h-x` (the midpoint rule aliases, it does not drift [1]_),
which h makes smaller than 1e-14, and up to what is cut off after :data:`_POINTS` terms:
less than 2e-4, for one variable alone, and far less for several. That bound is added. Where
:math:`1/\varphi=\prod(1+a_j^2\omega^2)` has reached 1e4 after K = :data:`_FEW` terms, they are
enough: its logarithmic derivative is :math:`2\sum(1-e^{-L_j})\ge2(1-e^{-\sum L_j})` with
:math:`L_j=\ln(1+a_j^2\omega^2)`, so it grows like :math:`(k/K)^{1.999}` at least, and what is cut
off adds up to less than 4e-5.

Discrete Laplace noise exceeds a coupled continuous one by at most ½ in absolute value
(we allow 3/2), so x is reduced by 3/2·Σ|c|.

References
----------
.. [1] J. Abate, W. Whitt, "The Fourier-series method for inverting transforms of
   probability distributions", Queueing Systems 1992.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from discreet.noise import DiscreteLaplace
from discreet.plan._parts import Floats, Law

_POINTS: Final = 512
_FEW: Final = 96
_CUT: Final = 2e-4


def tail(x: Floats, weights: Floats, law: Law, variance: Floats | float = 0.0) -> Floats:
    """P(|Σ weight·noise + normal| > x), elementwise; weights have one more axis.

    >>> import numpy as np
    >>> from discreet.noise import DiscreteLaplace
    >>> law = DiscreteLaplace(1000)
    >>> p = tail(np.array([4113.0]), np.array([[1.0, 1.0]]), law)
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
    return np.where(x <= 0, 1.0, np.where(x >= reach, 0.0, np.clip(1 - inside + _CUT, 0.0, 1.0)))


def half_width(weights: Floats, law: Law, error: float) -> Floats:
    """Least x, within a thousandth, at which the tail is `error`; elementwise."""
    sd = np.sqrt(float(law.variance) * (weights**2).sum(axis=-1))
    low, high = np.zeros_like(sd), sd + 1.5 * np.abs(weights).sum(axis=-1)
    while bool((tail(high, weights, law) > error).any()):
        high = 2 * high
    for _ in range(16):
        middle = (low + high) / 2
        out = tail(middle, weights, law) > error
        low, high = np.where(out, middle, low), np.where(out, high, middle)
    return np.asarray(high, dtype=np.float64)
