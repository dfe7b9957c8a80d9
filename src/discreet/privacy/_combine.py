"""Groups and disjoint parts.

Group privacy
-------------
k units together are k steps along a chain of neighbours. If one step has
profile δ(·), then k steps have δ_k(kε) ≤ δ(ε)·(e^{kε}−1)/(e^ε−1): apply the promise k
times and sum the geometric series. Where the loss is that of additive noise the
exact answer is k times the sensitivity; ρ becomes k²ρ (Bun & Steinke
2016), μ becomes kμ, a range of length η becomes kη (triangle inequality).

Parallel composition
--------------------
Mechanisms run on parts of a *publicly fixed* partition, one part each.

* add-remove: the unit added or removed lies in one part, all other inputs are
  equal, so δ(ε) = maxᵢ δᵢ(ε); the same for ρ and D_α.
* change-one: the changed unit may leave one part and enter another. That is one
  removal and one addition, so it costs a group of two under add-remove: 2·max ε.
  Only if every loss *also* holds for a unit changed inside its part
  (``covers_change=True``) is it the worst of one part alone and of two different
  parts composed, a removal from one with an addition to the other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations
from typing import ClassVar

import numpy as np

from discreet._dataclass import dataclass, replace
from discreet._exact import Number, ceil_float
from discreet.errors import Hint, NotProvedError, ParameterError
from discreet.privacy._additive import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from discreet.privacy._compose import Composition, compose, compose_counts
from discreet.privacy._loss import Array, PrivacyLoss, log_up, read_order
from discreet.privacy._losses import (
    Approx,
    BoundedRange,
    Concentrated,
    Probabilistic,
    Pure,
    Renyi,
    Zcdp,
)
from discreet.privacy._pair import LogProfile, Pair
from discreet.privacy._relation import Neighbours, read_neighbours, shared_label


def group(loss: PrivacyLoss, k: int) -> PrivacyLoss:
    """Return the loss for `k` units at once.

    Examples
    --------
    >>> from discreet import privacy as p
    >>> p.group(p.Pure("0.1"), 5)
    Pure(epsilon=0.5, unit='group of 5')
    >>> p.group(p.Gaussian("0.1"), 5).rho
    Fraction(1, 8)
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ParameterError("a group has a positive whole number of units", hint=Hint("k", 2))
    if k == 1:
        return loss
    unit = f"group of {k}" if loss.unit is None else f"group of {k} × {loss.unit}"
    return _grouped(loss.unlabelled(), k).labelled(replace(loss.label, unit=unit))


def to_change_one(loss: PrivacyLoss) -> PrivacyLoss:
    """Turn a loss under add-remove into one under change-one: a removal and an addition.

    >>> from discreet import privacy as p
    >>> p.to_change_one(p.Pure("0.1").under("add-remove"))
    Pure(epsilon=0.2, neighbours='change-one')
    """
    if loss.neighbours is Neighbours.CHANGE_ONE:
        return loss
    pair = _grouped(loss.unlabelled(), 2)
    return pair.labelled(replace(loss.label, neighbours=Neighbours.CHANGE_ONE))


def _grouped(loss: PrivacyLoss, k: int) -> PrivacyLoss:
    match loss:
        case Pure():
            return Pure(k * loss.eps0)
        case Laplace():
            return Laplace(k * loss.eps0)
        case DiscreteLaplace():
            return DiscreteLaplace(loss.scale, k * loss.sensitivity)
        case DiscreteGaussian():
            # each of the k may move coordinates of its own; if one coordinate each, then one
            # shift by the sum dominates them all ("shifts add up", _additive)
            moved = 1 if loss.dimension == 1 else k * loss.dimension
            reach = k * k * loss.sensitivity2
            return DiscreteGaussian.from_variance(loss.sigma2, reach, moved)
        case Gaussian():
            return Gaussian.from_square(k * k * loss.mu2)
        case BoundedRange():
            return BoundedRange(k * loss.eta)
        case Concentrated() | Zcdp(delta0=0):
            return Zcdp(k * k * Fraction(loss.rho))
        case Approx():
            return _group_approx(loss, k)
        case Probabilistic():
            return _group_approx(loss.approx(), k)
        case Renyi():
            return _group_renyi(loss, k)
        case Composition():
            return compose_counts((_grouped(part, k), n) for part, n in loss.terms)
    if loss.mass_at_infinity:
        raise NotProvedError(
            f"no useful group bound is known for {type(loss).__name__} with a δ",
            hint="p.group(p.Approx(loss.epsilon(delta), delta), k)",
        )
    return Group.build(base=loss, k=k)


