"""Long runs of a service: what times say about a person, what memory does over many questions."""

from __future__ import annotations

import asyncio
import time
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
rows = 4000
[tables.people]
source = "people.parquet"
unit = "person"
max_rows_per_unit = 200
[tables.people.columns]
age = {{ type = "integer", min = 0, max = 115 }}
"""
PAIRS = 60


def _served(folder, start_service, rows_of_one, name):
    """A service over 3 000 rows, of which one person has so many."""
    folder.mkdir()
    person = [0] * rows_of_one + list(range(1, 3001 - rows_of_one))
    pq.write_table(pa.table({"person": person, "age": [40] * 3000}), folder / "people.parquet")
    path = folder / f"{name}.toml"
    path.write_text(UNIT.format(name=name))
    made = keys(folder / "home", "ana")
    served = start_service(str(path), "--port", "0", "--workers", "1", "--home",
                           str(folder / "home"), cwd=folder)  # fmt: skip
    served.keys = made
    return served


def _timed(served, body, i):
    start = time.perf_counter()
    said = served("POST", "/v1/answers", {**body, "epsilon": f"0.01{i:04}"}, Prefer="wait=60")
    return time.perf_counter() - start, said


def test_times_tell_neither_a_neighbour_nor_a_refusal(tmp_path, start_service, monkeypatch):
    """Two neighbours whose runs differ most, asked by turns; answered and refused, by turns.

    Kolmogorov and Smirnov's statistic of 60 and 60 times, false alarm 1e-9 each if both have
    one distribution: its critical value is 0.58. The same test must tell apart an answer that
    leaves two ticks later.
    Runs that a busy machine did not finish at their tick are counted, not compared.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    two = [_served(tmp_path / n, start_service, rows, n) for n, rows in (("a", 200), ("b", 1))]
    times: dict[str, list[float]] = {"a": [], "b": [], "refused": [], "late": []}
    for i in range(PAIRS):
        for name, served in zip(("a", "b"), two, strict=True):
            took, said = _timed(served, {"sql": SLOW}, i)
            done = said.status_code == 200 and said.json()["result"]["state"] == "done"
            times[name if done else "late"].append(took)
        took, said = _timed(two[0], {"sql": "SELECT * FROM people"}, i)
        assert said.status_code == 422
        times["refused"].append(took)
    assert len(times["late"]) <= PAIRS // 10
    assert min(times["a"]) >= _ticks.FIRST
    assert min(times["refused"]) >= _ticks.FIRST
    found = stats.ks_2samp(times["a"], times["b"])
    assert found.pvalue > 1e-9, found
    later = [t + 15 * _ticks.FIRST for t in times["a"]]
    assert stats.ks_2samp(later, times["b"]).pvalue < 1e-9


def _memory(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(x for x in lines if x.startswith("VmRSS")).split()[1]) / 1024


def test_memory_is_flat_over_ten_thousand_questions(tmp_path, start_service, monkeypatch):
    """After the first 2 000 orders, as many as are kept in memory, 8 000 more add little."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = write(tmp_path, "soak", epsilon="1000000")
    made = keys(tmp_path / "home", "ana")
    served = start_service(str(path), "--port", "0", "--workers", "4", "--home",
                           str(tmp_path / "home"), cwd=tmp_path)  # fmt: skip
    served.keys = made
    sizes = []

    async def ask(client, n):
        sql = f"SELECT COUNT(*) AS n FROM people WHERE age > {n % 100}"
        body = {"sql": sql, "epsilon": "0.01", "fresh": True}
        said = await client.post("/v1/answers", json=body)
        while said.status_code == 429:
            await asyncio.sleep(0.2)
            said = await client.post("/v1/answers", json=body)
        assert said.status_code == 202, said.text
        place = said.headers["location"]
        while said.status_code == 202:
            await asyncio.sleep(0.2)
            said = await client.get(place)

    async def soak(first, last):
        headers = {"Authorization": f"Bearer {made['ana']}"}
        async with httpx.AsyncClient(base_url=served.url, headers=headers, timeout=300) as client:
            numbers = iter(range(first, last))

            async def one():
                for n in numbers:
                    await ask(client, n)

            await asyncio.gather(*(one() for _ in range(32)))

    for last in range(2000, 10001, 2000):
        asyncio.run(soak(last - 2000, last))
        sizes.append(_memory(served.process.pid))
    assert sizes[-1] - sizes[0] < 40, sizes
