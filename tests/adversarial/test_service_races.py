"""Races, kills and rules of budgets: services with policies of their own."""

from __future__ import annotations

import itertools
import json
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from discreet.cli import app
from discreet.ledger import open_ledger
from discreet.service import Home, Keys

pytestmark = pytest.mark.races

COUNT = "SELECT COUNT(*) AS n FROM people"
PATIENCE = 600
"""Seconds after which a service that does not answer is gone, and the test fails."""
POLICY = """
[policy]
name = "{name}"
[budget]
epsilon = "{epsilon}"
{budget}
[service]
rows = {rows}
{service}
[tables.people]
source = "people.parquet"
[tables.people.columns]
age = {{ type = "integer", min = 0, max = 115 }}
sex = {{ type = "category", values = ["F", "M", "=cmd()", "<script>alert(1)</script>"] }}
"<script>x" = {{ type = "integer", min = 0, max = 9 }}
"""


def write(folder, name, *, epsilon="1", budget="", service="", rows=1000):
    """Write a small table and its policy; make the keys of its people."""
    folder.mkdir(exist_ok=True)
    data = {"age": [31, 47, 60] * 100, "sex": ["F", "M", "=cmd()"] * 100, "<script>x": [1] * 300}
    pq.write_table(pa.table(data), folder / "people.parquet")
    path = folder / f"{name}.toml"
    path.write_text(
        POLICY.format(name=name, epsilon=epsilon, budget=budget, service=service, rows=rows)
    )
    return path


def keys(home, *names, **only):
    book = Keys(Home(home))
    roles = {"owner": "owner", "auditor": "auditor"}
    made = {n: book.add(n, roles.get(n, "analyst")) for n in names}
    return {**made, **{n: book.add(n, "analyst", (p,)) for n, p in only.items()}}


@pytest.fixture(scope="module")
def small(tmp_path_factory, start_service):
    """Daily limits and approvals; and a second policy on the same server."""
    folder = tmp_path_factory.mktemp("small")
    one = write(folder, "one", epsilon="1", service='approval = "0.2"\ndaily = "0.4"')
    two = write(folder / "two", "two", epsilon="1")
    made = keys(folder / "home", "owner", "ana", "ben", "dora", carl="two")
    served = start_service(
        str(one), str(two), "--port", "0", "--workers", "1", "--home", str(folder / "home"),
        cwd=folder,
    )  # fmt: skip
    served.keys = made
    return served


def test_a_question_above_the_price_waits_and_nothing_is_spent_until_an_owner_says_so(small):
    body = {"sql": COUNT, "epsilon": "0.3"}
    asked = small("POST", "/v1/answers?policy=one", body, Idempotency_Key="big")
    assert (asked.status_code, asked.json()["result"]["state"]) == (202, "waiting")
    spent = small("GET", "/v1/budget?policy=one").json()["result"]
    assert spent["whole"]["epsilon"]["spent"] == "0"
    assert spent["waiting"] == [asked.json()["result"]["id"]]
    with httpx.Client(base_url=small.url, timeout=600) as client:
        client.post("/login", data={"key": small.keys["ana"]})
        page = client.get(f"/answers/{asked.json()['result']['id']}").text
        assert "ε = 0.3 is set aside" in page
        assert "Look again" in page
    (shown,) = small("GET", "/v1/requests?policy=one", who="owner").json()["result"]["requests"]
    assert (shown["analyst"], shown["question"]["sql"]) == ("ana", COUNT)
    assert shown["error"]["n"].startswith("±")
    assert "rows" not in shown
    path = f"/v1/requests/{shown['id']}/decision?policy=one"
    stale = small("POST", path, {"approve": True, "reason": "ok", "seen": "0" * 64}, who="owner")
    assert (stale.status_code, stale.json()["error"]) == (409, "state")
    said = {"approve": True, "reason": "fine", "seen": shown["seen"]}
    assert small("POST", path, said, who="ana").status_code == 403
    assert small("POST", path, said, who="owner").status_code == 200
    assert small("POST", path, said, who="owner").status_code == 409
    done = small("POST", "/v1/answers?policy=one", body, Idempotency_Key="big", Prefer="wait=300")
    assert done.json()["result"]["state"] == "done"


def test_a_declined_question_costs_nothing(small):
    body = {"sql": COUNT, "epsilon": "0.35"}
    asked = small("POST", "/v1/answers?policy=one", body, who="dora").json()["result"]
    (shown,) = small("GET", "/v1/requests?policy=one", who="owner").json()["result"]["requests"]
    said = {"approve": False, "reason": "too much", "seen": shown["seen"]}
    small("POST", f"/v1/requests/{shown['id']}/decision?policy=one", said, who="owner")
    state = small("GET", f"/v1/answers/{asked['id']}", who="dora").json()["result"]
    assert (state["state"], state["decision"]) == ("declined", "owner: too much")


