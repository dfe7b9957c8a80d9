"""No sensitivity uses a limit that the statement does not enforce."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import duckdb
import pyarrow as pa
import pytest

from discreet import engines, sql
from discreet import plan as pl
from discreet import policy as pol
from discreet.engines import Reference
from discreet.errors import ParameterError
from discreet.plan import expr as ex
from discreet.privacy import Neighbours

SALT = pl.Salt(b"limits")
ONE = pl.Measure(pl.MeasureKind.SUM, ex.Constant.number(Fraction(1)))
REGION = pol.Category("region", ["N", "S"])
SHOPS = pol.Table("shops", [REGION, pol.Integer("shop", 0, 999)], public=True)


def policy(**unit):
    people = pol.Table("people", [REGION, pol.Integer("age", 0, 115)], **unit)
    return pol.Policy([people, SHOPS], pol.Budget("1", delta="1e-6"))


@pytest.mark.parametrize(
    "question",
    [
        "SELECT COUNT(*) AS n",
        (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, max_rows_contributed=1) "
            "COUNT(*) AS n"
        ),
        (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, max_groups_contributed=1) "
            "shop, COUNT(*) AS n"
        ),
        "SELECT COUNT(*, contribution_bounds_per_group => (0,1)) AS n",
        "SELECT COUNT(DISTINCT shop) AS n",
        "SELECT MEDIAN(shop) AS n",
        "SELECT MODE(region) AS n",
    ],
)
@pytest.mark.parametrize("how", ["", "LEFT "])
def test_a_row_that_a_join_repeats_moves_what_is_declared(question, how):
    """row_limits: declared 1, actual 500, when a question lowered the limit of a row unit."""
    group = " GROUP BY shop" if "shop," in question else ""
    query = sql.parse(
        f"{question} FROM people {how}JOIN shops USING (region){group}",
        policy(),
        public_fanout=lambda *_: 500,
    ).query
    shops = [{"region": "NS"[i // 500], "shop": i} for i in range(1000)]
    people = [{"region": "N", "age": 30}, {"region": "S", "age": 40}]
    for asked in pl.lower(query).aggregates:
        for i, measure in enumerate(asked.measures):
            a, b = (
                Reference({"people": p, "shops": shops}).execute(asked, SALT)
                for p in (people, people[:1])
            )
            moves = [abs(a.get(k, (0,) * 9)[i] - b.get(k, (0,) * 9)[i]) for k in a.keys() | b]
            declared = pl.sensitivity(asked, measure)
            assert sum(moves) <= declared.l1
            assert sum(m * m for m in moves) <= declared.l2_squared
            assert max(moves) <= declared.linf
            assert declared.l1 == 500


def test_an_aggregate_over_an_unbounded_relation_cannot_be_made():
    scan = pl.Scan(policy(unit="id", max_rows_per_unit=3).tables["people"])
    assert scan.m is None
    project = pl.Project(scan, (("v0", ONE.expr),))
    with pytest.raises(ParameterError, match="unbounded"):
        pl.Aggregate(project, (), (ONE,))
    limited = pl.Aggregate(pl.LimitRows(project, 2), (), (ONE,))
    assert pl.sensitivity(limited, ONE).l1 == 2
    with pytest.raises(ParameterError, match="limited before"):
        pl.JoinUnit(scan, scan, "o.")


def test_a_limit_on_rows_that_are_units_cannot_be_made():
    scan = pl.Scan(policy().tables["people"])
    with pytest.raises(ParameterError, match="unit column"):
        pl.LimitRows(scan, 1)
    assert pl.aggregate(scan, (), (ONE,), pl.Limits(rows=1)).relation.m == 1


def test_an_aggregate_stands_on_its_own_keys():
    """A relation projected for other keys would be grouped by what was not limited."""
    scan = pl.Scan(policy(unit="id", max_rows_per_unit=3).tables["people"])
    key = pl.Key("region", ex.Column("region", scan.schema["region"]), (0, 1))
    good = pl.aggregate(scan, (key,), (ONE,), pl.Limits(rows=3))
    with pytest.raises(ParameterError, match="its own keys"):
        replace(good, keys=())
    with pytest.raises(ParameterError, match="its own keys"):
        replace(good, keys=(replace(key, codes=(0,)),))


# -- work ------------------------------------------------------------------------------


def work(connection, statement):
    """Rows that pass all operators of a statement, summed."""
    text = connection.execute(f"EXPLAIN (ANALYZE, FORMAT json) {statement}").fetchall()[0][1]

    def total(node):
        return node.get("operator_cardinality", 0) + sum(map(total, node.get("children", [])))

    return total(json.loads(text))


@pytest.mark.parametrize("joins", [1, 6])
def test_self_joins_work_as_much_with_a_heavy_person_as_without(joins):
    """selfjoin_time: 1.8 s against 0.05 s told whether a person was there."""
    visits = pol.Table("visits", [pol.Integer("zip", 0, 9999)], unit="id", max_rows_per_unit=2)
    own = pol.Policy([visits], pol.Budget("1"))
    chain = " ".join(f"JOIN visits v{i} ON v.id = v{i}.id" for i in range(joins))
    query = sql.parse(f"SELECT COUNT(*) AS n FROM visits v {chain} WHERE v.zip = 7", own).query
    asked = pl.lower(query).aggregates[0]
    assert asked.relation.m == 2 ** (joins + 1)
    done = []
    for heavy in (0, 12):
        connection = duckdb.connect()
        connection.execute(
            "CREATE TABLE visits AS SELECT 1000 + range AS id, range AS zip FROM range(200)"
        )
        connection.execute(f"INSERT INTO visits SELECT 7, 7 FROM range({heavy})")
        engine = engines.connect(connection, own)
        done.append(work(connection, engine.sql(asked, SALT)))
        engine.close()
    # twelve more rows pass some twenty operators per table; 12^7 would be 35 million
    assert done[1] - done[0] <= 12 * 30 * (joins + 1) + 4 * 2 ** (joins + 1)


@pytest.mark.parametrize("relation", list(Neighbours))
def test_two_signs_over_unequal_groups_need_more_than_the_simple_bound(relation):
    """Counts (2, 1) against (1, 2) with values 2 and -1: L2 squared is 50, not 45."""
    table = pol.Table(
        "t",
        [pol.Category("g", ["a", "b"]), pol.Integer("x", -1, 2)],
        unit="id",
        max_rows_per_unit=3,
        max_rows_per_group=2,
        neighbours=relation,
    )
    query = sql.parse(
        "SELECT g, SUM(x) AS s FROM t GROUP BY g", pol.Policy([table], pol.Budget("1"))
    ).query
    asked = pl.lower(query).aggregates[0]
    rows = {"a": [2, 2, -1], "b": [-1, 2, 2]}
    groups = {"a": "aab", "b": "abb"}
    left, right = (
        Reference(
            {"t": [{"id": 1, "g": g, "x": x} for g, x in zip(groups[k], rows[k], strict=True)]}
        )
        for k in "ab"
    )
    a, b = left.execute(asked, SALT), right.execute(asked, SALT)
    moved = sum((a[k][0] - b[k][0]) ** 2 for k in a)
    assert moved == 50
    declared = pl.sensitivity(asked, asked.measures[0])
    if relation is Neighbours.CHANGE_ONE:
        assert declared.l2_squared == 50
    else:
        assert declared.l2_squared == 4 * 5


def test_units_alone_are_counted_by_pairs_before_rows_are_limited():
    """COUNT(DISTINCT unit) loses no group to a limit that a person's rows elsewhere fill."""
    own = policy(unit="id", max_rows_per_unit=2)
    query = sql.parse("SELECT region, COUNT(DISTINCT id) AS n FROM people GROUP BY region", own)
    asked = pl.lower(query.query).aggregates[0]
    rows = [{"id": 1, "region": "N", "age": a} for a in range(50)]
    rows += [{"id": 1, "region": "S", "age": 3}]
    data = pa.Table.from_pylist(rows)
    engine = engines.connect(
        {"people": data, "shops": pa.table({"region": ["N"], "shop": [1]})}, own
    )
    assert engine.execute(asked, SALT) == {(0,): (1,), (1,): (1,)}
    engine.close()
