"""The syntax tree in few words: its nodes, its conditions, and pieces that are made often."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from sqlglot import exp

E = TypeVar("E", bound=exp.Expr)


def nodes(root: exp.Expr) -> list[exp.Expr]:
    """Give all nodes, in the order of :meth:`sqlglot.exp.Expr.walk`: level by level.

    sqlglot's own walk goes through three generators a node.
    """
    tree = [root]
    for node in tree:  # it grows
        for value in node.args.values():
            if isinstance(value, exp.Expr):
                tree.append(value)
            elif isinstance(value, list):
                tree += [one for one in value if isinstance(one, exp.Expr)]
    return tree


def all_of(root: exp.Expr, kind: type[E]) -> list[E]:
    """Give the nodes of one kind, as :meth:`sqlglot.exp.Expr.find_all` does."""
    return [node for node in nodes(root) if isinstance(node, kind)]


def tests_of(node: exp.Expr | None) -> list[exp.Expr]:
    """Conditions that must all hold: those of a WHERE, or of what stands in an ON."""
    test = node.this if isinstance(node, exp.Where) else node
    if test is None:
        return []
    return list(test.flatten()) if isinstance(test, exp.And) else [test]


def set_tests(select: exp.Select, tests: Sequence[exp.Expr]) -> None:
    """Let these conditions, all of them, be the WHERE of a SELECT."""
    select.set("where", exp.Where(this=exp.and_(*tests)) if tests else None)


def clauses_of(node: exp.Expr) -> set[str]:
    """Names of the clauses that a node has."""
    return {name for name, value in node.args.items() if value}


def with_clauses(select: exp.Select, other: exp.Select, *names: str) -> exp.Select:
    """Give a SELECT some clauses of another."""
    own = other.copy()
    for name in names:
        select.set(name, own.args.get(name))
    return select


def set_group(select: exp.Select, keys: Sequence[exp.Expr]) -> None:
    """Let these be the keys of a SELECT."""
    select.set("group", exp.Group(expressions=[k.copy() for k in keys]) if keys else None)


def calling(name: str, *args: exp.Expr) -> exp.Anonymous:
    """A call, with copies of its arguments."""
    return exp.Anonymous(this=name, expressions=[a.copy() for a in args])


def count_rows() -> exp.Anonymous:
    """COUNT(*)."""
    return calling("COUNT", exp.Star())


def count_different(value: exp.Expr) -> exp.Anonymous:
    """COUNT(DISTINCT …)."""
    return calling("COUNT", exp.Distinct(expressions=[value.copy()]))


def under(select: exp.Expr, alias: str) -> exp.Subquery:
    """A subquery by a name."""
    return exp.Subquery(this=select, alias=exp.TableAlias(this=exp.to_identifier(alias)))
