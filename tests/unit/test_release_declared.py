"""Declared releases: read, priced, refused, paid once, written, taken up again."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import discreet as dc
from discreet import release
from discreet.cli._app import main
from discreet.errors import BudgetExceededError, ParameterError, PrivacyError
from discreet.release import _folder, _report

pytest.importorskip("vl_convert", reason="charts of a release need the extra 'charts'")

POLICY = """
[policy]
name = "{name}"
[budget]
epsilon = "{budget}"
delta = "1e-4"
accounting = "approx"
[tables.people]
source = "people.parquet"
neighbours = "change-one"
unprotected = ["total by area"]
[tables.people.columns]
area = {{ type = "category", values = ["north", "south", "west"], null = "west" }}
sex = {{ type = "category", values = ["F", "M"], null = "F" }}
age = {{ type = "integer", min = 0, max = 39, null = 0 }}
home = {{ type = "text" }}
"""

PLAN = """
title = "People of the district"
edition = "2026"
policy = "policy.toml"
output = "published"
region = "the district"

[owner]
name = "Statistics office"
reason = "seats"
unprotected.homes = ["area-totals"]
unprotected.sizes = ["groups"]

[hierarchies.ages]
column = "age"
levels = [{ young = "0..19", old = "20..39" }]

[tables.ages]
columns = ["sex", "age"]
bins = { age = 10 }
workload = ["identity", "prefix"]
method = "hb"
epsilon = "1"
round_to = 5
suppress_below = 10

[tables.young]
columns = ["age"]
bins = { age = 5 }
hierarchies = ["ages"]
method = "identity"
epsilon = "0.5"

[tables.homes]
columns = ["area", "sex"]
workload = "identity"
method = "topdown"
rho = "0.5"
unprotected = ["area-totals"]

[tables.sizes]
group = "home"
groups = 100
options = { sizes = 8 }
workload = "identity"
method = "count-of-counts"
epsilon = "1"

