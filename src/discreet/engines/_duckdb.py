# ruff: noqa: S608 - statements are rendered from the closed plan, identifiers quoted
"""DuckDB: the embedded default engine.

Data is loaded or registered first; then external access is switched off (but
for the listed source files) and the configuration locked, so that even a forged
statement could reach nothing but the policy's own sources. A connection that
the caller hands over keeps its settings; the engine works on a cursor of it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Final

import duckdb

from discreet import policy as pol
from discreet.engines._dialect import DuckDB
from discreet.engines._physical import Found, Physical, check
from discreet.engines._protocol import check_fanout, sealed
from discreet.engines._render import Source, render, render_fanout
from discreet.errors import SchemaError
from discreet.plan import Aggregate, Groups, MeasureKind, Salt, Scan

_FAMILIES: Final = {
    "TINYINT": Physical.INTEGER,
    "SMALLINT": Physical.INTEGER,
    "INTEGER": Physical.INTEGER,
    "BIGINT": Physical.INTEGER,
    "HUGEINT": Physical.INTEGER,
    "UTINYINT": Physical.INTEGER,
    "USMALLINT": Physical.INTEGER,
    "UINTEGER": Physical.INTEGER,
    "UBIGINT": Physical.INTEGER,
    "FLOAT": Physical.FLOAT,
    "DOUBLE": Physical.FLOAT,
    "DECIMAL": Physical.DECIMAL,
    "VARCHAR": Physical.TEXT,
    "ENUM": Physical.TEXT,
    "UUID": Physical.TEXT,
    "BOOLEAN": Physical.BOOLEAN,
    "DATE": Physical.DATE,
    "TIMESTAMP": Physical.TIMESTAMP,
    "TIMESTAMP_S": Physical.TIMESTAMP,
    "TIMESTAMP_MS": Physical.TIMESTAMP,
    "TIMESTAMP_NS": Physical.TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": Physical.TIMESTAMP,
}
_PARTS: Final = (1, 8, 64)
"""Sorting spills to disk, so one pass is best; units are split only when memory runs out."""


class DuckDBEngine:
    """Executes aggregates in DuckDB.

    Parameters
    ----------
    connection
        Connection that sees the tables.
    policy
        Tables and their public domains.
    tables
        SQL name of each table of the policy.
    cleanup
        Called when the engine is closed.
    """

    name = "duckdb"

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        policy: pol.Policy,
        tables: Mapping[str, str],
        cleanup: Callable[[], None],
    ) -> None:
        self._dialect = DuckDB()
        self._connection = connection
        # also when nobody closes: at collection or at exit, without a warning
        self._cleanup = weakref.finalize(self, cleanup)
        self._lock = threading.Lock()
        self._sources = {
            name: Source(tables[name], check(table, self._describe(name, tables[name])))
            for name, table in policy.tables.items()
        }

    def _describe(self, name: str, table: str) -> dict[str, Found]:
        columns = columns_of(self._connection, table)
        if columns is None:
            raise SchemaError(f"the source of table {name!r} cannot be read")
        return {column: Found(column, family(kind), kind) for column, kind in columns}

    def execute(self, aggregate: Aggregate, salt: Salt) -> Groups:
        """Return one tuple of exact integers per group."""
        check_fanout(self, aggregate)
        return sealed(lambda: self._execute(aggregate, salt))

    def _execute(self, aggregate: Aggregate, salt: Salt) -> Groups:
        for parts in _PARTS:
            try:
                return self._in_parts(aggregate, salt, parts)
            except duckdb.OutOfMemoryException:
                if not _divisible(aggregate):
                    raise
        raise duckdb.OutOfMemoryException

    def _in_parts(self, aggregate: Aggregate, salt: Salt, parts: int) -> Groups:
        """Add up over disjoint sets of units: less memory, the same integers."""
        keys = len(aggregate.keys)
        groups: Groups = {}
        for part in range(parts):
            chunk = (part, parts) if parts > 1 else None
            for row in self._rows(render(self._dialect, self._sources, aggregate, salt, chunk)):
                known = groups.get(row[:keys], (0,) * (len(row) - keys))
                groups[row[:keys]] = tuple(
                    a + int(b) for a, b in zip(known, row[keys:], strict=True)
                )
        return dict(sorted(groups.items()))

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._connection.execute(sql).fetchall()

    def sql(self, aggregate: Aggregate, salt: Salt | None = None) -> str:
        """Return the SQL that would run; without a salt, with placeholders for it."""
        return render(self._dialect, self._sources, aggregate, salt)

    def fanout(self, public: Scan, columns: tuple[str, ...]) -> int:
        """Return how many rows of a public table share one value of `columns`, at most."""
        sql = render_fanout(self._dialect, self._sources, public, columns)
        return sealed(lambda: int(self._rows(sql)[0][0]))

    def close(self) -> None:
        """Release what was opened for this engine."""
        self._cleanup()


def _divisible(aggregate: Aggregate) -> bool:
    """Whether results over disjoint sets of units add up to the whole."""
    distinct = any(m.kind is MeasureKind.DISTINCT for m in aggregate.measures)
    return aggregate.unit is not None and not distinct


def columns_of(connection: duckdb.DuckDBPyConnection, table: str) -> list[tuple[str, str]] | None:
    """Names and types of a table's columns, or None when it cannot be read."""
    try:
        described = connection.execute(f"DESCRIBE SELECT * FROM {table}").fetchall()
    except Exception:  # noqa: BLE001 - whatever the reason, the table is not there
        return None
    return [(str(column), str(kind)) for column, kind, *_ in described]


def family(native: str) -> Physical:
    """Family of a DuckDB type, by its printed name."""
    if native.endswith("]"):
        return Physical.OTHER
    return _FAMILIES.get(native.partition("(")[0], Physical.OTHER)
