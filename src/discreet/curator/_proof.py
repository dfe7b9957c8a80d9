"""Before the debit: every statement is proved, and what it limits covers what is declared.

The proof is read off the text that will run, by a package that knows neither plan
nor policy (:mod:`discreet.verify`). A sensitivity that rests on a limit which the
statement does not enforce is therefore refused here, whatever the plan believes.
"""

from __future__ import annotations

from discreet.engines import Engine
from discreet.errors import UnprovenStatementError
from discreet.plan import Aggregate, Lowered, Sensitivity
from discreet.verify import Proof


def check_statements(engine: Engine, lowered: Lowered) -> None:
    """Refuse a question whose statements could fail or limit less than its parts declare."""
    # each is asked for once: what a statement is remembered by takes long to compare
    used = {part.aggregate for part in lowered.parts if part.inputs}
    proofs = {i: engine.proof(lowered.aggregates[i]) for i in used}
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
    bounds = (declared.l1, declared.l2_squared, declared.linf)
    few = min(reading.groups, reading.rows, reading.cells)
    wrong = degree is not None and reading.upto != degree
    if wrong or not reading.within(*bounds, aggregate.neighbours.value) or few > (groups or few):
        raise UnprovenStatementError(
            "the statement does not limit what one unit contributes as far as it is priced",
            reason=f"{kind} declares {declared}",
        )
