# ruff: noqa: S608 - statements are rendered from the closed plan, identifiers quoted
"""Aggregates to SQL: one text per aggregate, built from the closed plan only.

The text is a tower of subqueries, one or two for each node of the relation:
*scan* (physical columns to codes), *filter*, *join*, *projection*, *limit*, and
the sums on top. All names inside are our own; the source's names occur quoted
in the scan only.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod

from discreet import policy as pol
from discreet._dataclass import dataclass, field, replace
from discreet.engines._dialect import Dialect
from discreet.engines._expressions import Renderer, member
from discreet.engines._ingest import code, raw
from discreet.engines._physical import Field, Physical
from discreet.engines._ranking import Item, Packed, mixed, pack, residue
from discreet.plan import (
    PRIME,
    Aggregate,
    Filter,
    Fold,
    FoldKind,
    JoinPublic,
    JoinUnit,
    Key,
    Kind,
    LimitGroups,
    LimitRows,
    Measure,
    MeasureKind,
    PerUnit,
    Project,
    Relation,
    Scan,
    Type,
    base,
    expr,
)

UNIT = "u"
_FEW = 10_000
"""Most groups of coded keys beside which texts are added up by raw value."""
_FENCE = " OFFSET 0"
"""Keeps what stands above from being evaluated on rows below, where engines heed it (for speed)."""


@dataclass(frozen=True, slots=True)
class Source:
    """A table as an engine sees it: a quoted name and its physical columns."""

    table: str
    columns: Mapping[str, Field]
    computed: bool = False
    """Whether reading it computes something (a view), which may fail on rows that it drops."""

    def rows(self, dialect: Dialect) -> str:
        """Write what is read; of what is computed, all columns behind a fence.

        A filter or join of ours would else be tested before those of the view, and
        the view's own casts then fail, or not, on a row that it leaves out.
        """
        if not self.computed:
            return self.table
        names = ", ".join(dialect.quote(field.name) for field in self.columns.values())
        return f"(SELECT {names or '1 AS r'} FROM {self.table}{dialect.fence}) AS s"


@dataclass(frozen=True, slots=True)
class _Rows:
    """A rendered relation.

    Attributes
    ----------
    body
        SQL text.
    columns
        Identifier (or literal, where every row has the same code) of each plan column.
    unit
        Physical type of the unit column, which is called UNIT; None where a row is a unit.
    """

    body: str
    columns: Mapping[str, str]
    unit: Field | None = None


@dataclass(slots=True)
class _Statement:
    """Renders relations and one aggregate over them, with names that never repeat."""

    dialect: Dialect
    sources: Mapping[str, Source]
    chunk: tuple[int, int] | None = None
    numbers: Iterator[int] = field(default_factory=itertools.count)
    aliases: dict[str, str] = field(default_factory=dict)
    """Columns whose raw values are wanted as well, and the identifiers that hold them."""

    def fresh(self, letter: str) -> str:
        return f"{letter}{next(self.numbers)}"

    def renderer(self, columns: Mapping[str, str]) -> Renderer:
        return Renderer(self.dialect, columns, iter(lambda: self.fresh("x"), ""))

    # -- relations ---------------------------------------------------------------

    def rows(self, relation: Relation, names: set[str]) -> _Rows:
        """Render a relation with the wanted columns."""
        inputs = [
            self.rows(i, set(w))
            for i, w in zip(relation.inputs, relation.needs(names), strict=True)
        ]
        match relation:
            case Scan():
                return self.scan(relation, names)
            case Filter():
                return self.filter(relation, *inputs)
            case JoinPublic():
                return self.join(relation, names, *inputs)
            case JoinUnit():
                return self.join_unit(relation, *inputs)
            case PerUnit():
                return self.per_unit(relation.only(names), *inputs)
            case Project():
                return self.project(relation, names, *inputs)
            case LimitRows():
                return self.limit_rows(relation, *inputs)
            case LimitGroups():
                return self.limit_groups(relation, *inputs)
        raise AssertionError(relation)

    def scan(self, scan: Scan, names: set[str], key: str | None = None) -> _Rows:
        table, source = scan.table, self.sources[scan.table.name]
        physical, codes, columns = [], [], {}
        for name, column in table.columns.items():
            late = name in self.aliases and not table.public
            if name not in names and not late:
                continue
            field, alias = source.columns[name], self.fresh("r")
            value = raw(self.dialect, column, field, self.dialect.quote(field.name))
            physical.append(f"{value} AS {alias}")
            if name in names:
                columns[name] = self.fresh("c")
                codes.append(f"{code(self.dialect, column, field, alias)} AS {columns[name]}")
            if late:
                self.aliases[name] = alias
                codes.append(alias)
        where, unit, link = "", None, table.ids[0] if table.ids and not table.public else None
        if link is not None:
            unit = source.columns[link]
            quoted = self.dialect.quote(unit.name)
            physical.append(f"{self.dialect.unit(quoted, unit)} AS {UNIT}")
            codes.append(UNIT)
            where = f" WHERE {self.dialect.somebody(quoted, unit)}"
        if key is not None:
            field = source.columns[str(table.key)]
            quoted = self.dialect.quote(field.name)
            physical.append(f"{self.dialect.unit(quoted, field)} AS {key}")
            codes.append(key)
            if field.kind is Physical.TEXT:
                where += f" AND {self.dialect.somebody(quoted, field)}"
        inner = f"SELECT {', '.join(physical) or '1 AS r'} FROM {source.rows(self.dialect)}{where}"
        rows = _Rows(_select(codes, inner), columns, unit)
        if scan.owner is not None:
            return self.owned(scan.owner, rows, [*columns.values(), *([key] if key else [])])
        if self.chunk is not None and unit is not None:
            part, parts = self.chunk
            text = f"{rows.body} WHERE ({self.unit_residue(unit)}) % {parts} = {part}"
            return replace(rows, body=text)
        return rows

    def owned(self, owner: Scan, rows: _Rows, carried: list[str]) -> _Rows:
        """Give rows to the units that own the key they name (so far in place of the unit).

        A unit that has an owner's row twice is given a row of it once.
        """
        key = self.fresh("o")
        above = self.scan(owner, set(), key)
        pairs = f"{_select([UNIT, key], above.body)} GROUP BY {UNIT}, {key}"
        outputs = ", ".join([*(f"l.{c}" for c in carried), f"r.{UNIT}"])
        on = f"l.{UNIT} = r.{key}"
        body = f"SELECT {outputs} FROM ({rows.body}) AS l INNER JOIN ({pairs}) AS r ON {on}"
        return _Rows(body, rows.columns, above.unit)

    def filter(self, node: Filter, below: _Rows) -> _Rows:
        renderer = self.renderer(below.columns)
        truth = renderer.truth(node.condition)
        return replace(
            below, body=f"SELECT * FROM ({renderer.over(below.body)}) AS s WHERE {truth}"
        )

    def join(self, join: JoinPublic, names: set[str], left: _Rows) -> _Rows:
        public = {n for n in join.public.schema if join.prefix + n in names}
        right = self.scan(join.public, public | {r for _, r in join.on})
        on = " AND ".join(f"l.{left.columns[a]} = r.{right.columns[b]}" for a, b in join.on)
        return self.joined(left, right, f"{join.how.upper()} JOIN", on, join.prefix)

    def join_unit(self, join: JoinUnit, left: _Rows, right: _Rows) -> _Rows:
        equal = [f"l.{UNIT} = r.{UNIT}"]
        equal += [f"l.{left.columns[a]} = r.{right.columns[b]}" for a, b in join.on]
        on = " AND ".join(equal)
        return self.joined(left, right, f"{join.how.upper()} JOIN", on, join.prefix)

    def per_unit(self, node: PerUnit, below: _Rows) -> _Rows:
        """Group by unit and keys, then move counts and sums into their bounds."""
        renderer = self.renderer(below.columns)
        keys = {name: self.fresh("c") for name, _ in node.keys}
        outputs = {name: self.fresh("c") for name, _ in node.folds}
        values = [f"{renderer.value(e)} AS {keys[n]}" for n, e in node.keys]
        values += [f"{renderer.value(f.expr)} AS {outputs[n]}" for n, f in node.folds]
        body = _select([UNIT, *values], renderer.over(below.body))
        group = ", ".join([UNIT, *keys.values()])
        folded = {name: self.fresh("c") for name in outputs}
        folds = [f"{self.folded(f, outputs[n])} AS {folded[n]}" for n, f in node.folds]
        body = f"{_select([UNIT, *keys.values(), *folds], body)} GROUP BY {group}{_FENCE}"
        bounded = [f"{self.bounded(f, folded[n])} AS {outputs[n]}" for n, f in node.folds]
        body = _select([UNIT, *keys.values(), *bounded], body)
        return _Rows(body, keys | outputs, below.unit)

    def folded(self, fold: Fold, name: str) -> str:
        if fold.kind is FoldKind.DISTINCT:
            return f"count(DISTINCT {name})"
        if fold.kind is FoldKind.SUM:
            return self.dialect.total(name, (fold.expr.type.lo, fold.expr.type.hi))
        return f"{fold.kind.value}({name})"

    def bounded(self, fold: Fold, name: str) -> str:
        if not fold.clamped:
            return name
        lo, hi = (self.dialect.integer(end) for end in (fold.type.lo, fold.type.hi))
        clamped = f"CASE WHEN {name} < {lo} THEN {lo} WHEN {name} > {hi} THEN {hi} ELSE {name} END"
        return f"CAST({clamped} AS BIGINT)"

    def joined(self, left: _Rows, right: _Rows, kind: str, on: str, prefix: str) -> _Rows:
        more = "".join(f", r.{c}" for c in right.columns.values())
        body = f"SELECT l.*{more} FROM ({left.body}) AS l {kind} ({right.body}) AS r ON {on}"
        theirs = {prefix + n: c for n, c in right.columns.items()}
        return _Rows(body, {**left.columns, **theirs}, left.unit)

    def project(self, node: Project, names: set[str], below: _Rows) -> _Rows:
        """Evaluate keys and columns, and drop rows whose keys are not public codes."""
        renderer = self.renderer(below.columns)
        outputs, columns = [] if below.unit is None else [UNIT], {}
        for name, e in node.columns:
            if Item(name, e.type).is_constant:
                columns[name] = self.dialect.integer(e.type.lo)
            elif name in names:
                columns[name] = self.fresh("c")
                outputs.append(f"{renderer.value(e)} AS {columns[name]}")
        values = [renderer.value(k.expr) for k in node.keys]
        keys, body = self.keyed(node, values, outputs, renderer.over(below.body))
        return _Rows(body, keys | columns, below.unit)

    def keyed(
        self, node: Project, values: Sequence[str], outputs: list[str], body: str
    ) -> tuple[dict[str, str], str]:
        """Select the values of keys beside `outputs`, from rows where they are public codes."""
        names = [self.fresh("k") for _ in node.keys]
        items = [f"{value} AS {n}" for value, n in zip(values, names, strict=True)]
        body = _select([*items, *outputs], body)
        pairs = zip(node.keys, names, strict=True)
        tests = " AND ".join(_public(self.dialect, k, n) for k, n in pairs)
        if tests:
            body = f"SELECT * FROM ({body}) AS s WHERE {tests}"
        return {f"k{i}": name for i, name in enumerate(names)}, body

    def limit_rows(self, node: LimitRows, below: _Rows) -> _Rows:
        """Number each unit's rows by their codes, rank the numbers by hash, keep the first."""
        items = _items(node.schema, below)
        equal = items.keys() <= set(node.by)  # rows of one group: any of them will do
        row = self.packed(items.values())
        group = row if equal else self.packed(items[n] for n in node.by if n in items)
        columns = row.columns if equal else row.columns + group.columns
        body, order = _select([UNIT, *columns], below.body), []
        if not equal:
            number, rank = self.fresh("j"), self.fresh("h")
            body = _ranked(body, "row_number", [UNIT], row.order, number)
            hashed = self.mixed(node.coin, below, [f"({number} % {PRIME})"])
            body, order = f"SELECT *, {hashed} AS {rank} FROM ({body}) AS s", [rank, number]
        body = self.first(body, "row_number", [UNIT, *group.names], order, node.n)
        return self.unpacked(node.schema, row, below, body)

    def limit_groups(self, node: LimitGroups, below: _Rows) -> _Rows:
        """Rank each unit's groups by a hash of their keys, keep the rows of the first."""
        items = _items(node.schema, below)
        keys = [items[n] for n in node.keys if n in items]
        row, group, rank = self.packed(items.values()), self.packed(keys), self.fresh("h")
        hashed = self.mixed(node.coin, below, [residue(self.dialect, k) for k in keys])
        columns = [UNIT, *row.columns, *group.columns, f"{hashed} AS {rank}"]
        upto = None
        if node.upto is not None:
            upto = self.fresh("d")
            columns.append(f"{below.columns[node.upto]} AS {upto}")
        body = _select(columns, below.body)
        body = self.first(body, "dense_rank", [UNIT], [rank, *group.order], node.n, upto=upto)
        return self.unpacked(node.schema, row, below, body)

    def packed(self, items: Iterable[Item]) -> Packed:
        return pack(self.dialect, items, lambda: self.fresh("w"))

    def unpacked(self, schema: Mapping[str, Type], row: Packed, below: _Rows, body: str) -> _Rows:
        """Read the codes back from the words that were sorted."""
        outputs, columns = [UNIT], {}
        for name, t in schema.items():
            if Item(name, t).is_constant:
                columns[name] = self.dialect.integer(t.lo)
                continue
            columns[name] = self.fresh("c")
            outputs.append(f"{row.values[below.columns[name]]} AS {columns[name]}")
        return _Rows(_select(outputs, body), columns, below.unit)

    def first(
        self,
        body: str,
        function: str,
        partition: list[str],
        order: list[str],
        most: int,
        *,
        upto: str | None = None,
    ) -> str:
        rank = self.fresh("n")
        if not order and self.dialect.ranks_in_order:
            order = partition[:1]  # the same for all rows of a window
        ranked = _ranked(body, function, partition, order, rank)
        few = "" if upto is None else f" AND {rank} <= {upto}"
        # not "<=": DuckDB would rewrite that into one heap per unit, slow and out of memory
        return f"SELECT * FROM ({ranked}) AS s WHERE {rank} BETWEEN 1 AND {most}{few}"

    def mixed(self, coin: int, rows: _Rows, parts: list[str]) -> str:
        assert rows.unit is not None
        return mixed(self.dialect, coin, self.unit_residue(rows.unit), parts)

    def unit_residue(self, unit: Field) -> str:
        """Residue of the unit, possibly plus PRIME."""
        if unit.kind is Physical.TEXT:
            return self.dialect.text_residue(UNIT, PRIME)
        return f"{self.dialect.remainder(UNIT, PRIME, unit)} + {PRIME}"

    # -- aggregates --------------------------------------------------------------

    def render(self, aggregate: Aggregate) -> str:
        late = self.late_columns(aggregate)
        if late:
            return self.grouped_late(aggregate, late)
        rows = self.rows(aggregate.relation, set(aggregate.relation.schema))
        sums = [self.summed(aggregate, m, f"v{i}", rows) for i, m in enumerate(aggregate.measures)]
        keys = [rows.columns[f"k{i}"] for i in range(len(aggregate.keys))]
        return _grouped(keys, sums, rows.body)

    def summed(self, aggregate: Aggregate, measure: Measure, column: str, rows: _Rows) -> str:
        if measure.kind is MeasureKind.UNITS:
            single = rows.unit is None or aggregate.relation.most(aggregate.group) == 1
            return "count(*)" if single else f"count(DISTINCT {UNIT})"
        if measure.kind is MeasureKind.DISTINCT:
            return f"count(DISTINCT {rows.columns[column]})"
        if Item(column, measure.type).is_constant:
            return f"count(*){self.each(measure)}"
        bounds = measure.type.lo, measure.type.hi
        return f"COALESCE({self.dialect.total(rows.columns[column], bounds)}, 0)"

    def each(self, measure: Measure) -> str:
        """Factor of a count whose rows all add the same; wide integers take long to read."""
        one = measure.type.lo
        return "" if one == 1 else f" * CAST({one} AS {self.dialect.wide})"

    def late_columns(self, aggregate: Aggregate) -> list[str]:
        """Text categories by whose raw values rows can be added up first.

        Turning each row's text into a code costs more than adding the row up.
        Sums over raw values are therefore taken first where keys are made of such columns
        (and the others have few codes), and only the few raw groups are coded.
        """
        kinds = {m.kind for m in aggregate.measures}
        early = self.dialect.adds_early and aggregate.unit is None
        if not early or MeasureKind.DISTINCT in kinds:
            return []
        late = [k for k in aggregate.keys if self.is_late(k, base(aggregate.relation).table)]
        others = [len(k.codes or ()) for k in aggregate.keys if k not in late]
        if 0 in others or prod(others) > _FEW:
            return []
        return sorted({name for k in late for name in expr.columns_of(k.expr)})

    def is_late(self, key: Key, table: pol.Table) -> bool:
        """Whether a key is made of text categories alone."""
        fields = self.sources[table.name].columns
        return all(
            isinstance(table.columns.get(name), pol.Category) and fields[name].kind is Physical.TEXT
            for name in expr.columns_of(key.expr)
        )

    def grouped_late(self, aggregate: Aggregate, names: list[str]) -> str:
        """Add up by raw values, code the groups, then add up by key."""
        project = aggregate.relation
        assert isinstance(project, Project)
        table = base(project).table
        self.aliases = dict.fromkeys(names, "")
        added = [n for n, e in project.columns if not Item(n, e.type).is_constant]
        early = {k: self.fresh("k") for k in project.keys if not self.is_late(k, table)}
        by_row = [*(k.expr for k in early), *(e for _, e in project.columns)]
        below = self.rows(project.below, {name for e in by_row for name in expr.columns_of(e)})
        renderer = self.renderer(below.columns)
        outputs = [f"{renderer.value(k.expr)} AS {n}" for k, n in early.items()]
        outputs += [f"{renderer.value(project.exprs[n])} AS {n}" for n in added]
        body = _select([*self.aliases.values(), *outputs], renderer.over(below.body))
        count, raw_names = self.fresh("n"), [*self.aliases.values(), *early.values()]
        partial = [f"count(*) AS {count}", *(f"sum({n}) AS {n}" for n in added)]
        body = f"{_select([*raw_names, *partial], body)} GROUP BY {', '.join(raw_names)}{_FENCE}"
        fields = self.sources[table.name].columns
        columns = {name: self.fresh("c") for name in names}
        coded = [
            f"{code(self.dialect, table.columns[n], fields[n], alias)} AS {columns[n]}"
            for n, alias in self.aliases.items()
        ]
        body = _select([count, *added, *coded, *early.values()], body)
        renderer = self.renderer(columns)
        values = [early.get(k) or renderer.value(k.expr) for k in project.keys]
        keys, body = self.keyed(project, values, [count, *added], renderer.over(body))
        sums = [
            f"COALESCE(sum(v{i}), 0)" if f"v{i}" in added
            else f"COALESCE(sum({count}), 0){self.each(m)}"
            for i, m in enumerate(aggregate.measures)
        ]  # fmt: skip
        return _grouped(list(keys.values()), sums, body)


