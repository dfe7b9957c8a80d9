"""The score of one coefficient of a noisy line, and the values that it keeps.

Derivation and references: :mod:`discreet.inference._regression`. Noise and sampling variance of
a score are quadratic in the coefficient, so three numbers of each say all of it.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import special

from discreet import _exact
from discreet._dataclass import dataclass
from discreet.inference._laws import Floats
from discreet.inference._pivot import hull

FLOOR: Final = 1e-300
"""Least p-value that is told from zero."""

_SINGULAR: Final = 1e-13
"""Least part of a column that others leave, which is told from rounding."""


@dataclass(frozen=True)
class Released:
    """Noisy moments of the scaled columns (1, w…, v) and how they are noised.

    ``place[i][j]`` is the position of Σwᵢwⱼ among the values, −1 where it is known to be zero.
    """

    values: Floats
    covariance: Floats
    place: tuple[tuple[int, ...], ...]
    laplace: bool
    rows: int

    @cached_property
    def matrix(self) -> Floats:
        """The noisy moment matrix."""
        return np.array([[self.values[p] if p >= 0 else 0.0 for p in row] for row in self.place])

    @cached_property
    def _slots(self) -> NDArray[np.int64]:
        """The places, row after row; what is known to be zero has one behind all values."""
        slots = np.array(self.place).ravel()
        return np.where(slots < 0, self.values.size, slots)

    def gradient(self, a: Floats, c: Floats) -> Floats:
        """Derivative of aᵀMc by the released values."""
        size = self.values.size
        found = np.bincount(self._slots, np.outer(a, c).ravel(), minlength=size + 1)[:size]
        return np.asarray(found, dtype=np.float64)


def quantile(share: float, error: float, *, laplace: bool) -> float:
    """Two-sided critical value between the normal's and Laplace's, by the noise's share."""
    normal = -float(special.ndtri(error / 2))
    if not laplace:
        return normal
    return normal + share * max(-math.log(error) / math.sqrt(2) - normal, 0.0)


def least_error(t: float, share: float, *, laplace: bool) -> float:
    """Least error at which :func:`quantile` is below t."""

    def below(log_error: float) -> bool:
        return quantile(share, math.exp(log_error), laplace=laplace) < t

    if t <= 0:
        return 1.0
    least = math.log(FLOOR)
    return FLOOR if below(least) else math.exp(_exact.turning(below, least, 0.0)[1])


def stretched(half: Floats, share: Floats) -> Floats:
    """Half-width of a group's log-odds, where noise is a share of the variance.

    Noise is added to counts: a count that may be off by a part h of itself has a logarithm that
    may be off by −log(1 − h), which is more than h, and no bound from h = 1 on. By h alone null
    tests of levels were beyond their size: 114 of 1 500 at 5 %, 50 at 1 % (1 000 rows, one in
    fifty, ε = .05).
    """
    h = half * np.sqrt(share)
    with np.errstate(divide="ignore", invalid="ignore"):
        longer = np.where(h < 1, -np.log1p(-np.minimum(h, 1.0)) / h, np.inf)
    return np.asarray(half * np.where(h > 0, longer, 1.0), dtype=np.float64)


def unstretched(far: float, share: float) -> float:
    """The half-width that is stretched so far."""
    low, high = 0.0, far
    for _ in range(60):
        middle = (low + high) / 2
        beyond = float(stretched(np.array([middle]), np.array([share]))[0]) > far
        low, high = (low, middle) if beyond else (middle, high)
    return low


def definite(matrix: Floats) -> bool:
    """Whether all eigenvalues are positive, by more than rounding, in units of the columns."""
    own = np.diag(matrix)
    if not (own > 0).all():
        return False
    try:
        sizes = np.linalg.eigvalsh(matrix / np.sqrt(np.outer(own, own)))
    except np.linalg.LinAlgError:
        return False
    return bool((sizes > _SINGULAR).all())


