"""What a question can see: named columns over a relation, and what its WHERE proves.

Guarantee
---------
A :class:`Scope` hands out two views of its columns. *Plain* columns have the
policy's bounds; conditions are built from them. *Narrowed* columns stand behind a
guard that moves them into the bounds that WHERE proves; keys and statistics are
built from those. A guard changes nothing on rows that pass WHERE, and its bounds
hold on all rows. So it does not matter which rows an engine computes a key for,
nor in which order it tests conditions: both engines do so on rows that WHERE
excludes. What is not guarded is that a value is not NULL, which no arithmetic
minds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final

from discreet import policy as pol
from discreet._dataclass import dataclass, field, replace
from discreet._exact import show
from discreet._recent import Recent
from discreet.errors import QueryError, UnknownNameError, UnsupportedQueryError
from discreet.plan._build import conjunction, nearest, quote, unknown
from discreet.plan._expr import (
    Capped,
    Column,
    Constant,
    Expr,
    Guard,
    IsNull,
    columns_of,
    plain_column,
)
from discreet.plan._facts import Facts, Range, conclude, facts, is_and
from discreet.plan._joins import JoinPublic, JoinUnit, bounded, names_rows_of, rows_let_in
from discreet.plan._normal import truth
from discreet.plan._per_unit import Fold, FoldKind, PerUnit
from discreet.plan._relation import (
    Filter,
    Key,
    LimitRows,
    Relation,
    Scan,
    base,
)
from discreet.plan._spans import Values, image, rising
from discreet.plan._types import Kind, Type

MAX_KEYS: Final = 100_000
"""Public keys of one grouping expression."""
_MOST_TRIED: Final = 10_000
"""Possible values up to which a key is narrowed to those that its column can give."""
_FEW_STEPS: Final = 2_000


_SCANS: Final[Recent[int, tuple[pol.Table, Scan, Mapping[str, Expr]]]] = Recent(64)
"""Scans of tables and their columns, by the tables' places in memory, which what is kept keeps."""


def _scanned(table: pol.Table) -> tuple[pol.Table, Scan, Mapping[str, Expr]]:
    scan = Scan(table)
    columns: dict[str, Expr] = {name: Column(name, t) for name, t in scan.schema.items()}
    return table, scan, MappingProxyType(columns)


Leaf = Callable[[Column], Expr]


def rebuild(expr: Expr, leaf: Leaf) -> Expr:
    """Replace every column of an expression."""
    if isinstance(expr, Column):
        return leaf(expr)
    if not expr.children:
        return expr
    changes: dict[str, Any] = {
        name: _rebuilt(getattr(expr, name), leaf) for name in expr.__match_args__
    }
    return replace(expr, **changes)


def _rebuilt(value: object, leaf: Leaf) -> object:
    if isinstance(value, Expr):
        return rebuild(value, leaf)
    if isinstance(value, tuple) and any(isinstance(v, Expr | tuple) for v in value):
        return tuple(_rebuilt(v, leaf) for v in value)
    return value


@dataclass(frozen=True)
class Source:
    """One table of FROM: its alias and what its column names mean."""

    alias: str
    columns: Mapping[str, Expr]
    unit: str | None = None  # what the unit is called in a joined private table
    left: bool = False  # whether its rows may be missing


class _Seen(Mapping[str, Expr]):
    """Columns with others in the place of their leaves; each is built when it is asked for."""

    def __init__(self, columns: Mapping[str, Expr], leaf: Leaf) -> None:
        self._columns, self._leaf = columns, leaf
        self._known: dict[str, Expr] = {}

    def __getitem__(self, name: str) -> Expr:
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = rebuild(self._columns[name], self._leaf)
        return known

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def _no_table(alias: str, aliases: Sequence[str]) -> UnknownNameError:
    """No hint unless the names are alike: another alias in its place would be another question."""
    error = unknown("table", alias, aliases)
    if len(alias) > 2 and nearest(alias, aliases):
        return error
    return UnknownNameError(error.message)


def _names_unit(source: Source, name: str, table: str) -> bool:
    """Whether a name, of a joined table, is that table's unit."""
    own = source.unit is not None and source.unit.casefold() == name.casefold()
    return own and source.alias.casefold() == table.casefold()


