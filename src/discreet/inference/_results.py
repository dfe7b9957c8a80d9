"""Results in SciPy's manner: numbers, an interval that says what it covers, a summary."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast, get_args

import numpy as np

from discreet import _exact
from discreet._dataclass import dataclass, field
from discreet._exact import Number
from discreet.errors import Hint, ParameterError

if TYPE_CHECKING:
    import pandas as pd

V = TypeVar("V")
Alternative: TypeAlias = Literal["two-sided", "less", "greater"]

QUERY = "the exact value of the released query on the data it was computed from"
POPULATION = "the population parameter: sampling error and privacy noise together"


@dataclass(frozen=True, slots=True)
class Interval:
    """Two ends, the confidence they hold with, and what they cover.

    ``low`` and ``high`` are numbers, or arrays with one entry per cell.
    """

    low: Any
    high: Any
    confidence: float
    covers: str = QUERY

    def __iter__(self) -> Iterator[Any]:
        return iter((self.low, self.high))

    def __contains__(self, value: object) -> bool:
        return bool(np.all((self.low <= value) & (value <= self.high)))

    @property
    def half_width(self) -> Any:
        """Half the distance between the ends."""
        return (self.high - self.low) / 2

    def clipped(self, low: float = -np.inf, high: float = np.inf) -> Interval:
        """Intersect with a public range; coverage of values inside it is unchanged."""
        bottom, top = (plain(np.clip(end, low, high)) for end in self)
        return Interval(bottom, top, self.confidence, self.covers)

    def summary(self) -> str:
        """Say the interval in words."""
        return f"{self!r} covers {self.covers}"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Give low and high on the last axis."""
        ends = np.stack([np.asarray(self.low), np.asarray(self.high)], axis=-1)
        return np.array(ends, dtype=dtype, copy=True if copy is None else copy)

    def to_pandas(self, index: Any = None) -> pd.DataFrame:
        """Return one row for each cell, named by `index`; ``attrs`` say what the ends cover."""
        import pandas as pd  # noqa: PLC0415 - only for those who ask

        rows = np.atleast_2d(np.asarray(self)).reshape(-1, 2)
        frame = pd.DataFrame(rows, index=index, columns=["low", "high"])
        frame.attrs.update(covers=self.covers, confidence=self.confidence)
        return frame

    def __repr__(self) -> str:
        return f"[{_show(self.low)}, {_show(self.high)}] ({100 * self.confidence:.4g} %)"

    def _repr_html_(self) -> str:
        return preformatted(self)


