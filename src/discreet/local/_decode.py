"""Decode Bloom filters: regression of bit shares on the bits that candidates set.

In cohort j a share y_ji of people has Bloom bit i set; a candidate v sets the bits of
its column in the design X, so E[y] = Xf if the candidates are everybody's values.

* **Few candidates** (no more than 0.8 of the equations, and X of full rank): weighted
  least squares without constraint. Unbiased, with the known noise as its covariance, so
  that tests and intervals are honest. Non-negative least squares is given beside.
* **Many**: half of the cohorts preselect candidates by non-negative LASSO; the
  other half, which the selection has not seen, estimates and tests them. People who hold a
  candidate v that was left out move the others' estimates by (TA)_v·f_v, T the reading, and
  enlarge the residual χ² by (f_v·‖a_v off the kept ones‖)². What the χ² seen leaves possible
  for any one v is allowed for in every bound; if the χ² does not fit at all, f_v may be 1.

A candidate is *significant* if its lower bound, simultaneous over all candidates, exceeds 0.
Bounds are Chernoff's for the known law of the bits: valid for every n and any hash.
Values that are not among the candidates set bits, too, and alias onto some; the
residual χ² and the mass left unexplained say when that happens.

References
----------
Erlingsson, Pihur, Korolova, "RAPPOR", CCS 2014, §4. Fanti, Pihur, Erlingsson,
"Building a RAPPOR with the unknown", PoPETs 2016.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet import _exact
from discreet._dataclass import dataclass, replace
from discreet._exact import Number
from discreet._lazy import linalg, optimize, special
from discreet.errors import Hint, ParameterError
from discreet.local._estimate import Bounds, Estimate, population_only
from discreet.local._intervals import (
    CHERNOFF,
    EXACT,
    Floats,
    bits_reach,
    bits_variance,
    clopper_pearson,
)

_TAIL = 1e-9
"""Chance of a worse fit below which candidates do not explain the bits."""

_ROOM = 0.8
"""Candidates per equation beyond which they are preselected."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BitShares(Estimate):
    """Shares of people, by cohort, whose Bloom filter has a bit set.

    Attributes
    ----------
    frequencies, standard_errors
        Arrays of shape (cohorts, bits); NaN for a cohort without reports.
    rates
        Chance that a set and a clear bit is reported as 1.
    """

    frequencies: Floats
    standard_errors: Floats
    rates: tuple[float, float]

    def bounds(self, error: float, of: str) -> Bounds:
        """Return exact bounds for the bits' shares."""
        population_only(of)
        state, (one, zero) = self.tally.state, self.rates
        people = state[:, -1:]
        ends = clopper_pearson(state[:, :-1], np.maximum(people, 1), error)
        # nobody in a cohort: nothing is known
        low, high = (
            np.where(people, (e - zero) / (one - zero), none)
            for e, none in zip(ends, (0.0, 1.0), strict=True)
        )
        return low, high, EXACT

    def equations(self) -> tuple[Floats, Floats, Floats, NDArray[Any]]:
        """Return shares, weights, noise variances in units of the weights, and cohorts.

        Weights depend on the cohorts' sizes alone: weights that follow the noisy
        shares would pull estimates after them.
        """
        cohorts, bits = self.frequencies.shape
        people = np.repeat(self.tally.state[:, -1], bits)
        mask, (one, zero) = people > 0, self.rates
        weight = np.sqrt(people / (zero * (1 - zero))) * (one - zero)
        return (
            np.where(mask, self.frequencies.reshape(-1), 0.0),
            weight,
            np.where(mask, (self.standard_errors.reshape(-1) * weight) ** 2, 1.0),
            np.repeat(np.arange(cohorts), bits),
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Decoded(Estimate):
    """Shares of candidate values.

    Attributes
    ----------
    labels
        The candidates, as given.
    frequencies, standard_errors
        Weighted least squares: possibly negative; unbiased if all candidates were kept.
        Candidates that the preselection left out have share 0 and standard error NaN; standard
        errors (and normal intervals) of the others take it that nobody holds them.
    nonnegative
        Non-negative least squares.
    significant
        Which candidates occur, at the family's confidence.
    chi_square, degrees
        Weighted residual sum of squares and its expectation if the candidates are
        all values that occur.
    reading
        What one reported 1 adds to each share, shape (candidates, cohorts, bits).
    shift, apart
        Candidates left out: how far each moves the shares of the others (candidates kept ×
        left out), and how far it stands off them, per share of people who hold it.
    rates
        Chance that a set and a clear bit is reported as 1.
    """

    labels: tuple[Any, ...]
    frequencies: Floats
    standard_errors: Floats
    nonnegative: Floats
    significant: NDArray[np.bool_]
    chi_square: float
    degrees: int
    reading: Floats
    shift: Floats
    apart: Floats
    rates: tuple[float, float]

    @property
    def candidates(self) -> tuple[Any, ...]:
        """The candidates, as given."""
        return self.labels

    @property
    def found(self) -> dict[Any, float]:
        """The significant candidates and their shares, largest first."""
        order = np.argsort(-self.frequencies)
        return {self.labels[i]: float(self.frequencies[i]) for i in order if self.significant[i]}

    @property
    def fits(self) -> bool:
        """Whether the candidates kept explain the bits: χ² within its tail of 1 in 10⁹.

        If not, people hold other values: unlisted ones, or candidates left out.
        """
        return bool(special.chdtrc(max(self.degrees, 1), self.chi_square) >= _TAIL)

    @property
    def unexplained(self) -> float:
        """Share of people whose value is none of the significant candidates (estimated)."""
        return 1 - float(self.frequencies[self.significant].sum())

    def bounds(self, error: float, of: str) -> Bounds:
        """Return bounds for the shares, given that everybody's value is a candidate."""
        population_only(of)
        mask = ~np.isnan(self.standard_errors)
        low, high = np.zeros(len(self.labels)), np.ones(len(self.labels))
        method = f"{CHERNOFF}, if every value is a candidate"
        part = error / 2 if self.apart.size else error
        if mask.any():
            people = self.tally.state[:, -1]
            groups = np.flatnonzero(people)
            above, below = bits_reach(
                [self.reading[mask, j] for j in groups], people[groups].tolist(),
                self.rates, self.protocol.hashes, part,
            )  # fmt: skip
            low[mask] = self.frequencies[mask] - above
            high[mask] = self.frequencies[mask] + below
        if self.apart.size:
            room = self._room(part)
            high[~mask] = room
            low[mask] -= (self.shift * room).max(axis=1, initial=0.0)
            high[mask] -= (self.shift * room).min(axis=1, initial=0.0)
            method = f"{method}; any one left out is allowed for as far as the fit hides it"
        return low, high, method

    def _room(self, error: float) -> Floats:
        """Return the largest share of each candidate left out that the χ² leaves possible.

        P(χ² ≤ d + Δ − 2√((d + 2Δ)t)) ≤ e^{−t} for noncentrality Δ (Birgé), solved for Δ.
        """
        if not self.fits:
            return np.ones(len(self.apart))
        t, d = np.log(1 / error), max(self.degrees, 1)
        root = 2 * np.sqrt(t) + np.sqrt(max(4 * t + 2 * self.chi_square - d, 0.0))
        excess = np.sqrt(max(root**2 - d, 0.0) / 2)
        return np.asarray(np.minimum(1.0, excess / np.maximum(self.apart, 1e-300)))

    def __repr__(self) -> str:
        names = ", ".join(f"{k}: {v:.4g}" for k, v in list(self.found.items())[:8])
        return f"{len(self.found)} of {len(self.labels)} found ({names}), n={self.n}"


def decode(
    shares: BitShares, design: Floats, names: tuple[Any, ...], confidence: Number
) -> Decoded:
    """Fit candidates' shares to bit shares."""
    y, weight, spread, group = shares.equations()
    A, b = design * weight[:, None], y * weight
    test, support = _split(A, b, weight, group)
    T = np.zeros((len(names), len(y)))
    if support.size:
        part = A[test][:, support]
        T[np.ix_(support, np.flatnonzero(test))] = np.linalg.inv(part.T @ part) @ part.T
    frequencies = T @ b
    nonnegative = np.zeros(len(names))
    if support.size:
        nonnegative[support] = optimize.nnls(A[:, support], b)[0]
    rest = (b - A @ frequencies)[test]
    one, zero = shares.rates
    people, shape = shares.tally.state[:, -1], shares.frequencies.shape
    each = np.maximum(np.repeat(people, shape[1]), 1)
    reading = (T * weight / (each * (one - zero))).reshape(len(names), *shape)
    errors = np.full(len(names), np.nan)
    mixture = nonnegative[support] / max(1.0, float(nonnegative.sum()))
    errors[support] = np.sqrt(
        bits_variance(
            [reading[support, j] for j in range(shape[0])], people.tolist(),
            list(design[:, support].reshape(*shape, support.size)), mixture, shares.rates,
        )
    )  # fmt: skip
    out = np.setdiff1d(np.arange(len(names)), support)
    shift = T[support] @ A[:, out]
    apart = np.linalg.norm((A[:, out] - A[:, support] @ shift)[test], axis=0)
    estimate = Decoded(
        shares.protocol, shares.tally, names, frequencies, errors, nonnegative,
        np.zeros(len(names), dtype=bool), float(rest @ (rest / spread[test])),
        int(np.count_nonzero(weight[test])) - support.size,
        reading, shift, apart, shares.rates,
    )  # fmt: skip
    # one-sided, over all candidates
    low, _, _ = estimate.bounds(2 * (1 - _exact.confidence(confidence)) / len(names), "population")
    return replace(estimate, significant=low > 0)


def _split(
    A: Floats, b: Floats, weight: Floats, group: NDArray[Any]
) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Return the equations to estimate from and the candidates to estimate."""
    count = A.shape[1]
    if count <= _ROOM * int(np.count_nonzero(weight)) and _full_rank(A):
        return np.ones(len(b), dtype=bool), np.arange(count)
    if group[-1] < 1:
        raise ParameterError(
            "one cohort cannot both select and test so many candidates",
            hint=Hint.call("local.Rappor", cohorts=16),
        )
    select = group % 2 == 0
    return ~select, _independent(A[~select], _preselect(A[select], b[select]))


def _full_rank(A: Floats) -> bool:
    """Tell whether columns can be told apart, by the small Gram matrix."""
    values = np.linalg.eigvalsh(A.T @ A)
    return bool(values[0] > 1e-10 * values[-1])


def _preselect(A: Floats, b: Floats) -> NDArray[Any]:
    """Return candidates that a non-negative LASSO path keeps, at most half the equations.

    Coordinate descent on the Gram matrix, the penalty falling by steps from where
    everything is zero, until enough candidates have entered.
    """
    gram, pull = A.T @ A, A.T @ b
    scale = np.maximum(np.diag(gram), 1e-12)
    most = max(1, int(np.count_nonzero(b)) // 2)
    x = np.zeros(len(pull))
    support: NDArray[Any] = np.zeros(0, dtype=np.int64)
    penalty = float(pull.max(initial=0.0))
    # the noise alone pulls about √(2 ln M) standard units of each column
    floor = float(np.median(np.sqrt(scale)))
    while penalty > floor:
        penalty *= 0.8
        x = _descend(gram, pull - penalty, scale, x)
        active = np.flatnonzero(x > 0)
        if active.size > most:
            break
        support = active
    return support


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


def _independent(A: Floats, support: NDArray[Any]) -> NDArray[Any]:
    """Drop candidates whose columns the test half cannot tell apart."""
    if not support.size:
        return support
    _, r, order = linalg.qr(A[:, support], mode="economic", pivoting=True)
    size = np.abs(np.diag(r))
    keep = order[: len(size)][size > 1e-8 * max(size[0], 1e-300)]
    return np.sort(support[keep])
