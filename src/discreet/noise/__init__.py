"""Exact integer noise from one unseedable source.

>>> from discreet import noise
>>> law = noise.DiscreteLaplace("0.5")          # exactly scale 1/2
>>> law.sample(4).shape
(4,)
>>> law + noise.DiscreteGaussian(3)
DiscreteLaplace(scale=0.5) + DiscreteGaussian(sigma=3)

A law draws its noise (:meth:`~Law.sample`), gives its probabilities
(:meth:`~Law.pmf`, :meth:`~Law.cdf`, :meth:`~Law.sf`), its ``variance`` and
:meth:`~Law.interval`, and keeps an exact record of itself
(:meth:`~Law.to_dict`). Beside the laws stand the exact pieces that mechanisms
are made of: :func:`uniform_below`, :func:`bernoulli`, :func:`bernoulli_exp`,
:func:`categorical_exp`, :func:`permutation`, many coins and dice at a byte each
(:func:`bernoulli_many`, :func:`bernoulli_bits`, :func:`uniform_many`), and certified bounds on e^−y
(:func:`exp_bounds`). Nothing takes a seed.
"""

from __future__ import annotations

from discreet.noise._compare import exp_bounds
from discreet.noise._deterministic import is_deterministic, is_tainted
from discreet.noise._flips import bernoulli_bits, bernoulli_many, uniform_many
from discreet.noise._laws import (
    LARGEST_SCALE,
    DiscreteGaussian,
    DiscreteLaplace,
    Geometric,
    Interval,
    Law,
)
from discreet.noise._sums import Sum, law_from_dict, sum_of
from discreet.noise._uniform import (
    bernoulli,
    bernoulli_exp,
    bernoulli_exp_many,
    categorical_exp,
    permutation,
    random_words,
    uniform_below,
)

__all__ = [
    "LARGEST_SCALE",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Geometric",
    "Interval",
    "Law",
    "Sum",
    "bernoulli",
    "bernoulli_bits",
    "bernoulli_exp",
    "bernoulli_exp_many",
    "bernoulli_many",
    "categorical_exp",
    "exp_bounds",
    "is_deterministic",
    "is_tainted",
    "law_from_dict",
    "permutation",
    "random_words",
    "sum_of",
    "uniform_below",
    "uniform_many",
]
