r"""Logistic regression from noisy counts of a table's cells.

What is released
----------------
One noisy count for every combination of the predictors' public values and the response:
an ordinary question of the curator. A unit is in as many cells as it has rows, whatever the
number of cells, so the price does not grow with the design.

Inference
---------
With counts :math:`n_{c0},n_{c1}` of a cell with design row :math:`z_c`, the score
:math:`U(\beta)=\sum_cz_c\{n_{c1}-(n_{c0}+n_{c1})p_c(\beta)\}` is *linear* in the counts:
noise leaves its expectation zero at the true β and adds the known covariance
:math:`N=\sigma^2\sum_cz_cz_c^\top\{(1-p_c)^2+p_c^2\}`. So the root of the noisy score is
consistent, with

.. math:: \operatorname{Cov}\hat\beta\approx H^{-1}(kH+N)H^{-1},\qquad
          H=\sum_c(n_{c0}+n_{c1})p_c(1-p_c)z_cz_c^\top,

k the most rows of one unit (its rows may be alike: the design effect is at most k).
Intervals are Wald's; where an eigenvalue of the noisy H is less than :data:`FLOOR` standard
deviations of its own noise the coefficients are not determined at this price, and that is
what is said. Numbers with many values need more noise than few: every value is a cell.

References
----------
P. McCullagh, J. Nelder, *Generalized linear models*, 1989, for score and information; noise in
counts as measurement error: J. Buonaccorsi, *Measurement error*, 2010, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy import special

from discreet import _exact
from discreet._exact import Number
from discreet._print import number
from discreet.answer import Answer
from discreet.errors import ParameterError
from discreet.inference._inputs import noisy
from discreet.inference._laws import Floats
from discreet.inference._regression import (
    Term,
    design_column,
    paid,
    quoted,
    read_formula,
    table,
    table_of,
    terms_of,
    where_known,
)

if TYPE_CHECKING:
    from discreet.curator import Curator

FLOOR: Final = 4.0
_CELLS: Final = 20_000
_STEPS: Final = 50


@dataclass(frozen=True)
class Logistic:
    """Log-odds with errors, intervals and tests, in the manner of statsmodels.

    Attributes
    ----------
    terms
        Columns of the design, the intercept first.
    response
        What is explained: the value whose odds are modelled.
    answer
        What was released, with its cost and record.
    """

    terms: tuple[Term, ...]
    response: Term
    answer: Answer
    design: Floats
    """One row per cell, numbers scaled to −1…1."""
    counts: Floats
    """Noisy counts without and with the response, cell by cell."""
    variance: float
    rows: int

    @cached_property
    def _fit(self) -> tuple[Floats, Floats, Floats] | None:
        """Coefficients of scaled columns, information and noise; None: not determined."""
        z, (without, with_) = self.design, self.counts.T
        n, beta = without + with_, np.zeros(self.design.shape[1])
        for _ in range(_STEPS):
            p = special.expit(z @ beta)
            information = (z * (n * p * (1 - p))[:, None]).T @ z
            # noise of each entry of the information, as if it were all in one direction
            spread = (z**2).sum(axis=1) * p * (1 - p)
            noise = math.sqrt(2 * self.variance * float((spread**2).sum()))
            if np.linalg.eigvalsh(information)[0] <= FLOOR * noise:
                return None
            step = np.linalg.solve(information, z.T @ (with_ - n * p))
            beta = beta + step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))
            if float(np.abs(step).max()) < 1e-10:
                break
        else:
            return None
        both = self.variance * ((1 - p) ** 2 + p**2)
        return beta, information, (z * both[:, None]).T @ z

    @cached_property
    def _scale(self) -> Floats:
        """From coefficients of scaled columns to those of columns in units."""
        scale = np.diag([1 / t.half for t in self.terms])
        scale[0, 1:] = [-t.centre / t.half for t in self.terms[1:]]
        return scale

    @cached_property
    def _covariance(self) -> Floats | None:
        if self._fit is None:
            return None
        _, information, noise = self._fit
        inverse = self._scale @ np.linalg.inv(information)
        return np.asarray(inverse @ (self.rows * information + noise) @ inverse.T)

    def _named(self, values: Floats | None) -> dict[str, float]:
        names = [t.name for t in self.terms]
        if values is None:
            return dict.fromkeys(names, math.nan)
        return {name: float(v) for name, v in zip(names, values, strict=True)}

    @property
    def params(self) -> dict[str, float]:
        """Log-odds by column; not a number where they are not determined at this price."""
        return self._named(None if self._fit is None else self._scale @ self._fit[0])

    @property
    def bse(self) -> dict[str, float]:
        """Standard errors, sampling and noise together."""
        found = self._covariance
        return self._named(None if found is None else np.sqrt(np.diag(found)))

    @property
    def pvalues(self) -> dict[str, float]:
        """Two-sided p-values of each coefficient being zero."""
        bse = self.bse
        return {
            name: 1.0 if math.isnan(b) else float(2 * special.ndtr(-abs(b) / bse[name]))
            for name, b in self.params.items()
        }

    @property
    def nobs(self) -> float:
        """Noisy number of rows."""
        return float(self.counts.sum())

    def conf_int(self, alpha: Number = 0.05) -> dict[str, tuple[float, float]]:
        """Intervals of the population's log-odds; unbounded where they are not determined."""
        z = -float(special.ndtri(_exact.confidence(alpha, "alpha") / 2))
        bse = self.bse
        return {
            name: (-math.inf, math.inf) if math.isnan(b) else (b - z * bse[name], b + z * bse[name])
            for name, b in self.params.items()
        }

    def predict(self, data: Mapping[str, Any]) -> Floats:
        """Probabilities for a mapping (or frame) of columns."""
        params = self.params
        total: Any = 0.0
        for term in self.terms:
            total = total + params[term.name] * design_column(term, data)
        return np.asarray(special.expit(total), dtype=np.float64)

    def summary(self) -> str:
        """Return a table in plain text."""
        foot = (
            f"about {number(round(self.nobs))} rows; {paid(self.answer)}\n"
            "intervals cover the population's log-odds (95 %)"
        )
        return table(f"log-odds of {self.response.name}, noise accounted for", self, foot)

    def __repr__(self) -> str:
        return self.summary()


