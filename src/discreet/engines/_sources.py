# ruff: noqa: S608 - statements are rendered from the closed plan, identifiers quoted
"""Sources of the embedded engine: files, frames and databases become its tables."""

from __future__ import annotations

import glob
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from discreet import policy as pol
from discreet.engines import _csv, _frames
from discreet.engines._connect import is_duckdb_file, module
from discreet.engines._dialect import DuckDB
from discreet.engines._duckdb import DuckDBEngine, columns_of
from discreet.errors import SchemaError

if TYPE_CHECKING:
    import duckdb

_SQL: Final = DuckDB()
_PARQUET: Final = (".parquet", ".pq")
_TEXT: Final = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.zst", ".tsv.zst")


def open_duckdb(
    given: Mapping[str, Any],
    policy: pol.Policy,
    *,
    memory_limit: str | None,
    temp_directory: str | Path | None,
) -> DuckDBEngine:
    """Open the embedded engine over the given sources, one per table."""
    import duckdb  # noqa: PLC0415 - engines are imported when used

    connections = [s for s in given.values() if module(s).startswith(("duckdb", "_duckdb"))]
    if connections:
        if any(s is not connections[0] for s in given.values()):
            raise SchemaError("tables of one policy must live in one DuckDB connection")
        return _on_connection(connections[0], policy)
    with ExitStack() as stack:
        connection = duckdb.connect(":memory:")
        stack.callback(connection.close)
        if temp_directory is None:
            temp_directory = tempfile.mkdtemp(prefix="discreet-")
            stack.callback(shutil.rmtree, temp_directory, ignore_errors=True)
        _configure(connection, memory_limit, temp_directory)
        opener = _Opener(connection)
        tables = {name: opener.open(policy.tables[name], s) for name, s in given.items()}
        opener.lock()
        return DuckDBEngine(connection, policy, tables, stack.pop_all().close)
    raise AssertionError  # unreachable: the stack swallows nothing


def _configure(
    connection: duckdb.DuckDBPyConnection, memory_limit: str | None, temp_directory: str | Path
) -> None:
    settings = {
        "temp_directory": str(temp_directory),
        "TimeZone": "UTC",
        "preserve_insertion_order": "false",
        "autoinstall_known_extensions": "false",
        "disabled_optimizers": "top_n_window_elimination",
    }
    if memory_limit is not None:
        settings["memory_limit"] = memory_limit
    for name, value in settings.items():
        connection.execute(f"SET {name} = {_SQL.text(value)}")


def _on_connection(connection: duckdb.DuckDBPyConnection, policy: pol.Policy) -> DuckDBEngine:
    tables = {name: _SQL.quote(*name.split(".")) for name in policy.tables}
    cursor = connection.cursor()
    if all(columns_of(cursor, table) is not None for table in tables.values()):
        return DuckDBEngine(cursor, policy, tables, cursor.close)
    # registered frames and temporary tables are visible on the connection itself only
    cursor.close()
    return DuckDBEngine(connection, policy, tables, _nothing)


def _nothing() -> None:
    """Leave the caller's connection open."""


class _Opener:
    """Makes each source a table or view of one connection, then closes the door."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._files: list[str] = []
        self._databases: dict[str, str] = {}

    def open(self, table: pol.Table, source: Any) -> str:
        """Return the SQL name under which a table can be read."""
        name = _SQL.quote(table.name)
        if isinstance(source, str | Path):
            self._open_path(table, name, str(source))
            if is_duckdb_file(source):
                return _SQL.quote(self._databases[str(source)], *table.name.split("."))
            return name
        self._connection.register(table.name, _arrow(table, source))
        return name

    def _open_path(self, table: pol.Table, name: str, path: str) -> None:
        if is_duckdb_file(path):
            if path not in self._databases:
                self._databases[path] = alias = f"source{len(self._databases)}"
                self._run(table, f"ATTACH {_SQL.text(path)} AS {alias} (READ_ONLY)")
            return
        files = _matches(table, path)
        if files[0].endswith(_PARQUET):
            self._files += files
            listed = ", ".join(_SQL.text(f) for f in files)
            self._run(table, f"CREATE VIEW {name} AS SELECT * FROM read_parquet([{listed}])")
        else:
            self._run(table, _csv.load(table, name, files))

    def _run(self, table: pol.Table, sql: str) -> None:
        failed = False
        try:
            self._connection.execute(sql)
        except Exception:  # noqa: BLE001 - engine messages may quote cells
            failed = True
        if failed:
            raise _unreadable(table)

    def lock(self) -> None:
        """Allow the source files only, and no further change of configuration."""
        paths = ", ".join(_SQL.text(f) for f in self._files)
        self._connection.execute(f"SET allowed_paths = [{paths}]")
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")


def _unreadable(table: pol.Table) -> SchemaError:
    return SchemaError(f"the source of table {table.name!r} cannot be read")


def _matches(table: pol.Table, path: str) -> list[str]:
    """Files that a path, folder or glob stands for."""
    if Path(path).is_dir():
        path = str(Path(path) / "*.parquet")
    files = [path] if Path(path).is_file() else sorted(glob.glob(path, recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
    if not files:
        raise SchemaError(f"no file matches the source of table {table.name!r}: {path}")
    if not (all(f.endswith(_PARQUET) for f in files) or all(f.endswith(_TEXT) for f in files)):
        raise SchemaError(
            f"the source of table {table.name!r} is neither Parquet nor CSV: {path}",
            hint=f'source = "{table.name}.parquet"',
        )
    return [str(Path(f).absolute()) for f in files]


def _arrow(table: pol.Table, frame: Any) -> Any:
    """Bring a frame into the form that is scanned without a copy."""
    library = module(frame).split(".")[0]
    if library == "pyarrow":
        return frame.read_all() if hasattr(frame, "read_all") else frame
    if library == "polars":
        collected: Callable[[], Any] | None = getattr(frame, "collect", None)
        return (frame if collected is None else collected()).to_arrow()
    if library == "pandas":
        return _frames.from_pandas(table, frame)
    raise SchemaError(
        f"the source of table {table.name!r} is a {type(frame).__name__}",
        hint="a path, a pandas, Polars or Arrow table, or a database connection",
    )
