r"""Parts whose release is one noisy integer per cell: vectors, linear images, key selections.

Selected keys
-------------
Text keys are themselves private. A key is shown when its noisy number of units
reaches a threshold; a key that only one of two neighbouring tables holds is held by
one unit alone, and its threshold is such that it shows with probability at most δ in
all (:func:`discreet.privacy.key_threshold`). So the selection costs the loss of the
noisy counts and that δ.

The bucket of other keys
------------------------
Given the selected keys, every row falls into exactly one shown cell: its own or the
bucket. Other vectors therefore keep their sensitivity. The counts that select are
used twice for keys that are not shown (to hide the key, and inside the bucket), so
the bucket's count is a second draw with a loss of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from discreet import mechanisms as m
from discreet import noise
from discreet import privacy as p
from discreet._dataclass import dataclass
from discreet.errors import Hint, ParameterError
from discreet.plan._parts import (
    Cells,
    Draw,
    Drawn,
    Exact,
    Floats,
    Groups,
    Hidden,
    Ints,
    Law,
    Part,
    Priced,
    Release,
    Rule,
    add,
    loss_of,
)
from discreet.plan._stability import Sensitivity
from discreet.plan._valid import LONGEST, damaged, integer, integers


@dataclass(frozen=True, slots=True)
class Box:
    """Lower and upper ends, cell by cell."""

    low: Floats
    high: Floats

    def clipped(self, lo: float, hi: float) -> Box:
        """Intersect with a public range."""
        return Box(np.clip(self.low, lo, hi), np.clip(self.high, lo, hi))

    def where(self, cells: NDArray[np.bool_], value: float) -> Box:
        """Put a value that is certain (NaN: NULL) in place of both ends of some cells."""
        return Box(np.where(cells, value, self.low), np.where(cells, value, self.high))


@dataclass(frozen=True)
class Numbers(Release):
    """Noisy integers, one per cell, with their law (None: public, no noise)."""

    values: tuple[int, ...]
    law: Law | None
    threshold: int | None = None  # cells were released because they reached this
    rest: bool = False  # the last cell gathers all other keys and was not selected

    kind: ClassVar[str] = "numbers"
    selects: ClassVar[str] = "number"

    @property
    def reached(self) -> str:
        """The threshold, for people."""
        return str(self.threshold)

    @property
    def size(self) -> int:
        """One for each cell."""
        return len(self.values)

    @property
    def floats(self) -> Floats:
        """The integers, for arithmetic after the noise."""
        return np.array(self.values, dtype=np.float64)

    def box(self, level: float) -> Box:
        """Ends between which the exact integers lie, each with probability `level`."""
        values = self.floats
        if self.law is None:
            return Box(values, values)
        margin = self.law.interval(level).high
        plain = Box(values - margin, values + margin)
        if self.threshold is None:
            return plain
        counts = self.values[:-1] if self.rest else self.values
        # selection favours lucky noise: these ends invert the law given selection
        ends = {
            y: m.interval_given_release(y, self.threshold, self.law, level) for y in set(counts)
        }
        low = np.array([ends[y].low for y in counts], dtype=np.float64)
        high = np.array([ends[y].high for y in counts], dtype=np.float64)
        tail = slice(len(counts), None)
        return Box(np.append(low, plain.low[tail]), np.append(high, plain.high[tail]))

    def to_dict(self) -> dict[str, Any]:
        """Write values, law and selection."""
        return {
            "law": None if self.law is None else self.law.to_dict(),
            "values": [int(x) for x in self.values],
            "threshold": self.threshold,
            "rest": self.rest,
        }

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Self:
        """Invert :meth:`to_dict`."""
        at = data["threshold"]
        return cls(
            integers(data["values"]),
            None if data["law"] is None else read_law(data["law"]),
            None if at is None else integer(at),
            bool(data["rest"]),
        )

    def check(self, cells: int) -> None:
        """Refuse values that do not fit the cells, the law or the threshold."""
        if len(self.values) != cells:
            raise damaged("its columns differ in length")
        if self.threshold is None:
            return
        counts = self.values[:-1] if self.rest else self.values
        if self.law is None or any(v < self.threshold for v in counts):
            raise damaged("a group is shown that was not selected")


def read_law(data: Mapping[str, Any]) -> Law:
    """Read a law that parts draw from; refuse any other."""
    law = noise.law_from_dict(data)
    if not isinstance(law, Law):
        raise damaged("a noise law is missing")
    if law.variance > 2.0**LONGEST:
        raise damaged("a noise law is too wide")
    return law


@dataclass(frozen=True)
class Vector(Part):
    """One integer per cell: a count or a sum."""

    measure: int

    kind: ClassVar[str] = "vector"

    @property
    def reads(self) -> tuple[int, Sensitivity]:
        """The one measure that it adds up."""
        return self.measure, self.sensitivity

    def price(self, rule: Rule) -> Priced:
        """One draw; none where no unit can move it."""
        if not self.private:
            return Priced(self, None, ())
        law = rule.law(self.sensitivity)
        return Priced(self, law, (loss_of(law, self.sensitivity, self.coordinates),))

    def exact(self, groups: Groups, cells: Cells) -> Ints:
        """Integers that noise is added to."""
        return cells.totals(groups, self.measure)

    def release(self, priced: Priced, groups: Groups, cells: Cells, draw: Draw) -> Numbers:
        """Add one draw of noise to every integer."""
        exact = self.exact(groups, cells)
        noisy = exact if priced.law is None else add(exact, draw.sample(priced.law, exact.size))
        return Numbers(tuple(map(int, noisy)), priced.law)

    def measurements(self, groups: Groups) -> Iterator[tuple[str, Exact]]:
        """Integers of every group that the table holds."""
        yield "", {cell: values[self.measure] for cell, values in groups.items()}


@dataclass(frozen=True)
class Image(Vector):
    """Linear queries over the counts of all cells, in the order of the keys.

    ``rows`` holds the matrix, times a common denominator, as integers.
    """

    rows: tuple[tuple[int, ...], ...]
    domain: tuple[tuple[int | str, ...], ...]
    counts: Sensitivity

    kind: ClassVar[str] = "image"

    @property
    def reads(self) -> tuple[int, Sensitivity]:
        """The counts that it combines."""
        return self.measure, self.counts

    def exact(self, groups: Groups, cells: Cells) -> Ints:
        """Answers of the queries, in exact integers; their cells are the domain's."""
        del cells
        counts = Cells(self.domain).totals(groups, self.measure)
        answers: list[int | None] = [
            sum(b * int(x) for b, x in zip(row, counts, strict=True) if b) for row in self.rows
        ]
        return np.array([*answers, None], dtype=object)[:-1]

    def measurements(self, groups: Groups) -> Iterator[tuple[str, Exact]]:
        """Answers by the number of the query."""
        answers = self.exact(groups, Cells(()))
        yield "", {(i,): int(x) for i, x in enumerate(answers)}


