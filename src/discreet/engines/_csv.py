# ruff: noqa: S608 - statements are built from the policy and the header, identifiers quoted
"""CSV files: a fixed dialect, so that no row decides how the others are read.

Sniffing a dialect reads rows: one unusual cell could change the separator, the
quote or the number of skipped lines for everybody, or make the file unreadable. So
only the header, which is public, decides the separator, and a row that cannot be
read is padded, cut off or left out by itself. What no reader can mend is a quote
that is opened and never closed: it swallows the rows after it.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Sequence
from typing import Final

from discreet import policy as pol
from discreet.engines._dialect import DuckDB
from discreet.errors import SchemaError

_SQL: Final = DuckDB()
_SEPARATORS: Final = (",", ";", "\t", "|")
_LONGEST_HEADER: Final = 2**20
_LONGEST_ROW: Final = 2**25


def load(table: pol.Table, name: str, files: Sequence[str]) -> str:
    """Return SQL that loads CSV files as the policy's types; what is not of its type is NULL.

    Raises
    ------
    SchemaError
        When the header cannot be read, or files differ in it.
    """
    separator, header = _header(table, files[0])
    for path in files[1:]:
        if _header(table, path) != (separator, header):
            raise SchemaError(f"the CSV files of table {table.name!r} differ in their header")
    columns = ", ".join(f"{_SQL.text(column)}: 'VARCHAR'" for column in header)
    listed = ", ".join(_SQL.text(path) for path in files)
    known = {c: _SQL.quote(c) for c in header if c in table.columns or c == table.unit}
    read = [
        f"{_read(table.columns[c], x)} AS {x}" if c in table.columns else x
        for c, x in known.items()
    ]
    # materialised first: otherwise DuckDB moves the casts into its reader, which would
    # then drop the whole row of a value that cannot be read
    return (
        f"CREATE TABLE {name} AS WITH held AS MATERIALIZED ("
        f"SELECT {', '.join(known.values()) or '1'} FROM read_csv([{listed}], "
        f"columns = {{{columns}}}, delim = {_SQL.text(separator)}, auto_detect = false, "
        "header = true, quote = '\"', escape = '\"', comment = '', skip = 0, "
        "null_padding = true, strict_mode = false, ignore_errors = true, parallel = false, "
        f"max_line_size = {_LONGEST_ROW})) "
        f"SELECT {', '.join(read) or '1 AS nothing'} FROM held"
    )


def _header(table: pol.Table, path: str) -> tuple[str, tuple[str, ...]]:
    """Separator and column names, from the first line alone."""
    import pyarrow as pa  # noqa: PLC0415 - only for CSV files

    try:
        with pa.input_stream(path) as stream:
            line = stream.read(_LONGEST_HEADER).split(b"\n")[0].decode("utf-8-sig")
    except (OSError, UnicodeDecodeError, pa.ArrowException):
        raise SchemaError(f"the source of table {table.name!r} cannot be read") from None
    wanted = {*table.columns, table.unit} - {None}

    def found(separator: str) -> int:
        return len(wanted & set(_split(line, separator)))

    best = max(_SEPARATORS, key=found)
    return best, tuple(_distinct(_split(line, best)))


def _split(line: str, separator: str) -> list[str]:
    return next(csv.reader([line.rstrip("\r")], delimiter=separator), [])


def _distinct(names: list[str]) -> list[str]:
    """Column names without repetition: the engine takes each once, in any case."""
    seen: set[str] = set()
    for i, given in enumerate(names):
        name = given or f"column{i}"
        if name.casefold() in seen:
            tried = (f"{name}_{n}" for n in itertools.count(1))
            name = next(t for t in tried if t.casefold() not in seen)
        seen.add(name.casefold())
        names[i] = name
    return names


def _read(column: pol.Column, x: str) -> str:
    match column:
        case pol.Integer():
            return f"TRY_CAST({x} AS HUGEINT)"
        case pol.Real():
            return f"TRY_CAST({x} AS DOUBLE)"
        case pol.Boolean():
            return f"TRY_CAST({x} AS BOOLEAN)"
        case pol.Date():
            return f"TRY_CAST({x} AS DATE)"
        case pol.Timestamp():
            # without an offset the session's zone counts, and that is UTC
            return f"TRY_CAST({x} AS TIMESTAMPTZ)"
        case pol.Category(values=(bool(), *_)):
            return f"TRY_CAST({x} AS BOOLEAN)"
        case pol.Category(values=(int(), *_)):
            return f"TRY_CAST({x} AS HUGEINT)"
    return x
