"""Every page for keyboards and screen readers, in light and dark: rules checked in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.test_service_pages import BY_REGION, PATIENCE, browser, sign_in, story

pytestmark = pytest.mark.races

RULES = (Path(__file__).parent / "accessible.js").read_text("utf-8")
__all__ = ["browser"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_keep_the_rules(browser, service, scheme):
    answer = service.ask(BY_REGION, "0.0151")["id"]
    context, page, _ = story(browser, color_scheme=scheme)
    page.goto(f"{service.url}/login")
    assert page.evaluate(RULES) == []
    for who, paths in (
        ("ana", ("/ask", f"/answers/{answer}", "/budget", "/public", "/owner")),
        ("owner", ("/owner", "/budget", "/ask")),
    ):
        sign_in(page, service, who)
        for path in paths:
            page.goto(service.url + path)
            assert page.evaluate(RULES) == [], path
    page.goto(f"{service.url}/ask")
    page.get_by_label("One question").fill(BY_REGION)
    with page.expect_navigation(wait_until="load", timeout=PATIENCE):
        page.get_by_role("button", name="Price", exact=True).click()
    assert page.evaluate(RULES) == []
    context.close()


def test_what_has_the_focus_can_be_seen(browser, service):
    context, page, _ = story(browser)
    sign_in(page, service, "ana")
    outlines = set()
    for _ in range(12):
        page.keyboard.press("Tab")
        outlines.add(
            page.evaluate(
                "(() => { const s = getComputedStyle(document.activeElement);"
                " return `${s.outlineStyle} ${s.outlineWidth}` })()"
            )
        )
    assert outlines == {"solid 3px"}
    context.close()


@pytest.mark.parametrize(
    ("fault", "rule"),
    [
        ("document.documentElement.removeAttribute('lang')", "no language"),
        ("document.querySelector('label[for=sql]').remove()", "no name"),
        ("document.querySelector('h1').outerHTML = '<h3>x</h3>'", "not one h1"),
        ("document.querySelector('main').insertAdjacentHTML('beforeend', '<h4>x</h4>')", "skips"),
        ("document.querySelector('#price p').style.color = '#999'", "contrast"),
        ("document.querySelector('th').removeAttribute('scope')", "header of nothing"),
        ("document.querySelector('#of').id = 'by'", "id twice"),
        ("document.querySelector('button.main').textContent = ''", "no name"),
        ("document.querySelector('button').tabIndex = 3", "order of its own"),
        ("document.querySelector('meta[name=viewport]').httpEquiv = 'refresh'", "itself anew"),
    ],
)
def test_the_rules_find_faults(browser, service, fault, rule):
    service.ask(BY_REGION, "0.0151")  # whoever has asked sees a table of questions
    context, page, _ = story(browser)
    sign_in(page, service, "ana")
    page.evaluate(fault)
    assert any(rule in found for found in page.evaluate(RULES))
    context.close()


def test_an_owner_drafts_a_policy_and_sees_it_checked_while_typing(browser, service):
    context, page, complaints = story(browser)
    sign_in(page, service, "owner")
    page.get_by_label("Table", exact=True).fill("stays")
    page.get_by_label("Columns, one on a line").fill("person_id BIGINT\nsmoker BOOLEAN\nage INT")
    with page.expect_navigation(wait_until="load", timeout=PATIENCE):
        page.get_by_role("button", name="Draft a policy").click()
    draft = page.get_by_label("A draft to check")
    assert "[tables.stays]" in draft.input_value()
    assert "Perhaps 'person_id'" in draft.input_value()
    assert "min = …" in draft.input_value()
    whole = "[budget]\nepsilon = 1\n[tables.t]\n[tables.t.columns]\nb = { type = 'boolean' }\n"
    draft.fill(whole)
    page.get_by_text("This draft is a policy that can be used.").wait_for(timeout=PATIENCE)
    draft.fill(whole.replace("boolean", "bolean"))
    page.locator("#checked .refusal").wait_for(timeout=PATIENCE)
    context.close()
    assert not complaints
