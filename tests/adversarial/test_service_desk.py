"""What a thief tried at the desk: prices stated small, keys that open too much, decisions twice."""

from __future__ import annotations

import asyncio
import contextlib
import json
import select
import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
import uvicorn
from tests.adversarial.test_service_races import COUNT, keys, write
from uvicorn.server import ServerState

from discreet.service import Home, Keys, _api, _connection, _forms

pytestmark = pytest.mark.races


@pytest.fixture
def served(tmp_path, start_service):
    """Start services with one worker and a folder of this test's own."""

    def start(*policies, made, **env):
        one = start_service(
            *map(str, policies), "--port", "0", "--workers", "1", "--home", str(tmp_path / "home"),
            cwd=tmp_path, XDG_STATE_HOME=str(tmp_path / "state"), **env,
        )  # fmt: skip
        one.keys = made
        return one

    return start


def test_no_delta_makes_a_price_in_rho_small(tmp_path, served):
    """Approval and a day's limit compare ε; ρ is debited. Any ρ has a small ε at a large δ."""
    path = write(tmp_path, "claims", epsilon="4", budget='delta = "1e-5"',
                 service='approval = "0.3"\ndaily = "0.5"')  # fmt: skip
    one = served(path, made=keys(tmp_path / "home", "owner", "ana"))
    body = {"sql": COUNT, "rho": "0.35", "delta": "0.6"}
    refused = one("POST", "/v1/answers", body)
    assert (refused.status_code, refused.json()["fix"]) == (409, {"delta": "1e-05"})
    questions = [{"sql": f"{COUNT} WHERE age > {k}"} for k in range(9)]
    body = {"questions": questions, "epsilon": "0.01", "delta": "0.3"}
    assert one("POST", "/v1/batches", body).status_code == 409
    for delta in ({}, {"delta": "1e-5"}):
        refused = one("POST", "/v1/answers", {"sql": COUNT, "rho": "0.35", **delta})
        assert "today's limit" in refused.json()["message"]
        held = one("POST", "/v1/answers", {"sql": COUNT, "rho": "0.006", **delta})
        assert held.json()["result"]["state"] == "waiting"
    assert one("GET", "/v1/budget").json()["result"]["whole"]["rho"]["spent"] == "0"


def test_a_key_opens_the_policies_it_was_made_for_and_no_others(tmp_path, served):
    """One name is part of the other; owners of one do not see or revoke the other's keys."""
    one = write(tmp_path, "clinic")
    two = write(tmp_path / "b", "clinic research")
    book = Keys(Home(tmp_path / "home"))
    made = {"olga": book.add("olga", "owner", ("clinic",)), "una": book.add("una", "owner"),
            "rosa": book.add("rosa", "owner", ("clinic research",)),
            "rob": book.add("rob", "analyst", ("clinic research",)),
            "both": book.add("both", "analyst", ("clinic", "clinic research"))}  # fmt: skip
    service = served(one, two, made=made)
    opened = {who: [service("GET", f"/v1/budget?policy={p}", who=who).status_code
                    for p in ("clinic", "clinic%20research")] for who in made}  # fmt: skip
    assert opened == {"olga": [200, 404], "rosa": [404, 200], "rob": [404, 200],
                      "both": [200, 200], "una": [200, 200]}  # fmt: skip

    def seen(who, policy):
        found = service("GET", f"/v1/keys?policy={policy}", who=who).json()["result"]["keys"]
        return {k["name"]: k["id"] for k in found}

    assert list(seen("olga", "clinic")) == ["olga"]
    assert list(seen("rosa", "clinic%20research")) == ["rosa", "rob"]
    everybody = seen("una", "clinic")
    assert set(everybody) == set(made)
    for who in ("rob", "both", "una"):
        gone = service("DELETE", f"/v1/keys/{everybody[who]}?policy=clinic", who="olga")
        assert gone.status_code == 404
    assert len([k for k in book.all() if k.revoked]) == 0
    gone = service("DELETE", f"/v1/keys/{everybody['rob']}?policy=clinic", who="una")
    assert gone.status_code == 200
    assert [k.name for k in book.all() if k.revoked] == ["rob"]


def test_a_name_that_is_another_keys_id_is_not_revoked_with_it(tmp_path):
    book = Keys(Home(tmp_path / "home"))
    book.add("ana", "analyst")
    (ana,) = book.all()
    book.add(ana.key, "analyst")
    book.revoke(ana.key, named=False)
    assert [k.name for k in book.all() if k.revoked] == ["ana"]


