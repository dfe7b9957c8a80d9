"""What statistics print, draw and suggest, as somebody who is new to them reads it."""

import re
from fractions import Fraction

import pyarrow as pa
import pytest

import discreet as dc
from discreet import inference as inf
from discreet import local
from discreet.answer import Chart
from discreet.errors import ParameterError


@pytest.fixture(scope="module")
def curator():
    columns = {
        "w": {"type": "integer", "min": 0, "max": 500},
        "pay": {"type": "integer", "min": 0, "max": 1000},
        "sex": {"type": "category", "values": ["F", "M"]},
        "town": {"type": "category", "values": list("abcdef")},
    }
    policy = {
        "policy": {"name": "prints"},
        "budget": {"epsilon": "1e6"},
        "tables": {"people": {"weight": "w", "columns": columns}},
    }
    n = 3000
    rows = {
        "w": [100 + i % 300 for i in range(n)],
        "pay": [i * 7 % 1001 for i in range(n)],
        "sex": ["FM"[i % 2] for i in range(n)],
        "town": ["abcdef"[i // 2 % 6] for i in range(n)],
    }
    return dc.open(pa.table(rows), policy=policy, ledger=":memory:")


@pytest.mark.parametrize("by", [(), "sex"])
def test_ends_of_a_survey_are_told_apart(curator, by):
    """Spaces part thousands, so that a space between two ends says nothing."""
    lines = repr(curator.survey("pay", by=by, epsilon=5)).splitlines()
    shown = [line for line in lines if line.endswith("]")]
    assert len(shown) == 3 * (2 if by else 1)
    number = r"-?\d{1,3}(\u2009\d{3})*(\.\d+)?"
    assert all(re.search(rf"  \[{number}, {number}\]$", line) for line in shown), shown


@pytest.mark.parametrize(
    "given",
    [{"within": 500, "high": 100_000}, {"within": "0.1", "low": "-0.3", "high": "0.4"},
     {"within": 2, "high": 10, "sd": 20}, {"within": 1}, {"within": 500}],
)  # fmt: skip
def test_a_mean_is_not_planned_as_a_share(given):
    with pytest.raises(ParameterError) as refused:
        inf.sample_size(**given, epsilon=1)
    hint = refused.value.hint
    (parameter, _), *_ = hint.parameters
    assert parameter == ("within" if set(given) == {"within"} else "sd")
    assert inf.sample_size(**(given | dict(hint.parameters)), epsilon=1) > 20


@pytest.mark.parametrize(("low", "high"), [(18, 90), (0, 1500), ("-0.3", "0.4"), (0, 7)])
def test_any_bounds_can_be_planned(low, high):
    """The margin is a part of the range, whose place and size do not matter."""
    reach = Fraction(high) - Fraction(low)
    n = inf.sample_size(within=reach / 20, sd=reach / 4, low=low, high=high, epsilon=1)
    assert n == inf.sample_size(within=5, sd=25, low=0, high=100, epsilon=1)


def test_a_share_has_the_bounds_of_a_share():
    assert inf.sample_size(within="0.05", low=0, high=1, epsilon=1) == 449


@pytest.fixture(scope="module")
def few(curator):
    """Counts of bins of which all but one are empty."""
    text = "SELECT w, COUNT(*) AS n FROM people GROUP BY w"
    return curator.sql(text, epsilon="0.05")


def test_what_is_shown_of_a_histogram_lies_in_its_band(few):
    """Noise takes counts of empty bins below zero, and intervals are of counts of rows."""
    band = inf.histogram(few)
    below = int((band.value < 0).sum())
    assert below > 20  # of 201 empty ones: fails with probability below 1e-20
    assert ((band.low <= band.shown) & (band.shown <= band.high)).all()
    assert (band.shown >= 0).all()
    assert band.value.sum() == sum(row["n"] for row in few.to_dicts())  # as released
    assert (band.to_pandas()["value"] >= 0).all()
    said = f"{below} noisy counts below 0 shown as 0"
    assert f"{said} (band.value has them as released)" in repr(band)
    assert not re.search(r"  -\d", repr(band))
    chart = band.chart()
    assert said in str(chart)
    assert min(row["value"] for row in chart["data"]["values"]) == 0


def test_a_band_says_nothing_of_counts_that_are_shown_as_released(curator):
    counts = curator.sql("SELECT town, COUNT(*) AS n FROM people GROUP BY town", epsilon=1)
    band = inf.histogram(counts)
    assert (band.shown == band.value).all()
    assert "below 0" not in repr(band)
    assert "below 0" not in str(band.chart())


def test_digits_of_a_band_tell_its_ends_apart(curator):
    """Spaces part thousands; shares have as many digits as the narrowest interval needs."""
    counts = curator.sql("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex", epsilon=1)
    assert re.search(
        r"F +1\u2009\d{3}  \[1\u2009\d{3}, 1\u2009\d{3}\]\n", repr(inf.histogram(counts))
    )
    share = inf.ecdf(counts)
    ends = re.search(r"F +0\.\d+  \[(0\.\d+), (0\.\d+)\]\n", repr(share))
    assert ends
    assert abs(float(ends[1]) - share.low[0]) < (share.high[0] - share.low[0]) / 10


def test_a_fit_is_printed_in_units_and_not_in_powers_of_ten(curator):
    """One digit more than the error leaves meaningful, and thousands parted."""
    fit = curator.regression("pay ~ w + sex", epsilon=50)
    rows = fit.summary().splitlines()[2:5]
    number = r"[-−]?\d{1,3}(\u2009\d{3})*(\.\d+)?"
    for row in rows:
        assert re.fullmatch(rf"\S+ +{number} +{number} +\S+( \S+)? +\[{number}, {number}\]", row), (
            row
        )
    intercept = rows[0].split()
    assert float(intercept[1].replace("\u2009", "")) == pytest.approx(
        fit.params["Intercept"], abs=fit.bse["Intercept"] / 10
    )


def _charts(curator):
    counts = curator.sql("SELECT town, COUNT(*) AS n FROM people GROUP BY town", epsilon=1)
    yield "rows: all bins at once", inf.histogram(counts).chart()
    yield "share of rows up to", inf.ecdf(counts).chart()
    yield "margin", inf.accuracy_curve([1, 2]).chart()
    yield "1000 reports", local.simulate(local.KaryResponse(4, 1), n=1000, seed=1).chart()


def test_whatever_is_drawn_can_be_saved(curator, tmp_path, monkeypatch):
    for words, chart in _charts(curator):
        assert isinstance(chart, Chart)
        chart.save(tmp_path / "c.png")
        assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
        with monkeypatch.context() as without:
            without.setitem(__import__("sys").modules, "vl_convert", None)
            shown = chart._repr_mimebundle_()
        assert shown["application/vnd.vegalite.v5+json"] == chart
        assert words in shown["text/plain"]
