"""The tool that plants faults: what it plants, what it draws, which tests it asks."""

from __future__ import annotations

import pytest
from mutants import __main__ as tool
from mutants._change import Mutant, mutants_of

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
