"""What SQL engines share: a statement is written from the plan, proved, and only then run.

The text that runs is the text that was proved, with numbers of the salt in place of
its placeholders and nothing else (:func:`discreet.verify.fill`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

from discreet import policy as pol
from discreet._recent import Recent
from discreet.engines._dialect import Dialect
from discreet.engines._physical import Field, check
from discreet.engines._protocol import Fanouts, conceal_errors
from discreet.engines._render import Source, render, render_fanout, render_values
from discreet.errors import SchemaError
from discreet.plan import Aggregate, JoinPublic, Salt, Scan, weight
from discreet.verify import Proof, Table, fill, prove


class Statements:
    """Writes and proves the statements of one engine over the tables of one policy."""

    name: str
    catalog: Mapping[str, Table]
    """Physical columns of each table, by the name under which statements read it."""
    places: tuple[str, ...] = ()
    """Files, or the server's own identity, that private tables are read from."""
    unseen: tuple[str, ...] = ()
    """Private tables, or the server, whose data could be charged to another budget unseen."""
    ended = False
    """Whether what the engine asks has ended for good: then nothing more is paid for."""
    _dialect: Dialect
    _policy: pol.Policy
    _sources: Mapping[str, Source]
    _cleanup: Callable[[], Any]
    _proofs: Recent[tuple[Aggregate, object], tuple[str, Proof]]
    """Statements with their proofs, by the whole plan that they were written from."""
    _fanouts: Fanouts
    _texts: tuple[tuple[Aggregate, str], ...] = ()
    """Statements that another process has proved."""
    _holder: int | None = None
    """The thread that holds a snapshot."""

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Hold one state of the tables for all that this thread executes inside."""
        with self._one_state(lasting=True):
            self._holder = threading.get_ident()
            try:
                yield
            finally:
                self._holder = None

    def _one_state(self, *, lasting: bool = False) -> AbstractContextManager[None]:  # noqa: ARG002 - not all engines know of it
        """Hold one state of tables that may change, for one statement or for several."""
        return nullcontext()

    def _state(self) -> AbstractContextManager[None]:
        """Hold one state for a statement: that of the snapshot, where this thread has one."""
        return nullcontext() if self._holder == threading.get_ident() else self._one_state()

    @property
    def sources(self) -> Mapping[str, Source]:
        """Name in SQL and physical columns of each table of the policy."""
        return self._sources

    def _hold(
        self, policy: pol.Policy, sources: Mapping[str, tuple[str, Mapping[str, Field], bool]]
    ) -> None:
        """Match what the sources hold with the policy; read views; measure public tables.

        `sources` gives each table's name in SQL, its columns, and whether it is computed.
        """
        self._policy = policy
        matched = check(policy, {name: columns for name, (_, columns, _) in sources.items()})
        self._sources = {
            name: Source(sources[name][0], c, sources[name][2]) for name, c in matched.items()
        }
        for name, source in self._sources.items():
            if source.computed:
                self._read_through(name, source)
        self.catalog = {
            s.table: _catalog_table(policy.tables[n], self._sources)
            for n, s in self._sources.items()
        }
        self._proofs = Recent(weigh=lambda key, _: weight(key[0].keys))
        self._fanouts = Fanouts(policy, self._measure)

    def _read_through(self, name: str, source: Source) -> None:
        """Read all of a view once, as statements read it: unlike a table, it may fail on a row.

        What statements then add stands above the fence, where it is proved not to fail.
        """
        touched = [self._dialect.touched(f) for f in source.columns.values()]
        sql = f"SELECT {', '.join(touched) or 'count(*)'} FROM {source.rows(self._dialect)}"  # noqa: S608 - names are quoted
        with suppress(Exception):  # the message may quote cells
            self._rows(sql)
            return
        raise SchemaError(
            f"table {name!r} cannot be read on every row: it is a view or a foreign table, and "
            "this role may not read it, or a row of it fails",
            hint=f"TABLE {source.table}, run by its owner as this role, says why",
        )

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement."""
        raise NotImplementedError

    def _measure(self, public: Scan, columns: tuple[str, ...]) -> int:
        """Run :meth:`_repeats`."""
        return conceal_errors(lambda: int(self._rows(self._repeats(public, columns))[0][0]))

    def sql(self, aggregate: Aggregate, salt: Salt | None = None) -> str:
        """Return the SQL that would run; without a salt, with placeholders for it."""
        return self._with_proof(aggregate)[0] if salt is None else self._filled(aggregate, salt)

    def proof(self, aggregate: Aggregate) -> Proof:
        """Prove the statement that would run."""
        return self._with_proof(aggregate)[1]

    def take(self, proved: Iterable[tuple[Aggregate, str]]) -> None:
        """Run these aggregates, the very objects, by statements that another process has proved.

        Only for one that writes and proves by the same description of the tables
        (:attr:`Description.mark`): it would be the same text again. They stand until the next.
        """
        self._texts = tuple(proved)

    def _filled(
        self, aggregate: Aggregate, salt: Salt, chunk: tuple[int, int] | None = None
    ) -> str:
        """Write the statement over some of the units (None: all), ready to run."""
        texts = [text for own, text in self._texts if own is aggregate and chunk is None]
        return fill(texts[0] if texts else self._with_proof(aggregate, chunk)[0], salt, self.name)

    def _with_proof(
        self, aggregate: Aggregate, chunk: tuple[int, int] | None = None
    ) -> tuple[str, Proof]:
        return self._proofs((aggregate, chunk), lambda: self._prove(aggregate, chunk))

    def _prove(self, aggregate: Aggregate, chunk: tuple[int, int] | None) -> tuple[str, Proof]:
        text = render(self._dialect, self._sources, aggregate, chunk)
        fanouts = {}
        for join in aggregate.relation.nodes:
            if isinstance(join, JoinPublic):
                source = self._sources[join.public.table.name]
                columns = frozenset(source.columns[right].name for _, right in join.on)
                fanouts[source.table, columns] = join.fanout
        return text, prove(text, dialect=self.name, tables=self.catalog, fanouts=fanouts)

    def fanout(self, public: Scan, columns: tuple[str, ...]) -> int:
        """Return how many rows of a public table share one value of `columns`, at most."""
        return self._fanouts(public, columns)

    def values(self, public: Scan, column: str, most: int) -> list[str]:
        """Return the first `most` distinct texts of a column of a public table."""
        own = self._policy.tables.get(public.table.name)
        if own is None or not own.public:
            raise SchemaError(f"table {public.table.name!r} is not public")
        sql = render_values(self._dialect, self._sources, Scan(own), column, most)
        return conceal_errors(lambda: [str(row[0]) for row in self._rows(sql)])

    def beyond(self, name: str, plain: Mapping[str, int]) -> dict[str, int]:
        """Add up what the cells of a private table have beyond so many bytes each, by column.

        Exact numbers about private rows: they leave nobody's process.
        """
        if not plain:
            return {}
        source = self._sources[name]
        sums = []
        for own, most in plain.items():
            field = source.columns[own]
            length = self._dialect.octets(self._dialect.quote(field.name), field)
            sums.append(f"COALESCE(sum(CASE WHEN {length} > {most} THEN {length} - {most} END), 0)")
        sql = f"SELECT {', '.join(sums)} FROM {source.rows(self._dialect)}"  # noqa: S608 - names are quoted
        totals = conceal_errors(lambda: self._rows(sql))
        return dict(zip(plain, map(int, totals[0]), strict=True))

    def _repeats(self, public: Scan, columns: tuple[str, ...]) -> str:
        return render_fanout(self._dialect, self._sources, public, columns)

    def close(self) -> None:
        """Release what was opened for this engine."""
        self._cleanup()


def _catalog_table(table: pol.Table, sources: Mapping[str, Source]) -> Table:
    source, owner = sources[table.name], None
    columns = {f.name: f.native for f in source.columns.values()}
    if table.owner is not None and (above := table.owner.above) is not None:
        theirs, own = sources[above.name], source.columns[table.owner.column].name
        owner = (own, theirs.table, theirs.columns[str(above.key)].name)
        return Table(columns, None, computed=source.computed, owner=owner)
    unit = None if table.unit is None else source.columns[table.unit].name
    return Table(columns, unit, table.public, source.computed)
