"""Requests made from the service's own OpenAPI document: no server error, one envelope."""

from __future__ import annotations

import json

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings

pytestmark = pytest.mark.races


def _operations(service):
    document = service("GET", "/openapi.json", who=None).json()
    schema = schemathesis.openapi.from_dict(document)
    return document, [found.ok() for found in schema.get_all_operations()]


def _sent(client, service, case, who):
    """Send a generated case; what HTTP itself cannot carry is left out."""
    path = case.formatted_path
    headers = {"Authorization": f"Bearer {service.keys[who]}"}
    given_body = isinstance(case.body, dict | list | str | int | float | bool | None)
    body = json.dumps(case.body).encode() if given_body and case.method != "GET" else None
    if body is not None:
        headers["Content-Type"] = case.media_type or "application/json"
    try:
        return client.request(
            case.method, path, params=case.query or None, content=body, headers=headers
        )
    except (httpx.InvalidURL, UnicodeError, ValueError):
        return None


def _tried(service, client, document, operation, seen):
    """Make a test of one operation; keys and budget of the shared service stay as they are."""
    harmless = operation.method.upper() == "GET" or operation.path == "/v1/preview"
    responses = document["paths"][operation.path][operation.method.lower()]["responses"]

    @settings(
        max_examples=4,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def run(case):
        said = _sent(client, service, case, "owner" if harmless else "auditor")
        if said is None:
            return
        seen.add((operation.path, said.status_code))
        assert said.status_code < 500, (operation.label, said.text)
        assert str(said.status_code) in responses, (operation.label, said.status_code)
        if said.headers["content-type"] == "application/json":
            told = said.json()
            wanted = {"ok"} if operation.path == "/healthz" else {"ok", "result"}
            assert told.keys() >= (wanted if told["ok"] else {"ok", "error", "message", "hint"})

    return run


def test_generated_requests_never_fail_the_server(service):
    """Whatever the document allows (and some of what it does not) is answered or refused."""
    document, operations = _operations(service)
    seen = set()
    with httpx.Client(base_url=service.url, timeout=600) as client:
        for operation in operations:
            _tried(service, client, document, operation, seen)()
    assert {path for path, _ in seen} == set(document["paths"])


def test_the_document_names_every_route_its_bodies_and_its_key(service):
    document, operations = _operations(service)
    assert document["security"] == [{"key": []}]
    assert {o.path for o in operations} >= {
        "/v1/preview", "/v1/answers", "/v1/answers/{id_}", "/v1/batches", "/v1/budget",
        "/v1/policy", "/v1/ledger", "/v1/verify", "/v1/requests/{id_}/decision", "/healthz",
    }  # fmt: skip
    for path in ("/v1/preview", "/v1/answers", "/v1/batches"):
        body = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        name = body["schema"]["$ref"].rpartition("/")[2]
        assert document["components"]["schemas"][name]["additionalProperties"] is False
