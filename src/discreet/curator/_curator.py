"""The curator: policy → query → plan → ledger → engine → noise → answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet import _exact, engines, noise
from discreet import policy as pol
from discreet import sql as front
from discreet._exact import Number, show
from discreet.answer import Answer
from discreet.curator._quote import Quote
from discreet.curator._release import count_cells, fresh_salt, measure
from discreet.errors import ParameterError
from discreet.ledger import Balance, Entry, Ledger, MemoryLedger
from discreet.plan import Ask, Plan, Query, Scan, lower, price

if TYPE_CHECKING:
    from discreet import frame


@dataclass(frozen=True)
class Price:
    """The caller's offer as written, before parsing."""

    epsilon: Number | None = None
    delta: Number | None = None
    rho: Number | None = None
    within: Mapping[str, Number] | None = None
    confidence: Number = 0.95

    def ask(self) -> Ask:
        """Parse and validate."""
        return Ask(
            epsilon=None if self.epsilon is None else _exact.epsilon(self.epsilon),
            delta=None if self.delta is None else _exact.delta(self.delta),
            rho=None if self.rho is None else _exact.epsilon(self.rho, "rho"),
            within=None
            if self.within is None
            else {str(k): _exact.decimal(v, f"margin of {k}") for k, v in self.within.items()},
            confidence=_exact.confidence(self.confidence),
        )


class Curator:
    """Holds private tables and answers questions about them within a budget.

    Made by :func:`discreet.open`. Safe to use from several threads.
    """

    def __init__(
        self,
        policy: pol.Policy,
        engine: engines.Engine,
        ledger: Ledger,
        analyst: str | None = None,
    ) -> None:
        self.policy = policy
        self.ledger = ledger
        self.analyst = analyst
        self._engine = engine

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
        """
        parsed = self._parse(query)
        offer = Price(epsilon, delta, rho, within, confidence)
        return self.ask(parsed.query, self._merge(parsed, offer))

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
        offer = Price(epsilon, delta, rho, within, confidence)
        if isinstance(query, str):
            parsed = self._parse(query)
            query, offer = parsed.query, self._merge(parsed, offer)
        plan = self._plan(query, offer)
        statements = tuple(self._engine.sql(a) for a in plan.lowered.aggregates)
        return Quote(plan, statements, self._left())

    def table(self, name: str) -> frame.Table:
        """Start a question in Python instead of SQL."""
        from discreet import frame  # noqa: PLC0415 - only for questions in Python

        return frame.Table(self.policy.table(name), self)

    def ask(self, query: Query, offer: Price) -> Answer:
        """Answer a question given as a plan (SQL and the fluent API end here)."""
        plan = self._plan(query, offer)
        entry = self._entry(plan)
        self.ledger.debit(entry)
        record = measure(plan, self._engine, fresh_salt())
        statement = {
            **record.statement,
            "policy": self.policy.identity,
            "fingerprint": self.policy.fingerprint,
        }
        return Answer(
            replace(record, statement=statement), left=self._left(), tainted=entry.tainted
        )

    # -- budget ---------------------------------------------------------------------

    @property
    def budget(self) -> Budget:
        """Spent and left, for the table and for this analyst."""
        return Budget(self.ledger.balance(), self.ledger.balance(self.analyst), self.analyst)

    def close(self) -> None:
        """Let go of the engine's resources."""
        self._engine.close()

    def __repr__(self) -> str:
        tables = ", ".join(self.policy.tables)
        return f"Curator({tables}; left {self._left()})"

    # -- machinery --------------------------------------------------------------------

    def _parse(self, query: str) -> front.Parsed:
        return front.parse(query, self.policy, public_fanout=self._fanout)

    def _fanout(self, table: str, columns: tuple[str, ...]) -> int:
        return self._engine.fanout(Scan(self.policy.table(table)), columns)

    @staticmethod
    def _merge(parsed: front.Parsed, offer: Price) -> Price:
        """Take ε and δ from the query's own OPTIONS unless the call says them."""
        if offer.epsilon is None and offer.rho is None and offer.within is None:
            offer = replace(offer, epsilon=parsed.epsilon)
        return offer if offer.delta is not None else replace(offer, delta=parsed.delta)

    def _plan(self, query: Query, offer: Price) -> Plan:
        plan = price(lower(query), offer.ask())
        count_cells(plan)
        return plan

    def _entry(self, plan: Plan) -> Entry:
        query = plan.lowered.query
        return Entry(
            policy=self.policy.identity,
            fingerprint=self.policy.fingerprint,
            analyst=self.analyst,
            plan=query.hash,
            cost=plan.cost,
            noise=plan.noise,
            neighbours=query.neighbours.value,
            unit=plan.lowered.aggregates[0].unit,
            tainted=noise.is_tainted(noise.random_words(1)),
        )

    def _left(self) -> str:
        return describe_balance(self.ledger.balance(self.analyst))


