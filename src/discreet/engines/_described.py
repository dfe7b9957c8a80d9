"""An engine without rows: it writes and proves statements from what another process found.

A process that prices questions needs the physical schema of the tables and how often keys of
public tables repeat, both of them public; it need not be able to read a row. So whoever opens
the data describes it (:func:`describe`), and :class:`Described` does with the description
all that an engine does before the debit. Running is left to the one that has the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from discreet import policy as pol
from discreet._canonical import digest
from discreet._dataclass import dataclass
from discreet._recent import Recent
from discreet.engines._dialect import Dialect, DuckDB, Postgres, Spark
from discreet.engines._protocol import Engine, Fanouts
from discreet.engines._render import Source
from discreet.engines._statements import Statements
from discreet.errors import EngineError, SchemaError
from discreet.plan import Aggregate, Groups, Salt, Scan, weight
from discreet.verify import Table

_DIALECTS: Final[Mapping[str, type[Dialect]]] = {d.name: d for d in (DuckDB, Postgres, Spark)}


@dataclass(frozen=True, slots=True)
class Description:
    """What is public about tables that are open elsewhere.

    ``repeats`` says for each column of a public table how many rows share a value, at most.
    """

    name: str
    sources: Mapping[str, Source]
    catalog: Mapping[str, Table]
    places: tuple[str, ...]
    repeats: Mapping[tuple[str, str], int]
    unseen: tuple[str, ...] = ()

    @property
    def mark(self) -> str:
        """Hash of all that statements and their proofs follow from, besides plan and policy."""
        return digest(repr((self.name, self.sources, self.catalog, self.repeats)))


def describe(engine: Engine, policy: pol.Policy) -> Description:
    """Describe the tables of an open engine; nothing of it depends on private rows."""
    if not isinstance(engine, Statements):
        raise SchemaError(f"the engine {engine.name!r} runs no statements that could be described")
    repeats = {
        (table.name, column): engine.fanout(Scan(table), (column,))
        for table in policy.tables.values()
        for column in (table.columns if table.public else ())
    }
    return Description(
        engine.name,
        dict(engine.sources),
        dict(engine.catalog),
        engine.places,
        repeats,
        engine.unseen,
    )


class Described(Statements):
    """Writes and proves statements over tables that only another process can read."""

    def __init__(self, description: Description, policy: pol.Policy) -> None:
        self.name, self.mark = description.name, description.mark
        self._dialect = _DIALECTS[description.name]()
        self._policy = policy
        self._sources = description.sources
        self.catalog = description.catalog
        self.places = description.places
        self.unseen = description.unseen
        self._repeats_of = description.repeats
        self._proofs = Recent(weigh=lambda key, _: weight(key[0].keys))
        self._fanouts = Fanouts(policy, self._measure)
        self._cleanup = lambda: None

    def _measure(self, public: Scan, columns: tuple[str, ...]) -> int:
        """Give a bound: rows that share a whole key share each column of it."""
        return min(self._repeats_of[public.table.name, column] for column in columns)

    def execute(self, aggregate: Aggregate, salt: Salt) -> Groups:  # noqa: ARG002 - an engine's own signature
        """Refuse: there are no rows here."""
        raise EngineError("this process holds no data; a worker runs what is paid for")
