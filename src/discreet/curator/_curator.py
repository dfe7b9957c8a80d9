"""The curator: policy → query → plan → ledger → engine → noise → answer."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from discreet import engines, noise
from discreet import policy as pol
from discreet import sql as front
from discreet._dataclass import replace
from discreet._exact import Number, show
from discreet._recent import Recent
from discreet._text import plain_str
from discreet.answer import Answer, Record
from discreet.curator import _auto, _partition, _room, _stored, _united
from discreet.curator._batch import Batch
from discreet.curator._budget import Budget, describe_balance
from discreet.curator._coverage import Coverage, coverage_query
from discreet.curator._describe import Description
from discreet.curator._external import external_job
from discreet.curator._fits import Fits
from discreet.curator._linear import linear_query
from discreet.curator._offer import read_offer
from discreet.curator._proof import check_statements
from discreet.curator._quote import Quote
from discreet.curator._release import check_alive, check_state, measured
from discreet.curator._road import Road
from discreet.curator._terms import Terms
from discreet.errors import BudgetExceededError, EngineError, Hint, QueryError
from discreet.ledger import Balance, Ledger, Receipt, Standing, standing
from discreet.plan import Ask, Cost, Lowered, Plan, Query, Scan, lower, weight

if TYPE_CHECKING:
    from discreet import frame, release
    from discreet.inference import ErrorEstimate
    from discreet.privacy import PrivacyLoss
    from discreet.sql import Parsed

_REMEMBERED = 128
"""Texts that are kept read, and lowered questions, each with its proof done."""


class Curator(Terms, Fits):
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
        *,
        complete: pol.Policy | None = None,
    ) -> None:
        super().__init__(policy, ledger, analyst)
        # with the values of public tables that the policy does not list
        self._complete = policy if complete is None else complete
        self._engine = engine
        self._process = os.getpid()
        self._closed = False
        # without a lasting label of the data, answers are reused by this handle alone
        self._source = uuid.uuid4().hex if source is None else source
        self._names = (policy.identity, policy.fingerprint)
        # shared by copies of this curator that ask for others
        self._lowerings = Recent[Query, Lowered](_REMEMBERED, lambda query, _: weight(query.keys))
        self._texts = Recent[str, "Parsed | front.United"](_REMEMBERED, lambda _, f: weight(f.keys))

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
        limits: Literal["auto"] | None = None,
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
            Instead: margins per output column that must hold at this confidence in every
            row, totals included; the least cost that meets them is charged.
        limits
            "auto": how many rows of a unit count is chosen privately, within the policy's
            limit, for a fifth of the price; the answer says which share of rows is lost.
        key
            Your own name for this request. Asking again with the same key never
            pays twice: it gives the stored answer, or finishes a run that was killed.
        fresh
            Pay for new noise even if the same question at the same cost has been
            answered; otherwise that answer is given again for free.
        """
        if not isinstance(query, str):
            raise QueryError(
                f"sql takes text, not {type(query).__name__}",
                hint=Hint.call(
                    "curator.sql", "discreet ask", "SELECT COUNT(*) AS n FROM people", epsilon="0.1"
                ),
            )
        parsed = self._read(query)
        offer = read_offer(parsed, epsilon, delta, rho, within, confidence=confidence)
        if isinstance(parsed, front.United):
            _auto.check_alone(limits)
            return _united.answer(self, parsed, offer, key=key, fresh=fresh).asked(query)
        return self._ask(parsed.query, offer, limits, key=key, fresh=fresh).asked(query)

    def preview(
        self,
        query: str | frame.Table,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
        within: Mapping[str, Number] | None = None,
        confidence: Number = 0.95,
        limits: Literal["auto"] | None = None,
    ) -> Quote:
        """Price a query without touching data or budget; the parameters are those of :meth:`sql`.

        With ``limits="auto"`` margins are those under the policy's limit: which one will be
        chosen is not known before it is paid for.
        """
        parsed = self._read(query)
        offer = read_offer(parsed, epsilon, delta, rho, within, confidence=confidence)
        if isinstance(parsed, front.United):
            _auto.check_alone(limits)
            plans, cost = _united.plans(self, parsed, offer)
            first, *others = (self._quote(plan, offer, self._standing) for plan in plans)
            return _united.UnionQuote(
                first.plan,
                first.sql,
                first.left,
                first.confidence,
                stored=self._road.knows(_stored.job(plans, cost, str)),
                total=cost,
                others=tuple(others),
            )
        choice, now = _auto.priced(self, parsed.query, offer, limits), self._standing
        # what would be refused is the whole price
        whole = self._quote(self._plan(parsed.query, offer, now), offer, now)
        if choice is None:
            return whole
        quote = self._quote(self._plan(parsed.query, choice.rest, now), choice.rest, now)
        choosing = self._quote(choice.plan, choice.first, now)
        return replace(
            quote,
            sql=(*choosing.sql, *quote.sql),
            refused=whole.refused,
            stored=False,
            choice=choice.plan,
        )

    def _quote(self, plan: Plan, offer: Ask, now: Standing) -> Quote:
        statements = tuple(self._engine.sql(a) for a in plan.lowered.aggregates if a.measures)
        left = describe_balance(now.balances, plan.cost)
        stored = self._road_at(now.least).knows(_stored.job([plan], plan.cost, str))
        refused = None if stored else _room.would_refuse(now.balances, plan, offer)
        later = None if stored else _room.later(now.balances, plan)
        return Quote(plan, statements, left, offer.confidence, refused, stored, later=later)

    def table(self, name: str) -> frame.Table:
        """Start a question in Python instead of SQL."""
        from discreet import frame  # noqa: PLC0415 - only for questions in Python

        own = self.policy.table(plain_str(name, "a table's name", QueryError))
        return frame.Table(own.name, self._complete, self, self._fanout)

    def ask(
        self,
        question: frame.Table,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
        within: Mapping[str, Number] | None = None,
        confidence: Number = 0.95,
        limits: Literal["auto"] | None = None,
        key: str | None = None,
        fresh: bool = False,
    ) -> Answer:
        """Answer a question of the fluent API; the parameters are those of :meth:`sql`."""
        parsed = self._question(question)
        offer = read_offer(parsed, epsilon, delta, rho, within, confidence=confidence)
        return self._ask(parsed.query, offer, limits, key=key, fresh=fresh)

    def batch(
        self, epsilon: Number | None = None, delta: Number | None = None,
        *, nulls: bool = False, consistent: bool = False,
    ) -> Batch:  # fmt: skip
        """Collect several questions, compose them tightly, pay once.

        The block fixes all questions before anything runs; read the answers
        after it: ``with curator.batch(epsilon=1, delta="1e-6") as b: …``.

        Parameters
        ----------
        epsilon, delta
            What all questions may cost together. Without ε every question states ``within``.
        nulls
            Show rows without a key as a group of their own, whose key is NULL, at no further
            price. Margins add up then, and :meth:`Batch.consistent` makes use of it.
        consistent
            Check before the debit that :meth:`Batch.consistent` will fit these counts, and let
            limits of units with several rows keep the same rows in every question.
        """
        return Batch(self, epsilon, delta, nulls=nulls, consistent=consistent)

    def partition(
        self,
        column: str,
        *,
        table: str | None = None,
        epsilon: Number | None = None,
        rho: Number | None = None,
        name: str = "",
    ) -> _partition.Partition:
        """Pay once for questions about every part of a table: parts cost the dearest, not the sum.

        ``parts = curator.partition("sex", epsilon=1)``; then ``parts["F"].sql(…, epsilon="0.4")``
        draws on the ε that every part has. Only where each row is a unit, under add-remove.

        **Rows must not change their part while a partition lasts**: who moves is asked about twice
        and paid for once. The policy has to promise it, by ``fixed = ["sex"]`` under the table.

        Parameters
        ----------
        column, table
            The column whose public values divide the table (named where there are several).
        epsilon, rho
            What each part has, and what the partition costs. Opened again at the same price it is
            the same partition, with what was asked before, and free.
        name
            Tells another partition of the same column and price apart.
        """
        return _partition.Partition(self, column, table, name, epsilon=epsilon, rho=rho)

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
        offer = read_offer(None, epsilon, delta, rho)
        return self._ask(query, offer, key=None, fresh=False)

    def coverage(
        self,
        question: str | frame.Table,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
        key: str | None = None,
        fresh: bool = False,
    ) -> Coverage:
        """Buy how much a question's row limit leaves out: units that lose rows, and rows.

        Intervals of answers cover the table *after* its limits; this says how far that is
        from the table itself. One unit is in one bucket of the histogram, so it is cheap.

        Parameters
        ----------
        question
            The question whose limit is meant; its WHERE and joins count.
        epsilon, delta, rho, key, fresh
            As in :meth:`sql`.
        """
        query, limit, least, most = coverage_query(self, self._question(question).query)
        offer = read_offer(None, epsilon, delta, rho)
        return Coverage(self._ask(query, offer, key=key, fresh=fresh), limit, least, most)

    def publication(
        self,
        table: str | frame.Table,
        workload: release.Workload,
        *,
        columns: Sequence[str] | Mapping[str, str] = (),
        bins: Mapping[str, Number] | None = None,
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
        method: str = "auto",
        owner: str | None = None,
        group: str | None = None,
        **options: Any,
    ) -> release.Proposal:
        """Price a publication without touching data or budget; see :meth:`publish`."""
        from discreet import release  # noqa: PLC0415 - only for publications

        how: Any = {"columns": columns, "bins": bins, "method": method, "owner": owner}
        query = release.question(self._rows(table), workload, group=group, options=options, **how)
        bill = self._plan(query, read_offer(None, epsilon, delta, rho))
        return release.Proposal.of(
            bill, self._balance_words(), partial(self._run, [bill], bill.cost)
        )

    def publish(
        self,
        table: str | frame.Table,
        workload: release.Workload,
        *,
        nonnegative: bool = False,
        key: str | None = None,
        fresh: bool = False,
        **how: Any,
    ) -> release.Publication:
        """Publish a workload over a table's public domain.

        Parameters
        ----------
        table
            A table's name, or ``curator.table("people").where("age >= 18")``.
        workload
            The queries, over the columns' public values.
        nonnegative, key, fresh
            As for :func:`discreet.release.publish`, and as in :meth:`sql`.
        how
            What :meth:`publication` takes: ``columns`` (and ``bins``, widths by column), a
            price (``epsilon``, ``delta``, ``rho``), the ``method`` and its options; an
            ``owner`` who answers for numbers that are released exactly.
        """
        proposal = self.publication(table, workload, **how)
        return proposal.publish(nonnegative=nonnegative, key=key, fresh=fresh)

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
        from discreet import inference  # noqa: PLC0415 - loaded when it is called

        return inference.error_of(
            self, answer, truth_query, epsilon, column=column, row=row, delta=delta
        )

    def record_external(
        self,
        loss: PrivacyLoss,
        *,
        what: str,
        table: str | None = None,
        delta: Number | None = None,
        key: str | None = None,
    ) -> Receipt:
        """Debit what other software releases about these people to the same budget.

        Do it before the release: a loss that does not fit is refused, and then must not
        be released.

        Parameters
        ----------
        loss
            Its privacy loss (``discreet.privacy``); without a stated relation and unit it
            is taken to be about those of the policy.
        what
            What is released, for the record: a model, a table, a report.
        table
            The table it is about; all private ones if left out.
        delta
            For a loss without a finite ε of its own (Gaussian noise): the δ at which
            its ε is charged.
        key
            Your own name for this entry: with it, entering twice pays once.

        Examples
        --------
        >>> from discreet import privacy as p
        >>> import discreet as dc, pyarrow as pa
        >>> table = dc.policy.Table("people", [dc.policy.Integer("age", 0, 115)])
        >>> policy = dc.policy.Policy([table], dc.policy.Budget("1"), name="elsewhere")
        >>> curator = dc.open(pa.table({"age": [31, 47]}), policy, ledger=":memory:")
        >>> curator.record_external(p.Pure("0.25"), what="model of 2026").number
        2
        >>> curator.budget.left["epsilon"]
        Fraction(3, 4)
        """
        job = external_job(self.policy, loss, what=what, table=table, delta=delta)
        return self._road.enter(job, key=key)

    # -- what can be asked about ------------------------------------------------------

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables."""
        return tuple(self.policy.tables)

    def describe(self, table: str | None = None) -> Description:
        """Say which columns there are and what may stand in them; free, from the policy alone.

        Parameters
        ----------
        table
            Only this one.
        """
        own = self.policy.tables.values() if table is None else [self.policy.table(table)]
        return Description(tuple(own))

    # -- budget ---------------------------------------------------------------------

    @property
    def budget(self) -> Budget:
        """Spent and left, for the table and for this analyst."""
        # no price and no debit follows that would read the ledger and refuse it
        now = standing(self.ledger, self.policy, self.analyst, checked=True)
        return Budget(*now.balances, self.analyst)

    def close(self) -> None:
        """Let go of engine and ledger connections; no further question is answered."""
        self._closed = True
        self._engine.close()
        super().close()

    def __repr__(self) -> str:
        return f"Curator({', '.join(self.policy.tables)}; {self._balance_words()})"

    # -- machinery --------------------------------------------------------------------

    def _read(self, question: str | frame.Table) -> Parsed | front.United:
        """Read what may be several questions with UNION ALL between them."""
        if isinstance(question, str) and not self._closed:
            text = plain_str(question, "a question", QueryError)
            return self._texts(
                text, lambda: front.parse_any(text, self._complete, public_fanout=self._fanout)
            )
        return self._question(question)

    def _question(self, question: str | frame.Table) -> Parsed:
        """Read SQL text or a fluent question under this curator's own policy.

        Whatever else the caller holds, bounds, keys and limits come from here.
        """
        if self._closed:
            raise QueryError("this curator is closed; nothing was charged")
        if isinstance(question, str):
            parsed = self._read(question)
            if isinstance(parsed, front.Parsed):
                return parsed
            return front.parse(question, self._complete)  # says that one SELECT is asked here
        from discreet import frame  # noqa: PLC0415 - only for questions in Python

        return frame.parse(question, self._complete, self._fanout)

    def _rows(self, table: str | frame.Table) -> frame.Table:
        """Read which rows are meant, under this curator's own policy, as :meth:`_question` does."""
        from discreet import frame  # noqa: PLC0415 - only for questions in Python

        if isinstance(table, str):
            return self.table(table)
        return frame.rows_of(table, self._complete, self, self._fanout)

    def _ask(
        self, query: Query, offer: Ask, limits: str | None = None, *, key: str | None, fresh: bool
    ) -> Answer:
        query, offer, notes = _auto.choose(self, query, offer, limits, key=key, fresh=fresh)
        now = self._standing
        plan = replace(self._plan(query, offer, now, fresh=fresh), notes=notes)
        try:
            return self._run([plan], plan.cost, now.least, key=key, fresh=fresh)[0]
        except BudgetExceededError as refused:
            raise refused.with_hint(_room.what_fits(self._balances, plan, offer, refused)) from None

    def _offered(
        self,
        question: str,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
        within: Mapping[str, Number] | None = None,
        confidence: Number = 0.95,
    ) -> tuple[Parsed | front.United, Ask]:
        """Read what is asked and what is offered for it."""
        parsed = self._read(question)
        return parsed, read_offer(parsed, epsilon, delta, rho, within, confidence=confidence)

    def _plan(
        self, query: Query, offer: Ask, now: Standing | None = None, *, fresh: bool = False
    ) -> Plan:
        now = now or self._standing
        least = now.least
        if offer.epsilon is not None and offer.epsilon < least.epsilon:
            # the least price is charged anyway: it buys as much accuracy
            offer = replace(offer, epsilon=least.epsilon)
        plan = _room.in_currency(now.balances, self._lowered(query), offer, least)
        return plan if fresh else _stored.measured_plan(plan, self._road_at(least))

    def _lowered(self, query: Query) -> Lowered:
        """Lower a question whose statements are proved: safe on any data, limits in force.

        What follows from the question alone is worked out once for equal questions.
        """

        def work() -> Lowered:
            check_statements(self._engine, lowered := lower(query))
            return lowered

        return self._lowerings(query, work)

    def _run(
        self,
        plans: list[Plan],
        cost: Cost,
        least: Cost | None = None,
        *,
        key: str | None = None,
        fresh: bool = False,
    ) -> list[Answer]:
        """Pay `cost` for all plans together, measure each, give what is stored."""
        check_state(plans, self._engine)
        records: list[Record] = []

        def run() -> str:
            records.extend(measured(plans, self._engine, self.policy))
            return _stored.write(records)

        job, name = _stored.job(plans, cost, run), None if key is None else plain_str(key, "key")
        road = self._road if least is None else self._road_at(least)
        check_alive(self._engine, lambda: fresh or road.find(job, key=name) is None)
        outcome = road.travel(job, key=name, fresh=fresh)
        left = describe_balance(self._balances, cost)
        if outcome.again is not None:
            left += f" · paid before; ε {show(outcome.again.epsilon)} charged for the restart"
        if outcome.cached:
            records = _stored.restore(outcome.text, plans)
        tainted = noise.is_deterministic()
        return [Answer(r, left=left, tainted=tainted, cached=outcome.cached) for r in records]

    @property
    def _road(self) -> Road:
        """The one way to a release under this curator's policy."""
        return self._road_at(self._standing.least)

    def _road_at(self, least: Cost) -> Road:
        if os.getpid() != self._process:
            # an engine's threads do not follow a fork: it would hang, after the debit
            raise EngineError(
                "this curator was opened by another process, before a fork; nothing was charged",
                hint="open a curator in each process, after the fork",
            )
        _, text = self._names
        return Road(self.ledger, self.policy.payer, text, self.analyst, self._source, least)

    @property
    def _standing(self) -> Standing:
        """The least price, what the table has left, and what this analyst has."""
        return standing(self.ledger, self.policy, self.analyst)

    @property
    def _balances(self) -> tuple[Balance, Balance]:
        """What the table has left, and what this analyst has."""
        return self._standing.balances

    def _fanout(self, table: str, columns: tuple[str, ...]) -> int:
        return self._engine.fanout(Scan(self.policy.table(table)), columns)

    def _balance_words(self) -> str:
        return describe_balance(self._balances)
