"""What people read: tables described, prices and ranges in words, warnings about δ."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import discreet as dc
from discreet.answer import cell, price
from discreet.cli import _answers, app
from discreet.cli._check import delta_words
from discreet.cli._console import stdout
from discreet.cli._outcome import Exit
from discreet.errors import DiscreetError

POLICY = """
[policy]
name = "face"
[budget]
epsilon = "10"
[tables.people]
unit = "id"
max_rows_per_unit = 1
[tables.people.columns]
sex = { type = "category", values = ["F", "<b>"] }
code = { type = "integer", min = 0, max = 899 }
[tables.towns]
public = true
[tables.towns.columns]
town = { type = "category", values = ["Bern"] }
"""

SIZED = """
[budget]
epsilon = "1"
delta = "0.01"
[service]
rows = 1000
[tables.p]
source = "p.csv"
[tables.p.columns]
age = { type = "integer", min = 0, max = 9 }
"""


@pytest.fixture(scope="module")
def curator():
    people = pa.table({"id": [1, 2], "sex": ["F", "F"], "code": [1, 2]})
    towns = pa.table({"town": ["Bern"]})
    return dc.open({"people": people, "towns": towns}, policy=POLICY, ledger=":memory:")


def test_tables_and_columns_are_described_from_the_policy(curator):
    assert curator.tables == ("people", "towns")
    text = repr(curator.describe())
    assert "people: protects each id, at most 1 row (add-remove)" in text
    assert "towns: public, protects nobody" in text
    assert "min = 0, max = 899" in text
    own = list(curator.describe("people"))
    assert [row["column"] for row in own] == ["id", "sex", "code"]
    assert "<b>" not in curator.describe("people")._repr_html_()
    with pytest.raises(DiscreetError):
        curator.describe("nowhere")


def test_a_long_answer_is_cut_where_it_is_printed_and_says_so(curator, capsys):
    answer = curator.sql("SELECT code, COUNT(*) AS n FROM people GROUP BY code", epsilon=1)
    _answers.show(stdout(), answer, "0.95")
    printed = capsys.readouterr().out
    assert "… 400 more rows: --json prints all" in printed
    assert len(printed.splitlines()) < 520


@pytest.mark.parametrize(
    ("value", "ends", "shown"),
    [
        (math.nan, (-1.0, 1.0), "NULL [-1, 1]"),
        (math.nan, (math.nan, math.nan), "NULL"),
        (14.4, (14.1, 14.8), "14.4 [14.1, 14.8]"),
        (14.41234, (14.1, 14.8), "14.41 [14.10, 14.80]"),
        (14.4, (14.2, 14.6), "14.4 ± 0.2"),
        (7, (5, 9), "7 ± 2"),
    ],
)
def test_cells_show_ranges_and_no_digits_that_rounding_took(value, ends, shown):
    assert cell(value, ends) == shown


def test_prices_name_their_delta_and_are_never_rounded_down():
    cost = {"epsilon": "1/3", "delta": "0", "rho": "1/7", "rho_delta": "1/1000"}
    assert price(cost, None) == "ε 1/3"
    assert price(cost, "ρ 0.2 of 1 left") == "ρ 1/7, δ 0.001"
    odd = {"epsilon": "123456789/1000000000", "delta": "1/3000000"}
    words = price(odd, None)
    assert words == "ε 0.1235, δ 3.334e-07"


@pytest.mark.parametrize(
    ("delta", "rows", "word"),
    [("0", 5, None), ("1e-6", None, "far fewer"), ("1e-6", 999_999, None),
     ("1e-6", 1_000_000, "at least 1/n"), ("1e-3", 4000, "at least 1/n")],
)  # fmt: skip
def test_a_delta_of_one_over_n_is_warned_of_by_the_declared_size_alone(delta, rows, word):
    words = delta_words(Fraction(delta), rows)
    assert words is None if word is None else word in words


def test_check_and_plan_say_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.csv").write_text("age\n1\n")
    (tmp_path / "p.toml").write_text(SIZED)
    plan = ("budget", "plan", "-p", "p.toml", "--questions", "2", "--within", "9")
    for words in (("check", "p.toml"), plan):
        shown = CliRunner().invoke(app, list(words)).stdout
        assert "at least 1/n" in " ".join(shown.split()), words


def test_a_fresh_draft_buys_nothing_and_says_what_to_write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "v.csv").write_text("id,age\n1,30\n")
    runner = CliRunner()
    assert runner.invoke(app, ["init", "v.csv", "--unit", "id", "--no-input"]).exit_code == 0
    assert 'name = "v"' in (tmp_path / "v.toml").read_text("utf-8")
    done = runner.invoke(app, ["init", "v.toml", "--spend", "0.1", "--json"])
    told = json.loads(done.stdout)
    assert done.exit_code == Exit.USAGE
    assert "generous" in told["message"]
    budget = json.loads(runner.invoke(app, ["budget", "-p", "v.toml", "--json"]).stdout)
    assert budget["result"]["whole"]["epsilon"]["spent"] == "0"
