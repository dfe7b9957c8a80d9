"""Preview states, and within= promises, the half-width of every row that will be shown."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from discreet.errors import ParameterError

CELLS = "g, h, COUNT(*) AS n FROM t GROUP BY"
ROWS = "(SELECT g, h, COUNT(*) AS n FROM t GROUP BY g, h)"
PUBLIC = {
    "rollup": f"SELECT {CELLS} ROLLUP(g, h)",
    "cube": f"SELECT {CELLS} CUBE(g, h)",
    "sets": f"SELECT {CELLS} GROUPING SETS ((h), (g), ())",
    "joint rollup": "SELECT g, COUNT(*) AS n, SUM(x) AS s, AVG(x) AS a FROM t GROUP BY ROLLUP(g)",
    "rollup after": "SELECT g, h, COUNT(*) - 2 * SUM(x) AS n FROM t GROUP BY ROLLUP(g, h)",
    "sum of rows": f"SELECT SUM(n) AS n, AVG(n) AS s, MAX(n) AS m FROM {ROWS} AS a",
    "sum of sums": f"SELECT h, SUM(n) AS n FROM {ROWS} AS a GROUP BY h",
    "joint sums": "SELECT SUM(s) AS s FROM (SELECT g, COUNT(*) AS n, SUM(x) AS s FROM t "
    "GROUP BY g) AS a",
    "share": "SELECT g, COUNT(*) - SUM(COUNT(*)) OVER () AS n FROM t GROUP BY g",
    "running": "SELECT g, SUM(COUNT(*)) OVER (ORDER BY g) AS n FROM t GROUP BY g",
    "frame": "SELECT g, SUM(COUNT(*)) OVER (ORDER BY g ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) "
    "AS n, AVG(COUNT(*)) OVER (ORDER BY g ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s "
    "FROM t GROUP BY g",
    "partition": "SELECT g, h, SUM(COUNT(*)) OVER (PARTITION BY h ORDER BY g) AS n, "
    "SUM(x) AS s FROM t GROUP BY g, h",
    "neighbour": "SELECT g, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY g) AS n FROM t GROUP BY g",
    "by noise": "SELECT g, SUM(COUNT(*)) OVER (ORDER BY COUNT(*) DESC) AS n FROM t GROUP BY g",
    "window of levels": "SELECT g, h, COUNT(*) AS n, SUM(COUNT(*)) OVER (PARTITION BY g) AS s "
    "FROM t GROUP BY ROLLUP(g, h)",
    "greatest": "SELECT g, GREATEST(COUNT(*), 0) AS n FROM t GROUP BY g",
    "rounded": "SELECT ROUND(COUNT(*), -2) AS n, FLOOR(COUNT(*) / 7) AS s FROM t",
    "case": "SELECT h, CASE WHEN h = 'a' THEN COUNT(*) ELSE 2 * COUNT(*) END AS n FROM t "
    "GROUP BY h",
    "chosen": "SELECT g, h, COUNT(*) AS n FROM t GROUP BY ROLLUP(g, h) HAVING COUNT(*) > 30",
    "top": "SELECT g, h, COUNT(*) AS n FROM t GROUP BY ROLLUP(g, h) ORDER BY n DESC LIMIT 3",
    "pivot": "PIVOT t ON h USING COUNT(*) AS n GROUP BY g",
}
EVEN = {"rollup", "cube", "sets", "joint rollup", "sum of rows", "sum of sums", "share", "pivot"}
"""Questions in which the widest row is exactly as wide as stated."""


@pytest.fixture(scope="module")
def asked():
    rng, n = np.random.default_rng(3), 900
    groups = [f"c{i}" for i in range(9)]
    columns = {
        "g": {"type": "category", "values": groups, "null": "c0"},
        "h": {"type": "category", "values": list("abcd"), "null": "a"},
        "x": {"type": "integer", "min": 0, "max": 10, "null": 0},
    }
    table = pa.table({
        "g": rng.choice(groups, n), "h": rng.choice(list("abcd"), n), "x": rng.integers(0, 11, n)
    })  # fmt: skip
    policy = {
        "policy": {"name": "widths"},
        "budget": {"epsilon": "1000000", "accounting": "pure"},
        "tables": {"t": {"columns": columns}},
    }
    return dc.open(table, policy=policy, ledger=":memory:")


def widest(answer):
    """Largest half-width of every noisy column."""
    rows = answer.interval()
    names = [n for n in rows[0] if any(isinstance(row[n], tuple) for row in rows)]
    ends = {n: [row[n] for row in rows if isinstance(row[n], tuple)] for n in names}
    return {n: np.nanmax([(high - low) / 2 for low, high in e]) for n, e in ends.items()}


def stated(words):
    """The largest number that a margin states."""
    return max(float(x.replace(" ", "")) for x in re.findall(r"[\d ]*\d(?:\.\d+)?", words))


@pytest.mark.parametrize("name", PUBLIC)
def test_preview_states_the_widest_row(name, asked):
    words = asked.preview(PUBLIC[name], epsilon="0.5").error()
    found = widest(asked.sql(PUBLIC[name], epsilon="0.5"))
    for column in set(found) - {"a"}:  # a mean's error depends on how many rows there are
        assert words[column].startswith("± ")
        assert found[column] <= 1.001 * stated(words[column])
        if name in EVEN:
            assert found[column] >= 0.98 * stated(words[column])


def test_preview_states_the_margin_of_every_level(asked):
    question = f"SELECT {CELLS} ROLLUP(g, h)"
    assert asked.preview(question, epsilon="0.5").error() == {
        "n": "± 6 by g, h; ± 11 by g; ± 33 in all"
    }
    five = "SELECT g, h, x, COUNT(*) AS n FROM t GROUP BY CUBE(g, h, x)"
    (margin,) = asked.preview(five, epsilon="0.5").error().values()
    assert re.fullmatch(r"± 6 by g, h, x; ± \d+ in all", margin)


@pytest.mark.parametrize("name", PUBLIC)
def test_margins_hold_in_every_row(name, asked):
    column = {"joint sums": "s", "pivot": "a_n"}.get(name, "n")
    assert widest(asked.sql(PUBLIC[name], within={column: 120}))[column] <= 120


def test_a_margin_of_a_total_is_no_cheaper_than_needed(asked):
    """At 99 % of the price the widest row is wider than was asked for."""
    for name in ("rollup", "sum of rows", "joint rollup"):
        quote = asked.preview(PUBLIC[name], within={"n": 20})
        less = quote.plan.cost.epsilon * 99 / 100
        assert widest(asked.sql(PUBLIC[name], epsilon=less))["n"] > 20
    cells = asked.preview(f"SELECT {CELLS} g, h", within={"n": 20}).plan.cost.epsilon
    assert asked.preview(PUBLIC["rollup"], within={"n": 20}).plan.cost.epsilon > 4 * cells


@pytest.mark.parametrize(
    "text",
    [
        "SELECT AVG(x) AS n FROM t",
        "SELECT LN(COUNT(*)) AS n FROM t",
        "SELECT g, RANK() OVER (ORDER BY COUNT(*)) AS n FROM t GROUP BY g",
        f"SELECT SUM(n) AS n FROM {ROWS} AS a WHERE n > 20",
        "SELECT g, COUNT(*) * COUNT(*) AS n FROM t GROUP BY g",
    ],
)
def test_margins_that_depend_on_private_counts_are_refused(text, asked):
    with pytest.raises(ParameterError, match="depends on private counts"):
        asked.preview(text, within={"n": 10})


def test_a_share_of_the_total_has_an_error_line(asked):
    text = "SELECT g, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS n FROM t GROUP BY g"
    words = asked.preview(text, epsilon="0.5").error()["n"]
    example = "if divided by 1\u2009000 (a tenth of it if by 10\u2009000)"
    assert words == f"± about 0.007 + 0.019 × the ratio {example}"


def test_keys_have_no_margin(asked):
    assert set(asked.preview("SELECT g, COUNT(*) AS n FROM t GROUP BY g", epsilon=1).error()) == {
        "n"
    }
