r"""Noise laws: one object that draws, prices, prints and bounds its noise.

========================  =====================  =======================================
law                       support                probability of x
========================  =====================  =======================================
``DiscreteLaplace(s)``    all integers           :math:`\tanh(1/2s)\,e^{-|x|/s}`
``DiscreteGaussian(σ)``   all integers           :math:`e^{-x^2/2\sigma^2}/Z(\sigma)`
``Geometric(s)``          0, 1, 2, …             :math:`(1-e^{-1/s})\,e^{-x/s}`
========================  =====================  =======================================

Parameters are exact rationals: ``"0.1"`` is 1/10, and a float is the binary
number it is. :meth:`Law.sample` draws from exactly this law (proof in
:mod:`discreet.noise._cells`). ``pmf``, ``cdf`` and ``sf`` are floating-point
values with relative error below :data:`ACCURACY` in both tails; ``interval``
allows for that error, so its confidence holds. The discrete Gaussian's
normaliser is the theta function

.. math:: Z = \sum_x e^{-x^2/2\sigma^2} = \sigma\sqrt{2\pi}\,
          \bigl(1 + 2\sum_{j\ge1} e^{-2\pi^2\sigma^2 j^2}\bigr),

summed by whichever side converges at once; its tail sums are direct for
σ < 256, and by the midpoint Euler–Maclaurin formula above, where the first
term left out is below 10⁻¹⁵ of the tail for every tail above 10⁻³⁰⁰.

Examples
--------
>>> law = DiscreteLaplace("10")
>>> law.sample(3).dtype
dtype('int64')
>>> law.interval(0.95)
Interval(low=-30, high=30, confidence=0.95...)
>>> round(law.variance, 4)
199.8334
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from discreet import _exact
from discreet._dataclass import dataclass
from discreet._exact import Number, exact, show
from discreet.errors import Hint, ParameterError
from discreet.noise import _cells
from discreet.noise._deterministic import mark
from discreet.noise._uniform import count

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from discreet.noise._sums import Sum

ACCURACY = 2e-12
"""Relative error that pmf, cdf and sf of the basic laws stay below."""

SMALLEST_SCALE = Fraction(1, 10**9)
LARGEST_SCALE = Fraction(1 << 60)
_EULER_MACLAURIN_FROM = 256


class Interval(NamedTuple):
    """Integers `low` to `high` hold the noise with probability at least `confidence`."""

    low: int
    high: int
    confidence: float


class Law(ABC):
    """A law of integer noise."""

    __slots__ = ()

    @abstractmethod
    def sample(self, n: int) -> NDArray[Any]:
        """Draw `n` independent integers: int64, or object beyond 63 bits."""

    @abstractmethod
    def pmf(self, k: ArrayLike) -> Any:
        """Return P(X = k); 0 where k is not an integer."""

    @abstractmethod
    def cdf(self, k: ArrayLike) -> Any:
        """Return P(X ≤ k)."""

    @abstractmethod
    def sf(self, k: ArrayLike) -> Any:
        """Return P(X > k), accurate where it is small."""

    @property
    @abstractmethod
    def mean(self) -> float:
        """The expectation."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """The variance."""

    @property
    @abstractmethod
    def symmetric(self) -> bool:
        """Whether X and −X have the same law."""

    @abstractmethod
    def interval(self, confidence: Number) -> Interval:
        """Return the smallest interval of the law's natural shape with this confidence.

        Symmetric laws: −c to c. One-sided laws: 0 to c. The achieved confidence
        is a lower bound, at least what was asked.
        """

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return an exact record that JSON can hold; :func:`law_from_dict` reads it."""

    @property
    def std(self) -> float:
        """The standard deviation."""
        return math.sqrt(self.variance)

    def __add__(self, other: Law) -> Sum:
        from discreet.noise._sums import sum_of  # noqa: PLC0415  (sums are made of laws)

        return sum_of([self, other]) if isinstance(other, Law) else NotImplemented

    def __mul__(self, copies: int) -> Sum:
        from discreet.noise._sums import sum_of  # noqa: PLC0415  (sums are made of laws)

        return sum_of([self], counts=[copies])

    __rmul__ = __mul__


def _scale(x: Number, name: str) -> Fraction:
    value = _exact.positive(exact(x, name), name, example=1)
    return _in_range(value, name, SMALLEST_SCALE, LARGEST_SCALE)


def _in_range(value: Fraction, name: str, low: Fraction, high: Fraction) -> Fraction:
    if not low <= value <= high:
        raise ParameterError(
            f"{name} must lie between {show(low)} and {float(high):.6g}, got {show(value)[:40]}",
            hint=Hint(name, 1),
        )
    return value


