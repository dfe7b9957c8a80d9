"""The embedded engine against the same questions in plain DuckDB SQL, as ratios.

Both sides run in one process on one table that DuckDB generates; the best of
several runs counts. The plain queries do less (no clipping, no quantising, no
exact sums), so a ratio near one means that safety costs nothing noticeable.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import duckdb

from discreet import engines, plan
from discreet import policy as pol
from discreet.plan import expr as ex

ROWS = int(os.environ.get("DISCREET_BENCH_ROWS", "10000000"))
SALT = plan.Salt(b"benchmark")
PEOPLE = f"""
    CREATE TABLE people AS
    SELECT (hash(range) % {ROWS // 3})::BIGINT AS id,
           ['F', 'M', 'X'][1 + (hash(range * 7) % 3)::INTEGER] AS sex,
           (hash(range * 13) % 20200000) / 100.0::DOUBLE AS income
    FROM range({ROWS})
"""
PLAIN = "SELECT sex, count(*), sum(income) FROM people GROUP BY sex"
BOUNDED = """
    SELECT sex, count(*), sum(income) FROM (
        SELECT *, row_number() OVER (PARTITION BY id ORDER BY hash(id, j, 42), j) AS n FROM (
            SELECT *, row_number() OVER (PARTITION BY id ORDER BY sex, income) AS j FROM people
        )
    ) WHERE n <= 3 GROUP BY sex
"""
"""Truncates as fairly: equal rows are told apart, every id tosses its own coins."""
FRESH = """
import time; start = time.perf_counter()
import sys; from benchmarks import bench_engine as bench
policy, asked = bench.aggregate()
bench.engines.connect(sys.argv[1], policy).execute(asked, bench.SALT)
print(time.perf_counter() - start)
"""


def best(work: Callable[[], object], repeats: int) -> float:
    """Shortest of several runs, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def aggregate(**choices: object) -> tuple[pol.Policy, plan.Aggregate]:
    """Grouped COUNT and SUM, with or without a unit."""
    columns = [pol.Category("sex", ["F", "M", "X"]), pol.Real("income", 0, 200_000, "0.01")]
    policy = pol.Policy([pol.Table("people", columns, **choices)], pol.Budget("1"))
    scan = plan.Scan(policy.tables["people"])
    of = {name: ex.Column(name, kind) for name, kind in scan.schema.items()}
    one = ex.Constant.number(Fraction(1))
    measures = tuple(plan.Measure(plan.MeasureKind.SUM, e) for e in (one, of["income"]))
    key = plan.Key("sex", of["sex"], (0, 1, 2))
    return policy, plan.aggregate(scan, (key,), measures, plan.limits_of(scan, grouped=True))


def ratio(
    connection: duckdb.DuckDBPyConnection, sql: str, repeats: int, **choices: object
) -> float:
    """Time of the engine over the time of plain SQL."""
    policy, asked = aggregate(**choices)
    engine = engines.connect(connection, policy)
    plain = best(lambda: connection.execute(sql).fetchall(), repeats)
    return best(lambda: engine.execute(asked, SALT), repeats) / plain


def fresh_seconds(folder: Path) -> float:
    """First answer of a fresh process on a file of ten thousand rows."""
    path = folder / "small.parquet"
    with duckdb.connect() as connection:
        connection.execute(PEOPLE.replace(f"range({ROWS})", "range(10000)"))
        connection.execute(f"COPY people TO '{path}'")
    command = [sys.executable, "-c", FRESH, str(path)]
    outputs = [
        subprocess.run(command, check=True, capture_output=True, text=True) for _ in range(3)
    ]
    return min(float(o.stdout) for o in outputs)


def main() -> None:
    """Print the ratios and what they should stay under."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with duckdb.connect(str(folder / "bench.duckdb")) as table:
            table.execute("SET memory_limit = '1GB'")
            table.execute("SET disabled_optimizers = 'top_n_window_elimination'")
            table.execute(PEOPLE)
            table.execute(f"COPY people TO '{folder / 'people.parquet'}'")
            by_row = ratio(table, PLAIN, 7)
            by_unit = ratio(table, BOUNDED, 3, unit="id", max_rows_per_unit=3)
        with duckdb.connect() as parquet:
            parquet.execute(f"CREATE VIEW people AS FROM '{folder / 'people.parquet'}'")
            by_row_parquet = ratio(parquet, PLAIN, 7)
        seconds = fresh_seconds(folder)
    print(f"engine, {ROWS:,} rows, COUNT+SUM by group, Parquet: {by_row_parquet:.2f} x plain (1.5)")
    print(f"engine, {ROWS:,} rows, COUNT+SUM by group, DuckDB file: {by_row:.2f} x plain (1.5)")
    print(f"engine, {ROWS:,} rows, 3 rows per id, 1 GB: {by_unit:.2f} x SQL as fair (1.5)")
    print(f"engine, first answer of a fresh process, 10k rows: {seconds:.2f} s (1)")


if __name__ == "__main__":
    main()
