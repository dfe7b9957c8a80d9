"""Secrecy of the sample: mechanisms run on a random part of the data.

Poisson sampling, add-remove
----------------------------
Each unit enters with probability γ, independently and secretly. If (P, Q) is a
symmetric dominating pair of the base mechanism (P: with the unit), then
((1−γ)Q + γP, Q) dominates for a removal and (Q, (1−γ)Q + γP) for an addition (Zhu, Dong
& Wang 2022). With h the base profile in α = e^ε, for α ≥ 1,

    removal:   γ·h(1 + (α−1)/γ)
    addition:  (1 − α(1−γ))₊ · h(αγ/(1 − α(1−γ)))

so ε' = ln(1 + γ(e^ε − 1)) and δ' = γδ. The two directions differ, and composition
keeps both: the worse one at each step is not a dominating pair.

Sampling without replacement, change-one
----------------------------------------
m of n units, γ = m/n: δ'(ln(1 + γ(e^ε−1))) = γ·δ(ε) with the base under change-one (Balle,
Barthe & Gaboardi 2018). The relation is symmetric, so one profile does. The base must be
symmetric in the sample: one that keeps its units in the population's order (a list of
reports, say) is not, and its loss can exceed ε'.

Poisson sampling, change-one
----------------------------
The two sampled laws are (1−γ)R + γA and (1−γ)R + γB: R without the unit, A and B with
its old and new data. By advanced joint convexity (ibid.) δ' ≤ γ·max(δ(A‖R), δ(A‖B)),
so the base must hold for additions *and* changes (``covers_change=True``). For
Gaussian noise μ bounds the shift of A and of B from R, and the worst case is opposite
shifts, (1−γ)N(0,1) + γN(±μ,1) (Lebeda et al. 2024).

Proof. Fix who else is in the sample: then R, A and B are Gaussians of one covariance. Both
sides mix over the others with the same weights, and the profile is jointly convex, so a bound
for each choice of the others is a bound. For α = e^ε ≥ 1 and any test φ, in any dimension,
the difference to be bounded is γ·A(φ) − (α−1)(1−γ)·R(φ) − αγ·B(φ). Let R(φ) = Φ(z). By the
lemma of Neyman and Pearson a test of that level has A(φ) ≤ Φ(z+‖a‖) ≤ Φ(z+μ) and
B(φ) ≥ Φ(z−‖b‖) ≥ Φ(z−μ), where a and b are the shifts of A and B. So the difference is at most

    γΦ(z+μ) − (α−1)(1−γ)Φ(z) − αγΦ(z−μ),

and the test x > −z attains all three at once when a = μ and b = −μ on the line. The supremum
over z is that pair's profile. Its likelihood ratio rises in x, so z is the root of a
quadratic in e^{μx}. Exchanging A and B is a reflection: one profile serves both directions,
and with it, as for every symmetric pair, ε < 0. ∎

Everything else (other schemes, without replacement under add-remove, sampled
bases) is refused: Poisson figures for shuffled or fixed-size batches can be wrong
by a factor of ten.
"""

from __future__ import annotations

import math
from enum import StrEnum
from fractions import Fraction

import numpy as np

from discreet._dataclass import dataclass, replace
from discreet._exact import Number, ceil_float, decimal, show
from discreet.errors import Hint, NotProvedError, ParameterError
from discreet.privacy._additive import Gaussian, mills
from discreet.privacy._convert import pure_to_rho
from discreet.privacy._loss import ULP, Array, PrivacyLoss, log_up
from discreet.privacy._pair import Pair
from discreet.privacy._relation import Neighbours, read_neighbours


class Kind(StrEnum):
    """Which of the three theorems a sampled loss rests on."""

    POISSON = "poisson, add-remove"
    SWAP = "change-one"
    OPPOSITE = "poisson, change-one, opposite shifts"