def test_a_day_has_its_limit(small):
    def ask(epsilon):
        body = {"sql": COUNT, "epsilon": epsilon}
        return small("POST", "/v1/answers?policy=one", body, who="ben", Prefer="wait=300")

    assert ask("0.15").status_code == 200
    assert ask("0.16").status_code == 200
    refused = ask("0.17")
    assert (refused.status_code, refused.json()["error"]) == (409, "budget-exceeded")
    assert refused.json()["fix"] == {"epsilon": "0.09"}
    assert ask("0.15").json()["result"]["cached"]  # what is stored stays free


def test_two_policies_of_one_server_never_mix(small):
    assert small("GET", "/v1/budget").status_code == 400  # which one?
    assert small("GET", "/v1/budget", who="carl").json()["result"]["policy"] == "two"
    assert small("GET", "/v1/budget?policy=one", who="carl").status_code == 404
    body = {"sql": COUNT, "epsilon": "0.1"}
    mine = small("POST", "/v1/answers?policy=two", body, Prefer="wait=300").json()["result"]
    other = small("POST", "/v1/answers?policy=one", body, who="carl")
    assert other.status_code == 404
    record = small("GET", f"/v1/answers/{mine['id']}/record").json()["result"]
    assert record["records"][0]["statement"]["policy"] == "two"


def test_labels_reach_csv_and_html_as_text_only(small):
    body = {"sql": "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex", "epsilon": "0.1"}
    done = small("POST", "/v1/answers?policy=two", body, Prefer="wait=300").json()["result"]
    table = small("GET", f"/v1/answers/{done['id']}", Accept="text/csv")
    assert "'=cmd()" in table.text
    assert "\n=cmd()" not in table.text
    assert table.headers["content-disposition"] == "attachment"
    page = small("GET", f"/v1/answers/{done['id']}", Accept="text/html").text
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_names_of_columns_and_people_reach_pages_as_text_only(small):
    """A column is called like markup; a person cannot be."""
    for who, paths in {"ana": ("/ask", "/budget"), "owner": ("/owner",)}.items():
        with httpx.Client(base_url=small.url, timeout=600) as client:
            client.post("/login", data={"key": small.keys[who]})
            for path in (*paths, "/public"):
                page = client.get(f"{path}?policy=two", follow_redirects=True)
                assert page.status_code == 200, path
                assert "<script>x" not in page.text, path
                assert "&lt;script&gt;x" in page.text or path not in ("/ask", "/owner"), path
    named = {"name": "<script>", "role": "analyst"}
    assert small("POST", "/v1/keys", named, who="owner").status_code == 400


def test_two_analysts_race_for_the_last_epsilon(small):
    """Twenty at once, room for one: exactly one debit, whoever wins."""
    whole = small("GET", "/v1/budget?policy=two").json()["result"]["whole"]["epsilon"]
    rest = Fraction(whole["left"])
    price = str(float(rest * 3 / 5))
    barrier = threading.Barrier(20)

    def ask(i):
        who = ("ana", "ben", "carl", "dora")[i % 4]
        barrier.wait()
        sql = f"SELECT COUNT(*) AS n FROM people WHERE age > {i}"
        return small("POST", "/v1/answers?policy=two", {"sql": sql, "epsilon": price}, who=who)

    with ThreadPoolExecutor(20) as pool:
        codes = sorted(r.status_code for r in pool.map(ask, range(20)))
    assert codes == [202] + [409] * 19


def test_one_key_asked_by_many_at_once_is_one_debit(small):
    body = {"sql": "SELECT COUNT(*) AS m FROM people", "epsilon": "0.01"}

    def ask(_):
        return small("POST", "/v1/answers?policy=two", body, Idempotency_Key="k", Prefer="wait=300")

    before = small("GET", "/v1/budget?policy=two").json()["result"]["whole"]["epsilon"]["spent"]
    with ThreadPoolExecutor(16) as pool:
        ids = {r.json()["result"]["id"] for r in pool.map(ask, range(16))}
    after = small("GET", "/v1/budget?policy=two").json()["result"]["whole"]["epsilon"]["spent"]
    assert len(ids) == 1
    assert Fraction(after) - Fraction(before) == Fraction(1, 100)


HERD = """
import json, os, sys
import discreet.cli._serve, discreet.service._serve
from discreet.cli import main
discreet.service._serve.machine = lambda: (1.0, 8.0)  # the speed that it would measure

for line in sys.stdin:
    said = json.loads(line)
    if isinstance(said, int):
        os.kill(child, said)
        os.waitpid(child, 0)
        print("gone", flush=True)
    else:
        child = os.fork()
        if not child:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            sys.argv = said
            sys.exit(main())
"""


