# ruff: noqa: DTZ001, E501 - unmarked timestamps are UTC; long tables; our own statements
"""Files and frames in which one row is broken: only that row may change.

Every check is exact. The neighbour of a table is the table with one more row, so
whatever a row holds, counts may move by one and sums by one clamped value, and
opening must succeed or fail for both.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet import engines, sql
from discreet import plan as pl
from discreet import policy as pol
from discreet.engines._dialect import DuckDB
from discreet.errors import EngineError, SchemaError, UnprovenStatementError

SALT = pl.Salt(b"sources")
POLICY = pol.Policy(
    [
        pol.Table(
            "people",
            [
                pol.Integer("age", 0, 99),
                pol.Real("pay", 0, 10, step="0.5"),
                pol.Boolean("member"),
                pol.Date("joined", "2000-01-01", "2020-01-01"),
                pol.Timestamp("seen", "2000-01-01", "2020-01-01", step=3600),
                pol.Category("grade", values=[1, 2, 3], other=9),
                pol.Category("sex", values=["F", "M"]),
                pol.Text("town"),
            ],
        )
    ],
    pol.Budget("1"),
)
NAMES = list(POLICY.table("people").columns)
TEXT = (
    "SELECT COUNT(*) AS n, COUNT(town) AS t, SUM(age) AS a, SUM(pay) AS p, COUNT(member) AS m, "
    "COUNT(joined) AS j, COUNT(seen) AS s, COUNT(grade) AS g, COUNT(sex) AS x FROM people"
)


def aggregate():
    return pl.lower(sql.parse(TEXT, POLICY).query).aggregates[0]


def measured(source):
    engine = engines.connect(source, POLICY)
    try:
        (total,) = engine.execute(aggregate(), SALT).values()
    finally:
        engine.close()
    return total


def moved(source, base):
    """How far one more row moved each sum."""
    return [abs(a - b) for a, b in zip(measured(source), base, strict=True)]


ROWS = next(i for i, m in enumerate(aggregate().measures) if m.expr.type.is_constant)
"""Place of COUNT(*) among the sums."""

BOUNDS = [abs(pl.sensitivity(aggregate(), m).l1) for m in aggregate().measures]

# -- CSV --------------------------------------------------------------------------

HEADER = b"age,pay,member,joined,seen,grade,sex,town\n"
LINE = b"%d,1.5,true,2010-01-01,2010-01-01 05:00:00,2,F,Ulm\n"
LINES = b"".join(LINE % (i % 90) for i in range(60))

BROKEN = {
    "other separator": b"7;1;true;2010-01-01;2010-01-01;1;F;Ulm\n",
    "many separators": b"7|7|7|7|7|7|7|7|7|7\n",
    "too many cells": b"7,1,true,2010-01-01,2010-01-01,1,F,Ulm,and,so,on\n",
    "too few cells": b"7\n",
    "empty line": b"\n",
    "comment": b"# 7,1,true,2010-01-01,2010-01-01,1,F,Ulm\n",
    "not UTF-8": b"7,1,true,2010-01-01,2010-01-01,1,F,\xff\xfe\n",
    "cut UTF-8": b"7,1,true,2010-01-01,2010-01-01,1,F,\xe2\x82\n",
    "NUL": b"7,1,true,2010-01-01,2010-01-01,1,F,\x00\n",
    "other line end": b"7,1,true,2010-01-01,2010-01-01,1,F,Ulm\r\n",
    "quote inside": b'7,1,true,2010-01-01,2010-01-01,1,F,a"b\n',
    "text after quote": b'"7"x,1,true,2010-01-01,2010-01-01,1,F,Ulm\n',
    "single quotes": b"'7','1','true','2010-01-01','2010-01-01','1','F','U,lm'\n",
    "line break in quotes": b'7,1,true,2010-01-01,2010-01-01,1,F,"U\nlm"\n',
    "overflow": b"9" * 60 + b",1e999,2,99999-01-01,294247-01-11,99999999999999999999999,F,Ulm\n",
    "wrong types": b"x,x,x,x,x,x,x,x\n",
    "impossible dates": b"7,1,true,2010-02-31,2010-13-01 25:61:61,1,F,Ulm\n",
    "infinities": b"infinity,-inf,nan,infinity,-infinity,nan,F,Ulm\n",
    "header again": HEADER,
    "huge cell": b"7,1,true,2010-01-01,2010-01-01,1,F," + b"x" * 3_000_000 + b"\n",
    "huge line": b"7,1,true,2010-01-01,2010-01-01,1,F," + b"x" * 40_000_000 + b"\n",
}


@pytest.mark.parametrize("place", ["first", "last"])
@pytest.mark.parametrize("row", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_csv_row_changes_itself_only(tmp_path, row, place):
    path = tmp_path / "people.csv"
    path.write_bytes(HEADER + LINES)
    base = measured(path)
    path.write_bytes(HEADER + (row + LINES if place == "first" else LINES + row))
    assert all(d <= bound for d, bound in zip(moved(path, base), BOUNDS, strict=True))


def test_unreadable_cells_are_null_and_their_row_stays(tmp_path):
    path = tmp_path / "people.csv"
    path.write_bytes(HEADER + LINES)
    base = measured(path)
    path.write_bytes(HEADER + LINES + BROKEN["wrong types"])
    assert moved(path, base) == [1, 1, 0, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("separator", [b",", b";", b"\t", b"|"])
def test_the_header_decides_the_separator(tmp_path, separator):
    path = tmp_path / "people.csv"
    path.write_bytes((HEADER + LINES).replace(b",", separator) + b",,,;;;|||\t\t\n")
    assert measured(path)[ROWS] == 61


def test_files_with_different_headers_are_refused(tmp_path):
    (tmp_path / "a.csv").write_bytes(HEADER + LINES)
    (tmp_path / "b.csv").write_bytes(b"pay,age" + HEADER[7:] + LINES)
    with pytest.raises(SchemaError, match="header"):
        measured(str(tmp_path / "*.csv"))


# -- frames of objects ------------------------------------------------------------

ROW = [7, 1.5, True, dt.date(2010, 1, 1), dt.datetime(2010, 1, 1, 5), 2, "F", "Ulm"]
MANY = 1100
"""More rows than the sample from which DuckDB guesses a type."""


class Hostile:
    """A value that fails however it is touched."""

    def _fail(self, *_):
        raise RuntimeError("a secret")

    __str__ = __repr__ = __eq__ = __lt__ = __float__ = __int__ = __bool__ = _fail
    __hash__ = None


ODD = [
    "x", "", b"\xff", 10**30, -(10**400), -1.5, 1e308, math.nan, math.inf, None, pd.NaT, pd.NA, 5,
    True, [1], {"a": 1}, Decimal("NaN"), Decimal("1e99"), dt.date(9999, 12, 31),
    dt.datetime(1, 1, 1), dt.datetime(2010, 1, 1, tzinfo=dt.UTC), dt.date(1, 1, 1), "\ud800",
    np.int64(3), np.float32(2.5), np.datetime64("2010-01-01"), np.array([1, 2]), 1 + 2j, Hostile(),
]  # fmt: skip


def objects(rows):
    """A frame whose columns have no type of their own."""
    columns = {}
    for i, name in enumerate(NAMES):
        values = np.empty(len(rows), dtype=object)
        for j, row in enumerate(rows):
            values[j] = row[i]
        columns[name] = pd.Series(values, dtype=object)
    return pd.DataFrame(columns)


@pytest.fixture(scope="module")
def base():
    return measured(objects([ROW] * MANY))


@pytest.mark.parametrize("place", [0, MANY])
@pytest.mark.parametrize("value", ODD, ids=lambda v: type(v).__name__)
def test_an_odd_object_changes_its_own_row_only(value, place, base):
    rows = [ROW] * MANY
    rows.insert(place, [value] * len(NAMES))
    assert all(d <= b for d, b in zip(moved(objects(rows), base), BOUNDS, strict=True))


def test_objects_of_the_right_type_mean_what_they_mean_in_typed_columns():
    rows = [
        ROW,
        [200, 99.0, False, dt.date(1990, 1, 1), dt.datetime(2030, 1, 1), 3, "M", None],
        [None] * 8,
        [0, 0.25, True, dt.date(2015, 5, 5), dt.datetime(2015, 5, 5), 5, "Q", "ω"],
    ]
    reference = pl.run(
        aggregate(), {"people": [dict(zip(NAMES, r, strict=True)) for r in rows]}, SALT
    )
    assert measured(objects(rows)) == reference[()]


# -- tables that make engines raise ---------------------------------------------------


def test_extreme_values_of_a_database_change_their_own_row_only():
    """Overflow, infinite dates, NaN: the type allows them, so a row may hold them."""
    duck = duckdb.connect()
    duck.execute(
        "CREATE TABLE people (age HUGEINT, pay DOUBLE, member BOOLEAN, joined DATE, "
        "seen TIMESTAMP, grade BIGINT, sex VARCHAR, town VARCHAR)"
    )
    duck.execute(
        "INSERT INTO people SELECT i % 90, 1.5, true, '2010-01-01', '2010-01-01 05:00', 2, 'F', "
        "'Ulm' FROM range(60) r(i)"
    )
    base = measured(duck)
    low, high = -(2**127), 2**127 - 1
    for row in (
        f"({high}, 'inf', NULL, 'infinity', 'infinity', {2**63 - 1}, '', '')",
        f"({low}, '-inf', true, '-infinity', '-infinity', {-(2**63)}, 'F', chr(0))",
        "(0, 'nan', false, '5877642-06-25 (BC)', '290309-12-22 (BC) 00:00:00', 0, NULL, NULL)",
        "(7, 1e308, true, '5881580-07-10', '294247-01-10 04:00:54.775806', 1, 'F', repeat('x', 9))",
        "(7, 5e-324, true, '2010-01-01', '2010-01-01', 1, 'F', '''; DROP TABLE people; --')",
    ):
        duck.execute("BEGIN")
        duck.execute(f"INSERT INTO people VALUES {row}")
        duck.execute("COMMIT")
        assert all(d <= b for d, b in zip(moved(duck, base), BOUNDS, strict=True)), row
        duck.execute("DELETE FROM people WHERE rowid = (SELECT max(rowid) FROM people)")


# -- files with statistics -----------------------------------------------------------

DOUBLES = pol.Policy(
    [
        pol.Table(
            "people",
            [
                pol.Integer("whole", 0, 9),
                pol.Integer("dropped", 0, 9, outside="null"),
                pol.Integer("filled", 0, 9, null=3),
                pol.Real("real", 0, 9, step="0.5"),
                pol.Real("coarse", 0, 9, step=3),
                pol.Boolean("flag"),
                pol.Category("some", values=[1, 2]),
                pol.Category("other", values=[1, 2], other=9),
                pol.Category("truth", values=[True, False]),
            ],
        )
    ],
    pol.Budget("1"),
)
EVERYTHING = ", ".join(
    f"COUNT({c}) AS n_{c}, SUM(CASE WHEN {c} = {1 if c not in ('flag', 'truth') else 'TRUE'} THEN 1 ELSE 0 END) AS s_{c}"
    for c in DOUBLES.table("people").columns
)


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, None, 1e308, -0.0, 0.5, 7.0])
@pytest.mark.parametrize("usual", [[1.0], [1.0, 2.0], [0.0, 1.0]])
@pytest.mark.parametrize("form", ["file", "view"])
def test_statistics_of_a_file_do_not_change_what_a_value_means(tmp_path, odd, usual, form):
    """The statistics of Parquet leave NaN out, so engines prove comparisons that do not hold."""
    names = list(DOUBLES.table("people").columns)
    rows = [dict.fromkeys(names, usual[i % len(usual)]) for i in range(50)]
    rows.append(dict.fromkeys(names, odd))
    table = pa.Table.from_pylist(rows, schema=pa.schema([(n, pa.float64()) for n in names]))
    source = path = tmp_path / "people.parquet"
    pq.write_table(table, path)
    if form == "view":
        source = duckdb.connect()
        source.execute(f"CREATE VIEW people AS SELECT * FROM '{path}'")
    asked = f"SELECT {EVERYTHING} FROM people"
    for text in (asked, "SELECT other, COUNT(*) AS n FROM people GROUP BY other"):
        (aggregate,) = pl.lower(sql.parse(text, DOUBLES).query).aggregates
        engine = engines.connect(source, DOUBLES)
        assert engine.execute(aggregate, SALT) == pl.run(aggregate, {"people": rows}, SALT)


def test_without_the_guards_a_nan_stops_the_engine(tmp_path, monkeypatch):
    """Mutant: a comparison alone keeps NaN from the cast; no proof, and no run."""
    monkeypatch.setattr(DuckDB, "rounded", lambda _self, x: f"CAST({x} AS BIGINT)")
    rows = [{"pay": x} for x in (1.0, 2.0, math.nan)]
    own = pol.Policy([pol.Table("people", [pol.Real("pay", 0, 9, step="0.5")])], pol.Budget("1"))
    path = tmp_path / "people.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    (aggregate,) = pl.lower(sql.parse("SELECT SUM(pay) AS s FROM people", own).query).aggregates
    with pytest.raises(UnprovenStatementError):
        engines.connect(path, own).proof(aggregate)
    with pytest.raises(EngineError):
        engines.connect(path, own).execute(aggregate, SALT)
