r"""What contribution limits leave out: a noisy histogram of how many rows people have.

Guarantee
---------
The histogram counts units by their number of rows, in public buckets, *before* any limit:
each unit is in one bucket, so adding or removing a unit moves one number by one (and
changing a unit two). It is priced, debited and measured like every other question.

How many rows the limits drop cannot be had so cheaply, since one unit may have any
number of them: it is bounded by the edges of the buckets.

Ends
----
A share θ of numbers A and B is where :math:`(1-\theta)A-\theta B=0`, a sum over the buckets whose
noise has a known law (Fieller): θ stays where the noisy sum is no further from zero than that law
allows. The same holds of the rows lost with every unit at the end of its bucket, which gives the
high end. Its far buckets weigh most and hold fewest units, so for the low end each bucket stands
at the worse end of an interval of its own, all of them together, and none below zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet import _exact
from discreet._dataclass import dataclass, replace
from discreet._exact import Number
from discreet._print import number
from discreet.answer import Answer
from discreet.errors import ParameterError, QueryError
from discreet.plan import (
    Count,
    Fold,
    FoldKind,
    Key,
    KeyValue,
    Limits,
    OutputColumn,
    PerUnit,
    Query,
    StatisticValue,
    build,
    expr,
    tails,
)

if TYPE_CHECKING:
    from discreet.curator._curator import Curator

Floats: TypeAlias = NDArray[np.float64]

_WIDE: Final = 50.0
"""Deviation of noise from which it is taken for continuous, a little enlarged."""

_DOUBLINGS: Final = 12
"""Buckets beyond the limit, each twice as wide as the one before."""


@dataclass(frozen=True)
class Coverage:
    """How many people lose rows to a limit, and how many rows; see :meth:`Curator.coverage`.

    Attributes
    ----------
    answer
        The noisy histogram, with its cost and record.
    limit
        Rows of one unit that a question keeps.
    least, most
        Fewest and most rows of a unit in each bucket; the last one is open, and is taken
        to end at twice its beginning.
    """

    answer: Answer
    limit: int
    least: tuple[int, ...]
    most: tuple[int, ...]

    def units_cut(self, confidence: Number = 0.95) -> tuple[float, float, float]:
        """Share of units that lose rows: estimate and both ends."""
        error = 1 - _exact.confidence(confidence)
        cut = np.array([float(a > self.limit) for a in self.least])
        weights = np.stack([cut, 1 - cut])
        near = min(max(_share(*(weights @ self._units)), 0.0), 1.0)
        low, high = (_end(lambda theta: self._unlike(theta, weights) > error, near, outer)
                     for outer in (0.0, 1.0))  # fmt: skip
        middle = _share(*(weights @ np.array(self.certain_units(1 - error))))
        return middle, min(low, middle), max(high, middle)

    def rows_lost(self, confidence: Number = 0.95) -> tuple[float, float, float]:
        """Share of rows that the limit drops: estimate and both ends.

        The ends allow for the noise, and for every number of rows inside a bucket. The last
        bucket has no upper edge: the high end assumes that nobody has more than ``most[-1]`` rows.
        One unit of so many rows could hide in the noise of a far bucket: the high end is near one
        where there are few units.
        """
        error = 1 - _exact.confidence(confidence)
        edges = np.array([self.least, self.most], dtype=float)
        lost, rest = np.maximum(edges - self.limit, 0), np.minimum(edges, self.limit)
        few, many = np.stack([lost[0], rest[1]]), np.stack([lost[1], rest[0]])
        boxes = np.maximum(np.array(self._boxes(1 - error), dtype=float).T, 0)
        units = self._units

        def at_least(theta: float) -> bool:
            each = _weights(theta, few)
            return float(each @ np.where(each > 0, *boxes)) <= 0

        def at_most(theta: float) -> bool:
            each = _weights(theta, many)
            far = float(each @ units)
            return far >= 0 or self._tail(-far, each) > error

        middle = np.sqrt(edges.prod(axis=0))
        values = np.array(self.certain_units(1 - error))
        kept, gone = np.minimum(middle, self.limit), np.maximum(middle - self.limit, 0)
        estimate = _share(float(gone @ values), float(kept @ values))
        low, high = _end(at_least, 1.0, 0.0), _end(at_most, 0.0, 1.0)
        return estimate, min(low, estimate), max(high, estimate)

    @property
    def _units(self) -> Floats:
        """Noisy units by bucket."""
        return np.array([row["units"] for row in self.answer.to_dicts()], dtype=float)

    @property
    def _law(self) -> Any:
        """The noise of one bucket."""
        record = self.answer.full_record
        (part,) = record.formulas[0].parts
        return record.numbers(part).law

    def _tail(self, far: float, weights: Floats) -> float:
        """How likely the noise of a weighted sum is to be so far out, at most."""
        return float(tails.wave_tail(np.array([far]), weights[None], self._law)[0])

    def _unlike(self, theta: float, weights: Floats) -> float:
        """How likely noise is to make a share look as far off as it does, at most."""
        each, sizes = _weights(theta, weights), weights.sum(axis=1)
        far = abs(float(each @ self._units))
        laws = [self._law * int(n) for n in sizes if n]
        ways = [c for c, n in zip((1 - theta, theta), sizes, strict=True) if n]
        # wide noise is as good as continuous; of narrow noise two sums are added up exactly
        if min(law.std for law in laws) >= _WIDE:
            return self._tail(far, each)
        return float(tails.tail(laws, np.array(ways), np.array(far)))

    def certain_units(self, level: float = 0.95) -> list[float]:
        """Units by bucket; zero where noise alone may have filled it."""
        rows = zip(self.answer.to_dicts(), self._boxes(level), strict=True)
        # an empty bucket of many rows must not count for its noise
        return [row["units"] if box[0] > 0 else 0 for row, box in rows]

    def possible_units(self, level: float = 0.95) -> list[float]:
        """Most units by bucket that noise may hide."""
        return [max(box[1], 0.0) for box in self._boxes(level)]

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise of one bucket."""
        record = self.answer.full_record
        laws = [record.numbers(p).law for p in record.formulas[0].parts]
        return math.sqrt(sum(law.variance for law in laws if law is not None))

    def _boxes(self, level: float) -> list[tuple[float, float]]:
        return [row["units"] for row in self.answer.interval(level, simultaneous=True)]

    def __repr__(self) -> str:
        units, rows = _percent(self.units_cut()), _percent(self.rows_lost())
        return (
            f"at most {self.limit} rows of each kept: {units[0]} of units lose rows "
            f"[{units[1]}, {units[2]}], {rows[0]} of rows are lost "
            f"[{rows[1]}, {rows[2]}] (95 %: noise and buckets, "
            f"if nobody has more than {self.most[-1]} rows)\n{self._by_rows()}"
        )

    def _by_rows(self) -> str:
        """The histogram, with the rows of one unit in the place of the buckets' numbers."""
        lines = repr(self.answer).splitlines()
        buckets = [str(row["bucket"]) for row in self.answer.to_dicts()]
        ends = zip(self.least, self.most, strict=True)
        rows = [str(a) if a == b else f"{number(a)}–{number(b)}" for a, b in ends]
        rows[-1] = f"{number(self.least[-1])} or more"
        names = ["rows of one", "─" * max(map(len, ["rows of one", *rows])), *rows]
        wide, old = len(names[1]), max(map(len, ["bucket", *buckets]))
        own = [f"{n:>{wide}}{line[old:]}" for n, line in zip(names, lines, strict=False)]
        return "\n".join([*own, *lines[len(own) :]])


