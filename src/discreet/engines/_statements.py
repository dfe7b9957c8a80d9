"""What SQL engines share: a statement is written from the plan, proved, and only then run.

The text that runs is the text that was proved, with numbers of the salt in place of
its placeholders and nothing else (:func:`discreet.verify.fill`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from discreet import policy as pol
from discreet.engines._dialect import Dialect
from discreet.engines._physical import Found, Held, check, held
from discreet.engines._protocol import Fanouts
from discreet.engines._render import Source, render, render_fanout
from discreet.plan import Aggregate, JoinPublic, Salt, Scan, nodes
from discreet.verify import Proof, Table, fill, prove

_REMEMBERED = 8
"""Statements kept from their proof to their run: those of one question."""


class _Numbers(dict[str, int]):
    """Numbers of a salt by the names of their placeholders."""

    def __init__(self, salt: Salt) -> None:
        super().__init__()
        self.salt = salt

    def __missing__(self, name: str) -> int:
        coin, index = name.removeprefix("salt").split("_")
        return self.salt.coefficient(int(coin), int(index))


class Statements:
    """Writes and proves the statements of one engine over the tables of one policy."""

    name: str
    _dialect: Dialect
    _policy: pol.Policy
    _sources: Mapping[str, Source]
    _cleanup: Callable[[], Any]

    def _hold(
        self, policy: pol.Policy, found: Mapping[str, tuple[str, Mapping[str, Found]]]
    ) -> None:
        """Match what the sources hold with the policy; measure public tables."""
        self._policy = policy
        matched = check(policy, {name: columns for name, (_, columns) in found.items()})
        self._sources = {name: Source(found[name][0], c) for name, c in matched.items()}
        self._tables = {
            table: Table(dict(known.columns), known.unit, known.public)
            for table, known in self.catalog.items()
        }
        self._known: tuple[tuple[Aggregate, object, str, Proof], ...] = ()
        self._fanouts = Fanouts(policy, self._measure)

    def _measure(self, public: Scan, columns: tuple[str, ...]) -> int:
        """Run :meth:`_repeats`."""
        raise NotImplementedError

    @property
    def catalog(self) -> Mapping[str, Held]:
        """Physical columns of each table, by the name under which statements read it."""
        tables = self._policy.tables
        return {s.table: held(tables[name], s.columns) for name, s in self._sources.items()}

    def sql(self, aggregate: Aggregate, salt: Salt | None = None) -> str:
        """Return the SQL that would run; without a salt, with placeholders for it."""
        text, _ = self._proved(aggregate)
        return text if salt is None else fill(text, _Numbers(salt))

    def proof(self, aggregate: Aggregate) -> Proof:
        """Prove the statement that would run."""
        return self._proved(aggregate)[1]

    def _chunk(self, aggregate: Aggregate, salt: Salt, chunk: tuple[int, int] | None) -> str:
        """Write the statement over some of the units (None: all), ready to run."""
        return fill(self._proved(aggregate, chunk)[0], _Numbers(salt))

    def _proved(
        self, aggregate: Aggregate, chunk: tuple[int, int] | None = None
    ) -> tuple[str, Proof]:
        for known, part, text, proof in self._known:
            if known is aggregate and part == chunk:
                return text, proof
        text = render(self._dialect, self._sources, aggregate, None, chunk)
        fanouts = {}
        for join in nodes(aggregate.relation):
            if isinstance(join, JoinPublic):
                source = self._sources[join.public.table.name]
                columns = frozenset(source.columns[right].name for _, right in join.on)
                fanouts[source.table, columns] = join.fanout
        proof = prove(text, dialect=self.name, tables=self._tables, fanouts=fanouts)
        self._known = ((aggregate, chunk, text, proof), *self._known[: _REMEMBERED - 1])
        return text, proof

    def fanout(self, public: Scan, columns: tuple[str, ...]) -> int:
        """Return how many rows of a public table share one value of `columns`, at most."""
        return self._fanouts(public, columns)

    def _repeats(self, public: Scan, columns: tuple[str, ...]) -> str:
        return render_fanout(self._dialect, self._sources, public, columns)

    def close(self) -> None:
        """Release what was opened for this engine."""
        self._cleanup()
