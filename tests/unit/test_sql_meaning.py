"""Row expressions mean what SQL means, and WHERE proves what it says.

DuckDB, which reads the same text, is the oracle for meaning; exhaustive
evaluation is the oracle for bounds.
"""

from __future__ import annotations

import datetime as dt
from fractions import Fraction

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import plan, sql
from discreet.plan import Range, ingest
from discreet.plan import _facts as facts_module
from discreet.policy import Boolean, Budget, Category, Date, Integer, Policy, Real, Table, Timestamp

COLUMNS = [
    Integer("a", -4, 9),
    Integer("b", 0, 3),
    Real("r", -2, 2, step="0.25"),
    Boolean("f"),
    Category("c", ["x", "y", "z"]),
    Date("d", "2019-12-30", "2021-03-02"),
    Timestamp("t", "2020-01-01", "2021-01-01"),
]
TABLE = Table("t1", COLUMNS)
POLICY = Policy(tables=[TABLE], budget=Budget("1"))
SQL_TYPES = {"a": "BIGINT", "b": "BIGINT", "r": "DOUBLE", "f": "BOOLEAN", "c": "VARCHAR",
             "d": "DATE", "t": "TIMESTAMP"}  # fmt: skip

RAW = [
    {"a": 5, "b": 2, "r": 1.25, "f": True, "c": "x", "d": dt.date(2020, 2, 29),
     "t": dt.datetime(2020, 5, 17, 13, 30)},  # noqa: DTZ001 - naive UTC
    {"a": -4, "b": 0, "r": -1.75, "f": False, "c": "y", "d": dt.date(2019, 12, 31),
     "t": dt.datetime(2020, 12, 31, 23, 59, 59)},  # noqa: DTZ001 - naive UTC
    {"a": 0, "b": 3, "r": 0.5, "f": None, "c": "z", "d": dt.date(2021, 1, 1), "t": None},
    {"a": None, "b": None, "r": None, "f": None, "c": None, "d": None, "t": None},
    {"a": 9, "b": 1, "r": 2.0, "f": True, "c": None, "d": dt.date(2020, 9, 30),
     "t": dt.datetime(2020, 1, 1)},  # noqa: DTZ001 - naive UTC
]  # fmt: skip


@pytest.fixture(scope="module")
def oracle():
    connection = duckdb.connect()
    columns = ", ".join(f"{n} {t}" for n, t in SQL_TYPES.items())
    connection.execute(f"CREATE TABLE t1 ({columns})")
    for row in RAW:
        marks = ", ".join("?" * len(SQL_TYPES))
        connection.execute(f"INSERT INTO t1 VALUES ({marks})", [row[n] for n in SQL_TYPES])
    yield connection
    connection.close()


def coded(raw):
    return {n: ingest(c, raw[n]) for n, c in TABLE.columns.items()}


def expression(text, where="", wrap="COUNT(DISTINCT {})"):
    found = sql.parse(f"SELECT {wrap.format(text)} FROM t1 {where}", POLICY).query
    return found.statistics[0].expr


def ours(text):
    expr = expression(text)
    return [expr.type.value(expr.evaluate(coded(row))) for row in RAW]


