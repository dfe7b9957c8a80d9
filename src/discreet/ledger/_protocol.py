"""What a ledger is: the only thing that can say yes to a release."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from typing import Any, Protocol

from discreet import privacy
from discreet._dataclass import dataclass, field, replace
from discreet._exact import turning
from discreet._frozen import freeze
from discreet._print import plural
from discreet.plan import Cost
from discreet.policy import Budget


@dataclass(frozen=True, slots=True)
class Entry:
    """One debit: who asked what, under which policy, at which cost.

    Everything here is public: parameters and hashes, never data.

    Parameters
    ----------
    policy, fingerprint
        Identity of the policy, which owns the budget, and hash of its whole text.
    analyst
        Who asks; decides which share is charged.
    plan
        Hash of the question.
    cost
        Price in every currency.
    noise
        Kind and exact parameters of the noise that will be drawn.
    neighbours, unit
        What the price protects.
    tainted
        Whether the noise would come from the deterministic test source.
    tables
        The private tables asked about.
    source
        Label of the data; a stored answer is reused only for the same label.
    key
        Idempotency key of the caller: one key, one debit, one answer.
    fresh
        Pay for a new answer even if an equal question has been answered. A run that was
        cut short is taken up nevertheless: it has no answer yet.
    once
        Whether the plan names something that is released at most once in a period, as a tick of
        a stream: its price and share are no part of the question.
    paid_by
        Plan of another such entry, which has paid for this one: unless that was answered in this
        period, and no line was lost since, there is nothing to release.
    runs
        Whether a run follows whose outcome will be stored; otherwise the debit
        meters something that another debit has paid for, or enters a loss from elsewhere.
    external
        What was released by other software, for a loss from elsewhere.
    text
        What is asked, in words: for whoever reads the history.
    covers
        For lines that are lost: the budget whose filter bounds them together with so many
        debits before them. Losses are read off it, and not off the cost, which only keeps
        budgets shut.
    live
        Hashes of debits whose runs go on in this process, where its own is entered: a
        fresh question is none of theirs.
    """

    policy: str
    fingerprint: str
    analyst: str | None
    plan: str
    cost: Cost
    noise: str
    neighbours: str
    unit: str | None
    tainted: bool = False
    tables: tuple[str, ...] = ()
    source: str = ""
    key: str | None = None
    fresh: bool = False
    once: bool = False
    paid_by: str | None = None
    runs: bool = True
    external: str | None = None
    text: str | None = None
    covers: tuple[Budget, int] | None = None
    live: set[str] = field(default_factory=set, compare=False, repr=False)

    @property
    def unprotected(self) -> tuple[str, ...]:
        """What it releases exactly, in words: the cost says nothing about that."""
        return exact_in(self.noise)


def exact_in(noise: str) -> tuple[str, ...]:
    """Return what a debit releases exactly, by its account of the noise.

    >>> exact_in('[[{"kind":"publication","law":{"unprotected":["the total"]}}]]')
    ('the total',)
    """
    if '"unprotected"' not in noise:
        return ()
    names: dict[str, None] = {}

    def search(part: dict[str, Any] | list[Any]) -> None:
        if isinstance(part, dict):
            names.update(dict.fromkeys(map(str, part.get("unprotected") or ())))
        for inner in part.values() if isinstance(part, dict) else part:
            if isinstance(inner, dict | list):
                search(inner)

    search([json.loads(noise)])
    return tuple(names)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a ledger says to a debit.

    ``number`` and ``hash`` name the line that paid. With ``stored`` there is an
    answer already, free of charge; with ``failed`` the run that was paid for is
    known to have failed; with neither, the run may begin.
    """

    number: int
    hash: str
    when: str
    charged: bool = True
    stored: str | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Verified:
    """What :meth:`ChainedLedger.verify` found to be in order."""

    lines: int
    debits: int
    period: int
    head: str
    unmarked: tuple[str, ...] = ()

    def __str__(self) -> str:
        missing = " and ".join(self.unmarked)
        gaps = f"; {missing} {'is' if len(self.unmarked) == 1 else 'are'} missing"
        return (
            f"{plural(self.lines, 'line')}, {self.debits} of them debits, period {self.period}: "
            f"chain, totals and {'the other ' if missing else ''}anchors agree"
            f"{gaps if missing else ''} (head {self.head[:16]})"
        )


Route = tuple[str, ...]
"""Currencies that must all have room; the first is not δ."""


def charge(totals: Collection[str], cost: Cost) -> dict[str, Fraction]:
    """Cost of a query in the currencies that a budget caps."""
    if "rho" not in totals:
        price = {"epsilon": cost.epsilon, "delta": cost.delta}
        return {currency: price[currency] for currency in totals}
    price = {"epsilon": cost.epsilon, "rho": cost.rho, "delta": cost.rho_delta}
    return {currency: price[currency] for currency in price if currency in totals}


