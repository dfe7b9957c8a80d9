"""Joins as people write them: comma lists, parents before children, equal columns.

``FROM visits v, patients p WHERE v.pid = p.pid`` is the join that it means: the equation
moves from WHERE to ON. Inner joins commute; so, of tables that own each other's rows, the one whose
rows are the finest comes first, and each row then finds its owner.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from discreet import policy as pol
from discreet._dataclass import dataclass, replace
from discreet._text import written
from discreet.errors import QueryError, UnknownNameError, UnsupportedQueryError
from discreet.plan import Expr, Kind, Scan, Scope, base, build, expr, names_rows_of
from discreet.sql._text import column_of, identifier, is_unit, refuse, table_of
from discreet.sql._walk import all_of, set_tests, tests_of, under

# --- the shape of FROM ---------------------------------------------------------------------


@dataclass(frozen=True)
class _Item:
    """A table of FROM, and what is known of its columns."""

    node: exp.Expr
    table: pol.Table | None

    @property
    def alias(self) -> str:
        return str(self.node.alias_or_name).casefold()

    def has(self, column: str) -> bool:
        if self.table is None:
            return False
        names = [*self.table.columns, *([self.table.unit] if self.table.unit else [])]
        return column.casefold() in {n.casefold() for n in names}

    @property
    def depth(self) -> int:
        """How many tables own the rows, one above the other."""
        steps, table = 0, self.table
        while table is not None and table.owner is not None:
            steps, table = steps + 1, table.owner.above
        return steps


def arranged(root: exp.Select, policy: pol.Policy) -> exp.Select:
    """Write all joins with ON, in place, and children before the tables that own them."""
    for select in all_of(root, exp.Select):
        start, joins = select.args.get("from_"), select.args.get("joins")
        if start is None or not joins:
            continue
        items = [_Item(n, table_of(policy, n)) for n in (start.this, *(j.this for j in joins))]
        _write_on(select, joins, items)
        _move_filters(select, joins)
        _narrow(joins, items)
        _reorder(select, start, joins, items)
    return root


def _write_on(select: exp.Select, joins: list[exp.Join], items: list[_Item]) -> None:
    """Move equations between tables from WHERE to the joins that have no ON."""
    where = select.args.get("where")
    for place, join in enumerate(joins, 1):
        bare = not any(join.args.get(k) for k in ("on", "using", "side", "method"))
        if not bare or join.args.get("kind") not in (None, "CROSS") or where is None:
            continue
        parts = tests_of(where)
        before, own = items[:place], items[place]
        equations = [p for p in parts if _between(p, own, before)]
        if not equations:
            continue
        join.set("kind", None)
        join.set("on", exp.and_(*equations))
        set_tests(select, [p for p in parts if p not in equations])
        where = select.args.get("where")


def _move_filters(select: exp.Select, joins: list[exp.Join]) -> None:
    """Move what an inner join says besides equations of columns from ON to WHERE."""
    for join in joins:
        on = join.args.get("on")
        if on is None or join.args.get("side") or join.args.get("kind") not in (None, "", "INNER"):
            continue
        equal, rest = _parted(on)
        if rest and equal:
            join.set("on", exp.and_(*equal))
            select.where(*(p.copy() for p in rest), copy=False)


def _parted(on: exp.Expr) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """Equations of columns in a condition, and all else in it."""
    parts = [p.unnest() for p in tests_of(on.unnest())]
    rest = [p for p in parts if _sides(p) is None]
    return [p for p in parts if p not in rest], rest


def _narrow(joins: list[exp.Join], items: list[_Item]) -> None:
    """Read conditions of a LEFT JOIN that are about its private table alone as its WHERE."""
    for join, item in zip(joins, items[1:], strict=True):
        on, table = join.args.get("on"), item.table
        if on is None or table is None or table.public or join.args.get("side") != "LEFT":
            continue
        equal, rest = _parted(on)
        columns = [c for p in rest for c in p.find_all(exp.Column)]
        if not rest or not equal or any(_whose(c, items) != item for c in columns):
            continue
        inner = exp.select("*").from_(item.node.copy()).where(*(p.copy() for p in rest))
        join.set("this", under(inner, item.node.alias_or_name))
        join.set("on", exp.and_(*equal))


def _between(part: exp.Expr, own: _Item, before: list[_Item]) -> bool:
    """Whether a condition equates a column of a table with one of the tables before it."""
    sides = _sides(part.unnest())
    if sides is None:
        return False
    whose = [_whose(s, [*before, own]) for s in sides]
    return own in whose and any(item in before for item in whose)


def _sides(part: exp.Expr) -> tuple[exp.Column, exp.Column] | None:
    if not isinstance(part, exp.EQ):
        return None
    left, right = part.this, part.expression
    return (left, right) if isinstance(left, exp.Column) and isinstance(right, exp.Column) else None


def _whose(column: exp.Column, items: list[_Item]) -> _Item | None:
    """The table of FROM that a column belongs to, where that is certain."""
    alias = (identifier(column.args.get("table")) or "").casefold()
    owners = [i for i in items if (i.alias == alias if alias else i.has(column.name))]
    return owners[0] if len(owners) == 1 else None


def _reorder(
    select: exp.Select, start: exp.From, joins: list[exp.Join], items: list[_Item]
) -> None:
    """Let the table whose rows are the finest come first, where joins are inner."""
    first = max(items, key=lambda i: i.depth)
    plain = all(not j.args.get("side") and j.args.get("kind") in (None, "", "INNER") for j in joins)
    if first.depth == items[0].depth or not plain:
        return
    edges = [(join, ends) for join, item in zip(joins, items[1:], strict=True)
             if (ends := _ends(join, item, items)) is not None]  # fmt: skip
    order = [first]
    chain: list[exp.Join] = []
    while len(edges) == len(joins) > len(chain):
        ready = [e for e in edges if len([i for i in e[1] if i in order]) == len(e[1]) - 1]
        if not ready:
            return
        join, ends = ready[0]
        edges = [e if e is not ready[0] else (join, ()) for e in edges]
        (new,) = (i for i in ends if i not in order)
        chain.append(exp.Join(this=new.node.copy(), on=join.args.get("on"),
                             using=join.args.get("using")))  # fmt: skip
        order.append(new)
    if len(chain) == len(joins):
        start.set("this", first.node.copy())
        select.set("joins", chain)


def _ends(join: exp.Join, item: _Item, items: list[_Item]) -> tuple[_Item, ...] | None:
    """The two tables that a join connects."""
    if using := join.args.get("using"):
        others = [i for i in items if i is not item and all(i.has(u.name) for u in using)]
        return (others[0], item) if others else None
    on = join.args.get("on")
    columns = [] if on is None else list(on.find_all(exp.Column))
    whose = [_whose(c, items) for c in columns]
    pair = tuple(i for i in items if i in whose)
    return pair if len(pair) == 2 and None not in whose else None


# --- what a join compares ------------------------------------------------------------------


def parts_of(join: exp.Join, example: str | None) -> list[tuple[exp.Column, exp.Column]]:
    """Pairs of columns that a join equates; of USING both sides are the same name."""
    if using := join.args.get("using"):
        return [(exp.column(u.copy()), exp.column(u.copy())) for u in using]
    on = join.args.get("on")
    if on is None:
        what = "CROSS JOIN" if join.args.get("kind") == "CROSS" else "a join without ON or USING"
        raise refuse(what, example)
    pairs = [_sides(part.unnest()) for part in tests_of(on.unnest())]
    if None in pairs:
        raise refuse("a join on anything but equal columns", example)
    return [sides for sides in pairs if sides is not None]


def _ours_first(
    sides: tuple[exp.Column, exp.Column], alias: str, example: str | None = None
) -> tuple[exp.Column, exp.Column]:
    aliases = [(identifier(s.args.get("table")) or "").casefold() for s in sides]
    theirs = [s for s, n in zip(sides, aliases, strict=True) if n == alias.casefold()]
    if len(theirs) != 1:
        raise QueryError("each join condition compares both tables, by their names", hint=example)
    return (sides[1], sides[0]) if theirs[0] is sides[0] else sides


def public_pairs(scope: Scope, public: Scan, alias: str, join: exp.Join) -> list[tuple[Expr, str]]:
    """Columns that a join with a public table compares."""
    columns = {c.casefold(): c for c in public.schema}
    shared = [c for s in scope.sources for c in s.columns if c.casefold() in columns]
    on = shared[0] if shared else "region"
    example = f"ON {scope.sources[0].alias}.{on} = {alias}.{on}"
    pairs = []
    for sides in parts_of(join, example):
        ours, theirs = sides if join.args.get("using") else _ours_first(sides, alias, example)
        if theirs.name.casefold() not in columns:
            raise build.unknown("column", theirs.name, list(public.schema))
        pairs.append((column_of(scope, ours), columns[theirs.name.casefold()]))
    return pairs


def open_text(public: Scan, pairs: Sequence[tuple[Expr, str]]) -> Scan:
    """Read a public column as open text where open text is compared with it."""
    table, texts = public.table, {r for left, r in pairs if left.type.kind is Kind.TEXT}
    listed = {
        n: pol.Text(n, longest=pol.MAX_LENGTH)
        for n, c in table.columns.items()
        if n in texts and isinstance(c, pol.Category) and c.other is None
        and all(isinstance(v, str) for v in c.values)
    }  # fmt: skip
    return Scan(replace(table, columns={**table.columns, **listed})) if listed else public


def join_private(scope: Scope, other: Scope, join: exp.Join) -> Scope:
    """Join another private relation, on the unit or on a key that one unit alone has."""
    alias = other.sources[0].alias
    if scope.unit is None or other.unit is None:
        raise UnsupportedQueryError(
            f"{build.quote(alias)} is private too: private tables are joined on their "
            "units, and one of them has none",
            hint="both tables name their unit in the policy",
        )
    same, on = False, []
    try:
        for sides in parts_of(join, None):
            ours, theirs = sides if join.args.get("using") else _ours_first(sides, alias)
            pair = _pair(scope, ours, other, theirs)
            same = same or pair is None or same_rows(scope, pair[0], other, pair[1])
            on += [] if pair is None else [pair]
    except UnknownNameError:
        raise
    except QueryError:
        same = False  # of whatever else is wrong, this is said first
    if not same:
        raise UnsupportedQueryError(
            f"{build.quote(alias)} is private too: joined on anything but the unit, one "
            f"person's rows would multiply another's; what works is {_example(scope, other)}"
        )
    return scope.join_unit(other, "left" if join.args.get("side") else "inner", on)


def _example(scope: Scope, other: Scope) -> str:
    """The condition that works: on the unit, or on the key by which one owns the other."""
    mine, theirs = base(scope.relation).table, base(other.relation).table
    ours, alias = scope.sources[0].alias, other.sources[0].alias
    left, right = str(mine.unit), str(theirs.unit)
    if mine.owner is not None and mine.owner.name == theirs.name:
        left, right = mine.owner.column, str(theirs.key)
    elif theirs.owner is not None and theirs.owner.name == mine.name:
        left, right = str(mine.key), theirs.owner.column
    return f"ON {written(ours)}.{written(left)} = {written(alias)}.{written(right)}"


def _pair(
    scope: Scope, ours: exp.Column, other: Scope, theirs: exp.Column
) -> tuple[expr.Column, expr.Column] | None:
    """Columns that are equated; None for the units."""
    units = is_unit(scope, ours), is_unit(other, theirs)
    if all(units):
        return None
    if any(units):
        raise UnsupportedQueryError("the join compares the unit with another column")
    left, right = column_of(scope, ours), column_of(other, theirs)
    if not isinstance(left, expr.Column) or not isinstance(right, expr.Column):
        raise UnsupportedQueryError("a join needs plain columns")
    return left, right


def same_rows(scope: Scope, mine: Expr, other: Scope, theirs: Expr) -> bool:
    """Whether columns name rows of the same table, so that what is equal is one unit's."""
    if not (isinstance(mine, expr.Column) and isinstance(theirs, expr.Column)):
        return False
    rows = names_rows_of(scope.relation, mine.name)
    return rows is not None and rows == names_rows_of(other.relation, theirs.name)
