"""Attacks on sources that once worked, each a test: no row decides about a run or another row.

Every check is exact; nothing here is random without a fixed seed, so no test
can fail by chance.
"""

from __future__ import annotations

import csv
import gzip
import io
import random
import struct
import sys
import threading
from decimal import Decimal
from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import discreet as dc
from discreet import engines, plan, sql
from discreet import policy as pol
from discreet.engines import _csv, _duckdb, _sources
from discreet.engines._frames import MEND
from discreet.errors import SchemaError
from discreet.plan import Scan

SALT = plan.Salt(b"review")


def policy(*columns, **choices):
    return pol.Policy([pol.Table("people", columns, **choices)], pol.Budget("1"), name="review")


def aggregates(text, own):
    return plan.lower(sql.parse(text, own).query).aggregates


def ran(source, own, *texts):
    """Exact integers of questions, straight from the engine."""
    engine = engines.connect(source, own)
    try:
        return [engine.execute(a, SALT) for text in texts for a in aggregates(text, own)]
    finally:
        engine.close()


def raw(kind, values, width="q"):
    """Arrow column made of bits, however impossible."""
    data = b"".join(struct.pack(f"<{width}", v) for v in values)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(data)])


def texts(blobs, kind=None):
    """Arrow text that need not be UTF-8."""
    ends = np.cumsum([0] + [len(b) for b in blobs]).astype(np.int32)
    buffers = [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(b"".join(blobs))]
    return pa.Array.from_buffers(kind or pa.string(), len(blobs), buffers)


def parquet(folder, table, **choices):
    path = folder / "people.parquet"
    pq.write_table(table, path, **choices)
    return path


# -- A1, second row: integer categories over decimals -------------------------------

DECIMALS = [(5, 4), (4, 4), (9, 9), (18, 18), (38, 37), (38, 38), (38, 20), (38, 0)]
LABELS = [
    [0, 1],
    list(range(-10, 10)),
    [1, 100],
    [1, 10**12],
    [-5, 3, 4 * 10**18],
    list(range(-3, 40, 2)),
]


@pytest.mark.parametrize("labels", LABELS, ids=str)
@pytest.mark.parametrize("size", DECIMALS, ids=str)
def test_category_labels_that_a_decimal_cannot_hold_fail_no_run(tmp_path, size, labels):
    digits, scale = size
    step = Decimal(1).scaleb(-scale)
    values = [Decimal(0), step, -step, None, *([Decimal(1), Decimal(3)] if digits > scale else [])]
    column = pa.array(values, pa.decimal128(digits, scale))
    for other in (None, 77):
        own = policy(pol.Category("x", labels, other=other), pol.Boolean("y"))
        table = pa.table({"x": column, "y": column})
        rows = [{"x": v, "y": v} for v in values]
        asked = (
            "SELECT x, COUNT(*) AS n FROM people GROUP BY x",
            "SELECT COUNT(y) AS n, COUNT(x) AS m FROM people",
        )
        expected = [plan.run(a, {"people": rows}, SALT) for t in asked for a in aggregates(t, own)]
        for source in (table, parquet(tmp_path, table)):
            assert ran(source, own, *asked) == expected


# -- A4: units of different physical types -------------------------------------------

VISITS = pol.Table("visits", [pol.Integer("cost", 0, 9)], unit="id", max_rows_per_unit=1)
PEOPLE = pol.Table("people", [pol.Integer("age", 0, 99)], unit="id", max_rows_per_unit=1)
JOINED = "SELECT COUNT(*) AS n FROM people JOIN visits ON people.id = visits.id"


@pytest.mark.parametrize("ids", [["7", "007"], ["7", "abc"], ["8"]])
def test_text_units_are_not_joined_with_numbers(tmp_path, ids):
    path = tmp_path / "people.csv"
    path.write_text("id,age\n" + "".join(f"{i},30\n" for i in ids))
    own = pol.Policy([PEOPLE, VISITS], pol.Budget("1"))
    visits = pa.table({"id": [7], "cost": [1]})
    with pytest.raises(SchemaError, match="VARCHAR and that of table 'visits' is BIGINT") as error:
        engines.connect({"people": path, "visits": visits}, own)
    assert error.value.hint == 'CAST("id" AS VARCHAR) AS "id"'


