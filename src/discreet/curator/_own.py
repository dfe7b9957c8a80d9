"""Whose question is it: a curator prices only questions built under its own policy."""

from __future__ import annotations

from collections.abc import Iterator

from discreet import policy as pol
from discreet.errors import QueryError
from discreet.plan import JoinPublic, Query, Relation, nodes, private_tables


def check_own(query: Query, policy: pol.Policy) -> None:
    """Refuse a question whose tables or relation are not this policy's.

    A question carries the bounds, units and limits that it is priced by; built
    under another policy it would be priced by that one's promises.
    """
    if not isinstance(query, Query):
        raise QueryError(f"a question is SQL text or a plan, not {type(query).__name__}")
    private = private_tables(query.relation)
    foreign = [t for t in (*private, *_public(query.relation)) if policy.tables.get(t.name) != t]
    if foreign or any(query.neighbours is not t.neighbours for t in private):
        raise QueryError(
            "this question was built under another policy",
            hint="curator.sql(…) or curator.table(…)",
        )


def _public(relation: Relation) -> Iterator[pol.Table]:
    yield from (n.public.table for n in nodes(relation) if isinstance(n, JoinPublic))
