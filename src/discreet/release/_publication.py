"""What was published: answers, the estimate behind them, their error, their cost.

Everything here is computed from released integers and public parameters.

Intervals
---------
For a linear mechanism the error of every answer is a linear function of the noise alone: it
has the same law for every data set, so also for an empty one. Running the mechanism m
times on empty counts therefore draws m independent copies of the error vector. The true
error and the copies are exchangeable, so it exceeds the k-th smallest |copy| with probability
at most 1 − k/(m+1), whatever the law: with k = ⌈(m+1)·confidence⌉ the interval covers, exactly and
without any approximation (the argument of conformal prediction). Each answer's
interval covers by itself; they do not cover all at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet import _exact, _vega, noise
from discreet import privacy as p
from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet.errors import Hint, ParameterError, PrivacyError
from discreet.mechanisms import Interval
from discreet.release import _drawing, _post
from discreet.release._counts import Counts
from discreet.release._domain import Domain
from discreet.release._synthetic import Model, Synthetic

if TYPE_CHECKING:
    from discreet.release._plan import Plan

_COPIES = 399
_ROOM = 1 << 27


@dataclass(frozen=True, repr=False, eq=False)
class Publication:
    """A published workload.

    Attributes
    ----------
    answers
        One number for each query of the workload, in its order.
    estimate
        The reconstructed counts in the domain's shape; for marginals, a dictionary of
        tables by attribute numbers.
    rmse
        Expected root mean squared error of a query (an upper bound for non-negative
        publications); None where it depends on the data.
    loss
        What the publication cost.
    plan
        How it was made.
    domain
        Names and values of the cells, where they have any.
    left, cached
        Of a curator's publication: what is left of the budget, and whether it had been
        published before and was free.
    """

    answers: NDArray[np.float64]
    estimate: Any
    rmse: float | None
    loss: p.PrivacyLoss
    plan: Plan
    nonnegative: bool
    released: tuple[tuple[dict[str, Any], NDArray[Any]], ...]
    tainted: bool = False
    domain: Domain | None = None
    stored: Mapping[str, Any] | None = None
    left: str | None = None
    cached: bool = False

    @classmethod
    def of(
        cls,
        plan: Plan,
        estimate: Any,
        released: Sequence[tuple[dict[str, Any], NDArray[Any]]],
        *,
        nonnegative: bool,
    ) -> Publication:
        """Build from what was released."""
        tainted = noise.is_deterministic()
        if nonnegative:
            estimate = _post.nonnegative(plan.workload, estimate)
        answers = np.asarray(plan.mechanism.answers(estimate), dtype=np.float64)
        return cls(
            answers, estimate, plan.rmse, plan.loss, plan, nonnegative, tuple(released), tainted
        )

    @property
    def method(self) -> str:
        """Name of the method."""
        return self.plan.method

    def interval(self, confidence: Number = 0.95, *, copies: int | None = None) -> Interval:
        """Return an interval for each answer, with the confidence it surely has.

        Parameters
        ----------
        confidence
            Coverage of each interval by itself.
        copies
            How many copies of the error are drawn; more make the width less random. By
            default 399, or as many of them as memory holds.

        Raises
        ------
        PrivacyError
            If the mechanism's error depends on the data: then no interval is known.
        """
        level = _exact.confidence(confidence)
        if not self.plan.mechanism.linear or self.nonnegative:
            why = "non-negative" if self.nonnegative else self.method
            raise PrivacyError(
                f"a {why} publication has no interval: its error depends on the data",
                hint=Hint("method", "hb"),
            )
        if copies is None:
            copies = min(_COPIES, max(39, _ROOM // self.plan.workload.queries))
        rank = math.ceil((copies + 1) * level)
        if rank > copies:
            raise ParameterError(
                f"{copies} copies cannot show a confidence of {level}",
                hint=Hint("copies", math.ceil(1 / (1 - level))),
            )
        reach = np.sort(np.abs(self._errors(copies)), axis=0)[rank - 1]
        return Interval(self.answers - reach, self.answers + reach, rank / (copies + 1))

    def _errors(self, copies: int) -> NDArray[np.float64]:
        """Draw copies of the error: the mechanism on empty counts, which are public."""
        workload, mechanism = self.plan.workload, self.plan.mechanism
        if workload.queries * copies > _ROOM:
            raise ParameterError(
                f"{copies} copies of {workload.queries} errors would not fit into memory",
                hint=Hint("copies", 39),
            )
        empty = Counts(None, np.zeros((0, len(workload.shape)), dtype=np.int64), workload.shape)
        return np.array(
            [mechanism.answers(self.plan.conduct(lambda q: q.ask(empty))[0]) for _ in range(copies)]
        )

    def record(self) -> dict[str, Any]:
        """Return everything released, as JSON can hold it: whoever has it can recompute."""
        if self.stored is not None:
            return dict(self.stored)
        return {
            "method": self.method,
            "workload": self.plan.workload.describe(),
            "shape": list(self.plan.workload.shape),
            "price": str(self.plan.price),
            "neighbours": str(self.plan.neighbours),
            "loss": repr(self.loss),
            "unprotected": list(self.loss.unprotected),
            "nonnegative": self.nonnegative,
            "questions": [
                {**part, "released": [int(v) for v in np.ravel(y).tolist()]}
                for part, y in self.released
            ],
        }

    def to_arrow(self, confidence: Number = 0.95) -> Any:
        """Return a table with one row per query: value, and low and high where known."""
        import pyarrow as pa  # noqa: PLC0415 - an engine's library, loaded on use

        workload = self.plan.workload
        columns: dict[str, Any] = {"query": np.arange(len(self.answers))}
        if self.domain is not None:
            columns = dict(self.domain.rows(workload))
        columns["value"] = self.answers
        if self.plan.mechanism.linear and not self.nonnegative:
            columns["low"], columns["high"] = self.interval(confidence)
        return pa.table(columns)

    def chart(
        self,
        band: Interval | None = None,
        *,
        table: Mapping[str, NDArray[np.float64]] | None = None,
        title: str | None = None,
    ) -> _vega.Chart:
        """Return a Vega-Lite chart: a short table row by row, a map for two axes, else a line.

        Parameters
        ----------
        band
            An interval (:meth:`interval`) to be drawn around the numbers.
        table
            The numbers to draw (``value``, ``low``, ``high``; NaN: not shown), if not the answers.
        title
            What stands above; by default the workload.
        """
        workload = self.plan.workload
        domain = Domain.of_shape(workload.shape) if self.domain is None else self.domain
        if table is None:
            table = {"value": self.answers}
            if band is not None:
                table |= {"low": np.asarray(band.low), "high": np.asarray(band.high)}
        title = workload.describe() if title is None else title
        if len(self.answers) <= _drawing.ROWS:
            labels = domain.rows(workload)
            if all(labels.values()):  # a matrix of queries has no labels
                return _drawing.rows(labels, domain.panels(workload), table, title)
        if len(workload.shape) == 2 and isinstance(self.estimate, np.ndarray):
            if (
                len(self.answers) == self.estimate.size
                and (self.answers == self.estimate.ravel()).all()
            ):
                return _drawing.grid(domain, table["value"].reshape(workload.shape), title)
            if not np.isnan(table["value"]).any():  # cells would show what is left out
                return _drawing.grid(domain, self.estimate, title)
        return _drawing.line(table, title, self.domain)

    def synthesize(self, n: int | None = None) -> NDArray[np.int64]:
        """Return `n` made-up records (codes, one row each) whose counts follow the estimate.

        Without `n`, the estimated number of records. Post-processing: costs nothing more.
        """
        if isinstance(self.estimate, Model):
            return self._synthetic().records(n)
        if not isinstance(self.estimate, np.ndarray):
            raise ParameterError(
                "a publication of tables has no single estimate to draw records from",
                hint="publish the records with release.synthetic",
            )
        return _post.records(self.estimate, n)

    def sets(self, m: int = 10, n: int | None = None) -> list[NDArray[np.int64]]:
        """Return several made-up sets that show their uncertainty; see :meth:`Synthetic.sets`."""
        return self._synthetic().sets(m, n)

    def _synthetic(self) -> Synthetic:
        if not isinstance(self.estimate, Model):
            raise ParameterError(
                "several sets are drawn from a model with its noise",
                hint=Hint("method", "synthetic"),
            )
        plan = self.plan
        return Synthetic(self.estimate, self.loss, plan.price, plan.neighbours, self.tainted)

    def __repr__(self) -> str:
        rmse = "unknown" if self.rmse is None else f"{self.rmse:.6g}"
        taint = "  [TEST NOISE: NOT PRIVATE]" if self.tainted else ""
        if exact := " and ".join(self.loss.unprotected):
            taint = f"  [UNPROTECTED: {exact}]{taint}"
        return (
            f"Publication({self.plan.workload.describe()}, {len(self.answers)} answers, "
            f"expected rmse {rmse}, {self.method}, {self.plan.price}, "
            f"{self.plan.neighbours}){taint}"
        )
