"""Nobody's long text decides how long a question takes: a service does not start over one."""

from __future__ import annotations

import subprocess
import sys

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import discreet as dc
from discreet import engines
from discreet.engines._lengths import PLAIN, SPARE
from discreet.errors import SchemaError
from discreet.service._pool import Worker
from discreet.service._worker import Setup

pytestmark = pytest.mark.races
own = dc.policy
LONG = "x" * (32 << 20)
POLICY = """
[policy]
name = "lengths"
[budget]
epsilon = "1"
[service]
rows = 1000
[tables.people]
source = "people.parquet"
unit = "pid"
max_rows_per_unit = 2
[tables.people.columns]
kind = { type = "category", values = ["A", "B"], other = "else" }
note = { type = "text", longest = 1000 }
"""


def _policy(source):
    columns = [own.Category("kind", ["A", "B"], other="else"), own.Text("note", longest=1000)]
    table = own.Table("people", columns, source=source, unit="pid", max_rows_per_unit=2)
    return own.Policy([table], own.Budget("1"))


def _rows(**cells):
    """Ordinary people, names as long as the longest hash, and one who is as told."""
    rows = [{"pid": f"{i:0128}", "kind": "A", "note": "é" * 2000} for i in range(50)]
    return [*rows, {"pid": "eve", "kind": "B", "note": "n", **cells}]


def _parquet(folder, rows, _url):
    pq.write_table(pa.Table.from_pylist(rows), folder / "people.parquet")
    return str(folder / "people.parquet")


def _csv(folder, rows, _url):
    pc.write_csv(pa.Table.from_pylist(rows), folder / "people.csv")
    return str(folder / "people.csv")


def _duckdb(folder, rows, _url):
    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        connection.register("given", pa.Table.from_pylist(rows))
        connection.execute("CREATE OR REPLACE TABLE people AS FROM given")
    return str(folder / "people.duckdb")


def _postgres(folder, rows, url):
    del folder
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS people")
        connection.execute("CREATE TABLE people (pid text, kind text, note text)")
        for row in rows:
            connection.execute("INSERT INTO people VALUES (%s, %s, %s)", list(row.values()))
    return url


WRITE = {"parquet": _parquet, "csv": _csv, "duckdb": _duckdb, "postgres": _postgres}
KINDS = ["parquet", "csv", "duckdb", "postgres"]


@pytest.fixture
def checked(tmp_path, request):
    def check(kind, rows):
        url = request.getfixturevalue("postgres_url") if kind == "postgres" else None
        policy = _policy(WRITE[kind](tmp_path, rows, url))
        engine = engines.connect(None, policy)
        try:
            engines.check_lengths(engine, policy)
        finally:
            engine.close()

    return check


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("column", ["pid", "kind", "note"])
def test_one_cell_of_many_megabytes_is_refused_by_its_column(checked, kind, column):
    with pytest.raises(SchemaError, match=f"column '{column}' of table 'people'") as refused:
        # rows of a CSV file have 16 MiB at the most
        checked(kind, _rows(**{column: LONG[: 8 << 20] if kind == "csv" else LONG}))
    assert "source" in str(refused.value.hint)
    assert "xxx" not in str(refused.value)


@pytest.mark.parametrize("kind", KINDS)
def test_ordinary_tables_pass_and_so_do_missing_cells(checked, kind):
    checked(kind, _rows())
    checked(kind, _rows(pid=None, kind=None, note=None))


def test_many_cells_of_one_person_count_together(checked):
    """None of them is long."""
    each = 4 * PLAIN
    many = SPARE // (each - PLAIN)
    own = [{"pid": "p" * each, "kind": "A", "note": "n"}] * many
    checked("parquet", _rows() + own)
    with pytest.raises(SchemaError, match="'pid'"):
        checked("parquet", _rows() + own + own[:1])


def test_what_a_policy_says_of_lengths_counts(checked):
    """Four bytes for each letter of a text, and the longest label of a category."""
    many = SPARE // 4
    checked("parquet", _rows() + [{"pid": "p", "kind": "A", "note": "😀" * 1000}] * 400)
    with pytest.raises(SchemaError, match="'note'"):
        checked("parquet", _rows(note="😀" * (1000 + many + 1)))
    label = "l" * 5000
    policy = own.Policy(
        [own.Table("people", [own.Category("kind", ["A", label])])], own.Budget("1"), name="labels"
    )
    rows = pa.table({"kind": [label] * 1000})
    engine = engines.connect({"people": rows}, policy)
    engines.check_lengths(engine, policy)
    engine.close()


def test_public_tables_may_be_as_long_as_they_like():
    tables = [own.Table("rows", [own.Integer("age", 0, 9)]),
              own.Table("lists", [own.Text("word")], public=True)]  # fmt: skip
    policy = own.Policy(tables, own.Budget("1"), name="lists")
    given = {"rows": pa.table({"age": [1]}), "lists": pa.table({"word": [LONG]})}
    engine = engines.connect(given, policy)
    engines.check_lengths(engine, policy)
    engine.close()


def test_a_number_of_many_digits_is_a_long_text(postgres_url):
    table = own.Table("digits", [own.Integer("age", 0, 115)], source=postgres_url)
    policy = own.Policy([table], own.Budget("1"), name="digits")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS digits")
        connection.execute("CREATE TABLE digits (age numeric)")
        connection.execute("INSERT INTO digits SELECT i FROM generate_series(1, 100) i")
        engine = engines.connect(None, policy)
        engines.check_lengths(engine, policy)
        connection.execute("INSERT INTO digits SELECT repeat('9', 130000)::numeric "
                           "FROM generate_series(1, 10)")  # fmt: skip
        with pytest.raises(SchemaError, match="'age'"):
            engines.check_lengths(engine, policy)
        engine.close()


def test_a_service_says_so_to_its_owner_and_does_not_start(tmp_path):
    """A real one: what a thief saw as lateness of each count ends before anybody can ask."""
    _parquet(tmp_path, _rows(pid=LONG), None)
    (tmp_path / "lengths.toml").write_text(POLICY)
    words = [sys.executable, "-m", "discreet", "serve", "lengths.toml", "--port", "0", "--workers",
             "2", "--home", "home", "--json"]  # fmt: skip
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120,
                          check=False)  # fmt: skip
    assert done.returncode != 0
    assert "column 'pid' of table 'people'" in done.stdout + done.stderr
    assert "url" not in done.stdout
    assert "xxx" not in done.stdout + done.stderr


def test_one_worker_looks_at_a_start_and_none_later(tmp_path):
    """A worker that comes for another one does not: its refusal would be seen by everybody."""
    _parquet(tmp_path, _rows(pid=LONG), None)
    (tmp_path / "lengths.toml").write_text(POLICY)
    setup = Setup(own.load(tmp_path / "lengths.toml"), None, 1 << 30, "1GB", 60.0, str(tmp_path))
    worker = Worker(setup)
    try:
        assert worker.ready().clocked
    finally:
        worker.kill()
