"""Streams over a curator's table: each tick travels the one road, once.

Guarantee: that of :mod:`._stream` for one row of the table, under the policy's relation. The
integers of tick t are computed from the table as it is then: Σ ĉ_{t−s}·x_s over the rows of all
ticks so far, or sums of closed nodes. A row of tick s that arrives late enters only the later
ones, which leaves out entries of its column of Ĉ and so lowers its norm. Rows must not be
given another date afterwards: a row that moved would be in two columns. So the tick is a date of
the table itself, or a column of which the owner has said that rows keep it (``fixed``).

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
killed is finished under its own debit. That a run failed is an outcome too, and is stored; one
more run of that tick has another name, and pays the whole price once more. The ledger debits a
later tick only if the first one of that name was settled with an outcome in the same period
(``paid_by``), and no line was lost since: lost ticks may have been seen. So each tick has one
outcome, integers or a failure, for each price that was paid. In a new period, or after an older
backup, the stream is a new one, with a price of its own. ∎
The ledger holds released integers alone: the counts are read from the table.
"""

from __future__ import annotations

import datetime as dt
import json
import secrets
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from discreet import _canonical, frame
from discreet import privacy as p
from discreet._exact import Number
from discreet._text import plain_str, quote, quoted
from discreet.curator import Job, asker, execute, lowered, travel
from discreet.errors import EngineError, Hint, LedgerIntegrityError, ParameterError
from discreet.mechanisms import Interval
from discreet.plan import (
    Aggregate,
    Cost,
    Kind,
    Lowered,
    Sensitivity,
    Total,
    charge,
    digest,
    private_tables,
)
from discreet.policy import Date, Table, Timestamp
from discreet.release._counts import apart
from discreet.release._stream import Stream

if TYPE_CHECKING:
    from discreet.curator import Curator

_DAYS: Final = {"day": 1, "week": 7}
_FREE: Final = Cost(Fraction(0), Fraction(0), Fraction(0), Fraction(0))
_EPOCH: Final = dt.date(1970, 1, 1).toordinal()


class Feed:
    """A stream that follows a table; see :meth:`Stream.follow`.

    Whatever a caller holds, the stream is made anew from its terms, and the statement, its
    sensitivity and its steps are read off the curator's own policy.
    """

    def __init__(
        self,
        stream: Stream,
        curator: Curator,
        table: str,
        column: str,
        *,
        start: Any,
        value: str | None = None,
        where: str | None = None,
    ) -> None:
        entry = curator.policy.table(plain_str(table, "table"))
        self._stream = stream = _fresh(stream, entry)
        name = _tick(entry, plain_str(column, "column"))
        rows = curator.table(entry.name)
        rows = rows if where is None else rows.where(where)
        what = frame.count() if value is None else frame.sum(value)
        question = lowered(curator, rows.group_by(tick=name).agg(n=what))
        self._aggregate, self._moves, step = _bounded(question, stream, entry, column)
        dates = self._aggregate.keys[0].expr.type.kind is Kind.DATE
        self._width = _DAYS[stream.every] if dates else 1
        self._curator, self._first, self._step = curator, _code(start), float(step)
        self._private = private_tables(self._aggregate.relation)
        terms = {
            **stream.terms(), "aggregate": digest(self._aggregate), "first": self._first,
            "width": self._width, "asked": asker(curator), "since": _since(curator),
        }  # fmt: skip
        self._name = f"stream {_canonical.digest(_canonical.canonical(terms))}"
        ticks = [
            int(plan.removeprefix(f"{self._name} tick ").split(" ")[0]) for plan in self._debits()
        ]
        # what was paid for before is there again, for nothing
        for _ in range(max(ticks, default=-1) + 1):
            if not self._next():
                break

    @property
    def now(self) -> int:
        """Number of ticks so far."""
        return self._stream.now

    @property
    def total(self) -> float:
        """The estimated sum so far."""
        return self._stream.total * self._step

    def tick(self, *, again: bool = False) -> float:
        """Release the next tick and return the estimated sum so far.

        Parameters
        ----------
        again
            Run a tick once more that has failed, and pay the stream's price once more.
        """
        if self.now >= self._stream.horizon:
            raise ParameterError(
                f"the price covers {self._stream.horizon} ticks and they are over",
                hint="open a new stream, with a price of its own",
            )
        if not self._next(again=again):
            raise EngineError(
                f"tick {self.now} has failed, which is its outcome; to run once more costs the "
                "price of the stream once more",
                hint=Hint("again", True),
            )
        return self.total

    def _next(self, *, again: bool = False) -> bool:
        """Take the next tick's integers; tell whether there are any: all its runs may have failed.

        A run that failed is stored as such. Each further one has a name and a whole price.
        """
        t, tries = self.now, 0
        while True:
            job = self._job(t, tries)
            if tries and job.plan not in self._debits():
                if not again:
                    return False
                again = False
            record = json.loads(travel(self._curator, job, self._aggregate, self._moves).text)
            if record.get("tick") != t:
                raise LedgerIntegrityError("the stored tick was edited or damaged")
            if record.get("failed") is not True:
                self._stream.accept(np.array(record["released"], dtype=object))
                return True
            tries += 1

    def _debits(self) -> set[str]:
        """Names of the debits of this stream."""
        return {
            entry.plan
            for entry in self._curator.ledger.entries
            if entry.once and entry.plan.startswith(f"{self._name} tick ")
        }

    def _job(self, t: int, tries: int) -> Job:
        stream = self._stream

        def run() -> str:
            exact = stream.exact(self._history(t))
            noisy = stream.law.sample(len(exact)) + np.array(exact, dtype=object)
            return json.dumps({"tick": t, "released": [int(v) for v in noisy.tolist()]})

        return Job(
            plan=f"{self._name} tick {t}" + (f" again {tries}" if tries else ""),
            cost=_FREE if t and not tries else self._cost(),
            noise=json.dumps(stream.law.to_dict(), sort_keys=True),
            neighbours=str(stream.neighbours),
            unit=self._private[0].unit,
            tables=tuple(table.name for table in self._private),
            run=run,
            once=True,
            paid_by=f"{self._name} tick 0" if t else None,
            failed=json.dumps({"tick": t, "failed": True, "run": secrets.token_hex(8)}),
        )

    def until(self, when: Any) -> float:
        """Release every tick that has ended before this day (or number), the missed ones too."""
        last = (_code(when) - self._first) // self._width
        while self.now < min(last, self._stream.horizon):
            self.tick()
        return self.total

    def interval(self, confidence: Number = 0.95) -> Interval:
        """Return an interval for the sum so far; see :meth:`Stream.interval`."""
        band = self._stream.interval(confidence)
        return Interval(band.low * self._step, band.high * self._step, band.confidence)

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
        return f"Feed({self._private[0].name}, {self._stream!r})"


