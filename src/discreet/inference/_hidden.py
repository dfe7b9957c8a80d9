r"""Coefficients beside a level of a category that the noise hides.

A level k of few rows cannot be taken out of the other columns: its own coefficient θ comes from
dividing by a noisy count that may be zero. So it is not taken out. At the true θ,

.. math:: T(b,\theta)=l^\top M(r_y-b\,r_x-\theta\,r_k)

is zero in expectation, and linear in what was released; l, r are what is left of columns once
those of *enough* rows are taken out. θ is not known but bounded: in the rows of k the model's
errors are zero on average, so θ is the mean there of y less all other columns, and all of these lie
in public ranges. b is kept if any θ in that box :math:`\Theta(b)` keeps it, so that

.. math:: P(b_0\text{ is left out})\le P(|T(b_0,\theta_0)|>z\sqrt{V(b_0,\theta_0)}),

the error of :mod:`discreet.inference._regression`, whatever the level's rows are: the estimand is
the coefficient of the model in which the level has its own constant. Over the box T moves by
:math:`\sum_k h_k|l^\top Me_k|`, h_k half the width of Θ. That sum over the level's rows is
made small: l is x less a multiple of the level's flag, so that it is zero where the level's rows
have the average of the other columns. With no numbers in the design it is zero everywhere, and the
level's rows are left out exactly. V is replaced by its largest value in the box.

Which levels are hidden is read off noisy counts: those below :data:`CLEAR` deviations of their
noise. T is valid for any choice that does not look at its own noise. The choice shares the noise of
the count with it, by :math:`\theta l`, but where the choice is in doubt the level has rows enough
for the box to outweigh that; simulated at the edge as well as away from it. Nothing is stated of
the level's own coefficient.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np

from discreet._dataclass import dataclass
from discreet._print import number
from discreet.inference._columns import Term
from discreet.inference._laws import Floats
from discreet.inference._predicted import measured_from
from discreet.inference._slope import Released, Score, definite

CLEAR: Final = 2.0
"""Deviations of noise from which on a level's rows are enough to divide by."""

_ROUNDS: Final = 30
_NEAR: Final = 1e-12


@dataclass(frozen=True, eq=False)
class Level:
    """A level that the noise hides, by scaled columns."""

    name: str
    term: int | None
    """Which term it is; None: the reference, where no flag is set."""
    column: Floats
    rows: float
    deviation: float
    fixed: Floats
    """What all of its rows have."""
    mean: Floats
    """What a row of it has where free columns have their averages."""
    numbers: Floats
    """1 for columns that lie anywhere between −1 and 1."""
    flags: tuple[tuple[int, ...], ...]
    """Columns of which at most one is 1, and the others 0."""

    def span(self, weights: Floats) -> tuple[Floats, Floats]:
        """Least and most of combinations of columns in its rows."""
        middle, half = weights @ self.fixed, np.abs(weights) @ self.numbers
        low, high = middle - half, middle + half
        for group in self.flags:
            own = weights[..., list(group)]
            low = low + np.minimum(own.min(axis=-1), 0.0)
            high = high + np.maximum(own.max(axis=-1), 0.0)
        return low, high


def beside(
    terms: Sequence[Term], response: Term, released: Released, scale: Floats
) -> Beside | None:
    """Levels with too few rows to tell from noise, where there are such.

    None where several categories have them, or where no level of a category has enough.
    """
    free = terms[0].name == "Intercept"
    columns = [*([] if free else [Term("1", "1")]), *terms, response]
    found: list[Beside] = []
    for source in dict.fromkeys(t.source for t in terms if t.value is not None):
        own = [i for i, t in enumerate(columns) if t.source == source]
        names = {source}.union(*(f.columns for i in own for f, _ in columns[i].parts))
        others = [t for t in terms if len(t.parts) > 1]
        if any(not names.isdisjoint(f.columns) for t in others for f, _ in t.parts):
            continue  # interactions know a level in several columns
        levels = list(_of_source(columns, own, released, reference=free))
        hidden = tuple(v for v in levels if v.rows < CLEAR * v.deviation)
        enough = [v for v in levels if v not in hidden]
        # where the reference is hidden, the level with most rows takes its place
        base = max((v for v in enough if v.term is not None), key=lambda v: v.rows, default=None)
        if hidden and enough and (base is not None or enough[0].term is None):
            flags = tuple(i - (not free) for i in own)
            place = None if base is None else base.term
            found.append(Beside(released, scale, hidden, flags, place))
    return found[0] if len(found) == 1 else None