def describe_balance(balance: Balance) -> str:
    """Say what is left, every currency once."""
    symbols = {"epsilon": "ε", "delta": "δ", "rho": "ρ"}
    parts = []
    for currency, (spent, total) in balance.amounts.items():
        if total:
            parts.append(f"{symbols[currency]}={_short(total - spent)} of {_short(total)}")
    return ", ".join(parts)


def _short(value: Fraction) -> str:
    text = show(value)
    return text if len(text) <= 6 else f"{float(value):.4g}"


@dataclass(frozen=True)
class Budget:
    """What has been spent and what is left."""

    table: Balance
    share: Balance
    analyst: str | None

    @property
    def spent(self) -> dict[str, Fraction]:
        """Spent so far by everybody, per currency."""
        return {c: s for c, (s, _) in self.table.amounts.items()}

    @property
    def left(self) -> dict[str, Fraction]:
        """Left for this analyst, per currency."""
        return {c: min(self.table.left(c), self.share.left(c)) for c in self.table.amounts}

    def __repr__(self) -> str:
        who = f" for {self.analyst}" if self.analyst else ""
        return f"budget ({self.table.accounting}){who}: {describe_balance(self.share)} left"


def open_curator(
    source: Any = None,
    policy: Any = None,
    *,
    ledger: Ledger | str | None = None,
    analyst: str | None = None,
) -> Curator:
    """Open tables under a policy.

    Parameters
    ----------
    source
        Path or glob (Parquet, CSV), DuckDB or PostgreSQL URL or connection,
        pandas/Polars/Arrow table, or a mapping from table name to any of these.
        Left out, each table's own ``source`` in the policy is used.
    policy
        A policy file's path, TOML text, or a :class:`discreet.policy.Policy`.
    ledger
        Where spending is recorded. ``":memory:"`` or None: this process.
    analyst
        Who asks; decides which share of the budget is charged.
    """
    if policy is None:
        raise ParameterError(
            "a policy says what is public and how much may be lost; none was given",
            hint='dc.open("people.parquet", policy="people.toml")',
        )
    folder = Path(policy).parent if isinstance(policy, str | Path) and _is_file(policy) else Path()
    loaded = policy if isinstance(policy, pol.Policy) else pol.load(policy)
    engine = engines.connect(_resolved(loaded, folder) if source is None else source, loaded)
    book = MemoryLedger(loaded) if ledger is None or isinstance(ledger, str) else ledger
    return Curator(loaded, engine, book, analyst)


def _resolved(policy: pol.Policy, folder: Path) -> dict[str, str]:
    """Sources as the policy states them, paths relative to its own folder."""
    return {
        name: t.source if "://" in t.source else str(folder / t.source)
        for name, t in policy.tables.items()
        if t.source is not None
    }


def _is_file(policy: str | Path) -> bool:
    return "\n" not in str(policy) and Path(policy).is_file()
