r"""Apple's sketches: count-mean-sketch and its Hadamard form.

Guarantee
---------
A report names one of `hashes` public hash functions, drawn independently of the value.

*Count-mean-sketch*: the hashed value becomes a row of `width` bits, one set, and each bit flips
with probability 1/(e^{ε/2}+1). Two values differ in at most two bits: odds ≤ e^ε, as for
:class:`~discreet.local.SymmetricUnary`.

*Hadamard form*: also a uniform column ℓ of the Hadamard matrix, and the one bit
H[ℓ, hash] flipped with probability 1/(e^ε+1): binary randomized response.

Accuracy. With an ideal hash a report supports the sender's item with probability
p, any other with probability q + (p−q)/m: a collision supports by accident. Supports of
one item are then counts as in every frequency protocol, and the debiasing line is the
estimator of Apple's paper. **The hash functions are shared**: a collision is the same for
everybody who uses the function, which adds

    (m/(m−1))²·(1/m)(1−1/m)·(Σ f² − f_d²)/hashes

to the squared error of item d. It is a fixed bias of the deployed functions that more
people do not remove; intervals allow for it.

References
----------
Differential Privacy Team, Apple, "Learning with privacy at scale", 2017.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet import noise
from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet.errors import Hint, ParameterError
from discreet.local import _bits, _draws
from discreet.local import _rationals as rat
from discreet.local._aggregator import Tally
from discreet.local._bits import Counts, Words, item_words, read_items
from discreet.local._draws import Rng
from discreet.local._frequency import FrequencyEstimate
from discreet.local._hashing import Hashed, SharedHashes
from discreet.local._protocol import stated_parameters
from discreet.local._wire import Columns, Field

_CELLS = 1 << 20
"""Cells transformed at once on the server."""

_Coins = tuple[Fraction, Fraction, Fraction, tuple[Field, ...]]


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class _Sketch(Hashed):
    """Rows of a sketch under public hash functions."""

    stated: ClassVar[tuple[str, ...]] = (
        "epsilon", "domain", "width", "hashes", "campaign", "hash",
    )  # fmt: skip
    options: ClassVar[tuple[str, ...]] = ("candidates",)
    signed: ClassVar[bool] = False
    """Whether a report adds ±1 at a place of the transform of its row."""
    width: int
    hashes: int
    campaign: str
    own: Fraction
    chance: Fraction

    def __init__(
        self,
        epsilon: Number,
        domain: int | None = None,
        width: int = 1024,
        hashes: int = 256,
        campaign: str = "",
    ) -> None:
        eps = rat.read_epsilon(epsilon)
        m = rat.read_whole(width, "width", least=2, most=1 << 20)
        h = rat.read_whole(hashes, "hashes", most=1 << 20)
        own, chance, odds, rest = self._coins(eps, m)
        self._set(
            claimed=eps,
            odds=rat.checked_odds(odds, rat.odds_below(eps)),
            fields=(Field("row", limit=h), *rest),
            state_shape=(h, m),
            domain=0 if domain is None else rat.read_whole(domain, "domain", least=2),
            width=m,
            hashes=h,
            campaign=str(campaign),
            own=own,
            chance=chance,
            p=own,
            q=chance + (own - chance) / m,
        )

    @staticmethod
    @abstractmethod
    def _coins(eps: Fraction, width: int) -> _Coins:
        """Return P(support | same bucket), P(support | other bucket), odds, and further fields."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Exact parameters; an unknown domain is None."""
        return stated_parameters(self) | {"domain": self.domain or None}

    def parse(self, values: Any) -> tuple[Words, bool]:
        if self.domain:
            items, scalar = read_items(values, self.domain)
            return item_words(items), scalar
        return _bits.read_words(values, self.campaign)

    def buckets_of(self, words: Words, rows: NDArray[Any]) -> NDArray[np.uint32]:
        return _bits.hash_words(
            words, _bits.seed_words(self.hashes, self.campaign)[rows], self.width
        )

    def supports(self, tally: Tally, words: Words | None = None) -> Counts:
        """Return how many reports support each item."""
        targets = item_words(np.arange(self.domain)) if words is None else words
        total = np.zeros(len(targets), dtype=np.int64)
        block = max(1, _CELLS // self.width)
        for start in range(0, self.hashes, block):
            rows = tally.state[start : start + block]
            rows = _bits.hadamard(rows) if self.signed else rows
            for i in np.flatnonzero(rows.any(axis=1)):
                total += rows[i][self.buckets_of(targets, np.array([start + i]))]
        return (tally.n + total) // 2 if self.signed else total

    def read(self, tally: Tally, candidates: Sequence[Any] | None = None) -> FrequencyEstimate:
        """Read the shares of candidate values, or of the whole domain where it is known."""
        if candidates is None and not self.domain:
            raise ParameterError(
                "a sketch without a domain is read for candidates",
                hint=Hint("candidates", ["a", "b"]),
            )
        words, names = None, None
        if candidates is not None:
            names = tuple(candidates)
            words, _ = self.parse(list(names))
        return self.read_supports(tally, self.supports(tally, words), names)

    @property
    def shared(self) -> SharedHashes:
        """The public hash functions."""
        return SharedHashes(self.width, self.hashes)

    def _spread(self, counts: Counts, rng: Rng, values: Any) -> Counts:
        """Spread users over functions; return people per (function, bucket)."""
        words = item_words(np.arange(self.domain)) if values is None else self.parse(values)[0]
        spread, rows = np.zeros(self.state_shape, dtype=np.int64), np.arange(self.hashes)
        for word, people in zip(words, counts.tolist(), strict=True):
            spread[rows, self.buckets_of(word, rows)] += _draws.over_groups(
                people, self.hashes, rng
            )
        return spread


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class CountMeanSketch(_Sketch):
    """Apple's count-mean-sketch.

    Parameters
    ----------
    epsilon
        ε of one report.
    domain
        Values are 0, …, domain − 1; left out: any whole numbers or strings, read for candidates.
    width, hashes
        Columns and hash functions of the sketch.
    campaign
        Public name of the collection; separates its hashes from others'.

    Examples
    --------
    >>> from discreet import local
    >>> emoji = local.CountMeanSketch(epsilon=4, width=1024, hashes=65536)
    >>> emoji.report_bytes, round(1e8 * emoji.variance(0, 10**8) ** 0.5)
    (130, 4270)
    """

    name: ClassVar[str] = "count-mean-sketch"

    @staticmethod
    def _coins(eps: Fraction, width: int) -> _Coins:
        q = rat.round_up(1 / (rat.odds_below(eps, 2) + 1))
        return 1 - q, q, ((1 - q) / q) ** 2, (Field("bits", bits=width),)

    def draw(self, flat: Words) -> Columns:
        n = len(flat)
        rows = np.asarray(noise.uniform_many(self.hashes, n)).astype(self.fields[0].dtype)
        bits = _bits.coin_rows(self.chance, n, self.width)
        _bits.flip_bits(bits, self.buckets_of(flat, rows))
        return rows, bits

    def possible(self, state: Counts, n: int) -> bool:
        """No function has fewer reports than a column of it has ones."""
        within = (state >= 0).all() and (state <= n).all()
        return bool(within and state.max(axis=1).sum() <= n)

    def tally(self, state: Counts, columns: Columns) -> None:
        """Count set bits per function and column."""
        rows, bits = columns
        for row, part in _bits.grouped(bits, rows):
            state[row] += _bits.column_sums(part, self.width)

    def simulate_state(self, counts: Counts, rng: Rng, values: Any = None) -> Counts:
        """Draw the whole table: users over functions, then one binomial pair per cell."""
        spread = self._spread(counts, rng, values)
        own, others = (
            rng.binomial(spread, float(self.own)),
            spread.sum(axis=1, keepdims=True) - spread,
        )
        return np.asarray(own + rng.binomial(others, float(self.chance)))


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class HadamardSketch(_Sketch):
    """Apple's Hadamard count-mean-sketch: one bit and two indices.

    Parameters
    ----------
    epsilon, domain, width, hashes, campaign
        See :class:`CountMeanSketch`; `width` is a power of two.

    Examples
    --------
    >>> from discreet import local
    >>> safari = local.HadamardSketch(epsilon=4, width=32768, hashes=1024)
    >>> safari.report_bytes, round(1e8 * safari.variance(0, 10**8) ** 0.5)
    (5, 10373)
    """

    name: ClassVar[str] = "hadamard-sketch"
    signed: ClassVar[bool] = True

    @staticmethod
    def _coins(eps: Fraction, width: int) -> _Coins:
        if width & (width - 1):
            raise ParameterError("width must be a power of two", hint=Hint("width", 1024))
        kappa = rat.mixture(rat.odds_below(eps), 1, 2)
        rest = Field("column", limit=width), Field("bit", limit=2)
        return kappa + (1 - kappa) / 2, Fraction(1, 2), rat.mixture_odds(kappa, 1, 2), rest

    def draw(self, flat: Words) -> Columns:
        n = len(flat)
        row, column, bit = self.fields
        rows = np.asarray(noise.uniform_many(self.hashes, n)).astype(row.dtype)
        columns = np.asarray(noise.uniform_many(self.width, n)).astype(column.dtype)
        sign = _bits.parity(self.buckets_of(flat, rows) & columns)
        flips = np.asarray(noise.bernoulli_many(1 - self.own, n))
        return rows, columns, (sign ^ flips).astype(bit.dtype)

    def possible(self, state: Counts, n: int) -> bool:
        """Each report moved one cell by one: as far as all moves, but for those undone."""
        moves = np.abs(state)
        moved = int(moves.sum())
        return _bits.adds_up(moves, moved) and moved <= n and moved % 2 == n % 2

    def tally(self, state: Counts, columns: Columns) -> None:
        """Add +1 or −1 to the cell of each report."""
        row, column, bit = columns
        cell = row.astype(np.int64) * self.width + column
        size = state.size
        if size <= 8 * len(cell):
            both = np.bincount(cell * 2 + bit, minlength=2 * size).reshape(*state.shape, 2)
            state += both[..., 0] - both[..., 1]
        else:
            np.add.at(state.reshape(-1), cell, 1 - 2 * bit.astype(np.int64))

    def simulate_state(self, counts: Counts, rng: Rng, values: Any = None) -> Counts:
        """Draw the whole table.

        A report (column ℓ, bit s) of somebody in a bucket is uniform among those with
        parity(ℓ & bucket) ⊕ s = flip: a hyperplane.
        """
        spread = self._spread(counts, rng, values)
        out = np.zeros(self.state_shape, dtype=np.int64)
        block = max(1, _CELLS // (4 * self.width))
        for start in range(0, self.hashes, block):
            part = spread[start : start + block]
            table = np.zeros((len(part), self.width, 2, 2), dtype=np.int64)
            table[:, :, 1, 1] = rng.binomial(part, float(1 - self.own))
            table[:, :, 1, 0] = part - table[:, :, 1, 1]
            symbols = _draws.hyperplanes(table.reshape(len(part), -1, 2), rng)
            out[start : start + block] = symbols[:, ::2] - symbols[:, 1::2]
        return out
