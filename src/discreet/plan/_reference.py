"""The meaning of a plan, in plain Python: what every engine must equal.

Slow and obvious on purpose. Rows are mappings from column name to the raw
value an engine would hold (None, bool, int, float, Decimal, str, date,
datetime); the result is one tuple of integers per group.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction

from discreet import policy as pol
from discreet._dataclass import dataclass
from discreet.plan._joins import JoinPublic, JoinUnit
from discreet.plan._per_unit import PerUnit
from discreet.plan._relation import (
    LONGEST_NAME,
    PRIME,
    UNIT,
    Aggregate,
    Filter,
    LimitGroups,
    LimitRows,
    Measure,
    MeasureKind,
    Project,
    Relation,
    Scan,
)
from discreet.plan._types import EPOCH, Code, Type, of_column, timestamp_code

Raw = Mapping[str, object]
Groups = dict[tuple[Code, ...], tuple[int, ...]]

TURNS = 3
"""Turns of the ranking hash after its last argument."""


@dataclass(frozen=True, slots=True)
class Salt:
    """Secret key of the ranking hash, fresh for every question."""

    key: bytes

    def __getitem__(self, placeholder: str) -> int:
        """Return the number in place of ``salt{coin}_{index}`` in a statement."""
        coin, index = placeholder.removeprefix("salt").split("_")
        return self.coefficient(int(coin), int(index))

    def coefficient(self, coin: int, index: int) -> int:
        """Return the `index`-th secret number of a coin, uniform on 1 … PRIME−1 up to 2^-97."""
        place = coin.to_bytes(4, "big") + index.to_bytes(4, "big")
        block = hashlib.sha256(self.key + place).digest()
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
            return str(raw)[: column.longest]
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
    if not low <= x <= high:  # a bound beyond 2^53 need not be a double itself
        return None if outside == "null" else kind.lo if x < low else kind.hi
    scaled = x * float(1 / step) if step < 1 else x / float(step)
    return min(max(round(scaled), kind.lo), kind.hi)


def text_residue(text: str) -> int:
    """Hash a text to a residue: the first 60 bits of its MD5, modulo PRIME."""
    digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    return int(digest[:15], 16) % PRIME


def residue(value: object) -> int:
    """Residue of a unit, number or code in the ranking hash."""
    return value % PRIME if isinstance(value, int) else text_residue(str(value))


def mixed(salt: Salt, coin: int, unit: object, parts: Sequence[object]) -> int:
    """Ranking hash of a unit and of what is ranked within it.

    Products modulo PRIME and exclusive-or with secret constants take turns:
    neither is linear for the other, so that every unit has coins of its own.
    Three turns after the last part passed all tests of uniformity and of
    independence between units; two did not, for some salts. Each turn uses its argument once,
    so that the same hash is one short expression in SQL.
    """
    secret = (salt.coefficient(coin, i) for i in itertools.count())
    h = residue(unit) * next(secret) % PRIME
    for part in parts:
        h = ((h ^ next(secret)) * next(secret) + residue(part) * next(secret)) % PRIME
    for _ in range(TURNS):
        h = (h ^ next(secret)) * next(secret) % PRIME
    return h


def _order(codes: Iterable[Code]) -> tuple[tuple[bool, Code], ...]:
    # NULL last, then by value: a total order, so that ties never matter
    return tuple((c is None, 0 if c is None else c) for c in codes)


Rows = list[dict[str, Code]]
Tables = Mapping[str, Iterable[Raw]]


def rows_of(relation: Relation, tables: Tables, salt: Salt) -> Rows:
    """Rows of a relation as codes, the unit under the name UNIT."""
    match relation:
        case Scan():
            return _scan(relation, tables)
        case Filter(below, condition):
            return [r for r in rows_of(below, tables, salt) if condition.evaluate(r) == 1]
        case JoinPublic(below):
            return _join(relation, rows_of(below, tables, salt), tables)
        case JoinUnit(below, other):
            theirs = rows_of(other, tables, salt)
            return _join_unit(relation, rows_of(below, tables, salt), theirs)
        case PerUnit(below):
            units = _by_unit(rows_of(below, tables, salt))
            return [row for u, own in units.items() for row in _per_unit(relation, u, own)]
        case Project(below):
            return _project(relation, rows_of(below, tables, salt))
        case LimitRows(below):
            units = _by_unit(rows_of(below, tables, salt))
            return [r for u, own in units.items() for r in _limit_rows(relation, u, own, salt)]
        case LimitGroups(below):
            units = _by_unit(rows_of(below, tables, salt))
            return [r for u, own in units.items() for r in _limit_groups(relation, u, own, salt)]
    raise AssertionError(relation)


def _scan(scan: Scan, tables: Tables) -> Rows:
    table, rows = scan.table, []
    typed = [(name, c, scan.schema[name]) for name, c in table.columns.items()]
    units = _units(scan, tables)
    for raw in tables[table.name]:
        row = {name: _ingested(c, kind, raw[name]) for name, c, kind in typed}
        private = table.unit is not None and not table.public
        rows += [row | {UNIT: u} for u in units(raw)] if private else [row]
    return rows


def _units(scan: Scan, tables: Tables) -> Callable[[Raw], Iterable[Code]]:
    """Units that a raw row belongs to: its own, or those of the rows that own it."""
    table, above = scan.table, scan.owner
    if table.owner is None or above is None:
        return lambda raw: [u] if is_name(u := raw[str(table.unit)]) else []  # type: ignore[list-item]  # any hashable
    column, key, theirs = table.owner.column, above.table.key, _units(above, tables)
    units: dict[object, dict[Code, None]] = defaultdict(dict)
    for raw in tables[above.table.name]:
        if is_name(raw[str(key)]):
            units[raw[str(key)]] |= dict.fromkeys(theirs(raw))
    return lambda raw: units.get(raw[column], {})


def is_name(value: object) -> bool:
    """Whether a value names a unit: it is there, and no text beyond :data:`LONGEST_NAME`."""
    if isinstance(value, str):
        return len(value.encode()) <= LONGEST_NAME
    return value is not None


def _by_unit(rows: Rows) -> dict[Code, Rows]:
    units: dict[Code, Rows] = defaultdict(list)
    for row in rows:
        units[row[UNIT]].append(row)
    return units


def _limit_rows(limit: LimitRows, unit: Code, own: Rows, salt: Salt) -> Rows:
    """Number a unit's rows by their codes, rank the numbers, keep the first."""
    own.sort(key=lambda r: _order(r[c] for c in limit.schema))
    ranks = {j: mixed(salt, limit.coin, unit, (j,)) for j in range(1, len(own) + 1)}
    rest: Rows = []
    counts: Counter[tuple[Code, ...]] = Counter()
    for j in sorted(ranks, key=lambda j: (ranks[j], j)):
        row = own[j - 1]
        group = tuple(row[c] for c in limit.by)
        counts[group] += 1
        rest += [row] if counts[group] <= limit.n else []
    return rest


