"""The attack list of the service, each a named test against a real server process."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from discreet.service import _forms, _http

pytestmark = pytest.mark.races

BY_REGION = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region"
OWNERS = [
    ("GET", "/v1/requests", None),
    ("GET", "/v1/keys", None),
    ("POST", "/v1/keys", {"name": "eve", "role": "owner"}),
    ("DELETE", "/v1/keys/000000000000", None),
    ("POST", "/v1/budget", {"epsilon": "9", "reason": "why not"}),
    ("POST", "/v1/closure", {"closed": True, "reason": "why not"}),
    ("POST", "/v1/requests/0/decision", {"approve": True, "reason": "x", "seen": "0" * 64}),
]


def test_other_peoples_answers_do_not_exist(service):
    mine = service.ask(BY_REGION, "0.0105")["id"]
    for path in (f"/v1/answers/{mine}", f"/v1/answers/{mine}/record"):
        foreign, absent = (
            service("GET", path.replace(mine, id_), who="ben") for id_ in (mine, "0" * 32)
        )
        assert (foreign.status_code, foreign.content) == (404, absent.content)
    assert mine not in service("GET", "/v1/answers", who="ben").text


@pytest.mark.parametrize(("method", "path", "body"), OWNERS)
@pytest.mark.parametrize("who", ["ana", "auditor"])
def test_roles_are_enforced_on_every_route_of_owners(service, method, path, body, who):
    assert service(method, path, body, who=who).status_code == 403
    assert service(method, path, body, who=None).status_code == 401


def test_auditors_do_not_ask_and_analysts_do_not_audit(service):
    asked = service("POST", "/v1/answers", {"sql": BY_REGION, "epsilon": "0.01"}, who="auditor")
    assert asked.status_code == 403
    assert service("GET", "/v1/ledger").status_code == 403
    assert service("GET", "/v1/verify").status_code == 403


def test_the_analyst_is_whoever_holds_the_key(service):
    """No header, field, parameter or cookie says who asks."""
    body = {"sql": BY_REGION, "epsilon": "0.0106"}
    assert service("POST", "/v1/answers", {**body, "analyst": "ben"}).status_code == 400
    headers = {"X_Analyst": "ben", "X_Forwarded_User": "ben", "Analyst": "ben", "User": "ben",
               "Cookie": "analyst=ben; user=ben", "X_Role": "owner", "Role": "owner"}  # fmt: skip
    path = "/v1/answers?analyst=ben&user=ben&role=owner"
    answer = service("POST", path, body, Prefer="wait=300", **headers).json()["result"]
    lines = service("GET", "/v1/ledger", who="auditor").json()["result"]["lines"]
    assert lines[answer["line"]["number"] - 1]["analyst"] == "ana"
    assert service("GET", "/v1/keys", **headers).status_code == 403
    assert service("POST", "/v1/preview", body, X_HTTP_Method_Override="GET").status_code == 200


def test_a_key_of_idempotency_belongs_to_one_analyst(service):
    body = {"sql": BY_REGION, "epsilon": "0.0107", "fresh": True}
    anas, bens = (
        service("POST", "/v1/answers", body, who=who, Idempotency_Key="same", Prefer="wait=300")
        for who in ("ana", "ben")
    )
    assert anas.json()["result"]["id"] != bens.json()["result"]["id"]
    assert anas.json()["result"]["line"] != bens.json()["result"]["line"]


def test_a_revoked_key_is_refused_at_its_next_request(service):
    made = service("POST", "/v1/keys", {"name": "carl", "role": "analyst"}, who="owner")
    key = made.json()["result"]["key"]
    assert service("GET", "/v1/budget", who=key).status_code == 200
    id_ = key.split("_")[1]
    assert service("DELETE", f"/v1/keys/{id_}", who="owner").status_code == 200
    assert service("GET", "/v1/budget", who=key).status_code == 401


@pytest.mark.parametrize(
    "given",
    ["", "Bearer", "Bearer x", "Basic YTpi", "bearer dk_000000000000_" + "A" * 43,
     "Bearer dk_" + "0" * 5000],
)  # fmt: skip
def test_anything_but_a_key_in_force_is_refused_alike(service, given):
    answer = service("GET", "/v1/budget", who=None, Authorization=given)
    assert (answer.status_code, answer.json()["error"]) == (401, "unauthenticated")


def test_a_key_with_another_secret_is_refused(service):
    right = service.keys["ana"]
    wrong = right[:-1] + ("A" if right[-1] != "A" else "B")
    assert service("GET", "/v1/budget", who=wrong).status_code == 401


def test_keys_in_addresses_are_refused(service):
    answer = service("GET", f"/v1/budget?key={service.keys['ana']}", who=None)
    assert (answer.status_code, answer.json()["error"]) == (400, "malformed")


def test_neither_keys_nor_questions_nor_durations_are_logged(service):
    """What the process prints and the owner's log hold no key, no text, no time of a run."""
    service.ask("SELECT COUNT(*) AS unheard FROM visits")
    logged = service.log.read_text()
    for log in service.cwd.rglob("*.jsonl"):
        logged += log.read_text()
    secrets = [key.split("_", 2)[2] for key in service.keys.values()]
    assert not [s for s in (*secrets, "unheard", " ms", "duration", "seconds") if s in logged]


