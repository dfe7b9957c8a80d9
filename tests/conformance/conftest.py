"""One nasty table in DuckDB, in a real PostgreSQL and in plain Python.

PostgreSQL is started by the suite itself; see ``tests/conftest.py``.
"""

from __future__ import annotations

import sys

import duckdb
import psycopg
import pytest

from discreet import engines, plan
from discreet.audit._nasty import (  # noqa: F401 - tests read them off this module
    LIMITS,
    REGION,
    REGION_TYPES,
    SPEC,
    TABLE,
    UNITS,
    draw_rows,
    policy,
    table,
    types_of_private,
)


def _quote(name):
    return '"' + name.replace('"', '""') + '"'


def create(connection, name, types, rows, placeholder):
    """Create and fill a table through a connection's own parameters."""
    columns = ", ".join(f"{_quote(c)} {kind}" for c, kind in types.items())
    connection.execute(f"DROP TABLE IF EXISTS {_quote(name)}")
    connection.execute(f"CREATE TABLE {_quote(name)} ({columns})")
    insert = f"INSERT INTO {_quote(name)} VALUES (?)"
    if placeholder == "%s":
        insert = insert.replace("%", "%%")
    insert = insert.replace("?", ", ".join([placeholder] * len(types)))
    if rows:
        connection.executemany(insert, [[row[c] for c in types] for row in rows])


def load(connection, rows, placeholder, copies=1):
    """Put the nasty table, each row several times, and the public one into a database."""
    create(connection, TABLE, types_of_private(), rows, placeholder)
    name = _quote(TABLE)
    connection.execute(
        f"INSERT INTO {name} SELECT t.* FROM {name} t, generate_series(2, {copies}) s"
    )
    create(connection, "region", REGION_TYPES, REGION, placeholder)


class World:
    """The same tables in two engines and in plain Python."""

    def __init__(self, rows, connections):
        self.rows = rows
        self.connections = connections
        self.tables = {TABLE: rows, "region": REGION}
        self._engines = {}

    def engines(self, **choices):
        """Engines under one choice of unit and limits."""
        key = tuple(sorted(choices.items()))
        if key not in self._engines:
            chosen = policy(**choices)
            self._engines[key] = [engines.connect(c, chosen) for c in self.connections]
        return self._engines[key]

    def agree(self, aggregate, **choices):
        """Assert that every engine gives the integers of the reference."""
        salt = plan.Salt(b"conformance")
        expected = plan.run(aggregate, self.tables, salt)
        for engine in self.engines(**choices):
            assert engine.execute(aggregate, salt) == expected, engine.sql(aggregate)
        return expected


@pytest.fixture(scope="session")
def nasty():
    """Give the names of this module (test folders are not importable)."""
    return sys.modules[__name__]


@pytest.fixture(scope="session")
def world(postgres_url):
    """Four hundred nasty rows."""
    yield from _world(postgres_url, draw_rows(400, seed=1))


@pytest.fixture
def world_of(postgres_url):
    """Make a world of given rows."""
    opened = []

    def make(rows, copies=1):
        worlds = _world(postgres_url, rows, schema="small", copies=copies)
        opened.append(worlds)
        return next(worlds)

    yield make
    for worlds in opened:
        next(worlds, None)


def _world(postgres_url, rows, schema="public", copies=1):
    duck = duckdb.connect()
    load(duck, rows, "?", copies)
    with psycopg.connect(postgres_url, autocommit=True) as postgres:
        postgres.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        postgres.execute(f"SET search_path = {schema}")
        load(postgres.cursor(), rows, "%s", copies)
        yield World(rows * copies, [duck, postgres])
    duck.close()
