"""After the noise, free: windows and totals equal DuckDB's over the released numbers."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from discreet.answer import Answer, cells
from discreet.answer._windows import half_widths
from discreet.errors import DiscreetError, ParameterError
from discreet.noise import DiscreteLaplace
from discreet.plan import few_digits

ROWS = [(s, w, a) for s in "FM" for w in "abcde" for a in range(2, 3 + ord(w) % 7 * 5)]
DATA = pa.table(dict(zip(("sex", "ward", "age"), zip(*ROWS, strict=True), strict=True)))
POLICY = {
    "policy": {"name": "after"},
    "budget": {"epsilon": "1e6", "accounting": "pure"},
    "tables": {
        "people": {
            "columns": {
                "sex": {"type": "category", "values": ["F", "M"], "null": "F"},
                "ward": {"type": "category", "values": list("abcde"), "null": "a"},
                "age": {"type": "integer", "min": 0, "max": 60},
                "city": {"type": "text"},
            }
        }
    },
}


@pytest.fixture(scope="module")
def curator():
    data = DATA.append_column("city", pa.array(["Ulm"] * len(DATA)))
    with dc.open(data, policy=POLICY, ledger=":memory:") as opened:
        yield opened


def same(left, right):
    for mine, theirs in zip(left, right, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            if b is None or (isinstance(b, float) and np.isnan(b)):
                assert a is None or np.isnan(a)
            elif isinstance(b, str):
                assert a == b
            else:
                assert a == pytest.approx(float(b))


WINDOWS = [
    "SUM(n) OVER ()",
    "100.0 * n / SUM(n) OVER (PARTITION BY sex)",
    "SUM(n) OVER (ORDER BY ward)",
    "SUM(n) OVER (PARTITION BY sex ORDER BY ward DESC)",
    "AVG(n) OVER (PARTITION BY sex ORDER BY ward ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
    "SUM(n) OVER (PARTITION BY sex ORDER BY ward ROWS 2 PRECEDING)",
    "SUM(n) OVER (PARTITION BY sex ORDER BY ward ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
    "MIN(n) OVER (PARTITION BY sex ORDER BY ward)",
    "MAX(n) OVER (PARTITION BY ward)",
    "COUNT(*) OVER (PARTITION BY sex)",
    "n - LAG(n) OVER (PARTITION BY sex ORDER BY ward)",
    "LEAD(n, 2, 0) OVER (PARTITION BY sex ORDER BY ward)",
    "FIRST_VALUE(n) OVER (PARTITION BY sex ORDER BY ward)",
    "LAST_VALUE(n) OVER (PARTITION BY sex ORDER BY ward)",
    "RANK() OVER (ORDER BY n DESC)",
    "DENSE_RANK() OVER (ORDER BY n)",
    "ROW_NUMBER() OVER (ORDER BY n, sex, ward)",
    "PERCENT_RANK() OVER (PARTITION BY sex ORDER BY n)",
    "CUME_DIST() OVER (ORDER BY n DESC)",
    "NTILE(3) OVER (ORDER BY n, sex, ward)",
]


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("having", ["", "HAVING COUNT(*) > 8"])
def test_windows_equal_those_of_duckdb_over_the_same_numbers(curator, window, having):
    text = f"SELECT sex, ward, COUNT(*) AS n, {window} AS x FROM people GROUP BY sex, ward {having}"
    answer = curator.sql(f"{text} ORDER BY sex, ward", epsilon=1)
    rows = [(r["sex"], r["ward"], r["n"], r["x"]) for r in answer.to_dicts()]
    db = duckdb.connect()
    db.execute("CREATE TABLE t (sex VARCHAR, ward VARCHAR, n DOUBLE)")
    if rows:
        db.executemany("INSERT INTO t VALUES (?, ?, ?)", [r[:3] for r in rows])
    same(rows, db.execute(f"SELECT sex, ward, n, {window} FROM t ORDER BY 1, 2").fetchall())
    again = Answer.from_record(answer.record())
    for value, ends in zip(answer.to_dicts(), again.interval(0.9), strict=True):
        low, high = ends["x"] if isinstance(ends["x"], tuple) else (value["x"],) * 2
        assert value["x"] is None or low <= value["x"] <= high


LEVELS = [
    "ROLLUP (sex, ward)",
    "CUBE (sex, ward)",
    "GROUPING SETS ((sex, ward), (ward), ())",
    "sex, ROLLUP (ward)",
    "GROUPING SETS (ROLLUP (sex), (ward))",
    "ROLLUP ((sex, ward))",
]


@pytest.mark.parametrize("levels", LEVELS)
def test_totals_are_sums_of_the_cells_that_were_released(curator, levels):
    select = "SELECT sex, ward, GROUPING(sex) AS g, {} FROM {} GROUP BY " + levels
    text = select.format("COUNT(*) AS n, SUM(age) AS s", "people")
    answer = curator.sql(text, epsilon=1)
    record = answer.record()
    finest = "SELECT sex, ward, COUNT(*) AS n, SUM(age) AS s FROM people GROUP BY sex, ward"
    again = curator.sql(finest, epsilon=1)
    assert again.cached  # the same measurement
    cells = [tuple(row.values()) for row in again.to_dicts()]
    db = duckdb.connect()
    db.execute("CREATE TABLE t (sex VARCHAR, ward VARCHAR, n DOUBLE, s DOUBLE)")
    db.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", cells)
    truth = db.execute(select.format("SUM(n), SUM(s)", "t")).fetchall()

    def order(row):
        return tuple(str(v) for v in row[:3])

    rows = sorted((tuple(r.values()) for r in answer.to_dicts()), key=order)
    same(rows, sorted(truth, key=order))
    assert Answer.from_record(record).to_dicts() == answer.to_dicts()


def test_totals_are_not_printed_as_missing_keys():
    """Both were NULL; frames and dictionaries keep SQL's NULL."""
    sex = {"type": "category", "values": ["F", "(all)"]}
    policy = {
        "policy": {"name": "totals"},
        "budget": {"epsilon": "100", "accounting": "pure"},
        "tables": {"t": {"columns": {"s": sex}}},
    }
    own = dc.open(pa.table({"s": ["F", None, "(all)"]}), policy=policy, ledger=":memory:")
    text = "SELECT s, COUNT(*) AS n FROM t GROUP BY ROLLUP (s)"
    one = own.sql(text, epsilon=50)
    both = own.sql(f"{text} UNION ALL SELECT s, COUNT(*) AS n FROM t GROUP BY s", epsilon=40)
    named = ["F", "(all)", "NULL", "(all)_"]  # a label is not taken for a total
    assert [row["s"] for row in one.to_dicts()] == ["F", "(all)", None, None]
    assert [row[0] for row in cells(one, one.interval())] == named
    assert [row[0] for row in cells(both, both.interval())] == [*named, "F", "(all)"]
    for shown in (repr(one), one._repr_html_(), repr(both)):
        assert "NULL" in shown
        assert "(all)_" in shown


