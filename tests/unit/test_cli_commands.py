"""The commands, called in this process on a small table of their own."""

from __future__ import annotations

import csv
import io
import json
import math
import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from discreet.cli import app
from discreet.cli._outcome import OPTIONS, Exit, exit_code, hint_line, plain
from discreet.errors import (
    AwaitsOwnerError,
    BudgetExceededError,
    DiscreetError,
    EngineError,
    Hint,
    LedgerBusyError,
    ParameterError,
    PolicyError,
    QueryError,
    SchemaError,
)

POLICY = """\
[policy]
name = "{name}"

[budget]
epsilon = "2"
delta = "1e-6"
accounting = "approx"

[tables.people]
source = "people.parquet"
unit = "person_id"
max_rows_per_unit = 2

[tables.people.columns]
sex = {{ type = "category", values = ["F", "M"] }}
age = {{ type = "integer", min = 0, max = 99 }}
town = {{ type = "text" }}
"""
GROUPED = "SELECT sex, COUNT(*) AS n, AVG(age) AS age FROM people GROUP BY sex"
COUNT = "SELECT COUNT(*) AS n FROM people"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with data and policy, the current one; state of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("DISCREET_POLICY", "DISCREET_ANALYST", "DISCREET_TRACEBACK"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    n = 400
    table = pa.table(
        {
            "person_id": [i // 2 for i in range(n)],
            "sex": ["FM"[i % 2] for i in range(n)],
            "age": [i % 100 for i in range(n)],
            "town": ["Bern"] * n,
        }
    )
    pq.write_table(table, home / "people.parquet")
    (home / "people.toml").write_text(POLICY.format(name=tmp_path.name), "utf-8")
    return home


def call(*arguments, code=0, **options):
    """Run a command; its standard output if the exit code is as expected."""
    yes = ["--yes"] * bool({"raise", "close", "new-period"}.intersection(arguments[1:2]))
    result = CliRunner().invoke(app, [*arguments, *yes], **options)
    assert result.exit_code == code, (result.output, result.exception)
    return result


def data(*arguments, code=0, **options):
    """Run a command with --json; the envelope."""
    result = call(*arguments, "--json", code=code, **options)
    assert not result.stderr
    return json.loads(result.stdout, parse_constant=pytest.fail)


# -- asking -----------------------------------------------------------------------------


def test_a_limit_is_chosen_on_request():
    assert (
        data("preview", COUNT, "-e", "0.5", "--limits", "auto")["result"]["cost"]["epsilon"]
        == "1/2"
    )
    told = data("ask", COUNT, "-e", "0.5", "--limits", "auto")["result"]
    assert "that limit chosen privately, for ε 0.1 more" in told["covers"]
    data("ask", COUNT, "-e", "0.5", "--limits", "most", code=2)


def test_preview_charges_nothing_and_makes_no_ledger(folder):
    told = data("preview", GROUPED, "-e", "0.5")["result"]
    assert told["cost"]["epsilon"] == "1/2"
    assert not list(folder.glob("*.ledger*"))


def test_an_owner_may_edit_the_budget_of_a_policy_that_was_only_looked_at(folder):
    call("preview", COUNT, "-e", "0.5")
    call("budget")
    call("check")
    policy = folder / "people.toml"
    policy.write_text(policy.read_text("utf-8").replace('"2"', '"3"'), "utf-8")
    assert data("ask", COUNT, "-e", "2.5")["result"]["cost"]["epsilon"] == "5/2"


def test_ask_pays_answers_and_records(folder):
    told = data("ask", GROUPED, "-e", "0.5", "--save", "r.json", "--analyst", "ana")
    assert told["ok"]
    assert told["command"] == "ask"
    result = told["result"]
    assert [row["sex"] for row in result["rows"]] == ["F", "M"]
    low, high = result["intervals"][0]["n"]
    assert low < result["rows"][0]["n"] < high
    assert result["record"] == json.loads((folder / "r.json").read_text("utf-8"))
    spent = data("budget")["result"]
    assert spent["whole"]["epsilon"] == {"spent": "0.5", "total": "2", "left": "1.5"}
    assert spent["analysts"]["ana"]["epsilon"]["spent"] == "0.5"


def test_the_same_question_again_is_free_unless_fresh():
    first = data("ask", COUNT, "-e", "0.5")["result"]
    again = data("ask", COUNT, "-e", "0.5")["result"]
    assert again["cached"]
    assert not first["cached"]
    assert again["rows"] == first["rows"]
    data("ask", COUNT, "-e", "0.5", "--fresh")
    assert data("budget")["result"]["whole"]["epsilon"]["spent"] == "1"


def test_a_retry_with_the_same_key_pays_once():
    for _ in range(2):
        data("ask", COUNT, "-e", "0.5", "--fresh", "--key", "k1")
    assert data("budget")["result"]["whole"]["epsilon"]["spent"] == "0.5"


@pytest.mark.parametrize("way", ["file", "stdin", "dash"])
def test_questions_come_from_files_and_pipes_too(folder, way):
    (folder / "q.sql").write_text(COUNT, "utf-8")
    arguments = {"file": ["-f", "q.sql"], "stdin": [], "dash": ["-f", "-"]}[way]
    told = data("ask", *arguments, "-e", "0.5", input="" if way == "file" else COUNT)
    assert told["result"]["columns"] == ["n"]


def test_margins_find_their_price():
    told = data("ask", COUNT, "--within", "n=20")["result"]
    low, high = told["intervals"][0]["n"]
    assert high - low <= 40


def test_text_output_is_plain_and_complete():
    out = call("ask", GROUPED, "-e", "0.5").stdout
    assert "\x1b" not in out
    assert "cost ε 0.5" in out
    assert "1.5 of 2 left (≈ 3 more like this)" in out
    assert all(line == line.rstrip() for line in out.splitlines())


def test_the_policy_is_found_when_it_is_the_only_one(folder):
    (folder / "pyproject.toml").write_text("[project]\nname = 'x'\n", "utf-8")
    data("preview", COUNT, "-e", "1")
    (folder / "other.toml").write_text(POLICY.format(name="other"), "utf-8")
    told = data("preview", COUNT, "-e", "1", code=2)
    assert "several policies" in told["message"]
    data("preview", COUNT, "-e", "1", "-p", "people.toml")
    data("preview", COUNT, "-e", "1", env={"DISCREET_POLICY": "people.toml"})


# -- refusals ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "error", "hint"),
    [
        (("ask", COUNT, "-e", "5"), 3, "budget-exceeded", "--epsilon 2"),
        (("ask", COUNT), 2, "parameter", "--epsilon 0.1"),
        (("ask", COUNT, "-e", "0"), 2, "parameter", "--epsilon 0.1"),
        (("ask", COUNT, "-e", "nan"), 2, "parameter", "--epsilon 0.5"),
        (("ask", "SELECT AVG(nme) AS a FROM people", "-e", "1"), 1, "unknown-name", ...),
        (("ask", "DROP TABLE people", "-e", "1"), 1, ..., ...),
        (("ask", "", "-e", "1"), 2, "usage", ...),
        (("ask", COUNT, "-f", "q.sql", "-e", "1"), 2, "usage", None),
        (("ask", "-f", "nothing.sql", "-e", "1"), 2, "usage", None),
        (("ask", COUNT, "--within", "n"), 2, "usage", "--within n=25"),
        (("ask", COUNT, "-e", "1", "-p", "nothing.toml"), 4, "policy", None),
        (("ask", COUNT, "-e", "1", "--source", "nothing.parquet"), 4, "schema", ...),
        (("ask", COUNT, "-e", "1", "--save", "no/such/folder/r.json"), 2, "usage", None),
        (("ask", COUNT, "-e", "1", "--chart", "c.gif"), 2, "usage", "--chart c.svg"),
        (("explain", "nothing.json"), 2, "usage", None),
        (("meaning", "-e", "nan"), 2, "parameter", ...),
        (("budget", "raise", "--yes"), 2, "usage", ...),
        (("budget", "shares", "ana"), 2, "usage", ...),
        (("budget", "close", "nowhere", "--yes"), ..., ..., ...),
        (("init", "nothing.parquet"), 2, "usage", None),
        (("init", "people.toml"), 2, "usage", ...),
    ],
)
def test_refusals_have_a_code_a_message_and_a_hint(arguments, code, error, hint):
    result = CliRunner().invoke(app, [*arguments, "--json"])
    told = json.loads(result.stdout)
    assert set(told) >= {"ok", "error", "message", "hint"}
    assert told["ok"] is False
    assert told["message"]
    assert result.exit_code == code if code is not ... else result.exit_code in (1, 4)
    assert error is ... or told["error"] == error
    assert hint is ... or told["hint"] == hint
    said = CliRunner().invoke(app, list(arguments))
    assert said.exit_code == result.exit_code
    assert "Traceback" not in said.output
    assert not said.stdout
    assert said.stderr.startswith("refused: ")


def test_refusals_before_paying_leave_the_budget_alone(folder, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "vl_convert", None)
    told = data("ask", COUNT, "-e", "1", "--chart", "c.png", code=2)
    assert told["hint"] == 'pip install "discreet[charts]"'
    data("ask", COUNT, "-e", "1", "--chart", "no/folder/c.json", code=2)
    assert not list(folder.glob("*.ledger"))


def test_failures_outside_the_tree_say_nothing(monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("secret cell 42")

    monkeypatch.setattr("discreet.curator.Curator.sql", fail)
    result = call("ask", COUNT, "-e", "1", code=70)
    assert "secret" not in result.output
    told = data("ask", COUNT, "-e", "1", code=70)
    assert told["error"] == "internal"
    assert "secret" not in json.dumps(told)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (QueryError("x"), Exit.REFUSED),
        (DiscreetError("x"), Exit.REFUSED),
        (ParameterError("x"), Exit.USAGE),
        (BudgetExceededError("x"), Exit.BUDGET),
        (PolicyError("x"), Exit.POLICY),
        (SchemaError("x"), Exit.POLICY),
        (EngineError("x"), Exit.ENGINE),
        (LedgerBusyError("x"), Exit.LEDGER),
        (AwaitsOwnerError("x"), Exit.WAITS),
    ],
)
def test_exit_codes_follow_the_class_of_the_error(error, code):
    assert exit_code(error) is code