def sample(
    loss: PrivacyLoss,
    rate: Number,
    *,
    scheme: str = "poisson",
    neighbours: Neighbours | str | None = None,
    covers_change: bool = False,
) -> PrivacyLoss:
    """Return the loss of a mechanism run on a secret random sample.

    Parameters
    ----------
    loss
        Loss of the mechanism on the sample.
    rate
        Probability γ of entering the sample (Poisson), or m/n (without replacement).
    scheme
        ``"poisson"`` or ``"without-replacement"``.
    neighbours
        Relation wanted; add-remove for Poisson and change-one without replacement
        unless stated.
    covers_change
        State that `loss` holds both for a unit added or removed and for one changed.

    Examples
    --------
    >>> from discreet import privacy as p
    >>> round(p.sample(p.Pure(1), "0.05").epsilon(), 6)
    0.082422
    """
    gamma = decimal(rate, "rate")
    if not 0 < gamma <= 1:
        raise ParameterError(
            f"rate must lie in (0, 1], got {show(gamma)}", hint=Hint("rate", "0.01")
        )
    relation = read_neighbours(neighbours)
    if len(loss.pairs()) > 1:
        raise NotProvedError(
            "sampling a sampled mechanism again is not proved here",
            hint="multiply the rates: p.sample(loss, rate1 * rate2)",
        )
    match scheme:
        case "poisson":
            kind = _poisson_kind(loss, relation or Neighbours.ADD_REMOVE, covers_change)
        case "without-replacement":
            kind = _fixed_size_kind(loss, relation or Neighbours.CHANGE_ONE)
        case _:
            raise NotProvedError(
                f"no amplification is proved here for sampling by {str(scheme)[:40]!r}; "
                "shuffled batches are not Poisson samples",
                hint=Hint("scheme", "poisson"),
            )
    label = Neighbours.ADD_REMOVE if kind is Kind.POISSON else Neighbours.CHANGE_ONE
    nothing = loss.top == 0 and not loss.mass_at_infinity
    if nothing or (gamma == 1 and kind is not Kind.OPPOSITE):
        return loss.replaced(neighbours=label)
    return Sampled.build(base=loss.unlabelled(), rate=gamma, kind=kind).labelled(
        replace(loss.label, neighbours=label)
    )


def _poisson_kind(loss: PrivacyLoss, relation: Neighbours, covers_change: bool) -> Kind:
    if loss.neighbours is Neighbours.CHANGE_ONE:
        raise NotProvedError(
            "Poisson sampling changes the sample's size, about which a loss under change-one "
            "says nothing",
            hint=Hint("scheme", "without-replacement"),
        )
    if relation is Neighbours.ADD_REMOVE:
        return Kind.POISSON
    if isinstance(loss, Gaussian):
        return Kind.OPPOSITE
    if covers_change:
        return Kind.SWAP
    raise NotProvedError(
        "Poisson sampling under change-one needs a loss that holds for additions and for changes",
        hint=Hint("covers_change", True),
    )


