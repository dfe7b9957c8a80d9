"""Admission: whether a question may be paid for now. One rule, for asking, for waiting, for prices.

A question is refused if the ledger would refuse it (the policy is closed, or the whole or the
share has no room), if it would exceed the analyst's limit of a day, or if what is left is kept
for questions that wait for an owner. What is said of a price is said by the same rule.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Final

from discreet._dataclass import dataclass
from discreet._exact import show
from discreet._print import short_down
from discreet.answer import CURRENCIES
from discreet.curator import Bill, Counter
from discreet.errors import BudgetExceededError, DiscreetError, Hint
from discreet.ledger import Balance, ChainedLedger, charge
from discreet.plan import Cost
from discreet.service._orders import Order, Orders

_ASIDE: Final = Fraction(1, 2)
"""Part of what is left that one analyst without a share keeps from all others by what waits."""


@dataclass(frozen=True, slots=True)
class Room:
    """What limits one analyst besides the budget: of the day, of what waits, of the owner."""

    daily: Fraction | None
    today: Fraction
    aside: Fraction
    closed: tuple[str, ...]


class Admission:
    """The one rule of admission under a policy, and the account of the day."""

    def __init__(
        self, counter: Counter, orders: Orders, waiting: Callable[[], list[Order]]
    ) -> None:
        self._counter, self._orders, self._waiting = counter, orders, waiting
        self._guard = threading.Lock()
        self._today = ("", {})  # type: tuple[str, dict[str, Fraction]]
        self._reserves: dict[str, tuple[frozenset[str], Cost]] = {}
        """What is kept from others for each analyst, and for which orders."""
        self._underway: dict[str, tuple[str, Cost]] = {}
        """Who is about to be debited what, by order: the ledger does not know it yet."""

    @property
    def _ledger(self) -> ChainedLedger:
        ledger = self._counter.ledger
        assert isinstance(ledger, ChainedLedger)
        return ledger

    def refusal(self, analyst: str, bill: Bill, but: str = "") -> DiscreetError | None:
        """Say why a bill would be refused now; None: it would be paid. `but` is its own order."""
        with self._guard:
            day = self._day()
            refusal = self._counter.refused(bill, analyst)
            if refusal is None:
                return self._beside(day, analyst, bill, but)
            return _fitting(refusal, self._of_today(day, analyst, bill))

    def _beside(
        self, day: Mapping[str, Fraction], analyst: str, bill: Bill, but: str
    ) -> DiscreetError | None:
        """What speaks against a bill besides the ledger."""
        over = self._of_today(day, analyst, bill)
        if over is not None:
            return _fitting(over, self._counter.refused(bill, analyst))
        claims = self._claims(analyst, but)
        claims += self._underway.values() if claims else ()
        if not claims or self._counter.refused(bill, analyst, claims) is None:
            return None
        return self._counter.refused(bill, analyst) or BudgetExceededError(
            "what is left is kept for questions that wait for an owner",
            hint="wait for the decisions, or offer less",
        )

    def _of_today(
        self, day: Mapping[str, Fraction], analyst: str, bill: Bill
    ) -> BudgetExceededError | None:
        """Say that a bill would exceed the analyst's limit of a day, if it would."""
        spent, daily = day.get(analyst, Fraction(0)), self._counter.policy.service.daily
        if daily is None or spent + bill.cost.epsilon <= daily:
            return None
        return _over(daily, max(daily - spent, Fraction(0)), bill.cost.epsilon)

    def _claims(self, analyst: str, but: str) -> list[tuple[str, Cost]]:
        """What others wait to pay, as far as it is kept from an analyst, and all of their own."""
        prices: dict[str, dict[str, Cost]] = {}
        waiting = self._waiting()
        for order in waiting:
            if order.id != but:
                cost = self._orders.bill_of(order).cost
                prices.setdefault(order.analyst, {})[order.id] = cost
        present = {order.analyst for order in waiting}
        self._reserves = {who: reserve for who, reserve in self._reserves.items() if who in present}
        if not prices:
            return []
        left, shares, claims = self._ledger.balance(), self._ledger.state.limits.shares, []
        for who, costs in prices.items():
            cost = _together(list(costs.values()))
            if who != analyst and who not in shares:
                cost = self._from_others(who, frozenset(costs), _at_most(cost, left))
            left = left.after(cost)
            claims.append((who, cost))
        return claims

    def _from_others(self, who: str, orders: frozenset[str], now: Cost) -> Cost:
        """What is kept from others for somebody's orders: by what was left when they came.

        Every debit of others asks, so they took nothing between the order and the first time.
        Half of what is left now would be less after every question of somebody else's.
        """
        before, cost = self._reserves.get(who, (frozenset[str](), now))
        cost = now.at_least(cost) if before <= orders else now
        self._reserves[who] = orders, cost
        return cost

    def reserve(self, order: Order, bill: Bill) -> dict[str, Fraction]:
        """Take a price from an analyst's day, or refuse it; give the day's account.

        The debit that follows asks the ledger: it may find one that was made before.
        """
        with self._guard:
            day = self._day()
            refusal = self._beside(day, order.analyst, bill, order.id)
            if refusal is not None:
                raise refusal
            day[order.analyst] = day.get(order.analyst, Fraction(0)) + order.price
            self._underway[order.id] = order.analyst, bill.cost
            return day

    def charged(self, order: Order) -> None:
        """Note that the ledger knows of a debit."""
        with self._guard:
            self._underway.pop(order.id, None)

    def give_back(self, day: dict[str, Fraction], order: Order) -> None:
        """Give back what was not charged, to the day that it was taken from."""
        with self._guard:
            self._underway.pop(order.id, None)
            day[order.analyst] -= order.price

    def room(self, analyst: str, *, everybody: bool) -> Room:
        """Say what limits an analyst besides the budget.

        Set aside is what waits and draws on the same share; for `everybody`, all that waits.
        """
        with self._guard:
            today = self._day().get(analyst, Fraction(0))
        state, service = self._ledger.state, self._counter.policy.service
        shares = state.limits.shares

        def own(who: str) -> bool:
            return who == analyst if analyst in shares else who not in shares

        prices = [o.price for o in self._waiting() if everybody or own(o.analyst)]
        return Room(service.daily, today, sum(prices, Fraction(0)), state.closed)

    def mark(self, analyst: str) -> str:
        """Name all that a price's admission follows besides the ledger's lines."""
        service = self._counter.policy.service
        with self._guard:
            spent = "" if service.daily is None else f"{self._day().get(analyst)} {self._today[0]}"
            return f"{spent} {[o.id for o in self._waiting()]} {list(self._underway)}"

    def _day(self) -> dict[str, Fraction]:
        """What each analyst has spent today; read from the ledger once a day."""
        today = dt.datetime.now(dt.UTC).date().isoformat()
        if self._today[0] != today:
            spent: dict[str, Fraction] = {}
            for line in self._ledger.lines if self._counter.policy.service.daily else ():
                if line.kind == "debit" and line.when.startswith(today):
                    who = line.content.get("analyst") or ""
                    cost = Fraction(line.content["cost"]["epsilon"])
                    spent[who] = spent.get(who, Fraction(0)) + cost
            self._today = (today, spent)
        return self._today[1]