def test_rollup_pays_for_the_finest_level_alone(curator):
    finest = curator.preview("SELECT sex, ward, COUNT(*) FROM people GROUP BY 1, 2", epsilon=1)
    rolled = curator.preview(
        "SELECT sex, ward, COUNT(*) FROM people GROUP BY ROLLUP (sex, ward)", epsilon=1
    )
    assert [p.law for p in finest.plan.parts] == [p.law for p in rolled.plan.parts]


REFUSALS = [
    "SELECT sex, MEDIAN(age) FROM people GROUP BY ROLLUP (sex)",
    "SELECT city, COUNT(*) FROM people GROUP BY ROLLUP (city)",
    "SELECT sex, COUNT(*) FROM people GROUP BY sex HAVING RANK() OVER (ORDER BY COUNT(*)) < 2",
    "SELECT sex, SUM(age) OVER () FROM people GROUP BY sex",
    "SELECT sex, RANK() OVER () FROM people GROUP BY sex",
    "SELECT sex, NTILE(0) OVER (ORDER BY COUNT(*)) FROM people GROUP BY sex",
    "SELECT sex, MEDIAN(COUNT(*)) OVER () FROM people GROUP BY sex",
    "SELECT sex, SUM(COUNT(*)) OVER (PARTITION BY COUNT(*)) FROM people GROUP BY sex",
    "SELECT sex, SUM(SUM(COUNT(*)) OVER ()) OVER () FROM people GROUP BY sex",
    "SELECT SUM(1) OVER () FROM people",
    "SELECT sex, COUNT(*) FROM people GROUP BY CUBE (sex, ward, age, age/2, age/3, age/4, age/5)",
    "SELECT sex, SUM(COUNT(*)) OVER (ORDER BY sex RANGE 3 PRECEDING) FROM people GROUP BY sex",
    "SELECT sex, LAG(COUNT(*), -1) OVER (ORDER BY sex) FROM people GROUP BY sex",
]