def _group_approx(loss: Approx, k: int) -> Approx:
    e = ceil_float(loss.eps0)
    log_growth = math.log(k)
    if e:
        whole = k * e
        log_growth = (whole - e) + math.log(-math.expm1(-whole)) - math.log(-math.expm1(-e))
    log_delta = math.log(loss.delta0) + log_growth
    log_delta += 2.0**-48 * (1 + abs(log_delta) + 2 * log_growth)
    if log_delta >= 0:
        raise ParameterError(
            f"a group of {k} has no guarantee left: δ grows beyond 1", hint="lower k, ε or δ"
        )
    return Approx(k * loss.eps0, Fraction(math.exp(log_delta)) * (1 + Fraction(1, 2**48)))


def _group_renyi(loss: Renyi, k: int) -> Renyi:
    """Return (α/2^c, 3^c·D_α) for k ≤ 2^c (Mironov 2017), where α ≥ 2^{c+1}."""
    c = (k - 1).bit_length()
    bounds = {a / 2**c: 3**c * e for a, e in loss.orders if a >= 2 ** (c + 1)}
    if not bounds:
        raise NotProvedError(
            f"a group of {k} needs a Rényi order of at least {2 ** (c + 1)}",
            hint=f"p.Renyi({{{2 ** (c + 1)}: …}})",
        )
    return Renyi(bounds)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Group(PrivacyLoss):
    """k units under a loss known only by its profile; made by :func:`group`."""

    convex: ClassVar[bool] = False
    base: PrivacyLoss
    k: int

    @property
    def top(self) -> Fraction | float:
        """K times the largest loss."""
        return self.k * self.base.top

    def log_delta(self, epsilon: Array) -> Array:
        """Return ln of δ(ε/k)·(e^ε−1)/(e^{ε/k}−1)."""
        step = np.maximum(epsilon / self.k * (1 - 2.0**-51), 1e-300)
        whole = step * self.k
        growth = (whole - step) + np.log(np.expm1(-whole) / np.expm1(-step))
        bound = self.base.log_delta(step) + growth + 2.0**-48 * whole
        return np.minimum(log_up(bound), 0.0)

    @property
    def rho(self) -> Fraction | float:
        """k²ρ."""
        return self.k**2 * self.base.rho


def parallel(
    losses: Iterable[PrivacyLoss],
    neighbours: Neighbours | str,
    *,
    covers_change: bool = False,
) -> PrivacyLoss:
    """Return the loss of mechanisms run on publicly fixed disjoint parts.

    Parameters
    ----------
    losses
        One per part, each for a unit added to or removed from that part.
    neighbours
        The relation wanted for the whole.
    covers_change
        State that every loss also holds for a unit changed inside its part;
        matters under change-one only.

    Examples
    --------
    >>> from discreet import privacy as p
    >>> parts = [p.Pure(1), p.Pure("0.5")]
    >>> p.parallel(parts, "add-remove").epsilon(), p.parallel(parts, "change-one").epsilon()
    (1.0, 2.0)
    >>> p.parallel(parts, "change-one", covers_change=True).epsilon()
    1.5
    """
    parts = list(losses)
    if not parts:
        raise ParameterError("parallel needs at least one loss", hint="p.parallel([loss], …)")
    relation = read_neighbours(neighbours)
    if relation is None:
        raise ParameterError("parallel needs the relation", hint=Hint("neighbours", "add-remove"))
    label = shared_label(parts)
    if label.neighbours is Neighbours.CHANGE_ONE:
        raise NotProvedError(
            "a loss stated for a unit changed inside a part says nothing about a unit that "
            "moves to another part",
            hint="state each part's loss under add-remove",
        )
    label = replace(label, neighbours=relation)
    counts = Counter(loss.unlabelled() for loss in parts)
    single = _worst(counts)
    if relation is Neighbours.ADD_REMOVE:
        return single.labelled(label)
    if not covers_change:
        return to_change_one(single).labelled(label)
    joint = _worst(Counter([single, *_moves(counts)]))
    return joint.labelled(label)


def _moves(counts: Counter[PrivacyLoss]) -> list[PrivacyLoss]:
    """Compose every two parts between which a unit may move: it leaves one and enters the other.

    Where the two directions of a loss differ (sampled parts), the second is turned round;
    the two sides of the composition are then the two ways to move.
    """
    twice = [compose([loss, _turned(loss)]) for loss, n in counts.items() if n > 1]
    return twice + [compose([a, _turned(b)]) for a, b in combinations(counts, 2)]


