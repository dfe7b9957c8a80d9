"""PostgreSQL and Spark: our statements against plain SQL that bounds alike, as ratios of work.

``python -m benchmarks.bench_servers [--rows 1000000] [--postgres URL] [--spark]
[--tumult PYTHON]``. Both sides run in turns on one table of the server. What counts is the least
processor time of the server's own process (that of the connection, or of Spark's machine), so
that a busy computer does not. The plain queries give the same integers before the noise; for
three rows per id, plain SQL truncates as fairly as we do. Against Tumult Analytics, which needs an
interpreter of its own, whole questions count, with the processor time of Python and Java. Needs
Linux, and a database of one's own.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

import discreet as dc
from benchmarks.bench_engine import SALT, aggregate, policy_of, say
from benchmarks.examples import tumult
from discreet import engines

LIMIT = {"unit": "id", "max_rows_per_unit": 3}
CLAMPED = "greatest(0, least(income, 200000))"
CODES = {
    "postgresql": f"CAST({CLAMPED} * 100 AS bigint)",
    "spark": f"CAST(rint({CLAMPED} * 100) AS BIGINT)",
}
COIN = {"postgresql": "hashint8extended(id, 42 + j)", "spark": "hash(id, j, 42)"}
FILL = """
    CREATE TABLE people AS SELECT
        (hashint8extended(i, 1) & 2147483647) % {people} AS id,
        (ARRAY['F', 'M', 'X'])[1 + (hashint8extended(i, 2) & 1023) % 3] AS sex,
        CAST((hashint8extended(i, 3) & 2147483647) % 20200000 AS float8) / 100 AS income
    FROM generate_series(1, {rows}) AS r(i)
"""
PATIENCE = 900
"""Seconds for each side of whole questions."""
_TICKS = os.sysconf("SC_CLK_TCK")


def plain(engine: str, *, limited: bool) -> str:
    """What an analyst would write."""
    table = "people"
    if limited:
        numbered = (
            "(SELECT *, row_number() OVER (PARTITION BY id ORDER BY sex, income) AS j FROM people)"
        )
        rank = f"row_number() OVER (PARTITION BY id ORDER BY {COIN[engine]}, j)"
        table = f"(SELECT * FROM (SELECT *, {rank} AS n FROM {numbered} AS s) AS t WHERE n <= 3)"
    return f"SELECT sex, count(*), sum({CODES[engine]}) FROM {table} AS people GROUP BY sex"


def spent(process: int) -> float:
    """Processor time of a process and all its threads, in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def ratio(
    process: int, ours: Callable[[], object], other: Callable[[], object], repeats: int
) -> float:
    """Work that the server does for one over that for the other, run in turns."""
    least = [float("inf"), float("inf")]
    for _ in range(repeats):
        for side, run in enumerate((ours, other)):
            before = spent(process)
            run()
            least[side] = min(least[side], spent(process) - before)
    return least[0] / least[1]


def compare(engine: str, source: Any, process: int, run: Callable[[str], object]) -> None:
    """Print the ratios of one server."""
    # Java compiles while it runs: the least of a few would be that of its compiler
    for limited, repeats in ((False, 20 if engine == "spark" else 7), (True, 4)):
        policy, asked = aggregate(**(LIMIT if limited else {}))
        opened = engines.connect(source, policy)
        opened.proof(asked)
        sql = plain(engine, limited=limited)
        found = ratio(
            process, lambda o=opened, a=asked: o.execute(a, SALT), lambda s=sql: run(s), repeats
        )
        what = "3 rows per id" if limited else "COUNT+SUM by group"
        say(f"{engine}, {what}", found, 1.3)
        opened.close()