def _of_source(
    columns: Sequence[Term], own: Sequence[int], released: Released, *, reference: bool
) -> Iterator[Level]:
    """Levels of one category; the reference is one if there is an intercept."""
    size, place = len(columns), released.place
    one = np.eye(size)
    means = released.matrix[0] / max(float(released.values[0]), 1.0)
    means[[*own]] = 0.0
    groups: dict[Any, list[int]] = {}
    numbers = np.zeros(size)
    for i, term in enumerate(columns):
        if i == 0 or i in own:
            continue
        if term.value is None:
            numbers[i] = 1.0
        else:
            groups.setdefault(term.source, []).append(i)
    means = np.clip(means, np.where(numbers > 0, -1.0, 0.0), 1.0)
    means[0] = 1.0
    flags = tuple(tuple(group) for group in groups.values())
    places: list[int | None] = [None, *own]
    for at in places[not reference :]:
        column = one[0] - one[[*own]].sum(axis=0) if at is None else one[at]
        weights = np.zeros(released.values.size)
        np.add.at(weights, [place[0][j] for j in range(size)], column)
        fixed = one[0] + (0.0 if at is None else one[at])
        name = f"the first value of {columns[own[0]].source}" if at is None else columns[at].name
        yield Level(
            name=name,
            term=None if at is None else at - (not reference),
            column=column,
            rows=float(weights @ released.values),
            deviation=math.sqrt(float(weights @ released.covariance @ weights)),
            fixed=fixed,
            mean=means + (fixed - one[0]),
            numbers=numbers,
            flags=flags,
        )


class Unknown(Score):
    """The score of what a hidden level is: nothing is stated of it."""

    @property
    def determined(self) -> bool:
        """Never."""
        return False


