"""A question that needs a δ is told one that its budget and its analyst's share have room for."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import discreet as dc
from discreet.cli import app
from discreet.curator._room import fitting_delta
from discreet.errors import Hint, ParameterError

QUESTION = "SELECT town, COUNT(*) AS n FROM people GROUP BY town"
DATA = {"people": pa.table({"id": range(400), "town": [f"t{i % 4}" for i in range(400)]})}
BUDGETS = {
    "approx": {"epsilon": "3", "delta": "1e-6", "accounting": "approx"},
    "zcdp": {"epsilon": "3", "delta": "1e-6", "accounting": "zcdp"},
    "rho": {"rho": "0.1", "delta": "1e-7", "accounting": "zcdp"},
    "shares": {"epsilon": "3", "delta": "1e-6", "shares": {"ana": "0.1"}},
    "plenty": {"epsilon": "3", "delta": "1e-3"},
}


def opened(name, budget):
    table = {"unit": "id", "max_rows_per_unit": 1, "columns": {"town": {"type": "text"}}}
    policy = {"policy": {"name": f"delta-{name}"}, "budget": budget, "tables": {"people": table}}
    return dc.open(DATA, policy=policy, ledger=":memory:", analyst="ana")


def asked(curator, how, **more):
    if how == "batch":
        with curator.batch(epsilon="0.1", **more) as batch:
            batch.sql(QUESTION)
            batch.sql(QUESTION.replace("COUNT(*)", "COUNT(DISTINCT id)"))
        return
    text = f"{QUESTION} UNION ALL {QUESTION}" if how == "union" else QUESTION
    curator.sql(text, epsilon="0.1", fresh=True, **more)


@pytest.mark.parametrize("how", ["sql", "batch", "union"])
@pytest.mark.parametrize("name", BUDGETS)
def test_the_delta_that_is_told_is_admitted_and_leaves_room(name, how):
    with opened(f"{name}-{how}", BUDGETS[name]) as curator:
        for _ in range(3):
            with pytest.raises(ParameterError) as refused:
                asked(curator, how)
            told = dict(refused.value.hint.parameters)
            assert told.keys() == {"delta"}
            asked(curator, how, **told)


def test_a_budget_without_a_delta_tells_none():
    with opened("pure", {"epsilon": "3"}) as curator:
        with pytest.raises(ParameterError) as refused:
            asked(curator, "sql")
        assert not isinstance(refused.value.hint, Hint)
        assert "under [budget] in the policy" in refused.value.hint


@pytest.mark.parametrize("hint", [None, "ask less", Hint("epsilon", "0.1")])
def test_a_refusal_for_another_reason_keeps_its_own_hint(hint):
    with (
        opened("kept", BUDGETS["approx"]) as curator,
        pytest.raises(ParameterError) as refused,
        fitting_delta(curator._balances, None),
    ):
        raise ParameterError("something else", hint=hint)
    assert refused.value.hint == hint


def test_the_command_line_is_told_the_same(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text("id,town\n" + "".join(f"{i},t\n" for i in range(99)))
    (tmp_path / "people.toml").write_text(
        '[policy]\nname = "delta-cli"\n[budget]\nepsilon = "3"\ndelta = "1e-6"\n'
        'accounting = "zcdp"\n[tables.people]\nsource = "people.csv"\nunit = "id"\n'
        'max_rows_per_unit = 1\n[tables.people.columns]\ntown = { type = "text" }\n'
    )
    command = ["ask", QUESTION, "-e", "0.2", "--json"]
    refused = json.loads(CliRunner().invoke(app, command).output)
    option, value = refused["hint"].split()
    assert option == "--delta"
    done = CliRunner().invoke(app, [*command, option, value])
    assert done.exit_code == 0, done.output
