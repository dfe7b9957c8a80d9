"""Composition: what several releases about the same people cost together.

`compose` bounds the joint loss of mechanisms whose *parameters are fixed in
advance* (their queries may depend on earlier answers). It is the right tool for
one batch, and the wrong one for admitting queries one at a time under a budget:
there the parameters themselves depend on answers, and a bound recomputed along
the path taken is not a bound (see :mod:`discreet.privacy._filters`).

How
---
1. Families closed under composition are merged exactly: Gaussian losses by Σμ²,
   zCDP by Σρ, concentrated DP by Σμ and Στ², Rényi by adding divergences at common orders.
2. One loss is left: its own exact profile answers.
3. A few atoms are enumerated. Otherwise the dominating pairs are put on one grid and convolved
   (:mod:`discreet.privacy._pld`). If every loss lives on a lattice and the lattices
   fit, the grid *is* the lattice and nothing is rounded: for pure losses this is
   the optimal composition of Kairouz–Oh–Viswanath and Murtagh–Vadhan. Otherwise the
   grid is fine enough to move ε by about 1e-5.
4. Both directions (record removed, record added) are kept apart to the very end;
   taking the worse pair at each step is not a bound (Lebeda et al. 2024).
5. The result is never worse than the basic sum of ε, nor than the conversion of Σρ, nor,
   for discrete Gaussians, than the lemma for all of them (:mod:`discreet.privacy._additive`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from discreet._dataclass import dataclass
from discreet._exact import Number, ceil_float, floor_float
from discreet._lazy import special
from discreet.errors import Hint, NotProvedError, ParameterError
from discreet.privacy._additive import DiscreteGaussian, Gaussian, Smoothed
from discreet.privacy._loss import (
    Array,
    PrivacyLoss,
    decimal_up,
    failures,
    read_delta,
    read_order,
)
from discreet.privacy._losses import Concentrated, Pure, Renyi, Zcdp
from discreet.privacy._pair import Pair
from discreet.privacy._pld import Composed, Enumerated, Window
from discreet.privacy._relation import shared_label

PERFECT = Pure(0)

_TOLERANCE = 3e-5
"""Movement of ε that the grid may cause, roughly, when losses are not on a lattice."""

_MAX_POINTS = 1 << 22

_MOST_TERMS = 10**9
"""Powers of a transform beyond this are rounding and little else; Σρ is as good by then."""

_LEAST = 1e-120
"""The numerical floor of convolution."""

_FEW_SUMS = 1 << 16
"""Up to this many sums of atoms are simply listed."""


def compose(losses: Iterable[PrivacyLoss]) -> PrivacyLoss:
    """Return the joint loss of mechanisms with parameters fixed in advance.

    Parameters
    ----------
    losses
        At least one loss; stated relations and units must agree.

    Examples
    --------
    >>> from discreet import privacy as p
    >>> round(p.compose([p.Laplace("0.1")] * 100).epsilon(1e-6), 3)
    4.693
    >>> p.compose([p.Pure("0.1")] * 10).epsilon()
    1.0
    """
    terms = list(losses)
    if not terms:
        raise ParameterError("compose needs at least one loss", hint="p.compose([loss])")
    # a long list often holds one object many times: look at each object once
    objects = {id(loss): loss for loss in terms}
    return compose_counts((objects[key], k) for key, k in Counter(map(id, terms)).items())


def compose_counts(losses: Iterable[tuple[PrivacyLoss, int]]) -> PrivacyLoss:
    """Compose losses with counts; see :func:`compose`."""
    pairs = list(losses)
    label = shared_label(loss for loss, _ in pairs)
    counts: Counter[PrivacyLoss] = Counter()
    for loss, times in pairs:
        for part, k in _parts(loss):
            counts[part] += k * times
    terms = _merged(counts)
    alone = len(terms) == 1 and terms[0][1] == 1
    joint = terms[0][0] if alone else Composition.build(terms=terms)
    return joint.labelled(label)


def _parts(loss: PrivacyLoss) -> Sequence[tuple[PrivacyLoss, int]]:
    """Open nested compositions and strip labels, so that equal losses meet."""
    return loss.terms if isinstance(loss, Composition) else ((loss.unlabelled(), 1),)


def _merged(counts: Counter[PrivacyLoss]) -> tuple[tuple[PrivacyLoss, int], ...]:
    """Merge the families that compose in closed form."""
    rest: list[tuple[PrivacyLoss, int]] = []
    mean, tau2 = Fraction(0), Fraction(0)
    mu2, rho, deltas = Fraction(0), Fraction(0), list[tuple[Fraction, int]]()
    renyi: list[tuple[Renyi, int]] = []
    for loss, k in counts.items():
        if isinstance(loss, Gaussian):
            mu2 += k * loss.mu2
        elif isinstance(loss, Concentrated):
            mean, tau2 = mean + k * loss.mean0, tau2 + k * loss.tau2
        elif isinstance(loss, Zcdp):
            rho += k * loss.rho0
            deltas.append((loss.delta0, k))
        elif isinstance(loss, Renyi):
            renyi.append((loss, k))
        else:
            rest.append((loss, k))
    if mu2:
        rest.append((Gaussian.from_square(mu2), 1))
    if rho:
        rest.append((Zcdp(rho, failures(deltas)), 1))
    if tau2:
        rest.append((Concentrated.from_squares(mean, tau2), 1))
    if renyi:
        rest.append((_sum_renyi(renyi), 1))
    # perfect privacy adds nothing
    return tuple(t for t in rest if t[0] != PERFECT) or ((PERFECT, 1),)


def _sum_renyi(losses: Sequence[tuple[Renyi, int]]) -> Renyi:
    """Add divergences at every order all of them bound."""
    limit = min(loss.orders[-1][0] for loss, _ in losses)
    orders = {a for loss, _ in losses for a, _ in loss.orders if a <= limit}
    return Renyi(
        {a: sum((k * Fraction(loss.renyi(a)) for loss, k in losses), Fraction(0)) for a in orders}
    )


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Composition(PrivacyLoss):
    """Joint loss of several mechanisms; made by :func:`compose`."""

    convex: ClassVar[bool] = False
    terms: tuple[tuple[PrivacyLoss, int], ...]

    def _details(self) -> dict[str, str]:
        names = [f"{k}×{loss!r}" if k > 1 else repr(loss) for loss, k in self.terms[:4]]
        if len(self.terms) > 4:
            names.append(f"… {len(self.terms) - 4} more")
        return {"of": f"[{', '.join(names)}]"}

    @property
    def top(self) -> Fraction | float:
        """Sum of the largest losses."""
        parts = [(loss.top, k) for loss, k in self.terms]
        if any(top == math.inf for top, _ in parts):
            return math.inf
        return sum((k * Fraction(top) for top, k in parts), Fraction(0))

    @property
    def mass_at_infinity(self) -> Fraction:
        """1 − ∏(1−δᵢ)."""
        return failures((t.mass_at_infinity, k) for t, k in self.terms)

    def log_delta(self, epsilon: Array) -> Array:
        """Return ln δ(ε) elementwise; each point costs one convolution."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log([self.delta_at(float(e)) for e in epsilon]))

    def delta_at(self, epsilon: float) -> float:
        """Return an upper bound on δ(ε)."""
        if epsilon >= self.top:
            return decimal_up(self.mass_at_infinity)
        place = max(epsilon, 0.0)
        sides = self._sides()
        bound = max((_delta(self.terms, side, place) for side in sides), default=1.0)
        return min([bound, *(other.delta_at(place) for other in self._closed())])

    def _closed(self) -> list[PrivacyLoss]:
        """Bounds in closed form; a grid rounds, so that they may be the better ones.

        The lemma of discrete Gaussians (which knows their ρ), else the sum of the ρ.
        """
        if self._gaussians:
            return [Smoothed.build(terms=self._gaussians)]
        try:
            return [self.zcdp()]
        except NotProvedError:
            return []

    @property
    def _gaussians(self) -> tuple[tuple[DiscreteGaussian, int], ...]:
        """All terms, if they are discrete Gaussians."""
        gaussians = tuple((t, k) for t, k in self.terms if isinstance(t, DiscreteGaussian))
        return gaussians if len(gaussians) == len(self.terms) else ()

    def epsilon(self, delta: Number = 0) -> float:
        """Return an upper bound on the least ε with δ(ε) ≤ `delta`."""
        target = read_delta(delta)
        gap = target - self.mass_at_infinity
        if gap < 0:
            return math.inf
        basic = self.top if isinstance(self.top, float) else decimal_up(self.top)
        if gap == 0:
            return basic
        goal = floor_float(target)
        closed = min((other.epsilon(target) for other in self._closed()), default=math.inf)
        sides = self._sides() if goal >= _LEAST else range(0)
        bound = max((_epsilon(self.terms, side, goal) for side in sides), default=math.inf)
        best = min(basic, bound, closed)
        if best == math.inf and goal < _LEAST:
            raise ParameterError(
                "delta below 1e-120 is under the numerical floor of composition",
                hint=Hint("delta", "1e-100"),
            )
        return best

    def _sides(self) -> range:
        """Directions to convolve: none where the lemma is as good and a grid would be slow."""
        if not all(t.summed for t, _ in self._gaussians):
            return range(0)
        return range(max(len(loss.pairs()) for loss, _ in self.terms))

    @property
    def rho(self) -> Fraction | float:
        """Sum of the ρ."""
        parts = [(loss.rho, k) for loss, k in self.terms]
        if any(rho == math.inf for rho, _ in parts):
            return math.inf
        return sum((k * Fraction(rho) for rho, k in parts), Fraction(0))

    def renyi(self, alpha: Number) -> float:
        """Return the sum of the Rényi divergences of order `alpha`."""
        order = read_order(alpha)
        parts = [(loss.renyi(order), k) for loss, k in self.terms]
        if any(r == math.inf for r, _ in parts):
            return math.inf
        return ceil_float(sum((k * Fraction(r) for r, k in parts), Fraction(0)))

    def zcdp(self) -> Zcdp:
        """Return the sum of the parts as approximate zCDP."""
        parts = [(loss.zcdp(), k) for loss, k in self.terms]
        rho = sum((k * part.rho0 for part, k in parts), Fraction(0))
        return Zcdp.of(rho, failures((part.delta0, k) for part, k in parts), self)


