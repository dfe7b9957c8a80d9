"""Measuring: exact integers from the engine plus exact noise from the laws.

This is the only place where private integers exist in Python. They enter as the
engine's groups, get noise of the laws that the plan priced (and the ledger was
debited for), and leave as a record. Nothing else is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Final

from discreet import noise
from discreet._dataclass import replace
from discreet._recent import Recent
from discreet.answer import Record
from discreet.curator import _stored
from discreet.curator._proof import answers, check_statement
from discreet.engines import Engine
from discreet.errors import EngineError, UnprovenStatementError, UnsupportedQueryError
from discreet.plan import (
    Aggregate,
    Cells,
    Draw,
    Groups,
    Plan,
    Priced,
    Salt,
    SameRows,
    cells_of,
    merge,
)
from discreet.policy import Policy

_NAMES: Final[Recent[int, tuple[Policy, dict[str, object]]]] = Recent(16)
"""What records say of policies, by their places in memory; what is kept here keeps its place."""


def _names_of(policy: Policy) -> dict[str, object]:
    dummy = {"dummy": True} if policy.rehearses else {}
    return {"policy": policy.identity, "fingerprint": policy.fingerprint, **dummy}


def fresh_salt() -> Salt:
    """Return a secret salt for one question's contribution limits."""
    return Salt(noise.random_words(4).tobytes())


def measure(plan: Plan, engine: Engine, salt: Salt, draw: Draw | None = None) -> Record:
    """Execute a priced and paid plan."""
    aggregates = plan.lowered.aggregates
    groups = [engine.execute(a, salt) if a.measures else {} for a in aggregates]
    return _released(plan, groups, engine, salt, draw or Draw())


def _released(
    plan: Plan, groups: Sequence[Groups], engine: Engine, salt: Salt, draw: Draw
) -> Record:
    lowered, query = plan.lowered, plan.lowered.query
    if lowered.labels is not None:
        cells = Cells(())  # the rows of the answer are not its cells
    elif lowered.selector is None:
        cells = Cells(cells_of(query.keys))
    else:
        cells = _selected(plan.parts[lowered.selector], groups, engine, salt, draw)
    releases = [r for priced in plan.parts for r in priced.releases(groups, cells, draw)]
    keys: dict[str, tuple[object, ...]] = {
        k.name: tuple([k.expr.type.value(cell[i]) for cell in cells.keys])
        for i, k in enumerate(query.keys)
    }
    if cells.rest is not None:
        keys = {name: (*column, cells.rest) for name, column in keys.items()}
    return Record(
        keys=keys if lowered.labels is None else {"query": lowered.labels},
        parts=tuple(releases),
        formulas=lowered.formulas,
        outputs=lowered.outputs,
        having=query.having,
        order=query.order,
        limit=query.limit,
        levels=query.levels,
        qualify=query.qualify,
        cost=plan.cost.to_dict(),
        statement={
            **_stored.statement(plan),
            "noise": plan.noise,
            "neighbours": query.neighbours.value,
            "unit": lowered.aggregates[0].unit or "row",
            # public, and independent of everything: chances that readers must not toss twice
            "coin": noise.random_words(2).tobytes().hex(),
        },
    )


def _selected(
    priced: Priced, groups: Sequence[Groups], engine: Engine, salt: Salt, draw: Draw
) -> Cells:
    """Cells that a selection of keys lets out, in one round or two."""
    cells, part = priced.select(groups, draw), priced.part
    again = part.further(priced, cells)
    if again is None:
        return cells
    # its text depends on keys that are released by now, so it is proved here and not before
    try:
        check_statement(
            engine.proof(again), again, *part.reads,
            groups=part.groups, degree=part.degree, kind=part.kind,
        )  # fmt: skip
    except (UnprovenStatementError, UnsupportedQueryError):
        # the question is paid: forget nothing, which is what was proved and read before
        return part.select_further(priced, cells, groups[part.aggregate], draw)
    return part.select_further(priced, cells, engine.execute(again, salt), draw)


def measured(plans: Sequence[Plan], engine: Engine, policy: Policy) -> list[Record]:
    """Execute priced and paid plans; the records say under which policy.

    What several of them can read from one statement is asked for once. Only statements that
    are proved take part; the others run alone, as they were proved before the debit. All of them
    see one state of the tables (:func:`check_state`).
    """
    with engine.snapshot() if _several(plans) else nullcontext():
        return _measured(plans, engine, policy)


def check_state(plans: Sequence[Plan], engine: Engine) -> None:
    """Refuse, before the debit, what needs one state of the tables that the engine cannot hold.

    What a unit moves is bounded by all of it together: the dearest of disjoint questions, the norm
    of several vectors. A row that moved between two statements would count as two.
    """
    if not _several(plans):
        return
    if not hasattr(engine, "snapshot"):
        raise EngineError(
            f"{engine.name} cannot hold one state of its tables for several statements; "
            "nothing was charged",
            hint="give the engine a method `snapshot`, or ask one statistic at a time",
        )
    with engine.snapshot():
        pass


def check_alive(engine: Engine, unpaid: Callable[[], bool]) -> None:
    """Refuse, before the debit, what an engine can no longer answer and was not answered before."""
    if getattr(engine, "ended", False) and unpaid():  # a caller's own engine need not know
        raise EngineError(
            f"the {engine.name} session of this curator has ended, so nothing was charged",
            hint="open the tables anew",
        )


def _several(plans: Sequence[Plan]) -> bool:
    """Whether more than one statement may run; a second round of keys is never the only one."""
    return sum(bool(a.measures) for plan in plans for a in plan.lowered.aggregates) > 1


def _measured(plans: Sequence[Plan], engine: Engine, policy: Policy) -> list[Record]:
    groups_of: dict[Aggregate, Groups] = {}
    same, mark = _same(plans)
    aggregates = [a for plan in plans for a in plan.lowered.aggregates if a.measures]
    for merged in merge(aggregates) if len(plans) > 1 else ():
        if answers(engine, merged, [plan.lowered for plan in plans]):
            salt = same if _shares_rows(merged.whole) else fresh_salt()
            groups = engine.execute(merged.whole, salt)
            groups_of |= {view.own: view.of(groups) for view in merged.views}
    _, names = _NAMES(id(policy), lambda: (policy, _names_of(policy)))
    records = []
    for plan in plans:
        shares = _shares_rows(plan.lowered.aggregates[0])
        salt = same if shares else fresh_salt()
        own = [
            {}
            if not a.measures
            else groups_of[a]
            if groups_of and a in groups_of
            else engine.execute(a, salt)
            for a in plan.lowered.aggregates
        ]
        record = _released(plan, own, engine, salt, Draw())
        records.append(
            replace(record, statement={**record.statement, **names, **(mark if shares else {})})
        )
    return records


def _shares_rows(aggregate: Aggregate) -> bool:
    return any(isinstance(node, SameRows) for node in aggregate.relation.nodes)


def _same(plans: Sequence[Plan]) -> tuple[Salt, dict[str, object]]:
    """One salt for questions that are about the same rows, and what their records say of it.

    Limits hold under whatever salt; which rows one keeps is the salt's matter alone. The mark
    tells answers apart that were limited by other salts; it says nothing of this one.
    """
    if not any(_shares_rows(plan.lowered.aggregates[0]) for plan in plans):
        return Salt(b""), {}
    return fresh_salt(), {"rows_kept": noise.random_words(2).tobytes().hex()}
