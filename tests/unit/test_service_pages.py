"""The pages in a real browser: the analyst's and the owner's stories, without and with scripts."""

from __future__ import annotations

import datetime as dt
import os
import re
import shutil
import time
from contextlib import contextmanager
from fractions import Fraction
from types import SimpleNamespace

import httpx
import pytest
from playwright.sync_api import expect, sync_playwright

from discreet.errors import ParameterError
from discreet.ledger import Balance
from discreet.service import _pages, _pictures

pytestmark = pytest.mark.races

PATIENCE = 120_000
"""Milliseconds for what a click leads to, on a busy machine."""
BY_REGION = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region"


@pytest.fixture(scope="module")
def browser():
    """The system's chromium, the one that PLAYWRIGHT_CHROMIUM names, or playwright's own."""
    named = os.environ.get("PLAYWRIGHT_CHROMIUM")
    path = named or shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield opened
        opened.close()


def sign_in(page, service, who):
    page.goto(f"{service.url}/login")
    page.get_by_label("Your key").fill(service.keys[who])
    # what is clicked leads to another page: it is there when this returns
    with page.expect_navigation(wait_until="load", timeout=PATIENCE):
        page.get_by_role("button", name="Sign in").click()
    page.get_by_role("main").wait_for(timeout=PATIENCE)
    page.wait_for_load_state("networkidle", timeout=PATIENCE)


def story(browser, **how):
    """Open a page that fails the test when a script or the policy of content complains."""
    context = browser.new_context(**how)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    complaints = []
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda e: complaints.append(str(e)))
    return context, page, complaints


def asked(page, price):
    """Price and ask until an answer is there: a run may miss its tick on a busy machine."""
    for _ in range(3):
        price()
        page.get_by_role("button", name="Ask and pay").click()
        page.wait_for_url(re.compile("/answers/"), timeout=PATIENCE)
        answer, again = (page.get_by_role("link", name=n) for n in ("CSV", "Look again"))
        over = time.monotonic() + PATIENCE / 1000
        while again.count() and time.monotonic() < over:  # without scripts, nobody else looks
            page.wait_for_timeout(500)
            page.reload(timeout=PATIENCE)
        if answer.count():
            return
        page.goto(page.url.partition("/answers/")[0] + "/ask", timeout=PATIENCE)
    pytest.fail(page.content())


@pytest.mark.parametrize(
    "how",
    [{"java_script_enabled": False}, {"viewport": {"width": 360, "height": 740},
      "color_scheme": "dark"}],
)  # fmt: skip
def test_an_analyst_prices_asks_and_reads(browser, service, how):
    context, page, complaints = story(browser, **how)
    sign_in(page, service, "ana")
    assert page.url.endswith("/ask")

    def price():
        page.get_by_label("Statistic").select_option("mean")
        page.get_by_label("of column").select_option("age")
        page.get_by_label("for each").select_option("region")
        page.get_by_role("button", name="Write this as SQL").click()
        written = page.get_by_label("One question")
        expect(written).to_have_value(re.compile(r'AVG\("age"\)'), timeout=PATIENCE)
        page.get_by_label("ε", exact=True).fill("0.0121" if "viewport" in how else "0.0122")
        page.get_by_role("button", name="Price", exact=True).click()
        expect(page.locator("#price")).to_contain_text("more like this", timeout=PATIENCE)
        if "viewport" in how:  # a phone does not scroll sideways
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    asked(page, price)
    assert page.locator("tbody tr").count() == 4
    assert page.locator("svg.chart").count() == 1
    if "viewport" in how:
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if shots := os.environ.get("DISCREET_SCREENSHOTS"):
        page.screenshot(path=f"{shots}/answer{len(how)}.png", full_page=True)
        page.goto(f"{service.url}/ask")
        page.screenshot(path=f"{shots}/ask{len(how)}.png", full_page=True)
        page.goto(f"{service.url}/budget")
        page.screenshot(path=f"{shots}/budget{len(how)}.png", full_page=True)
    context.close()
    assert not complaints


