"""``dc.connect``: the methods of a local curator, over HTTP."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import discreet as dc
from discreet import errors, frame, policy, sql
from discreet.cli import app
from discreet.service import _client

pytestmark = pytest.mark.races

BY_REGION = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region"


@pytest.fixture
def remote(service):
    with dc.connect(service.url, service.keys["ana"]) as opened:
        yield opened


def test_sql_preview_and_budget(remote):
    quote = remote.preview(BY_REGION, epsilon="0.0111")
    assert quote.cost["epsilon"] == "111/10000"
    assert "n" in quote.error()
    before = remote.budget.left["epsilon"]
    answer = remote.sql(BY_REGION, epsilon="0.0111")
    assert [row["region"] for row in answer.to_dicts()] == ["north", "east", "south", "west"]
    assert set(answer.interval()[0]) == {"region", "n"}
    assert float(before - remote.budget.left["epsilon"]) == pytest.approx(0.0111)
    assert remote.sql(BY_REGION, epsilon="0.0111").cached
    assert "left" in answer.left


def test_questions_in_python(remote):
    asked = remote.table("visits").where("age >= 18").group_by("region").agg(n=dc.count())
    assert asked.preview(epsilon="0.1").cost["epsilon"] == "1/10"
    assert len(asked.answer(epsilon="0.0112")) == 4


def test_batches(remote):
    with remote.batch(epsilon="0.02") as batch:
        first = batch.sql(BY_REGION)
        second = batch.sql("SELECT COUNT(*) AS n FROM visits", weight=2)
    assert (len(first.answer), len(second.answer)) == (4, 1)


def test_error_of(remote):
    found = remote.error_of(11000, "SELECT COUNT(*) AS n FROM visits", epsilon="0.0113")
    assert found.cost == pytest.approx(0.0113)


def test_refusals_are_the_errors_of_the_library(remote):
    with pytest.raises(errors.UnknownNameError, match="nothing"):
        remote.sql("SELECT COUNT(*) AS n FROM nothing", epsilon="0.1")
    with pytest.raises(errors.BudgetExceededError) as refused:
        remote.sql(BY_REGION, epsilon="50")
    assert dict(refused.value.hint.parameters).keys() == {"epsilon"}
    with pytest.raises(errors.ParameterError):
        remote.sql(BY_REGION, epsilon="0")


def test_a_wrong_key_and_a_wrong_address(service):
    with (
        dc.connect(service.url, "dk_000000000000_" + "A" * 43) as wrong,
        pytest.raises(errors.DiscreetError, match="in force"),
    ):
        _ = wrong.budget
    with pytest.raises(errors.ParameterError, match="https"):
        dc.connect("ftp://x", "k")


def test_another_signing_key_is_refused(remote, service):
    """The key is pinned at first use; a service that signs with another one is not believed."""
    from discreet._log import state_directory

    _ = remote.sql("SELECT COUNT(*) AS n FROM visits", epsilon="0.0114")
    place = state_directory() / "known_curators.json"
    known = json.loads(place.read_text())
    known[service.url]["key"] = "ed25519:another"
    place.write_text(json.dumps(known))
    with (
        dc.connect(service.url, service.keys["ana"]) as other,
        pytest.raises(errors.PrivacyError, match="another key"),
    ):
        other.sql(BY_REGION, epsilon="0.01")


def test_the_command_line_asks_the_service(service):
    env = {"DISCREET_URL": service.url, "DISCREET_KEY": service.keys["ana"]}
    asked = CliRunner().invoke(app, ["ask", BY_REGION, "-e", "0.0115", "--json"], env=env)
    assert asked.exit_code == 0, asked.output
    assert len(json.loads(asked.output)["result"]["rows"]) == 4
    priced = CliRunner().invoke(app, ["preview", BY_REGION, "-e", "0.1", "--json"], env=env)
    assert json.loads(priced.output)["result"]["cost"]["epsilon"] == "1/10"
    keyless = CliRunner().invoke(
        app, ["ask", BY_REGION, "-e", "1"], env={**env, "DISCREET_KEY": ""}
    )
    assert keyless.exit_code == 2


def test_a_saved_answer_is_verified_offline(service, tmp_path):
    result = service.ask("SELECT COUNT(*) AS n FROM visits", "0.0116")
    whole = service("GET", f"/v1/answers/{result['id']}").json()
    record = service("GET", f"/v1/answers/{result['id']}/record").json()
    for said in (whole, record):
        file = tmp_path / "answer.json"
        file.write_text(json.dumps(said))
        done = CliRunner().invoke(app, ["verify", str(file), "--json"])
        assert done.exit_code == 0, done.output
    file.write_text(json.dumps(record).replace(result["id"], "0" * 32))
    assert CliRunner().invoke(app, ["verify", str(file), "--json"]).exit_code == 2


ALTERED = {
    "rows": lambda r: r["rows"][0].update(n=r["rows"][0]["n"] + 1),
    "intervals": lambda r: r["intervals"][0].update(n=[0, 1]),
    "question": lambda r: r["question"].update(
        sql="SELECT COUNT(*) AS n FROM visits WHERE age > 90"
    ),
    "cost": lambda r: r["cost"].update(epsilon="1/100000"),
    "paid": lambda r: r["paid"].update(epsilon="1/7"),
    "left": lambda r: r.update(left="ε 100 left"),
    "columns": lambda r: r["columns"].append("m"),
    "asked": lambda r: r.update(asked="2020-01-01T00:00:00+00:00"),
    "cached": lambda r: r.update(cached=not r["cached"]),
}


def verify(tmp_path, said):
    file = tmp_path / "answer.json"
    file.write_text(said if isinstance(said, str) else json.dumps(said))
    done = CliRunner().invoke(app, ["verify", str(file), "--json"])
    return done.exit_code, json.loads(done.output)


@pytest.mark.parametrize("field", ALTERED)
def test_no_field_of_a_signed_answer_can_be_changed(service, tmp_path, field):
    """What is shown follows from what is signed, or is signed itself."""
    result = service.ask(BY_REGION, "0.0117")
    code, said = verify(tmp_path, result)
    assert (code, said["result"]["unsigned"]) == (0, [])
    ALTERED[field](result)
    code, said = verify(tmp_path, {"ok": True, "result": result})
    assert code == 2, said
    assert field in said["message"] or "signature does not fit" in said["message"]


def test_what_nobody_signed_is_named(service, tmp_path):
    result = service.ask(BY_REGION, "0.0117")
    assert verify(tmp_path, {**result, "note": "all true"})[1]["result"]["unsigned"] == ["note"]
    wrapped = {"ok": True, "by": "me", "result": result}
    assert verify(tmp_path, wrapped)[1]["result"]["unsigned"] == ["by"]
    twice = json.dumps(result).replace('"rows":', '"rows": [], "rows":', 1)
    assert verify(tmp_path, twice)[0] == 2


FALSE = {
    "rows": [],
    "intervals": [],
    "cost": {"epsilon": "1"},
    "columns": ["x"],
    "record": {},
    "question": {"sql": "SELECT 1"},
    "answers": [{"rows": []}],
    "left": "all",
    "state": "waiting",
}


@pytest.mark.parametrize("field", FALSE)
def test_what_the_record_decides_is_compared_wherever_it_stands(service, tmp_path, field):
    """A false field is refused in a saved record and beside the result, as it is inside."""
    result = service.ask(BY_REGION, "0.0117")
    record = service("GET", f"/v1/answers/{result['id']}/record").json()["result"]
    added = {field: FALSE[field]}
    files = [{**record, **added}, {"ok": True, **added, "result": result},
             {"ok": True, **added, "result": record}, {**result, **added}]  # fmt: skip
    for said in files:
        code, told = verify(tmp_path, said)
        assert (code, told["error"]) == (2, "parameter"), (said, told)
        named = (repr(field), "'rows'", "signature does not fit", "no signed answer")
        assert any(words in told["message"] for words in named)
    for nested in ({**result, "result": added}, {"result": {**result, "result": added}}):
        assert verify(tmp_path, nested)[0] == 2


def test_what_the_record_says_may_be_added_to_it(service, tmp_path):
    result = service.ask(BY_REGION, "0.0117")
    record = service("GET", f"/v1/answers/{result['id']}/record").json()["result"]
    for field in ("rows", "intervals", "cost", "columns", "record", "covers"):
        for said in ({**record, field: result[field]}, {field: result[field], "result": record},
                     {field: result[field], "result": result}):  # fmt: skip
            assert verify(tmp_path, said)[1]["result"]["unsigned"] == [], field
    assert verify(tmp_path, {**record, "answers": [{"rows": result["rows"]}]})[0] == 0


def test_a_batch_is_verified_answer_by_answer(service, tmp_path):
    body = {"questions": [{"sql": "SELECT COUNT(*) AS n FROM visits"}, {"sql": BY_REGION}],
            "epsilon": "0.02"}  # fmt: skip
    result = service("POST", "/v1/batches", body, Prefer="wait=300").json()["result"]
    assert verify(tmp_path, result)[1]["result"]["unsigned"] == []
    result["answers"][1]["rows"][0]["n"] += 5
    assert "'rows' was changed" in verify(tmp_path, result)[1]["message"]
    record = service("GET", f"/v1/answers/{result['id']}/record").json()["result"]
    assert verify(tmp_path, record)[0] == 0
    assert "'rows' was added" in verify(tmp_path, {**record, "rows": []})[1]["message"]
    assert verify(tmp_path, {**record, "answers": result["answers"]})[0] == 2
    assert verify(tmp_path, {**record, "answers": result["answers"][:1]})[0] == 2


def test_what_the_command_line_saves_is_signed_and_explained(service, tmp_path):
    env = {"DISCREET_URL": service.url, "DISCREET_KEY": service.keys["ana"]}
    saved = tmp_path / "saved.json"
    command = ["ask", BY_REGION, "-e", "0.0117", "--json", "--save", str(saved)]
    asked = CliRunner().invoke(app, command, env=env)
    for said in (asked.output, saved.read_text()):
        code, told = verify(tmp_path, said)
        assert (code, told["result"]["unsigned"]) == (0, []), told
        explained = CliRunner().invoke(app, ["explain", str(tmp_path / "answer.json"), "--json"])
        assert (
            json.loads(explained.output)["result"]["rows"]
            == json.loads(asked.output)["result"]["rows"]
        )
    forged = json.loads(asked.output)
    forged["result"]["rows"][0]["n"] += 1
    assert verify(tmp_path, forged)[0] == 2
    with dc.connect(service.url, service.keys["ana"]) as remote:
        kept = remote.sql(BY_REGION, epsilon="0.0117").signed
    assert verify(tmp_path, dict(kept))[0] == 0


def test_the_cell_magic_asks_and_prices(remote):
    registered = {}
    shell = SimpleNamespace(
        user_ns={"curator": remote},
        register_magic_function=lambda f, **_: registered.update({f.__name__: f}),
    )
    dc.load_ipython_extension(shell)
    assert "cost" in repr(registered["discreet"]("preview epsilon=0.1", BY_REGION))
    registered["discreet"]("epsilon=0.0117 into=found", BY_REGION)
    assert len(shell.user_ns["found"]) == 4
    with pytest.raises(errors.ParameterError, match="no option"):
        registered["discreet"]("epsilom=1", BY_REGION)


def test_a_rehearsal_is_free_marked_and_local(service):
    """Made-up data from the public policy: the service's budget is not touched."""
    with dc.connect(service.url, service.keys["ana"]) as real:
        before = real.budget.left
    with dc.connect(service.url, service.keys["ana"], dummy=True) as rehearsal:
        answer = rehearsal.sql(BY_REGION, epsilon="1")
        assert answer.dummy
        assert answer.record()["statement"]["dummy"] is True
        assert "MADE-UP" in repr(answer)
    with dc.connect(service.url, service.keys["ana"]) as real:
        assert real.budget.left == before
        assert not real.sql(BY_REGION, epsilon="0.0129").dummy


