r"""Key–value pairs: how many people hold a key, and the mean of its value among them.

Guarantee
---------
A person's pairs are padded with empty ones to `pairs`, one is drawn, its value is
rounded to ±1 at random, and the report has for each key: absent, +1 or −1 (PCKV-UE,
Gu et al., USENIX Security 2020). The drawn key is present with probability a = ½, its
sign true with probability s; any other key is present with probability b, sign fair. For
two pairs the largest ratio is

    odds = max{ s/(1−s),  2s(1−b)/b }        (a = ½),

and with s = ρ/(ρ+1), b = 2/(ρ+3) both are ρ ≤ e^ε; s is rounded down and b up, which
lowers them. Empty pairs give less.

Who holds more than `pairs` keys is sampled uniformly among all of them, so that
estimates are biased towards too few: declare `pairs` generously.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet import _exact, noise
from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet.errors import ParameterError
from discreet.local import _bits, _draws
from discreet.local import _rationals as rat
from discreet.local._aggregator import Tally
from discreet.local._bits import Counts
from discreet.local._draws import Rng
from discreet.local._estimate import Bounds, Estimate, population_only
from discreet.local._frequency import line_variance
from discreet.local._intervals import EXACT, POPULATION, TWICE, Floats, Interval, clopper_pearson
from discreet.local._mean import quantise, read_range, round_at_random
from discreet.local._protocol import LocalProtocol
from discreet.local._wire import Columns, Field


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class KeyValue(LocalProtocol):
    """Key–value pairs.

    Parameters
    ----------
    domain
        Keys are 0, …, domain − 1.
    epsilon
        ε of one report.
    pairs
        Pairs that one person holds at most.
    low, high
        Public range of the values.

    Values of ``randomize``: one mapping from keys to numbers, or a list with one
    mapping per person.

    Examples
    --------
    >>> from discreet import local
    >>> ratings = local.KeyValue(domain=20, epsilon=2, pairs=4, low=1, high=5)
    >>> people = [{3: 5, 7: 1}, {3: 4}] * 5000
    >>> estimate = ratings.aggregator().update(ratings.randomize(people)).estimate()
    >>> estimate.frequencies.shape, estimate.means.shape
    ((20,), (20,))
    """

    name: ClassVar[str] = "key-value"
    stated: ClassVar[tuple[str, ...]] = ("domain", "epsilon", "pairs", "low", "high")
    domain: int
    pairs: int
    low: Fraction
    high: Fraction
    b: Fraction
    s: Fraction

    def __init__(
        self, domain: int, epsilon: Number, pairs: int = 1, low: Number = -1, high: Number = 1
    ) -> None:
        eps = rat.read_epsilon(epsilon)
        ends = read_range(low, high)
        rho = rat.odds_below(eps)
        s = (1 + rat.mixture(rho, 1, 2)) / 2
        b = rat.round_up(2 / (rho + 3))
        odds = rat.checked_odds(max(s / (1 - s), 2 * s * (1 - b) / b), rho)
        d = rat.read_whole(domain, "domain", most=1 << 16)
        self._set(
            claimed=eps, odds=odds, domain=d, pairs=rat.read_whole(pairs, "pairs", most=1 << 16),
            low=ends[0], high=ends[1], b=b, s=s, row_bytes=4 * d,
            fields=(Field("present", bits=d), Field("sign", bits=d)),
            state_shape=(2, d),  # reports with the key, and those with a plus
        )  # fmt: skip

    def variance(self, frequency: Number = 0, n: int = 1, *, of: str = "respondents") -> float:
        """Return the exact variance of a key's estimated share from `n` reports.

        A key's mean is a ratio whose denominator may be 0: it has an interval, no variance.

        Parameters
        ----------
        frequency, n, of
            See :meth:`KaryResponse.variance`.
        """
        # a holder's key is the drawn one with probability 1/pairs
        p = self.b + (Fraction(1, 2) - self.b) / self.pairs
        return line_variance(p, self.b, frequency, n, of)

    @property
    def gain(self) -> float:
        """Shift of one share, per unit share of fake clients."""
        return float(self.pairs * (1 - self.b) / (Fraction(1, 2) - self.b))

    # -- client -----------------------------------------------------------------

    def parse(self, values: Any) -> tuple[NDArray[np.int64], bool]:
        """Draw each person's pair; return (key or −1, value on the fine grid)."""
        people, scalar = self._people(values), isinstance(values, Mapping)
        # all pairs are read, so that a refusal does not depend on which one is drawn
        keys = np.array([key for person in people for key in person], dtype=np.int64)
        numbers = [number for person in people for number in person.values()]
        fine, _ = quantise(numbers, self.low, self.high)
        counts = np.array([len(person) for person in people], dtype=np.int64)
        first, slots = np.cumsum(counts) - counts, np.maximum(counts, self.pairs)
        pairs = np.full((len(people), 2), -1, dtype=np.int64)
        # a uniform slot of each person: one batch per number of slots
        for size in np.unique(slots).tolist():
            who = np.flatnonzero(slots == size)
            slot = np.asarray(noise.uniform_many(size, who.size)).astype(np.int64)
            full = slot < counts[who]
            place = (first[who] + slot)[full]
            pairs[who[full]] = np.stack([keys[place], fine[place]], axis=1)
        return pairs, scalar

    def _people(self, values: Any) -> list[Mapping[int, Any]]:
        people = [values]
        if not isinstance(values, Mapping):
            people = list(values) if isinstance(values, Iterable) else [None]
        if not all(isinstance(v, Mapping) for v in people):
            raise ParameterError("values are mappings from keys to numbers", hint="{3: 0.5}")
        for key in itertools.chain.from_iterable(people):
            whole = isinstance(key, int | np.integer) and not isinstance(key, bool)
            if not whole or not 0 <= key < self.domain:
                raise ParameterError(f"keys are whole numbers from 0 to {self.domain - 1}")
        return people

    def draw(self, flat: NDArray[np.int64]) -> Columns:
        n = len(flat)
        size = n * self.domain
        present = np.asarray(noise.bernoulli_many(self.b, size)).reshape(n, self.domain)
        sign = np.asarray(noise.bernoulli_many(Fraction(1, 2), size)).reshape(n, self.domain)
        own = np.asarray(noise.bernoulli_many(Fraction(1, 2), n))
        true = round_at_random(np.maximum(flat[:, 1], 0), 1).astype(bool)
        answer = true ^ np.asarray(noise.bernoulli_many(1 - self.s, n))
        holders = np.flatnonzero(flat[:, 0] >= 0)
        place = (holders, flat[holders, 0])
        present[place], sign[place] = own[holders], answer[holders]
        return _bits.pack(present), _bits.pack(sign & present)

    # -- server -----------------------------------------------------------------

    def valid(self, columns: Columns) -> NDArray[np.bool_]:
        """Refuse stray bits, and signs of absent keys."""
        present, sign = columns
        lone = (sign & ~present).any(axis=1)
        return ~(_bits.stray_bits(present, self.domain) | lone)

    def possible(self, state: Counts, n: int) -> bool:
        """Only keys that are there have a sign."""
        present, plus = state
        return bool((plus >= 0).all() and (plus <= present).all() and (present <= n).all())

    def tally(self, state: Counts, columns: Columns) -> None:
        """Count presence and plus signs."""
        state[0] += _bits.column_sums(columns[0], self.domain)
        state[1] += _bits.column_sums(columns[1], self.domain)

    def read(self, tally: Tally) -> KeyValueEstimate:
        """Read shares of people per key, and means of the values."""
        return KeyValueEstimate(self, tally)

    def simulate_state(self, counts: Counts, rng: Rng, values: Any = None) -> Counts:
        """Draw from the joint law: keys are independent given the drawn pairs."""
        picks, plus = np.zeros(self.domain, dtype=np.int64), np.zeros(self.domain, dtype=np.int64)
        for person, people in zip(self._people(values), counts.tolist(), strict=True):
            slots = max(self.pairs, len(person), 1)
            some = _draws.over_groups(people, slots, rng)[: len(person)]
            keys = np.array(list(person), dtype=np.int64)
            fine, _ = quantise(list(person.values()), self.low, self.high)
            np.add.at(picks, keys, some)
            np.add.at(plus, keys, rng.binomial(some, fine / 2.0**32))
        # of the drawn keys, half are sent, each with its sign true with probability s
        up, down = rng.binomial(plus, 0.5), rng.binomial(picks - plus, 0.5)
        own = rng.binomial(up, float(self.s)) + rng.binomial(down, float(1 - self.s))
        other = rng.binomial(int(counts.sum()) - picks, float(self.b))
        return np.array([up + down + other, own + rng.binomial(other, 0.5)])

    def law(self, key: int | None, sign: int = 1) -> dict[tuple[int, ...], Fraction]:
        """Return the exact probability of each report (3^domain of them)."""
        half = Fraction(1, 2)
        out: dict[tuple[int, ...], Fraction] = {(): Fraction(1)}
        for k in range(self.domain):
            if k == key:
                true, false = (self.s, 1 - self.s) if sign > 0 else (1 - self.s, self.s)
                odds = {0: half, 1: half * true, -1: half * false}
            else:
                odds = {0: 1 - self.b, 1: self.b / 2, -1: self.b / 2}
            out = {(*y, v): w * odds[v] for y, w in out.items() for v in (-1, 0, 1)}
        return out


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class KeyValueEstimate(Estimate):
    """Shares of people who hold each key, and the mean value among them."""

    @property
    def _factors(self) -> tuple[float, float, float]:
        proto = self.protocol
        b, s = float(proto.b), float(proto.s)
        return b, proto.pairs / (0.5 - b), proto.pairs / (0.5 * (2 * s - 1))

    @property
    def frequencies(self) -> Floats:
        """Estimated shares of people who hold each key, unbiased."""
        b, share, _ = self._factors
        return np.asarray(share * (self.tally.state[0] / self.n - b))

    @property
    def standard_errors(self) -> Floats:
        """Standard errors of the shares."""
        b, share, _ = self._factors
        # the true rate lies between those of a key that nobody and that everybody holds
        rate = np.clip(self.tally.state[0] / self.n, b, b + 1 / share)
        return np.asarray(share * np.sqrt(rate * (1 - rate) / self.n))

    @property
    def means(self) -> Floats:
        """Estimated mean value among holders: a ratio, so only nearly unbiased."""
        present, plus = self.tally.state
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = self._factors[2] * (2 * plus - present) / self.n / self.frequencies
        return np.asarray(self._unit(ratio))

    def _unit(self, t: Any) -> Any:
        half = float(self.protocol.high - self.protocol.low) / 2
        return float(self.protocol.low) + half * (t + 1)

    def bounds(self, error: float, of: str) -> Bounds:
        """Return exact bounds for the shares."""
        population_only(of)
        b, share, _ = self._factors
        low, high = clopper_pearson(self.tally.state[0], self.n, error)
        return share * (low - b), share * (high - b), EXACT

    def mean_interval(self, confidence: Number = 0.95, *, simultaneous: bool = False) -> Interval:
        """Return intervals for the means, valid for every n; NaN where the share may be 0.

        Reports with a key are binomial with some rate r, and given them those with a plus are
        binomial with rate w: Clopper–Pearson for each at half the error. The mean
        is c·(2w−1)·r/(r−b), which rises in w and is monotone in r: its bounds lie at corners.
        """
        level = _exact.confidence(confidence)
        error = (1 - level) / (self.protocol.domain if simultaneous else 1)
        b, share, signed = self._factors
        present, plus = self.tally.state
        rates = clopper_pearson(present, self.n, error / 2)
        signs = [2 * w - 1 for w in clopper_pearson(plus, np.maximum(present, 1), error / 2)]
        with np.errstate(divide="ignore", invalid="ignore"):
            corners = [signed * w * r / (share * (r - b)) for w in signs for r in rates]
        certain = (rates[0] > b) & (present > 0)
        ends = [np.where(certain, e, np.nan) for e in (np.min(corners, 0), np.max(corners, 0))]
        low, high = (self._unit(np.clip(e, -1, 1)) for e in ends)
        limits = float(self.protocol.low), float(self.protocol.high)
        return Interval(low, high, level, POPULATION, TWICE, limits)
