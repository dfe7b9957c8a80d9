"""Charts of answers: the question above, every interval inside, dates on an axis."""

from __future__ import annotations

import datetime as dt
import json
import re
import struct

import pyarrow as pa
import pytest

import discreet as dc
from discreet.answer import Chart
from discreet.errors import ParameterError

POLICY = """
[policy]
name = "charts"
[budget]
epsilon = "1000"
[tables.visits.columns]
day = { type = "date", min = 2024-01-01, max = 2024-12-31 }
at = { type = "timestamp", min = 2024-01-01T00:00:00, max = 2024-01-03T00:00:00 }
sex = { type = "category", values = ["F", "M"] }
town = { type = "category", values = ["<b>", "Bern\\u0007"] }
age = { type = "integer", min = 0, max = 99 }
code = { type = "integer", min = 0, max = 4999 }
"""
MONTHS = "SELECT DATE_TRUNC('month', day) AS month, sex, COUNT(*) AS n FROM visits GROUP BY 1, 2"


@pytest.fixture(scope="module")
def curator():
    empty = {"day": pa.date32(), "at": pa.timestamp("us"), "sex": pa.string(), "town": pa.string(),
             "age": pa.int64(), "code": pa.int64()}  # fmt: skip
    table = pa.table({name: pa.array([], kind) for name, kind in empty.items()})
    return dc.open(table, policy=POLICY, ledger=":memory:")


def charted(curator, text, **given):
    answer = curator.sql(text, epsilon="0.5")
    return answer, answer.chart(**given)


def x_of(chart):
    return chart["spec"]["layer"][1]["encoding"]["x"]


def test_the_title_is_the_question_and_the_line_below_says_what_bars_mean(curator):
    text = "SELECT sex, COUNT(*) AS n\n  FROM visits GROUP BY sex"
    answer, chart = charted(curator, text, confidence="0.9")
    assert chart["title"]["text"] == ["SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"]
    assert "90 % intervals" in chart["title"]["subtitle"][0]
    assert answer.chart(title="Who came")["title"]["text"] == ["Who came"]
    again = dc.Answer.from_record(answer.record())
    assert again.chart()["title"]["text"] == ["n by sex"]


def test_chosen_labels_are_drawn_as_words(curator):
    """MODE alone has no number: the chart was empty."""
    answer, chart = charted(curator, "SELECT sex, MODE(town) AS town FROM visits GROUP BY sex")
    drawn = {row["group"]: row["value"] for row in chart["data"]["values"]}
    assert drawn == {row["sex"]: row["town"] for row in answer.to_dicts()}
    assert chart["spec"]["encoding"]["text"]["field"] == "value"
    assert "no interval" in chart["title"]["subtitle"][0]
    picture = chart.svg()
    assert "<b>" not in picture
    assert len(re.findall("(&lt;b&gt;|Bern[^<]*)</text>", picture)) == 2
    (only,) = charted(curator, "SELECT MODE(sex) AS a FROM visits")[1]["data"]["values"]
    assert (only["group"], only["column"]) == ("all", "a")
    _, mixed = charted(curator, "SELECT MODE(town) AS town, COUNT(*) AS n FROM visits")
    assert [row["column"] for row in mixed["data"]["values"]] == ["n"]
    assert "town not drawn beside numbers" in " ".join(mixed["title"]["subtitle"])


def test_each_number_has_its_own_interval(curator):
    answer, chart = charted(curator, "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex")
    drawn = [(v["group"], v["value"], v["low"], v["high"]) for v in chart["data"]["values"]]
    ends = answer.interval(0.95)
    assert drawn == [(r["sex"], r["n"], *e["n"]) for r, e in zip(answer, ends, strict=True)]
    bar = chart["spec"]["layer"][0]
    assert (bar["mark"]["type"], bar["encoding"]["x2"]["field"]) == ("rule", "high")


