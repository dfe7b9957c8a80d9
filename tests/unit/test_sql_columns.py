"""PIVOT, LEAST and GREATEST of columns, and regrouped answers, beside DuckDB.

Every ε is so large that a whole number moves with probability below exp(-1000).
"""

from __future__ import annotations

import datetime as dt
from itertools import product

import duckdb
import pyarrow as pa
import pytest

import discreet as dc
from discreet.errors import QueryError, UnsupportedQueryError
from discreet.plan import _functions
from discreet.sql import _pivot

ROWS = list(product((None, 0, 1, 2, 3), (None, 2, 3, 4), (1, 2, 5), (True, False, None), "xy"))
DATA = pa.table({
    "person": list(range(len(ROWS))),
    "a": [r[0] for r in ROWS],
    "b": [r[1] for r in ROWS],
    "c": [r[2] for r in ROWS],
    "half": [None if r[1] is None else r[1] + 0.5 for r in ROWS],
    "flag": [r[3] for r in ROWS],
    "kind": [r[4] for r in ROWS],
    "sign": [(-1, 1)[i % 5 == 0] for i in range(len(ROWS))],
    "d": pa.array([None if r[0] is None else 19_000 + r[0] for r in ROWS], pa.date32()),
    "e": pa.array([19_000 + r[2] for r in ROWS], pa.date32()),
})  # fmt: skip
DAYS = {"type": "date", "min": "2022-01-01", "max": "2022-12-31"}
POLICY = {
    "policy": {"name": "columns"},
    "budget": {"epsilon": "1e12", "accounting": "pure"},
    "tables": {
        "t": {
            "unit": "person",
            "max_rows_per_unit": 1,
            "columns": {
                "a": {"type": "integer", "min": 0, "max": 3, "outside": "null"},
                "b": {"type": "integer", "min": 2, "max": 4, "outside": "null"},
                "c": {"type": "integer", "min": 1, "max": 5},
                "half": {"type": "real", "min": 0, "max": 9, "step": "0.5", "outside": "null"},
                "flag": {"type": "boolean"},
                "kind": {"type": "category", "values": ["y", "x"]},
                "sign": {"type": "category", "values": [-1, 1]},
                "d": {**DAYS, "outside": "null"},
                "e": DAYS,
            },
        }
    },
}


@pytest.fixture(scope="module")
def curator():
    with dc.open({"t": DATA}, policy=POLICY, ledger=":memory:") as opened:
        yield opened


def both(curator, text):
    """Names and rows of an answer, and those of DuckDB."""
    answer = curator.sql(text, epsilon="1e7")
    truth = duckdb.connect().register("t", DATA).sql(text)
    found = [tuple(row.values()) for row in answer.to_dicts()]
    return (list(answer.columns), found), (truth.columns, truth.fetchall())


def is_same(curator, text):
    """Whether names and numbers are DuckDB's."""
    (names, found), (columns, wanted) = both(curator, text)
    return names == columns and sorted(found) == sorted(wanted)


PIVOTS = [
    "SELECT * FROM (SELECT kind, flag FROM t) PIVOT (COUNT(*) FOR flag IN (TRUE, FALSE))",
    "SELECT * FROM (SELECT kind, sign FROM t) PIVOT (COUNT(*) FOR sign IN (-1, 1))",
    """SELECT * FROM (SELECT kind, flag, c FROM t)
    PIVOT (COUNT(*) AS n, SUM(c) AS s FOR flag IN (TRUE, FALSE))""",
    """SELECT kind, "false" FROM (SELECT kind, flag FROM t)
    PIVOT (COUNT(*) FOR flag IN (TRUE, FALSE))""",
    "PIVOT t ON kind USING COUNT(*) GROUP BY sign",
    "PIVOT t ON flag GROUP BY kind",
    "PIVOT t ON sign USING SUM(c), COUNT(*) GROUP BY kind",
    "PIVOT t ON kind IN ('y') USING SUM(c) AS s GROUP BY sign",
    """SELECT * FROM (SELECT kind, flag, sign, c FROM t)
    PIVOT (SUM(c) FOR flag IN (TRUE, FALSE) GROUP BY kind)""",
    "PIVOT t ON sign USING SUM(ABS(c)), MAX(c + 1), COUNT(*) GROUP BY kind",
]  # fmt: skip