class Herd:
    """Starts a service as a fork of a process that has loaded its code.

    It does not measure the machine, either: a third of a start's work is left.
    """

    def __init__(self):
        self._herd, self._lives = None, False

    def __call__(self, words, *, stdout, **options):
        if self._herd is None:
            self._herd = subprocess.Popen([words[0], "-c", HERD], stdin=subprocess.PIPE,
                                          stdout=stdout, text=True, **options)  # fmt: skip
            self.stdout = SimpleNamespace(readline=self._herd.stdout.readline, close=lambda: None)
        self._say(["discreet", *words[3:]])
        self._lives = True
        return self

    def _say(self, what):
        self._herd.stdin.write(json.dumps(what) + "\n")
        self._herd.stdin.flush()

    def kill(self, by=signal.SIGKILL):
        if self._lives:
            self._say(int(by))
            while self._herd.stdout.readline() != "gone\n":
                pass
        self._lives = False

    def terminate(self):
        self.kill(signal.SIGTERM)

    def wait(self, _):
        """Who is killed here is waited for."""

    def end(self):
        self._herd.stdin.close()
        self._herd.stdout.close()
        self._herd.wait(30)


class Crowd:
    """Clients who ask without a pause and retry by key until they have an answer."""

    def __init__(self, served, made, clients=6):
        self.served, self.made = served, made
        self._http = httpx.Client(timeout=600)
        self.answers: dict[str, tuple] = {}
        self.cut = 0
        self._count, self._over, self._guard = itertools.count(), False, threading.Lock()
        self._gone = False
        self._pool = ThreadPoolExecutor(clients)
        self._clients = [self._pool.submit(self._live, i) for i in range(clients)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._over = self._gone = True
        self._pool.shutdown()
        self._http.close()

    def _live(self, client):
        who = ("ana", "ben")[client % 2]
        while not self._over:
            with self._guard:
                name = f"{who}-{next(self._count)}"
            told = self.ask(name)
            with self._guard:
                self.answers[name] = told

    def key(self, name):
        """Idempotency key of a question: the same one whenever it is asked."""
        return name

    def ask(self, name):
        """Ask until an answer comes; what became of it, and its rows."""
        sql = f"SELECT COUNT(*) AS n FROM people WHERE age > {int(name[4:]) % 100}"
        body = {"sql": sql, "epsilon": "0.01", "fresh": True}
        until = time.monotonic() + PATIENCE
        while not self._gone and time.monotonic() < until:
            more = {"Idempotency-Key": self.key(name), "Prefer": "wait=30"}
            try:
                said = self._post("answers", body, name[:3], more)
                if said.status_code == 429:  # three were late: the owner looks at it
                    self._post("closure", {"closed": False, "reason": "seen"}, "owner", {})
            except httpx.HTTPError:
                with self._guard:
                    self.cut += 1
                threading.Event().wait(0.2)
                continue
            assert said.status_code in (200, 202, 429), said.text
            if said.status_code == 200:
                told = said.json()["result"]
                return told["state"], told.get("rows")
        raise RuntimeError(name)

    def _post(self, path, body, who, headers):
        headers = {"Authorization": f"Bearer {self.made[who]}", **headers}
        return self._http.post(f"{self.served.url}/v1/{path}", json=body, headers=headers)

    def wait(self):
        """Wait until the service listens."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                return self._http.get(f"{self.served.url}/healthz")
            except httpx.HTTPError:
                threading.Event().wait(0.1)
        raise RuntimeError("healthz")

    def asks(self):
        """Whether all clients go on asking."""
        return not any(client.done() for client in self._clients)

    def stop(self):
        self._over = True
        for client in self._clients:
            client.result()


def _storm(folder, start_service, kills, seed, *, least=0, launch=subprocess.Popen):
    """Kill the server at random moments under load; clients retry by key until they have it.

    The start after one kill is the start before the next one, and nobody stops asking for it. A
    machine that is busy with other things may not be done at a tick: that is an outcome, too,
    and stays the same one. No kill comes before there are so many answers as `least` says.
    """
    path = write(folder, "storm", epsilon="1000")
    made = keys(folder / "home", "ana", "ben", "auditor", "owner")
    served = start_service(str(path), "--port", "0", "--workers", "1", "--home",
                           str(folder / "home"), cwd=folder, launch=launch)  # fmt: skip
    served.keys = made
    chance = random.Random(seed)
    with Crowd(served, made) as crowd:
        for _ in range(kills):
            if chance.random() < 0.75:  # else a moment of its start, which takes up what was cut
                crowd.wait()
            threading.Event().wait(chance.random() * 5)
            while len(crowd.answers) < least and crowd.asks():
                threading.Event().wait(0.1)
            served.kill()
            served.start()
            with (folder / "kills.txt").open("a") as book:  # a long run is watched
                book.write(f"{len(crowd.answers)} {crowd.cut}\n")
        crowd.stop()
        changed = sum(crowd.ask(name) != told for name, told in crowd.answers.items())
    found = served("GET", "/v1/verify", who="auditor")
    assert found.status_code == 200, found.text
    served.stop()
    lines = open_ledger(str(path) + ".ledger").lines
    debits = [x.content for x in lines if x.kind == "debit"]  # some are metered runs
    paid = [x["key"].split("|")[0] for x in debits if x.get("runs", True)]
    states = Counter(state for state, _ in crowd.answers.values())
    assert states["done"] > states["failed"]  # how many are late depends on the machine
    assert crowd.cut >= kills  # the kills have met somebody
    faults = {"changed": changed, "lost": len(crowd.answers.keys() - set(paid)),
              "unasked": len(set(paid) - crowd.answers.keys()),
              "doubled": len(paid) - len(set(paid))}  # fmt: skip
    return faults, {"questions": len(paid), "cut": crowd.cut, **states}


def test_kill_nine_under_load_loses_and_doubles_nothing(tmp_path, start_service, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    faults, _ = _storm(tmp_path, start_service, kills=2, seed=1)
    assert not any(faults.values()), faults


def test_the_storm_sees_clients_who_retry_by_new_keys(tmp_path, start_service, monkeypatch):
    """The planted fault: what was paid for before the kill is paid for again after it.

    Certain: whatever was answered before the kill is asked for again at the end.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(Crowd, "key", lambda self, name: f"{name}|{self.cut}")
    faults, _ = _storm(tmp_path, start_service, kills=1, seed=1, least=1)
    assert faults["doubled"], faults


@pytest.mark.long
def test_kill_nine_two_hundred_times(tmp_path, start_service, monkeypatch, record_property):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    herd = Herd()
    faults, figures = _storm(tmp_path, start_service, kills=200, seed=2, launch=herd)
    herd.end()
    record_property("figures", figures)
    assert not any(faults.values()), (faults, figures)


def test_a_kill_while_the_signing_key_is_written_leaves_none(tmp_path, monkeypatch):
    write_bytes = Path.write_bytes

    def killed(path, content):
        write_bytes(path, content[:16])
        raise KeyboardInterrupt

    with monkeypatch.context() as kill, pytest.raises(KeyboardInterrupt):
        kill.setattr(Path, "write_bytes", killed)
        Home(tmp_path).signing_key()
    made = Home(tmp_path).signing_key().private_bytes_raw()
    assert Home(tmp_path).signing_key().private_bytes_raw() == made


@pytest.mark.parametrize("which", ["state = ? ORDER BY rowid",
                                   "analyst = ? ORDER BY rowid DESC LIMIT 20"])  # fmt: skip
def test_orders_are_found_without_a_look_at_all_of_them(tmp_path, which):
    """Every debit asks for what waits: with 20 000 orders that took 40 ms, one after the other."""
    sql = f"EXPLAIN QUERY PLAN SELECT id FROM orders WHERE policy = ? AND {which}"
    (step,) = Home(tmp_path).read(sql, ("people", "x"))  # one more would be a sort
    assert f"(policy=? AND {which.split()[0]}=?)" in step[3]


def test_a_second_server_takes_over_keys_and_what_was_revoked(tmp_path):
    one, two = (Keys(Home(tmp_path / n)) for n in ("one", "two"))
    ana, ben = one.add("ana", "analyst"), one.add("ben", "owner", ("people",))

    def copy():
        words = ["key", "copy", str(tmp_path / "one"), "--home", str(tmp_path / "two")]
        return CliRunner().invoke(app, words)

    assert "2 keys copied" in copy().stdout
    assert two.find(ana) == one.find(ana)
    assert two.find(ben).policies == ("people",)
    one.revoke("ana")
    two.revoke("ben")
    copy()
    assert two.find(ana) is None
    assert two.find(ben) is None  # what is revoked here does not come back
    two.add("carl", "auditor")
    one.add("carl", "analyst")
    refused = copy()
    assert refused.exit_code != 0
    assert len(two.all()) == 3
    missing = CliRunner().invoke(app, ["key", "copy", str(tmp_path / "x")])
    assert missing.exit_code != 0


def test_keys_from_the_command_line(tmp_path):
    def run(*words):
        return CliRunner().invoke(app, ["key", *words, "--home", str(tmp_path / "h")])

    key = run("add", "ana").stdout.split()[0]
    assert Keys(Home(tmp_path / "h")).find(key).name == "ana"
    assert key not in run("list").stdout
    assert "revoked" in run("revoke", "ana").stdout
    assert Keys(Home(tmp_path / "h")).find(key) is None
    stored = (tmp_path / "h" / "service.sqlite").read_bytes()
    assert key.split("_", 2)[2].encode() not in stored
    assert (tmp_path / "h").stat().st_mode & 0o077 == 0
