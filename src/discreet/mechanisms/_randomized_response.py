"""Randomized response: each person randomises their own answer.

Guarantee
---------
With k categories, the truth is told with probability p and otherwise a uniform category is
named (the truth included). Then P(truth) = p + (1−p)/k, any other category has (1−p)/k, and the
largest ratio is 1 + kp/(1−p). So the mechanism is ε-DP with ε = ln(1 + kp/(1−p)), and no
smaller ε holds (Warner 1965; Kairouz, Oh, Viswanath 2014). For k = 2 this is
ε = ln(1 + 2p/(1−p)): p = ½ gives ln 3.

Given p, the coin has exactly that rational probability. Given ε, the answer is replaced by
one of the k−1 others with probability (k−1)/(e^ε+k−1), an irrational number whose binary
digits are compared with a uniform real until they differ: the law is exact.

Each person's neighbour is a different answer of the same person: the relation is
change-one, and it protects against the curator too.

Estimation (binary): μ̂ = (mean(O) − (1−p)/2)/p is unbiased with variance v(p, μ)/n,
v = μ/p − μ² + (1−p)/2p² − (1−p)²/4p² − μ(1−p)/p, which is π(1−π)/p² for π = pμ + (1−p)/2.
The interval is μ̂ ± Φ⁻¹(1−α/2)·√(v/n), approximate (central limit theorem).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet import _exact, noise
from discreet import privacy as p_
from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet.errors import Hint, ParameterError
from discreet.mechanisms import _lattice, _refine
from discreet.mechanisms._calls import recorded
from discreet.mechanisms._parameters import read_count
from discreet.mechanisms._release import Interval, tainted
from discreet.noise import exp_bounds


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated share of a category, its standard error and the sample size."""

    value: float
    standard_error: float
    n: int

    def interval(self, confidence: Number = 0.95) -> Interval:
        """Return the normal-approximation interval (sampling and randomising together)."""
        from scipy.special import ndtri  # noqa: PLC0415  (scipy loads only when asked for)

        level = _exact.confidence(confidence)
        reach = float(ndtri((1 + level) / 2)) * self.standard_error
        return Interval(self.value - reach, self.value + reach, level)

    def __repr__(self) -> str:
        return f"{self.value:.4g} ± {1.959964 * self.standard_error:.2g} (95 %), n={self.n}"