RAISE = Hint.call(
    'discreet.ledger.open_ledger("/x.ledger").raise_budget',
    "discreet budget raise",
    epsilon="3",
    delta="1e-6",
)


@pytest.mark.parametrize(
    ("hint", "python", "shell"),
    [
        (Hint("delta", "1e-6"), 'delta="1e-6"', "--delta 1e-6"),
        (Hint("confidence", 0.95), "confidence=0.95", "--confidence 0.95"),
        (Hint("within", {"a b": 25}), 'within={"a b": 25}', "--within 'a b=25'"),
        (Hint("key", "k1"), 'key="k1"', "--key k1"),
        (Hint.call("f", None, key="k1"), 'f(key="k1")', 'f(key="k1")'),
        (Hint("fresh", True), "fresh=True", "--fresh"),
        (Hint("rho", 1).also("delta", "1e-6"), 'rho=1, delta="1e-6"', "--rho 1 --delta 1e-6"),
        # there is no such option, so Python's line is the best there is
        (Hint("public_fanout", {"x": 1}), 'public_fanout={"x": 1}', 'public_fanout={"x": 1}'),
        (Hint("note", 'a "b"'), r'note="a \"b\""', r'note="a \"b\""'),
        (
            RAISE,
            'discreet.ledger.open_ledger("/x.ledger").raise_budget(epsilon="3", delta="1e-6")',
            "discreet budget raise --epsilon 3 --delta 1e-6",
        ),
        ('source = "people.parquet"', 'source = "people.parquet"', 'source = "people.parquet"'),
    ],
)
def test_hints_are_written_for_python_and_for_the_shell(hint, python, shell):
    assert hint == python
    assert hint_line(hint) == shell
    assert hint_line(pickle.loads(pickle.dumps(hint))) == shell


