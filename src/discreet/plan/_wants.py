"""What the statistics of a question need of their expressions, and what follows for pricing.

Facts about the question alone: which expressions are families (``_families``), which of
them no row reaches together (``_disjoint``), off which one the number of rows is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from discreet._dataclass import dataclass, field
from discreet.plan._crossed import crosses
from discreet.plan._disjoint import Facts, disjoint, support
from discreet.plan._expr import AsNumber, Case, Constant, Expr
from discreet.plan._families import Moment
from discreet.plan._query import Query
from discreet.plan._relation import Scan, base
from discreet.plan._rounding import off_of
from discreet.plan._types import Kind
from discreet.privacy import Neighbours


def as_number(expr: Expr) -> Expr:
    """Read a condition as 0 or 1; leave numbers alone."""
    return AsNumber(expr) if expr.type.kind is Kind.BOOLEAN else expr


@dataclass
class Wants:
    """Moments that are asked for, by expression; None stands for rows.

    Complete before anything but :attr:`public`, :attr:`open` and names is read off it.
    """

    query: Query
    moments: dict[Expr | None, set[Moment]] = field(default_factory=dict)
    more: bool = False
    """Whether anything is drawn beside these moments."""
    alias: dict[Expr, Expr] = field(default_factory=dict)
    """Counts of the rows that pass a condition: values that all of these rows have."""
    inner: dict[Expr, Expr] = field(default_factory=dict)
    """Values under a condition, and what counts all rows that pass it, NULL among them."""

    def add(self, expr: Expr | None, moment: Moment) -> None:
        """Ask for a moment of an expression."""
        self.moments.setdefault(self.name(expr), set()).add(moment)

    def name(self, expr: Expr | None) -> Expr | None:
        """One name for what is counted or added up; None: rows."""
        named = None if expr is None else as_number(expr)
        return named if named is None else self.alias.get(named, named)

    def unite(self) -> None:
        """Count the rows of a condition beside a statistic of values under the same condition.

        ``AVG(x) FILTER (WHERE p)`` and ``COUNT(*) FILTER (WHERE p)``: a row that passes p shares
        its total out to x's integers, or to one more where x is NULL; no draw more is needed.
        """
        if self.public:
            return
        found: dict[Expr, list[tuple[bool, Expr]]] = {}
        for expr in self.moments:
            if expr is not None and (branch := _branch(expr)) and self.degree(expr) > 0:
                found.setdefault(branch[0], []).append((branch[1].type.nullable, expr))
        for count, asked in list(self.moments.items()):
            branch = _branch(count)
            if count is None or branch is None or asked != {Moment.COUNT} or self.degree(count):
                continue
            if branch[1].type.nullable or branch[0] not in found:
                continue
            nullable, first = min(found[branch[0]], key=lambda each: each[0])
            if nullable:
                self.inner[first] = count
            else:
                self.alias[count] = first
                self.moments[first] |= self.moments.pop(count)

    def degree(self, expr: Expr) -> int:
        """Highest power of an expression's values that is needed."""
        if expr.type.kind is not Kind.NUMBER or expr.type.lo == expr.type.hi:
            return 0
        moments = self.moments[expr]
        return 2 if Moment.SPREAD in moments else int(moments != {Moment.COUNT})

    def is_family(self, expr: Expr) -> bool:
        """Whether an expression's statistics need a joint part."""
        moments = self.moments[expr]
        if expr in self.clusters:
            return True
        if self.public and not expr.type.nullable:
            return False
        if Moment.SPREAD in moments and self.degree(expr) < 2:
            return False  # all values are equal
        return (
            self.host == expr
            or expr in self.inner
            or len(moments) > 1
            or Moment.MEAN in moments
            or (Moment.SPREAD in moments)
            # how far rounding moves a sum depends on how many values there are
            or (Moment.SUM in moments and off_of(expr) > 0)
        )

    @cached_property
    def public(self) -> bool:
        """Whether the number of rows is public."""
        query = self.query
        fixed = isinstance(query.relation, Scan) and query.relation.table.unit is None
        return fixed and not query.keys and query.neighbours is Neighbours.CHANGE_ONE

    @cached_property
    def host(self) -> Expr | None:
        """The expression off whose family the number of all rows is read; None: none."""
        if None not in self.moments or self.public or self.selects_by_rows:
            return None
        if self.clusters:
            return max(self.clusters.values(), key=len)[0]
        candidates = [
            e
            for e in self.moments
            if e is not None and not self._is_constant_spread(e) and e not in self.inner.values()
        ]
        return min(
            candidates,
            key=lambda e: (self.degree(e) + e.type.nullable, e.type.hi - e.type.lo),
            default=None,
        )

    @cached_property
    def clusters(self) -> dict[Expr, tuple[Expr, ...]]:
        """Expressions with values in disjoint rows, by each of them."""
        groups: list[list[tuple[Expr, Sequence[Facts]]]] = []
        for expr in self.moments:
            if expr is None or self._is_constant_spread(expr) or expr in self.inner.values():
                continue
            # a row that adds 0 to a sum does not reach it; a family counts rows as well
            counted = None in self.moments and not self.public
            plain = not counted and self.is_sum(expr) and expr not in self.inner
            facts = support(self.inner.get(expr, expr), zero=plain)
            fitting = [g for g in groups if all(disjoint(facts, other) for _, other in g)]
            if fitting:
                fitting[0].append((expr, facts))
            else:
                groups.append([(expr, facts)])
        clusters = [tuple(e for e, _ in g) for g in groups if len(g) > 1]
        return {e: cluster for cluster in clusters for e in cluster}

    @cached_property
    def crossed(self) -> dict[Expr, tuple[Expr, Expr]]:
        """Pairs of sums that are measured as shares of a product, by each of the two.

        Only where nothing else is drawn: a draw less would leave more to the others, less to these.
        """
        sums = [e for e in self.moments if e is not None]
        pairs = list(zip(sums[::2], sums[1::2], strict=False))
        counted = None in self.moments
        fits = len(sums) == 2 * len(pairs) and not (counted and len(pairs) > 1)
        fits = fits and self.query.neighbours is Neighbours.ADD_REMOVE and not self.more
        fits = fits and not self.clusters and not self.open
        if not fits or not all(map(self.is_sum, sums)) or not all(crosses(*p) for p in pairs):
            return {}
        return {e: pair for pair in pairs for e in pair}

    def is_sum(self, expr: Expr) -> bool:
        """Whether nothing but the sum of values that differ is asked of an expression."""
        return self.moments[expr] == {Moment.SUM} and self.degree(expr) == 1 and not off_of(expr)

    def _is_constant_spread(self, expr: Expr) -> bool:
        return Moment.SPREAD in self.moments[expr] and self.degree(expr) < 2

    @property
    def selects_by_rows(self) -> bool:
        """Whether rows are counted already, to select keys."""
        return self.open and base(self.query.relation).table.unit is None

    @property
    def open(self) -> bool:
        """Whether keys are selected from the data."""
        return any(k.codes is None for k in self.query.keys)


def _branch(expr: Expr | None) -> tuple[Expr, Expr] | None:
    """The condition and the value of what has a value under one condition only."""
    if not isinstance(expr, Case) or len(expr.branches) != 1:
        return None
    default = expr.default
    empty = isinstance(default, Constant) and default.code is None
    return expr.branches[0] if empty else None
