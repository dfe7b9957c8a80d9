"""Subset selection: send a random set of ω items that is likely to hold the value.

Guarantee
---------
With probability p the set holds the value and ω−1 uniform others, with probability
1−p it holds ω uniform others. Sets with the value have probability p/C(k−1, ω−1),
sets without it (1−p)/C(k−1, ω); their ratio p(k−ω)/((1−p)ω) = odds ≤ e^ε, as p is
rounded down from ωρ/(ωρ+k−ω), ρ ≤ e^ε (Ye, Barg 2018; Wang et al. 2016).

With ω near k/(e^ε+1) its variance is the least of all protocols here, or tied; ω = 1 is
k-ary randomized response.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet import noise
from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet.errors import Hint, ParameterError
from discreet.local import _bits
from discreet.local import _rationals as rat
from discreet.local._bits import Counts
from discreet.local._draws import Rng
from discreet.local._frequency import FrequencyProtocol
from discreet.local._wire import Columns, Field

_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class SubsetSelection(FrequencyProtocol):
    """Subset selection: the least variance, at the price of a bit per item.

    Parameters
    ----------
    domain, epsilon
        See :class:`~discreet.local.KaryResponse`.
    size
        Number ω of items in a set. Left out: the ω of least variance.

    Examples
    --------
    >>> from discreet import local
    >>> protocol = local.SubsetSelection(domain=16, epsilon=1)
    >>> protocol.size, round(protocol.variance(), 4)
    (4, 3.1107)
    """

    name: ClassVar[str] = "subset-selection"
    stated: ClassVar[tuple[str, ...]] = ("domain", "epsilon", "size")
    size: int
    inside: Fraction

    def __init__(self, domain: int, epsilon: Number, size: int | None = None) -> None:
        k = rat.read_whole(domain, "domain", least=2, most=1 << 16)
        eps = rat.read_epsilon(epsilon)
        rho = rat.odds_below(eps)
        w = _best_size(k, rho) if size is None else rat.read_whole(size, "size", most=k - 1)
        inside = rat.round_down(w * rho / (w * rho + k - w))
        odds = rat.checked_odds(inside * (k - w) / ((1 - inside) * w), rho)
        self._set(claimed=eps, odds=odds, domain=k, size=w, inside=inside, p=inside,
                  q=_other(inside, w, k), fields=(Field("bits", bits=k),), state_shape=(k,),
                  row_bytes=64 if k <= 64 else 9 * k)  # fmt: skip

    def draw(self, flat: NDArray[Any]) -> Columns:
        holds = np.asarray(noise.bernoulli_many(self.inside, len(flat)))
        if self.domain <= 64:
            masks = self._floyd(flat.astype(np.uint64), holds)
            rows = masks.astype("<u8", copy=False).view(np.uint8).reshape(len(flat), 8)
            return (np.ascontiguousarray(rows[:, : self.fields[0].width]),)
        return (_bits.pack(self._ranked(flat, holds)),)

    def _floyd(self, flat: NDArray[np.uint64], holds: NDArray[np.bool_]) -> NDArray[np.uint64]:
        """Draw masks of other items by Floyd's algorithm, then open a gap for the value."""
        n, others = len(flat), self.domain - 1
        mask = np.zeros(n, dtype=np.uint64)
        for j in range(others - (self.size - 1), others):
            bit = _ONE << np.asarray(noise.uniform_many(j + 1, n)).astype(np.uint64)
            bit[(mask & bit) != 0] = _ONE << np.uint64(j)
            mask |= bit
        # who leaves the value out needs one more item: draw until it is new
        rest = np.flatnonzero(~holds)
        while rest.size:
            bit = _ONE << np.asarray(noise.uniform_many(others, rest.size)).astype(np.uint64)
            new = (mask[rest] & bit) == 0
            mask[rest[new]] |= bit[new]
            rest = rest[~new]
        below = (_ONE << flat) - _ONE
        opened = ((mask & ~below) << _ONE) | (mask & below)
        return opened | np.where(holds, _ONE << flat, np.uint64(0))

    def _ranked(self, flat: NDArray[Any], holds: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Draw sets as the ω smallest of random keys; the value's key is forced to an end.

        A tie at the cut leaves a set of the wrong size; such rows are drawn again,
        which favours no other item because the rule treats them alike.
        """
        n, k = len(flat), self.domain
        out = np.zeros((n, k), dtype=bool)
        rest = np.arange(n)
        while rest.size:
            words = np.asarray(noise.random_words(-(-rest.size * k // 2)))
            keys = words.view(np.uint32)[: rest.size * k].reshape(rest.size, k)
            # keys are narrowed by one at each end, so that the forced ones are extreme
            keys = np.clip(keys, 1, 0xFFFFFFFE)
            keys[np.arange(rest.size), flat[rest]] = np.where(holds[rest], 0, 0xFFFFFFFF)
            cut = np.partition(keys, self.size - 1, axis=1)[:, self.size - 1]
            sets = keys <= cut[:, None]
            good = np.count_nonzero(sets, axis=1) == self.size
            out[rest[good]] = sets[good]
            rest = rest[~good]
        return out

    def valid(self, columns: Columns) -> NDArray[np.bool_]:
        """Refuse sets of another size."""
        rows = columns[0]
        whole = _bits.row_ones(rows) == self.size
        return np.asarray(whole & ~_bits.stray_bits(rows, self.domain))

    def possible(self, state: Counts, n: int) -> bool:
        """Each report holds `size` items."""
        return bool((state <= n).all()) and _bits.adds_up(state, n * self.size)

    def tally(self, state: Counts, columns: Columns) -> None:
        """Count the sets that hold each item."""
        state += _bits.column_sums(columns[0], self.domain)

    def simulate_state(self, counts: Counts, rng: Rng, values: Any = None) -> Counts:  # noqa: ARG002 - all items
        """Draw from the joint law, one item at a time.

        People stand in classes: whether their value is still to come, whether their set
        holds it, and how many other items their set lacks. Whose value comes now is a
        random part of those still waiting; everybody else takes the item with chance
        lacking / others to come.
        """
        n, k, w = int(counts.sum()), self.domain, self.size
        if n >= 10**9:
            raise ParameterError(
                "sets are simulated for fewer than 10⁹ people", hint=Hint("n", 10**8)
            )
        lacking = np.arange(w + 1)
        waiting, passed = np.zeros((2, w + 1), np.int64), np.zeros((2, w + 1), np.int64)
        waiting[1, w - 1] = rng.binomial(n, float(self.inside))
        waiting[0, w] = n - waiting[1, w - 1]
        out = np.zeros(k, dtype=np.int64)
        for item in range(k):
            now = rng.multivariate_hypergeometric(
                waiting.reshape(-1), int(counts[item]), method="marginals"
            ).reshape(2, -1)
            waiting = waiting - now
            out[item] = now[1].sum()
            for group, others in ((waiting, k - item - 1), (passed, k - item)):
                hits = rng.binomial(group, np.minimum(lacking / max(others, 1), 1.0))
                out[item] += hits.sum()
                group -= hits  # noqa: PLW2901 - in place
                group[:, :-1] += hits[:, 1:]
            passed += now
        return out

    def law(self, value: int) -> dict[tuple[int, ...], Fraction]:
        """Return the exact probability of each set."""
        k, w = self.domain, self.size
        own = self.inside / math.comb(k - 1, w - 1)
        bare = (1 - self.inside) / math.comb(k - 1, w)
        return {s: own if value in s else bare for s in itertools.combinations(range(k), w)}


def _other(inside: Fraction, size: int, domain: int) -> Fraction:
    """Return the chance that a set holds a given item that is not the value."""
    return (inside * (size - 1) + (1 - inside) * size) / (domain - 1)


def _best_size(domain: int, rho: Fraction) -> int:
    """Return the ω of least variance for rare items."""
    centre = domain / (rho + 1)

    def variance(size: int) -> Fraction:
        p = size * rho / (size * rho + domain - size)
        q = _other(p, size, domain)
        return q * (1 - q) / (p - q) ** 2

    near = {math.floor(centre), math.ceil(centre)}
    return min((min(max(w, 1), domain - 1) for w in near), key=variance)
