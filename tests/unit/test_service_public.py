"""What everybody may know: releases, the registry's entry, the statement, the public page."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import httpx
import jsonschema
import pytest
import yaml
from typer.testing import CliRunner

from discreet import policy as pol
from discreet import release
from discreet import service as srv
from discreet.cli import app
from discreet.cli._sample import write_sample
from discreet.errors import ParameterError
from discreet.ledger import open_ledger

pytestmark = pytest.mark.races

# the structure of github.com/opendp/deployments-registry-data, schemas/deployments-schema.yaml
SCHEMA = json.loads((Path(__file__).parent / "registry_schema.json").read_text())
PLAN = """
title = "Visits"
edition = "2026"
policy = "{policy}"
output = "out"
[owner]
name = "Clinic"
unprotected.whole = ["total"]
[tables.regions]
from = "visits"
columns = ["region"]
epsilon = "0.1"
[tables.whole]
from = "visits"
columns = ["region", "smoker"]
workload = "identity"
method = "topdown"
unprotected = ["total"]
epsilon = "0.2"
"""


EXACT = 'neighbours = "change-one"\nunprotected = ["total"]\n'


def checked(text):
    """Read an entry that the registry's schema accepts."""
    entry = yaml.safe_load(text)
    jsonschema.validate(entry, SCHEMA)
    return entry


@pytest.fixture(scope="module")
def published(tmp_path_factory, start_service):
    """A clinic with one release, and its service."""
    folder = tmp_path_factory.mktemp("published")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        policy, _ = write_sample(folder, 300)
        table = "[tables.visits]\n"
        text = policy.read_text().replace(table, f"{table}{EXACT}")
        # a total of all rows: each has a value
        text = text.replace('"west"] }', '"west"], null = "west" }')
        text = text.replace(
            'smoker = { type = "boolean"', 'smoker = { type = "boolean", null = false'
        )
        policy.write_text(text)
        (folder / "plan.toml").write_text(PLAN.format(policy=policy.name))
        done = release.run(folder / "plan.toml")
        key = srv.Keys(srv.Home(folder / "home")).add("ana", "analyst")
        served = start_service(
            str(policy), "--port", "0", "--workers", "1", "--home", str(folder / "home"), cwd=folder
        )
        served.keys, served.policy, served.done = {"ana": key}, policy, done
        yield served


def test_releases_are_public_and_their_records_signed(published):
    told = published("GET", "/v1/releases", who=None).json()["result"]
    assert [r["table"] for r in told["releases"]] == ["regions", "whole"]
    first, second = told["releases"]
    assert (first["title"], first["edition"], first["unprotected"]) == ("Visits", "2026", [])
    assert Fraction(first["cost"]["epsilon"]) == Fraction(1, 10)
    assert (first["unit"], first["neighbours"]) == ("person_id", "change-one")
    assert "whole: the total, exactly" in second["unprotected"][0]
    signed = published("GET", first["links"]["record"], who=None).json()["result"]
    assert srv.check(signed, signed["signature"], told["signing_key"]) == told["signing_key"]
    kept = json.loads((published.done.folder / "records" / "regions.json").read_text())
    assert [q["released"] for q in signed["records"][0]["parts"][0]["questions"]] == [
        q["released"] for q in kept["parts"][0]["questions"]
    ]
    signed["records"][0]["cost"]["epsilon"] = "1/100"
    with pytest.raises(ParameterError, match="does not fit"):
        srv.check(signed, signed["signature"])


def test_nobodys_own_answer_becomes_a_release(published):
    """Not even one whose idempotency key has the shape of a release's."""
    before = published("GET", "/v1/releases", who=None).json()["result"]["releases"]
    headers = {"Idempotency-Key": "release Visits/2026/forged/0092e206e81886d9"}
    answer = published.ask("SELECT COUNT(*) AS n FROM visits", headers=headers)
    line = answer["line"]["number"]
    assert published("GET", f"/v1/releases/{line}", who=None).status_code == 404
    assert published("GET", "/v1/releases", who=None).json()["result"]["releases"] == before
    assert published("GET", "/v1/releases/999999", who=None).status_code == 404
    assert published("GET", "/v1/releases?policy=other", who=None).status_code == 404


def test_the_entry_of_a_service_fits_the_registrys_schema(published):
    said = published("GET", "/v1/registry", who=None)
    assert said.headers["content-type"].startswith("application/yaml")
    deployment = checked(said.text)["deployment"]
    assert deployment["dp_variant"]["variant_name"] == "Approximate DP"
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": 2.0, "delta": 1e-6}
    assert "whole: the total, exactly" in deployment["dp_variant"]["unprotected_quantities"]
    assert "collusion" in deployment["deployment_model"]["access_type_details"]


def test_the_entry_of_a_release_fits_the_registrys_schema(published):
    checked((published.done.folder / "registry.yaml").read_text())


def test_the_check_of_entries_can_fail():
    with pytest.raises(jsonschema.ValidationError):
        checked("url_slug: x\nstatus: Draft\ntier: 4\ndeployment: {}\n")


def test_the_command_writes_the_entry_and_the_statement(published, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(published.cwd / "state"))
    words = ["register", str(published.policy), "--curator", "Clinic", "--use", "planning"]
    text = CliRunner().invoke(app, words).stdout
    basic = checked(text)["deployment"]["basic"]
    assert (basic["data_curators"], basic["intended_use"]) == (["Clinic"], "planning")
    file = tmp_path / "entry.yaml"
    assert CliRunner().invoke(app, [*words, "-o", str(file)]).exit_code == 0
    assert checked(file.read_text())["url_slug"] == "clinic"
    said = CliRunner().invoke(app, ["register", str(published.policy), "--statement"]).stdout
    for word in (
        "declared",
        "proved",
        "tested",
        "outside",
        "person_id",
        "whole: the total, exactly",
    ):
        assert word in said


def test_the_entry_states_the_budget_in_force(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    policy, _ = write_sample(tmp_path, 200)
    book = open_ledger(str(policy) + ".ledger", pol.load(policy))
    book.raise_budget(epsilon="3", note="more")
    text = CliRunner().invoke(app, ["register", str(policy)]).stdout
    assert checked(text)["deployment"]["privacy_loss"]["privacy_parameters"]["epsilon"] == 3.0


def test_the_public_page_needs_no_key_and_shows_no_place(published):
    page = httpx.get(f"{published.url}/public").text
    for text in ("Released under clinic", "regions", "signed record", "NIST SP 800-226", "YAML"):
        assert text in page
    assert "parquet" not in page
