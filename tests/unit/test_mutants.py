"""The tool that plants faults: what it plants, what it draws, which tests it asks."""

from __future__ import annotations

import json
import signal
from dataclasses import replace

import pytest
from mutants import __main__ as tool
from mutants._carry import carried
from mutants._change import Mutant, mutants_of
from mutants._suite import STALLED, UNCLEAR

SOURCE = """
LEAST = 3

class Price:
    share: int = 1

    def cost(self, x, low, high):
        if x < low:
            raise ValueError(x)
        check(x)
        return min(x + 2, high)

    def __repr__(self):
        return str(1 + 1)
"""


@pytest.fixture
def planted(tmp_path, monkeypatch):
    (tmp_path / "src/discreet").mkdir(parents=True)
    (tmp_path / "src/discreet/a.py").write_text(SOURCE)
    monkeypatch.setattr(tool, "TREE", tmp_path)
    tool._uses.cache_clear()
    return mutants_of(tmp_path / "src/discreet", "a.py")


def test_each_kind_of_fault_is_planted_and_what_people_read_is_left_alone(planted):
    made = {(m.function, m.operator, m.old, m.new) for m in planted}
    cost = "Price.cost"
    assert made == {
        ("<module>", "off by one", "3", "4"),
        ("Price", "off by one", "1", "2"),
        (cost, "compare", "x < low", "x <= low"),
        (cost, "swapped bound", "low", "high"),
        (cost, "no refusal", "raise ValueError(x)", "pass"),
        (cost, "no call", "check(x)", "pass"),
        (cost, "no clamp", "min(x + 2, high)", "(x + 2)"),
        (cost, "no clamp", "min(x + 2, high)", "(high)"),
        (cost, "swapped bound", "min", "max"),
        (cost, "dropped term", "x + 2", "(x)"),
        (cost, "sign", "x + 2", "((x) - (2))"),
        (cost, "off by one", "2", "3"),
        (cost, "swapped bound", "high", "low"),
    }


def test_a_fault_is_met_by_tests_of_its_line_and_one_of_a_class_by_all_of_the_file(planted):
    by_line = {m.line: m for m in planted}
    known = tool.Chart(
        {"near": 0.1, "far": 0.1, "slow": -1.0, "other": 0.1},
        {"near": {"a.py": 1 << 8 | 1 << 9}, "far": {"a.py": 1 << 8}, "slow": {"a.py": 1 << 9},
         "other": {"b.py": 1 << 9}},
    )  # fmt: skip
    assert [t for t, _ in known.covering(by_line[9])] == ["near"]
    assert {t for t, _ in known.covering(by_line[8])} == {"near", "far"}
    assert known.covering(by_line[11]) == []
    assert {t for t, _ in known.covering(by_line[5])} == {"near", "far"}
    assert [t for t, _ in known.covering(by_line[8])] == ["far", "near"]
    known.killers["a.py|Price.cost"] = ["near"]
    assert [t for t, _ in known.covering(by_line[8])] == ["near", "far"]


def test_a_constant_is_met_by_tests_of_the_lines_that_use_it(planted, tmp_path, monkeypatch):
    constant = next(m for m in planted if m.function == "<module>")
    far = tmp_path / "src/discreet/b.py"
    far.write_text(
        "from a import LEAST\nTWICE = 2 * LEAST\n\ndef f(x):\n    y = 1\n    return x < TWICE\n"
    )
    monkeypatch.setattr(tool, "FILES", ("a.py", "b.py"))
    tool._uses.cache_clear()
    assert tool._places(constant) == {"b.py": 1 << 6}
    known = tool.Chart(
        {"near": 0.1, "far": 0.1},
        {"near": {"b.py": 1 << 6}, "far": {"a.py": 8, "b.py": 1}},
    )
    assert known.covering(constant) == [("near", 0.1)]
    tool._uses.cache_clear()


