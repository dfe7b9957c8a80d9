"""Responses that name or mark an item: randomized response, k-ary, unary encoding.

Guarantee
---------
One report is ε-DP for its sender (change-one: another value of the same person),
against the collector and everybody else; no smaller ε holds up to 2⁻⁴⁰.

*k-ary* (and coin-form randomized response, k = 2): with probability κ the value
is sent, otherwise a uniform item. P(value) = κ + (1−κ)/k, P(each other) = (1−κ)/k, so the
largest ratio is 1 + kκ/(1−κ) = odds (Warner 1965; Kairouz, Oh, Viswanath 2014). In
coin form κ is the coin's p: ε = ln(1 + 2p/(1−p)).

*Unary*: the value becomes a row of k bits, one of them set, and each bit is sent through
its own coin: a set bit stays set with probability p, a clear one becomes set with
probability q. Two values differ in two bits, so the largest ratio is
p(1−q)/(q(1−p)) = odds. Symmetric: p = 1−q, q = 1/(e^{ε/2}+1). Optimised: p = ½,
q = 1/(e^ε+1), which minimises the variance of rare items (Wang et al., USENIX
Security 2017). q is rounded up, which lowers the odds.

Assumptions: one value per report; coins from :mod:`discreet.noise`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet import noise
from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet.errors import Hint, ParameterError
from discreet.local import _bits, _postprocess
from discreet.local import _rationals as rat
from discreet.local._aggregator import Tally
from discreet.local._bits import Counts
from discreet.local._draws import Rng
from discreet.local._frequency import BinaryEstimate, FrequencyProtocol
from discreet.local._intervals import Floats
from discreet.local._wire import Columns, Field


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class _Mixture(FrequencyProtocol):
    """Send the value with probability κ, otherwise a uniform item."""

    in_one_cell: ClassVar[bool] = True
    kappa: Fraction

    def _mix(
        self, eps: Fraction, kappa: Fraction, odds: Fraction, domain: int, **more: Any
    ) -> None:
        item, other = Field("item", limit=domain), (1 - kappa) / domain
        self._set(
            claimed=eps, odds=odds, domain=domain, kappa=kappa, p=other + kappa, q=other,
            fields=(item,), state_shape=(domain,), row_bytes=4 * item.width + 2, **more,
        )  # fmt: skip

    def draw(self, flat: NDArray[Any]) -> Columns:
        return (_bits.respond(self.kappa, flat, self.domain),)

    def tally(self, state: Counts, columns: Columns) -> None:
        """Count how often each item was named."""
        state += np.bincount(columns[0], minlength=self.domain)

    def likelihood(self, tally: Tally, counts: Counts) -> Floats:  # noqa: ARG002 - of the counts
        """Return the shares of maximum likelihood, in closed form."""
        return _postprocess.kary_likelihood(counts, float(self.p), float(self.q))

    def simulate_state(self, counts: Counts, rng: Rng, values: Any = None) -> Counts:  # noqa: ARG002 - all items
        """Draw from the joint law: kept values, and a multinomial of uniform items."""
        keepers = rng.binomial(counts, float(self.kappa))
        rest = int(counts.sum() - keepers.sum())
        return np.asarray(keepers + rng.multinomial(rest, np.full(self.domain, 1 / self.domain)))

    def law(self, value: int) -> list[Fraction]:
        """Return the exact probability of each report."""
        return [self.p if y == value else self.q for y in range(self.domain)]


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class KaryResponse(_Mixture):
    """k-ary randomized response: name the value, or any item.

    Best for few items: the fewest bytes, and the least variance while
    domain < 3e^ε + 2.

    Parameters
    ----------
    domain
        Number of items; values are 0, …, domain − 1.
    epsilon
        ε of one report.

    Examples
    --------
    >>> from discreet import local
    >>> protocol = local.KaryResponse(domain=16, epsilon=1)
    >>> round(protocol.variance(), 4)
    5.6624
    >>> estimate = protocol.aggregator().update(protocol.randomize([3] * 20_000)).estimate()
    >>> int(estimate.frequencies.argmax())
    3
    """

    name: ClassVar[str] = "kary"

    def __init__(self, domain: int, epsilon: Number) -> None:
        k, eps = rat.read_whole(domain, "domain", least=2), rat.read_epsilon(epsilon)
        rho = rat.odds_below(eps)
        kappa = rat.mixture(rho, 1, k)
        self._mix(eps, kappa, rat.checked_odds(rat.mixture_odds(kappa, 1, k), rho), k)


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class RandomizedResponse(_Mixture):
    """Randomized response to a yes/no question.

    Parameters
    ----------
    p
        Coin form: the chance to answer truthfully, otherwise a fair coin answers; or
    epsilon
        ε of one report.

    Examples
    --------
    >>> from discreet import local
    >>> coin = local.RandomizedResponse(p="0.5")
    >>> round(coin.epsilon, 6), coin.odds
    (1.098612, Fraction(3, 1))
    >>> round(coin.variance("0.3", of="population"), 6)
    0.96
    """

    name: ClassVar[str] = "randomized-response"
    coin: bool

    def __init__(self, p: Number | None = None, epsilon: Number | None = None) -> None:
        if p is not None and epsilon is None:
            kappa = rat.read_probability(p, "p")
            odds = rat.mixture_odds(kappa, 1, 2)
            eps = rat.log_up(odds)
        elif epsilon is not None and p is None:
            eps = rat.read_epsilon(epsilon)
            kappa = rat.mixture(rat.odds_below(eps), 1, 2)
            odds = rat.checked_odds(rat.mixture_odds(kappa, 1, 2), rat.odds_below(eps))
        else:
            raise ParameterError(
                "randomized response needs either p or epsilon", hint=Hint("p", "0.5")
            )
        self._mix(eps, kappa, odds, 2, coin=p is not None)

    def read(self, tally: Tally) -> BinaryEstimate:
        """Read the shares of no and yes."""
        estimate = FrequencyProtocol.read(self, tally)
        return BinaryEstimate(
            self, tally, estimate.supports, estimate.frequencies, estimate.standard_errors
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """The coin, or ε."""
        return {"p": rat.text(self.kappa)} if self.coin else {"epsilon": rat.text(self.claimed)}


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class _Unary(FrequencyProtocol):
    """One coin per bit."""

    def __init__(self, domain: int, epsilon: Number) -> None:
        k = rat.read_whole(domain, "domain", least=2, most=1 << 20)
        eps = rat.read_epsilon(epsilon)
        p, q = self._coins(eps)
        odds = rat.checked_odds(p * (1 - q) / (q * (1 - p)), rat.odds_below(eps))
        self._set(claimed=eps, odds=odds, domain=k, p=p, q=q, fields=(Field("bits", bits=k),),
                  state_shape=(k,))  # fmt: skip

    @staticmethod
    @abstractmethod
    def _coins(eps: Fraction) -> tuple[Fraction, Fraction]:
        """Return the chances of a one: of the own bit, and of any other."""

    def draw(self, flat: NDArray[Any]) -> Columns:
        rows = _bits.coin_rows(self.q, len(flat), self.domain)
        if self.p == 1 - self.q:
            _bits.flip_bits(rows, flat)  # a set bit flips by the same coin as a clear one
        else:
            _bits.put_bits(rows, flat, np.asarray(noise.bernoulli_many(self.p, len(flat))))
        return (rows,)

    def valid(self, columns: Columns) -> NDArray[np.bool_]:
        """Refuse rows with bits beyond the domain, or more ones than honest clients ever send.

        An honest row is refused with probability below 1e-12; a fake one cannot promote
        every item at once where there are many.
        """
        rows = columns[0]
        good = ~_bits.stray_bits(rows, self.domain)
        most = most_ones(self.domain, float(self.q))
        if most < self.domain:
            good &= _bits.row_ones(rows) <= most
        return good

    def tally(self, state: Counts, columns: Columns) -> None:
        """Count the set bits of each item."""
        state += _bits.column_sums(columns[0], self.domain)

    def law(self, value: int) -> dict[tuple[int, ...], Fraction]:
        """Return the exact probability of each report (2^domain of them)."""
        return _bits.bits_law(self.p if i == value else self.q for i in range(self.domain))


@lru_cache(maxsize=64)
def most_ones(domain: int, q: float, chance: float = 1e-12) -> int:
    """Return a number of ones that a row passes with probability below `chance`.

    Chernoff's bound for the domain − 1 other bits; the own bit may be one more.
    """
    others = domain - 1
    for ones in range(math.ceil(others * q), others):
        share = ones / others
        depth = share * math.log(share / q) + (1 - share) * math.log((1 - share) / (1 - q))
        if others * depth > -math.log(chance):
            return ones + 1
    return domain


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class SymmetricUnary(_Unary):
    """Symmetric unary encoding (basic one-time RAPPOR): every bit flips with probability q.

    Parameters
    ----------
    domain, epsilon
        See :class:`KaryResponse`.

    Examples
    --------
    >>> from discreet import local
    >>> round(local.SymmetricUnary(domain=16, epsilon=1).variance(), 4)
    3.9177
    """

    name: ClassVar[str] = "symmetric-unary"

    @staticmethod
    def _coins(eps: Fraction) -> tuple[Fraction, Fraction]:
        q = rat.round_up(1 / (rat.odds_below(eps, 2) + 1))
        return 1 - q, q


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class OptimizedUnary(_Unary):
    """Optimised unary encoding: the own bit is a fair coin, other bits are rarely set.

    Parameters
    ----------
    domain, epsilon
        See :class:`KaryResponse`.

    Examples
    --------
    >>> from discreet import local
    >>> round(local.OptimizedUnary(domain=16, epsilon=1).variance(), 4)
    3.6827
    """

    name: ClassVar[str] = "optimized-unary"

    @staticmethod
    def _coins(eps: Fraction) -> tuple[Fraction, Fraction]:
        return Fraction(1, 2), rat.round_up(1 / (rat.odds_below(eps) + 1))
