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

Whole persons (``anew=True``)
-----------------------------
Where limits choose which rows of a person count, and choose anew at every tick, no column of Ĉ
describes a person: a new row may take the place of an old one each time. Then the unit is **one
person at all ticks**, `bound` is the most that all rows of one person add to a sum, and released
are the prefix sums themselves, y_t = Σ_{s≤t} x_s + noise. Whatever rows are kept, however late they
come and wherever they are moved, one person moves each y_t by at most `bound`. So the horizon's T
numbers have L1 sensitivity T·bound and squared L2 sensitivity T·bound², and since each step is
(bound/scale)-DP or bound²/(2σ²)-zCDP given the past, the steps add up to the price. No factor is
better here: each tick alone may move as far as the limits let it.

Nothing is paid twice: the whole stream is one mechanism whose price is fixed at the start.
A missed tick is a tick with nothing in it. The object holds private counts (they enter later
outputs), so it must not be shown; its repr and its record hold public numbers only.

Intervals come from the noise's own law: of a sum of draws where the estimate is one, otherwise
of copies of the estimate's error, which is exchangeable with them (:mod:`._publication`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet import _exact
from discreet._exact import Number
from discreet._text import plain_str
from discreet.errors import Hint, ParameterError
from discreet.mechanisms import Interval
from discreet.privacy import Neighbours
from discreet.release._counts import apart
from discreet.release._price import Price, cost, variance

if TYPE_CHECKING:
    from discreet.curator import Curator
    from discreet.release._feed import Feed

Array = NDArray[np.float64]

SCALE = 4096
BRANCHING = 16
_COPIES, _ROOM = 399, 1 << 24


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
        spectrum = np.fft.rfft(g, width)
        t = -np.fft.irfft(np.fft.rfft(c[:m], width) * spectrum, width)[:m]
        t[0] += 2
        g = np.fft.irfft(spectrum * np.fft.rfft(t, width), width)[:m]
    return np.asarray(g)


class _Shape(ABC):
    """What is released at a tick, and the sum that follows from it."""

    anew: ClassVar[bool] = False

    def __init__(self, horizon: int) -> None:
        self.horizon = horizon

    @property
    @abstractmethod
    def declared(self) -> int:
        """How far one unit that adds 1 moves everything, in the norm of the noise (L2 squared)."""

    @abstractmethod
    def exact(self, history: Sequence[int]) -> list[int]:
        """Return the integers to which the last tick of a history adds noise. PRIVATE."""

    @abstractmethod
    def total(self, released: Sequence[NDArray[Any]]) -> float:
        """Return the estimated sum of all ticks, from what each has released."""

    @abstractmethod
    def weights(self, t: int) -> Array:
        """Return the weights of independent noises in the estimated sum of t ticks."""


class _Root(_Shape):
    """The integer square root of prefix sums."""

    def __init__(self, horizon: int) -> None:
        super().__init__(horizon)
        self.factor = square_root(horizon)
        self._solved: list[float] = []

    @property
    def declared(self) -> int:
        """Squares of the longest column."""
        return sum(int(c) ** 2 for c in self.factor.tolist())

    def exact(self, history: Sequence[int]) -> list[int]:
        """Weigh the past."""
        factor = self.factor[: len(history)][::-1].tolist()
        return [sum(int(c) * v for c, v in zip(factor, history, strict=True))]

    def total(self, released: Sequence[NDArray[Any]]) -> float:
        """Solve for the ticks that are new, and add up."""
        for y in released[len(self._solved) :]:
            past = np.asarray(self._solved, dtype=np.float64)
            carry = float(self.factor[1 : len(past) + 1][::-1].astype(np.float64) @ past)
            self._solved.append((float(y[0]) - carry) / float(self.factor[0]))
        return math.fsum(self._solved)

    def weights(self, t: int) -> Array:
        """Return the decoder's last row."""
        return np.cumsum(inverse_series(self.factor[:t]))