def test_every_hinted_option_is_an_option_of_a_command():
    wide = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    offered = "".join(
        CliRunner().invoke(app, [command, "--help"], env=wide).stdout
        for command in ("ask", "meaning")
    )
    assert all(f"--{name}" in offered for name in OPTIONS)


def test_json_is_strict():
    assert plain([float("nan"), float("-inf"), {1: (2,)}]) == [None, None, {"1": [2]}]


# -- check --------------------------------------------------------------------------------


def test_check_sums_a_policy_up():
    out = call("check", "people.toml").stdout
    assert "protects each person_id, at most 2 rows (add-remove)" in out
    assert "min = 0, max = 99" in out
    told = data("check")["result"]
    assert told["schema"] == "fits"
    assert told["policy"]["tables"]["people"]["unit"] == "person_id"


def test_check_names_the_line(folder):
    policy = folder / "people.toml"
    policy.write_text(policy.read_text("utf-8").replace("min = 0, ", ""), "utf-8")
    told = data("check", code=4)
    assert told["line"] == 16
    assert "people.toml, line 16" in told["message"]
    assert told["hint"].startswith("age = {")


def test_check_compares_with_the_schema_unless_told_not_to(folder):
    policy = folder / "people.toml"
    policy.write_text(policy.read_text("utf-8").replace("age =", "aeg ="), "utf-8")
    assert data("check", code=4)["error"] == "schema"
    assert data("check", "--no-schema")["result"]["schema"] == "not compared"


