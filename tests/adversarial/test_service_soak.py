"""Long runs of a service: what times say about a person, what memory does over many questions."""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats
from tests.adversarial.test_service_races import keys, write

from discreet.service import _ticks

pytestmark = [pytest.mark.long, pytest.mark.races]

SLOW = "SELECT COUNT(*) AS n FROM people a JOIN people b USING (person)"
UNIT = """
[policy]
name = "{name}"
[budget]
epsilon = "1000"
[service]
{rows}
[tables.people]
source = "people.parquet"
unit = "person"
max_rows_per_unit = {most}
[tables.people.columns]
age = {{ type = "integer", min = 0, max = 115 }}
"""
PAIRS = 60


def _served(folder, start_service, name, *, rows_of_one, most=60, rows="rows = 4000", tick="4"):
    """A service over one row of each of 2 999 people, and so many of one more."""
    folder.mkdir()
    person = [0] * rows_of_one + list(range(1, 3000))
    pq.write_table(
        pa.table({"person": person, "age": [40] * len(person)}), folder / "people.parquet"
    )
    path = folder / f"{name}.toml"
    path.write_text(UNIT.format(name=name, most=most, rows=rows))
    made = keys(folder / "home", "ana", "owner")
    served = start_service(str(path), "--port", "0", "--workers", "1", "--tick", tick, "--home",
                           str(folder / "home"), cwd=folder)  # fmt: skip
    served.keys = made
    return served


def _timed(served, sql, i):
    """Ask something new; how long it took, and what has become of it."""
    start = time.perf_counter()
    body = {"sql": sql, "epsilon": f"0.01{i:04}"}
    said = served("POST", "/v1/answers", body, Prefer="wait=300")
    took = time.perf_counter() - start
    state = said.json().get("result", {}).get("state", "refused")
    if state == "failed":  # the owner looks at it, or the third one would be the last
        body = {"closed": False, "reason": "seen"}
        assert served("POST", "/v1/closure", body, who="owner").status_code == 200
    return took, state


def _tick(served, sql):
    """When the answer leaves, as a price says it."""
    return served("POST", "/v1/preview", {"sql": sql, "epsilon": "0.01"}).json()["result"]["tick"]


def _compared(two, pairs):
    """Ask two services at the same moments: times of what was done, numbers of what was late."""
    times: list[list[float]] = [[], []]
    late = [0, 0]
    with ThreadPoolExecutor(2) as pool:
        for i in range(pairs):
            found = pool.map(lambda served, i=i: _timed(served, SLOW, i), two)
            for which, (took, state) in enumerate(found):
                assert state in ("done", "failed")
                if state == "done":
                    times[which].append(took)
                else:
                    late[which] += 1
    return times, late


def _told(late, pairs):
    """Chance, if both are late equally often, that their numbers differ as much or more."""
    table = [[n, pairs - n] for n in late]
    return stats.fisher_exact(table).pvalue


@contextlib.contextmanager
def _busy_machine():
    """Three processes for each processor that do nothing but use it."""
    code = "while True: pass"
    many = 3 * len(os.sched_getaffinity(0))
    busy = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(many)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


@pytest.mark.parametrize("busy", [False, True])
def test_times_do_not_tell_a_neighbour(tmp_path, start_service, monkeypatch, record_property, busy):
    """Two neighbours whose runs differ most, asked at the same moments.

    Kolmogorov and Smirnov's statistic of 60 and 60 times, false alarm 1e-9 if both have one
    distribution: its critical value is 0.58. Fisher's exact test of how many of them were late,
    false alarm 1e-9 if both are late equally often; on a busy machine, too, few are.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    two = [_served(tmp_path / n, start_service, n, rows_of_one=rows)
           for n, rows in (("a", 60), ("b", 0))]  # fmt: skip
    with _busy_machine() if busy else contextlib.nullcontext():
        times, late = _compared(two, PAIRS)
    figures = [{"late": n, "median": statistics.median(t), "longest": max(t)}
               for n, t in zip(late, times, strict=True)]  # fmt: skip
    record_property("figures", figures)
    tick = _tick(two[0], SLOW)
    assert tick == _tick(two[1], SLOW)
    assert min(times[0] + times[1]) >= tick
    assert sum(late) <= PAIRS // 10, figures
    assert _told(late, PAIRS) > 1e-9, figures
    found = stats.ks_2samp(*times)
    assert found.pvalue > 1e-9, (found, figures)
    later = [t + tick for t in times[0]]
    assert stats.ks_2samp(later, times[1]).pvalue < 1e-9


REASONS = {
    "unsupported": {"sql": "SELECT * FROM people", "epsilon": "0.01"},
    "budget": {"sql": "SELECT COUNT(*) AS n FROM people", "epsilon": "5000"},
}


def _refused(served, path, body):
    """How long a refusal takes."""
    start = time.perf_counter()
    assert served("POST", path, body).status_code in (409, 422)
    return time.perf_counter() - start


def test_times_of_refusals_tell_neither_the_reason_nor_a_neighbour(
    tmp_path, start_service, monkeypatch, record_property
):
    """Refusals for two reasons, of two neighbours, asked by turns; and answers beside them.

    Kolmogorov and Smirnov's test of 100 and 100 times, three times, false alarm 1e-9 each if
    both have one distribution: its critical value is 0.46. An answer leaves at its own tick,
    which a price states, as everybody may know. A price is refused at once, and
    the same test sees that: it would see a refusal that does not wait for its tick.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    one, two = (_served(tmp_path / n, start_service, n, rows_of_one=rows)
                for n, rows in (("a", 60), ("b", 0)))  # fmt: skip
    kinds = {(n, r): (served, "/v1/answers", body) for r, body in REASONS.items()
             for n, served in (("a", one), ("b", two))}  # fmt: skip
    kinds["price"] = (one, "/v1/preview", REASONS["unsupported"])
    times: dict = {kind: [] for kind in kinds}
    answered = []
    for i in range(100):
        for kind, what in kinds.items():
            times[kind].append(_refused(*what))
        if i < 20:
            answered.append(_timed(one, "SELECT COUNT(*) AS n FROM people", i)[0])
    held = [t for kind, all_ in times.items() if kind != "price" for t in all_]
    record_property("medians", {str(k): statistics.median(t) for k, t in times.items()})
    assert min(held) >= _ticks.FIRST
    assert min(answered) >= _tick(one, "SELECT COUNT(*) AS n FROM people")
    for left, right in (
        (("a", "unsupported"), ("a", "budget")),
        (("a", "unsupported"), ("b", "unsupported")),
        (("a", "budget"), ("b", "budget")),
    ):
        found = stats.ks_2samp(times[left], times[right])
        record_property(f"{left} {right}", (found.statistic, found.pvalue))
        assert found.pvalue > 1e-9, (left, right, found)
    assert stats.ks_2samp(times["price"], times["a", "unsupported"]).pvalue < 1e-9