class _Tree(_Shape):
    """Sums of 16^l ticks."""

    def __init__(self, horizon: int) -> None:
        super().__init__(horizon)
        self.levels = 1
        while BRANCHING**self.levels < horizon:
            self.levels += 1
        self._widths = [BRANCHING**level for level in range(self.levels)]

    @property
    def declared(self) -> int:
        """One node of each level."""
        return self.levels

    def exact(self, history: Sequence[int]) -> list[int]:
        """Return the sum of every node that ends at this tick."""
        t = len(history)
        return [sum(history[-width:]) for width in self._widths if t % width == 0]

    def total(self, released: Sequence[NDArray[Any]]) -> float:
        """Add up completed nodes: a tick releases those that end at it, finest first."""
        return math.fsum(float(released[end - 1][k]) for k, end in self._nodes(len(released)))

    def weights(self, t: int) -> Array:
        """Return 1 for each node."""
        return np.ones(len(self._nodes(t)))

    def _nodes(self, t: int) -> list[tuple[int, int]]:
        """Return level and last tick of the completed nodes that make up the first t ticks."""
        out, end = [], 0
        for level, width in reversed(list(enumerate(self._widths))):
            while end + width <= t:
                end += width
                out.append((level, end))
        return out


class _Anew(_Shape):
    """The prefix sums themselves."""

    anew = True

    @property
    def declared(self) -> int:
        """Each tick moves by 1: the same in both norms."""
        return self.horizon

    def exact(self, history: Sequence[int]) -> list[int]:
        """Add up."""
        return [sum(history)]

    def total(self, released: Sequence[NDArray[Any]]) -> float:
        """Return the last sum."""
        return float(released[-1][0]) if released else 0.0

    def weights(self, t: int) -> Array:
        """Return one noise."""
        del t
        return np.ones(1)


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
    anew
        Protect whole persons, whose rows are limited anew at every tick; `bound` is then the
        most that all rows of one person add to a sum.

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
        anew: bool = False,
    ) -> None:
        horizon, bound, ticks = (
            _whole(name, value)
            for name, value in (("horizon", horizon), ("bound", bound), ("ticks", ticks))
        )
        if horizon > 1 << 20 or ticks > horizon:
            raise ParameterError("a horizon has at most 2^20 ticks, and no person has more ticks",
                                 hint=Hint("horizon", 365))  # fmt: skip
        if anew and ticks > 1:
            raise ParameterError(
                "anew protects a person at all ticks, whatever their number", hint=Hint("ticks", 1)
            )
        self.horizon, self.bound, self.ticks = horizon, bound, ticks
        self.every = plain_str(every, "every")
        self.price = Price.read(epsilon, delta, rho)
        self.neighbours = Neighbours(neighbours)
        self._private: list[int] = []
        self.released: list[NDArray[Any]] = []
        self._shape = (_Anew if anew else _Tree if self.price.pure else _Root)(horizon)
        self._prepare()

    def __setattr__(self, name: str, value: object) -> None:
        """Terms are fixed once the noise is: another bound or price needs another noise."""
        if "loss" in self.__dict__:
            raise ParameterError(
                f"{name} of a stream is fixed, as its noise is", hint="open a new stream"
            )
        super().__setattr__(name, value)

    def fresh(self) -> Stream:
        """Return a stream of the same terms: noise and price follow from them, and from no more."""
        price = self.price
        return Stream(
            horizon=self.horizon, epsilon=price.epsilon, delta=price.delta, rho=price.rho,
            every=self.every, bound=self.bound, ticks=self.ticks, neighbours=self.neighbours,
            anew=self.anew,
        )  # fmt: skip

    def _prepare(self) -> None:
        """Find the noise for the declared sensitivity, and what it costs."""
        moved = self.bound * self.ticks * apart(self.neighbours)
        self.declared = self._shape.declared * (moved if self.price.pure else moved**2)
        rows = self.horizon
        self.law = self.price.law(self.declared, self.declared, rows=rows)
        self.loss = cost(self.law, self.declared, self.declared, rows, self.neighbours).under(
            self.neighbours, self.unit
        )

    @property
    def anew(self) -> bool:
        """Whether whole persons are protected."""
        return self._shape.anew

    @property
    def unit(self) -> str:
        """Whose data is protected: one person at one tick (or at several, or at all)."""
        if self.anew:
            return "person"
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
        return self._shape.exact(history)

    def accept(self, y: NDArray[Any]) -> float:
        """Take the released integers of the next tick; return the estimated sum so far."""
        self.released.append(y)
        return self.total

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
            Whose rows are counted. A row is its own unit, or the stream protects whole
            persons (``anew=True``).
        column
            The column that says at which tick a row counts, by its name: a date, or a whole
            number that the policy lists under ``fixed``. Rows must keep it.
        start
            Public first day (or number) of the first tick.
        value
            A column to be added up, instead of rows to be counted.
        where
            Which rows.
        """
        from discreet.release._feed import Feed  # noqa: PLC0415 - only with a curator

        return Feed(self, curator, table, column, start=start, value=value, where=where)

    def std(self, t: int | None = None) -> float:
        """Return the standard deviation of the estimated sum of the first t ticks."""
        t = self.horizon if t is None else t
        if not 1 <= t <= self.horizon:
            raise ParameterError(f"t must lie between 1 and {self.horizon}", hint=Hint("t", 1))
        return math.sqrt(variance(self.law) * float((self._shape.weights(t) ** 2).sum()))

    def interval(self, confidence: Number = 0.95) -> Interval:
        """Return an interval for the sum so far, with the confidence it surely has."""
        level = _exact.confidence(confidence)
        if not self.now:
            raise ParameterError("nothing has been released yet", hint="stream.tick(12)")
        weights, value = self._shape.weights(self.now), self.total
        if (weights == 1).all():
            noise = self.law if len(weights) == 1 else self.law * len(weights)
            band = noise.interval(level)
            return Interval(value + band.low, value + band.high, band.confidence)
        copies = min(_COPIES, max(39, _ROOM // len(weights)))
        rank = math.ceil((copies + 1) * level)
        if rank > copies:
            # a discrete Gaussian is σ-sub-Gaussian, so P(|error| > r·std) ≤ 2·e^{−r²/2}
            reach = self.std(self.now) * math.sqrt(2 * math.log(2 / (1 - level)))
            return Interval(value - reach, value + reach, level)
        errors = [abs(float(weights @ self.law.sample(len(weights)))) for _ in range(copies)]
        reach = sorted(errors)[rank - 1]
        return Interval(value - reach, value + reach, rank / (copies + 1))

    @property
    def total(self) -> float:
        """The estimated sum so far."""
        return self._shape.total(self.released)

    def terms(self) -> dict[str, Any]:
        """Return the public parameters."""
        return {
            "kind": "stream",
            "every": self.every,
            "unit": self.unit,
            "horizon": self.horizon,
            "neighbours": str(self.neighbours),
            "price": str(self.price),
            **({"anew": True} if self.anew else {}),
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


def _whole(name: str, value: object) -> int:
    """Copy a whole number: what is checked is what counts, whatever its class answers later."""
    if isinstance(value, int) and not isinstance(value, bool) and (n := int.__index__(value)) > 0:
        return n
    raise ParameterError(f"{name} must be a whole number, at least 1", hint=Hint(name, 1))


def column_moves(
    stream: Stream, first: Sequence[Sequence[int]], second: Sequence[Sequence[int]]
) -> Fraction:
    """Return how far two private pasts are apart over what is declared (replay).

    A past is the history that the table shows at each tick: entry t has t + 1 counts.
    """
    moved = 0
    for mine, other in zip(first, second, strict=True):
        pairs = zip(stream.exact(mine), stream.exact(other), strict=True)
        gaps = [abs(a - b) for a, b in pairs]
        moved += sum(gaps) if stream.price.pure else sum(gap * gap for gap in gaps)
    return Fraction(moved, stream.declared)
