r"""Distributions of ordered values: square wave for smooth ones, a hierarchy for exact errors.

Guarantee
---------
*Square wave* (Li et al., SIGMOD 2020), on integers: value j ∈ 0…d−1 gives an output y
uniform on the window j…j+2b with probability κ, otherwise uniform on 0…d+2b−1. Odds as
in :mod:`discreet.local._rationals`. The distribution is read by expectation
maximisation with smoothing, which suits smooth shapes; it is biased near spikes,
and its standard errors are bootstrapped, hence approximate.

*Hierarchy*: each person reports, by optimised unary encoding with the whole ε, at one
level of a tree, drawn uniformly and independently of the value. The level's width is public; the
report is padded to one length. Leaves are read by generalised least squares over all levels
with total 1: linear and unbiased, so that shares, cumulative shares and quantiles have
honest errors.

Projecting leaves onto the simplex *before* summing them would bias the cumulative
distribution (many small upward errors): sums are always taken from raw leaves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet import _exact, noise
from discreet import privacy as p_
from discreet._exact import Number
from discreet.errors import ParameterError
from discreet.local import _bits
from discreet.local._aggregator import Tally
from discreet.local._bits import Counts, read_items
from discreet.local._categorical import OptimizedUnary
from discreet.local._intervals import POPULATION, Floats, Interval, normal_quantile
from discreet.local._protocol import LocalProtocol
from discreet.local._rationals import (
    checked_odds,
    mixture,
    mixture_odds,
    odds_below,
    read_epsilon,
    read_whole,
)
from discreet.local._wire import Columns, Field

_REPLICATES = 40
_PATIENCE = 10_000


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class SquareWave(LocalProtocol):
    """The distribution of a smooth ordinal value.

    Parameters
    ----------
    domain
        Values are 0, …, domain − 1, in order.
    epsilon
        ε of one report.

    Examples
    --------
    >>> from discreet import local
    >>> protocol = local.SquareWave(domain=64, epsilon=2)
    >>> estimate = protocol.aggregator().update(protocol.randomize([20] * 20_000)).estimate()
    >>> 15 <= estimate.quantile(0.5) <= 25
    True
    """

    name: ClassVar[str] = "square-wave"
    domain: int
    window: int
    kappa: Fraction

    def __init__(self, domain: int, epsilon: Number) -> None:
        d, eps = read_whole(domain, "domain", least=2, most=1 << 12), read_epsilon(epsilon)
        rho = odds_below(eps)
        e, x = float(rho), float(eps)
        # the half width of least expected error in the paper, on integers; 0.5 at ε = 0
        wide = 0.5 if x < 1e-4 else (x * e - e + 1) / (2 * e * (e - 1 - x))
        b = math.floor(d * wide)
        kappa = mixture(rho, 2 * b + 1, d + 2 * b)
        odds = checked_odds(mixture_odds(kappa, 2 * b + 1, d + 2 * b), rho)
        self._set(claimed=eps, odds=odds, domain=d, window=b, kappa=kappa)

    @property
    def parameters(self) -> dict[str, Any]:
        """Exact parameters, as the spec carries them."""
        return {"domain": self.domain, **self._stated()}

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return self.domain + 2 * self.window

    @property
    def fields(self) -> tuple[Field, ...]:
        """One output."""
        return (Field("output", limit=self.outputs),)

    def parse(self, values: Any) -> tuple[NDArray[Any], bool]:
        return read_items(values, self.domain)

    def draw(self, flat: NDArray[Any]) -> Columns:
        n = len(flat)
        keep = np.asarray(noise.bernoulli_many(self.kappa, n))
        near = flat.astype(np.int64) + np.asarray(noise.uniform_many(2 * self.window + 1, n))
        other = np.asarray(noise.uniform_many(self.outputs, n))
        return (np.where(keep, near, other).astype(self.fields[0].dtype),)

    @property
    def state_shape(self) -> tuple[int, ...]:
        """One count per output."""
        return (self.outputs,)

    def tally(self, state: Counts, columns: Columns) -> None:
        """Count the outputs."""
        state += np.bincount(columns[0], minlength=self.outputs)

    def law(self, value: int) -> list[Fraction]:
        """Return the exact probability of each output."""
        uniform = (1 - self.kappa) / self.outputs
        lifted = uniform + self.kappa / (2 * self.window + 1)
        last = value + 2 * self.window
        return [lifted if value <= y <= last else uniform for y in range(self.outputs)]

    def matrix(self) -> Floats:
        """Return P(output | value), one column per value."""
        return np.array([[float(w) for w in self.law(v)] for v in range(self.domain)]).T

    def estimate(self, tally: Tally, **options: Any) -> DistributionEstimate:
        """Read the distribution by expectation maximisation with smoothing."""
        if options:
            raise ParameterError("SquareWave estimates take no options")
        matrix, e = self.matrix(), float(self.odds)
        found = _smooth_em(matrix, tally.state, e)
        return DistributionEstimate(
            self, tally, found, lambda: _bootstrap(matrix, found, tally.n, e), approximate=True
        )


def _bootstrap(matrix: Floats, found: Floats, n: int, e: float) -> Floats:
    """Return the covariance of estimates of people drawn from the estimate itself."""
    rng = np.random.default_rng()
    law = matrix @ found
    copies = np.array(
        [_smooth_em(matrix, rng.multinomial(n, law / law.sum()), e) for _ in range(_REPLICATES)]
    )
    centred = copies - copies.mean(axis=0)
    return np.asarray(centred.T @ centred / (_REPLICATES - 1))


def _smooth_em(matrix: Floats, counts: Counts, e: float) -> Floats:
    """Maximise the likelihood of output counts, averaging neighbours at each step."""
    x = np.full(matrix.shape[1], 1 / matrix.shape[1])
    before = -math.inf
    for _ in range(_PATIENCE):
        x = x * (matrix.T @ (counts / (matrix @ x)))
        x /= x.sum()
        y = x / 2
        y[1:-1] += (x[:-2] + x[2:]) / 4
        y[0] = (2 * x[0] + x[1]) / 3
        y[-1] = (2 * x[-1] + x[-2]) / 3
        x = y / y.sum()
        now = float(counts @ np.log(matrix @ x))
        if abs(now - before) < 1e-3 * e:
            break
        before = now
    return x


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
            claimed=coins.claimed, odds=coins.odds, domain=d, fanout=fan, levels=levels, q=coins.q
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """Exact parameters, as the spec carries them."""
        return {"domain": self.domain, **self._stated(), "fanout": self.fanout}

    def width(self, level: int) -> int:
        """Number of nodes at a level (0 is the coarsest)."""
        span = int(self.fanout ** (self.levels - 1 - level))
        return -(-self.domain // span)

    @property
    def fields(self) -> tuple[Field, ...]:
        """Level and bits."""
        return (Field("level", limit=max(2, self.levels)), Field("bits", bits=self.domain))

    @property
    def _row_bytes(self) -> int:
        return 2 * self.domain + 32

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

    @property
    def state_shape(self) -> tuple[int, ...]:
        """Ones per node, and reports, by level."""
        return (self.levels, self.domain + 1)

    def valid(self, columns: Columns) -> NDArray[np.bool_]:
        """Refuse unknown levels and bits beyond the level's width."""
        level, rows = columns
        good = level < self.levels
        bits = _bits.unpack(rows, 8 * rows.shape[1])
        for i in range(self.levels):
            good &= (level != i) | ~bits[:, self.width(i) :].any(axis=1)
        return np.asarray(good)

    def tally(self, state: Counts, columns: Columns) -> None:
        """Count ones per level and node."""
        level, rows = columns
        state[:, :-1] += _bits.grouped_sums(rows, level, self.levels, self.domain)
        state[:, -1] += np.bincount(level, minlength=self.levels)

    def estimate(self, tally: Tally, **options: Any) -> DistributionEstimate:
        """Read leaves by generalised least squares, and their covariance."""
        if options:
            raise ParameterError("Hierarchy estimates take no options")
        if not tally.state[-1, -1]:
            raise ParameterError("no report of the finest level has been counted")
        q, people = float(self.q), tally.state[:, -1]
        T, constant = self._reading(people)
        shares, spreads = [], []
        for i in np.flatnonzero(people).tolist():
            rate = tally.state[i, : self.width(i)] / people[i]
            shares.append((rate - q) / (0.5 - q))
            spreads.append(rate * (1 - rate) / people[i] / (0.5 - q) ** 2)
        found = T @ np.concatenate(shares) + constant
        covariance = (T * np.concatenate(spreads)) @ T.T
        return DistributionEstimate(self, tally, found, lambda: covariance, approximate=False)

    def _nodes(self, level: int) -> Floats:
        """Return which leaves each node of a level holds."""
        node = np.arange(self.domain) // self.fanout ** (self.levels - 1 - level)
        held = node[None, :] == np.arange(self.width(level))[:, None]
        return np.asarray(held, dtype=np.float64)

    def _reading(self, people: NDArray[Any]) -> tuple[Floats, Floats]:
        """Return T and c with leaves = T·nodes + c: generalised least squares with total 1.

        Weights depend on the levels' sizes alone, so that the reading is linear.
        """
        seen = np.flatnonzero(people).tolist()
        A = np.vstack([self._nodes(i) for i in seen])
        w = np.concatenate([np.full(self.width(i), float(people[i])) for i in seen])
        inverse = np.linalg.inv((A * w[:, None]).T @ A)
        lever = inverse.sum(axis=1) / inverse.sum()
        T = inverse @ (A * w[:, None]).T
        return T - np.outer(lever, T.sum(axis=0)), lever

    def variance(self, frequencies: Any = None, n: int = 1, *, cumulative: bool = False) -> Floats:
        """Return the exact variances of all shares for `n` people drawn from a population.

        Parameters
        ----------
        frequencies
            True shares; left out: equal ones.
        n
            Number of reports, spread evenly over the levels.
        cumulative
            Of cumulative shares instead.
        """
        size = self.domain
        f = np.full(size, 1 / size) if frequencies is None else np.asarray(frequencies, float)
        if f.shape != (size,):
            raise ParameterError(f"frequencies must be {size} shares")
        q, people = float(self.q), read_whole(n, "n", most=1 << 62) / self.levels
        T, _ = self._reading(np.full(self.levels, people))
        if cumulative:
            T = np.cumsum(T, axis=0)
        total, start = np.zeros(size), 0
        for i in range(self.levels):
            part, share = T[:, start : start + self.width(i)], self._nodes(i) @ f
            coins = (share / 4 + (1 - share) * q * (1 - q)) / (0.5 - q) ** 2
            # bits are independent given the values, and values exclude one another
            total += ((part * part) @ (coins + share) - (part @ share) ** 2) / people
            start += self.width(i)
        return total