@dataclass(frozen=True)
class Scope:
    """Columns over a relation, by table alias and name; names ignore case.

    Examples
    --------
    >>> from discreet.policy import Integer, Table
    >>> from discreet.plan import build
    >>> scope = Scope.of(Table("people", [Integer("age", 0, 115)]))
    >>> age = scope.column("Age")
    >>> adults = scope.where(build.compare(">=", age, build.number(Fraction(18))))
    >>> print(adults.narrowed().column("age").type)
    number 18 to 115
    """

    relation: Relation
    sources: tuple[Source, ...]
    ranges: Facts = field(default_factory=dict)
    merged: frozenset[str] = frozenset()  # names equal in all tables, by a join
    caps: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Bounds of counts and sums per unit where they are keys or added up."""

    def __post_init__(self) -> None:
        _ = self.relation.weight

    @classmethod
    def of(cls, table: pol.Table, alias: str | None = None) -> Scope:
        """See all columns of one table of the policy."""
        _, scan, columns = _SCANS(id(table), lambda: _scanned(table))
        return cls(scan, (Source(alias or table.name, columns),))

    @property
    def unit(self) -> str | None:
        """Unit column of the private table, None when a row is a unit."""
        return base(self.relation).table.unit

    def is_unit(self, name: str, table: str | None = None) -> bool:
        """Whether a name means the privacy unit, and not a column that a subquery calls so."""
        first, folded = self.sources[0], name.casefold()
        joined = [s for s in self.sources[1:] if not s.left]
        if self.unit is None:
            return False
        if table is not None and table.casefold() != first.alias.casefold():
            # after an inner join on the unit both tables name the same one
            return any(_names_unit(s, name, table) for s in joined)
        if folded != self.unit.casefold():
            plain = folded in {n.casefold() for s in self.sources for n in s.columns}
            own = table is not None or plain
            return not own and any(_names_unit(s, name, s.alias) for s in joined)
        expr = next((first.columns[n] for n in first.columns if n.casefold() == folded), None)
        column = None if expr is None else plain_column(expr)
        return expr is None or (column is not None and column.name == self.unit)

    def column(self, name: str, table: str | None = None) -> Expr:
        """Find what a column name means; refuse unknown and ambiguous names."""
        sources = self.sources
        if table is not None:
            sources = tuple(s for s in sources if s.alias.casefold() == table.casefold())
            if not sources:
                raise _no_table(table, [s.alias for s in self.sources])
        folded = name.casefold()
        matches = [s.columns[n] for s in sources for n in s.columns if n.casefold() == folded]
        if len(matches) == 1 or (matches and folded in self.merged):
            return matches[0]
        if matches:
            aliases = [s.alias for s in sources if folded in {n.casefold() for n in s.columns}]
            raise QueryError(
                f"column {quote(name)} is in several tables", hint=f"{aliases[0]}.{name}"
            )
        if self.is_unit(name, table):
            raise UnknownNameError(
                f"{quote(name)} is the privacy unit: it can be counted and nothing else",
                hint=f"COUNT(DISTINCT {name})",
            )
        if any(_names_unit(s, name, s.alias) for s in sources[:1]):
            raise QueryError(f"{quote(f'{table}.{name}')} is NULL where a LEFT JOIN finds nothing")
        refused = unknown("column", name, [n for s in sources for n in s.columns])
        refused.missing = name
        raise refused

    def where(self, *conditions: Expr) -> Scope:
        """Keep the rows for which all conditions are true."""
        if not conditions:
            return self
        condition = conjunction(conditions)
        if condition == truth(value=True):
            return self
        relation = self.relation
        for part in condition.args if is_and(condition) else (condition,):
            relation = _tested(relation, part)
        return replace(self, relation=relation, ranges=conclude(condition, self.ranges))

    def narrowed(self) -> Scope:
        """See the columns as WHERE has narrowed them: for keys and statistics only."""

        def leaf(column: Column) -> Expr:
            r, cap = self.ranges.get(column.name), self.caps.get(column.name)
            expr: Expr = column
            if r is not None:
                own = column.of if r.null else column.of.not_null()
                expr = _guarded(replace(column, of=own), r)
            return (
                expr if cap is None or (r is not None and r.hi is not None) else Capped(expr, *cap)
            )

        return self._with(leaf) if self.ranges or self.caps else self

    def assuming(self, condition: Expr) -> Scope:
        """See the columns moved into the range that a true `condition` proves for them.

        For the value of a CASE branch: where the branch is taken, clamping changes
        nothing; elsewhere it keeps the value bounded, whatever an engine evaluates.
        """
        ranges = facts(condition)

        def leaf(column: Column) -> Expr:
            return _guarded(column, ranges.get(column.name, Range()))

        return self._with(leaf)

    def _with(self, leaf: Leaf) -> Scope:
        sources = tuple(replace(s, columns=_Seen(s.columns, leaf)) for s in self.sources)
        return replace(self, sources=sources)

    def project(self, alias: str, columns: Mapping[str, Expr]) -> Scope:
        """See only the named row expressions, as a subquery's reader does."""
        return replace(self, sources=(Source(alias, dict(columns)),))

    def join(
        self,
        public: Scan,
        on: Iterable[tuple[Expr, str]],
        *,
        how: str = "inner",
        fanout: int = 1,
        alias: str | None = None,
    ) -> Scope:
        """Add the columns of a public table's matching rows."""
        name, prefix = self._beside(public, alias)
        pairs = tuple(_joinable(left, right, public) for left, right in on)
        joined = JoinPublic(self.relation, public, pairs, how, fanout, prefix)
        same = {left.casefold() for left, right in pairs if left.casefold() == right.casefold()}
        return self._joined(joined, Source(name, _columns(joined, prefix, public)), same)

    def join_unit(
        self, other: Scope, how: str = "inner", on: Iterable[tuple[Column, Column]] = ()
    ) -> Scope:
        """Add the columns of the same unit's rows in another private relation.

        Rows with the same key there are one row, repeated: one of them is kept.
        """
        source = other.sources[0]
        name, prefix = self._beside(other.relation, source.alias)
        pairs = tuple(_comparable(*pair) for pair in on)
        own, theirs, keys = self.relation, other.relation, tuple(right for _, right in pairs)
        table = base(theirs).table
        if any(names_rows_of(theirs, key) == table.name for key in keys):
            theirs = LimitRows(theirs, 1, keys)
        if theirs.most(frozenset(keys)) != 1:
            # each side is limited first: neither rows nor time grow with what a unit holds
            own, theirs = bounded(own), bounded(theirs)
        joined = JoinUnit(own, theirs, prefix, how, pairs)

        def leaf(column: Column) -> Expr:
            return Column(prefix + column.name, joined.schema[prefix + column.name])

        columns = _Seen(source.columns, leaf)
        ranges = {} if how == "left" else {prefix + n: r for n, r in other.ranges.items()}
        caps = {prefix + n: cap for n, cap in other.caps.items()}
        scope = self._joined(joined, Source(name, columns, other.unit, how == "left"))
        return replace(scope, ranges={**scope.ranges, **ranges}, caps={**scope.caps, **caps})

    def having(
        self, other: Scope, *, where: bool, on: tuple[Column, Column] | None = None
    ) -> Scope:
        """Keep the rows of units that have (or have not) a row in another private relation.

        With `on`, one whose column equals that of the row.
        """
        prefix = f"elsewhere {len(self.relation.nodes)}."
        keys = () if on is None else (("k", on[1]),)
        pairs = () if on is None else ((_comparable(*on)[0], "k"),)
        one = Constant.number(Fraction(1))
        if where:
            there = PerUnit(other.relation, keys, ())
            return replace(self, relation=JoinUnit(self.relation, there, prefix, "inner", pairs))
        counts = PerUnit(other.relation, keys, (("n", Fold(FoldKind.COUNT, one)),))
        joined = JoinUnit(self.relation, counts, prefix, "left", pairs)
        absent = IsNull(Column(prefix + "n", joined.schema[prefix + "n"]))
        return replace(self, relation=Filter(joined, absent))

    def per_unit(
        self,
        alias: str,
        keys: Mapping[str, Expr],
        folds: Mapping[str, Fold],
        condition: Expr | None,
        columns: Mapping[str, Expr],
    ) -> Scope:
        """See one row for each unit and value of the keys, as a grouped subquery's reader does."""
        relation: Relation = PerUnit(self.relation, tuple(keys.items()), tuple(folds.items()))
        ranges: Facts = {}
        if condition is not None:
            relation, ranges = Filter(relation, condition), conclude(condition, {})
        rows = rows_let_in(self.relation)
        caps = {n: cap for n, f in folds.items() if (cap := f.within(rows)) is not None}
        return Scope(relation, (Source(alias, dict(columns)),), ranges, caps=caps)

    def _beside(self, other: Relation, alias: str | None) -> tuple[str, str]:
        """Name of a joined table, and what tells its columns from ours."""
        name = alias or base(other).table.name
        if name.casefold() in {s.alias.casefold() for s in self.sources}:
            hint = f"JOIN {base(other).table.name} AS other …"
            raise QueryError(f"two tables are called {quote(name)}", hint=hint)
        return name, f"{name}." if other.schema.keys() & self.relation.schema.keys() else ""

    def _joined(self, relation: Relation, source: Source, same: Iterable[str] = ()) -> Scope:
        sources = (*self.sources, source)
        return replace(self, relation=relation, sources=sources, merged=self.merged | {*same})

    def together(self, exprs: Sequence[Expr]) -> Values | None:
        """Values that expressions can have together in rows that pass WHERE; None: not known."""
        columns = {c.name: c.of for e in exprs for c in e.columns}
        if not columns or any(t.kind is Kind.TEXT for t in columns.values()):
            return None
        free = not columns.keys() & self.ranges.keys()
        many = len(exprs) == 1 and len(exprs[0].possible) > _MOST_TRIED
        if many and (free or self._by_ends(exprs[0])):
            return None
        ranges = {n: self.ranges.get(n, Range(null=t.nullable)) for n, t in columns.items()}
        rows = tuple((n, ranges[n].listed(t), ranges[n].null) for n, t in columns.items())
        # without WHERE, bounds are mostly those of the type already
        return image(tuple(exprs), rows, _FEW_STEPS) if free else image(tuple(exprs), rows)

    def _by_ends(self, expr: Expr) -> bool:
        """Whether the type of a narrowed expression lists what WHERE allows."""
        ranges = [self.ranges[c.name] for c in expr.columns if c.name in self.ranges]
        return all(r.codes is None for r in ranges) and rising(expr)

    def vague(self, expr: Expr) -> bool:
        """Whether a key may list values that WHERE excludes."""
        ranges = [self.ranges[c.name] for c in expr.columns if c.name in self.ranges]
        if expr.type.kind is Kind.TEXT or not ranges or any(r.vague for r in ranges):
            return any(r.vague for r in ranges)
        plain = plain_column(expr) is not None
        return not plain and not self._by_ends(expr) and self.together([expr]) is None

    def key(self, name: str, expr: Expr, spelling: Callable[[], str] | None = None) -> Key:
        """Make a grouping key with its public codes, in the policy's order.

        Hints name it by its `spelling` in the question.
        """
        t, column = expr.type, plain_column(expr)
        if column is not None and self.unit == column.name:
            raise UnsupportedQueryError(
                f"{quote(column.name)} is the privacy unit: grouping by it would list people",
                hint=f"COUNT(DISTINCT {column.name})",
            )
        r = Range() if column is None else self.ranges.get(column.name, Range())
        if r.codes is not None and not r.codes:
            raise QueryError(f"WHERE excludes every value of {quote(name)}")
        if t.kind is Kind.TEXT:
            return Key(name, expr, None if r.codes is None else tuple(r.codes))
        possible: Sequence[int] = expr.possible
        if column is not None and r.codes is not None:
            possible = r.listed(t)
        elif column is None and (values := self.together([expr])):
            possible = sorted(c for (c,) in values if isinstance(c, int))
        if len(possible) > MAX_KEYS:
            raise UnsupportedQueryError(
                f"{quote(name)} has {len(possible)} possible values, "
                f"at most {MAX_KEYS} can be keys",
                hint=_binned(t, expr, spelling),
            )
        key = Key(name, expr, tuple(possible))
        # bounds and list may contradict each other; then no row passes and one empty key stands
        return key if key.codes else Key(name, expr, (t.lo,))