EXPRESSIONS = [
    "a + b",
    "a - b * 2",
    "-a",
    "a * a",
    "a / 4",
    "a / -8",
    "(a + 1) / 2 - b",
    "r * 2 + a",
    "r - 0.5",
    "ABS(a)",
    "ABS(r - 1)",
    "FLOOR(r)",
    "CEIL(r)",
    "CEILING(a / 2)",
    "FLOOR(a / 4) * 4",
    "a // 4",
    "a // -3",
    "(a + 4) // (b + 1)",
    "LEAST(a, 3)",
    "GREATEST(a, 3, 1)",
    "GREATEST(a, 50)",
    "LEAST(r, 0.5)",
    "POWER(a, 2)",
    "POWER(b, 3)",
    "POWER(r, 4)",
    "a > 3",
    "a >= b",
    "a <> b",
    "3 < a",
    "a = 0",
    "r <= 0.5",
    "r < 0.3",
    "NOT a > 3",
    "a BETWEEN 0 AND 5",
    "a NOT BETWEEN 0 AND 5",
    "a IN (0, 5, 100)",
    "a NOT IN (0, 5)",
    "r IN (0.5, 0.3)",
    "a IN (0.5)",
    "c = 'x'",
    "c <> 'x'",
    "c IN ('x', 'z')",
    "c NOT IN ('y')",
    "'x' = c",
    "f",
    "NOT f",
    "f = TRUE",
    "f <> TRUE",
    "f = FALSE",
    "f IS TRUE",
    "f IS NOT TRUE",
    "f IS FALSE",
    "f AND a > 0",
    "f OR a > 0",
    "f AND NULLIF(a, 5) > 0",
    "NOT (f OR a > 3)",
    "f AND f AND a > 3",
    "a IS NULL",
    "a IS NOT NULL",
    "c IS NULL",
    "(a > 3) IS NULL",
    "(a > 3) = f",
    "COALESCE(a, 7)",
    "COALESCE(a, b, 7)",
    "COALESCE(r, a, 0)",
    "IFNULL(a, 7)",
    "COALESCE(f, FALSE)",
    "COALESCE(c, 'x')",
    "COALESCE(c, 'none')",
    "NULLIF(a, 5)",
    "NULLIF(c, 'x')",
    "CASE WHEN a > 3 THEN 1 WHEN a > 0 THEN 2 END",
    "CASE WHEN a > 3 THEN a ELSE r END",
    "CASE WHEN a > 3 THEN 'big' ELSE 'small' END",
    "CASE WHEN a > 3 THEN c ELSE 'small' END",
    "CASE b WHEN 0 THEN 'none' WHEN 1 THEN 'one' END",
    "CASE c WHEN 'x' THEN a ELSE b END",
    "CASE WHEN a > 3 THEN f ELSE NULL END",
    "CASE WHEN r < 1 THEN r * 4 ELSE NULL END",
    "CASE WHEN f THEN d ELSE DATE '2020-05-05' END",
    "IF(a > 3, b, -b)",
    "CAST(f AS INTEGER)",
    "CAST(f AS INTEGER) + a",
    "a::DOUBLE / 2",
    "CAST(a AS BIGINT)",
    "EXTRACT(YEAR FROM d)",
    "EXTRACT(month FROM d)",
    "YEAR(d)",
    "QUARTER(d)",
    "DAY(d)",
    "HOUR(t)",
    "DATE_PART('isodow', d)",
    "EXTRACT(ISODOW FROM t)",
    "MONTH(t)",
    "EXTRACT(HOUR FROM t) * 2",
    "d >= '2020-02-29'",
    "d = DATE '2020-02-29'",
    "d BETWEEN '2020-01-01' AND '2020-12-31'",
    "d IN (DATE '2021-01-01', DATE '2020-09-30')",
    "t < TIMESTAMP '2020-05-17 13:30:00.000001'",
    "t >= '2020-05-17 13:30:00'",
    "t > CAST('2020-05-17' AS DATE)",
    "t = '2020-01-01'",
    "d < CAST('2020-06-01' AS DATE) OR f",
]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_expression_means_what_duckdb_says(text, oracle):
    found = [r[0] for r in oracle.execute(f"SELECT {text} FROM t1").fetchall()]
    for mine, theirs in zip(ours(text), found, strict=True):
        if mine is None or theirs is None or isinstance(mine, str | dt.date):
            assert mine == theirs
        else:
            assert float(mine) == float(theirs)


def test_the_oracle_is_not_asleep(oracle):
    found = [r[0] for r in oracle.execute("SELECT a + b FROM t1").fetchall()]
    assert found != ours("a - b")


def test_rounding_takes_halves_away_from_zero_and_buckets_are_half_open():
    assert ours("ROUND(r)") == [1, -2, 1, None, 2]  # −1.75 → −2, 0.5 → 1
    assert ours("ROUND(r, 1)") == [1.3, -1.8, 0.5, None, 2]  # 1.25 → 1.3, −1.75 → −1.8
    assert ours("ROUND(a, -1)") == [10, 0, 0, None, 10]
    assert ours("ROUND(a, 2)") == [5, -4, 0, None, 9]
    assert ours("WIDTH_BUCKET(a, 0, 9, 3)") == [2, 0, 1, None, 4]
    assert ours("WIDTH_BUCKET(r, -1.1, 1.1, 2)") == [3, 0, 2, None, 3]


def test_a_quotient_of_columns_is_close_and_null_by_zero():
    found = ours("a / b")
    assert found[1] is None
    assert found[3] is None
    for got, row in zip(found, RAW, strict=True):
        if got is not None:
            assert abs(got - row["a"] / row["b"]) <= 2**-17


def test_least_and_greatest_bound_a_column():
    assert ours("LEAST(a, 3)") == [3, -4, 0, 3, 3]
    assert ours("GREATEST(a, 0.5)") == [5, 0.5, 0.5, 0.5, 9]
    assert ours("LEAST(a, -100)") == [-100, -100, -100, -100, -100]
    t = expression("GREATEST(LEAST(a, 3), 1)").type
    assert (t.lo, t.hi, t.nullable) == (1, 3, False)


def test_multiplying_by_a_constant_keeps_codes_small():
    for text in ("r * 1000000", "r / 7", "12 * r", "-r"):
        t = expression(text).type
        assert max(abs(t.lo), abs(t.hi)) == 8


# --- what WHERE proves ---------------------------------------------------------------------