@dataclass(frozen=True, slots=True, eq=False)
class DistributionEstimate:
    """An estimated distribution over ordered values.

    Attributes
    ----------
    frequencies
        Estimated shares. A hierarchy's are raw and unbiased, the square wave's smooth.
    approximate
        Whether errors are bootstrapped around a biased estimate.
    """

    protocol: LocalProtocol
    tally: Tally
    frequencies: Floats
    work: Callable[[], Floats]
    approximate: bool
    _kept: list[Floats] = field(default_factory=list)

    @property
    def covariance(self) -> Floats:
        """Covariance of the shares; worked out when first asked for."""
        if not self._kept:
            self._kept.append(self.work())
        return self._kept[0]

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
    def standard_errors(self) -> Floats:
        """Standard errors of the shares."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    def interval(self, confidence: Number = 0.95, *, simultaneous: bool = False) -> Interval:
        """Return normal intervals for the shares."""
        level = _exact.confidence(confidence)
        error = (1 - level) / (len(self.frequencies) if simultaneous else 1)
        reach = normal_quantile(error) * self.standard_errors
        return Interval(self.frequencies - reach, self.frequencies + reach, level, POPULATION)

    def cumulative(self) -> Floats:
        """Return raw cumulative shares: unbiased for a hierarchy, not always increasing."""
        return np.cumsum(self.frequencies)

    def cumulative_errors(self) -> Floats:
        """Return the standard errors of the cumulative shares."""
        both = np.cumsum(np.cumsum(self.covariance, axis=0), axis=1)
        return np.sqrt(np.maximum(np.diag(both), 0.0))

    def quantile(self, q: float) -> int:
        """Return the least value whose (isotonic) cumulative share reaches `q`."""
        from scipy.optimize import isotonic_regression  # noqa: PLC0415 - slow to import

        rising = np.clip(isotonic_regression(self.cumulative()).x, 0.0, 1.0)
        rising[-1] = 1.0
        return int(np.searchsorted(rising, _read_level(q)))

    def quantile_interval(self, q: float, confidence: Number = 0.95) -> Interval:
        """Return an interval for a quantile: a simultaneous band of cumulative shares, inverted."""
        level, share = _exact.confidence(confidence), _read_level(q)
        curve = self.cumulative()
        reach = normal_quantile((1 - level) / len(curve)) * self.cumulative_errors()
        last = len(curve) - 1
        may, must = np.flatnonzero(curve + reach >= share), np.flatnonzero(curve - reach >= share)
        low = int(may[0]) if may.size else last
        # everything from the first certain value on lies at or above the quantile
        high = int(must[0]) if must.size else last
        return Interval(low, max(low, high), level, POPULATION)


def _read_level(q: float) -> float:
    value = float(_exact.decimal(q, "q"))
    if not 0 < value < 1:
        raise ParameterError("q must lie strictly between 0 and 1", hint="q=0.5")
    return value