@pytest.mark.parametrize("text", PIVOTS)
def test_pivot_has_the_columns_of_duckdb(curator, text):
    assert is_same(curator, text)


def test_values_in_brackets_are_values(curator):
    plain = "SELECT * FROM (SELECT kind, sign FROM t) PIVOT (COUNT(*) FOR sign IN (-1, 1))"
    bracketed = plain.replace("(-1, 1)", "([-1], [1])")
    asked = [curator.sql(text, epsilon=1) for text in (plain, bracketed)]
    assert asked[1].to_dicts() == asked[0].to_dicts()
    assert asked[1].cached  # the same measurement


def test_a_name_that_forgets_a_sign_is_caught(curator, monkeypatch):
    monkeypatch.setattr(_pivot, "_value_name", lambda value: str(value.name))
    with pytest.raises(QueryError, match="two columns of PIVOT are called"):
        is_same(curator, PIVOTS[1].replace("kind", "flag"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "SELECT * FROM (SELECT kind, flag FROM t) PIVOT (COUNT(*) FOR flag IN (TRUE, TRUE))",
            'two columns of PIVOT are called "true"',
        ),
        (
            """SELECT * FROM (SELECT flag, kind AS x, kind FROM t)
            PIVOT (COUNT(*) FOR kind IN ('x', 'y'))""",
            "two output columns are called 'x'",
        ),
        ('SELECT COUNT(*) AS "" FROM t', "empty name"),
        ("PIVOT t ON c USING COUNT(*) GROUP BY kind", "does not list the values"),
        ("PIVOT t ON kind, flag USING COUNT(*) GROUP BY sign", "ON one column"),
        ("PIVOT t ON other USING COUNT(*) GROUP BY kind", 'no column "other"'),
        ("PIVOT other ON kind USING COUNT(*) GROUP BY kind", 'no table "other"'),
    ],
)
def test_no_column_gets_lost(curator, text, says):
    with pytest.raises(QueryError, match=says):
        curator.preview(text, epsilon=1)


def test_pivot_without_keys_is_shown_with_one(curator):
    with pytest.raises(QueryError, match="without GROUP BY") as refused:
        curator.preview("PIVOT t ON kind USING COUNT(*)", epsilon=1)
    assert refused.value.hint == "PIVOT t ON kind USING COUNT(*) GROUP BY flag"
    assert is_same(curator, "PIVOT t ON kind USING COUNT(*) GROUP BY sign")


CALLS = [f"{f}({x})" for f in ("LEAST", "GREATEST") for x in (
    "a, b", "a, c", "c, a", "a, b, c", "a, b, 3", "a, NULL, b", "a", "half, c", "a, half, 2",
)]  # fmt: skip


def counted(curator, call):
    """Counts by the value of a call, and those of DuckDB, both without empty groups."""
    text = f"SELECT {call} AS k, COUNT(*) AS n FROM t WHERE {call} IS NOT NULL GROUP BY k"
    (_, found), (_, wanted) = both(curator, text)
    return sorted(r for r in found if r[1]), sorted(wanted)


@pytest.mark.parametrize("call", CALLS)
def test_the_outermost_of_columns_is_that_of_duckdb(curator, call):
    found, wanted = counted(curator, call)
    assert found == wanted
    text = f"SELECT COUNT({call}) AS n, SUM({call}) AS s FROM t"
    (_, found), (_, wanted) = both(curator, text)
    assert [tuple(map(float, r)) for r in found] == [tuple(map(float, r)) for r in wanted]


def test_the_outermost_of_dates(curator):
    for call in ("LEAST(d, e)", "GREATEST(e, d)", "LEAST(d, DATE '2022-01-10')"):
        text = f"SELECT SUM(DATEDIFF('day', DATE '2022-01-01', {call})) AS s FROM t"
        (_, found), (_, wanted) = both(curator, text)
        assert found == [tuple(map(int, wanted[0]))]