def routes(totals: Collection[str], *, pure: bool = True) -> tuple[Route, ...]:
    """Ways to pay: each is a set of currencies that must all have room.

    `pure`: there is no δ beyond that of selections, of Gaussian noise or of numerical
    composition.
    """
    if not {"epsilon", "rho"} <= set(totals):
        return (tuple(c for c in ("epsilon", "rho", "delta") if c in totals),)
    by_rho = ("rho", "delta")
    return (("epsilon", "delta"), by_rho) if pure else (by_rho,)


@dataclass(frozen=True, slots=True)
class Balance:
    """Spent, total and remaining budget in the policy's own currency.

    ``amounts`` maps a currency ("epsilon", "delta", "rho") to ``(spent, total)``. A question
    must find room in all currencies of one of ``routes``. ``delta`` is what the budget
    states for everything together.
    """

    accounting: str
    amounts: Mapping[str, tuple[Fraction, Fraction]]
    routes: tuple[Route, ...] = ()
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        # balances are remembered and handed out: nobody may change what others are shown
        object.__setattr__(self, "amounts", freeze(self.amounts))
        object.__setattr__(self, "routes", self.routes or routes(self.amounts))

    def left(self, currency: str) -> Fraction:
        """What remains of one currency."""
        spent, total = self.amounts[currency]
        return total - spent

    @property
    def fits(self) -> bool:
        """Whether what is spent is within one route."""
        return any(all(self.left(c) >= 0 for c in route) for route in self.routes)

    @property
    def currency(self) -> str:
        """What the budget is stated in, and shown in: "epsilon" or "rho"."""
        return "epsilon" if "epsilon" in self.amounts else "rho"

    @property
    def total(self) -> Fraction:
        """The whole budget in its currency."""
        return self.amounts[self.currency][1]

    @property
    def used(self) -> Fraction:
        """Part of the whole that one more question can no longer have."""
        return 1 - self.remaining / self.total if self.total else Fraction(1)

    def used_of(self, route: Route) -> Fraction:
        """Part of a route that is spent."""
        spent, total = self.amounts[route[0]]
        return spent / total if total else Fraction(1)

    @property
    def remaining(self) -> Fraction:
        """What is left: the largest price, in the budget's currency, of one more question.

        Any question of that price, and of no δ, would be admitted, whatever its noise. Where a
        budget may be paid by ε or by ρ it is the larger of both, so it may shrink by less than
        what was paid.
        """
        return max(Fraction(0), *(self._largest(route) for route in self.routes))

    def _largest(self, route: Route) -> Fraction:
        """Largest price of a question without δ for which a route has room."""
        left, whole = self.left(route[0]), self.total
        if route[0] == self.currency or left <= 0:
            return left

        def beyond(epsilon: Fraction) -> bool:
            return privacy.Pure(epsilon).zcdp().rho0 > left

        return turning(beyond, Fraction(0), whole, 2.0**-40)[0] if beyond(whole) else whole

    def after(self, cost: Cost) -> Balance:
        """Balance if `cost` were paid."""
        price = charge(self.amounts, cost)
        amounts = {c: (s + price[c], t) for c, (s, t) in self.amounts.items()}
        open_ = set(routes(amounts, pure=not cost.by_rho))
        return replace(self, amounts=amounts, routes=tuple(r for r in self.routes if r in open_))

    def more(self, cost: Cost) -> int | None:
        """How many questions of this cost still fit; None: any number."""
        price, counts = charge(self.amounts, cost), []
        for route in self.after(cost).routes:
            times = [self.left(c) // price[c] for c in route if price[c]]
            if not times:
                return None
            counts.append(max(min(times), 0))
        return max(counts, default=0)


@dataclass(frozen=True, slots=True)
class Standing:
    """The least price of any question, and the balances of the whole and of the share that pays."""

    least: Cost
    balances: tuple[Balance, Balance]


class Ledger(Protocol):
    """Debit before run, exact rationals, no refund."""

    def debit(self, entry: Entry) -> Receipt:
        """Record a debit durably, or find the answer it already paid for, or refuse."""
        ...

    def found(self, entry: Entry) -> Receipt | None:
        """Give the stored answer that an equal question has, or its key; nothing is written."""
        ...

    def knows(self, entry: Entry) -> bool:
        """Tell whether `entry` has been answered: it would be free."""
        ...

    def settle(self, receipt: Receipt, record: str | None) -> str | None:
        """Store the outcome of a run (None: it failed), unless one is stored.

        Returns the outcome that is stored. Only that may be released.
        """
        ...

    def balance(self, analyst: str | None = None) -> Balance:
        """Balance of the table, or of one analyst's share."""
        ...

    @property
    def entries(self) -> Sequence[Entry]:
        """All debits, oldest first."""
        ...
