"""Choosing one candidate: the exponential mechanism and permute-and-flip.

Guarantees
----------
Let scores of neighbouring databases differ by at most Δ in every candidate.

* :class:`Exponential` draws i with probability ∝ exp(ε·qᵢ/(2Δ)) and is ε-DP; its log
  probabilities of any two candidates shift by at most ε relative to each other, so it
  is ε-bounded range, hence ε²/8-zCDP (McSherry, Talwar 2007; Dong, Durfee, Rogers 2020).
  If all scores can only move in the same direction (``monotone``), 2Δ becomes Δ.
* :func:`permute_and_flip` visits candidates in random order and accepts i with probability
  exp(ε(qᵢ − max q)/(2Δ)). It is ε-DP and never worse than the exponential
  mechanism (McKenna, Sheldon 2020), but has no bounded range, so its loss is Pure(ε).

Proof for permute-and-flip. All coins are flipped and the first accepted candidate in a
uniform order is returned, which is the same event. Its law is that of the largest qᵢ + Eᵢ
with independent exponential Eᵢ of mean 2Δ/ε (Ding, Kifer, Steinke et al. 2021). Given the
others, i wins when Eᵢ exceeds some r, and a neighbour moves r by at most 2Δ, while
P(E ≥ r + 2Δ) ≥ e^{−ε}·P(E ≥ r): the argument of :mod:`._noisy_max`, without ties.

Assumptions: the score sensitivity is true of the scores as given. Scores are taken
exactly (floats as the binary numbers they are) and both mechanisms are sampled
exactly, in the same work for every choice; no candidate has probability 0.

Utility: with probability at least 1 − β the choice is within (2Δ/ε)·ln(k/β) of the best of k.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet import _exact, noise
from discreet import privacy as p
from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet.errors import Hint, ParameterError
from discreet.mechanisms import _lattice
from discreet.mechanisms._calls import recorded
from discreet.mechanisms._orders import first_largest, random_orders
from discreet.mechanisms._parameters import read_candidates, read_scores, read_sensitivity
from discreet.mechanisms._release import Selection
from discreet.privacy import read_neighbours


def _parameters(mechanism: Exponential) -> dict[str, object]:
    return {name: getattr(mechanism, name) for name in ("sensitivity", "epsilon", "monotone")}


@dataclass(frozen=True, slots=True, init=False)
class Exponential:
    """The exponential mechanism with fixed public parameters.

    Parameters
    ----------
    sensitivity
        Public bound Δ on the change of any score between neighbours.
    epsilon
        Privacy parameter; 0 is allowed, for looking at probabilities only.
    monotone
        Whether one record can only raise, or only lower, all scores together.

    Examples
    --------
    >>> from discreet import mechanisms as m
    >>> m.Exponential(sensitivity=1, epsilon="0.1").probabilities([24, 8, 28, 5]).round(5)
    array([0.32707, 0.14696, 0.39948, 0.12649])
    """

    sensitivity: Fraction
    epsilon: Fraction
    monotone: bool
    neighbours: p.Neighbours | None

    def __init__(
        self,
        sensitivity: Number,
        epsilon: Number,
        *,
        monotone: bool = False,
        neighbours: p.Neighbours | str | None = None,
    ) -> None:
        eps = _exact.decimal(epsilon, "epsilon")
        put = object.__setattr__
        put(self, "sensitivity", read_sensitivity(sensitivity))
        put(self, "epsilon", eps if eps == 0 else _exact.epsilon(epsilon))
        put(self, "monotone", bool(monotone))
        put(self, "neighbours", read_neighbours(neighbours))

    @property
    def loss(self) -> p.PrivacyLoss:
        """ε-bounded range, which is stronger than ε-DP; perfect privacy at ε = 0."""
        loss = p.BoundedRange(self.epsilon) if self.epsilon else p.Pure(0)
        return loss.under(self.neighbours)

    @property
    def temperature(self) -> Fraction:
        """2Δ/ε, or Δ/ε for monotone scores: the score difference worth a factor e."""
        if self.epsilon == 0:
            raise ParameterError("epsilon must be positive, got 0", hint=Hint("epsilon", "0.1"))
        return (1 if self.monotone else 2) * self.sensitivity / self.epsilon

    def probabilities(self, scores: Any) -> NDArray[np.float64]:
        """Return the probability of each candidate. PRIVATE: it shows the scores."""
        q = read_scores(scores).flat
        if self.epsilon == 0:
            return np.full(q.size, 1 / q.size)
        top = q.max()
        # beyond e^-800 a double has nothing left
        exponents = [max(_gap(x, top) / self.temperature, Fraction(-800)) for x in q.tolist()]
        weights = np.exp(np.array([float(x) for x in exponents]))
        return np.asarray(weights / weights.sum())

    @recorded("linf", public=_parameters)
    def select(self, scores: Any, candidates: Sequence[object] | None = None) -> Selection:
        """Choose one candidate."""
        q = read_scores(scores).flat
        names = read_candidates(candidates, q.size)
        index = noise.categorical_exp(q, self.temperature)
        return _selection(index, names, self, q.size, name="exponential", loss=self.loss)


@recorded("linf")
def exponential(
    scores: Any,
    sensitivity: Number,
    epsilon: Number,
    *,
    candidates: Sequence[object] | None = None,
    monotone: bool = False,
    neighbours: p.Neighbours | str | None = None,
) -> Selection:
    """Choose a candidate of high score by the exponential mechanism: ε-DP.

    Parameters
    ----------
    scores
        Private scores, one per candidate.
    sensitivity, epsilon, monotone, neighbours
        See :class:`Exponential`.
    candidates
        Public names of the candidates; the index is returned without them.

    Examples
    --------
    >>> from discreet import mechanisms as m
    >>> m.exponential([0, 1000], 1, 1, candidates=["tea", "coffee"]).value
    'coffee'
    """
    eps = _exact.epsilon(epsilon)
    mechanism = Exponential(sensitivity, eps, monotone=monotone, neighbours=neighbours)
    return mechanism.select(scores, candidates)


@recorded("linf")
def permute_and_flip(
    scores: Any,
    sensitivity: Number,
    epsilon: Number,
    *,
    candidates: Sequence[object] | None = None,
    monotone: bool = False,
    neighbours: p.Neighbours | str | None = None,
) -> Selection:
    """Choose a candidate of high score by permute-and-flip: ε-DP.

    Never worse than :func:`exponential` at the same ε; under zCDP accounting the
    exponential mechanism is about four times cheaper.

    Examples
    --------
    >>> from discreet import mechanisms as m
    >>> m.permute_and_flip([0, 1000], 1, 1, candidates=["tea", "coffee"]).value
    'coffee'
    """
    mechanism = Exponential(
        sensitivity, _exact.epsilon(epsilon), monotone=monotone, neighbours=neighbours
    )
    q = read_scores(scores).flat
    names = read_candidates(candidates, q.size)
    index = flip(_gaps(q), mechanism.temperature, 1)[0]
    loss = p.Pure(mechanism.epsilon).under(mechanism.neighbours)
    return _selection(index, names, mechanism, q.size, name="permute-and-flip", loss=loss)


def flip(gaps: NDArray[Any], temperature: Fraction, runs: int) -> NDArray[np.int64]:
    """Run permute-and-flip `runs` times independently; the mechanism runs it once, audits often.

    Every coin is flipped, so that the work says nothing about who won.
    """
    accepted = noise.bernoulli_exp_many(np.tile(gaps, runs), temperature)
    table = np.asarray(accepted).reshape(runs, -1)
    return first_largest(table, random_orders(runs, gaps.size))


def _selection(
    index: Any,
    names: tuple[object, ...] | None,
    mechanism: Exponential,
    size: int,
    *,
    name: str,
    loss: p.PrivacyLoss,
) -> Selection:
    place = int(index)
    return Selection(
        value=place if names is None else names[place],
        loss=loss,
        mechanism=name,
        price=f"ε={_exact.show(mechanism.epsilon)}",
        tainted=noise.is_deterministic(),
        _accuracy=partial(_shortfall, float(mechanism.temperature), size),
    )


def _shortfall(temperature: float, size: int, confidence: float) -> float:
    return temperature * math.log(size / (1 - confidence))


def _gaps(q: NDArray[Any]) -> NDArray[Any]:
    """Return max q − q without rounding."""
    top = q.max()
    if q.dtype == np.int64 and q.min() > -(2**61) and top < 2**61:
        return np.asarray(top - q)
    if q.dtype == np.float64:
        gaps = top - q
        back = top - gaps
        # Knuth's two-difference: the rounding error of top - q, itself exact
        if not ((top - (gaps + back)) + (back - q)).any():
            return np.asarray(gaps)
    return _lattice.object_array([-_gap(x, top) for x in q.tolist()])


def _gap(x: Any, top: Any) -> Fraction:
    return Fraction(x) - Fraction(top.item() if isinstance(top, np.generic) else top)
