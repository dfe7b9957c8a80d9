# ruff: noqa: S608 - statements are rendered from the closed plan, identifiers quoted
"""Spark: the engine for data that one machine does not hold.

Whatever reads rows is a text handed to ``session.sql`` and collected by ``toArrow``: no JVM
object, no RDD and no function of ours on the workers. So classic sessions, Spark Connect and
servers that offer nothing else work alike. Limits per unit are windows; no row of a
private table is collected.

A statement is written so that it means the same with ``spark.sql.ansi.enabled`` and without.
Some things it takes from the session. Its clock is set to UTC for the time of each statement,
days of old calendars are read as they are stored, and its parser is kept from holding more and
more of what it has seen. Whether a backslash escapes in a string is
tried when the engine is opened.

Plain are Parquet folders and tables of the catalogue in a file format that stores types. The
types of a folder are read once, by a view, as they were when its statements are proved; which
files it holds is looked up for each statement. A
view or a data frame may do anything while it is read: it is read behind a fence, and once as
a whole when opened. Public tables are collected when opened: what was measured of them stays
true.
"""

from __future__ import annotations

import re
import secrets
import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial
from typing import Any, Final

from discreet import policy as pol
from discreet.engines._connect import SPARK, is_spark_session, module
from discreet.engines._dialect import Spark
from discreet.engines._java import FORGETFUL, LIMITS, MANAGED, local_session
from discreet.engines._lake import WHOLE, check_named, places_of
from discreet.engines._limit import time_limit
from discreet.engines._physical import Field, Physical, check_spellings, families
from discreet.engines._privately import no_core_dumps
from discreet.engines._protocol import (
    check_joins,
    check_tables,
    conceal_errors,
    in_order,
)
from discreet.engines._render import Source
from discreet.engines._statements import Statements
from discreet.errors import SchemaError
from discreet.plan import Aggregate, Groups, Salt

_SQL: Final = Spark()
_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    # else one cell that its reader cannot take drops the rest of its file, which are other people
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.respectSummaryFiles": "false",
    # a table with small files may have many rows: to send it to all workers, it is collected first
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1",
}
"""Settings of the session for the time of a statement: its clock, days as they are stored, files
that are read whole or not at all, and private rows that stay with the workers."""
_FAMILIES: Final = families(
    {
        Physical.INTEGER: "tinyint, smallint, int, bigint",
        Physical.FLOAT: "float, double",
        Physical.DECIMAL: "decimal",
        Physical.TEXT: "string, varchar, char",
        Physical.BOOLEAN: "boolean",
        Physical.DATE: "date",
        Physical.TIMESTAMP: "timestamp, timestamp_ntz",
    }
)
_INFERRED: Final = "spark.sql.sources.partitionColumnTypeInference.enabled"
_CAPITALS: Final = "spark.sql.caseSensitive"
_FORMATS: Final = frozenset({"parquet", "orc", "delta", "iceberg"})
_KINDS: Final = frozenset({"MANAGED", "EXTERNAL"})
_HARMLESS: Final = frozenset({"path", "serialization.format", "compression", "parquet.compression"})
"""Options of a table that change nothing of what is read."""
_QUESTIONS: Final = r"SELECT version(), '\\', 'x😀y' LIKE '_😀_'"
"""How a session reads what others read in other ways."""
_OWN: Final = "`discreet_"
"""How the names of our own views begin."""
_LOCKS: weakref.WeakKeyDictionary[Any, threading.RLock] = weakref.WeakKeyDictionary()
"""One for each session: settings must not be set back while another engine reads by them."""


_HERE: Final = threading.local()
"""Whether this thread runs a statement of ours."""
_LOGS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