def test_text_units_are_not_joined_with_numbers_in_postgres(postgres_url):
    own = pol.Policy([PEOPLE, VISITS], pol.Budget("1"))
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TEMP TABLE people (id text, age int)")
        connection.execute("CREATE TEMP TABLE visits (id bigint, cost int)")
        with pytest.raises(SchemaError, match="text and that of table 'visits' is int8"):
            engines.connect(connection, own)


def test_integer_units_of_any_width_are_compared_without_an_implicit_cast():
    own = pol.Policy([PEOPLE, VISITS], pol.Budget("1"))
    ends = [-(2**63), -1, 0, 2**63 - 1]
    people = pa.table({"id": pa.array(ends, pa.int64()), "age": [1] * 4})
    visits = pa.table({"id": pa.array([0, 2**63 - 1, 2**64 - 1], pa.uint64()), "cost": [1] * 3})
    engine = engines.connect({"people": people, "visits": visits}, own)
    (aggregate,) = aggregates(JOINED, own)
    assert engine.execute(aggregate, SALT) == {(): (2,)}
    assert engine.sql(aggregate).count('CAST("id" AS HUGEINT) AS u') == 2


def test_tables_that_cannot_be_joined_may_have_units_of_different_types():
    other = pol.Table(
        "visits", [pol.Integer("cost", 0, 9)], unit="id", max_rows_per_unit=1,
        neighbours="change-one",
    )  # fmt: skip
    own = pol.Policy([PEOPLE, other], pol.Budget("1"))
    people, visits = pa.table({"id": ["a"], "age": [1]}), pa.table({"id": [7], "cost": [1]})
    engines.connect({"people": people, "visits": visits}, own).close()


# -- B3: the size of a CSV file --------------------------------------------------------

HOSTILE = {
    "invalid utf8": b"B\xff\xfern,40",
    "extra column": b"Basel,40,9",
    "many extra": b"Basel,40,9,9,9,9",
    "missing": b"Basel",
    "stray quote": b'Ba"sel,40',
    "closed quote junk": b'"Basel"x,40',
    "quoted newline": b'"Ba\nsel",40',
    "quoted newlines in both": b'"Ba\nsel\n","4\n0"',
    "quoted CR LF": b'"Ba\r\nsel",40',
    "CR": b"Ba\rsel,40",
    "NUL": b"Ba\x00sel,40",
    "empty": b"",
    "only comma": b",",
    "only quote": b'"',
    "two quotes": b'""',
    "three quotes": b'"""',
    "open quote": b'"Basel,40',
    "open quote at the end": b'Basel,"',
    "open quote and comma": b'Basel,",',
    "open quote after a quoted cell": b'"Basel","40',
    "big": b"x" * (2**24 + 10) + b",40",
    "crlf": b"Basel,40\r",
    "utf8 BOM": b"\xef\xbb\xbfBasel,40",
    "quote quote": b'"Ba""sel",40',
    "escape": b'"Ba\\"sel",40',
    "header": b"city,age",
    "comment": b"# Basel,40",
    "other separators": b"Basel;40|1\t2",
}
USUAL = {
    "plain": [b"Bern,30", b"Basel,40", b"Genf,50"],
    "quoted": [b'"Bern","30"', b'"Ba,sel","40"', b'"Genf",""', b'"","5"'],
    "broken over lines": [b'"Be\nrn","30"', b"Basel,40", b'"G""e""n\nf",50'],
}


def size(path):
    own = policy(pol.Text("city"), pol.Integer("age", 0, 115), neighbours="change-one")
    return ran(path, own, "SELECT COUNT(city) AS c, COUNT(*) AS n FROM people")[0][()][-1]


@pytest.mark.parametrize("usual", USUAL.values(), ids=USUAL)
@pytest.mark.parametrize("row", HOSTILE.values(), ids=HOSTILE)
def test_no_line_of_a_csv_file_changes_its_size(tmp_path, row, usual):
    path = tmp_path / "people.csv"
    for place in range(len(usual)):
        lines = [*usual[:place], row, *usual[place + 1 :]]
        path.write_bytes(b"city,age\n" + b"\n".join(lines) + b"\n")
        assert size(path) == len(usual)


