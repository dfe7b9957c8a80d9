"""Several servers on one ledger in PostgreSQL: the ledger decides, whoever is asked."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import psycopg
import pytest
from tests.adversarial.test_service_races import COUNT, keys, write

pytestmark = pytest.mark.races


@pytest.fixture(scope="module")
def servers(tmp_path_factory, start_service, postgres_url):
    """Two servers, each with a home and keys of its own, on one ledger."""
    folder = tmp_path_factory.mktemp("servers")
    with psycopg.connect(postgres_url, autocommit=True) as line:
        # a worker that takes tests from another may come here twice
        line.execute(f"CREATE DATABASE {folder.name}")
    ledger = postgres_url.replace("/postgres?", f"/{folder.name}?")
    path = write(folder, "shared", epsilon="1")
    found = []
    for name in ("one", "two"):
        made = keys(folder / name, "owner", "ana", "ben", "auditor")
        served = start_service(
            str(path), "--port", "0", "--workers", "1", "--home", str(folder / name),
            "--ledger", ledger, cwd=folder,
        )  # fmt: skip
        served.keys = made
        found.append(served)
    return found


def test_two_servers_race_for_the_last_epsilon(servers):
    """Sixteen at once at two servers, room for one: exactly one debit."""
    both = servers
    barrier = threading.Barrier(16)

    def ask(i):
        barrier.wait()
        sql = f"SELECT COUNT(*) AS n FROM people WHERE age > {i}"
        body = {"sql": sql, "epsilon": "0.6"}
        return both[i % 2]("POST", "/v1/answers", body, who=("ana", "ben")[i // 2 % 2])

    with ThreadPoolExecutor(16) as pool:
        codes = sorted(r.status_code for r in pool.map(ask, range(16)))
    assert codes == [202] + [409] * 15
    left = {s("GET", "/v1/budget").json()["result"]["left"]["epsilon"] for s in both}
    assert left == {"2/5"}


def test_one_key_at_two_servers_is_one_debit_and_one_answer(servers):
    both = servers
    body = {"sql": COUNT, "epsilon": "0.01"}
    before = Fraction(both[0]("GET", "/v1/budget").json()["result"]["whole"]["epsilon"]["spent"])

    def ask(server):
        return server("POST", "/v1/answers", body, Idempotency_Key="same", Prefer="wait=300")

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(ask, both)
    assert (first.status_code, second.status_code) == (200, 200), (first.text, second.text)
    assert first.json()["result"]["rows"] == second.json()["result"]["rows"]
    assert first.json()["result"]["line"] == second.json()["result"]["line"]
    lines = both[0]("GET", "/v1/ledger", who="auditor").json()["result"]["lines"]
    assert len([x for x in lines if x.get("key") == "same" and x.get("runs", True)]) == 1
    for server in both:
        assert server("GET", "/v1/verify", who="auditor").status_code == 200
    # a run that the other server could not see is metered: the least price, once
    after = Fraction(both[1]("GET", "/v1/budget").json()["result"]["whole"]["epsilon"]["spent"])
    assert Fraction(1, 100) <= after - before <= Fraction(1, 100) + Fraction(1, 1000)


def test_what_one_server_has_answered_is_free_at_the_other(servers):
    both = servers
    first = both[0].ask("SELECT COUNT(*) AS k FROM people WHERE age > 50", "0.02")
    again = both[1].ask("SELECT COUNT(*) AS k FROM people WHERE age > 50", "0.02")
    assert (again["cached"], again["rows"]) == (True, first["rows"])
    assert again["paid"] == {"epsilon": "0"}
