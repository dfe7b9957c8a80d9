"""Durable spends per second, against a plain database doing one durable insert for each.

Both sides run in one go, in turns, on one disk, with the same pragmas and rows of the same size.
The ledger also reads and checks its head, admits exactly, chains hashes and moves two anchors.

By one and by eight processes, which wait for each other; then by 1, 8 and 64 threads of one
process, who share transactions and syncs, against as many connections of the plain database. With
``DISCREET_BENCH_POSTGRES`` (the URL of a database of one's own) there, too.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

from discreet import ledger
from discreet import policy as pol
from discreet.ledger import _group
from discreet.ledger._sqlite import PRAGMAS
from discreet.plan import Cost

SPENDS = 160
ROUNDS = 5
_FORK = multiprocessing.get_context("fork")


def entry(i: int, policy: str) -> ledger.Entry:
    """A debit like those of the curator, with a noise record of usual size; no run stays open."""
    cost = Cost(Fraction(1, 1000), Fraction(0), Fraction(1, 2_000_000), Fraction(0))
    return ledger.Entry(
        policy=policy, fingerprint="f" * 64, analyst="ann", plan=f"{i:064d}", cost=cost,
        noise="n" * 300, neighbours="add-remove", unit="person_id", tables=("people",),
        source="people.parquet", fresh=True, runs=False,
    )  # fmt: skip


def spend_in_ledger(where: Path | str, name: str) -> Callable[[int, int], None]:
    policy = pol.Policy(
        [pol.Table("people", [pol.Integer("age", 0, 115)])], pol.Budget("1000000"), name=name
    )
    book = ledger.open_ledger(where, policy)

    def work(worker: int, n: int) -> None:
        for i in range(n):
            book.debit(entry(worker * SPENDS + i, name))

    return work


def insert_in_sqlite(where: Path, size: int) -> Callable[[int, int], None]:
    path = where / "plain.db"

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=60, isolation_level=None)
        for name, value in PRAGMAS.items():
            connection.execute(f"PRAGMA {name} = {value}")
        return connection

    connection = connect()
    connection.execute("CREATE TABLE spends (number INTEGER PRIMARY KEY, body TEXT) STRICT")
    connection.close()

    def work(worker: int, n: int) -> None:
        del worker
        connection = connect()
        for _ in range(n):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO spends (body) VALUES (?)", ("x" * size,))
            connection.execute("COMMIT")
        connection.close()

    return work


def insert_in_postgres(url: str, size: int) -> Callable[[int, int], None]:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS spends")
        connection.execute("CREATE TABLE spends (number bigserial PRIMARY KEY, body text)")

    def work(worker: int, n: int) -> None:
        del worker
        with psycopg.connect(url, autocommit=True) as connection:
            for _ in range(n):
                connection.execute("INSERT INTO spends (body) VALUES (%s)", ("x" * size,))

    return work


def by_threads(
    peer: str, ours: Callable[[int, int], None], plain: Callable[[int, int], None]
) -> None:
    """Print what threads of one process spend, beside plain inserts by as many."""
    for threads in (1, 8, 64):
        with counted() as turns:
            pairs = [(at_once(ours, threads), at_once(plain, threads)) for _ in range(3)]
        rate, inserts = (1 / statistics.median(side) for side in zip(*pairs, strict=True))
        ratio = statistics.median(a / b for a, b in pairs)
        print(f"  {threads:2} thread(s)   {rate:8.0f} spends/s  {inserts:8.0f} inserts/s"
              f"  {ratio:5.2f} x plain {peer}, {statistics.mean(turns):.0f} spends"
              f" in a transaction ({max(turns)} at most)")  # fmt: skip


@contextmanager
def counted() -> Iterator[list[int]]:
    """Count the spends of each transaction."""
    turns: list[int] = []
    real = _group._together

    def together(requests: list[_group.Request]) -> None:
        turns.append(len(requests))
        real(requests)

    _group._together = together
    try:
        yield turns
    finally:
        _group._together = real


def timed(work: Callable[[int, int], None], processes: int) -> float:
    """Seconds for all spends together."""
    share = SPENDS // processes
    workers = [_FORK.Process(target=work, args=(i, share)) for i in range(processes)]
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(worker.exitcode == 0 for worker in workers)
    return time.perf_counter() - start


def at_once(work: Callable[[int, int], None], threads: int) -> float:
    """Seconds for one spend, by threads of one process."""
    share = SPENDS // threads
    with ThreadPoolExecutor(threads) as pool:
        start = time.perf_counter()
        for done in [pool.submit(work, i, share) for i in range(threads)]:
            done.result()
        return (time.perf_counter() - start) / (threads * share)


def main() -> None:
    """Print spends per second and the ratio of the medians."""
    folder = Path(tempfile.mkdtemp(prefix="bench-ledger-", dir=Path.cwd()))
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    try:
        ours = spend_in_ledger(folder / "bench.ledger", "bench")
        ours(99, 1)
        size = len(ledger.open_ledger(folder / "bench.ledger").lines[-1].body)
        plain = insert_in_sqlite(folder, size)
        print("ledger: durable spends per second, and time against one plain insert (target <= 2)")
        for processes in (1, 8):
            pairs = [(timed(ours, processes), timed(plain, processes)) for _ in range(ROUNDS)]
            seconds = statistics.median(a for a, _ in pairs)
            ratio = statistics.median(a / b for a, b in pairs)
            rate = SPENDS / seconds
            print(f"  {processes} process(es)  {rate:8.0f} spends/s   {ratio:5.2f} x plain SQLite")
        by_threads("SQLite", ours, plain)
        if url := os.environ.get("DISCREET_BENCH_POSTGRES"):
            shared = spend_in_ledger(url, "bench in PostgreSQL")
            shared(99, 1)
            by_threads("PostgreSQL", shared, insert_in_postgres(url, size))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
