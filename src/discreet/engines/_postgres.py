"""PostgreSQL: the engine for data that already lives in a database.

Each aggregate runs in a read-only transaction of its own, under a statement
timeout, with the settings of :mod:`discreet._session` and an empty search path, and is
rolled back at the end: nothing is written, not even settings. Text is hashed as UTF-8,
so the database must be encoded in it.

Plain are stored rows and nothing else: heap tables, materialized views and partitioned
tables whose parts all are, without row-level security and virtual columns.
Whatever else the catalogue names computes something while it is read, and may fail at
it: it is read behind a fence, and once as a whole when opened.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, LiteralString

from discreet import _unseen
from discreet import policy as pol
from discreet._session import pinned
from discreet.engines._dialect import Postgres
from discreet.engines._physical import Field, Physical, check_spellings, families
from discreet.engines._privately import no_core_dumps
from discreet.engines._protocol import SERVER, check_joins, check_tables, conceal_errors, in_order
from discreet.engines._statements import Statements
from discreet.errors import SchemaError
from discreet.plan import Aggregate, Groups, Salt

if TYPE_CHECKING:
    import psycopg

_FAMILIES: Final = families(
    {
        Physical.INTEGER: "int2, int4, int8",
        Physical.FLOAT: "float4, float8",
        Physical.DECIMAL: "numeric",
        Physical.TEXT: "text, varchar, bpchar, uuid",
        Physical.BOOLEAN: "bool",
        Physical.DATE: "date",
        Physical.TIMESTAMP: "timestamp, timestamptz",
    }
)
_LASTING: Final = ("repeatable read", "serializable")
"""Levels at which a transaction sees one state."""
_IDENTITY: Final = """
    SELECT system_identifier, oid FROM pg_catalog.pg_control_system(), pg_catalog.pg_database
    WHERE datname = pg_catalog.current_database()
"""
"""The same however the server is addressed, and on its replicas."""
_COLUMNS: Final = """
    WITH RECURSIVE named AS (
        SELECT CAST(pg_catalog.to_regclass(%s) AS oid) AS oid
    ), part AS (
        SELECT oid FROM named
        UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN part ON i.inhparent = part.oid
    ), kind AS (
        SELECT bool_or(c.relkind NOT IN ('r', 'p', 'm') OR c.relrowsecurity
            OR COALESCE(m.amname, 'heap') <> 'heap' OR EXISTS (
                SELECT FROM pg_catalog.pg_attribute v
                WHERE v.attrelid = c.oid AND v.attgenerated = 'v')) AS computed
        FROM pg_catalog.pg_class c JOIN part ON c.oid = part.oid
        LEFT JOIN pg_catalog.pg_am m ON m.oid = c.relam
    )
    SELECT a.attname, t.typname, t.typtype, n.nspname, c.relname, kind.computed
    FROM kind, pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
    WHERE c.oid = (SELECT oid FROM named)
    ORDER BY a.attnum
"""

_FOREIGN: Final = """
    WITH RECURSIVE part AS (
        SELECT CAST(pg_catalog.to_regclass(%s) AS oid) AS oid
        UNION SELECT f.oid FROM part JOIN LATERAL (
            SELECT i.inhrelid FROM pg_catalog.pg_inherits i WHERE i.inhparent = part.oid
            UNION ALL SELECT d.refobjid FROM pg_catalog.pg_rewrite r
            JOIN pg_catalog.pg_depend d ON d.objid = r.oid
                AND d.classid = CAST('pg_catalog.pg_rewrite' AS regclass)
                AND d.refclassid = CAST('pg_catalog.pg_class' AS regclass)
            WHERE r.ev_class = part.oid
        ) AS f (oid) ON true
    )
    SELECT bool_or(c.relkind = 'f') FROM pg_catalog.pg_class c JOIN part ON c.oid = part.oid
