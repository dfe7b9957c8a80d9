"""All nodes of a tree at once: sqlglot's own walk goes through three generators a node."""

from __future__ import annotations

from typing import TypeVar

from sqlglot import exp

E = TypeVar("E", bound=exp.Expr)


def nodes(root: exp.Expr) -> list[exp.Expr]:
    """Give all nodes, in the order of :meth:`sqlglot.exp.Expr.walk`: level by level."""
    found = [root]
    for node in found:  # it grows
        for value in node.args.values():
            if isinstance(value, exp.Expr):
                found.append(value)
            elif isinstance(value, list):
                found += [one for one in value if isinstance(one, exp.Expr)]
    return found


def all_of(root: exp.Expr, kind: type[E]) -> list[E]:
    """Give the nodes of one kind, as :meth:`sqlglot.exp.Expr.find_all` does."""
    return [node for node in nodes(root) if isinstance(node, kind)]
