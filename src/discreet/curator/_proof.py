"""Before the debit: every statement is proved, and what it limits covers what is declared.

The proof is read off the text that will run, by a package that knows neither plan
nor policy (:mod:`discreet.verify`). A sensitivity that rests on a limit which the
statement does not enforce is therefore refused here, whatever the plan believes.
"""

from __future__ import annotations

from discreet.engines import Engine
from discreet.errors import UnprovenStatementError
from discreet.plan import Lowered


def check_statements(engine: Engine, lowered: Lowered) -> None:
    """Refuse a question whose statements could fail or limit less than its parts declare."""
    for part in lowered.parts:
        aggregate = lowered.aggregates[part.aggregate]
        proof, (measure, declared) = engine.proof(aggregate), part.reads
        if proof is None:
            continue
        reading = proof.columns[len(aggregate.keys) + measure]
        bounds = (declared.l1, declared.l2_squared, declared.linf)
        few = min(reading.groups, reading.rows, reading.cells)
        if not reading.within(*bounds, aggregate.neighbours.value) or few > (part.groups or few):
            raise UnprovenStatementError(
                "the statement does not limit what one unit contributes as far as it is priced",
                reason=f"{part.kind} declares {declared}",
            )
