"""The value every mechanism hands over: a privacy loss.

Guarantee of every number given here
------------------------------------
Let M be the mechanism and let D, D' range over the neighbours of the stated
relation, in both orders. A :class:`PrivacyLoss` is an upper bound on the
*profile*

    δ(ε) = sup_{D~D'} sup_S  Pr[M(D) ∈ S] − e^ε Pr[M(D') ∈ S]

and everything else follows from it:

* ``delta(ε)`` is never below the true δ(ε);
* ``epsilon(δ)`` returns an ε at which ``delta(ε) ≤ δ`` was *evaluated*, so it
  is an upper bound whatever the search did;
* ``tradeoff(α)`` is a lower bound on the type-II error of any test of D against
  D' with type-I error α. A test φ has 1 − E_{D'}φ ≥ 1 − δ(ε) − e^ε E_D φ, and the same
  with D and D' exchanged for 1 − φ, so for every ε it is at least
  max(0, 1 − δ(ε) − e^ε α, e^{−ε}(1 − δ(ε) − α)); the supremum is the curve itself
  (Dong, Roth & Su 2022), and one over some of the ε is still a lower bound.

Numbers go in as exact rationals and come out rounded outward: doubles read as
their shortest decimals, as budgets are, so that ``Pure("0.3").epsilon()`` is 0.3.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from discreet._dataclass import dataclass, fields
from discreet._exact import Number, ceil_float, decimal, floor_float, show, turning
from discreet.errors import Hint, ParameterError, RelationError
from discreet.privacy._relation import Label, Neighbours, read_neighbours

if TYPE_CHECKING:
    from discreet.privacy._losses import Zcdp
    from discreet.privacy._pair import Pair

Array: TypeAlias = npt.NDArray[np.float64]

_LEAST = 5e-324
_FARTHEST = 1e100  # larger ε have no larger δ

ULP = 2.0**-52
"""Spacing of doubles at 1: the unit in which rounding slack is stated."""


@dataclass(frozen=True, slots=True, init=False, repr=False)
class PrivacyLoss(ABC):
    """Upper bound on what neighbours can learn from one mechanism's output.

    Attributes
    ----------
    neighbours : Neighbours or None
        The relation the bound holds for; None when not stated.
    unit : str or None
        Whose data a neighbour adds, removes or changes; None when not stated.
    unprotected : tuple of str
        What was released exactly beside: the bound holds between neighbours that agree on it.
    """

    neighbours: Neighbours | None
    unit: str | None
    unprotected: tuple[str, ...]
    convex: ClassVar[bool] = True
    """Whether ln δ is the profile itself; a bound is replaced by its convex minorant."""

    @classmethod
    def build(cls, **values: object) -> Self:
        """Build from fields that are known to be right."""
        loss = object.__new__(cls)
        assign(loss, **values)
        return loss

    # -- what a loss must say -------------------------------------------------

    @abstractmethod
    def log_delta(self, epsilon: Array) -> Array:
        """Return an upper bound on ln δ(ε), elementwise, for ε ≥ 0 (vectorised, for small δ)."""

    @property
    def top(self) -> Fraction | float:
        """Supremum of the finite privacy loss (inf when unbounded)."""
        return math.inf

    @property
    def mass_at_infinity(self) -> Fraction:
        """Limit of δ(ε) as ε grows."""
        return Fraction(0)

    def _details(self) -> dict[str, str]:
        """Return the parameters as written in the repr."""
        own = [field.name for field in fields(self)][len(fields(Label)) :]
        return {_PARAMETERS.get(name, name): _word(getattr(self, name)) for name in own}

    # -- what everybody may ask -----------------------------------------------

    def delta(self, epsilon: Number) -> float:
        """Return an upper bound on δ(ε)."""
        eps = _read_epsilon(epsilon)
        if eps >= self.top:
            return decimal_up(self.mass_at_infinity)
        # below the largest loss δ is positive, however small a double may be
        place = min(floor_float(eps), _FARTHEST)
        return max(self.delta_at(place), decimal_up(self.mass_at_infinity), _LEAST)

    def epsilon(self, delta: Number = 0) -> float:
        """Return an upper bound on the least ε with δ(ε) ≤ `delta` (inf if there is none)."""
        target = read_delta(delta)
        gap = target - self.mass_at_infinity
        if gap < 0:
            return math.inf
        top = self.top if isinstance(self.top, float) else decimal_up(self.top)
        if gap == 0:
            return top
        return self._solve(floor_float(target), top)

    @property
    def rho(self) -> Fraction | float:
        """Upper bound on the zero-concentrated parameter ρ (inf if there is none)."""
        return math.inf

    def renyi(self, alpha: Number) -> float:
        """Return an upper bound on the Rényi divergence of order `alpha` (inf if none)."""
        order = read_order(alpha)
        rho = self.rho
        bound = math.inf if rho == math.inf else up(float(order) * float(rho))
        if self.mass_at_infinity == 0 and self.top != math.inf:
            from discreet.privacy._convert import pure_to_renyi  # noqa: PLC0415 - cycle

            bound = min(bound, pure_to_renyi(self.top, order))
        return bound

    def tradeoff(self, fpr: float) -> float:
        """Return a lower bound on the false-negative rate of any attack with rate `fpr`."""
        from discreet.privacy._convert import tradeoff_from_profile  # noqa: PLC0415 - cycle

        return tradeoff_from_profile(self, fpr)

    def zcdp(self) -> Zcdp:
        """Return the loss as δ-approximate ρ-zCDP, the currency of the adaptive filter."""
        from discreet.privacy._losses import Zcdp  # noqa: PLC0415 - cycle

        return Zcdp.of(self.rho, self.mass_at_infinity, self)

    def under(self, neighbours: Neighbours | str | None, unit: str | None = None) -> Self:
        """Return a copy labelled with the relation (and unit) it holds for.

        A label once stated is part of the promise and cannot be replaced.
        """
        relation = read_neighbours(neighbours) or self.neighbours
        label = unit if unit is not None else self.unit
        if self.neighbours not in (None, relation) or self.unit not in (None, label):
            raise RelationError(
                f"this loss was stated under {self.neighbours or 'no relation'}"
                f"{f' for one {self.unit}' if self.unit else ''}; it says nothing about "
                f"{relation or 'no relation'}{f' for one {label}' if label else ''}",
                hint="p.to_change_one(loss)",
            )
        return self.replaced(neighbours=relation, unit=label)

    def beside(self, *unprotected: str) -> Self:
        """Return a copy that says what is released exactly beside, without any protection.

        >>> from discreet import privacy as p
        >>> p.Pure(1).beside("the total")
        Pure(epsilon=1, beside the unprotected: the total)
        """
        names = dict.fromkeys((*self.unprotected, *unprotected))
        return self.replaced(unprotected=tuple(names))

    # -- machinery --------------------------------------------------------------

    def delta_at(self, epsilon: float) -> float:
        return min(1.0, up(math.exp(self.log_delta(np.array([max(epsilon, 0.0)]))[0])))

    def _solve(self, target: float, top: float) -> float:
        """Bisect for ε; the end returned is one where the bound was evaluated."""
        if self.delta_at(0.0) <= target:
            return 0.0
        low, high = 0.0, 1.0
        while self.delta_at(high) > target:
            if high > top:
                return top
            low, high = high, 2 * high
            if high > 1e15:
                return top
        high = turning(lambda e: self.delta_at(e) <= target, low, high, 4 * ULP)[1]
        # read back as a decimal the result may round down by half an ulp: give one more
        return min(math.nextafter(high, math.inf), top)

    def pairs(self) -> tuple[Pair, ...]:
        """Return dominating pairs: one if both directions agree, else (remove, add)."""
        from discreet.privacy._pair import Pair  # noqa: PLC0415 - cycle

        return (Pair.symmetric(self, convex=self.convex),)

    def replaced(self, **changes: object) -> Self:
        twin = object.__new__(type(self))
        for field in fields(self):
            object.__setattr__(twin, field.name, changes.get(field.name, getattr(self, field.name)))
        return twin

    @property
    def label(self) -> Label:
        """For whom it holds."""
        return Label(self.neighbours, self.unit, self.unprotected)

    def labelled(self, label: Label) -> Self:
        """Return a copy with these labels in place of its own."""
        return self.replaced(
            neighbours=label.neighbours, unit=label.unit, unprotected=label.unprotected
        )

    def unlabelled(self) -> Self:
        """Strip the labels, so that equal losses compare equal."""
        return self.labelled(Label())

    def __repr__(self) -> str:
        parts = [f"{name}={value}" for name, value in self._details().items()]
        if self.neighbours is not None:
            parts.append(f"neighbours='{self.neighbours}'")
        if self.unit is not None:
            parts.append(f"unit={self.unit!r}")
        if self.unprotected:
            parts.append(f"beside the unprotected: {' and '.join(self.unprotected)}")
        return f"{type(self).__name__}({', '.join(parts)})"


_PARAMETERS = {"eps0": "epsilon", "delta0": "delta", "rho0": "rho", "people": "n"}
"""Fields that hold a parameter under another name: a method has its own."""


def _word(value: object) -> str:
    return show(value) if isinstance(value, Fraction) else repr(value)


def up(x: float, ulps: float = 8.0) -> float:
    """Push a non-negative double up by a few units in the last place."""
    return x * (1.0 + ulps * ULP)


def log_up(log: Array, ulps: float = 8.0) -> Array:
    """Push the logarithm of a bound up by a few units of the bound, and of its own last place.

    A fixed slack would vanish beside the logarithm of a small number.
    """
    return np.asarray(log + ulps * ULP * (1 + np.abs(np.maximum(log, -1e3))))


def decimal_up(value: Fraction) -> float:
    """Round a rational up to a double *read as its shortest decimal*, as budgets are.

    >>> decimal_up(Fraction(3, 10))
    0.3
    """
    nearest = ceil_float(value)
    if nearest == math.inf:
        return nearest
    nearest = float(value)
    if Fraction(repr(nearest)) >= value:
        return nearest
    return math.nextafter(nearest, math.inf)


def assign(loss: PrivacyLoss, **values: object) -> None:
    """Set the fields of a frozen loss under construction; labels default to None."""
    nobody = {"neighbours": None, "unit": None, "unprotected": ()}
    for name, value in {**nobody, **values}.items():
        object.__setattr__(loss, name, value)


def failures(deltas: Iterable[tuple[Fraction, int]]) -> Fraction:
    """Return 1 − ∏(1−δ)^k, exactly where that is short to write down, else rounded up.

    >>> failures([(Fraction(1, 2), 2)])
    Fraction(3, 4)
    """
    pairs = [(d, k) for d, k in deltas if d]
    if sum(d.denominator.bit_length() * k for d, k in pairs) <= _LONGEST:
        return 1 - math.prod(((1 - d) ** k for d, k in pairs), start=Fraction(1))
    log_kept = sum(k * math.log1p(-ceil_float(d)) for d, k in pairs)
    above = Fraction(-math.expm1(log_kept) * (1 + 2.0**-44))
    return min(above, sum((k * d for d, k in pairs), Fraction(0)), Fraction(1))


_LONGEST = 20_000
"""Bits to which products of δ are kept exact."""


def read_delta(x: Number) -> Fraction:
    """Parse a target δ in [0, 1)."""
    value = decimal(x, "delta")
    if not 0 <= value < 1:
        raise ParameterError(
            f"delta must lie in [0, 1), got {show(value)}", hint=Hint("delta", "1e-6")
        )
    return value


def read_order(x: Number) -> Fraction:
    """Parse a Rényi order α > 1."""
    value = decimal(x, "alpha")
    if value <= 1:
        raise ParameterError(f"alpha must exceed 1, got {show(value)}", hint=Hint("alpha", 2))
    return value


def _read_epsilon(x: Number) -> Fraction:
    value = decimal(x, "epsilon")
    if value < 0:
        raise ParameterError(
            f"epsilon must not be negative, got {show(value)}", hint=Hint("epsilon", 1)
        )
    return value