@dataclass(frozen=True, slots=True)
class TestResult:
    """Outcome of a hypothesis test that accounts for the privacy noise.

    Attributes
    ----------
    statistic, pvalue
        As in SciPy; arrays when the test was run on an array of answers.
    alternative
        "two-sided", "less" or "greater".
    method
        What was computed, in words.
    parameters
        Null value, sample size, noise and the like.
    loss
        What running the test cost, or None when it only read released numbers.
    floor
        Least p-value that can be had, by as many draws or digits: a p-value there is a bound, and
        printed as one. None where there is no such floor.
    """

    __test__ = False  # not a test class, whatever pytest thinks of the name

    statistic: Any
    pvalue: Any
    alternative: str
    method: str
    parameters: Mapping[str, object] = field(default_factory=dict)
    loss: Any = None
    _interval: Callable[[float], Interval] | None = field(default=None, repr=False)
    floor: float | None = None

    @property
    def at_floor(self) -> Any:
        """Whether the p-value is only known to be no larger; an array as the p-value is one."""
        if self.floor is None:
            return np.zeros(np.shape(self.pvalue), dtype=bool)[()]
        return np.asarray(self.pvalue <= self.floor * (1 + 1e-9))[()]

    def confidence_interval(self, confidence_level: Number = 0.95) -> Interval:
        """Return the parameter values that the test would not reject."""
        if self._interval is None:
            raise ParameterError(f"{self.method} has no confidence interval")
        return self._interval(_exact.confidence(confidence_level, "confidence_level"))

    def summary(self) -> str:
        """Return a short report in plain text."""
        lines = [
            self.method,
            f"  statistic    {_show(self.statistic)}",
            f"  p-value      {_show(self.pvalue, self.at_floor)} ({self.alternative})",
        ]
        lines += [f"  {name:<12} {value}" for name, value in self.parameters.items()]
        if self._interval is not None:
            interval = self.confidence_interval()
            lines.append(f"  95 % interval {interval!r} for {interval.covers}")
        lines.append(f"  cost         {'nothing further' if self.loss is None else self.loss}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.summary())}</pre>"

    def __repr__(self) -> str:
        # a p-value of one that only says that the noise hides everything must say so
        note = f", note={self.parameters['note']!r}" if "note" in self.parameters else ""
        return (
            f"{type(self).__name__}(statistic={_show(self.statistic)}, "
            f"pvalue={_show(self.pvalue, self.at_floor)}, alternative={self.alternative!r}{note})"
        )


class _ByName(dict[str, V]):
    __slots__ = ()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Give the values, in order."""
        return np.array(list(self.values()), dtype=dtype, copy=True if copy is None else copy)


class Coefficients(_ByName[float]):
    """Numbers by the names of columns: a dictionary, an array, or a pandas Series."""

    __slots__ = ()

    def to_pandas(self) -> pd.Series[float]:
        """Return a Series whose index are the names."""
        import pandas as pd  # noqa: PLC0415 - only for those who ask

        return pd.Series(dict(self), dtype=float)


class Intervals(_ByName[tuple[float, float]]):
    """Ends by the names of columns: a dictionary, an array of two columns, or a DataFrame."""

    __slots__ = ()

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame whose index are the names."""
        import pandas as pd  # noqa: PLC0415 - only for those who ask

        return pd.DataFrame(list(self.values()), index=list(self), columns=["low", "high"])


def preformatted(content: object) -> str:
    """What prints as plain text, for a notebook."""
    return f"<pre>{html.escape(repr(content))}</pre>"


def plain(x: Any) -> Any:
    """Hand back a Python float for a scalar, the array otherwise."""
    return float(x) if np.ndim(x) == 0 else np.asarray(x)


def one_of(x: object, words: Sequence[str], name: str) -> str:
    """Parse one of a few words."""
    if isinstance(x, str) and x in words:
        return x
    *most, last = map(repr, words)
    raise ParameterError(
        f"{name} must be {', '.join(most)} or {last}, got {x!r}", hint=Hint(name, words[0])
    )


def read_alternative(x: str) -> Alternative:
    """Parse ``alternative=``."""
    return cast("Alternative", one_of(x, get_args(Alternative), "alternative"))


def _show(x: Any, at_most: Any = False) -> str:
    """Print a number, or the first few; ≤ before those that are only bounds."""
    if np.ndim(x):
        flat, bounds = np.asarray(x).ravel(), np.broadcast_to(at_most, np.shape(x)).ravel()
        body = ", ".join(_show(v, b) for v, b in zip(flat[:6], bounds[:6], strict=True))
        return f"[{body}{', …' if flat.size > 6 else ''}]"
    text = f"{x:.6g}" if isinstance(x, int | float | np.number) else str(x)
    return f"≤ {text}" if at_most else text


def monte_carlo(value: Any, null: Any, side: str = "greater") -> Any:
    """P-value of a statistic, or of several, among simulated ones."""
    if side == "two-sided":
        value, null = np.abs(value), np.abs(null)
    elif side == "less":
        value, null = np.negative(value), np.negative(null)
    # a tolerance, so that equal lattice points count as ties whatever their rounding
    below = np.searchsorted(np.sort(null), value - 1e-9 * (1 + np.abs(value)), side="left")
    return plain((1 + null.size - below) / (null.size + 1))


def least_of(draws: int) -> float:
    """Least p-value that :func:`monte_carlo` gives."""
    return 1 / (draws + 1)


def read_draws(draws: object) -> int:
    """Parse ``draws=``: with fewer than 19, no Monte Carlo p-value could fall to 5 %."""
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 19:
        raise ParameterError(
            "draws must be a whole number of at least 19", hint=Hint("draws", 1999)
        )
    return draws
