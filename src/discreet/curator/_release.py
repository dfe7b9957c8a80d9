"""Measuring: exact integers from the engine plus exact noise from the laws.

This is the only place where private integers exist in Python. They enter as the
engine's groups, get noise of the laws that the plan priced (and the ledger was
debited for), and leave as a record. Nothing else is kept.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet import mechanisms as m
from discreet import noise
from discreet.answer import Record, ReleasedTree, ReleasedVector
from discreet.engines import Engine
from discreet.errors import ParameterError
from discreet.plan import BRANCHING, Code, Groups, Linear, Plan, Salt
from discreet.plan._lower import Pick, Tree

MAX_CELLS = 1_000_000
"""Largest number of groups in one answer."""

Cells = list[tuple[Code, ...]]
Ints = NDArray[Any]


def fresh_salt() -> Salt:
    """Return a secret salt for one question's contribution limits."""
    return Salt(noise.random_words(4).tobytes())


def count_cells(plan: Plan) -> int | None:
    """Number of groups of an answer, None when keys are selected from the data."""
    sizes = [len(k.codes) if k.codes is not None else None for k in plan.lowered.query.keys]
    if None in sizes:
        return None
    total = 1
    for size in sizes:
        assert size is not None
        total *= size
    if total > MAX_CELLS:
        raise ParameterError(
            f"the query has {total} groups; at most {MAX_CELLS} fit one answer",
            hint="group by fewer columns, or narrow them with WHERE … IN (…)",
        )
    return total


class Noise:
    """Where randomness enters a release; the audit replaces it with a recorder."""

    def sample(self, law: Any, n: int) -> Ints:
        """Draw `n` integers of a law."""
        drawn: Ints = law.sample(n)
        return drawn

    def choose(self, scores: list[int], sensitivity: int, epsilon: Fraction) -> int:
        """Pick an index with the exponential mechanism."""
        return int(m.exponential(scores, sensitivity, epsilon).value)


def measure(plan: Plan, engine: Engine, salt: Salt, source: Noise | None = None) -> Record:
    """Execute a priced and paid plan."""
    source = source or Noise()
    lowered = plan.lowered
    groups = [engine.execute(a, salt) if a.measures else {} for a in lowered.aggregates]
    cells = _cells(plan, groups[0])
    vectors = []
    for v, law in zip(lowered.vectors, plan.laws, strict=True):
        exact = np.array([groups[0].get(c, _zeros(plan))[v.measure] for c in cells], dtype=object)
        if lowered.query.linear is not None:
            exact = _combined(lowered.query.linear, exact)
        vectors.append(exact if law is None else add(exact, source.sample(law, exact.size)))
    if plan.threshold is not None:
        chosen = [i for i, n in enumerate(vectors[plan.threshold.vector]) if n >= plan.threshold.at]
        rest = _rest(plan, groups[0], {cells[i] for i in chosen}, source)
        cells = [cells[i] for i in chosen]
        vectors = [vector[chosen] for vector in vectors]
        if rest is not None:
            cells.append((lowered.query.other,))
            vectors = [np.append(v, x) for v, x in zip(vectors, rest, strict=True)]
    trees = [
        _tree(t, law, groups[t.aggregate], cells, source)
        for t, law in zip(lowered.trees, plan.tree_laws, strict=True)
    ]
    picks = [
        _pick(p, epsilon, groups[p.aggregate], cells, source)
        for p, epsilon in zip(lowered.picks, plan.pick_epsilons, strict=True)
    ]
    return _record(plan, cells, vectors, trees, picks)


def _combined(linear: Linear, counts: Ints) -> Ints:
    """Answers of linear queries, in exact integers."""
    answers = [
        sum(b * int(x) for b, x in zip(row, counts, strict=True) if b) for row in linear.rows
    ]
    return np.array([*answers, None], dtype=object)[:-1]