def test_fluent_questions_print_as_sql_that_means_the_same():
    people = policy.Table(
        "people",
        [policy.Category("sex", ["F", "M"]), policy.Integer("age", 0, 115),
         policy.Real("x", 0, 10, step="0.5")],
    )  # fmt: skip
    own = policy.Policy([people], policy.Budget("1"))
    start, col = frame.Table("people", own), frame.col
    for asked in (
        start.agg(n=frame.count()),
        start.where((col("age") + 1) * 2 > 5).agg(s=frame.sum(col("x") * (col("age") - 3))),
        start.where(~((col("sex") == "F") & (col("age") < 3))).agg(n=frame.count()),
        start.group_by("sex", tens="age / 10").agg(m=frame.median("age")).having("m > 5").limit(3),
        start.where(col("sex").is_in("F") | (-(col("age") - 4) < 3)).agg(v=frame.std("x")),
    ):
        text = frame.to_sql(asked)
        assert sql.parse(text, own).query == frame.parse(asked, own, None).query, text


def test_a_service_that_is_busy_is_heard_though_it_lets_silent_lines_go(monkeypatch):
    """It says why, and hangs up while the client waits: that had read as no answer at all."""
    why = "3 of your questions wait for an owner already"

    class Busy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            said = json.dumps({"ok": False, "error": "rate", "message": why}).encode()
            self.send_response(429)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)
            self.close_connection = True

        def log_message(self, *_):
            pass

    monkeypatch.setattr(_client.time, "sleep", lambda _: None)
    with ThreadingHTTPServer(("127.0.0.1", 0), Busy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with (
            _client.Remote(f"http://127.0.0.1:{server.server_port}", "dk_x") as remote,
            pytest.raises(errors.DiscreetError, match=why),
        ):
            remote._call("GET", "/v1/budget")
        server.shutdown()
