"""Tables of extremes: every physical type at the ends of its range, under random questions.

Whatever a source holds, a run gives the integers of the reference and never
fails, and the verifier proves each statement from the physical types alone.
All draws are seeded, so these tests hold or fail with certainty.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import math
import random
import struct
from dataclasses import dataclass
from decimal import Decimal
from functools import partial

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet import engines, plan, sql
from discreet import policy as pol
from discreet.engines._dialect import Dialect, DuckDB
from discreet.engines._frames import MEND
from discreet.errors import EngineError, ParameterError, QueryError, UnprovenStatementError

SALT = plan.Salt(b"extremes")
POWERS = (0, 7, 8, 15, 16, 31, 32, 53, 62, 63, 64, 127)
EDGES = sorted({s * 2**k + d for k in POWERS for d in (-1, 0, 1) for s in (1, -1)} | {0, 7, 40})
DOUBLES = (
    0.0, -0.0, 5e-324, -5e-324, 0.5, 2.5, -2.5, 1.0, 3.0, 40.0, 2.0**31, 2.0**53 + 2, 2.0**62,
    2.0**63, -(2.0**63), 2.0**64, 1e300, -1e300, 1.7976931348623157e308, math.inf, -math.inf,
    math.nan,
)  # fmt: skip
BLOBS = (b"", b"F", b"M", b"k3", b"x" * 5000, b"\xff\xfe", b"a\xe2\x82", b"\x00", "ä😀".encode(),
         b"'; --", b'"', b"7", b"007", b"\xed\xa0\x80")  # fmt: skip
FAR = dt.datetime(9999, 12, 31), dt.datetime(1, 1, 1)  # noqa: DTZ001 - UTC, unmarked
TICKS = {"s": 10**6, "ms": 10**3, "us": 1}
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - unmarked timestamps are UTC


@dataclass(frozen=True)
class Cell:
    """A value as the source holds it, and what it means."""

    held: object
    means: object


def moment(unit, n):
    """What n units since 1970 are, or a far instant in their place."""
    micros = n // 1000 if unit == "ns" else n * TICKS[unit]
    try:
        return _EPOCH + dt.timedelta(microseconds=micros)
    except OverflowError:
        return FAR[n < 0]


def same(values):
    return [Cell(v, v) for v in values]


def integers(low, high):
    return same(n for n in EDGES if low <= n <= high)


def decimals(digits, scale):
    top = 10**digits - 1
    codes = {0, 1, -1, 10**scale, 3 * 10**scale, -(10**scale), top, -top, top // 2}
    return same(Decimal(f"{n}e-{scale}") for n in codes if abs(n) <= top)


def ticks(unit):
    day = {"s": 86400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}[unit]
    inside = {day * k + d for k in (-25_000, -1, 0, 1, 365, 20_000, 40_000) for d in (-1, 0, 1)}
    numbers = {n for n in EDGES if -(2**63) <= n < 2**63} | inside
    return [Cell(n, moment(unit, n)) for n in sorted(numbers) if abs(n) < 2**63 or n == -(2**63)]


def text(blob):
    return Cell(blob, blob.decode("utf-8", MEND))


def broken(held):
    """Whether bytes are no text: as a unit they are nobody, so that no two people become one."""
    return isinstance(held, bytes) and held.decode("utf-8", "ignore").encode() != held


def days():
    numbers = [n for n in EDGES if -(2**31) <= n < 2**31]
    return [Cell(n, moment("s", n * 86400)) for n in [*numbers, 20_000, -25_000, 40_000]]


ARROW = {
    **{f"int{b}": (getattr(pa, f"int{b}")(), integers(-(2 ** (b - 1)), 2 ** (b - 1) - 1))
       for b in (8, 16, 32, 64)},
    **{f"uint{b}": (getattr(pa, f"uint{b}")(), integers(0, 2**b - 1)) for b in (8, 16, 32, 64)},
    "half": (pa.float16(), [Cell(np.float16(x), float(np.float16(x)))
                            for x in DOUBLES if not 65504 < abs(x) < math.inf]),
    "single": (pa.float32(), [Cell(x, float(np.float32(x)))
                              for x in DOUBLES if not 3e38 < abs(x) < math.inf]),
    "double": (pa.float64(), same(DOUBLES)),
    **{f"decimal{p}_{s}": (pa.decimal128(p, s), decimals(p, s))
       for p, s in ((4, 4), (5, 2), (18, 3), (38, 0), (38, 10), (38, 37), (38, 38))},
    "text": (pa.string(), [text(b) for b in BLOBS]),
    "large text": (pa.large_string(), [text(b) for b in BLOBS]),
    "truth": (pa.bool_(), same([True, False])),
    "date": (pa.date32(), days()),
    "date64": (pa.date64(), [Cell(n, moment("ms", n)) for n in EDGES if -(2**63) <= n < 2**63]),
    **{f"time {u} {z}": (pa.timestamp(u, z), ticks(u))
       for u in ("s", "ms", "us", "ns") for z in (None, "UTC")},
}  # fmt: skip


def column_of(kind, cells):
    """Arrow column of bits that no checked constructor would take."""
    held = [c.held for c in cells]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        binary = pa.binary() if pa.types.is_string(kind) else pa.large_binary()
        return pa.array(held, binary).view(kind)
    if pa.types.is_temporal(kind):
        width = "i" if kind == pa.date32() else "q"
        data = b"".join(struct.pack(f"<{width}", 0 if v is None else v) for v in held)
        marks = np.packbits([v is not None for v in held], bitorder="little").tobytes()
        return pa.Array.from_buffers(kind, len(held), [pa.py_buffer(marks), pa.py_buffer(data)])
    return pa.array(held, kind)


# -- policies -----------------------------------------------------------------------------


def numeric(draw, name, family):
    low, high = sorted(draw.sample([n for n in EDGES if abs(n) < 2**62], 2))
    if family != "float":
        # bounds that no value of the type meets are refused by the verifier, not proved
        low, high = min(low, 0), max(high, 0)
    outside = draw.choice(["clamp", "null"])
    step = draw.choice(["0.01", "0.5", "1/3", 1, 3, 1024])
    small = [int(n) for n in draw.sample([*range(-20, 60)], draw.choice([1, 3, 25]))]
    wide = draw.sample(
        [n for n in EDGES if abs(n) <= (2**53 if family == "float" else 2**62 - 1)], 3
    )
    choices = [
        lambda: pol.Integer(name, low, high, outside=outside, null=draw.choice([None, low])),
        lambda: pol.Real(name, -307_200, 307_200, step, outside=outside),
        lambda: pol.Boolean(name),
        lambda: pol.Category(name, small, other=draw.choice([None, 999])),
        lambda: pol.Category(name, wide, other=draw.choice([None, 999])),
        lambda: pol.Category(name, list(range(-2, 5))),
        lambda: pol.Category(name, [True, False]),
    ]
    if family == "integer":
        choices.append(lambda: pol.Text(name))
    return draw.choice(choices)()


def declared(draw, name, family):
    """A random column of a policy that may be read from a family of types."""
    outside = draw.choice(["clamp", "null"])
    span = draw.choice([("1900-01-01", "2100-01-01"), ("1970-01-01", "1970-01-02")])
    match family:
        case "integer" | "float" | "decimal":
            return numeric(draw, name, family)
        case "text":
            labels = draw.choice([["F", "M"], [*(f"k{i}" for i in range(30)), "F", "'; --"]])
            return draw.choice([
                pol.Text(name), pol.Category(name, labels, other=draw.choice([None, "rest"])),
            ])  # fmt: skip
        case "boolean":
            return draw.choice([pol.Boolean(name, null=True), pol.Category(name, [False, True])])
    return draw.choice([
        pol.Date(name, *span, outside=outside),
        pol.Timestamp(name, *span, draw.choice(["0.000001", 1, 3600]), outside=outside),
    ])  # fmt: skip


def family(kind):
    types = pa.types
    if types.is_integer(kind):
        return "integer"
    if types.is_floating(kind):
        return "float"
    if types.is_decimal(kind):
        return "decimal"
    if types.is_string(kind) or types.is_large_string(kind):
        return "text"
    return "boolean" if types.is_boolean(kind) else "moment"


# -- questions ----------------------------------------------------------------------------


def literal(column, draw):
    match column:
        case pol.Integer() | pol.Real():
            return str(draw.choice(EDGES[20:-20]))
        case pol.Category():
            label = draw.choice(column.values)
            if isinstance(label, bool):
                return str(label).upper()
            return str(label) if isinstance(label, int) else "'" + label.replace("'", "''") + "'"
        case pol.Boolean():
            return "TRUE"
        case pol.Date():
            return "DATE '1970-01-01'"
        case pol.Timestamp():
            return "TIMESTAMP '1970-01-01 12:00:00'"
    return "'F'"


def condition(columns, draw):
    column = draw.choice(columns)
    return draw.choice([
        f"{column.name} {draw.choice(['=', '<>', '<', '>='])} {literal(column, draw)}",
        f"{column.name} IS NOT NULL", f"{column.name} IN ({literal(column, draw)})",
    ])  # fmt: skip


def measure(columns, draw):
    column = draw.choice(columns)
    name = column.name
    if isinstance(column, pol.Integer | pol.Real):
        return draw.choice([
            f"SUM({name})", f"AVG({name})", f"SUM({name} * 2 + 1)", f"COUNT(DISTINCT {name})",
            f"SUM(CASE WHEN {condition(columns, draw)} THEN {name} ELSE 1 END)", f"VAR({name})",
            f"SUM(ABS({name}) / 7)",
        ])  # fmt: skip
    return draw.choice([f"COUNT({name})", f"COUNT(DISTINCT {name})", "COUNT(*)"])


def question(columns, draw):
    measures = ", ".join(f"{measure(columns, draw)} AS m{i}" for i in range(draw.randint(1, 3)))
    where = f" WHERE {condition(columns, draw)}" if draw.random() < 0.5 else ""
    if draw.random() < 0.5:
        return f"SELECT {measures} FROM people{where}"
    key = draw.choice(columns).name
    return f"SELECT {key}, {measures} FROM people{where} GROUP BY {key}"


# -- worlds -------------------------------------------------------------------------------


class World:
    """A few columns of extremes, the policy over them, and their meaning."""

    def __init__(self, draw, kinds):
        chosen = {f"c{i}": draw.choice(list(kinds)) for i in range(6)}
        cells = {n: [*kinds[k][1], Cell(None, None)] for n, k in chosen.items()}
        count = max(map(len, cells.values()))
        self.cells = {
            n: [*pool, *draw.choices(pool, k=count - len(pool))] for n, pool in cells.items()
        }
        for pool in self.cells.values():
            draw.shuffle(pool)
        self.types = {n: kinds[k][0] for n, k in chosen.items()}
        families = {n: kinds[k][2] if len(kinds[k]) > 2 else family(kinds[k][0])
                    for n, k in chosen.items()}  # fmt: skip
        self.columns = [declared(draw, n, f) for n, f in families.items()]
        units = [n for n, f in families.items() if f in ("integer", "text")]
        limits = {}
        if units and draw.random() < 0.6:
            limits = {"unit": draw.choice(units), "max_rows_per_unit": draw.choice([1, 3])}
            self.columns = [c for c in self.columns if c.name != limits["unit"]]
        self.policy = pol.Policy([pol.Table("people", self.columns, **limits)], pol.Budget("1"))
        self.rows = [{n: pool[i].means for n, pool in self.cells.items()} for i in range(count)]
        if unit := limits.get("unit"):
            for row, cell in zip(self.rows, self.cells[unit], strict=True):
                row[unit] = None if broken(cell.held) else row[unit]

    def arrow(self):
        return pa.table({n: column_of(self.types[n], c) for n, c in self.cells.items()})

    def check(self, source, draw, count, rows=None):
        """Ask questions until `count` of them were accepted; all agree and are proved."""
        engine = engines.connect(source, self.policy)
        asked = 0
        for _ in range(20 * count):
            asked += self.ask(engine, question(self.columns, draw), rows or self.rows)
            if asked == count:
                break
        engine.close()
        return asked

    def ask(self, engine, text, rows):
        try:
            aggregates = plan.lower(sql.parse(text, self.policy).query).aggregates
        except (QueryError, ParameterError):
            return 0
        for aggregate in aggregates:
            if not aggregate.measures:
                continue
            assert engine.proof(aggregate) is not None
            try:
                got = engine.execute(aggregate, SALT)
            except EngineError:
                pytest.fail(f"{text}\n{self.policy.tables}\n{engine.sql(aggregate)}")
            assert got == plan.run(aggregate, {"people": rows}, SALT), (text, self.policy.tables)
        return 1


# -- kinds of sources -----------------------------------------------------------------------


def as_parquet(world, folder, draw):
    path = folder / "people.parquet"
    pq.write_table(world.arrow(), path, use_dictionary=draw.random() < 0.5, version="2.6",
                   row_group_size=draw.choice([7, 1000]))  # fmt: skip
    return path


def as_pandas(world, *_):
    return world.arrow().to_pandas(types_mapper=pd.ArrowDtype)


def as_polars(world, *_):
    return pl.from_arrow(world.arrow())


def as_database(world, folder, _):
    path = folder / "people.duckdb"
    path.unlink(missing_ok=True)
    with duckdb.connect(str(path)) as database:
        database.register("given", world.arrow())
        database.execute("CREATE TABLE people AS FROM given")
    return path


def without(*names, valid=False):
    kinds = {k: v for k, v in ARROW.items() if not any(n in k for n in names)}
    if valid:  # text that such a source can hold at all
        for name in ("text", "large text"):
            kinds[name] = (ARROW[name][0], [c for c in ARROW[name][1] if "?" not in c.means])
    return kinds


SOURCES = {
    "arrow": (ARROW, lambda world, *_: world.arrow()),
    "parquet": (without("time s", "date64"), as_parquet),
    "pandas": (without("half", "date64"), as_pandas),
    "polars": (without("half", "date64", "time s", "decimal", valid=True), as_polars),
    "database": (without("half", "date64", "time s UTC", "time ms UTC", valid=True), as_database),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("source", SOURCES)
def test_no_value_of_any_type_fails_a_run(tmp_path, source, seed):
    soak(tmp_path, source, seed, 6)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1200))
@pytest.mark.parametrize("source", SOURCES)
def test_no_value_of_any_type_fails_a_run_at_length(tmp_path, source, seed):
    soak(tmp_path, source, seed, 20)


def soak(folder, source, seed, count, only=None):
    draw = random.Random(f"{source} {seed}")
    kinds, make = SOURCES[source]
    world = World(draw, only or kinds)
    assert world.check(make(world, folder, draw), draw, count) == count


@pytest.mark.parametrize("outside", ["clamp", "null"])
@pytest.mark.parametrize("bound", [2**53 + 1, 2**60 + 1, 2**62 - 1])
def test_a_bound_that_is_no_double_is_the_bound(bound, outside):
    """What lies below or above is the bound itself, not its nearest double."""
    values = [-math.inf, -9e18, -float(bound), 0.0, float(bound), 9e18, math.inf, math.nan, None]
    column = pol.Integer("x", -bound, bound, outside=outside)
    policy = pol.Policy([pol.Table("people", [column])], pol.Budget("1"))
    asked = plan.lower(sql.parse("SELECT SUM(x / 2) AS s FROM people", policy).query).aggregates[0]
    for value in values:
        engine = engines.connect(pa.table({"x": pa.array([value], pa.float64())}), policy)
        rows = {"people": [{"x": value}]}
        assert engine.execute(asked, SALT) == plan.run(asked, rows, SALT), value
        engine.close()


# -- PostgreSQL ------------------------------------------------------------------------------

ENDS = {"infinity": FAR[0], "-infinity": FAR[1]}
MOMENTS = {
    **ENDS, "4713-01-01 00:00:00 BC": FAR[1], "294276-12-31 23:59:59.999999": FAR[0],
    "1970-01-01 00:00:00": _EPOCH,
    "1969-12-31 23:59:59.999999": _EPOCH - dt.timedelta(microseconds=1),
    "2024-02-29 12:00:00": dt.datetime(2024, 2, 29, 12),  # noqa: DTZ001 - UTC
}  # fmt: skip
DAYS = {**ENDS, "4713-01-01 BC": FAR[1], "5874897-12-31": FAR[0], "1970-01-01": _EPOCH.date(),
        "2024-02-29": dt.date(2024, 2, 29)}  # fmt: skip
NUMERICS = (
    "0",
    "1",
    "3",
    "-1",
    "0.5",
    "1e-400",
    "-1e-400",
    "1e400",
    "-1e400",
    "9223372036854775807.5",
    "2.5",
    str(2**127),
    str(-(2**63)),
    "0." + "9" * 60,
)


def pairs(values):
    return [Cell(k, v) for k, v in values.items()]


def zoned(text):
    """The same instant with its zone: before the era, not after infinity."""
    if "inf" in text:
        return text
    return text.replace(" BC", "+00 BC") if "BC" in text else text + "+00"


POSTGRES = {
    **{f"int{b}": (f"int{b}", integers(-(2 ** (8 * b - 1)), 2 ** (8 * b - 1) - 1), "integer")
       for b in (2, 4, 8)},
    "float4": ("float4", [c for c in ARROW["single"][1] if c.means or not c.held], "float"),
    "float8": ("float8", ARROW["double"][1], "float"),
    "numeric": ("numeric", [*(Cell(Decimal(n), Decimal(n)) for n in NUMERICS),
                            Cell("NaN", math.nan), Cell("Infinity", math.inf),
                            Cell("-Infinity", -math.inf)], "decimal"),
    "text": ("text", same(["", "F", "M", "k3", "x" * 5000, "ä😀", "'; --", "7", "007"]), "text"),
    "bool": ("bool", same([True, False]), "boolean"),
    "date": ("date", pairs(DAYS), "moment"),
    "timestamp": ("timestamp", pairs(MOMENTS), "moment"),
    "timestamptz": ("timestamptz", [Cell(zoned(k), v) for k, v in MOMENTS.items()], "moment"),
}  # fmt: skip


def soak_postgres(url, seed, count):
    draw = random.Random(f"postgres {seed}")
    world = World(draw, POSTGRES)
    with psycopg.connect(url, autocommit=True) as connection:
        types = ", ".join(f"{n} {t}" for n, t in world.types.items())
        connection.execute("DROP TABLE IF EXISTS pg_temp.people")
        connection.execute(f"CREATE TEMP TABLE people ({types})")
        marks = ", ".join(f"%s::{t}" for t in world.types.values())
        cursor = connection.cursor()
        cursor.executemany(
            f"INSERT INTO people VALUES ({marks})",
            [[pool[i].held for pool in world.cells.values()] for i in range(len(world.rows))],
        )
        assert world.check(connection, draw, count) == count


@pytest.mark.parametrize("seed", range(6))
def test_no_value_in_postgres_fails_a_run(postgres_url, seed):
    soak_postgres(postgres_url, seed, 6)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_no_value_in_postgres_fails_a_run_at_length(postgres_url, seed):
    soak_postgres(postgres_url, seed, 20)


# -- CSV --------------------------------------------------------------------------------------

WRITTEN = {
    "integer": (None, integers(-(2**127), 2**127 - 1), "integer"),
    "real": (None, same(DOUBLES), "float"),
    "text": (None, [text(b) for b in BLOBS if b], "text"),
}


def soak_csv(folder, seed, count):
    draw = random.Random(f"csv {seed}")
    world = World(draw, WRITTEN)
    world.columns = [
        pol.Real(c.name, -307_200, 307_200, "0.5")
        if any(isinstance(cell.held, float) for cell in world.cells[c.name]) else c
        for c in world.columns
    ]  # fmt: skip
    table = world.policy.tables["people"]
    limits = {} if table.unit is None else {"unit": table.unit, "max_rows_per_unit": 1}
    world.policy = pol.Policy([pol.Table("people", world.columns, **limits)], pol.Budget("1"))
    lines = io.StringIO()
    writer = csv.writer(lines, quoting=csv.QUOTE_ALL)
    writer.writerow(list(world.cells))
    for i in range(len(world.rows)):
        held = [pool[i].held for pool in world.cells.values()]
        writer.writerow(["" if v is None else v.decode("latin-1") if isinstance(v, bytes) else
                         repr(v) for v in held])  # fmt: skip
    path = folder / "people.csv"
    path.write_bytes(lines.getvalue().encode("latin-1"))
    rows = world.rows
    if table.unit is not None:  # a unit in CSV is text
        rows = [
            r | {table.unit: None if r[table.unit] is None else str(r[table.unit])} for r in rows
        ]
    return world.check(path, draw, count, rows)


@pytest.mark.parametrize("seed", range(6))
def test_no_cell_of_a_csv_file_fails_a_run(tmp_path, seed):
    assert soak_csv(tmp_path, seed, 6) == 6


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1100))
def test_no_cell_of_a_csv_file_fails_a_run_at_length(tmp_path, seed):
    assert soak_csv(tmp_path, seed, 20) == 20


# -- mutants ----------------------------------------------------------------------------------

MUTANTS = {
    "instants": ("time", "micros", lambda _self, x, _found: f"epoch_us({x})"),
    "decimals": ("decimal", "place", Dialect.place),
    "integers": ("int64", "whole", lambda _self, x, _found, _bounds: f"CAST({x} AS BIGINT)"),
    "doubles": ("double", "as_double", lambda _self, x, _found: f"CAST({x} AS FLOAT)"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_cleaning_without_a_guard_is_caught(tmp_path, monkeypatch, mutant):
    part, method, wrong = MUTANTS[mutant]
    kinds = {k: v for k, v in ARROW.items() if part in k}
    soaks = [partial(soak, tmp_path, "arrow", seed, 6, kinds) for seed in range(12)]
    for work in soaks[:2]:
        work()
    monkeypatch.setattr(DuckDB, method, wrong)
    assert any(fails(work) for work in soaks)


def fails(work):
    try:
        work()
    except (AssertionError, UnprovenStatementError, pytest.fail.Exception):
        return True
    return False
