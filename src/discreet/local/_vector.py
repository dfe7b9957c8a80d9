"""Means of several numbers per person, by reporting a few of them.

Guarantee
---------
Each report concerns k of the d coordinates, drawn uniformly and independently of the
values; each of them is reported by :class:`LocalMean` with ε/k. Given the drawn
coordinates the report is a product of k laws, so its odds are the k-th power of
theirs, at most e^ε. Scaling by d/k makes every coordinate's mean unbiased, with

    n·Var = (d/k)(v(ε/k, t) + t²) − t².

k minimises this in the worst case; the usual rule ⌊ε/2.5⌋ costs up to 1.9 times as much.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet import noise
from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet.errors import ParameterError
from discreet.local import _draws
from discreet.local._aggregator import Tally
from discreet.local._bits import Counts
from discreet.local._draws import Rng
from discreet.local._estimate import Bounds, Estimate, population_only
from discreet.local._intervals import CHERNOFF, Floats, mean_bounds
from discreet.local._mean import LocalMean, possible_sums, quantise, read_numbers, worst
from discreet.local._protocol import LocalProtocol
from discreet.local._rationals import read_epsilon, read_whole
from discreet.local._wire import Columns, Field


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class LocalVector(LocalProtocol):
    """Means of `dimensions` numbers per person on one public range.

    Parameters
    ----------
    dimensions
        Numbers per person.
    epsilon
        ε of one report, all coordinates together.
    low, high
        The public range of every coordinate.
    reported
        Coordinates per report; left out: the number of least worst-case variance.

    Examples
    --------
    >>> from discreet import local
    >>> protocol = local.LocalVector(dimensions=10, epsilon=4)
    >>> protocol.reported
    2
    """

    name: ClassVar[str] = "vector-mean"
    stated: ClassVar[tuple[str, ...]] = ("dimensions", "epsilon", "low", "high", "reported")
    dimensions: int
    reported: int
    one: LocalMean
    low: Fraction
    high: Fraction

    def __init__(
        self,
        dimensions: int,
        epsilon: Number,
        low: Number = -1,
        high: Number = 1,
        reported: int | None = None,
    ) -> None:
        d = read_whole(dimensions, "dimensions", most=1 << 16)
        eps = read_epsilon(epsilon)
        k = _best_reported(d, eps) if reported is None else read_whole(reported, "reported", most=d)
        one = LocalMean(eps / k, low, high)
        # for each reported coordinate: which one, which law, its output
        fields = [
            Field(f"{field.name}{i}", limit=field.limit)
            for i in range(k)
            for field in (Field("coordinate", limit=max(2, d)), *one.fields)
        ]
        self._set(
            claimed=eps, odds=one.odds**k, dimensions=d, reported=k, one=one, low=one.low,
            high=one.high, fields=tuple(fields), state_shape=(d, *one.state_shape),
            row_bytes=16 * d + 64 * k,
        )  # fmt: skip

    def variance(self, value: Number | None = None, n: int = 1) -> float:
        """Return the exact variance of a coordinate's mean when all `n` values equal `value`.

        Parameters
        ----------
        value, n
            See :meth:`LocalMean.variance`; left out: the worst case.
        """
        spread = partial(_spread, self.one, self.dimensions, self.reported)
        return self.one.scaled_variance(spread, value, n)

    @property
    def gain(self) -> float:
        """Largest shift of one mean per unit share of fake clients, in half ranges."""
        return self.lift * self.one.gain

    @property
    def lift(self) -> float:
        """What one reported coordinate stands for: d/k."""
        return self.dimensions / self.reported

    def parse(self, values: Any) -> tuple[NDArray[np.int64], bool]:
        array = read_numbers(values)
        if array.ndim not in (1, 2) or array.shape[-1] != self.dimensions:
            raise ParameterError(
                f"values must be rows of {self.dimensions} numbers, got shape {array.shape}"
            )
        flat, _ = quantise(array.reshape(-1), self.one.low, self.one.high)
        return flat.reshape(-1, self.dimensions), array.ndim == 1

    def draw(self, flat: NDArray[np.int64]) -> Columns:
        n = len(flat)
        picks = self._choose(n)
        columns: list[NDArray[Any]] = []
        for i in range(self.reported):
            values = flat[np.arange(n), picks[:, i]]
            form, output = self.one.draw(values)
            columns += [picks[:, i].astype(self.fields[0].dtype), form, output]
        return tuple(columns)

    def _choose(self, n: int) -> NDArray[np.int64]:
        """Draw k distinct coordinates per person: a step of Fisher–Yates each."""
        order = np.tile(np.arange(self.dimensions), (n, 1))
        rows = np.arange(n)
        for i in range(self.reported):
            j = i + np.asarray(noise.uniform_many(self.dimensions - i, n)).astype(np.int64)
            order[rows, i], order[rows, j] = order[rows, j], order[rows, i].copy()
        return order[:, : self.reported]

    def valid(self, columns: Columns) -> NDArray[np.bool_]:
        """Refuse unknown or repeated coordinates and impossible outputs."""
        good = np.ones(len(columns[0]), dtype=bool)
        for i in range(self.reported):
            where, form, output = columns[3 * i : 3 * i + 3]
            good &= (where < self.dimensions) & self.one.valid((form, output))
            for j in range(i):
                good &= where != columns[3 * j]
        return good

    def possible(self, state: Counts, n: int) -> bool:
        """Each report is about `reported` coordinates, each at most once."""
        one = self.one.law
        rows = all(possible_sums(one, row, int(row[0] + row[2])) for row in state)
        people = state[:, 0] + state[:, 2]
        return bool(rows and (people <= n).all() and people.sum() == n * self.reported)

    def tally(self, state: Counts, columns: Columns) -> None:
        """Add each coordinate's sums."""
        reach = self.one.law.steps + self.one.law.window
        for i in range(self.reported):
            where, form, output = columns[3 * i : 3 * i + 3]
            signs = form == 0
            y = output.astype(np.int64) - reach
            parts = (signs, signs * output, ~signs, ~signs * y, ~signs * y * y)
            for column, part in enumerate(parts):
                state[:, column] += np.bincount(
                    where, weights=part.astype(np.float64), minlength=self.dimensions
                ).astype(np.int64)

    def simulate_state(self, counts: Counts, rng: Rng, values: Any = None) -> Counts:
        """Draw from the joint law: who reports which coordinates, then each one's sums."""
        points, _ = self.parse(np.zeros((1, self.dimensions)) if values is None else values)
        state = np.zeros(self.state_shape, dtype=np.int64)
        for point, people in zip(points, counts.tolist(), strict=True):
            picks = _draws.subsets(people, self.reported, self.dimensions, rng)
            for i in range(self.dimensions):
                state[i] += self.one.simulate_fine(point[i : i + 1], picks[i : i + 1], rng)
        return state

    def read(self, tally: Tally) -> VectorEstimate:
        """Read all means."""
        return VectorEstimate(self, tally, *self.one.moments(tally.state, tally.n, self.lift))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class VectorEstimate(Estimate):
    """Estimated means of all coordinates, unbiased, and their standard errors."""

    shown: ClassVar[str] = "value"
    value: Floats
    standard_errors: Floats

    @property
    def limits(self) -> tuple[float, float]:
        """The public range."""
        return float(self.protocol.low), float(self.protocol.high)

    def bounds(self, error: float, of: str) -> Bounds:
        """Return bounds for the population's means."""
        population_only(of)
        one, lift = self.protocol.one, self.protocol.lift
        half = float(one.high - one.low) / 2
        spread = float(_spread(one, self.protocol.dimensions, self.protocol.reported, Fraction(0)))
        ends = [
            mean_bounds(
                t, self.n, lambda s, end: one.lifts(lift * s, end) / lift, spread + 1, error
            )
            for t in ((self.value - float(one.low)) / half - 1).tolist()
        ]
        low, high = one.unit(np.array(ends)).T
        return low, high, CHERNOFF


def _spread(one: LocalMean, dimensions: int, reported: int, t: Fraction) -> Fraction:
    """Return the variance of one report about a coordinate whose value is t."""
    return Fraction(dimensions, reported) * (one.variance_at(t) + t * t) - t * t


@lru_cache(maxsize=64)
def _best_reported(dimensions: int, epsilon: Fraction) -> int:
    """Return the number of reported coordinates whose worst-case variance is least."""
    # below ε/k of about ½ the variance grows like k²: nothing is gained beyond
    most = max(1, min(dimensions, math.ceil(2 * epsilon)))
    means = {k: LocalMean(epsilon / k) for k in range(1, most + 1)}
    return min(means, key=lambda k: worst(partial(_spread, means[k], dimensions, k)))
