"""One Spark session for all tests of a process; Java is the machine's, or comes from a wheel."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet import engines, plan
from discreet.audit import _nasty
from discreet.audit._engine_kit import SALT, sample

SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
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


def together(engine, asked, salt=SALT):
    """Answers to many aggregates by one statement: starting one costs Spark more than the rows.

    Each text is the one that the engine would run by itself.
    """
    parts = []
    for index, aggregate in enumerate(asked):
        width = len(aggregate.keys) + len(aggregate.measures)
        names = [f"a{i}" for i in range(width)]
        cells = ", ".join(f"CAST({n} AS STRING)" for n in names)
        text = engine.sql(aggregate, salt)
        parts.append(f"SELECT {index}, array({cells}) FROM ({text}) AS t({', '.join(names)})")
    answers = [{} for _ in asked]
    for index, cells in engine._rows(" UNION ALL ".join(parts)):
        keys = asked[index].keys
        key = tuple(
            cell if k.expr.type.kind is plan.Kind.TEXT else int(cell)
            for k, cell in zip(keys, cells, strict=False)
        )
        answers[index][key] = tuple(map(int, cells[len(keys) :]))
    return answers


@pytest.fixture(scope="session")
def kit():
    """Give the names of this module (test folders are not importable)."""
    return sys.modules[__name__]


@pytest.fixture(scope="session")
def nasty_policy():
    return _nasty.policy