def written(rows, quoting, end):
    """A file as a program writes it, from cells of any bytes."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=quoting, lineterminator=end)
    writer.writerow(["city", "age"])
    writer.writerows([[c.decode("latin-1") for c in row] for row in rows])
    return text.getvalue().encode("latin-1")


PIECES = [b'"', b",", b"\n", b"\r", b"\r\n", b"x", b"\xff", b"\xe2\x82", b"", b"7", b'""', b"\x00"]


@pytest.mark.parametrize("seed", range(60))
def test_whatever_the_cells_hold_each_written_record_is_one_row(tmp_path, seed, monkeypatch):
    """The guarantee of the reader: rows are records, one by one, for cells of any bytes."""
    draw = random.Random(seed)
    monkeypatch.setattr(_csv, "_LONGEST", 2**12)
    monkeypatch.setattr(_csv, "_BLOCK", draw.choice([2**13, 2**14, 2**25]))
    rows = [
        [b"".join(draw.choices(PIECES, k=draw.randrange(6))) for _ in range(2)]
        for _ in range(draw.choice([1, 5, 3000]))
    ]
    quoting = draw.choice([csv.QUOTE_ALL, csv.QUOTE_MINIMAL])
    if quoting == csv.QUOTE_MINIMAL:
        # unquoted, a carriage return at the end of a line is part of the line's end
        rows = [[a, b.rstrip(b"\r")] for a, b in rows]
    path = tmp_path / "people.csv"
    path.write_bytes(written(rows, quoting, draw.choice(["\n", "\r\n"])))
    own = policy(pol.Text("city"), pol.Text("age"))
    read = _csv.Lines(own.tables["people"], [str(path)]).batches().read_all().to_pylist()
    wanted = [[c.decode("utf-8", MEND) or None for c in row] for row in rows]
    assert sorted(map(str, (list(r.values()) for r in read))) == sorted(map(str, wanted))


def test_a_reader_that_joins_lines_carelessly_is_caught(tmp_path, monkeypatch):
    """Mutant: an open quote runs on to the next quote, wherever that is."""
    path = tmp_path / "people.csv"
    path.write_bytes(b'city,age\n"Basel,40\nBern,30\n"Genf","50"\n')
    assert size(path) == 3

    def careless(_self, block, i, cells, _at):
        return next(((j + 1, cells) for j in block.quoted_after(i)), None)

    monkeypatch.setattr(_csv.Lines, "_joined", careless)
    assert size(path) != 3


def test_compressed_files_and_many_files_are_read_alike(tmp_path):
    data = b"city,age\n" + b"".join(b'"Ul\nm",%d\r\n' % (i % 90) for i in range(1000))
    (tmp_path / "one.csv").write_bytes(data)
    (tmp_path / "two.csv.gz").write_bytes(gzip.compress(data))
    assert size(tmp_path / "one.csv") == size(tmp_path / "two.csv.gz") == 1000
    assert size(str(tmp_path / "*.csv*")) == 2000


# -- B4: values that failed a run ------------------------------------------------------

MOMENTS = [2**63 - 1, -(2**63), -(2**63) + 1, 2**62, -(2**62), 10**18, 10**15, 0, -1]
SPAN = ("2000-01-01", "2020-01-01")


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_beyond_the_microsecond_range_lie_outside(tmp_path, unit, zone):
    column = raw(pa.timestamp(unit, zone), MOMENTS)
    table = pa.table({"x": column, "y": column})
    tick = {"s": 10**6, "ms": 10**3, "us": 1, "ns": Fraction(1, 1000)}[unit]
    sources = [table]
    if unit != "s":  # Parquet has no seconds
        sources.append(parquet(tmp_path, table, version="2.6"))
    for outside in ("clamp", "null"):
        own = policy(
            pol.Timestamp("x", *SPAN, 3600, outside=outside), pol.Date("y", *SPAN, outside=outside)
        )
        for source in sources:
            (groups,) = ran(source, own, "SELECT COUNT(x) AS n, COUNT(y) AS m FROM people")
            low, high = (
                (d - np.datetime64("1970-01-01")).astype("timedelta64[us]").astype(int)
                for d in map(np.datetime64, SPAN)
            )
            inside = sum(low <= m * tick < high + 3600 * 10**6 for m in MOMENTS)
            if unit == "us":
                # the ends of this type stand for the infinities, far outside as well
                inside = sum(low <= m < high for m in MOMENTS)
            assert groups[()] == ((len(MOMENTS),) * 2 if outside == "clamp" else (inside,) * 2)


@pytest.mark.parametrize("kind", ["date32", "date64"])
def test_dates_at_the_ends_of_their_type_lie_outside(kind):
    values = [2**31 - 1, -(2**31), -(2**31) + 1, 0]
    column = raw(pa.date32(), values, "i")
    if kind == "date64":
        values = [2**63 - 1, -(2**63), 2**62, 0]
        column = raw(pa.date64(), values)
    own = policy(pol.Date("x", *SPAN, outside="null"), pol.Timestamp("y", *SPAN, outside="null"))
    table = pa.table({"x": column, "y": column})
    (groups,) = ran(table, own, "SELECT COUNT(x) AS n, COUNT(y) AS m FROM people")
    assert groups == {(): (0, 0)}


BAD = [b"\xff\xfe", b"F", b"a\xe2\x82", b"\x00", b"x" * 100_000, b""]
QUESTIONS = [
    "SELECT COUNT(DISTINCT x) AS n, COUNT(c) AS m FROM people",
    "SELECT c, COUNT(*) AS n FROM people GROUP BY c",
    "SELECT x, COUNT(*) AS n FROM people GROUP BY x",
    "SELECT COUNT(*) AS n FROM people WHERE x IN ('F', 'a??')",
]


@pytest.mark.parametrize("unit", [None, "x"])
def test_text_that_is_not_utf8_fails_no_run_and_means_the_same_everywhere(tmp_path, unit):
    limits = {} if unit is None else {"unit": "x", "max_rows_per_unit": 1}
    own = policy(pol.Category("c", ["F", "M"], other="X"), pol.Text("x"), **limits)
    column = texts(BAD)
    plain = pa.table({"c": column, "x": column})
    coded = pa.DictionaryArray.from_arrays(pa.array(range(len(BAD))), column)
    large = texts(BAD).cast(pa.binary()).cast(pa.large_binary()).view(pa.large_string())
    rows = [{n: b.decode("utf-8", MEND) for n in ("c", "x")} for b in BAD]
    if unit is not None:  # mending is not one-to-one: such a unit is nobody
        rows[0]["x"] = rows[2]["x"] = None
    lines = b"c,x\n" + b"".join(b + b"," + b + b"\n" for b in BAD)
    (tmp_path / "people.csv").write_bytes(lines)
    frame = pd.DataFrame({n: pd.array(column, dtype="string[pyarrow]") for n in ("c", "x")})
    sources = [
        plain, plain.to_reader(), pa.table({"c": coded, "x": coded}),
        pa.table({"c": large, "x": large}), parquet(tmp_path, plain),
        parquet(tmp_path, plain, use_dictionary=False), frame,
    ]  # fmt: skip
    for text in QUESTIONS if unit is None else QUESTIONS[:2]:
        expected = [plan.run(a, {"people": rows}, SALT) for a in aggregates(text, own)]
        for source in [s for s in sources if not isinstance(s, pa.RecordBatchReader)]:
            assert ran(source, own, text) == expected
        # in CSV an empty cell is NULL
        held = [{n: v or None for n, v in r.items()} for r in rows]
        expected = [plan.run(a, {"people": held}, SALT) for a in aggregates(text, own)]
        assert ran(tmp_path / "people.csv", own, text) == expected
    assert ran(plain.to_reader(), own, QUESTIONS[0])


def test_half_floats_are_read():
    values = np.array([np.inf, -np.inf, np.nan, -0.0, 5e-8, 1.0, 65504], np.float16)
    column = pa.array(values)
    own = policy(pol.Real("x", 0, 9, "0.5"), pol.Category("c", [0, 1], other=9), pol.Boolean("b"))
    table = pa.table({"x": column, "c": column, "b": column})
    rows = [dict.fromkeys("xcb", float(v)) for v in values]
    text = "SELECT c, SUM(x) AS s, COUNT(b) AS n FROM people GROUP BY c"
    expected = [plan.run(a, {"people": rows}, SALT) for a in aggregates(text, own)]
    assert ran(table, own, text) == expected
    assert ran(table.to_pandas(), own, text) == expected


# -- statistics that lie ---------------------------------------------------------------


def lying(folder):
    """A Parquet file whose footer says that 2^62 + 12345 is 9."""
    table = pa.table({"b": pa.array([1, 5, 2**62 + 12345], pa.int64())})
    path = parquet(folder, table, use_dictionary=False, compression="none")
    data = path.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    true, false = struct.pack("<q", 2**62 + 12345), struct.pack("<q", 9)
    assert true in data[footer:]
    path.write_bytes(data[:footer] + data[footer:].replace(true, false))
    return path


def test_a_footer_that_lies_removes_no_clamp(tmp_path, monkeypatch):
    own = policy(pol.Integer("b", 0, 10))
    path = lying(tmp_path)
    text = "SELECT SUM(b) AS s, SUM(b * b) AS q FROM people"
    assert ran(path, own, text) == [{(): (16, 126, 1126)}]
    view = duckdb.connect()
    view.execute(f"CREATE VIEW people AS FROM '{path}'")
    assert ran(view, own, text) == [{(): (16, 126, 1126)}]
    # mutant: the statistics are believed
    monkeypatch.setattr(_duckdb, "SWITCHED_OFF", ())
    monkeypatch.setattr(_sources, "SWITCHED_OFF", ())
    try:
        believed = ran(path, own, text)
    except dc.errors.EngineError:
        believed = None
    assert believed != [{(): (16, 126)}]


def test_a_locked_connection_that_believes_statistics_is_refused():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people (b BIGINT)")
    connection.execute("SET lock_configuration = true")
    with pytest.raises(SchemaError, match="optimizer rule") as error:
        engines.connect(connection, policy(pol.Integer("b", 0, 10)))
    assert "statistics_propagation" in error.value.hint


def test_switched_off_rules_of_a_connection_stay_switched_off():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people (b BIGINT)")
    connection.execute("SET disabled_optimizers = 'filter_pushdown'")
    engines.connect(connection, policy(pol.Integer("b", 0, 10)))
    (value,) = connection.execute("SELECT current_setting('disabled_optimizers')").fetchone()
    assert set(value.split(",")) == {
        "filter_pushdown", "statistics_propagation", "top_n_window_elimination",
    }  # fmt: skip


# -- Parquet folders --------------------------------------------------------------------


def test_names_of_folders_are_not_columns(tmp_path):
    (tmp_path / "age=77").mkdir()
    pq.write_table(pa.table({"age": [1, 1]}), tmp_path / "age=77" / "part.parquet")
    own = policy(pol.Integer("age", 0, 99))
    for source in (tmp_path / "age=77", str(tmp_path / "*" / "*.parquet")):
        assert ran(source, own, "SELECT SUM(age) AS s FROM people") == [{(): (2,)}]
    missing = policy(pol.Integer("year", 0, 99))
    (tmp_path / "year=7").mkdir()
    pq.write_table(pa.table({"age": [1]}), tmp_path / "year=7" / "part.parquet")
    with pytest.raises(SchemaError, match="no column 'year'"):
        engines.connect(tmp_path / "year=7", missing)


@pytest.mark.parametrize("second", [pa.int64(), pa.string(), pa.float64()])
def test_parquet_files_of_different_types_are_refused(tmp_path, second):
    """Else the reader casts the second to the first, and one large value fails the run."""
    pq.write_table(pa.table({"age": pa.array([1], pa.int32())}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"age": pa.array([2]).cast(second)}), tmp_path / "2.parquet")
    with pytest.raises(SchemaError, match="differ in their types"):
        engines.connect(tmp_path, policy(pol.Integer("age", 0, 99)))


# -- C2 and fan-outs ----------------------------------------------------------------------

REGIONS = pol.Table(
    "regions",
    [pol.Category("region", ["N", "S"]), pol.Integer("pop", 0, 9), pol.Integer("year", 0, 9)],
    public=True,
)
BOTH = pol.Policy([pol.Table("people", [pol.Category("region", ["N", "S"])]), REGIONS],
                  pol.Budget("9"), name="both")  # fmt: skip
TABLES = {
    "people": pa.table({"region": ["N", "S", "S", "S"]}),
    "regions": pa.table({"region": ["N", "S", "S"], "pop": [1, 2, 2], "year": [1, 1, 2]}),
}


def test_private_tables_do_not_answer_how_often_keys_repeat(postgres_url):
    curator = dc.open(TABLES, policy=BOTH, ledger=":memory:")
    with pytest.raises(SchemaError, match="not public"):
        curator.table("people").public_fanout("people", ("region",))
    forged = pol.Table("people", [pol.Category("region", ["N", "S"])], public=True)
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TEMP TABLE people (region text)")
        connection.execute("CREATE TEMP TABLE regions (region text, pop int, year int)")
        rows = {name: table.to_pylist() for name, table in TABLES.items()}
        every = [
            engines.connect(TABLES, BOTH), engines.connect(connection, BOTH),
        ]  # fmt: skip
        for engine in every:
            for table in (BOTH.tables["people"], forged):
                with pytest.raises(SchemaError, match="not public"):
                    engine.fanout(Scan(table), ("region",))
        with pytest.raises(SchemaError, match="not public"):
            engines.Reference(rows).fanout(Scan(BOTH.tables["people"]), ("region",))


def test_a_plan_over_tables_that_are_not_the_policys_is_refused():
    """A forged bound, or a private table said to be public."""
    engine = engines.connect(TABLES, BOTH)
    other = pol.Policy([pol.Table("people", [pol.Category("region", ["S", "N"])])], pol.Budget("1"))
    (aggregate,) = aggregates("SELECT region, COUNT(*) AS n FROM people GROUP BY region", other)
    with pytest.raises(SchemaError, match="not that of the engine's policy"):
        engine.execute(aggregate, SALT)
    duck = duckdb.connect()
    for name, table in TABLES.items():
        duck.register(f"given {name}", table)
        duck.execute(f'CREATE TABLE {name} AS FROM "given {name}"')
    forged = [pol.Table("regions", BOTH.tables["regions"].columns.values()),
              pol.Table("people", BOTH.tables["people"].columns.values(), public=True)]  # fmt: skip
    wrong = pol.Policy(forged, pol.Budget("1"))
    text = "SELECT COUNT(*) AS n FROM regions JOIN people USING (region)"
    query = sql.parse(text, wrong, public_fanout={"people": 1}).query
    (aggregate,) = plan.lower(query).aggregates
    for each in (engine, engines.connect(duck, BOTH)):
        with pytest.raises(SchemaError, match="not that of the engine's policy"):
            each.execute(aggregate, SALT)


JOIN = "SELECT pop, COUNT(*) AS n FROM people JOIN regions USING (region) GROUP BY pop"


def test_nothing_runs_in_the_engine_before_the_debit(monkeypatch):
    curator = dc.open(TABLES, policy=BOTH, ledger=":memory:")
    log = []
    debit = type(curator.ledger).debit
    for name in ("_groups", "_rows"):
        run = getattr(_duckdb.DuckDBEngine, name)
        seen = lambda s, *a, run=run: (log.append("engine"), run(s, *a))[1]  # noqa: E731 - a pair
        monkeypatch.setattr(_duckdb.DuckDBEngine, name, seen)
    monkeypatch.setattr(_duckdb.DuckDBEngine, "_measure", lambda *_: log.append("measured") or 1)
    monkeypatch.setattr(
        type(curator.ledger), "debit", lambda s, e: (log.append("debit"), debit(s, e))[1]
    )
    curator.sql(JOIN, epsilon=1)
    assert log == ["debit", "engine"]


@pytest.mark.races
def test_a_preview_does_not_wait_for_a_run():
    """The engine's lock is held, as by a long statement; the preview ends all the same."""
    curator = dc.open(TABLES, policy=BOTH, ledger=":memory:")
    texts_ = [JOIN, JOIN.replace("USING (region)", "ON people.region = regions.region")]
    done = []
    with curator._engine._lock:
        worker = threading.Thread(
            target=lambda: [done.append(curator.preview(t, epsilon=1)) for t in texts_], daemon=True
        )
        worker.start()
        worker.join(60)
    assert len(done) == len(texts_)


