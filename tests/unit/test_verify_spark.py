"""What the verifier proves of Spark's SQL, what it reads back, and what it refuses."""

from __future__ import annotations

import duckdb
import pytest

from discreet import verify
from discreet.engines._dialect import DuckDB, Postgres, Spark
from discreet.errors import UnprovenStatementError
from discreet.verify._read import read

COLUMNS = {
    "i": "int", "b": "bigint", "x": "double", "f": "float", "p": "decimal(18,3)", "s": "string",
    "q": "string collate UTF8_LCASE", "d": "date", "t": "timestamp", "n": "timestamp_ntz",
    "w": "decimal(38,0)", "u": "bigint",
}  # fmt: skip
TABLES = {"`t`": verify.Table(COLUMNS, unit=None)}
CLAMP = "CASE WHEN b < CAST(-9 AS BIGINT) THEN CAST(-9 AS BIGINT) WHEN b > CAST({0} AS BIGINT) THEN CAST({0} AS BIGINT) ELSE b END"  # noqa: E501 - one expression
BIG = CLAMP.format(2**61)


def prove(sql, tables=TABLES):
    return verify.prove(sql, dialect="spark", tables=tables)


def proved(expression):
    try:
        prove(f"SELECT count(*) FROM (SELECT {expression} AS y FROM `t`) AS s")
    except UnprovenStatementError:
        return False
    return True


@pytest.mark.parametrize(
    "expression",
    [
        "i + CAST(1 AS BIGINT)",
        "(b % 2147483647) div CAST(7 AS BIGINT)",
        "shiftright(b, 22) & 4194303",
        "CAST(conv(substr(md5(s), 1, 15), 16, 10) AS BIGINT)",
        (
            "CASE WHEN x >= CAST('-9.0' AS DOUBLE) AND x <= CAST('9.0' AS DOUBLE) "
            "THEN CAST(rint(x) AS BIGINT) END"
        ),
        "CAST(p AS DOUBLE)",
        "CASE p WHEN CAST('1.000' AS DECIMAL(18,3)) THEN CAST(0 AS BIGINT) END",
        "try_element_at(map('k\\'', CAST(0 AS BIGINT), 'm\\\\', CAST(1 AS BIGINT)), s)",
        "CASE WHEN i > 0 THEN try_element_at(array(7, -8, 9), i) + CAST(1 AS BIGINT) END",
        "(q COLLATE UTF8_BINARY) = 'a'",
        "CAST(EXTRACT(dow_iso FROM d) AS BIGINT)",
        "unix_micros(t)",
        "unix_date(d)",
        "trim(s)",
        "try_validate_utf8((s COLLATE UTF8_BINARY))",
        "s LIKE 'a!%\\\\' ESCAPE '!'",
        "x * CAST('1e300' AS DOUBLE)",  # overflows to infinity, and does not raise
        "`i`",
    ],
)
def test_what_cannot_fail_is_proved(expression):
    assert proved(expression), expression


