"""Every page and every role: who sees what, and what a refusal offers instead."""

from __future__ import annotations

import re
from contextlib import contextmanager
from types import SimpleNamespace

import httpx
import pytest

from discreet.service._keys import Role
from discreet.service._owner import OwnerPages
from discreet.service._pages import Pages

pytestmark = pytest.mark.races

PAGES = {
    # page            owner  analyst  auditor  witness  nobody
    "GET /":         ("→/owner", "→/ask", "→/budget", "→/public", "→/login"),
    "GET /ask":      (200, 200, 403, 403, "→/login"),
    "POST /ask":     (200, 200, 403, 403, "→/login"),
    "POST /ask/price": (200, 200, 403, 403, "→/login"),
    "GET /budget":   (200, 200, 200, 403, "→/login"),
    "GET /answers/{own}": (200, 200, 404, 403, "→/login"),
    "GET /answers/{own}/table.csv": (200, 200, 404, 403, "→/login"),
    "GET /answers/0": (404, 404, 404, 403, "→/login"),
    "GET /owner":    (200, 403, 403, 403, "→/login"),
    "POST /owner/check": (200, 403, 403, 403, "→/login"),
    "POST /owner/checked": (200, 403, 403, 403, "→/login"),
    "POST /owner/draft": (200, 403, 403, 403, "→/login"),
    "POST /owner/keys": (404, 403, 403, 403, "→/login"),
    "POST /owner/keys/0": (404, 403, 403, 403, "→/login"),
    "POST /owner/requests/0": (404, 403, 403, 403, "→/login"),
    "POST /owner/budget": (400, 403, 403, 403, "→/login"),
    "POST /owner/closure": ("→/owner", 403, 403, 403, "→/login"),
    "POST /owner/shares": (400, 403, 403, 403, "→/login"),
    "GET /public":   (200, 200, 200, 200, 200),
    "GET /login":    (200, 200, 200, 200, 200),
    "GET /nothing":  (404, 404, 404, 404, 404),
    "POST /logout":  ("→/login", "→/login", "→/login", "→/login", "→/login"),
}  # fmt: skip
"""What each answers: a status, or where it leads; `own` is an answer of the caller's."""
ROLES = ("owner", "ana", "auditor", "north", None)
SQL = "SELECT COUNT(*) AS n FROM visits"
FORM = {"sql": SQL, "epsilon": "0.01", "action": "price", "toml": "[budget]", "reason": "a test",
        "closed": "no", "shares": "=", "name": "wards", "columns": "age INTEGER"}  # fmt: skip


@pytest.fixture(scope="module")
def keys(service):
    made = service("POST", "/v1/keys", {"name": "north", "role": "witness"}, who="owner")
    return {**service.keys, "north": made.json()["result"]["key"]}


@contextmanager
def browser(service, key):
    """A browser of somebody who has signed in, or of nobody; and the token of their forms."""
    with httpx.Client(base_url=service.url, timeout=600, headers={"Accept": "text/html"}) as client:
        if key is not None:
            client.post("/login", data={"key": key})
        found = re.search(r'name="token" value="([^"]+)"', client.get("/public").text)
        yield client, found[1] if found else ""


def own_answer(service, who):
    return service.ask(SQL, who=who)["id"] if who in ("owner", "ana") else "0" * 32


def said(response):
    """A status, or where the response leads."""
    where = response.headers.get("location")
    return response.status_code if where is None else f"→{where}"


@pytest.mark.parametrize("who", ROLES)
def test_each_page_is_for_the_roles_that_the_table_says(service, keys, who):
    own, found, shown = own_answer(service, who), {}, {}
    with browser(service, keys.get(who)) as (client, token):
        for page in PAGES:
            method, path = page.format(own=own).split()
            form = {**FORM, "token": token} if method == "POST" else None
            response = client.request(method, path, data=form)
            found[page], shown[page] = said(response), response.text
    column = ROLES.index(who)
    assert found == {page: row[column] for page, row in PAGES.items()}
    for page, status in found.items():
        if status == 403:
            assert "needs the role" in shown[page]
            assert "<textarea" not in shown[page]
            assert "<button>Sign out</button>" in shown[page]


@pytest.mark.parametrize("who", ROLES)
def test_a_refusal_links_to_pages_that_open(service, keys, who):
    with browser(service, keys.get(who)) as (client, _):
        refused = client.get("/nothing" if who in ("owner", None) else "/owner")
        assert refused.status_code in (403, 404)
        main = refused.text.partition("<main")[2]
        links = re.findall(r'href="([^"]+)"', main)
        assert links
        for link in links:
            assert client.get(link).status_code == 200


def test_the_table_has_every_page_and_every_role():
    """What is added belongs into the table; sign-in elsewhere needs a provider."""
    house = SimpleNamespace(oidc=None)
    pages = Pages(house, None)
    OwnerPages(house, pages)
    routed = {f"{method} {route.path}" for route in pages.router.routes for method in route.methods}
    named = {re.sub(r"\{own\}|(?<=/)0$", "{id_}", page) for page in PAGES}
    listed = {page.replace("table.csv", "{file}") for page in named}
    assert routed - {"POST /login", "GET /static/{name}"} == listed - {"GET /nothing"}
    assert len(ROLES) == len(Role) + 1
