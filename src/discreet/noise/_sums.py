r"""Laws of sums of independent noise, and the records of laws.

The law of :math:`S = \sum_i X_i` is computed on a grid of cells of width
:math:`w = 2^k` by multiplying discrete Fourier transforms. Two errors are
bounded and allowed for:

* *Truncation and wrap-around.* The grid spans :math:`[-l, h]` with
  :math:`P(S \notin [-l,h]) \le 2\cdot10^{-20}`, by Chernoff's inequality
  :math:`P(S \ge h) \le e^{K(\theta) - \theta h}`, where K is the sum of the
  cumulant functions (for the discrete Gaussian, its bound
  :math:`\theta^2\sigma^2/2` [1]_).
* *Rounding* of the transform, at most ``error`` in any probability: the usual
  bound on its Euclidean norm, times √N to pass to sums.

With w = 1 (sums up to about 2¹⁸ integers wide) nothing else happens. Beyond,
write :math:`X_i = wL_i + R_i` with :math:`0 \le R_i \le w-1`. The grid holds
the law of :math:`\sum L_i` and, for t terms,

.. math:: P(w\textstyle\sum L_i + t(w-1) \le x) \le P(S \le x)
          \le P(w\sum L_i \le x).

``interval`` uses these bounds, so its confidence holds, and is wider than
needed by at most t cells a side; ``cdf`` interpolates between them.

References
----------
.. [1] C. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian for
   differential privacy", 2020 (the discrete Gaussian is sub-Gaussian).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet._dataclass import dataclass
from discreet.errors import Hint, ParameterError
from discreet.noise._deterministic import mark
from discreet.noise._laws import (
    DiscreteGaussian,
    DiscreteLaplace,
    Geometric,
    Interval,
    Law,
    level,
    per_integer,
    smallest,
)
from discreet.noise._uniform import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from discreet._exact import Number

_MOST_CELLS = 1 << 18
_MOST_COPIES = 10**6
_LOG_TRUNCATED = math.log(1e20)


@dataclass(frozen=True, slots=True, repr=False)
class Sum(Law):
    """The law of a sum of independent noises; made by ``law + law`` or :func:`sum_of`.

    Attributes
    ----------
    terms
        Pairs (law, how many independent copies).

    Examples
    --------
    >>> law = DiscreteLaplace(10) + DiscreteLaplace(10) + DiscreteGaussian(3)
    >>> law
    2*DiscreteLaplace(scale=10) + DiscreteGaussian(sigma=3)
    >>> law.interval(0.95).high
    41
    """

    terms: tuple[tuple[Law, int], ...]

    def __repr__(self) -> str:
        return " + ".join(f"{n}*{law!r}" if n > 1 else repr(law) for law, n in self.terms)

    @property
    def mean(self) -> float:
        """The expectation."""
        return math.fsum(n * law.mean for law, n in self.terms)

    @property
    def variance(self) -> float:
        """The variance."""
        return math.fsum(n * law.variance for law, n in self.terms)

    @property
    def symmetric(self) -> bool:
        """Whether X and −X have the same law."""
        return all(law.symmetric for law, _ in self.terms)

    @property
    def error(self) -> float:
        """Absolute error that any probability of this law stays below (grid of width 1)."""
        return _grid(self).error

    def sample(self, n: int) -> NDArray[Any]:
        """Draw `n` independent integers: int64, or object beyond 63 bits."""
        total: NDArray[Any] = np.zeros(count(n), dtype=np.int64)
        reach = 0
        for law, copies in self.terms:
            for _ in range(copies):
                draws = law.sample(n)
                reach += int(np.abs(draws).max(initial=0))
                if reach >= 1 << 63 and total.dtype != object:
                    total = total.astype(object)
                total = total + draws
        return mark(total)

    def pmf(self, k: ArrayLike) -> Any:
        """Return P(X = k); 0 where k is not an integer."""
        grid = _grid(self)
        return per_integer(k, lambda x: np.where(x == np.floor(x), grid.density(x), 0.0))

    def cdf(self, k: ArrayLike) -> Any:
        """Return P(X ≤ k)."""
        grid = _grid(self)
        return per_integer(k, lambda x: grid.middle(np.floor(x), grid.below))

    def sf(self, k: ArrayLike) -> Any:
        """Return P(X > k)."""
        grid = _grid(self)
        return per_integer(k, lambda x: grid.middle(np.floor(x), grid.above))

    def interval(self, confidence: Number) -> Interval:
        """Return an interval with this confidence.

        Symmetric laws: −c to c. Sums of one-sided laws: 0 to c. Mixtures of
        both: equal probability left out on either side.
        """
        grid = _grid(self)
        target = level(confidence, grid.error)
        guess = max(0, int(2 * self.std))
        if self.symmetric:

            def achieved(c: int) -> float:
                return grid.at_least(-c, c)

            c = smallest(lambda c: achieved(c) >= target, guess)
            return Interval(-c, c, achieved(c))
        start = 0
        if any(law.symmetric for law, _ in self.terms):
            tail = (1 - target) / 2 * (1 - 1e-9)
            start = grid.start_of(tail)
        c = smallest(lambda c: grid.at_least(start, start + c) >= target, guess)
        return Interval(start, start + c, grid.at_least(start, start + c))

    def to_dict(self) -> dict[str, Any]:
        """Return an exact record that JSON can hold."""
        terms = [{"count": n, **law.to_dict()} for law, n in self.terms]
        return {"law": "sum", "terms": terms}


def sum_of(laws: Iterable[Law], counts: Sequence[int] | None = None) -> Sum:
    """Return the law of a sum of independent draws, one from each law.

    Parameters
    ----------
    laws
        Laws or sums of laws.
    counts
        How many independent copies of each; one by default.

    Examples
    --------
    >>> sum_of([DiscreteLaplace(1), Geometric(2)], counts=[3, 1])
    3*DiscreteLaplace(scale=1) + Geometric(scale=2)
    """
    laws = list(laws)
    counts = [1] * len(laws) if counts is None else list(counts)
    if not laws or len(laws) != len(counts):
        raise ParameterError(f"need one count for each law, got {len(counts)} for {len(laws)}")
    merged: dict[Law, int] = {}
    for law, times in zip(laws, counts, strict=True):
        if not isinstance(law, Law):
            raise ParameterError(f"not a noise law: {type(law).__name__}")
        if count(times) < 1:
            raise ParameterError(f"a law is added at least once, got {times}")
        for part, n in law.terms if isinstance(law, Sum) else ((law, 1),):
            merged[part] = merged.get(part, 0) + n * times
    if sum(merged.values()) > _MOST_COPIES:
        raise ParameterError(
            f"a sum holds at most {_MOST_COPIES} noises", hint=Hint("counts", [1000])
        )
    return Sum(tuple(merged.items()))


def law_from_dict(record: Mapping[str, Any]) -> Law:
    """Rebuild a law from its record.

    >>> law = DiscreteGaussian.from_variance("0.1") + Geometric("1/3")
    >>> law_from_dict(law.to_dict()) == law
    True
    """
    try:
        if record["law"] != "sum":
            return _basic(record)
        # sums hold basic laws, never sums: no record asks for recursion
        terms = record["terms"]
        return sum_of([_basic(t) for t in terms], [t["count"] for t in terms])
    except (KeyError, TypeError):
        raise ParameterError("this is not the record of a noise law") from None


def _basic(record: Mapping[str, Any]) -> Law:
    match record["law"]:
        case "discrete-laplace":
            return DiscreteLaplace(str(record["scale"]))
        case "geometric":
            return Geometric(str(record["scale"]))
        case "discrete-gaussian":
            return DiscreteGaussian.from_variance(str(record["sigma2"]))
        case name:
            raise ParameterError(f"no such noise law: {str(name)[:40]!r}")


@dataclass(frozen=True, slots=True)
class _Grid:
    """Law of ΣLᵢ on cells first, first + 1, …; see the module's head."""

    width: int
    first: int
    slack: int  # how far Σ Rᵢ can reach: t·(w − 1)
    mass: NDArray[np.float64]
    below: NDArray[np.float64]  # P(ΣL < first + i), i = 0 … size
    above: NDArray[np.float64]  # P(ΣL ≥ first + i)
    error: float

    def _index(self, cell: int) -> int:
        return min(max(cell - self.first, 0), self.mass.size)

    def at_least(self, low: int, high: int) -> float:
        """Return a lower bound on P(low ≤ S ≤ high)."""
        left = self._index((low - 1) // self.width + 1)
        right = self._index((high - self.slack) // self.width + 1)
        outside = float(self.below[left] + self.above[right]) + 2 * self.error
        return math.nextafter(1 - outside, 0.0)

    def start_of(self, tail: float) -> int:
        """Return the largest grid point x with P(S < x) surely at most `tail`."""
        i = int(np.searchsorted(self.below + self.error, tail, side="right")) - 1
        return (self.first + max(i, 0)) * self.width

    def middle(self, x: NDArray[np.float64], table: NDArray[np.float64]) -> NDArray[np.float64]:
        """Interpolate the table of P(ΣL < cell) or P(ΣL ≥ cell) at S ≤ x."""
        place = (x - self.slack / 2 + 1) / self.width - self.first
        place = np.clip(place, 0, self.mass.size)
        cell = np.minimum(np.floor(place), self.mass.size - 1).astype(np.int64)
        part = place - cell
        return np.asarray(table[cell] * (1 - part) + table[cell + 1] * part)

    def density(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return P(S = x), spread evenly within a cell."""
        place = np.floor((x - self.slack / 2) / self.width) - self.first
        inside = (place >= 0) & (place < self.mass.size)
        index = np.where(inside, place, 0).astype(np.int64)
        return np.where(inside, self.mass[index] / self.width, 0.0)


@lru_cache(maxsize=64)
def _grid(law: Sum) -> _Grid:
    low, high = _reach(law, -1), _reach(law, +1)
    copies = sum(n for _, n in law.terms)
    k = max(0, math.ceil(math.log2((low + high + 2) / _MOST_CELLS)))
    width = 1 << k
    # room for the −1 that each floor can add
    first = -(math.ceil(low) // width) - 2 - (copies if k else 0)
    size = 1 << math.ceil(math.log2(math.ceil(high) // width + 3 - first))
    product = np.ones(size // 2 + 1, dtype=np.complex128)
    norm = 0.0
    for part, n in law.terms:
        mass = _cell_masses(part, width, first, size)
        norm = max(norm, float(np.sqrt((mass**2).sum())))
        # cell j of a term stands at index j mod size, so that products add up the cells
        product *= np.fft.rfft(np.roll(mass, first)) ** n
    mass = np.roll(np.fft.irfft(product, size), -first)
    spread = math.sqrt(size) * max(norm, float(np.sqrt((mass**2).sum())))
    error = 2.0**-51 * math.log2(size) * (copies + 2) * spread + 1e-18
    mass = np.maximum(mass, 0.0)
    return _Grid(
        width=width,
        first=first,
        slack=copies * (width - 1),
        mass=mass,
        below=np.append(0.0, np.cumsum(mass)),
        above=np.append(np.cumsum(mass[::-1])[::-1], 0.0),
        error=error,
    )


def _cell_masses(law: Law, width: int, first: int, size: int) -> NDArray[np.float64]:
    """Return P(⌊X/width⌋ = first + i)."""
    cell = np.arange(first, first + size, dtype=np.float64)
    if width == 1:
        return np.asarray(law.pmf(cell))
    last = (cell + 1) * width - 1
    # differences of the smaller tail, so that far cells keep their digits
    upper = law.sf(last - width) - law.sf(last)
    lower = law.cdf(last) - law.cdf(last - width)
    return np.asarray(np.maximum(np.where(cell < 0, lower, upper), 0.0))


def _reach(law: Sum, side: int) -> float:
    """Return h with P(side·S ≥ h) ≤ 1e-20, by Chernoff's inequality."""
    theta = min(_steepest(part) for part, _ in law.terms) * np.geomspace(1e-6, 0.999, 400)
    total = sum(n * _cumulant(part, side * theta) for part, n in law.terms)
    return max(0.0, float(np.min((total + _LOG_TRUNCATED) / theta)))


def _steepest(law: Law) -> float:
    """Return a θ up to which the cumulant function is finite and of use."""
    if isinstance(law, DiscreteGaussian):
        return 20 / law.sigma
    assert isinstance(law, DiscreteLaplace | Geometric)
    return 1 / float(law.scale)


def _cumulant(law: Law, theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (a bound on) ln E exp(θX)."""
    if isinstance(law, DiscreteGaussian):
        return np.asarray(theta**2 * float(law.sigma2) / 2)
    assert isinstance(law, DiscreteLaplace | Geometric)
    rate = 1 / float(law.scale)
    one_side = math.log(-math.expm1(-rate)) - np.log(-np.expm1(theta - rate))
    if isinstance(law, Geometric):
        return np.asarray(one_side)
    return np.asarray(one_side + math.log(-math.expm1(-rate)) - np.log(-np.expm1(-theta - rate)))
