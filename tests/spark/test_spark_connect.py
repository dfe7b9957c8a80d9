"""Spark Connect: the same integers through a client that has neither a context nor RDDs.

The client needs pyspark[connect], which the extra does not bring. It has a process of its own,
since a process has sessions of one kind only.
"""

from __future__ import annotations

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


@pytest.mark.races
def test_folders_and_frames_of_spark_connect_give_the_integers_of_the_reference(tmp_path):
    command = [sys.executable, "-c", QUESTIONS, str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert found.stdout.endswith("equal\n"), found.stderr[-2000:]


def test_a_frame_that_takes_any_name_for_a_column_is_no_session():
    """As those of Spark Connect do."""

    class Frame:
        __module__ = "pyspark.sql.connect.dataframe"

        def __getattr__(self, name):
            return self

    assert not engines._connect.is_spark_session(Frame())
