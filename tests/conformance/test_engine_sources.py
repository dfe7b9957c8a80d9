# ruff: noqa: DTZ001 - timestamps are naive UTC throughout
"""Inputs as people have them, errors that name the fix, and walls that hold."""

from __future__ import annotations

import datetime as dt
import traceback

import duckdb
import pandas as pd
import polars as pl
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet import engines, plan
from discreet import policy as pol
from discreet.errors import EngineError, SchemaError
from discreet.plan import Key, Limits, Measure, MeasureKind, Scan, aggregate
from discreet.plan import expr as ex

SALT = plan.Salt(b"sources")
ROWS = [
    {"id": i % 7, "sex": s, "age": a, "income": 10.5 * i, "seen": dt.datetime(2024, 1, 1 + i)}
    for i, (s, a) in enumerate(
        zip("FMXQFMFFMX", (3, 40, None, 7, 200, -4, 5, 6, 8, 9), strict=True)
    )
]
COLUMNS = [
    pol.Category("sex", ["F", "M", "X"]),
    pol.Integer("age", 0, 115),
    pol.Real("income", 0, 100, "0.5"),
    pol.Timestamp("seen", "2024-01-01", "2024-02-01", 3600),
]


def policy(*columns, source=None, **choices):
    table = pol.Table("people", columns or COLUMNS, source=source, **choices)
    return pol.Policy([table], pol.Budget("1"))


def total(policy_):
    relation = Scan(policy_.tables["people"])
    c = {n: ex.Column(n, t) for n, t in relation.schema.items()}
    measures = tuple(
        Measure(MeasureKind.SUM, e)
        for n in ("age", "income", "seen")
        for e in (c[n], ex.IsNull(c[n]))
    )
    return aggregate(relation, (Key("sex", c["sex"], (0, 1, 2)),), measures, Limits(rows=2))


def answer(source, policy_, **options):
    engine = engines.connect(source, policy_, **options)
    try:
        return engine.execute(total(policy_), SALT)
    finally:
        engine.close()


def frame():
    return pa.Table.from_pylist(ROWS)


def files(folder):
    pq.write_table(frame().slice(0, 4), folder / "part-1.parquet")
    pq.write_table(frame().slice(4), folder / "part-2.parquet")
    pq.write_table(frame(), folder / "people.pq")
    frame().to_pandas().astype({"age": "Int64"}).to_csv(folder / "people.csv", index=False)
    with duckdb.connect(str(folder / "people.duckdb")) as database:
        database.register("given", frame())
        database.execute("CREATE TABLE people AS SELECT * FROM given")
    return folder


@pytest.mark.parametrize("choices", [{}, {"unit": "id", "max_rows_per_unit": 2}])
def test_every_kind_of_source_gives_the_same_answer(tmp_path, choices):
    folder = files(tmp_path)
    chosen = policy(**choices)
    expected = plan.run(total(chosen), {"people": ROWS}, SALT)
    connection = duckdb.connect(str(folder / "people.duckdb"), read_only=True)
    registered = duckdb.connect()
    registered.register("people", frame())
    sources = [
        frame(),
        frame().to_reader(),
        frame().to_pandas().astype({"age": "Int64"}),
        pl.from_arrow(frame()),
        pl.from_arrow(frame()).lazy(),
        str(folder / "people.pq"),
        folder / "people.pq",
        str(folder / "part-*.parquet"),
        folder,
        connection,
        registered,
        {"people": frame()},
    ]
    for source in sources:
        assert answer(source, chosen) == expected
    assert connection.execute("SELECT count(*) FROM people").fetchall() == [(10,)]
    connection.close()
    assert answer(folder / "people.duckdb", chosen) == expected
    assert answer(None, policy(source=str(folder / "people.pq"), **choices)) == expected
    if not choices:  # in CSV the unit is text, which ranks differently
        assert answer(folder / "people.csv", chosen) == expected
    if choices:
        as_text = [{**row, "id": str(row["id"])} for row in ROWS]
        expected = plan.run(total(chosen), {"people": as_text}, SALT)
        assert answer(folder / "people.csv", chosen) == expected


