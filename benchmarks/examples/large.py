"""One question of a large partitioned Parquet set, by DuckDB and by Spark on this machine.

``python -m benchmarks.examples.large [--rows 100_000_000] [--folder /data/large]`` writes the
set (about 9 bytes a row) if it is not there, asks both engines the same question with limits per
person, compares the integers and prints the times: the clock's, and the processors' (Linux).
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import duckdb

from benchmarks.bench_servers import spent
from discreet import engines, plan
from discreet import policy as pol
from discreet.plan import expr as ex

SALT = plan.Salt(b"large")
CHUNK = 5_000_000


def write(folder: Path, rows: int) -> None:
    """Write visits, three to a person, in one folder for each part of the year."""
    with duckdb.connect() as connection:
        for start in range(0, rows, CHUNK):
            part = folder / f"quarter={start // CHUNK % 4 + 1}"
            part.mkdir(parents=True, exist_ok=True)
            connection.execute(f"""
                COPY (SELECT (hash(i) % {max(rows // 3, 1)})::BIGINT AS id,
                             ['F', 'M', 'X'][1 + (hash(i * 7) % 3)::INTEGER] AS sex,
                             (hash(i * 13) % 20200000) / 100.0::DOUBLE AS cost
                      FROM range({start}, {min(start + CHUNK, rows)}) AS r(i))
                TO '{part / f"{start}.parquet"}' (FORMAT parquet)
            """)


def question():
    """COUNT and SUM by sex, at most three visits of each person."""
    columns = [pol.Category("sex", ["F", "M", "X"]), pol.Real("cost", 0, 200_000, "0.01")]
    table = pol.Table("visits", columns, unit="id", max_rows_per_unit=3)
    relation = plan.Scan(table)
    c = {n: ex.Column(n, t) for n, t in relation.schema.items()}
    measures = (
        plan.Measure(plan.MeasureKind.SUM, ex.Constant.number(1)),
        plan.Measure(plan.MeasureKind.SUM, c["cost"]),
    )
    asked = plan.aggregate(
        relation, (plan.Key("sex", c["sex"], (0, 1, 2)),), measures, plan.Limits(rows=3)
    )
    return pol.Policy([table], pol.Budget("1")), asked


def timed(label: str, source: object, process: int) -> plan.Groups:
    policy, asked = question()
    engine = engines.connect(source, policy, timeout=7200)
    start, work = time.perf_counter(), spent(process)
    found = engine.execute(asked, SALT)
    took, work = time.perf_counter() - start, spent(process) - work
    print(f"{label:<10} {took:8.1f} s, {work:8.1f} s of processors", flush=True)
    engine.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--memory", default="4g")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = given.folder or Path(made)
        if not list(folder.glob("*/*.parquet")):
            write(folder, given.rows)
        # DuckDB takes a glob; Spark takes the folder, and its partitions for a column
        ours = timed("DuckDB", str(folder / "*" / "*.parquet"), os.getpid())
        session = engines.local_session(
            **{"spark.master": "local[2]", "spark.driver.memory": given.memory}
        )
        machine = session.sparkContext._gateway.proc.pid
        spark = timed("Spark", f"spark://{folder}", machine)
        print("the same integers" if ours == spark else f"DIFFERENT: {ours} and {spark}")


if __name__ == "__main__":
    main()