# -- budget ---------------------------------------------------------------------------------


def test_owner_decisions_are_lines_of_the_chain():
    data("ask", COUNT, "-e", "1")
    data("budget", "raise", "-e", "3", "--note", "second wave", "--by", "eva")
    data("budget", "shares", "ana=0.5", "ben=0.25")
    data("budget", "close", "people")
    assert data("ask", COUNT, "-e", "0.2", code=6)["error"] == "ledger-closed"
    data("budget", "reopen")
    data("budget", "new-period")
    told = data("budget")["result"]
    assert told["period"] == 2
    assert told["whole"]["epsilon"] == {"spent": "0", "total": "3", "left": "3"}
    assert told["shares"] == {"ana": "0.5", "ben": "0.25"}
    assert told["analysts"]["ana"]["epsilon"]["total"] == "1.5"
    verified = data("ledger", "verify")["result"]
    assert (verified["lines"], verified["debits"]) == (8, 1)
    out = call("budget").stdout
    assert "new totals or shares: second wave" in out
    assert "eva" in out


def test_an_edited_ledger_is_refused_and_an_edited_budget_explained(folder):
    data("ask", COUNT, "-e", "1")
    policy = folder / "people.toml"
    policy.write_text(policy.read_text("utf-8").replace('"2"', '"3"'), "utf-8")
    told = data("ask", COUNT, "-e", "1", "--fresh", code=6)
    assert told["hint"] == "discreet budget raise --epsilon 3"
    data("budget", "raise", "--epsilon", "3")
    data("ask", COUNT, "-e", "2", "--fresh")
    (folder / "people.toml.ledger").unlink()
    assert data("ledger", "verify", code=6)["error"] == "ledger-integrity"
    assert data("ask", COUNT, "-e", "1", code=6)["error"] == "ledger-integrity"


def test_export_gives_every_line_and_no_formulas(folder):
    data("ask", COUNT, "-e", "1", "--analyst", "=cmd()")
    text = call("ledger", "export").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [r["kind"] for r in rows] == ["open", "debit", "settle"]
    assert rows[1]["analyst"] == "'=cmd()"
    assert rows[1]["epsilon"] == "1"
    call("ledger", "export", "--format", "json", "-o", "out.json")
    told = json.loads((folder / "out.json").read_text("utf-8"))
    assert told[1]["analyst"] == "=cmd()"


def test_names_cannot_steer_the_terminal():
    data("ask", COUNT, "-e", "1", "--analyst", "x\x1b[2Jy\u202ez")
    out = call("budget").stdout
    assert "\x1b" not in out
    assert "\u202e" not in out


def test_the_ledger_may_be_named_before_or_after_the_command(folder):
    data("ask", COUNT, "-e", "1")
    (folder / "other.toml").write_text(POLICY.format(name="other"), "utf-8")
    for order in (
        ["ledger", "-p", "people.toml", "verify"],
        ["ledger", "verify", "-p", "people.toml"],
    ):
        assert data(*order)["result"]["lines"] == 3


# -- explain and meaning ------------------------------------------------------------------


def test_explain_recomputes_intervals_at_any_level(folder):
    told = call("ask", GROUPED, "-e", "0.5", "--json").stdout
    (folder / "envelope.json").write_text(told, "utf-8")
    asked = json.loads(told)["result"]
    same = data("explain", "envelope.json")["result"]
    assert same["intervals"] == asked["intervals"]
    wide = data("explain", "-", "-c", "0.999", "--simultaneous", input=told)["result"]
    assert wide["intervals"][0]["n"][1] > same["intervals"][0]["n"][1]
    assert all(n["achieved"] >= 0.999 for n in wide["noise"])
    out = call("explain", "envelope.json").stdout
    assert "does not cover sampling error" in " ".join(out.split())
    assert "all kept rows of one person_id" in out


