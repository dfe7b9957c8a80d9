"""Whole questions through the curator against plain DuckDB and against OpenDP.

Everything counts: parsing, pricing, debit, engine, noise, answer. OpenDP's
Polars context answers the same grouped COUNT and SUM with public keys, from the
same Parquet file, in the same run.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path

import duckdb

import discreet as dc
from benchmarks.bench_engine import PEOPLE, PLAIN, ROWS, best
from discreet import policy as pol

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


def overhead(folder: Path) -> float:
    """Milliseconds of one question beyond the engine's own time, on a small table."""
    path = str(folder / "tiny.parquet")
    with duckdb.connect() as connection:
        connection.execute(PEOPLE.replace(f"range({ROWS})", "range(1000)"))
        connection.execute(f"COPY people TO '{path}'")
    asked = curator(path)
    spent: list[float] = []
    execute = asked._engine.execute

    def timed(aggregate: object, salt: object) -> object:
        found: list[object] = []
        spent.append(best(lambda: found.append(execute(aggregate, salt)), 1))
        return found[0]

    asked._engine.execute = timed
    whole = [best(ask(asked), 1) for _ in range(30)]
    return 1000 * min(w - e for w, e in zip(whole, spent, strict=True))


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
        print(
            f"curator, overhead of one question beyond the engine: {overhead(folder):.1f} ms (20)"
        )


if __name__ == "__main__":
    main()
