# ruff: noqa: S608 - statements are rendered from the closed plan, identifiers quoted
"""DuckDB: the embedded default engine.

Data is loaded or registered first; then external access is switched off (but
for the listed source files) and the configuration locked, so that even a forged
statement could reach nothing but the policy's own sources. A connection that
the caller hands over keeps its settings but one; the engine works on a cursor of it.

DuckDB believes the statistics of Parquet files: where a footer lies, or leaves NaN
out as the format wants, it removes clamps and guards as proved. So the rule that
draws such conclusions is switched off, on every connection; it is a setting of
the database, not of a session.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from math import prod
from operator import add
from typing import Any, Final

from discreet import policy as pol
from discreet.engines._dialect import DuckDB
from discreet.engines._driver import duckdb
from discreet.engines._limit import time_limit
from discreet.engines._physical import Field, Physical, families
from discreet.engines._protocol import (
    check_joins,
    check_tables,
    columns_in_order,
    conceal_errors,
    in_order,
)
from discreet.engines._statements import Statements
from discreet.errors import SchemaError
from discreet.plan import Aggregate, Groups, MeasureKind, Salt, Scan

_INTEGERS: Final = "TINYINT, SMALLINT, INTEGER, BIGINT, HUGEINT"
_UNSIGNED: Final = "UTINYINT, USMALLINT, UINTEGER, UBIGINT"
_MOMENTS: Final = "TIMESTAMP, TIMESTAMP_S, TIMESTAMP_MS, TIMESTAMP_NS"
_FAMILIES: Final = families(
    {
        Physical.INTEGER: f"{_INTEGERS}, {_UNSIGNED}",
        Physical.FLOAT: "FLOAT, DOUBLE",
        Physical.DECIMAL: "DECIMAL",
        Physical.TEXT: "VARCHAR, ENUM, UUID",
        Physical.BOOLEAN: "BOOLEAN",
        Physical.DATE: "DATE",
        Physical.TIMESTAMP: f"{_MOMENTS}, TIMESTAMP WITH TIME ZONE, TIMESTAMPTZ_NS",
    }
)
_STORAGE: Final = """
    WITH relation AS (
        SELECT database_name, schema_name, table_name AS name, NOT EXISTS (
            FROM duckdb_columns() c WHERE c.table_oid = t.table_oid AND c.is_generated
            AND c.database_name = t.database_name) AND EXISTS (
            FROM duckdb_databases() d
            WHERE d.database_name = t.database_name AND d.type = 'duckdb') AS plain
        FROM duckdb_tables() t
        UNION ALL SELECT database_name, schema_name, view_name, FALSE FROM duckdb_views()
    )
    SELECT count(*) FILTER (WHERE plain), count(*) FROM relation
    WHERE lower(name) = lower($name) AND CASE WHEN len($outer) = 0
        THEN schema_name = current_schema()
        ELSE list_has_all([lower(database_name), lower(schema_name)],
            list_transform($outer, lambda x: lower(x))) END