def logistic(
    curator: Curator,
    formula: str,
    *,
    table: str | None = None,
    where: str | None = None,
    ask: Callable[[str], Answer],
) -> Logistic:
    """Ask for the counts that a formula needs, and fit them; see :meth:`Curator.regression`."""
    left, names = read_formula(formula)
    own = table_of(curator, table)
    response = terms_of(own, left)
    if len(response) != 1 or response[0].value is None:
        raise ParameterError(
            f"{left!r} must be a truth value or a category of two values",
            hint='"employed ~ age + sex"',
        )
    cells = 2
    for name in names:
        values = _values(terms_of(own, name), own.columns[name])
        if values is None:
            raise ParameterError(
                f"{name!r} has too many values to count each: log-odds are fitted to counts",
                hint="an integer column, or a category",
            )
        cells *= values
    if cells > _CELLS:
        raise ParameterError(f"the predictors have {cells} combinations, at most {_CELLS}")
    keys = ", ".join(quoted(n) for n in [*names, left])
    tests = where_known([left, *names], where)
    source = quoted(own.name)
    text = f"SELECT {keys}, COUNT(*) AS n FROM {source} WHERE {tests} GROUP BY {keys}"  # noqa: S608 - read by the curator's own parser
    answer = ask(text)
    terms = (Term("Intercept", "1"), *(t for n in names for t in terms_of(own, n)))
    return fitted(answer, terms, response[0], left)


def _values(terms: list[Term], column: Any) -> int | None:
    """How many values a column has, where they can be counted."""
    if column.type == "integer":
        return int(column.max - column.min) + 1
    return len(terms) + 1 if column.type in ("boolean", "category") else None


def fitted(answer: Answer, terms: tuple[Term, ...], response: Term, left: str) -> Logistic:
    """Lay the counts of an answer out by cell."""
    rows = answer.to_dicts()
    item = noisy(answer, "n")
    places: dict[tuple[Any, ...], list[float]] = {}
    names = [c for c in answer.columns if c not in ("n", left)]
    for row, count in zip(rows, np.atleast_1d(item.value), strict=True):
        cell = places.setdefault(tuple(row[n] for n in names), [0.0, 0.0])
        cell[int(row[left] == response.value)] += float(count)
    data = {n: np.array([cell[i] for cell in places]) for i, n in enumerate(names)}
    columns = [
        (np.broadcast_to(design_column(t, data), len(places)) - t.centre) / t.half for t in terms
    ]
    return Logistic(
        terms,
        response,
        answer,
        np.stack(columns, axis=1),
        np.array(list(places.values())),
        item.noise.variance,
        item.rows_in_all or item.rows or 1,
    )