def _columns(joined: Relation, prefix: str, table: Scan) -> dict[str, Expr]:
    return {c: Column(prefix + c, joined.schema[prefix + c]) for c in table.schema}


def _guarded(column: Column, r: Range) -> Expr:
    t = column.type
    narrow = r.narrow(t)
    return column if (narrow.lo, narrow.hi) == (t.lo, t.hi) else Guard(column, narrow.lo, narrow.hi)


def _tested(relation: Relation, condition: Expr) -> Relation:
    """Filter a relation; below the limits of a join where one side alone decides.

    A limit then chooses among rows that count, as it does for a single table.
    """
    return _sunk(relation, condition) or _filtered(relation, condition)


def _filtered(relation: Relation, condition: Expr) -> Filter:
    if isinstance(relation, Filter):
        return Filter(relation.below, conjunction([relation.condition, condition]))
    return Filter(relation, condition)


def _sunk(relation: Relation, condition: Expr) -> Relation | None:
    """Test a condition on one side of a join of private tables; None if there is no such side."""
    names = columns_of(condition)
    if isinstance(relation, Filter | JoinPublic) and names <= relation.below.schema.keys():
        below = _sunk(relation.below, condition)
        return None if below is None else replace(relation, below=below)
    if not isinstance(relation, JoinUnit):
        return None
    outer = relation.how == "left"
    if names <= relation.below.schema.keys():
        return replace(relation, below=_below_limit(relation.below, condition))
    if names and not outer and names <= {relation.prefix + name for name in relation.other.schema}:
        start = len(relation.prefix)
        own = rebuild(condition, lambda c: replace(c, name=c.name[start:]))
        return replace(relation, other=_below_limit(relation.other, own))
    return None