def _fresh(original: Stream, entry: Table) -> Stream:
    """Make a stream anew from its terms, if they fit the table."""
    if type(original) is not Stream:
        raise ParameterError("follow is asked of a stream", hint=Hint("horizon", 365))
    # asked of the class: an object may hold a function of the same name
    start, stream = original.now, Stream.fresh(original)
    if entry.unit is not None and not stream.anew:
        raise ParameterError(
            f"rows of {entry.name!r} belong to units that may have several: which of them are kept "
            "changes from tick to tick",
            hint=Hint("anew", True),
        )
    if start or stream.ticks != 1 or stream.neighbours is not entry.neighbours:
        raise ParameterError(
            "a stream that follows a table starts fresh, with one tick for each row and the "
            "policy's relation",
            hint=Hint("neighbours", str(entry.neighbours)),
        )
    return stream


def _tick(entry: Table, name: str) -> str:
    """Spell the column of the ticks; refuse one that rows may have another value of tomorrow."""
    column = entry.columns.get(name)
    if column is None or not (isinstance(column, Date | Timestamp) or name in entry.fixed):
        raise ParameterError(
            f"{quote(name[:60])} cannot say at which tick a row of {entry.name!r} counts: a row "
            "that moved would count at two ticks, and be paid for once. A tick is a date of that "
            "table, by its name, or a column of which the owner says that no row is ever given "
            "another value",
            hint="a date column"
            if column is None
            else f'fixed = ["{name}"] under [tables.{entry.name}] of the policy',
        )
    return f"CAST({quoted(name)} AS DATE)" if isinstance(column, Timestamp) else quoted(name)


def _bounded(
    question: Lowered, stream: Stream, entry: Table, column: str
) -> tuple[Aggregate, Sensitivity, Fraction]:
    """Return what is counted, how far one unit moves it, and its step; refuse what is unbounded."""
    main, (part, *more), formula = question.aggregates[0], question.parts, question.formulas[0]
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
    if part.sensitivity.l1 > apart(stream.neighbours) * stream.bound:
        most = -(-part.sensitivity.l1 // apart(stream.neighbours))
        raise ParameterError(
            f"one {'unit' if entry.unit else 'row'} may add {most} steps to a sum, but the stream "
            f"allows for {stream.bound} only",
            hint=Hint("bound", most),
        )
    assert isinstance(formula, Total)
    return main, part.sensitivity, formula.step


def _code(when: Any) -> int:
    """Place of a day or a number on the axis of ticks: a plain number, which meets private ones."""
    if isinstance(when, int) and not isinstance(when, bool):
        return int.__index__(when)
    try:
        day = when if isinstance(when, dt.date) else dt.date.fromisoformat(plain_str(when))
    except (ParameterError, ValueError):
        raise ParameterError("a tick is a day or a whole number", hint='"2026-01-01"') from None
    return dt.date.toordinal(day) - _EPOCH


def _since(curator: Curator) -> list[int]:
    """Period of the ledger, and how often lines of it were lost: there a stream begins anew."""
    state = getattr(curator.ledger, "state", None)  # a caller's own ledger may have none
    return [0, 0] if state is None else [state.period, state.lost]