def on_postgres(url: str, rows: int) -> None:
    """Fill a table of a database, and compare."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS people")
        connection.execute(FILL.format(people=max(rows // 3, 1), rows=rows))
        connection.execute("ANALYZE people")
        # one process does all the work, and none of it waits for a disk
        connection.execute("SET max_parallel_workers_per_gather = 0")
        connection.execute("SET work_mem = '512MB'")
        compare("postgresql", connection, connection.info.backend_pid,
                lambda sql: connection.execute(sql).fetchall())  # fmt: skip
        connection.execute("DROP TABLE people")


def session_of(folder: str) -> Any:
    """Start Spark, with a view of the folder."""
    session = engines.local_session(
        **{"spark.master": "local[2]", "spark.driver.memory": "2g",
           "spark.sql.shuffle.partitions": "4"}
    )  # fmt: skip
    session.read.parquet(folder).createOrReplaceTempView("people")
    return session


def write(folder: str, rows: int) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"""
            COPY (SELECT (hash(i) % {max(rows // 3, 1)})::BIGINT AS id,
                         ['F', 'M', 'X'][1 + (hash(i * 7) % 3)::INTEGER] AS sex,
                         (hash(i * 13) % 20200000) / 100.0::DOUBLE AS income
                  FROM range({rows}) AS r(i)) TO '{folder}/people.parquet'
        """)


def on_spark(folder: str) -> None:
    """Compare on this machine."""
    session = session_of(folder)
    compare("spark", f"spark://{folder}", session.sparkContext._gateway.proc.pid,
            lambda sql: session.sql(sql).toArrow())  # fmt: skip
    session.stop()


def whole(folder: str) -> None:
    """Print what whole questions take, as the peer's script does."""
    session = session_of(folder)
    sql = "SELECT sex, COUNT(*) AS n, SUM(income) AS s FROM people GROUP BY sex"
    for table, (_, runs) in zip(({}, LIMIT), tumult.RUNS, strict=True):
        curator = dc.open(f"spark://{folder}", policy=policy_of(**table), ledger=":memory:")
        spent = tumult.least(lambda c=curator: c.sql(sql, epsilon="0.05", fresh=True), runs)
        # the floor of whoever asks Spark: nothing that sends it a statement can be quicker
        alike = plain("spark", limited=bool(table))
        floor = tumult.least(lambda s=alike: session.sql(s).toArrow(), runs)
        print(json.dumps({**spent, "floor": floor["work"]}), flush=True)
    session.stop()


def against_tumult(python: str, folder: str) -> None:
    """Ask both, each in a session of its own."""
    sides = []
    for command in (
        [sys.executable, "-m", "benchmarks.bench_servers", "--whole", folder],
        [python, tumult.__file__, folder],
    ):
        try:
            told = subprocess.run(
                command, check=True, stdout=-1, stderr=-3, start_new_session=True, timeout=PATIENCE
            ).stdout
        except subprocess.TimeoutExpired as late:
            told = late.output or b""
        sides.append([json.loads(line) for line in told.splitlines() if line[:1] == b"{"])
    kinds = ("a row is a person", "3 rows per id")
    for what, ours, theirs in itertools.zip_longest(kinds, *sides):
        if theirs is None:
            said = f"{PATIENCE} s are too few for Tumult, {ours['seconds']:.1f} s are ours"
        else:
            ratios = [
                f"{theirs[n] / ours[n]:.1f} x" for n in ("work", "second", "first", "seconds")
            ]
            said = (
                f"Tumult takes {ratios[0]} our work ({theirs['work']:.2f} s, {ours['work']:.2f} s;"
                f" the second time {ratios[1]}, the first {ratios[2]}), {ratios[3]} our time (10);"
                f" plain Spark SQL takes {ours['floor']:.2f} s, so Tumult"
                f" {theirs['work'] / ours['floor']:.1f} x its work"
            )
        print(f"  whole question, {what}: {said}")


def main() -> None:
    """Print the ratios and what they should stay under."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--postgres", default=os.environ.get("DISCREET_BENCH_POSTGRES"))
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--tumult", metavar="PYTHON")
    parser.add_argument("--whole", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.whole:
        whole(given.whole)
        return
    print(f"servers, {given.rows:,} rows, work against plain SQL that bounds alike (target)")
    if given.postgres:
        on_postgres(given.postgres, given.rows)
    with tempfile.TemporaryDirectory() as folder:
        if given.spark or given.tumult:
            write(folder, given.rows)
        if given.spark:
            on_spark(folder)
        if given.tumult:
            against_tumult(given.tumult, folder)


if __name__ == "__main__":
    main()
