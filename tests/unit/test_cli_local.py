"""``discreet local`` in this process: streams in every form, refusals, the demonstration.

Estimates are compared within wide margins: each assertion about noise fails by chance with
probability below 1e-12.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from discreet.cli import app
from discreet.cli._local_work import error_bar
from discreet.cli._outcome import Exit

N = 4000
FOODS = ("pizza", "soup", "fish")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Values in all three forms: half pizza, a quarter each soup and fish."""
    monkeypatch.chdir(tmp_path)
    values = [FOODS[(0, 0, 1, 2)[i % 4]] for i in range(N)]
    with (tmp_path / "v.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "food", "age"])
        writer.writerows([i, v, i % 100] for i, v in enumerate(values))
    (tmp_path / "v.jsonl").write_text(
        "".join(json.dumps({"food": v}) + "\n" for v in values), "utf-8"
    )
    pq.write_table(pa.table({"food": values}), tmp_path / "v.parquet")
    return tmp_path


def call(*arguments, code=Exit.OK, stdin=None):
    done = CliRunner().invoke(app, ["local", *arguments], input=stdin)
    assert done.exit_code == code, done.output
    return done


def data_of(*arguments, code=Exit.OK, stdin=None):
    return json.loads(call(*arguments, "--json", code=code, stdin=stdin).stdout)


def shares(result):
    return {row["item"]: row["value"] for row in result["result"]["rows"]}


OPTIONS = ("--values", ",".join(FOODS), "--epsilon", "4")


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("reports", ["jsonl", "parquet", "csv", "bin"])
def test_values_and_reports_in_every_form(form, reports):
    column = ("--column", "food") if form == "csv" else ()
    made = data_of(
        "randomize", f"v.{form}", *column, *OPTIONS, "-o", f"r.{reports}", "--save-spec", "s"
    )
    assert made["result"]["reports"] == N
    assert made["result"]["epsilon"] == 4
    read = data_of("aggregate", f"r.{reports}", "--spec", "s")
    assert read["result"]["n"] == N
    assert read["result"]["refused"] == {}
    found = shares(read)
    assert found == pytest.approx({"pizza": 0.5, "soup": 0.25, "fish": 0.25}, abs=0.1)
    assert all(r["low"] < r["value"] < r["high"] for r in read["result"]["rows"])


def test_a_pipe_from_one_command_to_the_other():
    sent = call("randomize", "v.csv", "--column", "food", *OPTIONS)
    assert sent.stdout.count("\n") == N
    assert "pizza" not in sent.stdout
    read = data_of("aggregate", "-", *OPTIONS, stdin=sent.stdout)
    assert read["result"]["n"] == N


@pytest.mark.races
def test_a_real_pipe_shares_one_specification(folder):
    """The reader waits for the first report, before which the specification is written."""
    program = f"{sys.executable} -m discreet local"
    line = (
        f"{program} randomize v.csv --column food --values pizza,soup,fish -e 4 --save-spec s.json"
        f" | {program} aggregate - --spec s.json --json"
    )
    done = subprocess.run(
        ["sh", "-c", line], check=True, capture_output=True, text=True, cwd=folder
    )
    assert json.loads(done.stdout)["result"]["n"] == N


def test_text_output_has_bars_and_the_cost_per_unit():
    call("randomize", "v.parquet", *OPTIONS, "-o", "r.bin")
    shown = call(
        "aggregate", "r.bin", *OPTIONS, "--unit", "person", "--reports-per-unit", "3"
    ).stdout
    assert "█" in shown
    assert "ε = 12 for one person" in shown
    assert "95 % intervals" in shown


def test_totals_resume_and_merge():
    for name in ("a", "b"):
        call("randomize", "v.jsonl", *OPTIONS, "-o", f"{name}.jsonl")
    data_of("aggregate", "a.jsonl", *OPTIONS, "--state", "t.json")
    twice = data_of("aggregate", "b.jsonl", *OPTIONS, "--state", "t.json")
    assert twice["result"]["n"] == 2 * N
    both = data_of("aggregate", "a.jsonl", "b.jsonl", *OPTIONS)
    assert both["result"]["n"] == 2 * N
    assert shares(both) == pytest.approx(shares(twice))
    other = ("--values", "pizza,soup,fish", "-e", "3")
    refused = data_of("aggregate", "a.jsonl", *other, "--state", "t.json", code=Exit.USAGE)
    assert "resumed" in refused["message"]


def test_foreign_and_broken_reports_are_counted(folder):
    call("randomize", "v.jsonl", *OPTIONS, "-o", "r.jsonl")
    call("randomize", "v.jsonl", "--values", "pizza,soup,fish", "-e", "3", "-o", "other.jsonl")
    text = (folder / "r.jsonl").read_text("utf-8") + "broken\n"
    (folder / "mixed.jsonl").write_text(text + (folder / "other.jsonl").read_text("utf-8"), "utf-8")
    read = data_of("aggregate", "mixed.jsonl", *OPTIONS)
    assert read["result"]["n"] == N
    assert read["result"]["refused"] == {"format": 1, "foreign": N}
    (folder / "bad.csv").write_text("report\nzz\n00\n", "utf-8")
    call("aggregate", "bad.csv", *OPTIONS, code=Exit.USAGE)


def test_means_sketches_and_rappor(folder):
    mean = ("--protocol", "mean", "-e", "4", "--low", "0", "--high", "99")
    call("randomize", "v.csv", "--column", "age", *mean, "-o", "m.parquet")
    found = data_of("aggregate", "m.parquet", *mean)["result"]["rows"][0]
    assert found["item"] == "mean"
    assert found["value"] == pytest.approx(49.5, abs=8)
    (folder / "c.txt").write_text("pizza\nsoup\nfish\nsalad\n", "utf-8")
    for name, options in (("rappor", ()), ("hadamard-sketch", ("-e", "4"))):
        call("randomize", "v.jsonl", "--protocol", name, *options, "-o", f"{name}.bin")
        read = data_of(
            "aggregate", f"{name}.bin", "--protocol", name, *options, "--candidates", "c.txt"
        )
        assert set(shares(read)) == {"pizza", "soup", "fish", "salad"}
    call("aggregate", "rappor.bin", "--protocol", "rappor", code=Exit.USAGE)


def test_whole_numbers_with_a_named_protocol():
    options = ("--protocol", "optimized-unary", "--domain", "100", "-e", "2")
    call("randomize", "v.csv", "--column", "age", *options, "-o", "r.parquet")
    read = data_of("aggregate", "r.parquet", *options, "--simultaneous", "-c", "0.9")
    assert len(read["result"]["rows"]) == 100
    assert read["result"]["confidence"] == 0.9


def test_charts(folder):
    call("randomize", "v.jsonl", *OPTIONS, "-o", "r.jsonl")
    call("aggregate", "r.jsonl", *OPTIONS, "--chart", "c.json")
    chart = json.loads((folder / "c.json").read_text("utf-8"))
    assert [v["item"] for v in chart["data"]["values"]] == list(FOODS)


@pytest.mark.parametrize(
    "arguments",
    [
        ("randomize", "v.csv", *OPTIONS),
        ("randomize", "v.csv", "--column", "nothing", *OPTIONS),
        ("randomize", "v.csv", "--column", "food", "--values", "pizza,soup", "-e", "1"),
        ("randomize", "v.csv", "--column", "food", "--domain", "3", "-e", "1"),
        ("randomize", "v.csv", "--column", "food", "--values", "pizza,soup,fish"),
        ("randomize", "v.csv", "--column", "food", "-e", "1"),
        ("randomize", "v.csv", "--column", "food", "--values", "a", "-e", "1"),
        ("randomize", "v.csv", "--column", "food", "--protocol", "x", "--domain", "3", "-e", "1"),
        ("randomize", "v.csv", "--column", "age", "--protocol", "mean", "-e", "1"),
        ("randomize", "v.csv", "--column", "food", *OPTIONS, "-o", "r.txt"),
        ("randomize", "none.csv", *OPTIONS),
        ("randomize", "none.parquet", *OPTIONS),
        ("randomize", "v.csv", "--spec", "s.json", "-e", "1"),
        ("randomize", "v.csv", "--spec", "v.csv"),
        ("randomize", "v.csv", "--column", "food", "--values", "pizza,soup,fish", "-e", "0"),
        ("aggregate", "none.jsonl", *OPTIONS),
        ("aggregate", "none.bin", *OPTIONS),
        ("aggregate", "v.jsonl", *OPTIONS),
    ],
)
def test_refusals_are_usage_errors(arguments):
    refused = data_of(
        *arguments,
        *(("-o", "r.jsonl") if arguments[0] == "randomize" and "-o" not in arguments else ()),
        code=Exit.USAGE,
    )
    assert refused["ok"] is False
    assert refused["message"]
    # a refusal names the user's words, never a value of the data
    assert "pizza" not in refused["message"]


def test_reports_and_one_json_object_do_not_share_standard_output():
    assert "file" in data_of("randomize", "v.jsonl", *OPTIONS, code=Exit.USAGE)["message"]


def test_the_demonstration_states_unit_and_cost():
    shown = call("demo", "--people", "2000").stdout
    assert "a person who donates once" in shown
    assert "would be wrong" in shown
    assert "1.098612" in shown
    data = data_of("demo", "--people", "5000", "-e", "0.1")["result"]
    assert data["emoji"]["cost"] == {
        "one donation": 0.1,
        "a person who donates once": 0.1,
        "a person who donates up to 3 times": 0.3,
    }
    assert sum(r["truth"] for r in data["emoji"]["rows"]) == pytest.approx(1)
    assert data["survey"]["low"] < data["survey"]["value"] < data["survey"]["high"]


def test_error_bars():
    assert error_bar(0.5, 0.25, 0.75, 8) == "██├──┤··"
    assert error_bar(-0.1, -0.2, 0.0, 4) == "─···"
    assert len(error_bar(1.2, 0.9, 1.5, 10)) == 10