class SparkEngine(Statements):
    """Executes aggregates in Spark.

    Parameters
    ----------
    session
        A session, classic or Connect.
    policy
        Tables and their public domains.
    tables
        SQL name of each table of the policy, and whether it is computed while it is read.
    cleanup
        Called when the engine is closed.
    places
        What private tables are read from.
    unlike
        SQL names of folders whose files may differ in their types.
    timeout
        Seconds after which a question is cancelled.
    """

    name = "spark"

    def __init__(
        self,
        session: Any,
        policy: pol.Policy,
        tables: Mapping[str, tuple[str, bool]],
        cleanup: Callable[[], None],
        *,
        places: tuple[str, ...] = (),
        unlike: Collection[str] = (),
        timeout: float = 600.0,
    ) -> None:
        self._dialect = _SQL
        self._session = session
        # views of our own that compute nothing: folders, whose files may become more
        self._folders = [
            n for n, computed in tables.values() if n.startswith(_OWN) and not computed
        ]
        self._timeout = timeout
        self._cleanup = weakref.finalize(self, cleanup)
        self.places = places
        sources = {n: (sql, columns_of(session, n, sql), c) for n, (sql, c) in tables.items()}
        self._hold(policy, sources)
        for name, table in policy.tables.items():
            if not table.public and not tables[name][1]:
                self._look(name, whole=tables[name][0] in unlike)

    def _look(self, name: str, *, whole: bool) -> None:
        """Read instants of stored rows once: far ones, stored in milliseconds, fail the reader.

        Where files may differ in their types, all columns are read.
        """
        source = self._sources[name]
        looked = {n: f for n, f in source.columns.items() if whole or f.kind is Physical.TIMESTAMP}
        if not looked:
            return
        touched = ", ".join(map(_SQL.touched, looked.values()))
        # behind a fence: else what a footer or a catalogue says might answer
        rows = Source(source.table, looked, computed=True).rows(_SQL)
        with suppress(Exception):  # the message may quote cells
            self._rows(f"SELECT {touched} FROM {rows}")
            return
        if whole:
            raise SchemaError(f"the Parquet files of table {name!r} differ in their types")
        raise SchemaError(
            f"Spark cannot read every instant of table {name!r}: one is too far, or a file is "
            "damaged",
            hint="write timestamps in microseconds, and without far ones",
        )

    def execute(self, aggregate: Aggregate, salt: Salt) -> Groups:
        """Return one tuple of exact integers per group."""
        check_tables(aggregate, self._policy)
        check_joins(aggregate, self.fanout)
        sql, keys = self._filled(aggregate, salt), len(aggregate.keys)
        rows = conceal_errors(lambda: self._rows(sql))
        return in_order([row[:keys] + tuple(map(int, row[keys:])) for row in rows], keys)

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        # its turn first: time behind another question is not its own
        with _turn(self._session):
            try:
                with _limited(self._session, self._timeout):
                    for folder in self._folders:
                        self._session.catalog.refreshTable(folder)  # a statement would be planned
                    return collected(self._session, sql)
            except Exception:
                self.ended = not _answers(self._session)
                raise


def _answers(session: Any) -> bool:
    """Whether a session still does anything; its Java may be gone."""
    with suppress(Exception):
        return collected(session, "SELECT 1") == [(1,)]
    return False


def collected(session: Any, sql: str) -> list[tuple[Any, ...]]:
    """Rows of a statement, with the session's settings as it means them."""
    with _settled(session):
        table = session.sql(sql).toArrow()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _turn(session: Any) -> threading.RLock:
    """What is held by whoever uses the session's settings."""
    return _LOCKS.setdefault(session, threading.RLock())


def _bounded(session: Any) -> bool:
    """Whether a session's owner has said how much its parser may hold."""
    managed, *limits = [str(session.conf.get(name, None)).lower() for name in (MANAGED, *LIMITS)]
    return managed == "true" and any(limit[:1].isdigit() for limit in limits)


@contextmanager
def _settled(session: Any, **more: str) -> Iterator[None]:
    """Set the session's settings to what statements mean, and back."""
    with _turn(session):
        settings = _SETTINGS | more
        if not _bounded(session):
            settings |= FORGETFUL
        before = {name: session.conf.get(name, None) for name in settings}
        changed = [name for name, value in settings.items() if before[name] != value]
        try:
            for name in changed:
                session.conf.set(name, settings[name])
            with _unsaid():
                yield
        finally:
            for name in changed:
                _set_back(session, name, before[name])


def _set_back(session: Any, name: str, value: str | None) -> None:
    if value is None:
        session.conf.unset(name)
    else:
        session.conf.set(name, value)


