"""What a footer says of a choice and of coarse quantiles, and what stands in refusals."""

from __future__ import annotations

import math
import re

import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from discreet.errors import UnsupportedQueryError
from discreet.mechanisms import Exponential

SIZE = 400
POLICY = """
[policy]
name = "choice footers"
[budget]
epsilon = "1000000000"
[tables.v]
unit = "person"
max_rows_per_unit = 1
[tables.v.columns]
ward = {type = "category", values = ["A", "B", "C", "D"]}
postcode = {type = "integer", min = 10000, max = 99999}
cost = {type = "real", min = 0, max = 1000, step = "0.01"}
"""
DATA = pa.table(
    {
        "person": list(range(SIZE)),
        "ward": ["ABCD"[i % 4] for i in range(SIZE)],
        "postcode": [10_000 + i for i in range(SIZE)],
        "cost": [float(i) for i in range(SIZE)],
    }
)


def curator():
    return dc.open({"v": DATA}, policy=POLICY, ledger=":memory:")


@pytest.mark.parametrize("epsilon", ["0.1", "1", "3"])
def test_how_sure_a_mode_is_follows_from_the_law(epsilon):
    """The worst counts: all other values lie just so far below. Exact, so no false alarm."""
    told = str(curator().sql("SELECT MODE(ward) AS m FROM v", epsilon=epsilon))
    found = re.search(r"with 95 % no value has (\d+) rows? more than the one shown", told)
    assert found is not None
    short = int(found[1])
    for behind, bound in ((short, True), (short // 2, False)):
        law = Exponential(1, epsilon, monotone=True)
        weights = np.exp(np.array([0.0] + [-behind] * 3) / float(law.temperature))
        wrong = float(1 - weights[0] / weights.sum())
        assert (wrong <= 0.05) is bound
    assert short <= math.log(60) / float(epsilon) + 1


def test_every_mode_names_what_it_was_chosen_from():
    told = str(curator().sql("SELECT MODE(ward) AS a, MODE(cost > 500) AS b FROM v", epsilon=1))
    sure = r"chosen privately \(with 95 % no value has (\d+) rows more than the one shown\)"
    assert re.findall(rf"MODE of (\S.*?) {sure}", told) == [("ward", "9"), ("cost > 500", "6")]


def test_coarse_quantiles_say_their_steps_at_every_price():
    for epsilon in ("1", "100000"):
        told = str(curator().sql("SELECT MEDIAN(cost) AS m FROM v", epsilon=epsilon))
        assert re.search(r"quantiles of cost in steps of [0-9.]+", told)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT COUNT(DISTINCT (person, ward)) AS n FROM v", "several columns in brackets"),
        ("SELECT LEFT(CAST(postcode AS VARCHAR), 2) AS p, COUNT(*) AS n FROM v GROUP BY 1",
         "the first two digits are postcode // 1000"),
    ],
)  # fmt: skip
def test_refusals_say_what_to_write(text, said):
    with pytest.raises(UnsupportedQueryError) as refused:
        curator().preview(text, epsilon=1)
    assert said in str(refused.value)
    if "person" in text:
        assert "COUNT(DISTINCT ward) AS n FROM v GROUP BY person" in str(refused.value.hint)
