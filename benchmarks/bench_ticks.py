"""What runs of a worker cost beside what the model of ticks says: processor time, one thread.

``python -m benchmarks.bench_ticks [ROWS …]`` (needs ``discreet[serve]``; minutes). Tables are as
large as declared (powers of four, so that nothing is rounded up) and nearly as bad as the policy
allows: people have twice the rows that are kept, values lie outside of their bounds, no open key
is there twice. Each kind of question is asked of a new worker and then again; the dearer run
counts. A share is processor time over the model's seconds: 1 is the model itself, 2 the bound.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import duckdb

import discreet as dc
from discreet import engines
from discreet.curator import Counter, run_bill
from discreet.service import _ticks
from discreet.service._machine import machine
from discreet.service._warm import warm_up

ROWS = (4**5, 4**7, 4**9, 4**10)
TOGETHER = 6
"""Kinds that a worker is asked before it is replaced."""
WARDS = 10_000
POLICY = """
[policy]
name = "ticks"
[budget]
epsilon = "1000000"
delta = "1e-2"
accounting = "approx"
[service]
rows = {rows}
[tables.visits]
source = "visits.parquet"
unit = "person"
max_rows_per_unit = 4
[tables.visits.columns]
region = {{ type = "category", values = ["north", "east", "south", "west"] }}
age = {{ type = "integer", min = 0, max = 110 }}
smoker = {{ type = "boolean", nullable = true }}
cost = {{ type = "real", min = 0, max = 500, step = "0.01" }}
day = {{ type = "date", min = "2020-01-01", max = "2025-12-31" }}
ward = {{ type = "integer", min = 0, max = 9999 }}
note = {{ type = "text" }}
[tables.people]
source = "people.parquet"
unit = "person"
max_rows_per_unit = 1
[tables.people.columns]
born = {{ type = "integer", min = 1900, max = 2030 }}
weight = {{ type = "real", min = 0, max = 200, step = "0.1", nullable = true }}
[tables.stays]
source = "stays.parquet"
unit = "person"
max_rows_per_unit = 60
[tables.stays.columns]
nights = {{ type = "integer", min = 0, max = 400 }}
city = {{ type = "integer", min = 0, max = 99 }}
room = {{ type = "integer", min = 0, max = 9999 }}
[tables.rows]
source = "rows.parquet"
[tables.rows.columns]
age = {{ type = "integer", min = 0, max = 110 }}
pay = {{ type = "real", min = 0, max = 100000, step = "0.01" }}
"""
_SUMS = ", ".join(f"SUM(CASE WHEN age > {i} THEN cost END) AS s{i}" for i in range(60))
_COUNTS = ", ".join(f"COUNT(*) FILTER (WHERE age = {i}) AS c{i}" for i in range(100))
QUESTIONS = {
    "count": "SELECT COUNT(*) AS n FROM visits",
    "count of some": "SELECT COUNT(*) AS n FROM visits WHERE age > 3",
    "count of rows": "SELECT COUNT(*) AS n FROM rows WHERE age > 3",
    "count of people": "SELECT COUNT(DISTINCT person) AS n FROM visits",
    "groups": "SELECT region, COUNT(*) AS n, AVG(cost) AS c FROM visits GROUP BY region",
    "pairs of groups": "SELECT region, smoker, SUM(cost) AS c FROM visits GROUP BY region, smoker",
    "variance": "SELECT region, VARIANCE(cost) AS c FROM visits GROUP BY region",
    "correlation": "SELECT CORR(cost, age) AS c, REGR_SLOPE(cost, age) AS b FROM visits",
    "median": "SELECT MEDIAN(age) AS m FROM visits",
    "fine median": "SELECT MEDIAN(cost) AS m FROM visits",
    "finest median": "SELECT MEDIAN(pay) AS m FROM rows",
    "medians of groups": "SELECT region, QUANTILE(cost, 0.9) AS m FROM visits GROUP BY region",
    "quantiles": "SELECT QUANTILE(cost, [0.1, 0.25, 0.5, 0.75, 0.9]) FROM visits",
    "medians of many groups": "SELECT age, MEDIAN(cost) AS m FROM visits GROUP BY age",
    "mode": "SELECT MODE(region) AS m FROM visits",
    "days": "SELECT day, COUNT(*) AS n FROM visits GROUP BY day",
    "months": "SELECT DATE_TRUNC('month', day) AS m, AVG(cost) AS c FROM visits GROUP BY 1",
    "wide": "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward",
    "wide means": "SELECT ward, AVG(cost) AS n, VARIANCE(age) AS v FROM visits GROUP BY ward",
    "wider": "SELECT ward, region, COUNT(*) AS n FROM visits GROUP BY ward, region",
    "largest": "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n DESC LIMIT 1",
    "largest ten": "SELECT city, COUNT(*) AS n FROM stays GROUP BY city ORDER BY n DESC LIMIT 10",
    "chosen": "SELECT room, COUNT(DISTINCT person) AS n FROM stays GROUP BY room ORDER BY n DESC "
        "LIMIT 25",
    "open keys": "SELECT note, COUNT(*) AS n FROM visits GROUP BY note",
    "open keys, sums": "SELECT note, SUM(cost) AS n FROM visits GROUP BY note",
    "cube": "SELECT region, smoker, COUNT(*) AS n FROM visits GROUP BY CUBE (region, smoker)",
    "patterns": "SELECT COUNT(*) AS n FROM visits WHERE note ~ '^(a|b)+.*[0-9]{2,4}x?$' OR "
        "note LIKE '%77%'",
    "roots": "SELECT AVG(LN(cost + 1)) AS l, AVG(SQRT(cost)) AS r, AVG(POWER(age, 3)) AS p "
        "FROM visits",
    "distinct": "SELECT COUNT(DISTINCT ward) AS n FROM visits",
    "distinct of groups": "SELECT region, COUNT(DISTINCT ward) AS n FROM visits GROUP BY region",
    "60 sums": f"SELECT {_SUMS} FROM visits",
    "100 counts": f"SELECT {_COUNTS} FROM visits",
    "60 sums of groups": f"SELECT age, {_SUMS} FROM visits GROUP BY age",
    "people first": "SELECT AVG(n) AS a FROM (SELECT person, COUNT(*) AS n FROM visits GROUP "
        "BY person) p",
    "people first, groups": "SELECT n, COUNT(*) AS a FROM (SELECT person, COUNT(*) AS n, "
        "MAX(cost) AS c FROM visits GROUP BY person) p WHERE c > 10 GROUP BY n",
    "first of each": "SELECT r, COUNT(*) AS a FROM (SELECT person, MIN_BY(region, day) AS r FROM "
        "visits GROUP BY person) p GROUP BY r",
    "join of one": "SELECT region, AVG(p.weight) AS w FROM visits v JOIN people p USING "
        "(person) GROUP BY region",
    "left join": "SELECT born, COUNT(*) AS n FROM people p LEFT JOIN visits v USING (person) "
        "GROUP BY born",
    "join": "SELECT COUNT(*) AS n FROM visits a JOIN visits b USING (person)",
    "join of three": "SELECT COUNT(*) AS n FROM visits a JOIN visits b USING (person) JOIN "
        "visits c USING (person)",
    "wide join": "SELECT city, SUM(nights) AS n FROM stays s JOIN visits v USING (person) "
        "GROUP BY city",
    "widest join": "SELECT COUNT(*) AS n FROM stays s JOIN stays t USING (person)",
    "in": "SELECT COUNT(DISTINCT person) AS n FROM visits WHERE person IN (SELECT person "
        "FROM stays WHERE nights > 9)",
    "both": "SELECT COUNT(*) AS b FROM (SELECT person FROM visits WHERE region = 'east' INTERSECT "
        "SELECT person FROM visits WHERE region = 'west') p",
    "union": "SELECT 'a' AS w, COUNT(*) AS n FROM visits WHERE age > 9 UNION ALL "
        "SELECT 'b', COUNT(*) "
        "FROM visits WHERE age <= 9",
}  # fmt: skip


def write(folder: Path, rows: int) -> Path:
    """Write a policy and its tables, each with as many rows as it declares."""
    made = {
        "visits": f"""hash(i) % {max(rows // 8, 1)} AS person,
            ['north', 'east', 'south', 'west'][1 + (hash(i * 3) % 4)::INTEGER] AS region,
            (hash(i * 7) % 140)::INTEGER AS age,
            CASE hash(i * 5) % 3 WHEN 0 THEN true WHEN 1 THEN false END AS smoker,
            (hash(i * 13) % 60000) / 100.0 AS cost,
            DATE '2019-06-01' + (hash(i * 11) % 2500)::INTEGER AS day,
            (hash(i * 17) % {WARDS})::INTEGER AS ward,
            concat('ab', i, 'note of some length') AS note""",
        "people": """i AS person, (1890 + hash(i) % 150)::INTEGER AS born,
            CASE WHEN hash(i * 3) % 5 > 0 THEN (hash(i * 7) % 2500) / 10.0 END AS weight""",
        "stays": f"""hash(i) % {max(rows // 120, 1)} AS person,
            (hash(i * 3) % 500)::INTEGER AS nights, (hash(i * 7) % 100)::INTEGER AS city,
            (hash(i * 11) % 10000)::INTEGER AS room""",
        "rows": """(hash(i * 3) % 140)::INTEGER AS age, (hash(i * 7) % 12000000) / 100.0 AS pay""",
    }
    with duckdb.connect() as connection:
        for name, columns in made.items():
            connection.execute(
                f"COPY (SELECT {columns} FROM range({rows}) r(i)) "
                f"TO '{folder / name}.parquet' (FORMAT parquet)"
            )
    path = folder / "ticks.toml"
    path.write_text(POLICY.format(rows=rows))
    return path


def bills(path: Path) -> dict[str, tuple[bytes, float]]:
    """Price all kinds; give each as it is sent, with its bound on the reference machine."""
    found = {}
    with dc.open(policy=path) as curator:
        counter = Counter(curator)
        for name, sql in QUESTIONS.items():
            bill = counter.bill(sql, "ana", epsilon="1", delta="1e-6")
            statements = counter.statements(bill)
            text, divisions = sum(map(len, statements)), _ticks.divisions_in(statements)
            seconds = _ticks.bound(bill.plans, curator.policy.service.rows, 1.0, text, divisions)
            found[name] = (pickle.dumps(bill), seconds)
    return found


def worker(path: str, names: list[str]) -> None:
    """Run what is named as a worker does; the bills come by standard input."""
    given, policy = pickle.load(sys.stdin.buffer), dc.policy.load(path)
    os.chdir(Path(path).parent)
    warm_up()
    engine = engines.connect(None, policy, memory_limit="2048MiB", timeout=256.0, threads=1)
    engines.describe(engine, policy)
    gc.collect()
    gc.freeze()
    for name in names:
        start = time.process_time()
        run_bill(pickle.loads(given[name]).plans, engine, policy).encode()
        print(json.dumps([name, time.process_time() - start]), flush=True)
    os._exit(0)


def apart(path: Path, sent: dict[str, bytes], names: list[str]) -> list[tuple[str, float]]:
    """Run what is named in a new process."""
    words = [sys.executable, "-m", "benchmarks.bench_ticks", "--worker", str(path), *names]
    given = pickle.dumps({name: sent[name] for name in names})
    said = subprocess.run(words, check=True, input=given, stdout=subprocess.PIPE).stdout
    return [tuple(json.loads(line)) for line in said.splitlines()]


def measure(rows: int) -> None:
    """Print a line for each kind of question about tables of this size."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder
        path = write(Path(folder), rows)
        priced = bills(path)
        sent = {kind: bill for kind, (bill, _) in priced.items()}
        for n in range(0, len(priced), TOGETHER):
            names = list(priced)[n : n + TOGETHER]
            took: dict[str, list[float]] = {}
            for kind, seconds in apart(path, sent, [*names, *names]):
                took.setdefault(kind, []).append(seconds)
            for kind, (first, again) in took.items():
                bound = priced[kind][1]
                share = max(first, again) * _ticks.SAFETY / bound
                print(f"{rows:>8} {kind:24} {1e3 * first:8.1f}, again {1e3 * again:8.1f} ms; bound "
                      f"{1e3 * bound:8.1f}, share {share:.2f}; tick {_ticks.tick(bound, 4.0):g}",
                      flush=True)  # fmt: skip


def main(sizes: Sequence[int]) -> None:
    slowness, busy = machine()
    print(f"this machine: {slowness:g} times as slow as the reference, busy {busy:g}")
    for rows in sizes:
        measure(rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(sys.argv[2], sys.argv[3:])
    else:
        main([int(n) for n in sys.argv[1:]] or ROWS)
