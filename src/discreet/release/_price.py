"""What a publication may cost, and the noise that buys.

Three prices: pure ε (discrete Laplace noise), ρ of zero-concentrated privacy, and (ε, δ)
(discrete Gaussian noise). A price may be divided into shares that add up to at most 1.
Composition is basic, because later questions may depend on earlier answers: the ε of the
parts add up, the ρ of the parts add up, and both sums bound the adaptive whole (Dwork &
Lei 2009; Bun & Steinke 2016, Lemma 7). A price (ε, δ) that is spent on one measurement is
certified on the discrete law drawn; divided, it is spent as the largest ρ whose tight
conversion stays below (ε, δ).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet import _exact, noise
from discreet import privacy as p
from discreet._dataclass import dataclass
from discreet._exact import Number, show
from discreet.errors import Hint, ParameterError
from discreet.privacy import Neighbours

_PIECE = 1 << 22


@dataclass(frozen=True, slots=True)
class Price:
    """A privacy price: ε alone, ε and δ, or ρ."""

    epsilon: Fraction | None
    delta: Fraction | None
    rho: Fraction | None

    @classmethod
    def read(
        cls, epsilon: Number | None = None, delta: Number | None = None, rho: Number | None = None
    ) -> Price:
        """Read a price from what a caller wrote."""
        if rho is not None and epsilon is None and delta is None:
            return cls(None, None, _exact.epsilon(rho, "rho"))
        if epsilon is None or rho is not None:
            raise ParameterError(
                "state one price: epsilon, or epsilon and delta, or rho", hint=Hint("epsilon", "1")
            )
        return cls(_exact.epsilon(epsilon), None if delta is None else _exact.delta(delta), None)

    @property
    def pure(self) -> bool:
        """Whether the noise is Laplace."""
        return self.epsilon is not None and self.delta is None

    @property
    def total(self) -> Fraction:
        """The sum that parts may reach: ε if pure, otherwise ρ."""
        if self.rho is not None:
            return self.rho
        assert self.epsilon is not None
        return self.epsilon if self.delta is None else _rho_below(self.epsilon, self.delta)

    @property
    def loss(self) -> p.PrivacyLoss:
        """The loss of everything that the whole price buys in parts."""
        return p.Pure(self.total) if self.pure else p.Zcdp(self.total)

    def each(self, rows: int) -> Price:
        """Return the price of one record, where one unit may have so many.

        Group privacy: what is ε-DP for one record is rows·ε-DP for that many, and what is
        ρ-zCDP is rows²·ρ-zCDP (Bun & Steinke 2016, Proposition 27).
        """
        if rows == 1:
            return self
        if self.pure:
            return Price(self.total / rows, None, None)
        return Price(None, None, self.total / rows**2)

    def __str__(self) -> str:
        if self.rho is not None:
            return f"ρ={show(self.rho)}"
        assert self.epsilon is not None
        text = f"ε={show(self.epsilon)}"
        return text if self.delta is None else f"{text}, δ={show(self.delta)}"

    def law(self, l1: int, l2: int, share: Fraction | None = None, rows: int = 1) -> noise.Law:
        """Return the noise for a measurement of these sensitivities (L1, squared L2).

        Without a share it is the only one, and certified at (ε, δ) by itself.
        """
        alone, share = share is None, Fraction(1) if share is None else share
        if not 0 < share <= 1:
            raise ParameterError(f"a share of the price must lie in (0, 1], got {show(share)}")
        if self.pure:
            return noise.DiscreteLaplace(max(l1, 1) / (share * self.total))
        if alone and self.epsilon is not None and self.delta is not None:
            return _certified(max(l2, 1), self.epsilon, self.delta, rows)
        return noise.DiscreteGaussian.from_variance(max(l2, 1) / (2 * share * self.total))


def cost(law: noise.Law, l1: int, l2: int, rows: int, neighbours: Neighbours) -> p.PrivacyLoss:
    """Return the loss of one measurement with this noise."""
    if isinstance(law, noise.DiscreteLaplace):
        return p.DiscreteLaplace(law.scale, max(l1, 1)).under(neighbours)
    assert isinstance(law, noise.DiscreteGaussian)
    return p.DiscreteGaussian.from_variance(law.sigma2, max(l2, 1), max(rows, 2)).under(neighbours)


@lru_cache(maxsize=256)
def _certified(l2: int, eps: Fraction, delta: Fraction, rows: int) -> noise.DiscreteGaussian:
    """Raise σ from the continuous calibration until the discrete law's own δ(ε) fits."""
    least = p.gaussian_sigma(math.nextafter(math.sqrt(l2), math.inf), eps, delta)
    excess = 0.0
    while excess < 2**20:
        sigma2 = Fraction(least * (1 + excess)) ** 2
        law = p.DiscreteGaussian.from_variance(sigma2, l2, max(rows, 2))
        if law.delta(eps) <= delta:
            return noise.DiscreteGaussian.from_variance(sigma2)
        excess = max(1e-9, 1.5 * excess)
    raise ParameterError(
        f"no discrete Gaussian is certified at ε={show(eps)}, δ={show(delta)}",
        hint=Hint("rho", "0.5"),
    )


@lru_cache(maxsize=256)
def _rho_below(eps: Fraction, delta: Fraction) -> Fraction:
    """Return nearly the largest ρ, on a grid of 2⁻¹⁶ relative, with δ_ρ(ε) ≤ δ."""

    def fits(rho: Fraction) -> bool:
        return p.Zcdp(rho).delta(eps) <= delta

    low = Fraction(1)
    while fits(low):
        low *= 2
    while not fits(low):
        low /= 2
    high = 2 * low
    for _ in range(16):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def draws(law: noise.Law, n: int) -> NDArray[Any]:
    """Draw n integers in pieces, because a draw needs several times its size in memory."""
    if n <= _PIECE:
        return law.sample(n)
    sizes = [min(_PIECE, n - at) for at in range(0, n, _PIECE)]
    return np.concatenate([law.sample(size) for size in sizes])


def variance(law: noise.Law) -> float:
    """Return a law's variance, kept away from 0, where doubles lose it at huge prices."""
    return max(law.variance, 1e-12)