def _fixed_size_kind(loss: PrivacyLoss, relation: Neighbours) -> Kind:
    if relation is not Neighbours.CHANGE_ONE or loss.neighbours is Neighbours.ADD_REMOVE:
        raise NotProvedError(
            "sampling without replacement amplifies change-one losses only",
            hint=Hint("neighbours", "change-one"),
        )
    return Kind.SWAP


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Sampled(PrivacyLoss):
    """Loss of a mechanism run on a secret sample; made by :func:`sample`."""

    base: PrivacyLoss
    rate: Fraction
    kind: Kind

    def _details(self) -> dict[str, str]:
        return {"of": repr(self.base), "rate": show(self.rate), "kind": f"'{self.kind}'"}

    @property
    def top(self) -> Fraction | float:
        """ln(1 + γ(e^ε − 1)), rounded up."""
        if self.base.top == math.inf or self.kind is Kind.OPPOSITE:
            return math.inf
        e, rate = ceil_float(Fraction(self.base.top)), ceil_float(self.rate)
        if e < 30:
            return math.log1p(rate * math.expm1(e)) * (1 + 2.0**-49)
        return (e + math.log(rate + (1 - rate) * math.exp(-e))) * (1 + 2.0**-49) + 2.0**-48

    @property
    def mass_at_infinity(self) -> Fraction:
        """γδ."""
        return self.rate * self.base.mass_at_infinity

    def log_delta(self, epsilon: Array) -> Array:
        """Return ln δ(ε), the worse direction."""
        if self.kind is Kind.OPPOSITE:
            return self._opposite(epsilon)
        if self.kind is Kind.SWAP:
            return self._removal(epsilon)
        return np.maximum(self._removal(epsilon), self._addition(epsilon))

    @property
    def rho(self) -> float:
        """ε'·tanh(ε'/2) where ε' is finite (no ρ is claimed for sampled Gaussians)."""
        bounded = self.top != math.inf and not self.mass_at_infinity
        return pure_to_rho(float(self.top)) if bounded else math.inf

    def pairs(self) -> tuple[Pair, ...]:
        """Return removal and addition apart for Poisson samples under add-remove."""
        if self.kind is not Kind.POISSON:
            return (Pair.symmetric(self),)
        convex = self.base.pairs()[0].convex
        bottom = min(self._floor, float(self.base.top))
        removal = Pair(self._removal, self._addition, self.top, bottom, convex=convex)
        addition = Pair(self._addition, self._removal, bottom, self.top, convex=convex)
        return removal, addition

    def _removal(self, epsilon: Array) -> Array:
        """Return ln γh(1 + (α−1)/γ)."""
        gamma = ceil_float(self.rate)
        inner = np.where(
            epsilon < 1,
            np.log1p(np.expm1(np.minimum(epsilon, 1)) / gamma),
            epsilon + np.log1p(-(1 - gamma) * np.exp(-epsilon)) - math.log(gamma),
        )
        bound = self.base.log_delta(np.maximum(inner * (1 - 8 * ULP), 0.0))
        return log_up(bound + math.log(gamma))

    def _addition(self, epsilon: Array) -> Array:
        """Return ln (1 − α(1−γ))h(αγ/(1 − α(1−γ))), −∞ where α ≥ 1/(1−γ)."""
        gamma = ceil_float(self.rate)
        # r·h(1/r) = ∫(r·q − p)₊ rises in r: rounding r up is sound
        room = np.minimum(1 + np.expm1(-epsilon) / gamma + 8 * ULP, 1.0)
        inside = (epsilon < self._floor) & (room > 0)
        log_room = np.log(np.where(inside, room, 1.0))
        bound = epsilon + math.log(gamma) + log_room + self.base.log_delta(-log_room)
        return np.where(inside, log_up(bound + 16 * ULP * epsilon, 16), -np.inf)

    @property
    def _floor(self) -> float:
        """−ln(1−γ): no loss of an addition is larger."""
        rate = ceil_float(self.rate)
        return math.inf if rate >= 1 else -math.log1p(-rate) * (1 + 2.0**-50)

    def _opposite(self, epsilon: Array) -> Array:
        """Return ln of the profile of (1−γ)N(0,1)+γN(μ,1) against (1−γ)N(0,1)+γN(−μ,1)."""
        assert isinstance(self.base, Gaussian)
        mu, q = self.base.mu, ceil_float(self.rate)
        c = q * math.exp(-0.5 * mu * mu)
        excess = np.expm1(epsilon)
        linear = excess * (1 - q)
        y = (linear + np.sqrt(linear * linear + 4 * (1 + excess) * c * c)) / (2 * c)
        x = np.log(y) / mu
        gain = c * y * mills(x - mu)
        loss = linear * mills(x) + (1 + excess) * (c / y) * mills(x + mu)
        bracket = gain - loss + 16 * ULP * (gain + loss)
        # x itself errs by a few ulp of its size, and e^{μx} by μ times that
        slack = 16 * ULP * (1 + x * x + mu * np.abs(x) + mu * mu)
        return np.asarray(np.minimum(np.log(bracket) - 0.5 * x * x - _LOG_ROOT_2PI + slack, 0.0))


_LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)