def _rest(
    plan: Plan, groups: Groups, chosen: set[tuple[Code, ...]], source: Noise
) -> list[int] | None:
    """Add up what no selected key holds, with noise of its own, if that was asked for."""
    if plan.lowered.query.other is None:
        return None
    totals = [0] * len(plan.laws)
    for cell, values in groups.items():
        if cell not in chosen:
            totals = [t + x for t, x in zip(totals, values, strict=True)]
    return [
        total if law is None else total + int(source.sample(law, 1)[0])
        for total, law in zip(totals, plan.laws, strict=True)
    ]


def add(exact: Ints, drawn: Ints) -> Ints:
    """Sum of exact integers and noise without overflow."""
    total: Ints = exact.astype(object) + np.asarray(drawn).astype(object)
    return total


def _zeros(plan: Plan) -> tuple[int, ...]:
    return (0,) * len(plan.lowered.aggregates[0].measures)


def _cells(plan: Plan, groups: Groups) -> Cells:
    keys = plan.lowered.query.keys
    if plan.threshold is None:
        count_cells(plan)
        return list(itertools.product(*(k.codes or () for k in keys)))
    # open keys: only what the data holds can be selected; sorted, so that the
    # engine's order says nothing
    return sorted(groups, key=lambda c: tuple(map(str, c)))


def _tree(tree: Tree, law: Any, groups: Groups, cells: Cells, source: Noise) -> ReleasedTree:
    exact = np.zeros((len(cells), tree.leaves), dtype=np.int64)
    for i, cell in enumerate(cells):
        for leaf in range(tree.leaves):
            found = groups.get((*cell, leaf))
            if found is not None:
                exact[i, leaf] = found[0]
    levels = []
    for depth in range(1, tree.levels + 1):
        width = tree.leaves // BRANCHING**depth
        counts = exact.reshape(len(cells), tree.leaves // width, width).sum(axis=2)
        noisy = add(counts, source.sample(law, counts.size).reshape(counts.shape))
        levels.append(tuple(tuple(int(x) for x in row) for row in noisy))
    return ReleasedTree(tuple(levels), law, BRANCHING, tree.lo, tree.width, tree.hi)


def _pick(
    pick: Pick, epsilon: Fraction, groups: Groups, cells: Cells, source: Noise
) -> tuple[tuple[object, ...], ...]:
    """Select the `top` most frequent labels of every cell, one exponential draw each.

    Scores are counts, each moved by a unit by at most ``linf``; drawing
    without replacement composes the draws.
    """
    chosen = []
    for cell in cells:
        left = list(range(len(pick.labels)))
        scores = [groups.get((*cell, code), (0,))[0] for code in left]
        picked: list[object] = []
        for _ in range(pick.top):
            best = source.choose([scores[i] for i in left], pick.sensitivity.linf, epsilon)
            picked.append(pick.labels[left.pop(best)])
        chosen.append(tuple(picked))
    return tuple(chosen)


def _seen_at(plan: Plan, vector: int) -> int | None:
    threshold = plan.threshold
    return threshold.at if threshold is not None and threshold.vector == vector else None


def _record(
    plan: Plan, cells: Cells, vectors: list[Ints], trees: list[ReleasedTree], picks: list[Any]
) -> Record:
    query = plan.lowered.query
    keys = {
        k.name: tuple(k.expr.type.value(cell[i]) for cell in cells)
        for i, k in enumerate(query.keys)
    }
    return Record(
        keys=keys if query.linear is None else {"query": query.linear.labels},
        vectors=tuple(
            ReleasedVector(
                tuple(int(x) for x in values), law, _seen_at(plan, i), query.other is not None
            )
            for i, (values, law) in enumerate(zip(vectors, plan.laws, strict=True))
        ),
        trees=tuple(trees),
        picks=tuple(picks),
        formulas=plan.lowered.formulas,
        outputs=query.outputs,
        having=query.having,
        order=query.order,
        limit=query.limit,
        cost={
            name: str(getattr(plan.cost, name)) for name in ("epsilon", "delta", "rho", "rho_delta")
        },
        statement={
            "plan": query.hash,
            "noise": plan.noise,
            "neighbours": query.neighbours.value,
            "unit": plan.lowered.aggregates[0].unit or "row",
        },
    )
