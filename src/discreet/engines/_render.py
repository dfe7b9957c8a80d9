# ruff: noqa: S608 - statements are rendered from the closed plan, identifiers quoted
"""Aggregates to SQL: one text per aggregate, built from the closed plan only.

The text is a tower of subqueries: *scan* (physical columns to codes), *join*,
*filter*, then keys and measures, then the limits on each unit, then the sums.
All names inside are our own; the source's names occur quoted in the scan only.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from discreet import policy as pol
from discreet.engines._dialect import Dialect
from discreet.engines._expressions import Renderer, member
from discreet.engines._ingest import code, raw
from discreet.engines._physical import Found, Physical
from discreet.engines._ranking import Item, Packed, hashed, pack
from discreet.plan import (
    PRIME,
    Aggregate,
    Filter,
    JoinPublic,
    JoinUnit,
    Key,
    Measure,
    MeasureKind,
    Relation,
    Salt,
    Scan,
    base,
    expr,
    used_columns,
)

UNIT = "u"
_FENCE = " OFFSET 0"
"""Keeps conditions on groups from being tested on every row below them."""


@dataclass(frozen=True, slots=True)
class Source:
    """A table as an engine sees it: a quoted name and its physical columns."""

    table: str
    columns: Mapping[str, Found]


@dataclass(frozen=True, slots=True)
class _Rows:
    """A rendered relation: SQL text, and the identifier of each plan column."""

    body: str
    columns: dict[str, str]


@dataclass(slots=True)
class _Relations:
    """Renders scans, joins and filters, with names that never repeat."""

    dialect: Dialect
    sources: Mapping[str, Source]
    numbers: Iterator[int] = field(default_factory=itertools.count)
    held: dict[str, str] = field(default_factory=dict)
    """Columns whose raw values are wanted as well, and the identifiers that hold them."""

    def fresh(self, letter: str) -> str:
        return f"{letter}{next(self.numbers)}"

    def names(self) -> Iterator[str]:
        while True:
            yield self.fresh("x")

    def rows(self, relation: Relation, wanted: set[str]) -> _Rows:
        match relation:
            case Scan():
                return self.scan(relation, wanted)
            case Filter(below, condition):
                inner = self.rows(below, wanted)
                renderer = Renderer(self.dialect, inner.columns, self.names())
                truth = renderer.truth(condition)
                body = f"SELECT * FROM ({renderer.over(inner.body)}) AS s WHERE {truth}"
                return _Rows(body, inner.columns)
            case JoinPublic():
                return self.join(relation, wanted)
            case JoinUnit():
                return self.join_unit(relation, wanted)
        raise AssertionError(relation)

    def scan(self, scan: Scan, wanted: set[str]) -> _Rows:
        table, source = scan.table, self.sources[scan.table.name]
        physical, codes, columns = [], [], {}
        for name, column in table.columns.items():
            if name not in wanted:
                continue
            found = source.columns[name]
            held, coded = self.fresh("r"), self.fresh("c")
            value = raw(self.dialect, column, found, self.dialect.quote(found.name))
            physical.append(f"{value} AS {held}")
            codes.append(f"{code(self.dialect, column, found, held)} AS {coded}")
            columns[name] = coded
            if name in self.held and not table.public:
                self.held[name] = held
                codes.append(held)
        where = ""
        if table.unit is not None and not table.public:
            found = source.columns[table.unit]
            unit = self.dialect.quote(found.name)
            where = f" WHERE {unit} IS NOT NULL"
            physical.append(f"{self.dialect.unit(unit, found)} AS {UNIT}")
            codes.append(UNIT)
        inner = f"SELECT {', '.join(physical) or '1 AS r'} FROM {source.table}{where}"
        return _Rows(f"SELECT {', '.join(codes) or '1 AS c'} FROM ({inner}) AS s", columns)

    def join_unit(self, join: JoinUnit, wanted: set[str]) -> _Rows:
        theirs = {n for n in join.other.schema if join.prefix + n in wanted}
        left, right = self.rows(join.below, wanted), self.rows(join.other, theirs)
        kept = "".join(f", r.{c}" for c in right.columns.values())
        on = f"l.{UNIT} = r.{UNIT}"
        body = f"SELECT l.*{kept} FROM ({left.body}) AS l INNER JOIN ({right.body}) AS r ON {on}"
        return _Rows(body, left.columns | {join.prefix + n: c for n, c in right.columns.items()})

    def join(self, join: JoinPublic, wanted: set[str]) -> _Rows:
        public = {n for n in join.public.schema if join.prefix + n in wanted}
        right = self.rows(join.public, public | {r for _, r in join.on})
        left = self.rows(join.below, wanted | {name for name, _ in join.on})
        on = " AND ".join(f"l.{left.columns[a]} = r.{right.columns[b]}" for a, b in join.on)
        kept = "".join(f", r.{c}" for c in right.columns.values())
        kind = "LEFT" if join.how == "left" else "INNER"
        body = f"SELECT l.*{kept} FROM ({left.body}) AS l {kind} JOIN ({right.body}) AS r ON {on}"
        return _Rows(body, left.columns | {join.prefix + n: c for n, c in right.columns.items()})


@dataclass(slots=True)
class _Statement(_Relations):
    """Renders one aggregate."""

    aggregate: Aggregate = field(kw_only=True)
    salt: Salt | None = field(kw_only=True)
    chunk: tuple[int, int] | None = field(kw_only=True)

    def items(self) -> tuple[list[Item], list[Item]]:
        """Names and types of keys and measures."""
        # NULL keys are dropped, so nothing that follows needs to provide for them
        keys = [Item(f"k{i}", k.expr.type.not_null()) for i, k in enumerate(self.aggregate.keys)]
        return keys, [Item(f"v{i}", m.type) for i, m in enumerate(self.aggregate.measures)]

    def renderer(self, columns: Mapping[str, str]) -> Renderer:
        return Renderer(self.dialect, columns, self.names())

    def key_values(self, renderer: Renderer) -> list[str]:
        keys = self.aggregate.keys
        return [f"{renderer.value(k.expr)} AS k{i}" for i, k in enumerate(keys)]

    def measure_values(self, renderer: Renderer) -> list[str]:
        _, values = self.items()
        return [
            f"{renderer.value(m.expr)} AS {item.name}"
            for m, item in zip(self.aggregate.measures, values, strict=True)
            if m.expr is not None and not item.is_constant
        ]

    def public(self, body: str) -> str:
        """Drop rows whose keys are NULL or not among the public codes."""
        keys, _ = self.items()
        pairs = zip(self.aggregate.keys, keys, strict=True)
        conditions = " AND ".join(_public(self.dialect, key, item) for key, item in pairs)
        return f"SELECT * FROM ({body}) AS s WHERE {conditions}" if conditions else body

    def entries(self) -> str:
        """Keys and measures of every row that counts."""
        rows = self.rows(self.aggregate.relation, set(used_columns(self.aggregate)))
        renderer = self.renderer(rows.columns)
        outputs = self.key_values(renderer) + self.measure_values(renderer)
        outputs += [] if self.aggregate.unit is None else [UNIT]
        return self.public(_select(outputs, renderer.over(rows.body)))

    def render(self) -> str:
        late = self.late_columns()
        if late:
            return self.grouped_late(late)
        body = self.entries()
        keys, values = self.items()
        if self.aggregate.unit is not None:
            body, read = self.limited(body, keys, values)
            carried = [i for i in (*keys, *values) if i in keys or not i.is_constant]
            body = _select([UNIT, *(f"{read[i.name]} AS {i.name}" for i in carried)], body)
        pairs = zip(self.aggregate.measures, values, strict=True)
        return _grouped(keys, [self.summed(m, v) for m, v in pairs], body)

    def late_columns(self) -> list[str]:
        """Text categories by whose raw values rows can be added up first.

        Turning each row's text into a code costs more than adding the row up.
        Sums over raw values are therefore taken first where all keys are made
        of such columns, and only the few raw groups are coded.
        """
        aggregate = self.aggregate
        kinds = {m.kind for m in aggregate.measures}
        if aggregate.unit is not None or MeasureKind.DISTINCT in kinds:
            return []
        table = base(aggregate.relation).table
        names = sorted({name for k in aggregate.keys for name in expr.columns_of(k.expr)})
        found = self.sources[table.name].columns
        late = all(
            isinstance(table.columns.get(name), pol.Category) and found[name].kind is Physical.TEXT
            for name in names
        )
        return names if late else []

    def grouped_late(self, names: list[str]) -> str:
        """Add up by raw values, code the groups, then add up by key."""
        keys, values = self.items()
        self.held = dict.fromkeys(names, "")
        rows = self.rows(self.aggregate.relation, set(used_columns(self.aggregate)))
        renderer = self.renderer(rows.columns)
        outputs = [*self.held.values(), *self.measure_values(renderer)]
        body = _select(outputs, renderer.over(rows.body))
        count = self.fresh("n")
        added = [v for m, v in zip(self.aggregate.measures, values, strict=True)
                 if m.expr is not None and not v.is_constant]  # fmt: skip
        raw_names = ", ".join(self.held.values())
        partial = [f"count(*) AS {count}", *(f"sum({v.name}) AS {v.name}" for v in added)]
        body = f"{_select([raw_names, *partial], body)} GROUP BY {raw_names}{_FENCE}"
        table = base(self.aggregate.relation).table
        found = self.sources[table.name].columns
        coded = {
            name: code(self.dialect, table.columns[name], found[name], held)
            for name, held in self.held.items()
        }
        columns = {name: self.fresh("c") for name in coded}
        carried = [count, *(v.name for v in added)]
        body = _select([*carried, *(f"{coded[n]} AS {columns[n]}" for n in names)], body)
        renderer = self.renderer(columns)
        outputs = self.key_values(renderer) + carried
        body = self.public(_select(outputs, renderer.over(body)))
        sums = [
            f"COALESCE(sum({v.name}), 0)" if v in added
            else f"COALESCE(sum({count}), 0) * CAST({v.type.lo} AS {self.dialect.wide})"
            for v in values
        ]  # fmt: skip
        return _grouped(keys, sums, body)

    def summed(self, measure: Measure, item: Item) -> str:
        limits = self.aggregate.limits
        match measure.kind:
            case MeasureKind.DISTINCT:
                return "least(count(*), 1)" if item.is_constant else f"count(DISTINCT {item.name})"
            case MeasureKind.UNITS:
                single = self.aggregate.unit is None or 1 in (limits.rows, limits.rows_per_group)
                return "count(*)" if single else f"count(DISTINCT {UNIT})"
        if item.is_constant:
            return f"count(*) * CAST({item.type.lo} AS {self.dialect.wide})"
        return f"COALESCE(sum({item.name}), 0)"

    def limited(
        self, body: str, keys: list[Item], values: list[Item]
    ) -> tuple[str, dict[str, str]]:
        """Keep the best-ranked rows and groups of each unit."""
        limits = self.aggregate.limits
        unit = self.unit_residue()
        items = [*keys, *values]
        row = self.packed(items, hashed(self.dialect, self.salt, unit, items))
        columns = [UNIT, *(f"{sql} AS {name}" for name, sql in row.columns)]
        group: Packed | None = None
        if limits.groups is not None or limits.rows_per_group is not None:
            rank = None
            if limits.groups is not None:
                rank = hashed(self.dialect, self.salt, unit, keys)
            group = self.packed(keys, rank)
            columns += [f"{sql} AS {name}" for name, sql in group.columns]
        where = ""
        if self.chunk is not None:
            part, parts = self.chunk
            where = f" WHERE ({unit}) % {parts} = {part}"
        body = f"SELECT {', '.join(columns)} FROM ({body}) AS s{where}"
        order = ", ".join(row.order)
        if group is not None and limits.rows_per_group is not None:
            within = ", ".join((UNIT, *group.names))
            body = self.first(body, "row_number", within, order, limits.rows_per_group)
        if group is not None and limits.groups is not None:
            body = self.first(body, "dense_rank", UNIT, ", ".join(group.order), limits.groups)
        if limits.rows is not None:
            body = self.first(body, "row_number", UNIT, order, limits.rows)
        return body, row.values

    def first(self, body: str, function: str, partition: str, order: str, most: int) -> str:
        rank = self.fresh("n")
        ranked = (
            f"SELECT *, {function}() OVER (PARTITION BY {partition} ORDER BY {order}) AS {rank}"
        )
        # not "<=": DuckDB would rewrite that into one heap per unit, slow and out of memory
        return f"SELECT * FROM ({ranked} FROM ({body}) AS s) AS s WHERE {rank} BETWEEN 1 AND {most}"

    def packed(self, items: list[Item], rank: str | None) -> Packed:
        return pack(self.dialect, items, rank, lambda: self.fresh("w"))

    def unit_residue(self) -> str:
        """Residue of the unit, possibly plus PRIME."""
        table = base(self.aggregate.relation).table
        assert table.unit is not None
        found = self.sources[table.name].columns[table.unit]
        if found.kind is Physical.TEXT:
            return self.dialect.text_residue(UNIT, PRIME)
        return f"{self.dialect.remainder(UNIT, PRIME, found)} + {PRIME}"


def _select(outputs: list[str], body: str) -> str:
    return f"SELECT {', '.join(outputs) or '1 AS c'} FROM ({body}) AS s"


def _grouped(keys: list[Item], sums: list[str], body: str) -> str:
    names = [k.name for k in keys]
    group = f" GROUP BY {', '.join(names)}" if names else ""
    return _select([*names, *sums], body) + group


def _public(dialect: Dialect, key: Key, item: Item) -> str:
    """Condition that a key is one of its public codes (and not NULL)."""
    if key.codes is None or _covers(key.codes, item):
        return f"{item.name} IS NOT NULL"
    if not key.codes:
        return "FALSE"
    return member(dialect, item.name, key.codes)


def _covers(codes: tuple[int | str, ...], item: Item) -> bool:
    t = item.type
    return not item.is_text and len(codes) >= t.size and set(codes) >= set(range(t.lo, t.hi + 1))


def render(
    dialect: Dialect,
    sources: Mapping[str, Source],
    aggregate: Aggregate,
    salt: Salt | None,
    chunk: tuple[int, int] | None = None,
) -> str:
    """Write an aggregate as one SQL statement.

    Parameters
    ----------
    dialect, sources
        How the engine spells things and what its tables are.
    aggregate
        What to compute.
    salt
        Key of the ranking hash; None writes placeholders for it.
    chunk
        ``(part, parts)``: only the units whose residue falls in that part. Sums
        and counts of units over all parts add up to the whole.
    """
    return _Statement(dialect, sources, aggregate=aggregate, salt=salt, chunk=chunk).render()


def render_fanout(
    dialect: Dialect, sources: Mapping[str, Source], public: Scan, columns: tuple[str, ...]
) -> str:
    """Write the largest number of public rows that share a join key."""
    rows = _Relations(dialect, sources).rows(public, set(columns))
    keys = [rows.columns[c] for c in columns]
    known = " AND ".join(f"{k} IS NOT NULL" for k in keys)
    counts = (
        f"SELECT count(*) AS n FROM ({rows.body}) AS s WHERE {known} GROUP BY {', '.join(keys)}"
    )
    return f"SELECT COALESCE(max(n), 0) FROM ({counts}) AS s"