@pytest.mark.parametrize(
    "expression",
    [
        "i + 1",
        "b + CAST(1 AS BIGINT)",
        "b >> 22",  # after the word map its meaning changes
        "b // CAST(7 AS BIGINT)",
        "b / CAST(7 AS BIGINT)",  # a double
        "CAST(7 AS BIGINT) div b",
        "w div CAST(7 AS DECIMAL(38,0))",  # wraps
        "w + CAST(1 AS BIGINT)",
        "CAST(x AS BIGINT)",
        "CASE WHEN x >= CAST('0.0' AS DOUBLE) THEN CAST(x AS BIGINT) END",  # NaN
        "floor(x)",
        "TRY_CAST(x AS BIGINT)",
        "f = 3",
        "p = 1",  # the common decimal may have fewer digits
        "p + p",
        "q = 'a'",  # its own collation
        's = "a"',  # a string on Spark, a column elsewhere
        "s = 'it''s'",
        "s = '${x}'",
        "s = '\\n'",
        "s = i",
        "CAST(s AS BIGINT)",
        "conv(s, 16, 10)",
        "regexp_like(s, 'a')",
        "rlike(s, 'a')",
        "ltrim(s, ' ')",  # trims the other argument
        "EXTRACT(isodow FROM d)",
        "d + 1",
        "unix_micros(CAST(n AS TIMESTAMP))",
        "try_element_at(map('k', CAST(0 AS BIGINT), 'k', CAST(1 AS BIGINT)), s)",
        "try_element_at(map('k', CAST(0 AS BIGINT)), b)",
        "map('k', b)",
        "try_element_at(array(7, 8), i)",  # there is no place 0
        "CASE WHEN b > 0 THEN try_element_at(array(7, 8), b) END",  # a place has 32 bits
        "CASE WHEN i > 0 THEN try_element_at(array(7, i), i) END",
        "CASE WHEN i > 0 THEN try_element_at(array(7, 2147483648), i) END",
        "CASE WHEN i > 0 THEN try_element_at(array(7, 8), i) + 2147483640 END",
        "array()",
        "pmod(b, b)",
        "monotonically_increasing_id()",
        "xor(b, b)",
        "isfinite(x)",
        "`$i`",
    ],
)
def test_what_may_fail_or_is_not_known_is_refused(expression):
    assert not proved(expression), expression


def test_sums_of_pieces_are_read_back_as_one_sum():
    dialect = Spark()
    for top in (2**20, 2**30, 2**43, 2**44, 2**61):
        total = dialect.total("y", (-9, top))
        inner = f"SELECT {CLAMP.format(top)} AS y FROM `t`"
        proof = prove(f"SELECT COALESCE({total}, 0) FROM ({inner}) AS s")
        assert proof.columns[0].sensitivity("add-remove").l1 == top, top
        # a factor of one changes nothing, and is read so
        same = prove(f"SELECT COALESCE({total.replace('* 4', '* 1 * 4')}, 0) FROM ({inner}) AS s")
        assert same.columns[0].sensitivity("add-remove").l1 == top, top


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("* 4194304", "* 4194305"),
        ("* 4194304", "* 8388608"),
        ("shiftright(y, 44)", "shiftright(y, 43)"),
        ("shiftright(y, 44)", "shiftright(z, 44)"),
        ("y & 4194303", "y & 4194301"),
        ("y & 4194303", "y & 2097151"),
    ],
)
def test_a_wrong_piece_is_no_sum(old, new):
    """Whatever else it may be, it is not read back as the sum of the integer."""
    total = Spark().total("y", (-9, 2**61))
    assert old in total
    sql = f"SELECT COALESCE({total.replace(old, new)}, 0) FROM (SELECT {BIG} AS y, b AS z FROM `t`) AS s"  # noqa: E501 - one statement
    try:
        reading = prove(sql).columns[0]
    except UnprovenStatementError:
        return
    assert reading.sensitivity("add-remove").l1 != 2**61