@contextmanager
def _unsaid() -> Iterator[None]:
    """Keep PySpark from printing errors of this thread, which quote cells."""
    _keep_quiet()
    before = getattr(_HERE, "asks", False)
    _HERE.asks = True
    try:
        yield
    finally:
        _HERE.asks = before


@cache
def _keep_quiet() -> None:
    from pyspark.logger import PySparkLogger  # noqa: PLC0415 - an optional engine

    for name in _LOGS:
        PySparkLogger.getLogger(name).addFilter(lambda _: not getattr(_HERE, "asks", False))


@contextmanager
def _limited(session: Any, seconds: float) -> Iterator[None]:
    """Cancel what this thread runs once the time is over.

    A classic session finds by its own tags only what the thread that asks has begun, and another
    one asks here; its context finds all jobs. A client of Spark Connect has no context.
    """
    tag = f"discreet-{secrets.token_hex(8)}"
    if module(session).startswith("pyspark.sql.connect"):
        begin, cancel, end = session.addTag, session.interruptTag, session.removeTag
    else:
        context = session.sparkContext
        begin, cancel, end = context.addJobTag, context.cancelJobsWithTag, context.removeJobTag
    begin(tag)
    try:
        with time_limit(partial(cancel, tag), seconds):
            yield
    finally:
        end(tag)


def columns_of(session: Any, name: str, sql: str) -> dict[str, Field]:
    """Physical columns of what can be read under a name."""
    fields = None
    with suppress(Exception):  # whatever it says, the table is not there
        fields = session.sql(f"SELECT * FROM {sql}").schema.fields
    if fields is None:
        raise SchemaError(
            f"the Spark session has no table {name!r} that it can read",
            hint=f'source = "spark://catalog.schema.{name}"',
        )
    columns = {
        f.name: Field(f.name, family(f.dataType.simpleString()), f.dataType.simpleString())
        for f in fields
    }
    _spelt_once(name, columns)
    _fixed(*columns, sql)
    return columns


def _spelt_once(table: str, columns: Collection[str]) -> None:
    """Refuse columns that differ in capitals only: the session decides which one is read."""
    folded = [n.lower() for n in columns]
    twice = next((n for n in columns if folded.count(n.lower()) > 1), None)
    if twice is not None:
        raise SchemaError(
            f"table {table!r} has several columns {twice!r} but for capitals, which Spark ignores"
        )


def _fixed(*names: str) -> None:
    """Refuse names that the session might read as others."""
    variable = next((n for n in names if "$" in n), None)
    if variable is not None:
        raise SchemaError(f"the name {variable!r} has a dollar sign, which Spark may replace")


def family(native: str) -> Physical:
    """Family of a Spark type, by its short name."""
    return _FAMILIES.get(re.split(r"[( ]", native, maxsplit=1)[0], Physical.OTHER)


def open_spark(sources: Mapping[str, Any], policy: pol.Policy, *, timeout: float) -> SparkEngine:
    """Open tables of the catalogue, folders and data frames of one session."""
    for table in policy.tables.values():
        check_spellings(table)
    session = _session_of(sources)
    _check_readings(session)
    with ExitStack() as stack:
        stack.enter_context(no_core_dumps())
        tables: dict[str, tuple[str, bool]] = {}
        places: list[str] = []
        unlike: set[str] = set()
        for name, source in sources.items():
            table = policy.tables[name]
            sql, computed, place = _source(session, table, source, stack, unlike)
            if table.public:
                sql, computed = _copied(session, table, sql, stack), False
            else:
                check_named(name, _plan(session, sql))
                with _settled(session):  # Spark may compute rows to say what their files are
                    places += places_of(session, sql, place)
            tables[name] = sql, computed
        later = stack.pop_all()
        stack.callback(later.close)
        engine = SparkEngine(session, policy, tables, later.close,
                             places=tuple(dict.fromkeys(places)),
                             unlike=unlike, timeout=timeout)  # fmt: skip
        stack.pop_all()
    return engine


def _plan(session: Any, sql: str) -> str:
    """Every plan of what is read under a name in SQL, in words."""
    with _settled(session, **WHOLE):
        rows = collected(session, f"EXPLAIN EXTENDED SELECT * FROM {sql}")
    return "".join(row[0] for row in rows)


