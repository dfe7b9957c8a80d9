"""The embedded engine against the same questions in plain DuckDB SQL, as ratios of work.

Both sides run in one process, in turns, on one table that DuckDB generates; the least
processor time of several runs counts, so that a busy machine does not. The plain
queries bound alike, as an analyst would write it, and give the same numbers before the noise (sums
of doubles are the exception). What bounding itself costs stands beside it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import duckdb

from discreet import engines, plan
from discreet import policy as pol
from discreet.plan import expr as ex
from discreet.sql import parse

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
CLAMPED = "greatest(0, least(income, 200000))"
CODE = f"CAST({CLAMPED} * 100 AS BIGINT)"
ALIKE = f"SELECT sex, count(*), sum({CLAMPED}) FROM people GROUP BY sex"
BOUNDED = """
    SELECT sex, count(*), sum(income) FROM (
        SELECT *, row_number() OVER (PARTITION BY id ORDER BY hash(id, j, 42), j) AS n FROM (
            SELECT *, row_number() OVER (PARTITION BY id ORDER BY sex, income) AS j FROM people
        )
    ) WHERE n <= 3 GROUP BY sex
"""
"""Truncates as fairly: equal rows are told apart, every id tosses its own coins."""
STATISTICS = {
    "VARIANCE(income)": f"""
        SELECT sex, count(x), sum(x), sum((x - 10000000) * (x - 10000000))
        FROM (SELECT sex, {CODE} AS x FROM people) GROUP BY sex""",
    "MEDIAN(income)": f"""
        SELECT sex, x // 306, count(*) FROM (SELECT sex, {CODE} AS x FROM people)
        GROUP BY sex, x // 306""",
    "COUNT(DISTINCT income)": f"SELECT sex, count(DISTINCT {CODE}) FROM people GROUP BY sex",
}
"""Each with plain SQL for the numbers that the noise is added to."""
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


def work(ours: Callable[[], object], plain: Callable[[], object], repeats: int) -> float:
    """Processor time of one over that of the other, run in turns."""
    spent: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for side, run in zip(spent, (ours, plain), strict=True):
            start = time.process_time()
            run()
            side.append(time.process_time() - start)
    return min(spent[0]) / min(spent[1])


def policy_of(**choices: object) -> pol.Policy:
    """People with a sex and an income, with or without a unit."""
    columns = [pol.Category("sex", ["F", "M", "X"]), pol.Real("income", 0, 200_000, "0.01")]
    return pol.Policy([pol.Table("people", columns, **choices)], pol.Budget("1"))


def aggregate(**choices: object) -> tuple[pol.Policy, plan.Aggregate]:
    """Grouped COUNT and SUM, with or without a unit."""
    policy = policy_of(**choices)
    scan = plan.Scan(policy.tables["people"])
    of = {name: ex.Column(name, kind) for name, kind in scan.schema.items()}
    one = ex.Constant.number(Fraction(1))
    measures = tuple(plan.Measure(plan.MeasureKind.SUM, e) for e in (one, of["income"]))
    key = plan.Key("sex", of["sex"], (0, 1, 2))
    return policy, plan.aggregate(scan, (key,), measures, plan.limits_of(scan, grouped=True))


def ratio(
    connection: duckdb.DuckDBPyConnection, sql: str, repeats: int, **choices: object
) -> float:
    """Work of the engine over that of plain SQL."""
    policy, asked = aggregate(**choices)
    engine = engines.connect(connection, policy)
    return work(
        lambda: engine.execute(asked, SALT), lambda: connection.execute(sql).fetchall(), repeats
    )


def statistic(connection: duckdb.DuckDBPyConnection, name: str, repeats: int) -> float:
    """Work of what the engine runs for one statistic over that of plain SQL for its numbers."""
    policy = policy_of()
    engine = engines.connect(connection, policy)
    query = parse(f"SELECT sex, {name} AS x FROM people GROUP BY sex", policy).query
    asked = [a for a in plan.lower(query).aggregates if a.measures]
    return work(
        lambda: [engine.execute(a, SALT) for a in asked],
        lambda: connection.execute(STATISTICS[name]).fetchall(),
        repeats,
    )


def fresh(folder: Path, *words: str, repeats: int) -> Iterator[list[str]]:
    """Words that fresh processes print, whose modules are compiled, as pip leaves them.

    A clone's are not where ``PYTHONDONTWRITEBYTECODE`` is set: each process would compile them.
    ``{}`` in a word is the number of the run; the first compiles and is not told.
    """
    own = {"PYTHONPYCACHEPREFIX": str(folder / "compiled"), "PYTHONDONTWRITEBYTECODE": ""}
    for i in range(repeats + 1):
        command = [sys.executable, "-c", *(word.format(i) for word in words)]
        told = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | own
        )
        if i:
            yield told.stdout.split()


def fresh_seconds(folder: Path) -> float:
    """First answer of a fresh process on a file of ten thousand rows."""
    path = folder / "small.parquet"
    with duckdb.connect() as connection:
        connection.execute(PEOPLE.replace(f"range({ROWS})", "range(10000)"))
        connection.execute(f"COPY people TO '{path}'")
    return min(float(told[-1]) for told in fresh(folder, FRESH, str(path), repeats=5))


def main() -> None:
    """Print the ratios and what they should stay under."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with duckdb.connect(str(folder / "bench.duckdb")) as table:
            table.execute("SET memory_limit = '1GB'")
            table.execute("SET disabled_optimizers = 'top_n_window_elimination'")
            table.execute(PEOPLE)
            table.execute(f"COPY people TO '{folder / 'people.parquet'}'")
            print(f"engine, {ROWS:,} rows, work against plain SQL that bounds alike (target)")
            say("COUNT+SUM by group, DuckDB file", ratio(table, ALIKE, 7), 1.3)
            say("  without any bounding", ratio(table, PLAIN, 7))
            by_unit = ratio(table, BOUNDED, 3, unit="id", max_rows_per_unit=3)
            say("3 rows per id, 1 GB", by_unit, 1.05)
            for asked in STATISTICS:
                say(f"{asked} by group", statistic(table, asked, 3), 1.5)
        with duckdb.connect() as parquet:
            parquet.execute(f"CREATE VIEW people AS FROM '{folder / 'people.parquet'}'")
            say("COUNT+SUM by group, Parquet", ratio(parquet, ALIKE, 7), 1.1)
            say("  without any bounding", ratio(parquet, PLAIN, 7))
        print(f"  first answer of a fresh process, 10k rows: {fresh_seconds(folder):.2f} s (0.35)")


def say(what: str, found: float, target: float | None = None) -> None:
    print(f"  {what:<42} {found:5.2f} x" + ("" if target is None else f"  ({target})"))


if __name__ == "__main__":
    main()
