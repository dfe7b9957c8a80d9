"""A question that waits for an owner, by every door: the command line, Python, tools, pages."""

from __future__ import annotations

import asyncio
import json
import re

import httpx
import pytest
from typer.testing import CliRunner

import discreet as dc
from discreet import errors
from discreet.cli import app
from discreet.service import Home, Keys, Tools

pytestmark = pytest.mark.races

POLICY = """
[policy]
name = "waits"
[budget]
epsilon = "1"
[service]
rows = 1000
approval = "0.2"
owners = 2
[tables.t]
source = "waits.csv"
[tables.t.columns]
kind = { type = "category", values = ["A", "B"] }
"""
COUNT = "SELECT COUNT(*) AS n FROM t"


@pytest.fixture(scope="module")
def waits(tmp_path_factory, start_service):
    folder = tmp_path_factory.mktemp("waits")
    (folder / "waits.csv").write_text("kind\n" + "A\nB\n" * 300)
    (folder / "waits.toml").write_text(POLICY)
    keys = Keys(Home(folder / "home"))
    roles = {"owner": "owner", "otto": "owner", "ana": "analyst", "ben": "analyst"}
    made = {who: keys.add(who, role) for who, role in roles.items()}
    served = start_service("waits.toml", "--port", "0", "--workers", "1", "--home", "home",
                           "--cap", "0.5", cwd=folder)  # fmt: skip
    served.keys = made
    return served


def run(waits, *words, who="ana"):
    env = {"DISCREET_URL": waits.url, "DISCREET_KEY": waits.keys[who], "COLUMNS": "300"}
    return CliRunner().invoke(app, words, env=env)


def decide(waits, approve):
    for asked in waits("GET", "/v1/requests", who="owner").json()["result"]["requests"]:
        body = {"approve": approve, "reason": "so", "seen": asked["seen"]}
        path = f"/v1/requests/{asked['id']}/decision"
        assert waits("POST", path, body, who="owner").status_code == 200


def test_the_command_line_says_that_a_question_waits(waits):
    done = run(waits, "ask", COUNT, "-e", "0.21")
    assert done.exit_code == 8, done.output
    assert "waits: this question waits for an owner's decision" in done.stderr
    assert "refused" not in done.stderr
    key = re.search(r"try: --key (\w+)", done.stderr)[1]
    told = json.loads(run(waits, "ask", COUNT, "-e", "0.21", "--key", key, "--json").stdout)
    assert (told["error"], told["hint"]) == ("awaits-owner", f"--key {key}")
    decide(waits, True)
    assert run(waits, "ask", COUNT, "-e", "0.21", "--key", key).exit_code == 0


def test_a_price_and_a_budget_say_what_would_wait_and_what_waits(waits):
    wait = "would wait for an owner's decision"
    assert wait in run(waits, "preview", COUNT, "-e", "0.22").stdout
    assert wait not in run(waits, "preview", COUNT, "-e", "0.1").stdout
    assert wait not in run(waits, "preview", COUNT, "-e", "3").stdout  # it would be refused
    assert "set aside" not in run(waits, "budget").stdout
    assert run(waits, "ask", COUNT, "-e", "0.22").exit_code == 8
    said = " ".join(run(waits, "budget").stdout.split())
    assert "ε 0.22 is set aside for questions that wait for an owner" in said
    assert json.loads(run(waits, "budget", "--json").stdout)["result"]["set_aside"] == "0.22"
    told = waits("GET", "/v1/budget", who="ana").json()["result"]
    assert (told["set_aside"], "ε 0.22 is set aside" in told["says"]) == ("11/50", True)
    decide(waits, False)
    assert "set aside" not in run(waits, "budget").stdout


def test_an_assistant_asks_again_what_waited_and_it_counts_once(waits):
    with dc.connect(waits.url, waits.keys["ben"]) as remote:
        tools = Tools(remote, "0.5")
        assert tools.preview(COUNT, "0.23", None)["needs_approval"] is True
        assert tools.preview(COUNT, "0.1", None)["needs_approval"] is False
        assert "left" in tools.preview(COUNT, "3", None)["refused"]
        for _ in range(2):
            with pytest.raises(errors.AwaitsOwnerError, match="once an owner has decided"):
                tools.ask(COUNT, "0.23", None)
        assert len(waits("GET", "/v1/requests", who="owner").json()["result"]["requests"]) == 1
        decide(waits, True)
        told = tools.ask(COUNT, "0.23", None)
        assert (len(told["rows"]), told["conversation_left"]) == (1, "0.27")


def test_an_assistant_over_http_asks_again_what_waited(waits):
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async def main():
        headers = {"Authorization": f"Bearer {waits.keys['ben']}"}
        async with (
            httpx.AsyncClient(headers=headers, timeout=600) as line,
            Client(streamable_http_client(f"{waits.url}/mcp", http_client=line)) as client,
        ):
            given = {"sql": COUNT, "epsilon": "0.2001"}
            priced = await client.call_tool("preview", given)
            asked = [await client.call_tool("ask", given) for _ in range(2)]
            budget = await client.call_tool("budget", {})
            return priced, asked, budget

    priced, asked, budget = asyncio.run(main())
    assert json.loads(priced.content[0].text)["needs_approval"] is True, priced
    assert ["once an owner has decided" in a.content[0].text for a in asked] == [True, True], asked
    assert "ε 0.2001 is set aside" in json.loads(budget.content[0].text)["says"]
    assert len(waits("GET", "/v1/requests", who="owner").json()["result"]["requests"]) == 1
    decide(waits, False)


def test_agreeing_to_a_raise_says_what_happened(waits):
    for decision, said in (
        ("decline", "the total stays"),
        ("approve", "the new total is on record"),
    ):
        asked = waits("POST", "/v1/budget", {"epsilon": "2", "reason": "more"}, who="owner")
        made = asked.json()["result"]
        headers = {"Accept": "text/html"}
        with httpx.Client(base_url=waits.url, timeout=600, headers=headers) as client:
            client.post("/login", data={"key": waits.keys["otto"]})
            token = re.search(r'name="token" value="([^"]+)"', client.get("/owner").text)[1]
            form = {"token": token, "decision": decision, "reason": "so", "seen": made["seen"]}
            done = client.post(f"/owner/requests/{made['id']}", data=form, follow_redirects=True)
        assert said in done.text
        assert "paid for" not in done.text.split("</h1>")[0]