def test_prices_come_while_typing(browser, service):
    context, page, complaints = story(browser)
    sign_in(page, service, "ana")
    page.get_by_label("One question").fill(BY_REGION)
    page.get_by_text("Expected error").wait_for(timeout=PATIENCE)
    page.get_by_label("One question").fill("SELECT * FROM visits")
    page.locator("#price .refusal").wait_for(timeout=PATIENCE)
    context.close()
    assert not complaints


def test_an_owner_adds_a_key_raises_and_verifies(browser, service):
    context, page, complaints = story(browser)
    sign_in(page, service, "owner")
    assert "chain, totals and anchors agree" in page.content()
    page.get_by_label("Name *", exact=True).fill("erna")
    page.get_by_role("button", name="Add a key").click()
    key = page.locator(".secret").inner_text()
    assert service("GET", "/v1/budget", who=key).status_code == 200
    page.get_by_role("button", name=re.compile("Revoke the key of erna")).click()
    assert service("GET", "/v1/budget", who=key).status_code == 200  # it asks first
    page.get_by_role("button", name="Yes, revoke it").click()
    page.get_by_text("The key is revoked.").wait_for(timeout=PATIENCE)
    assert service("GET", "/v1/budget", who=key).status_code == 401
    page.get_by_label("A draft to check; the policy in force is not changed").fill("[budget]\n")
    page.get_by_role("button", name="Check").click()
    page.get_by_role("alert").wait_for(timeout=PATIENCE)
    if shots := os.environ.get("DISCREET_SCREENSHOTS"):
        page.screenshot(path=f"{shots}/owner.png", full_page=True)
        page.goto(f"{service.url}/public")
        page.screenshot(path=f"{shots}/public.png", full_page=True)
    context.close()
    assert not complaints


def test_a_wizard_starts_from_a_schema_and_takes_nothing_else(browser, service):
    context, page, complaints = story(browser)
    sign_in(page, service, "owner")
    upload = page.get_by_label("From a file")
    # as long as no random name in a page: fewer digits occur in some key now and then
    data = b"person,age,region\n17,9876543210123456,north\n"
    upload.set_input_files({"name": "wards.txt", "mimeType": "text/plain", "buffer": data})
    page.locator("#schema:invalid").wait_for(state="attached")
    assert page.get_by_label("Columns, one on a line").input_value() == ""
    schema = b"CREATE TABLE wards (\n  person_id BIGINT,\n  age INTEGER,\n  region VARCHAR\n);\n"
    upload.set_input_files({"name": "wards.sql", "mimeType": "text/plain", "buffer": schema})
    page.locator("#schema:valid").wait_for(state="attached")
    with page.expect_navigation(wait_until="load", timeout=PATIENCE):
        page.get_by_role("button", name="Draft a policy").click()
    draft = page.get_by_label("A draft to check").input_value()
    assert "[tables.wards" in draft
    assert "person_id" in draft
    assert "9876543210123456" not in page.content()
    context.close()
    assert not complaints


def test_the_keyboard_alone_is_enough(browser, service):
    context, page, _ = story(browser)
    page.goto(f"{service.url}/login")
    page.get_by_label("Your key").focus()
    page.keyboard.type(service.keys["ana"])
    page.keyboard.press("Enter")
    page.get_by_label("One question").focus()
    page.keyboard.type(BY_REGION)
    page.keyboard.press("Tab")
    page.get_by_label("ε", exact=True).focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("0.0123")
    page.keyboard.press("Control+Enter")
    page.wait_for_url(re.compile("/answers/"), timeout=PATIENCE)
    context.close()


@contextmanager
def _signed_in(service, who="ana"):
    with httpx.Client(base_url=service.url, timeout=600) as client:
        client.post("/login", data={"key": service.keys[who]})
        yield client


def test_a_form_of_another_site_is_refused(service):
    with _signed_in(service) as client:
        form = {"sql": BY_REGION, "epsilon": "0.1", "action": "ask"}
        assert client.post("/ask", data=form).status_code == 403
        token = re.search(r'name="token" value="([^"]+)"', client.get("/ask").text)[1]
        elsewhere = {"Sec-Fetch-Site": "cross-site"}
        forged = client.post("/ask", data={**form, "token": token}, headers=elsewhere)
        assert forged.status_code == 403
        other = client.post("/ask", data={**form, "token": token[:-1] + "x"})
        assert other.status_code == 403
        priced = client.post("/ask", data={**form, "token": token, "action": "price"})
        assert priced.status_code == 200