def test_dates_stand_on_an_axis_of_time_in_one_zone(curator):
    _, chart = charted(curator, MONTHS)
    assert (x_of(chart)["type"], x_of(chart)["scale"]) == ("temporal", {"type": "utc"})
    assert {v["at"] for v in chart["data"]["values"]} == {
        dt.date(2024, m, 1).isoformat() for m in range(1, 13)
    }
    assert chart["spec"]["layer"][1]["encoding"]["color"]["legend"]["title"] == "sex"
    _, chart = charted(
        curator, "SELECT DATE_TRUNC('hour', at) AS hour, COUNT(*) AS n FROM visits GROUP BY 1"
    )
    assert chart["data"]["values"][1]["at"].endswith("Z")


def test_a_long_run_of_numbers_is_an_axis_and_a_short_one_is_not(curator):
    assert (
        x_of(charted(curator, "SELECT age, COUNT(*) AS n FROM visits GROUP BY age")[1])["type"]
        == "quantitative"
    )
    _, short = charted(curator, "SELECT age, COUNT(*) AS n FROM visits WHERE age < 5 GROUP BY age")
    assert short["spec"]["layer"][0]["encoding"]["y"]["type"] == "nominal"


def test_many_rows_stay_on_a_page_and_what_is_left_out_is_said(curator):
    _, chart = charted(curator, "SELECT code, COUNT(*) AS n FROM visits GROUP BY code")
    assert len(chart["data"]["values"]) == 1000
    assert "the first 1000 of 5000 rows" in " ".join(chart["title"]["subtitle"])
    wide, high = struct.unpack(">II", chart.png()[16:24])
    assert max(wide, high) < 2400
    text = "SELECT age, sex, town, COUNT(*) AS n FROM visits WHERE age < 11 GROUP BY 1, 2, 3"
    _, chart = charted(curator, text)
    assert len(chart["data"]["values"]) == 40
    assert "the first 40 of 44 rows" in " ".join(chart["title"]["subtitle"])
    assert max(struct.unpack(">II", chart.png()[16:24])) < 2400


def test_numbers_without_an_interval_are_counted_not_drawn(curator):
    """A count of nobody is 0 or below with probability above one half: SQRT of it has no ends."""
    answer, chart = charted(curator, "SELECT sex, 1 / COUNT(*) AS x FROM visits GROUP BY sex")
    unknown = sum(e["x"][0] == -float("inf") for e in answer.interval())
    assert unknown == 2
    assert chart["data"]["values"] == []
    assert "2 numbers not determined" in " ".join(chart["title"]["subtitle"])


def test_files_and_notebooks(curator, tmp_path, monkeypatch):
    _, chart = charted(curator, "SELECT town, COUNT(*) AS n FROM visits GROUP BY town")
    starts = {"svg": b"<svg", "png": b"\x89PNG", "html": b"<!DOCTYPE html>", "json": b"{"}
    for form, start in starts.items():
        chart.save(tmp_path / f"c.{form}")
        assert (tmp_path / f"c.{form}").read_bytes().startswith(start)
    assert json.loads((tmp_path / "c.json").read_text("utf-8")) == chart
    assert b"<b>" not in (tmp_path / "c.svg").read_bytes()
    with pytest.raises(ParameterError):
        chart.save(tmp_path / "c.gif")
    bundle = chart._repr_mimebundle_(include=None, exclude=None)
    assert bundle["image/svg+xml"].startswith("<svg")
    monkeypatch.setitem(__import__("sys").modules, "vl_convert", None)
    assert "application/vnd.vegalite.v5+json" in chart._repr_mimebundle_()
    with pytest.raises(ParameterError, match="charts"):
        Chart(chart).svg()


def test_totals_are_labelled_all_and_rows_without_a_value_null(curator):
    text = "SELECT QUARTER(day) AS q, sex, COUNT(*) AS n FROM visits GROUP BY ROLLUP (q, sex)"
    drawn = json.loads(curator.sql(text, epsilon=1).chart().json())["data"]["values"]
    groups = [row["group"] for row in drawn]
    assert len(set(groups)) == len(groups)
    assert {"1, F", "1, NULL", "1, all", "NULL, all", "all, all"} <= set(groups)