def per_integer(k: ArrayLike, of: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> Any:
    """Apply `of` to doubles of `k`; hand back a float for a scalar."""
    array = np.asarray(k)
    with np.errstate(under="ignore", over="ignore"):
        result = of(np.atleast_1d(array).astype(np.float64))
    return float(result[0]) if array.ndim == 0 else result.reshape(array.shape)


class _Basic(Law):
    """What the three basic laws share: a kernel, and tails in floating point."""

    __slots__ = ()

    @property
    @abstractmethod
    def _kernel(self) -> _cells.Kernel: ...

    @abstractmethod
    def _pmf(self, k: NDArray[np.float64]) -> NDArray[np.float64]: ...

    @abstractmethod
    def _upper(self, k: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return P(X ≥ k) for integers k ≥ 0 (k ≥ 1 for symmetric laws)."""

    @abstractmethod
    def _guess(self, alpha: float) -> float:
        """Return about where the tail beyond the interval is `alpha`."""

    def sample(self, n: int) -> NDArray[Any]:
        """Draw `n` independent integers: int64, or object beyond 63 bits."""
        return mark(_cells.draw(self._kernel, count(n)))

    @property
    def symmetric(self) -> bool:
        """Whether X and −X have the same law."""
        return self._kernel.two_sided

    def pmf(self, k: ArrayLike) -> Any:
        """Return P(X = k); 0 where k is not an integer."""
        return per_integer(k, lambda x: np.where(x == np.floor(x), self._pmf(x), 0.0))

    def cdf(self, k: ArrayLike) -> Any:
        """Return P(X ≤ k)."""
        return per_integer(k, lambda x: self._below(np.floor(x)))

    def sf(self, k: ArrayLike) -> Any:
        """Return P(X > k), accurate where it is small."""
        return per_integer(k, lambda x: self._above(np.floor(x)))

    def _above(self, k: NDArray[np.float64]) -> NDArray[np.float64]:
        if not self.symmetric:
            return np.where(k < 0, 1.0, self._upper(np.maximum(k + 1, 0)))
        return np.where(k >= 0, self._upper(np.abs(k + 1)), 1 - self._upper(np.abs(k)))

    def _below(self, k: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.symmetric:
            return self._above(-k - 1)
        return np.where(k < 0, 0.0, 1 - self._upper(np.maximum(k + 1, 0)))

    def interval(self, confidence: Number) -> Interval:
        """Return the smallest interval −c..c (0..c if one-sided) with this confidence.

        Parameters
        ----------
        confidence
            Between 0 and 1, for instance 0.95.

        Returns
        -------
        Interval
            Integer ends, and a lower bound on the probability between them
            that is at least what was asked.
        """
        return _interval(self, level(confidence))


@lru_cache(maxsize=256)
def _interval(law: _Basic, target: float) -> Interval:
    sides = 2 if law.symmetric else 1

    def achieved(c: int) -> float:
        outside = sides * float(law.sf(c)) * (1 + ACCURACY)
        return math.nextafter(1 - outside, 0.0)

    c = max(0, int(law._guess((1 - target) / sides)))  # noqa: SLF001 - same module
    c = smallest(lambda c: achieved(c) >= target, c)
    return Interval(-c if law.symmetric else 0, c, achieved(c))


def level(confidence: Number, error: float = 0.0) -> float:
    """Read a confidence level, rounded up; refuse one that doubles cannot certify."""
    _exact.confidence(confidence)
    target = _exact.ceil_float(_exact.decimal(confidence, "confidence"))
    highest = 1 - 2 * error - 2.0**-50
    if target > highest:
        raise ParameterError(
            f"confidence must be at most {highest!r} for this law",
            hint=Hint("confidence", 0.999999),
        )
    return target


def smallest(holds: Callable[[int], bool], guess: int) -> int:
    """Return the least c ≥ 0 with `holds(c)`, for a property that stays true upward."""
    step = 1
    if holds(guess):
        low, high = guess - 1, guess
        while low >= 0 and holds(low):
            low, high, step = low - 2 * step, low, 2 * step
        low = max(low, -1)
    else:
        low, high = guess, guess + 1
        while not holds(high):
            low, high, step = high, high + 2 * step, 2 * step
    return _exact.turning(holds, low, high)[1]


@dataclass(frozen=True, slots=True, init=False, repr=False)
class DiscreteLaplace(_Basic):
    """Integers with P(x) ∝ exp(−|x|/scale).

    Parameters
    ----------
    scale
        Between 1e-9 and 2**60. The noise that makes a count ε-private has
        scale 1/ε.

    Examples
    --------
    >>> law = DiscreteLaplace(2)
    >>> round(law.pmf(0), 6), round(law.cdf(0) - law.cdf(-1), 6)
    (0.244919, 0.244919)
    """

    scale: Fraction

    def __init__(self, scale: Number) -> None:
        object.__setattr__(self, "scale", _scale(scale, "scale"))

    def __repr__(self) -> str:
        return f"DiscreteLaplace(scale={show(self.scale)})"

    @property
    def _kernel(self) -> _cells.Kernel:
        return _cells.Kernel(1 / self.scale, Fraction(0), two_sided=True)

    def _pmf(self, k: NDArray[np.float64]) -> NDArray[np.float64]:
        s = float(self.scale)
        return np.asarray(math.tanh(0.5 / s) * np.exp(-np.abs(k) / s))

    def _upper(self, k: NDArray[np.float64]) -> NDArray[np.float64]:
        s = float(self.scale)
        return np.asarray(np.exp(-k / s) / (1 + math.exp(-1 / s)))

    def _guess(self, alpha: float) -> float:
        return -float(self.scale) * math.log(2 * alpha) if alpha < 0.5 else 0.0

    @property
    def mean(self) -> float:
        """The expectation, 0."""
        return 0.0

    @property
    def variance(self) -> float:
        """The variance, 2r/(1−r)² with r = exp(−1/scale)."""
        x = 1 / float(self.scale)
        return 2 * math.exp(-x) / math.expm1(-x) ** 2

    def to_dict(self) -> dict[str, Any]:
        """Return an exact record that JSON can hold."""
        return {"law": "discrete-laplace", "scale": str(self.scale)}


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Geometric(_Basic):
    """Integers 0, 1, 2, … with P(x) ∝ exp(−x/scale).

    Parameters
    ----------
    scale
        Between 1e-9 and 2**60.

    Examples
    --------
    >>> round(Geometric(2).pmf(0), 6)
    0.393469
    """

    scale: Fraction

    def __init__(self, scale: Number) -> None:
        object.__setattr__(self, "scale", _scale(scale, "scale"))

    def __repr__(self) -> str:
        return f"Geometric(scale={show(self.scale)})"

    @property
    def _kernel(self) -> _cells.Kernel:
        return _cells.Kernel(1 / self.scale, Fraction(0), two_sided=False)

    def _pmf(self, k: NDArray[np.float64]) -> NDArray[np.float64]:
        s = float(self.scale)
        return np.where(k < 0, 0.0, -math.expm1(-1 / s) * np.exp(-np.abs(k) / s))

    def _upper(self, k: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.exp(-k / float(self.scale)))

    def _below(self, k: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(k < 0, 0.0, -np.expm1(-np.maximum(k + 1, 0) / float(self.scale)))

    def _guess(self, alpha: float) -> float:
        return -float(self.scale) * math.log(alpha)

    @property
    def mean(self) -> float:
        """The expectation, r/(1−r) with r = exp(−1/scale)."""
        x = 1 / float(self.scale)
        return -math.exp(-x) / math.expm1(-x)

    @property
    def variance(self) -> float:
        """The variance, r/(1−r)² with r = exp(−1/scale)."""
        x = 1 / float(self.scale)
        return math.exp(-x) / math.expm1(-x) ** 2

    def to_dict(self) -> dict[str, Any]:
        """Return an exact record that JSON can hold."""
        return {"law": "geometric", "scale": str(self.scale)}


@dataclass(frozen=True, slots=True, init=False, repr=False)
class DiscreteGaussian(_Basic):
    """Integers with P(x) ∝ exp(−x²/2σ²).

    Parameters
    ----------
    sigma
        Between 1e-9 and 2**60. Its square is held exactly; use
        :meth:`from_variance` to give σ² itself. The variance of the law is
        close to σ² and never above it.

    Examples
    --------
    >>> DiscreteGaussian(2).sigma2, DiscreteGaussian.from_variance("0.1").sigma2
    (Fraction(4, 1), Fraction(1, 10))
    """

    sigma2: Fraction

    def __init__(self, sigma: Number) -> None:
        object.__setattr__(self, "sigma2", _scale(sigma, "sigma") ** 2)

    @classmethod
    def from_variance(cls, sigma2: Number) -> DiscreteGaussian:
        """Return the law whose parameter σ² is exactly `sigma2`."""
        value = _exact.positive(exact(sigma2, "sigma2"), "sigma2", example=1)
        _in_range(value, "sigma2", SMALLEST_SCALE**2, LARGEST_SCALE**2)
        law = cls(1)
        object.__setattr__(law, "sigma2", value)
        return law

    def __repr__(self) -> str:
        root = Fraction(math.isqrt(self.sigma2.numerator), math.isqrt(self.sigma2.denominator))
        if root**2 == self.sigma2:
            return f"DiscreteGaussian(sigma={show(root)})"
        return f"DiscreteGaussian.from_variance({show(self.sigma2)})"

    @property
    def sigma(self) -> float:
        """σ, rounded to a double."""
        return math.sqrt(self.sigma2)

    @property
    def _kernel(self) -> _cells.Kernel:
        return _cells.Kernel(Fraction(0), 1 / (2 * self.sigma2), two_sided=True)

    def _pmf(self, k: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(_gaussian(k, float(self.sigma2)) / _normaliser(self.sigma2))

    def _upper(self, k: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.sigma2 < _EULER_MACLAURIN_FROM**2:
            sums = _tail_sums(self.sigma2)
            index = np.minimum(k, sums.size - 1).astype(np.int64)
            return np.asarray(sums[index] / _normaliser(self.sigma2))
        return np.asarray(_euler_maclaurin(k - 0.5, self.sigma) / _normaliser(self.sigma2))

    def _guess(self, alpha: float) -> float:
        from scipy.special import ndtri  # noqa: PLC0415  (keeps `import discreet` light)

        return self.sigma * -float(ndtri(max(alpha, 1e-300)))

    @property
    def mean(self) -> float:
        """The expectation, 0."""
        return 0.0

    @property
    def variance(self) -> float:
        """The variance, which is at most σ²."""
        return _gaussian_variance(self.sigma2)

    def to_dict(self) -> dict[str, Any]:
        """Return an exact record that JSON can hold."""
        return {"law": "discrete-gaussian", "sigma2": str(self.sigma2)}


def _gaussian(x: NDArray[np.float64], sigma2: float) -> NDArray[np.float64]:
    return np.asarray(np.exp(-x / sigma2 * x / 2))


_THETA = np.arange(1.0, 13.0)


@lru_cache(maxsize=1024)
def _normaliser(sigma2: Fraction) -> float:
    s2 = float(sigma2)
    # both series have their terms below e^{-πj²}, so a dozen terms are exact in double
    if s2 < 1 / (2 * math.pi):
        return 1 + 2 * math.fsum(_gaussian(_THETA, s2))
    dual = 2 * math.fsum(np.exp(-2 * math.pi**2 * min(s2, 1e3) * _THETA**2))
    return math.sqrt(2 * math.pi * s2) * (1 + dual)


@lru_cache(maxsize=1024)
def _gaussian_variance(sigma2: Fraction) -> float:
    s2 = float(sigma2)
    if s2 < 1 / (2 * math.pi):
        return 2 * math.fsum(_THETA**2 * _gaussian(_THETA, s2)) / _normaliser(sigma2)
    # differentiate ln Z with respect to −1/2σ², term by term in the dual series
    q = 2 * math.pi**2 * min(s2, 1e3)
    dual = np.exp(-q * _THETA**2)
    slope = 4 * q * math.fsum(_THETA**2 * dual) / (1 + 2 * math.fsum(dual))
    return s2 * (1 - slope)


@lru_cache(maxsize=64)
def _tail_sums(sigma2: Fraction) -> NDArray[np.float64]:
    """Return Σ_{x≥k} exp(−x²/2σ²) for k = 0, 1, … until it underflows."""
    s2 = float(sigma2)
    values = _gaussian(np.arange(math.ceil(39 * math.sqrt(s2)) + 2, dtype=np.float64), s2)
    return np.append(np.cumsum(values[::-1])[::-1], 0.0)


def _euler_maclaurin(x: NDArray[np.float64], sigma: float) -> NDArray[np.float64]:
    """Return Σ exp(−(x+½+j)²/2σ²) over j ≥ 0: the integral from x and midpoint corrections."""
    from scipy.special import erfc  # noqa: PLC0415  (keeps `import discreet` light)

    t = x / sigma
    t = np.minimum(t, 1e3)
    h1, h3 = t, t**3 - 3 * t
    h5 = t**5 - 10 * t**3 + 15 * t
    h7 = t**7 - 21 * t**5 + 105 * t**3 - 105 * t
    correction = (
        -h1 / 24 / sigma
        + 7 * h3 / 5760 / sigma**3
        - 31 * h5 / 967680 / sigma**5
        + 127 * h7 / 154828800 / sigma**7
    )
    integral = sigma * math.sqrt(math.pi / 2) * erfc(t / math.sqrt(2))
    return np.asarray(integral + np.exp(-t * t / 2) * correction)
