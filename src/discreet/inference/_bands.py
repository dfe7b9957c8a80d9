r"""Histograms and distribution functions with bands that hold everywhere at once.

Counts of K bins have independent noise, so each gets the level c^{1/K}. The share F of rows up to a
bin is where :math:`S-FN` would be zero, S and N being the numbers of rows up to the bin and in all.
Its noise is :math:`W-FW_K`, W the noise added up. The band is so many widths about S/N that no
:math:`|W-FW_K|/N` exceeds them, simulated with the law on record (its randomness follows from the
record: one release, one band). The width of a bin is the mean of its own deviation and the
largest one. F is taken to be S/N in the simulation, which is off by no more than the band, so that
errors differ by the share :math:`\rho=|W_K|/N` at most: the band is made :math:`1/(1-\rho)` times
as wide, ρ at a tenth of the error allowed. Where ρ is no small number, S and N have ends of their
own. Ends are made monotone, which loses nothing, as the distribution function is.

For a population the exact distribution function of the sample is within
:math:`\sqrt{\ln(2/\alpha)/2n}` of it (Dvoretzky, Kiefer, Wolfowitz; Massart's constant);
half of the error allowed is for that, and n is its lower bound. One row of each person is
required.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from discreet import _exact, _vega
from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet.answer import Answer
from discreet.errors import Hint, ParameterError
from discreet.inference._inputs import Noisy, noisy, repeatable, sampled
from discreet.inference._laws import Floats, Rng
from discreet.inference._results import POPULATION, QUERY, one_of

if TYPE_CHECKING:
    import pandas as pd

DRAWS = 9_999
_MOST = 400_000
_SHARE = 0.1
"""Part of the error allowed that the noise of the number of rows gets."""
_CLEAR = 0.5
"""Part of the rows up to which the noise of their number is small."""


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """Values over bins with ends that hold for all bins at once."""

    bins: tuple[Any, ...]
    value: Floats
    low: Floats
    high: Floats
    confidence: float
    covers: str
    title: str

    def __len__(self) -> int:
        return len(self.bins)

    def to_pandas(self) -> pd.DataFrame:
        """Return value and ends by bin."""
        import pandas as pd  # noqa: PLC0415 - only for those who ask

        columns = {"value": self.value, "low": self.low, "high": self.high}
        return pd.DataFrame(columns, index=pd.Index(self.bins, name="bin"))

    def chart(self) -> _vega.Chart:
        """Return a line inside its band, as Vega-Lite; ``save("band.png")`` draws it."""
        values = [
            {"bin": str(b), "value": float(v), "low": float(lo), "high": float(hi)}
            for b, v, lo, hi in zip(self.bins, self.value, self.low, self.high, strict=True)
        ]
        ends = _vega.between("y", _vega.number("low", title=self.title))
        return _vega.chart(
            f"{self.title}: all bins at once at {100 * self.confidence:.4g} %",
            values,
            encoding={"x": {"field": "bin", "type": "ordinal", "sort": None, "title": None}},
            layer=[
                _vega.layer("area", ends, interpolate="step", opacity=0.3),
                _vega.layer("line", {"y": _vega.number("value")}, interpolate="step"),
            ],
        )

    def __repr__(self) -> str:
        lines = [f"{self.title}, all {len(self)} bins at once at {100 * self.confidence:.4g} %"]
        rows = zip(self.bins, self.value, self.low, self.high, strict=True)
        lines += [f"  {b!s:>12}  {v:10.5g}  [{lo:.5g}, {hi:.5g}]" for b, v, lo, hi in rows]
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
    error = (1 - level) / (2 if whole else 1)
    source = repeatable(rng, item)
    draws = max(DRAWS, math.ceil(20 / error))
    if draws > _MOST:
        raise ParameterError(
            "a band at this confidence needs more draws than are made",
            hint=Hint("confidence", 0.99),
        )
    sums = np.cumsum(np.asarray(item.value, dtype=np.float64))
    low, high, least = _shares(item, sums, error, draws, source)
    low[-1] = 1.0
    if whole:
        sampled(item, across=True)
        drift = math.sqrt(math.log(2 / error) / (2 * least))
        low, high = low - drift, high + drift
        low[-1] = 1.0
    low = np.clip(np.maximum.accumulate(low), 0.0, 1.0)
    high = np.clip(np.minimum.accumulate(high[::-1])[::-1], 0.0, 1.0)
    middle = np.clip(np.maximum.accumulate(sums / max(sums[-1], 1.0)), 0.0, 1.0)
    covers = POPULATION if whole else QUERY
    return Band(bins, np.clip(middle, low, high), low, high, level, covers, "share of rows up to")


def _shares(
    item: Noisy, sums: Floats, error: float, draws: int, source: np.random.Generator
) -> tuple[Floats, Floats, float]:
    """Ends of the shares of rows up to each bin, and of how many rows there are at least."""
    near = np.clip(np.maximum.accumulate(sums / max(sums[-1], 1.0)), 0.0, 1.0)
    at = np.arange(1, sums.size + 1)
    own = np.sqrt(np.maximum(at * (1 - 2 * near) + near**2 * sums.size, 0.0))
    wide, steps = (own + own.max()) / 2 + 1e-9, np.sqrt(at)
    of_share, of_rows, of_all = np.empty(draws), np.empty(draws), np.empty(draws)
    chunk = max(1, 2_000_000 // sums.size)
    for start in range(0, draws, chunk):
        part = slice(start, min(start + chunk, draws))
        walks = np.cumsum(item.noise.simulate(source, (part.stop - start, sums.size)), axis=1)
        of_all[part] = np.abs(walks[:, -1])
        of_rows[part] = (np.abs(walks) / steps).max(axis=1)
        of_share[part] = (np.abs(walks - near * walks[:, -1:]) / wide).max(axis=1)
    far = _worst(of_all, _SHARE * error) / max(float(sums[-1]), 1.0)
    if far < _CLEAR:
        off = _worst(of_share, (1 - _SHARE) * error) / (1 - far) * wide
        least = max(float(sums[-1]) * (1 - far), 1.0)
        return (sums - off) / sums[-1], (sums + off) / sums[-1], least
    off = _worst(of_rows, error) * steps
    least, most = max(sums[-1] - off[-1], 1.0), max(sums[-1] + off[-1], 1.0)
    return np.maximum(sums - off, 0.0) / most, np.maximum(sums + off, 0.0) / least, float(least)


def _worst(simulated: Floats, error: float) -> float:
    """What is exceeded with this probability."""
    k = min(math.ceil((simulated.size + 1) * (1 - error)), simulated.size)
    return float(np.sort(simulated)[k - 1])


def _read(answer: Answer, column: str | None) -> tuple[Any, tuple[Any, ...]]:
    if not isinstance(answer, Answer):
        raise ParameterError("a band is drawn around an answer with groups")
    keys = answer.full_record.keys
    if len(keys) != 1 or answer.chosen:
        raise ParameterError(
            "a band needs counts by one key, all of them shown",
            hint="SELECT age, COUNT(*) AS n FROM people GROUP BY age",
        )
    item = noisy(answer, column)
    (bins,) = keys.values()
    return item, tuple(bins)
