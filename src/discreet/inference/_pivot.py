r"""The pivot behind tests of means: linear in what was released, without a ratio.

A group releases noisy versions of n, Σu and Σ(u² − ½) of its values
:math:`x = c + hu`, u ∈ [−1, 1]. A noisy mean is a ratio, and where the noise of n is as
large as n itself (a hundred people at ε = 0.1) its law is nothing like normal. The sum
:math:`D(\mu)=\sum(x-\mu)` is linear in the three numbers, and so is its sampling variance
:math:`W(\mu)=\sum(x-\mu)^2`; the noise adds
:math:`h^2(v_1+u_\mu^2v_0)`, known exactly. This is Fieller's way to test a ratio.

One group, mean μ: :math:`T=D(\mu)/\sqrt{V(\mu)}` with V the sum of both variances. Two
groups whose means differ by δ, with totals A and sizes n:

.. math:: T = \frac{A_1n_2-A_2n_1-\delta n_1n_2}{\sqrt{V_1n_2^2+V_2n_1^2}},

which is the signed root of :math:`\min_\mu\sum_i D_i^2/V_i`; V is taken at the
minimising μ. The law of T is simulated: normal sums with the covariances of the
Beta law that has the group's mean and variance, plus noise of the laws that were
released. The unknown sizes enter only through n·var, which W estimates without dividing.

References
----------
E. Fieller, "Some problems in interval estimation", JRSS B 1954.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from discreet._dataclass import dataclass, replace
from discreet.inference._laws import Floats, Noise

_LEAST = 1e-6
"""Least variance of a value in units of u²: a zero would make the model degenerate."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Noisy (n, Σu, Σ(u² − ½)) of values centre + half·u, draw by draw, and their noise."""

    parts: Floats
    laws: tuple[Noise, Noise, Noise]
    centre: float
    half: float
    mix: Floats | None = None
    """How the three share independent noises of these laws; None: each has its own."""

    @property
    def size(self) -> Floats:
        """Noisy sizes."""
        return np.asarray(self.parts[0])

    @property
    def total(self) -> Floats:
        """Noisy sums of values."""
        return np.asarray(self.half * self.parts[1] + self.centre * self.parts[0])

    @property
    def mean(self) -> Floats:
        """Noisy means, inside the range."""
        ratio = self.parts[1] / np.maximum(self.parts[0], 2.0)
        return np.asarray(self.centre + self.half * np.clip(ratio, -1, 1))

    def sampling(self, mean: Floats) -> Floats:
        """Estimated variance of a sum of distances from a mean: Σ(u − m)² in units of u²."""
        n, first, second = self.parts
        u = self.place(mean)
        squares = second + n / 2 - 2 * u * first + u**2 * n
        rows = np.maximum(n, 2.0)
        return np.asarray(np.clip(squares, _LEAST * rows, 4 * rows))

    def variance(self, mean: Floats) -> Floats:
        """Variance of Σ(x − mean), sampling and noise together."""
        each = np.array([law.variance for law in self.laws])
        size, first, _ = each if self.mix is None else self.mix**2 @ each
        u = self.place(mean)
        return np.asarray(self.half**2 * (self.sampling(mean) + first + u**2 * size))

    def place(self, mean: Floats) -> Floats:
        """A mean as a value of u."""
        return np.clip((mean - self.centre) / self.half, -1.0, 1.0)

    def simulated(self, mean: float, draws: int, rng: np.random.Generator) -> Group:
        """Draw such groups whose population has this mean, and the variance found here."""
        n = max(float(self.parts[0, 0]), 2.0)
        at = np.array([mean])
        variance = float(self.sampling(at)[0]) / n
        model = (n, float(self.place(at)[0]), variance)
        noise = np.array([law.simulate(rng, draws) for law in self.laws])
        noise = noise if self.mix is None else self.mix @ noise
        return replace(self, parts=_simulate(model, draws, rng) + noise)


def common_mean(groups: Sequence[Group], shifts: Sequence[Floats], steps: int = 2) -> Floats:
    """One mean that all groups have under the null, each with its own shift added to it."""
    pairs = list(zip(groups, shifts, strict=True))
    low = reduce(np.maximum, [g.centre - g.half - s for g, s in pairs])
    high = np.maximum(low, reduce(np.minimum, [g.centre + g.half - s for g, s in pairs]))
    sizes = [np.maximum(g.size, 0.0) for g in groups]
    top = sum(n * (g.mean - s) for n, (g, s) in zip(sizes, pairs, strict=True))
    mean = np.clip(top / np.maximum(sum(sizes), 1.0), low, high)
    for _ in range(steps):
        weights = [g.size / g.variance(mean + s) for g, s in pairs]
        top = sum(w * (g.total - s * g.size) for w, (g, s) in zip(weights, pairs, strict=True))
        bottom = sum(w * g.size for w, g in zip(weights, groups, strict=True))
        mean = np.clip(top / np.maximum(bottom, 1e-300), low, high)
    return np.asarray(mean)


