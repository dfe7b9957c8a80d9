r"""Distributions of ordered values by a hierarchy, with honest errors; what estimates offer.

Guarantee
---------
*Hierarchy*: each person reports, by optimised unary encoding with the whole ε, at one
level of a tree, drawn uniformly and independently of the value. The level's width is public; the
report is padded to one length. Leaves are read by generalised least squares over all levels
with total 1: linear and unbiased, so that shares, cumulative shares and quantiles have
honest errors, and Chernoff bounds that hold for every n.

Projecting leaves onto the simplex *before* summing them would bias the cumulative
distribution (many small upward errors): sums are always taken from raw leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet import _exact, noise
from discreet._dataclass import dataclass, field, replace
from discreet._exact import Number
from discreet._lazy import optimize
from discreet.errors import ParameterError
from discreet.local import _bits
from discreet.local._aggregator import Tally
from discreet.local._bits import Counts, read_items
from discreet.local._categorical import OptimizedUnary
from discreet.local._draws import Rng
from discreet.local._estimate import Bounds, Estimate, population_only
from discreet.local._frequency import read_shares
from discreet.local._intervals import (
    CHERNOFF,
    POPULATION,
    Floats,
    Interval,
    bits_reach,
    bits_variance,
)
from discreet.local._postprocess import norm_sub
from discreet.local._protocol import LocalProtocol
from discreet.local._rationals import read_probability, read_whole
from discreet.local._wire import Columns, Field


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Hierarchy(LocalProtocol):
    """The distribution of any ordinal value, with honest errors.

    Parameters
    ----------
    domain
        Values are 0, …, domain − 1, in order; at most 4096.
    epsilon
        ε of one report.
    fanout
        Children of each node.

    Examples
    --------
    >>> from discreet import local
    >>> protocol = local.Hierarchy(domain=64, epsilon=2)
    >>> estimate = protocol.aggregator().update(protocol.randomize([20] * 20_000)).estimate()
    >>> estimate.quantile_interval(0.5, 0.999).low <= 20
    True
    """

    name: ClassVar[str] = "hierarchy"
    stated: ClassVar[tuple[str, ...]] = ("domain", "epsilon", "fanout")
    domain: int
    fanout: int
    levels: int
    q: Fraction

    def __init__(self, domain: int, epsilon: Number, fanout: int = 4) -> None:
        d = read_whole(domain, "domain", least=2, most=1 << 12)
        fan = read_whole(fanout, "fanout", least=2, most=64)
        levels = next(i for i in range(1, 14) if fan**i >= d)
        coins = OptimizedUnary(2, epsilon)
        self._set(
            claimed=coins.claimed, odds=coins.odds, domain=d, fanout=fan, levels=levels, q=coins.q,
            fields=(Field("level", limit=levels), Field("bits", bits=d)),
            state_shape=(levels, d + 1),  # ones per node, and reports, by level
            row_bytes=2 * d + 32,
        )  # fmt: skip

    def width(self, level: int) -> int:
        """Number of nodes at a level (0 is the coarsest)."""
        span = int(self.fanout ** (self.levels - 1 - level))
        return -(-self.domain // span)

    def parse(self, values: Any) -> tuple[NDArray[Any], bool]:
        return read_items(values, self.domain)

    def draw(self, flat: NDArray[Any]) -> Columns:
        n = len(flat)
        level = np.asarray(noise.uniform_many(self.levels, n)).astype(np.uint8)
        bits = np.zeros((n, self.domain), dtype=bool)
        own = np.asarray(noise.bernoulli_many(Fraction(1, 2), n))
        for i in range(self.levels):
            who, width = np.flatnonzero(level == i), self.width(i)
            coins = np.asarray(noise.bernoulli_many(self.q, who.size * width))
            coins = coins.reshape(who.size, width)
            node = flat[who] // self.fanout ** (self.levels - 1 - i)
            coins[np.arange(who.size), node] = own[who]
            bits[who, :width] = coins
        return level, _bits.pack(bits)

    def valid(self, columns: Columns) -> NDArray[np.bool_]:
        """Refuse unknown levels and bits beyond the level's width."""
        level, rows = columns
        good = level < self.levels
        bits = _bits.unpack(rows, 8 * rows.shape[1])
        for i in range(self.levels):
            good &= (level != i) | ~bits[:, self.width(i) :].any(axis=1)
        return np.asarray(good)

    def possible(self, state: Counts, n: int) -> bool:
        """No group has more ones than reports."""
        return _bits.possible_groups(state, n)

    def tally(self, state: Counts, columns: Columns) -> None:
        """Count ones per level and node."""
        _bits.grouped_sums(state, *columns)

    def simulate_state(self, counts: Counts, rng: Rng, values: Any = None) -> Counts:  # noqa: ARG002 - all items
        """Draw from the joint law: people over levels; bits are independent given the values."""
        levels = rng.multinomial(counts, np.full(self.levels, 1 / self.levels)).T
        out = np.zeros(self.state_shape, dtype=np.int64)
        for i, people in enumerate(levels):
            ones = (self._nodes(i) @ people).astype(np.int64)
            n, width = int(people.sum()), self.width(i)
            out[i, :width] = rng.binomial(ones, 0.5) + rng.binomial(n - ones, float(self.q))
            out[i, -1] = n
        return out

    def read(self, tally: Tally) -> DistributionEstimate:
        """Read leaves by generalised least squares, and their covariance."""
        if not tally.state[-1, -1]:
            raise ParameterError("no report of the finest level has been counted")
        q, people = float(self.q), tally.state[:, -1]
        T, constant = self._reading(people)
        levels = np.flatnonzero(people).tolist()
        rates = [tally.state[i, : self.width(i)] / people[i] for i in levels]
        shares = T @ ((np.concatenate(rates) - q) / (0.5 - q)) + constant

        def band(error: float, cumulative: bool) -> tuple[Floats, Floats]:
            reading, centre = (np.cumsum(x, axis=0) if cumulative else x for x in (T, shares))
            above, below = bits_reach(
                self._weights(reading, people), people[levels].tolist(), (0.5, q), 1, error
            )
            return centre - above, centre + below

        def covariance() -> Floats:
            return bits_variance(
                self._weights(T, people), people[levels].tolist(), [self._nodes(i) for i in levels],
                norm_sub(shares), (0.5, q), joint=True,
            )  # fmt: skip

        return DistributionEstimate(
            self, tally, shares, shares, covariance, band, CHERNOFF, approximate=False
        )

    def _weights(self, reading: Floats, people: NDArray[Any]) -> list[Floats]:
        """Return what a reported 1 adds to each reading, by level that has people."""
        levels = np.flatnonzero(people).tolist()
        parts = np.split(reading, np.cumsum([self.width(i) for i in levels])[:-1], axis=1)
        span = 0.5 - float(self.q)
        return [part / (people[i] * span) for i, part in zip(levels, parts, strict=True)]

    def _nodes(self, level: int) -> Floats:
        """Return which leaves each node of a level holds."""
        node = np.arange(self.domain) // self.fanout ** (self.levels - 1 - level)
        members = node[None, :] == np.arange(self.width(level))[:, None]
        return np.asarray(members, dtype=np.float64)

    def _reading(self, people: NDArray[Any]) -> tuple[Floats, Floats]:
        """Return T and c with leaves = T·nodes + c: generalised least squares with total 1.

        Weights depend on the levels' sizes alone, so that the reading is linear.
        """
        levels = np.flatnonzero(people).tolist()
        A = np.vstack([self._nodes(i) for i in levels])
        w = np.concatenate([np.full(self.width(i), float(people[i])) for i in levels])
        inverse = np.linalg.inv((A * w[:, None]).T @ A)
        lever = inverse.sum(axis=1) / inverse.sum()
        T = inverse @ (A * w[:, None]).T
        return T - np.outer(lever, T.sum(axis=0)), lever

    @property
    def gain(self) -> float:
        """Largest shift of one share per unit share of fake clients, who choose level and bits."""
        people, q = np.full(self.levels, 1 / self.levels), float(self.q)
        reading = self._weights(self._reading(people)[0], people)
        worth = [np.where(w > 0, w * (1 - q), -w * q).sum(axis=1).max() for w in reading]
        return float(max(worth))

    def variance(self, frequencies: Any = None, n: int = 1, *, cumulative: bool = False) -> Floats:
        """Return the exact variances of all shares for `n` people drawn from a population.

        Parameters
        ----------
        frequencies
            True shares; left out: equal ones.
        n
            Number of reports, spread evenly over the levels (a random spread adds under 1 %).
        cumulative
            Of cumulative shares instead.
        """
        size = self.domain
        f = read_shares(np.full(size, 1 / size) if frequencies is None else frequencies, size)
        people = np.full(self.levels, read_whole(n, "n", most=1 << 62) / self.levels)
        T, _ = self._reading(people)
        reading = self._weights(np.cumsum(T, axis=0) if cumulative else T, people)
        nodes = [self._nodes(i) for i in range(self.levels)]
        return bits_variance(reading, people.tolist(), nodes, f, (0.5, float(self.q)))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DistributionEstimate(Estimate):
    """An estimated distribution over ordered values.

    Attributes
    ----------
    frequencies
        Estimated shares. A hierarchy's are raw and unbiased, the square wave's smooth.
    raw
        Unbiased shares, read linearly.
    approximate
        Whether standard errors are bootstrapped around a biased estimate.
    """

    frequencies: Floats
    raw: Floats
    work: Callable[[], Floats]
    band: Callable[[float, bool], tuple[Floats, Floats]]
    method: str
    approximate: bool
    _memo: list[Floats] = field(default_factory=list)

    @property
    def covariance(self) -> Floats:
        """Covariance of the shares; worked out when first asked for."""
        if not self._memo:
            self._memo.append(self.work())
        return self._memo[0]

    @property
    def standard_errors(self) -> Floats:
        """Standard errors of the shares."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    def bounds(self, error: float, of: str) -> Bounds:
        """Return bounds for the shares."""
        population_only(of)
        return (*self.band(error, False), self.method)

    def cumulative(self) -> Floats:
        """Return raw cumulative shares: unbiased for a hierarchy, not always increasing."""
        return np.cumsum(self.frequencies)

    def cumulative_errors(self) -> Floats:
        """Return the standard errors of the cumulative shares."""
        both = np.cumsum(np.cumsum(self.covariance, axis=0), axis=1)
        return np.sqrt(np.maximum(np.diag(both), 0.0))

    def cumulative_interval(
        self, confidence: Number = 0.95, *, simultaneous: bool = False
    ) -> Interval:
        """Return intervals for the cumulative shares."""
        level = _exact.confidence(confidence)
        error = (1 - level) / (len(self.frequencies) if simultaneous else 1)
        return Interval(*self.band(error, True), level, POPULATION, self.method)

    def quantile(self, q: float) -> int:
        """Return the least value whose (isotonic) cumulative share reaches `q`."""
        rising = np.clip(optimize.isotonic_regression(self.cumulative()).x, 0.0, 1.0)
        rising[-1] = 1.0
        return int(np.searchsorted(rising, float(read_probability(q, "q"))))

    def quantile_interval(self, q: float, confidence: Number = 0.95) -> Interval:
        """Return an interval for a quantile: a simultaneous band of cumulative shares, inverted."""
        share = float(read_probability(q, "q"))
        ends = self.cumulative_interval(confidence, simultaneous=True)
        # cumulative shares rise: each bound holds for what lies behind or before it, too
        may = np.flatnonzero(np.minimum.accumulate(ends.high[::-1])[::-1] >= share)
        must = np.flatnonzero(np.maximum.accumulate(ends.low) >= share)
        last = len(self.frequencies) - 1
        low = int(may[0]) if may.size else last
        high = int(must[0]) if must.size else last
        return replace(ends, low=low, high=max(low, high), limits=(0, last))
