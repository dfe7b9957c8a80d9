"""Spark Connect: the same integers through a client that has neither a context nor RDDs.

The client needs pyspark[connect], which the extra does not bring. It has a process of its own,
since a process has sessions of one kind only.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from discreet import engines

QUESTIONS = """
import sys
import pyarrow as pa, pyarrow.parquet as pq
from discreet import engines, policy as pol
from discreet.engines import Reference
from discreet.engines._java import find_java
from discreet.plan import Salt, lower
from discreet.sql import parse

find_java()
session = engines.local_session("local[1]")
assert "connect" in type(session).__module__
rows = [{"id": i % 7, "sex": "FMX?"[i % 4], "pay": i * 0.75 - 3} for i in range(60)]
pq.write_table(pa.Table.from_pylist(rows), f"{sys.argv[1]}/part.parquet")
columns = [pol.Category("sex", ["F", "M", "X"]), pol.Real("pay", 0, 30, "0.5")]
sql = "SELECT sex, COUNT(*) AS n, SUM(pay) AS s FROM people GROUP BY sex"
for limits in ({}, {"unit": "id", "max_rows_per_unit": 2}):
    own = pol.Policy([pol.Table("people", columns, **limits)], pol.Budget("1"))
    (asked,) = lower(parse(sql, own).query).aggregates
    right = Reference({"people": rows}).execute(asked, Salt(b"connect"))
    for source in (f"spark://{sys.argv[1]}", session.read.parquet(sys.argv[1])):
        engine = engines.connect({"people": source}, own)
        assert engine.execute(asked, Salt(b"connect")) == right
        engine.close()
print("equal")
"""

LATE = """
import os, sys, threading, time
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq
import discreet as dc
from discreet import engines, policy as pol
from discreet.engines import _spark
from discreet.engines._java import find_java
from discreet.errors import EngineError

LIMIT = 15
find_java()
session = engines.local_session("local[2]")
assert "connect" in type(session).__module__
home = Path(sys.argv[1])
for name in ("far", "near"):
    (home / name).mkdir()
    few = pa.table({"n": pa.array([1, 2, 3, 4], pa.int32())})
    pq.write_table(few, home / name / "part.parquet")

def opened(name):
    own = pol.Policy([pol.Table("t", [pol.Integer("n", 0, 9)])], pol.Budget("3"), name=name)
    engine = engines.connect(f"spark://{home / name}", own)
    return engine, dc.open(engine, own, ledger=":memory:")

def ask(curator):
    return curator.sql("SELECT SUM(n) AS s FROM t", epsilon="1", fresh=True)

(slow, far), (quick, near) = opened("far"), opened("near")
ask(near), ask(far)  # Java is warm now
slow._timeout = quick._timeout = LIMIT

# from here on its files are 10^10 rows, of which each must be added up
many = pa.table({"n": pa.repeat(pa.scalar(3, pa.int32()), 10_000_000)})
pq.write_table(many, home / "many", row_group_size=10_000_000)
for index in range(1000):
    os.link(home / "many", home / "far" / f"{index}.parquet")

found = []

def late():
    begun = time.monotonic()
    try:
        ask(far)
    except EngineError:
        found.append(time.monotonic() - begun)

waiting = threading.Thread(target=late)
begun = time.monotonic()
waiting.start()
turn = _spark._turn(session)
while turn.acquire(blocking=False):  # until the other one has its turn
    turn.release()
    time.sleep(0.01)
    assert waiting.is_alive()
ask(near)  # behind the other one for nearly all of its own time, which has not begun
assert time.monotonic() - begun > LIMIT
waiting.join(60)
assert LIMIT <= found[0] < LIMIT + 30, found
assert far.budget.spent == {"epsilon": 2}, far.budget.spent  # of which one was for nothing
assert near.budget.spent == {"epsilon": 2}
for index in range(1000):
    os.unlink(home / "far" / f"{index}.parquet")
slow._timeout = 600
ask(far)
assert far.budget.spent == {"epsilon": 3}
assert not session.getTags()
print("in time")
"""


def run(program, folder):
    command = [sys.executable, "-c", program, str(folder)]
    own = os.environ | {"SPARK_TESTING": "1"}  # any port: else two at a time ask for the same one
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=600, env=own
    )


@pytest.mark.races
def test_a_question_ends_when_its_time_is_over_and_stays_paid(tmp_path):
    """And it alone: whoever waits behind it has all of its own time, the session goes on."""
    found = run(LATE, tmp_path)
    assert found.stdout.endswith("in time\n"), found.stderr[-2000:]


@pytest.mark.races
def test_folders_and_frames_of_spark_connect_give_the_integers_of_the_reference(tmp_path):
    found = run(QUESTIONS, tmp_path)
    assert found.stdout.endswith("equal\n"), found.stderr[-2000:]


def test_a_frame_that_takes_any_name_for_a_column_is_no_session():
    """As those of Spark Connect do."""

    class Frame:
        __module__ = "pyspark.sql.connect.dataframe"

        def __getattr__(self, name):
            return self

    assert not engines._connect.is_spark_session(Frame())
