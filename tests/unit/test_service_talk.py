"""Assistants over HTTP: which policy, whose session, how many, and what refusals say."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import httpx
import pytest

from discreet.service import _talk
from discreet.service._errors import GoneError
from discreet.service._home import Home
from discreet.service._keys import Actor, Keys, Role
from discreet.service._talk import Talk

pytestmark = pytest.mark.races

POLICY = """
[policy]
name = "{name}"
[budget]
epsilon = "{epsilon}"
[tables.people]
source = "{name}.csv"
[tables.people.columns]
age = {{ type = "integer", min = 0, max = 110 }}
"""
COUNT = "SELECT COUNT(*) AS n FROM people"
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {},
         "clientInfo": {"name": "test", "version": "1"}}  # fmt: skip


@pytest.fixture(scope="module")
def two(start_service, tmp_path_factory):
    place = tmp_path_factory.mktemp("talk")
    for name, epsilon in (("talk-clinic", "7"), ("talk-shop", "5")):
        (place / f"{name}.csv").write_text("age\n" + "40\n" * 50)
        (place / f"{name}.toml").write_text(POLICY.format(name=name, epsilon=epsilon))
    keys = Keys(Home(place / "home"))
    made = {who: keys.add(who, Role.ANALYST) for who in ("ana", "ben")}
    made["cleo"] = keys.add("cleo", Role.ANALYST, ("talk-shop",))
    served = start_service(
        "talk-clinic.toml", "talk-shop.toml", "--port", "0", "--workers", "1", cwd=place,
        DISCREET_HOME=str(place / "home"),
    )  # fmt: skip
    served.keys.update(made)
    return served


class Session:
    """One conversation by plain messages."""

    def __init__(self, service, who="ana", where="/mcp?policy=talk-shop"):
        self.service, self.who, self.where, self.headers = service, who, where, {}
        self.opened = self.post("initialize", HELLO)
        self.id = self.opened.headers.get("mcp-session-id")
        if self.id is not None:
            self.headers = {"Mcp-Session-Id": self.id, "Mcp-Protocol-Version": "2025-06-18"}

    def post(self, method, given, who=None):
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": given}
        return self.service("POST", self.where, body, who=who or self.who, **self.headers,
                            Accept="application/json, text/event-stream")  # fmt: skip

    def call(self, tool, **given):
        """The text that a tool gives, and whether it is a refusal."""
        said = self.post("tools/call", {"name": tool, "arguments": given})
        assert said.status_code == 200, said.text
        result = said.json()["result"]
        return result["content"][0]["text"], result["isError"]

    def end(self, who=None):
        return self.service("DELETE", self.where, who=who or self.who, **self.headers)


def spent(service, policy, who="ana"):
    found = service("GET", f"/v1/budget?policy={policy}", who=who).json()["result"]
    return found["mine"]["epsilon"]


def test_an_assistant_asks_the_policy_that_its_address_names(two):
    before = spent(two, "talk-clinic"), spent(two, "talk-shop")
    said, refused = Session(two).call("ask", sql=COUNT, epsilon="0.1")
    assert not refused, said
    assert (spent(two, "talk-clinic"), spent(two, "talk-shop")) == (before[0], "1/10")
    assert before == ("0", "0")
    for name, left in (("talk-shop", "49/10"), ("talk-clinic", "7")):
        said, _ = Session(two, who="ben", where=f"/mcp?policy={name}").call("budget")
        assert json.loads(said)["left"]["epsilon"] == left


def test_an_address_without_a_policy_is_refused_where_there_are_several(two):
    """By the words of every other route."""
    plain = two("GET", "/v1/budget")
    for where, words in (
        ("/mcp", plain.json()),
        ("/mcp?policy=nobodys", two("GET", "/v1/budget?policy=nobodys").json()),
    ):
        opened = Session(two, where=where).opened
        assert (opened.status_code >= 400, opened.json()) == (True, words)
    assert plain.json()["error"] == "which-policy"
    # who has one policy need not name it, and no other is theirs
    said, refused = Session(two, who="cleo", where="/mcp").call("budget")
    assert not refused, said
    elsewhere = Session(two, who="cleo", where="/mcp?policy=talk-clinic").opened
    assert (elsewhere.status_code, elsewhere.json()["error"]) == (404, "not-found")


def test_a_session_speaks_of_each_policy_by_itself(two):
    """What one policy's people paid for is no answer about another's."""
    session = Session(two, who="ben")
    session.call("ask", sql=COUNT, epsilon="0.11")
    before = spent(two, "talk-clinic", "ben")
    session.where = "/mcp?policy=talk-clinic"
    other, refused = session.call("ask", sql=COUNT, epsilon="0.11")
    assert not refused, other
    assert spent(two, "talk-clinic", "ben") != before


def test_a_session_is_its_keys_alone(two):
    """Whoever knows its id can neither speak in it nor end it."""
    session = Session(two)
    assert session.opened.status_code == 200
    for said in (session.end(who="ben"), session.post("ping", {}, who="ben")):
        assert (said.status_code, said.json()["error"]) == (404, "not-found")
    assert session.post("ping", {}).status_code == 200
    assert session.end().status_code == 200
    assert session.post("ping", {}).status_code == 404


def test_nobody_makes_a_conversation_up(two):
    """By an id of one's own, which the protocol's version without sessions would not look at."""
    session = Session(two)
    session.headers = {"Mcp-Session-Id": "f" * 32, "Mcp-Protocol-Version": "2026-07-28"}
    said = session.post("tools/call", {"name": "budget", "arguments": {}})
    assert (said.status_code, said.json()["error"]) == (404, "not-found")


class _House:
    """Knows everybody by the name in the header, and has one policy."""

    def caller(self, given):
        return Actor(given, Role.ANALYST, given)

    def desk(self, actor, request):
        return SimpleNamespace(name="one")


HEADERS = {"Accept": "application/json, text/event-stream"}


def _talked(script):
    """Run a script with callers of a route in this process: ``post(who, session id)``."""

    async def main():
        talk = Talk(_House(), "0.2")
        line = httpx.ASGITransport(talk)
        async with talk.running(), httpx.AsyncClient(transport=line, base_url="http://x") as client:

            async def post(who, id_=None):
                body = {"jsonrpc": "2.0", "id": 1, "method": "ping" if id_ else "initialize",
                        "params": {} if id_ else HELLO}  # fmt: skip
                named = {"Mcp-Session-Id": id_} if id_ else {}
                headers = {**HEADERS, **named, "Authorization": who}
                try:
                    return await client.post("/mcp", json=body, headers=headers)
                except GoneError:  # the door would write it
                    return None

            return await script(post)

    return asyncio.run(main())


def test_a_key_has_a_few_sessions_and_the_longest_idle_ends():
    async def script(post):
        bens = (await post("ben")).headers["mcp-session-id"]
        first = (await post("ana")).headers["mcp-session-id"]
        second = (await post("ana")).headers["mcp-session-id"]
        for _ in range(_talk._SESSIONS - 2):
            await post("ana")
        assert (await post("ana", first)).status_code == 200  # now the second is idle longest
        before = len(asyncio.all_tasks())
        for _ in range(3):
            assert (await post("ana")).status_code == 200
        kept = await post("ana", first)
        assert await post("ana", second) is None
        assert (await post("ben", bens)).status_code == 200
        for _ in range(3 * _talk._SESSIONS):
            await post("ana")
        assert await post("ana", first) is None
        return kept.status_code, before, len(asyncio.all_tasks())

    kept, before, after = _talked(script)
    assert kept == 200
    assert after < before + _talk._SESSIONS  # tasks of those that ended, each had two, have too


def test_an_idle_session_ends(monkeypatch):
    monkeypatch.setattr(_talk, "_IDLE", 0.2)

    async def script(post):
        none = len(asyncio.all_tasks())
        bens = (await post("ben")).headers["mcp-session-id"]
        held = len(asyncio.all_tasks())
        for _ in range(600):
            await asyncio.sleep(0.05)
            if len(asyncio.all_tasks()) <= none:
                break
        ended = len(asyncio.all_tasks())
        await post("ana")  # another's opening forgets what ben's conversation knew
        return none, held, ended, await post("ben", bens)

    none, held, ended, found = _talked(script)
    assert (held > none, ended, found) == (True, none, None)
