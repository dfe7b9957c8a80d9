"""How long conditions are once each value stands wherever it was named.

Spark moves a condition below the values that it names, towards the rows, and writes each out as
often as it is named. A ratio of ratios, each of which names its parts several times, then has
millions of steps, which is more than a driver can hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from discreet.verify._read import Node, Select, Unproven, read
from discreet.verify._walk import aggregates

_TIMES: Final = 2


def swells(sql: str, dialect: str) -> bool:
    """Whether conditions, moved to the rows, have more than twice the steps of the statement.

    What is no statement of the language counts as one that swells.

    >>> swells("SELECT count(*) FROM (SELECT `a` AS b FROM `t`) AS s WHERE b > 1", "spark")
    False
    """
    counts: list[tuple[int, int]] = []
    try:
        _columns(read(sql, dialect), counts)
    except Unproven:
        return True
    written, moved = (sum(side) for side in zip(*counts, strict=True))
    return bool(moved > _TIMES * written)


def _columns(select: Select, counts: list[tuple[int, int]]) -> dict[str, int]:
    """Steps of each column of a SELECT, down at the rows.

    What each SELECT has as it is written, and its condition down there, is added to `counts`.
    """
    below: dict[str, int] = {}
    for part in (select.source, *(join.source for join in select.joins)):
        if isinstance(part.source, Select):
            below |= _columns(part.source, counts)
    condition = [] if select.where is None else [select.where]
    nodes = [node for node, _ in select.items] + [join.on for join in select.joins] + condition
    counts.append(
        (sum(_steps(node, {}) for node in nodes), sum(_steps(node, below) for node in condition))
    )
    columns: dict[str, int] = {}
    for node, name in select.items:
        if node.kind == "star":
            columns |= below
        elif name is not None:
            # nothing is moved below a window or a sum by what it gives
            stays = node.kind == "window" or aggregates(node)
            columns[name] = 1 if stays else _steps(node, below)
    return columns


def _steps(node: Node, below: Mapping[str, int]) -> int:
    if node.kind == "column":
        return below.get(node.args[1], 1)
    return 1 + sum(_steps(child, below) for child in _children(node.args))


def _children(args: tuple[Any, ...]) -> Iterator[Node]:
    for arg in args:
        if isinstance(arg, Node):
            yield arg
        elif isinstance(arg, tuple):
            yield from _children(arg)
