"""What the proof of a statement costs, beside reading the question and running it.

A proof is made once per plan (the salt stands in it as placeholders) and then
remembered with the statement; both are shown. The run is over a table of a hundred thousand rows.
"""

from __future__ import annotations

import statistics

import duckdb

import discreet as dc
from benchmarks.bench_engine import best
from discreet import plan, verify
from discreet import policy as pol

ROWS = 100_000
SALT = plan.Salt(b"bench")
QUESTIONS = (
    "SELECT COUNT(*) AS n FROM people",
    "SELECT sex, COUNT(*) AS n, SUM(income) AS s FROM people GROUP BY sex",
    "SELECT sex, AVG(income / (age + 1)) AS a FROM people WHERE age BETWEEN 18 AND 65 GROUP BY sex",
    "SELECT WIDTH_BUCKET(age, 0, 100, 10) AS k, SUM(income) AS s FROM people GROUP BY 1",
    "SELECT EXTRACT(YEAR FROM joined) AS y, COUNT(DISTINCT id) AS n FROM people GROUP BY 1",
    "SELECT SUM(CASE WHEN sex = 'F' OR age > 40 THEN income ELSE 0 END) AS s FROM people",
)
LIMITS = {"max_groups_per_unit": 2, "max_rows_per_group": 2}


def curator(connection: duckdb.DuckDBPyConnection) -> tuple[dc.Curator, verify.Table]:
    columns = [
        pol.Category("sex", ["F", "M", "X"]),
        pol.Integer("age", 0, 115),
        pol.Real("income", 0, 200_000, "0.01"),
        pol.Date("joined", "2000-01-01", "2024-12-31"),
    ]
    policy = pol.Policy(
        [pol.Table("people", columns, unit="id", **LIMITS)], pol.Budget("1e6"), name="verify"
    )
    connection.execute(
        "CREATE TABLE people AS SELECT CAST(i // 3 AS BIGINT) AS id, "
        "['F', 'M', 'X'][1 + CAST(hash(i) % 3 AS INTEGER)] AS sex, "
        "CAST(i % 116 AS INTEGER) AS age, CAST(i % 200000 AS DOUBLE) AS income, "
        f"DATE '2000-01-01' + CAST(i % 9000 AS INTEGER) AS joined FROM range({ROWS}) AS r(i)"
    )
    types = {
        "id": "BIGINT",
        "sex": "VARCHAR",
        "age": "INTEGER",
        "income": "DOUBLE",
        "joined": "DATE",
    }
    opened = dc.open(connection, policy=policy, ledger=":memory:")
    return opened, verify.Table(types, "id")


def main() -> None:
    connection = duckdb.connect()
    asked, table = curator(connection)
    tables = {'"people"': table}

    def prove(sql: str) -> verify.Proof:
        return verify.prove(sql, dialect="duckdb", tables=tables)

    print(f"\nverifier: milliseconds per statement, {ROWS} rows")
    print(f"{'chars':>6} {'prove':>7} {'again':>7} {'explain':>8} {'run':>7}  question")
    costs = []
    for question in QUESTIONS:
        for aggregate in asked.preview(question, epsilon=1).plan.lowered.aggregates:
            sql, salted = asked._engine.sql(aggregate), asked._engine.sql(aggregate, SALT)
            times = (
                best(lambda sql=sql: prove(sql), 15),
                best(lambda a=aggregate: asked._engine.sql(a), 15),
                best(lambda sql=salted: connection.execute("EXPLAIN " + sql).fetchall(), 5),
                best(lambda sql=salted: connection.execute(sql).fetchall(), 5),
            )
            costs.append(times[0])
            shown = "".join(f"{1e3 * t:{w}.2f} " for t, w in zip(times, (8, 7, 8, 7), strict=True))
            print(f"{len(sql):6d}{shown} {question[:60]}")
    print(f"median of proofs: {1e3 * statistics.median(costs):.2f} ms")
    connection.close()


if __name__ == "__main__":
    main()
