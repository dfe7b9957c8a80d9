"""Streams over a curator's table: each tick travels the one road, once.

Guarantee: that of :mod:`._stream` for one row of the table, under the policy's relation. The
integers of tick t are computed from the table as it is then: Σ ĉ_{t−s}·x_s over the rows of all
ticks so far, or sums of closed nodes. A row of tick s that arrives late enters only the later
ones, which leaves out entries of its column of Ĉ and so lowers its norm. Rows must not be
given another date afterwards.

Where several rows belong to one person, their number is limited by chance, question by question;
which rows are kept changes from tick to tick, and a person may enter every tick with a new row.
No column bounds that, so such a table needs a stream that protects whole persons (``anew=True``),
whose `bound` is what the policy's limits leave to one of them: the plan's own L1 sensitivity, in
steps, of all ticks together, which bounds every prefix sum. The debit is then one of the policy's
unit, as that of any question; a stream per person and tick would promise less than the ledger.

The price of the whole stream is debited with its first tick; further ticks cost the policy's
least price, because nothing is free.

*Claim.* What is released under one name costs no more than its first tick has paid, in the
period in which it was paid. *Proof.* The name holds the terms of the stream, the question, the
policy, the data and the analyst. The ledger releases what has a tick's name at most once in a
period (``once``), whatever it costs by then: a stored tick is given again, and one that was
killed is finished under its own debit. It debits a later tick only if the first one of that
name was answered in the same period (``paid_by``), and no line was lost since: lost ticks may
have been seen. So each tick has one set of integers, which is what the price is for. In a new
period, or after an older backup, the stream is a new one, with a price of its own. ∎
The ledger holds released integers alone: the counts are read from the table.
"""

from __future__ import annotations

import datetime as dt
import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from discreet import _canonical, frame
from discreet import privacy as p
from discreet._exact import Number
from discreet.curator import Job, asker, execute, travel
from discreet.errors import Hint, LedgerIntegrityError, ParameterError
from discreet.mechanisms import Interval
from discreet.plan import (
    Aggregate,
    Cost,
    Kind,
    Sensitivity,
    Total,
    charge,
    digest,
    private_tables,
)
from discreet.privacy import Neighbours
from discreet.release._stream import Stream

if TYPE_CHECKING:
    from discreet.curator import Curator

_DAYS: Final = {"day": 1, "week": 7}
_FREE: Final = Cost(Fraction(0), Fraction(0), Fraction(0), Fraction(0))
_EPOCH: Final = dt.date(1970, 1, 1)


class Feed:
    """A stream that follows a table; made by :meth:`Stream.follow`."""

    def __init__(
        self,
        stream: Stream,
        curator: Curator,
        aggregate: Aggregate,
        *,
        first: int,
        width: int,
        step: Fraction,
        moves: Sensitivity,
    ) -> None:
        self._stream = stream
        self._curator, self._aggregate, self._moves = curator, aggregate, moves
        self._first, self._width, self._step = first, width, float(step)
        self._private = private_tables(aggregate.relation)
        self._table = self._private[0].name
        entries = curator.ledger.entries
        terms = {
            **stream.terms(), "aggregate": digest(aggregate), "first": first, "width": width,
            "asked": asker(curator), "since": _since(curator),
        }  # fmt: skip
        self._name = f"stream {_canonical.digest(_canonical.canonical(terms))}"
        ticks = [
            int(entry.plan.rsplit(" ", 1)[1])
            for entry in entries
            if entry.once and entry.plan.startswith(f"{self._name} tick ")
        ]
        # what was paid for before is there again, for nothing
        for _ in range(max(ticks, default=-1) + 1):
            self.tick()

    @property
    def now(self) -> int:
        """Number of ticks so far."""
        return self._stream.now

    @property
    def total(self) -> float:
        """The estimated sum so far."""
        return self._stream.total * self._step

    def tick(self) -> float:
        """Release the next tick and return the estimated sum so far."""
        t, stream = self.now, self._stream
        if t >= stream.horizon:
            raise ParameterError(
                f"the price covers {stream.horizon} ticks and they are over",
                hint="open a new stream, with a price of its own",
            )

        def run() -> str:
            exact = stream.exact(self._history(t))
            noisy = stream.law.sample(len(exact)) + np.array(exact, dtype=object)
            return json.dumps({"tick": t, "released": [int(v) for v in noisy.tolist()]})

        job = Job(
            plan=f"{self._name} tick {t}",
            cost=self._cost() if t == 0 else _FREE,
            noise=json.dumps(stream.law.to_dict(), sort_keys=True),
            neighbours=str(stream.neighbours),
            unit=self._private[0].unit,
            tables=tuple(table.name for table in self._private),
            run=run,
            once=True,
            paid_by=f"{self._name} tick 0" if t else None,
        )
        stored = json.loads(travel(self._curator, job, self._aggregate, self._moves).text)
        if stored.get("tick") != t:
            raise LedgerIntegrityError("the stored tick was edited or damaged")
        stream.accept(np.array(stored["released"], dtype=object))
        return self.total

    def until(self, when: Any) -> float:
        """Release every tick that has ended before this day (or number), the missed ones too."""
        last = (_code(when) - self._first) // self._width
        while self.now < min(last, self._stream.horizon):
            self.tick()
        return self.total

    def interval(self, confidence: Number = 0.95) -> Interval:
        """Return an interval for the sum so far; see :meth:`Stream.interval`."""
        found = self._stream.interval(confidence)
        return Interval(found.low * self._step, found.high * self._step, found.confidence)

    def record(self) -> dict[str, Any]:
        """Return what was released, and the public parameters."""
        return self._stream.record()

    def _history(self, t: int) -> list[int]:
        """Counts of the ticks up to and with t. PRIVATE."""
        counts = [0] * (t + 1)
        for (code,), (value, *_) in execute(self._curator, self._aggregate).items():
            assert isinstance(code, int)
            at = (code - self._first) // self._width
            if 0 <= at <= t:
                counts[at] += value
        return counts

    def _cost(self) -> Cost:
        price, loss = self._stream.price, self._stream.loss
        if price.pure:
            return charge([loss])
        if price.epsilon is not None and price.delta is not None:
            return charge([loss], (price.epsilon, price.delta))
        delta = Fraction(1, 10**6)
        return charge([loss], (Fraction(p.Zcdp(price.total).epsilon(delta)), delta))

    def __repr__(self) -> str:
        return f"Feed({self._table}, {self._stream!r})"