def test_a_cookie_does_not_spend_over_the_interface(service):
    """A browser's session reads; asking and deciding over /v1 need a key in the header."""
    with _signed_in(service, "owner") as client:
        assert client.get("/v1/budget").status_code == 200
        asked = client.post("/v1/answers", json={"sql": BY_REGION, "epsilon": "0.1"})
        assert asked.status_code == 401
        made = client.post("/v1/keys", json={"name": "eve", "role": "owner"})
        assert made.status_code == 401


def test_sessions_are_new_at_sign_in_and_end_with_their_key(service):
    made = service("POST", "/v1/keys", {"name": "fritz", "role": "analyst"}, who="owner").json()
    key = made["result"]["key"]
    with httpx.Client(base_url=service.url, cookies={"discreet_session": "chosen"}) as client:
        said = client.post("/login", data={"key": key})
        cookie = said.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        name = cookie.split("discreet_session=")[1].split(";")[0]
    with httpx.Client(base_url=service.url, cookies={"discreet_session": name}) as client:
        assert client.get("/ask").status_code == 200
        service("DELETE", f"/v1/keys/{key.split('_')[1]}", who="owner")
        assert client.get("/ask").headers["location"] == "/login"


def test_owners_pages_are_for_owners(service):
    with _signed_in(service) as client:
        assert client.get("/owner").status_code == 403
        token = re.search(r'name="token" value="([^"]+)"', client.get("/ask").text)[1]
        for path in ("/owner/keys", "/owner/budget", "/owner/closure", "/owner/requests/0"):
            assert client.post(path, data={"token": token}).status_code == 403
    with httpx.Client(base_url=service.url) as stranger:
        for path in ("/ask", "/budget", "/owner", "/answers/0"):
            assert stranger.get(path).headers["location"] == "/login"
        assert stranger.get("/public").status_code == 200


def test_an_address_with_nothing_is_a_page_for_browsers_and_json_for_programs(service):
    shown = service("GET", "/nothing", who=None, Accept="text/html,*/*;q=0.8")
    assert shown.status_code == 404
    assert "<h1>Not found</h1>" in shown.text
    assert service("GET", "/nothing", who=None).json()["error"] == "not-found"
    assert service("GET", "/v1/nothing", Accept="text/html").json()["error"] == "not-found"


def test_texts_of_questions_are_never_markup(service):
    hostile = 'SELECT COUNT(*) AS "<img src=x onerror=alert(1)>" FROM visits -- </textarea><script>'
    with _signed_in(service) as client:
        token = re.search(r'name="token" value="([^"]+)"', client.get("/ask").text)[1]
        for action in ("price", "ask"):
            form = {"sql": hostile, "epsilon": "0.0124", "action": action, "token": token}
            page = client.post("/ask", data=form, follow_redirects=True)
            assert "<img src=x" not in page.text
            assert "<script>" not in page.text


def test_pictures_escape_their_labels():
    bars = _pictures._bars("<b>", "<i>", "95 %", ['"><script>'], [(1, 0, 2)])
    assert "<b>" not in bars
    assert "<i>" not in bars
    assert "<script>" not in bars


def test_spending_over_time_has_titles_and_round_numbers():
    spent = [_pictures.Debit(f"2026-01-0{d}T00:00:00", who, Fraction(price))
             for d, who, price in ((1, "ana", "0.31"), (3, "<b>", "0.05"))]  # fmt: skip
    svg = _pictures.timeline(spent)
    assert "<b>" not in svg
    assert re.findall(r'class="title"[^>]*>([^<]*)<', svg) == ["ε spent so far", "time (UTC)"]
    for said in ("0.2", "0.4", "ana: ε = 0.31", "2026-01-01", "2026-01-03"):
        assert f">{said}<" in svg
    assert "<text" not in _pictures.timeline([])


