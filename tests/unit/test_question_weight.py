"""How much a question may be is bounded while it is read, by whatever door it comes."""

from __future__ import annotations

import pyarrow as pa
import pytest

import discreet as dc
from discreet import frame
from discreet import policy as pol
from discreet.curator import Counter
from discreet.errors import UnsupportedQueryError
from discreet.plan import Expr
from discreet.plan._weight import LISTED, MOST
from discreet.sql import parse, parse_any

POLICY = pol.Policy(
    [
        pol.Table(
            "people",
            [pol.Integer("age", 0, 115), pol.Category("sex", ["F", "M"])],
            unit="pid",
            max_rows_per_unit=1,
        )
    ],
    pol.Budget("10"),
)
SUM = "SELECT SUM(LEAST(GREATEST(x, 0), 10)) AS s FROM a{n}"


def levels(n: int, step: str, last: str = SUM) -> str:
    """Subqueries, each of which reads the one before."""
    inner = "".join(f", a{i + 1} AS ({step.format(i=i)})" for i in range(n))
    return f"WITH a0 AS (SELECT pid, age AS x FROM people){inner} {last.format(n=n)}"


LEAST = "SELECT pid, LEAST(x, x) + 0 * x AS x FROM a{i}"
HEAVY = {
    "subqueries": levels(7, LEAST),
    "case": levels(
        7, "SELECT pid, CASE WHEN x > 1 THEN x WHEN x > 0 THEN 0 * x ELSE x END AS x FROM a{i}"
    ),
    "between": levels(9, "SELECT pid, CASE WHEN x BETWEEN x AND x THEN x END AS x FROM a{i}"),
    "one below the other": levels(7, LEAST, "SELECT x, COUNT(*) AS n FROM a{n} GROUP BY x"),
    "where": levels(7, LEAST, "SELECT COUNT(*) AS n FROM a{n} WHERE x > 3"),
    "per person": levels(
        7, LEAST, "SELECT COUNT(*) AS n FROM (SELECT pid, SUM(x) AS y FROM a{n} GROUP BY pid) AS t"
    ),
    "greatest": f"SELECT SUM({'GREATEST(age * 2 - age, ' * 16}age{')' * 16}) AS s FROM people",
    "mod": f"SELECT SUM({'MOD(' * 14}age{', 90)' * 14}) AS s FROM people",
    "exists": levels(10, "SELECT pid, x FROM a{i} WHERE pid IN (SELECT pid FROM a{i})"),
    "after the noise": "SELECT COUNT(*) AS n0, "
    + ", ".join(f"n{i} + n{i} AS n{i + 1}" for i in range(16))
    + " FROM people",
    "order": "SELECT COUNT(*) AS n0, "
    + ", ".join(f"n{i} + n{i} AS n{i + 1}" for i in range(11))
    + " FROM people GROUP BY age ORDER BY "
    + ", ".join(f"n11 + {i}" for i in range(8)),
    "having": "SELECT COUNT(*) AS n0, "
    + ", ".join(f"n{i} + n{i} AS n{i + 1}" for i in range(11))
    + " FROM people GROUP BY age HAVING "
    + " AND ".join(f"n11 > {i}" for i in range(8)),
    "windows": "SELECT age, COUNT(*) AS n0, "
    + ", ".join(f"n{i} + n{i} AS n{i + 1}" for i in range(11))
    + ", "
    + ", ".join(f"SUM(n11) OVER (ORDER BY age ROWS {i} PRECEDING) AS w{i}" for i in range(6))
    + " FROM people GROUP BY age",
    "many statistics": levels(4, LEAST, "SELECT {{}} FROM a{n}").format(
        ", ".join(f"SUM(x + {i}) AS s{i}" for i in range(60))
    ),
}
FINE = {
    "two hundred statistics": "SELECT "
    + ", ".join(f"SUM(CASE WHEN age > {i % 90} THEN age + {i} END) AS s{i}" for i in range(200))
    + " FROM people",
    "a long list": "SELECT COUNT(*) AS n FROM people WHERE age IN ("
    + ", ".join(str(i % 100) for i in range(4500))
    + ")",
    "nine tables": "SELECT COUNT(*) AS n FROM people AS a "
    + " ".join(f"JOIN people AS b{j} ON a.pid = b{j}.pid" for j in range(8)),
    "nested case": f"SELECT SUM({''.join(f'CASE WHEN age > {i} THEN age ELSE ' for i in range(25))}"
    f"0{' END' * 25}) AS s FROM people",
    "four levels": levels(4, LEAST),
}  # fmt: skip


@pytest.mark.parametrize("name", HEAVY)
def test_a_question_that_names_much_many_times_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedQueryError, match="parts where every name is written out"):
        parse(HEAVY[name], POLICY)


@pytest.mark.parametrize("name", FINE)
def test_long_questions_are_far_from_the_bound(name: str) -> None:
    assert parse(FINE[name], POLICY).query.weight < MOST / 2


def test_an_expression_weighs_as_much_as_its_tree() -> None:
    def size(expr: Expr) -> int:
        values = [getattr(expr, n) for n in expr.__match_args__]
        listed = sum(len(v) for v in values if isinstance(v, tuple)) // LISTED
        return expr.own_weight + listed + sum(map(size, expr.children))

    query = parse(levels(3, LEAST), POLICY).query
    (expr,) = query.statistics[0].exprs
    assert expr.weight == size(expr) > 100


def test_what_is_built_and_thrown_away_counts() -> None:
    """Each join builds its columns anew; none of them is heavy alone."""
    double = "".join(f", a{i + 1} AS (SELECT pid, x + x AS x FROM a{i})" for i in range(10))
    joins = "".join(
        f", a{i + 1} AS (SELECT p{i}.pid, q{i}.x FROM people AS p{i} JOIN a{i} AS q{i} "
        f"ON p{i}.pid = q{i}.pid)"
        for i in range(10, 90)
    )
    text = f"WITH a0 AS (SELECT pid, age AS x FROM people){double}{joins} {SUM.format(n=90)}"
    with pytest.raises(UnsupportedQueryError, match="would be built"):
        parse(text, POLICY)


SQUARE = (
    "SELECT SUM(x) AS s FROM (SELECT pid, {} + {} AS x FROM (SELECT pid, {} AS x FROM people) AS t)"
    " AS u"
)


def square(number: int) -> str:
    """A question of some 3 400 parts that has not been asked before."""
    return SQUARE.format("+".join(["x"] * 40), number, "+".join(["age"] * 40))


def test_branches_of_a_union_count_together() -> None:
    assert parse_any(" UNION ALL ".join(map(square, range(4))), POLICY)
    with pytest.raises(UnsupportedQueryError, match="together"):
        parse_any(" UNION ALL ".join(map(square, range(12))), POLICY)


def test_questions_of_a_batch_count_together() -> None:
    curator = dc.open(pa.table({"pid": [1], "age": [30], "sex": ["F"]}), POLICY, ledger=":memory:")
    questions = [{"sql": levels(5, LEAST).replace("10)", f"{9 + i})")} for i in range(20)]
    assert Counter(curator).batch(questions[:2], "ana", "1", None)
    with pytest.raises(UnsupportedQueryError, match="together"):
        Counter(curator).batch(questions, "ana", "1", None)


def test_the_fluent_api_has_the_same_bound() -> None:
    table = frame.Table("people", POLICY)
    text = HEAVY["greatest"].partition("SUM(")[2].rpartition(") AS s")[0]
    with pytest.raises(UnsupportedQueryError, match="parts where every name is written out"):
        _ = table.agg(s=f"SUM({text})").query
