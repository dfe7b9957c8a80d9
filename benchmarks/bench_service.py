"""The service beside the library, in one run: overhead, answers by id, stored answers, new ones.

``python -m benchmarks.bench_service`` (needs ``discreet[serve]``). Library and service are asked
by turns, and beside each time stands the processor time of the process that did the work: on
a machine that is shared the first one is about the others, the second one about us. Rates
are those of one core, ``1 / processor time``: the web process has one, clients and
workers have the other. The clients are one process with plain sockets; what they take of both
cores stands beside the rest.

New questions of 64 clients can come no faster than ticks and places let them, which are functions
of plans and declared rows; both limits are printed. The table fills the class of sizes that it
declares (powers of four), or places would be taken for rows that are not there. A service that
finds the machine busy at its start has longer ticks, so it is started again until it does not,
eight times at most.

What new questions are compared with: 64 threads of this process ask one curator the same kind of
question, none of them twice, by turns with the service. Both have a table of the same rows, a
ledger of their own on the same disk (SQLite, durable, one writer for all who wait), and engines
with one thread for each question. The library gives an answer when it has it; the service holds it
until its tick, signs it, and hands it to a client over HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import discreet as dc
from discreet.cli._sample import write_sample
from discreet.curator import Counter
from discreet.service import _ticks
from discreet.service._machine import Crowd, machine, processors

QUESTION = "SELECT region, COUNT(*) AS n, AVG(cost) AS c FROM visits GROUP BY region"
CLIENTS = 64
ROWS = 4**6
WORKERS = 2 * max(1, int(processors()))
"""With twice as many as processors a seat is taken for what the model gives; more gain nothing."""
_TICKS = os.sysconf("SC_CLK_TCK")
Question = Callable[[], dict[str, object]]
_fresh, _asked = itertools.count(), itertools.count()


def _processor(pid: int, *, children: bool = False) -> float:
    """Seconds of processor time that a process has used, all its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split() if children else ()
    return (int(fields[11]) + int(fields[12])) / _TICKS + sum(_processor(int(p)) for p in below)


def _request(method: str, path: str, key: str, body: dict | None = None, **headers: str) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {key}",
             "Content-Type: application/json", f"Content-Length: {len(content)}",
             *(f"{k}: {v}" for k, v in headers.items()), "", ""]  # fmt: skip
    return "\r\n".join(lines).encode() + content


class Line:
    """One connection to the service."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def to(cls, where) -> Line:
        return cls(*await asyncio.open_connection(where.hostname, where.port))

    async def ask(self, request: bytes) -> bytes:
        """Send a request and wait for what comes, which must be an answer."""
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        body = await self._reader.readexactly(length)
        assert int(head.split()[1]) == 200, body
        return body


async def _load(where, make, *, clients: int, seconds: float) -> tuple[float, int, list[float]]:
    """Requests per second of clients with a connection each, their number, each one's mean wait."""
    counts, over, waits = [0] * clients, time.perf_counter() + seconds, [0.0] * clients

    async def one(i: int) -> None:
        line = await Line.to(where)
        while (start := time.perf_counter()) < over:
            await line.ask(make(i, counts[i]))
            waits[i] += time.perf_counter() - start
            counts[i] += 1

    start = time.perf_counter()
    await asyncio.gather(*(one(i) for i in range(clients)))
    rate = sum(counts) / (time.perf_counter() - start)
    return rate, sum(counts), [w / n for w, n in zip(waits, counts, strict=True)]


def _new() -> dict[str, object]:
    """A question that has not been asked: all of them cost the same to answer."""
    cents = next(_asked) % 50_000  # as many as the column has values
    return _paid(f"cost > {cents // 100}.{cents % 100:02}")


def _again() -> dict[str, object]:
    """One of a hundred questions that are paid for anew each time."""
    return _paid(f"age > {next(_asked) % 100}")


def _paid(which: str) -> dict[str, object]:
    sql = f"SELECT COUNT(*) AS n FROM visits WHERE {which}"
    return {"sql": sql, "epsilon": "0.1", "fresh": True}