@pytest.mark.parametrize("names", [("",), (" ",), ("clinic", "")])
def test_a_key_for_a_policy_without_a_name_is_refused(tmp_path, names):
    book = Keys(Home(tmp_path / "home"))
    with pytest.raises(Exception, match="a policy has a name"):
        book.add("ana", "analyst", names)
    assert book.all() == []


@pytest.mark.parametrize(
    ("written", "opens"),
    [("", ["a", "b", "a b"]), ("a", ["a"]), ("a b", []), (" ", []), ("a ", [])],
)
def test_keys_of_older_versions_open_what_is_clear(tmp_path, written, opens):
    """They were written with blanks between names: what may mean two things opens nothing."""
    home = Home(tmp_path / "home")
    key = Keys(home).add("ana", "owner")
    home.write("ALTER TABLE keys DROP COLUMN only")
    home.write("UPDATE keys SET policies = ?", (written,))
    home.close()
    book = Keys(Home(tmp_path / "home"))
    actor = book.find(key)
    assert [p for p in ("a", "b", "a b", "") if actor.may_use(p) and p] == opens
    if not opens:
        with pytest.raises(Exception, match="a policy has a name"):
            book.add("eve", "analyst", actor.policies)  # nothing is passed on, either


@pytest.mark.parametrize("limits", ['daily = "0.2"', 'approval = "0.3"'])
def test_a_paid_question_is_taken_up_after_a_kill_whatever_is_left(tmp_path, served, limits):
    """A day's limit holds its own debit already; what others have set aside is beside it."""
    path = write(tmp_path, "resumed", service=limits)
    one = served(path, made=keys(tmp_path / "home", "owner", "ana", "ben"))
    body = {"sql": COUNT, "epsilon": "0.15"}
    asked = one("POST", "/v1/answers", body, Idempotency_Key="k").json()["result"]
    assert asked["state"] == "running"
    if "approval" in limits:
        held = one("POST", "/v1/answers", {**body, "epsilon": "0.8"}, who="ben").json()
        assert held["result"]["state"] == "waiting"
    made = one.keys
    one.kill()
    one.start()
    one.keys = made
    answer = one("POST", "/v1/answers", body, Idempotency_Key="k", Prefer="wait=300").json()
    assert answer["result"]["state"] == "done"
    assert answer["result"]["id"] == asked["id"]


def test_one_decision_counts_and_everybody_is_told_which(tmp_path, served):
    """Three approvals and a refusal at once; twenty questions at once of which three may wait."""
    path = write(tmp_path, "decisions", service='approval = "0.05"')
    one = served(path, made=keys(tmp_path / "home", "owner", "ana", "ben", "auditor"))

    def ask(k):
        body = {"sql": f"{COUNT} WHERE age > {k}", "epsilon": "0.06"}
        return one("POST", "/v1/answers", body).status_code

    with ThreadPoolExecutor(20) as many:
        assert Counter(many.map(ask, range(20))) == {202: 3, 429: 17}
    shown = one("GET", "/v1/requests", who="owner").json()["result"]["requests"]
    assert len(shown) == 3
    for about in shown:

        def decide(approve, about=about):
            said = {"approve": approve, "reason": str(approve), "seen": about["seen"]}
            path = f"/v1/requests/{about['id']}/decision"
            answer = one("POST", path, said, who="owner")
            return approve, answer.status_code, answer.json()

        with ThreadPoolExecutor(4) as many:
            found = list(many.map(decide, (True, False, True, True)))
        ((counted, _, told),) = [x for x in found if x[1] == 200]
        assert sum(status == 409 for _, status, _ in found) == 3
        listed = one("GET", "/v1/answers").json()["result"]["answers"]
        (state,) = [x for x in listed if x["id"] == about["id"]]
        assert state["decision"] == f"owner: {counted}" == told["result"]["decision"]
        assert (state["state"] == "declined") is not counted
    lines = one("GET", "/v1/ledger", who="auditor").json()["result"]["lines"]
    spent = [x for x in lines if x["kind"] == "debit" and x["analyst"] == "ana"]
    listed = one("GET", "/v1/answers").json()["result"]["answers"]
    assert len(spent) == sum(x["state"] != "declined" for x in listed)