def _percent(shares: tuple[float, float, float]) -> list[str]:
    """Print an estimate and both ends with digits that tell the ends apart."""
    half = 100 * (shares[2] - shares[1]) / 2
    digits = min(max(1, 1 - math.floor(math.log10(half))), 4) if half else 1
    return [f"{share:.{digits}%}" for share in shares]


def _share(loss: float, rest: float) -> float:
    return float(loss / (loss + rest)) if loss + rest > 0 else 0.0


def _weights(theta: float, shares: Floats) -> Floats:
    """Weights of the buckets in a sum that is zero if (losses, rest) have this share of losses."""
    return np.asarray((1 - theta) * shares[0] - theta * shares[1])


def _end(keeps: Callable[[float], bool], inner: float, outer: float) -> float:
    """How far towards the outer share a test keeps what it keeps of the inner one."""
    if keeps(outer):
        return outer
    if not keeps(inner):
        return inner
    way = outer - inner
    return inner + way * _exact.turning(lambda x: not keeps(inner + way * x), 0.0, 1.0, 1e-9)[1]


def coverage_query(
    curator: Curator, question: Query, *, beyond: bool = True
) -> tuple[Query, int, tuple[int, ...], tuple[int, ...]]:
    """Build the question about rows per unit that another question's limits cut.

    With `beyond` there are buckets above the limit. Without, the last bucket takes whoever has
    more, as the limit does: to choose a smaller one, a single noisy number of them is better.
    """
    unit = curator._lowered(question).aggregates[0].unit  # noqa: SLF001 - part of it
    limit = question.limits.rows
    if unit is None:
        raise ParameterError("each row is a unit of its own here: no limit drops any row")
    if (
        limit is None
        or question.limits.groups is not None
        or question.limits.rows_per_group is not None
    ):
        raise ParameterError(
            "what limits per group leave out is not measured yet; only a limit of rows per unit is",
            hint="SELECT COUNT(*) AS n FROM …",
        )
    if isinstance(question.relation, PerUnit):
        raise QueryError(
            "this question has one row for each unit already", hint="SELECT COUNT(*) AS n FROM …"
        )
    rows = Fold(FoldKind.COUNT, build.number(Fraction(1)))
    below = [2**i for i in range(1, limit.bit_length()) if 2**i <= limit]
    above = [limit * 2**i + 1 for i in range(_DOUBLINGS + 1)] if beyond else []
    edges = (*below, *above)
    bucket = expr.Bucket(expr.Column("rows", rows.type), edges)
    codes = tuple(range(bucket.type.lo, bucket.type.hi + 1))
    query = replace(
        question,
        relation=PerUnit(question.relation, (), (("rows", rows),)),
        keys=(Key("bucket", bucket, codes),),
        statistics=(Count(),),
        outputs=(
            OutputColumn("bucket", KeyValue("bucket")),
            OutputColumn("units", StatisticValue(0)),
        ),
        limits=Limits(rows=1),
        having=None,
        qualify=None,
        levels=(),
        order=(),
        limit=None,
        other=None,
    )
    least = (1, *edges)
    return query, limit, least, (*(e - 1 for e in edges), 2 * edges[-1] if beyond else limit)
