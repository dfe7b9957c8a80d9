"""``discreet ledger``: backup, restore, move, losses from elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from discreet.cli._app import app

POLICY = """
[policy]
name = "{name}"
{more}
[budget]
epsilon = "2"
[tables.people]
source = "people.parquet"
[tables.people.columns]
age = {{ type = "integer", min = 0, max = 115 }}
"""
COUNT = "SELECT COUNT(*) AS n FROM people"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    pq.write_table(pa.table({"age": [31, 47]}), "people.parquet")
    Path("people.toml").write_text(POLICY.format(name="people", more=""))
    return tmp_path


def call(*arguments, code=0):
    yes = ["--yes"] * bool({"raise", "close", "new-period"}.intersection(arguments[1:2]))
    done = CliRunner().invoke(app, [*arguments, *yes, "--json"])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def test_a_life_of_a_ledger():
    call("ask", COUNT, "-e", "0.5")
    entered = call("ledger", "external", "model of 2026", "-e", "0.25", "--key", "m")["result"]
    assert entered["entry"]["external"] == "model of 2026"
    again = call("ledger", "external", "model of 2026", "-e", "0.25", "--key", "m")["result"]
    assert again["entry"]["number"] == entered["entry"]["number"]
    assert again["whole"]["epsilon"]["left"] == "1.25"
    assert "elsewhere: model of 2026" in CliRunner().invoke(app, ["budget"]).stdout
    assert "model of 2026" in CliRunner().invoke(app, ["ledger", "export"]).stdout
    assert call("ledger", "health")["result"]["open"] == 0
    assert call("ledger", "backup", "kept")["result"]["lines"] == 4
    call("ledger", "restore", "kept", code=6)  # it is still there
    call("ask", COUNT, "-e", "0.1")
    Path("people.toml.ledger").unlink()
    assert call("ask", COUNT, "-e", "0.1", code=6)["error"] == "ledger-integrity"
    refused = call("ledger", "restore", "kept", code=6)
    assert refused["hint"] == "discreet ledger restore kept --older"
    restored = call("ledger", "restore", "kept", "--older")["result"]
    assert restored["whole"]["epsilon"]["left"] == "0"
    assert call("ledger", "verify")["result"]["debits"] == 3
    call("ledger", "forget", "--fresh-budget", code=6)


def test_totals_are_lowered_on_purpose_only():
    call("ask", COUNT, "-e", "0.5")
    refused = call("budget", "raise", "-e", "1", code=2)
    assert refused["hint"] == "discreet budget raise --epsilon 1 --lower"
    assert (
        call("budget", "raise", "-e", "1", "--lower")["result"]["whole"]["epsilon"]["total"] == "1"
    )


def test_a_second_policy_spends_from_the_first_ones_budget():
    call("ask", COUNT, "-e", "0.5")
    Path("other.toml").write_text(POLICY.format(name="other", more='beside = "people"'))
    refused = call("ask", COUNT, "-e", "0.5", "-p", "other.toml", code=6)
    assert refused["hint"] == "discreet ledger consent --to other"
    call("ledger", "consent", "--to", "other", "-p", "people.toml", "--by", "Ada")
    call("ask", COUNT, "-e", "0.5", "-p", "other.toml", "--fresh")
    whole = call("budget", "-p", "other.toml")["result"]["whole"]
    assert whole["epsilon"]["left"] == "1"
    assert not Path("other.toml.ledger").exists()


def test_a_ledger_is_adopted_and_forgotten(folder, monkeypatch):
    call("ask", COUNT, "-e", "0.5")
    Path("people.toml.ledger.anchor").unlink()
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "other host"))
    hint = call("budget", code=6)["hint"]
    assert hint == f"discreet ledger adopt --ledger {folder / 'people.toml.ledger'}"
    assert call("ledger", "adopt")["result"]["entry"]["kind"] == "adopt"
    call("budget")
    for file in folder.glob("people.*"):
        if file.suffix != ".toml":
            file.unlink()
    call("ledger", "forget", code=6)
    assert "is forgotten" in call("ledger", "forget", "--fresh-budget")["result"]["decision"]


@pytest.mark.parametrize("price", [[], ["-e", "1", "--rho", "1"], ["-e", "0"]])
def test_a_loss_is_stated_in_one_way(price):
    call("ledger", "external", "a model", *price, code=2)


def test_the_history_says_what_was_asked_by_whom_and_when():
    """A constant of the question is in it as text that no terminal and no spreadsheet obeys."""
    Path("people.toml").write_text(
        POLICY.format(name="people", more="") + 'town = { type = "text" }\n'
    )
    pq.write_table(pa.table({"age": [31, 47], "town": ["Bern", "Chur"]}), "people.parquet")
    test = "WHERE age >= 18 AND town = '\x1b[2J=1'"
    call("ask", f"{COUNT} {test}", "-e", "0.5", "--analyst", "ana")
    (line,) = [x for x in call("ledger", "export")["result"]["lines"] if x["kind"] == "debit"]
    assert line["text"].startswith("select count(*) as n")
    assert "age >= 18" in line["text"]
    assert (line["analyst"], line["epsilon"], line["when"][:2]) == ("ana", "0.5", "20")
    for command in (["budget"], ["ledger", "export"]):
        shown = CliRunner().invoke(app, command).stdout
        assert "age >= 18" in shown
        assert "\x1b" not in shown
