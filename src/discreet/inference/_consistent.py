"""Margins of one table that agree with each other: several GROUP BYs, fitted together.

Counts of one batch are linear in the counts of the finest cells, the combinations of all
keys' values, and one more value for NULL wherever a key may be. The best linear unbiased
estimate of every shown count uses all of them (:mod:`._combine`): totals are the sums of
their parts, and every count is at least as exact as it was.

Where a unit may have several rows, limits keep some of them, and by default other ones in each
question. Questions that are asked to agree are limited once, by all their keys together
(:mod:`discreet.plan._same`): their counts are about the same rows, and fitted like others.

Where the number of rows is public (neighbours replace a row), the cells add up to it: the
last cell is that number less all others, and drops out of the fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, Final

import numpy as np

from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet._print import plural
from discreet.answer import Answer
from discreet.errors import Hint, ParameterError
from discreet.inference._combine import Combined, Estimate, combine, half_widths
from discreet.inference._inputs import noisy
from discreet.inference._laws import Floats
from discreet.inference._results import preformatted
from discreet.plan import (
    Count,
    Query,
    Scan,
    StatisticValue,
    base,
    keeps_same_rows,
    with_null_groups,
)
from discreet.privacy import Neighbours

_MOST: Final = 20_000
"""Combinations of all keys' values."""


@dataclass(frozen=True)
class Consistent:
    """Counts of several answers that agree, in the answers' order; see :func:`consistent`.

    Prints what was fitted, and why margins need not add up where keys may be missing.
    """

    answers: tuple[Answer, ...]
    combined: Combined
    queries: tuple[Floats, ...]
    """For each answer, one row of weights for each of its counts."""
    public: tuple[Floats, ...]
    """For each answer, what its counts have without noise, where the number of rows is public."""
    note: str | None = None
    """Why margins need not add up: keys that may be missing."""

    def __repr__(self) -> str:
        lines = [f"{plural(len(self.answers), 'answer')}, counts fitted together"]
        for i, answer in enumerate(self.answers):
            keys = ", ".join(answer.full_record.keys)
            size = plural(len(self.queries[i]), "count")
            lines.append(f"  {i}: {_column(answer)}{' by ' * bool(keys)}{keys} ({size})")
        return "\n".join([*lines, *([f"note: {self.note}"] if self.note else [])])

    def _repr_html_(self) -> str:
        return preformatted(self)

    def _estimates(self, which: int) -> list[tuple[float, Estimate]]:
        """What is public of each count, and the rest."""
        rest = self.combined.estimates(self.queries[which])
        return list(zip(self.public[which].tolist(), rest, strict=True))

    def to_dicts(self, which: int) -> list[dict[str, Any]]:
        """Rows of one answer, keys as they are and counts fitted."""
        return self._rows(which, [part + e.value for part, e in self._estimates(which)])

    def interval(self, which: int, confidence: Number = 0.95) -> list[dict[str, Any]]:
        """Rows of one answer with ``(low, high)`` for the exact count."""
        estimates = self._estimates(which)
        # margins do not depend on what was released, so that one seed serves all
        halves = half_widths([estimate for _, estimate in estimates], confidence, 0)
        ends = [
            (part + e.value - half, part + e.value + half)
            for (part, e), half in zip(estimates, halves, strict=True)
        ]
        return self._rows(which, ends)

    def _rows(self, which: int, counts: Sequence[Any]) -> list[dict[str, Any]]:
        record, column = self.answers[which].full_record, _column(self.answers[which])
        groups = zip(*record.keys.values(), strict=True)
        rows = [dict(zip(record.keys, cell, strict=True)) for cell in groups] or [{}]
        return [row | {column: count} for row, count in zip(rows, counts, strict=True)]


def check_consistent(queries: Sequence[Query]) -> None:
    """Refuse questions whose counts could not be fitted; what it looks at is known before them."""
    relation = queries[0].relation
    if any(q.relation != relation for q in queries):
        raise ParameterError("margins agree only for the same rows: the same table and WHERE")
    if not all(map(_counts, queries)):
        raise ParameterError(
            "margins are counts of all rows, each group shown",
            hint="SELECT sex, COUNT(*) AS n FROM people GROUP BY sex",
        )
    if any(k.codes is None for q in queries for k in q.keys):
        raise ParameterError("keys that are selected from the data have no common cells")
    fixed = queries[0].neighbours is Neighbours.CHANGE_ONE and isinstance(relation, Scan)
    if fixed and base(relation).table.unit is None and not any(q.keys for q in queries):
        raise ParameterError("these counts are public: there is nothing to fit")
    _domains(queries)


