"""Admission: the one rule by which a session's next loss is let in or refused.

A budget is an *amount*: one exact number in the currency of the accounting, and a
δ. A loss is admitted when what was spent plus what it costs stays within the cap,
in both. The rule is pure arithmetic on rationals; filters and the ledger hold the
state and call it.

=========  ======================  ==================  =================================
accounting sums                    caps                 everything admitted together is
=========  ======================  ==================  =================================
pure       Σε                      ε_B, δ 0             ε_B-DP
approx     Σε, Σδ                  ε_B, δ_B             (ε_B, δ_B)-DP
zcdp       Σρ, Σδ                  ρ_B, δ_B             δ_B-approximate ρ_B-zCDP
gaussian   Σμ²                     μ_B², δ 0            μ_B-Gaussian DP
=========  ======================  ==================  =================================

Why it holds when each loss is chosen after seeing the answers before it
------------------------------------------------------------------------
*pure, approx.* Claim: whatever the strategy, with room (e, d) left every event T has
P(T) ≤ e^e·Q(T) + d. By induction on the number of answers left. The next mechanism has
(ε₁, δ₁) within the room, and after its answer y the claim holds with (e−ε₁, d−δ₁):
P_y(T) ≤ min(1, e^{e−ε₁}·Q_y(T)) + (d−δ₁). A function f with values in [0, 1] has
E_{P₁}f ≤ e^{ε₁}E_{Q₁}f + δ₁; apply it to f(y) = min(1, e^{e−ε₁}Q_y(T)):
P(T) ≤ e^{ε₁}·E_{Q₁}[e^{e−ε₁}Q_y(T)] + δ₁ + d − δ₁ = e^e·Q(T) + d. (Rogers et al. 2016.)

*zcdp, no δ.* Given the past, E_P e^{(α−1)ℓᵢ} ≤ e^{(α−1)αρᵢ}, so
exp((α−1)(L_n − αR_n)) with R_n = Σρᵢ is a supermartingale; at the end R_n ≤ ρ_B surely, hence
E_P e^{(α−1)L} ≤ e^{(α−1)αρ_B} for every α > 1, which is ρ_B-zCDP. With δᵢ: each mechanism is
of that kind outside events of probability δᵢ on either side, and along every path these
add up to at most δ_B (Whitehouse, Ramdas, Rogers & Wu 2023).

*gaussian.* The same with trade-off curves (Smith & Thakurta 2022).

A cap under zcdp that comes from a target (ε, δ) sets a part of δ aside for losses that
carry a δ of their own and converts ρ with the rest: (1−δ_a)·δ_ρ(ε) + δ_a ≤ δ.
"""

from __future__ import annotations

import math
from enum import StrEnum
from fractions import Fraction

from discreet import _exact
from discreet._dataclass import dataclass
from discreet._exact import Number, decimal, floor_float, show
from discreet.errors import BudgetExceededError, Hint, NotProvedError, ParameterError
from discreet.privacy._additive import Gaussian
from discreet.privacy._calibrate import gaussian_sigma
from discreet.privacy._convert import largest_rho
from discreet.privacy._loss import PrivacyLoss, read_delta
from discreet.privacy._losses import Approx, Pure, Zcdp


@dataclass(frozen=True, slots=True)
class Amount:
    """What is charged: one exact number in the accounting's currency, and a δ."""

    size: Fraction
    delta: Fraction = Fraction(0)

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.size + other.size, self.delta + other.delta)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.size - other.size, self.delta - other.delta)

    def fits(self, room: Amount) -> bool:
        """Tell whether it fits into `room`."""
        return self.size <= room.size and self.delta <= room.delta


NOTHING = Amount(Fraction(0))


def admit(
    spent: Amount, cost: Amount, cap: Amount, *, symbol: str = "ε", holder: str = "the budget"
) -> Amount:
    """Return what is spent once `cost` is admitted, or refuse it; a pure function.

    Parameters
    ----------
    spent, cost, cap
        Exact amounts in one currency.
    symbol, holder
        Words for the refusal: the currency, and whose budget it is.

    Examples
    --------
    >>> from discreet import privacy as p
    >>> from fractions import Fraction as F
    >>> p.admit(p.Amount(F(1, 2)), p.Amount(F(1, 4)), p.Amount(F(1)))
    Amount(size=Fraction(3, 4), delta=Fraction(0, 1))
    """
    if cost.size < 0 or cost.delta < 0:
        raise ParameterError("a cost must not be negative")
    total = spent + cost
    if total.fits(cap):
        return total
    room = cap - spent
    request, rest = [f"{symbol}={show(cost.size)}"], [f"{symbol}={show(room.size)}"]
    if cap.delta or cost.delta:
        request.append(f"δ={show(cost.delta)}")
        rest.append(f"δ={show(room.delta)}")
    raise BudgetExceededError(
        f"this costs {', '.join(request)}; {holder} has {', '.join(rest)} left "
        f"of {symbol}={show(cap.size)}",
        hint=None if room.size > 0 else "nothing fits: the budget is spent",
    )