def test_explain_says_what_a_step_of_the_noise_is_in_the_units_of_the_answer(folder):
    text = "SELECT SUM(age * 0.25) AS s, MEDIAN(age) AS m FROM people"
    told = call("ask", text, "-e", "0.5", "--json").stdout
    (folder / "steps.json").write_text(told, "utf-8")
    found = data("explain", "steps.json")["result"]["noise"]
    steps = {name: step for law in found for name, step in law["one_step"].items()}
    assert steps == {"s": "0.25", "m": "one row"}
    margins = {name: law["margin"] for law in found for name in law["one_step"]}
    low, high = data("explain", "steps.json")["result"]["intervals"][0]["s"]
    assert margins["s"] * 0.25 == pytest.approx((high - low) / 2)
    out = " ".join(call("explain", "steps.json").stdout.split())
    assert "one step is 0.25 of s." in out
    assert "one step is one row to m." in out


@pytest.mark.parametrize(
    "damage",
    [
        lambda r: r["parts"].pop(),
        lambda r: r.update(formulas=[]),
        lambda r: r.update(
            outputs=[{"is": "Output", "name": "n", "expr": {"is": "Of", "index": 9}}]
        ),
        lambda r: r.update(cost={"epsilon": "x"}),
        lambda r: r.update(statement=None),
        lambda r: r["parts"][0].update(law={"law": "uniform"}),
        lambda r: r.update(discreet=99),
    ],
)
def test_damaged_records_are_refused(folder, damage):
    record = data("ask", GROUPED, "-e", "0.5")["result"]["record"]
    damage(record)
    (folder / "bad.json").write_text(json.dumps(record), "utf-8")
    for options in ([], ["--json"]):
        result = CliRunner().invoke(app, ["explain", "bad.json", *options])
        assert result.exit_code == 2, result.output
        assert "Traceback" not in result.output


@pytest.mark.parametrize("text", ["", "[]", "nope", '{"result": 3}', "[" * 5000])
def test_what_is_no_record_is_refused(text):
    assert data("explain", "-", code=2, input=text)["ok"] is False


def test_charts_are_files_or_a_clear_refusal(folder):
    from importlib.util import find_spec

    data("ask", GROUPED, "-e", "0.5", "--save", "r.json", "--chart", "c.json")
    assert json.loads((folder / "c.json").read_text("utf-8"))["data"]["values"]
    starts = {".svg": b"<svg", ".png": b"\x89PNG", ".html": b"<!DOCTYPE html>"}
    for suffix, start in starts.items():
        if find_spec("vl_convert") is None:
            told = data("explain", "r.json", "--chart", f"c{suffix}", code=2)
            assert told["hint"] == 'pip install "discreet[charts]"'
            continue
        data("explain", "r.json", "--chart", f"c{suffix}")
        raw = (folder / f"c{suffix}").read_bytes()
        assert raw.startswith(start)
    if (folder / "c.html").exists():
        page = (folder / "c.html").read_text("utf-8")
        assert "default-src 'none'" in page
        assert 'src="http' not in page


def test_charts_go_through_the_renderer(folder, monkeypatch):
    class Renderer:
        @staticmethod
        def vegalite_to_svg(spec):
            return f"<svg>{len(spec['data']['values'])}</svg>"

    monkeypatch.setitem(__import__("sys").modules, "vl_convert", Renderer)
    data("ask", GROUPED, "-e", "0.5", "--chart", "c.svg")
    assert (folder / "c.svg").read_text("utf-8") == "<svg>4</svg>"
    data("ask", GROUPED, "-e", "0.5", "--chart", "c.html")
    assert "Content-Security-Policy" in (folder / "c.html").read_text("utf-8")


def test_meaning_of_an_epsilon(folder):
    told = data("meaning", "--epsilon", "0.5", "--prior", "1/50", "--html", "m.html")["result"]
    assert told["posterior"]["high"] == pytest.approx(0.05255, abs=1e-5)
    assert told["prior"] == 0.02
    assert (folder / "m.html").read_text("utf-8").startswith("<!doctype html>")
    out = call("meaning", "-e", "0.5", "--prior", "0.02").stdout
    assert out.startswith("What ε = 0.5 means for one person\n")
    assert max(map(len, out.splitlines())) <= 80
    assert "δ = 1e-06" in call("meaning", "-e", "0.5", "-d", "1e-6").stdout


def test_meaning_of_a_ledger():
    data("ask", COUNT, "-e", "0.5")
    told = data("meaning", "-p", "people.toml", "--group", "2")["result"]
    assert told["epsilon"] == 0.5
    assert told["factor"] == pytest.approx(math.exp(2 * 2 * 0.5))
    assert "If the whole budget is spent" in call("meaning", "-p", "people.toml").stdout