def _items(schema: Mapping[str, Type], rows: _Rows) -> dict[str, Item]:
    """Columns of a rendered relation in which rows can differ."""
    items = {name: Item(rows.columns[name], t) for name, t in schema.items()}
    return {name: item for name, item in items.items() if not item.is_constant}


def _select(outputs: Sequence[str], body: str) -> str:
    return f"SELECT {', '.join(outputs) or '1 AS c'} FROM ({body}) AS s"


def _ranked(
    body: str, function: str, partition: Sequence[str], order: Sequence[str], name: str
) -> str:
    within = f"PARTITION BY {', '.join(partition)}"
    by = f" ORDER BY {', '.join(order)}" if order else ""
    return f"SELECT *, {function}() OVER ({within}{by}) AS {name} FROM ({body}) AS s"


def _grouped(keys: list[str], sums: list[str], body: str) -> str:
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    return _select([*keys, *sums], body) + group


def _public(dialect: Dialect, key: Key, name: str) -> str:
    """Condition that a key is one of its public codes (and not NULL)."""
    if key.codes is None or _covers(key.codes, key.expr.type):
        return f"{name} IS NOT NULL"
    return member(dialect, name, key.codes) if key.codes else "FALSE"


def _covers(codes: tuple[int | str, ...] | range, t: Type) -> bool:
    """Whether a key's codes, which all lie in its type, are all codes of the type."""
    enough = t.kind is not Kind.TEXT and len(codes) >= t.size
    return enough and (isinstance(codes, range) or len(set(codes)) == t.size)


