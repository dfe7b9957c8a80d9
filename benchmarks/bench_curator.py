"""Whole questions through the curator against plain DuckDB and against OpenDP.

Everything counts: parsing, pricing, debit, engine, noise, answer. OpenDP's
Polars context answers the same grouped COUNT and SUM with public keys, from the
same Parquet file, in the same run.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

import discreet as dc
from benchmarks.bench_engine import PEOPLE, PLAIN, ROWS, best, fresh
from discreet import policy as pol
from discreet.cli._sample import write_sample

QUESTION = "SELECT sex, COUNT(*) AS n, SUM(income) AS s FROM people GROUP BY sex"
_NAMES = itertools.count()


def curator(source: str, **table: object) -> dc.Curator:
    """A curator with a large budget of its own."""
    columns = [pol.Category("sex", ["F", "M", "X"]), pol.Real("income", 0, 200_000, "0.01")]
    policy = pol.Policy(
        [pol.Table("people", columns, **table)], pol.Budget("1e6"), name=f"bench {next(_NAMES)}"
    )
    return dc.open(source, policy=policy, ledger=":memory:")


def ask(asked: dc.Curator) -> Callable[[], object]:
    """One whole question, priced anew each time."""
    return lambda: asked.sql(QUESTION, epsilon=1, fresh=True).to_dicts()


def opendp(path: str, *, identifier: bool) -> Callable[[], object] | None:
    """Build the same question in OpenDP's context, if it is installed with Polars."""
    try:
        import opendp.prelude as dp
        import polars as pl
    except ImportError:
        return None
    dp.enable_features("contrib")
    unit = dp.unit_of(contributions=1, **({"identifier": "id"} if identifier else {}))

    def release() -> object:
        context = dp.Context.compositor(
            data=pl.scan_parquet(path),
            privacy_unit=unit,
            privacy_loss=dp.loss_of(epsilon=1.0),
            split_evenly_over=1,
            margins=[
                dp.polars.Margin(max_length=ROWS),
                dp.polars.Margin(by=["sex"], max_length=ROWS, max_groups=3),
            ],
        )
        query = context.query()
        if identifier:
            query = query.truncate_per_group(3)
        income = pl.col("income").fill_null(0.0).fill_nan(0.0).dp.sum((0.0, 200_000.0))
        keys = pl.LazyFrame({"sex": ["F", "M", "X"]})
        grouped = query.group_by("sex").agg(dp.len(signed=True), income)
        return grouped.with_keys(keys).release().collect()

    return release


SHAPES = (
    "SELECT COUNT(*) AS n FROM people WHERE income > {k}",
    "SELECT sex, COUNT(*) AS n, SUM(income) AS s FROM people WHERE income > {k} GROUP BY sex",
    "SELECT sex, AVG(income) AS m FROM people WHERE income BETWEEN {k} AND 9000 GROUP BY sex",
    "SELECT AVG(CASE WHEN income > {k} THEN 1 ELSE 0 END) AS share FROM people",
    "WITH some AS (SELECT * FROM people WHERE income > {k}) SELECT VARIANCE(income) AS v FROM some",
)
"""Ordinary questions, new for each number."""


def overhead(folder: Path) -> tuple[float, float]:
    """Processor time of a new question beyond the engine's, and of a new preview; milliseconds."""
    path = str(folder / "tiny.parquet")
    with duckdb.connect() as connection:
        connection.execute(PEOPLE.replace(f"range({ROWS})", "range(1000)"))
        connection.execute(f"COPY people TO '{path}'")
    asked = curator(path)
    inside = [0.0]
    execute = asked._engine.execute

    def timed(aggregate: object, salt: object) -> object:
        start = time.process_time()
        try:
            return execute(aggregate, salt)
        finally:
            inside[0] += time.process_time() - start

    def least(work: Callable[[str], object], shape: str, first: int) -> float:
        spent = []
        for k in range(first, first + 20):
            start, inside[0] = time.process_time(), 0.0
            work(shape.format(k=k))
            spent.append(time.process_time() - start - inside[0])
        return min(spent)

    asked._engine.execute = timed
    answers = [least(lambda q: asked.sql(q, epsilon=1).to_dicts(), s, 100) for s in SHAPES]
    quotes = [least(lambda q: repr(asked.preview(q, epsilon=1)), s, 200) for s in SHAPES]
    return 1000 * sum(answers) / len(SHAPES), 1000 * sum(quotes) / len(SHAPES)


