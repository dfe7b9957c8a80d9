"""The service over HTTP: a real server process, asked as its callers ask it."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pytest

from discreet import service as srv
from discreet.answer import Answer
from discreet.errors import ParameterError
from discreet.service._ticks import GRID

pytestmark = pytest.mark.races

BY_REGION = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region"


def test_health_says_nothing_else(service):
    answer = service("GET", "/healthz", who=None)
    assert (answer.status_code, answer.json()) == (200, {"ok": True})


def test_an_owner_is_told_how_the_workers_are(service):
    told = service("GET", "/v1/health", who="owner").json()["result"]
    assert (told["missing"], told["paused"]) == (0, False)
    assert told["workers"] >= 1
    for who in ("ana", "auditor"):
        assert service("GET", "/v1/health", who=who).status_code == 403


def test_a_preview_is_free_and_says_what_would_be_paid(service):
    before = service("GET", "/v1/budget").json()["result"]["whole"]
    quote = service("POST", "/v1/preview", {"sql": BY_REGION, "epsilon": 0.1}).json()["result"]
    assert quote["cost"]["epsilon"] == "1/10"
    assert quote["error"] == {"n": "± 120"}
    assert quote["tick"] in GRID
    assert quote["more"] > 0
    assert 0 < float(quote["after"]) < float(quote["left"].split()[0])
    assert not quote["needs_approval"]
    assert service("GET", "/v1/budget").json()["result"]["whole"] == before


def test_an_answer_is_accepted_then_given_by_id_in_four_forms(service):
    accepted = service("POST", "/v1/answers", {"sql": BY_REGION, "epsilon": "0.0101"})
    assert accepted.status_code == 202
    place = accepted.headers["location"]
    assert place == f"/v1/answers/{accepted.json()['result']['id']}"
    again = service(
        "POST", "/v1/answers", {"sql": BY_REGION, "epsilon": "0.0101"},
        Idempotency_Key=accepted.headers["idempotency-key"], Prefer="wait=300",
    )  # fmt: skip
    result = again.json()["result"]
    assert result["id"] == accepted.json()["result"]["id"]
    assert [row["region"] for row in result["rows"]] == ["north", "east", "south", "west"]
    assert service("GET", place).json()["result"] == result
    text = service("GET", place, Accept="text/csv").text
    assert text.splitlines()[0] == '"region","n","n from","n to"'
    table = pa.ipc.open_stream(
        io.BytesIO(service("GET", place, Accept="application/vnd.apache.arrow.stream").content)
    ).read_all()
    assert table["n"].to_pylist() == [row["n"] for row in result["rows"]]
    assert "<caption>" in service("GET", place, Accept="text/html").text
    assert service("GET", place, Accept="image/png").status_code == 400


def test_records_recompute_and_signatures_hold_until_a_byte_changes(service):
    result = service.ask("SELECT COUNT(*) AS n FROM visits")
    record = service("GET", f"/v1/answers/{result['id']}/record").json()["result"]
    assert Answer.from_record(record["records"][0]).to_dicts() == result["rows"]
    signature = record.pop("signature")
    assert srv.check(record, signature) == signature["key"]
    changed = json.loads(json.dumps(record).replace('"unit": "person_id"', '"unit": "row"'))
    assert changed != record
    with pytest.raises(ParameterError, match="does not fit"):
        srv.check(changed, signature)
    with pytest.raises(ParameterError, match="not by"):
        srv.check(record, signature, key="ed25519:other")


def test_an_equal_question_is_free(service):
    first = service.ask(BY_REGION, "0.0102")
    spent = service("GET", "/v1/budget").json()["result"]["whole"]["epsilon"]["spent"]
    again = service.ask(BY_REGION, "0.0102")
    assert again["cached"]
    assert again["rows"] == first["rows"]
    assert service("GET", "/v1/budget").json()["result"]["whole"]["epsilon"]["spent"] == spent


def test_a_key_of_another_question_is_refused(service):
    body = {"sql": BY_REGION, "epsilon": "0.0103"}
    assert service("POST", "/v1/answers", body, Idempotency_Key="k1").status_code == 202
    other = service("POST", "/v1/answers", {**body, "epsilon": "0.01"}, Idempotency_Key="k1")
    assert (other.status_code, other.json()["error"]) == (409, "idempotency")


def test_a_batch_is_one_debit_and_several_answers(service):
    body = {
        "questions": [{"sql": BY_REGION}, {"sql": "SELECT COUNT(*) AS n FROM visits", "weight": 2}],
        "epsilon": "0.02",
    }
    done = service("POST", "/v1/batches", body, Prefer="wait=300")
    answers = done.json()["result"]["answers"]
    assert [len(a["rows"]) for a in answers] == [4, 1]


def test_the_policy_is_public_but_for_places(service):
    told = service("GET", "/v1/policy").json()["result"]
    assert told["name"] == "clinic"
    assert "region" in told["policy"]["tables"]["visits"]["columns"]
    assert "parquet" not in json.dumps(told)
    assert told["signing_key"].startswith("ed25519:")


def test_the_auditor_reads_and_verifies_the_ledger(service):
    found = service("GET", "/v1/verify", who="auditor").json()["result"]
    lines = service("GET", "/v1/ledger", who="auditor").json()["result"]["lines"]
    assert found["lines"] == len(lines)
    assert {x["analyst"] for x in lines if x["kind"] == "debit"} <= {"ana", "ben", "owner"}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"sql": "SELECT * FROM visits", "epsilon": "0.1"}, 422, "unsupported-query"),
        ({"sql": "SELECT COUNT(*) AS n FROM nothing", "epsilon": "0.1"}, 422, "unknown-name"),
        ({"sql": BY_REGION, "epsilon": "0"}, 400, "parameter"),
        ({"sql": BY_REGION, "epsilon": "50"}, 409, "budget-exceeded"),
        ({"sql": BY_REGION}, 400, "parameter"),
        ({"epsilon": "1"}, 400, "malformed"),
    ],
)
def test_refusals_have_the_envelope_of_the_command_line(service, body, status, code):
    refused = service("POST", "/v1/answers", body)
    said = refused.json()
    assert (refused.status_code, said["ok"], said["error"]) == (status, False, code)
    assert {"message", "hint"} <= said.keys()


def test_options_inside_the_question_are_read(service):
    sql = "SELECT COUNT(*) AS n FROM visits OPTIONS(epsilon=0.0104)"
    quote = service("POST", "/v1/preview", {"sql": sql})
    if quote.status_code == 200:
        assert quote.json()["result"]["cost"]["epsilon"] == "13/1250"
        assert service("POST", "/v1/answers", {"sql": sql}).status_code == 202


def test_a_price_that_is_remembered_follows_the_ledger(service):
    """What is left, and whether it is free, change with what anybody pays."""
    body = {"sql": "SELECT COUNT(*) AS k FROM visits WHERE age > 33", "epsilon": "0.0107"}

    def quote(who="ana"):
        return service("POST", "/v1/preview", body, who=who).json()["result"]

    first = quote()
    assert quote() == first
    assert not first["stored"]
    service.ask("SELECT COUNT(*) AS k FROM visits WHERE age > 34", "0.0108", who="ben")
    other = quote()
    assert (other["stored"], other["cost"]) == (False, first["cost"])
    assert other["more"] < first["more"] or other["left"] != first["left"]
    service.ask(body["sql"], body["epsilon"])
    assert quote()["stored"]
    assert quote()["pays"] == {"epsilon": "0"}


def test_an_answered_question_asked_again_and_again_is_one_order_until_the_ledger_moves(service):
    sql = "SELECT COUNT(*) AS k FROM visits WHERE age > 35"
    paid = service.ask(sql, "0.0109")
    first, second = service.ask(sql, "0.0109"), service.ask(sql, "0.0109")
    assert first == second
    assert first["id"] != paid["id"]
    assert (first["cached"], first["paid"]) == (True, {"epsilon": "0"})
    assert first["rows"] == paid["rows"]
    keyed = service.ask(sql, "0.0109", headers={"Idempotency-Key": "own-35"})
    assert keyed["id"] not in (first["id"], paid["id"])
    again = service("POST", "/v1/answers", {"sql": sql, "epsilon": "0.0109"}, who="ben",
                    Prefer="wait=300").json()["result"]  # fmt: skip
    assert again["id"] != first["id"]  # other people's orders stay their own
    service.ask("SELECT COUNT(*) AS k FROM visits WHERE age > 36", "0.011")
    later = service.ask(sql, "0.0109")
    assert (later["cached"], later["rows"]) == (True, paid["rows"])
    assert later["left"] != first["left"]
    assert service.ask(sql, "0.0109", fresh=True)["line"] != paid["line"]
