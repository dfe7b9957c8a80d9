"""How much Gaussian noise a target (ε, δ) needs: the analytic calibration.

σ is the least with δ_{Gauss, μ=Δ/σ}(ε) ≤ δ (Balle & Wang 2018), for every ε > 0. The
textbook σ = Δ√(2 ln(1.25/δ))/ε is proved only for ε < 1, wastes noise there and
fails for large ε. The σ returned is one at which the bound was evaluated.
"""

from __future__ import annotations

import math

import numpy as np

from discreet import _exact
from discreet._exact import Number, ceil_float, decimal, floor_float
from discreet.privacy._additive import log_gaussian_delta


def gaussian_sigma(sensitivity: Number, epsilon: Number, delta: Number) -> float:
    """Return the least σ (rounded up) whose Gaussian noise is (ε, δ)-DP.

    Parameters
    ----------
    sensitivity
        L2 sensitivity Δ₂ of the answer.
    epsilon, delta
        The target.

    Examples
    --------
    >>> round(gaussian_sigma(1, 1, "1e-5"), 6)
    3.730632
    """
    reach = ceil_float(_exact.positive(decimal(sensitivity, "sensitivity"), "sensitivity"))
    eps = np.array([floor_float(_exact.epsilon(epsilon))])
    log_target = math.log(floor_float(_exact.delta(delta))) * (1 + 2.0**-50)

    def fits(mu: float) -> bool:
        return bool(log_gaussian_delta(mu, eps)[0] <= log_target)

    low, high = 1.0, 1.0  # μ: `low` fits, `high` does not
    while not fits(low):
        low /= 2
    while fits(high):
        high *= 2
    while high - low > 2.0**-50 * high:
        mid = 0.5 * (low + high)
        low, high = (mid, high) if fits(mid) else (low, mid)
    return reach / low * (1 + 2.0**-50)
