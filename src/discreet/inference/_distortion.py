r"""What is done to a number after the noise: bias and spread of what is shown.

``GREATEST(COUNT(*), 0)``, ``ROUND``, ``LEAST`` and ``ABS`` are no longer the true value plus
noise of mean zero. With g what is done, t the exact count or sum and N its noise, of a known law,

.. math:: b(t)=E\,g(t+N)-g(t),\qquad v(t)=\operatorname{Var}g(t+N)

are computed exactly, by adding up over the law, for values t all over the interval of the
exact number: what is reported is the least and greatest bias and the greatest spread
among them. Never negative counts, for instance, are biased by at most half the scale of
Laplace noise, and that only where the count is zero.

The interval of what is shown needs none of this: g of an interval holds g(t) as often as the
interval holds t.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from discreet import _exact, noise
from discreet._exact import Number
from discreet.answer import Answer, Record, Rows, evaluate
from discreet.errors import ParameterError
from discreet.inference._chosen import by_noise, choice_of, selects, unchosen
from discreet.inference._inputs import Noisy, answer_of, of_formula
from discreet.inference._laws import Floats
from discreet.plan import Box, statistics_of, windows_of

_PLACES: Final = 129
"""Values of the exact number, from one end of its interval to the other."""

_MOST: Final = 4_001
"""Values of the noise that are added up; beyond, neighbours are taken together."""


def distortion(answer: Answer, column: str, confidence: Number = 0.95) -> list[dict[str, Any]]:
    """Return, row by row, the bias and spread of a column that was altered after the noise.

    Parameters
    ----------
    answer
        What a curator answered.
    column
        A column that follows from one count or sum: ``GREATEST(COUNT(*), 0)``.
    confidence
        The exact count or sum is taken to lie in its interval at this confidence.

    Returns
    -------
    list of dict
        Keys as they are, ``bias`` (least and greatest, in units of the column) and ``sd``
        (greatest standard deviation).

    Examples
    --------
    >>> import discreet as dc, pyarrow as pa
    >>> table = dc.policy.Table("people", [dc.policy.Integer("age", 0, 100)])
    >>> policy = dc.policy.Policy([table], dc.policy.Budget("2"), name="bias")
    >>> curator = dc.open(pa.table({"age": []}, pa.schema([("age", pa.int64())])), policy,
    ...                   ledger=":memory:")
    >>> answer = curator.sql("SELECT GREATEST(COUNT(*), 0) AS n FROM people", epsilon=1)
    >>> (row,) = answer.distortion("n")
    >>> round(row["bias"][1], 3)  # of an empty table
    0.425
    """
    level, record = _exact.confidence(confidence), answer_of(answer).full_record
    out = next((o.expr for o in record.outputs if o.name == column), None)
    indices = set() if out is None else statistics_of(out)
    if out is None or len(indices) != 1 or windows_of(out) or record.levels:
        raise ParameterError(
            f"{column!r} is not a column that follows from one count or sum",
            hint="SELECT GREATEST(COUNT(*), 0) AS n …",
        )
    (index,) = indices
    # of rows that noise chose the bias is another: they are shown because it was large
    own = choice_of(answer, column, 0, id(record), selected=selects(record, index))
    unchosen(by_noise(own), "a bias")
    item = of_formula(record, record.formulas[index], repr(column), None)
    errors, weights = _values(item)
    box = Rows(record).box(index, level)
    ends = []
    for cell in range(record.cells):
        exact = np.linspace(box.low[cell], box.high[cell], _PLACES)
        unit = float(item.noise.step)
        exact = np.unique(np.round(exact / unit) * unit)
        values = evaluate(out, _Altered(record, cell, exact[:, None] + errors))
        means = values.reshape(exact.size, -1) @ weights
        spread = (values.reshape(exact.size, -1) - means[:, None]) ** 2 @ weights
        bias = means - evaluate(out, _Altered(record, cell, exact))
        ends.append((bias.min(), bias.max(), float(np.sqrt(spread.max()))))
    low, high, sd = np.array(ends, dtype=np.float64).reshape(-1, 3).T
    none = dict.fromkeys(answer.columns)
    rows = answer.rows_of({**none, column: Box(low, high)})
    spreads = answer.rows_of({**none, column: Box(sd, sd)})
    keys = [o.name for o in record.outputs if not statistics_of(o.expr)]
    return [
        {**{k: row[k] for k in keys}, "bias": row[column], "sd": each[column][0]}
        for row, each in zip(rows, spreads, strict=True)
    ]


def _values(item: Noisy) -> tuple[Floats, Floats]:
    """Values of the noise, in units, and their probabilities."""
    law, step = item.noise.law, float(item.noise.step)
    assert isinstance(law, noise.Law)  # answers hold no others
    reach = float(law.interval(1 - 1e-12).high)
    width = max(1, -(-2 * int(reach) // _MOST))
    k = np.arange(-(int(reach) // width) - 1, int(reach) // width + 2) * width
    mass = law.cdf(k + width // 2) - law.cdf(k - (width + 1) // 2)
    weights: Floats = np.asarray(mass, dtype=np.float64)
    return np.asarray(k * step, dtype=np.float64), np.asarray(weights / weights.sum())


class _Altered(Rows):
    """One cell of a record, with many values of its one statistic."""

    def __init__(self, record: Record, cell: int, values: Floats) -> None:
        super().__init__(record)
        self._values, self._cell = values.ravel(), cell

    @property
    def cells(self) -> int:
        """One for each value."""
        return int(self._values.size)

    @property
    def keys(self) -> dict[str, Any]:
        """Those of the cell, again and again."""
        return {
            name: np.full(self.cells, column[self._cell], dtype=object)
            for name, column in self._record.keys.items()
        }

    def statistic(self, index: int) -> Floats:  # noqa: ARG002 - there is one
        """The values."""
        return self._values
