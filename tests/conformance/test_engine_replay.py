"""Replay on neighbouring tables held by DuckDB and by PostgreSQL.

Questions, tables and policies are those of ``tests/adversarial/test_replay.py``, where the
reference is replayed; ``tests/spark`` does the same on Spark. Every check is an exact comparison.
"""

from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import duckdb
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import engines
from discreet.audit import replay
from discreet.privacy import Neighbours

_FILE = Path(__file__).parents[1] / "adversarial" / "test_replay.py"
replays = SimpleNamespace(**run_path(str(_FILE)))
TYPES = """id BIGINT, sex VARCHAR, region BIGINT, age DECIMAL(38,0), level DECIMAL(38,0),
    pay DOUBLE PRECISION, rate DOUBLE PRECISION, member BOOLEAN, joined DATE, town VARCHAR"""


@pytest.fixture(scope="module")
def servers(postgres_url):
    """Two connections to each engine, and the sign of their parameters."""
    with ExitStack() as stack:
        duck = [stack.enter_context(duckdb.connect()) for _ in range(2)]
        postgres = [
            stack.enter_context(psycopg.connect(postgres_url, autocommit=True)) for _ in range(2)
        ]
        for side, connection in enumerate(postgres):
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS replay_{side}")
            connection.execute(f"SET search_path = replay_{side}")
        for connection in (*duck, *postgres):
            connection.execute("DROP TABLE IF EXISTS t")
            connection.execute(f"CREATE TABLE t ({TYPES})")
        yield {"?": duck, "%s": postgres}


def violations(servers, text, limits, relation, pair):
    """What a replay of one question finds in any engine."""
    plan, own, found = (
        replays.plan_of(text, limits, relation),
        replays.policy(limits, relation),
        [],
    )
    for sign, connections in servers.items():
        opened = []
        for connection, rows in zip(connections, pair, strict=True):
            connection.execute("DELETE FROM t")
            values = [list(row.values()) for row in rows]
            writer = connection if sign == "?" else connection.cursor()
            if values:
                marks = ", ".join([sign] * len(values[0]))
                writer.executemany(f"INSERT INTO t VALUES ({marks})", values)
            opened.append(engines.connect(connection, own))
        found += replay(plan, *opened, replays.SALT).violations
        for engine in opened:
            engine.close()
    return found


CASES = given(
    replays.questions(),
    st.sampled_from(replays.LIMITS),
    st.sampled_from(list(Neighbours)),
    st.integers(0, 2**32),
)


@settings(max_examples=25)
@CASES
def test_no_person_moves_any_answer_by_more_than_declared(servers, text, limits, relation, seed):
    pair = replays.neighbours_of(random.Random(seed), limits, relation)
    assert violations(servers, text, limits, relation, pair) == [], text


@pytest.mark.long
@settings(max_examples=1000)
@CASES
def test_no_person_moves_any_answer_at_length(servers, text, limits, relation, seed):
    pair = replays.neighbours_of(random.Random(seed), limits, relation)
    assert violations(servers, text, limits, relation, pair) == [], text


def test_two_people_are_noticed_in_each_engine(servers):
    """The replay can fail: tables that differ in more than one person."""
    row = {c: values[0] for c, values in replays.NASTY.items()}
    pair = [], [{"id": unit} | row for unit in range(9)]
    text, limits = "SELECT COUNT(*) AS n FROM t", {"max_rows_per_unit": 1}
    for sign, connections in servers.items():
        assert violations({sign: connections}, text, limits, Neighbours.ADD_REMOVE, pair)