def follow(
    stream: Stream,
    curator: Curator,
    table: str,
    column: str,
    *,
    start: Any,
    value: str | None,
    where: str | None,
) -> Feed:
    """Follow a table; see :meth:`Stream.follow`."""
    held = curator.policy.table(table)
    if type(stream) is not Stream:
        raise ParameterError("follow is asked of a stream", hint=Hint("horizon", 365))
    begun, stream = stream.now, stream.fresh()
    if held.unit is not None and not stream.anew:
        raise ParameterError(
            f"rows of {table!r} belong to units that may have several: which of them are kept "
            "changes from tick to tick",
            hint=Hint("anew", True),
        )
    if begun or stream.ticks != 1 or stream.neighbours is not held.neighbours:
        raise ParameterError(
            "a stream that follows a table starts fresh, with one tick for each row and the "
            "policy's relation",
            hint=Hint("neighbours", str(held.neighbours)),
        )
    rows = curator.table(held.name)
    rows = rows if where is None else rows.where(where)
    what = frame.count() if value is None else frame.sum(value)
    lowered = curator.preview(rows.group_by(tick=column).agg(n=what), epsilon=1).plan.lowered
    (main,), (part, *more) = lowered.aggregates[:1], lowered.parts
    kind = main.keys[0].expr.type.kind
    if more or kind not in (Kind.DATE, Kind.NUMBER) or main.keys[0].codes is None:
        raise ParameterError(
            f"{column!r} must be a date or a whole number, and a sum of plain values",
            hint="a date column",
        )
    if kind is Kind.DATE and stream.every not in _DAYS:
        raise ParameterError(
            f"ticks of dates are days or weeks, not {stream.every}s", hint=Hint("every", "day")
        )
    sides = 2 if stream.neighbours is Neighbours.CHANGE_ONE else 1
    if part.sensitivity.l1 > sides * stream.bound:
        most = -(-part.sensitivity.l1 // sides)
        raise ParameterError(
            f"one {'unit' if held.unit else 'row'} may add {most} steps to a sum, but the stream "
            f"allows for {stream.bound} only",
            hint=Hint("bound", most),
        )
    width = _DAYS[stream.every] if kind is Kind.DATE else 1
    formula = lowered.formulas[0]
    assert isinstance(formula, Total)
    return Feed(
        stream,
        curator,
        main,
        first=_code(start),
        width=width,
        step=formula.step,
        moves=part.sensitivity,
    )


def _code(when: Any) -> int:
    """Place of a day or a number on the axis of ticks."""
    if isinstance(when, int) and not isinstance(when, bool):
        return when
    try:
        day = when if isinstance(when, dt.date) else dt.date.fromisoformat(when)
    except (TypeError, ValueError):
        raise ParameterError("a tick is a day or a whole number", hint='"2026-01-01"') from None
    return (day - _EPOCH).days


def _since(curator: Curator) -> list[int]:
    """Period of the ledger, and how often lines of it were lost: there a stream begins anew."""
    state = getattr(curator.ledger, "state", None)  # a caller's own ledger may have none
    return [0, 0] if state is None else [state.period, state.lost]