def _session_of(sources: Mapping[str, Any]) -> Any:
    own = [s if is_spark_session(s) else s.sparkSession for s in sources.values()
           if not isinstance(s, str)]  # fmt: skip
    if any(session is not own[0] for session in own):
        raise SchemaError("tables of one policy must live in one Spark session")
    return own[0] if own else local_session()


def _check_readings(session: Any) -> None:
    """See that the session reads a statement as it is meant."""
    version, sign, alike = collected(session, _QUESTIONS)[0]
    if int(version.split(".")[0]) < 4:
        raise SchemaError(
            f"Spark {version.split(' ')[0]} is too old: version 4.0 or later is needed"
        )
    if sign != "\\":
        raise SchemaError(
            "the Spark session does not read backslashes in strings as escapes",
            hint='spark.conf.set("spark.sql.parser.escapedStringLiterals", "false")',
        )
    if not alike:
        raise SchemaError(
            f"Spark {version.split(' ')[0]} takes letters beyond U+FFFF for two in LIKE "
            "(SPARK-55453): version 4.0.3, 4.1.2 or later is needed"
        )


def _source(
    session: Any, table: pol.Table, source: Any, stack: ExitStack, unlike: set[str]
) -> tuple[str, bool, str | None]:
    """SQL name of a source, whether it is computed, and what it is read from."""
    if not isinstance(source, str) and not is_spark_session(source):
        return _viewed(session, source, stack), True, None
    text = source if isinstance(source, str) else table.source or table.name
    text = text.removeprefix(SPARK)
    if "/" in text:
        sql, alike = _folder(session, table, text, stack)
        if not alike:
            unlike.add(sql)
        return sql, False, text
    return _table(session, table, _SQL.quote(*text.split(".")), stack)


def _table(
    session: Any, table: pol.Table, sql: str, stack: ExitStack
) -> tuple[str, bool, str | None]:
    """Name a table of the catalogue as a whole.

    A shorter name would be looked up anew by each statement: after `USE`, or behind a temporary
    view that has it, it is the name of other data.
    """
    found = None
    with suppress(Exception):  # whatever a catalogue does not describe is held as a view is
        found = session.catalog.getTable(sql)
    if found is None or found.isTemporary:
        columns_of(session, table.name, sql)
        return _viewed(session, session.table(sql), stack), True, None
    sql = _SQL.quote(found.catalog, *(found.namespace or ()), found.name)
    description = {}
    with suppress(Exception):  # reported when its columns are asked for
        description = {
            row[0]: row[1] for row in collected(session, f"DESCRIBE TABLE EXTENDED {sql}")
        }
    _plainly_read(table.name, str(description.get("Storage Properties", "")))
    stored = (
        description.get("Type") in _KINDS and str(description.get("Provider")).lower() in _FORMATS
    )
    location = description.get("Location") if description.get("Type") in _KINDS else None
    return sql, not stored, str(location) if location else None


def _plainly_read(table: str, properties: str) -> None:
    """Refuse a table with options of its own for reading: they are stronger than the session's."""
    options = re.findall(r"[\[ ]([^=,\[\] ]+)=", properties)
    odd = next((n for n in options if n.lower() not in _HARMLESS), None)
    if odd is not None:
        raise SchemaError(
            f"table {table!r} has the option {odd!r}, which may change what is read of its files",
            hint="a table without options, or the folder of its files as the source",
        )


def _viewed(session: Any, frame: Any, stack: ExitStack) -> str:
    """Name a data frame."""
    return _own(session, frame.createTempView, stack)