Terms = tuple[tuple[PrivacyLoss, int], ...]


def _epsilon(terms: Terms, side: int, target: float) -> float:
    few = _enumerated(terms, side)
    if few is not None:
        return few.solve(target)
    step = _step(terms, side, target)
    if _too_rough(terms, side, step):
        return math.inf
    composed = _composed(terms, side, step)
    if target <= composed.infinite:
        return math.inf
    tilt = composed.tilt_for_delta(target - composed.infinite)
    # a tilted law with two humps has its mean between them: then less of a tilt, or none, sees
    # the answer; if it lies beyond the window, more of it
    tilts = (tilt, 0.85 * tilt, 0.6 * tilt, 0.3 * tilt, 0.0, 1.5 * tilt + 1, 3 * tilt + 4)
    best = math.inf
    for other in tilts:
        window = _window(composed, other)
        root = window.solve(target)
        if root is not None:
            return min(root, best)
        best = min(best, window.solve(target, loose=True) or math.inf)
    return best


def _delta(terms: Terms, side: int, epsilon: float) -> float:
    few = _enumerated(terms, side)
    if few is not None:
        return few.delta(epsilon)
    step = _step(terms, side, 1e-6)
    if _too_rough(terms, side, step):
        return 1.0
    composed = _composed(terms, side, step)
    if epsilon >= composed.top:
        return composed.infinite
    tilt = composed.tilt_for_loss(epsilon)
    for _ in range(12):
        window = _window(composed, tilt)
        if epsilon >= window.base:
            return window.delta(epsilon)
        tilt *= 0.5  # near the largest loss a tilt may overshoot
    return 1.0