def batch(folder: Path) -> float:
    """Work of twenty grouped questions in one batch over that of the slowest of them alone."""
    path = str(folder / "many.parquet")
    with duckdb.connect() as connection:
        connection.execute(f"""
            COPY (SELECT ['F', 'M', 'X'][1 + (hash(i * 7) % 3)::INTEGER] AS sex,
                         (hash(i) % 20)::INTEGER AS region, hash(i * 3) % 2 = 0 AS works,
                         (hash(i * 5) % 116)::INTEGER AS age,
                         (hash(i * 13) % 20200000) / 100.0::DOUBLE AS income
                  FROM range({ROWS // 5}) AS r(i)) TO '{path}'
        """)
    columns = [
        pol.Category("sex", ["F", "M", "X"]), pol.Integer("region", 0, 19), pol.Boolean("works"),
        pol.Integer("age", 0, 115), pol.Real("income", 0, 200_000, "0.01"),
    ]  # fmt: skip
    policy = pol.Policy([pol.Table("people", columns)], pol.Budget("1e6"), name="bench batch")
    asked = dc.open(path, policy=policy, ledger=":memory:")
    sums = ("COUNT(*)", "SUM(income)", "AVG(income)", "SUM(age)", "VARIANCE(income)")
    questions = [
        f"SELECT {keys}, {x} AS x FROM people GROUP BY {keys}"
        for keys in ("sex", "region", "works", "sex, region")
        for x in sums
    ]

    prices = itertools.count(20)

    def together() -> None:
        # what is asked again at the same price is stored
        with asked.batch(epsilon=next(prices)) as pending:
            for question in questions:
                pending.sql(question)

    whole = min(worked(together) for _ in range(3))
    alone = (lambda q=q: asked.sql(q, epsilon=1, fresh=True) for q in questions)
    return whole / max(min(worked(one) for _ in range(3)) for one in alone)


def worked(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def imported(folder: Path) -> float:
    """Processor time of a fresh process that imports the package, beyond an empty one's."""

    def least(code: str) -> float:
        text = f"{code}; import time; print(time.process_time())"
        return min(float(told[-1]) for told in fresh(folder, text, repeats=7))

    return least("import discreet") - least("pass")


def first(folder: Path) -> float:
    """Processor time of a fresh process, from its start to its first answer in print."""
    (folder / "clinic").mkdir()
    policy, _ = write_sample(folder / "clinic", 4000)
    question = "SELECT COUNT(*) AS n FROM visits"
    # the sample's name is the same in every run, and its ledger of the last run is gone
    state = f"import os; os.environ['XDG_STATE_HOME'] = {str(folder / 'state')!r}"
    # what is asked again at the same price is stored
    asked = f"dc.open(policy={str(policy)!r}).sql({question!r}, epsilon='0.0{{}}1')"
    text = f"{state}; import discreet as dc; print({asked})"
    text = f"{text}; import time; print(time.process_time())"
    return min(float(told[-1]) for told in fresh(folder, text, repeats=7))


def main() -> None:
    """Print ratios; more than one means that discreet is faster than the peer."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = str(folder / "people.parquet")
        with duckdb.connect() as connection:
            connection.execute(PEOPLE)
            connection.execute(f"COPY people TO '{path}'")
        with duckdb.connect() as connection:
            connection.execute(f"CREATE VIEW people AS FROM '{path}'")
            plain = best(lambda: connection.execute(PLAIN).fetchall(), 5)
        by_row = best(ask(curator(path)), 5)
        by_unit = best(ask(curator(path, unit="id", max_rows_per_unit=3)), 3)
        print(f"curator, {ROWS:,} rows: {by_row / plain:.2f} x the time of plain DuckDB")
        for label, ours, identifier in (("row", by_row, False), ("3 rows per id", by_unit, True)):
            peer = opendp(path, identifier=identifier)
            if peer is not None:
                print(
                    f"curator, {ROWS:,} rows, {label}: {best(peer, 1) / ours:.0f} x OpenDP's speed"
                )
        print(f"curator, 20 grouped questions in a batch: {batch(folder):.2f} x the slowest (2)")
        print(f"curator, import discreet: {imported(folder):.3f} s (0.1)")
        print(f"curator, first answer of a fresh process: {first(folder):.3f} s (0.35)")
        answer, quote = overhead(folder)
        print(f"curator, a new question beyond the engine: {answer:.1f} ms (3)")
        print(f"curator, a new preview: {quote:.1f} ms (4)")


if __name__ == "__main__":
    main()