ATOMS = st.one_of(
    st.builds(
        "{} {} {}".format,
        st.sampled_from(["a", "b"]),
        st.sampled_from(["<", "<=", "=", "<>", ">=", ">"]),
        st.sampled_from(["-5", "0", "1", "2.5", "9", "20"]),
    ),
    st.builds("{1} {0} a".format, st.sampled_from(["<", ">=", "="]), st.sampled_from(["0", "3.5"])),
    st.builds(
        "r {} {}".format,
        st.sampled_from(["<", "<=", ">", ">=", "="]),
        st.sampled_from(["0.3", "1"]),
    ),
    st.sampled_from(
        [
            "c = 'x'",
            "c <> 'y'",
            "c IN ('x', 'z')",
            "c NOT IN ('x', 'z')",
            "a IN (1, 7)",
            "f",
            "f = FALSE",
            "a IS NULL",
            "a IS NOT NULL",
            "b IS NOT NULL",
            "a < b",
            "a = b",
            "a + b > 3",
            "b BETWEEN 1 AND 2",
            "(a > 3) IS NULL",
            "f IS NOT TRUE",
            "CASE WHEN f THEN a > 1 END",
        ]
    ),
)
CONDITIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=5,
)
CODES = [
    {"a": a, "b": b, "r": r, "f": f, "c": c}
    for a in (None, -4, 0, 1, 3, 7, 9)
    for b in (None, 0, 1, 2)
    for r in (None, 1, 4)
    for f in (None, 0, 1)
    for c in (None, 0, 1, 2)
]


def violations(text):
    """Rows that pass WHERE and leave the range that it is said to prove."""
    query = sql.parse(
        f"SELECT MAX(a), MAX(b), MAX(r), COUNT(DISTINCT c), COUNT(DISTINCT f) FROM t1 WHERE {text}",
        POLICY,
    ).query
    exprs = [s.expr for s in query.statistics]
    proved = facts_module.conclude(query.relation.condition, {})
    for row in CODES:
        if query.relation.condition.evaluate(row) != 1:
            continue
        for e in exprs:
            column = plan.expr.plain_column(e)
            code, t = row[column.name], e.type
            listed = proved.get(column.name, Range()).codes
            if code is None:
                if not t.nullable:
                    yield row
            elif not t.lo <= code <= t.hi or (listed is not None and code not in listed):
                yield row


@settings(max_examples=80)
@given(CONDITIONS)
def test_rows_that_pass_where_lie_in_the_narrowed_range(text):
    assert not list(violations(text))


@pytest.mark.long
@settings(max_examples=2000)
@given(CONDITIONS)
def test_rows_that_pass_where_lie_in_the_narrowed_range_at_length(text):
    assert not list(violations(text))


def test_a_wrong_proof_is_caught(monkeypatch):
    right = facts_module._bounded
    monkeypatch.setattr(
        facts_module, "_bounded", lambda op, place: right("<" if op == "<=" else op, place)
    )
    assert list(violations("a <= 3"))
    monkeypatch.setattr(facts_module, "_any", facts_module._all)
    assert list(violations("a < 1 OR a > 7"))


@pytest.mark.parametrize(
    ("where", "low", "high", "nullable"),
    [
        ("a > 2 AND a <= 5.5", 3, 5, False),
        ("a = 2 OR a = 7", 2, 7, False),
        ("NOT (a < 0 OR a > 3)", 0, 3, False),
        ("a BETWEEN 1 AND 3 AND b > 1", 1, 3, False),
        ("a IN (1, 3) OR a = 8", 1, 8, False),
        ("a > 2 OR b > 1", -4, 9, True),
        ("a IS NOT NULL", -4, 9, False),
        ("a + 1 > 3", 3, 9, False),
        ("a % 4 = 2 OR a IS NULL", 2, 6, True),
        ("a + b > 3", 1, 9, False),
        ("a <> 3", -4, 9, False),
    ],
)
def test_where_narrows_bounds(where, low, high, nullable):
    t = expression("a", f"WHERE {where}", "MAX({})").type
    assert (t.lo, t.hi, t.nullable) == (low, high, nullable)


def test_where_narrows_keys_too():
    def codes(where, key):
        text = f"SELECT {key}, COUNT(*) FROM t1 WHERE {where} GROUP BY {key}"
        return sql.parse(text, POLICY).query.keys[0].codes

    assert codes("c IN ('z', 'x')", "c") == (0, 2)
    assert codes("c <> 'y'", "c") == (0, 2)
    assert codes("c = 'x' OR c = 'y'", "c") == (0, 1)
    assert codes("a IN (7, 1, 100)", "a") == (1, 7)
    assert codes("a BETWEEN 2 AND 4", "a") == (2, 3, 4)
    assert codes("f", "f") == (1,)
    assert codes("d >= '2021-01-01'", "YEAR(d)") == (2021,)


def test_conditions_themselves_never_use_narrowed_bounds():
    # an engine may test the parts of a condition in any order
    query = sql.parse("SELECT COUNT(*) FROM t1 WHERE a > 5 AND a * b > 3", POLICY).query
    conditions = query.relation.condition.args
    assert conditions[0].left.type == plan.of_column(TABLE.columns["a"])


def test_case_branches_are_bounded_by_their_condition_and_total():
    expr = expression("CASE WHEN a > 2 AND a < 5 THEN a * a ELSE 0 END")
    assert (expr.type.lo, expr.type.hi) == (0, 16)
    value = expr.branches[0][1]
    assert all(value.type.lo <= value.evaluate({"a": a}) <= value.type.hi for a in range(-4, 10))
    total = expression("r", wrap="SUM({}) FILTER (WHERE r <= 0.5)")
    assert total.type.hi * total.type.step == Fraction(1, 2)
