"""Continual release: counts and sums over time, published tick by tick.

The unit is **one person at one tick**: a neighbour adds, removes or changes what one person
contributes to a single tick, by at most `bound` (1 for counts). A person who appears at k ticks is
protected as a group of k such units: ‖sum of k shifted columns‖² ≤ k²·Σĉ², so state ``ticks=k``.

Gaussian noise (ρ, or ε and δ)
------------------------------
Prefix sums are A = C·C with Toeplitz c_k = c_{k−1}(2k−1)/(2k) (Henzinger, Upadhyay, Upadhyay 2023).
Adding real-valued correlated noise to integers has no proof on a lattice, and adding integer
noise to a real-valued Cx has neighbours with different supports. So the factor is made integer:
ĉ_k = round(S·c_k), and released are

    y_t = Σ_s ĉ_{t−s}·x_s + discrete Gaussian of σ²·Σĉ²,

whole numbers with squared sensitivity exactly bound²·Σ_{k<horizon} ĉ_k² (the column of the
first tick is the longest). Inputs may depend on earlier outputs: Ĉ is lower triangular, and the
Gaussian mechanism is ρ-zCDP for each step given the past, with Σ_t ĉ_{t−s}²/(2σ²Σĉ²) in all for
the one tick s that differs. The prefix sum is estimated from public y: solve Ĉx̂ = y by x̂_t =
(y_t − Σ_{k≥1} ĉ_k x̂_{t−k})/ĉ_0, then cumulate. S = 4096 costs less than 1 in 10⁴ of the error.

Laplace noise (pure ε)
----------------------
A tree of branching 16: node sums of 16^l ticks, each level with ε/levels; the prefix is the sum of
completed nodes. A unit is in one node of each level; the root is never measured.

Nothing is paid twice: the whole stream is one mechanism whose price is fixed at the start.
A missed tick is a tick with nothing in it. The object holds private counts (they enter later
outputs), so it must not be shown; its repr and its record hold public numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet import _exact
from discreet import privacy as p
from discreet._exact import Number
from discreet.errors import Hint, ParameterError
from discreet.mechanisms import Interval
from discreet.privacy import Neighbours
from discreet.release._price import Price, cost, variance

if TYPE_CHECKING:
    from discreet.curator import Curator
    from discreet.release._feed import Feed

SCALE = 4096
BRANCHING = 16


def square_root(horizon: int, scale: int = SCALE) -> NDArray[np.int64]:
    """Return the integer Toeplitz factor ĉ."""
    k = np.arange(1, horizon)
    c = np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])
    return np.asarray(np.rint(scale * c), dtype=np.int64)


def inverse_series(c: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the power series 1/ĉ by Newton's iteration with fast convolutions."""
    c = c.astype(np.float64)
    n, g, m = len(c), np.array([1 / float(c[0])]), 1
    while m < n:
        m = min(2 * m, n)
        width = 1 << (2 * m).bit_length()
        known = np.fft.rfft(g, width)
        t = -np.fft.irfft(np.fft.rfft(c[:m], width) * known, width)[:m]
        t[0] += 2
        g = np.fft.irfft(known * np.fft.rfft(t, width), width)[:m]
    return np.asarray(g)


