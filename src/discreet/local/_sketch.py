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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet import noise
from discreet._exact import Number
from discreet.errors import ParameterError
from discreet.local import _bits
from discreet.local._aggregator import Tally
from discreet.local._bits import HASH, Counts, Words, item_words, read_items
from discreet.local._frequency import FrequencyEstimate, FrequencyProtocol, read_share
from discreet.local._intervals import Floats, clopper_pearson, normal_quantile
from discreet.local._rationals import (
    checked_odds,
    mixture,
    mixture_odds,
    odds_below,
    read_epsilon,
    read_whole,
    round_up,
)
from discreet.local._wire import Columns, Field

_CELLS = 1 << 20
"""Cells transformed at once on the server."""


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class _Sketch(FrequencyProtocol):
    """Rows of a sketch under public hash functions."""

    width: int
    hashes: int
    campaign: str
    own: Fraction
    chance: Fraction

    def _setup(
        self,
        *,
        eps: Fraction,
        odds: Fraction,
        domain: int | None,
        width: int,
        hashes: int,
        campaign: str,
        own: Fraction,
        chance: Fraction,
    ) -> None:
        """Set the fields; `own` and `chance` are P(support | same bucket, other bucket)."""
        m = read_whole(width, "width", least=2, most=1 << 20)
        self._set(
            claimed=eps,
            odds=odds,
            domain=0 if domain is None else read_whole(domain, "domain", least=2),
            width=m,
            hashes=read_whole(hashes, "hashes", most=1 << 20),
            campaign=str(campaign),
            own=own,
            chance=chance,
            p=own,
            q=chance + (own - chance) / m,
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """Exact parameters, as the spec carries them."""
        return {
            **self._stated(),
            "domain": self.domain or None,
            "width": self.width,
            "hashes": self.hashes,
            "campaign": self.campaign,
            "hash": HASH,
        }

    def parse(self, values: Any) -> tuple[Words, bool]:
        if self.domain:
            items, scalar = read_items(values, self.domain)
            return item_words(items), scalar
        return _bits.read_words(values, self.campaign)

    def buckets_of(self, words: Words, rows: NDArray[Any]) -> NDArray[np.uint32]:
        return _bits.hash_words(
            words, _bits.seed_words(self.hashes, self.campaign)[rows], self.width
        )

    @property
    def state_shape(self) -> tuple[int, ...]:
        """One integer per hash function and column."""
        return (self.hashes, self.width)

    def _rows(self, state: Counts) -> Counts:
        """Return rows whose entries at an item's buckets sum to its support."""
        return state

    def supports(self, tally: Tally, words: Words | None = None) -> Counts:
        """Return how many reports support each item."""
        wanted = item_words(np.arange(self.domain)) if words is None else words
        total = np.zeros(len(wanted), dtype=np.int64)
        block = max(1, _CELLS // self.width)
        for start in range(0, self.hashes, block):
            rows = self._rows(tally.state[start : start + block])
            for i in np.flatnonzero(rows.any(axis=1)):
                total += rows[i][self.buckets_of(wanted, np.array([start + i]))]
        return self._settled(total, tally.n)

    def _settled(self, total: Counts, n: int) -> Counts:  # noqa: ARG002 - the Hadamard form needs n
        return total

    def estimate(
        self, tally: Tally, candidates: Sequence[Any] | None = None, **options: Any
    ) -> FrequencyEstimate:
        """Read the shares of candidate values, or of the whole domain where it is known."""
        if options or (candidates is None and not self.domain):
            raise ParameterError(
                "a sketch without a domain is read for candidates", hint='candidates=["a", "b"]'
            )
        words, names = None, None
        if candidates is not None:
            names = tuple(candidates)
            words, _ = self.parse(list(names))
        return self.read_supports(tally, self.supports(tally, words), names)

    def read_supports(
        self, tally: Tally, counts: Counts, labels: tuple[Any, ...] | None = None
    ) -> FrequencyEstimate:
        """Read shares; standard errors include the collisions of shared hash functions."""
        found = FrequencyProtocol.read_supports(self, tally, counts, labels)
        collisions = [self.collision_variance(s) for s in _squares(found.frequencies)]
        return replace(
            found, standard_errors=np.sqrt(found.standard_errors**2 + np.array(collisions))
        )

    def collision_variance(self, squares: float = 1.0) -> float:
        """Return the squared error that shared hash functions add.

        Parameters
        ----------
        squares
            Σ f² of all other items' true shares; 1 is the worst case.
        """
        m = self.width
        return (m / (m - 1)) ** 2 / m * (1 - 1 / m) * squares / self.hashes

    def variance(
        self,
        frequency: Number = 0,
        n: int = 1,
        *,
        of: str = "respondents",
        squares: float = 0.0,
    ) -> float:
        """Return the exact variance of an item's share over coins *and* hash functions.

        Parameters
        ----------
        frequency, n, of
            See :meth:`KaryResponse.variance`.
        squares
            Σ f² of the other items' shares, for the collision term.
        """
        base = FrequencyProtocol.variance(self, read_share(frequency), n, of=of)
        return base + self.collision_variance(squares)

    def share_interval(
        self, counts: Counts, n: int, error: float, of: str
    ) -> tuple[Floats, Floats]:
        """Clopper–Pearson at half the error, widened by the collision term at the other half."""
        if of == "respondents":
            raise ParameterError(
                "shared hash functions: only intervals for the population are offered",
                hint='of="population"',
            )
        p, q = float(self.p), float(self.q)
        low, high = clopper_pearson(counts, n, error / 2)
        shares = (counts / n - q) / (p - q)
        reach = normal_quantile(error / 2) * np.sqrt(
            [self.collision_variance(s) for s in _squares(shares)]
        )
        return (low - q) / (p - q) - reach, (high - q) / (p - q) + reach


def _squares(shares: Floats) -> list[float]:
    """Estimate Σ f² of the other items; what the candidates leave over counts as one item."""
    known = np.clip(shares, 0, 1)
    rest = max(0.0, 1 - float(known.sum()))
    total = float(np.sum(known**2)) + rest**2
    return [min(1.0, max(0.0, total - f * f)) for f in known.tolist()]


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

    def __init__(
        self,
        epsilon: Number,
        domain: int | None = None,
        width: int = 1024,
        hashes: int = 256,
        campaign: str = "",
        *,
        hash: str = HASH,  # noqa: A002 - the field's own word, as the spec spells it
    ) -> None:
        _check_hash(hash)
        eps = read_epsilon(epsilon)
        q = round_up(1 / (odds_below(eps, 2) + 1))
        odds = checked_odds(((1 - q) / q) ** 2, odds_below(eps))
        self._setup(
            eps=eps, odds=odds, domain=domain, width=width, hashes=hashes, campaign=campaign,
            own=1 - q, chance=q,
        )  # fmt: skip

    @property
    def fields(self) -> tuple[Field, ...]:
        """Hash function and bits."""
        return (Field("row", limit=max(2, self.hashes)), Field("bits", bits=self.width))

    @property
    def _row_bytes(self) -> int:
        return self.width // 2 + 64

    def draw(self, flat: Words) -> Columns:
        n = len(flat)
        rows = np.asarray(noise.uniform_many(self.hashes, n)).astype(self.fields[0].dtype)
        bits = _bits.coin_rows(self.chance, n, self.width)
        _bits.flip_bits(bits, self.buckets_of(flat, rows))
        return rows, bits

    def valid(self, columns: Columns) -> NDArray[np.bool_]:
        """Refuse unknown functions and stray bits."""
        return (columns[0] < self.hashes) & ~_bits.stray_bits(columns[1], self.width)

    def tally(self, state: Counts, columns: Columns) -> None:
        """Count set bits per function and column."""
        rows, bits = columns
        order = np.argsort(rows, kind="stable")
        present, first = np.unique(rows[order], return_index=True)
        edges = np.append(first, len(rows))
        ordered = bits[order]
        for i, row in enumerate(present):
            state[row] += _bits.column_sums(ordered[edges[i] : edges[i + 1]], self.width)

    def simulate_state(self, counts: Counts, rng: np.random.Generator) -> Counts:
        """Draw the whole table: users over functions, then one binomial pair per cell."""
        held, people = _spread(self, counts, rng)
        return np.asarray(
            rng.binomial(held, float(self.own))
            + rng.binomial(people[:, None] - held, float(self.chance))
        )


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

    def __init__(
        self,
        epsilon: Number,
        domain: int | None = None,
        width: int = 1024,
        hashes: int = 256,
        campaign: str = "",
        *,
        hash: str = HASH,  # noqa: A002 - the field's own word, as the spec spells it
    ) -> None:
        _check_hash(hash)
        eps = read_epsilon(epsilon)
        if read_whole(width, "width", least=2, most=1 << 20) & (width - 1):
            raise ParameterError("width must be a power of two", hint="width=1024")
        kappa = mixture(odds_below(eps), 1, 2)
        odds = checked_odds(mixture_odds(kappa, 1, 2), odds_below(eps))
        own = kappa + (1 - kappa) / 2
        self._setup(
            eps=eps, odds=odds, domain=domain, width=width, hashes=hashes, campaign=campaign,
            own=own, chance=Fraction(1, 2),
        )  # fmt: skip

    @property
    def fields(self) -> tuple[Field, ...]:
        """Hash function, column and bit."""
        return (
            Field("row", limit=max(2, self.hashes)),
            Field("column", limit=self.width),
            Field("bit", limit=2),
        )

    @property
    def _row_bytes(self) -> int:
        return 48

    def draw(self, flat: Words) -> Columns:
        n = len(flat)
        row, column, bit = self.fields
        rows = np.asarray(noise.uniform_many(self.hashes, n)).astype(row.dtype)
        columns = np.asarray(noise.uniform_many(self.width, n)).astype(column.dtype)
        sign = _bits.parity(self.buckets_of(flat, rows) & columns)
        flips = np.asarray(noise.bernoulli_many(1 - self.own, n))
        return rows, columns, (sign ^ flips).astype(bit.dtype)

    def valid(self, columns: Columns) -> NDArray[np.bool_]:
        """Refuse unknown functions, columns and bits."""
        row, column, bit = columns
        return np.asarray((row < self.hashes) & (column < self.width) & (bit < 2))

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

    def _rows(self, state: Counts) -> Counts:
        return _bits.hadamard(state)

    def _settled(self, total: Counts, n: int) -> Counts:
        return (n + total) // 2

    def simulate_state(self, counts: Counts, rng: np.random.Generator) -> Counts:
        """Draw the whole table: per function, users over columns, then flipped signs."""
        held, people = _spread(self, counts, rng)
        out = np.zeros(self.state_shape, dtype=np.int64)
        columns = np.arange(self.width)
        for row in np.flatnonzero(people):
            for bucket in np.flatnonzero(held[row]):
                on = rng.multinomial(held[row, bucket], np.full(self.width, 1 / self.width))
                kept = rng.binomial(on, float(self.own))
                sign = 1 - 2 * _bits.parity(columns & bucket).astype(np.int64)
                out[row] += sign * (2 * kept - on)
        return out


def _check_hash(name: str) -> None:
    if name != HASH:
        raise ParameterError(f"the hash is {HASH!r}, not another one", hint=f'hash="{HASH}"')


def _spread(sketch: _Sketch, counts: Counts, rng: np.random.Generator) -> tuple[Counts, Counts]:
    """Spread users over functions; return people per (function, bucket) and per function."""
    per_row = rng.multinomial(counts, np.full(sketch.hashes, 1 / sketch.hashes))
    words = item_words(np.arange(len(counts)))
    held = np.zeros(sketch.state_shape, dtype=np.int64)
    for row in range(sketch.hashes):
        np.add.at(held[row], sketch.buckets_of(words, np.array([row])), per_row[:, row])
    return held, per_row.sum(axis=0)