def test_one_question_that_waits_does_not_keep_everything_from_others(tmp_path, served):
    path = write(tmp_path, "aside", service='approval = "0.05"')
    one = served(path, made=keys(tmp_path / "home", "owner", "ana", "ben"))
    held = one("POST", "/v1/answers", {"sql": COUNT, "epsilon": "0.99"}).json()["result"]
    assert held["state"] == "waiting"
    own = one("POST", "/v1/answers", {"sql": f"{COUNT} WHERE age > 1", "epsilon": "0.04"})
    assert "wait for an owner" in own.json()["message"]
    one.ask(f"{COUNT} WHERE age > 2", "0.04", who="ben")
    large = {"sql": f"{COUNT} WHERE age > 3", "epsilon": "0.5"}
    kept = one("POST", "/v1/answers", large, who="ben")  # half of what is left is ana's
    assert "wait for an owner" in kept.json()["message"]


def test_what_waits_and_has_no_price_any_more_can_be_seen_and_declined(tmp_path, served):
    """Its column is gone, or its δ is refused now: other requests are shown all the same."""
    path = write(tmp_path, "stale", service='approval = "0.05"')
    one = served(path, made=keys(tmp_path / "home", "owner", "ana"))
    one("POST", "/v1/answers", {"sql": f"{COUNT} WHERE sex = 'F'", "epsilon": "0.06"})
    one("POST", "/v1/answers", {"sql": COUNT, "epsilon": "0.06"})
    made = one.keys
    one.stop()
    path.write_text("\n".join(x for x in path.read_text().splitlines() if x[:4] != "sex "))
    one.start()
    one.keys = made
    gone, fine = one("GET", "/v1/requests", who="owner").json()["result"]["requests"]
    assert gone["refused"]
    assert fine["refused"] is None
    said = {"approve": True, "reason": "no", "seen": gone["seen"]}
    place = f"/v1/requests/{gone['id']}/decision"
    assert one("POST", place, said, who="owner").status_code == 422
    declined = one("POST", place, {**said, "approve": False}, who="owner").json()["result"]
    assert declined["state"] == "declined"


def test_an_answer_is_signed_with_the_policy_it_was_answered_under(tmp_path, served):
    path = write(tmp_path, "older")
    one = served(path, made=keys(tmp_path / "home", "ana"))
    before = one.ask(COUNT, "0.1")
    made = one.keys
    one.stop()
    path.write_text(path.read_text().replace("max = 115", "max = 100"))
    one.start()
    one.keys = made
    after = one("GET", f"/v1/answers/{before['id']}").json()["result"]
    assert (after["policy"], after["line"]) == (before["policy"], before["line"])
    now = one("GET", "/v1/policy").json()["result"]["fingerprint"]
    assert now != before["policy"]
    record = one("GET", f"/v1/answers/{before['id']}/record").json()["result"]
    assert record["policy"] == before["policy"]


@pytest.mark.parametrize(
    "text", ["=1+1", " =1+1", "\u200b=1+1", "x;=1+1", "x, =1", "a\t@b", "a|-b"]
)
def test_no_part_of_a_text_is_a_formula_in_csv(text):
    """Neither where ; or a tab separates cells, nor behind blanks that a program drops."""
    shown = _forms.safe(text)
    for sign in ";,|\t":
        assert all(cell.strip(" \u200b")[0] not in "=+-@" for cell in shown.split(sign))
    assert _forms.safe("10,-20 (a-b)") == "10,-20 (a-b)"


def _line(service):
    host, port = service.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=300)


def _closed(line):
    """What the service says before it lets go; None: it holds on."""
    line.settimeout(3)
    try:
        said = b""
        while part := line.recv(4096):
            said += part
    except TimeoutError:
        return None
    except OSError:
        return b""
    return said


CHUNKED = b"POST /v1/preview HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: "


@pytest.mark.parametrize("head", [b"GET / HTTP/1.1\r\nHost: x\r\nX: ", b"GET /", CHUNKED])
def test_nobody_sends_headers_without_end(service, head):
    """Neither one long header nor many, nor a long address, nor what follows a body."""
    with _line(service) as line:
        line.sendall(head)
        try:
            for n in range(64):  # 4 MiB
                line.sendall(b"a" * (1 << 16) + (b"\r\nX-%d: " % n if b"\r\n" in head else b""))
        except OSError:
            return  # it has let go
        assert _closed(line) is not None


