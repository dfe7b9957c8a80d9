"""The page in words: right figures, honest conditions, a self-contained HTML file."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from discreet import meaning
from discreet.errors import ParameterError
from discreet.meaning._words import frequency, number, odds, percent


def test_page_says_odds_first_and_states_its_assumptions():
    text = meaning.page("0.5", "0.02")
    lines = text.splitlines()
    assert lines[0] == "What ε = 0.5 means for one person"
    assert lines[3].startswith("The odds of anything about them change by at most a factor 2.72.")
    assert "1 to 49" in text
    assert "5.26 %" in text
    assert "52.8 % for 4" in text  # a family of four
    assert "everything ever released" in text
    assert "independent of everybody else's" in text
    assert all(len(line) <= 78 for line in lines)


def test_chart_grows_with_epsilon_and_marks_the_one_asked_for():
    rows = [x for x in meaning.page("0.3", "0.02").splitlines() if re.match(r"[ ▸] ε = ", x)]
    filled = [sum(row.count(c) for c in "▏▎▍▌▋▊▉█") for row in rows]
    assert filled == sorted(filled)
    assert sum(row.startswith("▸ ε = 0.3 ") for row in rows) == 1


def test_delta_gets_no_bound_on_beliefs():
    text = meaning.page("0.5", "0.02", delta="1e-6")
    assert "no bound on beliefs" in " ".join(text.split())
    assert "5.26 %" not in text


def test_change_one_names_the_right_counterfactual():
    assert "replaced by fixed others" in meaning.page("0.5", neighbours="change-one").replace(
        "\n", " "
    )
    assert "public" in meaning.page("0.5", neighbours="change-one")


def test_group_page():
    text = meaning.page("0.5", "0.02", group=4)
    assert "4 people together" in text
    assert "52.8 %" in text


class Reader(HTMLParser):
    void = frozenset({"meta", "input", "link", "br", "img"})

    def __init__(self):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] not in (["script"], ["style"]):
            self.text.append(data)


@pytest.fixture
def reader():
    made = Reader()
    made.raw = meaning.html("0.5", "0.02", title="<b>A & B</b>")
    made.feed(made.raw)
    return made


def test_html_is_well_formed_and_shows_the_figures_without_a_script(reader):
    assert reader.open == []
    text = " ".join("".join(reader.text).split())
    assert "at most a factor 2.72" in text
    assert "1 to 18" in text
    assert "62.3 %" in text
    assert "<b>A & B</b>" in text  # escaped, hence data


def test_html_needs_no_network_and_may_not_use_one(reader):
    loading = {"src", "href", "action", "data", "poster", "srcset"}
    assert not any(loading & set(attrs) for _, attrs in reader.tags)
    assert "://" not in reader.raw
    assert not re.search(r"fetch\(|XMLHttpRequest|import\(|url\(|eval\(", reader.raw)
    policy = next(a["content"] for t, a in reader.tags if a.get("http-equiv"))
    assert policy.startswith("default-src 'none'")
    for tag in ("script", "style"):
        body = re.search(rf"<{tag}>(.*)</{tag}>", reader.raw, re.DOTALL).group(1)
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_html_has_labelled_controls(reader):
    labels = {a["for"] for t, a in reader.tags if t == "label"}
    inputs = {a["id"] for t, a in reader.tags if t == "input"}
    assert inputs == labels == {"epsilon", "prior", "group"}


def test_every_id_the_script_uses_exists(reader):
    ids = {a["id"] for _, a in reader.tags if "id" in a}
    script = re.search(r"<script>(.*)</script>", reader.raw, re.DOTALL).group(1)
    assert set(re.findall(r'\$\("([^"]+)"\)', script)) <= ids


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (percent(0.73106, "up"), "73.2 %"),
        (percent(0.73106, "down"), "73.1 %"),
        (percent(0), "0 %"),
        (percent(1), "100 %"),
        (percent(1e-9, "up"), "1.00e-7 %"),
        (odds(1 / 3), "1 to 3"),
        (odds(0.3, "up"), "1 to 3.33"),
        (odds(0.3, "down"), "1 to 3.34"),
        (odds(float("inf")), "without limit"),
        (number(float("inf")), "∞"),
        (number(0), "0"),
        (number(1000.4, "up"), "1010"),
        (frequency(0.02), "20 in 1000"),
        (frequency(1e-9, "up"), "1 in 1.00e+9"),
    ],
)
def test_numbers_as_people_say_them(call, expected):
    assert call == expected


@pytest.mark.parametrize("bad", [-1, "x", float("inf"), None])
def test_bad_epsilon_is_refused(bad):
    with pytest.raises(ParameterError):
        meaning.page(bad)
    with pytest.raises(ParameterError):
        meaning.html(bad)
