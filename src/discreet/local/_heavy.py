r"""Heavy hitters: find frequent values of a huge domain by extending prefixes.

Guarantee
---------
A person belongs to one level, drawn uniformly and independently of the value, and reports
the value's prefix of that level's length by local hashing with a public seed and the
whole ε (:mod:`discreet.local._hashing`): one report, odds ≤ e^ε.

The server extends the promising prefixes of one level by the next bits and asks the next
level's reports about them. Nothing is asked of people again: reports are counts of (seed,
bucket) pairs per level, so collection needs one round, the state is a fixed
table, and aggregators merge. A value is *significant* if it exceeds the Bonferroni bound over the
last level's candidates; the standard error allows for collisions of shared seeds.

Fewer, larger steps find more (each level has more people) at the price of more
candidates.

References
----------
Wang, Li, Jha, "Locally differentially private heavy hitter identification", TDSC 2019.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet import _exact, noise
from discreet import privacy as p_
from discreet._exact import Number
from discreet._lazy import special
from discreet.errors import ParameterError
from discreet.local import _bits
from discreet.local._aggregator import Tally
from discreet.local._bits import HASH, Counts, read_items
from discreet.local._hashing import LocalHashing, table_supports
from discreet.local._intervals import POPULATION, Floats, Interval, normal_quantile
from discreet.local._protocol import LocalProtocol
from discreet.local._rationals import read_whole
from discreet.local._wire import Columns, Field


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class HeavyHitters(LocalProtocol):
    """The most frequent values among 2^bits.

    Parameters
    ----------
    bits
        Length of the values: whole numbers below 2^bits, or texts of bits/8 bytes.
    epsilon
        ε of one report.
    start, step
        Length of the first prefix, and bits added per level.
    seeds
        Public seeds of the hash.

    Examples
    --------
    >>> from discreet import local
    >>> protocol = local.HeavyHitters(bits=16, epsilon=4, start=8, step=4)
    >>> values = [4660] * 30_000 + [48879] * 20_000
    >>> counted = protocol.aggregator().update(protocol.randomize(values))
    >>> sorted(counted.estimate(confidence="0.9999999999").found)
    [4660, 48879]
    """

    name: ClassVar[str] = "heavy-hitters"
    bits: int
    start: int
    step: int
    seeds: int
    hashing: LocalHashing

    def __init__(
        self,
        bits: int,
        epsilon: Number,
        start: int = 12,
        step: int = 4,
        seeds: int = 1 << 14,
        *,
        hash: str = HASH,  # noqa: A002 - the field's own word, as the spec spells it
    ) -> None:
        if hash != HASH:
            raise ParameterError(f"the hash is {HASH!r}, not another one", hint=f'hash="{HASH}"')
        length = read_whole(bits, "bits", least=2, most=62)
        hashing = LocalHashing(2, epsilon, seeds=seeds)
        self._set(
            claimed=hashing.claimed,
            odds=hashing.odds,
            bits=length,
            start=min(read_whole(start, "start", most=20), length),
            step=read_whole(step, "step", most=12),
            seeds=hashing.seeds,
            hashing=hashing,
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """Exact parameters, as the spec carries them."""
        return {
            "bits": self.bits,
            **self._stated(),
            "start": self.start,
            "step": self.step,
            "seeds": self.seeds,
            "hash": HASH,
        }

    def variance(self, frequency: Number = 0, n: int = 1, *, squares: float = 0.0) -> float:
        """Return the variance of a value's share when `n` people spread evenly over the levels.

        Parameters
        ----------
        frequency, n, squares
            See :meth:`LocalHashing.variance`; given the people at the last level.
        """
        base = self.hashing.variance(frequency, n)
        return base * len(self.lengths) + self.hashing.collision_variance(squares)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Prefix lengths, one per level."""
        inner = range(self.start, self.bits, self.step)
        return (*inner, self.bits)

    @property
    def fields(self) -> tuple[Field, ...]:
        """Level, seed and bucket."""
        return (Field("level", limit=max(2, len(self.lengths))), *self.hashing.fields)

    @property
    def _row_bytes(self) -> int:
        return 64

    def parse(self, values: Any) -> tuple[NDArray[np.int64], bool]:
        scalar = isinstance(values, str)
        array = np.asarray(values)
        if array.dtype.kind not in "OUT" or array.ndim > 1:
            items, scalar = read_items(values, 1 << self.bits)
            return items.astype(np.int64), scalar
        texts = array.reshape(-1).tolist()
        width = self.bits // 8
        raw = [t.encode() if isinstance(t, str) else b"\0" * (width + 1) for t in texts]
        if self.bits % 8 or any(len(r) > width or b"\0" in r for r in raw):
            raise ParameterError(
                f"texts must be of at most {width} bytes of UTF-8, and bits a multiple of 8"
            )
        # the end of a text is a symbol of its own: zero bytes
        numbers = [int.from_bytes(r.ljust(width, b"\0"), "big") for r in raw]
        return np.array(numbers, dtype=np.int64), scalar

    def draw(self, flat: NDArray[np.int64]) -> Columns:
        lengths = np.array(self.lengths)
        level = np.asarray(noise.uniform_many(len(lengths), len(flat))).astype(np.uint8)
        prefix = flat >> (self.bits - lengths[level])
        return (level, *self.hashing.draw(prefix.astype(np.uint64)))

    @property
    def state_shape(self) -> tuple[int, ...]:
        """Counts of (seed, bucket), by level."""
        return (len(self.lengths), self.seeds, self.hashing.buckets)

    def valid(self, columns: Columns) -> NDArray[np.bool_]:
        """Refuse unknown levels, seeds and buckets."""
        return (columns[0] < len(self.lengths)) & self.hashing.valid(columns[1:])

    def tally(self, state: Counts, columns: Columns) -> None:
        """Count (level, seed, bucket)."""
        level, seed, bucket = (c.astype(np.int64) for c in columns)
        cell = (level * self.seeds + seed) * self.hashing.buckets + bucket
        state += np.bincount(cell, minlength=state.size).reshape(state.shape)

    def estimate(
        self, tally: Tally, keep: int = 64, confidence: Number = 0.95, **options: Any
    ) -> HeavyEstimate:
        """Find the frequent values.

        Parameters
        ----------
        tally
            What was tallied.
        keep
            Prefixes extended at each level; two or three times as many as wanted.
        confidence
            That no value is called frequent which nobody holds.
        """
        if options:
            raise ParameterError("HeavyHitters estimates take keep and confidence")
        most = read_whole(keep, "keep", most=1 << 16)
        prefixes = np.arange(1 << self.start)
        share, error = np.zeros(0), np.zeros(0)
        for level, length in enumerate(self.lengths):
            if level:
                more = length - self.lengths[level - 1]
                best = prefixes[np.argsort(-share)[:most]]
                prefixes = ((best[:, None] << more) | np.arange(1 << more)).reshape(-1)
            share, error = self._shares(tally.state[level], prefixes)
        order = np.argsort(-share)
        bound = -float(special.ndtri((1 - _exact.confidence(confidence)) / len(prefixes)))
        return HeavyEstimate(
            self, tally, prefixes[order], share[order], error[order],
            share[order] > bound * error[order],
        )  # fmt: skip

    def _shares(self, table: Counts, prefixes: NDArray[np.int64]) -> tuple[Floats, Floats]:
        people = int(table.sum())
        if not people:
            raise ParameterError("some level has no reports yet", hint="collect more reports")
        rate = table_supports(table, _bits.item_words(prefixes)) / people
        p, q = float(self.hashing.p), float(self.hashing.q)
        share = (rate - q) / (p - q)
        squares = min(1.0, float(np.sum(np.clip(share - 3 * _plain(q, people, p), 0, 1) ** 2)))
        spread = rate * (1 - rate) / people / (p - q) ** 2
        return share, np.sqrt(spread + self.hashing.collision_variance(squares))


