"""Outcomes as the ledger keeps them: the records of one debit, as JSON text."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Final

from discreet._canonical import canonical
from discreet._dataclass import replace
from discreet._text import visible
from discreet.answer import Record, read
from discreet.curator._road import Job, Road
from discreet.errors import Hint, LedgerIntegrityError, ParameterError
from discreet.plan import Cost, Plan, Query, private_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_LONGEST: Final = 2_000
"""Characters of a question in the history."""


def write(records: Sequence[Record]) -> str:
    """Write the records of one debit."""
    return json.dumps([r.to_dict() for r in records], separators=(",", ":"))


def restore(text: str, plans: Sequence[Plan]) -> list[Record]:
    """Read records back, with keys as the plans' types read them."""
    try:
        return [_typed(r, plan) for r, plan in zip(load(text), plans, strict=True)]
    except ValueError:
        raise _damaged() from None


def load(text: str) -> list[Record]:
    """Read records back, with keys as JSON has them."""
    try:
        return [read(data) for data in json.loads(text)]
    except (ParameterError, ValueError, TypeError):
        raise _damaged() from None


def _damaged() -> LedgerIntegrityError:
    return LedgerIntegrityError("the stored answer was edited or damaged", hint=Hint("fresh", True))


def typed(record: Record, kinds: Mapping[str, str]) -> Record:
    """Turn keys that are dates or instants from texts into what they are."""
    keys = dict(record.keys)
    for name, kind in kinds.items():
        if name in keys and kind in {"date", "timestamp"}:
            keys[name] = tuple(_moment(v, kind) for v in keys[name])
    return replace(record, keys=keys)


def _typed(record: Record, plan: Plan) -> Record:
    """Keys in their types, and what follows the noise as this question wants it."""
    query = plan.lowered.query
    kinds = {key.name: key.expr.type.kind.value for key in query.keys}
    own, any_ = statement(plan), _statement(plan)
    # of another question, with its statistics in another order, nothing stays
    rest = {name: x for name, x in record.statement.items() if name in own or name not in any_}
    if plan.lowered.labels is None:
        columns = zip(kinds, record.keys.values(), strict=True)
        record = replace(record, keys=dict(columns))
    return replace(
        typed(record, kinds),
        formulas=plan.lowered.formulas,
        outputs=plan.lowered.outputs,
        having=query.having,
        order=query.order,
        limit=query.limit,
        levels=query.levels,
        qualify=query.qualify,
        statement={**rest, **own},
    )


def statement(plan: Plan) -> dict[str, object]:
    """What a record says of the question itself: names and statistics are the present one's."""
    return {name: words for name, words in _statement(plan).items() if words is not None}


def _statement(plan: Plan) -> dict[str, object]:
    """All that may be said of a question; None where nothing is."""
    lowered = plan.lowered
    rounded = [list(x) if x else None for x in lowered.rounded]
    return {
        "rounded": rounded if any(rounded) else None,
        "shared_rows": lowered.shared_rows or None,
        "plan": lowered.query.hash,
        "target": plan.target,
        "cut": [*lowered.cut] or None,
        "rows_of_one_unit": list(map(list, lowered.rows_of_one_unit)),
        "values_of_one_row": [None if v is None else list(v) for v in lowered.values_of_one_row],
    }


def _moment(value: object, kind: str) -> object:
    if not isinstance(value, str):
        return value
    try:
        return (dt.date if kind == "date" else dt.datetime).fromisoformat(value)
    except ValueError:  # the label of the remaining groups
        return value


def describe_noise(plans: Sequence[Plan]) -> str:
    """Kind and exact parameters of everything that will be drawn, as canonical JSON."""
    noise = [[priced.to_dict() for priced in plan.parts] for plan in plans]
    return canonical(noise)


def job(plans: Sequence[Plan], cost: Cost, run: Callable[[], str]) -> Job:
    """What is paid and stored for plans together; `run` measures them."""
    queries = [plan.lowered.query for plan in plans]
    tables = [t for q in queries for t in private_tables(q.relation)]
    return Job(
        # found again by what was measured, whatever is done with it afterwards
        plan="+".join(plan.lowered.measured for plan in plans),
        cost=cost,
        noise=describe_noise(plans),
        neighbours="+".join(sorted({q.neighbours.value for q in queries})),
        unit="+".join(sorted({t.unit for t in tables if t.unit is not None})) or None,
        tables=tuple(sorted({t.name for t in tables})),
        run=run,
        text=_in_words(queries),
    )


def measured_plan(plan: Plan, road: Road) -> Plan:
    """Of a plan and what stands instead of it, the one whose answer is stored, if any.

    Who asks again gets the same numbers, also where groups would now be chosen first, or where
    another law now leaves more of the budget.
    """
    each: Plan | None = plan
    while each is not None and plan.instead is not None:
        each = replace(each, least=plan.least)
        if road.knows(job([each], each.cost, str)):
            return each
        each = each.instead
    return plan


def _in_words(queries: Sequence[Query]) -> str:
    """What is asked, on one line: read from the plan, so that it is what runs."""
    text = "; ".join(", ".join(map(str.strip, str(q).splitlines())) for q in queries)
    return visible(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")