def test_a_preview_does_not_wait_for_a_run_in_postgres(postgres_url):
    name = "review_waits"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")
        connection.execute(f"CREATE SCHEMA {name}")
        connection.execute(f"CREATE TABLE {name}.people (region text)")
        connection.execute(f"CREATE TABLE {name}.regions (region text, pop int, year int)")
        connection.execute(f"INSERT INTO {name}.regions VALUES ('N', 1, 1), ('N', 1, 1)")
    tables = [
        pol.Table(f"{name}.{t.name}", t.columns.values(), public=t.public)
        for t in BOTH.tables.values()
    ]
    engine = engines.connect(postgres_url, pol.Policy(tables, pol.Budget("1")))
    done = []
    with engine._lock:
        worker = threading.Thread(
            target=lambda: done.append(engine.fanout(Scan(tables[1]), ("region", "pop"))),
            daemon=True,
        )
        worker.start()
        worker.join(60)
    assert done == [2]
    engine.close()


def test_fanouts_of_several_columns_are_measured_once_and_exactly(monkeypatch):
    engine = engines.connect(TABLES, BOTH)
    regions = Scan(REGIONS)
    assert engine.fanout(regions, ("region",)) == 2
    assert engine.fanout(regions, ("pop", "region")) == 2
    assert engine.fanout(regions, ("region", "year")) == 1
    monkeypatch.setattr(_duckdb.DuckDBEngine, "_repeats", lambda *_: 1 / 0)
    assert engine.fanout(regions, ("region", "pop")) == 2


