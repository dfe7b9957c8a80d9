r"""Logistic regression from noisy cells: counts of values, and splines of numbers.

What is released
----------------
One noisy number for every *cell* and for both answers of the response: a combination of the
predictors' public values, and for up to three numeric predictors the products of their cubic
splines (:mod:`discreet.plan`, "splines"). A row adds shares of one to its cells, whatever
their number, so all of them cost as much as one count: an ordinary question of the curator,
proved, debited, measured and stored on its one road.

Inference
---------
Sums of smooth functions over rows are combinations of the cells: with :math:`a_c(f)` the
coefficients of the spline nearest to f, :math:`\sum_\text{rows}f\approx\sum_ca_c(f)n_c`, and the
error is at most n times :math:`e(f)=\max|f-\sum_ca_cN_c|`, which is computed. So the score
:math:`U(\beta)=\sum_ca_c(z)n_{c1}-\sum_ca_c(zp_\beta)(n_{c0}+n_{c1})` is *linear* in what was
released: noise of variance σ² leaves its expectation zero at the true β, but for e, and adds
the known covariance
:math:`N=\sigma^2\sum_c\{(a_c(z)-a_c(zp))(\cdot)^\top+a_c(zp)a_c(zp)^\top\}`. The root of the noisy
score is consistent, with

.. math:: \operatorname{Cov}\hat\beta\approx H^{-1}(kH+N)H^{-1},\qquad
          H=\sum_ca_c(zz^\top p(1-p))(n_{c0}+n_{c1}),

k the most rows of one unit (its rows may be alike: the design effect is at most k).
Intervals are Wald's, widened by what e can do, with a critical value between the normal's
and Laplace's by the noise's share. Where an eigenvalue of the noisy H is less than
:data:`FLOOR` standard deviations of its own noise, or the curve is so steep that a spline misses
a probability by more than :data:`STEEPEST`, or the root runs off (a noisy count of events is
zero or less), the coefficients are not determined, and which of these it is, is said.
Checked by simulation from a thousand rows to a million.

What is estimated are log-odds in the *clamped* predictors, linear in each. Nothing is asked
twice: unlike noisy Newton steps, one release serves every β.

References
----------
P. McCullagh, J. Nelder, *Generalized linear models*, 1989, for score and information; noise in
counts as measurement error: J. Buonaccorsi, *Measurement error*, 2010, section 4; sufficient
statistics of approximated scores: J. Huggins, R. Adams, T. Broderick, "PASS-GLM", NeurIPS 2017.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from scipy import special

from discreet._dataclass import dataclass, replace
from discreet._text import quoted
from discreet.answer import Answer
from discreet.errors import ParameterError
from discreet.inference._columns import (
    Bounds,
    Term,
    columns_of,
    design_column,
    design_of,
    narrowed,
    where_of,
)
from discreet.inference._formula import Formula, example
from discreet.inference._inputs import check_untainted, noisy, rows_of
from discreet.inference._laws import Floats
from discreet.inference._predicted import OddsPrediction
from discreet.inference._rare import Less, less, notes, unseen
from discreet.inference._regression import FEW, HIDDEN, Ask, Fitted, table_of
from discreet.inference._slope import least_error, quantile, stretched, unstretched
from discreet.plan import INTERVALS, OutputColumn, Query, Splines, SplinesOf, StatisticValue

if TYPE_CHECKING:
    from discreet.curator import Curator

FLOOR: Final = 5.0
STEEPEST: Final = 0.005
"""Furthest that a probability may be from its spline."""
SINGULAR: Final = 1e-12
"""Least eigenvalue of the information, by the largest, that is told from rounding."""

ENDLESS: Final = "not determined: no finite log-odds"
STEEP: Final = "not determined: the curve is too steep for the splines"
UNSETTLED: Final = "not determined: the fit does not settle"

_CELLS: Final = 20_000
_STEPS: Final = 50
_REMOTE: Final = 12.0
"""Log-odds that are out of reach: one in 160 000."""
_FEW: Final = 12
"""Values of a number that are counted one by one; more are read through splines."""


@dataclass(frozen=True)
class Cells:
    """What the cells stand for: groups of exact values, each with places and splines."""

    design: Floats
    """Columns of the design at every place of every group, numbers scaled to −1…1."""
    lift: Floats
    """From values at the places of a group to coefficients of its cells."""
    values: Floats
    """From coefficients back to values."""

    @classmethod
    def exact(cls, design: Floats) -> Cells:
        """Every cell is one place."""
        one = np.ones((1, 1))
        return cls(design[:, None, :], one, one)

    def coefficients(self, at_places: Floats) -> Floats:
        """Nearest combination of cells to a function that is known at all places."""
        return np.asarray(np.einsum("mp,gp...->gm...", self.lift, at_places))

    def residual(self, at_places: Floats, coefficients: Floats) -> Floats:
        """How far the combination is from the function, at most."""
        fitted = np.einsum("pm,gm...->gp...", self.values, coefficients)
        return np.asarray(np.abs(at_places - fitted).max(axis=(0, 1)))


@dataclass(frozen=True)
class _Root:
    """Where the noisy score is zero, and what the errors of that are made of."""

    beta: Floats
    inverse: Floats
    """Of the information."""
    sampling: Floats
    noise: Floats
    slack: Floats
    """Most that splines may move the score."""

    def along(self, ways: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """For combinations of log-odds: values, variances, the noise's share, and the slack."""
        inverse = ways @ self.inverse
        noisy = ((inverse @ self.noise) * inverse).sum(axis=1)
        total = ((inverse @ self.sampling) * inverse).sum(axis=1) + noisy
        share = np.divide(noisy, total, out=np.zeros_like(total), where=total > 0)
        return ways @ self.beta, total, share, np.abs(inverse) @ self.slack


