r"""The part of a plan that a publication is: a mechanism's questions about the counts.

Guarantee
---------
The counts move by Δ = ‖x − x'‖₁ records when one unit comes or goes: the plan's own
sensitivity, from limits that the verified statement enforces. A course that is ε-DP for one
record is Δε-DP for Δ of them, and one that is ρ-zCDP is Δ²ρ-zCDP (group privacy), so the course
runs at 1/Δ of the ε or 1/Δ² of the ρ that is charged. Adaptive steps of a course draw on this
one debit: :func:`conduct` adds them up and refuses beyond it.

Under change-one a unit's rows are taken out and others put in: Δ is twice the limit. Two cases
are better: a row that is its own unit and cannot leave the domain (no filter, no NULL) moves from
cell to cell, by change-one itself; and where totals are released exactly, only tables that agree
on them are neighbours, so that every row that leaves is replaced.

Count-of-counts reads the sizes of groups that a text column names. Their number is public (read
off the data it would tell a person who lives alone): the sizes, in decreasing order and followed
by zeros, are cut to it; one row more or less moves one of them by 1.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet._dataclass import dataclass, field
from discreet.errors import Hint, LedgerIntegrityError, ParameterError
from discreet.plan import (
    Box,
    Cells,
    Code,
    Draw,
    Exact,
    Formula,
    Part,
    Priced,
    Release,
    Releases,
    Rule,
    Sensitivity,
    damaged,
    integers,
)
from discreet.privacy import Neighbours
from discreet.release._counts import Counts
from discreet.release._plan import Plan, plan
from discreet.release._questions import Question
from discreet.release._workload import Workload

Groups: TypeAlias = Mapping[tuple[Code, ...], tuple[int, ...]]

_ARRAY = 1 << 24
"""Domains up to this many cells are held as arrays, larger ones as records."""


@dataclass(frozen=True)
class Terms:
    """A mechanism at its price: what stands where other parts have a law."""

    plan: Plan

    def to_dict(self) -> dict[str, Any]:
        """Write down method, price and how many records a unit stands for."""
        return {
            "method": self.plan.method,
            "price": str(self.plan.price),
            "rows": self.plan.rows,
            "records": str(self.plan.neighbours),
            "unprotected": list(self.plan.mechanism.unprotected),
        }


@dataclass(frozen=True)
class Publishing(Part):
    """The questions that a mechanism asks of the counts of all cells."""

    measure: int
    codes: tuple[tuple[int | str, ...], ...]
    method: str
    neighbours: Neighbours
    rows: int
    spelling: str
    """Workload and options, written out: two publications that differ in them are two."""
    workload: Workload = field(compare=False)
    options: tuple[tuple[str, Any], ...] = field(compare=False)
    owner: str | None = None
    homes: tuple[int, ...] = ()
    """Public numbers of groups, where their sizes are counted."""
    whom: tuple[Neighbours, str] = (Neighbours.ADD_REMOVE, "row")
    """Relation and unit of the policy."""

    kind: ClassVar[str] = "publication"

    @property
    def gaussian(self) -> bool:
        """Which noise it draws is the mechanism's matter."""
        return False

    @property
    def numbers(self) -> int:
        """How many numbers come out does not grow with the cells."""
        return 0

    @property
    def reads(self) -> tuple[int, Sensitivity]:
        """The counts."""
        return self.measure, self.sensitivity

    def _plan(self, **price: Any) -> Plan:
        return plan(
            self.workload,
            method=self.method,
            neighbours=self.neighbours,
            rows=self.rows,
            **{name: value for name, value in price.items() if value is not None},
            **dict(self.options),
        )

    def price(self, rule: Rule) -> Priced:
        """Plan the mechanism at the price that the rule stands for."""
        if rule.epsilon is not None:
            # where the budget counts ρ, Gaussian noise costs much less of it
            dear = rule.delta is not None and not rule.flip and "noise" not in dict(self.options)
            own = "gaussian" if dear else None
            plan = self._plan(epsilon=rule.epsilon, delta=rule.delta, noise=own)
        else:
            unit: Any = rule.law(Sensitivity(1, 1, 1))
            plan = self._plan(rho=1 / (2 * unit.sigma2))
        # the loss of all rows of a unit, under the policy's relation
        loss = plan.loss if plan.rows == 1 else plan.price.loss
        loss = loss.under(*self.whom).beside(*plan.mechanism.unprotected)
        return Priced(self, Terms(plan), (loss,))

    def release(self, priced: Priced, groups: Groups, cells: Cells, draw: Draw) -> Transcript:
        """Put the questions one after the other."""
        del cells
        counts = self.counts(groups)
        plan: Plan = priced.law.plan
        estimate, exchanges = plan.conduct(lambda q: np.asarray(draw.answer(q, counts)))
        return Transcript(
            plan.method,
            {**priced.law.to_dict(), "owner": self.owner},
            tuple(q.record() for q, _ in exchanges),
            tuple(tuple(int(v) for v in np.ravel(y).tolist()) for _, y in exchanges),
            estimate,
        )

    def counts(self, groups: Groups) -> Counts:
        """Private counts of the domain's cells. PRIVATE."""
        if self.homes:
            return self._sizes(groups)
        shape = tuple(len(codes) for codes in self.codes)
        places: list[dict[Code, int]] = [
            {code: i for i, code in enumerate(codes)} for codes in self.codes
        ]
        # a cell outside the domain has place -1
        rows = [
            (*(p.get(c, -1) for p, c in zip(places, cell, strict=True)), values[self.measure])
            for cell, values in groups.items()
        ]
        table = np.array(rows, dtype=np.int64).reshape(-1, len(shape) + 1)
        table = table[(table[:, :-1] >= 0).all(axis=1)]
        if math.prod(shape) > _ARRAY:
            return Counts(None, np.repeat(table[:, :-1], table[:, -1], axis=0), shape)
        array = np.zeros(shape, dtype=np.int64)
        np.add.at(array, tuple(table[:, :-1].T), table[:, -1])
        return Counts(array, None, shape)

    def _sizes(self, groups: Groups) -> Counts:
        """Private numbers of groups by size: the largest of a public number of them. PRIVATE."""
        shape, codes = self.workload.shape, self.codes[0] if self.codes else ()
        regions: dict[Code, list[int]] = {code: [] for code in codes or (None,)}
        for cell, values in groups.items():
            region = cell[0] if codes else None
            if region in regions:
                regions[region].append(min(values[self.measure], shape[-1] - 1))
        table = np.zeros((len(regions), shape[-1]), dtype=np.int64)
        for i, (sizes, number) in enumerate(zip(regions.values(), self.homes, strict=True)):
            largest = sorted(sizes, reverse=True)[:number]
            table[i] = np.bincount(largest + [0] * (number - len(largest)), minlength=shape[-1])
        return Counts(table.reshape(shape), None, shape)

    def measurements(self, groups: Groups) -> Iterator[tuple[str, Exact]]:
        """Counts of the cells: all that any question sees."""
        yield "", {cell: values[self.measure] for cell, values in groups.items()}

    def steps(self, groups: Groups) -> Iterator[tuple[str, Sensitivity, Exact]]:
        """Besides the counts: the integers of every question, at answers that know no data."""
        yield from super().steps(groups)
        counts = self.counts(groups)
        parts: list[tuple[str, Sensitivity, Exact]] = []

        def answer(question: Question) -> NDArray[Any]:
            l1, squares, most = question.moves()
            declared = Sensitivity(self.rows * l1, self.rows**2 * squares, self.rows * most)
            exact: Exact = {(i,): int(v) for i, v in enumerate(question.exact(counts).tolist())}
            parts.append((f" {len(parts)} {question.label}", declared, exact))
            return question.blank()

        self._trial().conduct(answer)
        yield from parts

    def moved(self, left: Groups, right: Groups) -> list[str]:
        """Besides the counts: every question, at the answers that one table gives."""
        faults = super().moved(left, right)
        x, y = self.counts(left), self.counts(right)

        def answer(question: Question) -> NDArray[Any]:
            moves, most = question.distance(x, y), question.most(self.rows)
            if moves > most:
                faults.append(
                    f"{question.label} moved by {moves} of what is declared, at most {most}"
                )
            return question.ask(x)

        self._trial().conduct(answer)
        return faults

    def _trial(self) -> Plan:
        """Plan at some price, for a replay: distances do not depend on it."""
        try:
            return self._plan(epsilon=1)
        except ParameterError:
            return self._plan(rho=1)


