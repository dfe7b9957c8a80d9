"""Audit of a policy without any data. Every check is exact: the false-alarm probability is 0."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console
from typer.testing import CliRunner

from discreet import audit, errors
from discreet import policy as pol
from discreet.cli._app import app
from discreet.cli._console import telling
from discreet.cli._outcome import Exit
from discreet.engines import Reference
from discreet.plan import CALLS, FUNCTIONS

POLICY = """
[policy]
name = "small"
[budget]
epsilon = "1"
delta = "1e-6"
[tables.people]
unit = "id"
max_rows_per_unit = 2
[tables.people.columns]
sex  = { type = "category", values = ["F", "M"] }
age  = { type = "integer", min = 0, max = 9 }
town = { type = "text" }
[tables.visits]
unit = "id"
max_rows_per_unit = 1
[tables.visits.columns]
seen = { type = "date", min = 2020-01-01, max = 2020-12-31 }
[tables.shops]
public = true
[tables.shops.columns]
sex = { type = "category", values = ["F", "M"] }
"""


def reference(tables, _policy):
    return Reference(tables)


class Unclipped(Reference):
    """Mutant: ages beyond the declared bounds are added up as they are."""

    def execute(self, aggregate, salt):
        groups = super().execute(aggregate, salt)
        return {k: tuple(100 * v for v in vs) for k, vs in groups.items()}


def test_every_column_statistic_and_function_is_asked():
    found = audit.certify(POLICY, pairs=3, connect=reference)
    assert found.ok, found
    about = {(row.table, row.column) for row in found.rows}
    assert about >= {("people", "*"), ("people", "sex"), ("people", "age"), ("people", "town"),
                     ("people", "⋈ visits"), ("people", "⋈ shops"), ("visits", "seen")}  # fmt: skip
    assert all(row.questions for row in found.rows)
    # the extremes of the domain are reached, or the pairs would prove little
    assert {row.reached for row in found.rows if row.column == "age"} == {1.0}
    asked = [row for row in found.rows if row.column == "age"]
    assert asked[0].questions + asked[0].refused <= 2 * (len(CALLS) + len(FUNCTIONS)) + 20
    assert "nothing moved further than declared" in repr(found)


def test_the_same_seed_is_the_same_audit(monkeypatch):
    monkeypatch.setattr("discreet.audit._certificate._functions", lambda *_: [])
    one, two = (audit.certify(POLICY, pairs=1, connect=reference) for _ in range(2))
    assert one.rows == two.rows


def test_a_counterexample_is_shown_with_its_tables(monkeypatch):
    monkeypatch.setattr("discreet.audit._certificate._functions", lambda *_: [])
    found = audit.certify(POLICY, pairs=1, connect=lambda t, _: Unclipped(t))
    assert not found.ok
    text = repr(found)
    assert "COUNTEREXAMPLE  SELECT" in text
    assert "declared" in text
    assert "people: [" in text


def test_a_policy_without_private_tables_is_refused():
    public = pol.Table("shops", [pol.Boolean("open")], public=True)
    with pytest.raises(errors.DiscreetError):
        audit.certify(pol.Policy([public], pol.Budget("1")))


def test_the_command_prints_a_certificate_or_fails(tmp_path, monkeypatch):
    file = tmp_path / "small.toml"
    file.write_text(POLICY)
    run = CliRunner().invoke
    # one question is enough to see how it ends
    monkeypatch.setattr("discreet.audit._certificate._statistics", lambda _: [])
    monkeypatch.setattr("discreet.audit._certificate._functions", lambda *_: [])
    good = run(app, ["audit", str(file), "--pairs", "1"])
    assert good.exit_code == 0, good.output
    assert "No counterexample" in good.stdout
    told = [line for line in good.stderr.splitlines() if line.endswith("pair 1 of 1")]
    assert [line.partition(":")[0] for line in told] == ["people", "visits"]
    assert "pair 1" not in good.stdout
    from discreet.plan import Aggregate

    monkeypatch.setattr(Aggregate, "reach", property(lambda _: 1))
    bad = run(app, ["audit", str(file), "--pairs", "2", "--json"])
    assert bad.exit_code == Exit.FOUND, bad.output
    assert json.loads(bad.output)["result"]["counterexamples"]
    assert not bad.stderr
    assert run(app, ["audit"]).exit_code == Exit.USAGE
    assert run(app, ["audit", str(file), "--gallery"]).exit_code == Exit.USAGE


def test_a_terminal_shows_how_far_it_is_beside_the_spinner(monkeypatch):
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=80, markup=False)
    monkeypatch.setattr("discreet.cli._console.stderr", lambda: terminal)
    with telling("working") as tell:
        tell("people: pair \x1b[2J1 of 8")
        terminal.print("seen")  # draws the spinner again
    assert "working: people: pair" in screen.getvalue()
    assert "\x1b[2J" not in screen.getvalue()


@pytest.mark.races
def test_a_wrong_verdict_of_the_gallery_is_an_exit_code(monkeypatch):
    sound = next(e for e in audit.exhibits() if not e.broken)
    broken = next(e for e in audit.exhibits() if e.name == "exact count")
    run = CliRunner().invoke
    monkeypatch.setattr("discreet.audit.exhibits", lambda: (broken,))
    assert run(app, ["audit", "--gallery", "--draws", "60000"]).exit_code == 0
    from dataclasses import replace

    wrong = replace(sound, mechanism=broken.mechanism, epsilon=1)
    monkeypatch.setattr("discreet.audit.exhibits", lambda: (wrong,))
    assert run(app, ["audit", "--gallery", "--draws", "60000"]).exit_code == Exit.FOUND
