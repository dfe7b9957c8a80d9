"""The reference engine: the plan's own meaning, over rows held in Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext

from discreet.engines._protocol import check_joins
from discreet.errors import SchemaError
from discreet.plan import Aggregate, Groups, Salt, Scan, ingest, run
from discreet.verify import Table as Held


class Reference:
    """Slow, obvious, and right by definition: what other engines are compared with.

    Parameters
    ----------
    tables
        Rows by table name; each row maps column names to raw values.
    """

    name = "reference"
    catalog: Mapping[str, Held] = {}  # no statement is ever read here

    def __init__(self, tables: Mapping[str, Iterable[Mapping[str, object]]]) -> None:
        self._tables = {name: list(rows) for name, rows in tables.items()}

    def execute(self, aggregate: Aggregate, salt: Salt) -> Groups:
        """Return one tuple of exact integers per group."""
        check_joins(aggregate, self.fanout)
        return run(aggregate, self._tables, salt)

    def snapshot(self) -> AbstractContextManager[None]:
        """Nothing to hold: the rows are a copy."""
        return nullcontext()

    def sql(self, aggregate: Aggregate, salt: Salt | None = None) -> str:  # noqa: ARG002 - no SQL here
        """Describe the aggregate; there is no SQL to show."""
        return f"-- reference evaluation of plan {aggregate.hash[:12]}"

    def proof(self, aggregate: Aggregate) -> None:
        """Nothing to prove: no statement runs here."""

    def fanout(self, public: Scan, columns: tuple[str, ...]) -> int:
        """Return how many rows of a public table share one value of `columns`, at most."""
        table = public.table
        if not table.public:
            raise SchemaError(f"table {table.name!r} is not public")
        rows = self._tables[table.name]
        keys = (tuple(ingest(table.columns[c], row[c]) for c in columns) for row in rows)
        # NULL meets nothing in a join
        return max(Counter(k for k in keys if None not in k).values(), default=1)

    def values(self, public: Scan, column: str, most: int) -> list[str]:
        """Return the first `most` distinct texts of a column of a public table."""
        table = public.table
        if not table.public:
            raise SchemaError(f"table {table.name!r} is not public")
        codes = {ingest(table.columns[column], row[column]) for row in self._tables[table.name]}
        return sorted(str(v) for v in codes if v is not None)[:most]

    def close(self) -> None:
        """Nothing to release."""
