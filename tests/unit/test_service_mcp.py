"""Tools for assistants: caps, free repetition, refusals; and the protocol's own client."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from fractions import Fraction

import pytest

import discreet as dc
from discreet import errors
from discreet.service import Tools, _mcp
from discreet.service._mcp import server

COUNT = "SELECT COUNT(*) AS n FROM people"


@pytest.fixture
def tools():
    table = dc.policy.Table("people", [dc.policy.Integer("age", 0, 115)], source="secret.parquet")
    policy = dc.policy.Policy([table], dc.policy.Budget("1"), name="talk")
    with dc.open(policy=policy, dummy=True) as curator:
        yield Tools(curator, "0.2")


def test_a_loop_spends_no_more_than_the_cap(tools):
    asked = 0
    for i in range(100):
        try:
            tools.ask(f"SELECT COUNT(*) AS n FROM people WHERE age > {i}", "0.03", None)
            asked += 1
        except errors.BudgetExceededError as refusal:
            assert dict(refusal.hint.parameters) == {"epsilon": "0.02"}  # noqa: PT017 - what fits
    assert asked == 6
    assert tools.budget()["left"]["epsilon"] == "41/50"


def test_equal_questions_are_free_and_prices_must_be_stated(tools):
    first = tools.ask(COUNT, "0.1", None)
    assert tools.ask(COUNT, "0.1", None) == first
    assert tools.budget()["conversation_left"] == "0.1"
    with pytest.raises(errors.ParameterError, match="one of epsilon and within"):
        tools.ask(COUNT, None, None)
    with pytest.raises(errors.ParameterError, match="one of epsilon and within"):
        tools.preview(COUNT, "1", {"n": 5})
    assert tools.preview(COUNT, None, {"n": 50})["error"]


def test_a_conversation_knows_so_many_letters_and_forgets_the_oldest(tools, monkeypatch):
    """What it has forgotten is asked again, and stays free even where the cap is used up."""
    monkeypatch.setattr(_mcp, "_LETTERS", 2_000, raising=False)
    first = tools.ask(COUNT, "0.15", None)
    for i in range(100):
        again = tools.ask(COUNT + " " * (i + 1), "0.15", None)
        assert again["conversation_left"] == first["conversation_left"] == "0.05"
    known = [x if isinstance(x, str) else json.dumps(x) for x in tools._answers.values()]
    assert 0 < sum(map(len, known)) <= 2_000
    assert tools.ask(COUNT, "0.15", None)["rows"] == first["rows"]
    assert tools.budget()["left"]["epsilon"] == "17/20"


def test_a_question_that_needs_a_delta_is_given_one_within_the_cap():
    table = dc.policy.Table("people", [dc.policy.Text("town")])
    policy = dc.policy.Policy([table], dc.policy.Budget("1", delta="1e-5"), name="towns")
    sql = "SELECT town, COUNT(*) AS n FROM people GROUP BY town"
    with dc.open(policy=policy, dummy=True) as curator:
        tools = Tools(curator, "0.2")
        with pytest.raises(errors.DiscreetError, match="delta") as refusal:
            tools.preview(sql, "0.1", None)
        (hinted,) = dict(refusal.value.hint.parameters).items()
        assert hinted[0] == "delta"
        priced = tools.preview(sql, "0.1", None, hinted[1])
        assert Fraction(priced["cost"]["delta"]) > 0
        assert (priced["refused"], priced["needs_approval"]) == (None, False)
        assert tools.ask(sql, "0.1", None, hinted[1])["conversation_left"] == "0.1"
        with pytest.raises(errors.BudgetExceededError, match="this conversation"):
            tools.ask(sql, "0.15", None, hinted[1])


def test_tables_show_domains_and_no_places(tools):
    told = tools.tables()
    assert told["tables"]["people"]["columns"]["age"] == {"type": "integer", "min": 0, "max": 115}
    assert "secret" not in json.dumps(told)
    assert "odds" in tools.explain("0.1")["meaning"].lower()


@pytest.mark.races
def test_the_official_client_speaks_with_the_service_through_it(service):
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    env = {**os.environ, "DISCREET_URL": service.url, "DISCREET_KEY": service.keys["ana"]}
    started = StdioServerParameters(
        command=sys.executable, args=["-m", "discreet", "mcp", "--cap", "0.02"], env=env
    )

    async def talk():
        async with (
            stdio_client(started) as (reading, writing),
            ClientSession(reading, writing) as session,
        ):
            await session.initialize()
            listed = {tool.name for tool in (await session.list_tools()).tools}
            sql = "SELECT COUNT(*) AS n FROM visits"
            asked = await session.call_tool("ask", {"sql": sql, "epsilon": "0.0131"})
            refused = await session.call_tool("ask", {"sql": sql, "epsilon": "0.0132"})
            return listed, asked, refused

    listed, asked, refused = asyncio.run(talk())
    assert listed == {"tables", "preview", "ask", "budget", "explain"}
    assert not asked.is_error
    assert len(json.loads(asked.content[0].text)["rows"]) == 1
    assert refused.is_error
    assert "0.0069" in refused.content[0].text


def _over_http(service, who, talk):
    """Hold one conversation with the service's own route, by the official client."""
    import httpx
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async def main():
        headers = {"Authorization": f"Bearer {service.keys.get(who, who)}"}
        async with (
            httpx.AsyncClient(headers=headers, timeout=600) as line,
            Client(streamable_http_client(f"{service.url}/mcp", http_client=line)) as client,
        ):
            return await talk(client)

    return asyncio.run(main())


