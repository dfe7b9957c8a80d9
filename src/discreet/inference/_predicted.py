r"""Predictions of a fit, with intervals, in the manner of statsmodels' ``get_prediction``.

Least squares, the mean at a row
--------------------------------
With columns measured from the row, :math:`x_j-x_{0j}`, the coefficient of the constant is the
line's height there. So its interval is that of a coefficient: the same score of the same noisy
moments (:mod:`discreet.inference._regression`). Without a constant, the column whose value at
the row is largest takes its place.

Least squares, a new row
------------------------
The response of a new row differs from the estimate by its own error e and by what noise and
sample did to the line. Quantiles of e are not released, only a bound of its variance: what the
line leaves of the response, with the noise and the sampling error of that sum added, at
:data:`_SHARE` of the error allowed. If e has one mode, so has its sum with a log-concave error
of the line, and at most :math:`4/9k^2` of a law with one mode lies beyond k standard deviations
(Vysochanskij and Petunin). For 95 % that is k = 3.14 where normal errors would need 1.96: no
shape of the errors is believed. The interval stays within the policy's range of the response,
in which all rows lie.

Log-odds
--------
The linear predictor is a combination of coefficients, with their covariance; its ends are
turned into probabilities. A new row is 0 or 1, so there is no interval of it.

References
----------
D. Vysochanskij, Y. Petunin, "Justification of the 3σ rule for unimodal distributions", 1980.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
from scipy import special

from discreet import _exact
from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet.errors import ParameterError
from discreet.inference._laws import Floats
from discreet.inference._results import preformatted
from discreet.inference._score import expected_squares
from discreet.inference._slope import Score, quantile, stretched

if TYPE_CHECKING:
    import pandas as pd

_SHARE: Final = 0.1
"""Part of the error allowed that the variance of a new row's error gets."""

_SHOWN: Final = 20
"""Rows that are printed."""


@dataclass(frozen=True, repr=False)
class Prediction(ABC):
    """Predicted means of rows, with their errors."""

    what: ClassVar[str]
    columns: ClassVar[tuple[str, ...]] = ("mean", "mean_se", "mean_ci_lower", "mean_ci_upper")

    @property
    @abstractmethod
    def predicted_mean(self) -> Floats:
        """Predicted means; not a number where one is not determined."""

    @property
    @abstractmethod
    def se_mean(self) -> Floats:
        """Standard errors of the means, sampling and noise together."""

    @abstractmethod
    def _means(self, error: float) -> Floats:
        """Ends of the intervals of the means."""

    @abstractmethod
    def _rows(self, error: float) -> Floats:
        """Ends of the intervals of new rows."""

    def conf_int(self, alpha: Number = 0.05, *, obs: bool = False) -> Floats:
        """Two ends for each row: of the population's mean there, or of one new row (`obs`)."""
        error = _exact.confidence(alpha, "alpha")
        return self._rows(error) if obs else self._means(error)

    def _columns(self, error: float) -> list[Floats]:
        return [self.predicted_mean, self.se_mean, *self._means(error).T]

    def summary_frame(self, alpha: Number = 0.05) -> pd.DataFrame:
        """Return a DataFrame with statsmodels' names of columns."""
        import pandas as pd  # noqa: PLC0415 - only for those who ask

        columns = self._columns(_exact.confidence(alpha, "alpha"))
        return pd.DataFrame(dict(zip(self.columns, columns, strict=True)))

    def __repr__(self) -> str:
        rows = np.array(self._columns(0.05)).T
        lines = ["  ".join(f"{name:>13}" for name in self.columns)]
        lines += ["  ".join(f"{x:13.5g}" for x in row) for row in rows[:_SHOWN]]
        if len(rows) > _SHOWN:
            lines.append(f"… {len(rows) - _SHOWN} more rows")
        return "\n".join([*lines, self.what])

    def _repr_html_(self) -> str:
        return preformatted(self)