@lru_cache(maxsize=16)
def _enumerated(terms: Terms, side: int) -> Enumerated | None:
    """List all sums of a few atoms: no grid, whatever their spacings."""
    atoms = [(_side(loss, side).atoms, k) for loss, k in terms]
    count = 1
    for one, k in atoms:
        if one is None or k * math.log(len(one.masses)) > math.log(_FEW_SUMS):
            return None
        count *= len(one.masses) ** k
    if count > _FEW_SUMS:
        return None
    return Enumerated.of([one for one, k in atoms if one is not None for _ in range(k)])


@lru_cache(maxsize=16)
def _composed(terms: Terms, side: int, step: Fraction) -> Composed:
    grids = [(_side(loss, side).on_grid(step), k) for loss, k in terms]
    return Composed(grids, step)


@lru_cache(maxsize=8)
def _window(composed: Composed, tilt: float) -> Window:
    return composed.window(tilt)


def clear_caches() -> None:
    """Forget all computed compositions (for benchmarks, and to free memory)."""
    for cache in (_enumerated, _composed, _window):
        cache.cache_clear()


def _side(loss: PrivacyLoss, side: int) -> Pair:
    pairs = loss.pairs()
    return pairs[min(side, len(pairs) - 1)]


def _step(terms: Terms, side: int, target: float) -> Fraction:
    """Choose the grid: the common lattice if there is one, else fine enough."""
    pairs = [(_side(loss, side), k) for loss, k in terms]
    variance = sum(k * pair.spread**2 for pair, k in pairs)
    s = math.sqrt(variance)
    z = -float(special.ndtri(min(target, 0.5)))
    spacings = [pair.atoms.spacing for pair, _ in pairs if pair.atoms and pair.atoms.spacing]
    if all(pair.atoms for pair, _ in pairs):
        lattice = _common_divisor(spacings, 24 * s / _MAX_POINTS)
        if lattice is not None:
            return lattice
    rough = sum(k for pair, k in pairs)
    # connecting the dots adds about g²/12 to each mean and g²/6 to each variance
    tolerance = _TOLERANCE * min(1.0, variance / 2 + z * s)
    width = math.sqrt(12 * tolerance / (rough * (1 + z / s)))
    width = max(min(width, s / 50), 24 * s / _MAX_POINTS)
    # a grid through the atoms, and through the ends of bounded losses, rounds less
    ends = [Fraction(p.top) for p, _ in pairs if p.atoms is None and p.top != math.inf]
    for marks in (spacings + ends, spacings):
        common = _common_divisor(marks, width / 4)
        if common is not None:
            return common / math.ceil(common / width)
    # four steps per octave, so that near targets share a grid
    octave = math.floor(4 * math.log2(width)) / 4
    return Fraction(2.0**octave)


def _too_rough(terms: Terms, side: int, step: Fraction) -> bool:
    """Tell whether rounding, to the grid or of the transform, would swallow the losses."""
    if sum(k for _, k in terms) > _MOST_TERMS:
        return True
    pairs = [(_side(loss, side), k) for loss, k in terms]
    rounded = sum(k for p, k in pairs if not p.atoms or (p.atoms.spacing / step).denominator > 1)
    return rounded * float(step) ** 2 / 6 > sum(k * pair.spread**2 for pair, k in pairs)


def _common_divisor(marks: Sequence[Fraction], least: float) -> Fraction | None:
    """Return the greatest rational that divides all marks, unless it is below `least`."""
    common = Fraction(0)
    for mark in marks:
        common = _gcd(common, mark)
        if common < least:
            return None
    return common or None


def _gcd(a: Fraction, b: Fraction) -> Fraction:
    return Fraction(
        math.gcd(a.numerator * b.denominator, b.numerator * a.denominator),
        a.denominator * b.denominator,
    )
