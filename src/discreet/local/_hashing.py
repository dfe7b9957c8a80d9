"""Local hashing: send a random hash function and a k-ary response on the hashed value.

Guarantee
---------
The seed is drawn independently of the value, and for every seed the rest of the report
is a k-ary response on g buckets: odds = those of :class:`KaryResponse` with k = g,
whatever the hash does (a constant hash loses accuracy, never privacy).

Accuracy. If the hash is uniform and pairwise independent, a report supports the
sender's item with probability p = κ + (1−κ)/g and any other item with probability 1/g.
The least variance for rare items is near g = e^ε + 1 (Wang et al., USENIX Security 2017);
g = 2 is binary local hashing (Bassily, Smith 2015). Estimates assume an ideal hash.

With fresh seeds (the default) the server compares every report with every item: n·k
steps. With `seeds` public seeds it counts (seed, bucket) pairs and looks at items once,
at the price of collisions that are the same for everybody: they add
(g/(g−1))²·(1/g)(1−1/g)·Σf²/seeds to the squared error, which more people do not remove.

A seed is part of its report and fresh for each: a reused 64-bit seed would identify a device.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet import noise
from discreet._dataclass import dataclass, replace
from discreet._exact import Number
from discreet.local import _bits, _draws
from discreet.local import _rationals as rat
from discreet.local._aggregator import Tally
from discreet.local._bits import Counts, read_items
from discreet.local._draws import Rng
from discreet.local._estimate import population_only
from discreet.local._frequency import FrequencyEstimate, FrequencyProtocol, bernstein_tail
from discreet.local._intervals import Floats, clopper_pearson
from discreet.local._wire import Columns, Field

SHARED = "valid for every n (Clopper–Pearson, and Bernstein for collisions), for ideal hashes"

_CELLS = 1 << 15
"""Hashes computed at once on the server: what a core's cache holds."""


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Hashed(FrequencyProtocol):
    """Base of the protocols whose items share buckets of hash functions."""

    @property
    @abstractmethod
    def shared(self) -> SharedHashes | None:
        """The public hash functions; None for fresh ones."""

    def read_supports(
        self, tally: Tally, counts: Counts, labels: tuple[Any, ...] | None = None
    ) -> FrequencyEstimate:
        """Read shares; with public functions, standard errors include collisions."""
        estimate = FrequencyProtocol.read_supports(self, tally, counts, labels)
        return estimate if self.shared is None else self.shared.widened(estimate)

    def sum_tail(self, estimate: FrequencyEstimate) -> float:
        """Return the chance of the shares' sum; bounded where one report may support all items."""
        if self.shared is None:
            return FrequencyProtocol.sum_tail(self, estimate)
        return bernstein_tail(estimate, self.domain * self.gain)

    def variance(
        self, frequency: Number = 0, n: int = 1, *, of: str = "respondents", squares: float = 0.0
    ) -> float:
        """Return the exact variance of an item's share over coins and ideal hash functions.

        Parameters
        ----------
        frequency, n, of
            See :meth:`KaryResponse.variance`.
        squares
            Σ f² of the other items' shares, for the collision term.
        """
        base = FrequencyProtocol.variance(self, frequency, n, of=of)
        return base + self.collision_variance(squares)

    def collision_variance(self, squares: float = 1.0) -> float:
        """Return the squared error that public functions add for a rare item (0 for fresh ones).

        Parameters
        ----------
        squares
            Σ f² of all other items' true shares; 1 is the worst case.
        """
        return 0.0 if self.shared is None else float(self.shared.variance(squares))

    def share_interval(
        self, counts: Counts, n: int, error: float, of: str
    ) -> tuple[Floats, Floats]:
        """Return exact bounds; public functions widen them by their collisions."""
        if self.shared is None:
            return FrequencyProtocol.share_interval(self, counts, n, error, of)
        population_only(of)
        return self.shared.bounds(counts, n, (self.p, self.q), error, self.domain)

    def interval_method(self, of: str) -> str:
        """Say how bounds for shares are found."""
        if self.shared is not None:
            return SHARED
        return f"{FrequencyProtocol.interval_method(self, of)}, for an ideal hash"


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class LocalHashing(Hashed):
    """Local hashing for large domains: nine bytes per report whatever the domain.

    Parameters
    ----------
    domain, epsilon
        See :class:`~discreet.local.KaryResponse`.
    buckets
        Range g of the hash; 2 is binary local hashing. Left out: the g of least variance.
    seeds
        Number of public seeds to choose from; None: a fresh 64-bit seed per report.

    Examples
    --------
    >>> from discreet import local
    >>> protocol = local.LocalHashing(domain=128, epsilon=1)
    >>> protocol.buckets, round(protocol.variance(), 4)
    (4, 3.6917)
    >>> round(local.LocalHashing(domain=128, epsilon=2, buckets=2).variance(), 4)
    1.7241
    """

    name: ClassVar[str] = "local-hashing"
    stated: ClassVar[tuple[str, ...]] = ("domain", "epsilon", "buckets", "seeds", "hash")
    options: ClassVar[tuple[str, ...]] = ("candidates",)
    buckets: int
    seeds: int | None
    kappa: Fraction

    def __init__(
        self, domain: int, epsilon: Number, buckets: int | None = None, seeds: int | None = None
    ) -> None:
        k, eps = rat.read_whole(domain, "domain", least=2), rat.read_epsilon(epsilon)
        rho = rat.odds_below(eps)
        g = (
            _best_buckets(rho)
            if buckets is None
            else rat.read_whole(buckets, "buckets", least=2, most=1 << 16)
        )
        kappa = rat.mixture(rho, 1, g)
        few = None if seeds is None else rat.read_whole(seeds, "seeds", least=2, most=1 << 20)
        self._set(
            claimed=eps,
            odds=rat.checked_odds(rat.mixture_odds(kappa, 1, g), rho),
            fields=(Field("seed", limit=few or 1 << 64), Field("bucket", limit=g)),
            # support of each item, or counts of (seed, bucket) for public seeds
            state_shape=(few, g) if few else (k,),
            domain=k,
            buckets=g,
            seeds=few,
            kappa=kappa,
            p=kappa + (1 - kappa) / g,
            q=Fraction(1, g),
        )

    def draw(self, flat: NDArray[Any]) -> Columns:
        n = len(flat)
        if self.seeds is None:
            tokens = seeds = np.asarray(noise.random_words(n))
        else:
            tokens = np.asarray(noise.uniform_many(self.seeds, n))
            seeds = _bits.seed_words(self.seeds, "")[tokens]
        own = _bits.hash_words(_bits.item_words(flat), seeds, self.buckets)
        return tokens, _bits.respond(self.kappa, own.astype(self.fields[1].dtype), self.buckets)

    # -- server -----------------------------------------------------------------

    def possible(self, state: Counts, n: int) -> bool:
        """Each report is in one cell of the table, or supports items."""
        within = bool((state >= 0).all() and (state <= n).all())
        return within and (self.seeds is None or _bits.adds_up(state, n))

    def tally(self, state: Counts, columns: Columns) -> None:
        """Count supporting reports, or (seed, bucket) pairs."""
        seeds, buckets = columns
        if self.seeds is not None:
            cell = seeds.astype(np.int64) * self.buckets + buckets
            state += np.bincount(cell, minlength=state.size).reshape(state.shape)
            return
        # hash == bucket means that the top 32 bits lie in one interval
        edges = [-(-(y << 32) // self.buckets) for y in range(self.buckets + 1)]
        start, width = np.array(edges[:-1], np.uint32), np.diff(edges).astype(np.uint32)
        words = _bits.item_words(np.arange(self.domain))
        items = min(self.domain, _CELLS)
        rows = max(1, _CELLS // items)
        for first in range(0, self.domain, items):
            part = words[None, first : first + items]
            for i in range(0, len(seeds), rows):
                chunk = buckets[i : i + rows]
                top = _bits.top_halves(part ^ seeds[i : i + rows, None]).astype(np.uint32)
                top -= start[chunk][:, None]
                hit = top < width[chunk][:, None]
                state[first : first + items] += np.count_nonzero(hit, axis=0)

    def supports(self, tally: Tally, items: NDArray[Any] | None = None) -> Counts:
        """Return how many reports support each item."""
        if self.seeds is None:
            return tally.state if items is None else tally.state[items]
        targets = np.arange(self.domain) if items is None else items
        return table_supports(tally.state, _bits.item_words(targets))

    def read(self, tally: Tally, candidates: Sequence[int] | None = None) -> FrequencyEstimate:
        """Read shares of all items, or of some candidates only."""
        if candidates is None:
            return self.read_supports(tally, self.supports(tally))
        items, _ = read_items(candidates, self.domain)
        return self.read_supports(tally, self.supports(tally, items), tuple(items.tolist()))

    @property
    def shared(self) -> SharedHashes | None:
        """The public hash functions; None for fresh ones."""
        return None if self.seeds is None else SharedHashes(self.buckets, self.seeds)

    def simulate_state(self, counts: Counts, rng: Rng, values: Any = None) -> Counts:
        """Draw supports under an ideal hash, or the counts of public seeds under the real one."""
        if self.seeds is None:
            return FrequencyProtocol.simulate_state(self, counts, rng)
        keepers = rng.binomial(counts, float(self.kappa))
        rest = int(counts.sum() - keepers.sum())
        out = _draws.over_groups(rest, self.seeds * self.buckets, rng).reshape(self.state_shape)
        seeds, rows = _bits.seed_words(self.seeds, ""), np.arange(self.seeds)
        items = np.arange(self.domain) if values is None else values
        for word, people in zip(_bits.item_words(items), keepers.tolist(), strict=True):
            if people:
                hashed = _bits.hash_words(word, seeds, self.buckets)
                out[rows, hashed] += _draws.over_groups(people, self.seeds, rng)
        return out

    def law(self, hashed: int) -> list[Fraction]:
        """Return the exact probability of each bucket, given the hashed value."""
        other = self.p - self.kappa
        return [self.p if y == hashed else other for y in range(self.buckets)]


@dataclass(frozen=True, slots=True)
class SharedHashes:
    """Collisions of `count` public functions into `width` buckets, each function ideal.

    For item d the estimate is off by Σ f_x (m/(m−1))(Z_x − 1/m), where Z_x is the share of
    functions under which x and d collide: a sum, over functions and items, of independent
    numbers that are at most f_x/count, of variance (1/m)(1−1/m)(f_x/count)² each.
    """

    width: int
    count: int

    @property
    def lift(self) -> float:
        """The factor m/(m−1)."""
        return self.width / (self.width - 1)

    def variance(self, squares: Any) -> Any:
        """Return the squared error for Σ f² of the other items."""
        return self.lift / self.width * squares / self.count

    def reach(self, squares: Any, largest: Any, error: float) -> Any:
        """Return how far collisions carry an estimate, except with probability `error`.

        Bernstein's inequality over the draw of the functions, for Σ f² and max f of the
        other items.
        """
        slope = self.lift * math.log(2 / error) / (3 * self.count) * largest
        spread = 2 * self.variance(squares) * math.log(2 / error)
        return slope + np.sqrt(slope**2 + spread)

    def bounds(
        self, counts: Counts, n: int, line: tuple[Fraction, Fraction], error: float, domain: int
    ) -> tuple[Floats, Floats]:
        """Return valid bounds for the shares of some items, over coins, people and functions.

        Two eighths of the error bound all shares, the first for any population, the second
        with what the first says about Σ f² and max f; a quarter goes to collisions given that,
        half to Clopper–Pearson.
        """
        p, q = (float(x) for x in line)

        def ends(part: float, most: tuple[Any, Any], share: float) -> tuple[Floats, Floats]:
            low, high = clopper_pearson(counts, n, part * (1 - share))
            reach = self.reach(*most, part * share)
            return (low - q) / (p - q) - reach, (high - q) / (p - q) + reach

        most: tuple[Any, Any] = (1.0, 1.0)
        for _ in range(2):
            low, high = (np.clip(e, 0, 1) for e in ends(error / (8 * len(counts)), most, 0.5))
            unlisted = 0.0 if len(counts) == domain else max(0.0, 1 - float(low.sum()))
            most = _most(high, unlisted)
        return ends(error * 0.75, most, 1 / 3)

    def widened(self, estimate: FrequencyEstimate) -> FrequencyEstimate:
        """Add collisions to standard errors, Σ f² being estimated."""
        shares = np.clip(estimate.frequencies, 0, 1)
        squares, _ = _most(shares, max(0.0, 1 - float(shares.sum())))
        error = np.sqrt(estimate.standard_errors**2 + self.variance(squares))
        return replace(estimate, standard_errors=error)


def _most(shares: Floats, rest: float) -> tuple[Floats, Floats]:
    """Bound Σ f² and max f of all other items, for shares at most these and an unlisted rest."""
    order = np.sort(shares)
    second = order[-2] if len(order) > 1 else 0.0
    largest = np.maximum(np.where(shares == order[-1], second, order[-1]), rest)
    sums = np.sum(shares**2) - shares**2 + rest**2
    # Σ f² ≤ max f, too, as Σ f ≤ 1
    return np.minimum(sums, largest), largest


def table_supports(table: Counts, words: NDArray[np.uint64]) -> Counts:
    """Sum table[seed, hash_seed(item)] over the public seeds, for each item."""
    seeds = _bits.seed_words(len(table), "")
    total = np.zeros(len(words), dtype=np.int64)
    rows = max(1, _CELLS // max(1, len(words)))
    for i in range(0, len(table), rows):
        part = table[i : i + rows]
        places = _bits.hash_places(words[None, :], seeds[i : i + rows, None], table.shape[1])
        places += (np.arange(len(part)) * table.shape[1])[:, None]
        total += part.take(places).sum(axis=0)
    return total


def _best_buckets(rho: Fraction) -> int:
    """Return the g of least variance for rare items."""

    def variance(g: int) -> Fraction:
        p, q = rho / (rho + g - 1), Fraction(1, g)
        return q * (1 - q) / (p - q) ** 2

    near = math.floor(rho)
    return min({2, min(near + 1, 1 << 16), min(near + 2, 1 << 16)} - {1}, key=variance)