def _below_limit(side: Relation, condition: Expr) -> Relation:
    if isinstance(side, LimitRows):
        return replace(side, below=_filtered(side.below, condition))
    return _tested(side, condition)


def _joinable(left: Expr, right: str, public: Scan) -> tuple[str, str]:
    """Refuse a join whose codes would not mean the same value on both sides."""
    if not isinstance(left, Column):
        raise UnsupportedQueryError("a join needs a plain column on the private side")
    pair = _comparable(left, Column(right, public.schema[right]))
    other = getattr(public.table.columns[right], "other", None)
    if other in left.type.labels:
        raise UnsupportedQueryError(
            f"{quote(right)} of the public table {quote(public.table.name)} has other = "
            f"{other!r}: values that are not listed would be taken for equal, whatever they are",
            hint=f"in the policy, leave other = {other!r} out of {public.table.name}.{right}",
        )
    return pair


def _comparable(left: Column, right: Column) -> tuple[str, str]:
    a, b = left.type, right.type
    # one list may go on where the other ends: equal codes still are equal values
    common = min(len(a.labels), len(b.labels))
    listed = (common > 0 or not a.labels + b.labels) and a.labels[:common] == b.labels[:common]
    if (a.kind, a.step) != (b.kind, b.step) or not listed:
        raise UnsupportedQueryError(
            f"{quote(left.name)} and {quote(right.name)} are declared differently, so they "
            "cannot be compared in a join",
            hint="in the policy, declare both columns with the same type, values and step "
            "(other = … is left out in the public table)",
        )
    return left.name, right.name


def _binned(t: Type, expr: Expr, spelling: Callable[[], str] | None) -> str | None:
    """A coarser key in the place of one that has too many values."""
    if t.kind not in (Kind.NUMBER, Kind.DATE, Kind.TIMESTAMP):
        return None
    if spelling is not None:
        text = spelling()
    elif isinstance(expr, Column):
        text = expr.name
    else:
        return None
    if t.kind is not Kind.NUMBER:
        return f"DATE_TRUNC('month', {text})"
    width = Fraction(10) ** (len(str(int(t.size * t.step))) - 2)  # at most 101 bins
    return f"BIN({text}, {show(width)})"
