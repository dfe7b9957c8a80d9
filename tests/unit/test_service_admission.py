"""One rule of admission: what a price says, what asking says, what an owner and a page say."""

from __future__ import annotations

import random
import re
from contextlib import contextmanager

import httpx
import pytest
from typer.testing import CliRunner

from discreet.cli import app
from discreet.errors import BudgetExceededError, Hint
from discreet.service import Home, Keys
from discreet.service._admission import _fitting

pytestmark = pytest.mark.races

POLICY = """
[policy]
name = "{name}"
[budget]
epsilon = "1"
shares = {{ ana = "0.3", ben = "0.4" }}
[service]
rows = 1000
approval = "0.2"
daily = "0.35"
[tables.t]
source = "{name}.csv"
[tables.t.columns]
kind = {{ type = "category", values = ["A", "B"] }}
"""
COUNT = "SELECT COUNT(*) AS n FROM t"
KINDS = "SELECT kind, COUNT(*) AS n FROM t GROUP BY kind"
ROLES = {"owner": "owner", "ana": "analyst", "ben": "analyst", "cleo": "analyst"}


def begun(start_service, folder, name):
    draw = random.Random(name)
    rows = "".join(f"{draw.choice('AB')}\n" for _ in range(700))
    (folder / f"{name}.csv").write_text(f"kind\n{rows}")
    (folder / f"{name}.toml").write_text(POLICY.format(name=name))
    keys = Keys(Home(folder / "home"))
    made = {who: keys.add(who, role) for who, role in ROLES.items()}
    served = start_service(f"{name}.toml", "--port", "0", "--workers", "1", "--home", "home",
                           cwd=folder)  # fmt: skip
    served.keys = made
    return served


@pytest.fixture(scope="module")
def ruled(tmp_path_factory, start_service):
    """A service with every limit that there is."""
    return begun(start_service, tmp_path_factory.mktemp("ruled"), "ruled")


@contextmanager
def signed_in(service, who):
    headers = {"Accept": "text/html"}
    with httpx.Client(base_url=service.url, timeout=600, headers=headers) as client:
        client.post("/login", data={"key": service.keys[who]})
        found = re.search(r'name="token" value="([^"]+)"', client.get("/budget").text)
        yield client, found[1]


def price(service, epsilon, who, sql=COUNT):
    """What a price says of a refusal, by interface and by page: the same."""
    body = {"sql": sql, "epsilon": epsilon}
    told = service("POST", "/v1/preview", body, who=who).json()["result"]["refused"]
    with signed_in(service, who) as (client, token):
        page = client.post("/ask/price", data={**body, "token": token}).text
    assert ("It would be refused now" in page) == (told is not None)
    return told


def agree(service, epsilon, who, sql=COUNT, patience=300):
    """Asking refuses what the price said it would, and nothing else; give what it said."""
    told = price(service, epsilon, who, sql)
    said = service("POST", "/v1/answers", {"sql": sql, "epsilon": epsilon}, who=who,
                   Prefer=f"wait={patience}")  # fmt: skip
    assert (said.status_code in (409, 423)) == (told is not None), (told, said.text)
    if told is not None:
        # a price says "your share" of it
        assert told.split(" has ")[-1].startswith(said.json()["message"].split(" has ")[-1])
    return told, said.json().get("result")


def waiting(service):
    return service("GET", "/v1/requests", who="owner").json()["result"]["requests"]


def test_a_price_says_what_asking_says(ruled):
    """The share, the day, what waits, the closure: one rule; withdrawing gives room again."""
    told, _ = agree(ruled, "0.34", "ana")
    assert told.startswith("your share has ε 0.3 left")
    assert not waiting(ruled)  # what approval could not pay for does not wait
    told, _ = agree(ruled, "0.36", "ben")
    assert "today's limit for one analyst is ε=0.35" in told
    _, held = agree(ruled, "0.3", "ben", patience=0)  # nobody decides while it is waited for
    assert held["state"] == "waiting"
    told, _ = agree(ruled, "0.15", "ben")
    assert told == "what is left is kept for questions that wait for an owner"
    with signed_in(ruled, "ben") as (client, token):
        page = client.get("/budget").text
        assert "ε = 0.3 is set aside" in page
        assert "The limit of a day (UTC) for one analyst is ε = 0.35" in page
        assert "Withdraw this question" in client.get(f"/answers/{held['id']}").text
        form = {"token": token, "action": "withdraw", "id": held["id"]}
        assert client.post("/ask", data=form).headers["location"] == f"/answers/{held['id']}"
        assert "You have withdrawn it" in client.get(f"/answers/{held['id']}").text
    assert price(ruled, "0.15", "ben") is None  # although the ledger has no new line
    assert not waiting(ruled)