def render(
    dialect: Dialect,
    sources: Mapping[str, Source],
    aggregate: Aggregate,
    chunk: tuple[int, int] | None = None,
) -> str:
    """Write an aggregate as one SQL statement, with placeholders for the salt.

    Parameters
    ----------
    dialect, sources
        How the engine spells things and what its tables are.
    aggregate
        What to compute.
    chunk
        ``(part, parts)``: only the units whose residue falls in that part. Sums
        and counts of units over all parts add up to the whole.
    """
    return _Statement(dialect, sources, chunk).render(aggregate)


def render_values(
    dialect: Dialect, sources: Mapping[str, Source], public: Scan, column: str, most: int
) -> str:
    """Write the distinct texts of a column of a public table, in order."""
    rows = _Statement(dialect, sources).scan(public, {column})
    key = rows.columns[column]
    return (
        f"SELECT DISTINCT {key} AS v FROM ({rows.body}) AS s WHERE {key} IS NOT NULL "
        f"ORDER BY v LIMIT {most}"
    )


def render_fanout(
    dialect: Dialect, sources: Mapping[str, Source], public: Scan, columns: tuple[str, ...]
) -> str:
    """Write the largest number of public rows that share a join key."""
    rows = _Statement(dialect, sources).scan(public, set(columns))
    keys = [rows.columns[c] for c in columns]
    complete = " AND ".join(f"{k} IS NOT NULL" for k in keys)
    counts = (
        f"SELECT count(*) AS n FROM ({rows.body}) AS s WHERE {complete} GROUP BY {', '.join(keys)}"
    )
    return f"SELECT COALESCE(max(n), 0) FROM ({counts}) AS s"
