"""What fragments of statements compute, each evaluated by an engine, against Python's integers."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction

import duckdb
import pytest

from discreet import policy as pol
from discreet.engines._dialect import DuckDB, Postgres
from discreet.engines._ingest import _moment, code, floor_div, raw
from discreet.engines._physical import Field, Physical
from discreet.engines._render import _Statement
from discreet.plan import Kind, Type, ingest
from discreet.plan import expr as ex
from discreet.plan._per_unit import Fold, FoldKind

EDGE = 2**63


def computed(text, values, kind):
    with duckdb.connect() as connection:
        rows = [(i, v) for i, v in enumerate(values)]
        connection.execute(f"CREATE TABLE t (i INTEGER, x {kind})")
        connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
        return [r for (r,) in connection.execute(f"SELECT {text} FROM t ORDER BY i").fetchall()]


@pytest.mark.parametrize("dialect", [DuckDB(), Postgres()], ids=["duckdb", "postgresql"])
@pytest.mark.parametrize("step", [1.0, 1.5, 2.0, 3.0, 10.0, 1e6])
def test_a_double_is_divided_by_its_step(dialect, step):
    """But for what lies next to zero, whose code is 0 either way: dividing it may underflow."""
    values = [0.0, 1e-300, -0.2, 0.25, -0.25, 0.3, 1.0, -1.0, 2.0, 7.5, -1e9, 1e300]
    found = computed(dialect.scaled("x", step), values, "DOUBLE")
    for x, scaled in zip(values, found, strict=True):
        assert scaled == x / step or (abs(x) < 0.25 and round(scaled) == 0)


@pytest.mark.parametrize("d", [1, 2, 3, 7, 86_400])
@pytest.mark.parametrize(
    "bounds",
    [(0, 100), (-100, 100), (-7, -1), (-1, 0), (-EDGE // 2, EDGE // 2), (-5, EDGE - 1),
     (-EDGE, EDGE - 1), (0, EDGE - 1), (-EDGE, 0), (EDGE - 9, EDGE - 1)],
)  # fmt: skip
def test_the_floor_of_a_quotient_wherever_its_bounds_lie(d, bounds):
    """No bound makes it overflow: the ends and what is next to them are tried."""
    lo, hi = bounds
    near = {lo, lo + 1, hi - 1, hi, *range(-15, 16), -d, d, -d - 1, 1 - d, 2 * d - 1}
    values = sorted(x for x in near if lo <= x <= hi)
    found = computed(floor_div(DuckDB(), "x", d, bounds), values, "BIGINT")
    assert [int(x) for x in found] == [x // d for x in values]


@pytest.mark.parametrize("outside", ["null", "clamp"])
@pytest.mark.parametrize("span", [(-3, 4), (0, 9), (-9, -2), (5, 5)])
@pytest.mark.parametrize("tick", [1, 10, 60])
def test_a_moment_is_its_tick_and_what_lies_outside_is_null_or_clamped(outside, span, tick):
    lo, hi = span
    kind = Type(Kind.NUMBER, lo, hi)
    ends = [lo * tick, (hi + 1) * tick]
    values = sorted({x + d for x in (*ends, 0) for d in (-tick - 1, -1, 0, 1, tick)})
    found = computed(_moment(DuckDB(), "x", tick, kind, outside), values, "BIGINT")
    for x, told in zip(values, found, strict=True):
        exact = math.floor(Fraction(x, tick))
        inside = exact if lo <= exact <= hi else None
        assert told == (inside if outside == "null" else min(max(exact, lo), hi)), x


NUMBERS = [None, 0, 1, -1, 2, 3, 4, 5, 7, 9, 10, 11, -4, 12]
REALS = [None, *map(float, NUMBERS[1:]), 0.2, 0.25, 0.5, 0.75, 1.5, 2.5,
         -0.5, 4.5, 9.4, 9.5, 9.6, 10.4, -3.49, -3.51, 1e-300, 1e300, -1e300, math.inf, -math.inf,
         math.nan]  # fmt: skip
DECIMALS = [None if x is None else Decimal(str(x)) for x in REALS
            if x is None or abs(x) < 100]  # fmt: skip
HELD = {
    "BIGINT": (Physical.INTEGER, NUMBERS),
    "DOUBLE": (Physical.FLOAT, REALS),
    "DECIMAL(18,3)": (Physical.DECIMAL, DECIMALS),
}


@pytest.mark.parametrize("native", HELD)
@pytest.mark.parametrize("outside", ["clamp", "null"])
@pytest.mark.parametrize("step", [None, "0.5", "1", "2", "3"])
@pytest.mark.parametrize("null", [None, 3])
def test_numbers_of_any_type_have_the_codes_of_the_reference(native, outside, step, null):
    """Halves, ends, what lies outside, infinities and NaN; with and without a value for NULL."""
    kind, values = HELD[native]
    more = {"outside": outside, "null": null}
    ends = (-3, 9) if step != "2" else (-4, 10)
    column = pol.Integer("x", *ends, **more) if step is None else pol.Real(
        "x", *ends, step, **(more if step != "2" else more | {"null": null and 4})
    )  # fmt: skip
    held = Field("x", kind, native)
    text = code(DuckDB(), column, held, "r")
    found = computed(f"(SELECT {text} FROM (SELECT {raw(DuckDB(), column, held, 'x')} AS r) AS s)",
                     values, native)  # fmt: skip
    assert found == [ingest(column, v) for v in values]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
def test_instants_with_a_zone_are_counted_from_one_place_whatever_the_session_says(zone):
    """From the first to the last that a policy can name; what is farther is one of two ends."""
    native = "TIMESTAMP WITH TIME ZONE"
    text = DuckDB().micros("x", Field("x", Physical.TIMESTAMP, native))
    first = dt.datetime(1, 1, 1, tzinfo=dt.UTC)
    last = dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC)
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    hour = dt.timedelta(hours=1)
    for moment in (first, first + hour, first + 20 * hour, epoch, last - hour, last):
        with duckdb.connect() as connection:
            connection.execute(f"SET TimeZone = '{zone}'")
            micros = (moment - epoch) // dt.timedelta(microseconds=1)
            sql = f"SELECT {text} FROM (SELECT make_timestamptz({micros}) AS x) AS s"
            assert connection.execute(sql).fetchall() == [(micros,)]


@pytest.mark.parametrize("kind", [FoldKind.COUNT, FoldKind.SUM, FoldKind.DISTINCT])
def test_what_a_person_counts_or_adds_up_is_moved_into_its_bounds(kind):
    """However many rows there are: what follows rests on the bounds."""
    fold = Fold(kind, ex.Column("v", Type.number(-3, 9)))
    lo, hi = fold.type.lo, fold.type.hi
    statement = object.__new__(_Statement)
    statement.dialect = DuckDB()
    values = [lo - 1, lo, lo + 1, hi - 1, hi, hi + 1, -(2**100), 2**100]
    found = computed(statement.bounded(fold, "x"), values, "HUGEINT")
    assert found == [min(max(v, lo), hi) for v in values]
    least = Fold(FoldKind.MIN, ex.Column("v", Type.number(-3, 9)))
    assert statement.bounded(least, "x") == "x"  # one of the values, which have bounds
