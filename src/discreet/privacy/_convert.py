"""Tight conversions between the languages of privacy loss.

* Pure ε → Rényi: D_α ≤ ε − ln[(1+e^{−ε})/(1+e^{−(2α−1)ε})]/(α−1), and
  → zCDP: ρ = ε·tanh(ε/2) ≤ ε²/2. Both are attained by randomised response,
  of which every ε-DP pair is a post-processing (Kairouz, Oh & Viswanath 2015),
  and Rényi divergence does not grow under post-processing. D_α/α falls in α
  for randomised response, so its limit at α → 1, the Kullback–Leibler
  divergence ε·tanh(ε/2), is the ρ.
* Rényi → (ε, δ) (Canonne, Kamath & Steinke 2020): for every α > 1

      ln δ(ε) ≤ (α−1)(D_α − ε) + α·ln(1−1/α) − ln(α−1)

  because E[(1−e^{ε−L})₊] ≤ c·E[e^{(α−1)(L−ε)}] with c the maximum of
  (1−e^{−x})e^{−(α−1)x}, attained at x = ln(1+1/(α−1)). Every α gives a bound, so
  the search for the best α needs no certificate.
* Profile → trade-off curve by duality (see :mod:`discreet.privacy._loss`).

The older ρ + 2√(ρ ln(1/δ)) is never used: it is looser for every ρ and δ.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from discreet._exact import ceil_float
from discreet.errors import Hint, ParameterError

if TYPE_CHECKING:
    from discreet.privacy._loss import Array, PrivacyLoss


def pure_to_rho(epsilon: Fraction | float) -> float:
    """Return ρ = ε·tanh(ε/2), rounded up.

    >>> round(pure_to_rho(Fraction(1, 10)), 8)
    0.00499584
    """
    e = epsilon if isinstance(epsilon, float) else ceil_float(epsilon)
    return e * math.tanh(0.5 * e) * (1 + 2**-49)


def pure_to_renyi(epsilon: Fraction | float, alpha: Fraction) -> float:
    """Return the largest Rényi divergence of order α of an ε-DP mechanism, rounded up.

    >>> pure_to_renyi(Fraction(1), Fraction(2)) <= 1
    True
    """
    e = epsilon if isinstance(epsilon, float) else ceil_float(epsilon)
    a = float(alpha)
    if a - 1 < 1e-6:  # below this the quotient is all rounding; D_α ≤ αρ is as good
        return a * pure_to_rho(e)
    # ln E_P[e^{(α−1)L}] for randomised response with loss ±e
    log_moment = (a - 1) * e + math.log1p(math.exp(-(2 * a - 1) * e)) - math.log1p(math.exp(-e))
    slack = 2**-50 * ((a - 1) * e + 1.0)
    return min((log_moment + slack) / (a - 1), e, a * pure_to_rho(e))


def renyi_to_log_delta(excess: Array | float, divergence: Array | float, epsilon: Array) -> Array:
    """Return the Canonne–Kamath–Steinke bound on ln δ(ε) from the order 1 + `excess`.

    With x = α − 1 the bound is x(D − ε) + x·ln x − (1+x)·ln(1+x), which keeps its digits
    near α = 1, where α itself has lost those of x.
    """
    x = np.asarray(excess, dtype=np.float64)
    entropy = x * np.log(x) - (1 + x) * np.log1p(x)
    bound = x * (divergence - epsilon) + entropy
    size = x * (np.abs(divergence) + epsilon) + np.abs(x * np.log(x)) + (1 + x) * np.log1p(x)
    return np.asarray(np.minimum(bound + 2.0**-49 * size, 0.0), dtype=np.float64)


def zcdp_to_log_delta(rho: Fraction | float, epsilon: Array, mean: Fraction | None = None) -> Array:
    """Return the best bound on ln δ(ε) from D_α ≤ mean + (α−1)ρ over all orders α.

    `mean` is ρ unless stated, which makes it αρ. The derivative in x = α − 1,
    mean + 2xρ − ε − ln(1+1/x), is increasing: bisection.
    """
    r = rho if isinstance(rho, float) else ceil_float(rho)
    start = r if mean is None else ceil_float(mean)
    if r == 0.0:
        return np.where(epsilon >= 0, -np.inf, 0.0)
    low = np.full(epsilon.shape, -40.0)
    high = np.log(epsilon / r + 4.0 / r + 4.0)
    for _ in range(34):  # the bound is flat at its minimum: α to 1e-8 is plenty
        mid = 0.5 * (low + high)
        excess = np.exp(mid)  # α − 1
        rising = start + 2 * excess * r - epsilon - np.log1p(1 / excess) > 0
        low, high = np.where(rising, low, mid), np.where(rising, mid, high)
    excess = np.exp(0.5 * (low + high))
    return renyi_to_log_delta(excess, (start + excess * r) * (1 + 2.0**-51), epsilon)


def largest_rho(epsilon: float, delta: float) -> float:
    """Return the largest ρ, up to rounding, whose conversion is within (ε, δ); 0 if none is.

    At each order α the bound of :func:`renyi_to_log_delta` with D_α = αρ equals δ at
    ρ(α) = (ε − ln(1−1/α) + [ln α − ln(1/δ)]/(α−1)) / α. Every α proves its ρ(α), so the
    maximum may be searched by grid; the caller checks the result on the bound itself.
    """
    low, high = -20.0, 45.0
    best = 0.0
    for _ in range(4):
        t = np.linspace(low, high, 2001)
        excess = np.exp(t)  # α − 1
        log_alpha = np.log1p(excess)
        shift = log_alpha - t + (log_alpha + math.log(delta)) / excess
        rho = (epsilon + shift) / (1 + excess)
        i = int(np.argmax(rho))
        best = max(best, float(rho[i]))
        width = (high - low) / 2000
        low, high = float(t[i]) - 2 * width, float(t[i]) + 2 * width
    return max(best, 0.0)


def tradeoff_from_profile(loss: PrivacyLoss, fpr: float) -> float:
    """Return the best lower bound on the type-II error that `loss.delta` implies."""
    alpha = float(fpr)
    if not 0 <= alpha <= 1:
        raise ParameterError(f"fpr must lie in [0, 1], got {alpha}", hint=Hint("fpr", 0.05))

    # Any ε is a valid witness: scan, then twice look closer around the best.
    low, high, bound = 0.0, max(min(loss.epsilon(1e-9), 60.0), 1e-3), 0.0
    for points in (65, 33, 33):
        grid = np.linspace(low, high, points)
        mass = -np.expm1(np.minimum(loss.log_delta(grid), 0.0)) - 4e-16  # 1 − δ
        values = np.maximum(mass - np.exp(grid) * alpha, np.exp(-grid) * (mass - alpha))
        best = int(np.argmax(values))
        bound = max(bound, float(values[best]))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, points - 1)]
    return max(0.0, bound * (1 - 2.0**-50))
