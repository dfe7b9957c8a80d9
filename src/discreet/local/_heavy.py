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
last level's candidates; bounds allow for collisions of shared seeds.

Fewer, larger steps find more (each level has more people) at the price of more
candidates.

References
----------
Wang, Li, Jha, "Locally differentially private heavy hitter identification", TDSC 2019.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet import _exact, noise
from discreet._dataclass import dataclass, replace
from discreet._exact import Number
from discreet.errors import ParameterError
from discreet.local import _bits, _draws
from discreet.local._aggregator import Tally
from discreet.local._bits import Counts, read_array, read_items
from discreet.local._draws import Rng
from discreet.local._estimate import Bounds, Estimate
from discreet.local._frequency import FrequencyEstimate
from discreet.local._hashing import LocalHashing, table_supports
from discreet.local._intervals import Floats
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
    in_one_cell: ClassVar[bool] = True
    version: ClassVar[int] = 2  # prefixes of version 1 were hashed without their leading one
    stated: ClassVar[tuple[str, ...]] = ("bits", "epsilon", "start", "step", "seeds", "hash")
    options: ClassVar[tuple[str, ...]] = ("keep", "confidence")
    bits: int
    start: int
    step: int
    lengths: tuple[int, ...]
    """Prefix lengths, one per level."""
    seeds: int
    hashing: LocalHashing

    def __init__(
        self, bits: int, epsilon: Number, start: int = 12, step: int = 4, seeds: int = 1 << 14
    ) -> None:
        length = read_whole(bits, "bits", least=2, most=62)
        # prefixes are never all items, so the domain is as good as unbounded
        hashing = LocalHashing(1 << 31, epsilon, seeds=seeds)
        first = min(read_whole(start, "start", most=20), length)
        more = read_whole(step, "step", most=12)
        lengths = (*range(first, length, more), length)
        self._set(
            claimed=hashing.claimed, odds=hashing.odds, bits=length, start=first, step=more,
            lengths=lengths, seeds=hashing.seeds, hashing=hashing,
            fields=(Field("level", limit=len(lengths)), *hashing.fields),
            state_shape=(len(lengths), *hashing.state_shape),  # of (seed, bucket), by level
        )  # fmt: skip

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
    def gain(self) -> float:
        """Shift of one share per unit share of fake clients, who all join the last level."""
        return len(self.lengths) * self.hashing.gain

    def parse(self, values: Any) -> tuple[NDArray[np.int64], bool]:
        scalar = isinstance(values, str)
        array = read_array(values)
        if array.dtype.kind not in "OUT" or array.ndim > 1:
            items, scalar = read_items(array, 1 << self.bits)
            return items.astype(np.int64), scalar
        texts = array.reshape(-1).tolist()
        width = self.bits // 8
        raw = [
            t.encode("utf-8", "surrogatepass") if isinstance(t, str) else b"\0" * (width + 1)
            for t in texts
        ]
        if self.bits % 8 or any(len(r) > width or b"\0" in r for r in raw):
            raise ParameterError(
                f"texts must have at most {width} bytes of UTF-8, and bits a multiple of 8"
            )
        # the end of a text is a symbol of its own: zero bytes
        numbers = [int.from_bytes(r.ljust(width, b"\0"), "big") for r in raw]
        return np.array(numbers, dtype=np.int64), scalar

    def draw(self, flat: NDArray[np.int64]) -> Columns:
        lengths = np.array(self.lengths)
        level = np.asarray(noise.uniform_many(len(lengths), len(flat))).astype(np.uint8)
        return (level, *self.hashing.draw(self._prefix(flat, lengths[level])))

    def _prefix(self, values: NDArray[np.int64], length: Any) -> NDArray[np.uint64]:
        """Return prefixes as items; a leading one keeps lengths, hence their hashes, apart."""
        return np.asarray((values >> (self.bits - length)) | (1 << length)).astype(np.uint64)

    def tally(self, state: Counts, columns: Columns) -> None:
        """Count (level, seed, bucket)."""
        level, seed, bucket = (c.astype(np.int64) for c in columns)
        cell = (level * self.seeds + seed) * self.hashing.buckets + bucket
        state += np.bincount(cell, minlength=state.size).reshape(state.shape)

    def simulate_state(self, counts: Counts, rng: Rng, values: Any = None) -> Counts:
        """Draw from the joint law: people over levels, then each level's table."""
        numbers, _ = self.parse([] if values is None else values)
        levels = np.array([_draws.over_groups(c, len(self.lengths), rng) for c in counts.tolist()])
        out = np.zeros(self.state_shape, dtype=np.int64)
        for i, length in enumerate(self.lengths):
            prefixes, where = np.unique(self._prefix(numbers, length), return_inverse=True)
            people = np.zeros(len(prefixes), dtype=np.int64)
            np.add.at(people, where, levels[:, i])
            out[i] = self.hashing.simulate_state(people, rng, prefixes)
        return out

    def read(self, tally: Tally, keep: int = 64, confidence: Number = 0.95) -> HeavyEstimate:
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
        most = read_whole(keep, "keep", most=1 << 16)
        prefixes = np.arange(1 << self.start)
        shares = self._ask(tally, 0, prefixes)
        for level, more in enumerate(np.diff(self.lengths).tolist(), 1):
            best = prefixes[np.argsort(-shares.frequencies)[:most]]
            prefixes = ((best[:, None] << more) | np.arange(1 << more)).reshape(-1)
            shares = self._ask(tally, level, prefixes)
        # one-sided, over all candidates
        error = 2 * (1 - _exact.confidence(confidence)) / len(prefixes)
        low, *_ends = shares.bounds(error, "population")
        order = np.argsort(-shares.frequencies)
        return HeavyEstimate(
            self, tally, prefixes[order], shares.frequencies[order], shares.standard_errors[order],
            low[order] > 0, replace(shares, supports=shares.supports[order]),
        )  # fmt: skip

    def _ask(self, tally: Tally, level: int, prefixes: NDArray[np.int64]) -> FrequencyEstimate:
        """Read the shares of prefixes from the people of a level."""
        table = tally.state[level]
        people = int(table.sum())
        if not people:
            raise ParameterError("some level has no reports yet", hint="collect more reports")
        words = _bits.item_words(prefixes | (1 << self.lengths[level]))
        last = Tally(people, table, tally.refused, tally.loss, tally.tainted)
        return self.hashing.read_supports(last, table_supports(table, words))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HeavyEstimate(Estimate):
    """Candidates of the last level, most frequent first.

    Attributes
    ----------
    values, frequencies, standard_errors
        The candidates, their estimated shares and standard errors.
    significant
        Which of them are frequent, at the family's confidence.
    last
        What the last level's people say about the candidates.
    """

    values: NDArray[np.int64]
    frequencies: Floats
    standard_errors: Floats
    significant: NDArray[np.bool_]
    last: FrequencyEstimate

    @property
    def names(self) -> tuple[Any, ...]:
        """The candidates."""
        return tuple(self.values.tolist())

    @property
    def found(self) -> dict[int, float]:
        """The significant values and their shares, most frequent first."""
        where = np.flatnonzero(self.significant)
        return {int(self.values[i]): float(self.frequencies[i]) for i in where}

    @property
    def texts(self) -> dict[str, float]:
        """The significant values read as texts."""
        width = self.protocol.bits // 8
        return {
            v.to_bytes(width, "big").rstrip(b"\0").decode("utf-8", "replace"): f
            for v, f in self.found.items()
        }

    def bounds(self, error: float, of: str) -> Bounds:
        """Return bounds from the last level's reports, collisions included."""
        return self.last.bounds(error, of)
