r"""Statements: every expression in them, and the limits that they keep.

What is read back
-----------------
A relation is followed through the tower of subqueries with, per unit, the most
rows it can have (``rows``), the most values of some columns (``groups``) and the
most rows per value of some columns (``shares``):

* a scan of a table with a unit column has no bound, one of a table whose rows
  are the units has one row;
* a join with a public table multiplies by its fan-out, which is handed in; a
  join of private tables on their units multiplies the bounds of both, or the left one's
  by the rows that share what else is compared;
* rows of a table that belong to units through another are nobody's until they are joined
  with that table on the declared columns; then they have no bound;
* ``row_number() OVER (PARTITION BY unit[, X] ORDER BY O)``, kept up to k, bounds
  rows (per value of X); ``dense_rank()`` bounds the values of O. Kept up to a column that a
  join with one row for each unit brought in, it bounds them by that unit's own value.

Each of these maps a unit's own rows to that unit's own rows, whatever other
units hold, provided that ties in O are between rows that agree in all columns
carried on. So columns that the order does not determine cannot be named above.
A window over anything else, or a private join on anything but units, mixes
units: no later limit undoes that (``mixed``).

What is remembered
------------------
A statement is followed from its innermost SELECT outward. Where that is a base, the first
steps are a function of the base's words, the dialect and what is declared of its
table: nothing else has been seen yet. They are taken once, and a later statement goes
on from where they led. No literal is left out of the words.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

from discreet._dataclass import dataclass
from discreet.verify._domain import INF, INTEGERS, Number, Value, column
from discreet.verify._functions import Functions
from discreet.verify._read import From, Join, Node, Select, Unproven
from discreet.verify._readings import Reading, times
from discreet.verify._rules import NOTHING, Scope
from discreet.verify._spark import Spark
from discreet.verify._walk import aggregates, all_of, sums

Tokens = frozenset[int]
Columns = tuple[tuple[str, str, Value], ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A source table: physical columns with their native types, and whom rows belong to.

    Attributes
    ----------
    columns
        Native type of each physical column, by its name.
    unit
        Column that tells units apart; None where each row is a unit.
    public
        Whether the table holds nothing private.
    computed
        Whether reading it computes something that may fail on a row (a view, a foreign
        table): then it is read behind a fence, or not at all.
    owner
        Where rows belong to units through another table: column, that table, its key.
    """

    columns: dict[str, str]
    unit: str | None = None
    public: bool = False
    computed: bool = False
    owner: tuple[str, str, str] | None = None


@dataclass(frozen=True, slots=True)
class _Rank:
    """A window's number of a row: what it counts, per what, in what order."""

    function: str
    per: Tokens
    order: Tokens
    places: Number = INF
    """How many values that what it counts per can take."""


class _Rows(NamedTuple):
    """A relation: its columns, and what holds for each unit's rows in it."""

    columns: tuple[tuple[str, str, Value], ...]
    private: bool = False
    by_row: bool = False
    known: bool = False  # rows without a unit are gone
    certain: bool = False
    mixed: bool = False
    grouped: bool = False
    rows: Number = INF
    groups: tuple[tuple[int, Tokens], ...] = ()
    shares: tuple[tuple[Number, Tokens], ...] = ()
    identities: tuple[Tokens, ...] = ()
    ranks: tuple[tuple[int, _Rank], ...] = ()
    stray: bool = False  # rows are not yet given to the units that own them
    own: Tokens = frozenset()  # the same in all rows of a unit
    scaled: tuple[tuple[int, Tokens], ...] = ()  # values of the tokens are as few as a column says
    sizes: dict[int, int] = {}  # noqa: RUF012 - never changed, only joined to others