@pytest.mark.races
def test_the_official_client_speaks_with_the_service_over_http(service):
    async def talk(client):
        listed = {tool.name for tool in (await client.list_tools()).tools}
        sql = "SELECT COUNT(*) AS n FROM visits"
        asked = await client.call_tool("ask", {"sql": sql, "epsilon": "0.0141"})
        again = await client.call_tool("ask", {"sql": sql, "epsilon": "0.0141"})
        refused = await client.call_tool("ask", {"sql": sql, "epsilon": "0.19"})
        free = await client.call_tool("ask", {"sql": sql})
        budget = await client.call_tool("budget", {})
        return listed, asked, again, refused, free, budget

    listed, asked, again, refused, free, budget = _over_http(service, "ana", talk)
    assert listed == {"tables", "preview", "ask", "budget", "explain"}
    assert not asked.is_error, asked
    assert len(json.loads(asked.content[0].text)["rows"]) == 1
    assert again.content[0].text == asked.content[0].text
    assert refused.is_error
    assert "0.1859" in refused.content[0].text  # what is left of this conversation's 0.2
    assert free.is_error
    assert "one of epsilon and within" in free.content[0].text
    assert "budget of ana" in json.loads(budget.content[0].text)["says"]
    lines = service("GET", "/v1/ledger", who="auditor").json()["result"]["lines"]
    assert lines[-2]["analyst"] == "ana"
    assert "INFO" not in service.log.read_text()  # the library prints nothing of it


@pytest.mark.races
def test_assistants_need_a_key_and_a_role(service):
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    for who in (None, "dk_000000000000_" + "A" * 43):
        for path in ("/mcp", "/mcp/"):
            said = service.client.post(
                path, json=body, follow_redirects=True,
                headers={} if who is None else {"Authorization": f"Bearer {who}"},
            )  # fmt: skip
            assert (said.status_code, said.json()["error"]) == (401, "unauthenticated")

    async def talk(client):
        return await client.call_tool(
            "ask", {"sql": "SELECT COUNT(*) AS n FROM visits", "epsilon": "0.0142"}
        )

    refused = _over_http(service, "auditor", talk)
    assert refused.is_error
    assert "auditor" in refused.content[0].text


@pytest.mark.parametrize(
    "failure",
    [
        errors.LedgerIntegrityError("the ledger '/srv/a.ledger' was there and is gone"),
        OSError("/srv/a.ledger"),
    ],
)
def test_assistants_hear_of_no_file_of_the_owner(failure, tmp_path, monkeypatch):
    """A refusal says what it says on every other route; its own words are in the owner's log."""
    from mcp import Client

    monkeypatch.setenv("DISCREET_LOG", str(tmp_path / "log.jsonl"))

    class Broken:
        @property
        def budget(self):
            raise failure

    async def talk():
        async with Client(server(lambda _: Tools(Broken(), "0.2"))) as client:
            return await client.call_tool("budget", {})

    said = asyncio.run(talk())
    assert said.is_error
    assert "srv" not in said.content[0].text
    assert ("nothing was released" if isinstance(failure, errors.LedgerError) else "not shown") in (
        said.content[0].text
    )
    assert (tmp_path / "log.jsonl").read_text()
