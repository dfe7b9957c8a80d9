"""Walks over the nodes of a statement: what stands together, and what adds up."""

from __future__ import annotations

from discreet.verify._read import Node, Select


def bare(select: Select) -> bool:
    """Whether a SELECT computes, joins and adds up nothing."""
    plain = all(node.kind in ("column", "number") for node, _ in select.items)
    return plain and not (select.joins or select.group)


def all_of(node: Node) -> list[Node]:
    """Conditions that hold together."""
    return [x for a in node.args for x in all_of(a)] if node.kind == "and" else [node]


def sums(node: Node) -> list[Node]:
    """Aggregates inside an expression."""
    if node.kind == "call" and node.args[0] in ("sum", "count", "count distinct", "max", "min"):
        return [node]
    if node.kind in ("column", "case", "window"):
        return []  # the rules refuse an aggregate in a branch
    return [aggregate for a in node.args if isinstance(a, Node) for aggregate in sums(a)]


def aggregates(node: Node) -> bool:
    """Whether an expression adds rows up."""
    return bool(sums(node))