def _counts(query: Query) -> bool:
    """Whether it shows the number of all rows of each group, as it is."""
    shown = any(isinstance(o.expr, StatisticValue) for o in query.outputs)
    plain = query.statistics == (Count(),) and query.having is None and query.limit is None
    return shown and plain


def consistent(pairs: Sequence[tuple[Query, Answer]]) -> Consistent:
    """Fit the counts of several answers about the same rows so that they agree.

    Raises
    ------
    ParameterError
        Unless every question counts all rows of one and the same selection, and limits of what
        a unit contributes keep the same rows in all of them.
    """
    queries = [q for q, _ in pairs]
    check_consistent(queries)
    # limits that were told to keep the same rows leave their mark in the records
    marks = {a.full_record.statement.get("rows_kept") for _, a in pairs}
    if len(marks) > 1 or (marks == {None} and not keeps_same_rows(queries)):
        raise ParameterError(
            "limits of rows per unit keep other rows in every question, so margins differ in truth",
            hint=Hint.call("curator.batch", epsilon=1, consistent=True),
        )
    domains = _domains(queries)
    cells = list(product(*domains.values()))
    places = {name: i for i, name in enumerate(domains)}
    matrices = tuple(_matrix(answer, cells, places) for _, answer in pairs)
    answers = tuple(answer for _, answer in pairs)
    public = [_column(a) in a.exact for a in answers]
    items = [noisy(a, _column(a)) for a, known in zip(answers, public, strict=True) if not known]
    values = np.concatenate([np.atleast_1d(item.value) for item in items])
    laws = [item.noise for item in items for _ in range(item.size)]
    private = np.repeat([not known for known in public], [len(m) for m in matrices])
    total = 0.0
    if any(public):
        one = answers[public.index(True)]
        total = float(one.to_dicts()[0][_column(one)])
    shares = tuple(matrix[:, -1] * total for matrix in matrices)
    if any(public):
        matrices = tuple(matrix[:, :-1] - matrix[:, -1:] for matrix in matrices)
    fit = combine(values - np.concatenate(shares)[private], np.vstack(matrices)[private], laws)
    return Consistent(answers, fit, matrices, shares, _note(queries))


def _note(queries: Sequence[Query]) -> str | None:
    """Say which keys leave rows out of some margins and not out of others."""
    often = Counter(key.name for query in queries for key in query.keys)
    curable: dict[str, bool] = {}
    for query in queries:
        for key, full in zip(query.keys, with_null_groups(query).keys, strict=True):
            # without a key that all share, a row is in none of the margins
            t = key.expr.type
            if t.nullable and often[key.name] < len(queries):
                members = map(t.value, key.codes or ())
                curable[key.name] = full != key and None not in members
    if not curable:
        return None
    names = " or ".join(map(repr, curable))
    cure = "; try: nulls=True in curator.batch(…)" if any(curable.values()) else ""
    return f"rows without {names} are in no group by it, so margins need not add up{cure}"


def _column(answer: Answer) -> str:
    outputs = answer.full_record.outputs
    return next(o.name for o in outputs if isinstance(o.expr, StatisticValue))


def _domains(queries: Sequence[Query]) -> dict[str, list[Any]]:
    domains: dict[str, list[Any]] = {}
    exprs: dict[str, Any] = {}
    for query in queries:
        for key in query.keys:
            if exprs.setdefault(key.name, key.expr) != key.expr:
                raise ParameterError(f"{key.name!r} names two different keys", hint="… AS other")
            t = key.expr.type
            values = [t.value(code) for code in key.codes or ()]
            missing = [None] if t.nullable else []
            if domains.setdefault(key.name, [*values, *missing]) != [*values, *missing]:
                raise ParameterError(f"{key.name!r} is shown with different values")
    if prod(map(len, domains.values())) > _MOST:
        raise ParameterError(f"the keys have more than {_MOST} combinations")
    return domains


def _matrix(answer: Answer, cells: Sequence[tuple[Any, ...]], places: Mapping[str, int]) -> Floats:
    keys = answer.full_record.keys
    mine = [places[name] for name in keys]
    rows = list(zip(*keys.values(), strict=True)) or [()]
    at = {row: i for i, row in enumerate(rows)}
    matrix = np.zeros((len(rows), len(cells)))
    for j, cell in enumerate(cells):
        i = at.get(tuple(cell[p] for p in mine))
        if i is not None:
            matrix[i, j] = 1.0
    return matrix