@dataclass(frozen=True, repr=False)
class Logistic(Fitted):
    """Log-odds with errors, intervals and tests, in the manner of statsmodels.

    The response is the value whose odds are modelled.
    """

    what: ClassVar[str] = "log-odds"
    covers: ClassVar[str] = "log-odds"

    cells: Cells
    counts: Floats
    """Noisy shares of rows: without and with the response, group by group, cell by cell."""
    variance: float
    rows: int
    laplace: bool = True

    @cached_property
    def _fit(self) -> _Root | str:
        """Log-odds of scaled columns, and what their errors are made of.

        A text: why they are not determined.
        """
        try:
            root = self._root()
            if isinstance(root, str):
                return root
            beta, information, noise = root
            slack = self._slack(beta, information, noise)
            inverse = np.asarray(np.linalg.inv(information), dtype=np.float64)
        except np.linalg.LinAlgError:
            return HIDDEN
        return (
            STEEP if slack is None else _Root(beta, inverse, self.rows * information, noise, slack)
        )

    @cached_property
    def _less(self) -> Less | None:
        """Levels that the noise hides, and a fit of all others, where these stand in the way."""
        return less(self) if isinstance(self._fit, str) else unseen(self)

    @cached_property
    def _scale(self) -> Floats:
        """From coefficients of scaled columns to those of columns in units."""
        scale = np.diag([1 / t.half for t in self.terms])
        scale[0, 1:] = [-t.centre / t.half for t in self.terms[1:]]
        return np.asarray(scale)

    @cached_property
    def _groups(self) -> NDArray[np.bool_]:
        """Which coefficients are log-odds of a group of rows, or compare two."""
        flags = [t.value is not None for t in self.terms[1:]]
        return np.array([all(flags), *flags])

    @cached_property
    def _own(self) -> tuple[Floats, Floats, Floats, Floats] | None:
        """Coefficients, as :meth:`_Root.along` gives them."""
        return None if isinstance(self._fit, str) else self._fit.along(self._scale)

    def _root(self) -> tuple[Floats, Floats, Floats] | str:
        """Where the noisy score is zero, with its information and the noise's covariance."""
        z, cells = self.cells.design, self.cells
        n, plain = self.counts.sum(axis=0), cells.coefficients(self.cells.design)
        top = np.einsum("gm,gmd->d", self.counts[1], plain)
        beta = np.zeros(z.shape[-1])
        for _ in range(_STEPS):
            p = special.expit(z @ beta)
            weights = z * (p * (1 - p))[..., None]
            each = cells.coefficients(weights[..., None] * z[..., None, :])
            information = np.einsum("gm,gmij->ij", n, each)
            sizes, ways = np.linalg.eigh(information)
            # noise of the information in each of its own directions
            spread = np.einsum("gmij,ik,jk->kgm", each, ways, ways)
            noise = np.sqrt(2 * self.variance * (spread**2).sum(axis=(1, 2)))
            if (sizes <= np.maximum(FLOOR * noise, SINGULAR * sizes[-1])).any():
                # far out every probability is next to 0 or 1, and nothing is left to see
                return ENDLESS if float(np.abs(z @ beta).max()) > _REMOTE else HIDDEN
            expected = cells.coefficients(z * p[..., None])
            step = np.linalg.solve(information, top - np.einsum("gm,gmd->d", n, expected))
            beta = beta + step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))
            if float(np.abs(step).max()) < 1e-10:
                break
        else:
            return ENDLESS if float(np.abs(z @ beta).max()) > _REMOTE else UNSETTLED
        sides = (plain - expected).reshape(-1, beta.size), expected.reshape(-1, beta.size)
        return beta, information, self.variance * (sides[0].T @ sides[0] + sides[1].T @ sides[1])

    def _slack(self, beta: Floats, information: Floats, noise: Floats) -> Floats | None:
        """Most that the score may be off at log-odds in reach; None: more than a little."""
        if self.cells.lift.size == 1:
            return np.zeros(beta.size)  # every value is a cell of its own
        inverse = np.linalg.inv(information)
        spread = 3 * np.sqrt(np.diag(inverse @ (self.rows * information + noise) @ inverse))
        n = max(float(self.counts.sum()), 1.0)
        reach = np.zeros(beta.size)
        # where the truth may be decides how far splines are off, and the other way round
        for _ in range(3):
            moved = [beta, *(beta + side * way for way in np.diag(reach) for side in (-1, 1))]
            off = np.max([self._off(at) for at in moved], axis=0)
            if float(off[0]) > STEEPEST:
                return None
            reach = spread + np.abs(inverse) @ off * n
        return np.asarray(off * n)

    def _off(self, beta: Floats) -> Floats:
        """How far the terms of a score are from splines, at most."""
        terms = self.cells.design * special.expit(self.cells.design @ beta)[..., None]
        return self.cells.residual(terms, self.cells.coefficients(terms))

    @cached_property
    def _read(self) -> list[tuple[float, float, float]]:
        if self._own is None:
            return self._of_less(_columns, (math.nan, math.nan, 1.0))
        estimates = []
        own = (*map(np.ndarray.tolist, self._own), self._groups.tolist())
        for beta, variance, share, slack, group in zip(*own, strict=True):
            error, far = math.sqrt(variance), max(abs(beta) - slack, 0.0)
            far = (unstretched(far, share) if group else far) / error
            estimates.append((beta, error, least_error(far, share, laplace=self.laplace)))
        return self._seen(estimates, (math.nan, math.nan, 1.0))

    def _seen(self, found: list[Any], unknown: tuple[float, ...]) -> list[Any]:
        """The same, but for log-odds of levels that the noise hides."""
        own = frozenset[int]() if self._less is None else self._less.terms
        return [unknown if i in own else each for i, each in enumerate(found)]

    def _of_less(
        self,
        read: Callable[[Logistic], Sequence[tuple[float, ...]]],
        unknown: tuple[float, ...],
    ) -> list[Any]:
        """What the fit without hidden levels says of each coefficient."""
        if self._less is None:
            return [unknown] * len(self.terms)
        found = dict(zip(self._less.keep, read(self._less.fit), strict=True))
        return self._seen([found.get(i, unknown) for i in range(len(self.terms))], unknown)

    @property
    def determined(self) -> bool:
        """Whether all coefficients have intervals with two ends."""
        return not isinstance(self._fit, str)

    @property
    def _why(self) -> list[str]:
        why = self._fit if isinstance(self._fit, str) else HIDDEN
        own = frozenset[int]() if self._less is None else self._less.terms
        return [FEW if i in own else why for i in range(len(self.terms))]

    @property
    def _notes(self) -> list[str]:
        return [] if self._less is None else notes(self, self._less)

    @property
    def nobs(self) -> float:
        """Noisy number of rows."""
        return float(self.counts.sum())

    def _ends(self, error: float) -> list[tuple[float, float]]:
        if self._own is None:
            return self._of_less(
                lambda part: list(part.conf_int(error).values()), (-math.inf, math.inf)
            )
        beta, variances, shares, slack = self._own
        z = np.array([quantile(float(s), error, laplace=self.laplace) for s in shares])
        half = z * np.sqrt(variances)
        half = np.where(self._groups, stretched(half, shares), half) + slack
        ends = zip((beta - half).tolist(), (beta + half).tolist(), strict=True)
        return self._seen(list(ends), (-math.inf, math.inf))

    def predict(self, data: Mapping[str, Any]) -> Floats:
        """Probabilities for a mapping (or frame) of columns."""
        if self._less is not None:
            return self.get_prediction(data).predicted_mean
        return np.asarray(special.expit(self._line(data)), dtype=np.float64)

    def get_prediction(self, data: Mapping[str, Any]) -> OddsPrediction:
        """Probabilities with intervals, for a mapping (or frame) of columns."""
        rows = self._design(data)
        if self._less is None:
            return OddsPrediction(*self.along(rows), self.laplace)
        part, found = self._less, np.full((4, len(rows)), np.nan)
        known = ~part.hides(rows)
        found[:, known] = part.fit.along(rows[known][:, part.keep])
        odds, errors, shares, slack = found
        return OddsPrediction(odds, errors, shares, slack, self.laplace)

    def along(self, rows: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """For rows of a design: log-odds, their errors, the noise's share of these, and slack."""
        if isinstance(self._fit, str):
            unknown = np.full(len(rows), np.nan)
            return unknown, unknown, unknown, unknown
        odds, variances, shares, slack = self._fit.along(rows @ self._scale)
        return odds, np.sqrt(variances), shares, slack


def _columns(fit: Logistic) -> list[tuple[float, ...]]:
    """Estimate, standard error and p-value of each column."""
    return list(zip(fit.params.values(), fit.bse.values(), fit.pvalues.values(), strict=True))


def logistic(
    curator: Curator,
    formula: str,
    *,
    table: str | None = None,
    where: str | None = None,
    ask: Ask,
) -> Logistic:
    """Ask for the cells that a formula needs, and fit them; see :meth:`Curator.regression`."""
    own, model = narrowed(curator.policy, table_of(curator, table), formula, where)
    left, tests = model.left, where_of(model, where)
    bounds = Bounds(curator.policy, own.name, where_of(model, None)).check(model)
    response = [] if left.kind == "number" else columns_of(own, left, bounds)
    if len(response) != 1 or response[0].value is None:
        raise ParameterError(
            f"{left.name!r} must be a truth value or a category of two values",
            hint=example(own, flag=True),
        )
    if not model.intercept:
        raise ParameterError("log-odds have an intercept here", hint="leave out - 1 and + 0")
    terms = (Term("Intercept", "1"), *design_of(own, model, bounds))
    keys, smooth = _cells(own, model)
    _check_cells(keys.values(), smooth)
    _check_finite(own, terms, smooth)
    outputs = [
        sql if sql == quoted(name) else f"{sql} AS {quoted(name)}"
        for name, sql in {**{n: k[0] for n, k in keys.items()}, left.name: left.sql}.items()
    ]
    groups = ", ".join(quoted(n) for n in [*keys, left.name])
    averages = [f"AVG({quoted(n)}) AS m{i}" for i, n in enumerate(smooth)] or ["COUNT(*) AS n"]
    text = f"SELECT {', '.join([*outputs, *averages])} FROM {quoted(own.name)} WHERE {tests} GROUP BY {groups}"  # noqa: E501, S608 - read by the curator's own parser
    answer = ask(text, keys=[*keys, left.name], change=_splined if smooth else None)
    return fitted(answer, terms, response[0], left.name, smooth)


def _cells(table: Any, formula: Formula) -> tuple[dict[str, tuple[str, int]], list[str]]:
    """Keys by which rows are counted, with their SQL and numbers of values; and smooth numbers."""
    keys: dict[str, tuple[str, int]] = {}
    smooth: list[str] = []
    for own in formula.factors:
        few = {c: _values(table.columns[c]) for c in own.columns}
        if own.kind == "flag" and None in few.values():
            keys[own.name] = (own.sql, 2)
            continue
        for column, size in few.items():
            count = len(own.listed) if own.kind == "category" and size is None else size
            if count is not None:
                keys[column] = (quoted(column), count)
            elif column not in smooth:
                smooth.append(column)
    return keys, [n for n in smooth if n not in keys]


def _check_cells(keys: Iterable[tuple[str, int]], smooth: Sequence[str]) -> None:
    if len(smooth) > len(INTERVALS):
        raise ParameterError(
            f"at most {len(INTERVALS)} numbers with more than {_FEW} values can be explained with "
            f"at once, not {len(smooth)}: every combination of theirs is a cell with its own noise",
            hint=" + ".join(smooth[: len(INTERVALS)]),
        )
    cells = 2 * prod(size for _, size in keys)
    if smooth:
        cells *= (INTERVALS[len(smooth) - 1] + 3) ** len(smooth)
    if cells > _CELLS:
        raise ParameterError(f"the predictors have {cells} combinations, at most {_CELLS}")


def _check_finite(table: Any, terms: Sequence[Term], smooth: Sequence[str]) -> None:
    """Refuse functions that have no value at the ends of a range, as splines go over all of it."""
    for end in ("min", "max"):
        data = {n: float(getattr(table.columns[n], end)) for n in smooth}
        for own in [f for t in terms for f, _ in t.parts if f.kind == "number" and f.columns]:
            if not {*own.columns} <= data.keys():
                continue
            with np.errstate(all="ignore"):
                value = own.of(data)
            if not np.isfinite(value):
                name = own.columns[0]
                raise ParameterError(
                    f"{own.name} has no value where {name} is {data[name]:g}, which the policy "
                    "allows",
                    hint=f"np.log({name} + {1 - data[name]:g})",
                )


def _splined(query: Query) -> Query:
    """Ask for the splines of the columns whose averages are asked, instead."""
    first, *rest = (s.expr for s in query.statistics if s.expr is not None)
    cells = SplinesOf(first, tuple(rest))
    keys = tuple(o for o in query.outputs if not isinstance(o.expr, StatisticValue))
    return replace(
        query, statistics=(cells,), outputs=(*keys, OutputColumn("n", StatisticValue(0)))
    )


def _values(column: Any) -> int | None:
    """How many values a column has, where each is counted."""
    if column.type == "boolean":
        return 2
    if column.type == "category":
        return len(column.values) + (column.other is not None)
    few = column.type == "integer" and column.max - column.min < _FEW
    return int(column.max - column.min) + 1 if few else None


def fitted(
    answer: Answer, terms: tuple[Term, ...], response: Term, left: str, smooth: Sequence[str] = ()
) -> Logistic:
    """Lay the cells of an answer out by group."""
    record = answer.full_record
    keys = {n: record.keys[n] for n in record.keys if n != left}
    groups = list(dict.fromkeys(zip(*keys.values(), strict=True))) if keys else [()]
    place = {group: i for i, group in enumerate(groups)}
    shares, law, unit, splines = _shares(answer)
    counts = np.zeros((2, len(groups), shares.shape[1]))
    for i, share in enumerate(shares):
        group = tuple(column[i] for column in keys.values())
        counts[int(record.keys[left][i] == response.value), place[group]] += share
    axes, values = splines.axes() if splines is not None else ([], [])
    grid = [g.ravel() for g in np.meshgrid(*axes, indexing="ij")]
    size = grid[0].size if grid else 1
    data = {
        n: np.repeat([g[i] for g in groups], size).reshape(-1, size) for i, n in enumerate(keys)
    }
    data |= {n: np.broadcast_to(g, (len(groups), size)) for n, g in zip(smooth, grid, strict=True)}
    columns = [
        (np.broadcast_to(design_column(t, data), (len(groups), size)) - t.centre) / t.half
        for t in terms
    ]
    lift, back = np.ones((1, 1)), np.ones((1, 1))
    for basis in values:
        lift = np.asarray(np.kron(lift, np.linalg.pinv(basis)), dtype=np.float64)
        back = np.asarray(np.kron(back, basis), dtype=np.float64)
    return Logistic(
        terms,
        response,
        answer,
        Cells(np.stack(columns, axis=-1), lift, back),
        counts,
        law.variance * unit**2,
        rows_of(record, 0, one=False)[1] or 1,
        laplace=type(law).__name__ == "DiscreteLaplace",
    )


def _shares(answer: Answer) -> tuple[Floats, Any, float, Splines | None]:
    """Noisy shares of rows in every group, the law of their noise and its unit."""
    record = answer.full_record
    check_untainted(answer)
    (formula,) = record.formulas
    if isinstance(formula, Splines):
        law = record.parts[formula.tensor].noise
        return formula.cells(record.parts), law, 1 / float(formula.whole), formula
    item = noisy(answer, "n")
    return np.atleast_1d(item.value)[:, None], item.noise.law, float(item.noise.step), None