def _over(daily: Fraction, left: Fraction, price: Fraction) -> BudgetExceededError:
    return BudgetExceededError(
        f"today's limit for one analyst is ε={show(daily)}, and ε={short_down(left)} is left of "
        f"it (days are UTC); this question costs ε={show(price)}",
        hint=Hint("epsilon", short_down(left)) if left else "ask again tomorrow",
    )


def _fitting(refusal: DiscreetError, other: DiscreetError | None) -> DiscreetError:
    """Let a refusal's hint fit under the limit of another one too, or say that nothing does."""
    one, two = refusal.hint, None if other is None else other.hint
    if not isinstance(one, Hint) or two is None:
        return refusal
    if not isinstance(two, Hint):
        return refusal.with_hint(two)
    prices = [dict(h.parameters) for h in (one, two) if h.callee is None]
    if [list(p) for p in prices] != [["epsilon"], ["epsilon"]]:
        return refusal
    less = Fraction(str(prices[1]["epsilon"])) < Fraction(str(prices[0]["epsilon"]))
    return refusal.with_hint(two) if less else refusal


def _together(costs: Sequence[Cost]) -> Cost:
    """What several questions cost."""
    return Cost(**{n: sum((getattr(c, n) for c in costs), Fraction(0)) for n in CURRENCIES})


def _at_most(cost: Cost, left: Balance) -> Cost:
    """Set aside no more of what is left than one may keep from all others."""
    price, after = charge(left.amounts, cost), left.after(cost)
    parts = [
        min((_ASIDE * max(left.left(c), Fraction(0)) / price[c] for c in route if price[c]),
            default=Fraction(1))
        for route in after.routes
    ]  # fmt: skip
    part = min(Fraction(1), max(parts, default=Fraction(1)))
    return Cost(**{n: part * getattr(cost, n) for n in CURRENCIES})