def test_what_is_known_of_a_test_ends_when_a_module_that_it_reaches_changes(planted, tmp_path):
    assert planted
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").write_text("def test(): pass\n")

    def text():
        tool._hash.cache_clear()
        return tool._text("tests/test_a.py::test", ["a.py"])

    before = text()
    assert text() == before
    (tmp_path / "src/discreet/a.py").write_text(SOURCE + "# more\n")
    changed = text()
    (tmp_path / "tests/test_a.py").write_text("def test(): assert 1\n")
    assert len({before, changed, text()}) == 3


def test_a_sample_goes_on_where_a_smaller_one_ends():
    modules = ["plan/_stability.py", "ledger/_turn.py"]
    whole, first = tool.chosen(modules, 40, 3), tool.chosen(modules, 15, 3)
    assert first + tool.chosen(modules, 25, 3, 15) == whole
    assert len(set(whole)) == 40
    assert tool.chosen(modules, 40, 4) != whole
    every = tool.chosen(modules, None, 3)
    for file in modules:  # each module by its share
        share = 40 * sum(m.file == file for m in every) / len(every)
        assert abs(sum(m.file == file for m in whole) - share) <= 1


def test_a_reason_belongs_to_a_fault_that_exists():
    every = {m.name for f in tool.FILES for m in mutants_of(tool.ROOT / "src/discreet", f)}
    assert tool.reasons().keys() <= every


def test_names_survive_edits_elsewhere():
    one = Mutant("a.py", "f", 3, "sign", 10, 12, "+", "-")
    assert one.name == Mutant("a.py", "f", 9, "sign", 80, 82, "+", "-").name
    assert one.name != Mutant("a.py", "g", 3, "sign", 10, 12, "+", "-").name


# -- what counts as seen ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "verdict"),
    [(0, "survived"), (1, "killed"), (2, "killed"), (-signal.SIGSEGV, "killed"),
     (STALLED, "stalled"), (UNCLEAR, "unclear"), (-signal.SIGKILL, "unclear"),
     (3, "unclear"), (4, "killed"), (5, "unclear"), (70, "unclear")],
)  # fmt: skip
def test_only_a_failure_or_a_crash_kills_and_what_did_not_end_is_told_apart(code, verdict):
    assert tool._verdict(code) == verdict


class _Runs:
    """A suite whose runs end as they are told to, the one with the fault first."""

    def __init__(self, *ends):
        self.ends, self.items, self.served = list(ends), {"a": None, "b": None, "c": None}, []
        self.asked = []

    def forked(self, job, seconds):
        job()
        return self.ends.pop(0)

    def plant(self, mutant, path):
        return True

    def run(self, timed):
        self.asked.append([test for test, _ in timed])
        return 0


@pytest.mark.parametrize(
    ("ends", "verdict", "words"),
    [
        ([(0, "")], "survived", "3 tests that reach the line"),
        ([(1, "FAILED b"), (0, "")], "killed", "FAILED b"),
        ([(STALLED, "FAILED b"), (0, "")], "stalled", "FAILED b"),
        ([(UNCLEAR, "")], "unclear", ""),
        # what fails without the fault as well says nothing; the others are asked again
        ([(1, "FAILED b"), (1, "FAILED b"), (0, "")], "survived", "2 tests that reach the line"),
        (
            [(STALLED, "FAILED b"), (STALLED, ""), (0, "")],
            "survived",
            "2 tests that reach the line",
        ),
        ([(-11, "dump"), (-11, "dump"), (0, "")], "survived", "2 tests that reach the line"),
    ],
)
def test_a_fault_is_seen_only_by_tests_that_pass_without_it(planted, ends, verdict, words):
    line = {"a.py": 1 << 9}
    known = tool.Chart(
        dict.fromkeys("abc", 0.1), dict.fromkeys("abc", line), {}, dict.fromkeys("abc", "")
    )
    fault = next(m for m in planted if m.operator == "no refusal")
    suite = _Runs(*ends)
    assert tool.judge(suite, fault, known)[:2] == (verdict, words)
    assert suite.ends == []
    if verdict != "survived" and len(ends) > 1:
        assert suite.asked == [["a", "b", "c"], ["a", "b"]]  # the same, up to the one that failed


