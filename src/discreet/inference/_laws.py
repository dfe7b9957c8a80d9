r"""Noise as inference sees it: a law, its step, and what follows from both.

The curator draws integers, and its records hold integer laws. Releases of other
systems often carry continuous noise, so the two classical continuous laws stand
here for *reading* such numbers; nothing is ever drawn from them for protection.

:class:`Laplace` with ``copies=m`` is the sum of m independent Laplace variables,
a difference of two Gamma(m) variables. Expanding its density gives the tail, for
x ≥ 0 in units of the scale,

.. math:: P(S > x) = \sum_{k=0}^{m-1} \binom{m-1+k}{k} 2^{-m-k}\, Q(m-k, x),

with Q the upper regularised gamma function (m = 2: :math:`(2+x)e^{-x}/4`).

:class:`Noise` is a law times a public step. Its tails count the boundary point
on both sides (:meth:`Noise.at_least`, :meth:`Noise.at_most`), which is what
tests on lattices need. :meth:`Noise.simulate` uses a NumPy generator: simulated
noise serves null distributions and protects nothing.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from discreet import _exact, noise
from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet.errors import Hint, ParameterError

Floats: TypeAlias = NDArray[np.float64]
Rng: TypeAlias = np.random.Generator | int | None
"""What ``rng=`` accepts, as in SciPy: a generator, a seed, or None for fresh randomness."""


@dataclass(frozen=True, slots=True)
class Laplace:
    """Continuous Laplace noise, or the sum of `copies` independent ones.

    Examples
    --------
    >>> round(Laplace(1).margin(0.9), 4), round(Laplace(1, copies=2).margin(0.95), 4)
    (2.3026, 4.113)
    """

    scale: float
    copies: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _positive(self.scale, "scale"))
        if not isinstance(self.copies, int) or self.copies < 1:
            raise ParameterError(f"copies must be a positive whole number, got {self.copies!r}")

    @property
    def variance(self) -> float:
        """The variance, 2·scale² per copy."""
        return 2 * self.copies * self.scale**2

    def sf(self, x: ArrayLike) -> Any:
        """Return P(N > x)."""
        t = np.asarray(x, dtype=np.float64) / self.scale
        far = np.abs(t)
        k = np.arange(self.copies)
        weight = special.binom(self.copies - 1 + k, k) * 0.5 ** (self.copies + k)
        tail = (special.gammaincc(self.copies - k, far[..., None]) * weight).sum(axis=-1)
        return np.where(t >= 0, tail, 1 - tail)[()]

    def cdf(self, x: ArrayLike) -> Any:
        """Return P(N ≤ x)."""
        return self.sf(-np.asarray(x, dtype=np.float64))

    def margin(self, confidence: float) -> float:
        """Return c with ``P(|N| ≤ c) = confidence``."""
        alpha = 1 - confidence
        if self.copies == 1:
            return -self.scale * math.log(alpha)
        return Noise(self).quantile_above(alpha / 2)

    def simulate(self, rng: np.random.Generator, size: Any) -> Floats:
        """Draw from the law for a simulated null distribution."""
        if self.copies == 1:
            return np.asarray(rng.laplace(0.0, self.scale, size))
        up = rng.gamma(self.copies, self.scale, size)
        return np.asarray(up - rng.gamma(self.copies, self.scale, size))


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Continuous Gaussian noise.

    Examples
    --------
    >>> round(Gaussian(2).margin(0.95), 4)
    3.9199
    """

    sigma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", _positive(self.sigma, "sigma"))

    @property
    def variance(self) -> float:
        """The variance, σ²."""
        return self.sigma**2

    def sf(self, x: ArrayLike) -> Any:
        """Return P(N > x)."""
        return special.ndtr(-np.asarray(x, dtype=np.float64) / self.sigma)

    def cdf(self, x: ArrayLike) -> Any:
        """Return P(N ≤ x)."""
        return special.ndtr(np.asarray(x, dtype=np.float64) / self.sigma)

    def margin(self, confidence: float) -> float:
        """Return c with ``P(|N| ≤ c) = confidence``."""
        return -self.sigma * float(special.ndtri((1 - confidence) / 2))

    def simulate(self, rng: np.random.Generator, size: Any) -> Floats:
        """Draw from the law for a simulated null distribution."""
        return np.asarray(rng.normal(0.0, self.sigma, size))


