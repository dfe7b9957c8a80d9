"""Decode Bloom filters: regression of bit shares on the bits that candidates set.

In cohort j a share y_ji of people has Bloom bit i set; a candidate v sets the bits of
its column in the design X, so E[y] = Xf if the candidates are everybody's values.

* **Few candidates** (no more than 0.8 of the equations, and X of full rank): weighted
  least squares without constraint. Unbiased, with the known noise as its covariance, so
  that tests and intervals are honest. Non-negative least squares is given beside.
* **Many**: half of the cohorts preselect candidates by non-negative LASSO; the
  other half, which the selection has not seen, estimates and tests them.

A candidate is *significant* if its z exceeds the Bonferroni bound over all candidates.
Values that are not among the candidates set bits, too, and alias onto some; the
residual χ² and the mass left unexplained say when that happens.

References
----------
Erlingsson, Pihur, Korolova, "RAPPOR", CCS 2014, §4. Fanti, Pihur, Erlingsson,
"Building a RAPPOR with the unknown", PoPETs 2016.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet import _exact
from discreet import privacy as p_
from discreet._exact import Number
from discreet._lazy import special
from discreet.errors import ParameterError
from discreet.local import _charts
from discreet.local._intervals import (
    POPULATION,
    Floats,
    Interval,
    clopper_pearson,
    normal_quantile,
)

if TYPE_CHECKING:
    from discreet.local._aggregator import Tally
    from discreet.local._rappor import Rappor

_ROOM = 0.8
"""Candidates per equation beyond which they are preselected."""


@dataclass(frozen=True, slots=True, eq=False)
class BitShares:
    """Shares of people, by cohort, whose Bloom filter has a bit set.

    Attributes
    ----------
    frequencies, standard_errors
        Arrays of shape (cohorts, bits); NaN for a cohort without reports.
    """

    protocol: Rappor
    tally: Tally
    frequencies: Floats
    standard_errors: Floats
    one: float
    zero: float

    @property
    def n(self) -> int:
        """Reports counted."""
        return self.tally.n

    @property
    def loss(self) -> p_.PrivacyLoss:
        """What taking part cost one unit."""
        return self.tally.loss

    def interval(self, confidence: Number = 0.95) -> Interval:
        """Return exact intervals for the bits' shares."""
        level = _exact.confidence(confidence)
        state = self.tally.state
        low, high = clopper_pearson(state[:, :-1], np.maximum(state[:, -1:], 1), 1 - level)
        span = self.one - self.zero
        return Interval((low - self.zero) / span, (high - self.zero) / span, level, POPULATION)

    def equations(self) -> tuple[Floats, Floats, Floats, NDArray[Any]]:
        """Return shares, weights, noise variances in units of the weights, and cohorts.

        Weights depend on the cohorts' sizes alone: weights that follow the noisy
        shares would pull estimates after them.
        """
        cohorts, bits = self.frequencies.shape
        people = np.repeat(self.tally.state[:, -1], bits)
        seen = people > 0
        quiet = np.sqrt(self.zero * (1 - self.zero)) / (self.one - self.zero)
        weight = np.sqrt(people) / quiet
        return (
            np.where(seen, self.frequencies.reshape(-1), 0.0),
            weight,
            np.where(seen, (self.standard_errors.reshape(-1) * weight) ** 2, 1.0),
            np.repeat(np.arange(cohorts), bits),
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Decoded:
    """Shares of candidate values.

    Attributes
    ----------
    candidates
        The values, as given.
    frequencies, standard_errors
        Weighted least squares: unbiased and possibly negative. Candidates that the preselection
        left out have share 0 and standard error NaN.
    nonnegative
        Non-negative least squares.
    significant
        Which candidates occur, at the family's confidence.
    chi_square, degrees
        Weighted residual sum of squares and its expectation if the candidates are
        all values that occur.
    """

    protocol: Rappor
    tally: Tally
    candidates: tuple[Any, ...]
    frequencies: Floats
    standard_errors: Floats
    nonnegative: Floats
    significant: NDArray[np.bool_]
    chi_square: float
    degrees: int

    @property
    def n(self) -> int:
        """Reports counted."""
        return self.tally.n

    @property
    def refused(self) -> Mapping[str, int]:
        """Reports not counted, by reason."""
        return self.tally.refused

    @property
    def loss(self) -> p_.PrivacyLoss:
        """What taking part cost one unit."""
        return self.tally.loss

    @property
    def found(self) -> dict[Any, float]:
        """The significant candidates and their shares, largest first."""
        order = np.argsort(-self.frequencies)
        return {
            self.candidates[i]: float(self.frequencies[i]) for i in order if self.significant[i]
        }

    @property
    def unexplained(self) -> float:
        """Share of people whose value is none of the significant candidates (estimated)."""
        return 1 - float(self.frequencies[self.significant].sum())

    def interval(self, confidence: Number = 0.95, *, simultaneous: bool = False) -> Interval:
        """Return normal intervals (the noise of bit shares is known, their sum near normal)."""
        level = _exact.confidence(confidence)
        error = (1 - level) / (len(self.candidates) if simultaneous else 1)
        reach = normal_quantile(error) * self.standard_errors
        return Interval(self.frequencies - reach, self.frequencies + reach, level, POPULATION)

    def chart(self, confidence: Number = 0.95) -> dict[str, Any]:
        """Return a Vega-Lite chart of the candidates."""
        return _charts.bars(self, self.candidates, self.interval(confidence))

    def __repr__(self) -> str:
        names = ", ".join(f"{k}: {v:.4g}" for k, v in list(self.found.items())[:8])
        return f"{len(self.found)} of {len(self.candidates)} found ({names}), n={self.n}"


def decode(
    shares: BitShares, design: Floats, names: tuple[Any, ...], confidence: Number
) -> Decoded:
    """Fit candidates' shares to bit shares."""
    y, weight, spread, group = shares.equations()
    level = _exact.confidence(confidence)
    bound = float(-special.ndtri((1 - level) / len(names)))
    A, b = design * weight[:, None], y * weight
    rows = int(np.count_nonzero(weight))
    if len(names) <= _ROOM * rows and _full_rank(A):
        test, chosen = np.ones(len(y), dtype=bool), np.arange(len(names))
    else:
        if shares.frequencies.shape[0] < 2:
            raise ParameterError(
                "one cohort cannot both select and test so many candidates",
                hint="local.Rappor(cohorts=16)",
            )
        cohorts = group % 2 == 0
        chosen = _preselect(A[cohorts], b[cohorts])
        test = ~cohorts
        chosen = _independent(A[test], chosen)
    estimate, error, residual = _least_squares(A[test][:, chosen], b[test], spread[test])
    frequencies = np.zeros(len(names))
    errors = np.full(len(names), np.nan)
    frequencies[chosen], errors[chosen] = estimate, error
    nonnegative = np.zeros(len(names))
    if chosen.size:
        nonnegative[chosen] = _nonnegative(A[:, chosen], b)
    with np.errstate(invalid="ignore"):
        significant = np.nan_to_num(frequencies / errors, nan=-np.inf) > bound
    degrees = int(np.count_nonzero(weight[test])) - chosen.size
    return Decoded(
        shares.protocol, shares.tally, names, frequencies, errors, nonnegative, significant,
        residual, degrees,
    )  # fmt: skip


def _full_rank(A: Floats) -> bool:
    """Tell whether columns can be told apart, by the small Gram matrix."""
    values = np.linalg.eigvalsh(A.T @ A)
    return bool(values[0] > 1e-10 * values[-1])


def _least_squares(A: Floats, b: Floats, spread: Floats) -> tuple[Floats, Floats, float]:
    """Return least squares, standard errors for noise of these variances, the residual χ²."""
    if not A.shape[1]:
        return np.zeros(0), np.zeros(0), float(b @ (b / spread))
    inverse = np.linalg.inv(A.T @ A)
    T = inverse @ A.T
    x = T @ b
    rest = b - A @ x
    return x, np.sqrt(np.sum(T * T * spread, axis=1)), float(rest @ (rest / spread))


def _nonnegative(A: Floats, b: Floats) -> Floats:
    from scipy.optimize import nnls  # noqa: PLC0415 - slow to import, only for decoding

    return np.asarray(nnls(A, b)[0])


def _preselect(A: Floats, b: Floats) -> NDArray[Any]:
    """Return candidates that a non-negative LASSO path keeps, at most half the equations.

    Coordinate descent on the Gram matrix, the penalty falling by steps from where
    everything is zero, until enough candidates have entered.
    """
    gram, pull = A.T @ A, A.T @ b
    scale = np.maximum(np.diag(gram), 1e-12)
    most = max(1, int(np.count_nonzero(b)) // 2)
    x = np.zeros(len(pull))
    kept: NDArray[Any] = np.zeros(0, dtype=np.int64)
    penalty = float(pull.max(initial=0.0))
    # the noise alone pulls about √(2 ln M) standard units of each column
    floor = float(np.median(np.sqrt(scale)))
    while penalty > floor:
        penalty *= 0.8
        x = _descend(gram, pull - penalty, scale, x)
        active = np.flatnonzero(x > 0)
        if active.size > most:
            break
        kept = active
    return kept


def _descend(gram: Floats, pull: Floats, scale: Floats, x: Floats) -> Floats:
    """Minimise ½xᵀGx − pullᵀx over x ≥ 0 by cyclic coordinate descent."""
    x = x.copy()
    gradient = pull - gram @ x
    for _ in range(100):
        moved = 0.0
        # only coordinates that are positive or want to be
        for i in np.flatnonzero((x > 0) | (gradient > 0)):
            new = max(0.0, x[i] + gradient[i] / scale[i])
            step = new - x[i]
            if step:
                gradient -= gram[:, i] * step
                x[i] = new
                moved = max(moved, abs(step) * float(np.sqrt(scale[i])))
        if moved < 1e-3:
            break
    return x


def _independent(A: Floats, chosen: NDArray[Any]) -> NDArray[Any]:
    """Drop candidates whose columns the test half cannot tell apart."""
    if not chosen.size:
        return chosen
    from scipy.linalg import qr  # noqa: PLC0415 - slow to import, only for decoding

    _, r, order = qr(A[:, chosen], mode="economic", pivoting=True)
    size = np.abs(np.diag(r))
    keep = order[: len(size)][size > 1e-8 * max(size[0], 1e-300)]
    return np.sort(chosen[keep])