@dataclass(frozen=True)
class Score:
    """The score of one coefficient, the other columns taken out."""

    released: Released
    scale: Floats  # rows: columns in units; columns: scaled columns
    which: int

    @cached_property
    def _solved(self) -> tuple[Floats, Floats, Floats] | None:
        if not np.isfinite(self.released.values).all():
            return None
        matrix = self.scale @ self.released.matrix @ self.scale.T
        last, others = len(matrix) - 1, [i for i in range(len(matrix) - 1) if i != self.which]
        if not definite(matrix[np.ix_(others, others)]):
            return None
        inverse = np.zeros_like(matrix)
        inverse[np.ix_(others, others)] = np.linalg.inv(matrix[np.ix_(others, others)])
        # what is left of the column and of the response once the others are taken out
        a, c = np.eye(len(matrix))[[self.which, last]]
        a = a - inverse @ matrix[:, self.which]
        if abs(float(a @ matrix @ a)) <= _SINGULAR * abs(float(matrix[self.which, self.which])):
            return None  # nothing is left but rounding
        return a, c - inverse @ matrix[:, last], inverse

    @property
    def determined(self) -> bool:
        """Whether the other columns can be taken out at all."""
        return self._solved is not None

    @cached_property
    def _sides(self) -> tuple[float, Floats, Floats]:
        """A number b near the estimate, and what is left of the column and of y − b·x there."""
        assert self._solved is not None
        a, c, _ = self._solved
        left, right = self.scale.T @ a, self.scale.T @ c
        slope = float(left @ self.released.matrix @ left)
        middle = float(left @ self.released.matrix @ right) / slope if slope > 0 else 0.0
        return middle, left, right - middle * left

    @cached_property
    def _noise(self) -> Floats:
        """The noise's variance of T, as a quadratic in the distance from the number near by."""
        assert self._solved is not None
        _, left, right = self._sides
        r, inverse = self.released, self._solved[2]
        g, drift = r.gradient(left, right), r.gradient(left, left)
        of_drift = drift @ r.covariance
        own = np.array([g @ r.covariance @ g, -2 * of_drift @ g, of_drift @ drift])
        # errors of what was taken out of both sides, multiplied
        lefts, rights = (
            np.array([r.gradient(side, way) for way in self.scale.T[:, : len(inverse)].T])
            for side in (left, right)
        )
        of_lefts = lefts @ r.covariance
        first = of_lefts @ lefts.T
        weights = inverse @ first @ inverse
        second = rights @ r.covariance @ rights.T, -2 * of_lefts @ rights.T, first
        return np.asarray(own + 2 * np.array([(weights * each).sum() for each in second]))

    def at(self, b: Floats) -> tuple[Floats, Floats, Floats]:
        """T, its noise variance and its sampling variance, at each b."""
        middle, left, right = self._sides
        r, matrix, away = self.released, self.released.matrix, b - middle
        slope, cross = float(left @ matrix @ left), float(left @ matrix @ right)
        constant, linear, square = self._noise
        noise = constant + away * (linear + away * square)
        rest = float(right @ matrix @ right) - away * (2 * cross - away * slope)
        # what is left after the other columns has as many values fewer
        n = max(float(r.values[0]) - (len(self.scale) - 2), 1.0)
        sampling = r.rows * max(slope, 0.0) * np.maximum(rest, 0.0) / n
        return cross - away * slope, noise, sampling

    def parts(self, b: float) -> tuple[float, float, float]:
        """T, its noise variance and its sampling variance, at b."""
        t, noise, sampling = (float(each[0]) for each in self.at(np.array([b])))
        return t, noise, sampling

    def rest(self) -> tuple[float, float, float]:
        """What the line leaves of the response, at the estimate.

        A sum of squares that is not too low on average, its noise's deviation, and how far one
        row can lie from the line.
        """
        right, r = self._sides[2], self.released
        terms = self.scale[:-1]
        inverse = np.linalg.inv(terms @ r.matrix @ terms.T)
        errors = np.array([r.gradient(right, way) for way in terms])
        # the least of noisy sums is too low, by the noise that the line followed
        squares = float(right @ r.matrix @ right)
        squares += float((inverse * (errors @ r.covariance @ errors.T)).sum())
        g = r.gradient(right, right)
        return squares, math.sqrt(float(g @ r.covariance @ g)), float(np.abs(right).sum())

    @property
    def slope(self) -> float:
        """Sum of squares of the column, the others taken out."""
        left = self._sides[1]
        return float(left @ self.released.matrix @ left)

    def estimate(self) -> float:
        """Where the score is zero."""
        if not self.determined or self.slope <= 0:
            return math.nan
        return self._sides[0]

    def error(self) -> float:
        """Standard error at the estimate, noise included."""
        b = self.estimate()
        if math.isnan(b):
            return math.nan
        _, noise, sampling = self.parts(b)
        return math.sqrt(noise + sampling) / self.slope

    def far(self, b: float) -> tuple[float, float]:
        """How many deviations T is from zero at b, and the noise's share of its variance."""
        t, noise, sampling = self.parts(b)
        total = noise + sampling
        if total <= 0:
            return (math.inf if t else 0.0), 0.0
        return abs(t) / math.sqrt(total), noise / total

    def _keeps(self, b: Floats, error: float) -> Floats:
        """Whether the score does not contradict each b."""
        t, noise, sampling = self.at(b)
        total = noise + sampling
        share = np.divide(noise, total, out=np.zeros_like(total), where=total > 0)
        normal, laplace = (quantile(x, error, laplace=self.released.laplace) for x in (0.0, 1.0))
        far = normal + share * (laplace - normal)
        return np.asarray(np.abs(t) <= far * np.sqrt(np.maximum(total, 0.0)))

    def kept(self, b: float, error: float) -> bool:
        """Whether the score does not contradict b."""
        return bool(self._keeps(np.array([b]), error)[0])

    def bounded(self, error: float, far: float) -> bool:
        """Whether the score keeps no coefficient that is far off."""
        if not self.determined or self.kept(far, error) or self.kept(-far, error):
            return False
        return not math.isnan(self.estimate())

    def interval(self, error: float, far: float) -> tuple[float, float]:
        """Coefficients that the score keeps; unbounded where it keeps those far off."""
        if not self.bounded(error, far):
            return -math.inf, math.inf
        return hull(lambda line: self._keeps(line, error), self.estimate(), -far, far, 80)

    def pvalue(self, b: float) -> float:
        """Least error at which b is rejected."""
        return least_error(*self.far(b), laplace=self.released.laplace) if self.determined else 1.0
