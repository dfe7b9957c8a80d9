"""Outcomes as the ledger keeps them: the records of one debit, as JSON text."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from discreet._canonical import canonical
from discreet.answer import Record, read
from discreet.errors import Hint, LedgerIntegrityError, ParameterError
from discreet.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Sequence


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


def _typed(record: Record, plan: Plan) -> Record:
    keys = dict(record.keys)
    for key in plan.lowered.query.keys:
        if key.name in keys and key.expr.type.kind.value in {"date", "timestamp"}:
            keys[key.name] = tuple(_moment(v, key.expr.type.kind.value) for v in keys[key.name])
    return replace(record, keys=keys)


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
