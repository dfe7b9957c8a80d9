"""Privacy as a value: neighbours, losses, conversions, composition, filters.

>>> from discreet import privacy as p
>>> p.Pure("0.1").epsilon()
0.1
"""

from __future__ import annotations

from discreet.privacy._additive import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from discreet.privacy._calibrate import gaussian_sigma
from discreet.privacy._loss import PrivacyLoss
from discreet.privacy._losses import Approx, BoundedRange, Probabilistic, Pure, Renyi, Zcdp
from discreet.privacy._relation import Neighbours

__all__ = [
    "Approx",
    "BoundedRange",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Gaussian",
    "Laplace",
    "Neighbours",
    "PrivacyLoss",
    "Probabilistic",
    "Pure",
    "Renyi",
    "Zcdp",
    "gaussian_sigma",
]
