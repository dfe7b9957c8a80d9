"""Plans: what a publication would cost and how good it would be, before data is touched."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

from numpy.typing import NDArray

from discreet import privacy as p
from discreet._dataclass import dataclass, replace
from discreet._exact import Number
from discreet.errors import Hint, ParameterError
from discreet.privacy import Neighbours
from discreet.release._adaptive import TreeAdaptive
from discreet.release._ahp import Ahp
from discreet.release._counts import read_counts
from discreet.release._gradual import IReduct
from discreet.release._grids import AdaptiveGrid, UniformGrid
from discreet.release._groups import CountOfCounts
from discreet.release._hdmm import hdmm
from discreet.release._hierarchy import HB, Hierarchical, IdentityStrategy, Wavelet
from discreet.release._marginals import marginals
from discreet.release._mechanism import Job, Mechanism, Strategy
from discreet.release._mwem import Mwem
from discreet.release._optimum import MatrixStrategy
from discreet.release._partition import Dawa
from discreet.release._price import Price
from discreet.release._privtree import PrivTree
from discreet.release._progress import progress
from discreet.release._publication import Publication
from discreet.release._questions import Question, conduct
from discreet.release._synthetic import SyntheticRecords
from discreet.release._topdown import TopDown
from discreet.release._urn import OriginDestination
from discreet.release._workload import Marginals, Products, Workload

Noise = Literal["laplace", "gaussian"]

METHODS: dict[str, Callable[..., Mechanism]] = {
    "identity": IdentityStrategy,
    "hierarchical": Hierarchical,
    "hb": HB,
    "wavelet": Wavelet,
    "matrix": MatrixStrategy,
    "hdmm": hdmm,
    "marginals": marginals,
    "tree-adaptive": TreeAdaptive,
    "dawa": Dawa,
    "mwem": Mwem,
    "ahp": Ahp,
    "ireduct": IReduct,
    "uniform-grid": UniformGrid,
    "adaptive-grid": AdaptiveGrid,
    "privtree": PrivTree,
    "count-of-counts": CountOfCounts,
    "topdown": TopDown,
    "synthetic": SyntheticRecords,
    "urn": OriginDestination,
}
"""Every method by its name."""

_ROW, _QUERY = 3e-7, 1e-8
"""Seconds for one measured number (noise and least squares) and for one answer, roughly."""

_QUICK_AXIS = 1024
_QUICK_MATRIX = 256


@dataclass(frozen=True, repr=False)
class Plan:
    """A publication that has not happened yet.

    Attributes
    ----------
    workload, price, neighbours
        What is asked, what it may cost, and under which relation.
    mechanism
        The method, with its strategy.
    rmse
        Expected root mean squared error of a query; None where it depends on the data.
    candidates
        Methods that were compared, with their expected errors.
    rows
        Most records of one unit; what it costs is what these cost together.
    """

    workload: Workload
    price: Price
    neighbours: Neighbours
    mechanism: Mechanism
    rmse: float | None
    candidates: dict[str, float]
    rows: int = 1

    @property
    def method(self) -> str:
        """Name of the method."""
        return self.mechanism.method

    @property
    def error(self) -> float | None:
        """Expected total squared error."""
        return None if self.rmse is None else self.rmse**2 * self.workload.mass

    @property
    def loss(self) -> p.PrivacyLoss:
        """What it costs."""
        if self.rows == 1:
            return self.mechanism.loss
        return self.price.loss.under(self.neighbours).beside(*self.mechanism.unprotected)

    @property
    def memory(self) -> int:
        """Roughly how many bytes the publication needs."""
        return self.mechanism.memory

    @property
    def seconds(self) -> float | None:
        """Roughly how long the publication takes; None where that depends on the data."""
        if not isinstance(self.mechanism, Strategy):
            return None
        return _ROW * self.mechanism.query.rows + _QUERY * self.workload.queries

    def publish(self, x: Any, *, nonnegative: bool = False) -> Publication:
        """Spend the price on private counts and return the publication.

        Parameters
        ----------
        x
            Counts in the domain's shape (or flat), or :class:`Records`.
        nonnegative
            Also move the estimate to the nearest non-negative one *in the metric of the
            workload*; this never raises the workload's error, but makes it unknowable.
        """
        counts = read_counts(x, self.workload.shape)
        estimate, exchanges = self.conduct(lambda question: question.ask(counts))
        # questions are not kept: some hold noise that was drawn and not released
        released = [(question.record(), y) for question, y in exchanges]
        return Publication.of(self, estimate, released, nonnegative=nonnegative)

    def conduct(
        self, answer: Callable[[Question], NDArray[Any]]
    ) -> tuple[Any, list[tuple[Question, NDArray[Any]]]]:
        """Drive the mechanism with answers to its questions; see :func:`conduct`."""
        with progress(f"publishing by {self.method}") as bar:

            def answered(question: Question) -> NDArray[Any]:
                bar.step(question.label or self.method)
                return answer(question)

            return conduct(self.mechanism.course(), self.mechanism.job.price, answered)

    def __repr__(self) -> str:
        error = "unknown beforehand" if self.rmse is None else f"{self.rmse:.6g}"
        lines = [
            f"Plan({self.method}, {self.price}, {self.neighbours})",
            f"  workload  {self.workload.describe()}",
            f"  measures  {self.mechanism.describe()}",
            f"  rmse      {error}: {self.mechanism.note}",
        ]
        time = "" if self.seconds is None else f"about {max(self.seconds, 0.01):.1g} s and "
        lines.append(f"  needs     {time}{float(f'{max(self.memory / 1e6, 0.1):.1g}'):,g} MB")
        if self.rows > 1:
            lines.insert(1, f"  unit      at most {self.rows} records")
        if self.mechanism.unprotected:
            names = " and ".join(self.mechanism.unprotected)
            lines.append(f"  EXACT     {names}: released without any protection")
        if len(self.candidates) > 1:
            ranked = sorted(self.candidates.items(), key=lambda item: item[1])
            lines.append("  compared  " + ", ".join(f"{name} {e:.6g}" for name, e in ranked))
        return "\n".join(lines)


def plan(
    workload: Workload,
    *,
    epsilon: Number | None = None,
    delta: Number | None = None,
    rho: Number | None = None,
    method: str = "auto",
    neighbours: Neighbours | str = "add-remove",
    rows: int = 1,
    noise: Noise | None = None,
    **options: Any,
) -> Plan:
    """Say how a workload would be published, and how well, without any data.

    Parameters
    ----------
    workload
        The queries.
    epsilon, delta, rho
        The price: ε (Laplace noise), ε and δ, or ρ (Gaussian noise).
    method
        A method's name, or "auto": the least expected error among those that do not
        depend on the data; with ε and δ by Gaussian or Laplace noise (which needs no δ),
        so that a δ never makes the error greater.
    neighbours
        "add-remove" or "change-one".
    rows
        Most records that one unit has: all of them are protected together.
    noise
        "laplace" or "gaussian" insists on a kind, where ε and δ allow both.
    options
        Passed to the method.

    Examples
    --------
    >>> from discreet import release
    >>> found = release.plan(release.Workload.prefix(256), epsilon="0.1", method="hb")
    >>> round(found.rmse, 2)
    84.12
    """
    if not isinstance(workload, Workload):
        raise ParameterError("plan needs a workload", hint="release.Workload.prefix(256)")
    try:
        relation = Neighbours(neighbours)
    except ValueError:
        raise ParameterError(
            "neighbours must be 'add-remove' or 'change-one'", hint=Hint("neighbours", "add-remove")
        ) from None
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise ParameterError(
            "rows is how many records one unit has, at least 1", hint=Hint("rows", 1)
        )
    prices = _prices(Price.read(epsilon, delta, rho), noise, auto=method == "auto")
    with progress(f"planning {workload.describe()}"):
        jobs = [(Job(workload, price.each(rows), relation), price) for price in prices]
        plans = [_planned(*jobs[0], method, rows, options)]
        for job, price in jobs[1:]:
            # what Laplace noise is not offered for is published without it
            with suppress(ParameterError):
                plans.append(_planned(job, price, method, rows, options))
        return _least(plans)


def _prices(price: Price, noise: Noise | None, *, auto: bool) -> list[Price]:
    """List the prices to plan at: whatever is ε-DP is (ε, δ)-DP, with Laplace noise."""
    if noise not in (None, "laplace", "gaussian"):
        raise ParameterError("noise is 'laplace' or 'gaussian'", hint=Hint("noise", "gaussian"))
    if noise is not None and noise == ("gaussian" if price.pure else "laplace"):
        if price.pure or price.epsilon is None:
            raise ParameterError(
                f"{price} buys {'Laplace' if price.pure else 'Gaussian'} noise",
                hint=Hint("delta", "1e-6") if price.pure else Hint("epsilon", "1"),
            )
        return [Price(price.epsilon, None, None)]
    if price.delta is None or noise is not None or not auto:
        return [price]
    return [price, Price(price.epsilon, None, None)]


def _least(plans: list[Plan]) -> Plan:
    """Take the plan of the least expected error; it says what the others would have had."""
    best = min(plans, key=lambda plan: math.inf if plan.rmse is None else plan.rmse)
    errors: dict[str, float] = {}
    for plan in plans:
        for name, error in plan.candidates.items():
            errors[name] = min(error, errors.get(name, math.inf))
    return replace(best, candidates=errors)


def _planned(job: Job, price: Price, method: str, rows: int, options: dict[str, Any]) -> Plan:
    """Make the method, or the best of those that suit."""
    workload, relation = job.workload, job.neighbours
    if method != "auto":
        mechanism = _mechanism(job, method, options)
        rmse = _rmse(mechanism)
        candidates = {} if rmse is None else {method: rmse}
        return Plan(workload, price, relation, mechanism, rmse, candidates, rows)
    if options:
        raise ParameterError(
            f"options belong to a method: {', '.join(sorted(options))}", hint=Hint("method", "hdmm")
        )
    mechanisms = {name: _mechanism(job, name, {}) for name in _suited(job)}
    errors = {name: rmse for name, m in mechanisms.items() if (rmse := _rmse(m)) is not None}
    best = min(errors, key=errors.__getitem__)
    return Plan(workload, price, relation, mechanisms[best], errors[best], errors, rows)


def _rmse(mechanism: Mechanism) -> float | None:
    error = mechanism.error()
    return None if error is None else math.sqrt(error / mechanism.job.workload.mass)


def _mechanism(job: Job, method: str, options: dict[str, Any]) -> Mechanism:
    if method not in METHODS:
        raise ParameterError(
            f"there is no method {str(method)[:40]!r}; there are {', '.join(METHODS)}",
            hint=Hint("method", "auto"),
        )
    try:
        return METHODS[method](job, **options)
    except TypeError as wrong:
        if "unexpected keyword" not in str(wrong):
            raise
        raise ParameterError(
            f"{method} does not take these options: {', '.join(sorted(options))}",
            hint=Hint("method", method),
        ) from None


def _suited(job: Job) -> list[str]:
    """Name the data-independent methods that answer within seconds."""
    workload = job.workload
    if isinstance(workload, Marginals):
        small = workload.cells <= 1 << 20
        return ["marginals", "identity"] if small else ["marginals"]
    names = ["identity", "hierarchical", "hb"]
    if len(workload.shape) == 1:
        names.append("wavelet")
    if isinstance(workload, Products) and max(workload.shape) <= _QUICK_AXIS:
        names.append("hdmm")
    if not job.price.pure and workload.cells <= _QUICK_MATRIX:
        names.append("matrix")
    return names


def publish(
    x: Any,
    workload: Workload,
    *,
    epsilon: Number | None = None,
    delta: Number | None = None,
    rho: Number | None = None,
    method: str = "auto",
    neighbours: Neighbours | str = "add-remove",
    rows: int = 1,
    noise: Noise | None = None,
    nonnegative: bool = False,
    **options: Any,
) -> Publication:
    """Publish a workload of private counts.

    Parameters
    ----------
    x
        Private counts in the domain's shape, or :class:`Records`.
    workload, epsilon, delta, rho, method, neighbours, rows, noise, options
        See :func:`plan`.
    nonnegative
        See :meth:`Plan.publish`.

    Examples
    --------
    >>> from discreet import release
    >>> table = release.publish([12, 0, 7, 31], release.Workload.prefix(4), epsilon=1)
    >>> table.answers.shape, table.loss.epsilon()
    ((4,), 1.0)
    """
    offer = plan(
        workload,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        method=method,
        neighbours=neighbours,
        rows=rows,
        noise=noise,
        **options,
    )
    return offer.publish(x, nonnegative=nonnegative)
