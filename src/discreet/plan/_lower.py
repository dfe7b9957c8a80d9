"""Lowering: from statistics to the fewest parts that answer them.

Equal vectors are measured once: two averages over columns without NULL share
their count, a variance shares both sums with the average of the same column.
Several quantiles of one expression are one part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Final

from discreet.errors import ParameterError
from discreet.plan._expr import Arithmetic, AsNumber, Constant, Expr, IsNull, Not, Rescale
from discreet.plan._formula import Formula
from discreet.plan._parts import Part
from discreet.plan._picks import Pick
from discreet.plan._quantiles import Quantiles, lattice_of
from discreet.plan._query import Query
from discreet.plan._relation import (
    Aggregate,
    Key,
    Measure,
    MeasureKind,
    aggregate,
    base,
    combinations,
    digest,
)
from discreet.plan._stability import Sensitivity, linear_sensitivity, sensitivity
from discreet.plan._target import rows_of_one_unit, target
from discreet.plan._types import Kind, Type
from discreet.plan._vectors import Image, Keys, Vector
from discreet.privacy import Neighbours

ONE: Final = Constant(1, Type.number(1, 1, null=False))

MAX_NUMBERS: Final = 10_000_000
"""Most noisy numbers of one question."""

_Slot = Callable[[Aggregate], Part]


@dataclass(frozen=True)
class Lowered:
    """A query as parts to measure and formulas to compute."""

    query: Query
    aggregates: tuple[Aggregate, ...]
    parts: tuple[Part, ...]
    formulas: tuple[Formula, ...]  # one per statistic
    selector: int | None  # part that selects open keys
    labels: tuple[str, ...] | None  # names of the rows, where they are not the cells

    @cached_property
    def measured(self) -> str:
        """Identity of what is measured: neither names of outputs nor what follows the noise."""
        return digest((self.aggregates, self.parts, self.selector, self.labels))

    @cached_property
    def target(self) -> list[str]:
        """Limits and clamps that stand between the table and the numbers."""
        return target(self.query, self.aggregates)

    @cached_property
    def rows_of_one_unit(self) -> list[list[int | None]]:
        """Most rows of one unit behind one number, and behind all numbers, of every part."""
        return [rows_of_one_unit(part, self.aggregates[part.aggregate]) for part in self.parts]


def lower(query: Query) -> Lowered:
    """Lower a query; pure function of public facts."""
    return Lowering(query).run()


@dataclass
class Lowering:
    """A query being lowered; statistics ask it for parts and get their indices."""

    query: Query
    measures: list[Measure] = field(default_factory=list)
    extra: list[Aggregate] = field(default_factory=list)
    slots: list[_Slot] = field(default_factory=list)
    known: dict[object, int] = field(default_factory=dict)
    levels: dict[object, set[Fraction]] = field(default_factory=dict)
    labels: tuple[str, ...] | None = None

    def run(self) -> Lowered:
        """Lower all statistics, then the selection of keys."""
        query = self.query
        formulas = tuple(s.lower(self) for s in query.statistics)
        selector = self._selector()
        self._check_other(selector)
        main = self._aggregate(query.keys, tuple(self.measures))
        parts = tuple(slot(main) for slot in self.slots)
        _check_size(query, parts)
        return Lowered(query, (main, *self.extra), parts, formulas, selector, self.labels)

    # -- what statistics ask for ----------------------------------------------------

    def vector(self, measure: Measure) -> int:
        """One integer per cell."""
        if measure not in self.known:
            place = len(self.measures)
            self.measures.append(measure)

            def slot(main: Aggregate) -> Part:
                moves = sensitivity(main, measure)
                return Vector(0, moves, self._coordinates(main), place)

            self.known[measure] = self._add(slot)
        return self.known[measure]

    def sum(self, expr: Expr) -> int:
        """Values added up, NULL as 0."""
        return self.vector(Measure(MeasureKind.SUM, expr))

    def count(self, expr: Expr | None) -> int:
        """Rows, or rows where a value is not NULL."""
        if expr is None or not expr.type.nullable:
            return self.sum(ONE)
        return self.sum(self.number(Not(IsNull(expr))))

    def units(self) -> int:
        """Units: by their column, or as rows where each row is one."""
        return self.vector(self._units())

    def number(self, expr: Expr) -> Expr:
        """Read a condition as 0 or 1; leave numbers alone."""
        return AsNumber(expr) if expr.type.kind is Kind.BOOLEAN else expr

    def quantile(self, expr: Expr, at: Fraction) -> int:
        """A quantile; all quantiles of one expression are one part."""
        key = ("quantiles", expr)
        if key not in self.known:
            self.levels[key] = set()
            self.known[key] = self._quantiles(expr, self.levels[key])
        self.levels[key].add(at)
        return self.known[key]

    def _quantiles(self, expr: Expr, levels: set[Fraction]) -> int:
        t = expr.type
        codes, leaves = lattice_of(t.size, combinations(self.query.keys))
        first = Constant(t.lo, Type.number(t.lo, t.lo, null=False))
        shifted = Arithmetic("-", AsNumber(expr), first)
        leaf = Rescale(shifted, Fraction(codes), mode="floor")
        counts = self._histogram(Key("\x00leaf", leaf, tuple(range(leaves))))
        place, moves, squares = len(self.extra), *self._moves(counts)
        whole = self._sides() == 2 and not self.query.keys and leaves > 1
        step = t.step if t.kind in (Kind.NUMBER, Kind.TIMESTAMP) else Fraction(1)

        def slot(_: Aggregate) -> Part:
            return Quantiles(
                place,
                moves,
                self._coordinates(counts),
                tuple(sorted(levels)),
                leaves,
                expr.describe(),
                squares,
                moves.l1 // 2 if whole else None,
                t.lo * step,
                codes * step,
                t.hi * step,
                step,
            )

        return self._add(slot)

    def _moves(self, counts: Aggregate) -> tuple[Sensitivity, int]:
        """How far a unit moves a histogram, and a bound on its squared rows by cell."""
        one = sensitivity(replace(counts, neighbours=Neighbours.ADD_REMOVE), counts.measures[0])
        squares = self._sides() ** 2 * one.l2_squared
        return sensitivity(counts, counts.measures[0]), squares

    def pick(self, expr: Expr, top: int) -> int:
        """The most frequent values of an expression."""
        t = expr.type
        codes = tuple(range(t.lo, t.hi + 1))
        if top > len(codes):
            raise ParameterError(f"MODE asks for {top} of {len(codes)} values")
        counts = self._histogram(Key("\x00value", expr, codes))
        moves, squares = self._moves(counts)
        part = Pick(
            len(self.extra),
            moves,
            self._coordinates(counts),
            top,
            codes,
            tuple(t.value(c) for c in codes),
            squares,
        )
        return self._add(lambda _: part)

    def image(self, rows: tuple[tuple[int, ...], ...], labels: tuple[str, ...]) -> int:
        """Linear combinations of the counts of all cells."""
        domain = cells_of(self.query.keys)

        def part(main: Aggregate, place: int, counts: Sensitivity) -> Part:
            moves = linear_sensitivity(main, rows)
            return Image(0, moves, len(rows), place, rows, domain, counts)

        return self.counted(part, labels)

    def counted(
        self, part: Callable[[Aggregate, int, Sensitivity], Part], labels: tuple[str, ...]
    ) -> int:
        """A part over the counts of all cells, whose answer has rows of its own."""
        place = len(self.measures)
        self.measures.append(Measure(MeasureKind.SUM, ONE))
        self.labels = labels
        return self._add(lambda main: part(main, place, sensitivity(main, main.measures[place])))

    # -- machinery ------------------------------------------------------------------

    def _add(self, slot: _Slot) -> int:
        self.slots.append(slot)
        return len(self.slots) - 1

    def _aggregate(self, keys: tuple[Key, ...], measures: tuple[Measure, ...]) -> Aggregate:
        q = self.query
        return aggregate(q.relation, keys, measures, q.limits, q.neighbours, groups=len(q.keys))

    def _histogram(self, key: Key) -> Aggregate:
        """Counts by one more key, limited like the question's own groups.

        The limits count rows and groups of the question, not leaves: all rows of a
        unit in one group may meet in one node of any level of a tree.
        """
        counts = self._aggregate((*self.query.keys, key), (Measure(MeasureKind.SUM, ONE),))
        self.extra.append(counts)
        return counts

    def _units(self) -> Measure:
        if base(self.query.relation).table.unit is not None:
            return Measure(MeasureKind.UNITS)
        if (self.query.relation.m or 0) > 1:
            raise ParameterError(
                "after a join that repeats rows, units can only be counted by a unit column",
                hint='unit = "person_id" in the policy',
            )
        return Measure(MeasureKind.SUM, ONE)

    def _selector(self) -> int | None:
        """The part by which open keys are selected; it counts units for everybody else too."""
        column = next((k.name for k in self.query.keys if k.codes is None), None)
        if column is None or not all(s.selects for s in self.query.statistics):
            return None
        measure = self._units()
        index = self.vector(measure)
        place = self.measures.index(measure)

        def slot(main: Aggregate) -> Part:
            moves = sensitivity(main, measure)
            coordinates = self._coordinates(main)
            return Keys(0, moves, coordinates, place, column, main.reach, self.query.other)

        self.slots[index] = slot
        return index

    def _check_other(self, selector: int | None) -> None:
        """Refuse a bucket of other keys where it would have no clear meaning."""
        if self.query.other is None:
            return
        if selector is None or len(self.query.keys) != 1:
            raise ParameterError("a bucket for other keys needs one text key to select from")
        units = self._units()
        plain = all(m.kind is MeasureKind.SUM for m in self.measures if m != units)
        if not plain or self.extra:
            raise ParameterError("a bucket for other keys can hold counts, sums and averages only")

    def _sides(self) -> int:
        return 2 if self.query.neighbours is Neighbours.CHANGE_ONE else 1

    def _coordinates(self, counts: Aggregate) -> int:
        """Bound the integers of one vector that one unit can move."""
        return self._sides() * counts.reach


def cells_of(keys: Sequence[Key]) -> tuple[tuple[int | str, ...], ...]:
    """All combinations of public key codes, the last varying fastest."""
    return tuple(product(*(k.codes or () for k in keys)))


def _check_size(query: Query, parts: Sequence[Part]) -> None:
    """Refuse more noisy numbers than fit one answer."""
    cells = combinations([k for k in query.keys if k.codes is not None]) or 0
    total = cells * sum([part.numbers for part in parts])
    if total > MAX_NUMBERS:
        raise ParameterError(
            f"the question needs {total} noisy numbers; at most {MAX_NUMBERS} fit one answer",
            hint="group by fewer columns, or narrow them with WHERE … IN (…)",
        )