"""
"""Whether a foreign table is among what a table, its parts or its views are read from."""


class PostgresEngine(Statements):
    """Executes aggregates in PostgreSQL.

    Parameters
    ----------
    connection
        An open psycopg connection.
    policy
        Tables and their public domains; a table's name may be qualified by its schema.
    timeout
        Seconds after which a statement is given up.
    cleanup
        Called when the engine is closed.
    connect
        Opens another connection, so that nobody waits for a running statement to
        learn about a public table.
    """

    name = "postgresql"

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        policy: pol.Policy,
        timeout: float,
        cleanup: Callable[[], None],
        connect: Callable[[], psycopg.Connection[Any]] | None = None,
    ) -> None:
        self._dialect = Postgres()
        self._connection = connection
        self._timeout = timeout
        self._cleanup = cleanup
        self._connect = connect
        self._lock = threading.Lock()
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise SchemaError(f"the database is encoded in {encoding}; texts are hashed as UTF-8")
        self._hold(policy, {name: self._describe(t) for name, t in policy.tables.items()})
        foreign = [t.name for t in policy.tables.values() if not t.public and self._foreign(t)]
        self.unseen = tuple(map(_unseen.foreign_table, foreign))
        with suppress(Exception):  # whoever may not ask says so below
            self.places = tuple(f"{SERVER}{s} {d}" for s, d in self._rows(_IDENTITY))
        if not self.places:
            # an address has many spellings, and nothing else that anybody may read is lasting
            self.unseen += (_unseen.SERVER,)

    def _describe(self, table: pol.Table) -> tuple[str, dict[str, Field], bool]:
        columns = self._look_up(_COLUMNS, table)
        if not columns:
            raise SchemaError(
                f"the database has no table {table.name!r} that this connection can see",
                hint=f'name it as in the database: [tables."schema.{table.name}"]',
            )
        fields = {
            name: Field(name, Physical.TEXT if kind == "e" else family(native), native)
            for name, native, kind, *_ in columns
        }
        *_, schema, relation, computed = columns[0]
        return self._dialect.quote(schema, relation), fields, computed

    def _foreign(self, table: pol.Table) -> bool:
        """Whether rows of a table come from elsewhere, by the tables that it is made of."""
        rows = self._look_up(_FOREIGN, table)
        return not rows or bool(rows[0][0])

    def _look_up(self, sql: LiteralString, table: pol.Table) -> list[tuple[Any, ...]]:
        """Ask the catalogue about a table, under the caller's own search path."""
        quoted = self._dialect.quote(*table.name.split("."))
        with self._lock, self._connection.transaction(force_rollback=True):
            self._pin(self._connection)
            return self._connection.execute(sql, (quoted,)).fetchall()

    def execute(self, aggregate: Aggregate, salt: Salt) -> Groups:
        """Return one tuple of exact integers per group."""
        check_tables(aggregate, self._policy)
        return conceal_errors(lambda: self._execute(aggregate, salt), but=(SchemaError,))

    def _execute(self, aggregate: Aggregate, salt: Salt) -> Groups:
        keys = len(aggregate.keys)
        with self._state():
            # public tables may have changed since they were measured: once more, in one snapshot
            check_joins(aggregate, lambda s, c: int(self._run(self._repeats(s, c))[0][0]))
            rows = self._run(self.sql(aggregate, salt))
        return in_order([row[:keys] + tuple(map(int, row[keys:])) for row in rows], keys)

    def _run(
        self, sql: str, connection: psycopg.Connection[Any] | None = None
    ) -> list[tuple[Any, ...]]:
        # bytes are sent as they are: a percent sign in a literal is no placeholder
        return (connection or self._connection).execute(sql.encode()).fetchall()

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        if self._connect is not None and self._lock.locked():
            with self._connect() as other, self._read_only(other):
                return self._run(sql, other)
        with self._lock, self._read_only(self._connection):
            return self._run(sql)

    @contextmanager
    def _one_state(self, *, lasting: bool = False) -> Iterator[None]:
        """Hold the connection in a transaction that sees one state of the tables."""
        with self._lock, self._read_only(self._connection):
            if lasting and self._run("SHOW transaction_isolation")[0][0] not in _LASTING:
                raise SchemaError(
                    "several statements run in a transaction that the caller began, at a level at "
                    "which each of them sees another state of the tables",
                    hint="SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, or commit before",
                )
            yield

    @contextmanager
    def _read_only(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        idle = connection.info.transaction_status.name == "IDLE"
        with connection.transaction(force_rollback=True):
            if idle:  # a transaction that the caller began keeps its own level
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            self._pin(connection, transaction_read_only="on", search_path="pg_catalog")
            limit = f"SET LOCAL statement_timeout = {int(self._timeout * 1000)}"
            connection.execute(limit.encode())
            yield

    def _pin(self, connection: psycopg.Connection[Any], **more: str) -> None:
        if not pinned(connection, more):
            raise SchemaError("this PostgreSQL connection does not let its settings be changed")


def family(native: str) -> Physical:
    """Family of a PostgreSQL type, by its catalogue name."""
    return _FAMILIES.get(native, Physical.OTHER)


def open_postgres(source: Any, policy: pol.Policy, *, timeout: float) -> PostgresEngine:
    """Open a URL, or use a connection that the caller keeps."""
    for table in policy.tables.values():
        check_spellings(table)
    try:
        import psycopg  # noqa: PLC0415 - an optional engine
    except ImportError:
        raise SchemaError(
            "PostgreSQL needs the package psycopg, which is not installed",
            hint='pip install "discreet[postgres]"',
        ) from None

    stack = ExitStack()
    stack.enter_context(no_core_dumps())
    connection, connect = source, None
    with stack:
        if isinstance(source, str):
            connect = partial(psycopg.connect, source, autocommit=True)
            connection = None
            with suppress(psycopg.Error):  # the message would repeat host, user or password
                connection = connect()
            if connection is None:
                raise SchemaError("the PostgreSQL server cannot be reached with the given URL")
            stack.callback(connection.close)
        later = stack.pop_all()
        stack.callback(later.close)
        engine = PostgresEngine(connection, policy, timeout, later.close, connect)
        stack.pop_all()
    return engine