"""
SWITCHED_OFF: Final = ("statistics_propagation", "top_n_window_elimination")
"""The first for safety (see above), the second for speed of rankings."""
_MANY: Final = 10_000
"""Groups beyond which they are read as columns."""
_PARTS: Final = (1, 8, 64)
"""Sorting spills to disk, so one pass is best; units are split only when memory runs out."""


class DuckDBEngine(Statements):
    """Executes aggregates in DuckDB.

    Parameters
    ----------
    connection
        Connection that sees the tables.
    policy
        Tables and their public domains.
    tables
        SQL name of each table of the policy.
    places
        Files that private tables are read from.
    unseen
        Private tables that are read from files or servers which cannot be told.
    computed
        Those of the tables that are views, or else compute something while they are read.
    cleanup
        Called when the engine is closed.
    live
        Whether public tables may change while the engine is open; then joins are
        checked again in the snapshot of each statement.
    public
        Connection that sees public tables, so that nobody waits for a running
        statement to learn about them; the same connection if left out.
    timeout
        Seconds after which a question is cancelled.
    """

    name = "duckdb"

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        policy: pol.Policy,
        tables: Mapping[str, str],
        cleanup: Callable[[], None],
        *,
        live: bool,
        computed: Collection[str] = (),
        places: Iterable[str] = (),
        unseen: Iterable[str] = (),
        public: duckdb.DuckDBPyConnection | None = None,
        timeout: float = 600.0,
    ) -> None:
        self._dialect = DuckDB()
        self._connection = connection
        self._live = live
        self._timeout = timeout
        # also when nobody closes: at collection or at exit, without a warning
        self._cleanup = weakref.finalize(self, cleanup)
        self._lock = threading.Lock()
        self._public = (self._lock, connection) if public is None else (threading.Lock(), public)
        self.places = tuple(places)
        self.unseen = tuple(unseen)
        self._switch_off()
        self._hold(
            policy,
            {n: (tables[n], self._describe(n, tables[n]), n in computed) for n in policy.tables},
        )

    def _switch_off(self) -> None:
        """Add to the optimizer rules that are switched off already."""
        (setting_now,) = self._connection.execute(
            "SELECT current_setting('disabled_optimizers')"
        ).fetchall()[0]
        rules = {r for r in str(setting_now or "").split(",") if r}
        if rules >= set(SWITCHED_OFF):
            return
        setting = ",".join(sorted(rules | set(SWITCHED_OFF)))
        with suppress(duckdb.Error):
            self._connection.execute(f"SET disabled_optimizers = {self._dialect.text(setting)}")
            return
        raise SchemaError(
            "this DuckDB connection is locked with an optimizer rule that believes the "
            "statistics of files",
            hint=f"SET disabled_optimizers = '{setting}'",
        )

    def _describe(self, name: str, table: str) -> dict[str, Field]:
        columns = columns_of(self._connection, table)
        if columns is None:
            raise SchemaError(f"the source of table {name!r} cannot be read")
        return {column: Field(column, family(kind), kind) for column, kind in columns}

    def execute(self, aggregate: Aggregate, salt: Salt) -> Groups:
        """Return one tuple of exact integers per group."""
        check_tables(aggregate, self._policy)
        if not self._live:
            check_joins(aggregate, self.fanout)
        return conceal_errors(lambda: self._execute(aggregate, salt), but=(SchemaError,))

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
        groups: Groups | None = None
        with self._state(), time_limit(self._connection.interrupt, self._timeout):
            if self._live:
                check_joins(aggregate, lambda s, c: int(self._rows(self._repeats(s, c))[0][0]))
            for part in range(parts):
                chunk = (part, parts) if parts > 1 else None
                more = self._groups(aggregate, self._filled(aggregate, salt, chunk))
                groups = more if groups is None else _sum_of(groups, more)
        return {} if groups is None else groups

    @contextmanager
    def _one_state(self, *, lasting: bool = False) -> Iterator[None]:
        """Hold the connection, and for tables that may change one state of them."""
        del lasting
        with self._lock:
            begun = self._live
            try:
                if begun:
                    self._connection.execute("BEGIN TRANSACTION")
            except duckdb.TransactionException:
                begun = False  # the caller's own transaction is a snapshot as well
            try:
                yield
            finally:
                if begun:
                    self._connection.execute("ROLLBACK")

    def _groups(self, aggregate: Aggregate, sql: str) -> Groups:
        """Run a statement and put its groups in order; by columns, where they may be many."""
        keys, result = len(aggregate.keys), self._connection.execute(sql)
        whole = all(str(kind) == "BIGINT" for _, kind, *_ in result.description or ())
        if whole and prod(len(key.codes or ()) for key in aggregate.keys) > _MANY:
            return columns_in_order(list(result.fetchnumpy().values()), keys)
        return in_order(result.fetchall(), keys)

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql).fetchall()

    def _measure(self, public: Scan, columns: tuple[str, ...]) -> int:
        sql, (lock, connection) = self._repeats(public, columns), self._public
        with lock:
            return conceal_errors(lambda: int(connection.execute(sql).fetchall()[0][0]))


def _sum_of(groups: Groups, more: Groups) -> Groups:
    """Add up two results, in order."""
    sums = dict(groups)
    for cell, own in more.items():
        total = sums.get(cell)
        sums[cell] = own if total is None else tuple(map(add, total, own))
    return in_order([cell + own for cell, own in sums.items()], len(next(iter(sums), ())))


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


def is_stored(connection: duckdb.DuckDBPyConnection, *names: str) -> bool:
    """Whether a name, as it stands in SQL, means stored rows and nothing else, by the catalogue.

    Not so for views, registered frames, tables of foreign databases and virtual columns. A
    name that might mean several things means none of them.
    """
    *outer, name = names
    plain, every = connection.execute(_STORAGE, {"name": name, "outer": outer}).fetchall()[0]
    return bool(every) and bool(plain == every)


def family(native: str) -> Physical:
    """Family of a DuckDB type, by its printed name."""
    if native.endswith("]"):
        return Physical.OTHER
    return _FAMILIES.get(native.partition("(")[0], Physical.OTHER)
