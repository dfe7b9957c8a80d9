"""Statements and what one unit moves in them: each limit read back exactly, or not at all.

A line holds the rows, groups, rows in a group and cells that the text bounds, the range of an
addend, and what else is known. Beside each statement that is bounded stands one that is not.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from discreet import verify
from discreet.errors import UnprovenStatementError

INF = math.inf
TABLES = {
    '"people"': verify.Table({"id": "BIGINT", "a": "INTEGER", "k": "VARCHAR"}, unit="id"),
    '"visits"': verify.Table({"id": "BIGINT", "cost": "INTEGER"}, unit="id"),
    '"rows"': verify.Table({"a": "INTEGER", "k": "VARCHAR"}),
    '"region"': verify.Table({"code": "VARCHAR", "w": "INTEGER"}, public=True),
    '"trips"': verify.Table({"id": "BIGINT", "trip": "BIGINT"}, unit="id"),
    '"items"': verify.Table({"trip": "BIGINT", "a": "INTEGER"}, owner=("trip", '"trips"', "trip")),
    '"seen"': verify.Table({"id": "BIGINT", "a": "INTEGER"}, unit="id", computed=True),
}
FANOUTS = {('"region"', frozenset({"code"})): 4, ('"region"', frozenset({"code", "w"})): 2,
           ('"region"', frozenset()): 1}  # fmt: skip
A = ("COALESCE(CASE WHEN a < 0 THEN CAST(0 AS BIGINT) WHEN a > 9 THEN CAST(9 AS BIGINT) "
     "ELSE a END, CAST(0 AS BIGINT))")  # fmt: skip
K = ("CASE k WHEN 'x' THEN CAST(0 AS BIGINT) WHEN 'y' THEN CAST(1 AS BIGINT) "
     "ELSE CAST(2 AS BIGINT) END")  # fmt: skip
ONE = "CASE WHEN {} > 5 THEN CAST(1 AS BIGINT) ELSE CAST(0 AS BIGINT) END"
PEOPLE = f'SELECT "id" AS u, {A} AS a, {K} AS k FROM "people" WHERE "id" IS NOT NULL'
VISITS = f'SELECT "id" AS u, {ONE.format("cost")} AS c FROM "visits" WHERE "id" IS NOT NULL'
LONE = f'SELECT {A} AS a, {K} AS k FROM "rows"'
REGION = f'SELECT {K.replace("CASE k", "CASE code")} AS c, {ONE.format("w")} AS w FROM "region"'
TRIPS = 'SELECT "id" AS u, "trip" AS t FROM "trips" WHERE "id" IS NOT NULL'
ITEMS = f'SELECT "trip" AS t, {A} AS a FROM "items"'


def ranked(body, by="u", order="a, k", function="row_number", name="n"):
    over = f"PARTITION BY {by} ORDER BY {order}"
    return f"SELECT *, {function}() OVER ({over}) AS {name} FROM ({body}) AS s"


def where(body, condition):
    return f"SELECT * FROM ({body}) AS s WHERE {condition}"


def rows(body, most=3, **how):
    return where(ranked(body, **how), f"{how.get('name', 'n')} <= {most}")


def groups(body, most=2, order="k"):
    return rows(body, most, order=order, function="dense_rank", name="g")


def joined(left, right, on, how="INNER", what="l.*, r.c"):
    return f"SELECT {what} FROM ({left}) AS l {how} JOIN ({right}) AS r ON {on}"


def total(body, what="COALESCE(sum(a), 0)"):
    return f"SELECT {what} FROM ({body}) AS s"


def by(body, key="k", what="COALESCE(sum(a), 0)"):
    return f"SELECT {key}, {what} FROM ({body}) AS s GROUP BY {key}"


SHARES = rows(PEOPLE, 5, by="u, k")
FEW = groups(SHARES)
OWN = "SELECT u, count(*) AS c, sum(a) AS a FROM ({}) AS s GROUP BY u"
OWNK = "SELECT u, k, count(*) AS c, max(a) AS a FROM ({}) AS s GROUP BY u, k"
SCALE = "SELECT u, least(count(*), 3) AS c FROM ({}) AS s GROUP BY u"
ONCE = rows(VISITS, 1, order="c")
UNKNOWN = OWN.format(PEOPLE.replace(' WHERE "id" IS NOT NULL', "")).replace("count(*) AS c, ", "")
OWNH = f"SELECT *, u % 7 AS h FROM ({PEOPLE}) AS s"
UPTO = joined(PEOPLE, SCALE.format(rows(PEOPLE)), "l.u = r.u")
UPRANK = ranked(UPTO, order="k", function="dense_rank", name="g")
HASH = "SELECT *, (j % 7 * :salt0 + :offset) % 7 AS h FROM ({}) AS s"
STATEMENTS = {
    "no limit": total(PEOPLE),
    "rows": total(rows(PEOPLE)),
    "rows, none": total(rows(PEOPLE, 0)),
    "rows, fewer than none": total(rows(PEOPLE, -2)),
    "rows, below": total(where(ranked(PEOPLE), "n < 3")),
    "rows, below one": total(where(ranked(PEOPLE), "n < 1")),
    "rows, one of them": total(where(ranked(PEOPLE), "n = 3")),
    "rows, above": total(where(ranked(PEOPLE), "n >= 3")),
    "rows, by a column": total(where(ranked(PEOPLE), "n <= a")),
    "rows, by a point": total(where(ranked(PEOPLE), "n <= CAST(3 AS BIGINT)")),
    "rows, by a salt": total(where(ranked(PEOPLE), "n <= :salt0")),
    "rows, by a real": total(where(ranked(PEOPLE), "n <= CAST('3.5' AS DOUBLE)")),
    "rows, by another number": total(where(ranked(PEOPLE), "a <= 3")),
    "rows, twice": total(rows(rows(PEOPLE, 5), 3, name="m")),
    "rows, twice, wider": total(rows(rows(PEOPLE, 3), 5, name="m")),
    "rows, or": total(where(ranked(PEOPLE), "n <= 3 OR a = 1")),
    "rows, and": total(where(ranked(PEOPLE), "a = 1 AND n <= 3")),
    "rows, not all known": total(rows(PEOPLE.replace(' WHERE "id" IS NOT NULL', ""))),
    "rows, other known": total(rows(PEOPLE.replace('"id" IS NOT NULL', "a IS NOT NULL"))),
    "rows, of nobody": total(rows(PEOPLE, by="k")),
    "rows, of nobody, then of units": total(rows(rows(PEOPLE, by="k"), name="m")),
    "rows, then of nobody": total(rows(rows(PEOPLE), by="k", name="m")),
    "rows, ties": total(rows(PEOPLE, order="k")),
    "rows, ties, counted": total(rows(PEOPLE, order="k"), "count(*)"),
    "rows, ties, by what is decided": by(rows(PEOPLE, order="k"), what="count(*)"),
    "rows, ties, by what is not": by(rows(PEOPLE, order="k"), "a", "count(*)"),
    "rows, an ordinal": total(rows(HASH.format(ranked(PEOPLE, name="j")), order="h, j")),
    "rows, an ordinal mixed": total(rows(HASH.format(ranked(PEOPLE, name="j")), order="h")),
    "rows, an ordinal per key": total(
        rows(HASH.format(ranked(PEOPLE, by="u, k", name="j")), order="h, j, k")),
    "rows, an ordinal per key, without": total(
        rows(HASH.format(ranked(PEOPLE, by="u, k", name="j")), order="h, j")),
    "rows, dense": total(rows(PEOPLE, function="dense_rank")),
    "rows, another function": total(rows(PEOPLE, function="rank")),
    "keys": by(PEOPLE),
    "keys, rows": by(rows(PEOPLE)),
    "keys, shares": by(SHARES),
    "keys, shares of a third": by(rows(PEOPLE, 5, by="u, a")),
    "keys, shares of more": by(rows(PEOPLE, 5, by="u, k, a")),
    "keys, groups": by(groups(PEOPLE)),
    "keys, groups of less": by(groups(PEOPLE, order="a")),
    "keys, groups of more": by(groups(PEOPLE, order="a, k")),
    "keys, groups per key": by(rows(PEOPLE, 2, by="u, k", order="a", function="dense_rank")),
    "keys, groups twice": by(
        groups(rows(PEOPLE, 2, order="k", function="dense_rank", name="h"), 3)),
    "keys, shares twice": by(rows(SHARES, 4, by="u, k", name="m")),
    "keys, shares twice, wider": by(rows(SHARES, 7, by="u, k", name="m")),
    "keys, groups and shares": by(FEW),
    "keys, groups, shares, rows": by(rows(FEW, 4, name="m")),
    "keys, shares, groups of others": by(groups(SHARES, order="a")),
    "two keys": by(FEW, "k, a", "count(*)"),
    "two keys, listed": by(where(FEW, "k IN (0, 2, 2) AND a BETWEEN 3 AND 5"), "k, a", "count(*)"),
    "keys, one of them": by(where(rows(PEOPLE), "k = 1")),
    "keys, not one": by(where(rows(PEOPLE), "k <> 1")),
    "keys, between": by(where(rows(PEOPLE), "k >= 1"), what="count(*)"),
    "keys, between none": by(where(rows(PEOPLE), "k > 2"), what="count(*)"),
    "keys, a constant": f"SELECT count(*) FROM ({rows(PEOPLE)}) AS s GROUP BY CAST(0 AS BIGINT)",
    "keys, a number": f"SELECT count(*) FROM ({rows(PEOPLE)}) AS s GROUP BY 1",
    "keys, a name for another": f"SELECT a AS k, count(*) FROM ({rows(PEOPLE)}) AS s GROUP BY k",
    "keys, not shown": f"SELECT count(*) FROM ({rows(PEOPLE)}) AS s GROUP BY k",
    "keys, shown, not grouped": f"SELECT a, count(*) FROM ({rows(PEOPLE)}) AS s GROUP BY k",
    "keys, text": by(rows(PEOPLE.replace(K, '"k"'))),
    "keys, text listed": by(where(rows(PEOPLE.replace(K, '"k"')), "k IN ('x', 'y')")),
    "keys, may be NULL": by(rows(PEOPLE.replace(" ELSE CAST(2 AS BIGINT) END", " END"))),
    "keys, not NULL": by(
        where(rows(PEOPLE.replace(" ELSE CAST(2 AS BIGINT) END", " END")), "k IS NOT NULL")),
    "nothing added up": f"SELECT a FROM ({rows(PEOPLE)}) AS s",
    "packed": by(rows("SELECT u, a * CAST(4 AS BIGINT) + k AS w, a FROM (" + PEOPLE + ") AS s",
                      order="w, a"), "w"),
    "packed, listed": by(where(rows(
        "SELECT u, a * CAST(4 AS BIGINT) + k AS w, a FROM (" + PEOPLE + ") AS s", order="w, a"),
        "w <= 20"), "w"),
    "packed, a field listed": by(rows(
        "SELECT u, a * CAST(4 AS BIGINT) + k AS w, a FROM (" + where(PEOPLE, "a IN (1, 5)")
        + ") AS s", order="w, a"), "w"),
    "packed, of listed units": by(where(rows(
        f"SELECT u, CASE WHEN a > 3 THEN a END * CAST(4 AS BIGINT) + k AS w, a FROM ({PEOPLE}"
        ' AND "id" IN (7)) AS s', order="w, a"), "w IS NOT NULL"), "w"),
    "keys, of listed units": by(rows(PEOPLE + ' AND "id" IN (7)'), "a"),
    "packed, shares of a field": by(rows(
        "SELECT u, k, a * CAST(4 AS BIGINT) + k AS w, a FROM (" + PEOPLE + ") AS s", 5,
        by="u, k", order="w, a"), "w"),
    "counts": total(rows(PEOPLE), "count(*)"),
    "counts of values": total(rows(PEOPLE), "count(a)"),
    "counts, weighed": total(rows(PEOPLE), "count(*) * CAST(7 AS BIGINT)"),
    "counts, moved": total(rows(PEOPLE), "count(*) + CAST(7 AS BIGINT)"),
    "counts, turned": total(rows(PEOPLE), "count(*) * CAST(-7 AS BIGINT)"),
    "counts of units": by(rows(PEOPLE), what="count(DISTINCT u)"),
    "counts of distinct": by(rows(PEOPLE), what="count(DISTINCT a)"),
    "counts of distinct, listed": by(where(rows(PEOPLE), "a IN (1, 2)"),
                                     what="count(DISTINCT a)"),
    "counts of distinct text": by(rows(PEOPLE.replace(K, '"k"')), "a", "count(DISTINCT k)"),
    "counts of units, capped": by(rows(PEOPLE), what="least(count(*), 1)"),
    "counts of units, capped by two": by(rows(PEOPLE), what="least(count(*), 2)"),
    "sums, without none": total(rows(PEOPLE), "sum(a)"),
    "sums, none is one": total(rows(PEOPLE), "COALESCE(sum(a), 1)"),
    "sums, signed": total(rows(PEOPLE.replace("BIGINT)) AS a", "BIGINT)) - 4 AS a"))),
    "sums, squares": total(rows(PEOPLE), "COALESCE(sum(a * a), 0)"),
    "greatest": total(rows(PEOPLE), "COALESCE(max(a), 0)"),
    "two results": total(rows(PEOPLE), "COALESCE(sum(a), 0), count(*)"),
    "real": total(rows(PEOPLE), "CAST(sum(a) AS DOUBLE)"),
    "lone rows": total(LONE),
    "lone rows, some": total(where(LONE, "k = 1")),
    "lone rows, shifted": total(LONE.replace("BIGINT)) AS a", "BIGINT)) + 5 AS a")),
    "lone rows, by key": by(LONE),
    "lone rows, ranked": total(rows(LONE, by="a")),
    "lone rows, counted": total(LONE, "count(*)"),
    "lone rows, some counted": total(LONE, "count(NULLIF(a, 5))"),
    "lone rows, sums of some": total(LONE, "COALESCE(sum(NULLIF(a, 5)), 0)"),
    "public": by(REGION, "w", "count(*)"),
    "public, ranked": by(rows(REGION, by="c", order="w"), "w", "count(*)"),
    "part of a unit, shares": total(rows(OWNH, 5, by="u, h")),
    "part of a unit, shares and a key": by(rows(OWNH, 5, by="u, h, k")),
    "part of a unit, groups": by(groups(rows(OWNH, 5, by="u, k"), order="h, k")),
    "part of a unit, a key": by(rows(OWNH, 5, by="u, k"), "h, k"),
    "part of a unit, a key, groups": by(groups(rows(OWNH, 5, by="u, k")), "h, k"),
    "part of a unit, groups times shares": total(groups(rows(OWNH, 5, by="u, k, h"))),
    "part of a unit, joined": total(joined(rows(PEOPLE), rows(OWNH, 4, by="u, h"), "l.u = r.u",
                                           what="l.*, r.h AS c")),
    "public fan": total(joined(rows(PEOPLE), REGION, "l.k = r.c")),
    "public fan, both": total(joined(rows(PEOPLE), REGION, "l.k = r.c AND l.a = r.w")),
    "public fan, other": total(joined(rows(PEOPLE), REGION, "l.a = r.w")),
    "public fan, turned": total(joined(rows(PEOPLE), REGION, "r.c = l.k")),
    "public fan, bare names": total(joined(rows(PEOPLE), REGION, "k = c")),
    "unit join, a bare name": total(joined(rows(PEOPLE), ONCE, "l.u = r.u AND a = r.c")),
    "public fan, or": total(joined(rows(PEOPLE), REGION, "l.k = r.c OR l.a = r.w")),
    "public fan, above": total(joined(rows(PEOPLE), REGION, "l.k >= r.c")),
    "public fan, one side": total(joined(rows(PEOPLE), REGION, "r.c = r.w")),
    "public fan, left": total(joined(rows(PEOPLE), REGION, "l.k = r.c", "LEFT")),
    "public fan, left, by its key": by(
        joined(rows(PEOPLE), REGION, "l.k = r.c", "LEFT"), "c"),
    "public fan, by its key": by(joined(rows(PEOPLE), REGION, "l.k = r.c"), "c"),
    "public fan, its key listed": by(
        joined(rows(PEOPLE), where(REGION, "c IN (0, 1)"), "l.k = r.c"), "c"),
    "public fan, left, listed": by(
        joined(rows(PEOPLE), where(REGION, "c IN (0, 1)"), "l.k = r.c", "LEFT"), "c"),
    "public fan, shares": by(joined(SHARES, REGION, "l.k = r.c")),
    "public fan, a rank below": total(where(joined(ranked(PEOPLE), REGION, "l.k = r.c"), "n <= 3")),
    "public fan, a rank above": total(rows(joined(PEOPLE, REGION, "l.k = r.c"), order="a, k, c")),
    "public first": total(joined(REGION, rows(PEOPLE), "l.c = r.k", what="r.*")),
    "public both": by(joined(REGION, REGION, "l.c = r.c", what="l.c"), "c", "count(*)"),
    "lone fan": total(joined(LONE, REGION, "l.k = r.c"), "count(*)"),
    "unit join": total(joined(rows(PEOPLE), rows(VISITS, 4, order="c"), "l.u = r.u")),
    "unit join, one": total(joined(rows(PEOPLE), ONCE, "l.u = r.u")),
    "unit join, without a limit": total(joined(rows(PEOPLE), VISITS, "l.u = r.u")),
    "unit join, shares": total(joined(rows(PEOPLE), rows(VISITS, 4, by="u, c", order="c"),
                                      "l.u = r.u AND l.k = r.c")),
    "unit join, shares of others": total(joined(rows(PEOPLE), rows(VISITS, 4, by="u, c", order="c"),
                                                "l.u = r.u")),
    "unit join, left": total(joined(rows(PEOPLE), rows(VISITS, 4, order="c"), "l.u = r.u", "LEFT")),
    "unit join, left, none": total(joined(rows(PEOPLE), rows(VISITS, 0, order="c"), "l.u = r.u",
                                          "LEFT")),
    "unit join, none": total(joined(rows(PEOPLE), rows(VISITS, 0, order="c"), "l.u = r.u")),
    "unit join, not on units": total(joined(rows(PEOPLE), rows(VISITS, 4, order="c"), "l.a = r.c")),
    "unit join, one unit": total(joined(rows(PEOPLE), rows(VISITS, 4, order="c"), "l.u = r.c")),
    "unit join, of lone rows": total(joined(LONE, LONE, "l.k = r.k", what="l.*, r.a AS c")),
    "unit join, sums": total(joined(rows(PEOPLE), by(rows(VISITS, 4, order="c"), "c", "count(*)"),
                                    "l.k = r.c")),
    "unit join, sums of the unknown": total(joined(UNKNOWN, ONCE, "l.u = r.u")),
    "unit join, with sums of the unknown": total(
        joined(rows(PEOPLE), UNKNOWN, "l.u = r.u", what="l.*")),
    "unit join, unknown": total(rows(joined(
        PEOPLE.replace(' WHERE "id" IS NOT NULL', ""), ONCE, "l.u = r.u"), order="a, k, c")),
    "unit join, left, unknown": total(rows(joined(
        PEOPLE.replace(' WHERE "id" IS NOT NULL', ""), ONCE, "l.u = r.u", "LEFT"),
        order="a, k, c")),
    "owned": total(rows(joined(ITEMS, TRIPS, "l.t = r.t", what="r.u, l.a, l.t"), order="a, t")),
    "owned, alone": total(ITEMS),
    "owned, ranked alone": total(rows(ITEMS, by="t", order="a")),
    "owned, left": total(rows(joined(ITEMS, TRIPS, "l.t = r.t", "LEFT", "r.u, l.a, l.t"),
                              order="a, t")),
    "owned, elsewhere": total(rows(joined(ITEMS, TRIPS, "l.t = r.u", what="r.u, l.a, l.t"),
                                   order="a, t")),
    "owned, no limit": total(joined(ITEMS, TRIPS, "l.t = r.t", what="r.u, l.a, l.t")),
    "owned, of a region": total(joined(ITEMS, REGION, "l.a = r.c")),
    "owned, by owned": total(joined(ITEMS, ITEMS, "l.t = r.t", what="l.*, r.a AS c")),
    "owned, limit below": total(joined(ITEMS, rows(TRIPS, 2, order="t"), "l.t = r.t",
                                       what="r.u, l.a, l.t")),
    "a view": total(rows(
        f'SELECT "id" AS u, {A} AS a, CAST(0 AS BIGINT) AS k FROM "seen" WHERE "id" IS NOT NULL')),
    "a view, fenced": total(rows(
        f'SELECT "id" AS u, {A} AS a, CAST(0 AS BIGINT) AS k FROM '
        '(SELECT "id", "a" FROM "seen" OFFSET 0) AS f WHERE "id" IS NOT NULL')),
    "a view, fenced and filtered": total(rows(
        f'SELECT "id" AS u, {A} AS a, CAST(0 AS BIGINT) AS k FROM '
        '(SELECT "id", "a" FROM "seen" WHERE "a" > 3 OFFSET 0) AS f WHERE "id" IS NOT NULL')),
    "no such table": total('SELECT a FROM "others"'),
    "own sums": total(OWN.format(rows(PEOPLE))),
    "own sums, all": total(OWN.format(PEOPLE), "count(*)"),
    "own sums, capped": total(OWN.format(PEOPLE), "COALESCE(sum(least(c, 5)), 0)"),
    "own sums, by number": by(OWN.format(rows(PEOPLE)), "c", "count(*)"),
    "own sums, of keys": by(OWNK.format(PEOPLE), what="count(*)"),
    "own sums, of keys, in all": total(OWNK.format(PEOPLE), "count(*)"),
    "own sums, of keys, limited": total(OWNK.format(rows(PEOPLE, 2)), "count(*)"),
    "own sums, unknown": total(OWN.format(PEOPLE.replace(' WHERE "id" IS NOT NULL', "")),
                               "count(*)"),
    "own sums, of lone rows": total("SELECT a, count(*) AS c FROM (" + LONE + ") AS s GROUP BY a",
                                    "count(*)"),
    "own sums, of sums": total(OWN.format(OWNK.format(PEOPLE)), "count(*)"),
    "own sums, mixed": total(OWN.format(rows(PEOPLE, by="k")), "count(*)"),
    "sums of sums": by(by(rows(PEOPLE), "k, a", "count(*) AS c"), "k", "COALESCE(sum(c), 0)"),
    "sums of sums, filtered": by(where(by(rows(PEOPLE), "k, a", "count(*) AS c"), "c > 2"),
                                 "k", "COALESCE(sum(c), 0)"),
    "sums of sums, filtered by key": by(where(by(rows(PEOPLE), "k, a", "count(*) AS c"), "a > 2"),
                                        "k", "COALESCE(sum(c), 0)"),
    "sums of sums, counted": by(by(rows(PEOPLE), "k, a", "count(*) AS c"), "k", "count(*)"),
    "sums of sums, by sums": by(by(rows(PEOPLE), "k", "count(*) AS c"), "c", "count(*)"),
    "sums of sums, distinct": by(by(rows(PEOPLE), "k, a", "count(*) AS c"), "k",
                                 "count(DISTINCT c)"),
    "sums of sums, joined on": total(joined(
        by(rows(PEOPLE), "k", "count(*) AS a"), REGION, "l.a = r.c"), "COALESCE(sum(a), 0)"),
    "sums of sums, ranked": by(rows(by(rows(PEOPLE), "k, a", "count(*) AS c"), by="k", order="a"),
                               "k", "COALESCE(sum(c), 0)"),
    "up to a column": by(where(UPRANK, "g <= c"), "c, k", "count(*)"),
    "up to a column, below": by(where(UPRANK, "g < c"), "c, k", "count(*)"),
    "up to a column, of others": by(where(UPRANK, "g <= a"), "a, k", "count(*)"),
    "up to a column, not shown": by(where(UPRANK, "g <= c"), "k", "count(*)"),
    "up to a column, finer": by(where(UPRANK, "g <= c"), "c, k, a", "count(*)"),
    "up to a column, by rows": by(where(ranked(UPTO, name="g"), "g <= c"), "c, k", "count(*)"),
    "a name twice": total("SELECT a, k AS a FROM (" + rows(PEOPLE) + ") AS s"),
    "columns of one side": total(joined(rows(PEOPLE), ONCE, "l.u = r.u", what="l.*, r.u AS v")),
}  # fmt: skip


def shown(sql):
    try:
        proof = verify.prove(sql, dialect="duckdb", tables=TABLES, fanouts=FANOUTS)
    except UnprovenStatementError as error:
        return f"refused, {error.reason.partition(':')[0]}"
    lines = []
    for r in proof.measures:
        words = [f"{r.lo}..{r.hi}", f"rows {r.rows}", f"groups {r.groups}",
                 f"share {r.rows_per_group}", f"cells {r.cells}"]  # fmt: skip
        words += [w for w in ("once", "certain") if getattr(r, w)]
        words += [f"upto {r.upto}"] if r.upto is not None else []
        lines.append(" ".join(w for w in words if not w.endswith(" inf")))
    return "; ".join(lines)


def test_each_limit_is_read_back():
    text = (Path(__file__).parent / "verify_readings.txt").read_text("utf-8")
    known = dict(line.split("  ->  ") for line in text.splitlines())
    assert {name: shown(sql) for name, sql in STATEMENTS.items()} == known


@pytest.mark.parametrize(
    ("limits", "added", "changed"),
    [
        # lo, hi, rows, groups, share, cells; then L1, L2 squared and the largest move
        ((0, 5, 3, INF, INF, INF), (15, 225, 15), (30, 450, 15)),
        ((0, 5, 3, INF, INF, 1), (15, 225, 15), (15, 225, 15)),
        ((0, 5, 3, INF, INF, 2), (15, 225, 15), (30, 450, 15)),
        ((-5, 0, 3, INF, INF, 2), (15, 225, 15), (30, 450, 15)),
        ((-2, 5, 3, INF, INF, 2), (15, 225, 15), (30, 450, 21)),
        ((-5, 2, 3, INF, INF, 2), (15, 225, 15), (30, 450, 21)),
        ((-5, 5, 3, INF, INF, 2), (15, 225, 15), (30, 900, 30)),
        ((1, 5, 3, INF, INF, 1), (15, 225, 15), (15, 225, 15)),
        ((-5, 5, 3, INF, INF, 1), (15, 225, 15), (30, 900, 30)),
        ((0, 5, 7, 2, 3, INF), (30, 450, 15), (60, 900, 15)),
        ((0, 5, 5, 2, 3, INF), (25, 325, 15), (50, 650, 15)),
        ((-2, 5, 5, 2, 3, INF), (25, 325, 15), (50, 754, 21)),
        ((-2, 5, 4, 2, 3, INF), (20, 250, 15), (40, 580, 21)),
        ((-5, 5, 5, 2, 3, INF), (25, 325, 15), (50, 1300, 30)),
        ((-3, 10, 199, 2, 100, INF), (1990, 1980100, 1000), (3980, 4000000, 1300)),
        ((-9, 10, 199, 2, 100, INF), (1990, 1980100, 1000), (3980, 7167962, 1900)),
        ((-3, 10, 200, 2, 100, INF), (2000, 2000000, 1000), (4000, 4000000, 1300)),
        ((-9, 10, 200, 2, 100, INF), (2000, 2000000, 1000), (4000, 7220000, 1900)),
        ((-9, 10, 99, 2, 100, INF), (990, 980100, 990), (1980, 3538161, 1881)),
        ((0, 5, INF, 2, 3, INF), (30, 450, 15), (60, 900, 15)),
        ((0, 5, INF, INF, 3, 4), (60, 900, 15), (60, 900, 15)),
        ((0, 5, 2, 4, 3, 4), (10, 100, 10), (20, 200, 10)),
        ((0, 5, 0, 4, 3, 4), (0, 0, 0), (0, 0, 0)),
        ((0, 0, INF, INF, INF, INF), (0, 0, 0), (0, 0, 0)),
        ((0, 5, INF, INF, 3, INF), (INF, INF, INF), (INF, INF, INF)),
        ((0, 5, INF, 3, INF, INF), (INF, INF, INF), (INF, INF, INF)),
        ((0, INF, 3, 3, 3, 3), (INF, INF, INF), (INF, INF, INF)),
        ((-INF, 0, 3, 3, 3, 3), (INF, INF, INF), (INF, INF, INF)),
    ],
)
def test_what_one_unit_moves(limits, added, changed):
    r = verify.Reading(False, *limits)
    assert r.sensitivity("add-remove") == verify.Reach(*added)
    assert r.sensitivity("change-one") == verify.Reach(*changed)
    for neighbours, bounds in (("add-remove", added), ("change-one", changed)):
        assert r.within(*bounds, neighbours)
        for i, bound in enumerate(bounds):
            if 0 < bound < INF:
                assert not r.within(*bounds[:i], bound - 1, *bounds[i + 1 :], neighbours)
    with pytest.raises(ValueError, match="others"):
        verify.Reading(False, 0, 5, 3).sensitivity("others")


def test_what_one_unit_moves_where_it_counts_once_or_always_or_less():
    once = verify.Reading(False, 0, 1, rows=5, groups=3, rows_per_group=4, once=True)
    assert once.sensitivity("add-remove") == verify.Reach(3, 3, 1)
    certain = verify.Reading(False, 3, 8, rows=1, cells=1, certain=True)
    assert certain.sensitivity("change-one") == verify.Reach(5, 25, 5)
    assert verify.Reading(False, 3, 8, rows=1, cells=1).sensitivity("change-one").l1 == 8
    r = verify.Reading(False, 0, 5, 6, 4, 2, 9, once=True, certain=True, upto=1)
    assert r.coarser(3) == verify.Reading(False, 0, 5, 6, 3, 6, 3)
    assert r.coarser(5) == verify.Reading(False, 0, 5, 6, 4, 6, 5)
    assert (r.magnitude, verify.Reading(False, -7, 5).magnitude) == (5, 7)


# -- rows that depend on other units -----------------------------------------------------------

MIXED = {
    "a rank among all": rows(PEOPLE, by="k", name="m"),
    "a rank among all, not used": ranked(PEOPLE, by="k", name="m"),
    "groups among all": rows(PEOPLE, by="k", order="a", function="dense_rank", name="m"),
    "a condition on one": where(ranked(PEOPLE, by="k", name="m"), "m > 2 OR a = 1"),
}
KEPT = {
    "as they are": lambda body: body,
    "chosen": lambda body: where(body, "a > 3"),
    "renamed": lambda body: f"SELECT u, a, k FROM ({body}) AS s",
    "limited": lambda body: rows(body, 5, name="x"),
    "shares": lambda body: rows(body, 5, by="u, k", name="x"),
    "groups": groups,
    "public": lambda body: joined(body, where(REGION, "c = 1"), "l.k = r.c"),
    "public, left": lambda body: joined(body, REGION, "l.k = r.c", "LEFT"),
    "first of a join": lambda body: joined(body, ONCE, "l.u = r.u"),
    "first of a join, left": lambda body: joined(body, ONCE, "l.u = r.u", "LEFT"),
    "second of a join": lambda body: joined(ONCE, rows(body, 5, name="x"), "l.u = r.u",
                                            what="r.*, l.c"),
    "second of a join, left": lambda body: joined(ONCE, rows(body, 5, name="x"), "l.u = r.u",
                                                  "LEFT", "l.u, r.a, r.k, l.c"),
    "added up": lambda body: f"SELECT u, k, max(a) AS a FROM ({rows(body, 5, name='x')}) AS s "
                             "GROUP BY u, k",
}  # fmt: skip


@pytest.mark.parametrize("kept", KEPT)
def test_what_depends_on_other_units_is_never_bounded_again(kept):
    def bounded(body):
        found = shown(total(rows(KEPT[kept](body), 3, name="z"), "count(*)"))
        return not found.startswith("refused") and "rows" in found

    assert bounded(PEOPLE)
    assert [name for name, body in MIXED.items() if bounded(body)] == []
