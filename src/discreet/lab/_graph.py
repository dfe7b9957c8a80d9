"""Re-identification in an anonymised graph by a few colluders (Backstrom et al. 2007).

Before a social network is published without names, k ≈ 2·log₂ n accounts befriend each
other in a random pattern that includes a path, and befriend their targets, each target
through a set of accounts of its own. In the published graph the pattern is found again by
its degrees and inner edges, and with it every target: whether two targets are friends is
then no secret.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations, islice

import numpy as np

from discreet._dataclass import dataclass
from discreet.errors import Hint, ParameterError

Graph = list[set[int]]
"""Neighbours of each node."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What the colluders remember: their pattern, and who points to whom.

    Attributes
    ----------
    inner
        Edges among the colluders, as pairs of their numbers.
    degrees
        The degree each colluder has in the graph.
    pointers
        For each target the colluders that befriended it.
    """

    inner: frozenset[tuple[int, int]]
    degrees: tuple[int, ...]
    pointers: tuple[frozenset[int], ...]


def random_graph(people: int, friends: float = 10.0, *, seed: int = 2007) -> Graph:
    """Make up a graph in which each pair are friends with the same chance.

    >>> from discreet import lab
    >>> len(lab.random_graph(100))
    100
    """
    rng = np.random.default_rng(seed)
    edges = rng.integers(0, people, (round(people * friends / 2), 2))
    graph: Graph = [set() for _ in range(people)]
    for a, b in edges.tolist():
        if a != b:
            graph[a].add(b)
            graph[b].add(a)
    return graph


def plant(
    graph: Graph, targets: Sequence[int], colluders: int | None = None, *, seed: int = 1
) -> tuple[Graph, Plan]:
    """Add colluders who befriend the targets; return the larger graph and their plan.

    Examples
    --------
    >>> from discreet import lab
    >>> graph, plan = lab.plant(lab.random_graph(500), targets=[3, 14, 15])
    >>> len(graph) - 500, len(plan.pointers)
    (18, 3)
    """
    n = len(graph)
    k = colluders or math.ceil(2 * math.log2(max(n, 2)))
    rng = np.random.default_rng(seed)
    sets = [frozenset(c) for r in (3, 4) for c in combinations(range(k), r)]
    if len(sets) < len(targets) or k < 4:
        raise ParameterError("too few colluders for so many targets", hint=Hint("colluders", 20))
    pointers = tuple(sets[i] for i in rng.permutation(len(sets))[: len(targets)])
    larger: Graph = [set(friends) for friends in graph] + [set() for _ in range(k)]
    inner = {(i, i + 1) for i in range(k - 1)}
    inner |= {(i, j) for i, j in combinations(range(k), 2) if j > i + 1 and rng.random() < 0.5}
    edges = [(n + i, n + j) for i, j in inner]
    edges += [(n + i, t) for t, mine in zip(targets, pointers, strict=True) for i in mine]
    # a few random friends hide the colluders' degrees from the curator, not from themselves
    edges += [(n + i, int(t)) for i in range(k) for t in rng.integers(0, n, 3)]
    for a, b in edges:
        larger[a].add(b)
        larger[b].add(a)
    degrees = tuple(len(larger[n + i]) for i in range(k))
    return larger, Plan(frozenset(inner), degrees, pointers)


def anonymise(graph: Graph, *, seed: int = 2) -> tuple[Graph, list[int]]:
    """Replace names by random numbers; return the graph and where everybody went.

    >>> from discreet import lab
    >>> graph, where = lab.anonymise([{1}, {0, 2}, {1}])
    >>> graph[where[1]] == {where[0], where[2]}
    True
    """
    where = np.random.default_rng(seed).permutation(len(graph)).tolist()
    copy: Graph = [set() for _ in graph]
    for node, friends in enumerate(graph):
        copy[where[node]] = {where[friend] for friend in friends}
    return copy, where


def find_planted(graph: Graph, plan: Plan) -> list[int | None] | None:
    """Find the targets in an anonymised graph; None if the pattern is not unique.

    Examples
    --------
    >>> from discreet import lab
    >>> graph, plan = lab.plant(lab.random_graph(500), targets=[3, 14, 15])
    >>> hidden, where = lab.anonymise(graph)
    >>> lab.find_planted(hidden, plan) == [where[3], where[14], where[15]]
    True
    """
    placements = list(islice(_paths(graph, plan), 2))
    if len(placements) != 1:
        return None
    place = placements[0]
    numbers = {node: i for i, node in enumerate(place)}
    groups: dict[frozenset[int], list[int]] = {}
    for node, friends in enumerate(graph):
        if node not in numbers:
            mine = frozenset(numbers[f] for f in friends if f in numbers)
            groups.setdefault(mine, []).append(node)
    # a random friendship may add a pointer; then the target is not told apart
    return [
        matches[0] if len(matches := groups.get(mine, [])) == 1 else None for mine in plan.pointers
    ]


def _paths(graph: Graph, plan: Plan) -> Iterator[tuple[int, ...]]:
    """Yield placements of the pattern: a path whose degrees and inner edges agree."""
    stack: list[tuple[int, ...]] = [
        (node,) for node, friends in enumerate(graph) if len(friends) == plan.degrees[0]
    ]
    while stack:
        place = stack.pop()
        i = len(place)
        if i == len(plan.degrees):
            yield place
            continue
        for node in graph[place[-1]]:
            if node in place or len(graph[node]) != plan.degrees[i]:
                continue
            if all((node in graph[place[j]]) == ((j, i) in plan.inner) for j in range(i)):
                stack.append((*place, node))