@dataclass(frozen=True)
class HiddenScore(Score):
    """The score of one coefficient, beside levels that the noise hides."""

    levels: tuple[Level, ...] = ()
    """Theirs are columns of the scale as well."""

    @property
    def determined(self) -> bool:
        """Whether the other columns can be taken out at all."""
        return self._solved is not None and bool(np.isfinite(self._follow[0]).all())

    @cached_property
    def _loose(self) -> list[int]:
        return [
            next(i for i, row in enumerate(self.scale) if np.array_equal(row, level.column))
            for level in self.levels
        ]

    @cached_property
    def _solved(self) -> Any:
        """What is left of the column (levels evened out), of the response, and of all columns."""
        if not np.isfinite(self.released.values).all():
            return None
        matrix = self.scale @ self.released.matrix @ self.scale.T
        last = len(matrix) - 1
        others = [i for i in range(last) if i != self.which and i not in self._loose]
        if not definite(matrix[np.ix_(others, others)]):
            return None
        inverse = np.zeros_like(matrix)
        inverse[np.ix_(others, others)] = np.linalg.inv(matrix[np.ix_(others, others)])
        # rows: what is left of each column, by columns
        left = np.eye(len(matrix)) - matrix @ inverse
        in_levels = left @ self.scale @ np.array([level.mean for level in self.levels]).T
        try:
            even = np.linalg.solve(in_levels[self._loose].T, in_levels[self.which])
        except np.linalg.LinAlgError:
            return None
        own = left[self.which] - even @ left[self._loose]
        if float(own @ matrix @ own) <= 1e-13 * abs(float(matrix[self.which, self.which])):
            return None
        return own, left, inverse

    @cached_property
    def _ways(self) -> tuple[Floats, Floats]:
        """The left side; and the response, the column and the levels on the right, side by side."""
        own, left, _ = self._solved
        last = len(self.scale) - 1
        return own @ self.scale, left[[last, self.which, *self._loose]] @ self.scale

    @cached_property
    def _sums(self) -> Floats:
        """The left side times each of the right."""
        left, rights = self._ways
        return np.asarray(rights @ self.released.matrix @ left)

    @cached_property
    def _forms(self) -> tuple[Floats, Floats]:
        """The noise's variance of T, and squares of the right side, as forms of its parts."""
        (left, rights), r, inverse = self._ways, self.released, self._solved[2]
        each = np.array([r.gradient(left, way) for way in rights])
        first = each @ r.covariance @ each.T
        right = rights @ r.matrix @ rights.T
        ways = [i for i in range(len(inverse)) if inverse[i, i] != 0]
        if not ways:  # no other column is taken out
            return first, right
        lefts = np.array([r.gradient(left, self.scale[i]) for i in ways])
        own = inverse[np.ix_(ways, ways)]
        weights = own @ (lefts @ r.covariance @ lefts.T) @ own
        sides = np.array([[r.gradient(way, self.scale[i]) for i in ways] for way in rights])
        second = np.einsum("iap,pq,jbq,ab->ij", sides, r.covariance, sides, weights, optimize=True)
        return first + 2 * second, right

    @cached_property
    def _follow(self) -> tuple[Floats, Floats]:
        """How far other columns follow the levels' coefficients, at most, and what that makes."""
        one = np.eye(len(self.levels))
        spans = [[level.span(way) for way in self._ways[1][2:]] for level in self.levels]
        low, high = np.moveaxis(np.array(spans), -1, 0)
        moved = np.maximum(np.abs(low - one), np.abs(high - one))
        # a box that is wide enough for itself: h = half + moved (|middle| + h)
        if float(np.abs(np.linalg.eigvals(moved)).max()) >= 1:
            with np.errstate(invalid="ignore"):  # not a number beside the diagonal: no bound
                return one * np.inf, moved
        return np.asarray(np.linalg.inv(one - moved)), moved

    def _box(self, b: Floats) -> tuple[Floats, Floats]:
        """Middles and halves of what the levels' coefficients may be, at each b."""
        rights = self._ways[1]
        plain = rights[0] - b[:, None] * rights[1]
        spans = [level.span(plain) for level in self.levels]
        middle = np.array([(low + high) / 2 for low, high in spans]).T
        half = np.array([(high - low) / 2 for low, high in spans]).T
        spread, moved = self._follow
        return middle, (half + np.abs(middle) @ moved.T) @ spread.T

    def at(self, b: Floats) -> tuple[Floats, Floats, Floats]:
        """T where the levels bring it nearest to zero, and its variances at most, at each b."""
        b = np.asarray(b, dtype=np.float64)
        r, (noise, squares), (left, _) = self.released, self._forms, self._ways
        middle, half = self._box(b)
        parts = np.column_stack([np.ones_like(b), -b, -middle])
        t = parts @ self._sums
        t = np.sign(t) * np.maximum(np.abs(t) - half @ np.abs(self._sums[2:]), 0.0)
        most = [self._most(form, parts, half) for form in (noise, squares)]
        n = max(float(r.values[0]) - (len(self.scale) - 2), 1.0)
        slope = float(left @ r.matrix @ left)
        sampling = r.rows * max(slope, 0.0) * np.maximum(most[1], 0.0) / n
        return t, np.maximum(most[0], 0.0), sampling

    @staticmethod
    def _most(form: Floats, parts: Floats, half: Floats) -> Floats:
        """A quadratic form at most, over the box around the parts."""
        way = parts @ form
        own = (way * parts).sum(axis=1) + 2 * (half * np.abs(way[:, 2:])).sum(axis=1)
        return np.asarray(own + ((half @ np.abs(form[2:, 2:])) * half).sum(axis=1))

    @property
    def slope(self) -> float:
        """Sum of products of the column and of what is left of it."""
        return float(self._sums[1])

    @cached_property
    def _root(self) -> float:
        """Where the score is zero at the middle of the box."""
        if self.slope <= 0:
            return math.nan
        b = float(self._sums[0] / self.slope)
        for _ in range(_ROUNDS):
            at = np.array([b])
            t = float((np.column_stack([[1.0], -at, -self._box(at)[0]]) @ self._sums)[0])
            b += t / self.slope
            if not abs(t) > _NEAR * abs(b) * self.slope:
                break
        return b if math.isfinite(b) else math.nan

    def estimate(self) -> float:
        """Where the score is zero, if levels are as the middle of what they may be."""
        return self._root if self.determined else math.nan

    def rest(self) -> tuple[float, float, float]:
        """What the line leaves of the response, at most; see :meth:`Score.rest`."""
        b = np.array([self._root])
        middle, half = self._box(b)
        right = np.array([1.0, -b[0], *-middle[0]]) @ self._ways[1]
        r, within = self.released, [i for i in range(len(self.scale) - 1) if i not in self._loose]
        terms = self.scale[within]
        inverse = np.linalg.inv(terms @ r.matrix @ terms.T)
        errors = np.array([r.gradient(right, way) for way in terms])
        squares = float(self._most(self._forms[1], np.array([[1.0, -b[0], *-middle[0]]]), half)[0])
        squares += float((inverse * (errors @ r.covariance @ errors.T)).sum())
        g = r.gradient(right, right)
        reach = float(np.abs(right).sum() + half[0] @ np.abs(self._ways[1][2:]).sum(axis=1))
        return squares, math.sqrt(float(g @ r.covariance @ g)), reach