def test_dirty_csv_becomes_null_or_clamped(tmp_path):
    path = tmp_path / "dirty.csv"
    path.write_text(
        "sex,age,income,seen\n"
        "F,abc,1e400,2024-01-01 10:59:59\n"
        "F,99999999999999999999,-inf,not a date\n"
        'F,"7",nan,2024-01-02T00:00:00+02:00\n'
        ",,,\n"
    )
    groups = answer(path, policy())
    ticks = [(dt.datetime(2024, 1, d, h) - dt.datetime(1970, 1, 1)) // dt.timedelta(hours=1)
             for d, h in ((1, 10), (1, 22))]  # fmt: skip
    assert groups == {(0,): (115 + 7, 1, 200 + 0, 1, sum(ticks), 1)}


def test_postgres_url_and_connection(postgres_url):
    with psycopg.connect(postgres_url) as connection:
        connection.execute("DROP SCHEMA IF EXISTS census CASCADE")
        connection.execute("CREATE SCHEMA census")
        connection.execute(
            "CREATE TABLE census.people"
            " (id bigint, sex text, age int, income float8, seen timestamp)"
        )
        for row in ROWS:
            connection.execute(
                "INSERT INTO census.people VALUES (%s, %s, %s, %s, %s)", list(row.values())
            )
        connection.commit()
        expected = plan.run(total(policy()), {"people": ROWS}, SALT)
        connection.execute("SET search_path = census")
        assert answer(connection, policy()) == expected
        # nothing of the caller's session was changed
        assert connection.execute("SHOW search_path").fetchone() == ("census",)
        assert connection.execute("SHOW transaction_read_only").fetchone() == ("off",)
    qualified = pol.Policy([pol.Table("census.people", COLUMNS)], pol.Budget("1"))
    engine = engines.connect(postgres_url, qualified, timeout=5)
    relation = Scan(qualified.tables["census.people"])
    count = Measure(MeasureKind.SUM, ex.Constant(1, plan.Type.number(1, 1, null=False)))
    assert engine.execute(aggregate(relation, (), (count,), Limits(rows=1)), SALT) == {(): (10,)}
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        engine._rows("DELETE FROM census.people RETURNING 1")
    with pytest.raises(psycopg.errors.UndefinedTable):
        engine._rows("SELECT 1 FROM people")
    engine._timeout = 0.05
    with pytest.raises(psycopg.errors.QueryCanceled):
        engine._rows("SELECT pg_sleep(5)")
    engine.close()


def test_infinite_dates_lie_outside(postgres_url):
    duck = duckdb.connect()
    column = "(d DATE, t TIMESTAMP, z TIMESTAMPTZ)"
    values = "('infinity', 'infinity', 'infinity'), ('-infinity', '-infinity', '-infinity')"
    columns = []
    for outside in ("clamp", "null"):
        columns = [
            pol.Date("d", "2000-01-01", "2000-01-03", outside=outside),
            pol.Timestamp("t", "2000-01-01", "2000-01-03", 3600, outside=outside),
            pol.Timestamp("z", "2000-01-01", "2000-01-03", 3600, outside=outside),
        ]
        chosen = pol.Policy([pol.Table("ends", columns)], pol.Budget("1"))
        relation = Scan(chosen.tables["ends"])
        exprs = [ex.Column(n, t) for n, t in relation.schema.items()]
        measures = tuple(Measure(MeasureKind.SUM, e) for e in exprs)
        expected = [t.lo + t.hi for t in relation.schema.values()]
        with psycopg.connect(postgres_url, autocommit=True) as postgres:
            for connection in (duck, postgres):
                connection.execute("DROP TABLE IF EXISTS ends")
                connection.execute(f"CREATE TABLE ends {column}")
                connection.execute(f"INSERT INTO ends VALUES {values}")
                engine = engines.connect(connection, chosen)
                got = engine.execute(aggregate(relation, (), measures, Limits(rows=1)), SALT)
                assert got[()] == tuple(expected if outside == "clamp" else (0, 0, 0))


