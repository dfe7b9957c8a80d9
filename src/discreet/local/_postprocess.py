r"""Estimates that are shares: non-negative and summing to one. Post-processing is free.

:func:`norm_sub` is the Euclidean projection onto the simplex: subtract one number
from all estimates and cut at zero so that they sum to one. It lowers the error of single items,
greatly when there are many, and biases small ones towards zero. **Sums, cumulative
distributions and intervals are always taken from the raw estimates**: over many
small items the bias adds up.

:func:`kary_likelihood` and :func:`bits_likelihood` maximise the likelihood on the simplex.
k-ary counts are multinomial with λ = q + (p−q)f; the Kuhn–Tucker conditions C_v/λ_v = const
on the support give f_v = C_v/μ − r, r = q/(p−q), with the support found by sorting. For unary
and hashed reports the bits are treated as independent: the condition
C/λ − (n−C)/(1−λ) = ν is quadratic in λ, and ν is the root of Σf = 1.

References
----------
Wang, Lopuhaä-Zwakenberg, Li, Skoric, Li, "Locally differentially private frequency
estimation with consistency", NDSS 2020.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet._exact import turning
from discreet.errors import ParameterError
from discreet.local._intervals import Floats


def norm_sub(frequencies: Any, total: float = 1.0) -> Floats:
    """Project estimates onto the simplex of non-negative numbers with the given total.

    >>> norm_sub([0.7, 0.4, -0.1]).round(3).tolist()
    [0.65, 0.35, 0.0]
    """
    raw = np.asarray(frequencies, dtype=np.float64)
    if raw.ndim != 1 or not raw.size or not np.isfinite(raw).all():
        raise ParameterError(
            "frequencies must be a list of finite numbers", hint="[0.7, 0.4, -0.1]"
        )
    ordered = np.sort(raw)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, raw.size + 1)
    last = int(np.flatnonzero(ordered > excess)[-1])
    return np.asarray(np.maximum(raw - excess[last], 0.0))


def kary_likelihood(counts: Any, p: float, q: float) -> Floats:
    """Return the maximum-likelihood shares of k-ary responses.

    >>> kary_likelihood([60, 30, 10], 0.6, 0.2).round(4).tolist()
    [0.8333, 0.1667, 0.0]
    """
    c = np.asarray(counts, dtype=np.float64)
    r = q / (p - q)
    ordered = np.sort(c)[::-1]
    mu = np.cumsum(ordered) / (1 + r * np.arange(1, c.size + 1))
    last = int(np.flatnonzero(ordered > r * mu)[-1])
    return np.asarray(np.maximum(c / mu[last] - r, 0.0))


def bits_likelihood(counts: Any, n: int, p: float, q: float) -> Floats:
    """Return the maximum-likelihood shares of unary or hashed reports, bits independent.

    >>> bits_likelihood([450, 300, 260], 1000, 0.5, 0.25).round(3).tolist()
    [0.785, 0.187, 0.028]
    """
    c = np.asarray(counts, dtype=np.float64)

    def shares(nu: float) -> Floats:
        b = nu + n
        root = np.sqrt(np.maximum(b * b - 4 * nu * c, 0.0))
        # the same root in two forms, each without cancellation or 0/0 on its side
        rate = 2 * c / (b + root) if b > 0 else (b - root) / (2 * nu)
        return np.clip((rate - q) / (p - q), 0.0, 1.0)

    # the slope C/λ − (n−C)/(1−λ) lies between these for every λ in [q, p]
    _, nu = turning(lambda x: bool(shares(x).sum() <= 1), -n / (1 - p), n / q, relative=0.0)
    best = shares(nu)
    return np.asarray(best / max(float(best.sum()), 1e-300))
