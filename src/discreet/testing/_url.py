# ruff: noqa: S608 - names are quoted
"""Engines by their URLs: made-up rows are put where they are read, and taken away at the end."""

from __future__ import annotations

import importlib
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, cast

from discreet import engines
from discreet import policy as pol
from discreet._text import quoted
from discreet.audit import Report, Sample, check_engine
from discreet.errors import DiscreetError, ParameterError, SchemaError

Opener = Callable[[Sample, pol.Policy], engines.Engine]
_KINDS: Final = "duckdb:  postgresql://USER@HOST/DATABASE  spark://  sc://HOST  package.module:open"


def check_url(url: str, *, rows: int = 400, every: int = 1) -> Report:
    """Check the engine that a URL names; see :func:`check_engine`.

    Parameters
    ----------
    url
        ``duckdb:`` for one in memory; a PostgreSQL URL, where a schema of its own is made and
        dropped; ``spark://`` for the session of this machine, ``sc://host`` for Spark Connect; or
        ``package.module:function`` for a function as :func:`check_engine` takes it.
    rows, every
        As for :func:`check_engine`.
    """
    with _opener(url) as connect:
        return check_engine(connect, rows=rows, every=every)


@contextmanager
def _opener(url: str) -> Iterator[Opener]:
    if url == "duckdb:":
        yield lambda sample, policy: engines.connect(sample.arrow(), policy)
    elif url.startswith(("postgresql://", "postgres://")):
        with _schema(url) as connect:
            yield connect
    elif url == engines.SPARK or url.startswith("sc://"):
        yield _on_spark(url)
    elif url.startswith(engines.SPARK):
        raise ParameterError(
            "spark:// stands for a session of this machine: rows are made up, so it takes neither "
            "a table nor a folder nor a cluster",
            hint="spark://  sc://HOST",
        )
    else:
        yield _function(url)


def _function(name: str) -> Opener:
    module, _, function = name.partition(":")
    if not (module and function):
        raise ParameterError(
            "this names neither an engine nor a function that opens one", hint=_KINDS
        )
    try:
        found = importlib.import_module(module)
    except Exception as error:
        raise ParameterError(f"module {module!r} cannot be imported: {error}") from error
    opener = getattr(found, function, None)
    if not callable(opener):
        raise ParameterError(f"module {module!r} has no function {function!r}")

    def connect(sample: Sample, policy: pol.Policy) -> engines.Engine:
        try:
            return cast("Opener", opener)(sample, policy)
        except Exception as error:
            raise ParameterError(f"{name!r} opens no engine: {error!r}") from error

    return connect


def _on_spark(url: str) -> Opener:
    session = _session(url)
    frames: dict[str, Any] = {}

    def connect(sample: Sample, policy: pol.Policy) -> engines.Engine:
        if not frames:
            frames.update({n: session.createDataFrame(t) for n, t in sample.arrow().items()})
        return engines.connect(frames, policy)

    return connect


def _session(url: str) -> Any:
    """The session that a URL stands for; a client of Spark Connect tries for minutes."""
    session, version = None, None
    try:
        session = engines.local_session(remote=None if url == engines.SPARK else url)
        version = session.version
    except DiscreetError:
        raise
    except Exception:  # noqa: BLE001, S110 - the message would repeat host and token
        pass
    if version is None:
        raise SchemaError(
            "the Spark session cannot be reached or started",
            hint=None if url == engines.SPARK else 'pip install "pyspark[connect]"',
        )
    return session


@contextmanager
def _schema(url: str) -> Iterator[Opener]:
    try:
        import psycopg  # noqa: PLC0415 - an optional engine
    except ImportError:
        raise SchemaError(
            "PostgreSQL needs the package psycopg, which is not installed",
            hint='pip install "discreet[postgres]"',
        ) from None
    connection: psycopg.Connection[Any] | None = None
    with suppress(psycopg.Error):  # the message would repeat host, user or password
        connection = psycopg.connect(url, autocommit=True)
    if connection is None:
        raise SchemaError("the PostgreSQL server cannot be reached with the given URL")
    schema = f"discreet_check_{secrets.token_hex(6)}"
    with connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
        try:
            connection.execute(f"SET search_path = {schema}".encode())
            filled: list[bool] = []

            def connect(sample: Sample, policy: pol.Policy) -> engines.Engine:
                if not filled:
                    _fill(connection, sample)
                    filled.append(True)
                return engines.connect(connection, policy)

            yield connect
        finally:
            connection.execute(f"DROP SCHEMA {schema} CASCADE".encode())


def _fill(connection: Any, sample: Sample) -> None:
    for table, types in sample.types.items():
        columns = ", ".join(f"{quoted(c)} {kind}" for c, kind in types.items())
        connection.execute(f"CREATE TABLE {quoted(table)} ({columns})".encode())
        marks = ", ".join(["%s"] * len(types))
        insert = f"INSERT INTO {quoted(table).replace('%', '%%')} VALUES ({marks})"
        with connection.cursor() as cursor:
            cursor.executemany(insert, [[row[c] for c in types] for row in sample.rows[table]])