def _plain(q: float, people: int, p: float) -> float:
    return math.sqrt(q * (1 - q) / people) / (p - q)


@dataclass(frozen=True, slots=True, eq=False)
class HeavyEstimate:
    """Candidates of the last level, most frequent first.

    Attributes
    ----------
    values, frequencies, standard_errors
        The candidates, their estimated shares and standard errors.
    significant
        Which of them are frequent, at the family's confidence.
    """

    protocol: HeavyHitters
    tally: Tally
    values: NDArray[np.int64]
    frequencies: Floats
    standard_errors: Floats
    significant: NDArray[np.bool_]

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
    def found(self) -> dict[int, float]:
        """The significant values and their shares, most frequent first."""
        return {
            int(v): float(f)
            for v, f, s in zip(self.values, self.frequencies, self.significant, strict=True)
            if s
        }

    @property
    def texts(self) -> dict[str, float]:
        """The significant values read as texts."""
        width = self.protocol.bits // 8
        return {
            v.to_bytes(width, "big").rstrip(b"\0").decode("utf-8", "replace"): f
            for v, f in self.found.items()
        }

    def interval(self, confidence: Number = 0.95, *, simultaneous: bool = False) -> Interval:
        """Return normal intervals for the candidates' shares, collisions included."""
        level = _exact.confidence(confidence)
        error = (1 - level) / (len(self.values) if simultaneous else 1)
        reach = normal_quantile(error) * self.standard_errors
        return Interval(self.frequencies - reach, self.frequencies + reach, level, POPULATION)