@pytest.mark.parametrize("bits", range(20, 63))
def test_sums_of_integers_of_any_length_are_proved_and_are_sums(bits):
    """Just below a power of two and at it; no piece leaves 64 bits, however many rows there are."""
    for lo, hi in ((1 - 2**bits, 2**bits - 1), (-(2**bits), 0), (-9, 2**bits), (0, 2**bits - 1)):
        total = Spark().total("y", (lo, hi))
        held = (
            f"COALESCE(CASE WHEN b < {lo} THEN CAST({lo} AS BIGINT) WHEN b > {hi} THEN "
            f"CAST({hi} AS BIGINT) ELSE b END, CAST({lo} AS BIGINT))"
        )
        sql = f"SELECT COALESCE({total}, 0) FROM (SELECT {held} AS y FROM `t`) AS s"
        reading = prove(sql).columns[0]
        assert (reading.lo, reading.hi) == (lo, hi)
        values = [lo, hi, lo + 1, hi - 1, (lo + hi) // 2, 0, 0, hi // 3, lo // 3]
        with duckdb.connect() as engine:
            engine.execute("CREATE MACRO shiftright(x, n) AS x >> n")
            rows = " UNION ALL ".join(f"SELECT CAST({v} AS BIGINT) AS y" for v in values)
            ((found,),) = engine.execute(f"SELECT {total} FROM ({rows}) AS s").fetchall()
        assert found == sum(values)


def test_sums_that_leave_64_bits_are_refused():
    with pytest.raises(UnprovenStatementError):
        prove(f"SELECT sum({CLAMP.format(2**23)}) FROM `t`")
    assert prove(f"SELECT COALESCE(sum({CLAMP.format(2**22)}), 0) FROM `t`")


def test_a_unit_with_a_collation_is_a_unit_only_by_its_bytes():
    """Its own collation may take two people for one: then the limit of one depends on the other."""
    held = {"`t`": verify.Table({"q": "string collate UTF8_LCASE"}, unit="q")}
    sql = (
        "SELECT count(*) FROM (SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY u "
        "ORDER BY u) AS n FROM (SELECT {} AS u FROM `t` WHERE `q` IS NOT NULL) AS s) AS s "
        "WHERE n BETWEEN 1 AND 2) AS s"
    )
    good = prove(sql.format("(`q` COLLATE UTF8_BINARY)"), held).columns[0]
    assert good.sensitivity("add-remove").l1 == 2
    assert prove(sql.format("`q`"), held).columns[0].sensitivity("add-remove").l1 == float("inf")


def test_only_a_condition_that_is_not_deterministic_is_a_fence():
    view = {"`t`": verify.Table({"i": "int"}, computed=True)}
    fence = "(SELECT `i` FROM `t`{}) AS s"
    assert prove(f"SELECT count(*) FROM {fence.format(Spark.fence)}", view)
    for other in ("", " OFFSET 0", " WHERE i >= 0", " WHERE monotonically_increasing_id() >= 1",
                  " WHERE monotonically_increasing_id() >= 0 AND i > 0"):  # fmt: skip
        with pytest.raises(UnprovenStatementError):
            prove(f"SELECT count(*) FROM {fence.format(other)}", view)


@pytest.mark.parametrize(
    "value", ["it's", "a\\b", "${x}", "$", "\\'", "\\u0024", 'q"q', "``", "\n"]
)
def test_strings_are_read_as_they_were_meant(value):
    for dialect in (DuckDB(), Postgres(), Spark()):
        sql = f"SELECT {dialect.text(value)} AS y FROM {dialect.quote('t')} AS s"
        node, _ = read(sql, dialect.name).items[0]
        assert node.args == (value,), dialect.name


def test_a_dialect_that_leaves_something_open_cannot_be_made():
    for missing in ("quote", "text", "collated", "rounded", "total", "floor_wide", "part",
                    "micros", "trimmed", "shifted", "xor"):  # fmt: skip
        partial = type("Partial", (Spark,), {missing: getattr(Spark.__mro__[1], missing)})
        with pytest.raises(TypeError, match=missing):
            partial()


@pytest.mark.parametrize(("moved", "holds"), [("n - 1", True), ("n + 1", False), ("n", True)])
def test_the_number_of_a_row_has_32_bits(moved, holds):
    over = "row_number() OVER (PARTITION BY u ORDER BY i)"
    ranked = f"SELECT *, {over} AS n FROM (SELECT u, i FROM `t`) AS s"
    sql = f"SELECT count(*) FROM (SELECT {moved} AS m FROM ({ranked}) AS s) AS s"
    try:
        prove(sql, {"`t`": verify.Table(COLUMNS, unit="u")})
    except UnprovenStatementError:
        assert not holds
    else:
        assert holds
