# ruff: noqa: S608 - statements are rendered from the closed plan, identifiers quoted
"""Sources of the embedded engine: files, frames and databases become its tables.

Reading a source must not fail because of one row, for a failure would tell
something about that row. What each kind of source may hold, and what is done:

- Parquet: text that is not UTF-8 is mended by the reader ("?" for bad bytes). A unit
  must not be mended, and a column of milliseconds that holds instants beyond 64 bits of
  microseconds cannot be read by DuckDB: such columns are tried once when opened, and
  the table is loaded through Arrow if that fails. Folder names (``age=77``) are names,
  never columns.
- Arrow, pandas, Polars: bad text is mended when opened, half floats, zoned
  timestamps and dates in milliseconds become types of the same values that DuckDB
  scans without conversion (see :mod:`discreet.engines._frames`).
- CSV: a reader of our own, which cannot fail (see :mod:`discreet.engines._csv`).
- DuckDB's own tables: the database refuses bad text when it is written. Views may
  do anything; so they are read behind a fence, and once as a whole when opened. The
  catalogue says what a table is.

Public tables are copied when opened: what was measured of them stays true.
"""

from __future__ import annotations

import glob
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, TypeVar

from discreet import _unseen
from discreet import policy as pol
from discreet._address import is_for_server
from discreet.engines._connect import is_duckdb_file, module
from discreet.engines._dialect import DuckDB
from discreet.engines._driver import duckdb, register
from discreet.engines._duckdb import SWITCHED_OFF, DuckDBEngine, columns_of, is_stored
from discreet.engines._physical import check_spellings
from discreet.engines._privately import no_core_dumps, spill_folder
from discreet.errors import DiscreetError, SchemaError

T = TypeVar("T")
_SQL: Final = DuckDB()
_PARQUET: Final = (".parquet", ".pq")
_IN_MEMORY: Final = ("PANDAS_SCAN", "PYTHON_ARROW_SCAN", "ARROW_SCAN", "COLUMN_DATA_SCAN")
_NO_ROWS: Final = ("DUMMY_SCAN", "EMPTY_RESULT", "UNNEST", "RANGE", "GENERATE_SERIES")
_EARLIER: Final = ("CTE_SCAN", "REC_CTE_SCAN", "DELIM_SCAN")
_OPERATORS: Final = frozenset({"SEQ_SCAN", "SQLITE_SCAN", *_IN_MEMORY, *_NO_ROWS, *_EARLIER})
"""Operators at the ends of plans that read the attached databases, frames or nothing."""
_TEXT: Final = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.zst", ".tsv.zst")


def open_duckdb(
    sources: Mapping[str, Any],
    policy: pol.Policy,
    *,
    limits: Mapping[str, str | None],
    temp_directory: str | Path | None,
    timeout: float,
) -> DuckDBEngine:
    """Open the embedded engine over the given sources, one per table."""
    connections = [s for s in sources.values() if module(s).startswith(("duckdb", "_duckdb"))]
    if connections:
        if any(s is not connections[0] for s in sources.values()):
            raise SchemaError("tables of one policy must live in one DuckDB connection")
        return _on_connection(connections[0], policy, timeout)
    with ExitStack() as stack:
        connection = duckdb.connect(":memory:")
        stack.callback(connection.close)
        stack.enter_context(no_core_dumps())
        if temp_directory is None:
            temp_directory = stack.enter_context(spill_folder())
        _configure(connection, limits, temp_directory)
        opener = _Opener(connection)
        tables = {name: opener.open(policy.tables[name], s) for name, s in sources.items()}
        opener.lock()
        public = connection.cursor()
        stack.callback(public.close)
        close = stack.pop_all().close
        return DuckDBEngine(
            connection, policy, tables, close, live=False, public=public, timeout=timeout,
            computed=opener.computed, places=opener.places,
        )  # fmt: skip
    raise AssertionError  # unreachable: the stack swallows nothing


def _configure(
    connection: duckdb.DuckDBPyConnection,
    limits: Mapping[str, str | None],
    temp_directory: str | Path,
) -> None:
    settings = {
        "temp_directory": str(temp_directory),
        "TimeZone": "UTC",
        "preserve_insertion_order": "false",
        "autoinstall_known_extensions": "false",
        "disabled_optimizers": ",".join(SWITCHED_OFF),
    }
    settings |= {name: value for name, value in limits.items() if value is not None}
    for name, value in settings.items():
        connection.execute(f"SET {name} = {_SQL.text(value)}")


