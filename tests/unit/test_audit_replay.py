"""Replay of any code that calls mechanisms. Every check is exact: the false-alarm probability is 0.

Each fault stands beside the sound code that it is a fault of.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet import audit, noise
from discreet import mechanisms as m

SMALL, LARGE = [31, 47, 60], [31, 47, 60, 99]


def kinds(function, left=SMALL, right=LARGE):
    """What is found, each sentence by its first words."""
    return audit.replay(function, left, right).violations


def test_sound_code_passes_with_every_mechanism_on_the_list():
    def study(rows):
        n = max(m.geometric(len(rows), 1, 1).value, 1)
        m.laplace(math.fsum(rows) / 7, 15, 1)
        m.gaussian([len(rows), sum(r > 40 for r in rows)], math.sqrt(2), rho=1, integer=True)
        decades = [sum(r // 25 == d for r in rows) for d in range(4)]
        m.exponential(decades, 1, 1, monotone=True)
        m.permute_and_flip(decades, 1, 1)
        top = m.noisy_max(decades, 1, 1, with_value=True)
        m.sparse_vector(decades, 1, 1, 1)
        m.threshold_keys(dict.fromkeys(rows, 1), 1, "1e-3")
        run = m.SparseVector(0, 1, 1, cutoff=2)
        found = []
        while not run.exhausted and len(found) < 50:
            found.append(run.ask(len(rows)))
        return n, top.value, top.measured, found

    report = audit.replay(study, SMALL, LARGE)
    assert report.ok, report
    names = [step.name for step in report.steps]
    assert names[:8] == ["geometric", "laplace", "gaussian", "exponential", "permute_and_flip",
                         "noisy_max", "sparse_vector", "threshold_keys"]  # fmt: skip
    assert set(names[8:]) == {"SparseVector.ask"}
    assert all("test_audit_replay.py" in step.where for step in report.steps)
    assert report.steps[0].measured == {"L1": 1}
    assert not report.notes


def test_records_may_change_one_by_one():
    def study(rows):
        return m.smooth_median(rows, 0, 100, 1).value, m.randomized_response(
            [r % 2 for r in rows], epsilon=1
        )

    assert audit.replay(study, [1, 2, 3], [1, 2, 4]).ok
    assert "records" in kinds(study, [1, 2, 3], [1, 3, 4])[0]
    assert "number of records" in kinds(study, [1, 2, 3], [1, 2])[0]


FAULTS = {
    "no clipping": (lambda rows: m.laplace(sum(rows), 60, 1).value, "moved by 99"),
    "L1 taken for L2": (
        lambda rows: m.gaussian([len(rows)] * 3, 1, rho=1).value, "declares L2 1",
    ),
    "scores move more": (lambda rows: m.exponential([2 * len(rows), 0], 1, 1).value, "moved by 2"),
    "not monotone": (
        lambda rows: m.noisy_max([len(rows), -len(rows)], 1, 1, monotone=True).value, "both ways",
    ),
    "not integers": (lambda rows: m.laplace(len(rows) / 3, 1, 1, integer=True).value, "integers"),
    "one person, many keys": (
        lambda rows: m.threshold_keys({(r, i): 1 for r in rows for i in range(2)}, 1, "1e-3").value,
        "declares keys 1, but it moved by 2",
    ),
    "sensitivity from the data": (lambda rows: m.laplace(0, max(rows), 1).value, "sensitivity=60"),
    "epsilon from the data": (lambda rows: m.laplace(0, 1, len(rows)).value, "epsilon=3"),
    "size from the data": (lambda rows: m.laplace(rows, 99, 1).value, "gets 3 numbers"),
    "as many calls as rows": (lambda rows: [m.laplace(0, 1, 1).value for _ in rows], "call 4"),
    "fewer calls": (
        lambda rows: [m.laplace(0, 1, 1).value for _ in range(5 - len(rows))], "is not called",
    ),
    "a branch on the data": (
        lambda rows: m.laplace(0, 1, 1).value if len(rows) > 3 else m.geometric(0, 1, 1).value,
        "geometric",
    ),
    "an exact number besides": (
        lambda rows: (m.laplace(0, 1, 1).value, len(rows)), "not only released numbers",
    ),
    "nothing private at all": (len, "no mechanism at all"),
    "order of the data": (lambda rows: {r: m.laplace(0, 1, 1).value for r in rows[-1:]}, "differs"),
    "an error of some data": (lambda rows: 1 // (4 - len(rows)), "raises"),
    "another error": (lambda rows: [][len(rows)] if len(rows) > 3 else {}[0], "raises"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_found(name):
    function, words = FAULTS[name]
    found = kinds(function)
    assert found
    assert any(words in text for text in found), found


def test_a_parameter_from_the_data_is_told_from_control_flow():
    report = audit.replay(lambda rows: m.laplace(0, 1, len(rows) / 10).value, SMALL, LARGE)
    (found,) = report.violations
    assert found.startswith(
        "a parameter depends on the data: epsilon=0.3 and epsilon=0.4 in call 1, laplace (test_"
    )
    assert "no calls" not in repr(report)  # there was one; the runs parted before it was measured
    assert repr(report).startswith("no call was measured")
    for name in ("as many calls as rows", "fewer calls", "a branch on the data"):
        assert kinds(FAULTS[name][0])[0].startswith("control flow depends on the data: "), name


def test_branches_on_released_numbers_are_no_fault():
    """The second run gets the outcomes of the first, so it goes the same way."""

    def study(rows):
        total = m.geometric(len(rows), 1, "0.01").value
        return [m.laplace(len(rows), 1, 1).value for _ in range(abs(total) % 7)], total > 0

    for _ in range(20):
        assert audit.replay(study, SMALL, LARGE).ok


def test_a_refusal_of_a_mechanism_is_replayed_too():
    def study(rows):
        run = m.SparseVector(-1000, 1, 1)
        run.ask(len(rows))
        return run.ask(len(rows))  # refused: it has given its answer

    assert audit.replay(study, SMALL, LARGE).ok


def test_rounding_of_doubles_is_no_fault():
    def mean(rows):
        return m.laplace(sum(rows) / 10, "0.1", 1).value

    for i in range(1, 200):
        ones = [0.1 * i] * 9
        assert audit.replay(mean, [*ones, 0.0], [*ones, 1.0]).ok
    assert not audit.replay(mean, [*ones, 0.0], [*ones, 1.0000001]).ok


def test_randomness_outside_mechanisms_is_told_apart():
    report = audit.replay(lambda rows: len(rows) + noise.uniform_below(2**60, 1)[0], SMALL, LARGE)
    assert not report.violations
    assert not report.ok  # what is not compared is not sound
    assert "randomness" in report.notes[0]
    assert repr(report).endswith("not everything could be compared")


def test_a_mechanism_of_ones_own_is_a_step():
    @audit.recorded(norm="linf")
    def loud(values, sensitivity):  # noqa: ARG001 - what it promises is read by the replay
        return np.asarray(values) + 1000 * noise.uniform_below(1000, len(values))

    @audit.recorded
    def study(rows):
        return loud([len(rows), 2 * len(rows)], sensitivity=2).tolist()

    report = study.replay(SMALL, LARGE)
    assert report.ok
    assert report.steps[0].measured == {"L∞": 2}
    assert len(study(SMALL)) == 2
    assert "moved by 9" in kinds(lambda rows: loud([9 * len(rows)], sensitivity=1).tolist())[0]


def test_the_report_reads_well():
    text = repr(audit.replay(FAULTS["no clipping"][0], SMALL, LARGE))
    assert text.splitlines()[0].split() == ["call", "where", "declared", "measured"]
    assert "FAIL  laplace  test_audit_replay.py" in text
    assert text.endswith("1 found")
    row = audit.replay(FAULTS["no clipping"][0], SMALL, LARGE).to_dicts()[0]
    assert row["declared"] == {"L1": 60.0}


def test_nothing_is_recorded_outside_a_replay():
    assert isinstance(m.laplace(0, 1, 1).value, float)
    assert m.laplace.__name__ == "laplace"