def test_a_public_table_that_grows_is_noticed_before_anything_runs(postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as postgres, duckdb.connect() as duck:
        for connection, temp in ((postgres, "TEMP"), (duck, "")):
            connection.execute(f"CREATE {temp} TABLE people (region VARCHAR)")
            connection.execute(f"CREATE {temp} TABLE regions (region VARCHAR, pop INT, year INT)")
            connection.execute("INSERT INTO regions VALUES ('N', 1, 1)")
            engine = engines.connect(connection, BOTH)
            query = sql.parse(JOIN, BOTH, public_fanout={"regions": 1}).query
            (aggregate,) = plan.lower(query).aggregates
            assert engine.execute(aggregate, SALT) == {}
            connection.execute("INSERT INTO regions VALUES ('N', 2, 1)")
            with pytest.raises(SchemaError, match="repeats a key 2 times"):
                engine.execute(aggregate, SALT)


def test_public_files_are_read_once(tmp_path):
    """What was measured of a public table stays true when its file is replaced."""
    path = tmp_path / "regions.parquet"
    pq.write_table(TABLES["regions"], path)
    engine = engines.connect({"people": TABLES["people"], "regions": path}, BOTH)
    query = sql.parse(JOIN, BOTH, public_fanout=lambda t, c: engine.fanout(Scan(BOTH.table(t)), c))
    (aggregate,) = plan.lower(query.query).aggregates
    before = engine.execute(aggregate, SALT)
    pq.write_table(pa.table({"region": ["S"] * 99, "pop": [2] * 99, "year": [1] * 99}), path)
    assert engine.execute(aggregate, SALT) == before


# -- views ---------------------------------------------------------------------------


def views(postgres):
    """Views that fail on one row, and tables that cannot."""
    duck = duckdb.connect()
    for connection, kind in ((duck, "VARCHAR"), (postgres, "text")):
        connection.execute(f"CREATE TEMP TABLE held (age {kind})")
        connection.execute("INSERT INTO held VALUES ('7')")
        connection.execute("CREATE TEMP VIEW people AS SELECT CAST(age AS BIGINT) AS age FROM held")
        yield connection, "UPDATE held SET age = 'x'"


def test_a_view_that_fails_on_a_row_is_refused_when_it_is_opened(postgres_url):
    own = policy(pol.Integer("age", 0, 99))
    with psycopg.connect(postgres_url, autocommit=True) as postgres:
        for connection, damage in views(postgres):
            assert ran(connection, own, "SELECT SUM(age) AS s FROM people") == [{(): (7,)}]
            connection.execute(damage)
            with pytest.raises(SchemaError, match="cannot be read") as error:
                engines.connect(connection, own)
            assert error.value.__context__ is None


@pytest.mark.parametrize("kind", ["text", "milliseconds"])
def test_a_view_of_a_file_that_cannot_be_scanned_is_refused(tmp_path, kind):
    """The same file given by its path is read: no row can fail it."""
    column, declared = texts([b"\xff", b"F"]), pol.Text("x")
    if kind == "milliseconds":
        column, declared = raw(pa.timestamp("ms"), [2**62, 0]), pol.Timestamp("x", *SPAN)
    path = parquet(tmp_path, pa.table({"x": column}))
    own = policy(declared)
    database = tmp_path / "people.duckdb"
    with duckdb.connect(str(database)) as connection:
        connection.execute(f"CREATE VIEW people AS FROM '{path}'")
        with pytest.raises(SchemaError, match="cannot be read"):
            engines.connect(connection, own)
    with pytest.raises(SchemaError, match="cannot be read"):
        engines.connect(database, own)
    assert ran(path, own, "SELECT COUNT(x) AS n FROM people") == [{(): (2,)}]


# -- opening ---------------------------------------------------------------------------


def test_an_engine_and_its_options_can_be_given(tmp_path):
    rows = {name: table.to_pylist() for name, table in TABLES.items()}
    for opened in (
        dc.open(engines.Reference(rows), policy=BOTH, ledger=":memory:"),
        dc.open(policy=BOTH, ledger=":memory:", engine=engines.Reference(rows)),
    ):
        assert opened._engine.name == "reference"
        assert opened.sql(JOIN, epsilon=1)
    options = {"memory_limit": "300MB", "temp_directory": str(tmp_path)}
    opened = dc.open(TABLES, policy=BOTH, ledger=":memory:", engine=options)
    settings = dict(
        opened._engine._rows(
            "SELECT name, value FROM duckdb_settings() WHERE name IN"
            " ('memory_limit', 'temp_directory')"
        )
    )
    assert settings["temp_directory"] == str(tmp_path)
    assert settings["memory_limit"].startswith("286")


def test_a_column_that_is_missing_gets_a_near_name_or_none():
    own = policy(pol.Category("city", ["A"]), pol.Real("income", 0, 1))
    with pytest.raises(SchemaError, match="no column 'city'") as error:
        engines.connect(pa.table({"income": [1.0]}), own)
    assert error.value.hint is None
    with pytest.raises(SchemaError, match="no column 'city'") as error:
        engines.connect(pa.table({"income": [1.0], "City": ["A"]}), own)
    assert error.value.hint == "name it 'City' in the policy"


def test_a_missing_postgres_driver_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(SchemaError, match="psycopg") as error:
        engines.connect("postgresql://host/db", policy(pol.Integer("age", 0, 9)))
    assert error.value.hint == 'pip install "discreet[postgres]"'


def test_the_catalogue_lists_what_statements_may_read():
    own = pol.Policy([PEOPLE, REGIONS], pol.Budget("1"))
    people = pa.table({"id": [1], "age": pa.array([1], pa.int8()), "secret": [1.0]})
    catalog = engines.connect({"people": people, "regions": TABLES["regions"]}, own).catalog
    assert catalog == {
        '"people"': engines.Held({"age": "TINYINT", "id": "BIGINT"}, "id", public=False),
        '"regions"': engines.Held(
            {"region": "VARCHAR", "pop": "BIGINT", "year": "BIGINT"}, None, public=True
        ),
    }