def _on_connection(
    connection: duckdb.DuckDBPyConnection, policy: pol.Policy, timeout: float
) -> DuckDBEngine:
    tables = {name: _SQL.quote(*name.split(".")) for name in policy.tables}
    cursor, stack = connection.cursor(), ExitStack()
    stack.enter_context(no_core_dumps())
    if all(columns_of(cursor, table) is not None for table in tables.values()):
        connection = cursor
        stack.callback(cursor.close)
    # else registered frames or temporary tables, visible on the connection itself only
    computed = {n for n in policy.tables if not is_stored(connection, *n.split("."))}
    places = _attached(connection)
    private = [n for n in sorted(computed) if not policy.tables[n].public]
    unseen = [_unseen.view(n) for n in private if _reads_elsewhere(connection, tables[n])]
    files = [place for place in places if Path(place).exists()]
    unseen += [_unseen.ATTACHED] * (len(files) < len(places))
    return DuckDBEngine(
        connection, policy, tables, stack.close, live=True, timeout=timeout,
        computed=computed, places=files, unseen=unseen,
    )  # fmt: skip


def _reads_elsewhere(connection: duckdb.DuckDBPyConnection, table: str) -> bool:
    """Whether anything but stored tables and frames in memory is under a view.

    A plan names the functions that read files and servers, but not the files.
    """
    try:
        rows = connection.execute(f"EXPLAIN (FORMAT JSON) SELECT * FROM {table}").fetchall()
        leaves = [leaf for row in rows for node in json.loads(row[1]) for leaf in _leaves(node)]
    except Exception:  # noqa: BLE001 - what cannot be told needs its owner's word
        return True
    return not set(leaves) <= _OPERATORS


def _leaves(node: Mapping[str, Any]) -> Iterator[str]:
    """Operators of a plan that read something."""
    if not node["children"]:
        yield str(node["name"]).strip()
    for child in node["children"]:
        yield from _leaves(child)


def _attached(connection: duckdb.DuckDBPyConnection, alias: str | None = None) -> list[str]:
    """Paths of the databases that are open, as the engine understood them: one has many names."""
    sql = "SELECT path FROM duckdb_databases() WHERE path IS NOT NULL"
    condition = "" if alias is None else f" AND database_name = {_SQL.text(alias)}"
    return [path for (path,) in connection.execute(sql + condition).fetchall()]


