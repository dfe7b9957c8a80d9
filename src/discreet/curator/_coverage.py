"""What contribution limits leave out: a noisy histogram of how many rows people have.

Guarantee
---------
The histogram counts units by their number of rows, in public buckets, *before* any limit:
each unit is in one bucket, so adding or removing a unit moves one number by one (and
changing a unit two). It is priced, debited and measured like every other question.

How many rows the limits drop cannot be had so cheaply, since one unit may have any
number of them: it is bounded by the edges of the buckets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from discreet import _exact
from discreet._dataclass import dataclass, replace
from discreet._exact import Number
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
)

if TYPE_CHECKING:
    from discreet.curator._curator import Curator

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
        flags = [int(a > self.limit) for a in self.least]
        return self._share([flags] * 3, [[1 - c for c in flags]] * 3, confidence)

    def rows_lost(self, confidence: Number = 0.95) -> tuple[float, float, float]:
        """Share of rows that the limit drops: estimate and both ends.

        The ends allow for the noise, and for every number of rows inside a bucket. The last
        bucket has no upper edge: the high end assumes that nobody has more than ``most[-1]`` rows.
        """
        ends = [(a, math.sqrt(a * b), b) for a, b in zip(self.least, self.most, strict=True)]
        losses = [[max(n - self.limit, 0) for n in each] for each in ends]
        rest = [[min(n, self.limit) for n in each] for each in ends]
        columns = [list(zip(*each, strict=True)) for each in (losses, rest)]
        return self._share(columns[0], columns[1], confidence)

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

    def _share(
        self,
        losses: Sequence[Sequence[float]],
        remainders: Sequence[Sequence[float]],
        confidence: Number,
    ) -> tuple[float, float, float]:
        """Losses over losses and remainders: least, middle and most of either in each bucket.

        It grows in losses and falls in remainders, so the low end takes the least losses
        and the largest remainders.
        """
        level = _exact.confidence(confidence)
        boxes, values = self._boxes(level), self.certain_units(level)

        def share(loss: float, rest: float) -> float:
            return loss / (loss + rest) if loss + rest > 0 else 0.0

        def total(weights: Sequence[float], end: int) -> float:
            pairs = zip(weights, boxes, strict=True)
            return float(sum(w * max(box[end], 0) for w, box in pairs))

        middle = [
            sum(w * v for w, v in zip(each[1], values, strict=True))
            for each in (losses, remainders)
        ]
        low = share(total(losses[0], 0), total(remainders[2], 1))
        return share(*middle), low, share(total(losses[2], 1), total(remainders[0], 0))

    def __repr__(self) -> str:
        units, rows = self.units_cut(), self.rows_lost()
        return (
            f"at most {self.limit} rows of each kept: {units[0]:.1%} of units lose rows "
            f"[{units[1]:.1%}, {units[2]:.1%}], {rows[0]:.1%} of rows are lost "
            f"[{rows[1]:.1%}, {rows[2]:.1%}] (95 %: noise and buckets, "
            f"if nobody has more than {self.most[-1]} rows)\n{self.answer!r}"
        )


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
