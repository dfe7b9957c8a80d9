"""Faults of the sample of seed 9701, in engines, that the tests asked did not see."""

from __future__ import annotations

import duckdb
import pytest

from discreet import engines as eng
from discreet import plan as pl
from discreet import policy as pol
from discreet.engines._statements import Statements
from discreet.errors import SchemaError

COLUMNS = [pol.Integer("a", 0, 9)]


def policy(*tables):
    return pol.Policy(list(tables), pol.Budget("1"), name="p")


def test_a_view_that_fails_on_a_row_is_refused_when_it_is_opened():
    with duckdb.connect() as base:
        base.execute("CREATE TABLE raw AS SELECT * FROM (VALUES ('1'), ('x')) s(t)")
        base.execute("CREATE VIEW t AS SELECT CAST(t AS INTEGER) AS a FROM raw")
        with pytest.raises(SchemaError, match="cannot be read on every row"):
            eng.connect(base, policy(pol.Table("t", COLUMNS)))
        base.execute("DELETE FROM raw WHERE t = 'x'")
        eng.connect(base, policy(pol.Table("t", COLUMNS)))


def test_how_often_a_public_key_repeats_is_what_the_source_says():
    public = pol.Table("r", COLUMNS, public=True)
    with duckdb.connect() as base:
        base.execute("CREATE TABLE t AS SELECT 1 AS a")
        base.execute("CREATE TABLE r AS SELECT * FROM (VALUES (1), (2), (2), (2), (3)) s(a)")
        engine = eng.connect(base, policy(pol.Table("t", COLUMNS), public))
        assert engine.fanout(pl.Scan(public), ("a",)) == 3
        # as engines without a way of their own ask for it
        assert Statements._measure(engine, pl.Scan(public), ("a",)) == 3
