"""Every page under every kind of budget: before and after debits, and what each page says."""

from __future__ import annotations

import asyncio
import random
import re
from contextlib import contextmanager
from fractions import Fraction
from html import unescape
from types import SimpleNamespace

import httpx
import pytest

from discreet import policy as pol
from discreet.service import Home, Keys
from discreet.service._app import build
from discreet.service._errors import INTERNAL
from discreet.service._sessions import Sessions

pytestmark = pytest.mark.races

BUDGETS = {
    "pages-pure": 'epsilon = "2"',
    "pages-approx": 'epsilon = "2"\ndelta = "1e-6"\naccounting = "approx"',
    "pages-either": 'epsilon = "2"\ndelta = "1e-6"',
    "pages-rho": 'rho = "0.2"\ndelta = "1e-6"',
    "pages-shares": 'epsilon = "2"\ndelta = "1e-6"\nshares = { ana = "0.5", ben = "0.25" }',
}
SERVICE = {
    "pages-approx": 'daily = "0.8"\n',
    "pages-shares": 'daily = "0.8"\napproval = "0.3"\nexpiry = 3\n',
}
TABLE = """
[tables.t]
source = "t.csv"
[tables.t.columns]
code = { type = "text" }
kind = { type = "category", values = ["A", "B"] }
"""
KINDS = "SELECT kind, COUNT(*) AS n FROM t GROUP BY kind"
CODES = "SELECT code, COUNT(*) AS n FROM t GROUP BY code"
PAGES = ("/ask", "/budget", "/public", "/owner")
ROLES = {"owner": "owner", "ana": "analyst", "cleo": "analyst", "auditor": "auditor"}


@pytest.fixture(scope="module")
def books(tmp_path_factory, start_service):
    """One service with a policy of each kind; ana has spent ε, and δ where there is any."""
    folder = tmp_path_factory.mktemp("books")
    draw = random.Random(1)
    paths = []
    for name, budget in BUDGETS.items():
        rows = [draw.choice("AB") for _ in range(900)]
        text = "code,kind\n" + "".join(f"{r},{r}\n" for r in rows)
        (folder / f"{name}.csv").write_text(text)
        service = f"[service]\nrows = 1000\n{SERVICE.get(name, '')}"
        paths.append(folder / f"{name}.toml")
        paths[-1].write_text(f'[policy]\nname = "{name}"\n[budget]\n{budget}\n{service}'
                             + TABLE.replace("t.csv", f"{name}.csv"))  # fmt: skip
    keys = Keys(Home(folder / "home"))
    made = {name: keys.add(name, role) for name, role in ROLES.items()}
    served = start_service(*map(str, paths), "--port", "0", "--workers", "1", "--home",
                           str(folder / "home"), cwd=folder)  # fmt: skip
    served.keys = made
    return served


@contextmanager
def signed_in(service, who):
    headers = {"Accept": "text/html"}
    with httpx.Client(base_url=service.url, timeout=600, headers=headers) as client:
        client.post("/login", data={"key": service.keys[who]})
        yield client


def look(service, policy):
    """Open every page as everybody; give what each shows by who looked at it."""
    seen = {}
    for who in ROLES:
        with signed_in(service, who) as client:
            for path in PAGES:
                shown = client.get(path, params={"policy": policy})
                assert shown.status_code in (200, 403), (policy, who, path, shown.text)
                assert shown.headers["content-type"].startswith("text/html")
                seen[who, path] = shown.text
    return seen


def ask(service, policy, body, who="ana"):
    answer = service("POST", f"/v1/answers?policy={policy}", body, who=who, Prefer="wait=300")
    assert answer.status_code == 200, answer.text
    assert answer.json()["result"].get("state", "done") == "done", answer.text
    return answer.json()["result"]


@pytest.mark.parametrize("policy", BUDGETS)
def test_every_page_opens_before_and_after_every_kind_of_debit(books, policy):
    assert 'svg class="people"' in look(books, policy)["ana", "/budget"]
    ask(books, policy, {"sql": KINDS, "epsilon": "0.1"})
    look(books, policy)
    if policy == "pages-pure":
        return
    ask(books, policy, {"sql": CODES, "epsilon": "0.1", "delta": "1e-8"})
    shown = look(books, policy)["ana", "/budget"]
    # no belief is stated where δ > 0: nothing is drawn, and the words say what holds
    assert 'svg class="people"' not in shown
    assert "with δ &gt; 0 no bound holds always" in shown
    ask(books, policy, {"sql": KINDS, "epsilon": "0.05"}, who="cleo")
    look(books, policy)


def test_a_page_that_fails_is_a_page_of_constant_text(tmp_path):
    """Whatever fails, and wherever: a browser is shown a page, a program JSON, neither a cause."""
    house = SimpleNamespace(desks={"p": None}, oidc=None, cap="0.2", keys=None,
                            sessions=Sessions(Home(tmp_path), None))  # fmt: skip

    def fail(_):
        raise ZeroDivisionError("sensitive")

    house.public_desk = fail
    app = build(house)

    async def get(accept):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.get("/public", headers={"Accept": accept})

    page, program = asyncio.run(get("text/html,*/*;q=0.8")), asyncio.run(get("*/*"))
    assert page.status_code == program.status_code == 500
    assert "<h1>Failed</h1>" in page.text
    assert INTERNAL["message"] in page.text
    assert program.json() == INTERNAL
    assert "sensitive" not in page.text + program.text


def test_every_page_says_what_is_in_force_by_the_ledger(books):
    """After a raise nobody is told the total that the policy's file states."""
    policy = "pages-shares"
    raised = {"epsilon": "2.5", "reason": "more questions"}
    assert books("POST", f"/v1/budget?policy={policy}", raised, who="owner").status_code == 200
    said = {
        path: books("GET", f"{path}?policy={policy}", who=who).json()["result"]
        for path, who in (("/v1/releases", None), ("/v1/policy", "cleo"))
    }
    layers = {row["layer"]: row["holds"] for row in said["/v1/releases"]["statement"]}
    assert layers["total loss"].startswith("epsilon = 2.5, delta = 1e-06")
    stated = said["/v1/policy"]
    assert (stated["policy"]["budget"]["epsilon"], stated["caps"]["epsilon"]) == ("5/2", "5/2")
    assert "shares" not in stated["policy"]["budget"]
    assert "2.5" in books("GET", f"/v1/registry?policy={policy}", who=None).text
    shown = look(books, policy)
    assert "epsilon = 2.5" in shown["cleo", "/public"]
    assert "epsilon = &#34;2.5&#34;" in shown["cleo", "/public"]
    written = re.search(r'name="toml"[^>]*>([^<]*)<', shown["owner", "/owner"])[1]
    draft = pol.loads(unescape(written))
    assert draft.budget.epsilon == Fraction(5, 2)
    assert draft.budget.shares == {"ana": Fraction(1, 2), "ben": Fraction(1, 4)}
    assert draft.service.expiry == 3
    for (who, path), text in shown.items():
        assert "epsilon = &#34;2&#34;" not in text, (who, path)
        assert "epsilon = 2," not in text, (who, path)
