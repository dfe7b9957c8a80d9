"""``discreet budget plan``, and decisions that ask before they are taken."""

from __future__ import annotations

import datetime as dt
import json
import re
import shlex
import tomllib
from fractions import Fraction
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from discreet import policy as pol
from discreet.cli import _options, _propose
from discreet.cli._app import app
from discreet.cli._check import unread_columns

RUN = CliRunner()
POLICY = """
[policy]
name = "planned"
[budget]
epsilon = "2"
delta = "1e-6"
[tables.people]
source = "people.csv"
[tables.people.columns]
age = { type = "integer", min = 0, max = 115 }
"""


@pytest.fixture
def policy(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "people.csv").write_text("age\n31\n47\n")
    file = tmp_path / "people.toml"
    file.write_text(POLICY)
    return file


def run(*args):
    return RUN.invoke(app, list(map(str, args)), catch_exceptions=False)


def test_a_year_of_questions_has_a_price(policy):
    done = run("budget", "--policy", policy, "plan", "-n", 10, "-w", 50, "--json")
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)["result"]
    assert data["questions"] == 120
    assert data["epsilon"] == min(data["epsilon_by_sum"], data["epsilon_with_delta"])
    assert data["epsilon_by_sum"] == pytest.approx(120 * float(data["each"]), rel=1e-6)
    assert data["fits_now"] >= int(2 / float(data["each"]))
    plain = run("budget", "--policy", policy, "plan", "-n", 10, "-w", 50)
    assert "120 counts of people" in plain.stdout


@pytest.mark.parametrize("command", [["raise", "-e", "3"], ["new-period"], ["close"]])
def test_decisions_ask_at_a_terminal(policy, command, monkeypatch):
    run("ask", "SELECT COUNT(*) FROM people", "-e", "0.5", "--policy", policy)
    asked = []

    terminal = SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(_options, "sys", terminal)
    monkeypatch.setattr(_options.typer, "confirm", lambda question, **_: asked.append(question))
    assert run("budget", "--policy", policy, *command, "--yes").exit_code == 0
    assert not asked
    again = ["raise", "-e", "4"] if command[0] == "raise" else command
    assert run("budget", "--policy", policy, *again).exit_code == 0
    assert len(asked) == 1


@pytest.mark.parametrize("command", [["raise", "-e", "3"], ["new-period"], ["close"]])
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_decisions_need_a_word_where_nobody_can_be_asked(policy, command, more, monkeypatch):
    run("ask", "SELECT COUNT(*) FROM people", "-e", "0.5", "--policy", policy)
    typed = ["budget", "--policy", str(policy), *command, *more]
    monkeypatch.setattr("sys.argv", ["discreet", *typed])
    before = run("budget", "--policy", policy, "--json").stdout
    refused = run(*typed)
    assert refused.exit_code == 2
    line = shlex.join(["discreet", *typed, "--yes"])
    assert line in " ".join((refused.output + refused.stderr).split())
    assert run("budget", "--policy", policy, "--json").stdout == before
    assert run(*shlex.split(line)[1:]).exit_code == 0


def test_raise_never_lowers(policy):
    run("ask", "SELECT COUNT(*) FROM people", "-e", "0.5", "--policy", policy)
    refused = run("budget", "--policy", policy, "raise", "-e", "1", "--yes")
    assert "--lower" in refused.output + refused.stderr


def test_a_paid_check_tells_the_shares_of_missing_and_clamped_values(policy):
    (policy.parent / "people.csv").write_text("age\n" + "31\n,\n200\nabc\n" * 500)
    free = run("check", policy)
    assert "No value was looked at" in free.stdout
    done = run("check", policy, "--spend", "2", "--json")
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)["result"]["shares"]["people"]
    assert row["age: missing"] == pytest.approx(0.5, abs=0.2)
    assert row["age: at an end"] == pytest.approx(0.5, abs=0.2)  # of those that are there


def test_a_paid_check_names_the_likely_cause_of_a_column_that_is_not_read(policy):
    """Laplace noise of scale 2 at most on 2000 rows: a share off by 0.1 has chance below 1e-40."""
    (policy.parent / "people.csv").write_text("age\n" + "31 years\n" * 2000)
    done = run("check", policy, "--spend", "2")
    assert done.exit_code == 0, done.output
    words = " ".join(done.stdout.split())
    assert (
        "but much of it cannot be read: age: most values are missing, or cannot be read as integer"
    ) in words
    assert "[tables.people]?" in words


