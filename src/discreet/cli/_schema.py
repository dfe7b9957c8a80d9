"""Names and types of columns from a source, never a value."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from discreet._address import address, is_for_server
from discreet._dataclass import dataclass
from discreet.cli._outcome import UsageError

_HEADER_BYTES: Final = 2**20
_PARQUET: Final = (".parquet", ".pq")
_CSV: Final = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_DUCKDB: Final = (".duckdb", ".db")
_KINDS: Final = (
    ("boolean", ("bool",)),
    ("timestamp", ("timestamp", "datetime")),
    ("date", ("date",)),
    ("integer", ("int", "tinyint", "smallint", "bigint", "hugeint", "uint", "ubigint", "uinteger",
                 "usmallint", "utinyint", "uhugeint")),
    ("real", ("float", "double", "halffloat", "decimal", "numeric", "real")),
    ("text", ("string", "large_string", "string_view", "dictionary", "varchar", "char", "text",
              "bpchar", "uuid", "enum", "character")),
)  # fmt: skip
_CATALOGUE: Final = """
    SELECT table_schema, table_name, column_name, data_type
    FROM information_schema.columns
    WHERE table_schema NOT IN ('information_schema', 'pg_catalog')
    ORDER BY table_schema, table_name, ordinal_position
"""


@dataclass(frozen=True, slots=True)
class Field:
    """A column: its name, the policy type it could have (None: not known), its own type."""

    name: str
    kind: str | None
    native: str


@dataclass(frozen=True, slots=True)
class Schema:
    """A table's name and columns."""

    table: str
    columns: tuple[Field, ...]


def read_schemas(source: str, tables: Sequence[str]) -> list[Schema]:
    """Read the schema of a file, or of all (or some) tables of a database."""
    if source.startswith(("postgresql://", "postgres://")):
        return _selection(_postgres(source), tables)
    path = Path(source)
    if not path.is_file():
        if is_for_server(source):
            raise UsageError(
                "a source is a file or a PostgreSQL database; this is neither, and is not shown "
                "because it may hold a password",
                hint="postgresql://USER@HOST/DATABASE, with the password in PGPASSWORD",
            )
        raise UsageError(f"there is no file {source!r}")
    if source.endswith(_DUCKDB):
        return _selection(_duckdb(path), tables)
    if source.endswith(_PARQUET):
        columns = _parquet(path)
    elif source.endswith(_CSV):
        columns = _csv_header(path)
    else:
        raise UsageError(
            f"{source!r} is neither Parquet, CSV, DuckDB nor a PostgreSQL URL",
            hint="discreet init people.parquet",
        )
    name = tables[0] if tables else path.name.partition(".")[0]
    return [Schema(name, columns)]


def kind_of(native: str) -> str | None:
    """Policy type that a column of this native type could have.

    >>> kind_of("DECIMAL(10,2)"), kind_of("timestamp without time zone"), kind_of("BLOB")
    ('real', 'timestamp', 'other')
    """
    type_name = native.lower()
    for kind, prefixes in _KINDS:
        if type_name.startswith(prefixes) and not type_name.endswith("[]"):
            return "other" if type_name.startswith("interval") else kind
    return "other"


def _parquet(path: Path) -> tuple[Field, ...]:
    import pyarrow.parquet as pq  # noqa: PLC0415 - imported when used

    schema = _quietly(lambda: pq.read_schema(path), path)
    return tuple(Field(f.name, kind_of(str(f.type)), str(f.type)) for f in schema)


def _csv_header(path: Path) -> tuple[Field, ...]:
    """Read the first line only; what follows it is private."""

    def first() -> str:
        if path.name.endswith(".gz"):
            with gzip.open(path, "rt", encoding="utf-8-sig", newline="") as packed:
                return packed.readline(_HEADER_BYTES)
        with path.open(encoding="utf-8-sig", newline="") as file:
            return file.readline(_HEADER_BYTES)

    line = _quietly(first, path)
    # the separator that cuts the header into most names, a comma where several do
    splits = [next(csv.reader([line], delimiter=s), []) for s in (",", ";", "\t", "|")]
    names = max(splits, key=len)
    if not names or any(not name.strip() for name in names):
        raise UsageError(f"the first line of {str(path)!r} does not name its columns")
    if any(name.strip().lstrip("+-").replace(".", "", 1).isdecimal() for name in names):
        raise UsageError(
            f"the first line of {str(path)!r} holds numbers: it looks like a row, not like names"
        )
    return tuple(Field(name.strip(), None, "not known") for name in names)


def _duckdb(path: Path) -> list[Schema]:
    import duckdb  # noqa: PLC0415 - imported when used

    def rows() -> list[tuple[Any, ...]]:
        with duckdb.connect(str(path), read_only=True) as connection:
            return connection.execute(_CATALOGUE).fetchall()

    return _grouped(_quietly(rows, path), "main")


def _postgres(url: str) -> list[Schema]:
    try:
        import psycopg  # noqa: PLC0415 - an optional engine
    except ImportError:
        raise UsageError(
            "PostgreSQL needs the extra 'postgres'", hint='pip install "discreet[postgres]"'
        ) from None

    def rows() -> list[tuple[Any, ...]]:
        with psycopg.connect(url, autocommit=True) as connection:
            return connection.execute(_CATALOGUE).fetchall()

    return _grouped(_quietly(rows, address(url)), "public")


def _quietly(read: Any, where: object) -> Any:
    """Read, or refuse without the reader's own words: they may quote cells or passwords."""
    with suppress(Exception):
        return read()
    raise UsageError(f"the schema of {str(where)!r} cannot be read")


def _grouped(rows: Sequence[tuple[Any, ...]], home: str) -> list[Schema]:
    """Collect catalogue rows by table; tables of the default schema keep their short name."""
    tables: dict[str, list[Field]] = {}
    for schema, table, column, native in rows:
        name = table if schema == home else f"{schema}.{table}"
        tables.setdefault(name, []).append(Field(column, kind_of(str(native)), str(native)))
    return [Schema(name, tuple(columns)) for name, columns in tables.items()]


def _selection(schemas: list[Schema], tables: Sequence[str]) -> list[Schema]:
    if not schemas:
        raise UsageError("the database has no table that can be seen")
    if not tables:
        return schemas
    index = {s.table: s for s in schemas}
    for name in tables:
        if name not in index:
            raise UsageError(
                f"the database has no table {name!r}; it has {', '.join(index)}",
                hint=f"--table {next(iter(index))}",
            )
    return [index[name] for name in tables]
