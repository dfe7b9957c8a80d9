"""The counter: price, debit and settlement as steps of their own.

A curator answers a question in one call. A service that prices in one process, runs in
another and settles later takes the same steps one by one: :meth:`Counter.bill`,
:meth:`Counter.pay`, a run elsewhere (:func:`run_bill`), :meth:`Counter.settle`; or it pays and
settles for many at once (:meth:`Counter.post`). The road is the curator's own
(:mod:`discreet.curator._road`), so is the order of its steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from discreet import engines
from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet._text import plain_str
from discreet.answer import Answer
from discreet.curator import _stored, _united
from discreet.curator._batch import Batch
from discreet.curator._budget import Budget
from discreet.curator._curator import Curator
from discreet.curator._quote import Quote
from discreet.curator._release import measured
from discreet.curator._road import Claim, Job, Outcome, Paid, leave, released
from discreet.curator._room import what_fits
from discreet.errors import BudgetExceededError, DiscreetError, EngineError, ParameterError
from discreet.ledger import ChainedLedger, Ledger, Receipt, refuses
from discreet.plan import AT_ONCE, Aggregate, Ask, Cost, Plan, check_together, counted
from discreet.sql import United

if TYPE_CHECKING:
    from discreet import policy as pol

T = TypeVar("T")


@dataclass(frozen=True)
class Bill:
    """Questions with their prices, to be paid for together."""

    plans: tuple[Plan, ...]
    cost: Cost
    offer: Ask | None = None
    united: United | None = None
    """Where the plans are branches of one question."""

    def __reduce__(self) -> tuple[object, ...]:
        # without the job, which whoever runs it has no use for
        return Bill, (self.plans, self.cost, self.offer, self.united)

    @cached_property
    def job(self) -> Job:
        """What the ledger enters for it; it runs elsewhere."""
        return _stored.job(self.plans, self.cost, _elsewhere)

    def shown(self, answers: list[Answer]) -> list[Answer]:
        """Give the answers as they were asked for: branches below each other."""
        if self.united is None:
            return answers
        return [_united.below(self.united, answers, self.cost)]


@dataclass(frozen=True)
class Proved:
    """Statements of a bill, and the mark of the description of tables that they are proved by."""

    mark: str
    statements: tuple[str, ...]


class Counter:
    """Prices, debits and settles under one curator's policy, for analysts by name."""

    def __init__(self, curator: Curator) -> None:
        self._curator = curator

    @property
    def policy(self) -> pol.Policy:
        """The curator's policy."""
        return self._curator.policy

    @property
    def ledger(self) -> Ledger:
        """The ledger that is debited."""
        return self._curator.ledger

    def bill(self, query: str, analyst: str, *, fresh: bool = False, **offer: Any) -> Bill:
        """Read and price one question; the parameters are those of :meth:`Curator.preview`."""
        own = self._for(analyst)
        parsed, ask = own._offered(query, **offer)  # noqa: SLF001 - same package
        if isinstance(parsed, United):
            plans, cost = _united.plans(own, parsed, ask)
            return Bill(tuple(plans), cost, united=parsed)
        plan = own._plan(parsed.query, ask, fresh=fresh)  # noqa: SLF001 - as above
        return Bill((plan,), own._road.owed(plan.cost), ask)  # noqa: SLF001 - as above

    def quote(self, query: str, analyst: str, **offer: Any) -> Quote:
        """Price a question for one analyst, without touching data or budget."""
        return self._for(analyst).preview(query, **offer)

    def statements(self, bill: Bill) -> tuple[str, ...]:
        """Give what an engine would run for a bill, with placeholders for the salt."""
        engine = self._curator._engine  # noqa: SLF001 - same package
        return tuple([engine.sql(aggregate) for aggregate in _measuring(bill.plans)])

    def proved(self, bill: Bill) -> Proved:
        """Give the statements of a bill to whoever runs it; they were proved when it was made."""
        engine = self._curator._engine  # noqa: SLF001 - same package
        return Proved(getattr(engine, "mark", ""), self.statements(bill))

    def left(self, analyst: str) -> str:
        """Say what is left for one analyst, every currency once."""
        return self._for(analyst)._balance_words()  # noqa: SLF001 - same package

    def batch(
        self,
        questions: Sequence[Mapping[str, Any]],
        analyst: str,
        epsilon: Number | None,
        delta: Number | None,
        *,
        nulls: bool = False,
    ) -> Bill:
        """Price several questions, each with its weight or its margins, as one batch."""
        batch = Batch(self._for(analyst), epsilon, delta, nulls=nulls)
        with counted(AT_ONCE):
            for question in questions:
                how = dict(question)
                batch.sql(how.pop("sql"), **how)
                check_together(batch._weights)  # noqa: SLF001 - same package
        plans, cost = batch.priced()
        return Bill(tuple(plans), cost)

    def budget(self, analyst: str) -> Budget:
        """Spent and left, for the table and for one analyst."""
        return self._for(analyst).budget

    def pay(self, bill: Bill, analyst: str, *, key: str | None, fresh: bool = False) -> Paid:
        """Debit a bill, or find what it has been paid for; see :meth:`Road.pay`."""
        claim = self.claim(bill, analyst, key=key, fresh=fresh)
        return _given(self.post([], [(bill, claim)])[1][0])

    def claim(self, bill: Bill, analyst: str, *, key: str | None, fresh: bool = False) -> Claim:
        """Give what :meth:`post` is to debit for a bill."""
        name = None if key is None else plain_str(key, "key")
        road = self._for(analyst)._road  # noqa: SLF001 - as above
        return road.claim(bill.job, key=name, fresh=fresh)

    def post(
        self, runs: Sequence[tuple[Paid, str | None]], claims: Sequence[tuple[Bill, Claim]]
    ) -> tuple[list[Outcome | DiscreetError], list[Paid | DiscreetError]]:
        """Settle runs and debit claims together; each gets its own, or its own refusal."""
        ledger = self.ledger
        assert isinstance(ledger, ChainedLedger)
        try:
            texts = [(purchase.receipt, text) for purchase, text in runs]
            stored, receipts = ledger.post(texts, [claim.entry for _, claim in claims])
        except BaseException as error:
            for _, claim in claims:
                claim.refused(error)
            raise
        finally:
            for purchase, _ in runs:
                leave(purchase)
        outcomes = [_or_refusal(partial(_released, text, outcome))
                    for (_, text), outcome in zip(runs, stored, strict=True)]  # fmt: skip
        paid = [_or_refusal(partial(self._paid, bill, claim, receipt))
                for (bill, claim), receipt in zip(claims, receipts, strict=True)]  # fmt: skip
        return outcomes, paid

    def _paid(self, bill: Bill, claim: Claim, receipt: Receipt | DiscreetError) -> Paid:
        if not isinstance(receipt, DiscreetError):
            return claim.paid(receipt)
        claim.refused(receipt)
        if isinstance(receipt, BudgetExceededError):
            raise _hinted(self._for(claim.entry.analyst), bill, receipt)
        raise receipt

    def refused(
        self, bill: Bill, analyst: str, waiting: Sequence[tuple[str, Cost]] = ()
    ) -> DiscreetError | None:
        """Say what paying a bill would be refused with now; None: it would be debited.

        With `waiting`, what these analysts wait to pay counts as paid.
        """
        own, ledger = self._for(analyst), self.ledger
        assert isinstance(ledger, ChainedLedger)
        error = refuses(ledger.state, own._road.entry(bill.job), waiting)  # noqa: SLF001 - as above
        return _hinted(own, bill, error) if isinstance(error, BudgetExceededError) else error

    def stored(self, bill: Bill, analyst: str, *, key: str | None) -> Paid | None:
        """Give the answer that an equal question has, without writing anything."""
        own = self._for(analyst)
        return own._road.find(bill.job, key=key)  # noqa: SLF001 - as above

    def shaped(self, text: str, bill: Bill) -> str:
        """Write a stored outcome as a question wants it that measures the same."""
        return _stored.write(_stored.restore(text, bill.plans))

    def meter(self, purchase: Paid) -> None:
        """Debit the least price for one more run under a debit; see :meth:`Road.meter`."""
        self._for(purchase.entry.analyst)._road.meter(purchase)  # noqa: SLF001 - same package

    def settle(self, purchase: Paid, text: str | None) -> Outcome:
        """Store the outcome of a run (None: it failed); give what is stored."""
        return _given(self.post([(purchase, text)], [])[0][0])

    def _for(self, analyst: str | None) -> Curator:
        """Give the same curator on behalf of somebody."""
        if not analyst:
            raise ParameterError("a service debits people that it knows by name")
        own = copy(self._curator)
        own._analyst = analyst  # noqa: SLF001 - same package
        return own