def test_a_chart_that_shows_a_part_says_so():
    class Wide(list):
        columns = ("k", "n")

        def to_dicts(self):
            return list(self)

        def interval(self, _):
            return [{"k": r["k"], "n": (r["n"] - 5, r["n"] + 5)} for r in self]

    rows = [{"k": i, "n": i - 40} for i in range(444)]
    ((name, svg),) = _pictures.error_bars(Wide(rows), "0.95")
    assert name == "n: the first 30 of 444 rows"
    assert svg.count("<circle") == 30
    assert ">−40<" in svg
    assert [n for n, _ in _pictures.error_bars(Wide(rows[:30]), "0.95")] == ["n"]


def test_a_forecast_needs_days_and_debits():
    now = dt.datetime.now(dt.UTC)

    def said(count, days):
        when = [(now - dt.timedelta(days=days * (1 - i / count))).isoformat() for i in range(count)]
        lines = [SimpleNamespace(kind="debit", when=w) for w in when]
        balance = Balance("pure", {"epsilon": (Fraction(1, 2), Fraction(1))})
        return _pictures.forecast(lines, balance, balance.remaining)

    assert said(0, 9) == "Nothing has been spent."
    assert said(1, 9) == said(9, 0.5) == ""
    assert said(3, 9).endswith(f"{(now + dt.timedelta(days=9)).date().isoformat()}.")


def test_a_question_is_edited_with_all_that_was_offered():
    for offer in ({"within": {"n": "50"}}, {"within": {"n": "50", "m": "0.5"}}, {"epsilon": "0.3"},
                  {"epsilon": "0.3", "delta": "1e-8"}):  # fmt: skip
        order = SimpleNamespace(body={"sql": "q", **offer})
        assert _pages.offered({"sql": "q", **_pages._offer(order)}) == {"sql": "q", **offer}
    for form in ({"column": "n"}, {"margin": "5"}, {"column": " ", "margin": "5"}):
        with pytest.raises(ParameterError, match="say which column"):
            _pages.offered({"sql": "q", "pay": "within", **form})


def test_the_last_owners_key_is_not_revoked_on_the_page(service):
    """And a key is revoked only by a second step; the page of sign-in says what has happened."""
    with _signed_in(service, "owner") as client:
        page = client.get("/owner").text
        token = re.search(r'name="token" value="([^"]+)"', page)[1]
        own = service.keys["owner"].split("_")[1]
        for sure in ("", "yes"):
            form = {"token": token, "sure": sure}
            refused = client.post(f"/owner/keys/{own}", data=form)
            assert refused.status_code == 409
            assert f"discreet key revoke {own}" in refused.text
        refused = service("DELETE", f"/v1/keys/{own}", who="owner")  # nor over the interface
        assert (refused.status_code, refused.json()["error"]) == (409, "state")
        assert f"discreet key revoke {own}" in refused.json()["hint"]
        key = client.post("/owner/keys", data={"token": token, "name": "gus", "role": "analyst"})
        gus = re.search(r"dk_([0-9a-f]{12})_[\w-]{43}", key.text)
        with httpx.Client(base_url=service.url, timeout=600) as other:
            other.post("/login", data={"key": gus[0]})
            assert "None yet." in other.get("/ask").text
            asked = client.post(f"/owner/keys/{gus[1]}", data={"token": token})
            assert "Yes, revoke it" in asked.text
            assert other.get("/ask").status_code == 200
            done = client.post(f"/owner/keys/{gus[1]}", data={"token": token, "sure": "yes"})
            assert done.headers["location"] == "/owner"
            assert "The key is revoked." in client.get("/owner").text
            assert "The key is revoked." not in client.get("/owner").text  # said once
            assert other.get("/ask").headers["location"] == "/login"
            assert "your key was revoked" in other.get("/login").text


def test_a_stranger_is_offered_to_sign_in(service):
    assert '<a href="/login">Sign in</a>' in service("GET", "/public", who=None).text
    with _signed_in(service) as client:
        assert '<a href="/login">' not in client.get("/public").text
