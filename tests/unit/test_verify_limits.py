"""Limits read back from the text, and what one unit can move."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from discreet import verify
from discreet.errors import UnprovenStatementError

INF = math.inf
PEOPLE = verify.Table({"id": "BIGINT", "a": "INTEGER", "k": "VARCHAR"}, unit="id")
VISITS = verify.Table({"id": "BIGINT", "cost": "INTEGER"}, unit="id")
ROWS = verify.Table({"a": "INTEGER", "k": "VARCHAR"})
REGION = verify.Table({"code": "VARCHAR", "w": "INTEGER"}, public=True)
TABLES = {'"people"': PEOPLE, '"visits"': VISITS, '"rows"': ROWS, '"region"': REGION}

A = (
    "COALESCE(CASE WHEN a < 0 THEN CAST(0 AS BIGINT) WHEN a > 9 THEN CAST(9 AS BIGINT) ELSE a END, "
    "CAST(0 AS BIGINT))"
)
K = (
    "CASE k WHEN 'x' THEN CAST(0 AS BIGINT) WHEN 'y' THEN CAST(1 AS BIGINT) "
    "ELSE CAST(2 AS BIGINT) END"
)
CODE = K.replace("CASE k", "CASE code")
REGIONS = f'SELECT {CODE} AS c FROM "region"'
BASE = f'SELECT "id" AS u, {A} AS a, {K} AS k FROM "people" WHERE "id" IS NOT NULL'


def first(body, rank, most, name="n"):
    ranked = f"SELECT *, {rank} AS {name} FROM ({body}) AS s"
    return f"SELECT * FROM ({ranked}) AS s WHERE {name} BETWEEN 1 AND {most}"


def rows_of(body, most=3, order="a, k", partition="u"):
    return first(body, f"row_number() OVER (PARTITION BY {partition} ORDER BY {order})", most)


def reading(sql, column=-1, fanouts=None):
    return verify.prove(sql, dialect="duckdb", tables=TABLES, fanouts=fanouts).columns[column]


def total(body):
    return f"SELECT COALESCE(sum(a), 0) FROM ({body}) AS s"


def by_key(body, what="COALESCE(sum(a), 0)"):
    return f"SELECT k, {what} FROM ({body}) AS s GROUP BY k"


def test_without_a_limit_nothing_bounds_a_unit():
    r = reading(total(BASE))
    assert r.rows == INF
    assert r.sensitivity("add-remove") == verify.Reach(INF, INF, INF)
    assert not r.within(10**30, 10**60, 10**30, "add-remove")


def test_rows_of_a_unit():
    r = reading(total(rows_of(BASE)))
    assert (r.lo, r.hi, r.rows, r.cells) == (0, 9, 3, 1)
    assert r.sensitivity("add-remove") == verify.Reach(27, 729, 27)
    assert r.within(27, 729, 27, "add-remove")
    assert not r.within(26, 729, 27, "add-remove")
    assert not r.within(27, 728, 27, "add-remove")
    assert not r.within(27, 729, 26, "add-remove")


def test_strict_and_equal_comparisons_limit_as_well():
    ranked = f"SELECT *, row_number() OVER (PARTITION BY u ORDER BY a, k) AS n FROM ({BASE}) AS s"
    for test, most in (("n < 4", 3), ("n <= 4", 4), ("n = 2", 1), ("n > 4", INF), ("n <> 4", INF)):
        assert reading(total(f"SELECT * FROM ({ranked}) AS s WHERE {test}")).rows == most
    # what was moved is not the rank any more
    for moved in ("n - 5", "n * 2", "CAST(n AS HUGEINT) - 7"):
        shifted = f"SELECT *, {moved} AS m FROM ({ranked}) AS s"
        assert reading(total(f"SELECT * FROM ({shifted}) AS s WHERE m <= 3")).rows == INF


@pytest.mark.parametrize("partition", ["a", "k", "u % 7", "u + 0", "COALESCE(u, 0)"])
def test_another_partition_mixes_units(partition):
    body = rows_of(BASE, partition=partition)
    assert reading(total(body)).sensitivity("add-remove").l1 == INF
    # and no later limit undoes it
    later = rows_of(body.replace(" AS n", " AS m").replace(" n ", " m "))
    assert reading(total(later)).sensitivity("add-remove").l1 == INF


def test_rows_without_a_unit_must_be_dropped():
    kept = BASE.replace(' WHERE "id" IS NOT NULL', "")
    assert reading(total(rows_of(kept))).sensitivity("add-remove").l1 == INF


def test_an_order_that_leaves_ties_open_hides_the_columns_it_does_not_decide():
    with pytest.raises(UnprovenStatementError):
        reading(total(rows_of(BASE, order="k")))
    counted = f"SELECT k, count(*) FROM ({rows_of(BASE, order='k')}) AS s GROUP BY k"
    assert reading(counted).rows == 3
    beside = f"SELECT u, a, row_number() OVER (PARTITION BY u ORDER BY k) AS n FROM ({BASE}) AS s"
    with pytest.raises(UnprovenStatementError):
        reading(total(f"SELECT * FROM ({beside}) AS s WHERE n BETWEEN 1 AND 3"))


def test_an_ordinal_among_all_codes_makes_the_order_total():
    numbered = f"SELECT *, row_number() OVER (PARTITION BY u ORDER BY a, k) AS j FROM ({BASE}) AS s"
    mixed = f"SELECT *, (j % 7 * :salt0) % 7 AS h FROM ({numbered}) AS s"
    assert reading(total(rows_of(mixed, order="h, j"))).rows == 3
    with pytest.raises(UnprovenStatementError):
        reading(total(rows_of(mixed, order="h")))


def test_words_are_seen_through():
    packed = f"SELECT u, (a) * CAST(4 AS BIGINT) + (k) AS w FROM ({BASE}) AS s"
    opened = (f"SELECT u, ((w >> 2) & CAST(15 AS BIGINT)) AS a, (w & CAST(3 AS BIGINT)) AS k "
              f"FROM ({rows_of(packed, order='w')}) AS s")  # fmt: skip
    r = reading(by_key(opened))
    assert (r.lo, r.hi, r.rows, r.cells) == (0, 9, 3, 3)
    # fields that overlap are no fields
    bad = packed.replace("CAST(4 AS", "CAST(2 AS")
    r = reading(by_key(opened.replace(packed, bad)))
    assert (r.hi, r.cells) == (5, 4)


def groups_of(body, most=2, order="k"):
    return first(body, f"dense_rank() OVER (PARTITION BY u ORDER BY {order})", most, "g")


def test_groups_and_rows_per_group():
    shares = rows_of(BASE, most=5, partition="u, k")
    r = reading(by_key(groups_of(shares)))
    assert (r.groups, r.rows_per_group, r.rows, r.cells) == (2, 5, 10, 3)
    assert r.sensitivity("add-remove") == verify.Reach(90, 2 * 45**2, 45)
    # groups of another column bound nothing here
    assert reading(by_key(groups_of(shares, order="a"))).groups == INF
    assert reading(by_key(rows_of(BASE, most=5, partition="u, a"))).rows_per_group == INF
    # a finer group than the key bounds the key's groups, a coarser share bounds the key's rows
    assert reading(by_key(groups_of(shares, order="a, k"))).groups == 2
    coarse = f"SELECT *, k % 2 AS c FROM ({BASE}) AS s"
    assert reading(by_key(rows_of(coarse, most=5, partition="u, c"))).rows_per_group == 5


def test_groups_of_some_of_the_keys_bound_the_rows_in_all():
    shares = rows_of(BASE, most=5, partition="u, k")
    finer = f"SELECT k, a, count(*) FROM ({groups_of(shares)}) AS s GROUP BY k, a"
    r = reading(finer)
    assert (r.rows, r.groups, r.rows_per_group, r.cells) == (10, INF, 5, 30)
    assert r.sensitivity("add-remove") == verify.Reach(10, 50, 5)
    # the groups do not decide the shares of another column, whose ten values do
    loose = rows_of(BASE, most=5, partition="u, a")
    assert reading(by_key(groups_of(loose))).rows == 50


def test_joins_multiply():
    body = f"SELECT l.*, r.c FROM ({rows_of(BASE)}) AS l INNER JOIN ({REGIONS}) AS r ON l.k = r.c"
    assert reading(total(body)).rows == INF
    known = {('"region"', frozenset({"code"})): 4}
    assert reading(total(body), fanouts=known).rows == 12
    # a rank from below the join does not limit the rows above it
    ranked = f"SELECT *, row_number() OVER (PARTITION BY u ORDER BY a, k) AS n FROM ({BASE}) AS s"
    above = body.replace(rows_of(BASE), ranked)
    late = total(f"SELECT * FROM ({above}) AS s WHERE n BETWEEN 1 AND 3")
    assert reading(late, fanouts=known).rows == INF


def test_a_join_key_of_two_columns_fixes_neither():
    right = REGIONS.replace("CASE code WHEN 'x'", "CASE WHEN w > 5 AND code = 'x'").replace(
        "WHEN 'y'", "WHEN code = 'y'"
    )
    body = f"SELECT l.*, r.c FROM ({rows_of(BASE)}) AS l INNER JOIN ({right}) AS r ON l.k = r.c"
    known = {('"region"', frozenset({"code"})): 1, ('"region"', frozenset({"w"})): 1}
    assert reading(total(body), fanouts=known).rows == INF


def test_unit_joins_multiply_limits():
    code = "CASE WHEN cost > 0 THEN CAST(1 AS BIGINT) ELSE CAST(0 AS BIGINT) END"
    visits = f'SELECT "id" AS u, {code} AS c FROM "visits" WHERE "id" IS NOT NULL'
    limited = rows_of(visits, most=4, order="c")
    join = "SELECT l.*, r.c FROM ({}) AS l INNER JOIN ({}) AS r ON l.u = r.u"
    assert reading(total(join.format(rows_of(BASE), limited))).rows == 12
    assert reading(total(join.format(rows_of(BASE), visits))).rows == INF
    again = rows_of(join.format(BASE, visits), most=5, order="a, k, c")
    assert reading(total(again)).rows == 5
    with pytest.raises(UnprovenStatementError):
        reading(total(join.format(rows_of(BASE), limited).replace("l.u = r.u", "l.a = r.c")))


def test_rows_as_units():
    body = f'SELECT {A} AS a, {K} AS k FROM "rows"'
    r = reading(total(body))
    assert (r.rows, r.certain) == (1, True)
    assert r.sensitivity("add-remove") == verify.Reach(9, 81, 9)
    assert r.sensitivity("change-one") == verify.Reach(9, 81, 9)
    shifted = body.replace("BIGINT)) AS a", "BIGINT)) + 5 AS a")
    assert reading(total(shifted)).sensitivity("change-one").l1 == 9
    some = reading(total(f"SELECT * FROM ({shifted}) AS s WHERE k = 1"))
    assert some.sensitivity("change-one").l1 == 14
    joined = f"SELECT l.* FROM ({body}) AS l INNER JOIN ({REGIONS}) AS r ON l.k = r.c"
    known = {('"region"', frozenset({"code"})): 500}
    counted = reading(f"SELECT count(*) FROM ({joined}) AS s", fanouts=known)
    assert counted.sensitivity("add-remove").l1 == 500
    assert reading(total(rows_of(body, partition="a"))).sensitivity("add-remove").l1 == INF


def test_counts_of_units_move_by_one_per_group():
    r = reading(by_key(rows_of(BASE), "count(DISTINCT u)"))
    assert r.once
    assert r.sensitivity("add-remove") == verify.Reach(3, 3, 1)
    assert not reading(by_key(rows_of(BASE), "count(DISTINCT a)")).once
    assert reading(by_key(rows_of(BASE), "least(count(*), 1)")).once


def test_sums_of_sums_keep_the_addend_and_nothing_else_may_touch_sums():
    body = f'SELECT "k" AS r, {A} AS a FROM "rows"'
    inner = f"SELECT r, count(*) AS c, sum(a) AS a FROM ({body}) AS s GROUP BY r OFFSET 0"
    coded = f"SELECT {K.replace('CASE k', 'CASE r')} AS k, c, a FROM ({inner}) AS s"
    assert reading(by_key(coded)).sensitivity("add-remove").l1 == 9
    counts = reading(by_key(coded, "COALESCE(sum(c), 0) * CAST(7 AS HUGEINT)"))
    assert counts.sensitivity("add-remove").l1 == 7
    step = "CASE WHEN c > 5 THEN CAST(9 AS BIGINT) ELSE CAST(0 AS BIGINT) END"
    for spoiled in (
        by_key(f"SELECT * FROM ({coded}) AS s WHERE c > 5"),
        by_key(f"SELECT k, {step} AS a FROM ({coded}) AS s"),
        f"SELECT m, count(*) FROM (SELECT {step} AS m FROM ({coded}) AS s) AS s GROUP BY m",
        by_key(coded, "COALESCE(sum(a), 1)"),
        by_key(coded, "count(DISTINCT a)"),
    ):
        assert reading(spoiled).sensitivity("add-remove").l1 == INF


def test_a_square_is_never_negative():
    shifted = BASE.replace("BIGINT)) AS a", "BIGINT)) - 4 AS a")
    squares = f"SELECT u, a * a AS a, k FROM ({shifted}) AS s"
    r = reading(total(rows_of(squares)))
    assert (r.lo, r.hi) == (0, 25)


def test_the_number_of_groups_is_not_the_number_of_rows():
    body = f'SELECT {K} AS k FROM "rows"'
    assert reading(f"SELECT count(*) FROM ({body}) AS s").sensitivity("change-one").l1 == 0
    groups = f"SELECT k, count(*) AS c FROM ({body}) AS s GROUP BY k"
    assert reading(f"SELECT count(*) FROM ({groups}) AS s").sensitivity("change-one").l1 == 1


def test_where_on_keys_makes_cells_fewer():
    body = rows_of(BASE)
    assert reading(by_key(body)).cells == 3
    assert reading(by_key(f"SELECT * FROM ({body}) AS s WHERE k IN (0, 2)")).cells == 2
    assert reading(by_key(f"SELECT * FROM ({body}) AS s WHERE k BETWEEN 1 AND 1")).cells == 1


def worst(ends, limits, neighbours):
    """Exact worst case over all ways to place addends at the ends, by trying them all."""
    (lo, hi), (rows, groups, share, cells) = ends, limits
    counts = [c for c in itertools.product(range(min(rows, share) + 1), repeat=cells)
              if sum(c) <= rows and sum(1 for x in c if x) <= groups]  # fmt: skip
    vectors = {x for c in counts for x in itertools.product(*[{n * lo, n * hi} for n in c])}
    pairs = [(v, (0,) * cells) for v in vectors]
    if neighbours == "change-one":
        pairs = itertools.product(vectors, vectors)
    best = [0, 0, 0]
    for x, y in pairs:
        d = [abs(p - q) for p, q in zip(x, y, strict=True)]
        best = [max(best[0], sum(d)), max(best[1], sum(e * e for e in d)), max(best[2], *d)]
    return best


@pytest.mark.parametrize("seed", range(120))
def test_sensitivity_covers_every_placement(seed):
    r = random.Random(seed)
    lo, hi = sorted((r.randint(-3, 3), r.randint(-3, 3)))
    rows, groups, share, cells = r.randint(1, 4), r.randint(1, 3), r.randint(1, 3), r.randint(1, 3)
    found = verify.Reading(False, lo, hi, rows, groups, share, cells)
    for neighbours in ("add-remove", "change-one"):
        reach = found.sensitivity(neighbours)
        exact = worst((lo, hi), (rows, groups, share, cells), neighbours)
        bounds = [reach.l1, reach.l2_squared, reach.linf]
        assert all(b >= e for b, e in zip(bounds, exact, strict=True))
        if neighbours == "add-remove":
            assert bounds == exact
