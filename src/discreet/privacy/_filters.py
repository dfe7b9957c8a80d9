"""Budgets for adaptive use: which accounting is valid where.

In a session the analyst chooses the *next mechanism and its parameters* after
seeing earlier answers. A bound for fixed parameters, recomputed along the path
taken, is then not a bound. Counterexample (budget ε = 1, δ = 1e-6): run randomised
response with ε = 0.5; on its likelier outcome run one with ε = 0.5000025809, on the
other a (0, 1e-6) mechanism. Each path alone has δ(1) = 1e-6 under optimal
composition, together they reach 1.3775e-6. So:

==========================  =====================================================
parameters fixed in advance  ``compose``: optimal composition, numerical PLDs
parameters chosen as you go  the filters below: sums whose bound is a martingale
a reading at any time        :class:`Odometer`
==========================  =====================================================

* :class:`BasicFilter`: Σε ≤ ε_B, Σδ ≤ δ_B (Rogers et al. 2016).
* :class:`ZcdpFilter`: Σρ ≤ ρ_B, Σδ ≤ δ_B for δ-approximate ρ-zCDP losses, then the tight
  conversion of ρ_B (Whitehouse et al. 2023).
* :class:`GaussianFilter`: Σμ² ≤ μ_B² (Smith & Thakurta 2022; Koskela et al. 2023).

Sums are exact rationals: ten charges of 0.1 fill a budget of 1, and an eleventh
of 1e-18 is refused. A filter is a *place where budget is kept*, so it is mutable,
locked, and refuses to be copied or pickled: a copy would be a second budget.
An admitted charge is never given back.

Odometer
--------
Let R_n be the sum of the ρᵢ charged so far, all chosen adaptively, and L_n the
privacy loss. D_α ≤ αρ for all α > 1 says that exp(λ(L_n − R_n) − λ²R_n) is a
supermartingale for every λ > 0. Mixing over λ with the half-normal density
2√(γ/π)e^{−γλ²} gives a supermartingale that is at least
√(γ/(γ+R_n))·exp(X²/(4(γ+R_n))) where X = L_n − R_n ≥ 0. By Ville's inequality, with
probability 1 − δ, at *every* time

    L_n ≤ R_n + 2√((R_n + γ)·ln(√((R_n + γ)/γ)/δ)),

and L_n ≤ Σεᵢ always, for losses without a δ. So, whichever neighbour is the true one, with
probability 1 − δ the loss never exceeds the reading. The reading depends on choices and so on
answers: it is an (ε, δ) guarantee for a session that stops, by whatever rule, while the
reading is at most a fixed ε, because then P(T) ≤ P(T, L ≤ ε) + δ ≤ e^ε·Q(T) + δ for every
event T. (The mixture method of Robbins; for privacy see Whitehouse et al. 2023.)

*Losses with a δ of their own.* For an (εᵢ, δᵢ) mechanism neither statement holds for its own
loss: one that is (0, δ)-DP may have L > 0 with probability ½. But each is a post-processing
of a pair that reveals everything with probability δᵢ and is randomised response of εᵢ
otherwise (Kairouz, Oh & Viswanath 2015). Replace each mechanism by its pair, given the past.
The answers, and with them all later choices, are functions of what the pairs show, so
the session is a post-processing of the session of pairs, and it is enough to bound that
one. Let K be the event that none of its pairs has revealed everything yet. On K each loss is
that of randomised response, at most εᵢ, with ρᵢ = εᵢ·tanh(εᵢ/2); so 1_K·exp(λ(L_n−R_n)−λ²R_n)
is a supermartingale as before (a step multiplies its mean by at most 1−δᵢ), and on K the
reading is exceeded with probability at most δ. Each step leaves K with probability δᵢ given the
past, so a session whose Σδᵢ is at most d at every end leaves K with probability at most d. It is
(ε, δ + d)-DP, and :attr:`Odometer.delta` is δ + Σδᵢ so far. A δᵢ-approximate ρᵢ-zCDP loss is
treated alike: with probability 1−δᵢ, on either side, it is drawn from a pair that is ρᵢ-zCDP.
"""

from __future__ import annotations

import math
import threading
from fractions import Fraction
from typing import Never

