"""Growth: time and memory by rows, groups and rows per person, beside the plain window query.

``python -m benchmarks.bench_growth [--rows 1000000 10000000] [--points 3:10 …]
[--json file]``: rows of a person and groups. Each point is
a process of its own: the highest memory that it needs is that of its statement. Times are processor
time and the clock's; the ratio is of processor time. DuckDB may use 650 MB,
so that the process stays below one GB.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

from benchmarks.bench_engine import CLAMPED, SALT
from discreet import engines, plan
from discreet import policy as pol
from discreet.sql import parse

POINTS = [(3, 10), (3, 1_000), (3, 100_000), (1, 1_000), (10, 1_000), (100, 1_000)]
"""Rows of a person and number of groups."""
MEMORY = "650MB"
PLAIN = f"""
    SELECT area, count(*), sum({CLAMPED}) FROM (
        SELECT *, row_number() OVER (PARTITION BY id ORDER BY hash(id, j, 42), j) AS n FROM (
            SELECT *, row_number() OVER (PARTITION BY id ORDER BY area, income) AS j FROM people
        )
    ) WHERE n <= {{each}} GROUP BY area
"""


def write(path: Path, rows: int, each: int, groups: int) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"""
            COPY (SELECT (hash(i) % {max(rows // each, 1)})::BIGINT AS id,
                         (hash(i * 7) % {groups})::INTEGER AS area,
                         (hash(i * 13) % 20200000) / 100.0::DOUBLE AS income
                  FROM range({rows}) AS r(i)) TO '{path}' (FORMAT parquet)
        """)


def point(side: str, path: str, each: int, groups: int) -> dict[str, float]:
    """Run one side once; what it took."""
    connection = duckdb.connect()
    connection.execute(f"SET memory_limit = '{MEMORY}'")
    connection.execute("SET disabled_optimizers = 'top_n_window_elimination'")
    connection.execute(f"SET temp_directory = '{path}.spilt'")
    connection.execute(f"CREATE VIEW people AS FROM '{path}'")
    if side == "plain":
        run = connection.execute
        asked: tuple[object, ...] = (PLAIN.format(each=each),)
    else:
        columns = [pol.Integer("area", 0, groups - 1), pol.Real("income", 0, 200_000, "0.01")]
        table = pol.Table("people", columns, unit="id", max_rows_per_unit=each)
        policy = pol.Policy([table], pol.Budget("1"))
        sql = "SELECT area, COUNT(*) AS n, SUM(income) AS s FROM people GROUP BY area"
        (aggregate,) = plan.lower(parse(sql, policy).query).aggregates
        engine = engines.connect(path, policy, timeout=3600, memory_limit=MEMORY)
        engine.proof(aggregate)
        run, asked = engine.execute, (aggregate, SALT)
    clock, work = time.perf_counter(), time.process_time()
    found = run(*asked)
    if side == "plain":
        found.fetchall()
    return {
        "seconds": time.perf_counter() - clock,
        "work": time.process_time() - work,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def apart(*arguments: object) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.bench_growth", "--point", *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000, 10_000_000])
    parser.add_argument("--points", nargs="*", default=[f"{e}:{g}" for e, g in POINTS])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--point", nargs=4)
    given = parser.parse_args()
    if given.point:
        side, path, each, groups = given.point
        print(json.dumps(point(side, path, int(each), int(groups))))
        return
    found = []
    print(
        "|      rows | rows per person | groups | work (s) | x plain window query | memory (GB) |"
    )
    print("|---:|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for rows in given.rows:
            for each, groups in (map(int, p.split(":")) for p in given.points):
                path = Path(folder) / "people.parquet"
                write(path, rows, each, groups)
                sides = {side: apart(side, path, each, groups) for side in ("plain", "ours")}
                ours, plain = sides["ours"], sides["plain"]
                found.append({"rows": rows, "each": each, "groups": groups, **sides})
                ratio = ours["work"] / plain["work"]
                cells = f"{rows:>11,} | {each} | {groups:,} | {ours['work']:.1f} | {ratio:.2f}"
                print(f"| {cells} | {ours['memory']:.2f} |", flush=True)
                if given.json:
                    given.json.write_text(json.dumps(found, indent=1), "utf-8")


if __name__ == "__main__":
    main()
