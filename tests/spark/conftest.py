"""One Spark session for all tests of a process; Java is the machine's, or comes from a wheel."""

from __future__ import annotations

import secrets
import sys
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet import engines, plan
from discreet.audit import _nasty
from discreet.audit._engine_kit import SALT, sample
from discreet.engines import Reference

SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    # most code of Java runs once here: making it fast takes longer than it does
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    pytest.importorskip("pyspark")
    home = tmp_path_factory.mktemp("spark")
    session = engines.local_session(**SETTINGS, **{"spark.sql.warehouse.dir": str(home)})
    yield session
    session.stop()


@pytest.fixture(scope="session")
def nasty_folders(tmp_path_factory):
    """Parquet folders of the kit's tables, as sources."""
    return written(tmp_path_factory.mktemp("nasty"), sample(400).arrow())


def written(home: Path, tables: dict[str, pa.Table]) -> dict[str, str]:
    sources = {}
    for index, (name, table) in enumerate(tables.items()):
        folder = home / str(index)
        folder.mkdir()
        pq.write_table(table, folder / "part.parquet")
        sources[name] = f"spark://{folder}"
    return sources


LETTERS = 20_000
"""Of a statement that asks for many things; a longer one asks for one thing only."""


def together(asked, salt=SALT):
    """Answers to many aggregates, each of an engine, by few statements of their session.

    Starting one costs Spark more than the rows, but it holds each step of one several times: forty
    questions with calendars had 450 000 literals, which was all of a driver's memory. Each text is
    the one that the engine would run by itself.
    """
    answers = [{} for _ in asked]
    for sql in _statements(asked, salt):
        for index, cells in asked[0][0]._rows(sql):
            keys = asked[index][1].keys
            key = tuple(
                cell if k.expr.type.kind is plan.Kind.TEXT else int(cell)
                for k, cell in zip(keys, cells, strict=False)
            )
            answers[index][key] = tuple(map(int, cells[len(keys) :]))
    return answers


def _statements(asked, salt):
    parts, length = [], 0
    for index, (engine, aggregate) in enumerate(asked):
        width = len(aggregate.keys) + len(aggregate.measures)
        names = [f"a{i}" for i in range(width)]
        cells = ", ".join(f"CAST({n} AS STRING)" for n in names)
        text = engine.sql(aggregate, salt)
        if parts and length + len(text) > LETTERS:
            yield " UNION ALL ".join(parts)
            parts, length = [], 0
        parts.append(f"SELECT {index}, array({cells}) FROM ({text}) AS t({', '.join(names)})")
        length += len(text)
    yield " UNION ALL ".join(parts)


@contextmanager
def interpreted(session, *, only):
    """Let Spark walk through expressions, as it does where the Java it writes would be too long.

    Compiling that Java takes most of the time of a small statement.
    """
    settings = {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    before = {name: session.conf.get(name) for name in settings}
    for name, value in (settings if only else before).items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            session.conf.set(name, value)


@contextmanager
def stored(session, tables):
    """Tables of the catalogue with these rows, as sources."""
    names = {name: f"held_{secrets.token_hex(8)}" for name in tables}
    for name, table in tables.items():
        session.createDataFrame(table).coalesce(1).write.saveAsTable(names[name])
    try:
        yield {name: f"spark://{held}" for name, held in names.items()}
    finally:
        for held in names.values():
            session.sql(f"DROP TABLE {held}")


class Ahead(Reference):
    """An engine of Spark whose answers to some aggregates are there already."""

    def __init__(self, engine, asked, answers):
        super().__init__({})
        self._engine = engine
        self._known = {id(a): found for a, found in zip(asked, answers, strict=True)}

    def execute(self, aggregate, salt):
        found = self._known.get(id(aggregate))
        return self._engine.execute(aggregate, salt) if found is None else found


def sides(engines_, asked, salt):
    """Both engines, with their answers to the same aggregates."""
    found = together([(engine, a) for engine in engines_ for a in asked], salt)
    return [Ahead(e, asked, found[i * len(asked) :][: len(asked)]) for i, e in enumerate(engines_)]


@pytest.fixture(scope="session")
def kit():
    """Give the names of this module (test folders are not importable)."""
    return sys.modules[__name__]


@pytest.fixture(scope="session")
def nasty_policy():
    return _nasty.policy
