"""What a preview says of the error of one sum over another, against releases."""

import re

import numpy as np
import pyarrow as pa
import pytest

import discreet as dc

N = 2_000
_RNG = np.random.default_rng(8)
X, FLAG = _RNG.integers(0, 101, N), _RNG.random(N) < 0.3
Y = _RNG.integers(1, 11, N)


def _curator(rows=N):
    columns = {
        "x": {"type": "integer", "min": 0, "max": 100, "null": 0},
        "y": {"type": "integer", "min": 0, "max": 10},
        "f": {"type": "boolean", "null": False},
    }
    policy = {
        "policy": {"name": "ratios"},
        "budget": {"epsilon": "1e6"},
        "tables": {"t": {"columns": columns}},
    }
    data = {"x": X[:rows], "y": Y[:rows], "f": FLAG[:rows]}
    return dc.open(pa.table(data), policy=policy, ledger=":memory:")


RATIOS = {
    "SUM(x) / COUNT(*)": (X.mean(), N),
    "SUM(y) / COUNT(*)": (Y.mean(), N),
    "COUNT(*) FILTER (WHERE f) / COUNT(*)": (FLAG.mean(), N),
    "ROUND(100.0 * COUNT(*) FILTER (WHERE f) / COUNT(*), 6)": (100 * FLAG.mean(), N),
    "100 * (SUM(y) / COUNT(*))": (100 * Y.mean(), N),
    "SUM(x) / SUM(y)": (X.sum() / Y.sum(), Y.sum()),
    "SUM(y) / COUNT(*) FILTER (WHERE f)": (Y.sum() / FLAG.sum(), FLAG.sum()),
}


def _most(text, ratio):
    """The largest margin that a text states, times what it is divided by."""
    text = text.replace("\u2009", "").replace(",", "")
    by = r" if (?:divided by )?(\d+)(?: rows)? \(a tenth of it if .*\)"
    if found := re.fullmatch(rf"± about ([\d.]+) \+ ([\d.]+) × the ratio{by}", text):
        return (float(found[1]) + float(found[2]) * ratio) * int(found[3])
    found = re.fullmatch(rf"± about (?:[\d.]+ to )?([\d.]+){by}", text)
    return float(found[1]) * int(found[2])


@pytest.mark.parametrize("ratio", RATIOS)
def test_the_error_of_a_ratio_is_stated_and_holds(ratio):
    """Of fifty errors 5 % may be beyond: that more than 15 are has a chance below 1e-8."""
    curator = _curator()
    question = f"SELECT {ratio} AS r FROM t"
    truth, divisor = RATIOS[ratio]
    text = curator.preview(question, epsilon=1).error()["r"]
    margin = _most(text, truth) / divisor
    answers = [curator.sql(question, epsilon=1, fresh=True) for _ in range(50)]
    errors = np.abs(np.array([a.to_dicts()[0]["r"] for a in answers]) - truth)
    assert (errors > margin).sum() <= 15
    assert errors.max() > margin / 12  # nor is it far off


def test_a_preview_of_a_ratio_knows_no_data_and_what_is_no_ratio_has_no_line():
    few, many = (_curator(n).preview("SELECT SUM(x) / SUM(y) AS r FROM t", epsilon=1)
                 for n in (3, N))  # fmt: skip
    assert few.error() == many.error()
    assert "error   r: ± about " in repr(many)
    shifted = _curator(3).preview("SELECT SUM(x) / (SUM(y) + 1) AS r FROM t", epsilon=1)
    assert shifted.error()["r"].endswith("10\u2009000)")
    odd = _curator(3).preview("SELECT LN(SUM(x) / SUM(y)) AS r FROM t", epsilon=1)
    assert odd.error() == {}
    mean = _curator(3).preview("SELECT AVG(x) AS a, SUM(y) / COUNT(*) AS r FROM t", epsilon=1)
    assert " rows (a tenth of it if " in mean.error()["r"]