def test_a_paid_check_names_the_format_of_dates_that_are_not_read():
    """Shares are stated, not drawn: nothing here depends on noise."""
    columns = {"day": {"type": "date", "min": "2020-01-01", "max": "2030-01-01"}}
    for more, words in (({}, 'add format = "%d.%m.%Y"'), ({"format": "%m/%d/%Y"}, '"%m/%d/%Y"?')):
        table = pol.load(
            {"budget": {"epsilon": 1}, "tables": {"t": {"columns": {"day": columns["day"] | more}}}}
        ).table("t")
        shares = SimpleNamespace(interval=lambda _: [{"day: missing": (0.97, 1.0)}])
        (said,) = unread_columns(table, shares)
        assert words in said


def test_proposals_that_noise_swamps_are_comments(policy):
    """At ε 0.002 ranks of 300 rows are off by thousands: certain to be told as noise."""
    rows = "".join(f"{i % 60 + 20},Ulm\n" for i in range(300))
    (policy.parent / "people.csv").write_text("age,town\n" + rows)
    policy.write_text(POLICY.replace("max = 115", "max = 100_000"))
    done = run("init", policy, "--spend", "0.002", "--json")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)["result"]
    assert tomllib.loads(result["proposal"])["tables"]["people"]["columns"] == {}
    assert result["swamped"] == 1
    assert "spend at least ε 0.2 on this line instead of 0.002" in result["proposal"]
    assert "mostly noise: 1 of 1 proposals" in result["proposal"]


@pytest.mark.parametrize(("epsilon", "unsure"), [(0.5, 100.0), (0.5, 9.0), (0.004, 5e3)])
def test_no_line_is_advised_at_a_price_that_gives_people_away(epsilon, unsure):
    told = _propose._judged("age = …", unsure, 1.0, 100.0, Fraction(str(epsilon)))
    prices = [float(p) for p in re.findall(r"at least ε ([0-9.e+]+)", told)]
    assert all(price <= 1 for price in prices)
    assert bool(prices) == (epsilon == 0.004)
    assert prices or "2.7 to 1" in told


def test_a_proposal_for_one_column_has_the_whole_price_and_keeps_what_is_declared(policy):
    """Ranks are off by more than 14 with a probability below 1e-10 (scale 1/2)."""
    rows = "".join(f"{i % 60 + 20},{i % 28 + 1}.3.2025\n" for i in range(3000))
    (policy.parent / "people.csv").write_text("age,day\n" + rows)
    day = 'day = { type = "date", min = 2000-01-01, max = 2100-01-01, format = "%d.%m.%Y" }\n'
    policy.write_text(POLICY.replace('"2"', '"100"') + day)
    done = run("init", policy, "--spend", "60", "--column", "day", "--json")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)["result"]
    (proposed,) = tomllib.loads(result["proposal"])["tables"]["people"]["columns"].values()
    assert proposed["format"] == "%d.%m.%Y"
    assert proposed["min"] == dt.date(2025, 3, 1)
    assert result["spent"] == "60"
    wrong = run("init", policy, "--spend", "1", "--column", "pay")
    assert "there are those of age, day" in " ".join((wrong.output + wrong.stderr).split())


def test_bounds_and_lists_are_bought_under_a_generous_policy(policy):
    """Ranks are off by more than 14 with a probability below 1e-10 (scale 17/30)."""
    rows = "".join(f"{i % 60 + 20},{'Ulm' if i % 3 else 'Bern'}\n" for i in range(3000))
    (policy.parent / "people.csv").write_text("age,town\n" + rows)
    wide = POLICY.replace('"2"', '"100"').replace("max = 115", "max = 100_000")
    wide = wide.replace('delta = "1e-6"', 'delta = "1e-3"\naccounting = "approx"')
    policy.write_text(wide + 'town = { type = "text" }\n')
    done = run("init", policy, "--spend", "60", "--delta", "1e-4", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)["result"]["proposal"]
    proposed = tomllib.loads(told)["tables"]["people"]["columns"]
    assert proposed["age"]["max"] <= 1000
    assert sorted(proposed["town"]["values"]) == ["Bern", "Ulm"]
    assert "bought for ε 60;" in told
    assert "40 of 100 left" in told
    assert run("budget", "close", "people", "-p", policy, "--yes").exit_code == 0
    done = run("init", policy, "--spend", "1", "--json")
    assert json.loads(done.stdout)["result"]["spent"] == "0"
    assert run("init", policy.parent / "people.csv", "--spend", "1").exit_code != 0