[tables.made]
columns = ["area", "sex", "age"]
bins = { age = 10 }
workload = "marginals"
ways = [1, 2]
method = "synthetic"
rho = "0.5"
records = 50
"""


@pytest.fixture
def place(tmp_path):
    return prepared(tmp_path)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """One release, for tests that only look at it; its ledger is known to nobody else."""
    folder = tmp_path_factory.mktemp("published")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        return release.run(prepared(folder) / "plan.toml")


def prepared(tmp_path):
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "area": rng.choice(["north", "south", "west"], 900),
            "sex": rng.choice(["F", "M"], 900),
            "age": rng.integers(0, 40, 900),
            "home": [f"h{i % 90}" for i in range(900)],
        }
    )
    pq.write_table(table, tmp_path / "people.parquet")
    text = POLICY.format(name=f"declared {tmp_path.name} {tmp_path.parent.name}", budget="30")
    (tmp_path / "policy.toml").write_text(text)
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path


def spent(place):
    with dc.open(policy=place / "policy.toml") as curator:
        return curator.budget.spent["epsilon"]


def test_a_release_is_previewed_for_free(place):
    found = release.preview(place / "plan.toml")
    assert found.refused is None
    assert set(found.proposals) == {"ages", "young", "homes", "sizes", "made"}
    assert found.proposals["ages"].plan.rmse > 0
    assert "UNPROTECTED: the number of records of each area" in repr(found)
    assert found.cost["epsilon"] > Fraction(5, 2)
    assert not (place / "published").exists()
    assert not (place / "policy.toml.ledger").exists()


def test_a_killed_release_is_taken_up_without_paying_twice(place, monkeypatch):
    whole = release.preview(place / "plan.toml").cost["epsilon"]
    real = _folder.write_issue

    def killed(folder, issue):
        if issue.declared.name == "homes":
            raise KeyboardInterrupt
        real(folder, issue)

    monkeypatch.setattr(_folder, "write_issue", killed)
    with pytest.raises(KeyboardInterrupt):
        release.run(place / "plan.toml")
    # homes was paid for and not written
    before = spent(place)
    assert 0 < before < whole
    monkeypatch.setattr(_folder, "write_issue", real)
    done = release.run(place / "plan.toml")
    assert done.paid == ["sizes", "made"]
    assert spent(place) == whole
    again = release.run(place / "plan.toml")
    assert again.paid == []
    assert spent(place) == whole
    for one, other in zip(done.issues, again.issues, strict=True):
        assert np.allclose(one.publication.answers, other.publication.answers)


def test_the_folder_holds_what_is_promised(done):
    folder = done.folder
    for name in ("ages", "young", "homes", "sizes", "made"):
        table = pq.read_table(folder / "tables" / f"{name}.parquet")
        text = pc.read_csv(folder / "tables" / f"{name}.csv")
        assert table.column_names == text.column_names
        assert {"value", "low", "high"} <= set(table.column_names)
        assert (folder / "charts" / f"{name}.svg").read_text().startswith("<svg")
        released = pq.read_table(folder / "measurements" / f"{name}.parquet")
        told = json.loads((folder / "records" / f"{name}.json").read_text())["parts"][0]
        assert released.num_rows == sum(len(q["released"]) for q in told["questions"])
    ages = pq.read_table(folder / "tables" / "ages.parquet").to_pylist()
    assert [row["age"] for row in ages[:4]] == ["≤ 9", "≤ 19", "≤ 29", "≤ 39"]
    for row in ages:
        if not row["suppressed"]:
            assert row["value"] % 5 == row["low"] % 5 == row["high"] % 5 == 0
            assert row["low"] <= row["value"] <= row["high"]
    young = pq.read_table(folder / "tables" / "young.parquet").column("age").to_pylist()
    assert young[:4] == ["young", "old", "0 … 4", "5 … 9"]
    areas = pq.read_table(folder / "tables" / "homes.parquet").to_pylist()
    data = pq.read_table(folder.parent / "people.parquet").column("area").to_pylist()
    shown = sum(row["value"] for row in areas if row["area"] == "north")
    assert shown == data.count("north")
    microdata = (folder / "microdata" / "made.csv").read_text().splitlines()
    assert microdata[0] == '"area","sex","age"'
    assert len(microdata) == 51


def test_the_report_says_whom_it_protects_and_what_it_does_not(done):
    page = (done.folder / "report.html").read_text()
    for text in (
        "Unit of protection: one row",
        "learns in which area it is",
        "values of the same block from each other",
        "So decided by Statistics office. Reason: seats.",
        "expected error",
        "The odds of",
        "noisy values below 10 left out",
        'src="charts/ages.svg"',
    ):
        assert text in page.replace("&quot;", '"'), text
    assert "<script" not in page
    for style in ("prefers-color-scheme:dark", "name=viewport", "overflow-x:auto"):
        assert style in page
    # one number in both files, and the one that was charged beside it
    together = re.search(r"All tables together: ε = ([\d.]+) at δ = 1e-06", page)[1]
    entry = (done.folder / "registry.yaml").read_text()
    stated = re.search(r"^ *epsilon: ([\d.]+)$", entry, re.MULTILINE)
    assert together == f"{float(stated[1]):.4g}"
    assert "The budget was charged the sum of their prices: ε = " in page
    assert "<p class=method>Method: " in page
    assert re.search(r"^url_slug: ", entry)
    # the names of the registry's schema, in its order
    keys = re.findall(r"^  (\w+):$", entry, re.MULTILINE)
    assert keys == ["basic", "dp_variant", "privacy_loss", "deployment_model", "accounting",
                    "implementation", "administrative"]  # fmt: skip
    assert 'variant_name: "Zero-concentrated DP"' in entry
    assert "learns in which area" in entry


@pytest.mark.races
def test_measurements_are_read_in_ten_lines(done):
    reader = done.folder / "read_measurements.py"
    assert len(reader.read_text().splitlines()) <= 10
    assert len((done.folder / "read_measurements.R").read_text().splitlines()) <= 10
    file = done.folder / "measurements" / "young.parquet"
    out = subprocess.run(
        [sys.executable, reader, file], capture_output=True, text=True, check=True
    ).stdout
    assert len(out.splitlines()) == 8
    assert "±" in out
    # in records: about 112 in each of 8 bins, and noise of scale 4 (beyond 100: below 1e-9)
    ages = [float(line.split(" ± ")[0].split()[-1]) for line in out.splitlines()]
    assert all(12 < v < 212 for v in ages)
    stops = f"{shlex.quote(sys.executable)} {shlex.quote(str(reader))} {shlex.quote(str(file))}"
    early = subprocess.run(["sh", "-c", f"{stops} | head -n 1"], capture_output=True, check=True)
    assert early.stderr == b""


def test_measurements_say_in_which_units_they_are(done):
    """A value over its scale is a number of records, whatever weights the strategy has."""
    read = pq.read_table(done.folder / "measurements" / "ages.parquet").to_pylist()
    made = next(i.publication for i in done.issues if i.declared.name == "ages")
    levels = made.plan.mechanism.query.levels
    assert {row["scale"] for row in read} == {weight for weight, _ in levels}
    cells = [row["value"] / row["scale"] for row in read if row["label"]][-8:]
    # 8 cells of about 112; noise of scale below 10 in records, beyond 250 with chance below 1e-9
    assert all(abs(v - 112) < 250 for v in cells)


def test_levels_of_a_hierarchy_and_marginals_have_panels_of_their_own(done):
    charts = {i.declared.name: i.publication.chart() for i in done.issues}
    young = charts["young"]["vconcat"]
    assert [p["title"]["text"] for p in young] == ["age, level 1", "age"]
    assert [v["row"] for v in young[0]["data"]["values"]] == ["young", "old"]
    assert len(young[1]["data"]["values"]) == 8
    assert [p["title"]["text"] for p in charts["made"]["vconcat"]] == [
        "area", "sex", "age", "area × sex", "area × age", "sex × age",
    ]  # fmt: skip
    assert "vconcat" not in charts["ages"]


def test_numbers_are_written_without_digits_that_are_mere_noise(done):
    shown = (done.folder / "tables" / "made.csv").read_text()
    assert not re.search(r"\d\.\d{3}", shown)
    young = pc.read_csv(done.folder / "tables" / "young.csv").to_pydict()
    band = next(i.band for i in done.issues if i.declared.name == "young")
    assert (np.array(young["low"]) <= band.low).all()
    assert (np.array(young["high"]) >= band.high).all()


def test_a_rehearsal_reads_nothing_and_costs_nothing(place):
    (place / "people.parquet").unlink()
    done = release.run(place / "plan.toml", dummy=True)
    assert done.folder.name == "published-dummy"
    assert all(issue.achieved is not None for issue in done.issues)
    # the true error is of the order of the expected one (median of 8 answers: a rough check)
    ages = done.issues[0]
    assert ages.achieved < 20 * ages.publication.rmse
    assert "Made-up data" in (done.folder / "report.html").read_text()
    assert not (place / "policy.toml.ledger").exists()


@pytest.mark.parametrize("mark", ["\x1b[2J", "\u202e", "\x85", "\u061c"])
@pytest.mark.parametrize("name", ["title", "edition", "output"])
def test_a_plan_cannot_steer_a_terminal(place, name, mark):
    """Its title stood in previews, reports and tables as it was."""
    plan = (place / "plan.toml").read_text()
    spelled = "".join(f"\\u{ord(c):04x}" for c in mark)
    (place / "hostile.toml").write_text(
        re.sub(f'{name} = "', f'{name} = "{re.escape(spelled)}', plan, count=1)
    )
    with pytest.raises(ParameterError, match="cannot be shown") as no:
        release.preview(place / "hostile.toml")
    assert mark not in str(no.value)


def test_a_new_edition_pays_anew(place):
    plan = (place / "plan.toml").read_text().split("[tables.young]")[0]
    (place / "one.toml").write_text(plan)
    release.run(place / "one.toml")
    first = spent(place)
    (place / "two.toml").write_text(plan.replace('"2026"', '"2027"'))
    with pytest.raises(ParameterError, match="holds something else"):
        release.run(place / "two.toml")
    assert spent(place) == first
    assert release.run(place / "two.toml", output=place / "next").paid == ["ages"]
    assert spent(place) == 2 * first


def test_a_release_beyond_the_budget_pays_for_no_table(place):
    small = (place / "policy.toml").read_text().replace('"30"', '"2"')
    (place / "policy.toml").write_text(small)
    told = release.preview(place / "plan.toml")
    assert "would be refused: the budget does not cover the release up to table" in repr(told)
    with pytest.raises(BudgetExceededError, match="nothing was charged") as refused:
        release.run(place / "plan.toml")
    assert refused.value.message == told.refused
    assert refused.value.hint == told.hint
    assert f"try: {told.hint}" in repr(told)
    assert not (place / "policy.toml.ledger").exists()
    assert not (place / "published").exists()
    assert spent(place) == 0


ZCDP = """
title = "One by rho"
policy = "policy.toml"
[owner]
name = "Statistics office"
[tables.first]
columns = ["area", "sex"]
workload = "marginals"
ways = [1, 2]
rho = "0.02"
[tables.second]
columns = ["sex"]
workload = "identity"
rho = "{rho}"
"""


def test_a_release_in_rho_is_admitted_as_the_ledger_admits_its_tables(place):
    text = (place / "policy.toml").read_text()
    text = text.replace('"approx"', '"zcdp"').replace('"30"', '"2"').replace("1e-4", "1e-6")
    (place / "policy.toml").write_text(text)
    (place / "plan.toml").write_text(ZCDP.format(rho="5"))
    with pytest.raises(
        BudgetExceededError, match=r"up to table 'second'.*nothing was charged"
    ) as refused:
        release.run(place / "plan.toml")
    assert spent(place) == 0
    fits = re.search(r'\[tables.second\] rho = "([\d.]+)"', str(refused.value.hint))[1]
    (place / "plan.toml").write_text(ZCDP.format(rho=fits))
    assert release.preview(place / "plan.toml").refused is None
    (place / "plan.toml").write_text(ZCDP.format(rho=float(fits) * 1.01))
    assert release.preview(place / "plan.toml").refused is not None
    (place / "plan.toml").write_text(ZCDP.format(rho="0.02"))
    done = release.run(place / "plan.toml")
    assert done.paid == ["first", "second"]
    assert "need not add up to the total" in repr(done)
    with dc.open(policy=place / "policy.toml") as curator:
        assert curator.budget.spent["rho"] == Fraction(4, 100)


def test_what_a_release_leaves_is_said_without_more_like_this(done):
    assert " left" in done.left
    assert "more like this" not in repr(done)


@pytest.mark.parametrize(
    ("old", "new", "error", "match"),
    [
        ('unprotected.homes = ["area-totals"]', "", PrivacyError, "learns in which area"),
        ('name = "Statistics office"', "", PrivacyError, "owner has not said so"),
        ('unprotected.sizes = ["groups"]', "", PrivacyError, "number of groups"),
        ('unprotected = ["area-totals"]', 'unprotected = ["all"]', ParameterError, "takes total"),
        ('method = "hb"', 'methods = "hb"', ParameterError, "does not take 'methods'"),
        ('hierarchies = ["ages"]', 'hierarchies = ["x"]', ParameterError, "not there"),
        ('young = "0..19"', 'young = "0..17"', ParameterError, "cuts the bin"),
        ('young = "0..19"', 'young = "50..60"', ParameterError, "no public value"),
        ('["identity", "prefix"]', '["identity"]', ParameterError, "2 columns and 1 workloads"),
        ('["identity", "prefix"]', '["identity", "x"]', ParameterError, "no workload 'x'"),
        ('title = "People of the district"', "", ParameterError, "needs a title"),
        ("groups = 100", "", PrivacyError | ParameterError, "public number of groups"),
        ("[tables.ages]", "[tables.ages", ParameterError, "not TOML"),
        ("[tables.ages]", '[tables."../x"]', ParameterError, "names of files"),
    ],
)  # fmt: skip
def test_bad_plans_are_refused_before_anything_is_paid(place, old, new, error, match):
    assert old in PLAN
    (place / "plan.toml").write_text(PLAN.replace(old, new, 1))
    kinds = error.__args__ if hasattr(error, "__args__") else error
    with pytest.raises(kinds, match=match):
        release.run(place / "plan.toml")
    assert spent(place) == 0


def test_known_totals_are_checked_against_the_distinctions_they_leave():
    """Blowfish: a total changes with no single record, area totals do unless areas are public."""
    assert _report.account(["total"], 5).secret == "every value from every other"
    assert "same block" in _report.account(["area-totals"], 5).secret


def test_the_command_line_publishes_and_previews(place, capsys):
    file = str(place / "plan.toml")
    for words, wanted in (
        (["preview", file], "expected error"),
        ([file, "--dummy"], "5 tables"),
        ([file], "5 tables"),
        ([file], "5 had been paid for before"),
    ):
        with pytest.raises(SystemExit) as left:
            main(["release", *words])
        assert left.value.code == 0
        assert wanted in " ".join(capsys.readouterr().out.split())
