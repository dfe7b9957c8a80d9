"""Losses stated by parameters alone: any mechanism that keeps the stated promise.

Each class bounds *every* mechanism with its parameters, by the worst case:

* ``Pure(ε₀)``: randomised response with loss ±ε₀ is the worst (Kairouz, Oh &
  Viswanath 2015), δ(ε) = (e^{ε₀} − e^ε)₊/(1 + e^{ε₀}).
* ``Approx(ε₀, δ₀)``: with probability δ₀ everything is revealed, otherwise
  randomised response: δ(ε) = δ₀ + (1−δ₀)(e^{ε₀} − e^ε)₊/(1 + e^{ε₀}). In
  particular it is δ₀-approximate ε₀·tanh(ε₀/2)-zCDP.
* ``Zcdp(ρ, δ₀)``: D_α ≤ αρ for all α outside events of probability δ₀ (Bun &
  Steinke 2016, §8): δ(ε) ≤ δ₀ + (1−δ₀)·δ_ρ(ε).
* ``Concentrated(μ, τ)``: the loss has a mean of at most μ and is τ-sub-Gaussian about it
  (Dwork & Rothblum 2016): ln E e^{λ(L−EL)} ≤ λ²τ²/2. With λ = α−1, D_α ≤ μ + (α−1)τ²/2; with
  λ = −1 and E_P e^{−L} = 1, EL ≤ τ²/2, so a larger μ says nothing more, and the loss is
  τ²/2-zCDP. Means and τ² add up, adaptively too.
* ``Renyi``: D_α at some orders. (α−1)D_α is convex in α and 0 at 1 (a cumulant
  generating function), so a chord between two given orders bounds it between.
* ``BoundedRange(η)``: the log-likelihood ratio moves within an interval of
  length η (Durfee & Rogers 2019). If its upper end is t, the worst law has two
  losses, t and t−η, and δ_t(ε) = (e^{−t} − e^{−η})(e^t − e^ε)₊/(1 − e^{−η}); the
  maximum over t, at t = (ε+η)/2, is δ(ε) = (1 − e^{−(η−ε)/2})²/(1 − e^{−η}). Also
  ρ = η²/8 (Hoeffding's lemma; Cesar & Rogers 2021).
* ``Probabilistic(ε₀, δ₀)``: Pr_P[L > ε₀] ≤ δ₀. It implies (ε₀, δ₀)-DP but is not
  closed under post-processing, so it is offered only to be converted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar

import numpy as np

from discreet import _exact
from discreet._dataclass import dataclass
from discreet._exact import Number, ceil_float, decimal, floor_float, show
from discreet.errors import Hint, NotProvedError, ParameterError
from discreet.privacy._convert import (
    pure_to_rho,
    renyi_to_log_delta,
    zcdp_to_log_delta,
)
from discreet.privacy._loss import Array, PrivacyLoss, assign, log_up, read_order, up
from discreet.privacy._pair import Atoms, Pair


def _epsilon_or_zero(x: Number) -> Fraction:
    value = decimal(x, "epsilon")
    return value if value == 0 else _exact.epsilon(x)


def log_randomized_response(epsilon0: Fraction, epsilon: Array) -> Array:
    """Return ln of (e^{ε₀} − e^ε)₊/(1 + e^{ε₀}), rounded up."""
    top = ceil_float(epsilon0)
    gap = np.maximum(top - epsilon, 0.0)
    with np.errstate(divide="ignore"):
        return log_up(np.log(-np.expm1(-gap)) - math.log1p(math.exp(-top)))


def _response_pair(loss: Pure | Approx) -> Pair:
    """Return randomised response as two atoms, beside the loss's mass at infinity."""
    mass = ceil_float(1 - loss.mass_at_infinity)
    if loss.eps0 == 0:
        atom = Atoms(Fraction(0), Fraction(0), np.array([mass]), ceil_float(loss.mass_at_infinity))
        return Pair.symmetric(loss, atom)
    fade = math.exp(-floor_float(loss.eps0))
    yes, no = mass / (1 + fade), mass * fade / (1 + fade)
    masses = np.array([no, yes]) * (1 + 2.0**-48)
    infinite = ceil_float(loss.mass_at_infinity)
    return Pair.symmetric(loss, Atoms(-loss.eps0, 2 * loss.eps0, masses, infinite))


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Pure(PrivacyLoss):
    """Pure ε-differential privacy; ε = 0 is perfect privacy, the same output law for all data.

    >>> Pure("0.1")
    Pure(epsilon=0.1)
    >>> Pure(0.1).epsilon()
    0.1
    """

    eps0: Fraction

    def __init__(self, epsilon: Number) -> None:
        assign(self, eps0=_epsilon_or_zero(epsilon))

    @property
    def top(self) -> Fraction:
        return self.eps0

    def log_delta(self, epsilon: Array) -> Array:
        return log_randomized_response(self.eps0, epsilon)

    @property
    def rho(self) -> float:
        """ρ = ε·tanh(ε/2), rounded up."""
        return pure_to_rho(self.eps0)

    def pairs(self) -> tuple[Pair, ...]:
        """Return randomised response."""
        return (_response_pair(self),)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Approx(PrivacyLoss):
    """Approximate (ε, δ)-differential privacy.

    >>> Approx(1, "1e-6").epsilon("1e-6")
    1.0
    """

    eps0: Fraction
    delta0: Fraction

    def __init__(self, epsilon: Number, delta: Number) -> None:
        # (0, δ) is a promise about total variation
        assign(self, eps0=_epsilon_or_zero(epsilon), delta0=_exact.delta(delta))

    @property
    def top(self) -> Fraction:
        return self.eps0

    @property
    def mass_at_infinity(self) -> Fraction:
        return self.delta0

    def log_delta(self, epsilon: Array) -> Array:
        rest = np.exp(log_randomized_response(self.eps0, epsilon))
        d = ceil_float(self.delta0)
        return log_up(np.log(np.minimum(up(d) + (1 - d) * rest, 1.0)))

    def zcdp(self) -> Zcdp:
        """Return the δ-approximate ε·tanh(ε/2)-zCDP it implies."""
        return Zcdp.of(pure_to_rho(self.eps0), self.delta0, self)

    def pairs(self) -> tuple[Pair, ...]:
        """Return randomised response that fails with probability δ."""
        return (_response_pair(self),)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Zcdp(PrivacyLoss):
    """Zero-concentrated differential privacy, δ-approximate when `delta` > 0.

    >>> round(Zcdp("0.1").epsilon(1e-6), 6)
    2.141939
    """

    convex: ClassVar[bool] = False
    rho0: Fraction
    delta0: Fraction

    def __init__(self, rho: Number, delta: Number = 0) -> None:
        rho0 = _exact.positive(decimal(rho, "rho"), "rho", example="0.1")
        delta0 = decimal(delta, "delta")
        if not 0 <= delta0 < 1:
            raise ParameterError(f"delta must lie in [0, 1), got {show(delta0)}")
        assign(self, rho0=rho0, delta0=delta0)

    @classmethod
    def of(cls, rho: Fraction | float, delta: Fraction, like: PrivacyLoss) -> Zcdp:
        """Build from an exact or rounded-up ρ, keeping the labels of `like`."""
        if rho == math.inf:
            raise NotProvedError(
                f"{type(like).__name__} has no finite ρ, so it cannot be charged as zCDP",
                hint="charge it to a BasicFilter as p.Approx(loss.epsilon(delta), delta)",
            )
        return cls.build(rho0=Fraction(rho), delta0=delta).labelled(like.label)

    def _details(self) -> dict[str, str]:
        extra = {"delta": show(self.delta0)} if self.delta0 else {}
        return {"rho": show(self.rho0), **extra}

    @property
    def mass_at_infinity(self) -> Fraction:
        return self.delta0

    def log_delta(self, epsilon: Array) -> Array:
        log_rest = zcdp_to_log_delta(self.rho0, epsilon)
        if not self.delta0:
            return log_rest
        d = ceil_float(self.delta0)
        return log_up(np.log(np.minimum(up(d) + (1 - d) * np.exp(log_rest), 1.0)))

    @property
    def rho(self) -> Fraction | float:
        """The exact ρ; inf when only approximate (see :meth:`zcdp`)."""
        return math.inf if self.delta0 else self.rho0

    def zcdp(self) -> Zcdp:
        """Return itself."""
        return self


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Concentrated(PrivacyLoss):
    """(μ, τ)-concentrated DP: mean at most μ, sub-Gaussian about it with parameter τ.

    >>> Concentrated("0.005", "0.1").rho
    Fraction(1, 200)
    """

    convex: ClassVar[bool] = False
    mean0: Fraction
    tau2: Fraction

    def __init__(self, mu: Number, tau: Number) -> None:
        width = _exact.positive(decimal(tau, "tau"), "tau", example="0.1") ** 2
        centre = decimal(mu, "mu")
        if centre < 0:
            raise ParameterError(
                f"mu must not be negative, got {show(centre)}", hint=Hint("mu", "0.005")
            )
        assign(self, mean0=min(centre, width / 2), tau2=width)

    @classmethod
    def from_squares(cls, mean: Fraction, tau2: Fraction) -> Concentrated:
        """Build from the mean and τ², which stay rational under composition."""
        return cls.build(mean0=min(mean, tau2 / 2), tau2=tau2)

    @classmethod
    def of(cls, loss: PrivacyLoss) -> Concentrated:
        """Return what a bounded loss implies: mean ε·tanh(ε/2), τ = ε (Hoeffding's lemma).

        >>> from discreet import privacy as p
        >>> p.Concentrated.of(p.Pure(1)).tau2
        Fraction(1, 1)
        """
        if loss.top == math.inf or loss.mass_at_infinity:
            raise NotProvedError(
                f"{type(loss).__name__} is not bounded, so it has no sub-Gaussian width here",
                hint="loss.zcdp()",
            )
        top = Fraction(loss.top)
        bound = cls.from_squares(Fraction(pure_to_rho(top)), top**2)
        return bound.labelled(loss.label)

    def _details(self) -> dict[str, str]:
        return {"mu": show(self.mean0), "tau": f"{math.sqrt(self.tau2):.6g}"}

    def log_delta(self, epsilon: Array) -> Array:
        return zcdp_to_log_delta(self.tau2 / 2, epsilon, self.mean0)

    @property
    def rho(self) -> Fraction:
        """ρ = τ²/2, exactly."""
        return self.tau2 / 2

    def renyi(self, alpha: Number) -> float:
        """Return μ + (α−1)τ²/2, rounded up."""
        return ceil_float(self.mean0 + (read_order(alpha) - 1) * self.tau2 / 2)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Renyi(PrivacyLoss):
    """Rényi differential privacy at one or several orders.

    Parameters
    ----------
    orders
        Mapping from order α > 1 to a bound on D_α; or give `alpha` and `epsilon`.

    Examples
    --------
    >>> Renyi(alpha=8, epsilon="0.5")
    Renyi({8: 0.5})
    >>> Renyi({2: "0.1", 8: "0.5"}).renyi(4) <= 0.412
    True
    """

    convex: ClassVar[bool] = False
    orders: tuple[tuple[Fraction, Fraction], ...]

    def __init__(
        self,
        orders: Mapping[Number, Number] | None = None,
        *,
        alpha: Number | None = None,
        epsilon: Number | None = None,
    ) -> None:
        if orders is None:
            if alpha is None or epsilon is None:
                raise ParameterError(
                    "Renyi needs orders, or both alpha and epsilon", hint="p.Renyi({2: '0.1'})"
                )
            orders = {alpha: epsilon}
        if not orders:
            raise ParameterError("Renyi needs at least one order", hint="p.Renyi({2: '0.1'})")
        curve = {read_order(a): decimal(e, "epsilon") for a, e in orders.items()}
        if min(curve.values()) < 0:
            raise ParameterError("a Rényi divergence is never negative")
        assign(self, orders=tuple(sorted(curve.items())))

    def _details(self) -> dict[str, str]:
        return {"orders": "{" + ", ".join(f"{show(a)}: {show(e)}" for a, e in self.orders) + "}"}

    def __repr__(self) -> str:
        # PrivacyLoss's repr by name: zero-argument super() does not survive slots
        return PrivacyLoss.__repr__(self).replace("orders=", "", 1)

    def log_delta(self, epsilon: Array) -> Array:
        excesses, divergences = _chords(self)
        bounds = renyi_to_log_delta(excesses[:, None], divergences[:, None], epsilon[None, :])
        return np.asarray(bounds.min(axis=0))

    def renyi(self, alpha: Number) -> float:
        """Return D_α, by the chord of the convex (α−1)D_α between given orders."""
        order = read_order(alpha)
        left, left_moment = Fraction(1), Fraction(0)
        for a, e in self.orders:
            moment = (a - 1) * e
            if order <= a:
                share = (order - left) / (a - left)
                chord = left_moment + share * (moment - left_moment)
                return ceil_float(chord / (order - 1))
            left, left_moment = a, moment
        return math.inf


