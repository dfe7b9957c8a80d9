"""How long conditions are where Spark moves them."""

from __future__ import annotations

import pytest

from discreet.verify import swells

BASE = (
    "SELECT CASE WHEN r > 4 THEN 4 WHEN r < 0 THEN 0 ELSE r END AS c "
    "FROM (SELECT `a` AS r FROM `t`) AS s"
)


def nested(depth):
    """Names of names, each used twice by the next."""
    body, last = BASE, "c"
    for level in range(depth):
        body = f"SELECT *, {last} * {last} AS x{level} FROM ({body}) AS s"
        last = f"x{level}"
    return body, last


@pytest.mark.parametrize(("depth", "swollen"), [(0, False), (1, False), (6, True), (24, True)])
def test_a_condition_swells_with_how_deep_its_names_are(depth, swollen):
    body, last = nested(depth)
    assert swells(f"SELECT count(*) FROM ({body}) AS s WHERE {last} > 2", "spark") == swollen
    # what only adds up stays where it is
    assert not swells(f"SELECT sum({last}) FROM ({body}) AS s WHERE c > 2", "spark")


def test_nothing_is_moved_below_windows_and_sums_by_what_they_give():
    body, last = nested(6)
    ranked = f"SELECT *, row_number() OVER (PARTITION BY {last} ORDER BY c) AS n FROM ({body}) AS s"
    assert not swells(f"SELECT count(*) FROM ({ranked}) AS s WHERE n <= 3", "spark")
    summed = f"SELECT c, sum({last}) AS y FROM ({body}) AS s GROUP BY c"
    assert not swells(f"SELECT count(*) FROM ({summed}) AS s WHERE y <= 3", "spark")


def test_what_cannot_be_read_swells():
    assert swells("EXPLAIN SELECT 1", "spark")