class Statement:
    """Follows one statement."""

    def __init__(
        self,
        dialect: str,
        tables: Mapping[str, Table],
        fanouts: Mapping[tuple[str, frozenset[str]], int],
    ) -> None:
        self.rules = Spark(dialect) if dialect == "spark" else Functions(dialect)
        self.dialect = dialect
        self.tables = tables
        self.fanouts = fanouts
        self.parts: dict[int, Tokens] = {}
        self.origins: dict[int, tuple[str, str]] = {}
        self.sums: set[int] = set()
        self.units: set[int] = set()
        self.next = 0

    def token(self) -> int:
        self.next += 1
        return self.next

    def begin(self, base: Select) -> tuple[_Rows, list[Value] | None]:
        """Take the first steps of a statement, as far as its base."""
        inner = base.source.source
        name = inner.source.source if isinstance(inner, Select) else None
        table = self.tables.get(name) if isinstance(name, str) else None
        if not isinstance(name, str) or table is None:
            raise Unproven("a table that was not declared")
        columns = tuple(table.columns.items())
        declared = (table.unit, table.public, table.computed, table.owner)
        start, rows, group = _start(base, self.dialect, name, columns, declared)
        self.next, self.rules.work = start.next, start.rules.work
        self.parts, self.origins = start.parts.copy(), start.origins.copy()
        self.sums, self.units = start.sums.copy(), start.units.copy()
        return rows, group

    def readings(self, select: Select) -> tuple[Reading, ...]:
        """Prove the statement and read its result columns back."""
        rows, group, outputs = self.select(select)
        if group is None:
            raise Unproven("the statement adds nothing up")
        keys = [v for v in group if not v.constant]
        cells = self.cells(rows, group)
        tokens = self.closure(keys)
        most, share = self.bounds(rows, keys, tokens)
        total = self.total(rows)
        readings = []
        for (node, _), v in zip(select.items, outputs, strict=True):
            if not aggregates(node):
                readings.append(Reading(key=True))
                continue
            if v.type not in INTEGERS and not v.whole:
                raise Unproven("a result that is not an integer")
            if v.per is None or v.null or not rows.private or rows.mixed or rows.stray:
                readings.append(Reading(key=False, lo=-INF, hi=INF))
                continue
            # rows that are groups come and go with the rows below them
            certain = rows.certain and not rows.grouped and "null" not in v.form
            few, upto = share, self.upto(rows, select, outputs)
            if v.form[:1] == ("distinct",):
                few = min(share, v.form[1], rows.sizes.get(v.form[2], INF))
            readings.append(Reading(False, *v.per, total, most, few, cells,
                                    v.form[:1] == ("once",), certain, upto))  # fmt: skip
        return tuple(readings)

    def upto(self, rows: _Rows, select: Select, outputs: list[Value]) -> int | None:
        """Key whose value bounds the values of all others that a unit has."""
        pairs = zip(select.items, outputs, strict=True)
        keys = [(i, v) for i, ((node, _), v) in enumerate(pairs) if not aggregates(node)]
        for bound, order in rows.scaled:
            rest = _all([v for _, v in keys if v.id != bound])
            places = [i for i, v in keys if v.id == bound]
            if places and self.determined(rest, order | frozenset(self.units) | rows.own):
                return places[0]
        return None

    # what determines what

    def closure(self, values: list[Value]) -> Tokens:
        """Tokens that can be computed back from values: their own and those of packed fields."""
        tokens = {v.id for v in values} | {f.id for v in values for f in v.fields}
        return frozenset(t for t in tokens if t is not None)

    def determined(self, tokens: Tokens, basis: Tokens) -> bool:
        return all(t in basis or (t in self.parts and self.determined(self.parts[t], basis))
                   for t in tokens)  # fmt: skip

    def roots(self, tokens: Tokens) -> set[int]:
        """Columns of tables, windows and sums that tokens are made of."""
        columns: set[int] = set()
        for t in tokens:
            columns |= self.roots(self.parts[t]) if t in self.parts else {t}
        return columns

    def impure(self, tokens: Tokens) -> bool:
        """Whether something other than adding up was done with sums."""
        return bool(self.sums) and not self.sums.isdisjoint(self.roots(tokens))

    def pure(self, node: Node, scope: Scope) -> bool:
        """Whether an aggregate adds up rows, or sums of rows, and nothing made of sums."""
        name, argument = node.args
        if argument.kind == "star":
            return True
        v = self.rules.value(argument, scope, NOTHING)
        return (name == "sum" and v.per is not None) or not self.impure(v.dep)

    def cells(self, rows: _Rows, group: list[Value]) -> Number:
        cells: Number = 1
        for v in group:
            size: Number = INF
            if len(v.fields) > 1 and v.present:
                size = prod(min(f.hi - f.lo + 1, rows.sizes.get(f.id or 0, INF)) for f in v.fields)
            elif v.type in INTEGERS:
                size = v.hi - v.lo + 1 + (not v.present)
            cells *= min(size, rows.sizes.get(v.id or 0, INF))
        return cells

    def bounds(self, rows: _Rows, keys: list[Value], tokens: Tokens) -> tuple[Number, Number]:
        """Groups of a unit, and rows in one of them."""
        unit = frozenset(self.units) | rows.own
        targets = frozenset().union(*(v.dep for v in keys))
        groups = [k for k, order in rows.groups if self.determined(targets, order | unit)]
        shares = [k for k, per in rows.shares if self.determined(per, tokens | unit)]
        return min(groups, default=INF), min(shares, default=INF)

    def total(self, rows: _Rows) -> Number:
        """Most rows of a unit: stated, or groups times what each of them holds."""
        unit = frozenset(self.units)
        products = [
            times(groups, share)
            for groups, order in rows.groups
            for share, per in rows.shares
            if self.determined(per, order | unit)
        ]
        return min([rows.rows, *products])

    # relations

    def select(self, select: Select) -> tuple[_Rows, list[Value] | None, list[Value]]:
        """Relation that a SELECT makes; its groups, if it adds up; its outputs."""
        fenced = self.rules.fence(select)
        rows = self.source(select.source, fenced=fenced)
        for join in select.joins:
            rows = self.joined(rows, join)
        scope = Scope(rows.columns)
        if select.where is not None and not fenced:
            before, rows = rows.columns, self.filtered(rows, select.where, scope)
            scope = scope if rows.columns is before else Scope(rows.columns)
        group, added = None, {node for node, _ in select.items if aggregates(node)}
        if select.group or added:
            group = self.group(select, scope, added)
            rows = rows._replace(mixed=rows.mixed or self.impure(_all(group)))
        own = group is not None and self.own(rows, group)
        fields: list[tuple[str, str, Value]] = []
        outputs: list[Value] = []
        ties: list[tuple[Value, Tokens]] = []
        for node, name in select.items:
            if node.kind == "star":
                fields += [c for c in rows.columns if node.args[0] in (None, c[0])]
                continue
            if node.kind == "window":
                rows, v, decided = self.window(rows, node, scope)
                ties += [(v, decided)] if decided is not None else []
            else:
                v = self.rules.value(node, scope, NOTHING)
                summed = node in added
                if summed and not all(self.pure(part, scope) for part in sums(node)):
                    v = v._replace(per=None)
                if summed and own:
                    v = self.folded(v)
                v = self.bound(v, summed=summed and not own)
            outputs.append(v)
            fields.append(("", name or f"?{len(fields)}", v))
        for rank, decided in ties:
            # rows that tie agree in what is left, so which of them is which does not matter
            fields = [c for c in fields if c[2] is rank or self.determined(c[2].dep, decided)]
        if len({name for _, name, _ in fields}) != len(fields):
            raise Unproven("two columns of one name")
        return rows._replace(columns=tuple(fields)), group, outputs

    def own(self, rows: _Rows, group: list[Value]) -> bool:
        """Whether each group holds rows of one unit only, so that sums are that unit's own."""
        single = any(v.unit for v in group) and rows.known and rows.private
        return single and not (rows.by_row or rows.grouped or rows.mixed)

    def folded(self, v: Value) -> Value:
        """Value that one unit's rows were added up to: new, and no sum over units."""
        token = self.token()
        return v._replace(id=token, dep=frozenset((token,)), per=None, form=(), fields=(),
                          literal=False, unit=False)  # fmt: skip

    def per_unit(self, rows: _Rows, group: list[Value], columns: Columns) -> _Rows:
        """Relation with one row for each unit and value of the other keys."""
        others = [v for v in group if not v.unit]
        most = min(self.total(rows), self.cells(rows, others))
        return _Rows(columns, private=True, known=True, rows=most, sizes=rows.sizes,
                     shares=((1, _all(others)),),
                     identities=(self.closure(others),))  # fmt: skip

    def bound(self, v: Value, *, summed: bool) -> Value:
        """Value of a named expression: a token of its own, unless it is an image or a constant."""
        if summed:
            token = self.token()
            self.sums.add(token)
            return v._replace(id=token, dep=frozenset((token,)), literal=False)
        if v.constant:
            return v._replace(literal=False)
        if v.id is not None:
            return v._replace(dep=frozenset((v.id,)), literal=False)
        token = self.token()
        self.parts[token] = v.dep
        return v._replace(id=token, dep=frozenset((token,)), literal=False)

    def group(self, select: Select, scope: Scope, added: set[Node]) -> list[Value]:
        names = {name: node for node, name in select.items if name}
        for node in select.group:
            # a bare number would count columns
            if node.kind == "cast" and self.rules.value(node, scope, NOTHING).constant:
                continue
            if node.kind != "column" or names.get(node.args[1], node) is not node:
                raise Unproven("grouping by other than a column of the source")
        for node, _ in select.items:
            if node not in added and node not in select.group:
                raise Unproven("an output that is neither a key nor added up")
        return [self.rules.value(node, scope, NOTHING) for node in select.group]

    def source(self, source: From, *, fenced: bool = False) -> _Rows:
        alias = source.alias
        if isinstance(source.source, Select):
            if source.source.base and not self.next:
                rows, group = self.begin(source.source)
            else:
                rows, group, _ = self.select(source.source)
            columns = tuple((alias, name, v) for _, name, v in rows.columns)
            if group is None:
                return rows._replace(columns=columns)
            if self.own(rows, group):
                return self.per_unit(rows, group, columns)
            # what a unit adds to sums is counted by its rows below; nothing else survives
            return _Rows(columns, rows.private, rows.by_row, rows.known, rows.certain,
                         rows.mixed or rows.stray, grouped=True, rows=rows.rows)  # fmt: skip
        table = self.tables.get(source.source)
        if table is None:
            raise Unproven("a table that was not declared")
        if table.computed and not fenced:
            raise Unproven("a view is read without a fence, so its own filter may come too late")
        fields: list[tuple[str, str, Value]] = []
        for name, native in table.columns.items():
            token = self.token()
            self.origins[token] = (source.source, name)
            unit = name == table.unit and not table.public
            if unit:
                self.units.add(token)
            fields.append((alias, name, column(native, self.dialect, token, unit=unit)))
        by_row = table.unit is None and table.owner is None and not table.public
        return _Rows(tuple(fields), not table.public, by_row, known=by_row, certain=by_row,
                     rows=1 if by_row else INF, stray=table.owner is not None)  # fmt: skip

    def filtered(self, rows: _Rows, where: Node, scope: Scope) -> _Rows:
        """Relation after WHERE: its rows are fewer, though it guards no evaluation."""
        condition = self.rules.truth(where, scope, NOTHING)
        rows = rows._replace(certain=False, mixed=rows.mixed or self.impure(condition.dep))
        ranks = dict(rows.ranks)
        for part in all_of(where):
            if part.kind == "not" and part.args[0].kind == "isnull":
                v = self.rules.value(part.args[0].args[0], scope, NOTHING)
                rows = rows._replace(known=rows.known or v.unit or v.form == ("unit",))
                rows = self.present(rows, v)
            if part.kind == "in":
                v = self.rules.value(part.args[0], scope, NOTHING)
                rows = self.sized(rows, v, len(set(part.args[1:])))
            if part.kind != "compare":
                continue
            v, k = (self.rules.value(n, scope, NOTHING) for n in part.args[1:])
            rows = self.scaled(rows, part.args[0], v, k)
            if not (k.constant and k.type in INTEGERS and k.lo == k.hi):
                continue
            rank = ranks.get(v.id or 0) if v.form == ("rank",) else None
            if rank is not None and part.args[0] in ("<", "<=", "="):
                most = 1 if part.args[0] == "=" else max(0, int(k.lo) - (part.args[0] == "<"))
                rows = self.limited(rows, rank, most)
        for node, fact in self.rules.facts(where, scope, NOTHING, "true").items():
            v = self.rules.value(node, scope, NOTHING)
            if fact.known:
                rows = self.present(rows, v)
            if v.type in INTEGERS:
                lo, hi = max(fact.lo, v.lo), min(fact.hi, v.hi)
                rows = self.sized(rows, v, max(0, int(hi) - int(lo) + 1))
        return rows

    def present(self, rows: _Rows, v: Value) -> _Rows:
        """Relation whose rows all have a value in some column."""
        if v.id is None or v.present:
            return rows
        columns = ((a, n, x._replace(sure=True) if x is v else x) for a, n, x in rows.columns)
        return rows._replace(columns=tuple(columns))

    def sized(self, rows: _Rows, v: Value, size: int) -> _Rows:
        """Relation in which a column takes at most so many values."""
        if v.id is None:
            return rows
        limit = rows.sizes.get(v.id, size)
        return rows._replace(sizes=rows.sizes | {v.id: min(size, limit)})

    def scaled(self, rows: _Rows, operator: str, v: Value, k: Value) -> _Rows:
        """Relation in which a unit has as many values as a column of its own says."""
        rank = dict(rows.ranks).get(v.id or 0) if v.form == ("rank",) else None
        if rank is None or operator != "<=" or rank.function != "dense_rank" or k.id is None:
            return rows
        if rows.mixed or not self.determined(frozenset((k.id,)), rows.own):
            return rows
        return rows._replace(scaled=(*rows.scaled, (k.id, rank.order)))

    def limited(self, rows: _Rows, rank: _Rank, most: int) -> _Rows:
        if not rows.private or rows.mixed:
            return rows
        if rank.function == "dense_rank":
            return rows._replace(groups=(*rows.groups, (most, rank.order)))
        if rank.per:
            shares = (*rows.shares, (most, rank.per))
            return rows._replace(shares=shares, rows=min(rows.rows, most * rank.places))
        return rows._replace(rows=min(rows.rows, most))

    def window(self, rows: _Rows, node: Node, scope: Scope) -> tuple[_Rows, Value, Tokens | None]:
        """Relation beside a rank, the rank, and what the order decides where it is not total."""
        function, partition, order = node.args
        if function not in ("row_number", "dense_rank"):
            raise Unproven(f"window {function}")
        per = [self.rules.value(n, scope, NOTHING) for n in partition]
        by = [self.rules.value(n, scope, NOTHING) for n in order]
        token = self.token()
        kind, most = self.rules.rank
        v = Value(kind, 1, most, null=False, whole=True, id=token, dep=frozenset((token,)),
                  form=("rank",))  # fmt: skip
        if not rows.private:
            return rows, v, None
        others = [x for x in per if not x.unit]
        if len(others) == len(per) or not rows.known or rows.by_row or rows.grouped:
            return rows._replace(mixed=True), v, None
        rank = _Rank(function, _all(others), self.closure(by), self.cells(rows, others))
        if function == "dense_rank":
            ranks = rows.ranks if others else (*rows.ranks, (token, rank))
            return rows._replace(ranks=ranks), v, None
        decided = self.closure(per + by)
        total = any(i <= decided for i in rows.identities)
        rows = rows._replace(ranks=(*rows.ranks, (token, rank)),
                       identities=(*rows.identities, self.closure(others) | {token}))  # fmt: skip
        return rows, v, None if total else decided

    def joined(self, left: _Rows, join: Join) -> _Rows:
        right = self.source(join.source)
        scope = Scope(left.columns + right.columns)
        condition = self.rules.truth(join.on, scope, NOTHING)
        others = right.columns
        if join.left:
            others = tuple((a, n, self.optional(v)) for a, n, v in others)
        rows = left._replace(columns=left.columns + others, certain=False,
                       mixed=left.mixed or right.mixed or self.impure(condition.dep),
                       sizes=left.sizes | ({} if join.left else right.sizes),
                       identities=(), ranks=())  # fmt: skip
        if not left.private and not right.private:
            return rows
        if not left.private:
            raise Unproven("a public table joined with a private one")
        pairs = self.equalities(join.on, left, right)
        if left.stray and right.private:
            if join.left or right.stray or not any(self.owns(*pair) for pair in pairs):
                raise Unproven("rows joined with other than the rows that own them")
            return rows._replace(stray=False, known=right.known, rows=INF, shares=())
        if not right.private:
            most = self.fanout([r for _, r in pairs])
        elif any(x.unit and y.unit for x, y in pairs) and not (left.grouped or right.grouped):
            equal = self.closure([y for _, y in pairs]) | frozenset(self.units)
            most = min([right.rows, *(k for k, x in right.shares if self.determined(x, equal))])
            rows = rows._replace(known=rows.known or not join.left)
            if right.rows == 1:  # of each unit one row, so its columns are the unit's
                rows = rows._replace(own=rows.own | {v.id for *_, v in right.columns if v.id})
        else:
            raise Unproven("private tables joined on other than their units")
        most = max(most, 1) if join.left else most
        return rows._replace(rows=times(rows.rows, most), grouped=left.grouped,
                       shares=tuple((times(k, most), x) for k, x in rows.shares))  # fmt: skip

    def owns(self, x: Value, y: Value) -> bool:
        """Whether a column of a table names rows of the other that own its rows."""
        mine, theirs = (self.origins.get(v.id or 0, ("", "")) for v in (x, y))
        table = self.tables.get(mine[0])
        return table is not None and table.owner == (mine[1], *theirs)

    def optional(self, v: Value) -> Value:
        """Value of a row that may have no partner."""
        if v.id is not None:
            return v._replace(null=True, sure=False, unit=False, literal=False)
        token = self.token()
        return v._replace(null=True, sure=False, id=token, dep=frozenset((token,)))

    def equalities(self, on: Node, left: _Rows, right: _Rows) -> list[tuple[Value, Value]]:
        one, two = Scope(left.columns), Scope(right.columns)
        pairs = []
        for part in on.args if on.kind == "and" else (on,):
            if part.kind != "compare" or part.args[0] != "=":
                continue
            for a, b in (part.args[1:], part.args[:0:-1]):
                if a.kind == b.kind == "column" and a.args[0] and b.args[0]:
                    x, y = one.columns.get(a.args), two.columns.get(b.args)
                    if x is not None and y is not None:
                        pairs.append((x, y))
        return pairs

    def fanout(self, keys: list[Value]) -> Number:
        """Most rows of a public table that share the joined columns; infinite if not handed in."""
        roots = [self.roots(v.dep) for v in keys]
        # a key made of two columns fixes neither of them
        pairs = {self.origins[t] for ts in roots if len(ts) == 1 for t in ts if t in self.origins}
        bounds = [
            most for (table, columns), most in self.fanouts.items()
            if columns and {(table, c) for c in columns} <= pairs
        ]  # fmt: skip
        return min(bounds, default=INF)


@lru_cache(256)
def _start(
    base: Select,
    dialect: str,
    name: str,
    columns: tuple[tuple[str, str], ...],
    declared: tuple[Any, ...],
) -> tuple[Statement, _Rows, list[Value] | None]:
    """Follow a base: where a statement stands then, its rows and its groups."""
    statement = Statement(dialect, {name: Table(dict(columns), *declared)}, {})
    rows, group, _ = statement.select(base)
    return statement, rows, group


def _all(values: list[Value]) -> Tokens:
    return frozenset().union(*(v.dep for v in values))
