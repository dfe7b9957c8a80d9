"""Spending budget to learn how far off a published number is.

Post-processing (rounding up to zero, smoothing, a model) destroys the known law of
an answer's error. The error itself can be asked for instead: the published value is
public by now, hence a constant, so ``truth − published`` has the sensitivity of the
query alone. A fresh answer to the query, minus the constant, is that error plus
noise of a known law. It costs what the fresh answer costs, on top of what was spent.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from discreet._dataclass import dataclass, replace
from discreet._exact import Number, show
from discreet.answer import Answer, Record, read
from discreet.errors import ParameterError
from discreet.inference._inputs import Noisy, noisy
from discreet.inference._intervals import interval
from discreet.inference._results import Interval, plain


class Asks(Protocol):
    """Whatever answers SQL at a price: a curator."""

    def sql(
        self,
        query: str,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        fresh: bool = False,
    ) -> Any:
        """Answer a query, as a curator does."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ErrorEstimate:
    """Noisy signed error (truth − published) of a published number or column.

    Attributes
    ----------
    value
        The estimate of the error.
    cost
        ε of this estimate alone.
    total_cost
        ε of the published answer (where it is an answer) and of this estimate together.
    """

    value: Any
    cost: Fraction
    total_cost: Fraction
    _error: Noisy

    def interval(self, confidence: Number = 0.95, *, simultaneous: bool = False) -> Interval:
        """Return where the signed error lies."""
        return interval(self._error, confidence, simultaneous=simultaneous)

    def corrected(self, published: Any, confidence: Number = 0.95) -> Interval:
        """Return where the truth lies: the published value plus the error's interval."""
        ends, base = self.interval(confidence), np.asarray(published, dtype=np.float64)
        return replace(ends, low=plain(base + ends.low), high=plain(base + ends.high))

    def __repr__(self) -> str:
        low, high = self.interval()
        return (
            f"error {self.value} in [{low}, {high}] (95 %) · cost ε={show(self.cost)}, "
            f"in total ε={show(self.total_cost)}"
        )


def error_of(
    curator: Asks,
    answer: Any,
    query: str,
    epsilon: Number,
    *,
    column: str | None = None,
    row: Mapping[str, object] | None = None,
    delta: Number | None = None,
) -> ErrorEstimate:
    """Buy an estimate of how far a published number is from the truth.

    Parameters
    ----------
    curator
        Who can answer `query`; it is charged `epsilon`.
    answer
        What was published: a number, an array in the order of the query's groups,
        or an answer (its values, clipped or not, are taken as constants).
    query
        The query whose exact value `answer` stands for; one count or sum.
    column, row
        Which column and group, where there are several.
    """
    published, spent, keys = _published(answer, column, row)
    # the same question asked before would come back with the same noise: pay for new noise
    fresh = curator.sql(query, epsilon=epsilon, delta=delta, fresh=True)
    if keys is not None and row is None and dict(_record(fresh).keys) != keys:
        raise ParameterError("the published answer and the query have different groups")
    # the row was named before this noise was drawn: whatever HAVING shows, it is not chosen by it,
    # unless its key is there because of it
    estimate = noisy(fresh, column, row)
    estimate = replace(estimate, chosen=tuple(mark for mark in estimate.chosen if not mark.rows))
    if np.size(published) not in (1, estimate.size):
        raise ParameterError(f"{np.size(published)} published values for {estimate.size} groups")
    error = replace(estimate, value=plain(np.asarray(estimate.value) - published))
    cost = Fraction(_record(fresh).cost["epsilon"])
    return ErrorEstimate(error.value, cost, cost + spent, error)


def _record(answer: Any) -> Record:
    return read(answer.record())


def _published(
    answer: Any, column: str | None, row: Mapping[str, object] | None
) -> tuple[Any, Fraction, dict[str, Any] | None]:
    if isinstance(answer, Answer):
        record = _record(answer)
        values = noisy(answer, column, row).value
        return values, Fraction(record.cost["epsilon"]), dict(record.keys)
    try:
        values = np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError("publish a number, an array or an answer first") from None
    return values, Fraction(0), None
