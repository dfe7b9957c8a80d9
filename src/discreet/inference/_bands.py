r"""Histograms and distribution functions with bands that hold everywhere at once.

Counts of K bins have independent noise, so each gets the level c^{1/K}.

Shares
------
With S_j the noisy number of rows up to bin j, A_j the noise of these bins and B_j that of all
others, the share F_j of rows up to bin j leaves

.. math:: S_j-F_jS_K=(1-F_j)A_j-F_jB_j,

noise alone, whose variance is :math:`\sigma^2(j(1-F_j)^2+(K-j)F_j^2)`. Two steps (Berger and
Boos 1994) turn that into a band:

1. Whatever F is, that over its standard deviation is at most
   :math:`\sqrt{A_j^2/j+B_j^2/(K-j)}/\sigma`, by Cauchy and Schwarz. The quantile of the largest of
   these, simulated with the law on record, gives a first band at a tenth of the error.
2. Within it the noise is linear in F_j, so that it is largest at one of the two ends. The
   quantile of the largest over all bins, each divided by the standard deviation at the
   estimate, gives the band at the rest of the error.

Where the noise hides how many rows there are the band is [0, 1]. Ends are made monotone, which
loses nothing, as the distribution function is. Randomness follows from the record: one
release, one band.

For a population S_j − F_jS_K holds the sampling error of X_j − F_jn as well, by no more than
:math:`\sqrt n\,D` for all j at once, :math:`P(D>x)\le2e^{-2x^2}` (Dvoretzky, Kiefer, Wolfowitz;
Massart's constant), which is independent of the noise: the quantile is that of the sum of both,
with n at its upper bound, to which a twentieth of the error goes. One row of each person is
required.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from discreet import _exact, _vega
from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet._print import interval, number, plural
from discreet.answer import Answer
from discreet.errors import Hint, ParameterError
from discreet.inference._chosen import asked_of_all, unchosen
from discreet.inference._inputs import Noisy, noisy, repeatable, sampled
from discreet.inference._laws import Floats, Rng
from discreet.inference._results import POPULATION, QUERY, one_of

if TYPE_CHECKING:
    import pandas as pd

DRAWS = 9_999
_MOST = 400_000

_FIRST = 0.1
"""Part of the error for the first band of shares."""

_SIZE = 0.05
"""Part of the error for the number of rows, where a population is asked about."""


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """Values over bins with ends that hold for all bins at once.

    No table holds fewer rows than none, and noise does not know that: `value` is as it was
    released, so that sums of bins stay unbiased, and `shown` is the nearest value in the band.
    """

    bins: tuple[Any, ...]
    value: Floats
    low: Floats
    high: Floats
    confidence: float
    covers: str
    title: str

    def __len__(self) -> int:
        return len(self.bins)

    @property
    def shown(self) -> Floats:
        """The values that are printed and drawn: none lies outside the band."""
        return np.clip(self.value, self.low, self.high)

    @property
    def _mended(self) -> str:
        """What is said of values that are not shown as they were released."""
        below = int(np.sum(self.value != self.shown))
        return f"{plural(below, 'noisy count')} below 0 shown as 0" if below else ""

    def to_pandas(self) -> pd.DataFrame:
        """Return the values that are shown, and ends, by bin; ``attrs`` say what the ends cover."""
        import pandas as pd  # noqa: PLC0415 - only for those who ask

        columns = {"value": self.shown, "low": self.low, "high": self.high}
        frame = pd.DataFrame(columns, index=pd.Index(self.bins, name="bin"))
        frame.attrs.update(covers=self.covers, confidence=self.confidence)
        return frame

    def chart(self) -> _vega.Chart:
        """Return a line inside its band, as Vega-Lite; ``save("band.png")`` draws it."""
        values = [
            {"bin": str(b), "value": float(v), "low": float(lo), "high": float(hi)}
            for b, v, lo, hi in zip(self.bins, self.shown, self.low, self.high, strict=True)
        ]
        note = f"; {self._mended}" if self._mended else ""
        ends = _vega.between("y", _vega.number("low", title=self.title))
        return _vega.chart(
            {
                "text": f"{self.title}: all bins at once at {100 * self.confidence:.4g} %{note}",
                "subtitle": f"covers {self.covers}",
            },
            values,
            encoding={"x": {"field": "bin", "type": "ordinal", "sort": None, "title": None}},
            layer=[
                _vega.layer("area", ends, interpolate="step", opacity=0.3),
                _vega.layer("line", {"y": _vega.number("value")}, interpolate="step"),
            ],
        )

    def __repr__(self) -> str:
        lines = [f"{self.title}, all {len(self)} bins at once at {100 * self.confidence:.4g} %"]
        least = float(np.min((self.high - self.low)[self.high > self.low], initial=math.inf)) / 2
        rows = zip(self.bins, self.shown, self.low, self.high, strict=True)
        cells = [(f"{b!s}", number(v, least), interval(lo, hi, least)) for b, v, lo, hi in rows]
        first, second = (max(len(cell[i]) for cell in cells) for i in (0, 1))
        lines += [f"  {b:>{first}}  {v:>{second}}  {ends}" for b, v, ends in cells]
        if self._mended:
            lines.append(f"{self._mended} (band.value has them as released)")
        return "\n".join([*lines, f"covers {self.covers}"])


def histogram(answer: Answer, column: str | None = None, confidence: Number = 0.95) -> Band:
    """Return the counts of an answer with a band that holds for all bins at once."""
    item, bins = _read(answer, column)
    level = _exact.confidence(confidence)
    each = 1 + math.expm1(math.log(level) / len(bins))
    low, high, _ = item.noise.range(each)
    values = np.asarray(item.value, dtype=np.float64)
    ends = np.maximum(values - high, 0.0), np.maximum(values - low, 0.0)
    return Band(bins, values, *ends, level, QUERY, "rows")


def ecdf(
    answer: Answer,
    column: str | None = None,
    confidence: Number = 0.95,
    *,
    target: Literal["query", "population"] = "query",
    rng: Rng = None,
) -> Band:
    """Return the share of rows up to each bin, with a band that holds everywhere at once.

    Parameters
    ----------
    answer, column
        Counts by one ordered key, as ``SELECT age, COUNT(*) AS n … GROUP BY age`` gives them.
    target
        "query": the table itself. "population": what the people in it were drawn from.

    Examples
    --------
    >>> import discreet as dc, numpy as np, pyarrow as pa
    >>> from discreet import inference as inf
    >>> table = dc.policy.Table("people", [dc.policy.Integer("age", 0, 9)])
    >>> policy = dc.policy.Policy([table], dc.policy.Budget("2"), name="bands")
    >>> data = pa.table({"age": np.arange(5000) % 10})
    >>> curator = dc.open(data, policy, ledger=":memory:")
    >>> answer = curator.sql("SELECT age, COUNT(*) AS n FROM people GROUP BY age", epsilon=2)
    >>> band = inf.ecdf(answer)
    >>> bool(((band.low <= np.arange(1, 11) / 10) & (np.arange(1, 11) / 10 <= band.high)).all())
    True
    """
    item, bins = _read(answer, column)
    level = _exact.confidence(confidence)
    whole = one_of(target, ("query", "population"), "target") == "population"
    error = 1 - level
    draws = max(DRAWS, math.ceil(20 / error))
    if draws > _MOST:
        raise ParameterError(
            "a band at this confidence needs more draws than are made",
            hint=Hint("confidence", 0.99),
        )
    if whole:
        sampled(item, across=True)
    sums = np.cumsum(np.asarray(item.value, dtype=np.float64))
    low, high = _shares(sums, item, draws, error, repeatable(rng, item), whole=whole)
    low = np.clip(np.maximum.accumulate(low), 0.0, 1.0)
    high = np.clip(np.minimum.accumulate(high[::-1])[::-1], 0.0, 1.0)
    middle = np.clip(np.maximum.accumulate(sums / max(sums[-1], 1.0)), 0.0, 1.0)
    covers = POPULATION if whole else QUERY
    return Band(bins, np.clip(middle, low, high), low, high, level, covers, "share of rows up to")


def _shares(
    sums: Floats, item: Noisy, draws: int, error: float, source: np.random.Generator, *, whole: bool
) -> tuple[Floats, Floats]:
    """Ends of the shares up to each bin, all at once; the last share is one."""
    below, total, last = sums[:-1], float(sums[-1]), np.ones(1)
    walks = _Walks(item, draws, sums.size, int(source.integers(2**62)))
    up = np.arange(1.0, sums.size)
    squared = walks.quantile(lambda a, b: a**2 / up + b**2 / (sums.size - up), _FIRST * error)
    if not up.size or total**2 <= squared * sums.size:
        return np.append(np.zeros(up.size), last), np.append(np.ones(up.size), last)
    low, high = _first_band(below, total, squared, up)
    share = np.clip(below / total, low, high)
    spread = np.sqrt(up * (1 - share) ** 2 + (sums.size - up) * share**2)
    rest, more = (1 - _FIRST) * error, np.zeros(draws)
    if whole:
        spread, rest = np.ones(up.size), rest - _SIZE * error
        least = total - walks.quantile(lambda a, b: np.abs(a + b), _SIZE * error)
        # D by its bound: P(D > x) = 2·exp(−2x²), as far as that is a probability
        sampling = np.sqrt(np.log(2 / (1 - source.random(draws))) / 2)
        more = total / math.sqrt(max(least, 1.0)) * sampling

    def largest(a: Floats, b: Floats) -> Floats:
        ends = (np.abs((1 - f) * a - f * b) / spread for f in (low, high))
        return np.maximum(*ends)

    off = walks.quantile(largest, rest, more) * spread
    ends = (below - off) / total, (below + off) / total
    if not whole:
        ends = np.maximum(low, ends[0]), np.minimum(high, ends[1])
    return np.append(ends[0], last), np.append(ends[1], last)


def _first_band(below: Floats, total: float, squared: float, up: Floats) -> tuple[Floats, Floats]:
    """Shares F with (S_j − F·S_K)² ≤ squared·(j(1 − F)² + (K − j)F²)."""
    bins = up.size + 1
    a = total**2 - squared * bins
    b = below * total - squared * up
    root = np.sqrt(np.maximum(b**2 - a * (below**2 - squared * up), 0.0))
    return np.clip((b - root) / a, 0.0, 1.0), np.clip((b + root) / a, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class _Walks:
    """Simulated noise of the bins up to each one and of all others, the same every time."""

    item: Noisy
    draws: int
    bins: int
    seed: int

    def quantile(
        self, of: Callable[[Floats, Floats], Floats], error: float, more: Floats | None = None
    ) -> float:
        """Value that the largest over all bins, and what is added to it, exceeds so seldom."""
        source, worst = np.random.default_rng(self.seed), np.zeros(self.draws)
        chunk = max(1, 2_000_000 // self.bins) if self.bins > 1 else self.draws
        for start in range(0, self.draws, chunk) if self.bins > 1 else ():
            here = slice(start, min(start + chunk, self.draws))
            noise = self.item.noise.simulate(source, (here.stop - start, self.bins))
            walks = np.cumsum(noise, axis=1)
            worst[here] = of(walks[:, :-1], walks[:, -1:] - walks[:, :-1]).max(axis=1)
        worst = worst if more is None else worst + more
        k = min(math.ceil((self.draws + 1) * (1 - error)), self.draws)
        return float(np.partition(worst, k - 1)[k - 1])


def _read(answer: Answer, column: str | None) -> tuple[Any, tuple[Any, ...]]:
    if not isinstance(answer, Answer):
        raise ParameterError("a band is drawn around an answer with groups")
    keys = answer.full_record.keys
    if len(keys) != 1 or answer.chosen:
        raise ParameterError(
            "a band needs counts by one key, all of them shown",
            hint=(answer.chosen and asked_of_all(answer))
            or "SELECT age, COUNT(*) AS n FROM people GROUP BY age",
        )
    item = noisy(answer, column)
    unchosen(item.chosen, "a band")
    (bins,) = keys.values()
    return item, tuple(bins)