class _Opener:
    """Makes each source a table or view of one connection, then closes the door."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._files: list[str] = []
        self._databases: dict[str, str] = {}
        self.computed: set[str] = set()
        self.places: list[str] = []

    def open(self, table: pol.Table, source: Any) -> str:
        """Return the SQL name under which a table can be read."""
        path = str(source) if isinstance(source, str | Path) else ""
        if not path or is_duckdb_file(path) or path.endswith(_PARQUET):
            check_spellings(table)
        name = _SQL.quote(table.name)
        label = f"{table.name} as given" if table.public else table.name
        view = _SQL.quote(label)
        if not isinstance(source, str | Path):
            from discreet.engines import _frames as frames  # noqa: PLC0415 - Arrow loads when used

            frame = self._guarded(table, lambda: frames.as_arrow(table, source))
            self._guarded(table, lambda: register(self._connection, label, frame))
        elif is_duckdb_file(source):
            view = self._attached(table, str(source))
        else:
            files = _matches(table, str(source))
            self.places += () if table.public else files
            read = self._parquet if files[0].endswith(_PARQUET) else self._csv
            read(table, view, files)
        if not table.public:
            return view
        # columns that are not there are reported later
        present = [c for c, _ in columns_of(self._connection, view) or [] if c in table.columns]
        needed = ", ".join(map(_SQL.quote, present)) or "1 AS nothing"
        self._run(table, f"CREATE TABLE {name} AS SELECT {needed} FROM {view}")
        return name

    def _attached(self, table: pol.Table, path: str) -> str:
        if path not in self._databases:
            alias = f"source{len(self._databases)}"
            self._run(table, f"ATTACH {_SQL.text(path)} AS {alias} (READ_ONLY)")
            self._databases[path] = alias
        self.places += () if table.public else _attached(self._connection, self._databases[path])
        names = (self._databases[path], *table.name.split("."))
        if not (table.public or is_stored(self._connection, *names)):
            self.computed.add(table.name)
        return _SQL.quote(*names)

    def _csv(self, table: pol.Table, view: str, files: list[str]) -> None:
        from discreet.engines import _csv as csv  # noqa: PLC0415 - as above

        reader = csv.Lines(table, files)
        self._load(table, view, reader.columns, reader.batches())

    def _parquet(self, table: pol.Table, view: str, files: list[str]) -> None:
        self._literal(table, files)
        listed = ", ".join(_SQL.text(f) for f in files)
        source = f"read_parquet([{listed}], hive_partitioning = false, utf8_validation = 'replace')"
        self._run(table, f"CREATE VIEW {view} AS SELECT * FROM {source}")
        self._alike(table, files)
        needed = {*table.columns, *table.ids}
        coarse = [c for c in self._milliseconds(table, files[0]) if c in needed]
        probes = [f"max({_SQL.quote(c)})" for c in coarse]
        for name, native in columns_of(self._connection, view) or ():
            if name in table.ids and native == "VARCHAR":
                # neither a footer's statistics nor a length answers this: the text itself is read
                probes.append(f"max(decode(encode({_SQL.quote(name)})))")
        try:
            if probes:
                strict = source.replace("'replace'", "'strict'")
                self._connection.execute(f"SELECT {', '.join(probes)} FROM {strict}")
        except Exception:  # noqa: BLE001 - whatever it says, the columns are read another way
            from discreet.engines import _frames as frames  # noqa: PLC0415 - as above

            self._run(table, f"DROP VIEW {view}")
            self._load(table, view, "*", self._guarded(table, lambda: frames.parquet(table, files)))
        else:
            self._files += files

    def _literal(self, table: pol.Table, files: list[str]) -> None:
        """Refuse a name that the engine would take for a pattern: it would read other files."""
        sql = f"SELECT file FROM glob([{', '.join(map(_SQL.text, files))}])"
        paths = self._guarded(table, lambda: self._connection.execute(sql).fetchall())
        if sorted(paths) != sorted((path,) for path in files):
            raise SchemaError(
                f"a file of table {table.name!r} has a name with characters of a pattern, which "
                "may stand for other files",
                hint="a name without *, ? and [",
            )

    def _load(self, table: pol.Table, view: str, columns: str, reader: Any) -> None:
        register(self._connection, "loaded once", reader)
        self._run(table, f'CREATE TABLE {view} AS SELECT {columns} FROM "loaded once"')
        self._connection.unregister("loaded once")

    def _alike(self, table: pol.Table, files: list[str]) -> None:
        """Refuse files of different types: casting one to the other may fail on a row."""
        needed = {*table.columns, *table.ids}

        def kinds(path: str) -> list[tuple[str, str]]:
            source = f"read_parquet({_SQL.text(path)}, hive_partitioning = false)"
            return sorted(c for c in columns_of(self._connection, source) or [] if c[0] in needed)

        first = kinds(files[0])
        if any(kinds(path) != first for path in files[1:]):
            raise SchemaError(f"the Parquet files of table {table.name!r} differ in their types")

    def _milliseconds(self, table: pol.Table, path: str) -> list[str]:
        sql = (
            f"SELECT name FROM parquet_schema({_SQL.text(path)}) WHERE type = 'INT96' "
            "OR converted_type = 'TIMESTAMP_MILLIS' OR logical_type LIKE '%MILLIS%'"
        )
        rows = self._guarded(table, lambda: self._connection.execute(sql)).fetchall()
        return [name for (name,) in rows]

    def _run(self, table: pol.Table, sql: str) -> None:
        self._guarded(table, lambda: self._connection.execute(sql))

    def _guarded(self, table: pol.Table, work: Callable[[], T]) -> T:
        try:
            return work()
        except DiscreetError:
            raise
        except Exception:  # noqa: BLE001, S110 - engine messages may quote cells
            pass
        raise SchemaError(f"the source of table {table.name!r} cannot be read")

    def lock(self) -> None:
        """Allow the source files only, and no further change of configuration."""
        paths = ", ".join(_SQL.text(f) for f in self._files)
        self._connection.execute(f"SET allowed_paths = [{paths}]")
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")


def _matches(table: pol.Table, path: str) -> list[str]:
    """Files that a path, folder or glob stands for."""
    if Path(path).is_dir():
        path = str(Path(path) / "*.parquet")
    files = [path] if Path(path).is_file() else sorted(glob.glob(path, recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
    if not files:
        text = "(not shown: it may hold a password)" if is_for_server(path) else path
        raise SchemaError(f"no file matches the source of table {table.name!r}: {text}")
    if not (all(f.endswith(_PARQUET) for f in files) or all(f.endswith(_TEXT) for f in files)):
        raise SchemaError(
            f"the source of table {table.name!r} is neither Parquet nor CSV: {path}",
            hint=f'source = "{table.name}.parquet"',
        )
    return [str(Path(f).absolute()) for f in files]
