"""Shares of items: what all frequency protocols have in common.

A report supports item v with probability p if v is the sender's value, with
probability q otherwise. With C of n reports in support, f̂ = (C/n − q)/(p−q) is
unbiased, and

* given the respondents, n·Var(f̂) = [f·p(1−p) + (1−f)·q(1−q)]/(p−q)²;
* for respondents drawn from a population, n·Var(f̂) = λ(1−λ)/(p−q)², λ = q + (p−q)f.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet import _exact
from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet.errors import Hint, ParameterError
from discreet.local import _intervals, _postprocess
from discreet.local._aggregator import Tally
from discreet.local._bits import Counts, read_items
from discreet.local._draws import Rng
from discreet.local._estimate import Bounds, Estimate
from discreet.local._intervals import EXACT, INVERTED, Floats
from discreet.local._protocol import LocalProtocol
from discreet.local._rationals import read_whole

_SUSPECT = 3e-12
"""Chance below which totals of honest reports are suspected."""


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class FrequencyProtocol(LocalProtocol):
    """Base of the protocols for items 0, …, domain − 1.

    Attributes
    ----------
    domain
        Number of items.
    p, q
        Probabilities that a report supports the sender's item, and any other one.
    """

    domain: int
    p: Fraction
    q: Fraction

    def parse(self, values: Any) -> tuple[NDArray[Any], bool]:
        return read_items(values, self.domain)

    def supports(self, tally: Tally) -> Counts:
        """Return how many reports support each item."""
        return tally.state

    def variance(self, frequency: Number = 0, n: int = 1, *, of: str = "respondents") -> float:
        """Return the exact variance of an item's estimated share from `n` reports.

        Parameters
        ----------
        frequency
            The item's true share.
        n
            Number of reports.
        of
            ``"respondents"``: only the randomness of the reports.
            ``"population"``: that of drawing the respondents, too.
        """
        return line_variance(self.p, self.q, frequency, n, of)

    @property
    def gain(self) -> float:
        """Shift of one share, per unit share of fake clients, when it was 0."""
        return float((1 - self.q) / (self.p - self.q))

    def read(self, tally: Tally) -> FrequencyEstimate:
        """Read shares from what was tallied."""
        return self.read_supports(tally, self.supports(tally))

    def read_supports(
        self, tally: Tally, counts: Counts, labels: tuple[Any, ...] | None = None
    ) -> FrequencyEstimate:
        """Read shares of some items from the numbers of reports that support them."""
        rate, p, q = counts / tally.n, float(self.p), float(self.q)
        # the true rate lies between q and p, whatever the people hold: no error is 0
        likely = np.clip(rate, q, p)
        error = np.sqrt(likely * (1 - likely) / tally.n) / (p - q)
        return FrequencyEstimate(self, tally, counts, (rate - q) / (p - q), error, labels)

    def share_interval(
        self, counts: Counts, n: int, error: float, of: str
    ) -> tuple[Floats, Floats]:
        """Return exact bounds for shares; see :mod:`discreet.local._intervals`."""
        p, q = float(self.p), float(self.q)
        if of == "respondents":
            return _intervals.respondents(counts, n, p, q, error)
        low, high = _intervals.clopper_pearson(counts, n, error)
        return (low - q) / (p - q), (high - q) / (p - q)

    def interval_method(self, of: str) -> str:
        """Say how bounds for shares are found."""
        return EXACT if of == "population" else INVERTED

    def likelihood(self, tally: Tally, counts: Counts) -> Floats:
        """Return the shares of maximum likelihood (of the items' counts, taken as independent)."""
        return _postprocess.bits_likelihood(counts, tally.n, float(self.p), float(self.q))

    def sum_tail(self, estimate: FrequencyEstimate) -> float:
        """Return the chance that the shares of honest reports sum to so much or so little.

        Given their values, the bits of `n` people are `n` that are 1 with probability p and
        n·(domain − 1) with probability q: the tails are exact.
        """
        n, every, ones = estimate.n, estimate.n * self.domain, int(estimate.supports.sum())
        p, q = float(self.p), float(self.q)
        more = _intervals.tail(ones, n, every, p, q)
        fewer = _intervals.tail(every - ones, n, every, 1 - p, 1 - q)
        return 2 * min(more, fewer)

    def simulate_state(self, counts: Counts, rng: Rng, values: Any = None) -> Counts:  # noqa: ARG002 - all items
        """Draw Bin(n_v, p) + Bin(n − n_v, q) per item: the joint law when bits are independent."""
        own, others = rng.binomial(counts, float(self.p)), counts.sum() - counts
        return np.asarray(own + rng.binomial(others, float(self.q)))

    def suspicions(self, tally: Tally) -> list[str]:  # noqa: ARG002 - most have nothing to add
        """Name totals that honest reports of this protocol do not have."""
        return []


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FrequencyEstimate(Estimate):
    """Estimated shares of all items, raw: unbiased, possibly below 0 or above 1.

    Attributes
    ----------
    supports
        Reports that support each item.
    frequencies
        Estimated shares.
    standard_errors
        Their standard errors (randomising and drawing respondents together).
    labels
        The items, where only some were asked for.
    """

    supports: Counts
    frequencies: Floats
    standard_errors: Floats
    labels: tuple[Any, ...] | None = None

    @property
    def counts(self) -> Floats:
        """Estimated numbers of people."""
        return self.frequencies * self.n

    def bounds(self, error: float, of: str) -> Bounds:
        """Return bounds for the shares."""
        low, high = self.protocol.share_interval(self.supports, self.n, error, of)
        return low, high, self.protocol.interval_method(of)

    def projected(self) -> Floats:
        """Return shares that are non-negative and sum to one (Norm-Sub)."""
        return _postprocess.norm_sub(self.frequencies)

    def likelihood(self) -> Floats:
        """Return the shares of maximum likelihood."""
        shares: Floats = self.protocol.likelihood(self.tally, self.supports)
        return shares

    def suspicions(self) -> list[str]:
        """Name signs of manipulation or breakage that the totals show (see docs/local.md)."""
        out: list[str] = self.protocol.suspicions(self.tally)
        # below 3e-12 for honest reports; k-ary sums are 1 by construction
        if self.labels is None and self.protocol.sum_tail(self) < _SUSPECT:
            out.append(f"the shares sum to {np.sum(self.frequencies):.3f} instead of 1")
        dropped = sum(self.refused.values())
        if dropped > 0.01 * self.n:
            out.append(f"{dropped} reports were refused")
        return out


def bernstein_tail(estimate: FrequencyEstimate, reach: float) -> float:
    """Bound the chance of the shares' sum where one report adds at most `reach` to n times it."""
    off = abs(float(np.sum(estimate.frequencies)) - 1)
    spread = float(np.sum(estimate.standard_errors**2))
    return 2 * math.exp(-(off**2) / (2 * spread + 2 * reach * off / (3 * estimate.n)))


class BinaryEstimate(FrequencyEstimate):
    """Shares of no and yes; ``value`` is the share of yes."""

    __slots__ = ()

    @property
    def value(self) -> float:
        """Estimated share of yes, unbiased."""
        return float(self.frequencies[1])

    @property
    def standard_error(self) -> float:
        """Its standard error."""
        return float(self.standard_errors[1])


def line_variance(p: Fraction, q: Fraction, frequency: Number, n: int, of: str) -> float:
    """Return the exact variance of (C/n − q)/(p−q), C the number of supporting reports."""
    _intervals.read_of(of)
    f = read_share(frequency)
    rate = q + (p - q) * f
    spread = rate * (1 - rate)
    if of == "respondents":
        spread = f * p * (1 - p) + (1 - f) * q * (1 - q)
    return float(spread / (p - q) ** 2 / read_whole(n, "n", most=1 << 62))


def read_shares(x: Any, size: int) -> Floats:
    """Parse the shares of `size` values: none negative, at most 1 in all."""
    shares = np.asarray(x, dtype=np.float64)
    # NaN fails every comparison
    if shares.shape != (size,) or not (shares >= 0).all() or not shares.sum() <= 1 + 1e-9:
        raise ParameterError(f"frequencies must be {size} shares, none negative, at most 1 in all")
    return shares


def read_share(x: Number) -> Fraction:
    """Parse a share in [0, 1]."""
    value = _exact.decimal(x, "frequency")
    if not 0 <= value <= 1:
        raise ParameterError(
            f"frequency must lie in [0, 1], got {_exact.show(value)}", hint=Hint("frequency", "0.1")
        )
    return value
