"""The curator: policy → query → plan → ledger → engine → noise → answer."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self, cast

from discreet import _exact, engines, noise
from discreet import policy as pol
from discreet import sql as front
from discreet._exact import Number, floor_decimal
from discreet.answer import Answer, Record
from discreet.curator import _stored
from discreet.curator._batch import Batch
from discreet.curator._budget import Budget, describe_balance
from discreet.curator._linear import linear_query
from discreet.curator._offer import Offer
from discreet.curator._own import check_own
from discreet.curator._quote import Quote
from discreet.curator._release import count_cells, fresh_salt, measure
from discreet.engines._protocol import sealed
from discreet.errors import BudgetExceededError, DiscreetError, EngineError
from discreet.ledger import Balance, Entry, Ledger
from discreet.plan import Cost, Plan, Query, Scan, lower, price, private_tables

if TYPE_CHECKING:
    from discreet import frame
    from discreet.inference import ErrorEstimate
    from discreet.sql import Parsed


class Curator:
    """Holds private tables and answers questions about them within a budget.

    Made by :func:`discreet.open`. Safe to use from several threads.

    Attributes
    ----------
    policy
        What is public and how much may be lost.
    ledger
        Every debit so far.
    analyst
        Who asks; decides which share of the budget is charged.
    """

    def __init__(
        self,
        policy: pol.Policy,
        engine: engines.Engine,
        ledger: Ledger,
        analyst: str | None = None,
        source: str | None = None,
    ) -> None:
        self.policy = policy
        self.ledger = ledger
        self.analyst = analyst
        self._engine = engine
        # without a lasting label of the data, answers are reused by this handle alone
        self._source = uuid.uuid4().hex if source is None else source

    # -- asking -------------------------------------------------------------------

    def sql(
        self,
        query: str,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
        within: Mapping[str, Number] | None = None,
        confidence: Number = 0.95,
        key: str | None = None,
        fresh: bool = False,
    ) -> Answer:
        """Answer a SQL query.

        Parameters
        ----------
        query
            One SELECT over the policy's tables.
        epsilon, delta, rho
            What the whole query may cost: ε (with δ where keys are selected or
            Gaussian noise is welcome), or ρ.
        within, confidence
            Instead: margins per output column that must hold at this
            confidence; the least cost that meets them is charged.
        key
            Your own name for this request. Asking again with the same key never
            pays twice: it gives the stored answer, or finishes a run that was killed.
        fresh
            Pay for new noise even if the same question at the same cost has been
            answered; otherwise that answer is given again for free.
        """
        parsed = self.parse(query)
        offer = Offer(epsilon, delta, rho, within, confidence).merged(parsed)
        return self._ask(parsed.query, offer, key=key, fresh=fresh)

    def preview(
        self,
        query: str | Query,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
        within: Mapping[str, Number] | None = None,
        confidence: Number = 0.95,
    ) -> Quote:
        """Price a query without touching data or budget."""
        offer = Offer(epsilon, delta, rho, within, confidence)
        if isinstance(query, str):
            parsed = self.parse(query)
            offer, question = offer.merged(parsed), parsed.query
        else:
            question = query
        plan = self._plan(question, offer)
        statements = tuple(self._engine.sql(a) for a in plan.lowered.aggregates if a.measures)
        return Quote(plan, statements, self._left(), _exact.confidence(confidence))

    def table(self, name: str) -> frame.Table:
        """Start a question in Python instead of SQL."""
        from discreet import frame  # noqa: PLC0415 - only for questions in Python

        asker = cast("frame.Asker", self)
        return frame.Table(self.policy.table(name).name, self.policy, asker, self._fanout)

    def ask(
        self,
        query: Query,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
        within: Mapping[str, Number] | None = None,
        confidence: Number = 0.95,
        key: str | None = None,
        fresh: bool = False,
    ) -> Answer:
        """Answer a question given as a plan; the parameters are those of :meth:`sql`."""
        offer = Offer(epsilon, delta, rho, within, confidence)
        return self._ask(query, offer, key=key, fresh=fresh)

    def batch(self, epsilon: Number, delta: Number | None = None) -> Batch:
        """Collect several questions, compose them tightly, pay once.

        The block fixes all questions before anything runs; read the answers
        after it: ``with curator.batch(epsilon=1, delta="1e-6") as b: …``.
        """
        return Batch(self, epsilon, delta)

    def linear(
        self,
        matrix: Any,
        over: Sequence[str],
        *,
        table: str | None = None,
        where: str | None = None,
        labels: Sequence[str] | None = None,
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
    ) -> Answer:
        """Answer linear queries Bx over the data vector x.

        Parameters
        ----------
        matrix
            B: one row per query, one column per cell; cells are the
            combinations of the public values of `over`, the last varying fastest.
        over
            Columns whose combinations make up the cells.
        table, where
            Which table (needed when the policy has several) and which rows.
        labels
            Names of the queries in the answer.
        epsilon, delta, rho
            As in :meth:`sql`. Noise is scaled to the sensitivity of B as a whole.
        """
        query = linear_query(self, matrix, over, table=table, where=where, labels=labels)
        return self.ask(query, epsilon=epsilon, delta=delta, rho=rho)

    def error_of(
        self,
        answer: Any,
        truth_query: str,
        *,
        epsilon: Number,
        delta: Number | None = None,
        column: str | None = None,
        row: Mapping[str, object] | None = None,
    ) -> ErrorEstimate:
        """Buy an estimate of how far a published number is from the truth.

        The published value is a constant by now, so the error has the sensitivity
        of `truth_query` alone; the cost comes on top of what was spent before.
        See :func:`discreet.inference.error_of`.
        """
        from discreet import inference  # noqa: PLC0415 - a door that opens when called

        return inference.error_of(
            self, answer, truth_query, epsilon, column=column, row=row, delta=delta
        )

    def parse(self, query: str) -> Parsed:
        """Read SQL into a question, without pricing or running it."""
        return front.parse(query, self.policy, public_fanout=self._fanout)

    def run(
        self, plans: list[Plan], cost: Cost, *, key: str | None = None, fresh: bool = False
    ) -> list[Answer]:
        """Debit `cost` for all plans together, then measure each.

        What is returned has been stored first, and nothing else is ever returned:
        see :mod:`discreet.ledger` for why that makes retries safe.
        """
        entry = replace(self._entry(plans, cost), key=key, fresh=fresh)
        receipt = self.ledger.debit(entry)
        if receipt.stored is not None:
            return self._answers(_stored.restore(receipt.stored, plans), entry, cached=True)
        if receipt.failed:
            raise EngineError("the run that this key paid for failed; a new one needs a new key")
        failure: Exception | None = None
        try:
            # our own errors are built from public facts alone; no other one may be told
            records = sealed(lambda: [self._measured(plan) for plan in plans], but=(DiscreetError,))
        except Exception as error:  # noqa: BLE001 - raised again below
            failure = error
        if failure is not None:
            # an outcome too: if it cannot be stored it is not told, not even as a context
            self.ledger.settle(receipt, None)
            raise failure
        written = _stored.write(records)
        kept = self.ledger.settle(receipt, written)
        if kept is None:
            raise EngineError("a run for the same key failed first; a new one needs a new key")
        if kept != written:
            return self._answers(_stored.restore(kept, plans), entry, cached=True)
        return self._answers(records, entry, cached=False)

    # -- budget ---------------------------------------------------------------------

    @property
    def budget(self) -> Budget:
        """Spent and left, for the table and for this analyst."""
        return Budget(self.ledger.balance(), self._share(), self.analyst)

    def close(self) -> None:
        """Let go of the engine's resources."""
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Curator({', '.join(self.policy.tables)}; left {self._left()})"

    # -- machinery --------------------------------------------------------------------

    def _ask(self, query: Query, offer: Offer, *, key: str | None, fresh: bool) -> Answer:
        plan = self._plan(query, offer)
        try:
            return self.run([plan], plan.cost, key=key, fresh=fresh)[0]
        except BudgetExceededError as refused:
            raise refused.with_hint(self._what_fits(plan, offer) or refused.hint) from None

    def _what_fits(self, plan: Plan, offer: Offer) -> str | None:
        """Largest ε at which the same question would be admitted, for who asked in ε.

        A function of the price and the balance alone, both public.
        """
        left = self._share().amounts.get("rho")
        ask = offer.ask()
        if left is None or ask.epsilon is None or left[0] >= left[1]:
            return None
        room = left[1] - left[0]
        low, high = Fraction(0), ask.epsilon
        for _ in range(24):
            middle = (low + high) / 2
            cost = price(plan.lowered, replace(ask, epsilon=middle)).cost
            low, high = (middle, high) if cost.rho <= room else (low, middle)
        digits = floor_decimal(low)
        return f'epsilon="{digits}"' if digits else None

    def _plan(self, query: Query, offer: Offer) -> Plan:
        check_own(query, self.policy)
        plan = price(lower(query), offer.ask())
        count_cells(plan)
        return plan

    def _measured(self, plan: Plan) -> Record:
        record = measure(plan, self._engine, fresh_salt())
        statement = {
            **record.statement,
            "policy": self.policy.identity,
            "fingerprint": self.policy.fingerprint,
        }
        return replace(record, statement=statement)

    def _answers(self, records: list[Record], entry: Entry, *, cached: bool) -> list[Answer]:
        left = self._left()
        return [Answer(r, left=left, tainted=entry.tainted, cached=cached) for r in records]

    def _fanout(self, table: str, columns: tuple[str, ...]) -> int:
        return self._engine.fanout(Scan(self.policy.table(table)), columns)

    def _entry(self, plans: list[Plan], cost: Cost) -> Entry:
        first = plans[0].lowered
        return Entry(
            policy=self.policy.identity,
            fingerprint=self.policy.fingerprint,
            analyst=self.analyst,
            plan="+".join(plan.lowered.query.hash for plan in plans),
            cost=cost,
            noise=_stored.describe_noise(plans),
            neighbours=first.query.neighbours.value,
            unit=first.aggregates[0].unit,
            tainted=noise.is_deterministic(),
            tables=tuple(sorted({t.name for plan in plans for t in _tables(plan)})),
            source=self._source,
        )

    def _left(self) -> str:
        return describe_balance(self._share())

    def _share(self) -> Balance:
        """What this analyst draws on; without a name, what the shares leave over."""
        return self.ledger.balance(self.analyst or "")


def _tables(plan: Plan) -> list[pol.Table]:
    return private_tables(plan.lowered.query.relation)