AnyLaw: TypeAlias = noise.Law | Laplace | Gaussian


def _positive(x: float, name: str) -> float:
    return float(_exact.positive(_exact.exact(x, name), name, example=1))


@dataclass(frozen=True, slots=True)
class Noise:
    """A noise law in the units of the answer: law times step."""

    law: AnyLaw
    step: Fraction = Fraction(1)

    @property
    def discrete(self) -> bool:
        """Whether the noise lies on a lattice."""
        return isinstance(self.law, noise.Law)

    @property
    def gaussian(self) -> bool:
        """Whether the law is a Gaussian, continuous or discrete."""
        return isinstance(self.law, Gaussian | noise.DiscreteGaussian)

    @property
    def symmetric(self) -> bool:
        """Whether the noise is as likely up as down."""
        return self.law.symmetric if isinstance(self.law, noise.Law) else True

    @property
    def mean(self) -> float:
        """The expectation, in units."""
        return self.law.mean * float(self.step) if isinstance(self.law, noise.Law) else 0.0

    @property
    def variance(self) -> float:
        """The variance, in units squared."""
        return self.law.variance * float(self.step) ** 2

    def _steps(self, x: ArrayLike) -> Floats:
        """Units to steps; a value meant to be on the lattice is put back on it."""
        raw = np.asarray(x, dtype=np.float64) / float(self.step)
        near = np.round(raw)
        on = np.abs(raw - near) <= 1e-9 * np.maximum(1.0, np.abs(raw))
        return np.where(on, near, raw) if self.discrete else raw

    def at_least(self, x: ArrayLike) -> Any:
        """Return P(N ≥ x)."""
        steps = self._steps(x)
        return self.law.sf(np.ceil(steps) - 1) if self.discrete else self.law.sf(steps)

    def at_most(self, x: ArrayLike) -> Any:
        """Return P(N ≤ x)."""
        return self.law.cdf(self._steps(x))

    def range(self, confidence: float) -> tuple[float, float, float]:
        """Return low, high and the confidence achieved, for the noise itself."""
        step = float(self.step)
        if isinstance(self.law, noise.Law):
            ends = self.law.interval(confidence)
            return ends.low * step, ends.high * step, ends.confidence
        margin = self.law.margin(confidence) * step
        return -margin, margin, confidence

    def quantile_above(self, alpha: float) -> float:
        """Return the least c (in units) with P(N > c) ≤ alpha."""
        if not isinstance(self.law, noise.Law):
            from scipy.optimize import brentq  # noqa: PLC0415 - half of scipy; only roots need it

            wide = math.sqrt(self.law.variance)
            while float(self.law.sf(wide)) > min(alpha, 1 - alpha):
                wide *= 2
            ends = {"a": -wide, "b": wide, "xtol": 1e-14 * wide, "rtol": 1e-14}
            return float(brentq(lambda x: float(self.law.sf(x)) - alpha, **ends) * self.step)
        low, high = -1, 1
        while float(self.law.sf(high)) > alpha:
            low, high = high, 2 * high
        while float(self.law.sf(low)) <= alpha:
            low, high = 2 * low, low
        above = _exact.turning(lambda c: self.law.sf(c) <= alpha, low, high)[1]
        return above * float(self.step)

    def quantile_below(self, alpha: float) -> float:
        """Return the greatest c (in units) with P(N < c) ≤ alpha."""
        if self.symmetric:
            return -self.quantile_above(alpha)
        assert isinstance(self.law, noise.Law)
        reach = self.law.interval(1 - 1e-9)
        low, high = reach.low - 1, reach.high + 2
        law = self.law
        below = _exact.turning(lambda c: law.cdf(c - 1) > alpha, low, high)[0]
        return below * float(self.step)

    def simulate(self, rng: np.random.Generator, size: Any) -> Floats:
        """Draw noise for a simulated null distribution (never for protection)."""
        if isinstance(self.law, noise.Law):
            return _simulate(self.law, rng, size) * float(self.step)
        return self.law.simulate(rng, size) * float(self.step)