def statistic(groups: Sequence[Group], shift: Floats) -> Floats:
    """T, draw by draw: of one mean equal to `shift`, or of two that differ by it."""
    if len(groups) == 1:
        (only,) = groups
        return np.asarray(
            (only.total - shift * only.size) / np.sqrt(only.variance(shift + 0 * only.size))
        )
    a, b = groups
    mean = common_mean(groups, (shift, np.zeros(1)))
    spread = a.variance(mean + shift) * b.size**2 + b.variance(mean) * a.size**2
    top = a.total * b.size - b.total * a.size - shift * a.size * b.size
    return np.asarray(top / np.sqrt(np.maximum(spread, 1e-300)))


def null_draws(
    groups: Sequence[Group], shift: float, draws: int, rng: np.random.Generator
) -> Floats:
    """Draw T under the null that one mean is `shift`, or that two differ by it."""
    at, means = np.array([shift]), [shift]
    if len(groups) == 2:
        mean = float(common_mean(groups, (at, np.zeros(1)))[0])
        means = [mean + shift, mean]
    simulated = [g.simulated(m, draws, rng) for g, m in zip(groups, means, strict=True)]
    return statistic(simulated, at)


def inverted(
    groups: Sequence[Group], estimate: float, low: float, high: float
) -> tuple[float, float]:
    """Hull of the shifts that T between `low` and `high` does not refuse."""
    first, *rest = groups
    bottom, top = first.centre - first.half, first.centre + first.half
    for other in rest:
        bottom, top = bottom - other.centre - other.half, top - other.centre + other.half

    def test(shifts: Floats) -> Floats:
        t = statistic(groups, shifts)
        return np.asarray((low <= t) & (t <= high))

    return hull(test, estimate, bottom, top)


def hull(
    test: Callable[[Floats], Floats], estimate: float, bottom: float, top: float, places: int = 600
) -> tuple[float, float]:
    """Ends of the hull of the numbers in a range that a test keeps, searched from an estimate.

    So many `places` on either side, each further out by a constant factor, find the outermost
    one that is kept; the end is then found between it and the next.
    """
    steps = np.concatenate([[0.0], np.geomspace(1e-9, 1.0, places)])

    def end(limit: float) -> float:
        line = estimate + (limit - estimate) * steps
        for _ in range(8):
            good = np.flatnonzero(test(line))
            if good.size == 0:
                return estimate if line[0] == estimate else float(line[0])
            if good[-1] == line.size - 1:
                return float(line[-1])
            line = np.linspace(line[good[-1]], line[good[-1] + 1], 17)
        return float(line[-1])

    return end(bottom), end(top)


def _simulate(model: tuple[float, float, float], draws: int, rng: np.random.Generator) -> Floats:
    """Draw (size, Σu, Σ(u² − ½)) of n values of given mean and variance, without noise."""
    n, mean, variance = model
    mean = float(np.clip(mean, -0.9999, 0.9999))
    mu = bounded_moments(mean, min(variance, 0.999 * (1 - mean**2)))
    size = max(2, round(n))
    covariance = np.array([[mu[1] - mu[0] ** 2, mu[2] - mu[0] * mu[1]], [0, mu[3] - mu[1] ** 2]])
    covariance[1, 0] = covariance[0, 1]
    root = np.linalg.svd(covariance)
    factor = root.U * np.sqrt(root.S)
    sums = factor @ rng.standard_normal((2, draws)) * math.sqrt(size)
    first = size * mean + sums[0]
    second = size * (mu[1] - 0.5) + sums[1]
    return np.array([np.full(draws, float(size)), first, second])


def bounded_moments(mean: float, variance: float) -> tuple[float, float, float, float]:
    """First four moments of the Beta law on [−1, 1] with this mean and variance.

    There is exactly one for every mean and variance a bounded variable can have: near
    normal when narrow, a coin when as wide as possible.

    >>> [round(v, 4) for v in bounded_moments(0.0, 1 / 3)]  # uniform
    [0.0, 0.3333, 0.0, 0.2]
    """
    centre, spread = (1 + mean) / 2, variance / 4
    total = centre * (1 - centre) / spread - 1
    raw = np.cumprod([(centre * total + i) / (total + i) for i in range(4)])
    # u = 2B − 1, expanded
    e1, e2, e3, e4 = (float(r) for r in raw)
    return (
        2 * e1 - 1,
        4 * e2 - 4 * e1 + 1,
        8 * e3 - 12 * e2 + 6 * e1 - 1,
        16 * e4 - 32 * e3 + 24 * e2 - 8 * e1 + 1,
    )
