"""The service beside the library, in one run: overhead, answers by id, stored answers, new ones.

``python -m benchmarks.bench_service`` (needs ``discreet[serve]``); prints ratios and rates.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import discreet as dc
from discreet.cli._sample import write_sample

QUESTION = "SELECT region, COUNT(*) AS n, AVG(cost) AS c FROM visits GROUP BY region"


def _request(method: str, path: str, key: str, body: dict | None = None, **headers: str) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {key}",
             "Content-Type: application/json", f"Content-Length: {len(content)}",
             *(f"{k}: {v}" for k, v in headers.items()), "", ""]  # fmt: skip
    return "\r\n".join(lines).encode() + content


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    return int(head.split()[1]), await reader.readexactly(length)


async def _load(where, make, *, clients: int, seconds: float) -> tuple[float, list[int]]:
    """Requests per second of some clients, each with one connection; and each one's count."""
    counts, over = [0] * clients, time.perf_counter() + seconds

    async def one(i: int) -> None:
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        while time.perf_counter() < over:
            writer.write(make(i, counts[i]))
            status, body = await _answer(reader)
            assert status == 200, body
            counts[i] += 1
        writer.close()

    start = time.perf_counter()
    await asyncio.gather(*(one(i) for i in range(clients)))
    return sum(counts) / (time.perf_counter() - start), counts


def _library(folder: Path) -> dict[str, float]:
    """What the same questions cost in process."""
    path, _ = write_sample(folder, 4000)
    path.write_text(path.read_text().replace('epsilon = "2"', 'epsilon = "100000"'))
    with dc.open(policy=path) as curator:
        curator.sql(QUESTION, epsilon="0.1")
        times = []
        for i in range(200):
            start = time.perf_counter()
            curator.preview(QUESTION, epsilon=f"0.1{i:03}").error()
            times.append(time.perf_counter() - start)
        start, asked = time.perf_counter(), 0
        while time.perf_counter() - start < 5:
            curator.sql(f"SELECT COUNT(*) AS n FROM visits WHERE age > {asked % 100}",
                        epsilon="0.1", fresh=True)  # fmt: skip
            asked += 1
        return {"preview": statistics.median(times), "new": asked / 5}


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        import os

        os.environ["XDG_STATE_HOME"] = str(folder / "state")
        library = _library(folder)
        service = folder / "served"
        service.mkdir()
        path, _ = write_sample(service, 4000)
        text = path.read_text().replace('epsilon = "2"', 'epsilon = "100000"')
        path.write_text(text.replace('"clinic"', '"served"') + "\n[service]\nrows = 16000\n")
        home = str(service / "home")
        words = [sys.executable, "-m", "discreet", "key", "add", "ana", "--home", home]
        key = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
        words = [sys.executable, "-m", "discreet", "serve", str(path), "--home", home, "--port",
                 "0", "--json"]  # fmt: skip
        with subprocess.Popen(words, stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            where = urlsplit(json.loads(server.stdout.readline())["url"])
            try:
                asyncio.run(_measure(where, key, library))
            finally:
                server.terminate()


async def _measure(where, key: str, library: dict[str, float]) -> None:
    body = {"sql": QUESTION, "epsilon": "0.1"}
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    writer.write(_request("POST", "/v1/answers", key, body, Prefer="wait=60"))
    id_ = json.loads((await _answer(reader))[1])["result"]["id"]
    times = []
    for i in range(200):
        start = time.perf_counter()
        writer.write(_request("POST", "/v1/preview", key, {**body, "epsilon": f"0.1{i:03}"}))
        await _answer(reader)
        times.append(time.perf_counter() - start)
    over = statistics.median(times) - library["preview"]
    print(f"preview: library {1e3 * library['preview']:.2f} ms, overhead {1e3 * over:.2f} ms")
    for label, make, clients in (
        ("previews", lambda *_: _request("POST", "/v1/preview", key, body), 8),
        ("answers by id", lambda *_: _request("GET", f"/v1/answers/{id_}", key), 8),
        ("stored by question", lambda *_: _request("POST", "/v1/answers", key, body), 8),
    ):
        rate, _ = await _load(where, make, clients=clients, seconds=5)
        print(f"{label}: {rate:.0f} a second")

    def fresh(i: int, n: int) -> bytes:
        sql = f"SELECT COUNT(*) AS n FROM visits WHERE age > {(64 * n + i) % 100}"
        asked = {"sql": sql, "epsilon": "0.1", "fresh": True}
        return _request("POST", "/v1/answers", key, asked, Prefer="wait=300")

    rate, counts = await _load(where, fresh, clients=64, seconds=15)
    print(f"new questions, 64 clients: {rate:.1f} a second, library {library['new']:.1f}; "
          f"each {min(counts)} to {max(counts)}")  # fmt: skip


if __name__ == "__main__":
    main()
