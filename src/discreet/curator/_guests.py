"""Jobs of other packages on a curator's road: who asks, the exact integers, and the way there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discreet.curator._proof import check_statement
from discreet.curator._release import fresh_salt
from discreet.curator._road import Job, Outcome
from discreet.plan import Aggregate, Groups, Lowered, Sensitivity

if TYPE_CHECKING:
    from discreet.curator._curator import Curator
    from discreet.frame import Table


def travel(
    curator: Curator, job: Job, aggregate: Aggregate, moves: Sensitivity, *, fresh: bool = False
) -> Outcome:
    """Send a job of another package down a curator's road, once its statement is proved.

    Its price rests on one unit moving the aggregate's first measure by no more than `moves`.
    """
    proof = curator._engine.proof(aggregate)  # noqa: SLF001 - same package
    check_statement(proof, aggregate, 0, moves, kind=job.plan.split(" ")[0])
    return curator._road.travel(job, fresh=fresh)  # noqa: SLF001 - same package


def lowered(curator: Curator, question: Table) -> Lowered:
    """Read a question of another package under the curator's own policy, and prove it."""
    return curator._lowered(curator._question(question).query)  # noqa: SLF001 - same package


def asker(curator: Curator) -> list[str | None]:
    """Under which policy, about which data and by whom a curator is asked."""
    return [*curator._names, curator._source, curator.analyst]  # noqa: SLF001 - same package


def execute(curator: Curator, aggregate: Aggregate) -> Groups:
    """Exact integers for a job that has been paid for."""
    return curator._engine.execute(aggregate, fresh_salt())  # noqa: SLF001 - same package