class Accounting(StrEnum):
    """In which currency a budget is kept, and what it promises.

    >>> from discreet import privacy as p
    >>> p.Accounting("approx").cap("1", "1e-6")
    Amount(size=Fraction(1, 1), delta=Fraction(1, 1000000))
    """

    PURE = "pure"
    APPROX = "approx"
    ZCDP = "zcdp"
    GAUSSIAN = "gaussian"

    @property
    def symbol(self) -> str:
        """The letter of the currency."""
        return {"zcdp": "ρ", "gaussian": "μ²"}.get(self, "ε")

    def cap(
        self,
        epsilon: Number | None = None,
        delta: Number = 0,
        *,
        rho: Number | None = None,
        aside: Number | None = None,
    ) -> Amount:
        """Return what a budget of (ε, δ), or of ρ and δ, allows.

        Parameters
        ----------
        epsilon, delta
            The target for everything together.
        rho
            A zCDP budget instead of `epsilon`; `delta` is then what the losses may
            carry themselves.
        aside
            zCDP with a target (ε, δ): the part of δ for losses that carry a δ of
            their own; half of it unless stated.
        """
        if self is Accounting.ZCDP and rho is not None and epsilon is None:
            size = _exact.positive(decimal(rho, "rho"), "rho", example="0.1")
            return Amount(size, read_delta(delta))
        if rho is not None or epsilon is None:
            raise ParameterError(
                "a budget is stated by epsilon, or under zcdp by rho", hint=Hint("epsilon", "1")
            )
        match self:
            case Accounting.PURE:
                return Amount(_exact.epsilon(epsilon))
            case Accounting.APPROX:
                return Amount(_exact.epsilon(epsilon), read_delta(delta))
            case Accounting.GAUSSIAN:
                root = 1 / Fraction(gaussian_sigma(1, epsilon, delta))
                return Amount(root**2)
        whole = _exact.delta(delta)
        reserve = whole / 2 if aside is None else read_delta(aside)
        return Amount(_rho_within(_exact.epsilon(epsilon), whole, reserve), reserve)

    def charge(self, loss: PrivacyLoss) -> Amount:
        """Return what `loss` costs in this currency, rounded up."""
        match self:
            case Accounting.ZCDP:
                cost = loss.zcdp()
                return Amount(cost.rho0, cost.delta0)
            case Accounting.GAUSSIAN:
                if isinstance(loss, Gaussian):
                    return Amount(loss.mu2)
                raise NotProvedError(
                    f"{type(loss).__name__} is not Gaussian DP with a known μ",
                    hint="p.ZcdpFilter.for_target(epsilon, delta)",
                )
        if loss.top == math.inf:
            raise ParameterError(
                f"{type(loss).__name__} is not (ε, δ)-DP by itself: choose the δ to charge",
                hint="filter.spend(p.Approx(loss.epsilon(delta), delta))",
            )
        return Amount(Fraction(loss.top), loss.mass_at_infinity)

    def guarantee(self, cap: Amount) -> PrivacyLoss:
        """Return the loss of everything that a budget of `cap` will ever admit."""
        match self:
            case Accounting.ZCDP:
                return Zcdp(cap.size, cap.delta)
            case Accounting.GAUSSIAN:
                return Gaussian.from_square(cap.size)
        return Approx(cap.size, cap.delta) if cap.delta else Pure(cap.size)


def _rho_within(epsilon: Fraction, delta: Fraction, aside: Fraction) -> Fraction:
    """Return the largest ρ, to 12 digits and rounded down, within the target."""
    if aside >= delta:
        raise ParameterError(
            "the part of delta set aside must be smaller than delta: the conversion needs some",
            hint=Hint("aside", show(delta / 2)),
        )
    eps, limit = floor_float(epsilon), floor_float(delta)
    rho = largest_rho(eps, floor_float((delta - aside) / (1 - aside)))
    # the search is right up to rounding; the bound itself decides
    while rho > 0:
        digits = 12 - math.ceil(math.log10(rho))
        short = (
            Fraction(math.floor(Fraction(rho) * Fraction(10) ** digits)) / Fraction(10) ** digits
        )
        if Zcdp(short, aside).delta_at(eps) <= limit:
            return short
        rho *= 1 - 2.0**-40
    raise ParameterError("no ρ is small enough for this target", hint=Hint("delta", "1e-6"))