def _turned(loss: PrivacyLoss) -> PrivacyLoss:
    if isinstance(loss, Composition):
        return compose_counts((_turned(part), n) for part, n in loss.terms)
    return loss if len(loss.pairs()) == 1 else Turned.build(base=loss)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Turned(PrivacyLoss):
    """A loss whose removals and additions have changed places; made by :func:`parallel`."""

    base: PrivacyLoss

    @property
    def top(self) -> Fraction | float:
        """That of the loss."""
        return self.base.top

    @property
    def mass_at_infinity(self) -> Fraction:
        """That of the loss."""
        return self.base.mass_at_infinity

    def log_delta(self, epsilon: Array) -> Array:
        """Return ln δ(ε) of the worse direction, which is that of the loss."""
        return self.base.log_delta(epsilon)

    @property
    def rho(self) -> Fraction | float:
        """That of the loss."""
        return self.base.rho

    def renyi(self, alpha: Number) -> float:
        """Return that of the loss."""
        return self.base.renyi(alpha)

    def zcdp(self) -> Zcdp:
        """Return that of the loss."""
        return self.base.zcdp()

    def pairs(self) -> tuple[Pair, ...]:
        """Return addition first, then removal."""
        return self.base.pairs()[::-1]


def _worst(losses: Iterable[PrivacyLoss]) -> PrivacyLoss:
    """Return the pointwise worst; within a one-parameter family that is the largest."""
    best: dict[type, PrivacyLoss] = {}
    others: list[PrivacyLoss] = []
    for loss in losses:
        size = _size(loss)
        if size is None:
            others.append(loss)
        else:
            rival = best.get(type(loss))
            rival_size = None if rival is None else _size(rival)
            if rival_size is None or size > rival_size:
                best[type(loss)] = loss
    parts = [*best.values(), *others]
    return parts[0] if len(parts) == 1 else Parallel.build(parts=tuple(parts))


def _size(loss: PrivacyLoss) -> Fraction | None:
    """Return the parameter that orders a family by dominance, if it is one."""
    match loss:
        case Pure() | Laplace():
            return loss.eps0
        case Gaussian():
            return loss.mu2
        case BoundedRange():
            return loss.eta
        case Zcdp(delta0=0):
            return loss.rho0
    return None


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Parallel(PrivacyLoss):
    """Pointwise worst of several losses; made by :func:`parallel`."""

    parts: tuple[PrivacyLoss, ...]

    @property
    def top(self) -> Fraction | float:
        """Largest of the largest losses."""
        return max((part.top for part in self.parts), key=float)

    @property
    def mass_at_infinity(self) -> Fraction:
        """Largest of the masses at infinity."""
        return max(part.mass_at_infinity for part in self.parts)

    def log_delta(self, epsilon: Array) -> Array:
        """Return the pointwise largest ln δ(ε)."""
        return _highest([part.log_delta for part in self.parts])(epsilon)

    @property
    def rho(self) -> Fraction | float:
        """Largest ρ."""
        return max((part.rho for part in self.parts), key=float)

    def renyi(self, alpha: Number) -> float:
        """Return the largest Rényi divergence."""
        order = read_order(alpha)
        return max(part.renyi(order) for part in self.parts)

    def zcdp(self) -> Zcdp:
        """Return the largest ρ and the largest δ."""
        parts = [part.zcdp() for part in self.parts]
        rho, delta = max(p.rho0 for p in parts), max(p.delta0 for p in parts)
        return Zcdp.of(rho, delta, self)

    def pairs(self) -> tuple[Pair, ...]:
        """Return, for each direction, the pair with the highest profiles."""
        each = [part.pairs() for part in self.parts]
        sides = range(max(len(pairs) for pairs in each))
        return tuple(_upper_pair([pairs[min(s, len(pairs) - 1)] for pairs in each]) for s in sides)


def _upper_pair(pairs: Sequence[Pair]) -> Pair:
    return Pair(
        _highest([pair.forward for pair in pairs]),
        _highest([pair.backward for pair in pairs]),
        max((pair.top for pair in pairs), key=float),
        max((pair.bottom for pair in pairs), key=float),
        convex=all(pair.convex for pair in pairs),
    )


def _highest(profiles: Sequence[LogProfile]) -> LogProfile:
    def profile(epsilon: Array) -> Array:
        return np.asarray(np.max([p(epsilon) for p in profiles], axis=0))

    return profile