from discreet import _exact
from discreet._exact import Number, ceil_float, decimal, floor_float, show
from discreet.errors import BudgetExceededError, PrivacyError
from discreet.privacy._account import NOTHING, Accounting, Amount, admit
from discreet.privacy._calibrate import gaussian_sigma
from discreet.privacy._convert import pure_to_rho
from discreet.privacy._loss import PrivacyLoss, decimal_up
from discreet.privacy._relation import Label, shared_label


class Filter:
    """A budget that admits adaptively chosen losses until it is full."""

    def __init__(self, accounting: Accounting, cap: Amount) -> None:
        self._accounting = accounting
        self._budget = cap
        self._spent = NOTHING
        self._label: PrivacyLoss | None = None
        self._lock = threading.Lock()

    @property
    def guarantee(self) -> PrivacyLoss:
        """The loss of everything this filter will ever admit."""
        return self._accounting.guarantee(self._budget)

    @property
    def budget(self) -> Amount:
        """The whole budget."""
        return self._budget

    @property
    def spent(self) -> Amount:
        """What has been charged."""
        return self._spent

    @property
    def remaining(self) -> Amount:
        """What is left."""
        return self._budget - self._spent

    def admits(self, loss: PrivacyLoss) -> bool:
        """Tell whether `loss` would be admitted now; charges nothing."""
        cost = self._accounting.charge(loss)
        self._check_label(loss)
        return cost.fits(self.remaining)

    def spend(self, loss: PrivacyLoss) -> Amount:
        """Charge `loss` or raise BudgetExceededError; return what was charged.

        Call it *before* the mechanism runs. Nothing is charged when it raises.
        """
        cost = self._accounting.charge(loss)
        with self._lock:
            self._check_label(loss)
            symbol = self._accounting.symbol
            try:
                self._spent = admit(self._spent, cost, self._budget, symbol=symbol)
            except BudgetExceededError as refusal:
                raise refusal.with_hint(self._fitting()) from None
            if loss.label != Label():
                self._label = _label_of(self._label, loss)
        return cost

    def _fitting(self) -> str:
        """Say what would fit, as one line to paste."""
        room = self.remaining
        if room.size <= 0:
            return "nothing: the budget is spent"
        size = show_down(room.size)
        match self._accounting:
            case Accounting.ZCDP:
                return f"p.Pure('{_pure_within(room.size)}') or p.Zcdp('{size}')"
            case Accounting.GAUSSIAN:
                return f"p.Gaussian.from_square('{size}')"
        return (
            f"p.Approx('{size}', '{show_down(room.delta)}')" if room.delta else f"p.Pure('{size}')"
        )

    def _check_label(self, loss: PrivacyLoss) -> None:
        if self._label is not None:
            shared_label([self._label, loss])

    def __repr__(self) -> str:
        spent, whole = show(self._spent.size), show(self._budget.size)
        return f"{type(self).__name__}({self._accounting.symbol}: {spent} of {whole} spent)"

    def __copy__(self) -> Never:
        raise PrivacyError("a copy of a filter would be a second budget for the same data")

    def __deepcopy__(self, memo: object) -> Never:
        self.__copy__()

    def __reduce__(self) -> Never:
        self.__copy__()


def _label_of(reference: PrivacyLoss | None, loss: PrivacyLoss) -> PrivacyLoss:
    losses = [loss] if reference is None else [reference, loss]
    return loss.labelled(shared_label(losses))


def _pure_within(rho: Fraction) -> str:
    """Print an ε whose pure loss fits into ρ: √(2ρ) does, as ε·tanh(ε/2) ≤ ε²/2."""
    eps = math.sqrt(2 * floor_float(rho)) * (1 - 2.0**-45)
    digits = f"{eps:.6g}"
    return digits if Fraction(pure_to_rho(Fraction(digits))) <= rho else f"{eps * (1 - 1e-6):.6g}"


class BasicFilter(Filter):
    """Σε ≤ ε_B and Σδ ≤ δ_B: for any mix of (ε, δ) losses.

    Examples
    --------
    >>> from discreet import privacy as p
    >>> budget = p.BasicFilter(epsilon=1)
    >>> for _ in range(10):
    ...     _ = budget.spend(p.Pure(0.1))
    >>> budget.remaining.size
    Fraction(0, 1)
    >>> budget.admits(p.Pure("1e-18"))
    False
    """

    def __init__(self, epsilon: Number, delta: Number = 0) -> None:
        super().__init__(Accounting.APPROX, Accounting.APPROX.cap(epsilon, delta))


