"""What fitted margins say of themselves."""

import random

import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from discreet import inference as inf
from discreet.errors import NotProvedError
from discreet.inference import _combine, consistent
from discreet.noise import DiscreteLaplace
from discreet.plan import Salt, about_same_rows, lower, run
from discreet.sql import parse

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


_TOSS = random.Random("margins")
WHO = pa.table(
    {
        "who": [_TOSS.randrange(150) for _ in range(900)],
        "a": [_TOSS.choice(["x", "y", None]) for _ in range(900)],
        "b": [_TOSS.choice("uv") for _ in range(900)],
        "c": [_TOSS.randrange(10) for _ in range(900)],
    }
)
LIMITS = {
    "rows": {"max_rows_per_unit": 3},
    "groups": {"max_groups_per_unit": 2, "max_rows_per_group": 2},
    "both": {"max_rows_per_unit": 3, "max_groups_per_unit": 2, "max_rows_per_group": 2},
}
MARGINS = (MARGIN, BY_A, "SELECT b, COUNT(*) AS n FROM t GROUP BY b", CELLS)


ONE = "WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed=1)"


def _people(neighbours="add-remove", **limits):
    columns = {
        "a": {"type": "category", "values": ["x", "y"]},
        "b": {"type": "category", "values": ["u", "v"], "null": "u"},
        "c": {"type": "integer", "min": 0, "max": 9, "null": 0},
    }
    table = {"columns": columns, "unit": "who", "neighbours": neighbours, **limits}
    policy = {"policy": {"name": "who"}, "budget": {"epsilon": "1e6"}, "tables": {"t": table}}
    return dc.open(WHO, policy=policy, ledger=":memory:")


def _counts(batch, questions):
    with batch:
        asked = [batch.sql(question) for question in questions]
    return [{tuple(r.values())[:-1]: r["n"] for r in a.answer.to_dicts()} for a in asked]


def _add_up(counts):
    """Whether every margin is the sum of its cells; the last question has all keys."""
    *margins, cells = counts
    for margin, place in zip(margins, ((), (0,), (1,)), strict=True):
        for key, n in margin.items():
            if n != sum(m for cell, m in cells.items() if tuple(cell[i] for i in place) == key):
                return False
    return True


@pytest.mark.parametrize("neighbours", ["add-remove", "change-one"])
@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
def test_limits_keep_the_same_rows_where_it_is_asked(limits, neighbours):
    """Exactly, at an ε that leaves no noise; and not where it is not asked, the mutant."""
    curator = _people(neighbours, **limits)
    assert _add_up(_counts(curator.batch(epsilon=2000, nulls=True, consistent=True), MARGINS))
    assert not _add_up(_counts(curator.batch(epsilon=2000, consistent=True), MARGINS))  # NULLs
    if limits != LIMITS["rows"]:  # these share one statement, and so the rows
        assert not _add_up(_counts(curator.batch(epsilon=2000, nulls=True), MARGINS))


def test_limits_keep_the_same_rows_in_statements_of_their_own(monkeypatch):
    monkeypatch.setattr("discreet.plan._merge.MOST", 1)
    curator = _people(**LIMITS["rows"])
    assert _add_up(_counts(curator.batch(epsilon=2000, nulls=True, consistent=True), MARGINS))
    assert not _add_up(_counts(curator.batch(epsilon=2000, nulls=True), MARGINS))


def test_a_person_moves_all_questions_by_what_they_declare():
    """The statements are proved by text; here people are taken away, one by one."""
    for limits in LIMITS.values():
        curator = _people(**limits)
        asked = [parse(text, curator.policy).query for text in MARGINS]
        for query in about_same_rows(asked):
            lowered = lower(query)
            (part,), (own,) = lowered.parts, lowered.aggregates
            whole = run(own, {"t": WHO.to_pylist()}, Salt(b"one"))
            assert curator._engine.execute(own, Salt(b"one")) == whole
            for who in range(0, 150, 30):
                rest = [r for r in WHO.to_pylist() if r["who"] != who]
                less = run(own, {"t": rest}, Salt(b"one"))
                moved = [abs(whole.get(k, (0,))[0] - less.get(k, (0,))[0]) for k in whole]
                assert sum(moved) <= part.sensitivity.l1
                assert max(moved) <= part.sensitivity.linf