def test_null_that_wins_is_caught(curator, monkeypatch):
    monkeypatch.setattr(_functions.build, "disjunction", lambda tests: tests[1])
    found, wanted = counted(curator, "LEAST(b, a)")  # not asked before
    assert found != wanted


@pytest.mark.parametrize(
    ("call", "low", "high"),
    [
        ("LEAST(a, b)", 0, 4),
        ("GREATEST(a, c)", 0, 5),  # either may be NULL
        ("GREATEST(a, COALESCE(c, 1))", 1, 5),
        ("LEAST(c, COALESCE(a, 0))", 0, 3),
        ("LEAST(c, b, 2)", 1, 2),
    ],
)
def test_bounds_are_those_of_all_columns(curator, call, low, high):
    answer = curator.sql(f"SELECT {call} AS k, COUNT(*) AS n FROM t GROUP BY k", epsilon="1e7")
    keys = [row["k"] for row in answer.to_dicts() if row["k"] is not None]
    assert (min(keys), max(keys)) == (low, high)


def test_texts_have_no_outermost(curator):
    with pytest.raises(QueryError, match="LEAST takes numbers") as refused:
        curator.preview("SELECT COUNT(LEAST(kind, 'x')) AS n FROM t", epsilon=1)
    assert refused.value.hint is None


INNER = "(SELECT kind, sign, flag, COUNT(*) AS n FROM t WHERE flag IS NOT NULL GROUP BY 1, 2, 3)"
REGROUPED = [
    f"SELECT kind, SUM(n) AS n FROM {INNER} GROUP BY kind",
    f"SELECT sign, kind, AVG(n) AS m, MAX(n) AS x FROM {INNER} GROUP BY sign, kind",
    f"SELECT kind AS k, SUM(n) AS s FROM {INNER} WHERE sign = 1 GROUP BY 1 HAVING SUM(n) > 3",
    f"WITH g AS {INNER} SELECT sign, SUM(n) / COUNT(*) AS s FROM g GROUP BY sign",
    f"SELECT kind, sign, flag, SUM(n) AS s FROM {INNER} GROUP BY kind, sign, flag",
    """SELECT kind, SUM(n) AS s FROM (SELECT kind, c, COUNT(*) AS n FROM t
    GROUP BY kind, c HAVING SUM(c) > 70) GROUP BY kind""",
]


@pytest.mark.parametrize("text", REGROUPED)
def test_rows_of_an_answer_are_grouped_again(curator, text):
    assert is_same(curator, text)


def test_an_output_comes_before_a_column_in_order_by(curator):
    text = "SELECT sign, -SUM(n) AS n FROM (SELECT sign, kind, COUNT(*) AS n FROM t "
    text += "GROUP BY sign, kind) GROUP BY sign ORDER BY n LIMIT 1"
    (_, found), (_, wanted) = both(curator, text)
    assert found == wanted


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"SELECT kind, n FROM {INNER} GROUP BY kind", "neither in GROUP BY"),
        (f"SELECT n, SUM(n) AS s FROM {INNER} GROUP BY n", "anything but its keys"),
        (f"SELECT kind, RANK() OVER (ORDER BY SUM(n)) AS r FROM {INNER} GROUP BY kind", "window"),
        (f"SELECT kind, SUM(n) AS n FROM {INNER} GROUP BY ROLLUP (kind)", "not supported"),
    ],
)
def test_what_cannot_be_grouped_again_is_refused(curator, text, says):
    with pytest.raises(QueryError, match=says):
        curator.preview(text, epsilon=1)


@pytest.mark.parametrize(
    "call", ["STDDEV(kind)", "CORR(kind, c)", "CORR(c, kind)", "AVG(BIN(kind, 2))"]
)
def test_only_a_mean_is_a_share(curator, call):
    with pytest.raises(QueryError, match="needs a number, kind is a category") as refused:
        curator.preview(f"SELECT {call} AS x FROM t", epsilon=1)
    assert refused.value.hint is None
    assert "REGR" not in str(refused.value)