@dataclass(frozen=True)
class Threshold:
    """A key is shown when its noisy number of units reaches ``at``."""

    law: Law
    at: int
    scale: int = 1
    """Units of what is counted in one unit of privacy."""
    before: Threshold | None = None
    """That of an earlier round."""

    def to_dict(self) -> dict[str, Any]:
        """Write the law and the threshold on record."""
        scale: dict[str, Any] = {} if self.scale == 1 else {"scale": self.scale}
        before = {} if self.before is None else {"before": self.before.to_dict()}
        return {"law": self.law.to_dict(), "at": self.at, **scale, **before}


@dataclass(frozen=True)
class Keys(Part):
    """Selection of text keys by their noisy numbers of units."""

    measure: int
    column: str
    touched: int
    """Most keys that one unit holds."""
    rest: str | None = None

    kind: ClassVar[str] = "keys"

    @property
    def reads(self) -> tuple[int, Sensitivity]:
        """The counts of units."""
        return self.measure, self.sensitivity

    @property
    def groups(self) -> int | None:
        """The threshold allows for so many keys of one unit."""
        return self.touched

    @property
    def gaussian(self) -> bool:
        """In a bucket one unit's keys meet, so the L2 sensitivity of vectors would not hold."""
        return self.rest is None

    @property
    def draws(self) -> int:
        """One for the counts that select, one for the bucket of other keys."""
        return 1 if self.rest is None else 2

    def price(self, rule: Rule) -> Priced:
        """Counts, bucket and the δ of selecting."""
        if rule.delta is None:
            raise ParameterError(
                f"the values of {self.column!r} are themselves private: selecting them needs "
                "a delta, or a policy that lists the column's public values",
                hint=Hint("delta", "1e-6"),
            )
        if self.rest is not None and rule.epsilon is None:
            raise ParameterError(
                "a bucket for other keys is priced by epsilon=, not rho=",
                hint=Hint("epsilon", "0.5"),
            )
        law = rule.law(self.sensitivity)
        at = p.key_threshold(law, rule.delta, self.touched)
        draws = (loss_of(law, self.sensitivity, self.coordinates),) * self.draws
        return Priced(self, Threshold(law, at), (*draws, p.Approx(0, rule.delta)))

    def select(self, priced: Priced, groups: Groups, draw: Draw) -> Cells:
        """Cells whose noisy counts reach the threshold; sorted, so that order says nothing."""
        keys = sorted(groups, key=lambda c: tuple(map(str, c)))
        exact = Cells(keys).totals(groups, self.measure)
        noisy = add(exact, draw.sample(priced.law.law, exact.size))
        places = [i for i, n in enumerate(noisy) if n >= priced.law.at]
        return Cells([keys[i] for i in places], self.rest, tuple(int(noisy[i]) for i in places))

    def release(self, priced: Priced, groups: Groups, cells: Cells, draw: Draw) -> Numbers:
        """Counts of the selected keys, and of the bucket with noise of its own."""
        values = cells.counts
        if cells.rest is not None:
            others = cells.totals(groups, self.measure)[-1:]
            values += (int(add(others, draw.sample(priced.law.law, 1))[0]),)
        return Numbers(values, priced.law.law, priced.law.at, cells.rest is not None)

    def drawn(self, law: Threshold) -> Iterator[Drawn | Hidden]:
        """Counts that select, the bucket, and the keys that one unit alone holds."""
        yield from (Drawn(law.law, self.sensitivity),) * (1 if self.rest is None else 2)
        yield Hidden(law.law, law.at, self.touched, 1)

    def measurements(self, groups: Groups) -> Iterator[tuple[str, Exact]]:
        """Units of every key that the table holds."""
        yield "", {cell: values[self.measure] for cell, values in groups.items()}

    def moved(self, left: Groups, right: Groups) -> list[str]:
        """Besides distances: keys of one table only are few and held by one unit each."""
        distances = super().moved(left, right)
        for mine, theirs in ((left, right), (right, left)):
            alone = {c: v[self.measure] for c, v in mine.items() if c not in theirs}
            if len(alone) > self.touched:
                distances.append(
                    f"{len(alone)} keys stand in one table only, declared {self.touched}"
                )
            if any(n > 1 for n in alone.values()):
                distances.append("a key of one table only is held by several units")
        return distances