class Stream:
    """Counts over time under one price for the whole horizon.

    Parameters
    ----------
    horizon
        Number of ticks the price covers.
    epsilon, delta, rho
        The price: ε (tree, Laplace noise), or ε and δ, or ρ (square root, Gaussian noise).
    every
        Name of a tick, for instance "day": it names the unit.
    bound
        Most that one person adds to one tick, a whole number.
    ticks
        At how many ticks one person may appear.
    neighbours
        "add-remove" or "change-one" of one person's contribution to one tick.

    Examples
    --------
    >>> from discreet import release
    >>> visits = release.Stream(every="day", horizon=365, rho="0.1")
    >>> first = visits.tick(120)
    >>> visits.unit
    'person-day'
    """

    def __init__(
        self,
        *,
        horizon: int,
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
        every: str = "tick",
        bound: int = 1,
        ticks: int = 1,
        neighbours: Neighbours | str = "add-remove",
    ) -> None:
        for name, value in (("horizon", horizon), ("bound", bound), ("ticks", ticks)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ParameterError(
                    f"{name} must be a whole number, at least 1", hint=Hint(name, 1)
                )
        if horizon > 1 << 20 or ticks > horizon:
            raise ParameterError("a horizon has at most 2^20 ticks, and no person has more ticks",
                                 hint=Hint("horizon", 365))  # fmt: skip
        self.horizon, self.every, self.bound, self.ticks = horizon, every, bound, ticks
        self.price = Price.read(epsilon, delta, rho)
        self.neighbours = Neighbours(neighbours)
        self._moved = bound * ticks * (1 if self.neighbours is Neighbours.ADD_REMOVE else 2)
        self._private: list[int] = []
        self.released: list[NDArray[Any]] = []
        self._prepare()

    def _prepare(self) -> None:
        if self.price.pure:
            self._levels = 1
            while BRANCHING**self._levels < self.horizon:
                self._levels += 1
            l1 = self._moved * self._levels
            self.law = self.price.law(l1, 1)
            self.loss = cost(self.law, l1, 1, 1, self.neighbours).under(self.neighbours, self.unit)
            self._widths = [BRANCHING**level for level in range(self._levels)]
            self._closed: list[list[float]] = [[] for _ in range(self._levels)]
            return
        self._factor = square_root(self.horizon)
        squares = sum(int(c) ** 2 for c in self._factor.tolist())
        self.sensitivity2 = self._moved**2 * squares
        self.law = self.price.law(1, self.sensitivity2, rows=self.horizon)
        self.loss = cost(self.law, 1, self.sensitivity2, self.horizon, self.neighbours).under(
            self.neighbours, self.unit
        )
        self._solved: list[float] = []

    @property
    def unit(self) -> str:
        """Whose data is protected: one person at one tick (or at several)."""
        one = f"person-{self.every}"
        return one if self.ticks == 1 else f"person with {self.ticks} {self.every}s"

    @property
    def now(self) -> int:
        """Number of ticks so far."""
        return len(self.released)

    def tick(self, value: int = 0) -> float:
        """Take one tick's private count and return the estimated sum so far.

        Parameters
        ----------
        value
            The tick's count or clipped sum, a whole number; 0 for a missed tick.
        """
        if self.now >= self.horizon:
            raise ParameterError(
                f"the price covers {self.horizon} ticks and they are over",
                hint="open a new stream, with a price of its own",
            )
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise ParameterError("a tick takes a whole number", hint="stream.tick(12)")
        self._private.append(int(value))
        exact = self.exact(self._private)
        return self.accept(self.law.sample(len(exact)) + np.array(exact, dtype=object))

    def exact(self, history: Sequence[int]) -> list[int]:
        """Return the integers to which the last tick of a history adds noise. PRIVATE."""
        t = len(history)
        if self.price.pure:
            # every node of the tree that ends at this tick
            return [sum(history[-width:]) for width in self._widths if t % width == 0]
        factor = self._factor[:t][::-1].tolist()
        return [sum(int(c) * v for c, v in zip(factor, history, strict=True))]

    def accept(self, y: NDArray[Any]) -> float:
        """Take the released integers of the next tick; return the estimated sum so far."""
        self.released.append(y)
        t = len(self.released)
        if self.price.pure:
            closed = [level for level, width in enumerate(self._widths) if t % width == 0]
            for level, value in zip(closed, y.tolist(), strict=True):
                self._closed[level].append(float(value))
            return self.total
        past = np.asarray(self._solved)
        known = float(self._factor[1:t][::-1].astype(np.float64) @ past) if t > 1 else 0.0
        self._solved.append((float(y[0]) - known) / float(self._factor[0]))
        return self.total

    def _nodes(self, t: int) -> list[tuple[int, int]]:
        """Return the completed nodes that make up the first t ticks."""
        out, start = [], 0
        for level in range(self._levels - 1, -1, -1):
            width = BRANCHING**level
            while start + width <= t:
                out.append((level, start // width))
                start += width
        return out

    def follow(
        self,
        curator: Curator,
        table: str,
        column: str,
        *,
        start: Any,
        value: str | None = None,
        where: str | None = None,
    ) -> Feed:
        """Publish a curator's table tick by tick, with the state in its ledger.

        Parameters
        ----------
        curator, table
            Whose rows are counted. A row must be its own unit.
        column
            The column that says at which tick a row counts: a date, or a whole number.
        start
            Public first day (or number) of the first tick.
        value
            A column to be added up, instead of rows to be counted.
        where
            Which rows.
        """
        from discreet.release._feed import follow  # noqa: PLC0415 - only with a curator

        return follow(self, curator, table, column, start=start, value=value, where=where)

    def std(self, t: int | None = None) -> float:
        """Return the standard deviation of the estimated sum of the first t ticks."""
        t = self.horizon if t is None else t
        if not 1 <= t <= self.horizon:
            raise ParameterError(f"t must lie between 1 and {self.horizon}", hint=Hint("t", 1))
        if self.price.pure:
            return math.sqrt(variance(self.law) * len(self._nodes(t)))
        decoder = np.cumsum(inverse_series(self._factor[:t]))
        return math.sqrt(variance(self.law) * float((decoder**2).sum()))

    def interval(self, confidence: Number = 0.95) -> Interval:
        """Return an interval for the sum so far, by Chebyshev's inequality: it surely covers."""
        level = _exact.confidence(confidence)
        if not self.now:
            raise ParameterError("nothing has been released yet", hint="stream.tick(12)")
        reach = self.std(self.now) / math.sqrt(1 - level)
        value = self.total
        return Interval(value - reach, value + reach, level)

    @property
    def total(self) -> float:
        """The estimated sum so far."""
        if self.price.pure:
            return math.fsum(self._closed[level][node] for level, node in self._nodes(self.now))
        return math.fsum(self._solved)

    def terms(self) -> dict[str, Any]:
        """Return the public parameters."""
        return {
            "kind": "stream",
            "every": self.every,
            "unit": self.unit,
            "horizon": self.horizon,
            "neighbours": str(self.neighbours),
            "price": str(self.price),
            "law": self.law.to_dict(),
        }

    def record(self) -> dict[str, Any]:
        """Return what was released, and the public parameters."""
        return {
            **self.terms(),
            "released": [[int(v) for v in y.tolist()] for y in self.released],
        }

    def __repr__(self) -> str:
        return (
            f"Stream({self.now} of {self.horizon} {self.every}s, {self.price}, one {self.unit}, "
            f"{self.neighbours})"
        )


def column_moves(
    stream: Stream, first: Sequence[int], second: Sequence[int]
) -> tuple[Fraction, p.PrivacyLoss]:
    """Return how far two private histories are apart over what is declared (replay)."""
    gap = [a - b for a, b in zip(first, second, strict=True)]
    if stream.price.pure:
        moved = 0
        for level in range(stream._levels):  # noqa: SLF001 - the replay of this module's own class
            width = BRANCHING**level
            whole = len(gap) // width
            moved += sum(abs(sum(gap[k * width : (k + 1) * width])) for k in range(whole))
        return Fraction(moved, stream._moved * stream._levels), stream.loss  # noqa: SLF001 - the same
    factor = [int(c) for c in stream._factor[: len(gap)].tolist()]  # noqa: SLF001 - the same
    total = 0
    for t in range(len(gap)):
        total += sum(factor[t - s] * gap[s] for s in range(t + 1)) ** 2
    return Fraction(total, stream.sensitivity2), stream.loss
