"""Assistants over HTTP: which policy, whose session, how many, and what refusals say."""

from __future__ import annotations

import json

import pytest

from discreet.service._home import Home
from discreet.service._keys import Keys, Role

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
    served = start_service("talk-clinic.toml", "talk-shop.toml", "--port", "0", "--workers", "1", cwd=place,
                           DISCREET_HOME=str(place / "home"))  # fmt: skip
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