def test_a_hint_fits_under_every_limit_that_refuses(ruled):
    """The share of ben has 0.4 left and his day 0.35, ana's share 0.3: the least is hinted."""
    for who, fits in (("ben", "0.35"), ("ana", "0.3")):
        body = {"sql": COUNT, "epsilon": "0.45"}
        said = ruled("POST", "/v1/answers", body, who=who).json()
        assert (said["error"], said["fix"]) == ("budget-exceeded", {"epsilon": fits}), said
        assert price(ruled, fits, who) is None


def test_a_limit_that_leaves_nothing_decides_the_hint():
    share = BudgetExceededError("share", hint=Hint("epsilon", "0.3"))
    day = BudgetExceededError("day", hint=Hint("epsilon", "0.05"))
    nothing = BudgetExceededError("day", hint="ask again tomorrow")
    for said, other, hint in (
        (share, None, share.hint), (share, day, day.hint), (day, share, day.hint),
        (share, nothing, nothing.hint), (nothing, share, nothing.hint),
        (BudgetExceededError("x", hint=Hint("within", {"n": 9})), day, 'within={"n": 9}'),
    ):  # fmt: skip
        assert (_fitting(said, other).message, _fitting(said, other).hint) == (said.message, hint)


def test_who_asked_withdraws_and_nobody_else(ruled):
    body = {"sql": COUNT, "epsilon": "0.25"}
    held = ruled("POST", "/v1/answers", body, who="ben").json()["result"]
    path = f"/v1/requests/{held['id']}"
    assert ruled("DELETE", path, who="ana").status_code == 404
    assert ruled("DELETE", path, who="owner").status_code == 404
    gone = ruled("DELETE", path, who="ben")
    assert gone.json()["result"]["state"] == "withdrawn"
    assert gone.json()["result"]["paid"] == {"epsilon": "0"}
    again = ruled("DELETE", path, who="ben")
    assert (again.status_code, again.json()["error"]) == (409, "state")
    decided = {"approve": True, "reason": "late", "seen": "0" * 64}
    assert ruled("POST", f"{path}/decision", decided, who="owner").status_code == 409


def test_an_owner_sees_that_a_share_cannot_pay(ruled):
    held = ruled("POST", "/v1/answers", {"sql": COUNT, "epsilon": "0.25"}, who="ben")
    assert [r["refused"] for r in waiting(ruled)] == [None]
    with signed_in(ruled, "owner") as (client, token):
        form = {"token": token, "shares": "ana = 0.3, ben = 0.1", "reason": "less"}
        client.post("/owner/shares", data=form)
        (shown,) = waiting(ruled)
        assert shown["refused"].startswith("the share of ben has ε 0.1 left")
        page = client.get("/owner").text
        assert "It cannot be paid for now: the share of ben" in page
        assert ">Approve<" not in page
        client.post("/owner/shares", data={**form, "shares": "ana = 0.3, ben = 0.4"})
        assert ">Approve<" in client.get("/owner").text
    id_ = held.json()["result"]["id"]
    assert ruled("DELETE", f"/v1/requests/{id_}", who="ben").status_code == 200


def test_a_closed_policy_is_named_wherever_somebody_looks(ruled):
    closing = {"closed": True, "reason": "holidays"}
    assert ruled("POST", "/v1/closure", closing, who="owner").status_code == 200
    told, _ = agree(ruled, "0.01", "cleo")
    assert told == "the owner has closed this policy: no new questions"
    for who in ("cleo", "owner"):
        with signed_in(ruled, who) as (client, _):
            assert "closed for new questions" in client.get("/budget").text
    ruled("POST", "/v1/closure", {**closing, "closed": False}, who="owner")
    assert agree(ruled, "0.01", "cleo")[0] is None


def test_an_answer_on_a_lost_line_is_shown_as_lost(tmp_path, start_service):
    """After a restore from an older backup the page and the list work, and say which are lost."""
    lost = begun(start_service, tmp_path, "lost")
    kept = lost.ask(COUNT, "0.05")["id"]
    run = CliRunner().invoke
    policy = ["--policy", str(tmp_path / "lost.toml")]
    state = {"XDG_STATE_HOME": lost.env["XDG_STATE_HOME"]}
    assert run(app, ["ledger", "backup", str(tmp_path / "copy"), *policy], env=state).exit_code == 0
    gone = lost.ask(KINDS, "0.05")["id"]
    lost.stop()
    (tmp_path / "lost.toml.ledger").unlink()
    older = run(app, ["ledger", "restore", str(tmp_path / "copy"), "--older", *policy], env=state)
    assert older.exit_code == 0, older.output
    lost.start()
    listed = lost("GET", "/v1/answers").json()["result"]["answers"]
    assert {a["id"]: a["state"] for a in listed} == {kept: "done", gone: "lost"}
    assert lost("GET", f"/v1/answers/{gone}").json()["result"]["state"] == "lost"
    assert lost("GET", f"/v1/answers/{kept}").json()["result"]["state"] == "done"
    with signed_in(lost, "ana") as (client, _):
        page = client.get("/ask")
        assert page.status_code == 200
        assert "<td>lost</td>" in page.text
        assert "restored from an older backup" in client.get(f"/answers/{gone}").text