@dataclass(frozen=True)
class Beside:
    """Scores of a design that has levels which the noise hides."""

    released: Released
    scale: Floats
    """Columns in units, by scaled columns; the response is last."""
    levels: tuple[Level, ...]
    flags: tuple[int, ...]
    """Terms of their category."""
    base: int | None
    """The term of the level with most rows, which can be the reference."""

    @cached_property
    def _reference(self) -> Level | None:
        """The reference, if it is hidden."""
        return next((level for level in self.levels if level.term is None), None)

    @cached_property
    def terms(self) -> set[int]:
        """Terms whose coefficients say what a hidden level is."""
        if self._reference is None:
            return {level.term for level in self.levels if level.term is not None}
        return {0, *self.flags}

    @cached_property
    def _scale(self) -> Floats:
        """The scale in which all hidden levels have a column."""
        scale = self.scale.copy()
        if self._reference is not None:
            scale[self.base] = self._reference.column
        return scale

    def of_term(self, i: int) -> Score:
        """The score of one coefficient."""
        if i in self.terms:
            return Unknown(self.released, self.scale, i)
        return HiddenScore(self.released, self._scale, i, self.levels)

    def hides(self, row: Floats) -> bool:
        """Whether a row of the design belongs to a hidden level."""
        outside = row[[*self.flags]].sum() == 0
        return any(outside if level.term is None else row[level.term] != 0 for level in self.levels)

    def _rebased(self, rows: Floats) -> Floats:
        """Rows of the design by the columns of its scale, in which a hidden reference has none."""
        rows = rows.copy()
        if self._reference is not None:
            rows[..., self.base] = 0.0  # the column is the reference's here
        return rows

    def at_row(self, row: Floats) -> Score:
        """The score of the line's height at a row of the design."""
        if self.hides(row):
            return Unknown(self.released, self.scale, 0)
        moved, which = measured_from(self._scale, self._rebased(row))
        return HiddenScore(self.released, moved, which, self.levels)

    def heights(self, rows: Floats) -> Floats:
        """The line's heights at rows of the design; not a number in rows of a hidden level."""
        hidden = {self.base if level.term is None else level.term for level in self.levels}
        each = [
            0.0
            if i in hidden
            else HiddenScore(self.released, self._scale, i, self.levels).estimate()
            for i in range(rows.shape[-1])
        ]
        known = np.array([not self.hides(row) for row in rows])
        return np.where(known, self._rebased(rows) @ np.array(each), np.nan)

    def notes(self) -> list[str]:
        """Name the levels, with their rows."""
        words = ", ".join(
            f"{level.name} (about {number(round(level.rows))} "
            f"± {number(math.ceil(2 * level.deviation))})"
            for level in self.levels
        )
        return [
            f"too few rows to tell from noise: {words}",
            "the other intervals hold whatever those rows are",
        ]
