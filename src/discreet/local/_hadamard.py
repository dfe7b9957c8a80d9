r"""Hadamard response: a symbol from a set given by a row of a Hadamard matrix.

Guarantee
---------
Symbols 0, …, K−1 come in B blocks of b. Item x owns, in its block, the h = b/2 symbols y with
H[row, y] = +1, row ≥ 1. With probability κ the report is uniform on these, otherwise
uniform on all K: odds = 1 + κK/(h(1−κ)) ≤ e^ε (Acharya, Sun, Zhang 2019).

Two rows of one block agree on exactly half of each other's symbols, and
different blocks share none, so N(own symbols) − N(rest of the block) has mean n·f·κ
whatever the other items do, and all of them come from one fast
transform in integers. Given the respondents,

    n·Var(f̂) = [f(π_in − κ²) + (F−f)π_in + (1−F)π_out]/κ²,   π_in = κ + (1−κ)/B, π_out = (1−κ)/B,

with F the share of the item's block. B is chosen to minimise it at f = 0, F = 1/B.

Row x itself instead of x+1 would give item 0 the whole block: hence row ≥ 1.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet import noise
from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet.errors import Hint, ParameterError
from discreet.local import _bits, _draws, _intervals
from discreet.local import _rationals as rat
from discreet.local._aggregator import Tally
from discreet.local._bits import Counts
from discreet.local._draws import Rng
from discreet.local._estimate import population_only
from discreet.local._frequency import (
    FrequencyEstimate,
    FrequencyProtocol,
    bernstein_tail,
    read_share,
)
from discreet.local._intervals import TWICE, Floats, clopper_pearson
from discreet.local._postprocess import norm_sub
from discreet.local._wire import Columns, Field

_STEPS, _STILL = 5000, 1e-9
"""Steps of expectation maximisation, and when shares count as still."""


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class HadamardResponse(FrequencyProtocol):
    """Hadamard response: few bytes and a fast server for large domains.

    Parameters
    ----------
    domain, epsilon
        See :class:`~discreet.local.KaryResponse`.
    blocks
        Number B of blocks, a power of two. Left out: the B of least variance.

    Examples
    --------
    >>> from discreet import local
    >>> protocol = local.HadamardResponse(domain=64, epsilon=1)
    >>> protocol.blocks, protocol.symbols, round(protocol.variance(), 4)
    (1, 128, 4.6827)
    """

    name: ClassVar[str] = "hadamard-response"
    in_one_cell: ClassVar[bool] = True
    stated: ClassVar[tuple[str, ...]] = ("domain", "epsilon", "blocks")
    blocks: int
    block: int
    symbols: int
    """Number K of symbols."""
    kappa: Fraction

    def __init__(self, domain: int, epsilon: Number, blocks: int | None = None) -> None:
        k = rat.read_whole(domain, "domain", least=2, most=1 << 24)
        eps = rat.read_epsilon(epsilon)
        rho = rat.odds_below(eps)
        B = _best_blocks(k, rho) if blocks is None else rat.read_whole(blocks, "blocks", most=k)
        if B & (B - 1):
            raise ParameterError(f"blocks must be a power of two, got {B}", hint=Hint("blocks", 4))
        b = 1 << (-(-k // B)).bit_length()
        K = B * b
        kappa = rat.mixture(rho, b // 2, K)
        odds = rat.checked_odds(rat.mixture_odds(kappa, b // 2, K), rho)
        uniform = (1 - kappa) / (2 * B)
        self._set(claimed=eps, odds=odds, domain=k, blocks=B, block=b, symbols=K, kappa=kappa,
                  p=kappa + uniform, q=kappa / 2 + uniform, state_shape=(K,),
                  fields=(Field("symbol", limit=K),))  # fmt: skip

    def _place(self, items: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return block and row of each item."""
        block, row = np.divmod(items, items.dtype.type(self.block - 1))
        return block, row + items.dtype.type(1)

    def draw(self, flat: NDArray[Any]) -> Columns:
        n = len(flat)
        out = np.asarray(noise.uniform_many(self.symbols, n))
        keepers = np.flatnonzero(np.asarray(noise.bernoulli_many(self.kappa, n)))
        wide = np.uint16 if self.symbols <= 1 << 14 else np.uint32
        block, row = self._place(flat[keepers].astype(wide))
        index = np.asarray(noise.uniform_many(self.block // 2, keepers.size)).astype(wide)
        # the index-th symbol that agrees with the row: leave out one bit that is set in the row,
        # then set it if the parity asks for it
        bit = row & (~row + wide(1))
        low = index & (bit - wide(1))
        column = ((index ^ low) << wide(1)) | low
        column |= np.where(_bits.parity(column & row), bit, wide(0))
        out[keepers] = block * wide(self.block) + column
        return (out,)

    def tally(self, state: Counts, columns: Columns) -> None:
        """Count the symbols."""
        state += np.bincount(columns[0], minlength=self.symbols)

    def supports(self, tally: Tally) -> Counts:
        """Return the reports on each item's own symbols and, below, on the rest of its block."""
        table = tally.state.reshape(self.blocks, self.block)
        block, row = self._place(np.arange(self.domain))
        total, difference = table.sum(axis=1)[block], _bits.hadamard(table)[block, row]
        return np.array([(total + difference) // 2, (total - difference) // 2])

    def read(self, tally: Tally) -> FrequencyEstimate:
        """Read shares from what was tallied."""
        sides = self.supports(tally)
        own, rest = sides
        mean, kappa = (own - rest) / tally.n, float(self.kappa)
        # the item's share lies in [0, 1], its block's between that and 1: no error is 0
        likely, outside = np.clip(mean, 0, kappa), (1 - kappa) / self.blocks
        within = np.clip((own + rest) / tally.n, outside + likely, outside + kappa)
        error = np.sqrt((within - likely**2) / tally.n)
        return FrequencyEstimate(self, tally, sides, mean / kappa, error / kappa)

    def variance(
        self,
        frequency: Number = 0,
        n: int = 1,
        *,
        of: str = "respondents",
        block_share: Number | None = None,
    ) -> float:
        """Return the exact variance of an item's estimated share from `n` reports.

        Parameters
        ----------
        frequency, n, of
            See :meth:`KaryResponse.variance`.
        block_share
            True share of the item's whole block; 1/blocks (at least `frequency`) if
            left out.
        """
        _intervals.read_of(of)
        f = read_share(frequency)
        F = max(f, Fraction(1, self.blocks)) if block_share is None else read_share(block_share)
        inside = self.kappa + (1 - self.kappa) / self.blocks
        outside = (1 - self.kappa) / self.blocks
        second = F * inside + (1 - F) * outside
        mean = f * self.kappa**2 if of == "respondents" else (f * self.kappa) ** 2
        return float((second - mean) / self.kappa**2 / rat.read_whole(n, "n", most=1 << 62))

    @property
    def gain(self) -> float:
        """Shift of one share, per unit share of fake clients, when it was 0."""
        return float(1 / self.kappa)

    def share_interval(
        self, counts: Counts, n: int, error: float, of: str
    ) -> tuple[Floats, Floats]:
        """Return valid bounds: exact binomial for one block, else two Clopper–Pearson bounds.

        With several blocks the share of the item's block is unknown; both sides are
        bounded at half the error each, and the bounds are subtracted.
        """
        if self.blocks == 1:
            return FrequencyProtocol.share_interval(self, counts[0], n, error, of)
        population_only(of)
        own, rest = counts
        a, b = clopper_pearson(own, n, error / 2)
        c, d = clopper_pearson(rest, n, error / 2)
        return (a - d) / float(self.kappa), (b - c) / float(self.kappa)

    def interval_method(self, of: str) -> str:
        """Say how bounds for shares are found."""
        return FrequencyProtocol.interval_method(self, of) if self.blocks == 1 else TWICE

    def likelihood(self, tally: Tally, counts: Counts) -> Floats:
        """Return the shares of maximum likelihood, given all symbols.

        Expectation maximisation from the projected estimates; one fast transform forth and
        one back per step.
        """
        block, row = self._place(np.arange(self.domain))
        place, shape = block * self.block + row, (self.blocks, self.block)
        symbols = tally.state.reshape(shape) / tally.n
        near, far = float(self.kappa) / self.block, (1 - float(self.kappa)) / self.symbols
        raw = norm_sub((counts[0] - counts[1]) / (tally.n * float(self.kappa)))
        shares = (raw + 1e-4 / self.domain) / (1 + 1e-4)
        for _ in range(_STEPS):
            table = np.zeros(self.symbols)
            table[place] = shares
            grid = table.reshape(shape)
            # H[row, y] = ±1: an item's own symbols are those with +1
            law = near * (grid.sum(axis=1, keepdims=True) + _bits.hadamard(grid)) + far
            pull = symbols / law
            back = near * (pull.sum(axis=1, keepdims=True) + _bits.hadamard(pull))
            step = shares * (back.reshape(-1)[place] + far * pull.sum())
            moved = float(np.abs(step - shares).max())
            shares = step / step.sum()
            if moved < _STILL:
                break
        return shares

    def sum_tail(self, estimate: FrequencyEstimate) -> float:
        """Bound the chance of so large or so small a sum: one report may support all items."""
        return bernstein_tail(estimate, self.domain * self.gain)

    def suspicions(self, tally: Tally) -> list[str]:
        """Name a column 0 that too many chose: it supports every item of its block."""
        chance = float(self.kappa / (self.block // 2) + (1 - self.kappa) / self.symbols)
        first = int(tally.state.reshape(self.blocks, self.block)[:, 0].max())
        # 7 standard deviations above the most that honest people send there
        bound = tally.n * chance + 7 * math.sqrt(tally.n * chance * (1 - chance)) + 7
        return [f"{first} reports chose a symbol that supports every item"] * (first > bound)

    def simulate_state(self, counts: Counts, rng: Rng, values: Any = None) -> Counts:  # noqa: ARG002 - all items
        """Draw from the joint law: uniform symbols, and kept ones on the items' own symbols."""
        keepers = rng.binomial(counts, float(self.kappa))
        rest = int(counts.sum() - keepers.sum())
        block, row = self._place(np.arange(self.domain))
        table = np.zeros((self.blocks, self.block, 2), dtype=np.int64)
        table[block, row, 0] = keepers
        own = _draws.hyperplanes(table, rng).reshape(-1)
        return np.asarray(own + _draws.over_groups(rest, self.symbols, rng))

    def law(self, value: int) -> list[Fraction]:
        """Return the exact probability of each symbol."""
        block, row = divmod(value, self.block - 1)
        uniform = (1 - self.kappa) / self.symbols
        lifted = uniform + self.kappa / (self.block // 2)
        own = (y // self.block == block and not ((y % self.block) & (row + 1)).bit_count() % 2
               for y in range(self.symbols))  # fmt: skip
        return [lifted if mine else uniform for mine in own]


def _best_blocks(domain: int, rho: Fraction) -> int:
    """Return the B of least variance for rare items spread evenly over blocks."""

    def variance(B: int) -> Fraction:
        kappa = (rho - 1) / (rho - 1 + 2 * B)
        return (kappa / B + (1 - kappa) / B) / kappa**2

    choices = [1 << i for i in range(domain.bit_length()) if 1 << i <= domain]
    return min(choices, key=variance)
