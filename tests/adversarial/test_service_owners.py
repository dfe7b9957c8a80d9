"""Two owners decide together; what waits is kept in the budget's own currency."""

from __future__ import annotations

import re
from fractions import Fraction

import httpx
import pytest
from tests.adversarial.test_service_races import COUNT, keys, write

from discreet.service import Home, Keys

pytestmark = pytest.mark.races


@pytest.fixture(scope="module")
def pair(tmp_path_factory, start_service):
    """A service where two owners must agree, its budget in ρ, and an approval limit."""
    folder = tmp_path_factory.mktemp("pair")
    path = write(folder, "pair", epsilon="1", budget='delta = "1e-6"\naccounting = "zcdp"',
                 service='owners = 2\napproval = "0.3"')  # fmt: skip
    made = keys(folder / "home", "owner", "ana", "ben", "auditor")
    made["otto"] = Keys(Home(folder / "home")).add("otto", "owner")
    served = start_service(
        str(path), "--port", "0", "--workers", "1", "--home", str(folder / "home"), cwd=folder
    )
    served.keys = made
    return served


def total(pair):
    return pair("GET", "/v1/budget").json()["result"]["whole"]["epsilon"]["total"]


def test_one_owner_alone_raises_nothing(pair):
    before = total(pair)
    asked = pair("POST", "/v1/budget", {"epsilon": "2", "reason": "more"}, who="owner")
    made = asked.json()["result"]
    assert (asked.status_code, made["state"]) == (202, "waiting")
    assert total(pair) == before
    path = f"/v1/requests/{made['id']}/decision"
    said = {"approve": True, "reason": "fine", "seen": made["seen"]}
    own = pair("POST", path, said, who="owner")
    assert (own.status_code, own.json()["error"]) == (409, "state")
    assert pair("POST", path, said, who="ana").status_code == 403
    assert pair("POST", path, {**said, "seen": "0" * 64}, who="otto").status_code == 409
    assert total(pair) == before
    raises = pair("GET", "/v1/requests", who="otto").json()["result"]["raises"]
    (listed,) = [x for x in raises if x["id"] == made["id"]]
    assert (listed["by"], listed["raise"]) == ("owner", {"epsilon": "2"})
    assert pair("POST", path, said, who="otto").status_code == 200
    assert pair("POST", path, said, who="otto").status_code == 404  # once
    assert total(pair) == "2"
    lines = pair("GET", "/v1/ledger", who="auditor").json()["result"]["lines"]
    assert next(x["by"] for x in reversed(lines) if x["kind"] == "budget") == "owner, otto"


def test_nobody_becomes_two_persons(pair):
    """An owner cannot make an owner's key, under any name, by interface or page."""
    for name in ("eve", "otto", "owner"):
        made = pair("POST", "/v1/keys", {"name": name, "role": "owner"}, who="owner")
        assert made.status_code == 403
    made = pair("POST", "/v1/keys", {"name": "fay", "role": "analyst"}, who="owner")
    assert made.status_code == 201
    with httpx.Client(base_url=pair.url, timeout=600) as client:
        client.post("/login", data={"key": pair.keys["owner"]})
        page = client.get("/owner").text
        assert "Propose" in page
        token = re.search(r'name="token" value="([^"]+)"', page)[1]
        form = {"token": token, "name": "eve", "role": "owner"}
        assert client.post("/owner/keys", data=form).status_code == 403
        before = total(pair)
        form = {"token": token, "epsilon": "9", "reason": "mine"}
        assert client.post("/owner/budget", data=form).status_code == 303
        assert total(pair) == before
        waiting = client.get("/owner").text
        assert "Another owner must agree." in waiting
        assert ">Agree<" not in waiting


def test_an_owner_sets_shares_that_analysts_do_not_see(pair):
    def told(who):
        return pair("GET", "/v1/budget", who=who).json()["result"]["shares"]

    with httpx.Client(base_url=pair.url, timeout=600) as client:
        client.post("/login", data={"key": pair.keys["owner"]})
        token = re.search(r'name="token" value="([^"]+)"', client.get("/owner").text)[1]

        def share(text, **more):
            form = {"token": token, "shares": text, "reason": "a study", **more}
            return client.post("/owner/shares", data=form).status_code

        assert told("owner") == {}
        assert share("ana = 0.5, ben = 0.25") == 303
        whole = Fraction(total(pair))
        assert {n: Fraction(x["epsilon"]["total"]) for n, x in told("auditor").items()} == {
            "ana": whole / 2, "ben": whole / 4, "all others": whole / 4}  # fmt: skip
        assert (told("owner"), told("ana")) == (told("auditor"), {})
        assert 'value="ana = 0.5, ben = 0.25"' in client.get("/owner").text
        assert "all others" in client.get("/budget").text
        for fault in ("ana", "ana = 0.1, ana = 0.2", "ana = 2", "= 0.5", "ana = x"):
            assert 400 <= share(fault) < 500, fault
        assert share("", token="0" * 64) == 403
        assert len(told("owner")) == 3
        client.post("/login", data={"key": pair.keys["ana"]})
        token = re.search(r'name="token" value="([^"]+)"', client.get("/ask").text)[1]
        assert share("ana = 1") == 403
        client.post("/login", data={"key": pair.keys["owner"]})
        token = re.search(r'name="token" value="([^"]+)"', client.get("/owner").text)[1]
        assert share("") == 303
    assert told("owner") == {}


def test_a_declined_raise_changes_nothing(pair):
    before = total(pair)
    body = {"epsilon": "5", "reason": "again"}
    made = pair("POST", "/v1/budget", body, who="otto").json()["result"]
    said = {"approve": False, "reason": "no", "seen": made["seen"]}
    path = f"/v1/requests/{made['id']}/decision"
    assert pair("POST", path, said, who="owner").json()["result"]["state"] == "declined"
    assert pair("POST", path, {**said, "approve": True}, who="owner").status_code == 404
    assert total(pair) == before


def test_what_waits_is_kept_in_the_budgets_own_currency(tmp_path, start_service):
    """Under a budget of ρ alone, too: held questions leave no room for others."""
    path = write(tmp_path, "rho", budget='rho = "0.1"\ndelta = "1e-6"\naccounting = "zcdp"',
                 service='approval = "1"')  # fmt: skip
    path.write_text(path.read_text().replace('epsilon = "1"\n', ""))
    made = keys(tmp_path / "home", "owner", "ana", "ben")
    served = start_service(
        str(path), "--port", "0", "--workers", "1", "--home", str(tmp_path / "home"), cwd=tmp_path,
        XDG_STATE_HOME=str(tmp_path / "state"),
    )  # fmt: skip
    served.keys = made
    held = served("POST", "/v1/answers", {"sql": COUNT, "rho": "0.05"})
    assert held.json()["result"]["state"] == "waiting", held.text
    price = {"sql": "SELECT COUNT(*) AS m FROM people WHERE age > 3", "rho": "0.051"}
    refused = served("POST", "/v1/answers", price, who="ben")
    assert (refused.status_code, refused.json()["error"]) == (409, "budget-exceeded")
    assert "wait for an owner" in refused.json()["message"]
    fits = served("POST", "/v1/answers", {**price, "rho": "0.009"}, who="ben", Prefer="wait=300")
    assert fits.status_code == 200, fits.text
