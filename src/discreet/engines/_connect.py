"""From whatever people have to an engine: files, frames, databases, connections."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from discreet import policy as pol
from discreet._lazy import load
from discreet.engines._protocol import Engine
from discreet.errors import SchemaError

SPARK: Final = "spark://"
"""How a source begins that a Spark session reads: a table's name or a Parquet folder follows."""


def connect(
    source: Any,
    policy: pol.Policy,
    *,
    memory_limit: str | None = None,
    temp_directory: str | Path | None = None,
    temp_limit: str | None = None,
    threads: int | None = None,
    timeout: float = 600.0,
) -> Engine:
    """Open the tables of a policy.

    Parameters
    ----------
    source
        Path or glob of Parquet or CSV files, a pandas, Polars or Arrow table, a
        DuckDB file or connection, a PostgreSQL URL or connection, a Spark session or
        data frame, ``spark://table``; or a mapping from table names to any of these; or
        None for each table's own source. An :class:`Engine` that is open already is
        taken as it is.
    policy
        What is public about the tables.
    memory_limit
        For the embedded engine, such as ``"4GB"``; by default 80 % of the machine.
    temp_directory
        Where the embedded engine may spill private data, unencrypted; by default
        a directory that only this user can read, removed on closing.
    temp_limit
        How much of it, such as ``"20GB"``; by default what DuckDB allows itself.
    threads
        Of the embedded engine; by default one for each processor.
    timeout
        Seconds after which a question is cancelled; it has failed then, and stays paid.

    Raises
    ------
    SchemaError
        When a table or column is missing, or its type does not suit the policy.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from discreet.policy import Budget, Integer, Policy, Table
    >>> policy = Policy([Table("people", [Integer("age", 0, 115)])], Budget("1"))
    >>> engine = connect(pa.table({"age": [31, 47]}), policy)
    >>> engine.name
    'duckdb'
    >>> engine.close()
    """
    if all(callable(getattr(source, m, None)) for m in ("execute", "sql", "fanout", "close")):
        return cast("Engine", source)
    sources = _assign(source, policy)
    if any(_is_spark(s) for s in sources.values()):
        from discreet.engines._spark import open_spark  # noqa: PLC0415 - optional engine

        if not all(_is_spark(s) for s in sources.values()):
            raise SchemaError("tables of one policy must live in one Spark session")
        return open_spark(sources, policy, timeout=timeout)
    databases = {name: s for name, s in sources.items() if _is_postgres(s)}
    if databases:
        from discreet.engines._postgres import open_postgres  # noqa: PLC0415 - optional engine

        first = next(iter(databases.values()))
        if any(s is not first and s != first for s in sources.values()):
            raise SchemaError("tables of one policy must live in one PostgreSQL database")
        return open_postgres(first, policy, timeout=timeout)
    load("discreet.engines._sources")
    from discreet.engines._sources import open_duckdb  # noqa: PLC0415 - imported when used

    limits = {
        "memory_limit": memory_limit,
        "max_temp_directory_size": temp_limit,
        "threads": None if threads is None else str(threads),
    }
    return open_duckdb(
        sources, policy, limits=limits, temp_directory=temp_directory, timeout=timeout
    )


def _assign(source: Any, policy: pol.Policy) -> dict[str, Any]:
    """Say for each table of the policy where it comes from."""
    tables = policy.tables
    if isinstance(source, Mapping):
        unknown = [name for name in source if name not in tables]
        if unknown:
            raise SchemaError(f"the policy has no table {unknown[0]!r}", hint=_listed(policy))
        sources = dict(source)
    elif source is None:
        sources = {}
    elif is_database(source):
        sources = dict.fromkeys(tables, source)
    else:
        private = [name for name, table in tables.items() if not table.public]
        if len(private) > 1:
            raise SchemaError(
                f"one source was given, but the policy has {len(private)} private tables",
                hint=_listed(policy),
            )
        sources = {private[0]: source}
    assigned: dict[str, Any] = {}
    for name, table in tables.items():
        assigned[name] = sources.get(name, table.source)
        if assigned[name] is None:
            raise SchemaError(f"table {name!r} has no source", hint=f'source = "{name}.parquet"')
    return assigned


def _listed(policy: pol.Policy) -> str:
    return "{" + ", ".join(f'"{name}": …' for name in policy.tables) + "}"


def is_database(source: Any) -> bool:
    """Whether a source holds several tables, found by name."""
    if isinstance(source, str | Path):
        return is_duckdb_file(source) or _is_postgres(source)
    known = module(source).startswith(("duckdb", "_duckdb"))
    return known or _is_postgres(source) or is_spark_session(source)


def is_duckdb_file(source: str | Path) -> bool:
    """Whether a path names a DuckDB database."""
    return str(source).endswith((".duckdb", ".db"))


def _is_postgres(source: Any) -> bool:
    if isinstance(source, str):
        return source.startswith(("postgresql://", "postgres://"))
    return module(source).startswith("psycopg")


def _is_spark(source: Any) -> bool:
    if isinstance(source, str):
        return source.startswith(SPARK)
    return module(source).startswith("pyspark.sql.")


def is_spark_session(source: Any) -> bool:
    """Whether a source is a session and not a data frame, which may take any name for a column."""
    return _is_spark(source) and not isinstance(source, str) and hasattr(type(source), "sql")


def module(value: Any) -> str:
    """Module of a value's type: tells frames apart without importing their libraries."""
    return type(value).__module__