@dataclass(frozen=True, repr=False)
class LinePrediction(Prediction):
    """Heights of a line at rows, and where new rows lie."""

    scores: Sequence[Score]
    reach: float
    low: float
    high: float

    what: ClassVar[str] = (
        "intervals (95 %): ci covers the population's mean at the row, obs_ci the response of a\n"
        "new row, if errors are homoskedastic and have one mode"
    )
    columns: ClassVar[tuple[str, ...]] = (*Prediction.columns, "obs_ci_lower", "obs_ci_upper")

    @property
    def predicted_mean(self) -> Floats:
        """Heights of the line; not a number where one is not determined."""
        return np.array([score.estimate() for score in self.scores])

    @property
    def se_mean(self) -> Floats:
        """Standard errors of the heights, sampling and noise together."""
        return np.array([score.error() for score in self.scores])

    def _means(self, error: float) -> Floats:
        ends = [score.interval(error, self.reach) for score in self.scores]
        return np.array(ends).reshape(-1, 2)

    def _rows(self, error: float) -> Floats:
        rest = [_error_variance(score, _SHARE * error) for score in self.scores]
        half = _deviations((1 - _SHARE) * error) * np.sqrt(np.array(rest) + self.se_mean**2)
        ends = np.stack([self.predicted_mean - half, self.predicted_mean + half], axis=-1)
        # what is not determined lies within the policy's bounds, as all rows do
        ends = np.where(np.isnan(ends), [-math.inf, math.inf], ends)
        return np.asarray(np.clip(ends, self.low, self.high))

    def _columns(self, error: float) -> list[Floats]:
        return [*super()._columns(error), *self._rows(error).T]


@dataclass(frozen=True, repr=False)
class OddsPrediction(Prediction):
    """Probabilities at rows."""

    odds: Floats
    errors: Floats
    shares: Floats
    slack: Floats
    laplace: bool

    what: ClassVar[str] = "intervals (95 %): ci covers the population's probability at the row"

    @property
    def predicted_mean(self) -> Floats:
        """Probabilities; not a number where log-odds are not determined."""
        return np.asarray(special.expit(self.odds), dtype=np.float64)

    @property
    def se_mean(self) -> Floats:
        """Standard errors of the probabilities, to first order."""
        p = self.predicted_mean
        return np.asarray(p * (1 - p) * self.errors)

    def _means(self, error: float) -> Floats:
        z = np.array([quantile(float(s), error, laplace=self.laplace) for s in self.shares])
        half = stretched(z * self.errors, self.shares) + self.slack
        ends = np.stack([self.odds - half, self.odds + half], axis=-1)
        return np.where(np.isnan(ends), [0.0, 1.0], special.expit(ends))

    def _rows(self, error: float) -> Floats:
        del error
        raise ParameterError("a new row is 0 or 1: only its probability has an interval",
                             hint="conf_int()")  # fmt: skip


def measured_from(scale: Floats, row: Floats) -> tuple[Floats, int]:
    """Measure columns from a row, and find the one whose coefficient is the line's height there."""
    which = 0 if row[0] == 1 else int(np.abs(row).argmax())
    moved = scale.copy()
    if row[which] == 0:
        return moved * np.nan, which  # without a constant, the line is zero where all columns are
    moved[which] = scale[which] / row[which]
    for i, value in enumerate(row):
        if i != which:
            moved[i] = scale[i] - value * moved[which]
    return moved, which


def _error_variance(score: Score, error: float) -> float:
    """Bound of the variance of one row's error."""
    if not score.determined or score.slope <= 0:
        return math.nan
    squares, noise, reach = score.rest()
    high = squares + float(special.ndtri(1 - error / 4)) * noise
    of_unit = np.array([score.released.rows * reach])
    most = expected_squares(np.array([max(high, 0.0)]), of_unit, error / 2)
    return float(most[0]) / max(float(score.released.values[0]) - len(score.scale), 1.0)


def _deviations(error: float) -> float:
    """Deviations beyond which at most so much of a law with one mode lies."""
    far = math.sqrt(4 / (9 * error))
    return far if far >= math.sqrt(8 / 3) else math.sqrt(4 / (3 * error + 1))
