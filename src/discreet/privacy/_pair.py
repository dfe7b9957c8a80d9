"""Dominating pairs: the form in which losses enter numerical composition.

A pair (P, Q) *dominates* a mechanism in one direction if its profile
h(ε) = E_P[(1 − e^{ε−L})₊], L = ln(P/Q), is at least the mechanism's at every real
ε. Products of dominating pairs dominate the composition, also when the later
queries (with the same parameters) depend on earlier answers, because
h_{1∘2}(ε) = E_{P₂}[h₁(ε − L₂)] is monotone in h₁ (Zhu, Dong & Wang 2022).

Onto a grid
-----------
:class:`Grid` holds probabilities on offset + i·step plus a mass at +∞. Only the
P-probabilities are kept; the Q-probability of loss l is e^{−l} times it. What is
kept need not sum to one: h is increasing in every mass, so **every rounding is
upward**, and that is all the soundness argument needs.

* *Atoms*: finitely many (or truncated) losses in arithmetic progression. If the
  step divides their spacing they fall on the grid exactly. Otherwise an atom p
  at l ∈ [a, a+g] is split with both its P- and Q-probability preserved: the top
  gets p(1−e^{−(l−a)})/(1−e^{−g}). That is a mean-preserving spread of e^{−L}, so h
  does not fall.
* *Profiles* ("connect the dots", Doroshenko et al. 2022): with h̃ᵢ ≥ h(εᵢ) on the
  grid ε_i = i·g ≥ 0 let Sᵢ = (h̃ᵢ − h̃ᵢ₊₁)/(e^g − 1). The masses e^g Sᵢ₋₁ − Sᵢ at εᵢ
  and h̃_n at +∞ reproduce h̃ at the grid points and its chord in e^ε between
  them, which lies above the convex h. A rounding error can make a mass negative;
  setting it to 0 only raises ĥ. Negative losses come from the reversed pair
  (Q, P) in the same way (its mass at loss ε is Q-probability at −ε), which avoids
  subtracting numbers near 1. Writing M and N for the total P- and Q-mass,
  ĥ(ε) = M − e^ε N + e^ε ĥ_rev(−ε) for ε < 0, so with M ≥ 1 and M ≥ N the bound holds
  there too; the mass at 0 is chosen to make M ≥ 1, and M − N = ĥ(0) − ĥ_rev(0) is
  made non-negative by scaling the positive side by a factor 1 + O(rounding).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from discreet._dataclass import dataclass
from discreet._exact import ceil_float
from discreet._lazy import special
from discreet.privacy._loss import ULP, Array

if TYPE_CHECKING:
    from discreet.privacy._loss import PrivacyLoss

LogProfile: TypeAlias = Callable[[Array], Array]

LOG_FLOOR = -300.0
"""Losses whose δ is below e^{LOG_FLOOR} ≈ 1e-130 count as infinite."""

_MAX_CELLS = 1 << 21


@dataclass(frozen=True, slots=True)
class Atoms:
    """Losses offset + i·spacing with P-probabilities (rounded up), and a rest at +∞."""

    offset: Fraction
    spacing: Fraction
    masses: Array
    infinite: float


@dataclass(frozen=True, slots=True)
class Grid:
    """Masses at offset + (start + i)·step, and at +∞."""

    offset: Fraction
    start: int
    masses: Array
    infinite: float


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """One direction of a loss: the profiles of (P, Q) and of (Q, P)."""

    forward: LogProfile
    backward: LogProfile
    top: Fraction | float
    bottom: Fraction | float
    atoms: Atoms | None = None
    convex: bool = True

    @classmethod
    def symmetric(
        cls, loss: PrivacyLoss, atoms: Atoms | None = None, *, convex: bool = True
    ) -> Pair:
        """Build the pair of a loss whose two directions have the same profile."""
        return cls(loss.log_delta, loss.log_delta, loss.top, loss.top, atoms, convex)

    @property
    def spread(self) -> float:
        """Rough standard deviation of the loss: the μ of the Gaussian with equal δ(0).

        It steers the choice of a grid; nothing depends on its being right.
        """
        total_variation = min(math.exp(self.forward(np.zeros(1))[0]), 1 - 1e-12)
        return max(float(2 * special.ndtri(0.5 + 0.5 * total_variation)), 1e-12)

    def on_grid(self, step: Fraction) -> Grid:
        """Discretise upward onto multiples of `step` (plus the atoms' own offset)."""
        if self.atoms is not None:
            return _grid_of_atoms(self.atoms, step)
        return _grid_of_profiles(self, float(step))


def _grid_of_atoms(atoms: Atoms, step: Fraction) -> Grid:
    ratio = atoms.spacing / step
    count = len(atoms.masses)
    if ratio.denominator == 1:
        stride = int(ratio)
        spread = np.zeros((count - 1) * stride + 1)
        spread[:: max(stride, 1)] = atoms.masses
        return Grid(atoms.offset, 0, spread, atoms.infinite)
    # the floats below may be off by an ulp: push losses up, which is sound
    g = float(step)
    losses = float(atoms.offset) + np.arange(count, dtype=np.float64) * float(atoms.spacing)
    losses += 4 * ULP * (abs(float(atoms.offset)) + np.abs(losses))
    cell = np.floor(losses / g).astype(np.int64)
    upper = np.clip(np.expm1(-(losses - cell * g)) / math.expm1(-g), 0.0, 1.0)
    first = int(cell.min())
    size = int(cell.max()) - first + 2
    masses = np.zeros(size)
    masses += np.bincount(cell - first, atoms.masses * (1 - upper), size)
    masses += np.bincount(cell - first + 1, atoms.masses * upper, size)
    masses *= 1 + 2.0**-46
    return Grid(Fraction(0), first, masses, atoms.infinite)


def _grid_of_profiles(pair: Pair, g: float) -> Grid:
    same = pair.forward is pair.backward or pair.forward == pair.backward
    plus, infinite = _masses(pair.forward, pair.top, g, convex=pair.convex)
    minus, infinite_minus = (
        (plus, infinite) if same else _masses(pair.backward, pair.bottom, g, convex=pair.convex)
    )
    falling_plus = np.exp(-g * np.arange(1, len(plus) + 1))
    falling_minus = np.exp(-g * np.arange(1, len(minus) + 1))
    if not same:
        # M ≥ N needs ĥ(0) ≥ ĥ_rev(0); both approximate the same number
        ahead = float((plus * (1 - falling_plus)).sum()) + infinite
        behind = float((minus * (1 - falling_minus)).sum()) + infinite_minus
        plus = plus * max(1.0, behind / ahead) * (1 + 2.0**-44)
    below = minus * falling_minus
    rest = 1.0 - float(plus.sum()) - float(below.sum()) - infinite
    centre = max(rest, 0.0) + ULP * (len(plus) + len(minus) + 8)
    masses = np.concatenate([below[::-1], [centre], plus])
    return Grid(Fraction(0), -len(minus), masses, infinite)


def _masses(
    log_profile: LogProfile, top: Fraction | float, g: float, *, convex: bool
) -> tuple[Array, float]:
    """Return masses at g, 2g, … and at +∞ whose profile is at least the given one."""
    cells = _reach(log_profile, top, g)
    # evaluating just below the grid point can only raise a falling function
    grid: Array = np.arange(cells + 1, dtype=np.float64) * g
    below: Array = grid * (1 - 2 * ULP)
    if top <= below[-1]:
        below[-1] = grid[-1]
    heights = np.exp(np.minimum(log_profile(below), 0.0)) * (1 + 2 * ULP)
    if not convex:
        heights = _convex_minorant(heights, grid)
    slopes = (heights[:-1] - heights[1:]) / math.expm1(g)
    following = np.append(slopes[1:], 0.0)
    masses = np.maximum(math.exp(g) * slopes - following, 0.0) + 8 * ULP * np.abs(slopes)
    return masses, float(heights[-1]) * (1 + 4 * ULP)


def _reach(log_profile: LogProfile, top: Fraction | float, g: float) -> int:
    """Count the cells needed until the profile ends or falls below the floor."""
    if top != math.inf:
        cells = math.ceil(ceil_float(Fraction(top)) / g * (1 + 4 * ULP))
        if cells <= _MAX_CELLS:
            return max(cells, 1)
    high = 1
    while high < _MAX_CELLS and log_profile(np.array([high * g]))[0] > LOG_FLOOR:
        high *= 2
    low = high // 2
    while high - low > max(1, high // 64):
        mid = (low + high) // 2
        low, high = (mid, high) if log_profile(np.array([mid * g]))[0] > LOG_FLOOR else (low, mid)
    return high


def _convex_minorant(heights: Array, grid: Array) -> Array:
    """Return the greatest function ≤ heights that is convex in e^ε.

    A true profile is convex, so it stays below; its slopes are the isotonic
    regression of the given slopes.
    """
    from scipy import optimize  # noqa: PLC0415 - slow to import, rarely needed

    if grid[-1] > 600:  # e^ε would leave the range of doubles; the given bound is sound as it is
        return heights
    gaps = np.diff(np.exp(grid - grid[-1]))
    fit = optimize.isotonic_regression(np.diff(heights) / gaps, weights=gaps)
    raised = heights[-1] - np.append(np.cumsum((fit.x * gaps)[::-1])[::-1], 0.0)
    # accumulated rounding of the sum, relative to what was summed
    return np.asarray(np.minimum(raised * (1 + 4 * ULP * len(grid)), heights))