def _raw(service, lines: list[bytes], *, wait: float = 15.0) -> bytes:
    where = urlsplit(service.url)
    with socket.create_connection((where.hostname, where.port), timeout=wait) as line:
        for part in lines:
            line.sendall(part)
        try:
            return line.recv(4096)
        except TimeoutError:
            return b""


def _head(service, *more: str, path: str = "/v1/preview", method: str = "POST") -> bytes:
    head = [f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {service.keys['ana']}",
            "Content-Type: application/json", *more, "", ""]  # fmt: skip
    return "\r\n".join(head).encode()


def test_an_oversized_body_is_refused_before_it_is_read(service):
    stated = _raw(service, [_head(service, "Content-Length: 150000000"), b"{"])
    assert b" 413 " in stated
    chunk = b"%x\r\n" % 40_000 + b"x" * 40_000 + b"\r\n"
    counted = _raw(service, [_head(service, "Transfer-Encoding: chunked"), chunk, chunk, chunk])
    assert b" 413 " in counted


@pytest.mark.long
def test_a_slow_body_is_given_up(service):
    said = _raw(service, [_head(service, "Content-Length: 100"), b"{"], wait=30)
    assert b" 408 " in said


def test_a_slow_body_is_given_up_by_the_door(monkeypatch):
    """The same rule on the door alone, with its time shortened."""
    import asyncio

    monkeypatch.setattr(_http, "SLOWEST_BODY", 0.01)
    sent = []

    async def receive():
        await asyncio.sleep(60)

    async def send(message):
        sent.append(message)

    async def never(*_):
        raise AssertionError

    scope = {"type": "http", "headers": [], "query_string": b"", "raw_path": b"/"}
    asyncio.run(_http.Door(never)(scope, receive, send))
    assert sent[0]["status"] == 408


def test_smuggled_requests_are_not_served(service):
    both = _raw(
        service,
        [
            _head(service, "Content-Length: 5", "Transfer-Encoding: chunked"),
            b"0\r\n\r\nGET /v1/budget HTTP/1.1\r\nHost: x\r\n\r\n",
        ],
    )
    assert b" 200 " not in both
    assert b"epsilon" not in both


def test_a_megabyte_of_sql_is_refused(service):
    try:
        said = service("POST", "/v1/preview", {"sql": "SELECT " + "x" * (1 << 20)}).status_code
    except httpx.TransportError:  # the line was closed while we were still sending
        said = 413
    assert said == 413
    long = service("POST", "/v1/preview", {"sql": "SELECT " + "x" * 30_000, "epsilon": "1"})
    assert long.status_code == 400
    deep = service("POST", "/v1/preview", {"sql": "SELECT " + "(" * 9_000, "epsilon": "1"})
    assert deep.status_code == 422


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ('{"sql": "x", "sql": "y"}', 400),
        ('{"sql": "x", "epsilon": NaN}', 400),
        ('{"sql": "x", "epsilon": Infinity}', 400),
        ('{"sql": "x", "epsilon": 1' + "0" * 400 + "}", 400),
        ('{"sql": "x", "within": ' + "[" * 500 + "]" * 500 + "}", 400),
        ("[" * 60_000, 400),
        ('{"sql": "\\ud800"}', 400),
        ("[]", 400),
        ("", 400),
        ('{"sql": {"a": 1}}', 400),
        ('{"sql": "SELECT COUNT(*) AS n FROM visits", "epsilon": true}', 400),
        ("\x00\x01", 400),
    ],
)
def test_json_that_is_not_strict_is_refused(service, text, status):
    headers = {"Authorization": f"Bearer {service.keys['ana']}", "Content-Type": "application/json"}
    said = service.client.post("/v1/preview", content=text.encode(), headers=headers)
    assert said.status_code == status, said.text


def test_forms_are_not_taken_for_json(service):
    """What a page of another site can send without asking is refused by its type."""
    for media in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        headers = {"Authorization": f"Bearer {service.keys['ana']}", "Content-Type": media}
        said = service.client.post("/v1/preview", content=b'{"sql":"x"}', headers=headers)
        assert said.status_code == 415


def test_labels_that_are_formulas_stay_text_in_csv():
    risky = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "＝1"]
    assert all(_forms.safe(label).startswith("'") for label in risky)
    assert _forms.safe("north") == "north"
    assert _forms.safe(-1.5) == -1.5


def test_a_key_in_an_address_is_refused_and_a_random_state_is_not(service):
    """A provider's state is 43 random letters: three of them are "dk_" once in 6 400 sign-ins."""
    for text, status in ((service.keys["ana"], 400), ("xdk_" + "-A" * 20, 404)):
        assert service("GET", f"/v1/nothing?state={text}", who="ana").status_code == status


