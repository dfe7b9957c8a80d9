"""What fitted margins say of themselves."""

import pyarrow as pa
import pytest

import discreet as dc

MARGIN = "SELECT COUNT(*) AS n FROM t"
CELLS = "SELECT a, b, COUNT(*) AS n FROM t GROUP BY a, b"
BY_A = "SELECT a, COUNT(*) AS n FROM t GROUP BY a"


def _fitted(*questions, nulls=False, null=None):
    columns = {
        "a": {"type": "category", "values": ["x", "y"]} | ({} if null is None else {"null": null}),
        "b": {"type": "category", "values": ["u", "v"], "null": "u"},
    }
    policy = {
        "policy": {"name": "margins"},
        "budget": {"epsilon": "10"},
        "tables": {"t": {"columns": columns}},
    }
    rows = pa.table({"a": [None, "x", "y"] * 20, "b": ["u", "v"] * 30})
    with dc.open(rows, policy=policy, ledger=":memory:").batch(epsilon=3, nulls=nulls) as batch:
        for question in questions:
            batch.sql(question)
    return batch.consistent()


def test_margins_that_lack_rows_say_so():
    found = _fitted(MARGIN, CELLS)
    assert found.note is not None
    assert "'a'" in found.note
    assert "'b'" not in found.note  # the policy gives it a value where it is missing
    assert "nulls=True" in found.note
    assert found.note in repr(found)


@pytest.mark.parametrize(
    ("questions", "more"),
    [((MARGIN, CELLS), {"nulls": True}), ((MARGIN, CELLS), {"null": "x"}), ((BY_A, CELLS), {})],
    ids=["groups of NULL", "a value instead", "a key that all share"],
)
def test_margins_that_add_up_have_no_note(questions, more):
    found = _fitted(*questions, **more)
    assert found.note is None
    whole = sum(row["n"] for row in found.to_dicts(0))
    assert whole == pytest.approx(sum(row["n"] for row in found.to_dicts(1)))


def test_they_print_what_was_fitted():
    assert repr(_fitted(MARGIN, CELLS, null="x")).splitlines() == [
        "2 answers, counts fitted together",
        "  0: n (1 count)",
        "  1: n by a, b (4 counts)",
    ]
    assert "array" not in _fitted(MARGIN, CELLS)._repr_html_()
