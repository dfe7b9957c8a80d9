"""The meaning of a plan, in plain Python: what every engine must equal.

Slow and obvious on purpose. Rows are mappings from column name to the raw
value an engine would hold (None, bool, int, float, Decimal, str, date,
datetime); the result is one tuple of integers per group.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from discreet import policy as pol
from discreet.plan._relation import (
    PRIME,
    UNIT,
    Aggregate,
    Filter,
    JoinPublic,
    JoinUnit,
    Measure,
    MeasureKind,
    Relation,
    Scan,
    base,
)
from discreet.plan._types import EPOCH, Code, Type, of_column, timestamp_code

Raw = Mapping[str, object]
Groups = dict[tuple[Code, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Salt:
    """Secret key of the ranking hash, fresh for every question."""

    key: bytes

    def coefficient(self, index: int) -> int:
        """Return the `index`-th multiplier, uniform on 1 … PRIME−1 up to 2^-97."""
        block = hashlib.sha256(self.key + index.to_bytes(4, "big")).digest()
        return int.from_bytes(block[:16], "big") % (PRIME - 1) + 1


def ingest(column: pol.Column, raw: object) -> Code:
    """Turn one raw value into its code, as the policy says; never raises on data."""
    return _ingested(column, of_column(column), raw)


def _ingested(column: pol.Column, kind: Type, raw: object) -> Code:
    code = _code(column, kind, raw)
    if code is None and column.null is not None:
        return _code(column, kind, column.null)
    return code


def _code(column: pol.Column, kind: Type, raw: object) -> Code:
    if raw is None or (isinstance(raw, float | Decimal) and math.isnan(raw)):
        return None
    match column:
        case pol.Text():
            return str(raw)
        case pol.Boolean():
            return int(raw) if raw in (0, 1) else None
        case pol.Category():
            if raw in column.values:
                return column.values.index(raw)
            return None if column.other is None else column.domain.index(column.other)
        case pol.Date():
            return _bounded((_instant(raw).date() - EPOCH).days, column.outside, kind)
        case pol.Timestamp():
            return _bounded(timestamp_code(_instant(raw), column.step), column.outside, kind)
        case pol.Integer():
            return _quantised(raw, column.outside, kind, Fraction(1))
        case pol.Real():
            if isinstance(raw, Fraction):  # the policy's own value for NULL, on the grid
                return int(raw / column.step)
            return _quantised(raw, column.outside, kind, column.step)
    raise AssertionError(column)


def _instant(raw: object) -> dt.datetime:
    """Read a date as its midnight and a zoned timestamp in UTC."""
    if not isinstance(raw, dt.datetime):
        assert isinstance(raw, dt.date)
        return dt.datetime.combine(raw, dt.time())
    return raw if raw.tzinfo is None else raw.astimezone(dt.UTC).replace(tzinfo=None)


def _bounded(code: int, outside: str, kind: Type) -> int | None:
    if kind.lo <= code <= kind.hi:
        return code
    return None if outside == "null" else min(max(code, kind.lo), kind.hi)


def _quantised(raw: object, outside: str, kind: Type, step: Fraction) -> int | None:
    """Clamp in the raw value's own arithmetic, then round to the grid, halves to even.

    Floats (and decimals, taken as their nearest double) use IEEE double
    operations in a fixed order, so that all engines agree to the last bit.
    """
    if isinstance(raw, int) and step == 1:
        return _bounded(raw, outside, kind)
    low, high = float(kind.lo * step), float(kind.hi * step)
    assert isinstance(raw, int | float | Decimal)
    x = float(raw)
    if outside == "null" and not low <= x <= high:
        return None
    x = min(max(x, low), high)
    scaled = x * float(1 / step) if step < 1 else x / float(step)
    return min(max(round(scaled), kind.lo), kind.hi)


def text_residue(text: str) -> int:
    """Hash a text to a residue: the first 60 bits of its MD5, modulo PRIME."""
    digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    return int(digest[:15], 16) % PRIME


def residue(value: object) -> int:
    """Residue of a unit or code in the ranking hash; NULL counts as zero."""
    if value is None:
        return 0
    return value % PRIME if isinstance(value, int) else text_residue(str(value))


def ranking(salt: Salt, parts: Sequence[object]) -> int:
    """Linear hash of the parts: Σ coefficient·residue, modulo PRIME."""
    return sum(salt.coefficient(i) * residue(p) % PRIME for i, p in enumerate(parts)) % PRIME


def _order(codes: Sequence[Code]) -> tuple[tuple[bool, Code], ...]:
    # NULL last, then by value: a total order, so that ties never matter
    return tuple((c is None, 0 if c is None else c) for c in codes)


Rows = list[dict[str, Code]]


def rows_of(relation: Relation, tables: Mapping[str, Iterable[Raw]]) -> Rows:
    """Rows of a relation as codes, the unit under the name UNIT."""
    match relation:
        case Scan(table):
            rows: Rows = []
            typed = [(name, c, relation.schema[name]) for name, c in table.columns.items()]
            for raw in tables[table.name]:
                row = {name: _ingested(c, kind, raw[name]) for name, c, kind in typed}
                if table.unit is not None:
                    row[UNIT] = raw[table.unit]  # type: ignore[assignment]  # any hashable
                rows.append(row)
            return rows
        case Filter(below, condition):
            return [r for r in rows_of(below, tables) if condition.evaluate(r) == 1]
        case JoinPublic():
            return _join(relation, tables)
        case JoinUnit():
            return _join_unit(relation, tables)
    raise AssertionError(relation)


def _join_unit(join: JoinUnit, tables: Mapping[str, Iterable[Raw]]) -> Rows:
    own: dict[Code, Rows] = defaultdict(list)
    for row in rows_of(join.other, tables):
        unit = row.pop(UNIT)
        own[unit].append({join.prefix + name: value for name, value in row.items()})
    return [
        row | match
        for row in rows_of(join.below, tables)
        if row[UNIT] is not None
        for match in own.get(row[UNIT], [])
    ]


def _join(join: JoinPublic, tables: Mapping[str, Iterable[Raw]]) -> Rows:
    matches: dict[tuple[Code, ...], Rows] = defaultdict(list)
    for public in rows_of(join.public, tables):
        matches[tuple(public[right] for _, right in join.on)].append(
            {join.prefix + name: value for name, value in public.items()}
        )
    empty: dict[str, Code] = {join.prefix + name: None for name in join.public.schema}
    joined: Rows = []
    for row in rows_of(join.below, tables):
        key = tuple(row[left] for left, _ in join.on)
        found = [] if None in key else matches.get(key, [])
        if not found and join.how == "left":
            found = [empty]
        joined += [row | public for public in found]
    return joined


@dataclass(frozen=True, slots=True)
class _Entry:
    unit: object
    keys: tuple[Code, ...]
    values: tuple[Code, ...]


def run(aggregate: Aggregate, tables: Mapping[str, Iterable[Raw]], salt: Salt) -> Groups:
    """Evaluate an aggregate: limit each unit, group, add up."""
    entries = [
        _Entry(
            row.get(UNIT),
            tuple(k.expr.evaluate(row) for k in aggregate.keys),
            tuple(1 if m.expr is None else m.expr.evaluate(row) for m in aggregate.measures),
        )
        for row in rows_of(aggregate.relation, tables)
    ]
    entries = [e for e in entries if _keyed(aggregate, e.keys)]
    if base(aggregate.relation).table.unit is not None:
        entries = _limited(aggregate, entries, salt)
    groups: dict[tuple[Code, ...], list[_Entry]] = defaultdict(list)
    for e in entries:
        groups[e.keys].append(e)
    if not aggregate.keys:
        groups.setdefault((), [])
    return {
        keys: tuple(_add(m, i, members) for i, m in enumerate(aggregate.measures))
        for keys, members in groups.items()
    }


def _keyed(aggregate: Aggregate, keys: tuple[Code, ...]) -> bool:
    return all(
        code is not None and (key.codes is None or code in key.codes)
        for key, code in zip(aggregate.keys, keys, strict=True)
    )


def _limited(aggregate: Aggregate, entries: list[_Entry], salt: Salt) -> list[_Entry]:
    limits = aggregate.limits
    units: dict[object, list[_Entry]] = defaultdict(list)
    for e in entries:
        if e.unit is not None:
            units[e.unit].append(e)
    kept: list[_Entry] = []
    for unit, own in units.items():
        rows = sorted(
            own,
            key=lambda e: (
                ranking(salt, (e.unit, *e.keys, *e.values)),
                _order((*e.keys, *e.values)),
            ),
        )
        if limits.rows_per_group is not None:
            rows = _first_per_group(rows, limits.rows_per_group)
        if limits.groups is not None:
            order = sorted(
                {e.keys for e in rows}, key=lambda k: (ranking(salt, (unit, *k)), _order(k))
            )
            rows = [e for e in rows if e.keys in order[: limits.groups]]
        kept += rows if limits.rows is None else rows[: limits.rows]
    return kept


def _first_per_group(rows: list[_Entry], most: int) -> list[_Entry]:
    seen: dict[tuple[Code, ...], int] = defaultdict(int)
    kept = []
    for e in rows:
        seen[e.keys] += 1
        if seen[e.keys] <= most:
            kept.append(e)
    return kept


def _add(measure: Measure, index: int, members: list[_Entry]) -> int:
    if measure.kind is MeasureKind.UNITS:
        if any(e.unit is None for e in members):
            return len(members)
        return len({e.unit for e in members})
    values = [v for e in members if (v := e.values[index]) is not None]
    if measure.kind is MeasureKind.DISTINCT:
        return len(set(values))
    return sum(v for v in values if isinstance(v, int))