@pytest.mark.parametrize("text", REFUSALS)
def test_what_has_no_meaning_after_the_noise_is_refused_before_paying(curator, text):
    before = curator.budget.spent
    with pytest.raises(DiscreetError):
        curator.sql(text, epsilon=1, delta="1e-6")
    assert curator.budget.spent == before


@pytest.mark.parametrize(
    "change",
    [
        {"op": "MEDIAN"},
        {"rows": [0, 1, 2]},
        {"rows": [-1, 0]},
        {"rows": [10**9, 0]},
        {"args": []},
        {"order": [[{"is": "Number", "value": "1"}]]},
        {"partition": [{"is": "KeyOf", "name": "nobody"}]},
        {"args": [{"is": "Window", "op": "RANK", "args": [], "partition": [], "order": [],
                   "rows": None}]},
    ],
)  # fmt: skip
def test_a_window_from_elsewhere_is_checked(curator, change):
    text = "SELECT sex, SUM(COUNT(*)) OVER (ORDER BY sex) AS x FROM people GROUP BY sex"
    record = curator.sql(text, epsilon=1).record()
    record["outputs"][1]["expr"] |= change
    with pytest.raises(ParameterError):
        Answer.from_record(record)


def test_half_widths_of_sums_never_fall_with_more_terms():
    half = half_widths(DiscreteLaplace(10), 0.95, np.arange(1, 130))
    exact = [DiscreteLaplace(10).interval(0.95).high] + [
        (sum([DiscreteLaplace(10)] * (k - 1), DiscreteLaplace(10))).interval(0.95).high
        for k in (2, 5, 16)
    ]
    assert [half[0], half[1], half[4], half[15]] == exact
    assert (np.diff(half) >= 0).all()
    assert all(k <= few_digits(k) <= k * 9 / 8 for k in range(1, 5000))


def test_the_fluent_way_is_the_same_question(curator):
    n = dc.count()
    fluent = (
        curator.table("people")
        .group_by("sex")
        .agg(n=n, share=n / n.total(), r="RANK() OVER (ORDER BY COUNT(*) DESC)")
    )
    text = (
        "SELECT sex, COUNT(*) AS n, COUNT(*) / SUM(COUNT(*)) OVER () AS share, "
        "RANK() OVER (ORDER BY COUNT(*) DESC) AS r FROM people GROUP BY sex"
    )
    assert fluent.query == curator._question(text).query


UNION = (
    "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex "
    "UNION ALL SELECT NULL, COUNT(*) FROM people {}"
)


def test_answers_below_each_other_are_paid_once(curator):
    before = curator.budget.spent["epsilon"]
    answer = curator.sql(UNION.format("ORDER BY n DESC"), epsilon=1)
    assert curator.budget.spent["epsilon"] - before == 1
    assert next(r["sex"] for r in answer.to_dicts()) is None
    assert len(answer) == 3
    assert answer.columns == ["sex", "n"]
    again = Answer.from_record(answer.record())
    assert again.to_dicts() == answer.to_dicts()
    assert again.interval(0.9) == answer.interval(0.9)
    assert repr(answer).count("NULL") == 1
    assert curator.sql(UNION.format("ORDER BY n DESC"), epsilon=1).cached
    assert "for all branches" in repr(curator.preview(UNION.format(""), epsilon=1))


def test_rows_that_noise_chose_from_a_union_have_wider_margins(curator):
    whole = curator.sql(UNION.format(""), epsilon=1).interval(0.9)
    cut = curator.sql(UNION.format("ORDER BY 2 DESC LIMIT 1"), epsilon=1)
    assert len(cut) == 1
    assert cut.chosen == ("sex", "n")
    low, high = cut.interval(0.9)[0]["n"]
    assert high - low > max(r["n"][1] - r["n"][0] for r in whole)


@pytest.mark.parametrize(
    "text",
    [
        UNION.format("ORDER BY nobody"),
        UNION.format("").replace("NULL, ", ""),
        UNION.format("").replace("UNION ALL", "UNION"),
        " UNION ALL ".join(["SELECT COUNT(*) FROM people"] * 17),
        "SELECT COUNT(*) FROM people UNION ALL SELECT age FROM people",
    ],
)
def test_unions_without_meaning_are_refused(curator, text):
    with pytest.raises(DiscreetError):
        curator.sql(text, epsilon=1)


@pytest.mark.parametrize(
    "change", [{"order": [[7, True]]}, {"limit": -1}, {"cost": {}}, {"union": []}, {"union": [3]}]
)
def test_a_union_from_elsewhere_is_checked(curator, change):
    record = curator.sql(UNION.format(""), epsilon=1).record()
    with pytest.raises(ParameterError):
        Answer.from_record(record | change)
