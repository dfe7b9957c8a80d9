"""Before the debit: every statement is proved, and what it limits covers what is declared.

The proof is read off the text that will run, by a package that knows neither plan
nor policy (:mod:`discreet.verify`). A sensitivity that rests on a limit which the
statement does not enforce is therefore refused here, whatever the plan believes. What follows
the noise is tried on made-up numbers (:mod:`discreet.answer`).
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from discreet.answer import rehearse
from discreet.engines import Engine
from discreet.errors import UnprovenStatementError, UnsupportedQueryError
from discreet.plan import Aggregate, Lowered, Merged, Sensitivity
from discreet.verify import Proof, Reading


def check_statements(engine: Engine, lowered: Lowered) -> None:
    """Refuse a question that could fail, or whose statements limit less than its parts declare."""
    rehearse(lowered)
    # each is asked for once: what a statement is remembered by takes long to compare
    places = {part.aggregate for part in lowered.parts if part.inputs}
    proofs = {i: engine.proof(lowered.aggregates[i]) for i in places}
    for part in lowered.parts:
        for measure, moves in part.inputs:
            check_statement(
                proofs[part.aggregate],
                lowered.aggregates[part.aggregate],
                measure,
                moves,
                groups=part.groups,
                degree=part.degree,
                kind=part.kind,
            )


def check_statement(
    proof: Proof | None,
    aggregate: Aggregate,
    measure: int,
    declared: Sensitivity,
    *,
    groups: int | None = None,
    degree: int | None = None,
    kind: str,
) -> None:
    """Refuse one statement that could fail or lets a unit move a measure by more than declared."""
    if proof is None:
        return
    reading = proof.columns[len(aggregate.keys) + measure]
    if not _covers(reading, aggregate, declared, groups, degree):
        raise UnprovenStatementError(
            "the statement does not limit what one unit contributes as far as it is priced",
            reason=f"{kind} declares {declared}",
        )


def _covers(
    reading: Reading,
    aggregate: Aggregate,
    declared: Sensitivity,
    groups: int | None,
    degree: int | None,
) -> bool:
    """Whether what is declared is at least what the text shows."""
    bounds = (declared.l1, declared.l2_squared, declared.linf)
    few = min(reading.groups, reading.rows, reading.cells)
    right = degree is None or reading.upto == degree
    return (
        right
        and reading.within(*bounds, aggregate.neighbours.value)
        and few <= (few if groups is None else groups)
    )


def answers(engine: Engine, merged: Merged, lowered: Iterable[Lowered]) -> bool:
    """Whether a merged statement is proved, and limits all that is read from it as declared."""
    try:
        proof = engine.proof(merged.whole)
    except (UnprovenStatementError, UnsupportedQueryError):
        return False
    if proof is None:
        return True
    views = {view.own: view for view in merged.views}
    first = len(merged.whole.keys)
    for each in lowered:
        for part in each.parts:
            own = each.aggregates[part.aggregate]
            view = views.get(own)
            for measure, moves in part.inputs if view is not None else ():
                assert view is not None
                reading = proof.columns[first + view.measures[measure]]
                if view.finer:
                    reading = reading.coarser(inf if view.cells is None else view.cells)
                if not _covers(reading, own, moves, part.groups, part.degree):
                    return False
    return True
