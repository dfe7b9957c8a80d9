"""Questions about the same rows: limits that are applied once, for all keys together.

Guarantee
---------
The questions that :func:`about_same_rows` returns count, under one salt, the same rows of every
unit: those that the limits keep of the question with all their keys. A row without a key
is dropped by the questions with that key and by no others.

Proof sketch
------------
They stand on one relation: the rows with one column for each key, limited by all these columns.
Where a key is NULL its column has one code more, which is none of the key's public codes, so that
the question still drops the row.
A :class:`~._relation.SameRows` on top of it asks for all of them whatever is read
afterwards, so nodes below it are pruned alike and have the same coins in every question; what they
keep of a unit is a function of its rows, of the coins and the salt. No limit stands above it,
since none binds: its ``m`` is the limit of the questions.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from discreet._dataclass import replace
from discreet.errors import ParameterError
from discreet.plan._expr import Coalesce, Column, Constant, Expr
from discreet.plan._joins import limited_by_parent
from discreet.plan._lower import lower
from discreet.plan._query import Query, limits_of
from discreet.plan._relation import (
    Key,
    LimitGroups,
    LimitRows,
    Limits,
    Project,
    Relation,
    SameRows,
    base,
    limited,
)
from discreet.plan._types import Kind


def about_same_rows(queries: Sequence[Query]) -> list[Query]:
    """Let limits keep the same rows in questions about one relation, of listed keys."""
    if not any(map(_limited, queries)):
        return list(queries)
    (relation,) = {q.relation for q in queries}
    exprs = {k.name: _never_null(k) for q in queries for k in q.keys}
    rows = _rows(relation, exprs, _limits(queries))
    assert rows.m is not None  # it is limited
    return [
        replace(
            q,
            relation=rows,
            keys=tuple([replace(k, expr=Column(k.name, exprs[k.name].type)) for k in q.keys]),
            limits=Limits(rows=rows.m),
        )
        for q in queries
    ]


def _never_null(key: Key) -> Expr:
    """One code more stands for NULL, as limits rank groups by what their codes hash to."""
    t = key.expr.type
    if t.kind is Kind.TEXT:
        raise ParameterError(
            f"the values of {key.name!r} are open text, whose rows limits cannot keep alike",
            hint="declare it as a category in the policy",
        )
    if not t.nullable:
        return key.expr
    return Coalesce((key.expr, Constant.like(t.hi + 1, t)))


def keeps_same_rows(queries: Sequence[Query]) -> bool:
    """Whether no limit can drop other rows in one of these questions than in another."""
    if len({q.relation for q in queries}) != 1:
        return False
    return isinstance(queries[0].relation, SameRows) or not any(map(_limited, queries))


def _limited(query: Query) -> bool:
    if base(query.relation).table.unit is None:
        return False
    nodes = [n for each in lower(query).aggregates for n in each.relation.nodes]
    return any(isinstance(n, LimitRows | LimitGroups) for n in nodes)


def _limits(queries: Sequence[Query]) -> Limits:
    """The limits of the questions with keys; those without have their own unless it is stated."""
    settings = {q.limits for q in queries if q.keys}
    own = limits_of(queries[0].relation, grouped=False)
    settings |= {q.limits for q in queries if not q.keys and not (settings and q.limits == own)}
    if len(settings) > 1:
        raise ParameterError(
            "these questions limit a person's rows differently, so that they cannot agree",
            hint="give all of them the same OPTIONS(…), or none",
        )
    return settings.pop()


def _rows(relation: Relation, exprs: Mapping[str, Expr], limits: Limits) -> Relation:
    """Rows with a column for each key, limited by all of them."""
    project = Project(limited_by_parent(relation), tuple(exprs.items()))
    # coins are numbered anew in each aggregate: below a node that asks for all columns, alike
    below = limited(project, tuple(exprs), limits, itertools.count())
    most = below.m
    assert most is not None
    if isinstance(below, LimitRows) and not below.by:
        below = below.below
    return SameRows(below, most)