@dataclass(frozen=True, slots=True, init=False)
class RandomizedResponse:
    """Randomized response with fixed public parameters.

    Parameters
    ----------
    p
        Probability of telling the truth outright, a rational in [0, 1); or
    epsilon
        the privacy parameter.
    categories
        Number of possible answers 0, …, categories − 1.

    Examples
    --------
    >>> from discreet import mechanisms as m
    >>> round(m.RandomizedResponse(p="0.5").loss.epsilon(), 6)
    1.098612
    >>> m.RandomizedResponse(p="0.5").estimate([1, 0, 1, 1]).value
    1.0
    """

    categories: int
    p: Fraction | None
    epsilon: Fraction | None

    def __init__(
        self, p: Number | None = None, epsilon: Number | None = None, *, categories: int = 2
    ) -> None:
        if (p is None) == (epsilon is None):
            raise ParameterError(
                "randomized response needs either p or epsilon", hint=Hint("p", "0.5")
            )
        put = object.__setattr__
        put(self, "categories", read_count(categories, "categories", least=2))
        put(self, "p", None if p is None else _read_probability(p))
        put(self, "epsilon", None if epsilon is None else _exact.epsilon(epsilon))

    @property
    def truth(self) -> float:
        """Probability p of telling the truth outright."""
        if self.p is not None:
            return float(self.p)
        assert self.epsilon is not None
        eps = float(self.epsilon)
        return -math.expm1(-eps) / (1 + (self.categories - 1) * math.exp(-eps))

    @property
    def loss(self) -> p_.PrivacyLoss:
        """ε-DP for each respondent, with ε rounded up where it is irrational."""
        eps = self.epsilon
        if eps is None:
            assert self.p is not None
            bound = math.log1p(float(self.categories * self.p / (1 - self.p)))
            eps = Fraction(bound) * (1 + Fraction(1, 2**50))
        return p_.Pure(eps).under(p_.Neighbours.CHANGE_ONE)

    @recorded("records", public=lambda design: {"design": design})
    def respond(self, answers: Any) -> Responses:
        """Randomise answers, one per respondent, each independently."""
        values = _read_answers(answers, self.categories)
        lies, replies = self._draw(values.flat)
        shaped = replies.reshape(values.shape)
        return Responses(
            value=int(shaped) if values.shape == () else np.asarray(shaped),
            loss=self.loss,
            design=self,
            tainted=tainted(lies),
        )

    def _draw(self, truth: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Draw who does not answer outright, and the resulting replies."""
        n, k = truth.size, self.categories
        if self.p is not None:
            lies = noise.uniform_below(self.p.denominator, n) >= self.p.numerator
            others = np.asarray(noise.uniform_below(k, n))
        else:
            assert self.epsilon is not None
            digits = partial(_refine.floor_scaled, partial(_lie_bounds, self.epsilon, k))
            lies = _refine.bernoulli_real(digits, n)
            others = (truth + 1 + np.asarray(noise.uniform_below(k - 1, n))) % k
        return lies, np.where(np.asarray(lies), others, truth)

    def estimate(self, outputs: Any, category: int = 1) -> Estimate:
        """Estimate the share of people whose true answer is `category`."""
        values = _read_answers(outputs, self.categories)
        p, n = self.truth, values.size
        if not n:
            raise ParameterError("there are no answers to estimate from")
        if p == 0:
            raise ParameterError("with p = 0 the answers say nothing", hint=Hint("p", "0.5"))
        observed = float(np.mean(values.flat == category))
        share = (observed - (1 - p) / self.categories) / p
        return Estimate(share, math.sqrt(observed * (1 - observed) / n) / p, n)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Responses:
    """Randomised answers; they may be published as they stand."""

    value: Any
    loss: p_.PrivacyLoss
    design: RandomizedResponse
    tainted: bool = False
    mechanism: str = "randomized-response"

    def estimate(self, category: int = 1) -> Estimate:
        """Estimate the share of true answers equal to `category`."""
        return self.design.estimate(self.value, category)

    def interval(self, confidence: Number = 0.95, *, category: int = 1) -> Interval:
        """Return a normal-approximation interval for that share."""
        return self.estimate(category).interval(confidence)

    def __repr__(self) -> str:
        what = f"{np.size(self.value)} answers" if np.ndim(self.value) else repr(self.value)
        taint = "  [TEST NOISE: NOT PRIVATE]" if self.tainted else ""
        return f"{what}  {self.mechanism}, ε={self.loss.epsilon():.6g} per person{taint}"


@recorded("records")
def randomized_response(
    answers: Any,
    p: Number | None = None,
    epsilon: Number | None = None,
    *,
    categories: int = 2,
) -> Responses:
    """Randomise answers 0, …, categories − 1, one per respondent: ε-DP for each.

    Parameters
    ----------
    answers
        One answer, or an array with one answer per respondent.
    p, epsilon, categories
        See :class:`RandomizedResponse`.

    Examples
    --------
    >>> from discreet import mechanisms as m
    >>> replies = m.randomized_response([0, 1] * 500, p="0.75")
    >>> round(replies.loss.epsilon(), 6)
    1.94591
    >>> abs(replies.estimate().value - 0.5) < 0.3
    True
    """
    return RandomizedResponse(p, epsilon, categories=categories).respond(answers)


def _lie_bounds(epsilon: Fraction, categories: int, digits: int) -> tuple[Fraction, Fraction]:
    """Enclose (k−1)/(e^ε + k−1) = (k−1)e^{−ε}/(1 + (k−1)e^{−ε})."""
    low, high = ((categories - 1) * end for end in exp_bounds(epsilon, digits))
    return low / (1 + low), high / (1 + high)


def _read_probability(p: Number) -> Fraction:
    value = _exact.decimal(p, "p")
    if not 0 < value < 1:
        raise ParameterError(
            f"p must lie strictly between 0 and 1, got {_exact.show(value)}", hint=Hint("p", "0.5")
        )
    return value


def _read_answers(answers: Any, categories: int) -> _lattice.Values:
    """Read answers; whatever is not one of the categories counts as category 0."""
    values = _lattice.read_values(answers, "answers")
    cells = values.flat
    known = np.array([c in range(categories) for c in cells.tolist()], dtype=bool)
    codes = np.where(known, cells, 0).astype(np.int64)
    return _lattice.Values(codes, values.shape)