def test_what_cannot_agree_is_refused_before_anything_is_charged():
    curator = _people(**LIMITS["rows"])
    for questions, words in (
        ((MARGIN, f"{MARGIN} WHERE c > 3"), "the same table and WHERE"),
        ((MARGIN, "SELECT a, SUM(c) AS n FROM t GROUP BY a"), "counts of all rows"),
        ((MARGIN, "SELECT COUNT(*) * 2 AS n FROM t"), "counts of all rows"),
        ((BY_A, "SELECT c // 5 AS a, COUNT(*) AS n FROM t GROUP BY c // 5"), "two different keys"),
        (
            (
                f"SELECT {ONE} a, COUNT(*) AS n FROM t GROUP BY a",
                CELLS,
            ),
            "differently",
        ),
    ):
        with pytest.raises(dc.errors.ParameterError, match=words):
            _counts(curator.batch(epsilon=1, consistent=True), questions)
    assert curator.budget.spent["epsilon"] == 0


def test_margins_that_differ_say_so_with_the_line_that_helps():
    batch = _people(**LIMITS["groups"]).batch(epsilon=5)
    _counts(batch, MARGINS)
    assert any("consistent=True" in fact for fact in batch._questions[0].pending.answer.target)
    with pytest.raises(dc.errors.ParameterError, match="differ in truth") as refused:
        batch.consistent()
    assert refused.value.hint == "curator.batch(epsilon=1, consistent=True)"


def test_answers_of_two_batches_are_about_other_rows():
    curator, asked = _people(**LIMITS["rows"]), []
    for epsilon in (5, 6):
        batch = curator.batch(epsilon=epsilon, consistent=True)
        _counts(batch, MARGINS)
        asked += [(q.lowered.query, q.pending.answer) for q in batch._questions]
    with pytest.raises(dc.errors.ParameterError, match="differ in truth"):
        consistent(asked[:2] + asked[6:])


def test_intervals_of_cells_whose_errors_have_one_law_take_one_simulation(monkeypatch):
    """Each cell had its own: ten seconds for some hundred cells."""
    fitted = _fitted(MARGIN, BY_A, CELLS, null="x")
    each = [fitted.combined.estimate(w).interval(rng=0) for w in fitted.queries[2]]
    runs, own = [], _combine._errors
    monkeypatch.setattr(_combine, "_errors", lambda *args: runs.append(1) or own(*args))
    found = [row["n"] for row in fitted.interval(2)]
    assert len(found) == 4
    assert len(runs) == 1
    assert found == [pytest.approx((e.low, e.high)) for e in each]
    assert fitted.to_dicts(2)[0]["n"] == pytest.approx(sum(found[0]) / 2)


def test_many_queries_are_estimated_as_each_alone():
    fitted = _fitted(MARGIN, BY_A, CELLS, null="x").combined
    rows = np.array([[1.0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0], [1, -2, 0.5, 3]])
    many = fitted.estimates(rows)
    for row, found in zip(rows, many, strict=True):
        alone = fitted.estimate(row)
        assert (found.value, found.variance) == pytest.approx((alone.value, alone.variance))
    short = inf.combine([1.0, 2.0], [[1, 1, 0], [0, 1, 1]], DiscreteLaplace(3))
    with pytest.raises(NotProvedError, match="do not determine"):
        short.estimates([[1, 0, 0]])


@pytest.mark.parametrize("relation", ["add-remove", "change-one"])
@pytest.mark.parametrize("epsilon", [400, 1000, 10**6, 10**8])
def test_counts_without_any_noise_are_fitted_too(relation, epsilon):
    """At such a price the variance of the noise is zero in floating point, or its inverse is."""
    table = pa.table({"a": ["x", "x", "y"] * 20, "b": ["p", "q", "q"] * 20})
    columns = {
        name: {"type": "category", "values": values, "null": values[0]}
        for name, values in (("a", ["x", "y"]), ("b", ["p", "q"]))
    }
    policy = {
        "policy": {"name": f"exact-{relation}"},
        "budget": {"epsilon": "1000000000", "accounting": "pure"},
        "tables": {"t": {"neighbours": relation, "columns": columns}},
    }
    with dc.open(table, policy=policy, ledger=":memory:").batch(epsilon=epsilon) as batch:
        batch.sql("SELECT a, b, COUNT(*) AS n FROM t GROUP BY a, b")
        batch.sql("SELECT a, COUNT(*) AS n FROM t GROUP BY a")
    fitted = batch.consistent()
    assert [round(row["n"], 6) for row in fitted.to_dicts(1)] == [40, 20]
    assert all(high - low < 1e-6 for low, high in (row["n"] for row in fitted.interval(0)))


def test_an_exact_answer_among_noisy_ones_decides():
    """Its weight is finite, however small its noise: the estimate has next to no variance."""
    for sigma in (1e-7, 1.0):
        laws = [inf.Laplace(3), inf.Laplace(3), inf.Gaussian(sigma)]
        best = inf.combine([10, 20, 31], [[1, 0], [0, 1], [1, 1]], laws).estimate([1, 1])
        assert best.variance <= 1.001 * sigma**2
        assert abs(best.value - 31) <= 2 * sigma