def test_ticks_without_slack_are_seen_to_tell(tmp_path, start_service, monkeypatch):
    """The same tests see a service whose owner has chosen a tick that one person's rows exceed.

    A table without a declared size, a tick of a quarter of a second, and 1.6·10⁹ pairs of
    one person's rows: she is late whenever she is there.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    two = [_served(tmp_path / n, start_service, n, rows_of_one=rows, most=40_000, rows="",
                   tick="0.25") for n, rows in (("a", 40_000), ("b", 0))]  # fmt: skip
    _, late = _compared(two, 40)
    assert _told(late, 40) < 1e-9, late


def _memory(pid):
    """Resident mebibytes of a service: of the web process, and of the largest of its workers."""
    below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    web, *workers = (_resident(process) for process in (pid, *below))
    return web, max(workers)


def _resident(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = next(x for x in lines if x.startswith("VmRSS"))
    return round(int(found.split()[1]) / 1024, 1)


async def _soak(served, numbers, clients=64):
    """Ask new questions, so many at a time; a line that was idle may be closed as it is used."""
    headers = {"Authorization": f"Bearer {served.keys['ana']}", "Prefer": "wait=300"}

    async def ask(client, n):
        sql = f"SELECT COUNT(*) AS n FROM people WHERE age > {n % 100}"
        body = {"sql": sql, "epsilon": "0.01", "fresh": True}
        while True:
            try:
                said = await client.post(
                    "/v1/answers", json=body, headers={"Idempotency-Key": str(n)}
                )
            except httpx.TransportError:
                continue
            if said.status_code == 200:
                return
            assert said.status_code in (202, 429), said.text
            if said.status_code == 429:  # three were late, or too many wait: the owner looks
                owner = {"Authorization": f"Bearer {served.keys['owner']}"}
                await client.post("/v1/closure", json={"closed": False, "reason": "seen"},
                                  headers=owner)  # fmt: skip
                await asyncio.sleep(0.5)

    async def one(client):
        for n in numbers:
            await ask(client, n)

    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(
        base_url=served.url, headers=headers, timeout=300, limits=limits
    ) as client:
        await asyncio.gather(*(one(client) for _ in range(clients)))


def test_memory_is_flat_over_ten_thousand_questions(
    tmp_path, start_service, monkeypatch, record_property
):
    """Once all is full that is kept in memory, 4 000 questions more add nothing.

    2 000 orders are kept, and the heap takes the first few thousand to fill. An
    order that is not forgotten takes 10 KiB and more: 10 MiB are a quarter of what 4 000 of
    them would add.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = write(tmp_path, "soak", epsilon="1000000")
    made = keys(tmp_path / "home", "ana", "owner")
    served = start_service(str(path), "--port", "0", "--workers", "4", "--home",
                           str(tmp_path / "home"), cwd=tmp_path)  # fmt: skip
    served.keys = made
    sizes = []
    for last in range(2000, 10001, 2000):
        asyncio.run(_soak(served, iter(range(last - 2000, last))))
        sizes.append(_memory(served.process.pid))
        (tmp_path / "sizes.txt").write_text(str(sizes))  # a long run is watched
    record_property("sizes", sizes)
    assert all(last - full < 10 for full, last in zip(sizes[2], sizes[-1], strict=True)), sizes