def test_refusals_leave_at_the_first_tick_whatever_is_refused(service):
    """Not before: nothing can be read off how quickly something was refused."""
    refusals = [
        ({"sql": "SELECT", "epsilon": "0.1"}, "ana"),
        ({"sql": BY_REGION, "epsilon": "99"}, "ana"),
        ({"sql": BY_REGION, "epsilon": "0.1"}, "auditor"),
        ({"sql": BY_REGION, "epsilon": "0.1"}, "dk_000000000000_" + "A" * 43),
    ]
    for body, who in refusals:
        start = time.monotonic()
        assert service("POST", "/v1/answers", body, who=who).status_code >= 400
        assert time.monotonic() - start >= 0.25


def test_ids_cannot_be_guessed_or_counted(service):
    ids = [service.ask(BY_REGION, f"0.010{i}")["id"] for i in (5, 6)]
    assert all(len(bytes.fromhex(i)) == 16 for i in ids)
    for wrong in ("1", "../../etc/passwd", "%00", "0" * 31, "g" * 32, "0" * 3000):
        assert service("GET", f"/v1/answers/{wrong}").status_code == 404


def test_headers_keep_a_browser_from_running_or_keeping_anything(service):
    for path, who in (("/v1/budget", "ana"), ("/nothing", None), ("/healthz", None)):
        headers = service("GET", path, who=who).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers


def test_the_web_process_opens_no_data(service):
    """Neither the file nor the engine is open in the process that talks to strangers."""
    pid = service.process.pid
    assert "duckdb" not in Path(f"/proc/{pid}/maps").read_text()
    held = [str(place.readlink()) for place in Path(f"/proc/{pid}/fd").iterdir()]
    assert not [place for place in held if "parquet" in place]


def test_telemetry_of_the_framework_is_off():
    """A provider that the process has installed hears nothing of a request."""
    code = """
import asyncio, httpx
from opentelemetry import trace, metrics
heard = []
class Tracer(trace.NoOpTracer):
    def start_span(self, *a, **k): heard.append(a); return super().start_span(*a, **k)
    def start_as_current_span(self, *a, **k):
        heard.append(a)
        return super().start_as_current_span(*a, **k)
class Provider(trace.NoOpTracerProvider):
    def get_tracer(self, *a, **k): return Tracer()
class Meter(metrics.NoOpMeter):
    def create_histogram(self, *a, **k): heard.append(a); return super().create_histogram(*a, **k)
class Meters(metrics.NoOpMeterProvider):
    def get_meter(self, *a, **k): return Meter("x")
trace.set_tracer_provider(Provider()); metrics.set_meter_provider(Meters())
from discreet.service._app import build
from discreet.service._api import House
from discreet.service._sessions import Sessions
app = build(House(None, {}, None, Sessions(None, None)))
async def main():
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as c:
        assert (await c.get("/healthz")).status_code == 200
asyncio.run(main())
assert not heard, heard
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_preview_never_waits_for_a_run(service):
    """Previews are answered while the only worker is taken (the demo has one worker here)."""
    heavy = "SELECT region, MEDIAN(cost) AS m FROM visits GROUP BY region"
    asked = service("POST", "/v1/answers", {"sql": heavy, "epsilon": "0.01"})
    assert asked.status_code in (200, 202), asked.text
    for _ in range(5):
        quote = service("POST", "/v1/preview", {"sql": BY_REGION, "epsilon": "0.1"})
        assert quote.status_code == 200
    state = service("GET", asked.headers.get("location", "/healthz"))
    assert state.status_code in (200, 202)


def test_an_answer_does_not_leave_before_its_tick(service):
    start = time.monotonic()
    done = service.ask(BY_REGION, "0.0108")
    assert done["tick"] <= time.monotonic() - start


def test_unknown_callers_learn_nothing_from_errors(service):
    with httpx.Client(base_url=service.url) as stranger:
        for path in ("/v1/budget", "/v1/policy", "/v1/ledger", "/v1/keys", "/v1/answers"):
            said = stranger.get(path)
            assert said.status_code == 401
            assert json.loads(said.content)["error"] == "unauthenticated"


def test_who_goes_away_while_waiting_has_paid_and_finds_the_answer(service):
    """The line is cut at five moments between asking and the tick: paid once, finished, kept."""
    host = urlsplit(service.url)
    names = [f"gone {i}" for i in range(5)]
    for i, name in enumerate(names):
        body = json.dumps({"sql": BY_REGION, "epsilon": "0.0011", "fresh": True}).encode()
        head = (f"POST /v1/answers HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
                f"{service.keys['ana']}\r\nContent-Type: application/json\r\nPrefer: wait=60\r\n"
                f"Idempotency-Key: {name}\r\nContent-Length: {len(body)}\r\n\r\n")  # fmt: skip
        with socket.create_connection((host.hostname, host.port)) as line:
            line.sendall(head.encode() + body)
            time.sleep(0.05 * i)
    time.sleep(1)
    for name in names:
        done = service("POST", "/v1/answers", json.loads(body), Idempotency_Key=name,
                       Prefer="wait=300").json()["result"]  # fmt: skip
        assert "rows" in done, done
    lines = service("GET", "/v1/ledger", who="auditor").text
    assert [lines.count(f'"{name}"') for name in names] == [1] * 5