@dataclass(frozen=True)
class Transcript(Release):
    """Questions of a mechanism with their released answers, in order."""

    method: str
    terms: Mapping[str, Any]
    questions: tuple[dict[str, Any], ...]
    answers: tuple[tuple[int, ...], ...]
    estimate: Any = field(default=None, compare=False, repr=False)
    """What the mechanism made of the answers, where it has just run."""

    kind: ClassVar[str] = "publication"

    @property
    def size(self) -> int:
        """All released integers."""
        return sum(map(len, self.answers))

    def to_dict(self) -> dict[str, Any]:
        """Write questions and answers."""
        pairs = zip(self.questions, self.answers, strict=True)
        return {
            "method": self.method,
            "terms": dict(self.terms),
            "questions": [{**q, "released": list(y)} for q, y in pairs],
        }

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Self:
        """Invert :meth:`to_dict`."""
        questions = [dict(q) for q in data["questions"]]
        answers = tuple(integers(q.pop("released")) for q in questions)
        return cls(str(data["method"]), dict(data["terms"]), tuple(questions), answers)

    def check(self, cells: int) -> None:
        """Refuse a transcript without questions."""
        if cells or not self.questions:
            raise damaged("a publication asked nothing")

    def retold(self, plan: Plan) -> Any:
        """Estimate by driving the mechanism with the stored answers, and no others."""
        if self.estimate is not None:
            return self.estimate
        exchanges = iter(zip(self.questions, self.answers, strict=True))

        def answer(question: Question) -> NDArray[Any]:
            record, values = next(exchanges, ({}, ()))
            mine = json.loads(json.dumps(question.record()))
            # a record of an earlier version may say less, never anything else
            if {k: mine.get(k) for k in record} != json.loads(json.dumps(record)):
                raise LedgerIntegrityError(
                    "the stored publication does not fit its plan: it was made by another "
                    "version, or edited",
                    hint=Hint("fresh", True),
                )
            narrow = max(map(abs, values), default=0) < 1 << 62
            return np.array(values, dtype=np.int64 if narrow else object)

        return plan.conduct(answer)[0]


@dataclass(frozen=True, slots=True)
class Published(Formula):
    """A publication's answers are computed by :class:`Publication`, from its transcript."""

    part: int

    @property
    def parts(self) -> tuple[int, ...]:
        """The one part."""
        return (self.part,)

    def estimate(self, releases: Releases) -> NDArray[Any]:
        """No rows of its own."""
        del releases
        return np.zeros(0)

    def box(self, releases: Releases, level: float) -> Box:
        """No rows of its own."""
        del releases, level
        return Box(np.zeros(0), np.zeros(0))

    def statements(self, releases: Releases) -> set[object]:
        """None: see :meth:`Publication.interval`."""
        del releases
        return set()

    def margin(self, priced: Sequence[Priced], confidence: float) -> str:
        """Root mean squared error, where it is known beforehand."""
        del confidence
        rmse = priced[self.part].law.plan.rmse
        return "depends on the data" if rmse is None else f"root mean square {rmse:.4g}"

    def check(self, releases: Releases) -> None:
        """Refuse another kind of part."""
        if not isinstance(releases[self.part], Transcript):
            raise damaged("a formula names a part that is not there")