def test_duckdb_types_beyond_the_common_ones():
    duck = duckdb.connect()
    duck.execute("CREATE TYPE mood AS ENUM ('F', 'M', 'Q')")
    duck.execute(
        "CREATE TABLE people (h HUGEINT, u UBIGINT, w UINTEGER, e mood, n TIMESTAMP_NS,"
        " s TIMESTAMP_S, x UUID, c VARCHAR COLLATE NOCASE, f FLOAT, r HUGEINT)"
    )
    duck.execute(
        "INSERT INTO people VALUES (170141183460469231731687303715884105727, 18446744073709551615,"
        " 4294967295, 'F', '1969-12-31 23:59:59.9999999',"
        " '1969-12-31 23:59:59', 'AAAAAAAA-0000-4000-8000-000000000000', 'f', 0.1,"
        " 9007199254740993), (-170141183460469231731687303715884105727, 5, 5, 'Q',"
        " '1970-01-01 00:00:00.000001', '1970-01-01 00:00:01',"
        " 'aaaaaaaa-0000-4000-8000-000000000000', 'F', 0.25, -9007199254740993)"
    )
    columns = [
        pol.Integer("h", -10, 10), pol.Integer("u", 0, 2**62 - 1), pol.Integer("w", 0, 9),
        pol.Category("e", ["F", "M"]), pol.Timestamp("n", "1969-12-31", "1970-01-02"),
        pol.Timestamp("s", "1969-12-31", "1970-01-02", 1), pol.Category("c", ["F", "G"]),
        pol.Real("f", 0, 1, "0.0001"), pol.Real("r", -(2**60), 2**60, 1024),
    ]  # fmt: skip
    rows = [
        {"h": 2**127 - 1, "u": 2**64 - 1, "w": 2**32 - 1, "e": "F",
         "n": dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
         "s": dt.datetime(1969, 12, 31, 23, 59, 59),
         "x": "a", "c": "f", "f": 0.10000000149011612, "r": 2**53 + 1},
        {"h": 1 - 2**127, "u": 5, "w": 5, "e": "Q", "n": dt.datetime(1970, 1, 1, 0, 0, 0, 1),
         "s": dt.datetime(1970, 1, 1, 0, 0, 1), "x": "a", "c": "F", "f": 0.25, "r": -(2**53) - 1},
    ]  # fmt: skip
    for unit in (None, "h", "u", "w", "x", "c"):
        choices = {} if unit is None else {"unit": unit, "max_rows_per_unit": 1}
        chosen = policy(*columns, **choices)
        relation = Scan(chosen.tables["people"])
        exprs = [ex.Column(n, t) for n, t in relation.schema.items()]
        measures = tuple(Measure(MeasureKind.SUM, e) for e in exprs)
        asked = aggregate(relation, (), measures, Limits(rows=1))
        uuid = "aaaaaaaa-0000-4000-8000-000000000000"
        expected = plan.run(asked, {"people": [{**r, "x": uuid} for r in rows]}, SALT)
        assert engines.connect(duck, chosen).execute(asked, SALT) == expected, unit


def refused(source, policy_):
    with pytest.raises(SchemaError) as error:
        engines.connect(source, policy_)
    return str(error.value)


def test_schema_errors_name_column_found_type_and_fix():
    table = pa.table(
        {"sex": ["F"], "age": ["31"], "income": [1.0], "seen": [dt.datetime(2024, 1, 1)]}
    )
    message = refused(table, policy())
    assert "'age'" in message
    assert "VARCHAR" in message
    assert 'CAST("age" AS BIGINT) AS "age"' in message
    message = refused(table.rename_columns(["sexe", "age", "income", "seen"]), policy())
    assert "no column 'sex'" in message
    assert "'sexe'" in message
    floats = frame().to_pandas().astype({"id": float})
    message = refused(floats, policy(unit="id", max_rows_per_unit=1))
    assert "unit column 'id'" in message
    assert "DOUBLE" in message


def test_sources_that_cannot_be_used_are_refused(tmp_path):
    (tmp_path / "people.txt").write_text("x")
    assert "neither Parquet nor CSV" in refused(tmp_path / "people.txt", policy())
    assert "no file matches" in refused(tmp_path / "none*.parquet", policy())
    (tmp_path / "broken.parquet").write_bytes(b"not parquet")
    assert "cannot be read" in refused(tmp_path / "broken.parquet", policy())
    assert "is a list" in refused([1, 2], policy())
    assert "no source" in refused(None, policy())
    assert "no table 'persons'" in refused({"persons": frame()}, policy())
    assert "cannot be reached" in refused("postgresql://nobody:secret@/x?host=/nowhere", policy())
    assert "secret" not in refused("postgresql://nobody:secret@/x?host=/nowhere", policy())
    two = pol.Policy([pol.Table("a", COLUMNS), pol.Table("b", COLUMNS)], pol.Budget("1"))
    assert "2 private tables" in refused(frame(), two)


