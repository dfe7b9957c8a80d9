"""The role of an engine: it turns one aggregate into exact integers, nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields
from operator import itemgetter
from typing import Any, Final, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet import policy as pol
from discreet._log import note
from discreet.errors import EngineError, SchemaError
from discreet.plan import Aggregate, Groups, JoinPublic, Salt, Scan
from discreet.verify import Proof
from discreet.verify import Table as Held

SERVER: Final = "server "
"""How a place begins that is a database of a server, not a file."""

T = TypeVar("T")


class Engine(Protocol):
    """Executes aggregates over the tables of one policy.

    Every engine returns the integers of :func:`discreet.plan.run`, bit for bit,
    and lets nothing else out: no engine exception, no text of the source.
    """

    name: str
    catalog: Mapping[str, Held]
    """Physical columns of each table, by the name under which statements read it."""

    def execute(self, aggregate: Aggregate, salt: Salt) -> Groups:
        """Return one tuple of exact integers per group."""
        ...

    def snapshot(self) -> AbstractContextManager[None]:
        """Hold one state of the tables for all that is executed inside.

        Questions of disjoint rows cost the dearest of them: a row must not move in between.
        Where tables cannot change while the engine is open, there is nothing to do.
        """
        ...

    def sql(self, aggregate: Aggregate, salt: Salt | None = None) -> str:
        """Return the SQL that would run; without a salt, with placeholders for it."""
        ...

    def proof(self, aggregate: Aggregate) -> Proof | None:
        """Prove the statement that would run; None where no statement runs."""
        ...

    def fanout(self, public: Scan, columns: tuple[str, ...]) -> int:
        """Return how many rows of a public table share one value of `columns`, at most."""
        ...

    def values(self, public: Scan, column: str, most: int) -> list[str]:
        """Return the first `most` distinct texts of a column of a public table, in order."""
        ...

    def close(self) -> None:
        """Release what the engine itself opened."""
        ...


class Fanouts:
    """How often keys repeat in public tables: measured once, then remembered.

    Single columns are measured when the source is opened, so that reading a
    question neither runs a statement nor waits for one. A private table never
    answers, whoever asks: such a number is exact.

    Parameters
    ----------
    policy
        Says which tables are public; what the caller claims does not count.
    measure
        Largest number of rows of a public table that share a key.
    """

    def __init__(self, policy: pol.Policy, measure: Callable[[Scan, tuple[str, ...]], int]) -> None:
        self._policy = policy
        self._measure = measure
        self._fanouts: dict[tuple[str, frozenset[str]], int] = {}
        for table in policy.tables.values():
            for column in table.columns if table.public else ():
                self(Scan(table), (column,))

    def __call__(self, public: Scan, columns: tuple[str, ...]) -> int:
        """Return the number for one set of columns."""
        self.check(public)
        key = public.table.name, frozenset(columns)
        if key not in self._fanouts:
            single = (self._fanouts.get((key[0], frozenset([c])), 2) for c in columns)
            # what a part of the key tells apart, the whole does
            most = 1 if min(single) == 1 and len(columns) > 1 else self._measure(public, columns)
            self._fanouts[key] = most
        return self._fanouts[key]

    def check(self, scan: Scan) -> None:
        """Refuse a table that the policy does not hold as public, exactly as it is."""
        own = self._policy.tables.get(scan.table.name)
        if own is None or not own.public or not _part(scan.table, own):
            raise SchemaError(
                f"table {scan.table.name!r} is not public: how often its keys repeat is private"
            )


def check_joins(aggregate: Aggregate, fanout: Callable[[Scan, tuple[str, ...]], int]) -> None:
    """Refuse a join whose public table repeats a key more often than the plan assumes.

    Sensitivities rest on it. Public tables hold nothing private, so the refusal
    may say so.
    """
    for join in aggregate.relation.nodes:
        if isinstance(join, JoinPublic):
            most = fanout(join.public, tuple(right for _, right in join.on))
            if most > join.fanout:
                raise SchemaError(
                    f"public table {join.public.table.name!r} repeats a key {most} times, "
                    f"the plan assumes at most {join.fanout}"
                )


def check_tables(aggregate: Aggregate, policy: pol.Policy) -> None:
    """Refuse a plan over tables that are not, column by column, those of the policy."""
    for node in aggregate.relation.nodes:
        scan = node.public if isinstance(node, JoinPublic) else node
        if isinstance(scan, Scan):
            own = policy.tables.get(scan.table.name)
            if own is None or not _part(scan.table, own):
                raise SchemaError(
                    f"the plan's table {scan.table.name!r} is not that of the engine's policy"
                )


_WHOSE: Final = tuple(f.name for f in fields(pol.Table) if f.name not in ("columns", "source"))
"""All that a policy says of a table but its columns: whose rows, which limits, what is exact."""


_AS_TEXT: Final = ({pol.Text}, {pol.Text, pol.Category})
"""Columns of public tables that may be read in the other way, or of another length."""


def _part(table: pol.Table, own: pol.Table) -> bool:
    """Whether a table is a policy's own, possibly with fewer columns.

    Open text of a public table may be read as a list of texts.
    """
    same = all(getattr(table, name) == getattr(own, name) for name in _WHOSE)
    return same and all(
        column == (other := own.columns.get(name))
        or (own.public and {type(other), type(column)} in _AS_TEXT)
        for name, column in table.columns.items()
    )


def in_order(rows: list[tuple[Any, ...]], keys: int) -> Groups:
    """Groups by their keys, sorted, so that nothing follows the order in which an engine gave them.

    By one key after the other, from the last: integers compare faster than tuples.
    """
    for place in reversed(range(keys)):
        rows.sort(key=itemgetter(place))
    return {row[:keys]: row[keys:] for row in rows}


def columns_in_order(columns: Sequence[NDArray[np.int64]], keys: int) -> Groups:
    """Do the same for the columns of a result, all of them integers: three times as fast."""
    assert not any(map(np.ma.is_masked, columns)), "nothing in a group is NULL"
    order = np.lexsort(columns[:keys][::-1])
    lists = [np.asarray(column)[order].tolist() for column in columns]
    return dict(zip(zip(*lists[:keys], strict=True), zip(*lists[keys:], strict=True), strict=True))


def conceal_errors(work: Callable[[], T], *, but: tuple[type[Exception], ...] = ()) -> T:
    """Run `work`; every failure becomes the same error, except those of the classes `but`.

    Engine messages quote cells, and even their kind is one unpriced bit. The
    original exception is therefore not chained, not even as hidden context.
    """
    try:
        return work()
    except but:
        raise
    except Exception as error:  # noqa: BLE001 - every failure must look the same
        note("engine failure", error)
    raise EngineError("the engine could not compute the answer; the data owner's log says more")
