"""What a thief and statistician found beside the largest groups: refusals and warnings."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

import discreet as dc
from discreet import policy as pol

ROWS = pa.table({"id": [1, 1, 2], "c": ["a", "b", "d"], "k": [1, 0, 5], "y": [2, None, -4]})
NAMES = (f"thief13-{i}" for i in itertools.count())
LIMITS = [{"max_rows_per_group": 2, "max_groups_per_unit": 3},
          {"max_rows_per_group": 1, "max_rows_per_unit": 3}, {"max_rows_per_unit": 3}]  # fmt: skip
WHOLE = pol.Integer("y", -4, 9)


def opened(y=WHOLE, **limits):
    columns = [pol.Category("c", ["a", "b", "d", "e"]), pol.Integer("k", 0, 5), y]
    table = pol.Table("t", columns, unit="id", **(limits or LIMITS[2]))
    own = pol.Policy([table], pol.Budget("1000"), name=next(NAMES))
    return dc.open(ROWS, policy=own, ledger=":memory:")


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("y", [WHOLE, pol.Integer("y", 0, 9, null=0)], ids=["nullable", "filled"])
@pytest.mark.parametrize(
    ("value", "where"),
    [("SUM(y)", "y <> k"), ("SUM(y)", "y = k"), ("SUM(y + 1)", "y = k"), ("AVG(y)", "y + k > 1"),
     ("SUM(y - k)", "y > k"), ("AVG(y)", "NOT (y = k)"), ("SUM(y)", "y > k OR y < k")],
)  # fmt: skip
def test_a_comparison_of_two_columns_excludes_rows_without_them(value, where, y, limits):
    """Its rows are not NULL in the plan; the verifier knew that of comparisons with constants."""
    curator = opened(y, **limits)
    asked = f"SELECT c, {value} AS s FROM t WHERE {where} GROUP BY c"
    assert len(curator.sql(asked, epsilon=1)) == 4


@pytest.mark.parametrize("more", ["", ", AVG(k) AS b", ", AVG(k) AS b, AVG(y) AS d"])
def test_a_preview_warns_of_the_count_that_is_shown(more):
    """The note counted parts where it should have counted releases: it failed, or was wrong."""
    quote = opened().preview(
        f"SELECT c, AVG(y) AS a, COUNT(DISTINCT id) AS u{more} FROM t GROUP BY c", epsilon=1
    )
    margin = float(quote.error()["u"].split()[1].replace(",", ""))
    (said,) = [w for w in quote.warnings if "mostly noise" in w]
    assert float(said.split("about ")[1].split()[0]) == pytest.approx(2 * margin, rel=0.1)
