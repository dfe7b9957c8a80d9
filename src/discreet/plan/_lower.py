"""Lowering: from statistics to the fewest parts that answer them.

Counts, sums, averages and variances of one expression share one joint part
(``_families``); equal vectors are measured once. Several quantiles of one expression are
one part.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from fractions import Fraction
from functools import cached_property
from math import lcm
from typing import Any, Final

from discreet._dataclass import dataclass, field, replace
from discreet.errors import ParameterError
from discreet.plan._combined import Combined, combined
from discreet.plan._crossed import Crossed
from discreet.plan._disjoint import exclusive
from discreet.plan._expr import (
    Arithmetic,
    AsNumber,
    Constant,
    Expr,
    IsNull,
    Not,
    Rescale,
    Square,
)
from discreet.plan._facts import no_values
from discreet.plan._families import Family, Moment, Sums
from discreet.plan._fold import Outputs, Terms, linear, uses
from discreet.plan._formula import Formula, NoRows, Total
from discreet.plan._joins import limited_by_parent
from discreet.plan._joint import Form, Joint, Power, TwoShares
from discreet.plan._keys import WeightedKeys, by_degree
from discreet.plan._lowered import Lowered, check_size
from discreet.plan._means import WeightedSum
from discreet.plan._parts import Part
from discreet.plan._picks import Pick
from discreet.plan._quantiles import Quantiles, largest_share, lattice_of
from discreet.plan._query import Query
from discreet.plan._relation import (
    Aggregate,
    Key,
    Measure,
    MeasureKind,
    aggregate,
    base,
    cells_of,
    combinations,
)
from discreet.plan._rounding import behind_sums, off_of, rounded
from discreet.plan._stability import (
    Sensitivity,
    form_sensitivity,
    linear_sensitivity,
    partition_sensitivity,
    powers_sensitivity,
    sensitivity,
)
from discreet.plan._target import statistics_of
from discreet.plan._tensor import tensor_of
from discreet.plan._types import Kind, Type
from discreet.plan._variances import MOVES, Variances, squared
from discreet.plan._vectors import Image, Keys, Vector
from discreet.plan._wants import Wants, as_number
from discreet.privacy import Neighbours

ONE: Final = Constant(1, Type.number(1, 1, null=False))


_Slot = Callable[[Aggregate], Part]


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
    owners: list[int] = field(default_factory=list)
    """Slot behind every release."""
    starts: dict[object, int] = field(default_factory=dict)
    families: dict[Expr, Family] = field(default_factory=dict)
    pairs: dict[tuple[Expr, Expr], Crossed] = field(default_factory=dict)
    rest: int | None = None
    """Release that counts the rows of no family in the cluster that counts all rows."""
    alone: dict[int, Formula] = field(default_factory=dict)
    """Statistics that one output alone names, with the formula of that output."""
    levels: dict[object, set[Fraction]] = field(default_factory=dict)
    shares: dict[object, list[Fraction | None]] = field(default_factory=dict)
    labels: tuple[str, ...] | None = None

    @cached_property
    def wants(self) -> Wants:
        """What the statistics need of their expressions."""
        return Wants(self.query)

    def run(self) -> Lowered:
        """Lower all statistics, then the selection of keys."""
        query = self.query
        self._find_alone()
        for i, s in enumerate(query.statistics):
            if s.moment is not None and i not in self.alone:
                self.wants.add(s.expr, s.moment)
            else:
                self.wants.more = True
        self.wants.unite()
        formulas = [self.alone.get(i) or s.lower(self) for i, s in enumerate(query.statistics)]
        # the counts that select keys have intervals of their own
        fold = Outputs(formulas, self.alone, self._shares, combines=not self.wants.open)
        # what rounding does to a statistic is known of it alone
        moved = rounded(query.statistics)
        outputs = tuple(
            o if moved & statistics_of(o.expr) else replace(o, expr=fold.output(o.expr))
            for o in query.outputs
        )
        counts = behind_sums(query.statistics, moved, formulas, self.total)
        formulas = self._possible(formulas)
        selector = self._selector()
        self._check_other(selector)
        main = self._aggregate(query.keys, tuple(self.measures))
        parts = tuple(slot(main) for slot in self.slots)
        check_size(query, parts)
        return Lowered(
            query,
            (main, *self.extra),
            parts,
            tuple(formulas),
            outputs,
            selector,
            self.labels,
            frozenset(self.alone),
            counts,
        )

    def _possible(self, formulas: Sequence[Formula]) -> list[Formula]:
        """NULL for what has no value where there can be no row; counts and sums stay noisy."""
        query = self.query
        empty = query.is_empty
        void = {i for i, s in enumerate(query.statistics) if no_values(s.expr)}
        return [
            NoRows(f) if f.needs_rows and (empty or i in void) else f
            for i, f in enumerate(formulas)
        ]

    # -- what statistics ask for ----------------------------------------------------

    def vector(self, measure: Measure) -> int:
        """One integer per cell."""
        if measure not in self.starts:
            place = self._place(measure)

            def slot(main: Aggregate) -> Part:
                moves = sensitivity(main, measure)
                return Vector(0, moves, self._coordinates(main), place)

            self.starts[measure] = self._add(slot)
        return self.starts[measure]

    def sum(self, expr: Expr) -> int:
        """Values added up, NULL as 0."""
        return self.vector(Measure(MeasureKind.SUM, expr))

    def count(self, expr: Expr | None) -> int:
        """Rows, or rows where a value is not NULL."""
        return self.vector(self._counting(expr))

    def units(self) -> int:
        """Units: by their column, or as rows where each row is one."""
        return self.vector(self._units())

    def number(self, expr: Expr) -> Expr:
        """Read a condition as 0 or 1; leave numbers alone."""
        return as_number(expr)

    def centred(self, expr: Expr) -> tuple[Expr, int]:
        """Subtract the middle of the public range, so that a unit moves a sum by half of it."""
        t = expr.type
        centre = (t.lo + t.hi) // 2
        middle = Constant(centre, Type.number(centre, centre, t.step, null=False))
        return Arithmetic("-", expr, middle), centre

    def powers(self, expr: Expr) -> tuple[Power, Power, int]:
        """Sums of the first and, if asked for, second power about the middle of the range.

        For what has no family: the number of values is public, or all of them are equal.
        """
        about, centre = self.centred(expr)
        if Moment.SPREAD not in self.wants.moments[self.wants.name(expr)]:
            return Power(self.sum(about)), Power(-1), centre
        second, half = squared(about)
        if expr.type.lo == expr.type.hi:
            return Power(self.sum(about)), Power(self.sum(second), 1, half), centre
        a, b = factors = max(-about.type.lo, about.type.hi), 1  # why: discreet.plan._joint
        if (key := ("powers", about)) not in self.starts:
            places = [self._place(Measure(MeasureKind.SUM, e)) for e in (about, second)]
            forms = tuple(((m, k),) for m, k in zip(places, factors, strict=True))

            def slot(main: Aggregate) -> Part:
                moves = powers_sensitivity(main, (about.type.lo, about.type.hi), factors)
                inputs = tuple((m, sensitivity(main, main.measures[m])) for m in places)
                return Joint(0, moves, len(forms), forms, inputs)

            self.starts[key] = self._add(slot, len(forms))
        start = self.starts[key]
        return Power(start, a), Power(start + 1, b, half), centre

    def variance(self, expr: Expr) -> int | None:
        """Two rounds for a variance asked alone, where the number of values is public."""
        t = expr.type
        if not self.wants.public or self.wants.moments[expr] != {Moment.SPREAD} or t.lo == t.hi:
            return None
        if (key := ("variance", expr)) not in self.starts:
            about, centre = self.centred(expr)
            second, half = squared(about)
            sums = [ONE, about, second]
            rows, one, two = places = [self._place(Measure(MeasureKind.SUM, e)) for e in sums]

            def slot(main: Aggregate) -> Part:
                moves = tuple(sensitivity(main, main.measures[m]) for m in places)
                shape = t.hi - t.lo, centre - t.lo, half
                return Variances(0, MOVES, 2, (rows, one, two), moves, *shape)

            self.starts[key] = self._add(slot)
        return self.starts[key]

    def quantile(self, expr: Expr, at: Fraction, share: Fraction | None) -> int:
        """A quantile; all quantiles of one expression are one part.

        The largest share that one of them states for its interval counts; 0 where all say so.
        """
        key = ("quantiles", expr)
        if key not in self.starts:
            self.levels[key], self.shares[key] = set(), []
            self.starts[key] = self._quantiles(expr, self.levels[key], self.shares[key])
        self.levels[key].add(at)
        self.shares[key].append(share)
        return self.starts[key]

    def _quantiles(self, expr: Expr, levels: set[Fraction], shares: list[Fraction | None]) -> int:
        t = expr.type
        codes, leaves = lattice_of(t.size, combinations(self.query.keys))
        first = Constant(t.lo, Type.number(t.lo, t.lo, null=False))
        shifted = Arithmetic("-", AsNumber(expr), first)
        leaf = Rescale(shifted, Fraction(codes), mode="floor")
        counts = self._histogram(Key("\x00leaf", leaf, range(leaves)))
        place, moves, squares = len(self.extra), *self._moves(counts)
        whole = self._sides() == 2 and not self.query.keys and leaves > 1
        step = t.step if t.kind in (Kind.NUMBER, Kind.TIMESTAMP) else Fraction(1)

        def slot(_: Aggregate) -> Part:
            return Quantiles(
                place,
                moves,
                self._coordinates(counts),
                tuple(sorted(levels)),
                largest_share(shares),
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

    def tensor(self, cells: Sequence[Measure], whole: int) -> int:
        """Shares that add up to `whole` in each row, at the price of one."""
        key = ("tensor", tuple(cells))
        if key not in self.starts:
            first = len(self.measures)
            self.measures += cells
            self.starts[key] = self._add(
                lambda main: tensor_of(main, cells, whole, first, self._coordinates(main))
            )
        return self.starts[key]

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
            expr.describe(),
        )
        return self._add(lambda _: part)

    def image(self, rows: tuple[tuple[int, ...], ...], labels: tuple[str, ...]) -> int:
        """Linear combinations of the counts of all cells."""
        domain = cells_of(self.query.keys)

        def part(main: Aggregate, place: int, counts: Sensitivity) -> Part:
            moves = linear_sensitivity(main, rows)
            return Image(0, moves, len(rows), place, rows, domain, counts)

        return self.on_counts(part, labels)

    def on_counts(
        self, part: Callable[[Aggregate, int, Sensitivity], Part], labels: tuple[str, ...]
    ) -> int:
        """A part over the counts of all cells, whose answer has rows of its own."""
        place = len(self.measures)
        self.measures.append(Measure(MeasureKind.SUM, ONE))
        self.labels = labels
        return self._add(lambda main: part(main, place, sensitivity(main, main.measures[place])))

    # -- families -------------------------------------------------------------------

    def total(self, expr: Expr | None, moment: Moment) -> Formula:
        """A count or a sum: off its family, or as a vector of its own."""
        key = self.wants.name(expr)
        if key is None:
            return self.rows()
        if key in self.wants.crossed:
            return self.crossed(key).sum(key)
        if beside := [e for e, count in self.wants.inner.items() if count == key]:
            return self.family(beside[0]).passing()
        if not self.wants.is_family(key):
            if moment is Moment.COUNT:
                return Total(self.count(key), Fraction(1))
            if len(self.wants.moments[key]) > 1 and not key.type.nullable:
                # a mean or a variance measures the centred sum already, and rows are public
                first, _, centre = self.powers(key)
                step = key.type.step
                cells = (first.place, self.count(None))
                return WeightedSum(cells, (step / first.times, centre * step))
            return Total(self.sum(key), key.type.step)
        family = self.family(key)
        return family.count() if moment is Moment.COUNT else family.sum()

    def joint(self, expr: Expr) -> Family | None:
        """The family of an expression; None where its number of values is public."""
        key = self.wants.name(expr)
        return self.family(key) if key is not None and self.wants.is_family(key) else None

    def family(self, expr: Expr) -> Family:
        """The joint part of an expression, or its piece of that of a cluster."""
        if expr not in self.families:
            self._measure(self.wants.clusters.get(expr, (expr,)))
        return self.families[expr]

    def rows(self) -> Formula:
        """All rows, off the family that hosts them."""
        if self.wants.crossed:
            return self.crossed(next(iter(self.wants.crossed))).count()
        host = self.wants.host
        if host is None:
            return Total(self.count(None), Fraction(1))
        family = self.family(host)
        if host not in self.wants.clusters:
            return family.rows()
        assert self.rest is not None
        terms = {self.rest: Fraction(1, family.total)}
        for each in self.wants.clusters[host]:
            count = self.families[each].passing()
            terms |= zip(count.cells, count.weights, strict=True)
        return WeightedSum(tuple(terms), tuple(terms.values()))

    def crossed(self, expr: Expr) -> Crossed:
        """The joint part of two sums."""
        pair = self.wants.crossed[expr]
        if pair not in self.pairs:
            new = Crossed(pair, None in self.wants.moments)
            sums = [Measure(MeasureKind.SUM, e) for e in new.summed]
            forms = new.forms(*map(self._place, sums))
            self.pairs[pair] = replace(new, start=self._shared(forms, new.total))
        return self.pairs[pair]

    def _family(self, expr: Expr) -> Family:
        """The family of one expression, by itself."""
        degree, clustered = self.wants.degree(expr), expr in self.wants.clusters
        null = expr.type.nullable and self.wants.host == expr and not clustered
        turned = not self.query.keys and self.query.neighbours is Neighbours.CHANGE_ONE
        inner = expr in self.wants.inner
        turned = turned and degree == 1 and not null and not inner and not clustered
        hosts = self.wants.host in self.wants.clusters.get(expr, ())
        plain = clustered and not hosts and not inner and self.wants.is_sum(expr)
        return Family(expr, degree, inner, null, turned, plain=plain)

    def _measure(self, exprs: Sequence[Expr]) -> None:
        """Add one joint part for families that no row reaches two of."""
        members = [self._family(e) for e in exprs]
        whole = lcm(*(f.own for f in members))
        members = [replace(f, times=whole // f.own) for f in members]
        sums = [self._sums(f) for f in members]
        forms = [form for f, at in zip(members, sums, strict=True) for form in f.forms(at)]
        if len(exprs) > 1 and self.wants.host in exprs:
            rows = self._place(self._counting(None))
            forms.append(((rows, whole), *((at.passing, -whole) for at in sums)))

        signed = [f.ends for f in members if f.plain]
        two = len(exprs) > 1 and self._sides() == 2 and not self.query.keys
        how = {"turned": members[0].turned, "signed": signed}
        start = self._shared(forms, whole, TwoShares if two else Joint, **how)
        for f in members:
            self.families[f.expr] = replace(f, start=start)
            start += f.size
        if len(exprs) > 1 and self.wants.host in exprs:
            self.rest = start

    def _shared(
        self, forms: Sequence[Form], whole: int, kind: type[Joint] = Joint, **how: Any
    ) -> int:
        """Add a joint part of forms to which each row adds shares of one whole."""

        def slot(main: Aggregate) -> Part:
            moves = partition_sensitivity(main, whole, **how)
            places = dict.fromkeys(m for form in forms for m, _ in form)
            inputs = tuple((m, sensitivity(main, main.measures[m])) for m in places)
            return kind(0, moves, len(forms) * self._coordinates(main), tuple(forms), inputs)

        return self._add(slot, len(forms))

    # -- whole outputs --------------------------------------------------------------

    def _find_alone(self) -> None:
        """Measure a combination of sums and counts as one vector where nothing else is asked."""
        query, counts = self.query, uses(self.query)
        if self.wants.selects_by_rows:
            return
        for out in query.outputs:
            form = linear(out.expr)
            if form is None or len(form[0]) < 2 or any(counts[i] > 1 for i in form[0]):
                continue
            moments = {i: query.statistics[i].moment for i in form[0]}
            names = {i: self.wants.name(query.statistics[i].expr) for i in form[0]}
            exprs = dict.fromkeys(e for e in names.values() if e is not None)
            if any(map(off_of, exprs)) or not self._only(names):
                continue
            kinds = set(moments.values())
            one = len(exprs) == 1 and kinds == {Moment.COUNT, Moment.SUM} and not self.wants.public
            if one or (kinds == {Moment.SUM} and exclusive(exprs) is not None):
                terms = [(names[i], m, form[0][i]) for i, m in moments.items() if m is not None]
                self.alone |= dict.fromkeys(moments, self._form(combined(terms)))

    def _only(self, statistics: Collection[int]) -> bool:
        """Whether no other statistic counts the same rows or adds up the same values."""
        names = {self.wants.name(self.query.statistics[i].expr) for i in statistics}
        return not any(
            s.moment is not None and i not in statistics and self.wants.name(s.expr) in names
            for i, s in enumerate(self.query.statistics)
        )

    def _form(self, sums: Combined) -> Formula:
        """One integer for each cell."""
        form = {self._place(Measure(MeasureKind.SUM, e)): a for e, a, _ in sums.each}
        for name, k in ((None, sums.rows), *((e, c) for e, _, c in sums.each)):
            if k or len(sums.each) == 1:
                at = self._place(self._counting(name))
                form[at] = form.get(at, 0) + k

        def slot(main: Aggregate) -> Part:
            moves = form_sensitivity(main, *sums.ends)
            inputs = tuple((m, sensitivity(main, main.measures[m])) for m in form)
            return Joint(0, moves, self._coordinates(main), (tuple(form.items()),), inputs)

        return WeightedSum((self._add(slot),), (Fraction(1, sums.whole),))

    @property
    def _shares(self) -> dict[int, Terms]:
        """Releases of joint parts in shares of rows."""
        releases = {c: s for f in self.families.values() for c, s in f.shares().items()}
        releases |= {c: s for pair in self.pairs.values() for c, s in pair.shares().items()}
        if self.rest is not None and (host := self.wants.host) is not None:
            releases[self.rest] = {self.rest: Fraction(self.families[host].total)}
        return releases

    def _sums(self, family: Family) -> Sums:
        """Ask the engine for the sums that a family needs."""
        expr = family.expr
        count = self._place(self._counting(expr))
        inner = self.wants.inner.get(expr)
        passing = count if inner is None else self._place(self._counting(inner))
        rows = self._place(self._counting(None)) if family.null else passing
        powers = [expr, Square(self.centred(expr)[0])][: family.degree] if family.degree else []
        places = [self._place(Measure(MeasureKind.SUM, power)) for power in powers]
        return Sums(rows, passing, count, *places)

    # -- machinery ------------------------------------------------------------------

    def _add(self, slot: _Slot, outlets: int = 1) -> int:
        self.slots.append(slot)
        self.owners += [len(self.slots) - 1] * outlets
        return len(self.owners) - outlets

    def _place(self, measure: Measure) -> int:
        """Where a measure stands; equal ones stand once."""
        if measure not in self.measures:
            self.measures.append(measure)
        return self.measures.index(measure)

    def _counting(self, expr: Expr | None) -> Measure:
        """Rows, or rows where a value is not NULL."""
        if expr is None or not expr.type.nullable:
            return Measure(MeasureKind.SUM, ONE)
        return Measure(MeasureKind.SUM, self.number(Not(IsNull(expr))))

    def _aggregate(self, keys: tuple[Key, ...], measures: tuple[Measure, ...]) -> Aggregate:
        q = self.query
        people = all(m.kind is MeasureKind.UNITS for m in measures)  # one row of each says all
        relation = q.relation if people else limited_by_parent(q.relation)
        return aggregate(relation, keys, measures, q.limits, q.neighbours, groups=len(q.keys))

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
                hint="the table names its unit in the policy",
            )
        return Measure(MeasureKind.SUM, ONE)

    def _selector(self) -> int | None:
        """The part by which open keys are selected; it counts units for everybody else too."""
        column = next((k.name for k in self.query.keys if k.codes is None), None)
        if column is None or not all(s.selects for s in self.query.statistics):
            return None
        measure = self._units()
        if (weighted := self._weighted(column, measure)) is not None:
            return weighted
        index = self.vector(measure)
        place = self.measures.index(measure)

        def slot(main: Aggregate) -> Part:
            moves = sensitivity(main, measure)
            coordinates = self._coordinates(main)
            return Keys(0, moves, coordinates, place, column, main.reach, self.query.other)

        self.slots[self.owners[index]] = slot
        return self.owners[index]

    def _weighted(self, column: str, measure: Measure) -> int | None:
        """Selection by weights of degrees, where it finds more keys than counts of units would.

        Counts that are asked for anyway select at no price of their own: only where a unit may
        have several keys do weights, at half the price, find more.
        """
        query = self.query
        plain = self._aggregate(query.keys, (measure,))
        most = plain.reach
        least = 2 if measure in self.starts else 1
        if measure.kind is not MeasureKind.UNITS or len(query.keys) > 1 or most <= least:
            return None
        if query.other is not None:
            return None  # what the bucket holds are counts
        (key,) = query.keys
        self.extra.append(by_degree(query.relation, key, most, query.neighbours))
        sides = self._sides()
        part = WeightedKeys(
            len(self.extra),
            WeightedKeys.moves(sides),
            sides * most,
            column,
            # a unit has one degree, so it is counted in as many cells as without
            sensitivity(plain, measure),
            most,
            sides,
            query.relation,
            key,
            query.neighbours,
        )
        return self.owners[self._add(lambda _: part)]

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
