"""What a question costs in Tumult Analytics: run by an interpreter that has it, without ours.

``python benchmarks/examples/tumult.py folder``; ``bench_servers --tumult`` starts it. COUNT and SUM
by group are two queries there. Prints what each of the kinds of unit took, a line of JSON for each.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

RUNS = ({"limited": False}, 16), ({"limited": True}, 4)
"""Runs of each kind of question; Java compiles while it runs, and both sides get as many."""
_TICKS = os.sysconf("SC_CLK_TCK")


def spent() -> float:
    """Processor time of this session: Python, Java and whatever they have started."""
    total = 0
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text("ascii").rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(fields[3]) == os.getsid(0):
            total += sum(map(int, fields[11:15]))
    return total / _TICKS


def least(ask, runs: int) -> dict[str, float]:
    """Least work and time of several times the same; the first warms Java up."""
    seen = []
    for _ in range(runs):
        clock, work = time.perf_counter(), spent()
        ask()
        seen.append((spent() - work, time.perf_counter() - clock))
    work, seconds = (min(side) for side in zip(*seen[1:], strict=True))
    return {"first": seen[0][0], "second": seen[1][0], "work": work, "seconds": seconds}


def main(folder: str) -> None:
    from pyspark.sql import SparkSession
    from tmlt.analytics import (
        AddOneRow,
        AddRowsWithID,
        KeySet,
        MaxRowsPerID,
        PureDPBudget,
        QueryBuilder,
        Session,
    )

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.warehouse.dir", f"{folder}.tumult")
        .getOrCreate()
    )
    people = spark.read.parquet(folder)
    keys = KeySet.from_dict({"sex": ["F", "M", "X"]})

    def ask(*, limited: bool) -> None:
        change = AddRowsWithID("id") if limited else AddOneRow()
        frame = people if limited else people.drop("id")
        session = Session.from_dataframe(
            privacy_budget=PureDPBudget(2), source_id="people", dataframe=frame,
            protected_change=change,
        )  # fmt: skip
        rows = QueryBuilder("people")
        rows = (rows.enforce(MaxRowsPerID(3)) if limited else rows).groupby(keys)
        for query in (rows.count(), rows.sum("income", low=0, high=200_000)):
            session.evaluate(query, PureDPBudget(1)).collect()

    for kind, runs in RUNS:
        print(json.dumps(least(lambda kind=kind: ask(**kind), runs)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