def _policy(folder: Path, name: str) -> Path:
    folder.mkdir()
    path, table = write_sample(folder, 1300)
    assert ROWS // 2 < table.num_rows <= ROWS
    text = path.read_text().replace('epsilon = "2"', 'epsilon = "100000"')
    path.write_text(text.replace('"clinic"', f'"{name}"') + f"\n[service]\nrows = {ROWS}\n")
    return path


@contextlib.contextmanager
def served(path: Path) -> Iterator[tuple[int, str, str]]:
    """Start a service; give the number of its process, its address and a key."""
    home = str(path.parent / "home")
    words = [sys.executable, "-m", "discreet", "key", "add", "ana", "--home", home]
    key = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    words = [sys.executable, "-m", "discreet", "serve", str(path), "--home", home, "--port", "0",
             "--json", "--workers", str(WORKERS)]  # fmt: skip
    with subprocess.Popen(words, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        try:
            yield server.pid, json.loads(server.stdout.readline())["url"], key
        finally:
            server.terminate()


def _in_process(curator, make: Question, seconds: float) -> tuple[float, float]:
    """Questions per second that threads get from one curator here, and processor time of each."""
    over = time.perf_counter() + seconds

    def one(_: int) -> int:
        asked = 0
        while time.perf_counter() < over:
            question = make()
            curator.sql(question.pop("sql"), **question)
            asked += 1
        return asked

    start, used = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(CLIENTS) as pool:
        asked = sum(pool.map(one, range(CLIENTS)))
    return asked / (time.perf_counter() - start), (time.process_time() - used) / asked


async def _overhead(curator, line: Line, key: str, pid: int) -> None:
    times: dict[str, list[float]] = {"library": [], "service": []}
    own = theirs = 0.0
    for i in range(300):
        epsilon = f"0.1{i:03}"
        start, used = time.perf_counter(), time.process_time()
        curator.preview(QUESTION, epsilon=epsilon).error()
        times["library"].append(time.perf_counter() - start)
        own += time.process_time() - used
        start, used = time.perf_counter(), _processor(pid)
        body = {"sql": QUESTION, "epsilon": epsilon}
        await line.ask(_request("POST", "/v1/preview", key, body))
        times["service"].append(time.perf_counter() - start)
        theirs += _processor(pid) - used
    library, service = (1e3 * statistics.median(t) for t in times.values())
    print(f"preview, new price: library {library:.2f} ms, service {service:.2f} ms: "
          f"{service - library:+.2f}; processor {own / .3:.2f} and {theirs / .3:.2f} ms: "
          f"{(theirs - own) / .3:+.2f}", flush=True)  # fmt: skip


async def _measure(where, key: str, pid: int, curator, seconds: float = 5.0) -> None:
    body = {"sql": QUESTION, "epsilon": "0.1"}
    line = await Line.to(where)
    said = await line.ask(_request("POST", "/v1/answers", key, body, Prefer="wait=60"))
    id_ = json.loads(said)["result"]["id"]
    await _overhead(curator, line, key, pid)

    def preview(**more: object) -> bytes:
        return _request("POST", "/v1/preview", key, {**body, **more})

    def price(*_: int) -> bytes:
        return preview(epsilon=f"0.2{next(_fresh):06}")

    def question(*_: int) -> bytes:
        return preview(sql=f"SELECT COUNT(*) AS n FROM visits WHERE age > {next(_fresh)}")

    def mix(i: int, n: int) -> bytes:
        """What a page asks for: half of it again, a quarter at another price, a quarter new."""
        return (preview, price, preview, question)[(i + n) % 4]()

    kinds: tuple[tuple[str, Callable[..., bytes]], ...] = (
        ("previews, new prices", price),
        ("previews, new questions", question),
        ("previews, known prices", lambda *_: preview()),
        ("previews, a mix", mix),
        ("answers by id", lambda *_: _request("GET", f"/v1/answers/{id_}", key)),
        ("stored by question", lambda *_: _request("POST", "/v1/answers", key, body)),
    )  # fmt: skip
    for label, make in kinds:
        used = _processor(pid)
        rate, number, _ = await _load(where, make, clients=32, seconds=seconds)
        each = (_processor(pid) - used) / number
        print(f"{label}: {rate:.0f} a second here and now; processor {1e3 * each:.2f} ms each: "
              f"{1 / each:.0f} a second of one core", flush=True)  # fmt: skip


def _places(curator) -> float:
    """New questions a second that places let through, on a machine as fast as this one is now."""
    counter, crowd = Counter(curator), Crowd(machine(), processors(), WORKERS, 1)
    bill = counter.bill(str(_new()["sql"]), "ana", epsilon="0.1")
    statements = counter.statements(bill)
    text, divisions = sum(map(len, statements)), _ticks.divisions_in(statements)
    bound = _ticks.bound(bill.plans, ROWS, crowd.slowness, text, divisions)
    return crowd.seats / (bound * crowd.stretch)


async def _tick(where, key: str) -> float:
    """Seconds after which such a question leaves."""
    line = await Line.to(where)
    price = _request("POST", "/v1/preview", key, {k: v for k, v in _new().items() if k != "fresh"})
    return float(json.loads(await line.ask(price))["result"]["tick"])


async def _new_questions(where, key: str, pid: int, curator) -> None:
    tick = await _tick(where, key)
    print(f"{CLIENTS} clients: {CLIENTS / tick:.0f} questions a second at most, by places "
          f"{_places(curator):.0f}", flush=True)  # fmt: skip
    shares = [
        await _side_by_side((where, key, pid), curator, "new questions", _new) for _ in range(6)
    ]
    median = statistics.median(shares)
    print(f"new questions: {100 * median:.0f} % at the median of {len(shares)} rounds", flush=True)
    await _side_by_side((where, key, pid), curator, "known texts, paid anew", _again)
    said = json.loads(await (await Line.to(where)).ask(_request("GET", "/v1/budget", key)))
    print(f"runs that missed their tick: {said['result']['overruns']}", flush=True)


async def _side_by_side(served, curator, label: str, make: Question) -> float:
    """Ask from threads of this process, then by clients of the service; give their shares."""
    (where, key, pid), seconds = served, 8.0

    def request(*_: int) -> bytes:
        return _request("POST", "/v1/answers", key, make(), Prefer="wait=300")

    alone, here = _in_process(curator, make, seconds)
    used, all_, own = _processor(pid), _processor(pid, children=True), time.process_time()
    rate, number, waits = await _load(where, request, clients=CLIENTS, seconds=seconds)
    web = (_processor(pid) - used) / number
    all_ = (_processor(pid, children=True) - all_) / number
    clients = (time.process_time() - own) / number
    print(f"{label}, {CLIENTS} clients: {rate:.1f} a second, in process {alone:.1f}: "
          f"{100 * rate / alone:.0f} %; processor {1e3 * web:.1f} ms in the web process, "
          f"{1e3 * (all_ - web):.1f} in workers, {1e3 * clients:.1f} in clients, "
          f"{1e3 * here:.1f} in process; "
          f"mean waits of clients {min(waits):.2f} to {max(waits):.2f} s; "
          f"load {os.getloadavg()[0]:.0f}", flush=True)  # fmt: skip
    return rate / alone


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["XDG_STATE_HOME"] = str(folder / "state")
        own = _policy(folder / "own", "own")
        theirs = _policy(folder / "served", "served")
        with dc.open(policy=own, engine={"threads": 1}) as curator:
            curator.sql(QUESTION, epsilon="0.1")
            for tries_left in reversed(range(8)):
                with served(theirs) as (pid, url, key):
                    where = urlsplit(url)
                    if tries_left and asyncio.run(_tick(where, key)) > _ticks.FIRST:
                        continue
                    asyncio.run(_new_questions(where, key, pid, curator))
                    asyncio.run(_measure(where, key, pid, curator))
                    break


if __name__ == "__main__":
    main()