@lru_cache(maxsize=64)
def _chords(loss: Renyi) -> tuple[Array, Array]:
    """Return α − 1 for the given orders and some between, with D_α: chords are bounds as well."""
    ends = [Fraction(1), *(a for a, _ in loss.orders)]
    steps = [Fraction(i, 8) for i in range(1, 9)]
    orders = [a + (b - a) * step for a, b in pairwise(ends) for step in steps]
    return np.array([float(a - 1) for a in orders]), np.array([loss.renyi(a) for a in orders])


@dataclass(frozen=True, slots=True, init=False, repr=False)
class BoundedRange(PrivacyLoss):
    """A log-likelihood ratio that moves within an interval of length η.

    The exponential mechanism has it with η = its ε, and composes twice as well
    as the ε-DP it also satisfies.

    >>> BoundedRange(1).epsilon(), float(BoundedRange(1).rho)
    (1.0, 0.125)
    """

    eta: Fraction

    def __init__(self, eta: Number) -> None:
        assign(self, eta=_exact.epsilon(eta, "eta"))

    @property
    def top(self) -> Fraction:
        return self.eta

    def log_delta(self, epsilon: Array) -> Array:
        top = ceil_float(self.eta)
        gap = np.maximum(top - epsilon, 0.0)
        with np.errstate(divide="ignore"):
            return log_up(2 * np.log(-np.expm1(-0.5 * gap)) - math.log(-math.expm1(-top)))

    @property
    def rho(self) -> Fraction | float:
        """ρ = η²/8 exactly, or η·tanh(η/2) when that is smaller (large η)."""
        hoeffding: Fraction | float = self.eta**2 / 8
        return min(hoeffding, pure_to_rho(self.eta), key=float)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Probabilistic(PrivacyLoss):
    """(ε, δ)-probabilistic DP: the loss exceeds ε with probability at most δ.

    It is not closed under post-processing: a map of the output can break it,
    while the (ε, δ)-DP it implies survives. Convert with :meth:`approx` first.
    """

    eps0: Fraction
    delta0: Fraction

    def __init__(self, epsilon: Number, delta: Number) -> None:
        assign(self, eps0=_exact.epsilon(epsilon), delta0=_exact.delta(delta))

    def approx(self) -> Approx:
        """Return the approximate DP it implies: Pr_P[S] ≤ e^ε Pr_Q[S] + Pr_P[L > ε].

        >>> Probabilistic(1, "1e-6").approx()
        Approx(epsilon=1, delta=1e-06)
        """
        return Approx(self.eps0, self.delta0).labelled(self.label)

    @property
    def top(self) -> Fraction:
        return self.eps0

    @property
    def mass_at_infinity(self) -> Fraction:
        return self.delta0

    def log_delta(self, epsilon: Array) -> Array:
        return self.approx().log_delta(epsilon)

    def pairs(self) -> tuple[Pair, ...]:
        """Return the pair of the approximate DP it implies."""
        return self.approx().pairs()

    def zcdp(self) -> Zcdp:
        """Return the approximate zCDP of the approximate DP it implies."""
        return self.approx().zcdp()