def _simulate(law: noise.Law, rng: np.random.Generator, size: Any) -> Floats:
    match law:
        case noise.DiscreteLaplace(scale):
            p = -math.expm1(-1 / float(scale))
            return np.asarray(rng.geometric(p, size) - rng.geometric(p, size), dtype=np.float64)
        case noise.Geometric(scale):
            p = -math.expm1(-1 / float(scale))
            return np.asarray(rng.geometric(p, size) - 1, dtype=np.float64)
        case noise.DiscreteGaussian():
            return _simulate_gaussian(law, rng, size)
        case noise.Sum(terms):
            total = np.zeros(size)
            for part, n in terms:
                for _ in range(n):
                    total = total + _simulate(part, rng, size)
            return total
    raise ParameterError(f"unknown noise law {type(law).__name__}")


_TABLE = 4096
"""σ up to which discrete Gaussians are simulated from a table of their law."""


def _simulate_gaussian(law: noise.DiscreteGaussian, rng: np.random.Generator, size: Any) -> Floats:
    if law.sigma > _TABLE:
        # P(N ≤ k) and Φ((k+½)/σ) differ by less than 1/(24σ²) < 3e-9 here
        return np.asarray(np.round(rng.normal(0.0, law.sigma, size)))
    reach = math.ceil(9 * law.sigma) + 1
    cdf = law.cdf(np.arange(-reach, reach))
    return np.asarray(np.searchsorted(cdf, rng.random(size), side="left") - reach, dtype=np.float64)


def generator(rng: Rng) -> np.random.Generator:
    """Read ``rng=`` as SciPy does."""
    if isinstance(rng, np.random.Generator):
        return rng
    if rng is None or (isinstance(rng, int) and not isinstance(rng, bool) and rng >= 0):
        return np.random.default_rng(rng)
    raise ParameterError("rng must be a numpy Generator, a seed or None", hint=Hint("rng", 7))


def noise_by_name(
    name: str | None,
    *,
    epsilon: Number | None = None,
    delta: Number | None = None,
    rho: Number | None = None,
    sigma: Number | None = None,
    sensitivity: Number = 1,
) -> Noise:
    """Return the noise that a mechanism of this name adds.

    "laplace" is the continuous law of scale Δ/ε, "geometric" the discrete
    Laplace law of the same scale, "gaussian" the continuous Gaussian whose σ is
    given, or follows from ρ, or from (ε, δ) by the analytic calibration.
    """
    delta_f = _exact.positive(_exact.decimal(sensitivity, "sensitivity"), "sensitivity")
    if name in ("laplace", "geometric"):
        if epsilon is None or rho is not None or sigma is not None:
            raise ParameterError(
                f"{name} noise is described by epsilon alone", hint=Hint("epsilon", 1)
            )
        scale = delta_f / _exact.epsilon(epsilon)
        return Noise(Laplace(float(scale)) if name == "laplace" else noise.DiscreteLaplace(scale))
    if name != "gaussian":
        raise ParameterError(
            f"unknown noise {name!r}: it is 'laplace', 'geometric' or 'gaussian'",
            hint=Hint("noise", "laplace"),
        )
    if sigma is not None:
        return Noise(Gaussian(float(_exact.exact(sigma, "sigma"))))
    if rho is not None:
        return Noise(Gaussian(float(delta_f) / math.sqrt(2 * _exact.epsilon(rho, "rho"))))
    if epsilon is None or delta is None:
        raise ParameterError(
            "gaussian noise needs sigma, rho, or epsilon and delta", hint=Hint("delta", "1e-6")
        )
    from discreet.privacy import gaussian_sigma  # noqa: PLC0415 - only this branch prices

    return Noise(Gaussian(gaussian_sigma(delta_f, epsilon, delta)))
