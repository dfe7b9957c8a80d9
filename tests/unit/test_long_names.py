"""A text that is longer than any key of a database names nobody, on any engine."""

from __future__ import annotations

import contextlib

import pyarrow as pa
import pytest

from discreet import engines, plan, verify
from discreet import policy as pol
from discreet.engines._dialect import DuckDB, Postgres, Spark
from discreet.engines._physical import Field, Physical
from discreet.engines._render import Source, render
from discreet.errors import UnprovenStatementError
from discreet.plan import Limits, Measure, MeasureKind, Scan, aggregate
from discreet.plan import expr as ex

SALT = plan.Salt(b"names")
MEASURES = (Measure(MeasureKind.SUM, ex.Constant.number(1)), Measure(MeasureKind.UNITS))
NAMES = ["a" * 4096, "a" * 4097, "ä" * 2048, "ä" * 2048 + "b", "😀" * 1024, "", None]
BUDGET = pol.Budget("1")
NATIVE = {"duckdb": "VARCHAR", "postgresql": "text", "spark": "string"}


def counted(tables, rows):
    """Rows and units of the last table, as DuckDB and the reference have them."""
    own = pol.Policy(tables, BUDGET)
    asked = aggregate(Scan(own.tables[tables[-1].name]), (), MEASURES, Limits(rows=9))
    held = {name: pa.Table.from_pylist(data) for name, data in rows.items()}
    with contextlib.closing(engines.connect(held, own)) as engine:
        found = engine.execute(asked, SALT)
    assert found == plan.run(asked, rows, SALT)
    return found


def test_who_has_too_long_a_name_is_nobody():
    table = pol.Table("t", [pol.Integer("n", 0, 9)], unit="u", max_rows_per_unit=9)
    rows = [{"u": u, "n": i} for i, u in enumerate(NAMES) for _ in range(2)]
    assert counted([table], {"t": rows}) == {(): (8, 4)}


def test_a_key_that_is_too_long_owns_nothing():
    above = pol.Table("v", [pol.Integer("n", 0, 9)], unit="u", key="k", max_rows_per_unit=1)
    below = pol.Table("w", [pol.Integer("m", 0, 9)], owner=pol.Owner("v", "k"), max_rows_per_unit=9)
    visits = [{"u": i, "n": 1, "k": k} for i, k in enumerate(NAMES)]
    lines = [{"k": k, "m": 1} for k in NAMES]
    assert counted([above, below], {"v": visits, "w": lines}) == {(): (4, 4)}


@pytest.mark.parametrize("dialect", [DuckDB(), Postgres(), Spark()], ids=lambda d: d.name)
def test_names_are_measured_where_they_are_read(dialect):
    """In the innermost SELECT: what stands above it groups, sorts and sends about."""
    own = pol.Table("t", [], unit="u", max_rows_per_unit=1)
    found = Field("u", Physical.TEXT, NATIVE[dialect.name])
    table = dialect.quote("t")
    asked = aggregate(Scan(own), (), MEASURES, Limits(rows=1))
    text = render(dialect, {"t": Source(table, {"u": found})}, asked)
    assert "<= 4096" in text[: text.index(")", text.index("<= 4096"))].rpartition("SELECT")[2]
    held = {table: verify.Table({"u": found.native}, unit="u")}
    proof = verify.prove(text, dialect=dialect.name, tables=held)
    assert proof.columns[0].sensitivity("add-remove").l1 == 1


@pytest.mark.parametrize("function", ["strlen", "octet_length"])
@pytest.mark.parametrize("dialect", NATIVE)
def test_bytes_are_counted_by_the_function_of_each_engine(dialect, function):
    held = {"t": verify.Table({"u": NATIVE[dialect], "d": "date"}, unit=None)}
    for column in "ud":
        sql = f"SELECT count(*) FROM (SELECT {function}({column}) AS y FROM t) AS s"
        known = (column, function) == ("u", "strlen" if dialect == "duckdb" else "octet_length")
        with contextlib.nullcontext() if known else pytest.raises(UnprovenStatementError):
            assert verify.prove(sql, dialect=dialect, tables=held)