class ZcdpFilter(Filter):
    """Σρ ≤ ρ_B and Σδ ≤ δ_B: for pure, Gaussian, bounded-range and (ε, δ) losses.

    Examples
    --------
    >>> from discreet import privacy as p
    >>> budget = p.ZcdpFilter.for_target(epsilon=1, delta="1e-6")
    >>> n = 0
    >>> while budget.admits(p.Pure("0.01")):
    ...     _ = budget.spend(p.Pure("0.01")); n += 1
    >>> n
    487
    """

    def __init__(self, rho: Number, delta: Number = 0) -> None:
        super().__init__(Accounting.ZCDP, Accounting.ZCDP.cap(delta=delta, rho=rho))

    @classmethod
    def for_target(cls, epsilon: Number, delta: Number, approximate: Number = 0) -> ZcdpFilter:
        """Return the largest filter whose whole content is (ε, δ)-DP.

        Parameters
        ----------
        epsilon, delta
            The target for everything together.
        approximate
            Part of `delta` set aside for losses that carry a δ of their own.
        """
        cap = Accounting.ZCDP.cap(epsilon, delta, aside=approximate)
        return cls(cap.size, cap.delta)


class GaussianFilter(Filter):
    """Σμ² ≤ μ_B²: for Gaussian losses only, and the tightest for them.

    >>> from discreet import privacy as p
    >>> p.GaussianFilter(1).admits(p.Gaussian("0.6"))
    True
    """

    def __init__(self, mu: Number) -> None:
        root = _exact.positive(decimal(mu, "mu"), "mu", example="0.5")
        super().__init__(Accounting.GAUSSIAN, Amount(root**2))

    @classmethod
    def for_target(cls, epsilon: Number, delta: Number) -> GaussianFilter:
        """Return the largest filter whose whole content is (ε, δ)-DP."""
        return cls(1 / Fraction(gaussian_sigma(1, epsilon, delta)))


def show_down(value: Fraction) -> str:
    """Print a rational so that the text never exceeds it."""
    text = show(value)
    if Fraction(text) <= value:
        return text
    scale = Fraction(10) ** (5 - math.floor(math.log10(value)))
    return show(Fraction(math.floor(value * scale)) / scale)


class Odometer:
    """A running total that is valid at every moment, for adaptively chosen losses.

    Unlike a filter it needs no budget in advance, and pays for that with a larger
    reading.

    Parameters
    ----------
    delta
        Failure probability of all readings together.
    around
        Total ρ near which the reading should be tightest (the γ of the proof).

    Examples
    --------
    >>> from discreet import privacy as p
    >>> meter = p.Odometer("1e-6", around="0.05")
    >>> for _ in range(400):
    ...     meter.record(p.Pure("0.01"))
    >>> 1 < meter.epsilon < 2
    True
    """

    def __init__(self, delta: Number, around: Number = "0.01") -> None:
        self._delta = _exact.delta(delta)
        self._gamma = _exact.positive(decimal(around, "around"), "around")
        self._rho = Fraction(0)
        self._extra = Fraction(0)
        self._basic: Fraction | float = Fraction(0)
        self._label: PrivacyLoss | None = None
        self._lock = threading.Lock()

    def record(self, loss: PrivacyLoss) -> None:
        """Add a loss."""
        cost = loss.zcdp()
        with self._lock:
            self._label = _label_of(self._label, loss)
            self._rho += cost.rho0
            self._extra += cost.delta0
            self._basic = math.inf if loss.top == math.inf else self._basic + loss.top

    @property
    def rho(self) -> Fraction:
        """Sum of the ρ recorded."""
        return self._rho

    @property
    def delta(self) -> float:
        """δ of the reading: the odometer's own and that of the losses."""
        return decimal_up(self._delta + self._extra)

    @property
    def epsilon(self) -> float:
        """The reading: what was seen so far is (epsilon, delta)-DP."""
        if not self._rho:
            return 0.0
        r, g = ceil_float(self._rho), float(self._gamma)
        log_term = 0.5 * math.log1p(r / g) - math.log(floor_float(self._delta))
        mixture = (r + 2 * math.sqrt((r + g) * log_term)) * (1 + 2.0**-48)
        basic = self._basic if isinstance(self._basic, float) else decimal_up(self._basic)
        return min(mixture, basic)

    def __repr__(self) -> str:
        return f"Odometer(epsilon={self.epsilon:.6g}, delta={self.delta:.3g})"