def test_levels_that_do_not_add_up_are_asked_apart(curator):
    text = "SELECT kind, sign, COUNT(DISTINCT person) AS n FROM t GROUP BY ROLLUP (kind, sign)"
    with pytest.raises(QueryError, match="does not follow") as refused:
        curator.preview(text + " ORDER BY n DESC", epsilon=1)
    hint = str(refused.value.hint)
    assert hint.count("UNION ALL") == 2
    found = [tuple(r.values()) for r in curator.sql(hint, epsilon="1e7").to_dicts()]
    wanted = duckdb.connect().register("t", DATA).sql(text).fetchall()
    assert sorted(found, key=str) == sorted(wanted, key=str)


TIMES = {
    "policy": {"name": "two grids of times"},
    "budget": {"epsilon": "1e12", "accounting": "pure"},
    "tables": {
        "t": {
            "columns": {
                "p": {"type": "timestamp", "min": "2023-12-30", "max": "2024-01-02"},
                "q": {"type": "timestamp", "min": "2023-12-30", "max": "2024-01-02", "step": "60"},
                "a": {"type": "integer", "min": -9, "max": 9},
                "r": {"type": "real", "min": -3, "max": 3, "step": "0.05"},
            }
        }
    },
}
FIRST = dt.datetime(2023, 12, 30)  # noqa: DTZ001 - moments are naive UTC
MOMENTS = pa.table(
    {
        "p": pa.array(
            [None if i % 9 == 1 else FIRST + dt.timedelta(seconds=i * 7919 % 259_200)
             for i in range(60)], pa.timestamp("us")),
        "q": pa.array(
            [None if i % 5 == 1 else FIRST + dt.timedelta(minutes=i * 389 % 4_320)
             for i in range(60)], pa.timestamp("us")),
        "a": [i % 19 - 9 for i in range(60)],
        "r": [round(i % 21 * 0.25 - 2.5, 2) for i in range(60)],
    }
)  # fmt: skip


@pytest.mark.parametrize(
    "call",
    [
        "LEAST(p, q)",
        "GREATEST(p, q)",
        "LEAST(p, TIMESTAMP '2023-12-31 10:00')",
        "GREATEST(TIMESTAMP '2023-12-31 10:00:07', q)",
        "GREATEST(q, TIMESTAMP '2024-01-01 00:00', p)",
        "CASE WHEN a > 0 THEN p ELSE q END",
    ],
)
def test_times_of_two_grids_meet_on_the_finer_one(call):
    owner = dc.open({"t": MOMENTS}, policy=TIMES, ledger=":memory:")
    duck = duckdb.connect().register("t", MOMENTS)
    for text in (
        f"SELECT SUM(SECOND({call}) + 60 * MINUTE({call})) AS n FROM t",
        f"SELECT COUNT(*) AS n FROM t WHERE {call} < TIMESTAMP '2023-12-31 12:00:01'",
    ):
        (found,) = owner.sql(text, epsilon="1e7").to_dicts()
        assert round(found["n"]) == duck.sql(text).fetchall()[0][0]


@pytest.mark.parametrize("text", ["r // 1", "a // 0.5", "a // 2.0", "r // a"])
def test_whole_quotients_of_fractions_are_refused(text):
    """DuckDB divides them and cuts nothing, MySQL cuts them."""
    owner = dc.open({"t": MOMENTS}, policy=TIMES, ledger=":memory:")
    with pytest.raises(UnsupportedQueryError, match="// of fractions") as refused:
        owner.preview(f"SELECT SUM({text}) AS n FROM t", epsilon=1)
    assert owner.preview(f"SELECT SUM({refused.value.hint}) AS n FROM t", epsilon=1)
    assert owner.preview("SELECT SUM(a // 2) AS n, SUM(TRUNC(r / 2)) AS m FROM t", epsilon=1)