def _measuring(plans: Sequence[Plan]) -> list[Aggregate]:
    return [a for plan in plans for a in plan.lowered.aggregates if a.measures]


def run_bill(
    plans: Sequence[Plan],
    engine: engines.Engine,
    policy: pol.Policy,
    statements: Sequence[str] | None = None,
) -> str:
    """Run what is paid for; give the outcome as it is stored. Where the data are.

    `statements` are those of :class:`Proved`, where its mark is that of the tables here. Without
    them they are written and proved here.
    """
    if isinstance(engine, engines.Statements):
        wanted = () if statements is None else _measuring(plans)
        engine.take(zip(wanted, statements or (), strict=True))
    return _stored.write(measured(plans, engine, policy))


def read_outcome(
    text: str, *, kinds: Sequence[Mapping[str, str]] = (), **terms: Any
) -> list[Answer]:
    """Read a stored outcome; without the `kinds` of its keys, dates stay the texts of JSON."""
    records = _stored.load(text)
    types = [*kinds, *[{}] * (len(records) - len(kinds))]
    return [
        Answer(_stored.typed(record, kind), **terms)
        for record, kind in zip(records, types, strict=True)
    ]


def _released(text: str | None, outcome: str | DiscreetError | None) -> Outcome:
    return released(text, _given(outcome))


def _given(result: T | DiscreetError) -> T:
    if isinstance(result, DiscreetError):
        raise result
    return result


def _or_refusal(work: Callable[[], T]) -> T | DiscreetError:
    """Give what some work gives, or its refusal."""
    try:
        return work()
    except DiscreetError as refusal:
        return refusal


def _hinted(own: Curator, bill: Bill, refused: BudgetExceededError) -> BudgetExceededError:
    """Let a refusal say what would fit."""
    if bill.offer is None:
        return refused
    return refused.with_hint(what_fits(own._balances, bill.plans[0], bill.offer, refused))  # noqa: SLF001 - same package


def _elsewhere() -> str:
    raise EngineError("what is paid for here runs elsewhere")
