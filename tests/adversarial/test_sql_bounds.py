"""Every value that reaches an aggregate lies within the bounds it is priced by.

Well-typed questions are generated, and evaluated on rows over the whole public
domain; a value outside its declared bounds would break the sensitivity.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import plan, sql
from discreet.errors import QueryError
from discreet.plan import Kind
from discreet.plan import _expr as nodes
from discreet.policy import (
    Boolean,
    Budget,
    Category,
    Date,
    Integer,
    Policy,
    Real,
    Table,
    Text,
    Timestamp,
)

TABLE = Table(
    "people",
    [
        Category("sex", ["F", "M", "X"]),
        Integer("age", 0, 115),
        Integer("debt", -50, 20),
        Real("income", 0, 2000, step="0.01"),
        Real("share", -1, 1, step="1/8"),
        Boolean("married"),
        Date("joined", "2000-01-01", "2024-12-31"),
        Timestamp("seen", "2020-01-01", "2025-01-01", step=60),
        Text("city"),
    ],
    unit="person_id",
    max_rows_per_unit=3,
)
POLICY = Policy(tables=[TABLE], budget=Budget("1"))

CONSTANTS = st.sampled_from(["0", "1", "2", "-3", "0.5", "7.25", "10", "100", "1e3"])
COLUMNS = st.sampled_from(["age", "debt", "income", "share"])
COMPARE = st.sampled_from(["<", "<=", "=", "<>", ">=", ">"])


def walk(expr):
    """All nodes of an expression."""
    yield expr
    for child in expr.children:
        yield from walk(child)


def _numbers(inner):
    tests = st.builds("{} {} {}".format, inner, COMPARE, inner)
    return st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*/"), inner),
        st.builds("({} {} {})".format, inner, st.sampled_from("*/"), CONSTANTS),
        st.builds("{}({})".format, st.sampled_from(["ABS", "FLOOR", "CEIL", "ROUND", "-"]), inner),
        st.builds("ROUND({}, {})".format, inner, st.integers(-2, 3)),
        st.builds("{}({}, {})".format, st.sampled_from(["LEAST", "GREATEST"]), inner, CONSTANTS),
        st.builds("CASE WHEN {} THEN {} ELSE {} END".format, tests, inner, inner),
        st.builds("COALESCE({}, {})".format, inner, CONSTANTS),
        st.builds("NULLIF({}, {})".format, inner, CONSTANTS),
        st.builds("POWER({}, 2)".format, inner),
        st.builds("CAST({} AS INTEGER)".format, tests),
        st.builds("WIDTH_BUCKET({}, 0, 100, 4)".format, inner),
    )


NUMBERS = st.recursive(COLUMNS, _numbers, max_leaves=4)
TESTS = st.recursive(
    st.one_of(
        st.builds("{} {} {}".format, COLUMNS, COMPARE, CONSTANTS),
        st.builds("{} {} {}".format, NUMBERS, COMPARE, NUMBERS),
        st.builds("{} BETWEEN {} AND {}".format, COLUMNS, CONSTANTS, CONSTANTS),
        st.sampled_from(
            [
                "sex = 'F'", "sex <> 'M'", "sex IN ('F', 'X')", "married", "married IS NOT TRUE",
                "age IN (1, 50, 200)", "joined >= '2010-06-01'", "seen < '2024-02-29 12:00:30'",
                "city = 'a'", "city IS NULL", "income IS NOT NULL",
            ]
        ),
    ),
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=4,
)  # fmt: skip
KEYS = st.one_of(
    st.sampled_from(
        ["sex", "married", "age", "city", "YEAR(joined)", "MONTH(seen)", "ISODOW(seen)",
         "CASE WHEN age < 18 THEN 'a' WHEN sex = 'F' THEN 'b' END", "COALESCE(sex, '?')",
         "FLOOR(income / 100) * 100", "HOUR(seen)", "QUARTER(joined)"]
    ),
    st.builds("CASE WHEN {} THEN 'yes' ELSE 'no' END".format, TESTS),
    st.builds("WIDTH_BUCKET({}, -10, 90, 5)".format, NUMBERS),
)  # fmt: skip
AGGREGATES = st.one_of(
    st.builds(
        "{}({})".format, st.sampled_from(["SUM", "AVG", "VAR", "MEDIAN", "MAX", "COUNT"]), NUMBERS
    ),
    st.builds("AVG({})".format, TESTS),
    st.builds("SUM({}) FILTER (WHERE {})".format, NUMBERS, TESTS),
)
SELECTS = st.builds(
    "SELECT {0} AS k, {1} AS x FROM people WHERE {2} GROUP BY k".format, KEYS, AGGREGATES, TESTS
)


def code(t):
    inside = st.sampled_from(["a", "b"]) if t.kind is Kind.TEXT else st.integers(t.lo, t.hi)
    ends = [] if t.kind is Kind.TEXT else [st.sampled_from([t.lo, t.hi, max(t.lo, min(0, t.hi))])]
    return st.one_of(st.none(), inside, *ends)


ROWS = st.lists(
    st.fixed_dictionaries({n: code(plan.of_column(c)) for n, c in TABLE.columns.items()}),
    min_size=1,
    max_size=12,
)


def outside(expr, row):
    """Nodes of an expression whose value on a row leaves their declared type."""
    for node in walk(expr):
        value, t = node.evaluate(row), node.type
        if value is None:
            if not t.nullable:
                yield node
        elif t.kind is not Kind.TEXT and not t.lo <= value <= t.hi:
            yield node


def check(text, rows):
    """Return whether the question is one; assert that its bounds hold on all rows."""
    try:
        query = sql.parse(text, POLICY).query
    except QueryError:
        return False
    for row in rows:
        if query.relation.condition.evaluate(row) != 1:
            continue
        for statistic in query.statistics:
            if statistic.expr is not None:
                assert not list(outside(statistic.expr, row))
        (key,) = query.keys
        assert not list(outside(key.expr, row))
        found = key.expr.evaluate(row)
        assert found is None or key.codes is None or found in key.codes
    return True


@settings(max_examples=400)
@given(SELECTS, ROWS)
def test_values_lie_within_the_bounds_they_are_priced_by(text, rows):
    check(text, rows)


@pytest.mark.long
@settings(max_examples=20_000)
@given(SELECTS, ROWS)
def test_values_lie_within_their_bounds_at_length(text, rows):
    check(text, rows)


def test_most_generated_questions_are_questions():
    seen = []

    @settings(max_examples=100, database=None, derandomize=True)
    @given(SELECTS)
    def count(text):
        seen.append(check(text, []))

    count()
    assert sum(seen) > len(seen) / 2


def test_a_wrong_bound_is_caught(monkeypatch):
    right = nodes.Abs._infer
    row = dict.fromkeys(TABLE.columns) | {"debt": -50}
    text = "SELECT sex AS k, SUM(ABS(debt)) AS x FROM people WHERE debt IS NOT NULL GROUP BY k"
    assert check(text, [row])
    monkeypatch.setattr(nodes.Abs, "_infer", lambda self: right(self).within(0, 20))
    with pytest.raises(AssertionError):
        check(text, [row])
