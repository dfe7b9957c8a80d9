r"""Tails of sampling error and noise together: a normal plus several Laplace variables.

For independent Laplace variables of distinct scales :math:`a_j`, partial fractions of
:math:`\prod_j(1+a_j^2\omega^2)^{-1}` give, with S normal of standard deviation s,

.. math:: P\Big(\Big|S+\sum_j L_j\Big|>x\Big)=\sum_j A_j\,P(|S+L_j|>x),\qquad
          A_j=\prod_{i\ne j}\frac{a_j^2}{a_j^2-a_i^2}.

Scales that nearly agree are enlarged until each is at least :data:`APART` times the next;
that only widens the law. Gaussian noise joins S.

Discrete noise: coupled by quantiles, the absolute value of a discrete Laplace variable
exceeds that of a continuous one of the same scale by at most ½ and falls short of it by at
most 3/2, so the tail at x is at most the continuous one at x − ½Σ|c| (we take 3/2). A
discrete Gaussian is sub-Gaussian with its own σ; its tail is taken as the normal one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from scipy import special

from discreet.inference._laws import Floats
from discreet.noise import DiscreteLaplace, Law

APART: Final = 1.02
_THIN: Final = 1e-4
"""Scales below this part of s are enlarged to it: the closed form would lose its digits."""


def tail(x: Floats, sd: Floats, scales: Floats) -> Floats:
    """P(|normal + Laplaces| > x) elementwise; `scales` has one more axis, the variables.

    >>> import numpy as np
    >>> round(float(tail(np.array([4.113]), np.array([0.0]), np.array([[1.0, 1.0]]))[0]), 3)
    0.052
    """
    x, sd, scales = (np.asarray(v, dtype=np.float64) for v in (x, sd, scales))
    if not scales.shape[-1]:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(sd > 0, 2 * special.ndtr(-x / sd), np.where(x < 0, 1.0, 0.0))
    top = np.maximum(scales.max(axis=-1), 1e-300)
    # without any sampling error a trace of it changes nothing and keeps one formula
    s = np.maximum(sd, 1e-6 * top)
    a = -np.sort(-scales, axis=-1)
    floor = np.maximum(_THIN * s, 1e-6 * top)
    a[..., -1] = np.maximum(a[..., -1], floor)
    for j in range(a.shape[-1] - 2, -1, -1):
        a[..., j] = np.maximum(a[..., j], APART * a[..., j + 1])
    total = np.zeros_like(s)
    for j in range(a.shape[-1]):
        others = np.delete(a, j, axis=-1)
        weight = np.prod(a[..., j, None] ** 2 / (a[..., j, None] ** 2 - others**2), axis=-1)
        total += weight * _one(np.maximum(x, 0.0), s, a[..., j])
    return np.where(x <= 0, 1.0, np.clip(total, 0.0, 1.0))


def _one(x: Floats, s: Floats, b: Floats) -> Floats:
    """P(|S + L| > x) for one Laplace variable, without overflow."""
    lift = s * s / (2 * b * b)
    up = np.exp(np.minimum(lift - x / b + special.log_ndtr(x / s - s / b), 0.0))
    down = np.exp(np.minimum(lift + x / b + special.log_ndtr(-x / s - s / b), 0.0))
    return np.asarray(2 * special.ndtr(-x / s) + up - down)


def split(laws: Sequence[Law | None], weights: Floats) -> tuple[Floats, Floats, Floats]:
    """Noise of Σ weight·number: Gaussian variance, Laplace scales, what discreteness may add.

    `weights` has the parts on its last axis.
    """
    variance = np.zeros(weights.shape[:-1])
    slack = np.zeros(weights.shape[:-1])
    scales = []
    for j, law in enumerate(laws):
        size = np.abs(weights[..., j])
        if isinstance(law, DiscreteLaplace):
            scales.append(size * float(law.scale))
            slack += 1.5 * size
        elif law is not None:
            variance += size**2 * float(law.variance)
    stacked = np.stack(scales, axis=-1) if scales else np.zeros((*variance.shape, 0))
    return variance, stacked, slack


def margin(laws: Sequence[Law | None], weights: Floats, error: float) -> Floats:
    """Half-width of the noise of Σ weight·number, by the worst case of each part."""
    noisy = max(sum(law is not None for law in laws), 1)
    reach = [0.0 if law is None else float(law.interval(1 - error / noisy).high) for law in laws]
    return np.asarray(np.abs(weights) @ np.array(reach))
