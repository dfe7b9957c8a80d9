"""What a mechanism hands back: the answer, its noise law and its privacy loss.

Nothing in these objects depends on private data except through the released
value itself, so they may be printed, pickled, logged or published.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from discreet import _exact, noise
from discreet._dataclass import dataclass, field
from discreet._exact import Number
from discreet.errors import ParameterError, PrivacyError
from discreet.privacy import PrivacyLoss


@dataclass(frozen=True, slots=True)
class Interval:
    """Two ends and the confidence actually achieved (never below the one asked)."""

    low: Any
    high: Any
    confidence: float

    def __iter__(self) -> Iterator[Any]:
        return iter((self.low, self.high))

    def __repr__(self) -> str:
        return f"[{_number(self.low)}, {_number(self.high)}] ({100 * self.confidence:.4g} %)"


def _coin() -> str:
    return noise.random_words(2).tobytes().hex()


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Release:
    """A noisy answer on a public lattice.

    Attributes
    ----------
    value
        The noisy answer: an int when the step is whole, otherwise float; an
        array for vector queries.
    law
        Law of the noise in lattice steps (one independent draw per cell), or
        None when the noise scale itself is private.
    step
        The public lattice: the answer is an integer multiple of it.
    loss
        What the release costs, under the stated neighbour relation.
    mechanism
        Name of the mechanism.
    price
        The privacy parameters as the caller asked for them, for display.
    rounded
        Whether the private value was rounded to the lattice first.
    tainted
        True when the noise came from the deterministic test source: such a
        release protects nobody.
    coin
        Public random bits, drawn with the release and independent of everything: tests that
        toss for a p-value read the toss off these, so that one release has one p-value.
    """

    value: Any
    law: noise.Law | None
    step: Fraction
    loss: PrivacyLoss
    mechanism: str
    price: str
    rounded: bool = False
    tainted: bool = False
    coin: str = field(default_factory=_coin, kw_only=True)

    def interval(self, confidence: Number = 0.95, *, simultaneous: bool = False) -> Interval:
        """Return the set of true values compatible with the answer.

        Parameters
        ----------
        confidence
            Coverage asked for; the result says how much is achieved.
        simultaneous
            For vectors: cover all cells at once (exact, since the noise of the
            cells is independent) instead of each cell by itself.

        Notes
        -----
        The interval covers the query's value on the data. It knows nothing of
        sampling error, clipping or anything else done before the mechanism.
        """
        low, high, achieved = self._noise_range(confidence, simultaneous=simultaneous)
        if self.step.denominator == 1 and not self.rounded:
            return Interval(self.value - int(high), self.value - int(low), achieved)
        return Interval(
            self.value - _exact.ceil_float(high), self.value - _exact.floor_float(low), achieved
        )

    def _noise_range(
        self, confidence: Number, *, simultaneous: bool
    ) -> tuple[Fraction, Fraction, float]:
        if self.law is None:
            raise PrivacyError(
                f"{self.mechanism} has no interval: its noise scale depends on the data, and "
                "printing it would reveal the data"
            )
        target = _exact.confidence(confidence)
        cells = int(np.size(self.value)) if simultaneous else 1
        bounds, achieved = interval_of_all(self.law, target, cells)
        margin = Fraction(1, 2) if self.rounded else 0
        return (bounds.low - margin) * self.step, (bounds.high + margin) * self.step, achieved

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """The noisy values, for NumPy."""
        return np.array(self.value, dtype=dtype, copy=True if copy is None else copy)

    def __float__(self) -> float:
        return float(self.value)

    def to_pandas(self, index: Any = None, columns: Any = None, confidence: Number = 0.95) -> Any:
        """Return values and ends as a frame; of a table, the values alone.

        Labels of private data are private too (those of ``value_counts()`` say who is
        there), so none are taken over: `index` and `columns` state public ones.
        """
        import pandas as pd  # noqa: PLC0415 - only for those who ask

        if np.ndim(self.value) > 1:
            return pd.DataFrame(self.value, index=index, columns=columns)
        series = {"value": np.atleast_1d(self.value)}
        if self.law is not None:
            ends = self.interval(confidence)
            series |= {"low": np.atleast_1d(ends.low), "high": np.atleast_1d(ends.high)}
        return pd.DataFrame(series, index=index)

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self))}</p>"

    def __repr__(self) -> str:
        head = _number(self.value)
        if self.law is not None:
            low, high, _ = self._noise_range(0.95, simultaneous=False)
            each = " each" if np.ndim(self.value) else ""
            head += f" ± {_number(float(max(-low, high)))}{each} (95 %)"
        relation = "" if self.loss.neighbours is None else f", {self.loss.neighbours}"
        taint = "  [TEST NOISE: NOT PRIVATE]" if self.tainted else ""
        return f"{head}  {self.mechanism}, {self.price}{relation}{taint}"


def interval_of_all(law: noise.Law, confidence: float, cells: int) -> tuple[noise.Interval, float]:
    """Bound the noise of `cells` independent draws at once: P(one)^cells ≥ confidence."""
    if cells == 1:
        bounds = law.interval(confidence)
        return bounds, bounds.confidence
    each = confidence ** (1 / cells)
    for _ in range(64):
        if each >= 1:
            break
        bounds = law.interval(each)
        # exp(cells·log1p) keeps the digits that bounds.confidence**cells would lose
        achieved = math.exp(cells * math.log1p(bounds.confidence - 1))
        if achieved >= confidence:
            return bounds, achieved
        each = math.nextafter(each, 1)
    raise ParameterError(f"{cells} cells at confidence {confidence} are beyond double precision")


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Selection:
    """What a selecting mechanism chose; scores and probabilities are not kept.

    Attributes
    ----------
    value
        The index chosen, or the candidate if names were given; for the sparse
        vector technique, the tuple of indices reported above the threshold.
    loss
        What the selection costs (together with `measured`).
    mechanism, price
        Name and privacy parameters, for display.
    measured
        Releases of the selected values, if they were asked and paid for.
    asked
        How many questions were answered (sparse vector only).
    """

    value: Any
    loss: PrivacyLoss
    mechanism: str
    price: str
    measured: tuple[Release, ...] = ()
    asked: int | None = None
    tainted: bool = False
    _accuracy: Callable[[float], float] = field(kw_only=True)

    def accuracy(self, confidence: Number = 0.95) -> float:
        """Return a public bound on how far the choice falls short of the best.

        With at least the given confidence, the score of what was chosen is
        within this distance of the highest score (sparse vector: every answer
        is right up to this distance from the threshold). It is a function of
        public parameters only.
        """
        return self._accuracy(_exact.confidence(confidence))

    def interval(self, confidence: Number = 0.95) -> Interval:
        """Refuse: a choice has no interval; see :meth:`accuracy`."""
        del confidence
        raise PrivacyError(
            f"{self.mechanism} releases a choice, not a number, so it has no interval",
            hint="selection.accuracy(0.95)",
        )

    def __repr__(self) -> str:
        relation = "" if self.loss.neighbours is None else f", {self.loss.neighbours}"
        values = f", measured {self.measured!r}" if self.measured else ""
        taint = "  [TEST NOISE: NOT PRIVATE]" if self.tainted else ""
        return f"{self.value!r}  {self.mechanism}, {self.price}{relation}{values}{taint}"


def tainted(*draws: object) -> bool:
    """Tell whether any of these draws came from the deterministic test source."""
    return any(noise.is_tainted(draw) for draw in draws)


def _number(x: Any) -> str:
    if np.ndim(x):
        flat = np.asarray(x).ravel()
        body = ", ".join(_number(cell) for cell in flat[:6].tolist())
        return f"[{body}{', …' if flat.size > 6 else ''}]"
    if isinstance(x, float):
        if x.is_integer() and abs(x) < 1e15:
            return str(int(x))
        return f"{x:.6g}" if abs(x) < 1e6 else f"{x:.10g}"
    return str(x)