def test_what_saw_a_fault_is_asked_first_beside_it_and_need_not_pass_twice(planted):
    line = {"a.py": 1 << 9}
    known = tool.Chart(
        dict.fromkeys("abc", 0.1), dict.fromkeys("abc", line), {}, dict.fromkeys("abc", "")
    )
    fault = next(m for m in planted if m.operator == "no refusal")
    suite = _Runs((1, "FAILED c"), (0, ""), (1, "FAILED c"))
    assert tool.judge(suite, fault, known)[0] == "killed"
    assert known.sound == {"c"}
    known.saw(fault, "c")
    assert known.killers == {"a.py|Price.cost": ["c"], "a.py": ["c"]}
    assert tool.judge(suite, fault, known)[0] == "killed"
    assert suite.asked == [["a", "b", "c"], ["a", "b", "c"], ["c", "a", "b"]]
    known.killers.pop("a.py|Price.cost")  # seen in another function of the file
    assert [test for test, _ in known.covering(fault)] == ["c", "a", "b"]


def test_a_rate_counts_what_was_not_judged_as_not_seen(planted, monkeypatch, capsys):
    said = ["killed", "stalled", "survived", "survived", "unclear", None]
    sample = planted[: len(said)]
    known = {m.name: {"verdict": v, "words": "2 tests"} for m, v in zip(sample, said, strict=True)}
    monkeypatch.setattr(tool, "verdicts", lambda: known)
    monkeypatch.setattr(tool, "reasons", lambda: {sample[2].name: "the same"})
    assert tool.report(sample) == 1
    text = capsys.readouterr().out
    assert ("6 drawn: 2 killed (1 of them by a test without end), 1 equivalent, 1 survive, "
            "2 not judged" in text)  # fmt: skip
    assert "2 of 5 that change anything (40.0%)" in text
    assert text.count("not judged: ") == 2
    assert tool.report(sample[:3]) == 0
    assert tool.report(sample[4:]) == 1


def test_nets_of_a_fault_s_own_package_are_asked_before_other_tests(planted):
    fault = next(m for m in planted if m.old == "x < low")
    net = "tests/unit/test_snapshots.py::test_nothing_has_moved_unnoticed[{}-x]"
    names = ["tests/a.py::test_quick", net.format("plan"), net.format("ledger")]
    chart = tool.Chart(
        seconds={name: 0.1 + i for i, name in enumerate(names)},
        lines={name: {"a.py": 1 << fault.line} for name in names},
    )
    asked = {}
    for package in ("plan", "curator", "verify"):
        here = replace(fault, file=f"{package}/a.py")
        lines = {name: {f"{package}/a.py": 1 << fault.line} for name in names}
        (tool.TREE / "src/discreet" / package).mkdir()
        (tool.TREE / "src/discreet" / here.file).write_text(SOURCE)
        asked[package] = [t for t, _ in replace(chart, lines=lines).covering(here)]
    assert asked["plan"][0] == names[1]
    assert asked["curator"][0] == names[2]
    assert asked["verify"][0] == names[0]


def test_a_map_is_taken_over_and_lines_are_followed_to_where_they_are(tmp_path):
    before, now = "one\ntwo\nthree\nfour\n", "one\nnew\ntwo\nfour\n"
    for home, text in (("old", before), ("new", now)):
        folder = tmp_path / home / "tree/src/discreet"
        folder.mkdir(parents=True)
        (folder / "a.py").write_text(text)
        (folder / "same.py").write_text(before)
    lines = {"a.py": "16", "same.py": "1e", "gone.py": "2"}
    rows = [["t1", 0.5, lines, "x"], ["t2", 1, {"a.py": "8"}, "x"], ["t3", 1, {}, "x"]]
    (tmp_path / "old/map.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = list(carried([tmp_path / "old"], tmp_path / "new/tree", {"t1", "t2"}))
    # lines 1, 2 and 4 are 1, 3 and 4 now; the third is gone, and so is a file
    assert found == [("t1", 0.5, {"a.py": "1a", "same.py": "1e"}), ("t2", 1, {})]