def test_who_says_nothing_keeps_nobody_else_out(service):
    """600 connections with half a head: the oldest go, and others are served."""
    lines = [_line(service) for _ in range(600)]
    try:
        for line in lines:
            with contextlib.suppress(OSError):
                line.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
        assert service("GET", "/v1/budget").status_code == 200
        with httpx.Client(base_url=service.url) as another:
            assert another.get("/healthz").status_code == 200
        assert _closed(lines[0]) == b""
        assert _closed(lines[-1]) is None
    finally:
        for line in lines:
            line.close()


async def _heard(reader):
    """All that is said until the line is closed, or reset because a letter came after that."""
    said = b""
    with contextlib.suppress(ConnectionResetError):
        while part := await reader.read(65536):
            said += part
    return said


async def _listening(app):
    """Serve connections as the service does, on a free port."""
    config = uvicorn.Config(app, http=_connection.Connection, log_config=None, lifespan="off")
    config.load()
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(
        lambda: _connection.Connection(config=config, server_state=state, app_state={}),
        "127.0.0.1", 0,
    )  # fmt: skip
    return server, state


def test_half_a_head_is_given_up(monkeypatch):
    """In time, whatever comes in between: one byte now and then helps nobody."""
    monkeypatch.setattr(_connection, "SLOWEST_HEAD", 0.3)

    async def story():
        loop = asyncio.get_running_loop()
        server, _ = await _listening(print)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        begun, heard = loop.time(), asyncio.create_task(_heard(reader))
        for letter in b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 40:
            if heard.done():
                break
            writer.write(bytes([letter]))
            await asyncio.sleep(0.02)
        said = await heard
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        server.close()
        await server.wait_closed()
        return said, loop.time() - begun, len(_connection.Connection.silent)

    said, took, silent = asyncio.run(story())
    assert said.startswith(b"HTTP/1.1 408")
    assert took < 3
    assert silent == 0


def test_connections_leave_descriptors_for_workers(monkeypatch):
    """With a whole head as well: the system had none left when a worker was to be replaced."""
    monkeypatch.setattr(_connection, "ALL", 3)

    async def story():
        lines = []
        server, state = await _listening(_never)
        for _ in range(8):
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
            lines.append((reader, writer))
        shut = 0
        for reader, _ in lines[3:]:
            async with asyncio.timeout(30):
                shut += await _heard(reader) == b""
        most = len(state.connections)
        for _, writer in lines:
            writer.close()
        server.close()
        return shut, most

    assert asyncio.run(story()) == (5, 3)


async def _never(_scope, receive, _send):
    while (await receive())["type"] != "http.disconnect":
        pass


def test_who_hangs_up_waits_no_longer(tmp_path, served):
    """A question waits for an owner; 1000 requests wait for it, and most of their callers go."""
    path = write(tmp_path, "gone", service='approval = "0.05"')
    one = served(path, made=keys(tmp_path / "home", "owner", "ana", "ben"))
    body = json.dumps({"sql": COUNT, "epsilon": "0.06"}).encode()
    head = (
        f"POST /v1/answers HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {one.keys['ana']}\r\n"
        f"Content-Type: application/json\r\nIdempotency-Key: k\r\nPrefer: wait=300\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with contextlib.ExitStack() as held:
        lines = []
        for n in range(1000):
            line = _line(one)
            line.sendall(head.encode() + body)
            if n < 900:
                line.close()
            else:
                lines.append(held.enter_context(line))
        # those who stay do not keep others out either: some of them wait, the rest are told at once
        assert one("GET", "/v1/budget", who="ben").status_code == 200
        told = _answered(lines, len(lines) - _api._WAITS)
        assert all(line.recv(20).startswith(b"HTTP/1.1 202") for line in told)
    # all have gone: sooner or later there is a place to wait again
    for _ in range(60):
        with _line(one) as line:
            line.sendall(head.encode() + body)
            if not select.select([line], [], [], 1)[0]:
                return
    pytest.fail("who has gone still waits")


def _answered(lines, count):
    """Return at least so many lines on which something has come, whichever come first."""
    found = []
    while len(found) < count:
        ready = select.select([line for line in lines if line not in found], [], [], 120)[0]
        assert ready, f"{len(found)} of {count} were told"
        found += ready
    return found
