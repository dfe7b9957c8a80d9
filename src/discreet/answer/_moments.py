"""Dates and instants among noisy numbers: days, or seconds, since 1970 on the way out.

Inside an answer they are numbers, so that boxes, tests and differences work on them.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from typing import Final

from discreet.plan import Apply, Formula, OutputExpr, StatisticValue

_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - timestamps are naive UTC throughout


def kind_of(out: OutputExpr, formulas: Sequence[Formula]) -> str:
    """Tell whether an output is a "date" or a "timestamp"; otherwise an empty text.

    CASE alone takes moments: other functions of outputs are for numbers.
    """
    match out:
        case StatisticValue(index):
            formula = formulas[index]
            return str(getattr(formula, "moment", ""))
        case Apply("case", (_, *outs)):
            kinds = {kind_of(o, formulas) for o in outs if o != Apply("null", ())}
            return kinds.pop() if len(kinds) == 1 else ""
    return ""


def moment(
    value: float, kind: str, whole: Callable[[float], int] = round
) -> dt.date | dt.datetime | None:
    """Date or instant of a number; None where there is none, or none that a calendar has.

    `whole` makes whole days and microseconds: low ends round down, high ends up.
    """
    if not math.isfinite(value):
        return None
    try:
        if kind == "date":
            return _EPOCH.date() + dt.timedelta(days=whole(value))
        seconds = math.floor(value)
        return _EPOCH + dt.timedelta(
            seconds=seconds, microseconds=whole((value - seconds) * 1_000_000)
        )
    except OverflowError:
        return None


def ends(low: float, high: float, kind: str) -> tuple[dt.date | None, dt.date | None]:
    """Both ends of an interval, rounded outwards."""
    return moment(low, kind, math.floor), moment(high, kind, math.ceil)