def _limit_groups(limit: LimitGroups, unit: Code, own: Rows, salt: Salt) -> Rows:
    """Rank a unit's groups, keep the rows of the first."""
    # a key that is the same in all rows tells no groups apart and is not hashed
    keys = [c for c in limit.keys if not limit.schema[c].is_constant]
    groups = {tuple(row[c] for c in keys) for row in own}
    order = sorted(groups, key=lambda k: (mixed(salt, limit.coin, unit, k), _order(k)))
    places = {group: place for place, group in enumerate(order[: limit.n], start=1)}
    rows = [row for row in own if tuple(row[c] for c in keys) in places]
    if limit.upto is None:
        return rows
    return [r for r in rows if places[tuple(r[c] for c in keys)] <= int(r[limit.upto] or 0)]


def _project(project: Project, rows: Rows) -> Rows:
    projected: Rows = []
    for row in rows:
        keys = [key.expr.evaluate(row) for key in project.keys]
        pairs = zip(project.keys, keys, strict=True)
        if any(k is None or (key.codes is not None and k not in key.codes) for key, k in pairs):
            continue
        own: dict[str, Code] = {f"k{i}": k for i, k in enumerate(keys)}
        own |= {name: e.evaluate(row) for name, e in project.columns}
        projected.append(own | ({UNIT: row[UNIT]} if UNIT in row else {}))
    return projected


def _per_unit(node: PerUnit, unit: Code, own: Rows) -> Rows:
    groups: dict[tuple[Code, ...], Rows] = defaultdict(list)
    for row in own:
        groups[tuple(e.evaluate(row) for _, e in node.keys)].append(row)
    names = [name for name, _ in node.keys]
    return [
        dict(zip(names, keys, strict=True))
        | {name: fold.of([fold.expr.evaluate(r) for r in rows]) for name, fold in node.folds}
        | {UNIT: unit}
        for keys, rows in groups.items()
    ]


def _join_unit(join: JoinUnit, rows: Rows, theirs: Rows) -> Rows:
    own: dict[tuple[Code, ...], Rows] = defaultdict(list)
    for row in theirs:
        own[row[UNIT], *(row[right] for _, right in join.on)].append(row)
    alone: Rows = [dict.fromkeys(join.other.schema)] if join.how == "left" else []
    joined: Rows = []
    for row in rows:
        key = (row[UNIT], *(row[left] for left, _ in join.on))
        matches = alone if None in key else own.get(key, alone)
        joined += [
            row | {join.prefix + name: value for name, value in match.items() if name != UNIT}
            for match in matches
        ]
    return joined


def _join(join: JoinPublic, rows: Rows, tables: Tables) -> Rows:
    matches: dict[tuple[Code, ...], Rows] = defaultdict(list)
    for public in _scan(join.public, tables):
        matches[tuple(public[right] for _, right in join.on)].append(
            {join.prefix + name: value for name, value in public.items()}
        )
    empty: dict[str, Code] = {join.prefix + name: None for name in join.public.schema}
    joined: Rows = []
    for row in rows:
        key = tuple(row[left] for left, _ in join.on)
        partners = [] if None in key else matches.get(key, [])
        if not partners and join.how == "left":
            partners = [empty]
        joined += [row | public for public in partners]
    return joined


def run(aggregate: Aggregate, tables: Tables, salt: Salt) -> Groups:
    """Evaluate an aggregate: group the rows of its relation, add up."""
    groups: dict[tuple[Code, ...], Rows] = defaultdict(list)
    for row in rows_of(aggregate.relation, tables, salt):
        groups[tuple(row[f"k{i}"] for i in range(len(aggregate.keys)))].append(row)
    if not aggregate.keys:
        groups.setdefault((), [])
    return {
        keys: tuple(_add(m, f"v{i}", rows) for i, m in enumerate(aggregate.measures))
        for keys, rows in groups.items()
    }


def _add(measure: Measure, column: str, rows: Rows) -> int:
    if measure.kind is MeasureKind.UNITS:
        return len({row[UNIT] for row in rows}) if rows and UNIT in rows[0] else len(rows)
    values = [v for row in rows if (v := row[column]) is not None]
    if measure.kind is MeasureKind.DISTINCT:
        return len(set(values))
    return sum(v for v in values if isinstance(v, int))