def test_the_embedded_engine_reaches_nothing_else(tmp_path):
    files(tmp_path)
    (tmp_path / "secret.csv").write_text("a\n1\n")
    engine = engines.connect(tmp_path / "people.pq", policy())
    for statement in (
        f"SELECT * FROM read_csv('{tmp_path}/secret.csv')",
        f"SELECT * FROM '{tmp_path}/part-1.parquet'",
        f"COPY people TO '{tmp_path}/out.parquet'",
        f"ATTACH '{tmp_path}/new.duckdb'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SET allowed_paths = ['/etc/passwd']",
    ):
        with pytest.raises(duckdb.Error):
            engine._rows(statement)
    assert engine._rows("SELECT count(*) FROM people") == [(10,)]
    engine.close()


def test_engine_failures_look_all_the_same():
    source = duckdb.connect()
    source.register("given", frame())
    source.execute("CREATE TABLE people AS SELECT * FROM given")
    engine = engines.connect(source, policy())
    messages = set()
    for damage in ("ALTER TABLE people ALTER age TYPE VARCHAR", "DROP TABLE people"):
        source.execute(damage)
        source.execute("UPDATE people SET age = 'a secret'") if "ALTER" in damage else None
        with pytest.raises(EngineError) as error:
            engine.execute(total(policy()), SALT)
        assert error.value.__cause__ is None
        assert error.value.__context__ is None
        messages.add("".join(traceback.format_exception_only(error.value)))
        assert "secret" not in "".join(traceback.format_exception(error.value))
    assert len(messages) == 1


def test_running_out_of_memory_splits_the_units(monkeypatch):
    chosen = policy(unit="id", max_rows_per_unit=2)
    engine = engines.connect(frame(), chosen)
    whole = engine.execute(total(chosen), SALT)
    original, tried = engine._in_parts, []

    def scarce(aggregate, salt, parts):
        tried.append(parts)
        if parts < 64:
            raise duckdb.OutOfMemoryException
        return original(aggregate, salt, parts)

    monkeypatch.setattr(engine, "_in_parts", scarce)
    assert engine.execute(total(chosen), SALT) == whole
    assert tried == [1, 8, 64]
    distinct = Measure(MeasureKind.DISTINCT, ex.Column("age", plan.of_column(COLUMNS[1])))
    with pytest.raises(EngineError):
        engine.execute(
            aggregate(Scan(chosen.tables["people"]), (), (distinct,), Limits(rows=2)), SALT
        )
    assert tried == [1, 8, 64, 1]
    engine.close()


def test_shown_sql_holds_no_salt_and_hostile_names_stay_quoted():
    name = 'x"; DROP TABLE people; --'
    column = pol.Category(name, ["'); DROP TABLE people; --", "b"])
    source = pa.table({name: ["b", "'); DROP TABLE people; --", "b"], "id": [1, 2, 3]})
    chosen = policy(column, unit="id", max_rows_per_unit=1)
    relation = Scan(chosen.tables["people"])
    key = Key("k", ex.Column(name, relation.schema[name]), (0, 1))
    count = Measure(MeasureKind.UNITS)
    asked = aggregate(relation, (key,), (count,), Limits(rows=1))
    engine = engines.connect(source, chosen)
    assert engine.execute(asked, SALT) == {(0,): (1,), (1,): (2,)}
    shown = engine.sql(asked)
    assert ":salt0" in shown
    assert str(SALT.coefficient(0, 0)) not in shown
    assert str(SALT.coefficient(0, 0)) in engine.sql(asked, SALT)
    engine.close()


def test_pandas_object_columns_and_missing_values():
    seen = [dt.datetime(2024, 1, 1, 10), None, dt.datetime(2024, 1, 5)]
    ages, incomes = [1.0, None, 300.0], [1.0, 2.0, float("nan")]
    data = pd.DataFrame({"sex": ["F", None, "M"], "age": ages, "income": incomes, "seen": seen})
    rows = [
        {"sex": "F", "age": 1.0, "income": 1.0, "seen": dt.datetime(2024, 1, 1, 10)},
        {"sex": None, "age": None, "income": 2.0, "seen": None},
        {"sex": "M", "age": 300.0, "income": float("nan"), "seen": dt.datetime(2024, 1, 5)},
    ]
    assert answer(data, policy()) == plan.run(total(policy()), {"people": rows}, SALT)