def _folder(session: Any, table: pol.Table, path: str, stack: ExitStack) -> tuple[str, bool]:
    """Name a folder: by its path, each statement would look for its types anew, for long.

    Returns also whether its files are known to be alike.
    """
    _fixed(path)
    if re.search(r"[*?\[\]{}\\]", path):
        raise SchemaError(
            f"the folder of table {table.name!r} has a name with characters of a pattern, which "
            "may stand for other folders",
            hint="a name without *, ?, [ and {",
        )
    reason = ""
    merged: dict[str, str] = {}
    with suppress(Exception):  # types that Spark cannot merge
        merged = _schema(session, path, {_INFERRED: "false", _CAPITALS: "true"}, mergeSchema="true")
    _spelt_once(table.name, merged)
    with suppress(Exception):  # reported below
        columns, alike = _typed(session, table, path, merged)
        using = f"{columns}USING parquet OPTIONS (path {_SQL.text(path)})"
        with _settled(session, **{_INFERRED: "true"}):
            make = partial(_view, session, using)
            return _own(session, make, stack), alike
    with suppress(Exception):
        reason = _why(session, path)
    if "NANOS" in reason:
        raise SchemaError(
            f"the Parquet files of table {table.name!r} have timestamps in nanoseconds, which "
            "Spark does not read",
            hint="microseconds (coerce_timestamps of pyarrow's write_table)",
        )
    columns_of(session, table.name, f"parquet.{_SQL.quote(path)}")
    raise SchemaError(f"the types of the files of table {table.name!r} cannot be looked up")


def _view(session: Any, using: str, name: str) -> None:
    session.sql(f"CREATE TEMPORARY VIEW {name} {using}")


def _why(session: Any, path: str) -> str:
    """What Spark says of a folder whose types it cannot read."""
    try:
        session.read.parquet(path).schema  # noqa: B018 - found out here, with Spark Connect
    except Exception as error:  # noqa: BLE001 - looked through for one word, and shown to nobody
        return str(error)
    return ""


def _typed(
    session: Any, table: pol.Table, path: str, merged: Mapping[str, str]
) -> tuple[str, bool]:
    """Types of a folder where they must be said, and whether its files are known to be alike.

    Values of partitions are names of folders, and Spark guesses their types: '007' and '7' would
    be one person. What the policy takes for texts stays as it is written.
    """
    needed = {*table.columns, *table.ids}
    guessed = _schema(session, path, {_INFERRED: "true"})
    plain = _schema(session, path, {_INFERRED: "false"})
    alike = bool(merged) and all(merged.get(name) == plain.get(name) for name in needed)
    moved = {name for name in needed & {*guessed} if guessed[name] != plain[name]}
    if not moved or not needed <= {*guessed}:
        return "", alike
    types = guessed | {name: plain[name] for name in moved if _is_text(table, name)}
    listed = ", ".join(f"{_SQL.quote(name)} {types[name]}" for name in sorted(needed))
    return f"({listed}) ", alike


def _schema(session: Any, path: str, settings: Mapping[str, str], **options: str) -> dict[str, str]:
    with _settled(session, **settings):
        fields = session.read.options(**options).parquet(path).schema.fields
    return {f.name: f.dataType.simpleString() for f in fields}


def _is_text(table: pol.Table, name: str) -> bool:
    """Whether a column tells people apart, or is declared to hold texts."""
    column = table.columns.get(name)
    texts = isinstance(column, pol.Category) and isinstance(column.values[0], str)
    return name in table.ids or isinstance(column, pol.Text) or texts


def _own(session: Any, name_it: Callable[[str], object], stack: ExitStack) -> str:
    """Give something a name of its own until the end."""
    name = f"discreet_{secrets.token_hex(8)}"
    name_it(name)
    stack.callback(_forget, weakref.ref(session), name)
    return _SQL.quote(name)


def _forget(session: weakref.ref[Any], name: str) -> None:
    """Drop a view, unless its session is gone, and the view with it."""
    own = session()
    if own is not None:
        with suppress(Exception):  # a client of Connect asks nothing once its program ends
            own.catalog.dropTempView(name)


def _copied(session: Any, table: pol.Table, sql: str, stack: ExitStack) -> str:
    """Hold the rows of a public table as they are now."""
    fields = columns_of(session, table.name, sql)
    needed = ", ".join(_SQL.quote(c) for c in table.columns if c in fields) or "1 AS nothing"
    with suppress(Exception), _settled(session):  # engine messages are nobody's business
        query = session.sql(f"SELECT {needed} FROM {sql}")
        frame = session.createDataFrame(query.toArrow(), schema=query.schema)
        # it is what joins send to all workers: never the private side, however small its files
        return _viewed(session, frame.hint("broadcast"), stack)
    raise SchemaError(f"the source of table {table.name!r} cannot be read")
