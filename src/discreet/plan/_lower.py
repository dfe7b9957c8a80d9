"""Lowering: from statistics to the fewest integer vectors that answer them.

Equal vectors are measured once: two averages over columns without NULL share
their count, a variance shares both sums with the average of the same column.
Sums inside averages and variances are centred on the middle of the public
range, so that a unit moves them by half the range only. Several quantiles of
one expression share one tree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from discreet.errors import ParameterError
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
from discreet.plan._formula import Formula, Mean, Mode, Quantile, Spread, Total
from discreet.plan._query import Query, Stat, Statistic
from discreet.plan._relation import (
    Aggregate,
    Key,
    Measure,
    MeasureKind,
    aggregate,
    base,
)
from discreet.plan._stability import (
    Sensitivity,
    linear_sensitivity,
    sensitivity,
    size_is_public,
)
from discreet.plan._types import Kind, Type

ONE = Constant(1, Type.number(1, 1, null=False))

LEAVES = 4096
"""Finest resolution of a quantile tree: the public range over this."""

BRANCHING = 16
"""Children of a tree node: three levels reach 4096 leaves (Qardaji et al. 2013)."""


@dataclass(frozen=True)
class Vector:
    """One integer per group, to be measured with noise (or public)."""

    aggregate: int
    measure: int
    sensitivity: Sensitivity
    public: bool

    @property
    def private(self) -> bool:
        """Whether noise must be added."""
        return not self.public and self.sensitivity.l1 > 0


@dataclass(frozen=True)
class Tree:
    """A histogram over equal leaves of a range, to be measured level by level."""

    aggregate: int
    levels: int
    leaves: int
    lo: Fraction  # value at the left edge of leaf 0
    width: Fraction  # value width of a leaf
    hi: Fraction
    sensitivity: Sensitivity


@dataclass(frozen=True)
class Pick:
    """A selection of the most frequent codes in each group."""

    aggregate: int
    top: int
    labels: tuple[object, ...]
    sensitivity: Sensitivity


@dataclass(frozen=True)
class Lowered:
    """A query as vectors to measure and formulas to compute."""

    query: Query
    aggregates: tuple[Aggregate, ...]
    vectors: tuple[Vector, ...]
    trees: tuple[Tree, ...]
    picks: tuple[Pick, ...]
    formulas: tuple[Formula, ...]  # one per statistic
    selector: int | None  # vector of unit counts by which open keys are selected


def lower(query: Query) -> Lowered:
    """Lower a query; pure function of public facts."""
    return _Lowering(query).run()


@dataclass
class _Lowering:
    query: Query
    measures: list[Measure] = field(default_factory=list)
    extra: list[Aggregate] = field(default_factory=list)
    trees: list[Tree] = field(default_factory=list)
    tree_index: dict[Expr, int] = field(default_factory=dict)
    picks: list[Pick] = field(default_factory=list)

    def run(self) -> Lowered:
        formulas = tuple(self._formula(s) for s in self.query.statistics)
        selector = None
        if any(key.codes is None for key in self.query.keys):
            selector = self._units()
        self._check_other(selector)
        main = self._aggregate(self.query.keys, tuple(self.measures))
        vectors = tuple(
            Vector(0, i, sensitivity(main, m), size_is_public(main, m))
            for i, m in enumerate(self.measures)
        )
        linear = self.query.linear
        if linear is not None:
            vectors = (Vector(0, 0, linear_sensitivity(main, linear), public=False),)
            formulas = (Total(0, Fraction(1, linear.denominator)),)
        return Lowered(
            self.query,
            (main, *self.extra),
            vectors,
            tuple(self.trees),
            tuple(self.picks),
            formulas,
            selector,
        )

    def _check_other(self, selector: int | None) -> None:
        """Refuse a bucket of other keys where it would have no clear meaning."""
        if self.query.other is None:
            return
        counted = [m for i, m in enumerate(self.measures) if i != selector]
        plain = all(m.kind is MeasureKind.SUM for m in counted)
        if selector is None or len(self.query.keys) != 1:
            raise ParameterError("a bucket for other keys needs one text key to select from")
        if not plain or self.trees or self.picks:
            raise ParameterError("a bucket for other keys can hold counts, sums and averages only")

    def _aggregate(self, keys: tuple[Key, ...], measures: tuple[Measure, ...]) -> Aggregate:
        q = self.query
        return aggregate(q.relation, keys, measures, q.limits, q.neighbours, groups=len(q.keys))

    def _histogram(self, key: Key) -> Aggregate:
        """Counts by one more key, limited like the question's own groups.

        The limits count rows and groups of the question, not leaves: all rows of a
        unit in one group may meet in one node of any level of a tree.
        """
        return self._aggregate((*self.query.keys, key), (Measure(MeasureKind.SUM, ONE),))

    def _measure(self, measure: Measure) -> int:
        if measure not in self.measures:
            self.measures.append(measure)
        return self.measures.index(measure)

    def _sum(self, expr: Expr) -> int:
        return self._measure(Measure(MeasureKind.SUM, expr))

    def _count(self, expr: Expr | None) -> int:
        if expr is None or not expr.type.nullable:
            return self._sum(ONE)
        return self._sum(as_number(Not(IsNull(expr))))

    def _units(self) -> int:
        """Count units: by their column, or as rows where each row is one."""
        if base(self.query.relation).table.unit is not None:
            return self._measure(Measure(MeasureKind.UNITS))
        if (self.query.relation.m or 0) > 1:
            raise ParameterError(
                "after a join that repeats rows, units can only be counted by a unit column",
                hint='unit = "person_id" in the policy',
            )
        return self._sum(ONE)

    def _formula(self, s: Statistic) -> Formula:
        match s.kind:
            case Stat.COUNT:
                return Total(self._count(s.expr), Fraction(1))
            case Stat.COUNT_UNITS:
                return Total(self._units(), Fraction(1))
            case Stat.COUNT_DISTINCT:
                measure = Measure(MeasureKind.DISTINCT, s.expr)
                return Total(self._measure(measure), Fraction(1))
        assert s.expr is not None
        match s.kind:
            case Stat.SUM:
                expr = as_number(s.expr)
                return Total(self._sum(expr), expr.type.step)
            case Stat.AVG:
                return self._mean(as_number(s.expr))
            case Stat.VAR | Stat.STDDEV:
                return self._spread(as_number(s.expr), s)
            case Stat.QUANTILE:
                assert s.at is not None
                return Quantile(self._tree(s.expr), s.at)
        return self._mode(s)

    def _mean(self, expr: Expr) -> Mean:
        centred, centre = _centred(expr)
        t = expr.type
        return Mean(
            self._sum(centred),
            self._count(expr),
            centre * t.step,
            t.step,
            t.lo * t.step,
            t.hi * t.step,
        )

    def _spread(self, expr: Expr, s: Statistic) -> Spread:
        centred, _ = _centred(expr)
        squares = Square(centred)
        half = squares.type.hi // 2
        shift = Constant(half, Type.number(half, half, squares.type.step, null=False))
        return Spread(
            self._sum(centred),
            self._sum(Arithmetic("-", squares, shift)),
            self._count(expr),
            half,
            expr.type.step,
            (expr.type.hi - expr.type.lo) * expr.type.step,
            sample=s.sample,
            root=s.kind is Stat.STDDEV,
        )

    def _tree(self, expr: Expr) -> int:
        if expr not in self.tree_index:
            t = expr.type
            levels, leaves = 1, BRANCHING
            while leaves < min(t.size, LEAVES):
                levels, leaves = levels + 1, leaves * BRANCHING
            width = -(-t.size // leaves)
            first = Constant(t.lo, Type.number(t.lo, t.lo, null=False))
            shifted = Arithmetic("-", AsNumber(expr), first)
            leaf = Rescale(shifted, Fraction(width), mode="floor")
            key = Key("\x00leaf", leaf, tuple(range(leaves)))
            counts = self._histogram(key)
            self.extra.append(counts)
            step = t.step if t.kind in (Kind.NUMBER, Kind.TIMESTAMP) else Fraction(1)
            self.trees.append(
                Tree(
                    len(self.extra),
                    levels,
                    leaves,
                    t.lo * step,
                    width * step,
                    t.hi * step,
                    sensitivity(counts, counts.measures[0]),
                )
            )
            self.tree_index[expr] = len(self.trees) - 1
        return self.tree_index[expr]

    def _mode(self, s: Statistic) -> Mode:
        assert s.expr is not None
        t = s.expr.type
        labels = tuple(t.value(c) for c in range(t.lo, t.hi + 1))
        if s.top > len(labels):
            raise ParameterError(f"MODE asks for {s.top} of {len(labels)} values")
        key = Key("\x00value", s.expr, tuple(range(t.lo, t.hi + 1)))
        counts = self._histogram(key)
        self.extra.append(counts)
        moves = sensitivity(counts, counts.measures[0])
        self.picks.append(Pick(len(self.extra), s.top, labels, moves))
        return Mode(len(self.picks) - 1)


def as_number(expr: Expr) -> Expr:
    """Read a condition as 0 or 1; leave numbers alone."""
    return AsNumber(expr) if expr.type.kind is Kind.BOOLEAN else expr


def _centred(expr: Expr) -> tuple[Expr, int]:
    """Subtract the middle of the public range; return it too, in codes."""
    t = expr.type
    centre = (t.lo + t.hi) // 2
    middle = Constant(centre, Type.number(centre, centre, t.step, null=False))
    return Arithmetic("-", expr, middle), centre
